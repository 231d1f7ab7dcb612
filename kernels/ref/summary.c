/* summary.c: TensorFlow's Summary messages, byte by byte as TensorFlow writes them.
 *
 * Summary { repeated Value value = 1 }; Value { string tag = 1; float simple_value = 2; HistogramProto histo = 5;
 * TensorProto tensor = 8; SummaryMetadata metadata = 9 }; TensorProto { dtype = 1; shape = 2; bytes content = 4;
 * repeated string strings = 8 };
 * HistogramProto { double min = 1, max = 2, num = 3, sum = 4, sum_squares = 5; repeated double bucket_limit = 6,
 * bucket = 7, packed }. A number that is zero is left out, but for simple_value.
 */
#include "../summary.h"
#include "element.h"
#include "summary_bytes.h"
#include <float.h>
#include <math.h>

static void add_double(bytes *b, uint32_t field, double v) {
  if (v == 0) return;
  bytes_add_varint(b, field << 3 | 1);
  bytes_add(b, &v, sizeof v);
}

static const df_str *text_at(const df_tensor *t, int64_t i) { return (const df_str *)t->data + i; }
static double number_at(const df_tensor *t, int64_t i) {
  return ref_is_float(t->dtype) ? ref_get(t, i)
         : t->dtype == DF_UINT64 ? (double)(uint64_t)ref_get_int(t, i) : (double)ref_get_int(t, i);
}

/* ---- summaries ------------------------------------------------------------------------------------------------ */
int32_t ref_scalar_summary(df_kernel *k) {
  const df_tensor *tags = k->in[0], *values = k->in[1];
  char a[160], c[160];
  if (tags->rank != values->rank || memcmp(tags->dims, values->dims, (size_t)tags->rank * sizeof *tags->dims))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "tags and values are not the same shape: %s and %s",
                    dfk_shape_text(tags, a, sizeof a), dfk_shape_text(values, c, sizeof c));
  bytes b = { 0 };
  for (int64_t i = 0; i < tags->size; i++) {
    bytes rest = { 0 };
    const float v = (float)number_at(values, i);
    bytes_add_varint(&rest, 2 << 3 | 5);
    bytes_add(&rest, &v, sizeof v);
    bytes_add_value(&b, text_at(tags, i), &rest);
    free(rest.at);
  }
  return bytes_give(k, &b);
}

/* Limits that grow by a tenth from 1e-12 to 1e20 on both sides of 0: each bucket ends below its limit. */
enum { LIMITS = 2 * 775 + 3 };
static int32_t limits_of(double *limit) {
  double grows[LIMITS];
  int32_t n = 0, at = 0;
  for (double v = 1e-12; v < 1e20; v *= 1.1) grows[n++] = v;
  grows[n++] = DBL_MAX;
  for (int32_t i = n - 1; i >= 0; i--) limit[at++] = -grows[i];
  limit[at++] = 0;
  for (int32_t i = 0; i < n; i++) limit[at++] = grows[i];
  return at;
}

/* The buckets that are not empty, and one for each run of empty ones. */
static void add_buckets(bytes *b, int32_t n, const double *limit, const double *count) {
  bytes ends = { 0 }, counts = { 0 };
  for (int32_t i = 0; i < n; i++) {
    if (count[i] == 0) while (i + 1 < n && count[i + 1] == 0) i++;
    bytes_add(&ends, &limit[i], sizeof *limit);
    bytes_add(&counts, &count[i], sizeof *count);
  }
  bytes_add_text(b, 6, ends.at, ends.n);
  bytes_add_text(b, 7, counts.at, counts.n);
  b->failed |= ends.failed || counts.failed;
  free(ends.at);
  free(counts.at);
}

int32_t ref_histogram_summary(df_kernel *k) {
  const df_tensor *tag = k->in[0], *values = k->in[1];
  if (tag->rank) return dfk_fail(k, DF_INVALID_ARGUMENT, "tag must be scalar");
  double limit[2 * LIMITS], count[2 * LIMITS] = { 0 }, least = DBL_MAX, most = -DBL_MAX, sum = 0, squares = 0;
  const int32_t n = limits_of(limit);
  for (int64_t i = 0; i < values->size; i++) {
    const double v = number_at(values, i);
    const df_str *name = text_at(tag, 0);
    if (!isfinite(v))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s in summary histogram for: %.*s", isnan(v) ? "Nan" : "Infinity",
                      (int)name->length, name->bytes ? name->bytes : "");
    int32_t low = 0, high = n;                          /* the first limit above v */
    while (low < high) {
      const int32_t middle = (low + high) / 2;
      if (limit[middle] <= v) low = middle + 1; else high = middle;
    }
    count[low < n ? low : n - 1]++;
    least = v < least ? v : least;
    most = v > most ? v : most;
    sum += v;
    squares += v * v;
  }
  bytes histogram = { 0 }, rest = { 0 }, b = { 0 };
  add_double(&histogram, 1, least);
  add_double(&histogram, 2, most);
  add_double(&histogram, 3, (double)values->size);
  add_double(&histogram, 4, sum);
  add_double(&histogram, 5, squares);
  add_buckets(&histogram, n, limit, count);
  bytes_add_text(&rest, 5, histogram.at, histogram.n);
  rest.failed |= histogram.failed;
  bytes_add_value(&b, text_at(tag, 0), &rest);
  free(histogram.at);
  free(rest.at);
  return bytes_give(k, &b);
}

