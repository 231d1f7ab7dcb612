/* queue.c: queues and what is done with them. The types of TensorFlow 1's first version (FIFOQueue) and of its second
 * (FIFOQueueV2) differ in name only.
 *
 * What a queue holds is known while building where its handle comes straight from the node that makes it; elsewhere it
 * shows when the node runs.
 */
#include "op/run.h"
#include "resource/queue.h"
#include "resource/resource.h"
#include <stdio.h>

/* of the four that make queues */
enum { TYPES = 0, SHAPES, CAPACITY, CONTAINER, SHARED_NAME, MIN_AFTER_DEQUEUE, SEED, SEED2 };

/* ---- what is known while building ------------------------------------------------------------------------ */

static bool is_priority(const df_node *n) { return !strncmp(dfi_op_info_at(n->op)->op->type, "PriorityQueue", 13); }

/* How many components the queue of a node has: a PriorityQueue lists all but the priority. */
static int32_t components(const df_node *n) { return (int32_t)n->attrs[TYPES].i + is_priority(n); }

static uint8_t component_dtype(const df_node *n, int32_t c) {
  bool priority = is_priority(n);
  return priority && c == 0 ? DF_INT64 : (uint8_t)n->attrs[TYPES].ints[c - priority];
}

static dfi_shape component_shape(const df_node *n, int32_t c) {
  bool priority = is_priority(n);
  if (priority && c == 0) return dfi_shape_scalar();
  return n->attrs[SHAPES].i ? dfi_shapes_at(&n->attrs[SHAPES], c - priority) : dfi_shape_unknown();
}

static int32_t check_queue(dfi_infer *c, bool partial) {
  const df_attr *types = &c->node->attrs[TYPES], *shapes = &c->node->attrs[SHAPES];
  c->node->out[0].shape = dfi_shape_scalar();
  int32_t n = dfi_shapes_count(shapes);
  if (!components(c->node)) return dfi_infer_fail(c, "a queue needs at least one component: component_types is empty");
  for (int64_t i = 0; i < types->i; i++)
    if (types->ints[i] == DF_RESOURCE || df_dtype_bytes((int32_t)types->ints[i]) == 0)
      return dfi_infer_fail(c, "a queue cannot hold %s (component %lld)", df_dtype_name((int32_t)types->ints[i]),
                            (long long)i);
  if (n && n != types->i)
    return dfi_infer_fail(
        c, "shapes has %d entries but component_types has %lld: there is one shape per component, or none at all", n,
        (long long)types->i);
  for (int32_t i = 0; i < n && !partial; i++) {
    dfi_shape s = dfi_shapes_at(shapes, i);
    char text[160];
    if (!dfi_shape_known(&s))
      return dfi_infer_fail(
          c, "the shape of component %d is %s but must be known in full; only a PaddingFIFOQueue takes others", i,
          dfi_shape_text(&s, text));
  }
  return DF_OK;
}
static int32_t shape_queue(dfi_infer *c)   { return check_queue(c, false); }
static int32_t shape_padding(dfi_infer *c) { return check_queue(c, true); }

/* The node that made the queue which input 0 is a handle of; NULL where that is not plain to see. */
static const df_node *maker(const dfi_infer *c) {
  const df_node *n = c->node->in[0].node;
  for (;;) {
    const df_op *op = dfi_op_info_at(n->op)->op;
    if (op->flow == DF_PLAIN) return strstr(op->type, "Queue") && !n->nin ? n : NULL;
    if (op->flow == DF_MERGE || !n->nin) return NULL;
    n = n->in[0].node;
  }
}

/* Outputs are elements of the queue; with a batch dimension, unless it is -2. */
static void element_shapes(dfi_infer *c, int64_t batch) {
  const df_node *q = maker(c);
  if (!q || components(q) != c->node->nout) return;
  for (int32_t i = 0; i < c->node->nout; i++) {
    dfi_shape s = component_shape(q, i);
    if (s.rank >= 0 && s.rank < DF_MAX_RANK && batch != -2) {
      memmove(s.dims + 1, s.dims, sizeof *s.dims * (size_t)s.rank);
      s.dims[0] = batch;
      s.rank++;
    } else if (batch != -2) s = dfi_shape_unknown();
    *dfi_set_shape(c, i) = s;
  }
}

static int32_t shape_dequeue(dfi_infer *c) {
  element_shapes(c, -2);
  return DF_OK;
}

