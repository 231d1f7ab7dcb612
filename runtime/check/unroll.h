/* unroll.h: what unroll.c, trace.c, copy.c and the gradient pass share. */
#ifndef DFLOW_UNROLL_H
#define DFLOW_UNROLL_H
#include "graph/flow.h"

/* ---- trace.c: what a run did ----- */
typedef struct dfi_trace dfi_trace;
void dfi_trace_free(dfi_trace *t);
/* The key under which a loop's predicate or a cond's is recorded; a random op's output k has its own id and k. */
static inline int32_t dfi_trace_loop(const df_loop *l) { return l->loop_cond->id; }
static inline int32_t dfi_trace_cond(const df_cond *c) { return c->branch[0]->pivot->id; }
/* What was recorded for a key in this iteration; NULL: nothing. Borrowed. */
const df_value *dfi_trace_find(df_graph *g, int32_t id, int32_t index, const char *path);
bool dfi_is_random(const df_node *n);

/* ---- unroll.c ----- */
typedef struct dfi_unrolled {
  dfi_trace *trace;
  int32_t    loops, conds, nodes;  /* prepared so far: of dfi_flow_of(g)->loop, ->cond, g->node */
  bool       recording;
  struct instance **instance;          /* owned; all of them */
  int32_t    ninstance, instance_cap;
  struct origin { df_node *node; struct instance *in; } *origin;     /* by id; node NULL: no copy */
  int32_t    norigin;
} dfi_unrolled;
dfi_unrolled *dfi_unrolled_of(df_graph *g);       /* made when there is none */

/* copy.c: marks, by id, of what the outputs depend on; owned. */
uint8_t *dfi_graph_needs(df_graph *g, int32_t n, const int32_t *outputs);
#endif
