/* image.c: entries of what is done to pictures [batch, height, width, channels]: other sizes, parts, colours, with
 * TensorFlow's names and attributes. Kernels are in kernels/ref/resize.c, crop.c and colour.c; the other functions of
 * df.image are made of these and of array ops.
 */
#include "ops/array.h"
#include "kernels/image.h"

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* The pictures of input 0, in the size that input 1 says. */
static int32_t shape_resize(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0), size = dfi_in_as_shape(c, 1);
  int32_t code = dfi_infer_rank(c, 0, 4, "the pictures");
  if (!code) code = dfi_infer_rank(c, 1, 1, "size");
  if (code) return code;
  if (size.rank >= 0 && size.rank != 2)
    return dfi_infer_fail(c, "size has %d numbers, a height and a width are expected", size.rank);
  const bool known = size.rank == 2, of = x->rank == 4;
  *dfi_set_shape(c, 0) = dfi_shape_of(4, (int64_t[]){ of ? x->dims[0] : -1, known ? size.dims[0] : -1,
                                                      known ? size.dims[1] : -1, of ? x->dims[3] : -1 });
  return DF_OK;
}
static int32_t shape_second(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  return DF_OK;
}

static int32_t shape_crop(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0), *boxes = dfi_in_shape(c, 1), size = dfi_in_as_shape(c, 3);
  int32_t code = dfi_infer_rank(c, 0, 4, "the pictures");
  if (!code) code = dfi_infer_rank(c, 1, 2, "boxes");
  if (!code) code = dfi_infer_rank(c, 2, 1, "box_ind");
  if (code) return code;
  if (size.rank >= 0 && size.rank != 2)
    return dfi_infer_fail(c, "crop_size has %d numbers, a height and a width are expected", size.rank);
  const bool known = size.rank == 2;
  *dfi_set_shape(c, 0) = dfi_shape_of(4, (int64_t[]){ boxes->rank < 0 ? -1 : boxes->dims[0],
                                                      known ? size.dims[0] : -1, known ? size.dims[1] : -1,
                                                      x->rank < 0 ? -1 : x->dims[3] });
  return DF_OK;
}
static int32_t shape_crop_image(dfi_infer *c) {
  const dfi_shape size = dfi_in_as_shape(c, 3);
  if (size.rank >= 0 && size.rank != 4)
    return dfi_infer_fail(c, "image_size has %d numbers: expected 4", size.rank);
  *dfi_set_shape(c, 0) = size.rank < 0 ? dfi_shape_of(4, (int64_t[]){ -1, -1, -1, -1 }) : size;
  return DF_OK;
}
static int32_t shape_crop_boxes(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 2);
  return DF_OK;
}

