/* binding_run.c: sessions, runs and their counters. */
#include "binding.h"
#include <stdio.h>
#include <string.h>

static df_session *session_arg(lua_State *L) { return dfb_arg(L, 1, DFB_SESSION); }
static df_run     *run_arg(lua_State *L) { return dfb_arg(L, 1, DFB_RUN); }

/* session_new(g, options) */
static int core_session_new(lua_State *L) {
  df_graph *g = dfb_arg(L, 1, DFB_GRAPH);
  const char *options = luaL_optstring(L, 2, NULL);
  dfb_box *b = dfb_push_box(L, DFB_SESSION);
  df_error err;
  b->p = df_session_new(g, options, &err);
  if (!b->p) return dfb_raise(L, &err);
  dfb_charge(L, 1 << 16);
  return 1;
}

static int core_session_told_growth(lua_State *L) {
  df_session_told_growth(session_arg(L));
  return 0;
}

static int core_session_reset(lua_State *L) {
  df_session_reset(session_arg(L));
  return 0;
}

/* What a run is asked for, taken from the arguments (session, fetches, feeds, timeout):
 *   fetches  flat list of pairs; index -1 is an operation
 *   feeds    flat list of {node, index, dtype, value}; a value is a number or boolean of that dtype, or a Tensor */
enum { ROOM = 16 };
typedef struct request {
  int32_t  nfetch, nfeed;
  int32_t *fetches, *feeds;
  df_value *values, *results;
  double   timeout;
  int32_t  fetch_room[2 * ROOM], feed_room[2 * ROOM];
  df_value value_room[ROOM], result_room[ROOM];
} request;

static void take_request(lua_State *L, request *r) {
  r->fetches = dfb_ints_arg(L, 2, &r->nfetch, r->fetch_room, 2 * ROOM);
  r->nfetch /= 2;
  r->results = r->nfetch <= ROOM ? r->result_room : lua_newuserdatauv(L, (size_t)r->nfetch * sizeof *r->results, 0);
  r->nfeed = lua_isnoneornil(L, 3) ? 0 : (int32_t)(lua_rawlen(L, 3) / 4);
  r->feeds = r->feed_room;
  r->values = r->value_room;
  if (r->nfeed > ROOM) {
    r->feeds = lua_newuserdatauv(L, (size_t)r->nfeed * 2 * sizeof *r->feeds, 0);
    r->values = lua_newuserdatauv(L, (size_t)r->nfeed * sizeof *r->values, 0);
  }
  for (int32_t i = 0; i < r->nfeed; i++) {
    lua_rawgeti(L, 3, 4 * i + 1);
    lua_rawgeti(L, 3, 4 * i + 2);
    lua_rawgeti(L, 3, 4 * i + 3);
    lua_rawgeti(L, 3, 4 * i + 4);
    r->feeds[2 * i] = (int32_t)lua_tointeger(L, -4);
    r->feeds[2 * i + 1] = (int32_t)lua_tointeger(L, -3);
    int32_t dtype = (int32_t)lua_tointeger(L, -2);
    df_value *v = &r->values[i];
    df_tensor *t = dfb_tensor_or_null(L, -1);
    if (t) {
      memset(v, 0, sizeof *v);
      v->kind = DF_TENSOR;
      v->dtype = (uint8_t)df_tensor_dtype(t);
      v->as.tensor = t;
    } else if (!dfb_to_scalar(L, -1, dtype, v)) {
      dfb_fail(L, DF_INVALID_ARGUMENT, "the fed value %s cannot be held by dtype %s", luaL_tolstring(L, -1, NULL),
               df_dtype_name(dtype));
    }
    lua_pop(L, 4);
  }
  r->timeout = luaL_optnumber(L, 4, 0);
}

/* ---- functions that are ops ------------------------------------------------------------------------------ */
static const char host_key, answer_key;      /* of the callback and of run_host in the registry */

typedef struct host_call { int64_t id; int32_t nin, nout; df_value *in; df_tensor **out; df_error *err; } host_call;

