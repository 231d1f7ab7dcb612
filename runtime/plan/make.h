/* make.h: what is known while a plan is made; shared by plan/find.c (what is needed, where it runs, where values come
 * from) and plan.c (the layout).
 */
#ifndef DFLOW_PLAN_MAKE_H
#define DFLOW_PLAN_MAKE_H
#include "plan/plan.h"

/* What is known of a node while its plan is made. By node id. */
typedef struct mark {
  bool     needed;
  int32_t  fed;                /* 1 + the last of given that is an output of it; 0: none is fed */
  int32_t  scope;              /* -1: not found yet */
  int32_t  waiting;            /* inputs that have not been reached */
  int32_t  varies;             /* the innermost scope from one of whose iterations to the next its value may change */
  bool     reads_gate;         /* all its operands are constants read in place: it hangs on what they hang on */
  bool     merged;             /* a loop's Merge: its Enter and NextIteration deliver for it */
  bool     for_merge;          /* Enter, NextIteration: delivers for a Merge */
  bool     given_token;        /* its value is given, but a Merge needs a token of it: output given_index */
  int32_t  given_index;
  /* the node that stands for it: a Switch with the same inputs, one of the same value, a constant; -1: none does */
  int32_t  duplicate;
  int32_t  stands;             /* 1 + which output of `duplicate` is its output 0; 0: each output is its namesake */
  int32_t  copy_scope; uint32_t copy_slot;   /* a scalar constant: where it was copied last */
  int32_t  users;              /* places that wait for its tokens */
  const df_loop *late;         /* it is only what the gradient of this loop begins with; NULL: it is not */
  int32_t  number;             /* pnode, or -1 when it needs none */
  uint32_t slot;               /* of output 0 */
  uint32_t child_scope;        /* Enter */
  int16_t  device;             /* place in the session's list */
  uint8_t  why;                /* dfi_why */
  bool     asked;              /* its device was asked for */
  /* passes its input on, but with a token: to another device, as was asked, or because of DFI_PLAN_PRIMITIVES */
  bool     stays;
  int32_t  why_node;           /* whose device it follows, or -1 */
} mark;

typedef struct maker {
  df_graph *graph;
  df_error *err;
  dfi_plan *plan;
  mark     *mark;
  int32_t  *needed, nneeded;   /* ids, ascending */
  int32_t   nids;
  bool      reference, primitives;
  uint32_t  batch;             /* DFI_PLAN_BATCH, or DFI_PLAN_BATCH_CALLS */
  bool      calls_commute;     /* no effect depends on the order of calls: inside of frames no node waits for one */
  bool      as_written, stepped;   /* nothing is simplified; nothing of a plan for one device */
  df_output *given; int32_t ngiven;   /* what is fed */
  int32_t  *same_node;         /* by given: 1 + the one before it of the same node, or 0 */
  int32_t  *const_index;       /* by id: place in plan->constant, or -1 */
  int32_t  *variable_index;    /* by id: place among the variables, or -1 */
  int32_t   scope_cap, constant_cap;
  int32_t  *frame; uint32_t frame_mask;      /* a table: the newest scope that is a frame of a name, or -1 */
  int32_t  *namesake;          /* by scope: the frame of the same name before it, or -1 */
  int64_t   interrupts;        /* dfi_calls_interrupted when it began */
  dfi_devices *devices;        /* NULL: the host alone */
  bool      cut;               /* there are nodes elsewhere */
  bool      calls_are_first;   /* some graph function has to be called by the first owner: owners.c */
  int32_t   extra_cap;
  /* a table; to: id of the extra node, or -2 - place among what crosses */
  struct crossing_place { int32_t node, index, device, to; } *across;
  uint32_t  nacross, across_mask;
  struct { df_output from; int32_t device; } *crossed;  /* what is given and crosses: plan->ncrossings of them */
  struct function { const char *name; df_node *ret; int32_t scope; } *function; int32_t nfunctions;
} maker;

