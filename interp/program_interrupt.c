/* program_interrupt.c: how the program calls Lua code and prints its errors, and how Ctrl-C ends it.
 *
 * The handler may come at any instruction. It sets flags, asks the library's calls to end early, and gives the Lua
 * thread that is running a hook, which raises the error between two of its instructions. A hook is one thread's: so
 * that a coroutine is stopped too, resume and wrap are ours, and say which one runs.
 */
#include <lauxlib.h>
#include <signal.h>
#include <stdio.h>

#include "dflow.h"
#include "program.h"

volatile sig_atomic_t program_interrupted;
volatile sig_atomic_t program_signals;
volatile sig_atomic_t program_holds;
bool program_interactive;
const char *program_name = "dflow";
static lua_State *volatile running;        /* the thread that Ctrl-C stops */
static volatile sig_atomic_t armed;        /* it has a hook that does */
static volatile sig_atomic_t heard;        /* a call of the library has ended by it */
/* 1: a hook has stopped it, and it still runs: something caught the error; 2: and Ctrl-C came again */
static volatile sig_atomic_t stopped;

/* Replaces a message of Lua's own on top of the stack by what dflow.front.errors makes of it: with the line that it is
 * about, and a hint. As it is where that fails. Are the callers of that line in it, too? */
bool program_explain(lua_State *L) {
  int top = lua_gettop(L);
  bool with_callers = false;
  if (lua_type(L, top) != LUA_TSTRING || !lua_checkstack(L, 8)) return false;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "dflow.front.errors") == LUA_TTABLE && lua_getfield(L, -1, "explain") == LUA_TFUNCTION) {
    lua_pushvalue(L, top);
    if (lua_pcall(L, 1, 2, 0) == LUA_OK && lua_type(L, -2) == LUA_TSTRING) {
      with_callers = lua_toboolean(L, -1);
      lua_pop(L, 1);
      lua_replace(L, top);
    }
  }
  lua_settop(L, top);
  return with_callers;
}

void program_message(const char *text) {
  fflush(stdout);
  df_status_line(NULL);
  if (!program_interactive) fprintf(stderr, "%s: ", program_name);
  fprintf(stderr, "%s\n", text);
  fflush(stderr);
}

int program_report(lua_State *L, int status) {
  if (status != LUA_OK) {
    const char *text = lua_tostring(L, -1);
    program_message(text ? text : "(error message is not a string)");
    lua_pop(L, 1);
  }
  return status;
}

/* A string gets a traceback; a table with __tostring, such as every dflow error, is its own whole message. */
static int message_handler(lua_State *L) {
  lua_pushvalue(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, PROGRAM_ERROR);
  if (!program_interrupted && program_explain(L)) return 1;
  const char *text = lua_tostring(L, -1);
  if (text == NULL) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
    text = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  }
  luaL_traceback(L, L, text, 1);
  return 1;
}

/* What cleans up after an error is Lua too, so the first error is the only one. Where a loop catches it and goes on,
 * the next Ctrl-C gives an error at every instruction, which nothing survives that catches errors. */
static void stop(lua_State *L, lua_Debug *ar) {
  (void)ar;
  if (stopped < 2) {
    lua_sethook(L, NULL, 0, 0);
    stopped = 1;
  }
  armed = 0;
  luaL_error(L, "interrupted!");
}

/* A cancelled run raises its own error, which knows node and iteration: the hook leaves it 10,000 instructions to
 * reach the top before Lua code that was not in a run is stopped. */
static void interrupt(void) {
  program_interrupted = 1;
  if (program_interactive) df_interrupt_calls();       /* runs in the background are not what one waits for */
  else df_interrupt();
  if (program_holds) return;            /* the prompt watches a run, and asks */
  if (stopped == 1) stopped = 2;
  armed = 1;
  heard = 0;
  lua_sethook(running, stop, LUA_MASKCOUNT, stopped ? 1 : 10000);
}

static void on_interrupt(int number) {
  if (!program_interactive) signal(number, SIG_DFL);   /* a second one ends a script at once */
  program_signals = (program_signals + 1) & 0xFFFF;
  interrupt();
}

