/* cudagraph_journal.c: what arrays are given, and asked for, ahead of a graph's launches. See cudagraph.h.
 *
 * While the host looks ahead it does to an array what tokens would do (a location is written, or read and cleared),
 * with elements whose memory will be filled, and notes it in a journal. Iterations that are rolled back are taken
 * back from its end. Where the GPU alone knows whether an access takes place (`loose`: in a cond by its word) it says
 * so afterwards, and what did not is taken back.
 */
#include "engine/cudagraph/cudagraph.h"
#include "base/remote_memory.h"
#include "engine/token.h"
#include "resource/tensor_array.h"

typedef enum entry_kind { WROTE, CLEARED, REPLACED, COUNTED, MISSING } entry_kind;

/* What has been done to location `index` ahead of time, in iteration `at` of the launch. */
typedef struct dfi_cudagraph_entry {
  dfi_tensor_array *array;
  entry_kind kind;
  int32_t    at, access, guard, other;     /* other: a second guard under which it is written; -1: none */
  int64_t    index, size;                  /* size: of the array before */
  df_tensor *was;                          /* owned: what was cleared, or replaced */
} entry;

/* ---- looking ahead ----------------------------------------------------------------------------------------------- */

static entry *note(dfi_cudagraph_exec *m, dfi_tensor_array *a, entry_kind kind, int32_t access, int32_t guard,
                   int64_t i) {
  DFI_GROW(m->journal, m->njournal, m->journal_room);
  entry *e = &m->journal[m->njournal++];
  *e = (entry){ .array = a, .kind = kind, .at = m->ahead_at, .access = access, .guard = guard, .other = -1, .index = i,
                .size = a->size };
  return e;
}

static void take_back(const entry *e) {
  df_tensor **at;
  switch (e->kind) {
  case WROTE: dfi_tensor_array_unwrite(e->array, e->index, e->size); break;
  case CLEARED: dfi_tensor_array_unclear(e->array, e->index, e->was); break;
  case REPLACED:
    at = dfi_tensor_array_element(e->array, e->index);
    df_tensor_release(*at);
    *at = e->was;
    break;
  default: break;
  }
}

void dfi_cudagraph_undo(dfi_cudagraph_exec *m, int32_t to) {
  while (m->njournal > to) take_back(&m->journal[--m->njournal]);
}

void dfi_cudagraph_undo_from(dfi_cudagraph_exec *m, int32_t at) {
  while (m->njournal && m->journal[m->njournal - 1].at >= at) dfi_cudagraph_undo(m, m->njournal - 1);
}

/* The next iteration is the tokens'. */
static bool stop(dfi_cudagraph_loop *l, const char *why) {
  atomic_store(&l->hindered, why);
  return false;
}

static int64_t index_of(const df_value *v) { return v->dtype == DF_INT32 ? v->as.i32 : v->as.i64; }

static int64_t bytes_of(const dfi_cudagraph_site *s) { return dfi_shape_size(&s->form) * dfi_dtype_size[s->dtype]; }

/* Memory that reads as zeros. */
static uint64_t zeros_of(const dfi_device *d, dfi_cudagraph_site *s) {
  if (!s->zeros && bytes_of(s)) {
    dfi_devmem_use(d->arena);
    s->zeros = dfi_tensor_make(s->dtype, s->form.rank, s->form.dims);
    dfi_devmem_use(NULL);
    if (s->zeros && !dfi_bytes_zero(s->zeros->data, s->zeros->buffer, bytes_of(s))) {
      df_tensor_release(s->zeros);
      s->zeros = NULL;
    }
  }
  return s->zeros ? (uint64_t)(uintptr_t)s->zeros->data : 0;
}

static bool is_there(const dfi_device *d, const struct df_buffer *in) {
  return in && in->remote && in->arena == d->arena;
}

static bool is_written(const dfi_cudagraph_loop *l, dfi_operand root) {
  for (int32_t i = 0; i < l->naccess; i++) if (l->access[i].writes && l->access[i].root == root) return true;
  return false;
}

/* A read of what is not there: an error, unless the GPU does not read it after all. */
static bool read_nothing(const dfi_device *d, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which,
                         dfi_tensor_array *a, int64_t i, uint64_t *word) {
  dfi_cudagraph_site *s = &m->site[which];
  if (!s->loose)
    return (!m->settled && is_written(l, l->access[which].root)) || stop(l, "what it reads next is not there");
  note(m, a, MISSING, which, l->guard_of[l->access[which].node], i);
  *word = s->formed ? zeros_of(d, s) : 0;
  return *word || !s->formed || !bytes_of(s);
}

