/* graphed.h: loops whose iterations a GPU runs as graphs: another engine, as engine.h has it.
 *
 * A body whose tensors stay on one GPU, with shapes that stay, is gone through once with its kernels' work captured
 * (kernels/device.h), `many` iterations in a row. From then on the host computes the loop's numbers (counters, the
 * predicate) for as many iterations ahead, counts what tokens would have counted, and launches the graph once for all
 * of them. Variables lie in tensors of the graph's own meanwhile; they become the iteration's again when tokens take
 * over, which they do at any boundary between two launches.
 *
 * Where the predicate is the GPU's, the host does not know how many iterations there will be. The graph then holds one
 * iteration, in a WHILE node that goes on until the predicate says no, or for as many iterations as one launch may
 * take; the host reads how many there were. A device that has no such nodes gets some iterations in a row: after the no
 * the rest of them leave the variables as they are.
 *
 * TensorArrays are read and written by kernels that are told each iteration's addresses with its numbers.
 *
 * A cond of the body is an IF node, whose two sides write to one place what the Merge gives on; one whose predicate is
 * the same in all iterations is no more than the side that it takes.
 *
 *   graphed_look.c      can a loop be captured, and in which order do its nodes run? Once for each loop
 *   graphed_numbers.c   which numbers are the host's, and what they are in each iteration
 *   graphed_sides.c     conds: the sides of IF nodes
 *   graphed_arrays.c    TensorArrays: elements whose addresses the host writes ahead of each launch
 *   graphed_journal.c   which elements these are, and what does not come to pass
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

/* What is to be done in its turn. RUN: a node of the body, or a group in the turn of its last member (group < 0: none).
 * OPEN … OTHERWISE … CLOSE: the steps of a cond's sides; `node` is its first guard, side 0. A cond may come in several
 * such parts. JOIN: the side at hand gives a Merge its value; `group` is the input. */
typedef enum dfi_graphed_do {
  DFI_GRAPHED_RUN,
  DFI_GRAPHED_OPEN,
  DFI_GRAPHED_OTHERWISE,
  DFI_GRAPHED_CLOSE,
  DFI_GRAPHED_JOIN
} dfi_graphed_do;
typedef struct dfi_graphed_step { uint32_t node; int32_t group; dfi_graphed_do what; } dfi_graphed_step;
/* Where pred is `side`, and the guard `parent` holds. Guard 0 always holds; the others come in pairs, side 0 first.
 * nodes: those that are alive under it and under none inside it, Transfers among them. */
typedef struct dfi_graphed_guard { int32_t parent; uint8_t side; dfi_operand pred; int64_t nodes; } dfi_graphed_guard;
/* A node that reads or writes one location of an array, which is a variable of the loop, or does not change in it. */
typedef struct dfi_graphed_access {
  uint32_t    node;
  bool        writes;
  dfi_operand root;
  atomic_bool adds;              /* to a gradient array, where something was already */
} dfi_graphed_access;
/* The same, as it is captured. OFF: it is not. NUMBER: the elements are numbers of the host's. */
enum { DFI_GRAPHED_OFF = 0, DFI_GRAPHED_NUMBER, DFI_GRAPHED_ELEMENT };
typedef struct dfi_graphed_site {
  uint8_t     how, dtype;
  bool        loose;             /* the GPU alone knows whether it takes place */
  bool        accumulates, adds;
  bool        formed;            /* `form` is known: the shape of its elements */
  dfi_shape   form;
  int32_t     word;              /* where its words begin, behind the numbers of an iteration */
  df_tensor  *zeros;             /* owned, or NULL */
} dfi_graphed_site;
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
  bool        again;             /* and a WHILE node goes by it: `many` is what a launch may have at most */
  int32_t     most;              /* iterations that the next launch may have: then */
  df_tensor  *tally;             /* of a loop with `there` or conds: dfi_remote.decide's */
  int32_t     ntally;
  struct dfi_graphed_side *side; /* by pair of guards: graphed_sides.c */
  df_value   *joined;            /* by slot: what the sides of a cond give its Merge, while it is captured */
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
  df_tensor  *row;               /* under a WHILE: those of the iteration at hand */
  dfi_graphed_site *site;        /* by access */
  int32_t    nwords, nrow;       /* of an iteration: of its accesses; of these and its numbers */
  uint64_t   *spare;             /* a row that nobody reads */
  bool        loose;             /* some site is: `sides` says which sides the GPU took, by iteration and pair */
  df_tensor  *sides;
  struct dfi_graphed_entry *journal; int32_t njournal, journal_room;   /* what arrays were given ahead of time */
  int32_t     ahead_at;          /* the iteration, of those ahead, that is looked at */
  bool        again_ahead;       /* for its numbers alone: arrays have been given what is theirs */
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
  dfi_graphed_guard *guard; int32_t nguards;
  int32_t    *guard_of;          /* by node */
  int32_t    *pair_of;           /* by node, of a cond's Switch or Merge: its first guard; else -1 */
  uint8_t    *first_side;        /* by node, of a Merge: the side that its first input comes from */
  dfi_graphed_access *access; int32_t naccess;
  int32_t    *access_of;         /* by node; -1: none */
  _Atomic(const char *) hindered;          /* why an iteration was left to the tokens; static */
  uint8_t    *decides;           /* by node, of a Transfer: Switches alone read on the host what it brings */
  uint16_t    device;            /* the GPU */
  const dfi_pnode *kernel;       /* a node there: errors of a launch name it */
  int64_t     taken, merged;     /* tokens of an iteration */
  atomic_int  state, heat;
  atomic_bool there;             /* its predicate is the GPU's */
  atomic_bool again;             /* which a WHILE node goes by */
  atomic_bool unconditional;     /* the device has no conditional nodes */
  atomic_int  sides;             /* IF nodes of an iteration */
  atomic_int  arrays;            /* accesses of an iteration */
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
/* ---- graphed_numbers.c ---- */
enum { DFI_GRAPHED_COMPUTED = 1, DFI_GRAPHED_HELD = 2 };   /* of m->host: in each iteration; it is one that every record
                                                              holds */
