/* local_ranks.c: DFLOW_STRESS=ranks:3. The ranks are sessions of this process, which send each other bytes through
 * memory as processes do; simulated devices are spread over them, under their usual names. So whatever can be run on
 * simulated devices can be run over ranks, with nothing started and under any tool. `lose:20` has the last rank be lost
 * 20 ms after the first run has begun; it is back before the next one.
 */
#include "session/session.h"
#include "base/stress.h"
#include "engine/owners/ranks.h"
#include <unistd.h>

enum { LANE_BYTES = 1 << 14 };

typedef struct local_ranks {
  dfi_cluster cluster[DFI_RANKS_MOST];
  df_session *session[DFI_RANKS_MOST];       /* owned, but rank 0's */
  int32_t     n;
  void       *memory;
  atomic_int  jobs;                          /* parts that threads turn */
  uint64_t    lose_ms;                       /* of a rank that is yet to be lost; 0: none is */
  bool        lost;
} local_ranks;

/* A rank's part of a run. */
typedef struct job {
  local_ranks *all;
  int32_t   rank, nfetch, nfeed;
  int32_t  *signature;                       /* owned */
  uint32_t  watched;
  uint64_t  digest;
  dfi_part_order order;
} job;

static void work(void *arg) {
  job *j = arg;
  local_ranks *l = j->all;
  df_session *s = l->session[j->rank];
  df_error err = { 0 };
  dfi_plan *p = dfi_session_plan(s, j->nfetch, j->signature, j->nfeed, j->signature + 2 * j->nfetch,
                                 j->watched, &err);
  if (p && dfi_plan_digest(p) != j->digest) {
    dfi_fail(&err, DF_INTERNAL, NULL, "rank %d has made another plan of the same graph than rank 0", j->rank);
    dfi_session_let_go(p);
    p = NULL;
  }
  if (p) {
    dfi_session_part(s, p, &j->order, &err);
    dfi_session_let_go(p);
  } else dfi_rank_refuse(l->cluster[j->rank].rank, j->order.run, &err);
  dfi_free(j->signature);
  dfi_free(j);
  atomic_fetch_sub(&l->jobs, 1);
}

/* Until no part is turned. A rank whose part is over takes what comes, as a worker would: another one may wait for room
   to say that it has failed. */
static void wait_for_parts(local_ranks *l) {
  while (atomic_load(&l->jobs)) {
    for (int32_t r = 0; r < l->n; r++) dfi_rank_poll(l->cluster[r].rank);
    dfi_yield();
  }
}

/* Ends its part of a run and is lost to all others. */
static void lose(void *arg) {
  job *j = arg;
  local_ranks *l = j->all;
  df_error err;
  usleep((useconds_t)(1e6 * j->order.timeout));
  dfi_fail(&err, DF_UNAVAILABLE, NULL, "this rank is no more");
  for (int32_t r = 0; r < j->rank; r++)
    dfi_rank_peer_failed(l->cluster[r].rank, j->rank, "here", getpid(), "was lost (DFLOW_STRESS=lose)");
  dfi_rank_stop(l->cluster[j->rank].rank, j->order.run, &err);
  dfi_free(j);
  atomic_fetch_sub(&l->jobs, 1);
}

/* Is one to be lost in this run? One that was is back. */
static void lose_one(local_ranks *l, uint64_t run) {
  if (l->lost) {
    wait_for_parts(l);
    for (int32_t r = 0; r + 1 < l->n; r++) dfi_rank_peer_back(l->cluster[r].rank, l->n - 1);
    l->lost = false;
  }
  if (!l->lose_ms) return;
  job *j = dfi_xcalloc(1, sizeof *j);
  *j = (job){ .all = l, .rank = l->n - 1, .order = { .run = run, .timeout = 1e-3 * (double)l->lose_ms } };
  l->lose_ms = 0;
  atomic_fetch_add(&l->jobs, 1);
  if ((l->lost = dfi_background(lose, j))) return;
  atomic_fetch_sub(&l->jobs, 1);
  dfi_free(j);
}

