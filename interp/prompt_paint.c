/* prompt_paint.c: draws the buffer that readline edits: several lines, coloured, with what stands below them.
 *
 * A paint makes the rows that the screen should show, compares them with those it does show, and sends the rows that
 * differ, in one write. Rows never fill the last column, so the terminal itself never wraps and the cursor is always
 * where `at_row` and `at_column` say. Of a buffer that is taller than the window a part around the cursor is shown;
 * only the lines of that part are asked for their styles. Lua hears of changes once, as a range of lines (paint_sync).
 */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <readline/readline.h>
#include <lauxlib.h>

#include "prompt.h"

enum { LEAST_COLUMNS = 20, MENU_ROWS = 200 };

typedef struct bytes { char *p; size_t n, room; } bytes;
typedef struct row { bytes text; int width; } row;
typedef struct menu_row { char *text, *styles; size_t n; } menu_row;

static const char *base_prompt = "";
static char        more_prompt[80];       /* as wide as the other, so that the lines stand below each other */
static char        theme[128][24];
static bytes       known;                 /* the buffer as Lua knows it */
static row        *rows, *shown;          /* to be shown, shown; both `rows_room` long */
static int         nrows, nshown, rows_room;
static int         at_row, at_column;     /* where the cursor is, from the first painted row */
static int         top;                   /* first row of the buffer that is in the window */
static menu_row    menu[MENU_ROWS];
static int         nmenu;
static char        notice[256];

/* ---- bytes ------------------------------------------------------------------------------------- */

static void put(bytes *b, const char *p, size_t n) {
  if (b->n + n + 1 > b->room) {
    b->room = 2 * (b->n + n) + 64;
    char *grown = realloc(b->p, b->room);
    if (grown == NULL) abort();            /* no memory for a screen row */
    b->p = grown;
  }
  memcpy(b->p + b->n, p, n);
  b->n += n;
  b->p[b->n] = '\0';
}

static void put_text(bytes *b, const char *text) { put(b, text, strlen(text)); }

static void put_escape(bytes *b, int n, char final) {
  char escape[24];
  put(b, escape, (size_t)snprintf(escape, sizeof escape, "\033[%d%c", n, final));
}

/* ---- characters -------------------------------------------------------------------------------- */

/* The character at s: its bytes, its columns when it stands at `column`, and what is shown instead when it cannot be
 * shown as it is (an empty string: itself). */
static int character(const char *s, int n, int column, int *width, char instead[16]) {
  unsigned char c = (unsigned char)*s;
  instead[0] = '\0';
  if (c >= 0x20 && c < 0x7f) {
    *width = 1;
    return 1;
  }
  if (c == '\t') {
    *width = 8 - column % 8;
    memset(instead, ' ', (size_t)*width);
    instead[*width] = '\0';
    return 1;
  }
  if (c < 0x20 || c == 0x7f) {
    snprintf(instead, 16, "^%c", c ^ 0x40);
    *width = 2;
    return 1;
  }
  wchar_t wide;
  mbstate_t state = { 0 };
  size_t used = MB_CUR_MAX > 1 ? mbrtowc(&wide, s, (size_t)n, &state) : (size_t)-1;
  int columns = used > 0 && used <= (size_t)n ? wcwidth(wide) : -1;
  if (columns >= 0) {
    *width = columns;
    return (int)used;
  }
  snprintf(instead, 16, "\\x%02X", c);
  *width = 4;
  return 1;
}

static int text_width(const char *s) {
  int width = 0, n = (int)strlen(s);
  for (int i = 0; i < n; ) {
    int w;
    char instead[16];
    i += character(s + i, n - i, width, &w, instead);
    width += w;
  }
  return width;
}

/* Are these bytes as many columns: printable ASCII? */
static bool is_plain(const char *s, int n) {
  unsigned char odd = 0;
  for (int i = 0; i < n; i++) odd |= (unsigned char)(s[i] - 0x20) >= 0x5f;
  return !odd;
}

