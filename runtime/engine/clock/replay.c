/* replay.c: how long a recorded run would take with other devices, links and windows.
 *
 * The simulation of timed.c without values: an event is ready when the events before it have ended and its iteration
 * may begin, which is when its owner's one `window` before it has ended; events run in the order in which they are
 * ready.
 */
#include "engine/clock/recording.h"
#include "engine/clock/timed.h"
#include <math.h>
#include <stdio.h>

enum { REPLAY_TABLES = 32 };
/* A part of an iteration is what one owner has of it. Its number is that of the iteration times nowners, and the
   owner's. */
typedef struct replay {
  const dfi_recorder *w;
  const dfi_whatif *how;
  dfi_device *device;
  int32_t  *place, *way;                 /* by device and by link: which one it is folded to; -1: to no link at all */
  double   *ready, *begin, *end, *device_free;
  uint32_t *missing, *because, *device_last, *link_last;
  dfi_flows *flows;                      /* messages under way: their ids are their events */
  uint32_t *user_first, *user;           /* by event: those that wait for it */
  /* by part: what is not over; the event it ended with; events that wait for it to begin */
  uint32_t *pending, *ends_with, *waits_first, *waits_next;
  double   *ends, *done;                 /* by part: when all of it so far has ended; when it had; < 0: not yet */
  double    last;                        /* of these the latest */
  uint32_t *before, *gate;               /* by part: the one before, the one that it waits for; UINT32_MAX: none */
  uint32_t *after, *lets;                /* by part: the one after, the one that waits for it */
  uint32_t *open;                        /* by frame and owner: parts that are not over */
  uint32_t *met;                         /* by iteration: all owners know of its end */
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

static uint32_t owners(const replay *k) { return (uint32_t)k->w->nowners; }
static uint32_t part_of(const replay *k, uint32_t e) {
  return k->w->event[e].iteration * owners(k) + k->w->event[e].owner;
}
static uint32_t frame_of(const replay *k, uint32_t part) { return k->w->iteration[part / owners(k)].frame; }
static uint32_t frame_part(const replay *k, uint32_t part) { return frame_of(k, part) * owners(k) + part % owners(k); }

/* The part to which e, a message, comes; else e's own. */
static uint32_t receiver_of(const replay *k, uint32_t e) {
  const rec_event *v = &k->w->event[e];
  if (v->link < 0 || v->owner != k->w->owner[k->w->link[v->link].from]) return part_of(k, e);
  return v->iteration * owners(k) + k->w->owner[k->w->link[v->link].to];
}

static int64_t window_of(const replay *k, uint32_t frame) {
  const rec_frame *f = &k->w->frame[frame];
  return k->how->window > 0 && f->parent != UINT32_MAX ? k->how->window : f->window;
}

/* All that event e waits for is there, but perhaps its iteration may not begin yet. */
static void may_run(replay *k, uint32_t e) {
  const uint32_t i = part_of(k, e), gate = k->gate[i];
  if (gate != UINT32_MAX) {
    if (k->done[gate] < 0) { k->waits_next[e] = k->waits_first[i]; k->waits_first[i] = e; return; }
    if (k->done[gate] > k->ready[e]) { k->ready[e] = k->done[gate]; k->because[e] = k->ends_with[gate]; }
  }
  dfi_agenda_put(&k->agenda, (dfi_due){ k->ready[e], k->serial++, e, DFI_NO_MESSAGE });
}

static void over(replay *k, uint32_t i, uint32_t e, double at);

/* Part i is done. */
static void done(replay *k, uint32_t i) {
  const uint32_t before = k->before[i], lets = k->lets[i];
  k->done[i] = k->ends[i];
  if (before != UINT32_MAX && k->done[before] > k->done[i]) {
    k->done[i] = k->done[before];
    k->ends_with[i] = k->ends_with[before];
  }
  if (k->done[i] > k->last) k->last = k->done[i];
  for (uint32_t waiting = lets == UINT32_MAX ? 0 : k->waits_first[lets], next; waiting; waiting = next) {
    next = k->waits_next[waiting];
    may_run(k, waiting);
  }
  if (lets != UINT32_MAX) k->waits_first[lets] = 0;
  const uint32_t parent = k->w->frame[frame_of(k, i)].parent;
  if (--k->open[frame_part(k, i)] || parent == UINT32_MAX) return;
  over(k, parent * owners(k) + i % owners(k), k->ends_with[i], k->done[i]);
}

static bool meets(replay *k, uint32_t i);

/* Do all owners end their parts of an iteration of the frame together? */
static bool ends_together(const replay *k, uint32_t f) {
  const rec_frame *frame = &k->w->frame[f];
  return owners(k) > 1 && frame->parent != UINT32_MAX && (frame->at_once || window_of(k, f) == 1);
}

/* Part i has ended, and what it waits for may have: those that are done are. */
static void close_parts(replay *k, uint32_t i) {
  while (i != UINT32_MAX && !k->pending[i] && k->done[i] < 0) {
    if (k->before[i] != UINT32_MAX && k->done[k->before[i]] < 0) return;
    if (!meets(k, i)) return;
    const uint32_t after = k->after[i];
    if (k->done[i] < 0) done(k, i);
    i = after;
  }
}

static double latency_between(const void *of, int32_t from, int32_t to) {
  const replay *k = ((const replay *const *)of)[0];
  const int32_t *at = ((const int32_t *const *)of)[1];
  double busy;
  return at[from] == at[to] ? 0 : dfi_link_seconds(&k->device[at[from]], &k->device[at[to]], 0, &busy);
}

static double no_latency(const void *of, int32_t from, int32_t to) { (void)of; (void)from; (void)to; return 0; }

/* Has every owner ended its part of an iteration, of which i is one, that all end together? Then they have. In a serial
   loop they tell each other so: windows.h. */
static bool meets(replay *k, uint32_t i) {
  const uint32_t n = owners(k), it = i / n;
  const uint32_t f = frame_of(k, i);
  const rec_frame *frame = &k->w->frame[f];
  if (!ends_together(k, f) || k->met[it]) return true;
  for (uint32_t p = it * n; p < it * n + n; p++)
    if (k->done[p] < 0 && (k->pending[p] || (k->before[p] != UINT32_MAX && k->done[k->before[p]] < 0))) return false;
  double t[DFI_DEVICES_MOST];
  int32_t at[DFI_DEVICES_MOST], m = 0;
  for (uint32_t p = it * n; p < it * n + n; p++) {
    if (k->done[p] >= 0) continue;
    const double before = k->before[p] == UINT32_MAX ? 0 : k->done[k->before[p]];
    at[m] = k->place[k->w->device_in[(uint32_t)frame->scope * n + p % n]];
    t[m++] = k->ends[p] > before ? k->ends[p] : before;
  }
  dfi_windows_meet(m, t, frame->at_once ? no_latency : latency_between, (const void *const[]){ k, at });
  k->met[it] = 1;
  for (uint32_t p = it * n, o = 0; p < it * n + n; p++) if (k->done[p] < 0) k->ends[p] = t[o++];
  for (uint32_t p = it * n; p < it * n + n; p++) if (p != i) close_parts(k, p);
  return true;
}

/* Something of part i is over. */
static void over(replay *k, uint32_t i, uint32_t e, double at) {
  if (!k->ends_with[i] || at > k->ends[i]) { k->ends[i] = at; k->ends_with[i] = e; }
  df_assert(k->pending[i]);
  if (!--k->pending[i]) close_parts(k, i);
}

static double latency_of(const replay *k, const dfi_link *l) {
  double busy;
  return dfi_link_seconds(&k->device[l->from], &k->device[l->to], 0, &busy);
}

/* Event e, which began then, has ended: its sender is done with a message that has left. */
static void end_event(replay *k, uint32_t e, double ends) {
  const dfi_recorder *w = k->w;
  const uint32_t from = part_of(k, e), to = dfi_recording_is_copy(w, e) ? from : receiver_of(k, e);
  const int32_t way = from == to ? -1 : k->way[w->event[e].link];
  const double left = way < 0 ? ends : ends - latency_of(k, &w->link[way]);
  k->end[e] = ends;
  for (uint32_t u = k->user_first[e]; u < k->user_first[e + 1]; u++) {
    const uint32_t user = k->user[u];
    const double at = w->event[user].owner == w->event[e].owner ? left : ends;
    if (at > k->ready[user] || !k->because[user]) {
      if (at > k->ready[user]) k->ready[user] = at;
      k->because[user] = e;
    }
    if (--k->missing[user] == 0) may_run(k, user);
  }
  if (!dfi_recording_counts(w, e)) return;
  over(k, to, e, ends);
  if (from != to) over(k, from, e, left);
}

/* A message is sent: behind the one that its link was given last, if that has not left. */
static void send_message(replay *k, uint32_t e, int32_t link) {
  const dfi_link *l = &k->w->link[link];
  const int32_t from = k->place[l->from], to = k->place[l->to];
  const int32_t ports = link < k->w->planned ? 0 : k->w->ndevices;     /* copies have lines of their own: swap.c */
  const uint32_t last = k->link_last[link];
  int32_t number;
  k->link_last[link] = e;
  k->begin[e] = k->ready[e];
  if (last && k->end[last] < 0) k->because[e] = last;
  k->end[e] = -1;
  if (dfi_flows_begin(k->flows, link, ports + from, ports + to, &k->device[from], &k->device[to], k->w->event[e].bytes,
                      k->ready[e], e, &number))
    end_event(k, e, k->ready[e] + latency_of(k, l));
}

static void message_leaves(replay *k) {
  double at;
  const uint32_t e = (uint32_t)dfi_flows_end(k->flows, &at), before = k->because[e];
  const dfi_link *l = &k->w->link[k->way[k->w->event[e].link]];
  if (k->w->event[before].link >= 0 && k->way[k->w->event[before].link] == k->way[k->w->event[e].link] &&
      k->end[before] - latency_of(k, l) > k->begin[e])
    k->begin[e] = k->end[before] - latency_of(k, l);
  end_event(k, e, at + latency_of(k, l));
}

static void run_event(replay *k, uint32_t e) {
  const rec_event *v = &k->w->event[e];
  double begins = k->ready[e], ends = begins;
  if (v->link >= 0 && k->way[v->link] >= 0) { send_message(k, e, k->way[v->link]); return; }
  if (v->link < 0 && v->flops >= 0) {
    const int32_t d = k->place[v->device];
    if (k->device_free[d] > begins) { begins = k->device_free[d]; k->because[e] = k->device_last[d]; }
    ends = begins + dfi_device_seconds(&k->device[d], v->flops, v->bytes);
    k->device_free[d] = ends;
    k->device_last[d] = e;
  }
  k->begin[e] = begins;
  end_event(k, e, ends);
}

/* Runs what is ready, in the order of time; a message leaves before what is ready at the same moment. */
static void replay_all(replay *k) {
  for (;;) {
    const double left = dfi_flows_next(k->flows);
    if (k->agenda.n && k->agenda.due[0].at < left) run_event(k, dfi_agenda_take(&k->agenda).place);
    else if (!isinf(left)) message_leaves(k);
    else return;
  }
}

/* Which device each is folded to, and which line carries what each link did. */
static void fold_devices(replay *k) {
  const dfi_recorder *w = k->w;
  for (int32_t d = 0; d < w->ndevices; d++) {
    k->place[d] = d;
    if (k->how->devices <= 0 || k->how->replace || w->device[d].kind != DFI_DEVICE_SIM) continue;
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

/* What each part has to wait for: its events, messages to it, and frames that were opened from it. */
static void count_pending(replay *k) {
  const dfi_recorder *w = k->w;
  const uint32_t n = owners(k);
  uint8_t *seen = dfi_xcalloc((size_t)w->nframes * n + 1, 1);
  for (uint32_t e = 1; e < w->nevents; e++) {
    if (!dfi_recording_counts(w, e)) continue;
    const uint32_t from = part_of(k, e), to = receiver_of(k, e);
    k->pending[from]++;
    if (from != to) k->pending[to]++;
    seen[frame_part(k, from)] = seen[frame_part(k, to)] = 1;
  }
  for (uint32_t f = w->nframes; f-- > 0;)              /* a frame is behind the one around it */
    for (uint32_t o = 0; o < n && w->frame[f].parent != UINT32_MAX; o++) {
      if (!seen[f * n + o]) continue;
      k->pending[w->frame[f].parent * n + o]++;
      seen[w->iteration[w->frame[f].parent].frame * n + o] = 1;
    }
  dfi_free(seen);
}

static void link_iterations(replay *k) {
  const dfi_recorder *w = k->w;
  const uint32_t n = owners(k);
  uint32_t *last = dfi_xmalloc(sizeof *last * ((size_t)w->nframes * n + 1));
  memset(last, 0xff, sizeof *last * ((size_t)w->nframes * n + 1));
  for (uint32_t i = 0; i < w->niterations * n; i++) {
    const uint32_t f = frame_part(k, i);
    const int64_t window = window_of(k, frame_of(k, i));
    k->before[i] = k->after[i] = k->lets[i] = k->gate[i] = UINT32_MAX;
    if (!k->pending[i]) { k->done[i] = 0; continue; }          /* the owner has none of it */
    k->before[i] = last[f];
    if (last[f] != UINT32_MAX) k->after[last[f]] = i;
    last[f] = i;
    k->open[f]++;
    if (w->iteration[i / n].number < window) continue;
    uint32_t back = i;
    for (int64_t m = 0; m < window && back != UINT32_MAX; m++) back = k->before[back];
    k->gate[i] = back;
    if (back != UINT32_MAX) k->lets[back] = i;
  }
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
  for (uint32_t e = 1; e < w->nevents; e++) if (!dfi_recording_is_copy(w, e) && k->end[e] > k->end[last]) last = e;
  size_t n = (size_t)snprintf(out, room, "seconds %.17g\n", k->end[last] > k->last ? k->end[last] : k->last);
  for (uint32_t e = last; e && steps < w->nevents; e = k->because[e]) path[steps++] = e;
  while (steps--) {
    const rec_event *v = &w->event[path[steps]];
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
    const rec_event *v = &w->event[e];
    const dfi_link *l = v->link < 0 ? NULL : &w->link[v->link];
    const rec_iteration *t = &w->iteration[v->iteration];
    n += (size_t)snprintf(n < room ? out + n : NULL, n < room ? room - n : 0,
                          "event\t%u\t%s\t%d\t%s\t%s\t%u\t%lld\t%.17g\t%.17g\t%.0f\t%u\t%.0f\n", e,
                          dfi_recording_is_copy(w, e) ? "copy" : l ? "message" : "work", v->node,
                          w->device[k->place[l ? l->from : v->device]].name,
                          w->device[k->place[l ? l->to : v->device]].name, t->frame, (long long)t->number, k->begin[e],
                          k->end[e], v->bytes, cause(k, e), l ? 0 : v->flops);
  }
  dfi_free(list);
  return n;
}

static void replay_begin(replay *k, const dfi_recorder *w, const dfi_whatif *how) {
  const int64_t ne = (int64_t)w->nevents + 1, np = (int64_t)w->niterations * w->nowners;
  *k = (replay){ .w = w, .how = how };
  k->device = table(k, w->ndevices, sizeof *k->device);
  k->place = table(k, w->ndevices, sizeof *k->place);
  k->device_free = table(k, w->ndevices, sizeof *k->device_free);
  k->device_last = table(k, w->ndevices, sizeof *k->device_last);
  k->way = table(k, w->nlinks, sizeof *k->way);
  k->link_last = table(k, w->nlinks, sizeof *k->link_last);
  k->flows = dfi_flows_new(w->nlinks, 2 * w->ndevices);
  double **const times[] = { &k->ready, &k->begin, &k->end };
  for (int32_t i = 0; i < 3; i++) *times[i] = table(k, ne, sizeof **times[i]);
  uint32_t **const by_event[] = { &k->missing, &k->because, &k->user_first, &k->waits_next };
  for (int32_t i = 0; i < 4; i++) *by_event[i] = table(k, ne, sizeof **by_event[i]);
  uint32_t **const by_part[] = { &k->pending, &k->ends_with, &k->waits_first, &k->before, &k->gate, &k->after,
                                 &k->lets };
  for (int32_t i = 0; i < 7; i++) *by_part[i] = table(k, np, sizeof **by_part[i]);
  k->ends = table(k, np, sizeof *k->ends);
  k->done = table(k, np, sizeof *k->done);
  for (int64_t i = 0; i <= np; i++) k->done[i] = -1;
  k->open = table(k, (int64_t)w->nframes * w->nowners, sizeof *k->open);
  k->met = table(k, w->niterations, sizeof *k->met);
}

static void replay_end(replay *k) {
  while (k->ntables) dfi_free(k->table[--k->ntables]);
  dfi_free(k->agenda.due);
  dfi_flows_free(k->flows);
}

static void change(dfi_device *v, const dfi_whatif *how) {
  if (v->kind != DFI_DEVICE_SIM) return;
  if (how->bandwidth > 0) v->bandwidth = how->bandwidth;
  if (how->latency >= 0) v->latency = how->latency;
  if (how->speed > 0) { v->speed = how->speed; v->rates = dfi_model_rates; }
}

dfi_devices *dfi_whatif_devices(const dfi_devices *list, const dfi_whatif *how) {
  dfi_devices *d = dfi_xmalloc(sizeof *d);
  *d = *list;
  pthread_mutex_init(&d->lock, NULL);
  d->listed = true;
  d->owners = 1;
  d->n = 0;
  for (int32_t i = 0; i < list->n; i++) {
    const dfi_device *v = list->at[i];
    if (how->devices > 0 && v->kind == DFI_DEVICE_SIM && v->number >= how->devices) continue;
    dfi_device *copy = d->at[d->n++] = dfi_xmalloc(sizeof *copy);
    *copy = *v;
    change(copy, how);
  }
  return d;
}

void dfi_whatif_devices_free(dfi_devices *d) {
  for (int32_t i = 0; i < d->n; i++) dfi_free(d->at[i]);
  pthread_mutex_destroy(&d->lock);
  dfi_free(d);
}

size_t dfi_record_whatif(const dfi_recorder *w, const dfi_whatif *how, char *out, size_t room) {
  replay k;
  replay_begin(&k, w, how);
  for (int32_t d = 0; d < w->ndevices; d++) { k.device[d] = w->device[d]; change(&k.device[d], how); }
  fold_devices(&k);
  count_pending(&k);
  link_iterations(&k);
  link_events(&k);
  for (uint32_t u = k.user_first[0]; u < k.user_first[1]; u++) if (--k.missing[k.user[u]] == 0) may_run(&k, k.user[u]);
  for (uint32_t e = 1; e < w->nevents; e++) if (!w->event[e].sources) may_run(&k, e);
  replay_all(&k);
  size_t n = say(&k, out, room);
  if (how->timeline) n += say_timeline(&k, n < room ? out + n : NULL, n < room ? room - n : 0);
  replay_end(&k);
  return n;
}
