/* timed.c: the virtual clock, a discrete-event simulation that the token engine drives.
 *
 * A token is ready when the last of its inputs has come. Tokens run in the order of that time, and those of one time in
 * the order in which they became ready; each device computes one after the other, and each takes what the cost model
 * says. A Transfer's token waits in the queue until its message has left (flows.h). The primitives take no time. An
 * iteration begins when the one `parallel_iterations` before it has ended. Nothing here looks at a clock, and kernels
 * are never given to workers, so the times of a run are those of its graph, its shapes and its devices.
 */
#include "engine/clock/timed.h"
#include "engine/clock/record.h"
#include "engine/token.h"
#include <math.h>

/* How many messages come to each owner in an iteration of each scope. */
static int32_t *count_recvs(const dfi_plan *p) {
  const dfi_parts *a = p->parts;
  int32_t *recvs = dfi_xcalloc((size_t)a->n * (size_t)a->nscopes + 1, sizeof *recvs);
  for (int32_t i = 0; i < a->n * a->nscopes; i++) {
    const int32_t o = i % a->n;
    const dfi_scope *s = &a->scope[o][i / a->n];
    for (uint32_t k = 0; k < s->nroots; k++) recvs[i] += dfi_owner_of(p, p->node + s->first + s->roots[k]) != o;
  }
  return recvs;
}

dfi_timed *dfi_timed_new(const dfi_plan *p) {
  dfi_timed *t = dfi_xcalloc(1, sizeof *t);
  if (p->parts) t->recvs = count_recvs(p);
  for (int32_t i = 0; i < p->nnodes; i++) t->waits_outside |= p->node[i].waits != 0;
  t->device = dfi_xcalloc(DFI_DEVICES_MOST, sizeof *t->device);
  t->flows = dfi_flows_new(p->nlinks, DFI_DEVICES_MOST);
  t->given = dfi_xcalloc((size_t)p->ncrossings + 1, sizeof *t->given);
  return t;
}

void dfi_timed_free(dfi_timed *t) {
  if (!t) return;
  dfi_free(t->device); dfi_flows_free(t->flows); dfi_free(t->given); dfi_free(t->queue.due);
  dfi_free(t->queue.where); dfi_free(t->recvs); dfi_free(t);
}

void dfi_timed_begin(dfi_exec *x) {
  dfi_timed *t = x->timed;
  t->now = t->last = 0;
  t->queue.n = 0;
  t->serial = 0;
  t->held = 0;
  t->current = 0;
  memset(t->device, 0, sizeof *t->device * DFI_DEVICES_MOST);
  dfi_flows_clear(t->flows);
  dfi_timed_grown(x);
}

void dfi_timed_join(dfi_exec *x, const dfi_exec *first) {
  const dfi_timed *t = first->timed;
  if (t && !x->clock) x->clock = dfi_timed_new(x->plan);
  x->timed = t ? x->clock : NULL;
  if (!t) return;
  dfi_timed_begin(x);
  x->timed->recorder = t->recorder;
  memcpy(x->timed->given, t->given, sizeof *t->given * (size_t)x->plan->ncrossings);
}

/* ---- tokens by time ----------------------------------------------------------------------------------- */

static bool before(const dfi_due *a, const dfi_due *b) {
  return a->at < b->at || (a->at == b->at && a->serial < b->serial);
}

static void put(dfi_agenda *a, uint32_t i, dfi_due d) {
  a->due[i] = d;
  if (a->where) a->where[d.place & a->mask] = i;
}

static void sink(dfi_agenda *a, uint32_t i, dfi_due d) {
  for (uint32_t child; (child = 2 * i + 1) < a->n; i = child) {
    if (child + 1 < a->n && before(&a->due[child + 1], &a->due[child])) child++;
    if (!before(&a->due[child], &d)) break;
    put(a, i, a->due[child]);
  }
  put(a, i, d);
}

static void rise(dfi_agenda *a, uint32_t i, dfi_due d) {
  for (; i && before(&d, &a->due[(i - 1) / 2]); i = (i - 1) / 2) put(a, i, a->due[(i - 1) / 2]);
  put(a, i, d);
}

void dfi_agenda_put(dfi_agenda *a, dfi_due d) {
  if (a->n == a->room) a->due = dfi_xrealloc(a->due, sizeof *a->due * (a->room = a->room * 2 + 256));
  rise(a, a->n++, d);
}

dfi_due dfi_agenda_take(dfi_agenda *a) {
  df_assert(a->n > 0);
  const dfi_due first = a->due[0], d = a->due[--a->n];
  if (a->n) sink(a, 0, d);
  return first;
}