/* The message of a tensor's shape: { repeated { int64 size = 1 } dim = 2 }. */
static void add_shape(bytes *b, const df_tensor *t) {
  bytes shape = { 0 };
  for (int32_t d = 0; d < t->rank; d++) {
    bytes dim = { 0 };
    if (t->dims[d]) { bytes_add_varint(&dim, 1 << 3); bytes_add_varint(&dim, (uint64_t)t->dims[d]); }
    bytes_add_text(&shape, 2, dim.at, dim.n);
    shape.failed |= dim.failed;
    free(dim.at);
  }
  bytes_add_text(b, 2, shape.at, shape.n);
  b->failed |= shape.failed;
  free(shape.at);
}

int32_t ref_tensor_summary(df_kernel *k) {
  const df_tensor *tag = k->in[0], *values = k->in[1], *metadata = k->in[2];
  if (tag->rank) return dfk_fail(k, DF_INVALID_ARGUMENT, "tag must be scalar");
  if (metadata->rank) return dfk_fail(k, DF_INVALID_ARGUMENT, "serialized_summary_metadata must be scalar");
  bytes tensor = { 0 }, rest = { 0 }, b = { 0 };
  bytes_add_varint(&tensor, 1 << 3);
  bytes_add_varint(&tensor, values->dtype);
  add_shape(&tensor, values);
  if (values->dtype != DF_STRING) {
    if (values->size) bytes_add_text(&tensor, 4, values->data, (size_t)(values->size * df_dtype_bytes(values->dtype)));
  } else for (int64_t i = 0; i < values->size; i++) {
    bytes_add_text(&tensor, 8, text_at(values, i)->bytes, (size_t)text_at(values, i)->length);
  }
  bytes_add_text(&rest, 8, tensor.at, tensor.n);
  bytes_add_text(&rest, 9, text_at(metadata, 0)->bytes, (size_t)text_at(metadata, 0)->length);
  rest.failed |= tensor.failed;
  bytes_add_value(&b, text_at(tag, 0), &rest);
  free(tensor.at);
  free(rest.at);
  return bytes_give(k, &b);
}

/* ---- merging -------------------------------------------------------------------------------------------------- */
static bool read_varint(const uint8_t **p, const uint8_t *end, uint64_t *v) {
  *v = 0;
  for (int32_t shift = 0; *p < end && shift < 64; shift += 7) {
    const uint8_t byte = *(*p)++;
    *v |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

typedef struct tag { const uint8_t *text; uint64_t n; } tag;

/* The tag of a value, empty where it has none: its first field. */
static tag tag_of(const uint8_t *p, const uint8_t *end) {
  uint64_t n;
  if (p == end || *p++ != (1 << 3 | 2) || !read_varint(&p, end, &n) || n > (uint64_t)(end - p)) return (tag){ 0 };
  return (tag){ p, n };
}

int32_t ref_merge_summary(df_kernel *k) {
  bytes b = { 0 }, tags = { 0 };
  for (int32_t i = 0; i < k->nin; i++) {
    for (int64_t j = 0; j < k->in[i]->size; j++) {
      const df_str *s = text_at(k->in[i], j);
      const uint8_t *p = (const uint8_t *)s->bytes, *end = p + s->length;
      while (p < end) {
        uint64_t n;
        if (*p++ != (1 << 3 | 2) || !read_varint(&p, end, &n) || n > (uint64_t)(end - p)) {
          free(b.at);
          free(tags.at);
          return dfk_fail(k, DF_INVALID_ARGUMENT, "could not parse one of the summary inputs");
        }
        const tag t = tag_of(p, p + n);
        for (size_t at = 0; t.n && at < tags.n; at += sizeof t) {
          tag other;
          memcpy(&other, tags.at + at, sizeof other);
          if (other.n != t.n || memcmp(other.text, t.text, t.n)) continue;
          free(b.at);
          free(tags.at);
          return dfk_fail(k, DF_INVALID_ARGUMENT, "duplicate tag %.*s found in summary inputs", (int)t.n, t.text);
        }
        bytes_add(&tags, &t, sizeof t);
        p += n;
      }
      bytes_add(&b, s->bytes, (size_t)s->length);
    }
  }
  b.failed |= tags.failed;
  free(tags.at);
  return bytes_give(k, &b);
}
