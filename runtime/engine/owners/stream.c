/* stream.c: see stream.h. */
#include "engine/owners/stream.h"
#include <sched.h>

/* Calls that wait for their turn. `next` of a call is its link until it has run. */
typedef struct stream {
  pthread_mutex_t lock;      /* guards all below */
  dfi_call *first, **last;
  bool      busy;            /* a thread turns it */
} stream;

struct dfi_streams {
  dfi_pool *pool;
  int32_t   n;               /* two for each device */
  stream    at[];
};

void dfi_streams_begin(dfi_exec *x) {
  const dfi_devices *d = x->plan->devices;
  if (!x->plan->cut || d->owners < 2 || x->timed || x->team || x->streams) return;
  const int32_t n = 2 * d->n;
  struct dfi_streams *s = x->streams = dfi_xcalloc(1, sizeof *s + sizeof *s->at * (size_t)n);
  s->pool = dfi_pool_get(d->owners - 1);
  s->n = n;
  for (int32_t i = 0; i < n; i++) {
    pthread_mutex_init(&s->at[i].lock, NULL);
    s->at[i].last = &s->at[i].first;
  }
}

bool dfi_stream_wants(const dfi_exec *x, const dfi_call *c) {
  const double hop_ns = 10e3;              /* there and back */
  if (!x->streams || x->timed || x->team || 2 * c->node->device >= x->streams->n ||
      !x->plan->devices->at[c->node->device]->arena)
    return false;
  const double ns = c->node->op->cost ? c->node->op->cost(&c->kernel) : (double)c->size;
  return c->status == DF_OK && ns > hop_ns;
}

static void turn(void *arg) {
  for (stream *s = arg;;) {
    pthread_mutex_lock(&s->lock);
    dfi_call *c = s->first;
    if (c) {
      s->first = c->next;
      if (!s->first) s->last = &s->first;
    } else s->busy = false;
    pthread_mutex_unlock(&s->lock);
    if (!c) return;
    dfi_call_work(c);
  }
}

bool dfi_stream_take(dfi_exec *x, dfi_call *c, bool copies) {
  struct dfi_streams *all = x->streams;
  stream *s = &all->at[2 * c->node->device + copies];
  pthread_mutex_lock(&s->lock);
  const bool idle = !s->busy;
  s->busy = true;
  c->next = NULL;
  *s->last = c;
  s->last = &c->next;
  pthread_mutex_unlock(&s->lock);
  if (!idle || dfi_pool_try(all->pool, turn, s)) return true;
  pthread_mutex_lock(&s->lock);
  s->first = NULL;
  s->last = &s->first;
  s->busy = false;
  pthread_mutex_unlock(&s->lock);
  return false;
}

void dfi_streams_end(dfi_exec *x) {
  struct dfi_streams *all = x->streams;
  for (int32_t i = 0; all && i < all->n; i++) {
    for (bool busy = true; busy;) {
      pthread_mutex_lock(&all->at[i].lock);
      busy = all->at[i].busy;
      pthread_mutex_unlock(&all->at[i].lock);
      if (busy) sched_yield();             /* its thread has done all there was, and is about to find out */
    }
  }
}

void dfi_streams_free(dfi_exec *x) {
  for (int32_t i = 0; x->streams && i < x->streams->n; i++) pthread_mutex_destroy(&x->streams->at[i].lock);
  dfi_free(x->streams);
}
