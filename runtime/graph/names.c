/* names.c: interned texts, and the names of nodes.
 *
 * A node that was not given a name gets one only when it is asked for: its scope, its type, and a serial number
 * from the second on (`layer/MatMul`, `layer/MatMul_1`). The serial is the node's place among the unnamed nodes of
 * its type in its scope, so making a node costs one increment and no text. A name that is given is made unique with
 * _1, _2, … against given and automatic names alike. When a given name looks like an automatic one that is still to
 * come, the scope's names are made eagerly from then on and its count jumps ahead of it.
 */
#include "graph/graph.h"
#include "graph/undo.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- texts; all under names_lock ----------------------------------------------------------- */

static dfi_interned *lookup(const dfi_builder *b, const char *s, size_t n, uint32_t h, uint32_t *place) {
  uint32_t i = h & b->text_mask;
  for (; b->text[i]; i = (i + 1) & b->text_mask)
    if (b->text[i]->hash == h && !memcmp(b->text[i]->s, s, n) && !b->text[i]->s[n]) return b->text[i];
  *place = i;
  return NULL;
}

static dfi_interned *text_find(const dfi_builder *b, const char *s) {
  uint32_t place;
  size_t n = strlen(s);
  return lookup(b, s, n, dfi_hash_name(s, n), &place);
}

static dfi_interned *text_get(dfi_builder *b, const char *s) {
  uint32_t place;
  size_t n = strlen(s);
  uint32_t h = dfi_hash_name(s, n);
  dfi_interned *t = lookup(b, s, n, h, &place);
  if (t) return t;
  t = dfi_arena_take(&b->texts, sizeof *t + n + 1);
  *t = (dfi_interned){ .hash = h };
  memcpy(t->s, s, n + 1);
  b->text[place] = t;
  if (++b->ntext * 2 > b->text_mask) {
    uint32_t mask = b->text_mask * 2 + 1;
    dfi_interned **bigger = dfi_xcalloc((size_t)mask + 1, sizeof *bigger);
    for (uint32_t i = 0; i <= b->text_mask; i++)
      if (b->text[i]) {
        uint32_t at = b->text[i]->hash & mask;
        while (bigger[at]) at = (at + 1) & mask;
        bigger[at] = b->text[i];
      }
    dfi_free(b->text);
    b->text = bigger;
    b->text_mask = mask;
  }
  return t;
}

static dfi_scope *scope_get(dfi_builder *b, const char *s) {
  dfi_interned *t = text_get(b, s);
  if (!t->scope) {
    t->scope = dfi_arena_take(&b->texts, sizeof *t->scope);
    *t->scope = (dfi_scope){ .text = t->s };
  }
  return t->scope;
}

static int32_t *counts(dfi_builder *b, dfi_scope *s) {
  if (!s->count) {
    size_t bytes = sizeof(int32_t) * (size_t)df_op_count();
    s->count = dfi_arena_take(&b->texts, bytes);
    memset(s->count, 0, bytes);
  }
  return s->count;
}

void dfi_names_init(dfi_builder *b) {
  pthread_mutex_init(&b->names_lock, NULL);
  b->text_mask = 63;
  b->text = dfi_xcalloc(64, sizeof *b->text);
  DFI_GROW(b->scope, b->nscope, b->scope_cap);
  b->scope[b->nscope++] = scope_get(b, "");
  DFI_GROW(b->device, b->ndevice, b->device_cap);
  b->device[b->ndevice++] = b->last_where = b->scope[0]->text;
}

void dfi_names_free(dfi_builder *b) {
  dfi_free(b->text);
  dfi_arena_free(&b->texts);
  pthread_mutex_destroy(&b->names_lock);
}

const char *dfi_intern(df_graph *g, const char *s) {
  dfi_builder *b = g->build;
  pthread_mutex_lock(&b->names_lock);
  const char *r = text_get(b, s)->s;
  pthread_mutex_unlock(&b->names_lock);
  return r;
}

const char *dfi_where(df_graph *g, const char *where) {
  dfi_builder *b = g->build;
  if (!where) return b->device[0];                       /* "" */
  if (!strcmp(where, b->last_where)) return b->last_where;
  return b->last_where = dfi_intern(g, where);
}

/* ---- names; all under names_lock ----------------------------------------------------------- */

