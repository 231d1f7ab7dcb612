/* graph.c: nodes, and the checks that each passes when it is built.
 *
 * A node lies in its graph's arena in one piece with its inputs and outputs, its address never changes, and it goes
 * when the graph goes. One thread builds; sessions read nodes meanwhile, holding graph->lock, which therefore guards
 * n, node[] and what changes in a node that exists (its inputs and control edges).
 */
#include "graph/graph.h"
#include "graph/undo.h"
#include <stdio.h>

/* ---- arena --------------------------------------------------------------------------------- */

struct dfi_chunk { struct dfi_chunk *next; size_t bytes; };
enum { CHUNK_BYTES = 256 << 10, FIRST_CHUNK_BYTES = 8 << 10 };

/* In the debug build one stands behind each piece: a write past its end is found when the arena goes. */
struct dfi_fence { struct dfi_fence *before; uint64_t mark; };
#ifdef DFLOW_DEBUG
enum { FENCE = sizeof(struct dfi_fence) };
#define FENCE_MARK 0x5afe5afe5afe5afeu

static void fence_put(dfi_arena *a, char *at) {
  struct dfi_fence *f = (struct dfi_fence *)(void *)at;
  *f = (struct dfi_fence){ a->last, FENCE_MARK };
  a->last = f;
}
static void fences_check(const dfi_arena *a, const struct dfi_fence *until) {
  for (const struct dfi_fence *f = a->last; f != until; f = f->before) df_assert(f->mark == FENCE_MARK);
}
#else
enum { FENCE = 0 };
static inline void fence_put(dfi_arena *a, char *at) {}
static inline void fences_check(const dfi_arena *a, const struct dfi_fence *until) {}
#endif

void *dfi_arena_take(dfi_arena *a, size_t bytes) {
  bytes = ((bytes + 7) & ~(size_t)7) + FENCE;
  if (DFI_UNLIKELY((size_t)(a->end - a->at) < bytes)) {
    size_t chunk = a->chunks ? CHUNK_BYTES : FIRST_CHUNK_BYTES;
    if (chunk < bytes + 64) chunk = bytes + 64;
    struct dfi_chunk *c = dfi_xmalloc(chunk);
    *c = (struct dfi_chunk){ a->chunks, chunk };
    a->chunks = c;
    a->at = (char *)(c + 1);
    a->end = (char *)c + chunk;
  }
  void *p = a->at;
  a->at += bytes;
  fence_put(a, a->at - FENCE);
  return p;
}
void dfi_arena_free(dfi_arena *a) {
  fences_check(a, NULL);
  for (struct dfi_chunk *c = a->chunks, *next; c; c = next) { next = c->next; dfi_free(c); }
  *a = (dfi_arena){ 0 };
}
void dfi_arena_cut(dfi_arena *a, const dfi_arena *to) {
  fences_check(a, to->last);
  for (struct dfi_chunk *c = a->chunks, *next; c != to->chunks; c = next) { next = c->next; dfi_free(c); }
  *a = *to;
}
void *dfi_graph_alloc(df_graph *g, size_t bytes) {
  char *p = dfi_arena_take(&dfi_builder_of(g)->nodes, bytes + 15);
  p = (char *)(((uintptr_t)p + 15) & ~(uintptr_t)15);
  return memset(p, 0, bytes);
}

/* ---- life ---------------------------------------------------------------------------------- */

df_graph *df_graph_new(void) {
  static int64_t serial;
  dfi_short = false;                     /* what came before is over */
  df_graph *g = dfi_xcalloc(1, sizeof *g);
  g->refs = 1;
  g->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  pthread_mutex_init(&g->lock, NULL);
  g->build = dfi_xcalloc(1, sizeof(dfi_builder));
  dfi_names_init(g->build);
  g->top = g->current = dfi_graph_alloc(g, sizeof *g->top);
  g->top->kind = DFI_TOP;
  g->ncontexts = 1;
  g->variable_init = dfi_map_new();
  if (!dfi_check_memory(DF_OK, NULL, NULL, "a graph")) return g;
  df_graph_release(g);
  return NULL;
}

df_graph *df_graph_retain(df_graph *g) {
  __atomic_add_fetch(&g->refs, 1, __ATOMIC_RELAXED);
  return g;
}

