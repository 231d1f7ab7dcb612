/* stall.c: can anything move in a run over ranks? Rank 0 asks, when all it has waits. A rank answers as soon as all
 * that it has waits, too, with how many messages have gone to other ranks and come from them so far (some that came
 * may wait for their Recvs), and whether anything fetched waits for that (lost.h). Where two rounds of answers, one
 * after the other, have the same sums, and as many came as have gone, no message was on its way in between: nothing
 * can move but by what is outside (a queue that another run would fill), and where no other run goes on there is none.
 * Where nothing fetched waits for it on any rank the run is over; all ranks are told of a loop with something that
 * waits, since what its Exits give may meet a Merge that has been passed on any of them.
 *
 * A run in the background waits for runs that are yet to be started, unless a link holds a message up for ever.
 *
 * The session's other runs may be over ranks, too. The run that would give up asks a question, by a number; each of the
 * others asks its ranks two rounds after it has seen the number, and says so when it cannot move. Where all have, and
 * the one that asked, and those of this process alone, have not moved since, there was a moment at which nothing could.
 */
#include "engine/owners/team_internal.h"

enum { ASKS, ANSWERS, STALLED };
typedef struct stall { int64_t what, round, gone, come, held; dfi_wanted wanted; } stall;

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

void dfi_stall_crossed(struct dfi_team *t, int64_t *gone, int64_t *come) {
  *gone = *come = 0;
  for (int32_t i = 0; i < DFI_RANKS_MOST; i++) {
    *gone += atomic_load(&t->sent_to[i]);
    *come += atomic_load(&t->come_from[i]);
  }
}

enum { COUNT_BITS = 16 };

/* Can no other run of x's session move? Of those over ranks this is found out by question and answer, so it is true a
 * while after it has become so. x has nothing to do itself. */
static bool others_stalled(dfi_exec *x, dfi_shared *s) {
  const int far = atomic_load(&s->far), others = far - (x->setup.rank_run != 0);
  const uint64_t moves = atomic_load(&s->moves), q = atomic_load(&s->question);
  if (atomic_load(&s->stuck) != atomic_load(&s->in_progress) - far) return false;
  if (!others) return true;
  if (x->question && x->question == q >> COUNT_BITS && x->moves == moves)
    return (int)(q & ((1u << COUNT_BITS) - 1)) >= others;
  x->moves = moves;
  x->question = (q >> COUNT_BITS) + 1;
  atomic_store(&s->question, x->question << COUNT_BITS);
  return false;
}

/* x's run cannot move, since the question was seen. */
static void answer(const struct dfi_team *t) {
  uint64_t q = atomic_load(&t->session->question);
  while (q >> COUNT_BITS == t->ask.question && !atomic_compare_exchange_weak(&t->session->question, &q, q + 1)) { }
}

/* Is it to be found out? *anew: the rounds so far do not count. */
static bool is_asked(const dfi_exec *x, bool *anew) {
  struct dfi_team *t = x->team;
  const uint64_t q = atomic_load(&t->session->question) >> COUNT_BITS;
  *anew = false;
  if (x->setup.foreground) return !x->setup.deadline;
  if (q == t->ask.answered) return false;
  *anew = q != t->ask.question;
  t->ask.question = q;
  return true;
}

