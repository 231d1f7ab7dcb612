/* tensor.c: dense arrays on the host, and values as they lie in slots.
 *
 * A tensor is made in one piece: its header, its buffer's header and its elements, 128 bytes before them. Tensors
 * that share the elements (df_tensor_reshape) have a header of their own and a reference to the buffer; the piece
 * is freed with the buffer's last reference. Once shared a tensor is immutable. Strings own their bytes, variants
 * their handles.
 */
#include "base/remote_memory.h"
#include "kernels/convert.h"
#include "kernels/half.h"
#include <math.h>

enum { HEAD_BYTES = 128 };        /* of a piece: df_tensor, then df_buffer, then the elements */
_Static_assert(sizeof(df_tensor) + sizeof(struct df_buffer) <= HEAD_BYTES, "the headers fit before the elements");
_Static_assert(sizeof(df_value) == 16, "a slot is 16 bytes");

const uint8_t dfi_dtype_size[32] = {
  [DF_FLOAT32] = 4, [DF_FLOAT64] = 8, [DF_INT32] = 4, [DF_UINT8] = 1, [DF_INT8] = 1, [DF_STRING] = sizeof(df_str),
  [DF_INT64] = 8, [DF_BOOL] = 1, [DF_BFLOAT16] = 2, [DF_FLOAT16] = 2, [DF_RESOURCE] = 8,
  [DF_INT16] = 2, [DF_UINT16] = 2, [DF_UINT32] = 4, [DF_UINT64] = 8, [DF_COMPLEX64] = 8, [DF_COMPLEX128] = 16,
  [DF_QINT8] = 1, [DF_QUINT8] = 1, [DF_QINT16] = 2, [DF_QUINT16] = 2, [DF_QINT32] = 4, [DF_VARIANT] = sizeof(void *),
};
static const struct { const char *name; int32_t dtype; } dtypes[] = {
  { "float32", DF_FLOAT32 }, { "float64", DF_FLOAT64 }, { "int32", DF_INT32 }, { "int64", DF_INT64 },
  { "bool", DF_BOOL }, { "uint8", DF_UINT8 }, { "int8", DF_INT8 }, { "string", DF_STRING },
  { "float16", DF_FLOAT16 }, { "bfloat16", DF_BFLOAT16 }, { "resource", DF_RESOURCE },
  { "int16", DF_INT16 }, { "uint16", DF_UINT16 }, { "uint32", DF_UINT32 }, { "uint64", DF_UINT64 },
  { "complex64", DF_COMPLEX64 }, { "complex128", DF_COMPLEX128 }, { "variant", DF_VARIANT },
  { "qint8", DF_QINT8 }, { "quint8", DF_QUINT8 }, { "qint16", DF_QINT16 }, { "quint16", DF_QUINT16 },
  { "qint32", DF_QINT32 },
};

const char *df_dtype_name(int32_t dtype) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (dtypes[i].dtype == dtype) return dtypes[i].name;
  return "invalid";
}
int32_t df_dtype_of(const char *name) {
  for (size_t i = 0; name && i < sizeof dtypes / sizeof *dtypes; i++)
    if (!strcmp(dtypes[i].name, name)) return dtypes[i].dtype;
  return DF_INVALID;
}
int32_t df_dtype_bytes(int32_t dtype) { return dtype > 0 && dtype < 32 ? dfi_dtype_size[dtype] : 0; }

/* ---- life ---------------------------------------------------------------------------------- */

/* The number of elements; -1 when a dim is negative or the bytes do not fit. */
static int64_t count(uint8_t dtype, int32_t rank, const int64_t *dims) {
  int64_t n = 1, bytes;
  bool none = false;                                   /* [0, huge] is empty however huge */
  for (int32_t i = 0; i < rank; i++) {
    if (dims[i] < 0) return -1;
    if (dims[i] == 0) none = true;
    else if (__builtin_mul_overflow(n, dims[i], &n)) n = INT64_MAX;
  }
  if (none) return 0;
  return __builtin_mul_overflow(n, (int64_t)dfi_dtype_size[dtype], &bytes) || bytes > INT64_MAX / 4 ? -1 : n;
}

static struct df_buffer *buffer_of(df_tensor *t) { return (struct df_buffer *)(t + 1); }

void *dfi_note_of(struct df_buffer *b) { return b && b->remote ? (char *)b - sizeof(df_tensor) + HEAD_BYTES : NULL; }

