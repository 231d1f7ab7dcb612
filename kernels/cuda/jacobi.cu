/* jacobi.cu: eigenvectors of symmetric matrices and singular vectors, by Jacobi's rotations, in double: one block takes
 * a matrix after the other. In each round the rows or columns go in pairs of which no two have one in common, so that
 * all pairs turn at once; a sweep has met each pair once. Its order follows from the size alone. */
#include "matrix.cuh"

enum { WARPS = BLOCK / 32, SWEEPS = 40 };

/* Pair `which` of round `round` of n, which is even: the last stays, the others go round. */
DFK_ELEMENT void pair_of(int n, int round, int which, int *a, int *b) {
  const int one = which == 0 ? n - 1 : (round + which) % (n - 1), other = (round + n - 1 - which) % (n - 1);
  *a = one < other ? one : other;
  *b = one < other ? other : one;
}

/* a[n, n] becomes diagonal, v the product of the rotations. turn: two for each pair. */
DFK_ELEMENT void diagonalise(double *a, double *v, double *turn, int n, double *part) {
  const int t = (int)threadIdx.x, even = n + n % 2, pairs = even / 2;
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    double off = 0, all = 0;
    for (int64_t e = t; e < (int64_t)n * n; e += BLOCK) {
      all += a[e] * a[e];
      if (e / n != e % n) off += a[e] * a[e];
    }
    off = sum_of(off, part);
    all = sum_of(all, part);
    if (!(off > 1e-31 * n * all)) break;                   /* what rounding leaves */
    for (int round = 0; round < even - 1; round++) {
      for (int w = t; w < pairs; w += BLOCK) {
        int p, q;
        pair_of(even, round, w, &p, &q);
        double c = 1, s = 0;
        if (q < n && a[(int64_t)p * n + q] != 0) {
          const double theta = (a[(int64_t)q * n + q] - a[(int64_t)p * n + p]) / (2 * a[(int64_t)p * n + q]);
          const double tangent = (theta < 0 ? -1.0 : 1.0) / (fabs(theta) + hypot(theta, 1.0));
          c = 1 / sqrt(tangent * tangent + 1);
          s = tangent * c;
        }
        turn[2 * w] = c;
        turn[2 * w + 1] = s;
      }
      __syncthreads();
      for (int64_t e = t; e < (int64_t)pairs * n; e += BLOCK) {           /* rows */
        const int w = (int)(e / n), j = (int)(e % n);
        int p, q;
        pair_of(even, round, w, &p, &q);
        if (q >= n) continue;
        const double c = turn[2 * w], s = turn[2 * w + 1], x = a[(int64_t)p * n + j], y = a[(int64_t)q * n + j];
        a[(int64_t)p * n + j] = c * x - s * y;
        a[(int64_t)q * n + j] = s * x + c * y;
      }
      __syncthreads();
      for (int64_t e = t; e < (int64_t)pairs * n; e += BLOCK) {           /* columns */
        const int w = (int)(e % pairs), i = (int)(e / pairs);
        int p, q;
        pair_of(even, round, w, &p, &q);
        if (q >= n) continue;
        const double c = turn[2 * w], s = turn[2 * w + 1];
        double *row = a + (int64_t)i * n, x = row[p], y = row[q];
        row[p] = c * x - s * y;
        row[q] = s * x + c * y;
        row = v + (int64_t)i * n;
        x = row[p];
        y = row[q];
        row[p] = c * x - s * y;
        row[q] = s * x + c * y;
      }
      __syncthreads();
    }
  }
}

