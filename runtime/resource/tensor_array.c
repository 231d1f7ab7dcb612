/* tensor_array.c: the life of a TensorArray: made, written, read, its gradient array, its end. */
#include "resource/tensor_array.h"
#include "resource/variable.h"
#include "resource/tape.h"
#include "base/remote_memory.h"
#include <stdio.h>

/* ---- words ------------------------------------------------------------------------------------- */

char *dfi_tensor_array_title(const dfi_tensor_array *a, char buffer[128]) {
  int32_t order = 0;
  for (const dfi_tensor_array *f = a; f->forward; f = f->forward) order++;
  size_t n = 0;
  for (; order > 0 && n < 100; order--) n += (size_t)snprintf(buffer + n, 128 - n, "gradient of ");
  const char *name = *a->name ? a->name : a->node ? dfi_node_name(a->node) : "";
  snprintf(buffer + n, 128 - n, *name ? "TensorArray '%.80s'" : "TensorArray", name);
  return buffer;
}

char *dfi_array_index(const dfi_tensor_array *a, int64_t i, char buffer[64]) {
  const int64_t n = a->lanes > 0 ? a->lanes : 1, lane = (i % n + n) % n;
  int32_t at = snprintf(buffer, 64, "index %lld", (long long)((i - lane) / n));
  if (a->lanes > 0) snprintf(buffer + at, 64 - (size_t)at, " of lane %lld", (long long)lane);
  if (a->lanes < 0) snprintf(buffer + at, 64 - (size_t)at, ", of all lanes together,");
  return buffer;
}

int32_t dfi_index_fail(const dfi_tensor_array *a, int64_t i, bool write, df_error *err) {
  char title[128], at[64];
  int64_t size = dfi_tensor_array_size(a) / (a->lanes > 0 ? a->lanes : 1);
  return dfi_fail(err, DF_OUT_OF_RANGE, NULL, "%s: %s is out of range: the array has %lld location%s%s",
                  dfi_tensor_array_title(a, title), dfi_array_index(a, i, at), (long long)size, size == 1 ? "" : "s",
                  i < 0 || !write ? "" : " and does not grow (dynamic_size = true would let it)");
}

int32_t dfi_element_missing(const dfi_tensor_array *a, int64_t i, uint8_t state, df_error *err) {
  char title[128], at[64];
  dfi_tensor_array_title(a, title);
  dfi_array_index(a, i, at);
  if (state == DFI_SLOT_CLEARED)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                    "%s: %s was read before and cleared (clear_after_read = false would keep it)", title, at);
  if (state == DFI_SLOT_LET_GO)
    return dfi_fail(err, DF_INTERNAL, NULL, "%s: %s was freed and has not been recomputed", title, at);
  if (a->accumulates)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                    "%s: nothing came to %s, and the shape of its zeros is not known", title, at);
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: %s is read but was never written", title, at);
}

int32_t dfi_array_no_memory(const dfi_tensor_array *a, df_error *err) {
  char title[128];
  return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "%s: out of memory", dfi_tensor_array_title(a, title));
}

/* ---- life -------------------------------------------------------------------------------------- */

/* The first location from i on, of a chunk's n, that is or was written; n: none. */
static int64_t next_used(const uint8_t *state, int64_t i, int64_t n) {
  return i + dfi_same_states(state + i, 1, n - i, DFI_SLOT_EMPTY);
}

static void drop_chunk(dfi_tensor_array *a, int64_t c) {
  if (!a->chunk[c]) return;
  int64_t n = dfi_chunk_slots(a, c);
  if (!dfi_packed(a)) {
    void **cell = a->chunk[c];
    const uint8_t *state = dfi_chunk_states(a, c);
    for (int64_t i = 0; (i = next_used(state, i, n)) < n; i++) {
      if (state[i] == DFI_SLOT_CLEARED) dfi_free(cell[i]);                       /* the shape that was there, or NULL */
      else if (state[i] == DFI_SLOT_LET_GO) { if (cell[i] != a->shape_let_go) dfi_free(cell[i]); }
      else if (state[i] != DFI_SLOT_WRITTEN) continue;
      else if (a->store == DFI_STORE_TENSORS) df_tensor_release(cell[i]);
      else dfi_handle_release(cell[i]);
    }
  }
  dfi_release(a->chunk[c], n * (a->cell + 1));
  a->chunk[c] = NULL;
}

static void end(dfi_tensor_array *a) {
  for (int32_t c = 0; c < a->nchunks; c++) drop_chunk(a, c);
  df_tensor_release(a->whole);
  df_tensor_release(a->flat);
  if (a->outline) dfi_handle_release(a->outline);
  for (dfi_tensor_array *g = a->gradients, *next; g; g = next) {
    next = g->next;
    df_assert(g->base.refs == 0);
    end(g);
  }
  if (a->chunk != a->few) dfi_free(a->chunk);
  dfi_free(a->source);
  dfi_free(a->shape_let_go);
  dfi_release(a, sizeof *a);
}

static void destroy(dfi_handle *h) {
  dfi_tensor_array *a = (dfi_tensor_array *)h, *forward = a->forward;
  if (a->remat) a->gone(a->remat, a);
  if (!a->source) end(a);                     /* else the forward array keeps it, to be found again */
  if (forward) dfi_handle_release(forward);
}

dfi_tensor_array *dfi_tensor_array_new(uint8_t dtype, int64_t size, bool dynamic, bool clear_after_read,
                                       const dfi_shape *element, const char *name, df_error *err) {
  if (size < 0) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "TensorArray%s%s%s: the size is %lld but must not be negative",
             *name ? " '" : "", name, *name ? "'" : "", (long long)size);
    return NULL;
  }
  dfi_tensor_array *a = dfi_alloc(sizeof *a);
  if (!a) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for a TensorArray");
    return NULL;
  }
  int32_t log2 = dynamic ? 4 : 0;
  while (log2 < 12 && (int64_t)1 << log2 < size) log2++;
  *a = (dfi_tensor_array){
    .base = { .refs = 1, .type = DFI_TENSOR_ARRAY, .destroy = destroy }, .dtype = dtype, .dynamic = dynamic,
    .clear_after_read = clear_after_read, .size = size, .element = *element, .name = name, .first_log2 = (uint8_t)log2,
  };
  a->chunk = a->few;
  a->nchunks = (int32_t)(sizeof a->few / sizeof *a->few);
  return a;
}