/* The head on the host, the elements on the device. */
static df_tensor *remote_piece(dfi_devmem *a, int64_t bytes, void **data) {
  df_tensor *t = dfi_alloc(HEAD_BYTES + DFI_NOTE_BYTES);
  if (!t) return NULL;
  void *note = memset((char *)t + HEAD_BYTES, 0, DFI_NOTE_BYTES);
  if ((*data = dfi_remote_alloc(a, bytes, note))) return t;
  dfi_release(t, HEAD_BYTES + DFI_NOTE_BYTES);
  return NULL;
}

df_tensor *dfi_tensor_make(uint8_t dtype, int32_t rank, const int64_t *dims) {
  int64_t n = count(dtype, rank, dims);
  if (n < 0) return NULL;
  int64_t bytes = n * dfi_dtype_size[dtype];
  dfi_devmem *a = dfi_devmem_here;
  bool remote = false;
  void *data = NULL;
  df_tensor *t;
  if (DFI_LIKELY(!a)) t = dfi_alloc(HEAD_BYTES + bytes);
  else if (!dfi_devmem_remote(a)) t = dfi_devmem_alloc(a, HEAD_BYTES + bytes);
  else if (dfk_plain(dtype)) remote = true, t = remote_piece(a, bytes, &data);
  else a = NULL, t = dfi_alloc(HEAD_BYTES + bytes);      /* strings and handles are the host's */
  if (!t) return NULL;
  struct df_buffer *b = buffer_of(t);
  *b = (struct df_buffer){
    .refs = 1, .owns = dfk_plain(dtype) ? 0 : dtype, .bytes = bytes, .data = remote ? data : (char *)t + HEAD_BYTES,
        .arena = a,
    .remote = remote
  };
  t->refs = 1;
  t->dtype = dtype;
  t->rank = (int8_t)rank;
  t->view = 0;
  t->size = n;
  for (int32_t i = 0; i < rank; i++) t->dims[i] = dims[i];
  t->data = b->data;
  t->buffer = b;
  if (!dfk_plain(dtype)) memset(t->data, 0, (size_t)bytes);
  return t;
}

df_tensor *df_tensor_new(int32_t dtype, int32_t rank, const int64_t *dims, df_error *err) {
  if (df_dtype_bytes(dtype) == 0 || dtype == DF_RESOURCE) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there are no tensors of dtype %s (%d)", df_dtype_name(dtype), dtype);
    return NULL;
  }
  if (rank < 0 || rank > DF_MAX_RANK) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "rank is %d but must be from 0 to %d", rank, DF_MAX_RANK);
    return NULL;
  }
  for (int32_t i = 0; i < rank; i++)
    if (dims[i] < 0) {
      dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "dimension %d is %lld but must not be negative", i, (long long)dims[i]);
      return NULL;
    }
  df_tensor *t = dfi_tensor_make((uint8_t)dtype, rank, dims);
  if (!t) {
    char text[160];
    dfi_shape s = { .rank = (int8_t)rank };
    for (int32_t i = 0; i < rank; i++) s.dims[i] = dims[i];
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for %s", dfi_typed_shape_text((uint8_t)dtype, &s, text));
  }
  return t;
}

df_tensor *df_tensor_retain(df_tensor *t) {
  df_assert(!t->view);
  __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
  return t;
}

static void buffer_drop(struct df_buffer *b) {
  /* A sole owner needs no locked instruction: no other can be counting. */
  if (__atomic_load_n(&b->refs, __ATOMIC_ACQUIRE) != 1 && __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) != 0)
    return;
  if (DFI_UNLIKELY(b->packed)) dfi_packed_forget(b);
  if (b->owns == DF_STRING) {
    df_str *s = b->data;
    for (int64_t i = 0, n = b->bytes / (int64_t)sizeof *s; i < n; i++) free(s[i].bytes);
  } else if (b->owns == DF_VARIANT) {
    void **h = b->data;
    for (int64_t i = 0, n = b->bytes / (int64_t)sizeof *h; i < n; i++)
      if (h[i]) dfi_handle_release(h[i]);
  }
  void *piece = (char *)b - sizeof(df_tensor);
  if (DFI_LIKELY(!b->arena)) dfi_release(piece, HEAD_BYTES + b->bytes);
  else if (b->remote) {
    dfi_devmem *a = b->arena;
    dfi_remote_free(a, b->data, b->bytes, dfi_note_of(b));
    dfi_release(piece, HEAD_BYTES + DFI_NOTE_BYTES);
  }
  else dfi_devmem_free(b->arena, piece, HEAD_BYTES + b->bytes);
}

