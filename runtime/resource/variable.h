/* variable.h: a variable's value in one session.
 *
 * The value is read and changed as a whole: a reader gets the tensor that stands at that moment, and what a later
 * update does is never seen through it. An update works in place while the tensor has no other holder and on a
 * copy otherwise. Any thread; the lock guards `value` and is held for one read or one update, never for two
 * (but for the training steps, which lock their variables in the order of their addresses).
 *
 * A number is read without the lock: `number` is the value as of the last unlock, for as long as `is_number` says so.
 * So is a tensor: the thread that takes it out of `shown` has it until it is put back, which a reader does as soon as
 * it has a reference of its own. The lock's owner takes it, too, so that no reader gets a tensor that is being written
 * to. A reader that finds nothing there waits for the lock.
 */
#ifndef DFLOW_VARIABLE_H
#define DFLOW_VARIABLE_H
#include "op/op.h"
#include "base/devmem.h"
#include "kernels/update.h"
#include "resource/resource.h"
#include <sched.h>

typedef struct dfi_variable {
  dfi_handle      base;
  pthread_mutex_t lock;         /* guards value */
  df_value        value;        /* kind DF_EMPTY until it is initialised */
  _Atomic uint64_t number;      /* written under the lock, read without it */
  _Atomic bool    is_number;    /* the same */
  _Atomic(df_tensor *) shown;   /* the value's tensor, borrowed from it; NULL: a number, none, or it is in use */
  bool            shows;        /* was there one at the last unlock? guarded by the lock */
  uint8_t         dtype;
  dfi_shape       shape;        /* what every value must fit; -1: any */
  char           *name;         /* owned */
  char           *key;          /* owned; container and name that others may find it by; NULL: it has none */
  const char     *where;        /* the Lua line that made it; borrowed from the graph, "" when not known */
  _Atomic int32_t home, node;   /* the rank that it lives on, and a node that makes its handle: as a plan has them */
  int32_t         told;         /* the other rank on which it lives and has been given its first value; 0: none */
} dfi_variable;

/* One reference, owned; not initialised. `shape` and `name` are copied; a NULL name is "". */
dfi_variable *dfi_variable_new(uint8_t dtype, const dfi_shape *shape, const char *name);
bool    dfi_variable_initialised(dfi_variable *v);
/* The value goes: the variable is as it was when new. */
void    dfi_variable_reset(dfi_variable *v);
/* The value, owned. DF_FAILED_PRECONDITION before it is initialised. */
int32_t dfi_variable_read(dfi_variable *v, df_value *out, df_error *err);
/* Its value lies in this arena from now on (NULL: on the host). */
int32_t dfi_variable_settle(dfi_variable *v, dfi_devmem *a, df_error *err);
/* The value from now on (borrowed, retained). */
int32_t dfi_variable_assign(dfi_variable *v, const df_value *value, df_error *err);
/* The same as TensorFlow's Assign has it: with `same_shape` the value must have the shape of the present one, or of the
 * declaration where there is none; without, it may have any shape. */
int32_t dfi_variable_replace(dfi_variable *v, const df_value *value, bool same_shape, df_error *err);
/* value = value op by, elementwise, of equal shapes. `out` receives the new value, owned; it may be NULL. */
int32_t dfi_variable_update(dfi_variable *v, dfk_update_op op, const df_value *by, df_value *out, df_error *err);
/* value[indices[i]] = value[indices[i]] op updates[i], in the order of i, so a row named twice is changed twice.
 *   indices  int32 or int64, any shape
 *   updates  indices.shape + value.shape[1:], or one number for all
 * All indices are looked at before anything changes. */
int32_t dfi_variable_scatter(dfi_variable *v, df_kernel *k, dfk_update_op op, const df_tensor *indices,
                             const df_value *updates, df_value *out);
/* The slices that the last dimension of `indices` names become slice op update, in order. variable_place.c. */
int32_t dfi_variable_scatter_nd(dfi_variable *v, df_kernel *k, dfk_update_op op, const df_tensor *indices,
                                const df_value *updates);
/* value[begin:end:strides] = update, which may be one number for all. Inputs at, at + 1 and at + 2 of k are begin, end
   and strides, its first five attributes the masks. */
int32_t dfi_variable_place_slice(dfi_variable *v, df_kernel *k, int32_t at, const df_value *update);
/* The value, an int32 or int64 number below `limit`, goes up by one; *out is what it was. DF_OUT_OF_RANGE at the limit.
   */
