/* timed.c: the virtual clock, a discrete-event simulation that the token engine drives.
 *
 * A token is ready when the last of its inputs has come. Tokens run in the order of that time, and those of one time in
 * the order in which they became ready; each device computes one after the other, each direction of a link carries one
 * after the other, and each takes what the cost model says. The primitives take no time. An iteration begins when the
 * one `parallel_iterations` before it has ended. Nothing here looks at a clock, and kernels are never given to workers,
 * so the times of a run are those of its graph, its shapes and its devices.
 */
#include "engine/clock/timed.h"
#include "engine/clock/record.h"

dfi_timed *dfi_timed_new(const dfi_plan *p) {
  dfi_timed *t = dfi_xcalloc(1, sizeof *t);
  t->device = dfi_xcalloc(DFI_DEVICES_MOST, sizeof *t->device);
  t->line = dfi_xcalloc((size_t)p->nlinks + 1, sizeof *t->line);
  t->given = dfi_xcalloc((size_t)p->ncrossings + 1, sizeof *t->given);
  return t;
}

void dfi_timed_free(dfi_timed *t) {
  if (!t) return;
  dfi_free(t->device); dfi_free(t->line); dfi_free(t->given); dfi_free(t->queue.due);
  dfi_free(t->queue.where); dfi_free(t);
}

void dfi_timed_begin(dfi_exec *x) {
  dfi_timed *t = x->timed;
  t->now = t->last = 0;
  t->queue.n = 0;
  t->serial = 0;
  t->current = 0;
  memset(t->device, 0, sizeof *t->device * DFI_DEVICES_MOST);
  memset(t->line, 0, sizeof *t->line * (size_t)(x->plan->nlinks + 1));
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

void dfi_timed_given(dfi_exec *x, int32_t i, double at) {
  x->timed->given[i] = at;
  if (at > x->timed->last) x->timed->last = at;
}

double dfi_timed_message(dfi_exec *x, int32_t link, double from, int64_t bytes) {
  const dfi_link *l = &x->plan->link[link];
  double busy;
  const double takes = dfi_link_seconds(x->plan->devices->at[l->from], x->plan->devices->at[l->to], bytes, &busy);
  const double begins = x->timed->line[link] > from ? x->timed->line[link] : from;
  x->timed->line[link] = begins + busy;
  if (begins + takes > x->timed->last) x->timed->last = begins + takes;
  if (x->timed->recorder) dfi_record_message(x, link, bytes);
  return begins + takes;
}

/* ---- tokens by time ----------------------------------------------------------------------------------- */

static bool before(const dfi_due *a, const dfi_due *b) {
  return a->at < b->at || (a->at == b->at && a->serial < b->serial);
}

static void put(dfi_agenda *a, uint32_t i, dfi_due d) {
  a->due[i] = d;
  if (a->where) a->where[d.place & a->mask] = i;
}

void dfi_agenda_put(dfi_agenda *a, dfi_due d) {
  if (a->n == a->room) a->due = dfi_xrealloc(a->due, sizeof *a->due * (a->room = a->room * 2 + 256));
  uint32_t i = a->n++;
  for (; i && before(&d, &a->due[(i - 1) / 2]); i = (i - 1) / 2) put(a, i, a->due[(i - 1) / 2]);
  put(a, i, d);
}

dfi_due dfi_agenda_take(dfi_agenda *a) {
  df_assert(a->n > 0);
  const dfi_due first = a->due[0], d = a->due[--a->n];
  uint32_t i = 0;
  for (uint32_t child; (child = 2 * i + 1) < a->n; i = child) {
    if (child + 1 < a->n && before(&a->due[child + 1], &a->due[child])) child++;
    if (!before(&a->due[child], &d)) break;
    put(a, i, a->due[child]);
  }
  if (a->n) put(a, i, d);
  return first;
}

void dfi_timed_arrive(dfi_exec *x, dfi_record *r, uint32_t node) {
  if (x->timed->now > r->when[node]) r->when[node] = x->timed->now;
  if (x->timed->recorder) dfi_record_edge(x, r, node);
}

void dfi_timed_queued(dfi_exec *x, uint32_t place, const dfi_record *r, uint32_t node) {
  dfi_agenda_put(&x->timed->queue, (dfi_due){ r->when[node], x->timed->serial++, place });
}

void dfi_timed_grown(dfi_exec *x) {
  dfi_agenda *a = &x->timed->queue;
  if (!a->where || a->mask != x->queue_mask) {
    a->mask = x->queue_mask;
    a->where = dfi_xrealloc(a->where, sizeof *a->where * (a->mask + 1));
  }
  for (uint32_t i = 0; i < a->n; i++) a->where[a->due[i].place & a->mask] = i;
}

void dfi_timed_pick(dfi_exec *x) {
  dfi_agenda *a = &x->timed->queue;
  const uint32_t from = a->due[0].place;
  if (from != x->head) {                   /* the token that lies at the head takes its place */
    dfi_token *p = &x->queue[x->head & x->queue_mask], *q = &x->queue[from & x->queue_mask], token = *p;
    *p = *q; *q = token;
    dfi_due other = a->due[a->where[x->head & a->mask]];
    other.place = from;
    put(a, a->where[x->head & a->mask], other);
    a->due[0].place = x->head;
    put(a, 0, a->due[0]);
  }
  x->timed->now = a->due[0].at;
}

void dfi_timed_take(dfi_exec *x) { dfi_agenda_take(&x->timed->queue); }

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
  if (t->recorder) dfi_record_work(x, flops, bytes);
}

void dfi_timed_call(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, const df_kernel *k) {
  double flops, bytes;
  dfi_kernel_work(p->op->work, k, &flops, &bytes);
  if (flops > 0 || bytes > 0) dfi_timed_compute(x, r, p, flops, bytes);
  else x->timed->now = ready_at(x, r, p);  /* the device is not asked: others compute while a read waits for its copy */
}

/* ---- iterations ----------------------------------------------------------------------------------------------- */

enum { GATES_AT_MOST = 1 << 16 };          /* a wider window holds nothing back */

void dfi_timed_record(dfi_record *r, bool recorded) {
  const uint32_t n = r->frame->scope->n;
  if (!r->when) r->when = dfi_xmalloc(sizeof *r->when * (n + 1));
  memset(r->when, 0, sizeof *r->when * n);
  if (recorded) {
    if (!r->sources) r->sources = dfi_xmalloc(sizeof *r->sources * (n + 1));
    memset(r->sources, 0, sizeof *r->sources * n);
    r->place = 0;
  }
  r->ends = 0;
}

void dfi_timed_iteration_done(dfi_exec *x, dfi_frame *f, const dfi_record *r) {
  (void)x;
  if (r->ends > f->ends) f->ends = r->ends;            /* it is not done before the one before it */
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
  if (f->ends > f->origin->ends) f->origin->ends = f->ends;
  if (f->ends > x->timed->now) x->timed->now = f->ends;
}

void dfi_timed_gate(dfi_exec *x, const dfi_frame *f, int64_t n) {
  const int64_t window = f->scope->parallel_iterations;
  if (n < window || f->ngates != window) return;
  const double begins = f->gate[(n - window) % f->ngates];
  if (begins > x->timed->now) x->timed->now = begins;
}
