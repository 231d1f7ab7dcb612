/* gather.c: see gather.h.
 *
 * An owner's part of a frame is to come, open, or over: over when one of its Enters has run and the part is not open.
 * What of an iteration is over somewhere has run there; its values are gone, as those are that all have read. Frames
 * get new numbers, parents first.
 */
#include "engine/observe/gather.h"
#include "engine/observe/halt.h"
#include "engine/tokens/frame.h"
#include "engine/token.h"
#include "engine/observe/log.h"
#include "engine/owners/team.h"
#include "engine/observe/watch.h"

enum { HISTORY = 768 };            /* tokens that ran, of all owners together */

typedef enum stage { NO_PART, TO_COME, OPEN, OVER } stage;

/* A frame, and what each owner has of it. */
typedef struct whole {
  dfi_frame  *frame;             /* owned */
  dfi_frame **part;              /* by owner; NULL: none that is open */
  stage      *stage;             /* by owner */
  bool        lone;              /* all of it is one owner's: of a function the caller's */
} whole;

/* A frame that has ended, of which some token of the history was. */
typedef struct ended { int32_t member; uint32_t serial; dfi_frame *frame; } ended;

typedef struct gathering {
  dfi_exec    x;                 /* first: what others see */
  dfi_exec   *first;
  int32_t     n;                 /* owners */
  dfi_exec  **member;            /* each of them, or what is seen of it; NULL: it has done its part, on another rank */
  whole      *whole; int32_t nwholes, whole_room;
  dfi_record **record; int32_t nrecords, record_room;   /* by `seen` of the owners' records */
  ended      *ended; int32_t nended, ended_room;
  dfi_call   *call; int32_t ncalls, call_room;
  df_value   *given;             /* owned, of a run over ranks; its values are not */
  uint16_t  **slot_owner, **constant_owner;             /* by scope */
} gathering;

static dfi_exec *member(const gathering *g, int32_t o) { return g->member[o]; }

/* Is it one of this process, so that its frames' numbers in the log are this one's? */
static bool is_here(const gathering *g, int32_t o) {
  for (int32_t i = 0; i < dfi_team_size(g->first); i++) if (dfi_team_at(g->first, i) == g->member[o]) return true;
  return false;
}

/* By what number owner o's frame goes in the log here, which has that one in its own; 0: that is not known yet. */
static uint32_t logged_here(const gathering *g, int32_t o, uint32_t logged_as) {
  return is_here(g, o) ? logged_as : dfi_halt_name(g->first->watch->halt, o, logged_as);
}

static const dfi_scope *scope_of_owner(const gathering *g, int32_t o, int32_t scope) {
  return &g->first->plan->parts->scope[o][scope];
}

/* ---- whose slots are whose --------------------------------------------------------------------------------- */

static void find_slot_owners(gathering *g) {
  const dfi_plan *p = g->first->plan;
  g->slot_owner = dfi_xcalloc((size_t)p->nscopes, sizeof *g->slot_owner);
  g->constant_owner = dfi_xcalloc((size_t)p->nscopes, sizeof *g->constant_owner);
  for (int32_t s = 0; s < p->nscopes; s++) {
    g->slot_owner[s] = dfi_xcalloc(p->scope[s].nslots + 1, sizeof **g->slot_owner);
    g->constant_owner[s] = dfi_xcalloc(p->scope[s].nconsts + 1, sizeof **g->constant_owner);
  }
  for (int32_t i = 0; i < p->nnodes; i++) {
    const dfi_pnode *q = &p->node[i];
    const uint16_t owner = (uint16_t)dfi_receiver_of(p, q);
    const bool enters = q->kind == DFI_K_ENTER;
    const int32_t s = enters                 ? (int32_t)q->target
                      : dfi_is_exit(q->kind) ? p->scope[q->scope].parent
                                             : (int32_t)q->scope;
    if (s < 0) continue;
    if (enters && q->constant) { g->constant_owner[s][q->out] = owner; continue; }
    for (uint32_t k = 0; k < q->nout && q->out + k < p->scope[s].nslots; k++)
      g->slot_owner[s][q->out + k] = owner;
  }
  for (int32_t i = 0; i < p->ngroups; i++) {
    const dfi_scope *s = NULL;
    for (int32_t k = 0; k < p->nscopes && !s; k++)
      for (uint32_t m = 0; m < p->scope[k].ngroups; m++) if (p->scope[k].groups[m] == (uint32_t)i) s = &p->scope[k];
    if (s) g->slot_owner[s->id][p->group[i].slot] = p->parts->owner[p->group[i].device];
  }
}

