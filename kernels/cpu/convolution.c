/* convolution.c: convolutions of images as matrix products (gemm.h).
 *
 * The taps that the window sees from one place are a row of a matrix `cols`, [places, taps]; a convolution is cols
 * times the filter [taps, co]. cols is made a block of places at a time, small enough for the second-level cache, and
 * multiplied at once. The filter's gradient is dy' cols, summed over groups of blocks and then over the groups; the
 * input's is dy filter', each row of which is added to where its taps came from. Blocks and groups depend on the sizes
 * alone, so the results do not depend on the threads.
 *
 * oneDNN does this 1.5 to 2.5 times as fast for floats; this here is for doubles, for little work and where the library
 * is missing.
 */
#include "../window.h"
#include "gemm.h"
#include "onednn_convolution.h"
#include <string.h>

enum { GROUPS = 16, BLOCK_BYTES = 1 << 18, LEAST = 64, MOST = 512 };

typedef struct conv {
  dfk_conv  of;
  int64_t   places, taps;         /* rows and columns of cols */
  int64_t   block, groups;        /* places done at a time; parts that may be done at once */
  char     *room;
  int64_t   room_bytes;           /* of each group */
} conv;

static int64_t part(const conv *c, int64_t all, int64_t group) { return all * group / c->groups; }

/* ---- where the taps of a place lie ------------------------------------------------------------------------ */
typedef struct place { int64_t image, oy, ox; } place;

static place place_of(const conv *c, int64_t i) {
  return (place){ i / (c->of.x.out * c->of.y.out), i / c->of.x.out % c->of.y.out, i % c->of.x.out };
}
static void next_place(const conv *c, place *at) {
  if (++at->ox < c->of.x.out) return;
  at->ox = 0;
  if (++at->oy < c->of.y.out) return;
  at->oy = 0;
  at->image++;
}

/* Pixels side by side under the window: from column `tap` of cols on, from element `from` of the images on, or outside
 * (-1). A row of the window that lies inside whole is one run, others are a pixel at a time. */
typedef struct run { int64_t ky, kx, pixels, tap, from; } run;

static run run_at(const conv *c, const place *at, int64_t ky, int64_t kx) {
  const dfk_slide *y = &c->of.y, *x = &c->of.x;
  int64_t iy = at->oy * y->stride + ky * y->dilation - y->before,
          ix = at->ox * x->stride + kx * x->dilation - x->before;
  run r = { ky, kx, ky < y->window, (ky * x->window + kx) * c->of.ci, -1 };
  if (iy < 0 || iy >= y->in || ix < 0 || ix >= x->in) return r;
  r.from = ((at->image * y->in + iy) * x->in + ix) * c->of.ci;
  if (r.pixels && kx == 0 && x->dilation == 1 && ix + x->window <= x->in) r.pixels = x->window;
  return r;
}
static run first_run(const conv *c, const place *at) { return run_at(c, at, 0, 0); }
static void next_run(const conv *c, const place *at, run *r) {
  int64_t kx = r->kx + r->pixels;
  *r = kx < c->of.x.window ? run_at(c, at, r->ky, kx) : run_at(c, at, r->ky + 1, 0);
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
  if (to == DFK_OUTPUT) {
    const dfk_slide *y = &c->of.y, *x = &c->of.x;
    bool as_it_lies = c->taps == c->of.ci && y->stride == 1 && x->stride == 1 && y->out == y->in && x->out == x->in;
    if (as_it_lies || c->places < GROUPS * LEAST) {   /* one product, which splits itself by columns, too */
      gemm m = { c->places, c->of.co, c->taps, false, false, c->taps, c->of.co, c->of.co };
      c->groups = 1;
      if (!as_it_lies) {
        if (!take_room(k, c, c->places * row)) return k->error->code;
        dfk_parallel(k, c->places, 65536 / row + 1, wide ? all_cols_f64 : all_cols_f32, c);
      }
      const void *a = as_it_lies ? c->of.in : c->room;
      return wide ? dfk_gemm_f64(k, &m, a, c->of.filter, c->of.out) : dfk_gemm_f32(k, &m, a, c->of.filter, c->of.out);
    }
    if (!take_room(k, c, c->block * row)) return k->error->code;
    dfk_parallel(k, c->groups, 1, wide ? forward_f64 : forward_f32, c);
  } else if (to == DFK_INPUT) {
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

/* By oneDNN where it pays (onednn_convolution.h), else by products. */
static int32_t convolve(df_kernel *k, const dfk_conv *of, dfk_side to, bool wide) {
  dfk_done done = wide ? DFK_NOT_DONE : dfk_dnn_convolution(k, of, to);
  if (done != DFK_NOT_DONE) return done == DFK_DONE ? DF_OK : k->error->code;
  conv c = { .of = *of, .places = of->n * of->y.out * of->x.out, .taps = of->y.window * of->x.window * of->ci };
  int32_t code = run_conv(k, &c, to, wide);
  dfk_free(c.room);
  return code;
}

int32_t cpu_conv2d(df_kernel *k) { return dfk_conv2d(k, convolve); }
int32_t cpu_conv2d_backprop_input(df_kernel *k) { return dfk_conv2d_backprop_input(k, convolve); }
int32_t cpu_conv2d_backprop_filter(df_kernel *k) { return dfk_conv2d_backprop_filter(k, convolve); }
