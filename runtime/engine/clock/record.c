/* record.c: what a run did, and how long it would take otherwise. See record.h.
 *
 * An event is a token that ran, dead ones too. It knows the events that sent its inputs, where it ran, what it computed
 * or carried, and its iteration. To time it again is the simulation of timed.c without values: an event is ready when
 * the events before it have ended and its iteration may begin, which is when the one `window` before it has ended;
 * events run in the order in which they are ready.
 */
#include "engine/clock/record.h"
#include "engine/clock/timed.h"
#include <stdio.h>

typedef struct event {
  int32_t  node, device, link;     /* link: of a Transfer, else -1 */
  uint32_t iteration;              /* which of w->iteration */
  uint32_t sources;                /* first of its edges; 0: none */
  double   flops, bytes;           /* flops < 0: takes no time */
  const char *op;
} event;
typedef struct edge { uint32_t from, next; } edge;
typedef struct iteration { uint32_t frame, own; int64_t number; } iteration;       /* own: its events */
typedef struct frame {
  uint32_t parent /* iteration */, first /* iteration */;
  int64_t n, window;
  int32_t  scope, call;                      /* its loop; the node that called it, -1: none */
  uint32_t second;                           /* of a loop that is run a second time: which one; else 0 */
} frame;

struct dfi_recorder {
  pthread_mutex_t lock;                        /* guards all of it while the run goes on: its owners write one record */
  event     *event;     uint32_t nevents, event_room;         /* [0] is the run itself */
  edge      *edge;      uint32_t nedges, edge_room;           /* [0] is none */
  iteration *iteration; uint32_t niterations, iteration_room;
  frame     *frame;     uint32_t nframes, frame_room;         /* of several owners' parts, one */
  dfi_device *device;   int32_t ndevices;
  dfi_link  *link;      int32_t nlinks, planned;              /* the plan's, then those of copies */
  uint32_t  *crossing;                    /* by crossing of the plan: its event */
};

dfi_recorder *dfi_recorder_new(void) {
  dfi_recorder *w = dfi_xcalloc(1, sizeof *w);
  pthread_mutex_init(&w->lock, NULL);
  return w;
}

void dfi_recorder_free(dfi_recorder *w) {
  if (!w) return;
  dfi_free(w->event);
  dfi_free(w->edge);
  dfi_free(w->iteration);
  dfi_free(w->frame);
  dfi_free(w->device);
  dfi_free(w->link);
  dfi_free(w->crossing);
  pthread_mutex_destroy(&w->lock);
  dfi_free(w);
}

static dfi_recorder *of(const dfi_exec *x) { return x->timed->recorder; }

static dfi_recorder *locked(const dfi_exec *x) {
  pthread_mutex_lock(&of(x)->lock);
  return of(x);
}

static void unlock(dfi_recorder *w) { pthread_mutex_unlock(&w->lock); }

/* Writes an event down: which one it is. */
static uint32_t append(dfi_recorder *w, event e) {
  DFI_GROW(w->event, w->nevents, w->event_room);
  w->event[w->nevents] = e;
  return w->nevents++;
}

/* An edge from an event, before those of a list: the list. */
static uint32_t behind(dfi_recorder *w, uint32_t from, uint32_t list) {
  DFI_GROW(w->edge, w->nedges, w->edge_room);
  w->edge[w->nedges] = (edge){ from, list };
  return w->nedges++;
}

void dfi_record_begin(dfi_exec *x) {
  dfi_recorder *w = of(x);
  const dfi_plan *p = x->plan;
  w->ndevices = p->devices->n;
  w->device = dfi_xcalloc((size_t)w->ndevices, sizeof *w->device);
  for (int32_t i = 0; i < w->ndevices; i++) w->device[i] = *p->devices->at[i];
  w->nlinks = w->planned = p->nlinks;
  w->link = dfi_xcalloc((size_t)p->nlinks + 1, sizeof *w->link);
  if (p->nlinks) memcpy(w->link, p->link, sizeof *w->link * (size_t)p->nlinks);
  w->crossing = dfi_xcalloc((size_t)p->ncrossings + 1, sizeof *w->crossing);
  append(w, (event){ .node = -1, .link = -1, .flops = -1, .op = "" });
  behind(w, 0, 0);
}

