/* random.cu: one thread for each element, which takes its words of the block that follows from its place, as
 * ../random.h says: the numbers are the CPU's. */
#include "kernel.cuh"
#include "../philox.h"

DFK_ELEMENT dfk_stream stream_of(const dfc_drawing &p) {
  dfk_stream s;
  s.key[0] = p.key[0]; s.key[1] = p.key[1];
  s.tag[0] = p.tag[0]; s.tag[1] = p.tag[1];
  return s;
}
template <class T> DFC_INLINE T unit(const uint32_t *w, int64_t j);
template <> DFC_INLINE float unit<float>(const uint32_t *w, int64_t j) { return dfk_unit_float(w[j]); }
template <> DFC_INLINE double unit<double>(const uint32_t *w, int64_t j) {
  return dfk_unit_double(w[2 * j], w[2 * j + 1]);
}
template <> DFC_INLINE f16 unit<f16>(const uint32_t *w, int64_t j) { return f16((float)(w[j] >> 21) * 0.00048828125f); }
template <> DFC_INLINE b16 unit<b16>(const uint32_t *w, int64_t j) { return b16((float)(w[j] >> 24) * 0.00390625f); }
template <class T> struct per_block { enum { n = 4 }; };
template <> struct per_block<double> { enum { n = 2 }; };

#define UNIFORM(s, T) \
  DFC_KERNEL(k_uniform_##s, dfc_drawing) { \
    const dfk_stream stream = stream_of(p); \
    DFC_EACH(i, p.n) { \
      uint32_t w[4]; \
      dfk_philox(&stream, (uint64_t)(i / per_block<T>::n), 0, w); \
      ((T *)p.z)[i] = unit<T>(w, i % per_block<T>::n); \
    } \
  }
UNIFORM(f32, float)
UNIFORM(f64, double)
UNIFORM(f16, f16)
UNIFORM(b16, b16)

/* The normal number j of a block. */
template <class T> DFC_INLINE double normal(const dfk_stream &s, uint64_t block, uint32_t attempt, int64_t j) {
  uint32_t w[4];
  float x, y;
  dfk_philox(&s, block, attempt, w);
  dfk_normal_pair(w[j & 2], w[(j & 2) + 1], &x, &y);
  return j & 1 ? y : x;
}
template <> DFC_INLINE double normal<double>(const dfk_stream &s, uint64_t block, uint32_t attempt, int64_t j) {
  uint32_t w[4];
  double x, y;
  dfk_philox(&s, block, attempt, w);
  dfk_normal_pair_double(w, &x, &y);
  return j ? y : x;
}
#define NORMAL(s, T) \
  DFC_KERNEL(k_normal_##s, dfc_drawing) { \
    const dfk_stream stream = stream_of(p); \
    DFC_EACH(i, p.n) ((T *)p.z)[i] = (T)normal<T>(stream, (uint64_t)(i / per_block<T>::n), 0, i % per_block<T>::n); \
  } \
  DFC_KERNEL(k_truncated_##s, dfc_drawing) { \
    const dfk_stream stream = stream_of(p); \
    DFC_EACH(i, p.n) { \
      double v = normal<T>(stream, (uint64_t)(i / per_block<T>::n), 0, i % per_block<T>::n); \
      for (uint32_t attempt = 1; fabs(v) >= 2; attempt++) \
        for (int64_t j = 0; j < per_block<T>::n && fabs(v) >= 2; j++) v = normal<T>(stream, (uint64_t)i, attempt, j); \
      ((T *)p.z)[i] = (T)v; \
    } \
  }
NORMAL(f32, float)
NORMAL(f64, double)
NORMAL(f16, f16)
NORMAL(b16, b16)

#define WHOLE(s, T) \
  DFC_KERNEL(k_whole_##s, dfc_drawing) { \
    const dfk_stream stream = stream_of(p); \
    DFC_EACH(i, p.n) { \
      uint32_t w[4]; \
      dfk_philox(&stream, (uint64_t)(i / 2), 0, w); \
      ((T *)p.z)[i] = (T)((uint64_t)p.low + dfk_below(w[2 * (i % 2)], w[2 * (i % 2) + 1], p.range)); \
    } \
  }
WHOLE(i32, int32_t)
WHOLE(i64, int64_t)
