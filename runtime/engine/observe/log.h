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

/* A frame that some owner has opened and not all have ended; or that was seen open on another rank alone. */
typedef struct dfi_logged_frame {
  uint32_t id, parent;
  int32_t  scope, call;      /* the node that called it; -1: it is a loop's */
  int64_t  number;           /* of the parent's iteration */
  int32_t  parts;            /* of it, that have not ended; here, where it is a run over ranks */
  bool     opens;            /* here, too, where `parts` is not 0; but it has not yet */
  int64_t  opened, ended;    /* ns since the run began */
} dfi_logged_frame;

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
/* The same of a frame that is open on another rank alone, which gets a number here if it has none. call: the node that
 * called it, or NULL. */
uint32_t dfi_log_name(dfi_watch *w, const dfi_scope *s, const dfi_record *r, const dfi_pnode *call);
/* Event i, which has its place; another one is added. False: there is no room. */
df_event *dfi_log_at(const dfi_watch *w, int64_t i);
bool dfi_log_add(dfi_watch *w, df_event e);
typedef struct dfi_far_log dfi_far_log;
/* log_ranks.c: this rank's log goes to rank 0; there others' are put among its own. */
void dfi_log_send(dfi_exec *x);
void dfi_log_merge(dfi_watch *w);
/* Some of another rank's log, from `n` bytes as it sent them; *own: what is kept of it until they are merged. */
void dfi_log_come(dfi_far_log **own, int32_t from, const void *bytes, int64_t n);
void dfi_far_log_free(dfi_far_log *l);
/* The first owner's, when all have done their part. */
void dfi_log_end(dfi_exec *x);
#endif
