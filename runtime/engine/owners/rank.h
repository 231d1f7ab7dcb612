/* rank.h: processes that turn one run together. Each is a rank, from 0 on; rank 0 has the program.
 *
 * All ranks have the same graph, the same list of devices and the same plan; each turns the partitions on devices of
 * its own. Feeds enter and fetched values leave at rank 0. A message between two of them has the number of the run, the
 * edge (the Transfer's place in the plan), the numbers of the iterations around it, and the value. What came before its
 * run has begun here waits for it.
 *
 * The end of a run: each rank tells rank 0 when it is done, with what it counted, or with its error; one that fails
 * tells all others, whose part then ends, too.
 *
 * Processes are started, found dead and told of graphs and runs by the cluster
 * (runtime/cluster/); it hands this file the memory, and is called through dfi_cluster (session/cluster.h).
 */
#ifndef DFLOW_RANK_H
#define DFLOW_RANK_H
#include "engine/owners/transport.h"

enum { DFI_RANKS_MOST = 64 };

typedef struct dfi_rank dfi_rank;

/* This process as rank `transport->me`. The transport is consumed. */
dfi_rank *dfi_rank_new(dfi_transport *transport);
/* No run goes on. */
void dfi_rank_free(dfi_rank *r);
int32_t dfi_rank_me(const dfi_rank *r);
int32_t dfi_rank_count(const dfi_rank *r);

/* ---- peers: any thread --------------------------------------------------------------------------------------- */

/* A rank is dead, hung or cannot be reached: `what` says it as the end of a sentence, such as "was killed by signal 9".
 * Each run that it takes part in ends as unavailable: `rank 2 (host b, pid 812) was killed by signal 9`. */
void dfi_rank_peer_failed(dfi_rank *r, int32_t peer, const char *host, int64_t pid, const char *what);
/* Another process has taken its place, and runs begun from now on can have it. */
void dfi_rank_peer_back(dfi_rank *r, int32_t peer);
bool dfi_rank_peer_alive(const dfi_rank *r, int32_t peer);

/* What went between this rank and another one. */
typedef struct dfi_rank_traffic { int64_t messages_in, bytes_in, messages_out, bytes_out; } dfi_rank_traffic;
void dfi_rank_traffic_of(const dfi_rank *r, int32_t peer, dfi_rank_traffic *out);

/* What a run waits for here, for longer than a moment: a value that another rank is to send. */
typedef struct dfi_rank_wait { int32_t from; double since, seen; char what[200]; } dfi_rank_wait;
/* It waits still. Of several waits the longest is told. Any thread. */
void dfi_rank_waits(dfi_rank *r, const dfi_rank_wait *w);
/* False: nothing does. */
bool dfi_rank_waiting(dfi_rank *r, dfi_rank_wait *out);

/* ---- messages of the cluster, in order with those of runs ---------------------------------------------------- */

/* Called by whichever thread took the message off the ring, a run's owner perhaps: it copies what it wants, and returns
 * at once. One thread at a time for each `from`. */
typedef void (*dfi_rank_handler)(void *user, int32_t from, const void *bytes, int64_t n);
void dfi_rank_handle(dfi_rank *r, dfi_rank_handler handler, void *user);
/* Sends n bytes, at most transport->most - 64 of them, to the handler of a rank. Where there is no room they are kept
 * until there is: serve, and runs, send what is kept. Any thread. */
void dfi_rank_post(dfi_rank *r, int32_t to, const void *bytes, int64_t n);
/* Takes what has come, and hands it on; waits so many seconds for something (0: not at all): some pauses, some yields,
 * then asleep. Returns whether something came. For a thread that has nothing else to do. Any thread. */
bool dfi_rank_serve(dfi_rank *r, uint32_t wakes, double seconds);
/* Threads that wait on this rank look up. One that is about to wait does not: it counted the wakes before it looked for
 * something to do, and serve does not sleep where there was one since. */
void dfi_rank_wake(dfi_rank *r);
uint32_t dfi_rank_wakes(const dfi_rank *r);

/* ---- runs ------------------------------------------------------------------------------------------------------- */

/* A number for a run over ranks, which no other run of the cluster has. Rank 0. */
uint64_t dfi_rank_run_number(dfi_rank *r);
/* A run is about to begin here: what is said to its part meanwhile is kept for it. */
void dfi_rank_expect(dfi_rank *r, uint64_t run);
/* A rank could not begin the run it was told to: the others' parts end, with this error. */
void dfi_rank_refuse(dfi_rank *r, uint64_t run, const df_error *err);
/* Ends a run's part on this rank, with an error, before it is done; the others are told. A run that has not begun here
 * ends as soon as it does. Any thread. */
void dfi_rank_stop(dfi_rank *r, uint64_t run, const df_error *err);
#endif
