/* bench_c.c: what the library costs without Lua: building nodes, an empty run, a run that feeds a scalar, adds and
 * fetches. Prints the JSON lines of bench.lua.
 */
#include "dflow.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(const char *work, double value, const char *unit) {
  printf("{\"who\": \"dflow\", \"work\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", work, value, unit);
}

static void check(bool good, const df_error *err) {
  if (good) return;
  fprintf(stderr, "bench_c: %s\n", err->message);
  exit(1);
}

static int32_t op(const char *name) {
  int32_t found = df_op_find(name);
  if (found >= 0) return found;
  fprintf(stderr, "bench_c: no op %s\n", name);
  exit(1);
}

static int32_t placeholder(df_graph *g, df_error *err) {
  df_node_begin(g, op("Placeholder"), NULL);
  df_node_dtype(g, "dtype", DF_FLOAT32);
  df_node_shape(g, "shape", 0, NULL);
  int32_t node = df_node_end(g, err);
  check(node >= 0, err);
  return node;
}

static void bench_build(void) {
  enum { NODES = 1000000 };
  double least = 1e9;
  df_error err;
  for (int i = 0; i < 3; i++) {
    df_graph *g = df_graph_new();
    int32_t y[2] = { placeholder(g, &err), 0 }, sine = op("Sin");
    double t = now();
    for (int k = 0; k < NODES; k++) {
      y[0] = df_add_node(g, sine, 1, y, NULL, &err);
      check(y[0] >= 0, &err);
    }
    t = now() - t;
    if (t < least) least = t;
    df_graph_release(g);
  }
  report("build_c", NODES / least, "nodes/s");
}

static void bench_steps(void) {
  enum { STEPS = 200000 };
  df_error err;
  df_graph *g = df_graph_new();
  int32_t x[2] = { placeholder(g, &err), 0 };
  df_value one = { .kind = DF_SCALAR, .dtype = DF_FLOAT32 };
  one.as.f32 = 1;
  int32_t constant = df_constant(g, &one, NULL, NULL, &err);
  int32_t sum[2] = { df_add_node(g, op("Add"), 2, (int32_t[]){ x[0], 0, constant, 0 }, NULL, &err), 0 };
  check(sum[0] >= 0, &err);
  int32_t nop[2] = { df_add_node(g, op("NoOp"), 0, NULL, NULL, &err), -1 };
  check(nop[0] >= 0, &err);
  df_session *s = df_session_new(g, NULL, &err);
  check(s != NULL, &err);
  double empty = 1e9, feed = 1e9;
  for (int round = 0; round < 5; round++) {
    df_value result = { 0 };
    double t = now();
    for (int i = 0; i < STEPS; i++) check(!df_session_run(s, 1, nop, 0, NULL, NULL, 0, &result, &err), &err);
    double middle = now();
    for (int i = 0; i < STEPS; i++) {
      check(!df_session_run(s, 1, sum, 1, x, &one, 0, &result, &err), &err);
      df_value_release(&result);
    }
    double end = now();
    if (middle - t < empty) empty = middle - t;
    if (end - middle < feed) feed = end - middle;
  }
  report("null_step_c", empty / STEPS * 1e6, "us");
  report("feed_add_fetch_c", feed / STEPS * 1e6, "us");
  df_session_release(s);
  df_graph_release(g);
}

int main(void) {
  bench_build();
  bench_steps();
  return 0;
}
