/* frame.c: the life of a frame and its iterations, from the Enter that opens it to the Exits that are dead at its end.
 *
 * A frame starts when all its Enters have come, because its constants are read in place. An iteration is done when it
 * has no token, no child frame, and the one before is done; a frame is done when all its iterations are. At most
 * parallel_iterations iterations of a frame are open.
 */
#include "engine/tokens/frame.h"
#include "engine/tokens/audit.h"
#include "engine/engine.h"
#include "engine/tokens/group_run.h"
#include "engine/clock/record.h"
#include "engine/services.h"
#include "engine/tokens/turn.h"

enum { RECORD_HEAD = (sizeof(dfi_record) + 15) & ~15 };

static size_t record_bytes(const dfi_scope *s) {
  return RECORD_HEAD + sizeof(df_value) * s->nslots + sizeof(dfi_frame *) * s->nchildren +
         sizeof(uint32_t) * (s->n + DFI_COUNTS_COPIED);
}

void dfi_exec_lay_out(dfi_plan *p) {
  for (int32_t i = 0; i < p->nscopes; i++) p->scope[i].record_bytes = record_bytes(&p->scope[i]);
  for (int32_t o = 0; p->parts && o < p->parts->n; o++)
    for (int32_t i = 0; i < p->parts->nscopes; i++) p->parts->scope[o][i].record_bytes = p->scope[i].record_bytes;
}

/* Readers of a dead loop constant are dead from the start. */
static void kill_readers(const dfi_exec *x, dfi_record *r) {
  const dfi_frame *f = r->frame;
  const dfi_scope *s = f->scope;
  for (uint32_t i = 0; i < s->nenters; i++) {
    if (!f->enter_dead[s->enters[i]->enter] || !s->enters[i]->constant) continue;
    for (uint32_t c = s->enters[i]->out, u = s->const_first[c]; u < s->const_first[c + 1]; u++) {
      dfi_token *ready = f->windows ? dfi_in_queue(x, r, r->nodes + s->const_users[u]) : NULL;
      r->counts[s->const_users[u]] |= DFI_DEAD;
      if (ready) ready->mark |= DFI_DEAD;              /* another owner has sent it what else it reads */
    }
  }
}

void dfi_iteration_begin(const dfi_exec *x, dfi_frame *f, int64_t number, dfi_record *r, char *at) {
  const dfi_scope *s = f->scope;
  r->base[DFI_ITERATION] = (df_value *)at; at += sizeof(df_value) * s->nslots;
  r->children = (dfi_frame **)at;          at += sizeof(dfi_frame *) * s->nchildren;
  r->counts = (uint32_t *)at;
  r->nodes = x->plan->node + s->first;
  r->base[DFI_FRAME] = f->constants;
  r->base[DFI_CONSTANT] = x->plan->constant;
  r->base[DFI_GIVEN] = x->given;
  for (uint32_t i = 0; i < s->ncopies; i++)
    r->base[DFI_ITERATION][s->copies[i].slot] = x->plan->constant[s->copies[i].constant];
  r->frame = f;
  r->number = number;
}

dfi_record *dfi_iteration_make(dfi_exec *x, dfi_frame *f, int64_t number) {
  dfi_record *r = dfi_xcalloc(1, f->scope->record_bytes);
  x->bytes += (int64_t)f->scope->record_bytes + 16;
  dfi_iteration_begin(x, f, number, r, (char *)r + RECORD_HEAD);
  if (DFI_UNLIKELY(dfi_short)) dfi_exec_no_memory(x, r, "an iteration");
  return r;
}

/* What only some frames' iterations begin with. */
void dfi_iteration_prepare(dfi_exec *x, dfi_record *r) {
  const dfi_frame *f = r->frame;
  if (x->timed) dfi_timed_record(x, r);
  if (f->some_dead) kill_readers(x, r);
  if (f->scope->ngroups) dfi_groups_begin(x, r, f->scope);
}

static void record_clear(dfi_record *r) {
  df_value *v = r->base[DFI_ITERATION];
  for (uint32_t i = 0; r->held && i < r->frame->scope->nslots; i++)
    if (v[i].kind >= DF_TENSOR) { dfi_slot_drop(r, &v[i]); r->held--; }
}

