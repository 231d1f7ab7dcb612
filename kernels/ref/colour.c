/* colour.c: red, green and blue as hue, saturation and value, and back; pictures with more or less of them. */
#include "../image.h"
#include "element.h"
#include <math.h>

static double least(double a, double b, double c) { return fmin(a, fmin(b, c)); }
static double most(double a, double b, double c) { return fmax(a, fmax(b, c)); }

/* The hue in [0, 1): which way the colour lies from gray. */
static double hue_of(const double *rgb) {
  const double r = rgb[0], g = rgb[1], b = rgb[2], top = most(r, g, b), range = top - least(r, g, b);
  if (!(range > 0)) return 0;
  const double h = r == top ? (g - b) / (6 * range) : g == top ? (b - r) / (6 * range) + 2.0 / 6
                                                               : (r - g) / (6 * range) + 4.0 / 6;
  return h < 0 ? h + 1 : h;
}

/* The colour of this hue whose greatest part is `high` and whose least is `low`. */
static void colour_of(double hue, double low, double high, double *rgb) {
  const double at = hue * 6;
  const double part[3] = { fabs(at - 3) - 1, 2 - fabs(at - 2), 2 - fabs(at - 4) };
  for (int32_t i = 0; i < 3; i++) rgb[i] = low + (high - low) * fmin(1, fmax(0, part[i]));
}

static void to_hsv(const double *rgb, double amount, double *out) {
  const double top = most(rgb[0], rgb[1], rgb[2]);
  (void)amount;
  out[0] = hue_of(rgb);
  out[1] = top > 0 ? (top - least(rgb[0], rgb[1], rgb[2])) / top : 0;
  out[2] = top;
}
static void to_rgb(const double *hsv, double amount, double *out) {
  (void)amount;
  colour_of(hsv[0], (1 - hsv[1]) * hsv[2], hsv[2], out);
}
static void turn_hue(const double *rgb, double delta, double *out) {
  const double hue = hue_of(rgb) + delta;
  colour_of(hue - floor(hue), least(rgb[0], rgb[1], rgb[2]), most(rgb[0], rgb[1], rgb[2]), out);
}
static void saturate(const double *rgb, double scale, double *out) {
  double hsv[3];
  to_hsv(rgb, 0, hsv);
  hsv[1] = fmin(1, fmax(0, hsv[1] * scale));
  to_rgb(hsv, 0, out);
}

static int32_t each(df_kernel *k, void (*fn)(const double *, double, double *), double amount) {
  const df_tensor *x = k->in[0];
  if (!dfk_colours(k, x)) return k->error->code;
  df_tensor *y = dfk_out_like(k, 0, x);
  if (!y) return k->error->code;
  for (int64_t i = 0; i < x->size; i += 3) {
    const double in[3] = { ref_get(x, i), ref_get(x, i + 1), ref_get(x, i + 2) };
    double out[3];
    fn(in, amount, out);
    for (int32_t c = 0; c < 3; c++) ref_put(y, i + c, out[c]);
  }
  return DF_OK;
}

static int32_t each_by(df_kernel *k, const char *what, void (*fn)(const double *, double, double *)) {
  return dfk_colour_amount(k, what) ? each(k, fn, ref_get(k->in[1], 0)) : k->error->code;
}

int32_t ref_rgb_to_hsv(df_kernel *k) { return each(k, to_hsv, 0); }
int32_t ref_hsv_to_rgb(df_kernel *k) { return each(k, to_rgb, 0); }
int32_t ref_adjust_hue(df_kernel *k)        { return each_by(k, "delta", turn_hue); }
int32_t ref_adjust_saturation(df_kernel *k) { return each_by(k, "scale", saturate); }

int32_t ref_adjust_contrast(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *y = dfk_contrast_begin(k);
  if (!y) return k->error->code;
  const double factor = ref_get(k->in[1], 0);
  const int64_t depth = x->dims[x->rank - 1], pixels = x->dims[x->rank - 3] * x->dims[x->rank - 2];
  for (int64_t at = 0; at < x->size; at += pixels * depth)
    for (int64_t c = at; c < at + depth; c++) {
      double mean = 0;
      for (int64_t i = 0; i < pixels; i++) mean += ref_get(x, c + i * depth);
      mean /= (double)pixels;
      for (int64_t i = 0; i < pixels; i++)
        ref_put(y, c + i * depth, (ref_get(x, c + i * depth) - mean) * factor + mean);
    }
  return DF_OK;
}
