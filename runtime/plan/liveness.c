/* liveness.c: Transfers that are dead together, so that one message says it.
 *
 * A token is dead where a Switch sent its token the other way. The tokens of a node hang on a set of conditions, all of
 * which must hold: a predicate and its value, each. Two Transfers of one iteration that go the same way and have the
 * same conditions are alive or dead together. Where they are dead the first of them is sent, and stands for the others.
 *
 * Enters, NextIterations and Exits of a loop have the loop's conditions, if its variables can only be dead together.
 * What a node hangs on beside that (a Merge of anything but the two sides of a condition, a call) is a condition of its
 * own.
 */
#include "plan/place.h"
#include <stdlib.h>

enum { UNKNOWN = -1, BUSY = -2, MOST = 24 /* conditions of a set */ };
/* A node's own; of a loop variable; of a loop; that a predicate has a value. */
typedef enum kind { OWN, VARIABLE, LOOP, CHOICE } kind;
typedef struct conditions { int32_t n; uint64_t at[MOST]; } conditions;             /* ascending */
typedef struct source { uint32_t node; uint8_t port; bool control; } source;        /* control: of a Merge */

typedef struct analysis {
  const dfi_plan *p;
  source     *sources; uint32_t *first;      /* of node i: sources[first[i]..first[i + 1]) */
  int32_t    *set;                           /* by node: the conditions of its inputs; UNKNOWN; BUSY: asked for */
  conditions *sets; int32_t nsets, room;
  int32_t    *table; uint32_t mask;          /* 1 + set, by hash; 0: none */
  int32_t   **transfer;                      /* by scope and slot: the Transfer that fills it; owned; NULL: none does */
  bool       *irregular;                     /* by scope: its variables may be dead one by one */
} analysis;

/* ---- sets ---------------------------------------------------------------------------------------------------- */

static uint64_t condition(kind k, uint32_t scope, uint32_t number, uint32_t port) {
  return (uint64_t)k << 62 | (uint64_t)(scope & 0x1fffffff) << 33 | (uint64_t)number << 1 | port;
}

static void look_for_place(analysis *a) {
  const uint32_t slots = a->table ? 2 * (a->mask + 1) : 256;
  dfi_free(a->table);
  a->table = dfi_xcalloc(slots, sizeof *a->table);
  a->mask = slots - 1;
}

static uint32_t slot_of(const analysis *a, const conditions *c) {
  const size_t bytes = sizeof *c->at * (size_t)c->n;
  uint32_t h = (uint32_t)(dfi_hash_name((const char *)c->at, bytes) * 0x9e3779b97f4a7c15u >> 32) & a->mask;
  for (;; h = (h + 1) & a->mask) {
    const conditions *s = a->table[h] ? &a->sets[a->table[h] - 1] : NULL;
    if (!s || (s->n == c->n && !memcmp(s->at, c->at, bytes))) return h;
  }
}

/* The number of a set. */
static int32_t set_of(analysis *a, const conditions *c) {
  if ((uint32_t)a->nsets * 2 >= a->mask) {
    look_for_place(a);
    for (int32_t i = 0; i < a->nsets; i++) a->table[slot_of(a, &a->sets[i])] = i + 1;
  }
  const uint32_t h = slot_of(a, c);
  if (a->table[h]) return a->table[h] - 1;
  if (a->nsets == a->room) a->sets = dfi_xrealloc(a->sets, sizeof *a->sets * (size_t)(a->room = 2 * a->room + 64));
  a->sets[a->nsets] = *c;
  a->table[h] = ++a->nsets;
  return a->nsets - 1;
}

static int32_t alone(analysis *a, uint64_t key) {
  const conditions c = { 1, { key } };
  return set_of(a, &c);
}

static int32_t own(analysis *a, uint32_t node) { return alone(a, condition(OWN, 0, node, 0)); }

