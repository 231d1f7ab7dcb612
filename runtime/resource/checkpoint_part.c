/* checkpoint_part.c: where parts of tensors lie, and what an index calls them.
 *
 * A part's key is TensorFlow's OrderedCode: 0, the name, the rank, and start and length of each dimension (0 and -1
 * where that is whole), in bytes whose order is that of the values.
 */
#include "resource/checkpoint_part.h"
#include <stdlib.h>

bool dfi_part_parse(const char *text, dfi_part *p, int64_t *dims) {
  char *end;
  *p = (dfi_part){ 0 };
  for (; strchr(text, ' '); text = end + 1) {
    if (p->rank == DF_MAX_RANK) return false;
    dims[p->rank] = strtoll(text, &end, 10);
    if (end == text || *end != ' ' || dims[p->rank++] < 0) return false;
  }
  for (int32_t d = 0; d < p->rank; d++, text = end + 1) {
    p->whole[d] = *text == '-';
    end = (char *)(uintptr_t)text + 1;
    if (!p->whole[d]) {
      p->start[d] = strtoll(text, &end, 10);
      if (end == text || *end != ',') return false;
      text = end + 1;
      p->length[d] = strtoll(text, &end, 10);
      if (end == text) return false;
    }
    if (*end != (d < p->rank - 1 ? ':' : 0)) return false;
  }
  return p->rank > 0 && dfi_part_fits(p, p->rank, dims);
}

bool dfi_part_fits(dfi_part *p, int32_t rank, const int64_t *dims) {
  for (int32_t d = 0; d < p->rank && p->rank == rank; d++) {
    if (p->whole[d]) { p->start[d] = 0; p->length[d] = dims[d]; }
    if (p->start[d] < 0 || p->length[d] < 0 || p->length[d] > dims[d] || p->start[d] > dims[d] - p->length[d])
      return false;
  }
  return p->rank == rank;
}

int64_t dfi_part_size(const dfi_part *p) {
  int64_t n = 1;
  for (int32_t d = 0; d < p->rank; d++) n *= p->length[d];
  return n;
}

bool dfi_part_meets(const dfi_part *a, const dfi_part *b) {
  for (int32_t d = 0; d < a->rank; d++)
    if (a->start[d] + a->length[d] <= b->start[d] || b->start[d] + b->length[d] <= a->start[d] || !a->length[d] ||
        !b->length[d]) return false;
  return true;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */
/* A number in as many bytes as it needs; the bits in front of it say how many: one for each byte behind the first, and
 * a 0. All are turned where it is negative. */
static uint8_t *put_signed(uint8_t *to, int64_t v) {
  const uint64_t up = v < 0 ? ~(uint64_t)v : (uint64_t)v, turn = v < 0 ? 0xff : 0;
  int32_t n = 1;
  while (n < 10 && up >> (7 * n - 1)) n++;
  for (int32_t i = n - 1; i >= 0; i--) *to++ = (uint8_t)((i < 8 ? up >> 8 * i : 0) ^ turn);
  const uint32_t mark = (0xffffu << (16 - n)) & 0xffff;
  to[-n] ^= (uint8_t)(mark >> 8);
  if (n > 1) to[1 - n] ^= (uint8_t)mark;
  return to;
}

char *dfi_part_key(const char *name, const dfi_part *p, size_t *n) {
  const size_t length = strlen(name);
  uint8_t *key = dfi_xmalloc(2 * length + 8 + 20 * DF_MAX_RANK), *to = key;
  *to++ = 0;
  for (size_t i = 0; i < length; i++) {
    *to++ = (uint8_t)name[i];
    if ((uint8_t)name[i] == 0xff) *to++ = 0;
  }
  *to++ = 0;
  *to++ = 1;
  *to++ = p->rank > 0;                   /* how many bytes the rank has */
  if (p->rank) *to++ = (uint8_t)p->rank;
  for (int32_t d = 0; d < p->rank; d++) {
    to = put_signed(to, p->start[d]);
    to = put_signed(to, p->whole[d] ? -1 : p->length[d]);
  }
  *n = (size_t)(to - key);
  return (char *)key;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */
/* Row by row along the last dimension. */
static int32_t copy(df_tensor *to, const df_tensor *from, const df_tensor *whole, const dfi_part *p, df_error *err) {
  const int64_t size = dfi_part_size(p), row = p->rank ? p->length[p->rank - 1] : 1;
  for (int64_t i = 0; i < size; i += row) {
    int64_t at = 0, stride = 1, left = i;
    for (int32_t d = p->rank - 1; d >= 0; d--) {
      at += (p->start[d] + left % p->length[d]) * stride;
      left /= p->length[d];
      stride *= whole->dims[d];
    }
    const int64_t a = to == whole ? at : i, b = to == whole ? i : at;
    const int64_t each = to->dtype == DF_STRING ? 0 : df_dtype_bytes(to->dtype);
    if (each) memcpy((char *)to->data + a * each, (const char *)from->data + b * each, (size_t)(row * each));
    for (int64_t j = 0, n; !each && j < row; j++) {
      const char *s = df_tensor_string(from, b + j, &n);
      const int32_t code = df_tensor_set_string(to, a + j, s, n, err);
      if (code) return code;
    }
  }
  return DF_OK;
}
int32_t dfi_part_put(df_tensor *whole, const dfi_part *p, const df_tensor *part, df_error *err) {
  return copy(whole, part, whole, p, err);
}
int32_t dfi_part_take(const df_tensor *whole, const dfi_part *p, df_tensor *part, df_error *err) {
  return copy(part, whole, whole, p, err);
}
