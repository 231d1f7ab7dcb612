/* gradient.h: what grad.c, gradient/value.c, gradient/loop.c and gradient/cond.c share.
 *
 * A pass is one call of df_gradients, or one within it (gradient/recompute.c). It walks regions: the context that the
 * call was made in (with those around it), and inside it the bodies of loops and the branches of conds. Each region is
 * differentiated as a graph of plain nodes and of whole loops and conds, in reverse topological order; a loop or cond
 * is differentiated by recursion.
 */
#ifndef DFLOW_GRADIENT_H
#define DFLOW_GRADIENT_H
#include "graph/flow.h"
#include "graph/grad.h"
#include "graph/graph.h"

/* One contribution to the gradient of an output. */
typedef enum term_kind { TERM_DENSE, TERM_SPARSE, TERM_ARRAY } term_kind;
typedef struct term {
  struct term *next;
  term_kind    kind;
  df_output    value;        /* dense: the tensor; sparse: the rows; array: the handle of a gradient array */
  df_output    indices;      /* sparse: where the rows belong */
} term;
/* An operation to be appended to an array's gradient: type(handle, in…). */
typedef struct array_op {
  struct array_op *next;
  const char *type, *where;
  const df_node *like;       /* NULL, or whose attributes function and slot are its own: FunctionAdd's */
  int32_t     n;
  df_output   in[4];
} array_op;
/* The gradient of one forward output, as it is gathered. */
typedef struct gather {
  term      *first, **last;
  array_op  *chain, **chain_last;
  int32_t    nterms;
  bool       summed;
  df_output  sum;
} gather;

enum { REACHED = 1, DEPENDS = 2, TARGET = 4, VISITED = 8, STOPPED = 16 };  /* marks of forward nodes */

typedef struct region region;
struct region {
  region      *parent;       /* NULL: the root */
  df_loop     *loop;         /* the body of this loop; or */
  df_cond     *cond;         /* the branch `side` of this cond; or */
  dfi_function *function;    /* the body of this function; or the root */
  int32_t      side;
  df_loop     *back;         /* of a loop: the backward loop */
  df_output    tape;         /* of a function: what the call that is undone has kept, in backward */
  df_context  *forward;      /* the context that is differentiated */
  df_context  *backward;     /* where its gradient is built */
  /* of a loop: where the forward iteration saves, in backward: its number, or what it counts down */
  df_output    index;
  df_output    next;         /* of a loop: what the backward loop's counter becomes */
  /* of a loop: value that an iteration begins with -> (merge, number) of its variable; numbers, not handles */
  struct dfi_map *begun;
  struct dfi_map *returned;  /* of a loop: value that the body returns -> the same */
  struct dfi_map *memo;      /* forward output -> its value in backward */
  struct dfi_map *shapes;    /* forward output -> its shape in backward */
  struct dfi_map *arrays;    /* constant Enter of an array -> the current handle of its gradient, in backward */
  struct dfi_map *array_var; /* the same -> (merge node, number) of the backward loop's variable */
};

struct dfi_grad {
  df_graph    *graph;
  dfi_build    b;
  df_error    *err, own_error;
  int64_t      interrupts;   /* dfi_calls_interrupted when it began */
  int32_t      base, n0;     /* the nodes with these ids and those between are differentiated, but for n0 itself */
  uint8_t     *mark;         /* by node id less base */
  gather     **gather;       /* the same; one per output */
  int32_t     *from, *toward;/* the same: the node that led here from a y; the next on the way to an x */
  struct dfi_map *stops;     /* outputs that are constants for this call */
  struct chunk *chunks;      /* memory of the pass */
  char        *at, *end;
  region      *now;
  df_node     *node;         /* whose gradient function runs */
  df_node     *asks;         /* whose gradient is being built; of a loop an Exit, of a cond a Merge */
  df_context  *home;         /* where df_gradients was called */
  const char  *where;
  dfi_grad    *outer;        /* a pass whose custom gradient called this one, or that this one is part of */
  struct recompute *replay;   /* of a pass over iterations that are run again: gradient/recompute.c */
};
typedef struct dfi_grad pass;

/* grad.c */
void     *pass_alloc(pass *p, size_t bytes);
void      pass_end(pass *p);                               /* frees what it holds */
gather   *gather_of(pass *p, df_output o);  /* made when there is none; NULL for nodes of this pass itself */
gather   *gather_find(pass *p, df_output o);               /* NULL when nothing was gathered */
bool      gather_empty(const gather *a);
void      add_term(pass *p, df_output o, term_kind kind, df_output value, df_output indices);
void      add_gradient(pass *p, df_output o, df_output d); /* dense or array, by its dtype */
/* The sum of what was gathered at o, a value of r: a dense tensor or a handle, built in the current context. DFI_NONE:
   nothing. */
