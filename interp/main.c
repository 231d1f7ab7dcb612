/* main.c: the `dflow` program: lua(1)'s options, with dflow in the house.
 *
 * What lua(1) 5.4 does with an option, a script, `arg`, LUA_INIT, standard input and its exit status, this does
 * too; spec/program/program_spec.lua compares the two. On top of it: the module is found beside the executable, in the
 * build tree or where `make install` put it; `df` and the four builtins are globals; --help and --version; and Ctrl-C
 * cancels the graph that is running, which ends a script with status 130.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dflow.h"
#include "program.h"
#include "prompt.h"

int luaopen_dflow_core(lua_State *L);

enum {
  OPT_ERROR = 1, OPT_INTERACTIVE = 2, OPT_VERSION = 4, OPT_EXECUTE = 8, OPT_NO_ENV = 16, OPT_HELP = 32,
  OPT_LONG_VERSION = 64, OPT_RESUME = 128, OPT_CHECK = 256, OPT_LOOK = 512, OPT_PRINT = 1024, OPT_KERNEL = 2048,
  OPT_AUTOGRAPH = 4096, OPT_SPMD = 8192, OPT_DAP = 16384, OPT_STRICT = 32768
};

static int         ranks;                  /* -n: 0 where it was not said */
static const char *hosts;                  /* --hosts=a,b; NULL: it was not said */
static int         color = -1;             /* --color: -1 auto, 0 never, 1 always */

/* ---- messages ---------------------------------------------------------------------------------- */

static void print_version(void) {
  printf("dflow %s  dynamic dataflow for %s\n", df_version(), LUA_RELEASE);
  fflush(stdout);
}

/* What the prompt begins with, broken between words where the terminal is narrow. */
static void program_welcome(void) {
  char text[160];
  int columns, rows, at = 0, from = 0, n;
  paint_size(&columns, &rows);
  snprintf(text, sizeof text, "dflow %s  dynamic dataflow for %s  (help, ?name, Tab; exit)", df_version(), LUA_RELEASE);
  for (; text[from]; from += n) {
    const int blanks = (int)strspn(text + from, " ");
    n = blanks + (int)strcspn(text + from + blanks, " ");
    const bool fits = at + n <= columns;
    printf("%s%.*s", fits ? "" : "\n", fits ? n : n - blanks, text + from + (fits ? 0 : blanks));
    at = fits ? at + n : n - blanks;
  }
  putchar('\n');
  fflush(stdout);
}

static const char usage_text[] =
  "usage: %s [options] [script [args]]\n"
  "Available options are:\n"
  "  -e stat   execute string 'stat'\n"
  "  -i        enter interactive mode after executing 'script'\n"
  "  -l mod    require library 'mod' into global 'mod'\n"
  "  -l g=mod  require library 'mod' into global 'g'\n"
  "  -v        show version information\n"
  "  -E        ignore environment variables\n"
  "  -W        turn warnings on\n"
  "  --        stop handling options\n"
  "  -         stop handling options and execute stdin\n"
  "  --help    show this text\n"
  "  -n ranks  start so many ranks first: this process and workers on this host\n"
  "  --hosts=a,b  start ranks on other hosts first, by ssh (DFLOW_RSH)\n"
  "  --spmd    every rank runs the script, and all make the same runs\n"
  "  --restarts n -- command  run a command, again where it fails: at most n times more\n"
  "  -p        read standard input as the prompt would, and show the values of its expressions\n"
  "  --version show version information\n"
  "  run graph      run a TensorFlow graph: see run --help\n"
  "  inspect graph  show what is in a TensorFlow graph: see inspect --help\n"
  "  learn [n]      fourteen lessons, from the first or the n-th on\n"
  "  manual [area]  a page about an area (nn, rnn, train, data …), or the list of them\n"
  "  --check   look at the scripts for Outputs taken for Lua booleans, and run nothing\n"
  "  --autograph  if, while and for on Outputs build the graph, in the script or at the prompt\n"
  "  --strict  warnings about the script's lines are errors\n"
  "  --check-gradients  when all has run, check the gradients that were built\n"
  "  --kernel  the kernel of a Jupyter notebook, for a connection file\n"
  "  --dap     debug a script for an editor, by the Debug Adapter Protocol on standard input and output\n"
  "  --resume  interactive mode, with the inputs of the session that ended last\n"
  "  --color=when   colours at the prompt: auto, always or never\n";

