/* queue_cells.c: the elements of a queue in their ring or heap, and how they are stacked for calls that take many. */
#include "resource/queue.h"
#include "resource/variable.h"
#include "kernels/move.h"

static inline df_value *cell_at(const dfi_queue *q, int64_t i) {
  return q->cells + (q->first + i) % q->room * q->stride;
}
static inline bool in_order(const dfi_queue *q) {
  return q->kind != DFI_QUEUE_SHUFFLE && q->kind != DFI_QUEUE_PRIORITY;
}
static inline size_t cell_bytes(const dfi_queue *q) { return sizeof(df_value) * (size_t)q->stride; }

/* The cells lie in tensor memory, so a limit on that holds for them too. */
static int64_t ring_bytes(const dfi_queue *q, int64_t room) { return (int64_t)cell_bytes(q) * room; }

bool dfi_cells_room(dfi_queue *q, int64_t n) {
  int64_t room = q->room ? q->room : 16;
  while (room < q->count + q->lent + n) room *= 2;
  if (room == q->room) return true;
  df_value *cells = dfi_alloc(ring_bytes(q, room));
  if (!cells) return false;
  for (int64_t i = 0; i < q->count; i++) memcpy(cells + i * q->stride, cell_at(q, i), cell_bytes(q));
  dfi_release(q->cells, ring_bytes(q, q->room));
  q->cells = cells;
  q->room = room;
  q->first = 0;
  return true;
}

/* ---- the heap of a priority queue -------------------------------------------------------------------- */

static bool before(const dfi_queue *q, const df_value *a, const df_value *b) {
  if (a[0].as.i64 != b[0].as.i64) return a[0].as.i64 < b[0].as.i64;
  return a[q->stride - 1].as.i64 < b[q->stride - 1].as.i64;
}

static void swap_cells(dfi_queue *q, df_value *a, df_value *b) {
  for (int32_t i = 0; i < q->stride; i++) { df_value v = a[i]; a[i] = b[i]; b[i] = v; }
}

static void rise(dfi_queue *q, int64_t i) {
  for (int64_t up; i > 0 && before(q, cell_at(q, i), cell_at(q, up = (i - 1) / 2)); i = up)
    swap_cells(q, cell_at(q, i), cell_at(q, up));
}

static void sink(dfi_queue *q, int64_t i) {
  for (;;) {
    int64_t least = i, left = 2 * i + 1;
    for (int64_t c = left; c < left + 2 && c < q->count; c++)
      if (before(q, cell_at(q, c), cell_at(q, least))) least = c;
    if (least == i) return;
    swap_cells(q, cell_at(q, i), cell_at(q, least));
    i = least;
  }
}

/* ---- in and out ------------------------------------------------------------------------------------------ */

/* The cell behind the last one has been written. */
static void appended(dfi_queue *q) {
  df_assert(q->count < q->room);
  q->count++;
  if (q->kind == DFI_QUEUE_PRIORITY) rise(q, q->count - 1);
}

static void append(dfi_queue *q, const df_value *cell) {
  memcpy(cell_at(q, q->count), cell, cell_bytes(q));
  appended(q);
}

static void number(dfi_queue *q, df_value *cell) {
  if (q->kind == DFI_QUEUE_PRIORITY)
    cell[q->n] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT64, .as.i64 = q->serial++ };
}

void dfi_cells_push(dfi_queue *q, df_value *cell) {
  number(q, cell);
  append(q, cell);
}

void dfi_cells_take(dfi_queue *q, df_value *cell) {
  int64_t at = 0;
  if (q->kind == DFI_QUEUE_SHUFFLE) {
    uint32_t w[4];
    dfk_philox(&q->stream, q->drawn++, 0, w);
    at = (int64_t)dfk_below(w[0], w[1], (uint64_t)q->count);
  }
  memcpy(cell, cell_at(q, at), cell_bytes(q));
  q->count--;
  q->lent++;
  if (in_order(q)) {
    q->first = (q->first + 1) % q->room;
    return;
  }
  if (at != q->count) memcpy(cell_at(q, at), cell_at(q, q->count), cell_bytes(q));
  if (q->kind == DFI_QUEUE_PRIORITY) sink(q, 0);
}

