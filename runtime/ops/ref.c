/* ref.c: TensorFlow 1's reference variables, and the ops on references that control flow is made of.
 *
 * A reference is an output whose slot holds a variable's handle while its static dtype and shape are the value's (op.h,
 * `name:&T`). An op that wants the value gets it read by the executor at the moment it runs; an op here that changes
 * the variable gives the reference on, so that what follows it in the graph follows it in time.
 */
#include "resource/variable.h"
#include "base/remote_memory.h"
#include "op/run.h"
#include "graph/grad.h"
#include "resource/tensor_array.h"
#include "kernels/flow.h"
#include <stdio.h>

void *dfi_run_variable(void *run, const df_kernel *k);

/* ---- what is known while building -------------------------------------------------------------------- */

static int32_t shape_variable(dfi_infer *c) {
  const df_attr *a = c->node->attrs;
  *dfi_set_shape(c, 0) = dfi_shape_of((int32_t)a[1].i, a[1].ints);
  return DF_OK;
}

/* The first form of the op said by `[]` that its shape was not known. */
static int32_t shape_variable_v1(dfi_infer *c) {
  const df_attr *a = c->node->attrs;
  *dfi_set_shape(c, 0) = a[1].i == 0 ? dfi_shape_unknown() : dfi_shape_of((int32_t)a[1].i, a[1].ints);
  return DF_OK;
}

static int32_t shape_assign(dfi_infer *c) {
  *dfi_set_shape(c, 0) = c->node->attrs[0].i ? *dfi_in_shape(c, 0) : *dfi_in_shape(c, 1);
  if (c->node->attrs[0].i && dfi_in_shape(c, 0)->rank < 0) *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  return DF_OK;
}

static int32_t shape_switch(dfi_infer *c) {
  c->node->out[0].shape = c->node->out[1].shape = *dfi_in_shape(c, 0);
  return DF_OK;
}

static int32_t shape_merge(dfi_infer *c) {
  if (c->node->nin == 0) return dfi_infer_fail(c, "there is nothing to merge");
  dfi_shape *s = dfi_set_shape(c, 0);
  *s = *dfi_in_shape(c, 0);
  for (int32_t i = 1; i < c->node->nin; i++) dfi_shape_relax(s, dfi_in_shape(c, i), s);
  *dfi_set_shape(c, 1) = dfi_shape_scalar();
  return DF_OK;
}

static int32_t shape_select(dfi_infer *c) {
  if (c->node->nin < 2) return dfi_infer_fail(c, "there is nothing to select");
  dfi_shape *s = dfi_set_shape(c, 0);
  *s = *dfi_in_shape(c, 1);
  for (int32_t i = 2; i < c->node->nin; i++) dfi_shape_relax(s, dfi_in_shape(c, i), s);
  return DF_OK;
}

static int32_t grad_pass(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dy[0];
  return dfg_end(g);
}

/* ---- variables ----------------------------------------------------------------------------------------- */

static int32_t give(df_kernel *k, void *handle) {     /* consumes the reference */
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = handle };
  return DF_OK;
}

static int32_t give_again(df_kernel *k, dfi_variable *v, int32_t code) {
  return code ? code : give(k, dfi_handle_retain(v));
}

static int32_t kernel_variable(df_kernel *k) {
  dfi_variable *v = dfi_run_variable(k->run, k);
  return v ? give(k, v) : k->error->code ? k->error->code : dfk_fail(k, DF_INTERNAL, "the run has no such variable");
}

static int32_t kernel_initialised(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  if (!v) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_BOOL, .as.b = dfi_variable_initialised(v) };
  return DF_OK;
}

/* ref value; validate_shape */
static int32_t kernel_assign(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? give_again(k, v, dfi_variable_replace(v, k->raw[1], dfk_bool(k, 0), k->error)) : k->error->code;
}

static int32_t update(df_kernel *k, dfk_update_op op) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? give_again(k, v, dfi_variable_update(v, op, k->raw[1], NULL, k->error)) : k->error->code;
}
static int32_t kernel_assign_add(df_kernel *k) { return update(k, DFK_ADD); }
static int32_t kernel_assign_sub(df_kernel *k) { return update(k, DFK_SUB); }

/* ref; limit */
static int32_t kernel_count_up_to(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? dfi_variable_count_up(v, dfk_int(k, 0), &k->out[0], k->error) : k->error->code;
}