/* A tensor of the host's, with which the graph is captured: as long as it is the same one. */
static bool read_same(dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which, dfi_tensor_array *a, int64_t i,
                      df_tensor *t) {
  if (!t || !dfi_readable(t) || !dfi_cudagraph_same(&m->site[which], t))
    return stop(l, "the element that it reads next is on the host, and another one");
  if (!a->clear_after_read) return true;
  note(m, a, CLEARED, which, l->guard_of[l->access[which].node], i)->was = df_tensor_retain(t);
  dfi_element_clear(a, i);
  return true;
}

static bool read_element(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which,
                         dfi_tensor_array *a, int64_t i, uint64_t *word) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  const int32_t guard = l->guard_of[l->access[which].node];
  dfi_cudagraph_site *s = &m->site[which];
  dfi_element e = { 0 };
  dfi_shape shape;
  const bool inside = i >= 0 && i < dfi_tensor_array_size(a);
  if (inside) dfi_element_look(a, i, &e);
  if (inside && a->saved) note(m, a, COUNTED, which, guard, i);
  if (inside && e.state == DFI_SLOT_EMPTY && a->accumulates) {
    if (!dfi_element_shape(a, i, &shape) || !dfi_cudagraph_form(s, shape.rank, shape.dims)) return false;
    *word = zeros_of(d, s);
    return *word || !bytes_of(s);
  }
  if (e.state != DFI_SLOT_WRITTEN) return read_nothing(d, l, m, which, a, i, word);
  if (s->how == DFI_CUDAGRAPH_SAME || (!m->settled && e.tensor && dfi_readable(e.tensor)))
    return read_same(l, m, which, a, i, e.tensor);
  if (!is_there(d, e.in)) return stop(l, "the element that it reads next is not on the GPU");
  if (!dfi_cudagraph_form(s, e.rank, e.dims)) return stop(l, "the elements that it reads have several shapes");
  d->remote->await(d->remote->device, dfi_note_of(e.in));
  *word = (uint64_t)(uintptr_t)e.data;
  if (a->clear_after_read && e.tensor) {
    note(m, a, CLEARED, which, guard, i)->was = df_tensor_retain(e.tensor);
    dfi_element_clear(a, i);
  }
  return true;
}

/* A number of the host's. */
static bool read_number(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which, dfi_tensor_array *a,
                        int64_t i,
                        df_value *out) {
  const int32_t guard = l->guard_of[l->access[which].node];
  df_error none = { 0 };
  if (i < 0 || i >= dfi_tensor_array_size(a) || !(dfi_packed(a) || a->whole)) return false;
  const uint8_t state = dfi_tensor_array_state(a, i);
  df_value v;
  if (dfi_tensor_array_read(a, i, &v, &none)) return false;
  if (state != dfi_tensor_array_state(a, i)) note(m, a, CLEARED, which, guard, i);
  if (a->saved) note(m, a, COUNTED, which, guard, i);
  if (v.kind != DF_SCALAR) { dfi_value_drop(&v); return false; }
  *out = v;
  return true;
}

/* The same once more, of an iteration that has read it. */
static bool read_again(dfi_tensor_array *a, int64_t i, df_value *out) {
  df_error none = { 0 };
  if (dfi_tensor_array_state(a, i) == DFI_SLOT_CLEARED) dfi_tensor_array_unclear(a, i, NULL);
  return !dfi_tensor_array_read(a, i, out, &none);
}

/* Is there no iteration in which both guards hold? */
static bool exclude(const dfi_cudagraph_loop *l, int32_t a, int32_t b) {
  for (; a > 0; a = l->guard[a].parent)
    for (int32_t g = b; g > 0; g = l->guard[g].parent) if (a != g && (a - 1) / 2 == (g - 1) / 2) return true;
  return false;
}

/* The other side of a cond writes to the location in this iteration, too: the entry. */
static entry *other_side(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_tensor_array *a, int64_t i,
                         int32_t guard) {
  for (int32_t k = m->njournal - 1; k >= 0 && m->journal[k].at == m->ahead_at; k--) {
    entry *e = &m->journal[k];
    if (e->kind == WROTE && e->array == a && e->index == i && e->other < 0 && exclude(l, e->guard, guard)) return e;
  }
  return NULL;
}

/* Is it the GPU that says whether there is something at the location, since an iteration of the same launch? */
static bool is_open(const dfi_cudagraph_exec *m, const dfi_tensor_array *a, int64_t i) {
  for (int32_t k = m->loose ? m->njournal - 1 : -1; k >= 0; k--) {
    const entry *e = &m->journal[k];
    if (e->array == a && e->index == i && (e->kind == WROTE || e->kind == REPLACED) && m->site[e->access].loose)
      return true;
  }
  return false;
}

