/* ledger.c: the books of a paused run: every token there has been, and where it is now.
 *
 * One side is what the engine counts: tokens sent to the queue and taken from it, dead ones, what each iteration has
 * outstanding, what each node still waits for. The other side is found by walking all that is alive. They balance:
 *
 *   (1) sent == ran + died + live + dead: the first two were taken from the queue, the others are in it
 *   (2) of those that ran, `running` are not done: the engine's own count of calls
 *   (3) of every open iteration: outstanding == tokens in the queue + calls that run + open child frames
 *   (4) of every node of every open iteration: the inputs it waits for == the tokens that nodes which have not run yet
 *       owe it, and those that will never come (lost): a NextIteration that was dead sends none. Dead inputs of a Merge
 *       are counted apart.
 *   (5) pending == owed + lost, the sums of (4)
 *
 * Of a run that several owners turn each has books of its own, of the nodes that are its; a Recv is no token to them,
 * as the one that sends has it in its books. Then
 *
 *   (6) messages sent to another owner == those that have met their Recv + those that are on their way
 *
 * Nothing is changed but each record's `seen`. A graph that was imported and whose loops could not be raised may have
 * let a NextIteration die in an iteration that is over and not known any more; there (4) is what is possible.
 */
#include "inspect/inspect.h"
#include "engine/observe/gather.h"
#include "engine/owners/team.h"
#include "engine/token.h"

/* What the sources of a node in an iteration have sent it, or will. */
typedef struct account {
  int32_t live, dead, either;      /* have come; `either`: whose deadness is not known any more */
  int32_t owed, lost, doubtful;    /* doubtful: came or was lost */
  int32_t controls;                /* of owed, lost and doubtful: control edges of a Merge */
} account;

enum { READY_LIVE = 1, READY_DEAD, AWAY };
enum { SENT_LIVE, SENT_DEAD, SENT_EITHER, OWED, LOST, DOUBTFUL };

typedef struct book {
  const dfi_exec *x;
  df_ledger  *sum;
  dfi_frame **frame; int32_t nframes, frame_cap;
  uint8_t    *state; uint32_t places;      /* by record's `seen` + node */
  account    *account;             /* nodes of the iteration at hand */
  df_error   *err;
  int32_t     status;
} book;

#define WRONG(k, r, p, ...) do { if (!(k)->status) { (k)->status = dfi_fail((k)->err, DF_INTERNAL, NULL, __VA_ARGS__); \
  dfi_exec_blame(r, p, (k)->err); } } while (0)

/* Where several owners turn the run: what p is to this one. */
typedef enum whose { MINE, RECEIVED, NOT_MINE } whose;

static bool of_function(const dfi_plan *p, int32_t scope) {
  while (scope > 0) scope = p->scope[scope].parent;
  return scope != 0;
}

static whose whose_is(const book *k, const dfi_pnode *p) {
  const dfi_exec *x = k->x;
  if (!x->team || of_function(x->plan, (int32_t)p->scope)) return MINE;
  if (p->kind != DFI_K_TRANSFER) return x->plan->parts->owner[p->device] == x->place ? MINE : NOT_MINE;
  const dfi_link *l = &x->plan->link[p->child];
  const uint16_t *owner = x->plan->parts->owner;
  return owner[l->from] == x->place ? MINE : owner[l->to] == x->place ? RECEIVED : NOT_MINE;
}

static bool started(const dfi_record *r) { return r->number > 0 || !r->frame->enters_missing; }

/* Has p had its turn in r, and is what it did at an end? */
static bool has_run(const book *k, const dfi_record *r, const dfi_pnode *p) {
  const uint32_t i = (uint32_t)(p - r->nodes), c = r->counts[i];
  if (!started(r) || k->state[(uint32_t)r->seen + i]) return false;
  if (p->kind == DFI_K_CALL && r->children[p->child]) return false;
  return p->kind == DFI_K_MERGE ? (c & DFI_MERGE_FIRED) != 0 : (c & ~DFI_DEAD) == 0;
}

static bool was_dead(const dfi_record *r, const dfi_pnode *p) {
  const uint32_t c = r->counts[p - r->nodes];
  if (p->kind == DFI_K_TRIGGER) return false;
  return p->kind == DFI_K_MERGE ? !(c & DFI_MERGE_LIVE) : (c & DFI_DEAD) != 0;
}

/* Books tokens along edges [from, to). */
static void enter(book *k, uint32_t from, uint32_t to, int32_t what) {
  for (const dfi_edge *e = k->x->edge + from, *end = k->x->edge + to; e < end; e++) {
    account *a = &k->account[e->node];
    const uint32_t kind = e->to & 0xff;
    if (kind == DFI_TO_EXIT) continue;               /* it keeps no count */
    if (kind == DFI_TO_MERGE_CONTROL) a->controls += what >= OWED;
    else if (what == SENT_LIVE) a->live++;
    else if (what == SENT_DEAD) a->dead++;
    else if (what == SENT_EITHER) a->either++;
    if (what == OWED) a->owed++;
    else if (what == LOST) a->lost++;
    else if (what == DOUBTFUL) a->doubtful++;
  }
}

