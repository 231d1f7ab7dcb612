/* straight.c: units with one boundary, their beginning: the top level of a plan, where nothing in it has effects and
 * all of it is numbers and small tensors, and functions without effects. Run, or called, again and again they become
 * native code, as loops do.
 *
 * The unit runs from there to the end, and what is fetched, or returned, is put where tokens would have put it; where
 * something is about to fail, is not what was expected, or the run is to stop, the tokens begin from the same place and
 * nothing has been. Of a call they make those inside it one by one, which may be native again. A run that can be
 * inspected (df.start's) is the tokens', but for its calls: its top level would have nothing to show.
 */
#include "engine/native/native.h"
#include "engine/token.h"

enum {
  FEW = 16, MANY = 256,          /* nodes of a plan that is compiled */
  HOT = 200 * 256,               /* nodes of its runs together, as of a loop */
  TRIES = 8                      /* runs that failed, until it is given up */
};

static bool is_straight(const dfi_pnode *p) {
  switch ((dfi_kind)p->kind) {
    case DFI_K_SCALAR: case DFI_K_READ: case DFI_K_SWITCH: case DFI_K_MERGE: case DFI_K_CONST: case DFI_K_NOOP:
      return true;
    case DFI_K_KERNEL: return !p->op->stateful;
    default: return false;
  }
}

/* Begins the unit for frame f. True: it is done, and what it made is in `cells`, behind those that it read. */
static bool run(dfi_exec *x, dfi_unit *u, dfi_frame *f, dfi_record *r, dfi_native_frame *c, int64_t *cells) {
  int64_t counts[DFI_COUNTS] = { 0 };
  df_value *held = dfi_xcalloc(u->npeeks + 1, sizeof *held);
  df_tensor *arena = NULL;
  const bool room = dfi_native_arena(u, &arena);
  *c = (dfi_native_frame){ .in = cells, .out = cells + u->ncells, .count = counts, .exec = x, .unit = u, .held = held,
                           .address = u->address, .arena = arena ? arena->data : NULL, .record = r,
                           .run = atomic_load_explicit(&u->run, memory_order_acquire), .least = 1,
                           .budget = x->osr ? (int64_t)(dfi_engine_dice(x) % 16) : DFI_BUDGET };
  const bool fits = room && dfi_native_fill(x, u, f, r, cells), done = fits && c->run(c) == 0;
  dfi_native_forget_calls(c);
  dfi_unit_used(u, 1);
  if (done) dfi_native_count(x, counts);
  for (uint32_t k = 0; k < u->npeeks; k++) dfi_value_drop(&held[k]);
  df_tensor_release(arena);
  dfi_free(held);
  c->told |= !fits;
  return done;
}

static df_value result_of(dfi_exec *x, const dfi_record *r, const dfi_result *m, const dfi_native_frame *c) {
  return dfi_native_value(x, r, m->node, m->dtype, m->shape, c->out + m->cell);
}

static int64_t *cells_of(const dfi_unit *u) { return dfi_xmalloc(sizeof(int64_t) * (u->ncells + u->nout + 1)); }

/* Of a cold one, which has come to so many nodes more. */
static bool is_ready(dfi_exec *x, dfi_unit *u, int32_t nodes) {
  if (atomic_load_explicit(&u->state, memory_order_acquire) == DFI_UNIT_COLD) {
    if (x->setup.engine == DFI_ENGINE_NATIVE) dfi_unit_want_now(x, u);
    else if (atomic_fetch_add_explicit(&u->heat, nodes, memory_order_relaxed) >= HOT) dfi_unit_want(u, DFI_SOON);
  }
  if (atomic_load_explicit(&u->state, memory_order_acquire) != DFI_UNIT_READY) return false;
  return !(x->osr && dfi_engine_dice(x) % 2);
}

/* ---- the top level ---------------------------------------------------------------------------------------------- */

static bool run_top(dfi_exec *x, dfi_unit *u, dfi_record *r) {
  dfi_native_frame c;
  int64_t *cells = cells_of(u);
  const bool done = run(x, u, x->root, r, &c, cells);
  for (uint32_t i = 0; done && i < u->nresults; i++) {
    const dfi_result *m = &u->result[i];
    df_value *slot = r->base[DFI_ITERATION] + m->slot;
    *slot = result_of(x, r, m, &c);
    slot_filled(r, slot, 1);
    if (m->node->kind == DFI_K_MERGE) r->counts[m->node - r->nodes] = DFI_MERGE_FIRED | DFI_MERGE_LIVE;
  }
  if (!done && !c.told && atomic_fetch_add(&u->failures, 1) >= TRIES) atomic_store(&u->state, DFI_UNIT_REFUSED);
  dfi_free(cells);
  return done;
}

