/* bridge.c: a rank on another host. Its worker has there what a worker has here: a ring in shared memory, of as many
 * ranks, and a channel. A bridge at each end plays the ranks of the other one: it takes what lies in the ring for them,
 * and what comes of the channel, and sends it over one ZeroMQ connection; so nothing else knows of hosts. Messages
 * between two other hosts go by way of the driver's ring.
 *
 * `rsh host dflow --host` starts the far end, DFLOW_RSH or ssh. Its standard input has the keys of the connection
 * (CURVE) and a cookie, so neither is in arguments or environment; it listens on the named interface alone, and takes
 * the first connection that knows both. libzmq is opened when a host is asked for.
 */
#define _GNU_SOURCE
#include "cluster/driver.h"
#include "base/processor.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- libzmq, by its binary interface ----------------------------------------------------------------------------- */

enum { ZMQ_DEALER = 5, ZMQ_DONTWAIT = 1, ZMQ_POLLIN = 1, ZMQ_LINGER = 17, ZMQ_LAST_ENDPOINT = 32, ZMQ_IPV6 = 42,
  ZMQ_CURVE_SERVER = 47, ZMQ_CURVE_PUBLICKEY = 48, ZMQ_CURVE_SECRETKEY = 49, ZMQ_CURVE_SERVERKEY = 50,
  ZMQ_HEARTBEAT_IVL = 75, ZMQ_HEARTBEAT_TIMEOUT = 77 };
typedef struct zmq_item { void *socket; int fd; short events, revents; } zmq_item;
static struct {
  void *(*ctx_new)(void);
  void *(*socket)(void *, int);
  int (*setsockopt)(void *, int, const void *, size_t);
  int (*getsockopt)(void *, int, void *, size_t *);
  int (*bind)(void *, const char *);
  int (*connect)(void *, const char *);
  int (*close)(void *);
  int (*send)(void *, const void *, size_t, int);
  int (*recv)(void *, void *, size_t, int);
  int (*poll)(zmq_item *, int, long);
  int (*curve_keypair)(char *, char *);
  int (*has)(const char *);
} zmq;
static void *context;

static int32_t open_zmq(df_error *err) {
  static const char *const names[] = { "ctx_new", "socket", "setsockopt", "getsockopt", "bind", "connect", "close",
    "send", "recv", "poll", "curve_keypair", "has" };
  if (context) return DF_OK;
  void *library = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
  void **at = (void **)&zmq;
  for (size_t i = 0; library && i < sizeof names / sizeof *names; i++) {
    char symbol[40];
    snprintf(symbol, sizeof symbol, "zmq_%s", names[i]);
    if (!(at[i] = dlsym(library, symbol))) library = NULL;
  }
  if (!library)
    return dfi_fail(err, DF_UNIMPLEMENTED, NULL, "ranks on other hosts need libzmq 4 (libzmq.so.5), which is not here: "
                    "install it, as by `apt install libzmq5`");
  if (!zmq.has("curve"))
    return dfi_fail(err, DF_UNIMPLEMENTED, NULL, "this libzmq has no CURVE, which links between hosts need");
  context = zmq.ctx_new();
  return DF_OK;
}

/* ---- a bridge ---------------------------------------------------------------------------------------------------- */

enum { KEY = 41, COOKIE = 33, PORT_SECONDS = 20, CHUNK = 1 << 15 };
typedef enum kind { PACKET = 1, CHANNEL, CLOSE, HELLO } kind;
typedef struct front { uint8_t kind, rank, none[6]; } front;         /* of each message on the wire */

struct dfi_bridge {
  int32_t rank, n;                 /* of the worker that is far from the driver, and of all */
  bool far;                        /* this end is the worker's */
  void *socket;                    /* owned */
  dfi_transport *end[DFI_RANKS_MOST];        /* owned; of the ranks that this end plays */
  int fd;                          /* owned: our side of the channel */
  unsigned char *held; int64_t nheld, done;  /* owned; a message that came and has no room yet; done: bytes that had */
  unsigned char *chunk; int64_t nchunk;      /* owned; bytes of the channel that have not gone yet */
  int64_t room;
  atomic_bool stop, over;
  pthread_t thread;
};

