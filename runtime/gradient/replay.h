/* replay.h: what a loop's body computes, computed once more in another context.
 *
 * A copy is made value by value: asking for the copy of an output copies its node, what that node needs, and the loops
 * and conds that these stand in. The caller says for some values what stands for them instead.
 */
#ifndef DFLOW_REPLAY_H
#define DFLOW_REPLAY_H
#include "graph/flow.h"

/* loop: place in loop[], of a loop's */
typedef struct dfi_replayed_context { df_context *from, *to; int32_t loop; } dfi_replayed_context;
typedef struct dfi_replayed_loop {
  df_loop *from, *to;
  int32_t *var, nvar;        /* by number in `from`: number in `to`, -1: not copied */
  struct dfi_map *merge;     /* Merge -> (Merge, number in `from`) of the first `known` variables */
  int32_t  known;
} dfi_replayed_loop;
/* has: by number in `from` */
typedef struct dfi_replayed_cond { df_cond *from, *to; bool *has; int32_t n; } dfi_replayed_cond;

typedef struct dfi_replay dfi_replay;
struct dfi_replay {
  df_graph   *graph;
  df_error   *err;
  df_context *from, *to;     /* the body, and the context that stands for it */
  /* What stands for v, usable in the copy of v's context; DFI_NONE: nothing does, so v's node is copied. *failed: err
   * is filled. Asked once for each output. */
  df_output (*unrolled_value)(dfi_replay *c, df_output v, bool *failed);
  /* Changes the attributes of the copy of n, in entry order; may be NULL. */
  void      (*retouch)(dfi_replay *c, df_node *n, df_attr *attrs);
  void       *user;
  /* replay.c's own. */
  struct dfi_map *value;     /* output -> what stands for it in the copy */
  struct dfi_map *place;     /* (pivot, 0) -> (pivot, place in context[]) */
  dfi_replayed_context *context; int32_t ncontext, context_cap;
  dfi_replayed_loop    *loop;    int32_t nloop, loop_cap;
  dfi_replayed_cond    *cond;    int32_t ncond, cond_cap;
  df_node   **merge;           int32_t nmerge, merge_cap;    /* of loops: copied, but not what comes back to them */
};

/* graph, err, from, to, unrolled_value, retouch and user are set; the rest is zero. */
df_output   dfi_replay_value(dfi_replay *c, df_output v);            /* DFI_NONE: err is filled */
/* Once all is asked for: the loops go round, and loops and conds know what they have. May be called again after more
   was. */
bool        dfi_replay_finish(dfi_replay *c);                        /* false: err is filled */
df_output   dfi_replay_find(const dfi_replay *c, df_output v);       /* DFI_NONE: not copied so far */
/* a context inside of `from`, or itself; NULL: err is filled */
df_context *dfi_replay_context(dfi_replay *c, df_context *from);
void        dfi_replay_free(dfi_replay *c);                          /* its memory; what was copied stays */
#endif
