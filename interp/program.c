/* program.c: the Lua module `dflow.program`, which only the `dflow` program has: what the prompt's Lua side
 * (stdlib/dflow/repl.lua) needs of the terminal and of the system. The loop that reads, runs and prints is Lua's.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <lauxlib.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <readline/history.h>

#include "program.h"
#include "prompt.h"

enum { HISTORY_ENTRIES = 10000 };

static program_options options;
static bool editing;                    /* a terminal on both sides that can move its cursor: readline is in charge */

/* ---- reading ----------------------------------------------------------------------------------- */

static int push_read(lua_State *L, prompt_end end, char *text) {
  if (end == PROMPT_READ) lua_pushstring(L, text);
  else if (end == PROMPT_INTERRUPTED) lua_pushboolean(L, 0);
  else lua_pushnil(L);
  free(text);
  return 1;
}

/* read(prompt, more, given): a whole chunk from the editor; nil when the input ends, false when Ctrl-C dropped it. One
 * that is given is shown as if it were typed. */
static int l_read(lua_State *L) {
  const char *prompt = luaL_checkstring(L, 1), *more = luaL_checkstring(L, 2), *given = luaL_optstring(L, 3, NULL);
  char *text = NULL;
  luaL_checkstack(L, 64, "the prompt needs room");
  lua_State *outer = prompt_lua;
  prompt_lua = L;
  prompt_end end = prompt_read(prompt, more, given, &text);
  prompt_lua = outer;
  return push_read(L, end, text);
}

static void on_interrupt(int number) {
  (void)number;
  program_interrupted = 1;
}

/* line(prompt): one line of standard input as it comes. */
static int l_line(lua_State *L) {
  fputs(luaL_checkstring(L, 1), stdout);
  fflush(stdout);
  struct sigaction act = { .sa_handler = on_interrupt }, before;       /* no SA_RESTART: getline() returns */
  bool asks = isatty(STDIN_FILENO);
  if (asks) sigaction(SIGINT, &act, &before);
  else program_interrupted = 0;
  size_t room = 0;
  char *line = NULL;
  ssize_t n = program_interrupted ? -1 : getline(&line, &room, stdin);
  prompt_end end = n >= 0 ? PROMPT_READ : program_interrupted ? PROMPT_INTERRUPTED : PROMPT_END;
  if (asks) sigaction(SIGINT, &before, NULL);
  program_interrupted = 0;
  if (n > 0 && line[n - 1] == '\n') line[n - 1] = '\0';
  if (end == PROMPT_INTERRUPTED) clearerr(stdin);
  if (end != PROMPT_READ) {
    fputc('\n', stdout);
    fflush(stdout);
  }
  return push_read(L, end, line);
}

/* ---- keys one at a time ------------------------------------------------------------------------ */

static struct termios before_keys;
static volatile sig_atomic_t keys_are_open;
static const int ends[] = { SIGTERM, SIGHUP };
static struct sigaction before_end[2];

/* The process is about to end: the terminal is left as it was. */
static void on_end(int number) {
  static const char back[] = "\033[?25h\033[?1049l";
  if (write(STDOUT_FILENO, back, sizeof back - 1) < 0) { /* the terminal is gone */ }
  tcsetattr(STDIN_FILENO, TCSANOW, &before_keys);
  signal(number, SIG_DFL);
  raise(number);
}

/* Unseen, on the other screen. Ctrl-Z is a key too: what it would leave behind is no screen to work on. */
static void keys_open(void) {
  if (keys_are_open || !editing || tcgetattr(STDIN_FILENO, &before_keys) != 0) return;
  struct termios raw = before_keys;
  struct sigaction act = { .sa_handler = on_end };
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;
  for (int i = 0; i < 2; i++) sigaction(ends[i], &act, &before_end[i]);
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  fputs("\033[?1049h\033[?25l", stdout);
  fflush(stdout);
  keys_are_open = 1;
}

static void keys_close(void) {
  if (!keys_are_open) return;
  fputs("\033[?25h\033[?1049l", stdout);
  fflush(stdout);
  tcsetattr(STDIN_FILENO, TCSANOW, &before_keys);
  for (int i = 0; i < 2; i++) sigaction(ends[i], &before_end[i], NULL);
  keys_are_open = 0;
}

