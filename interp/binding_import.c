/* binding_import.c: TensorFlow's graphs, as dflow.h has them. */
#include "binding.h"

/* import_graph_def(g, bytes or uint8 tensor, prefix or nil, {name, ...}, {node, index, ...}, where) -> int32[n,4]: its
   variables, as dflow.h has them */
static int core_import_graph_def(lua_State *L) {
  df_graph *g = dfb_arg(L, 1, DFB_GRAPH);
  size_t bytes;
  const char *data;
  df_tensor *t = dfb_tensor_or_null(L, 2);
  if (t) { data = df_tensor_data(t); bytes = (size_t)df_tensor_size(t); }
  else data = luaL_checklstring(L, 2, &bytes);
  if (t && df_tensor_dtype(t) != DF_UINT8) return dfb_fail(L, DF_INVALID_ARGUMENT, "a graph's bytes are uint8");
  const char *prefix = luaL_optstring(L, 3, NULL), *where = luaL_optstring(L, 6, NULL);
  int32_t n, few[64], *to = dfb_ints_arg(L, 5, &n, few, 64), names = (int32_t)lua_rawlen(L, 4);
  if (2 * names != n) return dfb_fail(L, DF_INVALID_ARGUMENT, "%d names for %d outputs", names, n / 2);
  const char **name = lua_newuserdatauv(L, sizeof *name * (size_t)(names + 1), 0);
  for (int32_t i = 0; i < names; i++) {
    lua_rawgeti(L, 4, i + 1);
    name[i] = luaL_checkstring(L, -1);
    lua_pop(L, 1);                       /* the list keeps it */
  }
  df_error err;
  df_tensor *variables = NULL;
  int32_t before = df_graph_nodes(g);
  if (df_import_graph_def(g, data, (int64_t)bytes, prefix, names, name, to, where, &variables, &err))
    return dfb_raise(L, &err);
  dfb_push_tensor(L, variables);
  dfb_charge(L, 400 * (int64_t)(df_graph_nodes(g) - before));
  return 1;
}

/* checkpoint_names(prefix) -> string[n] */
static int core_checkpoint_names(lua_State *L) {
  df_error err;
  df_tensor *t = df_checkpoint_names(luaL_checkstring(L, 1), &err);
  if (!t) return dfb_raise(L, &err);
  dfb_push_tensor(L, t);
  return 1;
}

/* checkpoint_read(prefix, name, part?) -> tensor */
static int core_checkpoint_read(lua_State *L) {
  df_error err;
  df_tensor *t = df_checkpoint_read(luaL_checkstring(L, 1), luaL_checkstring(L, 2), luaL_optstring(L, 3, NULL), &err);
  if (!t) return dfb_raise(L, &err);
  dfb_push_tensor(L, t);
  return 1;
}

/* checkpoint_write(prefix, {name, ...}, {tensor, ...}) */
static int core_checkpoint_write(lua_State *L) {
  const char *prefix = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  const int32_t n = (int32_t)lua_rawlen(L, 2);
  const char **name = lua_newuserdatauv(L, sizeof *name * (size_t)(n + 1), 0);
  df_tensor **tensor = lua_newuserdatauv(L, sizeof *tensor * (size_t)(n + 1), 0);
  for (int32_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    lua_rawgeti(L, 3, i + 1);
    name[i] = luaL_checkstring(L, -2);
    tensor[i] = dfb_tensor_or_null(L, -1);
    if (!tensor[i]) return dfb_fail(L, DF_INVALID_ARGUMENT, "%s is not a Tensor", name[i]);
    lua_pop(L, 2);                       /* the lists keep them */
  }
  df_error err;
  return df_checkpoint_write(prefix, n, name, tensor, &err) ? dfb_raise(L, &err) : 0;
}

static int core_graph_allow_files(lua_State *L) {
  df_graph_allow_files(dfb_arg(L, 1, DFB_GRAPH));
  return 0;
}

/* export_graph_def(g, {node, index, ...} or nil, form, {variable, trainable, ...}, {tensor or false, ...}) -> uint8
   tensor */
static int core_export_graph_def(lua_State *L) {
  df_graph *g = dfb_arg(L, 1, DFB_GRAPH);
  int32_t n = -2, few[64], *outputs = NULL;
  if (!lua_isnil(L, 2)) outputs = dfb_ints_arg(L, 2, &n, few, 64);
  int32_t nvariable, some[64], *variable = dfb_ints_arg(L, 4, &nvariable, some, 64);
  df_tensor **value = lua_newuserdatauv(L, sizeof *value * (size_t)(nvariable / 2 + 1), 0);
  luaL_checktype(L, 5, LUA_TTABLE);
  for (int32_t i = 0; i < nvariable / 2; i++) {
    lua_rawgeti(L, 5, i + 1);
    value[i] = dfb_tensor_or_null(L, -1);
    lua_pop(L, 1);                       /* the list keeps it */
  }
  df_error err;
  df_tensor *t =
      df_export_graph_def(g, n / 2, outputs, (int32_t)luaL_checkinteger(L, 3), nvariable / 2, variable, value, &err);
  if (!t) return dfb_raise(L, &err);
  dfb_push_tensor(L, t);
  return 1;
}

const luaL_Reg dfb_import_functions[] = {
  { "import_graph_def", core_import_graph_def },
  { "checkpoint_names", core_checkpoint_names },
  { "checkpoint_read", core_checkpoint_read },
  { "checkpoint_write", core_checkpoint_write },
  { "graph_allow_files", core_graph_allow_files },
  { "export_graph_def", core_export_graph_def },
  { NULL, NULL }
};
