/* group_run.c: elementwise nodes that are computed in one pass.
 *
 * A member that fires is put off: it sends its tokens to other members, and no value yet. When the last one has fired
 * the whole group is computed, block by block (kernels/chain.h); the members' inputs are let go, values that others
 * want get their slots, and all nodes outside get the tokens. To the books each node ran when it fired.
 *
 * A group is taken apart (what was put off is computed, node by node, by the ops' own kernels, and the rest as it
 * fires) whenever an inspector looks at the run, when a member is dead, and where shapes turn out to be others than the
 * ones it can do: so errors come from the ops' kernels alone, and what one looks at is always there. The numbers are
 * the same.
 *
 * The group's slot: `uses`, members that have fired; `flags`, whether it is apart; `as.u64`, which members are put off.
 */
#include "engine/tokens/group_run.h"
#include "engine/tokens/batch.h"
#include "engine/engine.h"
#include "engine/token.h"
#include "base/remote_memory.h"
#include "base/stress.h"
#include "kernels/linalg.h"
#include "kernels/window.h"

static df_value *state_of(const dfi_record *r, const dfi_group *g) { return r->base[DFI_ITERATION] + g->slot; }

static dfi_group *group_of(const dfi_exec *x, const dfi_pnode *p) { return &x->plan->group[p->group - 1]; }

/* Those of the first n members that were put off are computed, one by one. */
static void compute_alone(dfi_exec *x, dfi_record *r, dfi_group *g, int32_t n) {
  df_value *s = state_of(r, g);
  for (int32_t i = 0; i < n && s->as.u64 && !x->failed; i++) {
    if (!(s->as.u64 >> i & 1)) continue;
    s->as.u64 &= ~((uint64_t)1 << i);
    dfi_call_late(x, r, r->nodes + g->member[i].node);
  }
}

static void take_apart(dfi_exec *x, dfi_record *r, dfi_group *g) {
  state_of(r, g)->flags = 1;
  compute_alone(x, r, g, g->n);
}

static void fired(df_value *s, const dfi_group *g) {
  if (++s->uses == (uint32_t)g->n) *s = (df_value){ 0 };
}

/* ---- in one pass ---------------------------------------------------------------------------------------------- */

/* The shape that all members have, if they have one: that of the largest input. */
static const df_tensor *whole_of(const dfi_record *r, const dfi_group *g) {
  const df_tensor *whole = NULL;
  for (int32_t i = 0; i < g->chain.ninputs; i++) {
    const df_value *v = operand(r, g->input[i].at);
    if (v->kind != DF_TENSOR) continue;
    const df_tensor *t = v->as.tensor;
    if (!whole || t->size > whole->size || (t->size == whole->size && t->rank > whole->rank)) whole = t;
  }
  return whole;
}

/* Has t one element for each of the whole's rows, in a form that a fold leaves? */
static bool is_folded(const dfk_chain *c, const df_tensor *t, const df_tensor *whole) {
  if (t->rank != whole->rank && t->rank != c->lead) return false;
  for (int32_t d = 0; d < t->rank; d++) if (t->dims[d] != (d < c->lead ? whole->dims[d] : 1)) return false;
  return true;
}

/* An input of a step that has one element a row. */
static bool meets_rows(const dfk_chain *c, const df_tensor *t, const df_tensor *whole, dfk_chain_run *run, int32_t i) {
  if (t->size == 1 && t->rank <= whole->rank) return true;
  run->input[i].how = DFK_COLUMN;
  run->input[i].period = c->row;
  return is_folded(c, t, whole);
}

/* later: by input, which are not made before (0 and above); NULL: all are. */
static bool find_inputs(const dfi_record *r, const dfi_group *g, const int8_t *later, const df_tensor *whole,
                        dfk_chain_run *run) {
  const dfk_chain *c = &g->chain;
  for (int32_t i = 0; i < c->ninputs; i++) {
    const df_value *v = operand(r, g->input[i].at);
    run->input[i].how = DFK_NUMBER;
    run->input[i].period = 0;
    if (later && later[i] >= 0) { run->input[i].how = DFK_ALL; run->input[i].data = NULL; continue; }
    if (v->kind == DF_SCALAR) { run->input[i].data = (const char *)&v->as; continue; }
    if (v->kind != DF_TENSOR) return false;
    const df_tensor *t = v->as.tensor;
    run->input[i].data = t->data;
    if (g->input[i].narrow ? !meets_rows(c, t, whole, run, i)
                           : !dfk_chain_meets(t->rank, t->dims, whole->rank, whole->dims, &run->input[i].how,
                                              &run->input[i].period)) return false;
    if (dfk_chain_long(c->row) && run->input[i].period && run->input[i].period < c->row) return false;
  }
  return true;
}

