/* write_burst.c: many iterations of a loop at once.
 *
 * An innermost loop whose reads and writes of arrays go up or down by one location an iteration is written a second
 * time, without looking at each location: before a burst of iterations the runtime says for how many all locations lie
 * in one piece and are what they should be, and afterwards it is told how many there were. So where nothing is carried
 * from one iteration to the next LLVM makes vectors of it. The arrays' states change when the burst is over, so a burst
 * in which something was about to fail has not been: its variables are put back, and iterations one by one say what
 * failed.
 *
 * Variables (of the graph) are read once for a burst: that looks like a burst between two assignments.
 *
 * A loop without arrays is written so where its predicate tells how many trips there are: LLVM then makes vectors of
 * its sums, or finds what a counter comes to, and one by one nothing runs but what a burst was spoilt by.
 */
#include "engine/native/write.h"
#include "kernels/elementwise.h"
#include <stdio.h>

enum { DEEP = 16, NODES_AT_MOST = 400 };

static bool is_whole(uint8_t t) { return t == DF_INT32 || t == DF_INT64; }

/* ---- how an index changes ---------------------------------------------------------------------------------------- */

/* The node that fills a slot; NULL: it is a variable, or a constant. */
static const dfi_pnode *maker_of(const dfi_analyze_loop *l, uint32_t slot) {
  for (uint32_t n = 0; n < l->scope->n; n++) {
    const dfi_pnode *p = &l->nodes[n];
    if (p->kind != DFI_K_SWITCH && p->kind != DFI_K_SCALAR && p->kind != DFI_K_CONST) continue;
    if (p->out == slot || (p->kind == DFI_K_SWITCH && p->out + 1 == slot)) return p;
  }
  return NULL;
}
static int32_t variable_of(const dfi_nloop *v, uint32_t slot) {
  for (int32_t k = 0; k < v->nvars; k++)
    if (v->var[k].enter->out == slot) return k;
  return -1;
}
static bool passes_on(const dfi_pnode *p) {
  return p->kind == DFI_K_SWITCH || p->kind == DFI_K_CONST || (p->kind == DFI_K_SCALAR && dfi_is_identity(p));
}
static bool sums(const dfi_pnode *p) {
  return p->kind == DFI_K_SCALAR && is_whole(p->out_dtypes[0]) &&
         (p->op->scalar == scalar_add || p->op->scalar == scalar_sub);
}

/* The whole number that o always is. */
static bool constant_of(const dfi_writer *w, int32_t i, dfi_operand o, int64_t *c) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  uint32_t at = DFI_INDEX(o);
  if (DFI_SPACE(o) == DFI_ITERATION && l->slot_copy[at] >= 0) at = (uint32_t)l->slot_copy[at];
  else if (DFI_SPACE(o) != DFI_CONSTANT) return false;
  const df_value *v = &w->look->plan->constant[at];
  if (v->kind != DF_SCALAR || !is_whole(v->dtype)) return false;
  *c = v->dtype == DF_INT32 ? v->as.i32 : v->as.i64;
  return true;
}

/* o is the variable in `slot` and *c. */
static bool offset_of(const dfi_writer *w, int32_t i, dfi_operand o, uint32_t slot, int64_t *c, int32_t depth) {
  int64_t more;
  if (DFI_SPACE(o) != DFI_ITERATION || depth > DEEP) return false;
  if (DFI_INDEX(o) == slot) {
    *c = 0;
    return true;
  }
  const dfi_pnode *p = maker_of(&w->look->loop[i], DFI_INDEX(o));
  if (!p) return false;
  const dfi_operand *in = w->look->plan->operand + p->in;
  if (passes_on(p)) return offset_of(w, i, in[0], slot, c, depth + 1);
  if (!sums(p)) return false;
  if (constant_of(w, i, in[1], &more) && offset_of(w, i, in[0], slot, c, depth + 1)) {
    *c += p->op->scalar == scalar_add ? more : -more;
    return true;
  }
  if (p->op->scalar != scalar_add || !constant_of(w, i, in[0], &more) || !offset_of(w, i, in[1], slot, c, depth + 1))
    return false;
  *c += more;
  return true;
}

