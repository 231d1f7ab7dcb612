/* mutex.c: mutexes of a session, which TensorFlow's CriticalSection is made of. A lock is a value: its owner holds
 * the mutex, until ConsumeMutexLock or the end of the value.
 */
#include "op/run.h"
#include "resource/resource.h"
#include "resource/variable.h"
#include <stdio.h>

enum { CONTAINER, SHARED_NAME };

typedef struct waiter { struct waiter *next; df_kernel *kernel; } waiter;

typedef struct mutex {
  dfi_handle      base;
  char           *name;            /* owned */
  pthread_mutex_t guard;           /* guards what follows; taken before a run's inbox_lock */
  bool            held;
  waiter         *first, **last;   /* that wait, in line */
} mutex;

typedef struct hold { dfi_handle base; mutex *of; int32_t over; } hold;       /* `of` is retained; over is atomic */

static int32_t give(mutex *m, df_kernel *k);

/* The next in line has it, or none. No lock is held. */
static void unlock(mutex *m) {
  pthread_mutex_lock(&m->guard);
  waiter *w = m->first;
  if (!w) m->held = false;
  else if (!(m->first = w->next)) m->last = &m->first;
  pthread_mutex_unlock(&m->guard);
  if (!w) return;
  df_kernel *k = w->kernel;
  dfi_free(w);
  dfk_complete(k, give(m, k));
}

static void let_go(hold *h) {
  if (!__atomic_exchange_n(&h->over, 1, __ATOMIC_ACQ_REL)) unlock(h->of);
}

static void destroy_hold(dfi_handle *h) {
  hold *mine = (hold *)h;
  let_go(mine);
  dfi_handle_release(mine->of);
  dfi_free(mine);
}

/* The output of a call that has the mutex. */
static int32_t give(mutex *m, df_kernel *k) {
  df_tensor *t = dfk_out(k, 0, DF_VARIANT, 0, NULL);
  if (!t) {
    unlock(m);
    return k->error->code;
  }
  hold *h = dfi_xcalloc(1, sizeof *h);
  *h = (hold){ .base = { .refs = 1, .type = DFI_LOCK, .destroy = destroy_hold }, .of = dfi_handle_retain(m) };
  dfk_set_variant(t, 0, h);
  dfi_handle_release(h);
  return DF_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static void destroy(dfi_handle *h) {
  mutex *m = (mutex *)h;
  df_assert(!m->first);
  pthread_mutex_destroy(&m->guard);
  dfi_free(m->name);
  dfi_free(m);
}

static dfi_handle *make(void *user, df_error *err) {
  mutex *m = dfi_xcalloc(1, sizeof *m);
  (void)err;
  m->base = (dfi_handle){ .refs = 1, .type = DFI_MUTEX, .destroy = destroy };
  m->name = dfi_xstrdup(user);
  m->last = &m->first;
  pthread_mutex_init(&m->guard, NULL);
  return &m->base;
}

static int32_t kernel_mutex(df_kernel *k) {
  const char *shared = dfk_string(k, SHARED_NAME);
  const char *name = shared[0] ? shared : dfi_node_name(dfi_run_node(k->run));
  mutex *m = dfi_resource_get(k->run, DFI_MUTEX, dfk_string(k, CONTAINER), shared, make, (void *)(uintptr_t)name,
                              k->error);
  if (!m) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(m) };
  return DF_OK;
}

/* The run of this call stops. */
static void stop(df_kernel *k, void *user) {
  mutex *m = user;
  pthread_mutex_lock(&m->guard);
  waiter **at = &m->first;
  while (*at && (*at)->kernel != k) at = &(*at)->next;
  waiter *w = *at;
  if (w && !(*at = w->next)) m->last = at;
  pthread_mutex_unlock(&m->guard);
  if (!w) return;                                          /* it is being completed */
  dfi_free(w);
  dfk_complete(k, dfk_fail(k, DF_CANCELLED, "the call to mutex '%s' was cancelled", m->name));
}

static void describe(df_kernel *k, void *user, char *text, size_t bytes) {
  mutex *m = user;
  (void)k;
  snprintf(text, bytes, "waits for mutex '%s', which somebody holds", m->name);
}

static int32_t kernel_lock(df_kernel *k) {
  mutex *m = dfi_handle_in(k, 0, DFI_MUTEX);
  if (!m) return k->error->code;
  waiter *w = dfi_xcalloc(1, sizeof *w);
  w->kernel = k;
  pthread_mutex_lock(&m->guard);
  const bool mine = !m->held;
  m->held = true;
  if (!mine) {
    *m->last = w;
    m->last = &w->next;
    dfk_on_stop(k, stop, describe, m);
  }
  pthread_mutex_unlock(&m->guard);
  if (!mine) return DFK_PENDING;
  dfi_free(w);
  return give(m, k);
}

static int32_t kernel_consume(df_kernel *k) {
  const df_tensor *t = k->in[0];
  dfi_handle *h = t->rank == 0 ? ((dfi_handle **)t->data)[0] : NULL;
  if (!h || h->type != DFI_LOCK) return dfk_fail(k, DF_INVALID_ARGUMENT, "input 0 holds no lock of a mutex");
  let_go((hold *)h);
  return DF_OK;
}

static const df_op ops[] = {
  { .type = "MutexV2", .hosted = true, .in = "", .out = "resource:handle",
    .attrs = "container:string='' shared_name:string=''",
    .doc = "a handle of the session's mutex of that name", .stateful = true, .no_grad = true,
    .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = kernel_mutex } },
  { .type = "MutexLock", .hosted = true, .in = "mutex:handle", .out = "mutex_lock:variant",
    .doc = "a lock of the mutex, held until ConsumeMutexLock or as long as there is the value; waits while there is "
    "another one",
    .stateful = true, .effect = true, .waits = true, .no_grad = true, .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_lock } },
  { .type = "ConsumeMutexLock", .hosted = true, .in = "mutex_lock:variant", .out = "",
    .doc = "lets the lock's mutex go",
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_consume } },
};
const dfi_op_table dfi_ops_mutex = { ops, (int32_t)(sizeof ops / sizeof *ops) };