/* ---- frames ------------------------------------------------------------------------------------------------- */

/* No part of the loop is open in r: has it been? */
static bool entered(const gathering *g, int32_t o, const dfi_record *r, int32_t scope) {
  const dfi_scope *s = scope_of_owner(g, o, scope);
  for (uint32_t i = 0; i < s->nenters; i++)
    if (!(r->counts[s->enters[i] - r->nodes] & ~DFI_DEAD) && !dfi_in_queue(member(g, o), r, s->enters[i])) return true;
  return false;
}

/* The record that owner o has of an iteration; NULL: none, and *at says why. */
static dfi_record *part_at(const whole *w, int32_t o, int64_t number, stage *at) {
  const dfi_frame *f = w->part[o];
  *at = w->stage[o];
  if (!f) return NULL;
  *at = number < f->first ? OVER : number >= f->next ? TO_COME : OPEN;
  return *at == OPEN ? f->ring[number & (f->capacity - 1)] : NULL;
}

static void history_of(gathering *g, const dfi_frame *f, int64_t next) {
  g->x.history[f->serial & ((1u << DFI_STAMP_SERIAL_BITS) - 1)] =
      (dfi_frame_history){ f->serial, (uint32_t)f->scope->id, f->parent ? f->parent->serial : 0, 0,
                           f->origin ? f->origin->number : 0, next };
}

/* serial: what its number is in the run's log; where there is none it gets the next one. */
static dfi_frame *frame_new(gathering *g, const dfi_scope *s, dfi_record *origin, uint32_t serial, int64_t first,
                            int64_t next) {
  dfi_frame *f = dfi_xcalloc(1, sizeof *f);
  f->scope = s;
  f->serial = g->first->logs ? serial : (uint32_t)(g->nwholes + g->nended);
  f->parent = origin ? origin->frame : NULL;
  f->origin = origin;
  f->depth = origin ? origin->frame->depth + 1 : 0;
  f->first = first;
  f->next = next;
  f->window = s->parallel_iterations;
  f->nexits = s->nexits;
  for (f->capacity = 1; f->capacity < next - first;) f->capacity *= 2;
  f->ring = dfi_xcalloc((size_t)f->capacity, sizeof *f->ring);
  f->constants = dfi_xcalloc(s->nconsts + 1, sizeof *f->constants);
  f->enter_dead = dfi_xcalloc(s->nenters + s->nexits + 1, 1);
  f->exit_fired = f->enter_dead + s->nenters;
  return f;
}

/* Whose part something of owner o is in. */
static const dfi_frame *part_of(const whole *w, int32_t o, int32_t n) {
  if (!w->lone) return w->part[o];
  for (int32_t i = 0; i < n; i++) if (w->part[i]) return w->part[i];
  return NULL;
}

