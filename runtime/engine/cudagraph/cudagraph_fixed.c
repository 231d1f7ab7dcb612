/* cudagraph_fixed.c: what the graph of a loop reads that is not of the iteration: constants of the loop, and values of
 * variables. See cudagraph.h.
 *
 * A graph has its addresses once and for all, and the next run has its constants elsewhere. What has been found
 * elsewhere once gets a place of the graph's own when that is captured anew, and is copied there whenever the loop is
 * entered; a number of the host's that has been found to be another one is written with those of each iteration. So in
 * the third run at the latest a graph is captured anew only where a shape is another one, or a number on which the form
 * of the graph depends.
 */
#include "engine/cudagraph/cudagraph.h"
#include "engine/token.h"
#include "resource/variable.h"

enum { PLACES_BYTES = 256 << 20 };         /* of one graph, at most: what is larger stays where it is */

bool dfi_cudagraph_same_variable(const df_value *is, const df_value *was) {
  if (is->kind != was->kind) return false;
  if (is->kind == DF_TENSOR) return dfi_cudagraph_same_form(is->as.tensor, was->as.tensor);
  return is->kind == DF_EMPTY || is->dtype == was->dtype;
}

bool dfi_cudagraph_same_variables(const dfi_record *r, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m) {
  for (int32_t k = 0; k < l->nvars; k++)
    if (!dfi_cudagraph_same_variable(dfi_cudagraph_slot(r, l, k), &m->state[k])) return false;
  return true;
}

/* ---- what has moved, of all runs --------------------------------------------------------------------------------- */

static bool moves(const dfi_cudagraph_moved *all, int32_t n, dfi_operand o, bool read) {
  for (int32_t i = 0; i < n; i++) if (all[i].at == o && all[i].read == read) return true;
  return false;
}

/* Does a side, or the loop, go by the number? Then the form of the graph depends on it. */
static bool decides(const dfi_cudagraph_loop *l, dfi_operand o) {
  for (int32_t g = 1; g < l->nguards; g++) if (l->guard[g].pred == o) return true;
  return l->pred == o;
}

/* May loops inside read it? What is of a frame goes through their Enters. */
static bool read_inside(const dfi_cudagraph_loop *l, dfi_operand o) { return l->ninner && DFI_SPACE(o) == DFI_GIVEN; }

void dfi_cudagraph_find_moved(dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r) {
  pthread_mutex_lock(&l->lock);
  m->nmoved = l->nmoved;
  m->all_moved = l->learned > 1;
  m->moved = dfi_xrealloc(m->moved, sizeof *m->moved * (size_t)(l->nmoved + 1));
  for (int32_t i = 0; i < l->nmoved; i++) {
    const dfi_cudagraph_moved *at = &l->moved[i];
    m->moved[i] = *at;
    m->moved[i].number = !l->bound && !at->read && operand(r, at->at)->kind == DF_SCALAR && !decides(l, at->at) &&
                         !read_inside(l, at->at);
  }
  pthread_mutex_unlock(&l->lock);
}

void dfi_cudagraph_numbers_stay(dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  pthread_mutex_lock(&l->lock);
  l->bound = true;
  pthread_mutex_unlock(&l->lock);
  for (int32_t i = 0; i < m->nmoved; i++) m->moved[i].number = false;
}

/* ---- is it there still? ------------------------------------------------------------------------------------------ */

/* What lies at f's place now. Owned. EMPTY: a variable that has no value. */
static df_value value_at(const dfi_record *r, const dfi_cudagraph_fixed *f) {
  df_value v = { 0 };
  if (!f->read) return dfi_value_copy(operand(r, f->at));
  if (!dfi_variable_peek(operand(r, f->at), &v)) v.kind = DF_EMPTY;
  return v;
}

/* MOVED: it is of the same form, and lies elsewhere, or is another number. */
typedef enum likeness { OTHER, MOVED, SAME } likeness;

