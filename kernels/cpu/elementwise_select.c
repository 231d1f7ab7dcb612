/* elementwise_select.c: the elementwise ops of three operands, and AddN. Select moves elements by their width, so one
 * loop serves all dtypes of that width. */
#include "elementwise.h"
#include "../half.h"

/* x where c is true, else y: without a branch, of which the compiler makes vectors; with one, a random condition takes
 * 3.9 ns an element instead of 0.1. */
#define CHOSEN(bits, c, x, y) ((uint##bits##_t)((y) ^ (((x) ^ (y)) & -(uint##bits##_t)((c) != 0))))

/* fixed: bit 0 the condition, bit 1 the value where it is true, bit 2 the other. */
#define SELECT_LOOP(bits) \
  static void select_##bits##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    const uint8_t *c = in[0]; \
    const uint##bits##_t *a = in[1], *b = in[2]; \
    uint##bits##_t *o = out; \
    if (fixed == 0) { \
      EW_LANES for (int64_t i = 0; i < n; i++) o[i] = CHOSEN(bits, c[i], a[i], b[i]); \
    } else if (fixed == 2) { \
      uint##bits##_t x = *a; \
      EW_LANES for (int64_t i = 0; i < n; i++) o[i] = CHOSEN(bits, c[i], x, b[i]); \
    } else if (fixed == 4) { \
      uint##bits##_t y = *b; \
      EW_LANES for (int64_t i = 0; i < n; i++) o[i] = CHOSEN(bits, c[i], a[i], y); \
    } else if (fixed & 1) { \
      const uint##bits##_t *from = *c ? a : b; \
      if (!(fixed & (*c ? 2 : 4))) memmove(o, from, (size_t)n * sizeof *o); \
      else for (int64_t i = 0; i < n; i++) o[i] = *from; \
    } else { \
      uint##bits##_t x = *a, y = *b; \
      EW_LANES for (int64_t i = 0; i < n; i++) o[i] = CHOSEN(bits, c[i], x, y); \
    } \
  }
SELECT_LOOP(8)
SELECT_LOOP(16)
SELECT_LOOP(32)
SELECT_LOOP(64)
static const ew_op select_entry = { .grain = EW_LIGHT,
                                    .loop = { [DF_FLOAT32] = select_32_loop,
                                              [DF_FLOAT64] = select_64_loop,
                                              [DF_INT32] = select_32_loop,
                                              [DF_INT64] = select_64_loop,
                                              [DF_FLOAT16] = select_16_loop,
                                              [DF_BFLOAT16] = select_16_loop,
                                              [DF_INT8] = select_8_loop,
                                              [DF_UINT8] = select_8_loop,
                                              [DF_BOOL] = select_8_loop,
                                              [DF_INT16] = select_16_loop,
                                              [DF_UINT16] = select_16_loop,
                                              [DF_UINT32] = select_32_loop,
                                              [DF_UINT64] = select_64_loop,
                                              [DF_COMPLEX64] = select_64_loop,
                                              [DF_QINT8] = select_8_loop,
                                              [DF_QUINT8] = select_8_loop,
                                              [DF_QINT16] = select_16_loop,
                                              [DF_QUINT16] = select_16_loop,
                                              [DF_QINT32] = select_32_loop } };

/* Not one of the widths above. */
static bool boxed(const df_tensor *t) { return !dfk_plain(t->dtype) || t->dtype == DF_COMPLEX128; }

int32_t cpu_select_v2(df_kernel *k) {
  if (boxed(k->in[1])) return ref_select_v2(k);
  if (k->in[0]->size == 1 && k->in[0]->rank <= k->in[1]->rank && dfk_same_dims(k->in[1], k->in[2]))
    return dfk_out_forward(k, 0, *(const bool *)k->in[0]->data ? 1 : 2, k->in[1]->rank, NULL);
  return cpu_ew_run(k, &select_entry, 0, NULL);
}

int32_t cpu_select(df_kernel *k) {
  const df_tensor *c = k->in[0], *a = k->in[1], *b = k->in[2];
  char text[3][160];
  if (boxed(a)) return ref_select(k);
  bool rows = c->rank == 1 && a->rank > 1 && c->dims[0] == a->dims[0];
  if (!dfk_same_dims(a, b) || !(c->rank == 0 || rows || dfk_same_dims(c, a)))
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "condition %s does not choose between %s and %s: these must have one shape, and the "
                    "condition that shape, one element, or one for each row",
                    dfk_shape_text(c, text[0], sizeof text[0]), dfk_shape_text(a, text[1], sizeof text[1]),
                    dfk_shape_text(b, text[2], sizeof text[2]));
  if (c->rank == 0) return dfk_out_forward(k, 0, *(const bool *)c->data ? 1 : 2, a->rank, NULL);
  if (!rows) return cpu_ew_run(k, &select_entry, 0, NULL);
  int64_t dims[DF_MAX_RANK] = { c->dims[0], 1, 1, 1, 1, 1, 1, 1 };
  ew_view views[3] = { { a->rank, dims }, { a->rank, a->dims }, { b->rank, b->dims } };
  return cpu_ew_run(k, &select_entry, 0, views);
}

