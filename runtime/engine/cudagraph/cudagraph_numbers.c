/* cudagraph_numbers.c: which numbers of a loop are the host's, and what they are in each iteration. See cudagraph.h. */
#include "engine/cudagraph/cudagraph.h"
#include "base/remote_memory.h"
#include "engine/token.h"

/* ---- which they are ------------------------------------------------------------------------------------------- */

bool dfi_cudagraph_on_host(const dfi_cudagraph_exec *m, const dfi_record *r, dfi_operand o) {
  if (DFI_SPACE(o) == DFI_ITERATION && m->host[DFI_INDEX(o)]) return true;
  return DFI_SPACE(o) != DFI_ITERATION && operand(r, o)->kind == DF_SCALAR;
}

static bool all_on_host(const dfi_exec *x, const dfi_cudagraph_exec *m, const dfi_record *r, const dfi_pnode *p) {
  for (uint32_t i = 0; i < p->nin; i++) if (!dfi_cudagraph_on_host(m, r, x->plan->operand[p->in + i])) return false;
  return true;
}

int32_t dfi_cudagraph_inputs(const dfi_exec *x, const dfi_record *r, dfi_cudagraph_step t) {
  return t.group >= 0 ? x->plan->group[t.group].chain.ninputs : (int32_t)(r->nodes + t.node)->nin;
}
dfi_operand dfi_cudagraph_input(const dfi_exec *x, const dfi_record *r, dfi_cudagraph_step t, int32_t i) {
  return t.group >= 0 ? x->plan->group[t.group].input[i].at : x->plan->operand[(r->nodes + t.node)->in + (uint32_t)i];
}

/* Is an input another number in each iteration? */
static bool takes_varying(const dfi_exec *x, const dfi_cudagraph_exec *m, const dfi_record *r, dfi_cudagraph_step t) {
  for (int32_t i = 0; i < dfi_cudagraph_inputs(x, r, t); i++)
    if (dfi_cudagraph_varies(m, dfi_cudagraph_input(x, r, t, i))) return true;
  return false;
}

/* Is input i of p read on the host: a shape, an axis, an index? */
static bool for_the_host(const dfi_pnode *p, int32_t i) {
  const uint32_t host = p->gpu ? p->gpu->host_in : p->op->host_in;
  return dfi_on_host(host, i, (int32_t)p->nin);
}

/* The GPU computes t: what varies of its inputs is to lie in its memory, written there before each launch. False: that
   is of no use. */
static bool feed(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                 dfi_cudagraph_step t) {
  const dfi_pnode *p = r->nodes + t.node;
  for (int32_t i = 0; i < dfi_cudagraph_inputs(x, r, t); i++) {
    const dfi_operand o = dfi_cudagraph_input(x, r, t, i);
    if (!dfi_cudagraph_varies(m, o)) continue;
    if (t.group < 0 && for_the_host(p, i))
      return !dfi_cudagraph_numbers_move(m) &&
             dfi_cudagraph_refuse(l, p, "a shape, an axis or an index that it takes is another one in each iteration");
    if (dfi_cudagraph_fed(m, o) < 0) m->fed[m->nfed++] = o;
  }
  return true;
}

/* What enters a loop inside is the GPU's. */
static void feed_inner(const dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                       const dfi_cudagraph_inner *in) {
  const dfi_scope *s = in->loop->scope;
  for (uint32_t k = 0; k < s->nenters; k++) {
    const dfi_operand o = x->plan->operand[s->enters[k]->in];
    if (dfi_cudagraph_varies(m, o) && dfi_cudagraph_fed(m, o) < 0) m->fed[m->nfed++] = o;
  }
}

/* The GPU computes the predicate. Can that be so in a graph: is it on the host for the loop's own Switches alone? */
static bool predicate_there(const dfi_exec *x, dfi_cudagraph_loop *l, const dfi_record *r) {
  const dfi_device *d = x->plan->devices->at[l->device];
  bool ok = d->remote->keep && DFI_SPACE(l->pred) == DFI_ITERATION;
  for (int32_t i = 0; i < l->nsteps && ok; i++) {
    const dfi_pnode *p = r->nodes + l->step[i].node;
    if (l->step[i].what != DFI_CUDAGRAPH_RUN || p->kind != DFI_K_TRANSFER || !p->constant) continue;
    ok = x->plan->operand[p->in] != l->pred || l->decides[l->step[i].node];
  }
  return ok || dfi_cudagraph_refuse(l, NULL, "its predicate is computed on %s", d->name);
}

