/* where.h: where the value of an output of the graph lies in a plan, and why there.
 *
 * A plan has fewer nodes than the graph: what passes a value on is left out, equal Switches are one node, a loop's
 * Merge has none, constants and feeds lie in place. Inspectors ask here, so that this is known once.
 */
#ifndef DFLOW_WHERE_H
#define DFLOW_WHERE_H
#include "plan/plan.h"

typedef enum dfi_why_there {
  DFI_LIES_NOWHERE = 0, /* the scope has no such value */
  DFI_LIES_GIVEN,       /* it is fed */
  DFI_LIES_FOLDED,      /* a constant of the graph, or of the plan (plan/fold.c): the attribute of `output`'s node */
  DFI_LIES_KEPT,        /* `node` makes it */
  DFI_LIES_MERGED,      /* a loop's Merge: the Enter and the NextIteration, which is `node`, write to its slot */
  DFI_LIES_ENTERED,     /* an Enter of the scope: it wrote to the first iteration, or it is a loop constant */
  DFI_LIES_LEFT         /* an Exit, `node`, of the scope `child` within this one */
} dfi_why_there;

typedef struct dfi_where {
  dfi_why_there    why;
  dfi_operand      at;     /* in a record of the scope; not of what is folded or nowhere */
  df_output        output; /* what of the graph makes it: o, or what o passes on */
  const dfi_pnode *node;   /* the plan's node of it: kept or nowhere, one of the scope; NULL where there is none */
  const dfi_scope *child;  /* DFI_LIES_LEFT: the loop that it leaves */
} dfi_where;

/* Where o lies, seen from an iteration of scope s. Feeds come first, as they do in a run. */
dfi_where dfi_where_is(const dfi_plan *p, const dfi_scope *s, df_output o);

/* Does q do what n of the graph does: because it is n, or a Switch with the same inputs? */
bool dfi_stands_for(const dfi_pnode *q, const df_node *n);
/* n, or the node that is kept and whose value is n's. */
const df_node *dfi_plan_kept(const dfi_plan *p, const df_node *n);
/* The constant that stands for n, whose inputs are constants; NULL: none does. */
const df_node *dfi_plan_folded(const dfi_plan *p, const df_node *n);
/* The scope's node that does; n's own before that of an equal Switch; NULL: there is none. */
const dfi_pnode *dfi_plan_node_for(const dfi_plan *p, const dfi_scope *s, const df_node *n);
#endif