/* Values ascending, vectors in columns. x: values, z: vectors (NULL: nobody asks). The lower triangle counts. */
DFC_KERNEL(k_matrix_eigen, dfc_matrices) {
  DFC_SHARED double part[BLOCK];
  const int n = p.n, t = (int)threadIdx.x;
  double *a = p.room + blockIdx.x * p.per, *v = a + (int64_t)n * n, *turn = v + (int64_t)n * n;
  for (int64_t at = blockIdx.x; at < p.count; at += gridDim.x) {
    double bad = 0, most = 0;
    for (int64_t e = t; e < (int64_t)n * n; e += BLOCK) {
      const double size = fabs(real_at(p.a, p.wide, at * n * n + e));
      bad += size - size != 0;
      most = size > most ? size : most;
    }
    bad = sum_of(bad, part);
    const double by = near_one(greatest_of(most, part));
    for (int64_t e = t; e < (int64_t)n * n; e += BLOCK) {
      const int64_t i = e / n, j = e % n;
      a[e] = real_at(p.a, p.wide, at * n * n + (i >= j ? e : j * n + i)) * by;
      v[e] = i == j;
    }
    __syncthreads();
    if (bad == 0) diagonalise(a, v, turn, n, part);
    if (t == 0) p.wrong[at] = bad != 0;
    for (int64_t j = t; j < n && bad == 0; j += BLOCK) {
      const double mine = a[j * n + j];
      int64_t place = 0;
      for (int64_t i = 0; i < n; i++) place += a[i * n + i] < mine || (a[i * n + i] == mine && i < j);
      put_real(p.x, p.wide, at * n + place, mine / by);
      for (int64_t i = 0; i < n && p.z; i++) put_real(p.z, p.wide, (at * n + i) * n + place, v[i * n + j]);
    }
    __syncthreads();
  }
}

/* ---- singular values: columns of w turn until each is orthogonal to each ----------------------------------------- */

DFK_ELEMENT double warp_sum(double v) {
  for (int by = 16; by; by >>= 1) v += __shfl_xor_sync(0xffffffffu, v, by);
  return v;
}
/* w: n columns of m, one after the other; v: n of n. A warp takes a pair. */
DFK_ELEMENT void orthogonalise(double *w, double *v, int m, int n, double *part) {
  const int t = (int)threadIdx.x, lane = t % 32, warp = t / 32, even = n + n % 2;
  const double least = 1e-15 * sqrt((double)m);            /* what rounding leaves of a product of m */
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    double turned = 0;
    for (int round = 0; round < even - 1; round++) {
      for (int which = warp; which < even / 2; which += WARPS) {
        int p, q;
        pair_of(even, round, which, &p, &q);
        if (q >= n) continue;
        double *x = w + (int64_t)p * m, *y = w + (int64_t)q * m, a = 0, b = 0, both = 0;
        for (int i = lane; i < m; i += 32) { a += x[i] * x[i]; b += y[i] * y[i]; both += x[i] * y[i]; }
        a = warp_sum(a);
        b = warp_sum(b);
        both = warp_sum(both);
        if (both == 0 || fabs(both) <= least * sqrt(a) * sqrt(b)) continue;
        turned = 1;
        const double theta = (b - a) / (2 * both);
        const double tangent = (theta < 0 ? -1.0 : 1.0) / (fabs(theta) + hypot(theta, 1.0));
        const double c = 1 / sqrt(tangent * tangent + 1), s = tangent * c;
        for (int i = lane; i < m + n; i += 32) {
          double *to = i < m ? x + i : v + (int64_t)p * n + i - m, *from = i < m ? y + i : v + (int64_t)q * n + i - m;
          const double one = *to, other = *from;
          *to = c * one - s * other;
          *from = s * one + c * other;
        }
      }
      __syncthreads();
    }
    if (sum_of(turned, part) == 0) break;
  }
}

/* Columns from `first` on of u (m long, `columns` of them) become units that are orthogonal to each other and to those
 * before: what is left of the axes, twice taken off, of the first axis of which half a unit or more is left. */