df_output gather_sum(pass *p, region *r, df_output o);
bool      gather_sparse(pass *p, df_output o, df_output *values, df_output *indices); /* all terms are sparse: joined */
df_output join_arrays(pass *p, df_output base, gather *a); /* base (may be none), then a's terms, then its chain */
bool      backprop(pass *p, region *r, int32_t nseeds, const df_output *seeds);
df_node  *loop_capture(const df_loop *l, df_output o);
bool      failed(pass *p);
df_context *enter_context(pass *p, df_context *c);         /* makes c current; returns what was */
int32_t   op_error(pass *p, df_node *n, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The handle to which the gradient of array `o` is added inside a loop or cond of region r, and what it became there.
   */
df_output array_start(pass *p, region *r, df_output o);
void      array_finish(pass *p, region *r, df_output o, df_output handle);
const char *op_type(const df_node *n);
/* d, or what df_op_break_gradient makes of gradients of n's op */
df_output with_fault(pass *p, df_node *n, df_output d);
static inline bool own(const pass *p, const df_node *n) { return n->id >= p->base && n->id < p->n0; }
static inline uint8_t mark_of(const pass *p, const df_node *n) { return own(p, n) ? p->mark[n->id - p->base] : 0; }
static inline df_flow flow_kind(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }

/* gradient/reach.c */
void      marks_begin(pass *p, int32_t base, int32_t ny, const df_output *ys, int32_t nx, const df_output *xs);
void      marks_end(pass *p);
bool      continuous(uint8_t dtype);                       /* a float or complex */
bool      differentiable(df_output o);
uint8_t   gradient_dtype(df_output o);
bool      wanted(pass *p, df_output o);                    /* does anybody need its gradient? */
bool      flows(pass *p, df_node *n, int32_t j);           /* does a gradient flow from n to its input j? */
bool      is_stop(pass *p, df_output o);
bool      is_open_variable(pass *p, df_node *n);           /* of a loop that the call itself stands in */
const char *line_of(const df_node *n);
bool      no_gradient(pass *p, df_node *n);                /* the error; false */
void      why_unconnected(pass *p, int32_t ny, const df_output *ys, df_output x, char *text, size_t bytes);

/* gradient/value.c */
df_output value(pass *p, region *r, df_output v);          /* the forward value, in r->backward */
df_output shape_of(pass *p, region *r, df_output v);       /* its shape: int32[rank], in r->backward or a constant */
/* a tensor of v's shape and dtype, all x, built in `where` */
df_output full(pass *p, region *r, df_output v, double x, df_context *where);
df_output fresh_array(pass *p, region *r, df_output handle, df_context *where); /* a gradient array of its own */
const dfi_shape *gradient_shape(df_output o);
bool      is_variable(df_output o);
bool      reads_reference(const df_node *n);

void region_free(region *r);

df_output new_array(pass *p, df_output v, bool grows);     /* for values like v, in the current context; to save them */
/* The handle, outside the innermost loop or outermost cond of r, of the array that holds v, a value of r, of each
   iteration. */
df_output saved_array(pass *p, region *r, df_output v);

/* gradient/cond.c */
bool grad_cond(pass *p, region *r, df_cond *c);

/* gradient/function.c: dx[i] of the inputs of n, a FunctionCall, that are wanted; and what n, a FunctionLoad, hands on
   to the gradient of its tape. */
bool grad_call(pass *p, region *r, df_node *n, const df_output *dy, df_output *dx);
bool grad_load(pass *p, df_node *n, df_output dy);
/* What a call of f has kept of v in a slot of its tape; where `tape` is a gradient, the gradient of that. */
df_output load_slot(pass *p, const dfi_function *f, df_output v, int64_t slot, df_output tape);

/* gradient/loop.c */
bool grad_while(pass *p, region *r, df_loop *l);

/* One variable of the forward loop whose gradient the backward loop carries. */
typedef struct carried { int32_t index; df_output in_body, next; } carried;
/* A backward loop: how often it goes round, and whether its counter goes up to that or down to 0. */
typedef struct backward { df_output trips; bool up; int64_t parallel_iterations; const char *save; } backward;
/* vars: room for 2 (n + 1) numbers. In between, b->backward is filled and c[i].next is set. */
bool begin_backward(pass *p, region *r, region *b, int32_t n, carried *c, const backward *how, int32_t *vars);
bool end_backward(pass *p, region *b, int32_t n, const carried *c, int32_t *vars);
/* Dense zeros, or a fresh gradient array, for a forward value of r that no gradient came to. */
df_output nothing(pass *p, region *r, df_output v);
/* A variable of the backward loop of b that starts as init: its number, or -1; and what it is after the loop. */
int32_t   add_sum(pass *p, region *b, df_output init, df_output *in_body);
df_output close_sum(pass *p, region *b, int32_t var, df_output next);
/* The rows that each iteration gives for the captured value `outer`, `inner` in the body, joined after the loop. */
bool sum_sparse(pass *p, region *r, region *b, df_output inner, df_output outer, df_output values, df_output indices);

/* saved.c */
enum note_how {
  NOTE_SAVED = 1,    /* by each iteration (a cond: once), in a TensorArray */
  NOTE_CARRIED,      /* by the backward loop: a loop variable's value, found at its end */
  NOTE_COMPUTED,     /* again */
  NOTE_COUNTED,      /* from the iteration's number */
  NOTE_CONSTANT,     /* of the loop */
  NOTE_KEPT,         /* save = 'recompute': a loop variable, now and then */
  NOTE_NOT_REPEATED  /* save = 'recompute': saved by each iteration because running it again would give another value */
};
void      note(pass *p, region *r, df_output v, enum note_how how);
void      note_of(df_loop *l, df_cond *cond, df_node *asks, df_output v, enum note_how how);

/* gradient/recompute.c */
bool grad_replayed(pass *p, region *r, region *b, int32_t n, carried *c);     /* b as grad_while begins it */
/* Where p is a pass over iterations run again and x something that they captured: the sum so far. DFI_NONE: it begins
   with zeros. */
df_output running_sum(pass *p, region *r, df_output x);
/* The copy of o in the iterations that p runs again; DFI_NONE: it has none. */
df_output replay_copy(pass *p, df_output o);
df_node  *replay_original(pass *p, const df_node *copy);    /* NULL: it is none */
#endif
