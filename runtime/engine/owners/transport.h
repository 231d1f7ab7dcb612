/* transport.h: what carries packets between ranks: a table of functions, as a device has one. ring.c is the shared
 * memory of one host.
 *
 * A packet is a run of bytes that arrives whole, once, and behind those that the same rank sent to the same rank before
 * it. A transport never blocks but in `wait`, and has no buffer that grows: where there is no room `reserve` says so,
 * and the sender tries again. rank.c cuts large messages into packets, and holds what there is no room for.
 */
#ifndef DFLOW_TRANSPORT_H
#define DFLOW_TRANSPORT_H
#include "base/internal.h"

typedef struct dfi_transport dfi_transport;
struct dfi_transport {
  int32_t me, n;                 /* this rank, and how many there are */
  int64_t most;                  /* bytes of a packet, at most */
  /* Room for a packet to a rank: written by the caller, then committed. NULL: there is none now. One thread at a time
   * for each `to`. */
  void *(*reserve)(dfi_transport *t, int32_t to, int64_t bytes);
  void  (*commit)(dfi_transport *t, int32_t to);
  /* The next packet that a rank has sent here, until it is released; NULL: none. One thread at a time for each
   * `from`. */
  const void *(*next)(dfi_transport *t, int32_t from, int64_t *bytes);
  void  (*release)(dfi_transport *t, int32_t from);
  /* Has any rank sent something? Only a look, and cheap. */
  bool  (*filled)(dfi_transport *t);
  bool  (*has)(dfi_transport *t, int32_t from);        /* has this one? */
  /* Has a rank sent what no packet looks like? Nothing more comes from it. */
  bool  (*broken)(dfi_transport *t, int32_t from);
  /* Sleeps until a packet comes, `wake` is called, or so many seconds have passed; not at all where something came, or
   * `wake` was called, since the ticket was taken, which is before its holder looked for work elsewhere. Any thread,
   * any number of them. */
  uint32_t (*ticket)(dfi_transport *t);
  void  (*wait)(dfi_transport *t, uint32_t ticket, double seconds);
  void  (*wake)(dfi_transport *t);
  /* The packets from and to a rank that has died are dropped; a new process takes its place. */
  void  (*clear)(dfi_transport *t, int32_t peer);
  void  (*free)(dfi_transport *t);
};

/* ring.c: the memory that n ranks of a host share. `init` once, by one of them; each then makes its end of it. NULL:
 * the memory is none, or of another version; err says which. */
int64_t dfi_ring_bytes(int32_t n);
void    dfi_ring_init(void *memory, int32_t n);
/* The same with rings of so many bytes, a power of two: how much memory that takes, which is laid out unless it is
 * NULL. */
int64_t dfi_ring_lay(void *memory, int32_t n, int64_t lane_bytes);
dfi_transport *dfi_ring_new(void *memory, int64_t bytes, int32_t me, df_error *err);
#endif
