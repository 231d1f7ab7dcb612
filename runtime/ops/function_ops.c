/* function_ops.c: functions that call themselves.
 *
 * Functions of a GraphDef are put in line when it is imported (tensorflow/functions.c); one that calls itself cannot
 * be, and those that df.func makes are not (graph/function.c): their nodes stand in the graph once, between FunctionArg
 * and FunctionReturn, and each FunctionCall opens a frame of them, as an Enter does for a loop. The frame's parent is
 * the iteration of the caller; when it is done, what FunctionReturn got are the call's outputs.
 *
 * FunctionTape, FunctionSave and FunctionLoad carry values of a call to its gradient, which is a call of another
 * function. A FunctionSave runs where some FunctionLoad of its slot is needed: plan/find.c. The gradient of a tape is
 * filled by FunctionAdd and read by FunctionLoad.
 */
#include "graph/grad.h"
#include "op/op.h"
#include "resource/tape.h"

static int32_t kernel_tape(df_kernel *k) {
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_tape_new() };
  return DF_OK;
}

static int32_t kernel_save(df_kernel *k) {
  dfi_tape *t = dfi_tape_of(k->raw[0]);
  if (!t) return dfk_fail(k, DF_INVALID_ARGUMENT, "input 0 is no tape of a call");
  dfi_tape_put(t, (int32_t)dfk_int(k, 1), k->raw[1]);
  return DF_OK;
}

static int32_t kernel_load(df_kernel *k) {
  dfi_tape *t = dfi_tape_of(k->raw[0]);
  const int64_t slot = dfk_int(k, 1);
  if (!t) return dfk_fail(k, DF_INVALID_ARGUMENT, "input 0 is no tape of a call");
  df_value v;
  const int32_t code = dfi_tape_get(t, (int32_t)slot, &v, k->error);
  if (code) return code;
  if (v.kind == DF_EMPTY)
    return dfk_fail(k, DF_INTERNAL, "the call of the function `%s` has kept nothing in slot %lld", dfk_string(k, 0),
                    (long long)slot);
  if (v.dtype != k->out_dtype[0]) {
    const uint8_t found = v.dtype;
    dfi_value_drop(&v);
    return dfk_fail(k, DF_INTERNAL, "slot %lld of the function `%s` is %s, not %s", (long long)slot, dfk_string(k, 0),
                    df_dtype_name(found), df_dtype_name(k->out_dtype[0]));
  }
  k->out[0] = v;
  return DF_OK;
}

static int32_t kernel_add(df_kernel *k) {
  dfi_tape *t = dfi_tape_of(k->raw[0]);
  if (!t || !t->forward) return dfk_fail(k, DF_INVALID_ARGUMENT, "input 0 is no gradient of a call's tape");
  const int32_t code = dfi_tape_add(t, (int32_t)dfk_int(k, 1), k->raw[1], k->error);
  if (!code) k->out[0] = dfi_value_copy(k->raw[0]);
  return code;
}

static int32_t grad_add(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[0] = dy[0];
  if (!dfg_wants(g, n, 1)) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  dfi_attr_string(b, "function", n->attrs[0].s);
  dfi_attr_int(b, "slot", n->attrs[1].i);
  dfi_attr_int(b, "dtype", dfi_dtype(n->in[1]));
  dx[1] = dfi_op(b, "FunctionLoad", dy[0]);
  if (dx[1].node) {
    dx[1].node->out[0].shape = *dfi_shape_at(n->in[1]);
    dx[1].node->out[0].of = n->in[1].node->out[n->in[1].index].of;
  }
  return dfg_end(g);
}

static const df_op ops[] = {
  { .type = "FunctionCall", .in = "args:all*", .out = "results:Tout*", .attrs = "function:string Tout:types=[]",
    .doc = "the results of a graph function; each call is a frame", .flow = DF_CALL, .stateful = true, .effect = true },
  { .type = "FunctionBegin", .in = "", .out = "", .attrs = "function:string",
    .doc = "runs when a call of the function begins", .flow = DF_FUNCTION_BEGIN, .no_grad = true },
  { .type = "FunctionBatched", .in = "", .out = "", .attrs = "function:string=''",
    .doc = "in the body of a function: ready nodes of its calls are computed as one", .flow = DF_NO_OP,
    .no_grad = true },
  { .type = "FunctionArg", .in = "", .out = "value:dtype", .types = "dtype=all",
    .attrs = "function:string index:int dtype:dtype",
    .doc = "an argument of the call that the frame belongs to", .flow = DF_FUNCTION_ARG },
  { .type = "FunctionReturn", .in = "results:all*", .out = "", .attrs = "function:string",
    .doc = "takes the results of the call that the frame belongs to", .flow = DF_FUNCTION_RETURN },
  { .type = "FunctionTape", .hosted = true, .traits = DFO_TAPE, .in = "", .out = "tape:resource",
    .attrs = "function:string",
    .doc = "where a call of the function keeps what its gradient needs", .stateful = true, .no_grad = true,
    .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_tape } },
  { .type = "FunctionSave", .hosted = true, .traits = DFO_TAPE, .in = "tape:resource value:all", .out = "",
    .attrs = "function:string slot:int[0..1048575] graded:bool=false",
    .doc = "keeps a value of the call", .stateful = true, .no_grad = true, .kernel = { [DF_REF] = kernel_save } },
  { .type = "FunctionLoad", .hosted = true, .traits = DFO_TAPE | DFO_TAPE_LOADS,
    .in = "tape:resource", .out = "value:dtype", .types = "dtype=all",
    .attrs = "function:string slot:int[0..1048575] dtype:dtype",
    .doc = "a value that the call kept; of the gradient of a tape the gradient of that value",
    .stateful = true, .kernel = { [DF_REF] = kernel_load } },
  { .type = "FunctionAdd", .hosted = true, .traits = DFO_TAPE, .in = "tape:resource value:all",
    .out = "tape_out:resource", .attrs = "function:string slot:int[0..1048575]",
    .doc = "the gradient of a tape, in which value is added to a slot",
    .stateful = true, .shape = dfi_shape_all_scalar, .grad = grad_add, .kernel = { [DF_REF] = kernel_add } },
};
const dfi_op_table dfi_ops_function = { ops, sizeof ops / sizeof *ops };
