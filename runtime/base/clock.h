/* clock.h: waiting for a while by the monotonic clock. */
#ifndef DFLOW_CLOCK_H
#define DFLOW_CLOCK_H
#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Nanoseconds by that clock. */
static inline int64_t dfi_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A condition whose timed waits take dfi_after's times: setting the time of day makes none of them longer. */
static inline void dfi_cond_init(pthread_cond_t *c) {
  pthread_condattr_t a;
  pthread_condattr_init(&a);
  pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
  pthread_cond_init(c, &a);
  pthread_condattr_destroy(&a);
}

/* That many seconds from now; seconds >= 0. */
static inline struct timespec dfi_after(double seconds) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const time_t whole = (time_t)seconds;
  t.tv_sec += whole;
  t.tv_nsec += (long)((seconds - (double)whole) * 1e9);
  if (t.tv_nsec >= 1000000000) { t.tv_sec++; t.tv_nsec -= 1000000000; }
  return t;
}
#endif
