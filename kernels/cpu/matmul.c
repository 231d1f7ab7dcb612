/* matmul.c: MatMul and BatchMatMulV2 on gemm.h. */
#include "../linalg.h"
#include "../half.h"
#include "gemm.h"
#include "onednn_matmul.h"

/* The half types: both sides as floats, the result rounded once; bfloat16 as it is, where the machine has products of
   it, which take pairs: a library adds a 0 to an odd k, and 0 times an infinity is no number. */
static int32_t half_product(df_kernel *k, const dfk_product *p, const gemm *g, df_tensor *c, const int64_t *at_a,
                            const int64_t *at_b) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  const dfk_done done = a->dtype != DF_BFLOAT16 || g->k % 2 ? DFK_NOT_DONE
                        : dfk_dnn_products(k, g, DF_BFLOAT16, p->count, a->data, at_a, b->data, at_b, c->data);
  if (done != DFK_NOT_DONE) return done == DFK_DONE ? DF_OK : DF_RESOURCE_EXHAUSTED;
  float *fa = (float *)dfk_scratch(k, (a->size + b->size + c->size) * 4 + 4);
  if (!fa) return DF_RESOURCE_EXHAUSTED;
  float *fb = fa + a->size, *fc = fb + b->size;
  dfk_half_to_floats(a->dtype, fa, (const uint16_t *)a->data, a->size);
  dfk_half_to_floats(b->dtype, fb, (const uint16_t *)b->data, b->size);
  int32_t code = dfk_gemm_batch(k, g, DF_FLOAT32, p->count, fa, at_a, fb, at_b, fc);
  if (!code) dfk_half_from_floats(c->dtype, (uint16_t *)c->data, fc, c->size);
  dfk_free(fa);
  return code;
}

/* each: 0, or how many rows a member has. */
static int32_t matmul(df_kernel *k, int64_t each) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  if (dfk_is_rare(a->dtype)) return ref_matmul(k);
  bool a_t = dfk_bool(k, 0), b_t = dfk_bool(k, 1);
  if (a->rank != 2 || b->rank != 2 || a->dims[!a_t] != b->dims[b_t]) return ref_matmul(k);   /* says what is wrong */
  gemm g = { a->dims[a_t], b->dims[!b_t], a->dims[!a_t], a_t, b_t, a->dims[1], b->dims[1], b->dims[!b_t], k->in[1],
             .each = each };
  df_tensor *c = dfk_out(k, 0, a->dtype, 2, (const int64_t[]){ g.m, g.n });
  if (!c) return DF_RESOURCE_EXHAUSTED;
  switch (a->dtype) {
    case DF_FLOAT32: return dfk_gemm_f32(k, &g, (const float *)a->data, (const float *)b->data, (float *)c->data);
    case DF_FLOAT64: return dfk_gemm_f64(k, &g, (const double *)a->data, (const double *)b->data, (double *)c->data);
    case DF_INT32:
      return dfk_gemm_i32(k, &g, (const uint32_t *)a->data, (const uint32_t *)b->data, (uint32_t *)c->data);
    case DF_INT64:
      return dfk_gemm_i64(k, &g, (const uint64_t *)a->data, (const uint64_t *)b->data, (uint64_t *)c->data);
    default: {
      dfk_product p = { .count = 1 };
      return half_product(k, &p, &g, c, NULL, NULL);
    }
  }
}

int32_t cpu_matmul(df_kernel *k)                          { return matmul(k, 0); }
int32_t dfk_matmul_members(df_kernel *k, int32_t members) { return matmul(k, k->in[0]->dims[0] / members); }

