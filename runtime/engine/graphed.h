/* graphed.h: loops whose iterations a GPU runs as graphs: another engine, as engine.h has it.
 *
 * A body whose tensors stay on one GPU, with shapes that stay, is gone through once with its kernels' work captured
 * (kernels/device.h), `many` iterations in a row. From then on the host computes the loop's numbers (counters, the
 * predicate) for as many iterations ahead, counts what tokens would have counted, and launches the graph once for all
 * of them. Variables lie in tensors of the graph's own meanwhile; they become the iteration's again when tokens take
 * over, which they do at any boundary between two launches.
 *
 * Where the predicate is the GPU's, the host does not know how many iterations there will be: after it has said no, the
 * rest of a graph's iterations leave the variables as they are, and the host reads how many counted. So nothing is
 * wanted of CUDA but kernels, as its own WHILE nodes would; a few iterations are computed in vain.
 *
 *   graphed_look.c      can a loop be captured, and in which order do its nodes run? Once for each loop
 *   graphed_capture.c   a graph of it is made, or made anew where what it reads lies elsewhere
 *   graphed.c           launching; what became of each loop, in words
 */
#ifndef DFLOW_GRAPHED_H
#define DFLOW_GRAPHED_H
#include "engine/executor.h"
#include "engine/native/native.h"

typedef enum dfi_graphed_state {
  DFI_GRAPHED_COLD = 0,
  DFI_GRAPHED_WANTED,
  DFI_GRAPHED_REFUSED
} dfi_graphed_state;

/* A node of the body in its turn, or a group in that of its last member (group < 0: none). */
typedef struct dfi_graphed_step { uint32_t node; int32_t group; } dfi_graphed_step;
/* next NULL: it is not kept on */
typedef struct dfi_graphed_var { const dfi_pnode *enter, *next; } dfi_graphed_var;

/* What a graph was captured with that is not of the iteration: it must lie there still. */
typedef struct dfi_graphed_fixed {
  dfi_operand at;
  bool        read;              /* a variable of the session: its value */
  bool        held;
  df_value    value;             /* owned where it is held */
  df_tensor   shape;             /* dtype, dims and data of a tensor */
} dfi_graphed_fixed;

/* One graph, and what lies in its memory. One run uses it at a time. */
typedef struct dfi_graphed_made {
  struct dfi_graphed_made *next;
  void       *graph;             /* the device's; NULL: none yet */
  int64_t     bytes;             /* that it takes, charged to the device's arena */
  int64_t    *message;           /* by node: of a Transfer, the bytes of its message */
  int32_t     many;              /* iterations */
  int64_t     launches;          /* of it */
  bool        there;             /* the GPU computes the predicate */
  df_tensor  *tally;             /* then: dfi_remote.decide's */
  bool        compiled, compiles;/* its groups are kernels that were compiled for it, or shall be */
  bool        settled;           /* what follows is as the graph was captured with */
  df_value   *state;             /* by variable: a tensor of the graph's; kind and dtype of what the host has */
  uint8_t    *host;              /* by slot: a number that the host computes */
  uint8_t    *varies;            /* by slot: a number of the host's that is another one in each iteration */
  dfi_graphed_fixed *fixed; int32_t nfixed;
  /* Numbers of the host's that vary and that the GPU reads, `nfed` in each iteration: which slots; where they lie on
     the GPU, and here before each launch. While it is captured: the iteration at hand, and what was in the slots */
  uint32_t   *fed; int32_t nfed;
  df_tensor  *numbers;
  uint64_t   *ahead;
  int32_t     at;
  df_value   *kept;
} dfi_graphed_made;