static int32_t batch(dfi_infer *c, bool exact) {
  char text[160];
  if (dfi_in_shape(c, 1)->rank > 0)
    return dfi_infer_fail(c, "n is %s but must be a scalar",
                          dfi_typed_shape_text(dfi_in_dtype(c, 1), dfi_in_shape(c, 1), text));
  const df_tensor *n = dfi_in_const(c, 1);
  int64_t known = exact && n ? df_tensor_get_int(n, 0) : -1;
  element_shapes(c, known >= 0 ? known : -1);
  return DF_OK;
}
static int32_t shape_dequeue_many(dfi_infer *c)  { return batch(c, true); }
static int32_t shape_dequeue_up_to(dfi_infer *c) { return batch(c, false); }

/* ---- kernels ----------------------------------------------------------------------------------------------- */

static dfi_handle *make(void *user, df_error *err) { return (dfi_handle *)dfi_queue_new(user, err); }

static int32_t queue_of_kind(df_kernel *k, dfi_queue_kind kind) {
  const df_node *n = dfi_run_node(k->run);
  const char *shared = dfk_string(k, SHARED_NAME);
  int32_t count = components(n);
  bool shaped = k->attrs[SHAPES].i || (kind == DFI_QUEUE_PRIORITY && count == 1);
  uint8_t *dtype = dfi_xcalloc((size_t)count, sizeof *dtype);
  dfi_shape *shape = dfi_xcalloc((size_t)count, sizeof *shape);
  for (int32_t c = 0; c < count; c++) { dtype[c] = component_dtype(n, c); shape[c] = component_shape(n, c); }
  int64_t capacity = dfk_int(k, CAPACITY);
  dfi_queue_spec spec = { .kind = kind,
                          .name = shared[0] ? shared : dfi_node_name((df_node *)n),
                          .n = count,
                          .dtype = dtype,
                          .shape = shaped ? shape : NULL,
                          .capacity = capacity < 0 ? INT64_MAX : capacity,
                          .graph_seed = dfk_graph_seed(k) };
  if (kind == DFI_QUEUE_SHUFFLE) {
    spec.min_after_dequeue = dfk_int(k, MIN_AFTER_DEQUEUE);
    spec.seed = dfk_int(k, SEED);
    spec.seed2 = dfk_int(k, SEED2);
  }
  dfi_queue *q = dfi_resource_get(k->run, DFI_QUEUE, dfk_string(k, CONTAINER), shared, make, &spec, k->error);
  int32_t code = q ? dfi_queue_check(q, &spec, k->error) : k->error->code;
  dfi_free(dtype);
  dfi_free(shape);
  if (!code) k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(q) };
  return code;
}
static int32_t kernel_fifo(df_kernel *k)     { return queue_of_kind(k, DFI_QUEUE_FIFO); }
static int32_t kernel_padding(df_kernel *k)  { return queue_of_kind(k, DFI_QUEUE_PADDING); }
static int32_t kernel_shuffle(df_kernel *k)  { return queue_of_kind(k, DFI_QUEUE_SHUFFLE); }
static int32_t kernel_priority(df_kernel *k) { return queue_of_kind(k, DFI_QUEUE_PRIORITY); }

static dfi_queue *queue_in(df_kernel *k) { return dfi_handle_in(k, 0, DFI_QUEUE); }

/* As queue_in, for those with the attributes (types, timeout_ms). */
static dfi_queue *patient_queue_in(df_kernel *k) {
  if (dfk_int(k, 1) == -1) return queue_in(k);
  dfk_fail(k, DF_INVALID_ARGUMENT, "timeout_ms is %lld: a queue op has no timeout of its own, only the run has",
           (long long)dfk_int(k, 1));
  return NULL;
}

static int32_t kernel_enqueue(df_kernel *k) {
  dfi_queue *q = patient_queue_in(k);
  return q ? dfi_queue_enqueue(q, k) : k->error->code;
}
static int32_t kernel_enqueue_many(df_kernel *k) {
  dfi_queue *q = patient_queue_in(k);
  return q ? dfi_queue_enqueue_many(q, k) : k->error->code;
}
static int32_t kernel_dequeue(df_kernel *k) {
  dfi_queue *q = patient_queue_in(k);
  return q ? dfi_queue_dequeue(q, k) : k->error->code;
}
static int32_t dequeue_many(df_kernel *k, bool up_to) {
  int64_t n;
  dfi_queue *q = patient_queue_in(k);
  if (!q || !dfk_integer(k, 1, "n", &n)) return k->error->code;
  return dfi_queue_dequeue_many(q, k, n, up_to);
}
static int32_t kernel_dequeue_many(df_kernel *k)  { return dequeue_many(k, false); }
static int32_t kernel_dequeue_up_to(df_kernel *k) { return dequeue_many(k, true); }