static void fill_frame(const gathering *g, whole *w) {
  const dfi_plan *p = g->first->plan;
  dfi_frame *f = w->frame;
  const dfi_scope *s = f->scope;
  bool begun = false;
  int32_t missing = 0;
  for (int32_t o = 0; o < g->n; o++) {
    const dfi_frame *part = w->part[o];
    begun |= w->stage[o] == OVER || (part && !part->enters_missing);
    missing += part ? part->enters_missing : w->stage[o] == TO_COME ? (int32_t)scope_of_owner(g, o, s->id)->nenters : 0;
    if (part) { f->some_dead |= part->some_dead; f->window = part->window; f->ndeferred += part->ndeferred; }
  }
  f->enters_missing = begun ? 0 : missing;
  f->deferred = dfi_xcalloc((size_t)f->ndeferred + 1, sizeof *f->deferred);
  for (int32_t o = 0, n = 0; o < g->n; o++)
    for (int32_t i = 0; w->part[o] && i < w->part[o]->ndeferred; i++) f->deferred[n++] = w->part[o]->deferred[i];
  for (uint32_t c = 0; c < s->nconsts; c++) {
    const dfi_frame *part = part_of(w, g->constant_owner[s->id][c], g->n);
    if (part) f->constants[c] = part->constants[c];
  }
  for (uint32_t i = 0; i < s->nenters; i++) {
    const dfi_frame *part = part_of(w, dfi_owner_of(p, s->enters[i]), g->n);
    if (part) f->enter_dead[s->enters[i]->enter] = part->enter_dead[s->enters[i]->enter];
  }
  for (uint32_t i = 0; i < s->nexits; i++) {
    const int32_t o = dfi_owner_of(p, s->exits[i]);
    const dfi_frame *part = part_of(w, o, g->n);
    f->exit_fired[s->exits[i]->child] = part ? part->exit_fired[s->exits[i]->child] : w->stage[o] == OVER;
  }
}

/* ---- iterations --------------------------------------------------------------------------------------------- */

static void copy_counts(const gathering *g, const whole *w, dfi_record *to) {
  const dfi_scope *s = w->frame->scope;
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = to->nodes + i;
    stage at = NO_PART;
    const dfi_record *r = NULL;
    for (int32_t o = 0; w->lone && o < g->n && !r; o++) r = part_at(w, o, to->number, &at);
    if (!w->lone) r = part_at(w, dfi_owner_of(g->first->plan, p), to->number, &at);
    to->counts[i] = r ? r->counts[i] : at != OVER ? s->counts[i]
                      : p->kind == DFI_K_MERGE ? DFI_MERGE_FIRED | DFI_MERGE_LIVE : 0;
  }
}

static void copy_slots(const gathering *g, const whole *w, dfi_record *to) {
  const dfi_scope *s = w->frame->scope;
  const uint16_t *owner = g->slot_owner[s->id];
  for (uint32_t i = 0; i < s->nslots; i++) {
    stage at;
    const dfi_record *r = NULL;
    for (int32_t o = 0; w->lone && o < g->n && !r; o++) r = part_at(w, o, to->number, &at);
    if (!w->lone) r = part_at(w, owner[i], to->number, &at);
    if (r) to->base[DFI_ITERATION][i] = r->base[DFI_ITERATION][i];
  }
}

/* What an owner has sent and does not keep, as all that read it there have, is with the receiver. */
static void copy_received(const gathering *g, const whole *w, dfi_record *to) {
  const dfi_plan *plan = g->first->plan;
  const dfi_scope *s = w->frame->scope;
  for (uint32_t i = 0; i < s->n && !w->lone; i++) {
    const dfi_pnode *p = to->nodes + i;
    if (p->kind != DFI_K_TRANSFER || !p->nin || DFI_SPACE(plan->operand[p->in]) != DFI_ITERATION) continue;
    df_value *sent = to->base[DFI_ITERATION] + DFI_INDEX(plan->operand[p->in]);
    stage come;
    const dfi_record *r = sent->kind == DF_EMPTY ? part_at(w, dfi_receiver_of(plan, p), to->number, &come) : NULL;
    if (r && !r->counts[i]) *sent = r->base[DFI_ITERATION][p->out];
  }
}

static dfi_record *gathered_record(gathering *g, dfi_frame *f, int64_t number) {
  const dfi_scope *s = f->scope;
  dfi_record *r = dfi_xcalloc(1, sizeof *r + 16 + sizeof(df_value) * s->nslots + sizeof(dfi_frame *) * s->nchildren +
                                     sizeof *r->counts * (s->n + 1u));
  dfi_iteration_begin(&g->x, f, number, r, (char *)(r + 1) + (16 - sizeof *r % 16) % 16);
  r->stamp = dfi_stamp(f->serial, number);
  f->ring[number & (f->capacity - 1)] = r;
  return r;
}

