/* grad.h: what the gradient function of an op is given.
 *
 * grad(g, n, dy, dx): dy[i] is the gradient of output i (node NULL: none came); fill dx[j] for the inputs that have a
 * gradient and leave the others. All nodes built here land in the backward context; forward values must be taken
 * through dfg_in / dfg_out, which save them where the backward pass is a loop of its own. Ask only for what the formula
 * needs: each distinct value asked for is saved once per iteration. Ask before attributes are set for the next op.
 * Prefer outputs (tanh, sigmoid, exp, softmax) to inputs, and shapes (dfg_in_shape) to values.
 *
 *   static int32_t grad_tanh(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
 *     dfi_build *b = dfg_build(g);
 *     dx[0] = dfi_op(b, "TanhGrad", dfg_out(g, n, 0), dy[0]);
 *     return dfg_end(g);
 *   }
 */
#ifndef DFLOW_GRAD_H
#define DFLOW_GRAD_H
#include "graph/build.h"
typedef struct dfi_grad dfi_grad;
dfi_build *dfg_build(dfi_grad *g);
df_output  dfg_in(dfi_grad *g, df_node *n, int32_t i);         /* the forward value of input i, usable here */
df_output  dfg_out(dfi_grad *g, df_node *n, int32_t i);        /* the forward value of output i, usable here */
df_output  dfg_in_shape(dfi_grad *g, df_node *n, int32_t i);  /* int32[rank]: its shape; a constant where it is known */
df_output  dfg_out_shape(dfi_grad *g, df_node *n, int32_t i);
/* int32: one dimension; axis < 0 counts from the end */
df_output  dfg_in_dim(dfi_grad *g, df_node *n, int32_t i, int32_t axis);
bool       dfg_wants(dfi_grad *g, df_node *n, int32_t i);      /* is dx[i] needed? skip costly ones when not */
/* dz summed down to the shape of input i: what broadcasting asks for. */
df_output  dfg_unbroadcast(dfi_grad *g, df_node *n, int32_t i, df_output dz);
/* dx[i] is sparse: values[k, ...] belong at rows indices[k] of input i. dx[i] itself is left alone. */
void       dfg_sparse(dfi_grad *g, int32_t i, df_output values, df_output indices);
/* An array's gradient (input i is a TensorArray handle): the pass keeps one gradient array per array and threads it
 * through. This adds `type`(handle, inputs...) to its chain, e.g. dfg_array(g, 0, "TensorArrayWrite", 2, (df_output[]){
 * index, dy[0] }). */
void       dfg_array(dfi_grad *g, int32_t i, const char *type, int32_t n, const df_output *in);
/* The conjugate of a complex x, any other x itself: a derivative by complex numbers is conjugated, as in TensorFlow. */
static inline df_output dfg_conj(dfi_grad *g, df_output x) {
  return x.node && dfi_is_complex(dfi_dtype(x)) ? dfi_op(dfg_build(g), "Conj", x) : x;
}
int32_t    dfg_end(dfi_grad *g);  /* DF_OK, or the code of what went wrong while building */
/* no such gradient */
int32_t    dfg_fail(dfi_grad *g, df_node *n, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Fails where a gradient by one of the inputs from ... to - 1 is asked for: zero would be wrong. */
int32_t    dfg_unknown(dfi_grad *g, df_node *n, int32_t from, int32_t to);
#endif
