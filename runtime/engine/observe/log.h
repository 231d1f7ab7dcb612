/* log.h: what a run does, token by token, with times: frames that open and end, tokens that ran, calls that came back.
 *
 * An owner logs the tokens that it took from its queue some at a time, and calls with times of their own. Where several
 * owners turn the run they write one log, under log_lock; a frame has one number there, is open when the first of them
 * has opened its part and over when the last one has ended its own; a message is the token that sends it, and comes
 * back where it arrives. When the run is over the log goes by the events' times.
 */
#ifndef DFLOW_LOG_H
#define DFLOW_LOG_H
#include "engine/observe/watch.h"

/* An owner begins its part of the run. */
void dfi_log_begin(dfi_exec *x);
/* Tokens that ran are written to the log; their times are between this flush and the last one. */
void dfi_log_flush(dfi_exec *x);
/* dfi_call_run for the token that ran last, with times of its own in the log. */
bool dfi_log_call(dfi_exec *x, dfi_record *r, dfi_pnode *p);
/* A frame opens or ends; a call came back, or a message has come. */
void dfi_log_frame(dfi_exec *x, dfi_frame *f, bool opened);
void dfi_log_done(dfi_exec *x, const dfi_record *r, const dfi_pnode *p);
/* The number in the log of the loop s that is open in r, whose own frame goes by its number there. */
uint32_t dfi_log_number(const dfi_watch *w, const dfi_scope *s, const dfi_record *r);
/* The first owner's, when all have done their part. */
void dfi_log_end(dfi_exec *x);
#endif
