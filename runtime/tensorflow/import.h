/* import.h: what the files that turn TensorFlow's messages into nodes share. */
#ifndef DFLOW_IMPORT_H
#define DFLOW_IMPORT_H
#include "tensorflow/graphdef.h"

/* The attributes of a node in its entry's order. Lists and strings lie in `arena`; tensors are owned: dfi_attrs_drop.
   */
typedef struct dfi_attrs { df_attr value[16]; uint32_t given; } dfi_attrs;

/* The NodeDef's attributes as the entry has them: types are checked, what is not given is the default. What the entry
 * does not have is ignored. Tensors that say more than the file holds are taken from *unpack. */
int32_t dfi_attrs_take(dfi_attrs *a, const dfi_op_info *o, const Pb__NodeDef *def, dfi_arena *arena, int64_t *unpack,
                       df_error *err);
void    dfi_attrs_drop(dfi_attrs *a, const dfi_op_info *o);
/* The attributes that say what the inputs are (T, N, Tidx, …) against the inputs; the outputs' dtypes that only they
   say. */
int32_t dfi_attrs_check(const dfi_op_info *o, const Pb__NodeDef *def, int32_t nin, const df_output *in, df_error *err);

/* import_unknown.c: a node of an op that dflow does not know. */
typedef struct dfi_unknown {
  int32_t  n;                /* outputs that are read */
  int64_t *type;             /* n; what they are taken as, 0: not said */
  const char *needed_by;     /* the first node that takes one, or waits for it */
} dfi_unknown;
/* Input i of nin of a node takes output `index` of it, -1: waits for it. */
void dfi_unknown_taken(dfi_unknown *u, dfi_arena *arena, const dfi_op_info *o, const Pb__NodeDef *taker, int32_t nin,
                       int32_t i, int32_t index);
/* The attributes of the op Unknown for it. */
void dfi_unknown_attrs(dfi_unknown *u, dfi_arena *arena, const Pb__NodeDef *def, df_attr *attr);

/* import_variable.c: the variables among nodes first … of g, as dflow.h has them; owned. NULL: err is filled. */
df_tensor *dfi_import_variables(df_graph *g, int32_t first, dfi_graphdef *d, const char *prefix, df_error *err);

/* import.c: adds the nodes of d to g, as df_import_graph_def does; functions in d are put in line. */
int32_t dfi_import(df_graph *g, dfi_graphdef *d, const char *where, df_error *err);

/* recover_flow.c: finds the conds and loops among nodes first … g->n - 1, so that they can be differentiated and
 * printed like any. An error: it was interrupted. */
int32_t dfi_recover_flow(df_graph *g, int32_t first, df_error *err);

/* Was the user's call interrupted since dfi_calls_interrupted was `since`? */
static inline bool dfi_import_interrupted(int64_t since) {
  return atomic_load_explicit(&dfi_calls_interrupted, memory_order_relaxed) != since;
}
static inline int32_t dfi_import_cancelled(df_error *err) {
  return dfi_fail(err, DF_CANCELLED, NULL, "the import was interrupted");
}
#endif