/* ref indices updates */
static int32_t scatter(df_kernel *k, dfk_update_op op) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? give_again(k, v, dfi_variable_scatter(v, k, op, k->in[1], k->raw[2], NULL)) : k->error->code;
}
static int32_t kernel_scatter_update(df_kernel *k) { return scatter(k, DFK_SET); }
static int32_t kernel_scatter_add(df_kernel *k)    { return scatter(k, DFK_ADD); }
static int32_t kernel_scatter_sub(df_kernel *k)    { return scatter(k, DFK_SUB); }
static int32_t kernel_scatter_mul(df_kernel *k)    { return scatter(k, DFK_MUL); }
static int32_t kernel_scatter_div(df_kernel *k)    { return scatter(k, DFK_DIV); }
static int32_t kernel_scatter_min(df_kernel *k)    { return scatter(k, DFK_MIN); }
static int32_t kernel_scatter_max(df_kernel *k)    { return scatter(k, DFK_MAX); }

static int32_t scatter_nd(df_kernel *k, dfk_update_op op) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? give_again(k, v, dfi_variable_scatter_nd(v, k, op, k->in[1], k->raw[2])) : k->error->code;
}
static int32_t kernel_scatter_nd_update(df_kernel *k) { return scatter_nd(k, DFK_SET); }
static int32_t kernel_scatter_nd_add(df_kernel *k)    { return scatter_nd(k, DFK_ADD); }
static int32_t kernel_scatter_nd_sub(df_kernel *k)    { return scatter_nd(k, DFK_SUB); }

/* ref begin end strides value */
static int32_t kernel_strided_slice_assign(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  return v ? give_again(k, v, dfi_variable_place_slice(v, k, 1, k->raw[4])) : k->error->code;
}

/* index inputs… */
static int32_t kernel_select(df_kernel *k) {
  if (k->raw[0]->kind != DF_SCALAR) return dfk_fail(k, DF_INVALID_ARGUMENT, "index must be a scalar");
  int32_t i = k->raw[0]->as.i32;
  if (i < 0 || i >= k->nin - 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "index is %d, but there are %d inputs", i, k->nin - 1);
  k->out[0] = dfi_value_copy(k->raw[1 + i]);
  return DF_OK;
}

/* ---- temporary variables ------------------------------------------------------------------------------- */

/* A variable of one run and iteration, there from its op to DestroyTemporaryVariable or until it has no holder. */
typedef struct temporary {
  dfi_variable     *variable;
  uint64_t          tag;          /* of the call that made it: equal for the same run, frame and iteration only */
  struct temporary *next;
} temporary;
static temporary *temporaries;
static pthread_mutex_t temporaries_lock = PTHREAD_MUTEX_INITIALIZER;
static __attribute__((constructor)) void guard(void) { dfi_fork_guard(&temporaries_lock, NULL); }
static void (*destroy_variable)(dfi_handle *h);

static uint64_t tag_of(const df_kernel *k) { return dfk_tag(k) ^ dfi_run_id(k->run); }

/* Takes it out of the list. */
static bool forget(const dfi_variable *v) {
  bool found = false;
  pthread_mutex_lock(&temporaries_lock);
  for (temporary **at = &temporaries; *at && !found; at = &(*at)->next)
    if ((found = (*at)->variable == v)) {
      temporary *gone = *at;
      *at = gone->next;
      dfi_free(gone);
      break;
    }
  pthread_mutex_unlock(&temporaries_lock);
  return found;
}

static void destroy_temporary(dfi_handle *h) {
  forget((dfi_variable *)h);
  destroy_variable(h);
}

static const char *temporary_name(const df_kernel *k, int32_t attr) {
  const char *name = dfk_string(k, attr);
  return *name ? name : dfi_node_name(dfi_run_node(k->run));
}

/* dtype shape var_name. Its value is there from the start: zeros. */
static int32_t kernel_temporary(df_kernel *k) {
  dfi_shape shape = dfi_shape_of((int32_t)k->attrs[1].i, k->attrs[1].ints);
  const char *name = temporary_name(k, 2);
  uint64_t tag = tag_of(k);
  char text[160];
  if (!dfi_shape_known(&shape))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "temporary variable '%s' must have a known shape, not %s", name,
                    dfi_shape_text(&shape, text));
  df_tensor *zeros = dfi_tensor_make((uint8_t)dfk_int(k, 0), shape.rank, shape.dims);
  if (!zeros) return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for temporary variable '%s'", name);
  if (dfk_plain(zeros->dtype)) dfi_bytes_zero(zeros->data, zeros->buffer, zeros->size * dfi_dtype_size[zeros->dtype]);
  dfi_variable *v = dfi_variable_new(zeros->dtype, &shape, name);
  dfi_value_from_tensor(&v->value, zeros);
  temporary *entry = dfi_xmalloc(sizeof *entry);
  pthread_mutex_lock(&temporaries_lock);
  const temporary *same = temporaries;
  while (same && (same->tag != tag || strcmp(same->variable->name, name))) same = same->next;
  if (!same) {
    destroy_variable = v->base.destroy;
    v->base.destroy = destroy_temporary;
    *entry = (temporary){ v, tag, temporaries };
    temporaries = entry;
  }
  pthread_mutex_unlock(&temporaries_lock);
  if (!same) return give(k, v);
  dfi_free(entry);
  dfi_handle_release(v);
  return dfk_fail(k, DF_ALREADY_EXISTS, "there is a temporary variable '%s' already", name);
}