/* What will never come in an iteration: a loop's Merge with a node of its own gets one of its inputs only. */
static void enter_unmerged(book *k, const dfi_pnode *p) {
  for (uint32_t e = p->edge[0]; e < p->edge[1]; e++)
    if ((k->x->edge[e].to & 0xff) == DFI_TO_MERGE) k->account[k->x->edge[e].node].lost++;
}

static void from_node(book *k, const dfi_record *r, const dfi_pnode *p) {
  const whose w = whose_is(k, p);
  /* its value is read by the receiver */
  if (w == NOT_MINE || (w == MINE && p->kind == DFI_K_TRANSFER && k->x->team && dfi_team_part(k->x, p) == DFI_SENDS))
    return;
  if (!has_run(k, r, p)) { enter(k, p->edge[0], p->edge[3], OWED); return; }
  if (was_dead(r, p)) { enter(k, p->edge[0], p->edge[p->kind == DFI_K_SWITCH ? 3 : 1], SENT_DEAD); return; }
  if (p->kind == DFI_K_SWITCH) {
    const bool side = operand(r, k->x->plan->operand[p->in + 1])->as.u8 != 0;
    enter(k, p->edge[0], p->edge[1], side ? SENT_DEAD : SENT_LIVE);
    enter(k, p->edge[1], p->edge[2], side ? SENT_LIVE : SENT_DEAD);
    enter(k, p->edge[2], p->edge[3], SENT_LIVE);
  } else enter(k, p->edge[0], p->edge[1], p->kind == DFI_K_CALL ? SENT_EITHER : SENT_LIVE);
}

/* The Enters' tokens come to iteration 0 when the frame starts. */
static void from_enter(book *k, const dfi_record *r, const dfi_pnode *p) {
  const bool dead = r->frame->enter_dead[p->enter];
  if (p->constant) return;
  if (r->number) enter_unmerged(k, p);
  else if (!started(r)) enter(k, p->edge[0], p->edge[1], OWED);
  else enter(k, p->edge[0], p->edge[1], dead && p->merges && !k->x->team ? LOST : dead ? SENT_DEAD : SENT_LIVE);
}

static void from_next(book *k, const dfi_record *r, const dfi_pnode *p) {
  const dfi_frame *f = r->frame;
  if (whose_is(k, p) != MINE) return;
  if (!r->number) { enter_unmerged(k, p); return; }
  const dfi_record *before = r->number > f->first ? f->ring[(r->number - 1) & (f->capacity - 1)] : NULL;
  int32_t what = SENT_LIVE;                          /* a loop's NextIterations are all live or all dead */
  if (before) what = !has_run(k, before, p) ? OWED : was_dead(before, p) ? LOST : SENT_LIVE;
  else if (p->node->context->kind == DFI_TOP) what = DOUBTFUL;
  enter(k, p->edge[0], p->edge[1], what);
}

/* Tokens that come out of a loop opened in r. */
static void from_exits(book *k, const dfi_record *r, const dfi_scope *loop) {
  const dfi_frame *f = r->children[loop->child];
  bool over = !f;
  for (uint32_t i = 0; over && i < loop->nenters; i++) over = has_run(k, r, loop->enters[i]);
  for (uint32_t i = 0; i < loop->nexits; i++)
    enter(k, loop->exits[i]->edge[0], loop->exits[i]->edge[1],
          f      ? f->exit_fired[loop->exits[i]->child] ? SENT_LIVE : OWED
          : over ? SENT_EITHER
                 : OWED);
}

static void check_node(book *k, const dfi_record *r, const dfi_pnode *p) {
  const uint32_t i = (uint32_t)(p - r->nodes), c = r->counts[i];
  const account a = k->account[i];
  const int32_t least = a.owed + a.lost, most = least + a.doubtful;
  int32_t waits;
  if ((dfi_is_exit(p->kind) && !p->node->ncontrol) || whose_is(k, p) != MINE) return;
  if (p->kind == DFI_K_MERGE) {
    /* inputs that came and were not dead */
    const int32_t none = (int32_t)DFI_MERGE_DEADS(c), live = none - (least - a.controls);
    if ((int32_t)DFI_MERGE_CONTROLS(c) != a.controls || live < a.live || live > a.live + a.either + a.doubtful ||
        (live > 0) != !!(c & DFI_MERGE_LIVE))
      WRONG(k, r, p,
            "`%s` has %d inputs that were not dead and %u controls to come, but %d live ones came to it, %d of which "
            "nothing is known, and %d are to come",
            dfi_node_name(p->node), none, DFI_MERGE_CONTROLS(c), a.live, a.either, least);
    waits = none - live + (int32_t)DFI_MERGE_CONTROLS(c);
  } else {
    waits = (int32_t)(c & ~DFI_DEAD);
    if (waits < least || waits > most)
      WRONG(k, r, p, "`%s` waits for %d tokens, but %d are owed to it", dfi_node_name(p->node), waits, least);
    const bool dead = (c & DFI_DEAD) != 0;
    if (dead ? !a.dead && !a.either && !r->frame->some_dead : a.dead > 0)
      WRONG(k, r, p, "`%s` is %s, but %d dead tokens came to it", dfi_node_name(p->node), dead ? "dead" : "live",
            a.dead);
  }
  k->sum->pending += waits;
  k->sum->owed += a.owed;
  k->sum->lost += waits - a.owed;
}