/* The array has v at location i from now on. */
static bool write_value(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which, dfi_tensor_array *a,
                        int64_t i,
                        const df_value *v) {
  df_error none = { 0 };
  const int64_t size = a->size;
  if (dfi_tensor_array_write(a, i, v, &none)) return false;
  note(m, a, WROTE, which, l->guard_of[l->access[which].node], i)->size = size;
  return true;
}

/* What the host has, which is the same in each iteration. */
static bool write_same(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which, dfi_tensor_array *a,
                       int64_t i) {
  df_tensor *t = m->site[which].same;
  const df_value v = { .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
  if (i < 0 || i >= (a->dynamic ? INT32_MAX : dfi_tensor_array_size(a))) return false;
  if (i < dfi_tensor_array_size(a) && dfi_tensor_array_state(a, i) != DFI_SLOT_EMPTY) return false;
  if (a->saved) note(m, a, COUNTED, which, l->guard_of[l->access[which].node], i);
  return write_value(l, m, which, a, i, &v);
}

/* To what is there already. Where others hold that, the sum becomes another tensor. */
static bool add_to(const dfi_device *d, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which,
                   dfi_tensor_array *a, int64_t i, uint64_t *word) {
  const dfi_cudagraph_site *s = &m->site[which];
  df_tensor **at = dfi_tensor_array_element(a, i), *t = at ? *at : NULL;
  if (!t || !is_there(d, t->buffer) || t->size != dfi_shape_size(&s->form)) return false;
  d->remote->await(d->remote->device, dfi_note_of(t->buffer));
  word[1] = 1;
  word[2] = (uint64_t)(uintptr_t)t->data;
  if (!dfi_tensor_exclusive(t)) {
    dfi_devmem_use(d->arena);
    df_tensor *sum = dfi_tensor_make(t->dtype, t->rank, t->dims);
    dfi_devmem_use(NULL);
    if (!sum) return false;
    note(m, a, REPLACED, which, l->guard_of[l->access[which].node], i)->was = t;
    *at = t = sum;
  }
  word[0] = (uint64_t)(uintptr_t)t->data;
  return true;
}

/* A new element, whose memory the graph will fill. */
static bool write_new(const dfi_device *d, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which,
                      dfi_tensor_array *a, int64_t i, uint64_t *word) {
  const dfi_cudagraph_site *s = &m->site[which];
  dfi_devmem_use(d->arena);
  df_tensor *t = dfi_tensor_array_place(a, i, &s->form);
  dfi_devmem_use(NULL);
  if (!t) return stop(l, "there is no memory for what it writes next");
  const df_value v = { .kind = DF_TENSOR, .dtype = s->dtype, .as.tensor = t };
  const bool ok = write_value(l, m, which, a, i, &v);
  word[0] = (uint64_t)(uintptr_t)t->data;
  if (s->adds) { word[1] = 0; word[2] = word[0]; }
  df_tensor_release(t);
  return ok;
}

static bool write_element(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which,
                          dfi_tensor_array *a, int64_t i, uint64_t *word) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  const dfi_cudagraph_site *s = &m->site[which];
  const int32_t guard = l->guard_of[l->access[which].node];
  if (!s->formed) return true;             /* its shape is known once it has been captured */
  if (i < 0 || i >= (a->dynamic ? INT32_MAX : dfi_tensor_array_size(a))) return false;
  if (a->saved) note(m, a, COUNTED, which, guard, i);
  const uint8_t state = i < dfi_tensor_array_size(a) ? dfi_tensor_array_state(a, i) : DFI_SLOT_EMPTY;
  if (state == DFI_SLOT_EMPTY) return write_new(d, l, m, which, a, i, word);
  entry *other = s->loose && state == DFI_SLOT_WRITTEN ? other_side(l, m, a, i, guard) : NULL;
  if (other) {
    df_tensor *t = *dfi_tensor_array_element(a, i);
    other->other = guard;
    word[0] = (uint64_t)(uintptr_t)t->data;
    if (s->adds) { word[1] = 0; word[2] = word[0]; }
    return t->size == dfi_shape_size(&s->form);
  }
  if (!a->accumulates || state != DFI_SLOT_WRITTEN) return false;
  if (is_open(m, a, i)) return stop(l, "the GPU alone knows what is added up there");
  if (s->adds) return add_to(d, l, m, which, a, i, word);
  atomic_store(&l->access[which].adds, true);
  return false;
}

