/* rendezvous.c: where a message and its Recv meet: a table of each owner's, by the key of both. Whichever comes first
 * waits there.
 */
#include "engine/owners/team_internal.h"
#include "engine/clock/timed.h"
#include <math.h>
#include <stdio.h>

/* The key of p in r. */
static void key_of(dfi_team_message *l, const dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  l->edge = (uint32_t)(p - x->plan->node);
  for (l->depth = 0; r->frame->origin; r = r->frame->origin) l->number[l->depth++] = r->number;
  l->hash = dfi_key_hash(l->edge, l->depth, l->number);
}

static bool same_key(const dfi_team_message *a, const dfi_team_message *b) {
  if (a->hash != b->hash || a->edge != b->edge) return false;
  for (int32_t i = 0; i < a->depth; i++) if (a->number[i] != b->number[i]) return false;
  return true;
}

static void widen(dfi_exec *x) {
  const uint32_t old = x->rendezvous_mask + 1;
  dfi_team_message **wider = dfi_xcalloc((size_t)old * 2, sizeof *wider);
  for (uint32_t i = 0; i < old; i++)
    for (dfi_team_message *l = x->rendezvous[i], *next; l; l = next) {
      next = l->next;
      l->next = wider[l->hash & (old * 2 - 1)];
      wider[l->hash & (old * 2 - 1)] = l;
    }
  dfi_free(x->rendezvous);
  x->rendezvous = wider;
  x->rendezvous_mask = old * 2 - 1;
}

static void wait_here(dfi_exec *x, dfi_team_message *l) {
  if (x->nrendezvous > x->rendezvous_mask) widen(x);
  dfi_team_message **at = &x->rendezvous[l->hash & x->rendezvous_mask];
  l->next = *at;
  *at = l;
  x->nrendezvous++;
}

/* Takes the one with the key of l (or l itself) out of the table; NULL: it is not there. */
static dfi_team_message *meet(dfi_exec *x, const dfi_team_message *l) {
  for (dfi_team_message **at = &x->rendezvous[l->hash & x->rendezvous_mask]; *at; at = &(*at)->next) {
    dfi_team_message *found = *at;
    if (!same_key(found, l)) continue;
    *at = found->next;
    x->nrendezvous--;
    return found;
  }
  return NULL;
}

void dfi_team_send(dfi_exec *x, const dfi_record *r, dfi_pnode *p, uint32_t dead, double due, double came,
                   df_value v) {
  const int32_t owner = x->plan->parts->owner[p->device];
  dfi_exec *to = dfi_team_member_of(x->team, owner);
  if (DFI_UNLIKELY(isinf(due))) atomic_store(&x->team->held, 1);
  x->sent++;
  for (uint32_t more = dead ? p->target : 0; more; more = x->plan->node[more - 1].target) x->sent++;
  if (DFI_UNLIKELY(x->rank != NULL) && (!to || x->team->serial)) {
    dfi_across_send(x, r, p, owner, dead, due, v);
    if (to) dfi_exec_ring(to);             /* it is not stuck */
    return;
  }
  dfi_team_message *l = dfi_xmalloc(sizeof *l);
  key_of(l, x, r, p);
  l->recv = NULL;
  l->due = due;
  l->came = came;
  l->event = x->timed ? x->timed->current : 0;
  l->dead = dead;
  l->value = v;
  dfi_team_post(to, l);
}

dfi_team_message *dfi_team_message_for(const dfi_team_message *l, uint32_t edge) {
  dfi_team_message *m = dfi_xmalloc(sizeof *m);
  *m = *l;
  m->edge = edge;
  m->hash = dfi_key_hash(edge, m->depth, m->number);
  return m;
}

bool dfi_team_awaits(const dfi_call *c) { return c->stop == dfi_team_recv_stop; }

/* The run has failed, and the Recv waits no more. */
void dfi_team_recv_stop(df_kernel *k, void *user) {
  dfi_flight *f = user;
  (void)k;
  meet(f->call.exec, &f->at);
  f->due = 0;
  f->call.exec->waiting--;
  dfi_flight_list(f->call.exec, f);
}

static void recv_text(df_kernel *k, void *user, char *text, size_t bytes) {
  const dfi_flight *f = user;
  const dfi_plan *p = f->call.exec->plan;
  (void)k;
  const size_t n = (size_t)snprintf(text, bytes, "waits for its value from %s",
                                    p->devices->at[p->link[f->call.node->child].from]->name);
  if (f->since > 0 && n < bytes) snprintf(text + n, bytes - n, ", for %.1f s so far", dfi_now() - f->since);
}

static int32_t awaited_rank(const dfi_exec *x, const dfi_flight *f) {
  const dfi_plan *p = x->plan;
  return p->devices->at[p->link[f->call.node->child].from]->rank;
}

