/* convolution.c: reference convolutions: for each place of the window, for each tap that lies in the image, for each
 * group of channels. */
#include "../window.h"
#include <string.h>

#define CONVOLVE(S, T)                                                                                           \
  static void convolve_##S(const dfk_conv *c, dfk_side to, int64_t image, int64_t oz, int64_t oy, int64_t ox) {  \
    const int64_t ci = c->ci / c->groups, co = c->co / c->groups;                                                \
    T *o = (T *)c->out + (((image * c->z.out + oz) * c->y.out + oy) * c->x.out + ox) * c->co;                    \
    for (int64_t kz = 0; kz < c->z.window; kz++)                                                                 \
      for (int64_t ky = 0; ky < c->y.window; ky++)                                                               \
        for (int64_t kx = 0; kx < c->x.window; kx++) {                                                           \
          int64_t iz = oz * c->z.stride + kz * c->z.dilation - c->z.before;                                      \
          int64_t iy = oy * c->y.stride + ky * c->y.dilation - c->y.before;                                      \
          int64_t ix = ox * c->x.stride + kx * c->x.dilation - c->x.before;                                      \
          if (iz < 0 || iz >= c->z.in || iy < 0 || iy >= c->y.in || ix < 0 || ix >= c->x.in) continue;           \
          T *in = (T *)c->in + (((image * c->z.in + iz) * c->y.in + iy) * c->x.in + ix) * c->ci;                 \
          T *w = (T *)c->filter + ((kz * c->y.window + ky) * c->x.window + kx) * ci * c->co;                     \
          for (int64_t i = 0; i < c->ci; i++)                                                                    \
            for (int64_t j = i / ci * co; j < (i / ci + 1) * co; j++)                                            \
              switch (to) {                                                                                      \
              case DFK_OUTPUT: o[j] += in[i] * w[i % ci * c->co + j]; break;                                     \
              case DFK_INPUT:  in[i] += o[j] * w[i % ci * c->co + j]; break;                                     \
              case DFK_FILTER: w[i % ci * c->co + j] += in[i] * o[j]; break;                                     \
              }                                                                                                  \
        }                                                                                                        \
  }
CONVOLVE(f32, float)
CONVOLVE(f64, double)

static int32_t by_loops(df_kernel *k, const dfk_conv *c, dfk_side to, bool wide) {
  if (to == DFK_OUTPUT) memset(c->out, 0, (size_t)(dfk_conv_places(c) * c->co * (wide ? 8 : 4)));
  for (int64_t image = 0; image < c->n; image++)
    for (int64_t oz = 0; oz < c->z.out; oz++)
      for (int64_t oy = 0; oy < c->y.out; oy++)
        for (int64_t ox = 0; ox < c->x.out; ox++)
          (wide ? convolve_f64 : convolve_f32)(c, to, image, oz, oy, ox);
  return DF_OK;
}

int32_t ref_conv2d(df_kernel *k) { return dfk_conv2d(k, by_loops); }
int32_t ref_conv2d_backprop_input(df_kernel *k) { return dfk_conv2d_backprop_input(k, by_loops); }
int32_t ref_conv2d_backprop_filter(df_kernel *k) { return dfk_conv2d_backprop_filter(k, by_loops); }

int32_t ref_depthwise_conv2d(df_kernel *k) { return dfk_depthwise_conv2d(k, by_loops); }
int32_t ref_depthwise_backprop_input(df_kernel *k) { return dfk_depthwise_backprop_input(k, by_loops); }
int32_t ref_depthwise_backprop_filter(df_kernel *k) { return dfk_depthwise_backprop_filter(k, by_loops); }
