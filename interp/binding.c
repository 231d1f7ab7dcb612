/* binding.c: opens `dflow.core`, and holds what its other files share: userdata, errors, the collector's account,
 * and the Lua line a call came from. */
#include "binding.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- the collector's account ----------------------------------------------------------------- */
enum { CHARGE_MIN = 16 << 20 };

/* All that has no holder is let go; when the account asks next depends on what is left. */
static void collect(lua_State *L) {
  dfb_state *s = dfb_state_of(L);
  s->charged = 0;
  lua_gc(L, LUA_GCCOLLECT);
  int64_t in_use, peak, limit, allocated;
  df_memory(&in_use, &peak, &limit, &allocated);
  int64_t heap = (int64_t)lua_gc(L, LUA_GCCOUNT) * 1024;   /* what a collection costs grows with it */
  s->threshold = in_use > heap ? in_use : heap;
  if (s->threshold < CHARGE_MIN) s->threshold = CHARGE_MIN;
}

/* Lua counts its own bytes only. We count those behind its back, and ask for a full collection when as much was made
 * since the last one as was then alive: so the memory in use stays within twice what is reachable. */
void dfb_charge(lua_State *L, int64_t bytes) {
  dfb_state *s = dfb_state_of(L);
  s->charged += bytes;
  if (s->charged >= s->threshold) collect(L);
}

/* ---- errors ---------------------------------------------------------------------------------- */
static bool push_where_from(lua_State *L, int *level);
static bool push_callers(lua_State *L, int level);

void dfb_set_int(lua_State *L, const char *key, int64_t v)   { lua_pushinteger(L, v); lua_setfield(L, -2, key); }
void dfb_set_number(lua_State *L, const char *key, double v) { lua_pushnumber(L, v);  lua_setfield(L, -2, key); }
void dfb_set_bool(lua_State *L, const char *key, bool v)     { lua_pushboolean(L, v); lua_setfield(L, -2, key); }
void dfb_set_text(lua_State *L, const char *key, const char *v) {
  lua_pushstring(L, v ? v : "");
  lua_setfield(L, -2, key);
}
static void set_told(lua_State *L, const char *key, const char *text) {
  if (*text) dfb_set_text(L, key, text);
}

/* The error's line, where it has none; what called it, where that is a line of now, or the line that ran it: fields of
 * the table at the top. */
static void set_traceback(lua_State *L, const df_error *err) {
  int level = 0;
  if (!push_where_from(L, &level)) return;
  const bool now = !err->source[0] || !strcmp(err->source, lua_tostring(L, -1));
  if (err->source[0]) lua_pop(L, 1);
  else lua_setfield(L, -2, "source");
  if (now && push_callers(L, level)) lua_setfield(L, -2, "traceback");
  if (!now) {
    level = 0;
    push_where_from(L, &level);
    lua_setfield(L, -2, "ran");
  }
}

int dfb_raise(lua_State *L, const df_error *err) {
  lua_createtable(L, 0, 5);
  set_told(L, "code", df_code_name(err->code));
  lua_pushstring(L, err->message);
  lua_setfield(L, -2, "message");
  set_told(L, "op", err->op);
  set_told(L, "frame", err->frame);
  set_told(L, "source", err->source);
  if (err->code == DF_UNAVAILABLE && err->rank > 0) {
    lua_pushinteger(L, err->rank - 1);
    lua_setfield(L, -2, "rank");
    set_told(L, "host", err->host);
  }
  set_traceback(L, err);
  lua_pushvalue(L, lua_upvalueindex(DFB_UP_ERROR));
  lua_setmetatable(L, -2);
  if (err->code == DF_RESOURCE_EXHAUSTED) collect(L);      /* the next call has the memory of what has no holder */
  return lua_error(L);
}

int dfb_fail(lua_State *L, int32_t code, const char *format, ...) {
  df_error err = { .code = code };
  va_list args;
  va_start(args, format);
  vsnprintf(err.message, sizeof err.message, format, args);
  va_end(args);
  return dfb_raise(L, &err);
}

