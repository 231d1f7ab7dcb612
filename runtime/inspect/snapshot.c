/* snapshot.c: what is alive in a paused run: frames, iterations, tokens, arrays, values, and what waits for
 * what.
 *
 * All that the engine knows of an iteration is its record, so everything here is read out of records, the queue and the
 * list of calls that are away. Nothing is changed but each record's `seen`.
 */
#include "base/remote_memory.h"
#include "inspect/inspect.h"
#include "engine/observe/halt.h"
#include "engine/observe/picture.h"
#include "engine/token.h"
#include "plan/where.h"
#include "resource/tensor_array.h"
#include "resource/variable.h"
#include <stdio.h>

#define ROOM(array, n, cap) \
  do { if ((n) == (cap)) (array) = dfi_xrealloc((array), sizeof *(array) * (size_t)((cap) = (cap) ? (cap) * 2 : 32)); \
    } while (0)

/* ---- the state of a node in an iteration -------------------------------------------------------------- */

/* Tokens that p still misses in r, and whether what came was dead. -1: it has all (or is an Exit, which keeps no
   count). */
static int32_t missing(const dfi_record *r, const dfi_pnode *p, bool *dead, bool *some) {
  const dfi_scope *s = r->frame->scope;
  uint32_t i = (uint32_t)(p - r->nodes), c = r->counts[i], whole = s->counts[i];
  if (p->kind == DFI_K_MERGE) {
    *dead = !(c & DFI_MERGE_LIVE) && !DFI_MERGE_DEADS(c);
    *some = c != whole;
    if (c & DFI_MERGE_FIRED) return -1;
    return (c & DFI_MERGE_LIVE ? 0 : 1) + (int32_t)DFI_MERGE_CONTROLS(c);
  }
  *dead = (c & DFI_DEAD) != 0;
  *some = c != whole;
  return (c & ~DFI_DEAD) ? (int32_t)(c & ~DFI_DEAD) : -1;
}

static const dfi_call *is_away(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  for (const dfi_call *c = x->away; c; c = c->away_next) if (c->record == r && c->node == p) return c;
  return NULL;
}

static int32_t state_of(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p, int32_t *misses, bool *dead) {
  bool some;
  *misses = missing(r, p, dead, &some);
  if (*misses >= 0) return DF_TOKEN_PARTIAL;
  *misses = 0;
  if (dfi_is_exit(p->kind) && !p->node->ncontrol) {
    *dead = false;
    return r->frame->exit_fired[p->child] ? DF_TOKEN_RAN : DF_TOKEN_PARTIAL;
  }
  if (dfi_in_queue(x, r, p)) return DF_TOKEN_READY;
  const dfi_call *away = is_away(x, r, p);
  return away ? away->stop ? DF_TOKEN_WAITING : DF_TOKEN_RUNNING : DF_TOKEN_RAN;
}

/* ---- the snapshot ----------------------------------------------------------------------------------------- */

typedef struct taker {
  df_snapshot *s;
  const dfi_exec *x;
  dfi_frame  **frame; int32_t nframes, frame_cap;
  int32_t     *around, narounds, around_cap;   /* of each of them, its parent's place; -1 */
  int32_t      iteration_cap, token_cap, array_cap;
  uintptr_t   *seen; uint32_t seen_room;       /* arrays that are in the list: open addressing, a power of two */
} taker;

/* Has this array been met before? From now on it has. */
static bool met_before(taker *k, uintptr_t at) {
  if ((uint32_t)k->s->narrays * 2 >= k->seen_room) {
    dfi_free(k->seen);
    k->seen_room = k->seen_room ? k->seen_room * 4 : 64;
    k->seen = dfi_xcalloc(k->seen_room, sizeof *k->seen);
    for (int32_t i = 0; i < k->s->narrays; i++) {
      uint32_t h = (uint32_t)(k->s->array[i].at >> 4) * 2654435761u;
      while (k->seen[h & (k->seen_room - 1)]) h++;
      k->seen[h & (k->seen_room - 1)] = k->s->array[i].at;
    }
  }
  uint32_t h = (uint32_t)(at >> 4) * 2654435761u;
  for (uintptr_t *slot; *(slot = &k->seen[h & (k->seen_room - 1)]) != at; h++)
    if (!*slot) { *slot = at; return false; }
  return true;
}

