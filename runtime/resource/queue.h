/* queue.h: a queue of a session: elements, and the calls that wait for them or for room.
 *
 * An element is a tuple of values, one per component. Runs of the session put elements in and take them out; a call
 * that cannot go on waits in line, producers (and closes of the queue behind them) in one, consumers in another, each
 * first come, first served. A call that changes the queue moves both lines on as far as they go, and completes the
 * calls that are done once the lock is open again. A call that takes many elements takes them as they come, so it may
 * ask for more than the queue can hold; when it is cancelled, or the queue is closed before it has enough, it gives
 * them back.
 */
#ifndef DFLOW_QUEUE_H
#define DFLOW_QUEUE_H
#include "op/op.h"
#include "kernels/random.h"

typedef enum dfi_queue_kind {
  DFI_QUEUE_FIFO = 0,
  DFI_QUEUE_PADDING,
  DFI_QUEUE_SHUFFLE,
  DFI_QUEUE_PRIORITY,
  DFI_QUEUE_STAGING                  /* a FIFO that is found by its name: its calls have no handle for input 0 */
} dfi_queue_kind;
typedef struct dfi_waiter dfi_waiter;
typedef struct dfi_line { dfi_waiter *first, **last; } dfi_line;

typedef struct dfi_queue {
  dfi_handle      base;
  dfi_queue_kind  kind;
  char           *name;              /* owned */
  const char     *noun;              /* what messages call it */
  int32_t         n;                 /* components */
  int32_t         hidden;            /* the first of them that are internal */
  uint8_t        *dtype;             /* n; owned */
  dfi_shape      *shape;             /* n; owned. NULL: elements may have any shapes, and are taken one by one only */
  int64_t         capacity;          /* INT64_MAX: no bound */
  int64_t         min_after_dequeue; /* of a shuffling queue: so many stay while it is open */
  int64_t         seed, seed2;
  pthread_mutex_t lock;              /* guards what follows; taken before a run's inbox_lock */
  bool            closed;
  dfi_line        producers, consumers;
  dfi_line        peekers;           /* waiters for an element to look at; they hold up no other waiter */
  /* The elements lie in a ring of `room` cells of `stride` values. A FIFO begins at `first`; the others begin at 0: a
   * shuffling queue in no order, a priority queue as a heap by (component 0, the serial number in the cell's last
   * value). */
  df_value       *cells;
  int64_t         first, count, room;
  int64_t         lent;              /* taken by calls that wait for more, and may come back: they have room */
  int32_t         stride;
  int64_t         serial;
  dfk_stream      stream;            /* of a shuffling queue */
  uint64_t        drawn;
} dfi_queue;

/* What a queue is to be. */
typedef struct dfi_queue_spec {
  dfi_queue_kind kind;
  const char    *name, *noun;        /* noun NULL: "queue" */
  int32_t        n, hidden;
  const uint8_t *dtype;
  const dfi_shape *shape;            /* NULL: not given */
  int64_t        capacity, min_after_dequeue, seed, seed2;
  int64_t        graph_seed;
} dfi_queue_spec;

/* One reference, owned. The spec is copied. NULL: err is filled. */
dfi_queue *dfi_queue_new(const dfi_queue_spec *s, df_error *err);
/* Could this queue have been made from the spec? Otherwise DF_INVALID_ARGUMENT says in what they differ. */
int32_t dfi_queue_check(const dfi_queue *q, const dfi_queue_spec *s, df_error *err);

/* The calls. Each is made by a kernel of an op with .waits and returns what that has to return. Inputs of the two that
 * enqueue: the handle, then the components. */
int32_t dfi_queue_enqueue(dfi_queue *q, df_kernel *k);
int32_t dfi_queue_enqueue_many(dfi_queue *q, df_kernel *k);
int32_t dfi_queue_dequeue(dfi_queue *q, df_kernel *k);
/* up_to: when the queue is closed, fewer than `wanted` will do, but not none. */
int32_t dfi_queue_dequeue_many(dfi_queue *q, df_kernel *k, int64_t wanted, bool up_to);
/* Waits behind the producers in line, or with cancel_pending sends them away with DF_CANCELLED. */
int32_t dfi_queue_close(dfi_queue *q, df_kernel *k, bool cancel_pending);
/* The element that would be the `index`-th to be taken, which stays: waits until it is there. */
int32_t dfi_queue_peek(dfi_queue *q, df_kernel *k, int64_t index);
/* An element from inside the library, for a queue without a bound, also where it is closed: n values, and room for one
 * more where the queue numbers its elements; consumed when it is there. False: out of memory. */
bool    dfi_queue_put(dfi_queue *q, df_value *cell);
/* Closes it, also again. */
void    dfi_queue_shut(dfi_queue *q);
/* Takes all elements out and lets them go: waiters for room go on. */
void    dfi_queue_clear(dfi_queue *q);
/* In one step: the queue lets its elements go and holds those of `from` instead, in their order, and `from` none.
 * Waiters go on behind that, for room or with the new elements. What does not fit, or a closed queue, is an error that
 * changes neither. */
int32_t dfi_queue_replace(dfi_queue *q, dfi_queue *from, df_kernel *k);
int64_t dfi_queue_size(dfi_queue *q);
bool    dfi_queue_closed(dfi_queue *q);

/* ---- queue_cells.c: the elements, under the lock --------------------------------------------------- */
/* A cell is `stride` values: the components, and in a priority queue the serial number, which push gives. push and
 * give_back take the values over; take hands them over: those of the next element in the queue's order. */
bool dfi_cells_room(dfi_queue *q, int64_t n);  /* for n more; false: out of memory */
void dfi_cells_push(dfi_queue *q, df_value *cell);
void dfi_cells_take(dfi_queue *q, df_value *cell);
/* The cells of a call that goes without them, in the order they were taken. */
void dfi_cells_give_back(dfi_queue *q, const df_value *cells, int64_t n);
/* The i-th element of a FIFO, borrowed. */
const df_value *dfi_cells_at(const dfi_queue *q, int64_t i);
/* A copy of it. */
void dfi_cells_copy(const dfi_queue *q, int64_t i, df_value *cell);
void dfi_cells_order(dfi_queue *q);                                  /* a priority queue's: as they will come out */
/* All elements of `from` become those of q, which holds none and has room. */
void dfi_cells_move(dfi_queue *q, dfi_queue *from);
/* Lets all of them go. */
void dfi_cells_clear(dfi_queue *q);
void dfi_cells_free(dfi_queue *q);
/* Component c of n cells along a new axis 0, as output c of the kernel. No lock. */
int32_t dfi_cells_stack(const dfi_queue *q, df_kernel *k, int32_t c, const df_value *cells, int64_t n);
#endif
