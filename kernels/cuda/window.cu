/* window.cu: convolutions and pooling.
 *
 * A convolution is a product of matrices whose elements are picked out of the images: 256 threads make a tile of
 * 16 x 16 results, both sides by way of shared memory. Made are the output (pixels x channels, summed over taps and
 * input channels), the input (its pixels x channels, over taps and output channels) or the filter (taps and input
 * channels x output channels, over pixels). Depthwise: one thread for each element of output and input, one block for
 * each of the filter. Pooling: one thread for each element that is made, which looks at the windows that it is part
 * of; so nothing is added to twice at a time, and the order of a sum is always the same.
 */
#include "kernel.cuh"

enum { TILE = 16, BLOCK = 128, OUTPUT = 0, INPUT = 1, FILTER = 2 };

/* Which pixel of the input tap t of output place o looks at; -1: none. */
DFC_INLINE int64_t seen(const dfc_axis &a, int64_t o, int64_t t) {
  const int64_t i = o * a.stride + t * a.dilation - a.before;
  return i >= 0 && i < a.in ? i : -1;
}
/* Which output place looks with tap t at pixel i of the input; -1: none. */
DFC_INLINE int64_t seen_by(const dfc_axis &a, int64_t i, int64_t t) {
  const int64_t from = i + a.before - t * a.dilation, o = from / a.stride;
  return from >= 0 && o * a.stride == from && o < a.out ? o : -1;
}

/* Sizes of the product: rows, columns, and what is summed over. */
DFC_INLINE void sizes_of(const dfc_window &p, int64_t *m, int64_t *n, int64_t *k) {
  const int64_t taps = p.y.window * p.x.window, places = p.n * p.y.out * p.x.out;
  *m = p.side == OUTPUT ? places : p.side == INPUT ? p.n * p.y.in * p.x.in : taps * p.ci;
  *n = p.side == INPUT ? p.ci : p.co;
  *k = p.side == OUTPUT ? taps * p.ci : p.side == INPUT ? taps * p.co : places;
}

/* The input at the pixel that place `o` (of all images) sees with tap t; 0 beside the image. */
template <class T> DFC_INLINE T input_at(const dfc_window &p, int64_t o, int64_t t, int64_t channel) {
  const int64_t ox = o % p.x.out, oy = o / p.x.out % p.y.out, image = o / p.x.out / p.y.out;
  const int64_t iy = seen(p.y, oy, t / p.x.window), ix = seen(p.x, ox, t % p.x.window);
  return iy < 0 || ix < 0 ? (T)0.f : ((const T *)p.in)[((image * p.y.in + iy) * p.x.in + ix) * p.ci + channel];
}
/* The output where tap t saw pixel i (of all images); 0 where it did not. */
template <class T> DFC_INLINE T output_at(const dfc_window &p, int64_t i, int64_t t, int64_t channel) {
  const int64_t ix = i % p.x.in, iy = i / p.x.in % p.y.in, image = i / p.x.in / p.y.in;
  const int64_t oy = seen_by(p.y, iy, t / p.x.window), ox = seen_by(p.x, ix, t % p.x.window);
  return oy < 0 || ox < 0 ? (T)0.f : ((const T *)p.out)[((image * p.y.out + oy) * p.x.out + ox) * p.co + channel];
}
/* Elements [row, k] of the left side and [k, column] of the right one. */
template <class T> DFC_INLINE T left_at(const dfc_window &p, int64_t row, int64_t k) {
  switch (p.side) {
    case OUTPUT: return input_at<T>(p, row, k / p.ci, k % p.ci);
    case INPUT: return output_at<T>(p, row, k / p.co, k % p.co);
    default: return input_at<T>(p, k, row / p.ci, row % p.ci);
  }
}
template <class T> DFC_INLINE T right_at(const dfc_window &p, int64_t k, int64_t column) {
  switch (p.side) {
    case OUTPUT: return ((const T *)p.filter)[k * p.co + column];
    case INPUT: return ((const T *)p.filter)[(k / p.co * p.ci + column) * p.co + k % p.co];
    default: return ((const T *)p.out)[k * p.co + column];
  }
}