void dfi_cells_give_back(dfi_queue *q, const df_value *cells, int64_t n) {
  q->lent -= n;
  bool in_front = in_order(q);
  for (int64_t i = n - 1; i >= 0; i--) {
    if (!in_front) { append(q, cells + i * q->stride); continue; }
    df_assert(q->count < q->room);
    q->first = (q->first + q->room - 1) % q->room;
    q->count++;
    memcpy(cell_at(q, 0), cells + i * q->stride, cell_bytes(q));
  }
}

const df_value *dfi_cells_at(const dfi_queue *q, int64_t i) { return cell_at(q, i); }

void dfi_cells_copy(const dfi_queue *q, int64_t i, df_value *cell) {
  for (int32_t c = 0; c < q->n; c++) cell[c] = dfi_value_copy(&cell_at(q, i)[c]);
}

void dfi_cells_order(dfi_queue *q) {         /* what is sorted is a heap, too */
  for (int64_t i = 1; q->kind == DFI_QUEUE_PRIORITY && i < q->count; i++)
    for (int64_t at = i; at > 0 && before(q, cell_at(q, at), cell_at(q, at - 1)); at--)
      swap_cells(q, cell_at(q, at), cell_at(q, at - 1));
}

void dfi_cells_move(dfi_queue *q, dfi_queue *from) {
  for (int64_t i = 0; i < from->count; i++) {
    memcpy(cell_at(q, q->count), cell_at(from, i), sizeof(df_value) * (size_t)q->n);
    number(q, cell_at(q, q->count));
    appended(q);
  }
  from->count = 0;
}

void dfi_cells_clear(dfi_queue *q) {
  for (int64_t i = 0; i < q->count; i++)
    for (int32_t c = 0; c < q->n; c++) dfi_value_drop(&cell_at(q, i)[c]);
  q->count = 0;
}

void dfi_cells_free(dfi_queue *q) {
  dfi_cells_clear(q);
  dfi_release(q->cells, ring_bytes(q, q->room));
}

/* ---- many as one ----------------------------------------------------------------------------------------- */

/* One value becomes row i of t, at its beginning along every axis; what it does not fill was cleared. */
static bool put_row(df_kernel *k, df_tensor *t, int64_t i, const df_value *v) {
  int64_t row = 1, at;
  for (int32_t d = 1; d < t->rank; d++) row *= t->dims[d];
  at = i * row;
  if (v->kind == DF_SCALAR) {
    int64_t width = dfk_width(t->dtype);
    memcpy((char *)t->data + at * width, &v->as, (size_t)width);
    return true;
  }
  const df_tensor *from = v->as.tensor;
  if (from->size == row) return dfk_copy(k, t, at, from, 0, row);
  dfk_box box = { .rank = from->rank };
  for (int32_t d = 0; d < from->rank; d++) box.dims[d] = from->dims[d];
  dfk_strides(from->rank, t->dims + 1, box.to);
  dfk_strides(from->rank, from->dims, box.from);
  return from->size == 0 || dfk_move(k, t, at, from, 0, &box);
}

int32_t dfi_cells_stack(const dfi_queue *q, df_kernel *k, int32_t c, const df_value *cells, int64_t n) {
  int64_t dims[DF_MAX_RANK + 1] = { n };
  dfi_shape shape = q->shape[c];
  bool ragged = false;
  for (int64_t i = 0; i < n; i++) {
    dfi_shape s = dfi_value_shape(&cells[i * q->stride + c]);
    if (i == 0) { shape = s; continue; }
    for (int32_t d = 0; d < s.rank; d++) {
      ragged |= s.dims[d] != shape.dims[d];
      if (s.dims[d] > shape.dims[d]) shape.dims[d] = s.dims[d];
    }
  }
  if (shape.rank == DF_MAX_RANK)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "%s '%s': its elements have rank %d already and cannot be taken in a batch", q->noun,
                    q->name, DF_MAX_RANK);
  for (int32_t d = 0; d < shape.rank; d++) dims[d + 1] = shape.dims[d] < 0 ? 0 : shape.dims[d];
  df_tensor *t = dfk_out(k, c, q->dtype[c], shape.rank + 1, dims);
  if (!t) return k->error->code;
  if (ragged) dfk_clear(t);
  for (int64_t i = 0; i < n; i++)
    if (!put_row(k, t, i, &cells[i * q->stride + c])) return k->error->code;
  return DF_OK;
}
