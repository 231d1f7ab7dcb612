/* blas.h: OpenBLAS, loaded when the first large product asks for it: loading takes 20 ms, which a prompt should not
   wait for. */
#ifndef DFLOW_CPU_BLAS_H
#define DFLOW_CPU_BLAS_H
#include <stdbool.h>
#include <cblas.h>

typedef struct blas {
  __typeof__(cblas_sgemm) *sgemm;
  __typeof__(cblas_dgemm) *dgemm;
} blas;
/* Single-threaded OpenBLAS with kernels that suit this processor, or NULL: it is not installed, or our own are faster.
   Any thread. */
const blas *dfk_blas(void);
#endif
