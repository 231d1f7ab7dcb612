/* host.c: the queue of calls that wait for a thread of the program around the library.
 *
 * A host is a function and the thread that it belongs to. A run on that thread calls it at once. A run in the
 * background leaves the call here and goes on with what else it has; the thread answers whenever it waits for a run,
 * asks whether one is done, or runs another that has to wait. Lock order: hosts_lock, then a bell's lock; no lock is
 * held while a host's function runs.
 */
#include "resource/host.h"
#include <stdio.h>

typedef struct waiting { struct waiting *next; df_kernel *k; } waiting;
typedef struct host {
  df_host_fn fn;               /* NULL: gone */
  void      *user;
  pthread_t  thread;
  waiting   *first;            /* owned; oldest first */
  pthread_mutex_t *lock; pthread_cond_t *bell;     /* where the thread waits; NULL: it does not */
} host;

static pthread_mutex_t hosts_lock = PTHREAD_MUTEX_INITIALIZER;
static __attribute__((constructor)) void guard(void) { dfi_fork_guard(&hosts_lock, NULL); }
static host *hosts;            /* all that were ever opened; the number is the place; guarded by hosts_lock */
static int32_t nhosts;
static _Atomic int32_t nwaiting;         /* calls in all queues */

int32_t df_host_open(df_host_fn fn, void *user) {
  pthread_mutex_lock(&hosts_lock);
  int32_t n = 0;
  while (n < nhosts && hosts[n].fn) n++;
  if (n == nhosts) hosts = dfi_xrealloc(hosts, sizeof *hosts * (size_t)++nhosts);
  hosts[n] = (host){ .fn = fn, .user = user, .thread = pthread_self() };
  pthread_mutex_unlock(&hosts_lock);
  return n;
}

/* Takes the call of k out of the queue, or the first one if k is NULL; NULL: there is none. Under hosts_lock. */
static df_kernel *take(host *h, const df_kernel *k) {
  for (waiting **at = &h->first; *at; at = &(*at)->next) {
    waiting *w = *at;
    if (k && w->k != k) continue;
    df_kernel *found = w->k;
    *at = w->next;
    dfi_free(w);
    atomic_fetch_sub(&nwaiting, 1);
    return found;
  }
  return NULL;
}

static int32_t gone(df_kernel *k) {
  return dfk_fail(k, DF_FAILED_PRECONDITION, "the program that computes this op is gone");
}

void df_host_close(int32_t n) {
  pthread_mutex_lock(&hosts_lock);
  host *h = n >= 0 && n < nhosts ? &hosts[n] : NULL;
  if (h) h->fn = NULL;
  for (df_kernel *k; h && (k = take(h, NULL)) != NULL;) dfk_complete(k, gone(k));
  pthread_mutex_unlock(&hosts_lock);
}

/* Stop: the thread that stops the run first takes the call back; one that is being answered comes back by itself. */
static void stop(df_kernel *k, void *user) {
  const int32_t n = (int32_t)(intptr_t)user;
  pthread_mutex_lock(&hosts_lock);
  df_kernel *mine = take(&hosts[n], k);
  pthread_mutex_unlock(&hosts_lock);
  if (mine) dfk_complete(mine, dfk_fail(mine, DF_CANCELLED, "the run ended before the call was answered"));
}

static void what(df_kernel *k, void *user, char *text, size_t bytes) {
  (void)k; (void)user;
  snprintf(text, bytes,
           "waits for the thread that the function belongs to, which answers when it waits for this run (h:wait)");
}

static int32_t answer(df_kernel *k, df_host_fn fn, void *user) {
  df_value *in = dfi_xcalloc((size_t)k->nin + 1, sizeof *in);
  df_tensor **out = dfi_xcalloc((size_t)k->nout + 1, sizeof *out);
  for (int32_t i = 0; i < k->nin; i++) {
    in[i] = dfi_value_copy(k->raw[i]);
    in[i].dead = in[i].flags = 0;
    in[i].uses = 0;
  }
  df_error err = { 0 };
  int32_t code = fn(user, dfk_int(k, 1), k->nin, in, k->nout, out, &err);
  for (int32_t i = 0; i < k->nin; i++) dfi_value_drop(&in[i]);
  for (int32_t i = 0; i < k->nout; i++) {
    if (!code && !out[i]) code = dfk_fail(k, DF_INTERNAL, "the function gave no result %d", i + 1);
    else if (!code && out[i]->dtype != k->out_dtype[i])
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "result %d is %s, %s is expected", i + 1, df_dtype_name(out[i]->dtype),
                      df_dtype_name(k->out_dtype[i]));
    else if (!code) { dfk_out_tensor(k, i, out[i]); continue; }
    df_tensor_release(out[i]);
  }
  dfi_free(in); dfi_free(out);
  return code && err.code ? dfk_fail(k, code, "%s", err.message) : code;
}

int32_t dfi_host_kernel(df_kernel *k) {
  const int64_t n = dfk_int(k, 0);
  pthread_mutex_lock(&hosts_lock);
  host *h = n >= 0 && n < nhosts && hosts[n].fn ? &hosts[n] : NULL;
  if (!h) { pthread_mutex_unlock(&hosts_lock); return gone(k); }
  if (pthread_equal(h->thread, pthread_self())) {
    const df_host_fn fn = h->fn;
    void *user = h->user;
    pthread_mutex_unlock(&hosts_lock);
    return answer(k, fn, user);
  }
  waiting *w = dfi_xcalloc(1, sizeof *w), **at = &h->first;
  w->k = k;
  dfk_on_stop(k, stop, what, (void *)(intptr_t)n);
  while (*at) at = &(*at)->next;
  *at = w;
  atomic_fetch_add(&nwaiting, 1);
  if (h->bell) {
    pthread_mutex_lock(h->lock);
    pthread_cond_broadcast(h->bell);
    pthread_mutex_unlock(h->lock);
  }
  pthread_mutex_unlock(&hosts_lock);
  return DFK_PENDING;
}

bool dfi_host_asked(void) {
  return atomic_load_explicit(&nwaiting, memory_order_relaxed) > 0;
}

int32_t dfi_host_serve(void) {
  int32_t served = 0;
  while (dfi_host_asked()) {
    df_kernel *k = NULL;
    df_host_fn fn = NULL;
    void *user = NULL;
    pthread_mutex_lock(&hosts_lock);
    for (int32_t i = 0; i < nhosts && !k; i++)
      if (pthread_equal(hosts[i].thread, pthread_self()) && (k = take(&hosts[i], NULL)) != NULL) {
        fn = hosts[i].fn;
        user = hosts[i].user;
      }
    pthread_mutex_unlock(&hosts_lock);
    if (!k) break;
    dfk_complete(k, fn ? answer(k, fn, user) : gone(k));
    served++;
  }
  return served;
}

void dfi_host_bell(pthread_mutex_t *lock, pthread_cond_t *bell) {
  pthread_mutex_lock(&hosts_lock);
  for (int32_t i = 0; i < nhosts; i++)
    if (pthread_equal(hosts[i].thread, pthread_self())) { hosts[i].lock = lock; hosts[i].bell = bell; }
  pthread_mutex_unlock(&hosts_lock);
}