static void add_token(taker *k, const dfi_record *r, const dfi_pnode *p, int32_t state, int32_t misses, bool dead) {
  ROOM(k->s->token, k->s->ntokens, k->token_cap);
  k->s->token[k->s->ntokens++] =
      (df_token_info){ p->node->id, (int32_t)r->frame->serial, r->number, state, misses, dead };
}

static void add_array(taker *k, const dfi_record *r, const df_value *v) {
  if (v->kind != DF_HANDLE || ((dfi_handle *)v->as.handle)->type != DFI_TENSOR_ARRAY) return;
  const df_array_info *far = dfi_far_array(v);
  if (met_before(k, far ? (uintptr_t)far->at : (uintptr_t)v->as.handle)) return;
  ROOM(k->s->array, k->s->narrays, k->array_cap);
  df_array_info *o = &k->s->array[k->s->narrays++];
  if (far) *o = *far;
  else dfi_tensor_array_info(v->as.handle, o);
  o->frame = (int32_t)r->frame->serial;
  o->iteration = r->number;
}

/* Frame `child` was opened by one at place `parent`: it comes to the end of those to be described. */
static void found_frame(taker *k, int32_t parent, dfi_frame *child) {
  ROOM(k->around, k->narounds, k->around_cap);
  ROOM(k->frame, k->nframes, k->frame_cap);
  k->around[k->narounds++] = parent;
  k->frame[k->nframes++] = child;
}

static void add_iteration(taker *k, dfi_record *r) {
  const dfi_scope *s = r->frame->scope;
  ROOM(k->s->iteration, k->s->niterations, k->iteration_cap);
  r->seen = k->s->niterations++;
  df_iteration_info *o = &k->s->iteration[r->seen];
  *o = (df_iteration_info){ .frame = (int32_t)r->frame->serial, .number = r->number, .outstanding = r->outstanding };
  for (uint32_t c = 0; c < s->nchildren; c++)
    if (r->children[c]) {
      o->children++;
      found_frame(k, k->s->nframes - 1, r->children[c]);
    }
  for (uint32_t i = 0; i < s->n; i++) {
    bool dead, some;
    int32_t misses = missing(r, r->nodes + i, &dead, &some);
    if (misses < 0 || !some) continue;
    o->partial++;
    add_token(k, r, r->nodes + i, DF_TOKEN_PARTIAL, misses, dead);
  }
  for (uint32_t i = 0; i < s->nslots; i++) add_array(k, r, &r->base[DFI_ITERATION][i]);
}

static void describe_frame(df_frame_info *o, const dfi_frame *f) {
  *o = (df_frame_info){ .id = (int32_t)f->serial, .parent = f->parent ? (int32_t)f->parent->serial : -1,
    .parent_iteration = f->origin ? f->origin->number : 0, .first = f->first, .next = f->next,
    .limit = f->scope->parallel_iterations,
    .enters_missing = f->enters_missing, .deferred = f->ndeferred, .name = f->scope->name, .where = f->scope->where
    ? f->scope->where : "" };
}

/* Where the frame at `place` is in the tree, once it is described: those inside it come later. */
static void join_tree(taker *k, int32_t place) {
  df_frame_info *o = &k->s->frame[place];
  o->around = k->around[place];
  o->inside = o->ninside = 0;
  if (o->around < 0) return;
  df_frame_info *parent = &k->s->frame[o->around];
  if (!parent->ninside++) parent->inside = place;
}

static void add_frame(taker *k, dfi_frame *f) {
  df_snapshot *s = k->s;
  describe_frame(&s->frame[s->nframes], f);
  join_tree(k, s->nframes);
  s->frame[s->nframes++].iterations = s->niterations;
  for (int64_t i = f->first; i < f->next; i++) add_iteration(k, f->ring[i & (f->capacity - 1)]);
  if (f->first < f->next)
    for (uint32_t i = 0; i < f->scope->nconsts; i++)
      add_array(k, f->ring[f->first & (f->capacity - 1)], &f->constants[i]);
}

