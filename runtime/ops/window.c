/* window.c: entries of what slides a window over images [n, h, w, c] or volumes [n, d, h, w, c]: convolutions and
 * pooling. Kernels are in kernels/cpu/window.c and kernels/cpu/convolution.c, for both.
 */
#include "ops/array.h"
#include "ops/window.h"

/* ---- shapes ------------------------------------------------------------------------------------------------ */

/* The size of one axis of the result; -1 when it is not known, -2 when it is wrong and the error is filled. */
static int64_t slide(dfi_infer *c, int64_t in, int64_t window, int64_t stride, int64_t dilation, const char *padding,
                     int64_t before, int64_t after) {
  dfk_slide s = { .in = in, .window = window, .stride = stride, .dilation = dilation };
  char why[200];
  if (in < 0 || window < 0) return -1;
  if (dfk_slide_of(&s, padding, before, after, why, sizeof why)) return s.out;
  dfi_infer_fail(c, "%s", why);
  return -2;
}

static int32_t need_each(dfi_infer *c, const df_attr *a, const char *name, int32_t rank) {
  return a->i == rank ? DF_OK
                      : dfi_infer_fail(c, "%s has %lld numbers, one for each of the %d axes is expected", name,
                                       (long long)a->i, rank);
}

static dfi_shape unknown_of(int32_t rank) { return dfi_shape_of(rank, (int64_t[]){ -1, -1, -1, -1, -1 }); }

/* The channels of the result, -1 where they are not known; *wrong: the error is filled. */
static int64_t channels_of(dfi_infer *c, const dfi_shape *x, const dfi_shape *f, bool depthwise, bool *wrong) {
  const int64_t of_filter = f->dims[f->rank - 2], last = f->dims[f->rank - 1];
  const int64_t ci = x->rank < 0 ? -1 : x->dims[x->rank - 1];
  const int64_t groups = ci >= 0 && of_filter >= 0 ? dfk_groups_of(ci, of_filter) : 1;
  *wrong = groups < 0 || (depthwise && groups > 1) || (last >= 0 && last % groups);
  if (!*wrong) return !depthwise ? last : of_filter < 0 || last < 0 ? -1 : of_filter * last;
  if (groups > 0 && !depthwise)
    dfi_infer_fail(c, "the filter gives %lld channels, which its %lld groups do not divide", (long long)last,
                   (long long)groups);
  else
    dfi_infer_fail(c, "the input has %lld channels, the filter is for %lld", (long long)ci, (long long)of_filter);
  return -1;
}

int32_t dfi_shape_conv(dfi_infer *c, dfk_conv_attrs a, int32_t rank, bool depthwise) {
  int32_t code = dfi_infer_rank(c, 0, rank, "the input");
  if (!code) code = dfi_infer_rank(c, 1, rank, "the filter");
  if (!code) code = need_each(c, a.strides, "strides", rank);
  if (!code) code = need_each(c, a.dilations, "dilations", rank);
  const bool given = a.pads && !strcmp(a.padding->s, "EXPLICIT");
  if (!code && given && a.pads->i != 2 * rank)
    code = dfi_infer_fail(c, "explicit_paddings has %lld numbers, two for each of the %d axes are expected",
                          (long long)a.pads->i, rank);
  if (code || !dfk_channels_last(a.format->s)) return code;
  const dfi_shape *x = dfi_in_shape(c, 0), *f = dfi_in_shape(c, 1);
  dfi_shape y = unknown_of(rank);
  bool wrong = false;
  if (f->rank == rank) y.dims[rank - 1] = channels_of(c, x, f, depthwise, &wrong);
  for (int32_t d = 1; d < rank - 1 && x->rank == rank && f->rank == rank && !wrong; d++) {
    y.dims[d] = slide(c, x->dims[d], f->dims[d - 1], a.strides->ints[d], a.dilations->ints[d], a.padding->s,
                      given ? a.pads->ints[2 * d] : 0, given ? a.pads->ints[2 * d + 1] : 0);
    wrong = y.dims[d] == -2;
  }
  if (wrong) return c->error->code;
  if (x->rank == rank) y.dims[0] = x->dims[0];
  *dfi_set_shape(c, 0) = y;
  return DF_OK;
}
static int32_t shape_conv_of(dfi_infer *c, int32_t rank, bool depthwise) {
  return dfi_shape_conv(c, dfk_conv_attrs_of(c->node->attrs, rank), rank, depthwise);
}
static int32_t shape_conv(dfi_infer *c)      { return shape_conv_of(c, 4, false); }
static int32_t shape_conv_3d(dfi_infer *c)   { return shape_conv_of(c, 5, false); }
static int32_t shape_depthwise(dfi_infer *c) { return shape_conv_of(c, 4, true); }

