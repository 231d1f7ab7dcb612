/* blas.h: products by cuBLASLt, opened when the first product asks for it.
 *
 * What the library chose for a shape (its algorithm and the workspace that it wants) is kept by shape. float32 is
 * computed in float32; DFLOW_GPU_MATH=tf32 or bfloat16 lets the library round what is multiplied, and what tells of
 * the device names it. float8 has us round both sides to 8 bits, with a scale for each side, where the GPU multiplies
 * these (8.9 and on) and all sides are multiples of 16; what is no such product is bfloat16's. A vector that is added
 * to each row is added as the result is written, by the algorithm of the product alone, so that the bits are those of a
 * sum after it; where that algorithm cannot, it is not done. What is below 0 is not made 0 there, though the library
 * could: it does not say what becomes of NaN. Without the library, or for what it does not take, products are our own
 * kernel's.
 */
#ifndef DFLOW_CUDA_BLAS_H
#define DFLOW_CUDA_BLAS_H
#include "driver.h"

#ifndef CUBLASAPI                         /* NVIDIA's own header is not here */
typedef int cublasStatus_t, cublasComputeType_t, cudaDataType_t, cudaDataType, cublasLtMatmulDescAttributes_t,
    cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;
typedef struct { uint64_t data[8]; } cublasLtMatmulAlgo_t;
typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;
typedef CUstream cudaStream_t;
#endif

/* X(name, number): what of the library's numbers is used. */
#define DFC_NUMBERS_OF_BLAS(X) \
  X(CUBLAS_STATUS_SUCCESS, 0) X(CUBLAS_STATUS_NOT_INITIALIZED, 1) X(CUBLAS_STATUS_INVALID_VALUE, 7) \
  X(CUBLAS_STATUS_EXECUTION_FAILED, 13) X(CUBLAS_STATUS_NOT_SUPPORTED, 15) \
  X(CUBLAS_COMPUTE_32F, 68) X(CUBLAS_COMPUTE_32F_FAST_16BF, 75) X(CUBLAS_COMPUTE_32F_FAST_TF32, 77) \
  X(CUBLAS_COMPUTE_64F, 70) X(CUBLAS_OP_N, 0) X(CUBLAS_OP_T, 1) \
  X(CUDA_R_32F, 0) X(CUDA_R_64F, 1) X(CUDA_R_16F, 2) X(CUDA_R_16BF, 14) X(CUDA_R_8F_E4M3, 28) \
  X(CUBLASLT_MATMUL_DESC_TRANSA, 3) X(CUBLASLT_MATMUL_DESC_TRANSB, 4) \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7) X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8) X(CUBLASLT_EPILOGUE_DEFAULT, 1) \
  X(CUBLASLT_EPILOGUE_BIAS, 4) X(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 17) \
  X(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 18) \
  X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5) X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6) \
  X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1) X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6) X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)
#ifndef CUBLASAPI
#define NUMBER(name, number) enum { name = number };
DFC_NUMBERS_OF_BLAS(NUMBER)
#undef NUMBER
#endif

/* X(result, name, parameters) */
#define DFC_BLAS(X) \
  X(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t *handle)) \
  X(const char *, cublasLtGetStatusString, (cublasStatus_t status)) \
  X(size_t, cublasLtGetVersion, (void)) \
  X(cublasStatus_t, cublasLtMatmulDescCreate, \
    (cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale)) \
  X(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc)) \
  X(cublasStatus_t, cublasLtMatmulDescSetAttribute, \
    (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which, const void *value, size_t bytes)) \
  X(cublasStatus_t, cublasLtMatrixLayoutCreate, \
    (cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t step)) \
  X(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout)) \
  X(cublasStatus_t, cublasLtMatrixLayoutSetAttribute, \
    (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which, const void *value, size_t bytes)) \
  X(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *preference)) \
  X(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference)) \
  X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute, \
    (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which, const void *value, \
      size_t bytes)) \
  X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic, \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, \
      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted, \
      cublasLtMatmulHeuristicResult_t found[], int *count)) \
  X(cublasStatus_t, cublasLtMatmulAlgoCheck, \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, \
      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, \
      cublasLtMatmulHeuristicResult_t *result)) \
  X(cublasStatus_t, cublasLtMatmul, \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a, \
      cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta, \
      const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout, \
      const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream))

#if !defined(CUBLASAPI) && !defined(__cplusplus)
#include "plugin.h"
/* c = a b for p->count matrices, enqueued; a_t, b_t: that side lies transposed; add: c += a b; bias, of n, not NULL:
 * is added to each row of one matrix. False: it is for our own kernel (no library, a dtype or a batch that it does not
 * take), and nothing was enqueued; or the device failed, and says so. */
typedef struct dfc_blas_product {
  const void *a, *b; void *c;
  const void *bias;
  const float *scale_a, *scale_b;         /* blas.c's: the sides are 8-bit floats, which are multiplied by these */
  int64_t m, n, k, count;
  int64_t step_a, step_b;                 /* between the matrices of the batch, in elements; 0: repeated */
  int32_t dtype;
  bool    a_t, b_t, add;
} dfc_blas_product;
bool dfc_blas_run(dfc_call *c, const dfc_blas_product *p);
/* product.c: the same of one matrix, by cuBLASLt or else by our own kernel; what is wrong is in c->ok. */
void dfc_multiply(dfc_call *c, const dfc_blas_product *p);
/* How float32 is multiplied, for dfc_gpu.math: what DFLOW_GPU_MATH asks for. */
int32_t dfc_blas_math(void);
/* What DFLOW_GPU_MATH asks for is known. NULL: it is; else one line that says what there is. */
const char *dfc_blas_math_wrong(void);
/* What computes products, one line: "products: cuBLASLt 13.0.2, float32 as tf32". */
void dfc_blas_about(dfc_gpu *g, char *out, size_t room);
#endif
#endif