/* The loop that is at place c within scope s; NULL: it is a call's, or a second time's. */
static const dfi_scope *loop_at(const dfi_plan *p, const dfi_scope *s, uint32_t c) {
  for (int32_t i = 0; i < p->nscopes; i++)
    if (p->scope[i].parent == s->id && p->scope[i].child == c) return &p->scope[i];
  return NULL;
}

static whole *whole_new(gathering *g) {
  DFI_GROW(g->whole, g->nwholes, g->whole_room);
  whole *w = &g->whole[g->nwholes];
  const size_t owners = (size_t)g->n;
  *w = (whole){ .part = dfi_xcalloc(owners, sizeof *w->part), .stage = dfi_xcalloc(owners, sizeof *w->stage) };
  return w;
}

static void whole_drop(whole *w) { dfi_free(w->part); dfi_free(w->stage); }

/* The frame that was opened at place c of iteration r, in whole number `in`; none is put down where none is open. */
static void find_child(gathering *g, int32_t in, dfi_record *r, uint32_t c) {
  const dfi_plan *p = g->first->plan;
  whole *w = whole_new(g);                 /* what it takes before may move */
  const whole *around = &g->whole[in];
  const dfi_scope *s = loop_at(p, around->frame->scope, c);
  int64_t first = INT64_MAX, next = 0;
  bool open = false, over = false, to_come = false;
  uint32_t logged_as = 0;
  dfi_pnode *call = NULL;
  const bool lone = !s;                    /* a call's, or an owner's that runs a second time */
  for (int32_t o = 0; o < g->n; o++) {
    const dfi_record *own = part_at(around, o, r->number, &w->stage[o]);
    dfi_frame *f = own ? own->children[c] : NULL;
    w->part[o] = f;
    if (f) {
      if (lone) { call = f->call; s = &p->scope[f->scope->id]; }
      w->stage[o] = OPEN;
      const uint32_t here = logged_here(g, o, f->logged_as);
      if (here) logged_as = here;
      first = f->first < first ? f->first : first;
      next = f->next > next ? f->next : next;
      open = true;
    } else if (lone || !dfi_team_takes_part(g->first, o, s->id)) { w->stage[o] = NO_PART; continue; }
    else if (own) w->stage[o] = entered(g, o, own, s->id) ? OVER : TO_COME;
    over |= w->stage[o] == OVER;
    to_come |= w->stage[o] == TO_COME;
  }
  if (to_come) first = 0;
  if (!open && !(over && to_come)) { whole_drop(w); return; }
  if (!open && g->first->logs) logged_as = dfi_log_number(g->first->watch, s, r);
  if (open && !logged_as && g->first->logs) logged_as = dfi_log_name(g->first->watch, s, r, call);
  w->frame = frame_new(g, s, r, logged_as, first, next > first ? next : first + 1);
  w->frame->call = call;
  w->lone = lone || around->lone;
  r->children[c] = w->frame;
  history_of(g, w->frame, -1);
  g->nwholes++;
}

static void fill_iterations(gathering *g, int32_t in) {
  dfi_frame *f = g->whole[in].frame;
  for (int64_t n = f->first; n < f->next; n++) {
    dfi_record *r = gathered_record(g, f, n);
    copy_counts(g, &g->whole[in], r);
    copy_slots(g, &g->whole[in], r);
    copy_received(g, &g->whole[in], r);
    DFI_GROW(g->record, g->nrecords, g->record_room);
    g->record[g->nrecords] = r;
    stage at;
    for (int32_t o = 0; o < g->n; o++) {
      dfi_record *own = part_at(&g->whole[in], o, n, &at);
      if (own) own->seen = g->nrecords;
    }
    g->nrecords++;
    for (uint32_t c = 0; c < f->scope->nchildren; c++) find_child(g, in, r, c);
  }
}

