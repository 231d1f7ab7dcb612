/* reduce.cu: folds over the middle of [outer, n, inner]: one thread for each result where there are many, else one
 * block for each, whose threads fold every 128th element and then pair by pair; the order follows from the shape
 * alone. Rows (softmax and its like): one block for each row. Scans: one thread for each. */
#include "fold.cuh"

enum { BLOCK = DFC_FOLD_BLOCK };

template <class T> DFC_INLINE void fold_each(const dfc_fold &p) {
  typedef typename acc_of<T>::type A;
  DFC_EACH(i, p.outer * p.inner) {
    const T *x = (const T *)p.x + i / p.inner * p.n * p.inner + i % p.inner;
    A a = neutral<T>(p.what);
    for (int64_t j = 0; j < p.n; j++) a = both(p.what, a, of_element(p.what, (A)x[j * p.inner]));
    if (p.what == DFC_LOG_SUM_EXP) {
      const A top = is_number(a) ? a : 0;
      A sum = 0;
      for (int64_t j = 0; j < p.n; j++) sum += e_to((A)x[j * p.inner] - top);
      a = top + ln(sum);
    }
    ((T *)p.z)[i] = (T)finished(p.what, a, p.n);
  }
}

template <class T> DFC_INLINE void fold_block(const dfc_fold &p, typename acc_of<T>::type *part) {
  typedef typename acc_of<T>::type A;
  for (int64_t i = blockIdx.x; i < p.outer * p.inner; i += gridDim.x) {
    const T *x = (const T *)p.x + i / p.inner * p.n * p.inner + i % p.inner;
    A a = neutral<T>(p.what);
    for (int64_t j = threadIdx.x; j < p.n; j += BLOCK) a = both(p.what, a, of_element(p.what, (A)x[j * p.inner]));
    a = block_fold(p.what, a, part);
    if (p.what == DFC_LOG_SUM_EXP) {
      const A top = is_number(a) ? a : 0;
      A sum = 0;
      for (int64_t j = threadIdx.x; j < p.n; j += BLOCK) sum += e_to((A)x[j * p.inner] - top);
      a = top + ln(block_fold((int)DFC_SUM, sum, part));
    }
    if (threadIdx.x == 0) ((T *)p.z)[i] = (T)finished(p.what, a, p.n);
  }
}

