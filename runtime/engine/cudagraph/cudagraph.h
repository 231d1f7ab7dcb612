/* cudagraph.h: loops whose iterations a GPU runs as graphs: another engine, as engine.h has it.
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
 * A loop inside is a part of the body: a WHILE node whose numbers (counters, the predicate) the GPU computes, or its
 * iterations in a row, where the host knows that they are few. One that takes too long is cut off, and the iteration of
 * the loop around it is the tokens'.
 *
 * TensorArrays are read and written by kernels that are told each iteration's addresses with its numbers.
 *
 * A cond of the body is an IF node, whose two sides write to one place what the Merge gives on; one whose predicate is
 * the same in all iterations is no more than the side that it takes.
 *
 *   cudagraph_analyze.c      can a loop be captured, and in which order do its nodes run? Once for each loop
 *   cudagraph_numbers.c   which numbers are the host's, and what they are in each iteration
 *   cudagraph_sides.c     conds: the sides of IF nodes
 *   cudagraph_inner.c     loops inside
 *   cudagraph_arrays.c    TensorArrays: elements whose addresses the host writes ahead of each launch
 *   cudagraph_journal.c   which elements these are, and rolled-back writes
 *   cudagraph_capture.c   a graph of it is made
 *   cudagraph_exact.c     what the GPU has then that tokens have as the host's numbers, and whether that shows
 *   cudagraph_fixed.c     what it reads that is not of the iteration: where that is in the next run
 *   cudagraph.c           launching; which graphs are kept; what became of each loop, in words
 */
#ifndef DFLOW_CUDAGRAPH_H
#define DFLOW_CUDAGRAPH_H
#include "base/remote_memory.h"
#include "base/text.h"
#include "engine/engine.h"

typedef enum dfi_cudagraph_state {
  DFI_CUDAGRAPH_COLD = 0,
  DFI_CUDAGRAPH_WANTED,
  DFI_CUDAGRAPH_REFUSED
} dfi_cudagraph_state;

/* What is to be done in its turn. RUN: a node of the body, or a group in the turn of its last member (group < 0: none).
 * OPEN … OTHERWISE … CLOSE: the steps of a cond's sides; `node` is its first guard, side 0. A cond may come in several
 * such parts. JOIN: the side at hand gives a Merge its value; `group` is the input. LOOP: loop `node` of those inside.
 */
typedef enum dfi_cudagraph_do {
  DFI_CUDAGRAPH_RUN,
  DFI_CUDAGRAPH_OPEN,
  DFI_CUDAGRAPH_OTHERWISE,
  DFI_CUDAGRAPH_CLOSE,
  DFI_CUDAGRAPH_JOIN,
  DFI_CUDAGRAPH_LOOP
} dfi_cudagraph_do;
typedef struct dfi_cudagraph_step { uint32_t node; int32_t group; dfi_cudagraph_do what; } dfi_cudagraph_step;
/* Where pred is `side`, and the guard `parent` holds. Guard 0 always holds; the others come in pairs, side 0 first.
 * nodes: those that are alive under it and under none inside it, Transfers among them. */
typedef struct dfi_cudagraph_guard {
  int32_t parent; uint8_t side; dfi_operand pred; int64_t nodes;
} dfi_cudagraph_guard;
/* A node that reads or writes one location of an array, which is a variable of the loop, or does not change in it. */
typedef struct dfi_cudagraph_access {
  uint32_t    node;
  bool        writes;
  dfi_operand root;
  atomic_bool adds;              /* to a gradient array, where something was already */
} dfi_cudagraph_access;
/* The same, as it is captured. OFF: it is not. NUMBER: the elements are numbers of the host's. SAME: they are a tensor
 * of the host's, which is the same in each iteration, as shapes are. */
