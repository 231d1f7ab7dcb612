/* record.c: writes down what a run does. See recording.h for what is written.
 */
#include "engine/clock/recording.h"
#include "engine/clock/timed.h"

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
  dfi_free(w->owner);
  dfi_free(w->device_in);
  dfi_free(w->link);
  dfi_free(w->crossing);
  dfi_free(w->signature);
  dfi_free(w->fed);
  pthread_mutex_destroy(&w->lock);
  dfi_free(w);
}

static dfi_recorder *of(const dfi_exec *x) { return x->timed->recorder; }

static dfi_recorder *locked(const dfi_exec *x) {
  pthread_mutex_lock(&of(x)->lock);
  return of(x);
}

static void unlock(dfi_recorder *w) { pthread_mutex_unlock(&w->lock); }

void dfi_record_begin(dfi_exec *x) {
  dfi_recorder *w = of(x);
  const dfi_plan *p = x->plan;
  w->ndevices = p->devices->n;
  w->device = dfi_xcalloc((size_t)w->ndevices, sizeof *w->device);
  for (int32_t i = 0; i < w->ndevices; i++) w->device[i] = *p->devices->at[i];
  w->nowners = p->parts ? p->parts->n : 1;
  w->owner = dfi_xcalloc((size_t)w->ndevices + 1, sizeof *w->owner);
  if (p->parts) {
    memcpy(w->owner, p->parts->owner, sizeof *w->owner * (size_t)w->ndevices);
    const int32_t cells = p->nscopes * w->nowners;
    w->device_in = dfi_xcalloc((size_t)cells, sizeof *w->device_in);
    for (int32_t i = 0; i < cells; i++) w->device_in[i] = dfi_windows_device(p, i % w->nowners, i / w->nowners);
    w->nscopes = p->nscopes;
  }
  w->nlinks = w->planned = p->nlinks;
  w->link = dfi_xcalloc((size_t)p->nlinks + 1, sizeof *w->link);
  if (p->nlinks) memcpy(w->link, p->link, sizeof *w->link * (size_t)p->nlinks);
  w->crossing = dfi_xcalloc((size_t)p->ncrossings + 1, sizeof *w->crossing);
  w->nfetch = p->nfetch;
  w->nfeed = p->nfeed;
  const size_t numbers = 2 * (size_t)(p->nfetch + p->nfeed);
  w->signature = dfi_xcalloc(numbers + 1, sizeof *w->signature);
  if (numbers) memcpy(w->signature, p->signature, sizeof *w->signature * numbers);
  w->fed = dfi_xcalloc((size_t)p->nfeed + 1, sizeof *w->fed);
  for (int32_t i = 0; i < p->nfeed; i++) w->fed[i] = (double)dfi_value_bytes(&x->given[i]);
  dfi_recording_event(w, (rec_event){ .node = -1, .link = -1, .flops = -1, .made = -1, .op = "" });
  dfi_recording_edge(w, 0, 0);
}

static uint32_t frame_of(const dfi_exec *x, const dfi_frame *f);

/* The number of r among the iterations that were written down. */
static uint32_t iteration_of(const dfi_exec *x, const dfi_record *r) {
  dfi_recorder *w = of(x);
  const uint32_t f = frame_of(x, r->frame);
  if (w->niterations && w->frame[f].n > r->number) {   /* one of the last ones of its frame */
    for (uint32_t i = w->niterations; i-- > 0;)
      if (w->iteration[i].frame == f && w->iteration[i].number == r->number) return i;
  }
  DFI_GROW(w->iteration, w->niterations, w->iteration_room);
  w->iteration[w->niterations] = (rec_iteration){ f, r->number };
  w->frame[f].n = r->number + 1;
  return w->niterations++;
}

/* Each owner has a part of a frame, and numbers of its own for them; where it stands is the same for all. */
static uint32_t frame_of(const dfi_exec *x, const dfi_frame *f) {
  dfi_recorder *w = of(x);
  const dfi_record *origin = f->origin;
  const uint32_t parent = !origin ? UINT32_MAX : origin->place ? origin->place - 1 : iteration_of(x, origin);
  const uint32_t second = f->second ? f->serial : 0;
  const int32_t scope = f->scope->id, call = f->call ? f->call->node->id : -1;
  for (uint32_t i = w->nframes; i-- > 0;) {
    const rec_frame *g = &w->frame[i];
    if (g->parent == parent && g->scope == scope && g->call == call && g->second == second) return i;
  }
  DFI_GROW(w->frame, w->nframes, w->frame_room);
  w->frame[w->nframes] = (rec_frame){ parent, 0, f->scope->parallel_iterations, scope, call, second,
                                      !x->team && !f->windows };
  return w->nframes++;
}

