/* ranks.h: what rank.c and team.c ask of each other: a run's part on this rank, and the messages of it.
 */
#ifndef DFLOW_RANKS_H
#define DFLOW_RANKS_H
#include "engine/executor.h"
#include "engine/memory/swap.h"
#include "engine/owners/message.h"
#include "engine/owners/rank.h"

/* How often a thread looks for work with a pause between, and then how often it gives up its processor, before it
 * sleeps. */
enum { DFI_LOOKS = 50, DFI_YIELDS = 50 };

/* A run's part on this rank. Its functions are called under a lock of the rank's: they return at once, and call nothing
 * here. */
typedef struct dfi_part {
  uint64_t ranks;                /* bit k: rank k takes part */
  void    *user;
  /* A message, which is consumed; it may be none of this run's. */
  void (*message)(void *user, dfi_team_message *l);
  /* Rank `from` has failed, or is lost. */
  void (*failed)(void *user, int32_t from, const df_error *err);
  /* Rank `from` has done its part: a dfi_end and what it counted on each link. */
  void (*ended)(void *user, int32_t from, const void *bytes, int64_t n);
  /* It asks, or answers, whether anything can move. */
  void (*stall)(void *user, int32_t from, const void *bytes, int64_t n);
  /* It says something about looking at the run. */
  void (*told)(void *user, int32_t from, const void *bytes, int64_t n);
  /* It asks for a kernel, or answers. */
  void (*kernel)(void *user, int32_t from, const void *bytes, int64_t n);
} dfi_part;

/* What a rank tells rank 0 when its part is over. What became of values that it saved follows, their nodes by number;
 * the traffic over each of the plan's links: messages, dead ones and bytes; the nodes that each of its owners ran; the
 * memory of its devices, by number (in use, peak, limit); a byte for each of the plan's random ops. */
typedef struct dfi_end {
  dfi_counters count;
  int64_t  sent, received, gone, come, held, nlinks, nowners, ndevices, nrandom, nsaved, recomputed;
  dfi_swap swap;
} dfi_end;

/* The run goes on here from now on: what came before is handed to it. */
void dfi_rank_begin(dfi_rank *r, uint64_t run, const dfi_part *part);
/* It does no more: the part is not called after that. */
void dfi_rank_over(dfi_rank *r, uint64_t run, bool failed);
/* Sends a message, which holds nothing after that. What cannot go at once is kept. */
void dfi_rank_send(dfi_rank *r, int32_t to, dfi_message *m);
/* Sends what is kept; true: nothing is any more. */
bool dfi_rank_flush(dfi_rank *r);
/* Takes all that has come, and sends what is kept. True: something came. Any thread. */
bool dfi_rank_poll(dfi_rank *r);
/* Sleeps until something comes or the rank is woken; the ticket was taken before the thread looked for work. */
uint32_t dfi_rank_ticket(const dfi_rank *r);
void dfi_rank_sleep(dfi_rank *r, uint32_t ticket, double seconds);
/* The run has failed here: so it has on these ranks. */
void dfi_rank_tell_failed(dfi_rank *r, uint64_t ranks, uint64_t run, const df_error *err);

/* By what a message and its Recv find each other: the edge, and the numbers of the iterations around it. */
static inline uint64_t dfi_key_hash(uint32_t edge, int32_t depth, const int64_t *number) {
  uint64_t h = edge;
  for (int32_t i = 0; i < depth; i++) {
    h = (h ^ (uint64_t)number[i]) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return (h ^ h >> 32) * 0x9e3779b1u;
}
#endif
