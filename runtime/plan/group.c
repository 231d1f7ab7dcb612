/* group.c: which elementwise nodes are computed in one pass.
 *
 * A group is a set of elementwise nodes of one scope, context and shape that hang together, with what goes by rows of
 * that shape, and folds over its axes in front (group_rows.c). Tokens move through it as
 * ever; its values are computed when its last member has fired, and only then are they told outside. So no
 * way may lead out of a group and back into it: everything has a level, which rises along every edge but those inside
 * a group, and a group's members are of one level. All that a group has to wait for is on its way before it, except
 * what a queue or the program gives: a plan with such ops has no groups. An inspector of a run sees no groups:
 * engine/tokens/group_run.c takes them apart.
 *
 * A plan that is on more devices than the host has groups on its GPUs, of ops that their plug-in knows the expressions
 * of; there they are one kernel, which is worth it at any size. What crosses between devices crosses at a level as any
 * edge does, so the same rule holds.
 */
#include "base/stress.h"
#include "plan/group.h"

enum {
  SMALL = 256,                    /* elements of a static shape from which on it is worth it */
  PASSES = 12                     /* over the nodes, until levels do not change */
};
enum { NOTHING = 1, ELEMENTWISE, ROWS };      /* of finder.known */

/* ---- which nodes -------------------------------------------------------------------------------------------- */

static uint32_t hash_of(const class *c) {
  uint64_t h = (uint64_t)(uintptr_t)c->context * 0x9e3779b97f4a7c15u + (uint64_t)c->scope;
  for (int32_t d = 0; d < c->shape->rank; d++) h = (h ^ (uint64_t)c->shape->dims[d]) * 0xbf58476d1ce4e5b9u;
  return (uint32_t)(h ^ h >> 32);
}

int32_t dfi_group_class(finder *f, const df_node *n, const dfi_shape *shape) {
  const class c = { n->context, shape, f->m->mark[n->id].scope, f->m->mark[n->id].device, -1, 0, 0, 0 };
  for (uint32_t i = hash_of(&c);; i++) {
    int32_t *at = &f->table[i & f->mask];
    if (!*at) {
      f->class[++f->nclasses] = c;
      return *at = f->nclasses;
    }
    const class *o = &f->class[*at];
    if (o->context == c.context && o->scope == c.scope && o->device == c.device &&
        dfi_shape_equal(o->shape, c.shape)) return *at;
  }
}

/* What a chain could have it as, of some dtype. */
static int known(finder *f, const df_node *n, const dfi_pnode *q) {
  uint8_t *k = &f->known[n->op];
  if (*k) return *k;
  if (dfi_group_is_sum(n) || dfk_chain_has(q->kernel)) return *k = ELEMENTWISE;
  const bool rows = dfk_chain_rows(q->kernel, DF_FLOAT32).fn || dfk_chain_rows(q->kernel, DF_BOOL).fn ||
                    dfk_chain_over(q->kernel, DF_FLOAT32).add || dfk_chain_spreads(q->kernel) ||
                    dfi_has_trait(n, DFO_RESHAPES);
  return *k = rows ? ROWS : NOTHING;
}

/* On a GPU it is worth it at any size. */
static bool fits_gpu(finder *f, const df_node *n, const dfi_pnode *q) {
  int32_t attr;
  if (!q->gpu || q->group || q->reads || q->has_handle || n->out[0].shape.rank < 1) return false;
  if (f->m->plan->scope[f->m->mark[n->id].scope].parent == DFI_FUNCTION) return false;
  if (!dfi_group_element(f->m, n, &attr)) return dfi_group_fits_rows(f, n, q);
  if (dfi_group_fits_narrow(f, n, q)) return true;
  const int32_t class = dfi_group_class(f, n, &n->out[0].shape);
  if (dfi_group_crosses_rows(f, n, class)) return false;
  f->at[n->id].class = class;
  return true;
}

/* A member gets its class. */
static bool fits(finder *f, const df_node *n) {
  const mark *k = &f->m->mark[n->id];
  if (k->number < 0 || n->nout != 1 || n->nin < 1 || f->known[n->op] == NOTHING) return false;
  const dfi_pnode *q = &f->m->plan->node[k->number];
  const dfi_shape *s = &n->out[0].shape;
  if (q->invariant) return false;
  if (f->m->cut) return fits_gpu(f, n, q);
  if ((q->kind != DFI_K_KERNEL && q->kind != DFI_K_SCALAR) || q->reads || q->has_handle || op_of(n)->stateful ||
      n->contradiction)
    return false;
  if (s->rank < 1 || (n->nin > 3 && !dfi_group_is_sum(n)) || n->nin > DFK_CHAIN_STEPS / 2) return false;
  if (f->m->plan->scope[k->scope].parent == DFI_FUNCTION) return false;
  const int how = known(f, n, q);
  if (how != ELEMENTWISE) return how == ROWS && dfi_group_fits_rows(f, n, q);
  if (dfi_group_fits_narrow(f, n, q)) return true;
  if (dfi_group_becomes_gates(f->m, q)) return false;
  const int64_t size = dfi_shape_size(s);
  if ((size >= 0 && size < f->small) || !dfi_group_loop(n, q->kernel).fn) return false;
  const int32_t class = dfi_group_class(f, n, s);
  if (dfi_group_crosses_rows(f, n, class)) return false;
  f->at[n->id].class = class;
  return true;
}