static void print_usage(const char *bad) {
  fflush(stdout);
  fprintf(stderr, "%s: ", program_name);
  if (bad[1] == 'n') fprintf(stderr, "'-n' needs the number of ranks, 1 to %d\n", df_cluster_most());
  else if (bad[1] == 'e' || bad[1] == 'l') fprintf(stderr, "'%s' needs argument\n", bad);
  else fprintf(stderr, "unrecognized option '%s'\n", bad);
  fprintf(stderr, usage_text, program_name);
}

/* ---- where the Lua side lives ---------------------------------------------------------------------- */

/* Cuts the last component off a path. */
static bool up(char *path) {
  char *slash = strrchr(path, '/');
  if (!slash || slash == path) return false;
  *slash = '\0';
  return true;
}

/* Puts `what` in front of package.`field`, unless it is there already. */
static void prepend(lua_State *L, const char *field, const char *what) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, field);
  const char *old = lua_tostring(L, -1);
  if (old && !strstr(old, what)) {
    lua_pushfstring(L, "%s;%s", what, old);
    lua_setfield(L, -3, field);
  }
  lua_pop(L, 2);
}

/* The executable is <tree>/build/<mode>/dflow or <prefix>/bin/dflow; the modules are in <tree>/stdlib or in
 * <prefix>/share/lua/5.4. */
static void set_paths(lua_State *L) {
  char place[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", place, sizeof place - 1);
  if (n <= 0) return;
  place[n] = '\0';
  char beside[PATH_MAX];
  if (!up(place)) return;
  strcpy(beside, place);
  if (!up(place)) return;                               /* <tree>/build or <prefix> */
  char prefix[PATH_MAX];
  strcpy(prefix, place);
  if (up(place)) {
    const char *module = lua_pushfstring(L, "%s/stdlib/dflow.lua", place);
    bool in_tree = access(module, R_OK) == 0;
    lua_pop(L, 1);
    if (in_tree) {
      prepend(L, "path", lua_pushfstring(L, "%s/stdlib/?.lua", place));
      prepend(L, "cpath", lua_pushfstring(L, "%s/lua/?.so", beside));
      lua_pop(L, 2);
      return;
    }
  }
  const char *version = LUA_VERSION_MAJOR "." LUA_VERSION_MINOR;
  prepend(L, "path", lua_pushfstring(L, "%s/share/lua/%s/?.lua", prefix, version));
  prepend(L, "cpath", lua_pushfstring(L, "%s/lib/lua/%s/?.so", prefix, version));
  lua_pop(L, 2);
}

/* The binding is linked in, so that `require 'dflow'` finds the one that fits this program. */
static void preload_core(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_dflow_core);
  lua_setfield(L, -2, "dflow.core");
  lua_pushcfunction(L, luaopen_dflow_program);
  lua_setfield(L, -2, "dflow.program");
  lua_pop(L, 1);
}

static bool set_globals(lua_State *L) {
  static const char *const builtins[] = { "cond", "while_loop", "TensorArray", "gradients" };
  lua_getglobal(L, "require");
  lua_pushliteral(L, "dflow");
  if (program_report(L, program_call(L, 1, 1)) != LUA_OK) return false;
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
    lua_getfield(L, -1, builtins[i]);
    lua_setglobal(L, builtins[i]);
  }
  lua_setglobal(L, "df");
  return true;
}

/* On a terminal, while scripts run: a line tells how far a run is that takes its time. */
static void watch_runs(lua_State *L) {
  const char *term = getenv("TERM");
  if (!isatty(STDERR_FILENO) || !term || !term[0] || strcmp(term, "dumb") == 0) return;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "dflow.repl.waiting");
  if (program_report(L, lua_pcall(L, 1, 1, 0)) != LUA_OK) return;
  lua_getfield(L, -1, "begin");
  program_report(L, lua_pcall(L, 0, 0, 0));
  lua_pop(L, 1);
}

/* ---- options, as lua(1) reads them ----------------------------------------------------------------- */

/* `-n 4`: false where that is no number of ranks. */
static bool take_ranks(const char *number) {
  char *end = NULL;
  const long n = number ? strtol(number, &end, 10) : 0;
  ranks = n >= 1 && n <= df_cluster_most() ? (int)n : 0;
  return ranks && !*end;
}

