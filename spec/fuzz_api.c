/* fuzz_api.c: random calls of the C API, right and wrong ones, to see that nothing but an error comes of it.
 *
 *   fuzz_api SECONDS [SEED [FILE...]]   rounds for that long; 0 seconds with a seed repeats that one round
 *
 * A round is a graph: nodes of random ops with random attributes on random inputs (some do not exist), conds and
 * while_loops around them, gradients, TensorFlow graphs (the files, too), copies; then runs with random feeds, several
 * at a time, that are paused, looked at and cancelled (fuzz_runs.c). Each round has a seed of its own, which is printed
 * when the round crashes or hangs. What comes out of a run is not judged here; that is
 * spec/engine/random_programs_spec.lua's business.
 */
#include "fuzz.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { HANG_SECONDS = 60, DEPTH = 3 };

/* ---- chance ---------------------------------------------------------------------------------------- */
_Thread_local uint64_t fuzz_state;
int64_t fuzz_calls, fuzz_runs;
static uint64_t round_seed;
static int64_t  good_nodes;

int32_t some_dtype(void) {
  static const int32_t all[] = { DF_FLOAT32, DF_FLOAT32, DF_FLOAT32, DF_FLOAT64,   DF_INT32,      DF_INT32,  DF_INT64,
                                 DF_BOOL,    DF_UINT8,   DF_INT8,    DF_FLOAT16,   DF_BFLOAT16,   DF_STRING, DF_INT16,
                                 DF_UINT16,  DF_UINT32,  DF_UINT64,  DF_COMPLEX64, DF_COMPLEX128, DF_QINT8,  DF_QUINT8,
                                 DF_QINT16,  DF_QUINT16, DF_QINT32,  DF_VARIANT };
  return once_in(60) ? below(40) - 5 : all[below((int32_t)(sizeof all / sizeof *all))];
}

int64_t some_int(void) {
  static const int64_t odd[] = { -1, 0, 1, 2, 3, 7, 100, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };
  return once_in(3) ? odd[below((int32_t)(sizeof odd / sizeof *odd))] : below(6) - 1;
}

static double some_float(void) {
  static const double odd[] = { 0.0, -0.0, 1e300, -1e-300, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, 0.5, -1.0, 2.0 };
  return odd[below((int32_t)(sizeof odd / sizeof *odd))];
}

int32_t some_shape(int64_t *dims) {
  int32_t rank = once_in(30) ? below(12) - 2 : below(4);
  for (int32_t i = 0; i < DF_MAX_RANK; i++) dims[i] = once_in(25) ? some_int() : below(4) + (once_in(9) ? 0 : 1);
  return rank;
}

/* ---- one round ------------------------------------------------------------------------------------- */
void know(world *w, int32_t node, int32_t index) {
  int32_t at = w->n < POOL ? w->n++ : below(POOL);
  w->out[at][0] = node;
  w->out[at][1] = index;
}

void know_all(world *w, int32_t node) {
  if (node < 0) return;
  good_nodes++;
  int32_t n = df_node_outputs(w->graph, node);
  for (int32_t i = 0; i < n && i < 4; i++) know(w, node, i);
}

/* An output, mostly one that exists and mostly a young one. */
void some_output(world *w, int32_t *pair) {
  if (w->n == 0 || once_in(80)) {
    pair[0] = below(df_graph_nodes(w->graph) + 3) - 1;
    pair[1] = below(5) - 1;
    return;
  }
  int32_t at = once_in(2) ? below(w->n) : w->n - 1 - below(w->n < 12 ? w->n : 12);
  pair[0] = w->out[at][0];
  pair[1] = w->out[at][1];
}

/* Numbers of a new tensor are whatever was there before; a bool must be one all the same. */
df_tensor *clean(df_tensor *t) {
  if (t && df_tensor_data(t))
    memset(df_tensor_data(t), 0, (size_t)(df_tensor_size(t) * df_dtype_bytes(df_tensor_dtype(t))));
  return t;
}

df_tensor *some_tensor(world *w) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = some_shape(dims);
  df_tensor *t = clean(df_tensor_new(some_dtype(), rank, dims, &w->err));
  if (!t) return NULL;
  int64_t n = df_tensor_size(t);
  for (int64_t i = 0; i < n && i < 4096; i++) {
    if (df_tensor_dtype(t) == DF_STRING) df_tensor_set_string(t, i, "word\0x", below(6), &w->err);
    else if (once_in(20)) df_tensor_set(t, i, some_float());
    else if (once_in(20)) df_tensor_set_complex(t, i, some_float(), some_float());
    else df_tensor_set_int(t, i, below(5) - 1);
  }
  if (once_in(6)) {
    df_tensor *other = once_in(2) ? df_tensor_cast(t, some_dtype(), &w->err)
                                  : df_tensor_reshape(t, some_shape(dims), dims, &w->err);
    if (other) {
      df_tensor_release(t);
      t = other;
    }
  }
  return t;
}

