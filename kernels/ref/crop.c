/* crop.c: parts of pictures, all in one size. A box is y1, x1, y2, x2 in parts of the picture's height and width less
 * one; what lies outside of the picture is the extrapolation value and has no gradient.
 */
#include "../image.h"
#include "element.h"
#include <math.h>
#include <string.h>

/* One axis of a crop: a point of it lies between the pixels `low` and `high`, `part` of the way. */
typedef struct point { bool inside; int64_t low, high; float part, steps; } point;

typedef struct crop {
  const df_tensor *boxes, *of;         /* of: the picture that each box is in */
  int64_t n, height, width, depth;     /* of the crops */
  int64_t batch, rows, columns;        /* of the pictures */
  bool nearest;
} crop;

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
static point row_of(const crop *c, int64_t box, int64_t y) {
  const float *b = (const float *)c->boxes->data + 4 * box;
  return point_of(b[0], b[2], y, c->height, c->rows, c->nearest);
}
static point column_of(const crop *c, int64_t box, int64_t x) {
  const float *b = (const float *)c->boxes->data + 4 * box;
  return point_of(b[1], b[3], x, c->width, c->columns, c->nearest);
}
/* Where the first channel of a pixel of the box's picture is. */
static int64_t pixel(const crop *c, int64_t box, int64_t y, int64_t x) {
  return ((dfk_index(c->of, box) * c->rows + y) * c->columns + x) * c->depth;
}

/* ---- what is given ----------------------------------------------------------------------------------------------- */

static bool is_four(df_kernel *k, const int64_t *dims, int32_t rank, const char *what) {
  if (rank == 4 && dims[1] > 0 && dims[2] > 0) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s must be [batch, height, width, channels], and neither height nor width "
           "0", what);
  return false;
}

/* The boxes, each in one of c->batch pictures; the method. */
static bool boxes(df_kernel *k, crop *c, int32_t at, int32_t method) {
  char a[160], b[160];
  c->boxes = k->in[at];
  c->of = k->in[at + 1];
  if (c->boxes->rank != 2 || c->boxes->dims[1] != 4 || c->of->rank != 1 || c->of->size != c->boxes->dims[0]) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "boxes is %s and box_ind %s: expected [n, 4] and [n]",
             dfk_shape_text(c->boxes, a, sizeof a), dfk_shape_text(c->of, b, sizeof b));
    return false;
  }
  c->n = c->of->size;
  const char *how = dfk_string(k, method);
  c->nearest = !strcmp(how, "nearest");
  if (!c->nearest && strcmp(how, "bilinear")) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "method is '%s' but must be bilinear or nearest", how);
    return false;
  }
  for (int64_t i = 0; i < c->n; i++) {
    if (dfk_index(c->of, i) >= 0 && dfk_index(c->of, i) < c->batch) continue;
    dfk_fail(k, DF_OUT_OF_RANGE, "box_ind[%lld] is %lld, but there are %lld pictures", (long long)i,
             (long long)dfk_index(c->of, i), (long long)c->batch);
    return false;
  }
  return true;
}

static void pictures(crop *c, const int64_t *dims) {
  c->batch = dims[0];
  c->rows = dims[1];
  c->columns = dims[2];
  c->depth = dims[3];
}

/* Gradients are those of the crops of c. */
static bool are_crops(df_kernel *k, const df_tensor *grads, crop *c) {
  char text[160];
  if (grads->rank == 4 && grads->dims[0] == c->n && grads->dims[3] == c->depth) {
    c->height = grads->dims[1];
    c->width = grads->dims[2];
    return true;
  }
  dfk_fail(k, DF_INVALID_ARGUMENT, "grads is %s: expected [%lld, height, width, %lld]",
           dfk_shape_text(grads, text, sizeof text), (long long)c->n, (long long)c->depth);
  return false;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static double value(const df_tensor *t, int64_t i) {
  return ref_is_float(t->dtype) ? ref_get(t, i)
         : t->dtype == DF_UINT64 ? (double)(uint64_t)ref_get_int(t, i) : (double)ref_get_int(t, i);
}

int32_t ref_crop_and_resize(df_kernel *k) {
  const df_tensor *image = k->in[0], *size = k->in[3];
  crop c = { 0 };
  if (!is_four(k, image->dims, image->rank, "image")) return k->error->code;
  pictures(&c, image->dims);
  if (!boxes(k, &c, 1, 0)) return k->error->code;
  if (size->rank != 1 || size->size != 2 || dfk_index(size, 0) <= 0 || dfk_index(size, 1) <= 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "crop_size must be a height and a width that are positive, int32[2]");
  c.height = dfk_index(size, 0);
  c.width = dfk_index(size, 1);
  df_tensor *out = dfk_out(k, 0, DF_FLOAT32, 4, (int64_t[]){ c.n, c.height, c.width, c.depth });
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
  const df_tensor *grads = k->in[0], *size = k->in[3];
  crop c = { 0 };
  int64_t dims[4];
  if (size->rank != 1 || size->size != 4)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "image_size must have 4 numbers");
  for (int32_t i = 0; i < 4; i++) dims[i] = dfk_index(size, i);
  if (!is_four(k, dims, 4, "image_size")) return k->error->code;
  pictures(&c, dims);
  if (!boxes(k, &c, 1, 1) || !are_crops(k, grads, &c)) return k->error->code;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], 4, dims);
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
static void add_box(const crop *c, const df_tensor *image, int64_t b, const point *row, const point *column, int64_t d,
                    double g, double *box) {
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
  crop c = { 0 };
  if (!is_four(k, image->dims, image->rank, "image")) return k->error->code;
  pictures(&c, image->dims);
  if (!boxes(k, &c, 2, 0) || !are_crops(k, grads, &c)) return k->error->code;
  df_tensor *out = dfk_out(k, 0, DF_FLOAT32, 2, (int64_t[]){ c.n, 4 });
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
