/* halt.c: see halt.h. What is said is a word: a head, and what follows it. */
#include "engine/engine.h"
#include "engine/observe/halt.h"
#include "engine/observe/gather.h"
#include "engine/observe/log.h"
#include "engine/owners/rank.h"
#include "engine/owners/message.h"
#include "engine/owners/team.h"
#include "resource/variable.h"
#include <stdio.h>

typedef enum what { HALT = 1, WANTS, STANDS, TAKE, PICTURE, GO, TURN, FETCH, FETCHED, EVENTS, COUNT, COUNTED } what;

/* round: which halt it is about, counted by rank 0; the last picture of a run is of none, -1. */
typedef struct head { int64_t what, round; } head;
typedef struct reason { df_stop stop; int32_t owner; uint32_t serial; } reason;
typedef struct step {
  int64_t step, left, step_number;
  int32_t stopper;
  uint32_t step_frame;
  int64_t breaks, turn;
} step;

struct dfi_halt {
  dfi_exec *exec;                /* this rank's first owner */
  int32_t   me, n;
  int64_t   round;               /* of the halt that goes on, or was last */
  bool      ordered;             /* it is rank 0's wish */
  bool      said;                /* that this rank stands; of rank 0: what each has yet to take */
  bool      takes;               /* how much this rank has yet to take is known */
  bool      wanted;              /* it had a reason of its own */
  uint64_t  stand, shown;        /* rank 0: ranks that said they stand; whose pictures are here */
  int64_t  *sent;                /* owned, n by n: values that a rank had sent to another; on others a row is used */
  bool      has_reason; reason reason;       /* rank 0: another rank's */
  dfi_exec **seen;               /* owned; by owner of the plan; NULL: nothing */
  struct dfi_far_log *log;       /* owned; what came of other ranks' logs */
  int32_t   turn;                /* the rank that may run tokens of a step; others than rank 0 know their own only */
  int64_t   turn_left;           /* how many it might when it got the turn */
  double    turn_next;           /* until then the turn stays: the last round found no token to run */
  df_stats *far;                 /* owned, by rank; rank 0: counted when it last paused, or was asked */
  uint64_t  asked;               /* rank 0: ranks that have not said what they counted */
  bool      counted;             /* and x counts all that now */
  struct { uint32_t *of; int64_t n; } *names;        /* owned, by rank; of: owned */
  int64_t   fetches; unsigned char *fetched; int64_t nfetched;       /* fetched: owned; what came last */
};

static bool drives(const dfi_halt *h) { return h->me == 0; }

void dfi_halt_forget(dfi_halt *h) {
  for (int32_t o = 0; o < h->exec->plan->parts->n; o++) { dfi_picture_free(h->seen[o]); h->seen[o] = NULL; }
}

void dfi_halt_begin(dfi_exec *x) {
  dfi_halt *h = x->watch->halt = dfi_xcalloc(1, sizeof *h);
  h->exec = x;
  h->me = dfi_rank_me(x->rank);
  h->n = dfi_rank_count(x->rank);
  h->sent = dfi_xcalloc((size_t)h->n * (size_t)h->n, sizeof *h->sent);
  h->names = dfi_xcalloc((size_t)h->n, sizeof *h->names);
  h->far = dfi_xcalloc((size_t)h->n, sizeof *h->far);
  h->seen = dfi_xcalloc((size_t)x->plan->parts->n, sizeof *h->seen);
}

void dfi_halt_free(dfi_halt *h) {
  if (!h) return;
  dfi_far_log_free(h->log);
  for (int32_t i = 0; i < h->n; i++) dfi_free(h->names[i].of);
  dfi_free(h->names); dfi_free(h->far);
  dfi_free(h->sent); dfi_free(h->seen); dfi_free(h->fetched);
  dfi_free(h);
}

dfi_exec *dfi_halt_member(const dfi_halt *h, int32_t o) {
  for (int32_t i = 0; i < dfi_team_size(h->exec); i++)
    if (dfi_team_at(h->exec, i)->place == o) return dfi_team_at(h->exec, i);
  return h->seen[o];
}

/* ---- saying ----------------------------------------------------------------------------------------------------- */

static void say(const dfi_halt *h, int32_t to, what what, int64_t round, const void *more, size_t n) {
  const head first = { what, round };
  unsigned char *word = dfi_xmalloc(sizeof first + n);
  memcpy(word, &first, sizeof first);
  if (n) memcpy(word + sizeof first, more, n);
  dfi_team_tell(h->exec, to, word, (int64_t)(sizeof first + n));
  dfi_free(word);
}

