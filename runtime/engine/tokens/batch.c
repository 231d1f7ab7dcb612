/* batch.c: ready nodes of one kind, in different iterations or calls, are computed as one.
 *
 * A node of a scope that is batched (plan/batch.c) does not run when its inputs are there: it waits in its list, and
 * its token with it. When no other token is ready the longest list is taken: the inputs that differ are put one behind
 * the other, where they do not lie so already; the kernel runs once; and each member gets its part of the results, in
 * place, so that the next node finds the same members' values one behind the other. So a run goes on by what is ready,
 * as in the agenda of DyNet and in TensorFlow Fold: the trees, searches or rows of a batch need not be alike.
 *
 * A rule says how calls of a kernel go together (plan/batch.h); each row is computed as it would be alone, to the bit.
 * The counters have each node where its token was taken. Before an inspector reads the run all that wait are computed,
 * one by one, and while it reads no node waits. Sums that are computed later (resource/late.h) are made here.
 */
#include "engine/tokens/batch.h"
#include "engine/tokens/group_run.h"
#include "engine/token.h"
#include "plan/batch.h"
#include "resource/late.h"
#include <math.h>

enum { MOST_MEMBERS = 1024 };

/* Of one node, or group: the iterations in which it waits. */
typedef struct list {
  dfi_pnode   *node;             /* NULL: a group's */
  dfi_group   *group;
  dfi_record **at;               /* n; in the order in which they came */
  uint32_t     n, capacity;
} list;

typedef struct dfi_batch {
  uint32_t  nlists;              /* plan->nbatches */
  list     *list;
  uint32_t *filled, nfilled;     /* numbers of those that are not empty */
  bool      waits;               /* nodes wait in this run */
} dfi_batch;

/* ---- whether it pays --------------------------------------------------------------------------------------------- */

/* Of each MEASURED_AGAIN runs the first few are by turns with waiting and without, and the others as was faster for a
 * node. Values do not depend on it: sums are late in both. */
enum { MEASURED = 6, MEASURED_AGAIN = 256 };

static bool pays(dfi_batch_costs *c) {
  const uint32_t n = atomic_fetch_add_explicit(&c->runs, 1, memory_order_relaxed) % MEASURED_AGAIN;
  for (int32_t i = 0; i < 2 && n == 0; i++) atomic_store_explicit(&c->node_ns[i], INFINITY, memory_order_relaxed);
  if (n < MEASURED) return n % 2 == 0;
  return atomic_load_explicit(&c->node_ns[1], memory_order_relaxed) <=
         atomic_load_explicit(&c->node_ns[0], memory_order_relaxed);
}

void dfi_batch_begin(dfi_exec *x) {
  dfi_batch *b = x->batch;
  const uint32_t n = x->plan->nbatches;
  if (!b) {
    b = x->batch = dfi_xcalloc(1, sizeof *b);
    b->list = dfi_xcalloc(n, sizeof *b->list);
    b->filled = dfi_xcalloc(n, sizeof *b->filled);
    b->nlists = n;
    x->bytes += (int64_t)((sizeof *b->list + sizeof *b->filled) * n);
  }
  for (uint32_t i = 0; i < b->nfilled; i++) b->list[b->filled[i]].n = 0;      /* of a run that failed */
  b->nfilled = 0;
  b->waits = !x->plan->batch_measured || pays(&x->plan->batch_costs);
}

void dfi_batch_end(const dfi_exec *x) {
  if (!x->plan->batch_measured || x->failed || x->watch) return;
  const int64_t nodes = dfi_exec_stats(x).nodes_run;
  _Atomic float *least = &x->plan->batch_costs.node_ns[x->batch->waits];
  const float ns = (float)(x->seconds * 1e9 / (double)(nodes + 1));
  if (ns < atomic_load_explicit(least, memory_order_relaxed)) atomic_store_explicit(least, ns, memory_order_relaxed);
}

void dfi_batch_free(dfi_batch *b) {
  if (!b) return;
  for (uint32_t i = 0; i < b->nlists; i++) dfi_free(b->list[i].at);
  dfi_free(b->list); dfi_free(b->filled); dfi_free(b);
}

