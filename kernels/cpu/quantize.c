/* quantize.c: products of matrices of bytes, four of a row and a column at a time where the machine multiplies so
 * (VNNI), else one at a time. A convolution is the product of what its window sees, a row for each of its places, and
 * the filter.
 *
 * The machine takes unsigned bytes of a and signed ones of b, so what is of the other kind is moved by 128, and what
 * stands for 0 with it: (a - za)(b - zb) summed is ab - zb rows(a) - za columns(b) + k za zb. All of it wraps.
 * b is packed by [panel of columns][four of k][column][4], and kept so; the sums are exact in any order.
 */
#include "../quantize.h"
#include "vec.h"
#include <math.h>

#if defined(__AVX512VNNI__) && defined(__AVX512F__)
enum { WIDE = 32, HIGH = 8 };       /* columns of a panel: two registers; rows at a time: 16 sums, 18 registers */
#else
enum { WIDE = 16, HIGH = 1 };
#endif

typedef struct product {
  const dfk_quantized *p;
  const df_tensor *a, *b;
  int64_t   first, count;     /* rows of a that are computed at once */
  uint8_t  *rows;             /* these, moved, each `depth` bytes */
  int8_t   *panels;           /* of b, moved */
  uint32_t *row_sum, *column_sum;
  uint32_t  za, zb;           /* moved as well */
  void     *y;
  int64_t   depth;            /* k rounded up to fours */
} product;

/* Copies what the window sees from place i, line after line of it. */
static void copy_seen(const product *s, int64_t i, uint8_t *to) {
  const dfk_conv *c = s->p->window;
  const int64_t x0 = i % c->x.out * c->x.stride - c->x.before, image = i / (c->x.out * c->y.out);
  const int64_t y0 = i / c->x.out % c->y.out * c->y.stride - c->y.before, bytes = c->ci;
  const uint8_t zero = (uint8_t)s->p->zero_a, *from = s->a->data;
  const bool inside = c->x.dilation == 1 && x0 >= 0 && x0 + c->x.window <= c->x.in;
  for (int64_t v = 0; v < c->y.window; v++) {
    const int64_t y = y0 + v * c->y.dilation;
    const uint8_t *line = from + (image * c->y.in + y) * c->x.in * bytes;
    if (y < 0 || y >= c->y.in) memset(to, zero, (size_t)(c->x.window * bytes));
    else if (inside) memcpy(to, line + x0 * bytes, (size_t)(c->x.window * bytes));
    else for (int64_t u = 0; u < c->x.window; u++) {
      const int64_t x = x0 + u * c->x.dilation;
      if (x < 0 || x >= c->x.in) memset(to + u * bytes, zero, (size_t)bytes);
      else memcpy(to + u * bytes, line + x * bytes, (size_t)bytes);
    }
    to += c->x.window * bytes;
  }
}

static void pack_rows(void *arg, int64_t begin, int64_t end) {
  const product *s = arg;
  const uint8_t *a = s->a->data, move = s->a->dtype == DF_QINT8 ? 0x80 : 0;
  const int64_t k = s->p->k, m = s->p->m, depth = s->depth;
  for (int64_t l = 0; s->p->a_t && l < k; l++)
    for (int64_t i = begin; i < end; i++) s->rows[i * depth + l] = a[l * m + s->first + i] ^ move;
  for (int64_t i = begin; i < end; i++) {
    uint8_t *to = s->rows + i * depth;
    const uint8_t *from = s->p->window ? to : a + (s->first + i) * k;
    uint32_t sum = 0;
    if (s->p->window) copy_seen(s, s->first + i, to);
    if (!s->p->a_t && (move || from != to)) for (int64_t l = 0; l < k; l++) to[l] = from[l] ^ move;
    for (int64_t l = 0; s->zb && l < k; l++) sum += to[l];
    memset(to + k, 0, (size_t)(depth - k));
    s->row_sum[i] = sum;
  }
}

/* Four rows of b, side by side: row[f][j] becomes byte f of to[j]; where there are fewer rows, of zeros. */
static void weave(const uint8_t *const row[4], uint32_t moves, int64_t columns, uint32_t *to, uint32_t *sum) {
  const uint8_t *r = row[0], *s = row[1], *t = row[2], *u = row[3];
  const uint8_t move = moves & 0xff;
  for (int64_t j = 0; j < columns; j++) {
    to[j] = ((uint32_t)r[j] | (uint32_t)s[j] << 8 | (uint32_t)t[j] << 16 | (uint32_t)u[j] << 24) ^ moves;
    sum[j] += (uint32_t)((int8_t)(r[j] ^ move) + (int8_t)(s[j] ^ move) + (int8_t)(t[j] ^ move) + (int8_t)(u[j] ^ move));
  }
}

