/* image.h: kernels of pictures [batch, height, width, channels]: other sizes, parts of them, colours. TensorFlow's
 * numbers: where an output lies is computed in float32, as there. */
#ifndef DFLOW_KERNELS_IMAGE_H
#define DFLOW_KERNELS_IMAGE_H
#include "kernel.h"

/* (images, size int32[2]; align_corners, half_pixel_centers), without the second attribute for area: ref/resize.c */
int32_t ref_resize_nearest(df_kernel *k), ref_resize_bilinear(df_kernel *k), ref_resize_bicubic(df_kernel *k);
int32_t ref_resize_area(df_kernel *k);
/* (images, size, scale, translation; kernel_type, antialias) and (grads, original_image, scale, translation; …) */
int32_t ref_scale_and_translate(df_kernel *k), ref_scale_and_translate_grad(df_kernel *k);
/* (grads, size int32[2] of the images, or the images): what each pixel gave, added up */
int32_t ref_resize_nearest_grad(df_kernel *k), ref_resize_bilinear_grad(df_kernel *k);
int32_t ref_resize_bicubic_grad(df_kernel *k);

/* (image, boxes[n, 4], box_ind[n], crop_size int32[2]; method, extrapolation_value): ref/crop.c */
int32_t ref_crop_and_resize(df_kernel *k);
int32_t ref_crop_and_resize_grad_image(df_kernel *k);     /* (grads, boxes, box_ind, image_size int32[4]; T, method) */
int32_t ref_crop_and_resize_grad_boxes(df_kernel *k);     /* (grads, image, boxes, box_ind; method) */

/* (images [..., 3]), ref/colour.c; hue, saturation and value are in [0, 1] where the picture is */
int32_t ref_rgb_to_hsv(df_kernel *k), ref_hsv_to_rgb(df_kernel *k);
int32_t ref_adjust_hue(df_kernel *k);                     /* (images, delta) */
int32_t ref_adjust_saturation(df_kernel *k);              /* (images, scale) */
int32_t ref_adjust_contrast(df_kernel *k);                /* (images [..., height, width, channels], contrast_factor) */

/* image.c: are these colours; is input 1 one number? How contrast begins. False, NULL: the error is filled. */
bool dfk_colours(df_kernel *k, const df_tensor *t);
bool dfk_colour_amount(df_kernel *k, const char *what);
df_tensor *dfk_contrast_begin(df_kernel *k);

/* Parts of pictures: n of them [height, width, depth], each of the picture `of` it, `batch` of [rows, columns, depth].
 * How the three kernels begin, of which `of` is read, and the boxes are not: output 0; NULL: the error is filled. */
typedef struct dfk_crop {
  const df_tensor *boxes, *of;
  int64_t n, height, width, depth, batch, rows, columns;
  bool nearest;
} dfk_crop;
df_tensor *dfk_crop_begin(df_kernel *k, dfk_crop *c);
df_tensor *dfk_crop_image_begin(df_kernel *k, dfk_crop *c);
df_tensor *dfk_crop_boxes_begin(df_kernel *k, dfk_crop *c);
#endif
