/* prompt_search.c: Ctrl-R: an input of before is found by some of its letters.
 *
 * While one searches, keys come here and not to readline: letters go into the pattern, what fits best stands in the
 * buffer, the others below it. Enter runs what is found, Tab and every key that means something else leave it in the
 * buffer (that key then does what it does), Escape and Ctrl-G bring back what was there. What fits is Lua's business:
 * stdlib/dflow/repl/search.lua, by way of the editor's `search`.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <readline/readline.h>

#include "prompt.h"

enum {
  KEY_LEAVE = 7 /* Ctrl-G */, KEY_BACK = 8, KEY_TAB = 9, KEY_NEXT = 18 /* Ctrl-R */, KEY_PREVIOUS = 19 /* Ctrl-S */,
  KEY_ALL = 21 /* Ctrl-U */, KEY_WORD = 23 /* Ctrl-W */, KEY_ESCAPE = 27, KEY_DELETE = 127
};

static bool searching;
static char pattern[256];
static size_t length;
static lua_Integer chosen;       /* of what fits, from 1 */
static char *before;             /* what was in the buffer; malloced */
static int before_point;

bool search_on(void) { return searching; }

static void put(const char *text, int point) {
  prompt_ask("recalled", 0, 0);
  rl_replace_line(text, 1);
  rl_point = point < rl_end ? point : rl_end;
}

/* Shows what fits the pattern now. */
static void look(void) {
  int columns, rows;
  paint_size(&columns, &rows);
  paint_menu_clear();
  lua_State *L = prompt_lua;
  const int base = lua_gettop(L);
  lua_pushlstring(L, pattern, length);
  lua_pushinteger(L, chosen);
  lua_pushinteger(L, columns);
  lua_pushinteger(L, rows);
  if (!prompt_ask("search", 4, 4)) return;
  chosen = lua_tointeger(L, -4);
  if (lua_isstring(L, -3)) put(lua_tostring(L, -3), (int)lua_tointeger(L, -2));
  else if (before) put(before, before_point);
  if (lua_istable(L, -1)) prompt_menu();
  lua_settop(L, base);
}

static void stop(bool back) {
  if (back && before) put(before, before_point);
  free(before);
  before = NULL;
  searching = false;
  prompt_ask("searched", 0, 0);
}

int search_begin(int count, int key) {
  (void)count, (void)key;
  free(before);
  before = strdup(rl_line_buffer);
  before_point = rl_point;
  searching = true;
  length = 0;
  chosen = 1;
  look();
  return 0;
}

/* Is Escape the beginning of what a longer key sends? */
static bool more_comes(void) {
  struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
  return prompt_pushed() || poll(&in, 1, 25) > 0;
}

static void shorten(bool word) {
  if (length > 0 && word)
    while (length > 0 && pattern[length - 1] == ' ') length--;
  do {
    if (length > 0) length--;
  } while (length > 0 && (word ? pattern[length - 1] != ' ' : ((unsigned char)pattern[length] & 0xC0) == 0x80));
  chosen = 1;
}

void search_key(void) {
  const int key = prompt_key();
  char byte = (char)key;
  if (key >= 0 && (key >= 32 && key != KEY_DELETE) && length + 1 < sizeof pattern) {
    pattern[length++] = byte;
    chosen = 1;
  } else if (key == KEY_NEXT) {
    chosen++;
  } else if (key == KEY_PREVIOUS) {
    chosen = chosen > 1 ? chosen - 1 : 1;
  } else if (key == KEY_DELETE || key == KEY_BACK || key == KEY_WORD) {
    shorten(key == KEY_WORD);
  } else if (key == KEY_ALL) {
    length = 0;
  } else {
    const bool leaves = key == KEY_LEAVE || (key == KEY_ESCAPE && !more_comes());
    paint_menu_clear();
    stop(leaves);
    if (!leaves && key >= 0 && key != KEY_TAB) prompt_push_back(&byte, 1);
    rl_redisplay_function();
    return;
  }
  look();
  rl_redisplay_function();
}
