/* remat.c: what is kept of a loop's frames, and frames that run a segment a second time. See remat.h. */
#include "engine/memory/remat.h"
#include "engine/clock/record.h"
#include "engine/clock/timed.h"
#include "engine/memory/swap.h"
#include "engine/token.h"
#include "op/run.h"
#include "resource/tensor_array.h"

/* The variables as they are at the start of an iteration. An array that the loop saves in is not among them: EMPTY. */
typedef struct checkpoint { df_value *variable; int32_t missing; } checkpoint;
/* What a node gave, which may be that it was dead. The key is a hash of the node and its iterations within the frame;
   0: free. */
typedef struct logged { uint64_t key; df_value *out; int32_t n; bool dead; } logged;

struct dfi_remat {
  int32_t    refs;               /* its frame, its arrays, a frame that runs a second time */
  dfi_exec  *exec;
  dfi_frame *frame;              /* NULL: it is over */
  const dfi_scope *scope;        /* the owner's part of the loop, in the graph's own part of the plan */
  uint32_t   nvariables;         /* of all owners, constants among them: an Enter's number is less */
  uint64_t   tag;                /* for random numbers: the iteration that the loop was opened in */
  df_value  *constant;           /* owned, as are all below */
  dfi_tensor_array **array;      /* by variable: one that the loop saves in, while it lives; borrowed */
  checkpoint *checkpoint; int32_t ncheckpoints;          /* by segment */
  logged    *log; uint32_t nlog, mask;
  df_value **large; int32_t nlarge, large_room;          /* values of other owners in the log that are worth moving */
  int64_t   *filled; int32_t nfilled, room;  /* segments that were run a second time and not let go since */
  dfi_second *running;           /* one of its segments runs; borrowed */
  uint32_t   over_by;            /* of a run that is recorded: the event with which the last such run ended */
  int64_t    last;               /* the segment that was run last, unless something has been let go since; -1 */
  dfi_remat *next, **link;       /* in the run's list */
};

static bool is_recorded(const dfi_exec *x) { return x->timed && x->timed->recorder; }

/* ---- segments -------------------------------------------------------------------------------------------------- */

static int64_t segment_of(int64_t n) {
  int64_t s = (int64_t)((__builtin_sqrt(8.0 * (double)n + 1) - 1) / 2);
  while (s * (s + 1) / 2 > n) s--;
  while ((s + 1) * (s + 2) / 2 <= n) s++;
  return s;
}

static int64_t begin_of(int64_t segment) { return segment * (segment + 1) / 2; }

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void clear(dfi_remat *s) {
  for (uint32_t i = 0; i < s->scope->nconsts; i++) dfi_value_drop(&s->constant[i]);
  for (int32_t i = 0; i < s->ncheckpoints; i++) {
    for (uint32_t k = 0; s->checkpoint[i].variable && k < s->nvariables; k++)
      dfi_value_drop(&s->checkpoint[i].variable[k]);
    dfi_free(s->checkpoint[i].variable);
  }
  for (uint32_t i = 0; s->log && i <= s->mask; i++) {
    for (int32_t k = 0; k < s->log[i].n; k++) dfi_value_drop(&s->log[i].out[k]);
    dfi_free(s->log[i].out);
  }
  dfi_free(s->constant); dfi_free(s->checkpoint); dfi_free(s->log); dfi_free(s->large);
  s->constant = NULL; s->checkpoint = NULL; s->log = NULL; s->large = NULL;
  s->ncheckpoints = s->nlarge = 0;
}

static void release(dfi_remat *s) {
  if (--s->refs) return;
  if (s->link) {
    *s->link = s->next;
    if (s->next) s->next->link = s->link;
  }
  if (s->constant) clear(s);
  dfi_free(s->array); dfi_free(s->filled); dfi_free(s);
}

static void array_gone(dfi_remat *s, dfi_tensor_array *a) {
  for (uint32_t i = 0; i < s->nvariables; i++) if (s->array[i] == a) s->array[i] = NULL;
  a->remat = NULL;
  release(s);
}

void dfi_remat_first_over(dfi_frame *f) {
  f->remat->frame = NULL;
  release(f->remat);
  f->remat = NULL;
}

