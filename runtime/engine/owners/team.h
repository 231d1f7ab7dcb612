/* team.h: several owners turn the partitions of one run.
 *
 * Each has a dfi_exec of its own: frames, records, a queue, an inbox, books; what they share is the plan and what was
 * given. A message between two owners is a message, left in the inbox of the one that receives it, under the paper's
 * rendezvous key: the Transfer and the tag, the numbers of the iterations around it. The Recv is a token of its own
 * there; whichever of the two comes first waits in a table for the other one. An owner is done when its top level is,
 * since no iteration is over before its Recvs are. When one fails the others end with it.
 *
 * Over ranks (rank.h) a team is the owners of this process; a message to another one's goes there as bytes, and what
 * comes from there is a message again.
 *
 * The run's own exec is the first member. It begins and ends the others, which are turned by threads that last longer
 * than a run.
 */
#ifndef DFLOW_TEAM_H
#define DFLOW_TEAM_H
#include "engine/executor.h"

/* Why several owners cannot turn this run, though the session has them; NULL: they can, if it has. */
const char *dfi_team_refused(const dfi_exec *x);
/* The others are there, and wait; then they begin. False: there are no threads for them, and x turns all; a run over
 * ranks has failed then. */
bool dfi_team_gather(dfi_exec *x);
void dfi_team_go(dfi_exec *x);
/* x has done its part, or has failed: waits for the others, and has what they counted. */
void dfi_team_end(dfi_exec *x);
/* Last of all, in a run over ranks: rank 0 is told that this one has done its part. */
void dfi_team_say_end(dfi_exec *x);
/* Their values go; and they do. */
void dfi_team_reset(dfi_exec *x);
void dfi_team_free(dfi_exec *x);
/* The other members; NULL past the last one. For sums of what they did. */
const dfi_exec *dfi_team_member(const dfi_exec *x, int32_t i);
/* Nodes that owner i ran in a run that is over; -1: it had no such owner. */
int64_t dfi_team_ran(const dfi_exec *x, int32_t i);
/* The run's own exec. */
const dfi_exec *dfi_team_first(const dfi_exec *x);
/* The first owner looks whether anything can move. If nothing can, one that waits for what is outside is to say so. It
 * looks alone: its thread calls the program's functions, which others may wait for. */
void dfi_team_stall(dfi_exec *x);
/* The same over ranks: all that x has waits; rank 0 asks the others whether all they have does. */
void dfi_team_look_stalled(dfi_exec *x);
/* Can no run of the session move? x is one that might give up. */
bool dfi_calls_all_stuck(dfi_exec *x);
/* Has it been found out that nothing can move? */
bool dfi_team_found_stalled(const dfi_exec *x);
/* Is it x that has to? */
bool dfi_team_stalled(const dfi_exec *x);
/* ---- for inspectors ---- */
/* How many owners turn x's run, and the i-th of them; the first is the run's own. */
int32_t dfi_team_size(const dfi_exec *x);
dfi_exec *dfi_team_at(const dfi_exec *x, int32_t i);
/* Those of them that wait are to come by. */
void dfi_team_call(const dfi_exec *x);
/* Tells of every message that has come to x and not met its Recv. How many. */
int64_t dfi_team_messages(dfi_exec *x, void (*tell)(void *to, const dfi_team_message *l), void *to);
/* Where a Recv that waits stops: for what makes one look so. */
void dfi_team_recv_stop(df_kernel *k, void *user);
/* What other ranks saved in a run that is over. Borrowed. */
const struct dfi_saved *dfi_team_saved_elsewhere(const dfi_exec *x);
/* What owners that have ended on other ranks counted: of a run over ranks, on rank 0. */
void dfi_team_ended_counts(const dfi_exec *x, dfi_counters *count, int64_t *sent, int64_t *received);

/* ---- over ranks: observe/halt.c ---- */
/* What another rank has said about looking at the run. */
typedef struct dfi_told { struct dfi_told *next; int32_t from; int64_t n; unsigned char bytes[]; } dfi_told;
/* The next one, owned; NULL: there is none. */
dfi_told *dfi_team_told(const dfi_exec *x);
void dfi_team_tell(const dfi_exec *x, int32_t rank, const void *bytes, int64_t n);
/* The other ranks whose part is not over; only rank 0 knows which. */
uint64_t dfi_team_others(const dfi_exec *x);
/* Values that this rank has sent to another one in this run, and has from it. */
int64_t dfi_team_sent_to(const dfi_exec *x, int32_t rank);
int64_t dfi_team_come_from(const dfi_exec *x, int32_t rank);

/* Has owner o a part of this loop, which is none of a function's? */
bool dfi_team_takes_part(const dfi_exec *x, int32_t o, int32_t scope);
/* Is it a Recv that waits for its message? */
bool dfi_team_awaits(const dfi_call *c);
/* x has slept for long: the rank is told which value of another one it has waited for longest (dfi_rank_waits). */
void dfi_team_tell_wait(dfi_exec *x);
/* The run has failed. Where that is because a rank is lost: the innermost iteration that waits for a value of it, the
 * one that has waited longest; else NULL. */
const dfi_record *dfi_team_waits_in(const dfi_exec *x);

/* Has another owner failed? */
bool dfi_team_failed(const dfi_exec *x);
/* x has failed: the others are to know. */
void dfi_team_fail(dfi_exec *x);
/* x's run is to be cancelled: other ranks know it before they are told of any later run. Any thread. */
void dfi_team_cancel(const dfi_exec *x);
/* Between tokens: takes what other ranks have sent. */
void dfi_team_look(dfi_exec *x);
/* After the last one: what x has sent to other ranks has gone, or the run has failed. */
void dfi_team_flush(dfi_exec *x);
/* Before the first token: sends what crosses when the run begins to the ranks that read it; and waits for what comes
 * from others so. */
void dfi_team_send_crossing(dfi_exec *x, int32_t crossing, const df_value *v);
bool dfi_team_crossing(dfi_exec *x, int32_t crossing, df_value *out);
/* Sends v, which is consumed, to be there at `due`; by the virtual clock of a run that is recorded, at `came`. */
void dfi_team_send(dfi_exec *x, const dfi_record *r, dfi_pnode *p, uint32_t dead, double due, double came,
                   df_value v);
/* A Recv has its turn: the message, owned, if it is there; NULL: it waits for it, and comes back by itself. */
dfi_team_message *dfi_team_receive(dfi_exec *x, dfi_record *r, dfi_pnode *p);
/* The same dead message for another Transfer; owned. */
dfi_team_message *dfi_team_message_for(const dfi_team_message *l, uint32_t edge);
/* A message is taken out of the inbox: the flight of the Recv that waited for it, to be listed; NULL: none did. */
dfi_flight *dfi_team_deliver(dfi_exec *x, dfi_team_message *l);
#endif