static void set_int(void *socket, int option, int value) { zmq.setsockopt(socket, option, &value, sizeof value); }

static dfi_bridge *bridge_new(int32_t rank, int32_t n, bool far, void *memory, int64_t bytes, df_error *err) {
  dfi_bridge *b = dfi_xcalloc(1, sizeof *b);
  b->rank = rank;
  b->n = n;
  b->far = far;
  b->fd = -1;
  for (int32_t i = 0; i < n; i++)
    if ((i != rank) == far && !(b->end[i] = dfi_ring_new(memory, bytes, i, err))) break;
  b->room = (int64_t)sizeof(front) + dfi_ring_bytes(2) + CHUNK;
  b->held = dfi_xmalloc((size_t)b->room);
  b->chunk = dfi_xmalloc(sizeof(front) + CHUNK);
  b->socket = zmq.socket(context, ZMQ_DEALER);
  set_int(b->socket, ZMQ_LINGER, 200);
  set_int(b->socket, ZMQ_IPV6, 1);
  set_int(b->socket, ZMQ_HEARTBEAT_IVL, 500);
  set_int(b->socket, ZMQ_HEARTBEAT_TIMEOUT, 2000);
  return b;
}

static void bridge_free(dfi_bridge *b) {
  for (int32_t i = 0; i < b->n; i++) if (b->end[i]) b->end[i]->free(b->end[i]);
  if (b->fd >= 0) close(b->fd);
  zmq.close(b->socket);
  dfi_free(b->held); dfi_free(b->chunk);
  dfi_free(b);
}

/* False: the wire has no room. */
static bool say(const dfi_bridge *b, kind kind, int32_t rank, const void *bytes, int64_t n) {
  unsigned char *all = dfi_xmalloc(sizeof(front) + (size_t)n);
  const front f = { .kind = (uint8_t)kind, .rank = (uint8_t)rank };
  memcpy(all, &f, sizeof f);
  if (n) memcpy(all + sizeof f, bytes, (size_t)n);
  const bool sent = zmq.send(b->socket, all, sizeof f + (size_t)n, ZMQ_DONTWAIT) >= 0;
  dfi_free(all);
  return sent;
}

/* What lies in the ring for the ranks that this end plays; a packet that finds no room stays where it is. */
static bool packets_out(dfi_bridge *b) {
  bool some = false;
  for (int32_t i = 0; i < b->n; i++)
    for (int32_t from = 0; b->end[i] && from < b->n; from++) {
      dfi_transport *t = b->end[i];
      if (from == i || (b->far && from != b->rank) || !t->has(t, from)) continue;
      int64_t bytes;
      for (const void *p; (p = t->next(t, from, &bytes)) != NULL; some = true) {
        if (!say(b, PACKET, b->far ? i : from, p, bytes)) return some;
        t->release(t, from);
      }
    }
  return some;
}

static bool channel_out(dfi_bridge *b) {
  if (!b->nchunk) {
    const ssize_t n = recv(b->fd, b->chunk, CHUNK, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) atomic_store(&b->over, true);
    if (n <= 0) return false;
    b->nchunk = n;
  }
  if (!say(b, CHANNEL, b->rank, b->chunk, b->nchunk)) return false;
  b->nchunk = 0;
  return true;
}

