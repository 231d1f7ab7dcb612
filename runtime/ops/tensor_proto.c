/* tensor_proto.c: TensorFlow's tensor message as a tensor.
 *
 * It comes in three forms: the bytes of all elements, a list of them, or a list whose last element is repeated up to
 * the size. Sizes are checked before anything is allocated.
 */
#include "ops/tensor_proto.h"
#include <stdio.h>

static int32_t fail(df_error *err, const char *what, const char *text) {
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s %s", what, text);
}

bool dfi_proto_dims(const Pb__TensorShapeProto *s, int32_t *rank, int64_t *dims, const char *what, df_error *err) {
  char text[160];
  *rank = 0;
  if (!s) return true;
  if (s->unknown_rank) { *rank = -1; return true; }
  if (s->n_dim > DF_MAX_RANK) {
    snprintf(text, sizeof text, "has rank %zu; dflow has %d at most", s->n_dim, DF_MAX_RANK);
    dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%s %s", what, text);
    return false;
  }
  for (; *rank < (int32_t)s->n_dim; ++*rank) {
    dims[*rank] = s->dim[*rank]->size;
    if (dims[*rank] >= -1) continue;
    snprintf(text, sizeof text, "has the dimension %lld", (long long)dims[*rank]);
    fail(err, what, text);
    return false;
  }
  return true;
}

static int64_t varint(const uint8_t **p, const uint8_t *end) {
  uint64_t v = 0;
  for (int32_t shift = 0; *p < end && shift < 63; shift += 7) {
    uint8_t byte = *(*p)++;
    v |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return (int64_t)v;
  }
  return -1;
}

/* tensor_content of strings: all lengths, then all bytes. */
static bool packed_strings(df_tensor *t, ProtobufCBinaryData content, const char *what, df_error *err) {
  const uint8_t *p = content.data, *end = p + content.len, *bytes = p;
  for (int64_t i = 0; i < t->size; i++)
    if (varint(&bytes, end) < 0) { fail(err, what, "has strings whose lengths are cut"); return false; }
  for (int64_t i = 0; i < t->size; i++) {
    int64_t length = varint(&p, end);
    if (length > end - bytes) { fail(err, what, "has strings that are cut"); return false; }
    if (df_tensor_set_string(t, i, (const char *)bytes, length, err)) return false;
    bytes += length;
  }
  return true;
}

/* The last element given is that of all that follow; none given is zero. */
static void spread(df_tensor *t, int64_t given) {
  size_t size = (size_t)df_dtype_bytes(t->dtype);
  char *data = t->data;
  if (!given) { memset(data, 0, size * (size_t)t->size); return; }
  for (int64_t have = given; have < t->size; have++)
    memcpy(data + (size_t)have * size, data + (size_t)(given - 1) * size, size);
}

/* How many elements the list that belongs to the dtype has; -1: none does. */
static int64_t listed(const Pb__TensorProto *p) {
  switch ((int32_t)p->dtype) {
  case DF_FLOAT32: return (int64_t)p->n_float_val;
  case DF_FLOAT64: return (int64_t)p->n_double_val;
  case DF_INT32:
  case DF_INT16:
  case DF_INT8:
  case DF_UINT8:
  case DF_UINT16:
  case DF_QINT8:
  case DF_QUINT8:
  case DF_QINT16:
  case DF_QUINT16: case DF_QINT32: return (int64_t)p->n_int_val;
  case DF_INT64: return (int64_t)p->n_int64_val;
  case DF_UINT32: return (int64_t)p->n_uint32_val;
  case DF_UINT64: return (int64_t)p->n_uint64_val;
  case DF_BOOL: return (int64_t)p->n_bool_val;
  case DF_FLOAT16: case DF_BFLOAT16: return (int64_t)p->n_half_val;
  case DF_STRING: return (int64_t)p->n_string_val;
  case DF_COMPLEX64: return (int64_t)p->n_scomplex_val / 2;
  case DF_COMPLEX128: return (int64_t)p->n_dcomplex_val / 2;
  default: return -1;
  }
}