static int32_t kernel_close(df_kernel *k) {
  dfi_queue *q = queue_in(k);
  return q ? dfi_queue_close(q, k, dfk_bool(k, 0)) : k->error->code;
}
static int32_t kernel_peek(df_kernel *k) {
  int64_t index;
  dfi_queue *q = patient_queue_in(k);
  return q && dfk_integer(k, 1, "index", &index) ? dfi_queue_peek(q, k, index) : k->error->code;
}
static int32_t kernel_clear(df_kernel *k) {
  dfi_queue *q = queue_in(k);
  if (!q) return k->error->code;
  dfi_queue_clear(q);
  return DF_OK;
}
static int32_t kernel_replace(df_kernel *k) {
  dfi_queue *q = queue_in(k), *from = q ? dfi_handle_in(k, 1, DFI_QUEUE) : NULL;
  return from ? dfi_queue_replace(q, from, k) : k->error->code;
}
static int32_t kernel_size(df_kernel *k) {
  dfi_queue *q = queue_in(k);
  if (!q) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)dfi_queue_size(q) };
  return DF_OK;
}
static int32_t kernel_is_closed(df_kernel *k) {
  dfi_queue *q = queue_in(k);
  if (!q) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_BOOL, .as.b = dfi_queue_closed(q) };
  return DF_OK;
}

/* ---- one of several queues -------------------------------------------------------------------------------- */

/* What TensorFlow packs into a tensor of handles is a tensor of variants here. */
static int32_t kernel_pack_handles(df_kernel *k) {
  int64_t n = k->nin;
  df_tensor *t = dfk_out(k, 0, DF_VARIANT, 1, &n);
  if (!t) return DF_RESOURCE_EXHAUSTED;
  for (int32_t i = 0; i < k->nin; i++) {
    if (k->raw[i]->kind != DF_HANDLE) return dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is no handle", i);
    dfk_set_variant(t, i, k->raw[i]->as.handle);
  }
  return DF_OK;
}

static int32_t kernel_gather_handle(df_kernel *k) {
  const df_tensor *handles = k->in[0];
  if (k->in[1]->rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the index of a handle must be a scalar, not of rank %d", k->in[1]->rank);
  int64_t at = dfk_index(k->in[1], 0);
  if (at < 0 || at >= handles->size)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "indices = %lld is not in [0, %lld)", (long long)at,
                    (long long)handles->size);
  void *h = ((void *const *)handles->data)[at];
  if (!h) return dfk_fail(k, DF_INVALID_ARGUMENT, "element %lld of the handles is empty", (long long)at);
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(h) };
  return DF_OK;
}

/* ---- entries ----------------------------------------------------------------------------------------------- */

#define BOTH(OP, TYPE, ...) OP(TYPE, __VA_ARGS__), OP(TYPE "V2", __VA_ARGS__)

/* HOSTED: TensorFlow has it for GPUs, too. */
#define QUEUE(TYPE, HOSTED, ATTRS, SHAPE, KERNEL, DOC) \
  { .type = TYPE, .hosted = HOSTED, .in = "", .out = "handle:handle", \
    .attrs = ATTRS " capacity:int=-1 container:string='' shared_name:string=''", .doc = DOC, \
    .stateful = true, .no_grad = true, .shape = SHAPE, .kernel = { [DF_REF] = KERNEL } }
#define SHUFFLE(TYPE, DOC) \
  { .type = TYPE, .in = "", .out = "handle:handle", \
    .attrs = "component_types:types shapes:shapes=[] capacity:int=-1 container:string='' shared_name:string='' " \
             "min_after_dequeue:int=0 seed:int=0 seed2:int=0", .doc = DOC, \
    .stateful = true, .no_grad = true, .shape = shape_queue, .kernel = { [DF_REF] = kernel_shuffle } }
#define CALL(TYPE, HOSTED, IN, OUT, ATTRS, SHAPE, KERNEL, DOC) \
  { .type = TYPE, .hosted = HOSTED, .in = IN, .out = OUT, .attrs = ATTRS, .doc = DOC, \
    .stateful = true, .effect = true, .waits = true, .no_grad = true, .shape = SHAPE, .kernel = { [DF_REF] = KERNEL } }
