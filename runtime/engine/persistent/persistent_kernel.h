/* persistent_kernel.h: loops whose state is small, which a GPU runs as one kernel: iterations without a launch. Before
 * graphs (cudagraph.h), whose look says in which order the nodes run.
 *
 * What the loop's variables and its constants are, in kind and shape, decides what the kernel is: a program
 * (kernels/persistent.h) is made for it, and the device compiles that while graphs or tokens go on. A launch has a
 * number of iterations that takes a few milliseconds at most; then the variables are the iteration's, and a thread
 * that wants to look, or to stop, has its turn. The iteration that ends the loop, and one whose numbers are wrong,
 * are the tokens'.
 *
 *   persistent_program.c   the program of a loop, from the variables of an iteration
 *   persistent_kernel.c        launching; what became of it, in words
 */
#ifndef DFLOW_PERSISTENT_ENGINE_H
#define DFLOW_PERSISTENT_ENGINE_H
#include "engine/cudagraph/cudagraph.h"
#include "kernels/persistent.h"

/* Where an input comes from, and what it was when the program was made. */
typedef struct dfi_persistent_input {
  dfi_operand at;
  bool        read;              /* the value of the variable that is there */
} dfi_persistent_input;

/* A program, and what a launch of it needs. One run uses it at a time. */
typedef struct dfi_persistent_kernel {
  struct dfi_persistent_kernel *next;
  bool        in_use;            /* guarded by the loop's lock */
  dfk_persistent   program;      /* its lists are owned */
  int32_t     *var;              /* by variable of the program: which of the loop's */
  dfi_persistent_input *input;
  int64_t     *message;          /* by node: of a Transfer, the bytes of its message */
  void        *kernel;           /* the device's; NULL: not yet */
  int64_t     most;              /* iterations of the next launch */
  int64_t     began;             /* iterations that graphs of the loop had gone through when it was made */
  int64_t     asked;             /* what it would have saved when the device was asked for it */
} dfi_persistent_kernel;

/* What a loop has of this; guarded by its lock, but for the atomics. */
typedef struct dfi_persistent {
  dfi_persistent_kernel *made;   /* whether a run has it or not; that used last comes first */
  _Atomic(char *) reason;        /* owned: why it is no kernel */
  atomic_llong iterations, launches;
  atomic_bool wanted;            /* there may be a kernel soon: graphs give way to it */
} dfi_persistent;

/* Runs iterations of the loop from r on, if there is a kernel for it. False: graphs or tokens are to go on. */
bool dfi_persistent_run(dfi_exec *x, dfi_cudagraph_loop *l, dfi_frame *f, dfi_record *r);
/* Graphs have run so many iterations in a row: shall they give way, since there may be a kernel now? */
bool dfi_persistent_kernel_ready(dfi_exec *x, dfi_cudagraph_loop *l, int64_t iterations);
/* May it still become a kernel? */
bool dfi_persistent_may_compile(dfi_cudagraph_loop *l);
/* Why it is no kernel; NULL: it is or may become one. Borrowed. */
const char *dfi_persistent_reason(const dfi_cudagraph_loop *l);
/* What became of it. False: nothing; then graphs are told of. */
bool dfi_persistent_tell(const dfi_plan *p, dfi_cudagraph_loop *l, dfi_text *t);
void dfi_persistent_forget(dfi_cudagraph_loop *l);

/* ---- persistent_program.c ---- */
typedef enum dfi_persistent_found {
  DFI_PERSISTENT_MADE,
  DFI_PERSISTENT_LATER,          /* its variables are not yet what they will be */
  DFI_PERSISTENT_NEVER           /* *why, owned, says why */
} dfi_persistent_found;
dfi_persistent_found dfi_persistent_make(dfi_exec *x, dfi_cudagraph_loop *l, const dfi_record *r,
                                         dfi_persistent_kernel *m, char **why);
/* Is r such that m's program is its? */
bool dfi_persistent_fits(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_persistent_kernel *m,
                         const dfi_record *r);
/* What the input is now. Borrowed, or where it is a variable's (read) owned; EMPTY: it has no value. */
df_value dfi_persistent_input_now(const dfi_record *r, const dfi_persistent_input *i);
void dfi_persistent_drop(dfi_persistent_kernel *m);
#endif
