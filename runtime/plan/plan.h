/* plan.h: a graph pruned and laid out for the executor.
 *
 * A plan is made once per signature (what is fetched, what is fed) and never changes: any number of runs
 * share it. It is a set of scopes, the top level and one per loop frame. A scope has its nodes with dense
 * numbers, a dense range of value slots, and a template of the counts each iteration starts with. All
 * scheduling data is here; everything that changes during a run is in executor.h.
 *
 * Where an operand lies (two bits of space, thirty of index):
 *   ITERATION  a slot of the iteration's record: written once by its producer, read in place
 *   FRAME      a loop constant, kept once per frame instance: read, never re-sent
 *   CONSTANT   a Const of the graph: kept in the plan
 *   GIVEN      a feed or a variable's handle: kept in the run
 * Only ITERATION operands arrive as tokens; the others are there before the first one. Scalar constants that a loop
 * reads are copied into each record when it is made, and found there like any other slot.
 *
 * A loop's Merge has no node of its own: each iteration gets exactly one of its inputs (iteration 0 from the Enter, the
 * others from the NextIteration), so these write to the Merge's slot and send on its tokens.
 */
#ifndef DFLOW_PLAN_H
#define DFLOW_PLAN_H
#include "base/internal.h"
#include "op/op.h"
#include "device/device.h"
#include "kernels/cell.h"

enum { DFI_ITERATION = 0, DFI_FRAME = 1, DFI_CONSTANT = 2, DFI_GIVEN = 3 };
typedef uint32_t dfi_operand;
#define DFI_OPERAND(space, index) (((uint32_t)(space) << 30) | (uint32_t)(index))
#define DFI_SPACE(operand)        ((operand) >> 30)
#define DFI_INDEX(operand)        ((operand) & 0x3fffffffu)

/* What the executor does with a node. */
typedef enum dfi_kind {
  DFI_K_SCALAR, /* a function on unboxed numbers; the kernel when an operand turns out to be a tensor */
  DFI_K_READ,   /* of a variable; the kernel when there is no value */
  DFI_K_KERNEL,
  DFI_K_SWITCH,
  DFI_K_MERGE,
  DFI_K_ENTER,
  DFI_K_EXIT,
  DFI_K_NEXT,
  DFI_K_EXIT_REMAT, /* of a loop whose iterations may be run a second time: engine/memory/remat.h */
  DFI_K_NEXT_REMAT, /* these four stand together: a dead token ends at them */
  DFI_K_CONST,
  DFI_K_CALL,
  DFI_K_ARG,
  DFI_K_RETURN,
  DFI_K_NOOP,
  DFI_K_UNFED,
  DFI_K_TRIGGER, /* as NOOP, but it runs whatever its inputs are */
  DFI_K_TRANSFER /* a Send and its Recv */
} dfi_kind;
static inline bool dfi_is_exit(int32_t kind) { return kind == DFI_K_EXIT || kind == DFI_K_EXIT_REMAT; }
static inline bool dfi_is_next(int32_t kind) { return kind == DFI_K_NEXT || kind == DFI_K_NEXT_REMAT; }

/* A token's way from an output to a node. */
/* `to`: DFI_TO_*, and above it a Merge's input number */
typedef struct dfi_edge { uint32_t node; uint32_t to; } dfi_edge;
enum { DFI_TO_PLAIN = 0, DFI_TO_MERGE = 1, DFI_TO_MERGE_CONTROL = 2, DFI_TO_EXIT = 3 };

/* Counts a node of an iteration starts with. Plain nodes: tokens still to come, and DFI_DEAD once one was dead.
 * Merges: dead inputs still missing to make it dead (low 15 bits), controls to come (15 bits), whether it has its
 * value. */
