/* resize.h: pictures in other sizes, but for the arithmetic. Rows and columns are apart: an output is a sum of a few
 * inputs along either axis, its taps, with weights that sizes and attributes alone say. A gradient goes the same way
 * back. Shared by the host's kernels and those of devices.
 */
#ifndef DFLOW_KERNELS_RESIZE_H
#define DFLOW_KERNELS_RESIZE_H
#include "kernel.h"

typedef enum dfk_resizing { DFK_NEAREST, DFK_BILINEAR, DFK_BICUBIC, DFK_AREA, DFK_SAMPLED } dfk_resizing;

/* The taps of the outputs of one axis: of output o those from first[o] to before first[o + 1]. */
typedef struct dfk_taps { int64_t from, to, *first, *at; float *weight; } dfk_taps;

/* `rows` and `columns` are always those from images to what they become, also on the way back. */
typedef struct dfk_pictures {
  dfk_taps rows, columns;
  int64_t  batch, depth;
  const df_tensor *in;
  df_tensor *out;
} dfk_pictures;

/* Checks (images, size; align_corners, half_pixel_centers), of DFK_SAMPLED (images, size, scale, translation;
 * kernel_type, antialias), and makes output 0 and the taps. False: error is filled.
 * Either way dfk_resize_end takes what there is. */
bool dfk_resize_begin(df_kernel *k, dfk_resizing h, dfk_pictures *p);
/* The same of the way back: of nearest (grads, size; the same), of the others (grads, images, …; the same). */
bool dfk_resize_back_begin(df_kernel *k, dfk_resizing h, dfk_pictures *p);
void dfk_resize_end(dfk_pictures *p);
#endif
