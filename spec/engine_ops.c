/* engine_ops.c: a second engine, a small one, that stands where engine/engine.h says engines stand. It runs loops
 * whose bodies are straight lines of numbers, leaves the last iteration to the tokens, and knows nothing but that
 * header, plan/plan.h and a record's slots. Results and counters are those of tokens, and an inspector finds tokens.
 */
#include "engine/engine.h"
#include "engine/token.h"
#include "session/session.h"
#include <stdio.h>
#include <unistd.h>

static int passed, failed;
static void says(const char *sentence, bool holds) {
  if (holds) passed++;
  else { failed++; printf("not true: %s\n", sentence); }
}

/* ---- the engine --------------------------------------------------------------------------------------- */

enum { SLOTS = 64, POLL = 1000 };
static _Atomic int64_t turned, entered;    /* iterations that it ran, and how often it was let in */

/* What an iteration holds so far. */
typedef struct line { df_value slot[SLOTS]; bool there[SLOTS]; } line;

static const df_value *find(const line *l, const dfi_record *r, dfi_operand o) {
  if (DFI_SPACE(o) != DFI_ITERATION) return operand(r, o);
  return l->there[DFI_INDEX(o)] ? &l->slot[DFI_INDEX(o)] : NULL;
}

static void put(line *l, uint32_t slot, const df_value *v) {
  l->slot[slot] = *v;
  l->there[slot] = true;
}

/* Runs p if its operands are there. A Switch gives the side that goes on: what leaves comes back as tokens. */
static bool step(line *l, const dfi_record *r, const dfi_plan *plan, const dfi_pnode *p) {
  const df_value *in[3] = { NULL };
  for (uint32_t i = 0; i < 3; i++) if (!(in[i] = find(l, r, plan->operand[p->in + i])) && i < p->nin) return false;
  df_value out = { 0 };
  if (p->kind == DFI_K_SWITCH) { put(l, p->out + 1, in[0]); return true; }
  if (!p->scalar(&out, in[0], in[1], in[2])) return false;
  out.kind = DF_SCALAR;
  out.dtype = p->out_dtype;
  put(l, p->out, &out);
  return true;
}

/* The predicate's value; NULL: it cannot be known. */
static const df_value *predicate(const line *l, const dfi_record *r, const dfi_plan *plan, const dfi_scope *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = plan->node + s->first + i;
    if (p->kind == DFI_K_SWITCH) return find(l, r, plan->operand[p->in + 1]);
  }
  return NULL;
}

/* One iteration; false: it is one for tokens, and nothing has changed. */
static bool iterate(dfi_exec *x, const dfi_scope *s, const dfi_record *r, line *l) {
  bool ran[SLOTS] = { false };
  for (bool moved = true; moved; ) {
    moved = false;
    for (uint32_t i = 0; i < s->n; i++) {
      const dfi_pnode *p = x->plan->node + s->first + i;
      if (ran[i] || (p->kind != DFI_K_SCALAR && p->kind != DFI_K_SWITCH)) continue;
      const df_value *go = p->kind == DFI_K_SWITCH ? predicate(l, r, x->plan, s) : NULL;
      if (go && !go->as.u8) return false;
      if ((p->kind == DFI_K_SWITCH && !go) || !step(l, r, x->plan, p)) continue;
      ran[i] = moved = true;
    }
  }
  df_value next[SLOTS];
  for (uint32_t i = 0, n = 0; i < s->n; i++) {             /* all are read before one is written */
    const dfi_pnode *p = x->plan->node + s->first + i;
    if (p->kind != DFI_K_NEXT) continue;
    const df_value *v = find(l, r, x->plan->operand[p->in]);
    if (!v) return false;
    next[n++] = *v;
  }
  memset(l->there, 0, sizeof l->there);
  for (uint32_t i = 0, n = 0; i < s->n; i++) {
    const dfi_pnode *p = x->plan->node + s->first + i;
    if (p->kind == DFI_K_NEXT) put(l, p->out, &next[n++]);
    x->count.taken += p->kind != DFI_K_EXIT;
    x->count.merged += p->kind == DFI_K_NEXT && p->merges;
  }
  x->count.iterations++;
  return true;
}