/* ref; var_name. Gives the last value. */
static int32_t kernel_destroy_temporary(df_kernel *k) {
  dfi_variable *v = dfi_variable_in(k, 0);
  const char *name = dfk_string(k, 0);
  if (!v) return k->error->code;
  if (strcmp(v->name, name) || !forget(v))
    return dfk_fail(k, DF_NOT_FOUND, "there is no temporary variable '%s'", name);
  return dfi_variable_read(v, &k->out[0], k->error);
}

/* ---- entries --------------------------------------------------------------------------------------------- */

/* HOST: the inputs that are read on the host where a GPU has the variable. */
#define REF(TYPE, HOST, IN, TYPES, ATTRS, DOC, SHAPE, KERNEL) \
  { .type = TYPE, .in = "ref:&T " IN, .out = "output_ref:&T", .types = TYPES, .attrs = ATTRS, .doc = DOC, \
    .work = dfi_work_change, .remote = DFI_REMOTE_MOVES, .host_in = HOST, .stateful = true, .effect = true, \
    .no_grad = true, .shape = SHAPE, \
    .kernel = { [DF_REF] = KERNEL } }
#define SCATTER(TYPE, DOC, TYPES, KERNEL) \
  REF("Scatter" TYPE, 0x2, "indices:I updates:T", "T=" TYPES " I=int32|int64", "", DOC, dfi_shape_same, KERNEL)
#define ANY_NUMBER "number|complex"