/* ---- userdata -------------------------------------------------------------------------------- */
static dfb_box *box_at(lua_State *L, int arg, uint32_t magic) {
  dfb_box *b = lua_touserdata(L, arg);
  if (!b || lua_type(L, arg) != LUA_TUSERDATA || lua_rawlen(L, arg) != sizeof *b || b->magic != magic) return NULL;
  return b;
}

void *dfb_arg(lua_State *L, int arg, uint32_t magic) {
  static const char *const names[] = { "tensor", "graph", "session", "run", "snapshot", "file" };
  dfb_box *b = box_at(L, arg, magic);
  if (!b) dfb_fail(L, DF_INVALID_ARGUMENT, "argument %d is not a %s", arg, names[magic - DFB_TENSOR]);
  if (!b->p) dfb_fail(L, DF_FAILED_PRECONDITION, "the %s is closed", names[magic - DFB_TENSOR]);
  return b->p;
}

static int box_close(lua_State *L) {
  dfb_box *b = lua_touserdata(L, 1);
  if (!b || lua_type(L, 1) != LUA_TUSERDATA || lua_rawlen(L, 1) != sizeof *b || !b->p) return 0;
  void *p = b->p;
  b->p = NULL;
  switch (b->magic) {
    case DFB_TENSOR:  df_tensor_release(p); break;
    case DFB_GRAPH:   df_graph_release(p); break;
    case DFB_SESSION: df_session_release(p); break;
    case DFB_RUN:     df_run_release(p); break;
    case DFB_SNAPSHOT: df_snapshot_release(p); break;
    case DFB_FILE:    df_file_discard(p); break;
  }
  return 0;
}

dfb_box *dfb_push_box(lua_State *L, uint32_t magic) {
  dfb_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->magic = magic;
  b->p = NULL;
  lua_pushvalue(L, lua_upvalueindex(DFB_UP_BOX));
  lua_setmetatable(L, -2);
  return b;
}

/* ---- tensors as Lua values -------------------------------------------------------------------- */
void dfb_push_tensor(lua_State *L, df_tensor *t) {
  luaL_checkstack(L, 4, NULL);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "handle");
  dfb_push_box(L, DFB_TENSOR)->p = t;
  lua_rawset(L, -3);
  lua_pushvalue(L, lua_upvalueindex(DFB_UP_TENSOR));
  lua_setmetatable(L, -2);
  dfb_charge(L, df_tensor_bytes(t) + 256);
}

df_tensor *dfb_tensor_or_null(lua_State *L, int arg) {
  arg = lua_absindex(L, arg);
  if (lua_type(L, arg) != LUA_TTABLE) return NULL;
  lua_pushliteral(L, "handle");
  lua_rawget(L, arg);
  dfb_box *b = box_at(L, -1, DFB_TENSOR);
  lua_pop(L, 1);
  return b ? b->p : NULL;
}

df_tensor *dfb_tensor_arg(lua_State *L, int arg) {
  df_tensor *t = dfb_tensor_or_null(L, arg);
  if (!t) dfb_fail(L, DF_INVALID_ARGUMENT, "argument %d is not a Tensor", arg);
  return t;
}

