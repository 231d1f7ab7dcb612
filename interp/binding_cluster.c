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

static int core_cluster_most(lua_State *L) {
  lua_pushinteger(L, df_cluster_most());
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

/* cluster_ranks() -> list of tables, with the fields of df_rank_info */
static int core_cluster_ranks(lua_State *L) {
  const int32_t room = df_cluster_size();
  df_rank_info *info = lua_newuserdatauv(L, sizeof *info * (size_t)room, 0);
  const int32_t known = df_cluster_ranks(room, info), n = known < room ? known : room;
  lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; i++) {
    const df_rank_info *r = &info[i];
    lua_createtable(L, 0, 13);
    dfb_set_int(L, "rank", r->rank);                  dfb_set_int(L, "state", r->state);
    dfb_set_int(L, "pid", r->pid);                    dfb_set_number(L, "latency", r->latency);
    dfb_set_int(L, "messages_out", r->messages_out);  dfb_set_int(L, "bytes_out", r->bytes_out);
    dfb_set_int(L, "messages_in", r->messages_in);    dfb_set_int(L, "bytes_in", r->bytes_in);
    dfb_set_int(L, "waits_for", r->waits_for);        dfb_set_number(L, "waits_seconds", r->waits_seconds);
    dfb_set_text(L, "waits_what", r->waits_what);     dfb_set_text(L, "host", r->host);
    dfb_set_text(L, "why", r->why);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

const luaL_Reg dfb_cluster_functions[] = {
  { "cluster_start", core_cluster_start },   { "cluster_restart", core_cluster_restart },
  { "cluster_stop", core_cluster_stop },     { "cluster_size", core_cluster_size },
  { "cluster_rank", core_cluster_rank },     { "cluster_timeout", core_cluster_timeout },
  { "cluster_spmd", core_cluster_spmd },     { "cluster_is_spmd", core_cluster_is_spmd },
  { "cluster_jobs", core_cluster_jobs },     { "cluster_hosts", core_cluster_hosts },
  { "cluster_ranks", core_cluster_ranks },   { "cluster_most", core_cluster_most },
  { NULL, NULL }
};
