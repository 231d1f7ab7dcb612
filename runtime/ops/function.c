/* function.c: functions that call themselves.
 *
 * Functions are put in line when a graph is imported (functions.c). One that calls itself cannot be: its nodes stand in the graph once,
 * between FunctionArg and FunctionReturn, and each FunctionCall opens a frame of them, as an Enter does for a loop. The frame's
 * parent is the iteration of the caller; when it is done, what FunctionReturn got are the call's outputs.
 */
#include "op/op.h"

static const df_op ops[] = {
  { .type = "FunctionCall", .in = "args:all*", .out = "results:Tout*", .attrs = "function:string Tout:types=[]",
    .doc = "the results of a function of an imported graph that calls itself; each call is a frame", .flow = DF_CALL, .stateful = true, .effect = true },
  { .type = "FunctionBegin", .in = "", .out = "", .attrs = "function:string",
    .doc = "runs when a call of the function begins", .flow = DF_FUNCTION_BEGIN, .no_grad = true },
  { .type = "FunctionArg", .in = "", .out = "value:dtype", .types = "dtype=all", .attrs = "function:string index:int dtype:dtype",
    .doc = "an argument of the call that the frame belongs to", .flow = DF_FUNCTION_ARG },
  { .type = "FunctionReturn", .in = "results:all*", .out = "", .attrs = "function:string",
    .doc = "takes the results of the call that the frame belongs to", .flow = DF_FUNCTION_RETURN },
};
const dfi_op_table dfi_ops_function = { ops, sizeof ops / sizeof *ops };
