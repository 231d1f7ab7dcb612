/* place_estimate.c: plays a run of a small plan, as the virtual clock would time it: place_estimate.h. */
#include "plan/place_estimate.h"
#include <math.h>

int32_t dfi_place_of(const search *s, const int32_t *place, int32_t j) {
  for (int32_t patience = s->njobs; patience && s->job[j].kind != JOB_KERNEL; patience--) {
    if (s->job[j].follows == NO_JOB) return 0;
    j = s->job[j].follows;
  }
  return s->job[j].kind == JOB_KERNEL ? place[j] : s->m->devices->fallback;    /* variables that follow each other */
}

/* Is it made neither in the loop of its use nor in one inside that? */
static bool is_outside(const search *s, const use *u) {
  const int32_t from = s->value[u->value].job, of = s->job[u->job].loop;
  return from < 0 || (s->job[from].loop != of && s->loop[s->job[from].loop].parent != of);
}

/* Does it come by an Enter? What is fed and read in each iteration is there already. */
static bool enters(const search *s, const use *u) {
  return u->job >= 0 && s->job[u->job].loop && is_outside(s, u) &&
         (s->value[u->value].job >= 0 || u->when == WHEN_FIRST);
}

/* A job is conditional when it hangs on a Switch of its loop, and an invariant when nothing that it reads is its loop's
   but invariants. */
static void find_flags(search *s) {
  for (int32_t j = 0; j < s->njobs; j++) {
    s->job[j].conditional = false;
    s->job[j].once = s->job[j].loop && s->job[j].kind == JOB_KERNEL && dfi_plan_is_pure(s->job[j].node);
  }
  for (bool more = true; more;) {
    more = false;
    for (int32_t u = 0; u < s->nuses; u++) {
      if (s->use[u].job < 0 || is_outside(s, &s->use[u])) continue;
      job *to = &s->job[s->use[u].job];
      const job *from = &s->job[s->value[s->use[u].value].job];
      const bool carries = to->kind == JOB_VARIABLE || to->kind == JOB_SWITCH;
      if (!carries && !to->conditional && (from->conditional || from->kind == JOB_SWITCH))
        more = to->conditional = true;
      if (to->once && !from->once) { more = true; to->once = false; }
    }
  }
}

/* How often a loop may be run: once in each round of its parent. */
static int32_t rounds(const search *s, int32_t l) {
  const int32_t parent = s->loop[l].parent;
  return parent ? s->loop[parent].played + 1 : 1;
}

void dfi_place_prepare(search *s) {
  find_flags(s);
  for (int32_t u = 0; u < s->nuses; u++)
    if (enters(s, &s->use[u])) s->loop[s->job[s->use[u].job].loop].enters++;
  int32_t n = 0;
  for (int32_t j = 0; j < s->njobs; j++) {
    job *a = &s->job[j];
    a->first = n;
    a->times = s->loop[a->loop].played + (a->loop && !a->conditional);
    for (int32_t k = a->times * rounds(s, a->loop); k > 0; k--) s->instance[n++].job = j;
  }
}

/* ---- one run --------------------------------------------------------------------------------------------------- */

/* Iteration k of a loop in round o of its parent. */
typedef struct turn { int32_t o, k; } turn;

static int32_t instance_at(const job *a, turn t) { return a->first + t.o * a->times + t.k; }

/* An input of an instance has come. A Merge waits for the first one that is alive. */
static void give(search *s, int32_t j, turn t, double at, bool dead) {
  if (t.k >= s->job[j].times) return;
  const int32_t i = instance_at(&s->job[j], t);
  instance *to = &s->instance[i];
  const bool merge = s->job[j].kind == JOB_MERGE, last = --to->missing <= 0;
  if (to->opened) return;
  to->ready = fmax(to->ready, at);
  if (!last && (!merge || dead)) { to->dead |= dead && !merge; return; }
  to->dead = merge ? dead && !s->job[j].given : to->dead || dead;
  to->opened = true;
  to->serial = s->serial++;
  s->open[s->nopen++] = i;
}

/* The same, of every iteration in a round. */
static void give_all(search *s, int32_t j, int32_t o, double at, bool dead) {
  for (int32_t k = 0; k < s->job[j].times; k++) give(s, j, (turn){ o, k }, at, dead);
}

