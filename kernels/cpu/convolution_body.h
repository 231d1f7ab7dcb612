/* convolution_body.h: convolutions of one float type. Included by convolution.c with T and S(f), f's name for it. */

/* Rows [first, first + count) of cols. */
static void S(gather)(const conv *c, int64_t first, int64_t count, T *cols) {
  place at = place_of(c, first);
  for (; count-- > 0; cols += c->taps, next_place(c, &at))
    for (run r = first_run(c, &at); r.pixels; next_run(c, &at, &r)) {
      if (r.from < 0) memset(cols + r.tap, 0, (size_t)(r.pixels * c->of.ci) * sizeof(T));
      else memcpy(cols + r.tap, (const T *)c->of.in + r.from, (size_t)(r.pixels * c->of.ci) * sizeof(T));
    }
}

/* Adds them to where they came from. */
static void S(scatter)(const conv *c, int64_t first, int64_t count, const T *cols) {
  place at = place_of(c, first);
  for (; count-- > 0; cols += c->taps, next_place(c, &at))
    for (run r = first_run(c, &at); r.pixels; next_run(c, &at, &r)) {
      if (r.from < 0) continue;
      T *in = (T *)c->of.in + r.from;
      for (int64_t i = 0; i < r.pixels * c->of.ci; i++) in[i] += cols[r.tap + i];
    }
}

static void S(all_cols)(void *arg, int64_t begin, int64_t end) {             /* places, for few of them */
  const conv *c = (const conv *)arg;
  S(gather)(c, begin, end - begin, (T *)c->room + begin * c->taps);
}

static void S(forward)(void *arg, int64_t begin, int64_t end) {              /* groups of places */
  const conv *c = (const conv *)arg;
  for (int64_t g = begin; g < end; g++) {
    T *cols = (T *)(c->room + g * c->room_bytes);
    int64_t stop = part(c, c->places, g + 1);
    for (int64_t first = part(c, c->places, g); first < stop; first += c->block) {
      int64_t count = stop - first < c->block ? stop - first : c->block;
      gemm m = { count, c->of.co, c->taps, false, false, c->taps, c->of.co, c->of.co };
      S(gather)(c, first, count, cols);
      S(dfk_gemm_piece)(&m, cols, (const T *)c->of.filter, (T *)c->of.out + first * c->of.co, false, NULL);
    }
  }
}

static void S(to_input)(void *arg, int64_t begin, int64_t end) {             /* groups of images */
  const conv *c = (const conv *)arg;
  int64_t each = c->of.y.out * c->of.x.out;
  for (int64_t g = begin; g < end; g++) {
    T *cols = (T *)(c->room + g * c->room_bytes);
    int64_t stop = part(c, c->of.n, g + 1) * each;
    for (int64_t first = part(c, c->of.n, g) * each; first < stop; first += c->block) {
      int64_t count = stop - first < c->block ? stop - first : c->block;
      gemm m = { count, c->taps, c->of.co, false, true, c->of.co, c->of.co, c->taps };
      S(dfk_gemm_piece)(&m, (const T *)c->of.out + first * c->of.co, (const T *)c->of.filter, cols, false, NULL);
      S(scatter)(c, first, count, cols);
    }
  }
}

static void S(to_filter)(void *arg, int64_t begin, int64_t end) {  /* groups of places; a sum [co, taps] for each */
  const conv *c = (const conv *)arg;
  for (int64_t g = begin; g < end; g++) {
    T *sum = (T *)(c->room + g * c->room_bytes), *cols = sum + c->of.co * c->taps, *packed = cols + c->block * c->taps;
    int64_t start = part(c, c->places, g), stop = part(c, c->places, g + 1);
    for (int64_t first = start; first < stop; first += c->block) {
      int64_t count = stop - first < c->block ? stop - first : c->block;
      gemm m = { c->of.co, c->taps, count, true, false, c->of.co, c->taps, c->taps };
      S(gather)(c, first, count, cols);
      S(dfk_gemm_piece)(&m, (const T *)c->of.out + first * c->of.co, cols, sum, first > start, packed);
    }
  }
}

static void S(add_groups)(void *arg, int64_t begin, int64_t end) {           /* taps */
  const conv *c = (const conv *)arg;
  for (int64_t t = begin; t < end; t++)
    for (int64_t j = 0; j < c->of.co; j++) {
      T sum = 0;
      for (int64_t g = 0; g < c->groups; g++) sum += ((const T *)(c->room + g * c->room_bytes))[j * c->taps + t];
      ((T *)c->of.filter)[t * c->of.co + j] = sum;
    }
}
#undef T
#undef S
