/* host.c: ops that the program around the library computes: df.lua_func. */
#include "op/op.h"
#include "resource/host.h"

static int32_t shape_host(dfi_infer *c) {
  const df_attr *shapes = &c->node->attrs[3];
  for (int32_t i = 0; i < c->node->nout && i < dfi_shapes_count(shapes); i++)
    *dfi_set_shape(c, i) = dfi_shapes_at(shapes, i);
  return DF_OK;
}

#define ATTRS "host:int id:int Tout:types=[] shapes:shapes=[]"
static const df_op ops[] = {
  { .type = "HostCall", .traits = DFO_HOST, .in = "inputs:any*", .out = "results:Tout*", .attrs = ATTRS,
    .stateful = true, .effect = true, .waits = true,
    .doc = "what a function of the program gives for these values; it is called each time, in program order",
    .shape = shape_host,
    .kernel = { [DF_REF] = dfi_host_kernel } },
  { .type = "HostCallStateless", .traits = DFO_HOST, .in = "inputs:any*", .out = "results:Tout*", .attrs = ATTRS,
    .stateful = true, .waits = true,
    .doc = "as HostCall, of a function that only computes: it is called where its result is needed",
    .shape = shape_host,
    .kernel = { [DF_REF] = dfi_host_kernel } },
};
const dfi_op_table dfi_ops_host = { ops, sizeof ops / sizeof *ops };
