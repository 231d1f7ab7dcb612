/* counter.c: a device that counts (counter/device.c), and exactly what runs ask of it. The device is a plug-in that
 * links to nothing and knows kernels/device.h; here programs run on it, and every allocation, copy, wait and launch is
 * one that can be derived from the program.
 */
#define _GNU_SOURCE
#include "spec/counter/counter.h"
#include "session/session.h"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static int passed, failed;
static void says(const char *claim, bool holds) {
  if (holds) passed++;
  else { failed++; printf("not true: %s\n", claim); }
}

static counted *counter;
/* It was asked so often since the last time. */
static void asked(const char *what, int64_t *count, int64_t times) {
  char claim[200];
  snprintf(claim, sizeof claim, "%s: %lld, and there were %lld", what, (long long)times, (long long)*count);
  says(claim, *count == times);
  *count = 0;
}
static void forget(void) { *counter = (counted){ .most_bytes = counter->most_bytes }; }

/* The plug-in lies in ../counter; opened here, it is found by its name when a session asks for gpu:0. */
static bool open_device(void) {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 40);
  if (n < 0) return false;
  path[n] = 0;
  char *slash = strrchr(path, '/');
  strcpy(slash, "/../counter/libdflow_cuda.so");
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) { printf("%s\n", dlerror()); return false; }
  counter = dlsym(lib, "counter");
  return counter != NULL;
}

/* ---- programs ------------------------------------------------------------------------------------------------- */

enum { N = 3000, TRIPS = 7 };
static df_error err;

static int32_t placeholder(df_graph *g, int32_t dtype, int32_t rank) {
  df_node_begin(g, df_op_find("Placeholder"), "counter.c:1");
  df_node_dtype(g, "dtype", dtype);
  df_node_shape(g, "shape", rank, (int64_t[]){ N });
  return df_node_end(g, &err);
}
static int32_t number_node(df_graph *g, int32_t n) {
  df_value v = { .kind = DF_SCALAR, .dtype = DF_INT32 };
  v.as.i32 = n;
  return df_constant(g, &v, NULL, "counter.c:2", NULL);
}
static int32_t node2(df_graph *g, const char *type, const int32_t *a, const int32_t *b) {
  return df_add_node(g, df_op_find(type), 2, (int32_t[]){ a[0], a[1], b[0], b[1] }, "counter.c:3", &err);
}

/* while i < n: i, x = i + 1, x * x, on gpu:0. exit: the pairs of i and x. */
static void loop(df_graph *g, int32_t trips, const int32_t x[2], const char *save, int32_t exit[4]) {
  int32_t init[4] = { number_node(g, 0), 0, x[0], x[1] }, var[4];
  const int32_t most[2] = { number_node(g, trips), 0 };
  df_while_begin(g, 2, init, 10, -1, true, save, "loop", "counter.c:4", var, &err);
  df_while_pred_end(g, node2(g, "Less", var, most), 0, var, &err);
  const int32_t one[2] = { number_node(g, 1), 0 };
  const int32_t i = node2(g, "Add", var, one);
  df_push_device(g, "gpu:0");
  const int32_t next[4] = { i, 0, node2(g, "Mul", var + 2, var + 2), 0 };
  df_pop_device(g);
  df_while_end(g, 2, next, exit, &err);
}

static df_value filled(float x) {
  df_value v = { .kind = DF_TENSOR, .dtype = DF_FLOAT32 };
  v.as.tensor = df_tensor_new(DF_FLOAT32, 1, (int64_t[]){ N }, &err);
  for (int32_t i = 0; i < N; i++) ((float *)v.as.tensor->data)[i] = x;
  return v;
}

/* Runs one fetch with one feed of N times x. Is every element of the result `expected`? */
static bool gives(df_session *s, const int32_t fetch[2], const int32_t feed[2], float x, float expected) {
  df_value in = filled(x), out = { 0 };
  const int32_t code = df_session_run(s, 1, fetch, 1, feed, &in, 0, &out, &err);
  df_value_release(&in);
  if (code) { printf("%s\n", err.message); return false; }
  bool all = out.kind == DF_TENSOR && out.as.tensor->size == N;
  for (int32_t i = 0; all && i < N; i++) all = ((const float *)out.as.tensor->data)[i] == expected;
  df_value_release(&out);
  return all;
}

/* ---- what is promised ------------------------------------------------------------------------------------------- */