void program_hold(bool yes) {
  program_holds = yes;
  if (!yes || !armed) return;
  lua_sethook(running, NULL, 0, 0);     /* it came just before: the holder will see program_interrupted */
  armed = 0;
}

bool program_late(void) {
  if (!program_interrupted) return false;
  program_interrupted = 0;
  if (stopped) {
    stopped = 2;
    lua_sethook(running, stop, LUA_MASKCOUNT, 1);
  } else {
    stopped = 1;
  }
  return true;
}

void program_heed(lua_State *L) {
  if (armed && !heard) stop(L, NULL);
}
void program_heard(void) { heard = 1; }

bool program_stopping(void) { return armed || (program_holds && program_interrupted); }

int program_call(lua_State *L, int nargs, int nresults) {
  int base = lua_gettop(L) - nargs;
  lua_pushcfunction(L, message_handler);
  lua_insert(L, base);
  lua_State *outer = running;
  bool held = program_holds;
  running = L;
  armed = stopped = 0;
  program_holds = 0;
  struct sigaction ours = { .sa_handler = on_interrupt }, before;      /* no SA_RESTART: a wait for a pipe goes on */
  sigaction(SIGINT, &ours, &before);
  if (program_interrupted && program_interactive) interrupt();      /* it came between Enter and here */
  int status = lua_pcall(L, nargs, nresults, base);
  sigaction(SIGINT, &before, NULL);
  lua_sethook(L, NULL, 0, 0);
  /* a script that ends before its hook comes was interrupted all the same */
  if (status == LUA_OK && armed && !program_interactive) {
    lua_settop(L, base);
    lua_pushliteral(L, "interrupted!");
    status = LUA_ERRRUN;
  }
  armed = stopped = 0;
  program_holds = held;
  running = outer;
  lua_remove(L, base);
  return status;
}

/* ---- coroutines -------------------------------------------------------------------------------- */

static lua_CFunction plain_resume;

/* From `co` back to `outer`; a hook that has not come yet goes along. */
static void back_to(lua_State *outer, lua_State *co) {
  running = outer;
  if (lua_gethook(co) == stop) lua_sethook(co, NULL, 0, 0);
  if (outer && (armed || stopped == 2)) lua_sethook(outer, stop, LUA_MASKCOUNT, stopped ? 1 : 10000);
}

/* coroutine.resume */
static int l_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1), *outer = running;
  if (!co) return plain_resume(L);         /* which says so */
  running = co;
  int n = plain_resume(L);
  back_to(outer, co);
  return n;
}

/* What coroutine.wrap gives: lua(1)'s own to the letter, but for `running`. */
static int l_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1)), *outer = running;
  int nargs = lua_gettop(L), n = 0;
  bool fine = false;
  if (!lua_checkstack(co, nargs)) {
    lua_pushliteral(L, "too many arguments to resume");
  } else {
    lua_xmove(L, co, nargs);
    running = co;
    int status = lua_resume(co, L, nargs, &n);
    back_to(outer, co);
    fine = status == LUA_OK || status == LUA_YIELD;
    if (!fine) {
      lua_xmove(co, L, 1);
    } else if (!lua_checkstack(L, n + 1)) {
      lua_pop(co, n);
      lua_pushliteral(L, "too many results to resume");
      fine = false;
    } else {
      lua_xmove(co, L, n);
    }
  }
  if (fine) return n;
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_pop(L, 1);
    status = lua_resetthread(co);          /* closes what it was to close */
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

/* coroutine.wrap */
static int l_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, l_wrapped, 1);
  return 1;
}

void program_coroutines(lua_State *L) {
  lua_getglobal(L, "coroutine");
  lua_getfield(L, -1, "resume");
  plain_resume = lua_tocfunction(L, -1);
  lua_pushcfunction(L, l_resume);
  lua_setfield(L, -3, "resume");
  lua_pushcfunction(L, l_wrap);
  lua_setfield(L, -3, "wrap");
  lua_pop(L, 2);
}