#define ASK(TYPE, OUT, KERNEL, DOC) \
  { .type = TYPE, .hosted = true, .in = "handle:handle", .out = OUT, .doc = DOC, \
    .stateful = true, .ordered = true, .no_grad = true, .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = KERNEL } }

#define GIVEN  "component_types:types shapes:shapes=[]"
#define PUT    "Tcomponents:types=[] timeout_ms:int=-1"
#define GET    "component_types:types timeout_ms:int=-1"

static const df_op ops[] = {
  BOTH(QUEUE, "FIFOQueue", true, GIVEN, shape_queue, kernel_fifo,
       "a handle of the session's queue: first in, first out; capacity -1: no bound"),
  BOTH(QUEUE, "PaddingFIFOQueue", false, GIVEN, shape_padding, kernel_padding,
       "a FIFOQueue whose elements may differ where shapes has -1; in a batch they are filled up with zeros"),
  BOTH(QUEUE, "PriorityQueue", false, "component_types:types=[] shapes:shapes=[]", shape_queue, kernel_priority,
       "a handle of the session's queue whose elements begin with an int64 priority: the smallest comes first, equal "
       "ones in order"),
  BOTH(SHUFFLE, "RandomShuffleQueue",
       "a handle of the session's queue that gives its elements in random order; min_after_dequeue stay in it while it "
       "is open"),
  BOTH(CALL, "QueueEnqueue", true, "handle:handle components:Tcomponents*", "", PUT, NULL, kernel_enqueue,
       "puts one element into the queue; waits while it is full; cancelled when it is closed"),
  BOTH(CALL, "QueueEnqueueMany", false, "handle:handle components:Tcomponents*", "", PUT, NULL, kernel_enqueue_many,
       "puts the rows of the components into the queue, one by one as there is room"),
  BOTH(CALL, "QueueDequeue", true, "handle:handle", "components:component_types*", GET, shape_dequeue, kernel_dequeue,
       "takes the next element; waits for one; out_of_range when the queue is closed and empty"),
  BOTH(CALL, "QueueDequeueMany", false, "handle:handle n:int32", "components:component_types*", GET, shape_dequeue_many,
       kernel_dequeue_many,
       "takes n elements, stacked along axis 0; waits for them; out_of_range when the queue is closed and has fewer"),
  BOTH(CALL, "QueueDequeueUpTo", false, "handle:handle n:int32", "components:component_types*", GET,
       shape_dequeue_up_to, kernel_dequeue_up_to,
       "takes n elements, stacked along axis 0, or what a closed queue still has"),
  BOTH(CALL, "QueueClose", true, "handle:handle", "", "cancel_pending_enqueues:bool=false", NULL, kernel_close,
       "nothing more is put into the queue: at once, with cancel_pending_enqueues, or after what waits for room "
       "already"),
  CALL("QueuePeek", false, "handle:handle index:int32", "components:component_types*", GET, shape_dequeue, kernel_peek,
       "the element that is `index` places from the next one, which stays; waits for it"),
  CALL("QueueClear", false, "handle:handle", "", "", NULL, kernel_clear, "lets all elements of the queue go"),
  CALL("QueueReplace", false, "handle:handle from:handle", "", "", NULL, kernel_replace,
       "in one step the queue lets its elements go and holds those of the other, which is empty then; waiters are "
       "served after them"),
  BOTH(ASK, "QueueSize", "size:int32", kernel_size, "how many elements the queue holds"),
  BOTH(ASK, "QueueIsClosed", "is_closed:bool", kernel_is_closed, "whether the queue is closed"),
  { .type = "PackHandles",
    .in = "values:handle*",
    .out = "output:variant",
    .doc = "Pack of handles, for GatherHandle",
    .stateful = true,
    .no_grad = true,
    .kernel = { [DF_REF] = kernel_pack_handles } },
  { .type = "GatherHandle",
    .in = "params:variant indices:Tindices axis:Taxis",
    .out = "output:handle",
    .types = "Tindices=int32|int64 Taxis=int32|int64",
    .doc = "GatherV2 of one handle among those that PackHandles joined",
    .stateful = true,
    .no_grad = true,
    .kernel = { [DF_REF] = kernel_gather_handle } },
};
const dfi_op_table dfi_ops_queue = { ops, (int32_t)(sizeof ops / sizeof *ops) };
