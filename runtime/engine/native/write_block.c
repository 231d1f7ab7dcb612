/* write_block.c: what is alive under a condition, in an order in which it can run: nodes, conds, inner loops. */
#include "engine/native/write.h"
#include <stdio.h>

/* The tokens of a node that was written: which nodes have all of their inputs now? */
void dfi_write_deliver(dfi_writer *w, int32_t i, uint32_t from, uint32_t to) {
  dfi_analyze_loop *l = &w->look->loop[i];
  for (const dfi_edge *e = w->look->plan->edge + from, *end = w->look->plan->edge + to; e < end; e++)
    if ((e->to & 0xff) == DFI_TO_MERGE) l->node[e->node].missing &= ~(1 << ((e->to >> 8) & 1));  /* bits, for a Merge */
    else l->node[e->node].missing--;
}

static bool works_on_tensors(const dfi_writer *w, int32_t i, const dfi_pnode *p) {
  for (uint32_t k = 0; k < p->nin; k++)
    if (dfi_analyze_shape(w->look, i, w->look->plan->operand[p->in + k])) return true;
  return p->nout && w->look->loop[i].slot_shape[p->out];
}

/* The tokens say what was demanded, where it does not hold. */
static void write_demand(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_name holds = dfi_write_truth(w, i, w->look->plan->operand[p->in]), fails = dfi_temp(w);
  SAY(w, "  %s = xor i1 %s, true\n", fails.s, holds.s);
  dfi_write_fail(w, i, fails);
}

/* ---- what the iterations of a loop share ------------------------------------------------------------------------ */

/* Is p, of loop i, computed once for several iterations? What lies in registers LLVM moves. */
static bool is_shared(const dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_analyze_node *n = &l->node[p - l->nodes];
  if (!p->invariant || n->row || dfi_is_alias(p) || (p->kind != DFI_K_KERNEL && p->kind != DFI_K_SCALAR)) return false;
  const dfi_shape *s = l->slot_shape[p->out];
  return n->called || (s && dfi_shape_size(s) > DFI_DIRECT);
}

static dfi_name flag_of(int32_t i, const dfi_pnode *p) {
  dfi_name n;
  snprintf(n.s, sizeof n.s, "%%there%d_%u", i, p->out);
  return n;
}

void dfi_write_flags(dfi_writer *w, int32_t i) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++)
    if (is_shared(w, i, &l->nodes[n]))
      DECL(w, "  %s = alloca i1\n  store i1 false, ptr %s\n", flag_of(i, &l->nodes[n]).s, flag_of(i, &l->nodes[n]).s);
}

void dfi_write_forget_shared(dfi_writer *w, int32_t loop) {
  for (int32_t i = loop; i < w->look->nloops; i++) {
    const dfi_analyze_loop *l = &w->look->loop[i];
    for (uint32_t n = 0; n < l->scope->n; n++)
      if (is_shared(w, i, &l->nodes[n]) && l->nodes[n].target == (uint32_t)w->look->loop[loop].scope->id)
        SAY(w, "  store i1 false, ptr %s\n", flag_of(i, &l->nodes[n]).s);
  }
}

/* What is written between the two runs where no iteration before has run it. */
static int32_t begin_shared(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  if (w->burst || !is_shared(w, i, p)) return -1;
  const int32_t b = w->nlabel++;
  const dfi_name there = dfi_temp(w);
  SAY(w, "  %s = load i1, ptr %s\n  br i1 %s, label %%shared%d, label %%first%d\nfirst%d:\n", there.s,
      flag_of(i, p).s, there.s, b, b, b);
  return b;
}
static void end_shared(dfi_writer *w, int32_t i, const dfi_pnode *p, int32_t b) {
  if (b < 0) return;
  SAY(w, "  store i1 true, ptr %s\n  br label %%shared%d\nshared%d:\n", flag_of(i, p).s, b, b);
}