/* ---- levels ------------------------------------------------------------------------------------------------- */

static bool raise(int32_t *level, int32_t to) {
  if (*level >= to) return false;
  *level = to;
  return true;
}

/* Behind what the control inputs of holder wait for: what lets a value pass has no tokens of its own. */
static int32_t after_controls(const finder *f, const df_node *holder, int32_t level) {
  for (int32_t i = 0; i < holder->ncontrol; i++) {
    df_output by = { holder->control[i], 0 };
    if (by.node->nout) by = dfi_plan_origin(f->m, by);
    if (f->at[by.node->id].level + 1 > level) level = f->at[by.node->id].level + 1;
  }
  return level;
}

static bool raise_node(finder *f, const df_node *n) {
  maker *m = f->m;
  place *own = &f->at[n->id];
  const mark *k = &m->mark[n->id];
  int32_t to = f->scope_level[k->scope];
  for (int32_t i = 0; i < n->nin; i++) {
    if (feed_of(m, n->in[i]) >= 0) continue;
    if (flow_of(n) == DF_MERGE && flow_of(n->in[i].node) == DF_NEXT_ITERATION) continue;      /* another iteration's */
    const df_output from = dfi_plan_origin(m, n->in[i]);
    if (feed_of(m, from) >= 0) continue;
    const place *p = &f->at[from.node->id];
    const int32_t level = p->level + !(own->class && p->class == own->class && !dfi_group_ends(p));
    if (level > to) to = level;
  }
  to = after_controls(f, n, to);
  for (int32_t i = 0; i < n->nin && k->reads_gate; i++) {       /* as wire.c has it */
    df_output unused;
    df_node *gate = NULL;
    if (!dfi_plan_comes_as_token(m, n, n->in[i], &unused, &gate) && gate) to = after_controls(f, gate, to);
  }
  if (flow_of(n) == DF_ENTER) {
    const bool entered = raise(&f->scope_level[k->child_scope], to + 1);
    return raise(&own->level, to) || entered;
  }
  return raise(&own->level, to);
}

/* False: they still change, and nothing is grouped. */
static bool find_levels(finder *f) {
  maker *m = f->m;
  for (int32_t pass = 0; pass < PASSES; pass++) {
    bool changed = false;
    for (int32_t i = 0; i < m->nneeded; i++) changed |= raise_node(f, dfi_plan_node(m, m->needed[i]));
    if (!changed) return true;
  }
  return false;
}

/* ---- what hangs together ------------------------------------------------------------------------------------- */

static int32_t leader_of(finder *f, int32_t id) {
  while (f->at[id].leader != id) id = f->at[id].leader = f->at[f->at[id].leader].leader;
  return id;
}

/* The member that input i of n comes from, or NULL. */
static df_node *before(const finder *f, const df_node *n, int32_t i) {
  if (feed_of(f->m, n->in[i]) >= 0) return NULL;
  const df_output from = dfi_plan_origin(f->m, n->in[i]);
  if (feed_of(f->m, from) >= 0 || !f->at[from.node->id].class) return NULL;
  const place *a = &f->at[from.node->id], *b = &f->at[n->id];
  return a->class == b->class && a->level == b->level && !dfi_group_ends(a) ? from.node : NULL;
}

static void join(finder *f) {
  const maker *m = f->m;
  for (int32_t i = 0; i < m->nneeded; i++) f->at[m->needed[i]].leader = m->needed[i];
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    for (int32_t k = 0; f->at[n->id].class && k < n->nin; k++) {
      df_node *b = before(f, n, k);
      if (b) f->at[leader_of(f, n->id)].leader = leader_of(f, b->id);
    }
  }
}

/* ---- groups --------------------------------------------------------------------------------------------------- */

static int32_t inputs_of(df_node *const *node, int32_t n) {      /* at most */
  int32_t inputs = 0;
  for (int32_t i = 0; i < n; i++) inputs += node[i]->nin;
  return inputs;
}

/* Steps that a group of these may have: where they go by rows a row of each result has to fit. */
static int64_t most_steps(const finder *f, df_node *const *node, int32_t n) {
  const class *c = &f->class[f->at[node[0]->id].class];
  int64_t widest = 1;
  for (int32_t i = 0; i < n; i++)
    if (dfi_dtype_size[node[i]->out[0].dtype] > widest) widest = dfi_dtype_size[node[i]->out[0].dtype];
  if (c->lead < 0 || dfi_group_on_gpu(f->m, node[0])) return DFK_CHAIN_STEPS;
  const int64_t fit = DFK_CHAIN_ROOM / (widest * c->row);
  return fit < DFK_CHAIN_STEPS ? fit : DFK_CHAIN_STEPS;
}

