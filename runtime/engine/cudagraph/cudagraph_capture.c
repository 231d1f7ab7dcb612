/* cudagraph_capture.c: a graph of a loop's iterations. See cudagraph.h.
 *
 * The body's nodes run in their order, with their own kernels, in the slots of the iteration at hand; only what they
 * enqueue does not run but becomes the graph. What lay in the slots is put back.
 */
#include "engine/cudagraph/cudagraph.h"
#include "engine/tokens/group_run.h"
#include "engine/token.h"
#include "resource/variable.h"
#include <stdio.h>

/* ---- capturing ------------------------------------------------------------------------------------------------- */

/* A Transfer brings its input to where it is read; what a node of the graph decides stays. */
static bool transfer(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_record *r,
                     const dfi_pnode *p, const dfi_device *d, df_error *err) {
  df_value v = operand_take(r, x->plan->operand[p->in]), *out = r->base[DFI_ITERATION] + p->out;
  m->message[p - r->nodes] = dfi_value_bytes(&v);
  const bool stays = (m->inside || l->decides[p - r->nodes]) && v.kind == DF_TENSOR && !dfi_readable(v.as.tensor);
  const bool there = stays || dfi_value_in(&v, p->constant ? NULL : d->arena, out);
  if (stays) *out = v;
  else dfi_value_drop(&v);
  if (!there) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "a value cannot be brought to where it is read");
    return false;
  }
  out->uses = 0;
  slot_filled(r, out, r->frame->scope->uses[p->out]);
  return true;
}

/* A node that hands its input on. */
static bool pass_on(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, const dfi_pnode *p,
                    const dfi_device *d, df_error *err) {
  const dfi_scope *s = r->frame->scope;
  const bool counts = p->nin && dfi_cudagraph_counts(m, r, x->plan->operand[p->in]);
  for (uint32_t k = 0; k < p->nout; k++) m->counts[p->out + k] = counts;
  if (p->kind == DFI_K_TRANSFER) return transfer(x, l, m, r, p, d, err);
  const int32_t pair = p->kind == DFI_K_SWITCH ? dfi_cudagraph_pair(l, x->plan, p) : -1;
  if (pair >= 0) { dfi_cudagraph_switch(x, l, m, r, p, pair); return true; }
  df_value *out = r->base[DFI_ITERATION] + p->out + (p->kind == DFI_K_SWITCH);
  *out = operand_take(r, x->plan->operand[p->in]);
  slot_filled(r, out, s->uses[out - r->base[DFI_ITERATION]]);
  if (p->kind == DFI_K_SWITCH) operand_used(r, x->plan->operand[p->in + 1]);
  return true;
}

/* The value is the one that later runs are compared with, whatever others assign meanwhile. */
static bool read_variable(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_record *r,
                          const dfi_pnode *p, df_error *err) {
  df_value *out = r->base[DFI_ITERATION] + p->out;
  const dfi_cudagraph_fixed *f = dfi_cudagraph_read(m, l->handle_of[p - r->nodes]);
  if (f->value.kind == DF_EMPTY)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "the variable has no value"), false;
  *out = f->value;
  if (out->kind == DF_TENSOR) out->as.tensor = df_tensor_retain(f->place ? f->place : f->value.as.tensor);
  slot_filled(r, out, r->frame->scope->uses[p->out]);
  drop_inputs((dfi_exec *)x, r, p);
  return true;
}

/* Inputs that vary become tensors of the GPU's, for the one call. */
static bool put_numbers(const dfi_exec *x, dfi_cudagraph_exec *m, dfi_record *r, dfi_cudagraph_step t) {
  enum { MANY_READERS = 1 << 20 };         /* no call lets it go */
  for (int32_t i = 0; i < dfi_cudagraph_inputs(x, r, t); i++) {
    const dfi_operand o = dfi_cudagraph_input(x, r, t, i);
    for (int32_t q = 0; q < m->nfed; q++) {
      df_value *slot = operand(r, o);
      if (!dfi_cudagraph_varies(m, o) || m->fed[q] != o || slot->kind != DF_SCALAR) continue;
      df_tensor *view = m->again ? dfi_tensor_view(m->row, q, 0, NULL)
                                 : dfi_tensor_view(m->numbers, (int64_t)m->at * m->nrow + q, 0, NULL);
      if (!view) return false;
      m->kept[q] = *slot;
      view->dtype = slot->dtype;
      *slot = (df_value){ .kind = DF_TENSOR, .dtype = slot->dtype, .as.tensor = view };
      slot->uses = MANY_READERS;
    }
  }
  return true;
}
static void take_numbers_back(dfi_cudagraph_exec *m, dfi_record *r) {
  for (int32_t q = 0; q < m->nfed; q++) {
    df_value *slot = operand(r, m->fed[q]);
    if (m->kept[q].kind == DF_EMPTY) continue;
    df_value_release(slot);
    *slot = m->kept[q];
    m->kept[q].kind = DF_EMPTY;
  }
}