/* call(f, ...): true and what f returns; or false, the message, and the error itself. Ctrl-C stops f. */
static int l_call(lua_State *L) {
  luaL_checkany(L, 1);
  int status = program_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (status != LUA_OK) keys_close();
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  if (status != LUA_OK) {
    lua_getfield(L, LUA_REGISTRYINDEX, PROGRAM_ERROR);
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, PROGRAM_ERROR);
  }
  return lua_gettop(L);
}

/* ---- the terminal ------------------------------------------------------------------------------ */

static bool wants_color(int file) {
  const char *no = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE"), *term = getenv("TERM");
  if (options.color >= 0) return options.color;
  if (no && no[0]) return false;
  if (force && force[0] && strcmp(force, "0") != 0) return true;
  return isatty(file) && term && term[0] && strcmp(term, "dumb") != 0;
}

/* terminal(): a table {editing, output, errors, color, error_color, utf8, columns, rows} */
static int l_terminal(lua_State *L) {
  int columns, rows;
  paint_size(&columns, &rows);
  lua_createtable(L, 0, 8);
  lua_pushboolean(L, editing);
  lua_setfield(L, -2, "editing");
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  lua_setfield(L, -2, "output");
  lua_pushboolean(L, isatty(STDERR_FILENO));
  lua_setfield(L, -2, "errors");
  lua_pushboolean(L, wants_color(STDOUT_FILENO));
  lua_setfield(L, -2, "color");
  lua_pushboolean(L, wants_color(STDERR_FILENO));
  lua_setfield(L, -2, "error_color");
  lua_pushboolean(L, strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
  lua_setfield(L, -2, "utf8");
  lua_pushinteger(L, columns);
  lua_setfield(L, -2, "columns");
  lua_pushinteger(L, rows);
  lua_setfield(L, -2, "rows");
  return 1;
}

/* open(editor): from now on `read` asks this table. */
static int l_open(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  bool first = lua_rawgetp(L, LUA_REGISTRYINDEX, &prompt_editor_key) == LUA_TNIL;
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &prompt_editor_key);
  if (first && editing) {
    prompt_open(L);
    history_open_file(HISTORY_ENTRIES);
  }
  return 0;
}

/* theme(style, sgr): how a style character looks, as the numbers of an SGR sequence. */
static int l_theme(lua_State *L) {
  paint_theme(luaL_checkstring(L, 1)[0], luaL_checkstring(L, 2));
  return 0;
}

/* ---- history ----------------------------------------------------------------------------------- */

static int l_remember(lua_State *L) {
  if (editing) history_remember(luaL_checkstring(L, 1));
  return 0;
}