static void check_iteration(book *k, const dfi_record *r) {
  const dfi_scope *s = r->frame->scope;
  int32_t outstanding = 0;
  memset(k->account, 0, sizeof *k->account * s->n);
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = r->nodes + i;
    const uint8_t state = k->state[(uint32_t)r->seen + i];
    outstanding += state != 0;
    k->sum->live += state == READY_LIVE;
    k->sum->dead += state == READY_DEAD;
    k->sum->running += state == AWAY;
    if (dfi_is_next(p->kind)) from_next(k, r, p);
    else if (p->kind != DFI_K_ENTER && !dfi_is_exit(p->kind)) from_node(k, r, p);
  }
  for (uint32_t i = 0; i < s->nenters; i++) from_enter(k, r, s->enters[i]);
  for (int32_t i = 0; i < k->x->plan->nscopes; i++)
    if (k->x->scope[i].parent == s->id) from_exits(k, r, &k->x->scope[i]);
  for (uint32_t c = 0; c < s->nchildren; c++) outstanding += r->children[c] != NULL;
  if (outstanding != r->outstanding)
    WRONG(k, r, r->nodes, "the iteration has %d outstanding, but %d are found", r->outstanding, outstanding);
  for (uint32_t i = 0; i < s->n; i++) check_node(k, r, r->nodes + i);
}

/* All open frames, parents first, each record's nodes with a place of their own in k->state. */
static void find_iterations(book *k) {
  uint32_t widest = 0;
  k->frame = dfi_xmalloc(sizeof *k->frame * (size_t)(k->frame_cap = 64));
  k->frame[k->nframes++] = k->x->root;
  for (int32_t i = 0; i < k->nframes; i++) {
    const dfi_frame *f = k->frame[i];
    if (f->scope->n > widest) widest = f->scope->n;
    k->sum->open_iterations += f->next - f->first;
    for (int64_t n = f->first; n < f->next; n++) {
      dfi_record *r = f->ring[n & (f->capacity - 1)];
      r->seen = (int32_t)k->places;
      k->places += f->scope->n;
      for (uint32_t c = 0; c < f->scope->nchildren; c++) {
        if (!r->children[c]) continue;
        if (k->nframes == k->frame_cap)
          k->frame = dfi_xrealloc(k->frame, sizeof *k->frame * (size_t)(k->frame_cap *= 2));
        k->frame[k->nframes++] = r->children[c];
      }
    }
  }
  k->sum->open_frames = k->nframes - 1;
  k->state = dfi_xcalloc((size_t)k->places + 1, 1);
  k->account = dfi_xmalloc(sizeof *k->account * (widest + 1u));
}

static void find_token(book *k, const dfi_record *r, uint32_t node, uint8_t what) {
  const uint32_t at = (uint32_t)r->seen + node;
  if (at >= k->places) WRONG(k, r, r->nodes + node, "a token is of an iteration that is over");
  else if (k->state[at]) WRONG(k, r, r->nodes + node, "two tokens are of one node and iteration");
  else k->state[at] = what;
}

/* What is in the queue and what is away. */
static void find_tokens(book *k) {
  const dfi_exec *x = k->x;
  for (uint32_t i = x->head; i != x->tail; i++) {
    const dfi_token *t = &x->queue[i & x->queue_mask];
    find_token(k, t->record, t->node, t->mark & DFI_DEAD ? READY_DEAD : READY_LIVE);
  }
  for (const dfi_call *c = x->away; c; c = c->away_next)
    find_token(k, c->record, (uint32_t)(c->node - c->record->nodes), AWAY);
}

