/* audit.h: what is true of a run's frames and records whenever an iteration or a frame ends. The debug build asks each
 * time, so that every spec is a check of the engine, too; the release build does not know of it. Each of these ends the
 * process with what it found. Whether all books of a run balance is asked of runs that stand still: inspect/ledger.c.
 */
#ifndef DFLOW_AUDIT_H
#define DFLOW_AUDIT_H
#include "engine/executor.h"

#ifdef DFLOW_DEBUG
/* r, which has nothing outstanding, is about to be let go: no frame is open in it, what it counts as held it holds, and
 * what it holds has readers left. */
void dfi_audit_iteration(const dfi_exec *x, const dfi_record *r);
/* None of its tokens is ready. For when the queue is in x, and not in the engine's registers. */
void dfi_audit_queue(const dfi_exec *x, const dfi_record *r);
/* The open iterations of f are those of its ring, in order, no more than its window allows, and all open for it. */
void dfi_audit_frame(const dfi_exec *x, const dfi_frame *f);
/* The run is over and did not fail: no token is ready, no call is away, and only the top level is open. */
void dfi_audit_end(const dfi_exec *x);
#else
#define dfi_audit_iteration(x, r) ((void)0)
#define dfi_audit_queue(x, r)     ((void)0)
#define dfi_audit_frame(x, f)     ((void)0)
#define dfi_audit_end(x)          ((void)0)
#endif
#endif
