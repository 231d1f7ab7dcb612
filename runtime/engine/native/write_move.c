/* write_move.c: ops that only put elements elsewhere: values side by side, rows of which a list of indices tells, ones
 * among zeros, elements again and again, a copy of a tensor some rows of which are written over; and where the greatest
 * of a few lies, and the sum and mean of very few.
 *
 * Of small tensors they are worth code of their own: as calls of kernels, which take some 100 ns each, they made a
 * search of a game tree with 17 of them in a trip take 2.4 times as long. Nothing is computed but a sum and its
 * quotient by a count, in the kernels' order (NAME(row) in fold_body.h), so the bits are theirs. An index outside is
 * left to the tokens, which say so.
 */
#include "engine/native/write.h"
#include "kernels/array.h"
#include "kernels/index.h"
#include "kernels/reduce.h"
#include <stdio.h>

static dfi_operand operand_at(const dfi_look *l, const dfi_pnode *p, uint32_t k) {
  return l->plan->operand[p->in + k];
}

static const dfi_shape *shape_of(const dfi_look *l, int32_t i, const dfi_pnode *p, uint32_t k) {
  return dfi_analyze_shape(l, i, operand_at(l, p, k));
}

/* Is operand k a number? */
static bool is_number(const dfi_look *l, int32_t i, const dfi_pnode *p, uint32_t k) {
  return !shape_of(l, i, p, k) && dfi_input_shape(l, p, k)->rank == 0 && dfi_unboxed(dfi_dtype(p->node->in[k]));
}

static bool is_index(const dfi_pnode *p, uint32_t k) {
  const uint8_t t = dfi_dtype(p->node->in[k]);
  return t == DF_INT32 || t == DF_INT64;
}

/* Elements of dimensions [from, to). */
static int64_t span(const dfi_shape *s, int32_t from, int32_t to) {
  int64_t n = 1;
  for (int32_t d = from; d < to; d++) n *= s->dims[d];
  return n;
}

/* ---- side by side ----------------------------------------------------------------------------------------------- */

/* Values that lie in `outer` runs, in each of them one after the other. */
typedef struct beside { uint32_t n; int32_t axis; } beside;

static bool pack_known(const dfi_look *l, int32_t i, const dfi_pnode *p, beside *b) {
  const int64_t axis = p->node->attrs[0].i, rank = dfi_out_shape(l, p, 0)->rank;
  *b = (beside){ p->nin, (int32_t)(axis < 0 ? axis + rank : axis) };
  return (p->kernel == cpu_pack || p->kernel == ref_pack) && b->axis >= 0 && b->axis < rank;
}

static bool concat_known(const dfi_look *l, int32_t i, const dfi_pnode *p, beside *b) {
  int64_t axis;
  const int64_t rank = dfi_out_shape(l, p, 0)->rank;
  if ((p->kernel != cpu_concat && p->kernel != ref_concat) || p->nin < 2 ||
      !dfi_whole_constant(l, i, operand_at(l, p, p->nin - 1), &axis)) return false;
  *b = (beside){ p->nin - 1, (int32_t)(axis < 0 ? axis + rank : axis) };
  return b->axis >= 0 && b->axis < rank;
}

static bool beside_known(const dfi_look *l, int32_t i, const dfi_pnode *p, beside *b) {
  if (!pack_known(l, i, p, b) && !concat_known(l, i, p, b)) return false;
  const int64_t outer = span(dfi_out_shape(l, p, 0), 0, b->axis);
  int64_t all = 0;
  for (uint32_t k = 0; k < b->n; k++) {
    const dfi_shape *s = shape_of(l, i, p, k);
    if (!s && !is_number(l, i, p, k)) return false;
    all += s ? dfi_shape_size(s) : 1;
    if (s && dfi_shape_size(s) % outer) return false;
  }
  return all == dfi_shape_size(dfi_out_shape(l, p, 0));
}

/* Element `first` + run * each of `at`. */
static dfi_name run_at(dfi_writer *w, uint8_t dtype, const char *at, const char *run, int64_t each, int64_t first) {
  const dfi_name begin = dfi_temp(w), index = dfi_temp(w);
  SAY(w, "  %s = mul i64 %s, %lld\n  %s = add i64 %s, %lld\n", begin.s, run, (long long)each, index.s, begin.s,
      (long long)first);
  return dfi_element_at(w, dtype, at, index.s);
}

