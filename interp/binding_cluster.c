/* binding_cluster.c: the processes of one cluster, as dflow.h has them. */
#include "binding.h"

/* cluster_start(n, program or nil) */
static int core_cluster_start(lua_State *L) {
  df_error err;
  const int32_t n = (int32_t)luaL_checkinteger(L, 1);
  if (df_cluster_start(n, luaL_optstring(L, 2, NULL), &err)) return dfb_raise(L, &err);
  return 0;
}

/* cluster_hosts(text, program or nil) */
static int core_cluster_hosts(lua_State *L) {
  df_error err;
  if (df_cluster_hosts(luaL_checkstring(L, 1), luaL_optstring(L, 2, NULL), &err)) return dfb_raise(L, &err);
  return 0;
}

static int core_cluster_restart(lua_State *L) {
  df_error err;
  if (df_cluster_restart(&err)) return dfb_raise(L, &err);
  return 0;
}

static int core_cluster_stop(lua_State *L) {
  df_cluster_stop(0);
  return 0;
}

static int core_cluster_spmd(lua_State *L) {
  df_error err;
  if (df_cluster_spmd(&err)) return dfb_raise(L, &err);
  return 0;
}

static int core_cluster_is_spmd(lua_State *L) {
  lua_pushboolean(L, df_cluster_is_spmd());
  return 1;
}

static int core_cluster_size(lua_State *L) {
  lua_pushinteger(L, df_cluster_size());
  return 1;
}

static int core_cluster_rank(lua_State *L) {
  lua_pushinteger(L, df_cluster_rank());
  return 1;
}

static int core_cluster_timeout(lua_State *L) {
  df_cluster_timeout(luaL_checknumber(L, 1));
  return 0;
}

/* cluster_jobs(text) */
static int core_cluster_jobs(lua_State *L) {
  df_error err;
  if (df_cluster_jobs(luaL_checkstring(L, 1), &err)) return dfb_raise(L, &err);
  return 0;
}

/* cluster_report() -> text of lines */
static int core_cluster_report(lua_State *L) {
  const int32_t room = df_cluster_report(0, NULL) + 256;
  char *text = lua_newuserdatauv(L, (size_t)room, 0);
  const int32_t n = df_cluster_report(room, text);
  lua_pushlstring(L, text, (size_t)(n < room ? n : room - 1));
  return 1;
}

const luaL_Reg dfb_cluster_functions[] = {
  { "cluster_start", core_cluster_start },   { "cluster_restart", core_cluster_restart },
  { "cluster_stop", core_cluster_stop },     { "cluster_size", core_cluster_size },
  { "cluster_rank", core_cluster_rank },     { "cluster_timeout", core_cluster_timeout },
  { "cluster_spmd", core_cluster_spmd },     { "cluster_is_spmd", core_cluster_is_spmd },
  { "cluster_jobs", core_cluster_jobs },     { "cluster_hosts", core_cluster_hosts },
  { "cluster_report", core_cluster_report }, { NULL, NULL }
};
