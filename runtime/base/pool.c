/* pool.c: worker threads.
 *
 * A pool is made the first time its size is asked for and lives as long as the process; sessions share it. A worker
 * has one slot for a task. A caller with work claims slots that are empty, and never waits for a worker that has not
 * begun: a range takes unbegun offers back, so a caller can always finish alone. A worker that finds nothing spins
 * for about 300 us, soon letting others have the core at every look, and then parks. Waking a parked one costs tens of
 * microseconds, so small ranges do it only when several have come.
 *
 * A task runs with the floating-point mode (denormals, rounding) of the thread that offered it, so results do not
 * depend on the thread that computes them. Ranges asked for by a worker run inline.
 */
#include "base/internal.h"
#include "base/clock.h"
#include "base/processor.h"
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Between the products of a recurrent cell lie some 100 us that one thread does alone. A thread that spins without
 * yielding takes the core from others that want it, the other share of its own range included: 28 instead of 39 ms
 * for an LSTM beside a busy process. */
enum { MAX_THREADS = 1024, SPIN_NS = 300000, YIELD_AFTER_NS = 10000, SPINS_PER_LOOK = 64 };
/* Pieces of work that are worth waking a worker for. */
enum { WAKE_PIECES = 8 };

typedef struct task {
  void (*run)(struct task *t);      /* the last thing it does with t is to let its owner know */
  uint32_t mode;                    /* of the floating-point unit */
} task;

typedef struct worker {
  _Alignas(64) _Atomic(task *) slot; /* NULL: idle; RESERVED: being filled or being worked on */
  _Atomic int32_t parked;            /* 1: waits for a wake-up on this word */
  task single;                       /* dfi_pool_try's; written by the thread that reserved the slot */
  void (*fn)(void *);
  void *arg;
} worker;

struct dfi_pool {
  int32_t n;
  _Atomic uint32_t next;             /* where the search for an idle worker begins */
  _Atomic int64_t missed;            /* pieces of small ranges that went without a parked worker since one was woken */
  worker *workers;
};

static task reserved_task;
#define RESERVED (&reserved_task)
static __thread bool in_worker;
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(dfi_pool *) pools[MAX_THREADS + 1]; /* by the number of workers; written under pools_lock */

bool dfi_yield(void) {
  static _Atomic int64_t wanted;           /* when another thread last wanted the core */
  enum { TAKEN_NS = 50000, REMEMBERED_NS = 50000000 };
  const int64_t before = dfi_now_ns();
  if (before - atomic_load_explicit(&wanted, memory_order_relaxed) < REMEMBERED_NS) return false;
  sched_yield();
  const int64_t after = dfi_now_ns();
  if (after - before < TAKEN_NS) return true;
  atomic_store_explicit(&wanted, after, memory_order_relaxed);
  return false;
}

