/* lost.h: calls whose outcome nothing wants any more.
 *
 * At the top level a Merge may have several live inputs: the first one passes, those that come later are let go. So a
 * call that waits may have lost such a race: all that it would bring about ends at Merges that others have passed. When
 * only such calls are left the run is over: its fetches are there, and the calls are cancelled.
 */
#ifndef DFLOW_LOST_H
#define DFLOW_LOST_H
#include "engine/executor.h"

/* Does nothing fetched wait for any of the calls that are away? No token is ready. It waits for all of a frame with
 * such a call: an effect in a body is never left out. Of several owners in one process none knows all: false. Rank 0
 * does not wait for what other ranks still do where it waits for nothing else. */
bool dfi_calls_lost(const dfi_exec *x);

/* Where other ranks wait, too, each tells what it knows, and rank 0 ends the run where nothing is waited for (stall.c).
 * Loops of the top level are bits (s % 64: scope s; several may share one).
 *   any     something fetched waits for a call outside of loops
 *   waits   loops with calls of x
 *   wanted  of `loops` (0: of those), the ones that something fetched waits for, unless another rank knows of a Merge
 *           in between that has been passed */
typedef struct dfi_wanted { bool any; uint64_t waits, wanted; } dfi_wanted;
dfi_wanted dfi_calls_look(const dfi_exec *x, uint64_t loops);
#endif