/* By how much o changes from one iteration to the next. False: that is not known. */
static bool step_of(const dfi_writer *w, int32_t i, dfi_operand o, int64_t *step, int32_t depth) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  int64_t a, b;
  *step = 0;
  if (depth > DEEP) return false;
  if (DFI_SPACE(o) != DFI_ITERATION) return true;
  if (!is_whole(l->slot_dtype[DFI_INDEX(o)]) || l->slot_shape[DFI_INDEX(o)]) return false;
  if (l->slot_copy[DFI_INDEX(o)] >= 0) return true;
  const int32_t k = variable_of(&w->unit->loop[i], DFI_INDEX(o));
  if (k >= 0)
    return offset_of(w, i, w->look->plan->operand[w->unit->loop[i].var[k].next->in], DFI_INDEX(o), step, 0) &&
           *step > -1000 && *step < 1000;
  const dfi_pnode *p = maker_of(l, DFI_INDEX(o));
  if (!p) return false;
  const dfi_operand *in = w->look->plan->operand + p->in;
  if (passes_on(p)) return step_of(w, i, in[0], step, depth + 1);
  if (!sums(p) || !step_of(w, i, in[0], &a, depth + 1) || !step_of(w, i, in[1], &b, depth + 1)) return false;
  *step = p->op->scalar == scalar_add ? a + b : a - b;
  return true;
}

/* What o is in the iteration that comes next. */
static dfi_name value_of(dfi_writer *w, int32_t i, dfi_operand o, uint8_t *dtype) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_pnode *p = NULL;
  if (DFI_SPACE(o) == DFI_ITERATION && l->slot_copy[DFI_INDEX(o)] < 0) p = maker_of(l, DFI_INDEX(o));
  if (!p) return dfi_write_operand(w, i, o, dtype);
  const dfi_operand *in = w->look->plan->operand + p->in;
  if (passes_on(p)) return value_of(w, i, in[0], dtype);
  uint8_t both[2];
  const dfi_name v[2] = { value_of(w, i, in[0], &both[0]), value_of(w, i, in[1], &both[1]) };
  *dtype = p->out_dtypes[0];
  return dfi_write_op(w, i, p, v, both);
}
static dfi_name wide_value_of(dfi_writer *w, int32_t i, dfi_operand o) {
  uint8_t dtype;
  const dfi_name v = value_of(w, i, o, &dtype);
  if (dtype == DF_INT64) return v;
  const dfi_name wide = dfi_temp(w);
  SAY(w, "  %s = sext i32 %s to i64\n", wide.s, v.s);
  return wide;
}

/* ---- which loops ------------------------------------------------------------------------------------------------- */

static bool known_array(const dfi_writer *w, int32_t i, uint32_t n) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_pnode *p = &l->nodes[n];
  const dfi_operand *in = w->look->plan->operand + p->in;
  int64_t step;
  if (dfi_is_write(p) && p->node->attrs[0].i) return false; /* `recomputed` */
  if (l->node[n].guard != 0 && l->node[n].guard != l->go_on) return false;
  return step_of(w, i, in[1], &step, 0) && (step == 1 || step == -1);
}

/* Is an array that the loop writes met in one place alone? */
static bool apart(const dfi_writer *w, int32_t i) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++)
    if (dfi_is_write(&l->nodes[n]))
      for (uint32_t m = 0; m < l->scope->n; m++)
        if (m != n && (dfi_is_read(&l->nodes[m]) || dfi_is_write(&l->nodes[m])) &&
            dfi_analyze_root(w->look, i, w->look->plan->operand[l->nodes[m].in]) ==
                dfi_analyze_root(w->look, i, w->look->plan->operand[l->nodes[n].in]))
          return false;
  return true;
}

/* A predicate that compares what goes up or down by one with what stays. */
typedef struct counted { const dfi_pnode *p; bool up, last; } counted;