static void write_beside(dfi_writer *w, int32_t i, const dfi_pnode *p, const beside *b) {
  const dfi_shape *out = dfi_out_shape(w->look, p, 0);
  const int64_t outer = span(out, 0, b->axis), whole = dfi_shape_size(out) / outer;
  const dfi_name to = dfi_write_place(i, p->out);
  int64_t first = 0;
  for (uint32_t k = 0; k < b->n; k++) {
    const dfi_shape *s = shape_of(w->look, i, p, k);
    const int64_t each = s ? dfi_shape_size(s) / outer : 1;
    uint8_t dtype;
    const dfi_name v = dfi_write_operand(w, i, operand_at(w->look, p, k), &dtype);
    if (outer > 1) {
      const dfi_counted run = dfi_count_from(w);
      const dfi_name from = run_at(w, dtype, v.s, run.e.s, each, 0);
      dfi_write_copy(w, dtype, each, run_at(w, dtype, to.s, run.e.s, whole, first).s, from.s);
      dfi_count_to(w, &run, outer);
    } else {
      const dfi_name at = run_at(w, dtype, to.s, "0", 0, first);
      if (s) dfi_write_copy(w, dtype, each, at.s, v.s);
      else SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s, at.s);
    }
    first += each;
  }
}

/* ---- a number as a tensor of one element ------------------------------------------------------------------------ */

static bool lift_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  return p->op->traits & DFO_RESHAPES && is_number(l, i, p, 0) && dfi_shape_size(dfi_out_shape(l, p, 0)) == 1;
}

static void write_lift(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  uint8_t dtype;
  const dfi_name v = dfi_write_operand(w, i, operand_at(w->look, p, 0), &dtype);
  SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s, dfi_write_place(i, p->out).s);
}

/* ---- by indices -------------------------------------------------------------------------------------------------- */

/* Along which axis, from 0; an index may be a number. */
static bool gather_known(const dfi_look *l, int32_t i, const dfi_pnode *p, int32_t *axis) {
  int64_t a;
  if (p->kernel != cpu_gather || p->nin != 3 || p->node->attrs[0].i || !is_index(p, 1)) return false;
  const dfi_shape *x = shape_of(l, i, p, 0), *at = shape_of(l, i, p, 1);
  if (!x || !(at || is_number(l, i, p, 1)) || !dfi_whole_constant(l, i, operand_at(l, p, 2), &a)) return false;
  *axis = (int32_t)(a < 0 ? a + x->rank : a);
  if (*axis < 0 || *axis >= x->rank) return false;
  return dfi_shape_size(dfi_out_shape(l, p, 0)) * x->dims[*axis] == dfi_shape_size(x) * (at ? dfi_shape_size(at) : 1);
}

/* Index number `e` of a list, which has `each` of them for a row: the dth. */
static dfi_name listed(dfi_writer *w, uint8_t dtype, const char *list, const char *e, int64_t each, int64_t d) {
  return dfi_write_load(w, dtype, run_at(w, dtype, list, e, each, d).s);
}

static void write_gather(dfi_writer *w, int32_t i, const dfi_pnode *p, int32_t axis) {
  const dfi_shape *x = shape_of(w->look, i, p, 0), *at = shape_of(w->look, i, p, 1);
  const int64_t row = span(x, axis + 1, x->rank), picks = at ? dfi_shape_size(at) : 1;
  uint8_t dtype, of_index;
  const dfi_name from = dfi_write_operand(w, i, operand_at(w->look, p, 0), &dtype);
  const dfi_name list = dfi_write_operand(w, i, operand_at(w->look, p, 1), &of_index), to = dfi_write_place(i, p->out);
  const dfi_counted c = dfi_count_from(w);
  const dfi_name named = at ? listed(w, of_index, list.s, c.e.s, 1, 0) : list;
  const dfi_name index = dfi_write_checked(w, i, named, of_index, x->dims[axis]);
  const dfi_counted o = dfi_count_from(w);
  const dfi_name there = run_at(w, dtype, from.s, o.e.s, x->dims[axis] * row, 0);
  const dfi_name here = run_at(w, dtype, to.s, o.e.s, picks * row, 0);
  const dfi_name place = run_at(w, dtype, here.s, c.e.s, row, 0);
  dfi_write_copy(w, dtype, row, place.s, run_at(w, dtype, there.s, index.s, row, 0).s);
  dfi_count_to(w, &o, span(x, 0, axis));
  dfi_count_to(w, &c, picks);
}

