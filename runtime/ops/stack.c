/* stack.c: stacks. Each time a Stack node runs it makes a new one, which goes with the last token that holds its
 * handle, so a stack never outlives its run. Order of pushes and pops is the graph's own: control edges say it.
 */
#include "op/op.h"
#include "op/run.h"
#include "resource/resource.h"
#include "resource/tensor_array.h"
#include <stdio.h>

typedef struct stack {
  dfi_handle      base;
  const char     *name;          /* borrowed from the graph */
  uint8_t         dtype;         /* of its elements */
  int64_t         most;          /* elements it may hold; INT64_MAX: no bound */
  pthread_mutex_t lock;          /* guards what follows */
  df_value       *value;
  int64_t         n, room;
  bool            closed;
} stack;

static void empty(stack *s) {
  for (int64_t i = 0; i < s->n; i++) dfi_value_drop(&s->value[i]);
  dfi_free(s->value);
  s->value = NULL;
  s->n = s->room = 0;
}

static void destroy(dfi_handle *h) {
  stack *s = (stack *)h;
  empty(s);
  pthread_mutex_destroy(&s->lock);
  dfi_free(s);
}

static stack *stack_in(df_kernel *k) { return dfi_handle_in(k, 0, DFI_STACK); }

/* ---- kernels ----------------------------------------------------------------------------------------------- */

static int32_t make(df_kernel *k, int64_t most) {
  const char *name = dfk_string(k, 1);
  df_node *n = dfi_run_node(k->run);
  stack *s = dfi_xcalloc(1, sizeof *s);
  *s = (stack){ .base = { .refs = 1, .type = DFI_STACK, .destroy = destroy }, .name = name[0] ? name : dfi_node_name(n),
                .dtype = (uint8_t)dfk_int(k, 0), .most = most < 0 ? INT64_MAX : most };
  pthread_mutex_init(&s->lock, NULL);
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = s };
  return DF_OK;
}

static int32_t kernel_stack(df_kernel *k) { return make(k, -1); }
static int32_t kernel_stack_v2(df_kernel *k) {
  int64_t most;
  return dfk_integer(k, 0, "max_size", &most) ? make(k, most) : k->error->code;
}

static int32_t push(df_kernel *k, stack *s) {
  if (k->raw[1]->dtype != s->dtype)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "stack '%s' holds %s but is given %s", s->name, df_dtype_name(s->dtype),
                    df_dtype_name(k->raw[1]->dtype));
  if (s->closed) return dfk_fail(k, DF_INVALID_ARGUMENT, "stack '%s' is closed already", s->name);
  if (s->n >= s->most)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "stack '%s' is full: it holds %lld of max_size %lld", s->name,
                    (long long)s->n, (long long)s->most);
  if (s->n == s->room) {
    s->room = s->room ? 2 * s->room : 8;
    s->value = dfi_xrealloc(s->value, sizeof *s->value * (size_t)s->room);
  }
  df_value v = dfi_value_copy(k->raw[1]);
  v.dead = v.flags = 0;
  v.uses = 0;
  s->value[s->n++] = v;
  k->out[0] = dfi_value_copy(&v);
  return DF_OK;
}

static int32_t pop(df_kernel *k, stack *s) {
  if (k->out_dtype[0] != s->dtype)
    return dfk_fail(k, DF_INTERNAL, "stack '%s' holds %s but %s is asked for", s->name, df_dtype_name(s->dtype),
                    df_dtype_name(k->out_dtype[0]));
  if (s->closed) return dfk_fail(k, DF_INVALID_ARGUMENT, "stack '%s' is closed already", s->name);
  if (!s->n) return dfk_fail(k, DF_INVALID_ARGUMENT, "stack '%s' is empty", s->name);
  k->out[0] = s->value[--s->n];
  return DF_OK;
}

static int32_t locked(df_kernel *k, int32_t (*fn)(df_kernel *, stack *)) {
  stack *s = stack_in(k);
  if (!s) return k->error->code;
  pthread_mutex_lock(&s->lock);
  int32_t code = fn(k, s);
  pthread_mutex_unlock(&s->lock);
  return code;
}

static int32_t close_it(df_kernel *k, stack *s) {
  (void)k;
  empty(s);
  s->closed = true;
  return DF_OK;
}

static int32_t kernel_push(df_kernel *k) {
  int32_t code = locked(k, push);
  if (!code) dfi_run_count_push(k->run);
  return code;
}
static int32_t kernel_pop(df_kernel *k) {
  int32_t code = locked(k, pop);
  if (!code) dfi_run_count_pop(k->run);
  return code;
}
static int32_t kernel_close(df_kernel *k) { return locked(k, close_it); }

/* ---- entries ----------------------------------------------------------------------------------------------- */

static int32_t shape_stack(dfi_infer *c) {
  char text[160];
  c->node->out[0].of = (uint8_t)c->node->attrs[0].i;
  c->node->out[0].shape = dfi_shape_unknown();
  if (c->node->nin && dfi_in_shape(c, 0)->rank > 0)
    return dfi_infer_fail(c, "max_size is %s but must be a scalar",
                          dfi_typed_shape_text(DF_INT32, dfi_in_shape(c, 0), text));
  return DF_OK;
}

static int32_t shape_push(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  if (c->node->out[0].dtype == DF_RESOURCE) c->node->out[0].of = c->node->in[1].node->out[c->node->in[1].index].of;
  return DF_OK;
}

#define ATTRS "elem_type:dtype stack_name:string=''"
#define STACK(TYPE, IN, KERNEL) \
  { .type = TYPE, .hosted = true, .in = IN, .out = "handle:handle", .attrs = ATTRS, \
    .doc = "a handle of a new stack of elem_type, which goes with the run; max_size < 0: no bound", \
    .stateful = true, .no_grad = true, .shape = shape_stack, .kernel = { [DF_REF] = KERNEL } }
#define PUSH(TYPE) \
  { .type = TYPE, .hosted = true, .in = "handle:handle elem:T", .out = "output:T", .types = "T=all", \
    .attrs = "swap_memory:bool=false", \
    .doc = "elem, which lies on top of the stack from now on", \
    .stateful = true, .effect = true, .no_grad = true, .shape = shape_push, .kernel = { [DF_REF] = kernel_push } }
#define POP(TYPE) \
  { .type = TYPE, .hosted = true, .in = "handle:handle", .out = "elem:elem_type", .types = "elem_type=all", \
    .attrs = "elem_type:dtype", \
    .doc = "what lay on top of the stack, which is taken off", \
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_pop } }
#define CLOSE(TYPE) \
  { .type = TYPE, .hosted = true, .in = "handle:handle", .out = "", .doc = "the stack is emptied and takes no more", \
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_close } }

static const df_op ops[] = {
  STACK("Stack", "", kernel_stack),
  STACK("StackV2", "max_size:int32", kernel_stack_v2),
  PUSH("StackPush"),
  PUSH("StackPushV2"),
  POP("StackPop"),
  POP("StackPopV2"),
  CLOSE("StackClose"),
  CLOSE("StackCloseV2"),
};
const dfi_op_table dfi_ops_stack = { ops, (int32_t)(sizeof ops / sizeof *ops) };