df_snapshot *dfi_snapshot_of(const dfi_exec *x) {
  taker k = { .s = dfi_xcalloc(1, sizeof(df_snapshot)), .x = x };
  df_snapshot *s = k.s;
  int32_t room = 0;
  found_frame(&k, -1, x->root);
  for (int32_t i = 0; i < k.nframes; i++) {
    ROOM(s->frame, s->nframes, room);
    add_frame(&k, k.frame[i]);
  }
  for (uint32_t i = x->head; i != x->tail; i++) {
    const dfi_token *t = &x->queue[i & x->queue_mask];
    df_iteration_info *o = &s->iteration[t->record->seen];
    bool dead = (t->mark & DFI_DEAD) != 0;
    o->ready++;
    o->dead += dead;
    add_token(&k, t->record, t->record->nodes + t->node, DF_TOKEN_READY, 0, dead);
  }
  for (const dfi_call *c = x->away; c; c = c->away_next) {
    s->iteration[c->record->seen].running++;
    add_token(&k, c->record, c->node, c->stop ? DF_TOKEN_WAITING : DF_TOKEN_RUNNING, 0, false);
  }
  for (int32_t i = 0; i < s->nframes; i++) {
    df_frame_info *f = &s->frame[i];
    for (int32_t n = f->iterations; n < f->iterations + (int32_t)(f->next - f->first); n++) {
      const df_iteration_info *o = &s->iteration[n];
      f->live += o->ready - o->dead; f->dead += o->dead; f->running += o->running; f->partial += o->partial;
    }
  }
  dfi_free(k.frame);
  dfi_free(k.around);
  dfi_free(k.seen);
  return s;
}

static df_snapshot *frames_alone(const dfi_exec *x, int32_t only) {
  taker k = { .s = dfi_xcalloc(1, sizeof(df_snapshot)), .x = x };
  dfi_frame *found = only < 0 ? NULL : x->root;
  found_frame(&k, -1, x->root);
  for (int32_t i = 0; i < k.nframes; i++) {
    dfi_frame *f = k.frame[i];
    if (only >= 0 && f->serial == (uint32_t)only) { found = f; break; }
    for (int64_t n = f->first; f->scope->nchildren && n < f->next; n++) {
      const dfi_record *r = f->ring[n & (f->capacity - 1)];
      for (uint32_t c = 0; c < f->scope->nchildren; c++) if (r->children[c]) found_frame(&k, i, r->children[c]);
    }
  }
  if (found) {                             /* it and those around it, outermost first */
    k.nframes = found->depth + 1;
    for (dfi_frame *f = found; f; f = f->parent) { k.frame[f->depth] = f; k.around[f->depth] = f->depth - 1; }
  }
  k.s->frame = dfi_xcalloc((size_t)k.nframes, sizeof *k.s->frame);
  k.s->nframes = k.nframes;
  for (int32_t i = 0; i < k.nframes; i++) {
    describe_frame(&k.s->frame[i], k.frame[i]);
    join_tree(&k, i);
  }
  dfi_free(k.frame);
  dfi_free(k.around);
  return k.s;
}

enum { EVERYTHING = -2 };

static df_snapshot *held(dfi_watch *w, int32_t frame, df_error *err) {
  bool mine;
  df_snapshot *s = NULL;
  const int32_t state = dfi_watch_hold(w, &mine);
  if (dfi_watch_readable(w, state)) {
    const dfi_exec *x = dfi_watch_seen(w);
    s = frame == EVERYTHING ? dfi_snapshot_of(x) : frames_alone(x, frame);
  }
  else dfi_watch_refuse(w, state, "the run is over: it has no frames any more", err);
  dfi_watch_let_go(w, mine);
  return s;
}

static df_snapshot *checked(df_snapshot *s, df_error *err) {
  if (!dfi_check_memory(s ? DF_OK : DF_INTERNAL, err, NULL, "a snapshot")) return s;
  df_snapshot_release(s);
  return NULL;
}
df_snapshot *dfi_snapshot_take(dfi_watch *w, df_error *err) { return checked(held(w, EVERYTHING, err), err); }
df_snapshot *dfi_snapshot_frames(dfi_watch *w, int32_t frame, df_error *err) {
  return checked(held(w, frame < 0 ? -1 : frame, err), err);
}