static void say_to_all(const dfi_halt *h, what what, const void *more, size_t n) {
  const uint64_t others = dfi_team_others(h->exec);
  for (int32_t i = 0; others >> i; i++) if (others >> i & 1) say(h, i, what, h->round, more, n);
}

/* What another rank is to take in: how much each has sent to it. */
static void say_takes(const dfi_halt *h) {
  int64_t *column = dfi_xcalloc((size_t)h->n, sizeof *column);
  const uint64_t others = dfi_team_others(h->exec);
  for (int32_t to = 0; others >> to; to++) {
    if (!(others >> to & 1)) continue;
    for (int32_t i = 0; i < h->n; i++) column[i] = h->sent[i * h->n + to];
    say(h, to, TAKE, h->round, column, sizeof *column * (size_t)h->n);
  }
  dfi_free(column);
}

static void say_picture(const dfi_halt *h, int64_t round) {
  dfi_packet all = { 0 };
  for (int32_t i = 0; i < dfi_team_size(h->exec); i++) dfi_picture_write(dfi_team_at(h->exec, i), &all);
  say(h, 0, PICTURE, round, all.at, all.n);
  dfi_free(all.at);
}

void dfi_halt_others(dfi_watch *w) {
  dfi_halt *h = w->halt;
  if (drives(h)) {
    h->round++;
    h->said = false;
    h->stand = h->shown = 0;
    memset(h->sent, 0, sizeof *h->sent * (size_t)h->n * (size_t)h->n);
    dfi_halt_forget(h);
    say_to_all(h, HALT, NULL, 0);
  } else if (w->stop.reason != DF_STOP_ASKED) {
    const reason why = { w->stop, w->stopper, w->stop_serial };
    say(h, 0, WANTS, h->round, &why, sizeof why);
    h->wanted = true;
  }
}

/* ---- all stand -------------------------------------------------------------------------------------------------- */

/* Has all come here that row i, of each rank i, says was sent to this one? */
static bool has_come(const dfi_halt *h) {
  for (int32_t i = 0; i < h->n; i++)
    if (i != h->me && dfi_team_come_from(h->exec, i) < h->sent[i * h->n + h->me]) return false;
  return true;
}

static void own_sent(const dfi_halt *h, int64_t *row) {
  for (int32_t i = 0; i < h->n; i++) row[i] = dfi_team_sent_to(h->exec, i);
}

static bool all_told(dfi_halt *h) {
  const uint64_t others = dfi_team_others(h->exec);
  if (others & ~h->stand) return false;
  if (!h->said) {
    own_sent(h, h->sent);
    say_takes(h);
    h->said = true;
  }
  return !(others & ~h->shown) && has_come(h);
}

bool dfi_halt_complete(dfi_watch *w) {
  dfi_halt *h = w->halt;
  if (drives(h)) {
    if (!all_told(h)) return false;
    if (!h->has_reason || w->stop.reason != DF_STOP_ASKED) return true;
    w->stop = h->reason.stop;
    w->stopper = h->reason.owner;
    w->stop_serial = h->reason.serial;
    w->until_resumed = true;
    return true;
  }
  if (h->ordered && !h->said) {
    int64_t *row = dfi_xcalloc((size_t)h->n, sizeof *row);
    own_sent(h, row);
    say(h, 0, STANDS, h->round, row, sizeof *row * (size_t)h->n);
    dfi_free(row);
    h->said = true;
  }
  if (h->takes && has_come(h)) {
    h->takes = false;
    say_picture(h, h->round);
  }
  return false;                            /* it is for rank 0 to say what follows */
}

/* ---- going on --------------------------------------------------------------------------------------------------- */

/* Breakpoints as bytes: of each what is fixed, its frame's name, and a byte for each of the plan's nodes. */
typedef struct fixed { int32_t id, conditions, once, frame_bytes, has_match; int64_t iteration; } fixed;

