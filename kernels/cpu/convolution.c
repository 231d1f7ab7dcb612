/* convolution.c: convolutions of images and volumes as matrix products (gemm.h).
 *
 * The taps that the window sees from one place are a row of a matrix `cols`, [places, taps]; a convolution is cols
 * times the filter [taps, co]. A row of the window lies side by side in the image, and so do those of the places beside
 * it, overlapping; so the output is a sum of products of the image as it lies, one for each row of the window, and cols
 * are never made but for few channels. It is made in pieces that stay in the second-level cache, where what comes then
 * (dfk_conv.then) finds them; its filter is kept in the order in which it is read. The filter's gradient is dy' cols,
 * summed over groups of blocks and then over the groups; the input's is dy filter', each row of which is added to where
 * its taps came from. The order of each element's sum depends on the sizes alone, so the results do not depend on the
 * threads.
 *
 * Groups of channels are done one by one, each copied together; where each channel is a group, depthwise.c does it.
 *
 * oneDNN does this 1.5 to 2.5 times as fast for floats; this here is for doubles, for little work and where the library
 * is missing.
 */
#include "../window.h"
#include "gemm.h"
#include "onednn_convolution.h"
#include <string.h>

enum { GROUPS = 16, BLOCK_BYTES = 1 << 18, LEAST = 64, MOST = 512 };
/* Of a piece of the output: bytes of what it reads and writes, and of what it is copied to; places at least, and at
 * most. FEW: numbers of a tap's row that are not worth a product. */
enum { NEAR_BYTES = 1 << 18, PIECE_BYTES = 1 << 18, LEAST_PLACES = 32, MOST_PLACES = 1024, FEW = 24 };

typedef struct conv {
  dfk_conv  of;
  int64_t   places, taps;         /* rows and columns of cols */
  int64_t   block, groups;        /* places done at a time; parts that may be done at once */
  char     *room;
  int64_t   room_bytes;           /* of each group */
} conv;

static int64_t part(const conv *c, int64_t all, int64_t group) { return all * group / c->groups; }

/* ---- where the taps of a place lie ------------------------------------------------------------------------ */
typedef struct place { int64_t image, oz, oy, ox; } place;

static place place_of(const conv *c, int64_t i) {
  const int64_t plane = i / (c->of.x.out * c->of.y.out);
  return (place){ plane / c->of.z.out, plane % c->of.z.out, i / c->of.x.out % c->of.y.out, i % c->of.x.out };
}
static void next_place(const conv *c, place *at) {
  if (++at->ox < c->of.x.out) return;
  at->ox = 0;
  if (++at->oy < c->of.y.out) return;
  at->oy = 0;
  if (++at->oz < c->of.z.out) return;
  at->oz = 0;
  at->image++;
}

/* Pixels side by side under the window: from column `tap` of cols on, from element `from` of the images on, or outside
 * (-1). A row of the window that lies inside whole is one run, others are a pixel at a time. */
typedef struct run { int64_t kzy, kx, pixels, tap, from; } run;

/* Row kzy of the window's rows: those of its first plane come first. */
static run run_at(const conv *c, const place *at, int64_t kzy, int64_t kx) {
  const dfk_slide *z = &c->of.z, *y = &c->of.y, *x = &c->of.x;
  const int64_t kz = kzy / y->window, ky = kzy % y->window;
  int64_t iz = at->oz * z->stride + kz * z->dilation - z->before,
          iy = at->oy * y->stride + ky * y->dilation - y->before,
          ix = at->ox * x->stride + kx * x->dilation - x->before;
  run r = { kzy, kx, kz < z->window, (kzy * x->window + kx) * c->of.ci, -1 };
  if (iz < 0 || iz >= z->in || iy < 0 || iy >= y->in || ix < 0 || ix >= x->in) return r;
  r.from = (((at->image * z->in + iz) * y->in + iy) * x->in + ix) * c->of.ci;
  if (r.pixels && kx == 0 && x->dilation == 1 && ix + x->window <= x->in) r.pixels = x->window;
  return r;
}
static run first_run(const conv *c, const place *at) { return run_at(c, at, 0, 0); }
static void next_run(const conv *c, const place *at, run *r) {
  int64_t kx = r->kx + r->pixels;
  *r = kx < c->of.x.window ? run_at(c, at, r->kzy, kx) : run_at(c, at, r->kzy + 1, 0);
}