void df_snapshot_release(df_snapshot *s) {
  if (!s) return;
  dfi_free(s->frame); dfi_free(s->iteration); dfi_free(s->token); dfi_free(s->array);
  dfi_free(s);
}

int32_t df_snapshot_sum(const df_snapshot *s, int32_t first, int32_t n, df_frame_info *out) {
  int32_t frames = 0;
  *out = (df_frame_info){ .name = "", .where = "", .around = -1, .parent = -1 };
  if (first < 0 || n > s->nframes - first) return 0;
  while (n > 0) {                          /* those inside frames that are next to each other are so, too */
    int32_t inside = 0, ninside = 0;
    for (const df_frame_info *f = s->frame + first, *end = f + n; f < end; f++) {
      out->next += f->next - f->first; out->deferred += f->deferred;
      out->live += f->live; out->dead += f->dead; out->running += f->running; out->partial += f->partial;
      if (!ninside) inside = f->inside;
      ninside += f->ninside;
    }
    frames += n;
    first = inside; n = ninside;
  }
  return frames;
}

int32_t dfi_snapshot_history(dfi_watch *w, int32_t n, df_token_info *out) {
  const dfi_exec *x = dfi_watch_seen(w);
  uint32_t kept = x->queue_mask + 1 - (x->tail - x->head), ran = x->head - x->begun;
  if (ran < kept) kept = ran;
  if (n < 0) n = 0;
  if ((uint32_t)n > kept) n = (int32_t)kept;
  for (int32_t i = 0; i < n; i++) {
    const dfi_token *t = &x->queue[(x->head - 1 - (uint32_t)i) & x->queue_mask];
    uint32_t serial;
    out[i] = (df_token_info){ .node = t->record->nodes[t->node].node->id,
                              .state = DF_TOKEN_RAN,
                              .dead = (t->mark & DFI_DEAD) != 0 };
    dfi_watch_place(x, t, &serial, &out[i].iteration);
    out[i].frame = (int32_t)serial;
  }
  return n;
}

/* ---- values ------------------------------------------------------------------------------------------------ */

static int64_t bytes_of(const df_value *v) { return v->kind == DF_TENSOR ? dfi_value_bytes(v) : 0; }

static int64_t bytes_in(const dfi_frame *f) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < f->scope->nconsts + f->scope->ninvariants; i++) bytes += bytes_of(&f->constants[i]);
  for (int32_t i = 0; i < f->ndeferred; i++) bytes += bytes_of(&f->deferred[i].value);
  for (int64_t i = f->first; i < f->next; i++) {
    const dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t k = 0; k < f->scope->nslots; k++) bytes += bytes_of(r->base[DFI_ITERATION] + k);
    for (uint32_t c = 0; c < f->scope->nchildren; c++) if (r->children[c]) bytes += bytes_in(r->children[c]);
  }
  return bytes;
}

int64_t dfi_snapshot_bytes(const dfi_watch *w) {
  const dfi_exec *x = dfi_watch_seen(w);
  int64_t bytes = (int64_t)(x->queue_mask + 1) * (int64_t)sizeof *x->queue;
  if (x->root) bytes += bytes_in(x->root);
  for (int32_t i = 0; i < x->plan->nfeed; i++) bytes += bytes_of(&x->given[i]);
  for (int32_t i = 0; x->kept && i < DFI_KEPT_VALUES; i++) bytes += bytes_of(&x->kept[i].value);
  return bytes;
}

static dfi_record *find_record(dfi_frame *f, uint32_t serial, int64_t number) {
  if (f->serial == serial) return number >= f->first && number < f->next ? f->ring[number & (f->capacity - 1)] : NULL;
  for (int64_t i = f->first; f->scope->nchildren && i < f->next; i++) {
    dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t c = 0; c < f->scope->nchildren; c++) {
      dfi_record *found = r->children[c] ? find_record(r->children[c], serial, number) : NULL;
      if (found) return found;
    }
  }
  return NULL;
}

