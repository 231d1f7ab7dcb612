/* list.h: what a TensorList's variant holds: a list of tensors of one dtype, as a value.
 *
 * A list is never changed once it may have another holder: an op that changes one works on a copy (which shares the
 * elements), or on the list itself where it is the last to hold it. An element may be missing (kind DF_EMPTY): it reads
 * as zeros.
 */
#ifndef DFLOW_LIST_H
#define DFLOW_LIST_H
#include "op/op.h"
#include "graph/grad.h"

typedef struct dfi_list {
  dfi_handle base;
  uint8_t    dtype;
  dfi_shape  element;          /* what every element must fit */
  int64_t    most;             /* elements at most; -1: any number */
  int64_t    n, capacity;
  df_value  *item;             /* owned */
} dfi_list;

/* One reference, owned; its n elements are missing. */
dfi_list *dfi_list_new(uint8_t dtype, const dfi_shape *element, int64_t n);
dfi_list *dfi_list_copy(const dfi_list *l);
void      dfi_list_resize(dfi_list *l, int64_t n);
void      dfi_list_push(dfi_list *l, const df_value *v);                 /* v borrowed */
void      dfi_list_set(dfi_list *l, int64_t i, const df_value *v);       /* v borrowed */

/* Gradients: ops/list_grad.c. */
int32_t dfi_grad_list_from_tensor(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_scatter(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_scatter_into(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_split(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_push(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_pop(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_get(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_set(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_stack(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_gather_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_concat(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_list_resize(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
#endif