static bool straight(const dfi_plan *plan, const dfi_scope *s) {
  if (s->nchildren || s->nslots > SLOTS || s->n > SLOTS) return false;
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = plan->node + s->first + i;
    if (p->kind != DFI_K_SWITCH && p->kind != DFI_K_NEXT && p->kind != DFI_K_EXIT &&
        (p->kind != DFI_K_SCALAR || !p->scalar)) return false;
  }
  return true;
}

static bool turn(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  const dfi_scope *s = f->scope;
  if (!dfi_engine_unwatched(x) || dfi_engine_stops(x) || !straight(x->plan, s)) return false;
  entered++;
  line l = { .there = { false } };
  int64_t number = r->number;
  for (uint32_t i = 0; i < s->nenters; i++)
    if (!s->enters[i]->constant) put(&l, s->enters[i]->out, r->base[DFI_ITERATION] + s->enters[i]->out);
  for (;; number++, turned++) {
    line before = l;
    for (uint32_t i = 0; i < s->ncopies; i++) put(&l, s->copies[i].slot, r->base[DFI_ITERATION] + s->copies[i].slot);
    if ((number % POLL == 0 && dfi_engine_stops(x)) || !iterate(x, s, r, &l)) { l = before; break; }
  }
  for (uint32_t i = 0; i < s->nenters; i++) {
    if (s->enters[i]->constant) continue;
    df_value *slot = r->base[DFI_ITERATION] + s->enters[i]->out;
    const uint32_t uses = slot->uses;
    *slot = l.slot[s->enters[i]->out];
    slot->uses = uses;
  }
  dfi_engine_renumber(f, r, number);
  f->window = s->parallel_iterations;
  return false;                                            /* the iteration that ends it is the tokens' */
}

static void look(dfi_exec *x) { }
static bool replay(dfi_exec *x, dfi_record *r, dfi_pnode *p) { return false; }
static const dfi_engine_ops straight_line = { turn, look, replay };

static void attach(df_session *s) {
  for (int32_t b = 0; b < DFI_PLAN_BUCKETS; b++)
    for (dfi_plan *p = s->plan[b]; p; p = p->next) {
      p->engine_ops = &straight_line;
      for (int32_t i = 1; i < p->nscopes; i++) p->scope[i].engine_ops = &straight_line;
    }
}

/* ---- what is promised ----------------------------------------------------------------------------------- */

static int32_t number_node(df_graph *g, int32_t n) {
  df_value v = { .kind = DF_SCALAR, .dtype = DF_INT32 };
  v.as.i32 = n;
  return df_constant(g, &v, NULL, "engine_ops.c:1", NULL);
}
static int32_t node2(df_graph *g, const char *type, const int32_t *a, const int32_t *b) {
  df_error err;
  return df_add_node(g, df_op_find(type), 2, (int32_t[]){ a[0], a[1], b[0], b[1] }, "engine_ops.c:2", &err);
}

/* i, x = 0, 1; while i < n: i, x = i + 1, x * 3 + i. Fetches x. */
static void loop(df_graph *g, const int32_t n[2], int32_t fetch[2]) {
  df_error err;
  int32_t init[4] = { number_node(g, 0), 0, number_node(g, 1), 0 }, var[4], exit[4];
  int32_t one[2] = { 0, 0 }, three[2] = { 0, 0 };
  df_while_begin(g, 2, init, 10, -1, true, "keep", "loop", "engine_ops.c:3", var, &err);
  df_while_pred_end(g, node2(g, "Less", var, n), 0, var, &err);
  one[0] = number_node(g, 1);
  three[0] = number_node(g, 3);
  int32_t i[2] = { node2(g, "Add", var, one), 0 }, x3[2] = { node2(g, "Mul", var + 2, three), 0 };
  int32_t next[4] = { i[0], 0, node2(g, "Add", x3, var), 0 };
  df_while_end(g, 2, next, exit, &err);
  fetch[0] = exit[2];
  fetch[1] = exit[3];
}

