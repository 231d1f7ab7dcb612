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
  bool       summed;         /* what reads o has been undone: nothing comes any more */
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
  dfi_arena    memory;       /* of the pass */
  region      *now;
  df_node     *node;         /* whose gradient function runs */
  df_node     *asks;         /* whose gradient is being built; of a loop an Exit, of a cond a Merge */
  df_context  *called_in;    /* where df_gradients was called */
  const char  *where;
  dfi_grad    *outer;        /* a pass whose custom gradient called this one, or that this one is part of */
  struct recompute *replay;   /* of a pass over iterations that are run again: gradient/recompute.c */
};
typedef struct dfi_grad pass;

/* grad.c */
void     *dfi_pass_alloc(pass *p, size_t bytes);           /* zeroed; freed with the pass */
void      dfi_pass_end(pass *p);                           /* frees what it holds */
gather   *dfi_gather_of(pass *p, df_output o);             /* made when there is none; NULL for this pass's own nodes */
gather   *dfi_gather_find(pass *p, df_output o);           /* NULL when nothing was gathered */
bool      dfi_gather_empty(const gather *a);               /* NULL is empty, too */
/* One more contribution to the gradient of o; none for this pass's own nodes. indices: of TERM_SPARSE. */
void      dfi_gather_add(pass *p, df_output o, term_kind kind, df_output value, df_output indices);
void      dfi_gather_append(gather *a, array_op *c);       /* behind what is appended already; c is the pass's */
void      dfi_gather_gradient(pass *p, df_output o, df_output d); /* dense or array, by its dtype */
/* The sum of what was gathered at o, a value of r: a dense tensor or a handle, built in the current context. DFI_NONE:
   nothing. */
