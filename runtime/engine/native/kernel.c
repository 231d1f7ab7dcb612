/* kernel.c: kernels that native code calls on small tensors: those of plain ops, and those that draw random numbers,
 * which see the run, the frames and the iteration that tokens would call them in. And variables, which it reads.
 */
#include "engine/native/native.h"
#include "base/remote_memory.h"
#include "kernels/move.h"
#include "resource/variable.h"

enum { LENT = 1 << 20 };         /* references of what is the caller's: it is never the last one that goes */

typedef struct lent { df_buffer buffer; df_tensor head; df_value value; } lent;

static inline void copy_number(void *to, const void *from, uint8_t dtype) {
  switch (dfi_dtype_size[dtype]) {
    case 1: memcpy(to, from, 1); return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    default: memcpy(to, from, dfi_dtype_size[dtype]);
  }
}

/* A number as the kernel's operand: fields that are not read are left as they are. */
static void lend_number(lent *l, uint8_t dtype, const void *data) {
  l->value = (df_value){ .kind = DF_SCALAR, .dtype = dtype };
  copy_number(&l->value.as, data, dtype);
  l->head.refs = 1;
  l->head.dtype = dtype;
  l->head.rank = 0;
  l->head.view = 1;
  l->head.size = 1;
  l->head.data = &l->value.as;
  l->head.buffer = NULL;
}

/* What lies at `data`, a tensor for as long as the call lasts. */
static void lend(lent *l, uint8_t dtype, const dfi_shape *s, void *data) {
  l->buffer = (df_buffer){ .refs = LENT, .data = data };
  l->head = (df_tensor){ .refs = LENT, .dtype = dtype, .rank = s->rank, .size = dfi_shape_size(s), .data = data,
                         .buffer = &l->buffer };
  memcpy(l->head.dims, s->dims, sizeof *s->dims * (size_t)s->rank);
  l->buffer.bytes = l->head.size * dfi_dtype_size[dtype];
  l->value = (df_value){ .kind = DF_TENSOR, .dtype = dtype, .as.tensor = &l->head };
}

/* A captured tensor itself: what is kept of it in another order stays. False: it is not there. */
static bool lend_captured(const dfi_native_frame *c, lent *l, dfi_operand o) {
  const uint32_t at = DFI_INDEX(o);
  const df_value *v = DFI_SPACE(o) == DFI_FRAME      ? &c->record->frame->constants[at]
                      : DFI_SPACE(o) == DFI_CONSTANT ? &c->unit->plan->constant[at]
                                                     : &c->exec->given[at];
  if (v->kind != DF_TENSOR) return false;
  l->value = *v;
  return true;
}

/* A variable, borrowed from the cell. */
static void lend_handle(lent *l, int64_t cell) {
  l->head.view = 1;
  l->value = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = (void *)(uintptr_t)cell };
}

/* A tensor that a variable is to keep has memory of its own: owned; NULL where there is none. */
static df_tensor *copy_of(const lent *l) {
  df_tensor *t = dfi_tensor_make(l->head.dtype, l->head.rank, l->head.dims);
  if (t) memcpy(t->data, l->head.data, (size_t)l->buffer.bytes);
  return t;
}

/* It was not kept; and what was made of it in another order is gone with it. */
static void take_back(lent *l) {
  if (l->head.view) return;
  df_assert(l->head.refs == LENT && l->buffer.refs == LENT);
  if (l->buffer.packed) dfi_packed_forget(&l->buffer);
}

/* One result (consumed) to where native code wants it. False: it is not what was expected. */
static bool hand_over(df_value *v, uint8_t dtype, const dfi_shape *s, void *to) {
  bool good = v->dtype == dtype && (v->kind == DF_TENSOR || (v->kind == DF_SCALAR && !s->rank));
  if (good && v->kind == DF_TENSOR) {
    const df_tensor *t = v->as.tensor;
    good = t->rank == s->rank && !memcmp(t->dims, s->dims, sizeof *s->dims * (size_t)s->rank) && dfi_readable(t);
    if (good && t->data != to) memcpy(to, t->data, (size_t)(t->size * dfi_dtype_size[dtype]));
  } else if (good) copy_number(to, &v->as, dtype);
  dfi_value_drop(v);
  return good;
}

static df_value handle_of(const dfi_native_frame *c, int64_t peek) {
  return (df_value){ .kind = DF_HANDLE, .as.handle = (void *)(uintptr_t)c->in[c->unit->peek[peek].cell] };
}

