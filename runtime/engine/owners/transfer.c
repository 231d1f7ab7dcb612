/* transfer.c: a Send and its Recv. See device/device.h for how plans are cut.
 *
 * A message takes the token of a value, puts a copy of the value where the destination's kernels find it, and sends the
 * token on there. With the real clock and a link that has a latency or a bandwidth it is on its way for as long: a call
 * that is away, so that the books balance with messages in flight, and an inspector sees it.
 */
#include "engine/owners/transfer.h"
#include "engine/token.h"
#include "engine/memory/holders.h"
#include "engine/memory/remat.h"
#include "engine/owners/fault.h"
#include "engine/owners/stream.h"
#include "engine/owners/team.h"
#include "resource/variable.h"
#include "engine/clock/timed.h"
#include "engine/clock/record.h"
#include "engine/services.h"
#include <float.h>
#include <math.h>
#include <stdio.h>

static const dfi_link *link_at(const dfi_exec *x, int32_t i) { return &x->plan->link[i]; }
static dfi_device *device_at(const dfi_exec *x, int32_t i) { return x->plan->devices->at[i]; }

static double latency_of(const dfi_exec *x, int32_t link) {
  double busy;
  return dfi_link_seconds(device_at(x, link_at(x, link)->from), device_at(x, link_at(x, link)->to), 0, &busy);
}

/* Does p send to another owner? */
static bool sends_out(const dfi_exec *x, const dfi_pnode *p) { return x->team && dfi_team_part(x, p) == DFI_SENDS; }

static void no_room(dfi_exec *x, dfi_record *r, const dfi_pnode *p, int32_t device, const df_value *v, df_node *node) {
  char what[200], holders[900], message[1400];
  dfi_shape s = dfi_value_shape(v);
  for (int32_t i = 0; i < x->plan->devices->n; i++) {      /* or a device has failed: which, it says itself */
    const dfi_device *d = device_at(x, i);
    const char *why = d->remote ? d->remote->error(d->remote->device) : "";
    if (!*why) continue;
    snprintf(message, sizeof message, "%s failed: %s; the CPU goes on being usable", d->name, why);
    dfi_exec_fail(x, r, p, DF_UNAVAILABLE, message);
    return;
  }
  dfi_holders_text(x, device, holders, sizeof holders);
  snprintf(message, sizeof message, "out of memory on %s for %s of `%s`%s", device_at(x, device)->name,
           dfi_typed_shape_text(v->dtype, &s, what), dfi_node_name(node), holders);
  dfi_exec_fail(x, r, p, DF_RESOURCE_EXHAUSTED, message);
}

/* A crossing of a run over ranks. True: there is nothing else to do for it here: it has been sent, or is none of this
   rank's. Else the value is here, or has come, to *sent. */
static bool between_ranks(dfi_exec *x, int32_t i, const df_value *v, df_value *sent) {
  const dfi_crossing *c = &x->plan->crossing[i];
  const int32_t here = x->plan->devices->rank, to = device_at(x, link_at(x, c->link)->to)->rank;
  const bool fed = DFI_SPACE(c->from) == DFI_GIVEN;
  if (to == here) return here && fed && !dfi_team_crossing(x, i, sent);
  if (here || !fed) return true;           /* every rank has the constants */
  x->traffic[c->link].messages++;
  x->traffic[c->link].bytes += dfi_value_bytes(v);
  dfi_team_send_crossing(x, i, v);
  return true;
}

