/* gather.h: the parts that several owners have of a run, put together as one owner would have them, for inspectors.
 *
 * While all owners are paused their frames, iterations, tokens and calls are copied into one dfi_exec, which no thread
 * turns: of an iteration each slot and each count is that of the owner whose it is; a message that has been sent and
 * not met its Recv is a call that is away. Values are borrowed from where they lie.
 */
#ifndef DFLOW_GATHER_H
#define DFLOW_GATHER_H
#include "engine/executor.h"

/* x: the first owner. Owned by the caller. Of a run over ranks what other ranks told is among it: halt.h. */
dfi_exec *dfi_gather(dfi_exec *x);
/* Those that it was gathered from, by number; NULL: that one has done its part, on another rank. */
int32_t   dfi_gathered_members(const dfi_exec *gathered);
dfi_exec *dfi_gathered_member(const dfi_exec *gathered, int32_t i);
/* By what number the frame goes there that `member` knows by its serial; one that has ended has a number of its own. */
int32_t   dfi_gathered_frame(const dfi_exec *gathered, int32_t member, uint32_t serial);
void      dfi_gather_free(dfi_exec *gathered);
#endif