/* What stands at i in the heap is ready at d.at instead. */
static void agenda_change(dfi_agenda *a, uint32_t i, dfi_due d) {
  if (i && before(&d, &a->due[(i - 1) / 2])) rise(a, i, d);
  else sink(a, i, d);
}

void dfi_timed_arrive(dfi_exec *x, dfi_record *r, uint32_t node, bool begins) {
  if (x->timed->now > r->when[node]) r->when[node] = x->timed->now;
  if (x->timed->recorder) dfi_record_edge(x, r, node, begins);
}

void dfi_timed_queued(dfi_exec *x, uint32_t place, dfi_record *r, uint32_t node) {
  if (DFI_UNLIKELY(r->shares != NULL)) dfi_windows_queued(x, r, r->nodes + node);
  dfi_agenda_put(&x->timed->queue, (dfi_due){ r->when[node], x->timed->serial++, place, DFI_NO_MESSAGE });
}

/* Times of what is in it have changed. */
static void agenda_order(dfi_agenda *a) {
  for (uint32_t i = a->n / 2; i-- > 0;) sink(a, i, a->due[i]);
}

/* When the next thing happens that is not of this moment; INFINITY: nothing does. */
static double next_change(const dfi_timed *t) {
  double next = dfi_flows_next(t->flows);
  for (uint32_t i = 0; i < t->queue.n; i++)
    if (t->queue.due[i].at > t->now && t->queue.due[i].at < next) next = t->queue.due[i].at;
  return next;
}

void dfi_timed_requeue(dfi_exec *x, uint32_t place, dfi_record *r, uint32_t node) {
  dfi_timed *t = x->timed;
  const double next = next_change(t);
  if (!isinf(next) && next > r->when[node]) r->when[node] = next;
  const int32_t message = t->has_left ? DFI_HAS_LEFT : DFI_NO_MESSAGE;
  dfi_agenda_put(&t->queue, (dfi_due){ r->when[node], t->serial++, place, message });
}

void dfi_timed_grown(dfi_exec *x) {
  dfi_agenda *a = &x->timed->queue;
  if (!a->where || a->mask != x->queue_mask) {
    a->mask = x->queue_mask;
    a->where = dfi_xrealloc(a->where, sizeof *a->where * (a->mask + 1));
  }
  for (uint32_t i = 0; i < a->n; i++) a->where[a->due[i].place & a->mask] = i;
}

void dfi_timed_take(dfi_exec *x) { dfi_agenda_take(&x->timed->queue); }

/* ---- messages --------------------------------------------------------------------------------------------- */

static const dfi_device *device_at(const dfi_exec *x, int32_t i) { return x->plan->devices->at[i]; }

/* Seconds over a link that carries nothing else; *latency: those that occupy no port. */
static double link_seconds(const dfi_exec *x, int32_t link, int64_t bytes, double *latency) {
  const dfi_link *l = &x->plan->link[link];
  double busy;
  const double takes = dfi_link_seconds(device_at(x, l->from), device_at(x, l->to), bytes, &busy);
  *latency = takes - busy;
  return takes;
}

static bool begin_message(dfi_exec *x, int32_t link, int64_t bytes, double from, uint64_t id, int32_t *message) {
  const dfi_link *l = &x->plan->link[link];
  return dfi_flows_begin(x->timed->flows, link, l->from, l->to, device_at(x, l->from), device_at(x, l->to),
                         (double)bytes, from, id, message);
}

enum { OF_CROSSING = 1 };                  /* ids: a crossing's number, or a token's place, and which of these */
static uint64_t message_id(uint32_t number, uint32_t kind) { return (uint64_t)number << 1 | kind; }

static void has_come(dfi_timed *t, double at) { if (at > t->last) t->last = at; }

/* The message of a crossing left at that time. */
static void crossing_left(dfi_exec *x, int32_t i, double at) {
  double latency;
  link_seconds(x, x->plan->crossing[i].link, 0, &latency);
  has_come(x->timed, x->timed->given[i] = at + latency);
}

void dfi_timed_cross(dfi_exec *x, int32_t i, int32_t link, int64_t bytes) {
  dfi_timed *t = x->timed;
  int32_t message;
  double latency;
  if (t->recorder) dfi_record_message(x, link, bytes);
  if (x->team) has_come(t, t->given[i] = link_seconds(x, link, bytes, &latency));
  else if (begin_message(x, link, bytes, 0, message_id((uint32_t)i, OF_CROSSING), &message)) crossing_left(x, i, 0);
  else t->given[i] = INFINITY;
}