static int32_t shape_colours(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  char text[160];
  if (x->rank == 0 || (x->rank > 0 && x->dims[x->rank - 1] >= 0 && x->dims[x->rank - 1] != 3))
    return dfi_infer_fail(c, "the last axis of the pictures must have 3 channels, red, green and blue: they are %s",
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), x, text));
  return dfi_shape_same(c);
}
static int32_t shape_contrast(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  if (x->rank >= 0 && x->rank < 3)
    return dfi_infer_fail(c, "images has rank %d but must be [..., height, width, channels]", x->rank);
  return dfi_shape_same(c);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* An op of the same family, with n's two attributes. */
static df_output like(dfi_build *b, const df_node *n, const char *type, df_output x, df_output y) {
  dfi_attr_int(b, "align_corners", n->attrs[0].i);
  dfi_attr_int(b, "half_pixel_centers", n->attrs[1].i);
  return dfi_op(b, type, x, y);
}
/* The height and width of input 0. */
static df_output size_of(dfi_grad *g, df_node *n) {
  const df_output height = dfg_in_dim(g, n, 0, 1), width = dfg_in_dim(g, n, 0, 2);
  return dfi_op(dfg_build(g), "Pack", height, width);
}

static int32_t grad_nearest(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  const df_output size = size_of(g, n);
  dx[0] = like(dfg_build(g), n, "ResizeNearestNeighborGrad", dy[0], size);
  return dfg_end(g);
}
static int32_t grad_bilinear(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  const df_output images = dfg_in(g, n, 0);
  dx[0] = like(dfg_build(g), n, "ResizeBilinearGrad", dy[0], images);
  return dfg_end(g);
}
static int32_t grad_bicubic(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  const df_output images = dfg_in(g, n, 0);
  dx[0] = like(dfg_build(g), n, "ResizeBicubicGrad", dy[0], images);
  return dfg_end(g);
}
static int32_t grad_sampled_of(dfi_grad *g, df_node *n, const char *type, df_output x, df_output y, df_output *dx) {
  if (dfg_unknown(g, n, 2, 4)) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  const df_output scale = dfg_in(g, n, 2), moved = dfg_in(g, n, 3);
  dfi_attr_string(b, "kernel_type", n->attrs[0].s);
  dfi_attr_int(b, "antialias", n->attrs[1].i);
  *dx = dfi_op(b, type, x, y, scale, moved);
  return dfg_end(g);
}
static int32_t grad_sampled(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  df_output images = dfg_in(g, n, 0);
  return grad_sampled_of(g, n, "ScaleAndTranslateGrad", dy[0], images, dx);
}
static int32_t grad_sampled_back(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  df_output height = dfg_in_dim(g, n, 0, 1), width = dfg_in_dim(g, n, 0, 2);
  return grad_sampled_of(g, n, "ScaleAndTranslate", dy[0], dfi_op(dfg_build(g), "Pack", height, width), dx);
}
/* These are linear in the gradient that they take back, and what takes it there is the forward op. */
#define GRAD_BACK(name, TYPE) \
  static int32_t grad_##name##_back(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) { \
    const df_output size = size_of(g, n); \
    dx[0] = like(dfg_build(g), n, TYPE, dy[0], size); \
    return dfg_end(g); \
  }
GRAD_BACK(nearest, "ResizeNearestNeighbor")
GRAD_BACK(bilinear, "ResizeBilinear")
GRAD_BACK(bicubic, "ResizeBicubic")

static int32_t grad_crop(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output boxes = dfg_in(g, n, 1), of = dfg_in(g, n, 2);
  const uint8_t dtype = dfi_dtype(n->in[0]);
  if (dfg_wants(g, n, 0) && dtype != DF_BFLOAT16) {
    const df_output size = dfg_in_shape(g, n, 0);
    dfi_attr_int(b, "T", dtype);
    dfi_attr_string(b, "method", n->attrs[0].s);
    dx[0] = dfi_op(b, "CropAndResizeGradImage", dy[0], boxes, of, size);
  }
  if (dfg_wants(g, n, 1)) {
    const df_output images = dfg_in(g, n, 0);
    dx[1] = dfi_op(b, "CropAndResizeGradBoxes", dy[0], images, boxes, of);
  }
  return dfg_end(g);
}
static int32_t grad_crop_image(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output boxes = dfg_in(g, n, 1), of = dfg_in(g, n, 2);
  if (dfg_wants(g, n, 0)) {
    const df_output size = size_of(g, n);
    dfi_attr_string(b, "method", n->attrs[1].s);
    dx[0] = dfi_op(b, "CropAndResize", dy[0], boxes, of, size);
  }
  if (dfg_wants(g, n, 1)) {
    const df_output grads = dfg_in(g, n, 0);
    dx[1] = dfi_op(b, "CropAndResizeGradBoxes", grads, dy[0], boxes, of);
  }
  return dfg_end(g);
}

static int32_t grad_contrast(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output factor = dfg_in(g, n, 1), axes = dfi_const_ints(b, 2, (int64_t[]){ -3, -2 });
  dx[0] = dfi_op(b, "AdjustContrastv2", dy[0], factor);
  if (!dfg_wants(g, n, 1)) return dfg_end(g);
  const df_output images = dfg_in(g, n, 0);
  dfi_attr_int(b, "keep_dims", 1);
  const df_output mean = dfi_op(b, "Mean", images, axes);
  const df_output all = dfi_op(b, "Mul", dy[0], dfi_op(b, "Sub", images, mean));
  dfi_attr_int(b, "DstT", DF_FLOAT32);
  const df_output each = dfi_op(b, "Cast", all);
  dx[1] = dfi_op(b, "Sum", each, dfi_op(b, "Range", dfi_const_int(b, 0), dfi_op(b, "Rank", each), dfi_const_int(b, 1)));
  return dfg_end(g);
}

