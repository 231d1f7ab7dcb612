/* reduce.c: launchers of reductions, scans and rows. A reduction over axes that do not lie side by side is one over the
 * last dims of a transposed copy. */
#include "dnn.h"
#include "pieces.h"
#include "../move.h"
#include "../nn.h"
#include "../reduce.h"
#include <string.h>

/* PIECE: a reduction of more elements is cut into pieces, at most so many. */
enum { BLOCK = DFC_REDUCE_BLOCK, MANY = 4096, PIECE = 8192, PIECES = 1024, LANES = 32 };
_Static_assert((int)PIECE >= (int)DFK_CHAIN_ROW, "a fused row is no piece");

/* How x[outer, n, inner] is cut: it follows from the shape alone. */
static dfc_pieces cut(const void *x, void *z, int64_t outer, int64_t n, int64_t inner, int32_t what) {
  dfc_pieces p;
  memset(&p, 0, sizeof p);
  p.x = x; p.z = z; p.outer = outer; p.n = n; p.inner = inner; p.what = what;
  p.pieces = (n + PIECE - 1) / PIECE;
  if (p.pieces > PIECES) p.pieces = PIECES;
  for (p.lanes = 1; p.lanes < LANES && p.lanes < inner;) p.lanes *= 2;
  return p;
}
static int64_t blocks_of(const dfc_pieces *p) { return p->outer * ((p->inner + p->lanes - 1) / p->lanes) * p->pieces; }

/* A reduction of more than PIECE elements each, by all of the GPU. */
static void reduce_pieces(dfc_call *c, int32_t dtype, const dfc_reduction *f) {
  dfc_pieces p = cut(f->x, f->z, f->outer, f->n, f->inner, f->what);
  const int64_t results = f->outer * f->inner;
  const bool two = f->what == DFC_LOG_SUM_EXP || dfk_is_complex(dtype);
  p.part = dfc_temporary(c, NULL, results * p.pieces * (two ? 16 : 8));
  dfc_run_blocks(c, dfc_name("reduce_pieces", dtype), blocks_of(&p), BLOCK, &p);
  dfc_run_blocks(c, dfc_name("reduce_parts", dtype), results, BLOCK, &p);
}

/* z[outer, inner] of x[outer, n, inner]. One thread for each result where each has little to do, or there are many
 * whose elements lie side by side. How rows (inner = 1) are reduced follows from their length alone. */
static void reduce_into(dfc_call *c, int32_t dtype, const void *x, void *z, int64_t outer, int64_t n, int64_t inner,
                        int32_t what) {
  dfc_reduction p;
  memset(&p, 0, sizeof p);
  p.x = x; p.z = z; p.outer = outer; p.n = n; p.inner = inner; p.what = what;
  const int64_t results = outer * inner;
  if (n > PIECE) reduce_pieces(c, dtype, &p);
  else if (n <= DFC_REDUCE_SHORT || (results >= MANY && inner > 1))
    dfc_run(c, dfc_name("reduce_each", dtype), results, &p);
  else dfc_run_blocks(c, dfc_name("reduce_block", dtype), results, BLOCK, &p);
}

void dfc_sum_rows(dfc_call *c, int32_t dtype, const void *x, void *z, int64_t rows, int64_t columns) {
  if (columns) reduce_into(c, dtype, x, z, 1, rows, columns, DFC_SUM);
}