static void record_free(dfi_record *r) {
  if (DFI_UNLIKELY(r->held)) record_clear(r);
  r->next_free = r->frame->spare;
  r->frame->spare = r;
}

void dfi_ring_widen(dfi_exec *x, dfi_frame *f, const dfi_record *r) {
  int64_t wider = f->capacity * 2;
  dfi_record **ring = dfi_xmalloc(sizeof *ring * (size_t)wider);
  for (int64_t i = f->first; i < f->next; i++) ring[i & (wider - 1)] = f->ring[i & (f->capacity - 1)];
  dfi_free(f->ring);
  f->ring = ring; f->capacity = wider;
  if (DFI_UNLIKELY(dfi_short)) dfi_exec_no_memory(x, r, "iterations");
}

dfi_frame *dfi_frame_open_at(dfi_exec *x, const dfi_scope *s, dfi_record *origin, dfi_pnode *call, int64_t number) {
  dfi_frame *f = x->free_frames[s->id];
  if (f) x->free_frames[s->id] = f->next_free;
  else {
    const dfi_scope *all = &x->plan->scope[s->id];         /* an owner's has fewer */
    f = dfi_xcalloc(1, sizeof *f);
    f->capacity = 4;
    x->bytes += (int64_t)(sizeof *f + 8 * 4 + sizeof *f->constants * (s->nconsts + s->ninvariants) + 64);
    f->ring = dfi_xmalloc(sizeof *f->ring * 4);
    f->constants = dfi_xcalloc(s->nconsts + s->ninvariants + 1, sizeof *f->constants);
    f->nexits = all->nexits;
    f->enter_dead = dfi_xcalloc(all->nenters + all->nexits + 1, 1);
    f->exit_fired = f->enter_dead + all->nenters;
  }
  f->scope = s;
  f->borrowed = x->borrowed;
  f->parent = origin ? origin->frame : NULL;
  f->depth = origin ? origin->frame->depth + 1 : 0;
  f->call = call;
  f->origin = origin;
  f->begun = f->first = f->next = number;
  f->window = s->parallel_iterations;
  f->ended_told = f->widened_at = -1;
  f->counts = !x->team || !origin || dfi_team_counts(x, s);
  x->guest_frames += !f->counts;
  f->tokens_only = false;
  f->enters_missing = (int32_t)s->nenters;
  f->some_dead = f->left = false;
  f->prepares = x->timed || s->ngroups;
  f->ends = 0;
  f->ended_by = 0;
  memset(f->exit_fired, 0, f->nexits);
  x->count.frames += origin != NULL;
  f->serial = (uint32_t)x->count.frames;
  if (DFI_UNLIKELY(x->history != NULL))
    x->history[f->serial & ((1u << DFI_STAMP_SERIAL_BITS) - 1)] =
        (dfi_frame_history){ f->serial, (uint32_t)s->id, origin ? origin->frame->serial : 0, 0,
                             origin ? origin->number : 0, -1 };
  if (DFI_UNLIKELY(x->watched)) dfi_service.watch_frame(x, f, true);
  if (DFI_UNLIKELY(x->timed != NULL)) dfi_windows_open(x, f);
  ring_put(x, f, record_new(x, f, number));
  dfi_books_open(x, f);
  return f;
}

void dfi_iteration_start(dfi_exec *x, dfi_record *r) { record_start(x, r->frame->scope, r); }

static void frame_free(dfi_exec *x, dfi_frame *f) {
  if (DFI_UNLIKELY(f->remat != NULL)) dfi_service.remat_first_over(f);
  if (DFI_UNLIKELY(f->second != NULL)) dfi_service.remat_over(x, f);
  for (uint32_t i = 0; i < f->scope->nconsts + f->scope->ninvariants; i++) {
    dfi_value_drop(&f->constants[i]);
    f->constants[i].kind = DF_EMPTY;
  }
  f->next_free = x->free_frames[f->scope->id];
  x->free_frames[f->scope->id] = f;
}

/* Did all loop variables enter dead? Then nothing of the loop is to run, not even what reads only constants. */
static bool entered_dead(const dfi_frame *f) {
  bool some = false;
  for (uint32_t i = 0; i < f->scope->nenters; i++)
    if (!f->scope->enters[i]->constant) {
      if (!f->enter_dead[f->scope->enters[i]->enter]) return false;
      some = true;
    }
  return some;
}