/* Is `name` what an unnamed node would be called? Then its scope, op and serial. */
static bool automatic(dfi_builder *b, const char *name, const dfi_op_info **op, int32_t *serial, size_t *prefix) {
  const char *slash = strrchr(name, '/'), *leaf = slash ? slash + 1 : name, *end = leaf + strlen(leaf), *digits = end;
  char type[64];
  while (digits > leaf && digits[-1] >= '0' && digits[-1] <= '9') digits--;
  int64_t n = 0;
  if (digits < end && digits - leaf > 1 && digits[-1] == '_' && *digits != '0' && end - digits < 10) {
    n = strtoll(digits, NULL, 10);
    end = digits - 1;
  }
  if (end - leaf >= (ptrdiff_t)sizeof type || end == leaf) return false;
  memcpy(type, leaf, (size_t)(end - leaf));
  type[end - leaf] = 0;
  if (!(*op = dfi_op_find(type))) return false;
  *serial = (int32_t)n;
  *prefix = (size_t)(leaf - name);
  return true;
}

static dfi_scope *scope_of_name(dfi_builder *b, const char *name, size_t prefix) {
  char few[256], *s = prefix < sizeof few ? few : dfi_xmalloc(prefix + 1);
  memcpy(s, name, prefix);
  s[prefix] = 0;
  dfi_scope *scope = scope_get(b, s);
  if (s != few) dfi_free(s);
  return scope;
}

static bool taken(dfi_builder *b, const char *name) {
  dfi_interned *t = text_find(b, name);
  if (t && (t->node || t->taken)) return true;
  const dfi_op_info *op;
  int32_t serial;
  size_t prefix;
  if (!automatic(b, name, &op, &serial, &prefix)) return false;
  dfi_scope *s = scope_of_name(b, name, prefix);
  return !s->eager && s->count && serial < s->count[op->id];
}

static const char *make_automatic(dfi_builder *b, df_node *n) {
  if (n->name) return n->name;
  const char *type = dfi_op_info_at(n->op)->op->type;
  size_t bytes = strlen(n->scope) + strlen(type) + 16;
  char few[256], *s = bytes <= sizeof few ? few : dfi_xmalloc(bytes);
  if (n->serial) snprintf(s, bytes, "%s%s_%d", n->scope, type, n->serial);
  else snprintf(s, bytes, "%s%s", n->scope, type);
  dfi_interned *t = text_get(b, s);
  while (t->node || t->taken) {        /* control_flow.c turned a node into one of another type */
    bytes += 12;
    s = s == few ? strcpy(dfi_xmalloc(bytes), few) : dfi_xrealloc(s, bytes);
    snprintf(s + strlen(t->s), 12, "_%u", ++t->next_suffix);
    t = text_get(b, s);
  }
  if (s != few) dfi_free(s);
  t->node = n;
  __atomic_store_n(&n->name, t->s, __ATOMIC_RELEASE);
  return t->s;
}

/* The automatic name of that number is a node's own: from now on the scope's names are made at once, and after it. */
static void skip_serial(df_graph *g, dfi_scope *s, int32_t op, int32_t serial) {
  bool fresh = !s->count;
  int32_t *count = counts(g->build, s);
  if (serial < count[op]) return;
  if (!s->eager) {
    for (int32_t i = 0; i < g->n && !fresh; i++)
      if (!g->node[i]->name && g->node[i]->scope == s->text) make_automatic(g->build, g->node[i]);
    s->eager = true;
  }
  count[op] = serial + 1;
}

/* A name that looks automatic but is ahead of the count. */
static void run_ahead(df_graph *g, const char *name) {
  dfi_builder *b = g->build;
  const dfi_op_info *op;
  int32_t serial;
  size_t prefix;
  if (automatic(b, name, &op, &serial, &prefix)) skip_serial(g, scope_of_name(b, name, prefix), op->id, serial);
}

/* scope + base, made unique; the text is not yet marked as taken. */
static dfi_interned *unique(df_graph *g, const char *scope, const char *base) {
  dfi_builder *b = g->build;
  size_t bytes = strlen(scope) + strlen(base) + 16, n = strlen(scope) + strlen(base);
  char few[256], *s = bytes <= sizeof few ? few : dfi_xmalloc(bytes);
  snprintf(s, bytes, "%s%s", scope, base);
  if (n && s[n - 1] == '/') s[--n] = 0;
  if (taken(b, s)) {
    dfi_interned *first = text_get(b, s);
    dfi_undo_text(b, first);
    do snprintf(s + n, bytes - n, "_%u", ++first->next_suffix);
    while (taken(b, s));
  }
  run_ahead(g, s);
  dfi_interned *t = text_get(b, s);
  if (s != few) dfi_free(s);
  return t;
}

