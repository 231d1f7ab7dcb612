/* onednn_convolution.c: convolutions of floats by oneDNN, a group of images at a time.
 *
 * Images are split into groups that depend on the sizes alone; a group is one call of a primitive, on one thread. The
 * library wants filters in a layout of its own, into which they are copied first; images stay as they are. The filter's
 * gradient is a sum for each group, in that layout, and then the groups' sums in their order.
 */
#include "onednn_convolution.h"
#include "onednn.h"
#include <string.h>

#ifdef DFLOW_ONEDNN
enum { LEAST_WORK = 1 << 20, GROUP_WORK = 1 << 21, MOST_SUMS = 16, ADD_GRAIN = 16384 };

/* ---- primitives ------------------------------------------------------------------------------------------------- */

typedef struct part { const dfk_conv *c; dfk_side to; int64_t images; const dnnl_memory_desc_t *filter; } part;

static int64_t after(const dfk_slide *s) {
  int64_t pad = (s->out - 1) * s->stride + (s->window - 1) * s->dilation + 1 - s->in - s->before;
  return pad > 0 ? pad : 0;
}

/* Axes of the window as the library sees it. */
static int32_t axes_of(const dfk_conv *c) { return dfk_slide_is_one(&c->z) ? 2 : 3; }

static dnnl_primitive_desc_t make_part(const dfk_dnn *d, const void *what, dnnl_primitive_attr_t attr,
                                       dfk_dnn_primitive *p) {
  const part *t = what;
  const dfk_slide *slide[] = { &t->c->z, &t->c->y, &t->c->x };
  const int32_t axes = axes_of(t->c);
  const int64_t groups = t->c->groups;
  const dnnl_format_tag_t tag = axes == 2 ? dnnl_nhwc : dnnl_ndhwc;
  dnnl_dims_t in = { t->images, t->c->ci }, out = { t->images, t->c->co }, strides, dilates, before, behind;
  dnnl_dims_t filter = { groups, t->c->co / groups, t->c->ci / groups };
  for (int32_t d = 0; d < axes; d++) {
    const dfk_slide *s = slide[3 - axes + d];
    in[2 + d] = s->in;
    out[2 + d] = s->out;
    filter[3 + d] = s->window;
    strides[d] = s->stride;
    dilates[d] = s->dilation - 1;
    before[d] = s->before;
    behind[d] = after(s);
  }
  dnnl_memory_desc_t src, dst, weights;
  if (d->memory_desc_init_by_tag(&src, 2 + axes, in, dnnl_f32, tag) ||
      d->memory_desc_init_by_tag(&dst, 2 + axes, out, dnnl_f32, tag) ||
      d->memory_desc_init_by_tag(&weights, 2 + axes + (groups > 1), filter + (groups == 1), dnnl_f32,
                                 dnnl_format_tag_any))
    return NULL;
  if (t->filter) weights = *t->filter;
  dnnl_convolution_desc_t desc;
  dnnl_primitive_desc_t forward = NULL, pd = NULL;
  if (d->dilated_convolution_forward_desc_init(&desc, dnnl_forward_training, dnnl_convolution_direct, &src, &weights,
                                               NULL, &dst, strides, dilates, before, behind) ||
      d->primitive_desc_create(&forward, &desc, attr, d->engine, NULL))
    return NULL;
  static const int args[3][3] = { [DFK_OUTPUT] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST },
                                  [DFK_INPUT] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST },
                                  [DFK_FILTER] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST } };
  dnnl_query_t filter_md = t->to == DFK_FILTER ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
  if (t->to == DFK_OUTPUT) {
    pd = forward;
    forward = NULL;
  } else if (t->to == DFK_INPUT) {
    if (!d->dilated_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &src, &weights, &dst, strides,
                                                        dilates, before, behind) &&
        d->primitive_desc_create(&pd, &desc, attr, d->engine, forward))
      pd = NULL;
  } else if (!d->dilated_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &src, &weights, NULL,
                                                                &dst, strides, dilates, before, behind) &&
             d->primitive_desc_create(&pd, &desc, attr, d->engine, forward))
    pd = NULL;
  if (forward) d->primitive_desc_destroy(forward);
  if (!pd) return NULL;
  p->nargs = 3;
  memcpy(p->args, args[t->to], sizeof args[t->to]);
  p->md[0] = src;
  p->md[1] = *d->primitive_desc_query_md(pd, filter_md, 0);
  p->md[2] = dst;
  return pd;
}

static const dfk_dnn_primitive *part_of(const dfk_conv *c, dfk_side to, int64_t images,
                                        const dnnl_memory_desc_t *filter) {
  dfk_dnn_key key = { { 'C', to, images, dfk_dnn_layout(filter), c->ci, c->co, c->groups } };
  const dfk_slide *slide[] = { &c->z, &c->y, &c->x };
  for (int i = 0; i < 3; i++) memcpy(key.words + 7 + 6 * i, slide[i], sizeof *slide[i]);
  _Static_assert(sizeof *slide[0] == 6 * sizeof *key.words, "an axis is six words of the key");
  return dfk_dnn_get(&key, make_part, &(part){ c, to, images, filter });
}

/* ---- groups of images -------------------------------------------------------------------------------------------- */

