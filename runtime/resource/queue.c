/* queue.c: the calls that put elements into a queue and take them out, and the lines in which they wait.
 *
 * A call becomes a waiter at the end of its line. The lines are then moved on in turn until neither moves: the first
 * producer puts in what there is room for, the first consumer takes what there is, and none overtakes. Waiters that
 * are done leave their line under the lock and are completed after it, each by the thread that took it out and by no
 * other.
 */
#include "resource/queue.h"
#include "resource/variable.h"
#include "resource/tensor_array.h"
#include <stdio.h>

typedef enum errand { ENQUEUE, CLOSE, DEQUEUE, PEEK } errand;

struct dfi_waiter {
  dfi_waiter *next;
  df_kernel  *kernel;
  errand      errand;
  bool        many, up_to;
  int32_t     status;          /* when it is done */
  int64_t     wanted;          /* elements still to be put in or taken */
  int64_t     done;            /* elements put in, or cells in `taken` */
  df_value   *taken;           /* owned */
  int64_t     room;            /* cells that fit into taken */
};

static const char *kind_name(dfi_queue_kind kind) {
  static const char *const name[] = { "FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue", "PriorityQueue",
                                      "staging area" };
  return name[kind];
}
/* The first input of an enqueue that is a component. */
static int32_t inputs_from(const dfi_queue *q) { return q->kind != DFI_QUEUE_STAGING; }

/* ---- life ------------------------------------------------------------------------------------------------ */

static void destroy(dfi_handle *h) {
  dfi_queue *q = (dfi_queue *)h;
  df_assert(!q->producers.first && !q->consumers.first && !q->peekers.first);
  dfi_cells_free(q);
  pthread_mutex_destroy(&q->lock);
  dfi_free(q->name);
  dfi_free(q->dtype);
  dfi_free(q->shape);
  dfi_free(q);
}

dfi_queue *dfi_queue_new(const dfi_queue_spec *s, df_error *err) {
  if (s->kind == DFI_QUEUE_SHUFFLE && (s->min_after_dequeue < 0 || s->min_after_dequeue >= s->capacity)) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
             "queue '%s': min_after_dequeue is %lld but must be at least 0 and less than the capacity, %lld", s->name,
             (long long)s->min_after_dequeue, (long long)s->capacity);
    return NULL;
  }
  for (int32_t c = 0; s->kind == DFI_QUEUE_PADDING && c < s->n; c++)
    if (!s->shape || s->shape[c].rank < 0) {
      dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
               "queue '%s': a PaddingFIFOQueue needs a shape of known rank for component %d", s->name, c);
      return NULL;
    }
  dfi_queue *q = dfi_xcalloc(1, sizeof *q);
  q->base = (dfi_handle){ .refs = 1, .type = DFI_QUEUE, .destroy = destroy };
  q->kind = s->kind;
  q->name = dfi_xstrdup(s->name);
  q->noun = s->noun ? s->noun : "queue";
  q->hidden = s->hidden;
  q->n = s->n;
  q->stride = s->n + (s->kind == DFI_QUEUE_PRIORITY);
  q->dtype = dfi_xcalloc((size_t)s->n, sizeof *q->dtype);
  memcpy(q->dtype, s->dtype, sizeof *q->dtype * (size_t)s->n);
  if (s->shape) {
    q->shape = dfi_xcalloc((size_t)s->n, sizeof *q->shape);
    memcpy(q->shape, s->shape, sizeof *q->shape * (size_t)s->n);
  }
  q->capacity = s->capacity;
  q->min_after_dequeue = s->min_after_dequeue;
  q->seed = s->seed;
  q->seed2 = s->seed2;
  uint64_t key = dfk_mix((uint64_t)s->graph_seed + 0x9e3779b97f4a7c15u);
  if (s->seed || s->seed2) key = dfk_mix(key ^ (uint64_t)s->seed) ^ (uint64_t)s->seed2;
  else for (const char *c = s->name; *c; c++) key = dfk_mix(key ^ (uint8_t)*c);     /* a seed of its own */
  key = dfk_mix(key);
  q->stream.key[0] = (uint32_t)key;
  q->stream.key[1] = (uint32_t)(key >> 32);
  pthread_mutex_init(&q->lock, NULL);
  q->producers.last = &q->producers.first;
  q->consumers.last = &q->consumers.first;
  q->peekers.last = &q->peekers.first;
  return q;
}

