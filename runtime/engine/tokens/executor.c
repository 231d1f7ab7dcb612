/* executor.c: the token engine. The rules are those of Figure 5 of the paper:
 *
 *   Switch         sends its data to the side that pred names and a dead token to the other
 *   Merge          fires on its first live input, or dead when all its inputs are
 *   Enter          opens (or finds) the child frame and delivers to its iteration 0
 *   NextIteration  delivers to the next iteration, and stops dead tokens
 *   Exit           returns to the parent's iteration; dead Exits are sent when the frame ends
 *   any other op   fires when all inputs of its tag are there; if one is dead, so are its outputs
 *
 * When frames and iterations begin and are done is told in frame.c.
 */
#include "engine/tokens/frame.h"
#include "engine/tokens/audit.h"
#include "engine/tokens/group_run.h"
#include "engine/tokens/borrowed_read.h"
#include "engine/clock/record.h"
#include "engine/services.h"
#include "engine/tokens/turn.h"
#include <stdio.h>

/* Draws the token that is next, once: where the run was paused before it, it still is. */
static void shuffle_head(dfi_exec *x) {
  uint64_t s = x->shuffle;
  if (x->drawn == x->head + 1) return;
  x->drawn = x->head + 1;
  s ^= s << 13; s ^= s >> 7; s ^= s << 17;
  x->shuffle = s;
  uint32_t n = x->tail - x->head, k = (uint32_t)(s % n);
  dfi_token *a = &x->queue[x->head & x->queue_mask], *b = &x->queue[(x->head + k) & x->queue_mask], t = *a;
  *a = *b; *b = t;
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
    if (timed) dfi_timed_arrive(x, r, node, false);
    if (DFI_UNLIKELY(e->to != DFI_TO_PLAIN)) {
      if (e->to == DFI_TO_EXIT) {
        if (dead) continue;
        c = 0;
      } else {
        const dfi_readiness ready = dfi_token_arrive(x, r, e, dead);
        if (!ready) continue;
        c = ready == DFI_READY ? 0 : DFI_DEAD;
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
  if (r->number != f->first || second >= f->next || (f->ndeferred | r->held | x->failed | f->left)) return false;
  if (!f->ring[second & (f->capacity - 1)]->outstanding) return false;
  df_assert(!f->enters_missing);           /* or its second iteration would not be there */
  dfi_audit_iteration(x, r);
  dfi_books_iteration(x, r);
  dfi_audit_frame(x, f);
  f->first = second;
  r->next_free = f->spare;
  f->spare = r;
  return true;
}

/* A node made v: kept, where values are kept. */
ALWAYS void keep(dfi_exec *x, const dfi_token t, uint32_t index, const df_value *v) {
  dfi_kept_value *k = x->kept + (x->nkept & (DFI_KEPT_VALUES - 1));
  if (DFI_UNLIKELY(v->kind >= DF_TENSOR || x->kept_tensors)) { dfi_service.watch_keep(x, t, index, v); return; }
  x->nkept++;
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
  if (pred->kind == DF_TENSOR && !dfi_service.remote_number(x, r, p, at)) return -1;
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
  dfi_queue_room(x, widest);
  x->queue_most = x->queue_mask - widest;
  uint32_t tail = x->tail;                 /* put back before anything else may use it */
  const uint8_t began = x->watched;
  const bool every = watched && began == DFI_EVERY_TOKEN, keeps = watched && x->kept, logs = watched && x->logs;
  for (;;) {
    /* no token is ready, or there might be no room for what its node sends */
    if (DFI_UNLIKELY(--x->patience < 0 || tail - x->head - 1 >= x->queue_most ||
                     (logs && tail - x->logged + widest > x->queue_mask))) {
      x->tail = tail;
      dfi_queue_room(x, widest);
      if ((x->patience < 0 || x->head == x->tail) && !dfi_service.pause(x)) break;
      if (x->watched != began) break;
      tail = x->tail;
      continue;
    }
    if (timed) { x->tail = tail; dfi_timed_pick(x); }
    else if (watched && x->shuffle) { x->tail = tail; shuffle_head(x); }
    if (every) {
      x->tail = tail;
      if (!dfi_service.watch_token(x)) break;
    }
    if (timed) dfi_timed_take(x);
    const dfi_token t = x->queue[x->head++ & x->queue_mask];
    dfi_record *r = t.record;
    dfi_pnode *p = r->nodes + t.node;
    dfi_audit_token(r, t);
    if (timed && x->timed->recorder) dfi_record_token(x, r, t.node, t.mark & DFI_DEAD);
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
      const df_value *handle = operand(r, operands[p->in]);
      if (DFI_UNLIKELY(x->replay || !dfi_variable_is(handle))) goto kernel;
      if (!dfi_variable_number(handle, out) && DFI_UNLIKELY(!dfi_borrowed_read_of(x, r, handle, out))) goto kernel;
      if (keeps) keep(x, t, 0, out);
      slot_filled(r, out, r->frame->scope->uses[p->out]);
      tail = hot_send(x, tail, r, p->edge[0], p->edge[1], 0, timed);
      if (DFI_UNLIKELY(p->iteration_operands)) drop_inputs(x, r, p);
      break;
    }
    kernel:
    case DFI_K_KERNEL: {
      x->tail = tail;
      bool elsewhere = logs ? dfi_service.log_call(x, r, p) : dfi_call_run(x, r, p);
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
        dfi_next_wait(f, p, operand_take(r, operands[p->in]), timed && x->timed->recorder ? dfi_record_current(x) : 0);
        break;
      }
      df_value *slot = to->base[DFI_ITERATION] + p->out;
      *slot = operand_take(r, operands[p->in]);
      slot_filled(to, slot, f->scope->uses[p->out]);
      x->count.merged += p->merges;
      if (timed) dfi_windows_next(x, to, p);
      tail = hot_send(x, tail, to, p->edge[0], p->edge[1], 0, timed);
      if (timed) dfi_timed_ran(x, r, p);
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
      dfi_do_enter(x, r, p, t.mark & DFI_DEAD);
      tail = x->tail;
      break;
    case DFI_K_EXIT:
      x->tail = tail;
      dfi_do_exit(x, r, p);
      tail = x->tail;
      break;
    case DFI_K_EXIT_REMAT:
      x->tail = tail;
      dfi_do_exit_remat(x, r, p);
      tail = x->tail;
      break;
    case DFI_K_NEXT_REMAT:
      x->tail = tail;
      dfi_do_next_remat(x, r, p);
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
      const bool under_way = dfi_service.transfer_run(x, r, p, t.mark & DFI_DEAD);
      tail = x->tail;
      if (under_way) continue;
      break;
    }
    case DFI_K_CALL:
      x->tail = tail;
      dfi_do_call(x, r, p);
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
      dfi_do_return(x, r, p);
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
    if (timed) { dfi_timed_ended(x, r); dfi_timed_ran(x, r, p); }
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

void dfi_exec_turn(dfi_exec *x) {
  while (!x->finished && !x->failed)
    if (x->timed) engine_timed(x);
    else if (x->watched || x->shuffle) engine_watched(x);
    else engine_plain(x);
}