void df_graph_release(df_graph *g) {
  if (!g || __atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
  dfi_builder *b = g->build;
  for (int32_t i = 0; i < g->n; i++) {
    df_node *n = g->node[i];
    const dfi_op_info *o = dfi_op_info_at(n->op);
    for (int32_t k = 0; k < n->nout; k++) df_tensor_release(n->out[k].constant);
    for (int32_t a = 0; a < o->nattr; a++)
      if (o->attr[a].type == 't') df_tensor_release(n->attrs[a].tensor);
  }
  if (g->unrolled_free) g->unrolled_free(g);
  dfi_flow_free(g);
  dfi_map_free(g->top->captures);
  dfi_map_free(g->top->cache);
  dfi_map_free(g->variable_init);
  for (int32_t a = 0; a < 16; a++) df_tensor_release(b->attr[a].tensor);
  dfi_free(b->scope);
  dfi_free(b->control);
  dfi_free((void *)b->device);
  dfi_free(b->in);
  dfi_free(b->wait);
  dfi_undo_free(b);
  dfi_names_free(b);
  dfi_arena_free(&b->nodes);
  dfi_free(b);
  dfi_free(g->node);
  pthread_mutex_destroy(&g->lock);
  dfi_free(g);
}

int32_t df_graph_nodes(const df_graph *g) { return g->n; }
void df_graph_set_seed(df_graph *g, int64_t seed) { g->seed = seed; }

/* ---- checks -------------------------------------------------------------------------------- */

/* The error is about this node, unless it says already which it is about. */
static void blame(df_error *err, const dfi_op_info *o, const dfi_node_spec *spec) {
  if (!err) return;
  if (!*err->source && spec->where) snprintf(err->source, sizeof err->source, "%s", spec->where);
  if (*err->op) return;
  if (spec->name) snprintf(err->op, sizeof err->op, "%.90s (%.60s)", spec->name, o->op->type);
  else snprintf(err->op, sizeof err->op, "%.150s", o->op->type);
}

static int32_t fail(df_error *err, const dfi_op_info *o, const dfi_node_spec *spec, int32_t code, const char *message) {
  dfi_fail(err, code, spec->where, "%s", message);
  blame(err, o, spec);
  return code;
}

static void set_text(uint64_t set, char *to, size_t bytes) {
  size_t at = 0;
  to[0] = 0;
  for (int32_t t = 1; t < 32 && at < bytes; t++)
    if (set >> t & 1) at += (size_t)snprintf(to + at, bytes - at, "%s%s", at ? ", " : "", df_dtype_name(t));
}

static __attribute__((noinline)) int32_t fail_arity(df_error *err, const dfi_op_info *o, const dfi_node_spec *spec) {
  char text[400];
  const int32_t single = o->nin - o->lists;
  if (o->lists > 1)
    snprintf(text, sizeof text, "%s takes lists of one length (%s) but was given %d inputs", o->op->type, o->op->in,
             spec->nin);
  else
    snprintf(text, sizeof text, "%s takes %s%d input%s (%s) but was given %d", o->op->type,
             o->in_list ? "at least " : "", single, single == 1 ? "" : "s", o->op->in ? o->op->in : "", spec->nin);
  return fail(err, o, spec, DF_INVALID_ARGUMENT, text);
}

static __attribute__((noinline)) int32_t fail_dtype(df_error *err, const dfi_op_info *o, const dfi_node_spec *spec,
                                                    int32_t i, const dfi_arg *a, uint8_t found, uint64_t allowed) {
  char text[600], set[320];
  set_text(allowed, set, sizeof set);
  snprintf(text, sizeof text, "%s: input %d (%s) is %s but must be %s%s", o->op->type, i, a->name,
           found == DF_RESOURCE ? "a handle" : df_dtype_name(found), allowed & (allowed - 1) ? "one of " : "",
           allowed == (uint64_t)1 << DF_RESOURCE ? "a handle" : set);
  return fail(err, o, spec, DF_INVALID_ARGUMENT, text);
}

static __attribute__((noinline)) int32_t fail_mixed(df_error *err, const dfi_op_info *o, const dfi_node_spec *spec,
                                                    int32_t first, const dfi_arg *fa, uint8_t bound,
                                                    int32_t i, const dfi_arg *a, uint8_t found) {
  char text[400];
  snprintf(text, sizeof text,
           "%s: input %d (%s) is %s but input %d (%s) is %s; both must have the same dtype, so cast one of them",
           o->op->type, first, fa->name, df_dtype_name(bound), i, a->name, df_dtype_name(found));
  return fail(err, o, spec, DF_INVALID_ARGUMENT, text);
}

typedef struct bound { uint8_t dtype; int8_t input; const dfi_arg *arg; } bound;

static int32_t check_inputs(const dfi_op_info *o, const dfi_node_spec *spec, const df_output *in, bound *var,
                            df_error *err) {
  for (int32_t i = 0; i < spec->nin; i++) {
    const dfi_arg *a = dfi_input_arg(o, spec->nin, i);
    uint8_t found = dfi_dtype(in[i]);
    if (a->var < 0) {
      if (!(a->allowed >> found & 1)) return fail_dtype(err, o, spec, i, a, found, a->allowed);
      continue;
    }
    bound *v = &var[a->var];
    if (!v->dtype) {
      uint64_t allowed = o->var[a->var].allowed;
      if (!(allowed >> found & 1)) return fail_dtype(err, o, spec, i, a, found, allowed);
      *v = (bound){ found, (int8_t)i, a };
    } else if (v->dtype != found) {
      return fail_mixed(err, o, spec, v->input, v->arg, v->dtype, i, a, found);
    }
  }
  return DF_OK;
}

static __attribute__((noinline)) int32_t fail_bounds(const dfi_op_info *o, const dfi_node_spec *spec,
                                                     const dfi_attr_def *d, int64_t found, df_error *err) {
  char text[300], high[40] = "or more";
  if (d->high != INT64_MAX) snprintf(high, sizeof high, "to %lld", (long long)d->high);
  snprintf(text, sizeof text, "%s: %s %s %lld: expected %lld %s", o->op->type, d->name, d->type == 'i' ? "is" : "has",
           (long long)found, (long long)d->low, high);
  return fail(err, o, spec, DF_INVALID_ARGUMENT, text);
}

/* Is the text one of the words between `|`? */
static bool is_choice(const char *words, const char *text, int64_t n) {
  for (const char *at = words; *at; at += strspn(at, "|")) {
    const size_t length = strcspn(at, "|");
    if ((int64_t)length == n && !memcmp(at, text, length)) return true;
    at += length;
  }
  return false;
}

static __attribute__((noinline)) int32_t fail_choice(const dfi_op_info *o, const dfi_node_spec *spec,
                                                     const dfi_attr_def *d, const char *found, df_error *err) {
  char text[300];
  snprintf(text, sizeof text, "%s: %s is '%.60s': expected one of %s%s", o->op->type, d->name, found,
           d->choices[0] == '|' ? "''" : "", d->choices);
  return fail(err, o, spec, DF_INVALID_ARGUMENT, text);
}

/* Are the numbers between the bounds that the entry gives, and the strings among its words? */
static int32_t check_bounds(const dfi_op_info *o, const dfi_node_spec *spec, df_error *err) {
  for (int32_t a = 0; a < o->nattr; a++) {
    const dfi_attr_def *d = &o->attr[a];
    const df_attr *v = &spec->attrs[a];
    if (!d->bounded) continue;
    if (d->type == 's') {
      const char *s = v->s ? v->s : "";
      if (is_choice(d->choices, s, v->i ? v->i : (int64_t)strlen(s))) continue;
      return fail_choice(o, spec, d, s, err);
    }
    const int64_t n = d->type == 'i' ? 1 : v->i, *list = d->type == 'i' ? &v->i : v->ints;
    for (int64_t i = 0; i < n; i++)
      if (list[i] < d->low || list[i] > d->high) return fail_bounds(o, spec, d, list[i], err);
  }
  return DF_OK;
}

static int32_t check_attrs(const dfi_op_info *o, const dfi_node_spec *spec, bound *var, df_error *err) {
  char text[400];
  if (spec->attrs && o->bounds_attr && check_bounds(o, spec, err)) return DF_INVALID_ARGUMENT;
  if (!spec->attrs && o->needs_attr)
    for (int32_t a = 0; a < o->nattr; a++)
      if (o->attr[a].required) {
        snprintf(text, sizeof text, "%s needs the attribute %s", o->op->type, o->attr[a].name);
        return fail(err, o, spec, DF_INVALID_ARGUMENT, text);
      }
  const df_attr *attrs = spec->attrs ? spec->attrs : o->defaults;
  for (int32_t i = 0; i < o->nvar; i++) {
    if (var[i].dtype || o->var[i].attr < 0) continue;
    int64_t dtype = attrs[o->var[i].attr].i;
    if (dtype <= 0 || dtype >= 32 || !(o->var[i].allowed >> dtype & 1)) {
      char set[320];
      set_text(o->var[i].allowed, set, sizeof set);
      snprintf(text, sizeof text, "%s: the attribute %s is %s but must be one of %s", o->op->type, o->var[i].name,
               df_dtype_name((int32_t)dtype), set);
      return fail(err, o, spec, DF_INVALID_ARGUMENT, text);
    }
    var[i].dtype = (uint8_t)dtype;
  }
  return DF_OK;
}

/* The dtypes that a `types` attribute lists for a list of inputs are those that were given. */
static int32_t check_listed(const dfi_op_info *o, const dfi_node_spec *spec, const df_output *in, df_error *err) {
  const df_attr *attrs = spec->attrs ? spec->attrs : o->defaults;
  for (int32_t i = 0, list = 0; i < spec->nin; i++) {
    const dfi_arg *a = dfi_input_arg(o, spec->nin, i);
    if (a->types_attr < 0 || !attrs[a->types_attr].i) continue;
    const df_attr *listed = &attrs[a->types_attr];
    int64_t length = spec->nin - (o->nin - 1);
    uint8_t found = dfi_dtype(in[i]);
    char text[400];
    if (listed->i != length)
      snprintf(text, sizeof text, "%s: %s lists %lld dtypes but %lld values were given", o->op->type,
               o->attr[a->types_attr].name, (long long)listed->i, (long long)length);
    else if (listed->ints[list] != found)
      snprintf(text, sizeof text, "%s: input %d (%s) is %s but %s says %s", o->op->type, i, a->name,
               df_dtype_name(found), o->attr[a->types_attr].name, df_dtype_name((int32_t)listed->ints[list]));
    else { list++; continue; }
    return fail(err, o, spec, DF_INVALID_ARGUMENT, text);
  }
  return DF_OK;
}

/* A `types` attribute that was left out becomes what was given. */
static void fill_listed(dfi_builder *b, df_node *n, const dfi_op_info *o) {
  for (int32_t a = 0, first = 0; a < o->nin; first += o->in[a].list ? n->nin - (o->nin - 1) : 1, a++) {
    int32_t at = o->in[a].types_attr, length = n->nin - (o->nin - 1);
    if (at < 0 || n->attrs[at].i || !length) continue;
    if (n->attrs == o->defaults) {
      n->attrs = dfi_arena_take(&b->nodes, sizeof *n->attrs * (size_t)o->nattr);
      memcpy(n->attrs, o->defaults, sizeof *n->attrs * (size_t)o->nattr);
    }
    n->attrs[at].i = length;
    n->attrs[at].ints = dfi_arena_take(&b->nodes, sizeof(int64_t) * (size_t)length);
    for (int32_t i = 0; i < length; i++) n->attrs[at].ints[i] = dfi_dtype(n->in[first + i]);
  }
}

/* How many outputs the list of the entry has; -1: err is filled. */
static int64_t count_list(const dfi_op_info *o, const dfi_arg *a, const dfi_node_spec *spec, const df_attr *attrs,
                          df_error *err) {
  const int64_t length = dfi_output_count(o, a, spec->nin, attrs);
  if (length < 0 || length > 1 << 20) {
    char text[400];
    int32_t attr = a->count_attr >= 0 ? a->count_attr : -2 - a->count_attr;
    snprintf(text, sizeof text, "%s: %s cannot be %lld", o->op->type, o->attr[attr].name, (long long)attrs[attr].i);
    fail(err, o, spec, DF_INVALID_ARGUMENT, text);
    return -1;
  }
  for (int64_t i = 0; a->types_attr >= 0 && i < length; i++) {
    int64_t dtype = attrs[a->types_attr].ints[i];
    if (dtype > 0 && dtype < 32 && a->allowed >> dtype & 1) continue;
    char text[200];
    snprintf(text, sizeof text, "%s: entry %lld of %s is %s, which is no dtype of a value", o->op->type, (long long)i,
             o->attr[a->types_attr].name, df_dtype_name((int32_t)dtype));
    fail(err, o, spec, DF_INVALID_ARGUMENT, text);
    return -1;
  }
  return length;
}

/* How many outputs the node has; -1: err is filled. */
static int32_t count_outputs(const dfi_op_info *o, const dfi_node_spec *spec, df_error *err) {
  if (!o->out_list) return o->nout;
  const df_attr *attrs = spec->attrs ? spec->attrs : o->defaults;
  int64_t n = 0;
  for (int32_t a = 0; a < o->nout; a++) {
    const int64_t length = count_list(o, &o->out[a], spec, attrs, err);
    if (length < 0) return -1;
    n += length;
  }
  return (int32_t)n;
}

static void output_dtypes(df_node *n, const dfi_op_info *o, const bound *var, const df_attr *attrs) {
  for (int32_t a = 0, k = 0; a < o->nout; a++)
    for (int64_t i = 0, times = dfi_output_count(o, &o->out[a], n->nin, attrs); i < times; i++, k++) {
      const dfi_arg *arg = &o->out[a];
      dfi_out *out = &n->out[k];
      out->dtype = arg->types_attr >= 0 ? (uint8_t)attrs[arg->types_attr].ints[i]
                   : arg->var >= 0      ? var[arg->var].dtype
                   : arg->dtype         ? arg->dtype
                   : n->nin             ? dfi_dtype(n->in[0])   /* which of a list, the op says */
                                        : DF_INVALID;
      out->of = DF_INVALID;
      out->ref = arg->ref;
      out->shape.rank = -1;
      out->constant = NULL;
    }
}

int32_t dfi_node_check(df_node *n, df_error *err) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  const bool own = n->attrs != o->defaults;
  const dfi_node_spec spec = { .op = n->op, .nin = n->nin, .in = n->in, .attrs = own ? n->attrs : NULL,
                               .where = n->where };
  bound var[8];
  for (int32_t i = 0; i < o->nvar; i++) var[i].dtype = DF_INVALID;
  if (!dfi_arity_fits(o, n->nin)) return fail_arity(err, o, &spec);
  int32_t code = check_inputs(o, &spec, n->in, var, err);
  if (!code && (o->needs_attr || o->nvar)) code = check_attrs(o, &spec, var, err);
  if (!code && o->in_types) code = check_listed(o, &spec, n->in, err);
  if (code) return code;
  const int32_t nout = count_outputs(o, &spec, err);
  if (nout < 0) return err ? err->code : DF_INVALID_ARGUMENT;
  df_node as = *n;
  as.nout = nout;
  as.out = dfi_xcalloc((size_t)nout + 1, sizeof *as.out);
  output_dtypes(&as, o, var, n->attrs);
  bool fits = nout == n->nout;
  for (int32_t k = 0; k < nout && fits; k++) {
    const dfi_arg *a = dfi_output_arg(&as, k);
    const bool said = a->types_attr >= 0 || a->var >= 0 || a->dtype;
    fits = n->out[k].ref == as.out[k].ref && n->out[k].dtype != DF_INVALID &&
           (said ? n->out[k].dtype == as.out[k].dtype : !a->allowed || a->allowed >> n->out[k].dtype & 1);
  }
  dfi_free(as.out);
  return fits ? DF_OK : fail(err, o, &spec, DF_INVALID_ARGUMENT, "its outputs are not what its op gives");
}

