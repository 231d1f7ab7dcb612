/* write_loop.c: a loop: its cells, its head, body and poll, and its Exits. write.c says how it is laid out. */
#include "engine/native/write.h"

static const char *const kind[] = { "died", "merged", "ended" };

/* Is it a variable's tensor, which is read where it lies? Nothing is put to the slot's own place then. */
static bool is_looked_at(const dfi_analyze_loop *l, uint32_t slot) {
  if (dfi_shape_size(l->slot_shape[slot]) <= DFI_DIRECT) return false;
  for (uint32_t n = 0; n < l->scope->n; n++)
    if (l->nodes[n].kind == DFI_K_READ && l->nodes[n].out == slot) return true;
  return false;
}

void dfi_write_declare(dfi_writer *w, int32_t i) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  for (uint32_t s = 0; s < l->scope->nslots; s++)
    if (l->slot_shape[s] && !l->slot_far[s] && !l->slot_bare[s])
      (is_looked_at(l, s) ? dfi_write_shared_room : dfi_write_room)
          (w, dfi_write_place(i, s).s, l->slot_dtype[s], dfi_shape_size(l->slot_shape[s]));
    else if (l->slot_shape[s]) continue;
    else if (l->slot_dtype[s] && l->slot_dtype[s] != DF_RESOURCE && l->slot_copy[s] < 0)
      DECL(w, "  %%v%d_%u = alloca %s\n", i, s, dfi_type(l->slot_dtype[s]));
  for (uint32_t s = 0; s < l->scope->nconsts; s++)
    if (l->const_dtype[s] && l->const_dtype[s] != DF_RESOURCE && !l->const_shape[s])
      DECL(w, "  %%c%d_%u = alloca %s\n", i, s, dfi_type(l->const_dtype[s]));
  dfi_write_places(w, i);
  DECL(w, "  %%number%d = alloca i64\n  %%since%d = alloca i64\n", i, i);
  for (int32_t k = 0; k < 3 && dfi_tokens_vary(w, i); k++)
    DECL(w, "  %%all.%s%d = alloca i64\n  store i64 0, ptr %%all.%s%d\n  %%now.%s%d = alloca i64\n", kind[k], i,
         kind[k], i, kind[k], i);
}

void dfi_write_begin(dfi_writer *w, int32_t i) {
  for (int32_t k = 0; k < 3 && dfi_tokens_vary(w, i); k++) SAY(w, "  store i64 0, ptr %%now.%s%d\n", kind[k], i);
}

/* This iteration's dead tokens are counted now that it is done. */
void dfi_write_commit(dfi_writer *w, int32_t i) {
  for (int32_t k = 0; k < 3 && dfi_tokens_vary(w, i); k++) {
    const int32_t t = w->ntemp;
    w->ntemp += 3;
    SAY(w,
        "  %%t%d = load i64, ptr %%now.%s%d\n  %%t%d = load i64, ptr %%all.%s%d\n  %%t%d = add i64 %%t%d, %%t%d\n  "
        "store i64 %%t%d, ptr %%all.%s%d\n",
        t, kind[k], i, t + 1, kind[k], i, t + 2, t, t + 1, t + 2, kind[k], i);
  }
}

bool dfi_is_loop_variable(const dfi_nloop *v, int32_t i, dfi_name name) {
  for (int32_t k = 0; k < v->nvars; k++) if (!strcmp(name.s, dfi_write_place(i, v->var[k].enter->out).s)) return true;
  return false;
}
static dfi_name set_aside(dfi_writer *w, uint8_t dtype, const dfi_shape *s, dfi_name from) {
  const dfi_name to = dfi_temp(w);
  dfi_write_room(w, to.s, dtype, dfi_shape_size(s));
  dfi_write_copy(w, dtype, dfi_shape_size(s), to.s, from.s);
  return to;
}