int64_t dfi_tensor_array_size(const dfi_tensor_array *a) {
  if (DFI_LIKELY(!a->forward) || !a->dynamic) return a->size;
  int64_t forward = dfi_tensor_array_size(a->forward);
  return forward > a->size ? forward : a->size;
}

void dfi_tensor_array_info(const dfi_tensor_array *a, df_array_info *o) {
  *o = (df_array_info){ .at = (uintptr_t)a,
                        .node = a->node ? a->node->id : -1,
                        .size = dfi_tensor_array_size(a),
                        .dtype = a->dtype,
                        .saved = a->saved,
                        .where = a->node ? a->node->where : "" };
  snprintf(o->name, sizeof o->name, "%s", a->name && a->name[0] ? a->name : a->node ? dfi_node_name(a->node) : "");
  if (a->whole) { o->written = a->whole->dims[0]; o->bytes = a->whole->size * dfi_dtype_size[a->whole->dtype]; }
  for (int64_t c = 0; c < a->nchunks; c++) {
    if (!a->chunk[c]) continue;
    int64_t slots = dfi_chunk_slots(a, c);
    const uint8_t *state = dfi_chunk_states(a, c);
    for (int64_t i = 0; i < slots; i++) {
      if (state[i] != DFI_SLOT_WRITTEN) continue;
      o->written++;
      if (a->store != DFI_STORE_TENSORS) { o->bytes += a->cell; continue; }
      dfi_element e;
      dfi_element_look(a, dfi_chunk_begin(a, c) + i, &e);
      if (e.tensor) o->bytes += e.tensor->size * dfi_dtype_size[e.tensor->dtype];
    }
  }
}

dfi_tensor_array *dfi_tensor_array_grad(dfi_tensor_array *a, const char *source, df_error *err) {
  bool named = source && *source;
  for (dfi_tensor_array *g = named ? a->gradients : NULL; g; g = g->next)
    if (!strcmp(g->source, source)) {
      if (g->base.refs == 0) dfi_handle_retain(a);
      return dfi_handle_retain(g);
    }
  dfi_tensor_array *g =
      dfi_tensor_array_new(a->dtype, dfi_tensor_array_size(a), a->dynamic, false, &a->element, a->name, err);
  if (!g) return NULL;
  g->accumulates = true;
  g->lanes = a->lanes;
  g->node = a->node;
  g->forward = dfi_handle_retain(a);
  if (named) {
    g->source = dfi_xstrdup(source);
    g->next = a->gradients;
    a->gradients = g;
  }
  return g;
}

dfi_tensor_array *dfi_tensor_array_copy(dfi_tensor_array *a, df_error *err) {
  dfi_tensor_array *c =
      dfi_tensor_array_new(a->dtype, a->size, a->dynamic, a->clear_after_read, &a->element, a->name, err);
  if (!c) return NULL;
  c->accumulates = a->accumulates;
  c->lanes = a->lanes;
  c->saved = a->saved;
  c->outlines = a->outlines;
  c->swap = a->swap;
  c->node = a->node;
  c->store = a->store;
  c->cell = a->cell;
  c->row = a->row;
  c->first_log2 = a->first_log2;
  if (a->forward) c->forward = dfi_handle_retain(a->forward);
  if (a->whole) c->whole = df_tensor_retain(a->whole);
  if (a->chunk != a->few) c->chunk = dfi_xcalloc((size_t)a->nchunks, sizeof *c->chunk);
  c->nchunks = a->nchunks;
  for (int32_t k = 0; k < a->nchunks; k++) {
    if (!a->chunk[k]) continue;
    int64_t n = dfi_chunk_slots(a, k);
    if (!(c->chunk[k] = dfi_alloc(n * (a->cell + 1)))) {
      dfi_array_no_memory(a, err);
      dfi_handle_release(c);
      return NULL;
    }
    memcpy(c->chunk[k], a->chunk[k], (size_t)(n * (a->cell + 1)));
    if (dfi_packed(a)) continue;
    void **cell = c->chunk[k];
    const uint8_t *state = dfi_chunk_states(c, k);
    for (int64_t i = 0; i < n; i++)
      if ((state[i] == DFI_SLOT_CLEARED || state[i] == DFI_SLOT_LET_GO) && cell[i])
        cell[i] = memcpy(dfi_xmalloc(sizeof(dfi_shape)), cell[i], sizeof(dfi_shape));
      else if (state[i] != DFI_SLOT_WRITTEN) continue;
      else if (a->store == DFI_STORE_TENSORS) df_tensor_retain(cell[i]);
      else dfi_handle_retain(cell[i]);
  }
  return c;
}

/* ---- locations --------------------------------------------------------------------------------- */

/* A number of `bytes` bytes (1, 2, 4 or 8). */
static inline void copy_number(void *to, const void *from, uint8_t bytes) {
  switch (bytes) {
    case 4:  memcpy(to, from, 4); break;
    case 8:  memcpy(to, from, 8); break;
    case 2:  memcpy(to, from, 2); break;
    default: memcpy(to, from, 1); break;
  }
}

/* The state of location i and where it lies; NULL when its chunk was never made. */
static uint8_t *slot_find(const dfi_tensor_array *a, int64_t i, void **cell) {
  int64_t c, at;
  dfi_slot_at(a, i, &c, &at);
  if (c >= a->nchunks || !a->chunk[c]) return NULL;
  *cell = (char *)a->chunk[c] + at * a->cell;
  return dfi_chunk_states(a, c) + at;
}