static int32_t begin(void *user, df_session *s, const dfi_plan *p, uint64_t ranks, const dfi_part_order *o,
                     df_error *err) {
  local_ranks *l = user;
  const int32_t room = dfi_session_device_list(s, 0, NULL) + 1;
  char *list = dfi_xmalloc((size_t)room);
  dfi_session_device_list(s, room, list);
  int32_t status = DF_OK;
  for (int32_t r = 1; r < l->n && !status; r++) status = dfi_session_devices_are(l->session[r], list, err);
  dfi_free(list);
  lose_one(l, o->run);
  for (int32_t r = 1; r < l->n && !status; r++) {
    if (!(ranks >> r & 1)) continue;
    job *j = dfi_xcalloc(1, sizeof *j);
    const size_t bytes = sizeof *j->signature * 2 * ((size_t)p->nfetch + (size_t)p->nfeed);
    *j = (job){ l, r, p->nfetch, p->nfeed, memcpy(dfi_xmalloc(bytes + 1), p->signature, bytes),
                p->watched, dfi_plan_digest(p), *o };
    dfi_rank_poll(l->cluster[r].rank);           /* what was sent before this order is known there before it */
    dfi_rank_expect(l->cluster[r].rank, o->run);
    atomic_fetch_add(&l->jobs, 1);
    if (dfi_background(work, j)) continue;
    atomic_fetch_sub(&l->jobs, 1);
    dfi_free(j->signature);
    dfi_free(j);
    status = dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "there is no thread for rank %d", r);
    for (int32_t b = 1; b < r; b++) dfi_rank_stop(l->cluster[b].rank, o->run, err);
  }
  return status;
}

static int32_t get_variable(void *user, df_session *s, int32_t rank, df_node *handle, df_value *out, df_error *err) {
  return dfi_session_variable_here(((local_ranks *)user)->session[rank], handle, out, err);
}

static int32_t set_variable(void *user, df_session *s, int32_t rank, df_node *handle, const df_value *value,
                            df_error *err) {
  return dfi_session_set_variable_here(((local_ranks *)user)->session[rank], handle, value, err);
}

static void reset(void *user, df_session *s) {
  const local_ranks *l = user;
  for (int32_t r = 1; r < l->n; r++) df_session_reset(l->session[r]);
}

static void closed(void *user, df_session *s) {
  local_ranks *l = user;
  wait_for_parts(l);
  for (int32_t r = 1; r < l->n; r++) df_session_release(l->session[r]);
  for (int32_t r = 0; r < l->n; r++) dfi_rank_free(l->cluster[r].rank);
  dfi_free(l->memory);
  dfi_free(l);
}

const dfi_cluster *dfi_local_ranks(void) {
  uint64_t n;
  if (!dfi_stress("ranks", &n) || n < 2 || n > DFI_RANKS_MOST) return NULL;
  local_ranks *l = dfi_xcalloc(1, sizeof *l);
  const int64_t bytes = dfi_ring_lay(NULL, (int32_t)n, LANE_BYTES);
  l->n = (int32_t)n;
  if (!dfi_stress("lose", &l->lose_ms)) l->lose_ms = 0;
  l->memory = dfi_xaligned(4096, (size_t)bytes);
  dfi_ring_lay(l->memory, l->n, LANE_BYTES);
  for (int32_t r = 0; r < l->n; r++)
    l->cluster[r] = (dfi_cluster){ dfi_rank_new(dfi_ring_new(l->memory, bytes, r, NULL)), NULL, begin, get_variable,
                                   set_variable, reset, closed, l };
  return &l->cluster[0];
}

int32_t dfi_local_ranks_begin(df_session *s, const char *options, df_error *err) {
  local_ranks *l = s->cluster->user;
  int32_t status = DF_OK;
  l->session[0] = s;
  for (int32_t r = 1; r < l->n && !status; r++)
    if (!(l->session[r] = dfi_session_make(s->graph, options, &l->cluster[r], err)))
      status = err ? err->code : DF_INTERNAL;
  return status;
}
