/* resize.cu: pictures in other sizes, and what comes back of them: one thread for each element that is made, which adds
 * up what its taps look at, in double and always in the same order. */
#include "kernel.cuh"

/* Of element e: its channel, and where its row and its column begin in the lists of taps. */
struct spot { int64_t c, x, y, picture; };
DFC_INLINE spot spot_of(const dfc_resizing &p, int64_t e) {
  return { e % p.depth, e / p.depth % p.columns_to, e / p.depth / p.columns_to % p.rows_to,
           e / p.depth / p.columns_to / p.rows_to };
}

template <class X, class Z> DFC_INLINE void weigh(const dfc_resizing &p) {
  DFC_EACH(e, p.n) {
    const spot s = spot_of(p, e);
    double sum = 0;
    for (int64_t i = p.row_first[s.y]; i < p.row_first[s.y + 1]; i++) {
      const X *row = (const X *)p.x + (s.picture * p.rows_from + p.row_at[i]) * p.columns_from * p.depth + s.c;
      double line = 0;
      for (int64_t j = p.column_first[s.x]; j < p.column_first[s.x + 1]; j++)
        line += (double)p.column_weight[j] * (double)row[p.column_at[j] * p.depth];
      sum += (double)p.row_weight[i] * line;
    }
    ((Z *)p.z)[e] = (Z)sum;
  }
}
/* To float32 (`weigh`), from it (`weigh_back`), and to the dtype that there was (`weigh_same`). */
#define SAME(s, T) DFC_KERNEL(k_weigh_same_##s, dfc_resizing) { weigh<T, T>(p); }
#define FROM(s, T) SAME(s, T) DFC_KERNEL(k_weigh_##s, dfc_resizing) { weigh<T, float>(p); }
#define BOTH(s, T) FROM(s, T) DFC_KERNEL(k_weigh_back_##s, dfc_resizing) { weigh<float, T>(p); }
BOTH(f32, float)
BOTH(f64, double)
BOTH(f16, f16)
BOTH(b16, b16)
FROM(i32, int32_t)
FROM(i64, int64_t)
FROM(i8, int8_t)
FROM(u8, uint8_t)

/* The one tap of each. */
template <class T> DFC_INLINE void nearest(const dfc_resizing &p) {
  DFC_EACH(e, p.n) {
    const spot s = spot_of(p, e);
    const int64_t row = s.picture * p.rows_from + p.row_at[s.y];
    ((T *)p.z)[e] = ((const T *)p.x)[(row * p.columns_from + p.column_at[s.x]) * p.depth + s.c];
  }
}
DFC_KERNEL(k_nearest_8, dfc_resizing) { nearest<uint8_t>(p); }
DFC_KERNEL(k_nearest_16, dfc_resizing) { nearest<uint16_t>(p); }
DFC_KERNEL(k_nearest_32, dfc_resizing) { nearest<uint32_t>(p); }
DFC_KERNEL(k_nearest_64, dfc_resizing) { nearest<uint64_t>(p); }
