/* segment.cu: reductions of rows by segment. Which rows a segment has, in their order, was found out on the host, where
 * the ids lie: one thread for each element of the result goes through them, so a sum is that of the CPU and nothing is
 * added to twice at a time. */
#include "complex.cuh"

template <class A> DFC_INLINE A combined(int what, A a, A x) {
  switch (what) {
    case DFC_SEGMENT_PROD: return wrap_mul(a, x);
    case DFC_SEGMENT_MAX: return x > a || x != x ? x : a;
    case DFC_SEGMENT_MIN: return x < a || x != x ? x : a;
    default: return wrap_add(a, x);
  }
}
DFC_INLINE c128 combined(int what, c128 a, c128 x) { return what == DFC_SEGMENT_PROD ? a * x : a + x; }
/* What an empty segment is where that is not 0 or 1: the end of the finite numbers. */
template <class T> DFC_INLINE T finite_end(bool high) { return high ? highest_of<T>() : lowest_of<T>(); }
template <> DFC_INLINE float finite_end<float>(bool high) { return high ? 0x1.fffffep127f : -0x1.fffffep127f; }
template <> DFC_INLINE double finite_end<double>(bool high) {
  return high ? 0x1.fffffffffffffp1023 : -0x1.fffffffffffffp1023;
}
template <> DFC_INLINE f16 finite_end<f16>(bool high) { return f16(high ? 65504.f : -65504.f); }
template <> DFC_INLINE b16 finite_end<b16>(bool high) { return b16(high ? 0x1.fep127f : -0x1.fep127f); }

template <> DFC_INLINE c64 finite_end<c64>(bool) { return c64(c128(0)); }                   /* asked for by none */
template <> DFC_INLINE c128 finite_end<c128>(bool) { return c128(0); }

DFC_INLINE c128 divided(int what, c128 a, int64_t n) {
  const double by = what == DFC_SEGMENT_MEAN ? (double)n : 1;
  return c128(a.re / by, a.im / by);
}
template <class A> DFC_INLINE A divided(int what, A a, int64_t n) {
  if (what == DFC_SEGMENT_MEAN) return a / (A)n;
  return what == DFC_SEGMENT_SQRT_N ? (A)((double)a / sqrt((double)n)) : a;
}

template <class T> DFC_INLINE void segments(const dfc_segments &p) {
  typedef typename acc_of<T>::type A;
  const int what = p.what & (DFC_SEGMENT_SPARSE - 1);
  const bool ends = what >= DFC_SEGMENT_MAX && !(p.what & DFC_SEGMENT_SPARSE);
  DFC_EACH(e, p.segments * p.row) {
    const int64_t begin = p.begin[e / p.row], end = p.begin[e / p.row + 1], column = e % p.row;
    const T *x = (const T *)p.x;
    A a = ends ? (A)finite_end<T>(what == DFC_SEGMENT_MIN) : (A)(what == DFC_SEGMENT_PROD);
    for (int64_t i = begin; i < end; i++) {
      const A v = x ? (A)x[p.order[i] * p.row + column] : (A)1;
      a = i == begin && !ends ? v : combined(what, a, v);
    }
    ((T *)p.z)[e] = (T)(end > begin ? divided(what, a, end - begin) : a);
  }
}
#define SEGMENTS(s, T) DFC_KERNEL(k_segments_##s, dfc_segments) { segments<T>(p); }
SEGMENTS(f32, float)
SEGMENTS(f64, double)
SEGMENTS(f16, f16)
SEGMENTS(b16, b16)
SEGMENTS(i32, int32_t)
SEGMENTS(i64, int64_t)
SEGMENTS(i8, int8_t)
SEGMENTS(u8, uint8_t)
SEGMENTS(c64, c64)
SEGMENTS(c128, c128)