/* Several owners: all variables of this one's part entered dead, perhaps not those of another's. What it has to send is
 * sent dead, and what is sent to it is awaited; nothing else of its part runs. */
static void start_dead_part(dfi_exec *x, const dfi_frame *f, dfi_record *r) {
  const dfi_scope *s = f->scope;
  for (uint32_t i = 0; i < s->nroots; i++) {
    const dfi_pnode *p = r->nodes + s->roots[i];
    const bool awaited = p->kind == DFI_K_TRANSFER && dfi_team_part(x, p) == DFI_RECEIVES;
    if (!awaited) r->counts[s->roots[i]] |= DFI_DEAD;
    root_push(x, r, s->roots[i], r->counts[s->roots[i]] & DFI_DEAD);
  }
  for (uint32_t i = 0; i < s->nenters; i++)
    if (!s->enters[i]->constant) dfi_exec_send(x, r, s->enters[i]->edge[0], s->enters[i]->edge[1], DFI_DEAD);
}

bool dfi_frame_offer(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  dfi_books_turn(x, f);
  const bool ended = f->scope->engine_ops->turn(x, f, r);
  dfi_books_turned(x, f, ended ? r : NULL);
  return ended;
}

/* Iteration 0 gets what has entered. */
static void enter_variables(dfi_exec *x, const dfi_frame *f, const dfi_scope *s) {
  dfi_record *r = f->ring[0];
  for (uint32_t i = 0; i < s->nenters; i++) {
    const dfi_pnode *p = s->enters[i];
    if (p->constant) continue;
    const bool gone = f->enter_dead[p->enter];
    /* its Merge waits for a NextIteration that never comes; another owner that waits for the Merge is told so */
    if (p->merges && gone && !x->team) continue;
    x->count.merged += p->merges && !gone;
    dfi_exec_send(x, r, p->edge[0], p->edge[1], gone ? DFI_DEAD : 0);
  }
}

void dfi_frame_start_part(dfi_exec *x, dfi_frame *f, int32_t owner) {
  const dfi_scope *s = &x->plan->parts->scope[owner][f->scope->id];
  dfi_record *r = f->ring[0];
  dfi_windows_begin(x, f, owner);
  for (uint32_t i = 0; i < s->nroots; i++)             /* a message to it comes from where it is sent */
    if (dfi_owner_of(x->plan, r->nodes + s->roots[i]) == owner)
      root_push(x, r, s->roots[i], r->counts[s->roots[i]] & DFI_DEAD);
  enter_variables(x, f, s);
  dfi_windows_begun(x, f, owner);
}

/* The parts that have not begun: some Enter is dead, say. */
static void start_parts(dfi_exec *x, dfi_frame *f) {
  for (int32_t o = 0; o < x->plan->parts->n; o++)
    if (f->windows[o].takes_part && !f->windows[o].begun) dfi_frame_start_part(x, f, o);
}

/* All Enters have come: iteration 0 gets its tokens. */
void dfi_frame_start(dfi_exec *x, dfi_frame *f) {
  const dfi_scope *s = f->scope;
  dfi_record *r = f->ring[0];
  const bool dead = DFI_UNLIKELY(f->some_dead) && entered_dead(f);
  if (dead && DFI_UNLIKELY(f->windows != NULL)) dfi_windows_dead(x, f);
  if (dead && !x->team) { dfi_books_idle(x, r); return; }
  /* not known yet when the records were made */
  for (int64_t n = f->first; DFI_UNLIKELY(f->some_dead) && n < f->next; n++)
    kill_readers(x, f->ring[n & (f->capacity - 1)]);
  if (dead) { start_dead_part(x, f, r); return; }
  if (DFI_UNLIKELY(s->remat)) dfi_service.remat_begin(x, f);
  if (DFI_UNLIKELY(s->engine_ops != NULL) && !f->some_dead && !x->timed) {
    const bool ended = dfi_frame_offer(x, f, r);
    if (x->failed) return;
    if (ended) {
      for (uint32_t i = 0; i < s->nenters; i++) x->count.merged += !s->enters[i]->constant && s->enters[i]->merges;
      return;
    }
  }
  if (DFI_UNLIKELY(f->windows != NULL)) { start_parts(x, f); return; }
  record_start(x, s, r);
  enter_variables(x, f, s);
}

