/* node.c: the public way of adding a node, piece by piece, and of looking at what is there.
 *
 * Between df_node_begin and df_node_end the node lies open in the builder. The first thing wrong with it is kept and
 * reported by df_node_end, so the calls between need no checks by the caller.
 */
#include "graph/graph.h"
#include "graph/undo.h"
#include <stdio.h>

static const char *kind_name(char type) {
  switch (type) {
    case 'i': return "an int";
    case 'f': return "a float";
    case 'b': return "a bool";
    case 's': return "a string";
    case 'd': return "a dtype";
    case 'h': return "a shape";
    case 't': return "a tensor";
    case 'y': return "a list of dtypes";
    case 'p': return "a list of shapes";
    default:  return "a list of ints";
  }
}

static void wrong(dfi_builder *b, int32_t code, const char *message) {
  if (b->error.code) return;
  dfi_fail(&b->error, code, b->where, "%s", message);
  const dfi_op_info *o = dfi_op_info_at(b->op);
  if (!o) return;
  if (b->name) snprintf(b->error.op, sizeof b->error.op, "%.90s (%.60s)", b->name, o->op->type);
  else snprintf(b->error.op, sizeof b->error.op, "%.150s", o->op->type);
}

static void close_node(dfi_builder *b, const dfi_op_info *o) {
  for (int32_t a = 0; o && a < o->nattr; a++)
    if (o->attr[a].type == 't' && b->attr_set >> a & 1) df_tensor_release(b->attr[a].tensor);
  if (o) memset(b->attr, 0, sizeof *b->attr * (size_t)o->nattr);
  b->attr_set = 0;
  b->open = false;
}

void dfi_node_give_up(df_graph *g) {
  dfi_builder *b = g->build;
  if (!b->open) return;
  close_node(b, dfi_op_info_at(b->op));
  dfi_built(g);
}

void df_node_begin(df_graph *g, int32_t op, const char *where) {
  dfi_builder *b = g->build;
  dfi_building(g, "df_node_begin");
  dfi_node_give_up(g);
  b->open = true;
  b->op = op;
  b->nin = b->nwait = 0;
  b->name = NULL;
  b->error.code = DF_OK;
  b->where = dfi_where(g, where);
  if (!dfi_op_info_at(op)) {
    char text[80];
    snprintf(text, sizeof text, "there is no op number %d", op);
    wrong(b, DF_NOT_FOUND, text);
  }
}

static df_node *node_at(df_graph *g, int32_t id) { return id >= 0 && id < g->n ? g->node[id] : NULL; }

static df_output output_at(df_graph *g, int32_t node, int32_t index, df_error *err, const char *where) {
  df_node *n = node_at(g, node);
  if (!n && node == -1)
    dfi_fail(err, DF_INVALID_ARGUMENT, where,
             "an output of a cond, a loop or a call that failed while it was built: it went with it");
  else if (!n) dfi_fail(err, DF_INVALID_ARGUMENT, where, "there is no node %d: this graph has %d", node, g->n);
  else if (index < 0 || index >= n->nout)
    dfi_fail(err, DF_INVALID_ARGUMENT, where, "%s has no output %d: it has %d", dfi_node_name(n), index, n->nout);
  else
    return (df_output){ n, index };
  return DFI_NONE;
}

void df_node_input(df_graph *g, int32_t node, int32_t index) {
  dfi_builder *b = g->build;
  df_node *n = node_at(g, node);
  if (DFI_UNLIKELY(!n || index < 0 || index >= n->nout)) {
    df_error err;
    output_at(g, node, index, &err, b->where);
    wrong(b, err.code, err.message);
    return;
  }
  DFI_GROW(b->in, b->nin, b->in_cap);
  b->in[b->nin++] = (df_output){ n, index };
}

void df_node_control(df_graph *g, int32_t node) {
  dfi_builder *b = g->build;
  df_node *n = node_at(g, node);
  if (!n) {
    char text[80];
    snprintf(text, sizeof text, "there is no node %d to wait for: this graph has %d", node, g->n);
    wrong(b, DF_INVALID_ARGUMENT, text);
    return;
  }
  DFI_GROW(b->wait, b->nwait, b->wait_cap);
  b->wait[b->nwait++] = n;
}

