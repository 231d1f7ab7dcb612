/* met.c: units of loops whose tensors have shapes that the graph does not know: those that a run has met.
 *
 * What enters a loop has a shape when the loop begins, and keeps it, as a rule, however little was known of it while
 * the graph was built: a batch of any size, say. So such a loop has a unit for each of the first few shapes that it is
 * hot with. The unit's nodes are inferred once more, of these shapes; whatever is not known even so (what Where finds),
 * or is another one in the next iteration, is refused as in other loops. A frame with other shapes is the tokens'.
 */
#include "engine/native/native.h"
#include "graph/build.h"
#include "resource/tensor_array.h"

enum { KEPT = 4 };                 /* units of one loop */

/* ---- what is open ----------------------------------------------------------------------------------------------- */

/* Does n's output hold numbers, or an array of numbers, of a shape that is not known? */
static bool is_open(const dfi_out *o) {
  const uint8_t numbers = o->dtype == DF_RESOURCE ? o->of : o->dtype;
  return !o->ref && numbers && numbers != DF_RESOURCE && dfi_unboxed(numbers) && !dfi_shape_known(&o->shape);
}

static bool is_inside(const dfi_plan *p, const dfi_scope *inner, const dfi_scope *outer) {
  while (inner != outer && inner->parent >= 0) inner = &p->scope[inner->parent];
  return inner == outer;
}

static bool reads_feed(const dfi_plan *p, const dfi_scope *s, uint32_t feed) {
  for (int32_t i = 0; i < p->nscopes; i++) {
    if (!is_inside(p, &p->scope[i], s)) continue;
    const dfi_pnode *n = p->node + p->scope[i].first;
    for (uint32_t k = 0; k < p->scope[i].n; k++)
      for (uint32_t j = 0; j < n[k].nin; j++)
        if (p->operand[n[k].in + j] == DFI_OPERAND(DFI_GIVEN, feed)) return true;
  }
  return false;
}

static dfi_open *open_new(const dfi_unit *u) {
  const dfi_scope *s = u->scope;
  const uint32_t nfeed = (uint32_t)u->plan->nfeed;
  dfi_open *o = dfi_xcalloc(1, sizeof *o + sizeof *o->at * (s->nenters + nfeed));
  for (uint32_t i = 0; i < s->nenters; i++)
    if (is_open(&s->enters[i]->node->out[0]))
      o->at[o->n++] = (dfi_open_at){ s->enters[i], { s->enters[i]->node, 0 }, 0 };
  for (uint32_t i = 0; i < nfeed; i++) {
    const df_output f = u->plan->feed[i];
    if (is_open(&f.node->out[f.index]) && dfi_dtype(f) != DF_RESOURCE && reads_feed(u->plan, s, i))
      o->at[o->n++] = (dfi_open_at){ NULL, f, i };
  }
  return o;
}

static const dfi_open *open_of(const dfi_unit *u) { return __atomic_load_n(&u->open, __ATOMIC_ACQUIRE); }

bool dfi_unit_open(dfi_unit *u) {
  const dfi_open *o = open_of(u);
  if (o) return o->n != 0;
  dfi_plan *p = (dfi_plan *)u->plan;
  pthread_mutex_lock(&p->lock);
  if (!u->open) __atomic_store_n(&u->open, open_new(u), __ATOMIC_RELEASE);
  pthread_mutex_unlock(&p->lock);
  return open_of(u)->n != 0;
}

/* ---- what was met ----------------------------------------------------------------------------------------------- */

/* Of an array the elements'; rank -1: nothing is known. */
static dfi_shape shape_of(const df_value *v) {
  if (v->kind == DF_SCALAR) return dfi_shape_scalar();
  if (v->kind == DF_TENSOR) return dfi_shape_of(v->as.tensor->rank, v->as.tensor->dims);
  const dfi_tensor_array *t = v->kind == DF_HANDLE ? (const dfi_tensor_array *)v->as.handle : NULL;
  if (!t || t->base.type != DFI_TENSOR_ARRAY) return dfi_shape_unknown();
  dfi_shape first;
  if (t->store == DFI_STORE_HANDLES || dfi_tensor_array_size(t) < 1 || !dfi_element_shape(t, 0, &first) ||
      !dfi_shape_known(&first)) return dfi_shape_unknown();
  return first;
}

static dfi_shape met_at(const dfi_exec *x, const dfi_frame *f, const dfi_record *r, const dfi_open_at *at) {
  if (!at->enter) return shape_of(&x->given[at->feed]);
  return shape_of(at->enter->constant ? &f->constants[at->enter->out] : r->base[DFI_ITERATION] + at->enter->out);
}

/* Is the unit for this frame's shapes? Where it, or the frame, knows nothing, any will do: of an array it looks at each
   element that it reads. */
