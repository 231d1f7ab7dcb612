/* draws.c: how often each random op of a session has drawn.
 *
 * A session counts, for each random op, the runs in which that op drew. A run draws under one number: one more than the
 * largest count among the random ops of its plan. All its ops draw under that number, so that what a gradient draws a
 * second time, as a copy of the op with the same seed, is what was drawn before. Runs that have no random op, or none
 * that fires (the branch with the dropout is not taken), count nowhere: reading a variable or evaluating a model
 * between two steps of training does not change what the next step draws.
 *
 * A run takes its number when it starts, so that runs in the background draw in the order of their starts whenever
 * their threads come to it. An op that did not fire gives its number back, unless a later run has counted on from it.
 */
#include "session/session.h"

/* The place of a node among the counted ones, or where it belongs. */
static int32_t place_of(const dfi_draws *d, int32_t node) {
  int32_t low = 0, high = d->n;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (d->of[middle].node < node) low = middle + 1;
    else high = middle;
  }
  return low;
}

static bool counts(const dfi_draws *d, int32_t at, int32_t node) { return at < d->n && d->of[at].node == node; }

static dfi_draw_count *count_of(dfi_draws *d, int32_t node) {
  const int32_t at = place_of(d, node);
  if (counts(d, at, node)) return &d->of[at];
  if (d->n == d->cap) {
    d->cap = d->cap ? 2 * d->cap : 8;
    d->of = dfi_xrealloc(d->of, sizeof *d->of * (size_t)d->cap);
  }
  memmove(d->of + at + 1, d->of + at, sizeof *d->of * (size_t)(d->n - at));
  d->n++;
  d->of[at] = (dfi_draw_count){ .node = node, .times = d->others, .before = d->others };
  return &d->of[at];
}

dfi_run_number dfi_session_number(df_session *s, const dfi_plan *p) {
  const int64_t serial = 1 + atomic_fetch_add(&s->runs, 1);
  if (!p->nrandom) return (dfi_run_number){ serial, serial };
  dfi_run_number number = { serial, 0 };
  pthread_mutex_lock(&s->lock);
  for (int32_t i = 0; i < p->nrandom; i++) {
    const int64_t times = count_of(&s->draws, p->random[i])->times;
    if (times > number.draw) number.draw = times;
  }
  number.draw++;
  for (int32_t i = 0; i < p->nrandom; i++) {
    dfi_draw_count *c = count_of(&s->draws, p->random[i]);
    c->before = c->times;
    c->times = number.draw;
  }
  pthread_mutex_unlock(&s->lock);
  return number;
}

void dfi_session_drew(df_session *s, const dfi_plan *p, int64_t number, const _Atomic uint8_t *drew) {
  pthread_mutex_lock(&s->lock);
  for (int32_t i = 0; i < p->nrandom; i++) {
    if (drew && atomic_load_explicit(&drew[i], memory_order_relaxed)) continue;
    dfi_draw_count *c = count_of(&s->draws, p->random[i]);
    if (c->times == number) c->times = c->before;
  }
  pthread_mutex_unlock(&s->lock);
}

int32_t df_session_position(df_session *s, int32_t capacity, int32_t *nodes, int64_t *times) {
  pthread_mutex_lock(&s->lock);
  int32_t n = 0;
  if (s->draws.others) {
    if (n < capacity) { nodes[n] = -1; times[n] = s->draws.others; }
    n++;
  }
  for (int32_t i = 0; i < s->draws.n; i++) {
    const dfi_draw_count *c = &s->draws.of[i];
    if (c->times == s->draws.others) continue;
    if (n < capacity) { nodes[n] = c->node; times[n] = c->times; }
    n++;
  }
  pthread_mutex_unlock(&s->lock);
  return n;
}

int32_t df_session_seek(df_session *s, int32_t n, const int32_t *nodes, const int64_t *times, df_error *err) {
  for (int32_t i = 0; i < n; i++) {
    if (times[i] < 0)
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "a random op cannot have drawn %lld times", (long long)times[i]);
    if (nodes[i] < -1 || nodes[i] >= s->graph->n)
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the session's graph has no node %d", nodes[i]);
  }
  pthread_mutex_lock(&s->lock);
  s->draws.n = 0;
  s->draws.others = 0;
  for (int32_t i = 0; i < n; i++) if (nodes[i] < 0) s->draws.others = times[i];
  for (int32_t i = 0; i < n; i++) if (nodes[i] >= 0) count_of(&s->draws, nodes[i])->times = times[i];
  pthread_mutex_unlock(&s->lock);
  return DF_OK;
}
