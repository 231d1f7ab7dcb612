/* state.c: variables, training steps, Print and Assert.
 *
 * A variable is reached through its handle, whose static shape and `of` say what the variable holds; so what does not
 * fit is an error where it is built, and again where it runs. An op that changes a variable gives the new value.
 */
#include "op/run.h"
#include "resource/variable.h"
#include "graph/grad.h"
#include "kernels/device.h"
#include <math.h>

/* The session's variable of a VarHandleOp node, made when it is first asked for; a dfi_variable, retained (session.c).
   */
void *dfi_run_variable(void *run, const df_kernel *k);

/* ---- what is known while building --------------------------------------------------------------- */

static dfi_out *in_out(const dfi_infer *c, int32_t i) { return &c->node->in[i].node->out[c->node->in[i].index]; }

/* The name of the variable that input i is a handle of, through captures. */
static const char *variable_name(const dfi_infer *c, int32_t i) {
  df_node *n = c->node->in[i].node;
  while (dfi_op_info_at(n->op)->op->flow != DF_PLAIN && n->nin > 0) n = n->in[0].node;
  const dfi_op_info *o = dfi_op_info_at(n->op);
  int32_t at = dfi_op_attr_index(o, "shared_name");
  if (at >= 0 && n->attrs[at].i > 0) return n->attrs[at].s;
  return dfi_node_name(n);
}

/* Input `value` must fit the variable that input `handle` names. */
static int32_t check_fits(dfi_infer *c, int32_t handle, int32_t value, dfi_shape *merged) {
  const dfi_out *h = in_out(c, handle);
  char a[160], b[160];
  bool same = h->of == DF_INVALID || h->of == dfi_in_dtype(c, value);
  if (same && dfi_shape_merge(&h->shape, dfi_in_shape(c, value), merged)) return DF_OK;
  return dfi_infer_fail(c, "variable '%s' holds %s but is given %s", variable_name(c, handle),
                        dfi_typed_shape_text(h->of, &h->shape, a),
                        dfi_typed_shape_text(dfi_in_dtype(c, value), dfi_in_shape(c, value), b));
}

static int32_t shape_handle(dfi_infer *c) {
  const df_attr *a = c->node->attrs;
  if (a[0].i == DF_RESOURCE || df_dtype_bytes((int32_t)a[0].i) == 0)
    return dfi_infer_fail(c, "a variable cannot hold %s", df_dtype_name((int32_t)a[0].i));
  c->node->out[0].of = (uint8_t)a[0].i;
  c->node->out[0].shape = dfi_shape_of((int32_t)a[1].i, a[1].ints);
  return DF_OK;
}

static int32_t shape_read(dfi_infer *c) {
  const dfi_out *h = in_out(c, 0);
  if (h->of != DF_INVALID && h->of != c->node->out[0].dtype)
    return dfi_infer_fail(c, "variable '%s' holds %s but is read as %s", variable_name(c, 0), df_dtype_name(h->of),
                          df_dtype_name(c->node->out[0].dtype));
  *dfi_set_shape(c, 0) = h->shape;
  return DF_OK;
}

static int32_t shape_assign(dfi_infer *c) { return check_fits(c, 0, 1, dfi_set_shape(c, 0)); }

static int32_t shape_scatter(dfi_infer *c) {
  const dfi_out *h = in_out(c, 0);
  const dfi_shape *ix = dfi_in_shape(c, 1), *given = dfi_in_shape(c, 2);
  char a[160], b[160];
  *dfi_set_shape(c, 0) = h->shape;
  if (h->shape.rank == 0)
    return dfi_infer_fail(c, "variable '%s' is a scalar: it has no rows to scatter to", variable_name(c, 0));
  dfi_shape want = dfi_shape_unknown(), merged;
  if (h->shape.rank > 0 && ix->rank >= 0 && ix->rank + h->shape.rank - 1 <= DF_MAX_RANK) {
    want = *ix;
    for (int32_t i = 1; i < h->shape.rank; i++) want.dims[want.rank++] = h->shape.dims[i];
  }
  bool same = h->of == DF_INVALID || h->of == dfi_in_dtype(c, 2);
  if (same && (given->rank == 0 || dfi_shape_merge(&want, given, &merged))) return DF_OK;
  return dfi_infer_fail(c, "the updates of variable '%s' must be %s but are %s", variable_name(c, 0),
                        dfi_typed_shape_text(h->of, &want, a), dfi_typed_shape_text(dfi_in_dtype(c, 2), given, b));
}