/* A call's frame is done: its results are the call's outputs. */
static void call_done(dfi_exec *x, dfi_frame *f) {
  dfi_record *origin = f->origin;
  dfi_pnode *p = f->call;
  if (f->returned) {
    const uint32_t *uses = origin->frame->scope->uses + p->out;
    for (uint32_t i = 0; i < p->nout; i++) slot_filled(origin, origin->base[DFI_ITERATION] + p->out + i, uses[i]);
  } else x->count.ended++;
  drop_inputs(x, origin, p);
  dfi_exec_send(x, origin, p->edge[0], p->edge[1], f->returned ? 0 : DFI_DEAD);
  origin->children[p->child] = NULL;
}

/* The frame has no iteration left. Exits that did not fire are dead. Returns the parent's iteration. */
static dfi_record *frame_done(dfi_exec *x, dfi_frame *f) {
  const dfi_scope *s = f->scope;
  dfi_record *origin = f->origin;
  if (DFI_UNLIKELY(x->timed != NULL)) dfi_timed_frame_done(x, f);
  if (DFI_UNLIKELY(f->call != NULL)) call_done(x, f);
  else if (DFI_LIKELY(f->second == NULL)) {
    for (uint32_t i = 0; i < s->nexits; i++)
      if (!f->exit_fired[s->exits[i]->child]) {
        x->count.ended++;
        dfi_exec_send(x, origin, s->exits[i]->edge[0], s->exits[i]->edge[1], DFI_DEAD);
      }
    origin->children[s->child] = NULL;
  }
  if (DFI_UNLIKELY(x->history != NULL)) {
    dfi_frame_history *history = &x->history[f->serial & ((1u << DFI_STAMP_SERIAL_BITS) - 1)];
    if (history->serial == f->serial) history->next = f->next;
  }
  if (DFI_UNLIKELY(x->watched)) dfi_service.watch_frame(x, f, false);
  frame_free(x, f);
  return origin;
}

/* No iteration of f is open, and values wait for the next one. If these are all its variables it is at a boundary:
 * the iteration opens with its values in place, the other engine may take it further, and then it gets its tokens.
 * False: it is not. */
static bool boundary(dfi_exec *x, dfi_frame *f) {
  const dfi_scope *s = f->scope;
  const int32_t n = f->ndeferred;
  int32_t variables = 0;
  for (uint32_t i = 0; i < s->nenters; i++) variables += !s->enters[i]->constant;
  if (n != variables || f->some_dead) return false;
  f->ndeferred = 0;
  dfi_record *r = record_new(x, f, f->next);
  ring_put(x, f, r);
  x->count.iterations += f->counts;
  for (int32_t i = 0; i < n; i++) {
    const dfi_pnode *p = f->deferred[i].node;
    df_value *slot = r->base[DFI_ITERATION] + p->out;
    *slot = f->deferred[i].value;
    slot_filled(r, slot, s->uses[p->out]);
    x->count.merged += p->merges;
  }
  if (dfi_frame_offer(x, f, r) || x->failed) return true;
  record_start(x, s, r);
  for (int32_t i = 0; i < n; i++) dfi_exec_send(x, r, f->deferred[i].node->edge[0], f->deferred[i].node->edge[1], 0);
  return true;
}

/* r has nothing outstanding but what the owners tell each other at its end, in rounds: the next one gets its tokens.
   False: all have had theirs. */
static __attribute__((noinline, cold)) bool tells_end(dfi_exec *x, dfi_record *r) {
  dfi_frame *f = r->frame;
  const dfi_scope *s = f->scope;
  bool some = false;
  if (f->ended_told != r->number) f->round = 0;
  f->ended_told = r->number;
  for (uint32_t i = 0; i < s->nends; i++)
    if (s->ends[i].round == f->round) {
      root_push(x, r, s->ends[i].node, 0);
      some = true;
    }
  f->round += some;
  return some;
}

