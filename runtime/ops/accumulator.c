/* accumulator.c: conditional accumulators of a session: gradients of several workers are added up until somebody takes
 * their mean. Graphs that train in step (SyncReplicasOptimizer) have one for each variable.
 *
 * A gradient of an older step than the accumulator's is left out. Who takes waits in line until as many are there as it
 * requires; taking empties the accumulator and counts its step on. The types of TensorFlow's first version
 * (ConditionalAccumulator) and of its second (ResourceConditionalAccumulator) differ in name only.
 */
#include "op/op.h"
#include "op/run.h"
#include "resource/resource.h"
#include "resource/variable.h"
#include "kernels/half.h"
#include <stdio.h>

enum { DTYPE, SHAPE, CONTAINER, SHARED_NAME, REDUCTION };

typedef struct taker { struct taker *next; df_kernel *kernel; int64_t required; } taker;

typedef struct accumulator {
  dfi_handle      base;
  char           *name;              /* owned */
  uint8_t         dtype;             /* float16, float32 or float64 */
  dfi_shape       shape;             /* of a gradient; may be unknown in part */
  bool            mean;              /* what is taken is the sum divided by how many there are */
  pthread_mutex_t lock;              /* guards what follows; taken before a run's inbox_lock */
  int64_t         step, count;       /* gradients of this step and later ones count; so many are in `sum` */
  df_tensor      *sum;               /* owned; NULL: count is 0 */
  taker          *first, **last;     /* who waits, in line */
} accumulator;

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void destroy(dfi_handle *h) {
  accumulator *a = (accumulator *)h;
  df_assert(!a->first);
  df_tensor_release(a->sum);
  pthread_mutex_destroy(&a->lock);
  dfi_free(a->name);
  dfi_free(a);
}

static dfi_handle *make(void *user, df_error *err) {
  const accumulator *like = user;
  accumulator *a = dfi_xcalloc(1, sizeof *a);
  (void)err;
  *a = *like;
  a->base = (dfi_handle){ .refs = 1, .type = DFI_ACCUMULATOR, .destroy = destroy };
  a->name = dfi_xstrdup(like->name);
  a->last = &a->first;
  pthread_mutex_init(&a->lock, NULL);
  return &a->base;
}

static int32_t kernel_accumulator(df_kernel *k) {
  const char *shared = dfk_string(k, SHARED_NAME), *reduction = dfk_string(k, REDUCTION);
  const bool mean = !strcmp(reduction, "MEAN");
  if (!mean && strcmp(reduction, "SUM"))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "reduction_type is '%s' but must be MEAN or SUM", reduction);
  const df_attr *shape = &k->attrs[SHAPE];
  accumulator like = { .name = (char *)(shared[0] ? shared : dfi_node_name(dfi_run_node(k->run))),
                       .dtype = (uint8_t)dfk_int(k, DTYPE), .mean = mean,
                       .shape = shape->i < 0 ? dfi_shape_unknown() : dfi_shape_of((int32_t)shape->i, shape->ints) };
  accumulator *a = dfi_resource_get(k->run, DFI_ACCUMULATOR, dfk_string(k, CONTAINER), shared, make, &like, k->error);
  if (!a) return k->error->code;
  if (a->dtype != like.dtype || a->mean != mean || !dfi_shape_equal(&a->shape, &like.shape)) {
    char has[160], asked[160];
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the session has an accumulator '%s' already, the %s of %s, not the %s of "
                    "%s", a->name, a->mean ? "mean" : "sum", dfi_typed_shape_text(a->dtype, &a->shape, has),
                    mean ? "mean" : "sum", dfi_typed_shape_text(like.dtype, &like.shape, asked));
  }
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(a) };
  return DF_OK;
}

