/* binding_graph.c: nodes, contexts, control flow and gradients, as dflow.h has them. */
#include "binding.h"
#include <string.h>

enum { NODE_CHARGE = 400 };   /* bytes of a node behind Lua's back, about */

static df_graph *graph_arg(lua_State *L) { return dfb_arg(L, 1, DFB_GRAPH); }
static int32_t   int_arg(lua_State *L, int arg) { return (int32_t)luaL_checkinteger(L, arg); }
static const char *text_or_null(lua_State *L, int arg) { return luaL_optstring(L, arg, NULL); }

static int core_graph_new(lua_State *L) {
  dfb_box *b = dfb_push_box(L, DFB_GRAPH);
  b->p = df_graph_new();
  if (!b->p) return dfb_fail(L, DF_RESOURCE_EXHAUSTED, "out of memory for a graph");
  dfb_charge(L, 1 << 16);
  return 1;
}

static int core_graph_nodes(lua_State *L) {
  lua_pushinteger(L, df_graph_nodes(graph_arg(L)));
  return 1;
}

static int core_graph_set_seed(lua_State *L) {
  df_graph_set_seed(graph_arg(L), (int64_t)luaL_checkinteger(L, 2));
  return 0;
}

/* ---- one node -------------------------------------------------------------------------------------- */
static int core_node_begin(lua_State *L) {
  df_node_begin(graph_arg(L), int_arg(L, 2), text_or_null(L, 3));
  return 0;
}

static int core_node_input(lua_State *L) {
  df_node_input(graph_arg(L), int_arg(L, 2), int_arg(L, 3));
  return 0;
}

static int core_node_name(lua_State *L) {
  df_node_name(graph_arg(L), luaL_checkstring(L, 2));
  return 0;
}

static int core_node_int(lua_State *L) {
  df_node_int(graph_arg(L), luaL_checkstring(L, 2), (int64_t)luaL_checkinteger(L, 3));
  return 0;
}

static int core_node_float(lua_State *L) {
  df_node_float(graph_arg(L), luaL_checkstring(L, 2), luaL_checknumber(L, 3));
  return 0;
}

static int core_node_bool(lua_State *L) {
  df_node_bool(graph_arg(L), luaL_checkstring(L, 2), lua_toboolean(L, 3));
  return 0;
}

static int core_node_string(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 3, &n);
  df_node_string(graph_arg(L), luaL_checkstring(L, 2), s, (int64_t)n);
  return 0;
}

static int core_node_dtype(lua_State *L) {
  df_node_dtype(graph_arg(L), luaL_checkstring(L, 2), int_arg(L, 3));
  return 0;
}

static int core_node_shape(lua_State *L) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = dfb_dims_arg(L, 3, dims);
  df_node_shape(graph_arg(L), luaL_checkstring(L, 2), rank, dims);
  return 0;
}

static int core_node_tensor(lua_State *L) {
  df_node_tensor(graph_arg(L), luaL_checkstring(L, 2), dfb_tensor_arg(L, 3));
  return 0;
}