static int32_t shape_variable_shape(dfi_infer *c) {
  const dfi_out *h = in_out(c, 0);
  *dfi_set_shape(c, 0) = dfi_shape_vector(h->shape.rank);
  return DF_OK;
}

/* A step of `slots` + 1 variables; the inputs in `scalars` (a bit each) are numbers, input `grad` is the gradient. */
static int32_t check_step(dfi_infer *c, int32_t slots, uint32_t scalars, int32_t grad, int32_t indices) {
  dfi_shape merged = in_out(c, 0)->shape;
  for (int32_t i = 0; i < c->node->nin; i++) {
    char a[160], b[160];
    if ((scalars >> i & 1) && dfi_in_shape(c, i)->rank > 0)
      return dfi_infer_fail(c, "input %d is %s but must be a scalar", i, dfi_shape_text(dfi_in_shape(c, i), a));
    if (i > slots) continue;
    const dfi_out *h = in_out(c, i);
    if ((h->of == DF_INVALID || h->of == dfi_in_dtype(c, grad)) && dfi_shape_merge(&merged, &h->shape, &merged))
      continue;
    return dfi_infer_fail(c, "variable '%s' holds %s but the step of variable '%s' needs %s", variable_name(c, i),
                          dfi_typed_shape_text(h->of, &h->shape, a), variable_name(c, 0),
                          dfi_typed_shape_text(dfi_in_dtype(c, grad), &merged, b));
  }
  char a[160], b[160];
  dfi_shape want = merged;
  if (indices >= 0) {
    if (want.rank == 0) return dfi_infer_fail(c, "variable '%s' is a scalar: it has no rows", variable_name(c, 0));
    if (want.rank > 0) want.dims[0] = dfi_in_shape(c, indices)->rank == 1 ? dfi_in_shape(c, indices)->dims[0] : -1;
  }
  if (dfi_shape_merge(&want, dfi_in_shape(c, grad), &merged)) return DF_OK;
  return dfi_infer_fail(c, "the gradient of variable '%s' must be %s but is %s", variable_name(c, 0),
                        dfi_shape_text(&want, a), dfi_shape_text(dfi_in_shape(c, grad), b));
}
static int32_t shape_descent(dfi_infer *c)         { return check_step(c, 0, 1u << 1, 2, -1); }
static int32_t shape_momentum(dfi_infer *c)        { return check_step(c, 1, 1u << 2 | 1u << 4, 3, -1); }
static int32_t shape_adam(dfi_infer *c)            { return check_step(c, 2, 0x1f8, 9, -1); }
static int32_t shape_sparse_descent(dfi_infer *c)  { return check_step(c, 0, 1u << 1, 2, 3); }
static int32_t shape_sparse_momentum(dfi_infer *c) { return check_step(c, 1, 1u << 2 | 1u << 5, 3, 4); }
static int32_t shape_sparse_adam(dfi_infer *c)     { return check_step(c, 2, 0x1f8, 9, 10); }

/* Print counts in its attribute first_n, whose default means that nothing is counted: print.c. */
static int32_t shape_print(dfi_infer *c) {
  df_attr *first_n = &c->node->attrs[1];
  if (first_n->i >= 0) first_n->f = 0;
  return dfi_shape_same(c);
}

static int32_t shape_assert(dfi_infer *c) {
  char a[160];
  if (dfi_in_shape(c, 0)->rank > 0)
    return dfi_infer_fail(c, "the condition is %s but must be a scalar bool",
                          dfi_typed_shape_text(DF_BOOL, dfi_in_shape(c, 0), a));
  return DF_OK;
}

/* ---- gradients ------------------------------------------------------------------------------------- */

static int32_t grad_pass(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dy[0];
  return dfg_end(g);
}

