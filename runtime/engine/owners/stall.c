/* stall.c: can anything move in a run over ranks? Rank 0 asks, when all it has waits. A rank answers as soon as all
 * that it has waits, too, with how many messages it has sent and received so far. Where two rounds of answers, one
 * after the other, have the same sums, and as many were sent as received, no message was on its way in between: nothing
 * can move but by what is outside (a queue that another run would fill), and where no other run goes on there is none.
 */
#include "engine/owners/team_internal.h"

enum { ASKS, ANSWERS, STALLED };
typedef struct stall { int64_t what, round, sent, received; } stall;

static void tell(const dfi_exec *x, int32_t to, stall s) {
  dfi_message m = { .head = { .kind = DFI_MESSAGE_STALL, .run = x->team->run, .bytes = sizeof s }, .payload = &s };
  dfi_rank_send(x->rank, to, &m);
}

static void tell_others(const dfi_exec *x, stall s) {
  const uint64_t to = x->team->part.ranks & ~atomic_load(&x->team->ended);
  for (int32_t i = 0; to >> i; i++) if (to >> i & 1) tell(x, i, s);
}

void dfi_stall_counts(const struct dfi_team *t, int64_t *sent, int64_t *received) {
  *sent = *received = 0;
  for (int32_t i = 0; i < t->n; i++) {
    *sent += t->member[i]->sent;
    *received += t->member[i]->received;
  }
}

/* Is there a run of the session besides this one that could move? */
static bool others_move(const dfi_exec *x) {
  const dfi_shared *s = x->team->session;
  return !x->foreground || x->deadline || atomic_load(&s->stuck) < atomic_load(&s->in_progress) - 1;
}

void dfi_stall_ask(dfi_exec *x) {
  struct dfi_team *t = x->team;
  enum { ROUND_MS = 10 };
  if (others_move(x) || dfi_now() < t->ask.next) return;
  pthread_mutex_lock(&t->lock);
  const uint64_t ended = atomic_load(&t->ended);
  const bool all = !(t->part.ranks & ~(t->ask.answers | ended));
  int64_t sent, received;
  dfi_stall_counts(t, &sent, &received);
  sent += t->ask.sent + t->sum.sent;
  received += t->ask.received + t->sum.received;
  const bool settled = all && t->ask.round && sent == received;
  const bool stalled = settled && sent == t->ask.last && ended == t->ask.last_ended;
  if (all) {
    t->ask.last = settled ? sent : -1;
    t->ask.last_ended = ended;
    t->ask.round++;
    t->ask.answers = (uint64_t)1;
    t->ask.sent = t->ask.received = 0;
  }
  const int64_t round = t->ask.round;
  pthread_mutex_unlock(&t->lock);
  t->ask.next = dfi_now() + 1e-3 * ROUND_MS;       /* who has not answered may not have begun when it was asked */
  if (stalled) tell_others(x, (stall){ .what = STALLED, .round = atomic_fetch_add(&t->stalled, 1) + 1 });
  tell_others(x, (stall){ .what = ASKS, .round = round });
}

void dfi_team_look_stalled(dfi_exec *x) {
  struct dfi_team *t = x->team;
  if (atomic_load(&x->shared->stuck) != atomic_load(&x->shared->in_progress)) return;
  if (!dfi_rank_me(x->rank)) {
    if (!x->guest) dfi_stall_ask(x);
    return;
  }
  int64_t asked = atomic_load(&t->asked);
  if (!asked || !atomic_compare_exchange_strong(&t->asked, &asked, 0)) return;
  stall s = { .what = ANSWERS, .round = asked };
  dfi_stall_counts(t, &s.sent, &s.received);
  tell(x, 0, s);
}

void dfi_stall_told(void *user, int32_t from, const void *bytes, int64_t n) {
  struct dfi_team *t = user;
  stall s;
  if (n != sizeof s) return;
  memcpy(&s, bytes, sizeof s);
  if (s.what == ASKS) atomic_store(&t->asked, s.round);
  else if (s.what == STALLED) atomic_store(&t->stalled, s.round < 1000 ? (int)s.round : 1000);
  else {
    pthread_mutex_lock(&t->lock);
    const uint64_t bit = (uint64_t)1 << from;
    if (s.round == t->ask.round && !(t->ask.answers & bit)) {
      t->ask.answers |= bit;
      t->ask.sent += s.sent;
      t->ask.received += s.received;
    }
    pthread_mutex_unlock(&t->lock);
  }
  dfi_team_call_all(t);
}

void dfi_stall_begin(struct dfi_team *t) {
  dfi_exec *x = t->member[0];
  t->session = x->shared;
  atomic_store(&t->own.in_progress, 1);
  atomic_store(&t->own.stuck, 0);
  t->own.resources = x->shared->resources;
  for (int32_t i = 0; i < t->n; i++) t->member[i]->shared = &t->own;
  atomic_store(&t->asked, 0);
  memset(&t->ask, 0, sizeof t->ask);
  t->ask.answers = t->part.ranks;          /* the first round begins when rank 0 first asks */
}