void dfi_halt_go_on(dfi_watch *w) {
  dfi_halt *h = w->halt;
  if (!drives(h)) { h->ordered = h->said = h->takes = h->wanted = false; return; }
  dfi_packet o = { 0 };
  const int32_t stopper = h->exec->plan->parts->rank[w->stopper];
  h->turn = dfi_team_others(h->exec) >> stopper & 1 ? stopper : h->me;
  h->turn_left = w->left;
  const step s = { w->step, w->left, w->step_number, w->stopper, w->step_frame, w->nbreaks, h->turn };
  const size_t nnodes = (size_t)h->exec->plan->nnodes;
  dfi_put(&o, &s, sizeof s);
  for (int32_t i = 0; i < w->nbreaks; i++) {
    const dfi_break *b = &w->breaks[i];
    const fixed f = { b->id, b->conditions, b->once, b->frame ? (int32_t)strlen(b->frame) + 1 : 0, b->match != NULL,
                      b->iteration };
    dfi_put(&o, &f, sizeof f);
    dfi_put(&o, b->frame, (size_t)f.frame_bytes);
    if (b->match) dfi_put(&o, b->match, nnodes);
  }
  say_to_all(h, GO, o.at, o.n);
  dfi_free(o.at);
  h->has_reason = false;
  dfi_halt_forget(h);
}

/* Takes n bytes off what is left; NULL: there are not so many. */
static const unsigned char *take(const unsigned char **at, int64_t *left, int64_t n) {
  if (n < 0 || n > *left) return NULL;
  const unsigned char *here = *at;
  *at += n;
  *left -= n;
  return here;
}

static bool take_break(dfi_watch *w, const unsigned char **at, int64_t *left) {
  fixed f;
  const size_t nnodes = (size_t)w->halt->exec->plan->nnodes;
  const unsigned char *bytes = take(at, left, sizeof f);
  if (!bytes) return false;
  memcpy(&f, bytes, sizeof f);
  const unsigned char *frame = take(at, left, f.frame_bytes);
  const unsigned char *match = frame ? take(at, left, f.has_match ? (int64_t)nnodes : 0) : NULL;
  if (!match || (f.frame_bytes && frame[f.frame_bytes - 1])) return false;
  w->breaks = dfi_xrealloc(w->breaks, sizeof *w->breaks * (size_t)(w->nbreaks + 1));
  w->breaks[w->nbreaks++] = (dfi_break){ .id = f.id, .conditions = f.conditions, .once = f.once != 0,
    .iteration = f.iteration, .frame = f.frame_bytes ? dfi_xstrdup((const char *)frame) : NULL,
    .match = f.has_match ? memcpy(dfi_xmalloc(nnodes + 1), match, nnodes) : NULL };
  return true;
}

/* Another owner's reason was told: this one's token is looked at once more. */
static void not_told(dfi_exec *x) {
  if (x->cursor.stopped) { x->cursor.hit = x->cursor.stopped; x->cursor.pass = false; }
  else if (x->cursor.pass) x->cursor.pass = false;
}

static void goes(dfi_watch *w, const unsigned char *bytes, int64_t n) {
  dfi_halt *h = w->halt;
  step s;
  const unsigned char *at = bytes;
  const unsigned char *first = take(&at, &n, sizeof s);
  if (!first) return;
  memcpy(&s, first, sizeof s);
  dfi_watch_unbreak(w, 0);
  while (s.breaks-- > 0 && take_break(w, &at, &n)) { }
  for (int32_t i = 0; h->wanted && w->stopper != s.stopper && i < dfi_team_size(h->exec); i++)
    if (dfi_team_at(h->exec, i)->place == w->stopper) not_told(dfi_team_at(h->exec, i));
  w->spent = 0;
  w->step = (int32_t)s.step;
  w->left = s.left;
  w->stopper = s.stopper;
  w->step_frame = s.step_frame;
  w->step_number = s.step == DF_STEP_FRAME ? w->opened : s.step_number;
  w->step_ended = w->until_resumed = w->want_pause = false;
  h->turn = (int32_t)s.turn;
  dfi_watch_go_on(w);
}

/* ---- whose turn it is ------------------------------------------------------------------------------------------- */

/* Does a step go on that ends after so many tokens? */
static bool counts_tokens(const dfi_watch *w) { return w->step == DF_STEP_TOKEN || w->step == DF_STEP_NODE; }

/* Rank 0: one that has ended lets the turn go, with what it was given: what it ran, it has said before its end. */
static void reclaim_turn(dfi_watch *w) {
  dfi_halt *h = w->halt;
  if (!drives(h) || h->turn == h->me || dfi_team_others(h->exec) >> h->turn & 1) return;
  dfi_halt_take(w);
  if (!(dfi_team_others(h->exec) >> h->turn & 1)) h->turn = h->me;
}