/* Is the whole rows of the length that the plan was made for, and wide enough for what folds axes in front? */
static bool has_rows(const dfk_chain *c, const df_tensor *whole) {
  int64_t row = 1, width = 1;
  for (int32_t d = c->lead; d < whole->rank; d++) row *= whole->dims[d];
  for (int32_t d = c->over; d < whole->rank; d++) width *= whole->dims[d];
  if (c->over && (c->width != width || whole->rank <= c->over || whole->size == 0)) return false;
  return !c->row || (c->row == row && whole->rank > c->lead);
}

/* Every step has an operand that is all of the whole: then so is its result. Or all of its rows, where that has one
   element a row. */
static bool steps_are_whole(const dfk_chain *c, const dfk_chain_run *run) {
  for (int32_t s = 0; s < c->nsteps; s++) {
    const dfk_step *step = &c->step[s];
    const bool narrow = step->form != DFK_FULL && !step->by_rows && !step->over.add;
    bool some = false, all = true;
    for (int32_t k = 0; k < step->nin; k++) {
      const int32_t from = step->in[k];
      const bool one = from >= 0 ? narrow || c->step[from].form == DFK_FULL
                                 : run->input[-1 - from].how == (narrow ? DFK_COLUMN : DFK_ALL);
      some |= one;
      all &= one;
    }
    const bool spreads = !step->fn && !step->by_rows && !step->element && !step->over.add;
    if ((!some && !spreads) || (step->alike && !all)) return false;
  }
  return true;
}

/* An input that has no other reader and that no step reads after the member's own: the result may lie there. there:
 * results are a GPU's, and so is what they may lie in. */
static df_tensor *in_place(const dfi_record *r, const dfi_group *g, const df_tensor *whole, const dfk_chain_run *run,
                           const dfi_member *to, bool there, uint64_t *taken) {
  const uint8_t bytes = g->chain.step[to->step].bytes, dtype = r->nodes[to->node].out_dtype;
  if (g->chain.step[to->step].form != DFK_FULL) return NULL;
  for (int32_t i = 0; i < g->chain.ninputs; i++) {
    const dfi_group_input *in = &g->input[i];
    if (in->last > to->step || run->input[i].how != DFK_ALL || g->chain.input_bytes[i] != bytes) continue;
    if (!run->input[i].data) continue;               /* a gate */
    if (*taken >> i & 1) continue;
    const df_value *v = operand(r, in->at);
    if (DFI_SPACE(in->at) != DFI_ITERATION || v->uses != (uint32_t)in->reads) continue;
    df_tensor *t = v->as.tensor;
    if (t->view || t->data != t->buffer->data || t->dtype != dtype || !dfi_tensor_exclusive(t)) continue;
    if (dfi_readable(t) == there) continue;
    if (t->rank != whole->rank) continue;            /* all of the elements, of a whole with more axes of 1 */
    *taken |= (uint64_t)1 << i;
    return df_tensor_retain(t);
  }
  return NULL;
}

/* Those of the first n members. */
static void drop_outputs(df_tensor **out, int32_t n) {
  while (n--) if (out[n]) df_tensor_release(out[n]);
}

/* A result's tensor. */
static df_tensor *make_output(const dfk_chain *c, uint8_t form, uint8_t dtype, const df_tensor *whole) {
  int64_t dims[DF_MAX_RANK];
  if (form == DFK_FULL) return dfi_tensor_make(dtype, whole->rank, whole->dims);
  if (form == DFK_OVER_GONE) return dfi_tensor_make(dtype, whole->rank - c->over, whole->dims + c->over);
  for (int32_t d = 0; d < whole->rank; d++)
    dims[d] = form == DFK_OVER_KEPT ? d < c->over ? 1 : whole->dims[d] : d < c->lead ? whole->dims[d] : 1;
  if (form == DFK_OVER_KEPT) form = DFK_KEPT;
  return dfi_tensor_make(dtype, form == DFK_KEPT ? whole->rank : c->lead, dims);
}

/* On the arena of the thread, where there is one. r NULL: none lies where an input does. */
static bool make_outputs(const dfi_record *r, const dfi_group *g, const df_tensor *whole, dfk_chain_run *run,
                         bool there, df_tensor **out) {
  uint64_t taken = 0;
  for (int32_t i = 0; i < g->n; i++) {
    const dfi_member *to = &g->member[i];
    out[i] = NULL;
    if (!to->wanted) continue;
    if (r) out[i] = in_place(r, g, whole, run, to, there, &taken);
    if (!out[i]) out[i] = make_output(&g->chain, g->chain.step[to->step].form, g->chain.step[to->step].dtype, whole);
    if (!out[i]) {
      drop_outputs(out, i);
      return false;
    }
    run->out[to->step] = out[i]->data;
  }
  return true;
}