void dfi_transfer_begin(dfi_exec *x) {
  dfi_plan *p = x->plan;
  memset(x->traffic, 0, sizeof *x->traffic * (size_t)(p->nlinks + 1));
  if (x->flows) dfi_flows_clear(x->flows);
  for (int32_t i = 0; i < p->ncrossings && !x->failed; i++) {
    const dfi_crossing *c = &p->crossing[i];
    const dfi_link *l = link_at(x, c->link);
    const df_value *v =
        DFI_SPACE(c->from) == DFI_GIVEN ? &x->given[DFI_INDEX(c->from)] : &p->constant[DFI_INDEX(c->from)];
    df_value *to = &x->given[p->nfeed + p->nvariables + i];
    dfi_traffic *t = &x->traffic[c->link];
    df_value sent = { 0 };
    if (x->setup.rank_run && between_ranks(x, i, v, &sent)) continue;
    if (x->failed) return;
    if (sent.kind) v = &sent;
    else { t->messages++; t->bytes += dfi_value_bytes(v); }
    if (x->setup.faults && dfi_fault_message(x, NULL, NULL, c->link, c->node) != DFI_ARRIVES) return;
    if (!dfi_value_in(v, c->host ? NULL : device_at(x, l->to)->arena, to)) no_room(x, NULL, NULL, l->to, v, c->node);
    dfi_value_drop(&sent);
    to->uses = 0;
    if (x->timed && x->timed->recorder) dfi_record_crossing(x, i, c->node, l->to);
    if (x->timed) dfi_timed_cross(x, i, c->link, dfi_value_bytes(v));
  }
  if (x->timed && x->timed->recorder) dfi_record_speak(x, 0);
}

/* Puts a copy of the value where the destination's kernels find it; consumes it. False: there is no room, and the run
   has failed. */
static bool take_in(dfi_exec *x, dfi_record *r, const dfi_pnode *p, df_value *v) {
  df_value *slot = r->base[DFI_ITERATION] + p->out;
  dfi_waits(x, r, p, device_at(x, link_at(x, p->child)->from));
  const bool there = dfi_value_in(v, p->constant ? NULL : device_at(x, p->device)->arena, slot);
  if (!there) no_room(x, r, p, p->device, v, p->node);
  slot->uses = 0;
  dfi_value_drop(v);
  v->kind = DF_EMPTY;
  return there;
}

/* The message has arrived: its value is in the slot already. */
static void arrived(dfi_exec *x, dfi_record *r, const dfi_pnode *p, uint32_t dead) {
  if (DFI_UNLIKELY(x->team != NULL)) {
    r->counts[p - r->nodes] = dead;        /* the sender has counted for it, elsewhere */
    if (x->remats && dfi_team_part(x, p) == DFI_RECEIVES) dfi_remat_received(x, r, p, dead);
  }
  if (p->nout && !dead) {
    df_value *slot = r->base[DFI_ITERATION] + p->out;
    if (DFI_UNLIKELY(x->kept != NULL)) dfi_service.watch_keep_all(x, r, p);
    slot_filled(r, slot, r->frame->scope->uses[p->out]);
  }
  dfi_exec_send(x, r, p->edge[0], p->edge[1], dead);
}

/* The run is recorded: the Recv's event waits for that which sent the message, and is over when it has come. */
static void recorded_recv(dfi_exec *x, uint32_t recv, uint32_t event, double came) {
  dfi_record_speak(x, recv);
  dfi_record_waits(x, event);
  if (came > x->timed->now) x->timed->now = came;
}

/* ---- messages on their way ------------------------------------------------------------------------------- */

/* It arrives at once, where it is not waited for any more. */
static void flight_stop(df_kernel *k, void *user) { (void)k; ((dfi_flight *)user)->due = 0; }
static void flight_text(df_kernel *k, void *user, char *text, size_t bytes) {
  (void)k; (void)user;
  snprintf(text, bytes, "is on its way");
}

void dfi_flight_list(dfi_exec *x, dfi_flight *f) {
  dfi_flight **at = &x->flights;
  while (*at && (*at)->due <= f->due) at = &(*at)->next;
  f->next = *at;
  *at = f;
}

dfi_flight *dfi_flight_new(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  dfi_flight *f = x->spare_flights;
  if (f) x->spare_flights = f->next;
  else f = dfi_xcalloc(1, sizeof *f);
  f->call.exec = x; f->call.record = r; f->call.node = p;
  f->call.heap = f->call.message = true;
  f->call.stop = flight_stop; f->call.what = flight_text; f->call.user = f;
  f->value = (df_value){ 0 };
  f->recv = 0;
  return f;
}