static task *wait_for_task(worker *w) {
  task *t;
  for (;;) {
    int64_t begin = dfi_now_ns(), now = begin;
    do {
      if (now - begin > YIELD_AFTER_NS) sched_yield();
      for (int32_t i = 0; i < SPINS_PER_LOOK; i++) {
        t = atomic_load_explicit(&w->slot, memory_order_acquire);
        if (t && t != RESERVED) return t;
        dfi_relax();
      }
      now = dfi_now_ns();
    } while (now - begin < SPIN_NS);
    /* Say that we park, then look once more: an offer made before the first is seen by the second, and one made
     * after it sees parked == 1. Both sides are sequentially consistent. */
    atomic_store(&w->parked, 1);
    t = atomic_load(&w->slot);
    if (t && t != RESERVED) {
      atomic_store(&w->parked, 0);
      return t;
    }
    syscall(SYS_futex, &w->parked, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    atomic_store(&w->parked, 0);
  }
}

static void *work(void *arg) {
  worker *w = arg;
  in_worker = true;
  for (;;) {
    task *t = wait_for_task(w);
    if (!atomic_compare_exchange_strong(&w->slot, &t, RESERVED)) continue; /* taken back */
    dfi_set_float_mode(t->mode);
    t->run(t);
    atomic_store_explicit(&w->slot, NULL, memory_order_release);
  }
  return NULL;
}

static void offer(worker *w, task *t) {               /* the slot is ours (RESERVED) or was found empty and claimed */
  atomic_store(&w->slot, t);
  if (atomic_load(&w->parked) && atomic_exchange(&w->parked, 0))
    syscall(SYS_futex, &w->parked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool claim(worker *w) {
  task *none = NULL;
  return !atomic_load_explicit(&dfi_ending, memory_order_relaxed) &&
         atomic_load_explicit(&w->slot, memory_order_relaxed) == NULL &&
         atomic_compare_exchange_strong(&w->slot, &none, RESERVED);
}

/* A detached thread without signals, which are for the threads that the user made. */
static bool thread_new(void *(*fn)(void *), void *arg) {
  pthread_t id;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool made = !pthread_create(&id, &attr, fn, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  return made;
}

static dfi_pool *pool_new(int32_t threads) {
  dfi_pool *p = dfi_xcalloc(1, sizeof *p);
  p->workers = dfi_xaligned(64, sizeof(worker) * (size_t)(threads ? threads : 1));
  memset((void *)p->workers, 0, sizeof(worker) * (size_t)(threads ? threads : 1));
  while (p->n < threads && thread_new(work, &p->workers[p->n])) p->n++;   /* fewer threads: slower, not wrong */
  return p;
}

dfi_pool *dfi_pool_get(int32_t threads) {
  threads = threads < 0 ? 0 : threads > MAX_THREADS ? MAX_THREADS : threads;
  dfi_pool *p = atomic_load_explicit(&pools[threads], memory_order_acquire);
  if (p) return p;
  pthread_mutex_lock(&pools_lock);
  p = atomic_load_explicit(&pools[threads], memory_order_relaxed);
  if (!p) {
    p = pool_new(threads);
    atomic_store_explicit(&pools[threads], p, memory_order_release);
  }
  pthread_mutex_unlock(&pools_lock);
  return p;
}

/* ---- a range, shared between its caller and idle workers ------------------------------------ */

enum { MAX_SHARES = 64 };

/* Each thread begins with its own share and then helps with the others'. So a thread meets the same part of an array
 * in one kernel after another, as long as all keep pace, and finds it in its own cache. With pieces for any that comes
 * first, a loop of tanh(x w) on 512 x 512 matrices took 1.15 times as long on two cores: dirty lines crossed from one
 * to the other. */
typedef struct share {
  task head;
  struct range *range;
  _Atomic int64_t next;             /* where the next piece begins */
  int64_t end;
} share;

typedef struct range {
  df_range_fn fn;
  void   *arg;
  int64_t piece;
  int32_t nshares;
  _Atomic int32_t finished;         /* workers that took their share and will not touch the range again */
  share   shares[MAX_SHARES];
} range;

static void range_pieces(range *r, int32_t own) {
  for (int32_t i = 0; i < r->nshares; i++) {
    share *s = &r->shares[(own + i) % r->nshares];
    for (;;) {
      int64_t begin = atomic_fetch_add_explicit(&s->next, r->piece, memory_order_relaxed);
      if (begin >= s->end) break;
      r->fn(r->arg, begin, begin + r->piece < s->end ? begin + r->piece : s->end);
    }
  }
}
static void range_run(task *t) {
  share *s = (share *)t;
  range *r = s->range;
  range_pieces(r, (int32_t)(s - r->shares));
  atomic_fetch_add_explicit(&r->finished, 1, memory_order_release);
}

int32_t dfi_pool_threads(const dfi_pool *p) { return p && !in_worker ? p->n + 1 : 1; }

static bool worth_waking(dfi_pool *p, int64_t pieces) {
  if (pieces < WAKE_PIECES &&
      atomic_fetch_add_explicit(&p->missed, pieces, memory_order_relaxed) + pieces < WAKE_PIECES)
    return false;
  atomic_store_explicit(&p->missed, 0, memory_order_relaxed);
  return true;
}

void dfi_pool_range(dfi_pool *p, int64_t n, int64_t grain, df_range_fn fn, void *arg) {
  if (n <= 0) return;
  const bool heavy = grain < 1;
  if (heavy) grain = 1;
  int64_t pieces = n / grain;
  if (!p || p->n == 0 || in_worker || pieces < 2) { fn(arg, 0, n); return; }
  int64_t wanted = pieces - 1 < p->n ? pieces - 1 : p->n;
  if (wanted > MAX_SHARES - 1) wanted = MAX_SHARES - 1;
  worker *helper[MAX_SHARES];                         /* helper[i] has share i; 0 is the caller's */
  range r = { .fn = fn, .arg = arg, .nshares = 1 };
  uint32_t at = atomic_load_explicit(&p->next, memory_order_relaxed);
  for (int32_t i = 0; i < p->n && r.nshares <= wanted; i++) {
    worker *w = &p->workers[(at + (uint32_t)i) % (uint32_t)p->n];
    const bool parked = atomic_load_explicit(&w->parked, memory_order_relaxed);
    if ((!parked || heavy || worth_waking(p, pieces)) && claim(w))
      helper[r.nshares++] = w;
  }
  if (r.nshares == 1) { fn(arg, 0, n); return; }
  /* About four pieces a share, so that a thread that begins late or is slow does not hold up the rest. Shares begin at
   * multiples of a piece. */
  r.piece = n / (r.nshares * 4);
  if (r.piece < grain) r.piece = grain;
  int64_t all = (n + r.piece - 1) / r.piece, end = 0;
  uint32_t mode = dfi_float_mode();
  for (int32_t i = 0; i < r.nshares; i++) {
    share *s = &r.shares[i];
    s->head = (task){ range_run, mode };
    s->range = &r;
    atomic_store_explicit(&s->next, end, memory_order_relaxed);
    end = i + 1 < r.nshares ? all * (i + 1) / r.nshares * r.piece : n;
    s->end = end;
  }
  for (int32_t i = 1; i < r.nshares; i++) offer(helper[i], &r.shares[i].head);
  range_pieces(&r, 0);
  int32_t taken = 0;
  for (int32_t i = 1; i < r.nshares; i++) {
    task *mine = &r.shares[i].head;
    if (!atomic_compare_exchange_strong(&helper[i]->slot, &mine, NULL)) taken++;
  }
  for (int32_t spins = 0; atomic_load_explicit(&r.finished, memory_order_acquire) != taken;) {
    dfi_relax();
    if (++spins > 256) { sched_yield(); spins = 0; }
  }
}

/* ---- threads for what may take long or wait: runs in the background ------------------------------ */

/* A thread that has done its work waits for more, spinning a moment first: a run that follows another begins in a
 * microsecond, where making a thread takes twenty. There are as many as there were runs at a time; IDLE of them stay.
 * Where other processes keep the cores busy it shares one with the thread that starts runs, and lets that one go on
 * at once; and where these take the core for long whenever it is given away, it sleeps: a thread that wakes gets a
 * core sooner than one that never slept. With 16 busy processes on each core df.start took 35 ms, the median of four
 * seconds' starts, and takes 80 us. */
enum { IDLE = 16, HAND_SPIN_NS = 50000, HAND_SPINS = 8 };
typedef struct hand {
  _Atomic(void *) fn;                /* NULL: idle */
  void *arg;
  uint32_t mode;                     /* of the floating-point unit, of the thread that asked */
  _Atomic int32_t parked;
  struct hand *next;                 /* of the idle ones */
} hand;
static pthread_mutex_t hands_lock = PTHREAD_MUTEX_INITIALIZER;
static hand *idle_hands;             /* guarded by hands_lock, as is their number */
static int32_t nidle;
static atomic_int nbusy;

static void wait_for_work(hand *h) {
  int64_t begin = dfi_now_ns(), now = begin;
  do {
    for (int32_t i = 0; i < HAND_SPINS; i++) {
      if (atomic_load_explicit(&h->fn, memory_order_acquire)) return;
      dfi_relax();
    }
    if (!dfi_yield()) break;
    now = dfi_now_ns();
  } while (now - begin < HAND_SPIN_NS);
  /* A thread that brings work takes `parked` back before the wake, so one that looked for work just before it came
     does not go to sleep. */
  for (;;) {
    atomic_store(&h->parked, 1);
    if (atomic_load(&h->fn)) break;
    syscall(SYS_futex, &h->parked, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
  }
  atomic_store(&h->parked, 0);
}

static void *hand_work(void *arg) {
  hand *h = arg;
  for (;;) {
    dfi_set_float_mode(h->mode);
    ((void (*)(void *))atomic_load(&h->fn))(h->arg);
    atomic_store(&h->fn, NULL);
    atomic_fetch_sub(&nbusy, 1);
    pthread_mutex_lock(&hands_lock);     /* the thread that brought the work has let go of h */
    bool stays = nidle < IDLE;
    if (stays) {
      h->next = idle_hands;
      idle_hands = h;
      nidle++;
    }
    pthread_mutex_unlock(&hands_lock);
    if (!stays) break;
    wait_for_work(h);
  }
  dfi_free(h);
  return NULL;
}

/* Work is handed over under the lock: a thread that takes it at once, is done and ends must not free `h` while `parked`
 * is still to be looked at. */
static bool hand_over(void (*fn)(void *), void *arg, bool *wake, _Atomic int32_t **parked) {
  pthread_mutex_lock(&hands_lock);
  hand *h = idle_hands;
  if (h) {
    idle_hands = h->next;
    nidle--;
    h->arg = arg;
    h->mode = dfi_float_mode();
    atomic_store(&h->fn, (void *)fn);
    *wake = atomic_exchange(&h->parked, 0);
    *parked = &h->parked;
  }
  pthread_mutex_unlock(&hands_lock);
  return h != NULL;
}

bool dfi_background(void (*fn)(void *), void *arg) {
  bool wake;
  _Atomic int32_t *parked;
  if (atomic_load(&dfi_ending)) return false;
  atomic_fetch_add(&nbusy, 1);
  if (hand_over(fn, arg, &wake, &parked)) {
    /* h may be gone: this is an address to the system, and a wake-up too many does no harm */
    if (wake) syscall(SYS_futex, parked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return true;
  }
  hand *h = dfi_xcalloc(1, sizeof *h);
  h->arg = arg;
  h->mode = dfi_float_mode();
  atomic_init(&h->fn, (void *)fn);
  if (thread_new(hand_work, h)) return true;
  dfi_free(h);
  atomic_fetch_sub(&nbusy, 1);
  return false;
}

/* ---- the end of the process (ending.c) ---------------------------------------------------------------------- */

static bool at_work(void) {
  if (atomic_load(&nbusy)) return true;
  for (int32_t i = 0; i <= MAX_THREADS; i++) {
    const dfi_pool *p = atomic_load(&pools[i]);
    for (int32_t k = 0; p && k < p->n; k++) if (atomic_load(&p->workers[k].slot)) return true;
  }
  return false;
}

/* ---- fork: the child has one thread, the one that forked (fork.c) ------------------------------------------- */

/* So its pools are empty, which is slower and not wrong, and a session that is made there has new ones. What runs in
 * the background stays with the parent. */
static void in_child(void) {
  idle_hands = NULL;
  nidle = 0;
  atomic_store(&nbusy, 0);
  for (int32_t i = 0; i <= MAX_THREADS; i++) {
    dfi_pool *p = atomic_load_explicit(&pools[i], memory_order_relaxed);
    if (!p) continue;
    p->n = 0;
    atomic_store_explicit(&pools[i], NULL, memory_order_relaxed);
  }
  in_worker = false;
}

static __attribute__((constructor)) void begin(void) {
  dfi_fork_guard(&pools_lock, in_child);
  dfi_fork_guard(&hands_lock, NULL);
  dfi_ending_probe(at_work);
}

static void single_run(task *t) {
  worker *w = (worker *)((char *)t - offsetof(worker, single));
  w->fn(w->arg);
}

bool dfi_pool_try(dfi_pool *p, void (*fn)(void *), void *arg) {
  if (!p || p->n == 0) return false;
  uint32_t at = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
  for (int32_t i = 0; i < p->n; i++) {
    worker *w = &p->workers[(at + (uint32_t)i) % (uint32_t)p->n];
    if (!claim(w)) continue;
    w->single = (task){ single_run, dfi_float_mode() };
    w->fn = fn;
    w->arg = arg;
    offer(w, &w->single);
    return true;
  }
  return false;
}
