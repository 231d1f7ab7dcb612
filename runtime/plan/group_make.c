/* group_make.c: a group, laid out: its members' steps, where these read, and buffers for what is read inside alone. */
#include "plan/group.h"
#include "kernels/elementwise.h"

/* elements a thread should have of one cheap op; and a multiple of these */
enum { GRAIN = 32768, BLOCK = 1024, CHEAP = 16384, DEAR = 4096 };

/* Of a list: Add itself is computed as any other kernel is. */
bool dfi_group_is_sum(const df_node *n) { return dfi_has_trait(n, DFO_ADDS) && dfi_op_info_at(n->op)->in_list; }

/* How the node computes; a sum of many: how it adds one. */
dfk_loop dfi_group_loop(const df_node *n, df_kernel_fn kernel) {
  static const double zeros[2] = { 0 };
  df_tensor view[3];
  const df_tensor *in[3] = { &view[0], &view[1], &view[2] };
  df_error error;
  const int32_t nin = dfi_group_is_sum(n) ? 2 : n->nin;
  for (int32_t i = 0; i < nin; i++)                  /* a sum may be of one, and all of it are alike */
    view[i] = (df_tensor){ .refs = 1, .dtype = dfi_dtype(n->in[nin == n->nin ? i : 0]), .rank = 1, .view = 1,
                           .size = 2, .dims = { 2 }, .data = (void *)(uintptr_t)zeros };
  df_kernel k = { .attrs = n->attrs, .nin = nin, .nout = 1, .in = in, .out_dtype = &n->out[0].dtype, .error = &error };
  if (dfi_group_is_sum(n)) kernel = cpu_add;
  return dfk_chain_loop(kernel, &k);
}

bool dfi_group_on_gpu(const maker *m, const df_node *n) {
  const dfi_device *d = m->cut ? m->devices->at[m->mark[n->id].device] : NULL;
  return d && d->remote;
}

/* What the GPU's code calls the op of a node there, and the attribute that it takes; NULL: it has no expression. */
const char *dfi_group_element(const maker *m, const df_node *n, int32_t *attr) {
  uint8_t in[3];
  const int32_t nin = dfi_group_is_sum(n) ? 2 : n->nin;
  if (!dfi_group_on_gpu(m, n) || nin > 3 || n->nin < nin || n->nin > DFK_CHAIN_STEPS / 2) return NULL;
  for (int32_t i = 0; i < nin; i++) in[i] = dfi_dtype(n->in[i]);
  return dfi_gpu_fuses(op_of(n)->type, nin, in, n->out[0].dtype, attr);
}

bool dfi_group_by_rows(const maker *m, const df_node *n, df_kernel_fn kernel, dfk_rows *rows, const char **element) {
  const uint8_t dtype = dfi_dtype(n->in[0]);
  int32_t attr;
  *element = NULL;
  *rows = (dfk_rows){ .folds = true };
  if (!dfi_group_on_gpu(m, n)) return (*rows = dfk_chain_rows(kernel, dtype)).fn;
  if (n->nin != 2 || n->out[0].dtype != dtype) return false;
  return (*element = dfi_gpu_fuses(op_of(n)->type, 1, &dtype, dtype, &attr));
}

int32_t dfi_group_steps(const df_node *n) {
  return !dfi_group_is_sum(n) ? 1 : n->nin < 2 ? DFK_CHAIN_STEPS : n->nin - 1;
}

static int32_t input_at(dfi_group *g, dfi_operand o, bool narrow, uint8_t dtype) {
  int32_t i = 0;
  while (i < g->chain.ninputs && (g->input[i].at != o || g->input[i].narrow != narrow)) i++;
  if (i < g->chain.ninputs) return i;
  g->input[i] = (dfi_group_input){ .at = o, .narrow = narrow };
  g->chain.input_bytes[i] = dfi_dtype_size[dtype];
  g->chain.input_dtype[i] = dtype;
  g->chain.ninputs++;
  return i;
}

