/* fork.c: a child process has one thread, the one that forked, and all of the parent's memory.
 *
 * A lock that another thread held at that moment would be held in the child for ever. So the process's own locks are
 * taken before a fork and let go behind it, on both sides. They are tried, all or none, until none is held: so nothing
 * has to be known of the order in which others take them. What belongs to a session, a run or a queue is not among
 * them: those of a parent that has threads are the parent's, and a child makes its own.
 */
#include "base/internal.h"
#include <sched.h>

enum { GUARDS = 24 };
static struct { pthread_mutex_t *lock; void (*in_child)(void); } guard[GUARDS];
static int32_t guards;

void dfi_fork_guard(pthread_mutex_t *lock, void (*in_child)(void)) {
  df_assert(guards < GUARDS);
  guard[guards].lock = lock;
  guard[guards++].in_child = in_child;
}

static void before(void) {
  for (;;) {
    int32_t n = 0;
    while (n < guards && pthread_mutex_trylock(guard[n].lock) == 0) n++;
    if (n == guards) return;
    while (n > 0) pthread_mutex_unlock(guard[--n].lock);
    sched_yield();
  }
}

static void behind(void) {
  for (int32_t i = guards - 1; i >= 0; i--) pthread_mutex_unlock(guard[i].lock);
}

static void in_child(void) {
  for (int32_t i = 0; i < guards; i++) if (guard[i].in_child) guard[i].in_child();
  for (int32_t i = 0; i < guards; i++) pthread_mutex_init(guard[i].lock, NULL);   /* another thread took it */
}

/* Early, so that these are taken last, when others that take locks before a fork have got them: under those, memory
 * may be asked for. */
static __attribute__((constructor(200))) void begin(void) { pthread_atfork(before, behind, in_child); }