/* Makes chunk c, and room for its number. False: out of memory. */
static __attribute__((noinline)) bool chunk_make(dfi_tensor_array *a, int64_t c) {
  if (c >= a->nchunks) {
    int64_t n = a->dynamic && c < 2 * (int64_t)a->nchunks ? 2 * (int64_t)a->nchunks : c + 1;
    void **more = dfi_xrealloc(a->chunk == a->few ? NULL : a->chunk, sizeof *more * (size_t)n);
    if (a->chunk == a->few) memcpy(more, a->few, sizeof a->few);
    a->chunk = more;
    memset(a->chunk + a->nchunks, 0, sizeof *a->chunk * (size_t)(n - a->nchunks));
    a->nchunks = (int32_t)n;
  }
  if (a->chunk[c]) return true;
  const int64_t n = dfi_chunk_slots(a, c);
  if (!(a->chunk[c] = dfi_alloc(n * (a->cell + 1)))) return false;
  memset(dfi_chunk_states(a, c), DFI_SLOT_EMPTY, (size_t)n);
  return true;
}

/* The same, made where it is missing. NULL: out of memory. */
static inline __attribute__((always_inline)) uint8_t *slot_make(dfi_tensor_array *a, int64_t i, void **cell) {
  int64_t c, at;
  dfi_slot_at(a, i, &c, &at);
  if ((c >= a->nchunks || !a->chunk[c]) && !chunk_make(a, c)) return NULL;
  *cell = (char *)a->chunk[c] + at * a->cell;
  return dfi_chunk_states(a, c) + at;
}

void dfi_element_look(const dfi_tensor_array *a, int64_t i, dfi_element *e) {
  *e = (dfi_element){ 0 };
  if (a->whole && i < a->whole->dims[0]) {
    const df_tensor *w = a->whole;
    *e = (dfi_element){ .state = DFI_SLOT_WRITTEN, .rank = (int8_t)(w->rank - 1), .dims = w->dims + 1,
                        .data = (const char *)w->data + i * (w->size / w->dims[0]) * dfi_dtype_size[w->dtype],
                        .in = w->buffer };
    return;
  }
  void *cell;
  const uint8_t *state = a->store == DFI_STORE_NONE ? NULL : slot_find(a, i, &cell);
  if (!state) return;
  e->state = *state;
  if (*state != DFI_SLOT_WRITTEN) return;
  if (a->store == DFI_STORE_TENSORS) {
    e->tensor = *(df_tensor **)cell;
    e->rank = e->tensor->rank;
    e->dims = e->tensor->dims;
    e->data = e->tensor->data;
    e->in = e->tensor->buffer;
  } else {
    e->data = cell;
    if (a->store != DFI_STORE_ROWS) return;
    e->rank = a->row.rank;
    e->dims = a->row.dims;
  }
}

df_tensor **dfi_tensor_array_element(const dfi_tensor_array *a, int64_t i) {
  if (a->store != DFI_STORE_TENSORS || i < 0 || i >= a->size || (a->whole && i < a->whole->dims[0])) return NULL;
  void *cell;
  const uint8_t *state = slot_find(a, i, &cell);
  return state && *state == DFI_SLOT_WRITTEN ? cell : NULL;
}

uint8_t dfi_tensor_array_state(const dfi_tensor_array *a, int64_t i) {
  if (a->whole && i < a->whole->dims[0]) return DFI_SLOT_WRITTEN;
  void *cell;
  const uint8_t *state = a->store == DFI_STORE_NONE ? NULL : slot_find(a, i, &cell);
  return state ? *state : DFI_SLOT_EMPTY;
}

bool dfi_element_shape(const dfi_tensor_array *a, int64_t i, dfi_shape *s) {
  for (; a; a = a->forward) {
    dfi_element e;
    void *cell;
    dfi_element_look(a, i, &e);
    if (e.data || e.tensor) { *s = dfi_shape_of(e.rank, e.dims); return true; }
    if ((e.state == DFI_SLOT_CLEARED || e.state == DFI_SLOT_LET_GO) && a->store == DFI_STORE_TENSORS &&
        slot_find(a, i, &cell) && *(dfi_shape **)cell) {
      *s = **(dfi_shape **)cell;
      return true;
    }
    if (e.state == DFI_SLOT_CLEARED && dfi_packed(a)) {
      *s = a->store == DFI_STORE_ROWS ? a->row : dfi_shape_scalar();
      return true;
    }
    if (dfi_shape_known(&a->element)) { *s = a->element; return true; }
  }
  return false;
}

/* Location i of `o`, whose element is gone, had that shape; false: out of memory. */
static bool leave_shape(dfi_tensor_array *o, int64_t i, const dfi_shape *s) {
  void *cell;
  o->store = DFI_STORE_TENSORS;
  o->cell = (int64_t)sizeof(void *);
  uint8_t *state = slot_make(o, i, &cell);
  if (!state) return false;
  *(*(dfi_shape **)cell = dfi_xmalloc(sizeof *s)) = *s;
  *state = DFI_SLOT_CLEARED;
  return true;
}

/* What a gradient array is made from, without what the elements hold: an array as long as `a`, of elements as large.
 * An array of arrays and a gradient array are their own outlines. Owned. */
static dfi_tensor_array *outline_of(dfi_tensor_array *a, df_error *err) {
  if (a->dtype == DF_RESOURCE || a->forward) return dfi_handle_retain(a);
  dfi_tensor_array *o = dfi_tensor_array_new(a->dtype, a->size, a->dynamic, false, &a->element, a->name, err);
  if (!o) return NULL;
  o->node = a->node;
  dfi_shape s;
  for (int64_t i = 0; i < a->size && !dfi_shape_known(&a->element); i++)
    if (dfi_element_shape(a, i, &s) && !leave_shape(o, i, &s)) {
      dfi_array_no_memory(a, err);
      dfi_handle_release(o);
      return NULL;
    }
  return o;
}

static bool is_outline(const dfi_tensor_array *o, const dfi_tensor_array *a) {
  return o && o->dtype == a->dtype && o->size == a->size && o->dynamic == a->dynamic && o->node == a->node &&
         dfi_shape_known(&a->element) && dfi_shape_equal(&o->element, &a->element) && !a->forward;
}