#define DFI_DEAD          0x80000000u
#define DFI_MERGE_LIVE    0x40000000u
#define DFI_MERGE_FIRED   0x80000000u
#define DFI_MERGE_CONTROL 0x00008000u
#define DFI_MERGE_CONTROLS(c) (((c) >> 15) & 0x7fffu)
#define DFI_MERGE_DEADS(c)    ((c) & 0x7fffu)

typedef struct dfi_pnode {
  uint8_t      kind;
  uint8_t      out_dtype;
  /* ENTER: it is a loop constant; TRANSFER: the value is read on the host and stays there; SWITCH: bit i, where output
     i is live the other one goes to Exits alone, to which a dead token is nothing; and DFI_SWITCH_HAS_OWN */
  uint8_t      constant;
  uint8_t      merges;       /* ENTER, NEXT: delivers for a Merge too, see below */
  uint32_t     in;  /* first operand in plan->operand; at least three are there, the first again where nin < 3 */
  /* first slot; of the child's record or constants for ENTER, of the parent's for EXIT, of the next iteration for NEXT
     */
  uint32_t     out;
  /* edges in plan->edge: [0,1) of output 0 (all outputs unless SWITCH), SWITCH: [1,2) of output 1, [2,3) of the node
     itself */
  uint32_t     edge[4];
  /* 1 + where among the constants of a frame of `target` its outputs are kept, which that frame's iterations share:
     plan/invariant.c; 0: each iteration has its own */
  uint32_t     invariant;
  union {
    df_scalar_fn scalar;         /* SCALAR */
    df_kernel_fn here;           /* KERNEL that waits for other ranks: its kernel, where its variables are */
  };
  uint32_t     nin, nout;
  /* ENTER, CALL: which child frame of the iteration; EXIT: which exit of the frame; TRANSFER: which link */
  uint16_t     child;
  uint16_t     device;       /* where it runs; of a TRANSFER: where its value arrives */
  union {
    uint32_t   enter;        /* ENTER: its number among the child's Enters; ARG: which argument */
    /* KERNEL, SCALAR: 1 + the list where it waits for others like it, and DFI_LATE; 0: it does not. plan/batch.c */
    uint32_t   batch;
    /* TRANSFER: 1 + the node of the one that, dead, stands for this one, too; 0: it is that, or alone. liveness.c */
    uint32_t   with;
  };
  /* ENTER, CALL: the child's scope; of an invariant: the loop's; TRANSFER: 1 + the next one of those `with` it, or 0 */
  uint32_t     target;
  uint32_t     scope;        /* the scope its operands lie in */
  uint8_t      has_handle, offload, iteration_operands, waits;     /* waits: DFI_WAITS_FAR: see owners.c */
  uint32_t     group;            /* 1 + its group's number; 0: it has none */
  df_kernel_fn kernel;
  const df_op *op;
  df_node     *node;         /* for attributes, names and messages */
  uint8_t     *out_dtypes;   /* nout */
  uint8_t     *reads;        /* nin: inputs that are references and wanted as values; NULL where there are none */
  uint32_t     inside, place;    /* of a group's: its edges up to here stay in the group; which member it is */
  const dfi_gpu_kernel *gpu; /* of a node on a GPU; NULL: the CPU's kernel, as its entry's `remote` says */
} __attribute__((aligned(128))) dfi_pnode;   /* its address is a shift away from its number */

/* Elementwise nodes of one scope that are computed in one pass: plan/group.c finds them, engine/tokens/group_run.c runs
   them. */
enum { DFI_GROUP_MEMBERS = 64 };
typedef struct dfi_member {
  uint32_t   node;               /* its number in the scope */
  int32_t    step;               /* the step of the chain that makes its value */
  uint32_t   reads;              /* by members, of its value */
  bool       wanted;             /* by others too */
} dfi_member;
/* reads: by members; last: the last step that does; narrow: a step does that has one element a row */
typedef struct dfi_group_input { dfi_operand at; int32_t reads, last; bool narrow; } dfi_group_input;
/* What is computed before a group's chain, in the same pass: sums of products and other terms, whose parts are inputs
   of the chain. kernels/cell.h. at: weights, vector or matrix. */