/* (call): the callback is given an id and a list of values; it gives a list of Tensors, or nil and what went wrong. */
static int run_host(lua_State *L) {
  host_call *c = lua_touserdata(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &host_key);
  lua_pushinteger(L, c->id);
  lua_createtable(L, c->nin, 0);
  for (int32_t i = 0; i < c->nin; i++) {
    df_value v = c->in[i];
    c->in[i].kind = DF_EMPTY;                          /* the Lua value has it now */
    dfb_push_value(L, &v);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, c->nin);
  lua_call(L, 3, 3);
  if (!lua_istable(L, -3)) {
    c->err->code = (int32_t)luaL_optinteger(L, -2, DF_INVALID_ARGUMENT);
    snprintf(c->err->message, sizeof c->err->message, "%s", luaL_tolstring(L, -1, NULL));
    return 0;
  }
  for (int32_t i = 0; i < c->nout; i++) {
    lua_rawgeti(L, -3, i + 1);
    df_tensor *t = dfb_tensor_or_null(L, -1);
    c->out[i] = t ? df_tensor_retain(t) : NULL;
    lua_pop(L, 1);
  }
  return 0;
}

static int32_t on_host(void *user, int64_t id, int32_t nin, df_value *in, int32_t nout, df_tensor **out,
                       df_error *err) {
  dfb_state *s = user;
  lua_State *L = s->host_L;
  const int top = lua_gettop(L);
  host_call c = { id, nin, nout, in, out, err };
  err->code = DF_OK;
  err->message[0] = 0;
  if (!lua_checkstack(L, 8)) return DF_RESOURCE_EXHAUSTED;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &answer_key);
  lua_pushlightuserdata(L, &c);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    err->code = DF_INTERNAL;
    snprintf(err->message, sizeof err->message, "%s",
             lua_tostring(L, -1) ? lua_tostring(L, -1) : "the function failed");
  }
  s->host_L = L;
  lua_settop(L, top);
  return err->code;
}

/* host(fn) -> number: fn(id, values, n) answers the HostCalls of that host; it is opened once. */
static int core_host(lua_State *L) {
  dfb_state *s = dfb_state_of(L);
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &host_key);
  for (int i = 1; i <= DFB_UPVALUES; i++) lua_pushvalue(L, lua_upvalueindex(i));
  lua_pushcclosure(L, run_host, DFB_UPVALUES);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &answer_key);
  if (s->host < 0) s->host = df_host_open(on_host, s);
  lua_pushinteger(L, s->host);
  return 1;
}

/* Functions that are ops run on this Lua thread from here on. */
static inline void hosts_here(lua_State *L) { dfb_state_of(L)->host_L = L; }