static bool is_counted(const dfi_writer *w, int32_t i, counted *c) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_operand pred = l->guard[l->go_on].pred;
  int64_t a, b;
  const dfi_pnode *p = DFI_SPACE(pred) == DFI_ITERATION ? maker_of(l, DFI_INDEX(pred)) : NULL;
  while (p && p->kind != DFI_K_SWITCH && passes_on(p) && DFI_SPACE(w->look->plan->operand[p->in]) == DFI_ITERATION)
    p = maker_of(l, DFI_INDEX(w->look->plan->operand[p->in]));
  if (!p || p->kind != DFI_K_SCALAR || p->nin != 2 || !is_whole(dfi_dtype(p->node->in[0]))) return false;
  const dfi_operand *in = w->look->plan->operand + p->in;
  const bool up = p->op->scalar == scalar_less || p->op->scalar == scalar_less_equal;
  const bool down = p->op->scalar == scalar_greater || p->op->scalar == scalar_greater_equal;
  const bool last = p->op->scalar == scalar_less_equal || p->op->scalar == scalar_greater_equal;
  if ((!up && !down) || !step_of(w, i, in[0], &a, 0) || !step_of(w, i, in[1], &b, 0)) return false;
  *c = (counted){ p, up, last };
  return !(a && b) && a - b == (up ? 1 : -1);
}

bool dfi_burst_known(const dfi_writer *w, int32_t i) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  uint32_t arrays = 0;
  counted c;
  if (l->calls || l->scope->n > NODES_AT_MOST) return false;
  for (int32_t k = 0; k < w->unit->loop[i].nvars; k++)            /* it would be copied for each burst */
    if (w->unit->loop[i].var[k].over) return false;
  for (int32_t k = 0; k < w->look->nloops; k++)
    if (w->look->loop[k].parent == i) return false;
  for (uint32_t n = 0; n < l->scope->n; n++) {
    const dfi_pnode *p = &l->nodes[n];
    if (!dfi_is_read(p) && !dfi_is_write(p)) continue;
    if (!known_array(w, i, n)) return false;
    arrays++;
  }
  return arrays ? apart(w, i) : is_counted(w, i, &c);
}