bool dfi_graphed_find_numbers(const dfi_exec *x, dfi_graphed_loop *l, dfi_graphed_made *m, const dfi_record *r);
/* Inputs of a step that RUNs: of the node, or of its group. */
int32_t dfi_graphed_inputs(const dfi_exec *x, const dfi_record *r, dfi_graphed_step t);
dfi_operand dfi_graphed_input(const dfi_exec *x, const dfi_record *r, dfi_graphed_step t, int32_t i);
bool dfi_graphed_on_host(const dfi_graphed_made *m, const dfi_record *r, dfi_operand o);
static inline bool dfi_graphed_varies(const dfi_graphed_made *m, dfi_operand o) {
  return DFI_SPACE(o) == DFI_ITERATION && m->varies[DFI_INDEX(o)];
}
/* Which of the numbers that the GPU reads it is; -1: none. */
static inline int32_t dfi_graphed_fed(const dfi_graphed_made *m, dfi_operand o) {
  for (int32_t q = 0; q < m->nfed; q++) if (DFI_SPACE(o) == DFI_ITERATION && m->fed[q] == DFI_INDEX(o)) return q;
  return -1;
}

/* Where a number is of the iteration whose numbers are in v. */
const df_value *dfi_graphed_number_at(const dfi_graphed_made *m, const dfi_record *r, const df_value *v, dfi_operand o);

/* ---- graphed_arrays.c ---- */
/* Does the op read or write one location of an array? */
static inline bool dfi_graphed_accesses(const df_op *op) {
  return op->traits & DFO_ARRAY_READS || dfi_writes_array(op);
}
/* With `look`: which arrays they are. */
bool dfi_graphed_find_arrays(const dfi_plan *plan, dfi_graphed_loop *l);
/* With find_numbers, before all steps, and in the turn of each access: is it the host's, or the GPU's? */
void dfi_graphed_arrays_begin(const dfi_graphed_loop *l, dfi_graphed_made *m);
bool dfi_graphed_find_access(const dfi_exec *x, dfi_graphed_loop *l, dfi_graphed_made *m, const dfi_record *r,
                             int32_t which);
bool dfi_graphed_arrays_fit(const dfi_graphed_loop *l, const dfi_graphed_made *m, const dfi_record *r);
struct dfi_tensor_array *dfi_graphed_array(const dfi_record *r, const dfi_graphed_access *a);      /* borrowed */
/* One of the site's elements has this shape. Is that what it was captured with? Else nothing is known of it yet. */
bool dfi_graphed_form(dfi_graphed_site *s, int32_t rank, const int64_t *dims);
bool dfi_graphed_access_captured(dfi_exec *x, const dfi_graphed_loop *l, dfi_graphed_made *m, dfi_record *r,
                                 int32_t which, df_error *err);

/* ---- graphed_journal.c ---- */
/* In the turn of access `which`, of iteration m->ahead_at of those ahead: does to the array what tokens would. words:
 * behind the iteration's numbers. False: tokens are to do the iteration. */
bool dfi_graphed_access_ahead(const dfi_exec *x, dfi_graphed_loop *l, dfi_graphed_made *m, const dfi_record *r,
                              df_value *v, int32_t which, uint64_t *words);
/* Takes back what was done ahead, all but the first `to` entries of the journal. */
void dfi_graphed_undo(dfi_graphed_made *m, int32_t to);
/* The same from iteration `at` on. What was done before stays where it is: the graph has written there. */
void dfi_graphed_undo_from(dfi_graphed_made *m, int32_t at);
/* The n iterations have been launched, after `before` others: what was done ahead has come to pass, but for what the
 * GPU did not do. False: the run has failed, or the device has. */