template <class T>
DFC_INLINE void convolve(const dfc_window &p, typename wide_of<T>::type (*as)[TILE],
                         typename wide_of<T>::type (*bs)[TILE + 1]) {
  typedef typename wide_of<T>::type A;
  const int tx = (int)threadIdx.x % TILE, ty = (int)threadIdx.x / TILE;
  int64_t m, n, inner;
  sizes_of(p, &m, &n, &inner);
  const int64_t columns = (n + TILE - 1) / TILE, tiles = (m + TILE - 1) / TILE * columns;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t row = tile / columns * TILE + ty, column = tile % columns * TILE + tx;
    A sum = 0;
    for (int64_t k = 0; k < inner; k += TILE) {
      as[ty][tx] = row < m && k + tx < inner ? (A)left_at<T>(p, row, k + tx) : (A)0;
      bs[ty][tx] = column < n && k + ty < inner ? (A)right_at<T>(p, k + ty, column) : (A)0;
      __syncthreads();
      for (int i = 0; i < TILE; i++) sum += as[ty][i] * bs[i][tx];
      __syncthreads();
    }
    if (row < m && column < n) ((T *)p.to)[row * n + column] = (T)sum;
  }
}

/* ---- groups of channels, each by itself; depthwise: a channel of the input is a group ---------------------------- */
template <class T> DFC_INLINE void grouped(const dfc_window &p) {
  typedef typename wide_of<T>::type A;
  const int64_t ci = p.ci / p.groups, co = p.co / p.groups, taps = p.y.window * p.x.window;
  const bool forward = p.side == OUTPUT;
  const int64_t channels = forward ? p.co : p.ci;
  DFC_EACH(e, p.n * (forward ? p.y.out * p.x.out * p.co : p.y.in * p.x.in * p.ci)) {
    const int64_t c = e % channels, pixel = e / channels, group = c / (forward ? co : ci);
    A sum = 0;
    for (int64_t t = 0; t < taps; t++) {
      const T *w = (const T *)p.filter + t * ci * p.co;
      if (forward)
        for (int64_t i = 0; i < ci; i++) sum += (A)input_at<T>(p, pixel, t, group * ci + i) * (A)w[i * p.co + c];
      else
        for (int64_t j = group * co; j < (group + 1) * co; j++)
          sum += (A)output_at<T>(p, pixel, t, j) * (A)w[c % ci * p.co + j];
    }
    ((T *)p.to)[e] = (T)sum;
  }
}
/* The filter: a block for each element. */
template <class T> DFC_INLINE void grouped_filter(const dfc_window &p, typename wide_of<T>::type *part) {
  typedef typename wide_of<T>::type A;
  const int64_t ci = p.ci / p.groups, co = p.co / p.groups, elements = p.y.window * p.x.window * ci * p.co;
  for (int64_t e = blockIdx.x; e < elements; e += gridDim.x) {
    const int64_t j = e % p.co, i = j / co * ci + e / p.co % ci, t = e / p.co / ci;
    A sum = 0;
    for (int64_t o = threadIdx.x; o < p.n * p.y.out * p.x.out; o += BLOCK)
      sum += (A)input_at<T>(p, o, t, i) * (A)((const T *)p.out)[o * p.co + j];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = BLOCK / 2; half; half >>= 1) {
      if ((int)threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) ((T *)p.to)[e] = (T)part[0];
    __syncthreads();
  }
}
#define CONVOLUTION(s, T) \
  DFC_KERNEL(k_convolve_##s, dfc_window) { \
    DFC_SHARED wide_of<T>::type as[TILE][TILE], bs[TILE][TILE + 1]; \
    convolve<T>(p, as, bs); \
  } \
  DFC_KERNEL(k_grouped_##s, dfc_window) { grouped<T>(p); } \
  DFC_KERNEL(k_grouped_filter_##s, dfc_window) { \
    DFC_SHARED wide_of<T>::type part[BLOCK]; \
    grouped_filter<T>(p, part); \
  }
CONVOLUTION(f32, float)
CONVOLUTION(f64, double)
CONVOLUTION(f16, f16)
CONVOLUTION(b16, b16)

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

/* The pixels [from, to) of the input that place o's window covers. */
DFC_INLINE void covered(const dfc_axis &a, int64_t o, int64_t *from, int64_t *to) {
  *from = o * a.stride - a.before;
  *to = *from + a.window;
  if (*from < 0) *from = 0;
  if (*to > a.in) *to = a.in;
}
/* The places [from, to) whose windows cover pixel i. */
DFC_INLINE void covering(const dfc_axis &a, int64_t i, int64_t *from, int64_t *to) {
  const int64_t first = i + a.before - a.window + 1;
  *from = first <= 0 ? 0 : (first + a.stride - 1) / a.stride;
  *to = (i + a.before) / a.stride + 1;
  if (*to > a.out) *to = a.out;
}
/* The pixel (y, x), as y * p.x.in + x, that place (oy, ox) of an image took: the first that is its maximum; or -1. */
template <class T> DFC_INLINE int64_t taken(const dfc_window &p, int64_t image, int64_t oy, int64_t ox, int64_t c) {
  int64_t y0, y1, x0, x1;
  covered(p.y, oy, &y0, &y1);
  covered(p.x, ox, &x0, &x1);
  const T top = ((const T *)p.out)[((image * p.y.out + oy) * p.x.out + ox) * p.ci + c];
  for (int64_t y = y0; y < y1; y++)
    for (int64_t x = x0; x < x1; x++)
      if (((const T *)p.in)[((image * p.y.in + y) * p.x.in + x) * p.ci + c] == top) return y * p.x.in + x;
  return -1;
}

/* One thread for each element of the output: maximum, average, or what came to the pixel that was taken. */
enum { MAXIMUM = 0, AVERAGE, TAKEN };
template <class T> DFC_INLINE void pool(const dfc_window &p, int what) {
  typedef typename wide_of<T>::type A;
  DFC_EACH(e, p.n * p.y.out * p.x.out * p.ci) {
    const int64_t c = e % p.ci, o = e / p.ci;
    const int64_t ox = o % p.x.out, oy = o / p.x.out % p.y.out, image = o / p.x.out / p.y.out;
    int64_t y0, y1, x0, x1;
    covered(p.y, oy, &y0, &y1);
    covered(p.x, ox, &x0, &x1);
    if (what == TAKEN) {
      const int64_t at = taken<T>(p, image, oy, ox, c);
      ((T *)p.to)[e] = at < 0 ? (T)0.f : ((const T *)p.dy)[(image * p.y.in * p.x.in + at) * p.ci + c];
      continue;
    }
    A a = what == MAXIMUM ? (A)lowest_of<T>() : (A)0;
    for (int64_t y = y0; y < y1; y++)
      for (int64_t x = x0; x < x1; x++) {
        const A v = (A)((const T *)p.in)[((image * p.y.in + y) * p.x.in + x) * p.ci + c];
        if (what == AVERAGE) a += v;
        else if (v > a || v != v) a = v;
      }
    ((T *)p.to)[e] = (T)(what == AVERAGE ? a / (A)((y1 - y0) * (x1 - x0)) : a);
  }
}
/* One thread for each element of the input: what comes back to it from the places that cover it. */
template <class T> DFC_INLINE void pool_back(const dfc_window &p, bool average) {
  typedef typename wide_of<T>::type A;
  DFC_EACH(e, p.n * p.y.in * p.x.in * p.ci) {
    const int64_t c = e % p.ci, i = e / p.ci, ix = i % p.x.in, iy = i / p.x.in % p.y.in, image = i / p.x.in / p.y.in;
    int64_t oy0, oy1, ox0, ox1, y0, y1, x0, x1;
    covering(p.y, iy, &oy0, &oy1);
    covering(p.x, ix, &ox0, &ox1);
    A sum = 0;
    for (int64_t oy = oy0; oy < oy1; oy++)
      for (int64_t ox = ox0; ox < ox1; ox++) {
        const A dy = (A)((const T *)p.dy)[((image * p.y.out + oy) * p.x.out + ox) * p.ci + c];
        if (average) {
          covered(p.y, oy, &y0, &y1);
          covered(p.x, ox, &x0, &x1);
          sum += dy / (A)((y1 - y0) * (x1 - x0));
        } else if (taken<T>(p, image, oy, ox, c) == iy * p.x.in + ix) {
          sum += dy;
        }
      }
    ((T *)p.to)[e] = (T)sum;
  }
}
#define MAX_POOL(s, T) DFC_KERNEL(k_max_pool_##s, dfc_window) { pool<T>(p, MAXIMUM); }
#define POOL(s, T) \
  MAX_POOL(s, T) \
  DFC_KERNEL(k_avg_pool_##s, dfc_window) { pool<T>(p, AVERAGE); } \
  DFC_KERNEL(k_max_pool_grad_grad_##s, dfc_window) { pool<T>(p, TAKEN); } \
  DFC_KERNEL(k_max_pool_grad_##s, dfc_window) { pool_back<T>(p, false); } \
  DFC_KERNEL(k_avg_pool_grad_##s, dfc_window) { pool_back<T>(p, true); }
POOL(f32, float)
POOL(f64, double)
POOL(f16, f16)
POOL(b16, b16)
MAX_POOL(i8, int8_t)
MAX_POOL(u8, uint8_t)
MAX_POOL(i32, int32_t)
MAX_POOL(i64, int64_t)
