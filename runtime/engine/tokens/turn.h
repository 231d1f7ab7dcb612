/* turn.h: what executor.c, frame.c, primitives.c and outcome.c ask of each other, and run/ of them. */
#ifndef DFLOW_TURN_H
#define DFLOW_TURN_H
#include "engine/executor.h"

/* executor.c: takes tokens until the run is over. */
void dfi_exec_turn(dfi_exec *x);

/* outcome.c: bookkeeping memory has ended: what was wanted has come from the reserve, and the run ends where it is. r
   may be NULL. */
void dfi_exec_no_memory(dfi_exec *x, const dfi_record *r, const char *what);

/* primitives.c */
void dfi_do_enter(dfi_exec *x, dfi_record *r, const dfi_pnode *p, uint32_t dead);
void dfi_do_exit(dfi_exec *x, dfi_record *r, const dfi_pnode *p);
void dfi_do_call(dfi_exec *x, dfi_record *r, dfi_pnode *p);
void dfi_do_return(dfi_exec *x, dfi_record *r, const dfi_pnode *p);
/* The window of parallel iterations is full: the value waits until it moves. */
void dfi_next_wait(dfi_frame *f, dfi_pnode *p, df_value v, uint32_t event);
/* Of a loop's second time: its frame has no caller. */
void dfi_do_exit_remat(dfi_exec *x, dfi_record *r, const dfi_pnode *p);
/* Of a loop that is run a second time, or may be: iterations past what is wanted are not begun. */
void dfi_do_next_remat(dfi_exec *x, dfi_record *r, dfi_pnode *p);
#endif