/* The Recv that has waited longest, or, of those for the values of rank `lost`, in the innermost loops; NULL: none
 * waits. */
static const dfi_flight *oldest_wait(const dfi_exec *x, int32_t lost) {
  const dfi_flight *oldest = NULL;
  for (const dfi_call *c = x->away; c; c = c->away_next) {
    const dfi_flight *f = dfi_team_awaits(c) ? c->user : NULL;
    if (!f || f->since <= 0 || (lost >= 0 && awaited_rank(x, f) != lost)) continue;
    const int32_t deeper = oldest && lost >= 0 ? f->at.depth - oldest->at.depth : 0;
    if (!oldest || deeper > 0 || (!deeper && f->since < oldest->since)) oldest = f;
  }
  return oldest;
}

const dfi_record *dfi_team_waits_in(const dfi_exec *x) {
  const df_error *lost = &x->team->elsewhere;
  const bool is = atomic_load(&x->team->failed) == FAILED_ELSEWHERE && lost->rank;
  const dfi_flight *f = is ? oldest_wait(x, lost->rank - 1) : NULL;
  return f ? f->call.record : NULL;
}

void dfi_team_tell_wait(dfi_exec *x) {
  const dfi_flight *oldest = oldest_wait(x, -1);
  if (!oldest) return;
  const dfi_pnode *recv = oldest->call.node;
  char frame[100];
  dfi_rank_wait w = { awaited_rank(x, oldest), oldest->since, dfi_now(), "" };
  const char *name = dfi_node_name(recv->node);              /* `x:0 to /rank:2/cpu:0` */
  const int length = (int)strcspn(name, " ");
  snprintf(w.what, sizeof w.what, "%.*s%s%s", length < 90 ? length : 90, name, oldest->at.depth ? " in " : "",
           oldest->at.depth ? dfi_frame_path(oldest->call.record, frame, sizeof frame) : "");
  dfi_rank_waits(x->rank, &w);
}

dfi_team_message *dfi_team_receive(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  dfi_team_message key;
  key_of(&key, x, r, p);
  dfi_team_message *l = meet(x, &key);
  if (l) { x->received++; return l; }
  dfi_flight *f = dfi_flight_new(x, r, p);
  f->call.stop = dfi_team_recv_stop;
  f->call.what = recv_text;
  f->at = key;
  f->at.recv = f;
  f->recv = x->timed ? x->timed->current : 0;
  f->since = x->setup.rank_run ? dfi_now() : 0;
  dfi_call_away(x, &f->call);
  wait_here(x, &f->at);
  return NULL;
}

dfi_flight *dfi_team_deliver(dfi_exec *x, dfi_team_message *l) {
  dfi_team_message *found = meet(x, l);
  if (!found) { wait_here(x, l); return NULL; }
  dfi_flight *f = found->recv;
  x->received++;
  dfi_flight_takes(f, l);
  dfi_free(l);
  x->waiting--;                            /* it comes by itself, now */
  x->flying += dfi_value_bytes(&f->value);
  return f;
}

bool dfi_team_takes_part(const dfi_exec *x, int32_t o, int32_t scope) {
  const dfi_scope *s = &x->plan->parts->scope[o][scope];
  for (uint32_t i = 0; i < s->nenters; i++) if (!s->enters[i]->constant) return true;
  return false;
}

/* A message that has not been taken out of the inbox stands for those that are dead with it. */
static int64_t tell_standing(const dfi_exec *x, const dfi_team_message *l,
                             void (*tell)(void *to, const dfi_team_message *l), void *to) {
  int64_t n = 1;
  tell(to, l);
  for (uint32_t more = l->dead ? x->plan->node[l->edge].target : 0; more; more = x->plan->node[more - 1].target, n++) {
    dfi_team_message *m = dfi_team_message_for(l, more - 1);
    tell(to, m);
    dfi_free(m);
  }
  return n;
}

int64_t dfi_team_messages(dfi_exec *x, void (*tell)(void *to, const dfi_team_message *l), void *to) {
  int64_t n = 0;
  if (DFI_UNLIKELY(x->rank != NULL)) dfi_across_settle(x->team);
  pthread_mutex_lock(&x->inbox_lock);
  for (const dfi_team_message *l = x->messages; l; l = l->next) n += tell_standing(x, l, tell, to);
  pthread_mutex_unlock(&x->inbox_lock);
  for (uint32_t i = 0; i <= x->rendezvous_mask; i++)
    for (const dfi_team_message *l = x->rendezvous[i]; l; l = l->next) if (!l->recv) { tell(to, l); n++; }
  return n;
}