/* A step that runs: is what it makes a number of the host's? */
static bool find_number(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                        dfi_cudagraph_step t) {
  const dfi_pnode *p = r->nodes + t.node;
  const dfi_operand *in = x->plan->operand + p->in;
  const int32_t pair = p->kind == DFI_K_SWITCH ? dfi_cudagraph_pair(l, x->plan, p) : -1;
  if (l->access_of[t.node] >= 0) return dfi_cudagraph_find_access(x, l, m, r, l->access_of[t.node]);
  const bool passes = p->kind == DFI_K_SWITCH || p->kind == DFI_K_TRANSFER || p->kind == DFI_K_CONST;
  const bool counts = p->kind == DFI_K_SCALAR && t.group < 0 && all_on_host(x, m, r, p);
  if (passes ? p->nin && dfi_cudagraph_on_host(m, r, in[0]) : counts) {
    const uint8_t varies = passes ? dfi_cudagraph_varies(m, in[0]) : takes_varying(x, m, r, t);
    for (uint32_t k = p->kind == DFI_K_SWITCH && pair < 0; k < (p->kind == DFI_K_SWITCH ? 2u : 1u); k++) {
      m->host[p->out + k] = DFI_CUDAGRAPH_COMPUTED;
      m->varies[p->out + k] = varies;
    }
    return true;
  }
  return passes || feed(x, l, m, r, t);
}

/* A Merge: of two numbers, where the host knows which; of one, where there is but one side. */
static bool find_merged(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                        dfi_cudagraph_step t) {
  const dfi_pnode *p = r->nodes + t.node;
  const int32_t pair = dfi_cudagraph_pair_of_merge(l, t.node);
  const dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, pair);
  const dfi_operand *in = x->plan->operand + p->in;
  if (s->known) {
    const dfi_operand o = in[dfi_cudagraph_merge_input(l, t.node, s->taken)];
    m->host[p->out] = dfi_cudagraph_on_host(m, r, o) ? DFI_CUDAGRAPH_COMPUTED : 0;
    m->varies[p->out] = dfi_cudagraph_varies(m, o);
    return true;
  }
  const dfi_operand pred = l->guard[pair].pred;
  if (!dfi_cudagraph_on_host(m, r, pred) || !all_on_host(x, m, r, p)) return feed(x, l, m, r, t);
  m->host[p->out] = DFI_CUDAGRAPH_COMPUTED;
  m->varies[p->out] = 1;
  return true;
}

bool dfi_cudagraph_find_numbers(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r) {
  const dfi_scope *s = l->scope;
  int32_t sides = 0;
  memset(m->host, 0, s->nslots);
  memset(m->varies, 0, s->nslots);
  m->nfed = 0;
  dfi_cudagraph_arrays_begin(l, m);
  for (uint32_t i = 0; i < s->ncopies; i++) m->host[s->copies[i].slot] = DFI_CUDAGRAPH_HELD;
  for (int32_t k = 0; k < l->nvars; k++)
    if (dfi_cudagraph_slot(r, l, k)->kind == DF_SCALAR) {
      const uint32_t slot = l->var[k].enter->out;
      m->host[slot] = m->varies[slot] = DFI_CUDAGRAPH_COMPUTED;
    }
  for (int32_t i = 0; i < l->nsteps; i++) {
    const dfi_cudagraph_step t = l->step[i];
    const int32_t to = dfi_cudagraph_skip(l, m, i);
    if (to > i) { i = to - 1; continue; }
    if (t.what == DFI_CUDAGRAPH_OPEN && dfi_cudagraph_chooses(m, (int32_t)t.node)) {
      const dfi_operand pred = l->guard[t.node].pred;
      sides++;
      if (dfi_cudagraph_on_host(m, r, pred) && dfi_cudagraph_fed(m, pred) < 0) m->fed[m->nfed++] = pred;
    }
    if (t.what == DFI_CUDAGRAPH_LOOP) feed_inner(x, l, m, r, &l->inner[t.node]);
    if (t.what != DFI_CUDAGRAPH_RUN) continue;
    const bool merges = t.group < 0 && (r->nodes + t.node)->kind == DFI_K_MERGE;
    if (!(merges ? find_merged(x, l, m, r, t) : find_number(x, l, m, r, t))) return false;
  }
  m->nrow = m->nfed + m->nwords;
  int32_t numbers = 0;
  for (int32_t k = 0; k < l->nvars; k++) numbers += m->host[l->var[k].enter->out] != 0;
  if (numbers > DFI_CUDAGRAPH_NUMBERS || m->nfed > DFI_CUDAGRAPH_NUMBERS)
    return !dfi_cudagraph_numbers_move(m) &&
           dfi_cudagraph_refuse(l, NULL, "it has more than %d numbers", DFI_CUDAGRAPH_NUMBERS);
  m->there = !dfi_cudagraph_on_host(m, r, l->pred);
  atomic_store(&l->there, m->there);
  int32_t arrays = 0;
  for (int32_t i = 0; i < l->naccess; i++) arrays += m->site[i].how == DFI_CUDAGRAPH_ELEMENT;
  atomic_store(&l->arrays, arrays);
  atomic_store(&l->sides, sides);
  return !m->there || predicate_there(x, l, r);
}