void dfi_stall_ask(dfi_exec *x) {
  struct dfi_team *t = x->team;
  enum { ROUND_MS = 10, SELDOM_MS = 160 };
  bool anew;
  const bool asked = is_asked(x, &anew);
  if (dfi_now() < t->ask.next && !anew) return;
  pthread_mutex_lock(&t->lock);
  const uint64_t ended = atomic_load(&t->ended);
  const bool all = anew || !(t->part.ranks & ~(t->ask.answers | ended));
  int64_t gone, come;
  dfi_stall_crossed(t, &gone, &come);
  gone += t->ask.gone + t->sum.gone;
  come += t->ask.come + t->sum.come;
  const bool settled = all && !anew && t->ask.round && gone == come;
  const bool stalled = settled && gone == t->ask.last && ended == t->ask.last_ended;
  const bool held = t->ask.held || t->sum.held || atomic_load(&t->held);
  bool wanted = true;
  if (all) {
    const dfi_wanted mine = dfi_calls_look(x, t->ask.loops);
    wanted = mine.any || t->ask.wanted.any || (mine.wanted & t->ask.wanted.wanted);
    t->ask.loops = mine.waits | t->ask.wanted.waits;
    t->ask.wanted = (dfi_wanted){ .wanted = ~(uint64_t)0 };
    t->ask.held = false;
    t->ask.last = settled ? gone : -1;
    t->ask.last_ended = ended;
    t->ask.round++;
    t->ask.answers = (uint64_t)1;
    t->ask.gone = t->ask.come = 0;
  }
  const int64_t round = t->ask.round;
  pthread_mutex_unlock(&t->lock);
  /* one that has not answered may not have begun when it was asked */
  const bool moves = all && !(stalled && !asked);
  t->ask.wait_ms = moves ? ROUND_MS : t->ask.wait_ms < SELDOM_MS ? 2 * t->ask.wait_ms : SELDOM_MS;
  t->ask.next = dfi_now() + 1e-3 * t->ask.wait_ms;
  if (stalled && !wanted) { x->lost = true; return; }
  if (all && !stalled) x->question = 0;
  if (stalled && asked && !x->setup.foreground) {
    t->ask.answered = t->ask.question;
    answer(t);
  } else if (stalled && (asked || held) && others_stalled(x, t->session))
    tell_others(x, (stall){ .what = STALLED, .round = atomic_fetch_add(&t->stalled, 1) + 1 });
  tell_others(x, (stall){ .what = ASKS, .round = round, .wanted.waits = t->ask.loops });
}

void dfi_team_look_stalled(dfi_exec *x) {
  struct dfi_team *t = x->team;
  if (atomic_load(&x->setup.shared->stuck) != atomic_load(&x->setup.shared->in_progress)) return;
  if (!dfi_rank_me(x->rank)) {
    if (!x->guest) dfi_stall_ask(x);
    return;
  }
  int64_t asked = atomic_load(&t->asked);
  if (!asked || !atomic_compare_exchange_strong(&t->asked, &asked, 0)) return;
  stall s = { .what = ANSWERS, .round = asked, .held = atomic_load(&t->held),
              .wanted = dfi_calls_look(x, atomic_load(&t->asked_loops)) };
  dfi_stall_crossed(t, &s.gone, &s.come);
  tell(x, 0, s);
}

void dfi_stall_told(void *user, int32_t from, const void *bytes, int64_t n) {
  struct dfi_team *t = user;
  stall s;
  if (n != sizeof s) return;
  memcpy(&s, bytes, sizeof s);
  if (s.what == ASKS) {
    atomic_store(&t->asked_loops, s.wanted.waits);
    atomic_store(&t->asked, s.round);
  } else if (s.what == STALLED) atomic_store(&t->stalled, s.round < 1000 ? (int)s.round : 1000);
  else {
    pthread_mutex_lock(&t->lock);
    const uint64_t bit = (uint64_t)1 << from;
    if (s.round == t->ask.round && !(t->ask.answers & bit)) {
      t->ask.answers |= bit;
      t->ask.gone += s.gone;
      t->ask.come += s.come;
      t->ask.wanted.any |= s.wanted.any;
      t->ask.wanted.waits |= s.wanted.waits;
      t->ask.wanted.wanted &= s.wanted.wanted;
      t->ask.held |= s.held != 0;
    }
    pthread_mutex_unlock(&t->lock);
  }
  dfi_team_call_all(t);
}

void dfi_stall_begin(struct dfi_team *t) {
  dfi_exec *x = t->member[0];
  t->session = x->setup.shared;
  x->question = 0;
  atomic_store(&t->own.in_progress, 1);
  atomic_store(&t->own.stuck, 0);
  t->own.resources = x->setup.shared->resources;
  for (int32_t i = 0; i < t->n; i++) t->member[i]->setup.shared = &t->own;
  atomic_store(&t->asked, 0);
  memset(&t->ask, 0, sizeof t->ask);
  t->ask.answers = t->part.ranks;          /* the first round begins when rank 0 first asks */
  t->ask.wanted.any = true;
}

/* Every run of the session that is in progress counts itself as stuck when all its calls wait and its inbox is empty;
 * the thread that completes one of its calls counts it out again, under the same lock. So when all are counted, no
 * call can be completed but by a run that is yet to be started, and the foreground, which would have to end first,
 * can give up. */
bool dfi_calls_all_stuck(dfi_exec *x) {
  return x->setup.foreground && !x->setup.deadline && others_stalled(x, x->setup.shared);
}
