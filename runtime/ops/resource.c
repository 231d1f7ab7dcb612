/* resource.c: TensorFlow's further ops on variables' handles: gathers, parts, counting, the end of one.
 *
 * An op that reads runs the kernel of the op on tensors with the variable's value in place of the handle.
 */
#include "resource/variable.h"
#include "base/remote_memory.h"
#include "device/device.h"
#include "graph/grad.h"
#include "ops/array.h"
#include "kernels/index.h"

/* ---- what is known while building ---------------------------------------------------------------------- */

static const dfi_out *handle_of(const dfi_infer *c) { return &c->node->in[0].node->out[c->node->in[0].index]; }

static int32_t shape_gather(dfi_infer *c) {
  const dfi_shape *p = &handle_of(c)->shape, *ix = dfi_in_shape(c, 1);
  int64_t batch = c->node->attrs[0].i;
  if (p->rank < 1 || ix->rank < batch || p->rank <= batch || p->rank + ix->rank - 1 - batch > DF_MAX_RANK) return DF_OK;
  dfi_shape s = *ix;
  for (int32_t d = (int32_t)batch + 1; d < p->rank; d++) s.dims[s.rank++] = p->dims[d];
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

static int32_t shape_gather_nd(dfi_infer *c) {
  const dfi_shape *p = &handle_of(c)->shape, *ix = dfi_in_shape(c, 1);
  if (p->rank < 0 || ix->rank < 1 || ix->dims[ix->rank - 1] < 0 || ix->dims[ix->rank - 1] > p->rank) return DF_OK;
  int32_t depth = (int32_t)ix->dims[ix->rank - 1];
  if (ix->rank - 1 + p->rank - depth > DF_MAX_RANK) return DF_OK;
  dfi_shape s = dfi_shape_of(ix->rank - 1, ix->dims);
  for (int32_t d = depth; d < p->rank; d++) s.dims[s.rank++] = p->dims[d];
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

/* ---- gradients -------------------------------------------------------------------------------------------- */

static int32_t grad_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (n->attrs[0].i) return dfg_fail(g, n, "ResourceGather with batch_dims has no gradient");
  dfi_grad_sparse_rows(g, n, dy[0]);
  return dfg_end(g);
}

/* ---- kernels ------------------------------------------------------------------------------------------------ */

/* fn, or the GPU's kernel of the op `type` where the value lies on one that has it, with the value as input 0, and
 * `last` (may be NULL) as one input more. */
static int32_t run_on(df_kernel *k, df_kernel_fn fn, const df_value *value, const df_tensor *last) {
  df_tensor number = { .refs = 1, .dtype = value->dtype, .view = 1, .size = 1, .data = (void *)&value->as };
  const df_tensor *in[3] = { value->kind == DF_TENSOR ? value->as.tensor : &number, k->in[1], last };
  const df_value *raw[3] = { value, k->raw[1], NULL };
  df_kernel inner = *k;
  inner.in = in;
  inner.raw = raw;
  inner.nin = last ? 3 : 2;
  inner.reusable = 0;
  return fn(&inner);
}

static int32_t on_value(df_kernel *k, df_kernel_fn fn, const char *type, const df_tensor *last) {
  dfi_variable *v = dfi_variable_in(k, 0);
  df_value there, value;
  if (!v || dfi_variable_missing(k, dfi_variable_read(v, &there, k->error))) return k->error->code;
  const uint8_t in[3] = { there.dtype, k->in[1]->dtype, DF_INT32 };
  const dfi_gpu_kernel *gpu = there.kind == DF_TENSOR && !dfi_readable(there.as.tensor) &&
                                      there.as.tensor->buffer->arena == dfi_devmem_here
                                  ? dfi_gpu_kernel_of(type)
                                  : NULL;
  if (gpu && (!gpu->takes || gpu->takes(last ? 3 : 2, in, 1, in))) {
    const int32_t code = run_on(k, gpu->run, &there, last);
    dfi_value_drop(&there);
    return code;
  }
  const bool here = dfi_value_on_host(&there, &value);
  dfi_value_drop(&there);
  if (!here)
    return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "the value of variable '%s' could not be brought to the host", v->name);
  dfi_devmem *before = dfi_devmem_use(NULL);            /* the host's kernel makes what the host can write */
  const int32_t code = run_on(k, fn, &value, last);
  dfi_devmem_use(before);
  dfi_value_drop(&value);
  return code;
}

/* resource indices; batch_dims */
static int32_t kernel_gather(df_kernel *k) {
  int32_t axis = (int32_t)dfk_int(k, 0);
  df_tensor along = { .refs = 1, .dtype = DF_INT32, .view = 1, .size = 1, .data = &axis };
  return on_value(k, cpu_gather, "GatherV2", &along);
}
static int32_t kernel_gather_nd(df_kernel *k) { return on_value(k, cpu_gather_nd, "GatherNd", NULL); }

static int32_t kernel_count_up_to(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? dfi_variable_missing(k, dfi_variable_count_up(v, dfk_int(k, 0), &k->out[0], k->error)) : k->error->code;
}