/* ---- for the others ------------------------------------------------------------------------ */

bool dfi_name_bad(const char *name) {
  if (!*name) return true;
  for (; *name; name++)
    if ((uint8_t)*name <= ' ' || *name == ':' || *name == '^') return true;
  return false;
}

void dfi_names_add(df_graph *g, df_node *n, const char *name) {
  dfi_builder *b = g->build;
  dfi_scope *s = b->scope[b->nscope - 1];
  n->scope = s->text;
  if (name) {
    bool exact = name[strlen(name) - 1] == '/';
    pthread_mutex_lock(&b->names_lock);
    dfi_interned *t = unique(g, exact ? "" : s->text, name);
    t->node = n;
    n->name = t->s;
    n->serial = 0;
    pthread_mutex_unlock(&b->names_lock);
    return;
  }
  n->name = NULL;
  if (DFI_UNLIKELY(!s->count || s->eager)) {
    pthread_mutex_lock(&b->names_lock);
    n->serial = counts(b, s)[n->op]++;
    if (s->eager) make_automatic(b, n);
    pthread_mutex_unlock(&b->names_lock);
  } else {
    n->serial = s->count[n->op]++;
  }
}

bool dfi_names_claim(df_graph *g, df_node *n, const char *name) {
  dfi_builder *b = g->build;
  const dfi_op_info *op;
  int32_t serial;
  size_t prefix;
  pthread_mutex_lock(&b->names_lock);
  dfi_interned *t = text_get(b, name);
  bool is_free = !t->node && !t->taken;
  if (is_free && automatic(b, name, &op, &serial, &prefix)) {
    dfi_scope *s = scope_of_name(b, name, prefix);
    is_free = s->eager || !s->count || serial >= s->count[op->id];
    if (is_free) skip_serial(g, s, op->id, serial);
  }
  if (is_free) {
    t->node = n;
    n->name = t->s;
    n->scope = b->scope[0]->text;
    n->serial = 0;
  }
  pthread_mutex_unlock(&b->names_lock);
  return is_free;
}

void dfi_names_drop(df_graph *g, df_node *n) {
  dfi_builder *b = g->build;
  pthread_mutex_lock(&b->names_lock);
  dfi_interned *t = n->name ? text_find(b, n->name) : NULL;
  if (t && t->node == n) t->node = NULL;
  pthread_mutex_unlock(&b->names_lock);
}

/* Was this node named by counting, and is it the last that was? */
static bool last_counted(dfi_builder *b, const df_node *n, dfi_scope **scope) {
  dfi_interned *t = text_find(b, n->scope);
  dfi_scope *s = t ? t->scope : NULL;
  if (!s || !s->count || n->serial != s->count[n->op] - 1) return false;
  *scope = s;
  if (!n->name) return true;
  const dfi_op_info *op;
  int32_t serial;
  size_t prefix;
  return automatic(b, n->name, &op, &serial, &prefix) && op->id == n->op && serial == n->serial &&
         prefix == strlen(n->scope);
}

/* The number that made a given name unique, when it is the last that was given, is given again. */
static void take_back_suffix(dfi_builder *b, const char *name) {
  char base[256];
  const char *at = name ? strrchr(name, '_') : NULL;
  if (!at || (size_t)(at - name) >= sizeof base) return;
  snprintf(base, sizeof base, "%.*s", (int)(at - name), name);
  dfi_interned *first = text_find(b, base);
  if (first && first->next_suffix && strtoul(at + 1, NULL, 10) == first->next_suffix) first->next_suffix--;
}

void dfi_names_take_back(df_graph *g, df_node *n) {
  dfi_builder *b = g->build;
  dfi_scope *s;
  dfi_names_drop(g, n);
  pthread_mutex_lock(&b->names_lock);
  take_back_suffix(b, n->name);
  if (last_counted(b, n, &s)) s->count[n->op]--;
  pthread_mutex_unlock(&b->names_lock);
}

void dfi_names_undo(df_graph *g, int32_t first, int32_t nrenamed) {
  dfi_builder *b = g->build;
  dfi_scope *s;
  for (int32_t i = g->n - 1; i >= first; i--) dfi_names_drop(g, g->node[i]);
  pthread_mutex_lock(&b->names_lock);
  for (int32_t i = g->n - 1; i >= first; i--) if (last_counted(b, g->node[i], &s)) s->count[g->node[i]->op]--;
  while (b->nrenamed > nrenamed) {
    const struct dfi_undo_name *r = &b->renamed[--b->nrenamed];
    r->text->next_suffix = r->next_suffix;
    r->text->taken = r->taken;
  }
  pthread_mutex_unlock(&b->names_lock);
}

