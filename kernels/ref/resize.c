/* resize.c: pictures in other sizes. Rows and columns are apart: an output is a sum of a few inputs along either axis,
 * its taps, with weights that sizes and attributes alone say. A gradient goes the same way back.
 */
#include "../image.h"
#include "../move.h"
#include "element.h"
#include <float.h>
#include <math.h>

typedef enum how { NEAREST, BILINEAR, BICUBIC, AREA } how;

/* The taps of the outputs of one axis: of output o those from first[o] to before first[o + 1]. */
typedef struct axis { int64_t from, to, *first, *at; float *weight; } axis;

/* ---- where an output lies ---------------------------------------------------------------------------------------- */

typedef struct place { float scale; bool corners, centers; } place;

static place place_of(int64_t from, int64_t to, bool corners, bool centers) {
  const float scale = corners && to > 1 ? (float)(from - 1) / (float)(to - 1) : (float)from / (float)to;
  return (place){ scale, corners, centers };
}
static float lies(const place *p, int64_t o) {
  return p->centers ? ((float)o + 0.5f) * p->scale - 0.5f : (float)o * p->scale;
}
static int64_t within(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static void tap(axis *a, int64_t *n, int64_t at, float weight) {
  a->at[*n] = at;
  a->weight[(*n)++] = weight;
}

static void tap_nearest(axis *a, const place *p, int64_t o, int64_t *n) {
  const float x = p->centers ? ((float)o + 0.5f) * p->scale : (float)o * p->scale;
  tap(a, n, within((int64_t)(p->corners ? roundf(x) : floorf(x)), a->from), 1);
}

static void tap_bilinear(axis *a, const place *p, int64_t o, int64_t *n) {
  const float x = lies(p, o), low = floorf(x), part = x - low;
  tap(a, n, within((int64_t)low, a->from), 1 - part);
  tap(a, n, within((int64_t)ceilf(x), a->from), part);
}

/* Keys' cubic at this distance. Its parameter is -3/4 in TensorFlow's older form and -1/2 in the newer one, and
   distances are multiples of 1/1024 in both. */
static float cubic(double a, int64_t steps, bool far) {
  const float x = (float)((double)steps / 1024);
  if (!far) return (float)(((a + 2) * (double)x - (a + 3)) * (double)x * (double)x + 1);
  const float y = (float)((double)x + 1);
  return (float)(((a * (double)y - 5 * a) * (double)y + 8 * a) * (double)y - 4 * a);
}

static void tap_bicubic(axis *a, const place *p, int64_t o, int64_t *n) {
  const float x = lies(p, o), low = floorf(x);
  const int64_t left = (int64_t)low, steps = lrintf((x - low) * 1024);
  const double keys = p->centers ? -0.5 : -0.75;
  const float weight[4] = { cubic(keys, steps, true), cubic(keys, steps, false), cubic(keys, 1024 - steps, false),
                            cubic(keys, 1024 - steps, true) };
  float sum = 0;
  /* the newer form leaves out what lies outside, and what is left has the sum 1; the older one repeats the edge */
  for (int32_t i = 0; i < 4; i++) sum += within(left + i - 1, a->from) == left + i - 1 ? weight[i] : 0;
  const bool whole = !p->centers || fabsf(sum) < 1000 * FLT_MIN;
  for (int32_t i = 0; i < 4; i++) {
    const int64_t at = left + i - 1, inside = within(at, a->from);
    tap(a, n, inside, !p->centers ? weight[i] : at != inside ? 0 : whole ? weight[i] : weight[i] / sum);
  }
}

/* An output covers so many inputs at most. */
static int64_t area_taps(float scale) { return (int64_t)ceilf(scale) + 2; }
/* The part of each input that the output covers, divided by all that it covers. */
static void tap_area(axis *a, const place *p, int64_t o, int64_t *n) {
  const float begin = (float)o * p->scale, end = (float)(o + 1) * p->scale;
  const int64_t first = (int64_t)floorf(begin), most = first + area_taps(p->scale), last = (int64_t)ceilf(end);
  for (int64_t i = first; i < (last < most ? last : most); i++) {
    const float low = (float)i < begin ? begin : (float)i, high = (float)(i + 1) > end ? end : (float)(i + 1);
    tap(a, n, within(i, a->from), (high - low) / p->scale);
  }
}

/* Fills the axis; its memory goes with *room, which dfk_free takes. False: error is filled. */
static bool make_axis(df_kernel *k, how h, int64_t from, int64_t to, bool corners, bool centers, axis *a, void **room) {
  const place p = place_of(from, to, corners, centers);
  const int64_t most = h == NEAREST ? 1 : h == BILINEAR ? 2 : h == BICUBIC ? 4 : area_taps(p.scale);
  const int64_t taps = to * most, words = (to + 1 + taps) * 8;
  *room = dfk_scratch(k, words + taps * (int64_t)sizeof(float));
  if (!*room) return false;
  *a = (axis){ from, to, *room, (int64_t *)*room + to + 1, (float *)((char *)*room + words) };
  int64_t n = 0;
  for (int64_t o = 0; o < to; o++) {
    a->first[o] = n;
    switch (h) {
      case NEAREST:  tap_nearest(a, &p, o, &n); break;
      case BILINEAR: tap_bilinear(a, &p, o, &n); break;
      case BICUBIC:  tap_bicubic(a, &p, o, &n); break;
      case AREA:     tap_area(a, &p, o, &n); break;
    }
  }
  a->first[to] = n;
  return true;
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

typedef struct pictures {
  axis rows, columns;
  int64_t batch, depth;
  void *room[2];
  const df_tensor *in;
  df_tensor *out;
} pictures;

static void end(pictures *p) {
  dfk_free(p->room[0]);
  dfk_free(p->room[1]);
}

static bool is_pictures(df_kernel *k, const df_tensor *t, const char *what) {
  char text[160];
  if (t->rank == 4 && t->size) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected [batch, height, width, channels], and one element at least",
           what, dfk_shape_text(t, text, sizeof text));
  return false;
}

static bool is_size(df_kernel *k, const df_tensor *size) {
  char text[160];
  if (size->rank == 1 && size->size == 2 && dfk_index(size, 0) > 0 && dfk_index(size, 1) > 0) return true;
  if (size->rank == 1 && size->size == 2)
    dfk_fail(k, DF_INVALID_ARGUMENT, "the size is %lld by %lld: both must be positive", (long long)dfk_index(size, 0),
             (long long)dfk_index(size, 1));
  else
    dfk_fail(k, DF_INVALID_ARGUMENT, "size is %s: expected a height and a width, int32[2]",
             dfk_shape_text(size, text, sizeof text));
  return false;
}

/* The axes between small and large: of the images, and of what they become. */
static bool axes(df_kernel *k, how h, pictures *p, const int64_t *images, const int64_t *resized) {
  const bool corners = dfk_bool(k, 0), centers = h != AREA && dfk_bool(k, 1);
  if (corners && centers) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "align_corners and half_pixel_centers are both true: one of them may be");
    return false;
  }
  p->batch = images[0];
  p->depth = images[3];
  return make_axis(k, h, images[1], resized[1], corners, centers, &p->rows, &p->room[0]) &&
         make_axis(k, h, images[2], resized[2], corners, centers, &p->columns, &p->room[1]);
}

