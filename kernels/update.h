/* update.h: arithmetic in place, for what changes where it lies: variables and gradient arrays.
 *
 * DFK_SET is for every plain dtype; the others are for numbers, min and max not for complex ones. Integers wrap; min
 * and max give NaN where either side is NaN; halves compute in float32.
 */
#ifndef DFLOW_UPDATE_H
#define DFLOW_UPDATE_H
#include "kernel.h"

typedef enum dfk_update_op {
  DFK_SET, DFK_ADD, DFK_SUB, DFK_MUL, DFK_DIV, DFK_MIN, DFK_MAX
} dfk_update_op;

/* to[i] = a[i] op b[i] for n elements; one b for all where `one_b`. `to` may be a. Integer division by zero
 * leaves the zero's element as a[i]: ask dfk_update_allowed first. */
void dfk_update(dfk_update_op op, int32_t dtype, int64_t n, void *to, const void *a, const void *b, bool one_b);
/* Can elements of this dtype be added up? */
bool dfk_adds(int32_t dtype);
/* False: integers are divided by a zero among the n of b. */
bool dfk_update_allowed(dfk_update_op op, int32_t dtype, int64_t n, const void *b);

/* Fused training steps on n elements, all of one float dtype; halves compute in float32.
 *   gradient descent  var -= alpha * grad
 *   momentum          accum = momentum * accum + grad; var -= lr * accum (nesterov: lr * (grad + momentum * accum))
 *   adam              m += (grad - m) * (1 - beta1); v += (grad^2 - v) * (1 - beta2);
 *                     var -= lr' * m / (sqrt(v) + epsilon), lr' = lr * sqrt(1 - beta2_power) / (1 - beta1_power)
 *                     (nesterov: beta1 * m + (1 - beta1) * grad in place of m)
 */
void dfk_step_descent(int32_t dtype, int64_t n, void *var, const void *grad, double alpha);
void dfk_step_momentum(int32_t dtype, int64_t n, void *var, void *accum, const void *grad, double lr,
                       double momentum, bool nesterov);
typedef struct dfk_adam { double rate, beta1, beta2, epsilon; bool nesterov; } dfk_adam; /* rate: lr' above */
void dfk_step_adam(int32_t dtype, int64_t n, void *var, void *mean, void *v, const void *grad, const dfk_adam *o);
#endif
