/* write_row.c: x[i], a row or a number of a tensor, as TensorArrays are read: in place, with no kernel.
 *
 * The tensor may have any size where a loop has captured it: it stays where it is while the loop runs, so a row of
 * many elements is another name for where it lies. Of a tensor that an iteration makes the row is a copy, unless it is
 * only read for rows and numbers of its own: x[i][j]. An index outside of it is left to the tokens, which say so.
 */
#include "engine/native/write.h"
#include "kernels/index.h"

const df_value *dfi_constant_of(const dfi_look *l, int32_t i, dfi_operand o) {
  uint32_t at = DFI_INDEX(o);
  if (DFI_SPACE(o) == DFI_ITERATION && l->loop[i].slot_copy[at] >= 0) at = (uint32_t)l->loop[i].slot_copy[at];
  else if (DFI_SPACE(o) != DFI_CONSTANT) return NULL;
  return &l->plan->constant[at];
}

bool dfi_whole_constant(const dfi_look *l, int32_t i, dfi_operand o, int64_t *c) {
  const df_value *v = dfi_constant_of(l, i, o);
  if (!v || v->kind != DF_SCALAR || (v->dtype != DF_INT32 && v->dtype != DF_INT64)) return false;
  *c = v->dtype == DF_INT32 ? v->as.i32 : v->as.i64;
  return true;
}

bool dfi_row_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  if (p->kernel != cpu_gather || p->nin != 3 || p->nout != 1 || p->reads || p->gpu || p->node->attrs[0].i) return false;
  const dfi_operand *in = l->plan->operand + p->in;
  const dfi_shape *x = dfi_analyze_shape(l, i, in[0]), *row = dfi_out_shape(l, p, 0);
  int64_t axis;
  if (!x || x->rank < 1 || dfi_analyze_shape(l, i, in[1]) || dfi_input_shape(l, p, 1)->rank != 0) return false;
  if (!dfi_whole_constant(l, i, in[2], &axis) || axis != 0 || row->rank != x->rank - 1) return false;
  for (int32_t d = 0; d < row->rank; d++) if (row->dims[d] != x->dims[d + 1]) return false;
  return true;
}

dfi_name dfi_write_wide(dfi_writer *w, dfi_name index, uint8_t dtype) {
  if (dtype != DF_INT32) return index;
  const dfi_name wide = dfi_temp(w);
  SAY(w, "  %s = sext i32 %s to i64\n", wide.s, index.s);
  return wide;
}

dfi_name dfi_write_checked(dfi_writer *w, int32_t i, dfi_name index, uint8_t dtype, int64_t n) {
  const dfi_name bad = dfi_temp(w), safe = dfi_temp(w);
  index = dfi_write_wide(w, index, dtype);
  SAY(w, "  %s = icmp uge i64 %s, %lld\n", bad.s, index.s, (long long)n);
  dfi_write_fail(w, i, bad);
  SAY(w, "  %s = select i1 %s, i64 0, i64 %s\n", safe.s, bad.s, index.s);     /* a burst goes on when it has failed */
  return safe;
}

/* Is the row read for rows of its own alone? These are read where it lies, as what it is of stays as it is until the
   iteration is over. */
static bool is_passed(const dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  if (p->invariant || !w->unit->scope->id) return false;
  for (uint32_t n = 0; n < l->scope->n; n++)
    for (uint32_t k = 0; k < l->nodes[n].nin; k++)
      if (w->look->plan->operand[l->nodes[n].in + k] == DFI_OPERAND(DFI_ITERATION, p->out) && (k || !l->node[n].row))
        return false;
  return true;
}

void dfi_write_row(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_operand *in = w->look->plan->operand + p->in;
  const dfi_shape *x = dfi_analyze_shape(w->look, i, in[0]), *row = w->look->loop[i].slot_shape[p->out];
  const int64_t n = row ? dfi_shape_size(row) : 1;
  uint8_t dtype, index_dtype;
  const dfi_name from = dfi_write_operand(w, i, in[0], &dtype);
  const dfi_name index = dfi_write_operand(w, i, in[1], &index_dtype), first = dfi_temp(w), at = dfi_temp(w);
  const dfi_name safe = dfi_write_checked(w, i, index, index_dtype, x->dims[0]);
  SAY(w, "  %s = mul i64 %s, %lld\n  %s = getelementptr %s, ptr %s, i64 %s\n", first.s, safe.s, (long long)n, at.s,
      dfi_type(dtype), from.s, first.s);
  const bool stays = DFI_SPACE(in[0]) != DFI_ITERATION || w->look->loop[i].slot_far[DFI_INDEX(in[0])];
  const bool lies =
      row && ((stays && n > DFI_DIRECT && n * dfi_dtype_size[dtype] % 64 == 0) || is_passed(w, i, p));
  if (!row) dfi_write_store(w, dtype, dfi_write_load(w, dtype, at.s), i, p->out);
  else if (!lies) dfi_write_store(w, dtype, at, i, p->out);
  else if (dfi_in_branch(&w->look->loop[i], p)) dfi_write_point(w, i, p->out, at);
  else w->look->loop[i].slot_alias[p->out] = at;
}
