/* array_v3.c: the life of a TensorFlow graph's TensorArray: made, written, read, its gradient arrays, its end. */
#include "resource/array_v3.h"
#include "base/remote_memory.h"
#include "resource/tensor_array.h"
#include "resource/values.h"
#include "resource/variable.h"
#include <stdio.h>

char *dfi_array_v3_title(const dfi_array_v3 *a, char buffer[160]) {
  if (a->source) snprintf(buffer, 160, "TensorArray '%.90s' (gradient '%.40s')", a->name, a->source);
  else snprintf(buffer, 160, "TensorArray '%.130s'", a->name);
  return buffer;
}

/* ---- life -------------------------------------------------------------------------------------- */

static void cell_clear(dfi_cell *c) {
  dfi_value_drop(&c->value);
  dfi_free(c->dims);
  *c = (dfi_cell){ 0 };
}

static void cell_set_dims(dfi_cell *c, int32_t rank, const int64_t *dims) {
  dfi_free(c->dims);
  c->rank = (int8_t)rank;
  c->dims = rank ? memcpy(dfi_xmalloc(sizeof *dims * (size_t)rank), dims, sizeof *dims * (size_t)rank) : NULL;
}

static dfi_shape cell_shape(const dfi_cell *c) {
  return c->value.kind ? dfi_value_shape(&c->value) : dfi_shape_of(c->rank, c->dims);
}

static void clear_all(dfi_array_v3 *a) {
  for (int64_t i = 0; i < a->size; i++) cell_clear(&a->cell[i]);
  a->size = 0;
}

static void destroy(dfi_handle *h) {
  dfi_array_v3 *a = (dfi_array_v3 *)h;
  clear_all(a);
  for (dfi_array_v3 *g = a->gradients, *next; g; g = next) {
    next = g->next;
    g->next = NULL;
    dfi_handle_release(g);
  }
  dfi_free(a->cell);
  dfi_free(a->source);
  dfi_free(a);
}

bool dfi_array_v3_grow(dfi_array_v3 *a, int64_t size, df_error *err) {
  if (size <= a->size) return true;
  if (!dfi_slots_for(size, 2 * sizeof *a->cell, "a TensorArray", err)) return false;
  if (size > a->capacity) {
    a->capacity = size > 2 * a->capacity ? size : 2 * a->capacity;
    a->cell = dfi_xrealloc(a->cell, sizeof *a->cell * (size_t)a->capacity);
  }
  memset(a->cell + a->size, 0, sizeof *a->cell * (size_t)(size - a->size));
  a->size = size;
  return true;
}

dfi_array_v3 *dfi_array_v3_new(uint8_t dtype, int64_t size, const dfi_shape *element, const char *name, df_error *err) {
  if (size < 0 || size > INT32_MAX) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "TensorArray '%s': the size is %lld but must not be negative", name,
             (long long)size);
    return NULL;
  }
  dfi_array_v3 *a = dfi_xcalloc(1, sizeof *a);
  a->base = (dfi_handle){ .refs = 1, .type = DFI_ARRAY_V3, .destroy = destroy };
  a->dtype = dtype;
  a->element = *element;
  a->name = name;
  a->marked = -1;
  if (dfi_array_v3_grow(a, size, err)) return a;
  dfi_handle_release(a);
  return NULL;
}

void dfi_array_v3_close(dfi_array_v3 *a) {
  clear_all(a);
  a->closed = true;
}

int32_t dfi_array_v3_check_open(const dfi_array_v3 *a, df_error *err) {
  char title[160];
  if (DFI_LIKELY(!a->closed)) return DF_OK;
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s is closed", dfi_array_v3_title(a, title));
}

/* ---- gradient arrays ----------------------------------------------------------------------------- */

static bool prepend(const dfi_shape *prefix, const dfi_shape *s, dfi_shape *out) {
  *out = *s;
  if (!prefix || s->rank < 0) return true;
  if (prefix->rank + s->rank > DF_MAX_RANK) return false;
  out->rank = (int8_t)(prefix->rank + s->rank);
  memcpy(out->dims, prefix->dims, sizeof *out->dims * (size_t)prefix->rank);
  memcpy(out->dims + prefix->rank, s->dims, sizeof *out->dims * (size_t)s->rank);
  return true;
}