/* Rows that n bytes need, `usable` columns each; a place: the row and column where byte `at` stands. */
static int rows_of(const char *s, int n, int usable, int at, int *row_at, int *column_at) {
  int row = 0, column = 0, i = 0;
  if (is_plain(s, n)) {
    int last = n > 0 ? (n - 1) / usable : 0, byte = at < n ? at : n;
    if (at >= 0) {
      *row_at = byte < n ? byte / usable : last;
      *column_at = byte - *row_at * usable;
    }
    return last + 1;
  }
  while (i < n) {
    if (i == at) {
      *row_at = row;
      *column_at = column;
    }
    int w;
    char instead[16];
    int used = character(s + i, n - i, column, &w, instead);
    if (column + w > usable) {
      row++;
      column = 0;
      if (i == at) {
        *row_at = row;
        *column_at = 0;
      }
      if (instead[0] == ' ') w = 8 < usable ? 8 : 1;
    }
    column += w;
    i += used;
  }
  if (at >= n) {
    *row_at = row;
    *column_at = column;
  }
  return row + 1;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static row *new_row(void) {
  if (nrows == rows_room) {
    int room = rows_room ? 2 * rows_room : 64;
    row *more = realloc(rows, (size_t)room * sizeof *rows), *more_shown = realloc(shown, (size_t)room * sizeof *shown);
    if (more == NULL || more_shown == NULL) abort();
    rows = more;
    shown = more_shown;
    memset(rows + rows_room, 0, (size_t)(room - rows_room) * sizeof *rows);
    memset(shown + rows_room, 0, (size_t)(room - rows_room) * sizeof *shown);
    rows_room = room;
  }
  row *r = &rows[nrows++];
  r->text.n = 0;
  r->width = 0;
  put(&r->text, "", 0);
  return r;
}

static void put_style(bytes *b, char style) {
  const char *sgr = theme[style & 127];
  put_text(b, "\033[0");
  if (sgr[0]) {
    put_text(b, ";");
    put_text(b, sgr);
  }
  put_text(b, "m");
}

static bool has_style(char style) { return theme[style & 127][0] != '\0'; }

/* Rows for n bytes of text behind a prefix; the rows after the first are indented by the prefix's width. Of them those
 * numbered from `from` to below `to` are made. */
static void make_rows(const char *s, int n, const char *styles, int nstyles, const char *prefix, char prefix_style,
                      int usable, int from, int to) {
  int indent = text_width(prefix), number = 0, column = 0, i = 0;
  row *r = NULL;
  char style = ' ';
  for (;;) {
    if (r == NULL && number >= from && number < to) {
      r = new_row();
      if (number == 0) {
        if (has_style(prefix_style)) put_style(&r->text, prefix_style);
        put_text(&r->text, prefix);
        if (has_style(prefix_style)) put_text(&r->text, "\033[0m");
      } else {
        for (int k = 0; k < indent; k++) put(&r->text, " ", 1);
      }
      r->width = indent;
      style = ' ';
    }
    if (i >= n) break;
    int w;
    char instead[16];
    int used = character(s + i, n - i, column, &w, instead);
    if (column + w > usable) {
      if (r && has_style(style)) put_text(&r->text, "\033[0m");
      r = NULL;
      column = 0;
      number++;
      if (number >= to) return;
      if (instead[0] == ' ') {
        w = 8 < usable ? 8 : 1;
        memset(instead, ' ', (size_t)w);
        instead[w] = '\0';
      }
      if (number >= from) continue;
    }
    if (r) {
      char wanted = i < nstyles ? styles[i] : ' ';
      if (wanted != style) {
        if (has_style(wanted) || has_style(style)) put_style(&r->text, wanted);
        style = wanted;
      }
      if (instead[0]) put_text(&r->text, instead);
      else put(&r->text, s + i, (size_t)used);
      r->width += w;
    }
    column += w;
    i += used;
  }
  if (r && has_style(style)) put_text(&r->text, "\033[0m");
}

/* ---- what Lua says ----------------------------------------------------------------------------- */

/* Tells Lua which lines changed since it last heard. */
void paint_sync(void) {
  const char *now = rl_line_buffer ? rl_line_buffer : "", *before = known.p ? known.p : "";
  size_t n = (size_t)rl_end, m = known.n, least = n < m ? n : m, first = 0, last = 0;
  if (n == m && memcmp(now, before, n) == 0 && known.p) return;
  while (first < least && now[first] == before[first]) first++;
  while (last < least - first && now[n - 1 - last] == before[m - 1 - last]) last++;
  while (first > 0 && now[first - 1] != '\n') first--;              /* whole lines */
  size_t end = n - last, old_end = m - last;
  while (end < n && now[end] != '\n') end++, old_end++;
  int line = 0, removed = 1;
  for (size_t i = 0; i < first; i++) line += now[i] == '\n';
  for (size_t i = first; i < old_end; i++) removed += before[i] == '\n';
  if (known.p == NULL) removed = 0;
  lua_pushinteger(prompt_lua, line);
  lua_pushinteger(prompt_lua, removed);
  lua_pushlstring(prompt_lua, now + first, end - first);
  known.n = 0;
  put(&known, now, n);
  prompt_ask("replace", 3, 0);
}

paint_place paint_place_of(int point) {
  paint_place place = { 0, 0 };
  for (int i = 0, start = 0; i <= point; i++) {
    if (i == point) place.column = i - start;
    else if (rl_line_buffer[i] == '\n') {
      place.line++;
      start = i + 1;
    }
  }
  return place;
}

int paint_line_start(int line) {
  int i = 0;
  for (; line > 0 && i < rl_end; i++)
    if (rl_line_buffer[i] == '\n') line--;
  return i;
}

typedef struct look { char *hint, *styles; size_t nhint, nstyles; paint_place mark[2]; int marks; } look;

static look look_at(paint_place cursor, int columns) {
  look seen = { 0 };
  lua_State *L = prompt_lua;
  lua_pushinteger(L, cursor.line);
  lua_pushinteger(L, cursor.column);
  lua_pushinteger(L, columns);
  if (!prompt_ask("look", 3, 6)) return seen;
  size_t n;
  const char *s = lua_tolstring(L, -6, &n);
  if (s && (seen.hint = malloc(n + 1))) {
    memcpy(seen.hint, s, n + 1);
    seen.nhint = n;
    s = lua_tolstring(L, -5, &n);
    if (s && (seen.styles = malloc(n + 1))) {
      memcpy(seen.styles, s, n + 1);
      seen.nstyles = n;
    }
  }
  for (int k = 0; k < 2; k++) {
    if (!lua_isnumber(L, -4 + 2 * k)) break;
    seen.mark[k] = (paint_place){ (int)lua_tointeger(L, -4 + 2 * k), (int)lua_tointeger(L, -3 + 2 * k) };
    seen.marks = k + 1;
  }
  lua_pop(L, 6);
  return seen;
}

/* ---- the screen -------------------------------------------------------------------------------- */

void paint_size(int *columns, int *rows_) {
  struct winsize size;
  *columns = 80;
  *rows_ = 24;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    *columns = size.ws_col;
    *rows_ = size.ws_row > 0 ? size.ws_row : 24;
  }
  if (*columns < LEAST_COLUMNS) *columns = LEAST_COLUMNS;
}

