/* cudagraph_arrays.c: TensorArrays of loops that run as graphs. See cudagraph.h.
 *
 * A graph has its addresses once and for all, and an element lies elsewhere in each iteration. So a read is a kernel
 * that copies from the address that it finds among the iteration's numbers, a write one that copies to there; which
 * these are the host knows, since it counts the indices: cudagraph_journal.c. Elements that are numbers of the host's
 * are the host's business altogether.
 */
#include "engine/cudagraph/cudagraph.h"
#include "base/remote_memory.h"
#include "engine/memory/save_policy.h"
#include "engine/token.h"
#include "resource/tensor_array.h"

enum { ADDS_WORDS = 3 /* to where; is it added to what was there; where that is */ };

/* ---- which arrays, once for each loop ---------------------------------------------------------------------------- */

typedef struct search { const dfi_plan *plan; dfi_cudagraph_loop *l; const dfi_pnode **maker; } search;

/* The variable of the loop, or what does not change in it, that the array or the handle at o is. False: that cannot be
 * said. */
static bool root_of(const search *s, dfi_operand o, dfi_operand *root) {
  for (;;) {
    const dfi_pnode *p = DFI_SPACE(o) == DFI_ITERATION ? s->maker[DFI_INDEX(o)] : NULL;
    if (!p) { *root = o; return true; }
    const dfi_operand *in = s->plan->operand + p->in;
    if (p->kind == DFI_K_MERGE) {
      dfi_operand other;
      return root_of(s, in[0], root) && root_of(s, in[1], &other) && other == *root;
    }
    if (p->kind != DFI_K_SWITCH && p->kind != DFI_K_TRANSFER && !(p->kind == DFI_K_KERNEL && dfi_writes_array(p->op)))
      return false;
    o = in[0];
  }
}

static bool add_access(const search *s, uint32_t i, const dfi_pnode *p) {
  dfi_cudagraph_loop *l = s->l;
  dfi_cudagraph_access *a = &l->access[l->naccess];
  a->node = i;
  a->writes = dfi_writes_array(p->op);
  if (!root_of(s, s->plan->operand[p->in], &a->root))
    return dfi_cudagraph_refuse(l, p, "the array is made, or chosen, in the iteration");
  if (s->plan->devices->at[p->device]->remote && p->device != l->device)
    return dfi_cudagraph_refuse(l, p, "it is on %s, and others are on %s", s->plan->devices->at[p->device]->name,
                                s->plan->devices->at[l->device]->name);
  l->access_of[i] = l->naccess++;
  return true;
}

/* A variable may be read in a side of a cond, which has its handle from a Switch. */
static bool add_read(const search *s, uint32_t i, const dfi_pnode *p) {
  return root_of(s, s->plan->operand[p->in], &s->l->handle_of[i]) ||
         dfi_cudagraph_refuse(s->l, p, "which variable it reads is chosen in the iteration");
}

bool dfi_cudagraph_find_arrays(const dfi_plan *plan, dfi_cudagraph_loop *l) {
  const dfi_scope *scope = l->scope;
  search s = { plan, l, dfi_xcalloc(scope->nslots + 1, sizeof *s.maker) };
  bool ok = true;
  l->access = dfi_xcalloc(scope->n + 1, sizeof *l->access);
  l->access_of = dfi_xcalloc(scope->n + 1, sizeof *l->access_of);
  l->handle_of = dfi_xcalloc(scope->n + 1, sizeof *l->handle_of);
  for (uint32_t i = 0; i < scope->n; i++) {
    const dfi_pnode *p = plan->node + scope->first + i;
    l->access_of[i] = -1;
    if (dfi_is_next(p->kind) || dfi_is_exit(p->kind) || p->kind == DFI_K_ENTER) continue;
    for (uint32_t k = 0; k < p->nout; k++) s.maker[p->out + k] = p;
  }
  for (int32_t i = 0; i < l->ninner; i++) {
    const dfi_scope *in = l->inner[i].loop->scope;
    for (uint32_t k = 0; k < in->nexits; k++) s.maker[in->exits[k]->out] = in->exits[k];
  }
  for (uint32_t i = 0; i < scope->n && ok; i++) {
    const dfi_pnode *p = plan->node + scope->first + i;
    if (p->kind == DFI_K_KERNEL && dfi_cudagraph_accesses(p->op)) ok = add_access(&s, i, p);
    if (p->kind == DFI_K_READ) ok = add_read(&s, i, p);
  }
  for (int32_t k = 0; k < l->nvars && ok; k++) {
    const dfi_cudagraph_var *v = &l->var[k];
    dfi_operand root;
    if (!v->next || v->enter->out_dtype != DF_RESOURCE) continue;
    if (!root_of(&s, plan->operand[v->next->in], &root) || root != DFI_OPERAND(DFI_ITERATION, v->enter->out))
      ok = dfi_cudagraph_refuse(l, v->enter, "the variable is another array in each iteration");
  }
  dfi_free(s.maker);
  return ok;
}

