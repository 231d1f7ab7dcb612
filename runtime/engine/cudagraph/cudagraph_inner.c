/* cudagraph_inner.c: loops inside the body of a loop that runs as a graph. See cudagraph.h.
 *
 * Such a loop is gone through in a record of its own, in the turn of its Enters. Where the host knows that it has but a
 * few iterations, since all that its predicate depends on is there while the graph is captured, they are captured one
 * after the other. Else its variables lie in tensors of the graph's, numbers among them, and it is a WHILE node: the
 * GPU counts. After the no the body is computed and masked, as everywhere, and leaves the variables as they are.
 *
 * A stop of the run waits for a launch, so all of a launch's loops inside have but so many iterations. One that would
 * have more is cut off, and so is the iteration around it, as if it had never begun.
 */
#include "engine/cudagraph/cudagraph.h"
#include "engine/tokens/frame.h"
#include "engine/tokens/group_run.h"
#include "engine/token.h"
#include "engine/owners/transfer.h"
#include "plan/place.h"

enum {
  TRIPS = 32,              /* iterations in a row, */
  STEPS = 256              /* and steps of them all, at most */
};

static const dfi_remote *remote_of(const dfi_exec *x, const dfi_cudagraph_loop *l) {
  return x->plan->devices->at[l->device]->remote;
}
static bool refused(dfi_cudagraph_failure *why, const char *what) {
  dfi_fail(&why->err, DF_UNIMPLEMENTED, NULL, "%s", what);
  return false;
}

/* ---- once for each loop ------------------------------------------------------------------------------------------ */

static bool has_arrays(const dfi_cudagraph_loop *l) {
  for (int32_t k = 0; k < l->nvars; k++) if (l->var[k].enter->out_dtype == DF_RESOURCE) return true;
  return l->naccess > 0;
}

/* Is what leaves the loop one of its variables, or what does not change in it? */
static bool gives_variables(const dfi_plan *plan, const dfi_cudagraph_loop *l) {
  const dfi_scope *s = l->scope;
  for (uint32_t i = 0; i < s->nexits; i++) {
    const dfi_operand from = plan->operand[s->exits[i]->in];
    const dfi_pnode *p = NULL;
    for (uint32_t k = 0; k < s->n && !p && DFI_SPACE(from) == DFI_ITERATION; k++) {
      const dfi_pnode *q = plan->node + s->first + k;
      if (q->kind == DFI_K_SWITCH && q->out == DFI_INDEX(from)) p = q;
    }
    const dfi_operand data = p ? plan->operand[p->in] : from;
    bool is = p && DFI_SPACE(data) != DFI_ITERATION;
    for (int32_t k = 0; k < l->nvars && p; k++) is = is || data == DFI_OPERAND(DFI_ITERATION, l->var[k].enter->out);
    if (!is) return false;
  }
  return true;
}

/* Do conds, or loops inside, take part in what its predicate is? */
static bool has_parts_in_predicate(const dfi_plan *plan, const dfi_cudagraph_loop *l) {
  for (uint32_t i = 0; i < l->scope->n; i++) {
    const dfi_pnode *p = plan->node + l->scope->first + i;
    if (!l->last_dead[i] && (l->guard_of[i] > 0 || l->pair_of[i] >= 0 || p->kind == DFI_K_ENTER)) return true;
  }
  return false;
}

/* Does it read a variable that came in through an Enter? The graph could not tell that it has been assigned. */
static bool reads_what_came_in(const dfi_plan *plan, const dfi_cudagraph_loop *l) {
  for (uint32_t i = 0; i < l->scope->n; i++) {
    const dfi_pnode *p = plan->node + l->scope->first + i;
    if (p->kind == DFI_K_READ && DFI_SPACE(l->handle_of[i]) == DFI_FRAME) return true;
  }
  return false;
}

/* Why it cannot be inside another one; NULL: it can. */
static const char *hindrance(const dfi_plan *plan, const dfi_cudagraph_loop *l) {
  if (has_arrays(l)) return "it works on arrays";
  if (reads_what_came_in(plan, l)) return "it reads a variable that came in";
  if (DFI_SPACE(l->pred) != DFI_ITERATION) return "its predicate does not change in it";
  if (has_parts_in_predicate(plan, l)) return "its predicate has a cond or a loop";
  return gives_variables(plan, l) ? NULL : "what leaves it is none of its variables";
}

