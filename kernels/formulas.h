/* formulas.h: elementwise functions of float32 and float64 that are one C expression. A row is all that the fast kernels need: the loops
 * over tensors, the function for unboxed scalars and the prototypes come of it; kernels/ref/ has the reference, written apart.
 *
 *   X(name, expression)      in it x (and y) are the operands and `t` is their type; functions are those of <tgmath.h>
 */
#ifndef DFLOW_FORMULAS_H
#define DFLOW_FORMULAS_H

/* Of one operand. */
#define DFK_FORMULAS1(X) \
  X(softsign, fabs(x) == (t)INFINITY ? copysign((t)1, x) : x / (1 + fabs(x)))

/* Of two operands. The gradients take theirs in TensorFlow's order. */
#define DFK_FORMULAS2(X) \
  X(softsign_grad, x / ((1 + fabs(y)) * (1 + fabs(y))))

#endif
