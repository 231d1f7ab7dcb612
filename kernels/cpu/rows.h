/* rows.h: kernels that take rows, as chains call them. NULL: the kernel is none, or not of the dtype. */
#ifndef DFLOW_CPU_ROWS_H
#define DFLOW_CPU_ROWS_H
#include "../chain.h"

dfk_rows_fn dfk_fold_rows(df_kernel_fn kernel, int32_t dtype);        /* reduce.c: of rows up to DFK_CHAIN_ROW */
dfk_rows_fn dfk_softmax_rows(df_kernel_fn kernel, int32_t dtype);     /* nn.c */

/* reduce.c: folds over the axes in front, of at least DFK_FOLD_LEAD columns. `rows` rows are folded in pieces of
 * dfk_fold_piece; in each the rows of a block of DFK_FOLD_BLOCK one after the other, then the blocks; and what the
 * pieces leave in the same way. join: rows side by side, of which the first becomes all of them; the others are lost.
 * finish: a mean is divided by `count`. */
dfk_over dfk_fold_over(df_kernel_fn kernel, int32_t dtype);
int64_t dfk_fold_piece(int64_t rows, int64_t width);
void dfk_fold_join(dfk_over over, void *x, int64_t rows, int64_t width);
void dfk_fold_finish(dfk_over over, void *y, int64_t width, int64_t count);
#endif
