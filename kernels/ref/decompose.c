/* decompose.c: solving and decomposing batches of matrices. LAPACK does the work; matrices go to it and come back
 * column by column, in double. Triangular and tridiagonal systems are a few loops of our own.
 */
#include "../decompose.h"
#include "../cpu/lapack.h"
#include "element.h"
#include <math.h>
#include <string.h>

static int32_t no_lapack(df_kernel *k) {
  return dfk_fail(
      k, DF_UNIMPLEMENTED,
      "this op needs LAPACK, and neither libopenblas.so.0 nor liblapack.so.3 was found: install libopenblas0");
}

/* Matrix `at` of the batch, column by column. */
static void get(const dfk_batch *b, int64_t at, double *a) {
  const int64_t first = at * b->m * b->n;
  for (int64_t i = 0; i < b->m; i++)
    for (int64_t j = 0; j < b->n; j++) a[j * b->m + i] = ref_get(b->t, first + i * b->n + j);
}

/* Matrix `at` of t from columns of leading dimension ld. */
static void put(df_tensor *t, int64_t at, int64_t m, int64_t n, const double *a, int64_t ld) {
  for (int64_t i = 0; i < m; i++) for (int64_t j = 0; j < n; j++) ref_put(t, at * m * n + i * n + j, a[j * ld + i]);
}

static double *room(df_kernel *k, int64_t n) { return dfk_scratch(k, (n + 1) * (int64_t)sizeof(double)); }

/* ---- LU ------------------------------------------------------------------------------------------------ */

/* a X = b for each, or its adjoint; b NULL: the identity. */
static int32_t solve(df_kernel *k, const dfk_batch *a, const dfk_batch *b, bool adjoint, const char *singular) {
  const lapack *lp = dfk_lapack();
  const int n = a->n, nrhs = b ? b->n : n;
  df_tensor *x = dfk_out(k, 0, a->t->dtype, b ? b->t->rank : a->t->rank, b ? b->t->dims : a->t->dims);
  if (!lp) return no_lapack(k);
  if (!x) return DF_RESOURCE_EXHAUSTED;
  double *lu = room(k, (int64_t)n * n + (int64_t)n * nrhs);
  int *pivot = lu ? dfk_scratch(k, (n + 1) * (int64_t)sizeof(int)) : NULL;
  int32_t code = pivot ? DF_OK : DF_RESOURCE_EXHAUSTED;
  for (int64_t t = 0; t < a->count && !code && n > 0 && nrhs > 0; t++) {
    double *y = lu + (int64_t)n * n;
    int info = 0;
    get(a, t, lu);
    lp->dgetrf(&n, &n, lu, &n, pivot, &info);
    if (info) { code = dfk_fail(k, DF_INVALID_ARGUMENT, "%s", singular); break; }
    if (b) get(b, t, y);
    for (int64_t i = 0; i < (int64_t)n * n && !b; i++) y[i] = i % (n + 1) == 0;
    lp->dgetrs(adjoint ? "T" : "N", &n, &nrhs, lu, &n, pivot, y, &n, &info, 1);
    put(x, t, n, nrhs, y, n);
  }
  dfk_free(pivot); dfk_free(lu);
  return code;
}

int32_t ref_matrix_solve(df_kernel *k) {
  dfk_batch a, b;
  int32_t code = dfk_square_batch_of(k, 0, &a);
  if (!code) code = dfk_batch_of(k, 1, &b);
  if (!code) code = dfk_same_batch(k, &a, &b);
  return code ? code : solve(k, &a, &b, dfk_bool(k, 0), "Input matrix is not invertible.");
}

int32_t ref_matrix_inverse(df_kernel *k) {
  dfk_batch a;
  int32_t code = dfk_square_batch_of(k, 0, &a);
  return code ? code : solve(k, &a, NULL, dfk_bool(k, 0), "Input is not invertible.");
}

/* Of each matrix the sign of the determinant, and its logarithm or (`product`) itself. */
static int32_t determinants(df_kernel *k, const dfk_batch *a, bool product, double *sign, double *size) {
  const lapack *lp = dfk_lapack();
  const int n = a->n;
  if (!lp) return no_lapack(k);
  double *lu = room(k, (int64_t)n * n);
  int *pivot = lu ? dfk_scratch(k, (n + 1) * (int64_t)sizeof(int)) : NULL;
  for (int64_t t = 0; t < a->count && pivot; t++) {
    int info = 0;
    get(a, t, lu);
    sign[t] = 1;
    size[t] = product;
    if (n > 0) lp->dgetrf(&n, &n, lu, &n, pivot, &info);
    for (int64_t i = 0; i < n; i++) {
      const double d = lu[i * (n + 1)];
      if (pivot[i] != i + 1) sign[t] = -sign[t];
      sign[t] = d == 0 ? 0 : d < 0 ? -sign[t] : sign[t];
      if (product) size[t] *= fabs(d); else size[t] += log(fabs(d));
    }
  }
  const bool ok = pivot != NULL;
  dfk_free(pivot); dfk_free(lu);
  return ok ? DF_OK : DF_RESOURCE_EXHAUSTED;
}