static likeness compare(const df_value *is, const dfi_cudagraph_fixed *f) {
  if (is->kind != f->value.kind || is->dtype != f->value.dtype) return OTHER;
  if (is->kind == DF_HANDLE) return SAME;  /* an array: dfi_cudagraph_arrays_fit */
  if (is->kind != DF_TENSOR)
    return f->fed || !memcmp(&is->as, &f->value.as, sizeof is->as) ? SAME : f->decides ? OTHER : MOVED;
  if (!dfi_cudagraph_same_form(is->as.tensor, &f->shape)) return OTHER;
  if (f->place) return SAME;
  /* what lies on the host was copied, and may hold something else by now */
  if (dfi_readable(is->as.tensor) && DFI_SPACE(f->at) != DFI_CONSTANT) return MOVED;
  return is->as.tensor->data == f->shape.data ? SAME : MOVED;
}

/* Could m's graph run from r, if all lay where it reads it? */
static bool has_form(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r) {
  if (!m->graph || !m->settled) return false;
  return dfi_cudagraph_same_variables(r, l, m) && dfi_cudagraph_arrays_fit(l, m, r);
}

bool dfi_cudagraph_fits(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r) {
  bool same = has_form(l, m, r) && !dfi_cudagraph_stale(l, m);
  for (int32_t i = 0; i < m->nfixed && same; i++) {
    dfi_cudagraph_fixed *f = &m->fixed[i];
    df_value v = value_at(r, f);
    same = compare(&v, f) == SAME;
    if (same && f->read && v.kind == DF_TENSOR) { f->value = v; f->held = true; }
    else dfi_value_drop(&v);
  }
  if (!same) dfi_cudagraph_release(m);
  return same;
}

bool dfi_cudagraph_resembles(dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r) {
  bool like = has_form(l, m, r), news = false;
  const int32_t known = l->nmoved;
  for (int32_t i = 0; i < m->nfixed && like; i++) {
    const dfi_cudagraph_fixed *f = &m->fixed[i];
    df_value v = value_at(r, f);
    const likeness now = compare(&v, f);
    dfi_value_drop(&v);
    like = now != OTHER;
    if (now != MOVED || moves(l->moved, l->nmoved, f->at, f->read)) continue;
    DFI_GROW(l->moved, l->nmoved, l->moved_room);
    l->moved[l->nmoved++] = (dfi_cudagraph_moved){ .at = f->at, .read = f->read };
    news = true;
  }
  if (!like) l->nmoved = known;
  else l->learned += news;
  return like;
}

void dfi_cudagraph_release(dfi_cudagraph_exec *m) {
  for (int32_t i = 0; i < m->nfixed; i++) {
    dfi_cudagraph_fixed *f = &m->fixed[i];
    if (!f->read || !f->held) continue;
    df_value v = f->value;                 /* of what kind it is counts the next time, too */
    dfi_value_drop(&v);
    f->held = false;
  }
}

bool dfi_cudagraph_current(const dfi_cudagraph_exec *m, const dfi_record *r, bool *anew) {
  bool same = true;
  for (int32_t i = 0; i < m->nfixed && same; i++) {
    if (!m->fixed[i].read) continue;
    const df_value *was = &m->fixed[i].value;
    df_value v = value_at(r, &m->fixed[i]);
    same = v.kind == was->kind && (v.kind == DF_TENSOR ? v.as.tensor == was->as.tensor
                                                       : !memcmp(&v.as, &was->as, sizeof v.as));
    dfi_value_drop(&v);
    *anew = !m->fixed[i].place;
  }
  return same;
}

/* ---- where it is read ------------------------------------------------------------------------------------------ */

/* What is at f, after `fits`. Borrowed. */
static const df_value *value_of(const dfi_cudagraph_fixed *f, const dfi_record *r) {
  return f->read ? &f->value : operand(r, f->at);
}

bool dfi_cudagraph_await(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m,
                         const dfi_record *r) {
  const dfi_remote *d = dfi_cudagraph_device(x, l)->remote;
  bool ok = true;
  for (int32_t i = 0; i < m->nfixed && ok; i++) {
    const dfi_cudagraph_fixed *f = &m->fixed[i];
    const df_value *v = value_of(f, r);
    if (v->kind != DF_TENSOR) continue;
    const df_tensor *t = v->as.tensor;
    if (!dfi_readable(t)) ok = d->await(d->device, dfi_note_of(t->buffer));
    if (ok && f->place && t->size)
      ok = dfi_bytes_copy(f->place->data, f->place->buffer, t->data, t->buffer, t->size * dfi_dtype_size[t->dtype]);
  }
  return ok;
}