static bool copy_listed(df_tensor *t, const Pb__TensorProto *p, int64_t n, df_error *err) {
#define EACH(TYPE, LIST) for (int64_t i = 0; i < n; i++) ((TYPE *)t->data)[i] = (TYPE)p->LIST[i]; break
  switch (t->dtype) {
  case DF_FLOAT32: EACH(float, float_val);
  case DF_FLOAT64: EACH(double, double_val);
  case DF_INT32: case DF_QINT32: EACH(int32_t, int_val);
  case DF_INT16: case DF_QINT16: EACH(int16_t, int_val);
  case DF_UINT16: case DF_QUINT16: EACH(uint16_t, int_val);
  case DF_INT8: case DF_QINT8: EACH(int8_t, int_val);
  case DF_UINT8: case DF_QUINT8: EACH(uint8_t, int_val);
  case DF_INT64: EACH(int64_t, int64_val);
  case DF_UINT32: EACH(uint32_t, uint32_val);
  case DF_UINT64: EACH(uint64_t, uint64_val);
  case DF_BOOL: EACH(bool, bool_val);
  case DF_FLOAT16: case DF_BFLOAT16: EACH(uint16_t, half_val);
  case DF_COMPLEX64: if (n) memcpy(t->data, p->scomplex_val, (size_t)n * 8); break;
  case DF_COMPLEX128: if (n) memcpy(t->data, p->dcomplex_val, (size_t)n * 16); break;
  case DF_STRING:
    for (int64_t i = 0; i < t->size && n; i++) {
      ProtobufCBinaryData s = p->string_val[i < n ? i : n - 1];
      if (df_tensor_set_string(t, i, (const char *)s.data, (int64_t)s.len, err)) return false;
    }
    return true;
  }
#undef EACH
  spread(t, n);
  return true;
}

df_tensor *dfi_tensor_from_proto(const Pb__TensorProto *p, const char *what, int64_t *unpack, df_error *err) {
  char text[200];
  int64_t dims[DF_MAX_RANK], size = 1, given = listed(p);
  int32_t rank, bytes = given < 0 ? 0 : df_dtype_bytes((int32_t)p->dtype);
  if (bytes <= 0) {
    snprintf(text, sizeof text, "is a tensor of dtype %d (%s), whose elements cannot be in a file", (int)p->dtype,
             df_dtype_name((int32_t)p->dtype));
    fail(err, what, text);
    return NULL;
  }
  if (!dfi_proto_dims(p->tensor_shape, &rank, dims, what, err)) return NULL;
  bool known = rank >= 0;
  for (int32_t i = 0; i < rank && known; i++) {
    known = dims[i] >= 0;
    if (known && __builtin_mul_overflow(size, dims[i], &size)) size = INT64_MAX;
    if (size == INT64_MAX) break;
  }
  enum { MOST = 1 << 30 };                                   /* of a tensor that says more than the file holds */
  bool content = p->tensor_content.len > 0;
  if (!known) { fail(err, what, "is a tensor whose shape is not known"); return NULL; }
  if (size > INT64_MAX / bytes || (!content && size > given && size > MOST / bytes)) {
    snprintf(text, sizeof text, "is a tensor of %lld elements, but the file has %lld of them", (long long)size,
             (long long)given);
    fail(err, what, text);
    return NULL;
  }
  if (p->dtype == (Pb__DataType)DF_STRING ? content && (int64_t)p->tensor_content.len < size
                                          : content && (int64_t)p->tensor_content.len != size * bytes) {
    snprintf(text, sizeof text, "is a tensor of %lld elements, %lld bytes, but has %zu bytes of content",
             (long long)size, (long long)(size * bytes), p->tensor_content.len);
    fail(err, what, text);
    return NULL;
  }
  if (!content && given > size && !(size == 0 && given == 1)) {          /* TensorFlow writes one value for none */
    snprintf(text, sizeof text, "is a tensor of %lld elements but lists %lld", (long long)size, (long long)given);
    fail(err, what, text);
    return NULL;
  }
  const int64_t beyond = content || given >= size ? 0 : (size - given) * bytes;
  if (unpack && beyond > *unpack) {
    snprintf(
        text, sizeof text,
        "of %lld bytes makes the file unpack to more than it may; DFLOW_UNPACK_LIMIT says how many bytes are taken",
        (long long)(size * bytes));
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "%s %s", what, text);
    return NULL;
  }
  if (unpack) *unpack -= beyond;
  df_tensor *t = df_tensor_new((int32_t)p->dtype, rank, dims, err);
  if (!t || !size) return t;
  bool good = true;
  if (!content) good = copy_listed(t, p, given, err);
  else if (t->dtype == DF_STRING) good = packed_strings(t, p->tensor_content, what, err);
  else if (t->dtype == DF_BOOL)
    for (int64_t i = 0; i < size; i++) ((bool *)t->data)[i] = p->tensor_content.data[i] != 0;
  else memcpy(t->data, p->tensor_content.data, p->tensor_content.len);
  if (good) return t;
  df_tensor_release(t);
  return NULL;
}
