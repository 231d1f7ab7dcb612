/* saved.c: what gradients had to save of loops and conds, told afterwards.
 *
 * Whenever a pass needs a forward value in a backward loop or cond it notes with the forward loop (or, where there is
 * none around it, the outermost cond) how it came by the value and whose gradient asked first. df_saved reads the notes
 * of all that an output depends on.
 */
#include "gradient/gradient.h"

/* A note's key is (node, index * NOTES + how); its value the node that asked, or the node itself where none is known.
   */
enum { NOTES = 16 };

void dfi_saved_note(pass *p, region *r, df_output v, enum note_how how) {
  region *base = r;
  while (base->cond && base->parent && !base->loop) base = base->parent;
  df_cond *cond = NULL;
  if (!base->loop) for (base = r; base->cond; base = base->parent) cond = base->cond;
  if (base->loop || cond) dfi_saved_note_of(base->loop, cond, p->asks, v, how);  /* else a function's tape has it */
}

void dfi_saved_note_of(df_loop *l, df_cond *cond, df_node *asks, df_output v, enum note_how how) {
  struct dfi_map **notes = l ? &l->notes : &cond->notes;
  df_output key = { v.node, v.index * NOTES + (int32_t)how };
  if (dfi_map_get(*notes, key).node) return;
  if (!*notes) *notes = dfi_map_new();
  dfi_map_put(*notes, key, (df_output){ asks ? asks : v.node, 0 });
}

typedef struct table { int32_t *out, n, room; } table;

static void put(table *t, int32_t x) {
  if (t->n < t->room) t->out[t->n] = x;
  t->n++;
}

static void put_notes(table *t, const df_node *flow, int32_t policy, const struct dfi_map *notes) {
  for (int32_t i = 0; i < dfi_map_count(notes); i++) {
    df_output v, asks;
    dfi_map_at(notes, i, &v, &asks);
    put(t, flow->id);
    put(t, policy);
    put(t, v.index % NOTES);
    put(t, v.node->id);
    put(t, v.index / NOTES);
    put(t, asks.node->id);
  }
}

static void put_loop(table *t, const df_loop *l) {
  const df_node *exit = NULL;
  for (int32_t i = 0; i < l->n && !exit; i++) exit = l->var[i].exit;
  if (exit) put_notes(t, exit, !strcmp(l->save, "swap") ? 1 : !strcmp(l->save, "recompute") ? 2 :
                            !strcmp(l->save, "auto") ? 3 : 0, l->notes);
}

int32_t df_saved(df_graph *g, int32_t node, int32_t capacity, int32_t *out) {
  table t = { out, 0, capacity };
  if (node < 0 || node >= g->n) return 0;
  const flow *f = dfi_flow_of(g);
  uint8_t *seen = dfi_xcalloc((size_t)g->n, 1), *loop = dfi_xcalloc((size_t)f->nloop + 1, 1),
          *cond = dfi_xcalloc((size_t)f->ncond + 1, 1);
  int32_t *queue = dfi_xmalloc(sizeof *queue * (size_t)g->n), head = 0, tail = 0;
  queue[tail++] = node;
  seen[node] = 1;
  while (head < tail) {
    const df_node *n = g->node[queue[head++]];
    for (const df_context *c = n->context; c->kind != DFI_TOP; c = c->parent) {
      if (c->kind == DFI_CALLED) break;
      uint8_t *mark = c->kind == DFI_BRANCH ? &cond[c->cond->id] : &loop[c->loop->id];
      if (*mark) break;
      *mark = 1;
      if (c->kind != DFI_BRANCH && c->loop->replay) loop[c->loop->replay->id] = 1;
    }
    for (int32_t i = 0; i < n->nin + n->ncontrol; i++) {
      int32_t id = i < n->nin ? n->in[i].node->id : n->control[i - n->nin]->id;
      if (!seen[id]) { seen[id] = 1; queue[tail++] = id; }
    }
  }
  for (int32_t i = 0; i < f->nloop; i++) if (loop[i]) put_loop(&t, f->loop[i]);
  for (int32_t i = 0; i < f->ncond; i++)
    if (cond[i] && f->cond[i]->n && f->cond[i]->merge) put_notes(&t, f->cond[i]->merge[0], 0, f->cond[i]->notes);
  dfi_free(seen); dfi_free(loop); dfi_free(cond); dfi_free(queue);
  return t.n;
}
