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
#include "executor.h"
#include <stdio.h>
#include <time.h>

_Atomic int64_t dfi_interrupts;

double dfi_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the queue of ready tokens ------------------------------------------------------------- */

static void queue_grow(dfi_exec *x) {
  uint32_t old = x->queue_mask + 1, n = x->tail - x->head;
  dfi_token *q = dfi_xmalloc(sizeof *q * old * 2);
  for (uint32_t i = 0; i < n; i++) q[i] = x->queue[(x->head + i) & x->queue_mask];
  free(x->queue);
  x->queue = q; x->queue_mask = old * 2 - 1; x->head = 0; x->tail = n;
}

static inline void push(dfi_exec *x, dfi_record *r, uint32_t node, uint32_t dead) {
  if (DFI_UNLIKELY(x->tail - x->head > x->queue_mask)) queue_grow(x);
  x->queue[x->tail++ & x->queue_mask] = (dfi_token){ r, node, dead };
  r->outstanding++;
}

/* ---- slots ------------------------------------------------------------------------------------ */

static inline df_value *operand(const dfi_record *r, dfi_operand o) {
  if (DFI_LIKELY(o < DFI_OPERAND(1, 0))) return r->base[DFI_ITERATION] + o;
  return r->base[DFI_SPACE(o)] + DFI_INDEX(o);
}

/* A slot of r has just received *v (by assignment): counts its readers, or drops it when it has none. */
static inline void slot_filled(dfi_record *r, df_value *v, uint32_t uses) {
  if (DFI_LIKELY(v->kind < DF_TENSOR)) return;
  if (uses) { v->uses = uses; r->held++; }
  else { df_value_release(v); v->kind = DF_EMPTY; }
}

/* One reader of an operand is done with it. */
static inline void operand_used(dfi_record *r, dfi_operand o) {
  if (DFI_SPACE(o) != DFI_ITERATION) return;
  df_value *v = r->base[DFI_ITERATION] + DFI_INDEX(o);
  if (v->kind >= DF_TENSOR && --v->uses == 0) {
    df_value_release(v);
    v->kind = DF_EMPTY;
    r->held--;
  }
}

/* The value of an operand for a node that passes it on: moved when this is its last reader. */
static inline df_value operand_take(dfi_record *r, dfi_operand o) {
  df_value *v = operand(r, o), out = *v;
  if (out.kind < DF_TENSOR) return out;
  if (DFI_SPACE(o) == DFI_ITERATION && --v->uses == 0) {
    v->kind = DF_EMPTY;
    r->held--;
    return out;
  }
  return dfi_value_copy(v);
}

static void drop_inputs(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  const dfi_operand *in = x->plan->operand + p->in;
  for (uint32_t i = 0; i < p->nin; i++) operand_used(r, in[i]);
}

/* ---- sending tokens ---------------------------------------------------------------------------- */

/* One token along an edge to a Merge or an Exit. Does it make the node ready? */
typedef enum readiness { NOT_READY, READY, READY_DEAD } readiness;

static readiness arrive(dfi_exec *x, dfi_record *r, const dfi_edge *e, uint32_t dead) {
  uint32_t to = e->to & 0xff;
  if (to == DFI_TO_EXIT) return dead ? NOT_READY : READY;   /* a dead Exit is remembered by not firing: see frame_done */
  uint32_t *at = &r->counts[e->node], c = *at;
  const dfi_pnode *m = r->nodes + e->node;
  readiness ready = NOT_READY;
  if (to == DFI_TO_MERGE_CONTROL) c -= DFI_MERGE_CONTROL;
  else if (dead) c -= 1;
  else if (!(c & DFI_MERGE_LIVE)) {
    c |= DFI_MERGE_LIVE;
    r->base[DFI_ITERATION][m->out + 1] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)(e->to >> 8) };
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