/* Input 0 of a kernel, borrowed; NULL where it is none (error is filled). */
static accumulator *accumulator_in(df_kernel *k) {
  dfi_handle *h = k->raw[0]->kind == DF_HANDLE ? k->raw[0]->as.handle : NULL;
  if (h && h->type == DFI_ACCUMULATOR) return (accumulator *)h;
  dfk_fail(k, DF_INVALID_ARGUMENT, "input 0 is %s but must be an accumulator",
           h ? "a handle of something else" : "not a handle");
  return NULL;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void add(df_tensor *sum, const df_tensor *x) {
  for (int64_t i = 0; i < x->size; i++) {
    if (x->dtype == DF_FLOAT32) ((float *)sum->data)[i] += ((const float *)x->data)[i];
    else if (x->dtype == DF_FLOAT64) ((double *)sum->data)[i] += ((const double *)x->data)[i];
    else {
      uint16_t *to = (uint16_t *)sum->data + i;
      *to = dfk_f16_from_float(dfk_f16_to_float(*to) + dfk_f16_to_float(((const uint16_t *)x->data)[i]));
    }
  }
}

static void divide(df_tensor *sum, int64_t by) {
  for (int64_t i = 0; i < sum->size; i++) {
    if (sum->dtype == DF_FLOAT32) ((float *)sum->data)[i] /= (float)by;
    else if (sum->dtype == DF_FLOAT64) ((double *)sum->data)[i] /= (double)by;
    else {
      uint16_t *to = (uint16_t *)sum->data + i;
      *to = dfk_f16_from_float(dfk_f16_to_float(*to) / (float)by);
    }
  }
}

/* ---- who takes --------------------------------------------------------------------------------------------------- */

/* What the first in line takes, owned; the accumulator begins anew. NULL: there is not enough yet, or nobody. */
static df_tensor *taken(accumulator *a) {
  if (!a->first || a->count < a->first->required) return NULL;
  df_tensor *t = a->sum;
  if (a->mean) divide(t, a->count);
  a->sum = NULL;
  a->count = 0;
  a->step++;
  return t;
}

static taker *leave(accumulator *a, const df_kernel *k) {
  for (taker **at = &a->first; *at; at = &(*at)->next) {
    taker *t = *at;
    if (k && t->kernel != k) continue;
    *at = t->next;
    if (a->last == &t->next) a->last = at;
    return t;
  }
  return NULL;
}

/* Completes who has left the line with what it takes; no lock is held. */
static void hand(taker *t, df_tensor *mine) {
  df_kernel *k = t->kernel;
  dfi_free(t);
  dfk_out_tensor(k, 0, mine);
  dfk_complete(k, DF_OK);
}

/* The run of this call stops; the next in line may require less. */
static void stop(df_kernel *k, void *user) {
  accumulator *a = user;
  pthread_mutex_lock(&a->lock);
  taker *t = leave(a, k);
  df_tensor *next = t ? taken(a) : NULL;
  taker *who = next ? leave(a, NULL) : NULL;
  pthread_mutex_unlock(&a->lock);
  if (who) hand(who, next);
  if (!t) return;                                          /* somebody is completing it */
  dfi_free(t);
  dfk_complete(k, dfk_fail(k, DF_CANCELLED, "the call to accumulator '%s' was cancelled", a->name));
}

static void describe(df_kernel *k, void *user, char *text, size_t bytes) {
  accumulator *a = user;
  pthread_mutex_lock(&a->lock);
  const taker *t = a->first;
  while (t && t->kernel != k) t = t->next;
  if (t) snprintf(text, bytes, "waits for %lld gradients in accumulator '%s', which has %lld of step %lld",
                  (long long)t->required, a->name, (long long)a->count, (long long)a->step);
  else snprintf(text, bytes, "has just got what it waited for from accumulator '%s'", a->name);
  pthread_mutex_unlock(&a->lock);
}

static int32_t kernel_take(df_kernel *k) {
  accumulator *a = accumulator_in(k);
  int64_t required;
  if (!a || !dfk_integer(k, 1, "num_required", &required)) return k->error->code;
  if (k->out_dtype[0] != a->dtype)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "accumulator '%s' holds %s but %s is asked for", a->name,
                    df_dtype_name(a->dtype), df_dtype_name(k->out_dtype[0]));
  if (required < 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_required is %lld but must be at least 1", (long long)required);
  taker *t = dfi_xcalloc(1, sizeof *t);
  *t = (taker){ .kernel = k, .required = required };
  pthread_mutex_lock(&a->lock);
  *a->last = t;
  a->last = &t->next;
  df_tensor *mine = a->first == t ? taken(a) : NULL;
  if (mine) leave(a, k);
  else dfk_on_stop(k, stop, describe, a);
  pthread_mutex_unlock(&a->lock);
  if (!mine) return DFK_PENDING;
  dfi_free(t);
  dfk_out_tensor(k, 0, mine);
  return DF_OK;
}

/* ---- who gives --------------------------------------------------------------------------------------------------- */

static int32_t check_gradient(const accumulator *a, df_kernel *k) {
  const df_tensor *x = k->in[2];
  const dfi_shape given = dfi_shape_of(x->rank, x->dims);
  dfi_shape merged;
  char has[160], text[160];
  bool fits = x->dtype == a->dtype && dfi_shape_merge(&a->shape, &given, &merged);
  if (fits && a->sum) fits = a->sum->rank == x->rank;
  for (int32_t i = 0; fits && a->sum && i < x->rank; i++) fits = a->sum->dims[i] == x->dims[i];
  if (fits) return DF_OK;
  const dfi_shape want = a->sum ? dfi_shape_of(a->sum->rank, a->sum->dims) : a->shape;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "accumulator '%s' adds up %s but is given %s", a->name,
                  dfi_typed_shape_text(a->dtype, &want, has), dfk_shape_text(x, text, sizeof text));
}