double dfi_timed_message(dfi_exec *x, int32_t link, int64_t bytes) {
  dfi_timed *t = x->timed;
  double latency;
  const double takes = link_seconds(x, link, bytes, &latency), came = t->now + (t->has_left ? latency : takes);
  if (t->recorder) dfi_record_message(x, link, bytes);
  has_come(t, came);
  return came;
}

/* Tokens that wait for a crossing look once more. */
static void look_again(dfi_timed *t, double now) {
  dfi_agenda *a = &t->queue;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->due[i].message == DFI_AWAITS_CROSSING) { a->due[i].message = DFI_NO_MESSAGE; a->due[i].at = now; }
  agenda_order(a);
}

void dfi_timed_window_moved(dfi_exec *x) {
  dfi_agenda *a = &x->timed->queue;
  if (!x->timed->held) return;
  for (uint32_t i = 0; i < a->n; i++) {
    if (a->due[i].message != DFI_AWAITS_WINDOW) continue;
    const dfi_token t = x->queue[a->due[i].place & x->queue_mask];
    const double when = t.record->when[t.node], opens = dfi_windows_opens(x, t.record, t.record->nodes + t.node);
    if (isinf(opens)) continue;
    a->due[i].message = DFI_NO_MESSAGE;
    a->due[i].at = when > opens ? when : opens;
    x->timed->held--;
  }
  agenda_order(a);
}

/* The next message leaves. */
static void message_leaves(dfi_exec *x) {
  dfi_timed *t = x->timed;
  double at;
  const uint64_t id = dfi_flows_end(t->flows, &at);
  if (id & OF_CROSSING) {
    crossing_left(x, (int32_t)(id >> 1), at);
    look_again(t, at);
    return;
  }
  const uint32_t i = t->queue.where[(uint32_t)(id >> 1) & t->queue.mask];
  dfi_due d = t->queue.due[i];
  d.at = at;
  d.message = DFI_HAS_LEFT;
  agenda_change(&t->queue, i, d);
}

/* Does an input of p still cross to its device? */
static bool awaits_crossing(const dfi_exec *x, const dfi_pnode *p) {
  const dfi_plan *plan = x->plan;
  const uint32_t behind = (uint32_t)(plan->nfeed + plan->nvariables);
  for (uint32_t i = 0; plan->ncrossings && i < p->nin; i++) {
    const dfi_operand o = plan->operand[p->in + i];
    if (DFI_SPACE(o) != DFI_GIVEN || DFI_INDEX(o) < behind) continue;
    if (isinf(x->timed->given[DFI_INDEX(o) - behind])) return true;
  }
  return false;
}

/* Must the first token of the agenda wait for a message, or for a window? It does from now on. */
static bool first_waits(dfi_exec *x) {
  dfi_agenda *a = &x->timed->queue;
  dfi_due d = a->due[0];
  if (d.message == DFI_HAS_LEFT) return false;
  const dfi_token t = x->queue[d.place & x->queue_mask];
  const dfi_pnode *p = t.record->nodes + t.node;
  const double opens = t.record->shares ? dfi_windows_opens(x, t.record, p) : 0;
  if (DFI_UNLIKELY(opens > d.at)) {
    d.message = isinf(opens) ? DFI_AWAITS_WINDOW : DFI_NO_MESSAGE;
    d.at = opens;
    x->timed->held += isinf(opens);
    agenda_change(a, 0, d);
    return true;
  }
  if (isinf(d.at)) {                                   /* all else waits for what is outside the run: it is let go */
    d.at = a->due[0].at = x->timed->last;
    d.message = a->due[0].message = DFI_NO_MESSAGE;
    x->timed->held--;
  }
  if (awaits_crossing(x, p)) d.message = DFI_AWAITS_CROSSING;
  else if (p->kind == DFI_K_TRANSFER && !x->team) {
    const bool sends = !(t.mark & DFI_DEAD) && p->nin;
    const int64_t bytes = sends ? dfi_value_bytes(operand(t.record, x->plan->operand[p->in])) : 0;
    if (begin_message(x, (int32_t)p->child, bytes, d.at, message_id(d.place, 0), &d.message)) {
      d.message = DFI_HAS_LEFT;
      a->due[0] = d;
      return false;
    }
  } else return false;
  d.at = INFINITY;
  agenda_change(a, 0, d);
  return true;
}

