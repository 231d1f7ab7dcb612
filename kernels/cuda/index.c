/* index.c: launchers of gathers and scatters. Indices are read on the host, where every one of them is looked at
 * before anything is enqueued, so a wrong one is the same error as the CPU's; then they go over to the device. */
#include "plugin.h"
#include "../array.h"
#include "../index.h"
#include "../move.h"
#include "../segment.h"
#include "../v1.h"
#include <string.h>

const int64_t *dfc_indices(dfc_call *c, const df_tensor *t) {
  int64_t *wide = dfk_scratch(c->k, (t->size + 1) * (int64_t)sizeof *wide);
  if (!wide) { c->ok = false; return NULL; }
  for (int64_t i = 0; i < t->size; i++) wide[i] = dfk_index(t, i);
  const int64_t *there = dfc_temporary(c, wide, t->size * (int64_t)sizeof *wide);
  dfk_free(wide);
  return there;
}

/* The rows of each batch of a gather, picked or (`op` added) placed by `name`; a side's batch is so many bytes. */
static int32_t batches(dfc_call *c, const dfk_gather *g, const char *name, int64_t threads, int32_t op,
                       const df_tensor *from, int64_t from_bytes, const df_tensor *to, int64_t to_bytes) {
  const char *source = dfc_read(c, from);
  char *target = dfc_write(c, to);
  const int64_t *index = dfc_indices(c, c->k->in[1]);
  for (int64_t b = 0; b < g->batches && c->ok; b++) {
    dfc_picking p;
    memset(&p, 0, sizeof p);
    p.from = source + b * from_bytes;
    p.to = target + b * to_bytes;
    p.index = index + b * g->picks;
    p.n = g->picks; p.row = g->row; p.blocks = g->outer; p.limit = g->limit;
    p.op = op;
    dfc_run(c, name, threads, &p);
  }
  return dfc_end(c);
}

static int32_t run_gather(df_kernel *k) {
  dfk_gather g;
  df_tensor *z = dfk_gather_begin(k, &g);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  const int64_t width = dfk_width(z->dtype), rows = g.outer * g.row;
  dfc_call c = dfc_begin(k);
  return batches(&c, &g, dfc_width_name("pick", width), rows * g.picks, 0, k->in[0], rows * g.limit * width, z,
                 rows * g.picks * width);
}

/* (shape, indices, axis, dy): zeros of the shape, to whose rows those of dy are added. */
static int32_t run_gather_grad(df_kernel *k) {
  int64_t dims[DF_MAX_RANK], out_dims[2 * DF_MAX_RANK];
  int32_t rank = dfk_dims_of(k, k->in[0], "shape", dims), out_rank;
  dfk_gather g;
  const df_tensor *dy = k->in[3];
  char text[160];
  if (rank < 0 || !dfk_gather_plan(k, rank, dims, &g, &out_rank, out_dims)) return k->error->code;
  if (dy->rank != out_rank || memcmp(dy->dims, out_dims, sizeof *dims * (size_t)out_rank))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "dy is %s, which is not what the gather gives",
                    dfk_shape_text(dy, text, sizeof text));
  df_tensor *z = dfk_out(k, 0, dy->dtype, rank, dims);
  if (!z) return k->error->code;
  dfk_clear(z);
  if (!dy->size) return DF_OK;
  const int64_t width = dfk_width(z->dtype), rows = g.outer * g.row;
  dfc_call c = dfc_begin(k);
  return batches(&c, &g, dfc_name("place", z->dtype), rows, DFK_ADD, dy, rows * g.picks * width, z,
                 rows * g.limit * width);
}

/* Places in elements, as rows: every place is a whole number of rows, since the last dims are whole. */
static const int64_t *rows_of(dfc_call *c, dfk_places *p) {
  for (int64_t i = 0; i < p->picks && p->row; i++) p->offset[i] /= p->row;
  return dfc_temporary(c, p->offset, p->picks * (int64_t)sizeof *p->offset);
}

/* The elements of `from` and `to` at `at`, which is freed, by the kernel `name`. */
static int32_t at_places(df_kernel *k, dfk_places *at, const char *name, int64_t threads, int32_t op,
                         const df_tensor *from, df_tensor *to, int64_t size) {
  dfc_call c = dfc_begin(k);
  if (size) {
    dfc_picking p;
    memset(&p, 0, sizeof p);
    p.from = dfc_read(&c, from);
    p.to = dfc_write(&c, to);
    p.index = rows_of(&c, at);
    p.n = at->picks; p.row = at->row; p.blocks = 1;
    p.op = op;
    dfc_run(&c, name, threads, &p);
  }
  const int32_t status = dfc_end(&c);
  dfk_free(at->offset);
  return status;
}