/* ---- the output, in pieces ------------------------------------------------------------------------------------- */

/* What a tap's row of the filter is multiplied with: it lies side by side in the image where nothing is padded; else in
 * a copy of what the piece sees; where that is few numbers, all taps of a place are put side by side. */
typedef enum left { AS_IT_LIES, PADDED, GATHERED } left;
typedef struct output {
  conv     c;
  gemm_sum sum;                         /* of a group */
  left     left;
  int64_t  rows, places;                /* of a piece: rows, of so many places; at the ends fewer */
  int64_t  down, across;                /* pieces of a plane of the output */
  int64_t  beside, columns;             /* parts that the channels are cut into, and channels of each */
  int64_t  seen, plane;                 /* pixels of a row that a piece reads, and of a plane */
  int64_t  each;                        /* elements of a group's panels */
  char    *room;                        /* of a piece; NULL: on the stack */
} output;
typedef struct piece { int64_t image, z, y, x, rows, places; } piece;
typedef struct packing { const output *o; void *to; } packing;

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* Pixels that so many places see, side by side along an axis; where that cannot be counted, more than there is. */
static int64_t span_of(const dfk_slide *s, int64_t places) {
  const __int128 n = (__int128)(places - 1) * s->stride + (__int128)(s->window - 1) * s->dilation + 1;
  return n > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)n;
}

/* Pixels of a plane; where they cannot be counted, more than there are. */
static int64_t pixels_of(int64_t rows, int64_t columns) {
  int64_t n;
  return __builtin_mul_overflow(rows, columns, &n) ? INT64_MAX / 2 : n;
}

static piece piece_of(const output *o, int64_t i) {
  const int64_t y = i / o->across % o->down * o->rows, x = i % o->across * o->places;
  const int64_t plane = i / (o->across * o->down);
  return (piece){ plane / o->c.of.z.out, plane % o->c.of.z.out, y, x, least_of(o->rows, o->c.of.y.out - y),
                  least_of(o->places, o->c.of.x.out - x) };
}

#define S_(f, t) f##_##t
#define S__(f, t) S_(f, t)
#define T float
#define S(f) S__(f, f32)
#include "convolution_body.h"
#define T double
#define S(f) S__(f, f64)
#include "convolution_body.h"

/* ---- which way -------------------------------------------------------------------------------------------- */
static bool take_room(df_kernel *k, conv *c, int64_t bytes) {
  c->room_bytes = (bytes + 63) & ~(int64_t)63;
  return (c->room = dfk_scratch(k, c->room_bytes * c->groups)) != NULL;
}

static int32_t run_conv(df_kernel *k, conv *c, dfk_side to, bool wide) {
  int64_t width = wide ? 8 : 4, row = c->taps * width, least = (c->places + LEAST - 1) / LEAST;
  c->block = BLOCK_BYTES / row / 8 * 8;
  if (c->block < LEAST) c->block = LEAST;
  if (c->block > MOST) c->block = MOST;
  c->groups = least < GROUPS ? least : GROUPS;
  if (to == DFK_INPUT) {
    c->groups = c->of.n < GROUPS ? c->of.n : GROUPS;
    if (!take_room(k, c, c->block * row)) return k->error->code;
    dfk_parallel(k, c->groups, 1, wide ? to_input_f64 : to_input_f32, c);
  } else {
    if (!take_room(k, c, c->of.co * row + c->block * row + (c->of.co + 8) * c->block * width)) return k->error->code;
    dfk_parallel(k, c->groups, 1, wide ? to_filter_f64 : to_filter_f32, c);
    dfk_parallel(k, c->taps, 65536 / (c->of.co * c->groups) + 1, wide ? add_groups_f64 : add_groups_f32, c);
  }
  return DF_OK;
}

static bool is_inside(const dfk_slide *s) {
  return !s->before && span_of(s, s->out) <= s->in;
}

/* Bytes that a piece is copied to: as a double, since images may be padded far. */
static double room_of(const output *o, int64_t width) {
  const dfk_conv *c = &o->c.of;
  if (o->left == AS_IT_LIES) return 0;
  const double places = (double)o->rows * (double)o->places, pixels = (double)o->plane * (double)c->z.window;
  return (double)width * (double)(o->left == GATHERED ? places * (double)o->c.taps : pixels * (double)c->ci);
}