int32_t dfi_native_peek(dfi_native_frame *c, int64_t peek, void *to) {
  const dfi_pnode *p = c->unit->peek[peek].node;
  const df_value handle = handle_of(c, peek);
  df_value v;
  return dfi_variable_peek(&handle, &v) && hand_over(&v, p->out_dtypes[0], &p->node->out[0].shape, to);
}

void dfi_native_copy(void *to, const void *from, int64_t bytes) { dfk_copy_bytes(to, from, bytes); }

const void *dfi_native_hold(dfi_native_frame *c, int64_t peek) {
  const dfi_pnode *p = c->unit->peek[peek].node;
  const df_value handle = handle_of(c, peek);
  df_value v;
  if (!dfi_variable_peek(&handle, &v)) return NULL;
  const dfi_shape found = v.kind == DF_TENSOR ? dfi_shape_of(v.as.tensor->rank, v.as.tensor->dims) : dfi_shape_scalar();
  if (v.kind == DF_TENSOR && v.dtype == p->out_dtypes[0] && dfi_shape_equal(&found, &p->node->out[0].shape) &&
      dfi_readable(v.as.tensor) &&
      !(c->unit->peek[peek].recursive && c->held[peek].kind == DF_TENSOR && c->held[peek].as.tensor != v.as.tensor)) {
    dfi_value_drop(&c->held[peek]);
    c->held[peek] = v;
    return v.as.tensor->data;
  }
  dfi_value_drop(&v);
  return NULL;
}

/* Frames and iterations of the loops around the call, as far as a random number's position depends on them. */
typedef struct place { dfi_frame frame; dfi_record record; } place;

static dfi_record *place_of(dfi_native_frame *c, int32_t loop, int32_t level, const int64_t *number, place *at) {
  dfi_record *r = &at[level].record;
  *r = (dfi_record){ .frame = &at[level].frame, .number = number[level] };
  if (level == 0) {
    r->frame = c->record->frame;
    return r;
  }
  at[level].frame = (dfi_frame){ .scope = c->unit->loop[loop].scope,
                                 .origin = place_of(c, c->unit->loop[loop].parent, level - 1, number, at) };
  return r;
}

static int32_t level_of(const dfi_unit *u, int32_t loop) {
  int32_t n = 0;
  while ((loop = u->loop[loop].parent) >= 0) n++;
  return n;
}

/* Will what comes of a change of this variable be what native code expects? It is asked beforehand: what has been
   changed is not changed a second time. The variable may have been made by another handle, which knows less of it. */
static bool fits(const df_value *handle, uint8_t dtype, const dfi_shape *s) {
  df_value v;
  if (!dfi_variable_peek(handle, &v)) return true;               /* the kernel refuses it */
  const dfi_shape found = dfi_value_shape(&v);
  const bool good = v.dtype == dtype && dfi_shape_equal(&found, s) &&
                    (v.kind != DF_TENSOR || dfi_readable(v.as.tensor));
  dfi_value_drop(&v);
  return good;
}

/* A call with all that stays the same from one to the next: made when its place is first come to, and the frame's. */
struct dfi_ready {
  bool updates, assigns;         /* a variable, by what it has; it becomes its second input */
  lent from[DFI_CALL_INPUTS], result[DFI_CALL_OUTPUTS];
  const df_tensor *tensor[DFI_CALL_INPUTS];
  const df_value *value[DFI_CALL_INPUTS];
  df_value made[DFI_CALL_OUTPUTS];
  df_tensor scratch[DFI_CALL_OUTPUTS], place[DFI_CALL_OUTPUTS];
  dfi_call k;
};