/* A row that a branch has read may be gone when the next iteration, which does not read it, is left. */
static void forget_rows(dfi_writer *w, int32_t i) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++) {
    const dfi_pnode *p = &l->nodes[n];
    if (!dfi_is_read(p) || !l->slot_shape[p->out] || *l->slot_alias[p->out].s != '*') continue;
    SAY(w, "  store ptr %s, ptr %s\n", dfi_write_place(i, p->out).s, l->slot_alias[p->out].s + 1);
  }
}

void dfi_write_next(dfi_writer *w, int32_t i) {
  const dfi_nloop *v = &w->unit->loop[i];
  dfi_name *value = dfi_xmalloc(sizeof *value * (size_t)(v->nvars + 1));
  uint8_t dtype;
  for (int32_t k = 0; k < v->nvars; k++) {
    if (v->var[k].over) continue;
    value[k] = dfi_write_operand(w, i, w->look->plan->operand[v->var[k].next->in], &dtype);
    if (v->var[k].shape && dfi_is_loop_variable(v, i, value[k]) &&
        strcmp(value[k].s, dfi_write_place(i, v->var[k].enter->out).s))
      value[k] = set_aside(w, dtype, v->var[k].shape, value[k]);
  }
  for (int32_t k = 0; k < v->nvars; k++)               /* rows may be what other variables are still */
    if (v->var[k].over)
      dfi_write_over(w, i, w->look->plan->operand[v->var[k].next->in], dfi_write_place(i, v->var[k].enter->out).s);
  for (int32_t k = 0; k < v->nvars; k++)
    if (!v->var[k].over) dfi_write_store(w, v->var[k].next->out_dtypes[0], value[k], i, v->var[k].enter->out);
  dfi_free(value);
  forget_rows(w, i);
}

/* A value leaves an inner loop. A variable of many elements stays where it lies: nothing is put there before the loop
   begins anew, in another iteration of the loop around it. */
static void hand_out(dfi_writer *w, int32_t i, const dfi_pnode *exit, uint8_t dtype, dfi_name v) {
  const int32_t parent = w->look->loop[i].parent;
  const dfi_shape *tensor = w->look->loop[parent].slot_shape[exit->out];
  if (tensor && dfi_shape_size(tensor) > DFI_DIRECT && dfi_is_loop_variable(&w->unit->loop[i], i, v))
    dfi_write_point(w, parent, exit->out, v);
  else dfi_write_store(w, dtype, v, parent, exit->out);
}

/* The variable that lies in a tensor of the frame's, and is called so; -1: none. */
static int32_t variable_in_place(const dfi_nloop *v, int32_t i, dfi_name name) {
  int32_t k = v->nvars;
  while (k-- && !(v->var[k].in_place && !strcmp(name.s, dfi_write_place(i, v->var[k].enter->out).s)))
    ;
  return k;
}

static void write_exits(dfi_writer *w, int32_t i) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  uint32_t at = 0;
  for (uint32_t k = 0; k < l->scope->nexits; k++) {
    const dfi_pnode *p = l->scope->exits[k];
    uint8_t dtype;
    const dfi_name v = dfi_write_operand(w, i, w->look->plan->operand[p->in], &dtype);
    const uint32_t cell = at;
    const dfi_shape *tensor = w->unit->loop[i].exit_shape[k];
    w->unit->loop[i].exit_var[k] = variable_in_place(&w->unit->loop[i], i, v);
    if (w->unit->loop[i].exit_var[k] >= 0) continue;         /* its tensor leaves */
    at += dfi_cells(dtype, tensor);
    if (dtype == DF_RESOURCE) continue;
    if (l->parent >= 0) { hand_out(w, i, p, dtype, v); continue; }
    const dfi_name to = dfi_temp(w);
    SAY(w, "  %s = getelementptr i64, ptr %%out, i64 %u\n", to.s, cell);
    if (tensor) dfi_write_copy(w, dtype, dfi_shape_size(tensor), to.s, v.s);
    else SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s, to.s);
  }
  if (l->parent < 0 && at > w->nout) w->nout = at;
}

