/* group.c: which elementwise nodes are computed in one pass.
 *
 * A group is a set of elementwise nodes of one scope, context and shape that hang together. Tokens move through it as
 * ever; its values are computed when its last member has fired, and only then does anybody outside hear of them. So no
 * way may lead out of a group and back into it: everything has a level, which rises along every edge but those inside
 * a group, and a group's members are of one level. All that a group has to wait for is on its way before it, except
 * what a queue or the program gives: a plan with such ops has no groups. Whoever looks at a run sees no groups:
 * engine/group.c takes them apart.
 *
 * A plan that is on more devices than the host has groups on its GPUs, of ops that their plug-in knows the expressions
 * of; there they are one kernel, which is worth it at any size. What crosses between devices crosses at a level as any
 * edge does, so the same rule holds.
 */
#include "base/stress.h"
#include "plan/make.h"
#include "kernels/elementwise.h"

enum {
  SMALL = 256,                    /* elements of a static shape from which on it is worth it */
  PASSES = 12,                    /* over the nodes, until levels stand still */
  GRAIN = 32768, BLOCK = 1024     /* elements a thread should have of one cheap op; and a multiple of these */
};

/* Of a node, by id. */
typedef struct place {
  int32_t level;
  int32_t class;                  /* what can be in a group with what; 0: it cannot */
  int32_t leader;                 /* of those it hangs together with */
  int32_t waits;                  /* members before it that are not in order yet */
} place;

typedef struct class { const df_context *context; const dfi_shape *shape; int32_t scope, device; } class;

typedef struct finder {
  maker   *m;
  place   *at;
  int32_t *scope_level;           /* by scope: of its Enters */
  class   *class; int32_t nclasses;      /* 1 … nclasses */
  int32_t *table; uint32_t mask;         /* of classes, by hash */
  int64_t  small;                 /* elements of a static shape that are worth it */
  uint8_t *known;                 /* by op: 0 not asked yet, 1 no chain can have it, 2 some dtypes of it */
} finder;

/* ---- which nodes -------------------------------------------------------------------------------------------- */

/* Of a list: Add itself is computed as any other kernel is. */
static bool is_sum(const df_node *n) { return dfi_has_trait(n, DFO_ADDS) && dfi_op_info_at(n->op)->in_list; }

/* How the node computes; a sum of many: how it adds one. */
static dfk_loop loop_of(const df_node *n, df_kernel_fn kernel) {
  static const double zeros[2] = { 0 };
  df_tensor view[3];
  const df_tensor *in[3] = { &view[0], &view[1], &view[2] };
  df_error error;
  const int32_t nin = is_sum(n) ? 2 : n->nin;
  for (int32_t i = 0; i < nin; i++)
    view[i] = (df_tensor){ .refs = 1, .dtype = dfi_dtype(n->in[i]), .rank = 1, .view = 1, .size = 2, .dims = { 2 },
                           .data = (void *)(uintptr_t)zeros };
  df_kernel k = { .attrs = n->attrs, .nin = nin, .nout = 1, .in = in, .out_dtype = &n->out[0].dtype, .error = &error };
  if (is_sum(n)) kernel = cpu_add;
  return dfk_chain_loop(kernel, &k);
}

static const dfi_device *gpu_of(const maker *m, const df_node *n) {
  const dfi_device *d = m->cut ? m->devices->at[m->mark[n->id].device] : NULL;
  return d && d->remote ? d : NULL;
}

/* What the GPU's code calls the op of a node there; NULL: it has no expression for it. */
static const char *element_of(const maker *m, const df_node *n) {
  uint8_t in[3];
  if (!gpu_of(m, n) || n->nin > 3) return NULL;
  for (int32_t i = 0; i < n->nin; i++) in[i] = dfi_dtype(n->in[i]);
  return dfi_gpu_fuses(op_of(n)->type, n->nin, in, n->out[0].dtype);
}

static bool fits_gpu(const finder *f, const df_node *n, const dfi_pnode *q) {
  return q->gpu && !q->reads && !q->has_handle && n->out[0].shape.rank >= 1 &&
         f->m->plan->scope[f->m->mark[n->id].scope].parent != DFI_FUNCTION && element_of(f->m, n);
}

