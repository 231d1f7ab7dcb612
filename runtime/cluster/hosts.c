/* hosts.c: ranks that dflow starts on other hosts.
 *
 * `rsh host dflow --host` starts the far end, DFLOW_RSH or ssh. Its standard input has the keys of the connection
 * (CURVE) and a cookie, so neither is in arguments or environment; it listens on the named interface alone, and takes
 * the first connection that knows both. libzmq is opened when a host is asked for.
 */
#define _GNU_SOURCE
#include "cluster/bridge.h"
#include "cluster/driver.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

enum { KEY = 41, COOKIE = 33, PORT_SECONDS = 20 };

/* ---- libzmq, by its binary interface ----------------------------------------------------------------------------- */

enum { ZMQ_DEALER = 5, ZMQ_DONTWAIT = 1, ZMQ_POLLIN = 1, ZMQ_FD = 14, ZMQ_LINGER = 17, ZMQ_LAST_ENDPOINT = 32,
  ZMQ_IPV6 = 42, ZMQ_CURVE_SERVER = 47, ZMQ_CURVE_PUBLICKEY = 48, ZMQ_CURVE_SECRETKEY = 49, ZMQ_CURVE_SERVERKEY = 50,
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

/* ---- a wire ------------------------------------------------------------------------------------------------------ */

typedef struct zmq_wire { dfi_wire wire; void *socket; } zmq_wire;

static void set_int(void *socket, int option, int value) { zmq.setsockopt(socket, option, &value, sizeof value); }

static bool wire_send(dfi_wire *w, const void *bytes, int64_t n) {
  return zmq.send(((zmq_wire *)w)->socket, bytes, (size_t)n, ZMQ_DONTWAIT) >= 0;
}

static int64_t wire_receive(dfi_wire *w, void *to, int64_t room) {
  const int n = zmq.recv(((zmq_wire *)w)->socket, to, (size_t)room, ZMQ_DONTWAIT);
  return n > 0 ? n : 0;
}

static void wire_free(dfi_wire *w) {
  zmq.close(((zmq_wire *)w)->socket);
  dfi_free(w);
}

static zmq_wire *wire_new(void) {
  zmq_wire *w = dfi_xcalloc(1, sizeof *w);
  size_t n = sizeof w->wire.fd;
  w->socket = zmq.socket(context, ZMQ_DEALER);
  set_int(w->socket, ZMQ_LINGER, 200);
  set_int(w->socket, ZMQ_IPV6, 1);
  set_int(w->socket, ZMQ_HEARTBEAT_IVL, 500);
  set_int(w->socket, ZMQ_HEARTBEAT_TIMEOUT, 2000);
  w->wire = (dfi_wire){ .fd = -1, .send = wire_send, .receive = wire_receive, .free = wire_free };
  zmq.getsockopt(w->socket, ZMQ_FD, &w->wire.fd, &n);
  return w;
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
static int32_t spawn_far(pid_t *pid, const char *host, const char *program, int in[2], int out[2]) {
  char *argv[] = { (char *)remote_shell(), (char *)host, (char *)program, "--host", NULL };
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  const int32_t status = posix_spawnp(pid, argv[0], &files, NULL, argv, environ);
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
static int32_t connect_far(const zmq_wire *wire, int32_t rank, int32_t n, const char *host, int to, int from,
                           df_error *err) {
  char server[KEY], secret[KEY], ours[KEY], own[KEY], cookie[COOKIE], text[400], address[200] = "";
  zmq.curve_keypair(server, secret);
  zmq.curve_keypair(ours, own);
  random_cookie(cookie);
  snprintf(text, sizeof text, "%s %s %s %d %d %s\n", DFI_PROTOCOL, secret, cookie, rank, n, host);
  if (write_all(to, text)) read_line(from, address, sizeof address);
  if (strncmp(address, "tcp://", 6))
    return dfi_fail(err, DF_UNAVAILABLE, NULL, "rank %d: host %s has not started `dflow --host`%s%s: it is run by "
                    "`%s %s`, and needs the same dflow there", rank, host, address[0] ? ", which said: " : "",
                    address, remote_shell(), host);
  zmq.setsockopt(wire->socket, ZMQ_CURVE_SERVERKEY, server, KEY - 1);
  zmq.setsockopt(wire->socket, ZMQ_CURVE_PUBLICKEY, ours, KEY - 1);
  zmq.setsockopt(wire->socket, ZMQ_CURVE_SECRETKEY, own, KEY - 1);
  if (zmq.connect(wire->socket, address) || zmq.send(wire->socket, cookie, COOKIE, ZMQ_DONTWAIT) < 0)
    return dfi_fail(err, DF_UNAVAILABLE, NULL, "rank %d: %s of host %s cannot be reached", rank, address, host);
  return DF_OK;
}

int32_t dfi_hosts_start(dfi_worker *w, const char *host, const char *program, void *memory, int64_t bytes, int32_t n,
                         df_error *err) {
  int in[2] = { -1, -1 }, out[2] = { -1, -1 }, pair[2] = { -1, -1 };
  if (open_zmq(err)) return err->code;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) || pipe2(out, O_CLOEXEC) ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
    return dfi_fail(err, dfi_errno_code(errno), NULL, "no pipe for rank %d: %s", w->rank, strerror(errno));
  pid_t pid = 0;
  const int32_t status = spawn_far(&pid, host, program, in, out);
  close(in[0]);
  close(out[1]);
  w->running = !status;
  w->pidfd = status ? -1 : dfi_process_fd(pid);
  dfi_driver_names(w, pid, host);
  dfi_channel_open(&w->channel, dfi_process_high(pair[0]));
  w->far_stdin = dfi_process_high(in[1]);        /* the far end goes when it is closed */
  zmq_wire *wire = wire_new();
  int32_t code = status ? dfi_fail(err, dfi_errno_code(status), NULL, "rank %d: %s could not be run to reach host %s: "
                                   "%s", w->rank, remote_shell(), host, strerror(status))
                        : connect_far(wire, w->rank, n, host, w->far_stdin, out[0], err);
  close(out[0]);
  if (!code) w->bridge = dfi_bridge_new(w->rank, n, false, memory, bytes, &wire->wire, err);
  else wire_free(&wire->wire);
  if (w->bridge && !dfi_bridge_run(w->bridge, dfi_process_high(pair[1]), err)) return DF_OK;
  if (!w->bridge) close(pair[1]);
  dfi_hosts_stop(w);
  return err->code;
}

void dfi_hosts_stop(dfi_worker *w) {
  dfi_bridge_free(w->bridge);
  w->bridge = NULL;
  if (w->far_stdin) close(w->far_stdin);
  w->far_stdin = 0;
}

/* ---- the far end ------------------------------------------------------------------------------------------------- */

/* Binds to the interface that has this name, and writes its address to standard output. */
static bool listen_on(const zmq_wire *wire, const char *host) {
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
    bound = !zmq.bind(wire->socket, address);
  }
  freeaddrinfo(found);
  size_t room = sizeof address;
  if (!bound) { printf("%s cannot be listened on: is it this host's?\n", address); return false; }
  zmq.getsockopt(wire->socket, ZMQ_LAST_ENDPOINT, address, &room);
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
static bool is_driver(zmq_wire *wire, const char *cookie) {
  for (const double until = dfi_now() + PORT_SECONDS; dfi_now() < until && !driver_gone();) {
    char said[COOKIE + 1];
    zmq_item item = { wire->socket, 0, ZMQ_POLLIN, 0 };
    if (zmq.poll(&item, 1, 100) <= 0) continue;
    return wire_receive(&wire->wire, said, sizeof said) == COOKIE && !memcmp(said, cookie, COOKIE);
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
  int memfd;
  int64_t bytes;
  void *memory = dfi_process_memory(n, &memfd, &bytes, &err);
  if (!memory || open_zmq(&err) || !dfi_process_program(NULL, program, sizeof program)) {
    printf("%s\n", err.code ? err.message : "no program");
    return 1;
  }
  zmq_wire *wire = wire_new();
  set_int(wire->socket, ZMQ_CURVE_SERVER, 1);
  zmq.setsockopt(wire->socket, ZMQ_CURVE_SECRETKEY, secret, KEY - 1);
  if (!listen_on(wire, host) || !is_driver(wire, cookie)) return 1;
  dfi_worker w = { .rank = rank, .pidfd = -1, .channel = { .fd = -1 } };
  dfi_bridge *b = dfi_bridge_new(rank, n, true, memory, bytes, &wire->wire, &err);
  if (!b || dfi_process_start(&w, program, memfd, &err) || dfi_bridge_run(b, w.channel.fd, &err)) {
    fprintf(stderr, "dflow: %s\n", err.message);
    return 1;
  }
  char why[200] = "";
  while (!dfi_bridge_over(b) && !driver_gone() && !dfi_process_ended(&w, why, sizeof why)) usleep(5000);
  /* its channel closes a moment before it has ended */
  for (int32_t i = 0; i < 50 && !driver_gone() && !dfi_process_ended(&w, why, sizeof why); i++) usleep(1000);
  int signal_number = 0;
  int32_t ended = w.running ? 0 : w.status;
  if (!w.running && sscanf(why, "was killed by signal %d", &signal_number) == 1) ended = 128 + signal_number;
  dfi_bridge_free(b);
  dfi_process_kill(&w);
  return ended;
}