/* Were all nodes of the loop written, and is what its ends wait for there? */
void dfi_check_written(dfi_writer *w, int32_t i) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++)
    if (l->nodes[n].kind == DFI_K_NEXT || l->nodes[n].kind == DFI_K_EXIT ? l->node[n].missing != 0
                                                                         : !l->node[n].written)
      dfi_unit_refuse(w->unit, &l->nodes[n], "no order was found in which it can run");
}

/* Of an iteration, in the units of the budget: some nanoseconds each. What is only handed on costs nothing. */
static int32_t cost_of(const dfi_writer *w, int32_t i) {
  enum { NODES = 16, ELEMENTS = 8, CALL = 200 };
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_nloop *v = &w->unit->loop[i];
  int64_t elements = 0;
  for (uint32_t n = 0; n < l->scope->n; n++) {
    const dfi_pnode *p = &l->nodes[n];
    const bool makes = p->kind == DFI_K_SCALAR || p->kind == DFI_K_KERNEL || p->kind == DFI_K_MERGE;
    for (uint32_t k = 0; makes && !l->node[n].over && !dfi_is_alias(p) && k < p->nout; k++)
      if (l->slot_shape[p->out + k]) elements += dfi_shape_size(l->slot_shape[p->out + k]);
  }
  for (int32_t k = 0; k < v->nvars; k++)
    if (v->var[k].shape && !v->var[k].over) elements += dfi_shape_size(v->var[k].shape);
  return 1 + (int32_t)l->scope->n / NODES + (int32_t)(elements / ELEMENTS) + CALL * l->calls;
}

/* Many iterations at once, unless that was tried in vain not long ago. */
static void write_try(dfi_writer *w, int32_t i) {
  const dfi_name was = dfi_temp(w), is = dfi_temp(w), wait = dfi_temp(w);
  DECL(w, "  %%wait%d = alloca i64\n  store i64 0, ptr %%wait%d\n", i, i);
  SAY(w, "  %s = load i64, ptr %%wait%d\n  %s = sub i64 %s, 1\n  store i64 %s, ptr %%wait%d\n", was.s, i, is.s, was.s,
      is.s, i);
  SAY(w, "  %s = icmp sgt i64 %s, 0\n  br i1 %s, label %%slow%d, label %%burst%d\nslow%d:\n", wait.s, was.s, wait.s, i,
      i, i);
}

/* Does it go on, one by one? Where no burst was possible, and none is ever spoilt, the predicate is false. */
static dfi_name write_predicate(dfi_writer *w, int32_t i) {
  const dfi_name holds = dfi_write_truth(w, i, w->look->loop[i].guard[w->look->loop[i].go_on].pred);
  if (!w->unit->loop[i].bursts) return holds;
  const dfi_name t = dfi_temp(w);
  SAY(w, "  %s = and i1 %s, %%alone%d\n", t.s, holds.s, i);
  return t;
}

/* An inner loop's first iteration. */
static void begin_inner(dfi_writer *w, int32_t i) {
  SAY(w, "  store i64 0, ptr %%number%d\n  store i64 0, ptr %%since%d\n", i, i);
  dfi_write_forget_shared(w, i);
  dfi_write_add(w, "merged", w->look->loop[i].parent, w->unit->loop[i].nvars);
}