/* By the host. */
static bool compute_here(dfi_exec *x, dfi_record *r, dfi_group *g, const df_tensor *whole, dfk_chain_run *run,
                         df_tensor **out) {
  const dfk_chain *c = &g->chain;
  const int64_t n = c->row ? whole->size / c->row : whole->size, grain = c->row ? c->grain / c->row : c->grain;
  const df_range_fn range = c->row ? dfk_chain_row_range : dfk_chain_range;
  if (!make_outputs(r, g, whole, run, false, out)) return false;
  if (c->over) {
    df_error error;
    dfi_call call = { .exec = x };
    df_kernel k = { .run = &call, .error = &error };
    if (!dfk_chain_fold(&k, run, whole->size / c->width)) return true;
    drop_outputs(out, g->n);
    return false;
  }
  if (n <= grain) range(run, 0, n);
  else dfi_pool_range(x->setup.pool, n, grain < 1 ? 1 : grain, range, run);
  return true;
}

/* The group's form that is as `key`. NULL: it has met others, as many as are kept. */
static dfi_group_form *form_of(dfi_group *g, const dfi_group_form *key) {
  for (int32_t i = 0; i < DFI_GROUP_FORMS; i++) {
    dfi_group_form *f = atomic_load_explicit(&g->form[i], memory_order_acquire);
    if (!f) {
      dfi_group_form *own = dfi_xcalloc(1, sizeof *own);
      own->on_host = key->on_host; own->how[0] = key->how[0]; own->how[1] = key->how[1];
      if (atomic_compare_exchange_strong(&g->form[i], &f, own)) return own;
      dfi_free(own);                                     /* another thread's is there */
    }
    if (f->on_host == key->on_host && f->how[0] == key->how[0] && f->how[1] == key->how[1]) return f;
  }
  return NULL;
}

/* The kernel for this run; NULL: there is none yet, or will be none. To ask the GPU is to write the kernel's source, so
   what is not there is asked for every ASKS-th time. */
static void *kernel_of(const dfi_device *d, dfi_group *g, const dfk_chain_run *run, uint64_t on_host, int64_t n,
                       bool at_once) {
  enum { ASKS = 64 };
  dfi_group_form key = { .on_host = on_host };
  for (int32_t i = 0; i < g->chain.ninputs; i++) key.how[i / 32] |= (uint64_t)run->input[i].how << i % 32 * 2;
  dfi_group_form *f = form_of(g, &key);
  int64_t times = 1;
  if (f) {
    void *kernel = atomic_load_explicit(&f->kernel, memory_order_acquire);
    if (kernel) return kernel;
    const uint32_t wanted = atomic_fetch_add_explicit(&f->wanted, 1, memory_order_relaxed);
    if (wanted % ASKS && !at_once) return NULL;
    if (wanted) times = ASKS;
  }
  void *kernel = d->remote->fused(d->remote->device, run, on_host, n, times, at_once);
  if (f && kernel) atomic_store_explicit(&f->kernel, kernel, memory_order_release);
  return kernel;
}

/* As one kernel of a GPU, where it has such a kernel. What still lies on the host (constants) is brought there. */
static bool compute_there(const dfi_device *d, dfi_record *r, dfi_group *g, const df_tensor *whole, dfk_chain_run *run,
                          df_tensor **out, bool at_once) {
  void *in_note[DFK_CHAIN_INPUTS] = { NULL }, *out_note[DFK_CHAIN_STEPS] = { NULL };
  uint64_t on_host = 0;
  if (!d->remote->fused || whole->size == 0) return false;
  for (int32_t i = 0; i < g->chain.ninputs; i++) {
    const df_value *v = operand(r, g->input[i].at);
    const df_tensor *t = v->kind == DF_TENSOR ? v->as.tensor : NULL;
    if (t && t->buffer->arena == d->arena) in_note[i] = dfi_note_of(t->buffer);
    else if (t && !dfi_readable(t)) return false;
    else if (!t || t->size == 1) on_host |= (uint64_t)1 << i;
  }
  /* what is wanted has no place yet, and says by any address that it is */
  for (int32_t i = 0; i < g->n; i++) run->out[g->member[i].step] = g->member[i].wanted ? (char *)run : NULL;
  void *kernel = kernel_of(d, g, run, on_host, whole->size, at_once);
  if (!kernel) return false;
  dfi_devmem_use(d->arena);
  const bool made = make_outputs(r, g, whole, run, true, out);
  dfi_devmem_use(NULL);
  if (!made) return false;
  for (int32_t i = 0; i < g->n; i++) {
    if (!out[i]) continue;
    df_assert(!dfi_readable(out[i]));
    out_note[g->member[i].step] = dfi_note_of(out[i]->buffer);
  }
  if (d->remote->fused_run(d->remote->device, kernel, run, whole->size, in_note, out_note)) return true;
  drop_outputs(out, g->n);           /* no room for what lies on the host: each op alone finds some, or says so */
  return false;
}

