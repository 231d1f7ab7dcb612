/* internal.h: what the files of runtime/ share and nobody else sees. */
#ifndef DFLOW_INTERNAL_H
#define DFLOW_INTERNAL_H
#include "dflow.h"
#include "kernels/kernel.h"
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef DFLOW_DEBUG
#define df_assert(x) assert(x)      /* what we promised each other; on in debug builds and under spec/ */
#else
#define df_assert(x) ((void)0)
#endif
#define DFI_LIKELY(x)   __builtin_expect(!!(x), 1)
#define DFI_UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef struct df_node     df_node;
typedef struct df_context  df_context;
typedef struct df_loop     df_loop;
typedef struct df_cond     df_cond;
typedef struct df_output { df_node *node; int32_t index; } df_output;   /* node NULL: none */
typedef struct dfi_shape { int8_t rank; int64_t dims[DF_MAX_RANK]; } dfi_shape; /* rank -1, dim -1: unknown */

#define DFI_NONE ((df_output){ NULL, 0 })

/* ---- errors (error.c) ---------------------------------------------------------------------- */
/* Fills err (may be NULL) and returns code. `where` may be NULL. */
int32_t dfi_fail(df_error *err, int32_t code, const char *where, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- memory (memory.c): aligned, counted, cached, with stress switches ----------------------- */
void *dfi_alloc(int64_t bytes);        /* 64-byte aligned tensor memory; NULL when out of memory or past the limit */
void  dfi_release(void *p, int64_t bytes);
void *dfi_xmalloc(size_t bytes);       /* bookkeeping; ends the process when the system has no memory at all */
void *dfi_xcalloc(size_t n, size_t bytes);
void *dfi_xrealloc(void *p, size_t bytes);
char *dfi_xstrdup(const char *s);

/* owns: DF_STRING or DF_VARIANT where the elements own what they point at, otherwise 0. */
struct df_buffer { int32_t refs; /* atomic */ uint8_t owns; int64_t bytes; void *data; };
/* One plain tensor, its buffer of its own; as df_tensor_new but without a df_error. NULL: out of memory. */
df_tensor *dfi_tensor_make(uint8_t dtype, int32_t rank, const int64_t *dims);
/* Elements [first, first + size of dims) of t as a tensor of its own header, sharing t's storage; owned. NULL: out of memory.
 * The caller sees to it that the data keep the alignment that kernel.h promises. */
df_tensor *dfi_tensor_view(df_tensor *t, int64_t first, int32_t rank, const int64_t *dims);
df_tensor *dfi_tensor_from_scalar(const df_value *v);               /* owned; rank 0 */
bool       dfi_value_from_tensor(df_value *out, df_tensor *t);       /* consumes t; unboxes rank-0 numbers */
df_value   dfi_value_copy(const df_value *v);                        /* retains what it holds */
static inline void dfi_value_drop(df_value *v) {
  if (v->kind >= DF_TENSOR) df_value_release(v);
}
/* Handles: variables and TensorArrays begin with this. */
typedef struct dfi_handle { int32_t refs; /* atomic */ int32_t type; void (*destroy)(struct dfi_handle *h); } dfi_handle;
enum { DFI_VARIABLE = 1, DFI_TENSOR_ARRAY = 2, DFI_QUEUE = 3, DFI_STACK = 4, DFI_ARRAY_V3 = 16, DFI_LIST = 17, DFI_BOX = 18, DFI_RAGGED = 19, DFI_OPTIONAL = 20 };
static inline void *dfi_handle_retain(void *h) { __atomic_add_fetch(&((dfi_handle *)h)->refs, 1, __ATOMIC_RELAXED); return h; }
static inline void dfi_handle_release(void *h) {
  dfi_handle *p = h;
  if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) == 0) p->destroy(p);
}
extern const uint8_t dfi_dtype_size[32];
static inline bool dfi_is_float(uint8_t t) { return t == DF_FLOAT32 || t == DF_FLOAT64 || t == DF_FLOAT16 || t == DF_BFLOAT16; }
static inline bool dfi_is_int(uint8_t t) {
  return t == DF_INT32 || t == DF_INT64 || t == DF_INT8 || t == DF_UINT8 || t == DF_INT16 || t == DF_UINT16 || t == DF_UINT32 || t == DF_UINT64;
}
static inline bool dfi_is_complex(uint8_t t) { return dfk_is_complex(t); }
/* Does a rank-0 value of this dtype lie in the slot itself? */
static inline bool dfi_unboxed(uint8_t t) {
  return !((1u << DF_STRING | 1u << DF_VARIANT | 1u << DF_COMPLEX64 | 1u << DF_COMPLEX128) >> t & 1);
}

