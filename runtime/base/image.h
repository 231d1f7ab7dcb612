/* image.h: pictures of files as tensors; image.c. */
#ifndef DFLOW_IMAGE_H
#define DFLOW_IMAGE_H
#include "base/internal.h"

/* What TensorFlow's DecodeJpeg says of JPEG pictures: one pixel is made of ratio by ratio (1, 2, 4 or 8; 0: 1);
   channels of lower resolution are widened without smoothing; the faster and less exact transform; what is missing at
   the end of the bytes is gray, and no error. */
typedef struct dfi_jpeg_options { int32_t ratio; bool plain_upscaling, fast_dct, recover; } dfi_jpeg_options;
/* df_decode_image with these. */
df_tensor *dfi_decode_image(const char *bytes, int64_t n, int32_t channels, dfi_jpeg_options jpeg, df_error *err);
#endif
