/* elementwise.c: how an elementwise op goes over its inputs on the CPU.
 *
 * Dims that broadcast alike are merged first, so that most calls become one flat run (equal shapes, or a scalar
 * against a tensor), rows against a row or a column follow, and whatever is left is walked like an odometer. The
 * innermost run is always contiguous: each input advances by one element or stays. Halves pass in blocks
 * through float32 buffers on the stack. Ranges for threads are cut in the flat output, so nothing depends on the cut.
 */
#include "elementwise.h"
#include "../half.h"

enum { BLOCK = 512, SHORT = 24 };

typedef struct task {
  ew_loop     loop;
  double      param;
  char       *out;
  const char *in[3];
  int32_t     nin;
  uint32_t    fixed;               /* of the innermost run */
  uint8_t     out_bytes, in_bytes[3], out_half, in_half[3];  /* *_half: the dtype, or 0 */
  bool        half;                /* any of them */
  bool        dense[3];            /* the input has all the output's elements, in its order */
  int32_t     rank;                /* merged dims; at most 1: one flat run */
  int64_t     dims[DF_MAX_RANK], stride[3][DF_MAX_RANK];     /* in elements, 0 where broadcast */
} task;

static const uint8_t dtype_bytes[DF_UINT64 + 1] = {
  [DF_FLOAT32] = 4, [DF_FLOAT64] = 8, [DF_INT32] = 4,    [DF_UINT8] = 1,     [DF_INT8] = 1,
  [DF_INT64] = 8,   [DF_BOOL] = 1,    [DF_BFLOAT16] = 2, [DF_FLOAT16] = 2,   [DF_INT16] = 2,
  [DF_UINT16] = 2,  [DF_UINT32] = 4,  [DF_UINT64] = 8,   [DF_COMPLEX64] = 8, [DF_QINT8] = 1,
  [DF_QUINT8] = 1,  [DF_QINT16] = 2,  [DF_QUINT16] = 2,  [DF_QINT32] = 4
};
static uint8_t half_or_0(uint8_t dtype) { return dfk_is_half(dtype) ? dtype : 0; }

static void run_halves(const task *t, char *out, const char *const *in, int64_t n) {
  float buffer[3][BLOCK], result[BLOCK];
  const void *at[3];
  for (int64_t done = 0; done < n; done += BLOCK) {
    int64_t m = n - done < BLOCK ? n - done : BLOCK;
    for (int32_t i = 0; i < t->nin; i++) {
      bool fixed = t->fixed >> i & 1;
      at[i] = fixed ? in[i] : in[i] + done * t->in_bytes[i];
      if (!t->in_half[i]) continue;
      dfk_half_to_floats(t->in_half[i], buffer[i], at[i], fixed ? 1 : m);
      at[i] = buffer[i];
    }
    char *to = out + done * t->out_bytes;
    t->loop(t->out_half ? (void *)result : to, at, t->fixed, m, t->param);
    if (t->out_half) dfk_half_from_floats(t->out_half, (uint16_t *)to, result, m);
  }
}

static inline void run_span(const task *t, char *out, const char *const *in, int64_t n) {
  if (t->half) run_halves(t, out, in, n);
  else t->loop(out, (const void *const *)in, t->fixed, n, t->param);
}

static void flat_range(void *arg, int64_t begin, int64_t end) {
  const task *t = arg;
  const char *in[3] = { 0 };
  for (int32_t i = 0; i < t->nin; i++) in[i] = t->in[i] + (t->fixed >> i & 1 ? 0 : begin * t->in_bytes[i]);
  run_span(t, t->out + begin * t->out_bytes, in, end - begin);
}

static void odometer_range(void *arg, int64_t begin, int64_t end) {
  const task *t = arg;
  int32_t last = t->rank - 1;
  int64_t at[DF_MAX_RANK], rest = begin;
  const char *in[3] = { 0 };
  for (int32_t i = 0; i < t->nin; i++) in[i] = t->in[i];
  for (int32_t d = last; d >= 0; d--) {
    at[d] = rest % t->dims[d];
    rest /= t->dims[d];
    for (int32_t i = 0; i < t->nin; i++) in[i] += at[d] * t->stride[i][d] * t->in_bytes[i];
  }
  while (begin < end) {
    int64_t n = t->dims[last] - at[last];
    if (n > end - begin) n = end - begin;
    run_span(t, t->out + begin * t->out_bytes, in, n);
    begin += n;
    for (int32_t i = 0; i < t->nin; i++) in[i] -= at[last] * t->stride[i][last] * t->in_bytes[i];
    at[last] = 0;
    for (int32_t d = last - 1; d >= 0; d--) {
      int64_t back = ++at[d] == t->dims[d] ? t->dims[d] - 1 : -1;
      for (int32_t i = 0; i < t->nin; i++) in[i] -= back * t->stride[i][d] * t->in_bytes[i];
      if (back < 0) break;
      at[d] = 0;
    }
  }
}