/* ---- worker threads (pool.c) ------------------------------------------------------------------ */
typedef struct dfi_pool dfi_pool;
dfi_pool *dfi_pool_get(int32_t threads);      /* borrowed, for ever; the pool with that many workers beside the caller */
void dfi_pool_range(dfi_pool *p, int64_t n, int64_t grain, df_range_fn fn, void *arg);
/* Runs fn(arg) on a worker when one is idle: true. Otherwise false, and nothing happened. */
bool dfi_pool_try(dfi_pool *p, void (*fn)(void *), void *arg);

/* ---- the graph (graph.c) ------------------------------------------------------------------------ */
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
  bool         loose;       /* a primitive of an imported graph that is part of no cond or loop: it has no gradient */
};

/* A control-flow context: the top level, a branch of a cond, the predicate or the body of a loop.
 * A value of context c can be used in c and in every context inside c, there through captures. */
typedef enum df_context_kind { DFI_TOP = 0, DFI_BRANCH, DFI_PRED, DFI_BODY } df_context_kind;
struct df_context {
  df_context_kind kind;
  int32_t     id, depth;
  df_context *parent;
  df_node    *pivot;        /* nodes without data inputs of this context hang on it by a control edge; NULL at the top */
  df_cond    *cond;         /* of a branch */
  int32_t     side;         /* of a branch: 1 true, 0 false */
  df_loop    *loop;         /* of a predicate or body; both share the loop's captures */
  bool        raised;       /* found in an imported graph: its values may be fed where no loop is around them */
  df_node    *last_effect;  /* the last node with a side effect built here: effects keep program order */
  df_node   **reads;        /* stateful reads since last_effect */
  int32_t     nreads;
  struct dfi_map *captures; /* of a branch: outer output -> Switch output. dfi_map: graph.c */
  struct dfi_map *cache;    /* read-once values such as a variable's top-level read; by (node, index) */
  struct dfi_map *assigned; /* handles of the variables assigned in here so far, and in contexts inside; control_flow.c */
};

/* Contexts, conds and loops know each other and nodes: a field that points is copied in copy.c, too. */

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
  df_cond    *undoes;                 /* of a cond that a gradient is made of: the cond whose gradient it is, or NULL */
  df_node    *done;                   /* runs when the cond has run (a Merge of the branches' last effects) or NULL */
  struct dfi_map *saved;              /* branch output -> handle, in parent, of the one-slot TensorArray that saves it; gradient/value.c */
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
  const char *save;                    /* "keep", "swap", "recompute" */
  int32_t     trip_var;                /* index of the variable that counts trips (int32 from 0), or -1 */
  df_output    down;                   /* of a backward loop: the iteration that it undoes, N - 1 … 0, in the body; variable 0 is one more */
  struct dfi_map *saved;               /* body output -> handle, in parent, of the TensorArray that saves it; gradient/value.c */
  struct dfi_map *notes;               /* what gradients needed of its iterations: saved.c */
  df_loop     *undoes;                 /* of a backward loop: the loop whose gradient it is, or NULL */
  df_loop     *again;                  /* of save = 'recompute': the loop that runs its iterations again, or NULL */
  df_cond     *mark;                   /* of save = 'recompute': taken in the iterations whose variables are kept; NULL: none yet */
  df_output    marks, marks_exit;      /* how many were kept before: in the body, and after the loop */
  struct dfi_map *replayed;            /* of iterations run again that hold custom gradients: forward output -> its copy; may be NULL */
  struct dfi_map *kept;                /* true side of a variable's Switch -> handle, in parent, of the array that keeps it */
};