static void gather_frames(gathering *g) {
  whole *top = whole_new(g);
  for (int32_t o = 0; o < g->n; o++) {
    top->part[o] = member(g, o) ? member(g, o)->root : NULL;
    top->stage[o] = top->part[o] ? OPEN : member(g, o) ? TO_COME : OVER;
  }
  top->frame = g->x.root = frame_new(g, g->first->plan->scope, NULL, 0, 0, 1);
  history_of(g, top->frame, -1);
  g->nwholes++;
  for (int32_t i = 0; i < g->nwholes; i++) {
    fill_frame(g, &g->whole[i]);
    fill_iterations(g, i);
  }
}

/* ---- tokens, calls, messages ---------------------------------------------------------------------------------- */

static void away(gathering *g, const dfi_call *like, dfi_record *r, dfi_pnode *p, dfk_stop_fn stop) {
  DFI_GROW(g->call, g->ncalls, g->call_room);
  dfi_call *c = &g->call[g->ncalls++];
  *c = (dfi_call){ .exec = &g->x, .record = r, .node = p, .stop = stop };
  if (like) { c->what = like->what; c->user = like->user; c->kernel = like->kernel; }
}

static void on_its_way(df_kernel *k, void *user) { (void)k; (void)user; }

/* The iteration that a message is of; NULL: its frame is not open anywhere. */
static dfi_record *record_of(const gathering *g, const dfi_team_message *l) {
  const dfi_plan *p = g->first->plan;
  int32_t path[DFI_TAG_DEPTH], s = (int32_t)p->node[l->edge].scope;
  for (int32_t i = 0; i < l->depth; i++, s = p->scope[s].parent) path[i] = s;
  dfi_record *r = g->x.root->ring[0];
  for (int32_t i = l->depth - 1; i >= 0; i--) {
    const dfi_frame *f = r->children[p->scope[path[i]].child];
    if (!f || l->number[i] < f->first || l->number[i] >= f->next) return NULL;
    r = f->ring[l->number[i] & (f->capacity - 1)];
  }
  return r;
}

static void tell_message(void *to, const dfi_team_message *l) {
  gathering *g = to;
  dfi_record *r = record_of(g, l);
  if (r) away(g, NULL, r, &g->first->plan->node[l->edge], on_its_way);
}

static bool is_recv(const dfi_exec *x, const dfi_pnode *p) {
  return p->kind == DFI_K_TRANSFER && dfi_team_part(x, p) == DFI_RECEIVES;
}

static void gather_calls(gathering *g) {
  for (int32_t o = 0; o < g->n; o++) {
    dfi_exec *m = member(g, o);
    if (!m) continue;
    for (dfi_call *c = m->away; c; c = c->away_next)
      if (!dfi_team_awaits(c)) away(g, c, g->record[c->record->seen], c->node, c->stop);
    dfi_team_messages(m, tell_message, g);
  }
  for (int32_t i = 0; i < g->ncalls; i++) dfi_call_away(&g->x, &g->call[i]);
}

static void put(gathering *g, dfi_record *r, uint32_t node, uint32_t mark) {
  dfi_exec *x = &g->x;
  if (x->tail > x->queue_mask) {
    x->queue_mask = x->queue_mask * 2 + 1;
    x->queue = dfi_xrealloc(x->queue, sizeof *x->queue * ((size_t)x->queue_mask + 1));
  }
  x->queue[x->tail++] = (dfi_token){ r, node, (mark & DFI_DEAD) | r->stamp };
}

static void gather_tokens(gathering *g) {
  for (int32_t o = 0; o < g->n; o++) {
    const dfi_exec *m = member(g, o);
    for (uint32_t i = m ? m->head : 0; m && i != m->tail; i++) {
      const dfi_token *t = &m->queue[i & m->queue_mask];
      if (!is_recv(m, t->record->nodes + t->node)) put(g, g->record[t->record->seen], t->node, t->mark);
    }
  }
}

/* ---- the last tokens that ran ----------------------------------------------------------------------------------- */

static const dfi_frame_history *history_at(const gathering *g, int32_t o, uint32_t serial) {
  return &member(g, o)->history[serial & ((1u << DFI_STAMP_SERIAL_BITS) - 1)];
}