/* Hands on the message that is held; false: there is no room for it yet. */
static bool hand_on(dfi_bridge *b) {
  front f;
  memcpy(&f, b->held, sizeof f);
  const unsigned char *payload = b->held + sizeof f;
  const int64_t n = b->nheld - (int64_t)sizeof f;
  if (f.kind == CLOSE) atomic_store(&b->over, true);
  if (f.kind == CHANNEL) {
    const ssize_t sent = send(b->fd, payload + b->done, (size_t)(n - b->done), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) atomic_store(&b->over, true);
    if (sent > 0) b->done += sent;
    return b->done == n;
  }
  const int32_t from = b->far ? f.rank : b->rank, to = b->far ? b->rank : f.rank;
  dfi_transport *t = f.kind == PACKET && f.rank < b->n && f.rank != b->rank ? b->end[from] : NULL;
  if (!t || n < 1 || n > t->most) return true;
  void *at = t->reserve(t, to, n);
  if (!at) return false;
  memcpy(at, payload, (size_t)n);
  t->commit(t, to);
  return true;
}

static bool wire_in(dfi_bridge *b) {
  if (!b->nheld) {
    const int n = zmq.recv(b->socket, b->held, (size_t)b->room, ZMQ_DONTWAIT);
    if (n < (int)sizeof(front) || n > b->room) return false;
    b->nheld = n;
    b->done = 0;
  }
  if (!hand_on(b)) return false;
  b->nheld = 0;
  return true;
}

/* Until either side closes the channel: carries what there is; with nothing to do it looks, yields, then sleeps a
 * millisecond at a time, as a ring's bell does not ring on a socket. */
static void *carry(void *arg) {
  dfi_bridge *b = arg;
  for (int32_t idle = 0; !atomic_load(&b->stop) && !atomic_load(&b->over);) {
    bool some = wire_in(b);
    some |= packets_out(b);
    some |= channel_out(b);
    if (some) { idle = 0; continue; }
    if (++idle < 50) dfi_relax();
    else if (idle < 100) sched_yield();
    else {
      zmq_item items[] = { { b->socket, 0, ZMQ_POLLIN, 0 }, { NULL, b->fd, ZMQ_POLLIN, 0 } };
      zmq.poll(items, b->nheld ? 0 : 2, 1);
    }
  }
  say(b, CLOSE, b->rank, NULL, 0);
  shutdown(b->fd, SHUT_RDWR);
  return NULL;
}

/* ---- the driver's end -------------------------------------------------------------------------------------------- */

static void random_cookie(char *to) {
  unsigned char bytes[(COOKIE - 1) / 2];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) abort();
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(to + 2 * i, 3, "%02x", bytes[i]);
}

static const char *remote_shell(void) {
  const char *rsh = getenv("DFLOW_RSH");
  return rsh && rsh[0] ? rsh : "ssh";
}

/* `rsh host program --host`, whose standard input and output are ours. */
static int32_t spawn_far(dfi_worker *w, const char *host, const char *program, int in[2], int out[2]) {
  char *argv[] = { (char *)remote_shell(), (char *)host, (char *)program, "--host", NULL };
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  const int32_t status = posix_spawnp(&w->pid, argv[0], &files, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&files);
  return status;
}

/* The line that the far end says: its address; empty: it said none in time. */
static void read_line(int fd, char *line, size_t room) {
  const double until = dfi_now() + PORT_SECONDS;
  size_t n = 0;
  while (n + 1 < room && dfi_now() < until) {
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    if (poll(&ready, 1, 200) <= 0) continue;
    if (read(fd, line + n, 1) != 1) { n = 0; break; }
    if (line[n] == '\n') break;
    n++;
  }
  line[n < room && line[n] == '\n' ? n : 0] = 0;
}

