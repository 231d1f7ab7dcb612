/* choose.c: launchers of what gives as much as the values say, and of what fails by them: the host waits for a number
 * before it makes the outputs, so no graph holds them. */
#include "plugin.h"
#include "../array.h"
#include "../move.h"
#include "../v1.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 128, CHUNK = 1024, CHECKS = 256 };
#define CHOSEN "how much is chosen"

bool dfc_waits(df_kernel *k, const char *what) {
  dfc_gpu *g = dfc_host->device(k);
  if (!dfc_capturing || !dfc_capture_wrong(g, what, "the host does not read what a graph computes"))
    return true;
  dfk_fail(k, DF_UNIMPLEMENTED, "no part of a graph");
  return false;
}

/* How many flags are before each of n (1 or more), to places; how many there are; -1: something is wrong. */
static int64_t count(dfc_call *c, const uint8_t *flags, int64_t *places, int64_t n) {
  const int64_t chunks = (n + CHUNK - 1) / CHUNK;
  dfc_flagging p = { .flags = flags, .places = places, .n = n };
  int64_t all = -1;
  p.chunks = dfc_temporary(c, NULL, (chunks + 1) * (int64_t)sizeof *p.chunks);
  dfc_run_blocks(c, "k_flags_count", chunks, BLOCK, &p);
  dfc_run_blocks(c, "k_flags_add", 1, BLOCK, &p);
  dfc_run_blocks(c, "k_flags_place", chunks, BLOCK, &p);
  dfc_bring(c, &all, p.chunks + chunks, sizeof all);
  return c->ok ? all : -1;
}

static int32_t run_where(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t dims[2] = { 0, x->rank };
  if (x->rank == 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "a scalar has no places: expected rank 1 or more");
  if (!dfc_waits(k, CHOSEN)) return k->error->code;
  if (!x->size) return dfk_out(k, 0, DF_INT64, 2, dims) ? DF_OK : k->error->code;
  dfc_call c = dfc_begin(k);
  dfc_telling p = { .x = dfc_read(&c, x), .n = x->size };
  dfc_indexing q = { .n = x->size, .rank = x->rank };
  q.flags = p.flags = dfc_temporary(&c, NULL, x->size);
  int64_t *places = dfc_temporary(&c, NULL, x->size * (int64_t)sizeof *places);
  q.places = places;
  memcpy(q.dims, x->dims, sizeof *q.dims * (size_t)x->rank);
  dfc_run(&c, dfc_name("set", x->dtype), p.n, &p);
  dims[0] = count(&c, q.flags, places, q.n);
  df_tensor *z = dims[0] >= 0 ? dfc_out(&c, 0, DF_INT64, 2, dims) : NULL;
  if (z && z->size) {
    q.z = dfc_write(&c, z);
    dfc_run(&c, "k_flags_indices", q.n, &q);
  }
  return dfc_end(&c);
}

/* What is flagged of x, as output 0, and (at: >= 0) where it was as that output. */
static void chosen(dfc_call *c, const df_tensor *x, const void *from, const uint8_t *flags, const int64_t *places,
                   int64_t m, int32_t at) {
  df_tensor *z = m >= 0 ? dfc_out(c, 0, x->dtype, 1, &m) : NULL;
  df_tensor *idx = z && at >= 0 ? dfc_out(c, at, c->k->out_dtype[at], 1, &m) : NULL;
  if (!z || (at >= 0 && !idx) || !m) return;
  dfc_chosen p = { .x = from, .flags = flags, .places = places, .n = x->size };
  p.z = dfc_write(c, z);
  if (idx) {
    p.idx = dfc_write(c, idx);
    p.wide = idx->dtype == DF_INT64;
  }
  dfc_run(c, dfc_width_name("chosen", dfk_width(x->dtype)), p.n, &p);
}

/* Outputs of nothing. */
static int32_t nothing(df_kernel *k, int32_t dtype) {
  const int64_t none = 0;
  for (int32_t i = 0; i < k->nout; i++)
    if (!dfk_out(k, i, i ? k->out_dtype[i] : dtype, 1, &none)) return k->error->code;
  return DF_OK;
}