static dfi_ready *make_ready(dfi_native_frame *c, const dfi_kernel_call *t) {
  dfi_pnode *p = (dfi_pnode *)t->node;
  dfi_ready *y = dfi_xmalloc(sizeof *y);
  y->updates = p->op->traits & DFO_CHANGES && !(p->op->traits & DFO_ASSIGNS) && p->nout;
  y->assigns = p->op->traits & DFO_ASSIGNS;
  for (uint32_t i = 0; i < p->nin; i++) {
    lent *l = &y->from[i];
    y->value[i] = &l->value;
    y->tensor[i] = t->dtype[i] == DF_RESOURCE ? NULL : &l->head;
    if (t->dtype[i] == DF_RESOURCE) lend_handle(l, c->in[t->cell[i]]);
    else if (t->source[i] != ~0u && lend_captured(c, l, t->source[i])) y->tensor[i] = l->value.as.tensor;
    else if (t->shape[i].rank == 0) lend_number(l, t->dtype[i], &(const int64_t){ 0 });
    else lend(l, t->dtype[i], &t->shape[i], NULL);
  }
  for (uint32_t i = 0; i < p->nout; i++) {
    y->place[i].dtype = DF_INVALID;             /* a number needs none */
    if (t->shape[p->nin + i].rank == 0) continue;
    lend(&y->result[i], p->out_dtypes[i], &t->shape[p->nin + i], NULL);
    y->place[i] = y->result[i].head;
  }
  dfi_call *k = &y->k;
  k->place = y->place;
  k->exec = c->exec; k->node = p; k->heap = k->message = false;
  k->size = 0; k->read = NULL; k->away_link = NULL; k->stop = NULL; k->what = NULL;
  k->error.message[0] = k->error.op[0] = k->error.frame[0] = k->error.source[0] = 0;
  k->kernel = (df_kernel){ .attrs = p->node->attrs, .nin = (int32_t)p->nin, .nout = (int32_t)p->nout, .in = y->tensor,
                           .raw = y->value, .out = y->made, .out_dtype = p->out_dtypes, .scratch = y->scratch,
                           .run = k, .error = &k->error };
  return y;
}

void dfi_native_forget_calls(dfi_native_frame *c) {
  for (uint32_t i = 0; c->ready && i < c->unit->ncalls; i++) dfi_free(c->ready[i]);
  dfi_free(c->ready);
}

/* Operands and the places of results, as this call has them. */
static void set_operands(dfi_ready *y, const dfi_kernel_call *t, void *const *in, void *const *out) {
  const dfi_pnode *p = t->node;
  for (uint32_t i = 0; i < p->nin; i++) {
    lent *l = &y->from[i];
    if (y->tensor[i] != &l->head) continue;
    if (t->shape[i].rank == 0) copy_number(&l->value.as, in[i], t->dtype[i]);
    else l->head.data = l->buffer.data = in[i];
  }
  for (uint32_t i = 0; i < p->nout; i++) {
    y->made[i] = (df_value){ 0 };
    if (t->shape[p->nin + i].rank) y->place[i].data = y->result[i].buffer.data = out[i];
  }
}

static int32_t call(dfi_native_frame *c, int64_t which, dfi_record *r, void *const *in, void *const *out) {
  const dfi_kernel_call *t = &c->unit->call[which];
  const dfi_pnode *p = t->node;
  if (!c->ready) c->ready = dfi_xcalloc(c->unit->ncalls, sizeof *c->ready);
  if (!c->ready[which]) c->ready[which] = make_ready(c, t);
  dfi_ready *y = c->ready[which];
  set_operands(y, t, in, out);
  y->k.record = r; y->k.status = DF_OK; y->k.error.code = 0; y->k.kernel.reusable = 0;
  if (y->updates && !fits(y->value[0], p->out_dtypes[0], &t->shape[p->nin])) return 0;
  df_tensor *kept = NULL;
  if (y->assigns && y->tensor[1] == &y->from[1].head && y->from[1].value.kind == DF_TENSOR) {
    if (!(kept = copy_of(&y->from[1]))) return 0;
    y->from[1].value.as.tensor = kept;
    y->tensor[1] = kept;
  }
  bool good = p->kernel(&y->k.kernel) == DF_OK;
  for (uint32_t i = 0; i < p->nout; i++)
    good = hand_over(&y->made[i], p->out_dtypes[i], &t->shape[p->nin + i], out[i]) && good;
  if (kept) {
    df_tensor_release(kept);
    y->from[1].value.as.tensor = &y->from[1].head;
    y->tensor[1] = &y->from[1].head;
  }
  for (uint32_t i = 0; i < p->nin; i++) if (y->tensor[i] == &y->from[i].head) take_back(&y->from[i]);
  for (uint32_t i = 0; i < p->nout; i++) {
    if (t->shape[p->nin + i].rank == 0) continue;
    y->result[i].head.refs = y->place[i].refs;
    take_back(&y->result[i]);
  }
  return good;
}

int32_t dfi_native_call(dfi_native_frame *c, int64_t which, void *const *in, void *const *out, const int64_t *number) {
  const dfi_kernel_call *t = &c->unit->call[which];
  if (!(t->node->op->traits & DFO_RANDOM)) return call(c, which, c->record, in, out);
  const int32_t level = level_of(c->unit, t->loop);
  place at[level + 1];
  return call(c, which, place_of(c, t->loop, level, number, at), in, out);
}
