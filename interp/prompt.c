/* prompt.c: drives readline as the editor of one buffer of several lines.
 *
 * Readline reads the keys, knows people's inputrc and their vi mode, keeps undo, kill ring and history; what it shows
 * is painted by prompt_paint.c. Its commands that think of one line only are replaced by ours wherever a key leads to
 * them, so that people's own keys for them work too: accept-line runs the buffer when Lua's parser says that it is
 * complete and begins a new line otherwise; previous-history moves up within the buffer first; and so on.
 *
 * The loop waits in ppoll(), with the signals that matter blocked everywhere else in it: a handler only sets a flag,
 * and what it means happens here. No signal handler touches readline. Ctrl-C is a key while one types: readline then
 * ends the line in the same way as with Enter, whatever it was in the middle of (a search, a count, an entry of the
 * history).
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <lauxlib.h>
#include <readline/history.h>
#include <readline/readline.h>

#include "program.h"
#include "prompt.h"

lua_State *prompt_lua;
const char prompt_editor_key = 0;

static char *accepted;                /* what readline handed over; malloced */
static bool  accepted_done, dropped;  /* dropped: it was ended by Ctrl-C */
static bool  idled;                   /* since this prompt is there Lua was told that no key comes */
static double idle_again;             /* seconds until it wants to be told again; 0: not at this prompt */

bool prompt_ask(const char *name, int nargs, int nresults) {
  lua_State *L = prompt_lua;
  int base = lua_gettop(L) - nargs;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &prompt_editor_key);
  if (lua_istable(L, -1)) {
    lua_pushstring(L, name);
    lua_rawget(L, -2);
    lua_insert(L, base + 1);
    lua_settop(L, base + 1 + nargs);
    if (lua_pcall(L, nargs, nresults, 0) == LUA_OK) return true;
    const char *text = lua_tostring(L, -1);
    if (strcmp(name, "look") != 0 && strcmp(name, "style") != 0) paint_message(text ? text : "the prompt failed");
  }
  lua_settop(L, base);
  return false;
}

/* ---- lines within the buffer ------------------------------------------------------------------- */

static int start_of_line(int point) {
  while (point > 0 && rl_line_buffer[point - 1] != '\n') point--;
  return point;
}

static int end_of_line(int point) {
  while (point < rl_end && rl_line_buffer[point] != '\n') point++;
  return point;
}

/* Moves the point a line up or down, keeping its column where it can. */
static bool move_line(int down) {
  int start = start_of_line(rl_point), column = rl_point - start;
  if (down) {
    int end = end_of_line(rl_point);
    if (end == rl_end) return false;
    start = end + 1;
  } else {
    if (start == 0) return false;
    start = start_of_line(start - 1);
  }
  int end = end_of_line(start);
  rl_point = start + column < end ? start + column : end;
  /* not within a character */
  while (rl_point > start && ((unsigned char)rl_line_buffer[rl_point] & 0xC0) == 0x80) rl_point--;
  return true;
}

/* Up and down go through the history entries that begin as the text before the cursor did when the first of them was
 * pressed; an entry that was changed begins a new search. Readline's own place in the history, which a search moves,
 * stays where it is: an entry is a copy, and its undo begins with it. */
static char *recalled, *typed;       /* the entry that is shown, what was there before; malloced, or NULL */
static int   prefix, recalled_at;

static void forget_recalled(void) {
  free(recalled);
  free(typed);
  recalled = typed = NULL;
}

static void recall(const char *text, int point) {
  char *copy = strdup(text);
  free(recalled);
  recalled = copy;
  if (copy == NULL) return;
  prompt_ask("recalled", 0, 0);
  rl_replace_line(copy, 1);
  rl_point = point < 0 ? end_of_line(0) : rl_end;
}

