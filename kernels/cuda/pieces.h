/* pieces.h: what the kernels of folds, and of the greatest's place, of many elements are given (reduce.cu); a header of
 * their own, as numerics.h. */
#ifndef DFLOW_CUDA_PIECES_H
#define DFLOW_CUDA_PIECES_H
#include <stdint.h>

/* x as [outer, n, inner], cut into so many pieces of n: part[outer, inner, pieces], then z[outer, inner]. lanes: how
 * many of `inner` a block has at a time. Of a log-sum-exp a part is two numbers: the greatest, and the sum by it; of a
 * place it is a value and the place, and one piece needs no part. wide: z is of int64. */
typedef struct dfc_pieces { const void *x; void *part, *z; int64_t outer, n, inner, pieces; int32_t what, lanes, wide,
    pad; } dfc_pieces;
#endif
