/* resize.c: where outputs of resized pictures lie, and what is asked of shapes. See resize.h. */
#include "resize.h"
#include "move.h"
#include <float.h>
#include <math.h>
#include <string.h>

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

static void tap(dfk_taps *a, int64_t *n, int64_t at, float weight) {
  a->at[*n] = at;
  a->weight[(*n)++] = weight;
}

static void tap_nearest(dfk_taps *a, const place *p, int64_t o, int64_t *n) {
  const float x = p->centers ? ((float)o + 0.5f) * p->scale : (float)o * p->scale;
  tap(a, n, within((int64_t)(p->corners ? roundf(x) : floorf(x)), a->from), 1);
}

static void tap_bilinear(dfk_taps *a, const place *p, int64_t o, int64_t *n) {
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

static void tap_bicubic(dfk_taps *a, const place *p, int64_t o, int64_t *n) {
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
static void tap_area(dfk_taps *a, const place *p, int64_t o, int64_t *n) {
  const float begin = (float)o * p->scale, end = (float)(o + 1) * p->scale;
  const int64_t first = (int64_t)floorf(begin), most = first + area_taps(p->scale), last = (int64_t)ceilf(end);
  for (int64_t i = first; i < (last < most ? last : most); i++) {
    const float low = (float)i < begin ? begin : (float)i, high = (float)(i + 1) > end ? end : (float)(i + 1);
    tap(a, n, within(i, a->from), (high - low) / p->scale);
  }
}

/* Room for so many taps. False: error is filled. */
static bool room_for(df_kernel *k, int64_t from, int64_t to, int64_t taps, dfk_taps *a) {
  const int64_t words = (to + 1 + taps) * 8;
  int64_t *room = dfk_scratch(k, words + taps * (int64_t)sizeof(float));
  if (room) *a = (dfk_taps){ from, to, room, room + to + 1, (float *)((char *)room + words) };
  return room != NULL;
}

/* Fills the taps, whose memory dfk_free takes. False: error is filled. */
static bool make_taps(df_kernel *k, dfk_resizing h, int64_t from, int64_t to, bool corners, bool centers,
                      dfk_taps *a) {
  const place p = place_of(from, to, corners, centers);
  const int64_t most = h == DFK_NEAREST ? 1 : h == DFK_BILINEAR ? 2 : h == DFK_BICUBIC ? 4 : area_taps(p.scale);
  if (!room_for(k, from, to, to * most, a)) return false;
  int64_t n = 0;
  for (int64_t o = 0; o < to; o++) {
    a->first[o] = n;
    switch (h) {
      case DFK_NEAREST:  tap_nearest(a, &p, o, &n); break;
      case DFK_BILINEAR: tap_bilinear(a, &p, o, &n); break;
      case DFK_BICUBIC:  tap_bicubic(a, &p, o, &n); break;
      default:           tap_area(a, &p, o, &n); break;
    }
  }
  a->first[to] = n;
  return true;
}

/* ---- sampled: scaled and moved by any number, below a kernel ----------------------------------------------------- */

static float lanczos(float x, float radius) {
  if (x > radius) return 0;
  if (x <= 1e-3f) return 1;
  return (float)(radius * sin(M_PI * x) * sin(M_PI * x / radius) / (M_PI * M_PI * x * x));
}
static float lanczos1(float x) { return lanczos(x, 1); }
static float lanczos3(float x) { return lanczos(x, 3); }
static float lanczos5(float x) { return lanczos(x, 5); }
static float gaussian(float x) { return x >= 1.5f ? 0 : expf(-x * x / (2 * 0.5f * 0.5f)); }
static float box(float x)      { return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0; }
static float triangle(float x) { return x < 1 ? 1 - x : 0; }
static float keys(float x) {
  return x >= 2 ? 0 : x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : (1.5f * x - 2.5f) * x * x + 1;
}
static float mitchell(float x) {
  if (x > 2) return 0;
  return x > 1 ? (((-7 / 18.f) * x + 2) * x - 10 / 3.f) * x + 16 / 9.f : ((7 / 6.f) * x - 2) * x * x + 8 / 9.f;
}
typedef struct sampling { const char *name; float radius; float (*at)(float distance); } sampling;
static const sampling samplings[] = {
  { "lanczos1", 1, lanczos1 }, { "lanczos3", 3, lanczos3 }, { "lanczos5", 5, lanczos5 }, { "gaussian", 1.5f, gaussian },
  { "box", 0.5f, box }, { "triangle", 1, triangle }, { "keyscubic", 2, keys }, { "mitchellcubic", 2, mitchell },
};

/* Output o lies at (o + 1/2 - moved) / scale; what is made smaller is seen through a kernel that is as much wider. */
static bool make_sampled(df_kernel *k, const sampling *s, int64_t from, int64_t to, float scale, float moved,
                         dfk_taps *a) {
  const float inverse = 1 / scale, offset = -inverse * moved, wide = dfk_bool(k, 1) && inverse > 1 ? inverse : 1;
  const double most = fmin(2 * ceil(s->radius * wide) + 1, (double)from);
  if (!room_for(k, from, to, to * (int64_t)most, a)) return false;
  int64_t n = 0;
  for (int64_t o = 0; o < to; o++) {
    const float at = ((float)o + 0.5f) * inverse + offset;
    a->first[o] = n;
    if (!(at >= 0 && at <= (float)from)) continue;       /* beside the picture is nothing */
    const int64_t first = within((int64_t)ceilf(at - s->radius * wide - 0.5f), from);
    const int64_t last = within((int64_t)floorf(at + s->radius * wide - 0.5f), from), begin = n;
    float sum = 0;
    for (int64_t i = first; i <= last; i++) {
      tap(a, &n, i, s->at(fabsf(((float)i + 0.5f - at) / wide)));
      sum += a->weight[n - 1];
    }
    for (int64_t i = begin; fabsf(sum) >= 1000 * FLT_MIN && i < n; i++) a->weight[i] *= 1 / sum;
  }
  a->first[to] = n;
  return true;
}

static bool sampled_axes(df_kernel *k, dfk_pictures *p, const int64_t *images, const int64_t *resized) {
  const sampling *s = NULL;
  char text[160];
  for (size_t i = 0; i < sizeof samplings / sizeof *samplings; i++)
    if (!strcmp(samplings[i].name, dfk_string(k, 0))) s = &samplings[i];
  for (int32_t i = 2; i < 4; i++)
    if (k->in[i]->size != 2) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected one number for each axis", i == 2 ? "scale" : "translation",
               dfk_shape_text(k->in[i], text, sizeof text));
      return false;
    }
  const float *scale = k->in[2]->data, *moved = k->in[3]->data;
  if (!(scale[0] > 0 && scale[1] > 0)) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "scale is %g by %g: both must be positive", scale[0], scale[1]);
    return false;
  }
  return make_sampled(k, s, images[1], resized[1], scale[0], moved[0], &p->rows) &&
         make_sampled(k, s, images[2], resized[2], scale[1], moved[1], &p->columns);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static bool is_pictures(df_kernel *k, const df_tensor *t, const char *what) {
  char text[160];
  if (t->rank == 4 && t->dims[1] > 0 && t->dims[2] > 0 && t->dims[3] > 0) return true;      /* maybe of no batch */
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
static bool axes(df_kernel *k, dfk_resizing h, dfk_pictures *p, const int64_t *images,
                 const int64_t *resized) {
  p->batch = images[0];
  p->depth = images[3];
  if (h == DFK_SAMPLED) return sampled_axes(k, p, images, resized);
  const bool corners = dfk_bool(k, 0), centers = h != DFK_AREA && dfk_bool(k, 1);
  if (corners && centers) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "align_corners and half_pixel_centers are both true: one of them may be");
    return false;
  }
  return make_taps(k, h, images[1], resized[1], corners, centers, &p->rows) &&
         make_taps(k, h, images[2], resized[2], corners, centers, &p->columns);
}