/* `--color=when`: false where that is no such word. */
static bool take_color(const char *when) {
  static const char *const words[] = { "never", "always", "auto" };
  int k = 0;
  while (k < 3 && strcmp(when, words[k]) != 0) k++;
  if (k < 3) color = k == 2 ? -1 : k;
  return k < 3;
}

/* The OPT_ flags of an option that is a word; 0: there is none of that name. */
static int word_flags(const char *option) {
  static const struct { const char *name; int flags; } words[] = {
    { "--help", OPT_HELP }, { "--version", OPT_LONG_VERSION }, { "--check", OPT_LOOK }, { "--kernel", OPT_KERNEL },
    { "--dap", OPT_DAP }, { "--spmd", OPT_SPMD }, { "--autograph", OPT_AUTOGRAPH }, { "--check-gradients", OPT_CHECK },
    { "--resume", OPT_RESUME | OPT_INTERACTIVE }, { "--strict", OPT_STRICT },
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(option, words[i].name) == 0) return words[i].flags;
  return 0;
}

/* Returns the OPT_ flags; `first` becomes the index of the script, or of the option that is wrong. */
static int collect_options(char **argv, int *first) {
  int flags = 0, i;
  for (i = 1; argv[i] != NULL; i++) {
    *first = i;
    if (argv[i][0] != '-') return flags;
    switch (argv[i][1]) {
      case '\0': return flags;
      case '-':
        if (word_flags(argv[i])) { flags |= word_flags(argv[i]); break; }
        if (strncmp(argv[i], "--hosts=", 8) == 0) { hosts = argv[i] + 8; break; }
        if (strncmp(argv[i], "--color=", 8) == 0) {
          if (!take_color(argv[i] + 8)) return OPT_ERROR;
          break;
        }
        if (argv[i][2] != '\0') return OPT_ERROR;
        *first = i + 1;
        return flags;
      case 'E':
        if (argv[i][2] != '\0') return OPT_ERROR;
        flags |= OPT_NO_ENV;
        break;
      case 'i':
        flags |= OPT_INTERACTIVE;
        /* FALLTHROUGH */
      case 'v':
        if (argv[i][2] != '\0') return OPT_ERROR;
        flags |= OPT_VERSION;
        break;
      case 'W':
        if (argv[i][2] != '\0') return OPT_ERROR;
        break;
      case 'n':
        if (!take_ranks(argv[i][2] ? argv[i] + 2 : argv[i + 1])) return OPT_ERROR;
        if (argv[i][2] == '\0') i++;
        break;
      case 'p':
        if (argv[i][2] != '\0') return OPT_ERROR;
        flags |= OPT_PRINT;
        break;
      case 'e':
        flags |= OPT_EXECUTE;
        /* FALLTHROUGH */
      case 'l':
        if (argv[i][2] == '\0') {
          i++;
          if (argv[i] == NULL || argv[i][0] == '-') return OPT_ERROR;
        }
        break;
      default: return OPT_ERROR;
    }
  }
  *first = i;
  return flags;
}

static int do_chunk(lua_State *L, int status) {
  if (status == LUA_OK) status = program_call(L, 0, 0);
  else program_explain(L);
  return program_report(L, status);
}

/* The text that -e was given last, for what reads the source of functions. */
static void keep_command_line(lua_State *L, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, LUA_REGISTRYINDEX, "dflow.command_line");
}

static int do_string(lua_State *L, const char *text, const char *name) {
  return do_chunk(L, luaL_loadbuffer(L, text, strlen(text), name));
}

/* `-l mod` and `-l g=mod`. */
static int do_library(lua_State *L, const char *what) {
  const char *equals = strchr(what, '=');
  lua_getglobal(L, "require");
  lua_pushstring(L, equals ? equals + 1 : what);
  int status = program_call(L, 1, 1);
  if (status == LUA_OK) {
    lua_pushglobaltable(L);
    lua_pushlstring(L, what, equals ? (size_t)(equals - what) : strlen(what));
    lua_pushvalue(L, -3);
    lua_settable(L, -3);
    lua_pop(L, 2);
  }
  return program_report(L, status);
}

/* Pushes a function of dflow.autograph; under its name an error's text when that fails. */
static int push_autograph(lua_State *L, const char *name) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "dflow.autograph");
  int status = lua_pcall(L, 1, 1, 0);
  if (status == LUA_OK) {
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
  }
  return status;
}

