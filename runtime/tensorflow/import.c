/* import.c: a TensorFlow graph as nodes of ours.
 *
 * 1. names    every node's name once, every input's name one of them (or one of the input map), an op that is not known
 *             becomes one that says so when it has to run
 * 2. order    each node after its inputs, otherwise as the file has them. A loop's Merge does not wait for its
 *             NextIteration: its input from there is put in when all nodes are made. Any other cycle is an error.
 * 3. nodes    at the top level, through the same checks as any node, but that shapes which contradict each other are
 *             left to the run, as TensorFlow does
 * 4. shapes   a Merge's shape is first that of its Enter; where the body gives another, what follows is inferred
 *             again until nothing changes
 * 5. recover_flow.c  finds the conds and loops
 *
 * When anything fails the graph is as it was before.
 */
#include "tensorflow/import.h"
#include "tensorflow/functions.h"
#include <stdarg.h>
#include <stdio.h>

/* Where an input comes from: output `index` of node `item`, index -1 for a control; item -1 - k: entry k of the input
   map. */
typedef struct source { int32_t item, index; } source;

typedef struct item {
  const Pb__NodeDef *def;
  const dfi_op_info *op;
  df_node *node;
  uint32_t first;            /* its sources in importer.source: the data inputs, then the controls */
  int32_t  nin, ncontrol;
  dfi_unknown *unknown;      /* in the arena; NULL: dflow knows the op */
  uint8_t  state;            /* of the search: 0 not seen, 1 begun, 2 made */
} item;

typedef struct frame { const char *from, *to; } frame;

typedef struct importer {
  df_graph *graph;
  dfi_graphdef *def;
  const char *prefix;        /* "" or "p/" */
  int32_t   nmap;
  const char *const *map_name;
  const int32_t *map_to;
  bool     *map_used;
  const char *where;
  df_error *err;
  item     *item;
  int32_t   n;
  source   *source;
  uint32_t  nsource, source_cap;
  struct { uint32_t hash; int32_t item; } *table;   /* names, open addressing; item + 1, 0: empty */
  uint32_t  mask;
  dfi_arena arena;           /* attribute values until their node is made */
  frame    *frame;           /* open addressing by the file's name; at most half full */
  uint32_t  nframe, frame_mask;
  int32_t   first;           /* the graph's nodes before */
  int64_t   interrupts;      /* dfi_calls_interrupted when it began */
  df_tensor **variables;     /* what is asked of variables; or NULL */
  df_output *in; df_node **control; size_t in_cap, control_cap;
} importer;