static uint32_t frame_of(dfi_recorder *w, const dfi_frame *f);

/* The number of r among the iterations that were written down. */
static uint32_t iteration_of(dfi_recorder *w, const dfi_record *r) {
  const uint32_t f = frame_of(w, r->frame);
  if (w->niterations && w->frame[f].n > r->number) {   /* one of the last ones of its frame */
    for (uint32_t i = w->niterations; i-- > 0;)
      if (w->iteration[i].frame == f && w->iteration[i].number == r->number) return i;
  }
  DFI_GROW(w->iteration, w->niterations, w->iteration_room);
  w->iteration[w->niterations] = (iteration){ f, 0, r->number };
  w->frame[f].n = r->number + 1;
  return w->niterations++;
}

/* Each owner has a part of a frame, and numbers of its own for them; where it stands is the same for all. */
static uint32_t frame_of(dfi_recorder *w, const dfi_frame *f) {
  const dfi_record *origin = f->origin;
  const uint32_t parent = !origin ? UINT32_MAX : origin->place ? origin->place - 1 : iteration_of(w, origin);
  const uint32_t second = f->second ? f->serial : 0;
  const int32_t scope = f->scope->id, call = f->call ? f->call->node->id : -1;
  for (uint32_t i = w->nframes; i-- > 0;) {
    const frame *g = &w->frame[i];
    if (g->parent == parent && g->scope == scope && g->call == call && g->second == second) return i;
  }
  DFI_GROW(w->frame, w->nframes, w->frame_room);
  w->frame[w->nframes] = (frame){ parent, 0, 0, f->scope->parallel_iterations, scope, call, second };
  return w->nframes++;
}

void dfi_record_token(dfi_exec *x, dfi_record *r, uint32_t node) {
  dfi_recorder *w = locked(x);
  const dfi_pnode *p = r->nodes + node;
  if (!r->place) r->place = 1 + iteration_of(w, r);
  x->timed->current =
      append(w, (event){ p->node->id, p->device, -1, r->place - 1, r->sources[node], -1, 0, p->op->type });
  w->iteration[r->place - 1].own++;
  unlock(w);
}

void dfi_record_crossing(dfi_exec *x, int32_t i, df_node *node, int32_t device) {
  dfi_recorder *w = of(x);
  const uint32_t top = iteration_of(w, x->root->ring[0]);
  x->root->ring[0]->place = 1 + top;
  x->timed->current = w->crossing[i] = append(w, (event){ node->id, device, -1, top, 0, -1, 0, "Transfer" });
  w->iteration[top].own++;
}

void dfi_record_uses(dfi_exec *x, int32_t i) { dfi_record_waits(x, of(x)->crossing[i]); }

void dfi_record_edge(dfi_exec *x, dfi_record *r, uint32_t node) {
  dfi_recorder *w = locked(x);
  r->sources[node] = behind(w, x->timed->current, r->sources[node]);
  unlock(w);
}

void dfi_record_work(dfi_exec *x, double flops, double bytes) {
  dfi_recorder *w = locked(x);
  event *e = &w->event[x->timed->current];
  e->flops = flops;
  e->bytes = bytes;
  unlock(w);
}

void dfi_record_message(dfi_exec *x, int32_t link, int64_t bytes) {
  dfi_recorder *w = locked(x);
  event *e = &w->event[x->timed->current];
  e->link = link;
  e->bytes = (double)bytes;
  unlock(w);
}