/* What is beyond k is made 0 after moving: the byte that moves to it. */
static void pack_panels(void *arg, int64_t begin, int64_t end) {
  const product *s = arg;
  const uint8_t *b = s->b->data, move = s->b->dtype == DF_QUINT8 ? 0x80 : 0;
  const int64_t k = s->p->k, n = s->p->n;
  uint8_t beyond[WIDE], turned[4][WIDE];
  memset(beyond, move, sizeof beyond);
  for (int64_t p = begin; p < end; p++) {
    uint32_t *to = (uint32_t *)(s->panels + p * s->depth * WIDE), *sum = s->column_sum + p * WIDE;
    const int64_t columns = n - p * WIDE < WIDE ? n - p * WIDE : WIDE;
    memset(sum, 0, WIDE * sizeof *sum);
    for (int64_t l = 0; l < s->depth; l += 4, to += WIDE) {
      const uint8_t *row[4];
      for (int64_t f = 0; f < 4; f++) {
        row[f] = l + f >= k ? beyond : s->p->b_t ? turned[f] : b + (l + f) * n + p * WIDE;
        if (s->p->b_t && l + f < k)
          for (int64_t j = 0; j < columns; j++) turned[f][j] = b[(p * WIDE + j) * k + l + f];
      }
      weave(row, move * 0x01010101u, columns, to, sum);
      memset(to + columns, 0, (size_t)(WIDE - columns) * sizeof *to);
    }
  }
}

/* Sums of `rows` rows (at most HIGH) with a panel. */
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
static inline __attribute__((always_inline)) void sums(const uint8_t *a, int64_t depth, const int8_t *b, int rows,
                                                       uint32_t sum[HIGH][WIDE]) {
  __m512i low[HIGH], high[HIGH];
  for (int r = 0; r < rows; r++) low[r] = high[r] = _mm512_setzero_si512();
  for (int64_t l = 0; l < depth; l += 4, b += 4 * WIDE) {
    const __m512i p = _mm512_loadu_si512(b), q = _mm512_loadu_si512(b + 64);
    for (int r = 0; r < rows; r++) {
      int32_t four;
      memcpy(&four, a + r * depth + l, 4);
      const __m512i v = _mm512_set1_epi32(four);
      low[r] = _mm512_dpbusd_epi32(low[r], v, p);
      high[r] = _mm512_dpbusd_epi32(high[r], v, q);
    }
  }
  for (int r = 0; r < rows; r++) {
    _mm512_storeu_si512(sum[r], low[r]);
    _mm512_storeu_si512(sum[r] + 16, high[r]);
  }
}
#else
static inline void sums(const uint8_t *a, int64_t depth, const int8_t *b, int rows, uint32_t sum[HIGH][WIDE]) {
  for (int r = 0; r < rows; r++) {
    int32_t t[WIDE] = { 0 };
    for (int64_t l = 0; l < depth; l += 4)
      for (int j = 0; j < WIDE; j++)
        for (int f = 0; f < 4; f++) t[j] += (int32_t)a[r * depth + l + f] * b[l * WIDE + j * 4 + f];
    memcpy(sum[r], t, sizeof t);
  }
}
#endif

#define RESCALE(T, LOW, HIGH) \
  for (int64_t i = 0; i < n; i++) { \
    const float x = rintf(((float)(int32_t)sum[i] * scale[i] + shift[i]) * steps); \
    ((T *)y)[at + i] = (T)(int32_t)(x < LOW ? LOW : x > HIGH ? HIGH : x); \
  }
/* n sums from column j on, to element `at` of y. */
static void store(const dfk_rescale *r, const uint32_t *sum, int64_t j, int64_t n, void *y, int64_t at) {
  const float *scale = r->scale + j, *shift = r->shift + j, steps = r->steps;
  if (r->dtype == DF_QUINT8) { RESCALE(uint8_t, 0, 255) }
  else if (r->dtype == DF_QINT8) { RESCALE(int8_t, -128, 127) }
  else for (int64_t i = 0; i < n; i++) ((float *)y)[at + i] = (float)(int32_t)sum[i] * scale[i] + shift[i];
}

