/* holders.c: when memory runs out, what holds it: the tensors in the slots and arrays of all open frames, and the
 * variables, by the node that made them.
 */
#include "engine/memory/holders.h"
#include "engine/memory/save_policy.h"
#include "engine/memory/remat.h"
#include "resource/tensor_array.h"
#include "resource/variable.h"
#include <stdio.h>

typedef enum held_as { HELD, IN_ARRAY, SAVED /* for a gradient */, KEPT /* to run iterations again */ } held_as;
typedef struct holder { const df_node *node; int64_t bytes, tensors; held_as as; bool may_swap, may_recompute; } holder;
typedef struct holders {
  holder  *at; int32_t n, room;
  uintptr_t *seen; uint32_t nseen, mask;      /* buffers that were counted: open addressing */
  const dfi_devmem *arena;
  int64_t ahead;                              /* bytes in iterations that are open beside the oldest one */
  bool    is_ahead;                           /* what is added now is of such a one */
} holders;

static bool first_time(holders *h, const void *p) {
  if (h->nseen * 2 >= h->mask) {
    uintptr_t *old = h->seen;
    const uint32_t slots = old ? h->mask + 1 : 0;
    h->mask = old ? h->mask * 2 + 1 : 255;
    h->seen = dfi_xcalloc((size_t)h->mask + 1, sizeof *h->seen);
    h->nseen = 0;
    for (uint32_t i = 0; i < slots; i++) if (old[i]) first_time(h, (const void *)old[i]);
    dfi_free(old);
  }
  uint32_t i = (uint32_t)((uintptr_t)p >> 6) * 0x9e3779b1u;
  while (h->seen[i & h->mask]) if (h->seen[i++ & h->mask] == (uintptr_t)p) return false;
  h->seen[i & h->mask] = (uintptr_t)p;
  h->nseen++;
  return true;
}

static holder *add(holders *h, const df_node *node, const df_tensor *t, held_as as) {
  if (!t || !node || t->buffer == NULL || t->buffer->arena != h->arena || !first_time(h, t->buffer)) return NULL;
  int32_t i = 0;
  while (i < h->n && (h->at[i].node != node || h->at[i].as != as)) i++;
  if (i == h->n) {
    if (h->n == h->room) h->at = dfi_xrealloc(h->at, sizeof *h->at * (size_t)(h->room = h->room * 2 + 16));
    h->at[h->n++] = (holder){ .node = node, .as = as };
  }
  if (h->is_ahead && as == HELD) h->ahead += t->buffer->bytes;
  h->at[i].bytes += t->buffer->bytes;
  h->at[i].tensors++;
  return &h->at[i];
}

static void add_array(holders *h, const dfi_exec *x, const df_node *node, const dfi_tensor_array *a) {
  const dfi_save policy = a->saved ? dfi_save_policy_for(x, a) : DFI_SAVE_KEEP;
  if (a->node) node = a->node;
  add(h, node, a->whole, IN_ARRAY);
  for (int64_t c = 0; a->store == DFI_STORE_TENSORS && c < a->nchunks; c++)
    for (int64_t i = 0; a->chunk[c] && i < dfi_chunk_slots(a, c); i++) {
      if (dfi_chunk_states(a, c)[i] != DFI_SLOT_WRITTEN) continue;
      holder *o = add(h, node, ((df_tensor **)a->chunk[c])[i], a->saved ? SAVED : IN_ARRAY);
      if (!o || !a->saved) continue;
      o->may_swap = h->arena && policy == DFI_SAVE_KEEP;
      o->may_recompute = policy == DFI_SAVE_KEEP || policy == DFI_SAVE_SWAP;
    }
}

static void add_value(holders *h, const dfi_exec *x, const df_node *node, const df_value *v) {
  if (v->kind == DF_TENSOR) { add(h, node, v->as.tensor, HELD); return; }
  if (v->kind != DF_HANDLE) return;
  const dfi_handle *handle = v->as.handle;
  if (handle->type == DFI_VARIABLE) {
    df_value now = { 0 };                  /* others may assign it meanwhile */
    if (dfi_variable_peek(v, &now) && now.kind == DF_TENSOR) add(h, node, now.as.tensor, HELD);
    dfi_value_drop(&now);
  }
  if (handle->type == DFI_TENSOR_ARRAY) add_array(h, x, node, (const dfi_tensor_array *)handle);
}

static void add_kept(void *h, const df_node *node, const df_value *v) {
  if (v->kind == DF_TENSOR) add(h, node, v->as.tensor, KEPT);
}

static void walk(holders *h, const dfi_exec *x, const dfi_frame *f) {
  for (int64_t n = f->first; n < f->next; n++) {
    const dfi_record *r = f->ring[n & (f->capacity - 1)];
    const bool outer = h->is_ahead;
    h->is_ahead |= n > f->first;
    for (uint32_t i = 0; i < f->scope->n; i++) {
      const dfi_pnode *p = r->nodes + i;
      if (p->kind == DFI_K_ENTER || dfi_is_exit(p->kind) || dfi_is_next(p->kind)) {      /* they write elsewhere */
        if (dfi_is_next(p->kind)) add_value(h, x, p->node, r->base[DFI_ITERATION] + p->out);
        continue;
      }
      for (uint32_t k = 0; k < p->nout; k++) add_value(h, x, p->node, r->base[DFI_ITERATION] + p->out + k);
    }
    for (uint32_t c = 0; c < f->scope->nchildren; c++) if (r->children[c]) walk(h, x, r->children[c]);
    h->is_ahead = outer;
  }
  for (uint32_t i = 0; i < f->scope->nenters; i++)
    if (f->scope->enters[i]->constant)
      add_value(h, x, f->scope->enters[i]->node, &f->constants[f->scope->enters[i]->out]);
}

