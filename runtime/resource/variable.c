/* variable.c: the life of a variable's value: read, assigned, updated in place or on a copy. */
#include "resource/variable.h"
#include "base/remote_memory.h"

static void destroy(dfi_handle *h) {
  dfi_variable *v = (dfi_variable *)h;
  dfi_value_drop(&v->value);
  pthread_mutex_destroy(&v->lock);
  dfi_free(v->name);
  dfi_free(v->key);
  dfi_free(v);
}

dfi_variable *dfi_variable_new(uint8_t dtype, const dfi_shape *shape, const char *name) {
  dfi_variable *v = dfi_xcalloc(1, sizeof *v);
  v->base = (dfi_handle){ .refs = 1, .type = DFI_VARIABLE, .destroy = destroy };
  pthread_mutex_init(&v->lock, NULL);
  v->dtype = dtype;
  v->shape = *shape;
  v->name = dfi_xstrdup(name ? name : "");
  v->where = "";
  return v;
}

bool dfi_variable_initialised(dfi_variable *v) {
  dfi_variable_lock(v);
  bool yes = v->value.kind != DF_EMPTY;
  dfi_variable_unlock(v);
  return yes;
}

void dfi_variable_reset(dfi_variable *v) {
  dfi_variable_lock(v);
  df_value old = v->value;
  v->value = (df_value){ 0 };
  dfi_variable_unlock(v);
  dfi_value_drop(&old);
}

static int32_t uninitialised(const dfi_variable *v, df_error *err) {
  return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "variable '%s' is used before it is initialised", v->name);
}

int32_t dfi_variable_read(dfi_variable *v, df_value *out, df_error *err) {
  dfi_variable_lock(v);
  *out = dfi_value_copy(&v->value);
  dfi_variable_unlock(v);
  return DFI_LIKELY(out->kind != DF_EMPTY) ? DF_OK : uninitialised(v, err);
}

static int32_t check(const dfi_variable *v, const df_value *value, df_error *err) {
  dfi_shape given = dfi_value_shape(value), merged;
  char a[160], b[160];
  if (value->dtype == v->dtype && dfi_shape_merge(&v->shape, &given, &merged)) return DF_OK;
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "variable '%s' holds %s but is given %s", v->name,
                  dfi_typed_shape_text(v->dtype, &v->shape, a), dfi_typed_shape_text(value->dtype, &given, b));
}

static int32_t put(dfi_variable *v, const df_value *value) {
  df_value mine = dfi_value_copy(value), old;
  mine.dead = mine.flags = 0;
  mine.uses = 0;
  dfi_variable_lock(v);
  old = v->value;
  v->value = mine;
  dfi_variable_unlock(v);
  dfi_value_drop(&old);
  return DF_OK;
}

int32_t dfi_variable_assign(dfi_variable *v, const df_value *value, df_error *err) {
  int32_t code = check(v, value, err);
  return code ? code : put(v, value);
}

int32_t dfi_variable_replace(dfi_variable *v, const df_value *value, bool same_shape, df_error *err) {
  dfi_shape given = dfi_value_shape(value), now = v->shape;
  if (value->dtype != v->dtype) return check(v, value, err);
  if (same_shape) {
    if (now.rank < 0) now = dfi_shape_scalar();      /* what TensorFlow makes of a shape that is not known */
    dfi_variable_lock(v);
    if (v->value.kind != DF_EMPTY) now = dfi_value_shape(&v->value);
    dfi_variable_unlock(v);
    char a[160], b[160];
    if (!dfi_shape_equal(&now, &given))
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                      "variable '%s' holds %s but is given %s (validate_shape = false would allow it)", v->name,
                      dfi_typed_shape_text(v->dtype, &now, a), dfi_typed_shape_text(value->dtype, &given, b));
  }
  return put(v, value);
}

static int32_t no_memory(const dfi_variable *v, df_error *err) {
  char a[160];
  dfi_shape s = dfi_value_shape(&v->value);
  return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for a new value of variable '%s', %s", v->name,
                  dfi_typed_shape_text(v->dtype, &s, a));
}

int32_t dfi_variable_settle(dfi_variable *v, dfi_devmem *a, df_error *err) {
  int32_t status = DF_OK;
  dfi_variable_lock(v);
  if (v->value.kind == DF_TENSOR && v->value.as.tensor->buffer->arena != a) {
    df_value moved;
    if (dfi_value_in(&v->value, a, &moved)) { dfi_value_drop(&v->value); v->value = moved; }
    else status = no_memory(v, err);
  }
  dfi_variable_unlock(v);
  return status;
}

void *dfi_variable_writable(dfi_variable *v, df_error *err) {
  if (v->value.kind == DF_EMPTY) return uninitialised(v, err), NULL;
  if (v->value.kind == DF_SCALAR) return &v->value.as;
  df_tensor *t = v->value.as.tensor;
  if (dfi_tensor_exclusive(t)) return t->data;
  df_tensor *copy = dfi_tensor_make(t->dtype, t->rank, t->dims);
  if (!copy) return no_memory(v, err), NULL;
  if (!dfi_bytes_copy(copy->data, copy->buffer, t->data, t->buffer, t->size * dfi_dtype_size[t->dtype])) {
    df_tensor_release(copy);
    return no_memory(v, err), NULL;
  }
  v->value.as.tensor = copy;
  df_tensor_release(t);
  return copy->data;
}

/* Under the lock. */
static int32_t update(dfi_variable *v, dfk_update_op op, const df_value *by, df_error *err) {
  if (v->value.kind == DF_EMPTY) return uninitialised(v, err);
  dfi_shape old = dfi_value_shape(&v->value), given = dfi_value_shape(by);
  if (by->dtype != v->dtype || !dfi_shape_equal(&old, &given)) {
    char a[160], b[160];
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "variable '%s' holds %s but is given %s", v->name,
                    dfi_typed_shape_text(v->dtype, &old, a), dfi_typed_shape_text(by->dtype, &given, b));
  }
  int64_t n = dfi_value_size(by);
  const void *b = dfi_value_data(by);
  if (!dfk_update_allowed(op, v->dtype, n, b))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "integer division by zero");
  if (v->value.kind == DF_SCALAR) {
    return dfi_bytes_update(op, v->dtype, 1, &v->value.as, NULL, &v->value.as, NULL, b, dfi_buffer_in(by),
        false) ? DF_OK : no_memory(v, err);
  }
  df_tensor *t = v->value.as.tensor, *to = t;
  if (!dfi_tensor_exclusive(t) && !(to = dfi_tensor_make(t->dtype, t->rank, t->dims))) return no_memory(v, err);
  if (!dfi_bytes_update(op, v->dtype, n, to->data, to->buffer, t->data, t->buffer, b, dfi_buffer_in(by), false)) {
    if (to != t) df_tensor_release(to);
    return no_memory(v, err);
  }
  if (to != t) {
    v->value.as.tensor = to;
    df_tensor_release(t);
  }
  return DF_OK;
}

int32_t dfi_variable_update(dfi_variable *v, dfk_update_op op, const df_value *by, df_value *out, df_error *err) {
  dfi_variable_lock(v);
  int32_t code = update(v, op, by, err);
  if (!code && out) *out = dfi_value_copy(&v->value);
  dfi_variable_unlock(v);
  return code;
}