/* What is kept may hold arrays whose elements can be computed by what is kept: nothing of a run outlives it here. */
void dfi_remat_end(dfi_exec *x) {
  for (dfi_remat *s; (s = x->remats);) {
    x->remats = s->next;
    if (s->next) s->next->link = &x->remats;
    s->link = NULL;
    s->refs++;
    clear(s);
    release(s);
  }
}

/* ---- the first time ---------------------------------------------------------------------------------------------- */

static bool may_be_let_go(const dfi_exec *x, const df_value *v) {
  if (v->kind != DF_HANDLE || ((dfi_handle *)v->as.handle)->type != DFI_TENSOR_ARRAY) return false;
  const dfi_tensor_array *a = v->as.handle;
  const dfi_save policy = dfi_save_policy_for(x, a);
  return a->saved && (policy == DFI_SAVE_RECOMPUTE || policy == DFI_SAVE_AUTO) &&
         (a->swap == DFI_SWAP_UNSAID || a->swap == DFI_SWAP_AUTO) && !a->remat && a->dtype != DF_RESOURCE;
}

static void keep(dfi_remat *s, int64_t segment, uint32_t variable, const df_value *v) {
  if (segment >= s->ncheckpoints) {
    s->checkpoint = dfi_xrealloc(s->checkpoint, sizeof *s->checkpoint * (size_t)(segment + 1));
    for (; s->ncheckpoints <= segment; s->ncheckpoints++) {
      checkpoint *k = &s->checkpoint[s->ncheckpoints];
      *k = (checkpoint){ dfi_xcalloc(s->nvariables + 1, sizeof *k->variable), 0 };
      for (uint32_t i = 0; i < s->scope->nenters; i++) k->missing += !s->scope->enters[i]->constant;
    }
  }
  s->checkpoint[segment].missing--;
  if (!s->array[variable]) s->checkpoint[segment].variable[variable] = dfi_value_copy(v);
}

void dfi_remat_begin(dfi_exec *x, dfi_frame *f) {
  const dfi_scope *s = f->scope;
  const dfi_record *r = f->ring[0];
  bool any = false;
  if (f->some_dead) return;
  for (uint32_t i = 0; i < s->nenters && !any; i++)
    any = !s->enters[i]->constant && may_be_let_go(x, r->base[DFI_ITERATION] + s->enters[i]->out);
  if (!any) return;
  dfi_remat *m = f->remat = dfi_xcalloc(1, sizeof *m);
  *m = (dfi_remat){ .refs = 1, .exec = x, .frame = f, .scope = s, .nvariables = x->plan->scope[s->id].nenters,
                    .tag = dfi_tag_of(f->origin, (uint64_t)x->setup.draw_number), .last = -1, .next = x->remats,
                    .constant = dfi_xcalloc(s->nconsts + 1, sizeof *m->constant), .link = &x->remats };
  m->array = dfi_xcalloc(m->nvariables + 1, sizeof *m->array);
  if (m->next) m->next->link = &m->next;
  x->remats = m;
  for (uint32_t i = 0; i < s->nconsts; i++) m->constant[i] = dfi_value_copy(&f->constants[i]);
  for (uint32_t i = 0; i < s->nenters; i++) {
    const df_value *v = r->base[DFI_ITERATION] + s->enters[i]->out;
    if (s->enters[i]->constant) continue;
    if (may_be_let_go(x, v)) {
      dfi_tensor_array *a = m->array[s->enters[i]->enter] = v->as.handle;
      a->remat = m;
      a->gone = array_gone;
      m->refs++;
    }
    keep(m, 0, s->enters[i]->enter, v);
  }
}

void dfi_remat_next(dfi_remat *s, int64_t n, uint32_t variable, const df_value *v) {
  const int64_t segment = segment_of(n);
  if (begin_of(segment) == n) keep(s, segment, variable, v);
}

/* ---- the log ----------------------------------------------------------------------------------------------------- */

/* The node and its iterations, from r out to one of frame `until`. */
static uint64_t key_of(const dfi_plan *p, const dfi_pnode *node, const dfi_record *r, const dfi_frame *until) {
  uint64_t h = dfi_hash_mix(0x106, dfi_remat_node(p, node));
  for (;; r = r->frame->origin) {
    const dfi_frame *f = r->frame;
    h = dfi_hash_mix(dfi_hash_mix(h, (uint64_t)r->number), (uint64_t)(f->scope->id % p->remat->nscopes));
    if (f == until) return h ? h : 1;
    if (f->call) h = dfi_hash_mix(h, dfi_remat_node(p, f->call));
  }
}

