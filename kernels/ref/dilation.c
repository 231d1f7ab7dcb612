/* dilation.c: the greatest sum of an image and a filter below a window, and its gradients. Images [n, h, w, c], filters
 * [kh, kw, c]; each channel by itself.
 */
#include "../window.h"
#include "element.h"
#include <math.h>

typedef struct dilation { const df_tensor *x, *f; dfk_slide y, z; int64_t n, c; } dilation;

/* attributes: strides, rates, padding */
static int32_t begin(df_kernel *k, dilation *d, int64_t dims[4]) {
  const df_tensor *x = k->in[0], *f = k->in[1];
  const df_attr *strides = &k->attrs[0], *rates = &k->attrs[1];
  char a[160], b[160], why[200];
  if (x->rank != 4 || f->rank != 3 || x->dims[3] != f->dims[2])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "input is %s and filter %s: expected [n, h, w, c] and [h, w, c]",
                    dfk_shape_text(x, a, sizeof a), dfk_shape_text(f, b, sizeof b));
  if (strides->i != 4 || rates->i != 4 || strides->ints[0] != 1 || strides->ints[3] != 1 || rates->ints[0] != 1 ||
      rates->ints[3] != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "strides and rates have %lld and %lld numbers: expected four of each, 1 "
                    "for examples and channels", (long long)strides->i, (long long)rates->i);
  *d = (dilation){ .x = x, .f = f, .n = x->dims[0], .c = x->dims[3] };
  dfk_slide *slide[] = { &d->y, &d->z };
  for (int32_t i = 0; i < 2; i++) {
    *slide[i] = (dfk_slide){ .in = x->dims[1 + i], .window = f->dims[i], .stride = strides->ints[1 + i],
                             .dilation = rates->ints[1 + i] };
    if (!dfk_slide_of(slide[i], dfk_string(k, 2), 0, 0, why, sizeof why))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
  }
  dims[0] = d->n;
  dims[1] = d->y.out;
  dims[2] = d->z.out;
  dims[3] = d->c;
  return DF_OK;
}

static double sum_at(const dilation *d, int64_t in, int64_t tap) {
  return ref_is_float(d->x->dtype) ? ref_get(d->x, in) + ref_get(d->f, tap)
                                   : (double)(ref_get_int(d->x, in) + ref_get_int(d->f, tap));
}

/* The first greatest sum for output o: the elements of image and filter; *in is -1 where the window sees nothing. */
static double greatest(const dilation *d, int64_t o, int64_t *in, int64_t *tap) {
  const int64_t ch = o % d->c, ox = o / d->c % d->z.out, oy = o / d->c / d->z.out % d->y.out,
                image = o / d->c / d->z.out / d->y.out;
  double best = -INFINITY;
  *in = -1;
  for (int64_t v = 0; v < d->y.window; v++)
    for (int64_t u = 0; u < d->z.window; u++) {
      const int64_t y = oy * d->y.stride - d->y.before + v * d->y.dilation;
      const int64_t x = ox * d->z.stride - d->z.before + u * d->z.dilation;
      if (y < 0 || x < 0 || y >= d->y.in || x >= d->z.in) continue;
      const int64_t i = ((image * d->y.in + y) * d->z.in + x) * d->c + ch, t = (v * d->z.window + u) * d->c + ch;
      const double s = sum_at(d, i, t);
      if (*in >= 0 && !(s > best)) continue;
      best = s;
      *in = i;
      *tap = t;
    }
  return best;
}

int32_t ref_dilation(df_kernel *k) {
  dilation d;
  int64_t dims[4], in, tap;
  const int32_t code = begin(k, &d, dims);
  df_tensor *y = code ? NULL : dfk_out(k, 0, d.x->dtype, 4, dims);
  for (int64_t o = 0; y && o < y->size; o++) {
    const double best = greatest(&d, o, &in, &tap);
    if (ref_is_float(y->dtype)) ref_put(y, o, best);
    else ref_put_int(y, o, in < 0 ? 0 : (int64_t)best);
  }
  return y ? DF_OK : k->error->code;
}

/* (input, filter, out_backprop): what each greatest sum hands to its element. */
static int32_t backprop(df_kernel *k, bool to_filter) {
  dilation d;
  int64_t dims[4], in, tap;
  char a[160];
  const df_tensor *dy = k->in[2];
  const int32_t code = begin(k, &d, dims);
  if (code) return code;
  if (dy->rank != 4 || memcmp(dy->dims, dims, sizeof dims))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "out_backprop is %s: expected [%lld, %lld, %lld, %lld]",
                    dfk_shape_text(dy, a, sizeof a), (long long)dims[0], (long long)dims[1], (long long)dims[2],
                    (long long)dims[3]);
  df_tensor *dx = dfk_out_like(k, 0, to_filter ? d.f : d.x);
  if (!dx) return k->error->code;
  if (dx->size) memset(dx->data, 0, (size_t)(dx->size * df_dtype_bytes(dx->dtype)));
  for (int64_t o = 0; o < dy->size; o++) {
    greatest(&d, o, &in, &tap);
    const int64_t at = to_filter ? tap : in;
    if (in < 0) continue;
    if (ref_is_float(dx->dtype)) ref_put(dx, at, ref_get(dx, at) + ref_get(dy, o));
    else ref_put_int(dx, at, ref_get_int(dx, at) + ref_get_int(dy, o));
  }
  return DF_OK;
}
int32_t ref_dilation_to_input(df_kernel *k)  { return backprop(k, false); }
int32_t ref_dilation_to_filter(df_kernel *k) { return backprop(k, true); }

/* MaxPoolGradWithArgmax (input, grad, argmax; ksize, strides, padding, include_batch_in_index): grad at the elements
 * whose numbers argmax has, in their image or among all. */
int32_t ref_max_pool_argmax_grad(df_kernel *k) {
  const df_tensor *x = k->in[0], *dy = k->in[1], *at = k->in[2];
  char a[160], b[160];
  const bool same = dy->rank == at->rank && !memcmp(dy->dims, at->dims, (size_t)dy->rank * sizeof *dy->dims);
  if (x->rank != 4 || dy->rank != 4 || !same || dy->dims[0] != x->dims[0])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "grad is %s and argmax %s: expected four axes of the same sizes, and as "
                    "many images as the input has", dfk_shape_text(dy, a, sizeof a), dfk_shape_text(at, b, sizeof b));
  df_tensor *dx = dfk_out_like(k, 0, x);
  if (!dx) return k->error->code;
  if (dx->size) memset(dx->data, 0, (size_t)(dx->size * df_dtype_bytes(dx->dtype)));
  const int64_t image = x->dims[0] ? x->size / x->dims[0] : 0, out = x->dims[0] ? dy->size / x->dims[0] : 1;
  for (int64_t o = 0; o < dy->size; o++) {
    const int64_t i = dfk_index(at, o) + (dfk_bool(k, 3) ? 0 : o / out * image);
    if (i < 0 || i >= dx->size)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "argmax[%lld] is %lld: there is no such element", (long long)o,
                      (long long)dfk_index(at, o));
    if (ref_is_float(dx->dtype)) ref_put(dx, i, ref_get(dx, i) + ref_get(dy, o));
    else ref_put_int(dx, i, ref_get_int(dx, i) + ref_get_int(dy, o));
  }
  return DF_OK;
}