/* A node of the graph, or one that the plan alone has. */
static inline df_node *dfi_plan_node(const maker *m, int32_t id) {
  return id < m->nids ? m->graph->node[id] : m->plan->extra[id - m->nids];
}
/* Ids go up to here: the graph's, then those of the plan's own nodes. */
static inline int32_t dfi_plan_ids(const maker *m) { return m->nids + m->plan->nextra; }
static inline const df_op *op_of(const df_node *n) { return dfi_op_info_at(n->op)->op; }
static inline df_flow flow_of(const df_node *n) { return op_of(n)->flow; }

static inline int32_t feed_of(const maker *m, df_output o) {
  int32_t first = -1;
  for (int32_t i = m->mark[o.node->id].fed; i; i = m->same_node[i - 1])
    if (m->given[i - 1].index == o.index) first = i - 1;
  return first;
}

static inline const df_attr *attr_of(const df_node *n, const char *name) {
  int32_t i = dfi_op_attr_index(dfi_op_info_at(n->op), name);
  return i < 0 ? NULL : &n->attrs[i];
}

/* Every so many nodes of a large graph (the ith): shall it end early? Then err is filled. */
int32_t dfi_plan_look_up(maker *m, int32_t i);
/* wire.c: the operands of the nodes that have numbers, and the edges between them. plan->operand has room for all. */
int32_t dfi_plan_wire(maker *m);
/* plan/find.c: each is described there. */
struct function *dfi_plan_function_of(maker *m, const df_node *n);
void dfi_plan_prune(maker *m, int32_t nfetch, const int32_t *fetches);
int32_t dfi_plan_scope_new(maker *m, int32_t parent, const char *name);
int32_t dfi_plan_find_scopes(maker *m);
bool dfi_plan_is_given(const maker *m, df_output o);
bool dfi_plan_passes_on(const df_node *n);
bool dfi_plan_is_loop_constant(const df_node *n);
df_output dfi_plan_origin(const maker *m, df_output o);
int32_t dfi_plan_constant_place(maker *m, df_node *n);
/* in an operand of the GIVEN space, while the plan is made: a place among what crosses */
enum { DFI_CROSSES = 1 << 29 };
/* How a value comes to its reader (NULL: a fetch): along an edge, or it is there already. */
typedef enum dfi_comes {
  DFI_COMES_TOKEN,
  DFI_COMES_FED,
  DFI_COMES_GIVEN,
  DFI_COMES_VARIABLE,
  DFI_COMES_CONSTANT,
  DFI_COMES_LOOP_CONSTANT
} dfi_comes;
dfi_comes dfi_plan_comes(const maker *m, const df_node *reader, df_output from);
dfi_operand dfi_plan_place(maker *m, const df_node *reader, df_output o, df_output *from, bool *token);
bool dfi_plan_comes_as_token(maker *m, const df_node *n, df_output o, df_output *from, df_node **gate);
void dfi_plan_find_duplicates(maker *m);
void dfi_plan_prune_tokens(maker *m);
void dfi_plan_find_merged(maker *m);
/* Has it no effect and no state, and are its inputs and outputs values? plan/equal.c */
bool dfi_plan_is_pure(const df_node *n);
/* plan/spent.c: loop constants that are read no more when a value has left the loop. After the layout. */
void dfi_plan_find_spent(dfi_plan *p);
/* plan/invariant.c: what the iterations of a loop share. After the layout. */
void dfi_plan_find_invariants(maker *m);
/* plan/liveness.c: which Transfers are dead together. After the layout, of a plan that is cut. */
void dfi_plan_find_dead_together(dfi_plan *p);
/* plan/batch.c: in which scopes nodes wait for others like them: before nodes are laid out. And which nodes do. */
void dfi_plan_batch_scopes(maker *m);
void dfi_plan_batch(maker *m);
/* plan/group.c: which nodes are computed in one pass. After the layout: it moves edges and adds slots. */
void dfi_plan_group(maker *m);
void dfi_plan_groups_free(dfi_plan *p);
/* plan/describe.c: what became of each node, as df_plan_describe gives it. */
void dfi_plan_tell(const maker *m, int32_t *out);
#endif