/* The frame by its number in the run's log, which is every owner's. */
static dfi_frame *logged_frame(const gathering *g, uint32_t logged_as) {
  for (int32_t i = 0; i < g->nwholes; i++) if (g->whole[i].frame->serial == logged_as) return g->whole[i].frame;
  for (int32_t i = 0; i < g->nended; i++) if (g->ended[i].frame->serial == logged_as) return g->ended[i].frame;
  return NULL;
}

static dfi_frame *frame_by(const gathering *g, int32_t o, uint32_t serial) {
  for (int32_t i = 0; i < g->nwholes; i++)
    if (g->whole[i].part[o] && g->whole[i].part[o]->serial == serial) return g->whole[i].frame;
  for (int32_t i = 0; i < g->nended; i++)
    if (g->ended[i].member == o && g->ended[i].serial == serial) return g->ended[i].frame;
  const dfi_frame_history *history = g->first->logs ? history_at(g, o, serial) : NULL;
  const uint32_t number = history && history->serial == serial ? logged_here(g, o, history->logged_as) : 0;
  return number ? logged_frame(g, number) : NULL;
}

/* A frame that has ended: what a token of it needs to tell where it was. */
static dfi_frame *ended_frame(gathering *g, int32_t o, uint32_t serial, const dfi_scope *s) {
  DFI_GROW(g->ended, g->nended, g->ended_room);
  const dfi_frame_history *history = history_at(g, o, serial);
  uint32_t number = logged_here(g, o, history->logged_as);
  if (!number && g->first->logs) number = ++g->first->watch->logged_frames;
  dfi_frame *f = frame_new(g, s, NULL, number, 0, 1);
  g->ended[g->nended++] = (ended){ o, serial, f };
  gathered_record(g, f, 0);
  history_of(g, f, history->next);
  return f;
}

/* A token that ran, or what it made, as others see it. */
static dfi_token seen_token(gathering *g, int32_t o, const dfi_token *t) {
  const dfi_exec *m = member(g, o);
  const dfi_scope *s = &m->plan->scope[t->record->frame->scope->id];
  uint32_t serial;
  int64_t number;
  dfi_watch_place(m, t, &serial, &number);
  dfi_frame *f = frame_by(g, o, serial);
  if (!f || f->scope != s) f = ended_frame(g, o, serial, s);
  return (dfi_token){ f->ring[f->first & (f->capacity - 1)], t->node,
                      (t->mark & DFI_DEAD) | dfi_stamp(f->serial, number) };
}

/* Of each owner as many, in turn, the oldest first. */
static void gather_history(gathering *g) {
  const uint32_t each = HISTORY / (uint32_t)g->n;
  for (uint32_t back = each; back >= 1; back--)
    for (int32_t o = 0; o < g->n; o++) {
      const dfi_exec *m = member(g, o);
      if (!m || !m->history || m->head - m->begun < back || m->queue_mask + 1 - (m->tail - m->head) < back) continue;
      const dfi_token *t = &m->queue[(m->head - back) & m->queue_mask];
      if (is_recv(m, t->record->nodes + t->node)) continue;
      const dfi_token seen = seen_token(g, o, t);
      put(g, seen.record, seen.node, seen.mark);
      g->x.queue[g->x.tail - 1].mark = seen.mark;
    }
  g->x.head = g->x.tail;
}