/* Writes the outline of the array v. */
static int32_t write_outline(dfi_tensor_array *a, int64_t i, const df_value *v, df_error *err) {
  if (!is_outline(a->outline, v->as.handle)) {
    dfi_tensor_array *o = outline_of(v->as.handle, err);
    if (!o) return err->code;
    if (a->outline) dfi_handle_release(a->outline);
    a->outline = o;
  }
  df_value of = *v;
  of.as.handle = &a->outline->base;
  a->outlines = false;
  const int32_t status = dfi_tensor_array_write(a, i, &of, err);
  a->outlines = true;
  return status;
}

void dfi_element_clear(dfi_tensor_array *a, int64_t i) {
  void *cell;
  uint8_t *state = slot_find(a, i, &cell);
  if (!state || *state != DFI_SLOT_WRITTEN) return;
  if (a->store == DFI_STORE_TENSORS) {
    df_tensor *t = *(df_tensor **)cell;
    *(dfi_shape **)cell = NULL;
    if (!dfi_shape_known(&a->element)) {
      dfi_shape *kept = *(dfi_shape **)cell = dfi_xmalloc(sizeof *kept);
      *kept = dfi_shape_of(t->rank, t->dims);
    }
    df_tensor_release(t);
  } else if (a->store == DFI_STORE_HANDLES) {
    dfi_handle_release(*(void **)cell);
    *(void **)cell = NULL;
  }
  *state = DFI_SLOT_CLEARED;
}

void dfi_tensor_array_let_go(dfi_tensor_array *a, int64_t i) {
  void *cell;
  uint8_t *state = slot_find(a, i, &cell);
  df_assert(state && *state == DFI_SLOT_WRITTEN && a->store == DFI_STORE_TENSORS);
  df_tensor *t = *(df_tensor **)cell;
  const dfi_shape shape = dfi_shape_of(t->rank, t->dims);
  if (!a->shape_let_go) *(a->shape_let_go = dfi_xmalloc(sizeof shape)) = shape;
  if (dfi_shape_equal(a->shape_let_go, &shape)) *(dfi_shape **)cell = a->shape_let_go;
  else *(*(dfi_shape **)cell = dfi_xmalloc(sizeof shape)) = shape;
  *state = DFI_SLOT_LET_GO;
  df_tensor_release(t);
}

bool dfi_tensor_array_put_back(dfi_tensor_array *a, int64_t i, const df_value *v) {
  void *cell;
  uint8_t *state = slot_find(a, i, &cell);
  df_assert(state && *state == DFI_SLOT_LET_GO);
  df_tensor *t = v->kind == DF_TENSOR ? df_tensor_retain(v->as.tensor) : dfi_tensor_from_scalar(v);
  if (!t) return false;
  if (*(dfi_shape **)cell != a->shape_let_go) dfi_free(*(dfi_shape **)cell);
  *(df_tensor **)cell = t;
  *state = DFI_SLOT_WRITTEN;
  return true;
}

void dfi_tensor_array_unwrite(dfi_tensor_array *a, int64_t i, int64_t size) {
  void *cell;
  uint8_t *state = slot_find(a, i, &cell);
  df_assert(state && *state == DFI_SLOT_WRITTEN);
  if (a->store == DFI_STORE_TENSORS) df_tensor_release(*(df_tensor **)cell);
  *state = DFI_SLOT_EMPTY;
  a->size = size;
}

void dfi_tensor_array_unclear(dfi_tensor_array *a, int64_t i, df_tensor *t) {
  void *cell;
  uint8_t *state = slot_find(a, i, &cell);
  df_assert(state && *state == DFI_SLOT_CLEARED && (t == NULL) == dfi_packed(a));
  if (t) {
    dfi_free(*(dfi_shape **)cell);
    *(df_tensor **)cell = t;
  }
  *state = DFI_SLOT_WRITTEN;
}

/* ---- side by side ------------------------------------------------------------------------------ */

enum { FLAT_ROWS = 64, FLAT_ALIGN = 64 };

/* Elements from one row to the next: rows of 64 bytes and more are aligned as kernel.h promises. */
static int64_t flat_step(const dfi_tensor_array *a, int64_t size) {
  const int64_t width = dfi_dtype_size[a->dtype], bytes = size * width;
  return bytes < FLAT_ALIGN || FLAT_ALIGN % width ? size : (bytes + FLAT_ALIGN - 1) / FLAT_ALIGN * FLAT_ALIGN / width;
}

static df_tensor *flat_row(const dfi_tensor_array *a, int64_t i, int32_t rank, const int64_t *dims) {
  return dfi_tensor_view(a->flat, (i - a->flat_first) * a->flat->dims[1], rank, dims);
}
static bool in_flat(const dfi_tensor_array *a, int64_t i, int64_t size) {
  return a->flat && i >= a->flat_first && i - a->flat_first < a->flat->dims[0] &&
         a->flat->dims[1] == flat_step(a, size);
}

/* As t, where the array has room for it; NULL: it has none, or t is not such a tensor. Owned. */
static df_tensor *flattened(const dfi_tensor_array *a, int64_t i, const df_tensor *t) {
  if (!in_flat(a, i, t->size) || t->buffer->arena != a->flat->buffer->arena || t->buffer == a->flat->buffer)
    return NULL;
  df_tensor *to = flat_row(a, i, t->rank, t->dims);
  if (to && dfi_bytes_copy(to->data, to->buffer, t->data, t->buffer, t->size * dfi_dtype_size[t->dtype])) return to;
  df_tensor_release(to);
  return NULL;
}

void dfi_tensor_array_together(dfi_tensor_array *a) {
  if (!a->scattered) return;
  a->scattered = false;
  for (int32_t c = 0; c < a->nchunks && a->store == DFI_STORE_TENSORS; c++) {
    if (!a->chunk[c]) continue;
    const int64_t n = dfi_chunk_slots(a, c), begin = dfi_chunk_begin(a, c);
    const uint8_t *state = dfi_chunk_states(a, c);
    for (int64_t i = 0; (i = next_used(state, i, n)) < n; i++) {
      df_tensor **cell = (df_tensor **)a->chunk[c] + i;
      df_tensor *t = state[i] == DFI_SLOT_WRITTEN ? flattened(a, begin + i, *cell) : NULL;
      if (!t) continue;
      df_tensor_release(*cell);
      *cell = t;
    }
  }
}