/* Those with one leader, in order: two at least, or one behind a convolution. Where they are too many for one group
   they become several, cut across the order. */
static void group_ordered(finder *f, df_node *const *node, int32_t n) {
  const int64_t most = most_steps(f, node, n);
  while (n > 0) {
    int32_t k = 0, steps = 0;
    while (k < n && k < DFI_GROUP_MEMBERS && (steps += dfi_group_steps(node[k])) <= most &&
           inputs_of(node, k + 1) <= DFK_CHAIN_INPUTS)
      k++;
    if (k > 1 || (k && dfi_group_convolves(f->m, &f->m->plan->node[f->m->mark[node[0]->id].number])))
      dfi_group_new(f, node, k);
    if (k < 1) k = 1;
    node += k;
    n -= k;
  }
}

/* Members by leader, each after those it reads. */
static void find_groups(finder *f) {
  maker *m = f->m;
  int32_t n = 0;
  for (int32_t i = 0; i < m->nneeded; i++) n += f->at[m->needed[i]].class != 0;
  df_node **order = dfi_xmalloc(sizeof *order * (size_t)(n + 1)),
          **sorted = dfi_xmalloc(sizeof *sorted * (size_t)(n + 1));
  for (int32_t i = 0, k = 0; i < m->nneeded; i++)
    if (f->at[m->needed[i]].class) order[k++] = dfi_plan_node(m, m->needed[i]);
  /* by leader, a counting sort that keeps the order of ids; ids are nearly always an order in which values come */
  int32_t *first = dfi_xcalloc((size_t)dfi_plan_ids(m) + 2, sizeof *first);
  for (int32_t i = 0; i < n; i++) first[leader_of(f, order[i]->id) + 1]++;
  for (int32_t i = 0; i < dfi_plan_ids(m); i++) first[i + 1] += first[i];
  for (int32_t i = 0; i < n; i++) sorted[first[leader_of(f, order[i]->id)]++] = order[i];
  dfi_free(first);
  for (int32_t begin = 0, end; begin < n; begin = end) {
    const int32_t leader = leader_of(f, sorted[begin]->id);
    for (end = begin + 1; end < n && leader_of(f, sorted[end]->id) == leader; end++) { }
    int32_t ordered = 0;
    for (int32_t i = begin; i < end; i++) f->at[sorted[i]->id].waits = 1;
    for (bool more = true; more && ordered < end - begin;) {
      more = false;
      for (int32_t i = begin; i < end; i++) {
        const df_node *c = sorted[i];
        bool ready = f->at[c->id].waits;
        for (int32_t k = 0; ready && k < c->nin; k++) {
          const df_node *b = before(f, c, k);
          ready = !b || !f->at[b->id].waits;
        }
        if (!ready) continue;
        f->at[c->id].waits = 0;
        order[ordered++] = sorted[i];
        more = true;
      }
    }
    if (ordered == end - begin) group_ordered(f, order, ordered);
  }
  dfi_free(order); dfi_free(sorted);
}

void dfi_plan_group(maker *m) {
  dfi_plan *p = m->plan;
  if (dfi_stress("apart", NULL)) return;             /* every node is computed alone */
  finder f = { .m = m, .small = dfi_stress("groups", NULL) ? 1 : SMALL };
  int32_t n = 0, ops = 0;
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *c = dfi_plan_node(m, m->needed[i]);
    if (op_of(c)->waits || c->unstructured) return;
    n += c->nout == 1 && c->out[0].shape.rank > 0;
    if (c->op >= ops) ops = c->op + 1;
  }
  if (n < 2) return;
  f.known = dfi_xcalloc((size_t)ops + 1, 1);
  f.at = dfi_xcalloc((size_t)dfi_plan_ids(m) + 1, sizeof *f.at);
  f.scope_level = dfi_xcalloc((size_t)p->nscopes + 1, sizeof *f.scope_level);
  f.class = dfi_xcalloc((size_t)n + 2, sizeof *f.class);     /* a member makes one at most */
  for (f.mask = 63; f.mask < 2 * (uint32_t)n; f.mask = 2 * f.mask + 1) { }
  f.table = dfi_xcalloc((size_t)f.mask + 1, sizeof *f.table);
  if (m->cut) dfi_group_convolved(m);
  n = 0;
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *c = dfi_plan_node(m, m->needed[i]);
    n += fits(&f, c);
  }
  if (n && find_levels(&f)) {
    join(&f);
    find_groups(&f);
  }
  if (m->cut) dfi_group_biased(m);
  else dfi_group_products(m);
  dfi_free(f.known); dfi_free(f.at); dfi_free(f.scope_level); dfi_free(f.class); dfi_free(f.table);
}
