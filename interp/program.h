/* program.h: what main.c and repl.c share. Both belong to the `dflow` program and to nothing else. */
#ifndef DFLOW_PROGRAM_H
#define DFLOW_PROGRAM_H
#include <lua.h>
#include <signal.h>
#include <stdbool.h>

/* Set by SIGINT, cleared by whoever dealt with it. */
extern volatile sig_atomic_t program_interrupted;

/* Calls the function below its `nargs` arguments as lua_pcall does, with a traceback for errors that are plain
 * strings, and with Ctrl-C cancelling the graphs that run meanwhile and stopping the Lua code. */
int program_call(lua_State *L, int nargs, int nresults);

/* Prints and pops the error that `status` stands for, if it stands for one. Returns `status`. */
int program_report(lua_State *L, int status);

/* From now on messages carry no program name and a second Ctrl-C does not end the process. */
void program_now_interactive(void);

void program_print_version(void);

/* Reads, runs and prints until the input ends or `:quit`. Never raises. */
void program_repl(lua_State *L, bool ignore_environment);

#endif