/* A message, one after the other at each port: when it comes. */
static double carry(search *s, int32_t from, int32_t to, double bytes, double at) {
  const dfi_device *a = s->m->devices->at[from], *b = s->m->devices->at[to];
  double busy;
  const double takes = dfi_link_seconds(a, b, (int64_t)bytes, &busy);
  if (s->sends[from] > at) at = s->sends[from];
  if (s->receives[to] > at) at = s->receives[to];
  if (a->bandwidth > 0) s->sends[from] = at + bytes / a->bandwidth;
  if (b->bandwidth > 0) s->receives[to] = at + bytes / b->bandwidth;
  return at + takes;
}

/* Seconds of the iterations of a loop that are not played, at the pace of the last instances of j in round o. */
static double rest_of_loop(const search *s, const job *j, int32_t o) {
  const loop *l = &s->loop[j->loop];
  const int32_t half = l->played / 2;
  const instance *i = s->instance + instance_at(j, (turn){ o, 0 });
  return (l->trips - l->played) * (i[l->played].ready - i[half].ready) / (l->played - half);
}

/* One of a loop's enters has come, in round o of its parent; with the last of them it begins. */
static void enter(search *s, int32_t l, int32_t o, double at, bool dead) {
  s->opens[l][o] = fmax(s->opens[l][o], at);
  s->dead[l][o] |= dead;
  if (--s->awaits[l][o]) return;
  at = s->opens[l][o];
  dead = s->dead[l][o];
  for (int32_t j = 0; j < s->njobs; j++)
    if (s->job[j].loop == l && s->job[j].kind == JOB_VARIABLE) give(s, j, (turn){ o, 0 }, at, dead);
  for (int32_t u = 0; u < s->nuses; u++) {
    const int32_t j = s->use[u].job;
    if (enters(s, &s->use[u]) && s->job[j].loop == l && s->use[u].when != WHEN_FIRST) give_all(s, j, o, at, dead);
  }
}

/* A use of what was made at turn t of loop c has come there, or before all loops. */
static void come(search *s, const use *u, int32_t c, turn t, double at, bool dead) {
  const int32_t of = s->job[u->job].loop;
  if (c == of && !enters(s, u)) { give(s, u->job, (turn){ t.o, t.k + (u->when == WHEN_NEXT) }, at, dead); return; }
  const bool inside = s->loop[of].parent == c && c;    /* else it is there in every round */
  for (int32_t o = inside ? t.k : 0; o < (inside ? t.k + 1 : rounds(s, of)); o++)
    if (enters(s, u)) enter(s, of, o, at, dead);
    else give_all(s, u->job, o, at, dead);
}

/* The value is there, on a device; it crosses once to each other one that has a use for it. */
static void deliver(search *s, const int32_t *place, int32_t v, int32_t from, turn t, double at, bool dead) {
  double came[DEVICES_MOST];
  const job *by = s->value[v].job < 0 ? NULL : &s->job[s->value[v].job];
  for (int32_t d = 0; d < s->ndevices; d++) came[d] = d == from ? at : -1;
  for (int32_t u = s->value[v].first; u < s->nuses && s->use[u].value == v; u++) {
    const use *use = &s->use[u];
    const int32_t to = use->job, of = to == ON_HOST ? 0 : s->job[to].loop, made = by ? by->loop : 0;
    const bool leaves = made != of && s->loop[of].parent != made && made;
    if (leaves ? t.k < by->times - 1 : made == of && to >= 0 && t.k + (use->when == WHEN_NEXT) >= s->job[to].times)
      continue;
    const int32_t d = to == ON_HOST ? 0 : dfi_place_of(s, place, to);
    if (came[d] < 0) came[d] = carry(s, from, d, dead ? 0 : s->value[v].bytes, at);
    double comes = came[d];
    if (leaves && by->times > s->loop[made].played) comes += rest_of_loop(s, by, t.o);
    s->last = fmax(s->last, comes);
    if (to == ON_HOST) continue;
    if (leaves) come(s, use, s->loop[made].parent, (turn){ 0, t.o }, comes, dead);
    else come(s, use, made, t, comes, dead);
  }
}

/* An iteration has ended: the one that the window held back may begin. */
static void end_iteration(search *s, int32_t l, turn t) {
  double *ended = s->ended[l][t.o];
  if (t.k) ended[t.k] = fmax(ended[t.k], ended[t.k - 1]);
  if (t.k + s->loop[l].window > s->loop[l].played) return;
  for (int32_t j = 0; j < s->njobs; j++)
    if (s->job[j].kind == JOB_VARIABLE && s->job[j].loop == l)
      give(s, j, (turn){ t.o, t.k + (int32_t)s->loop[l].window }, ended[t.k], false);
}