/* May nodes wait? Not where an inspector watches, where the clock is virtual, or values move. */
static bool batches(const dfi_exec *x) {
  return x->batch && x->watched == DFI_UNWATCHED && !x->kept && !x->timed && !x->setup.faults && !x->team &&
         !x->swapper && !x->replay && !x->plan->remat;
}

static void put(dfi_batch *b, uint32_t number, dfi_record *r) {
  list *l = &b->list[number];
  if (l->n == l->capacity) {
    l->capacity = l->capacity ? l->capacity * 2 : 16;
    l->at = dfi_xrealloc(l->at, sizeof *l->at * l->capacity);
  }
  if (!l->n) b->filled[b->nfilled++] = number;
  l->at[l->n++] = r;
}

bool dfi_batch_waits(const dfi_exec *x) { return x->batch->nfilled > 0; }

/* ---- a call's inputs --------------------------------------------------------------------------------------------- */

typedef struct inputs {
  const df_tensor *in[DFI_BATCH_INPUTS];
  const df_value  *raw[DFI_BATCH_INPUTS];
  df_tensor        view[DFI_BATCH_INPUTS];
} inputs;

static void view_scalar(df_tensor *t, const df_value *v) {
  t->refs = 1; t->dtype = v->dtype; t->rank = 0; t->view = 1; t->size = 1;
  t->data = (void *)&v->as; t->buffer = NULL;
}

/* What a kernel of p in r is given, but for outputs. Sums that are late are no tensors. */
static df_kernel kernel_of(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p, inputs *to) {
  df_kernel k = { .attrs = p->node->attrs, .nin = (int32_t)p->nin, .nout = (int32_t)p->nout, .in = to->in,
                  .raw = to->raw, .out_dtype = p->out_dtypes };
  const dfi_operand *op = x->plan->operand + p->in;
  for (uint32_t i = 0; i < p->nin; i++) {
    const df_value *v = to->raw[i] = operand(r, op[i]);
    to->in[i] = v->kind == DF_TENSOR ? v->as.tensor : v->kind == DF_SCALAR ? &to->view[i] : NULL;
    if (v->kind == DF_SCALAR) view_scalar(&to->view[i], v);
    if (v->kind >= DF_TENSOR && v->uses == 1 && DFI_SPACE(op[i]) == DFI_ITERATION) k.reusable |= 1u << i;
  }
  return k;
}

/* ---- sums that are computed later -------------------------------------------------------------------------------- */

/* p's output in r is there: its inputs are let go, and its readers are told. */
static void ran(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  df_value *out = r->base[DFI_ITERATION] + p->out;
  const uint32_t *uses = r->frame->scope->uses + p->out;
  for (uint32_t i = 0; i < p->nout; i++) slot_filled(r, &out[i], uses[i]);
  drop_inputs(x, r, p);
  dfi_exec_send(x, r, p->edge[0], p->edge[1], 0);
}

static bool is_late(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  inputs in;
  df_error error = { 0 };
  dfi_call call = { .exec = x, .record = r, .node = p };
  if (p->nin > DFI_BATCH_INPUTS) return false;
  df_kernel k = kernel_of(x, r, p, &in);
  k.out = r->base[DFI_ITERATION] + p->out;
  k.run = &call;
  k.error = &error;
  if (!dfi_batch_rule_of(p)->late(&k)) return false;
  x->patience -= 4;
  ran(x, r, p);
  return true;
}

int32_t dfi_batch_settle(dfi_exec *x, df_value *v, df_error *err) {
  dfi_late *l = dfi_late_of(v);
  if (!l) return DF_OK;
  dfi_call call = { .exec = x };
  df_kernel k = { .run = &call, .error = err };
  df_tensor *t = dfi_late_compute(l, &k);
  if (!t) return DF_RESOURCE_EXHAUSTED;
  dfi_handle_release(l);
  v->kind = DF_TENSOR;
  v->as.tensor = t;
  return DF_OK;
}

/* ---- one call for all -------------------------------------------------------------------------------------------- */

dfi_batched dfi_batch_takes(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  if (!batches(x)) return DFI_BATCH_NOT;
  if (p->batch & DFI_LATE && is_late(x, r, p)) return DFI_BATCH_LATER;
  const uint32_t number = p->batch & ~DFI_LATE;
  if (!number || !x->batch->waits) return DFI_BATCH_NOT;
  x->batch->list[number - 1].node = p;
  put(x->batch, number - 1, r);
  return DFI_BATCH_WAITS;
}

