/* train.h: what one training step makes of one element, for every optimizer that TensorFlow has an op for. */
#ifndef DFLOW_TRAIN_H
#define DFLOW_TRAIN_H
#include "kernel.h"

/* The rule, its slots after the variable, and its numbers in order. */
typedef enum dfk_rule {
  DFK_DESCENT,             /* -                         alpha */
  DFK_PROXIMAL_DESCENT,    /* -                         alpha l1 l2 */
  DFK_MOMENTUM,            /* accum                     lr momentum                        flag: nesterov */
  DFK_KERAS_MOMENTUM,      /* accum                     lr momentum                        flag: nesterov */
  DFK_ADAGRAD,             /* accum                     lr                                 flag: update accum */
  DFK_ADAGRAD_V2,          /* accum                     lr epsilon                         flag: update accum */
  DFK_PROXIMAL_ADAGRAD,    /* accum                     lr l1 l2 */
  DFK_ADAGRAD_DA,          /* gradients squares         lr l1 l2 global_step */
  DFK_ADADELTA,            /* accum accum_update        lr rho epsilon */
  DFK_RMSPROP,             /* ms mom                    lr rho momentum epsilon */
  DFK_CENTERED_RMSPROP,    /* mg ms mom                 lr rho momentum epsilon */
  DFK_FTRL,  /* accum linear              lr l1 l2 lr_power                  flag: linear is multiplied by lr */
  DFK_FTRL_V2,             /* accum linear              lr l1 l2 l2_shrinkage lr_power     flag: the same */
  DFK_ADAM,  /* m v                       beta1_power beta2_power lr beta1 beta2 epsilon  flag: nesterov */
  DFK_ADAMAX,              /* m v                       beta1_power lr beta1 beta2 epsilon */
  DFK_ADD_SIGN,            /* m                         lr alpha sign_decay beta */
  DFK_POWER_SIGN           /* m                         lr logbase sign_decay beta */
} dfk_rule;
enum { DFK_TRAIN_VARS = 4, DFK_TRAIN_NUMBERS = 6 };

/* One step on n elements of the variable x[0] and its slots x[1] …, all of one float dtype. Computes in float64. */
void dfk_train(dfk_rule rule, int32_t dtype, int64_t n, void *const *x, const void *grad, const double *h, bool flag);
#endif