/* How long the predicate goes on to hold, where that is known; else "". */
static dfi_name write_trips(dfi_writer *w, int32_t i) {
  counted c;
  if (!is_counted(w, i, &c)) return (dfi_name){ "" };
  const dfi_operand *in = w->look->plan->operand + c.p->in;
  const dfi_name x = wide_value_of(w, i, in[0]), y = wide_value_of(w, i, in[1]), far = dfi_temp(w), n = dfi_temp(w);
  dfi_declare(w, "declare i64 @llvm.ssub.sat.i64(i64, i64)");      /* what lies behind does not wrap to far ahead */
  dfi_declare(w, "declare i64 @llvm.sadd.sat.i64(i64, i64)");
  SAY(w, "  %s = call i64 @llvm.ssub.sat.i64(i64 %s, i64 %s)\n  %s = call i64 @llvm.sadd.sat.i64(i64 %s, i64 %d)\n",
      far.s, c.up ? y.s : x.s, c.up ? x.s : y.s, n.s, far.s, c.last);
  return n;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* Where the first location of each lies. */
static void write_places(dfi_writer *w, int32_t i, uint32_t first) {
  for (uint32_t k = first; k < w->unit->narrays; k++) {
    const dfi_pnode *p = w->unit->access[k].node;
    const dfi_name low = dfi_temp(w), at = dfi_temp(w), data = dfi_temp(w), index = dfi_temp(w), rel = dfi_temp(w),
                   by = dfi_temp(w), bytes = dfi_temp(w);
    const dfi_shape *tensor = w->unit->access[k].shape;
    const uint8_t dtype = dfi_is_read(p) ? p->out_dtypes[0] : dfi_dtype(p->node->in[2]);
    SAY(w, "  %s = load i64, ptr %%a%u.at\n  %s = getelementptr i8, ptr %%a%u.at, i64 16\n  %s = load ptr, ptr %s\n",
        low.s, k, at.s, k, data.s, at.s);
    SAY(w, "  %s = getelementptr i64, ptr %%index%d, i64 %u\n  %s = load i64, ptr %s\n  %s = sub i64 %s, %s\n", by.s, i,
        k - first, index.s, by.s, rel.s, index.s, low.s);
    SAY(w, "  %s = mul i64 %s, %lld\n  %%a%u.first = getelementptr i8, ptr %s, i64 %s\n", bytes.s, rel.s,
        (long long)(dfi_dtype_size[dtype] * (tensor ? dfi_shape_size(tensor) : 1)), k, data.s, bytes.s);
  }
}

/* What is said of loads and stores: an array that is written overlaps with no other. */
static void no_overlap(dfi_writer *w, uint32_t first, uint32_t k, char *said, size_t room) {
  if (k - first >= 16) {
    *said = 0;
    return;
  }
  snprintf(said, room, ", !alias.scope !%u, !noalias !%u", 1000 + 3 * k, 1001 + 3 * k);
}
static void write_scopes(dfi_writer *w, uint32_t first) {
  for (uint32_t k = first; k < w->unit->narrays && k - first < 16; k++) {
    dfi_text_add(&w->scopes, "!%u = !{!%u}\n!%u = distinct !{!%u, !2}\n!%u = !{", 1000 + 3 * k, 1002 + 3 * k,
                 1002 + 3 * k, 1002 + 3 * k, 1001 + 3 * k);
    const char *between = "";
    for (uint32_t j = first; j < w->unit->narrays && j - first < 16; j++)
      if (j != k && (dfi_is_write(w->unit->access[j].node) || dfi_is_write(w->unit->access[k].node))) {
        dfi_text_add(&w->scopes, "%s!%u", between, 1002 + 3 * j);
        between = ", ";
      }
    dfi_text_add(&w->scopes, "}\n");
  }
}

void dfi_write_burst_array(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const bool reads = dfi_is_read(p);
  const uint32_t k = dfi_access_of(w, p);
  const dfi_operand *in = w->look->plan->operand + p->in;
  const dfi_shape *tensor = w->unit->access[k].shape;
  const dfi_name j = dfi_temp(w), by = dfi_temp(w), at = dfi_temp(w);
  uint8_t dtype = p->out_dtypes[0];
  dfi_name value = { "" };
  char type[48], said[80];
  if (!reads) value = dfi_write_operand(w, i, in[2], &dtype);
  if (tensor) snprintf(type, sizeof type, "[%lld x %s]", (long long)dfi_shape_size(tensor), dfi_type(dtype));
  else snprintf(type, sizeof type, "%s", dfi_type(dtype));
  no_overlap(w, w->first_array, k, said, sizeof said);
  SAY(w, "  %s = load i64, ptr %%done%d\n  %s = mul nsw i64 %s, %lld\n", j.s, i, by.s, j.s,
      (long long)w->unit->access[k].step);
  SAY(w, "  %s = getelementptr %s, ptr %%a%u.first, i64 %s\n", at.s, type, k, by.s);
  if (reads && tensor) {
    *w->look->loop[i].slot_alias[p->out].s = 0;
    dfi_write_store(w, dtype, at, i, p->out);
  }
  else if (tensor) dfi_write_copy(w, dtype, dfi_shape_size(tensor), at.s, value.s);
  else if (reads) {
    const dfi_name v = dfi_temp(w);
    SAY(w, "  %s = load %s, ptr %s%s\n", v.s, type, at.s, said);
    dfi_write_store(w, dtype, v, i, p->out);
  } else SAY(w, "  store %s %s, ptr %s%s\n", type, value.s, at.s, said);
}

/* ---- the block --------------------------------------------------------------------------------------------------- */

/* For how many iterations, `limit` at most, are the arrays ready? Asks later where they are not. */
static dfi_name write_asked(dfi_writer *w, int32_t i, uint32_t first, dfi_name limit) {
  const dfi_name n = dfi_temp(w), none = dfi_temp(w), wait = dfi_temp(w);
  DECL(w, "  %%index%d = alloca [%u x i64]\n", i, w->unit->narrays - first);
  for (uint32_t k = first; k < w->unit->narrays; k++) {
    const dfi_operand *in = w->look->plan->operand + w->unit->access[k].node->in;
    const dfi_name index = wide_value_of(w, i, in[1]), at = dfi_temp(w);
    step_of(w, i, in[1], &w->unit->access[k].step, 0);
    SAY(w, "  %s = getelementptr i64, ptr %%index%d, i64 %u\n  store i64 %s, ptr %s\n", at.s, i, k - first, index.s,
        at.s);
  }
  SAY(w, "  %s = call i64 %%do.burst(ptr %%c, i64 %u, i64 %u, ptr %%index%d, i64 %s)\n", n.s, first,
      w->unit->narrays - first, i, limit.s);
  SAY(w, "  %s = icmp slt i64 %s, 0\n  br i1 %s, label %%not%d, label %%yes%d\nnot%d:\n  %s = sub i64 0, %s\n", none.s,
      n.s, none.s, i, i, i, wait.s, n.s);
  SAY(w, "  store i64 %s, ptr %%wait%d\n  br label %%slow%d\nyes%d:\n", wait.s, i, i, i);
  return n;
}

/* For how many iterations can it run? To slow<i> where it cannot; else their number lies in %most<i>. */
static void write_question(dfi_writer *w, int32_t i, uint32_t first, int32_t cost, bool *counted) {
  const dfi_name budget = dfi_temp(w), trips = dfi_temp(w), most = dfi_temp(w), few = dfi_temp(w);
  SAY(w, "burst%d:\n  %s = load i64, ptr %%budget\n  %s = sdiv i64 %s, %d\n  %s = add i64 %s, 1\n", i, budget.s,
      trips.s, budget.s, cost, most.s, trips.s);
  const dfi_name held = write_trips(w, i);
  dfi_name limit = most;
  *counted = *held.s != 0;
  if (*counted) {
    const dfi_name less = dfi_temp(w);
    limit = dfi_temp(w);
    SAY(w, "  %s = icmp slt i64 %s, %s\n  %s = select i1 %s, i64 %s, i64 %s\n", less.s, held.s, most.s, limit.s, less.s,
        held.s, most.s);
  }
  const bool arrays = w->unit->narrays > first;
  SAY(w, "  %s = icmp slt i64 %s, %s\n  br i1 %s, label %%short%d, label %%ask%d\nshort%d:\n", few.s, limit.s,
      arrays ? "%least" : "1", few.s, i, i, i);
  if (arrays) SAY(w, "  store i64 %%least, ptr %%wait%d\n", i);
  SAY(w, "  br label %%slow%d\nask%d:\n", i, i);
  DECL(w, "  %%done%d = alloca i64\n  %%most%d = alloca i64\n  %%spoilt%d = alloca i1\n", i, i, i);
  const dfi_name n = arrays ? write_asked(w, i, first, limit) : limit;
  SAY(w, "  store i64 %s, ptr %%most%d\n", n.s, i);
}

/* Variables as they are before the burst, and after one that was spoilt. */
static void write_saved(dfi_writer *w, int32_t i, dfi_name *saved, bool back) {
  static const char *const kind[] = { "died", "merged", "ended" };
  const dfi_nloop *v = &w->unit->loop[i];
  for (int32_t k = 0; k < v->nvars; k++)
    if (v->var[k].root < 0 && !v->var[k].in_place) {
      const uint8_t dtype = v->var[k].enter->node->out[0].dtype;
      const dfi_name place = dfi_write_place(i, v->var[k].enter->out);
      const dfi_shape *tensor = v->var[k].shape;
      if (back && tensor) dfi_write_copy(w, dtype, dfi_shape_size(tensor), place.s, saved[k].s);
      else if (back) SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), saved[k].s, place.s);
      else if (tensor) {
        saved[k] = dfi_temp(w);
        dfi_write_room(w, saved[k].s, dtype, dfi_shape_size(tensor));
        dfi_write_copy(w, dtype, dfi_shape_size(tensor), saved[k].s, place.s);
      } else saved[k] = dfi_write_load(w, dtype, place.s);
    }
  for (int32_t k = 0; k < 3 && dfi_tokens_vary(w, i); k++) {
    char at[32];
    snprintf(at, sizeof at, "%%all.%s%d", kind[k], i);
    if (back) SAY(w, "  store i64 %s, ptr %s\n", saved[v->nvars + k].s, at);
    else saved[v->nvars + k] = dfi_write_load(w, DF_INT64, at);
  }
}