dfi_array_v3 *dfi_array_v3_gradient(dfi_array_v3 *a, const char *source, const dfi_shape *prefix, df_error *err) {
  if (dfi_array_v3_check_open(a, err)) return NULL;
  a->dynamic = false;
  for (dfi_array_v3 *g = a->gradients; g; g = g->next)
    if (!strcmp(g->source, source)) return g;
  dfi_shape element;
  bool fits = prepend(prefix, &a->element, &element);
  dfi_array_v3 *g = dfi_array_v3_new(a->dtype, a->size, &element, a->name, err);
  if (!g) return NULL;
  g->source = dfi_xstrdup(source);
  g->accumulates = true;
  g->clear_after_read = !a->accumulates;     /* what several writes added up to is read by each write's gradient */
  g->identical = a->identical;
  g->marked = a->marked;
  for (int64_t i = 0; i < a->size && fits; i++) {
    if (!a->cell[i].written) continue;
    dfi_shape s = cell_shape(&a->cell[i]), full;
    fits = prepend(prefix, &s, &full);
    if (!fits) break;
    cell_set_dims(&g->cell[i], full.rank, full.dims);
    g->cell[i].written = true;
  }
  if (!fits) {
    char title[160];
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: elements with %d dimensions more would have a rank above %d",
             dfi_array_v3_title(a, title), prefix->rank, DF_MAX_RANK);
    dfi_handle_release(g);
    return NULL;
  }
  g->next = a->gradients;
  return a->gradients = g;
}

/* ---- writing --------------------------------------------------------------------------------------- */

static int32_t no_memory(const dfi_array_v3 *a, df_error *err) {
  char title[160];
  return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "%s: out of memory", dfi_array_v3_title(a, title));
}

/* Are the elements numbers or booleans? A handle, which dfk_plain lets pass, is none. */
static bool has_numbers(const dfi_array_v3 *a) { return dfk_plain(a->dtype) && a->dtype != DF_RESOURCE; }

/* *v += by; both have one shape. Of numbers each may be the host's or a device's. */
static int32_t add(const dfi_array_v3 *a, df_value *v, const df_value *by, df_error *err) {
  const void *more = dfi_value_data(by);
  if (v->kind == DF_SCALAR)
    return dfi_bytes_update(DFK_ADD, a->dtype, 1, &v->as, NULL, &v->as, NULL, more, dfi_buffer_in(by), false)
               ? DF_OK
               : no_memory(a, err);
  df_tensor *old = v->as.tensor, *sum = old;
  if (!dfi_tensor_exclusive(old) && !(sum = dfi_tensor_make(old->dtype, old->rank, old->dims)))
    return no_memory(a, err);
  if (!dfi_bytes_update(DFK_ADD, old->dtype, old->size, sum->data, sum->buffer, old->data, old->buffer, more,
                        dfi_buffer_in(by), false)) {
    if (sum != old) df_tensor_release(sum);
    return no_memory(a, err);
  }
  if (sum != old) {
    v->as.tensor = sum;
    df_tensor_release(old);
  }
  return DF_OK;
}

static int32_t aggregate(dfi_array_v3 *a, int64_t i, dfi_cell *c, const df_value *v, df_error *err) {
  char title[160], x[160], y[160];
  dfi_shape have = cell_shape(c), came = dfi_value_shape(v);
  if (!dfi_shape_equal(&have, &came))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: %s is added at index %lld, where %s is",
                    dfi_array_v3_title(a, title), dfi_typed_shape_text(v->dtype, &came, x), (long long)i,
                    dfi_typed_shape_text(a->dtype, &have, y));
  if (c->value.kind == DF_EMPTY) {
    c->value = dfi_value_copy(v);
    return DF_OK;
  }
  if (!has_numbers(a) || a->dtype == DF_BOOL)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: elements of %s cannot be added up",
                    dfi_array_v3_title(a, title), df_dtype_name(a->dtype));
  return add(a, &c->value, v, err);
}

