/* window.c: launchers of convolutions and pooling: kernels of our own, for what cuDNN (dnn.c,
 * dnn_layers.c) does not take. */
#include "dnn.h"
#include "../window.h"
#include <string.h>

enum { TILE = 16, BLOCK = 128 };

static dfc_axis axis_of(const dfk_slide *s) {
  return (dfc_axis){ s->in, s->window, s->stride, s->dilation, s->out, s->before };
}

/* The tensor `to` of the other two. */
static void operands_of(dfc_call *c, dfc_window *p, const dfk_conv *g, dfk_side to) {
  const df_tensor *given[3] = { [DFK_OUTPUT] = g->out, [DFK_INPUT] = g->in, [DFK_FILTER] = g->filter };
  const void **at[3] = { [DFK_OUTPUT] = &p->out, [DFK_INPUT] = &p->in, [DFK_FILTER] = &p->filter };
  memset(p, 0, sizeof *p);
  p->n = g->n; p->ci = g->ci; p->co = g->co; p->groups = g->groups;
  p->y = axis_of(&g->y);
  p->x = axis_of(&g->x);
  p->side = (int32_t)to;
  for (int32_t i = 0; i < 3; i++) {
    if (i == (int32_t)to) p->to = dfc_write(c, given[i]);
    else *at[i] = dfc_read(c, given[i]);
  }
}

bool dfc_convolved(void *device, const dfi_remote_convolved *l) {
  dfc_gpu *g = device;
  dfc_call c = { .g = g, .ok = true };
  const dfc_window p = { .n = l->how.n, .ci = l->how.ci, .co = l->how.co, .y = axis_of(&l->how.y),
                         .x = axis_of(&l->how.x), .side = DFK_OUTPUT, .in = l->in, .filter = l->filter, .to = l->to };
  dfc_enter(g);
  c.ok = dfc_mine(g, l->in_note) && dfc_mine(g, l->filter_note) && dfc_mine(g, l->bias_note) &&
         dfc_mine(g, l->to_note);
  const bool done = l->how.groups == 1 && dfc_dnn_run_biased(&c, &p, l->dtype, l->bias, l->relu);
  dfc_drop(&c);
  g->said[0] = 0;                         /* the ops alone say it again, and of which it is */
  g->fused += done;
  dfc_leave(g);
  return done;
}

static int32_t grouped(df_kernel *k, const dfk_conv *g, dfk_side to, bool wide) {
  dfc_call c = dfc_begin(k);
  dfc_window p;
  operands_of(&c, &p, g, to);
  if (to == DFK_FILTER)
    dfc_run_blocks(&c, dfc_name("grouped_filter", k->out_dtype[0]), p.y.window * p.x.window * p.ci / p.groups * p.co,
                   BLOCK, &p);
  else
    dfc_run(&c, dfc_name("grouped", k->out_dtype[0]),
            p.n * (to == DFK_OUTPUT ? p.y.out * p.x.out * p.co : p.y.in * p.x.in * p.ci), &p);
  return dfc_end(&c);
}

static int32_t convolve(df_kernel *k, const dfk_conv *g, dfk_side to, bool wide) {
  if (g->groups > 1) return grouped(k, g, to, wide);
  dfc_call c = dfc_begin(k);
  dfc_window p;
  operands_of(&c, &p, g, to);
  if (dfc_dnn_run(&c, &p, k->out_dtype[0]) || !c.ok) return dfc_end(&c);
  const int64_t taps = p.y.window * p.x.window;
  const int64_t places = p.n * p.y.out * p.x.out, pixels = p.n * p.y.in * p.x.in;
  const int64_t rows = to == DFK_OUTPUT ? places : to == DFK_INPUT ? pixels : taps * p.ci;
  const int64_t columns = to == DFK_INPUT ? p.ci : p.co;
  dfc_run_blocks(&c, dfc_name("convolve", k->out_dtype[0]), (rows + TILE - 1) / TILE * ((columns + TILE - 1) / TILE),
                 TILE * TILE, &p);
  return dfc_end(&c);
}

