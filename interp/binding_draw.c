/* binding_draw.c: the graph as drawings see it: conds and loops, what each node is in them, and what a run
 * makes of it.
 */
#include "binding.h"

static df_graph *graph_arg(lua_State *L) { return dfb_arg(L, 1, DFB_GRAPH); }

/* flows(g) -> list of tables with the fields of df_flow_info; `inside` as inside_0 and inside_1 */
static int core_flows(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n = df_flows(g, 0, NULL);
  df_flow_info *f = lua_newuserdatauv(L, sizeof *f * (size_t)(n + 1), 0);
  df_flows(g, n, f);
  lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 14);
    dfb_set_int(L, "kind", f[i].kind);
    dfb_set_int(L, "number", f[i].number);
    dfb_set_int(L, "parent", f[i].parent);
    dfb_set_int(L, "inside_0", f[i].inside[0]);
    dfb_set_int(L, "inside_1", f[i].inside[1]);
    dfb_set_int(L, "pred_node", f[i].pred_node);
    dfb_set_int(L, "pred_index", f[i].pred_index);
    dfb_set_int(L, "gradient_of", f[i].gradient_of);
    dfb_set_int(L, "repeats", f[i].repeats);
    dfb_set_int(L, "pass", f[i].pass);
    dfb_set_int(L, "parallel_iterations", f[i].parallel_iterations);
    dfb_set_text(L, "name", f[i].name);
    dfb_set_text(L, "where", f[i].where);
    dfb_set_text(L, "save", f[i].save);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* flow_roles(g) -> flat list of three numbers a node */
static int core_flow_roles(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n = df_graph_nodes(g), *out = lua_newuserdatauv(L, sizeof *out * 3 * (size_t)(n + 1), 0);
  df_flow_roles(g, out);
  dfb_push_ints(L, 3 * n, out);
  return 1;
}

static int core_loop_variable(lua_State *L) {
  lua_pushstring(L, df_loop_variable(graph_arg(L), (int32_t)luaL_checkinteger(L, 2), (int32_t)luaL_checkinteger(L, 3)));
  return 1;
}

/* node_controls(g, node) -> list of nodes */
static int core_node_controls(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t node = (int32_t)luaL_checkinteger(L, 2), n = df_node_controls(g, node, 0, NULL);
  int32_t *out = lua_newuserdatauv(L, sizeof *out * (size_t)(n + 1), 0);
  df_node_controls(g, node, n, out);
  dfb_push_ints(L, n, out);
  return 1;
}

static int core_node_device(lua_State *L) {
  lua_pushstring(L, df_node_device(graph_arg(L), (int32_t)luaL_checkinteger(L, 2)));
  return 1;
}

static int core_node_pass(lua_State *L) {
  lua_pushinteger(L, df_node_pass(graph_arg(L), (int32_t)luaL_checkinteger(L, 2)));
  return 1;
}

static int core_node_gradient_of(lua_State *L) {
  lua_pushinteger(L, df_node_gradient_of(graph_arg(L), (int32_t)luaL_checkinteger(L, 2)));
  return 1;
}

/* plan_describe(g, fetches, feeds) -> nodes with tokens, flat list of two numbers a node */
static int core_plan_describe(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, m, b1[64], b2[64], *fetches = dfb_ints_arg(L, 2, &n, b1, 64), *feeds = dfb_ints_arg(L, 3, &m, b2, 64);
  int32_t count = df_graph_nodes(g), *out = lua_newuserdatauv(L, sizeof *out * 2 * (size_t)(count + 1), 0);
  df_error err;
  int32_t tokens = df_plan_describe(g, n / 2, fetches, m / 2, feeds, out, &err);
  if (tokens < 0) return dfb_raise(L, &err);
  lua_pushinteger(L, tokens);
  dfb_push_ints(L, 2 * count, out);
  return 2;
}

const luaL_Reg dfb_draw_functions[] = {
  { "flows", core_flows },                 { "flow_roles", core_flow_roles },
  { "loop_variable", core_loop_variable }, { "node_controls", core_node_controls },
  { "node_device", core_node_device },     { "node_pass", core_node_pass },
  { "node_gradient_of", core_node_gradient_of }, { "plan_describe", core_plan_describe },
  { NULL, NULL }
};