/* By the GPU. */
static bool run_there(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                      dfi_cudagraph_step t,
                      df_error *err) {
  dfi_group *g = t.group >= 0 ? &x->plan->group[t.group] : NULL;
  bool ok = put_numbers(x, m, r, t);
  if (!ok) dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory");
  else if (!g) ok = dfi_cudagraph_call(x, l, r, r->nodes + t.node, err);
  else if (!dfi_group_values(x, r, g, m->compiles)) {
    for (int32_t i = 0; i < g->n && ok; i++) ok = !dfi_call_alone(x, r, r->nodes + g->member[i].node, err);
  }
  take_numbers_back(m, r);
  return ok;
}

/* Is it a number of the host's, as the graph is captured? */
static bool is_number(const dfi_exec *x, const dfi_cudagraph_exec *m, const dfi_record *r, const dfi_pnode *p) {
  bool all = true;
  if (!m->inside) return m->host[p->out];
  for (uint32_t i = 0; i < p->nin && all; i++) all = operand(r, x->plan->operand[p->in + i])->kind == DF_SCALAR;
  return all;
}

static bool run_step(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, dfi_cudagraph_step t,
                     const dfi_device *d, df_error *err) {
  const dfi_pnode *p = r->nodes + t.node;
  df_value *out = r->base[DFI_ITERATION] + p->out;
  const dfi_operand *in = x->plan->operand + p->in;
  if (t.group >= 0) return run_there(x, l, m, r, t, err);
  if (l->access_of[t.node] >= 0) return dfi_cudagraph_access_captured(x, l, m, r, l->access_of[t.node], err);
  switch ((dfi_kind)p->kind) {
  case DFI_K_NOOP: return true;
  case DFI_K_READ: return read_variable(x, l, m, r, p, err);
  case DFI_K_SWITCH: case DFI_K_TRANSFER: case DFI_K_CONST: return pass_on(x, l, m, r, p, d, err);
  case DFI_K_MERGE: dfi_cudagraph_merge(x, l, m, r, p); return true;
  case DFI_K_SCALAR:
    if (!is_number(x, m, r, p)) return dfi_cudagraph_count_on(x, m, r, p, err) && run_there(x, l, m, r, t, err);
    if (!p->scalar(out, operand(r, in[0]), operand(r, in[1]), operand(r, in[2]))) {
      out->as.u64 = 0;                     /* where it counts, dfi_cudagraph_numbers leaves it to the tokens */
      out->kind = DF_SCALAR;
      out->dtype = p->out_dtype;
      if (l->guard_of[t.node] > 0 && !m->inside) return true;
      dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "its numbers are wrong");
      return false;
    }
    out->kind = DF_SCALAR;
    out->dtype = p->out_dtype;
    return true;
  default: return dfi_cudagraph_count_on(x, m, r, p, err) && run_there(x, l, m, r, t, err);
  }
}

/* What an iteration left, when it stopped in the middle. */
void dfi_cudagraph_clear_slots(dfi_record *r) {
  for (uint32_t i = 0; i < r->frame->scope->nslots; i++) {
    df_value *v = r->base[DFI_ITERATION] + i;
    if (v->kind < DF_TENSOR) continue;
    df_value_release(v);
    v->kind = DF_EMPTY;
    r->held--;
  }
}

