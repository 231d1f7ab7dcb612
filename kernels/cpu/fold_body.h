/* fold_body.h: one fold (sum, product, max, min) of one element type. Included by reduce.c once for each, with
 *   T           the element type
 *   NAME(f)     f's name for this fold and type
 *   FOLD(a, b)  of two elements;  VFOLD(v, a, b) of two vectors of type v
 *   LANES(a)    of a vector's lanes, where there is something faster that folds them in the same order
 */
typedef T NAME(v) __attribute__((vector_size(VEC_BYTES)));

/* The lanes of a vector folded, the upper half onto the lower again and again. */
static inline T NAME(lanes)(NAME(v) a) {
#ifdef LANES
  return LANES(a);
#undef LANES
#else
  enum { L = (int)(VEC_BYTES / sizeof(T)) };
  T lane[L];
  memcpy(lane, &a, sizeof a);
  for (int w = L / 2; w; w /= 2) for (int l = 0; l < w; l++) lane[l] = FOLD(lane[l], lane[l + w]);
  return lane[0];
#endif
}

/* n >= 1 elements side by side. Floats are summed in blocks, each over 4 vectors, so that errors stay small and the
 * order depends on n alone; up to three are added one after the other, which native code does too (write_move.c). */
static void NAME(row)(const void *from, int64_t n, void *to) {
  enum { L = (int)(VEC_BYTES / sizeof(T)), STEP = 4 * L, BLOCK = 32 * STEP };
  const T *x = (const T *)from;
  T total = x[0];
  int64_t i = 1;
  if (n >= L && n < STEP) {
    NAME(v) a, p;
    memcpy(&a, x, sizeof a);
    for (i = L; i + L <= n; i += L) {
      memcpy(&p, x + i, sizeof p);
      a = VFOLD(NAME(v), a, p);
    }
    total = NAME(lanes)(a);
  }
  if (n >= STEP) {
    for (i = 0; i + STEP <= n; ) {
      int64_t end = i + BLOCK < n ? i + BLOCK : n, begin = i;
      NAME(v) a, b, c, d, p, q, r, s;
      memcpy(&a, x + i, sizeof a); memcpy(&b, x + i + L, sizeof a);
      memcpy(&c, x + i + 2 * L, sizeof a); memcpy(&d, x + i + 3 * L, sizeof a);
      for (i += STEP; i + STEP <= end; i += STEP) {
        memcpy(&p, x + i, sizeof a); memcpy(&q, x + i + L, sizeof a);
        memcpy(&r, x + i + 2 * L, sizeof a); memcpy(&s, x + i + 3 * L, sizeof a);
        a = VFOLD(NAME(v), a, p); b = VFOLD(NAME(v), b, q); c = VFOLD(NAME(v), c, r); d = VFOLD(NAME(v), d, s);
      }
      a = VFOLD(NAME(v), a, b); c = VFOLD(NAME(v), c, d); a = VFOLD(NAME(v), a, c);
      const T sum = NAME(lanes)(a);
      total = begin == 0 ? sum : FOLD(total, sum);
    }
  }
  for (; i < n; i++) total = FOLD(total, x[i]);
  *(T *)to = total;
}

/* Several rows of n elements, each as above. Short ones go eight at a time: the machine then waits for none of them. */
static void NAME(rows)(const void *from, int64_t rows, int64_t n, void *to) {
  const T *x = (const T *)from;
  T *restrict y = (T *)to;
  int64_t r = 0;
  for (; n < (int)(VEC_BYTES / sizeof(T)) && r + 8 <= rows; r += 8) {
    const T *p = x + r * n;
    T t[8];
    for (int q = 0; q < 8; q++) t[q] = p[q * n];
    for (int64_t i = 1; i < n; i++)
      for (int q = 0; q < 8; q++) t[q] = FOLD(t[q], p[q * n + i]);
    for (int q = 0; q < 8; q++) y[r + q] = t[q];
  }
  for (; r < rows; r++) NAME(row)(x + r * n, n, y + r);
}

/* Rows of w elements, `stride` apart, folded into y one after the other. */
static void NAME(add)(const void *from, int64_t rows, int64_t stride, int64_t w, void *to) {
  const T *x = (const T *)from;
  T *restrict y = (T *)to;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T *p = x + r * stride, *q = p + stride, *s = q + stride, *t = s + stride;
    for (int64_t j = 0; j < w; j++) {
      T u = FOLD(y[j], p[j]);
      u = FOLD(u, q[j]);
      u = FOLD(u, s[j]);
      y[j] = FOLD(u, t[j]);
    }
  }
  for (; r < rows; r++) {
    const T *p = x + r * stride;
    for (int64_t j = 0; j < w; j++) y[j] = FOLD(y[j], p[j]);
  }
}

/* rows >= 1 rows of w elements, `stride` apart, folded into one row. Blocks of DFK_FOLD_BLOCK rows at a time, for the
 * same reason. */
static void NAME(columns)(const void *from, int64_t rows, int64_t stride, int64_t w, void *to) {
  const T *x = (const T *)from;
  T *y = (T *)to;
  T block[FOLD_WIDTH];
  for (int64_t begin = 0; begin < rows; begin += DFK_FOLD_BLOCK) {
    const int64_t end = begin + DFK_FOLD_BLOCK < rows ? begin + DFK_FOLD_BLOCK : rows;
    T *b = begin ? block : y;
    memcpy(b, x + begin * stride, (size_t)w * sizeof(T));
    NAME(add)(x + (begin + 1) * stride, end - begin - 1, stride, w, b);
    if (begin) NAME(add)(block, 1, w, w, y);
  }
}

static const fold NAME(fold) = { NAME(row), NAME(rows), NAME(columns), NAME(add), sizeof(T) };
#undef T
#undef NAME
