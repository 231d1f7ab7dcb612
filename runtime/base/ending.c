/* ending.c: the process ends while threads of ours work.
 *
 * exit() calls what was registered with atexit, last first, and then takes libraries down, in which our threads may
 * stand: OpenBLAS frees the memory that a product uses, C++ libraries destroy their tables. So a handler of ours comes
 * before theirs. From then on no thread begins anything; what runs is interrupted, and the handler waits for it at most
 * WAIT_NS. If a thread is still busy after that, in one long product or in a function that waits, nothing may be taken
 * down: what was printed is written out, and the process ends at once with the status that exit() was given. The
 * handlers registered before ours are not called then.
 *
 * The handler is registered when this library is loaded, and again whenever one of others was (kernels/library.h), as
 * what that registered while it was loaded would otherwise be called before it. Signals, _exit and quick_exit call no
 * handlers and take nothing down. A library of ours is never unloaded (-z nodelete), so neither dlclose nor lua_close
 * takes code from under a thread.
 */
#define _GNU_SOURCE
#include "base/internal.h"
#include "base/clock.h"
#include "kernels/library.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_NS = 100000000, LOOK_NS = 200000, PROBES = 8 };

atomic_bool dfi_ending;
static bool (*probe[PROBES])(void);
static int32_t probes;

/* Threads of the program's own that are in a run, and whether this one is. */
static atomic_int inside;
static __thread int32_t depth;

void dfi_ending_probe(bool (*busy)(void)) {
  df_assert(probes < PROBES);
  probe[probes++] = busy;
}

void dfi_run_entered(void) { if (depth++ == 0) atomic_fetch_add_explicit(&inside, 1, memory_order_relaxed); }
void dfi_run_left(void)    { if (--depth == 0) atomic_fetch_sub_explicit(&inside, 1, memory_order_relaxed); }

static bool busy(void) {
  if (atomic_load(&inside) > (depth > 0)) return true;
  for (int32_t i = 0; i < probes; i++) if (probe[i]()) return true;
  return false;
}

static void end(int status, void *unused) {
  (void)unused;
  if (atomic_exchange(&dfi_ending, true) || !busy()) return;
  df_interrupt();
  for (const int64_t latest = dfi_now_ns() + WAIT_NS; dfi_now_ns() < latest; ) {
    nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
    if (!busy()) return;
  }
  if (fflush(NULL) && !status) status = EXIT_FAILURE;       /* what was printed could not be written */
  _exit(status);
}

static void come_first(void) { on_exit(end, NULL); }

/* A child has none of the parent's threads but the one that forked. */
static void in_child(void) { atomic_store(&inside, depth > 0); }

static __attribute__((constructor)) void begin(void) {
  pthread_atfork(NULL, NULL, in_child);
  dfk_library_on_open(come_first);
  come_first();
}
