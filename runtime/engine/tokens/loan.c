/* loan.c: see loan.h: how a loan begins and ends. */
#include "engine/tokens/loan.h"

void dfi_loan_end(dfi_loan *l) {
  df_assert(!l->lent);
  df_tensor_release(l->tensor);
  df_tensor_release(l->tensor);
  l->tensor = NULL;
}

void dfi_loans_end(dfi_exec *x) {
  for (int32_t i = 0; i < DFI_LOANS; i++) {
    if (x->loan[i].tensor) dfi_loan_end(&x->loan[i]);
    x->loan[i].rest = 0;
  }
}

void dfi_slot_drop(const dfi_record *r, df_value *v) {
  if (v->flags) r->frame->loan[v->flags - 1].lent--;
  else df_value_release(v);
  v->kind = DF_EMPTY;
}

df_value dfi_loan_taken(const dfi_record *r, const df_value *v) {
  r->frame->loan[v->flags - 1].lent--;
  return dfi_value_copy(v);
}

/* A tensor was read with a reference of its own: is it lent from now on? */
static void consider(dfi_loan *l, df_tensor *t) {
  if (l->tensor) {                         /* of a value, or a variable, of before */
    dfi_loan_end(l);
    l->rest = DFI_LOAN_REST;
  } else if (l->rest) l->rest--;
  else if (t->buffer->bytes <= DFI_LOAN_BYTES && !t->buffer->arena) {
    l->tensor = df_tensor_retain(t);
    df_tensor_retain(t);
  }
}

static uint32_t number_of(const dfi_variable *v) {
  const uintptr_t at = (uintptr_t)v;
  return (uint32_t)(at >> 4 ^ at >> 8 ^ at >> 12) & (DFI_LOANS - 1);
}

bool dfi_loan_read(dfi_exec *x, const dfi_record *r, const df_value *handle, df_value *out) {
  if (DFI_UNLIKELY(!dfi_variable_is(handle))) return false;
  dfi_variable *v = handle->as.handle;
  const uint32_t number = number_of(v);
  dfi_loan *l = x->loan + number;
  if (l->tensor && atomic_load_explicit(&v->shown, memory_order_acquire) == l->tensor) {
    *out = (df_value){ .kind = DF_TENSOR, .dtype = v->dtype, .flags = (uint8_t)(number + 1), .as.tensor = l->tensor };
    l->lent++;
    return true;
  }
  if (!dfi_variable_peek(handle, out)) return false;
  if (out->kind == DF_TENSOR && r->number && !l->lent) consider(l, out->as.tensor);
  return true;
}