#define FOLD(s, T) \
  DFC_KERNEL(k_fold_each_##s, dfc_fold) { fold_each<T>(p); } \
  DFC_KERNEL(k_fold_block_##s, dfc_fold) { \
    DFC_SHARED typename acc_of<T>::type part[BLOCK]; \
    fold_block<T>(p, part); \
  }
FOLD(f32, float)
FOLD(f64, double)
FOLD(f16, f16)
FOLD(b16, b16)
FOLD(i32, int32_t)
FOLD(i64, int64_t)
FOLD(i8, int8_t)
FOLD(u8, uint8_t)
FOLD(bool, bool)

/* ---- the place of the greatest or least; the first NaN before all ------------------------------------------------ */
template <class T, class Z> DFC_INLINE void arg_each(const dfc_fold &p) {
  typedef typename acc_of<T>::type A;
  const bool least = p.what == DFC_MIN;
  DFC_EACH(i, p.outer * p.inner) {
    const T *x = (const T *)p.x + i / p.inner * p.n * p.inner + i % p.inner;
    int64_t best = 0;
    A top = (A)x[0];
    for (int64_t j = 1; j < p.n && top == top; j++) {
      const A v = (A)x[j * p.inner];
      if (v != v || (least ? v < top : v > top)) { best = j; top = v; }
    }
    ((Z *)p.z)[i] = (Z)best;
  }
}
#define ARG(s, T) \
  DFC_KERNEL(k_arg_##s, dfc_fold) { if (p.flags) arg_each<T, int64_t>(p); else arg_each<T, int32_t>(p); }
ARG(f32, float)
ARG(f64, double)
ARG(f16, f16)
ARG(b16, b16)
ARG(i32, int32_t)
ARG(i64, int64_t)
ARG(i8, int8_t)
ARG(u8, uint8_t)
ARG(bool, bool)

/* ---- scans: flags 1: exclusive, 2: reverse ----------------------------------------------------------------------- */
template <class T> DFC_INLINE void scan_each(const dfc_fold &p) {
  typedef typename acc_of<T>::type A;
  DFC_EACH(i, p.outer * p.inner) {
    const int64_t first = i / p.inner * p.n * p.inner + i % p.inner;
    A a = p.what == DFC_PROD;
    for (int64_t s = 0; s < p.n; s++) {
      const int64_t at = first + (p.flags & 2 ? p.n - 1 - s : s) * p.inner;
      const A x = (A)((const T *)p.x)[at], next = p.what == DFC_PROD ? wrap_mul(a, x) : wrap_add(a, x);
      ((T *)p.z)[at] = (T)(p.flags & 1 ? a : next);
      a = next;
    }
  }
}
#define SCAN(s, T) DFC_KERNEL(k_scan_##s, dfc_fold) { scan_each<T>(p); }
SCAN(f32, float)
SCAN(f64, double)
SCAN(f16, f16)
SCAN(b16, b16)
SCAN(i32, int32_t)
SCAN(i64, int64_t)
SCAN(i8, int8_t)
SCAN(u8, uint8_t)

/* ---- recurrences: s[i] = d[i] + x[i] s[i - 1], backwards with the factor of the neighbour ------------------------ */
template <class T> DFC_INLINE void recur(const dfc_recurring &p) {
  typedef typename acc_of<T>::type A;
  DFC_EACH(e, p.outer * p.inner) {
    const int64_t first = e / p.inner * p.n * p.inner + e % p.inner;
    A before = 0;
    for (int64_t step = 0; step < p.n; step++) {
      const int64_t at = first + (p.reverse ? p.n - 1 - step : step) * p.inner;
      const A d = (A)((const T *)p.d)[at];
      ((T *)p.beside)[at] = (T)before;
      before = step ? d + (A)((const T *)p.x)[p.reverse ? at + p.inner : at] * before : d;
      ((T *)p.s)[at] = (T)before;
    }
  }
}
DFC_KERNEL(k_recur_f32, dfc_recurring) { recur<float>(p); }
DFC_KERNEL(k_recur_f64, dfc_recurring) { recur<double>(p); }
DFC_KERNEL(k_recur_f16, dfc_recurring) { recur<f16>(p); }
DFC_KERNEL(k_recur_b16, dfc_recurring) { recur<b16>(p); }

/* ---- rows -------------------------------------------------------------------------------------------------------- */
template <class T> struct row_of { typedef float type; };
template <> struct row_of<double> { typedef double type; };

template <class T> DFC_INLINE void rows(const dfc_rows &p, typename row_of<T>::type *part) {
  typedef typename row_of<T>::type A;
  for (int64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
    const T *x = (const T *)p.x + r * p.n;
    T *z = (T *)p.z + r * p.n;
    A top = -INFINITY, sum = 0;
    for (int64_t i = threadIdx.x; i < p.n; i += BLOCK) top = both((int)DFC_MAX, top, (A)x[i]);
    top = block_fold((int)DFC_MAX, top, part);
    for (int64_t i = threadIdx.x; i < p.n; i += BLOCK) sum += e_to((A)x[i] - top);
    sum = block_fold((int)DFC_SUM, sum, part);
    const A log_sum = ln(sum);
    if (p.what == DFC_SOFTMAX) {
      for (int64_t i = threadIdx.x; i < p.n; i += BLOCK) z[i] = (T)(e_to((A)x[i] - top) / sum);
    } else if (p.what == DFC_LOG_SOFTMAX) {
      for (int64_t i = threadIdx.x; i < p.n; i += BLOCK) z[i] = (T)((A)x[i] - top - log_sum);
    } else {
      const bool sparse = p.what == DFC_SPARSE_XENT;
      const int64_t number = !sparse ? -1 : p.wide ? ((const int64_t *)p.labels)[r] : ((const int32_t *)p.labels)[r];
      A loss = 0;
      for (int64_t i = threadIdx.x; i < p.n; i += BLOCK) {
        const A v = (A)x[i] - top, label = sparse ? (A)(number == i) : (A)((const T *)p.labels)[r * p.n + i];
        if (!sparse || label != 0) loss -= label * (v - log_sum);
        z[i] = (T)(e_to(v) / sum - label);
      }
      loss = block_fold((int)DFC_SUM, loss, part);
      if (threadIdx.x == 0) ((T *)p.loss)[r] = (T)loss;
    }
    __syncthreads();
  }
}
#define ROWS(s, T) \
  DFC_KERNEL(k_rows_##s, dfc_rows) { \
    DFC_SHARED typename row_of<T>::type part[BLOCK]; \
    rows<T>(p, part); \
  }
ROWS(f32, float)
ROWS(f64, double)
ROWS(f16, f16)
ROWS(b16, b16)