enum { DFI_CUDAGRAPH_OFF = 0, DFI_CUDAGRAPH_NUMBER, DFI_CUDAGRAPH_ELEMENT, DFI_CUDAGRAPH_SAME };
typedef struct dfi_cudagraph_site {
  uint8_t     how, dtype;
  bool        loose;             /* the GPU alone knows whether it takes place */
  bool        accumulates, adds;
  bool        formed;            /* `form` is known: the shape of its elements */
  dfi_shape   form;
  int32_t     word;              /* where its words begin, behind the numbers of an iteration */
  df_tensor  *zeros, *same;      /* owned, or NULL */
} dfi_cudagraph_site;
/* A loop inside. missing: Enters whose tokens have not come, while it is looked at; guard: of its variables' Enters. */
typedef struct dfi_cudagraph_inner {
  struct dfi_cudagraph_loop *loop;
  int32_t     missing, guard;
  bool        started;
} dfi_cudagraph_inner;
/* next NULL: it is not kept on */
typedef struct dfi_cudagraph_var { const dfi_pnode *enter, *next; } dfi_cudagraph_var;

/* What a graph was captured with that is not of the iteration: it must lie there still, or has a place. */
typedef struct dfi_cudagraph_fixed {
  dfi_operand at;
  bool        read;              /* a variable of the session: its value */
  bool        held;
  bool        fed, decides;      /* a number: written before each launch; a side, or the loop, goes by it */
  df_value    value;             /* owned where it is held */
  df_tensor   shape;             /* dtype, dims, data and buffer of a tensor */
  df_tensor  *place;             /* of the graph's own, where it reads it; NULL: where it lies */
} dfi_cudagraph_fixed;
/* What of that has been found elsewhere, or another one, in a later run. number: it is one, and written like those of
 * each iteration. */
typedef struct dfi_cudagraph_moved { dfi_operand at; bool read, number; } dfi_cudagraph_moved;

/* One graph, and what lies in its memory. One run uses it at a time. */
typedef struct dfi_cudagraph_exec {
  struct dfi_cudagraph_exec *next;
  void       *graph;             /* the device's; NULL: none yet */
  int64_t     bytes;             /* that it takes, charged to the device's arena */
  int64_t    *message;           /* by node: of a Transfer, the bytes of its message */
  int32_t     many;              /* iterations */
  int64_t     launches;          /* of it */
  bool        there;             /* the GPU computes the predicate */
  bool        again;             /* and a WHILE node goes by it: `many` is what a launch may have at most */
  bool        masked;            /* an iteration may turn out to be none: the predicate says so, or a loop inside */
  bool        inside;            /* it is a loop inside another one, and computes with what it finds */
  bool        unrolled;          /* then: `trips` iterations in a row */
  bool        cut;               /* a loop inside the last launch's iterations took too long */
  int32_t     trips;
  int64_t     inner_most;        /* iterations that each loop inside may have in a launch */
  struct dfi_cudagraph_exec **inner; /* of the loops inside: owned */
  dfi_record *record;            /* owned, of a loop inside: where its iterations are captured */
  int32_t     most;              /* iterations that the next launch may have: then */
  /* of a loop with `there`, conds or loops inside: dfi_remote.decide's. The words of loops inside are behind its own;
     and where there are any, behind all these the same once more, as they were after the last whole iteration */
  df_tensor  *tally;
  int32_t     ntally;            /* with those of loops inside */
  struct dfi_cudagraph_side *side; /* by pair of guards: cudagraph_sides.c */
  df_value   *joined;            /* by slot: what the sides of a cond give its Merge, while it is captured */
  bool        compiled, compiles;/* its groups are kernels that were compiled for it, or shall be */
  bool        settled;           /* what follows is as the graph was captured with */
  df_value   *state;             /* by variable: a tensor of the graph's; kind and dtype of what the host has */
  uint8_t    *host;              /* by slot: a number that the host computes */
  uint8_t    *varies;            /* by slot: a number of the host's that is another one in each iteration */
  /* By slot, and of a loop inside by constant, while an iteration is captured: by tokens it may be a number of the
     host's, though the GPU has it */
  uint8_t    *counts, *counts_in;
  dfi_cudagraph_fixed *fixed; int32_t nfixed;
  dfi_cudagraph_moved *moved; int32_t nmoved;            /* as the loop has it, when it was captured */
  bool        all_moved;         /* whatever may have a place has one */
  /* Numbers of the host's that vary and that the GPU reads, `nfed` in each iteration: which; where they lie on the GPU,
     and here before each launch. While it is captured: the iteration at hand, and what was in the slots */
  dfi_operand *fed; int32_t nfed;
  df_tensor  *numbers;
  uint64_t   *ahead;
  df_tensor  *row;               /* under a WHILE: those of the iteration at hand */
  dfi_cudagraph_site *site;      /* by access */
  int32_t    nwords, nrow;       /* of an iteration: of its accesses; of these and its numbers */
  uint64_t   *spare;             /* a row that is never read */
  bool        loose;             /* some site is: `sides` says which sides the GPU took, by iteration and pair */
  df_tensor  *sides;
  struct dfi_cudagraph_entry *journal; int32_t njournal, journal_room; /* what arrays were given ahead of time */
  int32_t     ahead_at;          /* the iteration, of those ahead, that is looked at */
  bool        again_ahead;       /* for its numbers alone: arrays have been given what is theirs */
  int32_t     at;
  df_value   *kept;
} dfi_cudagraph_exec;

