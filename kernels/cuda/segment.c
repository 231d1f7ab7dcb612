/* segment.c: launchers of reductions by segment and of what adds up to them. The ids lie on the host, where they are
 * checked; the rows of each segment are listed there, in their order, by counting. */
#include "plugin.h"
#include "../index.h"
#include "../reduce.h"
#include "../move.h"
#include "../segment.h"
#include <string.h>

/* Which rows belong to which of `segments`: of n ids, negative and too great ones to none. Both lists are then on the
 * device. `base` (or NULL) is added to the id of row i: base[0] * (i / base[1]). rows (or NULL): the rows' numbers. */
typedef struct listing { const df_tensor *ids, *rows; int64_t segments, step, every; } listing;

static int64_t segment_of(const listing *l, int64_t i) {
  const int64_t id = dfk_index(l->ids, i);
  if (!l->every) return id < l->segments ? id : -1;
  return id + l->step * (i / l->every);
}

static bool list_rows(dfc_call *c, const listing *l, dfc_segments *p) {
  const int64_t n = l->ids->size, words = l->segments + 2 + n;
  int64_t *begin = dfk_scratch(c->k, words * (int64_t)sizeof *begin);
  if (!begin) return c->ok = false;
  int64_t *order = begin + l->segments + 2;
  memset(begin, 0, (size_t)(l->segments + 2) * sizeof *begin);
  for (int64_t i = 0; i < n; i++) {
    const int64_t s = segment_of(l, i);
    if (s >= 0) begin[s + 2]++;
  }
  for (int64_t s = 2; s <= l->segments; s++) begin[s] += begin[s - 1];
  for (int64_t i = 0; i < n; i++) {                      /* begin[s + 1] is where the next row of s goes */
    const int64_t s = segment_of(l, i);
    if (s >= 0) order[begin[s + 1]++] = l->rows ? dfk_index(l->rows, i) : i;
  }
  p->begin = dfc_temporary(c, begin, words * (int64_t)sizeof *begin);
  p->order = p->begin ? p->begin + l->segments + 2 : NULL;
  p->segments = l->segments;
  dfk_free(begin);
  return p->begin != NULL;
}

/* z by segments of x (NULL: ones), rows of `row` elements. */
static int32_t reduce(df_kernel *k, df_tensor *z, const df_tensor *x, const listing *l, int64_t row, int32_t what) {
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_segments p;
  memset(&p, 0, sizeof p);
  if (list_rows(&c, l, &p)) {
    p.x = x ? dfc_read(&c, x) : NULL;
    p.z = dfc_write(&c, z);
    p.row = row;
    p.what = what;
    dfc_run(&c, dfc_name("segments", z->dtype), z->size, &p);
  }
  return dfc_end(&c);
}

static int32_t unsorted(df_kernel *k, int32_t what) {
  int64_t row = 0;
  df_tensor *z = dfk_unsorted_begin(k, &row);
  const listing l = { .ids = k->in[1], .segments = z ? z->dims[0] : 0 };
  return reduce(k, z, k->in[0], &l, row, what);
}
static int32_t run_unsorted_sum(df_kernel *k)  { return unsorted(k, DFC_SEGMENT_SUM); }
static int32_t run_unsorted_prod(df_kernel *k) { return unsorted(k, DFC_SEGMENT_PROD); }
static int32_t run_unsorted_max(df_kernel *k)  { return unsorted(k, DFC_SEGMENT_MAX); }
static int32_t run_unsorted_min(df_kernel *k)  { return unsorted(k, DFC_SEGMENT_MIN); }

static int32_t sorted(df_kernel *k, const df_tensor *indices, int32_t what) {
  int64_t row = 0;
  const df_tensor *ids = k->in[indices ? 2 : 1];
  df_tensor *z = dfk_segments_begin(k, indices, ids, &row);
  const listing l = { .ids = ids, .rows = indices, .segments = z ? z->dims[0] : 0 };
  return reduce(k, z, k->in[0], &l, row, what | DFC_SEGMENT_SPARSE);
}
static int32_t run_sum(df_kernel *k)           { return sorted(k, NULL, DFC_SEGMENT_SUM); }
static int32_t run_mean(df_kernel *k)          { return sorted(k, NULL, DFC_SEGMENT_MEAN); }
static int32_t run_prod(df_kernel *k)          { return sorted(k, NULL, DFC_SEGMENT_PROD); }
static int32_t run_max(df_kernel *k)           { return sorted(k, NULL, DFC_SEGMENT_MAX); }
static int32_t run_min(df_kernel *k)           { return sorted(k, NULL, DFC_SEGMENT_MIN); }
static int32_t run_sparse_sum(df_kernel *k)    { return sorted(k, k->in[1], DFC_SEGMENT_SUM); }
static int32_t run_sparse_mean(df_kernel *k)   { return sorted(k, k->in[1], DFC_SEGMENT_MEAN); }
static int32_t run_sparse_sqrt_n(df_kernel *k) { return sorted(k, k->in[1], DFC_SEGMENT_SQRT_N); }

static int32_t run_bincount(df_kernel *k) {
  df_tensor *z = dfk_bincount_begin(k);
  const listing l = { .ids = k->in[0], .segments = z ? z->size : 0 };
  return reduce(k, z, k->in[2]->size ? k->in[2] : NULL, &l, 1, DFC_SEGMENT_SUM);
}

/* Each place of a row is a segment of its own. */
static int32_t run_put_along(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *z = dfk_put_along_begin(k);
  if (!z) return k->error->code;
  if (!x->size) return DF_OK;
  const listing l = { .ids = k->in[1], .segments = z->size, .step = z->dims[z->rank - 1],
                      .every = x->dims[x->rank - 1] };
  return reduce(k, z, x, &l, 1, DFC_SEGMENT_SUM);
}

static bool takes_counted(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[2] < 32 && (DFC_NUMBERS >> in[2] & 1);
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "UnsortedSegmentSum", .run = run_unsorted_sum, .host_in = 6, .takes = dfc_takes_ring },
  { .op = "UnsortedSegmentProd", .run = run_unsorted_prod, .host_in = 6, .takes = dfc_takes_ring },
  { .op = "UnsortedSegmentMax", .run = run_unsorted_max, .host_in = 6, .takes = dfc_takes_numbers },
  { .op = "UnsortedSegmentMin", .run = run_unsorted_min, .host_in = 6, .takes = dfc_takes_numbers },
  { .op = "SegmentSum", .run = run_sum, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "SegmentMean", .run = run_mean, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "SegmentProd", .run = run_prod, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "SegmentMax", .run = run_max, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "SegmentMin", .run = run_min, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "SparseSegmentSum", .run = run_sparse_sum, .host_in = 6, .takes = dfc_takes_numbers },
  { .op = "SparseSegmentMean", .run = run_sparse_mean, .host_in = 6, .takes = dfc_takes_numbers },
  { .op = "SparseSegmentSqrtN", .run = run_sparse_sqrt_n, .host_in = 6, .takes = dfc_takes_numbers },
  { .op = "Bincount", .run = run_bincount, .host_in = 3, .takes = takes_counted },
  { .op = "PutAlong", .run = run_put_along, .host_in = 6, .takes = dfc_takes_ring },
};
const dfc_table dfc_by_segment = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