int32_t dfi_variable_count_up(dfi_variable *v, int64_t limit, df_value *out, df_error *err);
/* Every change of `value` lies between these two. */
static inline void dfi_variable_lock(dfi_variable *v) {
  pthread_mutex_lock(&v->lock);
  while (v->shows && !atomic_exchange_explicit(&v->shown, NULL, memory_order_acquire)) sched_yield();  /* one reads */
  v->shows = false;
}
static inline void dfi_variable_unlock(dfi_variable *v) {
  bool number = v->value.kind == DF_SCALAR;
  if (number) atomic_store_explicit(&v->number, v->value.as.u64, memory_order_relaxed);
  atomic_store_explicit(&v->is_number, number, memory_order_release);
  v->shows = v->value.kind == DF_TENSOR;
  if (v->shows) atomic_store_explicit(&v->shown, v->value.as.tensor, memory_order_release);
  pthread_mutex_unlock(&v->lock);
}
/* Is this a variable's handle? */
static inline bool dfi_variable_is(const df_value *handle) {
  return handle->kind == DF_HANDLE && ((const dfi_handle *)handle->as.handle)->type == DFI_VARIABLE;
}
/* The number that a variable is, of a handle of which dfi_variable_is; false: it is none. It may be that of a moment
 * ago, when the variable is becoming a tensor meanwhile: then the read came before that. */
static inline bool dfi_variable_number(const df_value *handle, df_value *out) {
  dfi_variable *v = handle->as.handle;
  if (DFI_UNLIKELY(!atomic_load_explicit(&v->is_number, memory_order_acquire))) return false;
  *out = (df_value){ .kind = DF_SCALAR,
                     .dtype = v->dtype,
                     .as.u64 = atomic_load_explicit(&v->number, memory_order_acquire) };
  return true;
}
/* The value of the variable whose handle this is, owned: what a read in a loop costs. False: there is none. */
static inline bool dfi_variable_peek(const df_value *handle, df_value *out) {
  dfi_variable *v = handle->as.handle;
  if (DFI_UNLIKELY(!dfi_variable_is(handle))) return false;
  if (DFI_LIKELY(dfi_variable_number(handle, out))) return true;
  df_tensor *t = atomic_exchange_explicit(&v->shown, NULL, memory_order_acquire);
  if (DFI_LIKELY(t != NULL)) {
    df_tensor_retain(t);
    atomic_store_explicit(&v->shown, t, memory_order_release);
    *out = (df_value){ .kind = DF_TENSOR, .dtype = v->dtype, .as.tensor = t };
    return true;
  }
  pthread_mutex_lock(&v->lock);
  *out = dfi_value_copy(&v->value);
  pthread_mutex_unlock(&v->lock);
  return out->kind != DF_EMPTY;
}
/* For the training steps: the lock is held by the caller. The value's elements to write to, read by
 * none but the caller from now on; NULL: not initialised, or no memory for the copy. */
void   *dfi_variable_writable(dfi_variable *v, df_error *err);

/* Input i of a kernel, borrowed; NULL where it is no variable (error is filled). */
static inline dfi_variable *dfi_variable_in(df_kernel *k, int32_t i) {
  dfi_handle *h = k->raw[i]->kind == DF_HANDLE ? k->raw[i]->as.handle : NULL;
  if (DFI_LIKELY(h && h->type == DFI_VARIABLE)) return (dfi_variable *)h;
  dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s but must be a variable", i, dfi_handle_noun(h));
  return NULL;
}

/* To TensorFlow a handle's variable that was never assigned does not exist: all but reads say DF_NOT_FOUND. */
static inline int32_t dfi_variable_missing(df_kernel *k, int32_t code) {
  return code == DF_FAILED_PRECONDITION ? k->error->code = DF_NOT_FOUND : code;
}

/* Kernels of the ops in ops/state.c that have files of their own: train_step.c, print.c. */
int32_t dfi_kernel_descent(df_kernel *k);
int32_t dfi_kernel_momentum(df_kernel *k);
int32_t dfi_kernel_adam(df_kernel *k);
int32_t dfi_kernel_sparse_descent(df_kernel *k);
int32_t dfi_kernel_sparse_momentum(df_kernel *k);
int32_t dfi_kernel_sparse_adam(df_kernel *k);
int32_t dfi_kernel_print(df_kernel *k);
int32_t dfi_kernel_assert(df_kernel *k);

/* A value laid open: its dims and its elements. Borrowed from v. */
static inline dfi_shape dfi_value_shape(const df_value *v) {
  if (v->kind != DF_TENSOR) return (dfi_shape){ .rank = 0 };
  return dfi_shape_of(v->as.tensor->rank, v->as.tensor->dims);
}
static inline const void *dfi_value_data(const df_value *v) {
  return v->kind == DF_TENSOR ? v->as.tensor->data : (const void *)&v->as;
}
static inline int64_t dfi_value_size(const df_value *v) { return v->kind == DF_TENSOR ? v->as.tensor->size : 1; }
#endif