static int32_t shape_sizes(dfi_infer *c, int32_t input, int32_t rank) {
  dfi_shape s = dfi_in_as_shape(c, input);
  if (s.rank >= 0 && s.rank != rank)
    return dfi_infer_fail(c, "the sizes have %d numbers: expected %d", s.rank, rank);
  *dfi_set_shape(c, 0) = s.rank < 0 ? unknown_of(rank) : s;
  return DF_OK;
}
static int32_t shape_sizes_0(dfi_infer *c)    { return shape_sizes(c, 0, 4); }
static int32_t shape_sizes_1(dfi_infer *c)    { return shape_sizes(c, 1, 4); }
static int32_t shape_sizes_0_3d(dfi_infer *c) { return shape_sizes(c, 0, 5); }
static int32_t shape_sizes_1_3d(dfi_infer *c) { return shape_sizes(c, 1, 5); }

int32_t dfi_shape_pool(dfi_infer *c, int32_t rank, const char *format) {
  const df_attr *a = c->node->attrs;
  int32_t code = dfi_infer_rank(c, 0, rank, "the input");
  if (!code) code = need_each(c, &a[0], "ksize", rank);
  if (!code) code = need_each(c, &a[1], "strides", rank);
  if (code || !dfk_channels_last(format)) return code;
  dfi_shape y = *dfi_in_shape(c, 0);
  if (y.rank < 0) y = unknown_of(rank);
  for (int32_t d = 1; d < rank - 1; d++)
    if ((y.dims[d] = slide(c, y.dims[d], a[0].ints[d], a[1].ints[d], 1, a[2].s, 0, 0)) == -2) return c->error->code;
  *dfi_set_shape(c, 0) = y;
  return DF_OK;
}
static int32_t shape_pool(dfi_infer *c)    { return dfi_shape_pool(c, 4, c->node->attrs[3].s); }
static int32_t shape_pool_3d(dfi_infer *c) { return dfi_shape_pool(c, 5, c->node->attrs[3].s); }

/* The shape of input 1. */
static int32_t shape_second(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  return DF_OK;
}

/* ---- gradients ------------------------------------------------------------------------------------------------ */

/* An op of the same family, with n's attributes. */
static df_output like(dfi_build *b, df_node *n, const char *type, int32_t count, const df_output *in) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  for (int32_t a = 0; a < o->nattr; a++) {
    if (o->attr[a].type == 'l') dfi_attr_ints(b, o->attr[a].name, (int32_t)n->attrs[a].i, n->attrs[a].ints);
    else dfi_attr_string(b, o->attr[a].name, n->attrs[a].s);
  }
  return dfi_opn(b, type, count, in);
}
#define LIKE(type, ...) like(dfg_build(g), n, type, \
  (int32_t)(sizeof((df_output[]){ __VA_ARGS__ }) / sizeof(df_output)), (df_output[]){ __VA_ARGS__ })

/* The three ops of a family are each other's gradients: each is linear in each of its inputs. */
typedef struct family { const char *forward, *to_input, *to_filter; } family;
static const family plain = { "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter" };
static const family volumes = { "Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2" };
static const family depthwise = { "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
                                  "DepthwiseConv2dNativeBackpropFilter" };