#define CLIP_LOOP(s, T) \
  static void clip_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    const T *x = in[0], *low = in[1], *high = in[2]; \
    T *o = out; \
    if (fixed == 6) { \
      T l = *low, h = *high; \
      EW_LANES for (int64_t i = 0; i < n; i++) { T v = x[i] > h ? h : x[i]; o[i] = v < l ? l : v; } \
      return; \
    } \
    int64_t a = !(fixed & 1), b = !(fixed & 2), c = !(fixed & 4); \
    EW_LANES for (int64_t i = 0; i < n; i++) { \
      T l = low[i * b], h = high[i * c], v = x[i * a] > h ? h : x[i * a]; \
      o[i] = v < l ? l : v; \
    } \
  }
CLIP_LOOP(f32, float)
CLIP_LOOP(f64, double)
CLIP_LOOP(i8, int8_t)
CLIP_LOOP(u8, uint8_t)
CLIP_LOOP(i32, int32_t)
CLIP_LOOP(i64, int64_t)
int32_t cpu_clip_by_value(df_kernel *k) {
  static const ew_op entry = { .grain = EW_LIGHT, .loop = { [DF_FLOAT32] = clip_f32_loop, [DF_FLOAT64] = clip_f64_loop,
    [DF_INT8] = clip_i8_loop, [DF_UINT8] = clip_u8_loop, [DF_INT32] = clip_i32_loop, [DF_INT64] = clip_i64_loop } };
  if (dfk_is_rare(k->in[0]->dtype)) return ref_clip_by_value(k);
  return cpu_ew_run(k, &entry, 0, NULL);
}

/* ---- AddN: in the order of the inputs, a block at a time, so that each input is read once and the sum stays near - */
enum { BLOCK = 2048 };
typedef struct sum_task { df_kernel *k; void *out; uint8_t dtype; } sum_task;

#define SUM_RANGE(s, T, U) \
  static void sum_##s(const sum_task *t, int64_t begin, int64_t n) { \
    T *o = (T *)t->out + begin; \
    U sum[BLOCK]; \
    const T *x = (const T *)t->k->in[0]->data + begin; \
    for (int64_t i = 0; i < n; i++) sum[i] = (U)x[i]; \
    for (int32_t j = 1; j < t->k->nin; j++) { \
      x = (const T *)t->k->in[j]->data + begin; \
      for (int64_t i = 0; i < n; i++) sum[i] += (U)x[i]; \
    } \
    for (int64_t i = 0; i < n; i++) o[i] = (T)sum[i]; \
  }
SUM_RANGE(f32, float, float)
SUM_RANGE(f64, double, double)
SUM_RANGE(i8, int8_t, uint8_t)
SUM_RANGE(u8, uint8_t, uint8_t)
SUM_RANGE(i32, int32_t, uint32_t)
SUM_RANGE(i64, int64_t, uint64_t)
static void sum_half(const sum_task *t, int64_t begin, int64_t n) {
  float sum[BLOCK], one[BLOCK];
  dfk_half_to_floats(t->dtype, sum, (const uint16_t *)t->k->in[0]->data + begin, n);
  for (int32_t j = 1; j < t->k->nin; j++) {
    dfk_half_to_floats(t->dtype, one, (const uint16_t *)t->k->in[j]->data + begin, n);
    for (int64_t i = 0; i < n; i++) sum[i] += one[i];
  }
  dfk_half_from_floats(t->dtype, (uint16_t *)t->out + begin, sum, n);
}
static void sum_range(void *arg, int64_t begin, int64_t end) {
  const sum_task *t = arg;
  for (; begin < end; begin += BLOCK) {
    int64_t n = end - begin < BLOCK ? end - begin : BLOCK;
    switch (t->dtype) {
      case DF_FLOAT32: sum_f32(t, begin, n); break;
      case DF_FLOAT64: sum_f64(t, begin, n); break;
      case DF_INT8:    sum_i8(t, begin, n); break;
      case DF_UINT8:   sum_u8(t, begin, n); break;
      case DF_INT32:   sum_i32(t, begin, n); break;
      case DF_INT64:   sum_i64(t, begin, n); break;
      default:         sum_half(t, begin, n); break;
    }
  }
}

int32_t cpu_add_n(df_kernel *k) {
  const df_tensor *first = k->in[0];
  char text[2][160];
  for (int32_t i = 0; i < k->nin; i++)
    if (!dfk_same_dims(first, k->in[i]))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s but input 0 is %s: they must have one shape", i,
                      dfk_shape_text(k->in[i], text[0], sizeof text[0]),
                      dfk_shape_text(first, text[1], sizeof text[1]));
  if (k->nin == 1) return dfk_out_forward(k, 0, 0, first->rank, NULL);
  if (dfk_is_rare(first->dtype)) return ref_add_n(k);
  df_tensor *out = dfk_out_reuse(k, 0, DFK_ANY_INPUT, first->dtype, first->rank, first->dims);
  if (!out) return k->error->code;
  sum_task t = { k, out->data, first->dtype };
  dfk_parallel(k, first->size, EW_LIGHT, sum_range, &t);
  return DF_OK;
}