static int through_history(int count, int key, bool down) {
  if (count < 0) return through_history(-count, key, !down);
  for (; count > 0; count--) {
    if (move_line(down)) continue;
    if (!recalled || strcmp(recalled, rl_line_buffer) != 0) {
      forget_recalled();
      typed = strdup(rl_line_buffer);
      prefix = rl_editing_mode == 0 && rl_get_keymap() == vi_movement_keymap ? 0 : rl_point;
      recalled_at = where_history();
    }
    HIST_ENTRY *entry = NULL;
    int at = recalled_at;
    for (;;) {
      at += down ? 1 : -1;
      if (at < 0 || at >= history_length || !typed) break;
      entry = history_get(history_base + at);
      if (entry && strncmp(entry->line, typed, (size_t)prefix) == 0 && strcmp(entry->line, rl_line_buffer) != 0) break;
      entry = NULL;
    }
    if (entry) recall(entry->line, down ? 0 : -1);
    else if (down && recalled && typed) recall(typed, 0);
    else return rl_ding();
    recalled_at = entry ? at : history_length;
  }
  return 0;
}

static int command_up(int count, int key)   { return through_history(count, key, false); }
static int command_down(int count, int key) { return through_history(count, key, true); }

static int command_home(int count, int key) {
  int start = start_of_line(rl_point);
  rl_point = rl_point == start && rl_editing_mode == 1 ? 0 : start;
  return 0;
}

/* Takes what is shown behind the text; false where the cursor is not there, or there is none. */
static bool take_suggestion(void) {
  if (rl_point != rl_end || !prompt_ask("suggest", 0, 1)) return false;
  const char *s = lua_tostring(prompt_lua, -1);
  if (s) rl_insert_text(s);
  lua_pop(prompt_lua, 1);
  return s != NULL;
}

static int command_right(int count, int key) {
  return count > 0 && take_suggestion() ? 0 : rl_forward_char(count, key);
}

static int command_end(int count, int key) {
  if (take_suggestion()) return 0;
  int end = end_of_line(rl_point);
  rl_point = rl_point == end && rl_editing_mode == 1 ? rl_end : end;
  return 0;
}

static int command_kill_line(int count, int key) {
  int end = end_of_line(rl_point);
  if (end == rl_point && end < rl_end) end++;      /* at the end of a line: joins it with the next */
  rl_kill_text(rl_point, end);
  return 0;
}

static int command_kill_to_start(int count, int key) {
  int start = start_of_line(rl_point), point = rl_point;
  if (start == point && start > 0) start--;
  rl_kill_text(point, start);
  rl_point = start;
  return 0;
}

/* ---- Enter, Tab, paste ------------------------------------------------------------------------- */

/* Gives the line of the point another indentation. */
static void indent_line(int spaces) {
  int start = start_of_line(rl_point), text = start;
  while (rl_line_buffer[text] == ' ' || rl_line_buffer[text] == '\t') text++;
  if (text - start == spaces) return;
  int point = rl_point - text;
  rl_delete_text(start, text);
  rl_point = start;
  for (int i = 0; i < spaces; i++) rl_insert_text(" ");
  rl_point = start + spaces + (point > 0 ? point : 0);
}

/* Ends the line. One that was found in the history is taken as new: readline would undo its changes to keep the entry
 * as it was, and its lists of changes do not survive every search. */
static int end_line(void) {
  if (current_history()) {
    using_history();
    rl_undo_list = NULL;
  }
  return rl_newline(1, '\n');
}

/* Leaves the buffer on the screen as it is, with `end` behind it. */
static void show_final(const char *end) {
  rl_point = rl_end;
  paint_menu_clear();
  paint_final();
  fputs(end, rl_outstream);
  fflush(rl_outstream);
}

static int command_newline(int count, int key) {
  rl_insert_text("\n");
  return 0;
}

static int command_enter(int count, int key) {
  paint_sync();
  paint_place at = paint_place_of(rl_point);
  lua_pushinteger(prompt_lua, at.line);
  lua_pushinteger(prompt_lua, at.column);
  if (prompt_ask("enter", 2, 3)) {
    char *more = lua_isstring(prompt_lua, -3) ? strdup(lua_tostring(prompt_lua, -3)) : NULL;
    int spaces = lua_isnumber(prompt_lua, -2) ? (int)lua_tointeger(prompt_lua, -2) : -1;
    int lines = lua_isnumber(prompt_lua, -1) ? (int)lua_tointeger(prompt_lua, -1) : 0;
    lua_pop(prompt_lua, 3);
    if (spaces >= 0 || more) rl_begin_undo_group();
    if (spaces >= 0) indent_line(spaces);
    if (more) rl_insert_text(more);
    if (spaces >= 0 || more) rl_end_undo_group();
    if (more) {
      free(more);
      return 0;
    }
    if (lines > 0) rl_delete_text(paint_line_start(lines) - 1, rl_end);
  }
  show_final("\r\n");
  return end_line();
}