static int32_t grad_forward(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const family *of) {
  if (dfg_wants(g, n, 0)) {
    df_output s = dfg_in_shape(g, n, 0), f = dfg_in(g, n, 1);
    dx[0] = LIKE(of->to_input, s, f, dy[0]);
  }
  if (dfg_wants(g, n, 1)) {
    df_output x = dfg_in(g, n, 0), s = dfg_in_shape(g, n, 1);
    dx[1] = LIKE(of->to_filter, x, s, dy[0]);
  }
  return dfg_end(g);
}
static int32_t grad_to_input(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const family *of) {
  if (dfg_wants(g, n, 1)) {
    df_output s = dfg_in_shape(g, n, 1), o = dfg_in(g, n, 2);
    dx[1] = LIKE(of->to_filter, dy[0], s, o);
  }
  if (dfg_wants(g, n, 2)) { df_output f = dfg_in(g, n, 1); dx[2] = LIKE(of->forward, dy[0], f); }
  return dfg_end(g);
}
static int32_t grad_to_filter(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const family *of) {
  if (dfg_wants(g, n, 0)) {
    df_output s = dfg_in_shape(g, n, 0), o = dfg_in(g, n, 2);
    dx[0] = LIKE(of->to_input, s, dy[0], o);
  }
  if (dfg_wants(g, n, 2)) { df_output x = dfg_in(g, n, 0); dx[2] = LIKE(of->forward, x, dy[0]); }
  return dfg_end(g);
}
#define FAMILY(name) \
  static int32_t grad_##name(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) \
    { return grad_forward(g, n, dy, dx, &name); } \
  static int32_t grad_##name##_input(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) \
    { return grad_to_input(g, n, dy, dx, &name); } \
  static int32_t grad_##name##_filter(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) \
    { return grad_to_filter(g, n, dy, dx, &name); }
FAMILY(plain)
FAMILY(volumes)
FAMILY(depthwise)

/* So are those of a pool, for a greatest number that stays where it is. */
typedef struct pools { const char *max, *max_grad, *max_grad_grad, *average, *average_grad; } pools;
static const pools of_images = { "MaxPool", "MaxPoolGrad", "MaxPoolGradGrad", "AvgPool", "AvgPoolGrad" };
static const pools of_volumes = { "MaxPool3D", "MaxPool3DGrad", "MaxPool3DGradGrad", "AvgPool3D", "AvgPool3DGrad" };

static const pools *pools_of(const df_node *n) { return n->attrs[0].i == 5 ? &of_volumes : &of_images; }

static int32_t grad_max_pool(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  df_output x = dfg_in(g, n, 0), y = dfg_out(g, n, 0);
  dx[0] = LIKE(pools_of(n)->max_grad, x, y, dy[0]);
  return dfg_end(g);
}
static int32_t grad_max_pool_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dfg_wants(g, n, 2)) return dfg_end(g);
  df_output x = dfg_in(g, n, 0), y = dfg_in(g, n, 1);
  dx[2] = LIKE(pools_of(n)->max_grad_grad, x, y, dy[0]);
  return dfg_end(g);
}
static int32_t grad_max_pool_grad_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dfg_wants(g, n, 2)) return dfg_end(g);
  df_output x = dfg_in(g, n, 0), y = dfg_in(g, n, 1);
  dx[2] = LIKE(pools_of(n)->max_grad, x, y, dy[0]);
  return dfg_end(g);
}
static int32_t grad_avg_pool(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  df_output s = dfg_in_shape(g, n, 0);
  dx[0] = LIKE(pools_of(n)->average_grad, s, dy[0]);
  return dfg_end(g);
}
static int32_t grad_avg_pool_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[1] = LIKE(pools_of(n)->average, dy[0]);
  return dfg_end(g);
}

/* ---- costs, in ns; entries -------------------------------------------------------------------------------------- */
static double cost_conv(const df_kernel *k) {
  const df_tensor *in = k->in[0], *f = k->in[1];
  double taps = f->rank >= 4 ? (double)f->size : 1, pixels = 1;
  for (int32_t d = 0; in->rank >= 4 && d < in->rank - 1; d++) pixels *= (double)in->dims[d];
  return 100 + 0.1 * taps * pixels;
}
static double cost_pool(const df_kernel *k) { return 100 + 2 * (double)k->in[k->nin - 1]->size; }

#define CONV .attrs = "strides:ints[1..] padding:string[SAME|VALID|EXPLICIT] explicit_paddings:ints=[] " \
  "data_format:string[NHWC|NCHW]='NHWC' dilations:ints[1..]=[1,1,1,1]", \
  .types = "T=float", .cost = cost_conv
#define CONV_3D .attrs = "strides:ints[1..] padding:string[SAME|VALID] data_format:string[NDHWC|NCDHW]='NDHWC' " \
  "dilations:ints[1..]=[1,1,1,1,1]", \
  .cost = cost_conv, .work = dfi_work_convolution
#define POOL_ATTRS .attrs = "ksize:ints[1..] strides:ints[1..] padding:string[SAME|VALID|EXPLICIT] " \
  "data_format:string[NHWC|NCHW]='NHWC'", \
  .cost = cost_pool
