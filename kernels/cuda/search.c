/* search.c: launchers of what finds: the greatest of each row, places among sorted numbers. */
#include "plugin.h"
#include "../index.h"
#include "../move.h"
#include "../reduce.h"
#include "../search.h"
#include "../v1.h"
#include <string.h>

enum { BLOCK = 128 };

const int32_t *dfc_sorted(dfc_call *c, int32_t dtype, const void *x, int64_t rows, int64_t n) {
  const int64_t bytes = rows * n * (int64_t)sizeof(int32_t);
  int32_t *side[2] = { n > 1 ? dfc_temporary(c, NULL, bytes) : NULL, n > 2 ? dfc_temporary(c, NULL, bytes) : NULL };
  dfc_merging p;
  memset(&p, 0, sizeof p);
  p.x = x; p.rows = rows; p.n = n;
  int32_t to = 0;
  for (p.width = 1; p.width < n; p.width *= 2, to ^= 1) {
    p.to = side[to];
    dfc_run(c, dfc_name("merge", dtype), rows * n, &p);
    p.from = p.to;
  }
  return p.from;
}

static int32_t run_top_k(df_kernel *k) {
  dfk_top t;
  if (!dfk_top_k_begin(k, &t)) return k->error->code;
  if (!t.values->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_topping p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, k->in[0]);
  p.order = dfc_sorted(&c, k->in[0]->dtype, p.x, t.rows, t.n);
  p.values = dfc_write(&c, t.values);
  p.indices = dfc_write(&c, t.indices);
  p.rows = t.rows; p.n = t.n; p.count = t.count;
  dfc_run(&c, dfc_name("top", k->in[0]->dtype), t.rows * t.count, &p);
  return dfc_end(&c);
}
static int32_t run_v1_top_k(df_kernel *k) { return dfk_v1_top_k(k, run_top_k); }

static int32_t find(df_kernel *k, df_tensor *z, const char *name, int64_t threads, dfc_finding *p, bool values_here) {
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  p->x = dfc_read(&c, k->in[0]);
  p->values = values_here ? (const void *)dfc_indices(&c, k->in[1]) : dfc_read(&c, k->in[1]);
  p->z = dfc_write(&c, z);
  dfc_run(&c, name, threads, p);
  return dfc_end(&c);
}

static int32_t run_in_top_k(df_kernel *k) {
  df_tensor *z = dfk_in_top_k_begin(k);
  dfc_finding p = { .rows = k->in[0]->dims[0], .n = k->in[0]->dims[1], .m = dfk_int(k, 0), .dtype = k->in[1]->dtype };
  return find(k, z, dfc_name("in_top", DF_FLOAT32), p.rows, &p, false);
}
static int32_t run_in_top_k_v2(df_kernel *k) { return dfk_v1_in_top_k(k, run_in_top_k); }

static int32_t bound(df_kernel *k, int32_t what) {
  df_tensor *z = dfk_bound_begin(k);
  dfc_finding p = { .rows = k->in[0]->dims[0], .n = k->in[0]->dims[1], .m = k->in[1]->dims[1], .what = what,
                    .dtype = k->out_dtype[0] };
  return find(k, z, dfc_name("bound", k->in[0]->dtype), p.rows * p.m, &p, false);
}
static int32_t run_lower_bound(df_kernel *k) { return bound(k, DFC_LOWER); }
static int32_t run_upper_bound(df_kernel *k) { return bound(k, DFC_UPPER); }

static int32_t run_take_along(df_kernel *k) {
  df_tensor *z = dfk_take_along_begin(k);
  if (!z) return k->error->code;
  const int64_t m = z->dims[z->rank - 1];
  dfc_finding p = { .rows = m ? z->size / m : 0, .n = k->in[0]->dims[z->rank - 1], .m = m };
  return find(k, z, dfc_width_name("take_along", dfk_width(z->dtype)), z->size, &p, true);
}

/* (values, value_range[2], nbins; dtype): what lies outside counts in the first and the last bin. */
static int32_t run_histogram(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_bins b;
  df_tensor *z = dfk_histogram_begin(k, &b);
  if (!z) return k->error->code;
  dfc_call c = dfc_begin(k);
  dfc_counting p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, x);
  p.z = dfc_write(&c, z);
  p.low = b.low; p.step = b.step;
  p.n = x->size;
  p.bins = z->size;
  p.wide = z->dtype == DF_INT64;
  dfc_run_blocks(&c, dfc_name("histogram", x->dtype), p.bins, BLOCK, &p);
  return dfc_end(&c);
}

static bool takes_counted(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] == DF_FLOAT32 || in[0] == DF_FLOAT64 || in[0] == DF_INT32 || in[0] == DF_INT64;
}
static bool takes_narrow(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return dfk_plain(in[0]) && in[0] != DF_RESOURCE && in[0] != DF_COMPLEX128;
}
static bool takes_float32(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] == DF_FLOAT32;
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "TopKV2", .run = run_top_k, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "TopK", .run = run_v1_top_k, .takes = dfc_takes_numbers },
  { .op = "InTopK", .run = run_in_top_k, .takes = takes_float32 },
  { .op = "InTopKV2", .run = run_in_top_k_v2, .host_in = 4, .takes = takes_float32 },
  { .op = "LowerBound", .run = run_lower_bound, .takes = dfc_takes_numbers },
  { .op = "UpperBound", .run = run_upper_bound, .takes = dfc_takes_numbers },
  { .op = "HistogramFixedWidth", .run = run_histogram, .host_in = 6, .takes = takes_counted },
  { .op = "TakeAlong", .run = run_take_along, .host_in = 2, .takes = takes_narrow },
};
const dfc_table dfc_searches = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
