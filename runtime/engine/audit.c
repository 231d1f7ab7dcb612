/* audit.c: see audit.h. */
#include "engine/audit.h"
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

void dfi_audit_end(const dfi_exec *x) {
  if (x->head != x->tail) wrong(NULL, "it ends with %u tokens that have not run", x->tail - x->head);
  if (x->running || x->away) wrong(NULL, "it ends while %d calls are not done", x->running);
  const dfi_record *top = x->root ? x->root->ring[0] : NULL;
  if (top && top->outstanding) wrong(top, "it ends with %d outstanding", top->outstanding);
}
#endif