static bool flat_make(dfi_tensor_array *a, int64_t first, int64_t rows, int64_t step) {
  df_tensor *t = dfi_tensor_make(a->dtype, 2, (int64_t[]){ rows, step });
  if (!t) return false;
  df_tensor_release(a->flat);
  a->flat = t;
  a->flat_first = first;
  return true;
}

/* Is there so much room that all rows are to have theirs at once? Then they are stacked without a copy; else memory is
   asked for as they come, since perhaps few of them do. */
static bool has_plenty(const dfi_tensor_array *a, int64_t rows, int64_t step) {
  dfi_devmem_stats now = { 0 };
  if (dfi_devmem_here) dfi_devmem_look(dfi_devmem_here, &now);
  return !now.limit || rows * step * dfi_dtype_size[a->dtype] <= (now.limit - now.in_use) / 2;
}

df_tensor *dfi_tensor_array_place(dfi_tensor_array *a, int64_t i, const dfi_shape *shape) {
  const int64_t size = dfi_shape_size(shape), step = flat_step(a, size), all = dfi_tensor_array_size(a);
  if (!size) return dfi_tensor_make(a->dtype, shape->rank, shape->dims);
  if (!in_flat(a, i, size)) {
    const bool first = !a->flat && (!a->dynamic || a->accumulates) && i < all;
    if (first && has_plenty(a, all, step) && flat_make(a, 0, all, step)) a->scattered = true;
    else {
      const int64_t had = a->flat ? a->flat->dims[0] : 0, rows = had < FLAT_ROWS / 2 ? FLAT_ROWS : 2 * had;
      const int64_t from = a->flat && i < a->flat_first ? i - rows + 1 : i;
      if (!flat_make(a, from > 0 ? from : 0, rows, step)) return NULL;
    }
  }
  return flat_row(a, i, shape->rank, shape->dims);
}

/* ---- writing ----------------------------------------------------------------------------------- */

static dfi_shape value_shape(const df_value *v) {
  return v->kind == DF_TENSOR ? dfi_shape_of(v->as.tensor->rank, v->as.tensor->dims) : dfi_shape_scalar();
}

/* Does v fit the array? An element shape that is not known yet becomes v's. */
static int32_t check_element(dfi_tensor_array *a, int64_t i, const df_value *v, df_error *err) {
  char title[128], at[64], want[160], found[160];
  if (v->dtype != a->dtype)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s holds %s but %s is written at %s",
                    dfi_tensor_array_title(a, title), df_dtype_name(a->dtype), df_dtype_name(v->dtype),
                    dfi_array_index(a, i, at));
  if (a->accumulates || v->kind == DF_HANDLE) return DF_OK;
  if (a->element.rank < 0) {
    if (!a->saved) a->element = value_shape(v);
    return DF_OK;
  }
  dfi_shape shape = value_shape(v), merged;
  if (dfi_shape_merge(&a->element, &shape, &merged)) return DF_OK;
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                  "%s: its elements are %s but %s is written at %s (shapes that vary need element_shape with -1)",
                  dfi_tensor_array_title(a, title), dfi_typed_shape_text(a->dtype, &a->element, want),
                  dfi_typed_shape_text(v->dtype, &shape, found), dfi_array_index(a, i, at));
}

/* Packed elements become tensors, because one came that is none of their kind. */
static int32_t unpack(dfi_tensor_array *a, df_error *err) {
  const int64_t bytes = a->cell;
  const dfi_shape shape = a->store == DFI_STORE_ROWS ? a->row : dfi_shape_scalar();
  for (int32_t c = 0; c < a->nchunks; c++) {
    if (!a->chunk[c]) continue;
    int64_t n = dfi_chunk_slots(a, c);
    char *from = a->chunk[c];
    const uint8_t *was = (const uint8_t *)from + n * bytes;
    void **to = dfi_alloc(n * (int64_t)(sizeof *to + 1));
    uint8_t *state = (uint8_t *)(to + n);
    bool ok = to != NULL;
    if (ok) memset(state, DFI_SLOT_EMPTY, (size_t)n);
    for (int64_t i = 0; i < n && ok; i++) {
      to[i] = NULL;
      if (was[i] == DFI_SLOT_CLEARED) *(dfi_shape *)(to[i] = dfi_xmalloc(sizeof(dfi_shape))) = shape;
      if (was[i] == DFI_SLOT_WRITTEN) {
        df_tensor *t = dfi_tensor_make(a->dtype, shape.rank, shape.dims);
        ok = t && dfi_bytes_copy(t->data, t->buffer, from + i * bytes, NULL, bytes);
        to[i] = t;
      }
      if (ok) state[i] = was[i];
    }
    a->chunk[c] = to;                        /* chunks not yet done hold nothing that needs an end of its own */
    dfi_release(from, n * (bytes + 1));
    if (ok) continue;
    for (int32_t rest = c + 1; rest < a->nchunks; rest++)
      if (a->chunk[rest]) {
        dfi_release(a->chunk[rest], dfi_chunk_slots(a, rest) * (bytes + 1));
        a->chunk[rest] = NULL;
      }
    a->store = DFI_STORE_TENSORS;
    a->cell = sizeof *to;
    return dfi_array_no_memory(a, err);
  }
  a->store = DFI_STORE_TENSORS;
  a->cell = sizeof(void *);
  return DF_OK;
}

static int32_t check_sum(const dfi_tensor_array *a, int64_t i, const df_value *v, const dfi_shape *have,
                         df_error *err) {
  char title[128], at[64], x[160], y[160];
  dfi_shape came = value_shape(v);
  if (!dfk_adds(v->dtype))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: elements of %s cannot be added up",
                    dfi_tensor_array_title(a, title), df_dtype_name(v->dtype));
  if (dfi_shape_equal(have, &came)) return DF_OK;
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: %s is added at %s, where %s is",
                  dfi_tensor_array_title(a, title), dfi_typed_shape_text(v->dtype, &came, x),
                  dfi_array_index(a, i, at), dfi_typed_shape_text(a->dtype, have, y));
}