/* The three channels of pictures. */
static bool channels(dfi_build *b, df_output x, df_output *out) {
  dfi_attr_int(b, "num", 3);
  dfi_attr_int(b, "axis", -1);
  df_node *parts = dfi_opnode(b, "Unpack", 1, &x);
  for (int32_t i = 0; i < 3 && parts; i++) out[i] = (df_output){ parts, i };
  return parts != NULL;
}
static df_output picture(dfi_build *b, const df_output *channel) {
  dfi_attr_int(b, "axis", -1);
  df_node *packed = dfi_opnode(b, "Pack", 3, channel);
  return packed ? (df_output){ packed, 0 } : DFI_NONE;
}
static df_output op2(dfi_build *b, const char *type, df_output x, df_output y) { return dfi_op(b, type, x, y); }
static df_output times(dfi_build *b, df_output x, double by) { return op2(b, "Mul", x, dfi_const_like(b, x, by)); }
/* 1 where x is y, as numbers like x. */
static df_output where_equal(dfi_build *b, df_output x, df_output y) {
  const df_output equal = op2(b, "Equal", x, y);
  dfi_attr_int(b, "DstT", dfi_dtype(x));
  return dfi_op(b, "Cast", equal);
}
/* 1 in the first channel that is y, and 0 in the others; order: which channel comes first. */
static void first_equal(dfi_build *b, const df_output *x, df_output y, const int32_t *order, df_output *is) {
  df_output none = dfi_const_like(b, y, 1);
  for (int32_t i = 0; i < 3; i++) {
    const df_output equal = where_equal(b, x[order[i]], y);
    is[order[i]] = op2(b, "Mul", none, equal);
    none = op2(b, "Mul", none, op2(b, "Sub", dfi_const_like(b, y, 1), equal));
  }
}

/* With M and m the greatest and least channel, C = M - m, and d the difference of the other two: value = M,
 * saturation = C / M where M > 0, hue = d / 6C + a constant of the sextant. Where two channels are equal the kernel's
 * order says which is meant; gray has no hue and black no saturation, and gives 0. */
static int32_t grad_to_hsv(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output x[3], t[3], high[3], low[3], part[3];
  if (!channels(b, dfg_in(g, n, 0), x) || !channels(b, dy[0], t)) return dfg_end(g);
  const df_output most = op2(b, "Maximum", op2(b, "Maximum", x[0], x[1]), x[2]);
  const df_output least = op2(b, "Minimum", op2(b, "Minimum", x[0], x[1]), x[2]), range = op2(b, "Sub", most, least);
  first_equal(b, x, most, (int32_t[]){ 0, 1, 2 }, high);
  first_equal(b, x, least, (int32_t[]){ 2, 1, 0 }, low);
  df_output difference = DFI_NONE;
  for (int32_t i = 0; i < 3; i++) {
    const df_output d = op2(b, "Mul", high[i], op2(b, "Sub", x[(i + 1) % 3], x[(i + 2) % 3]));
    difference = i ? op2(b, "Add", difference, d) : d;
  }
  const df_output sixth = times(b, range, 6), of_difference = op2(b, "DivNoNan", t[0], sixth);
  const df_output of_range = op2(b, "DivNoNan", op2(b, "Mul", of_difference, difference), range);
  const df_output lit = op2(b, "Greater", most, dfi_const_like(b, most, 0));
  dfi_attr_int(b, "DstT", dfi_dtype(most));
  const df_output share = op2(b, "DivNoNan", op2(b, "Mul", t[1], dfi_op(b, "Cast", lit)), most);
  const df_output of_least = op2(b, "Sub", of_range, share);
  const df_output turned = op2(b, "DivNoNan", op2(b, "Mul", share, least), most);
  const df_output of_most = op2(b, "Sub", op2(b, "Add", t[2], turned), of_range);
  for (int32_t i = 0; i < 3; i++) {
    const df_output sign = op2(b, "Sub", high[(i + 2) % 3], high[(i + 1) % 3]);
    part[i] = op2(b, "Add", op2(b, "Mul", high[i], of_most), op2(b, "Mul", low[i], of_least));
    part[i] = op2(b, "Add", part[i], op2(b, "Mul", sign, of_difference));
  }
  dx[0] = picture(b, part);
  return dfg_end(g);
}