bool dfk_resize_begin(df_kernel *k, dfk_resizing h, dfk_pictures *p) {
  const df_tensor *x = k->in[0], *size = k->in[1];
  *p = (dfk_pictures){ .in = x };
  if (!is_pictures(k, x, "images") || !is_size(k, size)) return false;
  const int64_t dims[4] = { x->dims[0], dfk_index(size, 0), dfk_index(size, 1), x->dims[3] };
  p->out = dfk_out(k, 0, k->out_dtype[0], 4, dims);
  return p->out && axes(k, h, p, x->dims, dims);
}

/* The dims of the images. */
static bool images_of(df_kernel *k, dfk_resizing h, int64_t *dims) {
  const df_tensor *dy = k->in[0], *other = k->in[1];
  char a[160], b[160];
  if (!is_pictures(k, dy, "grads") || !(h == DFK_NEAREST ? is_size(k, other) : is_pictures(k, other, "original_image")))
    return false;
  for (int32_t d = 0; d < 4; d++) dims[d] = h != DFK_NEAREST ? other->dims[d]
                                            : d == 0 || d == 3 ? dy->dims[d] : dfk_index(other, d - 1);
  if (dy->dims[0] == dims[0] && dy->dims[3] == dims[3]) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "grads is %s and original_image %s: batch and channels must be the same",
           dfk_shape_text(dy, a, sizeof a), dfk_shape_text(other, b, sizeof b));
  return false;
}

bool dfk_resize_back_begin(df_kernel *k, dfk_resizing h, dfk_pictures *p) {
  int64_t dims[4];
  *p = (dfk_pictures){ .in = k->in[0] };
  if (!images_of(k, h, dims)) return false;
  p->out = dfk_out(k, 0, k->out_dtype[0], 4, dims);
  return p->out && axes(k, h, p, dims, p->in->dims);
}

void dfk_resize_end(dfk_pictures *p) {
  dfk_free(p->rows.first);
  dfk_free(p->columns.first);
}