typedef struct dfi_term {
  dfk_term_kind kind;
  int32_t     nparts;
  bool        turned;
  dfi_operand part[DFK_CELL_PARTS], at;
} dfi_term;
typedef struct dfi_gates {
  int32_t     nsources, n;       /* n: gates of all */
  struct { int32_t gates, nterms; dfi_term term[DFK_CELL_TERMS]; } source[DFK_CELL_SOURCES];
  int8_t      of[DFK_CHAIN_INPUTS];  /* by input: which one it is; -1: none */
} dfi_gates;
/* What a GPU has for a group whose inputs meet its elements so: the kernel, NULL: none yet, and then how often it was
   wanted. */
enum { DFI_GROUP_FORMS = 4 };
typedef struct dfi_group_form {
  uint64_t on_host, how[2];
  _Atomic(void *)  kernel;
  _Atomic uint32_t wanted;
} dfi_group_form;
typedef struct dfi_group {
  int32_t    n;
  int32_t    first;              /* members before this one make the chain's gates */
  dfi_gates *gates;              /* of a recurrent cell; NULL */
  int32_t    convolution;        /* member 0 is one, and makes this input of the chain, counted from 1; 0: it is none */
  dfi_member *member;            /* n, each after those whose values it reads */
  uint32_t   slot;               /* of the iteration: how far the group is, see engine/tokens/group_run.c */
  uint16_t   device;             /* where its members run */
  bool       product;            /* two members: a matrix product, and the sum of it and input 0; no chain */
  bool       biased;             /* the same on a GPU, of inputs 0 and 1, and a vector, input 2; no chain */
  uint32_t   batch;              /* as a node's */
  bool       convolved;          /* biased, but what the vector is added to is a convolution; member 2 is its ReLU */
  dfi_group_input *input;        /* chain.ninputs, or of a product 1 */
  dfk_chain  chain;
  _Atomic(dfi_group_form *) form[DFI_GROUP_FORMS];   /* those that were met first, from the front; they stay */
} dfi_group;

/* Of a node's `batch`: its output may be a sum that is computed where it is read. plan/batch.c */
#define DFI_LATE 0x80000000u
/* Of one list: calls that were several computed as one, the members that they had, and the most that one had. */
typedef struct dfi_batch_reached { _Atomic int64_t calls, members; _Atomic uint32_t most; } dfi_batch_reached;
/* Of runs of a plan that may do without: how many there were, and the least time of a node in the last that were
   measured, in ns: one by one, and with nodes that wait for others like them. INFINITY: not measured. */
typedef struct dfi_batch_costs { _Atomic uint32_t runs; _Atomic float node_ns[2]; } dfi_batch_costs;
enum { DFI_SWITCH_HAS_OWN = 4 /* edges of the node itself */ };
enum { DFI_WAITS_FAR = 2 };      /* variables that it takes may be another rank's: engine/owners/far_kernel.c */
enum { DFI_COUNTS_COPIED = 4 /* at once: see record_new */ };
enum { DFI_FUNCTION = -2 };
typedef struct dfi_scope {
  int32_t      id, parent;   /* parent -1: the top level; DFI_FUNCTION: a function, whose frames may open anywhere */
  uint32_t     child;        /* which child of the parent */
  const char  *name;         /* the frame's name */
  const char  *where;        /* Lua line of the loop */
  int64_t      parallel_iterations;
  uint32_t     first, n;     /* nodes in plan->node: a node's number is its place after `first` */
  uint32_t     nslots, nconsts, nchildren, nenters, nexits;
  uint32_t     ninvariants;  /* values behind the constants that its iterations share: plan/invariant.c */
  uint32_t    *counts;       /* n, and DFI_COUNTS_COPIED more: the template */
  uint32_t    *uses;         /* nslots: readers of each slot */
  struct { uint32_t slot, constant; } *copies; uint32_t ncopies;   /* scalar constants that every record holds */
  uint32_t    *roots, nroots;/* nodes that wait for nothing: they start with the iteration */
  /* of an owner: messages to and from others at the end of each iteration, in rounds: owners.c */
  struct { uint32_t node, round; } *ends; uint32_t nends;
  uint32_t    *groups, ngroups;  /* numbers of its groups */
  dfi_pnode  **enters;       /* nenters */
  dfi_pnode  **exits;        /* nexits */
  /* readers of loop constant c: const_users[const_first[c] … const_first[c+1]) */
  uint32_t    *const_users, *const_first;
  uint32_t    *spent, nspent;    /* loop constants that the iteration which leaves it does not read: plan/spent.c */
  size_t       record_bytes; /* of the engine that runs it: dfi_exec_lay_out */
  const struct dfi_engine_ops *engine_ops; /* another engine that may run its iterations: engine/engine.h; NULL: none */
  bool         remat;        /* what its iterations save may be computed a second time: engine/memory/remat.h */
  bool         batch;        /* nodes of its iterations or calls wait for others like them: plan/batch.c */
} dfi_scope;