int32_t constant_of(world *w, df_tensor *t) {
  df_value v = { .kind = DF_TENSOR, .dtype = (uint8_t)df_tensor_dtype(t) };
  v.as.tensor = t;
  int32_t node = df_constant(w->graph, &v, NULL, NULL, &w->err);
  df_tensor_release(t);
  return node;
}

static void make_constant(world *w) {
  df_value v = { 0 };
  df_tensor *t = NULL;
  if (once_in(2)) {
    v = (df_value){ .kind = DF_SCALAR, .dtype = once_in(2) ? DF_FLOAT32 : DF_INT32 };
    if (v.dtype == DF_FLOAT32) v.as.f32 = (float)(below(7) - 3) / 2;
    else v.as.i32 = below(5);
  } else {
    t = some_tensor(w);
    if (!t) return;
    v = (df_value){ .kind = DF_TENSOR, .dtype = (uint8_t)df_tensor_dtype(t) };
    v.as.tensor = t;
  }
  know_all(w, df_constant(w->graph, &v, once_in(3) ? "c" : NULL, once_in(3) ? "fuzz.lua:1" : NULL, &w->err));
  df_tensor_release(t);
}

static void make_placeholder(world *w) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = some_shape(dims);
  df_node_begin(w->graph, df_op_find("Placeholder"), NULL);
  df_node_dtype(w->graph, "dtype", some_dtype());
  df_node_shape(w->graph, "shape", rank, dims);
  int32_t node = df_node_end(w->graph, &w->err);
  know_all(w, node);
  if (node >= 0 && w->feeds < 16) {
    w->feed[w->feeds][0] = node;
    w->feed[w->feeds++][1] = 0;
  }
}

/* Gives the open node a value for each attribute its entry names, mostly of the right type. */
static void set_attributes(world *w, int32_t op) {
  const char *text = df_op_attrs(op);
  int64_t dims[DF_MAX_RANK];
  while (text && *text) {
    char name[64], type[16];
    int used = 0;
    if (sscanf(text, " %63[^: ]:%15[a-z]%n", name, type, &used) < 2 || used == 0) return;
    text += used;
    bool optional = *text == '=';
    while (*text && *text != ' ') text++;
    if (optional && !once_in(4)) continue;
    if (once_in(40)) strcpy(type, once_in(2) ? "int" : "shape");
    if (!strcmp(type, "int")) df_node_int(w->graph, name, some_int());
    else if (!strcmp(type, "float")) df_node_float(w->graph, name, some_float());
    else if (!strcmp(type, "bool")) df_node_bool(w->graph, name, once_in(2));
    else if (!strcmp(type, "string")) df_node_string(w->graph, name, "abc", below(4));
    else if (!strcmp(type, "dtype")) df_node_dtype(w->graph, name, some_dtype());
    else if (!strcmp(type, "shape")) df_node_shape(w->graph, name, some_shape(dims), dims);
    else if (!strcmp(type, "ints")) {
      int32_t n = below(4);
      for (int32_t i = 0; i < n; i++) dims[i] = some_int();
      df_node_ints(w->graph, name, n, dims);
    } else if (!strcmp(type, "types")) {
      int32_t n = below(4);
      for (int32_t i = 0; i < n; i++) dims[i] = some_dtype();
      df_node_ints(w->graph, name, n, dims);
    } else if (!strcmp(type, "shapes")) {
      int32_t n = 0;
      for (int32_t k = below(3); k > 0; k--) {
        dims[n++] = below(3) - 1;
        if (dims[n - 1] > 0) dims[n++] = below(4);
      }
      df_node_ints(w->graph, name, n, dims);
    } else if (!strcmp(type, "tensor")) {
      df_tensor *t = some_tensor(w);
      if (t) df_node_tensor(w->graph, name, t);
      df_tensor_release(t);
    }
  }
}

/* Inputs in the entry: words, a list may be any number of them. */
static int32_t input_count(int32_t op) {
  int32_t n = 0;
  for (const char *p = df_op_inputs(op); p && *p; p++)
    if (*p == ':') n++;
    else if (*p == '*') n += below(3);
  return once_in(40) ? n + below(3) - 1 : n;
}

static bool skipped(int32_t op) {
  const char *type = df_op_type(op);
  return !strcmp(type, "Print") || !strcmp(type, "Placeholder");   /* the one is noise, the other has its own maker */
}