void df_tensor_release(df_tensor *t) {
  if (!t) return;
  df_assert(!t->view);
  if (__atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) != 1 && __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) != 0)
    return;
  struct df_buffer *b = t->buffer;
  if (b != buffer_of(t)) dfi_release(t, sizeof *t);      /* a header of its own */
  buffer_drop(b);
}

df_tensor *df_tensor_reshape(df_tensor *t, int32_t rank, const int64_t *dims, df_error *err) {
  if (rank < 0 || rank > DF_MAX_RANK || count(t->dtype, rank, dims) != t->size) {
    if (rank < 0 || rank > DF_MAX_RANK)
      dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "rank is %d but must be from 0 to %d", rank, DF_MAX_RANK);
    else
      dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
               "a tensor of %lld elements cannot be reshaped: the shape asked for has %lld", (long long)t->size,
               (long long)count(t->dtype, rank, dims));
    return NULL;
  }
  df_tensor *r = dfi_alloc(sizeof *r);
  if (!r) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for a tensor's header");
    return NULL;
  }
  __atomic_add_fetch(&t->buffer->refs, 1, __ATOMIC_RELAXED);
  r->refs = 1;
  r->dtype = t->dtype;
  r->rank = (int8_t)rank;
  r->view = 0;
  r->size = t->size;
  for (int32_t i = 0; i < rank; i++) r->dims[i] = dims[i];
  r->data = t->data;
  r->buffer = t->buffer;
  return r;
}

df_tensor *dfi_tensor_view(df_tensor *t, int64_t first, int32_t rank, const int64_t *dims) {
  df_tensor *r = dfi_alloc(sizeof *r);
  if (!r) return NULL;
  __atomic_add_fetch(&t->buffer->refs, 1, __ATOMIC_RELAXED);
  *r = (df_tensor){ .refs = 1, .dtype = t->dtype, .rank = (int8_t)rank, .size = count(t->dtype, rank, dims),
                    .data = (char *)t->data + first * dfi_dtype_size[t->dtype], .buffer = t->buffer };
  for (int32_t i = 0; i < rank; i++) r->dims[i] = dims[i];
  df_assert(first >= 0 && first + r->size <= t->size);
  return r;
}

/* ---- looking ------------------------------------------------------------------------------- */

int32_t df_tensor_dtype(const df_tensor *t) { return t->dtype; }
int32_t df_tensor_rank(const df_tensor *t) { return t->rank; }
int64_t df_tensor_dim(const df_tensor *t, int32_t axis) { return axis >= 0 && axis < t->rank ? t->dims[axis] : -1; }
int64_t df_tensor_size(const df_tensor *t) { return t->size; }
void   *df_tensor_data(const df_tensor *t) { return dfk_plain(t->dtype) ? t->data : NULL; }

int64_t df_tensor_bytes(const df_tensor *t) {
  int64_t bytes = HEAD_BYTES + (t->buffer ? t->buffer->bytes : t->size * dfi_dtype_size[t->dtype]);
  if (t->dtype == DF_STRING)
    for (int64_t i = 0; i < t->size; i++) bytes += ((const df_str *)t->data)[i].length;
  return bytes;
}

const char *df_tensor_string(const df_tensor *t, int64_t i, int64_t *length) {
  if (t->dtype != DF_STRING || i < 0 || i >= t->size) {
    if (length) *length = 0;
    return NULL;
  }
  const df_str *s = (const df_str *)t->data + i;
  if (length) *length = s->length;
  return s->bytes ? s->bytes : "";
}

int32_t df_tensor_set_string(df_tensor *t, int64_t i, const char *bytes, int64_t length, df_error *err) {
  if (t->dtype != DF_STRING)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "a string cannot be stored in a tensor of %s",
                    df_dtype_name(t->dtype));
  if (i < 0 || i >= t->size)
    return dfi_fail(err, DF_OUT_OF_RANGE, NULL, "element %lld of a tensor of %lld elements", (long long)i,
                    (long long)t->size);
  if (length < 0)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "a string's length is %lld", (long long)length);
  char *copy = NULL;                                   /* 0-terminated as a courtesy; empty strings have no bytes */
  if (length > 0) {
    if (!(copy = malloc((size_t)length + 1)))
      return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for a string of %lld bytes", (long long)length);
    memcpy(copy, bytes, (size_t)length);
    copy[length] = 0;
  }
  df_str *s = (df_str *)t->data + i;
  free(s->bytes);
  *s = (df_str){ copy, length };
  return DF_OK;
}