DFK_ELEMENT void complete(double *u, int m, int first, int columns, double *part) {
  const int t = (int)threadIdx.x;
  int axis = 0;
  for (int c = first; c < columns; c++) {
    double *mine = u + (int64_t)c * m, size = 0;
    for (; axis < m; axis++) {
      for (int i = t; i < m; i += BLOCK) mine[i] = i == axis;
      __syncthreads();
      for (int twice = 0; twice < 2; twice++)
        for (int k = 0; k < c; k++) {
          const double *other = u + (int64_t)k * m;
          double dot = 0;
          for (int i = t; i < m; i += BLOCK) dot += mine[i] * other[i];
          dot = sum_of(dot, part);
          for (int i = t; i < m; i += BLOCK) mine[i] -= dot * other[i];
        }
      double square = 0;
      for (int i = t; i < m; i += BLOCK) square += mine[i] * mine[i];
      size = sqrt(sum_of(square, part));
      if (size * size * m >= 0.5) { axis++; break; }     /* so much has some axis, of m - c that are left */
    }
    for (int i = t; i < m; i += BLOCK) mine[i] /= size;
    __syncthreads();
  }
}

/* a[m, n], of which the longer side makes the columns: values descending to x, left vectors (nrhs of them) to z and
 * right ones (full of them) to v, where they are asked for. */
DFC_KERNEL(k_matrix_singular, dfc_matrices) {
  DFC_SHARED double part[BLOCK];
  const bool wide = p.m < p.n;
  const int m = wide ? p.n : p.m, n = wide ? p.m : p.n, t = (int)threadIdx.x;
  const int longer = wide ? p.full : p.nrhs, shorter = wide ? p.nrhs : p.full;
  const int columns = longer > n ? longer : n;
  double *w = p.room + blockIdx.x * p.per, *v = w + (int64_t)m * n, *u = v + (int64_t)n * n,
         *size = u + (int64_t)m * columns;
  for (int64_t at = blockIdx.x; at < p.count; at += gridDim.x) {
    double bad = 0, largest = 0;
    for (int64_t e = t; e < (int64_t)m * n; e += BLOCK) {
      const int64_t j = e / m, i = e % m;
      w[e] = real_at(p.a, p.wide, at * m * n + (wide ? j * m + i : i * n + j));
      bad += w[e] - w[e] != 0;
      largest = fabs(w[e]) > largest ? fabs(w[e]) : largest;
    }
    for (int64_t e = t; e < (int64_t)n * n; e += BLOCK) v[e] = e / n == e % n;
    bad = sum_of(bad, part);
    const double by = near_one(greatest_of(largest, part));
    for (int64_t e = t; e < (int64_t)m * n; e += BLOCK) w[e] *= by;
    __syncthreads();
    if (bad == 0) orthogonalise(w, v, m, n, part);
    if (t == 0) p.wrong[at] = bad != 0;
    for (int j = t; j < n; j += BLOCK) {
      double square = 0;
      for (int i = 0; i < m; i++) square += w[(int64_t)j * m + i] * w[(int64_t)j * m + i];
      size[j] = sqrt(square);
    }
    __syncthreads();
    double most = 0, there = 0;
    for (int j = 0; j < n; j++) most = size[j] > most ? size[j] : most;
    for (int j = 0; j < n; j++) there += size[j] > 2.3e-16 * m * most;
    for (int j = t; j < n && bad == 0; j += BLOCK) {
      int place = 0;
      for (int i = 0; i < n; i++) place += size[i] > size[j] || (size[i] == size[j] && i < j);
      size[n + j] = place;
      put_real(p.x, p.wide, at * n + place, size[j] / by);
    }
    __syncthreads();
    if (bad != 0 || !p.z) continue;
    for (int64_t e = t; e < (int64_t)m * n; e += BLOCK) {
      const int j = (int)(e / m), place = (int)size[n + j];
      u[(int64_t)place * m + e % m] = size[j] > 0 ? w[e] / size[j] : 0;
    }
    __syncthreads();
    complete(u, m, (int)there, columns, part);
    void *left = wide ? p.v : p.z, *right = wide ? p.z : p.v;
    for (int64_t e = t; e < (int64_t)m * longer; e += BLOCK)
      put_real(left, p.wide, at * m * longer + e, u[e % longer * m + e / longer]);
    for (int64_t e = t; e < (int64_t)n * n; e += BLOCK) {
      const int j = (int)(e / n), place = (int)size[n + j];
      if (place < shorter) put_real(right, p.wide, at * n * shorter + e % n * shorter + place, v[e]);
    }
    __syncthreads();
  }
}
