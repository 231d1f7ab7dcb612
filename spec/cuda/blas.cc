/* blas.cc: cuBLASLt for tests: the part of it that the plug-in uses, as late as the driver for tests and as strict as
 * the library's documentation. Products are sums in the order of k. It asks for a workspace and fills it with
 * what is of no use, takes addresses only as well aligned as it was promised, and reports shapes that do not fit, steps
 * that are too small, handles that are none of its own or were destroyed, and algorithms of other shapes. */
#include "enqueue.h"
#include "../../kernels/cuda/blas.h"
#include "../../kernels/half.h"
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

struct cublasLtContext { int unused; };
struct cublasLtMatmulDescOpaque {
  int compute, scale, op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  uint32_t ends = CUBLASLT_EPILOGUE_DEFAULT;
  const char *bias = nullptr, *by[2] = { nullptr, nullptr };
};
struct cublasLtMatrixLayoutOpaque { int type; uint64_t rows, columns; int64_t step, between = 0; int32_t count = 1; };
struct cublasLtMatmulPreferenceOpaque { uint64_t workspace = 0; uint32_t aligned[4] = { 256, 256, 256, 256 }; };

static std::mutex lock;                                  /* guards what follows */
static std::set<const void *> handles;

static bool known(const void *h) {
  std::lock_guard<std::mutex> guard(lock);
  return handles.count(h) > 0;
}
template <class T> static T *keep(T *h) {
  std::lock_guard<std::mutex> guard(lock);
  handles.insert(h);
  return h;
}
template <class T> static cublasStatus_t drop(const char *call, T *h) {
  std::lock_guard<std::mutex> guard(lock);
  if (!handles.erase(h)) { strict_misuse(call, "no such handle"); return CUBLAS_STATUS_INVALID_VALUE; }
  delete h;
  return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t wrong(const char *call, const std::string &what) {
  strict_misuse(call, what);
  return CUBLAS_STATUS_INVALID_VALUE;
}

static size_t bytes_of(int type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2;
}
static std::string text(uint64_t a, uint64_t b) { return std::to_string(a) + " x " + std::to_string(b); }

/* What a heuristic says of a product, and what the product must then be like. */
struct choice { uint64_t mark, shape; uint32_t aligned[4]; uint64_t workspace, ends; };
static std::set<std::pair<uint64_t, uint64_t>> checked;  /* shapes and how they end that an algorithm was checked with */
static const uint64_t MARK = 0x646c7473747269ull;
static_assert(sizeof(choice) <= sizeof(cublasLtMatmulAlgo_t), "it has its place in an algorithm");

static uint64_t shape_of(cublasLtMatmulDesc_t o, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                         cublasLtMatrixLayout_t d) {
  uint64_t h = 1469598103934665603ull;
  const uint64_t words[] = { (uint64_t)o->compute, (uint64_t)o->op_a, (uint64_t)o->op_b, (uint64_t)a->type, a->rows,
    a->columns, (uint64_t)a->step, (uint64_t)a->count, (uint64_t)b->type, b->rows, b->columns, (uint64_t)b->step,
    (uint64_t)d->type, d->rows, d->columns, (uint64_t)d->step };
  for (uint64_t w : words) { h = (h ^ w) * 0x9e3779b97f4a7c15u; h ^= h >> 31; }
  return h;
}

/* Products of 8-bit floats are in float32, of sides whose k is innermost, all multiples of 16. Empty: it is one. */
static std::string misfit_float8(cublasLtMatmulDesc_t o, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                 cublasLtMatrixLayout_t d) {
  if (b->type != a->type || d->type != CUDA_R_32F || o->compute != CUBLAS_COMPUTE_32F || o->scale != CUDA_R_32F)
    return "types that it cannot compute with";
  if (o->op_a != CUBLAS_OP_T || o->op_b != CUBLAS_OP_N) return "8-bit floats whose k is not innermost";
  if (a->rows % 16 || a->columns % 16 || b->columns % 16) return "8-bit floats with a side that is no multiple of 16";
  if (o->ends != CUBLASLT_EPILOGUE_DEFAULT) return "8-bit floats to which a vector of float32 is added";
  return strict_capability() < 89 ? "8-bit floats before compute capability 8.9" : "";
}

/* Whether the three fit together. Empty: they do. */
static std::string misfit(cublasLtMatmulDesc_t o, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                          cublasLtMatrixLayout_t d) {
  if (!known(o) || !known(a) || !known(b) || !known(d)) return "a description or layout that is none, or was destroyed";
  const cublasLtMatrixLayout_t all[] = { a, b, d };
  for (const cublasLtMatrixLayout_t l : all) {
    if (l->step < (int64_t)l->rows)
      return "a matrix of " + text(l->rows, l->columns) + " with columns " + std::to_string(l->step) + " apart";
    if (l->count != d->count) return std::to_string(l->count) + " matrices and " + std::to_string(d->count);
    if (l->type != d->type && a->type != CUDA_R_8F_E4M3) return "matrices of different types";
  }
  if (d->count > 1 && d->between < (int64_t)(d->columns - 1) * d->step + (int64_t)d->rows)
    return "results of the batch that lie over each other";
  const bool ta = o->op_a == CUBLAS_OP_T, tb = o->op_b == CUBLAS_OP_T;
  const uint64_t m = ta ? a->columns : a->rows, k = ta ? a->rows : a->columns, k2 = tb ? b->columns : b->rows,
                 n = tb ? b->rows : b->columns;
  if (k != k2 || m != d->rows || n != d->columns)
    return "a product of " + text(m, k) + " and " + text(k2, n) + " into " + text(d->rows, d->columns);
  if (a->type == CUDA_R_8F_E4M3) return misfit_float8(o, a, b, d);
  const bool wide = d->type == CUDA_R_64F;
  if (wide != (o->compute == CUBLAS_COMPUTE_64F) || o->scale != (wide ? CUDA_R_64F : CUDA_R_32F) ||
      (!wide && o->compute != CUBLAS_COMPUTE_32F && d->type != CUDA_R_32F))
    return "types that it cannot compute with";
  return "";
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static float rounded(float x, int bits) {                /* to that many bits of mantissa less, ties to even */
  uint32_t u;
  memcpy(&u, &x, 4);
  if ((u & 0x7f800000) == 0x7f800000) return x;
  u += ((1u << (bits - 1)) - 1) + (u >> bits & 1);
  u &= ~((1u << bits) - 1);
  memcpy(&x, &u, 4);
  return x;
}
static double of_float8(uint8_t bits) {
  const int size = bits & 0x7f, exponent = size >> 3;
  const double x = size == 0x7f ? NAN : exponent ? ldexp(8 + (size & 7), exponent - 10) : ldexp(size, -9);
  return bits & 0x80 ? -x : x;
}
static double load(const void *p, int type, int64_t i, int compute) {
  switch (type) {
    case CUDA_R_8F_E4M3: return of_float8(((const uint8_t *)p)[i]);
    case CUDA_R_64F: return ((const double *)p)[i];
    case CUDA_R_16F: return dfk_f16_to_float(((const uint16_t *)p)[i]);
    case CUDA_R_16BF: return dfk_bf16_to_float(((const uint16_t *)p)[i]);
    default: break;
  }
  const float x = ((const float *)p)[i];
  return compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? rounded(x, 13) : compute == CUBLAS_COMPUTE_32F_FAST_16BF
             ? rounded(x, 16) : x;
}
static void store(void *p, int type, int64_t i, double x) {
  switch (type) {
    case CUDA_R_64F: ((double *)p)[i] = x; break;
    case CUDA_R_16F: ((uint16_t *)p)[i] = dfk_f16_from_float((float)x); break;
    case CUDA_R_16BF: ((uint16_t *)p)[i] = dfk_bf16_from_float((float)x); break;
    default: ((float *)p)[i] = (float)x;
  }
}

struct product {
  cublasLtMatmulDescOpaque o;
  cublasLtMatrixLayoutOpaque a, b, d;
  const char *a_at, *b_at;
  char *d_at;
  double alpha, beta;
  char *workspace;
  uint64_t workspace_bytes;
};

/* A matrix as the product wants it: `outer` times `inner` numbers side by side, rounded as it computes. */
template <class T> static void unpack(std::vector<T> &out, const char *at, int type, int64_t outer, int64_t inner,
                                      int64_t step_outer, int64_t step_inner, int compute) {
  out.resize((size_t)(outer * inner));
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++)
      out[(size_t)(o * inner + i)] = (T)load(at, type, o * step_outer + i * step_inner, compute);
}

/* Sums of H x W elements of the product, each in the order of k: a[k][rows] * b[column][k]. The vectors are ours: aligned. */
enum { ROWS = 16, COLUMNS = 4 };
template <class T, int H, int W>
__attribute__((no_sanitize("alignment"))) static void tile(const T *a, int64_t m, const T *b, int64_t ks, T *out) {
  T sum[W][H] = {};
  for (int64_t k = 0; k < ks; k++)
    for (int j = 0; j < W; j++)
      for (int i = 0; i < H; i++) sum[j][i] += a[k * m + i] * b[j * ks + k];
  memcpy(out, sum, sizeof sum);
}

/* One element of the result, by its sum. */
static void finish(const product &p, char *d, int64_t i, int64_t j, double sum) {
  const int64_t at = j * p.d.step + i;
  const double old = p.beta != 0 ? p.beta * load(d, p.d.type, at, CUBLAS_COMPUTE_64F) : 0;
  const double bias = p.o.ends == CUBLASLT_EPILOGUE_BIAS ? load(p.o.bias, p.d.type, i, CUBLAS_COMPUTE_64F) : 0;
  double scale = p.alpha;
  for (const char *s : p.o.by) if (s) scale *= *(const float *)s;
  store(d, p.d.type, at, scale * sum + old + bias);
}

template <class T> static void multiply(const product &p, int64_t matrix) {
  const bool ta = p.o.op_a == CUBLAS_OP_T, tb = p.o.op_b == CUBLAS_OP_T;
  const int64_t bytes = (int64_t)bytes_of(p.a.type);
  const char *from_a = p.a_at + matrix * p.a.between * bytes, *from_b = p.b_at + matrix * p.b.between * bytes;
  char *d = p.d_at + matrix * p.d.between * (int64_t)bytes_of(p.d.type);
  const int64_t m = (int64_t)p.d.rows, n = (int64_t)p.d.columns, ks = (int64_t)(ta ? p.a.rows : p.a.columns);
  std::vector<T> a, b;
  unpack(a, from_a, p.a.type, ks, m, ta ? 1 : p.a.step, ta ? p.a.step : 1, p.o.compute);
  unpack(b, from_b, p.b.type, n, ks, tb ? 1 : p.b.step, tb ? p.b.step : 1, p.o.compute);
  T sums[COLUMNS * ROWS];
  for (int64_t i = 0; i < m; i += ROWS)
    for (int64_t j = 0; j < n; j += COLUMNS) {
      const bool whole = i + ROWS <= m && j + COLUMNS <= n;
      if (whole) tile<T, ROWS, COLUMNS>(a.data() + i, m, b.data() + j * ks, ks, sums);
      for (int64_t y = j; y < n && y < j + COLUMNS; y++)
        for (int64_t x = i; x < m && x < i + ROWS; x++) {
          T *sum = &sums[(y - j) * ROWS + x - i];
          if (!whole) tile<T, 1, 1>(a.data() + x, m, b.data() + y * ks, ks, sum);
          finish(p, d, x, y, *sum);
        }
    }
}

static size_t extent(const cublasLtMatrixLayoutOpaque &l) {      /* bytes from the first element to the last */
  return (size_t)((l.count - 1) * l.between + (int64_t)(l.columns - 1) * l.step + (int64_t)l.rows) * bytes_of(l.type);
}

/* ---- the API ----------------------------------------------------------------------------------------------------- */

extern "C" {
#define API STRICT_API cublasStatus_t

API cublasLtCreate(cublasLtHandle_t *handle) {
  if (!strict_has_context()) return wrong("cublasLtCreate", "no context is current to this thread");
  *handle = keep(new cublasLtContext);
  return CUBLAS_STATUS_SUCCESS;
}
STRICT_API const char *cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return "an error of the library for tests";
  }
}
STRICT_API size_t cublasLtGetVersion(void) { return 130000; }

API cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = keep(new cublasLtMatmulDescOpaque{ compute, scale });
  return CUBLAS_STATUS_SUCCESS;
}
API cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return drop("cublasLtMatmulDescDestroy", desc); }
API cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which, const void *value,
                                   size_t bytes) {
  if (!known(desc)) return wrong("cublasLtMatmulDescSetAttribute", "no such description");
  if (which == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof desc->bias) {
    memcpy(&desc->bias, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  if ((which == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER || which == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) &&
      bytes == sizeof *desc->by) {
    memcpy(&desc->by[which == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (which == CUBLASLT_MATMUL_DESC_EPILOGUE && bytes == sizeof desc->ends) {
    memcpy(&desc->ends, value, bytes);
    return desc->ends == CUBLASLT_EPILOGUE_DEFAULT || desc->ends == CUBLASLT_EPILOGUE_BIAS
               ? CUBLAS_STATUS_SUCCESS
               : wrong("cublasLtMatmulDescSetAttribute", "an epilogue that is not offered");
  }
  int op;
  if (bytes != sizeof op || (which != CUBLASLT_MATMUL_DESC_TRANSA && which != CUBLASLT_MATMUL_DESC_TRANSB))
    return wrong("cublasLtMatmulDescSetAttribute", "attribute " + std::to_string(which) + " of " +
                 std::to_string(bytes) + " bytes");
  memcpy(&op, value, sizeof op);
  if (op != CUBLAS_OP_N && op != CUBLAS_OP_T) return wrong("cublasLtMatmulDescSetAttribute", "no such operation");
  (which == CUBLASLT_MATMUL_DESC_TRANSA ? desc->op_a : desc->op_b) = op;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t columns,
                               int64_t step) {
  if (!rows || !columns || step < (int64_t)rows)
    return wrong("cublasLtMatrixLayoutCreate", "a matrix of " + text(rows, columns) + " with columns " +
                 std::to_string(step) + " apart");
  *layout = keep(new cublasLtMatrixLayoutOpaque{ type, rows, columns, step });
  return CUBLAS_STATUS_SUCCESS;
}
API cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return drop("cublasLtMatrixLayoutDestroy", layout); }
API cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which,
                                     const void *value, size_t bytes) {
  if (!known(layout)) return wrong("cublasLtMatrixLayoutSetAttribute", "no such layout");
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == 4) memcpy(&layout->count, value, 4);
  else if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == 8) memcpy(&layout->between, value, 8);
  else return wrong("cublasLtMatrixLayoutSetAttribute", "attribute " + std::to_string(which) + " of " +
                    std::to_string(bytes) + " bytes");
  return layout->count > 0 ? CUBLAS_STATUS_SUCCESS : wrong("cublasLtMatrixLayoutSetAttribute", "no matrices");
}
API cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = keep(new cublasLtMatmulPreferenceOpaque);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return drop("cublasLtMatmulPreferenceDestroy", preference);
}
API cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                         cublasLtMatmulPreferenceAttributes_t which, const void *value, size_t bytes) {
  if (!known(preference)) return wrong("cublasLtMatmulPreferenceSetAttribute", "no such preference");
  const int side = which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8) memcpy(&preference->workspace, value, 8);
  else if (side >= 0 && side < 4 && bytes == 4) memcpy(&preference->aligned[side], value, 4);
  else return wrong("cublasLtMatmulPreferenceSetAttribute", "attribute " + std::to_string(which) + " of " +
                    std::to_string(bytes) + " bytes");
  return CUBLAS_STATUS_SUCCESS;
}

API cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                   cublasLtMatmulPreference_t preference, int requested,
                                   cublasLtMatmulHeuristicResult_t found[], int *count) {
  static const char *const call = "cublasLtMatmulAlgoGetHeuristic";
  *count = 0;
  if (!known(handle) || !known(preference) || requested < 1 || !known(c)) return wrong(call, "no such handle");
  const std::string why = misfit(desc, a, b, d);
  if (!why.empty()) return wrong(call, why);
  choice one = { MARK, shape_of(desc, a, b, d), {}, 64 + 8 * d->rows, desc->ends };
  memcpy(one.aligned, preference->aligned, sizeof one.aligned);
  if (one.workspace > preference->workspace) one.workspace = 0;
  memset(found, 0, sizeof *found);
  memcpy(&found->algo, &one, sizeof one);
  found->workspaceSize = one.workspace;
  found->state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

API cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                            const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result) {
  static const char *const call = "cublasLtMatmulAlgoCheck";
  if (!known(handle) || !known(c) || !algo) return wrong(call, "no such handle, or no algorithm");
  const std::string why = misfit(desc, a, b, d);
  if (!why.empty()) return wrong(call, why);
  choice one;
  memcpy(&one, algo, sizeof one);
  if (one.mark != MARK || one.shape != shape_of(desc, a, b, d))
    return wrong(call, "an algorithm that was chosen for another product");
  if (getenv("DFLOW_STRICT_NO_EPILOGUE")) return CUBLAS_STATUS_NOT_SUPPORTED;
  std::lock_guard<std::mutex> guard(lock);
  checked.insert({ one.shape, desc->ends });
  memset(result, 0, sizeof *result);
  result->workspaceSize = one.workspace;
  return CUBLAS_STATUS_SUCCESS;
}

