/* random.cu: one thread for each element, which takes its words of the block that follows from its place, as
 * ../random.h says: the numbers are the CPU's. */
#include "dealt.cuh"

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
  DFC_KERNEL(k_persistent_##s, dfc_drawing) { \
    const dfk_stream stream = stream_of(p); \
    DFC_EACH(i, p.n) { \
      uint32_t w[4]; \
      dfk_philox(&stream, (uint64_t)(i / 2), 0, w); \
      ((T *)p.z)[i] = (T)((uint64_t)p.low + dfk_below(w[2 * (i % 2)], w[2 * (i % 2) + 1], p.range)); \
    } \
  }
WHOLE(i32, int32_t)
WHOLE(i64, int64_t)

/* ---- TensorFlow's stateless numbers: words one after the other, four to a block ---------------------------------- */
/* How many words a number takes, and the number that begins at word i. */
template <class T> struct words { enum { each = 1 }; };
template <> struct words<double> { enum { each = 2 }; };
template <class T> DFC_INLINE T whole(const dealt &s, uint64_t i);
template <> DFC_INLINE float whole<float>(const dealt &s, uint64_t i) { return one_to_two(word(s, i)) - 1.0f; }
template <> DFC_INLINE double whole<double>(const dealt &s, uint64_t i) {
  return one_to_two(word(s, i), word(s, i + 1)) - 1.0;
}
template <> DFC_INLINE f16 whole<f16>(const dealt &s, uint64_t i) { return f16((float)(word(s, i) & 0x3ffu) / 1024); }
template <> DFC_INLINE b16 whole<b16>(const dealt &s, uint64_t i) { return b16((float)(word(s, i) & 0x7fu) / 128); }
template <class T> DFC_INLINE typename wide_of<T>::type stateless_normal(const dealt &s, uint64_t i, bool second) {
  typedef typename wide_of<T>::type W;
  return of_pair(whole<W>(s, i), whole<W>(s, i + words<W>::each), second);
}
/* A group of numbers begins 256 blocks for each of its own after the one before: number e of it is the one that comes
 * after e that lie within two deviations. */
template <class T> DFC_INLINE T stateless_truncated(const dealt &s, int64_t i) {
  const int64_t group = 4 / words<T>::each;
  uint64_t at = (uint64_t)(i / group) * (uint64_t)group * 256;
  int64_t before = i % group;
  for (;; at += 2 * words<T>::each)
    for (int second = 0; second < 2; second++) {
      const typename wide_of<T>::type v = stateless_normal<T>(s, at, second != 0);
      if (fabs(v) < 2 && before-- == 0) return (T)v;
    }
}
#define STATELESS(s, T) \
  DFC_KERNEL(k_stateless_uniform_##s, dfc_drawing) { \
    const dealt stream = dealt_of(p); \
    DFC_EACH(i, p.n) ((T *)p.z)[i] = whole<T>(stream, (uint64_t)i * words<T>::each); \
  } \
  DFC_KERNEL(k_stateless_normal_##s, dfc_drawing) { \
    const dealt stream = dealt_of(p); \
    DFC_EACH(i, p.n) \
      ((T *)p.z)[i] = (T)stateless_normal<T>(stream, (uint64_t)(i / 2) * 2 * words<T>::each, (i & 1) != 0); \
  } \
  DFC_KERNEL(k_stateless_truncated_##s, dfc_drawing) { \
    const dealt stream = dealt_of(p); \
    DFC_EACH(i, p.n) ((T *)p.z)[i] = stateless_truncated<T>(stream, i); \
  }
STATELESS(f32, float)
STATELESS(f64, double)
STATELESS(f16, f16)
STATELESS(b16, b16)

/* Integers of random bits, or p.low and what these leave of p.range. */
#define WORDS(bits, T, BITS) \
  DFC_KERNEL(k_bits_##bits, dfc_drawing) { \
    const dealt stream = dealt_of(p); \
    DFC_EACH(i, p.n) { \
      const uint64_t at = (uint64_t)i, b = BITS; \
      ((T *)p.z)[i] = (T)(p.range ? (uint64_t)p.low + b % p.range : b); \
    } \
  }
WORDS(32, uint32_t, word(stream, at))
WORDS(64, uint64_t, word(stream, 2 * at) | (uint64_t)word(stream, 2 * at + 1) << 32)