/* As soon as the predicate is there the GPU counts the iteration, or no more. `again`: which WHILE node is told. */
static bool decide(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r, const dfi_device *d,
                   uint64_t again, bool *decided, df_error *err) {
  const df_value *pred = *decided ? NULL : r->base[DFI_ITERATION] + DFI_INDEX(l->pred);
  if (!pred || pred->kind != DF_TENSOR) return true;
  *decided = true;
  return d->remote->decide(d->remote->device, m->tally->data, dfi_note_of(m->tally->buffer), pred->as.tensor->data,
                           dfi_note_of(pred->as.tensor->buffer), again) ||
         dfi_fail(err, DF_UNAVAILABLE, NULL, "the predicate cannot be looked at") == DF_OK;
}

/* What a side gives is added to what the other one has given. */
static void forget_joined(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r) {
  for (uint32_t i = 0; i < l->scope->n; i++) if (r->nodes[i].kind == DFI_K_MERGE) m->counts[r->nodes[i].out] = 0;
}

bool dfi_cudagraph_iteration(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, uint64_t again,
                             dfi_cudagraph_failure *why) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  df_error *err = &why->err;
  df_value *next = dfi_xcalloc((size_t)l->nvars + 1, sizeof *next);
  forget_joined(l, m, r);
  bool decided = !m->there, ok = decide(l, m, r, d, again, &decided, err);
  for (int32_t i = 0; i < l->nsteps && ok; i++) {
    const dfi_cudagraph_step t = l->step[i];
    const int32_t to = dfi_cudagraph_skip(l, m, i);
    if (to > i) { i = to - 1; continue; }
    if (t.what == DFI_CUDAGRAPH_LOOP) { ok = dfi_cudagraph_inner_captured(x, l, m, r, (int32_t)t.node, why); continue; }
    if (t.what != DFI_CUDAGRAPH_RUN) { ok = dfi_cudagraph_side_step(x, l, m, r, t, decided, err); continue; }
    why->where = r->nodes + t.node;
    const bool was = decided;
    ok = run_step(x, l, m, r, t, d, err) && decide(l, m, r, d, again, &decided, err) &&
         (was || !decided || dfi_cudagraph_count_late(x, l, m));
  }
  if (ok && !decided) ok = dfi_fail(err, DF_UNIMPLEMENTED, NULL, "its predicate is a number of the host's") == DF_OK;
  ok = ok && dfi_cudagraph_counts_go_on(x, l, m, r, err);
  for (int32_t k = 0; k < l->nvars && ok; k++)
    if (l->var[k].next) next[k] = operand_take(r, x->plan->operand[l->var[k].next->in]);
  dfi_cudagraph_sides_end(l, m);
  if (!ok) dfi_cudagraph_clear_slots(r);
  for (int32_t k = 0; k < l->nvars && ok; k++) {
    df_value *slot = dfi_cudagraph_slot(r, l, k);
    *slot = next[k];
    slot_filled(r, slot, l->scope->uses[l->var[k].enter->out]);
  }
  dfi_free(next);
  return ok;
}

/* Does the value lie where some variable of the graph does? Then it is read before those are written. */
static bool lies_in_state(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const df_tensor *t) {
  for (int32_t k = 0; k < l->nvars; k++)
    if (m->state[k].kind == DF_TENSOR && m->state[k].as.tensor->buffer == t->buffer) return true;
  return false;
}

/* What of the variables lies where others are to lie is copied before they are written. */
static bool bring_apart(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_record *r) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  bool ok = true;
  for (int32_t k = 0; k < l->nvars && ok; k++) {
    df_value *is = dfi_cudagraph_slot(r, l, k);
    if (is->kind != DF_TENSOR || !lies_in_state(l, m, is->as.tensor) ||
        m->state[k].as.tensor->data == is->as.tensor->data)
      continue;
    df_tensor *apart = dfi_tensor_copy_in(is->as.tensor, d->arena);
    if (apart == NULL) { ok = false; break; }
    const uint32_t uses = is->uses;
    df_value_release(is);
    *is = (df_value){ .kind = DF_TENSOR, .dtype = apart->dtype, .as.tensor = apart };
    is->uses = uses;
  }
  return ok;
}

static bool is_elsewhere(const df_value *is, const df_value *state) {
  return is->kind == DF_TENSOR && is->as.tensor->data != state->as.tensor->data;
}

/* The variables that the iterations end with become those that the next launch begins with. */
static bool close_circle(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_record *r) {
  bool ok = bring_apart(x, l, m, r);
  for (int32_t k = 0; k < l->nvars && ok; k++)
    if (is_elsewhere(dfi_cudagraph_slot(r, l, k), &m->state[k]))
      ok = dfi_cudagraph_copy(m->state[k].as.tensor, dfi_cudagraph_slot(r, l, k)->as.tensor);
  return ok;
}