/* Why a node is where it is: plan/place.c. */
typedef enum dfi_why {
  DFI_WHY_DEFAULT = 0,
  DFI_WHY_ASKED,
  DFI_WHY_RESOURCE,
  DFI_WHY_FLOW,
  DFI_WHY_BYTES,
  DFI_WHY_MEASURED,          /* as BYTES, by what it took in a run */
  DFI_WHY_HOST,
  DFI_WHY_SOFT,
  DFI_WHY_CONSTANT,
  DFI_WHY_FED,
  DFI_WHY_SCATTERED,
  DFI_WHY_COLOCATED,
  DFI_WHY_FUNCTION,
  DFI_WHY_EQUAL,
  DFI_WHY_FOLDED,
  DFI_WHY_NEUTRAL
} dfi_why;

/* A way between two devices that the plan uses. */
typedef struct dfi_link { uint16_t from, to; } dfi_link;
/* Something given (a feed, a constant that was put on a device) that crosses when the run begins. */
typedef struct dfi_crossing { dfi_operand from; uint16_t link; bool host;
    /* it is read on the host there */ df_node *node; } dfi_crossing;

/* What the plan has so that iterations can be run a second time: a copy of every scope but the top level, and of its
   nodes, behind them. Scope i has its copy at nscopes + i. engine/memory/remat.h */
typedef struct dfi_remat_plan {
  int32_t      nscopes, nnodes;   /* without the copies */
  uint32_t     behind;            /* node n of a loop has its copy at n + behind */
  uint32_t     child;             /* the first of the top level's places for frames that run a second time */
  df_kernel_fn *kernel;           /* by node: as it was, where it is to be told what to do the second time */
  char       **why;               /* by scope: why its iterations cannot be run a second time, owned; NULL */
  double      *seconds;           /* by scope: what an iteration takes, as estimated */
} dfi_remat_plan;

/* The parts of each owner, where a session has several: plan/owners.c. */
enum { DFI_COUNTED_EVERYWHERE = 0xffff, DFI_TAG_DEPTH = 64 /* loops around a Transfer between two owners */ };
typedef struct dfi_parts {
  int32_t      n, nscopes;   /* owners */
  uint64_t     ranks;        /* bit k: rank k has a part; its owners' numbers follow each other */
  uint16_t    *owner;        /* by device */
  uint8_t     *rank;         /* by owner */
  uint16_t    *counter;      /* by scope: the owner that counts its frames and iterations */
  bool         far;          /* some node may take variables of another rank than its owner's */
  bool        *called;       /* by scope: it is of a graph function, or in one, and all of it belongs to the caller */
  dfi_scope  **scope;        /* by owner: the plan's scopes, with its own roots, Recvs among them, Enters and Exits */
} dfi_parts;