/* A message of another owner, which nothing else held up: when its port has served it behind those before it. */
static double received(const dfi_exec *x, const dfi_pnode *p, const dfi_team_message *l) {
  const int32_t to = link_at(x, p->child)->to;
  const double bandwidth = device_at(x, to)->bandwidth, latency = latency_of(x, p->child);
  const double takes = bandwidth > 0 ? (double)dfi_value_bytes(&l->value) / bandwidth : 0;
  if (takes <= 0 || isinf(l->due)) return l->due;
  const double begins = l->due - latency - takes;
  x->port[to] = (x->port[to] > begins ? x->port[to] : begins) + takes;
  return x->port[to] + latency;
}

void dfi_flight_takes(dfi_flight *f, const dfi_team_message *l) {
  f->due = l->due > 0 ? received(f->call.exec, f->call.node, l) : 0;
  f->dead = l->dead;
  f->value = l->value;
  f->came = l->came;
  f->event = l->event;
}

static bool worth_a_stream(const dfi_exec *x, const dfi_pnode *p, const df_value *v) {
  enum { LARGE_BYTES = 64 << 10 };
  return x->streams && v->kind == DF_TENSOR && dfi_value_bytes(v) >= LARGE_BYTES && device_at(x, p->device)->arena;
}

/* v: what has not been copied yet, so that it is when the message arrives; a large one is on a stream, meanwhile. */
static void depart(dfi_exec *x, dfi_record *r, dfi_pnode *p, uint32_t dead, double due, int32_t message, df_value v) {
  dfi_flight *f = dfi_flight_new(x, r, p);
  f->due = due;
  f->dead = dead;
  f->value = v;
  x->flying += dfi_value_bytes(&v);
  dfi_call_away(x, &f->call);
  x->waiting--;                            /* it does not wait for anything outside: it comes by itself */
  if (isinf(due) || sends_out(x, p) || !worth_a_stream(x, p, &v) || !dfi_stream_take(x, &f->call, true))
    dfi_flight_list(x, f);
  if (message >= 0) dfi_flows_rename(x->flows, message, (uintptr_t)f);
}

void dfi_transfer_copy(dfi_call *c) {
  dfi_flight *f = c->user;
  df_value *slot = c->record->base[DFI_ITERATION] + c->node->out;
  dfi_devmem *to = c->node->constant ? NULL : device_at(c->exec, c->node->device)->arena;
  c->status = dfi_value_in(&f->value, to, slot) ? DF_OK : DF_RESOURCE_EXHAUSTED;
}

static void land(dfi_exec *x, dfi_flight *f) {
  dfi_record *r = f->call.record;
  dfi_pnode *p = f->call.node;
  const bool over = x->failed || x->finished;   /* finished: without it, lost.h */
  const bool sends = sends_out(x, p);
  if (DFI_UNLIKELY(over) && p->nout && !sends) {  /* what was copied when it was sent lies there, and is not counted */
    df_value *slot = r->base[DFI_ITERATION] + p->out;
    dfi_value_drop(slot);
    slot->kind = DF_EMPTY;
  }
  x->waiting++;
  dfi_call_back(x, &f->call);
  if (DFI_UNLIKELY(x->logs) && !x->failed) dfi_service.log_done(x, r, p);
  x->flying -= dfi_value_bytes(&f->value);
  if (sends && !over) {
    dfi_team_send(x, r, p, f->dead, f->due + latency_of(x, p->child), 0, f->value);
    f->value.kind = DF_EMPTY;
  }
  const bool there = !sends && (over || f->value.kind == DF_EMPTY || take_in(x, r, p, &f->value));
  const bool recorded = there && !over && x->timed && f->recv;
  if (DFI_UNLIKELY(recorded)) {
    x->timed->now = r->when[p - r->nodes];
    recorded_recv(x, f->recv, f->event, f->came);
  }
  if (there && !over) arrived(x, r, p, f->dead);
  if (DFI_UNLIKELY(recorded)) dfi_timed_ended(x, r);
  dfi_value_drop(&f->value);
  f->next = x->spare_flights;
  x->spare_flights = f;
  if (--r->outstanding == 0 && !over) dfi_exec_iteration_done(x, r);
}

