/* train_step.h: the variables of an optimizer's step, locked together: for resource/train_step.c and ops/train.c. */
#ifndef DFLOW_TRAIN_STEP_H
#define DFLOW_TRAIN_STEP_H
#include "resource/variable.h"
#include "kernels/device.h"

enum { DFI_STEP_VARS = 4 };

/* The variables of one step: [0] the trained one, then its slots. */
typedef struct dfi_step {
  df_kernel    *k;
  int32_t       n;
  dfi_variable *var[DFI_STEP_VARS];
  char         *data[DFI_STEP_VARS];   /* to write to, once all is checked */
  dfi_shape     shape;
} dfi_step;

/* Locks the first n inputs of k, in the order of their addresses. They must be n different variables. */
int32_t dfi_step_lock(dfi_step *s, df_kernel *k, int32_t n);
int32_t dfi_step_unlock(dfi_step *s, int32_t code);                    /* gives code again */
/* Makes all of them writable. They must agree in shape and have the dtype of the gradient. The locks stay. */
int32_t dfi_step_open(dfi_step *s, const df_value *grad);
/* Does the step run where the host cannot read its variables? */
bool dfi_step_is_remote(const dfi_step *s);
/* The step there, with what t says besides: rows (0: all of them), lists, rule, numbers. DF_OK, or the error is filled.
   */
int32_t dfi_step_remote(dfi_step *s, const df_value *grad, dfi_remote_train *t);
/* All of this for a gradient (input `grad`) of the variable's shape. On failure nothing is locked. */
int32_t dfi_step_dense(dfi_step *s, df_kernel *k, int32_t n, int32_t grad);
#endif
