/* replace.c: a recording as if its nodes had run on other devices.
 *
 * Where a node runs, and which of what is given crosses when the run begins, is what a new plan of the same signature
 * says. Messages of the recording are left out, and what sent them takes their place; where an event and one that it
 * waits for are now on two devices, a message is put between them, once for each destination as cut.c does. It carries
 * what the event made, or, of one that passes on what came, the most that came. What a loop's constants would send when
 * the loop begins is not counted where the recording has no edge for it.
 */
#include "engine/clock/recording.h"

typedef struct anew {
  const dfi_recorder *w;
  const dfi_plan *plan;
  dfi_recorder *v;                       /* what is made */
  int32_t  *device;                      /* by the plan's device: the recording's */
  int32_t  *place, nplaces;              /* by node: the recording's device; -1: the plan has it not */
  const dfi_pnode **pnode;               /* by node; NULL */
  uint32_t *event;                       /* by event of w: v's; 0: it is left out */
  uint32_t *message, *next, capacity;   /* by event of v: the first message that carries what it made, the next one */
  double   *carries;                     /* by event of v: bytes */
  uint32_t *crossed;                     /* by crossing of the plan: v's message; 0: none yet */
  uint32_t *last;                        /* by node: v's last event */
  uint32_t  top;                         /* the iteration of the top level */
} anew;

static uint32_t add(anew *a, rec_event e, double carries) {
  const uint32_t id = dfi_recording_event(a->v, e);
  if (id >= a->capacity) {
    a->capacity = id * 2 + 256;
    a->message = dfi_xrealloc(a->message, sizeof *a->message * a->capacity);
    a->next = dfi_xrealloc(a->next, sizeof *a->next * a->capacity);
    a->carries = dfi_xrealloc(a->carries, sizeof *a->carries * a->capacity);
  }
  a->message[id] = a->next[id] = 0;
  a->carries[id] = carries;
  return id;
}

static int32_t link_between(const anew *a, int32_t from, int32_t to) { return from * a->w->ndevices + to; }

/* The message that carries what event s of v made to a device. */
static uint32_t message_to(anew *a, uint32_t s, int32_t device, double bytes) {
  for (uint32_t m = a->message[s]; m; m = a->next[m]) if (a->v->event[m].device == device) return m;
  const rec_event from = a->v->event[s];
  rec_event sent = dfi_recording_message(from.node, device, from.iteration);
  sent.owner = from.owner;
  sent.link = link_between(a, from.device, device);
  sent.bytes = bytes;
  sent.sources = dfi_recording_edge(a->v, s, 0);
  const uint32_t m = add(a, sent, bytes);
  a->next[m] = a->message[s];
  a->message[s] = m;
  return m;
}

/* Does n wait for `from` without reading it? */
static bool only_control(const df_node *n, int32_t from) {
  for (int32_t i = 0; i < n->nin; i++) if (n->in[i].node->id == from) return false;
  for (int32_t i = 0; i < n->ncontrol; i++) if (n->control[i]->id == from) return true;
  return false;
}

typedef struct sources { uint32_t list; double most; } sources;

/* An event on a device waits for event s of v, which made so many bytes of what it reads. */
static void wait_for(anew *a, uint32_t s, int32_t device, double bytes, sources *got) {
  if (bytes > got->most) got->most = bytes;
  const bool crosses = s && a->v->event[s].device != device;
  got->list = dfi_recording_edge(a->v, crosses ? message_to(a, s, device, bytes) : s, got->list);
}

static bool is_enter(const df_node *n) { return dfi_op_info_at(n->op)->op->flow == DF_ENTER; }

/* A frame begins when all its Enters have run: the recording knows the last one, and reader reads some. */
static void entered(anew *a, const df_node *reader, int32_t device, sources *got) {
  for (int32_t i = 0; i < reader->nin; i++) {
    const df_node *n = reader->in[i].node;
    if (dfi_op_info_at(n->op)->op->flow == DF_MERGE && n->nin && is_enter(n->in[0].node)) n = n->in[0].node;
    const uint32_t made = is_enter(n) && n->id < a->nplaces ? a->last[n->id] : 0;
    if (made) wait_for(a, made, device, a->carries[made], got);
  }
}