bool dfi_halt_may_run(dfi_watch *w) {
  if (!counts_tokens(w)) return true;
  reclaim_turn(w);
  return w->halt->turn == w->halt->me;
}

static void give_turn(dfi_watch *w, int32_t to) {
  dfi_halt *h = w->halt;
  h->turn = to;
  if (to != h->me) say(h, to, TURN, h->round, &w->left, sizeof w->left);
}

/* Rank 0: the next one in turn that has not ended. */
static int32_t next_turn(const dfi_halt *h) {
  const uint64_t there = dfi_team_others(h->exec) | (uint64_t)1 << h->me;
  int32_t next = h->turn;
  do next = (next + 1) % h->n;
  while (!(there >> next & 1));
  return next;
}

void dfi_watch_pass_turn(dfi_watch *w) {
  enum { NAP_US = 500 };
  dfi_halt *h = w->halt;
  pthread_mutex_lock(&w->lock);
  if (h && !w->halts && counts_tokens(w) && dfi_halt_may_run(w) && dfi_now() >= h->turn_next) {
    if (drives(h)) {
      h->turn_next = h->turn_left == w->left ? dfi_now() + 1e-6 * NAP_US : 0;
      h->turn_left = w->left;
      give_turn(w, next_turn(h));
    } else give_turn(w, 0);
  }
  pthread_mutex_unlock(&w->lock);
}

/* Rank 0 has the turn back; it goes on to the rank after the one that had it. */
static void turn_comes(dfi_watch *w, int32_t from, const void *left, int64_t n) {
  dfi_halt *h = w->halt;
  if (n != sizeof w->left || w->halts || !counts_tokens(w) || (drives(h) && from != h->turn)) return;
  memcpy(&w->left, left, sizeof w->left);
  if (drives(h)) give_turn(w, next_turn(h));
  else h->turn = h->me;
}

/* ---- what they have counted ------------------------------------------------------------------------------------- */

static void add_stats(df_stats *sum, const df_stats *s) {
  sum->nodes_run += s->nodes_run; sum->dead_tokens += s->dead_tokens;
  sum->frames += s->frames; sum->iterations += s->iterations;
  sum->stack_pushes += s->stack_pushes; sum->stack_pops += s->stack_pops;
}

static void note_counts(const dfi_halt *h, int32_t rank) {
  const dfi_plan *p = h->exec->plan;
  h->far[rank] = (df_stats){ 0 };
  for (int32_t o = 0; o < p->parts->n; o++) {
    if (p->parts->rank[o] != rank || !h->seen[o]) continue;
    df_stats s = dfi_exec_stats(h->seen[o]);
    s.frames -= h->seen[o]->guest_frames;
    add_stats(&h->far[rank], &s);
  }
}

void dfi_halt_count(const dfi_halt *h, df_stats *sum) {
  if (h->counted) return;
  const uint64_t others = dfi_team_others(h->exec);
  for (int32_t i = 0; others >> i; i++) if (others >> i & 1) add_stats(sum, &h->far[i]);
  dfi_exec ended = { 0 };
  int64_t sent, received;
  dfi_team_ended_counts(h->exec, &ended.count, &sent, &received);
  const df_stats s = dfi_exec_stats(&ended);
  add_stats(sum, &s);
}

/* What this rank's owners have published. */
static void say_counts(const dfi_halt *h) {
  if (!h->exec->live) return;
  const df_stats now = dfi_stats_published(h->exec->live);
  say(h, 0, COUNTED, -1, &now, sizeof now);
  dfi_team_flush(h->exec);
}

static void have_counted(dfi_watch *w, int32_t from, const void *stats, int64_t n) {
  dfi_halt *h = w->halt;
  if (n != sizeof *h->far) return;
  memcpy(&h->far[from], stats, sizeof *h->far);
  h->asked &= ~((uint64_t)1 << from);
  pthread_cond_broadcast(&w->changed);
}

void dfi_halt_ask_counts(dfi_watch *w) {
  dfi_halt *h = w->halt;
  const int64_t interrupts = atomic_load(&dfi_calls_interrupted);
  const double until = dfi_now() + 0.1;
  if (w->state != DF_RUN_RUNNING || w->halts) return;
  h->asked = dfi_team_others(h->exec);
  say_to_all(h, COUNT, NULL, 0);
  while (w->state == DF_RUN_RUNNING && w->exec && h->asked & dfi_team_others(h->exec) &&
         dfi_watch_wait(w, until, interrupts)) {}
}