/* The new value is a function of what is assigned, and of the value before, as if that were read. */
static int32_t grad_assign(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[1] = dy[0];
  return dfg_end(g);
}

static int32_t grad_assign_add(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dx[1] = dy[0];
  return dfg_end(g);
}

static int32_t grad_assign_sub(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dy[0];
  if (dfg_wants(g, n, 1)) dx[1] = dfi_op(dfg_build(g), "Neg", dy[0]);
  return dfg_end(g);
}

/* ---- kernels --------------------------------------------------------------------------------------- */

static int32_t kernel_handle(df_kernel *k) {
  dfi_variable *v = dfi_run_variable(k->run, k);
  if (!v) return k->error->code ? k->error->code : dfk_fail(k, DF_INTERNAL, "the run has no such variable");
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = v };
  return DF_OK;
}

static int32_t kernel_read(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  if (!v) return k->error->code;
  return dfi_variable_read(v, &k->out[0], k->error);
}

static int32_t kernel_assign(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  if (!v) return k->error->code;
  int32_t code = dfi_variable_assign(v, k->raw[1], k->error);
  return code ? code : dfk_out_forward(k, 0, 1, k->in[1]->rank, NULL);
}

static int32_t update(df_kernel *k, dfk_update_op op) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? dfi_variable_missing(k, dfi_variable_update(v, op, k->raw[1], &k->out[0], k->error)) : k->error->code;
}
static int32_t kernel_assign_add(df_kernel *k) { return update(k, DFK_ADD); }
static int32_t kernel_assign_sub(df_kernel *k) { return update(k, DFK_SUB); }

static int32_t scatter(df_kernel *k, dfk_update_op op) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? dfi_variable_missing(k, dfi_variable_scatter(v, k, op, k->in[1], k->raw[2], &k->out[0]))
           : k->error->code;
}
static int32_t kernel_scatter_update(df_kernel *k) { return scatter(k, DFK_SET); }
static int32_t kernel_scatter_add(df_kernel *k)    { return scatter(k, DFK_ADD); }
static int32_t kernel_scatter_sub(df_kernel *k)    { return scatter(k, DFK_SUB); }
static int32_t kernel_scatter_mul(df_kernel *k)    { return scatter(k, DFK_MUL); }
static int32_t kernel_scatter_div(df_kernel *k)    { return scatter(k, DFK_DIV); }
static int32_t kernel_scatter_min(df_kernel *k)    { return scatter(k, DFK_MIN); }
static int32_t kernel_scatter_max(df_kernel *k)    { return scatter(k, DFK_MAX); }

static int32_t kernel_initialised(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  if (!v) return k->error->code;
  df_tensor *t = dfk_out(k, 0, DF_BOOL, 0, NULL);
  if (!t) return k->error->code;
  *(bool *)t->data = dfi_variable_initialised(v);
  return DF_OK;
}

static int32_t kernel_variable_shape(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  df_value value;
  if (!v || dfi_variable_missing(k, dfi_variable_read(v, &value, k->error))) return k->error->code;
  dfi_shape s = dfi_value_shape(&value);
  dfi_value_drop(&value);
  int64_t n = s.rank;
  df_tensor *t = dfk_out(k, 0, k->out_dtype[0], 1, &n);
  if (!t) return k->error->code;
  for (int32_t i = 0; i < s.rank; i++) df_tensor_set_int(t, i, s.dims[i]);
  return DF_OK;
}

/* ---- entries --------------------------------------------------------------------------------------- */

#define SCATTER(TYPE, LUA, DOC, KERNEL, TYPES) \
  { .type = TYPE, .traits = DFO_CHANGES, .remote = DFI_REMOTE_MOVES, .host_in = 0x2, .lua = LUA, \
    .work = dfi_work_change, .in = "resource:handle indices:I updates:T", .out = "output:T", \
    .types = TYPES " I=int32|int64", \
    .doc = DOC "; updates has the shape indices.shape + variable.shape[1:], or is one number. A row named twice is " \
      "changed " \
           "twice, in order. Gives the new value. An index outside the rows is an error and changes nothing", \
    .example = "local v = df.Variable({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}) return df.run(df." LUA "(v, {0, 2}, " \
               "{{10, 1}, {2, 10}}))", \
    .derivative = "none: it changes a variable in place; gradients whose way leads through it end with an error that " \
                  "names it", \
    .stateful = true, .effect = true, .shape = shape_scatter, .kernel = { [DF_REF] = KERNEL } }

