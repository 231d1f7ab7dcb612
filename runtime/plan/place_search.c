/* place_search.c: places for the nodes of a small plan, with which its run ends early.
 *
 * place.c weighs one node at a time: it never leaves a device that each node alone would lose by leaving, and knows of
 * no two devices that compute at once (4.4 times the time of the best places, on a graph of four products; 9 times, of
 * a loop). Here the whole run is estimated (place_estimate.h), as the virtual clock times it, from several beginnings:
 * the places found so far, and all on one device. From each, a node alone or with a node that it reads is moved for as
 * long as that makes the run shorter. From the best of these, chains of nodes that read each other alone are placed in
 * every way where these are few, and moved one after the other though that makes the run longer meanwhile. Only by the
 * virtual clock, which is this model: what real devices do at once is not known so well.
 */
#include "plan/place_estimate.h"
#include <math.h>

enum { WORK_MOST = 1 << 23 /* instances looked at */, WAYS_TRIED = 256, TRIPS_GUESSED = 32, TRIPS_MOST = 10000 };

/* ---- the plan, as jobs and what they pass on ------------------------------------------------------------------ */

static int32_t value_of(search *s, df_output from, int32_t by, double bytes) {
  for (int32_t v = 0; v < s->nvalues; v++) if (dfi_same(s->value[v].from, from)) return v;
  DFI_GROW(s->value, s->nvalues, s->value_room);
  s->value[s->nvalues] = (value){ from, by, by < 0 ? 0 : s->job[by].values, 0, bytes };
  if (by >= 0) s->job[by].values = s->nvalues + 1;
  return s->nvalues++;
}

/* What makes o: Enter, Exit, NextIteration and LoopCond hand on what comes to them. */
static df_output source(const maker *m, df_output o) {
  for (int32_t patience = 1000; patience; patience--) {
    if (o.index >= 0) o = dfi_plan_origin(m, o);
    const df_flow f = flow_of(o.node);
    const bool hands_on = f == DF_ENTER || f == DF_EXIT || f == DF_NEXT_ITERATION || f == DF_LOOP_COND;
    if ((o.index >= 0 && feed_of(m, o) >= 0) || !(hands_on || dfi_plan_passes_on(o.node))) break;
    o = o.node->in[0];
  }
  return o;
}

static bool is_fed(const maker *m, df_output o) {
  return o.index >= 0 && (flow_of(o.node) == DF_FEED || feed_of(m, o) >= 0);
}

