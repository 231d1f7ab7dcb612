/* kernel.c: `dflow.sockets`, what the notebook's kernel needs of C: ZeroMQ's sockets and HMAC-SHA256.
 *
 * A module of its own, loaded by `dflow --kernel` alone and built where libzmq is. The protocol is Lua's business:
 * stdlib/dflow/command/kernel.lua.
 */
#include <errno.h>
#include <lauxlib.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define SOCKET "dflow.socket"
enum { SOCKETS = 16 };
/* libzmq's context has threads of its own; it ends before the program does, and before the Lua state has ended. */
static void *context;
static pid_t owner;                     /* the process whose threads they are: a fork's child has none of them */
static void *is_open[SOCKETS];          /* the Lua thread's sockets */
static pthread_t beat;
static bool beats;

/* ---- SHA-256 (FIPS 180-4) and HMAC (RFC 2104) --------------------------------------------------------------- */

typedef struct sha { uint32_t h[8]; uint8_t block[64]; uint64_t bytes; } sha;

static const uint32_t round_constant[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
  0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
  0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
  0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
  0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
  0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
  0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
  0xc67178f2
};

static uint32_t rotated(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha_block(sha *s) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
           (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
  for (int i = 16; i < 64; i++)
    w[i] = w[i - 16] + w[i - 7] + (rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3) +
           (rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10);
  memcpy(v, s->h, sizeof v);
  for (int i = 0; i < 64; i++) {
    const uint32_t t1 = v[7] + (rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25)) +
                        ((v[4] & v[5]) ^ (~v[4] & v[6])) + round_constant[i] + w[i];
    const uint32_t t2 = (rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22)) +
                        ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += t1;
    v[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

static void sha_begin(sha *s) {
  static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
  memcpy(s->h, first, sizeof first);
  s->bytes = 0;
}

static void sha_add(sha *s, const uint8_t *data, size_t n) {
  for (size_t i = 0; i < n; i++) {
    s->block[s->bytes++ % 64] = data[i];
    if (s->bytes % 64 == 0) sha_block(s);
  }
}

static void sha_end(sha *s, uint8_t out[32]) {
  const uint64_t bits = s->bytes * 8;
  const uint8_t one = 0x80, zero = 0;
  sha_add(s, &one, 1);
  while (s->bytes % 64 != 56) sha_add(s, &zero, 1);
  for (int i = 7; i >= 0; i--) { const uint8_t b = (uint8_t)(bits >> 8 * i); sha_add(s, &b, 1); }
  for (int i = 0; i < 32; i++) out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

/* hmac(key, part, …): the HMAC-SHA256 of the parts, one after the other, in hexadecimal */
static int l_hmac(lua_State *L) {
  size_t n;
  const uint8_t *key = (const uint8_t *)luaL_checklstring(L, 1, &n);
  uint8_t block[64] = { 0 }, pad[64], digest[32];
  sha s;
  if (n > 64) { sha_begin(&s); sha_add(&s, key, n); sha_end(&s, block); }
  else memcpy(block, key, n);
  for (int i = 0; i < 64; i++) pad[i] = block[i] ^ 0x36;
  sha_begin(&s);
  sha_add(&s, pad, 64);
  for (int i = 2; i <= lua_gettop(L); i++) {
    const uint8_t *part = (const uint8_t *)luaL_checklstring(L, i, &n);
    sha_add(&s, part, n);
  }
  sha_end(&s, digest);
  for (int i = 0; i < 64; i++) pad[i] = block[i] ^ 0x5c;
  sha_begin(&s);
  sha_add(&s, pad, 64);
  sha_add(&s, digest, 32);
  sha_end(&s, digest);
  char hex[65];
  for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
  lua_pushlstring(L, hex, 64);
  return 1;
}

/* ---- sockets --------------------------------------------------------------------------------------------------- */

static void **socket_arg(lua_State *L, int arg) {
  void **s = luaL_checkudata(L, arg, SOCKET);
  if (!*s) luaL_error(L, "the socket is closed");
  return s;
}

static int failed(lua_State *L, const char *what) { return luaL_error(L, "%s: %s", what, zmq_strerror(zmq_errno())); }

static void close_socket(void *s) {
  for (int i = 0; i < SOCKETS; i++)
    if (is_open[i] == s) {
      is_open[i] = NULL;
      zmq_close(s);
      return;
    }
}

/* What was sent is given the sockets' linger to arrive. */
static void end_context(void) {
  if (!context || owner != getpid()) return;
  for (int i = 0; i < SOCKETS; i++) if (is_open[i]) close_socket(is_open[i]);
  zmq_ctx_shutdown(context);            /* the heartbeat's thread sees it, and ends */
  if (beats) pthread_join(beat, NULL);
  beats = false;
  while (zmq_ctx_term(context) && zmq_errno() == EINTR) {}
  context = NULL;
}

static int collect_context(lua_State *L) {
  (void)L;
  end_context();
  return 0;
}

static void begin_context(void) {
  static bool told;
  if (context) return;
  context = zmq_ctx_new();
  owner = getpid();
  if (!told) atexit(end_context);       /* for os.exit, which leaves the Lua state open */
  told = true;
}

/* bind(kind, address): a socket; kind is 'router', 'pub' or 'rep'. Address with port 0: any free one. */
static int l_bind(lua_State *L) {
  static const char *const kinds[] = { "router", "pub", "rep", NULL };
  static const int types[] = { ZMQ_ROUTER, ZMQ_PUB, ZMQ_REP };
  const int kind = luaL_checkoption(L, 1, NULL, kinds), linger = 500;
  const char *address = luaL_checkstring(L, 2);
  begin_context();
  void **s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = NULL;
  luaL_setmetatable(L, SOCKET);
  int place = 0;
  while (place < SOCKETS && is_open[place]) place++;
  if (place == SOCKETS) return luaL_error(L, "there are %d sockets already", SOCKETS);
  *s = is_open[place] = zmq_socket(context, types[kind]);
  if (!*s) return failed(L, "socket");
  zmq_setsockopt(*s, ZMQ_LINGER, &linger, sizeof linger);
  if (zmq_bind(*s, address)) return failed(L, address);
  return 1;
}

/* s:send{frame, …} */
static int l_send(lua_State *L) {
  void **s = socket_arg(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  const lua_Integer n = luaL_len(L, 2);
  for (lua_Integer i = 1; i <= n; i++) {
    size_t bytes;
    lua_rawgeti(L, 2, i);
    const char *frame = luaL_checklstring(L, -1, &bytes);
    if (zmq_send(*s, frame, bytes, i < n ? ZMQ_SNDMORE : 0) < 0) return failed(L, "send");
    lua_pop(L, 1);
  }
  return 0;
}

/* s:receive(): {frame, …} of a message that is there; nil when there is none */
static int l_receive(lua_State *L) {
  void **s = socket_arg(L, 1);
  lua_newtable(L);
  for (lua_Integer i = 1;; i++) {
    zmq_msg_t m;
    zmq_msg_init(&m);
    if (zmq_msg_recv(&m, *s, i == 1 ? ZMQ_DONTWAIT : 0) < 0) {
      zmq_msg_close(&m);
      if (i == 1 && (zmq_errno() == EAGAIN || zmq_errno() == EINTR)) return lua_pushnil(L), 1;
      return failed(L, "receive");
    }
    lua_pushlstring(L, zmq_msg_data(&m), zmq_msg_size(&m));
    lua_rawseti(L, -2, i);
    const int more = zmq_msg_more(&m);
    zmq_msg_close(&m);
    if (!more) return 1;
  }
}

/* poll(ms, s1, s2, …): waits until one of them has a message, at most so long (-1: for ever); which one, or nil */
static int l_poll(lua_State *L) {
  zmq_pollitem_t items[8];
  const int n = lua_gettop(L) - 1;
  luaL_argcheck(L, n >= 1 && n <= 8, 2, "one to eight sockets are expected");
  for (int i = 0; i < n; i++) items[i] = (zmq_pollitem_t){ .socket = *socket_arg(L, i + 2), .events = ZMQ_POLLIN };
  if (zmq_poll(items, n, (long)luaL_checkinteger(L, 1)) < 0 && zmq_errno() != EINTR) return failed(L, "poll");
  for (int i = 0; i < n; i++)
    if (items[i].revents & ZMQ_POLLIN) { lua_pushinteger(L, i + 1); return 1; }
  return lua_pushnil(L), 1;
}

static int l_close(lua_State *L) {
  void **s = luaL_checkudata(L, 1, SOCKET);
  if (*s) close_socket(*s);
  *s = NULL;
  return 0;
}

static void *echo(void *s) {
  for (;;) {
    zmq_msg_t m;
    zmq_msg_init(&m);
    if (zmq_msg_recv(&m, s, 0) < 0 && zmq_errno() != EINTR) { zmq_msg_close(&m); break; }
    if (zmq_msg_send(&m, s, 0) < 0) zmq_msg_close(&m);
  }
  zmq_close(s);
  return NULL;
}

/* heartbeat(address): a thread sends back whatever comes there, also while Lua code runs */
static int l_heartbeat(lua_State *L) {
  begin_context();
  if (beats) return luaL_error(L, "heartbeat: there is one already");
  void *s = zmq_socket(context, ZMQ_REP);
  const int linger = 0;
  sigset_t all, before;
  zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof linger);
  if (zmq_bind(s, luaL_checkstring(L, 1))) { zmq_close(s); return failed(L, "heartbeat"); }
  sigfillset(&all);                          /* Ctrl-C is the Lua thread's */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int status = pthread_create(&beat, NULL, echo, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (status) { zmq_close(s); return luaL_error(L, "heartbeat: no thread could be started"); }
  beats = true;
  return 0;
}

/* Ctrl-C between two inputs means nothing. */
static int l_ignore_interrupts(lua_State *L) {
  (void)L;
  signal(SIGINT, SIG_IGN);
  return 0;
}

/* orphaned(): has the program that started us ended? Jupyter says in JPY_PARENT_PID which it is. */
static int l_orphaned(lua_State *L) {
  const char *text = getenv("JPY_PARENT_PID");
  const long starter = text ? strtol(text, NULL, 10) : 0;
  lua_pushboolean(L, starter > 1 && kill((pid_t)starter, 0) && errno == ESRCH);
  return 1;
}

int luaopen_dflow_sockets(lua_State *L);
int luaopen_dflow_sockets(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "send", l_send }, { "receive", l_receive }, { "close", l_close }, { NULL, NULL }
  };
  static const luaL_Reg functions[] = {
    { "bind", l_bind },       { "poll", l_poll },         { "heartbeat", l_heartbeat },
    { "hmac", l_hmac },       { "ignore_interrupts", l_ignore_interrupts },
    { "orphaned", l_orphaned }, { NULL, NULL }
  };
  luaL_newmetatable(L, SOCKET);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, l_close);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  lua_newuserdatauv(L, 1, 0);           /* when the state closes, the context ends */
  lua_newtable(L);
  lua_pushcfunction(L, collect_context);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &context);
  return 1;
}