bool dfi_batch_takes_group(dfi_exec *x, dfi_record *r, dfi_group *g) {
  if (!batches(x) || !x->batch->waits) return false;
  x->batch->list[g->batch - 1].group = g;
  put(x->batch, g->batch - 1, r);
  r->outstanding++;
  return true;
}

/* A node, or group, of r is done. */
static void finish(dfi_exec *x, dfi_record *r) { if (--r->outstanding == 0) dfi_exec_iteration_done(x, r); }

static void run_alone(dfi_exec *x, const list *l, dfi_record *r) {
  if (l->group) dfi_group_compute(x, r, l->group);
  else if (dfi_call_now(x, r, l->node)) return;
  if (!x->failed) finish(x, r);
}

static bool same_shape(const df_value *a, const df_value *b) {
  if (a->kind != b->kind || a->dtype != b->dtype) return false;
  if (a->kind == DF_SCALAR) return true;
  if (a->kind != DF_TENSOR) return false;
  const df_tensor *t = a->as.tensor, *u = b->as.tensor;
  if (t == u) return true;
  if (t->rank != u->rank || t->dtype != u->dtype) return false;
  for (int32_t d = 0; d < t->rank; d++) if (t->dims[d] != u->dims[d]) return false;
  return true;
}

bool dfi_batch_same(const df_value *a, const df_value *b) {
  if (a->kind == DF_TENSOR) return b->as.tensor == a->as.tensor;
  return !memcmp(&a->as, &b->as, dfi_dtype_size[a->dtype]);
}

/* Have the inputs of the list's node, or group, the same shapes in both? */
static bool are_alike(const dfi_exec *x, const list *l, const dfi_record *r, const dfi_record *s) {
  if (l->group) {
    for (int32_t i = 0; i < l->group->chain.ninputs; i++)
      if (!same_shape(operand(r, l->group->input[i].at), operand(s, l->group->input[i].at))) return false;
    return true;
  }
  const dfi_operand *op = x->plan->operand + l->node->in;
  for (uint32_t i = 0; i < l->node->nin; i++)
    if (!same_shape(operand(r, op[i]), operand(s, op[i]))) return false;
  return true;
}

/* Moves those that are like the first one out of the list, MOST_MEMBERS at most; how many. */
static uint32_t take_alike(const dfi_exec *x, list *l, dfi_record **to) {
  uint32_t n = 0, left = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    if (n < MOST_MEMBERS && (!n || are_alike(x, l, to[0], l->at[i]))) to[n++] = l->at[i];
    else l->at[left++] = l->at[i];
  }
  l->n = left;
  return n;
}

/* The bytes of an input. */
static const char *data_of(const df_value *v) {
  return v->kind == DF_TENSOR ? v->as.tensor->data : (const char *)&v->as;
}

/* Do the values lie one behind the other, in one storage? */
static bool in_one_piece(dfi_record *const *r, uint32_t n, dfi_operand o, int64_t bytes) {
  const df_value *first = operand(r[0], o);
  if (first->kind != DF_TENSOR) return false;
  const char *at = first->as.tensor->data;
  for (uint32_t i = 1; i < n; i++) {
    const df_tensor *t = operand(r[i], o)->as.tensor;
    if (t->buffer != first->as.tensor->buffer || (const char *)t->data != at + i * bytes) return false;
  }
  return true;
}

const df_tensor *dfi_batch_stack(dfi_record *const *r, uint32_t n, dfi_operand o, bool fresh, df_tensor *view,
                                 df_tensor **made) {
  const df_value *first = operand(r[0], o);
  const int32_t rank = first->kind == DF_TENSOR ? first->as.tensor->rank : 0;
  const int64_t size = first->kind == DF_TENSOR ? first->as.tensor->size : 1;
  const int64_t bytes = size * dfi_dtype_size[first->dtype];
  *view = (df_tensor){ .refs = 1, .dtype = first->dtype, .rank = (int8_t)(rank + fresh), .view = 1, .size = size * n };
  *made = NULL;
  if (view->rank > DF_MAX_RANK) return NULL;
  for (int32_t d = 0; d < rank; d++) view->dims[d + fresh] = first->as.tensor->dims[d];
  view->dims[0] = fresh ? (int64_t)n : view->dims[0] * n;
  if (in_one_piece(r, n, o, bytes)) {
    view->data = first->as.tensor->data;
    return view;
  }
  if (!(*made = dfi_tensor_make(view->dtype, view->rank, view->dims))) return NULL;
  for (uint32_t i = 0; i < n; i++) memcpy((char *)(*made)->data + i * bytes, data_of(operand(r[i], o)), (size_t)bytes);
  return *made;
}