enum { A_TURNED = 1, B_TURNED = 2 };
static gemm alone_gemm(int64_t m, int64_t n, int64_t k, int32_t how) {
  const bool a_t = how & A_TURNED, b_t = how & B_TURNED;
  return (gemm){ m, n, k, a_t, b_t, a_t ? m : k, b_t ? k : n, n };
}
static void alone_f32(const void *a, const void *b, void *c, int64_t m, int64_t n, int64_t k, int32_t how) {
  const gemm g = alone_gemm(m, n, k, how);
  dfk_gemm_f32(NULL, &g, a, b, c);
}
static void alone_f64(const void *a, const void *b, void *c, int64_t m, int64_t n, int64_t k, int32_t how) {
  const gemm g = alone_gemm(m, n, k, how);
  dfk_gemm_f64(NULL, &g, a, b, c);
}

dfk_product_fn dfk_product_alone(int32_t dtype, int64_t m, int64_t n, int64_t k, bool a_t, bool b_t, int32_t *how) {
  *how = (a_t ? A_TURNED : 0) | (b_t ? B_TURNED : 0);
  if (!dfk_gemm_alone(m, n, k)) return NULL;
  return dtype == DF_FLOAT32 ? alone_f32 : dtype == DF_FLOAT64 ? alone_f64 : NULL;
}

bool dfk_matmul_into(df_kernel *k, const df_tensor *a, const df_tensor *b, bool a_t, bool b_t, df_tensor *c) {
  if (a->rank != 2 || b->rank != 2 || c->rank != 2 || a->dims[!a_t] != b->dims[b_t]) return false;
  const gemm g = { a->dims[a_t], b->dims[!b_t], a->dims[!a_t], a_t, b_t, a->dims[1], b->dims[1], b->dims[!b_t],
                   .add = true };
  if (a->dtype != DF_FLOAT32 || b->dtype != DF_FLOAT32 || c->dtype != DF_FLOAT32) return false;
  return c->dims[0] == g.m && c->dims[1] == g.n && dfk_gemm_adds(&g) &&
         !dfk_gemm_f32(k, &g, (const float *)a->data, (const float *)b->data, (float *)c->data);
}

int32_t dfk_matmul_to(df_kernel *k, const df_tensor *a, const df_tensor *b, bool a_t, bool b_t, df_tensor *c) {
  const gemm g = { a->dims[a_t], b->dims[!b_t], a->dims[!a_t], a_t, b_t, a->dims[1], b->dims[1], b->dims[!b_t] };
  return a->dtype == DF_FLOAT32
             ? dfk_gemm_f32(k, &g, (const float *)a->data, (const float *)b->data, (float *)c->data)
             : dfk_gemm_f64(k, &g, (const double *)a->data, (const double *)b->data, (double *)c->data);
}

int32_t cpu_batch_matmul(df_kernel *k) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  dfk_product p;
  if (dfk_is_rare(a->dtype)) return ref_batch_matmul(k);
  int32_t code = dfk_product_of(k, &p);
  if (code) return code;
  df_tensor *c = dfk_out(k, 0, a->dtype, p.rank, p.dims);
  if (!c) return DF_RESOURCE_EXHAUSTED;
  if (c->size == 0) return DF_OK;
  gemm g = { p.m, p.n, p.k, p.a_t, p.b_t, p.a_t ? p.m : p.k, p.b_t ? p.k : p.n, p.n };
  /* One matrix b against a whole batch of untransposed a is one tall product. */
  if (p.count > 1 && !p.a_t && b->size == p.k * p.n && a->size == p.count * p.m * p.k) {
    g.m *= p.count;
    p.count = 1;
  }
  int64_t few[64], *at = p.count <= 32 ? few : (int64_t *)dfk_scratch(k, p.count * 16);
  if (!at) return DF_RESOURCE_EXHAUSTED;
  int64_t *at_b = at + p.count;
  if (p.count == 1) at[0] = at_b[0] = 0;
  else for (int64_t i = 0; i < p.count; i++) dfk_product_at(&p, i, &at[i], &at_b[i]);
  code = dfk_is_half(a->dtype) ? half_product(k, &p, &g, c, at, at_b)
                               : dfk_gemm_batch(k, &g, a->dtype, p.count, a->data, at, b->data, at_b, c->data);
  if (at != few) dfk_free(at);
  return code;
}
