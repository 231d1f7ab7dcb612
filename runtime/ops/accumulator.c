/* accumulator.c: conditional accumulators of a session: gradients of several workers are added up until a taker takes
 * their mean. Graphs that train in step (SyncReplicasOptimizer) have one for each variable.
 *
 * A gradient of an older step than the accumulator's is left out. A taker waits in line until as many are there as it
 * requires; taking empties the accumulator and counts its step on. The types of TensorFlow's first version
 * (ConditionalAccumulator) and of its second (ResourceConditionalAccumulator) differ in name only.
 */
#include "ops/accumulator.h"
#include "op/run.h"
#include "resource/resource.h"
#include "resource/variable.h"
#include "kernels/half.h"
#include <stdio.h>

enum { DTYPE, SHAPE, CONTAINER, SHARED_NAME, REDUCTION };

typedef dfi_accumulator accumulator;

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void destroy(dfi_handle *h) {
  accumulator *a = (accumulator *)h;
  df_assert(!a->first);
  df_tensor_release(a->sum);
  df_tensor_release(a->indices);
  df_tensor_release(a->counts);
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

static int32_t make_accumulator(df_kernel *k, bool sparse) {
  const char *shared = dfk_string(k, SHARED_NAME), *reduction = dfk_string(k, REDUCTION);
  const bool mean = !strcmp(reduction, "MEAN");
  const df_attr *shape = &k->attrs[SHAPE];
  accumulator like = { .name = (char *)(shared[0] ? shared : dfi_node_name(dfi_run_node(k->run))),
                       .dtype = (uint8_t)dfk_int(k, DTYPE), .mean = mean, .sparse = sparse,
                       .shape = shape->i < 0 ? dfi_shape_unknown() : dfi_shape_of((int32_t)shape->i, shape->ints) };
  accumulator *a = dfi_resource_get(k->run, DFI_ACCUMULATOR, dfk_string(k, CONTAINER), shared, make, &like, k->error);
  if (!a) return k->error->code;
  if (a->sparse != sparse)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the session has an accumulator '%s' already, of %s gradients", a->name,
                    a->sparse ? "sparse" : "dense");
  if (a->dtype != like.dtype || a->mean != mean || !dfi_shape_equal(&a->shape, &like.shape)) {
    char has[160], asked[160];
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the session has an accumulator '%s' already, the %s of %s, not the %s of "
                    "%s", a->name, a->mean ? "mean" : "sum", dfi_typed_shape_text(a->dtype, &a->shape, has),
                    mean ? "mean" : "sum", dfi_typed_shape_text(like.dtype, &like.shape, asked));
  }
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(a) };
  return DF_OK;
}

static int32_t kernel_accumulator(df_kernel *k) { return make_accumulator(k, false); }
static int32_t kernel_sparse_accumulator(df_kernel *k) { return make_accumulator(k, true); }

static accumulator *any_accumulator_in(df_kernel *k) { return dfi_handle_in(k, 0, DFI_ACCUMULATOR); }
static accumulator *accumulator_in(df_kernel *k, bool sparse) {
  accumulator *a = any_accumulator_in(k);
  if (!a || a->sparse == sparse) return a;
  dfk_fail(k, DF_INVALID_ARGUMENT, "accumulator '%s' adds up %s gradients, not %s ones", a->name,
           a->sparse ? "sparse" : "dense", sparse ? "sparse" : "dense");
  return NULL;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

void dfi_accumulator_add(uint8_t dtype, void *to, const void *from, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (dtype == DF_FLOAT32) ((float *)to)[i] += ((const float *)from)[i];
    else if (dtype == DF_FLOAT64) ((double *)to)[i] += ((const double *)from)[i];
    else {
      uint16_t *at = (uint16_t *)to + i;
      *at = dfk_f16_from_float(dfk_f16_to_float(*at) + dfk_f16_to_float(((const uint16_t *)from)[i]));
    }
  }
}

