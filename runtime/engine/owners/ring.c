/* ring.c: packets through memory that the processes of one host share: a ring of bytes for each pair of ranks in each
 * direction, and a bell for each rank.
 *
 * The sender alone writes a ring's tail, the receiver alone its head; both count bytes and never go back, so a process
 * that takes a dead one's place goes on where the numbers are. A packet is its size and its bytes, in one piece: where
 * it does not fit before the ring's end a size of PAD skips that. The receiver believes no number of another process:
 * a packet that cannot be is the end of what that rank sends.
 *
 * A thread that is going to sleep says so (`asleep`) and notes `count`, its ticket; then it looks for work once more,
 * and waits for the count to change. One that has brought some looks at `asleep` after that, and makes a system call
 * only where it is set.
 */
#include "engine/owners/transport.h"
#include "base/processor.h"
#include <linux/futex.h>
#include <stdalign.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 128, HEADER = 16, VERSION = 1 };
#define MAGIC 0x676e69722d776f6cull        /* `low-ring` */
#define PAD   UINT64_MAX

typedef struct bell {
  alignas(LINE) _Atomic uint32_t count;    /* changes with each wake */
  _Atomic uint32_t asleep;                 /* 1: some thread of the rank sleeps, or is about to */
} bell;

typedef struct lane {                      /* from one rank to another; its bytes follow */
  alignas(LINE) _Atomic uint64_t tail;     /* the sender's: written up to here */
  alignas(LINE) _Atomic uint64_t head;     /* the receiver's: read up to here */
  _Atomic uint32_t full;                   /* 1: the sender is to be woken when there is room again */
  alignas(LINE) unsigned char bytes[];
} lane;

typedef struct shared {
  uint64_t magic;
  uint32_t version, n;
  uint64_t lane_bytes;                     /* of the ring alone; a power of two */
  bell     bell[];
} shared;

/* What this process knows of a lane that it writes, or reads. */
typedef struct lane_end { lane *at; uint64_t mine, others, next; bool broken; } lane_end;

typedef struct ring {
  dfi_transport t;
  shared   *memory;
  uint64_t  mask;
  lane_end *out, *in;                      /* by rank */
} ring;

/* Bytes of a lane: large enough that a value of some pages goes in one piece, small enough to stay in the caches. */
static uint64_t lane_bytes(int32_t n) { return n <= 8 ? 1u << 20 : n <= 16 ? 1u << 18 : 1u << 16; }

static size_t lane_offset(int32_t n, uint64_t bytes, int32_t from, int32_t to) {
  const size_t bells = (sizeof(shared) + sizeof(bell) * (size_t)n + 4095) & ~(size_t)4095;
  return bells + (sizeof(lane) + bytes) * ((size_t)from * (size_t)n + (size_t)to);
}

static lane *lane_at(shared *s, int32_t from, int32_t to) {
  return (lane *)((char *)s + lane_offset((int32_t)s->n, s->lane_bytes, from, to));
}

int64_t dfi_ring_lay(void *memory, int32_t n, int64_t bytes) {
  shared *s = memory;
  const size_t all = lane_offset(n, (uint64_t)bytes, n, 0);
  if (!s) return (int64_t)all;
  memset(s, 0, lane_offset(n, (uint64_t)bytes, 0, 0));
  s->version = VERSION;
  s->n = (uint32_t)n;
  s->lane_bytes = (uint64_t)bytes;
  for (int32_t i = 0; i < n * n; i++) memset(lane_at(s, i / n, i % n), 0, sizeof(lane));
  s->magic = MAGIC;
  return (int64_t)all;
}

int64_t dfi_ring_bytes(int32_t n) { return dfi_ring_lay(NULL, n, (int64_t)lane_bytes(n)); }
void    dfi_ring_init(void *memory, int32_t n) { dfi_ring_lay(memory, n, (int64_t)lane_bytes(n)); }

/* ---- packets ---------------------------------------------------------------------------------------------------- */

static uint64_t packet_bytes(uint64_t bytes) { return HEADER + ((bytes + 15) & ~(uint64_t)15); }

static void *ring_reserve(dfi_transport *t, int32_t to, int64_t bytes) {
  ring *r = (ring *)t;
  lane_end *e = &r->out[to];
  const uint64_t size = r->mask + 1, need = packet_bytes((uint64_t)bytes), left = size - (e->mine & r->mask);
  const uint64_t skip = need > left ? left : 0;
  for (int32_t look = 0; e->mine + skip + need - e->others > size; look++) {
    if (look == 1) atomic_store(&e->at->full, 1);      /* and it looks once more */
    if (look == 2) return NULL;
    e->others = atomic_load(&e->at->head);
    if (e->mine - e->others > size) return NULL;
  }
  if (skip) {
    *(uint64_t *)(e->at->bytes + (e->mine & r->mask)) = PAD;
    e->mine += skip;
    atomic_store_explicit(&e->at->tail, e->mine, memory_order_release);
  }
  unsigned char *packet = e->at->bytes + (e->mine & r->mask);
  *(uint64_t *)packet = (uint64_t)bytes;
  e->next = e->mine + need;
  return packet + HEADER;
}

