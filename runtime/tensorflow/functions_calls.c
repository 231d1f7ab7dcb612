/* functions_calls.c: what the functions of a library call, themselves or each other, what a node comes after, and
 * whether a run of it changes anything. */
#include "tensorflow/functions.h"

enum { DEEP = 300 };   /* calls in calls, of which there are fewer (functions.c) */

/* Does n call a function? Its number, or -1; `which` counts through the functions that one node may name. */
static int32_t callee(dfi_lower *l, const Pb__NodeDef *n, size_t which) {
  static const char *const keys[] = { "f", "then_branch", "else_branch", "cond", "body" };
  if (which == 0) return dfi_lower_find(l, n->op);
  if (which <= 5) {
    const Pb__AttrValue *a = dfi_attr_find(n, keys[which - 1]);
    Pb__NameAttrList *f =
        a && a->value_case == PB__ATTR_VALUE__VALUE_FUNC ? dfi_graphdef_function(l->d, a->func, l->err) : NULL;
    return f ? dfi_lower_find(l, f->name) : -1;
  }
  const Pb__AttrValue *a = dfi_attr_find(n, "branches");
  if (!a || a->value_case != PB__ATTR_VALUE__VALUE_LIST || !a->list || which - 6 >= a->list->n_func) return -2;
  Pb__NameAttrList *f = dfi_graphdef_function(l->d, a->list->func[which - 6], l->err);
  return f ? dfi_lower_find(l, f->name) : -1;
}

/* Which functions come to call themselves. */
void dfi_lower_recursion(dfi_lower *l) {
  const size_t n = l->nfunctions;
  int32_t *first = dfi_xcalloc(n + 1, sizeof *first), *to = NULL, *stack = dfi_xmalloc(sizeof *stack * (n + 1));
  int32_t edges = 0, cap = 0;
  for (size_t i = 0; i < n; i++) {
    const Pb__FunctionDef *f = l->function[i].def;
    first[i] = edges;
    for (size_t k = 0; k < f->n_node_def; k++)
      for (size_t which = 0, c; (int32_t)(c = (size_t)callee(l, f->node_def[k], which)) != -2; which++) {
        if ((int32_t)c < 0) continue;
        if (edges == cap) to = dfi_xrealloc(to, sizeof *to * (size_t)(cap = cap * 2 + 64));
        to[edges++] = (int32_t)c;
      }
  }
  first[n] = edges;
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < n; k++) l->function[k].state = 0;
    int32_t depth = 0;
    stack[depth++] = (int32_t)i;
    while (depth && !l->function[i].recursive) {
      int32_t at = stack[--depth];
      for (int32_t e = first[at]; e < first[at + 1]; e++) {
        if (to[e] == (int32_t)i) l->function[i].recursive = true;
        if (!l->function[to[e]].state) { l->function[to[e]].state = 1; stack[depth++] = to[e]; }
      }
    }
  }
  dfi_free(first); dfi_free(to); dfi_free(stack);
}

/* ---- nodes by name -------------------------------------------------------------------------------------------- */

dfi_names dfi_lower_names(Pb__NodeDef *const *node, size_t n) {
  dfi_names t = { .mask = 15 };
  while (t.mask < 2 * n) t.mask = t.mask * 2 + 1;
  t.at = dfi_xcalloc((size_t)t.mask + 1, sizeof *t.at);
  t.no = dfi_xcalloc((size_t)t.mask + 1, sizeof *t.no);
  for (size_t i = 0; i < n; i++) {
    uint32_t h = dfi_hash_name(node[i]->name, strlen(node[i]->name)) & t.mask;
    while (t.at[h]) h = (h + 1) & t.mask;
    t.at[h] = node[i];
  }
  return t;
}

void dfi_lower_names_free(dfi_names *t) { dfi_free(t->at); dfi_free(t->no); }

/* Its place; an empty one where there is no such node. */
static uint32_t place(const dfi_names *t, const char *name, size_t n) {
  uint32_t i = dfi_hash_name(name, n) & t->mask;
  while (t->at[i] && (strncmp(t->at[i]->name, name, n) || t->at[i]->name[n])) i = (i + 1) & t->mask;
  return i;
}