/* The inputs of one call for all. False: they do not go together. */
static bool join_inputs(const dfi_exec *x, const dfi_pnode *p, dfi_record *const *r, uint32_t n,
                        const dfi_batching *how, inputs *to, df_tensor **made) {
  const dfi_operand *op = x->plan->operand + p->in;
  bool some = false;
  for (uint32_t i = 0; i < p->nin; i++) {
    bool same = how->shared >> i & 1;
    for (uint32_t m = 1; m < n && same; m++) same = dfi_batch_same(operand(r[0], op[i]), operand(r[m], op[i]));
    if (same) continue;
    if (!(how->rows >> i & 1)) return false;
    if (!(to->in[i] = dfi_batch_stack(r, n, op[i], how->fresh, &to->view[i], &made[i]))) return false;
    some = true;
  }
  return some;
}

bool dfi_batch_part(df_value *to, df_tensor *t, uint32_t i, uint32_t n, bool fresh) {
  const int32_t rank = t->rank - fresh;
  const int64_t size = t->size / n;
  if (rank == 0 && dfi_unboxed(t->dtype)) {
    *to = (df_value){ .kind = DF_SCALAR, .dtype = t->dtype };
    memcpy(&to->as, (const char *)t->data + i * (int64_t)dfi_dtype_size[t->dtype], dfi_dtype_size[t->dtype]);
    return true;
  }
  int64_t dims[DF_MAX_RANK];
  memcpy(dims, t->dims + fresh, sizeof *dims * (size_t)rank);
  if (!fresh) dims[0] /= n;
  df_tensor *part = dfi_tensor_view(t, i * size, rank, dims);
  if (part) *to = (df_value){ .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = part };
  return part != NULL;
}

/* Each gets its part of the results, all outputs or none; a member that has none ends the run. */
static bool give_part(dfi_pnode *p, df_value *to, const df_value *out, uint32_t m, uint32_t n, bool fresh) {
  uint32_t i = 0;
  while (i < p->nout && dfi_batch_part(&to[i], out[i].as.tensor, m, n, fresh)) i++;
  const bool whole = i == p->nout;
  for (uint32_t k = 0; k < p->nout && !whole; k++) {
    if (k < i) dfi_value_drop(&to[k]);
    to[k].kind = DF_EMPTY;
  }
  return whole;
}

static void give_parts(dfi_exec *x, dfi_pnode *p, dfi_record *const *r, uint32_t n, const dfi_batching *how,
                       const df_value *out) {
  for (uint32_t m = 0; m < n && !x->failed; m++) {
    if (!give_part(p, r[m]->base[DFI_ITERATION] + p->out, out, m, n, how->fresh)) {
      dfi_exec_fail(x, r[m], p, DF_RESOURCE_EXHAUSTED, "out of memory for a part of a result");
      return;
    }
    ran(x, r[m], p);
    finish(x, r[m]);
  }
}

/* Has each output a part for each member? */
static bool has_parts(const df_value *out, uint32_t nout, uint32_t n, bool fresh) {
  for (uint32_t i = 0; i < nout; i++) {
    if (out[i].kind != DF_TENSOR || !dfk_plain(out[i].dtype)) return false;
    const df_tensor *t = out[i].as.tensor;
    if (t->rank < 1 || (fresh ? t->dims[0] != n : t->dims[0] % n != 0)) return false;
  }
  return true;
}

