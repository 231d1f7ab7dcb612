/* fuzz_graphs.c: parts of a random graph that chance alone would hardly make: queues, stacks and references with the calls that fit
 * them, TensorFlow graphs whole and damaged, copies of the graph and loops unrolled.
 */
#include "fuzz.h"

fuzz_file fuzz_given[64];
int32_t   fuzz_ngiven;

/* ---- queues, stacks --------------------------------------------------------------------------------- */

void make_queue(world *w) {
  static const char *const types[] = { "FIFOQueueV2", "FIFOQueue", "PaddingFIFOQueueV2", "RandomShuffleQueueV2", "PriorityQueueV2", "Stack", "StackV2" };
  int32_t which = below(7);
  fuzz_queue q = { .ntypes = once_in(3) ? 2 : 1, .stack = which > 4 };
  int64_t shapes[6];
  int32_t nshapes = 0;
  for (int32_t i = 0; i < 3; i++) q.type[i] = once_in(2) ? DF_FLOAT32 : some_dtype();
  for (int32_t i = 0; i < q.ntypes; i++) {
    shapes[nshapes++] = once_in(2) ? 0 : 1;
    if (shapes[nshapes - 1]) shapes[nshapes++] = which == 2 && once_in(2) ? -1 : below(3);
  }
  int32_t size = -1;
  if (which == 6) {
    df_value v = { .kind = DF_SCALAR, .dtype = DF_INT32 };
    v.as.i32 = below(5) - 1;
    size = df_constant(w->graph, &v, NULL, NULL, &w->err);
  }
  df_node_begin(w->graph, df_op_find(types[which]), once_in(2) ? "fuzz.lua:6" : NULL);
  if (size >= 0) df_node_input(w->graph, size, 0);
  if (q.stack) {
    q.ntypes = 1;
    df_node_dtype(w->graph, "elem_type", (int32_t)q.type[0]);
  } else {
    df_node_ints(w->graph, "component_types", q.ntypes, q.type);
    if (once_in(2) || which == 4) df_node_ints(w->graph, "shapes", once_in(20) ? nshapes - 1 : nshapes, shapes);
    if (once_in(2)) df_node_int(w->graph, "capacity", once_in(10) ? some_int() : 1 + below(4));
    if (which == 3 && once_in(2)) df_node_int(w->graph, "min_after_dequeue", below(3));
    if (once_in(3)) df_node_string(w->graph, "shared_name", "q", 1);
  }
  q.node = df_node_end(w->graph, &w->err);
  if (q.node < 0) return;
  if (which == 4) {                                   /* the priority comes first */
    memmove(q.type + 1, q.type, sizeof *q.type * (size_t)q.ntypes);
    q.type[0] = DF_INT64;
    q.ntypes++;
  }
  w->queue[w->nqueues < SPECIAL ? w->nqueues++ : below(SPECIAL)] = q;
  know(w, q.node, 0);
}

/* An output of that dtype; mostly a constant of a shape that may fit. */
static void give(world *w, int64_t dtype, bool many, int32_t *pair) {
  for (int tries = 0; tries < 8; tries++) {
    some_output(w, pair);
    if (df_output_dtype(w->graph, pair[0], pair[1]) == dtype && once_in(3)) return;
  }
  int64_t dims[3] = { 1 + below(4), below(3), 1 };
  df_tensor *t = df_tensor_new((int32_t)dtype, (many ? 1 : 0) + below(2), dims, &w->err);
  if (!t) return;
  for (int64_t i = 0; i < df_tensor_size(t); i++) df_tensor_set_int(t, i, below(2));
  pair[0] = constant_of(w, t);
  pair[1] = 0;
}