/* ---- adding -------------------------------------------------------------------------------- */

static void copy_attrs(dfi_builder *b, df_node *n, const dfi_op_info *o, const df_attr *from, bool kept) {
  df_attr *attrs = dfi_arena_take(&b->nodes, sizeof *attrs * (size_t)o->nattr);
  n->attrs = attrs;
  for (int32_t a = 0; a < o->nattr; a++) {
    attrs[a] = from[a];
    char type = o->attr[a].type;
    if (type == 't') {
      if (from[a].tensor) df_tensor_retain(from[a].tensor);
    } else if (type == 's' && !kept && from[a].s != o->defaults[a].s) {
      const char *s = from[a].s ? from[a].s : "";
      int64_t length = from[a].s && !from[a].i ? (int64_t)strlen(s) : from[a].i;
      char *copy = dfi_arena_take(&b->nodes, (size_t)length + 1);
      memcpy(copy, s, (size_t)length);
      copy[length] = 0;
      attrs[a].s = copy;
      attrs[a].i = length;
    } else if ((type == 'h' || type == 'l' || type == 'y' || type == 'p') && !kept && from[a].i > 0 &&
               from[a].ints != o->defaults[a].ints) {
      attrs[a].ints = dfi_arena_take(&b->nodes, sizeof(int64_t) * (size_t)from[a].i);
      memcpy(attrs[a].ints, from[a].ints, sizeof(int64_t) * (size_t)from[a].i);
    }
  }
}

