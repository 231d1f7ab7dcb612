/* variant.c: zeros and sums of what variants hold: lists and optionals, of tensors or of variants again. */
#include "resource/variant.h"
#include "resource/values.h"
#include "kernels/array.h"
#include "resource/variable.h"
#include "base/remote_memory.h"

static void destroy(dfi_handle *h) {
  dfi_optional *o = (dfi_optional *)h;
  for (int32_t i = 0; i < o->n; i++) dfi_value_drop(&o->value[i]);
  dfi_free(o);
}

dfi_optional *dfi_optional_new(int32_t n) {
  dfi_optional *o = dfi_xcalloc(1, sizeof *o + sizeof *o->value * (size_t)(n > 0 ? n : 0));
  o->base = (dfi_handle){ .refs = 1, .type = DFI_OPTIONAL, .destroy = destroy };
  o->n = n;
  return o;
}

int32_t dfi_variant_no_memory(df_kernel *k) {
  return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for an element");
}

static dfi_handle **handles(const df_tensor *t) { return (dfi_handle **)t->data; }

/* The values a handle holds, and how many; false: it is neither a list nor an optional. */
static bool values_of(df_kernel *k, dfi_handle *h, df_value **v, int64_t *n) {
  if (h && h->type == DFI_LIST) *v = ((dfi_list *)h)->item, *n = ((dfi_list *)h)->n;
  else if (h && h->type == DFI_OPTIONAL) *v = ((dfi_optional *)h)->value, *n = ((dfi_optional *)h)->n;
  else return dfk_fail(k, DF_INVALID_ARGUMENT, "the variant holds no TensorList and no optional"), false;
  return true;
}

/* A handle of the same kind and length with no values in it yet, owned. */
static dfi_handle *alike(const dfi_handle *h) {
  if (h->type == DFI_OPTIONAL) return &dfi_optional_new(((const dfi_optional *)h)->n)->base;
  const dfi_list *from = (const dfi_list *)h;
  dfi_list *l = dfi_list_new(from->dtype, &from->element, from->n);
  l->most = from->most;
  return &l->base;
}

/* ---- zeros ------------------------------------------------------------------------------------------------- */

static dfi_handle *zeros_of(df_kernel *k, dfi_handle *h);

/* A tensor of zeros of what each element of t holds, owned. */
static df_tensor *zeros_of_each(df_kernel *k, const df_tensor *t) {
  df_tensor *out = dfi_tensor_make(DF_VARIANT, t->rank, t->dims);
  if (!out) { dfi_variant_no_memory(k); return NULL; }
  for (int64_t i = 0; i < t->size; i++) {
    dfi_handle *h = zeros_of(k, handles(t)[i]);
    if (!h) { df_tensor_release(out); return NULL; }
    dfk_set_variant(out, i, h);
    dfi_handle_release(h);
  }
  return out;
}

static int32_t zeros_of_value(df_kernel *k, const df_value *v, df_value *out) {
  if (v->dtype == DF_VARIANT) {
    df_tensor *t = zeros_of_each(k, v->as.tensor);
    if (t) *out = (df_value){ .kind = DF_TENSOR, .dtype = DF_VARIANT, .as.tensor = t };
    return t ? DF_OK : k->error->code;
  }
  dfi_shape s = dfi_value_shape(v);
  return dfi_values_zeros(v->dtype, &s, out) ? DF_OK : dfi_variant_no_memory(k);
}

static dfi_handle *zeros_of(df_kernel *k, dfi_handle *h) {
  df_value *from, *to = NULL;
  int64_t n;
  if (!values_of(k, h, &from, &n)) return NULL;
  dfi_handle *made = alike(h);
  values_of(k, made, &to, &n);
  for (int64_t i = 0; i < n; i++) {
    if (from[i].kind == DF_EMPTY || !zeros_of_value(k, &from[i], &to[i])) continue;
    dfi_handle_release(made);
    return NULL;
  }
  return made;
}

int32_t dfi_variant_zeros_like(df_kernel *k) {
  df_tensor *t = zeros_of_each(k, k->in[0]);
  if (!t) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_TENSOR, .dtype = DF_VARIANT, .as.tensor = t };
  return DF_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------- */

static int32_t add_to(df_kernel *k, dfi_handle *h, dfi_handle *more);

/* A handle of the same kind that shares the values, owned. */
static dfi_handle *copy_of(dfi_handle *h) {
  if (h->type == DFI_LIST) return &dfi_list_copy((dfi_list *)h)->base;
  const dfi_optional *from = (const dfi_optional *)h;
  dfi_optional *o = dfi_optional_new(from->n);
  for (int32_t i = 0; i < o->n; i++) o->value[i] = dfi_value_copy(&from->value[i]);
  return &o->base;
}

