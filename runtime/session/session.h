/* session.h: what a session owns: variables' values, plans, and the numbers it counts. */
#ifndef DFLOW_SESSION_H
#define DFLOW_SESSION_H
#include "engine/executor.h"
#include "resource/variable.h"
#include "engine/observe/watch.h"
#include "resource/resource.h"
#include "session/cluster.h"
#include "session/tally.h"

enum {
  DFI_PLAN_BUCKETS = 256,
  DFI_PLAN_LIMIT = 64 << 20,      /* bytes of plans that a session keeps unless told otherwise: some three thousand */
  DFI_PLANS_STAY = 8,             /* the last used stay whatever they take: programs run a few large ones in turn */
  DFI_GROWN_OFTEN = 1000,         /* so often a graph may grow between runs before it is warned of */
};

/* How often the random ops of a session have drawn: draws.c. */
typedef struct dfi_draw_count {
  int32_t     node;
  int64_t     times, before;   /* runs it drew in, with those that go on; the same before the last of these began */
} dfi_draw_count;
typedef struct dfi_draws {
  dfi_draw_count *of;          /* owned; by node */
  int32_t     n, cap;
  int64_t     others;          /* how often all others have, after a seek */
} dfi_draws;

/* A run's numbers: in its session, and the one that its random ops draw under. Initial values draw as run 0. */
typedef struct dfi_run_number { int64_t serial, draw; } dfi_run_number;

struct df_session {
  uint64_t    serial;          /* of all sessions of the process; from 1 */
  df_graph   *graph;           /* retained */
  char       *options;         /* owned; the text it was made with: workers' sessions get the same */
  int32_t     threads;
  bool        reference_kernels;
  bool        as_written;      /* plans are not simplified */
  uint32_t    batch;           /* DFI_PLAN_BATCH, or DFI_PLAN_BATCH_CALLS: ready nodes are computed as one; 0 */
  double      timeout;         /* seconds; 0: none */
  double      timeout_rank;    /* seconds after which a silent rank is hung; 0: the cluster's */
  uint64_t    shuffle, osr;    /* seeds of DFLOW_STRESS=shuffle and osr; 0: off */
  uint8_t     engine;          /* dfi_engine */
  dfi_pool   *pool;
  pthread_mutex_t lock;        /* guards plans, variables and the counters; held for lookups, never for a run */
  dfi_plan   *plan[DFI_PLAN_BUCKETS];
  int32_t     nplans;          /* made so far */
  int32_t     plans_kept;      /* in the table */
  dfi_plan   *newest, *oldest; /* by last use */
  int64_t     plan_limit;      /* bytes that kept plans may take together */
  int32_t     grown_nodes;     /* of the graph when a plan was last made */
  int32_t     grown;           /* how often a plan was made of a graph that had grown since */
  df_node   **variable_node; dfi_variable **variable; int32_t nvariables, variable_capacity;
  pthread_mutex_t init_lock;   /* recursive; held while variables are initialised. Order: init_lock, lock */
  _Atomic int64_t epoch;       /* changes whenever a variable may have become uninitialised; from 1 */
  int32_t     initialising;    /* depth of initial values that wait for initial values; guarded by init_lock */
  _Atomic int64_t runs;
  dfi_draws   draws;           /* guarded by lock */
  atomic_int  closing, active; /* runs that the session waits for before it ends */
  dfi_shared  shared;          /* what its runs share */
  bool        lone;            /* the thread that calls df_session_run starts all other runs too */
  df_stats    stats;           /* guarded by lock */
  dfi_resources resources;     /* queues */
  dfi_devices devices;
  int64_t     memory_limit;    /* of the host while its runs go on; 0: as it is */
  dfi_tally   tally;           /* guarded by lock, as the next two */
  dfi_peaks   peaks;           /* while it has runs */
  int32_t     running;
  const dfi_cluster *cluster;  /* whose ranks' devices are among its own; NULL: this process is alone */
  struct df_run *remaining;    /* runs that are over and still hold what they were; guarded by lock */
};

/* local_ranks.c: what DFLOW_STRESS=ranks:3 has a session be rank 0 of; NULL: nothing. And the other ranks' sessions. */
const dfi_cluster *dfi_local_ranks(void);
int32_t dfi_local_ranks_begin(df_session *s, const char *options, df_error *err);
/* df_session_new as a rank of a cluster (NULL: alone). */
df_session *dfi_session_make(df_graph *g, const char *options, const dfi_cluster *cluster, df_error *err);

/* Seconds for which the release of a run or a session waits for a kernel to end. What takes longer frees itself. */
#define DFI_PATIENCE 0.1

/* options.c: what a new session is told, by `threads=2 engine=tokens …` (NULL: nothing) and by the environment. */
int32_t dfi_session_options(df_session *s, const char *text, df_error *err);

/* A run that is over and remains is forgotten: what it holds goes back to its plan. */
void dfi_session_forget(dfi_watch *w);
/* The same of a run among the session's `remaining` (run.c). */
void dfi_run_let_go(struct df_run *r);

/* plans.c: a plan that is in no table any more goes, with the states of its runs. */
void dfi_session_plan_drop(dfi_plan *p);
/* variables.c: the session's own for a node of the graph, made when there is none; and sees to it that all variables
   of the plan have values. */
dfi_variable *dfi_session_variable_of(df_session *s, df_node *handle);
int32_t   dfi_session_initialise(df_session *s, dfi_plan *p, atomic_int *cancel, df_error *err);
/* What an initial value is: a run of p that is none of the caller's, under number 0. */
int32_t   dfi_session_compute(df_session *s, dfi_plan *p, atomic_int *cancel, df_value *results, df_error *err);

/* For runs in the background (run.c; plans: cluster.h): does a value fit what it is fed to; the numbers of the next
   run; one run, on this thread. */
int32_t   dfi_session_check_feed(df_output o, const df_value *v, df_error *err);
dfi_run_number dfi_session_number(df_session *s, const dfi_plan *p);
int32_t   dfi_session_run_plan(df_session *s, dfi_plan *p, const df_value *values, double timeout,
                               dfi_run_number number, atomic_int *cancel, dfi_watch *watch, df_value *results,
                               df_stats *stats, dfi_tally *tally, df_error *err);
/* A run under this number is over. drew: of each random op of the plan, whether it fired; NULL: none did. */
void      dfi_session_drew(df_session *s, const dfi_plan *p, int64_t number, const _Atomic uint8_t *drew);
/* measure.c: gives those of the devices whose speed is 'measured' the rates of this machine's kernels. */
void dfi_devices_measure(dfi_devices *d);
/* A run of p that was recorded or logged is over: what its nodes took counts where plans are made from now on. */
void dfi_session_learn(df_session *s, const dfi_plan *p, const dfi_watch *w);
#endif