static void send(const bytes *b) {
  for (size_t i = 0; i < b->n; ) {
    ssize_t done = write(STDOUT_FILENO, b->p + i, b->n - i);
    if (done < 0) return;
    i += (size_t)done;
  }
}

/* From where the cursor is to the beginning of a row; rows below the last one shown are made. */
static void move_to(bytes *out, int to) {
  if (to < at_row) put_escape(out, at_row - to, 'A');
  for (; at_row < to && at_row < nshown - 1; at_row++) put_text(out, "\033[B");
  for (; at_row < to; at_row++) put_text(out, "\r\n");
  put_text(out, "\r");
  at_row = to;
  at_column = 0;
}

static bool same(const row *a, const row *b) {
  return a->text.n == b->text.n && memcmp(a->text.p, b->text.p, a->text.n) == 0;
}

/* Makes the screen show `rows`, the cursor at a row and column. */
static void show(int cursor_row, int cursor_column) {
  static bytes out;
  out.n = 0;
  for (int i = 0; i < nrows; i++) {
    if (i < nshown && same(&rows[i], &shown[i])) continue;
    move_to(&out, i);
    put(&out, rows[i].text.p, rows[i].text.n);
    if (i < nshown && shown[i].width > rows[i].width) put_text(&out, "\033[K");
    at_column = rows[i].width;
    if (i >= nshown) nshown = i + 1;
  }
  if (nshown > nrows) {
    move_to(&out, nrows);
    put_text(&out, "\033[J");
    nshown = nrows;
  }
  if (at_row != cursor_row) move_to(&out, cursor_row);
  if (at_column != cursor_column) {
    put_text(&out, "\r");
    if (cursor_column > 0) put_escape(&out, cursor_column, 'C');
    at_column = cursor_column;
  }
  send(&out);
  for (int i = 0; i < nrows; i++) {      /* what was to be shown is shown; the old rows' memory is used again */
    row was = shown[i];
    shown[i] = rows[i];
    rows[i] = was;
  }
}