typedef struct dfi_plan {
  struct df_session *session;
  uint64_t     hash;
  uint64_t     wire_id;      /* by which workers of a cluster know it; 0: they do not */
  int32_t      nfetch, nfeed;
  uint32_t     watched;      /* DFI_PLAN_STEPPED and DFI_PLAN_PRIMITIVES, as its run asked for them */
  int32_t     *signature;    /* fetch pairs, then feed pairs */
  struct dfi_plan *next;     /* in the session's table */
  /* by last use, the latest first; guarded, as next, by the session's lock */
  struct dfi_plan *newer, *older;
  atomic_int   users;        /* runs and others that hold it: it stays */
  int64_t      bytes;        /* about what it takes */
  _Atomic int64_t idle_bytes; /* and the states in `idle` */
  int32_t      nnodes, nscopes;
  dfi_pnode   *node;
  dfi_scope   *scope;        /* [0] is the top level */
  dfi_operand *operand; uint32_t noperands;
  dfi_edge    *edge;
  dfi_group   *group; int32_t ngroups;
  uint32_t     nbatches;     /* lists of nodes, or groups, that wait for others like them; 0: none does */
  dfi_batch_reached *reached;  /* nbatches; what runs of the plan came to */
  bool         batch_measured; /* whether nodes wait is decided by these: */
  dfi_batch_costs batch_costs;
  uint32_t     widest;       /* tokens that one node can send at most, with those of an iteration that it opens */
  df_value    *constant; int32_t nconstants;
  dfi_operand *fetch;        /* nfetch; where each fetched value lies at the end; for an operation ~0 */
  dfi_pnode  **fetch_node;   /* nfetch; the node that makes it, or NULL */
  df_output   *feed;         /* nfeed */
  uint16_t    *variable_device;                /* of each, where it lives; of a plan that is cut */
  df_node    **variable; int32_t nvariables;   /* handles, in the GIVEN space after the feeds */
  int32_t     *random; int32_t nrandom;        /* ids of the nodes that draw from the session's generator, in order */
  _Atomic int64_t ready_epoch;                 /* all variables were initialised in this epoch of the session */
  pthread_mutex_t lock;
  struct dfi_exec *idle;     /* states of finished runs, kept for the next; guarded by lock */
  df_graph    *graph;
  const struct dfi_engine_ops *engine_ops;     /* of all its loops; NULL: none */
  struct dfi_units *native;                    /* its loops as machine code, that engine's; NULL until one is wanted */
  struct dfi_cudagraph *cudagraph;             /* its loops as graphs of a GPU, that engine's; NULL: it has none */
  dfi_remat_plan *remat;                       /* NULL: nothing is computed a second time */
  /* where it runs */
  dfi_devices *devices;      /* the session's; NULL: the host alone */
  bool         cut;          /* it is on more devices than the host */
  uint32_t     jobs;         /* dfi_jobs_version when its places were chosen */
  int32_t      chosen;       /* 1 + how many runs had been measured when its places were chosen; 0: none was */
  dfi_parts   *parts;        /* of several owners; NULL: one owner turns it all */
  const char  *one_owner;    /* why, where the session has several; NULL: several do, or it has one */
  dfi_link    *link; int32_t nlinks;
  dfi_crossing *crossing; int32_t ncrossings;  /* their values, in the GIVEN space after the variables */
  df_node    **extra; int32_t nextra;          /* nodes of the plan alone; owned */
  /* nodes whose inputs are constants, by id, and the constants that stand for them, which are among `extra`: fold.c */
  struct dfi_folded { int32_t node; df_node *constant; } *folded; int32_t nfolded;
  /* nodes that another one stands for, by id, which may have one itself: simplify.c; output: as mark.stands */
  struct dfi_equal { int32_t node, kept, output; } *equal; int32_t nequal;
  /* of every node that is needed */
  struct dfi_place {
    int32_t node, device; uint8_t why; int32_t because;
    int32_t loop;              /* the scope whose iterations share its value; 0: none do */
  } *place; int32_t nplaces;
} dfi_plan;

