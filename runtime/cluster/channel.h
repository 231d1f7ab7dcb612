/* channel.h: whole messages over a socket between the driver and a worker, for everything but runs, which use the ring:
 * ranks that are there, graphs, sessions, plans, variables, signs of life.
 */
#ifndef DFLOW_CHANNEL_H
#define DFLOW_CHANNEL_H
#include "base/packet.h"

/* What a message is about. The payload of each is in protocol.h. */
typedef enum dfi_word {
  DFI_W_HELLO = 1, DFI_W_WELCOME, DFI_W_HEART, DFI_W_REPLY, DFI_W_GRAPH, DFI_W_SESSION, DFI_W_PLAN, DFI_W_GET,
  DFI_W_SET, DFI_W_RESET, DFI_W_CLOSE, DFI_W_PEER, DFI_W_BACK, DFI_W_STOP, DFI_W_SPMD, DFI_W_ARRIVE,
  DFI_W_ENDED, DFI_W_ASK, DFI_W_ANSWER, DFI_W_OFFER, DFI_W_GPUS, DFI_WORDS
} dfi_word;

typedef struct dfi_header { uint32_t word, request; uint64_t bytes; } dfi_header;   /* request 0: wants no reply */

typedef struct dfi_channel {
  int fd;                          /* -1: closed; the reading thread changes it, under `sending` */
  pthread_mutex_t sending;         /* stays as it is while the channel is closed and opened: others may wait for it */
  /* What has come of the next message: the reading thread's alone. */
  dfi_header header; size_t got;   /* bytes of header and payload */
  uint8_t *payload; size_t cap;
} dfi_channel;

#define DFI_CHANNEL_CLOSED { .fd = -1, .sending = PTHREAD_MUTEX_INITIALIZER }
void dfi_channel_open(dfi_channel *c, int fd);       /* it is closed; fd is consumed */
void dfi_channel_close(dfi_channel *c);
/* Sends a message of two parts (either may be empty), waiting for room. False: the other side is gone, or has taken
 * nothing for `patience` seconds. Any thread. */
bool dfi_channel_send(dfi_channel *c, dfi_word word, uint32_t request, const void *a, size_t na, const void *b,
                      size_t nb, double patience);
/* Takes what has come, without waiting. 1: a message is whole, in c->header and c->payload until the next call; 0: not
 * yet; -1: the other side is gone, or sends what is no message. */
int32_t dfi_channel_read(dfi_channel *c);
#endif