/* One of an iteration's instances, or of a loop that it runs, has ended. */
static void instance_ended(search *s, int32_t l, turn t, double at) {
  if (t.k == s->loop[l].played) return;
  s->ended[l][t.o][t.k] = fmax(s->ended[l][t.o][t.k], at);
  if (--s->left[l][t.o][t.k] == 0) end_iteration(s, l, t);
}

static void run(search *s, const int32_t *place, int32_t i) {
  const int32_t j = s->instance[i].job;
  const job *a = &s->job[j];
  const turn t = { (i - a->first) / a->times, (i - a->first) % a->times };
  const int32_t d = dfi_place_of(s, place, j);
  double ends = s->instance[i].ready;
  const bool dead = s->instance[i].dead;
  const double takes = a->kind != JOB_KERNEL || dead || (a->once && t.k) ? 0 : a->seconds[d];
  if (takes > 0) ends = s->computes[d] = fmax(ends, s->computes[d]) + takes;
  s->instance[i].ready = ends;
  s->last = fmax(s->last, ends);
  for (int32_t v = a->values; v; v = s->value[v - 1].next) {
    const bool other_side = a->kind == JOB_BRANCH && s->value[v - 1].from.index != s->side;
    deliver(s, place, v - 1, d, t, ends, dead || other_side);
  }
  const int32_t parent = s->loop[a->loop].parent;
  if (a->loop) instance_ended(s, a->loop, t, ends);
  if (parent) instance_ended(s, parent, (turn){ 0, t.o }, ends);
}

static void begin(search *s) {
  s->last = 0;
  s->nopen = 0;
  s->serial = 0;
  const size_t loops = (size_t)s->nloops;
  memset(s->ended, 0, sizeof *s->ended * loops);
  memset(s->left, 0, sizeof *s->left * loops);
  memset(s->opens, 0, sizeof *s->opens * loops);
  memset(s->dead, 0, sizeof *s->dead * loops);
  for (int32_t l = 0; l < s->nloops; l++) for (int32_t o = 0; o < ROUNDS_MOST; o++) s->awaits[l][o] = s->loop[l].enters;
  for (int32_t d = 0; d < s->ndevices; d++) s->computes[d] = s->sends[d] = s->receives[d] = 0;
  for (int32_t j = 0; j < s->njobs; j++) {
    const job *a = &s->job[j];
    const loop *l = &s->loop[a->loop];
    for (int32_t n = 0; n < a->times * rounds(s, a->loop); n++) {
      const turn t = { n / a->times, n % a->times };
      const bool held = a->kind == JOB_VARIABLE && (t.k ? t.k >= l->window : l->enters > 0);
      instance *i = &s->instance[a->first + n];
      *i = (instance){ 0, (t.k ? a->missing_later : a->missing_first) + held, j, s->serial, false, false };
      s->left[a->loop][t.o][t.k]++;
      if (l->parent) s->left[l->parent][0][t.o]++;
      i->opened = !i->missing;
      if (i->opened) { s->serial++; s->open[s->nopen++] = a->first + n; }
    }
  }
}

static int32_t next_open(search *s) {
  int32_t best = 0;
  for (int32_t o = 1; o < s->nopen; o++) {
    const instance *a = &s->instance[s->open[o]], *b = &s->instance[s->open[best]];
    if (a->ready < b->ready || (a->ready == b->ready && a->serial < b->serial)) best = o;
  }
  const int32_t i = s->open[best];
  s->open[best] = s->open[--s->nopen];
  return i;
}

static double play(search *s, const int32_t *place, int32_t side, double limit) {
  begin(s);
  s->side = side;
  for (int32_t v = 0; v < s->nvalues; v++) if (s->value[v].job < 0) deliver(s, place, v, 0, (turn){ 0, 0 }, 0, false);
  while (s->nopen && s->last < limit) {
    s->work += s->nopen + 1;
    run(s, place, next_open(s));
  }
  return s->last;
}

double dfi_place_estimate(search *s, const int32_t *place, double limit) {
  if (!s->branches) return play(s, place, 0, limit);
  const double seconds = play(s, place, 0, 2 * limit);
  return (seconds + play(s, place, 1, 2 * limit - seconds)) / 2;
}