void dfi_transfer_copied(dfi_exec *x, dfi_call *c) {
  dfi_flight *f = c->user;
  df_value *slot = c->record->base[DFI_ITERATION] + c->node->out;
  if (c->status == DF_OK) {                /* else the owner tries, which can make room */
    slot->uses = 0;
    x->flying -= dfi_value_bytes(&f->value);
    dfi_value_drop(&f->value);
    f->value.kind = DF_EMPTY;
    if (x->failed) { dfi_value_drop(slot); slot->kind = DF_EMPTY; }
  }
  if (f->due > dfi_now() && !x->failed) dfi_flight_list(x, f);
  else land(x, f);
}

/* A message whose Recv has had its turn: it arrives when it is time. */
static void arrives_when_due(dfi_exec *x, dfi_flight *f) {
  if (!x->failed && (f->due > dfi_now() || x->plan->devices->late)) dfi_flight_list(x, f);
  else land(x, f);
}

static void message_comes(dfi_exec *x, dfi_team_message *l) {
  dfi_flight *f = dfi_team_deliver(x, l);
  if (!f) return;
  f->call.stop = flight_stop;                /* it waits for its time now, not for the message */
  f->call.what = flight_text;
  arrives_when_due(x, f);
}

void dfi_transfer_message(dfi_exec *x, dfi_team_message *l) {
  const dfi_pnode *p = x->plan->node + l->edge;
  for (uint32_t more = l->dead ? p->target : 0; more; more = x->plan->node[more - 1].target)
    message_comes(x, dfi_team_message_for(l, more - 1));
  message_comes(x, l);
}

/* A Recv has its turn. True: it waits, or its message does, and comes back by itself. */
static bool receive(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  x->count.taken--;                        /* the sender has counted it */
  dfi_team_message *l = dfi_team_receive(x, r, p);
  if (!l) return true;
  if (l->due > 0 || x->plan->devices->late) {
    dfi_flight *f = dfi_flight_new(x, r, p);
    dfi_flight_takes(f, l);
    f->recv = x->timed ? x->timed->current : 0;
    x->flying += dfi_value_bytes(&f->value);
    dfi_call_away(x, &f->call);
    x->waiting--;
    dfi_free(l);
    arrives_when_due(x, f);
    return true;
  }
  if (DFI_UNLIKELY(x->logs)) dfi_service.log_done(x, r, p);
  if (DFI_UNLIKELY(x->timed != NULL)) recorded_recv(x, x->timed->current, l->event, l->came);
  if (l->value.kind == DF_EMPTY || take_in(x, r, p, &l->value)) arrived(x, r, p, l->dead);
  dfi_value_drop(&l->value);
  dfi_free(l);
  return false;
}

/* ---- the real clock: how long a message is on its way ---------------------------------------------------------------
 * What an owner sends shares links and ports as by the virtual clock (flows.h). The port of a device that receives from
 * several owners serves what each brings one message after the other. */

/* flight.due of a message that has not left: behind all that have, and before one that never comes. */
static const double NOT_LEFT = DBL_MAX;

/* The flights that have left by now come when their latency has passed; those to another owner are sent. */
static void messages_leave(dfi_exec *x, double now) {
  while (dfi_flows_next(x->flows) <= now) {
    double at;
    dfi_flight *f = (dfi_flight *)(uintptr_t)dfi_flows_end(x->flows, &at), **in = &x->flights;
    while (*in && *in != f) in = &(*in)->next;
    f->due = at + (sends_out(x, f->call.node) ? 0 : latency_of(x, f->call.node->child));
    if (!*in) continue;                    /* a stream copies it */
    *in = f->next;
    dfi_flight_list(x, f);
  }
}