/* The sources of event e of w, of which `reader` is the node, as those of an event on a device of v. */
static void sources_of(anew *a, uint32_t e, const df_node *reader, int32_t device, sources *got) {
  for (uint32_t s = a->w->event[e].sources; s; s = a->w->edge[s].next) {
    const uint32_t from = a->w->edge[s].from, now = a->event[from];
    const int32_t node = a->w->event[from].node;
    const bool opens = node >= 0 && node < a->plan->graph->n && is_enter(a->plan->graph->node[node]);
    if (from && !now) sources_of(a, from, reader, device, got);
    else if (a->w->edge[s].begins || opens) {
      got->list = dfi_recording_edge(a->v, now, got->list);
      if (opens && reader) entered(a, reader, device, got);
    } else wait_for(a, now, device, reader && only_control(reader, node) ? 0 : a->carries[now], got);
  }
}

static double crossing_bytes(const anew *a, const dfi_crossing *c) {
  const uint32_t i = DFI_INDEX(c->from);
  if (DFI_SPACE(c->from) == DFI_CONSTANT) return (double)dfi_value_bytes(&a->plan->constant[i]);
  return i < (uint32_t)a->w->nfeed ? a->w->fed[i] : 0;
}

/* What is given and crosses to p, behind a list of sources. */
static uint32_t crossings_of(anew *a, const dfi_pnode *p, uint32_t list) {
  const uint32_t behind = (uint32_t)(a->plan->nfeed + a->plan->nvariables);
  for (uint32_t i = 0; a->plan->ncrossings && i < p->nin; i++) {
    const dfi_operand o = a->plan->operand[p->in + i];
    if (DFI_SPACE(o) != DFI_GIVEN || DFI_INDEX(o) < behind) continue;
    const uint32_t c = DFI_INDEX(o) - behind;
    const dfi_crossing *crossing = &a->plan->crossing[c];
    const dfi_link *l = &a->plan->link[crossing->link];
    if (!a->crossed[c]) {
      rec_event sent = dfi_recording_message(crossing->node->id, a->device[l->to], a->top);
      sent.link = link_between(a, a->device[l->from], a->device[l->to]);
      sent.bytes = crossing_bytes(a, crossing);
      a->crossed[c] = add(a, sent, 0);
    }
    list = dfi_recording_edge(a->v, a->crossed[c], list);
  }
  return list;
}

static void place_event(anew *a, uint32_t e) {
  rec_event now = a->w->event[e];
  const bool known = now.node >= 0 && now.node < a->nplaces;
  if (now.message) return;
  if (dfi_recording_is_copy(a->w, e)) {             /* a node that has moved keeps its values where it is */
    if (known && a->place[now.node] >= 0 && a->place[now.node] != now.device) return;
    now.link += a->v->planned - a->w->planned;
  } else if (known && a->place[now.node] >= 0 && a->place[now.node] != now.device) {
    now.device = a->place[now.node];
    now.owner = a->w->owner[now.device];
  }
  const bool in_graph = now.node >= 0 && now.node < a->plan->graph->n;
  sources got = { 0 };
  sources_of(a, e, in_graph ? a->plan->graph->node[now.node] : NULL, now.device, &got);
  now.sources = got.list;
  if (known && a->pnode[now.node] && now.link < 0) now.sources = crossings_of(a, a->pnode[now.node], now.sources);
  a->event[e] = add(a, now, now.dead ? 0 : now.made >= 0 ? now.made : got.most);
  if (known && now.link < 0) a->last[now.node] = a->event[e];
}

/* Fetched values go to the host. */
static void send_fetched(anew *a) {
  for (int32_t i = 0; i < a->plan->nfetch; i++) {
    const dfi_pnode *p = a->plan->fetch_node[i];
    if (!p || p->kind != DFI_K_TRANSFER || !p->nin) continue;
    const int32_t from = p->node->in[0].node->id;
    const uint32_t made = from < a->nplaces ? a->last[from] : 0;
    if (made && a->v->event[made].device != 0) message_to(a, made, 0, a->carries[made]);
  }
}

/* ---- tables --------------------------------------------------------------------------------------------------- */

