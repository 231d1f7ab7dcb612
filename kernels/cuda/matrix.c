/* matrix.c: launchers of what solves and decomposes batches of matrices. Whether a matrix was fit for it the host wants
 * to know, and waits for: no graph holds what can fail by values. */
#include "plugin.h"
#include "matrix.h"
#include "../decompose.h"
#include <string.h>

/* For a call on `count` matrices, by blocks that have room for `per` doubles each. */
static dfc_matrices begin(int64_t count, int64_t per, int32_t dtype) {
  dfc_matrices p;
  memset(&p, 0, sizeof p);
  p.count = count;
  p.per = per;
  p.wide = dtype == DF_FLOAT64;
  return p;
}
static int64_t blocks_of(const dfc_call *c, int64_t count) {
  const int64_t most = (int64_t)c->g->processors * 4;
  return count < most ? count : most;
}
static void launch(dfc_call *c, const char *name, dfc_matrices *p) {
  const int64_t blocks = blocks_of(c, p->count);
  p->room = dfc_temporary(c, NULL, (blocks * p->per + 1) * (int64_t)sizeof *p->room);
  p->wrong = dfc_temporary(c, NULL, (p->count + 1) * (int64_t)sizeof *p->wrong);
  dfc_run_blocks(c, name, blocks, DFC_MATRIX_BLOCK, p);
}
/* Ends the call; `wrong` is what is said of a matrix that was not fit. */
static int32_t end(df_kernel *k, dfc_call *c, const dfc_matrices *p, const char *wrong) {
  int32_t any = 0;
  dfc_run_blocks(c, "k_matrix_wrong", 1, DFC_MATRIX_BLOCK, p);
  dfc_bring(c, &any, p->wrong + p->count, sizeof any);
  const int32_t code = dfc_end(c);
  return code || !any ? code : dfk_fail(k, DF_INVALID_ARGUMENT, "%s", wrong);
}