void dfi_record_token(dfi_exec *x, dfi_record *r, uint32_t node, bool dead) {
  dfi_recorder *w = locked(x);
  const dfi_pnode *p = r->nodes + node;
  const int32_t owner = w->nowners == 1 ? 0 : x->team ? x->place : dfi_windows_owner(x, r, p);
  if (!r->place) r->place = 1 + iteration_of(x, r);
  if (r->shares && r->shares[owner].opener)
    r->sources[node] = dfi_recording_edge(w, r->shares[owner].opener, r->sources[node]);
  x->timed->current =
      dfi_recording_event(w, (rec_event){ .node = p->node->id, .device = p->device, .link = -1, .flops = -1, .made = -1,
                                          .iteration = r->place - 1, .sources = r->sources[node], .dead = dead,
                                          .message = p->kind == DFI_K_TRANSFER, .owner = (uint16_t)owner,
                                          .ends = dfi_windows_ends(x, r, node),
                                          .op = p->op->type });
  unlock(w);
}

void dfi_record_crossing(dfi_exec *x, int32_t i, df_node *node, int32_t device) {
  dfi_recorder *w = of(x);
  const uint32_t top = iteration_of(x, x->root->ring[0]);
  x->root->ring[0]->place = 1 + top;
  x->timed->current = w->crossing[i] = dfi_recording_event(w, dfi_recording_message(node->id, device, top));
}

void dfi_record_uses(dfi_exec *x, int32_t i) { dfi_record_waits(x, of(x)->crossing[i]); }

void dfi_record_edge(dfi_exec *x, dfi_record *r, uint32_t node, bool begins) {
  dfi_recorder *w = locked(x);
  r->sources[node] = dfi_recording_edge(w, x->timed->current, r->sources[node]);
  w->edge[r->sources[node]].begins = begins;
  unlock(w);
}

void dfi_record_work(dfi_exec *x, double flops, double bytes) {
  dfi_recorder *w = locked(x);
  rec_event *e = &w->event[x->timed->current];
  e->flops = flops;
  e->bytes = bytes;
  unlock(w);
}

void dfi_record_made(dfi_exec *x, int64_t bytes) {
  dfi_recorder *w = locked(x);
  w->event[x->timed->current].made = (double)bytes;
  unlock(w);
}

void dfi_record_message(dfi_exec *x, int32_t link, int64_t bytes) {
  dfi_recorder *w = locked(x);
  rec_event *e = &w->event[x->timed->current];
  if (!e->ends) e->link = link;
  e->bytes = (double)bytes;
  unlock(w);
}

uint32_t dfi_record_dead(dfi_exec *x, dfi_record *r, const dfi_pnode *p, int32_t owner, uint32_t event) {
  dfi_recorder *w = locked(x);
  if (!r->place) r->place = 1 + iteration_of(x, r);
  rec_event dead = dfi_recording_message(p->node->id, p->device, r->place - 1);
  if ((dead.message = p->kind == DFI_K_TRANSFER)) dead.link = (int32_t)p->child;
  dead.owner = (uint16_t)owner;
  dead.dead = true;
  dead.sources = dfi_recording_edge(w, event, 0);
  const uint32_t made = dfi_recording_event(w, dead);
  unlock(w);
  return made;
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
  const rec_event now = w->event[x->timed->current];
  const uint32_t made =
      dfi_recording_event(w, (rec_event){ .node = now.node, .device = device, .link = line, .iteration = now.iteration,
                                          .sources = now.sources, .owner = now.owner, .flops = -1,
                                          .bytes = (double)bytes, .made = -1, .op = "Copy" });
  unlock(w);
  return made;
}

void dfi_record_waits(dfi_exec *x, uint32_t event) {
  dfi_recorder *w = locked(x);
  uint32_t *sources = &w->event[x->timed->current].sources;
  *sources = dfi_recording_edge(w, event, *sources);
  unlock(w);
}

uint32_t dfi_record_current(const dfi_exec *x) { return x->timed->current; }
void dfi_record_speak(dfi_exec *x, uint32_t event) { x->timed->current = event; }

const int32_t *dfi_recorder_signature(const dfi_recorder *w, int32_t *nfetch, int32_t *nfeed) {
  *nfetch = w->nfetch;
  *nfeed = w->nfeed;
  return w->signature;
}

void dfi_recorder_costs(const dfi_recorder *w, void (*tell)(void *to, int32_t node, double seconds), void *to) {
  const dfi_device unit = { .rates = dfi_model_rates, .speed = 1 };
  for (uint32_t e = 1; e < w->nevents; e++) {
    const rec_event *v = &w->event[e];
    if (v->link < 0 && v->flops >= 0 && v->node >= 0) tell(to, v->node, dfi_device_seconds(&unit, v->flops, v->bytes));
  }
}