static int32_t run_conv2d(df_kernel *k)           { return dfk_conv2d(k, convolve); }
static int32_t run_conv2d_input(df_kernel *k)     { return dfk_conv2d_backprop_input(k, convolve); }
static int32_t run_conv2d_filter(df_kernel *k)    { return dfk_conv2d_backprop_filter(k, convolve); }
static int32_t run_depthwise(df_kernel *k)        { return dfk_depthwise_conv2d(k, grouped); }
static int32_t run_depthwise_input(df_kernel *k)  { return dfk_depthwise_backprop_input(k, grouped); }
static int32_t run_depthwise_filter(df_kernel *k) { return dfk_depthwise_backprop_filter(k, grouped); }

/* Output 0, of dims `made`, by the library, where `how` is what it has for it, or by the kernel of that prefix. */
enum { OURS = -1 };
static int32_t pool(df_kernel *k, const char *prefix, int how, const dfk_pool *g, const df_tensor *in,
                    const df_tensor *out, const df_tensor *dy, const int64_t *made) {
  df_tensor *z = dfk_out(k, 0, k->out_dtype[0], 4, made);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_window p;
  memset(&p, 0, sizeof p);
  p.n = g->n; p.ci = p.co = g->c;
  p.y = axis_of(&g->y);
  p.x = axis_of(&g->x);
  p.in = in ? dfc_read(&c, in) : NULL;
  p.out = out ? dfc_read(&c, out) : NULL;
  p.dy = dy ? dfc_read(&c, dy) : NULL;
  p.to = dfc_write(&c, z);
  if (how == OURS || !dfc_dnn_pool(&c, &p, z->dtype, (dfc_dnn_pooling)how))
    dfc_run(&c, dfc_name(prefix, z->dtype), z->size, &p);
  return dfc_end(&c);
}
#define POOL(name, how) \
  static int32_t pool_##name(df_kernel *k, const dfk_pool *g, const df_tensor *in, const df_tensor *out, \
                             const df_tensor *dy, const int64_t *made) { \
    return pool(k, #name, how, g, in, out, dy, made); \
  }
POOL(max_pool, DFC_DNN_MAX)
POOL(avg_pool, DFC_DNN_AVERAGE)
POOL(max_pool_grad, OURS)
POOL(max_pool_grad_grad, OURS)
POOL(avg_pool_grad, DFC_DNN_AVERAGE_BACK)
static int32_t run_max_pool(df_kernel *k)           { return dfk_pooled(k, pool_max_pool); }
static int32_t run_avg_pool(df_kernel *k)           { return dfk_pooled(k, pool_avg_pool); }
static int32_t run_max_pool_grad(df_kernel *k)      { return dfk_max_pool_grad(k, pool_max_pool_grad); }
static int32_t run_max_pool_grad_grad(df_kernel *k) { return dfk_max_pool_grad_grad(k, pool_max_pool_grad_grad); }
static int32_t run_avg_pool_grad(df_kernel *k)      { return dfk_avg_pool_grad(k, pool_avg_pool_grad); }

static bool takes_made(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return out[0] < 32 && (DFC_FLOATS >> out[0] & 1);
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "Conv2D", .run = run_conv2d, .takes = takes_made },
  { .op = "Conv2DBackpropInput", .run = run_conv2d_input, .host_in = 1, .takes = takes_made },
  { .op = "Conv2DBackpropFilter", .run = run_conv2d_filter, .host_in = 2, .takes = takes_made },
  { .op = "DepthwiseConv2dNative", .run = run_depthwise, .takes = takes_made },
  { .op = "DepthwiseConv2dNativeBackpropInput", .run = run_depthwise_input, .host_in = 1, .takes = takes_made },
  { .op = "DepthwiseConv2dNativeBackpropFilter", .run = run_depthwise_filter, .host_in = 2, .takes = takes_made },
  { .op = "MaxPool", .run = run_max_pool, .takes = dfc_takes_numbers },
  { .op = "MaxPoolGrad", .run = run_max_pool_grad, .takes = takes_made },
  { .op = "MaxPoolGradGrad", .run = run_max_pool_grad_grad, .takes = takes_made },
  { .op = "AvgPool", .run = run_avg_pool, .takes = takes_made },
  { .op = "AvgPoolGrad", .run = run_avg_pool_grad, .host_in = 1, .takes = takes_made },
};
const dfc_table dfc_windows = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
