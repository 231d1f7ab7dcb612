/*
 * lines.c: which lines of stdlib/ a Lua 5.4 has read (spec/cover/cover.lua).
 *
 * DFLOW_COVER_FILES is a list of the files; the file that DFLOW_COVER_LINES names has LINES bytes for each, in that
 * order. A lua5.4 loads this as a module, by LUA_INIT; the program, whose Lua is a library, has it loaded before that
 * (LD_PRELOAD), so that it is there under -E and stays there when Ctrl-C takes the hook. A coroutine inherits the hook.
 *
 * `cut` writes behind DFLOW_COVER_TESTS where a test has been, in both maps, and makes 2 of each 1 in them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES = 4096, FILES = 1024, KNOWN = 512, NAME = 160 };

static unsigned char *been;
static char *names[FILES];
static int nnames;
static struct { const char *source; int file; char name[NAME]; } known[KNOWN];      /* by where a chunk's name lies */
static lua_Hook other;                                                               /* whoever wants a hook besides */
static int other_mask;

/** Lua's own function: of the library behind this one, or of a program that has Lua in itself. */
static void *lua_own(const char *name) {
  void *f = dlsym(RTLD_NEXT, name);
  return f ? f : dlsym(RTLD_DEFAULT, name);
}

/** The number of a chunk's file in the list, or -1. */
static int file_of(const char *source) {
  const char *at = strstr(source, "stdlib/dflow");
  if (*source != '@' || !at) return -1;
  for (int i = 0; i < nnames; i++)
    if (!strcmp(names[i], at)) return i;
  return -1;
}

static void on_line(lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "S", ar);
  const size_t k = ((size_t)ar->source >> 4) % KNOWN;
  if (known[k].source != ar->source || strncmp(known[k].name, ar->source, NAME - 1)) {
    known[k].source = ar->source;
    known[k].file = file_of(ar->source);
    strncpy(known[k].name, ar->source, NAME - 1);
  }
  const int file = known[k].file;
  if (file >= 0 && ar->currentline > 0 && ar->currentline < LINES) been[file * LINES + ar->currentline] = 1;
}

static void on_event(lua_State *L, lua_Debug *ar) {
  if (ar->event == LUA_HOOKLINE) on_line(L, ar);
  if (other && other_mask & 1 << (ar->event == LUA_HOOKTAILCALL ? LUA_HOOKCALL : ar->event)) other(L, ar);
}

static void read_names(const char *path) {
  char line[512];
  FILE *f = path ? fopen(path, "r") : NULL;
  if (!f) return;
  while (nnames < FILES && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    names[nnames++] = strdup(line);
  }
  fclose(f);
}

static void open_map(void) {
  const char *path = getenv("DFLOW_COVER_LINES");
  const int fd = path && !been ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
  if (fd < 0) return;
  read_names(getenv("DFLOW_COVER_FILES"));
  const size_t size = (size_t)nnames * LINES;
  void *map = ftruncate(fd, (off_t)size) ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (map != MAP_FAILED) been = map;
}

/* ---- as a module ------------------------------------------------------------------------------------ */

int dflow_cover_start(lua_State *L);

int dflow_cover_start(lua_State *L) {
  open_map();
  if (been && !lua_gethook(L)) lua_sethook(L, on_event, LUA_MASKLINE, 0);
  return 0;
}

/* ---- tests --------------------------------------------------------------------------------------- */

/** Where a map has been since the last cut: the places, owned, and how many. A byte is 1, or 2 from now on. */
static uint32_t *cut_map(unsigned char *map, size_t size, uint32_t *n) {
  uint32_t *list = NULL, room = 0;
  *n = 0;
  for (size_t i = 0; i < size; i++) {
    uint64_t word;
    if (i % 8 == 0 && i + 8 <= size && (memcpy(&word, map + i, 8), !(word & 0x0101010101010101u))) { i += 7; continue; }
    if (map[i] != 1) continue;
    if (*n == room && !(list = realloc(list, sizeof *list * (room = room * 2 + 4096)))) abort();
    list[(*n)++] = (uint32_t)i;
    map[i] = 2;
  }
  return list;
}

/** The map of the library's places, once the library has been loaded and has made it; NULL before. */
static unsigned char *places(size_t *size) {
  static unsigned char *map;
  static size_t length;
  struct stat st;
  const char *path = getenv("DFLOW_COVER");
  const int fd = path && !map ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
    void *m = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m != MAP_FAILED) map = m, length = (size_t)st.st_size;
  }
  if (fd >= 0) close(fd);
  *size = length;
  return map;
}

int dflow_cover_cut(lua_State *L);

/** cut(name, milliseconds): a line "places lines milliseconds name", and the places and lines, four bytes each. */
int dflow_cover_cut(lua_State *L) {
  const char *path = getenv("DFLOW_COVER_TESTS"), *name = luaL_checkstring(L, 1);
  size_t size;
  uint32_t n[2];
  unsigned char *map = places(&size);
  uint32_t *at[2] = { cut_map(map, map ? size : 0, &n[0]), cut_map(been, been ? (size_t)nnames * LINES : 0, &n[1]) };
  FILE *f = path ? fopen(path, "ae") : NULL;
  if (f) {
    fprintf(f, "%u %u %d %s\n", n[0], n[1], (int)luaL_checknumber(L, 2), name);
    for (int i = 0; i < 2; i++) fwrite(at[i], sizeof *at[i], n[i], f);
    fclose(f);
  }
  free(at[0]);
  free(at[1]);
  return 0;
}

/* ---- before the library of Lua ---------------------------------------------------------------------- */

LUA_API void lua_sethook(lua_State *L, lua_Hook f, int mask, int count) {
  typedef void setter(lua_State *, lua_Hook, int, int);
  setter *set = (setter *)lua_own("lua_sethook");
  if (f == on_event) f = NULL;
  other = f;
  other_mask = f ? mask : 0;
  if (been) set(L, on_event, other_mask | LUA_MASKLINE, count);
  else set(L, f, mask, count);
}

LUA_API lua_Hook lua_gethook(lua_State *L) {
  lua_Hook (*get)(lua_State *) = (lua_Hook (*)(lua_State *))lua_own("lua_gethook");
  lua_Hook f = get(L);
  return f == on_event ? other : f;
}

LUALIB_API lua_State *luaL_newstate(void) {
  lua_State *(*make)(void) = (lua_State *(*)(void))lua_own("luaL_newstate");
  lua_State *L = make();
  open_map();
  if (L && been) lua_sethook(L, NULL, 0, 0);
  return L;
}