static bool write_all(int fd, const char *text) {            /* a pipe that is closed would raise a signal */
  return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* Keys go there, the address comes back, and the bridge connects. */
static int32_t connect_far(dfi_bridge *b, const char *host, int to, int from, df_error *err) {
  char server[KEY], secret[KEY], ours[KEY], own[KEY], cookie[COOKIE], text[400], address[200] = "";
  zmq.curve_keypair(server, secret);
  zmq.curve_keypair(ours, own);
  random_cookie(cookie);
  snprintf(text, sizeof text, "%s %s %s %d %d %s\n", DFI_PROTOCOL, secret, cookie, b->rank, b->n, host);
  if (write_all(to, text)) read_line(from, address, sizeof address);
  if (strncmp(address, "tcp://", 6))
    return dfi_fail(err, DF_UNAVAILABLE, NULL, "rank %d: host %s has not started `dflow --host`%s%s: it is run by "
                    "`%s %s`, and needs the same dflow there", b->rank, host, address[0] ? ", which said: " : "",
                    address, remote_shell(), host);
  zmq.setsockopt(b->socket, ZMQ_CURVE_SERVERKEY, server, KEY - 1);
  zmq.setsockopt(b->socket, ZMQ_CURVE_PUBLICKEY, ours, KEY - 1);
  zmq.setsockopt(b->socket, ZMQ_CURVE_SECRETKEY, own, KEY - 1);
  if (zmq.connect(b->socket, address) || !say(b, HELLO, b->rank, cookie, COOKIE))
    return dfi_fail(err, DF_UNAVAILABLE, NULL, "rank %d: %s of host %s cannot be reached", b->rank, address, host);
  return DF_OK;
}

int32_t dfi_bridge_start(dfi_worker *w, const char *host, const char *program, void *memory, int64_t bytes, int32_t n,
                         df_error *err) {
  int in[2] = { -1, -1 }, out[2] = { -1, -1 }, pair[2] = { -1, -1 };
  if (open_zmq(err)) return err->code;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) || pipe2(out, O_CLOEXEC) ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
    return dfi_fail(err, dfi_errno_code(errno), NULL, "no pipe for rank %d: %s", w->rank, strerror(errno));
  const int32_t status = spawn_far(w, host, program, in, out);
  close(in[0]);
  close(out[1]);
  w->running = !status;
  w->pidfd = status ? -1 : dfi_process_fd(w->pid);
  snprintf(w->host, sizeof w->host, "%s", host);
  dfi_bridge *b = bridge_new(w->rank, n, false, memory, bytes, err);
  b->fd = dfi_process_high(pair[1]);
  dfi_channel_open(&w->channel, dfi_process_high(pair[0]));
  w->bridge = b;
  w->far_stdin = dfi_process_high(in[1]);        /* the far end goes when it is closed */
  int32_t code = status ? dfi_fail(err, dfi_errno_code(status), NULL, "rank %d: %s could not be run to reach host %s: "
                                   "%s", w->rank, remote_shell(), host, strerror(status))
                        : connect_far(b, host, w->far_stdin, out[0], err);
  close(out[0]);
  if (!code && pthread_create(&b->thread, NULL, carry, b))
    code = dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "no thread could be started for the link to host %s", host);
  if (!code) return DF_OK;
  close(w->far_stdin);
  w->bridge = NULL;
  bridge_free(b);
  return code;
}

void dfi_bridge_stop(dfi_worker *w) {
  if (!w->bridge) return;
  atomic_store(&w->bridge->stop, true);
  pthread_join(w->bridge->thread, NULL);
  close(w->far_stdin);
  bridge_free(w->bridge);
  w->bridge = NULL;
}

/* ---- the far end ------------------------------------------------------------------------------------------------- */

/* Binds to the interface that has this name, and writes its address to standard output. */
static bool listen_on(dfi_bridge *b, const char *host) {
  struct addrinfo *found = NULL, how = { .ai_socktype = SOCK_STREAM };
  char name[100], address[200] = "";
  if (getaddrinfo(host, NULL, &how, &found)) {
    printf("there is no address of `%s`\n", host);
    return false;
  }
  bool bound = false;                      /* of several addresses one may be of a protocol that is not there */
  for (const struct addrinfo *a = found; a && !bound; a = a->ai_next) {
    if (getnameinfo(a->ai_addr, a->ai_addrlen, name, sizeof name, NULL, 0, NI_NUMERICHOST)) continue;
    snprintf(address, sizeof address, strchr(name, ':') ? "tcp://[%s]:*" : "tcp://%s:*", name);
    bound = !zmq.bind(b->socket, address);
  }
  freeaddrinfo(found);
  size_t room = sizeof address;
  if (!bound) { printf("%s cannot be listened on: is it this host's?\n", address); return false; }
  zmq.getsockopt(b->socket, ZMQ_LAST_ENDPOINT, address, &room);
  printf("%s\n", address);
  fflush(stdout);
  return true;
}

