/* binding_watch.c: looking at a run from Lua: pause, step, break, snapshot, history, values, events. */
#include "binding.h"

static df_run *run_arg(lua_State *L) { return dfb_arg(L, 1, DFB_RUN); }

/* state, {reason, breakpoint, node, frame, iteration, dead} */
static int push_stop(lua_State *L, int32_t state, const df_stop *s) {
  lua_pushinteger(L, state);
  lua_createtable(L, 0, 6);
  dfb_set_int(L, "reason", s->reason);
  dfb_set_int(L, "breakpoint", s->breakpoint);
  dfb_set_int(L, "node", s->node);
  dfb_set_int(L, "frame", s->frame);
  dfb_set_int(L, "iteration", s->iteration);
  dfb_set_bool(L, "dead", s->dead);
  return 2;
}

static int core_run_pause(lua_State *L) {
  df_stop stop;
  int32_t state = df_run_pause(run_arg(L), &stop);
  return push_stop(L, state, &stop);
}

/* run_resume(r, step, n) */
static int core_run_resume(lua_State *L) {
  df_run_resume(run_arg(L), (int32_t)luaL_optinteger(L, 2, 0), luaL_optinteger(L, 3, 1));
  return 0;
}

/* run_patience(r, seconds) */
static int core_run_patience(lua_State *L) {
  df_run_patience(run_arg(L), luaL_checknumber(L, 2));
  return 0;
}

/* run_at(r): a node, or -1 */
static int core_run_at(lua_State *L) {
  lua_pushinteger(L, df_run_at(run_arg(L)));
  return 1;
}

/* run_settle(r, seconds): state, stop */
static int core_run_settle(lua_State *L) {
  df_stop stop;
  dfb_state_of(L)->host_L = L;
  int32_t state = df_run_settle(run_arg(L), luaL_checknumber(L, 2), &stop);
  return push_stop(L, state, &stop);
}

/* run_break(r, nodes or nil, frame or nil, iteration or -1, conditions): number */
static int core_run_break(lua_State *L) {
  df_run *r = run_arg(L);
  int32_t buffer[64], n = -1, *nodes = NULL;
  if (!lua_isnoneornil(L, 2)) nodes = dfb_ints_arg(L, 2, &n, buffer, 64);
  df_error err;
  int32_t id = df_run_break(r, n, nodes, luaL_optstring(L, 3, NULL), luaL_optinteger(L, 4, -1),
                            (int32_t)luaL_optinteger(L, 5, 0), &err);
  if (!id) return dfb_raise(L, &err);
  lua_pushinteger(L, id);
  return 1;
}

/* run_remains(r): bytes that a run holds which is over and remains, or -1 */
static int core_run_remains(lua_State *L) {
  lua_pushinteger(L, df_run_remains(run_arg(L)));
  return 1;
}

static int core_run_forget(lua_State *L) {
  df_run_forget(run_arg(L));
  return 0;
}

static int core_run_unbreak(lua_State *L) {
  lua_pushboolean(L, df_run_unbreak(run_arg(L), (int32_t)luaL_optinteger(L, 2, 0)));
  return 1;
}

/* run_look(r): a snapshot, of which the following take what is wanted: a run may have a million iterations */
static int core_run_look(lua_State *L) {
  df_error err;
  df_run *r = run_arg(L);
  dfb_box *b = dfb_push_box(L, DFB_SNAPSHOT);
  b->p = df_run_look(r, &err);
  return b->p ? 1 : dfb_raise(L, &err);
}

/* run_frames(r, frame): the same, with frames alone: of all, or of one and those around it */
static int core_run_frames(lua_State *L) {
  df_error err;
  df_run *r = run_arg(L);
  int32_t frame = (int32_t)luaL_optinteger(L, 2, -1);
  dfb_box *b = dfb_push_box(L, DFB_SNAPSHOT);
  b->p = df_run_frames(r, frame, &err);
  return b->p ? 1 : dfb_raise(L, &err);
}

static const df_snapshot *snapshot_arg(lua_State *L) { return dfb_arg(L, 1, DFB_SNAPSHOT); }

/* snapshot_frames(s): how many frames it has */
static int core_snapshot_frames(lua_State *L) {
  lua_pushinteger(L, snapshot_arg(L)->nframes);
  return 1;
}

static void set_tokens(lua_State *L, const df_frame_info *f) {
  dfb_set_int(L, "live", f->live);   dfb_set_int(L, "dead", f->dead);   dfb_set_int(L, "running", f->running);
  dfb_set_int(L, "partial", f->partial);                            dfb_set_int(L, "deferred", f->deferred);
}

static const df_frame_info *frame_arg(lua_State *L, const df_snapshot *s) {
  int64_t i = luaL_checkinteger(L, 2);
  luaL_argcheck(L, i >= 1 && i <= s->nframes, 2, "no such frame");
  return &s->frame[i - 1];
}

/* snapshot_frame(s, i, into): what is known of its frame i, from 1, put into a table; places in the list count from 1,
   0: none */
