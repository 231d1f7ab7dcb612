/* spent.c: loop constants that nothing reads any more once a value has left the loop.
 *
 * In the iteration whose Exits fire the predicate is false, so all that hangs on the true sides of the Switches of the
 * loop is dead there. A constant that only such nodes read is needed no more when the iterations before are done: the
 * engine lets it go then, and not when the last dead token has passed.
 */
#include "plan/make.h"

typedef struct search {
  const dfi_plan *p;
  uint8_t  *dead;                  /* by node */
  uint32_t *deads;                 /* by node, of a Merge: inputs that are not */
  uint32_t *next, n;               /* nodes whose readers are to be looked at */
} search;

static void kill_node(search *w, uint32_t node) {
  const dfi_pnode *q = &w->p->node[node];
  const bool tells = q->kind == DFI_K_TRANSFER || q->kind == DFI_K_TRIGGER;      /* these run with a dead token, too */
  if (w->dead[node] || tells || (q->kind == DFI_K_MERGE && --w->deads[node])) return;
  w->dead[node] = 1;
  if (q->kind != DFI_K_ENTER && q->kind != DFI_K_NEXT && q->kind != DFI_K_EXIT) w->next[w->n++] = node;
}

static void kill_readers(search *w, const dfi_scope *s, uint32_t from, uint32_t to) {
  for (uint32_t e = from; e < to; e++) {
    const uint32_t kind = w->p->edge[e].to & 0xff;
    if (kind != DFI_TO_EXIT && kind != DFI_TO_MERGE_CONTROL) kill_node(w, s->first + w->p->edge[e].node);
  }
}

/* The predicate that all values of the loop leave by; ~0: there is none. */
static dfi_operand predicate_of(const dfi_plan *p, const dfi_scope *s) {
  dfi_operand *left_by = dfi_xmalloc(sizeof *left_by * ((size_t)s->nslots + 1)), found = ~0u;
  memset(left_by, 0xff, sizeof *left_by * s->nslots);
  for (uint32_t i = s->first; i < s->first + s->n; i++)
    if (p->node[i].kind == DFI_K_SWITCH) left_by[p->node[i].out] = p->operand[p->node[i].in + 1];
  for (uint32_t i = 0; i < s->nexits; i++) {
    const dfi_operand at = p->operand[s->exits[i]->in];
    const dfi_operand by = DFI_SPACE(at) == DFI_ITERATION ? left_by[DFI_INDEX(at)] : ~0u;
    if (i && by != found) { found = ~0u; break; }
    found = by;
  }
  dfi_free(left_by);
  return found;
}

/* Finds what is dead where the loop is left. False: it is not left by one predicate. */
static bool kill_last(search *w, const dfi_scope *s) {
  const dfi_plan *p = w->p;
  const dfi_operand predicate = predicate_of(p, s);
  if (predicate == ~0u) return false;
  for (uint32_t i = s->first; i < s->first + s->n; i++) w->deads[i] = DFI_MERGE_DEADS(s->counts[i - s->first]);
  for (uint32_t i = s->first; i < s->first + s->n; i++) {
    const dfi_pnode *q = &p->node[i];
    if (q->kind == DFI_K_SWITCH && p->operand[q->in + 1] == predicate) kill_readers(w, s, q->edge[1], q->edge[2]);
  }
  while (w->n) {
    const dfi_pnode *q = &p->node[w->next[--w->n]];
    kill_readers(w, s, q->edge[0], q->edge[q->kind == DFI_K_SWITCH ? 3 : 1]);
  }
  for (uint32_t i = s->first; i < s->first + s->n; i++) if (p->node[i].kind == DFI_K_NEXT && !w->dead[i]) return false;
  return true;
}

static void find_spent(search *w, dfi_scope *s) {
  uint8_t *read = dfi_xcalloc(s->nconsts, 1);
  for (uint32_t i = s->first; i < s->first + s->n; i++)
    for (uint32_t k = 0; !w->dead[i] && k < w->p->node[i].nin; k++) {
      const dfi_operand at = w->p->operand[w->p->node[i].in + k];
      if (DFI_SPACE(at) == DFI_FRAME && DFI_INDEX(at) < s->nconsts) read[DFI_INDEX(at)] = 1;
    }
  s->spent = dfi_xmalloc(sizeof *s->spent * s->nconsts);
  for (uint32_t c = 0; c < s->nconsts; c++) if (!read[c]) s->spent[s->nspent++] = c;
  dfi_free(read);
}

void dfi_plan_find_spent(dfi_plan *p) {
  search w = { .p = p };
  if (p->nscopes < 2) return;
  w.dead = dfi_xcalloc((size_t)p->nnodes + 1, 1);
  w.deads = dfi_xcalloc((size_t)p->nnodes + 1, sizeof *w.deads);
  w.next = dfi_xmalloc(sizeof *w.next * ((size_t)p->nnodes + 1));
  for (int32_t i = 1; i < p->nscopes; i++) {
    dfi_scope *s = &p->scope[i];
    if (s->parent != DFI_FUNCTION && s->nexits && s->nconsts && kill_last(&w, s)) find_spent(&w, s);
    w.n = 0;
  }
  dfi_free(w.dead); dfi_free(w.deads); dfi_free(w.next);
}