static void drop(df_node *n, const dfi_op_info *o) {          /* a node that is not published after all */
  for (int32_t k = 0; k < n->nout; k++) df_tensor_release(n->out[k].constant);
  if (n->attrs != o->defaults)
    for (int32_t a = 0; a < o->nattr; a++)
      if (o->attr[a].type == 't') df_tensor_release(n->attrs[a].tensor);
}

void dfi_node_drop(df_node *n) { drop(n, dfi_op_info_at(n->op)); }

/* There is room for one more node. */
static bool make_room(df_graph *g) {
  if (DFI_LIKELY(g->n < g->cap)) return true;
  const int32_t cap = g->cap ? 2 * g->cap : 64;
  if (!dfi_memory_for(sizeof *g->node * (size_t)cap)) { dfi_short = true; return false; }
  pthread_mutex_lock(&g->lock);
  g->node = dfi_xrealloc(g->node, sizeof *g->node * (size_t)cap);
  g->cap = cap;
  pthread_mutex_unlock(&g->lock);
  return true;
}

static void publish(df_graph *g, df_node *n) {
  pthread_mutex_lock(&g->lock);
  n->id = g->n;
  g->node[g->n++] = n;
  pthread_mutex_unlock(&g->lock);
}

static void forget_shapes(df_node *n) {
  for (int32_t k = 0; k < n->nout; k++) {
    n->out[k].shape.rank = -1;
    df_tensor_release(n->out[k].constant);
    n->out[k].constant = NULL;
  }
}