/* While it is captured, constants of the loop are where the graph is to read them. */
void dfi_cudagraph_places_in(dfi_cudagraph_exec *m, const dfi_record *r) {
  for (int32_t i = 0; i < m->nfixed; i++) {
    dfi_cudagraph_fixed *f = &m->fixed[i];
    if (!f->place || f->read) continue;
    f->value = *operand(r, f->at);
    operand(r, f->at)->as.tensor = f->place;
  }
}
void dfi_cudagraph_places_out(dfi_cudagraph_exec *m, const dfi_record *r) {
  for (int32_t i = 0; i < m->nfixed; i++)
    if (m->fixed[i].place && !m->fixed[i].read) operand(r, m->fixed[i].at)->as.tensor = m->fixed[i].value.as.tensor;
}

const dfi_cudagraph_fixed *dfi_cudagraph_read(const dfi_cudagraph_exec *m, dfi_operand handle) {
  int32_t i = 0;
  while (!m->fixed[i].read || m->fixed[i].at != handle) i++;
  return &m->fixed[i];
}

static bool all_bring(const dfi_plan *plan, const dfi_cudagraph_loop *l, const dfi_cudagraph_loop *in, dfi_operand o);

/* Does p bring its input there, or is it a constant of a loop inside `in`, where all its readers do? */
static bool brings(const dfi_plan *plan, const dfi_cudagraph_loop *l, const dfi_cudagraph_loop *in,
                   const dfi_pnode *p) {
  if (p->kind == DFI_K_TRANSFER) return !p->constant && p->device == l->device;
  for (int32_t i = 0; i < in->ninner && p->kind == DFI_K_ENTER && p->constant; i++) {
    const dfi_cudagraph_loop *inner = in->inner[i].loop;
    for (uint32_t e = 0; e < inner->scope->nenters; e++)
      if (inner->scope->enters[e] == p) return all_bring(plan, l, inner, DFI_OPERAND(DFI_FRAME, p->out));
  }
  return false;
}

/* Do all nodes of `in`, which is l or a loop inside, that read what lies at o on the host bring it to the GPU? */
static bool all_bring(const dfi_plan *plan, const dfi_cudagraph_loop *l, const dfi_cudagraph_loop *in, dfi_operand o) {
  for (uint32_t i = 0; i < in->scope->n; i++) {
    const dfi_pnode *p = plan->node + in->scope->first + i;
    for (uint32_t k = 0; k < p->nin; k++)
      if (plan->operand[p->in + k] == o && !brings(plan, l, in, p)) return false;
  }
  for (int32_t i = 0; i < in->ninner && DFI_SPACE(o) == DFI_GIVEN; i++)
    if (!all_bring(plan, l, in->inner[i].loop, o)) return false;
  return true;
}
/* Is f? Then it may lie there as well. Of a variable its value, wherever it is read. */
static bool is_brought(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_record *r,
                       const dfi_cudagraph_fixed *f) {
  if (!f->read || read_inside(l, f->at)) return all_bring(x->plan, l, l, f->at);
  for (uint32_t i = 0; i < l->scope->n; i++) {
    const dfi_pnode *p = r->nodes + i;
    if (p->kind != DFI_K_READ || l->handle_of[i] != f->at) continue;
    if (!all_bring(x->plan, l, l, DFI_OPERAND(DFI_ITERATION, p->out))) return false;
  }
  return true;
}

/* May f lie at a place of the graph's own? */
static bool may_move(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_record *r,
                     const dfi_cudagraph_fixed *f) {
  if (f->value.kind != DF_TENSOR || DFI_SPACE(f->at) == DFI_CONSTANT || !dfk_plain(f->value.dtype)) return false;
  if (f->shape.buffer->arena == dfi_cudagraph_device(x, l)->arena) return true;
  return dfi_readable(&f->shape) && is_brought(x, l, r, f);
}

/* The place that f had, or a new one. Owned; NULL: there is none, and it is read where it lies. */
static df_tensor *place_of(const dfi_device *d, dfi_cudagraph_fixed *old, int32_t nold, const dfi_cudagraph_fixed *f) {
  for (int32_t i = 0; i < nold; i++)
    if (old[i].at == f->at && old[i].read == f->read && old[i].place &&
        dfi_cudagraph_same_form(old[i].place, &f->shape)) {
      df_tensor *t = old[i].place;
      old[i].place = NULL;
      return t;
    }
  dfi_devmem_use(d->arena);
  df_tensor *t = dfi_tensor_make(f->shape.dtype, f->shape.rank, f->shape.dims);
  dfi_devmem_use(NULL);
  return t;
}

