/* mirror.c: what workers have of this process's graphs, sessions and plans, and the table of functions that sessions
 * call (session/cluster.h).
 *
 * A worker is told of a graph what has changed since it was last told, of a session its options, of a plan its
 * signature and devices; it makes the plan itself, and says its digest, which must be ours. Then a run is one small
 * message.
 *
 * Locks are taken in one order: the session's, the graph's, the mirror's, the driver's. A plan is made under the first
 * two, so what may tell workers of a graph takes the graph's before the mirror's.
 */
#include "cluster/driver.h"
#include "cluster/protocol.h"
#include <stdio.h>

/* Ranks that have been sent the same messages of a graph share a form: it knows what they have. */
typedef struct feed { dfi_form form; uint64_t ranks; struct feed *next; } feed;
typedef struct mirrored_graph {
  int64_t id;
  int32_t sessions;                /* that run it */
  df_graph *graph;                 /* retained */
  feed *feeds;
  struct mirrored_graph *next;
} mirrored_graph;
typedef struct mirrored_session {
  int64_t id;
  df_session *session;
  mirrored_graph *graph;
  uint64_t ranks;                  /* that have it */
  struct mirrored_session *next;
} mirrored_session;

static struct {
  pthread_mutex_t lock;            /* held while workers are told: one after the other */
  mirrored_graph *graphs;
  mirrored_session *sessions;
  uint64_t *plan; int64_t nplans, plan_cap;        /* by plan->wire_id - 1: the ranks that have it */
  int64_t ids;
  dfi_rank *rank;
} mirror = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t bit(int32_t rank) { return (uint64_t)1 << rank; }

/* ---- graphs ---------------------------------------------------------------------------------------------------- */

static mirrored_graph *graph_of(df_graph *g) {
  for (mirrored_graph *m = mirror.graphs; m; m = m->next) if (m->graph == g) return m;
  mirrored_graph *m = dfi_xcalloc(1, sizeof *m);
  *m = (mirrored_graph){ .id = ++mirror.ids, .graph = df_graph_retain(g), .next = mirror.graphs };
  return mirror.graphs = m;
}

static void drop_feed(feed *f) {
  dfi_form_free(&f->form);
  dfi_free(f);
}

/* Feeds that no rank follows any more. */
static void drop_idle_feeds(mirrored_graph *m) {
  for (feed **at = &m->feeds; *at;) {
    feed *f = *at;
    if (f->ranks) { at = &f->next; continue; }
    *at = f->next;
    drop_feed(f);
  }
}

static void drop_graph(mirrored_graph *m) {
  for (mirrored_graph **at = &mirror.graphs; *at; at = &(*at)->next)
    if (*at == m) { *at = m->next; break; }
  for (feed *f = m->feeds, *next; f; f = next) { next = f->next; drop_feed(f); }
  df_graph_release(m->graph);
  dfi_free(m);
}

static int32_t send_graph(mirrored_graph *m, feed *f, bool anew, const dfi_bytes *bytes, df_error *err) {
  int32_t code = DF_OK;
  for (int32_t i = 1; i < DFI_RANKS_MOST && !code; i++) {
    if (!(f->ranks & bit(i))) continue;
    if (!dfi_driver_alive(i)) { f->ranks &= ~bit(i); continue; }
    const int64_t head[] = { m->id, anew };
    code = dfi_driver_call(i, DFI_W_GRAPH, head, sizeof head, bytes->at, bytes->n, NULL, NULL, err);
    if (code) f->ranks &= ~bit(i);             /* it is told all of it the next time */
    if (code == DF_UNAVAILABLE) code = DF_OK;  /* the run says so, if it needs that rank */
  }
  return code;
}

static int32_t feed_graph(mirrored_graph *m, feed *f, bool anew, df_error *err) {
  dfi_bytes bytes = { 0 };
  bool changed;
  int32_t code = dfi_form_write(&f->form, &bytes, &changed, err);
  if (!code && (changed || anew)) code = send_graph(m, f, anew, &bytes, err);
  dfi_free(bytes.at);
  return code;
}

/* All of `ranks` have the graph as it is. Both locks are held. */
static int32_t tell_graph(mirrored_graph *m, uint64_t ranks, df_error *err) {
  uint64_t fed = 0;
  for (feed *f = m->feeds; f; f = f->next) {
    if (feed_graph(m, f, false, err)) return err->code;
    fed |= f->ranks;
  }
  drop_idle_feeds(m);
  if (!(ranks & ~fed)) return DF_OK;
  feed *f = dfi_xcalloc(1, sizeof *f);
  *f = (feed){ .ranks = ranks & ~fed, .next = m->feeds };
  dfi_form_init(&f->form, m->graph, false);
  m->feeds = f;
  const int32_t code = feed_graph(m, f, true, err);
  drop_idle_feeds(m);
  return code;
}

/* ---- sessions and plans ------------------------------------------------------------------------------ */

static mirrored_session *session_of(df_session *s) {
  for (mirrored_session *m = mirror.sessions; m; m = m->next) if (m->session == s) return m;
  mirrored_session *m = dfi_xcalloc(1, sizeof *m);
  *m = (mirrored_session){ .id = ++mirror.ids, .session = s, .graph = graph_of(s->graph), .next = mirror.sessions };
  m->graph->sessions++;
  return mirror.sessions = m;
}