/* Sends a token along edges [from, to) inside r. `dead` is 0 or DFI_DEAD. The engine has the same with its queue in registers. */
static void activate(dfi_exec *x, dfi_record *r, uint32_t from, uint32_t to, uint32_t dead) {
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

size_t dfi_record_bytes(const dfi_scope *s) {
  return RECORD_HEAD + sizeof(df_value) * s->nslots + sizeof(dfi_frame *) * s->nchildren + sizeof(uint32_t) * s->n;
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

static inline dfi_record *record_new(dfi_exec *x, dfi_frame *f, int64_t number) {
  const dfi_scope *s = f->scope;
  dfi_record *r = x->free_records[s->id];
  if (r) x->free_records[s->id] = r->next_free;
  else {
    r = dfi_xcalloc(1, s->record_bytes);
    char *at = (char *)r + RECORD_HEAD;
    r->base[DFI_ITERATION] = (df_value *)at; at += sizeof(df_value) * s->nslots;
    r->children = (dfi_frame **)at;          at += sizeof(dfi_frame *) * s->nchildren;
    r->counts = (uint32_t *)at;
    r->nodes = x->plan->node + s->first;
    r->base[DFI_CONSTANT] = x->plan->constant;
    r->base[DFI_GIVEN] = x->given;
    for (uint32_t i = 0; i < s->ncopies; i++) r->base[DFI_ITERATION][s->copies[i].slot] = x->plan->constant[s->copies[i].constant];
  }
  r->base[DFI_FRAME] = f->constants;
  r->frame = f;
  r->number = number;
  r->outstanding = 0;
  memcpy(r->counts, s->counts, sizeof(uint32_t) * s->n);
  if (DFI_UNLIKELY(f->some_dead)) kill_readers(r);
  return r;
}

/* Nodes of a new iteration that wait for nothing. */
static inline void record_start(dfi_exec *x, dfi_record *r) {
  const dfi_scope *s = r->frame->scope;
  for (uint32_t i = 0; i < s->nroots; i++) push(x, r, s->roots[i], r->counts[s->roots[i]] & DFI_DEAD);
}

static void record_clear(dfi_record *r) {
  df_value *v = r->base[DFI_ITERATION];
  for (uint32_t i = 0; r->held && i < r->frame->scope->nslots; i++)
    if (v[i].kind >= DF_TENSOR) { df_value_release(&v[i]); v[i].kind = DF_EMPTY; r->held--; }
}

static inline void record_free(dfi_exec *x, dfi_record *r) {
  if (DFI_UNLIKELY(r->held)) record_clear(r);
  r->next_free = x->free_records[r->frame->scope->id];
  x->free_records[r->frame->scope->id] = r;
}

static void ring_widen(dfi_frame *f) {
  int64_t wider = f->capacity * 2;
  dfi_record **ring = dfi_xmalloc(sizeof *ring * (size_t)wider);
  for (int64_t i = f->first; i < f->next; i++) ring[i & (wider - 1)] = f->ring[i & (f->capacity - 1)];
  free(f->ring);
  f->ring = ring; f->capacity = wider;
}

static inline void ring_put(dfi_frame *f, dfi_record *r) {
  if (DFI_UNLIKELY(f->next - f->first >= f->capacity)) ring_widen(f);
  f->ring[f->next++ & (f->capacity - 1)] = r;
}

static dfi_frame *frame_open(dfi_exec *x, const dfi_scope *s, dfi_record *origin) {
  dfi_frame *f = x->free_frames[s->id];
  if (f) x->free_frames[s->id] = f->next_free;
  else {
    f = dfi_xcalloc(1, sizeof *f);
    f->scope = s;
    f->capacity = 4;
    f->ring = dfi_xmalloc(sizeof *f->ring * 4);
    f->constants = dfi_xcalloc(s->nconsts + 1, sizeof *f->constants);
    f->enter_dead = dfi_xcalloc(s->nenters + s->nexits + 1, 1);
    f->exit_fired = f->enter_dead + s->nenters;
  }
  f->parent = origin ? origin->frame : NULL;
  f->origin = origin;
  f->first = f->next = 0;
  f->enters_missing = (int32_t)s->nenters;
  f->some_dead = false;
  memset(f->exit_fired, 0, s->nexits);
  x->count.frames += origin != NULL;
  ring_put(f, record_new(x, f, 0));
  return f;
}

static void frame_free(dfi_exec *x, dfi_frame *f) {
  for (uint32_t i = 0; i < f->scope->nconsts; i++) {
    dfi_value_drop(&f->constants[i]);
    f->constants[i].kind = DF_EMPTY;
  }
  f->next_free = x->free_frames[f->scope->id];
  x->free_frames[f->scope->id] = f;
}

/* All Enters have come: iteration 0 gets its tokens. */
static void frame_start(dfi_exec *x, dfi_frame *f) {
  const dfi_scope *s = f->scope;
  dfi_record *r = f->ring[0];
  if (DFI_UNLIKELY(f->some_dead)) kill_readers(r);     /* not known yet when the record was made */
  record_start(x, r);
  for (uint32_t i = 0; i < s->nenters; i++) {
    const dfi_pnode *p = s->enters[i];
    if (p->constant) continue;
    if (p->merges && f->enter_dead[i]) continue;     /* its Merge still hopes for the NextIteration, in vain */
    x->count.nodes_run += p->merges;
    activate(x, r, p->edge[0], p->edge[1], f->enter_dead[i] ? DFI_DEAD : 0);
  }
}

/* The frame has no iteration left. Exits that did not fire are dead. Returns the parent's iteration. */
static dfi_record *frame_done(dfi_exec *x, dfi_frame *f) {
  const dfi_scope *s = f->scope;
  dfi_record *origin = f->origin;
  for (uint32_t i = 0; i < s->nexits; i++)
    if (!f->exit_fired[i]) {
      x->count.dead_tokens++;
      activate(x, origin, s->exits[i]->edge[0], s->exits[i]->edge[1], DFI_DEAD);
    }
  origin->children[s->child] = NULL;
  frame_free(x, f);
  return origin;
}

/* A NextIteration's value arrives in iteration r. */
static inline void deliver_next(dfi_exec *x, dfi_record *r, const dfi_pnode *p, df_value v) {
  df_value *slot = r->base[DFI_ITERATION] + p->out;
  *slot = v;
  slot_filled(r, slot, r->frame->scope->uses[p->out]);
  x->count.nodes_run += p->merges;
  activate(x, r, p->edge[0], p->edge[1], 0);
}

static inline dfi_record *iteration_open(dfi_exec *x, dfi_frame *f) {
  dfi_record *r = record_new(x, f, f->next);
  ring_put(f, r);
  x->count.iterations++;
  record_start(x, r);
  return r;
}

/* r has nothing outstanding: iterations, frames and in the end the run may be done. */
static void iteration_done(dfi_exec *x, dfi_record *r) {
  for (;;) {
    dfi_frame *f = r->frame;
    if (!f->origin) { x->finished = true; x->patience = 0; return; }
    if (r->number != f->first || f->enters_missing) return;
    f->first++;
    record_free(x, r);
    if (f->ndeferred) {                     /* the window has moved */
      dfi_record *fresh = iteration_open(x, f);
      int32_t n = f->ndeferred;
      f->ndeferred = 0;
      for (int32_t i = 0; i < n; i++) deliver_next(x, fresh, f->deferred[i].node, f->deferred[i].value);
    }
    if (f->first < f->next) {
      r = f->ring[f->first & (f->capacity - 1)];
      if (r->outstanding) return;
      continue;
    }
    r = frame_done(x, f);
    if (--r->outstanding) return;
  }
}

/* ---- the primitives --------------------------------------------------------------------------- */

static void do_enter(dfi_exec *x, dfi_record *r, const dfi_pnode *p, uint32_t dead) {
  dfi_frame *f = r->children[p->child];
  if (!f) {
    f = r->children[p->child] = frame_open(x, &x->plan->scope[p->target], r);
    r->outstanding++;
  }
  dfi_operand in = x->plan->operand[p->in];
  f->enter_dead[p->enter] = dead != 0;
  if (dead) { f->some_dead = true; operand_used(r, in); x->count.dead_tokens++; }
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
    if (!f->ring[0]->outstanding) iteration_done(x, f->ring[0]);
  }
}

static inline void do_exit(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  dfi_record *origin = r->frame->origin;
  r->frame->exit_fired[p->child] = 1;
  df_value *slot = origin->base[DFI_ITERATION] + p->out;
  *slot = operand_take(r, x->plan->operand[p->in]);
  slot_filled(origin, slot, origin->frame->scope->uses[p->out]);
  activate(x, origin, p->edge[0], p->edge[1], 0);
}

/* The window of parallel iterations is full: the value waits until it moves. */
static void defer_next(dfi_frame *f, dfi_pnode *p, df_value v) {
  if (f->ndeferred == f->deferred_capacity) {
    f->deferred_capacity = f->deferred_capacity ? f->deferred_capacity * 2 : 8;
    f->deferred = dfi_xrealloc(f->deferred, sizeof *f->deferred * (size_t)f->deferred_capacity);
  }
  f->deferred[f->ndeferred++] = (dfi_deferred){ p, v };
}

/* ---- kernels ------------------------------------------------------------------------------------- */

static void fail(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, int32_t code, const char *message) {
  if (x->failed) return;                    /* the first error wins */
  x->failed = true;
  x->patience = 0;
  dfi_fail(x->error, code, p && p->node ? p->node->where : NULL, "%s", message);
  if (p && x->error) dfi_exec_blame(r, p, x->error);
}

enum { CALL_INPUTS = 8, CALL_OUTPUTS = 4 };
typedef struct call_space {
  dfi_call         call;
  const df_tensor *in[CALL_INPUTS];
  const df_value  *raw[CALL_INPUTS];
  df_tensor        view[CALL_INPUTS];
  df_tensor        scratch[CALL_OUTPUTS];
} call_space;

/* Lays out a call of p's kernel; on the heap (memory of the caller's choosing) when it is large or goes to a worker. */
static dfi_call *call_make(dfi_exec *x, dfi_record *r, dfi_pnode *p, call_space *space) {
  uint32_t nin = p->nin, nout = p->nout;
  dfi_call *c;
  const df_tensor **in; const df_value **raw; df_tensor *view, *scratch;
  if (space && nin <= CALL_INPUTS && nout <= CALL_OUTPUTS) {
    c = &space->call; in = space->in; raw = space->raw; view = space->view; scratch = space->scratch;
    c->heap = false;
  } else {
    char *m = dfi_xmalloc(sizeof *c + (sizeof *in + sizeof *raw + sizeof *view) * (nin + 1) + sizeof *scratch * (nout + 1) + 64);
    c = (dfi_call *)m;                m += (sizeof *c + 15) & ~(size_t)15;
    view = (df_tensor *)m;            m += sizeof *view * (nin + 1);
    scratch = (df_tensor *)m;         m += sizeof *scratch * (nout + 1);
    in = (const df_tensor **)m;       m += sizeof *in * (nin + 1);
    raw = (const df_value **)m;
    c->heap = true;
  }
  c->exec = x; c->record = r; c->node = p; c->status = DF_OK; c->size = 0;
  c->kernel = (df_kernel){ .attrs = p->node->attrs, .nin = (int32_t)nin, .nout = (int32_t)nout, .in = in, .raw = raw,
    .out = r->base[DFI_ITERATION] + p->out, .out_dtype = p->out_dtypes, .scratch = scratch, .run = c, .error = NULL };
  const dfi_operand *op = x->plan->operand + p->in;
  for (uint32_t i = 0; i < nin; i++) {
    const df_value *v = operand(r, op[i]);
    raw[i] = v;
    if (v->kind == DF_TENSOR) {
      in[i] = v->as.tensor;
      c->size += v->as.tensor->size;
      if (v->uses == 1 && DFI_SPACE(op[i]) == DFI_ITERATION && i < 32) c->kernel.reusable |= 1u << i;
    } else if (v->kind == DF_SCALAR) {
      df_tensor *t = &view[i];
      t->refs = 1; t->dtype = v->dtype; t->rank = 0; t->view = 1; t->size = 1;
      t->data = (void *)&v->as; t->buffer = NULL;
      in[i] = t;
    } else in[i] = NULL;
  }
  for (uint32_t i = 0; i < nout; i++) c->kernel.out[i].kind = DF_EMPTY;
  return c;
}

/* The kernel has run: its outputs are sent, or its error is kept. */
static void call_end(dfi_exec *x, dfi_call *c) {
  dfi_record *r = c->record;
  dfi_pnode *p = c->node;
  df_value *out = r->base[DFI_ITERATION] + p->out;
  if (c->status == DF_OK)
    for (uint32_t i = 0; i < p->nout; i++)
      if (DFI_UNLIKELY(out[i].kind == DF_EMPTY)) {
        c->status = dfi_fail(c->kernel.error, DF_INTERNAL, NULL, "the kernel of %s made no output %u", p->op->type, i);
        break;
      }
  if (DFI_UNLIKELY(c->status != DF_OK)) {
    for (uint32_t i = 0; i < p->nout; i++) {
      dfi_value_drop(&out[i]);
      out[i].kind = DF_EMPTY;
    }
    if (!x->failed) {
      x->failed = true;
      x->patience = 0;
      if (x->error) {
        *x->error = *c->kernel.error;
        x->error->code = c->status;
        dfi_exec_blame(r, p, x->error);
      }
    }
    return;
  }
  const uint32_t *uses = r->frame->scope->uses + p->out;
  for (uint32_t i = 0; i < p->nout; i++) slot_filled(r, &out[i], uses[i]);
  drop_inputs(x, r, p);
  activate(x, r, p->edge[0], p->edge[1], 0);
}

static void worker_main(void *arg) {
  dfi_call *c = arg;
  dfi_exec *x = c->exec;
  c->status = c->node->kernel(&c->kernel);
  pthread_mutex_lock(&x->inbox_lock);
  c->next = x->inbox;
  __atomic_store_n(&x->inbox, c, __ATOMIC_RELAXED);     /* the owner peeps without the lock */
  pthread_cond_signal(&x->inbox_bell);
  pthread_mutex_unlock(&x->inbox_lock);
}

static bool worth_a_worker(const dfi_exec *x, const dfi_call *c) {
  const double worker_ns = 40e3;
  if (x->head == x->tail && !x->running) return false;      /* nothing else to do meanwhile */
  if (c->node->op->expensive) return true;
  if (c->node->op->cost) return c->node->op->cost(&c->kernel) > worker_ns;
  return (double)c->size > worker_ns;
}

/* Runs p's kernel here, or hands it to a worker: true. */
static bool do_kernel(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  call_space space;
  df_error error;
  dfi_call *c = call_make(x, r, p, &space);
  x->patience -= 4 + (int32_t)(c->size >> 12 & 0xffff);
  if (DFI_UNLIKELY(p->offload && x->head != x->tail && worth_a_worker(x, c))) {
    dfi_call *h = call_make(x, r, p, NULL);
    h->error.code = 0; h->error.message[0] = h->error.op[0] = h->error.frame[0] = h->error.source[0] = 0;
    h->kernel.error = &h->error;
    if (dfi_pool_try(x->pool, worker_main, h)) {
      if (c->heap) free(c);
      x->running++;
      return true;
    }
    free(h);
  }
  error.code = 0; error.message[0] = error.op[0] = error.frame[0] = error.source[0] = 0;
  c->kernel.error = &error;
  c->status = p->kernel(&c->kernel);
  call_end(x, c);
  if (c->heap) free(c);
  return false;
}

/* Takes what workers have finished. Waits for one when told to. */
static void inbox_take(dfi_exec *x, bool wait) {
  dfi_call *list = NULL;
  for (int spin = 0; spin < 2000 && !__atomic_load_n(&x->inbox, __ATOMIC_RELAXED); spin++) __builtin_ia32_pause();
  pthread_mutex_lock(&x->inbox_lock);
  while (wait && !x->inbox) pthread_cond_wait(&x->inbox_bell, &x->inbox_lock);
  list = x->inbox;
  __atomic_store_n(&x->inbox, NULL, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&x->inbox_lock);
  while (list) {
    dfi_call *c = list;
    list = c->next;
    dfi_record *r = c->record;
    call_end(x, c);
    free(c);
    x->running--;
    if (--r->outstanding == 0) iteration_done(x, r);
  }
}

/* ---- the engine ------------------------------------------------------------------------------------ */

void dfi_exec_publish(const dfi_exec *x) {
  const dfi_counters *c = &x->count;
  const int64_t now[] = { 1, c->nodes_run, c->dead_tokens, c->frames, c->iterations, c->pushes, c->pops };
  int64_t *to[] = { &x->live->runs, &x->live->nodes_run, &x->live->dead_tokens, &x->live->frames, &x->live->iterations,
                    &x->live->stack_pushes, &x->live->stack_pops };
  for (int32_t i = 0; i < 7; i++) __atomic_store_n(to[i], now[i], __ATOMIC_RELAXED);
}

/* Every so many tokens: is the run to stop? */
static void look_up(dfi_exec *x) {
  x->patience = 256;
  if (x->live) dfi_exec_publish(x);
  if (x->cancel && atomic_load_explicit(x->cancel, memory_order_relaxed)) fail(x, NULL, NULL, DF_CANCELLED, "the run was cancelled");
  else if (x->closing && atomic_load_explicit(x->closing, memory_order_relaxed)) fail(x, NULL, NULL, DF_CANCELLED, "the session was closed");
  else if (atomic_load_explicit(&dfi_interrupts, memory_order_relaxed) != x->interrupts)
    fail(x, NULL, NULL, DF_CANCELLED, "the run was interrupted");
  else if (x->deadline && dfi_now() > x->deadline) fail(x, NULL, NULL, DF_DEADLINE_EXCEEDED, "the run took longer than its timeout");
  if (x->running && __atomic_load_n(&x->inbox, __ATOMIC_RELAXED)) inbox_take(x, false);
}

static void shuffle_head(dfi_exec *x) {
  uint64_t s = x->shuffle;
  s ^= s << 13; s ^= s >> 7; s ^= s << 17;
  x->shuffle = s;
  uint32_t n = x->tail - x->head, k = (uint32_t)(s % n);
  dfi_token *a = &x->queue[x->head & x->queue_mask], *b = &x->queue[(x->head + k) & x->queue_mask], t = *a;
  *a = *b; *b = t;
}

/* What happens only now and then: false when the engine has to stop. */
static bool pause_for_thought(dfi_exec *x) {
  if (x->finished || x->failed) return false;
  if (x->head == x->tail) {
    if (!x->running) {                      /* a token is missing: the plan was malformed */
      fail(x, NULL, NULL, DF_INTERNAL, "nothing can move, and the run is not done");
      return false;
    }
    inbox_take(x, true);
    return !x->finished && !x->failed;
  }
  look_up(x);
  return !x->failed;
}

/* The engine keeps the queue in registers. It is put back before anything else may use it. */
typedef struct hot_queue { dfi_token *at; uint32_t mask, head, tail; } hot_queue;
#define ALWAYS static inline __attribute__((always_inline))

ALWAYS void hot_load(hot_queue *q, const dfi_exec *x) {
  q->at = x->queue; q->mask = x->queue_mask; q->head = x->head; q->tail = x->tail;
}
ALWAYS void hot_save(const hot_queue *q, dfi_exec *x) { x->head = q->head; x->tail = q->tail; }

/* As activate. There is room: the engine sees to it before each node. */
ALWAYS void hot_activate(dfi_exec *x, hot_queue *q, dfi_record *r, const dfi_edge *e, const dfi_edge *end, uint32_t dead) {
  uint32_t *counts = r->counts;
  for (; e < end; e++) {
    uint32_t c;
    if (DFI_UNLIKELY(e->to != DFI_TO_PLAIN)) {
      readiness ready = arrive(x, r, e, dead);
      if (!ready) continue;
      c = ready == READY ? 0 : DFI_DEAD;
    } else {
      c = (counts[e->node] - 1) | dead;
      counts[e->node] = c;
      if (c & ~DFI_DEAD) continue;
    }
    q->at[q->tail++ & q->mask] = (dfi_token){ r, e->node, c };
  }
}

/* r, the oldest iteration, is done and the next one is not: the commonest end of an iteration, without iteration_done. */
ALWAYS bool iteration_passed(dfi_exec *x, dfi_record *r) {
  dfi_frame *f = r->frame;
  int64_t second = f->first + 1;
  if (r->number != f->first || second >= f->next || f->ndeferred || r->held || f->enters_missing) return false;
  if (!f->ring[second & (f->capacity - 1)]->outstanding) return false;
  f->first = second;
  r->next_free = x->free_records[f->scope->id];
  x->free_records[f->scope->id] = r;
  return true;
}

static void engine(dfi_exec *x) {
  const dfi_operand *operands = x->plan->operand;
  const dfi_edge *edges = x->plan->edge;
  const uint32_t widest = x->plan->widest;
  hot_queue q;
  hot_load(&q, x);
  int64_t nodes_run = 0;
  for (;;) {
    if (DFI_UNLIKELY(--x->patience <= 0 || q.head == q.tail || q.tail - q.head + widest > q.mask)) {
      hot_save(&q, x);
      x->count.nodes_run += nodes_run;
      nodes_run = 0;
      while (x->tail - x->head + widest > x->queue_mask) queue_grow(x);
      if ((x->patience <= 0 || x->head == x->tail) && !pause_for_thought(x)) break;
      hot_load(&q, x);
      continue;
    }
    if (DFI_UNLIKELY(x->shuffle)) { hot_save(&q, x); shuffle_head(x); }
    const dfi_token t = q.at[q.head++ & q.mask];
    dfi_record *r = t.record;
    dfi_pnode *p = r->nodes + t.node;
    const uint32_t before = q.tail;
    nodes_run++;
    if (DFI_UNLIKELY(t.dead) && p->kind != DFI_K_ENTER) {
      nodes_run--;
      x->count.dead_tokens++;
      if (p->kind != DFI_K_EXIT && p->kind != DFI_K_NEXT) {
        if (p->iteration_operands) drop_inputs(x, r, p);
        hot_activate(x, &q, r, edges + p->edge[0], edges + p->edge[p->kind == DFI_K_SWITCH ? 3 : 1], DFI_DEAD);
      }
    } else switch ((dfi_kind)p->kind) {
    case DFI_K_SCALAR: {
      const dfi_operand *in = operands + p->in;  /* the first again where there are fewer than three */
      const df_value *a = operand(r, in[0]), *b = operand(r, in[1]), *c = operand(r, in[2]);
      df_value *out = r->base[DFI_ITERATION] + p->out;
      bool unboxed = a->kind == DF_SCALAR && b->kind == DF_SCALAR && c->kind == DF_SCALAR;
      if (DFI_UNLIKELY(!unboxed || !p->scalar(out, a, b, c))) goto kernel;
      out->kind = DF_SCALAR; out->dtype = p->out_dtype;
      hot_activate(x, &q, r, edges + p->edge[0], edges + p->edge[1], 0);
      break;
    }
    kernel:
    case DFI_K_KERNEL: {
      hot_save(&q, x);
      bool elsewhere = do_kernel(x, r, p);
      hot_load(&q, x);
      if (elsewhere) continue;              /* outstanding until the worker is done */
      goto slowly;
    }
    case DFI_K_SWITCH: {
      const df_value *pred = operand(r, operands[p->in + 1]);
      if (DFI_UNLIKELY(pred->kind != DF_SCALAR)) {
        fail(x, r, p, DF_INVALID_ARGUMENT, "the predicate of a Switch must be a scalar bool, but it is a tensor of rank > 0");
        break;
      }
      const uint32_t side = pred->as.u8 != 0;    /* a byte that a caller fed may be any */
      df_value *out = r->base[DFI_ITERATION] + p->out + side;
      *out = operand_take(r, operands[p->in]);
      slot_filled(r, out, r->frame->scope->uses[p->out + side]);
      hot_activate(x, &q, r, edges + p->edge[0], edges + p->edge[1], side ? DFI_DEAD : 0);
      hot_activate(x, &q, r, edges + p->edge[1], edges + p->edge[2], side ? 0 : DFI_DEAD);
      if (DFI_UNLIKELY(p->edge[2] != p->edge[3])) hot_activate(x, &q, r, edges + p->edge[2], edges + p->edge[3], 0);
      break;
    }
    case DFI_K_NEXT: {
      dfi_frame *f = r->frame;
      df_value v = operand_take(r, operands[p->in]);
      int64_t number = r->number + 1;
      dfi_record *to;
      if (number < f->next) to = f->ring[number & (f->capacity - 1)];
      else if (f->next - f->first < f->scope->parallel_iterations) {
        hot_save(&q, x);
        to = iteration_open(x, f);
        hot_load(&q, x);
      } else { defer_next(f, p, v); break; }
      df_value *slot = to->base[DFI_ITERATION] + p->out;
      *slot = v;
      slot_filled(to, slot, f->scope->uses[p->out]);
      nodes_run += p->merges;
      uint32_t sent = q.tail;
      hot_activate(x, &q, to, edges + p->edge[0], edges + p->edge[1], 0);
      to->outstanding += (int32_t)(q.tail - sent);
      if (--r->outstanding == 0 && !iteration_passed(x, r)) goto done;
      continue;
    }
    case DFI_K_MERGE: {
      df_value *out = r->base[DFI_ITERATION] + p->out;
      *out = operand_take(r, operands[p->in + (uint32_t)out[1].as.i32]);
      slot_filled(r, out, r->frame->scope->uses[p->out]);
      hot_activate(x, &q, r, edges + p->edge[0], edges + p->edge[1], 0);
      break;
    }
    case DFI_K_ENTER:
      hot_save(&q, x);
      do_enter(x, r, p, t.dead);
      hot_load(&q, x);
      goto slowly;
    case DFI_K_EXIT:
      hot_save(&q, x);
      do_exit(x, r, p);
      hot_load(&q, x);
      goto slowly;
    case DFI_K_CONST: {
      df_value *out = r->base[DFI_ITERATION] + p->out;
      *out = dfi_value_copy(operand(r, operands[p->in]));
      slot_filled(r, out, r->frame->scope->uses[p->out]);
      hot_activate(x, &q, r, edges + p->edge[0], edges + p->edge[1], 0);
      break;
    }
    case DFI_K_NOOP: hot_activate(x, &q, r, edges + p->edge[0], edges + p->edge[1], 0); break;
    case DFI_K_UNFED: {
      char shape[200], message[400];
      dfi_typed_shape_text(p->node->out[0].dtype, &p->node->out[0].shape, shape);
      snprintf(message, sizeof message, "the placeholder `%s`, %s, was not fed", dfi_node_name(p->node), shape);
      fail(x, r, p, DF_INVALID_ARGUMENT, message);
      break;
    }
    }
    /* what was sent from here is in r; what was sent slowly has been counted */
    r->outstanding += (int32_t)(q.tail - before);
  slowly:
    if (--r->outstanding || iteration_passed(x, r)) continue;
  done:
    hot_save(&q, x);
    iteration_done(x, r);
    hot_load(&q, x);
  }
  x->count.nodes_run += nodes_run;
}

/* ---- a run ------------------------------------------------------------------------------------- */

dfi_exec *dfi_exec_new(dfi_plan *p) {
  dfi_exec *x = dfi_xcalloc(1, sizeof *x);
  x->plan = p;
  x->given = dfi_xcalloc((size_t)(p->nfeed + p->nvariables + 1), sizeof *x->given);
  x->queue = dfi_xmalloc(sizeof *x->queue * 64);
  x->queue_mask = 63;
  x->free_records = dfi_xcalloc((size_t)p->nscopes, sizeof *x->free_records);
  x->free_frames = dfi_xcalloc((size_t)p->nscopes, sizeof *x->free_frames);
  pthread_mutex_init(&x->inbox_lock, NULL);
  pthread_cond_init(&x->inbox_bell, NULL);
  return x;
}

/* Lets a frame of a failed run go, with all that is open inside. */
static void frame_abandon(dfi_exec *x, dfi_frame *f) {
  for (int64_t i = f->first; i < f->next; i++) {
    dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t c = 0; c < f->scope->nchildren; c++)
      if (r->children[c]) { frame_abandon(x, r->children[c]); r->children[c] = NULL; }
    record_free(x, r);
  }
  for (int32_t i = 0; i < f->ndeferred; i++) dfi_value_drop(&f->deferred[i].value);
  f->ndeferred = 0;
  frame_free(x, f);
}