static bool add_inner(const dfi_plan *plan, dfi_cudagraph_loop *l, const dfi_scope *s) {
  dfi_cudagraph_loop *in = &plan->cudagraph->loop[s->id];
  if (!in->scope) return dfi_cudagraph_refuse(l, NULL, "%s, a loop inside, has nothing to do with a GPU", s->name);
  pthread_mutex_lock(&in->lock);
  const bool can = dfi_cudagraph_analyze(plan, in);
  pthread_mutex_unlock(&in->lock);
  const char *why = can ? hindrance(plan, in) : atomic_load(&in->reason);
  if (why) return dfi_cudagraph_refuse(l, NULL, "%s, a loop inside: %s", s->name, why);
  l->inner[l->ninner++] = (dfi_cudagraph_inner){ .loop = in, .missing = (int32_t)s->nenters, .guard = -1 };
  return true;
}

bool dfi_cudagraph_find_inner(const dfi_plan *plan, dfi_cudagraph_loop *l) {
  l->inner = dfi_xcalloc(l->scope->nchildren + 1, sizeof *l->inner);
  for (int32_t i = 1; i < plan->nscopes; i++)
    if (plan->scope[i].parent == l->scope->id && !add_inner(plan, l, &plan->scope[i])) return false;
  return true;
}

bool dfi_cudagraph_inner_fit(const dfi_plan *plan, dfi_cudagraph_loop *l) {
  for (int32_t i = 0; i < l->ninner; i++) {
    const dfi_cudagraph_loop *in = l->inner[i].loop;
    if (in->device != l->device)
      return dfi_cudagraph_refuse(l, NULL, "%s, a loop inside, is on %s, and others are on %s", in->scope->name,
                                  plan->devices->at[in->device]->name, plan->devices->at[l->device]->name);
  }
  return true;
}

int32_t dfi_cudagraph_words(const dfi_cudagraph_loop *l) {
  int32_t n = DFI_TALLY_SIDES + dfi_cudagraph_pairs(l);  /* the last: of IF nodes that count no cond */
  for (int32_t i = 0; i < l->ninner; i++) n += dfi_cudagraph_words(l->inner[i].loop);
  return n;
}

int32_t dfi_cudagraph_steps(const dfi_cudagraph_loop *l) {
  int32_t n = l->nsteps;
  for (int32_t i = 0; i < l->ninner; i++) n += 4 * dfi_cudagraph_steps(l->inner[i].loop);
  return n;
}

/* ---- what is kept of them ---------------------------------------------------------------------------------------- */

void dfi_cudagraph_inner_prepare(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  m->inner = dfi_xcalloc((size_t)l->ninner + 1, sizeof *m->inner);
  for (int32_t i = 0; i < l->ninner; i++) {
    const dfi_cudagraph_loop *in = l->inner[i].loop;
    dfi_cudagraph_exec *im = m->inner[i] = dfi_xcalloc(1, sizeof *im);
    im->inside = true;
    dfi_cudagraph_make_room(in, im);
  }
}

void dfi_cudagraph_inner_drop(const dfi_plan *p, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  for (int32_t i = 0; m->inner && i < l->ninner; i++) {
    dfi_cudagraph_exec *im = m->inner[i];
    dfi_free(im->record ? im->record->frame : NULL);
    dfi_free(im->record);
    dfi_cudagraph_drop(p, l->inner[i].loop, im);
  }
  dfi_free(m->inner);
}

bool dfi_cudagraph_share_tally(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t from) {
  int32_t at = from + DFI_TALLY_SIDES + dfi_cudagraph_pairs(l);
  for (int32_t i = 0; i < l->ninner; i++) {
    const dfi_cudagraph_loop *in = l->inner[i].loop;
    dfi_cudagraph_exec *im = m->inner[i];
    const int64_t n = dfi_cudagraph_words(in);
    df_tensor_release(im->tally);
    im->tally = dfi_tensor_view(m->tally, at - from, 1, &n);
    im->ntally = (int32_t)n;
    if (!im->tally || !dfi_cudagraph_share_tally(in, im, at)) return false;
    at += (int32_t)n;
  }
  return true;
}