static int32_t determinant(df_kernel *k, bool logarithm) {
  dfk_batch a;
  int32_t code = dfk_square_batch_of(k, 0, &a);
  if (code) return code;
  df_tensor *first = dfk_batch_out(k, 0, a.t, 0, NULL);
  df_tensor *second = first && logarithm ? dfk_batch_out(k, 1, a.t, 0, NULL) : first;
  double *d = second ? room(k, 2 * a.count) : NULL;
  if (!d) return DF_RESOURCE_EXHAUSTED;
  code = determinants(k, &a, !logarithm, d, d + a.count);
  for (int64_t t = 0; t < a.count && !code; t++) {
    ref_put(first, t, logarithm ? d[t] : d[t] * d[a.count + t]);
    if (logarithm) ref_put(second, t, d[a.count + t]);
  }
  dfk_free(d);
  return code;
}
int32_t ref_matrix_determinant(df_kernel *k)     { return determinant(k, false); }
int32_t ref_log_matrix_determinant(df_kernel *k) { return determinant(k, true); }

/* ---- triangles ------------------------------------------------------------------------------------------ */

/* a x = b for one column b, in place; a by columns. Adjoint: with a transposed. False: a zero on the diagonal. */
static bool substitute(const double *a, int n, bool lower, bool adjoint, double *b) {
  const bool down = lower != adjoint;
  for (int s = 0; s < n; s++) {
    const int64_t i = down ? s : n - 1 - s;
    double sum = b[i];
    for (int64_t j = down ? 0 : i + 1; j < (down ? i : n); j++) sum -= (adjoint ? a[i * n + j] : a[j * n + i]) * b[j];
    if (a[i * (n + 1)] == 0) return false;
    b[i] = sum / a[i * (n + 1)];
  }
  return true;
}

int32_t ref_matrix_triangular_solve(df_kernel *k) {
  dfk_triangles p;
  df_tensor *x = dfk_triangular_solve_begin(k, &p);
  if (!x) return k->error->code;
  const dfk_batch a = p.a, b = p.b;
  double *tri = room(k, (int64_t)a.n * a.n + (int64_t)b.m * b.n);
  if (!tri) return DF_RESOURCE_EXHAUSTED;
  double *y = tri + (int64_t)a.n * a.n;
  int32_t code = DF_OK;
  for (int64_t at = 0; at < p.count && !code; at++) {
    get(&a, dfk_triangles_at(a.t, x, at), tri);
    get(&b, dfk_triangles_at(b.t, x, at), y);
    for (int64_t j = 0; j < b.n && !code; j++)
      if (!substitute(tri, a.n, dfk_bool(k, 0), dfk_bool(k, 1), y + j * b.m))
        code = dfk_fail(k, DF_INVALID_ARGUMENT, "Input matrix is not invertible.");
    put(x, at, b.m, b.n, y, b.m);
  }
  dfk_free(tri);
  return code;
}

int32_t ref_cholesky(df_kernel *k) {
  dfk_batch a;
  int32_t code = dfk_square_batch_of(k, 0, &a);
  const lapack *lp = dfk_lapack();
  if (code) return code;
  if (!lp) return no_lapack(k);
  const int n = a.n;
  df_tensor *l = dfk_out_like(k, 0, a.t);
  double *x = l ? room(k, (int64_t)n * n) : NULL;
  if (!x) return DF_RESOURCE_EXHAUSTED;
  for (int64_t t = 0; t < a.count && !code && n > 0; t++) {
    int info = 0;
    get(&a, t, x);
    lp->dpotrf("L", &n, x, &n, &info, 1);
    if (info)
      code =
          dfk_fail(k, DF_INVALID_ARGUMENT, "Cholesky decomposition was not successful. The input might not be valid.");
    for (int64_t j = 1; j < n; j++) for (int64_t i = 0; i < j; i++) x[j * n + i] = 0;
    put(l, t, n, n, x, n);
  }
  dfk_free(x);
  return code;
}

/* diagonals: above (its last element means nothing), main, below (its first one neither). Gauss's elimination, with a
 * row's neighbour as pivot where that is larger; a row then reaches two to the right. */
