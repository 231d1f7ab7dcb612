/* memory.c: where tensor memory comes from; bookkeeping: bookkeeping.c.
 *
 * Tensor memory is 64-byte aligned and comes in size classes, four to a doubling, so that a loop that makes and
 * drops the same tensors finds them again without asking the system. Each thread keeps a small stock (blocks up
 * to 64 KiB, at most 1 MiB together); behind it stands a stock shared by all threads, bounded by an eighth of the
 * machine's memory. What lies in a stock is not in use.
 *
 * Counters are kept per thread and added to the process's in steps of 64 KiB, so counting costs two plain stores.
 * While a limit is set every allocation settles its thread's count first, and before one is refused all threads'
 * counts are summed, so nothing is refused wrongly.
 */
#include "base/stress.h"
#include "base/internal.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef DFLOW_DEBUG
#define FENCED shared.fenced    /* fence.c */
#define BARE   shared.bare
#else
#define FENCED false
#define BARE   false
#endif

#if defined(__SANITIZE_ADDRESS__)
#define STOCKED false   /* a stock would hide use after release from the sanitizer */
#else
#define STOCKED (!BARE)
#endif

enum {
  CLASSES = 112,                  /* up to 2^34 bytes; larger blocks are never kept */
  OWN_CLASSES = 36,               /* those a thread keeps itself: up to 64 KiB */
  OWN_BYTES = 1 << 20,            /* what a thread keeps of all its classes */
  STEP_BYTES = 64 << 10,          /* how far a thread's count may be from the process's */
  HUGE_PAGE = 2 << 20,            /* blocks of two of these and more ask for them */
};

typedef struct block { struct block *next; } block;

/* What a thread keeps for itself. Counters are written by their thread alone and read by any. */
typedef struct stock {
  block   *free[OWN_CLASSES];
  int64_t  kept;                  /* bytes in free[] */
  int64_t  in_use, allocated;     /* not yet settled; relaxed atomics */
  struct stock *next, *prev;      /* all threads; guarded by shared.lock */
} stock;