/* ---- what they are -------------------------------------------------------------------------------------------- */

/* Numbers that every record holds lie there; others in v. */
const df_value *dfi_cudagraph_number_at(const dfi_cudagraph_exec *m, const dfi_record *r, const df_value *v,
                                        dfi_operand o) {
  return DFI_SPACE(o) == DFI_ITERATION && m->host[DFI_INDEX(o)] == DFI_CUDAGRAPH_COMPUTED ? &v[DFI_INDEX(o)]
                                                                                        : operand(r, o);
}

/* The host's part of a step that runs. */
static bool compute(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r,
                    df_value *v, dfi_cudagraph_step t) {
  const dfi_pnode *p = r->nodes + t.node;
  const uint32_t to = p->out + (p->kind == DFI_K_SWITCH);
  const dfi_operand *in = x->plan->operand + p->in;
  if (t.group >= 0 || !p->nout || m->host[to] != DFI_CUDAGRAPH_COMPUTED) return true;
  if (p->kind == DFI_K_MERGE) {
    const int32_t pair = dfi_cudagraph_pair_of_merge(l, t.node);
    const dfi_cudagraph_side *s = dfi_cudagraph_side_of(m, pair);
    const bool side = s->known ? s->taken : dfi_cudagraph_number_at(m, r, v, l->guard[pair].pred)->as.u8 != 0;
    v[to] = *dfi_cudagraph_number_at(m, r, v, in[dfi_cudagraph_merge_input(l, t.node, side)]);
    return true;
  }
  const df_value *a = dfi_cudagraph_number_at(m, r, v, in[0]);
  if (p->kind != DFI_K_SCALAR) {
    v[to] = *a;
    if (p->kind == DFI_K_SWITCH) v[p->out] = *a;
    return true;
  }
  const df_value *b = dfi_cudagraph_number_at(m, r, v, in[1]), *c = dfi_cudagraph_number_at(m, r, v, in[2]);
  if (!p->scalar(&v[to], a, b, c)) return false;
  v[to].kind = DF_SCALAR;
  v[to].dtype = p->out_dtype;
  return true;
}

/* Is step i the beginning of a side that is not taken in this iteration, as the host knows? Then the step after it. */
static int32_t skip(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r, const df_value *v,
                    int32_t i) {
  const int32_t known = dfi_cudagraph_skip(l, m, i);
  const dfi_cudagraph_step t = l->step[i];
  if (known > i || (t.what != DFI_CUDAGRAPH_OPEN && t.what != DFI_CUDAGRAPH_OTHERWISE)) return known;
  const dfi_operand pred = l->guard[t.node].pred;
  if (!dfi_cudagraph_on_host(m, r, pred)) return i;
  const bool yes = dfi_cudagraph_number_at(m, r, v, pred)->as.u8 != 0;
  return yes == (t.what == DFI_CUDAGRAPH_OPEN) ? i : dfi_cudagraph_side_ends(l, i);
}

/* Has step i just found that the loop does not go on? */
static bool ends(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r, const df_value *v,
                 int32_t i) {
  const dfi_pnode *p = r->nodes + l->step[i].node;
  return !m->there && l->step[i].group < 0 && p->nout && p->out == l->pred && !v[p->out].as.u8 &&
         m->host[p->out] == DFI_CUDAGRAPH_COMPUTED;
}

bool dfi_cudagraph_numbers(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                           df_value *v,
                           uint64_t *fed) {
  df_value next[DFI_CUDAGRAPH_NUMBERS];
  int32_t n = 0;
  for (int32_t i = 0; i < l->nsteps; i++) {
    const int32_t to = skip(l, m, r, v, i);
    if (to > i) { i = to - 1; continue; }
    if (l->step[i].what != DFI_CUDAGRAPH_RUN) continue;
    const int32_t a = l->access_of[l->step[i].node];
    if (!(a < 0 ? compute(x, l, m, r, v, l->step[i]) : dfi_cudagraph_access_ahead(x, l, m, r, v, a, fed + m->nfed)) ||
        ends(l, m, r, v, i))
      return false;
  }
  if (!m->there && !dfi_cudagraph_number_at(m, r, v, l->pred)->as.u8) return false;
  for (int32_t q = 0; q < m->nfed; q++) fed[q] = dfi_cudagraph_number_at(m, r, v, m->fed[q])->as.u64;
  for (int32_t k = 0; k < l->nvars; k++)                 /* all are read before one is written */
    if (m->host[l->var[k].enter->out] && l->var[k].next)
      next[n++] = *dfi_cudagraph_number_at(m, r, v, x->plan->operand[l->var[k].next->in]);
  n = 0;
  for (int32_t k = 0; k < l->nvars; k++)
    if (m->host[l->var[k].enter->out] && l->var[k].next) v[l->var[k].enter->out] = next[n++];
  return true;
}