void dfi_timed_pick(dfi_exec *x) {
  dfi_timed *t = x->timed;
  dfi_agenda *a = &t->queue;
  while (x->plan->nlinks) {
    const double next = dfi_flows_next(t->flows);
    if (next <= a->due[0].at && !isinf(next)) message_leaves(x);
    else if (!first_waits(x)) break;
  }
  const uint32_t from = a->due[0].place;
  if (from != x->head) {                   /* the token that lies at the head takes its place */
    dfi_token *p = &x->queue[x->head & x->queue_mask], *q = &x->queue[from & x->queue_mask], token = *p;
    *p = *q; *q = token;
    dfi_due other = a->due[a->where[x->head & a->mask]];
    other.place = from;
    if (other.message >= 0) dfi_flows_rename(t->flows, other.message, message_id(from, 0));
    put(a, a->where[x->head & a->mask], other);
    a->due[0].place = x->head;
    put(a, 0, a->due[0]);
  }
  t->now = a->due[0].at;
  t->has_left = a->due[0].message == DFI_HAS_LEFT;
}

/* ---- computing --------------------------------------------------------------------------------------------- */

/* When p can begin: what was given and crosses to it may not have come yet. */
static double ready_at(dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  const dfi_timed *t = x->timed;
  const dfi_plan *plan = x->plan;
  double begins = t->now > r->when[p - r->nodes] ? t->now : r->when[p - r->nodes];
  const uint32_t behind = (uint32_t)(plan->nfeed + plan->nvariables);
  for (uint32_t i = 0; plan->ncrossings && i < p->nin; i++) {
    const dfi_operand o = plan->operand[p->in + i];
    if (DFI_SPACE(o) != DFI_GIVEN || DFI_INDEX(o) < behind) continue;
    if (t->recorder) dfi_record_uses(x, (int32_t)(DFI_INDEX(o) - behind));
    if (t->given[DFI_INDEX(o) - behind] > begins) begins = t->given[DFI_INDEX(o) - behind];
  }
  return begins;
}

void dfi_timed_compute(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, double flops, double bytes) {
  dfi_timed *t = x->timed;
  double begins = ready_at(x, r, p);
  if (t->device[p->device] > begins) begins = t->device[p->device];
  t->now = begins + dfi_device_seconds(x->plan->devices->at[p->device], flops, bytes);
  t->device[p->device] = t->now;
  if (!t->recorder) return;
  dfi_record_work(x, flops, bytes);
  dfi_record_made(x, p->nout ? dfi_dtype_size[p->out_dtype] : 0);
}

void dfi_timed_call(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, const df_kernel *k) {
  double flops, bytes;
  dfi_kernel_work(p->op->work, k, &flops, &bytes);
  if (flops > 0 || bytes > 0) dfi_timed_compute(x, r, p, flops, bytes);
  else x->timed->now = ready_at(x, r, p);  /* the device is not asked: others compute while a read waits for its copy */
  if (!x->timed->recorder) return;
  int64_t made = 0;
  for (int32_t i = 0; i < k->nout; i++) made += dfi_value_bytes(&k->out[i]);
  dfi_record_made(x, made);
}

/* ---- iterations ----------------------------------------------------------------------------------------------- */

enum { GATES_AT_MOST = 1 << 16 };          /* a wider window holds nothing back */

void dfi_timed_record(dfi_exec *x, dfi_record *r) {
  const uint32_t n = r->frame->scope->n;
  if (!r->when) r->when = dfi_xmalloc(sizeof *r->when * (n + 1));
  memset(r->when, 0, sizeof *r->when * n);
  if (x->timed->recorder) {
    if (!r->sources) r->sources = dfi_xmalloc(sizeof *r->sources * (n + 1));
    memset(r->sources, 0, sizeof *r->sources * n);
    r->place = 0;
  }
  r->ends = 0;
  dfi_windows_record(x, r);
}

void dfi_timed_iteration_done(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  if (r->ends > f->ends) f->ends = r->ends;            /* it is not done before the one before it */
  f->ended_by = x->timed->current;
  if (f->windows) { dfi_windows_iteration_done(x, r); return; }
  const int64_t window = f->scope->parallel_iterations;      /* fewer may be open: swap.c */
  if (window > GATES_AT_MOST) return;
  if (f->ngates != window) {
    dfi_free(f->gate);
    f->gate = dfi_xcalloc((size_t)window, sizeof *f->gate);
    f->ngates = window;
  }
  f->gate[r->number % f->ngates] = f->ends;
}

void dfi_timed_frame_done(dfi_exec *x, dfi_frame *f) {
  dfi_windows_frame_done(x, f);
  if (f->ends > f->origin->ends) f->origin->ends = f->ends;
  if (f->ends > x->timed->now) x->timed->now = f->ends;
}

void dfi_timed_gate(dfi_exec *x, const dfi_frame *f, int64_t n) {
  const int64_t window = f->scope->parallel_iterations;
  if (f->windows || n - window < f->begun || n - window >= f->first || f->ngates != window) return;   /* not done */
  const double begins = f->gate[(n - window) % f->ngates];
  if (begins > x->timed->now) x->timed->now = begins;
}
