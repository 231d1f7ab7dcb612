/* node.h: what a graph is made of: nodes, the control-flow contexts that they stand in, the conds and loops that
 * contexts belong to. Structs only: graph/build.h has the functions that add to a graph.
 */
#ifndef DFLOW_NODE_H
#define DFLOW_NODE_H
#include "base/internal.h"

typedef struct df_context  df_context;
typedef struct df_loop     df_loop;
typedef struct df_cond     df_cond;
typedef struct dfi_function dfi_function;
typedef struct dfi_out {
  uint8_t   dtype;
  bool      ref;            /* a reference to a variable of this dtype and shape: the slot holds its handle */
  uint8_t   of;             /* dtype DF_RESOURCE: the dtype of the variable or of the array's elements */
  dfi_shape shape;          /* dtype DF_RESOURCE: the shape of the variable's value or of the array's elements */
  df_tensor *constant;      /* owned, or NULL; the value where it is known while building */
} dfi_out;

struct df_node {
  int32_t      id;
  int32_t      op;          /* id in the registry */
  int32_t      nin, nout, ncontrol;
  int32_t      serial;      /* makes the name, with the scope and the type, when none was given */
  df_output   *in;          /* owned; final once the node exists, but for a loop's Merge and for added captures */
  df_node    **control;     /* owned */
  dfi_out     *out;         /* owned */
  df_attr     *attrs;       /* owned; in the entry's order */
  df_context  *context;     /* where its outputs can be used */
  const char  *where;       /* interned; "" when not known */
  const char  *name;        /* interned; NULL until asked for when none was given: dfi_node_name */
  const char  *scope;       /* interned; "" or "a/b/" */
  const char  *device;      /* interned; "" for no request */
  df_graph    *graph;
  int32_t      pass;        /* which call of df_gradients made it, from 1; 0: none */
  int32_t      gradient_of; /* 1 + the node of whose gradient it is a part; 0: of none */
  int32_t      callers;     /* df_node_set_callers; 0: none */
  const char  *contradiction; /* interned; of an imported graph: what shape inference says against its inputs, with
                                which it fails when it runs; NULL: nothing */
  bool         imported;      /* from a file: what it opens, the session must allow */
  bool         unstructured;  /* a primitive of an imported graph that is part of no cond or loop: it has no gradient */
};

/* A control-flow context: the top level, a branch of a cond, the predicate or the body of a loop, the body of a
 * function. A value of context c can be used in c and in every context inside c, there through captures. */
typedef enum df_context_kind {
  DFI_TOP = 0,
  DFI_BRANCH,
  DFI_PRED,
  DFI_BODY,
  DFI_CALLED /* the body of a graph function */
} df_context_kind;
struct df_context {
  df_context_kind kind;
  int32_t     id, depth;
  df_context *parent;
  df_node    *pivot;  /* nodes without data inputs of this context hang on it by a control edge; NULL at the top */
  df_cond    *cond;         /* of a branch */
  int32_t     side;         /* of a branch: 1 true, 0 false */
  df_loop    *loop;         /* of a predicate or body; both share the loop's captures */
  dfi_function *function;   /* of a function's body */
  bool        raised;       /* found in an imported graph: its values may be fed where no loop is around them */
  df_node    *last_effect;  /* the last node with a side effect built here: effects keep program order */
  df_node   **reads;        /* stateful reads since last_effect */
  int32_t     nreads;
  struct dfi_map *captures; /* of a branch: outer output -> Switch output. dfi_map: graph.c */
  struct dfi_map *cache;    /* read-once values such as a variable's top-level read; by (node, index) */
};

/* Contexts, conds and loops know each other and nodes: a field that points is copied in copy.c, too. */

/* A graph function (graph/function.c). Its body stands in the graph once; each FunctionCall opens a frame of it. What
 * the body uses of the outside is an argument behind those that the caller knows, and the last result of every call is
 * its tape, where the call's values that a gradient needs are kept: gradient/function_grad.c. */
struct dfi_function {
  int32_t     id;
  const char *name, *where;            /* the frame's name, unique in the graph; interned */
  df_graph   *graph;
  df_context *body, *caller;           /* caller: where its building was begun; NULL once it is built */
  df_node    *begin, *tape, *ret;      /* ret is NULL while it is built, and for ever where that failed */
  int32_t     nknown, n, cap;          /* arguments: those the caller knows, all */
  df_node   **arg;                     /* n FunctionArgs; owned */
  df_output  *outer;                   /* n; owned: what a captured argument is outside; none for the others */
  int32_t     nresults;                /* without the tape; -1: not known yet */
  uint8_t    *result;                  /* dtypes; owned */
  /* calls of it in bodies that were begun before it was built: its captures are added to them */
  df_node   **call; int32_t ncall;
  struct dfi_map *captures;            /* outer output -> its FunctionArg */
  struct dfi_map *saved;               /* value of the body -> (FunctionSave, slot) */
  /* the functions of its gradient: gradient/function_grad.c; owned */
  int32_t     nbackward; struct dfi_backward *backward;
};
/* The gradient of a function with regard to some of its arguments, of some of its results. */
typedef struct dfi_backward {
  dfi_function *function;
  char *key; /* owned; which results, which arguments: a 1 or 0 each */
} dfi_backward;