static struct {
  pthread_mutex_t lock;           /* guards everything but the counters */
  block   *free[CLASSES];
  int64_t  kept, kept_limit;
  stock   *threads;
  int64_t  in_use, allocated, limit; /* relaxed atomics */
  int64_t  high;                  /* the most in use since the last look; relaxed atomic */
  int64_t  peak;                  /* the most until then; guarded by lock, as `peaks` */
  dfi_peak *peaks;                /* that go on */
  int64_t  limit_of_all;          /* as df_memory_set_limit said; guarded by lock, as the list */
  dfi_memory_hold *holds;
  int64_t  fail_at, count;        /* DFLOW_STRESS=oom:N; fail_at 0: off */
  bool     fenced, bare;          /* DFLOW_STRESS=fence; =bare: without a stock, which hides what lost a block */
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pthread_key_t  stock_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
__thread dfi_rescue dfi_rescue_here __attribute__((tls_model("initial-exec")));
static __thread stock *mine __attribute__((tls_model("initial-exec")));

#define LOAD(x)     __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)

/* The class of a size and the bytes of a class: 64, 128, 192, 256, 320, 384, 448, 512, 640, 768, … */
static inline int32_t class_of(int64_t bytes) {
  if (bytes <= 256) return bytes <= 64 ? 0 : (int32_t)((bytes - 1) >> 6);
  int32_t shift = 63 - __builtin_clzll((uint64_t)(bytes - 1));            /* 2^shift <= bytes - 1 */
  return 4 + (shift - 8) * 4 + (int32_t)(((bytes - 1) >> (shift - 2)) & 3);
}
static inline int64_t class_bytes(int32_t c) {
  if (c < 4) return (c + 1) * 64;
  int32_t shift = 8 + (c - 4) / 4;
  return ((int64_t)(5 + (c - 4) % 4)) << (shift - 2);
}

int32_t dfi_size_class(int64_t bytes) { return class_of(bytes); }
int64_t dfi_size_class_bytes(int32_t size_class) { return class_bytes(size_class); }

static void settle(stock *s) {
  int64_t delta = LOAD(s->in_use), all = LOAD(s->allocated);
  STORE(s->in_use, 0);
  STORE(s->allocated, 0);
  __atomic_add_fetch(&shared.allocated, all, __ATOMIC_RELAXED);
  int64_t now = __atomic_add_fetch(&shared.in_use, delta, __ATOMIC_RELAXED), high = LOAD(shared.high);
  while (now > high && !__atomic_compare_exchange_n(&shared.high, &high, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
}

static void give(block *b, int32_t c, int64_t bytes) { /* under the lock; past the bound: to the system */
  if (shared.kept + bytes > shared.kept_limit) { free(b); return; }
  b->next = shared.free[c];
  shared.free[c] = b;
  STORE(shared.kept, shared.kept + bytes);
}

static void stock_end(void *p) {                         /* a thread ends */
  stock *s = p;
  settle(s);
  pthread_mutex_lock(&shared.lock);
  for (int32_t c = 0; c < OWN_CLASSES; c++)
    for (block *b = s->free[c], *next; b; b = next) { next = b->next; give(b, c, class_bytes(c)); }
  if (s->prev) s->prev->next = s->next; else shared.threads = s->next;
  if (s->next) s->next->prev = s->prev;
  pthread_mutex_unlock(&shared.lock);
  free(s);
  mine = NULL;
}

static void begin(void) {
  pthread_key_create(&stock_key, stock_end);
  int64_t machine = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  shared.kept_limit = machine > 0 ? machine / 8 : 256 << 20;
  dfi_cgroup_begin();
  uint64_t oom;
  if (dfi_stress("oom", &oom)) shared.fail_at = (int64_t)oom;
  shared.fenced = dfi_stress("fence", NULL);
  shared.bare = dfi_stress("bare", NULL);
}

static __attribute__((constructor)) void guard(void) { dfi_fork_guard(&shared.lock, NULL); }

static __attribute__((noinline)) stock *stock_begin(void) {
  pthread_once(&once, begin);
  stock *s = dfi_xcalloc(1, sizeof *s);
  pthread_mutex_lock(&shared.lock);
  s->next = shared.threads;
  if (s->next) s->next->prev = s;
  shared.threads = s;
  pthread_mutex_unlock(&shared.lock);
  pthread_setspecific(stock_key, s);
  return mine = s;
}

static void drop_kept(void) {                            /* memory is short: everything shared goes back */
  pthread_mutex_lock(&shared.lock);
  for (int32_t c = 0; c < CLASSES; c++) {
    for (block *b = shared.free[c], *next; b; b = next) { next = b->next; free(b); }
    shared.free[c] = NULL;
  }
  STORE(shared.kept, 0);
  pthread_mutex_unlock(&shared.lock);
}

static int64_t in_use_now(void) {
  pthread_mutex_lock(&shared.lock);
  int64_t sum = LOAD(shared.in_use);
  for (stock *s = shared.threads; s; s = s->next) sum += LOAD(s->in_use);
  pthread_mutex_unlock(&shared.lock);
  return sum;
}

int64_t dfi_memory_given(void) {
  pthread_once(&once, begin);
  return LOAD(shared.in_use) + LOAD(shared.kept) + atomic_load_explicit(&dfi_arena_bytes, memory_order_relaxed);
}

/* From the system, aligned. Large blocks lie on large pages where the machine has them and asks for a word, so that
 * walking down a column does not look for a page at each step. */
static void *from_system(int64_t bytes) {
  void *p = NULL;
  if (bytes >= 2 * HUGE_PAGE && !posix_memalign(&p, HUGE_PAGE, (size_t)bytes)) {
#ifdef MADV_HUGEPAGE
    madvise(p, (size_t)(bytes / HUGE_PAGE * HUGE_PAGE), MADV_HUGEPAGE);
#endif
    return p;
  }
  return posix_memalign(&p, 64, (size_t)bytes) ? NULL : p;
}

static __attribute__((noinline)) void *alloc_slow(int32_t c, int64_t bytes) {
  void *p = NULL;
  if (STOCKED && c < CLASSES && LOAD(shared.kept) > 0) {
    pthread_mutex_lock(&shared.lock);
    block *b = shared.free[c];
    if (b) { shared.free[c] = b->next; STORE(shared.kept, shared.kept - bytes); p = b; }
    pthread_mutex_unlock(&shared.lock);
    if (p) return p;
  }
  const int64_t has = LOAD(shared.in_use) + atomic_load_explicit(&dfi_arena_bytes, memory_order_relaxed);
  if (dfi_cgroup_refuses(bytes, has + LOAD(shared.kept))) {
    drop_kept();
    if (dfi_cgroup_refuses(bytes, has)) return NULL;
  }
  if (bytes < INT64_MAX / 2 && !(p = from_system(bytes))) {
    drop_kept();
    p = from_system(bytes);
  }
  return p;
}

/* The stress switch and the limit: what a normal process never enters. True: refused. */
static __attribute__((noinline)) bool refused(stock *s, int64_t bytes) {
  if (dfi_bookkeeping_tested() && dfi_bookkeeping_refuses()) return true;
  if (shared.fail_at && __atomic_add_fetch(&shared.count, 1, __ATOMIC_RELAXED) == shared.fail_at) return true;
  int64_t limit = LOAD(shared.limit);
  if (!limit) return false;
  settle(s);
  if (LOAD(shared.in_use) + bytes <= limit || in_use_now() + bytes <= limit) return false;
  const dfi_rescue rescue = dfi_rescue_here;
  if (!rescue.fn) return true;
  dfi_rescue_here.fn = NULL;
  rescue.fn(rescue.user, NULL, in_use_now() + bytes - limit);
  dfi_rescue_here = rescue;
  return in_use_now() + bytes > limit;
}

void *dfi_alloc(int64_t bytes) {
  stock *s = DFI_LIKELY(mine != NULL) ? mine : stock_begin();
  const int64_t asked = bytes;
  const int32_t c = class_of(bytes);
  if (c < CLASSES) bytes = class_bytes(c);
  if (DFI_UNLIKELY(shared.fail_at | LOAD(shared.limit) | dfi_bookkeeping_tested()) && refused(s, bytes)) return NULL;
  void *p;
  block *b;
  if (c < OWN_CLASSES && (b = s->free[c])) {
    s->free[c] = b->next;
    s->kept -= bytes;
    p = b;
  } else if (!(p = FENCED ? dfi_fence_alloc(asked) : alloc_slow(c, bytes))) {
    return NULL;
  }
  int64_t use = LOAD(s->in_use) + bytes;
  STORE(s->in_use, use);
  STORE(s->allocated, LOAD(s->allocated) + bytes);
  if (DFI_UNLIKELY(use > STEP_BYTES)) settle(s);
  return p;
}

void dfi_release(void *p, int64_t bytes) {
  if (!p) return;
  stock *s = DFI_LIKELY(mine != NULL) ? mine : stock_begin();
  const int64_t asked = bytes;
  const int32_t c = class_of(bytes);
  if (c < CLASSES) bytes = class_bytes(c);
  int64_t use = LOAD(s->in_use) - bytes;
  STORE(s->in_use, use);
  if (DFI_UNLIKELY(use < -STEP_BYTES)) settle(s);
  block *b = p;
  if (FENCED) {
    dfi_fence_release(p, asked);
  } else if (!STOCKED || c >= CLASSES) {
    free(p);
  } else if (c < OWN_CLASSES && s->kept + bytes <= OWN_BYTES) {
    b->next = s->free[c];
    s->free[c] = b;
    s->kept += bytes;
  } else {
    pthread_mutex_lock(&shared.lock);
    if (c < OWN_CLASSES) {        /* the thread has enough of everything: half of this class goes with it */
      for (int64_t n = OWN_BYTES / 8 / bytes; n > 0 && s->free[c]; n--) {
        block *more = s->free[c];
        s->free[c] = more->next;
        s->kept -= bytes;
        give(more, c, bytes);
      }
    }
    give(b, c, bytes);
    pthread_mutex_unlock(&shared.lock);
  }
}

/* ---- peaks --------------------------------------------------------------------------------- */

_Atomic int64_t dfi_peak_epoch;

void dfi_peaks_raise(dfi_peak *list, int64_t most) {
  for (; list; list = list->next) if (most > list->most) list->most = most;
}

void dfi_peaks_add(dfi_peak **list, dfi_peak *p, int64_t in_use) {
  *p = (dfi_peak){ .most = in_use, .next = *list, .link = list };
  if (p->next) p->next->link = &p->next;
  *list = p;
}

void dfi_peaks_remove(dfi_peak *p) {
  *p->link = p->next;
  if (p->next) p->next->link = p->link;
}

/* What is in use now, once what was in use most since the last look has gone to all peaks that go on. Under the lock.
 */
static int64_t look_at_peaks(void) {
  int64_t use = LOAD(shared.in_use);
  for (const stock *s = shared.threads; s; s = s->next) use += LOAD(s->in_use);
  int64_t high = __atomic_exchange_n(&shared.high, use, __ATOMIC_RELAXED);
  if (use > high) high = use;
  if (high > shared.peak) shared.peak = high;
  dfi_peaks_raise(shared.peaks, high);
  return use;
}

void dfi_peak_begin(dfi_peak *p) {
  pthread_once(&once, begin);
  pthread_mutex_lock(&shared.lock);
  dfi_peaks_add(&shared.peaks, p, look_at_peaks());
  pthread_mutex_unlock(&shared.lock);
}

int64_t dfi_peak_so_far(const dfi_peak *p) {
  pthread_mutex_lock(&shared.lock);
  look_at_peaks();
  const int64_t most = p->most;
  pthread_mutex_unlock(&shared.lock);
  return most;
}

int64_t dfi_peak_end(dfi_peak *p) {
  pthread_mutex_lock(&shared.lock);
  look_at_peaks();
  dfi_peaks_remove(p);
  const int64_t most = p->most;
  pthread_mutex_unlock(&shared.lock);
  return most;
}

void df_memory(int64_t *in_use, int64_t *peak, int64_t *limit, int64_t *allocated) {
  pthread_once(&once, begin);
  pthread_mutex_lock(&shared.lock);
  const int64_t use = look_at_peaks(), most = shared.peak;
  int64_t all = LOAD(shared.allocated);
  for (const stock *s = shared.threads; s; s = s->next) all += LOAD(s->allocated);
  pthread_mutex_unlock(&shared.lock);
  if (in_use) *in_use = use;
  if (peak) *peak = most;
  if (limit) *limit = LOAD(shared.limit);
  if (allocated) *allocated = all;
}

void df_memory_reset_peak(void) {
  pthread_once(&once, begin);
  pthread_mutex_lock(&shared.lock);
  const int64_t use = look_at_peaks();
  shared.peak = use;
  for (dfi_peak *p = shared.peaks; p; p = p->next) p->most = use;
  atomic_fetch_add(&dfi_peak_epoch, 1);
  pthread_mutex_unlock(&shared.lock);
}

/* Under the lock. The least of what runs hold memory to; where none does, what was said for all. */
static void limit_now(void) {
  int64_t least = 0;
  for (const dfi_memory_hold *h = shared.holds; h; h = h->next) if (!least || h->bytes < least) least = h->bytes;
  STORE(shared.limit, least ? least : shared.limit_of_all);
}

void df_memory_set_limit(int64_t bytes) {
  pthread_mutex_lock(&shared.lock);
  shared.limit_of_all = bytes > 0 ? bytes : 0;
  limit_now();
  pthread_mutex_unlock(&shared.lock);
}

void dfi_memory_hold_begin(dfi_memory_hold *h, int64_t bytes) {
  pthread_mutex_lock(&shared.lock);
  *h = (dfi_memory_hold){ bytes, shared.holds, &shared.holds };
  if (h->next) h->next->link = &h->next;
  shared.holds = h;
  limit_now();
  pthread_mutex_unlock(&shared.lock);
}

void dfi_memory_hold_end(dfi_memory_hold *h) {
  pthread_mutex_lock(&shared.lock);
  *h->link = h->next;
  if (h->next) h->next->link = h->link;
  limit_now();
  pthread_mutex_unlock(&shared.lock);
}
