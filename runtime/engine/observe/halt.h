/* halt.h: all ranks of a run pause at a consistent cut, tell rank 0 what they have, and go on.
 *
 * Rank 0 gives the words. Any rank may have a reason (a breakpoint, the end of a step) and says so. Told to halt, each
 * has its owners stand and counts the values it has sent to each rank; when all have said so, rank 0 tells each how
 * many of them it has yet to take in, and what is on its way then lies with its receiver. Each sends a picture of its
 * owners (picture.h) to rank 0, where they are gathered with its own (gather.h). A rank that stands goes on taking
 * messages, and goes on when it is told how far: with the step and the breakpoints that are wanted.
 *
 * A rank whose part is over has none of it to show. A run that is to be looked at when it is over sends pictures then.
 */
#ifndef DFLOW_HALT_H
#define DFLOW_HALT_H
#include "engine/observe/picture.h"
#include "engine/observe/watch.h"

typedef struct dfi_halt dfi_halt;

/* A run over ranks begins, and its watch is free to go. */
void dfi_halt_begin(dfi_exec *x);
void dfi_halt_free(dfi_halt *h);
/* What is here of other ranks goes: the plan may, after that. */
void dfi_halt_forget(dfi_halt *h);
/* All that follow: under the watch's lock. Takes what other ranks have said. */
void dfi_halt_take(dfi_watch *w);
/* This rank halts: the others are told, or rank 0 is asked to tell them. */
void dfi_halt_others(dfi_watch *w);
/* All owners of this rank are paused. True: and all that there is of the others is here. */
bool dfi_halt_complete(dfi_watch *w);
/* The others go on. A step of n tokens is exact: one rank at a time has the turn, and n minus what others have run; the
 * others hold their tokens back. */
void dfi_halt_go_on(dfi_watch *w);
/* May this rank run a token of the step that goes on? */
bool dfi_halt_may_run(dfi_watch *w);
/* Rank 0: asks the other ranks what they have counted, and waits for that, a tenth of a second at most. */
void dfi_halt_ask_counts(dfi_watch *w);
/* Adds what the other ranks had counted when they last paused, were asked, or ended. */
void dfi_halt_count(const dfi_halt *h, df_stats *sum);
/* This rank has done its part, and x its values still: what others want of it then is sent. */
void dfi_halt_end(dfi_exec *x);
/* Some of this rank's log goes to rank 0, as log_ranks.c has it; what came there. */
void dfi_halt_say_log(const dfi_halt *h, const void *bytes, size_t n);
struct dfi_far_log *dfi_halt_log(dfi_halt *h);
/* Once they are one: by what numbers a rank's frames go in the log here (consumed; by its own numbers, n of them).
 * Owner o's frame of that number; 0: it is not known. */
void dfi_halt_names(dfi_halt *h, int32_t rank, uint32_t *names, int64_t n);
uint32_t dfi_halt_name(const dfi_halt *h, int32_t o, uint32_t theirs);
/* Owner o as it is seen here; NULL: it has done its part. */
dfi_exec *dfi_halt_member(const dfi_halt *h, int32_t o);
/* A value that is far comes here, while the run is paused. out: owned. */
int32_t dfi_halt_fetch(dfi_watch *w, const dfi_far_place *place, df_value *out, df_error *err);
#endif
