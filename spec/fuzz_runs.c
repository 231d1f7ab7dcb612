/* fuzz_runs.c: runs of a random graph, in the foreground and several at once in the background: paused, stepped, broken
 * into, looked at, cancelled and let go by two threads in any order, also after they are over and after their session
 * is closed.
 */
#include "fuzz.h"
#include <pthread.h>

/* ---- what a run is given ------------------------------------------------------------------------------ */

/* A tensor as the placeholder wants it, mostly. */
static df_tensor *some_feed(world *w, int32_t node) {
  int32_t rank = df_output_rank(w->graph, node, 0);
  int64_t dims[DF_MAX_RANK];
  if (rank < 0 || once_in(20)) return some_tensor(w);
  for (int32_t i = 0; i < rank; i++) {
    dims[i] = df_output_dim(w->graph, node, 0, i);
    if (dims[i] < 0) dims[i] = below(4);
  }
  df_tensor *t = clean(df_tensor_new(df_output_dtype(w->graph, node, 0), rank, dims, &w->err));
  for (int64_t i = 0; t && i < df_tensor_size(t) && i < 4096; i++) df_tensor_set_int(t, i, below(4));
  return t;
}

/* What can be fetched, mostly: an output of the top level. */
static void some_fetch(world *w, int32_t *pair) {
  for (int tries = 0; tries < 20; tries++) {
    some_output(w, pair);
    if (pair[0] >= 0 && pair[0] < df_graph_nodes(w->graph) && df_node_context(w->graph, pair[0]) == 0 &&
        df_output_dtype(w->graph, pair[0], pair[1]) != DF_RESOURCE)
      return;
  }
}

typedef struct given {
  int32_t  nfetch, nfeed, fetch[8], feed[32];
  df_value value[16];
} given;

static void some_fetches(world *w, given *a) {
  a->nfetch = 1 + below(3);
  for (int32_t i = 0; i < a->nfetch; i++) {
    if (once_in(12)) some_output(w, a->fetch + 2 * i);
    else some_fetch(w, a->fetch + 2 * i);
    if (once_in(5)) a->fetch[2 * i + 1] = -1;
  }
}

static void give_all(world *w, given *a) {
  some_fetches(w, a);
  a->nfeed = 0;
  for (int32_t i = 0; i < w->feeds; i++) {
    df_tensor *t = once_in(20) ? NULL : some_feed(w, w->feed[i][0]);
    if (!t) continue;
    a->value[a->nfeed] = (df_value){ .kind = DF_TENSOR, .dtype = (uint8_t)df_tensor_dtype(t) };
    a->value[a->nfeed].as.tensor = t;
    a->feed[2 * a->nfeed] = w->feed[i][0];
    a->feed[2 * a->nfeed++ + 1] = 0;
  }
}

/* ---- looking at a run ---------------------------------------------------------------------------------- */

typedef struct looker { df_run *run; int32_t nodes, times; uint64_t seed; } looker;

static void check_snapshot(const df_snapshot *s) {
  for (int32_t i = 0; i < s->nframes; i++) {
    bool found = s->frame[i].parent < 0;
    for (int32_t j = 0; j < i && !found; j++) found = s->frame[j].id == s->frame[i].parent;
    promise(found, "a frame comes before its parent");
    promise(s->frame[i].first <= s->frame[i].next, "a frame has fewer than no iterations");
  }
  for (int32_t i = 0; i < s->niterations; i++) {
    const df_iteration_info *t = &s->iteration[i];
    promise(t->outstanding == t->ready + t->running + t->children, "an iteration's count is not what it consists of");
  }
}

static void poke(const looker *l) {
  static const char *const frames[] = { NULL, "while", "while/1", "loop", "nothing", "", "fib" };
  df_run *r = l->run;
  df_error err = { 0 };
  df_stop stop;
  df_stats stats;
  df_token_info tokens[40];
  df_event events[40];
  df_value v = { 0 };
  int32_t frame = below(4) - (once_in(9) ? 1 : 0), node = below(l->nodes + 2) - 1, nodes[4], missing[12], state;
  int64_t iteration = once_in(12) ? some_int() : frame > 0 ? below(5) : 0;
  __atomic_fetch_add(&fuzz_calls, 1, __ATOMIC_RELAXED);
  switch (below(21)) {
    case 0: case 1:
      df_run_pause(r, once_in(2) ? NULL : &stop);
      break;
    case 2:
    case 3:
    case 4: df_run_resume(r, once_in(20) ? (int32_t)some_int() : below(5), once_in(9) ? some_int() : below(30)); break;
    case 5: case 6: df_run_settle(r, below(4) * 0.002, once_in(2) ? NULL : &stop); break;
    case 7: case 8: {
      int32_t n = once_in(3) ? -1 : below(4);
      for (int32_t i = 0; i < n; i++) nodes[i] = below(l->nodes + 2) - 1;
      int32_t b = df_run_break(r, n, nodes, frames[once_in(2) ? 0 : below(7)], once_in(2) ? -1 : some_int(),
                               once_in(2) ? 0 : below(8), &err);
      promise(b > 0 || (b == 0 && err.code && *err.message), "a breakpoint was refused without saying why");
      break;
    }
    case 9: df_run_unbreak(r, below(5)); break;
    case 10: case 11: {
      df_snapshot *s = df_run_look(r, &err);
      promise(s || (err.code && *err.message), "a look was refused without saying why");
      if (s) check_snapshot(s);
      df_snapshot_release(s);
      break;
    }
    case 19: {
      df_ledger d;
      int32_t code = df_run_ledger(r, &d, &err);
      if (code == DF_INTERNAL) fprintf(stderr, "%s: %s\n", err.frame, err.message);
      promise(code != DF_INTERNAL, "the books of a run do not balance");
      promise(!code || (err.code == code && *err.message), "a run gave no books without saying why");
      promise(code || (d.sent == d.ran + d.died + d.live + d.dead && d.pending == d.owed + d.lost),
              "the sums of the books are wrong");
      break;
    }
    case 12: df_run_history(r, once_in(9) ? -below(3) : below(40), tokens); break;
    case 13: case 14: {
      int32_t code = df_run_value(r, node, once_in(9) ? (int32_t)some_int() : below(2), frame, iteration, &v, &err);
      promise(!code || (err.code == code && *err.message), "a value was refused without saying why");
      df_value_release(&v);
      break;
    }
    case 15: case 16: {
      int32_t n = df_run_waits_for(r, node, frame, iteration, &state, below(7), missing, &err);
      promise(n >= 0 || (err.code && *err.message), "df_run_waits_for failed without saying why");
      break;
    }
    case 17: df_run_events(r, once_in(9) ? some_int() : below(50), below(41) - (once_in(9) ? 1 : 0), events); break;
    case 18: {
      const char *where;
      df_run_scope(r, below(5) - 1, once_in(2) ? NULL : &where);
      df_run_stats(r, &stats);
      df_run_done(r);
      break;
    }
    default:
      if (once_in(6)) df_run_cancel(r);
      else if (once_in(20)) df_interrupt();
      break;
  }
}

