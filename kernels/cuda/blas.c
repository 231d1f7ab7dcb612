/* blas.c: products by cuBLASLt. See blas.h. Matrices here lie by rows and there by columns, so what is asked for is the
 * transposed product: c' = b' a'. */
#include "blas.h"
#include "float8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
#define X(result, name, params) result (*name) params;
  DFC_BLAS(X)
#undef X
} blas;
static dfc_library library = DFC_LIBRARY("libcublasLt.so.13");

static bool open_blas(void) {
#define X(result, name, params) { #name, (void **)&blas.name },
  static const dfc_symbol symbols[] = { DFC_BLAS(X) { NULL, NULL } };
#undef X
  return dfc_library_open(&library, symbols);
}

/* ---- how float32 is multiplied ----------------------------------------------------------------------------------- */

/* How what is no product of 8 bits is computed, too. */
static const struct { const char *name; int compute; } maths[] = {
  { "float32", CUBLAS_COMPUTE_32F }, { "tf32", CUBLAS_COMPUTE_32F_FAST_TF32 },
  { "bfloat16", CUBLAS_COMPUTE_32F_FAST_16BF }, { "float8", CUBLAS_COMPUTE_32F_FAST_16BF },
};
enum { MATHS = sizeof maths / sizeof *maths, FLOAT8 = 3, SIDE = 16 };

static bool has_float8(const dfc_gpu *g) { return g->math == FLOAT8 && g->major * 10 + g->minor >= 89; }
/* The library multiplies 8-bit floats where all sides are multiples of 16, and the result lies so. */
static bool is_float8(const dfc_gpu *g, const dfc_blas_product *p) {
  return has_float8(g) && p->dtype == DF_FLOAT32 && (p->m | p->n | p->k | (int64_t)(uintptr_t)p->c) % SIDE == 0;
}

int32_t dfc_blas_math(void) {
  const char *asked = getenv("DFLOW_GPU_MATH");
  int32_t i = 0;
  while (asked && asked[0] && i < MATHS && strcmp(asked, maths[i].name)) i++;
  return i;
}

const char *dfc_blas_math_wrong(void) {
  static char why[200];
  if (dfc_blas_math() < MATHS) return NULL;
  snprintf(why, sizeof why, "DFLOW_GPU_MATH is `%s`, and can be float32, tf32, bfloat16 or float8",
           getenv("DFLOW_GPU_MATH"));
  return why;
}

void dfc_blas_about(dfc_gpu *g, char *out, size_t room) {
  if (!library.looked) snprintf(out, room, "products: none was asked for yet");
  else if (!library.there)
    snprintf(out, room, "products: dflow's own kernel, as there is no cuBLASLt (%s)", library.why);
  else {
    const size_t v = blas.cublasLtGetVersion();
    const char *as = g->math != FLOAT8 ? maths[g->math].name
                     : has_float8(g)   ? "float8 (e4m3), or bfloat16 where a side is no multiple of 16"
                                       : "bfloat16 (float8 begins with compute capability 8.9)";
    snprintf(out, room, "products: cuBLASLt %d.%d.%d, float32 as %s", (int)(v / 10000), (int)(v / 100 % 100),
             (int)(v % 100), as);
  }
}

/* ---- what is kept by shape --------------------------------------------------------------------------------------- */

typedef struct key { int64_t m, n, k, count, step_a, step_b; int32_t dtype, transposed, aligned, used;
  int32_t biased, rounded; } key;
struct dfc_blas_plan {
  key key;                                /* used 0: empty */
  cublasLtMatmulDesc_t desc;              /* NULL: the library has nothing for it */
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algo;
  size_t workspace;
};
enum { PLANS = 256, WORKSPACE_BYTES = 32 << 20, ALIGNED = 256 };

static int type_of(int32_t dtype) {
  return dtype == DF_FLOAT32 ? CUDA_R_32F : dtype == DF_FLOAT64 ? CUDA_R_64F : dtype == DF_FLOAT16 ? CUDA_R_16F
                                                                                                    : CUDA_R_16BF;
}