/* Each channel is value * (1 - saturation * (1 - k)), where k, within 0 and 1, goes up and down with hue. */
static int32_t grad_to_rgb(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  static const double middle[3] = { 3, 2, 4 };
  dfi_build *b = dfg_build(g);
  df_output x[3], t[3], part[3] = { DFI_NONE, DFI_NONE, DFI_NONE };
  if (!channels(b, dfg_in(g, n, 0), x) || !channels(b, dy[0], t)) return dfg_end(g);
  const df_output zero = dfi_const_like(b, x[0], 0), one = dfi_const_like(b, x[0], 1), at = times(b, x[0], 6);
  const df_output both = op2(b, "Mul", x[1], x[2]);
  for (int32_t i = 0; i < 3; i++) {
    const df_output off = op2(b, "Sub", at, dfi_const_like(b, at, middle[i])), far = dfi_op(b, "Abs", off);
    const df_output free = i ? op2(b, "Sub", dfi_const_like(b, at, 2), far) : op2(b, "Sub", far, one);
    const df_output k = op2(b, "Minimum", one, op2(b, "Maximum", zero, free));
    const df_output slope = times(b, op2(b, "Mul", dfi_op(b, "Sign", off), where_equal(b, k, free)), i ? -6 : 6);
    const df_output less = op2(b, "Sub", k, one);
    const df_output of[3] = { op2(b, "Mul", op2(b, "Mul", both, slope), t[i]), op2(b, "Mul", op2(b, "Mul", x[2], less),
                              t[i]), op2(b, "Mul", op2(b, "Add", one, op2(b, "Mul", x[1], less)), t[i]) };
    for (int32_t c = 0; c < 3; c++) part[c] = i ? op2(b, "Add", part[c], of[c]) : of[c];
  }
  dx[0] = picture(b, part);
  return dfg_end(g);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

#define HOW "align_corners:bool=false half_pixel_centers:bool=false"
#define SIZES "; align_corners, half_pixel_centers): the pictures in this height and width"
#define BACK(TYPE, IN, TYPES, SHAPE, GRAD, KERNEL, OF) \
  { .type = TYPE, .in = IN, .out = "output:T", .types = TYPES, .attrs = HOW, \
    .doc = "the gradient of " OF ": what each pixel gave to those of the resized pictures, added up", \
    .shape = SHAPE, .grad = GRAD, .kernel = { [DF_REF] = KERNEL } }

#define SAMPLING "kernel_type:string[lanczos1|lanczos3|lanczos5|gaussian|box|triangle|keyscubic|mitchellcubic]=" \
  "'lanczos3' antialias:bool=true"

static const df_op ops[] = {
  { .type = "ResizeNearestNeighbor", .lua = "resize_nearest_neighbor", .in = "images:T size:int32",
    .out = "resized_images:T", .types = "T=number", .attrs = HOW,
    .doc = "T[batch, new_height, new_width, channels] = resize_nearest_neighbor(images T[batch, height, width, "
    "channels], size int32[2]" SIZES ", each pixel one of the old ones",
    .example = "df.resize_nearest_neighbor(df.constant({{{{1}, {2}}}}, 'float32'), {1, 4})",
    .output = "[[[[1.]\n   [1.]\n   [2.]\n   [2.]]]] float32[1,1,4,1]",
    .derivative = "each pixel gets the sum of dy where it was put",
    .shape = shape_resize, .grad = grad_nearest, .kernel = { [DF_REF] = ref_resize_nearest } },
  { .type = "ScaleAndTranslate", .lua = "scale_and_translate",
    .in = "images:T size:int32 scale:float32 translation:float32", .out = "resized_images:float32", .types = "T=number",
    .attrs = SAMPLING,
    .doc = "float32[batch, new_height, new_width, channels] = scale_and_translate(images T[batch, height, width, "
    "channels], size int32[2], scale float32[2], translation float32[2]; kernel_type, antialias): the pictures made "
    "larger by scale, then moved, as a picture of this height and width shows of them; each pixel below a kernel, "
    "which with antialias is wider where they become smaller",
    .example = "df.scale_and_translate(df.constant({{{{1}, {2}}}}, 'float32'), {1, 4}, {1.0, 2.0}, {0.0, 0.0}, "
    "{kernel_type = 'triangle'})",
    .output = "[[[[1.00]\n   [1.25]\n   [1.75]\n   [2.00]]]] float32[1,1,4,1]", .see = "resize_bilinear image.resize",
    .derivative = "each pixel gets dy as it gave to the resized pictures",
    .shape = shape_resize, .grad = grad_sampled, .kernel = { [DF_REF] = ref_scale_and_translate } },
  { .type = "ScaleAndTranslateGrad", .in = "grads:T original_image:T scale:float32 translation:float32",
    .out = "output:T", .types = "T=float32", .attrs = SAMPLING,
    .doc = "the gradient of ScaleAndTranslate: what each pixel gave to those of the resized pictures, added up",
    .shape = shape_second, .grad = grad_sampled_back, .kernel = { [DF_REF] = ref_scale_and_translate_grad } },
  { .type = "ResizeBilinear", .lua = "resize_bilinear", .in = "images:T size:int32", .out = "resized_images:float32",
    .types = "T=number", .attrs = HOW,
    .doc = "float32[batch, new_height, new_width, channels] = resize_bilinear(images T[batch, height, width, "
    "channels], size int32[2]" SIZES ", each pixel of the four around its place",
    .example = "df.resize_bilinear(df.constant({{{{1}, {2}}}}, 'float32'), {1, 4})",
    .output = "[[[[1.0]\n   [1.5]\n   [2.0]\n   [2.0]]]] float32[1,1,4,1]",
    .derivative = "each pixel gets dy as it gave to the resized pictures",
    .shape = shape_resize, .grad = grad_bilinear, .kernel = { [DF_REF] = ref_resize_bilinear } },
  { .type = "ResizeBicubic", .lua = "resize_bicubic", .in = "images:T size:int32", .out = "resized_images:float32",
    .types = "T=number", .attrs = HOW,
    .doc = "float32[batch, new_height, new_width, channels] = resize_bicubic(images T[batch, height, width, "
    "channels], size int32[2]" SIZES ", each pixel of the sixteen around its place, by cubic polynomials",
    .example = "df.resize_bicubic(df.constant({{{{1}, {2}}}}, 'float32'), {1, 4})",
    .output = "[[[[1.0000]\n   [1.5000]\n   [2.0000]\n   [2.0938]]]] float32[1,1,4,1]",
    .derivative = "each pixel gets dy as it gave to the resized pictures",
    .shape = shape_resize, .grad = grad_bicubic, .kernel = { [DF_REF] = ref_resize_bicubic } },
  { .type = "ResizeArea", .lua = "resize_area", .in = "images:T size:int32", .out = "resized_images:float32",
    .types = "T=number", .attrs = "align_corners:bool=false",
    .doc = "float32[batch, new_height, new_width, channels] = resize_area(images T[batch, height, width, channels], "
    "size int32[2]; align_corners): the pictures in this height and width, each pixel the mean of what it covers",
    .example = "df.resize_area(df.constant({{{{1}, {2}, {6}}}}, 'float32'), {1, 2})",
    .output = "[[[[1.3333]\n   [4.6667]]]] float32[1,1,2,1]",
    .derivative = "none: TensorFlow has none, and exports would not run",
    .shape = shape_resize, .kernel = { [DF_REF] = ref_resize_area } },
  BACK("ResizeNearestNeighborGrad", "grads:T size:int32", "T=number", shape_resize, grad_nearest_back,
       ref_resize_nearest_grad, "ResizeNearestNeighbor"),
  BACK("ResizeBilinearGrad", "grads:float32 original_image:T", "T=float", shape_second, grad_bilinear_back,
       ref_resize_bilinear_grad, "ResizeBilinear"),
  BACK("ResizeBicubicGrad", "grads:float32 original_image:T", "T=float", shape_second, grad_bicubic_back,
       ref_resize_bicubic_grad, "ResizeBicubic"),
  { .type = "CropAndResize", .lua = "crop_and_resize",
    .in = "image:T boxes:float32 box_ind:int32 crop_size:int32", .out = "crops:float32",
    .types = "T=number", .attrs = "method:string[bilinear|nearest]='bilinear' extrapolation_value:float=0",
    .doc = "float32[n, crop_height, crop_width, channels] = crop_and_resize(image T[batch, height, width, channels], "
    "boxes float32[n, 4], box_ind int32[n], crop_size int32[2]; method, extrapolation_value): what lies in each box "
    "{y1, x1, y2, x2} (0 is the first row or column, 1 the last) of picture box_ind, all in one size. method is "
    "'bilinear' or 'nearest'. Error: box_ind names no picture",
    .example = "df.crop_and_resize(df.constant({{{{1}, {2}, {3}}}}, 'float32'), {{0, 0, 0, 0.5}}, {0}, {1, 3})",
    .output = "[[[[1.0]\n   [1.5]\n   [2.0]]]] float32[1,1,3,1]",
    .derivative = "each pixel gets dy as it gave to the crops; the boxes get how fast these change as their edges "
    "move",
    .shape = shape_crop, .grad = grad_crop, .kernel = { [DF_REF] = ref_crop_and_resize } },
  { .type = "CropAndResizeGradImage", .in = "grads:float32 boxes:float32 box_ind:int32 image_size:int32",
    .out = "output:T", .types = "T=float16|float32|float64",
    .attrs = "T:dtype method:string[bilinear|nearest]='bilinear'",
    .doc = "the gradient of CropAndResize by the pictures",
    .shape = shape_crop_image, .grad = grad_crop_image,
    .kernel = { [DF_REF] = ref_crop_and_resize_grad_image } },
  { .type = "CropAndResizeGradBoxes", .in = "grads:float32 image:T boxes:float32 box_ind:int32",
    .out = "output:float32", .types = "T=number", .attrs = "method:string[bilinear|nearest]='bilinear'",
    .doc = "the gradient of CropAndResize by the boxes", .shape = shape_crop_boxes,
    .kernel = { [DF_REF] = ref_crop_and_resize_grad_boxes } },
  { .type = "RGBToHSV", .lua = "rgb_to_hsv", .in = "images:T", .out = "output:T", .types = "T=float",
    .doc = "T[..., 3] = rgb_to_hsv(images T[..., 3]): red, green and blue as hue, saturation and value, all in [0, 1]",
    .example = "df.rgb_to_hsv({0.0, 1.0, 0.5})",
    .output = "[0.4167 1.0000 1.0000] float32[3]",
    .derivative = "that of the sextant that hue lies in; hue's is 0 for grays, saturation's 0 for black",
    .domain = "0.1 0.9", .shape = shape_colours, .grad = grad_to_hsv, .kernel = { [DF_REF] = ref_rgb_to_hsv } },
  { .type = "HSVToRGB", .lua = "hsv_to_rgb", .in = "images:T", .out = "output:T", .types = "T=float",
    .doc = "T[..., 3] = hsv_to_rgb(images T[..., 3]): hue, saturation and value as red, green and blue",
    .example = "df.hsv_to_rgb({0.25, 1.0, 0.5})",
    .output = "[0.25 0.50 0.00] float32[3]",
    .derivative = "that of the sextant that hue lies in",
    .domain = "0.1 0.9", .shape = shape_colours, .grad = grad_to_rgb, .kernel = { [DF_REF] = ref_hsv_to_rgb } },
  { .type = "AdjustHue", .in = "images:T delta:float32", .out = "output:T", .types = "T=float16|float32",
    .doc = "the pictures with the hue of each pixel turned by delta, of which 1 is all the way round",
    .shape = shape_colours, .kernel = { [DF_REF] = ref_adjust_hue } },
  { .type = "AdjustSaturation", .in = "images:T scale:float32", .out = "output:T", .types = "T=float16|float32",
    .doc = "the pictures with the saturation of each pixel times scale, within [0, 1]",
    .shape = shape_colours, .kernel = { [DF_REF] = ref_adjust_saturation } },
  { .type = "AdjustContrastv2", .in = "images:T contrast_factor:float32", .out = "output:T",
    .types = "T=float16|float32",
    .doc = "(x - mean) * contrast_factor + mean, where mean is that of the channel of the picture",
    .shape = shape_contrast, .grad = grad_contrast, .kernel = { [DF_REF] = ref_adjust_contrast } },
};
const dfi_op_table dfi_ops_image = { ops, (int32_t)(sizeof ops / sizeof *ops) };