static bool turn(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  if (x->watch || x->team || x->timed || x->setup.faults) return false;
  if (!dfi_engine_unwatched(x) || dfi_engine_stops(x)) return false;
  dfi_unit *u = dfi_unit_of(x, f->scope);
  return is_ready(x, u, (int32_t)f->scope->n) && run_top(x, u, r);
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

/* Is anything read of a call but numbers and tensors: what it keeps for its gradient, or another handle? */
static bool gives_handles(const dfi_frame *f) {
  const uint32_t *uses = f->parent->scope->uses + f->call->out;
  for (uint32_t k = 0; k < f->call->nout; k++) if (f->call->out_dtypes[k] == DF_RESOURCE && uses[k]) return true;
  return false;
}

/* What came to nothing is paid back by tokens, which take a hundred times as long: so going deeper than native code can
   takes little longer than it does with tokens alone. */
static void owe(dfi_unit *u, const dfi_native_frame *c) {
  enum { OF_TOKENS = 32, MOST = 4096 };
  const int64_t spent = c->polls * DFI_BUDGET + DFI_BUDGET - c->budget, calls = 1 + spent / OF_TOKENS;
  atomic_store_explicit(&u->owed, (int32_t)(calls < MOST ? calls : MOST), memory_order_relaxed);
}

static bool run_call(dfi_exec *x, dfi_unit *u, dfi_frame *f, dfi_record *r) {
  dfi_native_frame c;
  int64_t *cells = cells_of(u);
  df_value *out = f->origin->base[DFI_ITERATION] + f->call->out;
  const bool done = run(x, u, f, r, &c, cells);
  for (uint32_t k = 0; done && k < f->call->nout; k++) out[k] = (df_value){ 0 };
  for (uint32_t k = 0; done && k < u->nresults; k++) out[u->result[k].slot] = result_of(x, r, &u->result[k], &c);
  if (done) {
    f->returned = true;
    x->count.frames--;                   /* its own was counted when it opened */
  } else if (!c.told && !x->osr) owe(u, &c);
  dfi_free(cells);
  return done;
}

static bool turn_call(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  dfi_unit *u = dfi_unit_of(x, f->scope);
  if (atomic_load_explicit(&u->state, memory_order_relaxed) == DFI_UNIT_REFUSED) return false;
  if (x->team || x->batch || x->setup.faults || gives_handles(f)) return false;
  if (f->depth > DFI_CALLS_AT_MOST / 2) return false;      /* the calls inside it would be too deep for tokens */
  if (!dfi_engine_unwatched(x) || dfi_engine_wants_many(x, f)) return false;
  if (!is_ready(x, u, (int32_t)f->scope->n) || dfi_engine_stops(x)) return false;
  if (atomic_load_explicit(&u->owed, memory_order_relaxed) > 0) {
    atomic_fetch_sub_explicit(&u->owed, 1, memory_order_relaxed);
    return false;
  }
  return run_call(x, u, f, r);
}

/* ---- which ------------------------------------------------------------------------------------------------------ */

static const dfi_engine_ops straight = { turn }, calls = { turn_call };

/* It is a function, and not what is run a second time for a gradient. */
static bool returns(const dfi_plan *p, const dfi_scope *s) {
  for (uint32_t i = 0; dfi_is_function(s) && i < s->n; i++) if (p->node[s->first + i].kind == DFI_K_RETURN) return true;
  return false;
}

static void attach_top(dfi_plan *p) {
  dfi_scope *s = &p->scope[0];
  if (s->n < FEW || s->n > MANY || s->nchildren) return;
  for (uint32_t i = 0; i < s->n; i++) if (!is_straight(&p->node[s->first + i])) return;
  s->engine_ops = &straight;
}

void dfi_straight_attach(dfi_plan *p) {
  attach_top(p);
  for (int32_t i = 1; i < p->nscopes; i++)
    if (!p->scope[i].batch && returns(p, &p->scope[i])) p->scope[i].engine_ops = &calls;
}
