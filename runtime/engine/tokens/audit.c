/* audit.c: see audit.h. */
#include "engine/tokens/audit.h"
#ifdef DFLOW_DEBUG
#include <stdarg.h>
#include <stdio.h>

/* ready tokens that are looked through for those of one iteration: an end of a long queue is enough */
enum { LOOK_BACK = 256 };

static void wrong(const dfi_record *r, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static void wrong(const dfi_record *r, const char *format, ...) {
  char path[400];
  va_list a;
  fprintf(stderr, "dflow: the engine's books: %s: ", r ? dfi_frame_path(r, path, sizeof path) : "the run");
  va_start(a, format);
  vfprintf(stderr, format, a);
  va_end(a);
  fputc('\n', stderr);
  abort();
}

/* Two counts of one thing. */
static void over_is(const char *what, int64_t counted, int64_t found) {
  if (counted != found)
    wrong(NULL, "it counts %lld %s, but what is over had %lld", (long long)counted, what, (long long)found);
}

void dfi_audit_iteration(const dfi_exec *x, const dfi_record *r) {
  const dfi_scope *s = r->frame->scope;
  const df_value *v = r->base[DFI_ITERATION];
  int32_t held = 0;
  if (r->outstanding) wrong(r, "the iteration ends with %d outstanding", r->outstanding);
  if (r->nodes != x->plan->node + s->first) wrong(r, "the record is one of another loop");
  for (uint32_t i = 0; i < s->nchildren; i++)
    if (r->children[i]) wrong(r, "the loop `%s` is open in it", r->children[i]->scope->name);
  for (uint32_t i = 0; i < s->nslots; i++) {
    if (v[i].kind < DF_TENSOR) continue;
    held++;
    if (!v[i].uses)
      wrong(r, "slot %u holds a %s that nobody will read", i, v[i].kind == DF_TENSOR ? "tensor" : "handle");
  }
  if (held != r->held) wrong(r, "it holds %d tensors and handles, and counts %d", held, r->held);
}

void dfi_audit_token(const dfi_record *r, dfi_token t) {
  const dfi_frame *f = r->frame;
  if ((t.mark & ~DFI_DEAD) != r->stamp) wrong(r, "a token of node %u is one of an iteration that is over", t.node);
  if (r->outstanding <= 0)
    wrong(r, "it counts %d outstanding, but a token of node %u is there", r->outstanding, t.node);
  if (r->number < f->first || r->number >= f->next) wrong(r, "a token of node %u comes when it is over", t.node);
}

void dfi_audit_queue(const dfi_exec *x, const dfi_record *r) {
  for (uint32_t i = x->head; i != x->tail && i - x->head < LOOK_BACK; i++) {
    const dfi_token *t = &x->queue[i & x->queue_mask];
    if (t->record == r) wrong(r, "a token of node %u is still to run", t->node);
  }
}

void dfi_audit_frame(const dfi_exec *x, const dfi_frame *f) {
  const int64_t open = f->next - f->first,
                most = f->window > f->scope->parallel_iterations ? f->window : f->scope->parallel_iterations;
  const dfi_record *at = f->ring[f->first & (f->capacity - 1)];
  (void)x;
  if (open < 0 || open > f->capacity)
    wrong(f->origin, "the loop `%s` has %lld iterations open in a ring of %lld", f->scope->name, (long long)open,
          (long long)f->capacity);
  if (open > most)
    wrong(f->origin, "the loop `%s` has %lld iterations open, and parallel_iterations is %lld", f->scope->name,
          (long long)open, (long long)most);
  if (f->enters_missing < 0) wrong(f->origin, "more Enters came to the loop `%s` than it has", f->scope->name);
  if (open && (at->frame != f || at->number != f->first))
    wrong(at, "the oldest iteration of the loop `%s` should be %lld", f->scope->name, (long long)f->first);
  if (f->parent && (f->depth != f->parent->depth + 1 || f->origin->frame != f->parent))
    wrong(f->origin, "the loop `%s` is not in its parent", f->scope->name);
}

/* ---- the ledger's other side ------------------------------------------------------------------------------------ */

void dfi_books_begin(dfi_exec *x) { x->books = (dfi_books){ 0 }; }

void dfi_books_open(dfi_exec *x, const dfi_frame *f) {
  if (f->origin) x->books.over.iterations -= f->counts * f->next;
}

void dfi_books_idle(dfi_exec *x, const dfi_record *r) { x->books.idle = r; }

void dfi_books_iteration(dfi_exec *x, const dfi_record *r) {
  const dfi_frame *f = r->frame;
  dfi_counters *over = &x->books.over;
  const bool idle = x->books.idle == r;
  x->books.idle = NULL;
  if (idle || x->team) return;             /* among several owners it has nodes that are others' */
  for (uint32_t i = 0; i < f->scope->n; i++) {
    const dfi_pnode *p = r->nodes + i;
    const uint32_t c = r->counts[i];
    if (p->kind == DFI_K_MERGE) over->died += c & DFI_MERGE_FIRED && !(c & DFI_MERGE_LIVE);
    else if (c == DFI_DEAD) over->died += p->kind != DFI_K_TRIGGER;
    else if (!c && p->merges && dfi_is_next(p->kind))
      over->merged += !f->second || r->number + 1 < f->second->end;      /* those past its end are let go */
  }
}

void dfi_books_frame(dfi_exec *x, const dfi_frame *f) {
  const dfi_scope *s = f->scope;
  dfi_counters *over = &x->books.over;
  over->frames++;
  over->iterations += f->counts * f->next;
  if (x->team) return;
  for (uint32_t i = 0; i < s->nenters; i++) {
    const dfi_pnode *p = s->enters[i];
    over->merged += !p->constant && (f->second || (p->merges && !f->enter_dead[p->enter]));
  }
  if (f->call) over->ended += !f->returned;
  else
    for (uint32_t i = 0; i < s->nexits && !f->second; i++) over->ended += !f->exit_fired[s->exits[i]->child];
}

void dfi_books_turn(dfi_exec *x, const dfi_frame *f) {
  x->books.before = x->count;
  x->books.next = f->next;
}

void dfi_books_turned(dfi_exec *x, const dfi_frame *f, const dfi_record *r) {
  const dfi_counters before = x->books.before;
  dfi_counters *over = &x->books.over;
  x->books.idle = r;
  over->died += x->count.died - before.died;
  over->merged += x->count.merged - before.merged;
  over->ended += x->count.ended - before.ended;
  over->frames += x->count.frames - before.frames;
  over->iterations += x->count.iterations - before.iterations - f->counts * (f->next - x->books.next);
}

void dfi_books_balance(dfi_exec *x) {
  const dfi_counters *over = &x->books.over, *c = &x->count;
  const dfi_record *top = x->root->ring[0];
  for (uint32_t i = 0; i < top->frame->scope->nchildren; i++)
    if (top->children[i]) return;          /* it waits for Enters that never come: dfi_frame_waits */
  dfi_books_iteration(x, top);
  over_is("frames", c->frames, over->frames);
  over_is("iterations", c->iterations, over->iterations);
  if (x->team) return;
  over_is("dead tokens", c->died, over->died);
  over_is("values delivered for a loop's Merge", c->merged, over->merged);
  over_is("Exits and calls found dead by a frame's end", c->ended, over->ended);
}

void dfi_audit_end(const dfi_exec *x) {
  if (x->head != x->tail) wrong(NULL, "it ends with %u tokens that have not run", x->tail - x->head);
  if (x->running || x->away) wrong(NULL, "it ends while %d calls are not done", x->running);
  if (x->flights || x->flying) wrong(NULL, "it ends with %lld bytes on their way", (long long)x->flying);
  const dfi_record *top = x->root ? x->root->ring[0] : NULL;
  if (top && top->outstanding) wrong(top, "it ends with %d outstanding", top->outstanding);
}
#endif