/* How a plan is made. REFERENCE: with the reference kernels. PRIMITIVES: every node of the graph that is needed fires
 * on its own, each Merge, LoopCond, Switch, constant and Identity; otherwise Enter and NextIteration deliver for a
 * loop's Merge, LoopConds and Identities pass their input on, constants are read where they lie, and equal Switches
 * are one. Handles of variables and what is fed are there without a token in both. AS_WRITTEN: nothing is simplified
 * (plan/simplify.c), as with PRIMITIVES. STEPPED: the same of a plan that is for one device. */
enum { DFI_PLAN_REFERENCE = 1, DFI_PLAN_PRIMITIVES = 2, DFI_PLAN_AS_WRITTEN = 4, DFI_PLAN_STEPPED = 8,
       DFI_PLAN_BATCH = 16 /* all iterations and calls */ };

/* The scope in which the outputs of q are read. */
static inline const dfi_scope *dfi_reads_in(const dfi_plan *p, const dfi_pnode *q) {
  return &p->scope[q->kind == DFI_K_ENTER ? (int32_t)q->target
                   : dfi_is_exit(q->kind)   ? p->scope[q->scope].parent
                                            : (int32_t)q->scope];
}

/* Makes the plan for a signature. Pairs as in df_session_run; how: DFI_PLAN_ flags. NULL: err is filled. */
dfi_plan *dfi_plan_make(struct df_session *s, dfi_devices *devices, df_graph *g, int32_t nfetch,
                        const int32_t *fetches, int32_t nfeed, const int32_t *feeds, uint32_t how, df_error *err);
void dfi_plan_free(dfi_plan *p);
/* What n takes on a device, by the shapes that are known of what it takes and makes. */
double dfi_plan_seconds(const df_node *n, const dfi_device *d);
/* owners.c: why one owner turns a run by the virtual clock. */
extern const char dfi_in_time_order[];
/* owners.c: makes each owner's scopes, of those that are copies (remat), too. Before the plan is shared. */
void dfi_plan_lay_owners(dfi_plan *p);
/* Does more than this process turn it? */
static inline bool dfi_plan_over_ranks(const dfi_plan *p) { return p->parts && p->parts->ranks > 1; }
/* How many loops are around a scope, itself among them. */
static inline int32_t dfi_scope_depth(const dfi_plan *p, int32_t scope) {
  int32_t depth = 0;
  for (; scope > 0; scope = p->scope[scope].parent) depth++;
  return depth;
}
/* The owner that runs q, and the one that has its value: of a Transfer the sender and the receiver. */
static inline int32_t dfi_owner_of(const dfi_plan *p, const dfi_pnode *q) {
  return p->parts->owner[q->kind == DFI_K_TRANSFER ? p->link[q->child].from : q->device];
}
static inline int32_t dfi_receiver_of(const dfi_plan *p, const dfi_pnode *q) {
  return p->parts->owner[q->kind == DFI_K_TRANSFER ? p->link[q->child].to : q->device];
}
/* place.c: the rank where a variable, or another resource that outlives runs, lives, whichever plans use it. */
int32_t dfi_plan_home_rank(df_graph *g, dfi_devices *d, const df_node *variable);
/* digest.c: equal where two processes made the same plan of the same graph. */
uint64_t dfi_plan_digest(const dfi_plan *p);
int64_t dfi_plan_bytes(const dfi_plan *p);      /* what it takes, about */
/* The same; `tell`, unless it is NULL, gets what df_plan_describe gives. */
dfi_plan *dfi_plan_make_and_tell(struct df_session *s, dfi_devices *devices, df_graph *g, int32_t nfetch,
                                 const int32_t *fetches, int32_t nfeed, const int32_t *feeds, uint32_t how,
                                 int32_t *tell, df_error *err);
#endif
