/* prompt.h: the editor of the prompt: readline's keys (prompt.c), what was typed and not read yet (prompt_ahead.c), our
 * painter (prompt_paint.c), history (prompt_history.c), the search in it (prompt_search.c). Everything here runs on the
 * main thread.
 *
 * What the text means is Lua's business. The editor asks a table of functions, stdlib/dflow/repl/editor.lua, always
 * through prompt_ask, so that an error in Lua never jumps over readline's frames. Lines and columns count bytes from 0.
 *
 *   replace(first, removed, text)        lines first … first+removed-1 became the lines of text
 *   look(line, column, columns)          -> hint, its styles, and line, column twice: the brackets to mark
 *   suggest()                            -> what is shown grey behind the text, and taken by Right or End there; or nil
 *   style(line)                          -> a style character per byte of the line; does it begin an input of its own?
 *   enter(line, column)                  -> nil to run it or the text to insert; the indentation the line should have;
 *                                           of several inputs, how many lines the first has: the others come with the
 *                                           next calls of prompt_read
 *   complete(line, column)               -> the column where the word begins, a list of words
 *   menu(columns, rows)                  -> a list of text, styles, text, styles, …
 *   search(pattern, chosen, columns, rows)
 *                                        -> which of what fits is chosen, its text or nil, the cursor in it, and a list
 *                                           as menu's
 *   searched()                           the search is over
 *   paste(text, columns)                 -> what is to be inserted of a pasted text
 *   pasted()                             it was
 *   idle()                               when nothing is typed for a moment -> seconds until it is to be asked again,
 *                                           or nil
 *   recalled()                           the buffer is to become another text, an entry of the history
 */
#ifndef DFLOW_PROMPT_H
#define DFLOW_PROMPT_H
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum prompt_end { PROMPT_READ, PROMPT_END, PROMPT_INTERRUPTED } prompt_end;

/* Sets readline up, once: key bindings, the user's inputrc, the painter. */
void prompt_open(lua_State *L);
/* Reads one chunk; when one is `given`, shows it as if it were typed. `text` is malloced when it says PROMPT_READ. */
prompt_end prompt_read(const char *prompt, const char *more, const char *given, char **text);
/* Calls editor function `name` with the `nargs` values on top of `L`, popping them. False, with nothing on the stack,
 * when it failed; the message then stands under the input. */
bool prompt_ask(const char *name, int nargs, int nresults);
void prompt_menu(void);                            /* pops a list of rows, and puts them below the input */
extern lua_State *prompt_lua;               /* where the editor table lives */
extern const char prompt_editor_key;        /* its key in the registry */

/* ---- prompt_paint.c ---- */
typedef struct paint_place { int line, column; } paint_place;
void paint_begin(const char *prompt, const char *more);   /* a new, empty buffer on a fresh row */
void paint(void);                                         /* readline's redisplay function */
void paint_final(void);  /* without what is below the input; the cursor goes to its end */
void paint_below(void);                                   /* the cursor to the row under everything painted */
void paint_anew(void);                                    /* nothing of what was painted is there any more */
void paint_resized(void);                                 /* the window has another size */
void paint_sync(void);                                    /* tells Lua what changed in the buffer */
void paint_menu_clear(void);
void paint_menu_add(const char *text, size_t n, const char *styles, size_t nstyles);
void paint_message(const char *text);                     /* instead of the hint, until the next key */
void paint_theme(char style, const char *sgr);            /* "" for none */
paint_place paint_place_of(int point);                    /* of a byte of rl_line_buffer */
int  paint_line_start(int line);                          /* byte where the line begins */
void paint_size(int *columns, int *rows);

/* ---- prompt_ahead.c: bytes that were typed and not read yet ---- */
void prompt_ahead_open(void);               /* readline reads keys from here */
int  prompt_key(void);                      /* the next byte that was typed or pushed back; < 0: none comes */
bool prompt_pushed(void);                   /* is there one that was pushed back? */
void prompt_push_back(const char *bytes, size_t n);         /* these bytes are read before all others */
void prompt_hear(int key);                  /* a line was entered: `key` interrupts, if it was typed since */
void prompt_take_back(void);                /* a prompt is there: what was typed behind the last line is for it */

/* ---- prompt_search.c: Ctrl-R ---- */
int  search_begin(int count, int key);      /* a command of readline's */
bool search_on(void);                       /* keys go to search_key, not to readline */
void search_key(void);

/* ---- prompt_history.c: one file, shared with other prompts ---- */
void history_open_file(int entries);        /* reads it; keeps the last `entries` */
void history_remember(const char *text);    /* adds and appends at once; not what equals the last one */

#endif
