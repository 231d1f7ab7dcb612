/* executor.c: the token engine. The rules are those of Figure 5 of the paper:
 *
 *   Switch         sends its data to the side that pred names and a dead token to the other
 *   Merge          fires on its first live input, or dead when all its inputs are
 *   Enter          opens (or finds) the child frame and delivers to its iteration 0
 *   NextIteration  delivers to the next iteration, and stops dead tokens
 *   Exit           returns to the parent's iteration; dead Exits are sent when the frame ends
 *   any other op   fires when all inputs of its tag are there; if one is dead, so are its outputs
 *
 * A frame starts when all its Enters have come, because its constants are read in place. An iteration is done when it
 * has no token, no child frame, and the one before is done; a frame is done when all its iterations are. At most
 * parallel_iterations iterations of a frame are open.
 */
#include "engine/token.h"
#include "base/clock.h"
#include "engine/audit.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/native/native.h"
#include "engine/timed.h"
#include "engine/record.h"
#include "engine/fault.h"
#include "engine/stream.h"
#include "engine/remat.h"
#include "engine/remote.h"
#include "engine/swap.h"
#include "engine/transfer.h"
#include "engine/watch.h"
#include "resource/variable.h"
#include <math.h>
#include <stdio.h>
#include <time.h>


double dfi_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bookkeeping memory has ended: what was wanted has come from the reserve, and the run ends where it is. r may be
   NULL. */
static __attribute__((noinline)) void no_memory(dfi_exec *x, const dfi_record *r, const char *what) {
  char message[300];
  const dfi_scope *s = r ? r->frame->scope : NULL;
  dfi_short = false;
  dfi_memory_for(0);
  snprintf(message, sizeof message, "out of memory: the system gave none for %s%s%s%s", what, s && s->id ? " of `" : "",
           s && s->id ? s->name : "", s && s->id ? "`" : "");
  if (x->failed) return;
  dfi_exec_fail(x, NULL, NULL, DF_RESOURCE_EXHAUSTED, message);
  if (!s || !s->id || !x->error) return;
  snprintf(x->error->op, sizeof x->error->op, "%s", s->name);
  snprintf(x->error->source, sizeof x->error->source, "%s", s->where ? s->where : "");
  dfi_frame_path(r, x->error->frame, sizeof x->error->frame);
}

/* ---- the queue of ready tokens ------------------------------------------------------------- */

static void queue_grow(dfi_exec *x) {
  uint32_t old = x->queue_mask + 1;
  dfi_token *q = dfi_xcalloc((size_t)old * 2, sizeof *q);
  /* the history too */
  for (uint32_t i = x->tail - old; i != x->tail; i++) q[i & (old * 2 - 1)] = x->queue[i & x->queue_mask];
  dfi_free(x->queue);
  x->bytes += (int64_t)(old * sizeof *q);
  x->queue = q; x->queue_mask = old * 2 - 1;
  x->queue_most = x->queue_mask - x->plan->widest;
  if (x->timed) dfi_timed_grown(x);
  if (DFI_UNLIKELY(dfi_short)) no_memory(x, NULL, "ready tokens");
}

/* Nothing is written over before it ran, and before it is logged. */
static void queue_room(dfi_exec *x, uint32_t more) {
  if (x->logs) dfi_watch_flush(x);
  while (x->tail - x->head + more > x->queue_mask) queue_grow(x);
}

static inline void push(dfi_exec *x, dfi_record *r, uint32_t node, uint32_t dead) {
  if (DFI_UNLIKELY(x->tail - (x->logs ? x->logged : x->head) > x->queue_mask)) queue_room(x, 0);
  x->queue[x->tail++ & x->queue_mask] = (dfi_token){ r, node, dead | r->stamp };
  r->outstanding++;
}

/* ---- sending tokens ---------------------------------------------------------------------------- */

/* One token along an edge to a Merge or an Exit. Does it make the node ready? */
typedef enum readiness { NOT_READY, READY, READY_DEAD } readiness;

static readiness arrive(dfi_exec *x, dfi_record *r, const dfi_edge *e, uint32_t dead) {
  uint32_t to = e->to & 0xff;
  if (to == DFI_TO_EXIT) return dead ? NOT_READY : READY;  /* a dead Exit is remembered by not firing: see frame_done */
  uint32_t *at = &r->counts[e->node], c = *at;
  const dfi_pnode *m = r->nodes + e->node;
  readiness ready = NOT_READY;
  if (to == DFI_TO_MERGE_CONTROL) c -= DFI_MERGE_CONTROL;
  else if (dead) c -= 1;
  else if (!(c & DFI_MERGE_LIVE)) {
    c |= DFI_MERGE_LIVE;
    r->base[DFI_ITERATION][m->out + 1] =
        (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)(e->to >> 8) };
  } else {                                 /* a second live input: it came too late, and is let go here */
    operand_used(r, x->plan->operand[m->in + (e->to >> 8)]);
    return NOT_READY;
  }
  if (!(c & DFI_MERGE_FIRED) && !DFI_MERGE_CONTROLS(c) && (c & DFI_MERGE_LIVE || !DFI_MERGE_DEADS(c))) {
    ready = c & DFI_MERGE_LIVE ? READY : READY_DEAD;
    c |= DFI_MERGE_FIRED;
  }
  *at = c;
  return ready;
}

static void push_timed(dfi_exec *x, dfi_record *r, uint32_t node, uint32_t dead) {
  push(x, r, node, dead);
  dfi_timed_queued(x, x->tail - 1, r, node);
}

void dfi_exec_again(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  const uint32_t node = (uint32_t)(p - r->nodes);
  x->count.taken--;                        /* it has not had its turn */
  r->outstanding--;
  if (!x->timed) { push(x, r, node, 0); return; }
  double later = r->when[node];            /* when the next thing happens that is not of this moment */
  for (uint32_t i = 0; i < x->timed->n; i++)
    if (x->timed->heap[i].at > x->timed->now && (later <= x->timed->now || x->timed->heap[i].at < later))
      later = x->timed->heap[i].at;
  if (later > r->when[node]) r->when[node] = later;
  push_timed(x, r, node, 0);
}