static int32_t differ(const dfi_queue *q, df_error *err, const char *what, const char *has, const char *asked) {
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the shared %s '%s' has %s %s but %s is asked for", q->noun, q->name,
                  what, has, asked);
}

static int32_t differ_in_number(const dfi_queue *q, df_error *err, const char *what, int64_t has, int64_t asked) {
  char a[32], b[32];
  snprintf(a, sizeof a, "%lld", (long long)(has == INT64_MAX ? -1 : has));
  snprintf(b, sizeof b, "%lld", (long long)(asked == INT64_MAX ? -1 : asked));
  return differ(q, err, what, a, b);
}

/* "float32[2], int64[]", with question marks where no shape was given, from component `first` on. */
static char *components_text(int32_t first, int32_t n, const uint8_t *dtype, const dfi_shape *shape, char *text,
                             size_t bytes) {
  size_t at = 0;
  text[0] = 0;
  for (int32_t c = first; c < n && at < bytes; c++) {
    char one[160];
    dfi_shape s = shape ? shape[c] : dfi_shape_unknown();
    at += (size_t)snprintf(text + at, bytes - at, "%s%s", c > first ? ", " : "",
                           dfi_typed_shape_text(dtype[c], &s, one));
  }
  return text;
}

int32_t dfi_queue_check(const dfi_queue *q, const dfi_queue_spec *s, df_error *err) {
  if (q->kind != s->kind) return differ(q, err, "type", kind_name(q->kind), kind_name(s->kind));
  if (q->capacity != s->capacity) return differ_in_number(q, err, "capacity", q->capacity, s->capacity);
  bool same = q->n == s->n && !q->shape == !s->shape;
  for (int32_t c = 0; same && c < q->n; c++)
    same = q->dtype[c] == s->dtype[c] && (!q->shape || dfi_shape_equal(&q->shape[c], &s->shape[c]));
  if (!same) {
    char a[400], b[400];
    return differ(q, err, "components", components_text(q->hidden, q->n, q->dtype, q->shape, a, sizeof a),
                  components_text(s->hidden, s->n, s->dtype, s->shape, b, sizeof b));
  }
  if (q->kind != DFI_QUEUE_SHUFFLE) return DF_OK;
  if (q->min_after_dequeue != s->min_after_dequeue)
    return differ_in_number(q, err, "min_after_dequeue", q->min_after_dequeue, s->min_after_dequeue);
  if (!s->seed && !s->seed2) return DF_OK;                  /* none is asked for */
  if (q->seed != s->seed) return differ_in_number(q, err, "seed", q->seed, s->seed);
  if (q->seed2 != s->seed2) return differ_in_number(q, err, "seed2", q->seed2, s->seed2);
  return DF_OK;
}

/* ---- the lines ------------------------------------------------------------------------------------------- */

static void line_add(dfi_line *l, dfi_waiter *w) {
  w->next = NULL;
  *l->last = w;
  l->last = &w->next;
}

static dfi_waiter *line_take(dfi_line *l, dfi_waiter **at) {
  dfi_waiter *w = *at;
  *at = w->next;
  if (l->last == &w->next) l->last = at;
  w->next = NULL;
  return w;
}

static int64_t ready(const dfi_queue *q) {                 /* elements that may be taken now */
  int64_t n = q->closed ? q->count : q->count - q->min_after_dequeue;
  return n > 0 ? n : 0;
}