/* *t += v, in place where it has no other holder. Both are of one shape and of a's dtype. */
static int32_t add_to(const dfi_tensor_array *a, df_tensor **t, const void *data, struct df_buffer *in, df_error *err) {
  df_tensor *old = *t, *sum = old;
  if (!dfi_tensor_exclusive(old) && !(sum = dfi_tensor_make(old->dtype, old->rank, old->dims)))
    return dfi_array_no_memory(a, err);
  if (!dfi_bytes_update(DFK_ADD, old->dtype, old->size, sum->data, sum->buffer, old->data, old->buffer, data, in,
      false))
    return dfi_array_no_memory(a, err);
  if (sum != old) {
    df_tensor_release(old);
    *t = sum;
  }
  return DF_OK;
}

static int32_t add_to_row(dfi_tensor_array *a, int64_t i, const df_value *v, df_error *err) {
  df_tensor *w = a->whole;
  dfi_shape have = dfi_shape_of(w->rank - 1, w->dims + 1);
  int32_t code = check_sum(a, i, v, &have, err);
  if (code) return code;
  if (!dfi_tensor_exclusive(w)) {
    df_tensor *copy = dfi_tensor_make(w->dtype, w->rank, w->dims);
    if (!copy) return dfi_array_no_memory(a, err);
    if (!dfi_bytes_copy(copy->data, copy->buffer, w->data, w->buffer, w->size * dfi_dtype_size[w->dtype])) {
      df_tensor_release(copy);
      return dfi_array_no_memory(a, err);
    }
    df_tensor_release(w);
    a->whole = w = copy;
  }
  int64_t row = w->size / w->dims[0];
  char *at = (char *)w->data + i * row * dfi_dtype_size[w->dtype];
  return dfi_bytes_update(DFK_ADD, w->dtype, row, at, w->buffer, at, w->buffer, dfi_value_data(v), dfi_buffer_in(v),
                          false)
             ? DF_OK : dfi_array_no_memory(a, err);
}

static int32_t add_to_slot(dfi_tensor_array *a, int64_t i, void *cell, const df_value *v, df_error *err) {
  if (a->store == DFI_STORE_HANDLES) return dfi_gradient_join(*(dfi_handle **)cell, v->as.handle, err);
  dfi_shape have = a->store == DFI_STORE_ROWS ? a->row : dfi_shape_scalar();
  if (a->store == DFI_STORE_TENSORS) have = dfi_shape_of((*(df_tensor **)cell)->rank, (*(df_tensor **)cell)->dims);
  int32_t code = check_sum(a, i, v, &have, err);
  if (code) return code;
  if (a->store == DFI_STORE_TENSORS) return add_to(a, cell, dfi_value_data(v), dfi_buffer_in(v), err);
  const bool ok = dfi_bytes_update(DFK_ADD, a->dtype, a->cell / dfi_dtype_size[a->dtype], cell, NULL, cell, NULL,
                                   dfi_value_data(v), dfi_buffer_in(v), false);
  return ok ? DF_OK : dfi_array_no_memory(a, err);
}

static int32_t write_twice(const dfi_tensor_array *a, int64_t i, uint8_t state, df_error *err) {
  char title[128], at[64];
  return dfi_fail(
      err, DF_INVALID_ARGUMENT, NULL, "%s: %s is written a second time%s; each location is written once",
      dfi_tensor_array_title(a, title), dfi_array_index(a, i, at),
      state == DFI_SLOT_CLEARED ? " (it was read and cleared)" : "");
}

/* Has v the shape of the array's packed tensors? */
static bool is_row(const dfi_tensor_array *a, const df_value *v) {
  const dfi_shape s = value_shape(v);
  return v->kind == DF_TENSOR && dfi_shape_equal(&s, &a->row);
}

int32_t dfi_tensor_array_write(dfi_tensor_array *a, int64_t i, const df_value *v, df_error *err) {
  /* What a loop does a million times: an unboxed number into a chunk that is there. */
  if (DFI_LIKELY(a->store == DFI_STORE_NUMBERS && v->kind == DF_SCALAR && v->dtype == a->dtype && !a->whole &&
                 i >= 0 && (i < a->size || (a->dynamic && i < INT32_MAX)))) {
    void *cell;
    uint8_t *state = slot_find(a, i, &cell);
    if (DFI_LIKELY(state && *state == DFI_SLOT_EMPTY)) {
      copy_number(cell, &v->as, (uint8_t)a->cell);
      *state = DFI_SLOT_WRITTEN;
      if (i >= a->size) a->size = i + 1;
      return DF_OK;
    }
  }
  if (DFI_UNLIKELY(a->outlines) && v->kind == DF_HANDLE &&
      ((const dfi_handle *)v->as.handle)->type == DFI_TENSOR_ARRAY)
    return write_outline(a, i, v, err);
  int64_t size = dfi_tensor_array_size(a);
  if (i < 0 || (i >= size && !a->dynamic) || i >= INT32_MAX) return dfi_index_fail(a, i, true, err);
  int32_t code = check_element(a, i, v, err);
  if (code) return code;
  if (a->whole && i < a->whole->dims[0])
    return a->accumulates ? add_to_row(a, i, v, err) : write_twice(a, i, DFI_SLOT_WRITTEN, err);

  dfi_store store = v->kind == DF_SCALAR   ? DFI_STORE_NUMBERS
                    : v->kind == DF_HANDLE ? DFI_STORE_HANDLES
                                           : DFI_STORE_TENSORS;
  if (a->store == DFI_STORE_NONE) {
    a->store = (uint8_t)store;
    a->cell = store == DFI_STORE_NUMBERS ? dfi_dtype_size[a->dtype] : (int64_t)sizeof(void *);
  } else if ((a->store == DFI_STORE_NUMBERS && store != DFI_STORE_NUMBERS) ||
             (a->store == DFI_STORE_ROWS && !is_row(a, v))) {
    if ((code = unpack(a, err))) return code;
  }
  void *cell;
  uint8_t *state = slot_make(a, i, &cell);
  if (!state) return dfi_array_no_memory(a, err);
  if (*state != DFI_SLOT_EMPTY)
    return a->accumulates ? add_to_slot(a, i, cell, v, err) : write_twice(a, i, *state, err);

  if (a->store == DFI_STORE_NUMBERS) {
    copy_number(cell, &v->as, (uint8_t)a->cell);
  } else if (a->store == DFI_STORE_ROWS) {
    if (!dfi_bytes_copy(cell, NULL, dfi_value_data(v), dfi_buffer_in(v), a->cell)) return dfi_array_no_memory(a, err);
  } else if (v->kind == DF_SCALAR) {
    df_tensor *t = dfi_tensor_from_scalar(v);
    if (!t) return dfi_array_no_memory(a, err);
    *(df_tensor **)cell = t;
  } else if (v->kind == DF_TENSOR) {
    df_tensor *beside = DFI_UNLIKELY(a->flat) && v->as.tensor->buffer ? flattened(a, i, v->as.tensor) : NULL;
    *(df_tensor **)cell = beside ? beside : df_tensor_retain(v->as.tensor);
  } else {
    *(void **)cell = dfi_handle_retain(v->as.handle);
  }
  *state = DFI_SLOT_WRITTEN;
  if (i >= a->size) a->size = i + 1;
  return DF_OK;
}