typedef struct dfi_cudagraph_loop {
  const dfi_scope *scope;
  pthread_mutex_t lock;          /* guards what follows but the atomics and what `looked` says */
  dfi_cudagraph_exec *idle;      /* the one that was used last first */
  int32_t     nmade;             /* idle or not */
  dfi_cudagraph_moved *moved; int32_t nmoved, moved_room;
  int32_t     learned;           /* how often something was added to these */
  bool        bound;             /* numbers that are others in each run cannot be written like those of an iteration */
  _Atomic(char *) reason;        /* it is refused; owned */
  bool        looked;
  dfi_cudagraph_step *step; int32_t nsteps;
  dfi_cudagraph_var *var; int32_t nvars;
  dfi_operand pred;              /* the loop's predicate, where it is computed */
  dfi_cudagraph_inner *inner; int32_t ninner;
  uint8_t    *last_dead;         /* by node: in the iteration whose predicate says no it is dead */
  int64_t     died_last;         /* how many of these there are */
  dfi_cudagraph_guard *guard; int32_t nguards;
  int32_t    *guard_of;          /* by node */
  int32_t    *pair_of;           /* by node, of a cond's Switch or Merge: its first guard; else -1 */
  uint8_t    *first_side;        /* by node, of a Merge: the side that its first input comes from */
  dfi_cudagraph_access *access; int32_t naccess;
  int32_t    *access_of;         /* by node; -1: none */
  dfi_operand *handle_of;        /* by node that reads a variable: where its handle is, by whatever ways it comes */
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
  atomic_int  wrong;             /* captures in a row that ended where an op did not take what it was given */
  atomic_int  within;            /* it is a part of a graph of the loop around it: 1 + `unrolled` */
  atomic_llong launches, iterations, captures;
  atomic_llong updates, reuses, let_go;    /* of captures: they changed a graph where it was; entries without one;
                                              graphs that went when memory was short */
  atomic_bool uncapturable;      /* no graph can be made of it; perhaps a kernel: */
  struct dfi_persistent *persistent; /* owned; NULL: not asked for yet. engine/persistent/persistent_kernel.h */
} dfi_cudagraph_loop;

/* A plan's, by scope. */
typedef struct dfi_cudagraph {
  dfi_cache   cache;             /* first: graphs that are not running go where memory is short */
  const dfi_plan *plan;
  int32_t     n;
  dfi_cudagraph_loop loop[];
} dfi_cudagraph;

/* Where variable k lies in iteration r; the loop's GPU. */
static inline df_value *dfi_cudagraph_slot(const dfi_record *r, const dfi_cudagraph_loop *l, int32_t k) {
  return r->base[DFI_ITERATION] + l->var[k].enter->out;
}
static inline const dfi_device *dfi_cudagraph_device(const dfi_exec *x, const dfi_cudagraph_loop *l) {
  return x->plan->devices->at[l->device];
}