/* The next element of a producer as a cell of the queue. */
static bool make_cell(const dfi_queue *q, dfi_waiter *w, df_value *cell) {
  df_kernel *k = w->kernel;
  for (int32_t c = 0; c < q->n; c++) {
    const df_value *v = k->raw[c + inputs_from(q)];
    if (!w->many) cell[c] = dfi_value_copy(v);
    else if (!dfi_row_value(v->as.tensor, w->done, &cell[c])) {
      while (c-- > 0) dfi_value_drop(&cell[c]);
      w->status = dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for an element of %s '%s'", q->noun, q->name);
      return false;
    }
    cell[c].dead = cell[c].flags = 0;
    cell[c].uses = 0;
  }
  return true;
}

/* Does what can be done now; true when the waiter has no more to wait for. */
static bool produce(dfi_queue *q, dfi_waiter *w, bool *moved) {
  if (q->closed) {
    w->status = dfk_fail(w->kernel, DF_CANCELLED,
                         w->errand == CLOSE ? "queue '%s' is closed already" : "queue '%s' is closed", q->name);
    return true;
  }
  if (w->errand == CLOSE) {
    q->closed = *moved = true;
    return true;
  }
  df_value few[8], *cell = q->stride <= 8 ? few : dfi_xmalloc(sizeof *cell * (size_t)q->stride);
  while (w->wanted && q->count < q->capacity) {
    if (!dfi_cells_room(q, 1)) {
      w->status = dfk_fail(w->kernel, DF_RESOURCE_EXHAUSTED,
                           "out of memory for another element of %s '%s', which holds %lld", q->noun, q->name,
                           (long long)q->count);
      break;
    }
    if (!make_cell(q, w, cell)) break;
    dfi_cells_push(q, cell);
    w->done++;
    w->wanted--;
    *moved = true;
  }
  if (cell != few) dfi_free(cell);
  return !w->wanted || w->status;
}

static void keep(const dfi_queue *q, dfi_waiter *w, int64_t n) {
  if (w->done + n <= w->room) return;
  while (w->room < w->done + n) w->room = w->room ? 2 * w->room : 1;
  w->taken = dfi_xrealloc(w->taken, sizeof *w->taken * (size_t)(w->room * q->stride));
}

static void give_back(dfi_queue *q, dfi_waiter *w) {
  dfi_cells_give_back(q, w->taken, w->done);
  w->wanted += w->done;
  w->done = 0;
}

/* As produce. */
static bool consume(dfi_queue *q, dfi_waiter *w, bool *moved) {
  if (q->closed && q->count < w->wanted) {                 /* there will never be enough */
    if (w->done) *moved = true;
    give_back(q, w);
    if (w->up_to && q->count) w->wanted = q->count;
    else {
      w->status = dfk_fail(w->kernel, DF_OUT_OF_RANGE,
                           "%s '%s' is closed and has insufficient elements (%lld asked for, %lld there)", q->noun,
                           q->name, (long long)w->wanted, (long long)q->count);
      return true;
    }
  }
  int64_t n = ready(q);
  if (n > w->wanted) n = w->wanted;
  if (!n) return false;
  if (!dfi_memory_for(2 * sizeof *w->taken * (size_t)((w->done + n) * q->stride))) {
    give_back(q, w);
    w->status = dfk_fail(w->kernel, DF_RESOURCE_EXHAUSTED, "out of memory for %lld elements of %s '%s'",
                         (long long)n, q->noun, q->name);
    return true;
  }
  keep(q, w, n);
  for (int64_t i = 0; i < n; i++) dfi_cells_take(q, w->taken + (w->done + i) * q->stride);
  w->done += n;
  w->wanted -= n;
  *moved = true;
  if (w->wanted) return false;
  q->lent -= w->done;                        /* they do not come back */
  return true;
}