static void make_node(world *w) {
  int32_t op = once_in(200) ? below(df_op_count() + 4) - 2 : below(df_op_count());
  int32_t pair[2];
  if (op >= 0 && op < df_op_count() && skipped(op)) return;
  df_node_begin(w->graph, op, once_in(2) ? "fuzz.lua:2" : NULL);
  int32_t n = op >= 0 && op < df_op_count() ? input_count(op) : below(3);
  for (int32_t i = 0; i < n; i++) {
    some_output(w, pair);
    df_node_input(w->graph, pair[0], pair[1]);
  }
  if (once_in(20)) df_node_control(w->graph, below(df_graph_nodes(w->graph) + 2) - 1);
  if (once_in(20)) df_node_name(w->graph, once_in(2) ? "same" : "odd name/:^");
  if (op >= 0 && op < df_op_count()) set_attributes(w, op);
  if (once_in(100)) df_node_int(w->graph, "no_such_attribute", 1);
  know_all(w, df_node_end(w->graph, &w->err));
}

/* The ops that programs are made of, more often than chance would have them. */
static void make_common_node(world *w) {
  static const char *const unary[] = { "Neg", "Tanh", "Identity", "Sin", "Exp", "Square", "ReadVariableOp", "Abs" };
  static const char *const binary[] = { "Add", "Sub", "Mul", "Less", "Maximum", "MatMul", "AssignVariableOp", "Equal" };
  int32_t pairs[4];
  bool two = once_in(2);
  some_output(w, pairs);
  some_output(w, pairs + 2);
  int32_t op = df_op_find(two ? binary[below(8)] : unary[below(8)]);
  if (op >= 0) know_all(w, df_add_node(w->graph, op, two ? 2 : 1, pairs, NULL, &w->err));
}

static void act(world *w, int32_t depth);

static int32_t some_bool(world *w) {
  int32_t pair[2];
  for (int tries = 0; tries < 20; tries++) {
    some_output(w, pair);
    if (pair[0] >= 0 && pair[1] >= 0 && pair[0] < df_graph_nodes(w->graph) &&
        pair[1] < df_node_outputs(w->graph, pair[0]) && df_output_dtype(w->graph, pair[0], pair[1]) == DF_BOOL &&
        df_output_rank(w->graph, pair[0], pair[1]) == 0)
      return pair[0];
  }
  df_value v = { .kind = DF_SCALAR, .dtype = DF_BOOL };
  v.as.b = once_in(2);
  return df_constant(w->graph, &v, NULL, NULL, &w->err);
}

static void make_cond(world *w, int32_t depth) {
  int32_t before = df_flow_depth(w->graph), n = below(3), results[8], out[8];
  int32_t pred = some_bool(w);
  if (df_cond_begin(w->graph, pred, once_in(40) ? 1 : 0, NULL, "fuzz.lua:3", &w->err)) return;
  for (int branch = 0; branch < 2; branch++) {
    for (int32_t i = below(6); i > 0; i--) act(w, depth + 1);
    for (int32_t i = 0; i < n; i++) some_output(w, results + 2 * i);
    if (once_in(3) && n > 0) memcpy(results, w->out[0], sizeof w->out[0]);
    if (df_cond_branch_end(w->graph, n, results, &w->err)) {
      df_flow_abort(w->graph, before);
      return;
    }
  }
  if (df_cond_end(w->graph, out, &w->err) < 0) {
    df_flow_abort(w->graph, before);
    return;
  }
  for (int32_t i = 0; i < n; i++) know(w, out[2 * i], out[2 * i + 1]);
}

static void make_while(world *w, int32_t depth) {
  static const char *const save[] = { "keep", "keep", "swap", "recompute", "nonsense" };
  int32_t before = df_flow_depth(w->graph), n = 1 + below(3), init[8], vars[8], results[8], exits[8];
  for (int32_t i = 0; i < n; i++) some_output(w, init + 2 * i);
  if (df_while_begin(w->graph, n, init, once_in(20) ? some_int() : 1 + below(33), once_in(30) ? -1 : below(5),
                     !once_in(5), save[below(once_in(30) ? 5 : 4)], once_in(4) ? "loop" : NULL, "fuzz.lua:4", vars,
                     &w->err))
    return;
  for (int32_t i = 0; i < n; i++) know(w, vars[2 * i], vars[2 * i + 1]);
  for (int32_t i = below(3); i > 0; i--) act(w, depth + 1);
  if (df_while_pred_end(w->graph, some_bool(w), 0, vars, &w->err)) {
    df_flow_abort(w->graph, before);
    return;
  }
  for (int32_t i = 0; i < n; i++) know(w, vars[2 * i], vars[2 * i + 1]);
  for (int32_t i = below(8); i > 0; i--) act(w, depth + 1);
  for (int32_t i = 0; i < n; i++) {
    if (once_in(2)) some_output(w, results + 2 * i);
    else memcpy(results + 2 * i, vars + 2 * i, 2 * sizeof *vars);
  }
  if (once_in(30) || df_while_end(w->graph, n, results, exits, &w->err)) {
    df_flow_abort(w->graph, before);
    return;
  }
  for (int32_t i = 0; i < n; i++) know(w, exits[2 * i], exits[2 * i + 1]);
}