/* The prompt now: readline's own while it asks for something (a search, a count), else ours behind the mode's mark. */
static const char *prompt_now(bool *ours) {
  static bytes text;
  text.n = 0;
  put(&text, "", 0);
  *ours = rl_display_prompt == rl_prompt || rl_display_prompt == NULL;
  if (!*ours) {
    for (const char *s = rl_display_prompt; *s; s++)
      if (*s != RL_PROMPT_START_IGNORE && *s != RL_PROMPT_END_IGNORE) put(&text, s, 1);
    return text.p;
  }
  const char *on = rl_variable_value("show-mode-in-prompt");
  if (on && strcmp(on, "on") == 0) {
    const char *name = rl_editing_mode == 1 ? "emacs-mode-string"
                     : rl_get_keymap() == vi_movement_keymap ? "vi-cmd-mode-string" : "vi-ins-mode-string";
    const char *mark = rl_variable_value(name);
    for (; mark && *mark; mark++)
      if (*mark != '\001' && *mark != '\002') put(&text, mark, 1);
  }
  put_text(&text, base_prompt);
  return text.p;
}

/* A prompt of a further line, its end below that of the first one, which a mode's mark makes wider. */
static const char *further(bytes *room, const char *prompt, int indent) {
  room->n = 0;
  put(room, "", 0);
  for (int width = text_width(prompt); width < indent; width++) put(room, " ", 1);
  put_text(room, prompt);
  return room->p;
}

/* How the buffer is laid out: prompts and the room beside them. */
typedef struct layout {
  const char *prompt, *more, *begin;         /* of the first line; of a further one; of one that begins a statement */
  int indent, more_indent, columns;
  bool ours;                                 /* the prompt is not readline's own */
} layout;

static int room_beside(const layout *l, int line) {
  int usable = l->columns - 1 - (line == 0 ? l->indent : l->more_indent);
  return usable < 4 ? 4 : usable;
}

/* The lines of the buffer, one after another: false after the last. */
typedef struct line_walk { const char *s; int n, number, start; bool last; } line_walk;

static bool next_line(line_walk *w) {
  if (w->last) return false;
  if (w->s) {
    w->start += w->n + 1;
    w->number++;
  }
  w->s = rl_line_buffer + w->start;
  const char *stop = memchr(w->s, '\n', (size_t)(rl_end - w->start));
  w->n = stop ? (int)(stop - w->s) : rl_end - w->start;
  w->last = !stop;
  return true;
}

/* How many rows the buffer takes; *row, *column: where the cursor stands among them. */
static int measure(const layout *l, paint_place cursor, int *row, int *column) {
  int total = 0;
  for (line_walk w = { 0 }; next_line(&w); ) {
    int r = 0, c = 0;
    const bool here = w.number == cursor.line;
    const int made = rows_of(w.s, w.n, room_beside(l, w.number), here ? cursor.column : -1, &r, &c);
    if (here) {
      *row = total + r;
      *column = (w.number == 0 ? l->indent : l->more_indent) + c;
    }
    total += made;
  }
  return total;
}