static int core_snapshot_frame(lua_State *L) {
  const df_frame_info *f = frame_arg(L, snapshot_arg(L));
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  dfb_set_int(L, "id", f->id);       dfb_set_int(L, "parent_iteration", f->parent_iteration);
  dfb_set_int(L, "first", f->first); dfb_set_int(L, "next", f->next);      dfb_set_int(L, "limit", f->limit);
  dfb_set_int(L, "around", f->around + 1);          dfb_set_int(L, "enters_missing", f->enters_missing);
  dfb_set_int(L, "inside", f->inside + 1);          dfb_set_int(L, "ninside", f->ninside);
  set_tokens(L, f);
  dfb_set_text(L, "name", f->name);  dfb_set_text(L, "where", f->where);
  return 0;
}

/* snapshot_place(s, id): the place of the frame of this serial number, or nil */
static int core_snapshot_place(lua_State *L) {
  const df_snapshot *s = snapshot_arg(L);
  int64_t id = luaL_checkinteger(L, 2);
  for (int32_t i = 0; i < s->nframes; i++)
    if (s->frame[i].id == id) { lua_pushinteger(L, i + 1); return 1; }
  return 0;
}

/* snapshot_sum(s, first, n): {frames, in_flight, live, dead, …} of n frames next to each other and all inside them */
static int core_snapshot_sum(lua_State *L) {
  df_frame_info sum;
  int32_t frames =
      df_snapshot_sum(snapshot_arg(L), (int32_t)luaL_checkinteger(L, 2) - 1, (int32_t)luaL_checkinteger(L, 3), &sum);
  lua_createtable(L, 0, 8);
  dfb_set_int(L, "frames", frames);
  dfb_set_int(L, "in_flight", sum.next);
  set_tokens(L, &sum);
  return 1;
}

/* snapshot_iterations(s, i): those of its frame i, from 1 */
static int core_snapshot_iterations(lua_State *L) {
  const df_snapshot *s = snapshot_arg(L);
  const df_frame_info *f = frame_arg(L, s);
  int32_t n = (int32_t)(f->next - f->first),
          end = f->iterations + n <= s->niterations ? f->iterations + n : f->iterations;
  lua_createtable(L, n, 0);
  for (int32_t k = f->iterations; k < end; k++) {
    const df_iteration_info *t = &s->iteration[k];
    lua_createtable(L, 0, 8);
    dfb_set_int(L, "number", t->number);   dfb_set_int(L, "ready", t->ready);
    dfb_set_int(L, "dead", t->dead);       dfb_set_int(L, "running", t->running); dfb_set_int(L, "partial", t->partial);
    dfb_set_int(L, "outstanding", t->outstanding);
    lua_rawseti(L, -2, k - f->iterations + 1);
  }
  return 1;
}

static void push_token(lua_State *L, const df_token_info *t) {
  lua_createtable(L, 0, 6);
  dfb_set_int(L, "node", t->node);   dfb_set_int(L, "frame", t->frame);     dfb_set_int(L, "iteration", t->iteration);
  dfb_set_int(L, "state", t->state); dfb_set_int(L, "missing", t->missing); dfb_set_bool(L, "dead", t->dead);
}

/* snapshot_tokens(s, node): all, or those of a node */
static int core_snapshot_tokens(lua_State *L) {
  const df_snapshot *s = snapshot_arg(L);
  int64_t node = luaL_optinteger(L, 2, -1);
  int32_t n = 0;
  lua_newtable(L);
  for (int32_t i = 0; i < s->ntokens; i++)
    if (node < 0 || s->token[i].node == node) { push_token(L, &s->token[i]); lua_rawseti(L, -2, ++n); }
  return 1;
}