/* As produce. */
static bool look(dfi_queue *q, dfi_waiter *w) {
  if (q->closed && q->count + q->lent < w->wanted) {       /* there will never be so many */
    w->status = dfk_fail(w->kernel, DF_OUT_OF_RANGE, "%s '%s' is closed and has no element %lld (%lld there)",
                         q->noun, q->name, (long long)w->wanted - 1, (long long)q->count);
    return true;
  }
  if (q->count < w->wanted) return false;
  keep(q, w, 1);
  dfi_cells_order(q);
  dfi_cells_copy(q, w->wanted - 1, w->taken);
  w->done = 1;
  return true;
}

static void move_peekers(dfi_queue *q, dfi_line *done) {
  for (dfi_waiter **at = &q->peekers.first; *at;) {
    if (look(q, *at)) line_add(done, line_take(&q->peekers, at));
    else at = &(*at)->next;
  }
}

/* The first in line whose run goes on. Those before it are told to end: until `stop` is called they get and give
 * nothing, and what they have taken goes back. NULL at the end: none. */
static dfi_waiter **front(dfi_queue *q, dfi_line *l) {
  dfi_waiter **at = &l->first;
  for (; *at && dfk_stopping((*at)->kernel); at = &(*at)->next) if ((*at)->taken) give_back(q, *at);
  return at;
}

/* Moves the lines on; a call that is done goes to the end of `done`. */
static void move_on(dfi_queue *q, dfi_line *done) {
  dfi_waiter **at;
  for (bool moved = true; moved;) {
    moved = false;
    while (*(at = front(q, &q->producers)) && produce(q, *at, &moved)) line_add(done, line_take(&q->producers, at));
    move_peekers(q, done);
    while (*(at = front(q, &q->consumers)) && consume(q, *at, &moved)) line_add(done, line_take(&q->consumers, at));
  }
}

/* ---- the ends of calls ------------------------------------------------------------------------------------- */

/* The outputs of a consumer that has all it wanted. */
static int32_t deliver(const dfi_queue *q, dfi_waiter *w) {
  df_kernel *k = w->kernel;
  int32_t code = DF_OK;
  for (int32_t c = 0; c < q->n && !code; c++) {
    if (w->many) code = dfi_cells_stack(q, k, c, w->taken, w->done);
    else {
      k->out[c] = w->taken[c];
      w->taken[c].kind = DF_EMPTY;
    }
  }
  return code;
}

/* What the kernel has to return; the waiter is gone. */
static int32_t finish(const dfi_queue *q, dfi_waiter *w) {
  int32_t code = w->status;
  if (w->errand == DEQUEUE || w->errand == PEEK) {
    if (!code) code = deliver(q, w);
    for (int64_t i = 0; i < w->done; i++)
      for (int32_t c = 0; c < q->n; c++) dfi_value_drop(&w->taken[i * q->stride + c]);
  }
  dfi_free(w->taken);
  dfi_free(w);
  return code;
}

/* No lock is held: a completed call may start others on its own thread. */
static void complete(const dfi_queue *q, dfi_line *done) {
  for (dfi_waiter *w = done->first, *next; w; w = next) {
    next = w->next;
    df_kernel *k = w->kernel;
    dfk_complete(k, finish(q, w));
  }
}

static dfi_waiter *leave(dfi_line *l, const df_kernel *k) {
  for (dfi_waiter **at = &l->first; *at; at = &(*at)->next)
    if ((*at)->kernel == k) return line_take(l, at);
  return NULL;
}

/* The run of this call stops. */
static void stop(df_kernel *k, void *user) {
  dfi_queue *q = user;
  dfi_line done = { NULL, &done.first };
  pthread_mutex_lock(&q->lock);
  dfi_waiter *w = leave(&q->producers, k);
  if (!w) w = leave(&q->consumers, k);
  if (!w) w = leave(&q->peekers, k);
  if (w && w->errand == DEQUEUE) give_back(q, w);
  if (w) move_on(q, &done);                                /* the next in line may want what it held up */
  pthread_mutex_unlock(&q->lock);
  complete(q, &done);
  if (!w) return;                                          /* it is being completed */
  w->status = dfk_fail(k, DF_CANCELLED, "the call to %s '%s' was cancelled", q->noun, q->name);
  dfk_complete(k, finish(q, w));
}