/* What was kept of what they made: as much of each. The values stay its owner's. */
static void gather_made(gathering *g) {
  dfi_exec *x = &g->x;
  if (!g->first->kept) return;               /* all keep them, or none */
  x->kept = dfi_xcalloc(DFI_KEPT_VALUES, sizeof *x->kept);
  for (uint32_t back = DFI_KEPT_VALUES / (uint32_t)g->n; back >= 1; back--)
    for (int32_t o = 0; o < g->n; o++) {
      const dfi_exec *m = member(g, o);
      if (!m || !m->kept || m->nkept < back) continue;
      const dfi_kept_value *k = &m->kept[(m->nkept - back) & (DFI_KEPT_VALUES - 1)];
      x->kept[x->nkept++] = (dfi_kept_value){ seen_token(g, o, &k->token), k->value };
    }
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static void find_members(gathering *g) {
  const dfi_exec *first = g->first;
  const bool ranks = first->watch->halt != NULL;
  g->n = ranks ? first->plan->parts->n : dfi_team_size(first);
  g->member = dfi_xcalloc((size_t)g->n, sizeof *g->member);
  for (int32_t o = 0; o < g->n; o++)
    g->member[o] = ranks ? dfi_halt_member(first->watch->halt, o) : dfi_team_at(first, o);
}

/* What is given on any rank. */
static df_value *find_given(gathering *g) {
  const dfi_plan *p = g->first->plan;
  const int32_t n = p->nfeed + p->nvariables + p->ncrossings;
  if (!g->first->watch->halt) return g->first->given;
  g->given = dfi_xcalloc((size_t)n + 1, sizeof *g->given);
  for (int32_t i = 0; i < n; i++)
    for (int32_t o = 0; o < g->n && g->given[i].kind == DF_EMPTY; o++)
      if (g->member[o]) g->given[i] = g->member[o]->given[i];
  return g->given;
}

int32_t dfi_gathered_members(const dfi_exec *x) { return ((const gathering *)x)->n; }
dfi_exec *dfi_gathered_member(const dfi_exec *x, int32_t i) { return ((const gathering *)x)->member[i]; }

dfi_exec *dfi_gather(dfi_exec *first) {
  gathering *g = dfi_xcalloc(1, sizeof *g);
  dfi_exec *x = &g->x;
  g->first = first;
  find_members(g);
  x->plan = first->plan;
  x->scope = first->plan->scope;
  x->edge = first->plan->edge;
  x->given = find_given(g);
  x->setup.shared = first->setup.shared;
  x->queue_mask = 1023;
  x->queue = dfi_xcalloc(x->queue_mask + 1, sizeof *x->queue);
  x->history = dfi_xcalloc((size_t)1 << DFI_STAMP_SERIAL_BITS, sizeof *x->history);
  find_slot_owners(g);
  gather_frames(g);
  gather_history(g);
  gather_made(g);
  gather_tokens(g);
  gather_calls(g);
  for (uint32_t i = x->head; i != x->tail; i++) x->queue[i].record->outstanding++;
  for (int32_t i = 0; i < g->ncalls; i++) g->call[i].record->outstanding++;
  for (int32_t i = 1; i < g->nwholes; i++) g->whole[i].frame->origin->outstanding++;
  return x;
}

int32_t dfi_gathered_frame(const dfi_exec *x, int32_t o, uint32_t serial) {
  const dfi_frame *f = frame_by((const gathering *)x, o, serial);
  return f ? (int32_t)f->serial : INT32_MAX;
}

static void frame_free(dfi_frame *f) {
  for (int64_t n = f->first; n < f->next; n++) dfi_free(f->ring[n & (f->capacity - 1)]);
  dfi_free(f->ring); dfi_free(f->constants); dfi_free(f->enter_dead); dfi_free(f->deferred);
  dfi_free(f);
}

void dfi_gather_free(dfi_exec *x) {
  gathering *g = (gathering *)x;
  if (!g) return;
  for (int32_t s = 0; s < x->plan->nscopes; s++) { dfi_free(g->slot_owner[s]); dfi_free(g->constant_owner[s]); }
  for (int32_t i = 0; i < g->nwholes; i++) { frame_free(g->whole[i].frame); whole_drop(&g->whole[i]); }
  for (int32_t i = 0; i < g->nended; i++) frame_free(g->ended[i].frame);
  dfi_free(g->whole); dfi_free(g->record); dfi_free(g->ended); dfi_free(g->call); dfi_free(g->member);
  dfi_free(g->given);
  dfi_free(g->slot_owner); dfi_free(g->constant_owner);
  dfi_free(x->queue); dfi_free(x->history); dfi_free(x->kept);
  dfi_free(g);
}