/* One row for each index, along the last axis. */
static bool hot_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  const dfi_shape *out = dfi_out_shape(l, p, 0), *at = shape_of(l, i, p, 0);
  if ((p->kernel != cpu_one_hot && p->kernel != ref_one_hot) || p->nin != 4 || !is_index(p, 0)) return false;
  const int64_t axis = p->node->attrs[0].i;
  if (!(at || is_number(l, i, p, 0)) || (axis != -1 && axis != out->rank - 1)) return false;
  return is_number(l, i, p, 2) && is_number(l, i, p, 3) &&
         dfi_shape_size(out) == (at ? dfi_shape_size(at) : 1) * out->dims[out->rank - 1];
}

static void write_hot(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_shape *out = dfi_out_shape(w->look, p, 0), *at = shape_of(w->look, i, p, 0);
  const int64_t depth = out->dims[out->rank - 1];
  uint8_t of_index, dtype;
  dfi_name index = dfi_write_operand(w, i, operand_at(w->look, p, 0), &of_index);
  const dfi_name on = dfi_write_operand(w, i, operand_at(w->look, p, 2), &dtype),
                 off = dfi_write_operand(w, i, operand_at(w->look, p, 3), &dtype), to = dfi_write_place(i, p->out);
  const dfi_counted row = dfi_count_from(w);
  if (at) index = listed(w, of_index, index.s, row.e.s, 1, 0);
  index = dfi_write_wide(w, index, of_index);
  const dfi_counted e = dfi_count_from(w);
  const dfi_name is = dfi_temp(w), v = dfi_temp(w);
  SAY(w, "  %s = icmp eq i64 %s, %s\n", is.s, e.e.s, index.s);
  SAY(w, "  %s = select i1 %s, %s %s, %s %s\n", v.s, is.s, dfi_type(dtype), on.s, dfi_type(dtype), off.s);
  SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s,
      dfi_element_at(w, dtype, run_at(w, dtype, to.s, row.e.s, depth, 0).s, e.e.s).s);
  dfi_count_to(w, &e, depth);
  dfi_count_to(w, &row, at ? dfi_shape_size(at) : 1);
}

/* ---- again and again -------------------------------------------------------------------------------------------- */

static bool spread_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  const dfi_shape *x = shape_of(l, i, p, 0), *out = dfi_out_shape(l, p, 0);
  if ((p->kernel != cpu_broadcast_to && p->kernel != ref_broadcast_to) || (!x && !is_number(l, i, p, 0))) return false;
  const int32_t ahead = out->rank - (x ? x->rank : 0);
  for (int32_t d = 0; x && ahead >= 0 && d < x->rank; d++)
    if (x->dims[d] != 1 && x->dims[d] != out->dims[ahead + d]) return false;
  return ahead >= 0;
}

/* The last dimensions along which x has all elements, or just one, are a run. */
static void write_spread(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_shape *x = shape_of(w->look, i, p, 0), *out = w->look->loop[i].slot_shape[p->out];
  const int32_t ahead = out->rank - (x ? x->rank : 0);
  int32_t outer = out->rank;
  uint8_t dtype;
  dfi_name from = dfi_write_operand(w, i, operand_at(w->look, p, 0), &dtype), to = dfi_write_place(i, p->out);
  while (x && outer > ahead && x->dims[outer - 1 - ahead] == out->dims[outer - 1]) outer--;
  const bool copies = outer < out->rank && span(out, outer, out->rank) > 1;
  while (!copies && outer > 0 && (outer <= ahead || x->dims[outer - 1 - ahead] == 1)) outer--;
  const int64_t run = span(out, outer, out->rank);
  dfi_counted c[DF_MAX_RANK];
  for (int32_t d = 0; d < outer; d++) {
    c[d] = dfi_count_from(w);
    to = run_at(w, dtype, to.s, c[d].e.s, span(out, d + 1, out->rank), 0);
    if (d < ahead || x->dims[d - ahead] == 1) continue;
    from = run_at(w, dtype, from.s, c[d].e.s, span(x, d - ahead + 1, x->rank), 0);
  }
  if (copies) dfi_write_copy(w, dtype, run, to.s, from.s);
  else {
    const dfi_name v = x ? dfi_write_load(w, dtype, from.s) : from;
    const dfi_counted e = dfi_count_from(w);
    SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s, dfi_element_at(w, dtype, to.s, e.e.s).s);
    dfi_count_to(w, &e, run);
  }
  for (int32_t d = outer; d-- > 0; ) dfi_count_to(w, &c[d], out->dims[d]);
}

