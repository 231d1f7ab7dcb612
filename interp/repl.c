/* repl.c: the prompt of the `dflow` program.
 *
 * Reads a chunk (one line, or more while the parser is waiting for them), runs it and prints what it gives. What a
 * value looks like, what `?name` and `:command` say is Lua's business (stdlib/dflow/repl.lua); here are the terminal,
 * the history and Ctrl-C. With a terminal on both sides readline edits the line; otherwise lines are read as they
 * come and prompts are plain text, so that a session can be piped.
 *
 * Readline is driven through its callbacks: the loop below waits in poll(), so that Ctrl-C at the prompt is an
 * ordinary event (the line is dropped) and no signal handler ever touches readline.
 */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "program.h"

static const char PROMPT[] = "dflow> ", MORE[] = "  ... ";
enum { HISTORY_ENTRIES = 10000 };

static bool  editing;                 /* a terminal on both sides: readline is in charge */
static char  history_path[PATH_MAX];  /* "" when there is no place for it */

/* ---- one line ---------------------------------------------------------------------------------- */

typedef enum line_state { LINE_READ, LINE_END, LINE_INTERRUPTED } line_state;

static char *edited;                  /* what readline handed over; malloced */
static bool  edited_done;

static void on_line(char *line) {
  edited = line;
  edited_done = true;
  rl_callback_handler_remove();       /* the terminal is itself again while the chunk runs */
}

static void on_prompt_interrupt(int number) {
  (void)number;
  program_interrupted = 1;
}

static line_state edit_line(const char *prompt, char **line) {
  struct sigaction act = { .sa_handler = on_prompt_interrupt }, before;   /* no SA_RESTART: poll() returns */
  sigaction(SIGINT, &act, &before);
  program_interrupted = 0;
  edited_done = false;
  edited = NULL;
  rl_callback_handler_install(prompt, on_line);
  while (!edited_done && !program_interrupted) {
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    if (poll(&in, 1, -1) > 0) rl_callback_read_char();
    else if (errno == EINTR && !program_interrupted) rl_resize_terminal();
  }
  bool interrupted = !edited_done;
  if (interrupted) {
    rl_callback_sigcleanup();
    rl_callback_handler_remove();
    fputs("^C\n", stdout);
    fflush(stdout);
  }
  sigaction(SIGINT, &before, NULL);
  program_interrupted = 0;
  if (interrupted) return LINE_INTERRUPTED;
  if (edited == NULL) {
    fputc('\n', stdout);
    return LINE_END;
  }
  *line = edited;
  return LINE_READ;
}

static line_state plain_line(const char *prompt, char **line) {
  fputs(prompt, stdout);
  fflush(stdout);
  size_t room = 0;
  *line = NULL;
  ssize_t n = getline(line, &room, stdin);
  if (n < 0) {
    free(*line);
    fputc('\n', stdout);
    return LINE_END;
  }
  if (n > 0 && (*line)[n - 1] == '\n') (*line)[n - 1] = '\0';
  return LINE_READ;
}

/* Leaves the line on the stack when it says LINE_READ. */
static line_state read_line(lua_State *L, const char *prompt) {
  char *line = NULL;
  line_state state = editing ? edit_line(prompt, &line) : plain_line(prompt, &line);
  if (state == LINE_READ) {
    lua_pushstring(L, line);
    free(line);
  }
  return state;
}

/* ---- history: one file in the XDG state directory, entries of several lines kept whole -------------- */