static int32_t tell_session(mirrored_session *m, uint64_t ranks, df_error *err) {
  int32_t code = DF_OK;
  for (int32_t i = 1; i < DFI_RANKS_MOST && !code; i++) {
    if (!(ranks & bit(i)) || m->ranks & bit(i)) continue;
    dfi_packet p = { 0 };
    dfi_put_i64(&p, m->id);
    dfi_put_i64(&p, m->graph->id);
    dfi_put_text(&p, m->session->options ? m->session->options : "");
    code = dfi_driver_call(i, DFI_W_SESSION, p.at, p.n, NULL, 0, NULL, NULL, err);
    dfi_free(p.at);
    if (!code) m->ranks |= bit(i);
  }
  return code;
}

static void put_plan(dfi_packet *p, const mirrored_session *m, const dfi_plan *plan, uint64_t digest) {
  const int32_t room = dfi_session_device_list(m->session, 0, NULL) + 1;
  char *devices = dfi_xmalloc((size_t)room), *jobs = dfi_jobs_text();
  dfi_session_device_list(m->session, room, devices);
  devices[room - 1] = 0;
  dfi_put_i64(p, m->id);
  dfi_put_i64(p, (int64_t)plan->wire_id);
  dfi_put_i64(p, (int64_t)digest);
  dfi_put_text(p, devices);
  dfi_put_text(p, jobs);
  dfi_put_i64(p, plan->watched);
  dfi_put_i64(p, plan->nfetch);
  dfi_put_i64(p, plan->nfeed);
  dfi_put(p, plan->signature, sizeof *plan->signature * 2 * (size_t)(plan->nfetch + plan->nfeed));
  dfi_free(devices);
  dfi_free(jobs);
}

static int32_t tell_plan(mirrored_session *m, const dfi_plan *plan, uint64_t ranks, df_error *err) {
  const uint64_t digest = dfi_plan_digest(plan);
  dfi_packet p = { 0 };
  int32_t code = DF_OK;
  put_plan(&p, m, plan, digest);
  for (int32_t i = 1; i < DFI_RANKS_MOST && !code; i++) {
    if (!(ranks & bit(i)) || mirror.plan[plan->wire_id - 1] & bit(i)) continue;
    code = dfi_driver_call(i, DFI_W_PLAN, p.at, p.n, NULL, 0, NULL, NULL, err);
    if (!code) mirror.plan[plan->wire_id - 1] |= bit(i);
  }
  dfi_free(p.at);
  return code;
}

static void number_plan(dfi_plan *p) {
  if (p->wire_id) return;
  DFI_GROW(mirror.plan, mirror.nplans, mirror.plan_cap);
  mirror.plan[mirror.nplans] = 0;
  p->wire_id = (uint64_t)++mirror.nplans;
}

/* All of `ranks` have the plan, and what it needs. Both locks are held. */
static int32_t tell(df_session *s, dfi_plan *p, uint64_t ranks, df_error *err) {
  dfi_driver_patience(s);
  for (int32_t i = 1; i < DFI_RANKS_MOST; i++)
    if (ranks & bit(i) && !dfi_driver_alive(i)) return dfi_driver_unavailable(i, err);
  number_plan(p);
  if (!(ranks & ~bit(0) & ~mirror.plan[p->wire_id - 1])) return DF_OK;
  mirrored_session *m = session_of(s);
  int32_t code = tell_graph(m->graph, ranks & ~bit(0), err);
  if (!code) code = tell_session(m, ranks, err);
  return code ? code : tell_plan(m, p, ranks, err);
}

static void lock(const df_session *s) {
  pthread_mutex_lock(&s->graph->lock);
  pthread_mutex_lock(&mirror.lock);
}
static void unlock(const df_session *s) {
  pthread_mutex_unlock(&mirror.lock);
  pthread_mutex_unlock(&s->graph->lock);
}

/* The graph's lock is held. */
static int32_t planned(void *user, df_session *s, dfi_plan *p, df_error *err) {
  pthread_mutex_lock(&mirror.lock);
  const int32_t code = tell(s, p, p->parts->ranks, err);
  pthread_mutex_unlock(&mirror.lock);
  return code;
}

static int32_t begin(void *user, df_session *s, const dfi_plan *p, uint64_t ranks, const dfi_part_order *o,
                     df_error *err) {
  lock(s);
  const int32_t code = tell(s, (dfi_plan *)p, ranks, err);
  const dfi_run_order order = { DFI_RUN_ORDER, p->wire_id, *o };
  for (int32_t i = 1; i < DFI_RANKS_MOST && !code; i++)
    if (ranks & bit(i)) dfi_rank_post(mirror.rank, i, &order, sizeof order);
  unlock(s);
  return code;
}