/* A member's value has its slot. */
static void give(dfi_record *r, const dfi_member *m, df_tensor *t) {
  const dfi_pnode *p = r->nodes + m->node;
  df_value *slot = r->base[DFI_ITERATION] + p->out;
  *slot = (df_value){ .kind = DF_TENSOR, .dtype = p->out_dtype, .as.tensor = t };
  slot_filled(r, slot, r->frame->scope->uses[p->out] - m->reads);
}

/* A product is added where the sum's other operand lies, when that has no other reader. */
static bool add_product(dfi_exec *x, dfi_record *r, dfi_group *g) {
  const dfi_pnode *p = r->nodes + g->member[0].node;
  const dfi_operand *in = x->plan->operand + p->in, into = g->input[0].at;
  const df_value *a = operand(r, in[0]), *b = operand(r, in[1]), *c = operand(r, into);
  if (a->kind != DF_TENSOR || b->kind != DF_TENSOR || c->kind != DF_TENSOR) return false;
  df_tensor *t = c->as.tensor;
  if (DFI_SPACE(into) != DFI_ITERATION || c->uses != 1 || t == a->as.tensor || t == b->as.tensor) return false;
  if (t->view || t->data != t->buffer->data || !dfi_tensor_exclusive(t)) return false;
  df_error error;
  dfi_call call = { .exec = x };
  df_kernel k = { .run = &call, .error = &error };
  if (!dfk_matmul_into(&k, a->as.tensor, b->as.tensor, p->node->attrs[0].i, p->node->attrs[1].i, t)) return false;
  atomic_store_explicit(&x->at, p->node->id, memory_order_relaxed);
  x->patience -= dfi_patience_of((a->as.tensor->size + b->as.tensor->size) >> 8);
  df_tensor_retain(t);
  operand_used(r, into);
  drop_inputs(x, r, p);
  give(r, &g->member[1], t);
  *state_of(r, g) = (df_value){ 0 };
  return true;
}

/* The three inputs, which are all on the GPU. */
static bool find_all_there(const dfi_record *r, const dfi_group *g, const dfi_device *d, const df_tensor **in) {
  for (int32_t i = 0; i < 3; i++) {
    const df_value *v = operand(r, g->input[i].at);
    if (v->kind != DF_TENSOR || v->as.tensor->buffer->arena != d->arena) return false;
    in[i] = v->as.tensor;
  }
  return true;
}

/* What is asked of the GPU: all lies there, and fits. */
static bool find_biased(const dfi_record *r, const dfi_group *g, const dfi_device *d, dfi_remote_biased *l) {
  const dfi_pnode *p = r->nodes + g->member[0].node;
  const df_tensor *in[3];
  if (!find_all_there(r, g, d, in)) return false;
  const df_tensor *a = in[0], *b = in[1];
  if (a->rank != 2 || b->rank != 2 || in[2]->rank != 1) return false;
  *l = (dfi_remote_biased){ .dtype = p->out_dtype, .a_t = p->node->attrs[0].i, .b_t = p->node->attrs[1].i };
  l->m = a->dims[l->a_t];
  l->k = a->dims[!l->a_t];
  l->n = b->dims[!l->b_t];
  l->a = a->data; l->b = b->data; l->bias = in[2]->data;
  l->a_note = dfi_note_of(a->buffer);
  l->b_note = dfi_note_of(b->buffer);
  l->bias_note = dfi_note_of(in[2]->buffer);
  return b->dims[l->b_t] == l->k && in[2]->size == l->n && l->m && l->n && l->k;
}

static df_tensor *make_there(const dfi_device *d, int32_t dtype, int32_t rank, const int64_t *dims) {
  dfi_devmem_use(d->arena);
  df_tensor *t = dfi_tensor_make(dtype, rank, dims);
  dfi_devmem_use(NULL);
  return t;
}

/* The last member's value is t, and the three inputs were read. */
static void give_biased(dfi_exec *x, dfi_record *r, dfi_group *g, df_tensor *t) {
  atomic_store_explicit(&x->at, r->nodes[g->member[0].node].node->id, memory_order_relaxed);
  x->patience -= 4;
  for (int32_t i = 0; i < 3; i++) operand_used(r, g->input[i].at);
  give(r, &g->member[g->n - 1], t);
  *state_of(r, g) = (df_value){ 0 };
}