int32_t dfi_exec_run(dfi_exec *x, df_error *err) {
  df_error local;
  x->error = err ? err : &local;
  x->finished = x->failed = false;
  x->head = x->tail = 0;
  x->patience = 256;
  x->edge = x->plan->edge;
  x->count = (dfi_counters){ 0 };
  x->root = frame_open(x, &x->plan->scope[0], NULL);
  dfi_record *r = x->root->ring[0];
  record_start(x, r);
  if (r->outstanding) engine(x); else x->finished = true;
  while (x->running) inbox_take(x, true);   /* after an error, what workers still do is waited for */
  return x->failed ? x->error->code : DF_OK;
}

void dfi_exec_reset(dfi_exec *x) {
  if (x->root) frame_abandon(x, x->root);
  x->root = NULL;
  for (int32_t i = 0; i < x->plan->nfeed; i++) {
    dfi_value_drop(&x->given[i]);
    x->given[i].kind = DF_EMPTY;
  }
}

void dfi_exec_free(dfi_exec *x) {
  dfi_exec_reset(x);
  for (int32_t s = 0; s < x->plan->nscopes; s++) {
    for (dfi_record *r = x->free_records[s], *n; r; r = n) { n = r->next_free; free(r); }
    for (dfi_frame *f = x->free_frames[s], *n; f; f = n) {
      n = f->next_free;
      free(f->ring); free(f->constants); free(f->enter_dead); free(f->deferred); free(f);
    }
  }
  free(x->free_records); free(x->free_frames); free(x->queue); free(x->given);
  pthread_mutex_destroy(&x->inbox_lock);
  pthread_cond_destroy(&x->inbox_bell);
  free(x);
}