void df_node_name(df_graph *g, const char *name) {
  dfi_builder *b = g->build;
  if (!name || !*name) { b->name = NULL; return; }
  size_t n = strlen(name) + 1;
  b->name = memcpy(dfi_arena_take(&b->nodes, n), name, n);
}

/* Where the attribute goes; NULL when there is none of this name, or it is of a type that `takes` does not list. */
static df_attr *attr_at(df_graph *g, const char *name, const char *takes, const char *given) {
  dfi_builder *b = g->build;
  const dfi_op_info *o = dfi_op_info_at(b->op);
  if (!o || b->error.code) return NULL;
  int32_t a = dfi_op_attr_index(o, name);
  char text[600];
  if (a < 0) {
    size_t at = (size_t)snprintf(text, sizeof text, "%s has no attribute `%.60s`", o->op->type, name);
    for (int32_t i = 0; i < o->nattr && at < sizeof text; i++)
      at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "; it has ", o->attr[i].name);
    wrong(b, DF_INVALID_ARGUMENT, text);
    return NULL;
  }
  if (!strchr(takes, o->attr[a].type)) {
    snprintf(text, sizeof text, "the attribute %s of %s is %s, not %s", name, o->op->type, kind_name(o->attr[a].type),
             given);
    wrong(b, DF_INVALID_ARGUMENT, text);
    return NULL;
  }
  if (b->attr_set >> a & 1 && o->attr[a].type == 't') df_tensor_release(b->attr[a].tensor);
  b->attr_set |= 1u << a;
  return &b->attr[a];
}

void df_node_int(df_graph *g, const char *attr, int64_t v) {
  df_attr *a = attr_at(g, attr, "ibdf", "an int");
  if (a) { a->i = v; a->f = (double)v; }
}
void df_node_float(df_graph *g, const char *attr, double v) {
  df_attr *a = attr_at(g, attr, "f", "a float");
  if (a) a->f = v;
}
void df_node_bool(df_graph *g, const char *attr, bool v) {
  df_attr *a = attr_at(g, attr, "b", "a bool");
  if (a) a->i = v;
}
void df_node_string(df_graph *g, const char *attr, const char *bytes, int64_t length) {
  df_attr *a = attr_at(g, attr, "s", "a string");
  if (!a) return;
  char *copy = dfi_arena_take(&dfi_builder_of(g)->nodes, (size_t)length + 1);
  if (length) memcpy(copy, bytes, (size_t)length);
  copy[length] = 0;
  a->s = copy;
  a->i = length;
}
void df_node_dtype(df_graph *g, const char *attr, int32_t dtype) {
  df_attr *a = attr_at(g, attr, "d", "a dtype");
  if (a) a->i = dtype;
}
static void set_ints(df_graph *g, df_attr *a, int32_t n, const int64_t *v) {
  a->i = n;
  a->ints = dfi_arena_take(&dfi_builder_of(g)->nodes, sizeof *v * (size_t)(n > 0 ? n : 0));
  if (n > 0) memcpy(a->ints, v, sizeof *v * (size_t)n);
}
void df_node_shape(df_graph *g, const char *attr, int32_t rank, const int64_t *dims) {
  df_attr *a = attr_at(g, attr, "h", "a shape");
  if (!a) return;
  if (rank > DF_MAX_RANK) {
    char text[80];
    snprintf(text, sizeof text, "the shape %.30s has rank %d, more than %d", attr, rank, DF_MAX_RANK);
    wrong(g->build, DF_INVALID_ARGUMENT, text);
    return;
  }
  if (rank < 0) a->i = -1;
  else set_ints(g, a, rank, dims);
}
/* Is this a list of shapes: ranks, each with as many dims behind it? */
static bool is_shapes(int32_t n, const int64_t *v) {
  int64_t at = 0;
  while (at < n && v[at] >= -1 && v[at] <= DF_MAX_RANK) at += 1 + (v[at] > 0 ? v[at] : 0);
  return at == n;
}

