/* engine.h: what an engine is to those around it, and how two engines share a loop.
 *
 * A run is turned by its owner thread. The token engine (executor.c) can do everything; a faster engine may take a loop
 * over for a while. They meet at iteration boundaries only, where the state of a loop is its number, its variables and
 * its constants: no token is under way, and nothing but these has to be handed over.
 *
 *   variable i   r->base[DFI_ITERATION] + scope->enters[i]->out     (enters that are not `constant`)
 *   constant c   frame->constants + scope->enters[c]->out           (enters that are)
 *
 * The token engine offers a loop whose scope has a `engine_ops` at each boundary it comes to: when the loop's frame
 * starts, and when the window of parallel iterations, closed to one by frame->window = 1, lets the next iteration in.
 * The engine runs any number of whole iterations, leaves the variables in the slots, counts what tokens would have
 * counted, and returns; the tokens go on from there as if each had been there. Or it runs the loop to its end: then it
 * has sent the Exits. Pauses, inspectors and breakpoints therefore find records, tokens and counters as
 * ever: the materialised state is the only one. And at each look_up it is asked whether the loop at hand is one it
 * wants: it closes the window of those.
 *
 * While it turns, the engine asks dfi_engine_stops every so often, at least each millisecond; when it says true, it
 * returns.
 */
#ifndef DFLOW_ENGINE_H
#define DFLOW_ENGINE_H
#include "base/text.h"
#include "engine/executor.h"
#include <stdarg.h>

/* A loop's other engine. Called on the owner's thread.
 *   turn     r has no token yet, and is the only open iteration of f. True: the loop has ended, its Exits have been
 *            sent, and r, still without a token, is its last iteration. False: r, perhaps some iterations later, is to
 *            be started. It may fail the run (dfi_exec_fail)
 *   look     now and then, while tokens are run: the next one is at the queue's head
 *   replay   asked of kernels while x->replay is set: p had its effect in r already; true: its outputs have been sent
 *            again
 *   forget_replays   the run is over; called where x->replay is set */
typedef struct dfi_engine_ops {
  bool (*turn)(dfi_exec *x, dfi_frame *f, dfi_record *r);
  void (*look)(dfi_exec *x);
  bool (*replay)(dfi_exec *x, dfi_record *r, dfi_pnode *p);
  void (*forget_replays)(dfi_exec *x);
} dfi_engine_ops;

/* What a session or a run asks for. */
typedef enum dfi_engine {
  DFI_ENGINE_AUTO = 0,
  DFI_ENGINE_TOKENS,
  DFI_ENGINE_NATIVE, /* compiles before the first trip */
  DFI_ENGINE_PRIMITIVES /* tokens, of plans made with DFI_PLAN_PRIMITIVES */
} dfi_engine;

/* May the engine go without tokens: does no inspector watch them, and no stress switch order them? */
static inline bool dfi_engine_unwatched(const dfi_exec *x) {
  return x->watched == DFI_UNWATCHED && !x->kept && !x->shuffle;
}

/* Of a run that one can look at: is the loop, or one around it, asked for more iterations at once than is usual? Then
   an inspector is to see them. */
static inline bool dfi_engine_wants_many(const dfi_exec *x, const dfi_frame *f) {
  enum { USUAL = 32 };
  if (!x->watch || x->setup.engine != DFI_ENGINE_AUTO) return false;
  for (; f->origin; f = f->parent) if (f->scope->parallel_iterations > USUAL) return true;
  return false;
}
/* DFLOW_STRESS=osr:SEED: the next number of its generator. x->osr is not 0. */
static inline uint64_t dfi_engine_dice(dfi_exec *x) {
  uint64_t s = x->osr;
  s ^= s << 13; s ^= s >> 7; s ^= s << 17;
  return (x->osr = s) >> 11;
}

/* The frame's only open iteration, r, becomes another one. Its variables are set by the caller: the `uses` of their
   slots stay. */
static inline void dfi_engine_renumber(dfi_frame *f, dfi_record *r, int64_t number) {
  f->first = number;
  f->next = number + 1;
  f->ring[number & (f->capacity - 1)] = r;
  r->number = number;
  r->stamp = dfi_stamp(f->serial, number);
}

/* The engines beside that of tokens: wiring/services.c has the list. Each takes the loops of a plan that it may run;
   forgets them when the plan goes, which no thread runs then; and tells what became of them (of `loop` alone unless it
   is NULL; what: df_native). */
void dfi_engines_attach(dfi_plan *p);
void dfi_engines_forget(dfi_plan *p);
void dfi_engines_tell(dfi_plan *p, int32_t what, const char *loop, dfi_text *t);

/* Why an engine cannot take a loop, because of node p (NULL: of none): "`name` (Type): …". Owned. */
char *dfi_engine_reason(const dfi_pnode *p, const char *format, va_list more);
/* Writes the counters to x->live; an owner among several adds what is new. */
void dfi_exec_publish(dfi_exec *x);
/* Shall the engine of the run return to the token engine: cancelled, closed, interrupted, timed out, or an inspector
 * asks for a pause? Cheap, but it may read the clock. */
bool dfi_engine_stops(dfi_exec *x);
#endif
