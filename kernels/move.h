/* move.h: moving elements of any dtype without knowing what they mean.
 *
 * The array and index kernels are all one thing: "this element goes there". Here is the element (dfk_copy), the walk
 * over an index space (dfk_next, dfk_position) that the reference kernels use, and the fast strided copy (dfk_move)
 * that the CPU kernels use. Strings and variants are copied one by one, everything else as bytes.
 */
#ifndef DFLOW_MOVE_H
#define DFLOW_MOVE_H
#include "kernel.h"
#include <string.h>

enum { DFK_MOVE_RANK = 2 * DF_MAX_RANK };

/* Bytes of an element of a dtype that exists. */
static inline int64_t dfk_width(uint8_t dtype) {
  switch (dtype) {
  case DF_FLOAT32: case DF_INT32: case DF_UINT32: case DF_QINT32: return 4;
  case DF_FLOAT64: case DF_INT64: case DF_UINT64: case DF_COMPLEX64: case DF_VARIANT: return 8;
  case DF_FLOAT16: case DF_BFLOAT16: case DF_INT16: case DF_UINT16: case DF_QINT16: case DF_QUINT16: return 2;
  case DF_STRING: case DF_COMPLEX128: return 16;
  default: return 1;
  }
}

/* memcpy, but not by the processor's string instruction where that is slow: to an address that lies less than a cache
 * line behind the source's in their pages (a shift by an element, of tensors that begin at pages, say): 0.28 against
 * 0.015 ns a byte on Zen 5. */
void dfk_copy_pieces(void *to, const void *from, int64_t n);
static inline void dfk_copy_bytes(void *to, const void *from, int64_t n) {
  enum { PIECE = 1024, PAGE = 4096, LINE = 64 };
  if (n > PIECE && ((uintptr_t)to - (uintptr_t)from - 1) % PAGE < LINE - 1) dfk_copy_pieces(to, from, n);
  else memcpy(to, from, (size_t)n);
}

/* Copies n elements that lie side by side. False: out of memory for a string, error is filled. dfk_copy_owned: of a
   dtype that is not plain. */
bool dfk_copy_owned(df_kernel *k, df_tensor *to, int64_t to_at, const df_tensor *from, int64_t from_at, int64_t n);
#ifdef DFK_DEVICE      /* compiled for a device whose elements the host cannot touch: it has versions of its own */
bool dfk_copy(df_kernel *k, df_tensor *to, int64_t to_at, const df_tensor *from, int64_t from_at, int64_t n);
void dfk_clear(df_tensor *t);
#else
static inline bool dfk_copy(df_kernel *k, df_tensor *to, int64_t to_at, const df_tensor *from, int64_t from_at,
                            int64_t n) {
  if (n == 0) return true;
  if (!dfk_plain(to->dtype)) return dfk_copy_owned(k, to, to_at, from, from_at, n);
  int64_t w = dfk_width(to->dtype);
  dfk_copy_bytes((char *)to->data + to_at * w, (const char *)from->data + from_at * w, n * w);
  return true;
}

/* A fresh tensor becomes all zeros, false, "". (Fresh strings and variants are empty already.) */
static inline void dfk_clear(df_tensor *t) {
  if (dfk_plain(t->dtype) && t->size) memset(t->data, 0, (size_t)(t->size * dfk_width(t->dtype)));
}
#endif

/* A box of elements: element (i0, i1, …) is at sum of i * stride on either side. Strides count elements; a `from`
 * stride may be 0 (repeat) or negative (backwards); no two `to` elements may be the same. */
typedef struct dfk_box {
  int32_t rank;
  int64_t dims[DFK_MOVE_RANK], to[DFK_MOVE_RANK], from[DFK_MOVE_RANK];
} dfk_box;
/* Copies the box, to_at and from_at being where element (0, 0, …) is. Uses the worker threads when it is large. False:
 * out of memory for a string, error is filled. */
bool dfk_move(df_kernel *k, df_tensor *to, int64_t to_at, const df_tensor *from, int64_t from_at, const dfk_box *box);

/* `strides` of a row-major array, in elements. */
static inline void dfk_strides(int32_t rank, const int64_t *dims, int64_t *strides) {
  int64_t s = 1;
  for (int32_t d = rank - 1; d >= 0; d--) { strides[d] = s; s *= dims[d]; }
}
/* Row-major position of index `at`. */
static inline int64_t dfk_position(int32_t rank, const int64_t *dims, const int64_t *at) {
  int64_t p = 0;
  for (int32_t d = 0; d < rank; d++) p = p * dims[d] + at[d];
  return p;
}
/* Steps `at` to the next index in row-major order; back to all zeros after the last. */
static inline void dfk_next(int32_t rank, const int64_t *dims, int64_t *at) {
  for (int32_t d = rank - 1; d >= 0; d--) {
    if (++at[d] < dims[d]) return;
    at[d] = 0;
  }
}
/* The index at row-major position p, as "2,0,1" in a buffer of the caller's; returns it. For messages. */
char *dfk_index_text(int32_t rank, const int64_t *dims, int64_t p, char *buffer, size_t bytes);
/* Element i of an integer tensor of any width. */
static inline int64_t dfk_any_int(const df_tensor *t, int64_t i) {
  switch (t->dtype) {
  case DF_UINT8: return ((const uint8_t *)t->data)[i];
  case DF_INT8:  return ((const int8_t *)t->data)[i];
  case DF_INT16: return ((const int16_t *)t->data)[i];
  case DF_UINT16: return ((const uint16_t *)t->data)[i];
  case DF_UINT32: return ((const uint32_t *)t->data)[i];
  case DF_UINT64: return (int64_t)((const uint64_t *)t->data)[i];
  default:       return dfk_index(t, i);
  }
}
#endif
