/* bookkeeping.c: memory for graphs, plans, runs, names: many small pieces, too many to be checked one by one.
 *
 * So these functions never return NULL. When the system gives nothing they take from a reserve and set the thread's
 * dfi_short, and what is being done goes on to the next place where errors are looked at anyway: the end of a node that
 * is built or run, of a plan, of an import. There it fails with resource_exhausted like anything else that fails, and
 * what it has made is taken back. The reserve has only to last that far; a caller that needs much asks first
 * (dfi_memory_for).
 *
 * The reserve is address space until it is touched. What was taken from it is known by its address; when all of it has
 * come back it begins anew, and what is left of a reserve that is used up is replaced as soon as there is memory again.
 */
#include "base/internal.h"
#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RESERVES = 16, HEAD = 16 };
#define RESERVE_BYTES ((size_t)4 << 20)

typedef struct reserve { char *at, *end, *next; int64_t pieces; } reserve;

static struct {
  pthread_mutex_t lock;
  reserve  r[RESERVES];                       /* guarded by lock; [current] is taken from */
  int32_t  n, current;
  int64_t  pieces;                            /* taken from any of them; relaxed atomic */
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

__thread bool dfi_short;

/* For specs: the first-th allocation from now on fails, and `times` - 1 after it. */
static struct { int64_t first, times, count; bool on; } test;

bool dfi_bookkeeping_tested(void) { return __atomic_load_n(&test.on, __ATOMIC_RELAXED); }
bool dfi_bookkeeping_refuses(void) {
  const int64_t n = __atomic_add_fetch(&test.count, 1, __ATOMIC_RELAXED);
  return test.first && n >= test.first && n - test.first < test.times;
}

/* Nothing is to be had at the moment, an address space neither: of a failure that stays. */
static bool failing_now(void) {
  const int64_t n = __atomic_load_n(&test.count, __ATOMIC_RELAXED);
  return test.first && n >= test.first && n - test.first < test.times && test.times > 1000;
}

int64_t df_memory_fail(int64_t n, int64_t times) {
  const int64_t before = __atomic_exchange_n(&test.count, 0, __ATOMIC_RELAXED);
  test.first = n > 0 ? n : 0;
  test.times = times > 0 ? times : 1;
  __atomic_store_n(&test.on, n >= 0, __ATOMIC_RELAXED);
  return before;
}

/* How many pieces there are: of the debug build, where specs look for leaks. */
static _Atomic int64_t live;
#ifdef DFLOW_DEBUG
#define COUNT(n) atomic_fetch_add_explicit(&live, (n), memory_order_relaxed)
#else
#define COUNT(n) ((void)0)
#endif
int64_t df_memory_pieces(void) { return atomic_load(&live); }

/* ---- the reserve: under the lock ------------------------------------------------------------------------------ */

static bool reserve_map(reserve *r, size_t bytes) {
  if (DFI_UNLIKELY(test.on) && failing_now()) return false;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  *r = (reserve){ .at = p, .end = (char *)p + bytes, .next = p };
  return true;
}

/* There is a reserve of that many bytes that is untouched, or could be one. */
static bool reserve_ready(size_t bytes) {
  if (kept.n) {
    reserve *r = &kept.r[kept.current];
    if (!r->pieces) r->next = r->at;
    if ((size_t)(r->end - r->next) >= bytes) return true;
  }
  for (int32_t i = 0; i < kept.n; i++) {
    reserve *r = &kept.r[i];
    if (r->pieces || i == kept.current) continue;
    r->next = r->at;
    if ((size_t)(r->end - r->at) >= bytes) { kept.current = i; return true; }
  }
  if (kept.n == RESERVES || !reserve_map(&kept.r[kept.n], bytes > RESERVE_BYTES ? bytes : RESERVE_BYTES)) return false;
  kept.current = kept.n++;
  return true;
}

static reserve *reserve_of(const void *p) {
  for (int32_t i = 0; i < kept.n; i++)
    if ((const char *)p >= kept.r[i].at && (const char *)p < kept.r[i].end) return &kept.r[i];
  return NULL;
}

static __attribute__((noinline)) void *from_reserve(size_t bytes, size_t align) {
  dfi_short = true;
  const size_t room = HEAD + ((bytes + 15) & ~(size_t)15) + (align - 16);
  char *p = NULL;
  pthread_mutex_lock(&kept.lock);
  reserve *r = room > bytes && reserve_ready(room) ? &kept.r[kept.current] : NULL;
  if (r) {
    p = (char *)(((uintptr_t)r->next + HEAD + align - 1) & ~(align - 1));
    *(size_t *)(p - HEAD) = bytes;
    r->next += room;
    r->pieces++;
    __atomic_add_fetch(&kept.pieces, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&kept.lock);
  if (p) return p;
  fprintf(stderr, "dflow: the system has no memory left, and the reserve is used up (%zu bytes wanted)\n", bytes);
  abort();
}

/* Takes p back; false: it is not of the reserve. */
static __attribute__((noinline)) bool to_reserve(void *p) {
  pthread_mutex_lock(&kept.lock);
  reserve *r = reserve_of(p);
  if (r) {
    r->pieces--;
    __atomic_sub_fetch(&kept.pieces, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&kept.lock);
  return r != NULL;
}

bool dfi_memory_for(size_t bytes) {
  if (bytes <= RESERVE_BYTES / 4 && __atomic_load_n(&kept.n, __ATOMIC_RELAXED)) return true;
  pthread_mutex_lock(&kept.lock);
  const bool ready = reserve_ready(bytes < RESERVE_BYTES / 4 ? RESERVE_BYTES / 4 : bytes);
  pthread_mutex_unlock(&kept.lock);
  return ready;
}

bool dfi_slots_for(int64_t n, size_t each, const char *what, df_error *err) {
  enum { FEW_BYTES = 64 << 20, MOST_SLOTS = 1 << 30 };
  int64_t in_use, limit, bytes, machine = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  if (n <= FEW_BYTES / (int64_t)each) return true;
  df_memory(&in_use, NULL, &limit, NULL);
  if (limit) machine = limit - in_use;                   /* as tensors have it */
  if (n <= MOST_SLOTS && !__builtin_mul_overflow(n, (int64_t)each, &bytes) && bytes <= machine / 2 &&
      dfi_memory_for((size_t)bytes))
    return true;
  dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "%s of %lld elements needs %.1f GB for its slots alone", what,
           (long long)n, (double)n * (double)each / 1e9);
  return false;
}

int32_t dfi_short_fail(df_error *err, const char *where, const char *what) {
  dfi_short = false;
  dfi_memory_for(0);
  return dfi_fail(err, DF_RESOURCE_EXHAUSTED, where, "out of memory: the system gave none for %s", what);
}

static __attribute__((constructor)) void begin(void) {
  dfi_fork_guard(&kept.lock, NULL);
  dfi_memory_for(0);
}

/* ---- taking and giving ----------------------------------------------------------------------------------------- */

/* Refused by a test, or by a container's limit: malloc would give it, and the system end the process when it is
 * touched. */
static inline bool refused(size_t bytes) {
  return (DFI_UNLIKELY(test.on) && dfi_bookkeeping_refuses()) || dfi_cgroup_refuses_more(bytes);
}

/* In the debug build a fence stands behind each piece of the system's: a write past its end is found when it goes.
 * How long the piece is stands at the end of what malloc gave. */
#ifdef DFLOW_DEBUG
enum { FENCE = 2 * sizeof(size_t) };
static const size_t fence_mark = (size_t)0x5afe5afe5afe5afeu;

static char *length_at(void *p) { return (char *)p + malloc_usable_size(p) - sizeof(size_t); }
static void *fenced(void *p, size_t bytes) {
  if (!p) return NULL;
  memcpy((char *)p + bytes, &fence_mark, sizeof fence_mark);
  memcpy(length_at(p), &bytes, sizeof bytes);
  return p;
}
static void fence_check(void *p) {
  size_t bytes, mark = 0;
  memcpy(&bytes, length_at(p), sizeof bytes);
  if (bytes <= malloc_usable_size(p) - FENCE) memcpy(&mark, (char *)p + bytes, sizeof mark);
  df_assert(mark == fence_mark);
}
#else
enum { FENCE = 0 };
static inline void *fenced(void *p, size_t bytes) { return p; }
static inline void fence_check(void *p) {}
#endif

/* What the system gives, or NULL. */
static void *taken(size_t bytes) {
  const size_t room = (bytes ? bytes : 1) + FENCE;
  return refused(bytes) || room < bytes ? NULL : fenced(malloc(room), room - FENCE);
}

void *dfi_malloc(size_t bytes) {
  void *p = taken(bytes);
  if (p) COUNT(1);
  return p;
}

void *dfi_xmalloc(size_t bytes) {
  void *p = taken(bytes);
  COUNT(1);
  return DFI_LIKELY(p != NULL) ? p : from_reserve(bytes, 16);
}

void *dfi_xcalloc(size_t n, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(n, bytes, &all)) all = SIZE_MAX;
  if (!all) all = 1;
  void *p = refused(all) || all > SIZE_MAX - FENCE ? NULL : fenced(calloc(1, all + FENCE), all);
  COUNT(1);
  if (DFI_LIKELY(p != NULL)) return p;
  return memset(from_reserve(all, 16), 0, all);
}

void *dfi_xaligned(size_t align, size_t bytes) {
  void *p;
  const bool none = refused(bytes) || posix_memalign(&p, align, (bytes ? bytes : 1) + FENCE);
  COUNT(1);
  return none ? from_reserve(bytes, align) : fenced(p, bytes ? bytes : 1);
}

static __attribute__((noinline)) void *moved(void *p, size_t bytes) {
  pthread_mutex_lock(&kept.lock);
  const bool own = reserve_of(p) != NULL;
  pthread_mutex_unlock(&kept.lock);
  if (!own) return NULL;
  const size_t had = *(size_t *)((char *)p - HEAD);
  char *more = taken(bytes);
  if (!more) more = from_reserve(bytes, 16);
  memcpy(more, p, had < bytes ? had : bytes);
  to_reserve(p);
  return more;
}

void *dfi_xrealloc(void *p, size_t bytes) {
  if (!p) return dfi_xmalloc(bytes);
  if (!bytes) bytes = 1;
  if (DFI_UNLIKELY(__atomic_load_n(&kept.pieces, __ATOMIC_RELAXED))) {
    void *more = moved(p, bytes);
    if (more) return more;
  }
  fence_check(p);
  void *more = refused(bytes) ? NULL : fenced(realloc(p, bytes + FENCE), bytes);
  if (DFI_LIKELY(more != NULL)) return more;
  const size_t had = malloc_usable_size(p);
  more = from_reserve(bytes, 16);
  memcpy(more, p, had < bytes ? had : bytes);
  free(p);
  return more;
}

void dfi_free(void *p) {
  if (!p) return;
  COUNT(-1);
  if (DFI_UNLIKELY(__atomic_load_n(&kept.pieces, __ATOMIC_RELAXED)) && to_reserve(p)) return;
  fence_check(p);
  free(p);
}

char *dfi_xstrdup(const char *s) {
  size_t n = strlen(s) + 1;
  return memcpy(dfi_xmalloc(n), s, n);
}