static bool fits(finder *f, const df_node *n) {
  const mark *k = &f->m->mark[n->id];
  if (k->number < 0 || n->nout != 1 || n->nin < 1 || f->known[n->op] == 1) return false;
  const dfi_pnode *q = &f->m->plan->node[k->number];
  if (f->m->cut) return fits_gpu(f, n, q);
  const dfi_shape *s = &n->out[0].shape;
  if ((q->kind != DFI_K_KERNEL && q->kind != DFI_K_SCALAR) || q->reads || q->has_handle || op_of(n)->stateful)
    return false;
  if (s->rank < 1 || (n->nin > 3 && !is_sum(n)) || n->nin > DFK_CHAIN_STEPS / 2) return false;
  const int64_t size = dfi_shape_size(s);
  if ((size >= 0 && size < f->small) || f->m->plan->scope[k->scope].parent == DFI_FUNCTION) return false;
  if (!f->known[n->op]) f->known[n->op] = is_sum(n) || dfk_chain_has(q->kernel) ? 2 : 1;
  return f->known[n->op] == 2 && loop_of(n, q->kernel).fn;
}

static uint32_t hash_of(const class *c) {
  uint64_t h = (uint64_t)(uintptr_t)c->context * 0x9e3779b97f4a7c15u + (uint64_t)c->scope;
  for (int32_t d = 0; d < c->shape->rank; d++) h = (h ^ (uint64_t)c->shape->dims[d]) * 0xbf58476d1ce4e5b9u;
  return (uint32_t)(h ^ h >> 32);
}

