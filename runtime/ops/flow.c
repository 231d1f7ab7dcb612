/* flow.c: constants, placeholders, the ops that hand values on, and the primitives of control flow.
 *
 * The primitives have no gradient functions here: the gradient pass differentiates conds and loops as a whole.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/flow.h"

static void hand_on(dfi_infer *c, int32_t out, int32_t in) {
  const df_output from = c->node->in[in];
  const dfi_out *o = &from.node->out[from.index];
  c->node->out[out].dtype = o->dtype;
  c->node->out[out].of = o->of;
  c->node->out[out].shape = o->shape;
}

static int32_t shape_const(dfi_infer *c) {
  df_tensor *t = c->node->attrs[0].tensor;
  if (!t) return dfi_infer_fail(c, "the attribute value is missing");
  int64_t dtype = c->node->attrs[1].i;
  if (dtype && dtype != t->dtype)
    return dfi_infer_fail(c, "dtype is %s but the value is %s", df_dtype_name((int32_t)dtype), df_dtype_name(t->dtype));
  c->node->attrs[1].i = t->dtype;
  dfi_out *o = &c->node->out[0];
  o->dtype = t->dtype;
  o->shape = dfi_shape_of(t->rank, t->dims);
  o->constant = df_tensor_retain(t);
  return DF_OK;
}

static int32_t shape_placeholder(dfi_infer *c) {
  const df_attr *shape = &c->node->attrs[1];
  *dfi_set_shape(c, 0) = dfi_shape_of((int32_t)shape->i, shape->ints);
  return DF_OK;
}

static int32_t shape_placeholder_with_default(dfi_infer *c) {
  const df_attr *attr = &c->node->attrs[0];
  dfi_shape asked = dfi_shape_of((int32_t)attr->i, attr->ints), both;
  const dfi_shape *found = dfi_in_shape(c, 0);
  char a[160], b[160];
  if (!dfi_shape_merge(&asked, found, &both))
    return dfi_infer_fail(c, "the default is %s but the shape asked for is %s", dfi_shape_text(found, a),
                          dfi_shape_text(&asked, b));
  *dfi_set_shape(c, 0) = asked.rank < 0 ? *found : asked;
  return DF_OK;
}

static int32_t shape_hand_on(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) hand_on(c, i, i);
  return DF_OK;
}

static int32_t shape_custom_gradient(dfi_infer *c) {
  int64_t nx = c->node->attrs[0].i;
  if (nx < 0 || nx > c->node->nin)
    return dfi_infer_fail(c, "%s is %lld but there are %d inputs", dfi_op_info_at(c->node->op)->attr[0].name,
                          (long long)nx, c->node->nin);
  for (int32_t i = 0; i < c->node->nout; i++) hand_on(c, i, (int32_t)nx + i);
  return DF_OK;
}

/* What the function that a file has registered makes of the gradients of the outputs, and of what it captured. */
static int32_t grad_registered(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const int32_t captured = (int32_t)n->attrs[0].i, nin = n->nout + captured;
  const df_attr *function = &n->attrs[1], *results = &n->attrs[2], *types = &n->attrs[3];
  if (!function->i)
    return dfg_fail(g, n, "its gradient is the function that was registered as `%s`, which the file does not carry: "
                    "save the model with experimental_custom_gradients=True, or name it among stop_gradients",
                    n->attrs[4].s);
  df_output *in = dfi_xcalloc((size_t)nin + 1, sizeof *in);
  for (int32_t i = 0; i < n->nout; i++)
    in[i] = dy[i].node ? dy[i] : dfi_op(b, "ZerosLike", dfg_out(g, n, i));
  for (int32_t i = 0; i < captured; i++) in[n->nout + i] = dfg_in(g, n, i);
  dfi_attr_string(b, "function", function->s);
  dfi_attr_ints(b, "Tout", (int32_t)types->i, types->ints);
  df_node *call = dfi_opnode(b, "FunctionCall", nin, in);
  dfi_free(in);
  for (int32_t i = 0; call && i < n->nout && i < results->i; i++) {
    if (results->ints[i] < 0 || results->ints[i] >= call->nout) continue;
    dx[captured + i] = (df_output){ call, (int32_t)results->ints[i] };
    call->out[results->ints[i]].shape = *dfi_shape_at(n->in[captured + i]);
  }
  return dfg_end(g);
}