/* A product to whose rows a vector is added, by one call of a GPU's library. */
static bool add_vector(dfi_exec *x, dfi_record *r, dfi_group *g) {
  const dfi_device *d = x->plan->devices->at[g->device];
  dfi_remote_biased l;
  if (!d->remote->biased || !find_biased(r, g, d, &l)) return false;
  df_tensor *t = make_there(d, l.dtype, 2, (int64_t[]){ l.m, l.n });
  if (!t) return false;
  l.to = t->data;
  l.to_note = dfi_note_of(t->buffer);
  if (!d->remote->biased(d->remote->device, &l)) { df_tensor_release(t); return false; }
  give_biased(x, r, g, t);
  return true;
}

/* What is asked of the GPU, and the dims of the result. */
static bool find_convolved(const dfi_record *r, const dfi_group *g, const dfi_device *d, dfi_remote_convolved *l,
                           int64_t *dims) {
  const dfi_pnode *p = r->nodes + g->member[0].node;
  const df_tensor *in[3];
  df_error error;
  df_kernel k = { .attrs = p->node->attrs, .nin = 2, .nout = 1, .in = in, .error = &error };
  if (!find_all_there(r, g, d, in)) return false;
  *l = (dfi_remote_convolved){ .dtype = p->out_dtype, .relu = g->n > 2 };
  if (dfk_conv2d_of(&k, false, &l->how, dims) || in[2]->rank != 1 || in[2]->size != dims[3]) return false;
  l->in = in[0]->data; l->filter = in[1]->data; l->bias = in[2]->data;
  l->in_note = dfi_note_of(in[0]->buffer);
  l->filter_note = dfi_note_of(in[1]->buffer);
  l->bias_note = dfi_note_of(in[2]->buffer);
  return in[0]->size && in[1]->size && dims[1] && dims[2];
}

/* The same of a convolution, and what is above 0 of that. */
static bool add_to_channels(dfi_exec *x, dfi_record *r, dfi_group *g) {
  const dfi_device *d = x->plan->devices->at[g->device];
  int64_t dims[4];
  dfi_remote_convolved l;
  if (!d->remote->convolved || !find_convolved(r, g, d, &l, dims)) return false;
  df_tensor *t = make_there(d, l.dtype, 4, dims);
  if (!t) return false;
  l.to = t->data;
  l.to_note = dfi_note_of(t->buffer);
  if (!d->remote->convolved(d->remote->device, &l)) { df_tensor_release(t); return false; }
  give_biased(x, r, g, t);
  return true;
}

/* ---- recurrent cells --------------------------------------------------------------------------------------------- */

/* A matrix of floats that lies in one piece; NULL: the value is none. */
static const df_tensor *matrix(const dfi_record *r, dfi_operand o) {
  const df_value *v = operand(r, o);
  const df_tensor *t = v->kind == DF_TENSOR ? v->as.tensor : NULL;
  return t && t->dtype == DF_FLOAT32 && t->rank == 2 ? t : NULL;
}

static bool find_product(const dfi_record *r, const dfi_term *g, dfk_cell *c, int64_t *n, dfk_term *t) {
  int64_t inner = 0;
  for (int32_t i = 0; i < g->nparts; i++) {
    const df_tensor *a = matrix(r, g->part[i]);
    if (!a || (c->rows && a->dims[0] != c->rows)) return false;
    c->rows = a->dims[0];
    t->part[i].data = a->data;
    t->part[i].width = a->dims[1];
    inner += a->dims[1];
  }
  t->weights = matrix(r, g->at);
  t->nparts = g->nparts;
  t->turned = g->turned;
  if (!t->weights || t->weights->dims[g->turned] != inner || !c->rows) return false;
  if (!*n) *n = t->weights->dims[!g->turned];
  return *n == t->weights->dims[!g->turned];
}

/* What is added to a product with so many columns. */
static bool find_addend(const dfi_record *r, const dfi_term *g, const dfk_cell *c, int64_t n, dfk_term *t) {
  const df_value *v = operand(r, g->at);
  const df_tensor *a = v->kind == DF_TENSOR ? v->as.tensor : NULL;
  if (!a || a->dtype != DF_FLOAT32) return false;
  t->data = a->data;
  if (g->kind == DFK_VECTOR) return a->rank == 1 && a->size == n;
  return a->rank == 2 && a->dims[0] == c->rows && a->dims[1] == n;
}

/* What is added up, and its sizes. False: shapes do not fit. */
static bool find_sources(const dfi_record *r, const dfi_gates *g, dfk_cell *c) {
  c->rows = c->units = 0;
  c->nsources = g->nsources;
  for (int32_t i = 0; i < g->nsources; i++) {
    dfk_source *s = &c->source[i];
    int64_t n = 0;
    s->gates = g->source[i].gates;
    s->nterms = g->source[i].nterms;
    for (int32_t j = 0; j < s->nterms; j++) {
      const dfi_term *t = &g->source[i].term[j];
      s->term[j].kind = t->kind;
      if (t->kind == DFK_PRODUCT ? !find_product(r, t, c, &n, &s->term[j]) : !find_addend(r, t, c, n, &s->term[j]))
        return false;
    }
    if (!n || n % s->gates || (c->units && c->units != n / s->gates)) return false;
    c->units = n / s->gates;
  }
  return true;
}