/* Gives the plan's loops this engine, where they have to do with a GPU that has graphs. */
void dfi_cudagraph_attach(dfi_plan *p);
void dfi_cudagraph_forget(dfi_plan *p);
/* What became of the plan's loops (of `loop` alone unless it is NULL), a line each; only where what is
   DF_NATIVE_SUMMARY. */
void dfi_cudagraph_tell(dfi_plan *p, int32_t what, const char *loop, dfi_text *t);

/* Looks at the loop, once. False: it cannot be captured, and `reason` says why. Under its lock. */
bool dfi_cudagraph_analyze(const dfi_plan *p, dfi_cudagraph_loop *l);
/* It cannot; the first reason counts. Gives false. Any thread. */
bool dfi_cudagraph_refuse(dfi_cudagraph_loop *l, const dfi_pnode *p, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef enum dfi_cudagraph_ready {
  DFI_CUDAGRAPH_READY,
  DFI_CUDAGRAPH_NOT_NOW,         /* its variables are not yet what they will be */
  DFI_CUDAGRAPH_NEVER            /* and `reason` says why */
} dfi_cudagraph_ready;
/* Is r such that m's graph runs from it? Then the values of the session's variables that it reads are kept until they
 * are let go, as they are when it was captured. */
bool dfi_cudagraph_fits(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r);
void dfi_cudagraph_release(dfi_cudagraph_exec *m);
/* ---- cudagraph_fixed.c: `fits` too ---- */
/* Is r of the form that m's graph is for, though that does not fit? Then what is elsewhere is kept in mind. Under the
 * loop's lock. */
bool dfi_cudagraph_resembles(dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r);
bool dfi_cudagraph_same_variable(const df_value *is, const df_value *was);
/* Are all of r's of the kinds and shapes that m's graph is for? */
bool dfi_cudagraph_same_variables(const dfi_record *r, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m);
/* Are these values the variables' still? After `fits` or `capture`. *anew: if not, it is to be captured anew. */
bool dfi_cudagraph_current(const dfi_cudagraph_exec *m, const dfi_record *r, bool *anew);
/* What is launched from now on comes after copies to what the graph reads of outside, and to its places for that.
 * After these. False: the device failed. */
bool dfi_cudagraph_await(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m,
                         const dfi_record *r);
/* Before dfi_cudagraph_find_numbers: what is known to move. After it: what m's graph will read. */
void dfi_cudagraph_find_moved(dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r);
void dfi_cudagraph_fix(const dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r);
void dfi_cudagraph_forget_fixed(dfi_cudagraph_exec *m);
/* Between these two r's constants are where the graph has its places for them. */
void dfi_cudagraph_places_in(dfi_cudagraph_exec *m, const dfi_record *r);
void dfi_cudagraph_places_out(dfi_cudagraph_exec *m, const dfi_record *r);
/* The variable with this handle, as m's graph reads it. */
const dfi_cudagraph_fixed *dfi_cudagraph_read(const dfi_cudagraph_exec *m, dfi_operand handle);
/* Finds out which numbers are the host's, from r's variables. */
dfi_cudagraph_ready dfi_cudagraph_prepare(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m,
                                          const dfi_record *r);
/* Captures `many` iterations from r on, which stays as it is; after `prepare`. */
dfi_cudagraph_ready dfi_cudagraph_capture(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                                          int32_t many);
/* ---- cudagraph_numbers.c ---- */
/* Of m->host: COMPUTED in each iteration; HELD: it is one that every record holds. */
enum { DFI_CUDAGRAPH_COMPUTED = 1, DFI_CUDAGRAPH_HELD = 2 };
bool dfi_cudagraph_find_numbers(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r);
/* Inputs of a step that RUNs: of the node, or of its group. */
int32_t dfi_cudagraph_inputs(const dfi_exec *x, const dfi_record *r, dfi_cudagraph_step t);
dfi_operand dfi_cudagraph_input(const dfi_exec *x, const dfi_record *r, dfi_cudagraph_step t, int32_t i);
bool dfi_cudagraph_on_host(const dfi_cudagraph_exec *m, const dfi_record *r, dfi_operand o);
static inline bool dfi_cudagraph_varies(const dfi_cudagraph_exec *m, dfi_operand o) {
  if (DFI_SPACE(o) == DFI_ITERATION) return m->varies[DFI_INDEX(o)];
  for (int32_t i = 0; i < m->nmoved; i++) if (m->moved[i].at == o && m->moved[i].number) return true;
  return false;
}
/* Is some number a constant of the loop that is another one in each run? These are to be as if they were not. */
static inline bool dfi_cudagraph_numbers_move(const dfi_cudagraph_exec *m) {
  for (int32_t i = 0; i < m->nmoved; i++) if (m->moved[i].number) return true;
  return false;
}
void dfi_cudagraph_numbers_stay(dfi_cudagraph_loop *l, dfi_cudagraph_exec *m);
/* Which of the numbers that the GPU reads it is; -1: none. */
static inline int32_t dfi_cudagraph_fed(const dfi_cudagraph_exec *m, dfi_operand o) {
  for (int32_t q = 0; q < m->nfed; q++) if (m->fed[q] == o) return q;
  return -1;
}

/* Where a number is of the iteration whose numbers are in v. */
const df_value *dfi_cudagraph_number_at(const dfi_cudagraph_exec *m, const dfi_record *r, const df_value *v,
                                        dfi_operand o);

/* ---- cudagraph_arrays.c ---- */
/* Does the op read or write one location of an array? */
static inline bool dfi_cudagraph_accesses(const df_op *op) {
  return op->traits & DFO_ARRAY_READS || dfi_writes_array(op);
}
/* With `look`: which arrays they are, and which variables are read. */
bool dfi_cudagraph_find_arrays(const dfi_plan *plan, dfi_cudagraph_loop *l);
/* With find_numbers, before all steps, and in the turn of each access: is it the host's, or the GPU's? */
void dfi_cudagraph_arrays_begin(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m);
bool dfi_cudagraph_find_access(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                               int32_t which);
bool dfi_cudagraph_arrays_fit(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r);
struct dfi_tensor_array *dfi_cudagraph_array(const dfi_record *r, const dfi_cudagraph_access *a);  /* borrowed */
/* One of the site's elements has this shape. Is that what it was captured with? Else nothing is known of it yet. */
bool dfi_cudagraph_form(dfi_cudagraph_site *s, int32_t rank, const int64_t *dims);
/* The same of one that is a tensor of the host's (borrowed), and of its elements. */
bool dfi_cudagraph_same(dfi_cudagraph_site *s, df_tensor *t);
bool dfi_cudagraph_access_captured(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                                   int32_t which, df_error *err);

/* ---- cudagraph_journal.c ---- */
/* In the turn of access `which`, of iteration m->ahead_at of those ahead: does to the array what tokens would. words:
 * behind the iteration's numbers. False: tokens are to do the iteration. */
bool dfi_cudagraph_access_ahead(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                                df_value *v, int32_t which, uint64_t *words);
/* Takes back what was done ahead, all but the first `to` entries of the journal. */
void dfi_cudagraph_undo(dfi_cudagraph_exec *m, int32_t to);
/* The same from iteration `at` on. What was done before stays where it is: the graph has written there. */
void dfi_cudagraph_undo_from(dfi_cudagraph_exec *m, int32_t at);
/* The n iterations have been launched, after `before` others: what was done ahead is committed, but for what the
 * GPU did not do. False: the run has failed, or the device has. */
bool dfi_cudagraph_settle(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                          int64_t before,
                          int64_t n);

/* Where it ended, and what was said; changed: a variable became something else. */
typedef struct dfi_cudagraph_failure { const dfi_pnode *where; df_error err; bool changed; } dfi_cudagraph_failure;

/* ---- cudagraph_inner.c ---- */
/* With `look`: the loops inside, once they have been looked at; and whether they can be that, once l has been. */
bool dfi_cudagraph_find_inner(const dfi_plan *plan, dfi_cudagraph_loop *l);
bool dfi_cudagraph_inner_fit(const dfi_plan *plan, dfi_cudagraph_loop *l);
/* With `prepare`: room for what is captured of them. Their words of a tally, l's among them. */
void dfi_cudagraph_inner_prepare(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m);
int32_t dfi_cudagraph_words(const dfi_cudagraph_loop *l);
/* With `capture`: m's tally is there; those of loops inside are parts of it. False: there is no memory. */
bool dfi_cudagraph_share_tally(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int32_t from);
/* How many iterations each may have, in what is to be the tally. */
void dfi_cudagraph_allow(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, int64_t *tally);
/* In the turn of loop `which`. */
bool dfi_cudagraph_inner_captured(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                                  int32_t which,
                                  dfi_cudagraph_failure *why);
/* An iteration has been captured: where it is one it is counted, and what loops inside have counted is committed. */
bool dfi_cudagraph_commit(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m);
/* Counts what tokens would have counted of the loops inside: in n iterations, and `ended` whose predicate says no. */
void dfi_cudagraph_count_inner(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m,
                               const int64_t *tally,
                               int64_t n, int64_t ended);
void dfi_cudagraph_inner_drop(const dfi_plan *p, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m);
/* How many steps an iteration has, about. */
int32_t dfi_cudagraph_steps(const dfi_cudagraph_loop *l);
/* Calls p's kernel on the GPU, also where tokens have the host compute a number of it. */
bool dfi_cudagraph_call(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_record *r, dfi_pnode *p, df_error *err);

/* ---- cudagraph_exact.c ---- */
/* By tokens, may what lies at o be a number of the host's? While an iteration is captured. */
static inline bool dfi_cudagraph_counts(const dfi_cudagraph_exec *m, const dfi_record *r, dfi_operand o) {
  if (DFI_SPACE(o) == DFI_ITERATION && m->counts[DFI_INDEX(o)]) return true;
  if (DFI_SPACE(o) == DFI_FRAME && m->counts_in[DFI_INDEX(o)]) return true;
  return r->base[DFI_SPACE(o)][DFI_INDEX(o)].kind == DF_SCALAR;
}
/* Has every device the same bits of the op, where it is of numbers? */
bool dfi_cudagraph_exact(const dfi_pnode *p);
/* In the turn of p, which the GPU is to compute. False: the host would, and with other bits. */
bool dfi_cudagraph_count_on(const dfi_exec *x, dfi_cudagraph_exec *m, const dfi_record *r, const dfi_pnode *p,
                            df_error *err);
/* The iteration is over, and its variables are to be what it has made: the same. */
bool dfi_cudagraph_counts_go_on(const dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m,
                                const dfi_record *r,
                                df_error *err);

/* ---- cudagraph_capture.c ---- */
/* The body, once, in r's slots; condition: of the WHILE node that goes by the predicate, or 0. */
bool dfi_cudagraph_iteration(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                             uint64_t condition,
                             dfi_cudagraph_failure *why);
/* Behind it, as the body of a WHILE node. */
bool dfi_cudagraph_around(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                          dfi_cudagraph_failure *why);
void dfi_cudagraph_clear_slots(dfi_record *r);
void dfi_cudagraph_make_room(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m);

/* ---- cudagraph_sides.c ---- */
/* A constant or a number of the host's becomes a tensor of the GPU's: one that varies, a part of what it reads. */
bool dfi_cudagraph_bring(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_operand from,
                         df_value *v);
/* Pairs of guards, and one more for IF nodes that count no cond. */
static inline int32_t dfi_cudagraph_pairs(const dfi_cudagraph_loop *l) { return (l->nguards - 1) / 2 + 1; }
/* A cond, as it is captured. known: its predicate is the same in all iterations: side `taken` is all there is of it. */
typedef struct dfi_cudagraph_side {
  bool        known, taken, counted;       /* counted: an IF node of the iteration at hand says how often it was true */
  bool        late;              /* it is to be counted once it is known that there is an iteration */
  df_value    pred;              /* owned while an iteration is captured: the GPU's predicate */
  const void *where; void *note; /* where it is read */
} dfi_cudagraph_side;
/* Finds out which conds are known. */
void dfi_cudagraph_sides(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r);
/* Which pair of guards the Switch decides about; -1: it is the loop's own. Of a Merge; and its input from that side. */
int32_t dfi_cudagraph_pair(const dfi_cudagraph_loop *l, const dfi_plan *plan, const dfi_pnode *p);
int32_t dfi_cudagraph_pair_of_merge(const dfi_cudagraph_loop *l, uint32_t node);
int32_t dfi_cudagraph_merge_input(const dfi_cudagraph_loop *l, uint32_t node, bool side);
static inline dfi_cudagraph_side *dfi_cudagraph_side_of(const dfi_cudagraph_exec *m, int32_t pair) {
  return &m->side[(pair - 1) / 2];
}
/* Does the cond become an IF node? */
static inline bool dfi_cudagraph_chooses(const dfi_cudagraph_exec *m, int32_t pair) {
  return !dfi_cudagraph_side_of(m, pair)->known;
}
/* The step with which the side ends that begins with step i; where the side is known not to be taken, and i else. */
int32_t dfi_cudagraph_side_ends(const dfi_cudagraph_loop *l, int32_t i);
int32_t dfi_cudagraph_skip(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, int32_t i);
/* Captures a step that is none of RUN. `decided`: the loop's own predicate has been looked at in this iteration. */
bool dfi_cudagraph_side_step(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r,
                             dfi_cudagraph_step t,
                             bool decided, df_error *err);
/* The loop's own predicate has been looked at: conds in that are counted. */
bool dfi_cudagraph_count_late(dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m);
/* A cond's Switch passes its data on, to both sides where it becomes an IF node. */
void dfi_cudagraph_switch(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, const dfi_pnode *p,
                          int32_t pair);
void dfi_cudagraph_merge(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, const dfi_pnode *p);
/* The iteration has been captured, or given up. */
void dfi_cudagraph_sides_end(dfi_cudagraph_loop *l, dfi_cudagraph_exec *m);
/* In n iterations, of which the tally says how often each IF node took its side 1: how often does guard g hold? */
int64_t dfi_cudagraph_alive(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const int64_t *tally, int32_t g,
                            int64_t n);

/* Are two tensors of one dtype and shape? */
static inline bool dfi_cudagraph_same_form(const df_tensor *a, const df_tensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int32_t d = 0; d < a->rank; d++) if (a->dims[d] != b->dims[d]) return false;
  return true;
}
static inline bool dfi_cudagraph_copy(df_tensor *to, const df_tensor *from) {
  return dfi_bytes_copy(to->data, to->buffer, from->data, from->buffer, to->size * dfi_dtype_size[to->dtype]);
}
static inline bool dfi_cudagraph_groups(const dfi_cudagraph_loop *l) {
  bool some = l->scope->ngroups > 0;
  for (int32_t i = 0; i < l->ninner && !some; i++) some = l->inner[i].loop->scope->ngroups > 0;
  return some;
}
/* Has the graph been launched so often that kernels for its groups are worth compiling? Then it is captured anew. */
static inline bool dfi_cudagraph_stale(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m) {
  enum { WORTH = 256 };
  return !m->compiled && dfi_cudagraph_groups(l) && m->launches >= WORTH;
}
/* All of it goes. */
void dfi_cudagraph_drop(const dfi_plan *p, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m);
/* The numbers of one iteration, from those of the variables in v (by slot): into v, those of the next one. False: the
 * loop does not go on, or tokens are to say what is wrong; the variables in v are as they were. fed[nrow]: those that
 * the GPU reads in this one, and where the elements lie that it does. */
enum { DFI_CUDAGRAPH_NUMBERS = 32 };     /* variables that are numbers of the host's, at most */
bool dfi_cudagraph_numbers(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                           df_value *v,
                           uint64_t *fed);
#endif