/* ---- what they are, from r's variables --------------------------------------------------------------------------- */

static dfi_tensor_array *array_at(const df_value *v) {
  dfi_handle *h = v->kind == DF_HANDLE ? v->as.handle : NULL;
  return h && h->type == DFI_TENSOR_ARRAY ? (dfi_tensor_array *)h : NULL;
}
dfi_tensor_array *dfi_cudagraph_array(const dfi_record *r, const dfi_cudagraph_access *a) {
  return array_at(operand(r, a->root));
}

/* What its elements are: NUMBER: the host's, ELEMENT: tensors of the GPU's, OFF: there is none yet. -1: neither. */
static int32_t class_of(const dfi_tensor_array *a) {
  if (a->whole) {
    if (!dfi_readable(a->whole)) return DFI_CUDAGRAPH_ELEMENT;
    return a->whole->rank == 1 && dfi_unboxed(a->dtype) ? DFI_CUDAGRAPH_NUMBER : -1;
  }
  switch (a->store) {
    case DFI_STORE_NONE: return DFI_CUDAGRAPH_OFF;
    case DFI_STORE_NUMBERS: return DFI_CUDAGRAPH_NUMBER;
    case DFI_STORE_TENSORS: return DFI_CUDAGRAPH_ELEMENT;
    default: return -1;
  }
}

/* Can its elements be those of a graph at all? */
static bool may_be(const dfi_exec *x, dfi_cudagraph_loop *l, const dfi_pnode *p, const dfi_tensor_array *a) {
  if (!a) return dfi_cudagraph_refuse(l, p, "it works on a variable or a list");
  if (!dfk_plain(a->dtype) || a->dtype == DF_RESOURCE)
    return dfi_cudagraph_refuse(l, p, "the array's elements are %s", df_dtype_name(a->dtype));
  if ((a->swap && dfi_save_policy_for(x, a) != DFI_SAVE_KEEP) || a->remat || a->linked)
    return dfi_cudagraph_refuse(l, p, "what the array saves may be moved to the host, or computed again");
  return true;
}

void dfi_cudagraph_arrays_begin(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  const dfi_cudagraph_site none = { 0 };
  for (int32_t i = 0; i < l->naccess; i++) {
    df_tensor_release(m->site[i].zeros);
    df_tensor_release(m->site[i].same);
    m->site[i] = none;
  }
  m->nwords = 0;
  m->loose = false;
}

/* Does the GPU alone know whether it holds? */
static bool is_loose(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r, int32_t g) {
  for (; g > 0; g = l->guard[g].parent)
    if (!dfi_cudagraph_side_of(m, (g - 1) | 1)->known && !dfi_cudagraph_on_host(m, r, l->guard[g].pred)) return true;
  return false;
}

