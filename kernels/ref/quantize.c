/* quantize.c: the reference products of quantised matrices and windows: plain loops. */
#include "../quantize.h"
#include <math.h>

static int32_t at(const df_tensor *t, int64_t place) {
  return t->dtype == DF_QUINT8 ? ((const uint8_t *)t->data)[place] : ((const int8_t *)t->data)[place];
}
static int32_t at_matrix(const df_tensor *t, bool transposed, int64_t i, int64_t j) {
  return at(t, transposed ? j * t->dims[1] + i : i * t->dims[1] + j);
}

/* Tap l of what the window sees from its place i, less what stands for 0. */
static int32_t seen(const df_kernel *k, const dfk_quantized *p, int64_t i, int64_t l) {
  const dfk_conv *c = p->window;
  const int64_t channel = l % c->ci, tap = l / c->ci;
  const int64_t x = i % c->x.out * c->x.stride - c->x.before + tap % c->x.window * c->x.dilation;
  const int64_t y = i / c->x.out % c->y.out * c->y.stride - c->y.before + tap / c->x.window * c->y.dilation;
  const int64_t image = i / (c->x.out * c->y.out);
  if (x < 0 || y < 0 || x >= c->x.in || y >= c->y.in) return 0;
  return at(k->in[0], ((image * c->y.in + y) * c->x.in + x) * c->ci + channel) - p->zero_a;
}

static uint32_t sum_of(const df_kernel *k, const dfk_quantized *p, int64_t i, int64_t j) {
  uint32_t sum = 0;
  for (int64_t l = 0; l < p->k; l++) {
    const int32_t a = p->window ? seen(k, p, i, l) : at_matrix(k->in[0], p->a_t, i, l) - p->zero_a;
    const int32_t b = (p->window ? at(k->in[1], l * p->n + j) : at_matrix(k->in[1], p->b_t, l, j)) - p->zero_b;
    sum += (uint32_t)a * (uint32_t)b;
  }
  return sum;
}

/* The sum as the element i of y, of column j. */
static void rescale(const dfk_rescale *r, int32_t sum, int64_t j, df_tensor *y, int64_t i) {
  const float x = (float)sum * r->scale[j] + r->shift[j];
  const double q = rint(x * r->steps);
  if (r->dtype == DF_QUINT8) ((uint8_t *)y->data)[i] = (uint8_t)fmin(fmax(q, 0), 255);
  else if (r->dtype == DF_QINT8) ((int8_t *)y->data)[i] = (int8_t)fmin(fmax(q, -128), 127);
  else ((float *)y->data)[i] = x;
}

int32_t ref_quantized_sums(df_kernel *k, const dfk_quantized *p, df_tensor *y) {
  const df_tensor *b = k->in[1];
  for (int64_t j = 0; j < p->n && p->then && p->then->offset != 0; j++) {
    uint32_t sum = 0;
    for (int64_t l = 0; l < p->k; l++) sum += (uint32_t)at_matrix(b, p->b_t, l, j);
    const dfk_rescale one = { .scale = p->then->scale + j, .shift = p->then->shift + j, .offset = p->then->offset };
    dfk_rescale_shifts(&one, &sum, 1);
  }
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      const uint32_t sum = sum_of(k, p, i, j);
      if (p->then) rescale(p->then, (int32_t)sum, j, y, i * p->n + j);
      else ((uint32_t *)y->data)[i * p->n + j] = sum;
    }
  return DF_OK;
}

int32_t ref_quantized_matmul(df_kernel *k)       { return dfk_quantized_matmul(k, ref_quantized_sums); }
int32_t ref_quantized_conv2d(df_kernel *k)       { return dfk_quantized_conv2d(k, ref_quantized_sums); }
int32_t ref_quantized_matmul_fused(df_kernel *k) { return dfk_quantized_matmul_fused(k, ref_quantized_sums); }
int32_t ref_quantized_conv2d_fused(df_kernel *k) { return dfk_quantized_conv2d_fused(k, ref_quantized_sums); }
