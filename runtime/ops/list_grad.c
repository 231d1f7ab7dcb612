/* list_grad.c: gradients of the TensorList ops.
 *
 * The gradient of a list is a list of its elements' gradients, as long as it; one that is not set stands for zeros.
 */
#include "resource/list.h"


/* The shape of a row of input i: int32[rank - 1]. */
static df_output row_shape(dfi_grad *g, df_node *n, int32_t i) {
  dfi_build *b = dfg_build(g);
  const dfi_shape *s = dfi_shape_at(n->in[i]);
  if (s->rank > 0) {
    bool known = true;
    for (int32_t d = 1; d < s->rank; d++) known = known && s->dims[d] >= 0;
    if (known) return dfi_const_ints(b, s->rank - 1, s->dims + 1);
  }
  return dfi_op(b, "Slice", dfg_in_shape(g, n, i), dfi_const_ints(b, 1, (int64_t[]){ 1 }),
                dfi_const_ints(b, 1, (int64_t[]){ -1 }));
}

/* [-1, rest of the shape of t…] */
static df_output parts_shape(dfi_build *b, df_output shape) {
  df_output rest =
      dfi_op(b, "Slice", shape, dfi_const_ints(b, 1, (int64_t[]){ 1 }), dfi_const_ints(b, 1, (int64_t[]){ -1 }));
  return dfi_op(b, "ConcatV2", dfi_const_ints(b, 1, (int64_t[]){ -1 }), rest, dfi_const_int(b, 0));
}

static df_output list_length(dfi_grad *g, df_node *n) {
  return dfi_op(dfg_build(g), "TensorListLength", dfg_in(g, n, 0));
}
static df_output list_shape(dfi_grad *g, df_node *n) {
  df_output list = dfg_in(g, n, 0);
  dfi_attr_int(dfg_build(g), "shape_type", DF_INT32);
  return dfi_op(dfg_build(g), "TensorListElementShape", list);
}
static df_output zeros(dfi_grad *g, df_node *n, int32_t i) {
  return dfi_op(dfg_build(g), "ZerosLike", dfg_in(g, n, i));
}

int32_t dfi_grad_list_push(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output shape = dfg_in_shape(g, n, 1);
  dfi_attr_int(b, "element_dtype", dfi_dtype(n->in[1]));
  df_node *back = dfi_opnode(b, "TensorListPopBack", 2, (df_output[]){ dy[0], shape });
  if (back) { dx[0] = (df_output){ back, 0 }; dx[1] = (df_output){ back, 1 }; }
  return dfg_end(g);
}

int32_t dfi_grad_list_pop(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output list = dy[0], element = dy[1];
  if (!list.node) {
    df_output shape = list_shape(g, n), length = dfi_op(b, "Sub", list_length(g, n), dfi_const_int(b, 1));
    dfi_attr_int(b, "element_dtype", n->out[1].dtype);
    list = dfi_op(b, "TensorListReserve", shape, length);
  }
  if (!element.node) element = dfi_op(b, "ZerosLike", dfg_out(g, n, 1));
  dx[0] = dfi_op(b, "TensorListPushBack", list, element);
  return dfg_end(g);
}

int32_t dfi_grad_list_from_tensor(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output shape = row_shape(g, n, 0);
  dfi_attr_int(b, "element_dtype", dfi_dtype(n->in[0]));
  dx[0] = dfi_op(b, "TensorListStack", dy[0], shape);
  return dfg_end(g);
}

int32_t dfi_grad_list_stack(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "TensorListFromTensor", dy[0], list_shape(g, n));
  return dfg_end(g);
}

int32_t dfi_grad_list_concat(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (!dy[0].node) return dfg_end(g);
  dx[0] = dfi_op(b, "TensorListSplit", dy[0], parts_shape(b, dfi_op(b, "Shape", dy[0])), dfg_out(g, n, 1));
  return dfg_end(g);
}

int32_t dfi_grad_list_split(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output shape = parts_shape(b, dfg_in_shape(g, n, 0)), lengths = dfg_in(g, n, 2);
  dfi_attr_int(b, "element_dtype", dfi_dtype(n->in[0]));
  dx[0] = dfi_op(b, "TensorListConcatV2", dy[0], shape, lengths);
  return dfg_end(g);
}

int32_t dfi_grad_list_get(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output shape = list_shape(g, n), length = list_length(g, n), index = dfg_in(g, n, 1);
  dfi_attr_int(b, "element_dtype", n->out[0].dtype);
  dx[0] = dfi_op(b, "TensorListSetItem", dfi_op(b, "TensorListReserve", shape, length), index, dy[0]);
  return dfg_end(g);
}

/* The element that was replaced has none: its place is zeros of the item's shape. */
int32_t dfi_grad_list_set(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output index = dfg_in(g, n, 1);
  if (dfg_wants(g, n, 2)) {
    df_output shape = dfg_in_shape(g, n, 2);
    dfi_attr_int(b, "element_dtype", dfi_dtype(n->in[2]));
    dx[2] = dfi_op(b, "TensorListGetItem", dy[0], index, shape);
  }
  if (dfg_wants(g, n, 0))
    dx[0] =
        dfi_op(b, "TensorListResize", dfi_op(b, "TensorListSetItem", dy[0], index, zeros(g, n, 2)), list_length(g, n));
  return dfg_end(g);
}

int32_t dfi_grad_list_resize(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "TensorListResize", dy[0], list_length(g, n));
  return dfg_end(g);
}

int32_t dfi_grad_list_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "TensorListGatherGrad", dfg_in(g, n, 0), dy[0], dfg_in(g, n, 1));
  return dfg_end(g);
}

static df_output gathered(dfi_grad *g, df_node *n, df_output dy, int32_t tensor, int32_t indices) {
  dfi_build *b = dfg_build(g);
  df_output ix = dfg_in(g, n, indices), shape = row_shape(g, n, tensor);
  dfi_attr_int(b, "element_dtype", dfi_dtype(n->in[tensor]));
  return dfi_op(b, "TensorListGather", dy, ix, shape);
}

int32_t dfi_grad_list_gather_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[1] = gathered(g, n, dy[0], 1, 2);
  return dfg_end(g);
}

int32_t dfi_grad_list_scatter(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = gathered(g, n, dy[0], 0, 1);
  return dfg_end(g);
}

int32_t dfi_grad_list_scatter_into(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (dfg_wants(g, n, 1)) dx[1] = gathered(g, n, dy[0], 1, 2);
  if (dfg_wants(g, n, 0))
    dx[0] = dfi_op(b, "TensorListResize",
                   dfi_op(b, "TensorListScatterIntoExistingList", dy[0], zeros(g, n, 1), dfg_in(g, n, 2)),
                   list_length(g, n));
  return dfg_end(g);
}