static int32_t scatter_nd(df_kernel *k, dfk_update_op op) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? dfi_variable_missing(k, dfi_variable_scatter_nd(v, k, op, k->in[1], k->raw[2])) : k->error->code;
}
static int32_t kernel_scatter_nd_update(df_kernel *k) { return scatter_nd(k, DFK_SET); }
static int32_t kernel_scatter_nd_add(df_kernel *k)    { return scatter_nd(k, DFK_ADD); }
static int32_t kernel_scatter_nd_sub(df_kernel *k)    { return scatter_nd(k, DFK_SUB); }
static int32_t kernel_scatter_nd_min(df_kernel *k)    { return scatter_nd(k, DFK_MIN); }
static int32_t kernel_scatter_nd_max(df_kernel *k)    { return scatter_nd(k, DFK_MAX); }

/* ref begin end strides value */
static int32_t kernel_strided_slice_assign(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? dfi_variable_place_slice(v, k, 1, k->raw[4]) : k->error->code;
}

/* resource; ignore_lookup_error. What is no variable ends with its last user. */
static int32_t kernel_destroy(df_kernel *k) {
  dfi_handle *h = k->raw[0]->kind == DF_HANDLE ? k->raw[0]->as.handle : NULL;
  if (!h || h->type != DFI_VARIABLE) return DF_OK;
  dfi_variable *v = (dfi_variable *)h;
  if (!dfi_variable_initialised(v) && !dfk_bool(k, 0))
    return dfk_fail(k, DF_NOT_FOUND, "variable '%s' does not exist", v->name);
  dfi_variable_reset(v);
  return DF_OK;
}

/* ---- entries -------------------------------------------------------------------------------------------------- */

#define CHANGE(TYPE, IN, TYPES, ATTRS, DOC, KERNEL, ...) \
  { .type = TYPE, __VA_ARGS__ .in = IN, .out = "", .types = TYPES, .attrs = ATTRS, .doc = DOC, \
    .work = dfi_work_change, .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = KERNEL } }
#define SCATTER_ND(OP, DOC, TYPES, KERNEL) \
  CHANGE("ResourceScatterNd" OP, "ref:handle indices:I updates:T", "T=" TYPES " I=int32|int64", "", DOC, KERNEL, \
         .remote = DFI_REMOTE_MOVES, .host_in = 0x2, )

static const df_op ops[] = {
  { .type = "ResourceGather", .work = dfi_work_part, .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .in = "resource:handle indices:I",
    .out = "output:dtype",
    .types = "dtype=any I=int32|int64",
    .attrs = "batch_dims:int=0 dtype:dtype",
    .doc = "rows of the variable, as GatherV2",
    .stateful = true,
    .shape = shape_gather,
    .grad = grad_gather,
    .kernel = { [DF_REF] = kernel_gather } },
  { .type = "ResourceGatherNd", .work = dfi_work_part, .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .in = "resource:handle indices:I",
    .out = "output:dtype",
    .types = "dtype=any I=int32|int64",
    .attrs = "dtype:dtype",
    .doc = "slices of the variable, as GatherNd",
    .stateful = true,
    .shape = shape_gather_nd,
    .grad = dfi_grad_gather_nd,
    .kernel = { [DF_REF] = kernel_gather_nd } },
  { .type = "ResourceCountUpTo",
    .in = "resource:handle",
    .out = "output:T",
    .types = "T=int32|int64",
    .attrs = "limit:int T:dtype",
    .doc = "adds 1 to the variable and gives what it was; out_of_range once it has reached limit",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_count_up_to } },
  SCATTER_ND("Update", "the slices that indices names become updates", "any", kernel_scatter_nd_update),
  SCATTER_ND("Add", "adds updates to the slices that indices names", "number|complex", kernel_scatter_nd_add),
  SCATTER_ND("Sub", "subtracts updates from the slices that indices names", "number|complex", kernel_scatter_nd_sub),
  SCATTER_ND("Min", "the smaller of each element of the slices that indices names and of updates", "number",
             kernel_scatter_nd_min),
  SCATTER_ND("Max", "the larger of each element of the slices that indices names and of updates", "number",
             kernel_scatter_nd_max),
  CHANGE("ResourceStridedSliceAssign", "ref:handle begin:I end:I strides:I value:T", "T=any I=int32|int64",
         "begin_mask:int=0 end_mask:int=0 ellipsis_mask:int=0 new_axis_mask:int=0 shrink_axis_mask:int=0",
         "the strided slice of the variable becomes value", kernel_strided_slice_assign,
         .remote = DFI_REMOTE_MOVES, .host_in = 0xe, ),
  CHANGE("DestroyResourceOp", "resource:handle", "", "ignore_lookup_error:bool=true",
         "the variable is as it was before its first assignment", kernel_destroy,
         .hosted = true, ),
};
const dfi_op_table dfi_ops_resource = { ops, (int32_t)(sizeof ops / sizeof *ops) };