void make_queue_call(world *w) {
  static const char *const queue_calls[] = { "QueueEnqueueV2", "QueueEnqueueV2", "QueueEnqueueV2", "QueueDequeueV2", "QueueDequeueV2",
                                             "QueueEnqueueManyV2", "QueueDequeueManyV2", "QueueDequeueUpToV2", "QueueCloseV2", "QueueSizeV2", "QueueIsClosedV2" };
  static const char *const stack_calls[] = { "StackPushV2", "StackPushV2", "StackPopV2", "StackPopV2", "StackCloseV2" };
  if (!w->nqueues) return;
  fuzz_queue q = w->queue[below(w->nqueues)];
  const char *type = q.stack ? stack_calls[below(5)] : queue_calls[below(11)];
  int32_t pairs[3][2], n = 0;
  bool puts = strstr(type, "Enqueue") != NULL || strstr(type, "Push") != NULL, many = strstr(type, "Many") != NULL || strstr(type, "UpTo") != NULL;
  if (puts) {
    for (int32_t i = 0; i < q.ntypes; i++) give(w, q.type[i], many, pairs[n++]);
  } else if (many) {
    df_value v = { .kind = DF_SCALAR, .dtype = DF_INT32 };
    v.as.i32 = once_in(10) ? (int32_t)some_int() : below(4);
    pairs[0][0] = df_constant(w->graph, &v, NULL, NULL, &w->err);
    pairs[0][1] = 0;
    n = 1;
  }
  df_node_begin(w->graph, df_op_find(type), "fuzz.lua:7");
  df_node_input(w->graph, q.node, 0);
  for (int32_t i = 0; i < n; i++) df_node_input(w->graph, pairs[i][0], pairs[i][1]);
  if (strstr(type, "Dequeue")) df_node_ints(w->graph, "component_types", q.ntypes, q.type);
  if (!strcmp(type, "StackPopV2")) df_node_dtype(w->graph, "elem_type", (int32_t)q.type[0]);
  if (strstr(type, "QueueClose") && once_in(2)) df_node_bool(w->graph, "cancel_pending_enqueues", true);
  if (once_in(30)) df_node_int(w->graph, "timeout_ms", some_int());
  int32_t node = df_node_end(w->graph, &w->err);
  know_all(w, node);
  if (node >= 0) know(w, node, df_node_outputs(w->graph, node) ? 0 : -1);
}

/* ---- reference variables ------------------------------------------------------------------------------ */

void make_reference(world *w) {
  static const char *const calls[] = { "Assign", "Assign", "AssignAdd", "AssignSub", "RefIdentity", "IsVariableInitialized", "CountUpTo", "Identity", "ScatterAdd", "RefSelect" };
  if (!w->nrefs || once_in(4)) {
    int64_t dims[] = { 2, 2 };
    df_node_begin(w->graph, df_op_find(once_in(2) ? "VariableV2" : "Variable"), "fuzz.lua:8");
    df_node_dtype(w->graph, "dtype", once_in(3) ? some_dtype() : once_in(2) ? DF_INT32 : DF_FLOAT32);
    df_node_shape(w->graph, "shape", once_in(10) ? -1 : below(2), dims);
    if (once_in(3)) df_node_string(w->graph, "shared_name", "v", 1);
    int32_t node = df_node_end(w->graph, &w->err), at = w->nrefs < SPECIAL ? w->nrefs : below(SPECIAL);
    if (node < 0) return;
    know(w, node, 0);
    w->ref[at][0] = node;
    w->ref[at][1] = 0;
    if (w->nrefs < SPECIAL) w->nrefs++;
    return;
  }
  const char *type = calls[below(10)];
  const int32_t *ref = w->ref[below(w->nrefs)];
  bool two = !strncmp(type, "Assign", 6), scatter = !strcmp(type, "ScatterAdd"), select = !strcmp(type, "RefSelect");
  int32_t zero = -1, value[2];
  if (scatter || select) {
    df_value v = { .kind = DF_SCALAR, .dtype = DF_INT32 };
    v.as.i32 = below(3) - (once_in(5) ? 1 : 0);
    zero = df_constant(w->graph, &v, NULL, NULL, &w->err);
  }
  if (two || scatter) give(w, df_output_dtype(w->graph, ref[0], ref[1]), false, value);
  df_node_begin(w->graph, df_op_find(type), "fuzz.lua:9");
  if (select) df_node_input(w->graph, zero, 0);
  df_node_input(w->graph, ref[0], ref[1]);
  if (scatter) df_node_input(w->graph, zero, 0);
  if (two || scatter) df_node_input(w->graph, value[0], value[1]);
  if (select) df_node_input(w->graph, ref[0], ref[1]);
  if (!strcmp(type, "CountUpTo")) df_node_int(w->graph, "limit", once_in(5) ? some_int() : 3);
  if (!strcmp(type, "Assign") && once_in(3)) df_node_bool(w->graph, "validate_shape", false);
  int32_t node = df_node_end(w->graph, &w->err);
  know_all(w, node);
  if (node >= 0 && (two || select || !strcmp(type, "RefIdentity")) && w->nrefs < SPECIAL) {
    w->ref[w->nrefs][0] = node;
    w->ref[w->nrefs++][1] = 0;
  }
}