static bool is_for(const dfi_unit *v, const dfi_exec *x, const dfi_frame *f, const dfi_record *r) {
  for (uint32_t k = 0; k < v->met_at->n; k++) {
    const dfi_shape met = met_at(x, f, r, &v->met_at->at[k]);
    const bool array = dfi_dtype(v->met_at->at[k].output) == DF_RESOURCE;
    if (v->met[k].rank < 0 || (array && met.rank < 0)) continue;
    if (!dfi_shape_equal(&v->met[k], &met)) return false;
  }
  return true;
}

/* NULL: there are enough. */
static dfi_unit *unit_new(dfi_unit *u, const dfi_exec *x, const dfi_frame *f, const dfi_record *r) {
  dfi_plan *p = (dfi_plan *)u->plan;
  dfi_unit *v = NULL, **end = &u->other;
  int32_t n = 0;
  pthread_mutex_lock(&p->lock);
  for (; *end; end = &(*end)->other) n++;
  if (n < KEPT) {
    v = dfi_xcalloc(1, sizeof *v);
    v->plan = p;
    v->scope = u->scope;
    v->met_at = u->open;
    v->met = dfi_xmalloc(sizeof *v->met * v->met_at->n);
    for (uint32_t k = 0; k < v->met_at->n; k++) v->met[k] = met_at(x, f, r, &v->met_at->at[k]);
    atomic_store_explicit(&u->heat, 0, memory_order_relaxed);
    __atomic_store_n(end, v, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&p->lock);
  return v;
}

dfi_unit *dfi_unit_met(dfi_exec *x, dfi_unit *u, const dfi_frame *f, const dfi_record *r, bool wanted) {
  if (!dfi_unit_open(u)) return u;
  dfi_unit *v = dfi_unit_other(u);
  while (v && !is_for(v, x, f, r)) v = dfi_unit_other(v);
  if (!v && wanted) v = unit_new(u, x, f, r);
  __atomic_store_n(&u->latest, v, __ATOMIC_RELEASE);
  return v;
}

/* ---- the shapes of its nodes ------------------------------------------------------------------------------------ */

/* Copies of nodes, by id, whose shapes are better known than the graph's. */
typedef struct refined { df_graph *graph; int32_t first, n; df_node **node; } refined;

static df_node *copy_of(const refined *a, const df_node *n) {
  const int64_t at = (int64_t)n->id - a->first;
  return at >= 0 && at < a->n ? a->node[at] : NULL;
}

static void copy_free(df_node *c) {
  for (int32_t k = 0; c && k < c->nout; k++) df_tensor_release(c->out[k].constant);
  if (c) { dfi_free(c->in); dfi_free(c->out); }
  dfi_free(c);
}

static df_node *copy_new(refined *a, const df_node *n) {
  df_node *c = dfi_xmalloc(sizeof *c);
  *c = *n;
  c->in = dfi_xmalloc(sizeof *c->in * ((size_t)n->nin + 1));
  c->out = dfi_xmalloc(sizeof *c->out * ((size_t)n->nout + 1));
  for (int32_t i = 0; i < n->nin; i++) {
    df_node *from = copy_of(a, n->in[i].node);
    c->in[i] = (df_output){ from ? from : n->in[i].node, n->in[i].index };
  }
  for (int32_t k = 0; k < n->nout; k++) {
    c->out[k] = n->out[k];
    if (c->out[k].constant) df_tensor_retain(c->out[k].constant);
  }
  return c;
}

static void met_here(refined *a, df_output o, const dfi_shape *met) {
  const int32_t at = o.node->id - a->first;
  dfi_shape both;
  if (!dfi_shape_merge(&o.node->out[o.index].shape, met, &both)) return;
  if (!a->node[at]) a->node[at] = copy_new(a, o.node);
  a->node[at]->out[o.index].shape = both;
}

static df_flow flow_of(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }

/* A loop's Merge has what enters the loop; what comes next is compared with that. */
static bool infer_copy(df_node *c) {
  const dfi_op_info *o = dfi_op_info_at(c->op);
  const bool of_loop = o->op->flow == DF_MERGE && c->nin == 2 && flow_of(c->in[0].node) == DF_ENTER;
  df_error error;
  dfi_infer i = { c->graph, c, &error };
  if (of_loop) c->out[0].shape = *dfi_shape_at(c->in[0]);
  else if (!o->op->shape || o->op->shape(&i)) return false;
  return true;
}

/* The same node, of inputs whose shapes are better known. NULL: that tells nothing. */
static df_node *infer(refined *a, const df_node *n) {
  df_node *c = copy_new(a, n);
  for (int32_t k = 0; k < n->nout; k++) c->out[k].shape = dfi_shape_unknown();
  bool ok = infer_copy(c);
  for (int32_t k = 0; k < n->nout && ok; k++) {
    dfi_shape both;
    c->out[k].dtype = n->out[k].dtype;
    ok = dfi_shape_merge(&n->out[k].shape, &c->out[k].shape, &both);
    c->out[k].shape = both;
  }
  const dfi_op_info *o = dfi_op_info_at(n->op);
  bool known = false;
  for (int32_t k = 0; k < n->nout; k++) known |= n->out[k].constant != NULL;
  if (ok && o->fold && !known) dfi_fold_node(c, o);
  if (ok) return c;
  copy_free(c);
  return NULL;
}

static bool has_copy(const refined *a, const df_node *n) {
  for (int32_t i = 0; i < n->nin; i++) if (copy_of(a, n->in[i].node)) return true;
  return false;
}

/* The nodes of the unit's loops, and what enters and leaves them: ids, and the contexts. */
static void bounds(const dfi_unit *u, int32_t *low, int32_t *high, uint8_t *context) {
  const dfi_plan *p = u->plan;
  *low = INT32_MAX;
  *high = -1;
  for (uint32_t k = 0; k < u->met_at->n; k++)
    if (u->met_at->at[k].output.node->id < *low) *low = u->met_at->at[k].output.node->id;
  for (int32_t i = 0; i < p->nscopes; i++) {
    if (!is_inside(p, &p->scope[i], u->scope)) continue;
    for (uint32_t k = 0; k < p->scope[i].n; k++) {
      const df_node *n = p->node[p->scope[i].first + k].node;
      if (n->id > *high) *high = n->id;
      if (n->id < *low) *low = n->id;
      context[n->context->id] = 1;
    }
    for (uint32_t k = 0; k < p->scope[i].nexits; k++)
      if (p->scope[i].exits[k]->node->id > *high) *high = p->scope[i].exits[k]->node->id;
  }
}

static void keep_shapes(dfi_unit *u, const refined *a) {
  int32_t n = 0;
  for (int32_t i = 0; i < a->n; i++) n += a->node[i] ? a->node[i]->nout : 0;
  u->sized = dfi_xmalloc(sizeof *u->sized * ((size_t)n + 1));
  for (int32_t i = 0; i < a->n; i++)
    for (int32_t k = 0; a->node[i] && k < a->node[i]->nout; k++)
      u->sized[u->nsized++] = (dfi_sized_output){ a->first + i, k, a->node[i]->out[k].shape };
}

void dfi_unit_infer(dfi_unit *u) {
  if (!u->met) return;
  refined a = { .graph = u->met_at->at[0].output.node->graph };
  pthread_mutex_lock(&a.graph->lock);               /* another thread may be building meanwhile */
  int32_t high;
  uint8_t *context = dfi_xcalloc((size_t)a.graph->ncontexts + 1, 1);
  bounds(u, &a.first, &high, context);
  a.n = high - a.first + 1;
  a.node = dfi_xcalloc((size_t)a.n + 1, sizeof *a.node);
  for (uint32_t k = 0; k < u->met_at->n; k++) met_here(&a, u->met_at->at[k].output, &u->met[k]);
  for (int32_t i = 0; i < a.n; i++) {
    const df_node *n = a.graph->node[a.first + i];
    const bool ours = context[n->context->id] || flow_of(n) != DF_PLAIN;
    if (ours && !a.node[i] && has_copy(&a, n)) a.node[i] = infer(&a, n);
  }
  keep_shapes(u, &a);
  pthread_mutex_unlock(&a.graph->lock);
  for (int32_t i = 0; i < a.n; i++) copy_free(a.node[i]);
  dfi_free(a.node);
  dfi_free(context);
}

const dfi_shape *dfi_known_shape(const dfi_unit *u, df_output o) {
  int32_t low = 0, high = u->nsized;
  while (low < high) {
    const int32_t mid = low + (high - low) / 2;
    const dfi_sized_output *s = &u->sized[mid];
    if (s->node == o.node->id && s->index == o.index) return &s->shape;
    if (s->node < o.node->id || (s->node == o.node->id && s->index < o.index)) low = mid + 1;
    else high = mid;
  }
  return dfi_shape_at(o);
}

void dfi_unit_tell_met(const dfi_unit *u, dfi_text *t) {
  const char *between = "; of ";
  for (uint32_t k = 0; u->met && k < u->met_at->n; k++) {
    const df_output o = u->met_at->at[k].output;
    char text[200];
    if (u->met[k].rank < 0 || dfi_dtype(o) == DF_RESOURCE) continue;
    dfi_text_add(t, "%s%s", between, dfi_typed_shape_text(dfi_dtype(o), &u->met[k], text));
    between = ", ";
  }
}
