/* sparse.c: a sparse matrix times a dense one, for floats and doubles: each element adds a row of the right side to one
 * of the result. Threads share the columns of the result, so the order of each sum is that of the elements.
 */
#include "../sparse.h"

enum { GRAIN = 16384 };                                           /* products that are worth a thread */

typedef struct job { const dfk_triplets *a; const void *values, *b; void *out; int64_t n, wide; bool transposed; } job;

#define PRODUCT(S, T)                                                                                            \
  static void product_##S(void *arg, int64_t begin, int64_t end) {                                               \
    const job *s = arg;                                                                                          \
    const T *values = s->values, *b = s->b;                                                                      \
    for (int64_t i = 0; i < s->a->n; i++) {                                                                      \
      const int64_t r = dfk_index(s->a->at, 2 * i + s->a->row), c = dfk_index(s->a->at, 2 * i + 1 - s->a->row);  \
      T *restrict to = (T *)s->out + r * s->n;                                                                   \
      if (s->transposed) for (int64_t j = begin; j < end; j++) to[j] += values[i] * b[j * s->wide + c];          \
      else for (int64_t j = begin; j < end; j++) to[j] += values[i] * b[c * s->n + j];                           \
    }                                                                                                            \
  }
PRODUCT(f32, float)
PRODUCT(f64, double)

static int32_t product(df_kernel *k, const dfk_triplets *a, const df_tensor *b, bool transposed, df_tensor *out) {
  const job s = { a, k->in[1]->data, b->data, out->data, out->dims[1], b->dims[1], transposed };
  dfk_parallel(k, s.n, GRAIN / (a->n + 1) + 16, out->dtype == DF_FLOAT64 ? product_f64 : product_f32, (void *)&s);
  return DF_OK;
}

int32_t cpu_sparse_matmul(df_kernel *k) {
  const uint8_t dtype = k->out_dtype[0];
  return dtype == DF_FLOAT32 || dtype == DF_FLOAT64 ? dfk_sparse_matmul(k, product) : ref_sparse_matmul(k);
}