static int command_tab(int count, int key) {
  int start = start_of_line(rl_point);
  bool blank = true;
  for (int i = start; i < rl_point; i++) blank = blank && rl_line_buffer[i] == ' ';
  if (blank && rl_end > 0) {
    rl_insert_text((rl_point - start) % 2 ? " " : "  ");
    return 0;
  }
  return rl_complete(count, key);
}

/* Reads what is pasted, in large pieces, up to the mark that ends it. What came behind the mark is read later. */
static int command_paste(int count, int key) {
  static const char mark[] = "\033[201~";
  size_t room = 1 << 16, n = 0, found = 0;
  char *text = malloc(room);
  bool ended = false;
  while (text && !ended && !program_interrupted) {
    if (n + 4096 > room) {
      char *grown = realloc(text, room *= 2);
      if (grown == NULL) break;
      text = grown;
    }
    if (prompt_pushed()) {
      text[n++] = (char)prompt_key();
    } else {
      ssize_t got = read(STDIN_FILENO, text + n, 4096);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      n += (size_t)got;
    }
    for (; found + sizeof mark - 1 <= n; found++)
      if (text[found] == '\033' && memcmp(text + found, mark, sizeof mark - 1) == 0) {
        ended = true;
        break;
      }
  }
  if (!ended) {
    free(text);
    return 0;
  }
  size_t after = found + sizeof mark - 1;
  if (after < n) prompt_push_back(text + after, n - after);
  size_t length = 0;
  for (size_t i = 0; i < found; i++) {
    if (text[i] == '\0') continue;
    if (text[i] == '\r') {
      if (i + 1 < found && text[i + 1] == '\n') continue;
      text[i] = '\n';
    }
    text[length++] = text[i];
  }
  int columns, rows;
  paint_size(&columns, &rows);
  lua_pushlstring(prompt_lua, text, length);
  lua_pushinteger(prompt_lua, columns);
  free(text);
  if (!prompt_ask("paste", 2, 1)) return 0;
  const char *insert = lua_tostring(prompt_lua, -1);
  if (insert) {
    rl_begin_undo_group();
    rl_insert_text(insert);
    rl_end_undo_group();
    paint_sync();
    prompt_ask("pasted", 0, 0);
  }
  lua_pop(prompt_lua, 1);
  return 0;
}

static int command_interrupt(int count, int key) {
  dropped = true;
  show_final("^C\r\n");
  return end_line();
}

static int command_clear(int count, int key) {
  if (write(STDOUT_FILENO, "\033[H\033[2J", 7) == 7) paint_anew();
  return 0;
}

/* Readline's way to give up a command is a longjmp, and through its callbacks, in the middle of a search, that ends in
 * a crash (8.2: Ctrl-R, then Meta-Y). So these commands only ring where they would give up. */
extern int _rl_last_command_was_kill __attribute__((weak));
static bool killed;                  /* something was: there is something to yank */

static int command_yank(int count, int key) { return killed ? rl_yank(count, key) : rl_ding(); }

static int command_yank_pop(int count, int key) {
  if (!killed || (rl_last_func != command_yank && rl_last_func != command_yank_pop)) return rl_ding();
  rl_last_func = rl_yank;
  return rl_yank_pop(count, key);
}

static int command_abort(int count, int key) { return rl_ding(); }

static int command_macro_start(int count, int key) {
  return RL_ISSTATE(RL_STATE_MACRODEF) ? rl_ding() : rl_start_kbd_macro(count, key);
}

static int command_macro_end(int count, int key) {
  return RL_ISSTATE(RL_STATE_MACRODEF) ? rl_end_kbd_macro(count, key) : rl_ding();
}

