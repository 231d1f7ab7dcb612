/* place_search.c: places for the nodes of a small plan without control flow with which its run ends early.
 *
 * place.c weighs one node at a time: it never leaves a device that each node alone would lose by leaving, and knows of
 * no two devices that compute at once (4.4 times the time of the best places, on a graph of four products). Here the
 * whole run is estimated, as the virtual clock times it, from several beginnings: the places found so far, and all on
 * one device. From each, a node alone or with a node that it reads is moved for as long as that makes the run shorter.
 * Only by the virtual clock, which is this model: what real devices do at once is not known so well.
 */
#include "plan/place.h"
#include <math.h>

enum { JOBS_MOST = 96, DEVICES_MOST = 16, WORK_MOST = 1 << 24 /* estimates times jobs squared */, ON_HOST = -1 };

typedef struct job {
  df_node *node;
  int32_t  values;             /* 1 + the first of its values; 0: none */
  int32_t  missing;            /* inputs */
  bool     free;               /* may be moved */
  double   seconds[DEVICES_MOST];          /* INFINITY: no kernel there */
} job;
/* What a job makes, or (job -1) what is fed: lies on the host when the run begins. */
typedef struct value {
  df_output from;
  int32_t  job, next;          /* next: of its job, as job.values */
  int32_t  first;              /* among the uses */
  double   bytes;
} value;
typedef struct use { int32_t value, job /* ON_HOST: fetched */; } use;

typedef struct search {
  maker   *m;
  int32_t  njobs, nvalues, nuses, ndevices, use_room, value_room;
  job     *job;
  value   *value;
  use     *use;
  int32_t *job_of;             /* by node id: 1 + its job; 0: none */
  int64_t  work;
  /* of the estimate that is being made */
  double   ready[JOBS_MOST], computes[DEVICES_MOST], sends[DEVICES_MOST], receives[DEVICES_MOST], last;
  int32_t  missing[JOBS_MOST];
} search;

/* ---- the plan, as jobs and what they pass on ------------------------------------------------------------------ */

static int32_t value_of(search *s, df_output from, int32_t by, double bytes) {
  for (int32_t v = 0; v < s->nvalues; v++) if (dfi_same(s->value[v].from, from)) return v;
  DFI_GROW(s->value, s->nvalues, s->value_room);
  s->value[s->nvalues] = (value){ from, by, by < 0 ? 0 : s->job[by].values, 0, bytes };
  if (by >= 0) s->job[by].values = s->nvalues + 1;
  return s->nvalues++;
}

static void add_use(search *s, df_output o, int32_t to) {
  const df_output from = o.index < 0 ? o : dfi_plan_origin(s->m, o);
  const bool fed = from.index >= 0 && (flow_of(from.node) == DF_FEED || feed_of(s->m, from) >= 0);
  const int32_t by = fed ? -1 : s->job_of[from.node->id] - 1;
  if ((!fed && by < 0) || by == to || (from.index >= 0 && is_handle(from))) return;
  const int32_t v = value_of(s, from, by, from.index < 0 ? 0 : dfi_plan_output_bytes(from));
  DFI_GROW(s->use, s->nuses, s->use_room);
  s->use[s->nuses++] = (use){ v, to };
  if (to >= 0) s->job[to].missing++;
}

static bool may_move(const maker *m, const df_node *n) {
  const mark *k = &m->mark[n->id];
  if (k->why != DFI_WHY_DEFAULT && k->why != DFI_WHY_BYTES && k->why != DFI_WHY_MEASURED) return false;
  for (int32_t i = 0; i < n->nin; i++) if (is_handle(n->in[i])) return false;
  for (int32_t i = 0; i < n->nout; i++) if (is_handle((df_output){ (df_node *)(uintptr_t)n, i })) return false;
  return !k->asked && !dfi_has_trait(n, DFO_HOST) && !op_of(n)->hosted;
}