static void straight_line(void) {
  df_graph *g = df_graph_new();
  df_session *s = df_session_new(g, "engine=tokens threads=1", &err);
  const int32_t x[2] = { placeholder(g, DF_FLOAT32, 1), 0 };
  df_push_device(g, "gpu:0");
  const int32_t square[2] = { node2(g, "Mul", x, x), 0 }, y[2] = { node2(g, "Add", square, x), 0 };
  df_pop_device(g);
  forget();
  says("a straight line is computed by the device", gives(s, y, x, 3, 12));
  asked("a feed that is read three times crosses once", &counter->copies_in, 1);
  asked("with its bytes", &counter->bytes_in, N * 4);
  asked("what is fetched comes back once", &counter->copies_out, 1);
  asked("with its bytes", &counter->bytes_out, N * 4);
  asked("each op is one launch", &counter->launches, 2);
  asked("the feed and each result have memory there", &counter->allocations, 3);
  asked("all of which is given back when the run is over", &counter->frees, 3);
  asked("the host waits for that alone", &counter->waits, 1);
  asked("nothing is copied within the device", &counter->copies_within, 0);
  asked("or cleared", &counter->fills, 0);
  says("a second run asks for the same", gives(s, y, x, 2, 6) && counter->copies_in == 1 && counter->copies_out == 1 &&
       counter->launches == 2 && counter->allocations == 3 && counter->frees == 3);
  df_session_release(s);
  df_graph_release(g);
}

static void a_loop(void) {
  df_graph *g = df_graph_new();
  df_session *s = df_session_new(g, "engine=tokens threads=1", &err);
  const int32_t x[2] = { placeholder(g, DF_FLOAT32, 1), 0 };
  int32_t exit[4];
  loop(g, TRIPS, x, "keep", exit);
  forget();
  says("a loop is computed by the device", gives(s, exit + 2, x, -1, 1));
  asked("each trip is one launch", &counter->launches, TRIPS);
  asked("and one allocation, and the value that enters", &counter->allocations, TRIPS + 1);
  asked("its variable enters the device once", &counter->copies_in, 1);
  asked("and leaves it once", &counter->copies_out, 1);
  asked("all memory is given back", &counter->frees, TRIPS + 1);
  df_session_release(s);
  df_graph_release(g);
}

/* Gradient of the loop, of a power 2^TRIPS: each trip saves its x. `moved`: to the host and back, as soon as may be. */
static void gradient(bool moved) {
  df_graph *g = df_graph_new();
  df_session *s = df_session_new(g, "engine=tokens threads=1", &err);
  const int32_t x[2] = { placeholder(g, DF_FLOAT32, 1), 0 };
  int32_t exit[4], dx[6];
  s->devices.swap_always = moved;
  loop(g, TRIPS, x, moved ? "swap" : "keep", exit);
  says("the gradient is built", !df_gradients(g, 1, exit + 2, (int32_t[]){ -1, 0 }, 1, x, 0, NULL, 0, "counter.c:5", dx,
                                              &err));
  forget();
  says("the gradient of a loop is computed by the device", gives(s, dx, x, 1, 1 << TRIPS));
  /* all but the one that entered, which the run has anyway, and the last, after which nothing is written */
  const int64_t away = moved ? TRIPS - 2 : 0;
  asked("a trip is a product, and on the way back a product (of two that are equal) and a sum", &counter->launches,
        3 * TRIPS);
  asked("what was moved out comes back, once, beside x and the ones that the gradient begins with", &counter->copies_in,
        2 + away);
  asked("what is moved is copied out, once, beside the result", &counter->copies_out, 1 + away);
  asked("the host waits for these copies and nothing else", &counter->waits, 1 + away);
  asked("memory is asked for by what crosses and what is launched", &counter->allocations, 2 + away + 3 * TRIPS);
  asked("and all given back", &counter->frees, 2 + away + 3 * TRIPS);
  df_session_release(s);
  df_graph_release(g);
}

static void out_of_memory(void) {
  df_graph *g = df_graph_new();
  df_session *s = df_session_new(g, "engine=tokens threads=1", &err);
  const int32_t x[2] = { placeholder(g, DF_FLOAT32, 1), 0 };
  int32_t exit[4];
  loop(g, TRIPS, x, "keep", exit);
  forget();
  counter->most_bytes = 3 * N * 4;
  df_value in = filled(1), out = { 0 };
  says("a device that has no more memory ends the run",
       df_session_run(s, 1, exit + 2, 1, x, &in, 0, &out, &err) == DF_RESOURCE_EXHAUSTED);
  says("with the device's name", strstr(err.message, "gpu:0") != NULL);
  asked("it was asked for what it had", &counter->allocations, 3);
  asked("and got it back", &counter->frees, 3);
  counter->most_bytes = 1 << 30;
  df_value_release(&in);
  says("and the next run has it all", gives(s, exit + 2, x, -1, 1));
  df_session_release(s);
  df_graph_release(g);
}

int main(void) {
  says("the device is loaded", open_device());
  if (counter) {
    straight_line();
    a_loop();
    gradient(false);
    gradient(true);
    out_of_memory();
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