/* Is there an earlier write of a number to the array? */
static bool writes_numbers(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_operand root) {
  for (int32_t i = 0; i < l->naccess; i++)
    if (l->access[i].writes && l->access[i].root == root && m->site[i].how == DFI_CUDAGRAPH_NUMBER) return true;
  return false;
}

/* Does the loop read the array, under whatever name? */
static bool is_read(const dfi_cudagraph_loop *l, const dfi_record *r, const dfi_tensor_array *a) {
  for (int32_t i = 0; i < l->naccess; i++)
    if (!l->access[i].writes && dfi_cudagraph_array(r, &l->access[i]) == a) return true;
  return false;
}

bool dfi_cudagraph_find_access(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                               int32_t which) {
  const dfi_cudagraph_access *at = &l->access[which];
  const dfi_pnode *p = r->nodes + at->node;
  const dfi_operand *in = x->plan->operand + p->in;
  const dfi_tensor_array *a = dfi_cudagraph_array(r, at);
  dfi_cudagraph_site *s = &m->site[which];
  if (!may_be(x, l, p, a)) return false;
  const int32_t class = class_of(a);
  if (class < 0) return dfi_cudagraph_refuse(l, p, "the array's elements are on the host");
  if (!dfi_cudagraph_on_host(m, r, in[1])) return dfi_cudagraph_refuse(l, p, "the GPU computes which location it is");
  if (at->writes) s->how = dfi_cudagraph_on_host(m, r, in[2]) ? DFI_CUDAGRAPH_NUMBER : DFI_CUDAGRAPH_ELEMENT;
  else if (class == DFI_CUDAGRAPH_OFF && writes_numbers(l, m, at->root)) s->how = DFI_CUDAGRAPH_NUMBER;
  else s->how = class == DFI_CUDAGRAPH_OFF ? DFI_CUDAGRAPH_ELEMENT : (uint8_t)class;
  if (at->writes && a->accumulates && l->ninner)
    return dfi_cudagraph_refuse(l, p, "it adds to an array, and would again where a loop inside is cut off");
  s->loose = is_loose(l, m, r, l->guard_of[at->node]);
  if (s->loose && at->writes && is_read(l, r, a))
    return dfi_cudagraph_refuse(l, p, "the GPU alone knows whether it writes, and the loop reads the array, too");
  m->loose = m->loose || s->loose;
  if (s->how == DFI_CUDAGRAPH_NUMBER) {
    if (at->writes && a->accumulates)
      return dfi_cudagraph_refuse(l, p, "numbers of the host's are added up in the array");
    if (!at->writes) m->host[p->out] = m->varies[p->out] = DFI_CUDAGRAPH_COMPUTED;
    return true;
  }
  if (!dfi_cudagraph_device(x, l)->remote->fetch || p->device != l->device)
    return dfi_cudagraph_refuse(l, p, "the host does it, and the elements are not its numbers");
  s->dtype = a->dtype;
  s->accumulates = a->accumulates;
  s->adds = atomic_load(&at->adds);
  s->word = m->nwords;
  m->nwords += s->adds ? ADDS_WORDS : 1;
  return true;
}

bool dfi_cudagraph_arrays_fit(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r) {
  for (int32_t i = 0; i < l->naccess; i++) {
    const dfi_cudagraph_site *s = &m->site[i];
    const dfi_tensor_array *a = s->how ? dfi_cudagraph_array(r, &l->access[i]) : NULL;
    if (!s->how) continue;
    const int32_t class = a ? class_of(a) : -1;
    const int32_t how = s->how == DFI_CUDAGRAPH_SAME ? DFI_CUDAGRAPH_ELEMENT : s->how;
    if (class < 0 || (!l->access[i].writes && class && class != how)) return false;
    if (s->how == DFI_CUDAGRAPH_ELEMENT && (a->dtype != s->dtype || a->accumulates != s->accumulates ||
                                            atomic_load(&l->access[i].adds) != s->adds)) return false;
  }
  return true;
}

