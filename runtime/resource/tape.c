/* tape.c: the life of a tape. Its call writes it, on the run's owner thread; the call of the gradient reads it
 * afterwards.
 *
 * A tape may hold the tapes of calls that its call made, so tapes hang together as deep as functions called each other.
 * They are let go one by one, from a list, because a recursion as deep as that would not fit the stack.
 */
#include "base/remote_memory.h"
#include "resource/tape.h"
#include "kernels/update.h"
#include "resource/tensor_array.h"

static void destroy(dfi_handle *h);

static __thread dfi_tape *leaving;     /* tapes that have no holder any more */
static __thread bool busy;

static void let_go(dfi_tape *t) {
  for (int32_t i = 0; i < t->n; i++) dfi_value_drop(&t->slot[i]);
  dfi_free(t->slot);
  if (t->forward) dfi_handle_release(t->forward);
  dfi_free(t);
}

static void destroy(dfi_handle *h) {
  dfi_tape *t = (dfi_tape *)h;
  t->next = leaving;
  leaving = t;
  if (busy) return;
  busy = true;
  while (leaving) {
    dfi_tape *first = leaving;
    leaving = first->next;
    let_go(first);
  }
  busy = false;
}

dfi_tape *dfi_tape_new(void) {
  dfi_tape *t = dfi_xcalloc(1, sizeof *t);
  t->base = (dfi_handle){ .refs = 1, .type = DFI_TAPE, .destroy = destroy };
  return t;
}

void dfi_tape_put(dfi_tape *t, int32_t slot, const df_value *v) {
  enum { AT_ONCE = 16 };
  if (slot >= t->n) {
    const int32_t n = (slot / AT_ONCE + 1) * AT_ONCE;
    t->slot = dfi_xrealloc(t->slot, sizeof *t->slot * (size_t)n);
    memset(t->slot + t->n, 0, sizeof *t->slot * (size_t)(n - t->n));
    t->n = n;
  }
  dfi_value_drop(&t->slot[slot]);
  t->slot[slot] = dfi_value_copy(v);
  t->slot[slot].dead = t->slot[slot].flags = 0;
  t->slot[slot].uses = 0;
}

dfi_tape *dfi_tape_of(const df_value *v) {
  dfi_tape *t = v->kind == DF_HANDLE ? (dfi_tape *)v->as.handle : NULL;
  return t && t->base.type == DFI_TAPE ? t : NULL;
}

/* ---- gradients ----------------------------------------------------------------------------------- */

static int32_t no_memory(df_error *err) {
  return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for the gradient of a call");
}

/* *sum += v, numbers of one dtype and shape. */
static int32_t add(df_value *sum, const df_value *v, df_error *err) {
  if (sum->kind == DF_SCALAR && v->kind == DF_SCALAR) {
    dfk_update(DFK_ADD, sum->dtype, 1, &sum->as, &sum->as, &v->as, false);
    return DF_OK;
  }
  df_tensor *a = sum->kind == DF_TENSOR ? df_tensor_retain(sum->as.tensor) : dfi_tensor_from_scalar(sum);
  df_tensor *b = v->kind == DF_TENSOR ? df_tensor_retain(v->as.tensor) : dfi_tensor_from_scalar(v);
  df_tensor *c = a && b ? dfi_tensor_make(a->dtype, a->rank, a->dims) : NULL;
  int32_t code = c ? DF_OK : no_memory(err);
  if (c && (a->size != b->size || !dfk_adds(a->dtype)))
    code = dfi_fail(err, DF_INTERNAL, NULL, "gradients of a value that a call kept: %s and %s, %lld and %lld numbers",
                    df_dtype_name(a->dtype), df_dtype_name(b->dtype), (long long)a->size, (long long)b->size);
  if (!code) {
    const bool ok = dfi_bytes_update(DFK_ADD, a->dtype, a->size, c->data, c->buffer, a->data, a->buffer, b->data,
        b->buffer, false);
    if (!ok) code = no_memory(err);
  }
  if (!code) {
    dfi_value_drop(sum);
    dfi_value_from_tensor(sum, c);
    c = NULL;
  }
  df_tensor_release(a); df_tensor_release(b); df_tensor_release(c);
  return code;
}

