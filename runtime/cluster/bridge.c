/* bridge.c: a rank on another host. Its worker has there what a worker has here: a ring in shared memory, of as many
 * ranks, and a channel. A bridge at each end plays the ranks of the other one: it takes what lies in the ring for them,
 * and what comes of the channel, and sends it over one wire; so nothing else knows of hosts. Messages between two other
 * hosts go by way of the driver's ring.
 *
 * The wire is ZeroMQ's where dflow started the rank (hosts.c), and MPI's where mpirun or srun did (mpi.c).
 */
#define _GNU_SOURCE
#include "cluster/bridge.h"
#include "base/processor.h"
#include "cluster/driver.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 1 << 15 };
typedef enum kind { PACKET = 1, CHANNEL, CLOSE } kind;
typedef struct front { uint8_t kind, rank, none[6]; } front;         /* of each message on the wire */

struct dfi_bridge {
  int32_t rank, n;                 /* of the worker that is far from the driver, and of all */
  bool far;                        /* this end is the worker's */
  dfi_wire *wire;                  /* owned */
  dfi_transport *end[DFI_RANKS_MOST];        /* owned; of the ranks that this end plays */
  int fd;                          /* owned: our side of the channel; -1: it does not carry yet */
  unsigned char *held; int64_t nheld, done;  /* owned; a message that came and has no room yet; done: bytes that had */
  unsigned char *out;              /* owned; a message that is being sent */
  unsigned char *chunk; int64_t nchunk;      /* owned; bytes of the channel that have not gone yet */
  int64_t room;                    /* bytes of a message, at most */
  atomic_bool stop, over;
  pthread_t thread;
};

dfi_bridge *dfi_bridge_new(int32_t rank, int32_t n, bool far, void *memory, int64_t bytes, dfi_wire *wire,
                           df_error *err) {
  dfi_bridge *b = dfi_xcalloc(1, sizeof *b);
  *b = (dfi_bridge){ .rank = rank, .n = n, .far = far, .wire = wire, .fd = -1, .room = CHUNK };
  bool good = true;
  for (int32_t i = 0; i < n && good; i++) {
    if ((i != rank) != far) continue;
    good = (b->end[i] = dfi_ring_new(memory, bytes, i, err)) != NULL;
    if (good && b->end[i]->most > b->room) b->room = b->end[i]->most;
  }
  b->room += (int64_t)sizeof(front);
  b->held = dfi_xmalloc((size_t)b->room);
  b->out = dfi_xmalloc((size_t)b->room);
  b->chunk = dfi_xmalloc(CHUNK);
  if (good) return b;
  dfi_bridge_free(b);
  return NULL;
}

/* False: the wire has no room. */
static bool say(dfi_bridge *b, kind kind, int32_t rank, const void *bytes, int64_t n) {
  const front f = { .kind = (uint8_t)kind, .rank = (uint8_t)rank };
  memcpy(b->out, &f, sizeof f);
  if (n) memcpy(b->out + sizeof f, bytes, (size_t)n);
  return b->wire->send(b->wire, b->out, (int64_t)sizeof f + n);
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
    const int64_t n = b->wire->receive(b->wire, b->held, b->room);
    if (n < (int64_t)sizeof(front) || n > b->room) return false;
    b->nheld = n;
    b->done = 0;
  }
  if (!hand_on(b)) return false;
  b->nheld = 0;
  return true;
}

/* Nothing has come for `idle` looks: looks again at once, then yields, then sleeps for longer and longer, to a
 * millisecond; a ring's bell does not ring on a socket. */
static void rest(const dfi_bridge *b, int32_t idle) {
  enum { LOOKS = 50, YIELDS = 50, SHORT_US = 20, LONG_US = 1000, EACH = 20 };
  if (idle < LOOKS) { dfi_relax(); return; }
  if (idle < LOOKS + YIELDS) { sched_yield(); return; }
  const int32_t doubled = (idle - LOOKS - YIELDS) / EACH;
  const int64_t us = doubled < 6 ? SHORT_US << doubled : LONG_US;
  struct pollfd fds[] = { { b->nheld ? -1 : b->wire->fd, POLLIN, 0 }, { b->fd, POLLIN, 0 } };
  ppoll(fds, 2, &(struct timespec){ .tv_nsec = 1000 * us }, NULL);
}

/* Until either side closes the channel, or this end stops and nothing is left to carry. */
static void *carry(void *arg) {
  dfi_bridge *b = arg;
  double until = 0;
  prctl(PR_SET_TIMERSLACK, 1000ul);
  for (int32_t idle = 0; !atomic_load(&b->over);) {
    const bool stops = atomic_load(&b->stop);          /* before it looks: what was written by then is carried */
    bool some = wire_in(b);
    some |= packets_out(b);
    some |= channel_out(b);
    if (stops) {
      if (!until) until = dfi_now() + 1;
      if ((!some && !b->nchunk) || dfi_now() > until) break;
    }
    if (some) idle = 0;
    else rest(b, idle++);
  }
  say(b, CLOSE, b->rank, NULL, 0);
  atomic_store(&b->over, true);
  shutdown(b->fd, SHUT_RDWR);
  return NULL;
}

int32_t dfi_bridge_run(dfi_bridge *b, int fd, df_error *err) {
  b->fd = fd;
  if (!pthread_create(&b->thread, NULL, carry, b)) return DF_OK;
  close(fd);
  b->fd = -1;
  return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "no thread could be started for the link of rank %d", b->rank);
}

bool dfi_bridge_over(dfi_bridge *b) { return atomic_load(&b->over); }

void dfi_bridge_free(dfi_bridge *b) {
  if (!b) return;
  if (b->fd >= 0) {
    atomic_store(&b->stop, true);
    pthread_join(b->thread, NULL);
    close(b->fd);
  }
  for (int32_t i = 0; i < b->n; i++) if (b->end[i]) b->end[i]->free(b->end[i]);
  b->wire->free(b->wire);
  dfi_free(b->held); dfi_free(b->out); dfi_free(b->chunk);
  dfi_free(b);
}