static void let_go(dfi_record *r, const dfi_group *g) {
  const dfi_gates *p = g->gates;
  for (int32_t i = 0; i < p->nsources; i++)
    for (int32_t j = 0; j < p->source[i].nterms; j++) {
      const dfi_term *t = &p->source[i].term[j];
      for (int32_t k = 0; k < t->nparts; k++) operand_used(r, t->part[k]);
      operand_used(r, t->at);
    }
  for (int32_t i = 0; i < g->chain.ninputs; i++)
    for (int32_t k = 0; p->of[i] < 0 && k < g->input[i].reads; k++) operand_used(r, g->input[i].at);
}

/* The products and the chain in one pass. False: it cannot be done so, and nothing has changed. */
static bool compute_cell(dfi_exec *x, dfi_record *r, dfi_group *g) {
  char room[DFK_CELL_ROOM] __attribute__((aligned(16)));
  df_tensor *out[DFI_GROUP_MEMBERS];
  df_error error;
  dfi_call call = { .exec = x };
  df_kernel k = { .run = &call, .error = &error };
  dfk_chain_run run;
  dfk_cell c;
  c.run = &run;
  if (!find_sources(r, g->gates, &c)) return false;
  const df_tensor whole = { .dtype = DF_FLOAT32, .rank = 2, .size = c.rows * c.units, .dims = { c.rows, c.units } };
  run.chain = &g->chain;
  memset(run.out, 0, sizeof *run.out * (size_t)g->chain.nsteps);
  memcpy(c.gate, g->gates->of, sizeof c.gate);
  if (!find_inputs(r, g, g->gates->of, &whole, &run) || !steps_are_whole(&g->chain, &run) ||
      !dfk_cell_begin(&k, &c, room) || !make_outputs(r, g, &whole, &run, false, out))
    return false;
  if (dfk_cell_run(&k, &c)) {
    drop_outputs(out, g->n);
    return false;
  }
  atomic_store_explicit(&x->at, r->nodes[g->member[g->n - 1].node].node->id, memory_order_relaxed);
  x->patience -= dfi_patience_of((whole.size * (g->n + g->gates->n)) >> 10);
  let_go(r, g);
  for (int32_t i = 0; i < g->n; i++) if (out[i]) give(r, &g->member[i], out[i]);
  *state_of(r, g) = (df_value){ 0 };
  return true;
}

/* ---- convolutions ------------------------------------------------------------------------------------------------ */

/* A result that the convolution's own may lie in until it is made; NULL: there is none. */
static df_tensor *shared_with(const dfi_group *g, uint8_t dtype, df_tensor *const *out) {
  const dfi_group_input *in = &g->input[g->convolution - 1];
  for (int32_t i = g->first; i < g->n; i++) {
    const dfi_member *to = &g->member[i];
    if (out[i] && to->step >= in->last && g->chain.step[to->step].form == DFK_FULL && out[i]->dtype == dtype)
      return df_tensor_retain(out[i]);
  }
  return NULL;
}

/* All results, none of which lies in an input, and the convolution's own; NULL: no memory. */
static df_tensor *make_places(const dfi_group *g, const df_tensor *whole, dfk_chain_run *run, df_tensor **out) {
  if (!make_outputs(NULL, g, whole, run, false, out)) return NULL;
  df_tensor *t = shared_with(g, (uint8_t)whole->dtype, out);
  if (!t) t = dfi_tensor_make(whole->dtype, whole->rank, whole->dims);
  if (!t) drop_outputs(out, g->n);
  return t;
}