static int32_t scalar_bool(dfi_infer *c, int32_t i, const char *name) {
  char text[160];
  const dfi_shape *s = dfi_in_shape(c, i);
  if (s->rank > 0)
    return dfi_infer_fail(c, "%s must be a scalar bool but is %s", name,
                          dfi_typed_shape_text(dfi_in_dtype(c, i), s, text));
  return DF_OK;
}

static int32_t shape_switch(dfi_infer *c) {
  hand_on(c, 0, 0);
  hand_on(c, 1, 0);
  return scalar_bool(c, 1, "pred");
}

static int32_t shape_merge(dfi_infer *c) {
  if (c->node->nin == 0) return dfi_infer_fail(c, "there is nothing to merge");
  hand_on(c, 0, 0);
  dfi_shape *s = dfi_set_shape(c, 0);
  for (int32_t i = 1; i < c->node->nin; i++) dfi_shape_relax(s, dfi_in_shape(c, i), s);
  *dfi_set_shape(c, 1) = dfi_shape_scalar();
  return DF_OK;
}

static int32_t shape_enter(dfi_infer *c) {
  hand_on(c, 0, 0);
  int64_t parallel = c->node->attrs[DFI_ENTER_PARALLEL_ITERATIONS].i;
  if (parallel < 1) return dfi_infer_fail(c, "parallel_iterations is %lld but must be at least 1", (long long)parallel);
  if (!c->node->attrs[DFI_ENTER_FRAME_NAME].i) return dfi_infer_fail(c, "frame_name must not be empty");
  return DF_OK;
}

static int32_t shape_loop_cond(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_shape_scalar();
  return scalar_bool(c, 0, "the predicate");
}

static int32_t grad_hand_on(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  for (int32_t i = 0; i < n->nout; i++) dx[i] = dy[i];
  return dfg_end(g);
}

static int32_t grad_prevented(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return dfg_fail(g, n, "it prevents gradients%s%s", n->attrs[0].i ? ": " : "", n->attrs[0].i ? n->attrs[0].s : "");
}

/* The shape that an attribute gives. */
static dfi_shape shape_of_attr(const df_attr *a) {
  return a->i < 0 ? dfi_shape_unknown() : dfi_shape_of((int32_t)a->i, a->ints);
}

static int32_t shape_ensure(dfi_infer *c) {
  dfi_shape want = shape_of_attr(&c->node->attrs[0]);
  char a[160], b[160];
  if (dfi_shape_merge(dfi_in_shape(c, 0), &want, dfi_set_shape(c, 0))) return DF_OK;
  return dfi_infer_fail(c, "the input is %s but %s is ensured", dfi_shape_text(dfi_in_shape(c, 0), a),
                        dfi_shape_text(&want, b));
}

static int32_t ref_ensure_shape(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfi_shape want = shape_of_attr(&k->attrs[0]), have = dfi_shape_of(x->rank, x->dims), both;
  char a[160], b[160];
  if (!dfi_shape_merge(&have, &want, &both))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the input is %s but must be %s", dfi_shape_text(&have, a),
                    dfi_shape_text(&want, b));
  return dfk_out_forward(k, 0, 0, x->rank, NULL);
}

static df_scalar_fn identity_of(const uint8_t *in, uint8_t out) { return scalar_identity; }
static double cost_nothing(const df_kernel *k) { return 10; }