/* dfi_exec_send by the virtual clock. */
static void send_timed(dfi_exec *x, dfi_record *r, const dfi_edge *e, const dfi_edge *end, uint32_t dead) {
  for (; e < end; e++) {
    dfi_timed_arrive(x, r, e->node);
    if (e->to != DFI_TO_PLAIN) {
      readiness ready = arrive(x, r, e, dead);
      if (ready) push_timed(x, r, e->node, ready == READY ? 0 : DFI_DEAD);
      continue;
    }
    uint32_t c = r->counts[e->node] = (r->counts[e->node] - 1) | dead;
    if ((c & ~DFI_DEAD) == 0) push_timed(x, r, e->node, c);
  }
}

/* Sends a token along edges [from, to) inside r. `dead` is 0 or DFI_DEAD. The engine has the same with its queue in
   registers. */
void dfi_exec_send(dfi_exec *x, dfi_record *r, uint32_t from, uint32_t to, uint32_t dead) {
  if (DFI_UNLIKELY(x->timed != NULL)) { send_timed(x, r, x->edge + from, x->edge + to, dead); return; }
  for (const dfi_edge *e = x->edge + from, *end = x->edge + to; e < end; e++) {
    if (DFI_UNLIKELY(e->to != DFI_TO_PLAIN)) {
      readiness ready = arrive(x, r, e, dead);
      if (ready) push(x, r, e->node, ready == READY ? 0 : DFI_DEAD);
      continue;
    }
    uint32_t c = r->counts[e->node] = (r->counts[e->node] - 1) | dead;
    if ((c & ~DFI_DEAD) == 0) push(x, r, e->node, c);
  }
}

/* ---- frames and iterations ---------------------------------------------------------------------- */

enum { RECORD_HEAD = (sizeof(dfi_record) + 15) & ~15 };

static size_t record_bytes(const dfi_scope *s) {
  return RECORD_HEAD + sizeof(df_value) * s->nslots + sizeof(dfi_frame *) * s->nchildren +
         sizeof(uint32_t) * (s->n + DFI_COUNTS_COPIED);
}

void dfi_exec_lay_out(dfi_plan *p) {
  for (int32_t i = 0; i < p->nscopes; i++) p->scope[i].record_bytes = record_bytes(&p->scope[i]);
}

/* Readers of a dead loop constant are dead from the start. */
static void kill_readers(dfi_record *r) {
  const dfi_frame *f = r->frame;
  const dfi_scope *s = f->scope;
  for (uint32_t i = 0; i < s->nenters; i++)
    if (f->enter_dead[i] && s->enters[i]->constant)
      for (uint32_t c = s->enters[i]->out, u = s->const_first[c]; u < s->const_first[c + 1]; u++)
        r->counts[s->const_users[u]] |= DFI_DEAD;
}

/* A record of f that never was: what all its iterations have in common. */
static __attribute__((noinline)) dfi_record *record_make(dfi_exec *x, dfi_frame *f, int64_t number) {
  const dfi_scope *s = f->scope;
  dfi_record *r = dfi_xcalloc(1, s->record_bytes);
  x->bytes += (int64_t)s->record_bytes + 16;
  char *at = (char *)r + RECORD_HEAD;
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
  if (DFI_UNLIKELY(dfi_short)) no_memory(x, r, "an iteration");
  return r;
}

/* What only some frames' iterations begin with. */
static __attribute__((noinline)) void record_prepare(dfi_exec *x, dfi_record *r) {
  const dfi_frame *f = r->frame;
  if (x->timed) dfi_timed_record(r, x->timed->recorder != NULL);
  if (f->some_dead) kill_readers(r);
  if (f->scope->ngroups) dfi_groups_begin(x, r, f->scope);
}

/* Four at a time: for the few that most bodies have that is half of what a call of memcpy takes. */
static inline void counts_begin(uint32_t *restrict to, const uint32_t *restrict from, uint32_t n) {
  if (DFI_UNLIKELY(n > 128)) memcpy(to, from, sizeof *to * n);
  else for (const uint32_t *end = from + n; from < end; from += DFI_COUNTS_COPIED, to += DFI_COUNTS_COPIED)
    memcpy(to, from, sizeof *to * DFI_COUNTS_COPIED);
}

static inline dfi_record *record_new(dfi_exec *x, dfi_frame *f, int64_t number) {
  const dfi_scope *s = f->scope;
  dfi_record *r = f->spare;
  if (DFI_LIKELY(r != NULL)) f->spare = r->next_free;
  else r = record_make(x, f, number);
  r->number = number;
  r->stamp = dfi_stamp(f->serial, number);
  counts_begin(r->counts, s->counts, s->n);
  if (DFI_UNLIKELY(f->prepares)) record_prepare(x, r);
  return r;
}

/* Nodes of a new iteration that wait for nothing. */
static inline void record_start(dfi_exec *x, const dfi_scope *s, dfi_record *r) {
  for (uint32_t i = 0; i < s->nroots; i++) {
    if (DFI_UNLIKELY(x->timed != NULL)) dfi_timed_arrive(x, r, s->roots[i]);
    push(x, r, s->roots[i], r->counts[s->roots[i]] & DFI_DEAD);
    if (DFI_UNLIKELY(x->timed != NULL)) dfi_timed_queued(x, x->tail - 1, r, s->roots[i]);
  }
}

static void record_clear(dfi_record *r) {
  df_value *v = r->base[DFI_ITERATION];
  for (uint32_t i = 0; r->held && i < r->frame->scope->nslots; i++)
    if (v[i].kind >= DF_TENSOR) { df_value_release(&v[i]); v[i].kind = DF_EMPTY; r->held--; }
}

static inline void record_free(dfi_record *r) {
  if (DFI_UNLIKELY(r->held)) record_clear(r);
  r->next_free = r->frame->spare;
  r->frame->spare = r;
}

static void ring_widen(dfi_exec *x, dfi_frame *f, const dfi_record *r) {
  int64_t wider = f->capacity * 2;
  dfi_record **ring = dfi_xmalloc(sizeof *ring * (size_t)wider);
  for (int64_t i = f->first; i < f->next; i++) ring[i & (wider - 1)] = f->ring[i & (f->capacity - 1)];
  dfi_free(f->ring);
  f->ring = ring; f->capacity = wider;
  if (DFI_UNLIKELY(dfi_short)) no_memory(x, r, "iterations");
}

static inline void ring_put(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  if (DFI_UNLIKELY(f->next - f->first >= f->capacity)) ring_widen(x, f, r);
  f->ring[f->next++ & (f->capacity - 1)] = r;
}

