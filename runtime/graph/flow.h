/* flow.h: what control_flow.c, cond.c and while.c share: the conds and loops that are begun and not ended, and
 * the making of the primitives.
 */
#ifndef DFLOW_FLOW_H
#define DFLOW_FLOW_H
#include "graph/build.h"

/* A cond or a loop that is being built. */
typedef struct flow_entry {
  df_cond    *cond;          /* one of the three, or none: another context until it is popped */
  df_loop    *loop;
  dfi_function *function;
  int32_t     stage;         /* cond: branches ended; loop: 0 in the predicate, 1 in the body */
  int32_t     nuser;         /* loop: the variables that the caller knows; a hidden counter may follow */
  int32_t     scope;         /* where its scope stands among the builder's: names of variables leave it out */
  df_context *outer;         /* current before it began */
} flow_entry;

typedef struct flow_shape { int32_t var; dfi_shape shape; } flow_shape;
typedef struct flow_name  { int32_t var; const char *name; } flow_name;

typedef struct flow {
  flow_entry  *open; int32_t nopen, open_cap;
  flow_shape  *invariant; int32_t ninvariant;     /* for the next df_while_begin */
  flow_name   *name; int32_t nname;
  df_context **context; int32_t ncontext, context_cap;  /* all but the top one; owned */
  df_loop    **loop; int32_t nloop, loop_cap;     /* owned */
  df_cond    **cond; int32_t ncond, cond_cap;     /* owned */
  dfi_function **function; int32_t nfunction, function_cap;  /* owned */
} flow;

flow *dfi_flow_of(df_graph *g);                   /* g's; never NULL */
flow_entry *dfi_flow_push(df_graph *g);           /* one more is begun here: the entry to be filled */
void dfi_flow_pop(df_graph *g);                   /* the last one has ended: current is its `outer` again */
flow_entry *dfi_flow_top(df_graph *g);            /* NULL when nothing is open */
df_context *dfi_flow_context(df_graph *g, df_context_kind kind, df_context *parent);    /* a new one; the graph's */
typedef enum flow_op { FLOW_SWITCH, FLOW_MERGE, FLOW_ENTER, FLOW_EXIT, FLOW_NEXT, FLOW_LOOP_COND, FLOW_IDENTITY,
  FLOW_REF_SWITCH, FLOW_REF_ENTER, FLOW_OPS } flow_op;
bool dfi_flow_is(const df_node *n, flow_op op);
/* A primitive in context c. Its outputs get dtype, shape and `of` from `like` (an output of the same kind) unless
 * like.node is NULL. gate: when all inputs are tokenless it hangs on this node (NULL: on nothing). */
df_node *dfi_flow_node(df_graph *g, flow_op op, df_context *c, int32_t n, const df_output *in, const df_attr *attrs,
                       df_node *gate, df_output like, const char *where, df_error *err);
/* A loop or cond of nothing yet, which the graph owns. */
df_loop *dfi_flow_loop_new(df_graph *g, const char *name, const char *where);
df_cond *dfi_flow_cond_new(df_graph *g, const char *name, const char *where);
bool dfi_flow_is_constant_enter(const df_node *n);   /* of a loop constant, whose value all iterations read */
static inline bool flow_is_switch(const df_node *n) {
  return dfi_flow_is(n, FLOW_SWITCH) || dfi_flow_is(n, FLOW_REF_SWITCH);
}
/* function.c */
/* The argument of f that o is inside. DFI_NONE: err is filled. */
df_output dfi_flow_function_capture(dfi_function *f, df_output o, df_error *err);
dfi_function *dfi_flow_function_find(df_graph *g, const char *name);  /* NULL: none of this name was built here */
/* Does a call of f give the same once more, and change nothing? f, and whatever it calls. False while f is built. */
bool dfi_flow_function_repeats(const dfi_function *f);
/* Are ready nodes of calls of the function that begins with this node computed as one: is a FunctionBatched the first
   that was built of its body? And makes it so, for one that has just begun. */
bool dfi_function_is_batched(const df_node *begin);
bool dfi_function_batch(dfi_function *f, df_error *err);
df_output dfi_flow_captured(df_output o);  /* what a captured argument is outside; none of others */
/* What a flow owns, when its graph ends or what was begun is cut off again. */
void dfi_flow_functions_free(flow *f);
void dfi_flow_context_free(df_context *c);
void dfi_flow_loop_free(df_loop *l);
void dfi_flow_cond_free(df_cond *c);
void dfi_flow_function_free(dfi_function *k);
void dfi_flow_functions_infer(df_graph *g);  /* function_shapes.c: of those that are being built */
/* As df_function_begin and its fellows, for C. */
dfi_function *dfi_function_begin(df_graph *g, const char *name, int32_t n, const dfi_out *args, int32_t nresults,
                                 const uint8_t *results, const char *where, df_error *err);
int32_t  dfi_function_end(df_graph *g, int32_t n, const df_output *results, df_error *err);
df_node *dfi_function_call(dfi_function *f, int32_t n, const df_output *args, const char *name, const char *where,
                           df_error *err);
/* A node of f's body in its frame, in no order but that of its inputs and, where it hangs, of the call's begin. */
df_node *dfi_function_node(dfi_function *f, const char *type, int32_t nin, const df_output *in, int32_t nattr,
                           const df_attr *attrs, bool hangs, df_error *err);
/* The Enter of `outer`, a value around l, into l's frame; constant: of a loop constant. NULL: err is filled. */
df_node *dfi_flow_enter(df_loop *l, df_output outer, bool constant, df_error *err);
/* Makes n, the first of its context, wait for what was done outside. */
void dfi_flow_order(df_node *n);
/* Does n, of context c, wait for `read` by what it is computed from? Looks at a few nodes only: false says perhaps not.
   */
bool dfi_flow_follows(const df_node *n, const df_node *read, const df_context *c);
/* A construct inside c has effects (or reads) and is over when `n` has run. */
void dfi_flow_happened(df_context *c, df_node *n, bool effect);
void dfi_flow_blame(df_error *err, const char *where);  /* fills err->source when it is empty */
static inline void flow_enter_scope(df_graph *g, const char *full) {   /* exactly that scope: see dfi_unique_name */
  char text[512];
  size_t n = strlen(full);
  if (n > sizeof text - 2) n = sizeof text - 2;
  memcpy(text, full, n);
  text[n] = '/';
  text[n + 1] = 0;
  df_push_scope(g, text);
}
#endif
