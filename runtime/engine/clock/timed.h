/* timed.h: the virtual clock of a run: tokens in the order of time, on devices as fast as they are said to be. */
#ifndef DFLOW_TIMED_H
#define DFLOW_TIMED_H
#include "engine/clock/flows.h"
#include "engine/clock/windows.h"
#include "engine/executor.h"

/* What is ready at that time, and of one time in the order of serial. */
typedef struct dfi_due { double at; uint64_t serial; uint32_t place; int32_t message; } dfi_due;
/* dfi_due.message, the number of the message that a Transfer's token waits for (flows.h), or one of these: it waits for
   none; its message has left; it waits for a value that crosses to its device when the run begins, or for its owner's
   window (windows.h). */
enum { DFI_NO_MESSAGE = -1, DFI_HAS_LEFT = -2, DFI_AWAITS_CROSSING = -3, DFI_AWAITS_WINDOW = -4 };
/* The next one first: a heap. */
typedef struct dfi_agenda {
  dfi_due  *due; uint32_t n, room;
  uint32_t *where;           /* by place & mask: where it is in the heap; NULL: not needed */
  uint32_t  mask;
} dfi_agenda;
void    dfi_agenda_put(dfi_agenda *a, dfi_due d);
dfi_due dfi_agenda_take(dfi_agenda *a);            /* there must be one */

typedef struct dfi_timed {
  double    now;             /* when what is being done has ended: what it sends comes then */
  double    last;            /* when everything has ended so far: the run's seconds */
  double   *device;          /* by device: when it has computed what it was given */
  dfi_flows *flows;          /* messages under way */
  double   *given;           /* by crossing: when it has come; INFINITY: its message has not left */
  dfi_agenda queue;          /* the tokens in the queue, by their place in its ring */
  uint64_t  serial;
  int32_t  *recvs;           /* by scope and owner: the messages that come to it in an iteration; of several owners */
  bool      waits_outside;   /* some op of the plan may wait for another run, say */
  int32_t   held;            /* tokens that wait for their owner's window */
  struct dfi_recorder *recorder;   /* record.c; NULL: the run is not recorded */
  bool      has_left;        /* the token that runs now is a Transfer's, and its message has left */
  uint32_t  current;         /* there: the event that runs now, or in whose name is spoken */
} dfi_timed;

/* The clocks of a run of p, all at 0. */
dfi_timed *dfi_timed_new(const dfi_plan *p);
void   dfi_timed_free(dfi_timed *t);
/* The run begins: all clocks at 0. */
void   dfi_timed_begin(dfi_exec *x);
/* An owner but the first begins its part of a run that is recorded, or of none: its clocks are its own. */
void   dfi_timed_join(dfi_exec *x, const dfi_exec *first);
/* A value of so many bytes crosses a link when the run begins. */
void   dfi_timed_cross(dfi_exec *x, int32_t crossing, int32_t link, int64_t bytes);
/* The message of the Transfer that runs now, of so many bytes: when it comes. Of one to another owner, as if it had its
   ports for itself. */
double dfi_timed_message(dfi_exec *x, int32_t link, int64_t bytes);
/* A token comes to a node now. */
void   dfi_timed_arrive(dfi_exec *x, dfi_record *r, uint32_t node, bool begins);
/* The token at this place of the queue is ready. */
void   dfi_timed_queued(dfi_exec *x, uint32_t place, dfi_record *r, uint32_t node);
/* The same, of a token that ran and was put back: what it sends need not be carried again, and something happens before
   its turn comes. */
void   dfi_timed_requeue(dfi_exec *x, uint32_t place, dfi_record *r, uint32_t node);
/* A window has moved: tokens that waited for it are ready then. */
void   dfi_timed_window_moved(dfi_exec *x);
/* The queue has grown. */
void   dfi_timed_grown(dfi_exec *x);
/* Brings the earliest token to the head of the queue, after the messages that leave before it; it is taken. */
void   dfi_timed_pick(dfi_exec *x);
void   dfi_timed_take(dfi_exec *x);
/* A kernel or a function on numbers computes on its device: `now` becomes its end. */
void   dfi_timed_compute(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, double flops, double bytes);
void   dfi_timed_call(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, const df_kernel *k);
/* The token of p in r has run, and what it sent is in the queue. */
static inline void dfi_timed_ran(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  if (DFI_UNLIKELY(r->shares != NULL)) dfi_windows_ran(x, r, p);
}
/* What ran in r has ended now. */
static inline void dfi_timed_ended(dfi_exec *x, dfi_record *r) {
  if (x->timed->now > r->ends) r->ends = x->timed->now;
  if (x->timed->now > x->timed->last) x->timed->last = x->timed->now;
}
/* A record stands for another iteration; an iteration is done; its frame is; when iteration n of f may begin. */
void   dfi_timed_record(dfi_exec *x, dfi_record *r);
void   dfi_timed_iteration_done(dfi_exec *x, dfi_frame *f, dfi_record *r);
void   dfi_timed_frame_done(dfi_exec *x, dfi_frame *f);
void   dfi_timed_gate(dfi_exec *x, const dfi_frame *f, int64_t n);
#endif
