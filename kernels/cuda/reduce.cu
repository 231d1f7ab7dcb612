/* reduce.cu: reductions over the middle of [outer, n, inner]: one thread for each result where there are many, else one
 * block for each, whose threads reduce every 128th element and then pair by pair; the order follows from the shape
 * alone. Where n is large, pieces of it by a block each, and then the pieces. Rows (softmax and its like): one block
 * for each row. Scans: one thread for each. */
#include "reduce.cuh"
#include "pieces.h"

enum { BLOCK = DFC_REDUCE_BLOCK };

/* f of the elements from, from + by … below `to` of what lies `step` apart, in this order; several are on their way
 * at once. */
template <class T, class F> DFC_INLINE void walk(const T *x, int64_t from, int64_t to, int64_t by, int64_t step, F f) {
  enum { AHEAD = 8 };
  typedef typename acc_of<T>::type A;
  int64_t j = from;
  for (; j + (AHEAD - 1) * by < to; j += AHEAD * by) {
    T v[AHEAD];
    for (int u = 0; u < AHEAD; u++) v[u] = x[(j + u * by) * step];
    for (int u = 0; u < AHEAD; u++) f((A)v[u]);
  }
  for (; j < to; j += by) f((A)x[j * step]);
}
template <int WHAT, class T> DFC_INLINE typename acc_of<T>::type strand_by(const T *x, int64_t from, int64_t to,
                                                                           int64_t by, int64_t step) {
  typedef typename acc_of<T>::type A;
  A a = neutral<T>(WHAT);
  walk(x, from, to, by, step, [&](A v) { a = both(WHAT, a, of_element(WHAT, v)); });
  return a;
}
/* Those elements reduced, but for what comes in the end. */
template <class T> DFC_INLINE typename acc_of<T>::type strand(int what, const T *x, int64_t from, int64_t to,
                                                              int64_t by, int64_t step) {
  switch (what) {
    case DFC_PROD: return strand_by<DFC_PROD>(x, from, to, by, step);
    case DFC_MAX: case DFC_LOG_SUM_EXP: return strand_by<DFC_MAX>(x, from, to, by, step);
    case DFC_MIN: return strand_by<DFC_MIN>(x, from, to, by, step);
    case DFC_ALL: return strand_by<DFC_ALL>(x, from, to, by, step);
    case DFC_ANY: return strand_by<DFC_ANY>(x, from, to, by, step);
    case DFC_NORM: case DFC_HALF_SQUARES: return strand_by<DFC_NORM>(x, from, to, by, step);
    default: return strand_by<DFC_SUM>(x, from, to, by, step);
  }
}
/* The sum of their exponentials, by the greatest. */
template <class T, class A> DFC_INLINE A exponentials(A top, const T *x, int64_t from, int64_t to, int64_t by,
                                                      int64_t step) {
  A sum = 0;
  walk(x, from, to, by, step, [&](A v) { sum += e_to(v - top); });
  return sum;
}
template <class A> DFC_INLINE A number_or_0(A x) { return is_number(x) ? x : 0; }

template <class T> DFC_INLINE void reduce_each(const dfc_reduction &p) {
  typedef typename acc_of<T>::type A;
  DFC_EACH(i, p.outer * p.inner) {
    const T *x = (const T *)p.x + i / p.inner * p.n * p.inner + i % p.inner;
    A a = strand(p.what, x, 0, p.n, 1, p.inner);
    if (p.what == DFC_LOG_SUM_EXP) {
      const A top = number_or_0(a);
      a = top + ln(exponentials(top, x, 0, p.n, 1, p.inner));
    }
    ((T *)p.z)[i] = (T)finished(p.what, a, p.n);
  }
}

template <class T> DFC_INLINE void reduce_block(const dfc_reduction &p, typename acc_of<T>::type *part) {
  typedef typename acc_of<T>::type A;
  for (int64_t i = blockIdx.x; i < p.outer * p.inner; i += gridDim.x) {
    const T *x = (const T *)p.x + i / p.inner * p.n * p.inner + i % p.inner;
    A a = block_reduce(p.what, strand(p.what, x, threadIdx.x, p.n, BLOCK, p.inner), part);
    if (p.what == DFC_LOG_SUM_EXP) {
      const A top = number_or_0(a);
      a = top + ln(block_reduce((int)DFC_SUM, exponentials(top, x, threadIdx.x, p.n, BLOCK, p.inner), part));
    }
    if (threadIdx.x == 0) ((T *)p.z)[i] = (T)finished(p.what, a, p.n);
  }
}