/* Adds input 2, under the lock. */
static int32_t put(accumulator *a, df_kernel *k) {
  const df_tensor *x = k->in[2];
  if (check_gradient(a, k)) return k->error->code;
  if (!a->sum) {
    a->sum = dfi_tensor_make(x->dtype, x->rank, x->dims);
    if (!a->sum) return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for the sum of accumulator '%s'", a->name);
    if (x->size) memcpy(a->sum->data, x->data, (size_t)(x->size * df_dtype_bytes(x->dtype)));
  } else add(a->sum, x);
  a->count++;
  return DF_OK;
}

static int32_t kernel_apply(df_kernel *k) {
  accumulator *a = accumulator_in(k);
  int64_t step;
  if (!a || !dfk_integer(k, 1, "local_step", &step)) return k->error->code;
  pthread_mutex_lock(&a->lock);
  const int32_t code = step < a->step ? DF_OK : put(a, k);
  df_tensor *mine = code ? NULL : taken(a);
  taker *t = mine ? leave(a, NULL) : NULL;
  pthread_mutex_unlock(&a->lock);
  if (t) hand(t, mine);
  return code;
}

static int32_t kernel_set_step(df_kernel *k) {
  accumulator *a = accumulator_in(k);
  int64_t step;
  if (!a || !dfk_integer(k, 1, "new_global_step", &step)) return k->error->code;
  pthread_mutex_lock(&a->lock);
  a->step = step;
  pthread_mutex_unlock(&a->lock);
  return DF_OK;
}

static int32_t kernel_count(df_kernel *k) {
  accumulator *a = accumulator_in(k);
  if (!a) return k->error->code;
  pthread_mutex_lock(&a->lock);
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)a->count };
  pthread_mutex_unlock(&a->lock);
  return DF_OK;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* The accumulator that the handle straight from its node is of tells the shape. */
static int32_t shape_take(dfi_infer *c) {
  const df_node *n = c->node->in[0].node;
  const df_op *op = dfi_op_info_at(n->op)->op;
  *dfi_set_shape(c, 0) = dfi_shape_unknown();
  if (!strstr(op->type, "ConditionalAccumulator") || n->attrs[SHAPE].i < 0) return DF_OK;
  *dfi_set_shape(c, 0) = dfi_shape_of((int32_t)n->attrs[SHAPE].i, n->attrs[SHAPE].ints);
  return DF_OK;
}

#define FLOATS "dtype=float16|float32|float64"
#define ACCUMULATOR(TYPE) \
  { .type = TYPE, .in = "", .out = "handle:handle", \
    .attrs = "dtype:dtype shape:shape container:string='' shared_name:string='' reduction_type:string='MEAN'", \
    .doc = "a handle of the session's accumulator: gradients of dtype[shape] are added up until their mean, or SUM, " \
           "is taken", \
    .stateful = true, .no_grad = true, .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = kernel_accumulator } }
#define CALL(TYPE, IN, OUT, ATTRS, TYPES, WAITS, SHAPE_, KERNEL, DOC) \
  { .type = TYPE, .in = "handle:handle" IN, .out = OUT, .attrs = ATTRS, .types = TYPES, .doc = DOC, .stateful = true, \
    .effect = true, .waits = WAITS, .no_grad = true, .shape = SHAPE_, .kernel = { [DF_REF] = KERNEL } }
#define BOTH(TYPE, ...) CALL("Accumulator" TYPE, __VA_ARGS__), CALL("ResourceAccumulator" TYPE, __VA_ARGS__)

static const df_op ops[] = {
  ACCUMULATOR("ConditionalAccumulator"),
  ACCUMULATOR("ResourceConditionalAccumulator"),
  BOTH("ApplyGradient", " local_step:int64 gradient:dtype", "", "", FLOATS, false, NULL, kernel_apply,
       "adds a gradient, unless its step is older than the accumulator's"),
  BOTH("TakeGradient", " num_required:int32", "average:dtype", "dtype:dtype", FLOATS, true, shape_take, kernel_take,
       "the mean, or the sum, of the gradients, once num_required are there; the accumulator begins anew, a step on"),
  BOTH("SetGlobalStep", " new_global_step:int64", "", "", "", false, NULL, kernel_set_step,
       "gradients of older steps are left out from then on"),
  BOTH("NumAccumulated", "", "num_accumulated:int32", "", "", false, dfi_shape_all_scalar, kernel_count,
       "how many gradients were added up since they were taken"),
};
const dfi_op_table dfi_ops_accumulator = { ops, (int32_t)(sizeof ops / sizeof *ops) };