/* An iteration opens with the values that waited for the window to move. */
static inline __attribute__((always_inline)) void open_waiting(dfi_exec *x, dfi_frame *f) {
  const int32_t n = f->ndeferred;
  f->ndeferred = 0;
  if (DFI_UNLIKELY(x->timed != NULL)) {
    dfi_timed_gate(x, f, f->next);
    if (x->timed->recorder) dfi_record_speak(x, f->deferred[0].event);
  }
  dfi_record *fresh = iteration_open(x, f);
  for (int32_t i = 0; i < n; i++) {
    if (DFI_UNLIKELY(x->timed != NULL) && x->timed->recorder) dfi_record_speak(x, f->deferred[i].event);
    if (DFI_UNLIKELY(x->timed != NULL)) dfi_windows_next(x, fresh, f->deferred[i].node);
    deliver_next(x, fresh, f->deferred[i].node, f->deferred[i].value);
  }
}

__attribute__((noinline, cold)) void dfi_frame_widen(dfi_exec *x, dfi_frame *f) {
  const double now = x->timed ? x->timed->now : 0;
  const uint32_t speaks = x->timed && x->timed->recorder ? dfi_record_current(x) : 0;
  f->window++;
  if (!f->ndeferred || f->next - f->first >= f->window) return;
  open_waiting(x, f);
  if (x->timed) x->timed->now = now;                     /* of the token that runs */
  if (x->timed && x->timed->recorder) dfi_record_speak(x, speaks);
}

void dfi_frame_left(dfi_frame *f) {
  const dfi_scope *s = f->scope;
  f->left = true;
  for (uint32_t i = 0; i < s->nspent && f->first + 1 == f->next; i++) {
    dfi_value_drop(&f->constants[s->spent[i]]);
    f->constants[s->spent[i]].kind = DF_EMPTY;
  }
}

/* r has nothing outstanding: iterations, frames and in the end the run may be done. */
void dfi_exec_iteration_done(dfi_exec *x, dfi_record *r) {
  if (DFI_UNLIKELY(x->failed)) return;         /* what failed stays open, to be looked at: see dfi_exec_reset */
  for (;;) {
    dfi_frame *f = r->frame;
    if (!f->origin) { x->finished = true; x->patience = 0; return; }
    if (r->number != f->first || f->enters_missing) return;
    if (DFI_UNLIKELY(f->scope->nends) && tells_end(x, r)) return;
    dfi_audit_iteration(x, r);
    dfi_audit_queue(x, r);
    dfi_books_iteration(x, r);
    f->first++;
    if (DFI_UNLIKELY(x->timed != NULL)) dfi_timed_iteration_done(x, f, r);
    record_free(r);
    if (DFI_UNLIKELY(f->left)) dfi_frame_left(f);
    if (f->ndeferred && f->next - f->first < f->window) {      /* the window has moved */
      if (DFI_UNLIKELY(f->scope->engine_ops != NULL) && !x->timed && f->first == f->next && boundary(x, f)) {
        if (x->failed) return;
      } else open_waiting(x, f);
    }
    if (f->first < f->next) {
      r = f->ring[f->first & (f->capacity - 1)];
      if (r->outstanding) return;
      continue;
    }
    dfi_audit_frame(x, f);
    dfi_books_frame(x, f);
    r = frame_done(x, f);
    if (--r->outstanding) return;
  }
}

/* Lets a frame of a failed run go, with all that is open inside. */
void dfi_frame_abandon(dfi_exec *x, dfi_frame *f) {
  for (int64_t i = f->first; i < f->next; i++) {
    dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t c = 0; c < f->scope->nchildren; c++)
      if (r->children[c]) { dfi_frame_abandon(x, r->children[c]); r->children[c] = NULL; }
    r->outstanding = 0;
    record_free(r);
  }
  for (int32_t i = 0; i < f->ndeferred; i++) dfi_value_drop(&f->deferred[i].value);
  f->ndeferred = 0;
  frame_free(x, f);
}

/* Is a frame open that some of its Enters will never reach, because what feeds them is never run? Where a loop is dead
 * in part, as raw graphs may have it, such a frame stays to the end of the run and its Exits have no value. */
bool dfi_frame_waits(const dfi_frame *f) {
  if (f->enters_missing) return true;
  for (int64_t i = f->first; i < f->next; i++) {
    const dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t c = 0; c < f->scope->nchildren; c++)
      if (r->children[c] && dfi_frame_waits(r->children[c])) return true;
  }
  return false;
}