static void write_node(dfi_writer *w, int32_t i, uint32_t number) {
  dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_pnode *p = &l->nodes[number];
  const dfi_operand *in = w->look->plan->operand + p->in;
  uint8_t dtype[3] = { 0 };
  dfi_name v[3];
  const int32_t shared = begin_shared(w, i, p);
  l->node[number].written = true;
  switch ((dfi_kind)p->kind) {
    case DFI_K_SWITCH:
      v[0] = dfi_write_name(w, i, in[0], dtype);
      dfi_write_alias(w, dtype[0], v[0], i, p->out);
      dfi_write_alias(w, dtype[0], v[0], i, p->out + 1);
      dfi_write_deliver(w, i, p->edge[0], p->edge[3]);
      return;
    case DFI_K_ENTER: {
      const int32_t inner = dfi_loop_of(w->look, p->target);
      v[0] = (p->constant ? dfi_write_name : dfi_write_operand)(w, i, in[0], dtype);
      if (!p->constant) dfi_write_store(w, dtype[0], v[0], inner, p->out);
      else if (w->look->loop[inner].const_shape[p->out]) w->look->loop[inner].const_alias[p->out] = v[0];
      else if (w->look->loop[inner].const_dtype[p->out] && dtype[0] != DF_RESOURCE)
        SAY(w, "  store %s %s, ptr %%c%d_%u\n", dfi_type(dtype[0]), v[0].s, inner, p->out);
      w->look->loop[inner].enters_missing--;
      return;
    }
    case DFI_K_CONST:
      v[0] = dfi_write_name(w, i, in[0], dtype);
      dfi_write_alias(w, p->out_dtypes[0], v[0], i, p->out);
      break;
    case DFI_K_NOOP: case DFI_K_RETURN: break;
    case DFI_K_ARG: dfi_write_argument(w, i, p); break;
    case DFI_K_CALL: dfi_write_function_call(w, i, p); break;
    case DFI_K_READ: if (!w->burst) dfi_write_peek(w, i, p); break;      /* of a burst: once, before it */
    default:
      if (dfi_is_read(p) || dfi_is_write(p)) { dfi_write_array(w, i, p); break; }
      if (dfi_is_tape(p)) break;
      if (dfi_is_demand(p)) { write_demand(w, i, p); break; }
      if (l->node[number].row) { dfi_write_row(w, i, p); break; }
      if (l->node[number].moves) { dfi_write_move(w, i, p); break; }
      if (l->node[number].boxes) { dfi_write_boxes(w, i, p, l->node[number].boxes); break; }
      if (l->node[number].called) { dfi_write_call(w, i, p); break; }
      if (works_on_tensors(w, i, p)) {
        if (dfi_is_alias(p)) dfi_write_alias(w, p->out_dtypes[0], dfi_write_name(w, i, in[0], dtype), i, p->out);
        else if (dfi_write_in_group(w, i, p)) return;
        else dfi_write_tensor_op(w, i, p);
        break;
      }
      if (dfi_is_sum(p)) {
        v[0] = dfi_write_operand(w, i, in[0], dtype);
        for (uint32_t k = 1; k < p->nin; k++)
          v[0] = dfi_write_sum(w, dtype[0], v[0], dfi_write_operand(w, i, in[k], dtype));
        dfi_write_store(w, dtype[0], v[0], i, p->out);
        break;
      }
      for (uint32_t k = 0; k < 3 && k < p->nin; k++) v[k] = dfi_write_operand(w, i, in[k], &dtype[k]);
      dfi_write_store(w, p->out_dtypes[0], dfi_write_op(w, i, p, v, dtype), i, p->out);
  }
  end_shared(w, i, p, shared);
  dfi_write_deliver(w, i, p->edge[0], p->edge[1]);
}

static bool can_write(const dfi_analyze_loop *l, uint32_t n) {
  const dfi_kind k = l->nodes[n].kind;
  return !l->node[n].written && !l->node[n].missing && k != DFI_K_MERGE && k != DFI_K_NEXT && k != DFI_K_EXIT;
}
static bool can_join(const dfi_analyze_loop *l, uint32_t n) {
  return l->nodes[n].kind == DFI_K_MERGE && !l->node[n].written && l->node[n].sides == 3;
}
/* Can a Merge be given its value under condition g? Its side, or -1. */
static int32_t can_give(const dfi_analyze_loop *l, uint32_t n, int32_t g) {
  const dfi_analyze_node *m = &l->node[n];
  if (l->nodes[n].kind != DFI_K_MERGE) return -1;
  for (int32_t k = 0; k < 2; k++) if (m->input[k] == g && !(m->sides >> k & 1) && !(m->missing >> k & 1)) return k;
  return -1;
}
static bool can_enter(const dfi_writer *w, int32_t c, int32_t parent) {
  const dfi_analyze_loop *l = &w->look->loop[c];
  return l->parent == parent && !l->written && !l->enters_missing;
}