/* Scrolls so that the cursor's row is in a window of so many of the buffer's rows. */
static void scroll(int cursor_at, int window, int total) {
  if (cursor_at < top) top = cursor_at;
  if (cursor_at >= top + window) top = cursor_at - window + 1;
  if (top > total - window) top = total - window;
  if (top < 0) top = 0;
}

/* The rows of one line from `from` to below `to`, in Lua's colours, with the brackets that match marked. */
static void make_line(const layout *l, const line_walk *w, const look *seen, int from, int to) {
  lua_State *L = prompt_lua;
  lua_pushinteger(L, w->number);
  bool styled = prompt_ask("style", 1, 2), begins = styled && lua_toboolean(L, -1);
  size_t nstyles = 0;
  const char *given = styled ? lua_tolstring(L, -2, &nstyles) : NULL;
  char *styles = given ? malloc(nstyles + 1) : NULL;
  if (styles) {
    memcpy(styles, given, nstyles + 1);
    for (int k = 0; k < seen->marks && seen->marks == 2; k++)
      if (seen->mark[k].line == w->number && seen->mark[k].column < (int)nstyles) styles[seen->mark[k].column] = 'M';
  }
  make_rows(w->s, w->n, styles, styles ? (int)nstyles : 0, w->number == 0 ? l->prompt : begins ? l->begin : l->more,
            (w->number == 0 || begins) && l->ours ? 'p' : 'q', room_beside(l, w->number), from, to);
  free(styles);
  if (styled) lua_pop(L, 2);
}

/* What Lua says of the cursor's place; a notice stands instead of its hint. */
static look hint_now(bool final, const layout *l, paint_place cursor) {
  look seen = { 0 };
  if (!final && l->ours) seen = look_at(cursor, l->columns);
  if (!final && notice[0]) {
    free(seen.hint);
    free(seen.styles);
    seen.hint = strdup(notice);
    seen.styles = NULL;
    seen.nhint = seen.hint ? strlen(notice) : 0;
    seen.nstyles = 0;
  }
  return seen;
}

/* Behind the text, where the cursor is: the rest of an input of before, as much of its first line as has room. */
static void make_suggestion(int columns) {
  if (nrows == 0 || rl_point != rl_end || !prompt_ask("suggest", 0, 1)) return;
  row *r = &rows[nrows - 1];
  size_t n = 0;
  const char *s = lua_tolstring(prompt_lua, -1, &n);
  if (s) put_style(&r->text, 'h');
  for (int i = 0, w = 0; s && i < (int)n && s[i] != '\n'; i += w) {
    int width;
    char instead[16];
    w = character(s + i, (int)n - i, r->width, &width, instead);
    if (r->width + width > columns - 1) break;
    if (instead[0]) put_text(&r->text, instead);
    else put(&r->text, s + i, (size_t)w);
    r->width += width;
  }
  if (s) put_text(&r->text, "\033[0m");
  lua_pop(prompt_lua, 1);
}

static void make_whole(const char *text, size_t n, const char *styles, size_t nstyles, int columns) {
  make_rows(text, (int)n, styles, styles ? (int)nstyles : 0, "", ' ', columns - 1, 0, 1);
}

/* The hint and the first rows of the menu, `below` together. */
static void make_below(const look *seen, int below, int columns) {
  const int hints = seen->hint && below > 0;
  if (hints) make_whole(seen->hint, seen->nhint, seen->styles, seen->nstyles, columns);
  for (const menu_row *m = menu; m < menu + below - hints; m++) make_whole(m->text, m->n, m->styles, m->n, columns);
}