/* The largest power of two up to 256 that all addresses are multiples of. */
static int32_t alignment(const dfc_blas_product *p) {
  const uintptr_t all = (uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c | ALIGNED;
  return (int32_t)(all & (~all + 1));
}

static key key_of(const dfc_blas_product *p) {
  key k;
  memset(&k, 0, sizeof k);
  k.m = p->m; k.n = p->n; k.k = p->k; k.count = p->count; k.step_a = p->step_a; k.step_b = p->step_b;
  k.dtype = p->dtype; k.transposed = p->a_t | p->b_t << 1; k.aligned = alignment(p); k.used = 1;
  k.biased = p->bias != NULL; k.rounded = p->scale_a != NULL;
  return k;
}

static uint32_t hash_of(const key *k) {
  uint64_t words[sizeof *k / 8], h = 1469598103934665603ull;
  memcpy(words, k, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) h = (h ^ words[i]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
  return (uint32_t)(h >> 32);
}

static bool good(dfc_gpu *g, cublasStatus_t status, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  const char *why = blas.cublasLtGetStatusString(status);
  if (!(dfc_capturing && dfc_capture_wrong(g, what, why)) && !g->said[0])
    snprintf(g->said, sizeof g->said, "%s: %s", what, why);      /* the call has failed; the GPU need not have */
  return false;
}
#define GOOD(call, ...) good(g, blas.call(__VA_ARGS__), #call)

static bool layout(dfc_gpu *g, cublasLtMatrixLayout_t *l, int type, int64_t rows, int64_t columns, int64_t count,
                   int64_t step) {
  const int32_t matrices = (int32_t)count;
  return GOOD(cublasLtMatrixLayoutCreate, l, type, (uint64_t)rows, (uint64_t)columns, rows) &&
         (count == 1 || (GOOD(cublasLtMatrixLayoutSetAttribute, *l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrices,
                              sizeof matrices) &&
                         GOOD(cublasLtMatrixLayoutSetAttribute, *l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                              sizeof step)));
}

static void forget(struct dfc_blas_plan *q) {
  if (q->a) blas.cublasLtMatrixLayoutDestroy(q->a);
  if (q->b) blas.cublasLtMatrixLayoutDestroy(q->b);
  if (q->c) blas.cublasLtMatrixLayoutDestroy(q->c);
  if (q->desc) blas.cublasLtMatmulDescDestroy(q->desc);
  memset(q, 0, sizeof *q);
}

/* The library has nothing for this shape, or says so when it is asked to do what it offered: our own kernel does it. */
static void has_nothing(struct dfc_blas_plan *q) {
  const key k = q->key;
  forget(q);
  q->key = k;
}

/* As the library wants 8-bit floats: k innermost on both sides. */
static bool describe_float8(dfc_gpu *g, struct dfc_blas_plan *q, const dfc_blas_product *p) {
  const int type = CUDA_R_8F_E4M3, t = CUBLAS_OP_T;
  return GOOD(cublasLtMatmulDescCreate, &q->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) &&
         GOOD(cublasLtMatmulDescSetAttribute, q->desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t) &&
         layout(g, &q->b, type, p->k, p->n, p->count, p->step_b) &&
         layout(g, &q->a, type, p->k, p->m, p->count, p->step_a) &&
         layout(g, &q->c, CUDA_R_32F, p->n, p->m, p->count, p->m * p->n);
}

static bool describe(dfc_gpu *g, struct dfc_blas_plan *q, const dfc_blas_product *p) {
  const int type = type_of(p->dtype), t = CUBLAS_OP_T;
  const bool wide = p->dtype == DF_FLOAT64;
  const int compute = wide ? CUBLAS_COMPUTE_64F : p->dtype == DF_FLOAT32 ? maths[g->math].compute : CUBLAS_COMPUTE_32F;
  if (p->scale_a) return describe_float8(g, q, p);
  return GOOD(cublasLtMatmulDescCreate, &q->desc, compute, wide ? CUDA_R_64F : CUDA_R_32F) &&
         (!p->b_t || GOOD(cublasLtMatmulDescSetAttribute, q->desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t)) &&
         (!p->a_t || GOOD(cublasLtMatmulDescSetAttribute, q->desc, CUBLASLT_MATMUL_DESC_TRANSB, &t, sizeof t)) &&
         layout(g, &q->b, type, p->b_t ? p->k : p->n, p->b_t ? p->n : p->k, p->count, p->step_b) &&
         layout(g, &q->a, type, p->a_t ? p->m : p->k, p->a_t ? p->k : p->m, p->count, p->step_a) &&
         layout(g, &q->c, type, p->n, p->m, p->count, p->m * p->n);
}

/* Asks the library what it would do. True: q->desc says whether it has something. */
static bool choose(dfc_gpu *g, struct dfc_blas_plan *q) {
  cublasLtMatmulPreference_t wish = NULL;
  cublasLtMatmulHeuristicResult_t found;
  const size_t most = WORKSPACE_BYTES;
  const uint32_t aligned = (uint32_t)q->key.aligned;
  int count = 0;
  bool ok = GOOD(cublasLtMatmulPreferenceCreate, &wish) &&
            GOOD(cublasLtMatmulPreferenceSetAttribute, wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                 sizeof most);
  for (int side = 0; ok && side < 4; side++)
    ok = GOOD(cublasLtMatmulPreferenceSetAttribute, wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + side, &aligned,
              sizeof aligned);
  if (ok) {
    const cublasStatus_t status = blas.cublasLtMatmulAlgoGetHeuristic(g->blas, q->desc, q->b, q->a, q->c, q->c, wish, 1,
                                                                      &found, &count);
    if (status == CUBLAS_STATUS_SUCCESS && count > 0 && found.state == CUBLAS_STATUS_SUCCESS) {
      q->algo = found.algo;
      q->workspace = found.workspaceSize;
    } else {
      has_nothing(q);
    }
  }
  if (wish) blas.cublasLtMatmulPreferenceDestroy(wish);
  return ok;
}

static bool set_place(dfc_gpu *g, const struct dfc_blas_plan *q, cublasLtMatmulDescAttributes_t which, const void *at) {
  return GOOD(cublasLtMatmulDescSetAttribute, q->desc, which, &at, sizeof at);
}
static bool set_bias(dfc_gpu *g, const struct dfc_blas_plan *q, const void *bias) {
  return set_place(g, q, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}
static bool set_scales(dfc_gpu *g, const struct dfc_blas_plan *q, const dfc_blas_product *p) {
  return set_place(g, q, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p->scale_b) &&
         set_place(g, q, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p->scale_a);
}

/* Can the algorithm that was chosen add a vector, too? As `choose`. */
static bool choose_biased(dfc_gpu *g, struct dfc_blas_plan *q, const dfc_blas_product *p) {
  const uint32_t ends = CUBLASLT_EPILOGUE_BIAS;
  cublasLtMatmulHeuristicResult_t found;
  if (!q->desc) return true;
  if (!GOOD(cublasLtMatmulDescSetAttribute, q->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &ends, sizeof ends) ||
      !set_bias(g, q, p->bias))
    return false;
  const cublasStatus_t status =
      blas.cublasLtMatmulAlgoCheck(g->blas, q->desc, q->b, q->a, q->c, q->c, &q->algo, &found);
  if (status == CUBLAS_STATUS_SUCCESS && found.workspaceSize <= WORKSPACE_BYTES) q->workspace = found.workspaceSize;
  else has_nothing(q);
  return true;
}

/* The plan of a shape, made when it first comes; a newer one may take its place. NULL: the device's error says why. */
static struct dfc_blas_plan *plan_of(dfc_gpu *g, const dfc_blas_product *p) {
  if (!g->blas_plan && !(g->blas_plan = calloc(PLANS, sizeof *g->blas_plan))) return NULL;
  const key k = key_of(p);
  struct dfc_blas_plan *q = &g->blas_plan[hash_of(&k) % PLANS];
  if (!memcmp(&q->key, &k, sizeof k)) return q;
  forget(q);
  g->blas_plans++;
  q->key = k;
  if (describe(g, q, p) && choose(g, q) && (!p->bias || choose_biased(g, q, p))) return q;
  forget(q);
  return NULL;
}

/* ---- 8-bit floats ------------------------------------------------------------------------------------------------ */

/* One side in 8 bits, k innermost: its `count` matrices (one, where it is repeated) of `rows` rows, which lie
 * transposed or not. */
static dfc_float8 round_side(dfc_call *c, const void *x, int64_t rows, int64_t k, int64_t count, int64_t step, bool t) {
  enum { EACH = 8 * DFC_FLOAT8_BLOCK };   /* elements of a part, at least */
  dfc_float8 p;
  memset(&p, 0, sizeof p);
  p.x = x;
  p.count = step ? count : 1;
  p.rows = rows; p.k = k; p.step = step;
  p.row = t ? 1 : k; p.column = t ? rows : 1;
  const int64_t n = p.count * rows * k, parts = (n + EACH - 1) / EACH;
  p.parts = parts < DFC_FLOAT8_PARTS ? parts : DFC_FLOAT8_PARTS;
  p.z = dfc_temporary(c, NULL, n);
  p.part = dfc_temporary(c, NULL, (p.parts + 1) * (int64_t)sizeof *p.part);
  if (!c->ok) return p;
  p.scale = p.part + p.parts;
  dfc_run_blocks(c, "k_float8_most", p.parts, DFC_FLOAT8_BLOCK, &p);
  dfc_run_blocks(c, "k_float8_scale", 1, DFC_FLOAT8_BLOCK, &p);
  dfc_run(c, "k_float8_round", n, &p);
  return p;
}

/* p with both sides in 8 bits, which stay until the call ends. */
static dfc_blas_product in_float8(dfc_call *c, const dfc_blas_product *p) {
  dfc_blas_product r = *p;
  const dfc_float8 a = round_side(c, p->a, p->m, p->k, p->count, p->step_a, p->a_t),
                   b = round_side(c, p->b, p->n, p->k, p->count, p->step_b, !p->b_t);
  r.a = a.z; r.b = b.z; r.scale_a = a.scale; r.scale_b = b.scale;
  r.step_a = p->step_a ? p->m * p->k : 0;
  r.step_b = p->step_b ? p->n * p->k : 0;
  r.a_t = false; r.b_t = true;
  return r;
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

static cublasStatus_t enqueue(dfc_call *c, const struct dfc_blas_plan *q, const dfc_blas_product *p, void *workspace) {
  const float one = 1, old = p->add;
  const double wide_one = 1, wide_old = p->add;
  const bool wide = p->dtype == DF_FLOAT64;
  return blas.cublasLtMatmul(
      c->g->blas, q->desc, wide ? (const void *)&wide_one : &one, p->b, q->b, p->a, q->a,
      wide ? (const void *)&wide_old : &old, p->c, q->c, p->c, q->c, &q->algo, workspace, q->workspace,
      dfc_stream(c->g));
}

/* As dfc_blas_run, of sides as they are. */
static bool multiply(dfc_call *c, const dfc_blas_product *p) {
  dfc_gpu *g = c->g;
  struct dfc_blas_plan *q = plan_of(g, p);
  if (!q) return c->ok = false;
  if (!q->desc) return false;
  const size_t wanted = q->workspace;
  void *workspace = wanted ? dfc_temporary(c, NULL, (int64_t)wanted) : NULL;
  if (!c->ok) return false;
  q = plan_of(g, p);                      /* making room for that may have let another thread take its place */
  if (!q || (q->desc && p->bias && !set_bias(g, q, p->bias)) || (q->desc && p->scale_a && !set_scales(g, q, p)))
    return c->ok = false;
  const bool fits = q->desc && q->workspace == wanted;
  const cublasStatus_t status = fits ? enqueue(c, q, p, workspace) : CUBLAS_STATUS_NOT_SUPPORTED;
  if (workspace) dfc_release(g, c->temporary[--c->ntemporary]);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) { has_nothing(q); return false; }
  g->launches++;
  return c->ok = good(g, status, "cublasLtMatmul");
}

bool dfc_blas_run(dfc_call *c, const dfc_blas_product *p) {
  enum { BIAS_ALIGNED = 16 };             /* no preference says of a bias how well it is aligned: its kernels read 16 */
  dfc_gpu *g = c->g;
  if ((uintptr_t)p->bias % BIAS_ALIGNED) return false;
  if (!(DFC_FLOATS >> p->dtype & 1) || !p->k || p->count > INT32_MAX || !c->ok || !open_blas()) return false;
  if (!g->blas && !GOOD(cublasLtCreate, &g->blas)) return c->ok = false;
  if (is_float8(g, p)) {
    if (p->bias) return false;            /* it adds none of float32 to a product of 8 bits */
    const dfc_blas_product r = in_float8(c, p);
    if (!c->ok || multiply(c, &r) || !c->ok) return c->ok;
  }
  return multiply(c, p);
}
