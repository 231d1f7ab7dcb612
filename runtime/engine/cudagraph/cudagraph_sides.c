/* cudagraph_sides.c: the conds of a body, as IF nodes of its graph. See cudagraph.h.
 *
 * Both sides are captured, one after the other, each with what the Switches pass on. What a side gives to a Merge is
 * copied to a tensor of the graph's, the same for both. A predicate that the host counts lies with the numbers that the
 * GPU reads; how often it was true the GPU counts, so that it is known which tokens would have been dead.
 */
#include "engine/cudagraph/cudagraph.h"
#include "engine/token.h"

static const dfi_remote *remote_of(const dfi_exec *x, const dfi_cudagraph_loop *l) {
  return x->plan->devices->at[l->device]->remote;
}

/* ---- which cond ------------------------------------------------------------------------------------------------ */

int32_t dfi_cudagraph_pair(const dfi_cudagraph_loop *l, const dfi_plan *plan, const dfi_pnode *p) {
  return l->pair_of[p - (plan->node + l->scope->first)];
}

int32_t dfi_cudagraph_pair_of_merge(const dfi_cudagraph_loop *l, uint32_t node) { return l->pair_of[node]; }

int32_t dfi_cudagraph_merge_input(const dfi_cudagraph_loop *l, uint32_t node, bool side) {
  return l->first_side[node] == side ? 0 : 1;
}

void dfi_cudagraph_sides(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r) {
  for (int32_t q = 1; q < l->nguards; q += 2) {
    dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, q);
    const dfi_operand pred = l->guard[q].pred;
    const df_value *v = DFI_SPACE(pred) == DFI_ITERATION ? NULL : operand(r, pred);
    s->known = v && v->kind == DF_SCALAR;
    s->taken = s->known && v->as.u8 != 0;
  }
}

int32_t dfi_cudagraph_side_ends(const dfi_cudagraph_loop *l, int32_t i) {
  const uint32_t pair = l->step[i].node;
  const dfi_cudagraph_do end = l->step[i].what == DFI_CUDAGRAPH_OPEN ? DFI_CUDAGRAPH_OTHERWISE : DFI_CUDAGRAPH_CLOSE;
  while (l->step[i].what != end || l->step[i].node != pair) i++;
  return i;
}

int32_t dfi_cudagraph_skip(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, int32_t i) {
  const dfi_cudagraph_step t = l->step[i];
  if (t.what != DFI_CUDAGRAPH_OPEN && t.what != DFI_CUDAGRAPH_OTHERWISE) return i;
  const dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, (int32_t)t.node);
  return !s->known || s->taken == (t.what == DFI_CUDAGRAPH_OPEN) ? i : dfi_cudagraph_side_ends(l, i);
}

/* ---- capturing ------------------------------------------------------------------------------------------------- */

void dfi_cudagraph_switch(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, const dfi_pnode *p,
                          int32_t pair) {
  const dfi_operand *in = x->plan->operand + p->in;
  const uint32_t *uses = r->frame->scope->uses;
  dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, pair);
  df_value *out = r->base[DFI_ITERATION] + p->out;
  const df_value *pred = operand(r, in[1]);
  if (!s->known && s->pred.kind == DF_EMPTY && pred->kind == DF_TENSOR) s->pred = dfi_value_copy(pred);
  const df_value v = operand_take(r, in[0]);
  if (s->known) {
    out[s->taken] = v;
    slot_filled(r, &out[s->taken], uses[p->out + s->taken]);
  } else {
    out[0] = dfi_value_copy(&v);
    out[1] = v;
    for (int32_t k = 0; k < 2; k++) slot_filled(r, &out[k], uses[p->out + (uint32_t)k]);
  }
  operand_used(r, in[1]);
}

static bool refused(df_error *err, const char *why) {
  dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%s", why);
  return false;
}

/* Where the GPU reads the predicate of a cond. False: nowhere. */
static bool find_predicate(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r,
                           int32_t pair) {
  dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, pair);
  const dfi_operand pred = l->guard[pair].pred;
  const int32_t q = dfi_cudagraph_fed(m, pred);
  const df_tensor *at = m->again ? m->row : m->numbers;
  if (dfi_cudagraph_on_host(m, r, pred) && q >= 0) {
    s->where = (const int64_t *)at->data + (m->again ? q : (int64_t)m->at * m->nrow + q);
    s->note = dfi_note_of(at->buffer);
    return true;
  }
  if (s->pred.kind != DF_TENSOR || s->pred.as.tensor->rank || dfi_readable(s->pred.as.tensor)) return false;
  s->where = s->pred.as.tensor->data;
  s->note = dfi_note_of(s->pred.as.tensor->buffer);
  return true;
}