/* The convolution and the chain in one pass. False: it cannot be done so, and nothing has changed. */
static bool compute_convolution(dfi_exec *x, dfi_record *r, dfi_group *g) {
  const dfi_pnode *p = r->nodes + g->member[0].node;
  const dfi_operand *at = x->plan->operand + p->in;
  const df_tensor *in[2];
  df_tensor *out[DFI_GROUP_MEMBERS];
  df_error error;
  dfi_call call = { .exec = x };
  df_kernel k = { .run = &call, .attrs = p->node->attrs, .nin = 2, .nout = 1, .in = in, .out_dtype = &p->out_dtype,
                  .error = &error };
  dfk_conv c;
  dfk_chain_run run;
  df_tensor whole = { .dtype = p->out_dtype, .size = 1 };
  int8_t later[DFK_CHAIN_INPUTS];
  for (int32_t i = 0; i < 2; i++) {
    const df_value *v = operand(r, at[i]);
    if (v->kind != DF_TENSOR || !v->as.tensor->size) return false;
    in[i] = v->as.tensor;
  }
  if (dfk_conv2d_of(&k, p->kernel == cpu_depthwise_conv2d, &c, whole.dims)) return false;
  whole.rank = in[0]->rank;
  for (int32_t d = 0; d < whole.rank; d++)
    if (__builtin_mul_overflow(whole.size, whole.dims[d], &whole.size)) return false;
  memset(later, -1, sizeof later);
  later[g->convolution - 1] = 0;
  run.chain = &g->chain;
  memset(run.out, 0, sizeof *run.out * (size_t)g->chain.nsteps);
  if (!whole.size || !find_inputs(r, g, later, &whole, &run) || !steps_are_whole(&g->chain, &run)) return false;
  df_tensor *place = make_places(g, &whole, &run, out);
  if (!place) return false;
  run.input[g->convolution - 1].data = place->data;
  const bool failed = cpu_convolve_then(&k, &c, whole.dtype == DF_FLOAT64, place->data, &run) != DF_OK;
  df_tensor_release(place);
  if (failed) {
    drop_outputs(out, g->n);
    return false;
  }
  atomic_store_explicit(&x->at, p->node->id, memory_order_relaxed);
  x->patience -= dfi_patience_of((whole.size * g->n + in[0]->size + in[1]->size) >> 10);
  drop_inputs(x, r, p);
  for (int32_t i = 0; i < g->chain.ninputs; i++)
    for (int32_t n = 0; i != g->convolution - 1 && n < g->input[i].reads; n++) operand_used(r, g->input[i].at);
  for (int32_t i = 0; i < g->n; i++) if (out[i]) give(r, &g->member[i], out[i]);
  *state_of(r, g) = (df_value){ 0 };
  return true;
}

bool dfi_group_values(dfi_exec *x, dfi_record *r, dfi_group *g, bool at_once) {
  dfk_chain_run run;
  df_tensor *out[DFI_GROUP_MEMBERS];
  if (g->product) return add_product(x, r, g);
  if (g->biased) return g->convolved ? add_to_channels(x, r, g) : add_vector(x, r, g);
  if (g->first) {
    if (g->gates ? compute_cell(x, r, g) : compute_convolution(x, r, g)) return true;
    compute_alone(x, r, g, g->first);
    if (x->failed) return false;
  }
  const df_tensor *whole = whole_of(r, g);
  run.chain = &g->chain;
  memset(run.out, 0, sizeof *run.out * (size_t)g->chain.nsteps);
  if (!whole || whole->rank == 0 || !has_rows(&g->chain, whole) || !find_inputs(r, g, NULL, whole, &run) ||
      !steps_are_whole(&g->chain, &run))
    return false;
  const dfi_device *d = x->plan->cut ? x->plan->devices->at[g->device] : NULL;
  const bool done = d && d->remote ? compute_there(d, r, g, whole, &run, out, at_once || dfi_stress("groups", NULL))
                                   : compute_here(x, r, g, whole, &run, out);
  if (!done) return false;
  atomic_store_explicit(&x->at, r->nodes[g->member[g->n - 1].node].node->id, memory_order_relaxed);
  x->patience -= dfi_patience_of((whole->size * g->n) >> 12);
  for (int32_t i = 0; i < g->chain.ninputs; i++)
    for (int32_t k = 0; k < g->input[i].reads; k++) operand_used(r, g->input[i].at);
  for (int32_t i = 0; i < g->n; i++) if (out[i]) give(r, &g->member[i], out[i]);
  *state_of(r, g) = (df_value){ 0 };
  return true;
}

/* All members have their values: other readers are told. */
static void tell(dfi_exec *x, dfi_record *r, const dfi_group *g) {
  for (int32_t i = 0; i < g->n; i++) {
    const dfi_pnode *p = r->nodes + g->member[i].node;
    dfi_exec_send(x, r, p->inside, p->edge[1], 0);
  }
}

/* ---- in several iterations at once ------------------------------------------------------------------------------- */

/* Input i of the group in all of them, as one. *made: storage for it, owned, or NULL. False: it does not go so. */
static bool join_input(const dfi_group *g, int32_t i, dfi_record *const *r, int32_t n, dfk_chain_run *run, int64_t size,
                       df_tensor **made) {
  const df_value *first = operand(r[0], g->input[i].at);
  df_tensor view;
  bool same = true;
  for (int32_t m = 1; m < n && same; m++) same = dfi_batch_same(first, operand(r[m], g->input[i].at));
  if (run->input[i].how == DFK_NUMBER && !same) {
    run->input[i].how = DFK_COLUMN;
    run->input[i].period = size;
  } else if (run->input[i].how == DFK_NUMBER || run->input[i].how == DFK_ROWS) return same;
  const df_tensor *t = dfi_batch_stack(r, (uint32_t)n, g->input[i].at,
                                       first->kind == DF_SCALAR || first->as.tensor->rank == 0, &view, made);
  if (t) run->input[i].data = t->data;
  return t != NULL;
}