static void add_use(search *s, df_output o, int32_t to, when when) {
  const df_output from = source(s->m, o);
  const bool fed = is_fed(s->m, from), empty = o.index < 0 || from.index < 0 || is_handle(from);
  const int32_t by = fed ? NO_JOB : s->job_of[from.node->id] - 1;
  if ((!fed && by < 0) || by == to) return;
  const int32_t v = value_of(s, from, by, empty ? 0 : dfi_plan_output_bytes(from));
  DFI_GROW(s->use, s->nuses, s->use_room);
  s->use[s->nuses++] = (use){ v, to, when };
  if (to < 0) return;
  if (when == WHEN_SAME) s->job[to].missing_first++;
  if (when != WHEN_FIRST) s->job[to].missing_later++;
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

/* The loop of a scope; -1: there are too many, or it is inside more than one other. */
static int32_t loop_of(search *s, int32_t scope) {
  for (int32_t l = 0; l < s->nloops; l++) if (s->loop[l].scope == scope) return l;
  if (scope < 0) return -1;
  const int32_t parent = loop_of(s, s->m->plan->scope[scope].parent);
  if (parent < 0 || s->nloops == LOOPS_MOST || (parent && s->loop[parent].parent)) return -1;
  s->loop[s->nloops] = (loop){ .scope = scope, .parent = parent, .trips = TRIPS_GUESSED,
                               .window = s->m->plan->scope[scope].parallel_iterations };
  return s->nloops++;
}

static bool is_loop_switch(const df_node *n) {
  return flow_of(n) == DF_SWITCH && flow_of(n->in[1].node) == DF_LOOP_COND;
}

/* What has no job: it is given, or hands on what comes to it. What an iteration gives a loop inside it is a token, even
 * of a constant. */
static bool has_no_job(const search *s, const df_node *n) {
  switch (flow_of(n)) {
  case DF_CONSTANT: return !s->job_of[n->id];
  case DF_FEED: case DF_ENTER: case DF_EXIT: case DF_NEXT_ITERATION: case DF_LOOP_COND: return true;
  default: return dfi_plan_passes_on(n) || s->m->mark[n->id].duplicate >= 0;
  }
}

static void find_tokens(search *s) {
  for (int32_t i = 0; i < s->m->nneeded; i++) {
    const df_node *n = dfi_plan_node(s->m, s->m->needed[i]);
    if (flow_of(n) != DF_ENTER) continue;
    const df_node *from = dfi_plan_origin(s->m, n->in[0]).node;
    if (flow_of(from) == DF_CONSTANT && from->ncontrol > 0) s->job_of[from->id] = 1;
  }
}

static job_kind kind_of(const df_node *n) {
  if (flow_of(n) == DF_MERGE) return dfi_plan_is_loop_merge(n) ? JOB_VARIABLE : JOB_MERGE;
  if (flow_of(n) == DF_SWITCH) return is_loop_switch(n) ? JOB_SWITCH : JOB_BRANCH;
  return JOB_KERNEL;
}

/* False: there are calls, or too much. */
static bool add_job(search *s, df_node *n) {
  const job_kind kind = kind_of(n);
  const bool holds = kind != JOB_KERNEL;
  const int32_t loop = loop_of(s, s->m->mark[n->id].scope);
  const bool known = holds || flow_of(n) == DF_PLAIN || flow_of(n) == DF_CONSTANT;
  if (!known || s->njobs == JOBS_MOST || loop < 0) return false;
  job *j = &s->job[s->njobs++];
  *j = (job){ .node = n, .kind = kind, .loop = loop, .follows = NO_JOB, .free = !holds && may_move(s->m, n) };
  s->branches |= kind == JOB_BRANCH;
  s->job_of[n->id] = s->njobs;
  for (int32_t d = 0; d < s->ndevices && !holds; d++) {
    const dfi_device *at = s->m->devices->at[d];
    j->seconds[d] = flow_of(n) == DF_CONSTANT    ? 0
                    : dfi_plan_has_kernel(at, n) ? dfi_plan_own_seconds(s->m, n, at)
                                                 : INFINITY;
  }
  return true;
}

/* A variable is with what the body makes of it, or where it comes from if the body leaves it as it is; a Switch and a
   cond's Merge are with the first value that they take. */
static void follow(search *s, job *j) {
  if (dfi_plan_goes_with_reader(s->m, j->node)) return;
  df_output o = source(s->m, j->node->in[j->kind == JOB_VARIABLE ? 1 : 0]);
  const bool kept = j->kind == JOB_VARIABLE && flow_of(o.node) == DF_SWITCH &&
                    source(s->m, o.node->in[0]).node == j->node;
  if (kept) o = source(s->m, j->node->in[0]);
  for (int32_t i = 1; j->kind == JOB_MERGE && !s->job_of[o.node->id] && i < j->node->nin; i++)
    o = source(s->m, j->node->in[i]);
  if (!is_fed(s->m, o)) j->follows = s->job_of[o.node->id] - 1;
}

static void follow_reader(search *s, int32_t j) {
  for (int32_t v = s->job[j].values; v && s->job[j].follows == NO_JOB; v = s->value[v - 1].next)
    if (s->value[v - 1].first < s->nuses) s->job[j].follows = s->use[s->value[v - 1].first].job;
}

static void add_uses(search *s, int32_t j) {
  const df_node *n = s->job[j].node;
  const bool variable = s->job[j].kind == JOB_VARIABLE;
  if (s->job[j].kind != JOB_KERNEL) follow(s, &s->job[j]);
  for (int32_t i = 0; i < n->nin; i++) {
    add_use(s, n->in[i], j, !variable ? WHEN_SAME : i ? WHEN_NEXT : WHEN_FIRST);
    const df_output from = source(s->m, n->in[i]);
    if (s->job[j].kind == JOB_MERGE && !s->job_of[from.node->id]) s->job[j].given = true;
  }
  for (int32_t i = 0; i < n->ncontrol; i++) add_use(s, (df_output){ n->control[i], -1 }, j, WHEN_SAME);
  const mark *k = &s->m->mark[n->id];                  /* what another is to be with stays for its sake */
  if (k->why == DFI_WHY_COLOCATED && k->why_node >= 0 && s->job_of[k->why_node])
    s->job[s->job_of[k->why_node] - 1].free = false;
}

/* ---- how often a loop runs ------------------------------------------------------------------------------------- */

/* A step of a counter, or its comparison: input `of` is the counter, and the other one, if any, is a number. */
typedef struct counting { df_scalar_fn call; int32_t of; df_value other; } counting;

/* False: n is no function of the variable and a known number. */
static bool counts(const maker *m, const df_node *n, const df_node *variable, counting *c) {
  uint8_t types[2] = { 0 };
  *c = (counting){ .of = -1 };
  if (flow_of(n) != DF_PLAIN || !op_of(n)->scalar || n->nin < 1 || n->nin > 2) return false;
  for (int32_t i = 0; i < n->nin; i++) {
    const df_output o = source(m, n->in[i]);
    types[i] = dfi_dtype(o);
    if (o.node == variable || (flow_of(o.node) == DF_SWITCH && source(m, o.node->in[0]).node == variable)) c->of = i;
    else if (is_fed(m, o) || flow_of(o.node) != DF_CONSTANT) return false;
    else if (!dfi_value_from_tensor(&c->other, df_tensor_retain(attr_of(o.node, "value")->tensor))) return false;
    else if (c->other.kind != DF_SCALAR) return dfi_value_drop(&c->other), false;
  }
  return c->of >= 0 && (c->call = op_of(n)->scalar(types, n->out[0].dtype));
}

static bool count(const counting *c, const df_value *at, df_value *out, uint8_t dtype) {
  *out = (df_value){ .kind = DF_SCALAR, .dtype = dtype };
  return c->call(out, c->of ? &c->other : at, c->of ? at : &c->other, at);
}

/* Of a loop that goes on by a function of one variable, which begins at a known number and is a function of itself;
   else TRIPS_GUESSED. */
static int32_t trips_of(const search *s, const df_node *swtch) {
  const maker *m = s->m;
  const df_node *more = source(m, swtch->in[1]).node, *variable = NULL;
  for (int32_t i = 0; i < more->nin; i++) {
    const df_node *from = source(m, more->in[i]).node;
    if (dfi_plan_is_loop_merge(from)) variable = from;
  }
  const df_output begins = variable ? source(m, variable->in[0]) : (df_output){ 0 };
  counting compare, step;
  if (!variable || is_fed(m, begins) || flow_of(begins.node) != DF_CONSTANT || !counts(m, more, variable, &compare) ||
      !counts(m, source(m, variable->in[1]).node, variable, &step))
    return TRIPS_GUESSED;
  df_value at, goes_on, next;
  dfi_value_from_tensor(&at, df_tensor_retain(attr_of(begins.node, "value")->tensor));
  if (at.kind != DF_SCALAR) { dfi_value_drop(&at); return TRIPS_GUESSED; }
  int32_t trips = 0;
  while (trips < TRIPS_MOST && count(&compare, &at, &goes_on, DF_BOOL) && goes_on.as.b &&
         count(&step, &at, &next, at.dtype)) {
    at = next;
    trips++;
  }
  return trips ? trips : 1;
}

/* False: there are calls or loops three deep, or too much. */
static bool find_jobs(search *s) {
  maker *m = s->m;
  s->loop[s->nloops++] = (loop){ .trips = 1, .played = 1, .window = 1 };
  find_tokens(s);
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (!has_no_job(s, n) && !add_job(s, n)) return false;
  }
  for (int32_t j = 0; j < s->njobs; j++) {
    add_uses(s, j);
    if (s->job[j].kind == JOB_SWITCH) s->loop[s->job[j].loop].trips = trips_of(s, s->job[j].node);
  }
  for (int32_t l = 1; l < s->nloops; l++)
    s->loop[l].played = s->loop[l].trips < ITERATIONS_MOST ? s->loop[l].trips : ITERATIONS_MOST;
  for (int32_t i = 0; i < m->plan->nfetch; i++) {
    const int32_t *pair = m->plan->signature + 2 * i;
    if (pair[1] >= 0) add_use(s, (df_output){ m->graph->node[pair[0]], pair[1] }, ON_HOST, WHEN_SAME);
  }
  if (s->nuses) qsort(s->use, (size_t)s->nuses, sizeof *s->use, by_value);
  for (int32_t u = s->nuses; u-- > 0;) s->value[s->use[u].value].first = u;
  for (int32_t j = 0; j < s->njobs; j++) if (dfi_plan_goes_with_reader(m, s->job[j].node)) follow_reader(s, j);
  dfi_place_prepare(s);
  return true;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* Moves j, and `with` (or -1), to d if that makes the run shorter. */
static bool try_move(search *s, int32_t *place, double *least, int32_t j, int32_t with, int32_t d) {
  const int32_t was = place[j], with_was = with < 0 ? 0 : place[with];
  if ((was == d && (with < 0 || with_was == d)) || s->work > WORK_MOST) return false;
  place[j] = d;
  if (with >= 0) place[with] = d;
  const double seconds = dfi_place_estimate(s, place, *least);
  if (seconds < *least * 0.999) { *least = seconds; return true; }
  place[j] = was;
  if (with >= 0) place[with] = with_was;
  return false;
}

/* The job that says where j is. */
static int32_t mover_of(const search *s, int32_t j) {
  for (int32_t patience = s->njobs; patience && j >= 0 && s->job[j].kind != JOB_KERNEL; patience--)
    j = s->job[j].follows;
  return j;
}

static bool may_be_moved(const search *s, int32_t j) { return j >= 0 && s->job[j].free; }

static bool sweep(search *s, int32_t *place, double *least) {
  bool moved = false;
  for (int32_t d = 0; d < s->ndevices; d++) {
    for (int32_t j = 0; j < s->njobs; j++) if (s->job[j].free) moved |= try_move(s, place, least, j, -1, d);
    for (int32_t u = 0; u < s->nuses; u++) {
      const int32_t to = mover_of(s, s->use[u].job), from = mover_of(s, s->value[s->use[u].value].job);
      if (to != from && may_be_moved(s, to) && may_be_moved(s, from)) moved |= try_move(s, place, least, to, from, d);
    }
  }
  return moved;
}

/* A kernel that alone reads what another makes, and nothing else that may be moved, is of one chain with it: chain[j]
   is the job that a chain is called by, its first, or, where it goes round a loop, the one with the least number. */
static void find_chains(const search *s, int32_t *chain) {
  int32_t reader[JOBS_MOST], source[JOBS_MOST];            /* NO_JOB: the host */
  enum { MANY = -2, NONE = -3 };
  for (int32_t j = 0; j < s->njobs; j++) reader[j] = source[j] = NONE;
  for (int32_t u = 0; u < s->nuses; u++) {
    const int32_t to = mover_of(s, s->use[u].job), from = mover_of(s, s->value[s->use[u].value].job);
    if (to == from || !may_be_moved(s, from)) continue;
    reader[from] = reader[from] == NONE || reader[from] == to ? to : MANY;
    if (to >= 0) source[to] = source[to] == NONE || source[to] == from ? from : MANY;
  }
  for (int32_t j = 0; j < s->njobs; j++) {
    int32_t first = j, least = j;
    while (s->job[first].free && source[first] >= 0 && reader[source[first]] == first) {
      first = source[first];
      if (first < least) least = first;
      if (first == j) break;
    }
    chain[j] = first == j ? least : first;
  }
}

static void move_chain(const search *s, const int32_t *chain, int32_t *place, int32_t c, int32_t d) {
  for (int32_t j = 0; j < s->njobs; j++) if (chain[j] == c && s->job[j].seconds[d] < INFINITY) place[j] = d;
}

static bool is_chain(const search *s, const int32_t *chain, int32_t j) { return chain[j] == j && s->job[j].free; }

/* Places the chains from job n on in every way. */
static bool try_all(search *s, const int32_t *chain, int32_t *at, int32_t n, int32_t *place, double *least) {
  bool better = false;
  while (n < s->njobs && !is_chain(s, chain, n)) n++;
  for (int32_t d = 0; n < s->njobs && d < s->ndevices; d++) {
    move_chain(s, chain, at, n, d);
    better |= try_all(s, chain, at, n + 1, place, least);
  }
  if (n < s->njobs || s->work > WORK_MOST) return better;
  const double seconds = dfi_place_estimate(s, at, *least);
  if (seconds >= *least * 0.999) return false;
  *least = seconds;
  memcpy(place, at, sizeof *at * (size_t)s->njobs);
  return true;
}

/* Where there are few ways to place all chains, all are tried. */
static bool try_few(search *s, const int32_t *chain, int32_t *place, double *least) {
  int32_t at[JOBS_MOST], ways = 1;
  for (int32_t j = 0; j < s->njobs && ways <= WAYS_TRIED; j++) if (is_chain(s, chain, j)) ways *= s->ndevices;
  if (ways > WAYS_TRIED) return false;
  memcpy(at, place, sizeof *at * (size_t)s->njobs);
  return try_all(s, chain, at, 0, place, least);
}

/* Moves each chain once, the one first with which the run is then shortest, though it be longer than before, until
   `most` instances have been looked at. False: it was never shorter than *least; else place has the shortest. */
static bool wander(search *s, const int32_t *chain, int64_t most, int32_t *place, double *least) {
  int32_t at[JOBS_MOST], next[JOBS_MOST], shortest[JOBS_MOST];
  bool moved[JOBS_MOST] = { false }, better = false;
  const size_t bytes = sizeof *at * (size_t)s->njobs;
  memcpy(at, place, bytes);
  for (;;) {
    double seconds = INFINITY;
    int32_t c = NO_JOB;
    for (int32_t j = 0; j < s->njobs; j++)
      for (int32_t d = 0; d < s->ndevices && is_chain(s, chain, j) && !moved[j]; d++) {
        if (d == at[j] || s->work > most) continue;
        memcpy(next, at, bytes);
        move_chain(s, chain, next, j, d);
        const double takes = dfi_place_estimate(s, next, seconds);
        if (takes >= seconds) continue;
        seconds = takes;
        c = j;
        memcpy(shortest, next, bytes);
      }
    if (c == NO_JOB) return better;
    moved[c] = true;
    memcpy(at, shortest, bytes);
    if (seconds >= *least * 0.999) continue;
    *least = seconds;
    memcpy(place, at, bytes);
    better = true;
  }
}

/* Why it is there: beside what it reads or is read by, or -1, where it computes faster. */
static int32_t neighbour(const search *s, const int32_t *place, int32_t j) {
  for (int32_t u = 0; u < s->nuses; u++) {
    const int32_t to = mover_of(s, s->use[u].job), from = mover_of(s, s->value[s->use[u].value].job);
    if (to == from) continue;
    if (to == j && from >= 0 && place[from] == place[j]) return s->job[from].node->id;
    if (from == j && to >= 0 && place[to] == place[j]) return s->job[to].node->id;
  }
  return -1;
}

static void find_places(search *s) {
  maker *m = s->m;
  int32_t best[JOBS_MOST], place[JOBS_MOST], chain[JOBS_MOST];
  find_chains(s, chain);
  for (int32_t j = 0; j < s->njobs; j++) best[j] = m->mark[s->job[j].node->id].device;
  const double before = dfi_place_estimate(s, best, INFINITY);
  double least = before;
  for (int32_t start = -1; start < s->ndevices; start++) {
    for (int32_t j = 0; j < s->njobs; j++) {
      const bool goes = start >= 0 && s->job[j].free && s->job[j].seconds[start] < INFINITY;
      place[j] = goes ? start : m->mark[s->job[j].node->id].device;
    }
    double seconds = dfi_place_estimate(s, place, INFINITY);
    while (sweep(s, place, &seconds)) { }
    if (seconds < least * 0.999) { least = seconds; memcpy(best, place, sizeof *best * (size_t)s->njobs); }
  }
  const int64_t most = s->work + s->work / 4;              /* small plans need less, and large ones are not held up */
  while (try_few(s, chain, best, &least) || wander(s, chain, most, best, &least)) while (sweep(s, best, &least)) { }
  m->plan->chosen = m->devices->costs.runs + 1;
  if (least > before * 0.99) return;
  for (int32_t j = 0; j < s->njobs; j++) {
    mark *k = &m->mark[s->job[j].node->id];
    if (k->device == best[j] || s->job[j].kind != JOB_KERNEL) continue;
    k->device = (int16_t)best[j];
    k->why = (uint8_t)dfi_plan_why_cheapest(m, s->job[j].node);
    k->why_node = neighbour(s, best, j);
  }
  if (s->nloops > 1 || s->branches) dfi_plan_place_flow_again(m);
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
  s->instance = dfi_xcalloc(INSTANCES_MOST, sizeof *s->instance);
  s->open = dfi_xcalloc(INSTANCES_MOST, sizeof *s->open);
  if (find_jobs(s) && s->njobs) find_places(s);
  dfi_free(s->job); dfi_free(s->value); dfi_free(s->use); dfi_free(s->job_of); dfi_free(s->instance);
  dfi_free(s->open); dfi_free(s);
}
