/* shape.c: static shapes. A rank or dimension of -1 is not known yet; nothing here allocates. */
#include "base/internal.h"
#include <stdio.h>

dfi_shape dfi_shape_unknown(void) { return (dfi_shape){ .rank = -1 }; }
dfi_shape dfi_shape_scalar(void) { return (dfi_shape){ .rank = 0 }; }
dfi_shape dfi_shape_vector(int64_t n) { return (dfi_shape){ .rank = 1, .dims = { n < 0 ? -1 : n } }; }

dfi_shape dfi_shape_of(int32_t rank, const int64_t *dims) {
  dfi_shape s = { .rank = (int8_t)(rank < 0 || rank > DF_MAX_RANK ? -1 : rank) };
  for (int32_t i = 0; i < s.rank; i++) s.dims[i] = dims[i] < 0 ? -1 : dims[i];
  return s;
}

bool dfi_shape_known(const dfi_shape *s) {
  if (s->rank < 0) return false;
  for (int32_t i = 0; i < s->rank; i++)
    if (s->dims[i] < 0) return false;
  return true;
}

bool dfi_shape_equal(const dfi_shape *a, const dfi_shape *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

bool dfi_shape_merge(const dfi_shape *a, const dfi_shape *b, dfi_shape *out) {
  if (a->rank < 0) { *out = *b; return true; }
  if (b->rank < 0) { *out = *a; return true; }
  if (a->rank != b->rank) return false;
  dfi_shape r = { .rank = a->rank };
  for (int32_t i = 0; i < a->rank; i++) {
    if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i]) return false;
    r.dims[i] = a->dims[i] >= 0 ? a->dims[i] : b->dims[i];
  }
  *out = r;
  return true;
}

void dfi_shape_relax(const dfi_shape *a, const dfi_shape *b, dfi_shape *out) {
  dfi_shape r = { .rank = -1 };
  if (a->rank >= 0 && a->rank == b->rank) {
    r.rank = a->rank;
    for (int32_t i = 0; i < a->rank; i++) r.dims[i] = a->dims[i] == b->dims[i] ? a->dims[i] : -1;
  }
  *out = r;
}

bool dfi_shape_broadcast(const dfi_shape *a, const dfi_shape *b, dfi_shape *out) {
  if (a->rank < 0 || b->rank < 0) {
    *out = dfi_shape_unknown();
    return true;
  }
  dfi_shape r = { .rank = a->rank > b->rank ? a->rank : b->rank };
  for (int32_t i = 1; i <= r.rank; i++) {              /* from the last dimension */
    int64_t x = i <= a->rank ? a->dims[a->rank - i] : 1, y = i <= b->rank ? b->dims[b->rank - i] : 1, d;
    if (x == 1) d = y;
    else if (y == 1) d = x;
    else if (x < 0) d = y;                             /* y is not 1: x must be y or 1 */
    else if (y < 0 || x == y) d = x;
    else return false;
    r.dims[r.rank - i] = d;
  }
  *out = r;
  return true;
}

int64_t dfi_shape_size(const dfi_shape *s) {
  int64_t n = 1;
  if (!dfi_shape_known(s)) return -1;
  for (int32_t i = 0; i < s->rank; i++)
    if (s->dims[i] == 0) return 0;
  for (int32_t i = 0; i < s->rank; i++)
    if (__builtin_mul_overflow(n, s->dims[i], &n)) return INT64_MAX;
  return n;
}

enum { TEXT_BYTES = 160 };

static int32_t put(char *to, int32_t at, const dfi_shape *s) {
  at += snprintf(to + at, (size_t)(TEXT_BYTES - at), "[");
  for (int32_t i = 0; i < s->rank && at < TEXT_BYTES - 1; i++) {
    if (i) to[at++] = ',';
    at += s->dims[i] < 0 ? snprintf(to + at, (size_t)(TEXT_BYTES - at), "?")
                         : snprintf(to + at, (size_t)(TEXT_BYTES - at), "%lld", (long long)s->dims[i]);
  }
  if (at < TEXT_BYTES - 1) { to[at++] = ']'; to[at] = 0; }
  return at;
}

char *dfi_shape_text(const dfi_shape *s, char *buffer) {
  if (s->rank < 0) snprintf(buffer, TEXT_BYTES, "an unknown shape");
  else put(buffer, 0, s);
  return buffer;
}

char *dfi_typed_shape_text(uint8_t dtype, const dfi_shape *s, char *buffer) {
  int32_t at = snprintf(buffer, TEXT_BYTES, "%s", df_dtype_name(dtype));
  if (s->rank < 0) snprintf(buffer + at, (size_t)(TEXT_BYTES - at), " of unknown shape");
  else put(buffer, at, s);
  return buffer;
}