static const df_op ops[] = {
  { .type = "VarHandleOp", .remote = DFI_REMOTE_MOVES,
    .traits = DFO_VARIABLE,
    .in = "",
    .out = "resource:handle",
    .attrs = "dtype:dtype shape:shape=? shared_name:string='' container:string=''",
    .doc = "a handle of the session's variable; those of one container and shared name are one variable",
    .stateful = true,
    .no_grad = true,
    .shape = shape_handle,
    .kernel = { [DF_REF] = kernel_handle } },
  { .type = "ReadVariableOp", .remote = DFI_REMOTE_MOVES,
    .traits = DFO_READS_VARIABLE | DFO_GRAD_PASSES,
    .in = "resource:handle",
    .out = "value:dtype",
    .types = "dtype=any",
    .attrs = "dtype:dtype",
    .doc = "the variable's value as it is now; what is assigned later does not change it",
    .stateful = true,
    .shape = shape_read,
    .grad = grad_pass,
    .kernel = { [DF_REF] = kernel_read } },
  { .type = "AssignVariableOp", .traits = DFO_ASSIGNS | DFO_CHANGES, .remote = DFI_REMOTE_MOVES,
    .lua = "assign",
    .in = "resource:handle value:T",
    .out = "output:T",
    .types = "T=any",
    .doc = "the variable has this value from now on; gives the value",
    .example = "local v = df.Variable{1.0, 2.0} return df.run(v:assign({3, 4}))",
    .output = "[3. 4.] float32[2]",
    .derivative = "value gets dy; the old value of the variable has none",
    .stateful = true,
    .effect = true,
    .shape = shape_assign,
    .grad = grad_assign,
    .kernel = { [DF_REF] = kernel_assign } },
  { .type = "AssignAddVariableOp", .traits = DFO_CHANGES, .remote = DFI_REMOTE_MOVES,
    .lua = "assign_add",
    .in = "resource:handle value:T",
    .out = "output:T",
    .types = "T=number|complex",
    .doc = "adds value, of the variable's shape, to the variable; gives the new value",
    .example = "local v = df.Variable(1.0) return df.run(v:assign_add(1))",
    .output = "2.0",
    .derivative = "value and the variable as it was before both get dy",
    .stateful = true,
    .effect = true,
    .shape = shape_assign,
    .grad = grad_assign_add,
    .kernel = { [DF_REF] = kernel_assign_add } },
  { .type = "AssignSubVariableOp", .traits = DFO_CHANGES, .remote = DFI_REMOTE_MOVES,
    .lua = "assign_sub",
    .in = "resource:handle value:T",
    .out = "output:T",
    .types = "T=number|complex",
    .doc = "subtracts value, of the variable's shape, from the variable; gives the new value",
    .example = "local v = df.Variable(1.0) return df.run(v:assign_sub(1))",
    .output = "0.0",
    .derivative = "value gets -dy, the variable as it was before dy",
    .stateful = true,
    .effect = true,
    .shape = shape_assign,
    .grad = grad_assign_sub,
    .kernel = { [DF_REF] = kernel_assign_sub } },
  SCATTER("ResourceScatterUpdate", "scatter_update", "rows `indices` of the variable become `updates`",
          kernel_scatter_update, "T=number|bool|complex|quantized"),
  SCATTER("ResourceScatterAdd", "scatter_add", "adds updates to rows `indices` of the variable", kernel_scatter_add,
          "T=number|complex"),
  SCATTER("ResourceScatterSub", "scatter_sub", "subtracts updates from rows `indices` of the variable",
          kernel_scatter_sub, "T=number|complex"),
  SCATTER("ResourceScatterMul", "scatter_mul", "multiplies rows `indices` of the variable by updates",
          kernel_scatter_mul, "T=number|complex"),
  SCATTER("ResourceScatterDiv", "scatter_div", "divides rows `indices` of the variable by updates", kernel_scatter_div,
          "T=number|complex"),
  SCATTER("ResourceScatterMin", "scatter_min", "the smaller of each element of rows `indices` and of updates",
          kernel_scatter_min, "T=number"),
  SCATTER("ResourceScatterMax", "scatter_max", "the larger of each element of rows `indices` and of updates",
          kernel_scatter_max, "T=number"),
  { .type = "VarIsInitializedOp", .remote = DFI_REMOTE_LOOKS,
    .lua = "is_variable_initialized",
    .in = "resource:handle",
    .out = "is_initialized:bool",
    .doc = "whether the variable has a value",
    .example = "local v = df.Variable(1.0) return df.run(df.is_variable_initialized(v))",
    .output = "true",
    .stateful = true,
    .no_grad = true,
    .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_initialised } },
  { .type = "VariableShape", .remote = DFI_REMOTE_LOOKS,
    .in = "input:handle",
    .out = "output:out_type",
    .types = "out_type=int32|int64",
    .attrs = "out_type:dtype=int32",
    .doc = "the shape of the variable's value as it is now",
    .stateful = true,
    .no_grad = true,
    .shape = shape_variable_shape,
    .kernel = { [DF_REF] = kernel_variable_shape } },

  { .type = "ResourceApplyGradientDescent", .traits = DFO_CHANGES, .remote = DFI_REMOTE_MOVES,
    .work = dfi_work_step,
    .host_in = 0x2,
    .lua = "apply_gradient_descent",
    .in = "var:handle alpha:T delta:T",
    .out = "",
    .types = "T=float",
    .doc = "a step of gradient descent: var -= alpha * delta",
    .example = "local w = df.Variable{1.0, 2.0} df.run(df.apply_gradient_descent(w, 0.1, {1, 1})) return df.run(w)",
    .output = "[0.9 1.9] float32[2]",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = shape_descent,
    .kernel = { [DF_REF] = dfi_kernel_descent } },
  { .type = "ResourceApplyMomentum", .traits = DFO_CHANGES, .remote = DFI_REMOTE_MOVES,
    .work = dfi_work_step,
    .host_in = 0x14,
    .lua = "apply_momentum",
    .in = "var:handle accum:handle lr:T grad:T momentum:T",
    .out = "",
    .types = "T=float",
    .attrs = "use_nesterov:bool=false",
    .doc = "a step with momentum: accum = momentum * accum + grad; var -= lr * accum (with use_nesterov: lr * (grad + "
           "momentum * accum))",
    .example = "local w, slot = df.Variable{1.0}, df.Variable{0.0} df.run(df.apply_momentum(w, slot, 0.1, {1}, 0.9)) "
    "return df.run(w)",
    .output = "[0.9] float32[1]",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = shape_momentum,
    .kernel = { [DF_REF] = dfi_kernel_momentum } },
  { .type = "ResourceApplyAdam", .traits = DFO_CHANGES, .remote = DFI_REMOTE_MOVES,
    .work = dfi_work_step,
    .host_in = 0x1f8,
    .lua = "apply_adam",
    .in = "var:handle m:handle v:handle beta1_power:T beta2_power:T lr:T beta1:T beta2:T epsilon:T grad:T",
    .out = "",
    .types = "T=float",
    .attrs = "use_nesterov:bool=false",
    .doc = "a step of Adam: m += (grad - m) * (1 - beta1); v += (grad^2 - v) * (1 - beta2); "
           "var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon)",
    .example = "local w, m, v = df.Variable{1.0}, df.Variable{0.0}, df.Variable{0.0} df.run(df.apply_adam(w, m, v, "
    "0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, {1})) return df.run(w)",
    .output = "[0.999] float32[1]",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = shape_adam,
    .kernel = { [DF_REF] = dfi_kernel_adam } },
  { .type = "ResourceSparseApplyGradientDescent", .traits = DFO_CHANGES, .remote = DFI_REMOTE_MOVES,
    .work = dfi_work_step, .host_in = 0xa,
    .lua = "sparse_apply_gradient_descent",
    .in = "var:handle alpha:T grad:T indices:I",
    .out = "",
    .types = "T=float I=int32|int64",
    .doc = "row indices[i] of var -= alpha * grad[i]; rows named twice are summed first",
    .example = "local w = df.Variable{1.0, 2.0, 3.0} df.run(df.sparse_apply_gradient_descent(w, 0.1, {1, 1}, {0, 2}))"
    " return df.run(w)",
    .output = "[0.9 2.0 2.9] float32[3]",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = shape_sparse_descent,
    .kernel = { [DF_REF] = dfi_kernel_sparse_descent } },
  { .type = "ResourceSparseApplyMomentum", .traits = DFO_CHANGES, .remote = DFI_REMOTE_MOVES,
    .work = dfi_work_step, .host_in = 0x34,
    .lua = "sparse_apply_momentum",
    .in = "var:handle accum:handle lr:T grad:T indices:I momentum:T",
    .out = "",
    .types = "T=float I=int32|int64",
    .attrs = "use_nesterov:bool=false",
    .doc = "apply_momentum for the rows that indices names, and no other; rows named twice are summed first",
    .example = "local w, slot = df.Variable{1.0, 2.0}, df.Variable{0.0, 0.0} df.run(df.sparse_apply_momentum(w, slot,"
    " 0.1, {1}, {0}, 0.9)) return df.run(w)",
    .output = "[0.9 2.0] float32[2]",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = shape_sparse_momentum,
    .kernel = { [DF_REF] = dfi_kernel_sparse_momentum } },
  { .type = "ResourceSparseApplyAdam", .traits = DFO_CHANGES, .remote = DFI_REMOTE_MOVES,
    .work = dfi_work_step, .host_in = 0x5f8,
    .lua = "sparse_apply_adam",
    .in = "var:handle m:handle v:handle beta1_power:T beta2_power:T lr:T beta1:T beta2:T epsilon:T grad:T indices:I",
    .out = "",
    .types = "T=float I=int32|int64",
    .attrs = "use_nesterov:bool=false",
    .doc = "apply_adam where rows that indices does not name have gradient zero; rows named twice are summed first",
    .example = "local w, m, v = df.Variable{1.0, 2.0}, df.Variable{0.0, 0.0}, df.Variable{0.0, 0.0} "
    "df.run(df.sparse_apply_adam(w, m, v, 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, {1}, {0})) return df.run(w)",
    .output = "[0.999 2.000] float32[2]",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = shape_sparse_adam,
    .kernel = { [DF_REF] = dfi_kernel_sparse_adam } },

  { .type = "Print", .traits = DFO_TELLS, .remote = DFI_REMOTE_LOOKS, .host_in = DFI_BUT_FIRST_IN,
    .lua = "print",
    .in = "input:T data:any*",
    .out = "output:T",
    .types = "T=any",
    .attrs = "message:string='' first_n:int=-1 summarize:int=3",
    .doc = "gives input, and writes message and data to standard error each time; the first `summarize` elements of "
           "each "
           "(-1: all); with first_n, only the first times",
    .example = "df.run(df.print(df.float32{1, 2}, {message = 'x = '}))",
    .output = "[1. 2.] float32[2]",
    .derivative = "input = dy",
    .stateful = true,
    .effect = true,
    .shape = shape_print,
    .grad = grad_pass,
    .kernel = { [DF_REF] = dfi_kernel_print } },
  { .type = "Assert", .traits = DFO_DEMANDS, .remote = DFI_REMOTE_LOOKS, .host_in = DFI_ALL_IN,
    .lua = "assert",
    .in = "condition:bool data:any*",
    .out = "",
    .attrs = "summarize:int=3 message:string=''",
    .doc = "stops the run with invalid_argument, message and data, where condition (a scalar) is false",
    .example = "local x = df.float32(3) return df.run(df.assert(x:ge(0), {x}, {message = 'x is negative'}))",
    .output = "true",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = shape_assert,
    .kernel = { [DF_REF] = dfi_kernel_assert } },
};
const dfi_op_table dfi_ops_state = { ops, (int32_t)(sizeof ops / sizeof *ops) };