static const df_op ops[] = {
  { .type = "VariableV2",
    .traits = DFO_VARIABLE, .remote = DFI_REMOTE_MOVES,
    .in = "",
    .out = "ref:&dtype",
    .types = "dtype=any",
    .attrs = "dtype:dtype shape:shape=? container:string='' shared_name:string=''",
    .doc = "a reference to the session's variable; those of one container and shared name are one variable",
    .stateful = true,
    .no_grad = true,
    .shape = shape_variable,
    .kernel = { [DF_REF] = kernel_variable } },
  { .type = "Variable",
    .traits = DFO_VARIABLE, .remote = DFI_REMOTE_MOVES,
    .in = "",
    .out = "ref:&dtype",
    .types = "dtype=any",
    .attrs = "dtype:dtype shape:shape=? container:string='' shared_name:string=''",
    .doc = "as VariableV2; a shape without dimensions says that it is not known",
    .stateful = true,
    .no_grad = true,
    .shape = shape_variable_v1,
    .kernel = { [DF_REF] = kernel_variable } },
  { .type = "TemporaryVariable", .remote = DFI_REMOTE_MOVES,
    .in = "",
    .out = "ref:&dtype",
    .types = "dtype=any",
    .attrs = "dtype:dtype shape:shape var_name:string=''",
    .doc = "a reference to a variable of this run and iteration, which DestroyTemporaryVariable ends; a second one of "
           "the same name is an error",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = shape_variable,
    .kernel = { [DF_REF] = kernel_temporary } },
  { .type = "DestroyTemporaryVariable", .remote = DFI_REMOTE_MOVES,
    .in = "ref:&T",
    .out = "value:T",
    .types = "T=any",
    .attrs = "var_name:string",
    .doc = "ends the temporary variable of this name and gives its last value",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = dfi_shape_same,
    .kernel = { [DF_REF] = kernel_destroy_temporary } },
  { .type = "IsVariableInitialized", .remote = DFI_REMOTE_LOOKS,
    .in = "ref:&dtype",
    .out = "is_initialized:bool",
    .types = "dtype=any",
    .doc = "whether the variable has a value",
    .stateful = true,
    .no_grad = true,
    .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_initialised } },
  REF("Assign", 0, "value:T", "T=any", "validate_shape:bool=true",
      "the variable has this value from now on; without validate_shape its shape may change", shape_assign,
      kernel_assign),
  REF("AssignAdd", 0, "value:T", "T=" ANY_NUMBER, "", "adds value, of the variable's shape, to the variable",
      dfi_shape_same, kernel_assign_add),
  REF("AssignSub", 0, "value:T", "T=" ANY_NUMBER, "", "subtracts value, of the variable's shape, from the variable",
      dfi_shape_same, kernel_assign_sub),
  { .type = "CountUpTo",
    .in = "ref:&T",
    .out = "output:T",
    .types = "T=int32|int64",
    .attrs = "limit:int",
    .doc = "adds 1 to the variable and gives what it was; out_of_range once it has reached limit",
    .stateful = true,
    .effect = true,
    .no_grad = true,
    .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_count_up_to } },
  SCATTER("Update", "rows `indices` of the variable become updates", "any", kernel_scatter_update),
  SCATTER("Add", "adds updates to rows `indices` of the variable", ANY_NUMBER, kernel_scatter_add),
  SCATTER("Sub", "subtracts updates from rows `indices` of the variable", ANY_NUMBER, kernel_scatter_sub),
  SCATTER("Mul", "multiplies rows `indices` of the variable by updates", ANY_NUMBER, kernel_scatter_mul),
  SCATTER("Div", "divides rows `indices` of the variable by updates", ANY_NUMBER, kernel_scatter_div),
  SCATTER("Min", "the smaller of each element of rows `indices` and of updates", "number", kernel_scatter_min),
  SCATTER("Max", "the larger of each element of rows `indices` and of updates", "number", kernel_scatter_max),
  SCATTER("NdUpdate", "the slices that indices names become updates", "any", kernel_scatter_nd_update),
  SCATTER("NdAdd", "adds updates to the slices that indices names", ANY_NUMBER, kernel_scatter_nd_add),
  SCATTER("NdSub", "subtracts updates from the slices that indices names", ANY_NUMBER, kernel_scatter_nd_sub),
  REF("StridedSliceAssign", 0xe, "begin:I end:I strides:I value:T", "T=any I=int32|int64",
      "begin_mask:int=0 end_mask:int=0 ellipsis_mask:int=0 new_axis_mask:int=0 shrink_axis_mask:int=0",
      "the strided slice of the variable becomes value", dfi_shape_same, kernel_strided_slice_assign),

  { .type = "RefIdentity", .remote = DFI_REMOTE_MOVES,
    .traits = DFO_PASSES,
    .in = "input:&T",
    .out = "output:&T",
    .types = "T=any",
    .doc = "the same reference",
    .shape = dfi_shape_same,
    .grad = grad_pass,
    .stateful = true,
    .kernel = { [DF_REF] = ref_identity } },
  { .type = "RefSelect", .remote = DFI_REMOTE_MOVES, .host_in = 0x1,
    .in = "index:int32 inputs:&T*",
    .out = "output:&T",
    .types = "T=any",
    .doc = "the reference that index names",
    .stateful = true,
    .no_grad = true,
    .shape = shape_select,
    .kernel = { [DF_REF] = kernel_select } },
  { .type = "RefSwitch",
    .in = "data:&T pred:bool",
    .out = "output_false:&T output_true:&T",
    .types = "T=all",
    .flow = DF_SWITCH,
    .doc = "Switch of a reference",
    .shape = shape_switch },
  { .type = "RefMerge",
    .in = "inputs:&T*",
    .out = "output:&T value_index:int32",
    .types = "T=all",
    .flow = DF_MERGE,
    .doc = "Merge of references",
    .shape = shape_merge },
  { .type = "RefEnter",
    .in = "data:&T",
    .out = "output:&T",
    .types = "T=all",
    .attrs = "frame_name:string is_constant:bool=false parallel_iterations:int=10",
    .flow = DF_ENTER,
    .doc = "Enter of a reference",
    .shape = dfi_shape_same },
  { .type = "RefExit",
    .in = "data:&T",
    .out = "output:&T",
    .types = "T=all",
    .flow = DF_EXIT,
    .doc = "Exit of a reference",
    .shape = dfi_shape_same },
  { .type = "RefNextIteration",
    .in = "data:&T",
    .out = "output:&T",
    .types = "T=all",
    .flow = DF_NEXT_ITERATION,
    .doc = "NextIteration of a reference",
    .shape = dfi_shape_same },
};
const dfi_op_table dfi_ops_ref = { ops, (int32_t)(sizeof ops / sizeof *ops) };