/* All that two sets say; of `node` alone where that is too much. */
static int32_t both(analysis *a, int32_t one, int32_t two, uint32_t node) {
  if (one == two) return one;
  const conditions x = a->sets[one], y = a->sets[two];
  conditions c = { 0 };
  for (int32_t i = 0, j = 0; i < x.n || j < y.n;) {
    if (c.n == MOST) return own(a, node);
    const bool from_x = j == y.n || (i < x.n && x.at[i] <= y.at[j]);
    c.at[c.n++] = from_x ? x.at[i] : y.at[j];
    if (from_x && j < y.n && x.at[i] == y.at[j]) j++;
    if (from_x) i++; else j++;
  }
  return set_of(a, &c);
}

/* What two sets have in common that differ in the value of one predicate; UNKNOWN: they differ otherwise. */
static int32_t either(analysis *a, int32_t one, int32_t two) {
  const conditions *x = &a->sets[one], *y = &a->sets[two];
  conditions c = { 0 };
  int32_t differ = 0;
  for (int32_t i = 0; i < x->n && x->n == y->n; i++) {
    if (x->at[i] == y->at[i]) { c.at[c.n++] = x->at[i]; continue; }
    if (x->at[i] >> 62 != CHOICE || (x->at[i] ^ y->at[i]) != 1) return UNKNOWN;
    differ++;
  }
  return x->n == y->n && differ == 1 ? set_of(a, &c) : UNKNOWN;
}

/* ---- what sends tokens to what ----------------------------------------------------------------------------------- */

/* Counts what sends to each node, behind it (fill NULL), or lists it: fill[i] is where the next of node i goes. */
static void go_through_edges(analysis *a, uint32_t *fill) {
  const dfi_plan *p = a->p;
  for (uint32_t i = 0; i < (uint32_t)p->nnodes; i++) {
    const dfi_pnode *q = &p->node[i];
    if (dfi_is_exit(q->kind) && p->scope[q->scope].parent < 0) continue;
    const uint32_t first = dfi_reads_in(p, q)->first;
    for (uint32_t e = q->edge[0]; e < q->edge[3]; e++) {
      const uint32_t to = first + p->edge[e].node;
      const uint8_t port = q->kind != DFI_K_SWITCH ? 0 : e < q->edge[1] ? 0 : e < q->edge[2] ? 1 : 2;
      if (fill) a->sources[fill[to]++] = (source){ i, port, (p->edge[e].to & 3) == DFI_TO_MERGE_CONTROL };
      else a->first[to + 1]++;
    }
  }
}

static void find_sources(analysis *a) {
  const size_t n = (size_t)a->p->nnodes;
  a->first = dfi_xcalloc(n + 2, sizeof *a->first);
  go_through_edges(a, NULL);
  for (size_t i = 0; i < n; i++) a->first[i + 1] += a->first[i];
  a->sources = dfi_xcalloc((size_t)a->first[n] + 1, sizeof *a->sources);
  uint32_t *fill = dfi_xmalloc(sizeof *fill * (n + 1));
  memcpy(fill, a->first, sizeof *fill * (n + 1));
  go_through_edges(a, fill);
  dfi_free(fill);
}

/* Of every slot that a Transfer fills, which. */
static void find_transfers(analysis *a) {
  const dfi_plan *p = a->p;
  a->transfer = dfi_xcalloc((size_t)p->nscopes + 1, sizeof *a->transfer);
  for (int32_t i = 0; i < p->nnodes; i++) {
    const dfi_pnode *q = &p->node[i];
    if (q->kind != DFI_K_TRANSFER || !q->nout) continue;
    int32_t **of = &a->transfer[q->scope];
    if (!*of) {
      const size_t slots = p->scope[q->scope].nslots + (size_t)1;
      *of = dfi_xmalloc(sizeof **of * slots);
      for (size_t k = 0; k < slots; k++) (*of)[k] = UNKNOWN;
    }
    (*of)[q->out] = i;
  }
}

