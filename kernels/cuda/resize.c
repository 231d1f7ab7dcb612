/* resize.c: launchers of pictures in other sizes. */
#include "plugin.h"
#include "../resize.h"
#include <string.h>

/* One axis, brought over for the call: where each output's taps begin, at which inputs they are, and their weights. */
static void bring(dfc_call *c, const dfk_taps *a, const int64_t **first, const int64_t **at, const float **weight) {
  const int64_t taps = a->first[a->to];
  *first = dfc_temporary(c, a->first, (a->to + 1) * (int64_t)sizeof *a->first);
  *at = dfc_temporary(c, a->at, taps * (int64_t)sizeof *a->at);
  *weight = dfc_temporary(c, a->weight, taps * (int64_t)sizeof *a->weight);
}

static int32_t run(df_kernel *k, const char *name, const dfk_pictures *p, const dfk_taps *rows,
                   const dfk_taps *columns) {
  if (!p->out->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_resizing r;
  memset(&r, 0, sizeof r);
  r.x = dfc_read(&c, p->in);
  r.z = dfc_write(&c, p->out);
  bring(&c, rows, &r.row_first, &r.row_at, &r.row_weight);
  bring(&c, columns, &r.column_first, &r.column_at, &r.column_weight);
  r.n = p->out->size;
  r.rows_from = rows->from; r.rows_to = rows->to;
  r.columns_from = columns->from; r.columns_to = columns->to;
  r.depth = p->depth;
  dfc_run(&c, name, r.n, &r);
  return dfc_end(&c);
}

static int32_t resize(df_kernel *k, dfk_resizing h) {
  dfk_pictures p;
  const int32_t dtype = k->in[0]->dtype;
  const char *name = h == DFK_NEAREST ? dfc_width_name("nearest", df_dtype_bytes(dtype)) : dfc_name("weigh", dtype);
  const int32_t code = dfk_resize_begin(k, h, &p) ? run(k, name, &p, &p.rows, &p.columns) : k->error->code;
  dfk_resize_end(&p);
  return code;
}

/* The taps by the input that they look at: of input i those outputs that do, in their order. dfk_free takes
 * back->first. False: error is filled. */
static bool turn(df_kernel *k, const dfk_taps *a, dfk_taps *back) {
  const int64_t taps = a->first[a->to], words = (a->from + 2 + taps) * 8;
  int64_t *room = dfk_scratch(k, words + taps * (int64_t)sizeof(float));
  if (!room) return false;
  *back = (dfk_taps){ a->to, a->from, room, room + a->from + 2, (float *)((char *)room + words) };
  int64_t *next = room + 1;                /* where the next of input i goes; at last, where i + 1 begins */
  for (int64_t i = 0; i < a->from + 2; i++) room[i] = 0;
  for (int64_t t = 0; t < taps; t++) room[a->at[t] + 2]++;
  for (int64_t i = 2; i < a->from + 2; i++) room[i] += room[i - 1];
  for (int64_t o = 0; o < a->to; o++)
    for (int64_t t = a->first[o]; t < a->first[o + 1]; t++) {
      const int64_t to = next[a->at[t]]++;
      back->at[to] = o;
      back->weight[to] = a->weight[t];
    }
  return true;
}

static int32_t back(df_kernel *k, dfk_resizing h) {
  dfk_pictures p;
  dfk_taps rows = { 0 }, columns = { 0 };
  int32_t code;
  if (dfk_resize_back_begin(k, h, &p) && turn(k, &p.rows, &rows) && turn(k, &p.columns, &columns))
    code = run(k, dfc_name(h == DFK_NEAREST ? "weigh_same" : "weigh_back", p.out->dtype), &p, &rows, &columns);
  else code = k->error->code;
  dfk_free(rows.first);
  dfk_free(columns.first);
  dfk_resize_end(&p);
  return code;
}

static int32_t run_nearest(df_kernel *k)       { return resize(k, DFK_NEAREST); }
static int32_t run_bilinear(df_kernel *k)      { return resize(k, DFK_BILINEAR); }
static int32_t run_bicubic(df_kernel *k)       { return resize(k, DFK_BICUBIC); }
static int32_t run_area(df_kernel *k)          { return resize(k, DFK_AREA); }
static int32_t run_nearest_back(df_kernel *k)  { return back(k, DFK_NEAREST); }
static int32_t run_bilinear_back(df_kernel *k) { return back(k, DFK_BILINEAR); }
static int32_t run_bicubic_back(df_kernel *k)  { return back(k, DFK_BICUBIC); }

static bool takes_back(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] == DF_FLOAT32 && out[0] < 32 && (DFC_FLOATS >> out[0] & 1);
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "ResizeNearestNeighbor", .run = run_nearest, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "ResizeBilinear", .run = run_bilinear, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "ResizeBicubic", .run = run_bicubic, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "ResizeArea", .run = run_area, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "ResizeNearestNeighborGrad", .run = run_nearest_back, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "ResizeBilinearGrad", .run = run_bilinear_back, .takes = takes_back },
  { .op = "ResizeBicubicGrad", .run = run_bicubic_back, .takes = takes_back },
};
const dfc_table dfc_resizes = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