/* Has the driver gone, or closed the pipe that it holds? */
static bool driver_gone(void) {
  struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
  return poll(&in, 1, 0) > 0;
}

/* The first message has to be the cookie. */
static bool is_driver(const dfi_bridge *b, const char *cookie) {
  for (const double until = dfi_now() + PORT_SECONDS; dfi_now() < until && !driver_gone();) {
    zmq_item item = { b->socket, 0, ZMQ_POLLIN, 0 };
    if (zmq.poll(&item, 1, 100) <= 0) continue;
    const int n = zmq.recv(b->socket, b->held, (size_t)b->room, ZMQ_DONTWAIT);
    return n == (int)sizeof(front) + COOKIE && b->held[0] == HELLO &&
           !memcmp(b->held + sizeof(front), cookie, COOKIE);
  }
  return false;
}

int32_t df_cluster_host(void) {
  char line[400] = "", protocol[32], secret[KEY], cookie[COOKIE], host[100], program[4096];
  int rank = 0, n = 0;
  df_error err = { 0 };
  if (!fgets(line, sizeof line, stdin) ||
      sscanf(line, "%31s %40s %32s %d %d %99s", protocol, secret, cookie, &rank, &n, host) != 6 || rank < 1 ||
      n <= rank || n > DFI_RANKS_MOST) {
    fprintf(stderr, "dflow: --host is how `dflow --hosts` starts a rank on another host; by itself it has nothing to "
                    "do\n");
    return 1;
  }
  if (strcmp(protocol, DFI_PROTOCOL)) { printf("another version of dflow\n"); return 1; }
  const int64_t bytes = dfi_ring_bytes(n);
  const int memfd = dfi_process_high(memfd_create("dflow-ranks", MFD_CLOEXEC));
  void *memory = memfd >= 0 && !ftruncate(memfd, bytes)
                   ? mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0) : MAP_FAILED;
  if (memory == MAP_FAILED || open_zmq(&err) || !dfi_process_program(NULL, program, sizeof program)) {
    printf("%s\n", err.code ? err.message : "no memory to share, or no program");
    return 1;
  }
  dfi_ring_init(memory, n);
  dfi_bridge *b = bridge_new(rank, n, true, memory, bytes, &err);
  set_int(b->socket, ZMQ_CURVE_SERVER, 1);
  zmq.setsockopt(b->socket, ZMQ_CURVE_SECRETKEY, secret, KEY - 1);
  if (!listen_on(b, host) || !is_driver(b, cookie)) return 1;
  dfi_worker w = { .rank = rank, .pidfd = -1, .channel = { .fd = -1 } };
  if (dfi_process_start(&w, program, memfd, &err)) { fprintf(stderr, "dflow: %s\n", err.message); return 1; }
  b->fd = w.channel.fd;
  if (pthread_create(&b->thread, NULL, carry, b)) return 1;
  char why[200] = "";
  while (!atomic_load(&b->over) && !driver_gone() && !dfi_process_ended(&w, why, sizeof why)) usleep(5000);
  int signal_number = 0;
  int32_t ended = w.running ? 0 : w.status;
  if (!w.running && sscanf(why, "was killed by signal %d", &signal_number) == 1) ended = 128 + signal_number;
  atomic_store(&b->stop, true);
  pthread_join(b->thread, NULL);
  dfi_process_kill(&w);
  bridge_free(b);
  return ended;
}