/* Truncates toward zero; out of range saturates; NaN gives 0. */
static int64_t to_int(double v) {
  return isnan(v) ? 0 : v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

double df_tensor_get(const df_tensor *t, int64_t i) {
  if (i < 0 || i >= t->size) return 0;
  switch (t->dtype) {
    case DF_FLOAT32:  return ((const float *)t->data)[i];
    case DF_FLOAT64:  return ((const double *)t->data)[i];
    case DF_FLOAT16:  return dfk_from_float16(((const uint16_t *)t->data)[i]);
    case DF_BFLOAT16: return dfk_from_bfloat16(((const uint16_t *)t->data)[i]);
    case DF_INT64:    return (double)((const int64_t *)t->data)[i];
    case DF_UINT64:   return (double)((const uint64_t *)t->data)[i];
    case DF_COMPLEX64:  return ((const float *)t->data)[2 * i];
    case DF_COMPLEX128: return ((const double *)t->data)[2 * i];
    default:          return (double)df_tensor_get_int(t, i);
  }
}

void dfi_settle_bools(df_tensor *t) {
  if (t->dtype != DF_BOOL) return;
  uint8_t *byte = t->data;
  for (int64_t i = 0; i < t->size; i++) byte[i] = byte[i] != 0;
}

int64_t df_tensor_get_int(const df_tensor *t, int64_t i) {
  if (i < 0 || i >= t->size) return 0;
  switch (t->dtype) {
    case DF_INT32: case DF_QINT32: return ((const int32_t *)t->data)[i];
    case DF_INT64:  return ((const int64_t *)t->data)[i];
    case DF_INT8: case DF_QINT8:   return ((const int8_t *)t->data)[i];
    case DF_UINT8: case DF_QUINT8: return ((const uint8_t *)t->data)[i];
    case DF_INT16: case DF_QINT16: return ((const int16_t *)t->data)[i];
    case DF_UINT16: case DF_QUINT16: return ((const uint16_t *)t->data)[i];
    case DF_UINT32: return ((const uint32_t *)t->data)[i];
    case DF_UINT64: return (int64_t)((const uint64_t *)t->data)[i];
    case DF_BOOL:   return ((const bool *)t->data)[i];
    case DF_FLOAT32: case DF_FLOAT64: case DF_FLOAT16: case DF_BFLOAT16: case DF_COMPLEX64: case DF_COMPLEX128:
      return to_int(df_tensor_get(t, i));
    default: return 0;
  }
}

/* A float dtype holds every number, rounded, but not a finite one that would become infinite. */
bool df_tensor_set(df_tensor *t, int64_t i, double v) {
  if (i < 0 || i >= t->size) return false;
  switch (t->dtype) {
    case DF_FLOAT64: ((double *)t->data)[i] = v; return true;
    case DF_FLOAT32: {
      float f = (float)v;
      if (isinf(f) && !isinf(v)) return false;
      ((float *)t->data)[i] = f;
      return true;
    }
    case DF_FLOAT16: case DF_BFLOAT16: {
      bool brain = t->dtype == DF_BFLOAT16;
      uint16_t h = brain ? dfk_to_bfloat16((float)v) : dfk_to_float16((float)v);
      if (isinf(brain ? dfk_from_bfloat16(h) : dfk_from_float16(h)) && !isinf(v)) return false;
      ((uint16_t *)t->data)[i] = h;
      return true;
    }
    case DF_COMPLEX64: case DF_COMPLEX128: return df_tensor_set_complex(t, i, v, 0);
    case DF_UINT64:
      if (!(v >= 0 && v < 0x1p64 && v == trunc(v))) return false;
      ((uint64_t *)t->data)[i] = (uint64_t)v;
      return true;
    default:
      return v == v && v >= -0x1p63 && v < 0x1p63 && v == (double)(int64_t)v && df_tensor_set_int(t, i, (int64_t)v);
  }
}

bool df_tensor_set_int(df_tensor *t, int64_t i, int64_t v) {
  if (i < 0 || i >= t->size) return false;
  switch (t->dtype) {
    case DF_INT64: ((int64_t *)t->data)[i] = v; return true;
    case DF_UINT64: if (v < 0) return false; ((uint64_t *)t->data)[i] = (uint64_t)v; return true;
    case DF_BOOL:   if (v != 0 && v != 1) return false; ((bool *)t->data)[i] = v != 0; return true;
#define SET(TYPE) if (v != (TYPE)v) return false; ((TYPE *)t->data)[i] = (TYPE)v; return true
    case DF_INT32: case DF_QINT32:   SET(int32_t);
    case DF_UINT32:                  SET(uint32_t);
    case DF_INT16: case DF_QINT16:   SET(int16_t);
    case DF_UINT16: case DF_QUINT16: SET(uint16_t);
    case DF_INT8: case DF_QINT8:     SET(int8_t);
    case DF_UINT8: case DF_QUINT8:   SET(uint8_t);
#undef SET
    case DF_FLOAT32: case DF_FLOAT64: case DF_FLOAT16: case DF_BFLOAT16: case DF_COMPLEX64: case DF_COMPLEX128:
      return df_tensor_set(t, i, (double)v);
    default: return false;
  }
}

double df_tensor_imaginary(const df_tensor *t, int64_t i) {
  if (i < 0 || i >= t->size || !dfi_is_complex(t->dtype)) return 0;
  return t->dtype == DF_COMPLEX64 ? ((const float *)t->data)[2 * i + 1] : ((const double *)t->data)[2 * i + 1];
}

bool df_tensor_set_complex(df_tensor *t, int64_t i, double re, double im) {
  if (i < 0 || i >= t->size || !dfi_is_complex(t->dtype)) return false;
  if (t->dtype == DF_COMPLEX128) {
    ((double *)t->data)[2 * i] = re;
    ((double *)t->data)[2 * i + 1] = im;
    return true;
  }
  float r = (float)re, m = (float)im;
  if ((isinf(r) && !isinf(re)) || (isinf(m) && !isinf(im))) return false;
  ((float *)t->data)[2 * i] = r;
  ((float *)t->data)[2 * i + 1] = m;
  return true;
}

/* ---- cast ---------------------------------------------------------------------------------- */

static bool castable(int32_t dtype) {
  uint8_t t = dfk_underlying((uint8_t)dtype);
  return dfi_is_float(t) || dfi_is_int(t) || dfi_is_complex(t) || t == DF_BOOL;
}

df_tensor *df_tensor_cast(df_tensor *t, int32_t dtype, df_error *err) {
  if (dtype == t->dtype) return df_tensor_retain(t);
  if (!castable(t->dtype) || !castable(dtype)) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no cast from %s to %s", df_dtype_name(t->dtype),
             df_dtype_name(dtype));
    return NULL;
  }
  df_tensor *r = df_tensor_new(dtype, t->rank, t->dims, err);
  if (r) dfk_convert(t->dtype, t->data, r->dtype, r->data, t->size);
  return r;
}