/* Is there something to write under condition g or inside it? */
static bool pending(const dfi_writer *w, int32_t i, int32_t g) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++) {
    if ((can_write(l, n) || can_join(l, n)) && dfi_guard_inside(l, l->node[n].guard, g)) return true;
    if (l->nodes[n].kind != DFI_K_MERGE) continue;
    for (int32_t k = 0; k < 2; k++)
      if (can_give(l, n, l->node[n].input[k]) >= 0 && dfi_guard_inside(l, l->node[n].input[k], g)) return true;
  }
  for (int32_t c = 0; c < w->look->nloops; c++)
    if (can_enter(w, c, i) && dfi_guard_inside(l, w->look->loop[c].guard_in_parent, g)) return true;
  return false;
}

dfi_name dfi_write_truth(dfi_writer *w, int32_t i, dfi_operand pred) {
  uint8_t dtype;
  const dfi_name v = dfi_write_operand(w, i, pred, &dtype), t = dfi_temp(w);
  SAY(w, "  %s = icmp ne %s %s, 0\n", t.s, dfi_type(dtype), v.s);
  return t;
}

/* A Merge gets what this side gives it: many elements stay where they lie, unless the next iteration writes there. */
static void give(dfi_writer *w, int32_t i, const dfi_pnode *m, int32_t side) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  uint8_t dtype;
  SAY(w, "  store i32 %d, ptr %%v%d_%u\n", side, i, m->out + 1);
  if (l->node[m - l->nodes].over) return;
  const dfi_name v = dfi_write_operand(w, i, w->look->plan->operand[m->in + (uint32_t)side], &dtype);
  const dfi_shape *tensor = l->slot_shape[m->out];
  const bool stays = tensor && dfi_shape_size(tensor) > DFI_DIRECT && !dfi_is_loop_variable(&w->unit->loop[i], i, v);
  if (!stays) dfi_write_store(w, dtype, v, i, m->out);
  if (tensor && dfi_shape_size(tensor) > DFI_DIRECT)
    dfi_write_point(w, i, m->out, stays ? v : dfi_write_place(i, m->out));
}

/* One side of a condition: what is alive there, and what it gives to Merges. */
static void write_side(dfi_writer *w, int32_t i, int32_t g, bool first) {
  if (first) {
    const int32_t other = w->look->loop[i].guard[g].side ? g - 1 : g + 1;
    dfi_write_add(w, "died", i, dfi_dead_tokens(&w->look->loop[i], other));
    dfi_write_add(w, "ended", i, dfi_dead_exits(w, i, other));
  }
  dfi_write_block(w, i, g);
  dfi_analyze_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++) {
    const int32_t k = can_give(l, n, g);
    if (k < 0) continue;
    give(w, i, &l->nodes[n], k);
    l->node[n].sides |= (uint8_t)(1 << k);
  }
}

static void write_branch(dfi_writer *w, int32_t i, int32_t pair) {
  const int32_t b = w->nlabel++;
  const bool first = !w->look->loop[i].guard[pair].begun;     /* a cond may be written in several pieces */
  w->look->loop[i].guard[pair].begun = true;
  const dfi_name t = dfi_write_truth(w, i, w->look->loop[i].guard[pair].pred);
  SAY(w, "  br i1 %s, label %%true%d, label %%false%d\ntrue%d:\n", t.s, b, b, b);
  write_side(w, i, pair + 1, first);
  SAY(w, "  br label %%join%d\nfalse%d:\n", b, b);
  write_side(w, i, pair, first);
  SAY(w, "  br label %%join%d\njoin%d:\n", b, b);
}

/* All that is alive under condition g, as far as its inputs are there. */
void dfi_write_block(dfi_writer *w, int32_t i, int32_t g) {
  for (bool more = true; more && !w->unit->reason;) {
    more = false;
    dfi_analyze_loop *l = &w->look->loop[i];
    for (uint32_t n = 0; n < l->scope->n; n++) {
      if (l->node[n].guard != g) continue;
      if (can_write(l, n)) { write_node(w, i, n); more = true; }
      else if (can_join(l, n)) {
        l->node[n].written = more = true;
        dfi_write_deliver(w, i, l->nodes[n].edge[0], l->nodes[n].edge[1]);
      }
    }
    for (int32_t c = 0; c < w->look->nloops && !more; c++)
      if (can_enter(w, c, i) && w->look->loop[c].guard_in_parent == g) { dfi_write_loop(w, c); more = true; }
    for (int32_t pair = 1; pair < l->nguards && !more; pair += 2)
      if (l->guard[pair].parent == g && pair + 1 != l->go_on && (pending(w, i, pair) || pending(w, i, pair + 1))) {
        write_branch(w, i, pair);
        more = true;
      }
  }
}