static void find_places(anew *a) {
  const dfi_plan *p = a->plan;
  a->device = dfi_xcalloc((size_t)p->devices->n + 1, sizeof *a->device);
  for (int32_t d = 0; d < p->devices->n; d++)
    for (int32_t i = 0; i < a->w->ndevices; i++)
      if (!strcmp(p->devices->at[d]->name, a->w->device[i].name)) a->device[d] = i;
  for (int32_t i = 0; i < p->nplaces; i++) if (p->place[i].node >= a->nplaces) a->nplaces = p->place[i].node + 1;
  for (int32_t i = 0; i < p->nnodes; i++)
    if (p->node[i].node && p->node[i].node->id >= a->nplaces) a->nplaces = p->node[i].node->id + 1;
  a->place = dfi_xmalloc(sizeof *a->place * ((size_t)a->nplaces + 1));
  memset(a->place, 0xff, sizeof *a->place * ((size_t)a->nplaces + 1));
  for (int32_t i = 0; i < p->nplaces; i++) a->place[p->place[i].node] = a->device[p->place[i].device];
  a->pnode = dfi_xcalloc((size_t)a->nplaces + 1, sizeof *a->pnode);
  for (int32_t i = 0; i < p->nnodes; i++) if (p->node[i].node) a->pnode[p->node[i].node->id] = &p->node[i];
}

/* v has w's devices, frames and iterations, and a link for each pair of devices; those of copies are behind them. */
static void begin(anew *a) {
  const dfi_recorder *w = a->w;
  dfi_recorder *v = a->v;
  const size_t n = (size_t)w->ndevices, copies = (size_t)(w->nlinks - w->planned);
  v->ndevices = w->ndevices;
  v->device = dfi_xmalloc(sizeof *v->device * (n + 1));
  memcpy(v->device, w->device, sizeof *v->device * n);
  v->nowners = w->nowners;
  v->nscopes = w->nscopes;
  v->owner = dfi_xmalloc(sizeof *v->owner * (n + 1));
  memcpy(v->owner, w->owner, sizeof *v->owner * n);
  const size_t cells = w->device_in ? (size_t)w->nscopes * (size_t)w->nowners : 0;
  v->device_in = cells ? dfi_xmalloc(sizeof *v->device_in * cells) : NULL;
  if (cells) memcpy(v->device_in, w->device_in, sizeof *v->device_in * cells);
  v->planned = w->ndevices * w->ndevices;
  v->nlinks = v->planned + (int32_t)copies;
  v->link = dfi_xmalloc(sizeof *v->link * ((size_t)v->nlinks + 1));
  for (int32_t l = 0; l < v->planned; l++)
    v->link[l] = (dfi_link){ (uint16_t)(l / w->ndevices), (uint16_t)(l % w->ndevices) };
  if (copies) memcpy(v->link + v->planned, w->link + w->planned, sizeof *v->link * copies);
  v->nframes = v->frame_room = w->nframes;
  v->frame = dfi_xmalloc(sizeof *v->frame * ((size_t)w->nframes + 1));
  memcpy(v->frame, w->frame, sizeof *v->frame * w->nframes);
  v->niterations = v->iteration_room = w->niterations;
  v->iteration = dfi_xmalloc(sizeof *v->iteration * ((size_t)w->niterations + 1));
  memcpy(v->iteration, w->iteration, sizeof *v->iteration * w->niterations);
  for (uint32_t i = 0; i < w->niterations; i++)
    if (w->frame[w->iteration[i].frame].parent == UINT32_MAX) a->top = i;
  dfi_recording_edge(v, 0, 0);
}

dfi_recorder *dfi_recorder_replaced(const dfi_recorder *w, const dfi_plan *fresh) {
  anew a = { .w = w, .plan = fresh, .v = dfi_recorder_new() };
  find_places(&a);
  begin(&a);
  a.event = dfi_xcalloc((size_t)w->nevents + 1, sizeof *a.event);
  a.crossed = dfi_xcalloc((size_t)fresh->ncrossings + 1, sizeof *a.crossed);
  a.last = dfi_xcalloc((size_t)a.nplaces + 1, sizeof *a.last);
  dfi_recording_event(a.v, w->event[0]);
  a.capacity = 1;
  a.message = dfi_xcalloc(1, sizeof *a.message);
  a.next = dfi_xcalloc(1, sizeof *a.next);
  a.carries = dfi_xcalloc(1, sizeof *a.carries);
  for (uint32_t e = 1; e < w->nevents; e++) place_event(&a, e);
  send_fetched(&a);
  dfi_free(a.device); dfi_free(a.place); dfi_free(a.pnode); dfi_free(a.event); dfi_free(a.message); dfi_free(a.next);
  dfi_free(a.carries); dfi_free(a.crossed); dfi_free(a.last);
  return a.v;
}
