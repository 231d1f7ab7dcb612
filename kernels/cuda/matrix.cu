/* matrix.cu: batches of matrices solved and decomposed, in double, whatever they are given in. One block takes a matrix
 * after the other, in room of its own in device memory; for many small ones, and moderate ones. */
#include "matrix.cuh"

/* Which row has the greatest number of column j from row j on, the first of such. */
DFK_ELEMENT int pivot_of(const double *w, int64_t width, int n, int j, double *part, int *row) {
  const int t = (int)threadIdx.x;
  double most = -1;
  int best = n;
  for (int i = j + t; i < n; i += BLOCK) {
    const double size = fabs(w[i * width + j]);
    if (size > most) { most = size; best = i; }
  }
  part[t] = most;
  row[t] = best;
  __syncthreads();
  for (int half = BLOCK / 2; half; half >>= 1) {
    if (t < half && (part[t + half] > part[t] || (part[t + half] == part[t] && row[t + half] < row[t]))) {
      part[t] = part[t + half];
      row[t] = row[t + half];
    }
    __syncthreads();
  }
  const int found = row[0] < n ? row[0] : j;             /* nothing but NaN */
  __syncthreads();
  return found;
}

/* wrong[count]: is any of them? */
DFC_KERNEL(k_matrix_wrong, dfc_matrices) {
  DFC_SHARED double part[BLOCK];
  double mine = 0;
  for (int64_t i = threadIdx.x; i < p.count; i += BLOCK) mine += p.wrong[i];
  mine = sum_of(mine, part);
  if (threadIdx.x == 0) p.wrong[p.count] = mine != 0;
}

/* The lower factor: column by column, each taken from what is behind it. */
DFC_KERNEL(k_matrix_cholesky, dfc_matrices) {
  const int n = p.n, t = (int)threadIdx.x;
  double *w = p.room + blockIdx.x * p.per;
  for (int64_t at = blockIdx.x; at < p.count; at += gridDim.x) {
    const int64_t first = at * n * n;
    bool ok = true;
    for (int64_t i = t; i < (int64_t)n * n; i += BLOCK) w[i] = real_at(p.a, p.wide, first + i);
    __syncthreads();
    for (int j = 0; j < n && ok; j++) {
      const double d = w[(int64_t)j * n + j], root = sqrt(d);
      ok = !(d <= 0);                                    /* NaN stays NaN, as OpenBLAS has it */
      __syncthreads();
      if (!ok) break;
      for (int i = j + t; i < n; i += BLOCK) w[(int64_t)i * n + j] = i == j ? root : w[(int64_t)i * n + j] / root;
      __syncthreads();
      const int64_t left = n - 1 - j;
      for (int64_t e = t; e < left * left; e += BLOCK) {
        const int64_t i = j + 1 + e / left, k = j + 1 + e % left;
        if (k <= i) w[i * n + k] -= w[i * n + j] * w[k * n + j];
      }
      __syncthreads();
    }
    if (t == 0) p.wrong[at] = !ok;
    for (int64_t i = t; i < (int64_t)n * n; i += BLOCK) put_real(p.x, p.wide, first + i, i % n <= i / n ? w[i] : 0);
    __syncthreads();
  }
}

/* Gauss: [a | b] (a transposed where `adjoint`; b NULL: the identity, or nothing of a determinant), with the greatest
 * of a column as pivot; then backwards. */
DFC_KERNEL(k_matrix_eliminate, dfc_matrices) {
  DFC_SHARED double part[BLOCK];
  DFC_SHARED int rows[BLOCK];
  const int n = p.n, t = (int)threadIdx.x;
  const int64_t width = n + p.nrhs;
  const bool solves = p.what == DFC_MATRIX_SOLVE;
  double *w = p.room + blockIdx.x * p.per;
  for (int64_t at = blockIdx.x; at < p.count; at += gridDim.x) {
    bool ok = true;
    double sign = 1, size = p.what == DFC_MATRIX_DETERMINANT;
    for (int64_t e = t; e < n * width; e += BLOCK) {
      const int64_t i = e / width, j = e % width;
      if (j < n) w[e] = real_at(p.a, p.wide, at * n * n + (p.adjoint ? j * n + i : i * n + j));
      else w[e] = p.b ? real_at(p.b, p.wide, at * n * p.nrhs + i * p.nrhs + j - n) : (double)(i == j - n);
    }
    __syncthreads();
    for (int j = 0; j < n; j++) {
      const int r = pivot_of(w, width, n, j, part, rows);
      const double d = w[r * width + j];
      sign = d == 0 ? 0 : (r != j) != (d < 0) ? -sign : sign;
      if (p.what == DFC_MATRIX_DETERMINANT) size *= fabs(d); else size += log(fabs(d));
      ok = d != 0;
      __syncthreads();
      if (!ok) break;
      for (int64_t c = j + t; c < width && r != j; c += BLOCK) {
        const double other = w[r * width + c];
        w[r * width + c] = w[j * width + c];
        w[j * width + c] = other;
      }
      __syncthreads();
      for (int64_t i = j + 1 + t; i < n; i += BLOCK) w[i * width + j] /= d;
      __syncthreads();
      const int64_t left = width - 1 - j;
      for (int64_t e = t; e < (n - 1 - j) * left; e += BLOCK) {
        const int64_t i = j + 1 + e / left, c = j + 1 + e % left;
        w[i * width + c] -= w[i * width + j] * w[j * width + c];
      }
      __syncthreads();
    }
    if (t == 0) {
      p.wrong[at] = solves && !ok && p.nrhs > 0;
      if (p.what == DFC_MATRIX_DETERMINANT) put_real(p.x, p.wide, at, sign * size);
      if (p.what == DFC_MATRIX_LOG_DETERMINANT) { put_real(p.x, p.wide, at, sign); put_real(p.z, p.wide, at, size); }
    }
    for (int j = n - 1; j >= 0 && solves && ok; j--) {
      for (int64_t c = t; c < p.nrhs; c += BLOCK) w[j * width + n + c] /= w[j * width + j];
      __syncthreads();
      for (int64_t e = t; e < (int64_t)j * p.nrhs; e += BLOCK) {
        const int64_t i = e / p.nrhs, c = n + e % p.nrhs;
        w[i * width + c] -= w[i * width + j] * w[j * width + c];
      }
      __syncthreads();
    }
    for (int64_t e = t; e < (int64_t)n * p.nrhs && solves && ok; e += BLOCK)
      put_real(p.x, p.wide, at * n * p.nrhs + e, w[e / p.nrhs * width + n + e % p.nrhs]);
    __syncthreads();
  }
}