template <class A> DFC_INLINE A lanes_reduce(int what, A mine, A *part, int lanes) {
  return lanes_join(mine, part, lanes, [&](A a, A b) { return both(what, a, b); });
}

/* A piece of so many results side by side: with one lane the order within it is that of reduce_block. */
template <class T> DFC_INLINE void reduce_pieces(const dfc_pieces &p, typename acc_of<T>::type *part) {
  typedef typename acc_of<T>::type A;
  for (int64_t b = blockIdx.x; b < piece_blocks(p); b += gridDim.x) {
    const dfc_strand s = strand_of(p, b);
    const T *x = (const T *)p.x + s.x;
    const A a = lanes_reduce(p.what, strand(p.what, x, s.from, s.to, s.by, p.inner), part, p.lanes);
    A *at = (A *)p.part + (s.i * p.pieces + s.piece) * (p.what == DFC_LOG_SUM_EXP ? 2 : 1);
    if (p.what == DFC_LOG_SUM_EXP) {
      const A own = exponentials(number_or_0(a), x, s.from, s.to, s.by, p.inner);
      const A sum = lanes_reduce((int)DFC_SUM, own, part, p.lanes);
      if (s.first) at[1] = sum;
    }
    if (s.first) at[0] = a;
  }
}

/* The pieces of each result as one. */
template <class T> DFC_INLINE void reduce_parts(const dfc_pieces &p, typename acc_of<T>::type *part) {
  typedef typename acc_of<T>::type A;
  const int each = p.what == DFC_LOG_SUM_EXP ? 2 : 1;
  for (int64_t i = blockIdx.x; i < p.outer * p.inner; i += gridDim.x) {
    const A *from = (const A *)p.part + i * p.pieces * each;
    A a = neutral<T>(p.what);
    for (int64_t q = threadIdx.x; q < p.pieces; q += BLOCK) a = both(p.what, a, from[q * each]);
    a = block_reduce(p.what, a, part);
    if (p.what == DFC_LOG_SUM_EXP) {
      const A top = number_or_0(a);
      A sum = 0;
      for (int64_t q = threadIdx.x; q < p.pieces; q += BLOCK)
        if (from[2 * q + 1] != 0) sum += from[2 * q + 1] * e_to(number_or_0(from[2 * q]) - top);
      a = top + ln(block_reduce((int)DFC_SUM, sum, part));
    }
    if (threadIdx.x == 0) ((T *)p.z)[i] = (T)finished(p.what, a, p.n);
  }
}