static int command_macro_call(int count, int key) {
  return RL_ISSTATE(RL_STATE_MACRODEF) ? rl_ding() : rl_call_last_kbd_macro(count, key);
}

/* ---- completion -------------------------------------------------------------------------------- */

static char *next_word(const char *text, int state) {   /* the list of words is on the Lua stack, below `dropped` */
  static lua_Integer at;
  lua_State *L = prompt_lua;
  if (state == 0) at = 0;
  lua_Integer dropped = lua_tointeger(L, -1);
  if (lua_geti(L, -2, ++at) != LUA_TSTRING) {
    lua_pop(L, 1);
    return NULL;
  }
  size_t n;
  const char *word = lua_tolstring(L, -1, &n);
  char *copy = strdup(word + ((size_t)dropped < n ? (size_t)dropped : n));
  lua_pop(L, 1);
  return copy;
}

static char **complete(const char *text, int start, int end) {
  rl_attempted_completion_over = 1;
  rl_completion_append_character = '\0';
  rl_sort_completion_matches = 0;
  paint_sync();
  paint_place at = paint_place_of(rl_point);
  lua_pushinteger(prompt_lua, at.line);
  lua_pushinteger(prompt_lua, at.column);
  if (!prompt_ask("complete", 2, 2)) return NULL;
  char **words = NULL;
  if (lua_istable(prompt_lua, -1)) {
    int dropped = start - (paint_line_start(at.line) + (int)lua_tointeger(prompt_lua, -2));
    lua_pushinteger(prompt_lua, dropped > 0 ? dropped : 0);
    words = rl_completion_matches(text, next_word);
    lua_pop(prompt_lua, 1);
  }
  lua_pop(prompt_lua, 2);
  return words;
}

/* The list of rows on top of the Lua stack, text, styles, text, styles, …, goes below the input. */
void prompt_menu(void) {
  lua_State *L = prompt_lua;
  int list = lua_gettop(L);
  for (lua_Integer i = 1; lua_istable(L, list) && lua_geti(L, list, i) == LUA_TSTRING; i += 2) {
    size_t ntext, nstyles;
    const char *text = lua_tolstring(L, -1, &ntext);
    lua_geti(L, list, i + 1);
    const char *styles = lua_tolstring(L, -1, &nstyles);
    paint_menu_add(text, ntext, styles ? styles : "", styles ? nstyles : 0);
    lua_pop(L, 2);
  }
  lua_settop(L, list - 1);
}

static void show_matches(char **matches, int n, int longest) {
  int columns, rows;
  paint_size(&columns, &rows);
  paint_menu_clear();
  lua_pushinteger(prompt_lua, columns);
  lua_pushinteger(prompt_lua, rows);
  if (prompt_ask("menu", 2, 1)) prompt_menu();
}

/* ---- readline ---------------------------------------------------------------------------------- */

static int command_reread(int count, int key);

static rl_command_func_t *replacement(rl_command_func_t *fn) {
  static const struct { rl_command_func_t *theirs, *ours; } list[] = {
    { rl_newline, command_enter },                       { rl_complete, command_tab },
    { rl_get_previous_history, command_up },             { rl_get_next_history, command_down },
    { rl_history_search_backward, command_up },          { rl_history_search_forward, command_down },
    { rl_beg_of_line, command_home },                    { rl_end_of_line, command_end },
    { rl_forward_char, command_right },                  { rl_forward, command_right },
    { rl_kill_line, command_kill_line },                 { rl_unix_line_discard, command_kill_to_start },
    { rl_bracketed_paste_begin, command_paste },         { rl_clear_screen, command_clear },
    { rl_clear_display, command_clear },                 { rl_re_read_init_file, command_reread },
    { rl_reverse_search_history, search_begin },         { rl_forward_search_history, search_begin },
    { rl_yank, command_yank },                           { rl_yank_pop, command_yank_pop },
    { rl_abort, command_abort },                         { rl_start_kbd_macro, command_macro_start },
    { rl_end_kbd_macro, command_macro_end },             { rl_call_last_kbd_macro, command_macro_call },
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i].theirs == fn) return list[i].ours;
  return fn;
}