/* By substitution, from above or from below; place: which matrices of a and of b. */
DFC_KERNEL(k_matrix_substitute, dfc_matrices) {
  const int n = p.n, t = (int)threadIdx.x;
  const bool down = p.lower != p.adjoint;
  double *w = p.room + blockIdx.x * p.per;
  for (int64_t at = blockIdx.x; at < p.count; at += gridDim.x) {
    const int64_t a = p.place[at] * n * n, b = p.place[p.count + at] * n * p.nrhs;
    bool ok = true;
    for (int64_t e = t; e < (int64_t)n * p.nrhs; e += BLOCK) w[e] = real_at(p.b, p.wide, b + e);
    __syncthreads();
    for (int s = 0; s < n && ok; s++) {
      const int64_t i = down ? s : n - 1 - s, left = n - 1 - s;
      const double d = real_at(p.a, p.wide, a + i * n + i);
      ok = d != 0;
      if (!ok) break;
      for (int64_t c = t; c < p.nrhs; c += BLOCK) w[i * p.nrhs + c] /= d;
      __syncthreads();
      for (int64_t e = t; e < left * p.nrhs; e += BLOCK) {
        const int64_t r = (down ? i + 1 : 0) + e / p.nrhs, c = e % p.nrhs;
        w[r * p.nrhs + c] -= real_at(p.a, p.wide, a + (p.adjoint ? i * n + r : r * n + i)) * w[i * p.nrhs + c];
      }
      __syncthreads();
    }
    if (t == 0) p.wrong[at] = !ok && p.nrhs > 0;
    for (int64_t e = t; e < (int64_t)n * p.nrhs; e += BLOCK) put_real(p.x, p.wide, at * n * p.nrhs + e, w[e]);
    __syncthreads();
  }
}

/* Diagonals: above, main, below; a row's neighbour is the pivot where that is larger. One thread eliminates, noting
 * what it takes off each row and which it swapped; then a thread for each column of b. */
DFC_KERNEL(k_matrix_tridiagonal, dfc_matrices) {
  DFC_SHARED int regular;
  const int t = (int)threadIdx.x;
  const int64_t n = p.n;
  double *u = p.room + blockIdx.x * p.per, *d = u + n, *l = d + n, *v = l + n, *swapped = v + n, *y = swapped + n;
  for (int64_t at = blockIdx.x; at < p.count; at += gridDim.x) {
    for (int64_t i = t; i < 3 * n; i += BLOCK) u[i] = real_at(p.a, p.wide, at * 3 * n + i);
    for (int64_t i = t; i < n; i += BLOCK) v[i] = swapped[i] = 0;
    for (int64_t e = t; e < n * p.nrhs; e += BLOCK) y[e] = real_at(p.b, p.wide, at * n * p.nrhs + e);
    __syncthreads();
    if (t == 0) {
      bool ok = true;
      for (int64_t i = 0; i + 1 < n && ok; i++) {
        if (p.lower && fabs(l[i + 1]) > fabs(d[i])) {
          const double a = d[i], b = u[i];
          d[i] = l[i + 1]; l[i + 1] = a;
          u[i] = d[i + 1]; d[i + 1] = b;
          if (i + 2 < n) { v[i] = u[i + 1]; u[i + 1] = 0; }
          swapped[i] = 1;
        }
        ok = d[i] != 0;
        l[i + 1] /= d[i];
        d[i + 1] -= l[i + 1] * u[i];
        if (i + 2 < n) u[i + 1] -= l[i + 1] * v[i];
      }
      for (int64_t i = 0; i < n; i++) ok = ok && d[i] != 0;
      regular = ok;
      p.wrong[at] = !ok;
    }
    __syncthreads();
    const bool ok = regular != 0;
    for (int64_t c = t; c < p.nrhs && ok; c += BLOCK) {
      for (int64_t i = 0; i + 1 < n; i++) {
        const double a = y[i * p.nrhs + c], b = y[(i + 1) * p.nrhs + c];
        y[i * p.nrhs + c] = swapped[i] != 0 ? b : a;
        y[(i + 1) * p.nrhs + c] = (swapped[i] != 0 ? a : b) - l[i + 1] * (swapped[i] != 0 ? b : a);
      }
      for (int64_t i = n - 1; i >= 0; i--) {
        double sum = y[i * p.nrhs + c];
        if (i + 1 < n) sum -= u[i] * y[(i + 1) * p.nrhs + c];
        if (i + 2 < n) sum -= v[i] * y[(i + 2) * p.nrhs + c];
        y[i * p.nrhs + c] = sum / d[i];
        put_real(p.x, p.wide, (at * n + i) * p.nrhs + c, y[i * p.nrhs + c]);
      }
    }
    __syncthreads();
  }
}