static logged *log_at(const dfi_remat *s, uint64_t key) {
  uint32_t i = (uint32_t)key;
  while (s->log[i & s->mask].key && s->log[i & s->mask].key != key) i++;
  return &s->log[i & s->mask];
}

static logged *write_down(dfi_remat *s, uint64_t key, const df_value *out, int32_t n) {
  if (!s->log || s->nlog * 2 > s->mask) {
    logged *old = s->log;
    const uint32_t slots = old ? s->mask + 1 : 0;
    s->mask = old ? s->mask * 2 + 1 : 63;
    s->log = dfi_xcalloc((size_t)s->mask + 1, sizeof *s->log);
    for (uint32_t i = 0; i < slots; i++) if (old[i].key) *log_at(s, old[i].key) = old[i];
    dfi_free(old);
  }
  logged *l = log_at(s, key);
  if (l->key) return l;
  *l = (logged){ key, n ? dfi_xcalloc((size_t)n, sizeof *l->out) : NULL, n, false };
  for (int32_t i = 0; i < n; i++) l->out[i] = dfi_value_copy(&out[i]);
  s->nlog++;
  return l;
}

/* What was written down of a node the first time, which runs in r a second time; NULL: nothing. */
static const logged *first_time(const dfi_plan *p, const dfi_pnode *node, const dfi_record *r) {
  const dfi_frame *f = r->frame;
  while (!f->second) f = f->origin->frame;
  const dfi_remat *s = f->second->of;
  const logged *l = s->log ? log_at(s, key_of(p, node, r, f)) : NULL;
  return l && l->key ? l : NULL;
}

static df_kernel_fn original(const dfi_call *c) {
  return c->exec->plan->remat->kernel[dfi_remat_node(c->exec->plan, c->node)];
}

static void log_call(const dfi_call *c, const df_kernel *k) {
  for (dfi_frame *f = c->record->frame; f; f = f->origin ? f->origin->frame : NULL)
    if (f->remat) write_down(f->remat, key_of(c->exec->plan, c->node, c->record, f), k->out, k->nout);
}

void dfi_remat_received(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p, uint32_t dead) {
  const df_value *v = p->nout && !dead ? r->base[DFI_ITERATION] + p->out : NULL;
  for (const dfi_frame *f = r->frame; f; f = f->origin ? f->origin->frame : NULL) {
    dfi_remat *s = f->remat;
    if (!s) continue;
    logged *l = write_down(s, key_of(x->plan, p, r, f), v, v != NULL);
    l->dead = dead != 0;
    if (!v || v->kind != DF_TENSOR || v->as.tensor->buffer->bytes < DFI_SMALL_BYTES) continue;
    DFI_GROW(s->large, s->nlarge, s->large_room);
    s->large[s->nlarge++] = l->out;
  }
}

bool dfi_remat_replays(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p, df_value *v, uint32_t *dead) {
  const logged *l = first_time(x->plan, p, r);
  if (!l) return false;
  *dead = l->dead ? DFI_DEAD : 0;
  *v = l->n ? dfi_value_copy(l->out) : (df_value){ 0 };
  return true;
}

int32_t dfi_remat_log(df_kernel *k) {
  const dfi_call *c = k->run;
  const int32_t status = original(c)(k);
  if (status == DF_OK) log_call(c, k);
  return status;
}

static dfi_tensor_array *array_in(const df_kernel *k) {
  dfi_handle *h = k->nin && k->raw[0]->kind == DF_HANDLE ? k->raw[0]->as.handle : NULL;
  return h && h->type == DFI_TENSOR_ARRAY ? (dfi_tensor_array *)h : NULL;
}

/* Does reading some of a give the same the second time? What was written stays as it is, but in these. */
static bool reads_alike(const df_kernel *k, const dfi_tensor_array *a) {
  const dfi_call *c = k->run;
  return a->second || (!a->accumulates && !a->clear_after_read && c->node->op->traits & DFO_ARRAY_TAKES);
}