static int32_t run_gather_nd(df_kernel *k) {
  dfk_places at;
  df_tensor *z = dfk_gather_nd_begin(k, &at);
  if (!z) return k->error->code;
  return at_places(k, &at, dfc_width_name("pick", dfk_width(z->dtype)), at.picks * at.row, 0, k->in[0], z, z->size);
}

/* As GatherNd, but an index that comes again later gives zeros. */
static int32_t run_gather_nd_last(df_kernel *k) {
  dfk_places at;
  df_tensor *z = dfk_gather_nd_begin(k, &at);
  if (!z) return k->error->code;
  const int64_t places = dfk_span(k->in[0]->dims, 0, at.depth);
  uint8_t *seen = dfk_scratch(k, places + 1);
  if (!seen) { dfk_free(at.offset); return k->error->code; }
  memset(seen, 0, (size_t)places + 1);
  for (int64_t i = at.picks - 1; i >= 0 && at.row > 0; i--) {
    uint8_t *here = &seen[at.offset[i] / at.row];
    if (*here) at.offset[i] = -at.row;                   /* row -1: zeros */
    *here = 1;
  }
  dfk_free(seen);
  return at_places(k, &at, dfc_width_name("pick", dfk_width(z->dtype)), at.picks * at.row, 0, k->in[0], z, z->size);
}

/* rows[ids], zeros for negative ids. */
static int32_t run_segment_gather(df_kernel *k) {
  int64_t row;
  df_tensor *z = dfk_segment_gather_begin(k, &row);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_picking p;
  memset(&p, 0, sizeof p);
  p.from = dfc_read(&c, k->in[0]);
  p.to = dfc_write(&c, z);
  p.index = dfc_indices(&c, k->in[1]);
  p.n = k->in[1]->size; p.row = row; p.blocks = 1;
  dfc_run(&c, dfc_width_name("pick", dfk_width(z->dtype)), z->size, &p);
  return dfc_end(&c);
}
static int32_t run_v1_gather(df_kernel *k) { return dfk_v1_gather(k, run_gather); }

/* to, at the places that `indices` names, op= updates. */
static int32_t place(df_kernel *k, df_tensor *to, const df_tensor *indices, const df_tensor *updates,
                     dfk_update_op op) {
  dfk_places at;
  at.offset = NULL;
  if (!dfk_places_of(k, indices, to->rank, to->dims, "result", &at)) return k->error->code;
  if (!dfk_updates_fit(k, indices, updates, to->rank, to->dims, at.depth)) {
    dfk_free(at.offset);
    return k->error->code;
  }
  return at_places(k, &at, dfc_name("place", to->dtype), at.row, op, updates, to, updates->size);
}

static int32_t run_scatter_nd(df_kernel *k) {
  int64_t dims[DF_MAX_RANK];
  const int32_t rank = dfk_dims_of(k, k->in[2], "shape", dims);
  df_tensor *z = rank < 0 ? NULL : dfk_out(k, 0, k->in[1]->dtype, rank, dims);
  if (!z) return k->error->code;
  dfk_clear(z);
  return place(k, z, k->in[0], k->in[1], DFK_ADD);
}

static int32_t tensor_scatter(df_kernel *k, dfk_update_op op) {
  const df_tensor *x = k->in[0];
  df_tensor *z = dfk_out_like(k, 0, x);
  if (!z || !dfk_copy(k, z, 0, x, 0, x->size)) return k->error->code;
  return place(k, z, k->in[1], k->in[2], op);
}
static int32_t run_scatter_update(df_kernel *k) { return tensor_scatter(k, DFK_SET); }
static int32_t run_scatter_add(df_kernel *k)    { return tensor_scatter(k, DFK_ADD); }
static int32_t run_scatter_sub(df_kernel *k)    { return tensor_scatter(k, DFK_SUB); }
static int32_t run_scatter_max(df_kernel *k)    { return tensor_scatter(k, DFK_MAX); }
static int32_t run_scatter_min(df_kernel *k)    { return tensor_scatter(k, DFK_MIN); }

