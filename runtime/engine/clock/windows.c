/* windows.c: see windows.h. Owners are looked at where something of them happens; nothing here takes time but the
 * messages at the end of a serial iteration. */
#include "engine/clock/windows.h"
#include "engine/clock/timed.h"
#include "engine/clock/record.h"
#include <math.h>

static const dfi_parts *parts(const dfi_exec *x) { return x->plan->parts; }

int32_t dfi_windows_owner(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  for (; parts(x)->called[r->frame->scope->id] && r->frame->origin; r = r->frame->origin)
    if (r->frame->call) p = r->frame->call;
  return dfi_owner_of(x->plan, p);
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static bool has_parts(const dfi_exec *x, const dfi_frame *f) {
  const dfi_plan *p = x->plan;
  if (!x->timed || x->team || !p->parts || !f->origin || p->parts->called[f->scope->id]) return false;
  if (!p->nlinks) return false;                        /* each loop is one owner's */
  return !p->remat || f->scope->id < p->remat->nscopes;      /* a second time is for all at once */
}

/* Something of owner o has begun in r. */
static void begins(dfi_record *r, int32_t o) { if (r->shares) r->shares[o].outstanding++; }

void dfi_windows_open(dfi_exec *x, dfi_frame *f) {
  if (f->origin && f->call && parts(x)) begins(f->origin, dfi_windows_owner(x, f->origin, f->call));
  if (!has_parts(x, f)) { dfi_free(f->windows); f->windows = NULL; return; }
  const int32_t n = parts(x)->n;
  if (!f->windows) f->windows = dfi_xcalloc((size_t)n, sizeof *f->windows);
  for (int32_t o = 0; o < n; o++) {
    const int32_t enters = (int32_t)parts(x)->scope[o][f->scope->id].nenters;
    f->windows[o] = (dfi_window){ .first = f->next, .next = f->next, .met = -1, .enters = enters,
                                  .takes_part = enters > 0 };
    if (enters) begins(f->origin, o);
  }
  if (f->window < INT32_MAX) f->window *= n;           /* no two are further apart: plan/owners.c, keep_pace */
}

void dfi_windows_record(dfi_exec *x, dfi_record *r) {
  const int32_t n = r->frame->windows ? parts(x)->n : 0;
  if (!n) { dfi_free(r->shares); r->shares = NULL; return; }
  if (!r->shares) r->shares = dfi_xmalloc(sizeof *r->shares * (size_t)n);
  for (int32_t o = 0; o < n; o++) {
    const dfi_window *w = &r->frame->windows[o];
    const int32_t recvs = x->timed->recvs[r->frame->scope->id * n + o];
    r->shares[o] = (dfi_share){ .outstanding = recvs + (w->takes_part && !w->begun && r->number == w->first) };
  }
}

static void open_next(dfi_exec *x, dfi_frame *f, int32_t o, double at) {
  dfi_window *w = &f->windows[o];
  const dfi_record *r = f->ring[w->next++ & (f->capacity - 1)];
  r->shares[o].opener = w->opener;
  r->shares[o].opens = at;
  w->waits = false;
  dfi_timed_window_moved(x);
}

int32_t dfi_windows_entered(const dfi_exec *x, dfi_frame *f, const dfi_pnode *p) {
  const int32_t o = dfi_owner_of(x->plan, p);
  dfi_window *w = &f->windows[o];
  if (--w->enters) return -1;
  w->ends = x->timed->now;
  w->opener = x->timed->current;
  return f->some_dead || f->scope->remat || x->timed->waits_outside ? -1 : o;
}

void dfi_windows_begin(dfi_exec *x, dfi_frame *f, int32_t o) {
  f->windows[o].begun = true;
  open_next(x, f, o, x->timed->now);
}

static void ended(dfi_exec *x, dfi_record *r, int32_t o, double at);

void dfi_windows_begun(dfi_exec *x, dfi_frame *f, int32_t o) { ended(x, f->ring[0], o, x->timed->now); }

void dfi_windows_next(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  dfi_frame *f = r->frame;
  if (!f->windows) return;
  const int32_t o = dfi_owner_of(x->plan, p);
  dfi_window *w = &f->windows[o];
  if (r->number < w->next || w->waits) return;
  w->opener = x->timed->current;
  w->waits = w->next - w->first >= f->scope->parallel_iterations;
  if (!w->waits) open_next(x, f, o, x->timed->now);
}

double dfi_windows_opens(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  const int32_t o = dfi_owner_of(x->plan, p);
  return r->number < r->frame->windows[o].next ? r->shares[o].opens : (double)INFINITY;
}

/* ---- ending ---------------------------------------------------------------------------------------------------- */

static bool serial(const dfi_frame *f) { return f->scope->parallel_iterations == 1; }

void dfi_windows_meet(int32_t m, double *t, double (*latency)(const void *of, int32_t from, int32_t to),
                      const void *of) {
  double told[DFI_DEVICES_MOST];
  for (int32_t far = 1; far < m; far *= 2) {
    for (int32_t i = 0; i < m; i++) {
      const int32_t from = (i - far + m) % m;
      const double comes = t[from] + latency(of, from, i);
      told[i] = comes > t[i] ? comes : t[i];
    }
    memcpy(t, told, sizeof *t * (size_t)m);
  }
}

typedef struct meeting { const dfi_exec *exec; int32_t n, device[DFI_DEVICES_MOST]; } meeting;

static double latency_between(const void *of, int32_t from, int32_t to) {
  const meeting *k = of;
  double busy;
  return dfi_link_seconds(k->exec->plan->devices->at[k->device[from]], k->exec->plan->devices->at[k->device[to]], 0,
                          &busy);
}

bool dfi_windows_ends(const dfi_exec *x, const dfi_record *r, uint32_t node) {
  const dfi_scope *s = &x->plan->scope[r->frame->scope->id];
  return x->team && r->nodes[node].kind == DFI_K_TRANSFER && !s->counts[node] && !parts(x)->called[s->id];
}

int32_t dfi_windows_device(const dfi_plan *p, int32_t o, int32_t scope) {
  const dfi_scope *s = &p->parts->scope[o][scope];
  for (uint32_t i = 0; i < s->nends; i++) {
    const dfi_pnode *end = p->node + s->first + s->ends[i].node;
    if (dfi_owner_of(p, end) == o) return p->link[end->child].from;
  }
  return s->nenters ? s->enters[0]->device : 0;
}

/* All owners have done their parts of a serial iteration: when each knows so. False: some have not. */
static bool meet(dfi_exec *x, dfi_frame *f, const dfi_record *r) {
  double t[DFI_DEVICES_MOST];
  meeting k = { .exec = x };
  for (int32_t o = 0; o < parts(x)->n; o++) {
    const dfi_window *w = &f->windows[o];
    if (!w->takes_part) continue;
    if (w->next <= r->number || r->shares[o].outstanding > 0) return false;
    k.device[k.n] = dfi_windows_device(x->plan, o, f->scope->id);
    t[k.n++] = r->shares[o].ends > w->ends ? r->shares[o].ends : w->ends;
  }
  dfi_windows_meet(k.n, t, latency_between, &k);
  for (int32_t o = 0, i = 0; o < parts(x)->n; o++)
    if (f->windows[o].takes_part) { r->shares[o].ends = t[i++]; f->windows[o].met = r->number; }
  return true;
}

/* The iterations of an owner that are over; with the last one its part of the frame is. */
static void move(dfi_exec *x, dfi_frame *f, int32_t o) {
  dfi_window *w = &f->windows[o];
  while (w->first < w->next) {
    dfi_record *r = f->ring[w->first & (f->capacity - 1)];
    if (r->shares[o].outstanding > 0) return;
    if (serial(f) && w->met < r->number) {
      if (!meet(x, f, r)) return;
      for (int32_t other = 0; other < parts(x)->n; other++)
        if (other != o && f->windows[other].takes_part) move(x, f, other);
    }
    if (r->shares[o].ends > w->ends) w->ends = r->shares[o].ends;
    if (w->ends > r->ends) r->ends = w->ends;
    if (w->ends > x->timed->last) x->timed->last = w->ends;
    w->first++;
    if (w->waits) open_next(x, f, o, w->ends);
  }
  if (w->over) return;
  w->over = true;
  ended(x, f->origin, o, w->ends);
}

/* Something of owner o has ended in r. */
static void ended(dfi_exec *x, dfi_record *r, int32_t o, double at) {
  if (!r->shares) return;
  if (at > r->shares[o].ends) r->shares[o].ends = at;
  if (--r->shares[o].outstanding == 0) move(x, r->frame, o);
}

static double latency_of(const dfi_exec *x, const dfi_pnode *transfer) {
  const dfi_link *l = &x->plan->link[transfer->child];
  double busy;
  return dfi_link_seconds(x->plan->devices->at[l->from], x->plan->devices->at[l->to], 0, &busy);
}

void dfi_windows_dead(dfi_exec *x, dfi_frame *f) {
  dfi_record *r = f->ring[0];
  const int32_t n = parts(x)->n;
  double last = -1;
  for (int32_t o = 0; o < n; o++) {
    const dfi_window *w = &f->windows[o];
    r->shares[o] = (dfi_share){ .ends = w->ends };
    f->windows[o].next++;
    if (w->takes_part && x->timed->recorder)
      dfi_record_dead(x, r, parts(x)->scope[o][f->scope->id].enters[0], o, w->opener);
  }
  for (uint32_t i = 0; i < f->scope->n; i++) {
    const dfi_pnode *q = r->nodes + i;
    if (q->kind != DFI_K_TRANSFER || !f->scope->counts[i]) continue;
    const dfi_window *from = &f->windows[dfi_owner_of(x->plan, q)];
    dfi_share *to = &r->shares[dfi_receiver_of(x->plan, q)];
    const double comes = from->ends + latency_of(x, q);
    const uint32_t sent =
        x->timed->recorder ? dfi_record_dead(x, r, q, (int32_t)(from - f->windows), from->opener) : 0;
    to->ends = fmax(to->ends, comes);
    if (sent && comes > last) dfi_record_speak(x, sent);     /* with it the frame ends */
    last = fmax(last, comes);
  }
  for (int32_t o = 0; o < n; o++) if (f->windows[o].takes_part) move(x, f, o);
}

void dfi_windows_queued(dfi_exec *x, dfi_record *r, const dfi_pnode *p) { begins(r, dfi_owner_of(x->plan, p)); }

void dfi_windows_ran(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  const int32_t o = dfi_owner_of(x->plan, p), to = dfi_receiver_of(x->plan, p);
  const double now = x->timed->now;
  if (o == to) { ended(x, r, o, now); return; }
  ended(x, r, to, now);
  ended(x, r, o, now - latency_of(x, p));                  /* the sender is done when the message has left */
}

void dfi_windows_iteration_done(dfi_exec *x, dfi_record *r) {
  dfi_frame *f = r->frame;
  for (int32_t o = 0; r->shares && o < parts(x)->n; o++) {
    if (!f->windows[o].takes_part || f->windows[o].first > r->number) continue;
    r->shares[o].outstanding = 0;          /* a message that a dead loop does not send */
    if (f->windows[o].next > r->number) move(x, f, o);
  }
}

void dfi_windows_frame_done(dfi_exec *x, dfi_frame *f) {
  if (f->call && parts(x)) ended(x, f->origin, dfi_windows_owner(x, f->origin, f->call), f->ends);
  for (int32_t o = 0; f->windows && o < parts(x)->n; o++) {
    if (!f->windows[o].takes_part || f->windows[o].over) continue;
    f->windows[o].over = true;
    ended(x, f->origin, o, f->ends);
  }
}
