/*
 * lines.c: which lines of stdlib/ a Lua 5.4 has read: a module that LUA_INIT loads (spec/cover/cover.lua).
 *
 * DFLOW_COVER_FILES is a list of the files; the file that DFLOW_COVER_LINES names has LINES bytes for each, in that
 * order. A coroutine inherits the hook.
 */
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINES = 4096, FILES = 1024, KNOWN = 512 };

static unsigned char *been;
static char *names[FILES];
static int nnames;
static struct { const char *source; int file; } known[KNOWN];      /* by where the name of a chunk lies */

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
  if (known[k].source != ar->source) {
    known[k].source = ar->source;
    known[k].file = file_of(ar->source);
  }
  const int file = known[k].file;
  if (file >= 0 && ar->currentline > 0 && ar->currentline < LINES) been[file * LINES + ar->currentline] = 1;
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

int dflow_cover_start(lua_State *L);

int dflow_cover_start(lua_State *L) {
  const char *path = getenv("DFLOW_COVER_LINES");
  const int fd = path && !been ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
  if (fd < 0) return 0;
  read_names(getenv("DFLOW_COVER_FILES"));
  const size_t size = (size_t)nnames * LINES;
  void *map = ftruncate(fd, (off_t)size) ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (map == MAP_FAILED) return 0;
  been = map;
  lua_sethook(L, on_line, LUA_MASKLINE, 0);
  return 0;
}