int32_t dfi_remat_log_take(df_kernel *k) {
  const dfi_call *c = k->run;
  const dfi_tensor_array *a = array_in(k);
  const int32_t status = original(c)(k);
  if (status == DF_OK && (!a || !reads_alike(k, a))) log_call(c, k);
  return status;
}

/* ---- the second time --------------------------------------------------------------------------------------------- */

int32_t dfi_remat_logged(df_kernel *k) {
  const dfi_call *c = k->run;
  const logged *l = first_time(c->exec->plan, c->node, c->record);
  if (!l || l->n != k->nout)
    return dfk_fail(k, DF_INTERNAL, "nothing is known of what it gave the first time, so it cannot be computed again");
  for (int32_t i = 0; i < k->nout; i++) k->out[i] = dfi_value_copy(&l->out[i]);
  return DF_OK;
}

int32_t dfi_remat_take(df_kernel *k) {
  const dfi_tensor_array *a = array_in(k);
  return a && reads_alike(k, a) ? original(k->run)(k) : dfi_remat_logged(k);
}

int32_t dfi_remat_make(df_kernel *k) {
  const int32_t status = original(k->run)(k);
  dfi_handle *h = status ? NULL : k->out[0].as.handle;
  if (h && k->out[0].kind == DF_HANDLE && h->type == DFI_TENSOR_ARRAY && h->refs == 1)
    ((dfi_tensor_array *)h)->second = true;
  return status;
}

int32_t dfi_remat_fill(df_kernel *k) {
  const dfi_call *c = k->run;
  dfi_tensor_array *a = array_in(k);
  /* what a loop within saves the second time is never read: its backward loop has the arrays of the first */
  if (a && a->second && !a->saved) return original(c)(k);
  if (a && a->saved && a->remat && dfi_writes_array(c->node->op)) {
    const df_value *at = k->raw[1];
    const int64_t i = at->kind != DF_SCALAR ? -1 : at->dtype == DF_INT32 ? at->as.i32 : at->as.i64;
    const bool gone = i >= 0 && i < dfi_tensor_array_size(a) && dfi_tensor_array_state(a, i) == DFI_SLOT_LET_GO;
    if (gone && !dfi_tensor_array_put_back(a, i, k->raw[2]))
      return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for an element that is computed again");
    if (gone) dfi_swap_again(c, a, i);
    if (gone && is_recorded(c->exec)) a->put_back = dfi_record_current(c->exec);
  }
  k->out[0] = dfi_value_copy(k->raw[0]);
  return DF_OK;
}

/* ---- letting go -------------------------------------------------------------------------------------------------- */

/* The iteration that wrote element i. */
static int64_t iteration_of(const dfi_tensor_array *a, int64_t i) { return a->counts_down ? a->sum - i : i; }

bool dfi_remat_can(const dfi_call *c, dfi_tensor_array *a, int64_t i) {
  df_tensor **at = a->remat ? dfi_tensor_array_element(a, i) : NULL;
  if (!at || c->record->frame->remat != a->remat || (*at)->buffer->bytes < DFI_SMALL_BYTES || !dfk_plain((*at)->dtype))
    return false;
  const int64_t n = c->record->number;
  if (!a->linked) {
    a->counts_down = i != n;
    a->sum = i + n;
    a->linked = true;
  }
  return iteration_of(a, i) == n;
}

void dfi_remat_let_go(dfi_tensor_array *a, int64_t i) {
  dfi_tensor_array_let_go(a, i);
  a->remat->last = -1;
  if (a->remat->running) a->remat->running->is_outdated = true;
}