/* Loads a file (NULL: standard input), or a text that has this name: as it is, or as autograph makes it. */
static int load_chunk(lua_State *L, bool rewritten, const char *path, const char *text, const char *name) {
  if (!rewritten) return text ? luaL_loadbuffer(L, text, strlen(text), name) : luaL_loadfile(L, path);
  int status = push_autograph(L, "load");
  if (status != LUA_OK) return status;
  lua_pushstring(L, path);
  lua_pushstring(L, text);
  lua_pushstring(L, name);
  return lua_pcall(L, 3, 1, 0);
}

/* All that is typed at the prompt is rewritten, too. */
static bool autograph_whole(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "dflow.autograph");
  if (program_report(L, program_call(L, 1, 1)) != LUA_OK) return false;
  lua_pushboolean(L, true);
  lua_setfield(L, -2, "whole");
  lua_pop(L, 1);
  return true;
}

/* -e, -l and -W in the order in which they stand. False after the first that fails. */
static bool run_options(lua_State *L, int flags, char **argv, int n) {
  for (int i = 1; i < n; i++) {
    char option = argv[i][1];
    if (option == 'n') {
      if (argv[i][2] == '\0') i++;
    } else if (option == 'e' || option == 'l') {
      char *extra = argv[i] + 2;
      if (*extra == '\0') extra = argv[++i];
      if (option == 'e') keep_command_line(L, extra);
      int status = option == 'l' ? do_library(L, extra)
                   : do_chunk(L, load_chunk(L, flags & OPT_AUTOGRAPH, NULL, extra, "=(command line)"));
      if (status != LUA_OK) return false;
    } else if (option == 'W') {
      lua_warning(L, "@on", 0);
    }
  }
  return true;
}

static int do_init(lua_State *L) {
  const char *name = "=LUA_INIT_" LUA_VERSION_MAJOR "_" LUA_VERSION_MINOR;
  const char *init = getenv(name + 1);
  if (init == NULL) {
    name = "=LUA_INIT";
    init = getenv(name + 1);
  }
  if (init == NULL) return LUA_OK;
  if (init[0] == '@') return do_chunk(L, luaL_loadfile(L, init + 1));
  return do_string(L, init, name);
}

static void make_arg_table(lua_State *L, char **argv, int argc, int script) {
  if (script == argc) script = 0;   /* no script: the program's name is arg[0] */
  lua_createtable(L, argc - script, script + 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
}

/* What the text of a script is warned of before it runs; nothing of what cannot be looked at. */
static void warn_of(lua_State *L, const char *path) {
  int top = lua_gettop(L);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "dflow.check.conditions");
  if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_getfield(L, -1, "before") == LUA_TFUNCTION) {
    lua_pushstring(L, path);
    lua_pcall(L, 1, 0, 0);
  }
  lua_settop(L, top);
}

static int do_script(lua_State *L, int flags, char **argv) {
  const char *name = argv[0];
  if (strcmp(name, "-") == 0 && strcmp(argv[-1], "--") != 0) name = NULL;
  int status = load_chunk(L, flags & OPT_AUTOGRAPH, name, NULL, NULL);
  if (status == LUA_OK) {
    int n = 0;
    if (name && !(flags & OPT_AUTOGRAPH)) warn_of(L, name);
    if (lua_getglobal(L, "arg") != LUA_TTABLE) luaL_error(L, "'arg' is not a table");
    n = (int)luaL_len(L, -1);
    luaL_checkstack(L, n + 3, "too many arguments to script");
    for (int i = 1; i <= n; i++) lua_rawgeti(L, -i, i);
    lua_remove(L, -n - 1);
    status = program_call(L, n, LUA_MULTRET);
  } else {
    program_explain(L);
  }
  return program_report(L, status);
}

/* `dflow run`, `inspect`, `learn` and `manual`. A script of that name is `./run`. */
static bool is_command(const char *word) {
  static const char *const commands[] = { "run", "inspect", "learn", "manual" };
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(word, commands[i]) == 0) return true;
  return false;
}