static void set_places(output *o, int64_t rows, int64_t places) {
  const dfk_conv *c = &o->c.of;
  o->rows = rows;
  o->places = places;
  o->down = (c->y.out + rows - 1) / rows;
  o->across = (c->x.out + places - 1) / places;
  o->seen = o->left == AS_IT_LIES ? c->x.in : span_of(&c->x, places);
  o->plane = o->left == AS_IT_LIES ? c->y.in * c->x.in : pixels_of(span_of(&c->y, rows), o->seen);
}

/* Pieces that stay in the second-level cache, and enough of them for the threads. */
static void cut(output *o, int32_t threads, int64_t width) {
  const dfk_conv *c = &o->c.of;
  const int64_t of_place = width * (c->co + c->ci * c->y.stride * c->x.stride);
  int64_t places = least_of(NEAR_BYTES / of_place, MOST_PLACES);
  if (threads > 1) places = least_of(places, (o->c.places + 2 * threads - 1) / (2 * threads));
  if (places < LEAST_PLACES) places = LEAST_PLACES;
  if (places >= c->x.out) {
    set_places(o, least_of(places / c->x.out, c->y.out), c->x.out);
    while (o->rows > 1 && room_of(o, width) > PIECE_BYTES) set_places(o, o->rows / 2, c->x.out);
  } else {
    const int64_t across = (c->x.out + places - 1) / places;
    set_places(o, 1, ((c->x.out + across - 1) / across + 7) / 8 * 8);
  }
  while (o->rows == 1 && o->places > 1 && room_of(o, width) > PIECE_BYTES) set_places(o, 1, (o->places + 1) / 2);
  const int64_t pieces = c->n * c->z.out * o->down * o->across;
  o->beside = 1;
  o->columns = o->sum.n;
  if (pieces >= threads || c->groups > 1) return;
  const int64_t most = (o->sum.n + DFK_SUM_COLUMNS - 1) / DFK_SUM_COLUMNS;
  o->beside = least_of((threads + pieces - 1) / pieces, most);
  o->columns = (most + o->beside - 1) / o->beside * DFK_SUM_COLUMNS;
  o->beside = (o->sum.n + o->columns - 1) / o->columns;
}

/* The places that the taps of a product begin at, in what a piece reads. */
static void set_taps(output *o, int64_t *at) {
  const dfk_conv *c = &o->c.of;
  const int64_t across = o->sum.parts / (c->z.window * c->y.window);
  const int64_t plane = o->plane * (o->left == AS_IT_LIES ? c->z.dilation : 1);     /* to that of the next tap */
  o->sum.at = at;
  o->sum.step = o->left == GATHERED ? o->c.taps : c->x.stride * c->ci;
  o->sum.row = c->y.stride * o->seen * c->ci;
  if (o->left == GATHERED) { at[0] = 0; return; }
  for (int64_t i = 0; i < o->sum.parts; i++)
    at[i] = (i / across / c->y.window * plane + i / across % c->y.window * c->y.dilation * o->seen +
             i % across * c->x.dilation) * c->ci;
}

/* The filter in panels: as they were kept, or else made now; *own is what is to be freed. */
static bool pack_filter(df_kernel *k, output *o, bool wide, void **own) {
  const dfk_conv *c = &o->c.of;
  const int64_t width = wide ? 8 : 4, bytes = o->each * c->groups * width;
  const dfk_packing how = { { 'C' | width << 8, o->sum.k, o->sum.n, c->groups } };
  void *keep = NULL;
  *own = NULL;
  if (c->weights && (o->sum.panels = dfk_packed(c->weights, &how, bytes, &keep))) return true;
  void *to = keep ? keep : (*own = dfk_scratch(k, bytes));
  if (!to) return false;
  o->sum.panels = to;
  dfk_parallel(k, c->groups * o->sum.parts, 1 + 65536 / (o->sum.k * o->sum.n), wide ? pack_f64 : pack_f32,
               &(packing){ o, to });
  if (keep) dfk_packed_done(c->weights, keep);
  return true;
}

