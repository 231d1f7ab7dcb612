/* borrowed_read.c: see borrowed_read.h: how a borrowed read begins and ends. */
#include "engine/tokens/borrowed_read.h"

static void give_back(dfi_borrowed_read *l) {
  df_assert(!l->lent);
  df_tensor_release(l->tensor);
  df_tensor_release(l->tensor);
  l->tensor = NULL;
}

void dfi_borrowed_reads_end(dfi_exec *x) {
  for (int32_t i = 0; i < DFI_BORROWED_READS; i++) {
    if (x->borrowed[i].tensor) give_back(&x->borrowed[i]);
    x->borrowed[i].rest = 0;
  }
}

void dfi_slot_drop(const dfi_record *r, df_value *v) {
  if (v->flags) r->frame->borrowed[v->flags - 1].lent--;
  else df_value_release(v);
  v->kind = DF_EMPTY;
}

df_value dfi_borrowed_read_taken(const dfi_record *r, const df_value *v) {
  r->frame->borrowed[v->flags - 1].lent--;
  return dfi_value_copy(v);
}

/* A tensor was read with a reference of its own: is it lent from now on? */
static void consider(dfi_borrowed_read *l, df_tensor *t) {
  if (l->tensor) {                         /* of a value, or a variable, of before */
    give_back(l);
    l->rest = DFI_BORROWED_READ_REST;
  } else if (l->rest) l->rest--;
  else if (t->buffer->bytes <= DFI_BORROWED_READ_BYTES && !t->buffer->arena) {
    l->tensor = df_tensor_retain(t);
    df_tensor_retain(t);
  }
}

static uint32_t number_of(const dfi_variable *v) {
  const uintptr_t at = (uintptr_t)v;
  return (uint32_t)(at >> 4 ^ at >> 8 ^ at >> 12) & (DFI_BORROWED_READS - 1);
}

bool dfi_borrowed_read_of(dfi_exec *x, const dfi_record *r, const df_value *handle, df_value *out) {
  if (DFI_UNLIKELY(!dfi_variable_is(handle))) return false;
  dfi_variable *v = handle->as.handle;
  const uint32_t number = number_of(v);
  dfi_borrowed_read *l = x->borrowed + number;
  if (l->tensor && atomic_load_explicit(&v->shown, memory_order_acquire) == l->tensor) {
    *out = (df_value){ .kind = DF_TENSOR, .dtype = v->dtype, .flags = (uint8_t)(number + 1), .as.tensor = l->tensor };
    l->lent++;
    return true;
  }
  if (!dfi_variable_peek(handle, out)) return false;
  if (out->kind == DF_TENSOR && r->number && !l->lent) consider(l, out->as.tensor);
  return true;
}
