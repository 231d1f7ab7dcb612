/* pieces.h: what the kernels of reductions, and of the greatest's place, of many elements are given (reduce.cu,
 * complex.cu), and how their blocks go over it; a header of their own, as numerics.h. Kernels include kernel.cuh and
 * params.h before. */
#ifndef DFLOW_CUDA_PIECES_H
#define DFLOW_CUDA_PIECES_H
#include <stdint.h>

/* x as [outer, n, inner], cut into so many pieces of n: part[outer, inner, pieces], then z[outer, inner]. lanes: how
 * many of `inner` a block has at a time. Of a log-sum-exp a part is two numbers: the greatest, and the sum by it; of a
 * place it is a value and the place, and one piece needs no part. wide: z is of int64. */
typedef struct dfc_pieces { const void *x; void *part, *z; int64_t outer, n, inner, pieces; int32_t what, lanes, wide,
    pad; } dfc_pieces;

#ifdef __cplusplus
/* What a thread of a block has: the elements from, from + by … below `to` of a piece of result i. to = 0: there is no
 * such result. */
struct dfc_strand {
  int64_t i, piece, from, to, by, x;     /* x: where element 0 of the result lies */
  bool    first;                         /* it says what the block has found for the result */
};
DFC_INLINE int64_t piece_blocks(const dfc_pieces &p) {
  return p.outer * ((p.inner + p.lanes - 1) / p.lanes) * p.pieces;
}
/* Of block b of these. */
DFC_INLINE dfc_strand strand_of(const dfc_pieces &p, int64_t b) {
  const int64_t across = (p.inner + p.lanes - 1) / p.lanes, length = (p.n + p.pieces - 1) / p.pieces;
  const int64_t piece = b % p.pieces, row = b / p.pieces / across;
  const int64_t column = b / p.pieces % across * p.lanes + threadIdx.x % p.lanes;
  const int64_t end = (piece + 1) * length < p.n ? (piece + 1) * length : p.n, nth = threadIdx.x / p.lanes;
  const bool mine = column < p.inner;
  const dfc_strand s = { row * p.inner + column, piece, piece * length + nth, mine ? end : 0,
                         DFC_REDUCE_BLOCK / p.lanes,
                         row * p.n * p.inner + (mine ? column : 0), mine && nth == 0 };
  return s;
}
/* What a block's threads of each of its lanes have, pair by pair as `two` makes one of them, known to all of these. */
template <class A, class F> DFC_INLINE A lanes_join(A mine, A *part, int lanes, F two) {
  const int t = (int)threadIdx.x;
  part[t] = mine;
  __syncthreads();
  for (int half = DFC_REDUCE_BLOCK / 2; half >= lanes; half >>= 1) {
    if (t < half) part[t] = two(part[t], part[t + half]);
    __syncthreads();
  }
  const A all = part[t % lanes];
  __syncthreads();
  return all;
}
#endif
#endif
