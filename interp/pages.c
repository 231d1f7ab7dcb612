/* pages.c: `dflow.pages`, a server of a few pages on the loopback address: what `:serve` needs of C.
 *
 * A module of its own, loaded by `:serve` alone and built where libmicrohttpd is. It answers GET of /SECRET/NAME with
 * the page of that name, and GET of /SECRET/next?after=N with the state that was told last, as soon as its number is
 * above N. Everything else is not found. What the pages are is Lua's business: stdlib/dflow/repl/serve.lua.
 *
 * Every connection has a thread of its own, which may wait; the Lua thread only swaps what they answer with, under
 * `lock`. There are few at a time: where there are more, the oldest that has not shown that it knows the secret is
 * closed, so thousands of idle connections keep no other out, and take neither threads nor descriptors.
 */
#include <lauxlib.h>
#include <arpa/inet.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#define SERVER "dflow.pages"
/* CONNECTIONS: libmicrohttpd accepts no more until one of so many has ended; it is still ending what we close. */
enum { PAGES = 4, VIEWERS = 32, CONNECTIONS = 2 * VIEWERS, WAIT_S = 20, SECRET = 32 };

typedef struct page { char name[16], type[32]; char *bytes; size_t n; } page;

typedef struct guest {
  int socket;
  bool known;               /* it is answering a request with the secret */
  bool closed;              /* we have closed it */
  struct guest *older, *newer;
} guest;

typedef struct server {
  struct MHD_Daemon *daemon;
  uint16_t port;
  char secret[SECRET + 1];
  pthread_mutex_t lock;     /* guards all that follows */
  pthread_cond_t told;
  page pages[PAGES];        /* owned; a name of "" is a free place */
  char *state;              /* owned, JSON; NULL before the first */
  int64_t number;           /* of the state; the first is 1 */
  int waiting;              /* threads that wait for the next state */
  bool closing;
  guest *newest, *oldest;   /* connections */
  int guests;               /* that we have not closed */
} server;

/* ---- answers, on a connection's thread --------------------------------------------------------------------- */

static const char policy[] =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; frame-src 'self'; "
  "img-src data:; "
  "frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type, const char *bytes,
                              size_t n) {
  struct MHD_Response *r = MHD_create_response_from_buffer(n, (void *)bytes, MHD_RESPMEM_MUST_COPY);
  if (!r) return MHD_NO;
  MHD_add_response_header(r, "Content-Type", type);
  MHD_add_response_header(r, "Cache-Control", "no-store");
  MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
  MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(r, "Content-Security-Policy", policy);
  const enum MHD_Result ok = MHD_queue_response(c, status, r);
  MHD_destroy_response(r);
  return ok;
}

static enum MHD_Result not_found(struct MHD_Connection *c) {
  return answer(c, MHD_HTTP_NOT_FOUND, "text/plain", "not found\n", 10);
}

/* Was the request sent to us by this name? Another site's page that has its own name point here is told nothing. */
static bool our_host(const server *s, struct MHD_Connection *c) {
  static const char *const ours[] = { "127.0.0.1", "localhost" };
  const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host");
  char name[32];
  for (int i = 0; host && i < 2; i++) {
    snprintf(name, sizeof name, "%s:%d", ours[i], s->port);
    if (!strcmp(host, name) || (s->port == 80 && !strcmp(host, ours[i]))) return true;    /* browsers leave out :80 */
  }
  return false;
}

/* The name behind the secret; NULL when it is another. Takes the same time whatever differs. */
static const char *name_of(const server *s, const char *path) {
  int differs = 0;
  if (strlen(path) < SECRET + 2 || path[0] != '/' || path[SECRET + 1] != '/') return NULL;
  for (int i = 0; i < SECRET; i++) differs |= path[1 + i] ^ s->secret[i];
  return differs ? NULL : path + SECRET + 2;
}

/* Waits for a state above the number that was asked for, at most WAIT_S seconds. */
static enum MHD_Result answer_next(server *s, struct MHD_Connection *c) {
  const char *asked = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "after");
  const int64_t after = asked ? strtoll(asked, NULL, 10) : 0;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += WAIT_S;
  pthread_mutex_lock(&s->lock);
  s->waiting++;
  while (!s->closing && s->number <= after && !pthread_cond_timedwait(&s->told, &s->lock, &until)) {}
  s->waiting--;
  char *copy = s->state && s->number > after && !s->closing ? strdup(s->state) : NULL;
  pthread_mutex_unlock(&s->lock);
  const enum MHD_Result ok = copy ? answer(c, MHD_HTTP_OK, "application/json", copy, strlen(copy))
                                  : answer(c, MHD_HTTP_NO_CONTENT, "text/plain", "", 0);
  free(copy);
  return ok;
}

