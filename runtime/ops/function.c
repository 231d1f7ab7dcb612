/* function.c: functions that call themselves.
 *
 * Functions of a GraphDef are put in line when it is imported (tensorflow/functions.c); one that calls itself cannot
 * be, and those that df.func makes are not (graph/function.c): their nodes stand in the graph once, between FunctionArg
 * and FunctionReturn, and each FunctionCall opens a frame of them, as an Enter does for a loop. The frame's parent is
 * the iteration of the caller; when it is done, what FunctionReturn got are the call's outputs.
 *
 * FunctionTape, FunctionSave and FunctionLoad carry values of a call to its gradient, which is a call of another
 * function. A FunctionSave runs where some FunctionLoad of its slot is needed: plan/find.c.
 */
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
  const dfi_tape *t = dfi_tape_of(k->raw[0]);
  const int64_t slot = dfk_int(k, 1);
  if (!t) return dfk_fail(k, DF_INVALID_ARGUMENT, "input 0 is no tape of a call");
  if (slot < 0 || slot >= t->n || t->slot[slot].kind == DF_EMPTY)
    return dfk_fail(k, DF_INTERNAL, "the call of the function `%s` has kept nothing in slot %lld", dfk_string(k, 0),
                    (long long)slot);
  if (t->slot[slot].dtype != k->out_dtype[0])
    return dfk_fail(k, DF_INTERNAL, "slot %lld of the function `%s` is %s, not %s", (long long)slot, dfk_string(k, 0),
                    df_dtype_name(t->slot[slot].dtype), df_dtype_name(k->out_dtype[0]));
  k->out[0] = dfi_value_copy(&t->slot[slot]);
  return DF_OK;
}

static const df_op ops[] = {
  { .type = "FunctionCall", .in = "args:all*", .out = "results:Tout*", .attrs = "function:string Tout:types=[]",
    .doc = "the results of a graph function; each call is a frame", .flow = DF_CALL, .stateful = true, .effect = true },
  { .type = "FunctionBegin", .in = "", .out = "", .attrs = "function:string",
    .doc = "runs when a call of the function begins", .flow = DF_FUNCTION_BEGIN, .no_grad = true },
  { .type = "FunctionArg", .in = "", .out = "value:dtype", .types = "dtype=all",
    .attrs = "function:string index:int dtype:dtype",
    .doc = "an argument of the call that the frame belongs to", .flow = DF_FUNCTION_ARG },
  { .type = "FunctionReturn", .in = "results:all*", .out = "", .attrs = "function:string",
    .doc = "takes the results of the call that the frame belongs to", .flow = DF_FUNCTION_RETURN },
  { .type = "FunctionTape", .in = "", .out = "tape:resource", .attrs = "function:string",
    .doc = "where a call of the function keeps what its gradient needs", .stateful = true, .no_grad = true,
    .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_tape } },
  { .type = "FunctionSave", .in = "tape:resource value:all", .out = "", .attrs = "function:string slot:int",
    .doc = "keeps a value of the call", .stateful = true, .no_grad = true, .kernel = { [DF_REF] = kernel_save } },
  { .type = "FunctionLoad", .in = "tape:resource", .out = "value:dtype", .types = "dtype=all",
    .attrs = "function:string slot:int dtype:dtype",
    .doc = "a value that the call kept", .stateful = true, .kernel = { [DF_REF] = kernel_load } },
};
const dfi_op_table dfi_ops_function = { ops, sizeof ops / sizeof *ops };
