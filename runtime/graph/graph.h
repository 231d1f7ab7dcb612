/* graph.h: what the files that make the graph (graph.c, names.c, node.c, order.c, known_values.c) share. g->build is a
   dfi_builder. */
#ifndef DFLOW_GRAPH_H
#define DFLOW_GRAPH_H
#include "graph/build.h"

/* A bump allocator: nothing is freed before all of it is. */
typedef struct dfi_arena { char *at, *end; struct dfi_chunk *chunks; struct dfi_fence *last; } dfi_arena;
void *dfi_arena_take(dfi_arena *a, size_t bytes);   /* 8-byte aligned, not cleared */
void  dfi_arena_free(dfi_arena *a);

/* A prefix of names, and how many nodes of each op were named after it. One struct per text. */
typedef struct dfi_scope {
  const char *text;        /* interned: "" or "a/b/" */
  int32_t    *count;       /* by op; NULL until the first node; guarded by names_lock */
  bool        eager;       /* names are made when nodes are: an explicit name runs ahead of the counts */
} dfi_scope;

/* One interned text, which may be a node's name, a name that is taken without a node (a frame's) and a scope. */
typedef struct dfi_interned {
  uint32_t   hash, next_suffix;
  df_node   *node;
  dfi_scope *scope;
  bool       taken;
  char       s[];
} dfi_interned;

typedef struct dfi_control { int32_t n; df_node **nodes; df_context *context; } dfi_control; /* n -1: none stands */

typedef struct dfi_builder {
  dfi_arena   nodes;             /* the building thread's alone */
  /* Guarded by names_lock: a session that reports an error asks for names while others build. */
  pthread_mutex_t names_lock;
  dfi_arena   texts;
  dfi_interned  **text;              /* open addressing */
  uint32_t    ntext, text_mask;
  /* What stands. */
  dfi_scope **scope;     int32_t nscope, scope_cap;       /* [0] is the outermost */
  dfi_control *control;  int32_t ncontrol, control_cap;
  const char **device;   int32_t ndevice, device_cap;
  const char *last_where;        /* interned */
  int64_t     neffects;          /* side effects built so far */
  /* undo.c: the marks that are open, and what was noted since. */
  struct dfi_mark *mark;             int32_t nmark, mark_cap;
  struct dfi_undo_edge *edge;        int32_t nedge, edge_cap;
  struct dfi_undo_name *renamed;     int32_t nrenamed, renamed_cap;
  /* The open node: from df_node_begin to df_node_end. */
  bool        open;
  int32_t     op;
  df_output  *in;        int32_t nin, in_cap;
  df_node   **wait;      int32_t nwait, wait_cap;
  df_attr     attr[16];
  uint32_t    attr_set;
  const char *name, *where;
  df_error    error;             /* the first thing wrong with it; code 0: nothing */
} dfi_builder;

static inline dfi_builder *dfi_builder_of(df_graph *g) { return g->build; }

/* undo.c: called before a node's inputs or control edges become more, and before a text becomes a name. */
void        dfi_undo_edges(df_node *n);
void        dfi_undo_text(dfi_builder *b, dfi_interned *t);
void        dfi_undo_leave(df_graph *g, int32_t flow);    /* marks set deeper than that are left; the nodes stay */
void        dfi_undo_free(dfi_builder *b);

/* names.c */
void        dfi_names_init(dfi_builder *b);
void        dfi_names_free(dfi_builder *b);
const char *dfi_where(df_graph *g, const char *where);              /* interned; the last one is found at once */
/* Gives a new node its explicit name (relative to the scope, made unique), or its place among the automatic ones. */
void        dfi_names_add(df_graph *g, df_node *n, const char *name);
/* Gives it exactly this name; false: there is such a name already. */
bool        dfi_names_claim(df_graph *g, df_node *n, const char *name);
void        dfi_names_drop(df_graph *g, df_node *n);                /* of a node that goes */
void        dfi_names_take_back(df_graph *g, df_node *n);           /* of the last one that was named; the count too */
/* The name belongs to node n of a copied graph, or (NULL) to a frame. */
void        dfi_names_take(df_graph *g, df_node *n, const char *name);
/* Of a node that was read with its scope and serial: gives it that name, or (NULL) its place among the automatic ones.
   */
void        dfi_names_restore(df_graph *g, df_node *n, const char *name);
bool        dfi_name_bad(const char *name);                         /* empty, or with a space, ':' or '^' */

/* node.c: as dfi_node_add; `kept`: attrs already lie in the arena. */
/* A graph is built by one thread at a time (dflow.h). Between these two a thread is in the middle of building: in the
 * debug build another one that begins meanwhile ends the program, and `what` is named. They nest. */
#ifdef DFLOW_DEBUG
void        dfi_building(df_graph *g, const char *what);
void        dfi_built(df_graph *g);
#else
static inline void dfi_building(df_graph *g, const char *what) { (void)g; (void)what; }
static inline void dfi_built(df_graph *g) { (void)g; }
#endif
df_node    *dfi_node_make(df_graph *g, const dfi_node_spec *spec, bool kept, df_error *err);

/* Do the inputs, attributes and outputs of a node that was read from elsewhere fit its op's entry? Its inputs name
 * outputs that are there. */
int32_t     dfi_node_check(df_node *n, df_error *err);

/* order.c: control edges of a node about to be published: pivot, explicit ones, what stands. */
typedef struct dfi_waits { df_node **node; int32_t n, cap; df_node *few[16]; } dfi_waits;
int32_t dfi_order(df_graph *g, df_node *n, const dfi_node_spec *spec, dfi_waits *w, df_error *err);
#endif