/* Of more elements the kernel is faster, a call included. */
static bool fill_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  if (dfi_shape_size(dfi_out_shape(l, p, 0)) > DFI_DIRECT) return false;
  return (p->kernel == cpu_fill || p->kernel == ref_fill) && p->nin == 2 && is_number(l, i, p, 1);
}

static void write_fill(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  uint8_t dtype;
  const dfi_name v = dfi_write_operand(w, i, operand_at(w->look, p, 1), &dtype);
  const dfi_counted e = dfi_count_from(w);
  SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s,
      dfi_element_at(w, dtype, dfi_write_place(i, p->out).s, e.e.s).s);
  dfi_count_to(w, &e, dfi_shape_size(w->look->loop[i].slot_shape[p->out]));
}

/* ---- where the greatest is --------------------------------------------------------------------------------------- */

/* Of more elements the kernel is faster, a call included. */
static bool arg_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  enum { FEW = 12 };
  const df_kernel_fn f = p->kernel;
  int64_t axis;
  if ((f != cpu_arg_max && f != ref_arg_max && f != cpu_arg_min && f != ref_arg_min) || p->nin != 2) return false;
  const dfi_shape *x = shape_of(l, i, p, 0);
  if (!x || dfi_shape_size(x) > FEW || !dfi_has_sum(dfi_dtype(p->node->in[0])) ||
      !dfi_whole_constant(l, i, operand_at(l, p, 1), &axis)) return false;
  if (axis < 0) axis += x->rank;
  const dfi_shape *out = dfi_out_shape(l, p, 0);
  return axis >= 0 && axis < x->rank && dfi_shape_known(out) &&
         dfi_shape_size(out) * x->dims[axis] == dfi_shape_size(x);
}

/* Is v to take the place of the best so far? NaN is, of the first that comes. */
static dfi_name is_better(dfi_writer *w, const dfi_pnode *p, uint8_t dtype, dfi_name v, dfi_name best) {
  const bool most = p->kernel == cpu_arg_max || p->kernel == ref_arg_max;
  const bool floats = dtype == DF_FLOAT32 || dtype == DF_FLOAT64;
  const char *type = dfi_type(dtype);
  const dfi_name beyond = dfi_temp(w);
  if (!floats) {
    SAY(w, "  %s = icmp %s %s %s, %s\n", beyond.s, most ? "sgt" : "slt", type, v.s, best.s);
    return beyond;
  }
  const dfi_name odd = dfi_temp(w), plain = dfi_temp(w), first = dfi_temp(w), better = dfi_temp(w);
  SAY(w, "  %s = fcmp %s %s %s, %s\n", beyond.s, most ? "ogt" : "olt", type, v.s, best.s);
  SAY(w, "  %s = fcmp uno %s %s, %s\n", odd.s, type, v.s, v.s);
  SAY(w, "  %s = fcmp ord %s %s, %s\n", plain.s, type, best.s, best.s);
  SAY(w, "  %s = and i1 %s, %s\n  %s = or i1 %s, %s\n", first.s, odd.s, plain.s, better.s, beyond.s, first.s);
  return better;
}

