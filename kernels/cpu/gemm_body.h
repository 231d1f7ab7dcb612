/* gemm_body.h: products of one float type. Included by gemm.c with T, V (its vector), L (its lanes) and S(f), f's name
 * for it.
 *
 * The inner kernels hold up to MR rows by 2 vectors of c in registers and walk k, broadcasting an element of a against
 * two vectors of b. Small products use them on the matrices as they lie; large ones on panels packed beforehand.
 */

/* c[R rows, 2 vectors (nv 1: one)] = or += a b. Element (i, p) of a is a[i ars + p acs]; row p of b is b + p brs. The
 * last vector has `last` lanes when `part`. */
#define KERNEL(R, ROWS)                                                                                            \
  static inline __attribute__((always_inline)) void S(kernel_##R)(                                                 \
      const int nv, const bool part, int64_t last, int64_t k, const T *a, int64_t ars, int64_t acs, const T *b,    \
      int64_t brs, T *c, int64_t ldc, const bool add) {                                                            \
    ROWS(DECLARE)                                                                                                  \
    for (int64_t p = 0; p < k; p++, a += acs, b += brs) {                                                          \
      V b0 = nv == 1 && part ? S(load_part)(b, last, 0) : S(load)(b), b1 = b0;                                     \
      if (nv == 2) b1 = part ? S(load_part)(b + L, last, 0) : S(load)(b + L);                                      \
      ROWS(STEP)                                                                                                   \
    }                                                                                                              \
    ROWS(STORE)                                                                                                    \
  }                                                                                                                \
  static void S(block_##R)(int64_t n, int64_t k, const T *a, int64_t ars, int64_t acs, const T *b, int64_t brs,    \
                           T *c, int64_t ldc, const bool add) {                                                    \
    int64_t j = 0;                                                                                                 \
    for (; j + 2 * L <= n; j += 2 * L) S(kernel_##R)(2, false, L, k, a, ars, acs, b + j, brs, c + j, ldc, add);    \
    if (n - j > L) S(kernel_##R)(2, true, n - j - L, k, a, ars, acs, b + j, brs, c + j, ldc, add);                 \
    else if (n - j == L) S(kernel_##R)(1, false, L, k, a, ars, acs, b + j, brs, c + j, ldc, add);                  \
    else if (n > j) S(kernel_##R)(1, true, n - j, k, a, ars, acs, b + j, brs, c + j, ldc, add);                    \
  }
#define DECLARE(i) V x##i = { 0 }, y##i = { 0 };
#define STEP(i)                                                                                                    \
  {                                                                                                                \
    V s = S(splat)(a[i * ars]);                                                                                    \
    x##i += s * b0;                                                                                                \
    if (nv == 2) y##i += s * b1;                                                                                   \
  }
#define STORE(i)                                                                                                   \
  if (nv == 1 && part)                                                                                             \
    S(store_some)(c + i * ldc, add ? S(load_part)(c + i * ldc, last, 0) + x##i : x##i, last);                      \
  else S(store)(c + i * ldc, add ? S(load)(c + i * ldc) + x##i : x##i);                                            \
  if (nv == 2 && part)                                                                                             \
    S(store_some)(c + i * ldc + L, add ? S(load_part)(c + i * ldc + L, last, 0) + y##i : y##i, last);              \
  else if (nv == 2) S(store)(c + i * ldc + L, add ? S(load)(c + i * ldc + L) + y##i : y##i);

#define ROWS1(X) X(0)
#define ROWS2(X) ROWS1(X) X(1)
#define ROWS3(X) ROWS2(X) X(2)
#define ROWS4(X) ROWS3(X) X(3)
KERNEL(1, ROWS1)
KERNEL(2, ROWS2)
KERNEL(3, ROWS3)
KERNEL(4, ROWS4)
#if MOST_ROWS >= 6
#define ROWS5(X) ROWS4(X) X(4)
#define ROWS6(X) ROWS5(X) X(5)
KERNEL(5, ROWS5)
KERNEL(6, ROWS6)
#endif
#if MOST_ROWS >= 8
#define ROWS7(X) ROWS6(X) X(6)
#define ROWS8(X) ROWS7(X) X(7)
KERNEL(7, ROWS7)
KERNEL(8, ROWS8)
#endif

/* b row-major; a as strides say. Added to c when `add`. */
static void S(small)(int64_t m, int64_t n, int64_t k, const T *a, int64_t ars, int64_t acs, const T *b, int64_t ldb,
                     T *c, int64_t ldc, const bool add) {
  int64_t i = 0;
#if MOST_ROWS >= 8
  for (; i + 8 <= m; i += 8) S(block_8)(n, k, a + i * ars, ars, acs, b, ldb, c + i * ldc, ldc, add);
#elif MOST_ROWS >= 6
  for (; i + 6 <= m; i += 6) S(block_6)(n, k, a + i * ars, ars, acs, b, ldb, c + i * ldc, ldc, add);
#else
  for (; i + 4 <= m; i += 4) S(block_4)(n, k, a + i * ars, ars, acs, b, ldb, c + i * ldc, ldc, add);
#endif
  a += i * ars;
  c += i * ldc;
  switch (m - i) {
#if MOST_ROWS >= 8
    case 7: S(block_7)(n, k, a, ars, acs, b, ldb, c, ldc, add); break;
    case 6: S(block_6)(n, k, a, ars, acs, b, ldb, c, ldc, add); break;
#endif
#if MOST_ROWS >= 6
    case 5: S(block_5)(n, k, a, ars, acs, b, ldb, c, ldc, add); break;
    case 4: S(block_4)(n, k, a, ars, acs, b, ldb, c, ldc, add); break;
#endif
    case 3: S(block_3)(n, k, a, ars, acs, b, ldb, c, ldc, add); break;
    case 2: S(block_2)(n, k, a, ars, acs, b, ldb, c, ldc, add); break;
    case 1: S(block_1)(n, k, a, ars, acs, b, ldb, c, ldc, add); break;
  }
}

/* Lane i of the result is lane index[i] of a and b, one behind the other. */
static inline __attribute__((always_inline)) V S(shuffle)(V a, V b, I index) {
#ifdef __clang__                            /* which has this for constants only, and makes one of the loop */
  V to;
#pragma GCC unroll 16
  for (int i = 0; i < L; i++) to[i] = index[i] < L ? a[index[i]] : b[index[i] - L];
  return to;
#else
  return __builtin_shuffle(a, b, index);
#endif
}

/* to[p][j] = from[j][p], an L x L square at a time in registers. */
static inline __attribute__((always_inline)) void S(square)(const T *from, int64_t ld, T *to, int64_t ldt) {
  V r[L];
  I lane;
#pragma GCC unroll 16
  for (int i = 0; i < L; i++) lane[i] = i;
#pragma GCC unroll 16
  for (int i = 0; i < L; i++) r[i] = S(load)(from + i * ld);
#pragma GCC unroll 4
  for (int s = L / 2; s; s /= 2) {
    I up = (lane & s) != 0, low = lane + (up & (L - s)), high = lane + (up & L) + (~up & s);
#pragma GCC unroll 16
    for (int i = 0; i < L; i++) {
      if (i & s) continue;
      V a = r[i], b = r[i + s];
      r[i] = S(shuffle)(a, b, low);
      r[i + s] = S(shuffle)(a, b, high);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < L; i++) S(store)(to + i * ldt, r[i]);
}

/* The same of rows x columns, each at most L. */
static void S(corner)(int64_t rows, int64_t columns, const T *from, int64_t ld, T *to, int64_t ldt) {
  T in[L * L], out[L * L];
  for (int64_t i = 0; i < L; i++)
    S(store)
    (in + i * L, i >= rows      ? (V){ 0 }
                 : columns == L ? S(load)(from + i * ld)
                                : S(load_part)(from + i * ld, columns, 0));
  S(square)(in, L, out, L);
  for (int64_t p = 0; p < columns; p++) {
    if (rows == L) S(store)(to + p * ldt, S(load)(out + p * L));
    else S(store_some)(to + p * ldt, S(load)(out + p * L), rows);
  }
}

/* to[p MR + j] = from[j][p]: MR rows of L = 2 MR elements, so that a vector of the result has two columns. After the
 * exchanges its lanes are (row, column); then they are (column, row). */
static inline __attribute__((always_inline)) void S(half_square)(const T *from, int64_t ld, T *to) {
  V r[MR];
  I lane;
#pragma GCC unroll 16
  for (int i = 0; i < L; i++) lane[i] = i;
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++) r[i] = S(load)(from + i * ld);
#pragma GCC unroll 4
  for (int s = MR / 2; s; s /= 2) {
    I up = (lane & 2 * s) != 0, low = lane + (up & (L - 2 * s)), high = lane + (up & L) + (~up & 2 * s);
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
      if (i & s) continue;
      V a = r[i], b = r[i + s];
      r[i] = S(shuffle)(a, b, low);
      r[i + s] = S(shuffle)(a, b, high);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++) S(store)(to + i * L, S(shuffle)(r[i], r[i], lane % MR * 2 + lane / MR));
}

static void S(transpose)(int64_t rows, int64_t columns, const T *from, int64_t ld, T *to, int64_t ldt) {
  for (int64_t j = 0; j < rows; j += L)
    for (int64_t p = 0; p < columns; p += L) {
      int64_t h = rows - j < L ? rows - j : L, w = columns - p < L ? columns - p : L;
      if (h == L && w == L) S(square)(from + j * ld + p, ld, to + p * ldt + j, ldt);
      else S(corner)(h, w, from + j * ld + p, ld, to + p * ldt + j, ldt);
    }
}

/* ---- a vector times a matrix ---------------------------------------------------------------------------- */

/* y[n] = x[k] b[k, n], rows of b added 8 at a time. */
static void S(vector_matrix)(int64_t n, int64_t k, const T *x, int64_t xs, const T *b, int64_t ldb, T *restrict y) {
  int64_t p = 0;
  if (k < 8) memset(y, 0, (size_t)n * sizeof(T));
  for (; p + 8 <= k; p += 8) {
    const T *b0 = b + p * ldb, *b4 = b0 + 4 * ldb, *xp = x + p * xs;
    T x0 = xp[0], x1 = xp[xs], x2 = xp[2 * xs], x3 = xp[3 * xs], x4 = xp[4 * xs], x5 = xp[5 * xs], x6 = xp[6 * xs],
      x7 = xp[7 * xs];
    int64_t j = 0;
    for (; j + L <= n; j += L) {
      V u = S(splat)(x0) * S(load)(b0 + j), v = S(splat)(x4) * S(load)(b4 + j);
      u += S(splat)(x1) * S(load)(b0 + ldb + j);
      v += S(splat)(x5) * S(load)(b4 + ldb + j);
      u += S(splat)(x2) * S(load)(b0 + 2 * ldb + j);
      v += S(splat)(x6) * S(load)(b4 + 2 * ldb + j);
      u += S(splat)(x3) * S(load)(b0 + 3 * ldb + j);
      v += S(splat)(x7) * S(load)(b4 + 3 * ldb + j);
      S(store)(y + j, p ? S(load)(y + j) + (u + v) : u + v);
    }
    if (j == n) continue;
    int64_t rest = n - j;
    V u = S(splat)(x0) * S(load_part)(b0 + j, rest, 0), v = S(splat)(x4) * S(load_part)(b4 + j, rest, 0);
    u += S(splat)(x1) * S(load_part)(b0 + ldb + j, rest, 0);
    v += S(splat)(x5) * S(load_part)(b4 + ldb + j, rest, 0);
    u += S(splat)(x2) * S(load_part)(b0 + 2 * ldb + j, rest, 0);
    v += S(splat)(x6) * S(load_part)(b4 + 2 * ldb + j, rest, 0);
    u += S(splat)(x3) * S(load_part)(b0 + 3 * ldb + j, rest, 0);
    v += S(splat)(x7) * S(load_part)(b4 + 3 * ldb + j, rest, 0);
    S(store_some)(y + j, p ? S(load_part)(y + j, rest, 0) + (u + v) : u + v, rest);
  }
  for (; p < k; p++) {
    T xp = x[p * xs];
    for (int64_t j = 0; j < n; j++) y[j] += xp * b[p * ldb + j];
  }
}

/* y[m] = a[m, k] x[k], four rows at a time. */
static void S(matrix_vector)(int64_t m, int64_t k, const T *a, int64_t lda, const T *x, T *y) {
  int64_t i = 0, rest = k % L, whole = k - rest;
  for (; i + 4 <= m; i += 4) {
    const T *a0 = a + i * lda, *a1 = a0 + lda, *a2 = a1 + lda, *a3 = a2 + lda;
    V s0 = { 0 }, s1 = s0, s2 = s0, s3 = s0;
    for (int64_t p = 0; p < whole; p += L) {
      V v = S(load)(x + p);
      s0 += v * S(load)(a0 + p);
      s1 += v * S(load)(a1 + p);
      s2 += v * S(load)(a2 + p);
      s3 += v * S(load)(a3 + p);
    }
    if (rest) {
      V v = S(load_part)(x + whole, rest, 0);
      s0 += v * S(load_part)(a0 + whole, rest, 0);
      s1 += v * S(load_part)(a1 + whole, rest, 0);
      s2 += v * S(load_part)(a2 + whole, rest, 0);
      s3 += v * S(load_part)(a3 + whole, rest, 0);
    }
    y[i] = S(sum_lanes)(s0);
    y[i + 1] = S(sum_lanes)(s1);
    y[i + 2] = S(sum_lanes)(s2);
    y[i + 3] = S(sum_lanes)(s3);
  }
  for (; i < m; i++) {
    V s = { 0 };
    for (int64_t p = 0; p < whole; p += L) s += S(load)(x + p) * S(load)(a + i * lda + p);
    if (rest) s += S(load_part)(x + whole, rest, 0) * S(load_part)(a + i * lda + whole, rest, 0);
    y[i] = S(sum_lanes)(s);
  }
}

/* Pieces of 64 results of s->m vectors against one matrix, so that every split gives the same sums. One vector takes
 * many side by side: rows of a few lines that are far apart come at half the speed. */
static void S(vector_pieces)(void *arg, int64_t begin, int64_t end) {
  const job *s = (const job *)arg;
  const T *x = (const T *)s->a, *b = (const T *)s->b;
  const int64_t most = s->m == 1 && !s->b_t ? 32 : 1;
  for (int64_t piece = begin, some; piece < end; piece += some) {
    some = end - piece < most ? end - piece : most;
    int64_t j = piece * 64, n = j + some * 64 < s->n ? some * 64 : s->n - j;
    for (int64_t i = 0; i < s->m; i++) {
      T *y = (T *)s->c + i * s->ldc + j;
      if (s->b_t) S(matrix_vector)(n, s->k, b + j * s->ldb, s->ldb, x + i * s->vector, y);
      else S(vector_matrix)(n, s->k, x + i * s->vector, s->lda, b + j, s->ldb, y);
    }
  }
}

/* ---- vectors times a matrix, each summed as alone ------------------------------------------------------------ */

/* Rows of y, two vectors of it each: = or += x[rows, k] of a panel b[k, 2 L], in the order of vector_matrix: of each 8
 * rows of b the sum of two fours is added. first: nothing is there yet. */
enum { S(ROWS) = 4, S(DEPTH) = 256 };
static inline __attribute__((always_inline)) void S(rows_8)(const int rows, int64_t k, const T *x, int64_t ldx,
                                                            const T *b, T *y, int64_t ldy, bool first) {
  enum { NR = 2 * L };
  V s[S(ROWS)][2];
  int64_t p = 0;
  for (int i = 0; i < rows; i++)
    for (int h = 0; h < 2; h++) s[i][h] = first ? (V){ 0 } : S(load)(y + i * ldy + h * L);
  for (; p + 8 <= k; p += 8, b += 8 * NR) {
    for (int h = 0; h < 2; h++) {
      const V b0 = S(load)(b + h * L), b1 = S(load)(b + NR + h * L), b2 = S(load)(b + 2 * NR + h * L),
              b3 = S(load)(b + 3 * NR + h * L), b4 = S(load)(b + 4 * NR + h * L), b5 = S(load)(b + 5 * NR + h * L),
              b6 = S(load)(b + 6 * NR + h * L), b7 = S(load)(b + 7 * NR + h * L);
#pragma GCC unroll 4
      for (int i = 0; i < rows; i++) {
        const T *xp = x + i * ldx + p;
        V u = S(splat)(xp[0]) * b0, v = S(splat)(xp[4]) * b4;
        u += S(splat)(xp[1]) * b1;
        v += S(splat)(xp[5]) * b5;
        u += S(splat)(xp[2]) * b2;
        v += S(splat)(xp[6]) * b6;
        u += S(splat)(xp[3]) * b3;
        v += S(splat)(xp[7]) * b7;
        s[i][h] = first && p == 0 ? u + v : s[i][h] + (u + v);
      }
    }
  }
  for (; p < k; p++, b += NR)
    for (int i = 0; i < rows; i++)
      for (int h = 0; h < 2; h++) s[i][h] += S(splat)(x[i * ldx + p]) * S(load)(b + h * L);
  for (int i = 0; i < rows; i++)
    for (int h = 0; h < 2; h++) S(store)(y + i * ldy + h * L, s[i][h]);
}

/* DEPTH rows of b, w columns from j on, as a panel; missing columns are 0. */
static void S(panel)(const job *s, int64_t p, int64_t kc, int64_t j, int64_t w, T *to) {
  enum { NR = 2 * L };
  const T *b = (const T *)s->b + p * s->ldb + j;
  for (int64_t r = 0; r < kc; r++, b += s->ldb, to += NR) {
    if (w < NR) memset(to + w, 0, (size_t)(NR - w) * sizeof(T));
    memcpy(to, b, (size_t)w * sizeof(T));
  }
}

/* Rows [i, i + rows) of a panel's columns, which go through `edge` where c has fewer of them. */
static void S(panel_rows)(const job *s, int64_t i, int64_t rows, int64_t p, int64_t kc, int64_t j, int64_t w,
                          const T *b) {
  enum { NR = 2 * L };
  T edge[S(ROWS) * NR], *c = (T *)s->c + i * s->ldc + j, *y = w < NR ? edge : c;
  const T *x = (const T *)s->a + i * s->lda + p;
  const int64_t ldy = w < NR ? NR : s->ldc;
  if (w < NR && p)
    for (int64_t r = 0; r < rows; r++) memcpy(edge + r * NR, c + r * s->ldc, (size_t)w * sizeof(T));
  if (rows == S(ROWS)) S(rows_8)(S(ROWS), kc, x, s->lda, b, y, ldy, p == 0);
  else for (int64_t r = 0; r < rows; r++) S(rows_8)(1, kc, x + r * s->lda, s->lda, b, y + r * ldy, ldy, p == 0);
  if (w < NR)
    for (int64_t r = 0; r < rows; r++) memcpy(c + r * s->ldc, edge + r * NR, (size_t)w * sizeof(T));
}

/* Pieces of tile_rows rows and a panel of columns, which may have been kept: the order of the sums is the same. */
static void S(alike_rows)(void *arg, int64_t begin, int64_t end) {
  enum { NR = 2 * L };
  const job *s = (const job *)arg;
  const int64_t across = (s->n + NR - 1) / NR, deep = s->pb ? KC : S(DEPTH);
  T room[S(DEPTH) * NR] __attribute__((aligned(64)));
  for (int64_t t = begin; t < end; t++) {
    const int64_t i0 = t / across * s->tile_rows, i1 = i0 + s->tile_rows < s->m ? i0 + s->tile_rows : s->m;
    const int64_t j = t % across * NR, w = s->n - j < NR ? s->n - j : NR;
    for (int64_t p = 0; p < s->k; p += deep) {
      const int64_t kc = s->k - p < deep ? s->k - p : deep;
      const T *panel = s->pb ? (const T *)s->pb + p * across * NR + j * KC : room;
      if (!s->pb) S(panel)(s, p, kc, j, w, room);
      for (int64_t i = i0; i < i1; i += S(ROWS))
        S(panel_rows)(s, i, i1 - i < S(ROWS) ? i1 - i : S(ROWS), p, kc, j, w, panel);
    }
  }
}
_Static_assert(KC % 8 == 0 && S(DEPTH) % 8 == 0, "eight terms at a time, wherever a panel ends");

/* y[rows, columns] = x b', in the order of matrix_vector: an element is the lanes' sums, added up at the end. */
static inline __attribute__((always_inline)) void S(dots)(const int rows, const int columns, int64_t k, const T *x,
                                                          int64_t ldx, const T *b, int64_t ldb, T *y, int64_t ldy) {
  V s[S(ROWS)][4];
  const int64_t rest = k % L, whole = k - rest;
  for (int i = 0; i < rows; i++) for (int j = 0; j < columns; j++) s[i][j] = (V){ 0 };
  for (int64_t p = 0; p < whole; p += L) {
    V v[4];
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) v[j] = S(load)(b + j * ldb + p);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
      const V u = S(load)(x + i * ldx + p);
#pragma GCC unroll 4
      for (int j = 0; j < columns; j++) s[i][j] += u * v[j];
    }
  }
  if (rest)
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < columns; j++)
        s[i][j] += S(load_part)(x + i * ldx + whole, rest, 0) * S(load_part)(b + j * ldb + whole, rest, 0);
  for (int i = 0; i < rows; i++) for (int j = 0; j < columns; j++) y[i * ldy + j] = S(sum_lanes)(s[i][j]);
}

/* Pieces of tile_rows rows of a and 64 rows of b. */
static void S(alike_dots)(void *arg, int64_t begin, int64_t end) {
  const job *s = (const job *)arg;
  const int64_t across = (s->n + 63) / 64;
  for (int64_t t = begin; t < end; t++) {
    const int64_t i0 = t / across * s->tile_rows, i1 = i0 + s->tile_rows < s->m ? i0 + s->tile_rows : s->m;
    const int64_t j0 = t % across * 64, j1 = j0 + 64 < s->n ? j0 + 64 : s->n;
    for (int64_t j = j0; j < j1; j += 4) {
      const T *b = (const T *)s->b + j * s->ldb;
      for (int64_t i = i0; i < i1; i += S(ROWS)) {
        const int64_t rows = i1 - i < S(ROWS) ? i1 - i : S(ROWS), columns = j1 - j < 4 ? j1 - j : 4;
        const T *x = (const T *)s->a + i * s->lda;
        T *y = (T *)s->c + i * s->ldc + j;
        if (rows == S(ROWS) && columns == 4) S(dots)(S(ROWS), 4, s->k, x, s->lda, b, s->ldb, y, s->ldc);
        else
          for (int64_t r = 0; r < rows; r++)
            for (int64_t q = 0; q < columns; q++)
              S(dots)(1, 1, s->k, x + r * s->lda, s->lda, b + q * s->ldb, s->ldb, y + r * s->ldc + q, s->ldc);
      }
    }
  }
}

/* Panels of MR rows against a b that is row-major and near. */
static void S(row_pieces)(void *arg, int64_t begin, int64_t end) {
  const job *s = (const job *)arg;
  int64_t i = begin * MR, m = (end * MR < s->m ? end * MR : s->m) - i, ars = s->a_t ? 1 : s->lda,
          acs = s->a_t ? s->lda : 1;
  S(small)(m, s->n, s->k, (const T *)s->a + i * ars, ars, acs, (const T *)s->b, s->ldb, (T *)s->c + i * s->ldc, s->ldc,
           s->add);
}

/* ---- large products: strips of c, as wide as the kernel --------------------------------------------------------- */

/* a packed: for each chunk of KC columns, for each MR rows, [kc][MR]; missing rows are 0. */
/* where a_t: rows of k, PACK at a time, read from end to end */
static void S(pack_a)(void *arg, int64_t begin, int64_t end) {
  const job *s = (const job *)arg;
  const T *a = (const T *)s->a;
  int64_t mp = (s->m + MR - 1) / MR * MR;
  for (int64_t p = begin * PACK; p < end * PACK && p < s->k; p += PACK) {
    int64_t chunk = p / KC * KC, kc = s->k - chunk < KC ? s->k - chunk : KC, rows = s->k - p < PACK ? s->k - p : PACK;
    for (int64_t i = 0; i < s->m; i += MR) {
      T *to = (T *)s->pa + chunk * mp + i * kc + (p - chunk) * MR;
      const T *from = a + p * s->lda + i;
      if (i + MR <= s->m) {
        for (int64_t r = 0; r < rows; r++) memcpy(to + r * MR, from + r * s->lda, MR * sizeof(T));
        continue;
      }
      memset(to, 0, (size_t)(rows * MR) * sizeof(T));
      for (int64_t r = 0; r < rows; r++) memcpy(to + r * MR, from + r * s->lda, (size_t)(s->m - i) * sizeof(T));
    }
  }
}

/* MR rows of kc elements as [kc][MR]; rows that are missing are 0. */
static inline void S(turn)(int64_t rows, int64_t kc, const T *from, int64_t ld, T *to) {
  int64_t p = 0;
  if (rows < MR) memset(to, 0, (size_t)(kc * MR) * sizeof(T));
  if (rows == MR && L == 2 * MR) for (; p + L <= kc; p += L) S(half_square)(from + p, ld, to + p * MR);
  S(transpose)(rows, kc - p, from + p, ld, to + p * MR, MR);
}

static void S(turn_a)(void *arg, int64_t begin, int64_t end) {     /* where not a_t: panels of MR rows */
  const job *s = (const job *)arg;
  int64_t mp = (s->m + MR - 1) / MR * MR;
  for (int64_t i = begin * MR; i < end * MR && i < s->m; i += MR)
    for (int64_t p = 0; p < s->k; p += KC) {
      int64_t kc = s->k - p < KC ? s->k - p : KC, rows = s->m - i < MR ? s->m - i : MR;
      S(turn)(rows, kc, (const T *)s->a + i * s->lda + p, s->lda, (T *)s->pa + p * mp + i * kc);
    }
}

/* Rows [p, p + kc), columns [j0, j1) of b as panels of NR columns, KC NR elements apart: [kc][NR], missing columns 0.
   */
static void S(pack_b)(const job *s, int64_t p, int64_t kc, int64_t j0, int64_t j1, T *to) {
  enum { NR = 2 * L };
  const T *b = (const T *)s->b;
  int64_t part = (j1 - j0) % NR, whole = j1 - part;
  T *last = to + (whole - j0) * KC;
  if (part) memset(last, 0, (size_t)(kc * NR) * sizeof(T));
  if (s->b_t) {
    for (int64_t j = j0; j < whole; j += NR) S(transpose)(NR, kc, b + j * s->ldb + p, s->ldb, to + (j - j0) * KC, NR);
    if (part) S(transpose)(part, kc, b + whole * s->ldb + p, s->ldb, last, NR);
    return;
  }
  for (int64_t r = 0; r < kc; r++) {                               /* each row from end to end */
    const T *row = b + (p + r) * s->ldb;
    for (int64_t j = j0; j < whole; j += NR) memcpy(to + (j - j0) * KC + r * NR, row + j, NR * sizeof(T));
    if (part) memcpy(last + r * NR, row + whole, (size_t)part * sizeof(T));
  }
}

static void S(pack_all_b)(void *arg, int64_t begin, int64_t end) {  /* chunks of KC rows, all panels of each */
  const job *s = (const job *)arg;
  enum { NR = 2 * L };
  int64_t np = (s->n + NR - 1) / NR * NR;
  for (int64_t p = begin * KC; p < end * KC && p < s->k; p += KC)
    S(pack_b)(s, p, s->k - p < KC ? s->k - p : KC, 0, s->n, (T *)s->pb + p * np);
}

/* c[rows of MR at i, columns of the panel at j] = or += a times the panel b, where c has fewer of them. */
static __attribute__((noinline)) void S(edge)(const job *s, int64_t i, int64_t j, int64_t p, int64_t kc, const T *a,
                                              int64_t ars, int64_t acs, const T *b) {
  enum { NR = 2 * L };
  const int64_t rows = s->m - i < MR ? s->m - i : MR, columns = s->n - j < NR ? s->n - j : NR;
  S(small)(rows, columns, kc, a, ars, acs, b, NR, (T *)s->c + i * s->ldc + j, s->ldc, p || s->add);
}

static inline __attribute__((always_inline)) void S(cell)(const job *s, int64_t i, int64_t j, int64_t p, int64_t kc,
                                                          int64_t mp, const T *b) {
  enum { NR = 2 * L };
  const int64_t ars = s->pa ? 1 : s->lda, acs = s->pa ? MR : 1;
  const T *a = s->pa ? (const T *)s->pa + p * mp + i * kc : (const T *)s->a + i * s->lda + p;
  T *c = (T *)s->c + i * s->ldc + j;
  if (i + MR > s->m || j + NR > s->n) S(edge)(s, i, j, p, kc, a, ars, acs, b);
  else if (p || s->add) S(WHOLE)(2, false, L, kc, a, ars, acs, b, NR, c, s->ldc, true);
  else                  S(WHOLE)(2, false, L, kc, a, ars, acs, b, NR, c, s->ldc, false);
}

/* An eighth of a panel is on its way into the second-level cache while the one before it is used: kept panels lie in
   the third. */
static inline void S(come)(const T *panel, int64_t eighth) {
  const char *from = (const char *)panel + eighth * (KC * 2 * L * (int64_t)sizeof(T) / 8);
  for (int64_t i = 0; i < KC * 2 * L * (int64_t)sizeof(T) / 8; i += 64) __builtin_prefetch(from + i, 0, 2);
}

/* Strips of c: s->strip_rows x s->strip_panels panels of NR columns, row blocks outside. A chunk of b's panels is
 * packed just before all rows of the strip are multiplied with it, FEW rows at a time, so that one side or the other is
 * in the first-level cache. */
static void S(strips)(void *arg, int64_t begin, int64_t end) {
  const job *s = (const job *)arg;
  enum { NR = 2 * L, PANEL = KC * NR };
  int64_t mp = (s->m + MR - 1) / MR * MR, np = (s->n + NR - 1) / NR * NR, wide = s->strip_panels * NR,
          across = (s->n + wide - 1) / wide;
  T room[PANELS * PANEL] __attribute__((aligned(64)));
  for (int64_t t = begin; t < end; t++) {
    int64_t i0 = t / across * s->strip_rows, i1 = i0 + s->strip_rows < s->m ? i0 + s->strip_rows : s->m;
    int64_t j0 = t % across * wide, j1 = j0 + wide < s->n ? j0 + wide : s->n;
    for (int64_t p = 0; p < s->k; p += KC) {
      int64_t kc = s->k - p < KC ? s->k - p : KC;
      const T *b = s->pb ? (const T *)s->pb + p * np + j0 * KC : room;
      if (!s->pb) S(pack_b)(s, p, kc, j0, j1, room);
      for (int64_t few = i0; few < i1; few += FEW)
        for (int64_t j = j0; j < j1; j += NR)
          for (int64_t i = few; i < few + FEW && i < i1; i += MR) {
            if (s->far && few == i0) S(come)(b + (j - j0 + NR) * KC, (i - few) / MR);
            S(cell)(s, i, j, p, kc, mp, b + (j - j0) * KC);
          }
    }
  }
}

/* ---- the largest: blocks of c ------------------------------------------------------------------------------------ */

/* MR rows of a, KC columns from p on. */
static inline void S(few_rows)(const job *s, int64_t i, int64_t p, int64_t kc, T *to) {
  const int64_t rows = s->m - i < MR ? s->m - i : MR;
  if (!s->a_t) {
    S(turn)(rows, kc, (const T *)s->a + i * s->lda + p, s->lda, to);
    return;
  }
  const T *from = (const T *)s->a + p * s->lda + i;
  if (rows < MR) memset(to, 0, (size_t)(kc * MR) * sizeof(T));
  if (rows < MR) for (int64_t q = 0; q < kc; q++) memcpy(to + q * MR, from + q * s->lda, (size_t)rows * sizeof(T));
  else           for (int64_t q = 0; q < kc; q++) memcpy(to + q * MR, from + q * s->lda, MR * sizeof(T));
}

/* A whole cell, both sides packed. Functions of their own, so that all registers are theirs. */
static __attribute__((noinline)) void S(cell_set)(int64_t kc, const T *a, const T *b, T *c, int64_t ldc) {
  S(WHOLE)(2, false, L, kc, a, 1, MR, b, 2 * L, c, ldc, false);
}
static __attribute__((noinline)) void S(cell_add)(int64_t kc, const T *a, const T *b, T *c, int64_t ldc) {
  S(WHOLE)(2, false, L, kc, a, 1, MR, b, 2 * L, c, ldc, true);
}

/* c[i0 … i1 - 1, j0 … j1 - 1]. A chunk of b's panels, at most BLOCK_PANELS, stays in the second-level cache while all
 * rows pass by, MR at a time: these are packed into the first-level cache just before, and the next ones are on their
 * way. So each is packed once for all columns here, and neither packed whole, to be fetched from memory again. */
static void S(block)(const job *s, int64_t i0, int64_t i1, int64_t j0, int64_t j1, T *panels) {
  enum { NR = 2 * L, LINE = 64 / sizeof(T) };
  T few[MR * KC] __attribute__((aligned(64)));
  for (int64_t p = 0; p < s->k; p += KC) {
    const int64_t kc = s->k - p < KC ? s->k - p : KC;
    S(pack_b)(s, p, kc, j0, j1, panels);
    for (int64_t i = i0; i < i1; i += MR) {
      S(few_rows)(s, i, p, kc, few);
      const int64_t lines = i + 2 * MR > i1 ? 0 : s->a_t ? kc : MR * (kc / LINE);
      const int64_t each = (lines * NR + j1 - j0 - 1) / (j1 - j0), down = s->a_t ? lines : MR;
      const T *next = (const T *)s->a + (s->a_t ? p * s->lda + i + MR : (i + MR) * s->lda + p);
      for (int64_t j = j0, at = 0; j < j1; j += NR) {
        for (const int64_t to = at + each < lines ? at + each : lines; at < to; at++)
          __builtin_prefetch(next + at % down * s->lda + at / down * LINE, 0, 3);
        const T *b = panels + (j - j0) * KC;
        T *c = (T *)s->c + i * s->ldc + j;
        if (i + MR > s->m || j + NR > s->n) S(edge)(s, i, j, p, kc, few, 1, MR, b);
        else if (p || s->add) S(cell_add)(kc, few, b, c, s->ldc);
        else S(cell_set)(kc, few, b, c, s->ldc);
      }
    }
  }
}

/* Tiles, those of a row one after the other. Whole rows of tiles in one range are one row of higher ones. */
static void S(blocks)(void *arg, int64_t begin, int64_t end) {
  const job *s = (const job *)arg;
  enum { NR = 2 * L };
  T panels[BLOCK_PANELS * KC * NR] __attribute__((aligned(64)));
  const int64_t across = (s->n + s->tile_columns - 1) / s->tile_columns, most = BLOCK_ROWS / s->tile_rows;
  for (int64_t t = begin, rows; t < end; t += rows ? rows * across : 1) {
    const int64_t x = t % across, i0 = t / across * s->tile_rows;
    rows = x ? 0 : (end - t) / across < most ? (end - t) / across : most;
    const int64_t i1 = i0 + (rows ? rows : 1) * s->tile_rows, last = rows ? across : x + 1;
    for (int64_t y = x; y < last; y++) {
      const int64_t j0 = y * s->tile_columns, j1 = j0 + s->tile_columns;
      S(block)(s, i0, i1 < s->m ? i1 : s->m, j0, j1 < s->n ? j1 : s->n, panels);
    }
  }
}

/* ---- sums of products whose left sides overlap ------------------------------------------------------------------- */

static __attribute__((noinline)) void S(sum_set)(int64_t kc, const T *a, int64_t ars, const T *b, T *c, int64_t ldc) {
  S(WHOLE)(2, false, L, kc, a, ars, 1, b, 2 * L, c, ldc, false);
}
static __attribute__((noinline)) void S(sum_add)(int64_t kc, const T *a, int64_t ars, const T *b, T *c, int64_t ldc) {
  S(WHOLE)(2, false, L, kc, a, ars, 1, b, 2 * L, c, ldc, true);
}

/* Panels of each chunk of each part, one behind the other: those of parts [begin, end). */
static void S(sum_pack)(const gemm_sum *s, const T *b, T *panels, int64_t begin, int64_t end) {
  enum { NR = 2 * L };
  const int64_t chunk = sum_chunk(s->k), wide = (s->n + NR - 1) / NR * NR;
  T *to = panels + begin * ((s->k + chunk - 1) / chunk * chunk) * wide;
  for (int64_t part = begin; part < end; part++) {
    const job from = { .b = b + part * s->k * s->ldb, .ldb = s->ldb };
    for (int64_t p = 0; p < s->k; p += chunk)
      for (int64_t j = 0; j < s->n; j += NR, to += chunk * NR)
        S(pack_b)(&from, p, s->k - p < chunk ? s->k - p : chunk, j, j + NR < s->n ? j + NR : s->n, to);
  }
}

/* MR rows at a time, FEW of which pass by all panels of a chunk: what they read is in the first-level cache, or the
 * panel is. */
static void S(sum)(const gemm_sum *s, const T *a, T *c, int64_t from, int64_t to) {
  enum { NR = 2 * L, CELLS = FEW / MR };
  const int64_t chunk = sum_chunk(s->k), panels = (s->n + NR - 1) / NR, cells = (s->m + MR - 1) / MR;
  const T *b = (const T *)s->panels;
  for (int64_t part = 0; part < s->parts; part++)
    for (int64_t p = 0; p < s->k; p += chunk, b += panels * chunk * NR) {
      const int64_t kc = s->k - p < chunk ? s->k - p : chunk;
      const bool add = part || p;
      for (int64_t first = 0; first < s->rows * cells; first += CELLS)
        for (int64_t j = from; j < to; j += NR) {
          const int64_t w = s->n - j < NR ? s->n - j : NR, some = s->rows * cells - first;
          int64_t r = first / cells, i = first % cells * MR;
          for (int64_t cell = some < CELLS ? some : CELLS; cell; cell--) {
            const T *x = a + s->at[part] + p + r * s->row + i * s->step, *y = b + j * chunk;
            T *z = c + (r * s->m + i) * s->ldc + j;
            if (i + MR > s->m || w < NR) {
              S(small)(s->m - i < MR ? s->m - i : MR, w, kc, x, s->step, 1, y, NR, z, s->ldc, add);
            } else if (add) S(sum_add)(kc, x, s->step, y, z, s->ldc);
            else S(sum_set)(kc, x, s->step, y, z, s->ldc);
            if ((i += MR) < s->m) continue;
            i = 0;
            r++;
          }
        }
    }
}

/* A product with a near b on one thread. room holds n k elements when b_t; it may be NULL for a vector. */
static void S(alone)(const gemm *g, const T *a, const T *b, T *c, T *room) {
  if (g->m == 1 && g->n == 1 && (!g->a_t || g->lda == 1) && (g->b_t || g->ldb == 1)) {
    S(matrix_vector)(1, g->k, a, g->lda, b, c);
  } else if (g->m == 1 && (!g->b_t || !g->a_t || g->lda == 1)) {
    if (g->b_t) S(matrix_vector)(g->n, g->k, b, g->ldb, a, c);
    else S(vector_matrix)(g->n, g->k, a, g->a_t ? g->lda : 1, b, g->ldb, c);
  } else if (g->n == 1 && g->ldc == 1 && (g->a_t || g->b_t || g->ldb == 1)) {
    if (g->a_t) S(vector_matrix)(g->m, g->k, b, g->b_t ? 1 : g->ldb, a, g->lda, c);
    else S(matrix_vector)(g->m, g->k, a, g->lda, b, c);
  } else if (g->b_t) {
    S(transpose)(g->n, g->k, b, g->ldb, room, g->n);
    S(small)(g->m, g->n, g->k, a, g->a_t ? 1 : g->lda, g->a_t ? g->lda : 1, room, g->n, c, g->ldc,
             g->add);
  } else {
    S(small)(g->m, g->n, g->k, a, g->a_t ? 1 : g->lda, g->a_t ? g->lda : 1, b, g->ldb, c, g->ldc,
             g->add);
  }
}
#undef KERNEL
#undef DECLARE
#undef STEP
#undef STORE
#undef T
#undef V
#undef I
#undef L
#undef S
