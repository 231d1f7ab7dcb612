/* undo.h: what a mark notes, and what is noted while one is open; parts of a dfi_builder. See undo.c. */
#ifndef DFLOW_UNDO_H
#define DFLOW_UNDO_H
#include "graph/graph.h"

/* A context that was open, as it was. */
typedef struct dfi_stood { df_context *context; df_node *last_effect; df_node **reads; int32_t nreads; } dfi_stood;

struct dfi_mark {
  int32_t   n;                          /* nodes */
  dfi_arena nodes;
  int32_t   flow, nscope, ndevice, ncontrol;
  int32_t   ncontext, nloop, ncond, nfunction, ncontexts, nloops, nconds, ngradients;
  int32_t   nedge, nrenamed;
  bool      whole;                      /* nothing else was in the middle of building */
  df_context *current;
  dfi_stood *stood; int32_t nstood;     /* owned */
};
/* A node's inputs and control edges before they became more. */
struct dfi_undo_edge { df_node *node; df_output *in; df_node **control; int32_t nin, ncontrol; };
/* A text before it became a name. */
struct dfi_undo_name { dfi_interned *text; uint32_t next_suffix; bool taken; };

/* names.c: nodes from `first` on give their names back, and texts from the nth noted one on. */
void dfi_names_undo(df_graph *g, int32_t first, int32_t nrenamed);
/* graph.c */
void dfi_node_drop(df_node *n);                                   /* lets go of what it owns */
void dfi_arena_cut(dfi_arena *a, const dfi_arena *to);            /* back to what it was */
/* node.c: the open node, if there is one, is given up. */
void dfi_node_give_up(df_graph *g);
#endif