/* The reduction of x that `r` asks for, as output 0. */
static int32_t reduced(df_kernel *k, const df_tensor *x, const dfk_reduction *r, int32_t what) {
  df_tensor *z = dfk_out(k, 0, x->dtype, r->out_rank, r->out_dims);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  /* the reduced axes behind the others, but in place where they lie side by side */
  int32_t first = r->rank, last = -1;
  for (int32_t d = 0; d < r->rank; d++)
    if (r->reduced[d] && r->dims[d] != 1) { if (first == r->rank) first = d; last = d; }
  bool together = true;
  for (int32_t d = first; d <= last; d++) together &= r->reduced[d] || r->dims[d] == 1;
  dfc_call c = dfc_begin(k);
  const void *data = dfc_read(&c, x);
  int64_t outer = 1, inner = 1;
  if (last < 0) {
    outer = r->out_size;                                /* nothing to reduce */
  } else if (together) {
    for (int32_t d = 0; d < r->rank; d++) {
      if (d < first) outer *= r->dims[d];
      if (d > last) inner *= r->dims[d];
    }
  } else {
    dfc_moving m;
    memset(&m, 0, sizeof m);
    int64_t own[DF_MAX_RANK], at = 1;
    dfk_strides(r->rank, r->dims, own);
    for (int32_t pass = 0; pass < 2; pass++)
      for (int32_t d = 0; d < r->rank; d++)
        if (r->reduced[d] == (pass == 1)) { m.dims[m.rank] = r->dims[d]; m.from_step[m.rank++] = own[d]; }
    for (int64_t d = m.rank - 1; d >= 0; d--) { m.to_step[d] = at; at *= m.dims[d]; }
    m.n = x->size;
    m.from = data;
    m.to = dfc_temporary(&c, NULL, x->size * dfk_width(x->dtype));
    dfc_run(&c, dfc_width_name("move", dfk_width(x->dtype)), m.n, &m);
    data = m.to;
    outer = r->out_size;
  }
  reduce_into(&c, x->dtype, data, dfc_write(&c, z), outer, r->count, inner, what);
  return dfc_end(&c);
}

static int32_t reduce(df_kernel *k, int32_t what) {
  dfk_reduction r;
  int32_t code = dfk_reduction_of(k, &r);
  if (code) return code;
  const df_tensor *x = k->in[0];
  const bool floats = (DFC_FLOATS | DFC_COMPLEX) >> x->dtype & 1;
  if (what == DFC_MEAN && !floats && !r.count && r.out_size)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the mean of no integers is not defined (integer division by zero)");
  return reduced(k, x, &r, what);
}

/* x summed over the dims that broadcasting a tensor of that shape to x's repeated. */
static int32_t run_sum_to_shape(df_kernel *k) {
  const df_tensor *x = k->in[0], *shape = k->in[1];
  const int32_t rank = (int32_t)shape->size, lead = x->rank - rank;
  char text[160];
  dfk_reduction r = { .rank = x->rank, .out_rank = rank, .out_size = 1, .count = 1 };
  bool ok = lead >= 0, same = lead == 0;
  for (int32_t d = 0; ok && d < x->rank; d++) {
    const int64_t n = d < lead ? 1 : dfk_index(shape, d - lead);
    ok = n == x->dims[d] || n == 1;
    r.dims[d] = x->dims[d];
    r.reduced[d] = d < lead || n != x->dims[d];
    same &= !r.reduced[d];
    if (d >= lead) r.out_dims[d - lead] = n;
    if (r.reduced[d]) r.count *= x->dims[d]; else r.out_size *= n;
  }
  if (!ok)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "a gradient of shape %s cannot be summed to a shape of rank %d that it was not broadcast from",
                    dfk_shape_text(x, text, sizeof text), rank);
  return same ? dfk_out_forward(k, 0, 0, x->rank, NULL) : reduced(k, x, &r, DFC_SUM);
}
static int32_t run_sum(df_kernel *k)  { return reduce(k, DFC_SUM); }
static int32_t run_mean(df_kernel *k) { return reduce(k, DFC_MEAN); }
static int32_t run_prod(df_kernel *k) { return reduce(k, DFC_PROD); }
static int32_t run_max(df_kernel *k)  { return reduce(k, DFC_MAX); }
static int32_t run_min(df_kernel *k)  { return reduce(k, DFC_MIN); }
static int32_t run_all(df_kernel *k)  { return reduce(k, DFC_ALL); }
static int32_t run_any(df_kernel *k)  { return reduce(k, DFC_ANY); }
static int32_t run_log_sum_exp(df_kernel *k) { return reduce(k, DFC_LOG_SUM_EXP); }
static int32_t run_norm(df_kernel *k) { return reduce(k, DFC_NORM); }