static int32_t run_output(df_kernel *k, output *o, bool wide) {
  const dfk_conv *c = &o->c.of;
  const int64_t work = o->rows * o->places * o->columns * o->c.taps / c->groups, width = wide ? 8 : 4;
  void *panels = NULL;
  const bool near = room_of(o, width) <= PIECE_BYTES;              /* else a place of very many taps */
  if (!near && !(o->room = dfk_scratch(k, o->c.taps * width))) return k->error->code;
  if (pack_filter(k, o, wide, &panels)) {
    const int64_t n = c->n * c->z.out * o->down * o->across * o->beside;
    if (near) dfk_parallel(k, n, 1 + (1 << 17) / work, wide ? pieces_f64 : pieces_f32, o);
    else (wide ? pieces_f64 : pieces_f32)(o, 0, n);
  }
  dfk_free(o->room);
  dfk_free(panels);
  return o->sum.panels ? DF_OK : k->error->code;
}

/* One pixel's channels times a matrix, for all places: then they are one row. */
static bool is_matrix(const dfk_conv *c) {
  return dfk_slide_is_one(&c->z) && dfk_slide_is_each(&c->y) && dfk_slide_is_each(&c->x);
}

/* How the output is made. False: its groups have to be copied apart. */
static bool lay_out(output *o, int32_t threads, int64_t width) {
  dfk_conv *c = &o->c.of;
  const int64_t ci = c->ci / c->groups, side = c->groups == 1 && c->x.dilation == 1 ? c->x.window : 1;
  o->left = is_inside(&c->z) && is_inside(&c->y) && is_inside(&c->x) ? AS_IT_LIES : PADDED;
  o->sum = (gemm_sum){ .parts = c->z.window * c->y.window * (c->x.window / side), .k = side * ci,
                       .n = c->co / c->groups, .ldb = c->co, .ldc = c->co };
  const bool few = side * ci < FEW && !is_matrix(c);
  if (!few) cut(o, threads, width);
  if (few || room_of(o, width) > PIECE_BYTES) {
    if (c->groups > 1) return false;
    o->left = GATHERED;
    o->sum.parts = 1;
    o->sum.k = o->c.taps;
    cut(o, threads, width);
  }
  o->each = dfk_gemm_sum_panels(&o->sum);
  return true;
}

/* *then: what comes then has been done. */
static dfk_done make_output(df_kernel *k, const dfk_conv *of, bool wide, bool *then) {
  output o = { .c = { .of = dfk_conv_flat(of), .places = dfk_conv_places(of), .taps = dfk_conv_taps(of) * of->ci } };
  dfk_conv *c = &o.c.of;
  if (c->z.out == 1) c->z.stride = 1;
  if (c->y.out == 1) c->y.stride = 1;
  if (c->x.out == 1) c->x.stride = 1;
  if (is_matrix(c) && c->groups == 1) {
    const gemm m = { o.c.places, c->co, c->ci, false, false, c->ci, c->co, c->co, c->weights };
    if (o.c.places <= 4)
      return (wide ? dfk_gemm_f64(k, &m, c->in, c->filter, c->out) : dfk_gemm_f32(k, &m, c->in, c->filter, c->out))
                 ? DFK_FAILED : DFK_DONE;
    c->n = c->y.in = c->y.out = 1;
    c->x.in = c->x.out = o.c.places;
  }
  if (!lay_out(&o, dfk_threads(k), wide ? 8 : 4)) return DFK_NOT_DONE;
  int64_t *at = dfk_scratch(k, o.sum.parts * (int64_t)sizeof *at);
  if (!at) return DFK_FAILED;
  set_taps(&o, at);
  *then = o.beside == 1;
  const int32_t code = run_output(k, &o, wide);
  dfk_free(at);
  return code ? DFK_FAILED : DFK_DONE;
}

static int32_t by_products(df_kernel *k, const dfk_conv *of, dfk_side to, bool wide) {
  conv c = { .of = *of, .places = dfk_conv_places(of), .taps = dfk_conv_taps(of) * of->ci };
  int32_t code = run_conv(k, &c, to, wide);
  dfk_free(c.room);
  return code;
}

/* ---- groups of channels ----------------------------------------------------------------------------------- */

/* Rows of `channels` elements of `width` bytes, of which a group's are `some` from `first` on. */
typedef struct columns { char *all, *own; int64_t channels, first, some, width; bool back; } columns;