static int core_node_ints(lua_State *L) {
  df_graph *g = graph_arg(L);
  const char *attr = luaL_checkstring(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  const int32_t n = (int32_t)lua_rawlen(L, 3);
  int64_t *v = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *v, 0);
  for (int32_t i = 0; i < n; i++) {
    lua_rawgeti(L, 3, i + 1);
    v[i] = (int64_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  df_node_ints(g, attr, n, v);
  return 0;
}

static int push_node(lua_State *L, int32_t id, const df_error *err) {
  if (id < 0) return dfb_raise(L, err);
  dfb_charge(L, NODE_CHARGE);
  lua_pushinteger(L, id);
  return 1;
}

static int core_node_end(lua_State *L) {
  df_error err;
  return push_node(L, df_node_end(graph_arg(L), &err), &err);
}

/* add_node(g, op, where, node, index, ...): a node without attributes. */
static int core_add_node(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t io[32], n = (lua_gettop(L) - 3) / 2;
  df_error err;
  if (n > 16) return dfb_fail(L, DF_INVALID_ARGUMENT, "%d inputs: add_node takes 16 at most", n);
  for (int32_t i = 0; i < 2 * n; i++) io[i] = (int32_t)lua_tointeger(L, 4 + i);
  return push_node(L, df_add_node(g, int_arg(L, 2), n, io, text_or_null(L, 3), &err), &err);
}

/* constant_scalar(g, dtype, v, name, where): node id, or nil when the dtype cannot hold v. */
static int core_constant_scalar(lua_State *L) {
  df_graph *g = graph_arg(L);
  df_value v;
  df_error err;
  if (!dfb_to_scalar(L, 3, int_arg(L, 2), &v)) return 0;
  return push_node(L, df_constant(g, &v, text_or_null(L, 4), text_or_null(L, 5), &err), &err);
}

/* constant_tensor(g, t, name, where): node id. */
static int core_constant_tensor(lua_State *L) {
  df_graph *g = graph_arg(L);
  df_value v = { .kind = DF_TENSOR };
  df_error err;
  v.as.tensor = dfb_tensor_arg(L, 2);
  v.dtype = (uint8_t)df_tensor_dtype(v.as.tensor);
  return push_node(L, df_constant(g, &v, text_or_null(L, 3), text_or_null(L, 4), &err), &err);
}

/* ---- what stands while nodes are built -------------------------------------------------------------- */
static int core_push_control(lua_State *L) {
  df_graph *g = graph_arg(L);
  if (lua_isnil(L, 2)) { df_push_control(g, -1, NULL); return 0; }
  int32_t n, buffer[64], *nodes = dfb_ints_arg(L, 2, &n, buffer, 64);
  df_push_control(g, n, nodes);
  return 0;
}

static int core_pop_control(lua_State *L) { df_pop_control(graph_arg(L)); return 0; }
static int core_push_scope(lua_State *L)  { df_push_scope(graph_arg(L), luaL_checkstring(L, 2)); return 0; }
static int core_pop_scope(lua_State *L)   { df_pop_scope(graph_arg(L)); return 0; }
static int core_push_device(lua_State *L) { df_push_device(graph_arg(L), luaL_checkstring(L, 2)); return 0; }
static int core_set_node_device(lua_State *L) {
  df_node_set_device(graph_arg(L), (int32_t)luaL_checkinteger(L, 2), luaL_checkstring(L, 3));
  return 0;
}
static int core_pop_device(lua_State *L)  { df_pop_device(graph_arg(L)); return 0; }

/* ---- looking at nodes ------------------------------------------------------------------------------- */
static int core_node_type(lua_State *L) {
  lua_pushstring(L, df_node_type_of(graph_arg(L), int_arg(L, 2)));
  return 1;
}

static int core_node_name_of(lua_State *L) {
  lua_pushstring(L, df_node_name_of(graph_arg(L), int_arg(L, 2)));
  return 1;
}

static int core_node_where(lua_State *L) {
  lua_pushstring(L, df_node_where_of(graph_arg(L), int_arg(L, 2)));
  return 1;
}

static int core_set_callers(lua_State *L) {
  df_node_set_callers(graph_arg(L), int_arg(L, 2), int_arg(L, 3));
  return 0;
}

static int core_node_callers(lua_State *L) {
  lua_pushinteger(L, df_node_callers(graph_arg(L), int_arg(L, 2)));
  return 1;
}

static int core_node_by_name(lua_State *L) {
  lua_pushinteger(L, df_node_by_name(graph_arg(L), luaL_checkstring(L, 2)));
  return 1;
}

static int core_node_outputs(lua_State *L) {
  lua_pushinteger(L, df_node_outputs(graph_arg(L), int_arg(L, 2)));
  return 1;
}

static int core_node_inputs(lua_State *L) {
  lua_pushinteger(L, df_node_inputs(graph_arg(L), int_arg(L, 2)));
  return 1;
}

/* node_input_of(g, node, i) -> node, index */
static int core_node_input_of(lua_State *L) {
  int32_t node, index;
  df_node_input_of(graph_arg(L), int_arg(L, 2), int_arg(L, 3), &node, &index);
  lua_pushinteger(L, node);
  lua_pushinteger(L, index);
  return 2;
}

static int core_output_dtype(lua_State *L) {
  lua_pushinteger(L, df_output_dtype(graph_arg(L), int_arg(L, 2), int_arg(L, 3)));
  return 1;
}

static int core_output_rank(lua_State *L) {
  lua_pushinteger(L, df_output_rank(graph_arg(L), int_arg(L, 2), int_arg(L, 3)));
  return 1;
}

/* output_shape(g, node, index): a new list, nil when the rank is unknown. */
static int core_output_shape(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t node = int_arg(L, 2), index = int_arg(L, 3), rank = df_output_rank(g, node, index);
  if (rank < 0) return 0;
  lua_createtable(L, rank, 0);
  for (int32_t i = 0; i < rank; i++) {
    lua_pushinteger(L, df_output_dim(g, node, index, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* output_constant(g, node, index): a Tensor, or nil when the value is not known while building. */
static int core_output_constant(lua_State *L) {
  df_tensor *t = df_output_constant(graph_arg(L), int_arg(L, 2), int_arg(L, 3));
  if (!t) return 0;
  dfb_push_tensor(L, t);
  return 1;
}

static int core_output_set_shape(lua_State *L) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = dfb_dims_arg(L, 4, dims);
  df_error err;
  if (df_output_set_shape(graph_arg(L), int_arg(L, 2), int_arg(L, 3), rank, dims, &err)) return dfb_raise(L, &err);
  return 0;
}

static int core_node_stops_gradient(lua_State *L) {
  lua_pushboolean(L, df_node_stops_gradient(graph_arg(L), int_arg(L, 2)));
  return 1;
}

static int core_node_context(lua_State *L) {
  lua_pushinteger(L, df_node_context(graph_arg(L), int_arg(L, 2)));
  return 1;
}

/* needs_nothing(g, node, index): can a prompt run this output just to show its value? */
static int core_needs_nothing(lua_State *L) {
  lua_pushboolean(L, df_output_needs_nothing(graph_arg(L), int_arg(L, 2), int_arg(L, 3)));
  return 1;
}

/* flow_describe(g, node): dflow.h's numbers as a list, nil for what is neither a Merge of a cond nor an Exit of a loop.
   */
static int core_flow_describe(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t node = int_arg(L, 2), n = df_flow_describe(g, node, 0, NULL);
  if (n == 0) return 0;
  int32_t *out = lua_newuserdatauv(L, (size_t)n * sizeof *out, 0);
  df_flow_describe(g, node, n, out);
  lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; i++) {
    lua_pushinteger(L, out[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* saved(g, node): dflow.h's numbers as a list. */
static int core_saved(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t node = int_arg(L, 2), n = df_saved(g, node, 0, NULL);
  int32_t *out = lua_newuserdatauv(L, (size_t)n * sizeof *out, 0);
  df_saved(g, node, n, out);
  dfb_push_ints(L, n, out);
  return 1;
}

static int core_flow_name(lua_State *L) {
  lua_pushstring(L, df_flow_name(graph_arg(L), int_arg(L, 2)));
  return 1;
}

/* node_capture(g, node): node, index of the outer value that it brings in; nothing for other nodes. */
static int core_node_capture(lua_State *L) {
  int32_t node, index;
  if (!df_node_capture(graph_arg(L), int_arg(L, 2), &node, &index)) return 0;
  lua_pushinteger(L, node);
  lua_pushinteger(L, index);
  return 2;
}

static int core_node_attrs_text(lua_State *L) {
  char text[512];
  df_node_attrs_text(graph_arg(L), int_arg(L, 2), sizeof text, text);
  lua_pushstring(L, text);
  return 1;
}

/* node_attr(g, node, name): a number, boolean, string or list; nil when there is no such attribute, or the shape has no
   known rank. */
static int core_node_attr(lua_State *L) {
  df_attr_value v;
  int32_t type = df_node_attr(graph_arg(L), int_arg(L, 2), luaL_checkstring(L, 3), &v);
  switch (type) {
    case 0: return 0;
    case 'b': lua_pushboolean(L, v.number != 0); return 1;
    case 'f': lua_pushnumber(L, v.number); return 1;
    case 's': lua_pushlstring(L, v.bytes ? v.bytes : "", (size_t)v.n); return 1;
    case 'h': case 'l': case 'y':
      if (v.n < 0) return 0;
      lua_createtable(L, (int)v.n, 0);
      for (int64_t i = 0; i < v.n; i++) {
        lua_pushinteger(L, v.ints[i]);
        lua_rawseti(L, -2, i + 1);
      }
      return 1;
    default: lua_pushinteger(L, (lua_Integer)v.number); return 1;
  }
}

static int core_graph_effects(lua_State *L) {
  lua_pushinteger(L, df_graph_effects(graph_arg(L)));
  return 1;
}

static int core_current_context(lua_State *L) {
  lua_pushinteger(L, df_current_context(graph_arg(L)));
  return 1;
}

static int core_push_top(lua_State *L) { df_push_top(graph_arg(L)); return 0; }
static int core_pop_top(lua_State *L)  { df_pop_top(graph_arg(L)); return 0; }

static int core_variable_set_init(lua_State *L) {
  df_error err;
  if (df_variable_set_init(graph_arg(L), int_arg(L, 2), int_arg(L, 3), int_arg(L, 4), &err)) return dfb_raise(L, &err);
  return 0;
}

/* ---- control flow -------------------------------------------------------------------------------------- */
static int core_flow_depth(lua_State *L) {
  lua_pushinteger(L, df_flow_depth(graph_arg(L)));
  return 1;
}

/* graph_mark(g): a number for graph_keep(g, mark) or graph_undo(g, mark), which gives the number of nodes left */
static int core_graph_mark(lua_State *L) {
  lua_pushinteger(L, df_graph_mark(graph_arg(L)));
  return 1;
}
static int core_graph_keep(lua_State *L) { df_graph_keep(graph_arg(L), int_arg(L, 2)); return 0; }
static int core_graph_undo(lua_State *L) {
  lua_pushinteger(L, df_graph_undo(graph_arg(L), int_arg(L, 2)));
  return 1;
}
static int core_graph_finalize(lua_State *L) { df_graph_finalize(graph_arg(L)); return 0; }

/* graph_build_state(g): four numbers, for graph_unwind(g, …) */
static int core_graph_build_state(lua_State *L) {
  df_build_state s;
  df_graph_build_state(graph_arg(L), &s);
  lua_pushinteger(L, s.flow);
  lua_pushinteger(L, s.scopes);
  lua_pushinteger(L, s.devices);
  lua_pushinteger(L, s.controls);
  return 4;
}

static int core_graph_unwind(lua_State *L) {
  df_graph_unwind(graph_arg(L), &(df_build_state){ int_arg(L, 2), int_arg(L, 3), int_arg(L, 4), int_arg(L, 5) });
  return 0;
}

/* cond_begin(g, node, index, name, where) */
static int core_cond_begin(lua_State *L) {
  df_error err;
  if (df_cond_begin(graph_arg(L), int_arg(L, 2), int_arg(L, 3), text_or_null(L, 4), text_or_null(L, 5), &err))
    return dfb_raise(L, &err);
  return 0;
}

static int core_cond_branch_end(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, buffer[64], *outputs = dfb_ints_arg(L, 2, &n, buffer, 64);
  df_error err;
  if (df_cond_branch_end(g, n / 2, outputs, &err)) return dfb_raise(L, &err);
  return 0;
}

static int core_cond_select_branch(lua_State *L) {
  df_error err;
  if (df_cond_select_branch(graph_arg(L), lua_toboolean(L, 2), &err)) return dfb_raise(L, &err);
  return 0;
}

/* cond_end(g, n) -> op, flat list of n outputs */
static int core_cond_end(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n = int_arg(L, 2);
  int32_t *out = lua_newuserdatauv(L, (size_t)(2 * n + 2) * sizeof *out, 0);
  df_error err;
  int32_t op = df_cond_end(g, out, &err);
  if (op < 0) return dfb_raise(L, &err);
  lua_pushinteger(L, op);
  dfb_push_ints(L, 2 * n, out);
  return 2;
}

/* function_begin(g, name, dtypes, results or nil, where) -> number, list of argument nodes */
static int core_function_begin(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, nresults = -1, few[64], more[64], *dtypes = dfb_ints_arg(L, 3, &n, few, 64), *results = NULL;
  if (!lua_isnil(L, 4)) results = dfb_ints_arg(L, 4, &nresults, more, 64);
  int32_t *args = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *args, 0);
  df_error err;
  int32_t f = df_function_begin(g, text_or_null(L, 2), n, dtypes, nresults, results, text_or_null(L, 5), args, &err);
  if (f < 0) return dfb_raise(L, &err);
  lua_pushinteger(L, f);
  dfb_push_ints(L, n, args);
  return 2;
}

/* function_end(g, results) */
static int core_function_end(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, few[64], *results = dfb_ints_arg(L, 2, &n, few, 64);
  df_error err;
  if (df_function_end(g, n / 2, results, &err)) return dfb_raise(L, &err);
  return 0;
}

/* function_call(g, function, args, name, where) -> node */
static int core_function_call(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, few[64], *args = dfb_ints_arg(L, 3, &n, few, 64);
  df_error err;
  int32_t node = df_function_call(g, int_arg(L, 2), n / 2, args, text_or_null(L, 4), text_or_null(L, 5), &err);
  if (node < 0) return dfb_raise(L, &err);
  lua_pushinteger(L, node);
  return 1;
}

static int core_while_invariant(lua_State *L) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = dfb_dims_arg(L, 3, dims);
  df_while_invariant(graph_arg(L), int_arg(L, 2), rank, dims);
  return 0;
}

static int core_while_var_name(lua_State *L) {
  df_while_var_name(graph_arg(L), int_arg(L, 2), luaL_checkstring(L, 3));
  return 0;
}

/* while_begin(g, init, parallel_iterations, maximum_iterations, back_prop, save, name, where) -> flat list */
static int core_while_begin(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, buffer[64], *init = dfb_ints_arg(L, 2, &n, buffer, 64);
  int32_t *vars = lua_newuserdatauv(L, (size_t)(n + 2) * sizeof *vars, 0);
  df_error err;
  if (df_while_begin(g, n / 2, init, (int64_t)luaL_checknumber(L, 3), (int64_t)luaL_checknumber(L, 4),
                     lua_toboolean(L, 5), luaL_checkstring(L, 6), text_or_null(L, 7), text_or_null(L, 8), vars, &err))
    return dfb_raise(L, &err);
  dfb_push_ints(L, n, vars);
  return 1;
}

/* graph_order(g, first) -> node or nil */
static int core_graph_order(lua_State *L) {
  int32_t last = df_graph_order(graph_arg(L), int_arg(L, 2));
  if (last >= 0) lua_pushinteger(L, last); else lua_pushnil(L);
  return 1;
}

/* while_pred_end(g, node, index, n) -> flat list */
static int core_while_pred_end(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n = int_arg(L, 4);
  int32_t *vars = lua_newuserdatauv(L, (size_t)(2 * n + 2) * sizeof *vars, 0);
  df_error err;
  if (df_while_pred_end(g, int_arg(L, 2), int_arg(L, 3), vars, &err)) return dfb_raise(L, &err);
  dfb_push_ints(L, 2 * n, vars);
  return 1;
}

/* while_end(g, results) -> flat list */
static int core_while_end(lua_State *L) {
  df_graph *g = graph_arg(L);
  int32_t n, buffer[64], *results = dfb_ints_arg(L, 2, &n, buffer, 64);
  int32_t *exits = lua_newuserdatauv(L, (size_t)(n + 2) * sizeof *exits, 0);
  df_error err;
  if (df_while_end(g, n / 2, results, exits, &err)) return dfb_raise(L, &err);
  dfb_push_ints(L, n, exits);
  return 1;
}

static int core_push_outer(lua_State *L) { df_push_outer(graph_arg(L)); return 0; }
static int core_pop_outer(lua_State *L)  { df_pop_outer(graph_arg(L)); return 0; }
/* push_context(g, context): what is built until pop_context stands in that context, which may have ended */
static int core_push_context(lua_State *L) { df_push_context(graph_arg(L), int_arg(L, 2)); return 0; }
static int core_pop_context(lua_State *L) { df_pop_context(graph_arg(L)); return 0; }

/* while_add_var(g, node, index) -> number, node, index: as the body sees it */
static int core_while_add_var(lua_State *L) {
  int32_t var[2];
  df_error err;
  int32_t number = df_while_add_var(graph_arg(L), int_arg(L, 2), int_arg(L, 3), var, &err);
  if (number < 0) return dfb_raise(L, &err);
  lua_pushinteger(L, number);
  lua_pushinteger(L, var[0]);
  lua_pushinteger(L, var[1]);
  return 3;
}

/* while_close_var(g, number, node, index) -> node, index of the exit */
static int core_while_close_var(lua_State *L) {
  int32_t out[2];
  df_error err;
  if (df_while_close_var(graph_arg(L), int_arg(L, 2), int_arg(L, 3), int_arg(L, 4), out, &err))
    return dfb_raise(L, &err);
  lua_pushinteger(L, out[0]);
  lua_pushinteger(L, out[1]);
  return 2;
}

/* ---- gradients --------------------------------------------------------------------------------------------- */
/* The keys of the callback and of the Lua error it ended with, in the registry. */
static const char custom_key, custom_error_key;

static int run_custom(lua_State *L) {   /* (id, n, dy, m): calls the callback, returns a flat list of 2 * m */
  int32_t n = (int32_t)lua_tointeger(L, 2), m = (int32_t)lua_tointeger(L, 4);
  const int32_t *dy = lua_touserdata(L, 3);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &custom_key);
  lua_pushvalue(L, 1);
  lua_createtable(L, 2 * n, 0);
  for (int32_t i = 0; i < 2 * n; i++) {
    lua_pushinteger(L, dy[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, m);
  lua_call(L, 3, 1);
  return 1;
}

static int32_t on_custom(void *user, int64_t id, int32_t n, const int32_t *dy, int32_t m, int32_t *dx, df_error *err) {
  dfb_state *s = user;
  lua_State *L = s->L;
  int top = lua_gettop(L);
  if (!lua_checkstack(L, 8)) return DF_RESOURCE_EXHAUSTED;
  lua_pushcfunction(L, run_custom);
  lua_pushinteger(L, id);
  lua_pushinteger(L, n);
  lua_pushlightuserdata(L, (void *)dy);
  lua_pushinteger(L, m);
  if (lua_pcall(L, 4, 1, 0) != LUA_OK) {
    lua_rawsetp(L, LUA_REGISTRYINDEX, &custom_error_key);   /* raised again when df_gradients has cleaned up */
    err->code = DF_INVALID_ARGUMENT;
    err->message[0] = err->op[0] = err->frame[0] = err->source[0] = 0;
    strcpy(err->message, "the gradient function failed");
    lua_settop(L, top);
    return DF_INVALID_ARGUMENT;
  }
  for (int32_t i = 0; i < 2 * m; i++) {
    lua_rawgeti(L, -1, i + 1);
    dx[i] = (int32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  lua_settop(L, top);
  return DF_OK;
}

/* on_custom_gradient(fn): fn(id, dy, m) -> dx; flat lists, node -1 for none. */
static int core_on_custom_gradient(lua_State *L) {
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &custom_key);
  return 0;
}

/* gradients(g, ys, grad_ys, xs, stops, unconnected, where) -> flat list of six per x */
static int core_gradients(lua_State *L) {
  df_graph *g = graph_arg(L);
  dfb_state *s = dfb_state_of(L);
  int32_t ny, ng, nx, ns, b1[64], b2[64], b3[64], b4[64];
  int32_t *ys = dfb_ints_arg(L, 2, &ny, b1, 64), *gys = dfb_ints_arg(L, 3, &ng, b2, 64);
  int32_t *xs = dfb_ints_arg(L, 4, &nx, b3, 64), *stops = dfb_ints_arg(L, 5, &ns, b4, 64);
  if (ng && ng != ny) return dfb_fail(L, DF_INVALID_ARGUMENT, "%d grad_ys for %d ys", ng / 2, ny / 2);
  int32_t *out = lua_newuserdatauv(L, (size_t)(3 * nx + 6) * sizeof *out, 0);
  df_error err;
  lua_State *outer = s->L;
  s->L = L;
  df_graph_on_custom_gradient(g, on_custom, s);
  int32_t code = df_gradients(g, ny / 2, ys, ng ? gys : NULL, nx / 2, xs, ns / 2, stops, int_arg(L, 6),
                              text_or_null(L, 7), out, &err);
  s->L = outer;
  if (code) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &custom_error_key) != LUA_TNIL) {
      lua_pushnil(L);
      lua_rawsetp(L, LUA_REGISTRYINDEX, &custom_error_key);
      return lua_error(L);
    }
    return dfb_raise(L, &err);
  }
  dfb_push_ints(L, 3 * nx, out);
  return 1;
}

const luaL_Reg dfb_graph_functions[] = {
  { "graph_new", core_graph_new },               { "graph_nodes", core_graph_nodes },
  { "graph_set_seed", core_graph_set_seed },     { "node_begin", core_node_begin },
  { "node_input", core_node_input },
  { "node_name", core_node_name },               { "node_int", core_node_int },
  { "node_float", core_node_float },             { "node_bool", core_node_bool },
  { "node_string", core_node_string },           { "node_dtype", core_node_dtype },
  { "node_shape", core_node_shape },             { "node_tensor", core_node_tensor },
  { "node_ints", core_node_ints },               { "node_end", core_node_end },
  { "add_node", core_add_node },                 { "constant_scalar", core_constant_scalar },
  { "constant_tensor", core_constant_tensor },   { "push_control", core_push_control },
  { "pop_control", core_pop_control },           { "push_scope", core_push_scope },
  { "pop_scope", core_pop_scope },               { "push_device", core_push_device },
  { "set_node_device", core_set_node_device }, { "pop_device", core_pop_device },             { "node_type",
  core_node_type },
  { "node_name_of", core_node_name_of },         { "node_where", core_node_where },
  { "set_callers", core_set_callers },           { "node_callers", core_node_callers },
  { "node_by_name", core_node_by_name },         { "node_outputs", core_node_outputs },
  { "node_inputs", core_node_inputs },           { "node_input_of", core_node_input_of },
  { "output_dtype", core_output_dtype },         { "output_rank", core_output_rank },
  { "output_shape", core_output_shape },
  { "output_constant", core_output_constant },   { "output_set_shape", core_output_set_shape },
  { "node_context", core_node_context },         { "current_context", core_current_context },
  { "graph_order", core_graph_order },
  { "graph_effects", core_graph_effects },       { "node_stops_gradient", core_node_stops_gradient },
  { "needs_nothing", core_needs_nothing },
  { "flow_describe", core_flow_describe },       { "flow_name", core_flow_name }, { "saved", core_saved },
  { "node_capture", core_node_capture },         { "node_attrs_text", core_node_attrs_text },
  { "node_attr", core_node_attr },
  { "variable_set_init", core_variable_set_init }, { "flow_depth", core_flow_depth },
  { "graph_mark", core_graph_mark },             { "graph_keep", core_graph_keep },
  { "graph_undo", core_graph_undo },             { "graph_finalize", core_graph_finalize },
  { "graph_build_state", core_graph_build_state },     { "graph_unwind", core_graph_unwind },
  { "cond_begin", core_cond_begin },
  { "cond_branch_end", core_cond_branch_end },   { "cond_end", core_cond_end },
  { "cond_select_branch", core_cond_select_branch }, { "function_begin", core_function_begin },
  { "function_end", core_function_end },         { "function_call", core_function_call },
  { "push_top", core_push_top },                 { "pop_top", core_pop_top },
  { "while_invariant", core_while_invariant },   { "while_var_name", core_while_var_name },
  { "while_begin", core_while_begin },           { "while_pred_end", core_while_pred_end },
  { "push_outer", core_push_outer },             { "pop_outer", core_pop_outer },
  { "push_context", core_push_context },         { "pop_context", core_pop_context },
  { "while_add_var", core_while_add_var },       { "while_close_var", core_while_close_var },
  { "while_end", core_while_end },               { "on_custom_gradient", core_on_custom_gradient },
  { "gradients", core_gradients },
  { NULL, NULL }
};