static void describe(df_kernel *k, void *user, char *text, size_t bytes) {
  dfi_queue *q = user;
  pthread_mutex_lock(&q->lock);
  const dfi_waiter *w = q->producers.first;
  while (w && w->kernel != k) w = w->next;
  if (!w) for (w = q->consumers.first; w && w->kernel != k; ) w = w->next;
  if (!w) for (w = q->peekers.first; w && w->kernel != k; ) w = w->next;
  char bound[48] = "";
  if (q->capacity != INT64_MAX) snprintf(bound, sizeof bound, " of at most %lld", (long long)q->capacity);
  if (!w) snprintf(text, bytes, "has just got what it waited for from %s '%s'", q->noun, q->name);
  else if (w->errand == CLOSE)
    snprintf(text, bytes, "waits to close queue '%s' behind the enqueues that wait for room in it", q->name);
  else
    snprintf(text, bytes, "waits for %s%lld%s element%s %s %s '%s', which holds %lld%s%s",
             w->errand == ENQUEUE ? "room for " : "", (long long)w->wanted, w->done ? " more" : "",
             w->wanted == 1 ? "" : "s", w->errand == ENQUEUE || w->errand == PEEK ? "in" : "from", q->noun, q->name,
             (long long)q->count, bound,
             w->errand == DEQUEUE && q->min_after_dequeue && !q->closed ? " and keeps min_after_dequeue back" : "");
  pthread_mutex_unlock(&q->lock);
}

/* A waiter joins its line. What its kernel has to return. */
static int32_t join(dfi_queue *q, df_kernel *k, errand e, int64_t wanted, bool many, bool up_to) {
  dfi_waiter *w = dfi_xcalloc(1, sizeof *w);
  *w = (dfi_waiter){ .kernel = k, .errand = e, .wanted = wanted, .many = many, .up_to = up_to };
  dfi_line done = { NULL, &done.first };
  pthread_mutex_lock(&q->lock);
  line_add(e == DEQUEUE ? &q->consumers : e == PEEK ? &q->peekers : &q->producers, w);
  move_on(q, &done);
  dfi_waiter **mine = &done.first;
  while (*mine && *mine != w) mine = &(*mine)->next;
  bool over = *mine != NULL;
  if (over) line_take(&done, mine);
  else dfk_on_stop(k, stop, describe, q);
  pthread_mutex_unlock(&q->lock);
  complete(q, &done);
  return over ? finish(q, w) : DFK_PENDING;
}

/* ---- the calls --------------------------------------------------------------------------------------------- */

/* Does a value of that dtype and shape fit component c? `each` is said behind the shape. */
static int32_t check_component(const dfi_queue *q, df_kernel *k, int32_t c, int32_t dtype, const dfi_shape *given,
                               const char *each) {
  dfi_shape want = q->shape ? q->shape[c] : dfi_shape_unknown(), merged;
  char a[160], b[160];
  if (dtype != q->dtype[c])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "component %d of %s '%s' is %s but %s was given", c, q->noun, q->name,
                    df_dtype_name(q->dtype[c]), df_dtype_name(dtype));
  if (!dfi_shape_merge(&want, given, &merged))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "component %d of queue '%s' is %s but %s%s was given", c, q->name,
                    dfi_typed_shape_text(q->dtype[c], &want, a), dfi_typed_shape_text(dtype, given, b), each);
  if (c == 0 && q->kind == DFI_QUEUE_PRIORITY && given->rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the priority for queue '%s' must be a scalar but is %s", q->name,
                    dfi_typed_shape_text(dtype, given, a));
  return DF_OK;
}

