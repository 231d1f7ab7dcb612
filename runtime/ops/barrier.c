/* barrier.c: barriers of a session: components of elements come one by one, under keys; an element whose components
 * have all come is taken, in the order of the calls that brought their keys first.
 *
 * What is whole lies in a priority queue without a bound (resource/queue.h), whose components are the place in that
 * order, the key, and the components; takers wait there.
 */
#include "op/run.h"
#include "resource/queue.h"
#include "resource/resource.h"
#include "resource/tensor_array.h"
#include "resource/variable.h"

enum { TYPES, SHAPES, CAPACITY, CONTAINER, SHARED_NAME };
enum { COMPONENT = 0, SMALL_BATCH = 1, CANCEL = 0, FIRST = 2, BUCKETS = 1024, MOST = 62 };

/* An element of which some components have not come. */
typedef struct entry {
  struct entry *next;            /* with the same bucket */
  char         *key;             /* owned */
  int64_t       length, place;
  int32_t       missing;
  df_value      value[];         /* DF_EMPTY: it has not come */
} entry;

typedef struct barrier {
  dfi_handle      base;
  char           *name;          /* owned */
  int32_t         n;             /* components */
  dfi_queue      *whole;         /* owned */
  pthread_mutex_t lock;          /* guards what follows; released before anything is put into the queue */
  bool            closed, cancelled;
  int64_t         place;         /* of new keys: those of one call have the same */
  int64_t         incomplete;    /* entries in the buckets, and those on their way to the queue */
  entry          *bucket[BUCKETS];
} barrier;

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void drop(entry *e, int32_t n) {
  for (int32_t c = 0; c < n; c++) if (e->value[c].kind != DF_EMPTY) dfi_value_drop(&e->value[c]);
  dfi_free(e->key);
  dfi_free(e);
}

static void drop_all(barrier *b) {
  for (int32_t i = 0; i < BUCKETS; i++)
    for (entry *e = b->bucket[i], *next; e; e = next) {
      next = e->next;
      drop(e, b->n);
      b->incomplete--;
      b->bucket[i] = next;
    }
}

static void destroy(dfi_handle *h) {
  barrier *b = (barrier *)h;
  drop_all(b);
  dfi_handle_release(b->whole);
  pthread_mutex_destroy(&b->lock);
  dfi_free(b->name);
  dfi_free(b);
}

static dfi_handle *make(void *user, df_error *err) {
  const dfi_queue_spec *spec = user;
  dfi_queue *whole = dfi_queue_new(spec, err);
  if (!whole) return NULL;
  barrier *b = dfi_xcalloc(1, sizeof *b);
  b->base = (dfi_handle){ .refs = 1, .type = DFI_BARRIER, .destroy = destroy };
  b->name = dfi_xstrdup(spec->name);
  b->n = spec->n - FIRST;
  b->whole = whole;
  b->place = INT64_MIN;
  pthread_mutex_init(&b->lock, NULL);
  return &b->base;
}

static int32_t kernel_barrier(df_kernel *k) {
  const df_attr *types = &k->attrs[TYPES], *shapes = &k->attrs[SHAPES];
  const char *shared = dfk_string(k, SHARED_NAME);
  uint8_t dtype[MOST + FIRST] = { DF_INT64, DF_STRING };
  dfi_shape shape[MOST + FIRST] = { dfi_shape_scalar(), dfi_shape_scalar() };
  const int32_t given = dfi_shapes_count(shapes);
  if (types->i < 1 || types->i > MOST || given != types->i)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%lld component_types and %d shapes: expected 1 to %d types, and as many "
                    "shapes", (long long)types->i, given, MOST);
  if (dfk_int(k, CAPACITY) != -1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "capacity is %lld but must be -1: barriers have no bound",
                    (long long)dfk_int(k, CAPACITY));
  for (int32_t c = 0; c < types->i; c++) {
    dtype[c + FIRST] = (uint8_t)types->ints[c];
    shape[c + FIRST] = dfi_shapes_at(shapes, c);
  }
  const dfi_queue_spec spec = { .kind = DFI_QUEUE_PRIORITY, .n = (int32_t)types->i + FIRST, .dtype = dtype,
                                .shape = shape, .capacity = INT64_MAX, .noun = "barrier", .hidden = FIRST,
                                .name = shared[0] ? shared : dfi_node_name(dfi_run_node(k->run)) };
  barrier *b = dfi_resource_get(k->run, DFI_BARRIER, dfk_string(k, CONTAINER), shared, make, (void *)&spec, k->error);
  if (!b || dfi_queue_check(b->whole, &spec, k->error)) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(b) };
  return DF_OK;
}

static barrier *barrier_in(df_kernel *k) { return dfi_handle_in(k, 0, DFI_BARRIER); }

/* ---- insertions -------------------------------------------------------------------------------------------------- */

/* Where the entry of the key is, or would be. */
static entry **find(barrier *b, const df_str *key) {
  entry **at = &b->bucket[dfi_hash_name(key->length ? key->bytes : "", (size_t)key->length) % BUCKETS];
  while (*at && ((*at)->length != key->length || (key->length && memcmp((*at)->key, key->bytes, (size_t)key->length))))
    at = &(*at)->next;
  return at;
}

