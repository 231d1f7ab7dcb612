/* engine.h: what an engine is to those around it, and how two engines share a loop.
 *
 * A run is turned by its owner thread. The token engine (executor.c) can do everything; a faster engine may take a loop
 * over for a while. They meet at iteration boundaries only, where the state of a loop is its number, its variables and its
 * constants: no token is under way, and nothing but these has to be handed over.
 *
 *   variable i   r->base[DFI_ITERATION] + scope->enters[i]->out     (enters that are not `constant`)
 *   constant c   frame->constants + scope->enters[c]->out           (enters that are)
 *
 * The token engine offers a loop whose scope has a `turner` at each boundary it comes to: when the loop's frame starts, and
 * when the window of parallel iterations, closed to one by frame->window = 1, lets the next iteration in. The turner runs
 * any number of whole iterations, leaves the variables in the slots, says how far it came (dfi_engine_advanced) and what
 * was counted, and returns; the tokens go on from there as if each had been there. So a turner never needs to know how a loop ends:
 * it stops before the iteration whose predicate is false (or that it cannot run), and that one is run as tokens. Whoever pauses,
 * looks at or breaks into a run therefore finds records, tokens and counters as ever: the materialised state is the only one.
 *
 * While it turns, the turner asks dfi_engine_stops every so often, at least each 50 µs; when it says true, it returns.
 */
#ifndef DFLOW_ENGINE_H
#define DFLOW_ENGINE_H
#include "engine/executor.h"

/* How the counters of a run grew in iterations that had no tokens: what the token engine would have counted. */
typedef struct dfi_turned {
  int64_t iterations;              /* bodies run: NextIterations that went round */
  int64_t ran, died, merged;       /* tokens of nodes that ran, dead ones, values that loops' Merges passed on */
  int64_t pushes, pops;
} dfi_turned;

/* A loop's other engine. `turn` may fail the run (dfi_exec_fail). Called on the owner's thread; r has no token yet, and is the only open
 * iteration of f. It is not called while tokens are watched one by one. */
typedef struct dfi_turner {
  void (*turn)(struct dfi_turner *t, dfi_exec *x, dfi_frame *f, dfi_record *r);
} dfi_turner;

/* Shall who turns the run return to the token engine: cancelled, closed, interrupted, too late, or somebody wants to look? Cheap, but
 * it may read the clock. */
bool dfi_engine_stops(dfi_exec *x);
/* r, which its frame has open alone, is `turned->iterations` iterations later now; its variables are in its slots already. */
void dfi_engine_advanced(dfi_exec *x, dfi_record *r, const dfi_turned *turned);
#endif