/* The condition that a Switch's output is alive. A predicate is the same one on every device that it is sent to. */
static uint64_t choice_of(const analysis *a, const dfi_pnode *q, uint32_t port) {
  const dfi_plan *p = a->p;
  dfi_operand pred = p->operand[q->in + 1];
  const int32_t *sent = a->transfer[q->scope];
  while (sent && DFI_SPACE(pred) == DFI_ITERATION && sent[DFI_INDEX(pred)] != UNKNOWN)
    pred = p->operand[p->node[sent[DFI_INDEX(pred)]].in];
  return condition(CHOICE, q->scope, pred, port);
}

/* ---- conditions of nodes ----------------------------------------------------------------------------------------- */

/* The Enters of a loop's variables: the first from `i` on; NULL: there are no more. */
static const dfi_pnode *next_enter(const dfi_plan *p, int32_t scope, uint32_t *i) {
  const dfi_scope *s = &p->scope[scope];
  while (*i < s->nenters) {
    const dfi_pnode *q = s->enters[(*i)++];
    if (!q->constant) return q;
  }
  return NULL;
}

/* Has the loop conditions, as a whole? Then it hangs on those of its first Enter. */
static const dfi_pnode *enters_with(const analysis *a, uint32_t scope) {
  uint32_t i = 0;
  return a->irregular[scope] ? NULL : next_enter(a->p, (int32_t)scope, &i);
}

/* The node whose conditions have to be known for what `from` sends; NULL: none has. */
static const dfi_pnode *hangs_on(const analysis *a, const dfi_pnode *from) {
  switch (from->kind) {
  case DFI_K_ENTER: case DFI_K_NEXT: case DFI_K_NEXT_REMAT: case DFI_K_CALL: case DFI_K_ARG: case DFI_K_RETURN:
  case DFI_K_TRIGGER: return NULL;
  case DFI_K_EXIT: case DFI_K_EXIT_REMAT: return enters_with(a, from->scope);
  default: return from;
  }
}

/* The conditions of what a source sends. */
static int32_t sent_by(analysis *a, source s) {
  const dfi_plan *p = a->p;
  const dfi_pnode *q = &p->node[s.node], *on = hangs_on(a, q);
  const int32_t set = on ? a->set[on - p->node] : UNKNOWN;
  if (q->kind == DFI_K_ENTER || dfi_is_next(q->kind)) {
    const uint32_t scope = q->kind == DFI_K_ENTER ? q->target : q->scope;
    if (q->kind == DFI_K_ENTER && q->constant) return own(a, s.node);
    return alone(a, a->irregular[scope] ? condition(VARIABLE, scope, q->out, 0) : condition(LOOP, scope, 0, 0));
  }
  if (q->kind == DFI_K_TRIGGER) return 0;
  if (set < 0) return own(a, s.node);                /* also where a damaged graph goes round in a circle */
  if (q->kind != DFI_K_SWITCH || s.port > 1) return set;
  return both(a, set, alone(a, choice_of(a, q, s.port)), s.node);
}

/* A Merge of a loop has the loop's conditions; of a condition, those of the condition itself. */
static int32_t merged(analysis *a, uint32_t node) {
  const dfi_pnode *q = &a->p->node[node];
  int32_t set = UNKNOWN;
  for (uint32_t i = a->first[node]; i < a->first[node + 1]; i++) {
    const source s = a->sources[i];
    const uint8_t kind = a->p->node[s.node].kind;
    if (s.control) return own(a, node);
    if (kind == DFI_K_ENTER || dfi_is_next(kind)) return sent_by(a, s);
    const int32_t one = sent_by(a, s);
    set = i == a->first[node] ? one : set == UNKNOWN ? UNKNOWN : either(a, set, one);
  }
  return a->first[node + 1] - a->first[node] == q->nin && q->nin == 2 && set != UNKNOWN ? set : own(a, node);
}

static int32_t conditions_of(analysis *a, uint32_t node) {
  if (a->p->node[node].kind == DFI_K_MERGE) return merged(a, node);
  int32_t set = 0;
  for (uint32_t i = a->first[node]; i < a->first[node + 1]; i++) set = both(a, set, sent_by(a, a->sources[i]), node);
  return set;
}

