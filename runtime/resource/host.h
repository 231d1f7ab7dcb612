/* host.h: calls that the program around the library computes, on a thread of its own choosing (df_host_open). */
#ifndef DFLOW_HOST_H
#define DFLOW_HOST_H
#include "op/op.h"
#include <pthread.h>

/* Answers the calls that wait for this thread; how many there were. They may run anything, other runs among it. */
int32_t dfi_host_serve(void);
/* Does any call wait for this thread? Without a lock. */
bool    dfi_host_asked(void);
/* While a thread waits on `bell` (guarded by lock) it is rung when a call comes for it. NULL: no longer. The lock is
   not held. */
void    dfi_host_bell(pthread_mutex_t *lock, pthread_cond_t *bell);
/* The kernel of HostCall: attributes host, id. */
int32_t dfi_host_kernel(df_kernel *k);
#endif