typedef struct job {
  const dfk_conv          *c;
  dfk_side                 to;
  int64_t                  per, groups;      /* images of a group, but for the last */
  const dfk_dnn_primitive *whole, *rest;     /* of a group; of the last, NULL where that is whole, too */
  char                    *filter;           /* in the library's layout; of the gradient: one for each group */
  int64_t                  filter_bytes;
  bool                     failed;
} job;

static void groups(void *arg, int64_t begin, int64_t end) {
  job *s = arg;
  const dfk_conv *c = s->c;
  for (int64_t g = begin; g < end; g++) {
    int64_t first = g * s->per;
    float *in = (float *)c->in + first * c->z.in * c->y.in * c->x.in * c->ci,
          *out = (float *)c->out + first * c->z.out * c->y.out * c->x.out * c->co;
    char *filter = s->filter + (s->to == DFK_FILTER ? g * s->filter_bytes : 0);
    bool last = g == s->groups - 1 && s->rest;
    if (!dfk_dnn_run(last ? s->rest : s->whole, (void *[]){ in, filter, out }))
      __atomic_store_n(&s->failed, true, __ATOMIC_RELAXED);
  }
}

static void add_sums(void *arg, int64_t begin, int64_t end) {
  const job *s = arg;
  float *restrict to = (float *)s->filter;
  for (int64_t g = 1; g < s->groups; g++) {
    const float *restrict from = (const float *)(s->filter + g * s->filter_bytes);
    for (int64_t i = begin; i < end; i++) to[i] += from[i];
  }
}

/* Few images are better split by places, as our own products do it. A filter that sees few channels has a slow gradient
   of the input. */
static bool suits(const dfk_conv *c, dfk_side to, int64_t image_work) {
  return c->n > 1 && c->n * image_work >= LEAST_WORK && !(to == DFK_INPUT && c->ci / c->groups < 16);
}

static dfk_done out_of_memory(df_kernel *k) {
  dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a convolution");
  return DFK_FAILED;
}

static dfk_done run_groups(df_kernel *k, job *s, const dfk_dnn_primitive *reorder) {
  bool fine = true;
  s->filter = dfk_scratch(k, s->filter_bytes * (s->to == DFK_FILTER ? s->groups : 1));
  if (!s->filter) return DFK_FAILED;
  if (s->to != DFK_FILTER) fine = dfk_dnn_run(reorder, (void *[]){ s->c->filter, s->filter });
  if (fine) dfk_parallel(k, s->groups, 1, groups, s);
  if (fine && !s->failed && s->to == DFK_FILTER) {
    dfk_parallel(k, s->filter_bytes / 4, ADD_GRAIN, add_sums, s);
    fine = dfk_dnn_run(reorder, (void *[]){ s->filter, s->c->filter });
  }
  dfk_free(s->filter);
  return fine && !s->failed ? DFK_DONE : out_of_memory(k);
}

dfk_done dfk_dnn_convolution(df_kernel *k, const dfk_conv *c, dfk_side to) {
  const int64_t image_work = dfk_conv_places(c) / c->n * dfk_conv_taps(c) * (c->ci / c->groups) * c->co;
  if (!suits(c, to, image_work)) return DFK_NOT_DONE;
  job s = { .c = c, .to = to, .per = (GROUP_WORK + image_work - 1) / image_work };
  if (to == DFK_FILTER && s.per < (c->n + MOST_SUMS - 1) / MOST_SUMS) s.per = (c->n + MOST_SUMS - 1) / MOST_SUMS;
  if (s.per > (c->n + 1) / 2) s.per = (c->n + 1) / 2;
  s.groups = (c->n + s.per - 1) / s.per;
  s.whole = part_of(c, to, s.per, NULL);
  if (!s.whole) return DFK_NOT_DONE;
  int64_t left = c->n - (s.groups - 1) * s.per;
  if (left != s.per) s.rest = part_of(c, to, left, &s.whole->md[1]);
  const dfk_dnn *d = dfk_dnn_calls();
  dnnl_memory_desc_t plain;
  const int64_t co = c->co / c->groups, ci = c->ci / c->groups, tap = ci * c->co, row = c->x.window * tap;
  const int32_t axes = axes_of(c);
  dnnl_dims_t dims = { c->groups, co, ci }, strides = { co, 1, c->co };
  const int64_t window[] = { c->z.window, c->y.window, c->x.window }, steps[] = { c->y.window * row, row, tap };
  memcpy(dims + 3, window + 3 - axes, (size_t)axes * sizeof *window);
  memcpy(strides + 3, steps + 3 - axes, (size_t)axes * sizeof *steps);
  d->memory_desc_init_by_strides(&plain, 2 + axes + (c->groups > 1), dims + (c->groups == 1), dnnl_f32,
                                 strides + (c->groups == 1));
  const dnnl_memory_desc_t *own = &s.whole->md[1];
  const dfk_dnn_primitive *reorder = to == DFK_FILTER ? dfk_dnn_reorder(own, &plain) : dfk_dnn_reorder(&plain, own);
  s.filter_bytes = ((int64_t)d->memory_desc_get_size(own) + 63) & ~(int64_t)63;
  dfk_done done = reorder && (left == s.per || s.rest) ? run_groups(k, &s, reorder) : DFK_NOT_DONE;
  dfk_dnn_put(reorder);
  dfk_dnn_put(s.rest);
  dfk_dnn_put(s.whole);
  return done;
}
#else
dfk_done dfk_dnn_convolution(df_kernel *k, const dfk_conv *c, dfk_side to) { return DFK_NOT_DONE; }
#endif