/* Looks at it for a condition, and counts it as that of IF node `which`; condition 0: counts it alone. */
static bool choose(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t pair, uint64_t condition,
                   int32_t which, bool tells) {
  const dfi_remote *g = remote_of(x, l);
  const dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, pair);
  const bool loose = m->loose && tells;
  const dfi_remote_sides sides = { .to = loose ? m->sides->data : NULL, .at = m->again ? -1 : m->at,
                                   .note = loose ? dfi_note_of(m->sides->buffer) : NULL,
                                   .width = dfi_cudagraph_pairs(l) };
  return g->choose(g->device, m->tally->data, dfi_note_of(m->tally->buffer), s->where, s->note, condition, which,
                   loose ? &sides : NULL);
}

/* The node by which the GPU takes a side. Of a cond in several parts the first counts; one in the loop's own predicate
 * when that is known, since it is not part of an iteration where that says no. */
static bool open_sides(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, int32_t pair,
                       bool decided, df_error *err) {
  const dfi_remote *g = remote_of(x, l);
  dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, pair);
  if (!decided && l->guard[pair].parent) return refused(err, "a cond inside another one, in its predicate");
  if (!find_predicate(l, m, r, pair)) return refused(err, "a cond whose predicate is not where a graph reads it");
  const uint64_t c = g->condition ? g->condition(g->device, false) : 0;
  if (!c) return refused(err, "a cond, and the device's graphs have no conditional nodes, or none so deep");
  const bool counts = decided && !s->counted;
  s->late = s->late || (!decided && !s->counted);
  s->counted = true;
  return (choose(x, l, m, pair, c, (counts ? pair - 1 : l->nguards - 1) / 2, counts) && g->open(g->device, c, false)) ||
         refused(err, "the predicate cannot be looked at");
}

bool dfi_cudagraph_count_late(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  bool ok = true;
  for (int32_t pair = 1; pair < l->nguards && ok; pair += 2) {
    dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, pair);
    if (!s->late) continue;
    s->late = false;
    ok = choose(x, l, m, pair, 0, (pair - 1) / 2, true);
  }
  return ok;
}

/* A tensor of the GPU's, of what lies on the host and does not vary; NULL. */
static df_tensor *sent(const dfi_exec *x, const dfi_cudagraph_loop *l, const df_value *v) {
  const df_tensor *here = v->kind == DF_TENSOR ? v->as.tensor : NULL;
  if (!dfk_plain(v->dtype)) return NULL;
  dfi_devmem_use(x->plan->devices->at[l->device]->arena);
  df_tensor *t = dfi_tensor_make(v->dtype, here ? here->rank : 0, here ? here->dims : NULL);
  dfi_devmem_use(NULL);
  const void *from = here ? here->data : &v->as;
  if (!t || dfi_bytes_copy(t->data, t->buffer, from, NULL, t->size * dfi_dtype_size[v->dtype])) return t;
  df_tensor_release(t);
  return NULL;
}