/* ---- TensorFlow graphs ----------------------------------------------------------------------------------- */

#define CONST(NAME, VALUE) "node_def { name: '" NAME "' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } } attr { key: 'value' value { tensor " \
                           "{ dtype: DT_INT32 tensor_shape {} int_val: " VALUE " } } } }\n"
#define FUNC(NAME) "value { func { name: '" NAME "' } }"
#define SIGNATURE(NAME) "function { signature { name: '" NAME "' input_arg { name: 'n' type: DT_INT32 } output_arg { name: 'r' type: "

static const char library[] = "library {\n"
  SIGNATURE("Fib") "DT_INT32 } }\n" CONST("two", "2") "node_def { name: 'small' op: 'Less' input: 'n' input: 'two:output:0' }\n"
  "node_def { name: 'if' op: 'If' input: 'small:z:0' input: 'n' attr { key: 'then_branch' " FUNC("Base") " } attr { key: 'else_branch' " FUNC("Step") " } }\n"
  "ret { key: 'r' value: 'if:output:0' } }\n"
  SIGNATURE("Base") "DT_INT32 } } ret { key: 'r' value: 'n' } }\n"
  SIGNATURE("Step") "DT_INT32 } }\n" CONST("one", "1") CONST("two", "2")
  "node_def { name: 'a' op: 'Sub' input: 'n' input: 'one:output:0' } node_def { name: 'b' op: 'Sub' input: 'n' input: 'two:output:0' }\n"
  "node_def { name: 'fa' op: 'Fib' input: 'a:z:0' } node_def { name: 'fb' op: 'PartitionedCall' input: 'b:z:0' attr { key: 'f' " FUNC("Fib") " } }\n"
  "node_def { name: 'sum' op: 'Add' input: 'fa:r:0' input: 'fb:output:0' } ret { key: 'r' value: 'sum:z:0' } }\n"
  SIGNATURE("Down") "DT_INT32 } }\n" CONST("one", "1") "node_def { name: 'sub' op: 'Sub' input: 'n' input: 'one:output:0' } ret { key: 'r' value: 'sub:z:0' } }\n"
  SIGNATURE("Above") "DT_BOOL } }\n" CONST("zero", "0") "node_def { name: 'more' op: 'Greater' input: 'n' input: 'zero:output:0' } ret { key: 'r' value: 'more:z:0' } }\n"
  SIGNATURE("Forever") "DT_INT32 } } node_def { name: 'c' op: 'Forever' input: 'n' } ret { key: 'r' value: 'c:r:0' } }\n}\n";

typedef struct text { char at[12000]; int32_t n; } text;

static void add(text *t, const char *format, const char *name, const char *op, const char *input, const char *more) {
  t->n += snprintf(t->at + t->n, sizeof t->at - (size_t)t->n, format, name, op, input, more);
  if (t->n >= (int32_t)sizeof t->at) t->n = (int32_t)sizeof t->at - 1;
}