/* All of them by one call of the kernel. False: they do not go together, or it failed, and nothing has changed. */
static bool run_nodes(dfi_exec *x, dfi_pnode *p, dfi_record *const *r, uint32_t n) {
  inputs in;
  df_tensor *made[DFI_BATCH_INPUTS] = { NULL }, scratch[DFI_BATCH_OUTPUTS];
  df_value out[DFI_BATCH_OUTPUTS] = { { 0 } };
  df_error error = { 0 };
  dfi_batching how = { 0 };
  dfi_call call = { .exec = x, .record = r[0], .node = p };
  df_kernel k = kernel_of(x, r[0], p, &in);
  const dfi_batch_rule *rule = dfi_batch_rule_of(p);
  bool done = rule->how(&k, &how) && join_inputs(x, p, r, n, &how, &in, made);
  if (done) {
    k.out = out;
    k.scratch = scratch;
    k.run = &call;
    k.error = &error;
    k.reusable = 0;
    atomic_store_explicit(&x->at, p->node->id, memory_order_relaxed);
    done = (rule->many ? rule->many(&k, (int32_t)n) : p->kernel(&k)) == DF_OK && has_parts(out, p->nout, n, how.fresh);
    if (done) x->patience -= dfi_patience_of(4 * ((int64_t)n - 1) + (out[0].as.tensor->size >> 12));
  }
  for (uint32_t i = 0; i < p->nin; i++) df_tensor_release(made[i]);
  if (done) give_parts(x, p, r, n, &how, out);
  for (uint32_t i = 0; i < p->nout; i++) dfi_value_drop(&out[i]);
  return done;
}

static bool run_group(dfi_exec *x, dfi_group *g, dfi_record *const *r, uint32_t n) {
  if (!dfi_group_compute_many(x, r, (int32_t)n, g)) return false;
  for (uint32_t m = 0; m < n; m++) finish(x, r[m]);
  return true;
}

/* The longest list's place among those that are not empty. */
static uint32_t longest(const dfi_batch *b) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < b->nfilled; i++) if (b->list[b->filled[i]].n > b->list[b->filled[best]].n) best = i;
  return best;
}

/* So many were computed as one: what :explain shows. */
static void note(const dfi_exec *x, uint32_t number, uint32_t n) {
  dfi_batch_reached *to = &x->plan->reached[number];
  atomic_fetch_add_explicit(&to->calls, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&to->members, n, memory_order_relaxed);
  if (atomic_load_explicit(&to->most, memory_order_relaxed) < n)
    atomic_store_explicit(&to->most, n, memory_order_relaxed);
}

void dfi_batch_run(dfi_exec *x) {
  dfi_batch *b = x->batch;
  dfi_record *r[MOST_MEMBERS];
  const uint32_t at = longest(b), number = b->filled[at];
  list *l = &b->list[number];
  const uint32_t n = take_alike(x, l, r);
  const list of = { l->node, l->group, NULL, 0, 0 };
  if (!l->n) b->filled[at] = b->filled[--b->nfilled];
  const bool done = n > 1 && (of.group ? run_group(x, of.group, r, n) : run_nodes(x, of.node, r, n));
  if (done) note(x, number, n);
  for (uint32_t i = 0; i < n && !done && !x->failed; i++) run_alone(x, &of, r[i]);
}

/* ---- under inspection -------------------------------------------------------------------------------------------- */

static void settle_frame(dfi_exec *x, const dfi_frame *f) {
  df_error error = { 0 };
  for (uint32_t i = 0; i < f->scope->nconsts; i++) dfi_batch_settle(x, &f->constants[i], &error);
  for (int64_t i = f->first; i < f->next; i++) {
    const dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t s = 0; s < f->scope->nslots; s++) dfi_batch_settle(x, &r->base[DFI_ITERATION][s], &error);
    for (uint32_t c = 0; c < f->scope->nchildren; c++) if (r->children[c]) settle_frame(x, r->children[c]);
  }
  for (int32_t i = 0; i < f->ndeferred; i++) dfi_batch_settle(x, &f->deferred[i].value, &error);
}

void dfi_batch_apart(dfi_exec *x) {
  dfi_batch *b = x->batch;
  if (!b || x->failed || !x->root) return;
  while (b->nfilled && !x->failed) {
    list *l = &b->list[b->filled[b->nfilled - 1]];
    dfi_record *r = l->at[0];
    memmove(l->at, l->at + 1, sizeof *l->at * --l->n);
    if (!l->n) b->nfilled--;
    run_alone(x, l, r);
  }
  if (!x->failed && !x->finished) settle_frame(x, x->root);
}