static entry *new_entry(barrier *b, const df_str *key) {
  entry *e = dfi_xcalloc(1, sizeof *e + sizeof *e->value * (size_t)b->n);
  e->key = dfi_xcalloc((size_t)key->length + 1, 1);
  if (key->length) memcpy(e->key, key->bytes, (size_t)key->length);
  e->length = key->length;
  e->missing = b->n;
  e->place = b->place;
  b->incomplete++;
  for (int32_t c = 0; c < b->n; c++) e->value[c] = (df_value){ .kind = DF_EMPTY };
  return e;
}

/* Adds component c of one key; *whole is its entry where it was the last one to come. Under the lock. */
static int32_t add(barrier *b, df_kernel *k, int64_t row, int32_t c, entry **whole) {
  const df_str *key = (const df_str *)k->in[1]->data + row;
  const int shown = key->length < 200 ? (int)key->length : 200;
  entry **at = find(b, key);
  if (b->closed && (b->cancelled || !*at))
    return dfk_fail(k, DF_CANCELLED, "barrier '%s' is closed%s '%.*s'", b->name,
                    b->cancelled ? ": nothing comes to key" : ", and takes no new key", shown, key->bytes);
  if (*at && (*at)->value[c].kind != DF_EMPTY)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "key '%.*s' of barrier '%s' has component %d already", shown, key->bytes,
                    b->name, c);
  df_value value;
  if (!dfi_row_value(k->raw[2]->as.tensor, row, &value))
    return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for an element of barrier '%s'", b->name);
  if (!*at) *at = new_entry(b, key);
  entry *e = *at;
  e->value[c] = value;
  if (--e->missing) return DF_OK;
  *at = e->next;
  *whole = e;
  return DF_OK;
}

/* The entry goes to the queue; it is gone. No lock is held. */
static int32_t hand_on(barrier *b, df_kernel *k, entry *e) {
  df_value cell[MOST + FIRST + 1] = { { .kind = DF_SCALAR, .dtype = DF_INT64, .as.i64 = e->place } };
  df_tensor *key = dfi_tensor_make(DF_STRING, 0, NULL);
  bool ok = key && dfk_set_string(k, key, 0, e->key, e->length);
  if (ok) {
    cell[1] = (df_value){ .kind = DF_TENSOR, .dtype = DF_STRING, .as.tensor = key };
    memcpy(cell + FIRST, e->value, sizeof *cell * (size_t)b->n);
    ok = dfi_queue_put(b->whole, cell);
  }
  if (ok) for (int32_t c = 0; c < b->n; c++) e->value[c].kind = DF_EMPTY;
  else df_tensor_release(key);
  drop(e, b->n);
  return ok ? DF_OK : dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for an element of barrier '%s'", b->name);
}

static int32_t check_insert(const barrier *b, df_kernel *k, int64_t c) {
  const df_tensor *keys = k->in[1], *values = k->in[2];
  char a[160], d[160];
  if (c < 0 || c >= b->n)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "component_index is %lld, but barrier '%s' has %d components", (long long)c,
                    b->name, b->n);
  const dfi_shape want = b->whole->shape[c + FIRST];
  dfi_shape row = dfi_shape_of(values->rank > 0 ? values->rank - 1 : 0, values->dims + 1), merged;
  if (keys->rank != 1 || values->rank < 1 || values->dims[0] != keys->size)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "keys is %s and values %s: expected [n] and [n, ...]",
                    dfk_shape_text(keys, a, sizeof a), dfk_shape_text(values, d, sizeof d));
  if (values->dtype != b->whole->dtype[c + FIRST] || !dfi_shape_merge(&want, &row, &merged))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "component %lld of barrier '%s' is %s but %s was given", (long long)c,
                    b->name, dfi_typed_shape_text(b->whole->dtype[c + FIRST], &want, a),
                    dfi_typed_shape_text(values->dtype, &row, d));
  return DF_OK;
}

/* Nothing more comes: takers that wait for more than there is need not. No lock is held. */
static void shut_if_done(barrier *b) {
  pthread_mutex_lock(&b->lock);
  const bool done = b->closed && !b->incomplete;
  pthread_mutex_unlock(&b->lock);
  if (done) dfi_queue_shut(b->whole);
}

static int32_t kernel_insert(df_kernel *k) {
  barrier *b = barrier_in(k);
  const int64_t c = dfk_int(k, COMPONENT);
  if (!b || check_insert(b, k, c)) return k->error->code;
  int32_t code = DF_OK;
  bool fresh = false;
  for (int64_t i = 0; i < k->in[1]->size && !code; i++) {
    entry *whole = NULL;
    pthread_mutex_lock(&b->lock);
    const int64_t before = b->incomplete;
    code = add(b, k, i, (int32_t)c, &whole);
    fresh |= b->incomplete > before;
    b->place += fresh && (code || i + 1 == k->in[1]->size);
    pthread_mutex_unlock(&b->lock);
    if (!whole) continue;
    code = hand_on(b, k, whole);
    pthread_mutex_lock(&b->lock);
    b->incomplete--;
    pthread_mutex_unlock(&b->lock);
  }
  shut_if_done(b);
  return code;
}

