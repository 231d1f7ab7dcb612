/* picture.cu: colours, parts of pictures, and normalisation over neighbouring channels. All in double, rounded once;
 * sums in an order that follows from the shape. */
#include "block.cuh"

enum { BLOCK = 256 };

/* ---- colours: one thread for each pixel -------------------------------------------------------------------------- */

DFK_ELEMENT double least(const double *c) { return fmin(c[0], fmin(c[1], c[2])); }
DFK_ELEMENT double most(const double *c) { return fmax(c[0], fmax(c[1], c[2])); }
/* In sixths of the circle, below 0 or not. */
DFK_ELEMENT double hue_of(const double *c) {
  const double top = most(c), range = top - least(c);
  if (!(range > 0)) return 0;
  const double sixths = c[0] == top ? (c[1] - c[2]) / range : c[1] == top ? (c[2] - c[0]) / range + 2
                                                                          : (c[0] - c[1]) / range + 4;
  return sixths < 0 ? sixths / 6 + 1 : sixths / 6;
}
DFK_ELEMENT double ramp(double x) { return fmin(1.0, fmax(0.0, x)); }
DFK_ELEMENT void colour_of(double hue, double low, double high, double *c) {
  const double at = hue * 6;
  c[0] = low + (high - low) * ramp(fabs(at - 3) - 1);
  c[1] = low + (high - low) * ramp(2 - fabs(at - 2));
  c[2] = low + (high - low) * ramp(2 - fabs(at - 4));
}
DFK_ELEMENT void to_hsv(double *c) {
  const double hue = hue_of(c), top = most(c), low = least(c);
  c[0] = hue;
  c[1] = top > 0 ? (top - low) / top : 0;
  c[2] = top;
}
DFK_ELEMENT void to_rgb(double *c) { colour_of(c[0], (1 - c[1]) * c[2], c[2], c); }
DFK_ELEMENT void colour(int what, double amount, double *c) {
  if (what == DFC_TO_HSV) to_hsv(c);
  else if (what == DFC_TO_RGB) to_rgb(c);
  else if (what == DFC_TURN_HUE) {
    const double hue = hue_of(c) + amount;
    colour_of(hue - floor(hue), least(c), most(c), c);
  } else {
    to_hsv(c);
    c[1] = ramp(c[1] * amount);
    to_rgb(c);
  }
}
#define COLOUR(s, T) \
  DFC_KERNEL(k_colour_##s, dfc_colouring) { \
    DFC_EACH(i, p.n) { \
      const T *x = (const T *)p.x + 3 * i; \
      double c[3] = { (double)x[0], (double)x[1], (double)x[2] }; \
      colour(p.what, (double)load<float>(p.amount, 0), c); \
      for (int j = 0; j < 3; j++) ((T *)p.z)[3 * i + j] = (T)c[j]; \
    } \
  } \
  /* x as [n, pixels, depth]: one block for each channel of a picture */ \
  DFC_KERNEL(k_contrast_##s, dfc_colouring) { \
    DFC_SHARED double part[BLOCK]; \
    for (int64_t r = blockIdx.x; r < p.n * p.depth; r += gridDim.x) { \
      const int64_t at = r / p.depth * p.pixels * p.depth + r % p.depth; \
      const T *x = (const T *)p.x + at; \
      double mean = 0; \
      for (int64_t i = threadIdx.x; i < p.pixels; i += BLOCK) mean += (double)x[i * p.depth]; \
      mean = block_sum<BLOCK>(mean, part) / (double)p.pixels; \
      const double factor = (double)load<float>(p.amount, 0); \
      for (int64_t i = threadIdx.x; i < p.pixels; i += BLOCK) \
        ((T *)p.z)[at + i * p.depth] = (T)(((double)x[i * p.depth] - mean) * factor + mean); \
    } \
  } \
  /* x / (bias + alpha * the sum of squares of the channels within the radius) ^ beta */ \
  DFC_KERNEL(k_lrn_##s, dfc_neighbours) { \
    DFC_EACH(e, p.n) { \
      const T *x = (const T *)p.x + e / p.depth * p.depth; \
      const int64_t c = e % p.depth, first = c > p.radius ? c - p.radius : 0; \
      const int64_t last = p.radius < p.depth - 1 - c ? c + p.radius : p.depth - 1; \
      double sum = 0; \
      for (int64_t i = first; i <= last; i++) sum += (double)x[i] * (double)x[i]; \
      ((T *)p.z)[e] = (T)((double)x[c] * pow(p.bias + p.alpha * sum, -p.beta)); \
    } \
  }
COLOUR(f32, float)
COLOUR(f64, double)
COLOUR(f16, f16)
COLOUR(b16, b16)

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* One axis of a crop: a point of it lies between the pixels `low` and `high`, `part` of the way; `steps`: how much of
 * the box lies before it. In float, as TensorFlow's. */
