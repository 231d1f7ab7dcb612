/* staging.c: staging areas: what one run puts there, another takes, as an input pipeline does that copies the next
 * batch to a GPU while the last one is worked on.
 *
 * A staging area has no handle: each of its ops finds it by container and shared name, and the first one that runs
 * makes it. It is a FIFO without shapes that is never closed (resource/queue.h).
 */
#include "op/run.h"
#include "resource/queue.h"
#include "resource/resource.h"

enum { CAPACITY, MEMORY_LIMIT, CONTAINER, SHARED_NAME, DTYPES };

static dfi_handle *make(void *user, df_error *err) { return (dfi_handle *)dfi_queue_new(user, err); }

/* The area that the node of k names, borrowed for the session's life; NULL: error is filled. */
static dfi_queue *area_of(df_kernel *k) {
  const df_attr *types = &k->attrs[DTYPES];
  uint8_t dtype[64];
  if (types->i < 1 || types->i > 64) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "dtypes lists %lld types: a staging area has 1 to 64 components",
             (long long)types->i);
    return NULL;
  }
  if (dfk_int(k, MEMORY_LIMIT) > 0) {
    dfk_fail(k, DF_UNIMPLEMENTED, "memory_limit is %lld: a staging area here is bounded by its capacity alone",
             (long long)dfk_int(k, MEMORY_LIMIT));
    return NULL;
  }
  for (int64_t i = 0; i < types->i; i++) dtype[i] = (uint8_t)types->ints[i];
  const char *shared = dfk_string(k, SHARED_NAME);
  const int64_t capacity = dfk_int(k, CAPACITY);
  const dfi_queue_spec spec = { .kind = DFI_QUEUE_STAGING, .noun = "staging area", .n = (int32_t)types->i,
                                .dtype = dtype,
                                .name = shared[0] ? shared : dfi_node_name(dfi_run_node(k->run)),
                                .capacity = capacity > 0 ? capacity : INT64_MAX };
  dfi_queue *q = dfi_resource_get(k->run, DFI_QUEUE, dfk_string(k, CONTAINER), shared, make, (void *)&spec, k->error);
  return q && dfi_queue_check(q, &spec, k->error) ? NULL : q;
}

static int32_t kernel_stage(df_kernel *k) {
  dfi_queue *q = area_of(k);
  return q ? dfi_queue_enqueue(q, k) : k->error->code;
}
static int32_t kernel_unstage(df_kernel *k) {
  dfi_queue *q = area_of(k);
  return q ? dfi_queue_dequeue(q, k) : k->error->code;
}
static int32_t kernel_peek(df_kernel *k) {
  int64_t index;
  dfi_queue *q = area_of(k);
  return q && dfk_integer(k, 0, "index", &index) ? dfi_queue_peek(q, k, index) : k->error->code;
}
static int32_t kernel_size(df_kernel *k) {
  dfi_queue *q = area_of(k);
  if (!q) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)dfi_queue_size(q) };
  return DF_OK;
}
static int32_t kernel_clear(df_kernel *k) {
  dfi_queue *q = area_of(k);
  if (!q) return k->error->code;
  dfi_queue_clear(q);
  return DF_OK;
}

#define WHICH "capacity:int=0 memory_limit:int=0 container:string='' shared_name:string=''"
#define ENTRY(TYPE, IN, OUT, TYPES, WAITS, KERNEL, DOC) \
  { .type = TYPE, .hosted = true, .in = IN, .out = OUT, .attrs = WHICH " dtypes:types" TYPES, .doc = DOC, \
    .stateful = true, \
    .effect = true, .waits = WAITS, .no_grad = true, .kernel = { [DF_REF] = KERNEL } }

static const df_op ops[] = {
  ENTRY("Stage", "values:dtypes*", "", "=[]", true, kernel_stage,
        "puts the values into the session's staging area of that name; waits while it holds `capacity` elements"),
  ENTRY("Unstage", "", "values:dtypes*", "", true, kernel_unstage,
        "takes the next element of the staging area; waits for one"),
  ENTRY("StagePeek", "index:int32", "values:dtypes*", "", true, kernel_peek,
        "the element of the staging area that is `index` places from the next one, which stays; waits for it"),
  { .type = "StageSize", .hosted = true, .in = "", .out = "size:int32", .attrs = WHICH " dtypes:types",
    .doc = "how many elements the staging area holds", .stateful = true, .ordered = true, .no_grad = true,
    .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = kernel_size } },
  ENTRY("StageClear", "", "", "", false, kernel_clear, "lets all elements of the staging area go"),
};
const dfi_op_table dfi_ops_staging = { ops, (int32_t)(sizeof ops / sizeof *ops) };