/* One value by itself, several as a list; with `tensors` rank 0 stays a tensor. */
static int push_results(lua_State *L, int32_t n, df_value *results, bool tensors) {
  void (*push)(lua_State *, df_value *) = tensors ? dfb_push_value_as_tensor : dfb_push_value;
  if (n == 1) {
    push(L, results);
    return 1;
  }
  lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; i++) {
    push(L, &results[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* session_run(s, fetches, feeds, timeout, tensors) */
static int core_session_run(lua_State *L) {
  df_session *s = session_arg(L);
  request r;
  df_error err;
  take_request(L, &r);
  hosts_here(L);
  if (df_session_run_guarded(s, r.nfetch, r.fetches, r.nfeed, r.feeds, r.values, r.timeout, r.results, &err))
    return dfb_raise(L, &err);
  return push_results(L, r.nfetch, r.results, lua_toboolean(L, 5));
}

/* session_run_one(s, node, index[, feed_node, feed_index, dtype, number]): one fetch and at most one fed number, the
 * run that is repeated most, without tables. */
static int core_session_run_one(lua_State *L) {
  df_session *s = session_arg(L);
  int32_t fetch[2] = { (int32_t)lua_tointeger(L, 2), (int32_t)lua_tointeger(L, 3) }, feed[2] = { 0, 0 }, nfeed = 0;
  df_value value, result;
  df_error err;
  if (lua_gettop(L) > 3) {
    int32_t dtype = (int32_t)lua_tointeger(L, 6);
    feed[0] = (int32_t)lua_tointeger(L, 4);
    feed[1] = (int32_t)lua_tointeger(L, 5);
    nfeed = 1;
    if (!dfb_to_scalar(L, 7, dtype, &value))
      return dfb_fail(L, DF_INVALID_ARGUMENT, "the fed value %s cannot be held by dtype %s", luaL_tolstring(L, 7, NULL),
                      df_dtype_name(dtype));
  }
  hosts_here(L);
  if (df_session_run_guarded(s, 1, fetch, nfeed, feed, &value, 0, &result, &err)) return dfb_raise(L, &err);
  dfb_push_value(L, &result);
  return 1;
}

/* session_start(s, fetches, feeds, timeout, options?) -> run */
static int core_session_start(lua_State *L) {
  df_session *s = session_arg(L);
  const char *options = luaL_optstring(L, 5, NULL);
  request r;
  df_error err;
  take_request(L, &r);
  dfb_box *b = dfb_push_box(L, DFB_RUN);
  b->p = df_session_start(s, r.nfetch, r.fetches, r.nfeed, r.feeds, r.values, r.timeout, options, &err);
  if (!b->p) return dfb_raise(L, &err);
  return 1;
}

/* run_wait(r, nfetch, tensors): once. */
static int core_run_wait(lua_State *L) {
  df_run *r = run_arg(L);
  int32_t n = (int32_t)luaL_checkinteger(L, 2);
  df_value *results = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *results, 0);
  df_error err;
  hosts_here(L);
  if (df_run_wait_guarded(r, results, &err)) return dfb_raise(L, &err);
  return push_results(L, n, results, lua_toboolean(L, 3));
}

static int core_run_done(lua_State *L) {
  hosts_here(L);
  lua_pushboolean(L, df_run_done(run_arg(L)));
  return 1;
}

static int core_run_cancel(lua_State *L) {
  df_run_cancel(run_arg(L));
  return 0;
}

static int push_stats(lua_State *L, const df_stats *s) {
  const struct { const char *name; int64_t v; } fields[] = {
    { "runs", s->runs },     { "nodes_run", s->nodes_run },       { "dead_tokens", s->dead_tokens },
    { "frames", s->frames }, { "iterations", s->iterations },     { "stack_pushes", s->stack_pushes },
    { "stack_pops", s->stack_pops },
  };
  lua_createtable(L, 0, 9);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    lua_pushinteger(L, fields[i].v);
    lua_setfield(L, -2, fields[i].name);
  }
  return 1;
}

static int core_session_stats(lua_State *L) {
  df_stats s;
  df_session_stats(session_arg(L), &s);
  return push_stats(L, &s);
}

static int core_run_stats(lua_State *L) {
  df_stats s;
  df_run_stats(run_arg(L), &s);
  return push_stats(L, &s);
}

static int core_session_plans(lua_State *L) {
  lua_pushinteger(L, df_session_plans(session_arg(L)));
  return 1;
}

/* session_native(s, what, loop or nil): text. */
static int core_session_native(lua_State *L) {
  df_session *s = session_arg(L);
  const int32_t what = (int32_t)luaL_checkinteger(L, 2);
  const char *loop = luaL_optstring(L, 3, NULL);
  const int32_t room = df_session_native(s, what, loop, 0, NULL) + 4000;      /* it may have become longer meanwhile */
  char *text = lua_newuserdatauv(L, (size_t)room, 0);
  df_session_native(s, what, loop, room, text);
  lua_pushstring(L, text);
  return 1;
}

/* session_variable(s, handle_node, tensor): the value, as a run gives it. */
static int core_session_variable(lua_State *L) {
  df_value v;
  df_error err;
  if (df_session_variable(session_arg(L), (int32_t)luaL_checkinteger(L, 2), &v, &err)) return dfb_raise(L, &err);
  (lua_toboolean(L, 3) ? dfb_push_value_as_tensor : dfb_push_value)(L, &v);
  return 1;
}

/* Lines of text whose length is not known before, and may grow from one look to the next. Where fill gives a negative
   number nothing is pushed, and it returns 0. */
static int push_text(lua_State *L, int32_t (*fill)(void *of, int32_t room, char *out), void *of) {
  for (int32_t room = 800, n;; room = n + n / 2) {
    char *out = lua_newuserdatauv(L, (size_t)room + 1, 0);
    if ((n = fill(of, room + 1, out)) > room) continue;
    if (n < 0) return 0;
    lua_pushlstring(L, out, (size_t)n);
    return 1;
  }
}
static int32_t fill_devices(void *s, int32_t room, char *out) { return df_session_devices(s, room, out); }
static int32_t fill_names(void *unused, int32_t room, char *out) { return df_device_names(room, out); }
static int32_t fill_session(void *s, int32_t room, char *out) { return df_session_report(s, room, out); }
static int32_t fill_run(void *r, int32_t room, char *out)     { return df_run_report(r, room, out); }

static int core_session_devices(lua_State *L) {
  df_session *s = session_arg(L);
  return push_text(L, fill_devices, s);
}
static int core_device_names(lua_State *L) { return push_text(L, fill_names, NULL); }
static int core_session_report(lua_State *L) {
  df_session *s = session_arg(L);
  return push_text(L, fill_session, s);
}
static int core_run_report(lua_State *L) {
  df_run *r = run_arg(L);
  return push_text(L, fill_run, r);
}

/* session_placement(s, fetches) */
static int core_session_placement(lua_State *L) {
  df_session *s = session_arg(L);
  int32_t n, room[64], *fetches = dfb_ints_arg(L, 2, &n, room, 64);
  df_error err;
  int32_t length = df_session_placement(s, n / 2, fetches, 0, NULL, &err);
  if (length < 0) return dfb_raise(L, &err);
  char *out = lua_newuserdatauv(L, (size_t)length + 1, 0);
  df_session_placement(s, n / 2, fetches, length + 1, out, &err);
  lua_pushlstring(L, out, (size_t)length);
  return 1;
}

/* session_set_variable(s, handle_node, tensor) */
static int core_session_set_variable(lua_State *L) {
  df_tensor *t = dfb_tensor_arg(L, 3);
  df_value v = { .kind = DF_TENSOR, .dtype = (uint8_t)df_tensor_dtype(t), .as.tensor = t };
  df_error err;
  if (df_session_set_variable(session_arg(L), (int32_t)luaL_checkinteger(L, 2), &v, &err)) return dfb_raise(L, &err);
  return 0;
}

/* session_position(s): {[node] = in how many runs it drew}, -1: all others; session_seek(s, position) */
static int core_session_position(lua_State *L) {
  df_session *s = session_arg(L);
  int32_t n = df_session_position(s, 0, NULL, NULL);
  int64_t *times = lua_newuserdatauv(L, (sizeof *times + sizeof(int32_t)) * (size_t)(n + 1), 0);
  int32_t *nodes = (int32_t *)(times + n + 1);
  const int32_t now = df_session_position(s, n, nodes, times);
  if (now < n) n = now;
  lua_createtable(L, 0, n);
  for (int32_t i = 0; i < n; i++) {
    lua_pushinteger(L, times[i]);
    lua_rawseti(L, -2, nodes[i]);
  }
  return 1;
}

static int core_session_seek(lua_State *L) {
  df_error err;
  df_session *s = session_arg(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  int32_t n = 0, i = 0;
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) n++;
  int64_t *times = lua_newuserdatauv(L, (sizeof *times + sizeof(int32_t)) * (size_t)(n + 1), 0);
  int32_t *nodes = (int32_t *)(times + n + 1);
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1), i++) {
    nodes[i] = (int32_t)luaL_checkinteger(L, -2);
    times[i] = (int64_t)luaL_checknumber(L, -1);
  }
  if (df_session_seek(s, n, nodes, times, &err)) return dfb_raise(L, &err);
  return 0;
}

