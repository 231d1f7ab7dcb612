/* run.h: a run of a plan, from its beginning to its end (run.c), and what it waits for (wait.c). */
#ifndef DFLOW_RUN_H
#define DFLOW_RUN_H
#include "engine/executor.h"

/* Where a plan runs, owned, again and again; one run at a time. */
dfi_exec *dfi_exec_new(dfi_plan *p);
void      dfi_exec_free(dfi_exec *x);
/* Runs the plan to its end on this thread. given[] and the stop fields are set by the caller. On success the fetched
 * values lie where plan->fetch says, until dfi_exec_reset. */
int32_t   dfi_exec_run(dfi_exec *x, df_error *err);
/* The part of an owner that is not the run's first one: from its first token to its end, on this thread. */
void      dfi_exec_part(dfi_exec *x);
/* Lets go of all values; the state can run again. */
void      dfi_exec_reset(dfi_exec *x);

/* What happens only now and then: false when the token engine has to stop. */
bool dfi_exec_pause(dfi_exec *x);
/* It fails where it was cancelled, or its deadline has passed. */
void dfi_exec_stop_if_told(dfi_exec *x);

/* ---- wait.c ---- */
/* Takes what has come back. Told to wait, it waits for something, or 10 ms when calls wait for what is outside. */
void dfi_inbox_take(dfi_exec *x, bool wait);
/* Waits so many seconds, or until the inbox has a message or an inspector asks for a pause; and takes it. */
void dfi_inbox_wait(dfi_exec *x, double seconds);
/* Of the calls in progress the one to be named where nothing goes on: the latest that does not wait for another owner's
   value, as that follows from what the other waits for. NULL: there is none. */
const dfi_call *dfi_calls_first(const dfi_exec *x);
/* Writes what the calls in progress wait for, that one first; how long that is, at most bytes. */
size_t dfi_calls_text(const dfi_exec *x, char *text, size_t bytes);
/* All calls in progress are waiting and no run of the session can move: fails the run with what waits for what. */
bool dfi_calls_stuck(dfi_exec *x);
/* x has none, and is only there for others: it is among the runs that cannot move, as one whose calls wait. */
void dfi_calls_idle(dfi_exec *x);
/* There are flights. Is nothing else on its way than what never comes? Then the run has failed. */
bool dfi_flights_stuck(dfi_exec *x);
/* After an error: waiters are told to stop, and all calls are seen to their end. */
void dfi_calls_stop(dfi_exec *x);
#endif
