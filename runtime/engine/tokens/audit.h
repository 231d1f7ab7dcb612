/* audit.h: what is true of a run's frames and records whenever an iteration or a frame ends. The debug build asks each
 * time, so that every spec is a check of the engine, too; the release build does not know of it. Each of these ends the
 * process with what it found. Whether all books of a run balance is asked of paused runs: inspect/ledger.c.
 */
#ifndef DFLOW_AUDIT_H
#define DFLOW_AUDIT_H
#include "engine/executor.h"

#ifdef DFLOW_DEBUG
/* r, which has nothing outstanding, is about to be let go: no frame is open in it, what it counts as held it holds, and
 * what it holds has readers left. */
void dfi_audit_iteration(const dfi_exec *x, const dfi_record *r);
/* A token of r is taken: it is one of the iteration that r is now, which counts it and is open. */
void dfi_audit_token(const dfi_record *r, dfi_token t);
/* None of its tokens is ready. For when the queue is in x, and not in the engine's registers. */
void dfi_audit_queue(const dfi_exec *x, const dfi_record *r);
/* The open iterations of f are those of its ring, in order, no more than its window allows, and all open for it. */
void dfi_audit_frame(const dfi_exec *x, const dfi_frame *f);

/* ---- the ledger's other side: what has been counted is what the iterations and frames that are over had in them.
 * Each adds its part when it ends, in all cases, as the sums are whole only then: once over the nodes of an iteration,
 * once over the Enters and Exits of a frame. What another engine did (whole iterations, without tokens) is taken as
 * that engine counts it. Of several owners each compares its frames and iterations alone, as the records of each have
 * nodes of others. Compared when an owner's part ends and has not failed: what failed, or was cancelled, leaves
 * iterations open. */

/* A run begins. */
void dfi_books_begin(dfi_exec *x);
/* f has its first iteration; it ends, before its Exits are sent. */
void dfi_books_open(dfi_exec *x, const dfi_frame *f);
void dfi_books_frame(dfi_exec *x, const dfi_frame *f);
/* r ends; it ends soon, and its nodes had no tokens. */
void dfi_books_iteration(dfi_exec *x, const dfi_record *r);
void dfi_books_idle(dfi_exec *x, const dfi_record *r);
/* Another engine is going to turn f; it has. r: the iteration that is the loop's last one then, without tokens; or
   NULL. */
void dfi_books_turn(dfi_exec *x, const dfi_frame *f);
void dfi_books_turned(dfi_exec *x, const dfi_frame *f, const dfi_record *r);
/* An owner's part is over, and did not fail. */
void dfi_books_balance(dfi_exec *x);

/* The run is over and did not fail: no token is ready, no call is away, and only the top level is open. */
void dfi_audit_end(const dfi_exec *x);
#else
#define dfi_audit_iteration(x, r) ((void)0)
#define dfi_audit_token(r, t)     ((void)0)
#define dfi_audit_queue(x, r)     ((void)0)
#define dfi_audit_frame(x, f)     ((void)0)
#define dfi_audit_end(x)          ((void)0)
#define dfi_books_begin(x)        ((void)0)
#define dfi_books_open(x, f)      ((void)0)
#define dfi_books_frame(x, f)     ((void)0)
#define dfi_books_iteration(x, r) ((void)0)
#define dfi_books_idle(x, r)      ((void)0)
#define dfi_books_turn(x, f)      ((void)0)
#define dfi_books_turned(x, f, r) ((void)0)
#define dfi_books_balance(x)      ((void)0)
#endif
#endif
