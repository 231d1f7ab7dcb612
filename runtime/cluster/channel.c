/* channel.c: messages over a socket, and their payloads. */
#include "cluster/channel.h"
#include "base/clock.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FIRST_ROOM = 4096 };

void dfi_channel_open(dfi_channel *c, int fd) {
  pthread_mutex_lock(&c->sending);
  c->fd = fd;
  pthread_mutex_unlock(&c->sending);
}

void dfi_channel_close(dfi_channel *c) {
  if (c->fd < 0) return;
  pthread_mutex_lock(&c->sending);
  close(c->fd);
  c->fd = -1;
  pthread_mutex_unlock(&c->sending);
  dfi_free(c->payload);
  c->payload = NULL;
  c->got = c->cap = 0;
}

/* Sends the parts that are left; false: the other side is gone, or takes nothing. */
static bool send_parts(int fd, struct iovec *part, size_t n, double patience) {
  while (n) {
    if (!part->iov_len) { part++; n--; continue; }
    const struct msghdr message = { .msg_iov = part, .msg_iovlen = n };
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      struct pollfd room = { .fd = fd, .events = POLLOUT };
      if (poll(&room, 1, (int)(patience * 1000)) <= 0 || room.revents & (POLLERR | POLLHUP)) return false;
      continue;
    }
    if (sent < 0) return false;
    for (size_t rest = (size_t)sent; rest;) {
      const size_t step = rest < part->iov_len ? rest : part->iov_len;
      part->iov_base = (char *)part->iov_base + step;
      part->iov_len -= step;
      rest -= step;
      if (!part->iov_len) { part++; n--; }
    }
  }
  return true;
}

bool dfi_channel_send(dfi_channel *c, dfi_word word, uint32_t request, const void *a, size_t na, const void *b,
                      size_t nb, double patience) {
  dfi_header header = { (uint32_t)word, request, na + nb };
  struct iovec part[] = { { &header, sizeof header }, { (void *)a, na }, { (void *)b, nb } };
  pthread_mutex_lock(&c->sending);
  const bool sent = c->fd >= 0 && send_parts(c->fd, part, 3, patience);
  pthread_mutex_unlock(&c->sending);
  return sent;
}

/* Room for a payload grows with what has come of it, whatever its length says. */
static bool make_room(dfi_channel *c, size_t want) {
  if (want <= c->cap) return true;
  size_t cap = c->cap ? c->cap : FIRST_ROOM;
  while (cap < want) cap *= 2;
  if (cap > c->header.bytes + FIRST_ROOM) cap = c->header.bytes + FIRST_ROOM;
  if (!dfi_memory_for(cap)) return false;
  c->payload = dfi_xrealloc(c->payload, cap);
  c->cap = cap;
  return true;
}

int32_t dfi_channel_read(dfi_channel *c) {
  if (c->got == sizeof c->header + c->header.bytes && c->got) c->got = 0;          /* the last one was taken */
  for (;;) {
    void *to;
    size_t want;
    if (c->got < sizeof c->header) {
      to = (char *)&c->header + c->got;
      want = sizeof c->header - c->got;
    } else {
      const size_t has = c->got - sizeof c->header;
      if (!c->header.word || c->header.word >= DFI_WORDS || c->header.bytes > (uint64_t)DFI_ADDRESSES) return -1;
      if (has == c->header.bytes) return 1;
      if (!make_room(c, has + 1)) return -1;
      to = c->payload + has;
      want = c->cap - has < c->header.bytes - has ? c->cap - has : c->header.bytes - has;
    }
    const ssize_t n = recv(c->fd, to, want, MSG_DONTWAIT);
    if (n > 0) { c->got += (size_t)n; continue; }
    if (n < 0 && errno == EINTR) continue;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
  }
}