/* The rows of the screen: the buffer around the cursor, the hint, as much of the menu as there is room for. */
static void make_screen(bool final, int *cursor_row, int *cursor_column) {
  static bytes more_room, begin_room;
  layout l;
  int height;
  paint_size(&l.columns, &height);
  paint_sync();
  l.prompt = prompt_now(&l.ours);
  l.indent = text_width(l.prompt);
  const int aligned = l.ours ? l.indent : 0;
  l.more = further(&more_room, more_prompt, aligned);
  l.begin = further(&begin_room, base_prompt, aligned);
  l.more_indent = text_width(l.more);
  paint_place cursor = paint_place_of(final ? rl_end : rl_point);
  look seen = hint_now(final, &l, cursor);
  int cursor_at = 0, column_at = 0;
  const int total = measure(&l, cursor, &cursor_at, &column_at);
  int below = final ? 0 : (seen.hint != NULL) + nmenu;
  if (total + below > height) below = total < height ? height - total : 0;
  const int window = height - below;
  scroll(cursor_at, window, total);
  nrows = 0;
  int number = 0, r, c;
  for (line_walk w = { 0 }; number < top + window && next_line(&w); ) {
    const int made = rows_of(w.s, w.n, room_beside(&l, w.number), -1, &r, &c);
    if (number + made > top) make_line(&l, &w, &seen, top - number, top + window - number);
    number += made;
  }
  if (!final && l.ours) make_suggestion(l.columns);
  make_below(&seen, below, l.columns);
  free(seen.hint);
  free(seen.styles);
  *cursor_row = cursor_at - top;
  *cursor_column = column_at;
}

void paint(void) {
  int cursor_row, cursor_column;
  make_screen(false, &cursor_row, &cursor_column);
  show(cursor_row, cursor_column);
}

void paint_final(void) {
  int cursor_row, cursor_column;
  make_screen(true, &cursor_row, &cursor_column);
  show(cursor_row, cursor_column);
}

void paint_below(void) {
  bytes out = { 0 };
  put(&out, "", 0);
  move_to(&out, nshown > 0 ? nshown - 1 : 0);
  put_text(&out, "\r\n\033[J");
  send(&out);
  free(out.p);
  paint_anew();
}

void paint_anew(void) {
  nshown = at_row = at_column = 0;
}

/* Terminals that rewrap their rows have made several of each row that has become too wide. */
void paint_resized(void) {
  int columns, height, up = 0;
  paint_size(&columns, &height);
  for (int i = 0; i < at_row && i < nshown; i++) up += shown[i].width > columns ? (shown[i].width - 1) / columns : 0;
  up += at_row + (at_column > columns ? (at_column - 1) / columns : 0);
  bytes out = { 0 };
  put_text(&out, "\r");
  if (up > 0) put_escape(&out, up, 'A');
  put_text(&out, "\033[J");
  send(&out);
  free(out.p);
  paint_anew();
}

/* Output that did not end its line keeps it: a mark and a row of blanks wrap to the next row, or are gone. */
static void fresh_row(void) {
  int columns, height;
  paint_size(&columns, &height);
  bytes out = { 0 };
  put_text(&out, "\033[2m%\033[0m");
  for (int i = 1; i < columns; i++) put_text(&out, " ");
  put_text(&out, "\r\033[K");
  send(&out);
  free(out.p);
}

void paint_begin(const char *prompt, const char *more) {
  fresh_row();
  base_prompt = prompt;
  snprintf(more_prompt, sizeof more_prompt, "%*s", text_width(prompt) < 70 ? text_width(prompt) : 70, more);
  free(known.p);
  known = (bytes){ 0 };
  top = 0;
  notice[0] = '\0';
  paint_menu_clear();
  paint_anew();
}

void paint_menu_clear(void) {
  for (int i = 0; i < nmenu; i++) {
    free(menu[i].text);
    free(menu[i].styles);
  }
  nmenu = 0;
  notice[0] = '\0';
}

void paint_menu_add(const char *text, size_t n, const char *styles, size_t nstyles) {
  if (nmenu == MENU_ROWS) return;
  menu_row m = { malloc(n + 1), malloc(n + 1), n };
  if (m.text == NULL || m.styles == NULL) {
    free(m.text);
    free(m.styles);
    return;
  }
  memcpy(m.text, text, n + 1);
  memset(m.styles, ' ', n);
  memcpy(m.styles, styles, nstyles < n ? nstyles : n);
  menu[nmenu++] = m;
}

void paint_message(const char *text) {
  snprintf(notice, sizeof notice, "%s", text);
}

void paint_theme(char style, const char *sgr) {
  snprintf(theme[style & 127], sizeof theme[0], "%s", sgr);
}