static void write_arg(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_shape *x = shape_of(w->look, i, p, 0);
  int64_t axis;
  uint8_t dtype;
  dfi_whole_constant(w->look, i, operand_at(w->look, p, 1), &axis);
  if (axis < 0) axis += x->rank;
  const int64_t n = x->dims[axis], inner = span(x, (int32_t)axis + 1, x->rank), outer = span(x, 0, (int32_t)axis);
  const dfi_name from = dfi_write_operand(w, i, operand_at(w->look, p, 0), &dtype), at = dfi_temp(w), top = dfi_temp(w);
  DECL(w, "  %s = alloca i64\n  %s = alloca %s\n", at.s, top.s, dfi_type(dtype));
  const dfi_counted o = dfi_count_from(w), k = dfi_count_from(w);
  const dfi_name row = dfi_element_at(w, dtype, run_at(w, dtype, from.s, o.e.s, n * inner, 0).s, k.e.s);
  const dfi_name zeroth = dfi_write_load(w, dtype, row.s);
  SAY(w, "  store i64 0, ptr %s\n  store %s %s, ptr %s\n", at.s, dfi_type(dtype), zeroth.s, top.s);
  const dfi_counted j = dfi_count_from(w);
  const dfi_name v = dfi_write_load(w, dtype, run_at(w, dtype, row.s, j.e.s, inner, 0).s);
  const dfi_name best = dfi_write_load(w, dtype, top.s), was = dfi_write_load(w, DF_INT64, at.s);
  const dfi_name better = is_better(w, p, dtype, v, best), now = dfi_temp(w), is = dfi_temp(w);
  SAY(w, "  %s = select i1 %s, %s %s, %s %s\n  store %s %s, ptr %s\n", now.s, better.s, dfi_type(dtype), v.s,
      dfi_type(dtype), best.s, dfi_type(dtype), now.s, top.s);
  SAY(w, "  %s = select i1 %s, i64 %s, i64 %s\n  store i64 %s, ptr %s\n", is.s, better.s, j.e.s, was.s, is.s, at.s);
  dfi_count_to(w, &j, n);
  dfi_name place = dfi_write_load(w, DF_INT64, at.s);
  if (p->out_dtypes[0] == DF_INT32) {
    const dfi_name narrow = dfi_temp(w);
    SAY(w, "  %s = trunc i64 %s to i32\n", narrow.s, place.s);
    place = narrow;
  }
  if (!w->look->loop[i].slot_shape[p->out]) dfi_write_store(w, p->out_dtypes[0], place, i, p->out);
  else
    SAY(w, "  store %s %s, ptr %s\n", dfi_type(p->out_dtypes[0]), place.s,
        dfi_element_at(w, p->out_dtypes[0],
                       run_at(w, p->out_dtypes[0], dfi_write_place(i, p->out).s, o.e.s, inner, 0).s, k.e.s).s);
  dfi_count_to(w, &k, inner);
  dfi_count_to(w, &o, outer);
}

/* ---- written over ------------------------------------------------------------------------------------------------
 *
 * Rows go to a copy of the tensor. Where nothing else reads what comes of it, and it is what the loop's variable is
 * next, they go to the variable itself: at the end of the iteration, when nothing can fail any more and all that reads
 * the variable has been computed. A search of a game tree whose nodes have 129 rows of 32 takes 0.6 of the time so.
 * Where a cond decides, the branch puts the rows aside, and a flag says that they are due.
 */

/* Rows are one after the other, as the kernel has them: the last one of an index stays, or comes to the others. */
bool dfi_scatter_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  const bool adds = p->kernel == ref_tensor_scatter_add;
  if ((!adds && p->kernel != ref_tensor_scatter_update) || p->nin != 3 || !is_index(p, 1)) return false;
  const dfi_shape *x = shape_of(l, i, p, 0), *at = shape_of(l, i, p, 1), *row = shape_of(l, i, p, 2);
  const uint8_t t = p->out_dtypes[0];
  if (!x || !at || !row || at->rank < 1 || (adds && !dfi_has_sum(t))) return false;
  const int64_t deep = at->dims[at->rank - 1], rows = span(at, 0, at->rank - 1);
  return deep >= 1 && deep <= x->rank && dfi_shape_equal(x, dfi_out_shape(l, p, 0)) &&
         dfi_shape_size(row) == rows * span(x, (int32_t)deep, x->rank);
}

/* The rows of a scatter, and the elements of one. */
static int64_t rows_of(const dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_shape *at = shape_of(w->look, i, p, 1);
  return span(at, 0, at->rank - 1);
}
static int64_t row_of(const dfi_writer *w, int32_t i, const dfi_pnode *p) {
  return dfi_shape_size(shape_of(w->look, i, p, 2)) / rows_of(w, i, p);
}

/* The first element of the row that the eth indices name. */
static dfi_name named_row(dfi_writer *w, int32_t i, const dfi_pnode *p, const char *e) {
  const dfi_shape *x = shape_of(w->look, i, p, 0), *at = shape_of(w->look, i, p, 1);
  const int64_t deep = at->dims[at->rank - 1];
  uint8_t of_index;
  const dfi_name list = dfi_write_operand(w, i, operand_at(w->look, p, 1), &of_index);
  dfi_name sum = { "0" };
  for (int64_t d = 0; d < deep; d++) {
    const dfi_name index = dfi_write_checked(w, i, listed(w, of_index, list.s, e, deep, d), of_index, x->dims[d]);
    const dfi_name by = dfi_temp(w), more = dfi_temp(w);
    SAY(w, "  %s = mul i64 %s, %lld\n", by.s, index.s, (long long)span(x, (int32_t)d + 1, x->rank));
    SAY(w, "  %s = add i64 %s, %s\n", more.s, sum.s, by.s);
    sum = more;
  }
  return sum;
}