void dfi_cudagraph_allow(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, int64_t *tally) {
  int64_t *at = tally + DFI_TALLY_SIDES + dfi_cudagraph_pairs(l);
  for (int32_t i = 0; i < l->ninner; i++) {
    at[DFI_TALLY_MOST] = m->inner_most;
    m->inner[i]->inner_most = m->inner_most;
    dfi_cudagraph_allow(l->inner[i].loop, m->inner[i], at);
    at += dfi_cudagraph_words(l->inner[i].loop);
  }
}

/* ---- in and out -------------------------------------------------------------------------------------------------- */

/* A record for its iterations, whose frame holds its constants while they are captured. */
static dfi_record *record_of(dfi_exec *x, const dfi_cudagraph_loop *in, dfi_cudagraph_exec *im, dfi_record *r) {
  if (!im->record) {
    dfi_frame *f = dfi_xcalloc(1, sizeof *f + sizeof *f->constants * (in->scope->nconsts + 1));
    f->scope = in->scope;
    f->constants = (df_value *)(f + 1);
    im->record = dfi_iteration_make(x, f, 0);
  }
  dfi_record *ir = im->record;
  ir->frame->borrowed = x->borrowed;
  ir->frame->parent = r->frame;
  ir->frame->origin = r;
  dfi_iteration_begin(x, ir->frame, 0, ir, (char *)ir->base[DFI_ITERATION]);
  dfi_groups_begin(x, ir, in->scope);
  return ir;
}

static void forget_constants(dfi_record *ir) {
  for (uint32_t i = 0; i < ir->frame->scope->nconsts; i++) {
    dfi_value_drop(&ir->frame->constants[i]);
    ir->frame->constants[i] = (df_value){ 0 };
  }
}

/* What enters it, in its record. Numbers that vary become the GPU's. */
static bool come_in(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_record *r,
                    const dfi_cudagraph_loop *in, dfi_cudagraph_exec *im, dfi_cudagraph_failure *why) {
  const dfi_scope *s = in->scope;
  dfi_record *ir = im->record;
  for (uint32_t i = 0; i < s->nenters; i++) {
    const dfi_pnode *p = s->enters[i];
    const dfi_operand from = x->plan->operand[p->in];
    (p->constant ? im->counts_in : im->counts)[p->out] = dfi_cudagraph_counts(m, r, from);
    df_value v = operand_take(r, from);
    const bool varies = v.kind == DF_SCALAR && dfi_cudagraph_varies(m, from);
    const bool ok = !varies || dfi_cudagraph_bring(x, l, m, from, &v);
    df_value *slot = p->constant ? ir->frame->constants + p->out : ir->base[DFI_ITERATION] + p->out;
    *slot = v;
    if (!p->constant) slot_filled(ir, slot, s->uses[p->out]);
    why->where = p;
    if (!ok) return refused(why, "there is no memory for what enters a loop inside");
    if (v.kind == DF_HANDLE && !p->constant) return refused(why, "a loop inside works on arrays");
  }
  return true;
}

/* What leaves it, in r. */
static bool come_out(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_record *r,
                     const dfi_cudagraph_loop *in, const dfi_cudagraph_exec *im, dfi_cudagraph_failure *why) {
  const dfi_scope *s = in->scope;
  dfi_record *ir = im->record;
  for (uint32_t i = 0; i < s->nexits; i++) {
    const dfi_pnode *p = s->exits[i], *sw = NULL;
    for (uint32_t k = 0; k < s->n && !sw; k++)
      if (ir->nodes[k].kind == DFI_K_SWITCH && ir->nodes[k].out == DFI_INDEX(x->plan->operand[p->in]))
        sw = ir->nodes + k;
    const dfi_operand from = x->plan->operand[sw->in];
    df_value v = dfi_value_copy(operand(ir, from)), *slot = r->base[DFI_ITERATION] + p->out;
    const bool here = v.kind == DF_SCALAR || (v.kind == DF_TENSOR && dfi_readable(v.as.tensor));
    why->where = p;
    if (here && !dfi_cudagraph_bring(x, l, m, DFI_OPERAND(DFI_CONSTANT, 0), &v)) {
      dfi_value_drop(&v);
      return refused(why, "there is no memory for what leaves a loop inside");
    }
    *slot = v;
    slot_filled(r, slot, r->frame->scope->uses[p->out]);
    m->counts[p->out] = dfi_cudagraph_counts(im, ir, from);
  }
  return true;
}

