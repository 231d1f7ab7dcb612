/* summary.c: TensorFlow's summaries, for imported graphs that fetch them. df.summary writes event files. */
#include "op/op.h"
#include "kernels/summary.h"

static const df_op ops[] = {
  { .type = "ScalarSummary", .in = "tags:string values:T", .out = "summary:string", .types = "T=number",
    .doc = "a serialized Summary of numbers under their tags", .shape = dfi_shape_all_scalar, .no_grad = true,
    .kernel = { [DF_REF] = ref_scalar_summary } },
  { .type = "HistogramSummary", .in = "tag:string values:T", .out = "summary:string", .types = "T=number",
    .doc = "a serialized Summary of a histogram under its tag. Error: a value is not finite",
    .shape = dfi_shape_all_scalar, .no_grad = true, .kernel = { [DF_REF] = ref_histogram_summary } },
  { .type = "TensorSummaryV2", .in = "tag:string tensor:T serialized_summary_metadata:string", .out = "summary:string",
    .types = "T=number|complex|bool|string",
    .doc = "a serialized Summary of a tensor under its tag, with what is told of it",
    .shape = dfi_shape_all_scalar, .no_grad = true, .kernel = { [DF_REF] = ref_tensor_summary } },
  { .type = "ImageSummary", .in = "tag:string tensor:T", .out = "summary:string",
    .types = "T=uint8|float16|float32|float64", .attrs = "max_images:int[1..]=3 bad_color:tensor=none",
    .doc = "a serialized Summary of at most max_images pictures[batch, height, width, channels]; of floats the "
    "greatest is white, and a pixel that is not finite has bad_color", .shape = dfi_shape_all_scalar, .no_grad = true,
    .kernel = { [DF_REF] = ref_image_summary } },
  { .type = "AudioSummary", .in = "tag:string tensor:float32", .out = "summary:string",
    .attrs = "sample_rate:float max_outputs:int[1..]=3",
    .doc = "a serialized Summary of at most max_outputs sounds[batch, frames] or [batch, frames, channels] from -1 "
    "to 1",
    .shape = dfi_shape_all_scalar, .no_grad = true, .kernel = { [DF_REF] = ref_audio_summary } },
  { .type = "AudioSummaryV2", .in = "tag:string tensor:float32 sample_rate:float32", .out = "summary:string",
    .attrs = "max_outputs:int[1..]=3",
    .doc = "a serialized Summary of at most max_outputs sounds[batch, frames] or [batch, frames, channels] from -1 "
    "to 1",
    .shape = dfi_shape_all_scalar, .no_grad = true, .kernel = { [DF_REF] = ref_audio_summary_v2 } },
  { .type = "MergeSummary", .in = "inputs:string*", .out = "summary:string",
    .doc = "one serialized Summary of several. Error: a tag is there twice", .shape = dfi_shape_all_scalar,
    .no_grad = true, .kernel = { [DF_REF] = ref_merge_summary } },
};
const dfi_op_table dfi_ops_summary = { ops, sizeof ops / sizeof *ops };