struct point { bool inside; int64_t low, high; float part, steps; };
DFK_ELEMENT point point_of(float first, float last, int64_t o, int64_t count, int64_t n, bool nearest) {
  const float end = (float)(n - 1);
  const float x = count > 1 ? first * end + (float)o * ((last - first) * end / (float)(count - 1))
                            : 0.5f * (first + last) * end;
  point a;
  a.inside = x >= 0 && x <= end;
  a.steps = count > 1 ? (float)o * (end / (float)(count - 1)) : 0.5f * end;
  a.low = a.high = 0;
  a.part = 0;
  if (!a.inside) return a;
  a.low = (int64_t)(nearest ? roundf(x) : floorf(x));
  a.high = nearest ? a.low : (int64_t)ceilf(x);
  a.part = nearest ? 0 : x - floorf(x);
  return a;
}
DFK_ELEMENT point row_of(const dfc_cropping &p, int64_t b, int64_t y) {
  const float *box = (const float *)p.boxes + 4 * b;
  return point_of(box[0], box[2], y, p.height, p.rows, p.nearest != 0);
}
DFK_ELEMENT point column_of(const dfc_cropping &p, int64_t b, int64_t x) {
  const float *box = (const float *)p.boxes + 4 * b;
  return point_of(box[1], box[3], x, p.width, p.columns, p.nearest != 0);
}
/* The four pixels around a point. */
struct corners { double above, above_right, below, below_right; };
template <class T> DFC_INLINE corners around(const dfc_cropping &p, int64_t b, const point &row, const point &column,
                                             int64_t d) {
  const T *x = (const T *)p.x + p.of[b] * p.rows * p.columns * p.depth + d;
  const int64_t up = row.low * p.columns, down = row.high * p.columns;
  corners a;
  a.above = (double)x[(up + column.low) * p.depth];
  a.above_right = (double)x[(up + column.high) * p.depth];
  a.below = (double)x[(down + column.low) * p.depth];
  a.below_right = (double)x[(down + column.high) * p.depth];
  return a;
}

template <class T> DFC_INLINE void crop(const dfc_cropping &p) {
  DFC_EACH(e, p.n * p.height * p.width * p.depth) {
    const int64_t b = e / p.depth / p.width / p.height;
    const point row = row_of(p, b, e / p.depth / p.width % p.height), column = column_of(p, b, e / p.depth % p.width);
    if (!row.inside || !column.inside) { ((float *)p.z)[e] = p.outside; continue; }
    const corners a = around<T>(p, b, row, column, e % p.depth);
    const double top = a.above + (a.above_right - a.above) * (double)column.part;
    const double bottom = a.below + (a.below_right - a.below) * (double)column.part;
    ((float *)p.z)[e] = (float)(top + (bottom - top) * (double)row.part);
  }
}
/* How much of a point is pixel i. */
DFK_ELEMENT double share(const point &a, int64_t i) {
  return !a.inside ? 0 : (a.low == i ? 1 - (double)a.part : 0) + (a.high == i ? (double)a.part : 0);
}
/* What came back to each pixel: it looks through the points of all boxes in its picture. */
template <class T> DFC_INLINE void crop_image(const dfc_cropping &p) {
  DFC_EACH(e, p.batch * p.rows * p.columns * p.depth) {
    const int64_t d = e % p.depth, j = e / p.depth % p.columns, i = e / p.depth / p.columns % p.rows;
    const int64_t picture = e / p.depth / p.columns / p.rows;
    double sum = 0;
    for (int64_t b = 0; b < p.n; b++) {
      if (p.of[b] != picture) continue;
      for (int64_t y = 0; y < p.height; y++) {
        const double down = share(row_of(p, b, y), i);
        for (int64_t x = 0; x < p.width && down != 0; x++) {
          const double right = share(column_of(p, b, x), j);
          if (right != 0)                                  /* NaN beside it is no business of this pixel */
            sum += down * right * (double)((const float *)p.dy)[((b * p.height + y) * p.width + x) * p.depth + d];
        }
      }
    }
    ((T *)p.z)[e] = (T)sum;
  }
}
/* What came back to the four numbers of each box: one block for each. */
template <class T> DFC_INLINE void crop_boxes(const dfc_cropping &p, double *part) {
  for (int64_t b = blockIdx.x; b < p.n; b += gridDim.x) {
    double box[4] = { 0, 0, 0, 0 };
    const int64_t points = p.height * p.width * p.depth;
    for (int64_t e = threadIdx.x; e < points; e += BLOCK) {
      const point row = row_of(p, b, e / p.depth / p.width), column = column_of(p, b, e / p.depth % p.width);
      if (!row.inside || !column.inside) continue;
      const corners a = around<T>(p, b, row, column, e % p.depth);
      const double g = (double)((const float *)p.dy)[b * points + e], right = (double)column.part;
      const double under = (double)row.part;
      const double y = g * ((1 - right) * (a.below - a.above) + right * (a.below_right - a.above_right));
      const double x = g * ((1 - under) * (a.above_right - a.above) + under * (a.below_right - a.below));
      box[0] += y * ((double)(p.rows - 1) - (double)row.steps);
      box[1] += x * ((double)(p.columns - 1) - (double)column.steps);
      box[2] += y * (double)row.steps;
      box[3] += x * (double)column.steps;
    }
    for (int i = 0; i < 4; i++) {
      const double all = block_sum<BLOCK>(box[i], part);
      if (threadIdx.x == 0) ((float *)p.z)[4 * b + i] = (float)all;
    }
  }
}
#define CROP(s, T) \
  DFC_KERNEL(k_crop_##s, dfc_cropping) { crop<T>(p); } \
  DFC_KERNEL(k_crop_boxes_##s, dfc_cropping) { \
    DFC_SHARED double part[BLOCK]; \
    crop_boxes<T>(p, part); \
  }
#define CROP_BACK(s, T) CROP(s, T) DFC_KERNEL(k_crop_image_##s, dfc_cropping) { crop_image<T>(p); }
CROP_BACK(f32, float)
CROP_BACK(f64, double)
CROP_BACK(f16, f16)
CROP_BACK(b16, b16)
CROP(i32, int32_t)
CROP(i64, int64_t)
CROP(i8, int8_t)
CROP(u8, uint8_t)