static int32_t fail(importer *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int32_t fail(importer *m, const char *format, ...) {
  char text[900];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return dfi_fail(m->err, DF_INVALID_ARGUMENT, m->where, "%s", text);
}

/* ---- names ------------------------------------------------------------------------------------------ */

/* Where the name of that hash stands in the table, or the empty place where it belongs. */
static uint32_t place_of(const importer *m, uint32_t h, const char *s, size_t n) {
  uint32_t i = h & m->mask;
  for (; m->table[i].item; i = (i + 1) & m->mask) {
    if (m->table[i].hash != h) continue;
    const char *name = m->item[m->table[i].item - 1].def->name;
    if (!strncmp(name, s, n) && !name[n]) break;
  }
  return i;
}

static int32_t take_names(importer *m) {
  for (m->mask = 63; m->mask < 2 * (uint32_t)m->n; m->mask = m->mask * 2 + 1) ;
  m->table = dfi_xcalloc((size_t)m->mask + 1, sizeof *m->table);
  for (int32_t i = 0; i < m->n; i++) {
    const char *name = m->item[i].def->name;
    if (!*name) return fail(m, "node %d (%s) has no name", i, m->item[i].def->op);
    size_t length = strlen(name);
    uint32_t h = dfi_hash_name(name, length), at = place_of(m, h, name, length);
    int32_t other = m->table[at].item - 1;
    if (other >= 0)
      return fail(m, "two nodes are named `%s`: %d (%s) and %d (%s)", name, other, m->item[other].def->op, i,
                  m->item[i].def->op);
    m->table[at].hash = h;
    m->table[at].item = i + 1;
  }
  return DF_OK;
}

/* The entry of a node's op. Several handles in one tensor, as selected queues are, have ops of their own. */
static const dfi_op_info *entry_of(const Pb__NodeDef *def) {
  const char *own[][3] = { { "Pack", "T", "PackHandles" }, { "GatherV2", "Tparams", "GatherHandle" } };
  for (size_t i = 0; i < 2; i++)
    for (size_t a = 0; a < def->n_attr && !strcmp(def->op, own[i][0]); a++) {
      const Pb__AttrValue *v = def->attr[a]->value;
      if (!strcmp(def->attr[a]->key, own[i][1]) && v && v->value_case == PB__ATTR_VALUE__VALUE_TYPE &&
          (int32_t)v->type == DF_RESOURCE)
        return dfi_op_find(own[i][2]);
    }
  const dfi_op_info *o = dfi_op_find(def->op);
  /* the number of a function of this program means nothing in a file, and a graph may not call what it was not given */
  return o && o->traits & (DFO_HOST | DFO_OWN_GRADIENT) ? NULL : o;
}

/* The entry of each node's op; Unknown where there is none. */
static int32_t take_ops(importer *m) {
  for (int32_t i = 0; i < m->n; i++) {
    m->item[i].op = entry_of(m->item[i].def);
    if (m->item[i].op) continue;
    if (!*m->item[i].def->op) return fail(m, "node `%s` has no op", m->item[i].def->name);
    m->item[i].op = dfi_op_find("Unknown");
    m->item[i].unknown = dfi_arena_take(&m->arena, sizeof *m->item[i].unknown);
    *m->item[i].unknown = (dfi_unknown){ 0 };
  }
  return DF_OK;
}

/* Tells the unknown ones which nodes take their outputs, and as what. */
static void see_takers(importer *m) {
  for (int32_t i = 0; i < m->n; i++) {
    const item *it = &m->item[i];
    for (int32_t k = 0; k < it->nin + it->ncontrol; k++) {
      const source s = m->source[it->first + (uint32_t)k];
      if (s.item >= 0 && m->item[s.item].unknown)
        dfi_unknown_taken(m->item[s.item].unknown, &m->arena, it->op, it->def, it->nin, k, s.index);
    }
  }
}

/* ---- inputs ----------------------------------------------------------------------------------------- */

static int32_t map_find(const importer *m, const char *text, size_t name, int32_t index) {
  for (int32_t k = 0; k < m->nmap; k++) {
    const char *key = m->map_name[k];
    if (index < 0 ? *key != '^' || strncmp(key + 1, text, name) || key[1 + name]
                  : *key == '^' || strncmp(key, text, name))
      continue;
    if (index < 0 || (!key[name] && index == 0)) return k;
    char *end;
    if (key[name] == ':' && strtol(key + name + 1, &end, 10) == index && !*end && end > key + name + 1) return k;
  }
  return -1;
}

static int32_t take_input(importer *m, item *it, const char *text) {
  source s = { 0, 0 };
  bool control = *text == '^';
  const char *name = text + control, *colon = strrchr(name, ':');
  size_t n = strlen(name);
  if (control) s.index = -1;
  else if (colon && colon[1] >= '0' && colon[1] <= '9') {
    char *end;
    long index = strtol(colon + 1, &end, 10);
    if (*end || index > 1 << 20) return fail(m, "input `%s` of node `%s` names no output", text, it->def->name);
    s.index = (int32_t)index;
    n = (size_t)(colon - name);
  }
  if (!control && it->ncontrol)
    return fail(m, "node `%s` has the input `%s` after a control input; those come last", it->def->name, text);
  int32_t mapped = m->nmap ? map_find(m, name, n, s.index) : -1;
  if (mapped >= 0) {
    s.item = -1 - mapped;
    m->map_used[mapped] = true;
  } else {
    uint32_t at = place_of(m, dfi_hash_name(name, n), name, n);
    if (!m->table[at].item)
      return fail(m, "input `%s` of node `%s` (%s): there is no node `%.*s`", text, it->def->name, it->def->op, (int)n,
                  name);
    s.item = m->table[at].item - 1;
  }
  for (int32_t k = 0; control && k < it->ncontrol; k++)
    if (m->source[it->first + (uint32_t)(it->nin + k)].item == s.item)
      return fail(m, "node `%s` (%s) has the control input `%s` twice", it->def->name, it->def->op, text);
  if (m->nsource == m->source_cap) {
    m->source_cap = m->source_cap ? m->source_cap * 2 : 1024;
    m->source = dfi_xrealloc(m->source, sizeof *m->source * m->source_cap);
  }
  m->source[m->nsource++] = s;
  if (control) it->ncontrol++; else it->nin++;
  return DF_OK;
}

static int32_t take_inputs(importer *m) {
  for (int32_t i = 0; i < m->n; i++) {
    item *it = &m->item[i];
    it->first = m->nsource;
    for (size_t k = 0; k < it->def->n_input; k++) {
      int32_t code = take_input(m, it, it->def->input[k]);
      if (code) return code;
    }
  }
  for (int32_t k = 0; k < m->nmap; k++) {
    if (!m->map_used[k]) return fail(m, "input_map has `%s`, but no node of the graph has this input", m->map_name[k]);
    int32_t id = m->map_to[2 * k], index = m->map_to[2 * k + 1];
    bool control = *m->map_name[k] == '^';
    if (id < 0 || id >= m->first || (!control && (index < 0 || index >= m->graph->node[id]->nout)))
      return fail(m, "input_map gives no %s of this graph for `%s`", control ? "operation" : "output", m->map_name[k]);
    df_node *n = m->graph->node[id];
    if (n->context->kind != DFI_TOP)
      return fail(m,
                  "input_map gives `%s` for `%s`, which is inside a cond or loop; imported nodes are at the top level",
                  dfi_node_name(n), m->map_name[k]);
  }
  return DF_OK;
}

/* A variable that a loop changes through a reference is read in each iteration, although its value seems to be
 * captured: in TensorFlow an Identity of a reference is the variable's own memory. So what enters is the reference. */
static void enter_references(importer *m) {
  bool *changes = NULL;                        /* by item: a reference to it enters a loop */
  for (int32_t i = 0; i < m->n; i++) {
    if (strcmp(m->item[i].def->op, "RefEnter") || m->item[i].nin != 1) continue;
    const int32_t variable = m->source[m->item[i].first].item;
    if (!changes) changes = dfi_xcalloc((size_t)m->n + 1, sizeof *changes);
    if (variable >= 0) changes[variable] = true;
  }
  for (int32_t i = 0; changes && i < m->n; i++) {
    item *it = &m->item[i];
    const Pb__AttrValue *constant = dfi_attr_find(it->def, "is_constant");
    if (strcmp(it->def->op, "Enter") || it->nin != 1 || !constant || !constant->b || m->source[it->first].item < 0)
      continue;
    const item *by = &m->item[m->source[it->first].item];
    if (strcmp(by->def->op, "Identity") || by->nin != 1 || by->ncontrol) continue;
    const source read = m->source[by->first];
    if (read.item < 0 || !changes[read.item]) continue;
    it->op = dfi_op_find("RefEnter");
    m->source[it->first] = read;
  }
  dfi_free(changes);
}

/* ---- nodes ------------------------------------------------------------------------------------------- */

/* Does the loop's Merge receive this input from its own body? */
static bool comes_back(const importer *m, const item *it, source s) {
  return it->op->op->flow == DF_MERGE && s.item >= 0 && s.index >= 0 &&
         m->item[s.item].op->op->flow == DF_NEXT_ITERATION;
}

static df_output output_of(importer *m, const item *it, int32_t i) {
  source s = m->source[it->first + (uint32_t)i];
  if (s.item < 0) return (df_output){ m->graph->node[m->map_to[2 * (-1 - s.item)]], m->map_to[2 * (-1 - s.item) + 1] };
  df_node *n = m->item[s.item].node;
  if (s.index < n->nout) return (df_output){ n, s.index };
  fail(m, "input %d of node `%s` (%s) is `%s:%d`, but `%s` (%s) has %d output%s", i, it->def->name, it->def->op,
       m->item[s.item].def->name, s.index, m->item[s.item].def->name, m->item[s.item].def->op, n->nout,
       n->nout == 1 ? "" : "s");
  return DFI_NONE;
}

static bool passes_tokens(df_flow f) {
  return f == DF_SWITCH || f == DF_MERGE || f == DF_ENTER || f == DF_EXIT || f == DF_NEXT_ITERATION ||
         f == DF_LOOP_COND;
}

/* A reference that a primitive takes as a value is read first, by a node whose name the file does not have. */
static df_output read_reference(importer *m, const item *it, df_output o) {
  const dfi_op_info *identity = dfi_op_find("Identity");
  size_t before = strlen(m->prefix), bytes = before + strlen(it->def->name) + 32;
  char *name = dfi_xmalloc(bytes), *own = name + before;
  for (int32_t k = 0;; k++) {
    snprintf(name, bytes, k ? "%s%s/read_%d" : "%s%s/read", m->prefix, it->def->name, k);
    size_t n = strlen(own);
    if (!m->table[place_of(m, dfi_hash_name(own, n), own, n)].item && df_node_by_name(m->graph, name) < 0) break;
  }
  df_node *n = dfi_node_add(m->graph,
                            &(dfi_node_spec){ .op = identity->id,
                                              .nin = 1,
                                              .in = &o,
                                              .ncontrol = it->ncontrol,
                                              .control = m->control,
                                              .name = name,
                                              .where = m->where,
                                              .raw = true,
                                              .exact = true,
                                              .context = m->graph->top,
                                              .lenient = true },
                            m->err);
  dfi_free(name);
  return (df_output){ n, 0 };
}

/* Where the frame of that name stands, or the empty place where it belongs. */
static frame *frame_at(importer *m, const char *name) {
  uint32_t i = dfi_hash_name(name, strlen(name)) & m->frame_mask;
  while (m->frame[i].from && strcmp(m->frame[i].from, name)) i = (i + 1) & m->frame_mask;
  return &m->frame[i];
}

/* The frame's name in this graph: the file's unless it is taken here. */
static const char *frame_name(importer *m, const char *name) {
  if (2 * m->nframe >= m->frame_mask) {
    frame *old = m->frame;
    uint32_t places = old ? m->frame_mask + 1 : 0;
    m->frame_mask = old ? m->frame_mask * 2 + 1 : 15;
    m->frame = dfi_xcalloc((size_t)m->frame_mask + 1, sizeof *m->frame);
    for (uint32_t i = 0; i < places; i++) if (old[i].from) *frame_at(m, old[i].from) = old[i];
    dfi_free(old);
  }
  frame *f = frame_at(m, name);
  if (f->from) return f->to;
  size_t bytes = strlen(m->prefix) + strlen(name) + 1;
  char *full = dfi_xmalloc(bytes);
  snprintf(full, bytes, "%s%s", m->prefix, name);
  df_push_scope(m->graph, "");
  *f = (frame){ name, dfi_unique_name(m->graph, full) };      /* the file's text lives until the import ends */
  df_pop_scope(m->graph);
  dfi_free(full);
  m->nframe++;
  return f->to;
}

/* The node that `_class` wants this one to be with, as in "loc:@w": "@w", with the prefix that nodes get. False: none.
   */
static bool asked_beside(const Pb__NodeDef *def, const char *prefix, char *text, size_t bytes) {
  const Pb__AttrValue *v = dfi_attr_find(def, "_class");
  for (size_t i = 0; v && v->value_case == PB__ATTR_VALUE__VALUE_LIST && i < v->list->n_s; i++) {
    const ProtobufCBinaryData *s = &v->list->s[i];
    const char *name = (const char *)s->data + 5;
    const size_t n = s->len - 5;
    if (s->len <= 5 || memcmp(s->data, "loc:@", 5) || n + strlen(prefix) + 2 > bytes) continue;
    if (n == strlen(def->name) && !memcmp(name, def->name, n)) continue;      /* with itself */
    snprintf(text, bytes, "@%s%.*s", prefix, (int)n, name);
    return true;
  }
  return false;
}

/* m->in and m->control: what the item's inputs and control edges are in the graph. What comes back from a NextIteration
 * is what came in first, until the loop is closed. */
static int32_t node_inputs(importer *m, const item *it) {
  const dfi_op_info *o = it->op;
  if ((size_t)it->nin >= m->in_cap) m->in = dfi_xrealloc(m->in, sizeof *m->in * (m->in_cap = (size_t)it->nin * 2 + 16));
  if ((size_t)it->ncontrol >= m->control_cap)
    m->control = dfi_xrealloc(m->control, sizeof *m->control * (m->control_cap = (size_t)it->ncontrol * 2 + 16));
  for (int32_t i = 0; i < it->ncontrol; i++) {
    source s = m->source[it->first + (uint32_t)(it->nin + i)];
    m->control[i] = s.item < 0 ? m->graph->node[m->map_to[2 * (-1 - s.item)]] : m->item[s.item].node;
  }
  df_output entered = DFI_NONE;
  for (int32_t i = 0; i < it->nin; i++) {
    m->in[i] = DFI_NONE;
    if (comes_back(m, it, m->source[it->first + (uint32_t)i])) continue;
    m->in[i] = output_of(m, it, i);
    if (!m->in[i].node) return DF_INVALID_ARGUMENT;
    if (m->in[i].node->out[m->in[i].index].ref && passes_tokens(o->op->flow) && !o->in[i < o->nin ? i : 0].ref) {
      m->in[i] = read_reference(m, it, m->in[i]);
      if (!m->in[i].node) return m->err->code;
    }
    if (!entered.node) entered = m->in[i];
  }
  for (int32_t i = 0; i < it->nin; i++)
    if (!m->in[i].node) {
      if (!entered.node)
        return fail(m, "the Merge `%s` has no input but from NextIterations, so nothing ever begins", it->def->name);
      m->in[i] = entered;
    }
  return DF_OK;
}

/* The item's attributes, to be dropped also where they are wrong. */
static int32_t node_attrs(importer *m, const item *it, dfi_attrs *attrs) {
  const dfi_op_info *o = it->op;
  if (it->unknown) {
    attrs->given = 1;
    dfi_unknown_attrs(it->unknown, &m->arena, it->def, attrs->value);
    return DF_OK;
  }
  int32_t code = dfi_attrs_take(attrs, o, it->def, &m->arena, &m->def->unpack, m->err);
  if (!code) code = dfi_attrs_check(o, it->def, it->nin, m->in, m->err);
  if (!code && o->op->flow == DF_ENTER) {
    df_attr *name = &attrs->value[dfi_op_attr_index(o, "frame_name")];
    name->s = frame_name(m, name->s);
    name->i = (int64_t)strlen(name->s);
  }
  if (!code && o->op->flow == DF_FEED && m->def->graph->versions && m->def->graph->versions->producer < 24) {
    int32_t shape = dfi_op_attr_index(o, "shape");        /* TensorFlow wrote "not known" like a scalar then */
    if (shape >= 0 && attrs->value[shape].i == 0) attrs->value[shape].i = -1;
  }
  return code;
}

static int32_t add_node(importer *m, item *it, const dfi_attrs *attrs) {
  const size_t bytes = strlen(m->prefix) + strlen(it->def->name) + 1;
  char few[256], *name = !*m->prefix ? (char *)it->def->name : bytes <= sizeof few ? few : dfi_xmalloc(bytes);
  if (name != it->def->name) snprintf(name, bytes, "%s%s", m->prefix, it->def->name);
  it->node = dfi_node_add(m->graph, &(dfi_node_spec){
    .op = it->op->id, .nin = it->nin, .in = m->in, .ncontrol = it->ncontrol, .control = m->control,
    .attrs = attrs->given ? attrs->value : NULL, .name = name, .where = m->where, .raw = true, .exact = true,
    .lenient = true, .context = m->graph->top }, m->err);
  if (name != few && name != it->def->name) dfi_free(name);
  if (!it->node) return m->err->code;
  it->node->imported = true;
  if (*it->def->device) it->node->device = dfi_intern(m->graph, it->def->device);
  else if (asked_beside(it->def, m->prefix, few, sizeof few)) it->node->device = dfi_intern(m->graph, few);
  return DF_OK;
}

static int32_t make_node(importer *m, item *it) {
  dfi_attrs attrs;
  int32_t code = node_inputs(m, it);
  if (code) return code;
  code = node_attrs(m, it, &attrs);
  if (!code) code = add_node(m, it, &attrs);
  dfi_attrs_drop(&attrs, it->op);
  return code;
}

/* ---- order --------------------------------------------------------------------------------------------- */

typedef struct step { int32_t item; int32_t next; } step;

static int32_t fail_cycle(importer *m, const step *stack, int32_t depth, int32_t back) {
  char text[700];
  size_t at = 0;
  int32_t from = depth - 1;
  while (stack[from].item != back) from--;
  if (from == depth - 1)
    return fail(m, "node `%s` (%s) has its own output among its inputs", m->item[back].def->name,
                m->item[back].def->op);
  for (int32_t i = depth - 1; i >= from && at < sizeof text - 100; i--)
    at += (size_t)snprintf(text + at, sizeof text - at, "`%.60s` → ", m->item[stack[i].item].def->name);
  return fail(m, "nodes wait for each other in a cycle that has no NextIteration: %s`%.60s`", text,
              m->item[stack[depth - 1].item].def->name);
}


/* Makes the nodes, each after its inputs. */
static int32_t make_nodes(importer *m) {
  step *stack = dfi_xmalloc(sizeof *stack * ((size_t)m->n + 1));
  int32_t code = DF_OK;
  for (int32_t i = 0; i < m->n && !code; i++) {
    if (m->item[i].state) continue;
    int32_t depth = 0;
    stack[depth++] = (step){ i, 0 };
    m->item[i].state = 1;
    while (depth && !code) {
      step *top = &stack[depth - 1];
      item *it = &m->item[top->item];
      if (top->next < it->nin + it->ncontrol) {
        source s = m->source[it->first + (uint32_t)top->next++];
        if (s.item < 0 || m->item[s.item].state == 2 || comes_back(m, it, s)) continue;
        if (m->item[s.item].state == 1) { code = fail_cycle(m, stack, depth, s.item); break; }
        m->item[s.item].state = 1;
        stack[depth++] = (step){ s.item, 0 };
        continue;
      }
      if (dfi_import_interrupted(m->interrupts)) { code = dfi_import_cancelled(m->err); break; }
      code = make_node(m, it);
      it->state = 2;
      depth--;
    }
  }
  dfi_free(stack);
  return code;
}

/* Gives the Merges of loops what comes back. */
static int32_t close_loops(importer *m, int32_t *merges) {
  for (int32_t i = 0; i < m->n; i++) {
    item *it = &m->item[i];
    bool loop = false;
    for (int32_t k = 0; k < it->nin && it->op->op->flow == DF_MERGE; k++) {
      source s = m->source[it->first + (uint32_t)k];
      if (!comes_back(m, it, s)) continue;
      df_output back = output_of(m, it, k);
      if (!back.node) return DF_INVALID_ARGUMENT;
      if (dfi_dtype(back) != it->node->out[0].dtype)
        return fail(m, "the Merge `%s` is %s, but `%s` brings it %s", it->def->name,
                    df_dtype_name(it->node->out[0].dtype), m->item[s.item].def->name, df_dtype_name(dfi_dtype(back)));
      it->node->in[k] = back;
      loop = true;
    }
    *merges += loop;
  }
  return DF_OK;
}

/* ---- shapes ----------------------------------------------------------------------------------------------- */

static bool forget(df_node *n) {
  bool known = false;
  for (int32_t k = 0; k < n->nout; k++) {
    known |= n->out[k].shape.rank >= 0 || n->out[k].constant;
    n->out[k].shape.rank = -1;
    df_tensor_release(n->out[k].constant);
    n->out[k].constant = NULL;
  }
  return known;
}

/* What a Merge hands on may be what came back: infers again what follows the Merges, until nothing changes. Shapes only
 * become less known, so this ends; a shape function for which that is not so runs into the limit, after which shapes
 * are forgotten. */
static void settle_shapes(importer *m) {
  df_graph *g = m->graph;
  int32_t count = g->n - m->first, depth = 0, edges = 0;
  int32_t *first = dfi_xcalloc((size_t)count + 2, sizeof *first),
          *queue = dfi_xmalloc(sizeof *queue * ((size_t)count + 1));
  bool *waits = dfi_xcalloc((size_t)count + 1, sizeof *waits);
  for (int32_t i = 0; i < count; i++)
    for (int32_t k = 0; k < g->node[m->first + i]->nin; k++) {
      int32_t from = g->node[m->first + i]->in[k].node->id - m->first;
      if (from >= 0) { first[from + 1]++; edges++; }
    }
  for (int32_t i = 0; i < count; i++) first[i + 1] += first[i];
  int32_t *user = dfi_xmalloc(sizeof *user * ((size_t)edges + 1)), *at = dfi_xmalloc(sizeof *at * ((size_t)count + 1));
  memcpy(at, first, sizeof *at * (size_t)count);
  for (int32_t i = 0; i < count; i++)
    for (int32_t k = 0; k < g->node[m->first + i]->nin; k++) {
      int32_t from = g->node[m->first + i]->in[k].node->id - m->first;
      if (from >= 0) user[at[from]++] = i;
    }
  for (int32_t i = m->n - 1; i >= 0; i--)
    for (int32_t k = 0; k < m->item[i].nin; k++)
      if (comes_back(m, &m->item[i], m->source[m->item[i].first + (uint32_t)k]) &&
          !waits[m->item[i].node->id - m->first]) {
        queue[depth++] = m->item[i].node->id - m->first;
        waits[queue[depth - 1]] = true;
      }
  for (int64_t steps = 0, limit = 40 * (int64_t)count + 1000; depth; steps++) {
    int32_t i = queue[--depth];
    df_node *n = g->node[m->first + i];
    waits[i] = false;
    if (dfi_import_interrupted(m->interrupts)) break;
    if (dfi_op_info_at(n->op)->op->flow == DF_CONSTANT || !(steps < limit ? dfi_node_infer_again(n) : forget(n)))
      continue;
    for (int32_t e = first[i]; e < first[i + 1]; e++)
      if (!waits[user[e]]) { waits[user[e]] = true; queue[depth++] = user[e]; }
  }
  dfi_free(first); dfi_free(queue); dfi_free(waits); dfi_free(user); dfi_free(at);
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

static int32_t import(importer *m) {
  const Pb__GraphDef *def = m->def->graph;
  m->n = (int32_t)def->n_node;
  m->item = dfi_xcalloc(def->n_node + 1, sizeof *m->item);
  for (int32_t i = 0; i < m->n; i++) m->item[i].def = def->node[i];
  int32_t merges = 0, code = take_names(m);
  if (!code) code = take_ops(m);
  if (!code) code = take_inputs(m);
  if (!code) see_takers(m);
  if (!code) enter_references(m);
  if (!code) code = make_nodes(m);
  if (!code) code = close_loops(m, &merges);
  if (!code && merges) settle_shapes(m);
  if (!code && dfi_import_interrupted(m->interrupts)) code = dfi_import_cancelled(m->err);
  return code ? code : dfi_recover_flow(m->graph, m->first, m->err);
}

static int32_t lower_and_import(importer *m, dfi_graphdef *d) {
  const int32_t mark = df_graph_mark(m->graph);
  m->def = d;
  m->interrupts = atomic_load(&dfi_calls_interrupted);
  int32_t code = dfi_functions_lower(d, m->err);
  if (!code) code = import(m);
  if (!code && m->variables && !(*m->variables = dfi_import_variables(m->graph, m->first, d, m->prefix, m->err)))
    code = m->err->code;
  code = dfi_check_memory(code, m->err, m->where, "an import");
  if (!code) df_graph_keep(m->graph, mark);
  else if (df_graph_undo(m->graph, mark) > m->first) dfi_graph_cut(m->graph, m->first);
  dfi_arena_free(&m->arena);
  dfi_free(m->item); dfi_free(m->source); dfi_free(m->table); dfi_free(m->frame); dfi_free(m->in); dfi_free(m->control);
  return code;
}

int32_t dfi_import(df_graph *g, dfi_graphdef *d, const char *where, df_error *err) {
  return lower_and_import(&(importer){ .graph = g, .prefix = "", .where = where, .err = err, .first = g->n }, d);
}

int32_t df_import_graph_def(df_graph *g, const char *bytes, int64_t n, const char *prefix, int32_t nmap,
                            const char *const *map_name, const int32_t *map_to, const char *where,
                            df_tensor **variables, df_error *err) {
  df_error own;
  dfi_short = false;
  importer m = { .graph = g,
                 .nmap = nmap,
                 .map_name = map_name,
                 .map_to = map_to,
                 .where = dfi_where(g, where),
                 .err = err ? err : &own,
                 .first = g->n,
                 .variables = variables };
  m.err->code = DF_OK;
  dfi_graphdef *d = dfi_graphdef_read(bytes, n, m.err);
  size_t length = prefix ? strlen(prefix) : 0;
  char *full = dfi_xcalloc(length + 2, 1);
  if (length) {
    memcpy(full, prefix, length);
    if (full[length - 1] != '/') full[length] = '/';
  }
  m.prefix = full;
  m.map_used = dfi_xcalloc((size_t)nmap + 1, sizeof *m.map_used);
  if (d && dfi_check_memory(DF_OK, m.err, m.where, "an import")) { dfi_graphdef_free(d); d = NULL; }
  const int32_t code = d ? lower_and_import(&m, d) : m.err->code;
  if (code && !*m.err->source) snprintf(m.err->source, sizeof m.err->source, "%s", m.where);
  dfi_graphdef_free(d);
  dfi_free(full); dfi_free(m.map_used);
  return code;
}
