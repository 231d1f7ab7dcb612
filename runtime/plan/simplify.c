/* simplify.c: what a plan leaves out of the graph, before its nodes are placed.
 *
 * Three steps, each of which looks at a node once, in the order in which nodes were built:
 *   1. nodes that give an input's value as it is (here): x * 1, x + 0, casts there and back, transposes and reshapes
 *      that cancel
 *   2. nodes of constants alone: fold.c
 *   3. nodes that compute what another one does: equal.c
 * None of them looks past a feed, or at a node that changes or reads anything beyond its inputs, draws random numbers,
 * may wait, or has control inputs. A node goes only where each of its outputs has the same bits without it, errors
 * included, and where it is dead if and only if what stands for it is.
 *
 * Floats: a run takes denormal numbers for zero, so x * 1 is x only where arithmetic made x; x + 0 is not x where x is
 * -0, but x - 0 and x + -0 are. Casts: only whole numbers that all fit the dtype between. The input that goes with the
 * node (the 1, the shape, the permutation) is a constant, so deadness comes from x alone.
 *
 * A run that is paused from its beginning, logged or keeps its values has a plan of its own, of the graph as it is
 * written; and what is fetched itself is computed in every run, so that there is something to see of it.
 */
#include "plan/place.h"
#include <math.h>

static bool is_type(const df_node *n, const char *type) { return !strcmp(op_of(n)->type, type); }

/* May another value stand for output 0 of n? */
static bool may_go(const maker *m, const df_node *n) {
  const mark *k = &m->mark[n->id];
  return flow_of(n) == DF_PLAIN && n->nout == 1 && n->nin >= 1 && !n->ncontrol && !op_of(n)->stateful &&
         !op_of(n)->waits && !k->fed && k->scope >= 0 && !n->out[0].ref && dfk_plain(n->out[0].dtype) &&
         n->out[0].dtype != DF_RESOURCE && !dfi_plan_passes_on(n);
}

/* The value of an input that is a constant, borrowed; NULL: it is none. */
static const df_tensor *constant_in(const maker *m, const df_node *n, int32_t i) {
  const df_output from = dfi_plan_origin(m, n->in[i]);
  if (flow_of(from.node) != DF_CONSTANT || feed_of(m, from) >= 0 || from.node->device[0]) return NULL;
  /* of the top level, or of n's own context, whose life it shares */
  if (!dfi_plan_is_given(m, from) && (from.node->context != n->context || from.node->ncontrol != 1 ||
                                      from.node->control[0] != n->context->pivot))
    return NULL;
  return attr_of(from.node, "value")->tensor;
}

/* Is x dead whenever n is? What is there before a loop's first token, or whether its body runs or not, lives longer
 * than a node of the body: it can stand for one of the top level alone. */
static bool same_life(const maker *m, const df_node *n, df_output x) {
  const df_output from = dfi_plan_origin(m, x);
  const bool top = (!n->context || n->context->kind == DFI_TOP) && m->mark[n->id].scope == 0;
  if (from.node->out[from.index].ref || x.node->out[x.index].ref || from.node == n) return false;
  if (feed_of(m, from) >= 0 || dfi_plan_is_given(m, from)) return top;
  return !dfi_plan_is_loop_constant(from.node) && from.node->context == n->context &&
         m->mark[from.node->id].scope == m->mark[n->id].scope;
}

static bool same_dims(const df_node *n, df_output x) {
  const dfi_shape *a = &n->out[0].shape, *b = dfi_shape_at(x);
  if (!dfi_shape_known(a) || !dfi_shape_known(b) || a->rank != b->rank) return false;
  for (int32_t d = 0; d < a->rank; d++) if (a->dims[d] != b->dims[d]) return false;
  return true;
}

/* ---- arithmetic ------------------------------------------------------------------------------------------------- */

static bool is_float(uint8_t t) { return t == DF_FLOAT32 || t == DF_FLOAT64; }
static bool is_whole(uint8_t t) {
  return t == DF_INT8 || t == DF_INT16 || t == DF_INT32 || t == DF_INT64 || t == DF_UINT8 || t == DF_UINT16 ||
         t == DF_UINT32 || t == DF_UINT64;
}

static double float_at(const df_tensor *t, int64_t i) {
  return t->dtype == DF_FLOAT32 ? (double)((const float *)t->data)[i] : ((const double *)t->data)[i];
}

/* Are all elements v, its sign included? */
static bool is_all(const df_tensor *t, double v) {
  enum { MOST = 4096 };
  if (t->size < 1 || t->size > MOST) return false;
  for (int64_t i = 0; i < t->size; i++) {
    if (is_float(t->dtype) ? float_at(t, i) != v || signbit(float_at(t, i)) != signbit(v)
                           : df_tensor_get_int(t, i) != (int64_t)v)
      return false;
  }
  return true;
}

/* Did arithmetic make x, so that none of its elements is denormal? */
static bool is_arithmetic(const maker *m, df_output x) {
  const df_output from = dfi_plan_origin(m, x);
  if (feed_of(m, from) >= 0 || flow_of(from.node) != DF_PLAIN) return false;
  return is_type(from.node, "Add") || is_type(from.node, "AddV2") || is_type(from.node, "Sub") ||
         is_type(from.node, "Mul") || is_type(from.node, "RealDiv");
}