static bool solve_bands(double *u, double *d, double *l, double *v, double *b, int64_t n, int64_t nrhs, bool pivoting) {
  for (int64_t i = 0; i < n; i++) v[i] = 0;
  for (int64_t i = 0; i + 1 < n; i++) {
    if (pivoting && fabs(l[i + 1]) > fabs(d[i])) {
      double s = d[i]; d[i] = l[i + 1]; l[i + 1] = s;
      s = u[i]; u[i] = d[i + 1]; d[i + 1] = s;
      if (i + 2 < n) { v[i] = u[i + 1]; u[i + 1] = 0; }
      for (int64_t j = 0; j < nrhs; j++) {
        s = b[i * nrhs + j];
        b[i * nrhs + j] = b[(i + 1) * nrhs + j];
        b[(i + 1) * nrhs + j] = s;
      }
    }
    if (d[i] == 0) return false;
    const double f = l[i + 1] / d[i];
    d[i + 1] -= f * u[i];
    if (i + 2 < n) u[i + 1] -= f * v[i];
    for (int64_t j = 0; j < nrhs; j++) b[(i + 1) * nrhs + j] -= f * b[i * nrhs + j];
  }
  for (int64_t i = n - 1; i >= 0; i--) {
    if (d[i] == 0) return false;
    for (int64_t j = 0; j < nrhs; j++) {
      double sum = b[i * nrhs + j];
      if (i + 1 < n) sum -= u[i] * b[(i + 1) * nrhs + j];
      if (i + 2 < n) sum -= v[i] * b[(i + 2) * nrhs + j];
      b[i * nrhs + j] = sum / d[i];
    }
  }
  return true;
}

int32_t ref_tridiagonal_solve(df_kernel *k) {
  dfk_batch a, b;
  df_tensor *x = dfk_tridiagonal_begin(k, &a, &b);
  if (!x) return k->error->code;
  const int64_t n = a.n, per = (int64_t)b.m * b.n;
  double *w = room(k, 4 * n + per);
  if (!w) return DF_RESOURCE_EXHAUSTED;
  int32_t code = DF_OK;
  for (int64_t at = 0; at < a.count && !code; at++) {
    double *y = w + 4 * n;
    for (int64_t i = 0; i < 3 * n; i++) w[i] = ref_get(a.t, at * 3 * n + i);
    for (int64_t i = 0; i < per; i++) y[i] = ref_get(b.t, at * per + i);
    if (!solve_bands(w, w + n, w + 2 * n, w + 3 * n, y, n, b.n, dfk_bool(k, 0)))
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "Input matrix is not invertible.");
    for (int64_t i = 0; i < per; i++) ref_put(x, at * per + i, y[i]);
  }
  dfk_free(w);
  return code;
}

/* ---- orthogonal ------------------------------------------------------------------------------------------ */

int32_t ref_qr(df_kernel *k) {
  dfk_batch a;
  int32_t code = dfk_batch_of(k, 0, &a);
  const lapack *lp = dfk_lapack();
  if (code) return code;
  if (!lp) return no_lapack(k);
  const int m = a.m, n = a.n, p = dfk_least(m, n), columns = dfk_bool(k, 0) ? m : p, wide = columns > n ? columns : n;
  df_tensor *q = dfk_batch_out(k, 0, a.t, 2, (int64_t[]){ m, columns }),
            *r = q ? dfk_batch_out(k, 1, a.t, 2, (int64_t[]){ columns, n }) : NULL;
  const int work = 64 * (wide + 1);
  double *x = r ? room(k, (int64_t)m * wide + p + work) : NULL;
  if (!x) return DF_RESOURCE_EXHAUSTED;
  double *tau = x + (int64_t)m * wide, *w = tau + p;
  for (int64_t t = 0; t < a.count; t++) {
    int info = 0;
    get(&a, t, x);
    if (p > 0) lp->dgeqrf(&m, &n, x, &m, tau, w, &work, &info);
    for (int64_t i = 0; i < columns; i++)
      for (int64_t j = 0; j < n; j++) ref_put(r, (t * columns + i) * n + j, i <= j && i < p ? x[j * m + i] : 0);
    for (int64_t i = (int64_t)m * n; i < (int64_t)m * wide; i++) x[i] = 0;
    if (p > 0) lp->dorgqr(&m, &columns, &p, x, &m, tau, w, &work, &info);
    for (int64_t i = 0; p == 0 && i < (int64_t)m * columns; i++) x[i] = i % (m + 1) == 0;
    put(q, t, m, columns, x, m);
  }
  dfk_free(x);
  return DF_OK;
}

/* Outputs that are not asked for are empty, as TensorFlow's. */
static df_tensor *empty(df_kernel *k, int32_t i, const df_tensor *t) {
  const int64_t none = 0;
  return dfk_out(k, i, t->dtype, 1, &none);
}

static bool all_finite(const double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) if (!isfinite(x[i])) return false;
  return true;
}