static int core_snapshot_arrays(lua_State *L) {
  const df_snapshot *s = snapshot_arg(L);
  lua_createtable(L, s->narrays, 0);
  for (int32_t i = 0; i < s->narrays; i++) {
    const df_array_info *a = &s->array[i];
    lua_createtable(L, 0, 10);
    dfb_set_int(L, "node", a->node);   dfb_set_int(L, "frame", a->frame);     dfb_set_int(L, "iteration", a->iteration);
    dfb_set_int(L, "size", a->size);   dfb_set_int(L, "written", a->written); dfb_set_int(L, "bytes", a->bytes);
    dfb_set_int(L, "dtype", a->dtype); dfb_set_bool(L, "saved", a->saved);
    dfb_set_text(L, "name", a->name);  dfb_set_text(L, "where", a->where);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* run_ledger(r): {sent, ran, …}, as df_ledger has them */
static int core_run_ledger(lua_State *L) {
  df_error err;
  df_ledger d;
  if (df_run_ledger(run_arg(L), &d, &err)) return dfb_raise(L, &err);
  lua_createtable(L, 0, 16);
  dfb_set_int(L, "sent", d.sent);
  dfb_set_int(L, "ran", d.ran);
  dfb_set_int(L, "died", d.died);
  dfb_set_int(L, "live", d.live);
  dfb_set_int(L, "dead", d.dead);
  dfb_set_int(L, "running", d.running);
  dfb_set_int(L, "merged", d.merged);
  dfb_set_int(L, "ended", d.ended);
  dfb_set_int(L, "pending", d.pending); dfb_set_int(L, "owed", d.owed);       dfb_set_int(L, "lost", d.lost);
  dfb_set_int(L, "frames", d.open_frames);    dfb_set_int(L, "iterations", d.open_iterations);
  dfb_set_int(L, "nodes_run", d.nodes_run);   dfb_set_int(L, "dead_tokens", d.dead_tokens);
  return 1;
}

/* run_history(r, n): the tokens that ran last, newest first */
static int core_run_history(lua_State *L) {
  df_run *r = run_arg(L);
  int64_t n = luaL_checkinteger(L, 2);
  if (n < 0) n = 0;
  if (n > 1 << 20) n = 1 << 20;
  df_token_info *t = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *t, 0);
  int32_t found = df_run_history(r, (int32_t)n, t);
  lua_createtable(L, found, 0);
  for (int32_t i = 0; i < found; i++) { push_token(L, &t[i]); lua_rawseti(L, -2, i + 1); }
  return 1;
}

/* run_value(r, node, index, frame, iteration): the value; for a dead one nil, true */
static int core_run_value(lua_State *L) {
  df_value v;
  df_error err;
  if (df_run_value(run_arg(L), (int32_t)luaL_checkinteger(L, 2), (int32_t)luaL_checkinteger(L, 3),
                   (int32_t)luaL_checkinteger(L, 4), luaL_checkinteger(L, 5), &v, &err))
    return dfb_raise(L, &err);
  if (v.dead) {
    lua_pushnil(L);
    lua_pushboolean(L, 1);
    return 2;
  }
  dfb_push_value(L, &v);
  return 1;
}

/* run_waits_for(r, node, frame, iteration): state, {node, index, …} */
static int core_run_waits_for(lua_State *L) {
  int32_t pairs[128], state = 0;
  df_error err;
  int32_t n = df_run_waits_for(run_arg(L), (int32_t)luaL_checkinteger(L, 2), (int32_t)luaL_checkinteger(L, 3),
                               luaL_checkinteger(L, 4), &state, 64, pairs, &err);
  if (n < 0) return dfb_raise(L, &err);
  lua_pushinteger(L, state);
  dfb_push_ints(L, 2 * (n < 64 ? n : 64), pairs);
  return 2;
}

/* run_events(r, first, n): a flat list, ten numbers an event: at, took, iteration, memory, node, frame, scope, kind,
   dead, device */
static int core_run_events(lua_State *L) {
  df_run *r = run_arg(L);
  int64_t first = luaL_checkinteger(L, 2), n = luaL_checkinteger(L, 3);
  if (n < 0) n = 0;
  if (n > 1 << 16) n = 1 << 16;
  df_event *e = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *e, 0);
  int64_t found = df_run_events(r, first, n, e);
  if (found < n) n = found;
  lua_createtable(L, (int)n * 10, 0);
  for (int64_t i = 0; i < n; i++) {
    const int64_t fields[] = { e[i].at,    e[i].took,  e[i].iteration, e[i].memory, e[i].node,
                               e[i].frame, e[i].scope, e[i].kind,      e[i].dead,   e[i].device };
    for (int32_t f = 0; f < 10; f++) { lua_pushinteger(L, fields[f]); lua_rawseti(L, -2, i * 10 + f + 1); }
  }
  return 1;
}

/* run_events_lost(r): events that the log had no room for */
static int core_run_events_lost(lua_State *L) {
  lua_pushinteger(L, df_run_events_lost(run_arg(L)));
  return 1;
}

/* run_scope(r, i): name and Lua line of a loop, or nil */
static int core_run_scope(lua_State *L) {
  const char *where = "", *name = df_run_scope(run_arg(L), (int32_t)luaL_checkinteger(L, 2), &where);
  if (!name) return 0;
  lua_pushstring(L, name);
  lua_pushstring(L, where);
  return 2;
}

const luaL_Reg dfb_watch_functions[] = {
  { "run_pause", core_run_pause },     { "run_resume", core_run_resume },   { "run_settle", core_run_settle },
  { "run_patience", core_run_patience }, { "run_at", core_run_at },
  { "run_break", core_run_break },     { "run_unbreak", core_run_unbreak }, { "run_look", core_run_look },
  { "run_remains", core_run_remains }, { "run_forget", core_run_forget },
  { "run_history", core_run_history }, { "run_value", core_run_value },     { "run_waits_for", core_run_waits_for },
  { "run_events", core_run_events },   { "run_events_lost", core_run_events_lost },
  { "run_scope", core_run_scope },     { "run_frames", core_run_frames },     { "run_ledger", core_run_ledger },
  { "snapshot_frames", core_snapshot_frames },   { "snapshot_frame", core_snapshot_frame },
  { "snapshot_place", core_snapshot_place },     { "snapshot_sum", core_snapshot_sum },
  { "snapshot_iterations", core_snapshot_iterations },
  { "snapshot_tokens", core_snapshot_tokens },   { "snapshot_arrays", core_snapshot_arrays },
  { NULL, NULL }
};