/* ---- how many iterations ----------------------------------------------------------------------------------------- */

/* A step of what the host can say ahead: v has what is known, by slot. */
static void foresee(const dfi_exec *x, const dfi_record *ir, df_value *v, dfi_cudagraph_step t) {
  const dfi_pnode *p = ir->nodes + t.node;
  const df_value *in[3] = { 0 };
  if (t.what != DFI_CUDAGRAPH_RUN || t.group >= 0 || !p->nout) return;
  for (uint32_t i = 0; i < 3; i++) {
    const dfi_operand o = x->plan->operand[p->in + i];
    in[i] = DFI_SPACE(o) == DFI_ITERATION ? &v[DFI_INDEX(o)] : operand(ir, o);
    if (i < (p->kind == DFI_K_SCALAR ? p->nin : 1) && in[i]->kind != DF_SCALAR) return;
  }
  const uint32_t to = p->out + (p->kind == DFI_K_SWITCH);
  if (p->kind == DFI_K_SCALAR) {
    if (!p->scalar(&v[to], in[0], in[1], in[2])) { v[to] = (df_value){ 0 }; return; }
    v[to].kind = DF_SCALAR;
    v[to].dtype = p->out_dtype;
  } else if (p->kind == DFI_K_SWITCH || p->kind == DFI_K_TRANSFER || p->kind == DFI_K_CONST) v[to] = *in[0];
}

/* All but variables and constants is of the iteration before. */
static void forget_made(const dfi_cudagraph_loop *in, const dfi_record *ir, df_value *v) {
  for (uint32_t i = 0; i < in->scope->n; i++) {
    const dfi_pnode *p = ir->nodes + i;
    if (dfi_is_next(p->kind) || dfi_is_exit(p->kind)) continue;
    for (uint32_t k = 0; k < p->nout; k++) v[p->out + k] = (df_value){ 0 };
  }
}

/* How many iterations it has, where that is known and they are few; -1. */
static int32_t trips_of(const dfi_exec *x, const dfi_cudagraph_loop *in, const dfi_record *ir) {
  const uint32_t nslots = in->scope->nslots;
  df_value *v = dfi_xcalloc(nslots + 1, sizeof *v), *next = dfi_xcalloc((size_t)in->nvars + 1, sizeof *next);
  int32_t trips = in->ninner ? -1 : 0;
  const df_value *slot = ir->base[DFI_ITERATION];
  for (uint32_t i = 0; i < nslots; i++) if (slot[i].kind == DF_SCALAR) v[i] = slot[i];
  while (trips >= 0) {
    forget_made(in, ir, v);
    for (int32_t i = 0; i < in->nsteps; i++) foresee(x, ir, v, in->step[i]);
    const df_value *pred = &v[DFI_INDEX(in->pred)];
    if (pred->kind == DF_SCALAR && !pred->as.u8) break;
    trips++;
    if (pred->kind != DF_SCALAR || trips > TRIPS || trips * in->nsteps > STEPS) { trips = -1; break; }
    for (int32_t k = 0; k < in->nvars; k++) {
      const dfi_operand o = in->var[k].next ? x->plan->operand[in->var[k].next->in] : DFI_OPERAND(DFI_CONSTANT, 0);
      const df_value *is = DFI_SPACE(o) == DFI_ITERATION ? &v[DFI_INDEX(o)] : operand(ir, o);
      next[k] = is->kind == DF_SCALAR ? *is : (df_value){ 0 };
    }
    for (int32_t k = 0; k < in->nvars; k++) v[in->var[k].enter->out] = next[k];
  }
  dfi_free(next);
  dfi_free(v);
  return trips;
}

/* ---- capturing --------------------------------------------------------------------------------------------------- */