bool dfi_graphed_settle(dfi_exec *x, const dfi_graphed_loop *l, dfi_graphed_made *m, dfi_record *r, int64_t before,
                        int64_t n);

/* ---- graphed_sides.c ---- */
/* Pairs of guards, and one more for IF nodes that count no cond. */
static inline int32_t dfi_graphed_pairs(const dfi_graphed_loop *l) { return (l->nguards - 1) / 2 + 1; }
/* A cond, as it is captured. known: its predicate is the same in all iterations: side `taken` is all there is of it. */
typedef struct dfi_graphed_side {
  bool        known, taken, counted;       /* counted: an IF node of the iteration at hand says how often it was true */
  bool        late;              /* it is to be counted once it is known that there is an iteration */
  df_value    pred;              /* owned while an iteration is captured: the GPU's predicate */
  const void *where; void *note; /* where it is read */
} dfi_graphed_side;
/* Finds out which conds are known. */
void dfi_graphed_sides(const dfi_graphed_loop *l, dfi_graphed_made *m, const dfi_record *r);
/* Which pair of guards the Switch decides about; -1: it is the loop's own. Of a Merge; and its input from that side. */
int32_t dfi_graphed_pair(const dfi_graphed_loop *l, const dfi_plan *plan, const dfi_pnode *p);
int32_t dfi_graphed_pair_of_merge(const dfi_graphed_loop *l, uint32_t node);
int32_t dfi_graphed_merge_input(const dfi_graphed_loop *l, uint32_t node, bool side);
static inline dfi_graphed_side *dfi_graphed_side_of(const dfi_graphed_made *m, int32_t pair) {
  return &m->side[(pair - 1) / 2];
}
/* Does the cond become an IF node? */
static inline bool dfi_graphed_chooses(const dfi_graphed_made *m, int32_t pair) {
  return !dfi_graphed_side_of(m, pair)->known;
}
/* The step with which the side ends that begins with step i; where the side is known not to be taken, and i else. */
int32_t dfi_graphed_side_ends(const dfi_graphed_loop *l, int32_t i);
int32_t dfi_graphed_skip(const dfi_graphed_loop *l, const dfi_graphed_made *m, int32_t i);
/* Captures a step that is none of RUN. `decided`: the loop's own predicate has been looked at in this iteration. */
bool dfi_graphed_side_step(dfi_exec *x, dfi_graphed_loop *l, dfi_graphed_made *m, dfi_record *r, dfi_graphed_step t,
                           bool decided, df_error *err);
/* The loop's own predicate has been looked at: conds in that are counted. */
bool dfi_graphed_count_late(dfi_exec *x, const dfi_graphed_loop *l, dfi_graphed_made *m);
/* A cond's Switch passes its data on, to both sides where it becomes an IF node. */
void dfi_graphed_switch(dfi_exec *x, dfi_graphed_loop *l, dfi_graphed_made *m, dfi_record *r, const dfi_pnode *p,
                        int32_t pair);
void dfi_graphed_merge(dfi_exec *x, dfi_graphed_loop *l, dfi_graphed_made *m, dfi_record *r, const dfi_pnode *p);
/* The iteration has been captured, or given up. */
void dfi_graphed_sides_end(dfi_graphed_loop *l, dfi_graphed_made *m);
/* In n iterations, of which the tally says how often each IF node took its side 1: how often does guard g hold? */
int64_t dfi_graphed_alive(const dfi_graphed_loop *l, const dfi_graphed_made *m, const int64_t *tally, int32_t g,
                          int64_t n);

/* Has the graph been launched so often that kernels for its groups are worth compiling? Then it is captured anew. */
static inline bool dfi_graphed_stale(const dfi_graphed_loop *l, const dfi_graphed_made *m) {
  enum { WORTH = 256 };
  return !m->compiled && l->scope->ngroups && m->launches >= WORTH;
}
/* All of it goes. */
void dfi_graphed_drop(const dfi_plan *p, const dfi_graphed_loop *l, dfi_graphed_made *m);
/* The numbers of one iteration, from those of the variables in v (by slot): into v, those of the next one. False: the
 * loop does not go on, or tokens are to say what is wrong; the variables in v are as they were. fed[nrow]: those that
 * the GPU reads in this one, and where the elements lie that it does. */
enum { DFI_GRAPHED_NUMBERS = 32 };       /* variables that are numbers of the host's, at most */
bool dfi_graphed_numbers(const dfi_exec *x, dfi_graphed_loop *l, dfi_graphed_made *m, const dfi_record *r, df_value *v,
                         uint64_t *fed);
#endif