static int by_value(const void *a, const void *b) {
  const use *x = a, *y = b;
  return x->value != y->value ? x->value - y->value : x->job - y->job;
}

/* False: there is control flow, or too much. */
static bool find_jobs(search *s) {
  maker *m = s->m;
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (flow_of(n) == DF_CONSTANT || flow_of(n) == DF_FEED || dfi_plan_passes_on(n)) continue;
    if (flow_of(n) != DF_PLAIN || s->njobs == JOBS_MOST) return false;
    job *j = &s->job[s->njobs++];
    *j = (job){ .node = n, .free = may_move(m, n) };
    s->job_of[n->id] = s->njobs;
    for (int32_t d = 0; d < s->ndevices; d++)
      j->seconds[d] =
          dfi_plan_has_kernel(m->devices->at[d], n) ? dfi_plan_own_seconds(m, n, m->devices->at[d]) : INFINITY;
  }
  for (int32_t j = 0; j < s->njobs; j++) {
    const df_node *n = s->job[j].node;
    for (int32_t i = 0; i < n->nin; i++) add_use(s, n->in[i], j);
    for (int32_t i = 0; i < n->ncontrol; i++) add_use(s, (df_output){ n->control[i], -1 }, j);
    const mark *k = &m->mark[n->id];                   /* what another is to be with stays for its sake */
    if (k->why == DFI_WHY_COLOCATED && k->why_node >= 0 && s->job_of[k->why_node])
      s->job[s->job_of[k->why_node] - 1].free = false;
  }
  for (int32_t i = 0; i < m->plan->nfetch; i++) {
    const int32_t *pair = m->plan->signature + 2 * i;
    if (pair[1] >= 0) add_use(s, (df_output){ m->graph->node[pair[0]], pair[1] }, ON_HOST);
  }
  if (s->nuses) qsort(s->use, (size_t)s->nuses, sizeof *s->use, by_value);
  for (int32_t u = s->nuses; u-- > 0;) s->value[s->use[u].value].first = u;
  return true;
}

/* ---- what a run takes ------------------------------------------------------------------------------------------ */

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

/* The value is there, on a device; it crosses once to each other one that has a use for it. */
static void deliver(search *s, const int32_t *place, int32_t v, int32_t from, double at) {
  double came[DEVICES_MOST];
  for (int32_t d = 0; d < s->ndevices; d++) came[d] = d == from ? at : -1;
  for (int32_t u = s->value[v].first; u < s->nuses && s->use[u].value == v; u++) {
    const int32_t to = s->use[u].job, d = to == ON_HOST ? 0 : place[to];
    if (came[d] < 0) came[d] = carry(s, from, d, s->value[v].bytes, at);
    s->last = fmax(s->last, came[d]);
    if (to == ON_HOST) continue;
    s->ready[to] = fmax(s->ready[to], came[d]);
    s->missing[to]--;
  }
}