void dfi_write_loop(dfi_writer *w, int32_t i) {
  const int32_t mark = w->ndone, go_on = w->look->loop[i].go_on, cost = cost_of(w, i);
  const uint32_t narrays = w->unit->narrays;
  const bool bursts = w->unit->loop[i].bursts = dfi_burst_known(w, i);
  w->look->loop[i].written = true;
  if (i > 0) begin_inner(w, i);
  SAY(w, "  br label %%head%d\nhead%d:\n", i, i);
  if (bursts) write_try(w, i);
  dfi_write_begin(w, i);
  for (int32_t k = 0; k < w->unit->loop[i].nvars; k++)
    dfi_write_deliver(w, i, w->unit->loop[i].var[k].enter->edge[0], w->unit->loop[i].var[k].enter->edge[1]);
  dfi_write_block(w, i, 0);
  const int32_t head = w->ndone;
  const dfi_name t = write_predicate(w, i);
  SAY(w, "  br i1 %s, label %%body%d, label %%exit%d\nbody%d:\n", t.s, i, i, i);
  dfi_write_block(w, i, go_on);
  dfi_write_next(w, i);
  dfi_write_commit(w, i);
  const int32_t k = w->ntemp;
  w->ntemp += 5;
  SAY(w, "  %%t%d = load i64, ptr %%number%d\n  %%t%d = add i64 %%t%d, 1\n  store i64 %%t%d, ptr %%number%d\n", k, i,
      k + 1, k, k + 1, i);
  SAY(w,
      "  %%t%d = load i64, ptr %%budget\n  %%t%d = sub i64 %%t%d, %d\n  store i64 %%t%d, ptr %%budget\n  %%t%d = icmp "
      "slt i64 %%t%d, 0\n",
      k + 2, k + 3, k + 2, cost, k + 3, k + 4, k + 3);
  SAY(w, "  br i1 %%t%d, label %%poll%d, label %%head%d, !prof !0\npoll%d:\n", k + 4, i, i, i);
  dfi_write_counts(w, &w->body, i, false);
  w->ndone = mark;                  /* another iteration: nothing of it has been done */
  const int32_t site = dfi_write_site(w, i, false);
  const dfi_name more = dfi_temp(w), leave = dfi_temp(w);
  SAY(w,
      "  %s = call i64 %%do.poll(ptr %%c)\n  store i64 %s, ptr %%budget\n  %s = icmp slt i64 %s, 0\n  br i1 %s, label "
      "%%site%d, label %%head%d\nexit%d:\n",
      more.s, more.s, leave.s, more.s, leave.s, site, i, i);
  w->ndone = head;                  /* but of the last one its head */
  dfi_write_block(w, i, go_on - 1);
  write_exits(w, i);
  dfi_write_commit(w, i);
  dfi_write_counts(w, &w->body, i, true);
  dfi_check_written(w, i);
  w->ndone = mark;
  if (bursts) { dfi_write_burst(w, i, narrays, cost); w->ndone = mark; }
  if (i == 0) {
    const dfi_name n = dfi_temp(w), at = dfi_temp(w);
    SAY(w,
        "  %s = load i64, ptr %%number0\n  %s = getelementptr i8, ptr %%c, i64 %d\n  store i64 %s, ptr %s\n  ret i32 "
        "0\n",
        n.s, at.s, DFI_AT_NUMBER, n.s, at.s);
    return;
  }
  const int32_t parent = w->look->loop[i].parent;
  for (uint32_t e = 0; e < w->look->loop[i].scope->nexits; e++)
    dfi_write_deliver(w, parent, w->look->loop[i].scope->exits[e]->edge[0], w->look->loop[i].scope->exits[e]->edge[1]);
  dfi_write_done(w, parent, NULL, i);
}

void dfi_write_top(dfi_writer *w) {
  const dfi_unit *u = w->unit;
  dfi_write_begin(w, 0);
  dfi_write_block(w, 0, 0);
  dfi_check_written(w, 0);
  for (uint32_t k = 0; k < u->nresults; k++) {
    const dfi_result *r = &u->result[k];
    uint8_t dtype;
    const dfi_name v = dfi_write_operand(w, 0, DFI_OPERAND(DFI_ITERATION, r->slot), &dtype), to = dfi_temp(w);
    SAY(w, "  %s = getelementptr i64, ptr %%out, i64 %u\n", to.s, r->cell);
    if (r->shape) dfi_write_copy(w, dtype, dfi_shape_size(r->shape), to.s, v.s);
    else SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s, to.s);
  }
  dfi_write_top_counts(w);
  SAY(w, "  ret i32 0\n");
}