/* The books of an owner. */
static int32_t balance(const dfi_exec *x, df_ledger *sum, df_error *err) {
  book k = { .x = x, .sum = sum, .err = err };
  const df_stats counted = dfi_exec_stats(x);
  const int64_t taken = x->count.taken + (x->head - x->counted);
  find_iterations(&k);
  find_tokens(&k);
  sum->sent = taken + (x->tail - x->head);
  sum->died = x->count.died;
  sum->ran = taken - sum->died;
  sum->merged = x->count.merged;
  sum->ended = x->count.ended;
  sum->nodes_run = counted.nodes_run;
  sum->dead_tokens = counted.dead_tokens;
  for (int32_t i = 0; i < k.nframes; i++)
    for (int64_t n = k.frame[i]->first; n < k.frame[i]->next; n++)
      check_iteration(&k, k.frame[i]->ring[n & (k.frame[i]->capacity - 1)]);
  if (!k.status && (sum->sent != taken + sum->live + sum->dead || sum->running != x->running))
    k.status =
        dfi_fail(err, DF_INTERNAL, NULL,
                 "%lld tokens were sent, but %lld were taken and %lld are there; %d calls run, but %lld are there",
                 (long long)sum->sent, (long long)taken, (long long)(sum->live + sum->dead), x->running,
                 (long long)sum->running);
  dfi_free(k.frame); dfi_free(k.state); dfi_free(k.account);
  return k.status;
}

/* ---- of several owners ------------------------------------------------------------------------------------------ */

static void add(df_ledger *sum, const df_ledger *own) {
  sum->sent += own->sent; sum->ran += own->ran; sum->died += own->died; sum->live += own->live; sum->dead += own->dead;
  sum->running += own->running; sum->merged += own->merged; sum->ended += own->ended; sum->pending += own->pending;
  sum->owed += own->owed; sum->lost += own->lost; sum->nodes_run += own->nodes_run;
  sum->dead_tokens += own->dead_tokens;
}

/* Recvs are no tokens but the sender's: they are taken out of the queue, and those that wait out of the calls. */
static void leave_out_recvs(const dfi_exec *x, df_ledger *own) {
  for (uint32_t i = x->head; i != x->tail; i++) {
    const dfi_token *t = &x->queue[i & x->queue_mask];
    const dfi_pnode *p = t->record->nodes + t->node;
    if (p->kind != DFI_K_TRANSFER || dfi_team_part(x, p) != DFI_RECEIVES) continue;
    own->sent--;
    own->live--;
  }
  for (const dfi_call *c = x->away; c; c = c->away_next) own->running -= dfi_team_awaits(c);
}

static void count_message(void *to, const dfi_team_message *l) {
  (void)l;
  ++*(int64_t *)to;
}

/* What ranks counted whose part is over. */
static void add_ended(const dfi_exec *first, df_ledger *sum, int64_t *sent, int64_t *received) {
  dfi_counters c;
  dfi_team_ended_counts(first, &c, sent, received);
  add(sum, &(df_ledger){ .sent = c.taken, .ran = c.taken - c.died, .died = c.died, .merged = c.merged, .ended = c.ended,
                         .nodes_run = c.taken - c.died + c.merged, .dead_tokens = c.died + c.ended });
}

static int32_t balance_all(const dfi_exec *first, const dfi_exec *gathered, df_ledger *sum, df_error *err) {
  int64_t sent = 0, received = 0, under_way = 0;
  int32_t status = DF_OK;
  if (first->setup.rank_run) add_ended(first, sum, &sent, &received);
  for (int32_t i = 0; i < dfi_gathered_members(gathered) && !status; i++) {
    dfi_exec *x = dfi_gathered_member(gathered, i);
    df_ledger own = { 0 };
    if (!x) continue;
    status = balance(x, &own, err);
    leave_out_recvs(x, &own);
    add(sum, &own);
    sent += x->sent;
    received += x->received;
    dfi_team_messages(x, count_message, &under_way);
  }
  sum->running += under_way;
  df_snapshot *all = dfi_snapshot_of(gathered);
  sum->open_frames = all->nframes - 1;
  sum->open_iterations = all->niterations;
  df_snapshot_release(all);
  if (!status && sent != received + under_way)
    status = dfi_fail(err, DF_INTERNAL, NULL,
                      "%lld messages went from owner to owner, but %lld have come and %lld are on their way",
                      (long long)sent, (long long)received, (long long)under_way);
  return status;
}

int32_t dfi_ledger_balance(dfi_watch *w, df_ledger *out, df_error *err) {
  bool mine;
  df_error local;
  *out = (df_ledger){ 0 };
  const int32_t state = dfi_watch_hold(w, &mine);
  int32_t status = state == DF_RUN_PAUSED
                       ? w->gathered ? balance_all(w->exec, w->gathered, out, err ? err : &local)
                                     : balance(w->exec, out, err ? err : &local)
                       : dfi_watch_refuse(w, state, "the run is over: it has no tokens any more", err);
  dfi_watch_let_go(w, mine);
  return dfi_check_memory(status, err, NULL, "a ledger");
}