bool dfi_cudagraph_form(dfi_cudagraph_site *s, int32_t rank, const int64_t *dims) {
  const dfi_shape shape = dfi_shape_of(rank, dims);
  if (s->formed) return dfi_shape_equal(&shape, &s->form);
  s->form = shape;
  return s->formed = true;
}

bool dfi_cudagraph_same(dfi_cudagraph_site *s, df_tensor *t) {
  const df_tensor *is = s->same;
  s->how = DFI_CUDAGRAPH_SAME;
  if (!is) { s->same = df_tensor_retain(t); return true; }
  return is->dtype == t->dtype && is->rank == t->rank &&
         !memcmp(is->dims, t->dims, sizeof *t->dims * (size_t)t->rank) &&
         !memcmp(is->data, t->data, (size_t)(t->size * dfi_dtype_size[t->dtype]));
}

/* ---- capturing --------------------------------------------------------------------------------------------------- */

static bool cannot(df_error *err, int32_t code, const char *why) {
  dfi_fail(err, code, NULL, "%s", why);
  return false;
}

/* Where the site's words of the iteration at hand lie. */
static const uint64_t *words_at(const dfi_cudagraph_exec *m, const dfi_cudagraph_site *s) {
  const df_tensor *t = m->again ? m->row : m->numbers;
  return (const uint64_t *)t->data + (m->again ? 0 : (int64_t)m->at * m->nrow) + m->nfed + s->word;
}
static void *words_note(const dfi_cudagraph_exec *m) { return dfi_note_of((m->again ? m->row : m->numbers)->buffer); }

/* The shape of what is read, if no element has told it so far: that of what is written there, or what the graph says.
   */
static bool find_form(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t which, const dfi_pnode *p) {
  dfi_cudagraph_site *s = &m->site[which];
  for (int32_t i = 0; i < l->naccess && !s->formed; i++) {
    const dfi_cudagraph_site *o = &m->site[i];
    if (l->access[i].root != l->access[which].root || !o->formed || o->how != DFI_CUDAGRAPH_ELEMENT) continue;
    s->form = o->form;
    s->formed = true;
  }
  const dfi_shape *known = &p->node->out[0].shape;
  if (!s->formed && dfi_shape_known(known)) { s->form = *known; s->formed = true; }
  return s->formed;
}

/* Memory of the graph's own. */
static df_tensor *made_for(const dfi_device *d, const dfi_cudagraph_site *s) {
  dfi_devmem_use(d->arena);
  df_tensor *t = dfi_tensor_make(s->dtype, s->form.rank, s->form.dims);
  dfi_devmem_use(NULL);
  return t;
}

static bool fetch(const dfi_device *d, const dfi_cudagraph_exec *m, const dfi_cudagraph_site *s, const uint64_t *where,
                  df_tensor *to) {
  const dfi_remote_element e = { .where = where, .where_note = words_note(m), .own = to->data,
                                 .own_note = dfi_note_of(to->buffer), .width = dfi_dtype_size[s->dtype],
                                 .n = to->size };
  return d->remote->fetch(d->remote->device, &e);
}

static bool capture_read(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, int32_t which,
                         df_error *err) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  const dfi_pnode *p = r->nodes + l->access[which].node;
  const dfi_cudagraph_site *s = &m->site[which];
  df_value *out = r->base[DFI_ITERATION] + p->out;
  if (s->how == DFI_CUDAGRAPH_NUMBER) {    /* which one it is the host finds out ahead of each launch */
    *out = (df_value){ .kind = DF_SCALAR, .dtype = p->out_dtypes[0], .as.u64 = 0 };
    return true;
  }
  if (s->how == DFI_CUDAGRAPH_SAME) {      /* a graph is captured with it, as with what its shapes are */
    *out = (df_value){ .kind = DF_TENSOR, .dtype = s->same->dtype, .as.tensor = df_tensor_retain(s->same) };
    slot_filled(r, out, r->frame->scope->uses[p->out]);
    return true;
  }
  if (!find_form(l, m, which, p)) return cannot(err, DF_UNIMPLEMENTED, "nothing tells the shape of what it reads");
  df_tensor *t = made_for(d, s);
  if (!t) return cannot(err, DF_RESOURCE_EXHAUSTED, "there is no memory for an element");
  *out = (df_value){ .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
  slot_filled(r, out, r->frame->scope->uses[p->out]);
  return fetch(d, m, s, words_at(m, s), t) || cannot(err, DF_UNAVAILABLE, "an element cannot be read");
}