static int32_t run_l2_loss(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *z = dfk_out(k, 0, x->dtype, 0, NULL);
  if (!z) return k->error->code;
  dfc_call c = dfc_begin(k);
  reduce_into(&c, x->dtype, dfc_read(&c, x), dfc_write(&c, z), 1, x->size, 1, DFC_HALF_SQUARES);
  return dfc_end(&c);
}

/* ---- along one axis ---------------------------------------------------------------------------------------------- */

typedef struct axis_view { int64_t outer, n, inner; } axis_view;
static bool view(df_kernel *k, const df_tensor *x, axis_view *v, int32_t *axis) {
  *axis = dfk_scalar_axis_of(k, k->in[1], x);
  if (*axis < 0) return false;
  *v = (axis_view){ 1, x->dims[*axis], 1 };
  for (int32_t i = 0; i < *axis; i++) v->outer *= x->dims[i];
  for (int32_t i = *axis + 1; i < x->rank; i++) v->inner *= x->dims[i];
  return true;
}

/* z of x along that axis, by so many threads of the kernel `name`. */
static int32_t along(df_kernel *k, const df_tensor *x, df_tensor *z, const axis_view *v, const char *name,
                     int64_t threads, int32_t what, int32_t flags) {
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_reduction p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, x);
  p.z = dfc_write(&c, z);
  p.outer = v->outer; p.n = v->n; p.inner = v->inner;
  p.what = what;
  p.flags = flags;
  dfc_run(&c, name, threads, &p);
  return dfc_end(&c);
}

/* The place of the greatest or least, by blocks. */
static int32_t place(df_kernel *k, const df_tensor *x, df_tensor *z, const axis_view *v, int32_t what) {
  dfc_call c = dfc_begin(k);
  const void *data = dfc_read(&c, x);
  dfc_pieces p = cut(data, dfc_write(&c, z), v->outer, v->n, v->inner, what);
  const int64_t results = v->outer * v->inner;
  p.wide = z->dtype == DF_INT64;
  if (p.pieces > 1) p.part = dfc_temporary(&c, NULL, results * p.pieces * 16);
  dfc_run_blocks(&c, dfc_name("arg_pieces", x->dtype), blocks_of(&p), BLOCK, &p);
  if (p.pieces > 1) dfc_run_blocks(&c, dfc_name("arg_parts", x->dtype), results, BLOCK, &p);
  return dfc_end(&c);
}

static int32_t arg(df_kernel *k, bool least) {
  const df_tensor *x = k->in[0];
  axis_view v;
  int32_t axis, rank = 0;
  int64_t dims[DF_MAX_RANK];
  char text[160];
  if (!view(k, x, &v, &axis)) return DF_INVALID_ARGUMENT;
  for (int32_t i = 0; i < x->rank; i++) if (i != axis) dims[rank++] = x->dims[i];
  if (v.n == 0 && v.outer * v.inner > 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s of an empty axis: axis %d of %s has no elements",
                    least ? "argmin" : "argmax", axis, dfk_shape_text(x, text, sizeof text));
  df_tensor *z = dfk_out(k, 0, k->out_dtype[0], rank, dims);
  const int32_t what = least ? DFC_MIN : DFC_MAX;
  const int64_t results = v.outer * v.inner;
  const bool many = results >= MANY && v.inner > 1 && v.n <= PIECE;
  if (z && z->size && v.n > DFC_REDUCE_SHORT && !many) return place(k, x, z, &v, what);
  return along(k, x, z, &v, dfc_name("arg", x->dtype), results, what, k->out_dtype[0] == DF_INT64);
}
static int32_t run_arg_max(df_kernel *k) { return arg(k, false); }
static int32_t run_arg_min(df_kernel *k) { return arg(k, true); }

static int32_t scan(df_kernel *k, int32_t what) {
  const df_tensor *x = k->in[0];
  axis_view v;
  int32_t axis;
  if (!view(k, x, &v, &axis)) return DF_INVALID_ARGUMENT;
  return along(k, x, dfk_out_like(k, 0, x), &v, dfc_name("scan", x->dtype), v.outer * v.inner, what,
               dfk_bool(k, 0) | dfk_bool(k, 1) << 1);
}
static int32_t run_cumsum(df_kernel *k)  { return scan(k, DFC_SUM); }
static int32_t run_cumprod(df_kernel *k) { return scan(k, DFC_PROD); }