/* May the array pack its tensors, so large each? Not where single ones are let go or moved. */
static bool may_pack(const dfi_tensor_array *a, const dfi_shape *shape, int64_t bytes) {
  return (a->store == DFI_STORE_NONE || a->store == DFI_STORE_TENSORS) && !a->mixed && !a->whole && !a->remat &&
         !a->linked && shape->rank > 0 && bytes > 0 && bytes <= DFI_ROW_BYTES && a->swap != DFI_SWAP_WANTED;
}

/* Is location i, or was what it held, a tensor of this shape where the host reads it? */
static bool fits_row(const dfi_tensor_array *a, uint8_t state, const void *cell, const dfi_shape *shape) {
  if (state == DFI_SLOT_EMPTY) return true;
  if (state == DFI_SLOT_CLEARED) return dfi_shape_equal(cell ? (const dfi_shape *)cell : &a->element, shape);
  if (state != DFI_SLOT_WRITTEN) return false;
  const df_tensor *t = cell;
  const dfi_shape have = dfi_shape_of(t->rank, t->dims);
  return dfi_readable(t) && dfi_shape_equal(&have, shape);
}

/* Tensors, which are all of this shape, become packed. False: they stay what they are. */
static bool pack_rows(dfi_tensor_array *a, const dfi_shape *shape, int64_t bytes) {
  char **to = dfi_xcalloc((size_t)a->nchunks + 1, sizeof *to);
  bool fits = true;
  for (int32_t c = 0; c < a->nchunks && fits; c++) {
    if (!a->chunk[c]) continue;
    const int64_t n = dfi_chunk_slots(a, c);
    const uint8_t *state = dfi_chunk_states(a, c);
    void *const *cell = a->chunk[c];
    for (int64_t i = 0; fits && (i = next_used(state, i, n)) < n; i++) fits = fits_row(a, state[i], cell[i], shape);
    if (!fits || !(fits = (to[c] = dfi_alloc(n * (bytes + 1))) != NULL)) continue;
    memcpy(to[c] + n * bytes, state, (size_t)n);
    for (int64_t i = 0; (i = next_used(state, i, n)) < n; i++)
      if (state[i] == DFI_SLOT_WRITTEN) memcpy(to[c] + i * bytes, ((df_tensor *)cell[i])->data, (size_t)bytes);
  }
  for (int32_t c = 0; c < a->nchunks; c++) {
    if (!to[c]) continue;
    if (!fits) { dfi_release(to[c], dfi_chunk_slots(a, c) * (bytes + 1)); continue; }
    drop_chunk(a, c);
    a->chunk[c] = to[c];
  }
  dfi_free(to);
  a->mixed = !fits;
  return fits;
}

/* Is a tensor of these bytes to lie beside the others, on the host, so that they are stacked where they are? From the
   first or the last location on, where all of them are not too much to ask for at once. */
static bool goes_side_by_side(const dfi_tensor_array *a, int64_t i, int64_t bytes) {
  enum { MOST_BYTES = 64 << 20 };
  const int64_t n = a->size, size = bytes / dfi_dtype_size[a->dtype];
  if (a->dynamic || a->accumulates || a->saved || a->clear_after_read || a->swap || a->remat) return false;
  if (i < 0 || i >= n || bytes <= DFI_ROW_BYTES || bytes % FLAT_ALIGN || n > MOST_BYTES / bytes) return false;
  return a->flat ? in_flat(a, i, size) : (i == 0 || i == n - 1) && has_plenty(a, n, size);
}

void *dfi_tensor_array_spot(dfi_tensor_array *a, int64_t i, const dfi_shape *shape) {
  if (!goes_side_by_side(a, i, dfi_shape_size(shape) * dfi_dtype_size[a->dtype])) return NULL;
  if (dfi_tensor_array_state(a, i) != DFI_SLOT_EMPTY) return NULL;
  df_tensor *t = dfi_tensor_array_place(a, i, shape);
  void *at = t ? t->data : NULL;
  df_tensor_release(t);
  return at;
}