uint32_t dfi_record_copy(dfi_exec *x, int32_t device, bool out, int64_t bytes) {
  dfi_recorder *w = locked(x);
  const dfi_link way = { .from = (uint16_t)(out ? device : 0), .to = (uint16_t)(out ? 0 : device) };
  int32_t line = w->planned;
  while (line < w->nlinks && (w->link[line].from != way.from || w->link[line].to != way.to)) line++;
  if (line == w->nlinks) {
    w->link = dfi_xrealloc(w->link, sizeof *w->link * (size_t)(w->nlinks + 1));
    w->link[w->nlinks++] = way;
  }
  const event now = w->event[x->timed->current];
  const uint32_t made =
      append(w, (event){ now.node, device, line, now.iteration, now.sources, -1, (double)bytes, "Copy" });
  unlock(w);
  return made;
}

void dfi_record_waits(dfi_exec *x, uint32_t event) {
  dfi_recorder *w = locked(x);
  uint32_t *sources = &w->event[x->timed->current].sources;
  *sources = behind(w, event, *sources);
  unlock(w);
}

uint32_t dfi_record_current(const dfi_exec *x) { return x->timed->current; }
void dfi_record_speak(dfi_exec *x, uint32_t event) { x->timed->current = event; }

void dfi_recorder_costs(const dfi_recorder *w, void (*tell)(void *to, int32_t node, double seconds), void *to) {
  const dfi_device unit = { .rates = dfi_model_rates, .speed = 1 };
  for (uint32_t e = 1; e < w->nevents; e++) {
    const event *v = &w->event[e];
    if (v->link < 0 && v->flops >= 0 && v->node >= 0) tell(to, v->node, dfi_device_seconds(&unit, v->flops, v->bytes));
  }
}

/* ---- once more ------------------------------------------------------------------------------------------------ */

enum { REPLAY_TABLES = 24 };
typedef struct replay {
  const dfi_recorder *w;
  const dfi_whatif *how;
  dfi_device *device;
  int32_t  *place, *way;                 /* by device and by link: which one it is folded to; -1: to no link at all */
  double   *ready, *begin, *end, *device_free, *line;
  uint32_t *missing, *because, *device_last, *line_last;
  uint32_t *user_first, *user;           /* by event: those that wait for it */
  /* by iteration: what is not over; the event it ended with; events that wait for it to begin */
  uint32_t *pending, *ends_with, *waits_first, *waits_next;
  double   *done;                        /* by iteration: when it had ended; < 0: not yet */
  uint32_t *before, *gate;               /* by iteration: the one before, the one that it waits for; UINT32_MAX: none */
  uint32_t *after, *lets;                /* by iteration: the one after, the one that waits for it */
  uint32_t *open;                        /* by frame: iterations that are not over */
  dfi_agenda agenda;
  uint64_t  serial;
  void     *table[REPLAY_TABLES];        /* owned: all of those above */
  int32_t   ntables;
} replay;

/* A table of n zeros and one more, which is the replay's. */
static void *table(replay *k, int64_t n, size_t bytes) {
  df_assert(k->ntables < REPLAY_TABLES);
  return k->table[k->ntables++] = dfi_xcalloc((size_t)n + 1, bytes);
}

/* All that event e waits for is there, but perhaps its iteration may not begin yet. */
static void may_run(replay *k, uint32_t e) {
  const uint32_t i = k->w->event[e].iteration, gate = k->gate[i];
  if (gate != UINT32_MAX) {
    if (k->done[gate] < 0) { k->waits_next[e] = k->waits_first[i]; k->waits_first[i] = e; return; }
    if (k->done[gate] > k->ready[e]) { k->ready[e] = k->done[gate]; k->because[e] = k->ends_with[gate]; }
  }
  dfi_agenda_put(&k->agenda, (dfi_due){ k->ready[e], k->serial++, e });
}