/* Where input i of a member comes from, as a step has it; it is read by step `s`, for an element a row: narrow. */
static int16_t source(maker *m, dfi_group *g, const dfi_pnode *q, int32_t i, int32_t s, bool narrow) {
  const dfi_operand o = m->plan->operand[q->in + (uint32_t)i];
  const dfi_pnode *nodes = m->plan->node + m->plan->scope[q->scope].first;
  for (int32_t k = 0; DFI_SPACE(o) == DFI_ITERATION && k < g->n; k++)
    if (nodes[g->member[k].node].out == DFI_INDEX(o)) {
      g->member[k].reads++;
      return (int16_t)g->member[k].step;
    }
  const int32_t at = input_at(g, o, narrow, dfi_dtype(q->node->in[i]));
  g->input[at].reads++;
  g->input[at].last = s;
  return (int16_t)(-1 - at);
}

/* A fold over the axes in front. */
static int64_t add_fold(maker *m, dfi_group *g, const dfi_pnode *q, const class *k, uint8_t form) {
  const df_node *n = q->node;
  const uint8_t dtype = n->out[0].dtype;
  dfk_chain *c = &g->chain;
  dfk_step s = { .over = dfk_chain_over(q->kernel, dtype), .form = form, .nin = 1, .bytes = dfi_dtype_size[dtype],
                 .in_dtype = dtype, .dtype = dtype };
  c->over = k->over;
  c->width = k->width;
  s.in[0] = source(m, g, q, 0, c->nsteps, false);
  c->step[c->nsteps++] = s;
  return CHEAP;
}

/* One step of what has to do with rows; its grain. */
static int64_t add_row_step(maker *m, dfi_group *g, const dfi_pnode *q, uint8_t form) {
  const df_node *n = q->node;
  dfk_chain *c = &g->chain;
  const char *element;
  dfk_rows rows;
  const bool by_rows = dfi_group_by_rows(m, n, q->kernel, &rows, &element);
  dfk_step s = { .rows = rows.fn, .by_rows = by_rows, .element = element, .form = form, .nin = 1,
                 .bytes = dfi_dtype_size[n->out[0].dtype], .in_dtype = dfi_dtype(n->in[0]), .dtype = n->out[0].dtype };
  const bool reshapes = dfi_has_trait(n, DFO_RESHAPES);
  if (reshapes) s.fn = dfk_chain_copy(s.bytes);
  s.in[0] = source(m, g, q, 0, c->nsteps, reshapes);
  c->step[c->nsteps++] = s;
  return by_rows && !rows.folds ? DEAR : CHEAP;
}

static int64_t add_elementwise(maker *m, dfi_group *g, const dfi_pnode *q, uint8_t form) {
  const df_node *n = q->node;
  int32_t attr = -1;
  const char *element = dfi_group_element(m, n, &attr);
  const dfk_loop loop = element ? (dfk_loop){ .grain = 1 } : dfi_group_loop(n, q->kernel);
  const uint8_t bytes = dfi_dtype_size[n->out[0].dtype];
  const bool narrow = form != DFK_FULL;
  dfk_chain *c = &g->chain;
  if (!dfi_group_is_sum(n)) {
    dfk_step s = { .fn = loop.fn, .param = loop.param, .form = form, .nin = (uint8_t)n->nin, .bytes = bytes,
                   .element = element, .in_dtype = dfi_dtype(n->in[0]), .dtype = n->out[0].dtype };
    if (attr >= 0) { s.with_param = true; s.param = (float)n->attrs[attr].f; }      /* TensorFlow's are floats */
    for (int32_t i = 0; i < n->nin; i++) s.in[i] = source(m, g, q, i, c->nsteps, narrow);
    c->step[c->nsteps++] = s;
  } else {
    for (int32_t i = 1; i < n->nin; i++) {
      dfk_step s = { .fn = loop.fn, .form = form, .nin = 2, .bytes = bytes, .alike = true, .element = element,
                     .in_dtype = n->out[0].dtype, .dtype = n->out[0].dtype };
      s.in[0] = i == 1 ? source(m, g, q, 0, c->nsteps, narrow) : (int16_t)(c->nsteps - 1);
      s.in[1] = source(m, g, q, i, c->nsteps, narrow);
      c->step[c->nsteps++] = s;
    }
  }
  return loop.grain > 0 ? loop.grain : 1;
}