/* ---- partition, stitch, sparse to dense -------------------------------------------------------------------------- */

/* Rows of `from` to rows of `to` by the kernel "pick" or "set"; the list is the host's, n long. */
static void rows_by(dfc_call *c, const char *kernel, const df_tensor *from, df_tensor *to, const int64_t *list,
                    int64_t n, int64_t row, bool one) {
  if (!n || !row) return;
  dfc_picking p;
  memset(&p, 0, sizeof p);
  p.from = dfc_read(c, from);
  p.to = dfc_write(c, to);
  p.index = dfc_temporary(c, list, n * (int64_t)sizeof *list);
  p.n = n; p.row = row; p.blocks = 1; p.op = one;
  dfc_run(c, dfc_width_name(kernel, dfk_width(to->dtype)), n * row, &p);
  dfc_drop(c);
}

/* Each part is picked from data by the list of its rows. */
static int32_t run_partition(df_kernel *k) {
  const df_tensor *parts = k->in[1];
  int64_t row, *count = dfk_partition_begin(k, &row);
  if (!count) return k->error->code;
  int64_t *list = dfk_scratch(k, (parts->size + 1) * (int64_t)sizeof *list);
  if (!list) { dfk_free(count); return k->error->code; }
  dfc_call c = dfc_begin(k);
  for (int32_t p = 0; p < k->nout && c.ok; p++) {
    int64_t n = 0;
    for (int64_t i = 0; i < parts->size; i++) if (dfk_index(parts, i) == p) list[n++] = i;
    rows_by(&c, "pick", k->in[0], k->out[p].as.tensor, list, n, row, false);
  }
  dfk_free(count);
  dfk_free(list);
  return dfc_end(&c);
}

/* For each of `rows` rows the number, counted over all lists, of the last index that names it, -1: none. Freed with
 * dfk_free; NULL: error is filled. */
static int64_t *last_writers(df_kernel *k, int32_t lists, int64_t rows) {
  int64_t *last = dfk_scratch(k, (rows + 1) * (int64_t)sizeof *last), number = 0;
  if (!last) return NULL;
  for (int64_t r = 0; r < rows; r++) last[r] = -1;
  for (int32_t i = 0; i < lists; i++)
    for (int64_t j = 0; j < k->in[i]->size; j++) last[dfk_index(k->in[i], j)] = number++;
  return last;
}
/* The rows that a list, whose first is counted `number`, names last; -1 for others. NULL: error is filled. */
static int64_t *won(df_kernel *k, const df_tensor *t, const int64_t *last, int64_t number) {
  int64_t *list = dfk_scratch(k, (t->size + 1) * (int64_t)sizeof *list);
  for (int64_t j = 0; list && j < t->size; j++) {
    const int64_t v = dfk_index(t, j);
    list[j] = last[v] == number + j ? v : -1;
  }
  return list;
}

static int32_t run_stitch(df_kernel *k) {
  const int32_t lists = k->nin / 2;
  int64_t row, number = 0;
  df_tensor *z = dfk_stitch_begin(k, &row);
  int64_t *last = z ? last_writers(k, lists, z->dims[0]) : NULL;
  if (!last) return k->error->code;
  dfk_clear(z);                                          /* rows without an index are zeros */
  int32_t status = DF_OK;
  for (int32_t i = 0; i < lists && !status; i++) {
    int64_t *list = won(k, k->in[i], last, number);
    if (!list) { status = k->error->code; break; }
    dfc_call c = dfc_begin(k);
    rows_by(&c, "set", k->in[lists + i], z, list, k->in[i]->size, row, false);
    dfk_free(list);
    status = dfc_end(&c);
    number += k->in[i]->size;
  }
  dfk_free(last);
  return status;
}

static int32_t run_stitch_grad(df_kernel *k) {
  const int32_t lists = k->nin - 1;
  const df_tensor *dy = k->in[lists];
  int64_t number = 0, *last = dfk_stitch_grad_fits(k) ? last_writers(k, lists, dy->dims[0]) : NULL;
  if (!last) return k->error->code;
  int32_t status = DF_OK;
  for (int32_t i = 0; i < lists && !status; i++) {
    df_tensor *z = dfk_stitch_grad_out(k, i);
    int64_t *list = z ? won(k, k->in[i], last, number) : NULL;
    if (!list) { status = k->error->code; break; }
    dfc_call c = dfc_begin(k);
    rows_by(&c, "pick", dy, z, list, k->in[i]->size, dfk_span(dy->dims, 1, dy->rank), false);
    dfk_free(list);
    status = dfc_end(&c);
    number += k->in[i]->size;
  }
  dfk_free(last);
  return status;
}