/* A small graph in text form: float nodes n0, n1, …, each on some before it, and calls of functions on ints i0, i1, …. */
static void write_graph(text *t) {
  static const char *const unary[] = { "Neg", "Tanh", "Identity", "Square", "Exp", "RefIdentity", "StopGradient" };
  static const char *const binary[] = { "Add", "AddV2", "Mul", "Sub", "Maximum", "RealDiv", "Less", "MatMul" };
  int32_t floats = 1 + below(8), ints = below(3) ? 0 : 1 + below(4);
  for (int32_t i = 0; i < floats; i++) {
    char name[16], inputs[96];
    snprintf(name, sizeof name, "n%d", i);
    if (i == 0 || once_in(6)) {
      add(t, "node { name: '%s' op: '%s' %s attr { key: 'dtype' value { type: DT_FLOAT } } %s }\n", name, once_in(4) ? "VariableV2" : "Placeholder", "",
          "attr { key: 'shape' value { shape { } } }");
      continue;
    }
    bool two = once_in(2);
    snprintf(inputs, sizeof inputs, two ? "input: 'n%d' input: 'n%d' " : "input: 'n%d' ", below(i + (once_in(30) ? 2 : 0)), below(i));
    if (once_in(8)) snprintf(inputs + strlen(inputs), 16, "input: '^n%d'", below(i));
    add(t, "node { name: '%s' op: '%s' %s attr { key: 'T' value { type: DT_FLOAT } } %s }\n", name, two ? binary[below(8)] : unary[below(7)], inputs, "");
  }
  for (int32_t i = 0; i < ints; i++) {
    static const char *const called[] = { "Fib", "Down", "Fib", "PartitionedCall", "While", "StatefulPartitionedCall", "Forever", "Base" };
    char name[16], inputs[32];
    snprintf(name, sizeof name, "i%d", i);
    snprintf(inputs, sizeof inputs, "input: 'i%d'", below(i));
    const char *op = called[below(once_in(5) ? 8 : 6)];
    if (!i) add(t, "node { name: '%s' op: '%s' attr { key: 'dtype' value { type: DT_INT32 } } %s %s }\n", name, "Placeholder", "attr { key: 'shape' value { shape {} } }", "");
    else add(t, "node { name: '%s' op: '%s' %s %s }\n", name, op, inputs,
             !strcmp(op, "While") ? "attr { key: 'cond' " FUNC("Above") " } attr { key: 'body' " FUNC("Down") " }"
                                  : strstr(op, "Call") ? "attr { key: 'f' " FUNC("Fib") " }" : "");
  }
  if (ints) add(t, "%s%s%s%s", library, "", "", "");
}

static int64_t damage(char *b, int64_t n, int64_t room) {
  for (int32_t times = 1 + below(4); times; times--) {
    int64_t at = below((int32_t)n + 1), length = 1 + below(once_in(4) ? 200 : 8);
    if (length > n - at) length = n - at;
    switch (below(5)) {
      case 0: if (at < n) b[at] = (char)below(256); break;
      case 1: if (at < n) b[at] ^= (char)(1 << below(8)); break;
      case 2: memmove(b + at, b + at + length, (size_t)(n - at - length)); n -= length; break;
      case 3:
        if (n + length > room) break;
        memmove(b + at + length, b + at, (size_t)(n - at));
        n += length;
        break;
      default: if (n > 20) memmove(b + below((int32_t)n - 9), b + below((int32_t)n - 9), (size_t)below(10)); break;
    }
  }
  return n;
}

void make_import(world *w) {
  static const char *const names[] = { "n0:0", "n1:0", "i0:0", "n0", "^n0", "^n1", "nothing:0", "n0:7", "", "Const:0", "x:0", "Placeholder:0" };
  static const char *const prefixes[] = { NULL, NULL, "p", "p", "a/b", "", "odd name", "/" };
  text t = { .n = 0 };
  int64_t n, room = sizeof t.at;
  char *bytes = t.at, *own = NULL;
  if (fuzz_ngiven && once_in(3)) {
    const fuzz_file *f = &fuzz_given[below(fuzz_ngiven)];
    room = f->n + 4000;
    bytes = own = malloc((size_t)room);
    memcpy(own, f->bytes, (size_t)(n = f->n));
  } else {
    write_graph(&t);
    for (int32_t i = 0; i < t.n; i++) if (t.at[i] == '\'') t.at[i] = '"';
    n = t.n;
  }
  if (once_in(3)) n = damage(bytes, n, room);
  const char *map_name[4];
  int32_t map_to[8], nmap = once_in(3) ? below(4) : 0, before = df_graph_nodes(w->graph);
  for (int32_t i = 0; i < nmap; i++) {
    map_name[i] = names[below(12)];
    some_output(w, map_to + 2 * i);
    if (*map_name[i] == '^' && !once_in(5)) map_to[2 * i + 1] = -1;
  }
  int32_t code = df_import_graph_def(w->graph, bytes, n, prefixes[below(8)], nmap, map_name, map_to, once_in(2) ? "fuzz.lua:10" : NULL, NULL, &w->err);
  free(own);
  int32_t after = df_graph_nodes(w->graph);
  promise(!code || after == before, "an import failed and left nodes behind");
  promise(!code || (w->err.code == code && *w->err.message), "an import failed without saying why");
  for (int32_t node = before; node < after; node++) {
    const char *type = df_node_type_of(w->graph, node);
    if (!strcmp(type, "Placeholder") && w->feeds < 16) {
      w->feed[w->feeds][0] = node;
      w->feed[w->feeds++][1] = 0;
    }
    if (after - before < 30 || once_in((after - before) / 20)) know_all(w, node);
  }
  if (after > before && once_in(2)) {
    int32_t y[2] = { after - 1 - below(3), 0 }, x[2] = { before + below(3), 0 }, out[6];
    if (!df_gradients(w->graph, 1, y, NULL, 1, x, 0, NULL, 1 + below(2), "fuzz.lua:11", out, &w->err) && out[0] >= 0) know(w, out[0], out[1]);
  }
}