struct dfi_map;                        /* (node, index) -> (node, index); insertion order is kept */
struct dfi_map *dfi_map_new(void);
void      dfi_map_free(struct dfi_map *m);
df_output dfi_map_get(const struct dfi_map *m, df_output key);           /* DFI_NONE when absent */
void      dfi_map_put(struct dfi_map *m, df_output key, df_output value);
int32_t   dfi_map_count(const struct dfi_map *m);
void      dfi_map_at(const struct dfi_map *m, int32_t i, df_output *key, df_output *value);

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
  struct dfi_map *variable_init;       /* handle output -> initial value */
  void        *gradient;               /* grad.c's own: the pass that is building, or NULL */
  void        *unrolled;               /* unroll.c's own: what was recorded and unrolled, or NULL */
  df_node     *stands_at;              /* an unrolled CustomGradient whose function runs: see dfi_stand_in */
  pthread_mutex_t lock;                /* guards n, node[] growth, and variable_init against sessions that compile */
};

const char *dfi_intern(df_graph *g, const char *s);
const char *dfi_current_scope(const df_graph *g);              /* interned; "" or "a/b/" */
/* Sets the pushed control dependencies aside (while nodes are added to loops built earlier) and puts them back. */
void       *dfi_controls_suspend(df_graph *g);
void        dfi_controls_resume(df_graph *g, void *suspended);
bool        dfi_controls_any(const df_graph *g);               /* is any control dependency pushed? */
const char *dfi_node_name(df_node *n);                         /* borrowed, for ever */
static inline uint8_t dfi_dtype(df_output o) { return o.node->out[o.index].dtype; }
static inline const dfi_shape *dfi_shape_at(df_output o) { return &o.node->out[o.index].shape; }
static inline bool dfi_same(df_output a, df_output b) { return a.node == b.node && a.index == b.index; }

/* Adds a node in the current context: checks arity and dtypes, captures inputs of outer contexts, adds the pivot and the effect
 * order, infers shapes, folds small constants into out[].constant. NULL: err is filled, nothing was added. */
typedef struct dfi_node_spec {
  int32_t op; int32_t nin, ncontrol; const df_output *in; df_node *const *control;
  const df_attr *attrs;                /* in entry order; copied deeply; NULL: all defaults */
  const char *name, *where;
  bool raw;                            /* the primitives of control flow: no capture, no pivot, context given */
  bool exact;                          /* the name is the node's whole name, whatever the scope; taken already: an error */
  bool lenient;                        /* what shape inference objects to is left to the kernel: the shapes are not known then */
  df_context *context;                 /* with raw */
} dfi_node_spec;
df_node *dfi_node_add(df_graph *g, const dfi_node_spec *spec, df_error *err);
/* Position of Enter's attributes. */
enum { DFI_ENTER_FRAME_NAME = 0, DFI_ENTER_IS_CONSTANT, DFI_ENTER_PARALLEL_ITERATIONS };
/* Takes the nodes from number n on away again: those of an import that failed half-way. Nothing else may name them. */
void dfi_graph_cut(df_graph *g, int32_t n);
/* Infers the outputs' shapes anew after an input's shape has changed. True: one of them is another now. */
bool dfi_node_infer_again(df_node *n);
/* Memory that lives as long as the graph; zeroed, 16-byte aligned. Only the thread that builds. */
void *dfi_graph_alloc(df_graph *g, size_t bytes);
/* A node's or a frame's full name, unique in the graph and from now on taken: the current scope, then base, then _1, _2 where that is
 * needed. To build inside it: df_push_scope with the result and a slash, which enters exactly that scope (`while_1/`). */
const char *dfi_unique_name(df_graph *g, const char *base);
/* The node to hang a control edge on so that something in context c waits for `control`: itself within one frame, or a constant Enter
 * that arrives after it. NULL: it was built inside a cond or loop that c is not in; err is filled. */