/* The nodes of the loop are there to be written again. */
static void begin_again(dfi_writer *w, int32_t i) {
  dfi_analyze_loop *l = &w->look->loop[i];
  dfi_analyze_count(l, w->look->plan);
  for (uint32_t n = 0; n < l->scope->n; n++) {
    if (l->nodes[n].kind == DFI_K_MERGE) l->node[n].missing = 3;
    l->node[n].written = false;
    l->node[n].sides = 0;
  }
  for (int32_t g = 0; g < l->nguards; g++) l->guard[g].begun = false;
}

/* One iteration after another, to burst.over<i>. */
static void write_iterations(dfi_writer *w, int32_t i, bool counted) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_nloop *v = &w->unit->loop[i];
  begin_again(w, i);
  SAY(w, "  store i64 0, ptr %%done%d\n  br label %%next%d\nnext%d:\n", i, i, i);
  dfi_write_begin(w, i);
  for (int32_t k = 0; k < v->nvars; k++) dfi_write_deliver(w, i, v->var[k].enter->edge[0], v->var[k].enter->edge[1]);
  dfi_write_block(w, i, 0);
  if (!counted) {
    const dfi_name t = dfi_write_truth(w, i, l->guard[l->go_on].pred);
    SAY(w, "  br i1 %s, label %%on%d.burst, label %%burst.over%d\non%d.burst:\n", t.s, i, i, i);
  }
  dfi_write_block(w, i, l->go_on);
  dfi_write_next(w, i);
  dfi_write_commit(w, i);
  const dfi_name was = dfi_temp(w), is = dfi_temp(w), most = dfi_temp(w), more = dfi_temp(w);
  SAY(w, "  %s = load i64, ptr %%done%d\n  %s = add nuw nsw i64 %s, 1\n  store i64 %s, ptr %%done%d\n", was.s, i, is.s,
      was.s, is.s, i);
  SAY(w, "  %s = load i64, ptr %%most%d\n  %s = icmp ult i64 %s, %s\n", most.s, i, more.s, is.s, most.s);
  SAY(w, "  br i1 %s, label %%next%d, label %%burst.over%d\nburst.over%d:\n", more.s, i, i, i);
}