int32_t dfi_tape_add(dfi_tape *t, int32_t slot, const df_value *v, df_error *err) {
  if (slot >= t->n || t->slot[slot].kind == DF_EMPTY) { dfi_tape_put(t, slot, v); return DF_OK; }
  if (v->kind == DF_HANDLE) return dfi_gradient_join(t->slot[slot].as.handle, v->as.handle, err);
  return add(&t->slot[slot], v, err);
}

/* Zeros like v, or the gradient of the handle that v is. Consumes v. */
static int32_t zeros_like(df_value *v, df_error *err) {
  df_value zero = { .kind = DF_SCALAR, .dtype = v->dtype };
  if (v->kind == DF_HANDLE) {
    zero.as.handle = dfi_gradient_new(v->as.handle, err);
    zero.kind = zero.as.handle ? DF_HANDLE : DF_EMPTY;
  } else if (v->kind == DF_TENSOR) {
    df_tensor *t = dfi_tensor_make(v->dtype, v->as.tensor->rank, v->as.tensor->dims);
    zero.kind = t ? DF_TENSOR : DF_EMPTY;
    if (!t) no_memory(err);
    else if (dfk_plain(t->dtype)) dfi_bytes_zero(t->data, t->buffer, t->size * dfi_dtype_size[t->dtype]);
    zero.as.tensor = t;
  }
  dfi_value_drop(v);
  *v = zero;
  return v->kind == DF_EMPTY ? err ? err->code : DF_RESOURCE_EXHAUSTED : DF_OK;
}

int32_t dfi_tape_get(dfi_tape *t, int32_t slot, df_value *out, df_error *err) {
  if (slot >= 0 && slot < t->n && t->slot[slot].kind != DF_EMPTY) {
    *out = dfi_value_copy(&t->slot[slot]);
    return DF_OK;
  }
  *out = (df_value){ .kind = DF_EMPTY };
  if (!t->forward) return DF_OK;
  int32_t code = dfi_tape_get(t->forward, slot, out, err);
  return code || out->kind == DF_EMPTY ? code : zeros_like(out, err);
}

dfi_handle *dfi_gradient_new(dfi_handle *forward, df_error *err) {
  if (forward->type == DFI_TENSOR_ARRAY)
    return (dfi_handle *)dfi_tensor_array_grad((dfi_tensor_array *)forward, "", err);
  if (forward->type != DFI_TAPE) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "a handle that is no TensorArray and no tape has no gradient");
    return NULL;
  }
  dfi_tape *t = dfi_tape_new();
  t->forward = dfi_handle_retain(forward);
  return &t->base;
}

/* Tapes hang together as deep as functions called each other: what is to be added is done one by one, from a list. */
typedef struct pair { dfi_handle *to, *other; struct pair *next; } pair;
static __thread pair *joining;
static __thread bool joins;

static int32_t join_tape(dfi_tape *to, dfi_tape *other, df_error *err) {
  int32_t code = DF_OK;
  for (int32_t i = 0; i < other->n && !code; i++)
    if (other->slot[i].kind != DF_EMPTY) code = dfi_tape_add(to, i, &other->slot[i], err);
  return code;
}

int32_t dfi_gradient_join(dfi_handle *to, dfi_handle *other, df_error *err) {
  if (to == other) return DF_OK;
  if (to->type != other->type)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the gradients of a TensorArray and of a call cannot be added");
  if (to->type == DFI_TENSOR_ARRAY)
    return dfi_tensor_array_join((dfi_tensor_array *)to, (dfi_tensor_array *)other, err);
  pair *p = dfi_xmalloc(sizeof *p);
  *p = (pair){ dfi_handle_retain(to), dfi_handle_retain(other), joining };
  joining = p;
  if (joins) return DF_OK;
  joins = true;
  int32_t code = DF_OK;
  while (joining) {
    pair *first = joining;
    joining = first->next;
    if (!code) code = join_tape((dfi_tape *)first->to, (dfi_tape *)first->other, err);
    dfi_handle_release(first->to);
    dfi_handle_release(first->other);
    dfi_free(first);
  }
  joins = false;
  return code;
}