/* Does inference object to the attributes alone: also where nothing is known of the inputs' shapes and values? */
static bool attrs_are_wrong(const df_node *n, const dfi_op_info *o, df_error *err) {
  const dfi_op_info *unknown = dfi_op_find("Placeholder");
  const size_t inputs = (size_t)n->nin + 1, outputs = (size_t)n->nout + 1;
  df_node *from = dfi_xcalloc(inputs, sizeof *from);
  dfi_out *of = dfi_xcalloc(inputs, sizeof *of), *out = dfi_xcalloc(outputs, sizeof *out);
  df_output *in = dfi_xcalloc(inputs, sizeof *in);
  bool plain = true;
  for (int32_t i = 0; i < n->nin; i++) {
    of[i] = n->in[i].node->out[n->in[i].index];
    of[i].shape = dfi_shape_unknown();
    of[i].constant = NULL;
    from[i] = (df_node){ .op = unknown->id, .nout = 1, .out = &of[i], .attrs = unknown->defaults,
                         .context = n->context, .where = n->where, .scope = n->scope, .device = "", .graph = n->graph };
    in[i] = (df_output){ &from[i], 0 };
    plain &= of[i].dtype != DF_RESOURCE && !of[i].ref;         /* what a handle names is seen from its node */
  }
  for (int32_t k = 0; k < n->nout; k++) {
    out[k] = n->out[k];
    out[k].constant = NULL;
    out[k].shape = dfi_shape_unknown();
  }
  df_node alone = *n;
  alone.in = in;
  alone.out = out;
  dfi_infer c = { n->graph, &alone, err };
  const bool wrong = plain && ((o->op->shape && o->op->shape(&c)) || (o->op->check && o->op->check(&c)));
  for (int32_t k = 0; k < n->nout; k++) df_tensor_release(out[k].constant);
  dfi_free(from); dfi_free(of); dfi_free(out); dfi_free(in);
  return wrong;
}

