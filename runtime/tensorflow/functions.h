/* functions.h: graphs with functions become graphs without: calls are put in line, If, Case, While and For become the
   five primitives. */
#ifndef DFLOW_FUNCTIONS_H
#define DFLOW_FUNCTIONS_H
#include "tensorflow/graphdef.h"

/* Rewrites d->graph->node. A node keeps its name: what was a call is then an IdentityN (or NoOp) of the results.
 * Functions that call themselves stay functions: see FunctionCall in ops/function_ops.c. Nothing happens to a graph
 * without a library. */
int32_t dfi_functions_lower(dfi_graphdef *d, df_error *err);

/* A function's body that is put in line. */
typedef struct dfi_body dfi_body;

/* functions_node.c: NodeDefs made in the arena of d. */
typedef struct dfi_lower {
  dfi_graphdef *d;
  df_error     *err;
  Pb__NodeDef **node; size_t n, cap;            /* the result so far */
  struct {
    const char *name;
    Pb__FunctionDef *def;
    uint8_t state;
    bool recursive, emitted;
    uint8_t changes;                            /* functions_calls.c */
  } * function;
  size_t nfunctions;
  int32_t      *find; uint32_t find_mask;       /* by name, open addressing: number + 1 */
  Pb__NodeDef **results; size_t nresults, results_cap;   /* nodes that keep the names of calls */
  int32_t       depth;
} dfi_lower;
int32_t      dfi_lower_fail(dfi_lower *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
typedef struct dfi_texts { const char **at; size_t n; } dfi_texts;                          /* a list in the arena */
dfi_texts    dfi_texts_new(dfi_lower *l, size_t n);
char        *dfi_lower_text(dfi_lower *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
Pb__NodeDef *dfi_lower_node(dfi_lower *l, const char *op, const char *name);                /* appended to the result */
void         dfi_lower_input(dfi_lower *l, Pb__NodeDef *n, const char *input);              /* borrowed */
Pb__AttrValue *dfi_lower_attr(dfi_lower *l, Pb__NodeDef *n, const char *key);                /* a new, empty one */
void         dfi_lower_int(dfi_lower *l, Pb__NodeDef *n, const char *key, int64_t v);
void         dfi_lower_bool(dfi_lower *l, Pb__NodeDef *n, const char *key, bool v);
void         dfi_lower_type(dfi_lower *l, Pb__NodeDef *n, const char *key, int32_t v);
void         dfi_lower_string(dfi_lower *l, Pb__NodeDef *n, const char *key, const char *v);
/* A Const int32, which hangs on the control input `gate` unless that is NULL; its name. */
const char  *dfi_lower_const(dfi_lower *l, const char *name, int32_t v, const char *gate);
const Pb__AttrValue *dfi_attr_find(const Pb__NodeDef *n, const char *key);                  /* NULL: there is none */

/* functions.c: what becomes of a call. Inputs, results and controls are written as a NodeDef's inputs are. */
int32_t      dfi_lower_find(const dfi_lower *l, const char *name);  /* the function's number, or -1 */
/* The function that attribute `key` of n names; *attrs are the attributes it is given. -1: err is filled. */
int32_t      dfi_lower_function_attr(dfi_lower *l, const Pb__NodeDef *n, const char *key, Pb__NameAttrList **attrs);
/* `node:out:1`, `arg`, `^node` of a body as they are named outside. NULL: err is filled. */
const char  *dfi_lower_resolve(dfi_lower *l, const dfi_body *b, const char *input);
const Pb__OpDef *dfi_lower_signature(const dfi_body *b);
dfi_texts    dfi_lower_inputs(dfi_lower *l, const Pb__NodeDef *n);                          /* n's data inputs */
void         dfi_lower_add(dfi_lower *l, Pb__NodeDef *n, const dfi_texts *t);  /* all of them become inputs of n */
bool         dfi_lower_hangs(const Pb__NodeDef *n);  /* does it wait for something of the body that it stands in? */
/* Does call n wait for more than what it is given and the gate of the body that it stands in? */
bool         dfi_lower_waits(const Pb__NodeDef *n, const char *gate);
const char  *dfi_lower_held(dfi_lower *l, const char *name, const char *value, const char *gate); /* value after gate */
/* A control input that is live when call n runs: that of the body that it stands in or, where n has control inputs,
   one that waits for them. They are nodes of that body, live when it is, and n may stand in a loop's frame with them.
   */
const char  *dfi_lower_gate(dfi_lower *l, const Pb__NodeDef *n, const char *gate);
/* Puts a function's nodes under prefix; one that calls itself is called, by a FunctionCall of that name. gate: a
 * control input that is live when the body is, or NULL; waits: the arguments may be there before it. *ret: the results,
 * *control: control inputs of what waits for all that the body must run. */
int32_t dfi_lower_function(dfi_lower *l, int32_t function, const Pb__AttrEntry *const *attr, size_t nattr,
                           const char *prefix, const dfi_texts *in, const char *gate, bool waits, dfi_texts *ret,
                           dfi_texts *control);
/* The node that keeps the call's name: its results, after all that must have run. */
void dfi_lower_result(dfi_lower *l, const Pb__NodeDef *call, const dfi_texts *ret, const dfi_texts *control,
                      const char *gate);
/* functions_calls.c */
typedef struct dfi_names {
  const Pb__NodeDef **at;
  bool *no;                                     /* by place: what was asked is not so of it, nor of any before it */
  uint32_t mask;
} dfi_names;
dfi_names    dfi_lower_names(Pb__NodeDef *const *node, size_t n);
void         dfi_lower_names_free(dfi_names *t);
const Pb__NodeDef *dfi_lower_named(const dfi_names *t, const char *name, size_t n);          /* NULL: there is none */
void         dfi_lower_recursion(dfi_lower *l);  /* finds which functions come to call themselves */
bool         dfi_lower_changes(dfi_lower *l, const Pb__NodeDef *n);  /* has n effects, or must run what has some? */
/* A loop begins when all that it is given is there, what it does not use, too: where that comes after others, `to`, the
   loop that `from` becomes, waits for it. t: the nodes beside from, `before`: what stands before their names. */
void         dfi_lower_after_given(dfi_lower *l, const dfi_names *t, const Pb__NodeDef *from, Pb__NodeDef *to,
                                   const char *before);
/* functions_flow.c */
int32_t      dfi_lower_if(dfi_lower *l, Pb__NodeDef *n, const char *gate);
int32_t      dfi_lower_case(dfi_lower *l, Pb__NodeDef *n, const char *gate);
int32_t      dfi_lower_while(dfi_lower *l, Pb__NodeDef *n, const char *gate);
int32_t      dfi_lower_for(dfi_lower *l, Pb__NodeDef *n, const char *gate);
/* functions_registered.c */
bool         dfi_lower_has_own_gradient(const Pb__NodeDef *n);      /* by its attribute _gradient_op_type */
/* Puts n there so that its gradient is what the file says of it, or an error where it does not say. b: the body that n
   is of; NULL: none. */
int32_t      dfi_lower_own_gradient(dfi_lower *l, const dfi_body *b, Pb__NodeDef *n);
/* functions_gradient.c: puts the gradient of what n's attribute `f` names, a function or an op, in line. */
int32_t      dfi_lower_gradient(dfi_lower *l, Pb__NodeDef *n, const Pb__NameAttrList *f, const char *gate);
#endif