/* Rows begin to end of all pictures' new rows. */
static void resize_rows(void *arg, int64_t begin, int64_t limit) {
  const pictures *p = arg;
  const axis *rows = &p->rows, *columns = &p->columns;
  const bool whole = !ref_is_float(p->in->dtype);
  for (int64_t r = begin; r < limit; r++) {
    const int64_t y = r % rows->to, picture = r / rows->to * rows->from;
    for (int64_t x = 0; x < columns->to; x++)
      for (int64_t c = 0; c < p->depth; c++) {
        double sum = 0;
        for (int64_t i = rows->first[y]; i < rows->first[y + 1]; i++) {
          const int64_t row = (picture + rows->at[i]) * columns->from;
          double line = 0;
          for (int64_t j = columns->first[x]; j < columns->first[x + 1]; j++) {
            const int64_t at = (row + columns->at[j]) * p->depth + c;
            line += (double)columns->weight[j] * (whole ? (double)ref_get_int(p->in, at) : ref_get(p->in, at));
          }
          sum += (double)rows->weight[i] * line;
        }
        ref_put(p->out, (r * columns->to + x) * p->depth + c, sum);
      }
  }
}

static bool copy_nearest(df_kernel *k, const pictures *p) {
  for (int64_t r = 0; r < p->batch * p->rows.to; r++) {
    const int64_t row = r / p->rows.to * p->rows.from + p->rows.at[r % p->rows.to];
    for (int64_t x = 0; x < p->columns.to; x++)
      if (!dfk_copy(k, p->out, (r * p->columns.to + x) * p->depth, p->in,
                    (row * p->columns.from + p->columns.at[x]) * p->depth, p->depth))
        return false;
  }
  return true;
}