/* ---- lists and dims ---------------------------------------------------------------------------- */
int32_t *dfb_ints_arg(lua_State *L, int arg, int32_t *n, int32_t *buffer, int32_t room) {
  if (lua_isnoneornil(L, arg)) {
    *n = 0;
    return buffer;
  }
  luaL_checktype(L, arg, LUA_TTABLE);
  *n = (int32_t)lua_rawlen(L, arg);
  if (*n > room) buffer = lua_newuserdatauv(L, (size_t)*n * sizeof *buffer, 0);
  for (int32_t i = 0; i < *n; i++) {
    lua_rawgeti(L, arg, i + 1);
    buffer[i] = (int32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  return buffer;
}

int32_t dfb_dims_arg(lua_State *L, int arg, int64_t *dims) {
  if (lua_isnoneornil(L, arg)) return -1;
  luaL_checktype(L, arg, LUA_TTABLE);
  int32_t rank = (int32_t)lua_rawlen(L, arg);
  if (rank > DF_MAX_RANK)
    dfb_fail(L, DF_INVALID_ARGUMENT, "a shape of rank %d: the highest rank is %d", rank, DF_MAX_RANK);
  for (int32_t i = 0; i < rank; i++) {
    lua_rawgeti(L, arg, i + 1);
    int exact;
    dims[i] = lua_tointegerx(L, -1, &exact);
    if (!exact)
      dfb_fail(L, DF_INVALID_ARGUMENT, "dimension %d of the shape is %s, not an integer", i,
               luaL_tolstring(L, -1, NULL));
    lua_pop(L, 1);
  }
  return rank;
}

void dfb_push_ints(lua_State *L, int32_t n, const int32_t *v) {
  lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; i++) {
    lua_pushinteger(L, v[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* ---- the Lua line a call came from -------------------------------------------------------------- */
/* own(p1, p2): chunk names that begin with these are dflow's own and never reported. */
static int core_own(lua_State *L) {
  dfb_state *s = dfb_state_of(L);
  for (int i = 0; i < 2; i++) {
    size_t n;
    const char *p = luaL_checklstring(L, i + 1, &n);
    if (n >= sizeof s->own[i]) n = sizeof s->own[i] - 1;
    memcpy(s->own[i], p, n);
    s->own_length[i] = n;
  }
  return 0;
}

static bool is_own(const dfb_state *s, const char *source) {
  for (int i = 0; i < 2; i++)
    if (s->own_length[i] && strncmp(source, s->own[i], s->own_length[i]) == 0) return true;
  return false;
}

static void push_line(lua_State *L, const lua_Debug *ar, int line) {
  bool plain = ar->source[0] == '@' || ar->source[0] == '=';
  lua_pushfstring(L, "%s:%d", plain ? ar->source + 1 : ar->short_src, line);
}

/* Is this a frame of stdlib/dflow/front/call.lua, which calls the user's functions? */
static bool is_call(const lua_Debug *ar) {
  return ar->srclen > 9 && memcmp(ar->source + ar->srclen - 9, "/call.lua", 9) == 0;
}

/* The frame of a user's function is gone, because it ended in a tail call: the last line before its `end`. */
static bool push_tail_line(lua_State *L, const dfb_state *s, lua_Debug *frame) {
  lua_Debug ar;
  if (!lua_getlocal(L, frame, 1)) return false;
  if (!lua_isfunction(L, -1) || lua_iscfunction(L, -1)) {
    lua_pop(L, 1);
    return false;
  }
  lua_getinfo(L, ">SL", &ar);
  if (is_own(s, ar.source)) {
    lua_pop(L, 1);
    return false;
  }
  int line = 0;
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    int at = (int)lua_tointeger(L, -2);
    if (at > line && at < ar.lastlinedefined) line = at;
  }
  lua_pop(L, 1);
  push_line(L, &ar, line ? line : ar.lastlinedefined);
  return true;
}

/* `file:line` of the first Lua function on the stack that is not dflow's own; false when there is none. *level: the one
 * behind it. */
static bool push_where_from(lua_State *L, int *level) {
  const dfb_state *s = dfb_state_of(L);
  lua_Debug ar;
  for (; lua_getstack(L, *level, &ar); ++*level) {
    lua_getinfo(L, "S", &ar);
    if (ar.what[0] == 'C') continue;
    if (is_own(s, ar.source)) {
      if (!is_call(&ar) || !push_tail_line(L, s, &ar)) continue;
    } else {
      lua_getinfo(L, "l", &ar);
      if (ar.currentline < 0) continue;
      push_line(L, &ar, ar.currentline);
    }
    ++*level;
    return true;
  }
  return false;
}

enum { CALLERS = 12, DEEPEST = 200 };    /* frames that are told, and looked at */

/* The lines of the user's frames from that level on, one below the other; false where there is none. */
static bool push_callers(lua_State *L, int level) {
  int n = 0;
  while (n < CALLERS && push_where_from(L, &level)) {
    if (n++) {
      lua_pushliteral(L, "\n");
      lua_insert(L, -2);
      lua_concat(L, 3);
    }
  }
  return n > 0;
}

/* A number for the user's frames from that level on, the same for the same lines: their text is kept under it.
 * 0: none. */
static int32_t callers_id(lua_State *L, int level) {
  dfb_state *s = dfb_state_of(L);
  uint64_t h = 0;
  lua_Debug ar;
  int n = 0;
  for (int at = level; n < CALLERS && at < DEEPEST && lua_getstack(L, at, &ar); at++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline < 0 || is_own(s, ar.source)) continue;
    h = (h ^ (uint64_t)(uintptr_t)ar.source ^ (uint64_t)ar.currentline << 40) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    n++;
    if (ar.what[0] == 'm') break;                      /* a main chunk: what lies below is the program's, as a rule */
  }
  if (!n) return 0;
  h |= 1;
  const uint32_t slot = (uint32_t)(h >> 20) % DFB_STACKS;
  if (s->stack_key[slot] == h) return s->stack_id[slot];
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, s->stack_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, s->stack_key);
  }
  const int32_t id = push_callers(L, level) ? s->stacks + 1 : 0;
  if (id) {
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TNUMBER) {            /* the same lines, whose place was taken */
      s->stack_id[slot] = (int32_t)lua_tointeger(L, -1);
      lua_pop(L, 2);
    } else {
      lua_pop(L, 1);
      lua_pushvalue(L, -1);
      lua_pushinteger(L, id);
      lua_rawset(L, -4);
      lua_rawseti(L, -2, id);
      s->stack_id[slot] = s->stacks = id;
    }
    s->stack_key[slot] = h;
  }
  lua_pop(L, 1);
  return id ? s->stack_id[slot] : 0;
}

