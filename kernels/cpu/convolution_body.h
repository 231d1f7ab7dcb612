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

/* What a piece sees of a plane of an image (one that is not there: -1), zeros where that is outside, in rows `o->seen`
   pixels wide. */
static void S(pad_plane)(const output *o, const piece *at, int64_t iz, T *to) {
  const dfk_conv *c = &o->c.of;
  const dfk_slide *y = &c->y, *x = &c->x;
  const int64_t high = span_of(y, at->rows), wide = span_of(x, at->places);
  const int64_t ix = at->x * x->stride - x->before, left = ix < 0 ? ix < -wide ? wide : -ix : 0;
  const int64_t stop = ix + wide < x->in ? wide : x->in - ix, inside = stop > left ? stop - left : 0;
  for (int64_t q = 0; q < high; q++, to += o->seen * c->ci) {
    const int64_t iy = at->y * y->stride - y->before + q;
    const bool outside = iz < 0 || iy < 0 || iy >= y->in || !inside;
    memset(to, 0, (size_t)((outside ? wide : left) * c->ci) * sizeof(T));
    if (outside) continue;
    const T *from = (const T *)c->in + (((at->image * c->z.in + iz) * y->in + iy) * x->in + ix + left) * c->ci;
    memcpy(to + left * c->ci, from, (size_t)(inside * c->ci) * sizeof(T));
    memset(to + (left + inside) * c->ci, 0, (size_t)((wide - left - inside) * c->ci) * sizeof(T));
  }
}
static void S(pad)(const output *o, const piece *at, T *to) {
  const dfk_slide *z = &o->c.of.z;
  for (int64_t kz = 0; kz < z->window; kz++, to += o->plane * o->c.of.ci) {
    const int64_t iz = at->z * z->stride + kz * z->dilation - z->before;
    S(pad_plane)(o, at, iz < z->in ? iz : -1, to);
  }
}

static void S(pieces)(void *arg, int64_t begin, int64_t end) {
  const output *o = (const output *)arg;
  const dfk_conv *c = &o->c.of;
  T near[PIECE_BYTES / sizeof(T)] __attribute__((aligned(64)));
  T *room = o->room ? (T *)o->room : near;
  for (int64_t t = begin; t < end; t++) {
    const piece at = piece_of(o, t / o->beside);
    const int64_t first = ((at.image * c->z.out + at.z) * c->y.out + at.y) * c->x.out + at.x;
    const int64_t from = t % o->beside * o->columns;
    const int64_t to = from + o->columns < o->sum.n ? from + o->columns : o->sum.n;
    gemm_sum s = o->sum;
    const T *a = room;
    T *y = (T *)c->out + first * c->co;
    s.rows = at.rows;
    s.m = at.places;
    if (o->left == PADDED) S(pad)(o, &at, room);
    else if (o->left == GATHERED) {
      S(gather)(&o->c, first, at.rows * at.places, room);
      s.row = at.places * s.step;
    } else {
      const int64_t row = (at.image * c->z.in + at.z * c->z.stride) * c->y.in + at.y * c->y.stride;
      a = (const T *)c->in + (row * c->x.in + at.x * c->x.stride) * c->ci;
    }
    for (int64_t g = 0; g < c->groups; g++, a += c->ci / c->groups, y += s.n) {
      s.panels = (const T *)o->sum.panels + g * o->each;
      S(dfk_gemm_sum)(&s, a, y, from, to);
    }
    if (c->then && o->beside == 1)
      dfk_chain_range((void *)c->then, first * c->co, (first + at.rows * at.places) * c->co);
  }
}

static void S(pack)(void *arg, int64_t begin, int64_t end) {                 /* parts of groups */
  const packing *p = (const packing *)arg;
  const gemm_sum *s = &p->o->sum;
  for (int64_t t = begin; t < end; t++) {
    const int64_t g = t / s->parts, part = t % s->parts;
    S(dfk_gemm_sum_pack)(s, (const T *)p->o->c.of.filter + g * s->n, (T *)p->to + g * p->o->each, part, part + 1);
  }
}

static void S(to_input)(void *arg, int64_t begin, int64_t end) {             /* groups of images */
  const conv *c = (const conv *)arg;
  int64_t each = c->of.z.out * c->of.y.out * c->of.x.out;
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