void dfi_accumulator_divide(uint8_t dtype, void *to, int64_t n, int64_t by) {
  for (int64_t i = 0; i < n; i++) {
    if (dtype == DF_FLOAT32) ((float *)to)[i] /= (float)by;
    else if (dtype == DF_FLOAT64) ((double *)to)[i] /= (double)by;
    else {
      uint16_t *at = (uint16_t *)to + i;
      *at = dfk_f16_from_float(dfk_f16_to_float(*at) / (float)by);
    }
  }
}

/* ---- takers ------------------------------------------------------------------------------------------------------ */

/* What a taker takes, owned. sum NULL: nothing. */
typedef struct haul { df_tensor *sum, *indices; } haul;

static dfi_taker *leave(accumulator *a, const df_kernel *k) {
  for (dfi_taker **at = &a->first; *at; at = &(*at)->next) {
    dfi_taker *t = *at;
    if (t->kernel != k) continue;
    *at = t->next;
    if (a->last == &t->next) a->last = at;
    return t;
  }
  return NULL;
}

/* What the first taker whose run goes on takes, and that taker, out of the line; the accumulator begins anew.
 * Nothing: there is not enough yet, or no taker. */
static haul taken(accumulator *a, dfi_taker **taker) {
  *taker = a->first;
  while (*taker && dfk_stopping((*taker)->kernel)) *taker = (*taker)->next;
  if (!*taker || a->count < (*taker)->required) return (haul){ 0 };
  leave(a, (*taker)->kernel);
  const haul h = { a->sum, a->indices };
  if (a->mean && a->sparse) dfi_sparse_divide(a);
  else if (a->mean) dfi_accumulator_divide(a->dtype, h.sum->data, h.sum->size, a->count);
  df_tensor_release(a->counts);
  a->sum = a->indices = a->counts = NULL;
  a->count = 0;
  a->step++;
  return h;
}

static int32_t give(const accumulator *a, df_kernel *k, haul mine) {
  if (a->sparse) return dfi_sparse_give(a, k, mine.indices, mine.sum);
  dfk_out_tensor(k, 0, mine.sum);
  return DF_OK;
}

/* Completes a taker that has left the line with what it takes; no lock is held. */
static void hand(const accumulator *a, dfi_taker *t, haul mine) {
  df_kernel *k = t->kernel;
  dfi_free(t);
  dfk_complete(k, give(a, k, mine));
}

/* The run of this call stops; the next in line may require less. */
static void stop(df_kernel *k, void *user) {
  accumulator *a = user;
  pthread_mutex_lock(&a->lock);
  dfi_taker *t = leave(a, k);
  dfi_taker *taker = NULL;
  const haul next = t ? taken(a, &taker) : (haul){ 0 };
  pthread_mutex_unlock(&a->lock);
  if (next.sum) hand(a, taker, next);
  if (!t) return;                                          /* it is being completed */
  dfi_free(t);
  dfk_complete(k, dfk_fail(k, DF_CANCELLED, "the call to accumulator '%s' was cancelled", a->name));
}

static void describe(df_kernel *k, void *user, char *text, size_t bytes) {
  accumulator *a = user;
  pthread_mutex_lock(&a->lock);
  const dfi_taker *t = a->first;
  while (t && t->kernel != k) t = t->next;
  if (t) snprintf(text, bytes, "waits for %lld gradient%s in accumulator '%s', which has %lld of step %lld",
                  (long long)t->required, t->required == 1 ? "" : "s", a->name,
                  (long long)a->count, (long long)a->step);
  else snprintf(text, bytes, "has just got what it waited for from accumulator '%s'", a->name);
  pthread_mutex_unlock(&a->lock);
}

static int32_t take(df_kernel *k, accumulator *a, uint8_t dtype) {
  int64_t required;
  if (!a || !dfk_integer(k, 1, "num_required", &required)) return k->error->code;
  if (dtype != a->dtype)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "accumulator '%s' holds %s but %s is asked for", a->name,
                    df_dtype_name(a->dtype), df_dtype_name(dtype));
  if (required < 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_required is %lld but must be at least 1", (long long)required);
  dfi_taker *t = dfi_xcalloc(1, sizeof *t);
  *t = (dfi_taker){ .kernel = k, .required = required };
  pthread_mutex_lock(&a->lock);
  *a->last = t;
  a->last = &t->next;
  dfi_taker *taker;
  const haul mine = a->first == t ? taken(a, &taker) : (haul){ 0 };
  if (!mine.sum) dfk_on_stop(k, stop, describe, a);
  pthread_mutex_unlock(&a->lock);
  if (!mine.sum) return DFK_PENDING;
  dfi_free(t);
  return give(a, k, mine);
}
static int32_t kernel_take(df_kernel *k) { return take(k, accumulator_in(k, false), k->out_dtype[0]); }
static int32_t kernel_sparse_take(df_kernel *k) { return take(k, accumulator_in(k, true), k->out_dtype[1]); }