static const df_op ops[] = {
  { .type = "Const", .lua = "constant", .in = "", .out = "output:any", .attrs = "value:tensor dtype:dtype=invalid",
    .doc = "constant(value, dtype, shape): a value that is known while the graph is built; one number fills the shape",
    .example = "df.constant({1, 2, 3}, 'float32')",
    .output = "[1. 2. 3.] float32[3]",
    .derivative = "none: it has no inputs; one asks for gradients by it",
    .flow = DF_CONSTANT, .no_grad = true, .shape = shape_const },
  { .type = "Placeholder", .lua = "placeholder", .in = "", .out = "output:dtype", .types = "dtype=all",
    .attrs = "dtype:dtype shape:shape=?",
    .doc = "placeholder(dtype, shape, name): a value that each run is fed; running without it is an error",
    .example = "local x = df.placeholder('float32', {-1, 28})",
    .derivative = "none: it has no inputs; one asks for gradients by it",
    .flow = DF_FEED, .no_grad = true, .shape = shape_placeholder },
  { .type = "PlaceholderV2", .in = "", .out = "output:dtype", .types = "dtype=any",
    .attrs = "dtype:dtype shape:shape", .doc = "Placeholder under another name", .flow = DF_FEED, .no_grad = true,
    .shape = shape_placeholder },
  { .type = "PlaceholderWithDefault", .hosted = true, .lua = "placeholder_with_default", .in = "input:T",
    .out = "output:T", .types = "T=any",
    .attrs = "shape:shape=?", .stateful = true, .traits = DFO_REPEATS,
    .doc = "placeholder_with_default(input, shape): what the run is fed, or input where it is fed nothing; shape is "
    "input's unless given",
    .example = "local rate = df.placeholder_with_default(0.1)",
    .derivative = "input = dy",
    .shape = shape_placeholder_with_default, .grad = grad_hand_on, .cost = cost_nothing, .scalar = identity_of,
    .kernel = { [DF_REF] = ref_identity } },
  { .type = "Identity", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES,
    .traits = DFO_PASSES | DFO_CHEAP | DFO_READS_REFERENCE, .fold = DFI_FOLD_PASS, .lua = "identity", .in = "input:T",
    .out = "output:T", .types = "T=all",
    .doc = "T[...] = identity(input T[...]): the same value; nothing is copied",
    .example = "df.identity(df.float32{1, 2})",
    .output = "[1. 2.] float32[2]",
    .derivative = "input = dy",
    .shape = shape_hand_on, .domain = "-1 1", .grad = grad_hand_on, .cost = cost_nothing, .scalar = identity_of,
    .kernel = { [DF_REF] = ref_identity } },
  { .type = "IdentityN", .remote = DFI_REMOTE_MOVES,
    .fold = DFI_FOLD_PASS, .lua = "identity_n", .in = "input:all*", .out = "output:all*",
    .doc = "identity_n(inputs): the same values, all of them once all are there",
    .example = "df.unpack(df.identity_n{df.float32(1), df.int32(2)})",
    .output = "1.0, 2",
    .derivative = "each input gets its own dy",
    .shape = shape_hand_on, .grad = grad_hand_on, .cost = cost_nothing, .kernel = { [DF_REF] = ref_identity } },
  { .type = "StopGradient", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES,
    .traits = DFO_PASSES | DFO_CHEAP | DFO_STOPS, .fold = DFI_FOLD_PASS, .lua = "stop_gradient",
    .in = "input:T", .out = "output:T", .types = "T=any",
    .doc = "T[...] = stop_gradient(input T[...]): the same value, a constant in the eyes of gradients",
    .example = "local x = df.float32(3) return gradients(x * df.stop_gradient(x), x)",
    .output = "3.0",
    .derivative = "none: that is what it is for: gradients take its value for a constant",
    .shape = shape_hand_on, .no_grad = true, .cost = cost_nothing, .scalar = identity_of,
    .kernel = { [DF_REF] = ref_identity } },
  { .type = "PreventGradient", .remote = DFI_REMOTE_MOVES,
    .in = "input:T", .out = "output:T", .types = "T=any", .attrs = "message:string=''",
    .doc = "the same value; asking for its gradient is an error that says message",
    .shape = shape_hand_on, .grad = grad_prevented, .cost = cost_nothing, .scalar = identity_of,
    .kernel = { [DF_REF] = ref_identity } },
  { .type = "Snapshot", .remote = DFI_REMOTE_MOVES,
    .in = "input:T", .out = "output:T", .types = "T=any", .doc = "the same value",
    .shape = shape_hand_on, .grad = grad_hand_on, .cost = cost_nothing, .scalar = identity_of,
    .kernel = { [DF_REF] = ref_identity } },
  { .type = "DeepCopy", .remote = DFI_REMOTE_MOVES,
    .in = "x:T", .out = "y:T", .types = "T=any", .doc = "the same value", .stateful = true,
    .shape = shape_hand_on, .no_grad = true, .cost = cost_nothing, .scalar = identity_of,
    .kernel = { [DF_REF] = ref_identity } },
  { .type = "GuaranteeConst", .remote = DFI_REMOTE_MOVES,
    .in = "input:T", .out = "output:T", .types = "T=any", .doc = "the same value",
    .stateful = true,
    .shape = shape_hand_on, .no_grad = true, .cost = cost_nothing, .scalar = identity_of,
    .kernel = { [DF_REF] = ref_identity } },
  { .type = "EnsureShape", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES,
    .lua = "ensure_shape", .in = "input:T", .out = "output:T", .types = "T=any",
    .attrs = "shape:shape",
    .doc = "T[shape] = ensure_shape(input T[...]; shape): the same value, and an error in a run in which it does not "
    "have this shape",
    .example = "df.ensure_shape(df.float32{{1, 2}}, {shape = {-1, 2}})",
    .output = "[[1. 2.]] float32[1,2]",
    .derivative = "input = dy",
    .shape = shape_ensure, .grad = grad_hand_on, .cost = cost_nothing, .kernel = { [DF_REF] = ref_ensure_shape } },
  { .type = "CustomGradient", .traits = DFO_OWN_GRADIENT, .remote = DFI_REMOTE_MOVES,
    .in = "input:all*", .out = "output:all*-nx", .attrs = "nx:int id:int",
    .doc = "hands on the inputs after the first nx; their gradient is a function that was registered under id, of the "
    "first nx",
    .shape = shape_custom_gradient, .cost = cost_nothing, .kernel = { [DF_REF] = ref_custom_gradient } },
  { .type = "RegisteredGradient", .remote = DFI_REMOTE_MOVES,
    .in = "input:all*", .out = "output:all*-captured",
    .attrs = "captured:int=0 function:string='' results:ints=[] Tout:types=[] gradient_op_type:string=''",
    .doc = "hands on the inputs after the first `captured`; their gradient is what the graph function of that name "
    "makes of the outputs' gradients and of the captured values: result results[i] is that of input i, -1: it has none",
    .shape = shape_custom_gradient, .grad = grad_registered, .cost = cost_nothing,
    .kernel = { [DF_REF] = ref_custom_gradient } },
  { .type = "NoOp", .lua = "no_op", .in = "", .out = "",
    .doc = "no_op(): an operation that does nothing; it runs after its control inputs",
    .example = "df.run(df.no_op())",
    .output = "true",
    .flow = DF_NO_OP, .no_grad = true },
  { .type = "ControlTrigger", .in = "", .out = "", .doc = "an operation that runs after its control inputs, dead or "
    "alive",
    .flow = DF_TRIGGER, .no_grad = true },
  { .type = "Switch", .fold = DFI_FOLD_PASS, .in = "data:T pred:bool", .out = "output_false:T output_true:T",
    .types = "T=all", .flow = DF_SWITCH,
    .doc = "data leaves by the port that pred names; the other port carries a dead token", .shape = shape_switch },
  { .type = "Merge", .in = "inputs:T*", .out = "output:T value_index:int32", .types = "T=all", .flow = DF_MERGE,
    .doc = "the first live input, and which it was; dead once all inputs are", .shape = shape_merge },
  { .type = "Enter", .fold = DFI_FOLD_PASS, .in = "data:T", .out = "output:T", .types = "T=all",
    .attrs = "frame_name:string is_constant:bool=false parallel_iterations:int=32", .flow = DF_ENTER,
    .doc = "data goes into iteration 0 of the frame of this name, or, when it is constant, into all its iterations",
    .shape = shape_enter },
  { .type = "Exit", .in = "data:T", .out = "output:T", .types = "T=all", .flow = DF_EXIT,
    .doc = "data goes back to where its frame was entered from", .shape = shape_hand_on },
  { .type = "NextIteration", .in = "data:T", .out = "output:T", .types = "T=all", .flow = DF_NEXT_ITERATION,
    .doc = "data goes into the next iteration of its frame", .shape = shape_hand_on },
  { .type = "Transfer", .in = "input:T", .out = "output:T", .types = "T=all", .flow = DF_TRANSFER,
    .doc = "the value on another device; plans alone have it", .shape = shape_hand_on, .no_grad = true },
  { .type = "LoopCond", .traits = DFO_PASSES, .in = "input:bool", .out = "output:bool", .flow = DF_LOOP_COND,
    .doc = "the predicate of a while_loop", .shape = shape_loop_cond, .no_grad = true },
};

const dfi_op_table dfi_ops_flow = { ops, (int32_t)(sizeof ops / sizeof *ops) };