int32_t dfi_array_v3_write(dfi_array_v3 *a, int64_t i, const df_value *v, df_error *err) {
  char title[160], x[160], y[160];
  int32_t code = dfi_array_v3_check_open(a, err);
  if (code) return code;
  if (i < 0 || (i >= a->size && !a->dynamic))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: index %lld is written, but the array has %lld locations%s",
                    dfi_array_v3_title(a, title), (long long)i, (long long)a->size, i < 0 ? "" : " and does not grow");
  if (v->dtype != a->dtype)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s holds %s but %s is written at index %lld",
                    dfi_array_v3_title(a, title), df_dtype_name(a->dtype), df_dtype_name(v->dtype), (long long)i);
  if (i >= a->size && !dfi_array_v3_grow(a, i + 1, err)) return err->code;
  dfi_shape shape = dfi_value_shape(v), merged;
  if (!dfi_shape_merge(&a->element, &shape, &merged))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: its elements are %s but %s is written at index %lld",
                    dfi_array_v3_title(a, title), dfi_typed_shape_text(a->dtype, &a->element, x),
                    dfi_typed_shape_text(v->dtype, &shape, y), (long long)i);
  if (a->identical) a->element = shape;
  dfi_cell *c = &a->cell[i];
  if (c->read)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: index %lld is written, but it was read before",
                    dfi_array_v3_title(a, title), (long long)i);
  if (c->written && !a->accumulates)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: index %lld is written a second time",
                    dfi_array_v3_title(a, title), (long long)i);
  if (c->written) return aggregate(a, i, c, v, err);
  c->value = dfi_value_copy(v);
  c->value.dead = c->value.flags = 0;
  c->value.uses = 0;
  c->written = true;
  return DF_OK;
}

/* ---- reading --------------------------------------------------------------------------------------- */

static int32_t zeros(dfi_array_v3 *a, int64_t i, dfi_cell *c, df_error *err) {
  char title[160], x[160];
  dfi_shape s = c->written ? cell_shape(c) : a->element;
  if (!dfi_shape_known(&s))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                    "%s: index %lld is read but was never written, and the shape of its elements (%s) "
                    "is not known in full",
                    dfi_array_v3_title(a, title), (long long)i, dfi_shape_text(&s, x));
  if (!has_numbers(a) && dfi_shape_size(&s) > 0)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: index %lld is read but was never written, and %s has no zeros",
                    dfi_array_v3_title(a, title), (long long)i, df_dtype_name(a->dtype));
  return dfi_values_zeros(a->dtype, &s, &c->value) ? DF_OK : no_memory(a, err);
}

int32_t dfi_array_v3_read(dfi_array_v3 *a, int64_t i, df_value *out, df_error *err) {
  char title[160];
  int32_t code = dfi_array_v3_check_open(a, err);
  if (code) return code;
  if (i < 0 || i >= a->size)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: index %lld is read, but the array has %lld locations",
                    dfi_array_v3_title(a, title), (long long)i, (long long)a->size);
  dfi_cell *c = &a->cell[i];
  if (c->cleared)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                    "%s: index %lld was read before and cleared (clear_after_read = false would keep it)",
                    dfi_array_v3_title(a, title), (long long)i);
  if (c->value.kind == DF_EMPTY && (code = zeros(a, i, c, err))) return code;
  c->read = true;
  if (!a->clear_after_read) {
    *out = dfi_value_copy(&c->value);
    return DF_OK;
  }
  dfi_shape s = cell_shape(c);
  cell_set_dims(c, s.rank, s.dims);
  c->cleared = true;
  *out = c->value;
  c->value = (df_value){ 0 };
  return DF_OK;
}

int32_t dfi_array_v3_narrow(dfi_array_v3 *a, const dfi_shape *shape, df_error *err) {
  char title[160], x[160], y[160];
  dfi_shape merged;
  if (dfi_shape_merge(&a->element, shape, &merged)) {
    a->element = merged;
    return DF_OK;
  }
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: its elements are %s but element_shape is %s",
                  dfi_array_v3_title(a, title), dfi_shape_text(&a->element, x), dfi_shape_text(shape, y));
}
