/* make.cu: arrays made out of little, or out of another by a rule about places: one thread for each element. */
#include "complex.cuh"

/* ---- one_hot: [prefix, depth, suffix] ---------------------------------------------------------------------------- */
#define HOT(bits, T) \
  DFC_KERNEL(k_one_hot_##bits, dfc_hot) { \
    DFC_EACH(i, p.n) { \
      const int64_t at = i / (p.depth * p.suffix) * p.suffix + i % p.suffix; \
      ((T *)p.z)[i] = load<T>(int_at(p.indices, p.dtype, at) == i / p.suffix % p.depth ? p.on : p.off, 0); \
    } \
  }
HOT(8, uint8_t)
HOT(16, uint16_t)
HOT(32, uint32_t)
HOT(64, uint64_t)
HOT(128, wide16)

/* ---- ranges: ends: the last element is `stop` -------------------------------------------------------------------- */
#define RAMP(s, T) \
  DFC_KERNEL(k_ramp_##s, dfc_ramping) { \
    DFC_EACH(i, p.n) ((T *)p.z)[i] = (T)(p.ends && i > 0 && i == p.n - 1 ? p.stop : p.start + (double)i * p.step); \
  }
RAMP(f32, float)
RAMP(f64, double)

/* ---- bands of matrices, sequences backwards ---------------------------------------------------------------------- */
#define PLACES(bits, T) \
  DFC_KERNEL(k_band_##bits, dfc_banding) { \
    DFC_EACH(i, p.size) { \
      const int64_t column = i % p.n, row = i / p.n % p.m; \
      const bool kept = (p.lower < 0 || row - column <= p.lower) && (p.upper < 0 || column - row <= p.upper); \
      ((T *)p.z)[i] = kept ? ((const T *)p.x)[i] : (T)0; \
    } \
  } \
  DFC_KERNEL(k_reverse_sequence_##bits, dfc_reversing) { \
    DFC_EACH(i, p.n) { \
      const int64_t at = i / p.seq_step % p.seq, length = p.lengths[i / p.batch_step % p.batch]; \
      ((T *)p.z)[i] = ((const T *)p.x)[at < length ? i + (length - 1 - 2 * at) * p.seq_step : i]; \
    } \
  } \
  DFC_KERNEL(k_mirror_##bits, dfc_mirroring) { \
    DFC_EACH(i, p.n) { \
      int64_t from = 0, step = 1, left = i; \
      for (int d = (int)p.rank - 1; d >= 0; d--) { \
        int64_t at = left % p.padded[d] - p.before[d]; \
        left /= p.padded[d]; \
        if (at < 0) at = -at - p.edge; \
        else if (at >= p.inside[d]) at = 2 * p.inside[d] - 2 + p.edge - at; \
        from += at * step; \
        step *= p.inside[d]; \
      } \
      ((T *)p.z)[i] = ((const T *)p.x)[from]; \
    } \
  }
PLACES(8, uint8_t)
PLACES(16, uint16_t)
PLACES(32, uint32_t)
PLACES(64, uint64_t)
PLACES(128, wide16)

/* Element `at` along one dim was read from as many as three places: itself, and its images in front and behind. Place
 * number `which` in the padded dim; -1: there is none. */
DFC_INLINE int64_t image_of(const dfc_mirroring &p, int d, int64_t at, int which) {
  const int64_t n = p.inside[d], before = p.before[d];
  if (which == 1) return before + at;
  const int64_t place = which == 0 ? before - p.edge - at : before + 2 * n - 2 + p.edge - at;
  if (which == 0) return place >= 0 && place < before ? place : -1;
  return place >= before + n && place < p.padded[d] ? place : -1;
}
/* The sum of dy over all images of an element; in the order of their places. */
template <class T> DFC_INLINE void mirror_back(const dfc_mirroring &p) {
  typedef typename calc_of<T>::type W;
  int images = 1;
  for (int d = 0; d < p.rank; d++) images *= 3;
  DFC_EACH(i, p.n) {
    W sum = 0;
    for (int which = 0; which < images; which++) {
      int64_t from = 0, step = 1, left = i;
      bool there = true;
      for (int d = (int)p.rank - 1, w = which; d >= 0 && there; d--, w /= 3) {
        const int64_t place = image_of(p, d, left % p.inside[d], w % 3);
        left /= p.inside[d];
        there = place >= 0;
        from += place * step;
        step *= p.padded[d];
      }
      if (there) sum = wrap_add(sum, (W)((const T *)p.x)[from]);
    }
    ((T *)p.z)[i] = (T)sum;
  }
}
/* Cross products of the vectors in the last axis, of three each. */
template <class T> DFC_INLINE void cross(const dfc_updating &p) {
  typedef typename acc_of<T>::type A;
  const T *a = (const T *)p.a, *b = (const T *)p.b;
  DFC_EACH(i, p.n) {
    const int64_t first = i - i % 3, j = first + (i % 3 + 1) % 3, k = first + (i % 3 + 2) % 3;
    ((T *)p.to)[i] = (T)wrap_sub(wrap_mul((A)a[j], (A)b[k]), wrap_mul((A)a[k], (A)b[j]));
  }
}
DFC_KERNEL(k_mirror_back_c64, dfc_mirroring) { mirror_back<c64>(p); }
DFC_KERNEL(k_mirror_back_c128, dfc_mirroring) { mirror_back<c128>(p); }
#define NUMBERS(s, T) \
  DFC_KERNEL(k_mirror_back_##s, dfc_mirroring) { mirror_back<T>(p); } \
  DFC_KERNEL(k_cross_##s, dfc_updating) { cross<T>(p); }
NUMBERS(f32, float)
NUMBERS(f64, double)
NUMBERS(f16, f16)
NUMBERS(b16, b16)
NUMBERS(i32, int32_t)
NUMBERS(i64, int64_t)
NUMBERS(i8, int8_t)
NUMBERS(u8, uint8_t)