typedef struct dfi_graphed_loop {
  const dfi_scope *scope;
  pthread_mutex_t lock;          /* guards what follows but the atomics and what `looked` says */
  dfi_graphed_made *idle;
  _Atomic(char *) reason;        /* it is refused; owned */
  bool        looked;
  dfi_graphed_step *step; int32_t nsteps;
  dfi_graphed_var *var; int32_t nvars;
  dfi_operand pred;              /* the loop's predicate, where it is computed */
  uint16_t    device;            /* the GPU */
  const dfi_pnode *kernel;       /* a node there: errors of a launch name it */
  int64_t     taken, merged;     /* tokens of an iteration */
  atomic_int  state, heat;
  atomic_bool there;             /* its predicate is the GPU's */
  atomic_llong launches, iterations, captures;
} dfi_graphed_loop;

typedef struct dfi_graphed { int32_t n; dfi_graphed_loop loop[]; } dfi_graphed;         /* a plan's, by scope */

/* Gives the plan's loops this engine, where they have to do with a GPU that has graphs. */
void dfi_graphed_attach(dfi_plan *p);
void dfi_graphed_forget(dfi_plan *p);
/* What became of the plan's loops (of `loop` alone unless it is NULL), a line each. */
void dfi_graphed_tell(const dfi_plan *p, const char *loop, dfi_text *t);

/* Looks at the loop, once. False: it cannot be captured, and `reason` says why. Under its lock. */
bool dfi_graphed_look(const dfi_plan *p, dfi_graphed_loop *l);
/* It cannot; the first reason counts. Gives false. Any thread. */
bool dfi_graphed_refuse(dfi_graphed_loop *l, const dfi_pnode *p, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef enum dfi_graphed_ready {
  DFI_GRAPHED_READY,
  DFI_GRAPHED_NOT_NOW,           /* its variables are not yet what they will be */
  DFI_GRAPHED_NEVER              /* and `reason` says why */
} dfi_graphed_ready;
/* Is r such that m's graph runs from it? Then the values of the session's variables that it reads are kept until they
 * are let go, as they are when it was captured. */
bool dfi_graphed_fits(const dfi_graphed_loop *l, dfi_graphed_made *m, const dfi_record *r);
void dfi_graphed_let_go(dfi_graphed_made *m);
/* Are these values the variables' still? After `fits` or `capture`. */
bool dfi_graphed_current(const dfi_graphed_made *m, const dfi_record *r);
/* What is launched from now on comes after copies to what the graph reads of outside. Also after these. False: the
 * device failed. */
bool dfi_graphed_await(const dfi_exec *x, const dfi_graphed_loop *l, const dfi_graphed_made *m, const dfi_record *r);
/* Finds out which numbers are the host's, from r's variables. */
dfi_graphed_ready dfi_graphed_prepare(const dfi_exec *x, dfi_graphed_loop *l, dfi_graphed_made *m,
                                      const dfi_record *r);
/* Captures `many` iterations from r on, which stays as it is; after `prepare`. */
dfi_graphed_ready dfi_graphed_capture(dfi_exec *x, dfi_graphed_loop *l, dfi_graphed_made *m, dfi_record *r,
                                      int32_t many);
/* Has the graph been launched so often that kernels for its groups are worth compiling? Then it is captured anew. */
static inline bool dfi_graphed_stale(const dfi_graphed_loop *l, const dfi_graphed_made *m) {
  enum { WORTH = 256 };
  return !m->compiled && l->scope->ngroups && m->launches >= WORTH;
}
/* All of it goes. */
void dfi_graphed_drop(const dfi_plan *p, const dfi_graphed_loop *l, dfi_graphed_made *m);
/* The numbers of one iteration, from those of the variables in v (by slot): into v, those of the next one. False: the
 * loop does not go on, or tokens are to say what is wrong; the variables in v are as they were. fed[nfed]: those that
 * the GPU reads in this one. */
enum { DFI_GRAPHED_NUMBERS = 32 };       /* variables that are numbers of the host's, at most */
bool dfi_graphed_numbers(const dfi_exec *x, const dfi_graphed_loop *l, const dfi_graphed_made *m, const dfi_record *r,
                         df_value *v, uint64_t *fed);
#endif