/* Was this node's token dead in the top-level iteration? */
static bool was_dead(const dfi_record *r, const dfi_pnode *p, const dfi_plan *plan) {
  if (p->kind == DFI_K_EXIT) {
    const df_value *v = r->base[DFI_ITERATION] + p->out;
    return v->kind == DF_EMPTY;
  }
  uint32_t c = r->counts[p - (plan->node + plan->scope[0].first)];
  return p->kind == DFI_K_MERGE ? !(c & DFI_MERGE_LIVE) : (c & DFI_DEAD) != 0;
}

/* The top level's plan node that stands for a graph node: its own, or that of a Switch with the same inputs. */
static const dfi_pnode *stands_for(const dfi_exec *x, const df_node *n) {
  const dfi_scope *top = &x->plan->scope[0];
  const dfi_pnode *first = x->plan->node + top->first, *twin = NULL;
  for (uint32_t i = 0; i < top->n; i++) {
    if (first[i].node == n) return &first[i];
    if (first[i].kind == DFI_K_SWITCH && first[i].node->op == n->op && dfi_same(first[i].node->in[0], n->in[0]) &&
        dfi_same(first[i].node->in[1], n->in[1])) twin = &first[i];
  }
  return twin;
}

/* Back along dead inputs from o to the Switch that made it dead; NULL when it is not found. */
static const dfi_pnode *killer(const dfi_exec *x, const dfi_record *r, df_output o, int32_t *patience) {
  const dfi_pnode *p;
  while (!(p = stands_for(x, o.node)) && o.node->nin == 1) o = o.node->in[0];     /* values that were passed on */
  if (--*patience < 0) return NULL;
  if (p && p->kind == DFI_K_SWITCH && !was_dead(r, p, x->plan)) {
    const df_value *pred = operand(r, x->plan->operand[p->in + 1]);
    return (pred->as.u8 != 0) != (o.index == 1) ? p : NULL;
  }
  if (p && !was_dead(r, p, x->plan)) return NULL;
  for (int32_t i = 0; i < o.node->nin + o.node->ncontrol; i++) {
    df_output in = i < o.node->nin ? o.node->in[i] : (df_output){ o.node->control[i - o.node->nin], 0 };
    const dfi_pnode *found = killer(x, r, in, patience);
    if (found) return found;
  }
  return NULL;
}