static dfi_frame *frame_open(dfi_exec *x, const dfi_scope *s, dfi_record *origin, int64_t number) {
  dfi_frame *f = x->free_frames[s->id];
  if (f) x->free_frames[s->id] = f->next_free;
  else {
    f = dfi_xcalloc(1, sizeof *f);
    f->scope = s;
    f->capacity = 4;
    x->bytes += (int64_t)(sizeof *f + 8 * 4 + sizeof *f->constants * s->nconsts + 64);
    f->ring = dfi_xmalloc(sizeof *f->ring * 4);
    f->constants = dfi_xcalloc(s->nconsts + 1, sizeof *f->constants);
    f->enter_dead = dfi_xcalloc(s->nenters + s->nexits + 1, 1);
    f->exit_fired = f->enter_dead + s->nenters;
  }
  f->parent = origin ? origin->frame : NULL;
  f->depth = origin ? origin->frame->depth + 1 : 0;
  f->call = NULL;
  f->origin = origin;
  f->first = f->next = number;
  f->window = s->parallel_iterations;
  f->tokens_only = false;
  f->enters_missing = (int32_t)s->nenters;
  f->some_dead = false;
  f->prepares = x->timed || s->ngroups;
  f->ends = 0;
  memset(f->exit_fired, 0, s->nexits);
  x->count.frames += origin != NULL;
  f->serial = (uint32_t)x->count.frames;
  if (DFI_UNLIKELY(x->history != NULL))
    x->history[f->serial & ((1u << DFI_STAMP_SERIAL_BITS) - 1)] =
        (dfi_frame_history){ f->serial, (uint32_t)s->id, origin ? origin->frame->serial : 0,
                             origin ? origin->number : 0, -1 };
  if (DFI_UNLIKELY(x->watched)) dfi_watch_frame(x, f, true);
  ring_put(x, f, record_new(x, f, number));
  return f;
}

dfi_frame *dfi_frame_open_at(dfi_exec *x, const dfi_scope *s, dfi_record *origin, int64_t number) {
  return frame_open(x, s, origin, number);
}
void dfi_iteration_start(dfi_exec *x, dfi_record *r) { record_start(x, r->frame->scope, r); }

static void frame_free(dfi_exec *x, dfi_frame *f) {
  if (DFI_UNLIKELY(f->remat != NULL)) { dfi_remat_release(f->remat); f->remat = NULL; }
  if (DFI_UNLIKELY(f->second != NULL)) dfi_remat_over(x, f);
  for (uint32_t i = 0; i < f->scope->nconsts; i++) {
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
      if (!f->enter_dead[i]) return false;
      some = true;
    }
  return some;
}

/* All Enters have come: iteration 0 gets its tokens. */
static void frame_start(dfi_exec *x, dfi_frame *f) {
  const dfi_scope *s = f->scope;
  dfi_record *r = f->ring[0];
  if (DFI_UNLIKELY(f->some_dead) && entered_dead(f)) return;
  if (DFI_UNLIKELY(f->some_dead)) kill_readers(r);     /* not known yet when the record was made */
  if (DFI_UNLIKELY(s->remat)) dfi_remat_begin(x, f);
  if (DFI_UNLIKELY(s->turner != NULL) && !f->some_dead && !x->timed) {
    const bool ended = s->turner->turn(x, f, r);
    if (x->failed) return;
    if (ended) {
      for (uint32_t i = 0; i < s->nenters; i++) x->count.merged += !s->enters[i]->constant && s->enters[i]->merges;
      return;
    }
  }
  record_start(x, s, r);
  for (uint32_t i = 0; i < s->nenters; i++) {
    const dfi_pnode *p = s->enters[i];
    if (p->constant) continue;
    if (p->merges && f->enter_dead[i]) continue;     /* its Merge still hopes for the NextIteration, in vain */
    x->count.merged += p->merges;
    dfi_exec_send(x, r, p->edge[0], p->edge[1], f->enter_dead[i] ? DFI_DEAD : 0);
  }
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
      if (!f->exit_fired[i]) {
        x->count.ended++;
        dfi_exec_send(x, origin, s->exits[i]->edge[0], s->exits[i]->edge[1], DFI_DEAD);
      }
    origin->children[s->child] = NULL;
  }
  if (DFI_UNLIKELY(x->history != NULL)) {
    dfi_frame_history *history = &x->history[f->serial & ((1u << DFI_STAMP_SERIAL_BITS) - 1)];
    if (history->serial == f->serial) history->next = f->next;
  }
  if (DFI_UNLIKELY(x->watched)) dfi_watch_frame(x, f, false);
  frame_free(x, f);
  return origin;
}

/* A NextIteration's value arrives in iteration r. */
static inline void deliver_next(dfi_exec *x, dfi_record *r, const dfi_pnode *p, df_value v) {
  df_value *slot = r->base[DFI_ITERATION] + p->out;
  *slot = v;
  slot_filled(r, slot, r->frame->scope->uses[p->out]);
  x->count.merged += p->merges;
  dfi_exec_send(x, r, p->edge[0], p->edge[1], 0);
}

static inline __attribute__((always_inline)) dfi_record *iteration_open(dfi_exec *x, dfi_frame *f) {
  dfi_record *r = record_new(x, f, f->next);
  ring_put(x, f, r);
  x->count.iterations++;
  record_start(x, f->scope, r);
  return r;
}

/* No iteration of f is open, and n values wait for the next one. If these are all its variables it is at a boundary:
 * the iteration opens with its values in place, the other engine may take it further, and then it gets its tokens.
 * False: it is not. */
static bool boundary(dfi_exec *x, dfi_frame *f, int32_t n) {
  const dfi_scope *s = f->scope;
  int32_t variables = 0;
  for (uint32_t i = 0; i < s->nenters; i++) variables += !s->enters[i]->constant;
  if (n != variables || f->some_dead) return false;
  dfi_record *r = record_new(x, f, f->next);
  ring_put(x, f, r);
  x->count.iterations++;
  for (int32_t i = 0; i < n; i++) {
    const dfi_pnode *p = f->deferred[i].node;
    df_value *slot = r->base[DFI_ITERATION] + p->out;
    *slot = f->deferred[i].value;
    slot_filled(r, slot, s->uses[p->out]);
    x->count.merged += p->merges;
  }
  if (s->turner->turn(x, f, r) || x->failed) return true;
  record_start(x, s, r);
  for (int32_t i = 0; i < n; i++) dfi_exec_send(x, r, f->deferred[i].node->edge[0], f->deferred[i].node->edge[1], 0);
  return true;
}