/* ---- values -------------------------------------------------------------------------------- */

void df_value_release(df_value *v) {
  if (v->kind == DF_TENSOR) df_tensor_release(v->as.tensor);
  else if (v->kind == DF_HANDLE) dfi_handle_release(v->as.handle);
  *v = (df_value){ 0 };
}

df_value dfi_value_copy(const df_value *v) {
  if (v->kind == DF_TENSOR) df_tensor_retain(v->as.tensor);
  else if (v->kind == DF_HANDLE) dfi_handle_retain(v->as.handle);
  df_value copy = *v;
  copy.flags = 0;                          /* it has a reference of its own */
  return copy;
}

df_tensor *dfi_tensor_from_scalar(const df_value *v) {
  df_tensor *t = dfi_tensor_make(v->dtype, 0, NULL);
  if (t && !dfi_bytes_copy(t->data, t->buffer, &v->as, NULL, dfi_dtype_size[v->dtype])) {
    df_tensor_release(t);
    return NULL;
  }
  return t;
}

bool dfi_value_from_tensor(df_value *out, df_tensor *t) {
  *out = (df_value){ .dtype = t->dtype };
  if (t->rank == 0 && dfi_unboxed(t->dtype) && dfi_readable(t)) {
    out->kind = DF_SCALAR;
    memcpy(&out->as, t->data, dfi_dtype_size[t->dtype]);
    df_tensor_release(t);
    return true;
  }
  out->kind = DF_TENSOR;
  out->as.tensor = t;
  return false;
}
