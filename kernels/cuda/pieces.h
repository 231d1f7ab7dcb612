/* pieces.h: what the kernels of folds of many elements are given (reduce.cu); a header of their own, as numerics.h. */
#ifndef DFLOW_CUDA_PIECES_H
#define DFLOW_CUDA_PIECES_H
#include <stdint.h>

/* x as [outer, n, inner], cut into so many pieces of n: part[outer, inner, pieces], then z[outer, inner]. lanes: how
 * many of `inner` a block has at a time. Of a log-sum-exp a part is two numbers: the greatest, and the sum by it. */
typedef struct dfc_pieces { const void *x; void *part, *z; int64_t outer, n, inner, pieces; int32_t what, lanes;
} dfc_pieces;
#endif
