/* remat.h: values that a gradient needs are let go and computed again (rematerialised), with no change to the graph.
 *
 * A session's policy (save = 'recompute' or 'auto') is for loops that were built, and differentiated, before anything
 * knew of it. So the graph stays as it is: the forward loop writes what its gradient needs to arrays, the backward loop
 * reads it. But an element of such an array may be let go, and then the iteration that made it is run a second time
 * when it is read. The gradient is the same graph with the same values under every policy, so its results are the same
 * bits.
 *
 * What that needs is kept with each frame of such a loop, in a dfi_remat: its constants, and its variables as they are
 * at the start of iterations 0, 1, 3, 6, 10, … Segment s is the s + 1 iterations from s (s + 1) / 2 on; after N trips
 * there are about √(2N), and none is longer. A read of an element that was let go opens a frame of the loop's copy
 * in the plan, which starts with what was kept for the segment and runs it to its end; the read comes again meanwhile.
 * What the segments above it had is let go once more. What is kept of a device goes to the host when the device is
 * full.
 *
 * The copy has the nodes of the loop but for these:
 *   Exit, and NextIteration past the segment     go nowhere
 *   a write to an array                          fills the element that was let go, or writes to an array that was made
 *                                                the second time; else it hands the array on
 *   what reads or changes anything beyond its    gives what it gave the first time, of which a log is kept with the
 *   inputs (variables, queues, prints, Lua)      frame; random numbers are drawn again, since their tag is the same
 *   a value that another owner sends             is taken from that log
 *   a value that is sent to another owner        goes nowhere
 * So no side effect happens twice. A loop that waits for something outside of the run is not run again: remat_plan.c.
 *
 * Each owner runs its own part of a loop again, and waits for no other one.
 */
#ifndef DFLOW_REMAT_H
#define DFLOW_REMAT_H
#include "engine/executor.h"

struct dfi_tensor_array;
typedef struct dfi_remat dfi_remat;

enum { DFI_REMAT_AT_ONCE = 8 };  /* frames of an owner that run a second time */

/* remat_plan.c: makes the copies, where the session's policy may want them. Before the plan is shared. */
void     dfi_remat_attach(dfi_plan *p);
/* The same place in the graph's own part of the plan. */
static inline uint32_t dfi_remat_node(const dfi_plan *p, const dfi_pnode *node) {
  const uint32_t i = (uint32_t)(node - p->node);
  return p->remat && i >= (uint32_t)p->remat->nnodes ? i - p->remat->behind : i;
}

/* A frame whose iterations may run a second time starts; its Enters have come. */
void     dfi_remat_begin(dfi_exec *x, dfi_frame *f);
/* v, of the variable with this number, goes to iteration n. */
void     dfi_remat_next(dfi_remat *s, int64_t n, uint32_t variable, const df_value *v);
/* Does the node run a second time? */
static inline bool dfi_remat_is_copy(const dfi_plan *p, const dfi_pnode *node) {
  return p->remat && node - p->node >= p->remat->nnodes;
}
/* A message of another owner has come to p, a Recv: its value is in its slot. */
void     dfi_remat_received(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p, uint32_t dead);
/* The same message for the Recv's copy; *v is owned, and EMPTY where there was none. False: none has come. */
bool     dfi_remat_replays(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p, df_value *v, uint32_t *dead);
/* A frame that ran for the first time is over, or given up; one that ran a second time. */
void     dfi_remat_first_over(dfi_frame *f);
void     dfi_remat_over(dfi_exec *x, dfi_frame *f);
/* The run is over: whatever is kept goes. */
void     dfi_remat_end(dfi_exec *x);
/* The random numbers of a frame's iterations are drawn under this tag. */
uint64_t dfi_remat_tag(const dfi_second *s);

/* Element i of a has just been written by c: may it be let go? */
bool     dfi_remat_can(const dfi_call *c, struct dfi_tensor_array *a, int64_t i);
/* Lets it go. */
void     dfi_remat_let_go(struct dfi_tensor_array *a, int64_t i);
/* c reads element i of a, which was let go: sees to it that it will be there. */
void     dfi_remat_want(const dfi_call *c, struct dfi_tensor_array *a, int64_t i);
/* Moves what is kept to the host, until so many bytes of the arena are free; all that is kept, with the variable's
   Enter. */
bool     dfi_remat_spill(dfi_exec *x, dfi_devmem *arena, int64_t bytes);
/* How many of the values that are kept are t; to takes the place of each. */
int32_t  dfi_remat_holds(const dfi_exec *x, const df_tensor *t);
int32_t  dfi_remat_moved(const dfi_exec *x, df_tensor *t, df_tensor *to);
void     dfi_remat_walk(const dfi_exec *x, void (*fn)(void *user, const df_node *node, const df_value *v), void *user);

/* ---- what remat.c and remat_plan.c share: kernels in the place of those that the second time must not run */
int32_t  dfi_remat_log(df_kernel *k);        /* the first time: runs, and writes down what came of it */
int32_t  dfi_remat_log_take(df_kernel *k);   /* of a read of an array: where it may give something else later */
int32_t  dfi_remat_logged(df_kernel *k);     /* the second time: gives that */
int32_t  dfi_remat_take(df_kernel *k);
int32_t  dfi_remat_fill(df_kernel *k);
int32_t  dfi_remat_make(df_kernel *k);
#endif