static void add_steps(finder *f, dfi_group *g, dfi_member *to, const dfi_pnode *q) {
  const place *at = &f->at[q->node->id];
  const class *k = &f->class[at->class];
  int32_t attr;
  const bool rows = dfi_group_on_gpu(f->m, q->node) ? !dfi_group_element(f->m, q->node, &attr)
                                                    : !dfi_group_is_sum(q->node) && !dfk_chain_has(q->kernel);
  dfk_chain *c = &g->chain;
  const bool ends = dfi_group_ends(at);
  const int64_t grain = ends   ? add_fold(f->m, g, q, k, at->form)
                        : rows ? add_row_step(f->m, g, q, at->form)
                               : add_elementwise(f->m, g, q, at->form);
  if (at->form == DFK_FULL || rows) c->grain += GRAIN / grain;   /* what an element costs: group_new turns it round */
  if ((at->form != DFK_FULL || rows) && !ends) {
    c->row = k->row;
    c->lead = k->lead;
  }
  to->step = c->nsteps - 1;
}

/* Results that are read inside alone take turns in few buffers. */
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

void dfi_group_sort_edges(dfi_plan *p, const dfi_pnode *nodes, dfi_pnode *q) {
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
void dfi_group_new(finder *f, df_node *const *node, int32_t n) {
  maker *m = f->m;
  dfi_plan *p = m->plan;
  p->group = dfi_xrealloc(p->group, sizeof *p->group * (size_t)(p->ngroups + 1));
  dfi_group *g = &p->group[p->ngroups++];
  int32_t steps = 0;
  for (int32_t i = 0; i < n; i++) steps += dfi_group_steps(node[i]);
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
    add_steps(f, g, to, q);
    g->n++;
    q->group = (uint32_t)p->ngroups;
    q->place = (uint32_t)i;
    q->kind = DFI_K_KERNEL;
    g->device = q->device;
  }
  dfi_pnode *nodes = p->node + s->first;
  for (int32_t i = 0; i < n; i++) g->member[i].wanted = s->uses[nodes[g->member[i].node].out] > g->member[i].reads;
  for (int32_t i = 0; i < n; i++) dfi_group_sort_edges(p, nodes, nodes + g->member[i].node);
  g->chain.grain = GRAIN / (g->chain.grain ? g->chain.grain : 1) / BLOCK * BLOCK;
  if (g->chain.grain < 2 * BLOCK) g->chain.grain = 2 * BLOCK;
  give_buffers(g);
  if (!s->batch) {                     /* else its products are computed with those of others */
    dfi_group_cell(m, g, s);
    dfi_group_convolution(m, g, s);
  }
  g->slot = s->nslots++;
  s->groups = dfi_xrealloc(s->groups, sizeof *s->groups * (s->ngroups + 1));
  s->groups[s->ngroups++] = (uint32_t)p->ngroups - 1;
}

void dfi_plan_groups_free(dfi_plan *p) {
  for (int32_t i = 0; i < p->ngroups; i++) {
    dfi_group *g = &p->group[i];
    dfi_free(g->member); dfi_free(g->input); dfi_free(g->gates);
    dfi_free(g->chain.step); dfi_free(g->chain.input_bytes); dfi_free(g->chain.input_dtype);
    for (int32_t f = 0; f < DFI_GROUP_FORMS; f++) dfi_free(atomic_load_explicit(&g->form[f], memory_order_relaxed));
  }
  dfi_free(p->group);
}
