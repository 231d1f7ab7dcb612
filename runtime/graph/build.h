/* build.h: adding to a graph, from C: nodes, captures, program order, and the builder that gradients and importers use.
 * Only the thread that builds comes here.
 */
#ifndef DFLOW_BUILD_H
#define DFLOW_BUILD_H
#include "op/op.h"

const char *dfi_intern(df_graph *g, const char *s);  /* s, once in g, which owns it: the same text, the same pointer */
const char *dfi_current_scope(const df_graph *g);              /* interned; "" or "a/b/" */
/* Sets the pushed control dependencies aside (while nodes are added to loops built earlier) and puts them back. */
void       *dfi_controls_suspend(df_graph *g);
void        dfi_controls_resume(df_graph *g, void *suspended);

/* Adds a node in the current context: checks arity and dtypes, captures inputs of outer contexts, adds the pivot and
 * the effect order, infers shapes, folds small constants into out[].constant. NULL: err is filled, nothing was added.
 * */
typedef struct dfi_node_spec {
  int32_t op; int32_t nin, ncontrol; const df_output *in; df_node *const *control;
  const df_attr *attrs;                /* in entry order; copied deeply; NULL: all defaults */
  const char *name, *where;
  bool raw;                            /* the primitives of control flow: no capture, no pivot, context given */
  bool exact;  /* the name is the node's whole name, whatever the scope; taken already: an error */
  /* what shape inference objects to in the inputs, but not in the attributes, is left to the kernel: the shapes are not
     known then */
  bool lenient;
  df_context *context;                 /* with raw */
} dfi_node_spec;
df_node *dfi_node_add(df_graph *g, const dfi_node_spec *spec, df_error *err);
/* Takes the nodes from number n on away again: those of an import that failed half-way. Nothing else may name them. */
void dfi_graph_cut(df_graph *g, int32_t n);
/* Infers the outputs' shapes anew after an input's shape has changed. True: one of them is another now. */
bool dfi_node_infer_again(df_node *n);
/* known_values.c: fills out[].constant where that is known. */
void dfi_fold_node(df_node *n, const dfi_op_info *o);
/* What stands by now may be known outside of the graph (a session, a binding): undo.c leaves it. */
static inline void dfi_graph_keep_all(df_graph *g) { g->kept = g->n; }
/* Memory that lives as long as the graph; zeroed, 16-byte aligned. Only the thread that builds. */
void *dfi_graph_alloc(df_graph *g, size_t bytes);
/* A node's or a frame's full name, unique in the graph and from now on taken: the current scope, then base, then _1, _2
 * where that is needed. To build inside it: df_push_scope with the result and a slash, which enters exactly that scope
 * (`while_1/`). */
const char *dfi_unique_name(df_graph *g, const char *base);
void dfi_node_add_input(df_node *n, df_output in);              /* a loop's Merge receives its NextIteration */
void dfi_node_add_control(df_node *n, df_node *control);        /* no duplicates */

/* ---- control flow (control_flow.c) ---------------------------------------------------------- */
/* The output as it can be used in context c: itself, or captured through every context between. An error names both
   lines. */
df_output dfi_resolve(df_graph *g, df_output o, df_context *c, df_error *err);
/* The node that keeps a value of that slot of the function's calls; NULL: none does. */
df_node *dfi_function_save(df_graph *g, const char *function, int64_t slot);
/* Adds a variable to a loop that is built already: exits where the parent is. result is given with dfi_loop_close_var.
   */
int32_t dfi_loop_add_var(df_loop *l, df_output init, const char *name, df_output *in_pred, df_output *in_body,
                         df_error *err);
int32_t dfi_loop_close_var(df_loop *l, int32_t var, df_output result, df_output *exit, df_error *err);
/* Adds a result to a cond that is built already. */
int32_t dfi_cond_add_result(df_cond *c, df_output if_false, df_output if_true, df_output *out, df_error *err);
/* The trip counter of a loop (int32 from 0), made on demand: its value in the body, and after the loop. */
int32_t dfi_loop_trips(df_loop *l, df_output *in_body, df_output *exit, df_error *err);
/* dfi_node_add calls it for a non-raw stateful op outside the top level: adds the control edges of program order. */
void     dfi_effect_after(df_graph *g, df_node *n, bool reads);   /* reads: a reference variable, as a value */
/* Frees what control_flow.c holds for a graph that goes: g->flow and the maps of its contexts and loops. */
void     dfi_flow_free(df_graph *g);
/* Is the output there without a token: a Const without controls, a loop constant, a variable's handle? A node whose
 * inputs are all so hangs on its context's pivot. */
bool     dfi_is_tokenless(df_output o);

/* ---- building from C (build.c): errors are sticky in b; after one, every call returns DFI_NONE ---------- */
typedef struct dfi_build {
  df_graph *graph;
  const char *where;
  df_error *err;
  bool failed;
  df_attr pending[16];
  uint32_t set;
  char keys[16][40];
  int32_t nkeys;
} dfi_build;
void      dfi_build_init(dfi_build *b, df_graph *g, const char *where, df_error *err);
void      dfi_attr_int(dfi_build *b, const char *name, int64_t v);  /* for the next dfi_op only; bools and dtypes too */
void      dfi_attr_float(dfi_build *b, const char *name, double v);
void      dfi_attr_string(dfi_build *b, const char *name, const char *s);
void      dfi_attr_shape(dfi_build *b, const char *name, const dfi_shape *s);
void      dfi_attr_ints(dfi_build *b, const char *name, int32_t n, const int64_t *v);
void      dfi_attr_tensor(dfi_build *b, const char *name, df_tensor *t);
df_output dfi_opn(dfi_build *b, const char *type, int32_t n, const df_output *in);    /* output 0 */
df_node  *dfi_opnode(dfi_build *b, const char *type, int32_t n, const df_output *in); /* all outputs */
#define dfi_op(b, type, ...) dfi_opn(b, type, (int32_t)(sizeof((df_output[]){ __VA_ARGS__ }) / sizeof(df_output)), \
  (df_output[]){ __VA_ARGS__ })
df_output dfi_const(dfi_build *b, uint8_t dtype, double v);                 /* rank 0 */
df_output dfi_const_like(dfi_build *b, df_output like, double v);           /* rank 0, dtype of like */
df_output dfi_const_ints(dfi_build *b, int32_t n, const int64_t *v);        /* int32[n] */
df_output dfi_const_int(dfi_build *b, int64_t v);                           /* int32, rank 0 */
#endif
