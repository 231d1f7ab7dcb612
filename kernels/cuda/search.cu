/* search.cu: the greatest of each row, and places among sorted numbers.
 *
 * TopK sorts the indices of every row, all rows at once: runs of 1, 2, 4 … indices become runs of twice as many, one
 * thread for each index, which looks up in the sibling run how many come before it. Stable, so of equal elements the
 * first comes first; NaN is the greatest of all. The others: one thread for each value, or each row.
 */
#include "kernel.cuh"

template <class A> DFC_INLINE bool above(A a, A b) { return a != a ? b == b : a > b; }

template <class T> DFC_INLINE void merge(const dfc_merging &p) {
  typedef typename wide_of<T>::type W;
  DFC_EACH(e, p.rows * p.n) {
    const int64_t row = e / p.n * p.n, place = e - row, run = place / p.width, sibling = (run ^ 1) * p.width;
    const int32_t mine = p.from ? p.from[e] : (int32_t)place;
    const T *x = (const T *)p.x + row;
    const W v = (W)x[mine];
    int64_t low = sibling < p.n ? sibling : p.n, high = sibling + p.width < p.n ? sibling + p.width : p.n;
    const int64_t first = low;
    while (low < high) {                               /* the first of the sibling that comes after mine */
      const int64_t mid = (low + high) / 2;
      const W other = (W)x[p.from ? p.from[row + mid] : (int32_t)mid];
      if (run & 1 ? !above(v, other) : above(other, v)) low = mid + 1;
      else high = mid;
    }
    p.to[row + (run & ~(int64_t)1) * p.width + (place - run * p.width) + (low - first)] = mine;
  }
}
template <class T> DFC_INLINE void top(const dfc_topping &p) {
  DFC_EACH(e, p.rows * p.count) {
    const int64_t row = e / p.count * p.n;
    const int32_t at = p.order ? p.order[row + e % p.count] : (int32_t)(e % p.count);
    ((T *)p.values)[e] = ((const T *)p.x)[row + at];
    p.indices[e] = at;
  }
}
/* How many of the row's n sorted numbers are before each value, or not after it. */
template <class T, class Z> DFC_INLINE void bound(const dfc_finding &p) {
  typedef typename wide_of<T>::type W;
  DFC_EACH(e, p.rows * p.m) {
    const T *sorted = (const T *)p.x + e / p.m * p.n;
    const W v = (W)((const T *)p.values)[e];
    int64_t low = 0, high = p.n;
    while (low < high) {
      const int64_t mid = (low + high) / 2;
      if (p.what == DFC_UPPER ? !(v < (W)sorted[mid]) : (W)sorted[mid] < v) low = mid + 1;
      else high = mid;
    }
    ((Z *)p.z)[e] = (Z)low;
  }
}
#define SEARCH(s, T) \
  DFC_KERNEL(k_merge_##s, dfc_merging) { merge<T>(p); } \
  DFC_KERNEL(k_top_##s, dfc_topping) { top<T>(p); } \
  DFC_KERNEL(k_bound_##s, dfc_finding) { \
    if (p.dtype == DFC_OF_INT64) bound<T, int64_t>(p); \
    else bound<T, int32_t>(p); \
  }
SEARCH(f32, float)
SEARCH(f64, double)
SEARCH(f16, f16)
SEARCH(b16, b16)
SEARCH(i32, int32_t)
SEARCH(i64, int64_t)
SEARCH(i8, int8_t)
SEARCH(u8, uint8_t)

/* Are fewer than m of the row's n predictions above that of the target? */
DFC_KERNEL(k_in_top_f32, dfc_finding) {
  DFC_EACH(r, p.rows) {
    const float *x = (const float *)p.x + r * p.n;
    const int64_t t = int_at(p.values, p.dtype, r);
    bool known = t >= 0 && t < p.n;
    int64_t more = 0;
    for (int64_t i = 0; i < p.n && known; i++) {
      if (x[i] - x[i] != 0) known = false;
      else more += x[i] > x[t];
    }
    ((bool *)p.z)[r] = known && more < p.m;
  }
}

/* params[..., indices[..., j]], of rows of n and m. */
#define TAKE(bits, T) \
  DFC_KERNEL(k_take_along_##bits, dfc_finding) { \
    DFC_EACH(e, p.rows * p.m) \
      ((T *)p.z)[e] = ((const T *)p.x)[e / p.m * p.n + ((const int64_t *)p.values)[e]]; \
  }
TAKE(8, uint8_t)
TAKE(16, uint16_t)
TAKE(32, uint32_t)
TAKE(64, uint64_t)

/* How many values fall into each of `n` bins from `low` on: one block for each bin, whose threads count. */
enum { BLOCK = 128 };
template <class T> DFC_INLINE void histogram(const dfc_counting &p, int64_t *part) {
  for (int64_t bin = blockIdx.x; bin < p.bins; bin += gridDim.x) {
    int64_t count = 0;
    for (int64_t i = threadIdx.x; i < p.n; i += BLOCK) {
      const double at = ((double)((const T *)p.x)[i] - p.low) / p.step;
      count += (!(at > 0) ? 0 : at >= (double)p.bins ? p.bins - 1 : (int64_t)at) == bin;
    }
    part[threadIdx.x] = count;
    __syncthreads();
    for (int half = BLOCK / 2; half; half >>= 1) {
      if ((int)threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      if (p.wide) ((int64_t *)p.z)[bin] = part[0];
      else ((int32_t *)p.z)[bin] = (int32_t)part[0];
    }
    __syncthreads();
  }
}
#define HISTOGRAM(s, T) \
  DFC_KERNEL(k_histogram_##s, dfc_counting) { \
    DFC_SHARED int64_t part[BLOCK]; \
    histogram<T>(p, part); \
  }
HISTOGRAM(f32, float)
HISTOGRAM(f64, double)
HISTOGRAM(i32, int32_t)
HISTOGRAM(i64, int64_t)