/* The same after each iteration, where the GPU's predicate says that there was one. */
static bool keep_state(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_record *r) {
  const dfi_remote *d = dfi_cudagraph_device(x, l)->remote;
  bool ok = bring_apart(x, l, m, r);
  for (int32_t k = 0; k < l->nvars && ok; k++) {
    df_value *is = dfi_cudagraph_slot(r, l, k);
    if (!is_elsewhere(is, &m->state[k])) continue;
    df_tensor *to = m->state[k].as.tensor, *from = is->as.tensor;
    ok = d->keep(d->device, m->tally->data, dfi_note_of(m->tally->buffer), to->data, dfi_note_of(to->buffer),
                 from->data, dfi_note_of(from->buffer), to->size * dfi_dtype_size[to->dtype]);
    is->as.tensor = df_tensor_retain(to);
    df_tensor_release(from);
  }
  return ok;
}

/* n int64 on the GPU. */
static df_tensor *words_new(const dfi_device *d, int64_t n) {
  dfi_devmem_use(d->arena);
  df_tensor *t = dfi_tensor_make(DF_INT64, 1, &n);
  dfi_devmem_use(NULL);
  return t;
}

/* Room for the numbers that are written before each launch. */
static bool make_numbers(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t many) {
  const int64_t n = (int64_t)many * m->nrow;
  df_tensor_release(m->numbers);
  df_tensor_release(m->row);
  m->numbers = m->row = NULL;
  dfi_free(m->ahead);
  m->ahead = dfi_xcalloc((size_t)n + 1, sizeof *m->ahead);
  if (n == 0) return true;
  m->numbers = words_new(dfi_cudagraph_device(x, l), n);
  if (m->again) m->row = words_new(dfi_cudagraph_device(x, l), m->nrow);
  return m->numbers && (m->row || !m->again);
}

/* And for the sides that the GPU takes, where that decides about arrays. */
static bool make_sides(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t many) {
  df_tensor_release(m->sides);
  m->sides = m->loose ? words_new(dfi_cudagraph_device(x, l), (int64_t)many * dfi_cudagraph_pairs(l)) : NULL;
  return m->sides || !m->loose;
}

static bool make_tally(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  const bool wanted = m->masked || l->nguards > 1;
  m->ntally = dfi_cudagraph_words(l);
  if (wanted && !m->tally) m->tally = words_new(dfi_cudagraph_device(x, l), (l->ninner ? 2 : 1) * (int64_t)m->ntally);
  return !wanted || (m->tally && dfi_cudagraph_share_tally(l, m, 0));
}

/* Of an array it is known only that it is one. */
static void drop_state(df_value *v) {
  if (v->kind == DF_TENSOR) dfi_value_drop(v);
  *v = (df_value){ 0 };
}

/* Tensors for the variables, as they are in r. */
static bool make_state(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  bool ok = true;
  for (int32_t k = 0; k < l->nvars; k++) {
    const df_value *is = dfi_cudagraph_slot(r, l, k);
    if (dfi_cudagraph_same_variable(is, &m->state[k])) continue;
    drop_state(&m->state[k]);
    m->state[k] = (df_value){ .kind = is->kind, .dtype = is->dtype };
    if (is->kind != DF_TENSOR) continue;
    dfi_devmem_use(d->arena);
    m->state[k].as.tensor = dfi_tensor_make(is->dtype, is->as.tensor->rank, is->as.tensor->dims);
    dfi_devmem_use(NULL);
    if (!m->state[k].as.tensor) { m->state[k].kind = DF_EMPTY; ok = false; }
  }
  return ok;
}

static void drop_graph(const dfi_device *d, dfi_cudagraph_exec *m) {
  if (m->graph) d->remote->graph_free(d->remote->device, m->graph);
  if (m->bytes) dfi_devmem_discharge(d->arena, m->bytes);
  m->graph = NULL;
  m->bytes = 0;
}

/* Is the variable the GPU's, and so far a constant that the host has? It is brought there. */
static bool is_constant_there(const dfi_cudagraph_loop *l, int32_t k, const df_value *v) {
  return dfi_readable(v->as.tensor) && !v->as.tensor->buffer->arena && dfk_plain(v->dtype) &&
         l->var[k].enter->device == l->device && (!l->var[k].next || l->var[k].next->device == l->device);
}