/* What has been done is told, and the budget is less. Where the predicate did not hold any more the loop ends. */
static void write_over(dfi_writer *w, int32_t i, uint32_t first, int32_t cost, bool counted) {
  const dfi_name done = dfi_temp(w), number = dfi_temp(w), now = dfi_temp(w), spent = dfi_temp(w), budget = dfi_temp(w),
                 left = dfi_temp(w), poll = dfi_temp(w);
  SAY(w, "  %s = load i64, ptr %%done%d\n", done.s, i);
  if (w->unit->narrays > first)
    SAY(w, "  call void %%do.burst.done(ptr %%c, i64 %u, i64 %u, ptr %%index%d, i64 %s)\n", first,
        w->unit->narrays - first, i, done.s);
  for (uint32_t k = first; k < w->unit->narrays; k++) {
    const char *cells = dfi_is_read(w->unit->access[k].node) ? "%pops" : "%pushes";
    const dfi_name n = dfi_temp(w), was = dfi_temp(w), is = dfi_temp(w);
    SAY(w, "  %s = mul i64 %s, %%a%u.counts\n  %s = load i64, ptr %s\n  %s = add i64 %s, %s\n  store i64 %s, ptr %s\n",
        n.s, done.s, k, was.s, cells, is.s, was.s, n.s, is.s, cells);
  }
  SAY(w, "  %s = load i64, ptr %%number%d\n  %s = add i64 %s, %s\n  store i64 %s, ptr %%number%d\n", number.s, i, now.s,
      number.s, done.s, now.s, i);
  SAY(w, "  %s = mul i64 %s, %d\n  %s = load i64, ptr %%budget\n  %s = sub i64 %s, %s\n  store i64 %s, ptr %%budget\n",
      spent.s, done.s, cost, budget.s, left.s, budget.s, spent.s, left.s);
  SAY(w, "  %s = icmp slt i64 %s, 0\n  br i1 %s, label %%poll%d, label %%%s%d\n", poll.s, left.s, poll.s, i,
      counted ? "head" : "rest", i);
  if (counted) return;
  const dfi_name most = dfi_temp(w), ends = dfi_temp(w);
  SAY(w, "rest%d:\n  %s = load i64, ptr %%most%d\n  %s = icmp ult i64 %s, %s\n", i, most.s, i, ends.s, done.s, most.s);
  SAY(w, "  br i1 %s, label %%slow%d, label %%head%d\n", ends.s, i, i);
}