static double estimate(search *s, const int32_t *place) {
  s->last = 0;
  s->work += (int64_t)s->njobs * s->njobs;
  for (int32_t d = 0; d < s->ndevices; d++) s->computes[d] = s->sends[d] = s->receives[d] = 0;
  for (int32_t j = 0; j < s->njobs; j++) { s->ready[j] = 0; s->missing[j] = s->job[j].missing; }
  for (int32_t v = 0; v < s->nvalues; v++) if (s->value[v].job < 0) deliver(s, place, v, 0, 0);
  for (int32_t n = 0; n < s->njobs; n++) {
    int32_t j = -1;
    for (int32_t i = 0; i < s->njobs; i++)
      if (s->missing[i] == 0 && (j < 0 || s->ready[i] < s->ready[j])) j = i;
    if (j < 0) break;
    const int32_t d = place[j];
    const double ends = s->computes[d] = fmax(s->ready[j], s->computes[d]) + s->job[j].seconds[d];
    s->last = fmax(s->last, ends);
    s->missing[j] = -1;
    for (int32_t v = s->job[j].values; v; v = s->value[v - 1].next) deliver(s, place, v - 1, d, ends);
  }
  return s->last;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* Moves j, and `with` (or -1), to d if that makes the run shorter. */
static bool try_move(search *s, int32_t *place, double *least, int32_t j, int32_t with, int32_t d) {
  const int32_t was = place[j], with_was = with < 0 ? 0 : place[with];
  if ((was == d && (with < 0 || with_was == d)) || s->work > WORK_MOST) return false;
  place[j] = d;
  if (with >= 0) place[with] = d;
  const double seconds = estimate(s, place);
  if (seconds < *least * 0.999) { *least = seconds; return true; }
  place[j] = was;
  if (with >= 0) place[with] = with_was;
  return false;
}

static bool sweep(search *s, int32_t *place, double *least) {
  bool moved = false;
  for (int32_t d = 0; d < s->ndevices; d++) {
    for (int32_t j = 0; j < s->njobs; j++) if (s->job[j].free) moved |= try_move(s, place, least, j, -1, d);
    for (int32_t u = 0; u < s->nuses; u++) {
      const int32_t to = s->use[u].job, from = s->value[s->use[u].value].job;
      if (to >= 0 && from >= 0 && s->job[to].free && s->job[from].free) moved |= try_move(s, place, least, to, from, d);
    }
  }
  return moved;
}

/* Why it is there: beside what it reads or is read by, or -1, where it computes faster. */
static int32_t neighbour(const search *s, const int32_t *place, int32_t j) {
  for (int32_t u = 0; u < s->nuses; u++) {
    const int32_t to = s->use[u].job, from = s->value[s->use[u].value].job;
    if (to == j && from >= 0 && place[from] == place[j]) return s->job[from].node->id;
    if (from == j && to >= 0 && place[to] == place[j]) return s->job[to].node->id;
  }
  return -1;
}

static void find_places(search *s) {
  maker *m = s->m;
  int32_t best[JOBS_MOST], place[JOBS_MOST];
  for (int32_t j = 0; j < s->njobs; j++) best[j] = m->mark[s->job[j].node->id].device;
  const double before = estimate(s, best);
  double least = before;
  for (int32_t start = -1; start < s->ndevices; start++) {
    for (int32_t j = 0; j < s->njobs; j++) {
      const bool goes = start >= 0 && s->job[j].free && s->job[j].seconds[start] < INFINITY;
      place[j] = goes ? start : m->mark[s->job[j].node->id].device;
    }
    double seconds = estimate(s, place);
    while (sweep(s, place, &seconds)) { }
    if (seconds < least * 0.999) { least = seconds; memcpy(best, place, sizeof *best * (size_t)s->njobs); }
  }
  m->plan->chosen = m->devices->costs.runs + 1;
  if (least > before * 0.99) return;
  for (int32_t j = 0; j < s->njobs; j++) {
    mark *k = &m->mark[s->job[j].node->id];
    if (k->device == best[j]) continue;
    k->device = (int16_t)best[j];
    k->why = (uint8_t)dfi_plan_why_cheapest(m, s->job[j].node);
    k->why_node = neighbour(s, best, j);
  }
}

void dfi_plan_search_places(maker *m) {
  const dfi_devices *d = m->devices;
  if (!d->virtual_clock || !d->listed || d->fallback_asked || d->scatter || d->nranks > 1 || d->n < 2 ||
      d->n > DEVICES_MOST)
    return;
  search *s = dfi_xcalloc(1, sizeof *s);
  s->m = m;
  s->ndevices = d->n;
  s->job = dfi_xcalloc(JOBS_MOST, sizeof *s->job);
  s->job_of = dfi_xcalloc((size_t)dfi_plan_ids(m) + 1, sizeof *s->job_of);
  if (find_jobs(s) && s->njobs) find_places(s);
  dfi_free(s->job); dfi_free(s->value); dfi_free(s->use); dfi_free(s->job_of); dfi_free(s);
}