/* r has nothing outstanding: iterations, frames and in the end the run may be done. */
void dfi_exec_iteration_done(dfi_exec *x, dfi_record *r) {
  if (DFI_UNLIKELY(x->failed)) return;         /* what failed stays open, to be looked at: see dfi_exec_reset */
  for (;;) {
    dfi_frame *f = r->frame;
    if (!f->origin) { x->finished = true; x->patience = 0; return; }
    if (r->number != f->first || f->enters_missing) return;
    dfi_audit_iteration(x, r);
    dfi_audit_queue(x, r);
    f->first++;
    if (DFI_UNLIKELY(x->timed != NULL)) dfi_timed_iteration_done(x, f, r);
    record_free(r);
    if (f->ndeferred && f->next - f->first < f->window) {      /* the window has moved */
      const int32_t n = f->ndeferred;
      f->ndeferred = 0;
      if (DFI_UNLIKELY(f->scope->turner != NULL) && !x->timed && f->first == f->next && boundary(x, f, n)) {
        if (x->failed) return;
      } else {
        if (DFI_UNLIKELY(x->timed != NULL)) dfi_timed_gate(x, f, f->next);
        dfi_record *fresh = iteration_open(x, f);
        for (int32_t i = 0; i < n; i++) {
          if (DFI_UNLIKELY(x->timed != NULL) && x->timed->recorder) dfi_record_speak(x, f->deferred[i].event);
          deliver_next(x, fresh, f->deferred[i].node, f->deferred[i].value);
        }
      }
    }
    if (f->first < f->next) {
      r = f->ring[f->first & (f->capacity - 1)];
      if (r->outstanding) return;
      continue;
    }
    dfi_audit_frame(x, f);
    r = frame_done(x, f);
    if (--r->outstanding) return;
  }
}

/* ---- the primitives --------------------------------------------------------------------------- */

static void do_enter(dfi_exec *x, dfi_record *r, const dfi_pnode *p, uint32_t dead) {
  dfi_frame *f = r->children[p->child];
  if (!f) {
    f = r->children[p->child] = frame_open(x, &x->plan->scope[p->target], r, 0);
    r->outstanding++;
  }
  dfi_operand in = x->plan->operand[p->in];
  f->enter_dead[p->enter] = dead != 0;
  if (dead) { f->some_dead = f->prepares = true; operand_used(r, in); x->count.died++; }
  else if (p->constant) {
    df_value *slot = f->constants + p->out;
    *slot = operand_take(r, in);
  } else {
    dfi_record *first = f->ring[0];
    df_value *slot = first->base[DFI_ITERATION] + p->out;
    *slot = operand_take(r, in);
    slot_filled(first, slot, f->scope->uses[p->out]);
  }
  if (--f->enters_missing == 0) {
    frame_start(x, f);
    dfi_record *begun = f->ring[f->first & (f->capacity - 1)];  /* another engine may have gone on from iteration 0 */
    if (!begun->outstanding) dfi_exec_iteration_done(x, begun);
  }
}

static inline void do_exit(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  dfi_record *origin = r->frame->origin;
  r->frame->exit_fired[p->child] = 1;
  df_value *slot = origin->base[DFI_ITERATION] + p->out;
  *slot = operand_take(r, x->plan->operand[p->in]);
  slot_filled(origin, slot, origin->frame->scope->uses[p->out]);
  dfi_exec_send(x, origin, p->edge[0], p->edge[1], 0);
}

/* Of a loop's second time: its frame has nobody to return to. */
static __attribute__((noinline, cold)) void do_exit_remat(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  if (r->frame->second) operand_used(r, x->plan->operand[p->in]);
  else do_exit(x, r, p);
}

enum { CALLS_AT_MOST = 20000 };

/* A function that calls itself: a frame of its own for each call. */
static void do_call(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  if (r->frame->depth >= CALLS_AT_MOST) {
    dfi_exec_fail(x, r, p, DF_RESOURCE_EXHAUSTED, "functions call each other more than 20000 deep");
    return;
  }
  dfi_frame *f = r->children[p->child] = frame_open(x, &x->plan->scope[p->target], r, 0);
  f->call = p;
  f->returned = false;
  r->outstanding++;
  record_start(x, f->scope, f->ring[0]);
  if (!f->ring[0]->outstanding) dfi_exec_iteration_done(x, f->ring[0]);
}

/* The results go to the caller's slots, where nobody looks before the frame is done. */
static void do_return(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  dfi_frame *f = r->frame;
  df_value *out = f->origin->base[DFI_ITERATION] + f->call->out;
  for (uint32_t i = 0; i < p->nin; i++) out[i] = operand_take(r, x->plan->operand[p->in + i]);
  f->returned = true;
}

/* The window of parallel iterations is full: the value waits until it moves. */
static void defer_next(dfi_frame *f, dfi_pnode *p, df_value v, uint32_t event) {
  if (f->ndeferred == f->deferred_capacity) {
    f->deferred_capacity = f->deferred_capacity ? f->deferred_capacity * 2 : 8;
    f->deferred = dfi_xrealloc(f->deferred, sizeof *f->deferred * (size_t)f->deferred_capacity);
  }
  f->deferred[f->ndeferred++] = (dfi_deferred){ p, v, event };
}

/* A NextIteration of a loop that is run a second time, or may be: iterations past what is wanted are not begun. */
static __attribute__((noinline, cold)) void do_next_remat(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  dfi_frame *f = r->frame;
  df_value v = operand_take(r, x->plan->operand[p->in]);
  const int64_t number = r->number + 1;
  if (x->timed) { dfi_timed_ended(x, r); dfi_timed_gate(x, f, number); }
  if (f->second && number >= f->second->end) { dfi_value_drop(&v); return; }
  if (f->remat) dfi_remat_next(f->remat, number, p->enter, &v);
  if (number >= f->next && f->next - f->first >= f->window) {
    defer_next(f, p, v, x->timed && x->timed->recorder ? dfi_record_current(x) : 0);
    return;
  }
  dfi_record *to = number < f->next ? f->ring[number & (f->capacity - 1)] : iteration_open(x, f);
  deliver_next(x, to, p, v);
}