/* DFLOW_STRESS=late: nothing arrives while anything else can move, and then in an odd order. */
static dfi_flight **odd_flight(dfi_exec *x, double now) {
  if (x->head != x->tail && x->late++ % 8) return NULL;
  int32_t n = 0;
  for (dfi_flight *f = x->flights; f && f->due <= now; f = f->next) n++;
  if (!n) return NULL;
  x->late = x->late * 0x9e3779b97f4a7c15u + 1;
  dfi_flight **at = &x->flights;
  for (int32_t k = (int32_t)((x->late >> 33) % (uint32_t)n); k; k--) at = &(*at)->next;
  return at;
}

double dfi_transfer_arrivals(dfi_exec *x) {
  if (!x->flights) return -1;
  const double now = dfi_now();
  if (x->flows && !x->failed && !x->finished) messages_leave(x, now);
  while (x->flights) {
    const bool late = x->plan->devices->late && !x->failed;
    dfi_flight **at = late ? odd_flight(x, now) : x->flights->due <= now || x->failed ? &x->flights : NULL;
    if (!at) break;
    dfi_flight *f = *at;
    *at = f->next;
    land(x, f);
    if (late) break;
  }
  if (!x->flights) return -1;
  const double leaves = x->flows ? dfi_flows_next(x->flows) : (double)INFINITY;
  return (x->flights->due < leaves ? x->flights->due : leaves) - now;
}

int32_t dfi_transfers_held(const dfi_exec *x) {
  int32_t n = 0;
  for (const dfi_flight *f = x->flights; f; f = f->next) n += isinf(f->due);
  return n;
}

/* When a message that is sent now will have come; 0: at once. NOT_LEFT: its ports say when, as *message. */
static inline __attribute__((always_inline)) double due(dfi_exec *x, int32_t link, int64_t bytes, int32_t *message) {
  const dfi_link *l = link_at(x, link);
  const dfi_device *from = device_at(x, l->from), *to = device_at(x, l->to);
  if (from->bandwidth <= 0 && to->bandwidth <= 0 && from->latency <= 0 && to->latency <= 0) return 0;
  const double now = dfi_now();
  if (!x->flows) x->flows = dfi_flows_new(x->plan->nlinks, DFI_DEVICES_MOST);
  messages_leave(x, now);
  if (!dfi_flows_begin(x->flows, link, l->from, l->to, from, to, (double)bytes, now, 0, message)) return NOT_LEFT;
  const double latency = latency_of(x, link);
  return latency > 0 ? now + latency : 0;
}

/* A token that says no more than that there is a value: cut.c, signal_new. */
static inline void drop_value(df_value *v) {
  dfi_value_drop(v);
  v->kind = DF_EMPTY;
}

/* An iteration runs a second time: nothing is sent, and what was received the first time has come already. */
static void once_more(dfi_exec *x, dfi_record *r, dfi_pnode *p, uint32_t dead) {
  df_value v;
  if (dfi_team_part(x, p) == DFI_SENDS) {
    x->count.died += dead != 0;
    drop_inputs(x, r, p);
    return;
  }
  x->count.taken--;                        /* as the first time */
  if (!dfi_remat_replays(x, r, p, &v, &dead))
    dfi_exec_fail(x, r, p, DF_INTERNAL, "its message of the first time is not known");
  else if (v.kind == DF_EMPTY || take_in(x, r, p, &v)) arrived(x, r, p, dead);
}

/* A reference stays where its variable is: what is sent is the value that it refers to now. */
static bool read_reference(dfi_exec *x, dfi_record *r, dfi_pnode *p, df_value *v) {
  df_value now;
  df_error err;
  if (v->kind != DF_HANDLE || ((dfi_handle *)v->as.handle)->type != DFI_VARIABLE) return true;
  const int32_t code = dfi_variable_read(v->as.handle, &now, &err);
  drop_value(v);
  if (code) dfi_exec_fail(x, r, p, code, err.message);
  else *v = now;
  return !code;
}