/* ---- taking, closing and asking ---------------------------------------------------------------------------------- */

static int32_t kernel_take(df_kernel *k) {
  barrier *b = barrier_in(k);
  int64_t wanted;
  if (!b || !dfk_integer(k, 1, "num_elements", &wanted)) return k->error->code;
  if (wanted < 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_elements is %lld but must be at least 1", (long long)wanted);
  bool same = k->nout == b->n + FIRST;
  for (int32_t c = 0; same && c < b->n; c++) same = k->out_dtype[c + FIRST] == b->whole->dtype[c + FIRST];
  if (!same)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "component_types are not those of barrier '%s', which has %d components",
                    b->name, b->n);
  const bool few = dfk_bool(k, SMALL_BATCH);
  pthread_mutex_lock(&b->lock);
  const int64_t there = dfi_queue_size(b->whole), most = there + (few ? 0 : b->incomplete);
  const bool closed = b->closed;
  pthread_mutex_unlock(&b->lock);
  if (closed && few && wanted > there) wanted = there;
  if (closed && (wanted < 1 || most < wanted))
    return dfk_fail(k, DF_OUT_OF_RANGE, "barrier '%s' is closed and has insufficient elements (%lld asked for, %lld "
                    "there)", b->name, (long long)wanted, (long long)most);
  return dfi_queue_dequeue_many(b->whole, k, wanted, few);
}

static int32_t kernel_close(df_kernel *k) {
  barrier *b = barrier_in(k);
  if (!b) return k->error->code;
  pthread_mutex_lock(&b->lock);
  const bool again = b->closed && (b->cancelled || !dfk_bool(k, CANCEL));
  b->closed = true;
  b->cancelled |= dfk_bool(k, CANCEL);
  if (b->cancelled) drop_all(b);
  pthread_mutex_unlock(&b->lock);
  if (again) return dfk_fail(k, DF_CANCELLED, "barrier '%s' is closed already", b->name);
  shut_if_done(b);
  return DF_OK;
}

static int32_t number(df_kernel *k, int64_t n) {
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)n };
  return DF_OK;
}
static int32_t kernel_ready(df_kernel *k) {
  barrier *b = barrier_in(k);
  return b ? number(k, dfi_queue_size(b->whole)) : k->error->code;
}
static int32_t kernel_incomplete(df_kernel *k) {
  barrier *b = barrier_in(k);
  if (!b) return k->error->code;
  pthread_mutex_lock(&b->lock);
  const int64_t n = b->incomplete;
  pthread_mutex_unlock(&b->lock);
  return number(k, n);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

#define CALL(TYPE, IN, OUT, ATTRS, TYPES_, WAITS, SHAPE_, KERNEL, DOC) \
  { .type = TYPE, .in = "handle:handle" IN, .out = OUT, .attrs = ATTRS, .types = TYPES_, .doc = DOC, \
    .stateful = true, .effect = true, .waits = WAITS, .no_grad = true, .shape = SHAPE_, \
    .kernel = { [DF_REF] = KERNEL } }

static const df_op ops[] = {
  { .type = "Barrier", .in = "", .out = "handle:handle",
    .attrs = "component_types:types shapes:shapes=[] capacity:int=-1 container:string='' shared_name:string=''",
    .doc = "a handle of the session's barrier: components of elements come under keys, one by one, and whole elements "
    "are taken",
    .stateful = true, .no_grad = true, .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = kernel_barrier } },
  CALL("BarrierInsertMany", " keys:string values:T", "", "component_index:int[0..]", "T=any", false, NULL,
       kernel_insert,
       "one component of each of the elements with these keys"),
  CALL("BarrierTakeMany", " num_elements:int32", "indices:int64 keys:string values:component_types*",
       "component_types:types allow_small_batch:bool=false wait_for_incomplete:bool=false timeout_ms:int=-1", "", true,
       NULL, kernel_take,
       "so many whole elements, in the order of the calls that brought their keys first: their places in it, keys and "
       "components; waits for them. With allow_small_batch a closed barrier gives fewer, but not none"),
  CALL("BarrierClose", "", "", "cancel_pending_enqueues:bool=false", "", false, NULL, kernel_close,
       "no new keys come from then on; with cancel_pending_enqueues nothing does"),
  CALL("BarrierReadySize", "", "size:int32", "", "", false, dfi_shape_all_scalar, kernel_ready,
       "how many whole elements there are"),
  CALL("BarrierIncompleteSize", "", "size:int32", "", "", false, dfi_shape_all_scalar, kernel_incomplete,
       "of how many elements some components have not come"),
};
const dfi_op_table dfi_ops_barrier = { ops, (int32_t)(sizeof ops / sizeof *ops) };
