/* binding_check.c: copies of graphs, unrolled graphs, as dflow.h has them: what df.check_gradients is made of. */
#include "binding.h"

enum { NODE_CHARGE = 400 };   /* bytes of a node behind Lua's back, about */

static df_graph *graph_arg(lua_State *L) { return dfb_arg(L, 1, DFB_GRAPH); }

/* graph_copy(g, wide, outputs) -> graph */
static int core_graph_copy(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, buffer[64], *need = dfb_ints_arg(L, 3, &n, buffer, 64);
  df_error err;
  dfb_box *b = dfb_push_box(L, DFB_GRAPH);
  b->p = df_graph_copy(g, lua_toboolean(L, 2), n / 2, need, &err);
  if (!b->p) return dfb_raise(L, &err);
  dfb_charge(L, (int64_t)df_graph_nodes(b->p) * NODE_CHARGE + (1 << 16));
  return 1;
}

/* graph_pack(g) -> bytes */
static int core_graph_pack(lua_State *L) {
  df_error err;
  df_tensor *t = df_graph_pack(graph_arg(L), &err);
  if (!t) return dfb_raise(L, &err);
  lua_pushlstring(L, df_tensor_data(t), (size_t)df_tensor_size(t));
  df_tensor_release(t);
  return 1;
}

/* graph_unpack(bytes, trusting) -> graph */
static int core_graph_unpack(lua_State *L) {
  size_t n;
  const char *bytes = luaL_checklstring(L, 1, &n);
  const bool trusting = lua_toboolean(L, 2);
  df_error err;
  dfb_box *b = dfb_push_box(L, DFB_GRAPH);
  b->p = df_graph_unpack(bytes, (int64_t)n, trusting, &err);
  if (!b->p) return dfb_raise(L, &err);
  dfb_charge(L, (int64_t)df_graph_nodes(b->p) * NODE_CHARGE + (1 << 16));
  return 1;
}

/* graph_set_loops(g, parallel_iterations or 0, save or nil) */
static int core_graph_set_loops(lua_State *L) {
  df_graph_set_loops(graph_arg(L), (int64_t)luaL_checknumber(L, 2), luaL_optstring(L, 3, NULL));
  return 0;
}

/* graph_needs(g, outputs) -> list of node ids */
static int core_graph_needs(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, buffer[64], *outputs = dfb_ints_arg(L, 2, &n, buffer, 64);
  int32_t *nodes = lua_newuserdatauv(L, ((size_t)df_graph_nodes(g) + 1) * sizeof *nodes, 0);
  dfb_push_ints(L, df_graph_needs(g, n / 2, outputs, nodes), nodes);
  return 1;
}

static int core_graph_prepare(lua_State *L) {
  df_error err;
  if (df_graph_prepare(graph_arg(L), &err)) return dfb_raise(L, &err);
  return 0;
}

static int core_graph_record(lua_State *L) {
  df_graph_record(graph_arg(L), lua_toboolean(L, 2));
  return 0;
}

/* graph_unroll(g, outputs, xs, most) -> flat list */
static int core_graph_unroll(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, nx, b1[64], b2[64], *outputs = dfb_ints_arg(L, 2, &n, b1, 64), *xs = dfb_ints_arg(L, 3, &nx, b2, 64);
  int64_t most = (int64_t)luaL_checknumber(L, 4);
  int32_t *out = lua_newuserdatauv(L, (size_t)(n + 2) * sizeof *out, 0), before = df_graph_nodes(g);
  df_error err;
  int32_t code = df_graph_unroll(g, n / 2, outputs, nx / 2, xs, most, out, &err);
  dfb_charge(L, (int64_t)(df_graph_nodes(g) - before) * NODE_CHARGE);
  if (code) return dfb_raise(L, &err);
  dfb_push_ints(L, n, out);
  return 1;
}

static int core_node_origin(lua_State *L) {
  lua_pushinteger(L, df_node_origin(graph_arg(L), (int32_t)luaL_checkinteger(L, 2)));
  return 1;
}

static int core_node_iteration(lua_State *L) {
  lua_pushstring(L, df_node_iteration(graph_arg(L), (int32_t)luaL_checkinteger(L, 2)));
  return 1;
}

/* op_break_gradient(op, factor) */
static int core_op_break_gradient(lua_State *L) {
  df_op_break_gradient((int32_t)luaL_checkinteger(L, 1), luaL_checknumber(L, 2));
  return 0;
}

const luaL_Reg dfb_check_functions[] = {
  { "graph_pack", core_graph_pack },       { "graph_unpack", core_graph_unpack },
  { "graph_copy", core_graph_copy },       { "graph_set_loops", core_graph_set_loops },
  { "graph_needs", core_graph_needs },     { "graph_prepare", core_graph_prepare },
  { "graph_record", core_graph_record },   { "graph_unroll", core_graph_unroll },
  { "node_origin", core_node_origin },     { "node_iteration", core_node_iteration },
  { "op_break_gradient", core_op_break_gradient },
  { NULL, NULL }
};