int32_t dfi_exec_fetch(dfi_exec *x, int32_t i, df_value *out, df_error *err) {
  dfi_operand o = x->plan->fetch[i];
  *out = (df_value){ 0 };
  if (o == ~0u) return DF_OK;
  dfi_record *r = x->root->ring[0];
  const df_value *v = operand(r, o);
  dfi_pnode *p = x->plan->fetch_node[i];
  if (DFI_SPACE(o) == DFI_ITERATION) {
    bool dead = p && was_dead(r, p, x->plan);
    if (p && p->kind == DFI_K_SWITCH && !dead) {
      const df_value *pred = operand(r, x->plan->operand[p->in + 1]);
      dead = (uint32_t)(pred->as.u8 != 0) != DFI_INDEX(o) - p->out;
    }
    if (dead || v->kind == DF_EMPTY) {
      const int32_t *sig = x->plan->signature + 2 * i;
      df_node *n = x->plan->graph->node[sig[0]];
      int32_t patience = 10000;
      const dfi_pnode *s = killer(x, r, (df_output){ n, sig[1] }, &patience);
      if (s) {
        const df_value *pred = operand(r, x->plan->operand[s->in + 1]);
        dfi_fail(err, DF_INVALID_ARGUMENT, n->where, "the fetch `%s:%d` is dead: the Switch `%s`%s%s took %s", dfi_node_name(n), sig[1],
                 dfi_node_name(s->node), s->node->where[0] ? " built at " : "", s->node->where, pred->as.u8 ? "true" : "false");
      } else dfi_fail(err, DF_INVALID_ARGUMENT, n->where, "the fetch `%s:%d` is dead: a Switch sent its token the other way", dfi_node_name(n), sig[1]);
      if (p && err) dfi_exec_blame(r, p, err);
      return DF_INVALID_ARGUMENT;
    }
  }
  *out = dfi_value_copy(v);
  out->uses = 0;
  return DF_OK;
}

char *dfi_frame_path(const dfi_record *r, char *buffer, size_t bytes) {
  if (!r || !r->frame->origin) { buffer[0] = 0; return buffer; }
  dfi_frame_path(r->frame->origin, buffer, bytes);
  size_t used = strlen(buffer);
  snprintf(buffer + used, bytes - used, "%s%s:%lld", used ? "/" : "", r->frame->scope->name, (long long)r->number);
  return buffer;
}

void dfi_exec_blame(const dfi_record *r, const dfi_pnode *p, df_error *err) {
  df_node *n = p->node;
  snprintf(err->op, sizeof err->op, "%s (%s)", dfi_node_name(n), p->op->type);
  dfi_frame_path(r, err->frame, sizeof err->frame);
  if (n->where && n->where[0]) snprintf(err->source, sizeof err->source, "%s", n->where);
}
