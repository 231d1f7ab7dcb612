/* tape.c: the life of a tape. Its call writes it, on the run's owner thread; the call of the gradient reads it
 * afterwards.
 *
 * A tape may hold the tapes of calls that its call made, so tapes hang together as deep as functions called each other.
 * They are let go one by one, from a list, because a recursion as deep as that would not fit the stack.
 */
#include "resource/tape.h"

static void destroy(dfi_handle *h);

static __thread dfi_tape *leaving;     /* tapes that nobody holds any more */
static __thread bool busy;

static void let_go(dfi_tape *t) {
  for (int32_t i = 0; i < t->n; i++) dfi_value_drop(&t->slot[i]);
  free(t->slot);
  free(t);
}

static void destroy(dfi_handle *h) {
  dfi_tape *t = (dfi_tape *)h;
  t->next = leaving;
  leaving = t;
  if (busy) return;
  busy = true;
  while (leaving) {
    dfi_tape *first = leaving;
    leaving = first->next;
    let_go(first);
  }
  busy = false;
}

dfi_tape *dfi_tape_new(void) {
  dfi_tape *t = dfi_xcalloc(1, sizeof *t);
  t->base = (dfi_handle){ .refs = 1, .type = DFI_TAPE, .destroy = destroy };
  return t;
}

void dfi_tape_put(dfi_tape *t, int32_t slot, const df_value *v) {
  if (slot >= t->n) {
    t->slot = dfi_xrealloc(t->slot, sizeof *t->slot * (size_t)(slot + 1));
    memset(t->slot + t->n, 0, sizeof *t->slot * (size_t)(slot + 1 - t->n));
    t->n = slot + 1;
  }
  dfi_value_drop(&t->slot[slot]);
  t->slot[slot] = dfi_value_copy(v);
  t->slot[slot].dead = t->slot[slot].flags = 0;
  t->slot[slot].uses = 0;
}

dfi_tape *dfi_tape_of(const df_value *v) {
  dfi_tape *t = v->kind == DF_HANDLE ? (dfi_tape *)v->as.handle : NULL;
  return t && t->base.type == DFI_TAPE ? t : NULL;
}
