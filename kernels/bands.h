/* bands.h: bands of diagonals, packed row by row into matrices of their own (ref/bands.c). Diagonal d of a matrix has
   the elements [i, i + d]; a band [k0, k1] is packed from k1 down to k0, each diagonal a row that is as long as the
   longest of them. A band of one is no matrix but a vector. */
#ifndef DFLOW_BANDS_H
#define DFLOW_BANDS_H
#include "kernel.h"
/* Where shorter diagonals lie in their rows: those above the main one, and those below. */
typedef struct dfk_align { bool left_above, left_below; } dfk_align;

/* A band of matrices of rows x cols: its diagonals, and how long the longest is. */
typedef struct dfk_bands { int64_t low, high, rows, cols, width; dfk_align align; } dfk_bands;
/* How the kernels begin; left: without the attribute. Output 0; NULL: the error is filled. The elements are not read,
 * but for k's and sizes. */
df_tensor *dfk_bands_part_begin(df_kernel *k, bool left, dfk_bands *b);
df_tensor *dfk_bands_matrix_begin(df_kernel *k, bool left, dfk_bands *b);
df_tensor *dfk_bands_set_begin(df_kernel *k, bool left, dfk_bands *b);

/* (input, k, padding; align) -> the band */
int32_t ref_band_part(df_kernel *k), ref_band_part_left(df_kernel *k);
/* (band, k, num_rows, num_cols, padding; align) -> matrices */
int32_t ref_band_matrix(df_kernel *k), ref_band_matrix_left(df_kernel *k);
/* (input, band, k; align) -> matrices with another band */
int32_t ref_band_set(df_kernel *k), ref_band_set_left(df_kernel *k);
#endif