static bool make_folder(const char *path) {
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static void open_history(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char folder[PATH_MAX - 16];
  int n = -1;
  if (state && state[0] == '/') {
    n = snprintf(folder, sizeof folder, "%s", state);
  } else if (home && home[0]) {
    n = snprintf(folder, sizeof folder, "%s/.local", home);
    if (n < 0 || n >= (int)sizeof folder || !make_folder(folder)) return;
    n = snprintf(folder, sizeof folder, "%s/.local/state", home);
  }
  if (n < 0 || n + 8 >= (int)sizeof folder || !make_folder(folder)) return;
  strcat(folder, "/dflow");
  if (!make_folder(folder)) return;
  snprintf(history_path, sizeof history_path, "%s/history", folder);
  int file = open(history_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) {
    history_path[0] = '\0';
    return;
  }
  close(file);
  history_comment_char = '#';          /* time stamps stand between the entries, so lines of one stay together */
  history_write_timestamps = 1;
  stifle_history(HISTORY_ENTRIES);
  read_history(history_path);
}

/* Appended at once: two prompts share the file, and nothing is lost when one is killed. */
static void remember(const char *chunk) {
  if (!editing || chunk[0] == '\0') return;
  using_history();
  HIST_ENTRY *last = history_length > 0 ? history_get(history_base + history_length - 1) : NULL;
  if (last && strcmp(last->line, chunk) == 0) return;
  add_history(chunk);
  if (history_path[0]) append_history(1, history_path);
}

/* ---- a chunk ----------------------------------------------------------------------------------- */

/* True when the message on top says that the chunk ended too early. */
static bool incomplete(lua_State *L, int status) {
  if (status != LUA_ERRSYNTAX) return false;
  size_t n;
  const char *text = lua_tolstring(L, -1, &n);
  static const char mark[] = "<eof>";
  return n >= sizeof mark - 1 && strcmp(text + n - (sizeof mark - 1), mark) == 0;
}

static int load(lua_State *L, const char *text, size_t n) {
  return luaL_loadbufferx(L, text, n, "=stdin", "t");
}

/* Has the text at index `line`; leaves the compiled chunk, or the message, above it; `line` becomes the whole text.
 * An expression is tried first, so that it gives its value without `return` or `=`. While either of the two readings
 * only wants more, more is read. */
static int load_chunk(lua_State *L, int line, line_state *state) {
  for (;;) {
    size_t n;
    const char *text = lua_tolstring(L, line, &n);
    const char *expression = lua_pushfstring(L, "return %s", text[0] == '=' ? text + 1 : text);
    int status = load(L, expression, strlen(expression));
    lua_remove(L, -2);
    if (status == LUA_OK) return status;
    bool more = incomplete(L, status);
    lua_pop(L, 1);
    status = load(L, text, n);
    if (status == LUA_OK || !(more || incomplete(L, status))) return status;
    *state = read_line(L, MORE);
    if (*state == LINE_END) return status;      /* what there is, is all there will be: keep the message */
    if (*state == LINE_INTERRUPTED) return LUA_OK;
    lua_pushvalue(L, line);
    lua_pushliteral(L, "\n");
    lua_rotate(L, -3, 2);
    lua_concat(L, 3);
    lua_replace(L, line);
    lua_settop(L, line);
  }
}

/* Calls function `name` of the module dflow.repl with the `nargs` values on top, popping them; its one result stays
 * on the stack when all is well. */
static int ask_lua(lua_State *L, const char *name, int nargs) {
  int base = lua_gettop(L) - nargs + 1;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "dflow.repl");
  int status = program_call(L, 1, 1);
  if (status == LUA_OK) {
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    lua_insert(L, base);
    status = program_call(L, nargs, 1);
  }
  if (program_report(L, status) != LUA_OK) lua_settop(L, base - 1);
  return status;
}

/* `?name` and `:command`; a label `::name::` is Lua. False when the prompt is to be left. */
static bool is_command(const char *line) {
  return line[0] == '?' || (line[0] == ':' && line[1] != ':');
}

static bool run_command(lua_State *L, const char *line) {
  lua_pushstring(L, line);
  if (ask_lua(L, "command", 1) != LUA_OK) return true;
  bool stay = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return stay;
}

/* $XDG_CONFIG_HOME/dflow/init.lua, where there is one. */
static void run_init_file(lua_State *L) {
  const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  if (config && config[0] == '/') lua_pushfstring(L, "%s/dflow/init.lua", config);
  else if (home && home[0]) lua_pushfstring(L, "%s/.config/dflow/init.lua", home);
  else return;
  const char *path = lua_tostring(L, -1);
  if (access(path, R_OK) == 0) {
    int status = luaL_loadfile(L, path);
    if (status == LUA_OK) status = program_call(L, 0, 0);
    program_report(L, status);
  }
  lua_settop(L, 0);
}

void program_repl(lua_State *L, bool ignore_environment) {
  program_now_interactive();
  editing = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  if (editing) {
    rl_readline_name = "dflow";
    rl_catch_signals = 0;
    rl_outstream = stdout;
    open_history();
  }
  if (!ignore_environment) run_init_file(L);
  lua_settop(L, 0);
  for (;;) {
    line_state state = read_line(L, PROMPT);
    if (state == LINE_END) break;
    if (state == LINE_INTERRUPTED) continue;
    const char *line = lua_tostring(L, 1);
    if (is_command(line)) {
      remember(line);
      bool stay = run_command(L, line);
      lua_settop(L, 0);
      if (!stay) break;
      continue;
    }
    int status = load_chunk(L, 1, &state);
    remember(lua_tostring(L, 1));
    if (state != LINE_INTERRUPTED) {
      if (status == LUA_OK) status = program_call(L, 0, LUA_MULTRET);
      if (program_report(L, status) == LUA_OK && lua_gettop(L) > 1) ask_lua(L, "show", lua_gettop(L) - 1);
    }
    program_interrupted = 0;
    lua_settop(L, 0);
    if (state == LINE_END) break;
  }
}
