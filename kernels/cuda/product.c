/* product.c: launchers of products. */
#include "blas.h"
#include "../linalg.h"
#include <string.h>

enum { TILE = 16 };

static void launch(dfc_call *c, int32_t dtype, dfc_product *p) {
  const int64_t tiles = (p->m + TILE - 1) / TILE * ((p->n + TILE - 1) / TILE) * p->count;
  dfc_run_blocks(c, dfc_name("product", dtype), tiles, TILE * TILE, p);
}

/* Elements between the matrices of the batch, where they are alike: false, they are not. */
static bool even_steps(const dfk_product *q, int64_t *step_a, int64_t *step_b) {
  int64_t a = 0, b = 0;
  if (q->count > 1) dfk_product_at(q, 1, step_a, step_b); else *step_a = *step_b = 0;
  for (int64_t i = 2; i < q->count; i++) {
    dfk_product_at(q, i, &a, &b);
    if (a != i * *step_a || b != i * *step_b) return false;
  }
  return true;
}

/* By cuBLASLt. False: our own kernel is to do it. */
static bool by_blas(dfc_call *c, const dfk_product *q, int32_t dtype, const dfc_product *p) {
  dfc_blas_product r = { .a = p->a, .b = p->b, .c = p->c, .m = q->m, .n = q->n, .k = q->k, .count = q->count,
                         .dtype = dtype, .a_t = q->a_t, .b_t = q->b_t };
  return even_steps(q, &r.step_a, &r.step_b) && dfc_blas_run(c, &r);
}

void dfc_multiply(dfc_call *c, const dfc_blas_product *r) {
  if (!r->m || !r->n || !c->ok || dfc_blas_run(c, r) || !c->ok) return;
  dfc_product p;
  memset(&p, 0, sizeof p);
  p.a = r->a; p.b = r->b; p.c = r->c;
  p.m = r->m; p.n = r->n; p.k = r->k; p.count = 1;
  p.a_row = r->a_t ? 1 : r->k; p.a_col = r->a_t ? r->m : 1;
  p.b_row = r->b_t ? 1 : r->n; p.b_col = r->b_t ? r->k : 1;
  p.add = r->add;
  launch(c, r->dtype, &p);
}

bool dfc_biased(void *device, const dfi_remote_biased *l) {
  dfc_gpu *g = device;
  dfc_call c = { .g = g, .ok = true };
  const dfc_blas_product p = { .a = l->a, .b = l->b, .c = l->to, .bias = l->bias, .m = l->m, .n = l->n, .k = l->k,
                               .count = 1, .dtype = l->dtype, .a_t = l->a_t, .b_t = l->b_t };
  dfc_enter(g);
  c.ok = dfc_mine(g, l->a_note) && dfc_mine(g, l->b_note) && dfc_mine(g, l->bias_note) && dfc_mine(g, l->to_note);
  const bool done = dfc_blas_run(&c, &p);
  dfc_drop(&c);
  g->said[0] = 0;                         /* the op alone says it again, and of which it is */
  g->fused += done;
  dfc_leave(g);
  return done;
}

/* The elements of t with their conjugates, in memory of the call's. */
static const void *conjugated(dfc_call *c, const df_tensor *t, const void *elements) {
  const int64_t bytes = t->size * df_dtype_bytes(t->dtype);
  const dfc_unary p = { .x = elements, .z = bytes ? dfc_temporary(c, NULL, bytes) : NULL, .n = t->size };
  if (p.z) dfc_run(c, dfc_name("conj", t->dtype), p.n, &p);
  return p.z;
}

/* A batch's matrices are adjoint where they are transposed, those of MatMul are not. */
static int32_t product(df_kernel *k, bool two_dims) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  dfk_product q;
  if ((two_dims && !dfk_two_matrices(k)) || dfk_product_of(k, &q)) return k->error->code;
  df_tensor *z = dfk_out(k, 0, a->dtype, q.rank, q.dims);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_product p;
  memset(&p, 0, sizeof p);
  p.m = q.m; p.n = q.n; p.k = q.k; p.count = q.count;
  p.a_row = q.a_t ? 1 : q.k; p.a_col = q.a_t ? q.m : 1;
  p.b_row = q.b_t ? 1 : q.n; p.b_col = q.b_t ? q.k : 1;
  p.a = dfc_read(&c, a);
  p.b = dfc_read(&c, b);
  p.c = dfc_write(&c, z);
  const bool adjoint = !two_dims && dfk_is_complex(a->dtype);
  if (adjoint && q.a_t) p.a = conjugated(&c, a, p.a);
  if (adjoint && q.b_t) p.b = conjugated(&c, b, p.b);
  const bool taken = by_blas(&c, &q, a->dtype, &p);
  if (!taken && c.ok && q.count > 1) {
    int64_t *at = dfk_scratch(k, q.count * 2 * (int64_t)sizeof *at);
    if (at) for (int64_t i = 0; i < q.count; i++) dfk_product_at(&q, i, &at[i], &at[q.count + i]);
    p.at = at ? dfc_temporary(&c, at, q.count * 2 * (int64_t)sizeof *at) : NULL;
    if (!p.at) c.ok = false;
    dfk_free(at);
  }
  if (!taken) launch(&c, a->dtype, &p);
  return dfc_end(&c);
}
static int32_t run_matmul(df_kernel *k)       { return product(k, true); }
static int32_t run_batch_matmul(df_kernel *k) { return product(k, false); }

/* Tout comes before the other attributes, and is the dtype of both inputs. */
static int32_t run_batch_matmul_v3(df_kernel *k) {
  df_kernel other = *k;
  other.attrs++;
  return product(&other, false);
}

static bool takes(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] < 32 && ((DFC_FLOATS | DFC_COMPLEX | DFC_BIT(DF_INT32) | DFC_BIT(DF_INT64)) >> in[0] & 1);
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "MatMul", .run = run_matmul, .takes = takes },
  { .op = "BatchMatMul", .run = run_batch_matmul, .takes = takes },
  { .op = "BatchMatMulV2", .run = run_batch_matmul, .takes = takes },
  { .op = "BatchMatMulV3", .run = run_batch_matmul_v3, .takes = takes },
};
const dfc_table dfc_products = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
