/* crop.c: parts of pictures, all in one size. A box is y1, x1, y2, x2 in parts of the picture's height and width less
 * one; what lies outside of the picture is the extrapolation value and has no gradient.
 */
#include "../image.h"
#include "element.h"
#include <math.h>

/* One axis of a crop: a point of it lies between the pixels `low` and `high`, `part` of the way. */
typedef struct point { bool inside; int64_t low, high; float part, steps; } point;

/* Point o of `count` between first and last of an axis of n pixels. `steps` is how much of the box lies before it. */
static point point_of(float first, float last, int64_t o, int64_t count, int64_t n, bool nearest) {
  const float end = (float)(n - 1);
  float x;
  if (count > 1) x = first * end + (float)o * ((last - first) * end / (float)(count - 1));
  else x = 0.5f * (first + last) * end;
  point p = { .inside = x >= 0 && x <= end, .steps = count > 1 ? (float)o * (end / (float)(count - 1)) : 0.5f * end };
  if (!p.inside) return p;
  p.low = (int64_t)(nearest ? roundf(x) : floorf(x));
  p.high = nearest ? p.low : (int64_t)ceilf(x);
  p.part = nearest ? 0 : x - floorf(x);
  return p;
}
static point row_of(const dfk_crop *c, int64_t box, int64_t y) {
  const float *b = (const float *)c->boxes->data + 4 * box;
  return point_of(b[0], b[2], y, c->height, c->rows, c->nearest);
}
static point column_of(const dfk_crop *c, int64_t box, int64_t x) {
  const float *b = (const float *)c->boxes->data + 4 * box;
  return point_of(b[1], b[3], x, c->width, c->columns, c->nearest);
}
/* Where the first channel of a pixel of the box's picture is. */
static int64_t pixel(const dfk_crop *c, int64_t box, int64_t y, int64_t x) {
  return ((dfk_index(c->of, box) * c->rows + y) * c->columns + x) * c->depth;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static double value(const df_tensor *t, int64_t i) {
  return ref_is_float(t->dtype) ? ref_get(t, i)
         : t->dtype == DF_UINT64 ? (double)(uint64_t)ref_get_int(t, i) : (double)ref_get_int(t, i);
}

int32_t ref_crop_and_resize(df_kernel *k) {
  const df_tensor *image = k->in[0];
  dfk_crop c = { 0 };
  df_tensor *out = dfk_crop_begin(k, &c);
  if (!out) return k->error->code;
  float *to = out->data;
  for (int64_t b = 0; b < c.n; b++)
    for (int64_t y = 0; y < c.height; y++) {
      const point row = row_of(&c, b, y);
      for (int64_t x = 0; x < c.width; x++) {
        const point column = column_of(&c, b, x);
        for (int64_t d = 0; d < c.depth; d++) {
          if (!row.inside || !column.inside) { *to++ = (float)dfk_float(k, 1); continue; }
          const double above = value(image, pixel(&c, b, row.low, column.low) + d);
          const double above_right = value(image, pixel(&c, b, row.low, column.high) + d);
          const double below = value(image, pixel(&c, b, row.high, column.low) + d);
          const double below_right = value(image, pixel(&c, b, row.high, column.high) + d);
          const double top = above + (above_right - above) * (double)column.part;
          const double bottom = below + (below_right - below) * (double)column.part;
          *to++ = (float)(top + (bottom - top) * (double)row.part);
        }
      }
    }
  return DF_OK;
}

int32_t ref_crop_and_resize_grad_image(df_kernel *k) {
  const df_tensor *grads = k->in[0];
  dfk_crop c = { 0 };
  df_tensor *out = dfk_crop_image_begin(k, &c);
  double *sum = out ? dfk_scratch(k, out->size * 8 + 8) : NULL;
  if (!sum) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) sum[i] = 0;
  for (int64_t at = 0; at < grads->size; at++) {
    const int64_t d = at % c.depth, x = at / c.depth % c.width, y = at / c.depth / c.width % c.height;
    const int64_t b = at / c.depth / c.width / c.height;
    const point row = row_of(&c, b, y), column = column_of(&c, b, x);
    if (!row.inside || !column.inside) continue;
    const double g = ref_get(grads, at), up = g * (1 - (double)row.part), down = g * (double)row.part;
    sum[pixel(&c, b, row.low, column.low) + d] += up * (1 - (double)column.part);
    sum[pixel(&c, b, row.low, column.high) + d] += up * (double)column.part;
    sum[pixel(&c, b, row.high, column.low) + d] += down * (1 - (double)column.part);
    sum[pixel(&c, b, row.high, column.high) + d] += down * (double)column.part;
  }
  for (int64_t i = 0; i < out->size; i++) ref_put(out, i, sum[i]);
  dfk_free(sum);
  return DF_OK;
}

/* What a box's four numbers do to one pixel of its crop, times that pixel's gradient. */
static void add_box(const dfk_crop *c, const df_tensor *image, int64_t b, const point *row, const point *column,
                    int64_t d, double g, double *box) {
  const double above = value(image, pixel(c, b, row->low, column->low) + d);
  const double above_right = value(image, pixel(c, b, row->low, column->high) + d);
  const double below = value(image, pixel(c, b, row->high, column->low) + d);
  const double below_right = value(image, pixel(c, b, row->high, column->high) + d);
  const double right = (double)column->part, under = (double)row->part;
  const double y = g * ((1 - right) * (below - above) + right * (below_right - above_right));
  const double x = g * ((1 - under) * (above_right - above) + under * (below_right - below));
  box[0] += y * ((double)(c->rows - 1) - (double)row->steps);
  box[1] += x * ((double)(c->columns - 1) - (double)column->steps);
  box[2] += y * (double)row->steps;
  box[3] += x * (double)column->steps;
}

int32_t ref_crop_and_resize_grad_boxes(df_kernel *k) {
  const df_tensor *grads = k->in[0], *image = k->in[1];
  dfk_crop c = { 0 };
  df_tensor *out = dfk_crop_boxes_begin(k, &c);
  if (!out) return k->error->code;
  for (int64_t b = 0; b < c.n; b++) {
    double box[4] = { 0 };
    for (int64_t i = 0; i < c.height * c.width; i++) {
      const point row = row_of(&c, b, i / c.width), column = column_of(&c, b, i % c.width);
      if (!row.inside || !column.inside) continue;
      for (int64_t d = 0; d < c.depth; d++)
        add_box(&c, image, b, &row, &column, d, ref_get(grads, (b * c.height * c.width + i) * c.depth + d), box);
    }
    for (int32_t i = 0; i < 4; i++) ((float *)out->data)[4 * b + i] = (float)box[i];
  }
  return DF_OK;
}
