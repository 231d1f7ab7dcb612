/* attention.cu: attention by tiles, one block of 16 x 16 threads' worth for each tile of 16 queries (of what goes back
 * to keys and values: of 16 keys) and 128 columns of the result. A thread makes one score of a tile, and eight elements
 * of the result, in registers; no scores are kept. What has the weight 0 is not there, were it NaN, so that tiles show
 * in no number. Sums have one order: no atomics. */
#include "kernel.cuh"
#include "attention.h"

enum { TILE = 16, EACH = 8, COLUMNS = TILE * EACH };
template <class T> struct sum_of { typedef float type; };
template <> struct sum_of<double> { typedef double type; };

template <class A> struct tiles { A a[TILE][TILE + 1], b[TILE][TILE + 1], p[TILE][TILE + 1], d[TILE][TILE + 1]; };

/* The sum over `depth` of row `row` of x and row `other` of y, which threads ty and tx stand for. */
template <class T, class A>
DFC_INLINE A dot(tiles<A> &s, const T *x, int64_t row, int64_t rows, const T *y, int64_t first, int64_t others,
                 int64_t depth) {
  const int tx = (int)threadIdx.x % TILE, ty = (int)threadIdx.x / TILE;
  A sum = 0;
  for (int64_t k = 0; k < depth; k += TILE) {
    s.a[ty][tx] = row < rows && k + tx < depth ? (A)x[row * depth + k + tx] : (A)0;
    s.b[ty][tx] = first + ty < others && k + tx < depth ? (A)y[(first + ty) * depth + k + tx] : (A)0;
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum += s.a[ty][i] * s.b[tx][i];
    __syncthreads();
  }
  return sum;
}

DFC_INLINE int64_t mask_at(const dfc_attention &p, int64_t b) {
  int64_t at = 0;
  for (int64_t d = p.lead - 1; d >= 0; d--) {
    at += b % p.lead_dims[d] * p.lead_step[d];
    b /= p.lead_dims[d];
  }
  return at;
}

/* The score of query i and key j of matrix b; -infinity where it is not allowed, or there is none. */
template <class T, class A>
DFC_INLINE A score(const dfc_attention &p, tiles<A> &s, int64_t b, int64_t mask, int64_t i, int64_t j0) {
  const int64_t j = j0 + (int64_t)threadIdx.x % TILE;
  const T *q = (const T *)p.q + b * p.queries * p.depth, *k = (const T *)p.k + b * p.keys * p.depth;
  A x = dot<T, A>(s, q, i, p.queries, k, j0, p.keys, p.depth) * (A)p.scale;
  if (i >= p.queries || j >= p.keys || (p.causal && j > i)) return (A)-INFINITY;
  if (!p.mask) return x;
  const int64_t at = mask + i * p.row_step + j * p.key_step;
  if (p.bools) return ((const uint8_t *)p.mask)[at] ? x : (A)-INFINITY;
  return x + (A)((const T *)p.mask)[at];
}

/* What a block makes: matrix, first row, first column. */
struct spot { int64_t b, row, column; };
DFC_INLINE spot spot_of(int64_t t, int64_t rows, int64_t columns) {
  const int64_t across = columns > 0 ? (columns + COLUMNS - 1) / COLUMNS : 1, down = (rows + TILE - 1) / TILE;
  return { t / across / down, t / across % down * TILE, t % across * COLUMNS };
}

template <class T> DFC_INLINE void forward(const dfc_attention &p, tiles<typename sum_of<T>::type> &s) {
  typedef typename sum_of<T>::type A;
  const int tx = (int)threadIdx.x % TILE, ty = (int)threadIdx.x / TILE;
  for (int64_t t = blockIdx.x; t < p.blocks; t += gridDim.x) {
    const spot at = spot_of(t, p.queries, p.width);
    const int64_t i = at.row + ty, mask = mask_at(p, at.b), end = at.row + TILE,
                  seen = p.causal && end < p.keys ? end : p.keys;
    const T *v = (const T *)p.v + at.b * p.keys * p.width;
    A of[EACH] = { 0 }, top = (A)-INFINITY, sum = 0;
    for (int64_t j = 0; j < seen; j += TILE) {
      s.p[ty][tx] = score<T, A>(p, s, at.b, mask, i, j);
      __syncthreads();
      A best = top;
      for (int k = 0; k < TILE; k++) best = s.p[ty][k] > best || s.p[ty][k] != s.p[ty][k] ? s.p[ty][k] : best;
      const A base = best == (A)-INFINITY ? (A)0 : best, shrink = top == (A)-INFINITY ? (A)0 : (A)exp(top - base);
      s.d[ty][tx] = (A)exp(s.p[ty][tx] - base);
      __syncthreads();
      sum *= shrink;
      for (int k = 0; k < TILE; k++) sum += s.d[ty][k];
      top = best;
      for (int e = 0; e < EACH; e++) {
        const int64_t column = at.column + tx + e * TILE;
        of[e] = shrink == 0 ? (A)0 : of[e] * shrink;
        for (int k = 0; k < TILE && column < p.width; k++)
          if (j + k < p.keys && s.d[ty][k] != 0) of[e] += s.d[ty][k] * (A)v[(j + k) * p.width + column];
      }
      __syncthreads();
    }
    if (i >= p.queries) continue;
    const int64_t row = at.b * p.queries + i;
    if (tx == 0 && at.column == 0) ((A *)p.sums)[row] = sum == 0 ? (A)INFINITY : top + (A)log(sum);
    for (int e = 0; e < EACH; e++) {
      const int64_t column = at.column + tx + e * TILE;
      if (column < p.width) ((T *)p.y)[row * p.width + column] = (T)(sum == 0 ? (A)0 : of[e] / sum);
    }
  }
}