/* ---- givers ------------------------------------------------------------------------------------------------------ */

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
  } else dfi_accumulator_add(x->dtype, a->sum->data, x->data, x->size);
  a->count++;
  return DF_OK;
}

static int32_t apply(df_kernel *k, accumulator *a) {
  int64_t step;
  if (!a || !dfk_integer(k, 1, "local_step", &step)) return k->error->code;
  pthread_mutex_lock(&a->lock);
  const int32_t code = step < a->step ? DF_OK : a->sparse ? dfi_sparse_put(a, k) : put(a, k);
  dfi_taker *taker = NULL;
  const haul theirs = code ? (haul){ 0 } : taken(a, &taker);
  pthread_mutex_unlock(&a->lock);
  if (theirs.sum) hand(a, taker, theirs);
  return code;
}
static int32_t kernel_apply(df_kernel *k) { return apply(k, accumulator_in(k, false)); }
static int32_t kernel_sparse_apply(df_kernel *k) { return apply(k, accumulator_in(k, true)); }

static int32_t kernel_set_step(df_kernel *k) {
  accumulator *a = any_accumulator_in(k);
  int64_t step;
  if (!a || !dfk_integer(k, 1, "new_global_step", &step)) return k->error->code;
  pthread_mutex_lock(&a->lock);
  a->step = step;
  pthread_mutex_unlock(&a->lock);
  return DF_OK;
}

static int32_t kernel_count(df_kernel *k) {
  accumulator *a = any_accumulator_in(k);
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
#define ACCUMULATOR(TYPE, KERNEL, WHAT) \
  { .type = TYPE, .in = "", .out = "handle:handle", \
    .attrs = "dtype:dtype shape:shape container:string='' shared_name:string='' " \
             "reduction_type:string[MEAN|SUM]='MEAN'", \
    .doc = "a handle of the session's accumulator: " WHAT " of dtype[shape] are added up until their mean, or SUM, " \
           "is taken", \
    .stateful = true, .no_grad = true, .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = KERNEL } }
#define CALL(TYPE, IN, OUT, ATTRS, TYPES, WAITS, SHAPE_, KERNEL, DOC) \
  { .type = TYPE, .in = "handle:handle" IN, .out = OUT, .attrs = ATTRS, .types = TYPES, .doc = DOC, .stateful = true, \
    .effect = true, .waits = WAITS, .no_grad = true, .shape = SHAPE_, .kernel = { [DF_REF] = KERNEL } }
#define BOTH(TYPE, ...) CALL("Accumulator" TYPE, __VA_ARGS__), CALL("ResourceAccumulator" TYPE, __VA_ARGS__)

static const df_op ops[] = {
  ACCUMULATOR("ConditionalAccumulator", kernel_accumulator, "gradients"),
  ACCUMULATOR("ResourceConditionalAccumulator", kernel_accumulator, "gradients"),
  ACCUMULATOR("SparseConditionalAccumulator", kernel_sparse_accumulator, "rows of gradients"),
  CALL("SparseAccumulatorApplyGradient",
       " local_step:int64 gradient_indices:int64 gradient_values:dtype gradient_shape:int64", "",
       "has_known_shape:bool", FLOATS, false, NULL, kernel_sparse_apply,
       "adds the rows of a gradient at their indices, which rise, unless its step is older than the accumulator's"),
  CALL("SparseAccumulatorTakeGradient", " num_required:int32", "indices:int64 values:dtype shape:int64", "dtype:dtype",
       FLOATS, true, NULL, kernel_sparse_take,
       "the rows that gradients had, each the mean, or the sum, of those that had it, once num_required are there"),
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
