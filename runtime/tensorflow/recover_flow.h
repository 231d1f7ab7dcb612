/* recover_flow.h: the conds and loops of an imported graph while they are looked for: recover_flow.c finds them,
 * recover_flow_build.c builds the conds and loops that were found.
 *
 * Places. Each node gets a place in a tree of contexts-to-be: the top, the two branches of each cond, and of each loop
 * what is common to its iterations (its constants), and below that its predicate, its body and what leaves it. A Switch
 * begins a cond of its own; conds are joined when a node shows that two are one. What contradicts itself is given up:
 * its nodes then count as its parent's, and since nothing that is given up may stand inside a cond or loop that is not,
 * what is around it is given up too.
 */
#ifndef DFLOW_RECOVER_FLOW_H
#define DFLOW_RECOVER_FLOW_H
#include "tensorflow/import.h"
#include "graph/flow.h"

typedef enum place_kind { PLACE_TOP, PLACE_BRANCH, PLACE_CONSTANTS, PLACE_PRED, PLACE_BODY, PLACE_LEFT } place_kind;
enum { PLACE_NONE = -1, PLACE_FIRST = 0 /* the top */ };

typedef struct place { place_kind kind; int32_t of, side; } place;      /* `of`: the cond or the loop */

typedef struct raised_cond {
  int32_t   joined;        /* the cond that this one turned out to be, or itself */
  int32_t   parent;        /* a place */
  df_output pred;          /* as it is before any Identity */
  int32_t   branch[2];     /* places */
  bool      given_up;
  df_cond  *made;
} raised_cond;

typedef struct raised_loop {
  int32_t     parent;      /* a place */
  const char *name;
  int32_t     place;       /* its constants; the next three: predicate, body, what leaves */
  bool        given_up;
  df_node    *loop_cond;
  int32_t     nvar, var_cap;
  dfi_loop_var *var;   /* what dfi_recover_check_loops found */
  df_loop    *made;
} raised_loop;

typedef struct raiser {
  df_graph    *graph;
  int32_t      first, n;   /* nodes first … first + n - 1; all numbers below are relative to first */
  int32_t     *at;         /* by node: the place it runs in */
  int32_t     *cond;       /* by node: the cond that a Switch leads into, or -1 */
  bool        *unstructured;      /* by node: stays as it is, whatever its place */
  place       *place;      int32_t nplace, place_cap;
  raised_cond *conds;      int32_t nconds, conds_cap;
  raised_loop *loops;      int32_t nloops, loops_cap;
  int32_t     *loop_table; uint32_t loop_mask;           /* by frame name: loop + 1 */
  df_output   *origin;     /* by node: its first output, before any Identity */
  int32_t      isolated;   /* how often something was made unstructured by itself */
  /* Steps from a place to the one around it. Where a graph needs more than its size allows, or the user interrupts,
     every walk ends at the top and nothing is raised. */
  int64_t      steps, most_steps, interrupts;
  int32_t     *first_user, *user;                        /* the users of a node, by data or control; made when needed */
} raiser;

/* recover_flow.c */
int32_t dfi_recover_resolve(raiser *r, int32_t place);    /* the place that stands for it now */
int32_t dfi_recover_cond(raiser *r, int32_t cond);        /* the cond that it was joined to */
int32_t dfi_recover_place_of(raiser *r, df_output o);     /* where the value can be used as it is */
int32_t dfi_recover_place(raiser *r, const df_node *n);   /* where a node runs, for those that wait for it */
bool    dfi_recover_is_loop_switch(const raiser *r, const df_node *n);
void    dfi_recover_contradiction(raiser *r, int32_t place); /* gives up as little as can be */
df_output dfi_recover_origin(const raiser *r, df_output o); /* back through Identities that wait for nothing and read no
                                                              reference */
static inline bool raise_mine(const raiser *r, const df_node *n) {
  return n->id >= r->first && n->id < r->first + r->n;
}
static inline df_flow raise_flow(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }
static inline bool raise_is_loop_merge(const raiser *r, const df_node *n) {
  if (raise_flow(n) != DF_MERGE) return false;
  for (int32_t i = 0; i < n->nin; i++) if (raise_flow(n->in[i].node) == DF_NEXT_ITERATION) return true;
  return false;
}

/* recover_flow_build.c: loops that lack a part are given up: true when one was. Then: makes what is left. */
bool dfi_recover_check_loops(raiser *r);
void dfi_recover_build(raiser *r);
#endif
