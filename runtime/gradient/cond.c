/* cond.c: the gradient of a cond is a cond on the same predicate.
 *
 * Each branch of it undoes the forward branch. What came into either forward branch gets a result: from the branch that
 * used it what backprop gathered, from the other zeros of its shape, made in that branch. Where all that was gathered
 * is sparse the results are rows and indices, none of them from a branch that has none. A TensorArray's gradient is
 * handed through the branch that does nothing to it.
 */
#include "gradient/gradient.h"

/* A value that one or both branches captured. */
typedef struct used { df_output outer, inner[2]; } used;

static df_output empty_rows(pass *p, df_output values, const dfi_shape *whole) {
  dfi_shape s = *dfi_shape_at(values);
  if (s.rank < 0) s = *whole;
  bool known = s.rank > 0;
  for (int32_t i = 1; i < s.rank; i++) known &= s.dims[i] >= 0;
  if (!known) return DFI_NONE;
  s.dims[0] = 0;
  df_tensor *t = df_tensor_new(dfi_dtype(values), s.rank, s.dims, p->err);
  if (!t) { p->b.failed = true; return DFI_NONE; }
  dfi_attr_tensor(&p->b, "value", t);
  df_output o = dfi_opn(&p->b, "Const", 0, NULL);
  df_tensor_release(t);
  return o;
}

static df_output empty_indices(pass *p, df_output indices) {
  int64_t none = 0;
  df_tensor *t = df_tensor_new(dfi_dtype(indices), 1, &none, p->err);
  if (!t) { p->b.failed = true; return DFI_NONE; }
  dfi_attr_tensor(&p->b, "value", t);
  df_output o = dfi_opn(&p->b, "Const", 0, NULL);
  df_tensor_release(t);
  return o;
}

static bool result(pass *p, df_cond *k, const df_output side[2], df_output *out) {
  bool ok = !dfi_pass_failed(p) && side[0].node && side[1].node &&
            !dfi_cond_add_result(k, side[0], side[1], out, p->err);
  if (!ok) p->b.failed = true;
  return ok;
}

static bool all_sparse(pass *p, const used *u) {
  for (int32_t s = 0; s < 2; s++) {
    gather *a = u->inner[s].node ? dfi_gather_find(p, u->inner[s]) : NULL;
    for (term *t = a ? a->first : NULL; t; t = t->next) if (t->kind != TERM_SPARSE) return false;
  }
  return true;
}

/* Sparse where both sides are. False with *done unset: a side's row shape is not known, so let it be dense. */
static bool join_sparse(pass *p, df_cond *k, region b[2], used *u, bool *done) {
  df_output values[2] = { DFI_NONE, DFI_NONE }, indices[2] = { DFI_NONE, DFI_NONE }, v, i;
  *done = false;
  for (int32_t s = 0; s < 2; s++) {
    p->graph->current = b[s].backward;
    if (u->inner[s].node) dfi_gather_sparse(p, u->inner[s], &values[s], &indices[s]);
  }
  for (int32_t s = 0; s < 2; s++) {
    if (values[s].node) continue;
    p->graph->current = b[s].backward;
    values[s] = empty_rows(p, values[1 - s], dfi_gradient_shape(u->outer));
    if (!values[s].node) return !dfi_pass_failed(p);
    indices[s] = empty_indices(p, indices[1 - s]);
  }
  if (dfi_pass_failed(p)) return false;
  if (dfi_dtype(indices[0]) != dfi_dtype(indices[1]))
    for (int32_t s = 0; s < 2; s++)
      if (dfi_dtype(indices[s]) != DF_INT64) {
        p->graph->current = b[s].backward;
        dfi_attr_int(&p->b, "DstT", DF_INT64);
        indices[s] = dfi_op(&p->b, "Cast", indices[s]);
      }
  if (!result(p, k, values, &v) || !result(p, k, indices, &i)) return false;
  dfi_gather_add(p, u->outer, TERM_SPARSE, v, i);
  *done = true;
  return true;
}

static bool join_array(pass *p, region *r, df_cond *k, region b[2], used *u) {
  df_output side[2] = { DFI_NONE, DFI_NONE }, start = DFI_NONE, out;
  bool base[2] = { false, false };
  for (int32_t s = 0; s < 2; s++) {
    gather *a = u->inner[s].node ? dfi_gather_find(p, u->inner[s]) : NULL;
    for (term *t = a ? a->first : NULL; t; t = t->next) base[s] |= t->kind == TERM_ARRAY;
  }
  if (!base[0] && !base[1]) {                            /* both only add to it: it is handed in */
    p->graph->current = r->backward;
    start = dfi_grad_array_start(p, r, u->outer);
  }
  for (int32_t s = 0; s < 2 && !dfi_pass_failed(p); s++) {
    gather *a = u->inner[s].node ? dfi_gather_find(p, u->inner[s]) : NULL;
    p->graph->current = b[s].backward;
    df_output first = base[s] ? DFI_NONE : start.node ? start : dfi_grad_array_new(p, r, u->outer, b[s].backward);
    side[s] = dfi_pass_failed(p) ? DFI_NONE : dfi_gather_empty(a) ? first : dfi_gather_join(p, first, a);
  }
  p->graph->current = r->backward;
  if (!result(p, k, side, &out)) return false;
  if (start.node) dfi_grad_array_finish(p, r, u->outer, out);
  else dfi_gather_add(p, u->outer, TERM_ARRAY, out, DFI_NONE);
  return true;
}