/* The variables lie in tensors of their own: in what came in, where that has no other holder. */
static bool settle(dfi_exec *x, const dfi_cudagraph_loop *in, dfi_cudagraph_exec *im, dfi_record *ir,
                   dfi_cudagraph_failure *why) {
  const dfi_device *d = x->plan->devices->at[in->device];
  for (int32_t k = 0; k < in->nvars; k++) {
    df_value *slot = dfi_cudagraph_slot(ir, in, k);
    if (slot->kind == DF_EMPTY) continue;
    df_value v = dfi_value_copy(slot);
    const bool here = v.kind == DF_SCALAR || (v.kind == DF_TENSOR && dfi_readable(v.as.tensor));
    bool ok = !here || dfi_cudagraph_bring(x, in, im, DFI_OPERAND(DFI_CONSTANT, 0), &v);
    if (ok && !here) {
      df_tensor *own = dfi_tensor_copy_in(v.as.tensor, d->arena);
      if (own == v.as.tensor) { df_tensor_release(own); own = NULL; }
      df_tensor_release(v.as.tensor);
      v.as.tensor = own;
      if (!(ok = own != NULL)) v = (df_value){ 0 };
    }
    im->state[k] = v;
    if (!ok) return refused(why, "there is no memory for the variables of a loop inside");
    if (slot->kind == DF_SCALAR) ir->held++;
    else df_value_release(slot);
    *slot = dfi_value_copy(&im->state[k]);
    slot->uses = in->scope->uses[in->var[k].enter->out];
  }
  return true;
}

static void forget_state(const dfi_cudagraph_loop *in, dfi_cudagraph_exec *im) {
  for (int32_t k = 0; k < in->nvars; k++) {
    if (im->state[k].kind == DF_TENSOR) dfi_value_drop(&im->state[k]);
    im->state[k] = (df_value){ 0 };
  }
}

static bool begin(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m,
                  const dfi_cudagraph_exec *im,
                  uint64_t condition) {
  const dfi_remote *g = remote_of(x, l);
  return g->begin(g->device, im->tally->data, m->tally->data, dfi_note_of(m->tally->buffer), condition);
}

/* As a WHILE node. */
static bool go_again(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_cudagraph_loop *in,
                     dfi_cudagraph_exec *im, dfi_record *ir, dfi_cudagraph_failure *why) {
  const dfi_remote *g = remote_of(x, l);
  im->there = im->again = im->masked = true;
  if (!settle(x, in, im, ir, why)) return false;
  const uint64_t c = g->condition ? g->condition(g->device, false) : 0;      /* some node must have it from here on */
  if (!c) return refused(why, "a loop inside, and the device's graphs have no conditional nodes, or none so deep");
  if (!begin(x, l, m, im, c) || !g->open(g->device, c, true)) return refused(why, "a loop inside cannot begin");
  if (!dfi_cudagraph_iteration(x, in, im, ir, c, why)) return false;
  if (!dfi_cudagraph_around(x, in, im, ir, why)) {
    if (!why->changed) return false;
    why->changed = false;
    return refused(why, "the shape or the place of a variable of a loop inside changes");
  }
  for (int32_t k = 0; k < in->nvars; k++) {              /* as the node leaves them */
    df_value *slot = dfi_cudagraph_slot(ir, in, k);
    if (slot->kind < DF_TENSOR) continue;
    df_tensor_release(slot->as.tensor);
    slot->as.tensor = df_tensor_retain(im->state[k].as.tensor);
  }
  return g->end(g->device, im->tally->data, m->tally->data, dfi_note_of(m->tally->buffer)) ||
         refused(why, "a loop inside cannot end");
}

/* Its iterations in a row. */
static bool go_through(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_cudagraph_loop *in,
                       dfi_cudagraph_exec *im, dfi_record *ir, dfi_cudagraph_failure *why) {
  im->there = im->again = im->masked = false;
  if (in->nguards > 1 && !begin(x, l, m, im, 0)) return refused(why, "a loop inside cannot begin");
  for (int32_t i = 0; i < im->trips; i++) if (!dfi_cudagraph_iteration(x, in, im, ir, 0, why)) return false;
  return true;
}