static void replace_in(Keymap map, int depth) {
  for (int i = 0; i < KEYMAP_SIZE; i++) {
    if (map[i].type == ISFUNC && map[i].function) map[i].function = replacement(map[i].function);
    else if (map[i].type == ISKMAP && map[i].function && depth < 8) replace_in((Keymap)map[i].function, depth + 1);
  }
}

static void replace_commands(void) {
  Keymap maps[] = { emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap };
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) replace_in(maps[i], 0);
}

static int command_reread(int count, int key) {
  int status = rl_re_read_init_file(count, key);
  replace_commands();
  return status;
}

enum { INTERRUPT = 3 };                 /* Ctrl-C */
static int interrupts;                  /* the key that does where the terminal is itself; 0: none, or it is */
#define IDLE_AFTER 0.05                 /* seconds without a key until Lua is told that no key comes */

/* Makes the key that interrupts an ordinary one. */
static void prepare_terminal(int meta) {
  struct termios now;
  rl_prep_terminal(meta);
  if (tcgetattr(STDIN_FILENO, &now) != 0) return;
  const int key = now.c_cc[VINTR];
  interrupts = key == _POSIX_VDISABLE ? 0 : key;
  Keymap maps[] = { emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap };
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
    rl_bind_key_in_map(INTERRUPT, command_interrupt, maps[i]);
    if (interrupts > 0 && key < 128) rl_bind_key_in_map(key, command_interrupt, maps[i]);
  }
  now.c_cc[VINTR] = _POSIX_VDISABLE;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
}

/* Readline calls it when a line is entered, and again when that is taken. */
static void restore_terminal(void) {
  if (interrupts && !dropped) prompt_hear(interrupts);
  interrupts = 0;
  rl_deprep_terminal();
}

/* Defaults go in before the user's inputrc is read, so that it has the last word. */
void prompt_open(lua_State *L) {
  prompt_lua = L;
  rl_readline_name = "dflow";
  rl_outstream = stdout;
  rl_catch_signals = 0;
  rl_catch_sigwinch = 0;
  prompt_ahead_open();
  rl_prep_term_function = prepare_terminal;
  rl_deprep_term_function = restore_terminal;
  rl_attempted_completion_function = complete;
  rl_completion_display_matches_hook = show_matches;
  rl_completer_quote_characters = "";
  rl_basic_quote_characters = "";
  rl_completer_word_break_characters = " \t\n\"\\'`@$><=;|&{}()[],.:+-*/%^#~?!";
  rl_add_defun("dflow-newline", command_newline, -1);
  Keymap maps[] = { emacs_standard_keymap, vi_insertion_keymap };
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
    rl_bind_keyseq_in_map("\033\r", command_newline, maps[i]);
    rl_bind_keyseq_in_map("\033\n", command_newline, maps[i]);
  }
  rl_variable_bind("enable-bracketed-paste", "on");
  rl_variable_bind("show-all-if-ambiguous", "on");
  rl_variable_bind("comment-begin", "-- ");
  rl_variable_bind("bell-style", "none");
  rl_initialize();                    /* it would not look at the terminal if it was painted already */
  rl_redisplay_function = paint;
  replace_commands();
}

static void on_line(char *line) {
  accepted = line;
  accepted_done = true;
  rl_callback_handler_remove();       /* the terminal is itself again while the chunk runs */
}

/* ---- signals ----------------------------------------------------------------------------------- */

static volatile sig_atomic_t resized, suspended, continued, ended;

static void on_signal(int number) {
  switch (number) {
    case SIGINT:   program_interrupted = 1; break;
    case SIGWINCH: resized = 1; break;
    case SIGTSTP:  suspended = 1; break;
    case SIGCONT:  continued = 1; break;
    default:       ended = number;
  }
}

static const int watched[] = { SIGINT, SIGWINCH, SIGTSTP, SIGCONT, SIGTERM, SIGHUP };
enum { WATCHED = sizeof watched / sizeof *watched };