/* The line of core.at's, and the number of its callers: how many values they are. */
static int push_at(lua_State *L, const dfb_state *s) {
  if (!s->at) return 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &s->at);
  if (!s->at_callers) return 1;
  lua_pushinteger(L, s->at_callers);
  return 2;
}

/* at(line, callers): what is built from now on is of that line; nil: of the user's line, again. Returns both as they
 * were. */
static int core_at(lua_State *L) {
  dfb_state *s = dfb_state_of(L);
  lua_settop(L, 2);
  const int n = push_at(L, s);
  s->at = !lua_isnil(L, 1);
  s->at_callers = (int32_t)luaL_optinteger(L, 2, 0);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &s->at);
  return n;
}

/* where(): that line, or nil; and a number for the frames that called it, or nil. */
static int core_where(lua_State *L) {
  int level = 0;
  const int n = push_at(L, dfb_state_of(L));
  if (n) return n;
  if (!push_where_from(L, &level)) return 0;
  const int32_t id = callers_id(L, level);
  if (!id) return 1;
  lua_pushinteger(L, id);
  return 2;
}

/* callers(id): the lines of those frames, one below the other; of the frames of now, without an id. nil: none. */
static int core_callers(lua_State *L) {
  if (lua_isnoneornil(L, 1)) {
    int level = 0;
    if (!dfb_state_of(L)->at && !push_where_from(L, &level)) return 0;
    return push_callers(L, level);
  }
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, dfb_state_of(L)->stack_key) != LUA_TTABLE) return 0;
  lua_rawgeti(L, -1, luaL_checkinteger(L, 1));
  return 1;
}

static int core_memory_reset_peak(lua_State *L) {
  df_memory_reset_peak();
  return 0;
}

/* ---- small facts --------------------------------------------------------------------------------- */
/* memory_fail(n, times): dflow.h's count, and the pieces of memory that the library has for itself (in debug builds) */
static int core_memory_fail(lua_State *L) {
  lua_pushinteger(L, df_memory_fail((int64_t)luaL_checkinteger(L, 1), (int64_t)luaL_optinteger(L, 2, 1)));
  lua_pushinteger(L, df_memory_pieces());
  return 2;
}

static int core_memory(lua_State *L) {
  int64_t in_use, peak, limit, allocated;
  df_memory(&in_use, &peak, &limit, &allocated);
  lua_pushinteger(L, in_use);
  lua_pushinteger(L, peak);
  lua_pushinteger(L, limit);
  lua_pushinteger(L, allocated);
  return 4;
}

static int core_op_count(lua_State *L) {
  lua_pushinteger(L, df_op_count());
  return 1;
}