bool dfi_cudagraph_inner_captured(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                                  int32_t which,
                                  dfi_cudagraph_failure *why) {
  dfi_cudagraph_loop *in = l->inner[which].loop;
  dfi_cudagraph_exec *im = m->inner[which];
  dfi_record *ir = record_of(x, in, im, r);
  im->compiles = m->compiles;
  im->fixed = m->fixed;                    /* borrowed: where values of variables are read */
  im->nfixed = m->nfixed;
  bool ok = come_in(x, l, m, r, in, im, why);
  if (ok) {
    dfi_cudagraph_sides(in, im, ir);
    im->trips = trips_of(x, in, ir);
    im->unrolled = im->trips >= 0;
    ok = im->unrolled ? go_through(x, l, m, in, im, ir, why) : go_again(x, l, m, in, im, ir, why);
  }
  ok = ok && come_out(x, l, m, r, in, im, why);
  if (ok) atomic_store(&in->within, 1 + im->unrolled);
  dfi_cudagraph_clear_slots(ir);
  forget_constants(ir);
  forget_state(in, im);
  im->fixed = NULL;
  im->nfixed = 0;
  return ok;
}

bool dfi_cudagraph_commit(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m) {
  const dfi_remote *g = remote_of(x, l);
  if (m->inside || !l->ninner) return true;
  int64_t *tally = m->tally->data;
  void *note = dfi_note_of(m->tally->buffer);
  /* by the host's word it is one: where it goes on, that is counted here */
  return (m->there || g->decide(g->device, tally, note, tally + DFI_TALLY_ON, note, 0)) &&
         g->keep(g->device, tally, note, tally + m->ntally, note, tally, note, (int64_t)sizeof *tally * m->ntally);
}

bool dfi_cudagraph_call(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_record *r, dfi_pnode *p, df_error *err) {
  if (p->kind != DFI_K_SCALAR || (p->device == l->device && p->gpu)) return !dfi_call_alone(x, r, p, err);
  dfi_pnode there = *p;
  there.gpu = dfi_plan_gpu_kernel(p->node);
  there.device = l->device;
  if (!there.gpu || !dfi_cudagraph_exact(p)) {
    dfi_fail(err, DF_UNIMPLEMENTED, NULL, "the host computes it, of what the GPU counts");
    return false;
  }
  return !dfi_call_alone(x, r, &there, err);
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* How often it was entered, and its iterations. */
static void count_one(dfi_exec *x, const dfi_cudagraph_loop *in, const dfi_cudagraph_exec *im, const int64_t *tally,
                      int64_t entered) {
  const dfi_scope *s = in->scope;
  const int64_t n = im->unrolled ? im->trips * entered : tally[DFI_TALLY_COUNT];
  int64_t merges = 0;
  for (uint32_t i = 0; i < s->nenters; i++) merges += !s->enters[i]->constant && s->enters[i]->merges;
  x->count.taken += n * in->taken + entered * (in->taken + s->nexits);
  x->count.merged += n * in->merged + entered * merges;
  x->count.iterations += n;
  x->count.died += entered * in->died_last;
  for (int32_t g = 1; g < in->nguards; g++)
    x->count.died += in->guard[g].nodes * (n - dfi_cudagraph_alive(in, im, tally, g, n));
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = x->plan->node + s->first + i;
    if (p->kind != DFI_K_TRANSFER) continue;
    const int64_t alive = dfi_cudagraph_alive(in, im, tally, in->guard_of[i], n) + (in->last_dead[i] ? 0 : entered);
    x->traffic[p->child].messages += n + entered;
    x->traffic[p->child].bytes += alive * im->message[i];
    x->traffic[p->child].dead += n + entered - alive;
  }
  dfi_cudagraph_count_inner(x, in, im, tally, n, entered);
}

void dfi_cudagraph_count_inner(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m,
                               const int64_t *tally,
                               int64_t n, int64_t ended) {
  const int64_t *at = tally + DFI_TALLY_SIDES + dfi_cudagraph_pairs(l);
  for (int32_t i = 0; i < l->ninner; i++) {
    dfi_cudagraph_loop *in = l->inner[i].loop;
    const int64_t entered = dfi_cudagraph_alive(l, m, tally, l->inner[i].guard, n);
    x->count.frames += n + ended;
    x->count.ended += (n + ended - entered) * in->scope->nexits;     /* of those that it entered dead */
    count_one(x, in, m->inner[i], at, entered);
    at += dfi_cudagraph_words(in);
  }
}
