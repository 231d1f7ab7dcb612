/* patches.c: pieces of images, and where in them the greatest elements are. */
#include "../move.h"
#include "../window.h"
#include "element.h"
#include <math.h>

/* The window over both axes of images [n, h, w, c]. False: the error is filled. */
static bool read_slides(df_kernel *k, const df_attr *window, const df_attr *strides, const df_attr *rates,
                        const df_attr *padding, dfk_slide *s) {
  const df_tensor *x = k->in[0];
  char why[200];
  const bool fours = window->i == 4 && strides->i == 4 && (!rates || rates->i == 4);
  const bool whole = fours && window->ints[0] == 1 && window->ints[3] == 1 && strides->ints[0] == 1 &&
                     strides->ints[3] == 1;
  if (x->rank != 4 || !whole) {
    dfk_fail(k, DF_INVALID_ARGUMENT,
             "images of rank %d, a window of %lld numbers and strides of %lld: expected rank 4 and four of each, 1 for "
             "examples and channels", x->rank, (long long)window->i, (long long)strides->i);
    return false;
  }
  for (int32_t d = 0; d < 2; d++) {
    s[d] = (dfk_slide){ .in = x->dims[1 + d], .window = window->ints[1 + d], .stride = strides->ints[1 + d],
                        .dilation = rates ? rates->ints[1 + d] : 1 };
    if (dfk_slide_of(&s[d], padding->s, 0, 0, why, sizeof why)) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
    return false;
  }
  return true;
}

/* images; ksizes, strides, rates, padding */
int32_t ref_extract_patches(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_slide s[2];
  int64_t each;
  if (!read_slides(k, &k->attrs[0], &k->attrs[1], &k->attrs[2], &k->attrs[3], s)) return k->error->code;
  const int64_t c = x->dims[3];
  if (__builtin_mul_overflow(s[0].window, s[1].window, &each) || __builtin_mul_overflow(each, c, &each))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "a patch of %lld by %lld elements is too large", (long long)s[0].window,
                    (long long)s[1].window);
  df_tensor *out = dfk_out(k, 0, x->dtype, 4, (int64_t[]){ x->dims[0], s[0].out, s[1].out, each });
  if (!out) return k->error->code;
  dfk_clear(out);
  for (int64_t p = 0, places = each && c ? out->size / each : 0; p < places; p++) {
    const int64_t b = p / (s[0].out * s[1].out), oy = p / s[1].out % s[0].out, ox = p % s[1].out;
    for (int64_t ky = 0; ky < s[0].window; ky++)
      for (int64_t kx = 0; kx < s[1].window; kx++) {
        const int64_t y = oy * s[0].stride + ky * s[0].dilation - s[0].before;
        const int64_t z = ox * s[1].stride + kx * s[1].dilation - s[1].before;
        if (y < 0 || y >= s[0].in || z < 0 || z >= s[1].in) continue;
        const int64_t to = p * each + (ky * s[1].window + kx) * c, from = ((b * s[0].in + y) * s[1].in + z) * c;
        if (!dfk_copy(k, out, to, x, from, c)) return k->error->code;
      }
  }
  return DF_OK;
}

/* Is element i of t greater than element j? A NaN is not. */
static bool is_greater(const df_tensor *t, int64_t i, int64_t j) {
  if (ref_is_float(t->dtype)) return ref_get(t, i) > ref_get(t, j);
  return ref_below(t->dtype, ref_get_int(t, j), ref_get_int(t, i));
}

/* The first of the greatest elements that the window at output place (oy, ox) sees, by its number in the input. */
static int64_t greatest(const df_tensor *x, const dfk_slide *s, int64_t b, int64_t oy, int64_t ox, int64_t ch) {
  const int64_t from[2] = { oy * s[0].stride - s[0].before, ox * s[1].stride - s[1].before };
  int64_t best = -1;
  for (int64_t y = from[0] < 0 ? 0 : from[0]; y < from[0] + s[0].window && y < s[0].in; y++)
    for (int64_t z = from[1] < 0 ? 0 : from[1]; z < from[1] + s[1].window && z < s[1].in; z++) {
      const int64_t i = ((b * s[0].in + y) * s[1].in + z) * x->dims[3] + ch;
      if (best < 0 || is_greater(x, i, best)) best = i;
    }
  return best;
}

/* input; ksize, strides, Targmax, padding, include_batch_in_index */
int32_t ref_max_pool_with_argmax(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_slide s[2];
  if (!read_slides(k, &k->attrs[0], &k->attrs[1], NULL, &k->attrs[3], s)) return k->error->code;
  const int64_t c = x->dims[3], dims[] = { x->dims[0], s[0].out, s[1].out, c }, image = s[0].in * s[1].in * c;
  df_tensor *out = dfk_out(k, 0, x->dtype, 4, dims), *at = out ? dfk_out(k, 1, k->out_dtype[1], 4, dims) : NULL;
  if (!at) return k->error->code;
  for (int64_t o = 0; o < out->size; o++) {
    const int64_t place = o / c, b = place / (s[0].out * s[1].out);
    const int64_t best = greatest(x, s, b, place / s[1].out % s[0].out, place % s[1].out, o % c);
    if (best < 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "a window is outside of the image"), k->error->code;
    if (!dfk_copy(k, out, o, x, best, 1)) return k->error->code;
    ref_put_int(at, o, best - (dfk_bool(k, 4) ? 0 : b * image));
  }
  return DF_OK;
}