static bool join(pass *p, region *r, df_cond *k, region b[2], used *u) {
  bool array = false, done = false;
  df_output side[2], out;
  dfi_part_of(p, u->outer.node, u->outer.node->where);
  for (int32_t s = 0; s < 2; s++) {
    gather *a = u->inner[s].node ? dfi_gather_find(p, u->inner[s]) : NULL;
    array |= a && a->chain;
    for (term *t = a ? a->first : NULL; t; t = t->next) array |= t->kind == TERM_ARRAY;
  }
  if (array) return join_array(p, r, k, b, u);
  if (all_sparse(p, u) && !join_sparse(p, k, b, u, &done)) return false;
  for (int32_t s = 0; s < 2 && !done; s++) {
    p->graph->current = b[s].backward;
    side[s] = u->inner[s].node ? dfi_gather_sum(p, &b[s], u->inner[s]) : DFI_NONE;
    if (!side[s].node && !dfi_pass_failed(p)) side[s] = dfi_grad_full(p, r, u->outer, 0, b[s].backward);
  }
  p->graph->current = r->backward;
  if (done) return true;
  if (!result(p, k, side, &out)) return false;
  dfi_gather_gradient(p, u->outer, out);
  return true;
}

static used *find_used(pass *p, df_cond *c, int32_t *n) {
  int32_t most = dfi_map_count(c->branch[0]->captures) + dfi_map_count(c->branch[1]->captures);
  used *u = dfi_pass_alloc(p, sizeof *u * (size_t)(most + 1));
  struct dfi_map *place = dfi_map_new();
  *n = 0;
  for (int32_t s = 0; s < 2; s++)
    for (int32_t i = 0; i < dfi_map_count(c->branch[s]->captures); i++) {
      df_output key, in;
      dfi_map_at(c->branch[s]->captures, i, &key, &in);
      if (!in.node || !(mark_of(p, in.node) & DEPENDS) || dfi_gather_empty(dfi_gather_find(p, in))) continue;
      df_output outer = in.node->in[0], at = dfi_map_get(place, outer);
      if (!at.node) {
        at = (df_output){ outer.node, *n };
        u[(*n)++].outer = outer;
        dfi_map_put(place, outer, at);
      }
      u[at.index].inner[s] = in;
    }
  dfi_map_free(place);
  return u;
}

static bool build(pass *p, region *r, df_cond *c, region b[2], int32_t n, const int32_t *index, const df_output *dy) {
  df_graph *g = p->graph;
  dfi_part_of(p, c->branch[1]->pivot, c->where);
  df_output pred = dfi_grad_value(p, r, c->pred);
  const char *slash = strrchr(c->name, '/');
  if (dfi_pass_failed(p)) return false;
  if (df_cond_begin(g, pred.node->id, pred.index, slash && slash[1] ? slash + 1 : c->name, c->where, p->err))
    return false;
  df_cond *k = dfi_flow_top(g)->cond;
  k->gradient_of = c;
  for (int32_t side = 1; side >= 0; side--) {
    df_output *seeds = dfi_pass_alloc(p, sizeof *seeds * (size_t)(n + 1));
    b[side] = (region){ .parent = r, .cond = c, .side = side, .forward = c->branch[side], .backward = k->branch[side] };
    g->current = k->branch[side];
    for (int32_t i = 0; i < n; i++) {
      seeds[i] = c->result[side][index[i]];
      df_output here = dfi_resolve(g, dy[i], g->current, p->err);
      if (!here.node) return false;
      dfi_gather_gradient(p, seeds[i], here);
    }
    if (!dfi_backprop(p, &b[side], n, seeds)) return false;
    g->current = k->branch[side];
    if (df_cond_branch_end(g, 0, NULL, p->err)) return false;
  }
  int32_t none[2];
  if (df_cond_end(g, none, p->err) < 0) return false;
  int32_t nused;
  used *u = find_used(p, c, &nused);
  for (int32_t i = 0; i < nused; i++) if (!join(p, r, k, b, &u[i])) return false;
  g->current = r->backward;
  return !dfi_pass_failed(p);
}

bool dfi_grad_cond(pass *p, region *r, df_cond *c) {
  int32_t n = 0, forward = c->n;
  int32_t *index = dfi_pass_alloc(p, sizeof *index * (size_t)(forward + 1));
  df_output *dy = dfi_pass_alloc(p, sizeof *dy * (size_t)(forward + 1));
  for (int32_t i = 0; i < forward; i++) {
    df_output o = { c->merge[i], 0 };
    if (!(mark_of(p, o.node) & DEPENDS) || !dfi_differentiable(o)) continue;
    df_output d = dfi_gather_sum(p, r, o);
    if (dfi_pass_failed(p)) return false;
    if (!d.node) continue;
    index[n] = i;
    dy[n++] = dfi_with_fault(p, o.node, d);
  }
  if (!n) return true;
  region b[2] = { { 0 }, { 0 } };
  bool ok = build(p, r, c, b, n, index, dy);
  if (!ok) p->b.failed = true;
  for (int32_t s = 0; s < 2; s++) dfi_region_free(&b[s]);
  return ok;
}