/* The eth row of the values, which lie at `list`, goes to the row of `to` that begins with element `first`. */
static void write_row(dfi_writer *w, int32_t i, const dfi_pnode *p, dfi_name list, const char *to, const char *first,
                      const char *e) {
  const int64_t row = row_of(w, i, p);
  const uint8_t dtype = p->out_dtypes[0];
  const dfi_name there = dfi_element_at(w, dtype, to, first), from = run_at(w, dtype, list.s, e, row, 0);
  if (p->kernel == ref_tensor_scatter_update) { dfi_write_copy(w, dtype, row, there.s, from.s); return; }
  const dfi_counted c = dfi_count_from(w);
  const dfi_name place = dfi_element_at(w, dtype, there.s, c.e.s), more = dfi_element_at(w, dtype, from.s, c.e.s);
  const dfi_name had = dfi_write_load(w, dtype, place.s);
  const dfi_name sum = dfi_write_sum(w, dtype, had, dfi_write_load(w, dtype, more.s));
  SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), sum.s, place.s);
  dfi_count_to(w, &c, row);
}

/* Where the numbers of the rows lie that are written at the iteration's end ("over"); of those of a branch the rows
   ("aside"), and whether they are to be written ("due"). */
static dfi_name place_of(const char *what, int32_t i, const dfi_pnode *p) {
  dfi_name n;
  snprintf(n.s, sizeof n.s, "%%%s%d_%u", what, i, p->out);
  return n;
}

void dfi_write_places(dfi_writer *w, int32_t i) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++) {
    const dfi_pnode *p = &l->nodes[n];
    if (!l->node[n].over || p->kind == DFI_K_MERGE) continue;
    dfi_write_room(w, place_of("over", i, p).s, DF_INT64, rows_of(w, i, p));
    if (!dfi_in_branch(l, p)) continue;
    const dfi_name due = place_of("due", i, p);
    dfi_write_room(w, place_of("aside", i, p).s, p->out_dtypes[0], dfi_shape_size(shape_of(w->look, i, p, 2)));
    DECL(w, "  %s = alloca i1\n  store i1 false, ptr %s\n", due.s, due.s);
  }
}

/* What may fail is done here, in any case. */
static void write_scatter(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const bool over = l->node[p - l->nodes].over;
  const dfi_name to = over ? place_of("over", i, p) : dfi_write_place(i, p->out);
  uint8_t dtype;
  const dfi_name list = dfi_write_operand(w, i, operand_at(w->look, p, 2), &dtype);
  if (!over) {
    const dfi_name x = dfi_write_operand(w, i, operand_at(w->look, p, 0), &dtype);
    dfi_write_copy(w, dtype, dfi_shape_size(shape_of(w->look, i, p, 0)), to.s, x.s);
  }
  const dfi_counted c = dfi_count_from(w);
  const dfi_name first = named_row(w, i, p, c.e.s);
  if (over) SAY(w, "  store i64 %s, ptr %s\n", first.s, dfi_element_at(w, DF_INT64, to.s, c.e.s).s);
  else write_row(w, i, p, list, to.s, first.s, c.e.s);
  dfi_count_to(w, &c, rows_of(w, i, p));
  if (!over || !dfi_in_branch(l, p)) return;
  dfi_write_copy(w, dtype, dfi_shape_size(shape_of(w->look, i, p, 2)), place_of("aside", i, p).s, list.s);
  SAY(w, "  store i1 true, ptr %s\n", place_of("due", i, p).s);
}

static void write_rows(dfi_writer *w, int32_t i, const dfi_pnode *p, dfi_name list, const char *to) {
  const dfi_counted c = dfi_count_from(w);
  const dfi_name first = dfi_write_load(w, DF_INT64, dfi_element_at(w, DF_INT64, place_of("over", i, p).s, c.e.s).s);
  write_row(w, i, p, list, to, first.s, c.e.s);
  dfi_count_to(w, &c, rows_of(w, i, p));
}