/* *to becomes a tensor without another holder, with the same elements. */
static int32_t own(df_kernel *k, df_value *to) {
  df_tensor *old = to->as.tensor;
  if (dfi_tensor_exclusive(old)) return DF_OK;
  df_tensor *t = dfi_tensor_make(old->dtype, old->rank, old->dims);
  if (!t) return dfi_variant_no_memory(k);
  for (int64_t i = 0; old->dtype == DF_VARIANT && i < old->size; i++) dfk_set_variant(t, i, handles(old)[i]);
  if (old->dtype != DF_VARIANT &&
      !dfi_bytes_copy(t->data, t->buffer, old->data, old->buffer, old->size * dfi_dtype_size[old->dtype])) {
    df_tensor_release(t);
    return dfi_variant_no_memory(k);
  }
  to->as.tensor = t;
  df_tensor_release(old);
  return DF_OK;
}

/* Each variant of sum, which has no other holder, has that of more added to what it holds. */
static int32_t add_each(df_kernel *k, df_tensor *sum, const df_tensor *more) {
  for (int64_t i = 0; i < sum->size; i++) {
    df_value *v;
    int64_t n;
    if (!values_of(k, handles(sum)[i], &v, &n)) return k->error->code;
    if (__atomic_load_n(&handles(sum)[i]->refs, __ATOMIC_ACQUIRE) > 1) {
      dfi_handle *copy = copy_of(handles(sum)[i]);
      dfk_set_variant(sum, i, copy);
      dfi_handle_release(copy);
    }
    if (add_to(k, handles(sum)[i], handles(more)[i])) return k->error->code;
  }
  return DF_OK;
}

int32_t dfi_value_add(df_kernel *k, df_value *to, const df_value *v) {
  if (to->kind == DF_EMPTY) {
    *to = dfi_value_copy(v);
    return DF_OK;
  }
  dfi_shape a = dfi_value_shape(to), b = dfi_value_shape(v);
  char x[160], y[160];
  bool adds = to->dtype == DF_VARIANT || dfk_adds(to->dtype);
  if (to->dtype != v->dtype || !dfi_shape_equal(&a, &b) || !adds)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "elements %s and %s cannot be added up",
                    dfi_typed_shape_text(to->dtype, &a, x), dfi_typed_shape_text(v->dtype, &b, y));
  const void *more = dfi_value_data(v);                /* of numbers each may be the host's or a device's */
  if (to->kind == DF_SCALAR)
    return dfi_bytes_update(DFK_ADD, to->dtype, 1, &to->as, NULL, &to->as, NULL, more, dfi_buffer_in(v), false)
               ? DF_OK
               : dfi_variant_no_memory(k);
  if (own(k, to)) return k->error->code;
  df_tensor *sum = to->as.tensor;
  if (sum->dtype == DF_VARIANT) return add_each(k, sum, v->as.tensor);
  return dfi_bytes_update(DFK_ADD, sum->dtype, sum->size, sum->data, sum->buffer, sum->data, sum->buffer, more,
                          dfi_buffer_in(v), false)
             ? DF_OK
             : dfi_variant_no_memory(k);
}

/* What h holds, which has no other holder, += what `more` does. */
static int32_t add_to(df_kernel *k, dfi_handle *h, dfi_handle *more) {
  df_value *to, *v;
  int64_t n, m;
  if (!values_of(k, h, &to, &n) || !values_of(k, more, &v, &m)) return k->error->code;
  bool lists = h->type == DFI_LIST;
  if (h->type != more->type) return dfk_fail(k, DF_INVALID_ARGUMENT, "a TensorList and an optional cannot be added up");
  if (n != m && lists)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "lists of %lld and %lld elements cannot be added up", (long long)n,
                    (long long)m);
  if (n != m) return dfk_fail(k, DF_INVALID_ARGUMENT, "an optional that has a value and one that has none, or another "
                              "number of them, cannot be added up");
  if (lists && ((dfi_list *)h)->dtype != ((dfi_list *)more)->dtype)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "lists of %s and %s cannot be added up",
                    df_dtype_name(((dfi_list *)h)->dtype), df_dtype_name(((dfi_list *)more)->dtype));
  for (int64_t i = 0; i < n; i++)
    if (v[i].kind != DF_EMPTY && dfi_value_add(k, &to[i], &v[i])) return k->error->code;
  return DF_OK;
}

int32_t dfi_variant_add_n(df_kernel *k) {
  df_value sum = { .kind = DF_TENSOR, .dtype = DF_VARIANT, .as.tensor = df_tensor_retain((df_tensor *)k->in[0]) };
  int32_t code = k->nin == 1 ? DF_OK : own(k, &sum);
  for (int32_t i = 1; i < k->nin && !code; i++) {
    if (k->in[i]->size == sum.as.tensor->size) code = add_each(k, sum.as.tensor, k->in[i]);
    else code = dfk_fail(k, DF_INVALID_ARGUMENT, "%lld variants and %lld cannot be added up",
                         (long long)sum.as.tensor->size, (long long)k->in[i]->size);
  }
  if (code) df_tensor_release(sum.as.tensor);
  else k->out[0] = sum;
  return code;
}
