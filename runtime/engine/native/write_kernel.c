/* write_kernel.c: calls of kernels: what neither write_op.c nor write_tensor.c writes, on numbers and small tensors.
 *
 * Few elements are laid out in places of the call's own and results copied from there, so that what others compute
 * stays in registers; more are taken, and made, where they lie: a product of 16x32 and 32x32 with its gradient takes
 * 1.13 us a trip, of tokens 1.40, and copied 1.8.
 */
#include "engine/native/write.h"
#include "kernels/linalg.h"
#include <stdio.h>

static dfi_operand operand_at(const dfi_look *l, const dfi_pnode *p, uint32_t k) {
  return l->plan->operand[p->in + k];
}

bool dfi_call_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  const bool change = dfi_is_change(p);
  if (!p->nin || (!p->nout && !change) || p->nin > DFI_CALL_INPUTS || p->nout > DFI_CALL_OUTPUTS) return false;
  if (p->reads || (p->has_handle && !change) || p->waits || p->gpu || l->plan->cut) return false;
  if (p->kernel != p->op->kernel[DF_CPU] && p->kernel != p->op->kernel[DF_REF]) return false;
  for (uint32_t k = 0; k < p->nin; k++) {
    const df_output from = p->node->in[k];
    if (change && dfi_dtype(from) == DF_RESOURCE) continue;
    if (!dfi_analyze_shape(l, i, operand_at(l, p, k)) &&
        (dfi_input_shape(l, p, k)->rank != 0 || !dfi_unboxed(dfi_dtype(from))))
      return false;
  }
  for (uint32_t k = 0; k < p->nout; k++) {
    const dfi_out *o = &p->node->out[k];
    if (o->ref || !dfi_unboxed(o->dtype)) return false;
    const dfi_shape *s = dfi_out_shape(l, p, (int32_t)k);
    if (s->rank != 0 && !dfi_small(o->dtype, s)) return false;
  }
  return true;
}

/* The captured tensor that an operand of loop i is, as the outermost loop names it; ~0: it is none. */
static dfi_operand source_of(const dfi_look *l, int32_t i, dfi_operand o) {
  const dfi_shape *s = dfi_analyze_shape(l, i, o);
  if (!s || dfi_shape_size(s) <= DFI_DIRECT) return ~0u;
  while (DFI_SPACE(o) == DFI_FRAME && i > 0) {
    const dfi_scope *scope = l->loop[i].scope;
    uint32_t k = 0;
    while (!scope->enters[k]->constant || scope->enters[k]->out != DFI_INDEX(o)) k++;
    o = l->plan->operand[scope->enters[k]->in];
    i = l->loop[i].parent;
  }
  return DFI_SPACE(o) == DFI_ITERATION ? ~0u : o;
}

static uint32_t call_new(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  dfi_unit *u = w->unit;
  u->call = dfi_xrealloc(u->call, sizeof *u->call * (size_t)(u->ncalls + 1));
  dfi_kernel_call *c = &u->call[u->ncalls];
  *c = (dfi_kernel_call){ .node = p, .loop = i };
  c->shape = dfi_xcalloc((size_t)p->nin + p->nout, sizeof *c->shape);
  for (uint32_t k = 0; k < p->nin; k++) {
    const dfi_shape *s = dfi_analyze_shape(w->look, i, operand_at(w->look, p, k));
    if (s) c->shape[k] = *s;
    c->source[k] = source_of(w->look, i, operand_at(w->look, p, k));
  }
  for (uint32_t k = 0; k < p->nout; k++) c->shape[p->nin + k] = *dfi_out_shape(w->look, p, (int32_t)k);
  return u->ncalls++;
}

/* Room for one operand or result. */
static dfi_name place_new(dfi_writer *w, uint8_t dtype, int64_t n) {
  const dfi_name to = dfi_temp(w);
  dfi_write_room(w, to.s, dtype, n);
  return to;
}

/* Where operand k lies for the call: a tensor too large for registers where it is. */
static dfi_name write_from(dfi_writer *w, int32_t i, const dfi_pnode *p, uint32_t k, const dfi_shape *s,
                           uint8_t *dtype) {
  const dfi_name v = dfi_write_operand(w, i, operand_at(w->look, p, k), dtype);
  const int64_t n = dfi_shape_size(s);
  if (n > DFI_DIRECT) return v;
  const dfi_name to = place_new(w, *dtype, n);
  if (s->rank) dfi_write_copy(w, *dtype, n, to.s, v.s);
  else SAY(w, "  store %s %s, ptr %s\n", dfi_type(*dtype), v.s, to.s);
  return to;
}