/* How many GPUs a rank has, of which it has opened one; -1: it could not. */
static int32_t gpus(int32_t rank, int32_t number, df_error *err) {
  const int64_t ask = number;
  int64_t count = 0;
  uint8_t *answer = NULL;
  size_t n = 0;
  if (dfi_driver_call(rank, DFI_W_GPUS, &ask, sizeof ask, NULL, 0, &answer, &n, err)) return -1;
  if (n == sizeof count) memcpy(&count, answer, n);
  dfi_free(answer);
  return (int32_t)count;
}

/* ---- variables that live on workers ------------------------------------------------------------------ */

/* The number of the session on that rank, which has it, and so its graph; 0: err says why not. */
static int64_t ready(df_session *s, int32_t rank, df_error *err) {
  dfi_driver_patience(s);
  if (!dfi_driver_alive(rank)) return dfi_driver_unavailable(rank, err), 0;
  lock(s);
  mirrored_session *m = session_of(s);
  if (tell_graph(m->graph, bit(rank), err) || tell_session(m, bit(rank), err)) m = NULL;
  const int64_t id = m ? m->id : 0;
  unlock(s);
  return id;
}

static int32_t get_variable(void *user, df_session *s, int32_t rank, df_node *handle, df_value *out, df_error *err) {
  uint8_t *answer = NULL;
  size_t n = 0;
  *out = (df_value){ 0 };
  const int64_t head[] = { ready(s, rank, err), handle->id };
  if (!head[0]) return err->code;
  const int32_t code = dfi_driver_call(rank, DFI_W_GET, head, sizeof head, NULL, 0, &answer, &n, err);
  if (code) return code;
  const bool is = dfi_value_unpack(answer, (int64_t)n, out);
  dfi_free(answer);
  return is ? DF_OK : dfi_fail(err, DF_DATA_LOSS, handle->where, "rank %d sent no value of `%s`", rank,
                               dfi_node_name(handle));
}

static int32_t set_variable(void *user, df_session *s, int32_t rank, df_node *handle, const df_value *value,
                            df_error *err) {
  int64_t n = 0;
  void *bytes = value ? dfi_value_pack(value, &n, err) : NULL;
  if (value && !bytes) return err->code;
  const int64_t head[] = { ready(s, rank, err), handle->id, value != NULL };
  const int32_t code = head[0] ? dfi_driver_call(rank, DFI_W_SET, head, sizeof head, bytes, (size_t)n, NULL, NULL, err)
                               : err->code;
  dfi_free(bytes);
  return code;
}

/* Says `word` of a session to all ranks that have it. */
static void say(const mirrored_session *m, dfi_word word) {
  df_error ignored;
  for (int32_t i = 1; i < DFI_RANKS_MOST; i++)
    if (m->ranks & bit(i) && dfi_driver_alive(i))
      dfi_driver_call(i, word, &m->id, sizeof m->id, NULL, 0, NULL, NULL, &ignored);
}

static void reset(void *user, df_session *s) {
  pthread_mutex_lock(&mirror.lock);
  for (const mirrored_session *m = mirror.sessions; m; m = m->next) if (m->session == s) say(m, DFI_W_RESET);
  pthread_mutex_unlock(&mirror.lock);
}

static void closed(void *user, df_session *s) {
  dfi_program_closed(s);
  pthread_mutex_lock(&mirror.lock);
  for (mirrored_session **at = &mirror.sessions; *at; at = &(*at)->next) {
    mirrored_session *m = *at;
    if (m->session != s) continue;
    say(m, DFI_W_CLOSE);
    *at = m->next;
    if (!--m->graph->sessions) drop_graph(m->graph);
    dfi_free(m);
    break;
  }
  pthread_mutex_unlock(&mirror.lock);
}

/* ---- life -------------------------------------------------------------------------------------------- */

const dfi_cluster *dfi_mirror_table(dfi_rank *rank) {
  static dfi_cluster table;
  mirror.rank = rank;
  table = (dfi_cluster){ .rank = rank, .planned = planned, .begin = begin, .get_variable = get_variable,
                         .set_variable = set_variable, .reset = reset, .closed = closed,
                         .gpus = gpus };
  return &table;
}

void dfi_mirror_forget_rank(int32_t rank) {
  pthread_mutex_lock(&mirror.lock);
  for (mirrored_graph *g = mirror.graphs; g; g = g->next) {
    for (feed *f = g->feeds; f; f = f->next) f->ranks &= ~bit(rank);
    drop_idle_feeds(g);
  }
  for (mirrored_session *m = mirror.sessions; m; m = m->next) m->ranks &= ~bit(rank);
  for (int64_t i = 0; i < mirror.nplans; i++) mirror.plan[i] &= ~bit(rank);
  pthread_mutex_unlock(&mirror.lock);
}

void dfi_mirror_forget_all(void) {
  pthread_mutex_lock(&mirror.lock);
  while (mirror.sessions) {
    mirrored_session *m = mirror.sessions;
    mirror.sessions = m->next;
    dfi_free(m);
  }
  while (mirror.graphs) drop_graph(mirror.graphs);
  for (int64_t i = 0; i < mirror.nplans; i++) mirror.plan[i] = 0;    /* numbers of plans stay theirs */
  mirror.rank = NULL;
  pthread_mutex_unlock(&mirror.lock);
}
