/* holders.c: when memory runs out, who holds it: the tensors in the slots and arrays of all open frames, and the
 * variables, by the node that made them.
 */
#include "engine/holders.h"
#include "resource/tensor_array.h"
#include "resource/variable.h"
#include <stdio.h>

typedef struct holder { const df_node *node; int64_t bytes, tensors; bool array; } holder;
typedef struct holders {
  holder  *at; int32_t n, room;
  uintptr_t *seen; uint32_t nseen, mask;      /* buffers that were counted: open addressing */
  const dfi_devmem *arena;
} holders;

static bool first_time(holders *h, const void *p) {
  if (h->nseen * 2 >= h->mask) {
    uintptr_t *old = h->seen;
    const uint32_t slots = old ? h->mask + 1 : 0;
    h->mask = old ? h->mask * 2 + 1 : 255;
    h->seen = dfi_xcalloc((size_t)h->mask + 1, sizeof *h->seen);
    h->nseen = 0;
    for (uint32_t i = 0; i < slots; i++) if (old[i]) first_time(h, (const void *)old[i]);
    free(old);
  }
  uint32_t i = (uint32_t)((uintptr_t)p >> 6) * 0x9e3779b1u;
  while (h->seen[i & h->mask]) if (h->seen[i++ & h->mask] == (uintptr_t)p) return false;
  h->seen[i & h->mask] = (uintptr_t)p;
  h->nseen++;
  return true;
}

static void add(holders *h, const df_node *node, const df_tensor *t, bool array) {
  if (!t || !node || t->buffer == NULL || t->buffer->arena != h->arena || !first_time(h, t->buffer)) return;
  int32_t i = 0;
  while (i < h->n && h->at[i].node != node) i++;
  if (i == h->n) {
    if (h->n == h->room) h->at = dfi_xrealloc(h->at, sizeof *h->at * (size_t)(h->room = h->room * 2 + 16));
    h->at[h->n++] = (holder){ .node = node, .array = array };
  }
  h->at[i].bytes += t->buffer->bytes;
  h->at[i].tensors++;
}

static void add_value(holders *h, const df_node *node, const df_value *v) {
  if (v->kind == DF_TENSOR) { add(h, node, v->as.tensor, false); return; }
  if (v->kind != DF_HANDLE) return;
  const dfi_handle *handle = v->as.handle;
  if (handle->type == DFI_VARIABLE) {
    const dfi_variable *var = (const dfi_variable *)handle;
    if (var->value.kind == DF_TENSOR) add(h, node, var->value.as.tensor, false);
  }
  if (handle->type != DFI_TENSOR_ARRAY) return;
  const dfi_tensor_array *a = (const dfi_tensor_array *)handle;
  add(h, a->node ? a->node : node, a->whole, true);
  for (int64_t c = 0; a->store == DFI_STORE_TENSORS && c < a->nchunks; c++)
    for (int64_t i = 0; a->chunk[c] && i < dfi_chunk_slots(a, c); i++)
      if (dfi_chunk_states(a, c)[i] == DFI_SLOT_WRITTEN)
        add(h, a->node ? a->node : node, ((df_tensor **)a->chunk[c])[i], true);
}

static void walk(holders *h, const dfi_exec *x, const dfi_frame *f) {
  for (int64_t n = f->first; n < f->next; n++) {
    const dfi_record *r = f->ring[n & (f->capacity - 1)];
    for (uint32_t i = 0; i < f->scope->n; i++) {
      const dfi_pnode *p = r->nodes + i;
      if (p->kind == DFI_K_ENTER || p->kind == DFI_K_EXIT || p->kind == DFI_K_NEXT) {      /* they write elsewhere */
        if (p->kind == DFI_K_NEXT) add_value(h, p->node, r->base[DFI_ITERATION] + p->out);
        continue;
      }
      for (uint32_t k = 0; k < p->nout; k++) add_value(h, p->node, r->base[DFI_ITERATION] + p->out + k);
    }
    for (uint32_t c = 0; c < f->scope->nchildren; c++) if (r->children[c]) walk(h, x, r->children[c]);
  }
  for (uint32_t i = 0; i < f->scope->nenters; i++)
    if (f->scope->enters[i]->constant) add_value(h, f->scope->enters[i]->node, &f->constants[f->scope->enters[i]->out]);
}

static char *size_text(int64_t bytes, char text[32]) {
  static const char *const units[] = { "B", "KB", "MB", "GB" };
  double n = (double)bytes;
  int32_t u = 0;
  while (n >= 1024 && u < 3) { n /= 1024; u++; }
  snprintf(text, 32, u && n < 10 ? "%.1f %s" : "%.0f %s", n, units[u]);
  return text;
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
    at += (size_t)snprintf(text, bytes, " (%s of %s in use)", size_text(s.in_use, size), size_text(s.limit, limit));
  }
  if (x->root) walk(&h, x, x->root);
  for (int32_t i = 0; i < x->plan->nvariables; i++) add_value(&h, x->plan->variable[i], &x->given[x->plan->nfeed + i]);
  for (int32_t i = 0; i < x->plan->nfeed; i++) add_value(&h, x->plan->feed[i].node, &x->given[i]);
  for (int32_t shown = 0; shown < 3 && shown < h.n && at < bytes; shown++) {
    int32_t most = shown;
    for (int32_t i = shown; i < h.n; i++) if (h.at[i].bytes > h.at[most].bytes) most = i;
    const holder o = h.at[most];
    h.at[most] = h.at[shown];
    const char *where = o.node->where && o.node->where[0] ? o.node->where : NULL;
    at += (size_t)snprintf(text + at, bytes - at, "%s`%s`%s%s, %s%s", shown ? "; " : "; the largest holders are ",
                           dfi_node_name((df_node *)o.node), where ? " at " : "", where ? where : "",
                           size_text(o.bytes, size), o.array ? " saved in an array" : "");
  }
  free(h.at); free(h.seen);
  return text;
}