/* Where result k is made, and how it comes from there. */
static dfi_name write_to(dfi_writer *w, int32_t i, const dfi_pnode *p, uint32_t k, const dfi_shape *s) {
  const int64_t n = dfi_shape_size(s);
  if (n <= DFI_DIRECT) return place_new(w, p->out_dtypes[k], n);
  return p->nout == 1 ? dfi_write_destination(w, i, p) : dfi_write_place(i, p->out + k);
}
static void write_made(dfi_writer *w, int32_t i, const dfi_pnode *p, uint32_t k, const dfi_shape *s, dfi_name at) {
  const uint8_t dtype = p->out_dtypes[k];
  const dfi_name to = dfi_write_place(i, p->out + k);
  if (dfi_shape_size(s) > DFI_DIRECT) return;
  if (s->rank) dfi_write_copy(w, dtype, dfi_shape_size(s), to.s, at.s);
  else SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), dfi_write_load(w, dtype, at.s).s, to.s);
}

/* The address is place k of a list. */
static void write_listed(dfi_writer *w, dfi_name list, uint32_t k, dfi_name at) {
  const dfi_name to = dfi_temp(w);
  SAY(w, "  %s = getelementptr ptr, ptr %s, i64 %u\n  store ptr %s, ptr %s\n", to.s, list.s, k, at.s, to.s);
}

/* A product of matrices, whose shapes have been looked at here: it has nothing to ask the run for. False: it is none.
   Three of 16x32 and 32x32 in a loop, called as kernels, take a seventh more of the loop's time. */
static bool write_product(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_shape *a = dfi_analyze_shape(w->look, i, operand_at(w->look, p, 0)),
                  *b = p->nin == 2 ? dfi_analyze_shape(w->look, i, operand_at(w->look, p, 1)) : NULL;
  if (p->kernel != cpu_matmul || !a || !b || a->rank != 2 || b->rank != 2) return false;
  const bool a_t = p->node->attrs[0].i, b_t = p->node->attrs[1].i;
  const int64_t m = a->dims[a_t], k = a->dims[!a_t], n = b->dims[!b_t];
  int32_t how;
  const dfk_product_fn fn = dfk_product_alone(p->out_dtypes[0], m, n, k, a_t, b_t, &how);
  if (!fn || b->dims[b_t] != k) return false;
  uint8_t dtype;
  const dfi_shape *c = dfi_out_shape(w->look, p, 0);
  const dfi_name from[2] = { write_from(w, i, p, 0, a, &dtype), write_from(w, i, p, 1, b, &dtype) };
  const dfi_name to = write_to(w, i, p, 0, c), at = dfi_write_address(w, (const void *)fn);
  SAY(w, "  call void %s(ptr %s, ptr %s, ptr %s, i64 %lld, i64 %lld, i64 %lld, i32 %d)\n", at.s, from[0].s, from[1].s,
      to.s, (long long)m, (long long)n, (long long)k, how);
  write_made(w, i, p, 0, c, to);
  return true;
}

/* The numbers of the iterations that the call is in, outermost first. */
static dfi_name write_numbers(dfi_writer *w, int32_t i) {
  const dfi_name list = dfi_temp(w);
  int32_t levels = 1;
  for (int32_t l = i; (l = w->look->loop[l].parent) >= 0; ) levels++;
  DECL(w, "  %s = alloca [%d x i64]\n", list.s, levels);
  for (int32_t l = i; l >= 0; l = w->look->loop[l].parent) {
    const dfi_name n = dfi_temp(w), at = dfi_temp(w);
    SAY(w, "  %s = load i64, ptr %%number%d\n", n.s, l);
    SAY(w, "  %s = getelementptr i64, ptr %s, i64 %d\n  store i64 %s, ptr %s\n", at.s, list.s, --levels, n.s, at.s);
  }
  return list;
}

void dfi_write_call(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  if (write_product(w, i, p)) return;
  const uint32_t which = call_new(w, i, p);
  dfi_kernel_call *c = &w->unit->call[which];
  const dfi_name in = dfi_temp(w), out = dfi_temp(w), good = dfi_temp(w), bad = dfi_temp(w);
  dfi_name result[DFI_CALL_OUTPUTS];
  DECL(w, "  %s = alloca [%u x ptr]\n  %s = alloca [%u x ptr]\n", in.s, p->nin, out.s, p->nout);
  for (uint32_t k = 0; k < p->nin; k++)
    if (dfi_dtype(p->node->in[k]) == DF_RESOURCE) {
      c->dtype[k] = DF_RESOURCE;
      c->cell[k] = dfi_analyze_variable_cell(w->look, p, k);
    } else write_listed(w, in, k, write_from(w, i, p, k, &c->shape[k], &c->dtype[k]));
  for (uint32_t k = 0; k < p->nout; k++)
    write_listed(w, out, k, result[k] = write_to(w, i, p, k, &c->shape[p->nin + k]));
  const dfi_name numbers = write_numbers(w, i);
  SAY(w, "  %s = call i32 %%do.call(ptr %%c, i64 %u, ptr %s, ptr %s, ptr %s)\n", good.s, which, in.s, out.s, numbers.s);
  SAY(w, "  %s = icmp eq i32 %s, 0\n", bad.s, good.s);
  dfi_write_fail(w, i, bad);
  for (uint32_t k = 0; k < p->nout; k++) write_made(w, i, p, k, &c->shape[p->nin + k], result[k]);
  if (dfi_is_change(p)) dfi_write_done(w, i, p, -1);
}