#define POOL POOL_ATTRS, .types = "T=float"
#define POOL_3D_ATTRS .attrs = "ksize:ints[1..] strides:ints[1..] padding:string[SAME|VALID] " \
  "data_format:string[NDHWC|NCDHW]='NDHWC'", \
  .cost = cost_pool
#define POOL_3D POOL_3D_ATTRS, .types = "T=float"

/* Images [n, h, w, c] as a window of attribute 0, with the strides of attribute 1, sees them: [n, oh, ow, ?]. */
static int32_t shape_seen(dfi_infer *c, const df_attr *rates, const df_attr *padding, dfi_shape *y) {
  const df_attr *a = c->node->attrs;
  const dfi_shape *x = dfi_in_shape(c, 0);
  int32_t code = dfi_infer_rank(c, 0, 4, "the input");
  if (!code) code = need_each(c, &a[0], "ksize", 4);
  if (!code) code = need_each(c, &a[1], "strides", 4);
  if (!code && rates) code = need_each(c, rates, "rates", 4);
  *y = unknown_of(4);
  if (code || x->rank != 4) return code;
  y->dims[0] = x->dims[0];
  for (int32_t d = 1; d < 3; d++)
    if ((y->dims[d] = slide(c, x->dims[d], a[0].ints[d], a[1].ints[d], rates ? rates->ints[d] : 1, padding->s, 0,
                            0)) == -2)
      return c->error->code;
  return DF_OK;
}
static int32_t shape_patches(dfi_infer *c) {
  const df_attr *a = c->node->attrs;
  dfi_shape y;
  const int32_t code = shape_seen(c, &a[2], &a[3], &y);
  if (!code) *dfi_set_shape(c, 0) = y;
  return code;
}
static int32_t shape_argmax_pool(dfi_infer *c) {
  dfi_shape y;
  const int32_t code = shape_seen(c, NULL, &c->node->attrs[3], &y);
  if (code) return code;
  if (dfi_in_shape(c, 0)->rank == 4) y.dims[3] = dfi_in_shape(c, 0)->dims[3];
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 1) = y;
  return DF_OK;
}

/* attributes: strides, rates, padding; the filter is [h, w, c] */
static int32_t shape_dilation(dfi_infer *c) {
  const df_attr *a = c->node->attrs;
  const dfi_shape *x = dfi_in_shape(c, 0), *f = dfi_in_shape(c, 1);
  int32_t code = dfi_infer_rank(c, 0, 4, "the input");
  if (!code) code = dfi_infer_rank(c, 1, 3, "the filter");
  if (!code) code = need_each(c, &a[0], "strides", 4);
  if (!code) code = need_each(c, &a[1], "rates", 4);
  if (code || x->rank < 0 || f->rank < 0) return code;
  dfi_shape y = *x;
  for (int32_t d = 1; d < 3; d++)
    if ((y.dims[d] = slide(c, x->dims[d], f->dims[d - 1], a[0].ints[d], a[1].ints[d], a[2].s, 0, 0)) == -2)
      return c->error->code;
  if (x->dims[3] >= 0 && f->dims[2] >= 0 && x->dims[3] != f->dims[2])
    return dfi_infer_fail(c, "the input has %lld channels, the filter %lld", (long long)x->dims[3],
                          (long long)f->dims[2]);
  *dfi_set_shape(c, 0) = y;
  return DF_OK;
}

static int32_t grad_dilation(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  const df_output x = dfg_in(g, n, 0), f = dfg_in(g, n, 1);
  if (dfg_wants(g, n, 0)) dx[0] = LIKE("Dilation2DBackpropInput", x, f, dy[0]);
  if (dfg_wants(g, n, 1)) dx[1] = LIKE("Dilation2DBackpropFilter", x, f, dy[0]);
  return dfg_end(g);
}

static df_output reshaped(dfi_build *b, df_output x, int32_t rank, const df_output *sizes) {
  return dfi_op(b, "Reshape", x, dfi_opn(b, "Pack", rank, sizes));
}

/* Each pixel gets what the patches have of it: their numbers are what the window sees of an image of numbers, from 1
 * on, so that 0 is a tap beside the image. */