/* (x, d, axis; reverse) -> s, beside */
static int32_t run_recurrence(df_kernel *k) {
  const df_tensor *x = k->in[0], *d = k->in[1];
  char one[160], other[160];
  const int32_t axis = dfk_scalar_axis_of(k, k->in[2], x);
  if (axis < 0) return k->error->code;
  if (d->size != x->size)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "x is %s and d is %s: expected one shape",
                    dfk_shape_text(x, one, sizeof one), dfk_shape_text(d, other, sizeof other));
  df_tensor *s = dfk_out_like(k, 0, x), *beside = s ? dfk_out_like(k, 1, x) : NULL;
  if (!beside) return k->error->code;
  if (!s->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_recurring p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, x);
  p.d = dfc_read(&c, d);
  p.s = dfc_write(&c, s);
  p.beside = dfc_write(&c, beside);
  p.outer = p.inner = 1;
  p.n = x->dims[axis];
  for (int32_t i = 0; i < axis; i++) p.outer *= x->dims[i];
  for (int32_t i = axis + 1; i < x->rank; i++) p.inner *= x->dims[i];
  p.reverse = dfk_bool(k, 0);
  dfc_run(&c, dfc_name("recur", x->dtype), p.outer * p.inner, &p);
  return dfc_end(&c);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int32_t softmax(df_kernel *k, int32_t what) {
  const df_tensor *x = k->in[0];
  if (x->rank < 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "softmax needs at least one axis, got a scalar");
  const int64_t n = x->dims[x->rank - 1], rows = n ? x->size / n : 0;
  df_tensor *z = dfc_dnn_softens(dfc_host->device(k), rows, n, x->dtype)
                     ? dfk_out(k, 0, x->dtype, x->rank, x->dims)
                     : dfk_out_reuse(k, 0, 0, x->dtype, x->rank, x->dims);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_rows p;
  memset(&p, 0, sizeof p);
  p.n = n;
  p.rows = rows;
  p.x = dfc_read(&c, x);
  p.z = dfc_write(&c, z);
  p.what = what;
  if (!dfc_dnn_softmax(&c, &p, x->dtype)) dfc_run_blocks(&c, dfc_name("rows", x->dtype), p.rows, BLOCK, &p);
  return dfc_end(&c);
}
static int32_t run_softmax(df_kernel *k)     { return softmax(k, DFC_SOFTMAX); }
static int32_t run_log_softmax(df_kernel *k) { return softmax(k, DFC_LOG_SOFTMAX); }

static int32_t xent(df_kernel *k, bool sparse) {
  dfk_xent e;
  int32_t code = dfk_xent_begin(k, sparse, &e);
  if (code || !e.rows) return dfk_xent_end(&e, code);
  dfc_call c = dfc_begin(k);
  dfc_rows p;
  memset(&p, 0, sizeof p);
  p.n = e.classes;
  p.rows = e.rows;
  p.x = dfc_read(&c, e.logits);
  p.labels = dfc_read(&c, e.labels);
  p.z = dfc_write(&c, e.backprop);
  p.loss = dfc_write(&c, e.loss);
  p.what = sparse ? DFC_SPARSE_XENT : DFC_XENT;
  p.wide = e.labels->dtype == DF_INT64;
  dfc_run_blocks(&c, dfc_name("rows", e.logits->dtype), p.rows, BLOCK, &p);
  return dfk_xent_end(&e, dfc_end(&c));
}
static int32_t run_xent(df_kernel *k)        { return xent(k, false); }
static int32_t run_sparse_xent(df_kernel *k) { return xent(k, true); }