/* Is it of a node of the scope that it was asked in? */
static bool is_own(const dfi_where *w) { return w->node && (w->why == DFI_LIES_KEPT || w->why == DFI_LIES_NOWHERE); }

/* The value that lies there, borrowed; NULL: there is none. What is folded comes in *local, owned. */
static const df_value *value_at(const dfi_exec *x, const dfi_record *r, const dfi_where *w, df_value *local) {
  static const df_value nothing = { .kind = DF_EMPTY };
  switch (w->why) {
  case DFI_LIES_NOWHERE: return NULL;
  case DFI_LIES_GIVEN: return &x->given[DFI_INDEX(w->at)];
  case DFI_LIES_FOLDED: {
    const df_node *n = w->output.node;
    df_tensor *t = n->attrs[dfi_op_attr_index(dfi_op_info_at(n->op), "value")].tensor;
    dfi_value_from_tensor(local, df_tensor_retain(t));
    return local;
  }
  case DFI_LIES_LEFT:      /* of a loop that goes on the slot holds what an iteration before left there */
    for (uint32_t c = 0; c < r->frame->scope->nchildren; c++)
      if (r->children[c] && r->children[c]->scope == w->child && !r->children[c]->exit_fired[w->node->child])
        return &nothing;
    return operand(r, w->at);
  default: return operand(r, w->at);
  }
}

/* The loop that a frame, which may be over, was of; NULL: it is too long ago. */
static const dfi_scope *scope_of(const dfi_exec *x, int32_t frame) {
  if (!frame) return x->plan->scope;
  const dfi_frame_history *history = &x->history[frame & ((1 << DFI_STAMP_SERIAL_BITS) - 1)];
  return history->serial == (uint32_t)frame ? &x->plan->scope[history->scope] : NULL;
}

/* Looks for o among what was kept; true: *out has it, owned, or is dead. */
static bool find_kept(const dfi_exec *x, const dfi_scope *s, df_output o, int32_t frame, int64_t iteration,
                      df_value *out) {
  if (!x->kept) return false;
  const dfi_where w = dfi_where_is(x->plan, s, o);
  if (w.why == DFI_LIES_MERGED && iteration > 0)          /* a loop variable: made one iteration before */
    return find_kept(x, s, w.node->node->in[0], frame, iteration - 1, out);
  const dfi_pnode *p = w.why == DFI_LIES_KEPT ? w.node : NULL;
  if (!p) return false;
  o = w.output;
  for (uint32_t back = 1; back <= DFI_KEPT_VALUES && back <= x->nkept; back++) {
    const dfi_kept_value *k = &x->kept[(x->nkept - back) & (DFI_KEPT_VALUES - 1)];
    if (k->token.record->nodes + k->token.node != p) continue;
    uint32_t serial;
    int64_t number;
    dfi_watch_place(x, &k->token, &serial, &number);
    if (serial != (uint32_t)frame || number != iteration) continue;
    if (k->value.kind == DF_EMPTY && !k->value.dead) return false;      /* a tensor, let go meanwhile */
    if (k->value.dead || (int32_t)k->value.uses == o.index) dfi_value_on_host(&k->value, out);
    else if (p->kind == DFI_K_SWITCH) out->dead = 1;   /* it took the other side */
    else continue;
    out->uses = 0;
    return true;
  }
  return false;
}

