/* equal.c: common subexpressions. Of nodes that compute the same, one is kept, before they are placed.
 *
 * Two nodes do when they are of one op, with the same attributes, inputs and device asked for, neither has state nor
 * control edges but to its context's pivot, and both stand in the same branch, body or function: so they are dead or
 * alive together, and a side effect that one waits for is waited for by both. Inputs are the same when they come from
 * the same node, or from equal constants. In a plan over devices, what asked for none stays: each of the two can be
 * beside its readers, and one would have to send its value (an LSTM of 8 layers on 8 devices took 1.28 times as long).
 */
#include "plan/place.h"

static bool equal_tensors(const df_tensor *a, const df_tensor *b) {
  enum { MOST_BYTES = 16 << 10 };
  if (a == b) return true;
  if (!a || !b || a->dtype != b->dtype || a->rank != b->rank || a->size != b->size || !dfk_plain(a->dtype))
    return false;
  const int64_t bytes = a->size * dfi_dtype_size[a->dtype];
  for (int32_t d = 0; d < a->rank; d++) if (a->dims[d] != b->dims[d]) return false;
  return bytes <= MOST_BYTES && !memcmp(a->data, b->data, (size_t)bytes);
}

static bool equal_attr(char type, const df_attr *a, const df_attr *b) {
  switch (type) {
  case 'f': return !memcmp(&a->f, &b->f, sizeof a->f);
  case 's': return a->i == b->i && (a->s == b->s || (a->s && b->s && !memcmp(a->s, b->s, (size_t)a->i)));
  case 't': return equal_tensors(a->tensor, b->tensor);
  case 'i': case 'b': case 'd': return a->i == b->i;
  case 'p': return a->i == b->i && a->ints == b->ints;           /* ranks and dims lie in them, any number */
  default: return a->i == b->i && (a->i <= 0 || !memcmp(a->ints, b->ints, sizeof *a->ints * (size_t)a->i));
  }
}

static bool equal_attrs(const df_node *a, const df_node *b) {
  const dfi_op_info *o = dfi_op_info_at(a->op);
  for (int32_t i = 0; a->attrs != b->attrs && i < o->nattr; i++)
    if (!equal_attr(o->attr[i].type, &a->attrs[i], &b->attrs[i])) return false;
  return true;
}

static bool is_const(const df_node *n) { return flow_of(n) == DF_CONSTANT && (n->ncontrol == 0 || n->context); }

static bool same_controls(const df_node *a, const df_node *b) {
  if (a->ncontrol != b->ncontrol) return false;
  for (int32_t i = 0; i < a->ncontrol; i++) if (a->control[i] != b->control[i]) return false;
  return true;
}

static bool same_source(const maker *m, df_output a, df_output b) {
  a = dfi_plan_origin(m, a);
  b = dfi_plan_origin(m, b);
  if (dfi_same(a, b)) return true;
  return feed_of(m, a) < 0 && feed_of(m, b) < 0 && is_const(a.node) && is_const(b.node) &&
         a.node->context == b.node->context && same_controls(a.node, b.node) &&
         !strcmp(a.node->device, b.node->device) && equal_attrs(a.node, b.node);
}

static bool is_number(df_output o) {
  const dfi_out *out = &o.node->out[o.index];
  return out->dtype != DF_RESOURCE && out->dtype != DF_VARIANT && !out->ref;
}

bool dfi_plan_is_pure(const df_node *n) {
  if (flow_of(n) != DF_PLAIN || op_of(n)->stateful || op_of(n)->waits || !n->nin || !n->nout) return false;
  for (int32_t i = 0; i < n->nin; i++) if (!is_number(n->in[i])) return false;
  for (int32_t i = 0; i < n->nout; i++) if (!is_number((df_output){ (df_node *)(uintptr_t)n, i })) return false;
  return true;
}

/* Does it wait for nothing but its inputs and, as all of its context do, the pivot? */
static bool waits_for_pivot(const df_node *n) {
  return !n->ncontrol || (n->ncontrol == 1 && n->context && n->control[0] == n->context->pivot);
}

static bool may_merge(const maker *m, df_node *n, bool placed) {
  const mark *k = &m->mark[n->id];
  return waits_for_pivot(n) && !k->fed && k->scope >= 0 && k->duplicate < 0 && (!placed || n->device[0]) &&
         !dfi_plan_passes_on(n) && dfi_plan_is_pure(n);
}

static bool equal_nodes(const maker *m, df_node *a, df_node *b) {
  if (a->op != b->op || a->nin != b->nin || a->nout != b->nout || a->context != b->context ||
      m->mark[a->id].scope != m->mark[b->id].scope || strcmp(a->device, b->device) || !equal_attrs(a, b))
    return false;
  for (int32_t i = 0; i < a->nout; i++) if (a->out[i].dtype != b->out[i].dtype) return false;
  for (int32_t i = 0; i < a->nin; i++) if (!same_source(m, a->in[i], b->in[i])) return false;
  return true;
}

/* Of a constant: its dtype, size and first bytes; equal ones have equal hashes. */
static uint32_t hash_constant(const df_node *c) {
  const df_tensor *t = attr_of(c, "value")->tensor;
  uint32_t h = 7;
  if (!t || !dfk_plain(t->dtype)) return h;
  h = (h * 31 + t->dtype) * 31 + (uint32_t)t->size;
  const int64_t bytes = t->size * dfi_dtype_size[t->dtype];
  for (int64_t i = 0; i < bytes && i < 16; i++) h = h * 31 + ((const uint8_t *)t->data)[i];
  return h;
}

static uint32_t hash(const maker *m, const df_node *n) {
  uint32_t h = (uint32_t)n->op * 0x9e3779b1u ^ (uint32_t)((uintptr_t)n->context >> 4);
  for (int32_t i = 0; i < n->nin; i++) {
    const df_output from = dfi_plan_origin(m, n->in[i]);
    const bool constant = is_const(from.node) && feed_of(m, from) < 0;
    const uint32_t of = constant ? hash_constant(from.node) : (uint32_t)(from.node->id * 31 + from.index);
    h = (h ^ of) * 0x85ebca6bu;
    h ^= h >> 15;
  }
  return h;
}

void dfi_plan_find_equal(maker *m, bool placed) {
  enum { LOOKS = 64 };                     /* many of one hash differ in a constant alone */
  uint32_t mask = 63;
  while (mask < (uint32_t)m->nneeded * 2) mask = mask * 2 + 1;
  df_node **table = dfi_xcalloc((size_t)mask + 1, sizeof *table);
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (!may_merge(m, n, placed)) continue;
    uint32_t h = hash(m, n) & mask;
    int32_t looks = 0;
    while (table[h] && looks++ < LOOKS && !equal_nodes(m, table[h], n)) h = (h + 1) & mask;
    if (!table[h]) table[h] = n;
    else if (looks <= LOOKS && equal_nodes(m, table[h], n)) m->mark[n->id].duplicate = table[h]->id;
  }
  dfi_free(table);
}