/* A cond as it was built: enough to add outputs later and to differentiate it. */
struct df_cond {
  int32_t     id;
  const char *name, *where;
  df_graph   *graph;
  df_context *parent, *branch[2];     /* [0] false, [1] true */
  df_output   pred;                   /* in parent */
  int32_t     n;
  df_output  *result[2];              /* what the branches gave, inside the branch; owned */
  df_node   **merge;                  /* n; owned; in parent. Inputs: [0] false side, [1] true side */
  df_cond    *gradient_of;            /* of a cond that a gradient is made of: the cond whose gradient it is, or NULL */
  df_node    *done;                   /* runs when the cond has run (a Merge of the branches' last effects) or NULL */
  /* branch output -> handle, in parent, of the one-slot TensorArray that saves it; gradient/value.c */
  struct dfi_map *saved;
  struct dfi_map *notes;              /* what gradients needed of it, where no loop is around: saved.c */
};

/* A while_loop as it was built. */
typedef struct dfi_loop_var {
  df_node    *enter, *merge, *swtch, *next, *exit;
  df_output   init;                    /* in parent */
  df_output   result;                  /* what the body gave, in body */
  const char *name;                    /* for messages; interned or NULL */
  bool        has_invariant;
  dfi_shape   invariant;
} dfi_loop_var;
struct df_loop {
  int32_t     id;
  const char *name, *where;            /* the frame's name, unique in the graph */
  df_graph   *graph;
  df_context *parent, *pred, *body;
  df_node    *loop_cond;
  int32_t     n, cap;
  dfi_loop_var *var;                   /* owned */
  struct dfi_map *captures;            /* outer output -> output of the constant Enter */
  int64_t     parallel_iterations, maximum_iterations;
  bool        back_prop, built;
  bool        once;                    /* it is known that its body runs once at the most */
  const char *save;                    /* "keep", "swap", "recompute" */
  bool        save_unsaid;             /* its builder did not say: the session may */
  int32_t     trip_var;                /* index of the variable that counts trips (int32 from 0), or -1 */
  /* of a backward loop: the iteration that it undoes, N - 1 … 0, in the body; variable 0 is one more */
  df_output    down;
  struct dfi_map *saved;  /* body output -> handle, in parent, of the TensorArray that saves it; gradient/value.c */
  struct dfi_map *notes;               /* what gradients needed of its iterations: saved.c */
  df_loop     *gradient_of;            /* of a backward loop: the loop whose gradient it is, or NULL */
  df_loop     *replay;                  /* of save = 'recompute': the loop that runs its iterations again, or NULL */
  df_cond     *mark;  /* of save = 'recompute': taken in the iterations whose variables are kept; NULL: none yet */
  df_output    marks, marks_exit;      /* how many were kept before: in the body, and after the loop */
  /* of iterations run again that hold custom gradients: forward output -> its copy; may be NULL */
  struct dfi_map *replayed;
  struct dfi_map *checkpoints;  /* true side of a variable's Switch -> handle, in parent, of the array that keeps it */
};

struct df_graph {
  int32_t      refs;
  int64_t      serial;                 /* unique in the process */
  int32_t      n, cap;
  df_node    **node;                   /* by id; addresses never change */
  df_context  *top, *current;
  int32_t      ncontexts, nloops, nconds, ngradients;
  int64_t      seed;
  void        *build;                  /* graph.c's own: the open node, scopes, names, interned strings, arenas */
  void        *flow;                   /* control_flow.c's own: what is begun and not ended */
  df_custom_gradient_fn custom; void *custom_user;
  bool files;                          /* its nodes may touch files by themselves: ops/checkpoint.c */
  bool finalized;                      /* nothing is added any more */
  int32_t kept;                        /* nodes before this one may be known outside of the graph: undo.c leaves them */
  struct dfi_map *variable_init;       /* handle output -> initial value */
  void        *gradient;               /* grad.c's own: the pass that is building, or NULL */
  int32_t      gradient_of;            /* the same: 1 + the node whose gradient it builds; 0: none */
  /* Where an output that is out of sight is looked for besides: set by folders that know of further copies of values.
     */
  df_output  (*foreign)(df_graph *g, df_output o);     /* the gradient pass that builds: a forward value */
  df_output  (*unrolled_value)(df_graph *g, df_node *at, df_output o);   /* an unrolled graph: an iteration's value */
  void       (*unrolled_free)(df_graph *g);
  void        *unrolled;               /* unroll.c's own: what was recorded and unrolled, or NULL */
  df_node     *unrolled_at;              /* an unrolled CustomGradient whose function runs: see unrolled_value */
  pthread_mutex_t lock;                /* guards n, node[] growth, and variable_init against sessions that compile */
#ifdef DFLOW_DEBUG
  const void *builder;                 /* the thread that is in the middle of building, or NULL; atomic */
  int32_t     building;                /* how deep it is in that: the builder's own */
#endif
};

static inline uint8_t dfi_dtype(df_output o) { return o.node->out[o.index].dtype; }
static inline const dfi_shape *dfi_shape_at(df_output o) { return &o.node->out[o.index].shape; }
const char *dfi_node_name(df_node *n);                         /* borrowed, for ever */
bool dfi_context_inside(const df_context *inner, const df_context *outer);      /* equal counts */
/* Position of Enter's attributes. */
enum { DFI_ENTER_FRAME_NAME = 0, DFI_ENTER_IS_CONSTANT, DFI_ENTER_PARALLEL_ITERATIONS };
#endif