static int32_t infer(df_node *n, const dfi_op_info *o, const dfi_node_spec *spec, df_error *err) {
  df_error local;                                     /* written, not read: clearing it would cost more than the node */
  dfi_infer c = { n->graph, n, err ? err : &local };
  int32_t code = DF_OK;
  if (o->op->shape) code = o->op->shape(&c);
  if (!code && o->op->check) code = o->op->check(&c);
  for (int32_t k = 0; !code && k < n->nout; k++)
    if (!n->out[k].dtype) {
      char text[200];
      snprintf(text, sizeof text, "%s: the dtype of output %d is not known", o->op->type, k);
      return fail(err, o, spec, DF_INVALID_ARGUMENT, text);
    }
  if (code && spec->lenient && o->op->flow != DF_CONSTANT && o->op->flow != DF_ENTER) {
    for (int32_t k = 0; k < n->nout; k++) if (!n->out[k].dtype) goto strict;
    n->contradiction = dfi_intern(n->graph, c.error->message);
    if (attrs_are_wrong(n, o, c.error)) goto strict;
    forget_shapes(n);
    if (err) err->code = DF_OK;
    return DF_OK;
  }
strict:
  if (code) blame(err, o, spec);
  return code;
}

bool dfi_node_infer_again(df_node *n) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  enum { FEW = 8 };
  dfi_out few[FEW], *was = n->nout <= FEW ? few : dfi_xmalloc(sizeof *was * (size_t)n->nout);
  memcpy(was, n->out, sizeof *was * (size_t)n->nout);
  df_error local;
  dfi_infer c = { n->graph, n, &local };
  for (int32_t k = 0; k < n->nout; k++) {
    n->out[k].constant = NULL;
    n->out[k].shape.rank = -1;
  }
  n->contradiction = NULL;
  if ((o->op->shape && o->op->shape(&c)) || (o->op->check && o->op->check(&c))) {
    n->contradiction = dfi_intern(n->graph, local.message);
    forget_shapes(n);
  }
  bool changed = false;
  for (int32_t k = 0; k < n->nout; k++) {
    n->out[k].dtype = was[k].dtype;
    changed |= !dfi_shape_equal(&n->out[k].shape, &was[k].shape) || n->out[k].of != was[k].of;
  }
  if (o->fold && !n->contradiction) dfi_fold_node(n, o);
  for (int32_t k = 0; k < n->nout; k++) {
    changed |= !n->out[k].constant != !was[k].constant;
    df_tensor_release(was[k].constant);
  }
  if (was != few) dfi_free(was);
  return changed;
}

/* Where a reference is wanted as a value: a primitive passes values on, so where a reference enters a loop or a branch
 * as one its value is read first; and in a body or branch a read is a node of its own, which keeps its place among the
 * effects and whose value gradients can save. */
static bool read_references(df_graph *g, const dfi_op_info *o, const dfi_node_spec *spec, df_output *in,
                            df_error *err) {
  for (int32_t i = 0; i < spec->nin; i++) {
    if (!in[i].node->out[in[i].index].ref || dfi_op_takes_reference(o, spec->nin, i)) continue;
    in[i] = (df_output){ dfi_node_add(g,
                                      &(dfi_node_spec){ .op = dfi_op_find("Identity")->id,
                                                        .nin = 1,
                                                        .in = &(df_output){ in[i].node, in[i].index },
                                                        .where = spec->where,
                                                        .raw = spec->raw,
                                                        .context = in[i].node->context },
                                      err),
                         0 };
    if (!in[i].node) return false;
  }
  return true;
}

static bool passes_tokens(df_flow f) { return f == DF_SWITCH || (f >= DF_MERGE && f <= DF_LOOP_COND); }

/* Is a node of this spec none that may be added here? Then err says why. A Merge at the top level is a race: lost.h. */
static bool refused(const df_graph *g, const dfi_op_info *o, const dfi_node_spec *spec, df_error *err) {
  if (DFI_UNLIKELY(o->op->flow >= DF_MERGE && o->op->flow <= DF_LOOP_COND && !spec->raw) &&
      !(o->op->flow == DF_MERGE && g->current->kind == DFI_TOP))
    return fail(err, o, spec, DF_INVALID_ARGUMENT, "nodes of this type are made by cond and while_loop only");
  if (!dfi_arity_fits(o, spec->nin)) return fail_arity(err, o, spec);
  if (spec->name && dfi_name_bad(spec->name))
    return fail(err, o, spec, DF_INVALID_ARGUMENT, "a name must not be empty and must not contain spaces, `:` or `^`");
  if (DFI_UNLIKELY(g->finalized))
    return fail(err, o, spec, DF_FAILED_PRECONDITION,
                "the graph is finalized and takes nothing more: build all of it before finalize, then run it");
  return false;
}

