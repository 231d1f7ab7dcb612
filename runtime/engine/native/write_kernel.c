/* write_kernel.c: calls of kernels: what neither write_op.c nor write_tensor.c writes, on numbers and small tensors.
 *
 * Few elements are laid out in places of the call's own and results copied from there, so that what others compute
 * stays in registers; more are taken, and made, where they lie: a product of 16x32 and 32x32 with its gradient takes
 * 1.13 us a trip, of tokens 1.40, and copied 1.8.
 */
#include "engine/native/write.h"
#include <stdio.h>

static dfi_operand operand_at(const dfi_look *l, const dfi_pnode *p, uint32_t k) {
  return l->plan->operand[p->in + k];
}

/* Elements of a call's operands and results. A random number costs more than its copy. */
enum { FEW = 2048 };

static bool is_few(const dfi_pnode *p, const dfi_shape *s) {
  return !s || (p->op->traits & DFO_RANDOM) || dfi_shape_size(s) <= FEW;
}

bool dfi_call_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  if (!p->nin || !p->nout || p->nin > DFI_CALL_INPUTS || p->nout > DFI_CALL_OUTPUTS) return false;
  if (p->reads || p->has_handle || p->waits || p->gpu || l->plan->cut) return false;
  if (p->kernel != p->op->kernel[DF_CPU] && p->kernel != p->op->kernel[DF_REF]) return false;
  for (uint32_t k = 0; k < p->nin; k++) {
    const df_output from = p->node->in[k];
    if (!is_few(p, dfi_look_shape(l, i, operand_at(l, p, k)))) return false;
    if (!dfi_look_shape(l, i, operand_at(l, p, k)) && (dfi_shape_at(from)->rank != 0 || !dfi_unboxed(dfi_dtype(from))))
      return false;
  }
  for (uint32_t k = 0; k < p->nout; k++) {
    const dfi_out *o = &p->node->out[k];
    if (o->ref || !dfi_unboxed(o->dtype)) return false;
    if (o->shape.rank != 0 && (!dfi_small(o->dtype, &o->shape) || !is_few(p, &o->shape))) return false;
  }
  return true;
}

static uint32_t call_new(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  dfi_unit *u = w->unit;
  u->call = dfi_xrealloc(u->call, sizeof *u->call * (size_t)(u->ncalls + 1));
  dfi_kernel_call *c = &u->call[u->ncalls];
  *c = (dfi_kernel_call){ .node = p, .loop = i };
  c->shape = dfi_xcalloc((size_t)p->nin + p->nout, sizeof *c->shape);
  for (uint32_t k = 0; k < p->nin; k++) {
    const dfi_shape *s = dfi_look_shape(w->look, i, operand_at(w->look, p, k));
    if (s) c->shape[k] = *s;
  }
  for (uint32_t k = 0; k < p->nout; k++) c->shape[p->nin + k] = p->node->out[k].shape;
  return u->ncalls++;
}

/* Room for one operand or result, whose address goes to place k of the list. */
static dfi_name place_new(dfi_writer *w, const char *list, uint32_t k, uint8_t dtype, int64_t n) {
  const dfi_name to = dfi_temp(w), at = dfi_temp(w);
  DECL(w, "  %s = alloca [%lld x %s], align 64\n", to.s, (long long)n, dfi_type(dtype));
  DECL(w, "  %s = getelementptr ptr, ptr %s, i64 %u\n  store ptr %s, ptr %s\n", at.s, list, k, to.s, at.s);
  return to;
}

/* What lies at `from`, a tensor too large for registers, is itself place k of the list. */
static void write_place(dfi_writer *w, const char *list, uint32_t k, const char *from) {
  const dfi_name at = dfi_temp(w);
  SAY(w, "  %s = getelementptr ptr, ptr %s, i64 %u\n  store ptr %s, ptr %s\n", at.s, list, k, from, at.s);
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
  const uint32_t which = call_new(w, i, p);
  dfi_kernel_call *c = &w->unit->call[which];
  const dfi_name in = dfi_temp(w), out = dfi_temp(w), good = dfi_temp(w), bad = dfi_temp(w);
  dfi_name result[DFI_CALL_OUTPUTS];
  DECL(w, "  %s = alloca [%u x ptr]\n  %s = alloca [%u x ptr]\n", in.s, p->nin, out.s, p->nout);
  for (uint32_t k = 0; k < p->nin; k++) {
    const dfi_shape *s = &c->shape[k];
    const dfi_name v = dfi_write_operand(w, i, operand_at(w->look, p, k), &c->dtype[k]);
    if (dfi_shape_size(s) > DFI_DIRECT) { write_place(w, in.s, k, v.s); continue; }
    const dfi_name to = place_new(w, in.s, k, c->dtype[k], dfi_shape_size(s));
    if (s->rank) dfi_write_copy(w, c->dtype[k], dfi_shape_size(s), to.s, v.s);
    else SAY(w, "  store %s %s, ptr %s\n", dfi_type(c->dtype[k]), v.s, to.s);
  }
  for (uint32_t k = 0; k < p->nout; k++)
    if (dfi_shape_size(&c->shape[p->nin + k]) > DFI_DIRECT) write_place(w, out.s, k, dfi_write_place(i, p->out + k).s);
    else result[k] = place_new(w, out.s, k, p->out_dtypes[k], dfi_shape_size(&c->shape[p->nin + k]));
  const dfi_name numbers = write_numbers(w, i);
  SAY(w, "  %s = call i32 %%do.call(ptr %%c, i64 %u, ptr %s, ptr %s, ptr %s)\n", good.s, which, in.s, out.s, numbers.s);
  SAY(w, "  %s = icmp eq i32 %s, 0\n", bad.s, good.s);
  dfi_write_fail(w, i, bad);
  for (uint32_t k = 0; k < p->nout; k++) {
    const dfi_shape *s = &c->shape[p->nin + k];
    if (dfi_shape_size(s) > DFI_DIRECT) continue;
    const dfi_name v = dfi_temp(w);
    char to[48];
    snprintf(to, sizeof to, "%%v%d_%u", i, p->out + k);
    if (s->rank) dfi_write_copy(w, p->out_dtypes[k], dfi_shape_size(s), to, result[k].s);
    else SAY(w, "  %s = load %s, ptr %s\n  store %s %s, ptr %s\n", v.s, dfi_type(p->out_dtypes[k]), result[k].s,
             dfi_type(p->out_dtypes[k]), v.s, to);
  }
}
