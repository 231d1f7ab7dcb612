/* transfer.c: a Send and its Recv. See device/device.h for how plans are cut.
 *
 * A message takes the token of a value, puts a copy of the value where the destination's kernels find it, and sends the
 * token on there. With the real clock and a link that has a latency or a bandwidth it is on its way for as long: a call
 * that is away, so that the books balance with messages in flight, and whoever looks at the run sees it.
 */
#include "engine/transfer.h"
#include "engine/token.h"
#include "engine/holders.h"
#include "resource/variable.h"
#include "engine/timed.h"
#include "engine/record.h"
#include "engine/watch.h"
#include <stdio.h>

static const dfi_link *link_at(const dfi_exec *x, int32_t i) { return &x->plan->link[i]; }
static dfi_device *device_at(const dfi_exec *x, int32_t i) { return x->plan->devices->at[i]; }

static void no_room(dfi_exec *x, dfi_record *r, const dfi_pnode *p, int32_t device, const df_value *v, df_node *node) {
  char what[200], holders[900], message[1400];
  dfi_shape s = dfi_value_shape(v);
  dfi_holders_text(x, device, holders, sizeof holders);
  snprintf(message, sizeof message, "out of memory on %s for %s of `%s`%s", device_at(x, device)->name,
           dfi_typed_shape_text(v->dtype, &s, what), dfi_node_name(node), holders);
  dfi_exec_fail(x, r, p, DF_RESOURCE_EXHAUSTED, message);
}

void dfi_transfer_begin(dfi_exec *x) {
  dfi_plan *p = x->plan;
  memset(x->traffic, 0, sizeof *x->traffic * (size_t)(p->nlinks + 1));
  for (int32_t i = 0; i < p->ncrossings && !x->failed; i++) {
    const dfi_crossing *c = &p->crossing[i];
    const dfi_link *l = link_at(x, c->link);
    const df_value *v =
        DFI_SPACE(c->from) == DFI_GIVEN ? &x->given[DFI_INDEX(c->from)] : &p->constant[DFI_INDEX(c->from)];
    df_value *to = &x->given[p->nfeed + p->nvariables + i];
    dfi_traffic *t = &x->traffic[c->link];
    t->messages++;
    t->bytes += dfi_value_bytes(v);
    if (!dfi_value_in(v, device_at(x, l->to)->arena, to)) no_room(x, NULL, NULL, l->to, v, c->node);
    to->uses = 0;
    if (x->timed && x->timed->recorder) dfi_record_crossing(x, i, c->node, l->to);
    if (x->timed) dfi_timed_given(x, i, dfi_timed_message(x, c->link, 0, dfi_value_bytes(v)));
  }
  if (x->timed && x->timed->recorder) dfi_record_speak(x, 0);
}

/* The message has arrived: its value is in the slot already. */
static void arrived(dfi_exec *x, dfi_record *r, const dfi_pnode *p, uint32_t dead) {
  if (p->nout && !dead) {
    df_value *slot = r->base[DFI_ITERATION] + p->out;
    if (DFI_UNLIKELY(x->made != NULL)) dfi_watch_keep_all(x, r, p);
    slot_filled(r, slot, r->frame->scope->uses[p->out]);
  }
  dfi_exec_send(x, r, p->edge[0], p->edge[1], dead);
}

/* ---- messages on their way ------------------------------------------------------------------------------- */

/* it arrives at once, where nobody waits any more */
static void flight_stop(df_kernel *k, void *user) { (void)k; ((dfi_flight *)user)->due = 0; }
static void flight_text(df_kernel *k, void *user, char *text, size_t bytes) {
  (void)k; (void)user;
  snprintf(text, bytes, "is on its way");
}

static void depart(dfi_exec *x, dfi_record *r, dfi_pnode *p, uint32_t dead, double due) {
  dfi_flight *f = dfi_xcalloc(1, sizeof *f);
  f->call = (dfi_call){
    .exec = x, .record = r, .node = p, .heap = true, .stop = flight_stop, .what = flight_text, .user = f
  };
  f->due = due;
  f->dead = dead;
  dfi_flight **at = &x->flights;
  while (*at && (*at)->due <= due) at = &(*at)->next;
  f->next = *at;
  *at = f;
  dfi_call_away(x, &f->call);
  x->waiting--;                            /* it does not wait for anything outside: it comes by itself */
}

double dfi_transfer_arrivals(dfi_exec *x) {
  if (!x->flights) return -1;
  const double now = dfi_now();
  while (x->flights && (x->flights->due <= now || x->failed)) {
    dfi_flight *f = x->flights;
    dfi_record *r = f->call.record;
    x->flights = f->next;
    x->waiting++;
    dfi_call_back(x, &f->call);
    if (!x->failed) arrived(x, r, f->call.node, f->dead);
    free(f);
    if (--r->outstanding == 0 && !x->failed) dfi_exec_iteration_done(x, r);
  }
  return x->flights ? x->flights->due - now : -1;
}

/* When the message will have come, after those that the line carries before it; 0: at once. */
static double due(dfi_exec *x, int32_t link, int64_t bytes) {
  const dfi_link *l = link_at(x, link);
  double busy;
  const double takes = dfi_link_seconds(device_at(x, l->from), device_at(x, l->to), bytes, &busy);
  if (takes <= 0) return 0;
  const double now = dfi_now(), begins = x->line[link] > now ? x->line[link] : now;
  x->line[link] = begins + busy;
  return begins + takes;
}

bool dfi_transfer_run(dfi_exec *x, dfi_record *r, dfi_pnode *p, uint32_t dead) {
  const int32_t link = p->child;
  dfi_traffic *t = &x->traffic[link];
  const dfi_operand in = x->plan->operand[p->in];
  int64_t bytes = 0;
  t->messages++;
  if (dead) {
    t->dead++;
    x->count.died++;
    if (p->iteration_operands) drop_inputs(x, r, p);
  } else if (p->nin) bytes = dfi_value_bytes(operand(r, in));
  t->bytes += bytes;
  if (!dead && p->nin) {
    df_value v = operand_take(r, in), *slot = r->base[DFI_ITERATION] + p->out;
    const bool there = dfi_value_in(&v, device_at(x, link_at(x, link)->to)->arena, slot);
    if (!there) no_room(x, r, p, link_at(x, link)->to, &v, p->node);
    slot->uses = 0;
    dfi_value_drop(&v);
    if (!there) return false;
  }
  if (x->timed) {
    x->timed->now = dfi_timed_message(x, link, x->timed->now, bytes);
    arrived(x, r, p, dead);
    return false;
  }
  const double when = due(x, link, bytes);
  if (when > 0) { depart(x, r, p, dead, when); return true; }
  arrived(x, r, p, dead);
  return false;
}