bool dfi_watch_ranks(dfi_exec *x) {
  if (dfi_watch_wanted(x)) dfi_watch_look(x);
  else if (x->watch->step) dfi_watch_pass_turn(x->watch);
  else return false;
  return true;
}

void dfi_watch_call(dfi_watch *w) { atomic_store(&w->wanted, 1); }

void dfi_watch_counted(dfi_exec *x) {
  pthread_mutex_lock(&x->watch->lock);
  if (x->live) dfi_exec_publish(x);
  if (x->watch->halt) x->watch->halt->counted = true;
  pthread_mutex_unlock(&x->watch->lock);
}

/* ---- what others say -------------------------------------------------------------------------------------------- */

static void stands(dfi_halt *h, int32_t from, const void *row, int64_t n) {
  if (n != (int64_t)sizeof *h->sent * h->n) return;
  memcpy(h->sent + from * h->n, row, (size_t)n);
  h->stand |= (uint64_t)1 << from;
}

static void takes(dfi_halt *h, const void *column, int64_t n) {
  if (n != (int64_t)sizeof *h->sent * h->n) return;
  for (int32_t i = 0; i < h->n; i++) memcpy(&h->sent[i * h->n + h->me], (const int64_t *)column + i, sizeof *h->sent);
  h->takes = true;
}

/* A rank whose picture is none has failed. */
static void shown(dfi_watch *w, int32_t from, const unsigned char *bytes, int64_t n) {
  dfi_halt *h = w->halt;
  const dfi_plan *p = h->exec->plan;
  while (n > 0) {
    size_t took = (size_t)n;
    dfi_exec *x = dfi_picture_read(h->exec, bytes, &took);
    if (x && p->parts->rank[x->place] == from) {
      dfi_picture_free(h->seen[x->place]);
      h->seen[x->place] = x;
      bytes += took;
      n -= (int64_t)took;
      continue;
    }
    dfi_picture_free(x);
    dfi_rank_peer_failed(h->exec->rank, from, NULL, 0, "has sent what is no picture of its part of a run");
    return;
  }
  note_counts(h, from);
  h->shown |= (uint64_t)1 << from;
}

static void wants(dfi_watch *w, const void *bytes, int64_t n) {
  dfi_halt *h = w->halt;
  const dfi_plan *p = h->exec->plan;
  reason why;
  if (n != sizeof why) return;
  memcpy(&why, bytes, sizeof why);
  if (why.owner < 0 || why.owner >= p->parts->n || why.stop.node >= p->graph->n || h->has_reason) return;
  h->reason = why;
  h->has_reason = true;
  if (why.stop.reason == DF_STOP_BREAK)
    for (int32_t i = 0; i < w->nbreaks; i++)
      if (w->breaks[i].id == why.stop.breakpoint && w->breaks[i].once) w->spent = why.stop.breakpoint;
  if (!w->halts) w->want_pause = true;
}

/* A value of this rank's, or why there is none. */
static void fetch(const dfi_halt *h, const void *bytes, int64_t n, int64_t round) {
  dfi_far_place place;
  df_error err;
  df_value read = { 0 };
  int64_t packed = 0;
  void *value = NULL;
  if (n != sizeof place) return;
  memcpy(&place, bytes, sizeof place);
  dfi_exec *x = place.owner >= 0 && place.owner < h->exec->plan->parts->n ? dfi_halt_member(h, place.owner) : NULL;
  const df_value *v = x ? dfi_picture_value(x, &place) : NULL;
  const bool variable = v && v->kind == DF_HANDLE && ((dfi_handle *)v->as.handle)->type == DFI_VARIABLE;
  if (variable && !dfi_variable_read(v->as.handle, &read, &err)) v = &read;
  if (v && v->kind != DF_EMPTY) value = dfi_value_pack(v, &packed, &err);
  say(h, 0, FETCHED, round, value, (size_t)(value ? packed : 0));
  dfi_free(value);
  dfi_value_drop(&read);
}