int32_t dfi_tensor_array_write_row(dfi_tensor_array *a, int64_t i, const dfi_shape *shape, const void *data, bool pack,
                                   df_error *err) {
  const int64_t bytes = dfi_shape_size(shape) * dfi_dtype_size[a->dtype];
  df_tensor view = { .refs = 1, .dtype = a->dtype, .rank = shape->rank, .view = 1, .size = dfi_shape_size(shape),
                     .data = (void *)(uintptr_t)data };
  memcpy(view.dims, shape->dims, sizeof *view.dims * (size_t)shape->rank);
  df_value v = { .kind = DF_TENSOR, .dtype = a->dtype, .as.tensor = &view };
  if (pack && i >= 0 && (i < dfi_tensor_array_size(a) || a->dynamic) && may_pack(a, shape, bytes)) {
    const int32_t code = check_element(a, i, &v, err);
    if (code) return code;
    if (pack_rows(a, shape, bytes)) {
      a->store = DFI_STORE_ROWS;
      a->cell = bytes;
      a->row = *shape;
    }
  }
  if (a->store == DFI_STORE_ROWS && dfi_shape_equal(shape, &a->row)) return dfi_tensor_array_write(a, i, &v, err);
  v.as.tensor = goes_side_by_side(a, i, bytes) ? dfi_tensor_array_place(a, i, shape)
                                               : dfi_tensor_make(a->dtype, shape->rank, shape->dims);
  if (!v.as.tensor) return dfi_array_no_memory(a, err);
  if (v.as.tensor->data != data) memcpy(v.as.tensor->data, data, (size_t)bytes);
  const int32_t code = dfi_tensor_array_write(a, i, &v, err);
  df_tensor_release(v.as.tensor);
  return code;
}

int32_t dfi_tensor_array_join(dfi_tensor_array *a, dfi_tensor_array *other, df_error *err) {
  if (a == other) return DF_OK;
  char title[128];
  if (!a->accumulates || !other->accumulates)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s is not a gradient array: it cannot be added to another",
                    dfi_tensor_array_title(a->accumulates ? other : a, title));
  int32_t code = other->whole ? dfi_tensor_array_unstack(a, other->whole, err) : DF_OK;
  for (int64_t c = 0; c < other->nchunks && !code; c++) {
    if (!other->chunk[c]) continue;
    const uint8_t *state = dfi_chunk_states(other, c);
    const char *cell = other->chunk[c];
    for (int64_t i = 0, n = dfi_chunk_slots(other, c); i < n && !code; i++, cell += other->cell) {
      if (state[i] != DFI_SLOT_WRITTEN) continue;
      if (other->store == DFI_STORE_ROWS) {
        code = dfi_tensor_array_write_row(a, dfi_chunk_begin(other, c) + i, &other->row, cell, false, err);
        continue;
      }
      df_value v = { .dtype = other->dtype };
      memcpy(&v.as, cell, (size_t)other->cell);
      v.kind = other->store == DFI_STORE_NUMBERS   ? DF_SCALAR
               : other->store == DFI_STORE_TENSORS ? DF_TENSOR
                                                   : DF_HANDLE;
      code = dfi_tensor_array_write(a, dfi_chunk_begin(other, c) + i, &v, err);
    }
  }
  return code;
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* A gradient array where nothing came: zeros; of an array of handles, the gradient of one with nothing in it. */
static int32_t read_zeros(dfi_tensor_array *a, int64_t i, df_value *out, df_error *err) {
  if (a->dtype == DF_RESOURCE) {
    df_value forward;
    int32_t code = dfi_tensor_array_read(a->forward, i, &forward, err);
    if (code) return code;
    out->as.handle = dfi_gradient_new(forward.as.handle, err);
    dfi_value_drop(&forward);
    out->kind = out->as.handle ? DF_HANDLE : DF_EMPTY;
    return out->as.handle ? DF_OK : err ? err->code : DF_RESOURCE_EXHAUSTED;
  }
  dfi_shape s;
  if (!dfi_element_shape(a, i, &s)) return dfi_element_missing(a, i, DFI_SLOT_EMPTY, err);
  if (s.rank == 0 && dfi_unboxed(a->dtype)) {
    out->kind = DF_SCALAR;
    out->as.i64 = 0;
    return DF_OK;
  }
  df_tensor *t = dfi_tensor_make(a->dtype, s.rank, s.dims);
  if (!t) return dfi_array_no_memory(a, err);
  if (dfk_plain(a->dtype) && !dfi_bytes_zero(t->data, t->buffer, t->size * dfi_dtype_size[a->dtype])) {
    df_tensor_release(t);
    return dfi_array_no_memory(a, err);
  }
  out->kind = DF_TENSOR;
  out->as.tensor = t;
  return DF_OK;
}

int32_t dfi_tensor_array_read(dfi_tensor_array *a, int64_t i, df_value *out, df_error *err) {
  *out = (df_value){ .dtype = a->dtype };
  if (DFI_UNLIKELY(i < 0 || (i >= a->size && i >= dfi_tensor_array_size(a)))) return dfi_index_fail(a, i, false, err);
  if (a->whole && i < a->whole->dims[0]) return dfi_row_value(a->whole, i, out) ? DF_OK : dfi_array_no_memory(a, err);
  void *cell;
  const uint8_t *state = a->store == DFI_STORE_NONE ? NULL : slot_find(a, i, &cell);
  if (DFI_UNLIKELY(!state || *state != DFI_SLOT_WRITTEN)) {
    if (a->accumulates && !(state && *state == DFI_SLOT_CLEARED)) return read_zeros(a, i, out, err);
    return dfi_element_missing(a, i, state ? *state : DFI_SLOT_EMPTY, err);
  }
  switch (a->store) {
    case DFI_STORE_NUMBERS:
      out->kind = DF_SCALAR;
      copy_number(&out->as, cell, (uint8_t)a->cell);
      break;
    case DFI_STORE_ROWS: {
      df_tensor *t = dfi_tensor_make(a->dtype, a->row.rank, a->row.dims);
      if (!t || !dfi_bytes_copy(t->data, t->buffer, cell, NULL, a->cell)) {
        df_tensor_release(t);
        return dfi_array_no_memory(a, err);
      }
      out->kind = DF_TENSOR;
      out->as.tensor = t;
      break;
    }
    case DFI_STORE_TENSORS:
      dfi_value_from_tensor(out, df_tensor_retain(*(df_tensor **)cell));
      break;
    default:
      out->kind = DF_HANDLE;
      out->as.handle = dfi_handle_retain(*(void **)cell);
      break;
  }
  if (a->clear_after_read) dfi_element_clear(a, i);
  return DF_OK;
}