/* ---- copies ------------------------------------------------------------------------------------------------ */

static void ask_about(world *w, df_graph *g) {
  int32_t pair[2], numbers[64], *nodes = malloc(sizeof *nodes * (size_t)(df_graph_nodes(g) + 1));
  some_output(w, pair);
  int32_t room = below(64), all = df_saved(g, pair[0], room, numbers);
  promise(all >= 0 && all % 6 == 0, "df_saved does not give rows of six");
  df_flow_describe(g, pair[0], room, numbers);
  df_output_needs_nothing(g, pair[0], pair[1]);
  df_flow_info flows[8];
  int32_t nodes_all = df_graph_nodes(g), *three = malloc(sizeof *three * 3 * (size_t)(nodes_all + 1)), found = df_flows(g, below(9), flows);
  promise(found >= 0, "df_flows counts less than none");
  df_flow_roles(g, three);
  for (int32_t i = 0; i < nodes_all; i++) {
    promise(three[3 * i] >= DF_ROLE_NONE && three[3 * i] <= DF_ROLE_DONE, "df_flow_roles gives a role that there is not");
    if (three[3 * i] == DF_ROLE_VARIABLE) df_loop_variable(g, three[3 * i + 1], three[3 * i + 2]);
  }
  promise(df_node_controls(g, pair[0], room, numbers) >= 0 && df_node_pass(g, pair[0]) >= 0 && df_node_device(g, pair[0]), "of a node nothing is known");
  if (df_plan_describe(g, 1, pair, 0, NULL, three, &w->err) < 0) promise(*w->err.message, "a plan cannot be made and nobody says why");
  free(three);
  int32_t n = df_graph_needs(g, 1, pair, nodes);
  promise(n <= df_graph_nodes(g), "df_graph_needs finds more nodes than there are");
  free(nodes);
}

void make_copy(world *w) {
  static const char *const save[] = { NULL, "keep", "swap", "recompute" };
  int32_t need[8], out[8], n = 1 + below(3);
  for (int32_t i = 0; i < 4; i++) some_output(w, need + 2 * i);
  ask_about(w, w->graph);
  if (once_in(3)) return;
  df_graph *copy = df_graph_copy(w->graph, once_in(2), n, need, &w->err);
  if (!copy) return;
  promise(df_graph_nodes(copy) == df_graph_nodes(w->graph), "a copy has not the nodes of the original");
  ask_about(w, copy);
  if (once_in(2)) df_graph_set_loops(copy, below(4), save[below(4)]);
  df_session *s = NULL;
  if (!df_graph_prepare(copy, &w->err)) {
    df_graph_record(copy, true);
    s = df_session_new(copy, "threads=1 timeout=0.1", &w->err);
    df_value results[4] = { 0 };
    if (s) df_session_run(s, n, need, 0, NULL, NULL, 0, results, &w->err);
    for (int32_t i = 0; i < n; i++) df_value_release(results + i);
    df_graph_record(copy, false);
  }
  if (!df_graph_unroll(copy, n, need, 1, need + 6, once_in(4) ? below(50) : 5000, out, &w->err)) {
    df_value results[4] = { 0 };
    if (!s) s = df_session_new(copy, "threads=1 timeout=0.1", &w->err);
    if (s) df_session_run(s, n, out, 0, NULL, NULL, 0, results, &w->err);
    for (int32_t i = 0; i < n; i++) df_value_release(results + i);
    df_node_origin(copy, out[0]);
    df_node_iteration(copy, out[0]);
  }
  df_session_release(s);
  df_graph_release(copy);
}
