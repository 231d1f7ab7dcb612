/* locks.h: in the debug build a lock that a thread takes twice, lets go though it has not got it, or waits under
 * without it, ends the process and says where. In the release build nothing is changed. Included by internal.h. */
#ifndef DFLOW_LOCKS_H
#define DFLOW_LOCKS_H
#include <pthread.h>

#ifdef DFLOW_DEBUG
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <string.h>

static inline void dfi_lock_held(int status, const char *what, const char *file, int line) {
  if (!status) return;
  fprintf(stderr, "%s:%d: a lock %s: %s\n", file, line, what, strerror(status));
  abort();
}
static inline int dfi_lock_begin(pthread_mutex_t *lock, const pthread_mutexattr_t *given) {
  if (given) return pthread_mutex_init(lock, given);
  pthread_mutexattr_t checked;
  pthread_mutexattr_init(&checked);
  pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
  const int status = pthread_mutex_init(lock, &checked);
  pthread_mutexattr_destroy(&checked);
  return status;
}
static inline int dfi_lock_wait(int status, const char *file, int line) {   /* 0, or the time is over */
  dfi_lock_held(status == EPERM ? status : 0, "is waited under", file, line);
  return status;
}

#define DFI_HERE                          __FILE__, __LINE__
#define pthread_mutex_init(m, given)      dfi_lock_begin(m, given)
#define pthread_mutex_lock(m)             dfi_lock_held(pthread_mutex_lock(m), "is taken", DFI_HERE)
#define pthread_mutex_unlock(m)           dfi_lock_held(pthread_mutex_unlock(m), "is let go", DFI_HERE)
#define pthread_cond_wait(c, m)           dfi_lock_wait(pthread_cond_wait(c, m), DFI_HERE)
#define pthread_cond_timedwait(c, m, end) dfi_lock_wait(pthread_cond_timedwait(c, m, end), DFI_HERE)
#ifdef __PTHREAD_MUTEX_INITIALIZER              /* glibc: one that is checked, from the first */
#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER { { __PTHREAD_MUTEX_INITIALIZER(PTHREAD_MUTEX_ERRORCHECK) } }
#endif
#endif
#endif
