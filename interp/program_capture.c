/* program_capture.c: the part of `dflow.program` that lets a notebook's kernel and an editor's debugger have standard
 * output. What the script, its C and its children print goes to memory, from which it is handed over. */
#define _GNU_SOURCE 1    /* memfd_create */
#include <fcntl.h>
#include <lauxlib.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

static int saved[2] = { -1, -1 };    /* what standard output and standard error were */
static FILE *taken[2];
static off_t given[2];               /* so much of it was handed over */
static int messages = -1;            /* what standard input was */

/* Pushes what was written since the last time. The file's own place is where the next is written, so it stays. */
static void push_taken(lua_State *L, int i) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (ssize_t n; (n = pread(fileno(taken[i]), luaL_prepbuffer(&b), LUAL_BUFFERSIZE, given[i])) > 0; given[i] += n)
    luaL_addsize(&b, (size_t)n);
  luaL_pushresult(&b);
}

/* so_far(): both, as strings, of what was written since this was asked last */
static int l_so_far(lua_State *L) {
  if (saved[0] < 0) return 0;
  fflush(NULL);
  for (int i = 0; i < 2; i++) push_taken(L, i);
  return 2;
}

/* capture(): what is written to standard output and standard error from now on is kept */
static int l_capture(lua_State *L) {
  fflush(NULL);
  for (int i = 0; i < 2; i++) {
    given[i] = 0;
    const int memory = memfd_create("dflow", MFD_CLOEXEC);             /* a machine need not have a folder for them */
    taken[i] = memory < 0 ? NULL : fdopen(memory, "w+");
    if (!taken[i]) return luaL_error(L, "capture: no memory for what is printed");
    saved[i] = fcntl(i + 1, F_DUPFD_CLOEXEC, 3);
    dup2(fileno(taken[i]), i + 1);
  }
  return 0;
}

/* captured(): the rest of both, as strings; and they go where they went before */
static int l_captured(lua_State *L) {
  if (saved[0] < 0) return 0;
  fflush(NULL);
  for (int i = 0; i < 2; i++) {
    dup2(saved[i], i + 1);
    close(saved[i]);
    saved[i] = -1;
    push_taken(L, i);
    fclose(taken[i]);
  }
  return 2;
}

static int close_file(lua_State *L) {
  luaL_Stream *file = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  return luaL_fileresult(L, fclose(file->f) == 0, NULL);
}

/* channel(): after capture(), a file that writes where standard output went. Standard input is input()'s from now on,
 * and empty for all others. */
static int l_channel(lua_State *L) {
  const int out = saved[0] < 0 ? -1 : fcntl(saved[0], F_DUPFD_CLOEXEC, 3);
  luaL_Stream *file = lua_newuserdatauv(L, sizeof *file, 0);
  file->closef = NULL;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  file->f = out < 0 ? NULL : fdopen(out, "w");
  if (!file->f) return luaL_error(L, "channel: standard output cannot be used");
  file->closef = close_file;
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (messages < 0) messages = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  if (nothing >= 0) {
    dup2(nothing, STDIN_FILENO);
    close(nothing);
  }
  return 1;
}

/* input(seconds): the bytes that have come since; nil: none did within that time; false: no more will come */
static int l_input(lua_State *L) {
  struct pollfd in = { .fd = messages, .events = POLLIN };
  if (poll(&in, 1, (int)(luaL_checknumber(L, 1) * 1000)) <= 0) return 0;
  luaL_Buffer b;
  char *at = luaL_buffinitsize(L, &b, 65536);
  const ssize_t n = read(messages, at, 65536);
  if (n <= 0) return lua_pushboolean(L, 0), 1;
  luaL_pushresultsize(&b, (size_t)n);
  return 1;
}

void program_capture(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "capture", l_capture }, { "captured", l_captured }, { "so_far", l_so_far },
    { "channel", l_channel }, { "input", l_input },       { NULL, NULL }
  };
  luaL_setfuncs(L, functions, 0);
}
