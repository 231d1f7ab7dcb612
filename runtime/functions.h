/* functions.h: graphs with functions become graphs without: calls are put in line, If, Case, While and For become the five primitives. */
#ifndef DFLOW_FUNCTIONS_H
#define DFLOW_FUNCTIONS_H
#include "graphdef.h"

/* Rewrites d->graph->node. A node keeps its name: what was a call is then an IdentityN (or NoOp) of the results. Functions that call
 * themselves stay functions: see FunctionCall in ops_function.c. Nothing happens to a graph without a library. */
int32_t dfi_functions_lower(dfi_graphdef *d, df_error *err);

/* functions_node.c: NodeDefs made in the arena of d. */
typedef struct dfi_lower {
  dfi_graphdef *d;
  df_error     *err;
  Pb__NodeDef **node; size_t n, cap;            /* the result so far */
  struct { const char *name; Pb__FunctionDef *def; uint8_t state; bool recursive, emitted; } *function; size_t nfunctions;
  Pb__NodeDef **results; size_t nresults, results_cap;   /* nodes that keep the names of calls */
  int32_t       depth;
} dfi_lower;
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
#endif