void dfi_exec_fail(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, int32_t code, const char *message) {
  if (x->failed) return;                    /* the first error wins */
  x->failed = true;
  x->patience = 0;
  dfi_fail(x->error, code, p && p->node ? p->node->where : NULL, "%s", message);
  if (p && x->error) dfi_exec_blame(r, p, x->error);
}

/* ---- the engine ------------------------------------------------------------------------------------ */

df_stats dfi_exec_stats(const dfi_exec *x) {
  const dfi_counters *c = &x->count;
  const int64_t taken = c->taken + (x->head - x->counted);
  return (df_stats){ 1, taken - c->died + c->merged, c->died + c->ended, c->frames, c->iterations, c->pushes, c->pops };
}

void dfi_exec_publish(const dfi_exec *x) {
  const df_stats d = dfi_exec_stats(x);
  const int64_t now[] = { d.runs, d.nodes_run, d.dead_tokens, d.frames, d.iterations, d.stack_pushes, d.stack_pops };
  int64_t *to[] = { &x->live->runs, &x->live->nodes_run, &x->live->dead_tokens, &x->live->frames, &x->live->iterations,
                    &x->live->stack_pushes, &x->live->stack_pops };
  for (int32_t i = 0; i < 7; i++) __atomic_store_n(to[i], now[i], __ATOMIC_RELAXED);
}

/* The deadline has passed: says what the run waits for, or where it is. */
static void too_late(dfi_exec *x) {
  char message[900];
  size_t at = (size_t)snprintf(message, sizeof message, "the run took longer than its timeout");
  if (x->away) {
    at += (size_t)snprintf(message + at, sizeof message - at, ": ");
    dfi_calls_text(x, message + at, sizeof message - at);
    dfi_exec_fail(x, x->away->record, x->away->node, DF_DEADLINE_EXCEEDED, message);
  } else if (x->head != x->tail) {
    const dfi_token *next = &x->queue[x->head & x->queue_mask];
    dfi_exec_fail(x, next->record, next->record->nodes + next->node, DF_DEADLINE_EXCEEDED, message);
  } else {
    dfi_exec_fail(x, NULL, NULL, DF_DEADLINE_EXCEEDED, message);
  }
}

/* ---- other engines: engine.h ------------------------------------------------------------------- */

bool dfi_engine_stops(dfi_exec *x) {
  return x->failed || (x->cancel && atomic_load_explicit(x->cancel, memory_order_relaxed)) ||
         (x->closing && atomic_load_explicit(x->closing, memory_order_relaxed)) || dfi_interrupted(x) ||
         dfi_watch_wanted(x) || (x->deadline && dfi_now() > x->deadline);
}

/* Every so many tokens: is the run to stop? */
static void look_up(dfi_exec *x) {
  if (DFI_UNLIKELY(dfi_short)) no_memory(x, NULL, "the run");
  x->patience = x->flights ? 16 : 256;
  x->count.taken += x->head - x->counted;
  x->counted = x->head;
  if (x->live) dfi_exec_publish(x);
  if (x->cancel && atomic_load_explicit(x->cancel, memory_order_relaxed))
    dfi_exec_fail(x, NULL, NULL, DF_CANCELLED, "the run was cancelled");
  else if (x->closing && atomic_load_explicit(x->closing, memory_order_relaxed))
    dfi_exec_fail(x, NULL, NULL, DF_CANCELLED, "the session was closed");
  else if (dfi_interrupted(x))
    dfi_exec_fail(x, NULL, NULL, DF_CANCELLED, "the run was interrupted");
  else if (x->deadline && dfi_now() > x->deadline) too_late(x);
  if (x->watch && !x->failed) dfi_watch_look(x);
  if (x->plan->turner && !x->failed) x->plan->turner->look(x);
  if (x->running && __atomic_load_n(&x->inbox, __ATOMIC_RELAXED)) dfi_inbox_take(x, false);
}

static void shuffle_head(dfi_exec *x) {
  uint64_t s = x->shuffle;
  s ^= s << 13; s ^= s >> 7; s ^= s << 17;
  x->shuffle = s;
  uint32_t n = x->tail - x->head, k = (uint32_t)(s % n);
  dfi_token *a = &x->queue[x->head & x->queue_mask], *b = &x->queue[(x->head + k) & x->queue_mask], t = *a;
  *a = *b; *b = t;
}

/* Is a frame open that some of its Enters will never reach, because what feeds them is never run? Where a loop is dead
 * in part, as raw graphs may have it, such a frame stays to the end of the run and its Exits have no value. */
static bool waits_for_enters(const dfi_frame *f) {
  if (f->enters_missing) return true;
  for (int64_t i = f->first; i < f->next; i++) {
    const dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t c = 0; c < f->scope->nchildren; c++)
      if (r->children[c] && waits_for_enters(r->children[c])) return true;
  }
  return false;
}

/* What happens only now and then: false when the engine has to stop. */
static bool pause_for_thought(dfi_exec *x) {
  if (x->finished || x->failed) return false;
  if (DFI_UNLIKELY(x->flights != NULL)) {
    const double next = dfi_transfer_arrivals(x);
    if (x->finished || x->failed) return false;
    if (x->head == x->tail && next > 0) {
      if (DFI_UNLIKELY(isinf(next)) && dfi_transfer_stalled(x)) return false;
      look_up(x);
      if (!x->failed && x->head == x->tail) dfi_inbox_wait(x, next);
      return !x->failed;
    }
    if (x->head == x->tail && !x->finished) return true;
  }
  if (x->head == x->tail) {
    if (!x->running) {
      if (waits_for_enters(x->root)) { x->finished = true; return false; }
      /* a token is missing: the plan was malformed */
      dfi_exec_fail(x, NULL, NULL, DF_INTERNAL, "nothing can move, and the run is not done");
      return false;
    }
    if (x->waiting || dfi_watch_wanted(x)) {   /* waiting: perhaps for ever */
      look_up(x);                           /* it may find that something has come back */
      if (x->failed || x->finished) return false;
      if (x->head != x->tail || !x->running) return true;
      if (x->waiting && dfi_calls_stuck(x)) return false;
    }
    dfi_inbox_take(x, true);
    return !x->finished && !x->failed;
  }
  look_up(x);
  return !x->failed;
}

#define ALWAYS static inline __attribute__((always_inline))

/* As dfi_exec_send, with the queue's end in a register: `tail`, which is returned as it is then. There is room: the
   engine sees to it before each node. */