static int32_t grad_patches(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output count = dfg_in_dim(g, n, 0, 0), h = dfg_in_dim(g, n, 0, 1), w = dfg_in_dim(g, n, 0, 2),
                  c = dfg_in_dim(g, n, 0, 3), one = dfi_const_int(b, 1), rest = dfi_const_int(b, -1);
  const df_output pixels = dfi_op(b, "Mul", h, w), turn = dfi_const_ints(b, 3, (const int64_t[]){ 1, 0, 2 });
  const df_output numbers = dfi_op(b, "Range", one, dfi_op(b, "Add", pixels, one), one);
  const df_output seen = LIKE("ExtractImagePatches", reshaped(b, numbers, 4, (df_output[]){ one, h, w, one }));
  const df_output number = dfi_op(b, "Sub", reshaped(b, seen, 1, &rest), one);
  const df_output rows = reshaped(b, dy[0], 3, (df_output[]){ count, rest, c });
  const df_output sums = dfi_op(b, "UnsortedSegmentSum", dfi_op(b, "Transpose", rows, turn), number, pixels);
  dx[0] = reshaped(b, dfi_op(b, "Transpose", sums, turn), 4, (df_output[]){ count, h, w, c });
  return dfg_end(g);
}

static int32_t grad_argmax_pool(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output x = dfg_in(g, n, 0), at = dfg_out(g, n, 1);
  if (!dy[0].node) return dfg_end(g);
  dfi_attr_ints(b, "ksize", (int32_t)n->attrs[0].i, n->attrs[0].ints);
  dfi_attr_ints(b, "strides", (int32_t)n->attrs[1].i, n->attrs[1].ints);
  dfi_attr_string(b, "padding", n->attrs[3].s);
  dfi_attr_int(b, "include_batch_in_index", n->attrs[4].i);
  dx[0] = dfi_op(b, "MaxPoolGradWithArgmax", x, dy[0], at);
  return dfg_end(g);
}

/* Its gradient by grad is what lies at the elements that argmax names. */
static int32_t grad_argmax_pool_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output at = dfg_in(g, n, 2), shape = dfg_in_shape(g, n, 1), rest = dfi_const_int(b, -1);
  const df_output count = dfg_in_dim(g, n, 0, 0), axis = dfi_const_int(b, 1);
  if (!dfg_wants(g, n, 1)) return dfg_end(g);
  const bool of_all = n->attrs[3].i != 0;
  const df_output sizes[] = { count, rest };
  const df_output from = of_all ? reshaped(b, dy[0], 1, &rest) : reshaped(b, dy[0], 2, sizes);
  const df_output where = of_all ? reshaped(b, at, 1, &rest) : reshaped(b, at, 2, sizes);
  if (!of_all) dfi_attr_int(b, "batch_dims", 1);
  dx[1] = dfi_op(b, "Reshape", dfi_op(b, "GatherV2", from, where, of_all ? dfi_const_int(b, 0) : axis), shape);
  return dfg_end(g);
}

#define DILATION(IN) .in = "input:T filter:T" IN, .types = "T=number", \
  .attrs = "strides:ints[1..] rates:ints[1..] padding:string[SAME|VALID]", .cost = cost_conv