static int32_t run_unique(df_kernel *k) {
  const df_tensor *x = k->in[0];
  char text[160];
  if (x->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "x is %s: expected a vector", dfk_shape_text(x, text, sizeof text));
  if (!dfc_waits(k, CHOSEN)) return k->error->code;
  if (!x->size) return nothing(k, x->dtype);
  const int64_t n = x->size, words = n * (int64_t)sizeof(int64_t);
  dfc_call c = dfc_begin(k);
  dfc_telling p = { .x = dfc_read(&c, x), .n = n };
  p.order = dfc_sorted(&c, x->dtype, p.x, 1, n);
  p.heads = dfc_temporary(&c, NULL, n);
  p.flags = dfc_temporary(&c, NULL, n);
  dfc_run(&c, dfc_name("distinct", x->dtype), n, &p);
  int64_t *group = dfc_temporary(&c, NULL, words), *place = dfc_temporary(&c, NULL, words);
  dfc_grouping q = { .order = p.order, .heads = p.heads, .group = group, .place = place, .n = n };
  q.m = count(&c, p.heads, group, n);
  if (q.m >= 0) count(&c, p.flags, place, n);
  q.begin = c.ok ? dfc_temporary(&c, NULL, (q.m + 1) * (int64_t)sizeof *q.begin) : NULL;
  if (c.ok) chosen(&c, x, p.x, p.flags, place, q.m, -1);
  df_tensor *idx = c.ok ? dfc_out(&c, 1, k->out_dtype[1], 1, &n) : NULL;
  df_tensor *counts = idx && k->nout > 2 ? dfc_out(&c, 2, k->out_dtype[2], 1, &q.m) : NULL;
  if (c.ok) {
    q.idx = dfc_write(&c, idx);
    q.count = counts ? dfc_write(&c, counts) : NULL;
    q.wide = idx->dtype == DF_INT64;
    dfc_run(&c, "k_groups", n, &q);
    dfc_run(&c, "k_number", n, &q);
  }
  return dfc_end(&c);
}

static int32_t run_list_diff(df_kernel *k) {
  const df_tensor *x = k->in[0], *y = k->in[1];
  char text[160];
  for (int32_t i = 0; i < 2; i++)
    if (k->in[i]->rank != 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be a vector", i ? "y" : "x",
                      dfk_shape_text(k->in[i], text, sizeof text));
  if (!dfc_waits(k, CHOSEN)) return k->error->code;
  if (!x->size) return nothing(k, x->dtype);
  dfc_call c = dfc_begin(k);
  dfc_telling p = { .x = dfc_read(&c, x), .n = x->size, .m = y->size };
  if (y->size) {
    p.y = dfc_read(&c, y);
    p.order = dfc_sorted(&c, y->dtype, p.y, 1, y->size);
  }
  p.flags = dfc_temporary(&c, NULL, x->size);
  int64_t *places = dfc_temporary(&c, NULL, x->size * (int64_t)sizeof *places);
  dfc_run(&c, dfc_name("absent", x->dtype), p.n, &p);
  const int64_t m = count(&c, p.flags, places, p.n);
  chosen(&c, x, p.x, p.flags, places, m, 1);
  return dfc_end(&c);
}

static int32_t run_check_numerics(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t first[2] = { x->size, x->size };
  char text[160];
  if (!dfc_waits(k, CHOSEN)) return k->error->code;
  if (x->size) {
    dfc_call c = dfc_begin(k);
    dfc_checking p = { .x = dfc_read(&c, x), .n = x->size };
    p.blocks = (x->size + CHUNK - 1) / CHUNK < CHECKS ? (x->size + CHUNK - 1) / CHUNK : CHECKS;
    p.first = dfc_temporary(&c, NULL, 2 * p.blocks * (int64_t)sizeof *p.first);
    dfc_run_blocks(&c, dfc_name("check", x->dtype), p.blocks, BLOCK, &p);
    if (p.blocks > 1) dfc_run_blocks(&c, "k_check_all", 1, 1, &p);
    dfc_bring(&c, first, p.first, sizeof first);
    const int32_t code = dfc_end(&c);
    if (code) return code;
  }
  const bool nan = first[0] < x->size, inf = first[1] < x->size;
  if (!nan && !inf) return dfk_out_forward(k, 0, 0, x->rank, NULL);
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%.*s : Tensor had %s values, the first at [%s]", (int)k->attrs[0].i,
                  dfk_string(k, 0), nan && inf ? "Inf and NaN" : nan ? "NaN" : "Inf",
                  dfk_index_text(x->rank, x->dims, first[first[1] < first[0]], text, sizeof text));
}

static bool takes_set(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] < 32 && ((DFC_ALL_TYPES | DFC_COMPLEX) >> in[0] & 1);
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "Where", .run = run_where, .takes = takes_set },
  { .op = "Unique", .run = run_unique, .takes = dfc_takes_numbers },
  { .op = "UniqueWithCounts", .run = run_unique, .takes = dfc_takes_numbers },
  { .op = "ListDiff", .run = run_list_diff, .takes = dfc_takes_numbers },
  { .op = "CheckNumerics", .run = run_check_numerics, .takes = dfc_takes_floats },
};
const dfc_table dfc_choices = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