static void raise_default(int number) {
  struct sigaction act = { .sa_handler = SIG_DFL }, before;
  sigset_t one, was;
  sigaction(number, &act, &before);
  sigemptyset(&one);
  sigaddset(&one, number);
  raise(number);
  sigprocmask(SIG_UNBLOCK, &one, &was);      /* here it stops, or ends */
  sigprocmask(SIG_SETMASK, &was, NULL);
  sigaction(number, &before, NULL);
}

static void handle_signals(void) {
  if (program_interrupted) {                 /* sent by another process: as if the key were pressed */
    static const char key = INTERRUPT;
    program_interrupted = 0;
    prompt_push_back(&key, 1);
  }
  if (ended) {
    paint_below();
    rl_callback_handler_remove();
    raise_default(ended);
  }
  if (suspended) {
    paint_below();
    rl_deprep_terminal();
    raise_default(SIGTSTP);
    suspended = 0;                           /* the SIGCONT that woke us is still to be delivered */
  }
  if (continued) {
    continued = 0;
    prepare_terminal(1);
    paint_anew();
    resized = 0;
    paint();
  }
  if (resized) {
    resized = 0;
    int columns, rows;
    paint_size(&columns, &rows);
    rl_set_screen_size(rows, columns);
    paint_resized();
    paint();
  }
}

/* Shows a chunk that is not typed. */
static prompt_end take(const char *prompt, const char *more, const char *given, char **text) {
  fflush(stdout);
  paint_begin(prompt, more);
  rl_replace_line(given, 1);
  show_final("\n");
  rl_replace_line("", 1);
  *text = strdup(given);
  return *text ? PROMPT_READ : PROMPT_END;
}

/* No key comes; so what takes a moment is done now. */
static void tell_idle(void) {
  idled = true;
  idle_again = 0;
  if (!prompt_ask("idle", 0, 1)) return;
  idle_again = lua_tonumber(prompt_lua, -1);
  if (!(idle_again >= 0 && idle_again < 3600)) idle_again = 0;
  lua_pop(prompt_lua, 1);
}

prompt_end prompt_read(const char *prompt, const char *more, const char *given, char **text) {
  if (given) return take(prompt, more, given, text);
  struct sigaction act = { .sa_handler = on_signal }, before[WATCHED];   /* no SA_RESTART: ppoll() returns */
  sigset_t blocked, mask;
  sigemptyset(&blocked);
  for (int i = 0; i < WATCHED; i++) {
    sigaddset(&blocked, watched[i]);
    sigaction(watched[i], &act, &before[i]);
  }
  resized = suspended = continued = ended = 0;      /* an interrupt that came before counts: it was not told yet */
  accepted_done = dropped = idled = false;
  accepted = NULL;
  forget_recalled();
  using_history();
  fflush(stdout);
  paint_begin(prompt, more);
  rl_callback_handler_install("", on_line);
  prompt_take_back();
  while (!accepted_done) {
    sigprocmask(SIG_BLOCK, &blocked, &mask);
    handle_signals();
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    const double wait = idled ? idle_again : IDLE_AFTER;
    const struct timespec moment = { .tv_sec = (time_t)wait, .tv_nsec = (long)((wait - (double)(time_t)wait) * 1e9) };
    int ready = prompt_pushed() ? 1 : ppoll(&in, 1, wait > 0 ? &moment : NULL, &mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (ready == 0) tell_idle();
    if (ready <= 0) continue;
    if (search_on()) { search_key(); continue; }
    paint_menu_clear();
    rl_callback_read_char();
    if (&_rl_last_command_was_kill && _rl_last_command_was_kill) killed = true;
  }
  for (int i = 0; i < WATCHED; i++) sigaction(watched[i], &before[i], NULL);
  if (ended) raise_default(ended);  /* they came behind Enter; so may an interrupt, which is for what was entered */
  if (suspended) raise_default(SIGTSTP);
  if (dropped) {
    program_interrupted = 0;
    free(accepted);
    return PROMPT_INTERRUPTED;
  }
  if (accepted == NULL) {
    fputc('\n', stdout);
    fflush(stdout);
    return PROMPT_END;
  }
  *text = accepted;
  return PROMPT_READ;
}