/* op_info(i): a new table of what the registry says about op i. */
static int core_op_info(lua_State *L) {
  int32_t op = (int32_t)luaL_checkinteger(L, 1);
  lua_createtable(L, 0, 12);
  lua_pushinteger(L, op);
  lua_setfield(L, -2, "id");
  set_told(L, "type", df_op_type(op));
  set_told(L, "lua", df_op_lua(op));
  set_told(L, "doc", df_op_doc(op));
  set_told(L, "inputs", df_op_inputs(op));
  set_told(L, "outputs", df_op_outputs(op));
  set_told(L, "types", df_op_types(op));
  set_told(L, "attrs", df_op_attrs(op));
  set_told(L, "example", df_op_example(op));
  lua_pushboolean(L, df_op_has_gradient(op));
  lua_setfield(L, -2, "gradient");
  lua_pushboolean(L, df_op_is_stateful(op));
  lua_setfield(L, -2, "stateful");
  return 1;
}

/* header(): the text of dflow.h. */
static int core_header(lua_State *L) {
  lua_pushstring(L, df_header());
  return 1;
}

/* op_about(i, what): dflow.h's text, or nil. */
static int core_op_about(lua_State *L) {
  const char *about = df_op_about((int32_t)luaL_checkinteger(L, 1), luaL_checkstring(L, 2));
  if (*about) lua_pushstring(L, about); else lua_pushnil(L);
  return 1;
}

/* clock(): seconds that only go forward, from some moment on. */
static int core_clock(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  lua_pushnumber(L, (lua_Number)t.tv_sec + 1e-9 * (lua_Number)t.tv_nsec);
  return 1;
}

/* status_line(text or nil) */
static int core_status_line(lua_State *L) {
  df_status_line(luaL_optstring(L, 1, NULL));
  return 0;
}

static const luaL_Reg functions[] = {
  { "own", core_own },           { "where", core_where },
  { "callers", core_callers },   { "at", core_at },
  { "memory_fail", core_memory_fail },
  { "memory_reset_peak", core_memory_reset_peak },
  { "memory", core_memory },
  { "op_count", core_op_count }, { "op_info", core_op_info }, { "op_about", core_op_about }, { "header", core_header },
  { "close", box_close },
  { "clock", core_clock },       { "status_line", core_status_line },
  { NULL, NULL }
};

static void set_functions(lua_State *L, int module, const luaL_Reg *list) {
  lua_pushvalue(L, module);
  for (int i = 1; i <= DFB_UPVALUES; i++) lua_pushvalue(L, module + i);
  luaL_setfuncs(L, list, DFB_UPVALUES);
  lua_pop(L, 1);
}

static int collect_state(lua_State *L) {
  const dfb_state *s = lua_touserdata(L, 1);
  if (s->host >= 0) df_host_close(s->host);
  return 0;
}

__attribute__((visibility("default"))) int luaopen_dflow_core(lua_State *L) {
  lua_newtable(L);
  int module = lua_gettop(L);
  dfb_state *s = lua_newuserdatauv(L, sizeof *s, 0);       /* DFB_UP_STATE */
  memset(s, 0, sizeof *s);
  s->host = -1;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, collect_state);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  s->threshold = CHARGE_MIN;
  lua_newtable(L);                                         /* DFB_UP_TENSOR */
  lua_newtable(L);                                         /* DFB_UP_ERROR */
  lua_newtable(L);                                         /* DFB_UP_BOX */
  lua_pushcfunction(L, box_close);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "dflow.core");
  lua_setfield(L, -2, "__metatable");
  lua_pushvalue(L, module + DFB_UP_TENSOR);
  lua_setfield(L, module, "Tensor");
  lua_pushvalue(L, module + DFB_UP_ERROR);
  lua_setfield(L, module, "Error");
  lua_pushstring(L, df_version());
  lua_setfield(L, module, "version");
  set_functions(L, module, functions);
  set_functions(L, module, dfb_tensor_functions);
  set_functions(L, module, dfb_graph_functions);
  set_functions(L, module, dfb_run_functions);
  set_functions(L, module, dfb_import_functions);
  set_functions(L, module, dfb_check_functions);
  set_functions(L, module, dfb_draw_functions);
  set_functions(L, module, dfb_watch_functions);
  set_functions(L, module, dfb_file_functions);
  set_functions(L, module, dfb_cluster_functions);
  lua_settop(L, module);
  return 1;
}