/* Something of iteration i is over. */
static void over(replay *k, uint32_t i, uint32_t e) {
  for (;;) {
    if (e != UINT32_MAX && (k->ends_with[i] == 0 || k->end[e] > k->end[k->ends_with[i]])) k->ends_with[i] = e;
    if (k->pending[i] && --k->pending[i]) return;
    if (k->before[i] != UINT32_MAX && k->done[k->before[i]] < 0) return;
    uint32_t at = i;
    for (;;) {                                          /* it is done, and those after it that had nothing left */
      k->done[at] = k->end[k->ends_with[at]];
      const uint32_t before = k->before[at];
      if (before != UINT32_MAX && k->done[before] > k->done[at]) {
        k->done[at] = k->done[before];
        k->ends_with[at] = k->ends_with[before];
      }
      const uint32_t lets = k->lets[at];
      for (uint32_t waiting = lets == UINT32_MAX ? 0 : k->waits_first[lets], next; waiting; waiting = next) {
        next = k->waits_next[waiting];
        may_run(k, waiting);
      }
      if (lets != UINT32_MAX) k->waits_first[lets] = 0;
      k->open[k->w->iteration[at].frame]--;
      const uint32_t after = k->after[at];
      if (after == UINT32_MAX || k->pending[after]) break;
      at = after;
    }
    const frame *f = &k->w->frame[k->w->iteration[i].frame];
    if (k->open[k->w->iteration[i].frame] || f->parent == UINT32_MAX) return;
    e = k->ends_with[at];
    i = f->parent;
  }
}

/* A copy to or from the host: nothing ends with it but what waits for it. */
static bool is_copy(const dfi_recorder *w, uint32_t e) { return w->event[e].link >= w->planned; }

static void run_event(replay *k, uint32_t e) {
  const dfi_recorder *w = k->w;
  const event *v = &w->event[e];
  double begins = k->ready[e], ends = begins;
  if (v->link >= 0 && k->way[v->link] >= 0) {
    const int32_t line = k->way[v->link];
    const dfi_link *l = &w->link[line];
    double busy;
    const double takes = dfi_link_seconds(&k->device[l->from], &k->device[l->to], (int64_t)v->bytes, &busy);
    if (k->line[line] > begins) { begins = k->line[line]; k->because[e] = k->line_last[line]; }
    k->line[line] = begins + busy;
    k->line_last[line] = e;
    ends = begins + takes;
  } else if (v->link < 0 && v->flops >= 0) {
    const int32_t d = k->place[v->device];
    if (k->device_free[d] > begins) { begins = k->device_free[d]; k->because[e] = k->device_last[d]; }
    ends = begins + dfi_device_seconds(&k->device[d], v->flops, v->bytes);
    k->device_free[d] = ends;
    k->device_last[d] = e;
  }
  k->begin[e] = begins;
  k->end[e] = ends;
  for (uint32_t u = k->user_first[e]; u < k->user_first[e + 1]; u++) {
    const uint32_t to = k->user[u];
    if (ends > k->ready[to] || !k->because[to]) { if (ends > k->ready[to]) k->ready[to] = ends; k->because[to] = e; }
    if (--k->missing[to] == 0) may_run(k, to);
  }
  if (!is_copy(w, e)) over(k, v->iteration, e);
}

/* Which device each is folded to, and which line carries what each link did. */
static void fold_devices(replay *k) {
  const dfi_recorder *w = k->w;
  for (int32_t d = 0; d < w->ndevices; d++) {
    k->place[d] = d;
    if (k->how->devices <= 0 || w->device[d].kind != DFI_DEVICE_SIM) continue;
    for (int32_t other = 0; other < w->ndevices; other++)
      if (w->device[other].kind == DFI_DEVICE_SIM && w->device[other].number == w->device[d].number % k->how->devices)
        k->place[d] = other;
  }
  for (int32_t l = 0; l < w->nlinks; l++) {
    const int32_t from = k->place[w->link[l].from], to = k->place[w->link[l].to];
    k->way[l] = from == to ? -1 : l;
    for (int32_t other = l < w->planned ? 0 : w->planned; other < l && k->way[l] == l; other++)
      if (k->place[w->link[other].from] == from && k->place[w->link[other].to] == to) k->way[l] = other;
  }
}