/* Lets go what the iterations of a segment had saved, once more. */
static void segment_let_go(dfi_remat *s, int64_t segment) {
  for (uint32_t k = 0; k < s->nvariables; k++) {
    dfi_tensor_array *a = s->array[k];
    for (int64_t n = begin_of(segment); a && a->shape_let_go && n < begin_of(segment + 1); n++) {
      const int64_t i = iteration_of(a, n);          /* the same either way round */
      df_tensor **at = dfi_tensor_array_element(a, i);
      if (at && (*at)->size * dfi_dtype_size[(*at)->dtype] >= 256) dfi_tensor_array_let_go(a, i);
    }
  }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Value i of those that s keeps: the loop's constants, its variables, segment by segment, and values of other owners;
   NULL: there are no more. */
static df_value *kept(const dfi_remat *s, int64_t i) {
  const int64_t variables = i - s->scope->nconsts, n = s->nvariables, large = variables - s->ncheckpoints * n;
  if (i < s->scope->nconsts) return s->constant ? &s->constant[i] : NULL;
  if (large < 0) return &s->checkpoint[variables / n].variable[variables % n];
  return large < s->nlarge ? s->large[large] : NULL;
}

int32_t dfi_remat_holds(const dfi_exec *x, const df_tensor *t) {
  int32_t n = 0;
  const df_value *v;
  for (const dfi_remat *s = x->remats; s; s = s->next)
    for (int64_t i = 0; (v = kept(s, i)); i++) n += v->kind == DF_TENSOR && v->as.tensor == t;
  return n;
}

int32_t dfi_remat_moved(const dfi_exec *x, df_tensor *t, df_tensor *to) {
  int32_t n = 0;
  df_value *v;
  for (const dfi_remat *s = x->remats; s; s = s->next)
    for (int64_t i = 0; (v = kept(s, i)); i++) {
      if (v->kind != DF_TENSOR || v->as.tensor != t) continue;
      v->as.tensor = df_tensor_retain(to);
      df_tensor_release(t);
      n++;
    }
  return n;
}

/* A tensor of the arena that nothing but what is kept holds, by one or several. */
static bool may_leave(const dfi_exec *x, const df_value *v, const dfi_devmem *arena) {
  if (v->kind != DF_TENSOR || v->as.tensor->buffer->arena != arena || !dfk_plain(v->dtype)) return false;
  const df_tensor *t = v->as.tensor;
  const int32_t refs = __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE);
  return __atomic_load_n(&t->buffer->refs, __ATOMIC_ACQUIRE) == 1 && (refs == 1 || refs == dfi_remat_holds(x, t));
}

bool dfi_remat_spill(dfi_exec *x, dfi_devmem *arena, int64_t bytes) {
  int64_t freed = 0;
  df_value *v, host;
  for (dfi_remat *s = x->remats; s; s = s->next)
    for (int64_t i = 0; (v = kept(s, i)); i++) {
      if (freed >= bytes) return true;
      if (!may_leave(x, v, arena) || !dfi_value_in(v, NULL, &host)) continue;
      df_tensor *t = df_tensor_retain(v->as.tensor);
      freed += t->buffer->bytes;
      dfi_remat_moved(x, t, host.as.tensor);
      df_tensor_release(t);
      dfi_value_drop(&host);
    }
  return freed >= bytes;
}

void dfi_remat_walk(const dfi_exec *x, void (*fn)(void *user, const df_node *node, const df_value *v), void *user) {
  for (const dfi_remat *s = x->remats; s; s = s->next)
    for (int32_t i = 0; i < s->ncheckpoints; i++)
      for (uint32_t k = 0; k < s->scope->nenters; k++)
        fn(user, s->scope->enters[k]->node, &s->checkpoint[i].variable[s->scope->enters[k]->enter]);
}

/* ---- a segment runs again ---------------------------------------------------------------------------------------- */

uint64_t dfi_remat_tag(const dfi_second *s) { return s->of->tag; }

/* A free place for a frame among those of the top level that are the owner's; false: as many run as may. */
static bool place_of(const dfi_exec *x, uint32_t *child) {
  const dfi_record *top = x->root->ring[0];
  const uint32_t first = x->plan->remat->child + DFI_REMAT_AT_ONCE * (uint32_t)x->place;
  for (*child = first; *child < first + DFI_REMAT_AT_ONCE; ++*child) if (!top->children[*child]) return true;
  return false;
}

/* What was kept for the segment, and the constants, where the loop's nodes expect it. False: there is no room. */
static bool fetch_checkpoint(const dfi_exec *x, dfi_remat *s, int64_t segment) {
  for (uint32_t k = 0; x->plan->cut && k < s->scope->nenters; k++) {
    const dfi_pnode *enter = s->scope->enters[k];
    df_value *v = enter->constant ? &s->constant[enter->out] : &s->checkpoint[segment].variable[enter->enter], there;
    if (v->kind != DF_TENSOR) continue;
    if (!dfi_value_in(v, x->plan->devices->at[enter->device]->arena, &there)) return false;
    dfi_value_drop(v);
    *v = there;
  }
  return true;
}