/* Which input n is as it is, because the other one is the neutral element; -1: none. */
static int32_t neutral(const maker *m, const df_node *n) {
  const bool add = is_type(n, "Add") || is_type(n, "AddV2"), mul = is_type(n, "Mul"), sub = is_type(n, "Sub");
  if ((!add && !mul && !sub && !is_type(n, "RealDiv")) || n->nin != 2) return -1;
  const uint8_t t = n->out[0].dtype;
  if (!is_float(t) && !is_whole(t)) return -1;
  for (int32_t i = 1; i >= (add || mul ? 0 : 1); i--) {
    const df_tensor *c = constant_in(m, n, i);
    const df_output x = n->in[1 - i];
    if (!c || dfi_dtype(x) != t || !same_dims(n, x)) continue;
    const double wanted = add ? (is_float(t) ? -0.0 : 0) : sub ? 0 : 1;
    if (is_all(c, wanted) && (!is_float(t) || is_arithmetic(m, x))) return 1 - i;
  }
  return -1;
}

/* ---- casts ------------------------------------------------------------------------------------------------------ */

static bool is_signed(uint8_t t) { return t == DF_INT8 || t == DF_INT16 || t == DF_INT32 || t == DF_INT64; }

/* Has dtype b each number of a? */
static bool holds(uint8_t a, uint8_t b) {
  if (a == b) return true;
  const int32_t bits = 8 * dfi_dtype_size[a], room = 8 * dfi_dtype_size[b];
  if (a == DF_BOOL) return is_whole(b) || is_float(b);
  if (!is_whole(a)) return false;
  if (b == DF_FLOAT32 || b == DF_FLOAT64) return bits <= (b == DF_FLOAT32 ? 16 : 32);
  if (!is_whole(b)) return false;
  return is_signed(a) == is_signed(b) ? bits <= room : is_signed(b) && bits < room;
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* Is n one that moves no element, and cannot fail? */
static bool is_reshape(const maker *m, const df_node *n) {
  if (!may_go(m, n) || !dfi_has_trait(n, DFO_RESHAPES) || n->out[0].dtype != dfi_dtype(n->in[0])) return false;
  for (int32_t i = 1; i < n->nin; i++) if (!constant_in(m, n, i)) return false;
  return dfi_shape_known(&n->out[0].shape) && dfi_shape_known(dfi_shape_at(n->in[0]));
}

static bool cancels(const df_tensor *p, const df_tensor *q) {
  if (p->size != q->size || p->size > DF_MAX_RANK) return false;
  for (int64_t d = 0; d < q->size; d++) {
    const int64_t at = df_tensor_get_int(q, d);
    if (at < 0 || at >= p->size || df_tensor_get_int(p, at) != d) return false;
  }
  return true;
}

static bool is_identity(const df_tensor *p) {
  for (int64_t d = 0; d < p->size; d++) if (df_tensor_get_int(p, d) != d) return false;
  return true;
}

/* ---- the step --------------------------------------------------------------------------------------------------- */

/* The node that makes input 0 of n, where n may look past it; NULL. */
static const df_node *before(const maker *m, const df_node *n) {
  const df_output from = dfi_plan_origin(m, n->in[0]);
  if (feed_of(m, from) >= 0 || from.index || m->mark[from.node->id].scope != m->mark[n->id].scope) return NULL;
  return from.node->context == n->context && may_go(m, from.node) ? from.node : NULL;
}

/* What n gives as it is; node NULL: nothing. */
static df_output same_as(const maker *m, const df_node *n) {
  static const df_output none = { NULL, 0 };
  const int32_t i = neutral(m, n);
  if (i >= 0) return n->in[i];
  if (is_type(n, "Cast")) {
    const uint8_t t = n->out[0].dtype;
    if (dfi_dtype(n->in[0]) == t) return is_whole(t) || t == DF_BOOL ? n->in[0] : none;
    const df_node *b = before(m, n);
    return b && is_type(b, "Cast") && dfi_dtype(b->in[0]) == t && holds(t, b->out[0].dtype) ? b->in[0] : none;
  }
  if (is_type(n, "Transpose")) {
    const df_tensor *q = constant_in(m, n, 1);
    if (!q || dfi_shape_at(n->in[0])->rank != q->size) return none;
    if (is_identity(q)) return n->in[0];
    const df_node *b = before(m, n);
    const df_tensor *p = b && is_type(b, "Transpose") ? constant_in(m, b, 1) : NULL;
    return p && dfi_shape_at(b->in[0])->rank == p->size && cancels(p, q) ? b->in[0] : none;
  }
  for (const df_node *at = n; at && is_reshape(m, at); at = before(m, at))
    if (same_dims(n, at->in[0])) return at->in[0];
  return none;
}

static void find_neutral(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (!may_go(m, n)) continue;
    const df_output x = same_as(m, n);
    if (!x.node) continue;
    if (!same_life(m, n, x)) continue;
    const df_output from = dfi_plan_origin(m, x);
    m->mark[n->id].duplicate = from.node->id;
    m->mark[n->id].stands = from.index + 1;
  }
}

void dfi_plan_simplify(maker *m, bool placed) {
  if (m->primitives || m->as_written || (m->stepped && !placed)) return;
  if (!placed) find_neutral(m);
  dfi_plan_fold(m, placed);
  dfi_plan_find_equal(m, placed);
}