/* m elements of input i as the output meets them from `begin` on, one after another into `to`. */
#define GATHER(bits) \
  static void gather##bits(const task *t, int32_t i, int64_t begin, int64_t m, void *to) { \
    const uint##bits##_t *from = (const void *)t->in[i]; \
    uint##bits##_t *o = to; \
    int32_t last = t->rank - 1; \
    int64_t at[DF_MAX_RANK] = { 0 }, inner = t->dims[last], step = t->stride[i][last], offset = 0; \
    for (int32_t d = last; d >= 0; d--) { \
      at[d] = begin % t->dims[d]; \
      begin /= t->dims[d]; \
      if (d < last) offset += at[d] * t->stride[i][d]; \
    } \
    for (int64_t n = inner - at[last], x = at[last] * step; m > 0; n = inner, x = 0) { \
      if (n > m) n = m; \
      for (int64_t j = 0; j < n; j++) *o++ = from[offset + x + j * step]; \
      m -= n; \
      for (int32_t d = last - 1; d >= 0; d--) { \
        offset += t->stride[i][d]; \
        if (++at[d] < t->dims[d]) break; \
        offset -= t->dims[d] * t->stride[i][d]; \
        at[d] = 0; \
      } \
    } \
  }
GATHER(8)
GATHER(16)
GATHER(32)
GATHER(64)

/* Where the innermost run is short, inputs are laid out in blocks first: a call for each run of 4 took three times as
   long. */
static void gathered_range(void *arg, int64_t begin, int64_t end) {
  task flat = *(const task *)arg;
  const task *t = arg;
  uint64_t buffer[3][BLOCK];
  flat.fixed = 0;
  for (; begin < end; begin += BLOCK) {
    int64_t m = end - begin < BLOCK ? end - begin : BLOCK;
    const char *in[3] = { 0 };
    for (int32_t i = 0; i < t->nin; i++) {
      in[i] = (const char *)buffer[i];
      if (t->dense[i]) in[i] = t->in[i] + begin * t->in_bytes[i];
      else if (t->in_bytes[i] == 1) gather8(t, i, begin, m, buffer[i]);
      else if (t->in_bytes[i] == 2) gather16(t, i, begin, m, buffer[i]);
      else if (t->in_bytes[i] == 4) gather32(t, i, begin, m, buffer[i]);
      else gather64(t, i, begin, m, buffer[i]);
    }
    run_span(&flat, t->out + begin * t->out_bytes, in, m);
  }
}

/* The output's dims; false: they do not broadcast. */
static bool broadcast(const task *t, const ew_view *v, int32_t *rank, int64_t *dims) {
  *rank = 0;
  for (int32_t i = 0; i < t->nin; i++) if (v[i].rank > *rank) *rank = v[i].rank;
  for (int32_t d = 0; d < *rank; d++) {
    int64_t n = 1;
    for (int32_t i = 0; i < t->nin; i++) {
      int32_t own = d - (*rank - v[i].rank);
      if (own < 0 || v[i].dims[own] == 1) continue;
      if (n != 1 && n != v[i].dims[own]) return false;
      n = v[i].dims[own];
    }
    dims[d] = n;
  }
  return true;
}

/* Merges the dims that all inputs cross in one stride; leaves t->rank, dims, stride, fixed. */
static void merge_dims(task *t, const ew_view *v, int32_t rank, const int64_t *dims) {
  int64_t next[3] = { 1, 1, 1 };           /* the stride of the dim to come, were it not broadcast */
  int64_t merged[DF_MAX_RANK], stride[3][DF_MAX_RANK];
  int32_t n = 0;                           /* merged so far, innermost first */
  for (int32_t d = rank - 1; d >= 0; d--) {
    int64_t s[3] = { 0 };
    for (int32_t i = 0; i < t->nin; i++) {
      int32_t own = d - (rank - v[i].rank);
      if (own < 0 || v[i].dims[own] == 1) continue;
      s[i] = next[i];
      next[i] *= v[i].dims[own];
    }
    if (dims[d] == 1) continue;
    bool join = n > 0;
    for (int32_t i = 0; join && i < t->nin; i++) join = s[i] == stride[i][n - 1] * merged[n - 1];
    if (join) {
      merged[n - 1] *= dims[d];
      continue;
    }
    for (int32_t i = 0; i < t->nin; i++) stride[i][n] = s[i];
    merged[n++] = dims[d];
  }
  t->rank = n;
  for (int32_t d = 0; d < n; d++) {
    t->dims[d] = merged[n - 1 - d];
    for (int32_t i = 0; i < t->nin; i++) t->stride[i][d] = stride[i][n - 1 - d];
  }
  for (int32_t i = 0; n && i < t->nin; i++) t->fixed |= (uint32_t)(stride[i][0] == 0) << i;
}