/* history(): all entries, oldest first. */
static int l_history(lua_State *L) {
  lua_createtable(L, history_length, 0);
  for (int i = 0; i < history_length; i++) {
    HIST_ENTRY *entry = history_get(history_base + i);
    lua_pushstring(L, entry ? entry->line : "");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- the system -------------------------------------------------------------------------------- */

/* folder(path): the names in it, folders with a slash; nil when it cannot be read. */
static int l_folder(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  DIR *folder = opendir(path);
  if (folder == NULL) return 0;
  lua_newtable(L);
  int count = 0;
  struct dirent *entry;
  while ((entry = readdir(folder)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    struct stat about;
    bool is_folder = fstatat(dirfd(folder), entry->d_name, &about, 0) == 0 && S_ISDIR(about.st_mode);
    lua_pushfstring(L, "%s%s", entry->d_name, is_folder ? "/" : "");
    lua_rawseti(L, -2, ++count);
  }
  closedir(folder);
  return 1;
}

static int l_make_folder(lua_State *L) {
  lua_pushboolean(L, mkdir(luaL_checkstring(L, 1), 0700) == 0 || errno == EEXIST);
  return 1;
}

static int l_clock(lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  lua_pushnumber(L, (lua_Number)now.tv_sec + (lua_Number)now.tv_nsec * 1e-9);
  return 1;
}

/* keys(yes): keys one at a time and unseen, on the other screen; or all as it was. */
static int l_keys(lua_State *L) {
  if (lua_toboolean(L, 1)) keys_open();
  else keys_close();
  lua_pushboolean(L, keys_are_open);
  return 1;
}

/* key(seconds): the next key, or nil when none was pressed meanwhile (or the window changed its size). */
static int l_key(lua_State *L) {
  struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
  char c;
  if (poll(&in, 1, (int)(luaL_checknumber(L, 1) * 1000)) <= 0 || read(STDIN_FILENO, &c, 1) != 1) return 0;
  lua_pushlstring(L, &c, 1);
  return 1;
}

/* hold(yes): from now on Ctrl-C only shows in interrupted(). Returns what it was before. */
static int l_hold(lua_State *L) {
  bool before = program_holds;
  program_hold(lua_toboolean(L, 1));
  lua_pushboolean(L, before);
  return 1;
}

/* interrupted(): was Ctrl-C pressed since it was last asked? */
static int l_interrupted(lua_State *L) {
  lua_pushboolean(L, program_interrupted);
  program_interrupted = 0;
  return 1;
}

/* late(): the same, for what was held and is over: then `interrupted!` is to be raised. */
static int l_late(lua_State *L) {
  lua_pushboolean(L, program_late());
  return 1;
}

/* stopping(): was Ctrl-C pressed, and the Lua code not stopped for it yet? */
static int l_stopping(lua_State *L) {
  lua_pushboolean(L, program_stopping());
  return 1;
}

static int l_heed(lua_State *L) {
  program_heed(L);
  return 0;
}

static int l_heard(lua_State *L) {
  (void)L;
  program_heard();
  return 0;
}

static int l_pid(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}

/* lock(path): true when the file is locked now, until this process ends; false when another process has it. */
static int l_lock(lua_State *L) {
  int file = open(luaL_checkstring(L, 1), O_RDWR | O_CLOEXEC);
  bool locked = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
  if (file >= 0 && !locked) close(file);
  lua_pushboolean(L, locked);
  return 1;
}

int luaopen_dflow_program(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "read", l_read },         { "line", l_line },         { "call", l_call },
    { "terminal", l_terminal }, { "open", l_open },         { "theme", l_theme },
    { "remember", l_remember }, { "history", l_history },   { "folder", l_folder },
    { "make_folder", l_make_folder }, { "clock", l_clock }, { "pid", l_pid },
    { "lock", l_lock },         { "hold", l_hold },         { "interrupted", l_interrupted },
    { "late", l_late },         { "stopping", l_stopping },
    { "heed", l_heed },         { "heard", l_heard },
    { "keys", l_keys },         { "key", l_key },
    { NULL, NULL }
  };
  luaL_newlib(L, functions);
  program_capture(L);
  return 1;
}

/* ---- the prompt -------------------------------------------------------------------------------- */

/* $XDG_CONFIG_HOME/dflow/init.lua, where there is one. The module dflow.repl stays below on the stack. */
static void run_init_file(lua_State *L) {
  const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  if (config && config[0] == '/') lua_pushfstring(L, "%s/dflow/init.lua", config);
  else if (home && home[0]) lua_pushfstring(L, "%s/.config/dflow/init.lua", home);
  else return;
  const char *path = lua_tostring(L, -1);
  if (access(path, R_OK) == 0) {
    struct stat s;
    int status = LUA_ERRFILE;
    if (stat(path, &s) == 0 && S_ISFIFO(s.st_mode))         /* the prompt would wait for its writer */
      lua_pushfstring(L, "cannot read %s: it is a pipe, not a file", path);
    else
      status = luaL_loadfile(L, path);
    if (status == LUA_OK) status = program_call(L, 0, 0);
    program_report(L, status);
  }
  lua_settop(L, 1);
}

void program_repl(lua_State *L, const program_options *given) {
  const char *term = getenv("TERM");
  options = *given;
  program_interactive = true;
  signal(SIGINT, on_interrupt);        /* between reading and running it means nothing */
  setlocale(LC_CTYPE, "");
  editing = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
  lua_settop(L, 0);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "dflow.repl");
  int status = lua_pcall(L, 1, 1, 0);
  if (status == LUA_OK) {
    lua_getfield(L, -1, "open");
    status = lua_pcall(L, 0, 0, 0);
  }
  if (status == LUA_OK) {
    if (!options.ignore_environment) run_init_file(L);      /* `repl` is there: it may add commands, choose a theme */
    lua_getfield(L, 1, "main");
    lua_pushboolean(L, options.resume);
    status = lua_pcall(L, 1, 0, 0);
  }
  program_report(L, status);
  lua_settop(L, 0);
}