bool dfi_cudagraph_bring(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_operand from,
                         df_value *v) {
  const int32_t q = dfi_cudagraph_varies(m, from) ? dfi_cudagraph_fed(m, from) : -1;
  df_tensor *t = q < 0 ? sent(x, l, v)
                       : dfi_tensor_view(m->again ? m->row : m->numbers, m->again ? q : (int64_t)m->at * m->nrow + q, 0,
                                         NULL);
  if (!t) return false;
  t->dtype = v->dtype;
  dfi_value_drop(v);
  *v = (df_value){ .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
  return true;
}

/* The side at hand gives v to the Merge; both sides write to one place. Consumes v. */
static bool give(dfi_exec *x, const dfi_cudagraph_loop *l, df_value *joined, df_value v, df_error *err) {
  bool ok = true;
  if (joined->kind == DF_EMPTY) {
    dfi_devmem_use(x->plan->devices->at[l->device]->arena);
    *joined = (df_value){ .kind = DF_TENSOR, .dtype = v.dtype };
    joined->as.tensor = dfi_tensor_make(v.dtype, v.as.tensor->rank, v.as.tensor->dims);
    dfi_devmem_use(NULL);
    if (!joined->as.tensor) joined->kind = DF_EMPTY;
  }
  df_tensor *to = joined->kind == DF_TENSOR ? joined->as.tensor : NULL, *from = v.as.tensor;
  if (!to) ok = refused(err, "there is no memory for what a cond gives");
  else if (!dfi_cudagraph_same_form(to, from)) ok = refused(err, "a cond whose sides have two shapes");
  else if (!dfi_bytes_copy(to->data, to->buffer, from->data, from->buffer, to->size * dfi_dtype_size[to->dtype]))
    ok = refused(err, "a value cannot be copied");
  dfi_value_drop(&v);
  return ok;
}

/* The same for an array, which both sides hand on. */
static bool give_array(df_value *joined, df_value v, df_error *err) {
  const bool same = joined->kind == DF_EMPTY || (joined->kind == DF_HANDLE && joined->as.handle == v.as.handle);
  if (joined->kind == DF_EMPTY) *joined = v;
  else dfi_value_drop(&v);
  return same || refused(err, "a cond that chooses between arrays");
}

static bool join(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, dfi_cudagraph_step t,
                 df_error *err) {
  const dfi_pnode *p = r->nodes + t.node;
  const dfi_operand from = x->plan->operand[p->in + (uint32_t)t.group];
  m->counts[p->out] |= dfi_cudagraph_counts(m, r, from);
  df_value *joined = &m->joined[p->out], v = operand_take(r, from);
  if (dfi_cudagraph_side_of(m, l->pair_of[t.node])->known) { *joined = v; return true; }
  if (m->host[p->out]) {                   /* two numbers */
    const bool side = t.group ? !l->first_side[t.node] : l->first_side[t.node];
    if (side == (operand(r, l->guard[l->pair_of[t.node]].pred)->as.u8 != 0)) *joined = v;
    return true;
  }
  const bool here = v.kind != DF_TENSOR || dfi_readable(v.as.tensor);
  const char *why = NULL;
  if (v.kind == DF_HANDLE) return give_array(joined, v, err);
  if (here && !dfi_cudagraph_bring(x, l, m, from, &v)) why = "there is no memory for what a cond gives";
  if (why) { dfi_value_drop(&v); return refused(err, why); }
  return give(x, l, joined, v, err);
}

void dfi_cudagraph_merge(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, const dfi_pnode *p) {
  df_value *out = r->base[DFI_ITERATION] + p->out, *joined = &m->joined[p->out];
  *out = *joined;
  *joined = (df_value){ 0 };
  out->uses = 0;
  slot_filled(r, out, r->frame->scope->uses[p->out]);
}

bool dfi_cudagraph_side_step(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                             dfi_cudagraph_step t,
                             bool decided, df_error *err) {
  const dfi_remote *g = remote_of(x, l);
  if (t.what == DFI_CUDAGRAPH_JOIN) return join(x, l, m, r, t, err);
  if (!dfi_cudagraph_chooses(m, (int32_t)t.node)) return true;
  if (t.what == DFI_CUDAGRAPH_OPEN) return open_sides(x, l, m, r, (int32_t)t.node, decided, err);
  return (t.what == DFI_CUDAGRAPH_OTHERWISE ? g->otherwise(g->device) : g->close(g->device)) ||
         refused(err, "a side cannot be captured");
}

void dfi_cudagraph_sides_end(dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  for (int32_t q = 1; q < l->nguards; q += 2) {
    dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, q);
    dfi_value_drop(&s->pred);
    s->pred = (df_value){ 0 };
    s->counted = s->late = false;
  }
  for (uint32_t i = 0; i < l->scope->nslots && l->nguards > 1; i++) {
    dfi_value_drop(&m->joined[i]);
    m->joined[i] = (df_value){ 0 };
  }
}

/* ---- counting -------------------------------------------------------------------------------------------------- */

int64_t dfi_cudagraph_alive(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const int64_t *tally, int32_t g,
                            int64_t n) {
  if (g == 0) return n;
  const int32_t pair = (g - 1) | 1;
  const dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, pair);
  const int64_t outer = dfi_cudagraph_alive(l, m, tally, l->guard[g].parent, n);
  const int64_t yes = s->known ? (s->taken ? outer : 0) : tally[DFI_TALLY_SIDES + (pair - 1) / 2];
  return l->guard[g].side ? yes : outer - yes;
}