/* The inputs of spec as a node in `context` can use them: captured, and read where a value is wanted of a reference.
 * *usable is spec's own, or `few`, which has room for 16, or more. *reads: the node itself reads a reference. False:
 * err is filled. */
static bool usable_inputs(df_graph *g, const dfi_op_info *o, const dfi_node_spec *spec, df_context *context,
                          df_output *few, df_output **usable, bool *reads, df_error *err) {
  dfi_builder *b = g->build;
  df_output *in = (df_output *)spec->in;
  const size_t bytes = sizeof *in * (size_t)spec->nin;
  for (int32_t i = 0; i < spec->nin && !spec->raw; i++) {        /* a capture adds nodes of its own */
    if (DFI_LIKELY(spec->in[i].node->context == context)) continue;
    if (in == spec->in) in = memcpy(spec->nin <= 16 ? few : dfi_arena_take(&b->nodes, bytes), spec->in, bytes);
    in[i] = dfi_resolve(g, spec->in[i], context, err);
    if (!in[i].node) { blame(err, o, spec); return false; }
  }
  bool wanted = false;                                  /* some input is a reference that is wanted as a value */
  for (int32_t i = 0; i < spec->nin && !spec->raw && context->kind != DFI_TOP; i++)
    wanted |= in[i].node->out[in[i].index].ref && !dfi_op_takes_reference(o, spec->nin, i);
  *reads = wanted && o->traits & DFO_READS_REFERENCE;
  const bool others = (passes_tokens(o->op->flow) && !o->in[0].ref) || (wanted && !*reads);
  if (DFI_UNLIKELY(others) && in == spec->in) in = memcpy(dfi_arena_take(&b->nodes, bytes + 1), in, bytes);
  *usable = in;
  return DFI_LIKELY(!others) || read_references(g, o, spec, in, err);
}

/* The node, with its inputs and what is known of its outputs by dtype alone; it is in no list and has no name. */
static df_node *filled_node(df_graph *g, const dfi_op_info *o, const dfi_node_spec *spec, df_context *context,
                            const df_output *in, int32_t nout, const bound *var, bool kept) {
  dfi_builder *b = g->build;
  df_node *n = dfi_arena_take(&b->nodes, sizeof(df_node) + sizeof(dfi_out) * (size_t)nout +
                                             sizeof(df_output) * (size_t)spec->nin);
  *n =
      (df_node){ .op = spec->op, .nin = spec->nin, .nout = nout, .context = context, .graph = g, .attrs = o->defaults };
  n->out = (dfi_out *)(n + 1);
  n->in = (df_output *)(n->out + nout);
  for (int32_t i = 0; i < spec->nin; i++) n->in[i] = in[i];
  output_dtypes(n, o, var, spec->attrs ? spec->attrs : o->defaults);
  if (spec->attrs) copy_attrs(b, n, o, spec->attrs, kept);
  if (o->in_types) fill_listed(b, n, o);
  n->where = dfi_where(g, spec->where);
  n->device = b->device[b->ndevice - 1];
  n->pass = g->gradient ? g->ngradients : 0;
  n->gradient_of = g->gradient_of;
  return n;
}

/* Gives n the control edges that it is asked for and those that its context wants. */
static int32_t order_node(df_graph *g, df_node *n, const dfi_node_spec *spec, df_error *err) {
  dfi_waits w = { .node = w.few, .cap = 16 };
  dfi_builder *b = g->build;
  const int32_t code = dfi_order(g, n, spec, &w, err);
  if (!code && w.n) {
    n->control = dfi_arena_take(&b->nodes, sizeof *n->control * (size_t)w.n);
    memcpy(n->control, w.node, sizeof *n->control * (size_t)w.n);
    n->ncontrol = w.n;
  }
  if (w.node != w.few) dfi_free(w.node);
  return code;
}

static bool name_node(df_graph *g, df_node *n, const dfi_op_info *o, const dfi_node_spec *spec, df_error *err) {
  if (!spec->exact) { dfi_names_add(g, n, spec->name); return true; }
  if (dfi_names_claim(g, n, spec->name)) return true;
  char text[400];
  snprintf(text, sizeof text, "the graph has a node or scope named `%.200s` already", spec->name);
  fail(err, o, spec, DF_INVALID_ARGUMENT, text);
  return false;
}