/* Does the algorithm end so, as it was chosen or checked to? Empty: it does, and has what it adds. */
static std::string misend(const choice &one, cublasLtMatmulDesc_t desc) {
  if (desc->ends == CUBLASLT_EPILOGUE_BIAS && !desc->bias) return "no bias, where one is added";
  if (desc->ends == CUBLASLT_EPILOGUE_BIAS && (uintptr_t)desc->bias % 16)
    return "a bias that is not aligned to 16 bytes, as kernels read it";
  std::lock_guard<std::mutex> guard(lock);
  return one.ends == desc->ends || checked.count({ one.shape, desc->ends })
             ? "" : "an algorithm that was not checked with what is done at the end";
}

API cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                   cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                   const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                   const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  static const char *const call = "cublasLtMatmul";
  if (getenv("DFLOW_STRICT_REFUSES")) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (strict_product_fails()) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!strict_has_context()) return wrong(call, "no context is current to this thread");
  if (!known(handle) || !known(c_layout) || !algo) return wrong(call, "no such handle, or no algorithm");
  const std::string why = misfit(desc, a_layout, b_layout, d_layout);
  if (!why.empty()) return wrong(call, why);
  choice one;
  memcpy(&one, algo, sizeof one);
  if (one.mark != MARK || one.shape != shape_of(desc, a_layout, b_layout, d_layout))
    return wrong(call, "an algorithm that was chosen for another product");
  const std::string end = misend(one, desc);
  if (!end.empty()) return wrong(call, end);
  if (workspace_bytes < one.workspace || (one.workspace && !workspace))
    return wrong(call, "a workspace of " + std::to_string(workspace ? workspace_bytes : 0) + " bytes, where " +
                 std::to_string(one.workspace) + " were asked for");
  const void *const at[4] = { a, b, c, d };
  for (int i = 0; i < 4; i++)
    if ((uintptr_t)at[i] % one.aligned[i])
      return wrong(call, std::string("side ") + "ABCD"[i] + " is not aligned to " + std::to_string(one.aligned[i]) +
                   " bytes, as it was said to be");
  const bool small = a_layout->type == CUDA_R_8F_E4M3;
  if (small && (!desc->by[0] || !desc->by[1])) return wrong(call, "8-bit floats without their scales");
  for (int i = 0; i < 4; i++)
    if (small && (uintptr_t)at[i] % 16) return wrong(call, "8-bit floats that are not aligned to 16 bytes");
  const bool wide = d_layout->type == CUDA_R_64F;
  const double scale = wide ? *(const double *)alpha : *(const float *)alpha,
               old = wide ? *(const double *)beta : *(const float *)beta;
  if (old != 0 && c != d) return CUBLAS_STATUS_NOT_SUPPORTED;
  const product p = { *desc, *a_layout, *b_layout, *d_layout, (const char *)a, (const char *)b, (char *)d, scale, old,
                      (char *)workspace, one.workspace };
  std::vector<strict_range> ranges = { { a, extent(p.a), STRICT_READS }, { b, extent(p.b), STRICT_READS },
                                       { d, extent(p.d), old != 0 ? STRICT_READS | STRICT_WRITES : STRICT_WRITES } };
  if (desc->ends == CUBLASLT_EPILOGUE_BIAS)
    ranges.push_back({ desc->bias, (size_t)d_layout->rows * bytes_of(d_layout->type), STRICT_READS });
  for (const char *s : desc->by) if (s) ranges.push_back({ s, sizeof(float), STRICT_READS });
  if (one.workspace) ranges.push_back({ workspace, one.workspace, STRICT_WRITES });
  const CUresult error = strict_enqueue(stream, call, ranges, [p]() {
    if (p.workspace) memset(p.workspace, 0xff, p.workspace_bytes);
    for (int64_t i = 0; i < p.d.count; i++)
      if (p.d.type == CUDA_R_64F) multiply<double>(p, i); else multiply<float>(p, i);
    return std::string();
  });
  return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
}