static void link_iterations(replay *k) {
  const dfi_recorder *w = k->w;
  uint32_t *last = dfi_xmalloc(sizeof *last * ((size_t)w->nframes + 1));
  memset(last, 0xff, sizeof *last * ((size_t)w->nframes + 1));
  for (uint32_t i = 0; i < w->niterations; i++) {
    const iteration *t = &w->iteration[i];
    const int64_t window =
        k->how->window > 0 && w->frame[t->frame].parent != UINT32_MAX ? k->how->window : w->frame[t->frame].window;
    k->before[i] = last[t->frame];
    k->after[i] = k->lets[i] = k->gate[i] = UINT32_MAX;
    if (last[t->frame] != UINT32_MAX) k->after[last[t->frame]] = i;
    last[t->frame] = i;
    k->open[t->frame]++;
    k->pending[i] += t->own;
    if (t->number < window) continue;
    uint32_t back = i;
    for (int64_t n = 0; n < window && back != UINT32_MAX; n++) back = k->before[back];
    k->gate[i] = back;
    if (back != UINT32_MAX) k->lets[back] = i;
  }
  for (uint32_t f = 0; f < w->nframes; f++) if (w->frame[f].parent != UINT32_MAX) k->pending[w->frame[f].parent]++;
  dfi_free(last);
}

static void link_events(replay *k) {
  const dfi_recorder *w = k->w;
  for (uint32_t e = 1; e < w->nevents; e++)
    for (uint32_t s = w->event[e].sources; s; s = w->edge[s].next) {
      k->user_first[w->edge[s].from + 1]++;
      k->missing[e]++;
    }
  for (uint32_t e = 0; e < w->nevents; e++) k->user_first[e + 1] += k->user_first[e];
  k->user = table(k, k->user_first[w->nevents], sizeof *k->user);
  uint32_t *at = dfi_xmalloc(sizeof *at * ((size_t)w->nevents + 1));
  memcpy(at, k->user_first, sizeof *at * ((size_t)w->nevents));
  for (uint32_t e = 1; e < w->nevents; e++)
    for (uint32_t s = w->event[e].sources; s; s = w->edge[s].next) k->user[at[w->edge[s].from]++] = e;
  dfi_free(at);
}

static size_t say(const replay *k, char *out, size_t room) {
  const dfi_recorder *w = k->w;
  uint32_t last = 0, *path = dfi_xmalloc(sizeof *path * ((size_t)w->nevents + 1)), steps = 0;
  for (uint32_t e = 1; e < w->nevents; e++) if (!is_copy(w, e) && k->end[e] > k->end[last]) last = e;
  size_t n = (size_t)snprintf(out, room, "seconds %.17g\n", k->end[last]);
  for (uint32_t e = last; e && steps < w->nevents; e = k->because[e]) path[steps++] = e;
  while (steps--) {
    const event *v = &w->event[path[steps]];
    const double took = k->end[path[steps]] - (k->because[path[steps]] ? k->end[k->because[path[steps]]] : 0);
    if (took <= 0) continue;
    n += (size_t)snprintf(n < room ? out + n : NULL, n < room ? room - n : 0, "%s\t%lld\t%s\t%.17g\n", v->op,
                          (long long)w->iteration[v->iteration].number, w->device[v->device].name, took);
  }
  dfi_free(path);
  return n;
}

typedef struct begun { double at; uint32_t event; } begun;
static int by_begin(const void *a, const void *b) {
  const begun *x = a, *y = b;
  return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->event > y->event) - (x->event < y->event);
}

/* What an event that takes time comes from: the last of those that it waited for which takes time itself. */
static uint32_t cause(const replay *k, uint32_t e) {
  for (e = k->because[e]; e && k->end[e] <= k->begin[e]; e = k->because[e]) { }
  return e;
}