/* What was there and t, added up. Owned; NULL: it cannot be. */
static df_tensor *sum_of(const dfi_device *d, const dfi_cudagraph_exec *m, const dfi_cudagraph_site *s,
                         const df_tensor *t) {
  df_tensor *sum = made_for(d, s);
  if (sum && fetch(d, m, s, words_at(m, s) + 2, sum) &&
      dfi_bytes_update(DFK_ADD, sum->dtype, sum->size, sum->data, sum->buffer, sum->data, sum->buffer, t->data,
                       t->buffer, false))
    return sum;
  df_tensor_release(sum);
  return NULL;
}

static bool store(const dfi_device *d, const dfi_cudagraph_exec *m, const dfi_cudagraph_site *s, df_tensor *t) {
  df_tensor *sum = s->adds ? sum_of(d, m, s, t) : NULL;
  if (s->adds && !sum) return false;
  const dfi_remote_element e = {
    .where = words_at(m, s), .where_note = words_note(m), .own = t->data, .own_note = dfi_note_of(t->buffer),
    .sum = sum ? sum->data : NULL, .sum_note = sum ? dfi_note_of(sum->buffer) : NULL,
    .tally = m->masked ? m->tally->data : NULL, .tally_note = m->masked ? dfi_note_of(m->tally->buffer) : NULL,
    .width = dfi_dtype_size[s->dtype], .n = t->size };
  const bool ok = d->remote->store(d->remote->device, &e);
  df_tensor_release(sum);
  return ok;
}

/* t becomes an element. What the host has of it is the same in each iteration, or a graph would not be captured. */
static bool write_element(const dfi_device *d, const dfi_cudagraph_exec *m, dfi_cudagraph_site *s, df_tensor *t,
                          df_error *err) {
  const bool here = t && dfi_readable(t);
  if (here && !s->formed && !s->accumulates && t->dtype == s->dtype && dfi_cudagraph_same(s, t)) return true;
  if (!t || here || s->how == DFI_CUDAGRAPH_SAME) return cannot(err, DF_UNIMPLEMENTED, "what it writes is on the host");
  if (t->dtype != s->dtype || !dfi_cudagraph_form(s, t->rank, t->dims))
    return cannot(err, DF_UNIMPLEMENTED, "the array's elements have several shapes");
  return store(d, m, s, t) || cannot(err, DF_UNAVAILABLE, "an element cannot be written");
}

static bool capture_write(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, int32_t which,
                          df_error *err) {
  const dfi_pnode *p = r->nodes + l->access[which].node;
  const dfi_operand *in = x->plan->operand + p->in;
  dfi_cudagraph_site *s = &m->site[which];
  df_value *out = r->base[DFI_ITERATION] + p->out;
  const df_value *v = operand(r, in[2]);
  df_tensor *t = v->kind == DF_TENSOR ? v->as.tensor : NULL;
  if (s->how != DFI_CUDAGRAPH_NUMBER && !write_element(dfi_cudagraph_device(x, l), m, s, t, err)) return false;
  *out = dfi_value_copy(operand(r, in[0]));
  slot_filled(r, out, r->frame->scope->uses[p->out]);
  return true;
}

bool dfi_cudagraph_access_captured(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                                   int32_t which, df_error *err) {
  const bool ok = l->access[which].writes ? capture_write(x, l, m, r, which, err)
                                          : capture_read(x, l, m, r, which, err);
  if (ok) drop_inputs(x, r, r->nodes + l->access[which].node);
  return ok;
}