/* The iteration has given variables constants of the host's: these become the GPU's. */
static bool bring_constants(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_record *r) {
  for (int32_t k = 0; k < l->nvars; k++) {
    df_value *is = dfi_cudagraph_slot(r, l, k);
    if (is->kind != DF_TENSOR || !dfi_readable(is->as.tensor)) continue;
    df_tensor *there = is_constant_there(l, k, is)
                           ? dfi_tensor_copy_in(is->as.tensor, dfi_cudagraph_device(x, l)->arena)
                           : NULL;
    if (!there) return false;
    df_tensor_release(is->as.tensor);
    is->as.tensor = there;
  }
  return true;
}

/* Are r's variables such that iterations could be captured? */
static dfi_cudagraph_ready variables_ready(dfi_cudagraph_loop *l, const dfi_device *d, const dfi_record *r) {
  for (int32_t k = 0; k < l->nvars; k++) {
    const df_value *v = dfi_cudagraph_slot(r, l, k);
    if (v->kind != DF_TENSOR || v->as.tensor->buffer->arena == d->arena) continue;
    if (is_constant_there(l, k, v)) continue;
    if (r->number == 0) return DFI_CUDAGRAPH_NOT_NOW;
    dfi_cudagraph_refuse(l, l->var[k].enter, "a variable of the loop does not lie on %s", d->name);
    return DFI_CUDAGRAPH_NEVER;
  }
  return DFI_CUDAGRAPH_READY;
}

/* The failure where memory has ended; false. */
static bool no_copy(dfi_cudagraph_failure *why) {
  why->where = NULL;
  dfi_fail(&why->err, DF_RESOURCE_EXHAUSTED, NULL, "there is no memory for a copy of its variables");
  return false;
}

bool dfi_cudagraph_around(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                          dfi_cudagraph_failure *why) {
  const dfi_remote *g = dfi_cudagraph_device(x, l)->remote;
  why->changed = !bring_constants(x, l, r) || !dfi_cudagraph_same_variables(r, l, m);
  if (why->changed) return false;
  if (!keep_state(x, l, m, r)) return no_copy(why);
  return dfi_cudagraph_commit(x, l, m) && g->close(g->device);
}

/* The one iteration of a WHILE node, which goes on until the predicate says no. */
static bool go_again(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                     dfi_cudagraph_failure *why) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  const dfi_remote *g = d->remote;
  const uint64_t again = g->condition(g->device, true);
  if (!again) {
    atomic_store(&l->unconditional, true);
    return false;
  }
  bool ok = g->open(g->device, again, true) &&
            (!m->nrow || g->turn(g->device, m->tally->data, dfi_note_of(m->tally->buffer), m->row->data,
                                 dfi_note_of(m->row->buffer), m->numbers->data, dfi_note_of(m->numbers->buffer),
                                 m->nrow));
  m->at = 0;
  return ok && dfi_cudagraph_iteration(x, l, m, r, again, why) && dfi_cudagraph_around(x, l, m, r, why);
}

/* The iterations are gone through, from the state of m on; r's slots hold what they end with. */
static bool go_through(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, int32_t many,
                       dfi_cudagraph_failure *why) {
  if (m->again) return go_again(x, l, m, r, why);
  for (int32_t i = 0; i < many; i++) {
    m->at = i;
    if (!dfi_cudagraph_iteration(x, l, m, r, 0, why)) return false;
    if (!bring_constants(x, l, r) || !dfi_cudagraph_same_variables(r, l, m)) { why->changed = true; return false; }
    if (m->masked && !(keep_state(x, l, m, r) && dfi_cudagraph_commit(x, l, m))) return no_copy(why);
  }
  why->where = NULL;
  return close_circle(x, l, m, r) || no_copy(why);
}