#define REDUCE(s, T) \
  DFC_KERNEL(k_reduce_each_##s, dfc_reduction) { reduce_each<T>(p); } \
  DFC_KERNEL(k_reduce_block_##s, dfc_reduction) { \
    DFC_SHARED typename acc_of<T>::type part[BLOCK]; \
    reduce_block<T>(p, part); \
  } \
  DFC_KERNEL(k_reduce_pieces_##s, dfc_pieces) { \
    DFC_SHARED typename acc_of<T>::type part[BLOCK]; \
    reduce_pieces<T>(p, part); \
  } \
  DFC_KERNEL(k_reduce_parts_##s, dfc_pieces) { \
    DFC_SHARED typename acc_of<T>::type part[BLOCK]; \
    reduce_parts<T>(p, part); \
  }
REDUCE(f32, float)
REDUCE(f64, double)
REDUCE(f16, f16)
REDUCE(b16, b16)
REDUCE(i32, int32_t)
REDUCE(i64, int64_t)
REDUCE(i8, int8_t)
REDUCE(u8, uint8_t)
REDUCE(bool, bool)

/* ---- the place of the greatest or least; the first NaN before all ------------------------------------------------ */
template <class T, class Z> DFC_INLINE void arg_each(const dfc_reduction &p) {
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

/* An element, of 8 bytes so that nothing lies between, and where it is; below 0: none. */
template <class A> struct placed { A value; int64_t at; };
template <class T> struct placed_of { typedef placed<int64_t> type; };
template <> struct placed_of<float> { typedef placed<double> type; };
template <> struct placed_of<double> { typedef placed<double> type; };
template <> struct placed_of<f16> { typedef placed<double> type; };
template <> struct placed_of<b16> { typedef placed<double> type; };
/* Is b the one of the two, whichever was met first? */
template <class A> DFC_INLINE bool outdoes(bool least, const placed<A> &b, const placed<A> &a) {
  if (a.at < 0 || b.at < 0) return a.at < 0 && b.at >= 0;
  const bool no_number = b.value != b.value;
  if (no_number != (a.value != a.value)) return no_number;
  if (no_number || b.value == a.value) return b.at < a.at;
  return least ? b.value < a.value : b.value > a.value;
}
template <class A> DFC_INLINE placed<A> lanes_place(bool least, placed<A> mine, placed<A> *part, int lanes) {
  return lanes_join(mine, part, lanes, [&](placed<A> a, placed<A> b) { return outdoes(least, b, a) ? b : a; });
}
DFC_INLINE void put_place(const dfc_pieces &p, int64_t i, int64_t at) {
  if (p.wide) ((int64_t *)p.z)[i] = at; else ((int32_t *)p.z)[i] = (int32_t)at;
}

/* As reduce_pieces. */
template <class T, class P> DFC_INLINE void arg_pieces(const dfc_pieces &p, P *part) {
  typedef typename acc_of<T>::type A;
  const bool least = p.what == DFC_MIN;
  for (int64_t b = blockIdx.x; b < piece_blocks(p); b += gridDim.x) {
    const dfc_strand s = strand_of(p, b);
    int64_t at = s.from;
    P best = { 0, -1 };
    walk((const T *)p.x + s.x, at, s.to, s.by, p.inner, [&](A v) {
      const P one = { v, at };
      if (outdoes(least, one, best)) best = one;
      at += s.by;
    });
    best = lanes_place(least, best, part, p.lanes);
    if (s.first && p.pieces == 1) put_place(p, s.i, best.at);
    else if (s.first) ((P *)p.part)[s.i * p.pieces + s.piece] = best;
  }
}
template <class P> DFC_INLINE void arg_parts(const dfc_pieces &p, P *part) {
  const bool least = p.what == DFC_MIN;
  for (int64_t i = blockIdx.x; i < p.outer * p.inner; i += gridDim.x) {
    const P *from = (const P *)p.part + i * p.pieces;
    P best = { 0, -1 };
    for (int64_t q = threadIdx.x; q < p.pieces; q += BLOCK) if (outdoes(least, from[q], best)) best = from[q];
    best = lanes_place(least, best, part, 1);
    if (threadIdx.x == 0) put_place(p, i, best.at);
  }
}
#define ARG(s, T) \
  DFC_KERNEL(k_arg_##s, dfc_reduction) { if (p.flags) arg_each<T, int64_t>(p); else arg_each<T, int32_t>(p); } \
  DFC_KERNEL(k_arg_pieces_##s, dfc_pieces) { \
    DFC_SHARED typename placed_of<T>::type part[BLOCK]; \
    arg_pieces<T>(p, part); \
  } \
  DFC_KERNEL(k_arg_parts_##s, dfc_pieces) { \
    DFC_SHARED typename placed_of<T>::type part[BLOCK]; \
    arg_parts(p, part); \
  }
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
template <class T> DFC_INLINE void scan_each(const dfc_reduction &p) {
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
#define SCAN(s, T) DFC_KERNEL(k_scan_##s, dfc_reduction) { scan_each<T>(p); }
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
    top = block_reduce((int)DFC_MAX, top, part);
    for (int64_t i = threadIdx.x; i < p.n; i += BLOCK) sum += e_to((A)x[i] - top);
    sum = block_reduce((int)DFC_SUM, sum, part);
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
      loss = block_reduce((int)DFC_SUM, loss, part);
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