df_node *dfi_control_in(df_graph *g, df_node *control, df_context *c, const char *where, df_error *err);
void dfi_node_add_input(df_node *n, df_output in);              /* a loop's Merge receives its NextIteration */
void dfi_node_add_control(df_node *n, df_node *control);        /* no duplicates */

/* ---- control flow (control_flow.c) ---------------------------------------------------------- */
/* The output as it can be used in context c: itself, or captured through every context between. An error names both lines. */
df_output dfi_resolve(df_graph *g, df_output o, df_context *c, df_error *err);
bool dfi_context_inside(const df_context *inner, const df_context *outer);      /* equal counts */
/* Adds a variable to a loop that is built already: exits where the parent is. result is given with dfi_loop_close_var. */
int32_t dfi_loop_add_var(df_loop *l, df_output init, const char *name, df_output *in_pred, df_output *in_body, df_error *err);
int32_t dfi_loop_close_var(df_loop *l, int32_t var, df_output result, df_output *exit, df_error *err);
/* Adds a result to a cond that is built already. */
int32_t dfi_cond_add_result(df_cond *c, df_output if_false, df_output if_true, df_output *out, df_error *err);
/* The trip counter of a loop (int32 from 0), made on demand: its value in the body, and after the loop. */
int32_t dfi_loop_trips(df_loop *l, df_output *in_body, df_output *exit, df_error *err);
/* Hooks that dfi_node_add calls for a non-raw stateful op outside the top level.
 * read: a ReadVariableOp, before the node exists. A node: use it, nothing more to add. NULL with *failed: err is filled. NULL
 *   otherwise: go on.
 * effect_before: before the node exists. effect_after: when it exists; adds the control edges of program order. */
df_node *dfi_read_hook(df_graph *g, const dfi_node_spec *spec, bool *failed, df_error *err);
int32_t  dfi_effect_before(df_graph *g, const dfi_node_spec *spec, df_error *err);
void     dfi_effect_after(df_graph *g, df_node *n);
/* Frees what control_flow.c holds for a graph that goes: g->flow and the maps of its contexts and loops. */
void     dfi_flow_free(df_graph *g);
/* Is the output there without a token: a Const without controls, a loop constant, a variable's handle? A node whose inputs are
 * all so hangs on its context's pivot. */
bool     dfi_ambient(df_output o);

/* ---- building from C (build.c): errors are sticky in b; after one, every call returns DFI_NONE ---------- */
typedef struct dfi_build { df_graph *graph; const char *where; df_error *err; bool failed; df_attr pending[16]; uint32_t set; char keys[16][40]; int32_t nkeys; } dfi_build;
void      dfi_build_init(dfi_build *b, df_graph *g, const char *where, df_error *err);
void      dfi_attr_int(dfi_build *b, const char *name, int64_t v);          /* for the next dfi_op only; bools and dtypes too */
void      dfi_attr_float(dfi_build *b, const char *name, double v);
void      dfi_attr_string(dfi_build *b, const char *name, const char *s);
void      dfi_attr_shape(dfi_build *b, const char *name, const dfi_shape *s);
void      dfi_attr_ints(dfi_build *b, const char *name, int32_t n, const int64_t *v);
void      dfi_attr_tensor(dfi_build *b, const char *name, df_tensor *t);
df_output dfi_opn(dfi_build *b, const char *type, int32_t n, const df_output *in);    /* output 0 */
df_node  *dfi_opnode(dfi_build *b, const char *type, int32_t n, const df_output *in); /* all outputs */
#define dfi_op(b, type, ...) dfi_opn(b, type, (int32_t)(sizeof((df_output[]){ __VA_ARGS__ }) / sizeof(df_output)), (df_output[]){ __VA_ARGS__ })
df_output dfi_const(dfi_build *b, uint8_t dtype, double v);                 /* rank 0 */
df_output dfi_const_like(dfi_build *b, df_output like, double v);           /* rank 0, dtype of like */
df_output dfi_const_ints(dfi_build *b, int32_t n, const int64_t *v);        /* int32[n] */
df_output dfi_const_int(dfi_build *b, int64_t v);                           /* int32, rank 0 */
#endif