/* Between `capture` and `captured`. */
static bool under_capture(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, int32_t many,
                          dfi_cudagraph_failure *why) {
  df_value *kept = dfi_xcalloc((size_t)l->nvars + 1, sizeof *kept);
  for (int32_t k = 0; k < l->nvars; k++) {
    df_value *slot = dfi_cudagraph_slot(r, l, k);
    kept[k] = *slot;
    if (slot->kind == DF_HANDLE) dfi_handle_retain(slot->as.handle);
    if (slot->kind != DF_TENSOR) continue;
    slot->as.tensor = df_tensor_retain(m->state[k].as.tensor);
  }
  memset(m->counts, 0, l->scope->nslots);
  dfi_cudagraph_places_in(m, r);
  const bool ok = go_through(x, l, m, r, many, why);
  dfi_cudagraph_places_out(m, r);
  dfi_cudagraph_clear_slots(r);
  for (int32_t k = 0; k < l->nvars; k++) {
    *dfi_cudagraph_slot(r, l, k) = kept[k];
    r->held += kept[k].kind >= DF_TENSOR;
  }
  dfi_free(kept);
  return ok;
}

void dfi_cudagraph_make_room(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  m->state = dfi_xcalloc((size_t)l->nvars + 1, sizeof *m->state);
  m->host = dfi_xcalloc(l->scope->nslots + 1, 1);
  m->varies = dfi_xcalloc(l->scope->nslots + 1, 1);
  m->counts = dfi_xcalloc(l->scope->nslots + 1, 1);
  m->counts_in = dfi_xcalloc(l->scope->nconsts + 1, 1);
  m->fed = dfi_xcalloc(l->scope->nslots + 1, sizeof *m->fed);
  m->kept = dfi_xcalloc(l->scope->nslots + 1, sizeof *m->kept);
  m->message = dfi_xcalloc(l->scope->n + 1, sizeof *m->message);
  m->side = dfi_xcalloc((size_t)l->nguards + 1, sizeof *m->side);
  m->joined = dfi_xcalloc(l->scope->nslots + 1, sizeof *m->joined);
  m->site = dfi_xcalloc((size_t)l->naccess + 1, sizeof *m->site);
  dfi_cudagraph_inner_prepare(l, m);
}

dfi_cudagraph_ready dfi_cudagraph_prepare(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m,
                                          const dfi_record *r) {
  const dfi_cudagraph_ready ready = variables_ready(l, dfi_cudagraph_device(x, l), r);
  if (ready != DFI_CUDAGRAPH_READY) return ready;
  if (!m->state) dfi_cudagraph_make_room(l, m);
  m->settled = false;
  dfi_cudagraph_sides(l, m, r);
  dfi_cudagraph_find_moved(l, m, r);
  m->fed = dfi_xrealloc(m->fed, sizeof *m->fed * (l->scope->nslots + (uint32_t)m->nmoved + 1));
  dfi_free(m->kept);
  m->kept = dfi_xcalloc(l->scope->nslots + (uint32_t)m->nmoved + 1, sizeof *m->kept);
  if (!dfi_cudagraph_find_numbers(x, l, m, r)) {
    if (atomic_load(&l->reason)) return DFI_CUDAGRAPH_NEVER;
    dfi_cudagraph_numbers_stay(l, m);      /* what does not change is not to be written again and again after all */
    if (!dfi_cudagraph_find_numbers(x, l, m, r)) return DFI_CUDAGRAPH_NEVER;
  }
  m->spare = dfi_xrealloc(m->spare, sizeof *m->spare * ((size_t)m->nrow + 1));
  m->again = m->there && dfi_cudagraph_device(x, l)->remote->condition && !atomic_load(&l->unconditional);
  m->masked = m->there || l->ninner;
  return DFI_CUDAGRAPH_READY;
}

/* There is no graph in this run; in another one there may be. `why` is static. False: that has been said too often. */
static bool is_for_now(dfi_cudagraph_loop *l, const dfi_record *r, const char *why) {
  enum { TRIES = 4 };
  if (atomic_fetch_add(&l->wrong, 1) >= TRIES) return false;
  atomic_store(&l->hindered, why);
  r->frame->tokens_only = true;
  return true;
}

static const char NO_ROOM[] = "the GPU has no room for a graph of it";

/* The memory of m's graph is more than the session may have. */
static dfi_cudagraph_ready no_room(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m,
                                   const dfi_record *r) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  const long long bytes = m->bytes;
  m->bytes = 0;
  drop_graph(d, m);
  if (is_for_now(l, r, NO_ROOM)) return DFI_CUDAGRAPH_NOT_NOW;
  dfi_cudagraph_refuse(l, NULL, "there is no room on %s for the %lld bytes of the graph", d->name, bytes);
  return DFI_CUDAGRAPH_NEVER;
}