void df_node_ints(df_graph *g, const char *attr, int32_t n, const int64_t *v) {
  df_attr *a = attr_at(g, attr, "lyp", "a list of ints");
  dfi_builder *b = g->build;
  if (!a) return;
  if (dfi_op_info_at(b->op)->attr[a - b->attr].type == 'p' && !is_shapes(n, v)) {
    char text[160];
    snprintf(text, sizeof text,
             "the attribute %s must be a list of shapes: ranks from -1 to %d, each followed by its dims", attr,
             DF_MAX_RANK);
    wrong(b, DF_INVALID_ARGUMENT, text);
  } else set_ints(g, a, n, v);
}
void df_node_tensor(df_graph *g, const char *attr, df_tensor *t) {
  df_attr *a = attr_at(g, attr, "t", "a tensor");
  if (a) a->tensor = df_tensor_retain(t);
}

int32_t df_node_end(df_graph *g, df_error *err) {
  dfi_builder *b = g->build;
  const dfi_op_info *o = dfi_op_info_at(b->op);
  if (!b->open) {
    dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "df_node_end without df_node_begin");
    return -1;
  }
  for (int32_t a = 0; o && a < o->nattr && !b->error.code; a++) {
    if (b->attr_set >> a & 1) continue;
    if (o->attr[a].required) {
      char text[160];
      snprintf(text, sizeof text, "%s needs the attribute %s (%s)", o->op->type, o->attr[a].name,
               kind_name(o->attr[a].type));
      wrong(b, DF_INVALID_ARGUMENT, text);
    }
    b->attr[a] = o->attr[a].value;
  }
  int32_t id = -1;
  if (b->error.code) {
    if (err) *err = b->error;
  } else {
    /* dfi_node_make may build other nodes by the same builder's arrays only through dfi_node_add, which does not
     * touch the open node. */
    df_node *n = dfi_node_make(g, &(dfi_node_spec){
      .op = b->op, .nin = b->nin, .in = b->in, .ncontrol = b->nwait, .control = b->wait,
      .attrs = b->attr_set ? b->attr : NULL, .name = b->name, .where = b->where }, true, err);
    if (n) id = n->id;
  }
  close_node(b, o);
  dfi_built(g);
  return id;
}

int32_t df_constant(df_graph *g, const df_value *v, const char *name, const char *where, df_error *err) {
  static int32_t op = -1;
  if (__atomic_load_n(&op, __ATOMIC_RELAXED) < 0) __atomic_store_n(&op, df_op_find("Const"), __ATOMIC_RELAXED);
  if (v->kind != DF_SCALAR && v->kind != DF_TENSOR) {
    dfi_fail(err, DF_INVALID_ARGUMENT, where, "a constant needs a number or a tensor");
    return -1;
  }
  df_tensor *t = v->kind == DF_SCALAR ? dfi_tensor_from_scalar(v) : v->as.tensor;
  if (!t) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, where, "out of memory for a constant");
    return -1;
  }
  df_attr attrs[2] = { { .tensor = t }, { .i = t->dtype } };
  df_node *n = dfi_node_make(g, &(dfi_node_spec){ .op = __atomic_load_n(&op, __ATOMIC_RELAXED), .attrs = attrs,
                                                  .name = name && *name ? name : NULL, .where = where }, true, err);
  if (v->kind == DF_SCALAR) df_tensor_release(t);
  return n ? n->id : -1;
}

int32_t df_add_node(df_graph *g, int32_t op, int32_t n, const int32_t *io, const char *where, df_error *err) {
  df_output few[16], *in = n <= 16 ? few : dfi_xmalloc(sizeof *in * (size_t)n);
  int32_t id = -1, i = 0;
  for (; i < n; i++) {
    int32_t node = io[2 * i], index = io[2 * i + 1];
    if (DFI_LIKELY(node >= 0 && node < g->n && index >= 0 && index < g->node[node]->nout))
      in[i] = (df_output){ g->node[node], index };
    else if (!(in[i] = output_at(g, node, index, err, where)).node) break;
  }
  if (i == n) {
    df_node *made = dfi_node_make(g, &(dfi_node_spec){ .op = op, .nin = n, .in = in, .where = where }, true, err);
    if (made) id = made->id;
  }
  if (in != few) dfi_free(in);
  return id;
}

