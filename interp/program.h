/* program.h: what the files of the `dflow` program share. They belong to it and to nothing else. */
#ifndef DFLOW_PROGRAM_H
#define DFLOW_PROGRAM_H
#include <lua.h>
#include <signal.h>
#include <stdbool.h>

/* What the command line said about the prompt. */
typedef struct program_options {
  bool ignore_environment;   /* -E: no init file */
  bool resume;               /* --resume: replay the session that ended last */
  int  color;                /* --color: -1 auto, 0 never, 1 always */
} program_options;

/* Set by SIGINT, cleared by the code that dealt with it. */
extern volatile sig_atomic_t program_interrupted;
/* How often Ctrl-C was pressed while Lua code ran. */
extern volatile sig_atomic_t program_signals;
/* Set while Ctrl-C shall only set program_interrupted: the prompt waits for a run and deals with it. */
extern volatile sig_atomic_t program_holds;
/* Lua's own message on top of the stack becomes one with the line that it is about. */
bool program_explain(lua_State *L);
/* Sets it; on: also takes back what Ctrl-C was about to do to the Lua code, so that it cannot come in between.
 * program_call holds nothing while it calls, and leaves this as it was. */
void program_hold(bool yes);
/* Was Ctrl-C pressed while it was held by code without a use for it? Then the caller raises the error that the Lua code
   would have got. */
bool program_late(void);
/* Was Ctrl-C pressed, and the Lua code neither stopped for it yet nor asked? A wait that begins now is not to begin. */
bool program_stopping(void);
/* Raises `interrupted!` where Ctrl-C was pressed, the Lua code was not stopped for it yet, and no call of the library
   has ended by it: one that begins now would not know of it, and may take long. */
void program_heed(lua_State *L);
void program_heard(void);                 /* one has ended by it */

/* Calls the function below its `nargs` arguments as lua_pcall does, with a traceback for errors that are plain
 * strings, and with Ctrl-C cancelling the graphs that run meanwhile and stopping the Lua code. The error itself,
 * before it was made a message, is left in the registry under PROGRAM_ERROR. */
int program_call(lua_State *L, int nargs, int nresults);
#define PROGRAM_ERROR "dflow.program.error"

/* The prompt is there: a second Ctrl-C does not end the process, runs in the background are not what it stops, and
 * messages carry no program name. */
extern bool program_interactive;

/* What the program was started as. */
extern const char *program_name;

/* Prints a message on standard error, behind that name. */
void program_message(const char *text);

/* Ctrl-C stops coroutines too from now on. */
void program_coroutines(lua_State *L);

/* Prints and pops the error that `status` stands for, if it stands for one. Returns `status`. */
int program_report(lua_State *L, int status);

/* Reads, runs and prints until the input ends or `:quit`: stdlib/dflow/repl.lua does, with the module below. Never
   raises. */
void program_repl(lua_State *L, const program_options *options);

/* `dflow --restarts n -- command …`, from the number on: the command's exit status. */
int program_restarts(char **argv);

/* The Lua module `dflow.program`: the terminal, Ctrl-C and the history, for the prompt's Lua side. */
int luaopen_dflow_program(lua_State *L);

/* Adds to the module on top of the stack: capture, captured, so_far, channel, input. */
void program_capture(lua_State *L);

#endif