/* value + bias along the channels: [outer, n, inner]. */
static int32_t run_bias_add(df_kernel *k) {
  const df_tensor *x = k->in[0], *bias = k->in[1];
  dfk_channels ch;
  char a[160], b[160];
  int32_t code = dfk_channels_of(k, 0, &ch);
  if (code) return code;
  if (bias->rank != 1 || bias->size != ch.n)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "bias must have one element per channel: value is %s, bias %s",
                    dfk_shape_text(x, a, sizeof a), dfk_shape_text(bias, b, sizeof b));
  df_tensor *z = dfk_out_reuse(k, 0, 0, x->dtype, x->rank, x->dims);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_spread p;
  memset(&p, 0, sizeof p);
  p.n = z->size;
  p.rank = 3;
  p.dims[0] = ch.outer; p.dims[1] = ch.n; p.dims[2] = ch.inner;
  p.step[0][0] = ch.n * ch.inner; p.step[0][1] = ch.inner; p.step[0][2] = 1;
  p.step[1][1] = 1;
  p.in[0] = dfc_operand_of(&c, x);
  p.in[1] = dfc_operand_of(&c, bias);
  p.z = dfc_write(&c, z);
  dfc_run(&c, dfc_name("add", x->dtype), p.n, &p);
  return dfc_end(&c);
}

/* The sum over all but the channels: first over `inner`, then over `outer`. */
static int32_t run_bias_add_grad(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_channels ch;
  int32_t code = dfk_channels_of(k, 0, &ch);
  if (code) return code;
  df_tensor *z = dfk_out(k, 0, x->dtype, 1, &ch.n);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  const void *data = dfc_read(&c, x);
  if (ch.inner > 1) {
    void *rows = dfc_temporary(&c, NULL, ch.outer * ch.n * dfk_width(x->dtype));
    reduce_into(&c, x->dtype, data, rows, ch.outer * ch.n, ch.inner, 1, DFC_SUM);
    data = rows;
  }
  reduce_into(&c, x->dtype, data, dfc_write(&c, z), 1, ch.outer, ch.n, DFC_SUM);
  return dfc_end(&c);
}

static bool takes_arg(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] < 32 && (DFC_ALL_TYPES >> in[0] & 1);
}

static const dfi_gpu_kernel kernels[] = {
  { .op = "Sum", .run = run_sum, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "SumToShape", .run = run_sum_to_shape, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "Mean", .run = run_mean, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "Prod", .run = run_prod, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "Max", .run = run_max, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "Min", .run = run_min, .host_in = 2, .takes = dfc_takes_numbers },
  { .op = "All", .run = run_all, .host_in = 2 },
  { .op = "Any", .run = run_any, .host_in = 2 },
  { .op = "LogSumExp", .run = run_log_sum_exp, .host_in = 2, .takes = dfc_takes_floats },
  { .op = "EuclideanNorm", .run = run_norm, .host_in = 2, .takes = dfc_takes_floats },
  { .op = "L2Loss", .run = run_l2_loss, .takes = dfc_takes_floats },
  { .op = "ArgMax", .run = run_arg_max, .host_in = 2, .takes = takes_arg },
  { .op = "ArgMin", .run = run_arg_min, .host_in = 2, .takes = takes_arg },
  { .op = "Cumsum", .run = run_cumsum, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "Cumprod", .run = run_cumprod, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "LinearRecurrence", .run = run_recurrence, .host_in = 4, .takes = dfc_takes_field },
  { .op = "Softmax", .run = run_softmax, .takes = dfc_takes_floats },
  { .op = "LogSoftmax", .run = run_log_softmax, .takes = dfc_takes_floats },
  { .op = "SoftmaxCrossEntropyWithLogits", .run = run_xent, .takes = dfc_takes_floats },
  { .op = "SparseSoftmaxCrossEntropyWithLogits", .run = run_sparse_xent, .host_in = 2, .takes = dfc_takes_floats },
  { .op = "BiasAdd", .run = run_bias_add, .takes = dfc_takes_ring },
  { .op = "BiasAddV1", .run = run_bias_add, .takes = dfc_takes_ring },
  { .op = "BiasAddGrad", .run = run_bias_add_grad, .takes = dfc_takes_ring },
};
const dfc_table dfc_reduce = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
