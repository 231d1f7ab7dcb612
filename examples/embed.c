/* A graph, a loop and its gradient from C: squares x while it is below 100, and differentiates the result by x.
 *   cc embed.c $(pkg-config --cflags --libs dflow) && ./a.out 3
 * Outputs are pairs {node, index}. A builder gives -1, or a df_code other than 0, when it has filled the error. */
#include <dflow.h>
#include <stdio.h>
#include <stdlib.h>

static df_error err;

static void check(int ok) {
  if (ok) return;
  fprintf(stderr, "%s: %s\n", df_code_name(err.code), err.message);
  exit(1);
}

static int32_t constant(df_graph *g, float f) {
  df_value v = {.kind = DF_SCALAR, .dtype = DF_FLOAT32, .as.f32 = f};
  int32_t node = df_constant(g, &v, NULL, NULL, &err);
  check(node >= 0);
  return node;
}

static int32_t binary(df_graph *g, const char *type, const int32_t *a, const int32_t *b) {
  int32_t node = df_add_node(g, df_op_find(type), 2, (int32_t[]){a[0], a[1], b[0], b[1]}, NULL, &err);
  check(node >= 0);
  return node;
}

int main(int argc, char **argv) {
  df_graph *g = df_graph_new();
  int32_t x[2] = {constant(g, argc > 1 ? strtof(argv[1], NULL) : 2), 0}, limit[2] = {constant(g, 100), 0};
  int32_t v[2], y[2], dx[6], nothing[2] = {-1, 0};
  check(df_while_begin(g, 1, x, 32, -1, true, "keep", "squares", NULL, v, &err) == DF_OK);
  check(df_while_pred_end(g, binary(g, "Less", v, limit), 0, v, &err) == DF_OK);
  check(df_while_end(g, 1, (int32_t[]){binary(g, "Mul", v, v), 0}, y, &err) == DF_OK);
  check(df_gradients(g, 1, y, nothing, 1, x, 0, NULL, 0, NULL, dx, &err) == DF_OK);

  df_session *s = df_session_new(g, NULL, &err);
  check(s != NULL);
  df_value out[2];
  check(df_session_run(s, 2, (int32_t[]){y[0], y[1], dx[0], dx[1]}, 0, NULL, NULL, 0, out, &err) == DF_OK);
  printf("y = %g, dy/dx = %g\n", out[0].as.f32, out[1].as.f32);
  df_session_release(s);
  df_graph_release(g);
  return 0;
}