static int32_t expected(int32_t n) {
  uint32_t x = 1;
  for (uint32_t i = 0; i < (uint32_t)n; i++) x = x * 3 + i;
  return (int32_t)x;
}

static df_stats counted(df_session *s, const df_stats *before) {
  df_stats now;
  df_session_stats(s, &now);
  return (df_stats){ .runs = now.runs - before->runs,
                     .nodes_run = now.nodes_run - before->nodes_run,
                     .dead_tokens = now.dead_tokens - before->dead_tokens,
                     .frames = now.frames - before->frames,
                     .iterations = now.iterations - before->iterations };
}

static bool same(const df_stats *a, const df_stats *b) {
  return a->nodes_run == b->nodes_run && a->dead_tokens == b->dead_tokens && a->frames == b->frames &&
         a->iterations == b->iterations;
}

int main(void) {
  df_error err = { 0 };
  df_graph *g = df_graph_new();
  df_session *s = df_session_new(g, "engine=tokens", &err);
  df_node_begin(g, df_op_find("Placeholder"), "engine_ops.c:4");
  df_node_dtype(g, "dtype", DF_INT32);
  df_node_shape(g, "shape", 0, NULL);
  const int32_t n[2] = { df_node_end(g, &err), 0 };
  int32_t fetch[2];
  loop(g, n, fetch);
  df_value trips = { .kind = DF_SCALAR, .dtype = DF_INT32 }, result = { 0 };
  df_stats zero = { 0 }, tokens, ours;
  trips.as.i32 = 5000;
  says("tokens run the loop", !df_session_run(s, 1, fetch, 1, n, &trips, 0, &result, &err) &&
                                result.as.i32 == expected(5000));
  tokens = counted(s, &zero);
  df_session_stats(s, &zero);
  attach(s);
  says("another engine runs it", !df_session_run(s, 1, fetch, 1, n, &trips, 0, &result, &err));
  says("with the same result", result.as.i32 == expected(5000));
  says("it was that engine", turned == 5000 && entered == 1);
  ours = counted(s, &zero);
  says("with the counters of tokens", same(&tokens, &ours));
  trips.as.i32 = 0;
  says("a loop without iterations is left to tokens", !df_session_run(s, 1, fetch, 1, n, &trips, 0, &result, &err) &&
                                                        result.as.i32 == 1 && turned == 5000);

  trips.as.i32 = 300;
  df_run *r = df_session_start(s, 1, fetch, 1, n, &trips, 0, "paused=yes", &err);
  df_run_settle(r, 60, NULL);
  df_run_resume(r, DF_STEP_ITERATION, 7);
  says("a run that is stepped pauses", df_run_settle(r, 60, NULL) == DF_RUN_PAUSED);
  df_stats at;
  df_run_stats(r, &at);
  says("after the iterations that were asked for", at.iterations >= 7 && at.iterations < 300);
  df_run_resume(r, DF_STEP_NONE, 0);
  says("and ends as ever", !df_run_wait(r, &result, &err) && result.as.i32 == expected(300));
  df_run_release(r);

  trips.as.i32 = INT32_MAX;
  turned = 0;
  r = df_session_start(s, 1, fetch, 1, n, &trips, 0, NULL, &err);
  while (!turned) usleep(1000);
  df_run_cancel(r);
  says("a run that is cancelled ends while the engine turns it", df_run_wait(r, &result, &err) == DF_CANCELLED);
  df_run_release(r);
  df_session_release(s);
  df_graph_release(g);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