dfi_cudagraph_ready dfi_cudagraph_capture(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                                          int32_t many) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  if (!make_state(x, l, m, r) || !make_numbers(x, l, m, many) || !make_tally(x, l, m) ||
      !make_sides(x, l, m, many)) {
    if (is_for_now(l, r, "the GPU has no memory for its variables")) return DFI_CUDAGRAPH_NOT_NOW;
    dfi_cudagraph_refuse(l, NULL, "there is no memory on %s for its variables", d->name);
    return DFI_CUDAGRAPH_NEVER;
  }
  dfi_cudagraph_fix(x, l, m, r);
  m->compiles = m->compiled || dfi_cudagraph_stale(l, m);
  if (m->bytes) dfi_devmem_discharge(d->arena, m->bytes);
  m->bytes = 0;
  m->graph = d->remote->capture(d->remote->device, m->graph);
  dfi_cudagraph_failure failed = { 0 };
  bool changed = false;
  bool ok = m->graph && under_capture(x, l, m, r, many, &failed);
  char why[300] = "the device does not begin to capture";
  if (m->graph) m->graph = d->remote->captured(d->remote->device, m->graph, &m->bytes, &changed, why, sizeof why);
  if (!m->graph) m->bytes = 0;
  if (m->graph && !dfi_devmem_charge(d->arena, m->bytes)) return no_room(x, l, m, r);
  m->many = many;
  m->settled = true;
  m->compiled = m->compiles;
  if (ok && m->graph) {
    atomic_fetch_add(&l->captures, 1);
    x->gpu_loops.captures++;
    atomic_store(&l->wrong, 0);
    atomic_fetch_add(&l->updates, changed);
    atomic_store(&l->again, m->again);
    return DFI_CUDAGRAPH_READY;
  }
  drop_graph(d, m);
  if (m->again && atomic_load(&l->unconditional)) return DFI_CUDAGRAPH_NOT_NOW;    /* the next time without */
  if (failed.changed && r->number == 0) return DFI_CUDAGRAPH_NOT_NOW;
  if (failed.err.code == DF_RESOURCE_EXHAUSTED &&
      (dfi_caches_evict(d->arena, true) || (!why[0] && is_for_now(l, r, NO_ROOM)))) return DFI_CUDAGRAPH_NOT_NOW;
  if (failed.err.code == DF_UNIMPLEMENTED && dfi_cudagraph_numbers_move(m)) {
    dfi_cudagraph_numbers_stay(l, m);      /* the next time what it is captured with is what it is */
    return DFI_CUDAGRAPH_NOT_NOW;
  }
  /* the run fails there, or never comes there */
  if (failed.err.code == DF_INVALID_ARGUMENT && !why[0] &&
      is_for_now(l, r, "an op of it does not take what it is given")) return DFI_CUDAGRAPH_NOT_NOW;
  if (failed.changed) dfi_cudagraph_refuse(l, NULL, "the shape or the place of a variable changes");
  else dfi_cudagraph_refuse(l, failed.where, "%s", why[0] ? why : failed.err.message);
  return DFI_CUDAGRAPH_NEVER;
}

void dfi_cudagraph_drop(const dfi_plan *p, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  drop_graph(p->devices->at[l->device], m);
  dfi_cudagraph_inner_drop(p, l, m);
  for (int32_t k = 0; m->state && k < l->nvars; k++) drop_state(&m->state[k]);
  if (m->site) dfi_cudagraph_arrays_begin(l, m);
  df_assert(!m->njournal);
  dfi_free(m->site); dfi_free(m->spare); dfi_free(m->journal);
  df_tensor_release(m->sides);
  dfi_cudagraph_forget_fixed(m);
  dfi_free(m->state); dfi_free(m->host); dfi_free(m->varies); dfi_free(m->counts); dfi_free(m->counts_in);
  dfi_free(m->moved); dfi_free(m->message);
  dfi_free(m->fed); dfi_free(m->kept); dfi_free(m->ahead);
  df_tensor_release(m->numbers);
  df_tensor_release(m->row);
  df_tensor_release(m->tally);
  dfi_free(m->side); dfi_free(m->joined);
  dfi_free(m);
}