static df_node *make_node(df_graph *g, const dfi_node_spec *spec, bool kept, df_error *err) {
  dfi_builder *b = g->build;
  const dfi_op_info *o = dfi_op_info_at(spec->op);
  if (!o) {
    dfi_fail(err, DF_NOT_FOUND, spec->where, "there is no op number %d", spec->op);
    return NULL;
  }
  if (refused(g, o, spec, err)) return NULL;
  df_context *context = spec->raw && spec->context ? spec->context : g->current;
  df_output few[16], *in;
  bool reads;
  if (!usable_inputs(g, o, spec, context, few, &in, &reads, err)) return NULL;

  bound var[8];
  for (int32_t i = 0; i < o->nvar; i++) var[i].dtype = DF_INVALID;
  const bool look = o->needs_attr || o->nvar || o->bounds_attr;
  if (check_inputs(o, spec, in, var, err) || (look && check_attrs(o, spec, var, err)))
    return NULL;
  if (o->in_types && check_listed(o, spec, in, err)) return NULL;
  const int32_t nout = count_outputs(o, spec, err);
  if (nout < 0) return NULL;

  dfi_arena mark = b->nodes;
  df_node *n = filled_node(g, o, spec, context, in, nout, var, kept);
  if (infer(n, o, spec, err)) {
    drop(n, o);
    if (b->nodes.chunks == mark.chunks) b->nodes = mark;   /* nothing else was taken meanwhile */
    return NULL;
  }
  if (o->fold && !n->contradiction) dfi_fold_node(n, o);
  if ((spec->ncontrol || b->ncontrol || context->kind != DFI_TOP) && order_node(g, n, spec, err)) {
    blame(err, o, spec);
    drop(n, o);
    return NULL;
  }
  if (!name_node(g, n, o, spec, err)) { drop(n, o); return NULL; }
  if (DFI_UNLIKELY(!make_room(g)) || DFI_UNLIKELY(dfi_short)) {
    dfi_names_take_back(g, n);
    drop(n, o);
    dfi_arena_cut(&b->nodes, &mark);
    dfi_short_fail(err, spec->where, "a node");
    blame(err, o, spec);
    return NULL;
  }
  publish(g, n);
  if (!spec->raw && (o->op->stateful || reads)) dfi_effect_after(g, n, reads);
  return n;
}

#ifdef DFLOW_DEBUG
void dfi_building(df_graph *g, const char *what) {
  static __thread char self;
  const void *none = NULL;
  if (__atomic_load_n(&g->builder, __ATOMIC_RELAXED) != &self &&
      !__atomic_compare_exchange_n(&g->builder, &none, &self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    fprintf(stderr, "dflow: %s: another thread is building this graph; a graph is built by one thread at a time\n",
            what);
    abort();
  }
  g->building++;
}

void dfi_built(df_graph *g) {
  if (!--g->building) __atomic_store_n(&g->builder, NULL, __ATOMIC_RELEASE);
}
#endif

df_node *dfi_node_make(df_graph *g, const dfi_node_spec *spec, bool kept, df_error *err) {
  dfi_building(g, dfi_op_info_at(spec->op) ? dfi_op_info_at(spec->op)->op->type : "a node");
  df_node *n = make_node(g, spec, kept, err);
  dfi_built(g);
  return n;
}

df_node *dfi_node_add(df_graph *g, const dfi_node_spec *spec, df_error *err) {
  return dfi_node_make(g, spec, false, err);
}

void dfi_graph_cut(df_graph *g, int32_t n) {
  pthread_mutex_lock(&g->lock);
  int32_t last = g->n;
  g->n = n;
  pthread_mutex_unlock(&g->lock);
  for (int32_t i = n; i < last; i++) {
    dfi_names_drop(g, g->node[i]);
    drop(g->node[i], dfi_op_info_at(g->node[i]->op));
  }
}

void dfi_node_add_input(df_node *n, df_output in) {
  df_graph *g = n->graph;
  dfi_undo_edges(n);
  df_output *more = dfi_arena_take(&dfi_builder_of(g)->nodes, sizeof *more * (size_t)(n->nin + 1));
  memcpy(more, n->in, sizeof *more * (size_t)n->nin);
  more[n->nin] = in;
  pthread_mutex_lock(&g->lock);
  n->in = more;
  n->nin++;
  pthread_mutex_unlock(&g->lock);
}

void dfi_node_add_control(df_node *n, df_node *control) {
  df_graph *g = n->graph;
  for (int32_t i = 0; i < n->ncontrol; i++)
    if (n->control[i] == control) return;
  dfi_undo_edges(n);
  df_node **more = dfi_arena_take(&dfi_builder_of(g)->nodes, sizeof *more * (size_t)(n->ncontrol + 1));
  if (n->ncontrol) memcpy(more, n->control, sizeof *more * (size_t)n->ncontrol);
  more[n->ncontrol] = control;
  pthread_mutex_lock(&g->lock);
  n->control = more;
  n->ncontrol++;
  pthread_mutex_unlock(&g->lock);
}

void df_graph_on_custom_gradient(df_graph *g, df_custom_gradient_fn fn, void *user) {
  g->custom = fn;
  g->custom_user = user;
}
