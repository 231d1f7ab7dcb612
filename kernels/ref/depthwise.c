/* depthwise.c: reference depthwise convolutions: for each place of the window, for each tap that lies in the image. */
#include "../window.h"

#define CONVOLVE(S, T)                                                                                           \
  static void convolve_##S(const dfk_conv *c, dfk_side to, int64_t image, int64_t oy, int64_t ox) {              \
    int64_t each = c->co / c->ci;                                                                                \
    T *o = (T *)c->out + ((image * c->y.out + oy) * c->x.out + ox) * c->co;                                      \
    for (int64_t ky = 0; ky < c->y.window; ky++)                                                                 \
      for (int64_t kx = 0; kx < c->x.window; kx++) {                                                             \
        int64_t iy = oy * c->y.stride + ky * c->y.dilation - c->y.before;                                        \
        int64_t ix = ox * c->x.stride + kx * c->x.dilation - c->x.before;                                        \
        if (iy < 0 || iy >= c->y.in || ix < 0 || ix >= c->x.in) continue;                                        \
        T *in = (T *)c->in + ((image * c->y.in + iy) * c->x.in + ix) * c->ci;                                    \
        T *w = (T *)c->filter + (ky * c->x.window + kx) * c->co;                                                 \
        for (int64_t j = 0; j < c->co; j++)                                                                      \
          switch (to) {                                                                                          \
          case DFK_OUTPUT: o[j] += in[j / each] * w[j]; break;                                                   \
          case DFK_INPUT:  in[j / each] += o[j] * w[j]; break;                                                   \
          case DFK_FILTER: w[j] += in[j / each] * o[j]; break;                                                   \
          }                                                                                                      \
      }                                                                                                          \
  }
CONVOLVE(f32, float)
CONVOLVE(f64, double)

static int32_t by_loops(df_kernel *k, const dfk_conv *c, dfk_side to, bool wide) {
  (void)k;
  for (int64_t image = 0; image < c->n; image++)
    for (int64_t oy = 0; oy < c->y.out; oy++)
      for (int64_t ox = 0; ox < c->x.out; ox++)
        if (wide) convolve_f64(c, to, image, oy, ox);
        else convolve_f32(c, to, image, oy, ox);
  return DF_OK;
}

int32_t ref_depthwise_conv2d(df_kernel *k) { return dfk_depthwise_conv2d(k, by_loops); }
int32_t ref_depthwise_backprop_input(df_kernel *k) { return dfk_depthwise_backprop_input(k, by_loops); }
int32_t ref_depthwise_backprop_filter(df_kernel *k) { return dfk_depthwise_backprop_filter(k, by_loops); }