static page *page_of(server *s, const char *name) {
  for (int i = 0; i < PAGES; i++)
    if (!strcmp(s->pages[i].name, name)) return &s->pages[i];
  return NULL;
}

/* ---- connections ---------------------------------------------------------------------------------------------- */

/* Under the lock. Its thread sees the end of what it reads. */
static void close_oldest(server *s) {
  guest *g = s->oldest;
  while (g && (g->known || g->closed)) g = g->newer;
  if (!g) return;
  g->closed = true;
  s->guests--;
  shutdown(g->socket, SHUT_RDWR);
}

static void arrive(server *s, struct MHD_Connection *c, void **place) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
  guest *g = *place = info ? calloc(1, sizeof *g) : NULL;
  if (!g) return;
  g->socket = info->connect_fd;
  pthread_mutex_lock(&s->lock);
  g->older = s->newest;
  *(s->newest ? &s->newest->newer : &s->oldest) = g;
  s->newest = g;
  if (++s->guests > VIEWERS) close_oldest(s);
  pthread_mutex_unlock(&s->lock);
}

static void leave(server *s, void **place) {
  guest *g = *place;
  if (!g) return;
  pthread_mutex_lock(&s->lock);
  *(g->newer ? &g->newer->older : &s->newest) = g->older;
  *(g->older ? &g->older->newer : &s->oldest) = g->newer;
  if (!g->closed) s->guests--;
  pthread_mutex_unlock(&s->lock);
  free(g);
  *place = NULL;
}

static void come_and_go(void *user, struct MHD_Connection *c, void **place,
                        enum MHD_ConnectionNotificationCode what) {
  if (what == MHD_CONNECTION_NOTIFY_STARTED) arrive(user, c, place);
  else leave(user, place);
}

static void know(server *s, struct MHD_Connection *c, bool known) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  guest *g = info ? info->socket_context : NULL;
  if (!g) return;
  pthread_mutex_lock(&s->lock);
  g->known = known;
  pthread_mutex_unlock(&s->lock);
}

static void answered(void *user, struct MHD_Connection *c, void **seen, enum MHD_RequestTerminationCode how) {
  (void)seen, (void)how;
  know(user, c, false);
}

static enum MHD_Result handle(void *user, struct MHD_Connection *c, const char *path, const char *method,
                              const char *version, const char *body, size_t *nbody, void **seen) {
  server *s = user;
  (void)version, (void)body;
  if (!*seen) { *seen = s; return MHD_YES; }          /* the headers are there; what follows them is not taken */
  if (*nbody) { *nbody = 0; return MHD_YES; }
  const char *name = name_of(s, path);
  if (!name || strcmp(method, "GET") || !our_host(s, c)) return not_found(c);
  know(s, c, true);
  if (!strcmp(name, "next")) return answer_next(s, c);
  pthread_mutex_lock(&s->lock);
  const page *p = page_of(s, *name ? name : "index");
  const enum MHD_Result ok = p ? answer(c, MHD_HTTP_OK, p->type, p->bytes, p->n) : not_found(c);
  pthread_mutex_unlock(&s->lock);
  return ok;
}

/* ---- the Lua side ------------------------------------------------------------------------------------------- */

static server *server_arg(lua_State *L) {
  server *s = *(server **)luaL_checkudata(L, 1, SERVER);
  if (!s) luaL_error(L, "the server is closed");
  return s;
}

static int l_close(lua_State *L) {
  server **at = luaL_checkudata(L, 1, SERVER), *s = *at;
  if (!s) return 0;
  *at = NULL;
  pthread_mutex_lock(&s->lock);
  s->closing = true;
  pthread_cond_broadcast(&s->told);
  pthread_mutex_unlock(&s->lock);
  if (s->daemon) MHD_stop_daemon(s->daemon);          /* joins its threads */
  for (int i = 0; i < PAGES; i++) free(s->pages[i].bytes);
  free(s->state);
  pthread_cond_destroy(&s->told);
  pthread_mutex_destroy(&s->lock);
  free(s);
  return 0;
}

static bool make_secret(char *text) {
  unsigned char random[SECRET / 2];
  if (getrandom(random, sizeof random, 0) != sizeof random) return false;
  for (size_t i = 0; i < sizeof random; i++) snprintf(text + 2 * i, 3, "%02x", random[i]);
  return true;
}