static size_t say_timeline(const replay *k, char *out, size_t room) {
  const dfi_recorder *w = k->w;
  begun *list = dfi_xmalloc(sizeof *list * ((size_t)w->nevents + 1));
  size_t n = 0, count = 0;
  for (uint32_t e = 1; e < w->nevents; e++)
    if (k->end[e] > k->begin[e]) list[count++] = (begun){ k->begin[e], e };
  qsort(list, count, sizeof *list, by_begin);
  for (size_t i = 0; i < count; i++) {
    const uint32_t e = list[i].event;
    const event *v = &w->event[e];
    const dfi_link *l = v->link < 0 ? NULL : &w->link[v->link];
    const iteration *t = &w->iteration[v->iteration];
    n += (size_t)snprintf(n < room ? out + n : NULL, n < room ? room - n : 0,
                          "event\t%u\t%s\t%d\t%s\t%s\t%u\t%lld\t%.17g\t%.17g\t%.0f\t%u\n", e,
                          is_copy(w, e) ? "copy" : l ? "message" : "work", v->node,
                          w->device[k->place[l ? l->from : v->device]].name,
                          w->device[k->place[l ? l->to : v->device]].name, t->frame, (long long)t->number, k->begin[e],
                          k->end[e], v->bytes, cause(k, e));
  }
  dfi_free(list);
  return n;
}

static void replay_begin(replay *k, const dfi_recorder *w, const dfi_whatif *how) {
  const int64_t ne = (int64_t)w->nevents + 1, ni = w->niterations;
  *k = (replay){ .w = w, .how = how };
  k->device = table(k, w->ndevices, sizeof *k->device);
  k->place = table(k, w->ndevices, sizeof *k->place);
  k->device_free = table(k, w->ndevices, sizeof *k->device_free);
  k->device_last = table(k, w->ndevices, sizeof *k->device_last);
  k->way = table(k, w->nlinks, sizeof *k->way);
  k->line = table(k, w->nlinks, sizeof *k->line);
  k->line_last = table(k, w->nlinks, sizeof *k->line_last);
  double **const times[] = { &k->ready, &k->begin, &k->end };
  for (int32_t i = 0; i < 3; i++) *times[i] = table(k, ne, sizeof **times[i]);
  uint32_t **const by_event[] = { &k->missing, &k->because, &k->user_first, &k->waits_next };
  for (int32_t i = 0; i < 4; i++) *by_event[i] = table(k, ne, sizeof **by_event[i]);
  uint32_t **const by_iteration[] = { &k->pending, &k->ends_with, &k->waits_first, &k->before, &k->gate, &k->after,
                                      &k->lets };
  for (int32_t i = 0; i < 7; i++) *by_iteration[i] = table(k, ni, sizeof **by_iteration[i]);
  k->done = table(k, ni, sizeof *k->done);
  for (int64_t i = 0; i <= ni; i++) k->done[i] = -1;
  k->open = table(k, w->nframes, sizeof *k->open);
}

static void replay_end(replay *k) {
  while (k->ntables) dfi_free(k->table[--k->ntables]);
  dfi_free(k->agenda.due);
}

/* The devices as they were, with what is asked for. */
static void change_devices(replay *k) {
  const dfi_whatif *how = k->how;
  for (int32_t d = 0; d < k->w->ndevices; d++) {
    dfi_device *v = &k->device[d];
    *v = k->w->device[d];
    if (v->kind != DFI_DEVICE_SIM) continue;
    if (how->bandwidth > 0) v->bandwidth = how->bandwidth;
    if (how->latency >= 0) v->latency = how->latency;
    if (how->speed > 0) { v->speed = how->speed; v->rates = dfi_model_rates; }
  }
}

size_t dfi_record_whatif(const dfi_recorder *w, const dfi_whatif *how, char *out, size_t room) {
  replay k;
  replay_begin(&k, w, how);
  change_devices(&k);
  fold_devices(&k);
  link_iterations(&k);
  link_events(&k);
  for (uint32_t u = k.user_first[0]; u < k.user_first[1]; u++) if (--k.missing[k.user[u]] == 0) may_run(&k, k.user[u]);
  for (uint32_t e = 1; e < w->nevents; e++) if (!w->event[e].sources) may_run(&k, e);
  while (k.agenda.n) run_event(&k, dfi_agenda_take(&k.agenda).place);
  size_t n = say(&k, out, room);
  if (how->timeline) n += say_timeline(&k, n < room ? out + n : NULL, n < room ? room - n : 0);
  replay_end(&k);
  return n;
}