char *dfi_size_text(int64_t bytes, char text[32]) {
  static const char *const units[] = { "B", "KB", "MB", "GB" };
  double n = (double)bytes;
  int32_t u = 0;
  while (n >= 1024 && u < 3) { n /= 1024; u++; }
  snprintf(text, 32, u && n < 10 ? "%.1f %s" : "%.0f %s", n, units[u]);
  return text;
}

/* What one could do: of `saved` values, and of iterations that are open at the same time. */
static size_t advice(const holders *h, char *text, size_t bytes) {
  int64_t swap = 0, recompute = 0;
  for (int32_t i = 0; i < h->n; i++) {
    const holder *o = &h->at[i];
    if (o->as != SAVED) continue;
    const double kept = 2 * __builtin_sqrt(2.0 * (double)o->tensors);      /* at segments' starts, and one segment */
    if (o->may_swap) swap += o->bytes;
    if (o->may_recompute && kept < (double)o->tensors)
      recompute += (int64_t)((double)o->bytes * (1 - kept / (double)o->tensors));
  }
  const struct { int64_t bytes; const char *how, *rest; } way[] = {
    { swap, "save = 'swap' would move up to ", " of it to the host" },
    { recompute, "save = 'recompute' would free about ", "" },
    { h->ahead, "a smaller parallel_iterations up to ", "" },
  };
  size_t at = 0;
  for (int32_t i = 0; i < 3 && at < bytes; i++) {
    char size[32];
    if (!way[i].bytes) continue;
    at += (size_t)snprintf(text + at, bytes - at, "%s%s%s%s", at ? ", " : "; ", way[i].how,
                           dfi_size_text(way[i].bytes, size), way[i].rest);
  }
  return at;
}

/* A value that a gradient saves has the name of the value. */
static const char *name_of(const holder *o) {
  const int32_t i = o->as == SAVED ? dfi_op_attr_index(dfi_op_info_at(o->node->op), "tensor_array_name") : -1;
  const char *name = i >= 0 ? o->node->attrs[i].s : NULL;
  return name && name[0] ? name : dfi_node_name((df_node *)o->node);
}

char *dfi_holders_text(const dfi_exec *x, int32_t device, char *text, size_t bytes) {
  holders h = { .arena = x->plan->devices ? x->plan->devices->at[device]->arena : NULL };
  char size[32];
  size_t at = 0;
  text[0] = 0;
  if (h.arena) {
    dfi_devmem_stats s;
    dfi_devmem_look((dfi_devmem *)h.arena, &s);
    char limit[32];
    dfi_size_text(s.in_use, size);
    if (s.limit) at += (size_t)snprintf(text, bytes, " (%s of %s in use)", size, dfi_size_text(s.limit, limit));
    else at += (size_t)snprintf(text, bytes, " (%s in use; it has no more)", size);
  }
  if (x->root) walk(&h, x, x->root);
  for (int32_t i = 0; i < x->plan->nvariables; i++)
    add_value(&h, x, x->plan->variable[i], &x->given[x->plan->nfeed + i]);
  for (int32_t i = 0; i < x->plan->nfeed; i++) add_value(&h, x, x->plan->feed[i].node, &x->given[i]);
  dfi_remat_walk(x, add_kept, &h);
  static const char *const said[] = { [HELD] = "", [IN_ARRAY] = " in an array", [SAVED] = " saved for a gradient",
                                      [KEPT] = " kept to run iterations again" };
  for (int32_t shown = 0; shown < 3 && shown < h.n && at < bytes; shown++) {
    int32_t most = shown;
    for (int32_t i = shown; i < h.n; i++) if (h.at[i].bytes > h.at[most].bytes) most = i;
    const holder o = h.at[most];
    h.at[most] = h.at[shown];
    h.at[shown] = o;
    const char *where = o.node->where && o.node->where[0] ? o.node->where : NULL;
    at += (size_t)snprintf(text + at, bytes - at, "%s`%s`%s%s, %s%s", shown ? "; " : "; the largest holders are ",
                           name_of(&o), where ? " at " : "", where ? where : "",
                           dfi_size_text(o.bytes, size), said[o.as]);
  }
  if (at < bytes) advice(&h, text + at, bytes - at);
  dfi_free(h.at); dfi_free(h.seen);
  return text;
}

/* It, and those around it, are the oldest ones that are open in their loops. */
static bool is_oldest(const dfi_record *r) {
  while (r->frame->origin && r->number == r->frame->first) r = r->frame->origin;
  return !r->frame->origin;
}

bool dfi_held_back(dfi_exec *x, const dfi_record *r, const dfi_device *d, int64_t bytes, int64_t spare) {
  dfi_devmem_stats now;
  /* the oldest iteration always goes on, so that something does */
  if (!d->arena || (x->head == x->tail && !x->running) || is_oldest(r)) return false;
  dfi_devmem_look(d->arena, &now);
  if (!now.limit) return false;
  const int64_t least = now.limit / 8 * 3, most = now.limit / 8 * 5;
  const int64_t stays = spare < least ? least : spare > most ? most : spare;
  if (now.in_use + x->flying + dfi_devmem_takes(bytes + 128) <= now.limit - stays) return false;
  const int64_t ran = x->count.taken + (x->head - x->counted) - 1;      /* but this one */
  if (x->held_at != ran) { x->held_at = ran; x->held_tries = 0; }
  /* all that is ready waits like this, and nothing else works: one of them goes on */
  return x->running > (x->team ? 0 : x->waiting) || x->held_tries++ <= 8 * (x->tail - x->head + 1);
}