/* Of matrices without an element all axes are singular vectors, if all are asked for. */
static void put_axes(df_tensor *t, int64_t n) {
  for (int64_t i = 0; i < t->size; i++) ref_put(t, i, i % (n * n) / n == i % n);
}

int32_t ref_svd(df_kernel *k) {
  dfk_batch a;
  int32_t code = dfk_batch_of(k, 0, &a);
  const lapack *lp = dfk_lapack();
  if (code) return code;
  if (!lp) return no_lapack(k);
  const bool uv = dfk_bool(k, 0), full = dfk_bool(k, 1);
  const int m = a.m, n = a.n, p = dfk_least(m, n), cu = full ? m : p, cv = full ? n : p, most = m > n ? m : n;
  df_tensor *s = dfk_batch_out(k, 0, a.t, 1, (int64_t[]){ p });
  df_tensor *u = s ? uv ? dfk_batch_out(k, 1, a.t, 2, (int64_t[]){ m, cu }) : empty(k, 1, a.t) : NULL;
  df_tensor *v = u ? uv ? dfk_batch_out(k, 2, a.t, 2, (int64_t[]){ n, cv }) : empty(k, 2, a.t) : NULL;
  const int64_t work = 4 * (int64_t)p * p + 8 * (int64_t)p + 9 * (int64_t)most + 64 * ((int64_t)m + n);
  double *x = v ? room(k, (int64_t)m * n + p + (int64_t)m * cu + (int64_t)n * cv + work) : NULL;
  int *iwork = x ? dfk_scratch(k, (8 * p + 1) * (int64_t)sizeof(int)) : NULL;
  if (!iwork) { dfk_free(x); return DF_RESOURCE_EXHAUSTED; }
  double *sigma = x + (int64_t)m * n, *left = sigma + p, *right = left + (int64_t)m * cu, *w = right + (int64_t)n * cv;
  const int lwork = (int)work, ldu = m > 0 ? m : 1, ldv = cv > 0 ? cv : 1;
  for (int64_t t = 0; t < a.count && !code && p > 0; t++) {
    int info = 0;
    get(&a, t, x);
    if (!all_finite(x, (int64_t)m * n)) { code = dfk_fail(k, DF_INVALID_ARGUMENT, "Input is not finite."); break; }
    lp->dgesdd(uv ? full ? "A" : "S" : "N", &m, &n, x, &m, sigma, left, &ldu, right, &ldv, w, &lwork, iwork, &info, 1);
    if (info) {
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "the singular values of matrix %lld did not converge", (long long)t);
      break;
    }
    for (int64_t i = 0; i < p; i++) ref_put(s, t * p + i, sigma[i]);
    if (!uv) continue;
    put(u, t, m, cu, left, m);
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < cv; j++) ref_put(v, (t * n + i) * cv + j, right[i * cv + j]);
  }
  if (p == 0 && uv) { put_axes(u, m); put_axes(v, n); }
  dfk_free(iwork); dfk_free(x);
  return code;
}

int32_t ref_self_adjoint_eig(df_kernel *k) {
  dfk_batch a;
  int32_t code = dfk_square_batch_of(k, 0, &a);
  const lapack *lp = dfk_lapack();
  if (code) return code;
  if (!lp) return no_lapack(k);
  const int n = a.n;
  const bool vectors = dfk_bool(k, 0);
  df_tensor *e = dfk_batch_out(k, 0, a.t, 1, (int64_t[]){ n }),
            *v = e ? vectors ? dfk_out_like(k, 1, a.t) : empty(k, 1, a.t) : NULL;
  const int64_t work = 1 + 6 * (int64_t)n + 2 * (int64_t)n * n;
  double *x = v ? room(k, (int64_t)n * n + n + work) : NULL;
  const int lwork = (int)work, liwork = 3 + 5 * n;
  int *iwork = x ? dfk_scratch(k, liwork * (int64_t)sizeof(int)) : NULL;
  if (!iwork) { dfk_free(x); return DF_RESOURCE_EXHAUSTED; }
  double *w = x + (int64_t)n * n;
  for (int64_t t = 0; t < a.count && !code && n > 0; t++) {
    int info = 0;
    get(&a, t, x);
    if (all_finite(x, (int64_t)n * n))
      lp->dsyevd(vectors ? "V" : "N", "L", &n, x, &n, w, w + n, &lwork, iwork, &liwork, &info, 1, 1);
    else info = 1;
    if (info) {
      code = dfk_fail(k, DF_INVALID_ARGUMENT,
                      "Self-adjoint eigen decomposition was not successful. The input might not be valid.");
      break;
    }
    for (int64_t i = 0; i < n; i++) ref_put(e, t * n + i, w[i]);
    if (vectors) put(v, t, n, n, x, n);
  }
  dfk_free(iwork); dfk_free(x);
  return code;
}