static void *look_on(void *arg) {
  const looker *l = arg;
  fuzz_state = l->seed;
  for (int32_t i = 0; i < l->times; i++) poke(l);
  return NULL;
}

/* Waits for a run however it was left; an answer that it is paused is allowed, and taken at its word. */
static int32_t finish(df_run *r, df_value *results, df_error *err) {
  int32_t status = df_run_wait(r, results, err);
  for (int tries = 0; status == DF_FAILED_PRECONDITION && !df_run_done(r) && tries < 20; tries++) {
    if (once_in(2)) df_run_unbreak(r, 0);
    df_run_resume(r, once_in(3) ? below(5) : DF_STEP_NONE, below(50));
    if (tries == 19) df_run_cancel(r);
    status = df_run_wait(r, results, err);
  }
  return status;
}

/* Several runs at once; what one puts into a queue another may take out. */
static void start_some(world *w, df_session **s, given *a) {
  static const char *const options[] = {
    NULL,        "paused=yes", "log=tokens", "log=values", "paused=yes log=values", "log=tokens paused=yes",
    "paused=no", "log=all x"
  };
  df_run *run[3];
  int32_t nfetch[3], n = 0;
  for (int32_t i = 1 + below(3); i > 0; i--) {
    run[n] = df_session_start(*s, a->nfetch, a->fetch, a->nfeed, a->feed, a->value, once_in(3) ? 0.2 : 0.02,
                              options[below(once_in(9) ? 8 : 6)], &w->err);
    nfetch[n] = a->nfetch;
    if (run[n]) n++;
    some_fetches(w, a);
  }
  for (int32_t i = 0; i < n; i++) {
    looker here = { run[i], df_graph_nodes(w->graph), below(12), 0 }, there = here;
    pthread_t thread;
    there.seed = draw() | 1;
    bool two = once_in(2) && !pthread_create(&thread, NULL, look_on, &there);
    for (int32_t k = 0; k < here.times; k++) poke(&here);
    if (once_in(12) && *s) {
      df_session_release(*s);
      *s = NULL;
    }
    df_value results[4] = { 0 };
    df_error err = { 0 };
    bool waited = !once_in(5);
    if (waited && once_in(2)) fuzz_runs += finish(run[i], results, &err) == 0;
    else waited = false;
    if (two) pthread_join(thread, NULL);
    if (!waited && once_in(2)) fuzz_runs += finish(run[i], results, &err) == 0;
    for (int32_t k = 0; k < 3; k++) poke(&here);
    for (int32_t k = 0; k < nfetch[i]; k++) df_value_release(results + k);
  }
  for (int32_t i = 0; i < n; i++) df_run_release(run[i]);
}

void run_some(world *w, df_session **s) {
  given a;
  df_value results[4] = { 0 };
  df_stats stats;
  give_all(w, &a);
  if (once_in(2)) start_some(w, s, &a);
  else {
    fuzz_runs +=
        df_session_run(*s, a.nfetch, a.fetch, a.nfeed, a.feed, a.value, once_in(3) ? 0.3 : 0.05, results, &w->err) == 0;
    for (int32_t i = 0; i < a.nfetch; i++) df_value_release(results + i);
  }
  for (int32_t i = 0; i < a.nfeed; i++) df_tensor_release(a.value[i].as.tensor);
  if (!*s) return;
  df_session_stats(*s, &stats);
  df_value v = { 0 };
  if (w->nrefs && once_in(4)) {
    df_session_variable(*s, w->ref[below(w->nrefs)][0], &v, &w->err);
    df_value_release(&v);
  }
  if (once_in(20)) df_session_reset(*s);
}