static void copy_columns(void *arg, int64_t begin, int64_t end) {
  const columns *s = arg;
  const int64_t row = s->channels * s->width, part = s->some * s->width;
  for (int64_t i = begin; i < end; i++) {
    char *all = s->all + i * row + s->first * s->width, *own = s->own + i * part;
    memcpy(s->back ? all : own, s->back ? own : all, (size_t)part);
  }
}

static int32_t by_groups(df_kernel *k, const dfk_conv *of, dfk_side to, bool wide) {
  dfk_conv one = *of;
  one.ci /= of->groups;
  one.co /= of->groups;
  one.groups = 1;
  one.weights = NULL;
  one.then = NULL;
  const int64_t width = wide ? 8 : 4, rows[3] = { dfk_conv_places(of), dfk_conv_pixels(of),
                                                  dfk_conv_taps(of) * one.ci };
  columns side[3] = { { of->out, NULL, of->co, 0, one.co, width }, { of->in, NULL, of->ci, 0, one.ci, width },
                      { of->filter, NULL, of->co, 0, one.co, width } };
  int64_t bytes = 0, at = 0;
  for (int i = 0; i < 3; i++) bytes += rows[i] * side[i].some * width;
  char *room = dfk_scratch(k, bytes);
  if (!room) return k->error->code;
  for (int i = 0; i < 3; at += rows[i] * side[i].some * width, i++) side[i].own = room + at;
  one.out = side[0].own;
  one.in = side[1].own;
  one.filter = side[2].own;
  int32_t code = DF_OK;
  for (int64_t g = 0; g < of->groups && !code; g++) {
    for (int i = 0; i < 3; i++) {
      side[i].first = g * side[i].some;
      side[i].back = false;
      const int64_t grain = 16384 / (side[i].some * width) + 1;
      if (i == (int)to) memset(side[i].own, 0, (size_t)(rows[i] * side[i].some * width));
      else dfk_parallel(k, rows[i], grain, copy_columns, &side[i]);
    }
    bool then;
    if (to != DFK_OUTPUT) code = by_products(k, &one, to, wide);
    else if (make_output(k, &one, wide, &then) == DFK_FAILED) code = k->error->code;
    side[to].back = true;
    if (!code) dfk_parallel(k, rows[to], 16384 / (side[to].some * width) + 1, copy_columns, &side[to]);
  }
  dfk_free(room);
  return code;
}

/* By oneDNN where it pays (onednn_convolution.h), else by products. *then: what comes then has been done. */
static int32_t one_way(df_kernel *k, const dfk_conv *of, dfk_side to, bool wide, bool *then) {
  *then = of->groups == of->ci && of->groups > 1;
  if (*then) return dfk_depthwise(k, of, to, wide);
  dfk_done done = wide ? DFK_NOT_DONE : dfk_dnn_convolution(k, of, to);
  if (done == DFK_NOT_DONE && to == DFK_OUTPUT) done = make_output(k, of, wide, then);
  if (done != DFK_NOT_DONE) return done == DFK_DONE ? DF_OK : k->error->code;
  return of->groups > 1 ? by_groups(k, of, to, wide) : by_products(k, of, to, wide);
}

static int32_t convolve(df_kernel *k, const dfk_conv *of, dfk_side to, bool wide) {
  bool then = false;
  const int32_t code = one_way(k, of, to, wide, &then);
  if (!code && of->then && !then)
    dfk_parallel(k, dfk_conv_places(of) * of->co, of->then->chain->grain, dfk_chain_range, (void *)of->then);
  return code;
}

int32_t cpu_convolve_then(df_kernel *k, const dfk_conv *geometry, bool wide, void *out, const dfk_chain_run *then) {
  dfk_conv c = *geometry;
  c.in = k->in[0]->data;
  c.filter = k->in[1]->data;
  c.weights = k->in[1];
  c.out = out;
  c.then = then;
  return convolve(k, &c, DFK_OUTPUT, wide);
}

int32_t cpu_conv2d(df_kernel *k) { return dfk_conv2d(k, convolve); }
int32_t cpu_conv2d_backprop_input(df_kernel *k) { return dfk_conv2d_backprop_input(k, convolve); }
int32_t cpu_conv2d_backprop_filter(df_kernel *k) { return dfk_conv2d_backprop_filter(k, convolve); }