static void give_parts(dfi_exec *x, dfi_record *const *r, int32_t n, dfi_group *g, df_tensor *const *out) {
  for (int32_t m = 0; m < n && !x->failed; m++) {
    for (int32_t i = 0; i < g->chain.ninputs; i++)
      for (int32_t k = 0; k < g->input[i].reads; k++) operand_used(r[m], g->input[i].at);
    for (int32_t i = 0; i < g->n; i++) {
      df_value part;
      if (!out[i]) continue;
      if (dfi_batch_part(&part, out[i], (uint32_t)m, (uint32_t)n, false)) give(r[m], &g->member[i], part.as.tensor);
      else dfi_exec_fail(x, r[m], r[m]->nodes + g->member[i].node, DF_RESOURCE_EXHAUSTED,
                         "out of memory for a part of a result");
    }
    *state_of(r[m], g) = (df_value){ 0 };
    if (!x->failed) tell(x, r[m], g);
  }
}

bool dfi_group_compute_many(dfi_exec *x, dfi_record *const *r, int32_t n, dfi_group *g) {
  dfk_chain_run run = { .chain = &g->chain };
  df_tensor *out[DFI_GROUP_MEMBERS], *made[DFK_CHAIN_INPUTS] = { NULL };
  if (g->product || g->biased || g->gates || g->chain.row || g->chain.over) return false;
  const df_tensor *one = whole_of(r[0], g);
  if (!one || one->rank == 0 || one->size == 0 || !find_inputs(r[0], g, NULL, one, &run) ||
      !steps_are_whole(&g->chain, &run))
    return false;
  df_tensor whole = *one;
  whole.dims[0] *= n;
  whole.size *= n;
  bool done = true;
  for (int32_t i = 0; i < g->chain.ninputs && done; i++)
    done = join_input(g, i, r, n, &run, one->size, &made[i]);
  done = done && compute_here(x, NULL, g, &whole, &run, out);
  for (int32_t i = 0; i < g->chain.ninputs; i++) df_tensor_release(made[i]);
  if (!done) return false;
  atomic_store_explicit(&x->at, r[0]->nodes[g->member[g->n - 1].node].node->id, memory_order_relaxed);
  x->patience -= dfi_patience_of(4 * (n - 1) + ((whole.size * g->n) >> 12));
  give_parts(x, r, n, g, out);
  drop_outputs(out, g->n);
  return true;
}

/* All members have been put off. False: it cannot be done in one pass. */
static bool compute(dfi_exec *x, dfi_record *r, dfi_group *g) {
  if (!dfi_group_values(x, r, g, false)) return false;
  tell(x, r, g);
  return true;
}

void dfi_group_compute(dfi_exec *x, dfi_record *r, dfi_group *g) {
  if (compute(x, r, g)) return;
  take_apart(x, r, g);
  *state_of(r, g) = (df_value){ 0 };
}

/* ---- what the engine asks --------------------------------------------------------------------------------------- */

bool dfi_group_fire(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  dfi_group *g = group_of(x, p);
  df_value *s = state_of(r, g);
  if (!s->flags && (x->watched != DFI_UNWATCHED || x->kept || x->timed || x->setup.faults)) take_apart(x, r, g);
  if (s->flags) { fired(s, g); return false; }
  s->as.u64 |= (uint64_t)1 << p->place;
  dfi_exec_send(x, r, p->edge[0], p->inside, 0);
  if (++s->uses < (uint32_t)g->n || (DFI_UNLIKELY(g->batch) && dfi_batch_takes_group(x, r, g))) return true;
  dfi_group_compute(x, r, g);
  return true;
}

void dfi_group_dead(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  dfi_group *g = group_of(x, p);
  df_value *s = state_of(r, g);
  if (!s->flags) take_apart(x, r, g);
  fired(s, g);
  drop_inputs(x, r, p);
  dfi_exec_send(x, r, p->edge[0], p->edge[1], DFI_DEAD);
}

static void frame_apart(dfi_exec *x, dfi_frame *f) {
  for (int64_t i = f->first; i < f->next; i++) {
    dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t g = 0; g < f->scope->ngroups; g++) {
      dfi_group *c = &x->plan->group[f->scope->groups[g]];
      if (state_of(r, c)->as.u64) take_apart(x, r, c);
    }
    for (uint32_t c = 0; c < f->scope->nchildren; c++) if (r->children[c]) frame_apart(x, r->children[c]);
  }
}

void dfi_groups_apart(dfi_exec *x) {
  if (x->plan->ngroups && !x->failed && x->root) frame_apart(x, x->root);
}