static void run_again(dfi_exec *x, dfi_remat *s, int64_t segment, const dfi_call *reader) {
  uint32_t child;
  if (!place_of(x, &child)) return;
  for (int32_t i = 0; i < s->nfilled;) {               /* those above have been read: backward loops go downwards */
    if (s->filled[i] <= segment) { i++; continue; }
    segment_let_go(s, s->filled[i]);
    s->filled[i] = s->filled[--s->nfilled];
  }
  if (!fetch_checkpoint(x, s, segment)) {
    dfi_exec_fail(x, reader->record, reader->node, DF_RESOURCE_EXHAUSTED,
                  "out of memory for what an iteration to be run again begins with");
    return;
  }
  bool known = false;
  for (int32_t i = 0; i < s->nfilled; i++) known |= s->filled[i] == segment;
  if (!known) {
    DFI_GROW(s->filled, s->nfilled, s->room);
    s->filled[s->nfilled++] = segment;
  }
  const dfi_plan *p = x->plan;
  const dfi_scope *copy = &x->scope[p->remat->nscopes + s->scope->id];
  dfi_record *top = x->root->ring[0];
  dfi_frame *f = top->children[child] = dfi_frame_open_at(x, copy, top, NULL, begin_of(segment));
  top->outstanding++;
  dfi_second *m = f->second = dfi_xcalloc(1, sizeof *m);
  *m = (dfi_second){ s, child, segment, begin_of(segment + 1), false };
  s->refs++;
  s->running = m;
  f->enters_missing = 0;
  memset(f->enter_dead, 0, s->nvariables);
  for (uint32_t i = 0; i < copy->nconsts; i++) f->constants[i] = dfi_value_copy(&s->constant[i]);
  dfi_record *r = f->ring[begin_of(segment) & (f->capacity - 1)];
  for (uint32_t i = 0; i < copy->nenters; i++) {
    const dfi_pnode *enter = copy->enters[i];
    if (enter->constant) continue;
    df_value *slot = r->base[DFI_ITERATION] + enter->out;
    dfi_tensor_array *a = s->array[enter->enter];
    if (a) *slot = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(a) };
    else *slot = dfi_value_copy(&s->checkpoint[segment].variable[enter->enter]);
    /* an array that is never read */
    if (slot->kind == DF_EMPTY) *slot = (df_value){ .kind = DF_SCALAR, .dtype = DF_BOOL };
    slot_filled(r, slot, copy->uses[enter->out]);
    x->count.merged++;
  }
  dfi_iteration_start(x, r);
  for (uint32_t i = 0; i < copy->nenters; i++)
    if (!copy->enters[i]->constant) dfi_exec_send(x, r, copy->enters[i]->edge[0], copy->enters[i]->edge[1], 0);
  if (!r->outstanding) dfi_exec_iteration_done(x, r);
}

void dfi_remat_over(dfi_exec *x, dfi_frame *f) {
  dfi_second *m = f->second;
  dfi_remat *s = m->of;
  x->remat_iterations += f->next - begin_of(m->segment);
  s->running = NULL;
  if (is_recorded(x)) s->over_by = dfi_record_current(x);
  s->last = m->is_outdated ? -1 : m->segment;
  f->origin->children[m->child] = NULL;
  f->second = NULL;
  dfi_free(m);
  release(s);
}

void dfi_remat_want(const dfi_call *c, dfi_tensor_array *a, int64_t i) {
  dfi_exec *x = c->exec;
  dfi_remat *s = a->remat;
  const int64_t n = iteration_of(a, i), segment = segment_of(n);
  /* reads of a backward loop are ready long before what they read is needed: its oldest iteration says what is */
  if (!s || s->running || c->record->number != c->record->frame->first) return;
  if (segment >= s->ncheckpoints || s->checkpoint[segment].missing > 0) return;       /* the loop has not come so far */
  if (x->team && s->frame && s->frame->first < begin_of(segment + 1)) return;  /* what others send may not have come */
  if (s->last == segment) {
    dfi_exec_fail(x, c->record, c->node, DF_INTERNAL, "the value was freed, and recomputing it did not produce it");
    return;
  }
  if (is_recorded(x)) {
    dfi_record_waits(x, c->record->frame->ended_by);
    dfi_record_waits(x, s->over_by);
  }
  run_again(x, s, segment, c);
}
