/*
 * lines.c: which lines of stdlib/ a Lua 5.4 has read (spec/cover/cover.lua).
 *
 * DFLOW_COVER_FILES is a list of the files; the file that DFLOW_COVER_LINES names has LINES bytes for each, in that
 * order. A lua5.4 loads this as a module, by LUA_INIT; the program, whose Lua is a library, has it loaded before that
 * (LD_PRELOAD), so that it is there under -E and stays there when Ctrl-C takes the hook. A coroutine inherits the hook.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
