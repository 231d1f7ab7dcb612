/* summary.h: kernels that write TensorFlow's Summary messages, as scalar strings. */
#ifndef DFLOW_KERNELS_SUMMARY_H
#define DFLOW_KERNELS_SUMMARY_H
#include "kernel.h"
#include "move.h"

int32_t ref_scalar_summary(df_kernel *k);      /* (tags, values of one shape) */
int32_t ref_histogram_summary(df_kernel *k);   /* (tag, values) */
int32_t ref_tensor_summary(df_kernel *k);      /* (tag, values, serialized metadata) */
int32_t ref_image_summary(df_kernel *k);       /* (tag, tensor[batch, h, w, c]; max_images, bad_color) */
int32_t ref_audio_summary(df_kernel *k);       /* (tag, tensor[batch, frames]; sample_rate, max_outputs) */
int32_t ref_audio_summary_v2(df_kernel *k);    /* (tag, tensor, sample_rate; max_outputs) */
int32_t ref_merge_summary(df_kernel *k);       /* (summaries…): no tag twice */
#endif