void dfi_names_take(df_graph *g, df_node *n, const char *name) {
  dfi_builder *b = g->build;
  pthread_mutex_lock(&b->names_lock);
  dfi_interned *t = text_get(b, name);
  dfi_undo_text(b, t);
  t->taken = true;
  if (n) { t->node = n; n->name = t->s; }
  pthread_mutex_unlock(&b->names_lock);
}

void dfi_names_restore(df_graph *g, df_node *n, const char *name) {
  dfi_builder *b = g->build;
  pthread_mutex_lock(&b->names_lock);
  if (name) {
    dfi_interned *t = text_get(b, name);
    t->taken = true;
    t->node = n;
    n->name = t->s;
  } else {
    int32_t *count = counts(b, scope_get(b, n->scope));
    if (count[n->op] <= n->serial) count[n->op] = n->serial + 1;
  }
  pthread_mutex_unlock(&b->names_lock);
}

const char *dfi_unique_name(df_graph *g, const char *base) {
  dfi_builder *b = g->build;
  pthread_mutex_lock(&b->names_lock);
  dfi_interned *t = unique(g, b->scope[b->nscope - 1]->text, base);
  dfi_undo_text(b, t);
  t->taken = true;
  pthread_mutex_unlock(&b->names_lock);
  return t->s;
}

const char *dfi_current_scope(const df_graph *g) {
  const dfi_builder *b = g->build;
  return b->scope[b->nscope - 1]->text;
}

const char *dfi_node_name(df_node *n) {
  const char *name = __atomic_load_n(&n->name, __ATOMIC_ACQUIRE);
  if (name) return name;
  dfi_builder *b = n->graph->build;
  pthread_mutex_lock(&b->names_lock);
  name = make_automatic(b, n);
  pthread_mutex_unlock(&b->names_lock);
  return name;
}

int32_t df_node_by_name(df_graph *g, const char *name) {
  dfi_builder *b = g->build;
  if (!name || !*name) return -1;
  int32_t id = -1;
  pthread_mutex_lock(&b->names_lock);
  dfi_interned *t = text_find(b, name);
  const dfi_op_info *op;
  int32_t serial;
  size_t prefix;
  if (t && t->node) {
    id = t->node->id;
  } else if (automatic(b, name, &op, &serial, &prefix)) {
    dfi_scope *s = scope_of_name(b, name, prefix);
    if (!s->eager && s->count && serial < s->count[op->id])
      for (int32_t i = 0; i < g->n && id < 0; i++) {
        df_node *n = g->node[i];
        if (!n->name && n->op == op->id && n->serial == serial && n->scope == s->text) {
          make_automatic(b, n);
          id = i;
        }
      }
  }
  pthread_mutex_unlock(&b->names_lock);
  return id;
}

void df_push_scope(df_graph *g, const char *name) {
  dfi_builder *b = g->build;
  DFI_GROW(b->scope, b->nscope, b->scope_cap);
  dfi_scope *s = b->scope[0];
  if (name && *name) {
    pthread_mutex_lock(&b->names_lock);
    if (name[strlen(name) - 1] == '/') {
      s = scope_get(b, name);
    } else {
      dfi_interned *t = unique(g, b->scope[b->nscope - 1]->text, name);
      dfi_undo_text(b, t);
      t->taken = true;
      char few[256];
      size_t bytes = strlen(t->s) + 2;
      char *full = bytes <= sizeof few ? few : dfi_xmalloc(bytes);
      snprintf(full, bytes, "%s/", t->s);
      s = scope_get(b, full);
      if (full != few) dfi_free(full);
    }
    pthread_mutex_unlock(&b->names_lock);
  }
  b->scope[b->nscope++] = s;
}
void df_pop_scope(df_graph *g) {
  dfi_builder *b = g->build;
  if (b->nscope > 1) b->nscope--;
}

void df_push_device(df_graph *g, const char *spec) {
  dfi_builder *b = g->build;
  DFI_GROW(b->device, b->ndevice, b->device_cap);
  b->device[b->ndevice++] = dfi_intern(g, spec ? spec : "");
}
void df_node_set_device(df_graph *g, int32_t node, const char *spec) {
  if (node >= 0 && node < g->n) g->node[node]->device = dfi_intern(g, spec ? spec : "");
}
void df_pop_device(df_graph *g) {
  dfi_builder *b = g->build;
  if (b->ndevice > 1) b->ndevice--;
}