ALWAYS uint32_t hot_send(dfi_exec *x, uint32_t tail, dfi_record *r, uint32_t from, uint32_t to, uint32_t dead,
                         const bool timed) {
  uint32_t *counts = r->counts;
  for (const dfi_edge *e = x->edge + from, *end = x->edge + to; e < end; e++) {
    uint32_t c;
    const uint32_t node = e->node;
    if (timed) dfi_timed_arrive(x, r, node);
    if (DFI_UNLIKELY(e->to != DFI_TO_PLAIN)) {
      if (e->to == DFI_TO_EXIT) {
        if (dead) continue;
        c = 0;
      } else {
        const readiness ready = arrive(x, r, e, dead);
        if (!ready) continue;
        c = ready == READY ? 0 : DFI_DEAD;
      }
    } else {
      c = (counts[node] - 1) | dead;
      counts[node] = c;
      if (c & ~DFI_DEAD) continue;
    }
    dfi_token *t = &x->queue[tail++ & x->queue_mask];
    t->record = r;
    t->node = node;
    t->mark = c | r->stamp;
    r->outstanding++;
    if (timed) dfi_timed_queued(x, tail - 1, r, node);
  }
  return tail;
}

/* r, the oldest iteration, is done and the next one is not: the commonest end of an iteration, without
   dfi_exec_iteration_done. */
ALWAYS bool iteration_passed(dfi_exec *x, dfi_record *r) {
  dfi_frame *f = r->frame;
  int64_t second = f->first + 1;
  if (r->number != f->first || second >= f->next || f->ndeferred || r->held) return false;
  if (!f->ring[second & (f->capacity - 1)]->outstanding) return false;
  df_assert(!f->enters_missing);           /* or its second iteration would not be there */
  dfi_audit_iteration(x, r);
  dfi_audit_frame(x, f);
  f->first = second;
  r->next_free = f->spare;
  f->spare = r;
  return true;
}

/* A node made v: kept, where values are kept. */
ALWAYS void keep(dfi_exec *x, const dfi_token t, uint32_t index, const df_value *v) {
  dfi_made *k = x->made + (x->nmade & (DFI_MADE - 1));
  if (DFI_UNLIKELY(v->kind >= DF_TENSOR || x->made_held)) { dfi_watch_keep(x, t, index, v); return; }
  x->nmade++;
  k->token = t;
  k->value.kind = v->kind; k->value.dtype = v->dtype; k->value.dead = v->dead; k->value.uses = index;
  /* as wide as it was just written: that is fast */
  if (DFI_LIKELY(dfi_dtype_size[v->dtype] == 4)) k->value.as.u32 = v->as.u32;
  else if (dfi_dtype_size[v->dtype] == 1) k->value.as.u8 = v->as.u8;
  else k->value.as.u64 = v->as.u64;
}

/* Which side of a Switch its data leaves by, where that is not a number of this run's own; -1: the run has failed. */
static __attribute__((noinline, cold)) int32_t switch_side(dfi_exec *x, dfi_record *r, const dfi_pnode *p,
                                                           dfi_operand at) {
  const df_value *pred = operand(r, at);
  if (pred->kind == DF_TENSOR && !dfi_remote_number(x, r, p, at)) return -1;
  if (pred->kind == DF_SCALAR) return pred->as.u8 != 0;
  /* a reference variable's own value */
  if (pred->kind == DF_TENSOR && pred->as.tensor->rank == 0) return *(const uint8_t *)pred->as.tensor->data != 0;
  dfi_exec_fail(x, r, p, DF_INVALID_ARGUMENT,
                "the predicate of a Switch must be a scalar bool, but it is a tensor of rank > 0");
  return -1;
}

/* The engine, once without and once with what watch.c wants. Returns when the run is over, or when something else is
   wanted. */