static int32_t resize(df_kernel *k, how h) {
  const df_tensor *x = k->in[0], *size = k->in[1];
  if (!is_pictures(k, x, "images") || !is_size(k, size)) return k->error->code;
  const int64_t dims[4] = { x->dims[0], dfk_index(size, 0), dfk_index(size, 1), x->dims[3] };
  pictures p = { .in = x, .out = dfk_out(k, 0, k->out_dtype[0], 4, dims) };
  bool ok = p.out && axes(k, h, &p, x->dims, dims);
  if (ok && h == NEAREST) ok = copy_nearest(k, &p);
  else if (ok) dfk_parallel(k, dims[0] * dims[1], 1 + 4096 / (dims[2] * dims[3]), resize_rows, &p);
  end(&p);
  return ok ? DF_OK : k->error->code;
}

/* What `grads` holds of the resized pictures goes back to the images of these dims. */
static int32_t back(df_kernel *k, how h, const int64_t *images) {
  const df_tensor *dy = k->in[0];
  pictures p = { .in = dy, .out = dfk_out(k, 0, k->out_dtype[0], 4, images) };
  double *sum = p.out ? dfk_scratch(k, p.out->size * 8) : NULL;
  const bool ok = sum && axes(k, h, &p, images, dy->dims), whole = !ref_is_float(dy->dtype);
  const axis *rows = &p.rows, *columns = &p.columns;
  for (int64_t i = 0; ok && i < p.out->size; i++) sum[i] = 0;
  for (int64_t at = 0; ok && at < dy->size; at++) {
    const int64_t c = at % p.depth, x = at / p.depth % columns->to, r = at / p.depth / columns->to, y = r % rows->to;
    const double d = whole ? (double)ref_get_int(dy, at) : ref_get(dy, at);
    for (int64_t i = rows->first[y]; i < rows->first[y + 1]; i++)
      for (int64_t j = columns->first[x]; j < columns->first[x + 1]; j++)
        sum[((r / rows->to * rows->from + rows->at[i]) * columns->from + columns->at[j]) * p.depth + c] +=
            d * (double)rows->weight[i] * (double)columns->weight[j];
  }
  for (int64_t i = 0; ok && i < p.out->size; i++) {
    if (ref_is_float(p.out->dtype)) ref_put(p.out, i, sum[i]);
    else ref_put_int(p.out, i, (int64_t)sum[i]);
  }
  dfk_free(sum);
  end(&p);
  return ok ? DF_OK : k->error->code;
}

static int32_t back_to_image(df_kernel *k, how h) {
  const df_tensor *dy = k->in[0], *image = k->in[1];
  char a[160], b[160];
  if (!is_pictures(k, dy, "grads") || !is_pictures(k, image, "original_image")) return k->error->code;
  if (dy->dims[0] == image->dims[0] && dy->dims[3] == image->dims[3]) return back(k, h, image->dims);
  return dfk_fail(k, DF_INVALID_ARGUMENT, "grads is %s and original_image %s: batch and channels must be the same",
                  dfk_shape_text(dy, a, sizeof a), dfk_shape_text(image, b, sizeof b));
}

int32_t ref_resize_nearest(df_kernel *k)  { return resize(k, NEAREST); }
int32_t ref_resize_bilinear(df_kernel *k) { return resize(k, BILINEAR); }
int32_t ref_resize_bicubic(df_kernel *k)  { return resize(k, BICUBIC); }
int32_t ref_resize_area(df_kernel *k)     { return resize(k, AREA); }
int32_t ref_resize_bilinear_grad(df_kernel *k) { return back_to_image(k, BILINEAR); }
int32_t ref_resize_bicubic_grad(df_kernel *k)  { return back_to_image(k, BICUBIC); }
int32_t ref_resize_nearest_grad(df_kernel *k) {
  const df_tensor *dy = k->in[0], *size = k->in[1];
  if (!is_pictures(k, dy, "grads") || !is_size(k, size)) return k->error->code;
  return back(k, NEAREST, (int64_t[]){ dy->dims[0], dfk_index(size, 0), dfk_index(size, 1), dy->dims[3] });
}