static void blocks(void *arg, int64_t begin, int64_t end) {
  const product *s = arg;
  const int64_t m = s->count, n = s->p->n, panels = (n + WIDE - 1) / WIDE;
  const uint32_t both = (uint32_t)s->p->k * s->za * s->zb;
  for (int64_t t = begin; t < end; t++) {
    const int64_t i = t / panels * HIGH, p = t % panels, rows = m - i < HIGH ? m - i : HIGH;
    const int64_t columns = n - p * WIDE < WIDE ? n - p * WIDE : WIDE;
    const uint8_t *a = s->rows + i * s->depth;
    const int8_t *b = s->panels + p * s->depth * WIDE;
    uint32_t sum[HIGH][WIDE];
    if (rows == HIGH) sums(a, s->depth, b, HIGH, sum);
    else for (int r = 0; r < rows; r++) sums(a + r * s->depth, s->depth, b, 1, sum + r);
    for (int64_t r = 0; r < rows; r++) {
      const uint32_t of_row = both - s->zb * s->row_sum[i + r];
      const int64_t at = (s->first + i + r) * n + p * WIDE;
      uint32_t *y = s->p->then ? sum[r] : (uint32_t *)s->y + at;
      for (int64_t j = 0; j < columns; j++) y[j] = sum[r][j] + of_row - s->za * s->column_sum[p * WIDE + j];
      if (s->p->then) store(s->p->then, y, p * WIDE, columns, s->y, at);
    }
  }
}

/* b as panels, kept or in *own, which is for dfk_free. NULL: the error is filled. */
static char *panels_of(df_kernel *k, product *s, int64_t panels, void **own) {
  const int64_t panel_bytes = panels * s->depth * WIDE, bytes = panel_bytes + panels * WIDE * 4;
  const dfk_packing how = { { 'Q' | s->p->b_t << 8 | s->b->dtype << 16, s->p->n, s->p->k, 0 } };
  void *keep;
  char *b = (char *)dfk_packed(s->b, &how, bytes, &keep);
  const bool kept = b != NULL;
  if (!b) b = keep ? keep : (*own = dfk_scratch(k, bytes));
  if (!b) return NULL;
  s->panels = (int8_t *)b;
  s->column_sum = (uint32_t *)(b + panel_bytes);
  if (!kept) dfk_parallel(k, panels, 65536 / (s->depth * WIDE + 1) + 1, pack_panels, s);
  if (keep) dfk_packed_done(s->b, keep);
  return b;
}

enum { ROOM = 1 << 20 };            /* bytes of what windows see at once: a level of cache */

static int32_t multiply(df_kernel *k, const dfk_quantized *p, df_tensor *y) {
  const int64_t depth = (p->k + 3) / 4 * 4, panels = (p->n + WIDE - 1) / WIDE;
  const int64_t many = (ROOM / (depth + 1) + 1) * HIGH, at_once = p->window && p->m > many ? many : p->m;
  const int64_t row_bytes = (at_once * depth + 63) / 64 * 64;
  product s = { .p = p, .a = k->in[0], .b = k->in[1], .y = y->data, .depth = depth };
  void *own = NULL;
  s.za = (uint32_t)(p->zero_a + (s.a->dtype == DF_QINT8 ? 128 : 0));
  s.zb = (uint32_t)(p->zero_b - (s.b->dtype == DF_QUINT8 ? 128 : 0));
  s.rows = dfk_scratch(k, row_bytes + at_once * 4 + 64);
  const bool made = s.rows && panels_of(k, &s, panels, &own);
  if (made) {
    s.row_sum = (uint32_t *)(s.rows + row_bytes);
    if (p->then) dfk_rescale_shifts(p->then, s.column_sum, p->n);
    const int64_t each = (1 << 20) / (HIGH * WIDE * (depth + 1)) + 1;
    for (; s.first < p->m; s.first += at_once) {
      s.count = p->m - s.first < at_once ? p->m - s.first : at_once;
      dfk_parallel(k, s.count, 65536 / (depth + 1) + 1, pack_rows, &s);
      dfk_parallel(k, (s.count + HIGH - 1) / HIGH * panels, each, blocks, &s);
    }
  }
  dfk_free(s.rows);
  dfk_free(own);
  return made ? DF_OK : k->error->code;
}

/* No byte is 0 where the range has none: the reference takes taps that are padded as none. */
static bool is_byte(const df_kernel *k, const dfk_quantized *p) {
  return k->in[0]->dtype == DF_QINT8 ? p->zero_a >= -128 && p->zero_a <= 127 : p->zero_a >= 0 && p->zero_a <= 255;
}
static int32_t convolve(df_kernel *k, const dfk_quantized *p, df_tensor *y) {
  if (is_byte(k, p)) return multiply(k, p, y);
  return ref_quantized_sums(k, p, y);
}

int32_t cpu_quantized_matmul(df_kernel *k)       { return dfk_quantized_matmul(k, multiply); }
int32_t cpu_quantized_conv2d(df_kernel *k)       { return dfk_quantized_conv2d(k, convolve); }
int32_t cpu_quantized_matmul_fused(df_kernel *k) { return dfk_quantized_matmul_fused(k, multiply); }
int32_t cpu_quantized_conv2d_fused(df_kernel *k) { return dfk_quantized_conv2d_fused(k, convolve); }
