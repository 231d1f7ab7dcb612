/* build.c: nodes from C, for the gradient pass and the functions of ops/.
 *
 * Errors are sticky: after the first every call gives nothing, so a function builds a whole formula and asks once.
 */
#include "graph/build.h"
#include "op/op.h"
#include <stdio.h>

void dfi_build_init(dfi_build *b, df_graph *g, const char *where, df_error *err) {
  b->graph = g;
  b->where = where;
  b->err = err;
  b->failed = false;
  b->set = 0;
  b->nkeys = 0;
}

static df_attr *pending(dfi_build *b, const char *name) {
  df_assert(b->nkeys < 16 && strlen(name) < sizeof b->keys[0]);
  if (b->nkeys >= 16) return &b->pending[15];
  snprintf(b->keys[b->nkeys], sizeof b->keys[0], "%s", name);
  df_attr *a = &b->pending[b->nkeys++];
  *a = (df_attr){ 0 };
  return a;
}

void dfi_attr_int(dfi_build *b, const char *name, int64_t v) {
  df_attr *a = pending(b, name);
  a->i = v;
  a->f = (double)v;
}
void dfi_attr_float(dfi_build *b, const char *name, double v) { pending(b, name)->f = v; }
void dfi_attr_string(dfi_build *b, const char *name, const char *s) {
  df_attr *a = pending(b, name);
  a->s = s;
  a->i = (int64_t)strlen(s);
}
void dfi_attr_shape(dfi_build *b, const char *name, const dfi_shape *s) {
  df_attr *a = pending(b, name);
  a->i = s->rank;
  a->ints = dfi_graph_alloc(b->graph, sizeof *a->ints * DF_MAX_RANK);
  memcpy(a->ints, s->dims, sizeof *a->ints * DF_MAX_RANK);
}
/* Lists and tensors are borrowed until the op is made. */
void dfi_attr_ints(dfi_build *b, const char *name, int32_t n, const int64_t *v) {
  df_attr *a = pending(b, name);
  a->i = n;
  a->ints = (int64_t *)v;
}
void dfi_attr_tensor(dfi_build *b, const char *name, df_tensor *t) { pending(b, name)->tensor = t; }

static df_node *make(dfi_build *b, const dfi_op_info *o, int32_t n, const df_output *in) {
  df_attr attrs[16];
  for (int32_t a = 0; a < o->nattr; a++) attrs[a] = o->defaults[a];
  for (int32_t k = 0; k < b->nkeys; k++) {
    int32_t a = dfi_op_attr_index(o, b->keys[k]);
    if (a < 0) {
      dfi_fail(b->err, DF_INTERNAL, b->where, "%s has no attribute %s", o->op->type, b->keys[k]);
      return NULL;
    }
    attrs[a] = b->pending[k];
  }
  return dfi_node_add(b->graph, &(dfi_node_spec){ .op = o->id, .nin = n, .in = in, .attrs = b->nkeys ? attrs : NULL,
                                                  .where = b->where }, b->err);
}

df_node *dfi_opnode(dfi_build *b, const char *type, int32_t n, const df_output *in) {
  df_node *node = NULL;
  if (!b->failed) {
    const dfi_op_info *o = dfi_op_find(type);
    int32_t missing = -1;
    for (int32_t i = 0; i < n && missing < 0; i++)
      if (!in[i].node) missing = i;
    if (!o) dfi_fail(b->err, DF_INTERNAL, b->where, "there is no op %s", type);
    else if (missing >= 0) dfi_fail(b->err, DF_INTERNAL, b->where, "input %d of %s is missing", missing, type);
    else node = make(b, o, n, in);
    b->failed = !node;
  }
  b->nkeys = 0;
  return node;
}

df_output dfi_opn(dfi_build *b, const char *type, int32_t n, const df_output *in) {
  return (df_output){ dfi_opnode(b, type, n, in), 0 };
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Leaves the attributes set so far for the next dfi_op, whose inputs constants often are. */
static df_output constant(dfi_build *b, df_tensor *t) {
  df_attr attrs[2] = { { .tensor = t }, { .i = t->dtype } };
  df_node *n = dfi_node_add(
      b->graph, &(dfi_node_spec){ .op = dfi_op_find("Const")->id, .attrs = attrs, .where = b->where }, b->err);
  b->failed = !n;
  df_tensor_release(t);
  return (df_output){ n, 0 };
}

static df_tensor *tensor(dfi_build *b, uint8_t dtype, int32_t rank, const int64_t *dims) {
  if (b->failed) return NULL;
  df_tensor *t = df_tensor_new(dtype, rank, dims, b->err);
  b->failed = !t;
  return t;
}

df_output dfi_const(dfi_build *b, uint8_t dtype, double v) {
  df_tensor *t = tensor(b, dtype, 0, NULL);
  if (!t) return DFI_NONE;
  if (!df_tensor_set(t, 0, v)) {
    dfi_fail(b->err, DF_INVALID_ARGUMENT, b->where, "%s cannot hold %.17g", df_dtype_name(dtype), v);
    b->failed = true;
    df_tensor_release(t);
    return DFI_NONE;
  }
  return constant(b, t);
}

df_output dfi_const_like(dfi_build *b, df_output like, double v) {
  return b->failed || !like.node ? DFI_NONE : dfi_const(b, dfi_dtype(like), v);
}

df_output dfi_const_ints(dfi_build *b, int32_t n, const int64_t *v) {
  int64_t dims = n;
  df_tensor *t = tensor(b, DF_INT32, 1, &dims);
  if (!t) return DFI_NONE;
  for (int32_t i = 0; i < n; i++)
    if (!df_tensor_set_int(t, i, v[i])) {
      dfi_fail(b->err, DF_INVALID_ARGUMENT, b->where, "int32 cannot hold %lld", (long long)v[i]);
      b->failed = true;
      df_tensor_release(t);
      return DFI_NONE;
    }
  return constant(b, t);
}

df_output dfi_const_int(dfi_build *b, int64_t v) { return dfi_const(b, DF_INT32, (double)v); }
