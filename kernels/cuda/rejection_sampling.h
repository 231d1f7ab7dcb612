/* rejection_sampling.h: what the kernels of numbers that are drawn until they fit are given, as params.h has it for
   others. */
#ifndef DFLOW_CUDA_REJECTION_SAMPLING_H
#define DFLOW_CUDA_REJECTION_SAMPLING_H
#include <stdint.h>

/* z, of that dtype: `each` numbers for each of so many parameters, `by`: number i of parameter j at i * parameters + j;
 * of truncated ones a row for each four: mean, deviation, bounds. The stream is that of dfc_drawing. */
typedef struct dfc_rejection_sampling {
  void *z; const double *by;
  int64_t n, each, parameters;
  uint32_t key[2], tag[2];
  uint64_t start;
  int32_t dtype, pad;
} dfc_rejection_sampling;
enum { DFC_CLASSES_BLOCK = 128 };
/* Classes for rows of logits of that dtype; sum: doubles, as many as logits; trouble: for each row what is wrong: 0:
 * nothing, -1: no class is possible, else 2 (class + 1), and 1 more where that is infinite. dealt: TensorFlow's words,
 * and nothing is wrong. */
typedef struct dfc_classes {
  const void *x; void *z; double *sum; int64_t *trouble;
  int64_t rows, classes, samples;
  uint32_t key[2], tag[2];
  uint64_t start;
  int32_t dtype, wide, dealt, pad;
} dfc_classes;
#endif