/* Are the variables counters, or arrays, all of them? */
static bool is_parallel(const dfi_writer *w, int32_t i) {
  const dfi_nloop *v = &w->unit->loop[i];
  int64_t step;
  for (int32_t k = 0; k < v->nvars; k++)
    if (v->var[k].root < 0 && !step_of(w, i, DFI_OPERAND(DFI_ITERATION, v->var[k].enter->out), &step, 0)) return false;
  return true;
}

void dfi_write_burst(dfi_writer *w, int32_t i, uint32_t first, int32_t cost) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_text before = w->body;
  dfi_name *saved = dfi_xmalloc(sizeof *saved * (size_t)(w->unit->loop[i].nvars + 3));
  const dfi_name spoilt = dfi_temp(w), most = dfi_temp(w), wait = dfi_temp(w);
  bool counted;
  w->body = (dfi_text){ 0 };
  w->burst = true;
  w->spoils = false;
  w->parallel = is_parallel(w, i);
  w->wide |= w->parallel && w->unit->narrays > first;
  w->first_array = first;
  write_question(w, i, first, cost, &counted);
  SAY(w, "  store i1 false, ptr %%spoilt%d\n", i);
  for (uint32_t n = 0; n < l->scope->n; n++)
    if (l->nodes[n].kind == DFI_K_READ) dfi_write_peek(w, i, &l->nodes[n]);
  write_places(w, i, first);
  write_scopes(w, first);
  write_saved(w, i, saved, false);
  write_iterations(w, i, counted);
  SAY(w, "  %s = load i1, ptr %%spoilt%d\n  br i1 %s, label %%undo%d, label %%told%d\nundo%d:\n", spoilt.s, i, spoilt.s,
      i, i, i);
  write_saved(w, i, saved, true);
  SAY(w,
      "  %s = load i64, ptr %%most%d\n  %s = shl i64 %s, 2\n  store i64 %s, ptr %%wait%d\n  br label "
      "%%slow%d\ntold%d:\n",
      most.s, i, wait.s, most.s, wait.s, i, i, i);
  write_over(w, i, first, cost, counted);
  DECL(w, "  %%alone%d = or i1 false, %s\n", i, w->spoils || w->unit->narrays > first ? "true" : "false");
  dfi_text_add(&w->tail, "%.*s", (int)w->body.n, w->body.at);
  dfi_free(w->body.at);
  dfi_free(saved);
  w->body = before;
  w->burst = false;
}