static void listen_on(server *s, uint16_t port) {
  struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(port) };
  sigset_t all, before;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sigfillset(&all);                                   /* Ctrl-C is the Lua thread's */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  s->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, NULL, NULL,
                               handle, s, MHD_OPTION_SOCK_ADDR, &here,
                               MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_NOTIFY_CONNECTION,
                               come_and_go, s, MHD_OPTION_NOTIFY_COMPLETED, answered, s,
                               MHD_OPTION_CONNECTION_TIMEOUT, 2u * WAIT_S, MHD_OPTION_END);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* open(port): a server, its port and its secret; nil and why there is none. Port 0: any that is free. */
static int l_open(lua_State *L) {
  const lua_Integer port = luaL_optinteger(L, 1, 0);
  luaL_argcheck(L, port >= 0 && port < 65536, 1, "a port is from 0 to 65535");
  server **at = lua_newuserdatauv(L, sizeof *at, 0);
  *at = NULL;
  luaL_setmetatable(L, SERVER);
  server *s = *at = calloc(1, sizeof *s);
  if (!s) return luaL_error(L, "no memory for a server");
  pthread_mutex_init(&s->lock, NULL);
  pthread_condattr_t how;                             /* waits go by the monotonic clock */
  pthread_condattr_init(&how);
  pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
  pthread_cond_init(&s->told, &how);
  pthread_condattr_destroy(&how);
  if (make_secret(s->secret)) listen_on(s, (uint16_t)port);
  if (!s->daemon) {
    lua_pushnil(L);
    lua_pushfstring(L, port ? "port %d is taken, or not ours to take" : "no port is free", (int)port);
    return 2;
  }
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
  s->port = info ? info->port : (uint16_t)port;
  lua_pushinteger(L, s->port);
  lua_pushstring(L, s->secret);
  return 3;
}

/* s:put(name, type, bytes): the page of that name from now on; 'index' is that of /SECRET/ */
static int l_put(lua_State *L) {
  server *s = server_arg(L);
  size_t n;
  const char *name = luaL_checkstring(L, 2), *type = luaL_checkstring(L, 3), *bytes = luaL_checklstring(L, 4, &n);
  luaL_argcheck(L, *name && strlen(name) < sizeof s->pages->name, 2, "a short name is expected");
  luaL_argcheck(L, strlen(type) < sizeof s->pages->type, 3, "a type such as text/html is expected");
  char *copy = malloc(n + 1), *old = NULL;
  if (!copy) return luaL_error(L, "no memory for the page");
  memcpy(copy, bytes, n);
  pthread_mutex_lock(&s->lock);
  page *p = page_of(s, name);
  if (!p) p = page_of(s, "");
  if (p) {
    old = p->bytes;
    strcpy(p->name, name);
    strcpy(p->type, type);
    p->bytes = copy;
    p->n = n;
  } else {
    old = copy;
  }
  pthread_mutex_unlock(&s->lock);
  free(old);
  if (!p) return luaL_error(L, "there are %d pages already", PAGES);
  return 0;
}

/* s:tell(json): the next state; the browser is given {"number": its number, "state": json} */
static int l_tell(lua_State *L) {
  server *s = server_arg(L);
  const char *json = luaL_checkstring(L, 2);
  const size_t room = strlen(json) + 64;
  char *state = malloc(room);
  if (!state) return luaL_error(L, "no memory for the state");
  pthread_mutex_lock(&s->lock);
  snprintf(state, room, "{\"number\":%lld,\"state\":%s}", (long long)++s->number, json);
  free(s->state);
  s->state = state;
  pthread_cond_broadcast(&s->told);
  pthread_mutex_unlock(&s->lock);
  return 0;
}

/* s:waiting(): how many wait for the next state */
static int l_waiting(lua_State *L) {
  server *s = server_arg(L);
  pthread_mutex_lock(&s->lock);
  const int n = s->waiting;
  pthread_mutex_unlock(&s->lock);
  lua_pushinteger(L, n);
  return 1;
}

int luaopen_dflow_pages(lua_State *L);
int luaopen_dflow_pages(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "put", l_put }, { "tell", l_tell }, { "waiting", l_waiting }, { "close", l_close }, { NULL, NULL }
  };
  luaL_newmetatable(L, SERVER);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, l_close);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushcfunction(L, l_open);
  lua_setfield(L, -2, "open");
  return 1;
}