static int32_t run_large(df_kernel *k, const ew_op *op, double param, const ew_view *views) {
  task t = { .param = param, .nin = k->nin };
  uint8_t dtype = k->in[k->nin - 1]->dtype, out_dtype = k->out_dtype[0];
  t.loop = op->loop[dtype];
  if (!t.loop && dfk_is_half(dtype)) {
    t.loop = op->loop[DF_FLOAT32];
    t.half = true;
    t.out_half = half_or_0(out_dtype);
    for (int32_t i = 0; i < t.nin; i++) t.in_half[i] = half_or_0(k->in[i]->dtype);
  }
  if (!t.loop) return dfk_fail(k, DF_UNIMPLEMENTED, "no kernel for %s", df_dtype_name(dtype));

  bool same = !views;
  for (int32_t i = 1; same && i < t.nin; i++) same = dfk_same_dims(k->in[0], k->in[i]);
  int32_t rank = k->in[0]->rank;
  const int64_t *dims = k->in[0]->dims;
  int64_t broad[DF_MAX_RANK], size = k->in[0]->size;
  if (!same) {
    ew_view own[3];
    for (int32_t i = 0; !views && i < t.nin; i++) own[i] = (ew_view){ k->in[i]->rank, k->in[i]->dims };
    const ew_view *v = views ? views : own;
    if (!broadcast(&t, v, &rank, broad)) return dfk_no_broadcast(k);
    merge_dims(&t, v, rank, broad);
    dims = broad, size = 1;
    for (int32_t d = 0; d < rank; d++) size *= dims[d];
  }
  if (size == 1) t.fixed = 0;

  for (int32_t i = 0; i < t.nin; i++) {
    t.in_bytes[i] = dtype_bytes[k->in[i]->dtype];
    t.in[i] = k->in[i]->data;
    t.dense[i] = k->in[i]->size == size;
  }
  t.out_bytes = dtype_bytes[out_dtype];
  df_tensor *out = dfk_out_reuse(k, 0, DFK_ANY_INPUT, out_dtype, rank, dims);
  if (!out) return k->error->code;
  t.out = out->data;
  if (size == 0) return DF_OK;
  df_range_fn range = t.rank <= 1 ? flat_range : t.dims[t.rank - 1] < SHORT ? gathered_range : odometer_range;
  if (size <= op->grain) range(&t, 0, size);
  else dfk_parallel(k, size, op->grain, range, &t);
  return DF_OK;
}

/* Equal shapes, or a number against a tensor, of native dtypes and no great size: most calls, and short ones. */
int32_t cpu_ew_run(df_kernel *k, const ew_op *op, double param, const ew_view *views) {
  const df_tensor *like = k->in[0], *other = k->in[k->nin - 1];
  ew_loop loop = op->loop[other->dtype];
  uint32_t fixed = 0;
  if (__builtin_expect(k->asked != NULL, 0)) {
    *k->asked = (dfk_loop){ loop, param, op->grain };
    return DF_OK;
  }
  bool plain = loop && !views && k->nin <= 2;
  if (plain && k->nin == 2 && !dfk_same_dims(like, other)) {
    if (other->size == 1 && other->rank <= like->rank) fixed = 2;
    else if (like->size == 1 && like->rank <= other->rank) fixed = 1, like = other;
    else plain = false;
  }
  int64_t size = like->size;
  if (!plain || size > op->grain) return run_large(k, op, param, views);
  const void *in[2] = { k->in[0]->data, other->data };
  df_tensor *out = dfk_out_reuse(k, 0, DFK_ANY_INPUT, k->out_dtype[0], like->rank, like->dims);
  if (!out) return k->error->code;
  if (size) loop(out->data, in, size == 1 ? 0 : fixed, size, param);
  return DF_OK;
}