int32_t dfi_snapshot_value(dfi_watch *w, df_output o, int32_t frame, int64_t iteration, df_value *out, df_error *err) {
  const dfi_exec *x = dfi_watch_seen(w);
  *out = (df_value){ 0 };
  dfi_record *r = find_record(x->root, (uint32_t)frame, iteration);
  const dfi_scope *s = r ? r->frame->scope : scope_of(x, frame);
  const dfi_where at = dfi_where_is(x->plan, s ? s : x->plan->scope, o);
  const bool anywhere = at.why == DFI_LIES_GIVEN || at.why == DFI_LIES_FOLDED;
  if (!anywhere && s && find_kept(x, s, o, frame, iteration, out)) return DF_OK;
  if (!anywhere && !r)
    return dfi_fail(err, DF_NOT_FOUND, o.node->where,
                    "iteration %lld of frame %d is not open, and its values were not logged", (long long)iteration,
                    frame);
  if (at.why == DFI_LIES_KEPT) {
    int32_t misses;
    bool dead;
    int32_t state = state_of(x, r, at.node, &misses, &dead);
    if (dead && state != DF_TOKEN_PARTIAL) { out->dead = 1; return DF_OK; }
    if (state != DF_TOKEN_RAN)
      return dfi_fail(err, DF_NOT_FOUND, o.node->where, "`%s` has not run in this iteration yet",
                      dfi_node_name(o.node));
    if (at.node->kind == DFI_K_SWITCH) {
      const df_value *pred = operand(r, x->plan->operand[at.node->in + 1]);
      if (pred->kind == DF_SCALAR && (pred->as.u8 != 0) != (at.output.index == 1)) { out->dead = 1; return DF_OK; }
    }
  }
  df_value local = { 0 };
  const df_value *v = value_at(x, r, &at, &local);
  if (v == &local) { *out = local; return DF_OK; }
  if (!v)
    return dfi_fail(err, DF_NOT_FOUND, o.node->where, "`%s` is not part of this run, or has no value in this frame",
                    dfi_node_name(o.node));
  if (v->kind == DF_EMPTY)
    return dfi_fail(err, DF_NOT_FOUND, o.node->where,
                    "the value of `%s` is not there: not yet, or all its readers are done with it",
                    dfi_node_name(o.node));
  dfi_far_place place;
  if (dfi_far(v, &place) && !dfi_far_array(v)) return dfi_halt_fetch(w, &place, out, err);
  if (v->kind == DF_HANDLE && ((dfi_handle *)v->as.handle)->type == DFI_VARIABLE)
    return dfi_variable_read(v->as.handle, out, err);
  if (v->kind == DF_HANDLE)
    return dfi_fail(err, DF_NOT_FOUND, o.node->where, "`%s` is a handle: its array is among those of the snapshot",
                    dfi_node_name(o.node));
  dfi_value_on_host(v, out);
  out->uses = 0;
  return DF_OK;
}

/* ---- what a node waits for ---------------------------------------------------------------------------------- */

int32_t dfi_snapshot_waits_for(dfi_watch *w, df_node *n, int32_t frame, int64_t iteration, int32_t *state, int32_t room,
                               int32_t *out, df_error *err) {
  const dfi_exec *x = dfi_watch_seen(w);
  dfi_record *r = find_record(x->root, (uint32_t)frame, iteration);
  if (!r) {
    dfi_fail(err, DF_NOT_FOUND, n->where, "iteration %lld of frame %d is not open", (long long)iteration, frame);
    return -1;
  }
  const dfi_where of = dfi_where_is(x->plan, r->frame->scope, (df_output){ n, 0 });
  const dfi_pnode *p = is_own(&of) ? of.node : NULL;
  if (!p) {
    dfi_fail(err, DF_NOT_FOUND, n->where, "`%s` is not part of this run, or not of this frame", dfi_node_name(n));
    return -1;
  }
  int32_t misses, found = 0;
  bool dead;
  *state = state_of(x, r, p, &misses, &dead);
  if (*state != DF_TOKEN_PARTIAL) return 0;
  for (int32_t i = 0; i < p->node->nin + p->node->ncontrol && found < misses; i++) {
    df_output in = i < p->node->nin ? p->node->in[i] : (df_output){ p->node->control[i - p->node->nin], 0 };
    int32_t index = i < p->node->nin ? in.index : -1;
    const dfi_where at = dfi_where_is(x->plan, r->frame->scope, in);
    int32_t their_misses;
    bool their_death, arrived = at.why == DFI_LIES_GIVEN || at.why == DFI_LIES_FOLDED;
    if (is_own(&at)) arrived = state_of(x, r, at.node, &their_misses, &their_death) == DF_TOKEN_RAN;
    else if (!arrived) {
      const df_value *v = value_at(x, r, &at, NULL);
      arrived = v && v->kind != DF_EMPTY;
    }
    if (arrived) continue;
    if (found < room) { out[2 * found] = in.node->id; out[2 * found + 1] = index; }
    found++;
  }
  return found;
}