df_output dfi_gather_sum(pass *p, region *r, df_output o);
/* Rows and where they belong, when all that was gathered at o is sparse: joined. False: it is not, or there is none. */
bool      dfi_gather_sparse(pass *p, df_output o, df_output *values, df_output *indices);
df_output dfi_gather_join(pass *p, df_output base, gather *a); /* base (may be none), then a's terms, then its chain */
/* Gathers the gradients of all that r's seeds are made of, which have theirs; false: p->err says why. */
bool      dfi_backprop(pass *p, region *r, int32_t nseeds, const df_output *seeds);
df_node  *dfi_loop_capture(const df_loop *l, df_output o); /* o's node when that is a constant Enter of l; or NULL */
/* What is built from here on is part of n's gradient, and `where` is the line that errors of it name. */
static inline void dfi_part_of(pass *p, const df_node *n, const char *where) {
  p->b.where = where;
  p->graph->gradient_of = n ? n->id + 1 : 0;
}
bool      dfi_pass_failed(pass *p);                        /* there is an error, or an op was not made */
df_context *dfi_grad_enter(pass *p, df_context *c);        /* makes c current; returns what was */
/* The pass fails at n, whose line is told; DF_INVALID_ARGUMENT. NULL: at the call of df_gradients. */
int32_t   dfi_grad_op_error(pass *p, df_node *n, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The handle to which the gradient of array `o` is added inside a loop or cond of region r, and what it became there.
   */
df_output dfi_grad_array_start(pass *p, region *r, df_output o);
/* handle: after r's loop or cond, or what the next iteration begins with */
void      dfi_grad_array_finish(pass *p, region *r, df_output o, df_output handle);
const char *dfi_grad_op_type(const df_node *n);
/* d, or what df_op_break_gradient makes of gradients of n's op */
df_output dfi_with_fault(pass *p, df_node *n, df_output d);
static inline bool own(const pass *p, const df_node *n) { return n->id >= p->base && n->id < p->n0; }
static inline uint8_t mark_of(const pass *p, const df_node *n) { return own(p, n) ? p->mark[n->id - p->base] : 0; }
static inline df_flow flow_kind(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }

/* gradient/reach.c */
/* Marks the nodes from number `base` on that lie between ys and xs. */
void      dfi_marks_begin(pass *p, int32_t base, int32_t ny, const df_output *ys, int32_t nx, const df_output *xs);
void      dfi_marks_end(pass *p);
bool      dfi_continuous(uint8_t dtype);                   /* a float or complex */
bool      dfi_differentiable(df_output o);
uint8_t   dfi_gradient_dtype(df_output o);
bool      dfi_wanted(pass *p, df_output o);                /* is its gradient needed? */
bool      dfi_gradient_flows(pass *p, df_node *n, int32_t j);  /* does a gradient flow from n to its input j? */
bool      dfi_is_stop(pass *p, df_output o);
bool      dfi_is_open_variable(pass *p, df_node *n);       /* of a loop that the call itself stands in */
const char *dfi_line_of(const df_node *n);
bool      dfi_no_gradient(pass *p, df_node *n);            /* the error; false */
/* Where the ways from the ys to x end, and why, as text. */
void      dfi_why_unconnected(pass *p, int32_t ny, const df_output *ys, df_output x, char *text, size_t bytes);

/* gradient/value.c */
df_output dfi_grad_value(pass *p, region *r, df_output v);  /* the forward value, in r->backward */
/* its shape: int32[rank], in r->backward or a constant */
df_output dfi_grad_shape_of(pass *p, region *r, df_output v);
/* a tensor of v's shape and dtype, all x, built in `where` */
df_output dfi_grad_full(pass *p, region *r, df_output v, double x, df_context *where);
/* a gradient array of its own */
df_output dfi_grad_array_new(pass *p, region *r, df_output handle, df_context *where);
const dfi_shape *dfi_gradient_shape(df_output o);
bool      dfi_grad_is_variable(df_output o);
bool      dfi_reads_reference(const df_node *n);

void dfi_region_free(region *r);

/* for values like v, in the current context; to save them. outlines: of v, an array, the size and shapes alone */
df_output dfi_saved_array_new(pass *p, df_output v, bool grows, bool outlines);
/* The handle, outside the innermost loop or outermost cond of r, of the array that holds v, a value of r, of each
   iteration. */
df_output dfi_saved_array(pass *p, region *r, df_output v, bool outlines);

/* gradient/cond.c */
/* What was gathered at c's results goes through its branches to what they captured. */
bool dfi_grad_cond(pass *p, region *r, df_cond *c);

/* gradient/function_grad.c: dx[i] of the inputs of n, a FunctionCall, that are wanted; and what n, a FunctionLoad,
   hands on to the gradient of its tape. */
bool dfi_grad_call(pass *p, region *r, df_node *n, const df_output *dy, df_output *dx);
bool dfi_grad_load(pass *p, df_node *n, df_output dy);
/* What a call of f has kept of v in a slot of its tape; where `tape` is a gradient, the gradient of that. */
df_output dfi_load_slot(pass *p, const dfi_function *f, df_output v, int64_t slot, df_output tape);

/* gradient/loop.c */
/* What was gathered at l's results goes through a backward loop to what l starts with and captures. */
bool dfi_grad_while(pass *p, region *r, df_loop *l);

/* One variable of the forward loop whose gradient the backward loop carries. */
typedef struct carried { int32_t index; df_output in_body, next; } carried;
/* A backward loop: how often it goes round, and whether its counter goes up to that or down to 0. */
typedef struct backward { df_output trips; bool up; int64_t parallel_iterations; const char *save; } backward;
/* vars: room for 2 (n + 1) numbers. In between, b->backward is filled and c[i].next is set. */
bool dfi_backward_begin(pass *p, region *r, region *b, int32_t n, carried *c, const backward *how, int32_t *vars);
bool dfi_backward_end(pass *p, region *b, int32_t n, const carried *c, int32_t *vars);
/* Dense zeros, or a fresh gradient array, for a forward value of r that no gradient came to. */
df_output dfi_grad_zeros(pass *p, region *r, df_output v);
/* A variable of the backward loop of b that starts as init: its number, or -1; and what it is after the loop. */
int32_t   dfi_sum_add(pass *p, region *b, df_output init, df_output *in_body);
df_output dfi_sum_close(pass *p, region *b, int32_t var, df_output next);
/* The rows that each iteration gives for the captured value `outer`, `inner` in the body, joined after the loop. */
bool dfi_sum_sparse(pass *p, region *r, region *b, df_output inner, df_output outer, df_output values,
                    df_output indices);

/* saved.c */
enum note_how {
  NOTE_SAVED = 1,    /* by each iteration (a cond: once), in a TensorArray */
  NOTE_CARRIED,      /* by the backward loop: a loop variable's value, found at its end */
  NOTE_COMPUTED,     /* again */
  NOTE_COUNTED,      /* from the iteration's number */
  NOTE_CONSTANT,     /* of the loop */
  NOTE_KEPT,         /* save = 'recompute': a loop variable, now and then */
  NOTE_NOT_REPEATED, /* save = 'recompute': saved by each iteration because running it again would give another value */
  NOTE_OUTLINED      /* of an array the size and its elements' shapes, as NOTE_SAVED */
};
void      dfi_saved_note(pass *p, region *r, df_output v, enum note_how how);
void      dfi_saved_note_of(df_loop *l, df_cond *cond, df_node *asks, df_output v, enum note_how how);

/* gradient/recompute.c */
bool dfi_grad_replayed(pass *p, region *r, region *b, int32_t n, carried *c);  /* b as dfi_grad_while begins it */
/* Where p is a pass over iterations run again and x something that they captured: the sum so far. DFI_NONE: it begins
   with zeros. */
df_output dfi_sum_running(pass *p, region *r, df_output x);
/* The copy of o in the iterations that p runs again; DFI_NONE: it has none. */
df_output dfi_grad_copy(pass *p, df_output o);
df_node  *dfi_grad_original(pass *p, const df_node *copy);  /* NULL: it is none */
#endif