/* Do the components fit the queue? `many`: along axis 0, and of one length, which is given back. */
static int32_t check_components(const dfi_queue *q, df_kernel *k, bool many, int64_t *length) {
  const int32_t from = inputs_from(q);
  int32_t code = DF_OK;
  if (k->nin - from != q->n)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s '%s' has %d component%s but %d value%s given", q->noun, q->name, q->n,
                    q->n == 1 ? "" : "s", k->nin - from, k->nin == from + 1 ? " was" : "s were");
  for (int32_t c = 0; c < q->n && !code; c++) {
    const df_value *v = k->raw[c + from];
    dfi_shape given = dfi_value_shape(v);
    if (many && v->dtype == q->dtype[c]) {
      if (given.rank == 0)
        return dfk_fail(k, DF_INVALID_ARGUMENT,
                        "component %d for queue '%s' is a scalar: enqueue_many takes rows along axis 0", c, q->name);
      if (c == 0) *length = given.dims[0];
      if (given.dims[0] != *length)
        return dfk_fail(k, DF_INVALID_ARGUMENT, "component %d for queue '%s' has %lld rows but component 0 has %lld", c,
                        q->name, (long long)given.dims[0], (long long)*length);
      given = dfi_shape_of(given.rank - 1, given.dims + 1);
    }
    code = check_component(q, k, c, v->dtype, &given, many ? " in each row" : "");
  }
  return code;
}

int32_t dfi_queue_enqueue(dfi_queue *q, df_kernel *k) {
  int32_t code = check_components(q, k, false, NULL);
  return code ? code : join(q, k, ENQUEUE, 1, false, false);
}

int32_t dfi_queue_enqueue_many(dfi_queue *q, df_kernel *k) {
  int64_t length = 0;
  int32_t code = check_components(q, k, true, &length);
  return code || !length ? code : join(q, k, ENQUEUE, length, true, false);
}

/* Are the outputs what the queue holds? */
static int32_t check_outputs(const dfi_queue *q, df_kernel *k) {
  bool same = k->nout == q->n;
  for (int32_t c = 0; same && c < q->n; c++) same = k->out_dtype[c] == q->dtype[c];
  if (same) return DF_OK;
  char has[400], asked[400];
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s '%s' has the components %s but %s is asked for", q->noun, q->name,
                  components_text(0, q->n, q->dtype, q->shape, has, sizeof has),
                  components_text(0, k->nout, k->out_dtype, NULL, asked, sizeof asked));
}

int32_t dfi_queue_dequeue(dfi_queue *q, df_kernel *k) {
  int32_t code = check_outputs(q, k);
  return code ? code : join(q, k, DEQUEUE, 1, false, false);
}

int32_t dfi_queue_dequeue_many(dfi_queue *q, df_kernel *k, int64_t wanted, bool up_to) {
  int32_t code = check_outputs(q, k);
  if (code) return code;
  if (!q->shape)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "queue '%s' was made without shapes: its elements can only be dequeued one by one", q->name);
  if (wanted < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%lld elements of queue '%s' were asked for", (long long)wanted, q->name);
  for (int32_t c = 0; !wanted && c < q->n && !code; c++) code = dfi_cells_stack(q, k, c, NULL, 0);
  return wanted ? join(q, k, DEQUEUE, wanted, true, up_to) : code;
}

int32_t dfi_queue_close(dfi_queue *q, df_kernel *k, bool cancel_pending) {
  if (!cancel_pending) return join(q, k, CLOSE, 0, false, false);
  dfi_line done = { NULL, &done.first };
  pthread_mutex_lock(&q->lock);
  q->closed = true;
  while (q->producers.first) {
    dfi_waiter *w = line_take(&q->producers, &q->producers.first);
    w->status = dfk_fail(w->kernel, DF_CANCELLED,
                         "queue '%s' was closed and the calls that waited for room in it cancelled", q->name);
    line_add(&done, w);
  }
  move_on(q, &done);
  pthread_mutex_unlock(&q->lock);
  complete(q, &done);
  return DF_OK;
}