/* Gives every node its conditions, after those of what it hangs on. */
static void find_conditions(analysis *a) {
  const dfi_plan *p = a->p;
  uint32_t *stack = dfi_xmalloc(sizeof *stack * ((size_t)p->nnodes + a->first[p->nnodes] + 1));
  for (int32_t i = 0; i < p->nnodes; i++) a->set[i] = UNKNOWN;
  for (int32_t root = 0; root < p->nnodes; root++) {
    uint32_t n = 0;
    stack[n++] = (uint32_t)root;
    while (n) {
      const uint32_t node = stack[n - 1];
      if (a->set[node] != UNKNOWN) {
        if (a->set[node] == BUSY) a->set[node] = conditions_of(a, node);
        n--;
        continue;
      }
      a->set[node] = BUSY;
      for (uint32_t i = a->first[node]; i < a->first[node + 1]; i++) {
        const dfi_pnode *on = hangs_on(a, &p->node[a->sources[i].node]);
        if (on && a->set[on - p->node] == UNKNOWN) stack[n++] = (uint32_t)(on - p->node);
      }
    }
  }
  dfi_free(stack);
}

/* Loops whose variables may be dead one by one are so from now on. False: there was none. */
static bool find_irregular(analysis *a) {
  const dfi_plan *p = a->p;
  int32_t *next = dfi_xmalloc(sizeof *next * ((size_t)p->nscopes + 1) * 2), *exit = next + p->nscopes;
  bool found = false;
  for (int32_t i = 0; i < 2 * p->nscopes; i++) next[i] = UNKNOWN;
  for (int32_t i = 0; i < p->nnodes; i++) {
    const dfi_pnode *q = &p->node[i];
    int32_t *seen = dfi_is_next(q->kind) ? &next[q->scope] : dfi_is_exit(q->kind) ? &exit[q->scope] : NULL;
    if (!seen || a->irregular[q->scope]) continue;
    if (*seen != UNKNOWN && *seen != a->set[i]) a->irregular[q->scope] = found = true;
    *seen = a->set[i];
  }
  for (int32_t s = 0; s < p->nscopes; s++) {
    uint32_t i = 0;
    const dfi_pnode *first = next_enter(p, s, &i), *more;
    bool same = next[s] == UNKNOWN || exit[s] == UNKNOWN || either(a, next[s], exit[s]) != UNKNOWN;
    while ((more = next_enter(p, s, &i))) same &= a->set[first - p->node] == a->set[more - p->node];
    if (same || a->irregular[s]) continue;
    a->irregular[s] = found = true;
  }
  dfi_free(next);
  return found;
}

/* ---- what waits for what ----------------------------------------------------------------------------------------- */

/* Behind the nodes are two for each scope: its frame is there, when all its Enters have come; and it is over. */
static uint32_t opened(const dfi_plan *p, uint32_t scope) { return (uint32_t)p->nnodes + 2 * scope; }
static uint32_t over(const dfi_plan *p, uint32_t scope) { return (uint32_t)p->nnodes + 2 * scope + 1; }

/* The i-th of what `node` waits for within its iteration; false: there are no more. */
static bool waits_for(const analysis *a, uint32_t node, uint32_t i, uint32_t *out) {
  const dfi_plan *p = a->p;
  if (node >= (uint32_t)p->nnodes) {
    const dfi_scope *s = &p->scope[(node - (uint32_t)p->nnodes) / 2];
    const bool is_over = (node - (uint32_t)p->nnodes) & 1;
    if (i >= (is_over ? s->n : s->nenters)) return false;
    *out = is_over ? s->first + i : (uint32_t)(s->enters[i] - p->node);
    return true;
  }
  *out = opened(p, p->node[node].scope);
  if (i-- == 0) return true;
  if (i >= a->first[node + 1] - a->first[node]) return false;
  const dfi_pnode *q = &p->node[*out = a->sources[a->first[node] + i].node];
  if (q->kind == DFI_K_ENTER || dfi_is_next(q->kind)) *out = opened(p, p->node[node].scope);
  else if (dfi_is_exit(q->kind)) *out = over(p, q->scope);
  return true;
}