/* The weight and what comes back to the score, of query i0 + ty and key j0 + tx, for all of the block to read. */
template <class T, class A>
DFC_INLINE void back(const dfc_attention &p, tiles<A> &s, int64_t b, int64_t mask, int64_t i0, int64_t j0) {
  const int tx = (int)threadIdx.x % TILE, ty = (int)threadIdx.x / TILE;
  const int64_t i = i0 + ty, row = b * p.queries + i;
  const A x = score<T, A>(p, s, b, mask, i, j0);
  const A dp = dot<T, A>(s, (const T *)p.dy + b * p.queries * p.width, i, p.queries,
                         (const T *)p.v + b * p.keys * p.width, j0, p.keys, p.width);
  const bool there = i < p.queries && j0 + tx < p.keys;
  const A w = there ? (A)exp(x - ((const A *)p.sums)[row]) : (A)0;
  s.p[ty][tx] = w;
  s.d[ty][tx] = there && w != 0 ? (A)p.scale * w * (dp - ((const A *)p.delta)[row]) : (A)0;
  __syncthreads();
}

template <class T> DFC_INLINE void queries_back(const dfc_attention &p, tiles<typename sum_of<T>::type> &s) {
  typedef typename sum_of<T>::type A;
  const int tx = (int)threadIdx.x % TILE, ty = (int)threadIdx.x / TILE;
  for (int64_t t = blockIdx.x; t < p.blocks; t += gridDim.x) {
    const spot at = spot_of(t, p.queries, p.depth);
    const int64_t mask = mask_at(p, at.b), end = at.row + TILE, seen = p.causal && end < p.keys ? end : p.keys;
    const T *k = (const T *)p.k + at.b * p.keys * p.depth;
    A of[EACH] = { 0 };
    for (int64_t j = 0; j < seen; j += TILE) {
      back<T, A>(p, s, at.b, mask, at.row, j);
      for (int e = 0; e < EACH; e++) {
        const int64_t column = at.column + tx + e * TILE;
        for (int n = 0; n < TILE && column < p.depth; n++)
          if (j + n < p.keys && s.d[ty][n] != 0) of[e] += s.d[ty][n] * (A)k[(j + n) * p.depth + column];
      }
      __syncthreads();
    }
    for (int e = 0; e < EACH && at.row + ty < p.queries; e++) {
      const int64_t column = at.column + tx + e * TILE;
      if (column < p.depth) ((T *)p.dq)[(at.b * p.queries + at.row + ty) * p.depth + column] = (T)of[e];
    }
  }
}

template <class T> DFC_INLINE void keys_back(const dfc_attention &p, tiles<typename sum_of<T>::type> &s) {
  typedef typename sum_of<T>::type A;
  const int tx = (int)threadIdx.x % TILE, ty = (int)threadIdx.x / TILE;
  for (int64_t t = blockIdx.x; t < p.blocks; t += gridDim.x) {
    const spot at = spot_of(t, p.keys, p.depth > p.width ? p.depth : p.width);
    const int64_t mask = mask_at(p, at.b), key = at.row + ty;
    const T *q = (const T *)p.q + at.b * p.queries * p.depth, *dy = (const T *)p.dy + at.b * p.queries * p.width;
    A dk[EACH] = { 0 }, dv[EACH] = { 0 };
    for (int64_t i = p.causal ? at.row : 0; i < p.queries; i += TILE) {
      back<T, A>(p, s, at.b, mask, i, at.row);
      for (int e = 0; e < EACH; e++) {
        const int64_t column = at.column + tx + e * TILE;
        for (int n = 0; n < TILE && i + n < p.queries; n++) {
          if (column < p.depth && s.d[n][ty] != 0) dk[e] += s.d[n][ty] * (A)q[(i + n) * p.depth + column];
          if (column < p.width && s.p[n][ty] != 0) dv[e] += s.p[n][ty] * (A)dy[(i + n) * p.width + column];
        }
      }
      __syncthreads();
    }
    for (int e = 0; e < EACH && key < p.keys; e++) {
      const int64_t column = at.column + tx + e * TILE, row = at.b * p.keys + key;
      if (column < p.depth) ((T *)p.dk)[row * p.depth + column] = (T)dk[e];
      if (column < p.width) ((T *)p.dv)[row * p.width + column] = (T)dv[e];
    }
  }
}

#define KERNEL(what, s, T) \
  DFC_KERNEL(k_attention##what##_##s, dfc_attention) { \
    DFC_SHARED tiles<typename sum_of<T>::type> room; \
    DO##what<T>(p, room); \
  }
#define DO forward
#define DO_queries queries_back
#define DO_keys keys_back
#define ATTENTION(s, T) KERNEL(, s, T) KERNEL(_queries, s, T) KERNEL(_keys, s, T)
ATTENTION(f32, float)
ATTENTION(f64, double)
ATTENTION(f16, f16)
ATTENTION(b16, b16)