int32_t dfi_queue_peek(dfi_queue *q, df_kernel *k, int64_t index) {
  const int32_t code = check_outputs(q, k);
  if (code) return code;
  if (index < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "element %lld of %s '%s' was asked for", (long long)index, q->noun,
                    q->name);
  return join(q, k, PEEK, index + 1, false, false);
}

bool dfi_queue_put(dfi_queue *q, df_value *cell) {
  dfi_line done = { NULL, &done.first };
  df_assert(q->capacity == INT64_MAX);
  pthread_mutex_lock(&q->lock);
  const bool room = dfi_cells_room(q, 1);
  if (room) {
    dfi_cells_push(q, cell);
    move_on(q, &done);
  }
  pthread_mutex_unlock(&q->lock);
  complete(q, &done);
  return room;
}

void dfi_queue_shut(dfi_queue *q) {
  dfi_line done = { NULL, &done.first };
  pthread_mutex_lock(&q->lock);
  q->closed = true;
  move_on(q, &done);
  pthread_mutex_unlock(&q->lock);
  complete(q, &done);
}

void dfi_queue_clear(dfi_queue *q) {
  dfi_line done = { NULL, &done.first };
  pthread_mutex_lock(&q->lock);
  dfi_cells_clear(q);
  move_on(q, &done);
  pthread_mutex_unlock(&q->lock);
  complete(q, &done);
}

/* May q hold what `from` holds, and is there room? Both locks are held. */
static int32_t check_replacement(dfi_queue *q, const dfi_queue *from, df_kernel *k) {
  int32_t code = DF_OK;
  if (q->closed) return dfk_fail(k, DF_FAILED_PRECONDITION, "queue '%s' is closed", q->name);
  if (from->n != q->n)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "queue '%s' has %d component%s but %d in '%s'", q->name, q->n,
                    q->n == 1 ? "" : "s", from->n, from->name);
  if (from->count > q->capacity)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "queue '%s' holds at most %lld elements but there are %lld in '%s'",
                    q->name, (long long)q->capacity, (long long)from->count, from->name);
  for (int64_t i = 0; i < from->count; i++)
    for (int32_t c = 0; c < q->n && !code; c++) {
      const df_value *v = &dfi_cells_at(from, i)[c];
      const dfi_shape given = dfi_value_shape(v);
      code = check_component(q, k, c, v->dtype, &given, "");
    }
  if (!code && !dfi_cells_room(q, from->count))
    code = dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for %lld elements of queue '%s'", (long long)from->count,
                    q->name);
  return code;
}

int32_t dfi_queue_replace(dfi_queue *q, dfi_queue *from, df_kernel *k) {
  dfi_line done = { NULL, &done.first }, done_from = { NULL, &done_from.first };
  if (q == from) return dfk_fail(k, DF_INVALID_ARGUMENT, "queue '%s' was to hold what it holds itself", q->name);
  dfi_queue *low = q < from ? q : from, *high = q < from ? from : q;          /* two locks, always in this order */
  pthread_mutex_lock(&low->lock);
  pthread_mutex_lock(&high->lock);
  const int32_t code = check_replacement(q, from, k);
  if (!code) {
    dfi_cells_order(from);
    dfi_cells_clear(q);
    dfi_cells_move(q, from);
    move_on(q, &done);
    move_on(from, &done_from);
  }
  pthread_mutex_unlock(&high->lock);
  pthread_mutex_unlock(&low->lock);
  complete(q, &done);
  complete(from, &done_from);
  return code;
}

int64_t dfi_queue_size(dfi_queue *q) {
  pthread_mutex_lock(&q->lock);
  int64_t n = q->count;
  pthread_mutex_unlock(&q->lock);
  return n;
}

bool dfi_queue_closed(dfi_queue *q) {
  pthread_mutex_lock(&q->lock);
  bool closed = q->closed;
  pthread_mutex_unlock(&q->lock);
  return closed;
}