bool dfi_cudagraph_access_ahead(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                                df_value *v, int32_t which, uint64_t *words) {
  const dfi_cudagraph_access *at = &l->access[which];
  const dfi_pnode *p = r->nodes + at->node;
  const dfi_operand *in = x->plan->operand + p->in;
  const dfi_cudagraph_site *s = &m->site[which];
  dfi_tensor_array *a = dfi_cudagraph_array(r, at);
  const int64_t i = index_of(dfi_cudagraph_number_at(m, r, v, in[1]));
  if (m->again_ahead) return at->writes || s->how != DFI_CUDAGRAPH_NUMBER || read_again(a, i, &v[p->out]);
  if (s->how == DFI_CUDAGRAPH_SAME && at->writes) return write_same(l, m, which, a, i);
  if (s->how != DFI_CUDAGRAPH_NUMBER)
    return at->writes ? write_element(x, l, m, which, a, i, words + s->word)
                      : read_element(x, l, m, which, a, i, words + s->word);
  if (!at->writes) return read_number(l, m, which, a, i, &v[p->out]);
  if (i >= 0 && i < a->size && dfi_tensor_array_state(a, i) != DFI_SLOT_EMPTY) return false;
  if (a->saved) note(m, a, COUNTED, which, l->guard_of[at->node], i);
  return write_value(l, m, which, a, i, dfi_cudagraph_number_at(m, r, v, in[2]));
}

/* ---- committed iterations --------------------------------------------------------------------------------------- */

/* Did the guard hold in iteration `at`? sides: the GPU's word, by iteration and pair. */
static bool held(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r, const int64_t *sides,
                 int32_t at, int32_t g) {
  const int32_t width = dfi_cudagraph_pairs(l);
  for (; g > 0; g = l->guard[g].parent) {
    const int32_t pair = (g - 1) | 1;
    if (dfi_cudagraph_side_of(m, pair)->known || dfi_cudagraph_on_host(m, r, l->guard[g].pred)) continue;
    if ((sides[(int64_t)at * width + (pair - 1) / 2] != 0) != l->guard[g].side) return false;
  }
  return true;
}

static bool happened(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r,
                     const int64_t *sides,
                     const entry *e) {
  return !sides || held(l, m, r, sides, e->at, e->guard) || (e->other >= 0 && held(l, m, r, sides, e->at, e->other));
}

/* The first read of nothing that the GPU has done after all: the run fails as tokens would have it. */
static void read_rolled_back(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_record *r, const entry *e, int64_t before) {
  df_error err = { 0 };
  const bool inside = e->index >= 0 && e->index < dfi_tensor_array_size(e->array);
  const uint8_t state = inside ? dfi_tensor_array_state(e->array, e->index) : DFI_SLOT_EMPTY;
  if (!inside) dfi_index_fail(e->array, e->index, false, &err);
  else dfi_element_missing(e->array, e->index, state == DFI_SLOT_WRITTEN ? DFI_SLOT_EMPTY : state, &err);
  const int64_t number = r->number;
  r->number += before + e->at;
  dfi_exec_fail(x, r, r->nodes + l->access[e->access].node, err.code, err.message);
  r->number = number;
}

bool dfi_cudagraph_settle(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                          int64_t before,
                          int64_t n) {
  int64_t *sides = NULL;
  bool ok = true;
  if (m->loose && n) {
    const int64_t bytes = (int64_t)sizeof *sides * n * dfi_cudagraph_pairs(l);
    sides = dfi_xmalloc((size_t)bytes);
    if (!dfi_bytes_copy(sides, NULL, m->sides->data, m->sides->buffer, bytes)) { dfi_free(sides); return false; }
  }
  for (int32_t k = m->njournal - 1; k >= 0; k--) {       /* what did not happen, from the end on */
    entry *e = &m->journal[k];
    if (happened(l, m, r, sides, e)) continue;
    take_back(e);
    e->kind = MISSING;
    e->was = NULL;
    e->array = NULL;
  }
  for (int32_t k = 0; k < m->njournal; k++) {
    const entry *e = &m->journal[k];
    if (e->kind == MISSING && e->array && ok) { read_rolled_back(x, l, r, e, before); ok = !x->failed; }
    if (e->kind == WROTE) {
      if (e->index >= e->array->size) e->array->size = e->index + 1;                     /* taken back too far */
      dfi_tensor_array_together(e->array);
    }
    if (e->kind == COUNTED) *(l->access[e->access].writes ? &x->count.pushes : &x->count.pops) += 1;
    if (e->kind == CLEARED || e->kind == REPLACED) df_tensor_release(e->was);
  }
  m->njournal = 0;
  dfi_free(sides);
  return ok;
}