/* ---- looking ------------------------------------------------------------------------------- */

const char *df_node_type_of(df_graph *g, int32_t node) {
  df_node *n = node_at(g, node);
  return n ? dfi_op_info_at(n->op)->op->type : "";
}
const char *df_node_name_of(df_graph *g, int32_t node) {
  df_node *n = node_at(g, node);
  return n ? dfi_node_name(n) : "";
}
void df_node_set_callers(df_graph *g, int32_t node, int32_t callers) {
  df_node *n = node_at(g, node);
  if (n) n->callers = callers;
}

int32_t df_node_callers(df_graph *g, int32_t node) {
  df_node *n = node_at(g, node);
  return n ? n->callers : 0;
}

const char *df_node_where_of(df_graph *g, int32_t node) {
  df_node *n = node_at(g, node);
  return n ? n->where : "";
}
int32_t df_node_outputs(df_graph *g, int32_t node) {
  df_node *n = node_at(g, node);
  return n ? n->nout : 0;
}
int32_t df_node_inputs(df_graph *g, int32_t node) {
  df_node *n = node_at(g, node);
  return n ? n->nin : 0;
}
void df_node_input_of(df_graph *g, int32_t node, int32_t i, int32_t *in_node, int32_t *in_index) {
  df_node *n = node_at(g, node);
  bool there = n && i >= 0 && i < n->nin;
  *in_node = there ? n->in[i].node->id : -1;
  *in_index = there ? n->in[i].index : 0;
}
int32_t df_node_context(df_graph *g, int32_t node) {
  df_node *n = node_at(g, node);
  return n ? n->context->id : -1;
}

static dfi_out *out_at(df_graph *g, int32_t node, int32_t index) {
  df_node *n = node_at(g, node);
  return n && index >= 0 && index < n->nout ? &n->out[index] : NULL;
}
int32_t df_output_dtype(df_graph *g, int32_t node, int32_t index) {
  dfi_out *o = out_at(g, node, index);
  return o ? o->dtype : DF_INVALID;
}
int32_t df_output_rank(df_graph *g, int32_t node, int32_t index) {
  dfi_out *o = out_at(g, node, index);
  return o ? o->shape.rank : -1;
}
int64_t df_output_dim(df_graph *g, int32_t node, int32_t index, int32_t axis) {
  dfi_out *o = out_at(g, node, index);
  return o && axis >= 0 && axis < o->shape.rank ? o->shape.dims[axis] : -1;
}
df_tensor *df_output_constant(df_graph *g, int32_t node, int32_t index) {
  dfi_out *o = out_at(g, node, index);
  return o && o->constant ? df_tensor_retain(o->constant) : NULL;
}
int32_t df_output_set_shape(df_graph *g, int32_t node, int32_t index, int32_t rank, const int64_t *dims,
                            df_error *err) {
  df_output o = output_at(g, node, index, err, NULL);
  if (!o.node) return DF_INVALID_ARGUMENT;
  if (rank > DF_MAX_RANK)
    return dfi_fail(err, DF_INVALID_ARGUMENT, o.node->where, "rank %d is more than %d", rank, DF_MAX_RANK);
  dfi_shape *now = &o.node->out[index].shape, given = dfi_shape_of(rank, dims), merged;
  char a[160], b[160];
  if (!dfi_shape_merge(now, &given, &merged))
    return dfi_fail(err, DF_INVALID_ARGUMENT, o.node->where, "%s:%d has shape %s, which contradicts %s",
                    dfi_node_name(o.node), index, dfi_shape_text(now, a), dfi_shape_text(&given, b));
  pthread_mutex_lock(&g->lock);
  *now = merged;
  pthread_mutex_unlock(&g->lock);
  return DF_OK;
}