static int32_t run_cholesky(df_kernel *k) {
  dfk_batch a;
  int32_t code = dfk_square_batch_of(k, 0, &a);
  if (code || !dfc_waits(k, "whether a matrix has a root")) return k->error->code;
  df_tensor *x = dfk_out_like(k, 0, a.t);
  if (!x) return k->error->code;
  if (!x->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_matrices p = begin(a.count, (int64_t)a.n * a.n, a.t->dtype);
  p.n = a.n;
  p.a = dfc_read(&c, a.t);
  p.x = dfc_write(&c, x);
  launch(&c, "k_matrix_cholesky", &p);
  return end(k, &c, &p, "Cholesky decomposition was not successful. The input might not be valid.");
}

/* a x = b, b NULL: the identity. */
static int32_t solve(df_kernel *k, const dfk_batch *a, const dfk_batch *b, const char *singular) {
  if (!dfc_waits(k, "whether a matrix can be inverted")) return k->error->code;
  const df_tensor *like = b ? b->t : a->t;
  df_tensor *x = dfk_out(k, 0, a->t->dtype, like->rank, like->dims);
  if (!x) return k->error->code;
  if (!x->size) return DF_OK;
  const int32_t nrhs = b ? b->n : a->n;
  dfc_call c = dfc_begin(k);
  dfc_matrices p = begin(a->count, (int64_t)a->n * ((int64_t)a->n + nrhs), a->t->dtype);
  p.n = a->n;
  p.nrhs = nrhs;
  p.adjoint = dfk_bool(k, 0);
  p.a = dfc_read(&c, a->t);
  p.b = b ? dfc_read(&c, b->t) : NULL;
  p.x = dfc_write(&c, x);
  launch(&c, "k_matrix_eliminate", &p);
  return end(k, &c, &p, singular);
}
static int32_t run_solve(df_kernel *k) {
  dfk_batch a, b;
  int32_t code = dfk_square_batch_of(k, 0, &a);
  if (!code) code = dfk_batch_of(k, 1, &b);
  if (!code) code = dfk_same_batch(k, &a, &b);
  return code ? code : solve(k, &a, &b, "Input matrix is not invertible.");
}
static int32_t run_inverse(df_kernel *k) {
  dfk_batch a;
  const int32_t code = dfk_square_batch_of(k, 0, &a);
  return code ? code : solve(k, &a, NULL, "Input is not invertible.");
}

static int32_t determinant(df_kernel *k, int32_t what) {
  dfk_batch a;
  if (dfk_square_batch_of(k, 0, &a)) return k->error->code;
  df_tensor *x = dfk_batch_out(k, 0, a.t, 0, NULL);
  df_tensor *z = x && what == DFC_MATRIX_LOG_DETERMINANT ? dfk_batch_out(k, 1, a.t, 0, NULL) : x;
  if (!z) return k->error->code;
  if (!a.count) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_matrices p = begin(a.count, (int64_t)a.n * a.n, a.t->dtype);
  p.n = a.n;
  p.what = what;
  p.a = a.t->size ? dfc_read(&c, a.t) : NULL;
  p.x = dfc_write(&c, x);
  p.z = dfc_write(&c, z);
  launch(&c, "k_matrix_eliminate", &p);
  return dfc_end(&c);
}
static int32_t run_determinant(df_kernel *k)     { return determinant(k, DFC_MATRIX_DETERMINANT); }
static int32_t run_log_determinant(df_kernel *k) { return determinant(k, DFC_MATRIX_LOG_DETERMINANT); }

static int32_t run_triangular(df_kernel *k) {
  dfk_triangles q;
  if (!dfc_waits(k, "whether a matrix can be inverted")) return k->error->code;
  df_tensor *x = dfk_triangular_solve_begin(k, &q);
  if (!x) return k->error->code;
  if (!x->size) return DF_OK;
  int64_t *place = dfk_scratch(k, 2 * q.count * (int64_t)sizeof *place);
  if (!place) return k->error->code;
  for (int64_t i = 0; i < q.count; i++) {
    place[i] = dfk_triangles_at(q.a.t, x, i);
    place[q.count + i] = dfk_triangles_at(q.b.t, x, i);
  }
  dfc_call c = dfc_begin(k);
  dfc_matrices p = begin(q.count, (int64_t)q.b.m * q.b.n, x->dtype);
  p.n = q.a.n;
  p.nrhs = q.b.n;
  p.lower = dfk_bool(k, 0);
  p.adjoint = dfk_bool(k, 1);
  p.place = dfc_temporary(&c, place, 2 * q.count * (int64_t)sizeof *place);
  dfk_free(place);
  p.a = dfc_read(&c, q.a.t);
  p.b = dfc_read(&c, q.b.t);
  p.x = dfc_write(&c, x);
  launch(&c, "k_matrix_substitute", &p);
  return end(k, &c, &p, "Input matrix is not invertible.");
}

static int32_t run_tridiagonal(df_kernel *k) {
  dfk_batch a, b;
  if (!dfc_waits(k, "whether a matrix can be inverted")) return k->error->code;
  df_tensor *x = dfk_tridiagonal_begin(k, &a, &b);
  if (!x) return k->error->code;
  if (!a.t->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_matrices p = begin(a.count, (int64_t)a.n * (5 + (int64_t)b.n), x->dtype);
  p.n = a.n;
  p.nrhs = b.n;
  p.lower = dfk_bool(k, 0);
  p.a = dfc_read(&c, a.t);
  p.b = b.t->size ? dfc_read(&c, b.t) : NULL;
  p.x = dfc_write(&c, x);
  launch(&c, "k_matrix_tridiagonal", &p);
  return end(k, &c, &p, "Input matrix is not invertible.");
}

static int32_t run_qr(df_kernel *k) {
  dfk_batch a;
  if (dfk_batch_of(k, 0, &a)) return k->error->code;
  const int m = a.m, n = a.n, least = dfk_least(m, n), columns = dfk_bool(k, 0) ? m : least;
  df_tensor *q = dfk_batch_out(k, 0, a.t, 2, (int64_t[]){ m, columns });
  df_tensor *r = q ? dfk_batch_out(k, 1, a.t, 2, (int64_t[]){ columns, n }) : NULL;
  if (!r) return k->error->code;
  if (!q->size && !r->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_matrices p = begin(a.count, (int64_t)m * n + (int64_t)m * columns + least, a.t->dtype);
  p.m = m;
  p.n = n;
  p.nrhs = columns;
  p.a = a.t->size ? dfc_read(&c, a.t) : NULL;
  p.x = dfc_write(&c, q);
  p.z = r->size ? dfc_write(&c, r) : NULL;
  launch(&c, "k_matrix_qr", &p);
  return dfc_end(&c);
}

/* Outputs that were not asked for are empty, as TensorFlow's. */
static df_tensor *empty(df_kernel *k, int32_t i, const df_tensor *t) {
  const int64_t none = 0;
  return dfk_out(k, i, t->dtype, 1, &none);
}

static int32_t run_eigen(df_kernel *k) {
  dfk_batch a;
  if (dfk_square_batch_of(k, 0, &a) || !dfc_waits(k, "whether a matrix has eigenvalues")) return k->error->code;
  const int64_t n = a.n;
  const bool vectors = dfk_bool(k, 0);
  df_tensor *e = dfk_batch_out(k, 0, a.t, 1, &n);
  df_tensor *v = e ? vectors ? dfk_out_like(k, 1, a.t) : empty(k, 1, a.t) : NULL;
  if (!v) return k->error->code;
  if (!e->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_matrices p = begin(a.count, 2 * n * n + n + 1, a.t->dtype);
  p.n = a.n;
  p.a = dfc_read(&c, a.t);
  p.x = dfc_write(&c, e);
  p.z = vectors ? dfc_write(&c, v) : NULL;
  launch(&c, "k_matrix_eigen", &p);
  return end(k, &c, &p, "Self-adjoint eigen decomposition was not successful. The input might not be valid.");
}

static int32_t run_singular(df_kernel *k) {
  dfk_batch a;
  if (dfk_batch_of(k, 0, &a) || !dfc_waits(k, "whether a matrix has singular values")) return k->error->code;
  const bool uv = dfk_bool(k, 0), full = dfk_bool(k, 1);
  const int64_t m = a.m, n = a.n, least = dfk_least(a.m, a.n), most = m > n ? m : n;
  const int64_t left = full ? m : least, right = full ? n : least;
  df_tensor *s = dfk_batch_out(k, 0, a.t, 1, &least);
  df_tensor *u = s ? uv ? dfk_batch_out(k, 1, a.t, 2, (int64_t[]){ m, left }) : empty(k, 1, a.t) : NULL;
  df_tensor *v = u ? uv ? dfk_batch_out(k, 2, a.t, 2, (int64_t[]){ n, right }) : empty(k, 2, a.t) : NULL;
  if (!v) return k->error->code;
  if (!s->size && !u->size && !v->size) return DF_OK;    /* of no values the vectors are the axes */
  const int64_t columns = m < n ? right : left;
  dfc_call c = dfc_begin(k);
  dfc_matrices p = begin(a.count, m * n + least * least + most * (columns > least ? columns : least) + 2 * least,
                         a.t->dtype);
  p.m = a.m;
  p.n = a.n;
  p.nrhs = (int32_t)left;
  p.full = (int32_t)right;
  p.a = a.t->size ? dfc_read(&c, a.t) : NULL;
  p.x = dfc_write(&c, s);
  p.z = uv ? dfc_write(&c, u) : NULL;
  p.v = uv ? dfc_write(&c, v) : NULL;
  launch(&c, "k_matrix_singular", &p);
  return end(k, &c, &p, "Input is not finite.");
}

static bool takes_wide(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] == DF_FLOAT32 || in[0] == DF_FLOAT64;
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "Cholesky", .run = run_cholesky, .takes = takes_wide },
  { .op = "MatrixSolve", .run = run_solve, .takes = takes_wide },
  { .op = "MatrixInverse", .run = run_inverse, .takes = takes_wide },
  { .op = "MatrixDeterminant", .run = run_determinant, .takes = takes_wide },
  { .op = "LogMatrixDeterminant", .run = run_log_determinant, .takes = takes_wide },
  { .op = "MatrixTriangularSolve", .run = run_triangular, .takes = takes_wide },
  { .op = "TridiagonalSolve", .run = run_tridiagonal, .takes = takes_wide },
  { .op = "Qr", .run = run_qr, .takes = takes_wide },
  { .op = "SelfAdjointEigV2", .run = run_eigen, .takes = takes_wide },
  { .op = "Svd", .run = run_singular, .takes = takes_wide },
};
const dfc_table dfc_matrix = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