static const df_op ops[] = {
  { .type = "Dilation2D", .lua = "dilation2d", DILATION(""), .out = "output:T",
    .doc = "T[n, oh, ow, c] = dilation2d(input T[n, h, w, c], filter T[kh, kw, c]; strides, rates, padding): the "
           "greatest sum of the filter and what the window sees, for each channel",
    .example = "df.dilation2d(df.reshape(df.float32{1, 2, 3, 6}, {1, 2, 2, 1}), df.reshape(df.float32{0, 5, 0, 0}, {2, "
               "2, 1}), {strides = {1, 1, 1, 1}, rates = {1, 1, 1, 1}, padding = 'VALID'})",
    .output = "[[[[7.]]]] float32[1,1,1,1]", .see = "max_pool conv2d",
    .derivative = "dy goes to the elements of input and filter whose sum is the greatest, the first of equals",
    .shape = shape_dilation, .grad = grad_dilation, .kernel = { [DF_REF] = ref_dilation } },
  { .type = "Dilation2DBackpropInput", DILATION(" out_backprop:T"), .out = "in_backprop:T",
    .doc = "the gradient of Dilation2D by its input", .shape = dfi_shape_same,
    .kernel = { [DF_REF] = ref_dilation_to_input } },
  { .type = "Dilation2DBackpropFilter", DILATION(" out_backprop:T"), .out = "filter_backprop:T",
    .doc = "the gradient of Dilation2D by its filter", .shape = shape_second,
    .kernel = { [DF_REF] = ref_dilation_to_filter } },
  { .type = "MaxPoolGradWithArgmax", .in = "input:T grad:T argmax:Targmax", .out = "output:T",
    .types = "T=number Targmax=int32|int64",
    .attrs = "ksize:ints[1..] strides:ints[1..] padding:string[SAME|VALID] include_batch_in_index:bool=false",
    .doc = "the gradient of MaxPoolWithArgmax", .shape = dfi_shape_same, .grad = grad_argmax_pool_grad,
    .kernel = { [DF_REF] = ref_max_pool_argmax_grad } },
  { .type = "ExtractImagePatches", .in = "images:T", .out = "patches:T", .types = "T=number|bool|complex",
    .attrs = "ksizes:ints[1..] strides:ints[1..] rates:ints[1..] padding:string[SAME|VALID]",
    .doc = "T[n, oh, ow, kh * kw * c]: what a window sees at each of its places", .shape = shape_patches,
    .grad = grad_patches, .kernel = { [DF_REF] = ref_extract_patches } },
  { .type = "MaxPoolWithArgmax", .in = "input:T", .out = "output:T argmax:Targmax",
    .types = "T=number Targmax=int32|int64",
    .attrs = "ksize:ints[1..] strides:ints[1..] Targmax:dtype=int64 padding:string[SAME|VALID] "
    "include_batch_in_index:bool=false",
    .doc = "MaxPool, and the number of each maximum among the elements of its image, or of all",
    .shape = shape_argmax_pool, .grad = grad_argmax_pool, .kernel = { [DF_REF] = ref_max_pool_with_argmax } },
  { .type = "Conv2D", .work = dfi_work_convolution, .lua = "conv2d", .in = "input:T filter:T", .out = "output:T", CONV,
    .doc = "T[n, oh, ow, co] = conv2d(input T[n, h, w, ci], filter T[kh, kw, ci, co]; strides, padding, "
    "explicit_paddings, dilations): the sum of products "
           "of the filter and the window at each place; padding is 'SAME', 'VALID' or 'EXPLICIT'. A filter for ci / g "
           "channels makes g groups of the input's and of its own, which do not see each other",
    .example = "df.conv2d(df.ones{1, 3, 3, 1}, df.ones{2, 2, 1, 1}, {strides = {1, 1, 1, 1}, padding = 'VALID'})",
    .output = "[[[[4.]\n   [4.]]\n\n  [[4.]\n   [4.]]]] float32[1,2,2,1]",
    .derivative = "by the input a convolution of dy with the filter turned round, by the filter one of the input with"
    " dy",
    .shape = shape_conv, .grad = grad_plain, .kernel = { [DF_REF] = ref_conv2d, [DF_CPU] = cpu_conv2d } },
  { .type = "Conv2DBackpropInput", .work = dfi_work_convolution,
    .in = "input_sizes:int32 filter:T out_backprop:T", .out = "output:T", CONV,
    .doc = "the gradient of Conv2D with respect to its input", .shape = shape_sizes_0, .grad = grad_plain_input,
    .kernel = { [DF_REF] = ref_conv2d_backprop_input, [DF_CPU] = cpu_conv2d_backprop_input } },
  { .type = "Conv2DBackpropFilter", .work = dfi_work_convolution,
    .in = "input:T filter_sizes:int32 out_backprop:T", .out = "output:T", CONV,
    .doc = "the gradient of Conv2D with respect to its filter", .shape = shape_sizes_1, .grad = grad_plain_filter,
    .kernel = { [DF_REF] = ref_conv2d_backprop_filter, [DF_CPU] = cpu_conv2d_backprop_filter } },
  { .type = "DepthwiseConv2dNative", .work = dfi_work_depthwise,
    .lua = "depthwise_conv2d_native", .in = "input:T filter:T", .out = "output:T",
    CONV,
    .doc = "T[n, oh, ow, ci * m] = depthwise_conv2d_native(input T[n, h, w, ci], filter T[kh, kw, ci, m]; strides, "
    "padding, explicit_paddings, dilations): "
           "a convolution of each channel by itself, which gives m channels; padding is 'SAME', 'VALID' or 'EXPLICIT'",
    .example = "df.depthwise_conv2d_native(df.ones{1, 3, 3, 2}, df.ones{2, 2, 2, 1}, {strides = {1, 1, 1, 1}, padding "
    "= 'VALID'})",
    .output = "[[[[4. 4.]\n   [4. 4.]]\n\n  [[4. 4.]\n   [4. 4.]]]] float32[1,2,2,2]",
    .derivative = "as of conv2d, each channel by itself",
    .shape = shape_depthwise, .grad = grad_depthwise, .kernel = { [DF_REF] = ref_depthwise_conv2d,
    [DF_CPU] = cpu_depthwise_conv2d } },
  { .type = "DepthwiseConv2dNativeBackpropInput", .work = dfi_work_depthwise,
    .in = "input_sizes:int32 filter:T out_backprop:T", .out = "output:T",
    CONV,
    .doc = "the gradient of DepthwiseConv2dNative with respect to its input", .shape = shape_sizes_0,
    .grad = grad_depthwise_input,
    .kernel = { [DF_REF] = ref_depthwise_backprop_input, [DF_CPU] = cpu_depthwise_backprop_input } },
  { .type = "DepthwiseConv2dNativeBackpropFilter", .work = dfi_work_depthwise,
    .in = "input:T filter_sizes:int32 out_backprop:T", .out = "output:T",
    CONV,
    .doc = "the gradient of DepthwiseConv2dNative with respect to its filter", .shape = shape_sizes_1,
    .grad = grad_depthwise_filter,
    .kernel = { [DF_REF] = ref_depthwise_backprop_filter, [DF_CPU] = cpu_depthwise_backprop_filter } },
  { .type = "MaxPool", .lua = "max_pool", .in = "input:T", .out = "output:T", POOL_ATTRS,
    .types = "T=float|int8|uint8|int16|uint16|int32|int64",
    .doc = "T[n, oh, ow, c] = max_pool(input T[n, h, w, c]; ksize, strides, padding): the greatest of each window; the "
    "first of equals has the gradient",
    .example = "df.max_pool(df.reshape(df.float32{1, 2, 3, 6}, {1, 2, 2, 1}), {ksize = {1, 2, 2, 1}, strides = {1, 2,"
    " 2, 1}, padding = 'VALID'})",
    .output = "[[[[6.]]]] float32[1,1,1,1]",
    .derivative = "the greatest element of each window gets dy, the first of equals",
    .shape = shape_pool, .grad = grad_max_pool, .kernel = { [DF_REF] = cpu_max_pool } },
  { .type = "MaxPoolGrad", .in = "orig_input:T orig_output:T grad:T", .out = "output:T", POOL,
    .doc = "the gradient of MaxPool", .shape = dfi_shape_same, .grad = grad_max_pool_grad,
    .kernel = { [DF_REF] = cpu_max_pool_grad } },
  { .type = "MaxPoolGradGrad", .in = "orig_input:T orig_output:T grad:T", .out = "output:T", POOL,
    .doc = "the gradient of MaxPoolGrad by what it hands on", .shape = shape_second, .grad = grad_max_pool_grad_grad,
    .kernel = { [DF_REF] = cpu_max_pool_grad_grad } },
  { .type = "AvgPool", .lua = "avg_pool", .in = "value:T", .out = "output:T", POOL,
    .doc = "T[n, oh, ow, c] = avg_pool(value T[n, h, w, c]; ksize, strides, padding): the mean of each window; what is "
    "padded does not count",
    .example = "df.avg_pool(df.reshape(df.float32{1, 2, 3, 6}, {1, 2, 2, 1}), {ksize = {1, 2, 2, 1}, strides = {1, 2,"
    " 2, 1}, padding = 'VALID'})",
    .output = "[[[[3.]]]] float32[1,1,1,1]",
    .derivative = "dy is spread evenly over each window",
    .shape = shape_pool, .grad = grad_avg_pool, .kernel = { [DF_REF] = cpu_avg_pool } },
  { .type = "AvgPoolGrad", .in = "orig_input_shape:int32 grad:T", .out = "output:T", POOL,
    .doc = "the gradient of AvgPool", .shape = shape_sizes_0, .grad = grad_avg_pool_grad,
    .kernel = { [DF_REF] = cpu_avg_pool_grad } },

  { .type = "Conv3D", .lua = "conv3d", .in = "input:T filter:T", .out = "output:T", CONV_3D, .types = "T=float",
    .doc = "T[n, od, oh, ow, co] = conv3d(input T[n, d, h, w, ci], filter T[kd, kh, kw, ci, co]; strides, padding, "
    "dilations): conv2d over volumes: the sum of products of the filter and the window at each place",
    .example = "df.shape(df.conv3d(df.ones{1, 4, 5, 5, 1}, df.ones{3, 3, 3, 1, 2}, 1, 'VALID'))",
    .output = "[1 2 3 3 2] int32[5]",
    .derivative = "as of conv2d, over volumes",
    .shape = shape_conv_3d, .grad = grad_volumes, .kernel = { [DF_REF] = ref_conv2d, [DF_CPU] = cpu_conv2d } },
  { .type = "Conv3DBackpropInputV2", .in = "input_sizes:Tshape filter:T out_backprop:T", .out = "output:T", CONV_3D,
    .types = "T=float Tshape=int32|int64", .doc = "the gradient of Conv3D with respect to its input",
    .shape = shape_sizes_0_3d, .grad = grad_volumes_input,
    .kernel = { [DF_REF] = ref_conv2d_backprop_input, [DF_CPU] = cpu_conv2d_backprop_input } },
  { .type = "Conv3DBackpropFilterV2", .in = "input:T filter_sizes:int32 out_backprop:T", .out = "output:T", CONV_3D,
    .types = "T=float", .doc = "the gradient of Conv3D with respect to its filter",
    .shape = shape_sizes_1_3d, .grad = grad_volumes_filter,
    .kernel = { [DF_REF] = ref_conv2d_backprop_filter, [DF_CPU] = cpu_conv2d_backprop_filter } },
  { .type = "MaxPool3D", .lua = "max_pool3d", .in = "input:T", .out = "output:T", POOL_3D_ATTRS,
    .types = "T=float|int8|uint8|int16|uint16|int32|int64",
    .doc = "T[n, od, oh, ow, c] = max_pool3d(input T[n, d, h, w, c]; ksize, strides, padding): the greatest of each "
    "window; the first of equals has the gradient",
    .example = "df.shape(df.max_pool3d(df.ones{1, 4, 4, 4, 1}, 2, 2, 'VALID'))",
    .output = "[1 2 2 2 1] int32[5]",
    .derivative = "as of max_pool: TensorFlow on a CPU gives dy to each of equals",
    .shape = shape_pool_3d, .grad = grad_max_pool, .kernel = { [DF_REF] = cpu_max_pool } },
  { .type = "MaxPool3DGrad", .in = "orig_input:T orig_output:T grad:T", .out = "output:T", POOL_3D,
    .doc = "the gradient of MaxPool3D", .shape = dfi_shape_same, .grad = grad_max_pool_grad,
    .kernel = { [DF_REF] = cpu_max_pool_grad } },
  { .type = "MaxPool3DGradGrad", .in = "orig_input:T orig_output:T grad:T", .out = "output:T", POOL_3D,
    .doc = "the gradient of MaxPool3DGrad by what it hands on", .shape = shape_second, .grad = grad_max_pool_grad_grad,
    .kernel = { [DF_REF] = cpu_max_pool_grad_grad } },
  { .type = "AvgPool3D", .lua = "avg_pool3d", .in = "input:T", .out = "output:T", POOL_3D,
    .doc = "T[n, od, oh, ow, c] = avg_pool3d(input T[n, d, h, w, c]; ksize, strides, padding): the mean of each "
    "window; what is padded does not count",
    .example = "df.shape(df.avg_pool3d(df.ones{1, 4, 4, 4, 1}, 2, 2, 'VALID'))",
    .output = "[1 2 2 2 1] int32[5]",
    .derivative = "as of avg_pool",
    .shape = shape_pool_3d, .grad = grad_avg_pool, .kernel = { [DF_REF] = cpu_avg_pool } },
  { .type = "AvgPool3DGrad", .in = "orig_input_shape:int32 grad:T", .out = "output:T", POOL_3D,
    .doc = "the gradient of AvgPool3D", .shape = shape_sizes_0_3d, .grad = grad_avg_pool_grad,
    .kernel = { [DF_REF] = cpu_avg_pool_grad } },
};
const dfi_op_table dfi_ops_window = { ops, sizeof ops / sizeof *ops };