static void bell_ring(bell *b) {
  if (!atomic_load_explicit(&b->asleep, memory_order_relaxed) || !atomic_exchange(&b->asleep, 0)) return;
  atomic_fetch_add(&b->count, 1);
  syscall(SYS_futex, &b->count, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void ring_commit(dfi_transport *t, int32_t to) {
  ring *r = (ring *)t;
  lane_end *e = &r->out[to];
  e->mine = e->next;
  atomic_store_explicit(&e->at->tail, e->mine, memory_order_release);
  atomic_thread_fence(memory_order_seq_cst);           /* before it is looked whether the other one sleeps */
  bell_ring(&r->memory->bell[to]);
}

/* What lies in the lane from `from` is dropped. */
static void drop_all(ring *r, int32_t from) {
  lane_end *e = &r->in[from];
  e->mine = e->others = atomic_load_explicit(&e->at->tail, memory_order_acquire);
  atomic_store_explicit(&e->at->head, e->mine, memory_order_release);
  e->broken = false;
}

static const void *ring_next(dfi_transport *t, int32_t from, int64_t *bytes) {
  ring *r = (ring *)t;
  lane_end *e = &r->in[from];
  for (;;) {
    if (e->mine == e->others) {
      e->others = atomic_load_explicit(&e->at->tail, memory_order_acquire);
      if (e->mine == e->others || e->broken) return NULL;
    }
    const uint64_t size = r->mask + 1, there = e->others - e->mine, left = size - (e->mine & r->mask);
    const unsigned char *packet = e->at->bytes + (e->mine & r->mask);
    const uint64_t n = *(const volatile uint64_t *)packet;
    if (n == PAD && there >= left) {
      e->mine += left;
      atomic_store_explicit(&e->at->head, e->mine, memory_order_release);
      continue;
    }
    if (there > size || n > (uint64_t)t->most || packet_bytes(n) > there || packet_bytes(n) > left) {
      drop_all(r, from);
      e->broken = true;
      return NULL;
    }
    e->next = e->mine + packet_bytes(n);
    *bytes = (int64_t)n;
    return packet + HEADER;
  }
}

static void ring_release(dfi_transport *t, int32_t from) {
  lane_end *e = &((ring *)t)->in[from];
  e->mine = e->next;
  atomic_store_explicit(&e->at->head, e->mine, memory_order_release);
  atomic_thread_fence(memory_order_seq_cst);
  if (DFI_UNLIKELY(atomic_load_explicit(&e->at->full, memory_order_relaxed)) && atomic_exchange(&e->at->full, 0))
    bell_ring(&((ring *)t)->memory->bell[from]);
}

static bool ring_has(dfi_transport *t, int32_t from) {
  const lane *l = ((const ring *)t)->in[from].at;
  return atomic_load_explicit(&l->tail, memory_order_relaxed) != atomic_load_explicit(&l->head, memory_order_relaxed);
}

static bool ring_filled(dfi_transport *t) {
  for (int32_t i = 0; i < t->n; i++) if (i != t->me && ring_has(t, i)) return true;
  return false;
}

static bool ring_broken(dfi_transport *t, int32_t from) { return ((ring *)t)->in[from].broken; }

/* ---- sleep ------------------------------------------------------------------------------------------------------- */

static uint32_t ring_ticket(dfi_transport *t) {
  bell *b = &((ring *)t)->memory->bell[t->me];
  const uint32_t ticket = atomic_load(&b->count);
  atomic_store(&b->asleep, 1);
  return ticket;
}

static void ring_wait(dfi_transport *t, uint32_t ticket, double seconds) {
  bell *b = &((ring *)t)->memory->bell[t->me];
  if (ring_filled(t)) return;
  const struct timespec most = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
  syscall(SYS_futex, &b->count, FUTEX_WAIT, ticket, &most, NULL, 0);
}

static void ring_wake(dfi_transport *t) {
  atomic_thread_fence(memory_order_seq_cst);
  bell_ring(&((ring *)t)->memory->bell[t->me]);
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

static void ring_clear(dfi_transport *t, int32_t peer) { drop_all((ring *)t, peer); }

static void ring_free(dfi_transport *t) {
  ring *r = (ring *)t;
  dfi_free(r->out); dfi_free(r->in); dfi_free(r);
}

dfi_transport *dfi_ring_new(void *memory, int64_t bytes, int32_t me, df_error *err) {
  shared *s = memory;
  if (bytes < (int64_t)sizeof *s || s->magic != MAGIC || s->version != VERSION || s->n > 1024 ||
      s->lane_bytes & (s->lane_bytes - 1) || bytes < dfi_ring_lay(NULL, (int32_t)s->n, (int64_t)s->lane_bytes))
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL,
                    "the memory that ranks share is none of this program's: all ranks must run the same build"),
           NULL;
  const int32_t n = (int32_t)s->n;
  if (me < 0 || me >= n)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no rank %d among %d", me, n), NULL;
  ring *r = dfi_xcalloc(1, sizeof *r);
  r->t = (dfi_transport){ .me = me, .n = n, .most = (int64_t)(s->lane_bytes / 4), .reserve = ring_reserve,
    .commit = ring_commit, .next = ring_next, .release = ring_release, 
    .filled = ring_filled, .has = ring_has, .broken = ring_broken,
    .ticket = ring_ticket, .wait = ring_wait, .wake = ring_wake, .clear = ring_clear, .free = ring_free };
  r->memory = s;
  r->mask = s->lane_bytes - 1;
  r->out = dfi_xcalloc((size_t)n, sizeof *r->out);
  r->in = dfi_xcalloc((size_t)n, sizeof *r->in);
  for (int32_t i = 0; i < n; i++) {
    r->out[i].at = lane_at(s, me, i);
    r->in[i].at = lane_at(s, i, me);
    r->out[i].mine = atomic_load(&r->out[i].at->tail);
    r->out[i].others = atomic_load(&r->out[i].at->head);
    drop_all(r, i);
  }
  return &r->t;
}
