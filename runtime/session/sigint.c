/* sigint.c: Ctrl-C for programs that know nothing of it.
 *
 * A plain `lua5.4` or `luajit` handles SIGINT with a debug hook, which never fires while the thread is in C. So the
 * guarded calls put a handler of ours in front of the program's own: while a guarded call runs, the first SIGINT is
 * df_interrupt; otherwise, and the second time, the signal goes on to the handler that was there before.
 *
 * The handler stays installed between calls, because a pair of sigaction calls costs more than a small run. Programs
 * replace handlers at will, so whether ours is still there is looked up again when the last look is over a
 * millisecond old. Everything the handler reads is atomic or written before it is installed.
 */
#include "base/internal.h"
#include <signal.h>
#include <time.h>

static atomic_int  active;          /* guarded calls in progress */
static atomic_int  interrupts;      /* SIGINTs since `active` was last zero */
static atomic_bool enabled = true;
static atomic_bool installed;
static _Atomic int64_t looked_ns;   /* when the handler was last looked up */
static struct sigaction before;     /* what SIGINT did before us; guarded by lock, read by the handler */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __attribute__((constructor)) void guard(void) { dfi_fork_guard(&lock, NULL); }

static void on_sigint(int signal_number, siginfo_t *info, void *context) {
  if (atomic_load(&active) > 0 && atomic_fetch_add(&interrupts, 1) == 0) {
    df_interrupt();
    return;
  }
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal_number, info, context);
  } else if (before.sa_handler == SIG_DFL) {
    struct sigaction standard = { .sa_handler = SIG_DFL };
    sigset_t only;
    sigaction(SIGINT, &standard, NULL);
    sigemptyset(&only);
    sigaddset(&only, SIGINT);
    raise(SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);   /* the process ends here, as it would have without us */
  } else if (before.sa_handler != SIG_IGN) {
    before.sa_handler(signal_number);            /* lua(1)'s own removes itself, and us with it */
    atomic_store(&installed, false);
  }
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void install(void) {
  struct sigaction ours = { .sa_sigaction = on_sigint, .sa_flags = SA_SIGINFO | SA_RESTART }, there;
  pthread_mutex_lock(&lock);
  sigemptyset(&ours.sa_mask);
  if (sigaction(SIGINT, NULL, &there) == 0) {
    bool is_ours = (there.sa_flags & SA_SIGINFO) && there.sa_sigaction == on_sigint;
    if (!is_ours) {
      before = there;
      sigaction(SIGINT, &ours, NULL);
    }
    atomic_store(&installed, true);
  }
  pthread_mutex_unlock(&lock);
}

static void guard_begin(void) {
  if (!atomic_load_explicit(&enabled, memory_order_relaxed)) return;
  int64_t now = now_ns();
  if (!atomic_load_explicit(&installed, memory_order_relaxed) ||
      now - atomic_load_explicit(&looked_ns, memory_order_relaxed) > 1000000) {
    install();
    atomic_store_explicit(&looked_ns, now, memory_order_relaxed);
  }
  atomic_fetch_add(&active, 1);
}

static void guard_end(bool begun) {
  if (begun && atomic_fetch_sub(&active, 1) == 1) atomic_store_explicit(&interrupts, 0, memory_order_relaxed);
}

int32_t df_session_run_guarded(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed,
                               const int32_t *feeds, const df_value *values, double timeout, df_value *results,
                               df_error *err) {
  bool begun = atomic_load_explicit(&enabled, memory_order_relaxed);
  guard_begin();
  int32_t code = df_session_run(s, nfetch, fetches, nfeed, feeds, values, timeout, results, err);
  guard_end(begun);
  return code;
}

int32_t df_run_wait_guarded(df_run *r, df_value *results, df_error *err) {
  bool begun = atomic_load_explicit(&enabled, memory_order_relaxed);
  guard_begin();
  int32_t code = df_run_wait(r, results, err);
  guard_end(begun);
  return code;
}

/* To be called before the first run: the program that has its own handler says so once. */
void df_sigint_guard(bool on) {
  atomic_store(&enabled, on);
}