/* How many Transfers are on the longest way to each node, itself among them; owned. */
static int32_t *find_depths(const analysis *a) {
  const dfi_plan *p = a->p;
  const size_t n = (size_t)p->nnodes + 2 * (size_t)p->nscopes;
  int32_t *depth = dfi_xmalloc(sizeof *depth * (n + 1));
  for (size_t i = 0; i < n; i++) depth[i] = UNKNOWN;
  struct at { uint32_t node, next; int32_t most; } *stack = dfi_xmalloc(sizeof *stack * (n + 1));
  for (uint32_t root = 0; root < n; root++) {
    size_t top = 0;
    if (depth[root] == UNKNOWN) { stack[top++] = (struct at){ root, 0, 0 }; depth[root] = BUSY; }
    while (top) {
      struct at *at = &stack[top - 1];
      uint32_t before;
      if (!waits_for(a, at->node, at->next, &before)) {
        depth[at->node] = at->most + (at->node < (uint32_t)p->nnodes && p->node[at->node].kind == DFI_K_TRANSFER);
        top--;
      } else if (depth[before] == UNKNOWN) {
        stack[top++] = (struct at){ before, 0, 0 };
        depth[before] = BUSY;
      } else {
        if (depth[before] > at->most) at->most = depth[before];
        at->next++;
      }
    }
  }
  dfi_free(stack);
  return depth;
}

/* ---- Transfers --------------------------------------------------------------------------------------------------- */

typedef struct going { uint32_t scope, link, node; int32_t set, depth; } going;

static int by_way(const void *a, const void *b) {
  const going *x = a, *y = b;
  if (x->scope != y->scope) return x->scope < y->scope ? -1 : 1;
  if (x->link != y->link) return x->link < y->link ? -1 : 1;
  if (x->set != y->set) return x->set < y->set ? -1 : 1;
  if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
  return x->node < y->node ? -1 : x->node > y->node;
}

static void join(const analysis *a, dfi_plan *p) {
  going *t = dfi_xmalloc(sizeof *t * ((size_t)p->nnodes + 1));
  int32_t *depth = find_depths(a);
  size_t n = 0;
  for (uint32_t i = 0; i < (uint32_t)p->nnodes; i++) {
    const dfi_pnode *q = &p->node[i];
    if (q->kind == DFI_K_TRANSFER && a->sets[a->set[i]].n)
      t[n++] = (going){ q->scope, q->child, i, a->set[i], depth[i] };
  }
  qsort(t, n, sizeof *t, by_way);
  for (size_t i = 1, first = 0; i < n; i++) {
    if (t[i].scope != t[first].scope || t[i].link != t[first].link || t[i].set != t[first].set) { first = i; continue; }
    p->node[t[i - 1].node].target = 1 + t[i].node;
    p->node[t[i].node].with = 1 + t[first].node;
  }
  dfi_free(t); dfi_free(depth);
}

void dfi_plan_find_dead_together(dfi_plan *p) {
  analysis a = { .p = p };
  const conditions none = { 0 };
  a.set = dfi_xmalloc(sizeof *a.set * ((size_t)p->nnodes + 1));
  a.irregular = dfi_xcalloc((size_t)p->nscopes + 1, sizeof *a.irregular);
  set_of(&a, &none);                         /* number 0 */
  find_sources(&a);
  find_transfers(&a);
  do find_conditions(&a); while (find_irregular(&a));
  join(&a, p);
  for (int32_t s = 0; s < p->nscopes; s++) dfi_free(a.transfer[s]);
  dfi_free(a.transfer); dfi_free(a.sources); dfi_free(a.first); dfi_free(a.set);
  dfi_free(a.sets); dfi_free(a.table); dfi_free(a.irregular);
}