static int32_t class_of(finder *f, const df_node *n) {
  const class c = { n->context, &n->out[0].shape, f->m->mark[n->id].scope, f->m->mark[n->id].device };
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

/* ---- levels ------------------------------------------------------------------------------------------------- */

static bool raise(int32_t *level, int32_t to) {
  if (*level >= to) return false;
  *level = to;
  return true;
}

static bool raise_node(finder *f, const df_node *n) {
  const maker *m = f->m;
  place *own = &f->at[n->id];
  const mark *k = &m->mark[n->id];
  int32_t to = f->scope_level[k->scope];
  for (int32_t i = 0; i < n->nin; i++) {
    if (feed_of(m, n->in[i]) >= 0) continue;
    if (flow_of(n) == DF_MERGE && flow_of(n->in[i].node) == DF_NEXT_ITERATION) continue;      /* another iteration's */
    const df_output from = dfi_plan_origin(m, n->in[i]);
    if (feed_of(m, from) >= 0) continue;
    const place *p = &f->at[from.node->id];
    const int32_t level = p->level + !(own->class && p->class == own->class);
    if (level > to) to = level;
  }
  for (int32_t i = 0; i < n->ncontrol; i++)
    if (f->at[n->control[i]->id].level + 1 > to) to = f->at[n->control[i]->id].level + 1;
  if (flow_of(n) == DF_ENTER) {
    const bool entered = raise(&f->scope_level[k->child_scope], to + 1);
    return raise(&own->level, to) || entered;
  }
  return raise(&own->level, to);
}

/* False: they do not stand still, and nothing is grouped. */
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
  return a->class == b->class && a->level == b->level ? from.node : NULL;
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

/* ---- a group ------------------------------------------------------------------------------------------------- */

static int32_t steps_of(const df_node *n) { return is_sum(n) ? n->nin < 2 ? DFK_CHAIN_STEPS : n->nin - 1 : 1; }

static int32_t input_at(dfi_group *g, dfi_operand o, uint8_t dtype) {
  int32_t i = 0;
  while (i < g->chain.ninputs && g->input[i].at != o) i++;
  if (i < g->chain.ninputs) return i;
  g->input[i] = (dfi_group_input){ .at = o };
  g->chain.input_bytes[i] = dfi_dtype_size[dtype];
  g->chain.input_dtype[i] = dtype;
  g->chain.ninputs++;
  return i;
}

/* Where input i of a member comes from, as a step has it; it is read by step `s`. */
static int16_t source(maker *m, dfi_group *g, const dfi_pnode *q, int32_t i, int32_t s) {
  const dfi_operand o = m->plan->operand[q->in + (uint32_t)i];
  const dfi_pnode *nodes = m->plan->node + m->plan->scope[q->scope].first;
  for (int32_t k = 0; DFI_SPACE(o) == DFI_ITERATION && k < g->n; k++)
    if (nodes[g->member[k].node].out == DFI_INDEX(o)) {
      g->member[k].reads++;
      return (int16_t)g->member[k].step;
    }
  const int32_t at = input_at(g, o, dfi_dtype(q->node->in[i]));
  g->input[at].reads++;
  g->input[at].last = s;
  return (int16_t)(-1 - at);
}

static void add_steps(maker *m, dfi_group *g, dfi_member *to, const dfi_pnode *q) {
  const df_node *n = q->node;
  const char *element = element_of(m, n);
  const dfk_loop loop = element ? (dfk_loop){ .grain = 1 } : loop_of(n, q->kernel);
  const uint8_t bytes = dfi_dtype_size[n->out[0].dtype];
  dfk_chain *c = &g->chain;
  if (!is_sum(n)) {
    dfk_step s = { .fn = loop.fn, .param = loop.param, .nin = (uint8_t)n->nin, .bytes = bytes, .element = element,
                   .in_dtype = dfi_dtype(n->in[0]), .dtype = n->out[0].dtype };
    for (int32_t i = 0; i < n->nin; i++) s.in[i] = source(m, g, q, i, c->nsteps);
    c->step[c->nsteps++] = s;
  } else {
    for (int32_t i = 1; i < n->nin; i++) {
      dfk_step s = { .fn = loop.fn, .nin = 2, .bytes = bytes, .alike = true };
      s.in[0] = i == 1 ? source(m, g, q, 0, c->nsteps) : (int16_t)(c->nsteps - 1);
      s.in[1] = source(m, g, q, i, c->nsteps);
      c->step[c->nsteps++] = s;
    }
  }
  c->grain += GRAIN / (loop.grain > 0 ? loop.grain : 1);       /* what an element costs: group_new turns it round */
  to->step = c->nsteps - 1;
}

/* Results that nobody outside wants take turns in few buffers. */
static void give_buffers(dfi_group *g) {
  dfk_chain *c = &g->chain;
  int32_t last[DFK_CHAIN_STEPS] = { 0 }, free_at[DFK_CHAIN_STEPS];      /* free_at: of a buffer, after which step */
  bool stored[DFK_CHAIN_STEPS] = { 0 };
  for (int32_t i = 0; i < g->n; i++) stored[g->member[i].step] = g->member[i].wanted;
  for (int32_t s = 0; s < c->nsteps; s++) {
    last[s] = s;
    for (int32_t i = 0; i < c->step[s].nin; i++) if (c->step[s].in[i] >= 0) last[c->step[s].in[i]] = s;
  }
  for (int32_t s = 0; s < c->nsteps; s++) {
    if (stored[s]) continue;
    int32_t b = 0;
    while (b < c->nbuffers && free_at[b] >= s) b++;
    if (b == c->nbuffers) c->nbuffers++;
    free_at[b] = last[s];
    c->step[s].buffer = (int16_t)b;
  }
}

/* The edges that stay in the group come first. */
static void sort_edges(dfi_plan *p, const dfi_pnode *nodes, dfi_pnode *q) {
  dfi_edge *e = p->edge + q->edge[0];
  const uint32_t n = q->edge[1] - q->edge[0];
  dfi_edge *outside = dfi_xmalloc(sizeof *outside * (n + 1));
  uint32_t in = 0, out = 0;
  for (uint32_t i = 0; i < n; i++)
    if (nodes[e[i].node].group == q->group) e[in++] = e[i]; else outside[out++] = e[i];
  memcpy(e + in, outside, sizeof *e * out);
  q->inside = q->edge[0] + in;
  dfi_free(outside);
}

/* The nodes, in an order in which each comes after those that it reads, become a group. */
static void group_new(maker *m, df_node *const *node, int32_t n) {
  dfi_plan *p = m->plan;
  p->group = dfi_xrealloc(p->group, sizeof *p->group * (size_t)(p->ngroups + 1));
  dfi_group *g = &p->group[p->ngroups++];
  int32_t steps = 0;
  for (int32_t i = 0; i < n; i++) steps += steps_of(node[i]);
  *g = (dfi_group){ .n = 0 };
  g->member = dfi_xcalloc((size_t)n, sizeof *g->member);
  g->input = dfi_xcalloc(DFK_CHAIN_INPUTS, sizeof *g->input);
  g->chain.step = dfi_xcalloc((size_t)steps, sizeof *g->chain.step);
  g->chain.input_bytes = dfi_xcalloc(DFK_CHAIN_INPUTS, 1);
  g->chain.input_dtype = dfi_xcalloc(DFK_CHAIN_INPUTS, 1);
  dfi_scope *s = &p->scope[m->mark[node[0]->id].scope];
  for (int32_t i = 0; i < n; i++) {
    dfi_pnode *q = &p->node[m->mark[node[i]->id].number];
    dfi_member *to = &g->member[i];
    *to = (dfi_member){ .node = (uint32_t)(q - p->node) - s->first };
    add_steps(m, g, to, q);
    g->n++;
    q->group = (uint32_t)p->ngroups;
    q->place = (uint32_t)i;
    q->kind = DFI_K_KERNEL;
    g->device = q->device;
  }
  dfi_pnode *nodes = p->node + s->first;
  for (int32_t i = 0; i < n; i++) g->member[i].wanted = s->uses[nodes[g->member[i].node].out] > g->member[i].reads;
  for (int32_t i = 0; i < n; i++) sort_edges(p, nodes, nodes + g->member[i].node);
  g->chain.grain = GRAIN / (g->chain.grain ? g->chain.grain : 1) / BLOCK * BLOCK;
  if (g->chain.grain < 2 * BLOCK) g->chain.grain = 2 * BLOCK;
  give_buffers(g);
  g->slot = s->nslots++;
  s->groups = dfi_xrealloc(s->groups, sizeof *s->groups * (s->ngroups + 1));
  s->groups[s->ngroups++] = (uint32_t)p->ngroups - 1;
}

static int32_t inputs_of(df_node *const *node, int32_t n) {      /* at most */
  int32_t inputs = 0;
  for (int32_t i = 0; i < n; i++) inputs += node[i]->nin;
  return inputs;
}

/* Those with one leader, in order; where they are too many for one group they become several, cut across the order. */
static void group_ordered(maker *m, df_node *const *node, int32_t n) {
  while (n > 0) {
    int32_t k = 0, steps = 0;
    while (k < n && k < DFI_GROUP_MEMBERS && (steps += steps_of(node[k])) <= DFK_CHAIN_STEPS &&
           inputs_of(node, k + 1) <= DFK_CHAIN_INPUTS)
      k++;
    if (k > 1) group_new(m, node, k);
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
    if (end - begin < 2) continue;
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
    if (ordered == end - begin) group_ordered(m, order, ordered);
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
  f.class = dfi_xcalloc((size_t)n + 2, sizeof *f.class);
  for (f.mask = 63; f.mask < 2 * (uint32_t)n; f.mask = 2 * f.mask + 1) { }
  f.table = dfi_xcalloc((size_t)f.mask + 1, sizeof *f.table);
  n = 0;
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *c = dfi_plan_node(m, m->needed[i]);
    if (fits(&f, c)) { f.at[c->id].class = class_of(&f, c); n++; }
  }
  if (n > 1 && find_levels(&f)) {
    join(&f);
    find_groups(&f);
  }
  dfi_free(f.known); dfi_free(f.at); dfi_free(f.scope_level); dfi_free(f.class); dfi_free(f.table);
}

void dfi_plan_groups_free(dfi_plan *p) {
  for (int32_t i = 0; i < p->ngroups; i++) {
    dfi_group *g = &p->group[i];
    dfi_free(g->member); dfi_free(g->input);
    dfi_free(g->chain.step); dfi_free(g->chain.input_bytes); dfi_free(g->chain.input_dtype);
  }
  dfi_free(p->group);
}
