/* gradient.h: what grad.c, grad_value.c, grad_loop.c and grad_cond.c share.
 *
 * A pass is one call of df_gradients. It walks regions: the context that the call was made in (with those around it), and inside it
 * the bodies of loops and the branches of conds. Each region is differentiated as a graph of plain nodes and of whole loops
 * and conds, in reverse topological order; a loop or cond is differentiated by recursion.
 */
#ifndef DFLOW_GRADIENT_H
#define DFLOW_GRADIENT_H
#include "flow.h"
#include "grad.h"

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
  df_cond     *cond;         /* the branch `side` of this cond; or the root */
  int32_t      side;
  df_loop     *back;         /* of a loop: the backward loop */
  df_context  *forward;      /* the context that is differentiated */
  df_context  *backward;     /* where its gradient is built */
  df_output    index;        /* of a loop: where the forward iteration saves, in backward: its number, or what it counts down */
  df_output    next;         /* of a loop: what the backward loop's counter becomes */
  struct dfi_map *begun;     /* of a loop: value that an iteration begins with -> (merge, number) of its variable; numbers, not handles */
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
  int32_t      n0;           /* nodes before the pass: all that is differentiated */
  uint8_t     *mark;         /* by node id */
  gather     **gather;       /* by node id; one per output */
  int32_t     *from, *toward;/* by node id: the node that led here from a y; the next on the way to an x */
  struct dfi_map *stops;     /* outputs that are constants for this call */
  struct chunk *chunks;      /* memory of the pass */
  char        *at, *end;
  region      *now;
  df_node     *node;         /* whose gradient function runs */
  df_context  *home;         /* where df_gradients was called */
  const char  *where;
  dfi_grad    *outer;        /* a pass whose custom gradient called this one */
};
typedef struct dfi_grad pass;

/* grad.c */
void     *pass_alloc(pass *p, size_t bytes);
gather   *gather_of(pass *p, df_output o);                 /* made when there is none; NULL for nodes of this pass itself */
gather   *gather_find(pass *p, df_output o);               /* NULL when nothing was gathered */
bool      gather_empty(const gather *a);
void      add_term(pass *p, df_output o, term_kind kind, df_output value, df_output indices);
void      add_gradient(pass *p, df_output o, df_output d); /* dense or array, by its dtype */
/* The sum of what was gathered at o, a value of r: a dense tensor or a handle, built in the current context. DFI_NONE: nothing. */
df_output gather_sum(pass *p, region *r, df_output o);
bool      gather_sparse(pass *p, df_output o, df_output *values, df_output *indices); /* all terms are sparse: joined */
df_output join_arrays(pass *p, df_output base, gather *a); /* base (may be none), then a's terms, then its chain */
bool      wanted(pass *p, df_output o);                    /* does anybody need its gradient? */
bool      backprop(pass *p, region *r, int32_t nseeds, const df_output *seeds);
df_node  *loop_capture(const df_loop *l, df_output o);
bool      differentiable(df_output o);
bool      failed(pass *p);
df_context *enter_context(pass *p, df_context *c);         /* makes c current; returns what was */
int32_t   op_error(pass *p, df_node *n, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The handle to which the gradient of array `o` is added inside a loop or cond of region r, and what it became there. */
df_output array_start(pass *p, region *r, df_output o);
void      array_finish(pass *p, region *r, df_output o, df_output handle);
const char *op_type(const df_node *n);
static inline uint8_t mark_of(const pass *p, const df_node *n) { return n->id < p->n0 ? p->mark[n->id] : 0; }

/* grad_value.c */
df_output value(pass *p, region *r, df_output v);          /* the forward value, in r->backward */
df_output shape_of(pass *p, region *r, df_output v);       /* its shape: int32[rank], in r->backward or a constant */
df_output full(pass *p, region *r, df_output v, double x, df_context *where); /* a tensor of v's shape and dtype, all x, built in `where` */
df_output fresh_array(pass *p, region *r, df_output handle, df_context *where); /* a gradient array of its own */
uint8_t   gradient_dtype(df_output o);
const dfi_shape *gradient_shape(df_output o);
bool      is_variable(df_output o);

void region_free(region *r);

/* grad_loop.c, grad_cond.c */
bool grad_while(pass *p, region *r, df_loop *l);
bool grad_cond(pass *p, region *r, df_cond *c);
#endif