const Pb__NodeDef *dfi_lower_named(const dfi_names *t, const char *name, size_t n) { return t->at[place(t, name, n)]; }

/* ---- what a node comes after ---------------------------------------------------------------------------------- */

typedef bool question(dfi_lower *l, const Pb__NodeDef *n, int32_t depth);

/* Is the answer yes for the node that `input` names, or for one that it comes after? One question a table. */
static bool any_before(dfi_lower *l, const dfi_names *t, const char *input, question *is, int32_t depth) {
  uint32_t *found = dfi_xmalloc(sizeof *found * ((size_t)t->mask + 1)), n = 0;
  const uint32_t start = place(t, input, strcspn(input, ":"));
  bool yes = false;
  if (t->at[start] && !t->no[start]) { t->no[start] = true; found[n++] = start; }
  for (uint32_t i = 0; i < n && !yes; i++) {
    const Pb__NodeDef *at = t->at[found[i]];
    yes = is(l, at, depth);
    for (size_t k = 0; k < at->n_input && !yes; k++) {
      const char *name = at->input[k] + (at->input[k][0] == '^');
      const uint32_t p = place(t, name, strcspn(name, ":"));
      if (t->at[p] && !t->no[p]) { t->no[p] = true; found[n++] = p; }
    }
  }
  for (uint32_t i = 0; i < n && yes; i++) t->no[found[i]] = false;
  dfi_free(found);
  return yes;
}

static bool node_changes(dfi_lower *l, const Pb__NodeDef *n, int32_t depth);

/* Does a run of the function change something? What it must run says so. One that calls itself may. */
static bool function_changes(dfi_lower *l, int32_t function, int32_t depth) {
  enum { NOT_SEEN, NOTHING, SOMETHING };
  uint8_t *changes = &l->function[function].changes;
  const Pb__FunctionDef *f = l->function[function].def;
  if (l->function[function].recursive) return true;
  if (*changes != NOT_SEEN || depth > DEEP) return *changes == SOMETHING;
  *changes = NOTHING;
  dfi_names t = dfi_lower_names(f->node_def, f->n_node_def);
  for (size_t i = 0; i < f->n_control_ret && *changes == NOTHING; i++)
    if (any_before(l, &t, f->control_ret[i]->value, node_changes, depth)) *changes = SOMETHING;
  dfi_lower_names_free(&t);
  return *changes == SOMETHING;
}

static bool node_changes(dfi_lower *l, const Pb__NodeDef *n, int32_t depth) {
  const dfi_op_info *o = dfi_op_find(n->op);
  if (o && o->op->effect) return true;
  for (size_t which = 0;; which++) {
    const int32_t f = callee(l, n, which);
    if (f == -2) return false;
    if (f >= 0 && function_changes(l, f, depth + 1)) return true;
  }
}

bool dfi_lower_changes(dfi_lower *l, const Pb__NodeDef *n) { return node_changes(l, n, 0); }

static bool waits_or_changes(dfi_lower *l, const Pb__NodeDef *n, int32_t depth) {
  return (n->n_input && n->input[n->n_input - 1][0] == '^') || node_changes(l, n, depth);
}

void dfi_lower_after_given(dfi_lower *l, const dfi_names *t, const Pb__NodeDef *from, Pb__NodeDef *to,
                           const char *before) {
  if (strcmp(from->op, "While") && strcmp(from->op, "StatelessWhile") && strcmp(from->op, "For")) return;
  dfi_texts in = dfi_lower_inputs(l, from), own = dfi_texts_new(l, to->n_input);
  memcpy(own.at, to->input, sizeof *own.at * own.n);
  to->n_input = 0;                             /* anew, with room */
  to->input = NULL;
  dfi_lower_add(l, to, &own);
  for (size_t i = 0; i < in.n; i++) {
    const size_t n = strcspn(in.at[i], ":");
    if (any_before(l, t, in.at[i], waits_or_changes, 0))
      dfi_lower_input(l, to, dfi_lower_text(l, "^%s%.*s", before, (int)n, in.at[i]));
  }
}