static void make_gradients(world *w) {
  int32_t ys[4], xs[8], stops[2], out[24], ny = 1 + below(2), nx = 1 + below(3);
  for (int32_t i = 0; i < ny; i++) some_output(w, ys + 2 * i);
  for (int32_t i = 0; i < nx; i++) some_output(w, xs + 2 * i);
  some_output(w, stops);
  if (df_gradients(w->graph, ny, ys, NULL, nx, xs, once_in(8), stops, once_in(5) ? 0 : 1 + below(2), "fuzz.lua:5", out,
                   &w->err))
    return;
  for (int32_t i = 0; i < nx; i++)
    if (out[6 * i] >= 0) know(w, out[6 * i], out[6 * i + 1]);
}

static void act(world *w, int32_t depth) {
  fuzz_calls++;
  switch (below(32)) {
    case 0: case 1: case 2: make_constant(w); break;
    case 3: make_placeholder(w); break;
    case 4: if (depth < DEPTH) make_cond(w, depth); break;
    case 5: if (depth < DEPTH) make_while(w, depth); break;
    case 6: make_gradients(w); break;
    case 7:
      df_push_scope(w->graph, once_in(2) ? "scope" : "");
      make_node(w);
      df_pop_scope(w->graph);
      break;
    case 8: {
      int32_t control = below(df_graph_nodes(w->graph) + 2) - 1;
      df_push_control(w->graph, 1, &control);
      make_node(w);
      df_pop_control(w->graph);
      break;
    }
    case 9: case 10: case 11: case 12: case 13: make_common_node(w); break;
    case 14: make_queue(w); break;
    case 15: case 16: make_queue_call(w); break;
    case 17: case 18: make_reference(w); break;
    case 19: if (once_in(2)) make_import(w); break;
    case 20: if (once_in(4)) make_copy(w); break;
    default: make_node(w); break;
  }
}

static void play(uint64_t seed) {
  static const char *const options[] = {
    NULL, "threads=1", "threads=2", "kernels=ref", "threads=3 timeout=0.2", "bad=1"
  };
  round_seed = fuzz_state = seed;
  for (int i = 0; i < 4; i++) draw();
  alarm(HANG_SECONDS);
  world w = { .graph = df_graph_new() };
  df_graph_set_seed(w.graph, (int64_t)seed);
  for (int i = 0; i < 4; i++) make_constant(&w);
  df_session *s = NULL;
  for (int32_t i = 20 + below(200); i > 0; i--) {
    act(&w, 0);
    if (df_flow_depth(w.graph) != 0) abort();
    if (once_in(25)) {
      if (!s) s = df_session_new(w.graph, options[below(6)], &w.err);
      if (s) run_some(&w, &s);
    }
  }
  if (!s) s = df_session_new(w.graph, NULL, &w.err);
  for (int i = 0; s && i < 6; i++) run_some(&w, &s);
  if (once_in(2)) {
    df_graph_release(w.graph);
    df_session_release(s);
  } else {
    df_session_release(s);
    df_graph_release(w.graph);
  }
  alarm(0);
}

/* ---- telling which round it was ---------------------------------------------------------------------- */
static void tell(void) {
  char text[96];
  int n = snprintf(text, sizeof text, "\nfuzz_api: in the round with seed %llu\n", (unsigned long long)round_seed);
  if (write(2, text, (size_t)n) < 0) return;
}

static void on_signal(int number) {
  tell();
  signal(number, SIG_DFL);
  raise(number);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 60;
  uint64_t seed = argc > 2 && argv[2][0] ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL) * 1000003;
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(tell);
  else signal(SIGSEGV, on_signal);
  signal(SIGABRT, on_signal);
  signal(SIGALRM, on_signal);
  for (int i = 3; i < argc && fuzz_ngiven < 64; i++) {
    df_error err;
    df_tensor *t = df_read_file(argv[i], &err);
    if (!t) continue;
    fuzz_file *f = &fuzz_given[fuzz_ngiven++];
    f->n = df_tensor_size(t);
    f->bytes = malloc((size_t)f->n + 1);
    memcpy(f->bytes, df_tensor_data(t), (size_t)f->n);
    df_tensor_release(t);
  }
  df_memory_set_limit(256 << 20);
  time_t end = time(NULL) + (time_t)seconds;
  int64_t rounds = 0;
  printf("fuzz_api: from seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  do {
    play(seed + (uint64_t)rounds++ * 7919);
  } while (time(NULL) < end);
  printf("%lld rounds, %lld calls, %lld nodes, %lld runs that succeeded: no crash\n", (long long)rounds,
         (long long)fuzz_calls, (long long)good_nodes, (long long)fuzz_runs);
  return 0;
}