static void fetched(dfi_watch *w, const void *bytes, int64_t n, int64_t number) {
  dfi_halt *h = w->halt;
  if (number != h->fetches) return;
  dfi_free(h->fetched);
  h->fetched = memcpy(dfi_xmalloc((size_t)n + 1), bytes, (size_t)n);
  h->nfetched = n;
  pthread_cond_broadcast(&w->changed);
}

static void hear_driver(dfi_watch *w, const head *h, const unsigned char *more, int64_t n) {
  dfi_halt *own = w->halt;
  switch (h->what) {
  case HALT:
    own->round = h->round;
    own->ordered = true;
    own->said = own->takes = false;
    if (!w->halts) w->want_pause = true;
    break;
  case TAKE: if (h->round == own->round) takes(own, more, n); break;
  case GO: if (h->round == own->round) goes(w, more, n); break;
  case TURN: if (h->round == own->round) turn_comes(w, 0, more, n); break;
  case FETCH: fetch(own, more, n, h->round); break;
  case COUNT: say_counts(own); break;
  default: break;
  }
}

static void hear(dfi_watch *w, int32_t from, const head *h, const unsigned char *more, int64_t n) {
  dfi_halt *own = w->halt;
  switch (h->what) {
  case WANTS: wants(w, more, n); break;
  case STANDS: if (h->round == own->round) stands(own, from, more, n); break;
  case PICTURE: if (h->round == own->round || h->round < 0) shown(w, from, more, n); break;
  case TURN: if (h->round == own->round) turn_comes(w, from, more, n); break;
  case EVENTS: dfi_log_come(&own->log, from, more, n); break;
  case FETCHED: fetched(w, more, n, h->round); break;
  case COUNTED: have_counted(w, from, more, n); break;
  default: break;
  }
}

void dfi_halt_take(dfi_watch *w) {
  for (dfi_told *s; (s = dfi_team_told(w->halt->exec)) != NULL; dfi_free(s)) {
    head h;
    if (s->n < (int64_t)sizeof h) continue;
    memcpy(&h, s->bytes, sizeof h);
    if (drives(w->halt)) hear(w, s->from, &h, s->bytes + sizeof h, s->n - (int64_t)sizeof h);
    else if (s->from == 0) hear_driver(w, &h, s->bytes + sizeof h, s->n - (int64_t)sizeof h);
  }
}

/* ---- its end, and values ---------------------------------------------------------------------------------------- */

struct dfi_far_log *dfi_halt_log(dfi_halt *h) { return h->log; }
void dfi_halt_names(dfi_halt *h, int32_t rank, uint32_t *names, int64_t n) {
  dfi_free(h->names[rank].of);
  h->names[rank].of = names;
  h->names[rank].n = n;
}

uint32_t dfi_halt_name(const dfi_halt *h, int32_t o, uint32_t theirs) {
  const int32_t rank = h->exec->plan->parts->rank[o];
  return theirs < h->names[rank].n ? h->names[rank].of[theirs] : 0;
}

void dfi_halt_say_log(const dfi_halt *h, const void *bytes, size_t n) {
  say(h, 0, EVENTS, -1, bytes, n);
  dfi_team_flush(h->exec);
}

void dfi_halt_end(dfi_exec *x) {
  const dfi_halt *h = x->watch->halt;
  if (!drives(h)) say_picture(h, -1);
}

int32_t dfi_halt_fetch(dfi_watch *w, const dfi_far_place *place, df_value *out, df_error *err) {
  dfi_halt *h = w->halt;
  const int64_t interrupts = atomic_load(&dfi_calls_interrupted);
  const int32_t rank = h->exec->plan->parts->rank[place->owner];
  const double until = dfi_now() + 10;
  if (w->state != DF_RUN_PAUSED)
    return dfi_fail(err, DF_NOT_FOUND, NULL, "the value was on rank %d, whose part of the run is over", rank);
  dfi_free(h->fetched);
  h->fetched = NULL;
  h->fetches++;
  say(h, rank, FETCH, h->fetches, place, sizeof *place);
  while (!h->fetched && w->state == DF_RUN_PAUSED && dfi_watch_wait(w, until, interrupts)) { }
  if (!h->fetched)
    return dfi_fail(err, DF_UNAVAILABLE, NULL, "the value is on rank %d, which has not sent it", rank);
  if (h->nfetched && dfi_value_unpack(h->fetched, h->nfetched, out)) return DF_OK;
  return dfi_fail(err, DF_NOT_FOUND, NULL, "the value is on rank %d, and none that can be sent", rank);
}
