/* unknown.c: the op that stands in an imported graph for one that dflow does not know: an error only when it has to
 * run.
 *
 * Its outputs may be fed, as those of an iterator are, and what does not need it runs.
 */
#include "op/op.h"

enum { OP, NEEDED_BY, TYPES, SHAPES };

static int32_t shape_unknown(dfi_infer *c) {
  const df_node *n = c->node;
  const df_attr *shapes = &n->attrs[SHAPES];
  const bool told = dfi_shapes_count(shapes) == n->nout;
  for (int32_t i = 0; i < n->nout; i++) {
    *dfi_set_shape(c, i) = dfi_shape_unknown();
    if (told) *dfi_set_shape(c, i) = dfi_shapes_at(shapes, i);
  }
  return DF_OK;
}

static int32_t kernel_unknown(df_kernel *k) {
  const char *by = dfk_string(k, NEEDED_BY);
  return dfk_fail(k, DF_UNIMPLEMENTED, "dflow does not know the op %s; %s%s%s. A run that is fed its outputs, or what "
                  "is computed from them, needs no such op", dfk_string(k, OP), *by ? "`" : "it was fetched", by,
                  *by ? "` needs it" : "");
}

static const df_op ops[] = {
  { .type = "Unknown", .in = "args:all*", .out = "results:Tout*", .attrs = "op:string needed_by:string='' "
    "Tout:types=[] output_shapes:shapes=[]",
    .doc = "stands in an imported graph for an op that dflow does not know: an error when it has to run. Its outputs "
    "can be fed",
    .stateful = true, .effect = true, .shape = shape_unknown, .kernel = { [DF_REF] = kernel_unknown } },
};
const dfi_op_table dfi_ops_unknown = { ops, sizeof ops / sizeof *ops };