/* Calls what the module of the command returns with the words after argv[0]. Is what that returns true? */
static bool do_command(lua_State *L, const char *name, char **argv) {
  lua_getglobal(L, "require");
  lua_pushfstring(L, "dflow.command.%s", name);
  if (program_report(L, program_call(L, 1, 1)) != LUA_OK) return false;
  int n = 0;
  for (; argv[n + 1]; n++) {
    luaL_checkstack(L, 2, "too many arguments");
    lua_pushstring(L, argv[n + 1]);
  }
  return program_report(L, program_call(L, n, 1)) == LUA_OK && lua_toboolean(L, -1);
}

/* `dflow -p`: all of standard input, as the prompt would read it. Was all well? */
static bool do_print(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "dflow.repl");
  if (program_report(L, program_call(L, 1, 1)) != LUA_OK) return false;
  lua_getfield(L, -1, "print");
  luaL_Buffer all;
  luaL_buffinit(L, &all);
  for (size_t n; (n = fread(luaL_prepbuffer(&all), 1, LUAL_BUFFERSIZE, stdin)) > 0;) luaL_addsize(&all, n);
  luaL_pushresult(&all);
  return program_report(L, program_call(L, 1, 1)) == LUA_OK && lua_toboolean(L, -1);
}

/* Calls a function of dflow.check.script. Is what it returns true? */
static bool check_gradients(lua_State *L, const char *function) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "dflow.check.script");
  if (program_report(L, program_call(L, 1, 1)) != LUA_OK) return false;
  lua_getfield(L, -1, function);
  lua_remove(L, -2);
  if (program_report(L, program_call(L, 0, 1)) != LUA_OK) return false;
  bool yes = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return yes;
}

/* The libraries, paths and globals that every way of starting has. */
static bool open_state(lua_State *L, int flags, char **argv, int argc, int script) {
  if (flags & OPT_NO_ENV) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  if (flags & OPT_STRICT) setenv("DFLOW_STRICT", "1", 1);
  lua_gc(L, LUA_GCSTOP);                   /* nothing of what is loaded here is garbage */
  luaL_openlibs(L);
  program_coroutines(L);
  df_sigint_guard(false);                  /* Ctrl-C is this file's business */
  make_arg_table(L, argv, argc, script);
  set_paths(L);
  preload_core(L);
  if (!set_globals(L)) return false;
  lua_gc(L, LUA_GCRESTART);
  lua_gc(L, LUA_GCGEN, 0, 0);
  return true;
}

/* `dflow command …`, --kernel, --dap and --check: *good: all went well. False: none of these was asked for. */
static bool run_command(lua_State *L, int flags, char **argv, int argc, int script, bool *good) {
  if (script == 1 && script < argc && is_command(argv[1])) {
    watch_runs(L);
    *good = do_command(L, argv[1], argv + 1);
    return true;
  }
  if (flags & OPT_KERNEL) program_interactive = true;         /* a second interrupt does not end it */
  else if (!(flags & (OPT_DAP | OPT_LOOK))) return false;
  *good = do_command(L, flags & OPT_KERNEL ? "kernel" : flags & OPT_DAP ? "dap" : "check", argv + script - 1);
  return true;
}

/* The prompt, or what is piped in, after scripts and -e. False: it ended early. */
static bool read_input(lua_State *L, int flags, bool script) {
  if (flags & OPT_INTERACTIVE) {
    program_repl(L, &(program_options){ flags & OPT_NO_ENV, flags & OPT_RESUME, color });
    return true;
  }
  if (script || (flags & (OPT_EXECUTE | OPT_VERSION))) return true;
  if (isatty(STDIN_FILENO)) {
    program_welcome();
    program_repl(L, &(program_options){ flags & OPT_NO_ENV, false, color });
    return true;
  }
  /* As in lua(1), an error in a piped chunk does not show in the status. */
  do_chunk(L, load_chunk(L, flags & OPT_AUTOGRAPH, NULL, NULL, NULL));
  return !program_interrupted;
}

/* `-n`, mpirun: the workers are there before the first line of Lua. Another rank that mpirun started returns from here
 * only to run the script, too. */
static bool start_ranks(int flags) {
  df_error err;
  const int launched = df_cluster_launched();
  int32_t code = DF_OK;
  if (launched > 1 && ranks && ranks != launched) {
    fprintf(stderr,
            "%s: -n %d, but %d processes were started: leave -n out, the launcher says how many ranks there are\n",
            program_name, ranks, launched);
    return false;
  }
  if (launched > 1) code = df_cluster_join(&err);
  else if (hosts) code = df_cluster_hosts(hosts, NULL, &err);
  else if (ranks > 1) code = df_cluster_start(ranks, NULL, &err);
  if (!code && flags & OPT_SPMD) code = df_cluster_spmd(&err);
  if (code) program_message(err.message);
  return !code;
}