typedef struct whatif { df_run *run; const char *options; df_error err; } whatif;
static int32_t fill_whatif(void *w, int32_t room, char *out) {
  whatif *of = w;
  return df_run_whatif(of->run, of->options, room, out, &of->err);
}

/* run_whatif(r, options) */
static int core_run_whatif(lua_State *L) {
  whatif w = { .run = run_arg(L), .options = luaL_optstring(L, 2, "") };
  return push_text(L, fill_whatif, &w) ? 1 : dfb_raise(L, &w.err);
}

const luaL_Reg dfb_run_functions[] = {
  { "run_whatif", core_run_whatif },
  { "device_names", core_device_names },
  { "session_devices", core_session_devices }, { "session_report", core_session_report },
  { "session_placement", core_session_placement }, { "run_report", core_run_report },
  { "host", core_host },
  { "session_new", core_session_new },     { "session_reset", core_session_reset },
  { "session_told_growth", core_session_told_growth },
  { "session_run_one", core_session_run_one },
  { "session_run", core_session_run },     { "session_start", core_session_start },
  { "run_wait", core_run_wait },           { "run_done", core_run_done },
  { "run_cancel", core_run_cancel },       { "session_stats", core_session_stats },
  { "run_stats", core_run_stats },         { "session_plans", core_session_plans },
  { "session_variable", core_session_variable }, { "session_set_variable", core_session_set_variable },
  { "session_position", core_session_position }, { "session_seek", core_session_seek },
  { "session_native", core_session_native },
  { NULL, NULL }
};