/* ---- Householder's q and r: the reflections and signs are LAPACK's ----------------------------------------------- */

/* Column c of w becomes that column reflected by v, which is 1 at j and lies in column j of x below. */
DFK_ELEMENT void reflect(const double *x, int64_t width, int j, int m, double tau, double *w, int64_t stride,
                         int64_t c) {
  double sum = w[j * stride + c];
  for (int64_t i = j + 1; i < m; i++) sum += x[i * width + j] * w[i * stride + c];
  w[j * stride + c] -= tau * sum;
  for (int64_t i = j + 1; i < m; i++) w[i * stride + c] -= tau * sum * x[i * width + j];
}
/* x[m, n] in place: r above, the vectors below. */
DFK_ELEMENT void triangle(double *x, int m, int n, double *tau, double *part) {
  const int t = (int)threadIdx.x, most = m < n ? m : n;
  for (int j = 0; j < most; j++) {
    double mine = 0, largest = 0;
    for (int64_t i = j + 1 + t; i < m; i += BLOCK)
      largest = fabs(x[i * n + j]) > largest ? fabs(x[i * n + j]) : largest;
    const double by = near_one(greatest_of(largest, part));
    for (int64_t i = j + 1 + t; i < m; i += BLOCK) mine += x[i * n + j] * by * (x[i * n + j] * by);
    const double below = sqrt(sum_of(mine, part)) / by, alpha = x[(int64_t)j * n + j];
    const double beta = below == 0 ? alpha : -copysign(hypot(alpha, below), alpha);
    const double turn = below == 0 ? 0 : (beta - alpha) / beta;
    __syncthreads();
    for (int64_t i = j + 1 + t; i < m && below != 0; i += BLOCK) x[i * n + j] /= alpha - beta;
    if (t == 0) { tau[j] = turn; x[(int64_t)j * n + j] = beta; }
    __syncthreads();
    for (int64_t c = j + 1 + t; c < n && turn != 0; c += BLOCK) reflect(x, n, j, m, turn, x, n, c);
    __syncthreads();
  }
}
/* q[m, columns] of what triangle made. */
DFK_ELEMENT void unfold(const double *x, int m, int n, const double *tau, double *q, int columns) {
  const int t = (int)threadIdx.x, most = m < n ? m : n;
  for (int64_t e = t; e < (int64_t)m * columns; e += BLOCK) q[e] = e / columns == e % columns;
  __syncthreads();
  for (int j = most - 1; j >= 0; j--)
    for (int64_t c = t; c < columns; c += BLOCK) if (c >= j) reflect(x, n, j, m, tau[j], q, columns, c);
  __syncthreads();
}
DFC_KERNEL(k_matrix_qr, dfc_matrices) {
  DFC_SHARED double part[BLOCK];
  const int m = p.m, n = p.n, columns = p.nrhs, least = m < n ? m : n, t = (int)threadIdx.x;
  double *x = p.room + blockIdx.x * p.per, *q = x + (int64_t)m * n, *tau = q + (int64_t)m * columns;
  for (int64_t at = blockIdx.x; at < p.count; at += gridDim.x) {
    for (int64_t e = t; e < (int64_t)m * n; e += BLOCK) x[e] = real_at(p.a, p.wide, at * m * n + e);
    __syncthreads();
    triangle(x, m, n, tau, part);
    unfold(x, m, n, tau, q, columns);
    for (int64_t e = t; e < (int64_t)m * columns; e += BLOCK) put_real(p.x, p.wide, at * m * columns + e, q[e]);
    for (int64_t e = t; e < (int64_t)columns * n; e += BLOCK)
      put_real(p.z, p.wide, at * columns * n + e, e / n <= e % n && e / n < least ? x[e] : 0);
    __syncthreads();
  }
}
