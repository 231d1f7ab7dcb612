/* query.c: what can be told of a graph by looking at it, without a plan or a run.
 */
#include "op/op.h"
#include <stdlib.h>

/* Marks a node and puts it on the list, once. */
static void visit(df_node *n, uint8_t *seen, df_node **list, int32_t *count) {
  if (seen[n->id]) return;
  seen[n->id] = 1;
  list[(*count)++] = n;
}

bool df_output_needs_nothing(df_graph *g, int32_t node, int32_t index) {
  if (node < 0 || node >= g->n || index < 0 || index >= g->node[node]->nout) return false;
  df_node *wanted = g->node[node];
  if (wanted->context->kind != DFI_TOP || wanted->out[index].dtype == DF_RESOURCE) return false;
  uint8_t *seen = dfi_xcalloc((size_t)g->n, 1);
  df_node **list = dfi_xmalloc((size_t)g->n * sizeof *list);
  int32_t count = 0;
  bool nothing = true;
  visit(wanted, seen, list, &count);
  for (int32_t at = 0; at < count && nothing; at++) {
    const df_node *n = list[at];
    const df_op *op = dfi_op_info_at(n->op)->op;
    nothing = op->flow != DF_FEED && !op->effect;
    for (int32_t i = 0; i < n->nin; i++) visit(n->in[i].node, seen, list, &count);
    for (int32_t i = 0; i < n->ncontrol; i++) visit(n->control[i], seen, list, &count);
  }
  dfi_free(list);
  dfi_free(seen);
  return nothing;
}