void dfi_write_over(dfi_writer *w, int32_t i, dfi_operand next, const char *to) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_pnode *p = dfi_maker_of(l, next);
  if (!p || !l->node[p - l->nodes].over) return;
  dfi_write_over(w, i, operand_at(w->look, p, 0), to);         /* those that were there before */
  if (p->kind == DFI_K_MERGE) {
    dfi_write_over(w, i, operand_at(w->look, p, 1), to);
  } else if (dfi_in_branch(l, p)) {
    const dfi_name is = dfi_temp(w), due = place_of("due", i, p);
    const int32_t b = w->nlabel++;
    SAY(w, "  %s = load i1, ptr %s\n  br i1 %s, label %%due%d, label %%undue%d\n", is.s, due.s, is.s, b, b);
    SAY(w, "due%d:\n  store i1 false, ptr %s\n", b, due.s);
    write_rows(w, i, p, place_of("aside", i, p), to);
    SAY(w, "  br label %%undue%d\nundue%d:\n", b, b);
  } else {
    uint8_t dtype;
    write_rows(w, i, p, dfi_write_operand(w, i, operand_at(w->look, p, 2), &dtype), to);
  }
}

/* ---- the sum, or mean, of so few elements that kernels of any width add them one after the other ----------------- */

static bool few_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  enum { FEW = 3 };
  const bool folds = p->kernel == cpu_sum || p->kernel == cpu_mean;
  if (!folds || p->nin != 2 || p->nout != 1 || p->reads || p->gpu) return false;
  const uint8_t t = p->out_dtypes[0];
  const dfi_shape *x = shape_of(l, i, p, 0), *out = dfi_out_shape(l, p, 0);
  const bool one = out->rank == 0 || (dfi_sized(t, out) && dfi_shape_size(out) == 1);
  return one && x && dfi_constant_of(l, i, operand_at(l, p, 1)) && (t == DF_FLOAT32 || t == DF_FLOAT64) &&
         dfi_shape_size(x) >= 2 && dfi_shape_size(x) <= FEW;
}

static void write_few(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  uint8_t dtype;
  const dfi_name from = dfi_write_operand(w, i, operand_at(w->look, p, 0), &dtype);
  const int64_t n = dfi_shape_size(shape_of(w->look, i, p, 0));
  dfi_name sum = dfi_write_load(w, dtype, from.s);
  for (int64_t k = 1; k < n; k++) {
    char index[24];
    snprintf(index, sizeof index, "%lld", (long long)k);
    sum = dfi_write_sum(w, dtype, sum, dfi_write_load(w, dtype, dfi_element_at(w, dtype, from.s, index).s));
  }
  if (p->kernel == cpu_mean) {
    const dfi_name mean = dfi_temp(w);
    SAY(w, "  %s = fdiv %s %s, %lld.0\n", mean.s, dfi_type(dtype), sum.s, (long long)n);
    sum = mean;
  }
  SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), sum.s, dfi_write_place(i, p->out).s);
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

bool dfi_move_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  beside b;
  int32_t axis;
  if (p->nout != 1 || !p->nin || p->reads || p->has_handle || p->gpu || p->waits) return false;
  if (dfi_scatter_known(l, i, p) || arg_known(l, i, p) || few_known(l, i, p)) return true;
  return dfi_small(p->node->out[0].dtype, dfi_out_shape(l, p, 0)) &&
         (lift_known(l, i, p) || beside_known(l, i, p, &b) || gather_known(l, i, p, &axis) || hot_known(l, i, p) ||
          spread_known(l, i, p) || fill_known(l, i, p));
}

void dfi_write_move(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  beside b;
  int32_t axis;
  if (lift_known(w->look, i, p)) write_lift(w, i, p);
  else if (beside_known(w->look, i, p, &b)) write_beside(w, i, p, &b);
  else if (gather_known(w->look, i, p, &axis)) write_gather(w, i, p, axis);
  else if (hot_known(w->look, i, p)) write_hot(w, i, p);
  else if (arg_known(w->look, i, p)) write_arg(w, i, p);
  else if (few_known(w->look, i, p)) write_few(w, i, p);
  else if (spread_known(w->look, i, p)) write_spread(w, i, p);
  else if (fill_known(w->look, i, p)) write_fill(w, i, p);
  else write_scatter(w, i, p);
}
