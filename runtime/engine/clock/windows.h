/* windows.h: the windows of parallel iterations of several owners, by the virtual clock.
 *
 * One owner turns a run by the virtual clock, in the order of time. In real time each of several opens and ends the
 * iterations of its own part of a loop (plan/owners.c): an owner's iteration opens with the first NextIteration of its
 * own if the one `parallel_iterations` before is over there, and is over when its nodes have run and all that is sent
 * to it has come. Here is when that would be, for clock=virtual_owners and for what-if. In a serial loop the owners
 * tell each other when they are done (meet_at_ends there): those messages take their latencies. A frame begins for each
 * owner when its own Enters have come; for all at once where one of them is dead, where iterations may run a second
 * time, and where a run may wait for what is outside.
 */
#ifndef DFLOW_WINDOWS_H
#define DFLOW_WINDOWS_H
#include "engine/executor.h"

/* An owner's part of a frame. */
typedef struct dfi_window {
  int64_t  first, next;      /* its open iterations are first … next - 1 */
  int64_t  met;              /* of a serial loop: the last one that all owners have ended */
  int32_t  enters;           /* that have not come */
  bool     takes_part, begun, over, waits;   /* waits: a NextIteration has come for `next`, and the window is full */
  double   ends;             /* when those that are over had ended; before that, when its last Enter came */
  uint32_t opener;           /* of a run that is recorded: the NextIteration that waits; the last Enter */
} dfi_window;
/* An owner's part of an iteration. */
typedef struct dfi_share {
  int32_t  outstanding;      /* tokens, child frames, and messages to come; of iteration 0 one more until the frame has
                                begun for the owner */
  double   opens, ends;
  uint32_t opener;           /* of a run that is recorded: what opened it; 0: it came with the frame */
} dfi_share;

/* A frame has been opened, an iteration of it; each has windows, or shares, if the owners would have parts of it. */
void dfi_windows_open(dfi_exec *x, dfi_frame *f);
void dfi_windows_record(dfi_exec *x, dfi_record *r);
/* An Enter, p, of a frame that has windows has come. The owner whose part of the frame begins with it; -1: none does
   before all Enters have come. */
int32_t dfi_windows_entered(const dfi_exec *x, dfi_frame *f, const dfi_pnode *p);
/* An owner's part of a frame begins: before and after iteration 0 gets its tokens. */
void dfi_windows_begin(dfi_exec *x, dfi_frame *f, int32_t owner);
void dfi_windows_begun(dfi_exec *x, dfi_frame *f, int32_t owner);
/* All that has entered f is dead: of its only iteration each owner sends what is awaited elsewhere, and awaits it. */
void dfi_windows_dead(dfi_exec *x, dfi_frame *f);
/* A token of p is in the queue; it has run, and what it sent is there, too. */
void dfi_windows_queued(dfi_exec *x, dfi_record *r, const dfi_pnode *p);
void dfi_windows_ran(dfi_exec *x, dfi_record *r, const dfi_pnode *p);
/* A NextIteration, p, has come to r. */
void dfi_windows_next(dfi_exec *x, dfi_record *r, const dfi_pnode *p);
/* When r, which has shares, opens for the owner of p; INFINITY: that is not known yet. */
double dfi_windows_opens(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p);
/* An iteration is over for all owners; and a frame is. */
void dfi_windows_iteration_done(dfi_exec *x, dfi_record *r);
void dfi_windows_frame_done(dfi_exec *x, dfi_frame *f);
/* The owner that would run p in r, of a plan that has several. */
int32_t dfi_windows_owner(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p);

/* Is it a message between owners that is sent, or awaited, at the end of a serial iteration? */
bool dfi_windows_ends(const dfi_exec *x, const dfi_record *r, uint32_t node);
/* Where an owner sends those messages from, by which the others know that it has ended its part of an iteration. */
int32_t dfi_windows_device(const dfi_plan *p, int32_t owner, int32_t scope);
/* The messages by which m owners tell each other, in log2 m rounds, that each has done its part of a serial iteration:
 * t[i], when number i has done its part, becomes when it knows of all others. `latency` says what a message from one to
 * another takes. */
void dfi_windows_meet(int32_t m, double *t, double (*latency)(const void *of, int32_t from, int32_t to),
                      const void *of);
#endif