/* Runs in protected mode. Leaves true when all went well. */
static int protected_main(lua_State *L) {
  int argc = (int)lua_tointeger(L, 1);
  char **argv = lua_touserdata(L, 2);
  int script = argc;
  int flags = collect_options(argv, &script);
  bool good = true;
  luaL_checkversion(L);
  if (flags == OPT_ERROR) {
    print_usage(argv[script]);
    return 0;
  }
  if (flags & OPT_HELP) printf(usage_text, program_name);
  else if (flags & (OPT_VERSION | OPT_LONG_VERSION)) print_version();
  if ((flags & OPT_HELP) || ((flags & OPT_LONG_VERSION) && !(flags & OPT_INTERACTIVE))) {
    lua_pushboolean(L, true);
    return 1;
  }
  if (!open_state(L, flags, argv, argc, script)) return 0;
  if (run_command(L, flags, argv, argc, script, &good)) {
    lua_pushboolean(L, good);
    return 1;
  }
  if (!start_ranks(flags)) return 0;
  if (flags & OPT_CHECK) check_gradients(L, "start");
  if (flags & OPT_AUTOGRAPH && !autograph_whole(L)) return 0;
  if (!(flags & OPT_NO_ENV) && do_init(L) != LUA_OK) return 0;
  if (script < argc || (flags & (OPT_EXECUTE | OPT_PRINT)) || !isatty(STDIN_FILENO)) watch_runs(L);
  if (!run_options(L, flags, argv, script)) return 0;
  if (script < argc && do_script(L, flags, argv + script) != LUA_OK) return 0;
  if (flags & OPT_PRINT) {
    lua_pushboolean(L, do_print(L));
    return 1;
  }
  if (!read_input(L, flags, script < argc)) return 0;
  lua_pushboolean(L, !(flags & OPT_CHECK) || check_gradients(L, "finish"));
  return 1;
}

/* What was printed and is not written anywhere, as on a full disk, is no success. Of an output that was closed before
 * we began nothing is expected, as of lua(1). */
static void close_stdout(void) {
  if (fcntl(STDOUT_FILENO, F_GETFD) < 0) return;
  const bool failed = ferror(stdout) != 0;
  errno = 0;
  if (fflush(stdout) == 0 && !failed) return;
  const int number = errno;
  fprintf(stderr, "dflow: cannot write what was printed%s%s\n", number ? ": " : "", number ? strerror(number) : "");
  _exit(EXIT_FAILURE);
}

/* Do the words of the driver's command line hold a program that a worker could run, too? */
static bool has_program(char **argv) {
  int first = 0;
  const int flags = collect_options(argv, &first);
  return flags != OPT_ERROR && ((argv[first] && strcmp(argv[first], "-") != 0) || flags & OPT_EXECUTE);
}

int main(int argc, char **argv) {
  if (argv[0] && argv[0][0]) program_name = argv[0];
  if (argc > 1 && strcmp(argv[1], "--worker") == 0) {
    const int ended = df_cluster_worker(has_program(argv + 1));
    if (ended >= 0) return ended;
    argv[1] = argv[0];
    argv++;
    argc--;
  }
  if (argc > 1 && strcmp(argv[1], "--host") == 0) return df_cluster_host();
  if (argc > 1 && strcmp(argv[1], "--restarts") == 0) return program_restarts(argv + 2);
  atexit(close_stdout);
  lua_State *L = luaL_newstate();
  if (L == NULL) {
    program_message("cannot create state: not enough memory");
    return EXIT_FAILURE;
  }
  lua_pushcfunction(L, protected_main);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  int status = lua_pcall(L, 2, 1, 0);
  bool good = lua_toboolean(L, -1) && status == LUA_OK;
  program_report(L, status);
  status = good ? EXIT_SUCCESS : program_interrupted ? 128 + SIGINT : EXIT_FAILURE;
  const int others = df_cluster_is_spmd() ? df_cluster_stop(status) : 0;
  lua_close(L);
  return status ? status : others;
}