ALWAYS void engine_body(dfi_exec *x, const bool watched, const bool timed) {
  const dfi_operand *operands = x->plan->operand;
  const uint32_t widest = x->plan->widest;
  queue_room(x, widest);
  x->queue_most = x->queue_mask - widest;
  uint32_t tail = x->tail;                 /* put back before anything else may use it */
  const uint8_t began = x->watched;
  const bool every = watched && began == DFI_EVERY_TOKEN, keeps = watched && x->made, logs = watched && x->logs;
  for (;;) {
    /* no token is ready, or there might be no room for what its node sends */
    if (DFI_UNLIKELY(--x->patience < 0 || tail - x->head - 1 >= x->queue_most ||
                     (logs && tail - x->logged + widest > x->queue_mask))) {
      x->tail = tail;
      queue_room(x, widest);
      if ((x->patience < 0 || x->head == x->tail) && !pause_for_thought(x)) break;
      if (x->watched != began) break;
      tail = x->tail;
      continue;
    }
    if (timed) { x->tail = tail; dfi_timed_pick(x); }
    else if (watched && x->shuffle) { x->tail = tail; shuffle_head(x); }
    if (every) {
      x->tail = tail;
      if (!dfi_watch_token(x)) break;
    }
    if (timed) dfi_timed_take(x);
    const dfi_token t = x->queue[x->head++ & x->queue_mask];
    dfi_record *r = t.record;
    dfi_pnode *p = r->nodes + t.node;
    if (timed && x->timed->recorder) dfi_record_token(x, r, t.node);
    if (DFI_UNLIKELY(t.mark & DFI_DEAD) && p->kind != DFI_K_ENTER && p->kind != DFI_K_TRIGGER &&
        p->kind != DFI_K_TRANSFER) {
      x->count.died++;
      if (keeps) keep(x, t, 0, &(df_value){ .dead = 1 });
      if (DFI_UNLIKELY(p->group)) {
        x->tail = tail;
        dfi_group_dead(x, r, p);
        tail = x->tail;
      } else if ((uint32_t)(p->kind - DFI_K_EXIT) > DFI_K_NEXT_REMAT - DFI_K_EXIT) {
        if (p->iteration_operands) drop_inputs(x, r, p);
        tail = hot_send(x, tail, r, p->edge[0], p->edge[p->kind == DFI_K_SWITCH ? 3 : 1], DFI_DEAD, timed);
      }
    } else switch ((dfi_kind)p->kind) {
    case DFI_K_SCALAR: {
      const dfi_operand *in = operands + p->in;  /* the first again where there is but one */
      const df_value *a = operand(r, in[0]), *b = operand(r, in[1]), *c = a;
      df_value *out = r->base[DFI_ITERATION] + p->out;
      if (DFI_UNLIKELY(a->kind != DF_SCALAR || b->kind != DF_SCALAR)) goto kernel;
      if (DFI_UNLIKELY(p->nin > 2) && (c = operand(r, in[2]))->kind != DF_SCALAR) goto kernel;
      if (DFI_UNLIKELY(!p->scalar(out, a, b, c))) goto kernel;
      out->kind = DF_SCALAR; out->dtype = p->out_dtype;
      if (keeps) keep(x, t, 0, out);
      if (timed) dfi_timed_compute(x, r, p, 1, 4.0 * (p->nin + 1));
      tail = hot_send(x, tail, r, p->edge[0], p->edge[1], 0, timed);
      break;
    }
    case DFI_K_READ: {
      df_value *out = r->base[DFI_ITERATION] + p->out;
      if (DFI_UNLIKELY(!dfi_variable_peek(operand(r, operands[p->in]), out))) goto kernel;
      if (keeps) keep(x, t, 0, out);
      slot_filled(r, out, r->frame->scope->uses[p->out]);
      tail = hot_send(x, tail, r, p->edge[0], p->edge[1], 0, timed);
      if (DFI_UNLIKELY(p->iteration_operands)) drop_inputs(x, r, p);
      break;
    }
    kernel:
    case DFI_K_KERNEL: {
      x->tail = tail;
      bool elsewhere = logs ? dfi_watch_call(x, r, p) : dfi_call_run(x, r, p);
      tail = x->tail;
      if (elsewhere) continue;              /* outstanding until the worker is done */
      break;
    }
    case DFI_K_SWITCH: {
      const df_value *pred = operand(r, operands[p->in + 1]);
      uint32_t side = pred->as.u8 != 0;          /* a byte that a caller fed may be any */
      if (DFI_UNLIKELY(pred->kind != DF_SCALAR)) {
        const int32_t found = switch_side(x, r, p, operands[p->in + 1]);
        if (found < 0) break;
        side = (uint32_t)found;
      }
      df_value *out = r->base[DFI_ITERATION] + p->out + side;
      *out = operand_take(r, operands[p->in]);
      if (keeps) keep(x, t, side, out);
      slot_filled(r, out, r->frame->scope->uses[p->out + side]);
      tail = hot_send(x, tail, r, p->edge[side], p->edge[side + 1], 0, timed);
      if (timed || !(p->constant >> side & 1))
        tail = hot_send(x, tail, r, p->edge[!side], p->edge[!side + 1], DFI_DEAD, timed);
      if (DFI_UNLIKELY(p->constant & DFI_SWITCH_HAS_OWN))
        tail = hot_send(x, tail, r, p->edge[2], p->edge[3], 0, timed);
      break;
    }
    case DFI_K_NEXT: {
      dfi_frame *f = r->frame;
      const int64_t number = r->number + 1;
      dfi_record *to;
      if (timed) { dfi_timed_ended(x, r); dfi_timed_gate(x, f, number); }
      if (number < f->next) to = f->ring[number & (f->capacity - 1)];
      else if (f->next - f->first < f->window) {
        x->tail = tail;
        to = iteration_open(x, f);
        tail = x->tail;
      } else {
        defer_next(f, p, operand_take(r, operands[p->in]), timed && x->timed->recorder ? dfi_record_current(x) : 0);
        break;
      }
      df_value *slot = to->base[DFI_ITERATION] + p->out;
      *slot = operand_take(r, operands[p->in]);
      slot_filled(to, slot, f->scope->uses[p->out]);
      x->count.merged += p->merges;
      tail = hot_send(x, tail, to, p->edge[0], p->edge[1], 0, timed);
      if (--r->outstanding == 0 && (timed || !iteration_passed(x, r))) goto done;
      continue;
    }
    case DFI_K_MERGE: {
      df_value *out = r->base[DFI_ITERATION] + p->out;
      *out = operand_take(r, operands[p->in + (uint32_t)out[1].as.i32]);
      if (keeps) keep(x, t, 0, out);
      slot_filled(r, out, r->frame->scope->uses[p->out]);
      tail = hot_send(x, tail, r, p->edge[0], p->edge[1], 0, timed);
      break;
    }
    case DFI_K_ENTER:
      x->tail = tail;
      do_enter(x, r, p, t.mark & DFI_DEAD);
      tail = x->tail;
      break;
    case DFI_K_EXIT:
      x->tail = tail;
      do_exit(x, r, p);
      tail = x->tail;
      break;
    case DFI_K_EXIT_REMAT:
      x->tail = tail;
      do_exit_remat(x, r, p);
      tail = x->tail;
      break;
    case DFI_K_NEXT_REMAT:
      x->tail = tail;
      do_next_remat(x, r, p);
      tail = x->tail;
      break;
    case DFI_K_CONST: {
      df_value *out = r->base[DFI_ITERATION] + p->out;
      *out = dfi_value_copy(operand(r, operands[p->in]));
      if (keeps) keep(x, t, 0, out);
      slot_filled(r, out, r->frame->scope->uses[p->out]);
      tail = hot_send(x, tail, r, p->edge[0], p->edge[1], 0, timed);
      break;
    }
    case DFI_K_TRANSFER: {
      x->tail = tail;
      const bool under_way = dfi_transfer_run(x, r, p, t.mark & DFI_DEAD);
      tail = x->tail;
      if (under_way) continue;
      break;
    }
    case DFI_K_CALL:
      x->tail = tail;
      do_call(x, r, p);
      tail = x->tail;
      break;
    case DFI_K_ARG: {
      const dfi_frame *f = r->frame;
      df_value *out = r->base[DFI_ITERATION] + p->out;
      *out = dfi_value_copy(operand(f->origin, operands[f->call->in + p->enter]));
      if (keeps) keep(x, t, 0, out);
      slot_filled(r, out, f->scope->uses[p->out]);
      tail = hot_send(x, tail, r, p->edge[0], p->edge[1], 0, timed);
      break;
    }
    case DFI_K_RETURN:
      do_return(x, r, p);
      tail = hot_send(x, tail, r, p->edge[0], p->edge[1], 0, timed);
      break;
    case DFI_K_NOOP:
    case DFI_K_TRIGGER: tail = hot_send(x, tail, r, p->edge[0], p->edge[1], 0, timed); break;
    case DFI_K_UNFED: {
      char shape[200], message[400];
      dfi_typed_shape_text(p->node->out[0].dtype, &p->node->out[0].shape, shape);
      snprintf(message, sizeof message, "the placeholder `%s`, %s, was not fed", dfi_node_name(p->node), shape);
      dfi_exec_fail(x, r, p, DF_INVALID_ARGUMENT, message);
      break;
    }
    default: __builtin_unreachable();
    }
    if (timed) dfi_timed_ended(x, r);
    if (--r->outstanding || (!timed && iteration_passed(x, r))) continue;
  done:
    x->tail = tail;
    dfi_exec_iteration_done(x, r);
    tail = x->tail;
  }
}