/* A Transfer between two owners, at this end of it. */
static __attribute__((noinline)) bool between_owners(dfi_exec *x, dfi_record *r, dfi_pnode *p, uint32_t dead) {
  if (DFI_UNLIKELY(dfi_remat_is_copy(x->plan, p))) { once_more(x, r, p, dead); return false; }
  if (dfi_team_part(x, p) == DFI_RECEIVES) return receive(x, r, p);
  dfi_traffic *t = &x->traffic[p->child];
  df_value v = { 0 };
  if (dead && p->with) {                   /* another one says so */
    x->count.died++;
    if (p->iteration_operands) drop_inputs(x, r, p);
    return false;
  }
  t->messages++;
  const dfi_delivery delivery =
      DFI_UNLIKELY(x->setup.faults != NULL) ? dfi_fault_message(x, r, p, (int32_t)p->child, p->node) : DFI_ARRIVES;
  if (delivery == DFI_LOST) return false;
  if (dead) {
    t->dead++;
    x->count.died++;
    if (p->iteration_operands) drop_inputs(x, r, p);
  } else if (p->nin) v = operand_take(r, x->plan->operand[p->in]);
  if (!p->nout) drop_value(&v);
  if (DFI_UNLIKELY(v.kind == DF_HANDLE) && !read_reference(x, r, p, &v)) return false;
  const int64_t bytes = dfi_value_bytes(&v);
  t->bytes += bytes;
  int32_t message = -1;
  const double when = delivery == DFI_STALLS ? (double)INFINITY : x->timed ? 0 : due(x, p->child, bytes, &message);
  double came = 0;
  if (DFI_UNLIKELY(x->timed != NULL)) came = dfi_timed_message(x, (int32_t)p->child, bytes);
  if (DFI_UNLIKELY(x->logs)) dfi_service.log_flush(x);         /* it is sent before it arrives, by the log too */
  if (message >= 0) { depart(x, r, p, dead, when, message, v); return true; }
  dfi_team_send(x, r, p, dead, when, came, v);
  return false;
}

bool dfi_transfer_run(dfi_exec *x, dfi_record *r, dfi_pnode *p, uint32_t dead) {
  if (DFI_UNLIKELY(x->team != NULL) && dfi_team_part(x, p) != DFI_INSIDE) return between_owners(x, r, p, dead);
  const int32_t link = p->child;
  dfi_traffic *t = &x->traffic[link];
  const dfi_operand in = x->plan->operand[p->in];
  const bool told = dead && p->with;       /* another one says so */
  int64_t bytes = 0;
  if (!dead && p->nin) {
    bytes = dfi_value_bytes(operand(r, in));
    if (bytes >= 4096 && dfi_held_back(x, r, device_at(x, p->device), bytes, 0)) {
      dfi_exec_requeue(x, r, p);
      return true;
    }
  }
  t->messages += !told;
  if (dead) {
    t->dead += !told;
    x->count.died++;
    if (p->iteration_operands) drop_inputs(x, r, p);
  }
  t->bytes += bytes;
  const dfi_delivery delivery =
      DFI_UNLIKELY(x->setup.faults != NULL) && !told ? dfi_fault_message(x, r, p, link, p->node) : DFI_ARRIVES;
  if (delivery == DFI_LOST) return false;
  df_value v = { 0 };
  if (!dead && p->nin) v = operand_take(r, in);
  if (!p->nout) drop_value(&v);
  if (DFI_UNLIKELY(delivery == DFI_STALLS)) { depart(x, r, p, dead, (double)INFINITY, -1, v); return true; }
  if (x->timed) {
    if (v.kind && !take_in(x, r, p, &v)) return false;
    x->timed->now = dfi_timed_message(x, link, bytes);
    arrived(x, r, p, dead);
    return false;
  }
  int32_t message = -1;
  const double when = due(x, link, bytes, &message);
  const bool copied_later = x->plan->devices->late || worth_a_stream(x, p, &v);
  if (!copied_later && v.kind && !take_in(x, r, p, &v)) return false;
  if (copied_later || when > 0) { depart(x, r, p, dead, when, message, v); return true; }
  arrived(x, r, p, dead);
  return false;
}
