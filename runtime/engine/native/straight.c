/* straight.c: the top level of a plan, where nothing in it has effects and all of it is numbers and small tensors: run
 * again and again it becomes native code, as a loop does.
 *
 * There is one boundary, the run's beginning. The unit runs from there to the end, and the fetched values are put where
 * tokens would have put them; where something is about to fail, or is not what was expected, the tokens begin from the
 * same place and nothing has been. A run that can be inspected (df.start's) is the tokens': it would have nothing to
 * show.
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

static bool run(dfi_exec *x, dfi_unit *u, dfi_record *r) {
  int64_t *cells = dfi_xmalloc(sizeof *cells * (u->ncells + u->nout + 1)), counts[DFI_COUNTS] = { 0 };
  df_value *held = dfi_xcalloc(u->npeeks + 1, sizeof *held);
  df_tensor *arena = NULL;
  const bool room = dfi_native_arena(u, &arena);
  dfi_native_frame c = { .in = cells, .out = cells + u->ncells, .count = counts, .exec = x, .unit = u, .held = held,
                         .address = u->address, .arena = arena ? arena->data : NULL, .record = r,
                         .run = atomic_load_explicit(&u->run, memory_order_acquire) };
  const bool fits = room && dfi_native_fill(x, u, x->root, r, cells), done = fits && c.run(&c) == 0;
  dfi_native_forget_calls(&c);
  dfi_unit_used(u, 1);
  if (done) {
    dfi_native_count(x, counts);
    for (uint32_t i = 0; i < u->nresults; i++) {
      const dfi_result *m = &u->result[i];
      df_value *slot = r->base[DFI_ITERATION] + m->slot;
      *slot = dfi_native_value(x, r, m->node, m->dtype, m->shape, c.out + m->cell);
      slot_filled(r, slot, 1);
      if (m->node->kind == DFI_K_MERGE) r->counts[m->node - r->nodes] = DFI_MERGE_FIRED | DFI_MERGE_LIVE;
    }
  } else if (fits && atomic_fetch_add(&u->failures, 1) >= TRIES) atomic_store(&u->state, DFI_UNIT_REFUSED);
  for (uint32_t k = 0; k < u->npeeks; k++) dfi_value_drop(&held[k]);
  df_tensor_release(arena);
  dfi_free(held);
  dfi_free(cells);
  return done;
}

static bool turn(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  if (x->watch || x->team || x->timed || x->setup.faults) return false;
  if (!dfi_engine_unwatched(x) || dfi_engine_stops(x)) return false;
  dfi_unit *u = dfi_unit_of(x, f->scope);
  const int32_t state = atomic_load_explicit(&u->state, memory_order_acquire);
  if (state == DFI_UNIT_COLD) {
    const int32_t n = (int32_t)f->scope->n;
    if (x->setup.engine == DFI_ENGINE_NATIVE) dfi_unit_want_now(x, u);
    else if (atomic_fetch_add_explicit(&u->heat, n, memory_order_relaxed) >= HOT) dfi_unit_want(u, DFI_SOON);
  }
  if (atomic_load_explicit(&u->state, memory_order_acquire) != DFI_UNIT_READY) return false;
  return !(x->osr && dfi_engine_dice(x) % 2) && run(x, u, r);
}

static const dfi_engine_ops straight = { turn };

void dfi_straight_attach(dfi_plan *p) {
  dfi_scope *s = &p->scope[0];
  if (s->n < FEW || s->n > MANY || s->nchildren) return;
  for (uint32_t i = 0; i < s->n; i++) if (!is_straight(&p->node[s->first + i])) return;
  s->engine_ops = &straight;
}