static void engine_plain(dfi_exec *x)   { engine_body(x, false, false); }
static void engine_watched(dfi_exec *x) { engine_body(x, true, false); }
static void engine_timed(dfi_exec *x)   { engine_body(x, true, true); }

static void engine(dfi_exec *x) {
  while (!x->finished && !x->failed)
    if (x->timed) engine_timed(x);
    else if (x->watched || x->shuffle) engine_watched(x);
    else engine_plain(x);
}

/* ---- a run ------------------------------------------------------------------------------------- */

dfi_exec *dfi_exec_new(dfi_plan *p) {
  dfi_exec *x = dfi_xcalloc(1, sizeof *x);
  x->plan = p;
  x->given = dfi_xcalloc((size_t)(p->nfeed + p->nvariables + p->ncrossings + 1), sizeof *x->given);
  x->traffic = dfi_xcalloc((size_t)p->nlinks + 1, sizeof *x->traffic);
  x->line = dfi_xcalloc((size_t)p->nlinks + 1, sizeof *x->line);
  x->queue = dfi_xcalloc(DFI_HISTORY, sizeof *x->queue);
  x->queue_mask = DFI_HISTORY - 1;
  x->bytes = (int64_t)(sizeof *x + DFI_HISTORY * sizeof *x->queue);
  x->free_frames = dfi_xcalloc((size_t)p->nscopes, sizeof *x->free_frames);
  pthread_mutex_init(&x->inbox_lock, NULL);
  dfi_cond_init(&x->inbox_bell);
  return x;
}

/* Lets a frame of a failed run go, with all that is open inside. */
static void frame_abandon(dfi_exec *x, dfi_frame *f) {
  for (int64_t i = f->first; i < f->next; i++) {
    dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t c = 0; c < f->scope->nchildren; c++)
      if (r->children[c]) { frame_abandon(x, r->children[c]); r->children[c] = NULL; }
    r->outstanding = 0;
    record_free(r);
  }
  for (int32_t i = 0; i < f->ndeferred; i++) dfi_value_drop(&f->deferred[i].value);
  f->ndeferred = 0;
  frame_free(x, f);
}

int32_t dfi_exec_run(dfi_exec *x, df_error *err) {
  df_error local;
  x->error = err ? err : &local;
  x->finished = x->failed = false;
  x->head = x->tail = x->begun = x->counted = x->logged = 0;
  x->patience = 256;
  x->watched = DFI_UNWATCHED;
  x->logs = false;
  x->made = NULL;
  x->edge = x->plan->edge;
  x->count = (dfi_counters){ 0 };
  x->root = NULL;
  x->remat_iterations = 0;
  if (x->watch) dfi_watch_begin(x);
  if (x->timed) dfi_timed_begin(x);
  if (x->timed && x->timed->recorder) dfi_record_begin(x);
  if (x->swapper) dfi_swap_begin(x);
  if (x->plan->cut) {
    if (x->plan->devices->faulty) dfi_faults_begin(x);
    dfi_streams_begin(x);
  }
  const dfi_rescue rescue = dfi_swap_watch(x);
  const double began = dfi_now();
  x->root = frame_open(x, &x->plan->scope[0], NULL, 0);
  if (x->plan->cut) dfi_transfer_begin(x);
  dfi_record *r = x->root->ring[0];
  record_start(x, x->root->scope, r);
  if (DFI_UNLIKELY(dfi_short)) no_memory(x, NULL, "the run");
  if (x->failed) { }
  else if (r->outstanding) engine(x);
  else x->finished = true;
  if (DFI_UNLIKELY(dfi_short)) no_memory(x, NULL, "the run");
  if (x->running || x->stuck) dfi_calls_stop(x);
  if (x->streams) dfi_streams_end(x);
  dfi_rescue_here = rescue;
  x->seconds = x->timed && x->plan->devices->virtual_clock ? x->timed->last : dfi_now() - began;
  if (x->watch) dfi_watch_end(x);
  if (!x->failed) dfi_audit_end(x);
  return x->failed ? x->error->code : DF_OK;
}

void dfi_exec_reset(dfi_exec *x) {
  if (x->swapper) dfi_swap_end(x);
  if (x->replay) dfi_native_forget_replays(x);
  if (x->root) frame_abandon(x, x->root);
  x->root = NULL;
  if (x->remats) dfi_remat_end(x);
  for (int32_t i = 0; i < x->plan->nfeed; i++) {
    dfi_value_drop(&x->given[i]);
    x->given[i].kind = DF_EMPTY;
  }
  for (int32_t i = 0; i < x->plan->ncrossings; i++) {
    df_value *v = &x->given[x->plan->nfeed + x->plan->nvariables + i];
    dfi_value_drop(v);
    v->kind = DF_EMPTY;
  }
}

void dfi_exec_free(dfi_exec *x) {
  dfi_exec_reset(x);
  for (int32_t s = 0; s < x->plan->nscopes; s++) {
    for (dfi_frame *f = x->free_frames[s], *n; f; f = n) {
      n = f->next_free;
      for (dfi_record *r = f->spare, *next; r; r = next) {
        next = r->next_free;
        dfi_free(r->when);
        dfi_free(r->sources);
        dfi_free(r);
      }
      dfi_free(f->ring); dfi_free(f->gate); dfi_free(f->constants); dfi_free(f->enter_dead); dfi_free(f->deferred);
      dfi_free(f);
    }
  }
  dfi_timed_free(x->clock);
  dfi_swapper_free(x->swapper);
  dfi_streams_free(x);
  dfi_free(x->faults);
  dfi_free(x->traffic); dfi_free(x->line);
  dfi_free(x->free_frames); dfi_free(x->queue); dfi_free(x->history); dfi_free(x->given);
  pthread_mutex_destroy(&x->inbox_lock);
  pthread_cond_destroy(&x->inbox_bell);
  dfi_free(x);
}