/* Of places that come twice the last stays. False: error is filled. */
static bool last_stays(df_kernel *k, int64_t *place, int64_t n, int64_t size) {
  uint8_t *seen = dfk_scratch(k, size + 1);
  if (!seen) return false;
  memset(seen, 0, (size_t)size + 1);
  for (int64_t i = n - 1; i >= 0; i--) {
    uint8_t *here = &seen[place[i]];
    if (*here) place[i] = -1;
    *here = 1;
  }
  dfk_free(seen);
  return true;
}

static int32_t run_to_dense(df_kernel *k) {
  int64_t n, *place;
  df_tensor *z = dfk_to_dense_begin(k, &place, &n);
  if (!z) return k->error->code;
  if (!z->size || (!dfk_bool(k, 0) && !last_stays(k, place, n, z->size))) {
    dfk_free(place);
    return z->size ? k->error->code : DF_OK;
  }
  dfc_call c = dfc_begin(k);
  const dfc_operand rest = dfc_operand_of(&c, k->in[3]);
  dfc_moving m;
  memset(&m, 0, sizeof m);
  m.n = m.dims[0] = z->size;
  m.rank = m.to_step[0] = 1;
  m.from = rest.at;
  m.bits = rest.bits;
  m.to = dfc_write(&c, z);
  dfc_run(&c, dfc_width_name("move", dfk_width(z->dtype)), m.n, &m);
  rows_by(&c, "set", k->in[2], z, place, n, 1, k->in[2]->rank == 0);
  dfk_free(place);
  return dfc_end(&c);
}

static bool takes_rows(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return dfk_plain(in[0]) && in[0] != DF_RESOURCE;
}
static bool takes_stitch(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return takes_rows(1, in + nin / 2, nout, out);
}
static bool takes_stitch_grad(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return takes_rows(1, in + nin - 1, nout, out);
}
static bool takes_dense(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return takes_rows(1, in + 2, nout, out);
}
static bool takes_scatter_nd(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return dfc_takes_ring(1, in + 1, nout, out);
}
static bool takes_grad(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return dfc_takes_ring(1, in + 3, nout, out);
}

static const dfi_gpu_kernel kernels[] = {
  { .op = "GatherV2", .run = run_gather, .host_in = 6, .takes = takes_rows },
  { .op = "Gather", .run = run_v1_gather, .host_in = 2, .takes = takes_rows },
  { .op = "GatherNdLast", .run = run_gather_nd_last, .host_in = 2, .takes = takes_rows },
  { .op = "SegmentGather", .run = run_segment_gather, .host_in = 2, .takes = takes_rows },
  { .op = "GatherGrad", .run = run_gather_grad, .host_in = 7, .takes = takes_grad },
  { .op = "GatherNd", .run = run_gather_nd, .host_in = 2, .takes = takes_rows },
  { .op = "DynamicPartition", .run = run_partition, .host_in = 2, .takes = takes_rows },
  { .op = "DynamicStitch", .run = run_stitch, .host_in = DFI_FIRST_HALF_IN, .takes = takes_stitch },
  { .op = "ParallelDynamicStitch", .run = run_stitch, .host_in = DFI_FIRST_HALF_IN, .takes = takes_stitch },
  { .op = "DynamicStitchGrad", .run = run_stitch_grad, .host_in = DFI_BUT_LAST_IN, .takes = takes_stitch_grad },
  { .op = "SparseToDense", .run = run_to_dense, .host_in = 3, .takes = takes_dense },
  { .op = "ScatterNd", .run = run_scatter_nd, .host_in = 5, .takes = takes_scatter_nd },
  { .op = "TensorScatterUpdate", .run = run_scatter_update, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "TensorScatterAdd", .run = run_scatter_add, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "TensorScatterSub", .run = run_scatter_sub, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "TensorScatterMax", .run = run_scatter_max, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "TensorScatterMin", .run = run_scatter_min, .host_in = 2, .takes = dfc_takes_ring },
};
const dfc_table dfc_index = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