static void drop_fixed(dfi_cudagraph_fixed *all, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    if (all[i].held) dfi_value_drop(&all[i].value);
    df_tensor_release(all[i].place);
  }
  dfi_free(all);
}

void dfi_cudagraph_forget_fixed(dfi_cudagraph_exec *m) {
  drop_fixed(m->fixed, m->nfixed);
  m->fixed = NULL;
  m->nfixed = 0;
}

/* The graph reads what lies there now. Tensors of the host's are kept, so that no other one comes to lie there, and
   values of variables while it runs. */
static void fix(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r, dfi_operand o, bool read) {
  if (DFI_SPACE(o) == DFI_ITERATION && !read) return;
  for (int32_t i = 0; i < m->nfixed; i++) if (m->fixed[i].at == o && m->fixed[i].read == read) return;
  dfi_cudagraph_fixed *f = &m->fixed[m->nfixed++];
  *f = (dfi_cudagraph_fixed){ .at = o, .read = read, .fed = !read && dfi_cudagraph_varies(m, o),
                              .decides = decides(l, o) };
  df_value v = value_at(r, f);
  f->value = v;
  if (v.kind == DF_TENSOR) {
    f->shape = *v.as.tensor;
    f->held = read || dfi_readable(v.as.tensor);
  }
  if (!f->held) dfi_value_drop(&v);
}

/* Places for what has moved, and for what the host has, which each launch would copy. */
static void place_all(const dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                      dfi_cudagraph_fixed *old, int32_t nold) {
  int64_t left = PLACES_BYTES;
  for (int32_t i = 0; i < m->nfixed; i++) {
    dfi_cudagraph_fixed *f = &m->fixed[i];
    if (!may_move(x, l, r, f)) continue;
    const int64_t bytes = f->shape.size * dfi_dtype_size[f->shape.dtype];
    const bool wanted = m->all_moved || dfi_readable(&f->shape) || moves(m->moved, m->nmoved, f->at, f->read);
    if (!wanted || bytes > left) continue;
    f->place = place_of(dfi_cudagraph_device(x, l), old, nold, f);
    if (f->place) left -= bytes;
  }
}

static uint32_t count_operands(const dfi_plan *plan, const dfi_cudagraph_loop *l) {
  const dfi_scope *s = l->scope;
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n; i++) n += (plan->node + s->first + i)->nin;
  for (uint32_t i = 0; i < s->ngroups; i++) n += (uint32_t)plan->group[s->groups[i]].chain.ninputs;
  for (int32_t i = 0; i < l->ninner; i++) n += count_operands(plan, l->inner[i].loop);
  return n;
}

/* What the nodes of `in` read, which is l or a loop inside: such a one's own constants are those that enter it. */
static void fix_loop(const dfi_plan *plan, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                     const dfi_cudagraph_loop *in) {
  const dfi_scope *s = in->scope;
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = plan->node + s->first + i;
    if (p->kind == DFI_K_READ) fix(l, m, r, in->handle_of[i], true);
    for (uint32_t k = 0; k < p->nin && p->kind != DFI_K_READ; k++) {
      const dfi_operand o = plan->operand[p->in + k];
      if (in == l || DFI_SPACE(o) != DFI_FRAME) fix(l, m, r, o, false);
    }
  }
  for (uint32_t i = 0; i < s->ngroups; i++) {
    const dfi_group *g = &plan->group[s->groups[i]];
    for (int32_t k = 0; k < g->chain.ninputs; k++)
      if (in == l || DFI_SPACE(g->input[k].at) != DFI_FRAME) fix(l, m, r, g->input[k].at, false);
  }
  for (int32_t i = 0; i < in->ninner; i++) fix_loop(plan, l, m, r, in->inner[i].loop);
}

void dfi_cudagraph_fix(const dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r) {
  dfi_cudagraph_fixed *old = m->fixed;
  const int32_t nold = m->nfixed;
  m->fixed = dfi_xcalloc(count_operands(x->plan, l) + 1, sizeof *m->fixed);
  m->nfixed = 0;
  fix_loop(x->plan, l, m, r, l);
  place_all(x, l, m, r, old, nold);
  drop_fixed(old, nold);
}
