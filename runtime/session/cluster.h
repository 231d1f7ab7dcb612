/* cluster.h: what a session asks of the cluster, which is above it: a table of functions that the cluster registers.
 * Without one everything is on this process's devices.
 */
#ifndef DFLOW_SESSION_CLUSTER_H
#define DFLOW_SESSION_CLUSTER_H
#include "engine/owners/message.h"         /* dfi_value_pack */
#include "engine/owners/rank.h"
#include "plan/plan.h"

/* The order that rank 0 sends another rank to turn its part of a run: the run's number among the ranks; the number by
 * which random ops draw; the timeout in seconds (0: the session's); rank 0's clock; how an inspector looks at the run
 * (dfi_watch_order). */
typedef struct dfi_part_order { uint64_t run; int64_t number; double timeout, now; uint64_t watch; } dfi_part_order;

typedef struct dfi_cluster {
  dfi_rank *rank;
  /* A plan over ranks has been made, under the graph's lock: the others may be told of it now. May be NULL. */
  int32_t (*planned)(void *user, df_session *s, dfi_plan *p, df_error *err);
  /* Rank 0 is about to turn its part of a plan over ranks: those in `ranks` (bit k: rank k; bit 0 is set) are told to
   * make the plan of this signature and turn theirs (dfi_session_part). Returns as soon as they are told, or with an
   * error; after it no rank has the run. Any thread, and several runs at once. */
  int32_t (*begin)(void *user, df_session *s, const dfi_plan *p, uint64_t ranks, const dfi_part_order *o,
                   df_error *err);
  /* The value of a variable that lives on another rank: read (owned), set, or forgotten (value NULL). */
  int32_t (*get_variable)(void *user, df_session *s, int32_t rank, df_node *handle, df_value *out, df_error *err);
  int32_t (*set_variable)(void *user, df_session *s, int32_t rank, df_node *handle, const df_value *value,
                          df_error *err);
  /* The variables of all other ranks are as if they had never had values; the session is gone. */
  void (*reset)(void *user, df_session *s);
  void (*closed)(void *user, df_session *s);
  void *user;
  /* dfi_devices.far_gpus. NULL: this process asks none. */
  int32_t (*gpus)(int32_t rank, int32_t number, df_error *err);
} dfi_cluster;

/* A run that every rank's program makes (SPMD), as this rank's program asks for it. */
typedef struct dfi_spmd_call {
  df_session *session;
  int32_t  nfetch, nfeed;
  const int32_t *fetches, *feeds;  /* borrowed */
  df_value *values;                /* owned, once it has arrived: what is fed, each by the rank it is placed on */
  uint32_t request;
} dfi_spmd_call;

typedef struct dfi_spmd {
  bool driver;                     /* rank 0 computes; the others take its results */
  /* All ranks have come to this run, which these values feed, and it is the same on all; or, with a variable's handle,
   * all give it this value, which rank 0 sets before it finishes. Else failed_precondition, or unavailable, on each. */
  int32_t (*arrive)(dfi_spmd_call *c, const df_node *handle, const df_value *values, df_error *err);
  /* Rank 0: the others get what became of it. Another rank: waits for that, and fills results and err. */
  int32_t (*finish)(dfi_spmd_call *c, int32_t status, df_value *results, df_error *err);
  /* Not on rank 0: the value of a variable as rank 0 has it; owned. */
  int32_t (*get)(df_session *s, const df_node *handle, df_value *out, df_error *err);
} dfi_spmd;

/* NULL: only this process runs the program. */
void dfi_spmd_set(const dfi_spmd *m);
const dfi_spmd *dfi_spmd_now(void);

/* Registers it (NULL: there is none any more; what it points to stays). Sessions have the devices of all its ranks from
 * their next plan on, if they have no other one's: of each at least its cpu:0, and what df_session_new's options list
 * with a rank. */
void dfi_cluster_set(const dfi_cluster *c);
const dfi_cluster *dfi_cluster_now(void);

/* The session has the devices of the cluster's ranks from now on, behind its own. */
void dfi_session_join(df_session *s, const dfi_cluster *c);

/* The plan of a signature (pairs of node and output, as in df_session_run), held until it is let go. watched:
 * DFI_PLAN_STEPPED and DFI_PLAN_PRIMITIVES, or 0. */
dfi_plan *dfi_session_plan(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                           uint32_t watched, df_error *err);
void      dfi_session_let_go(dfi_plan *p);
/* How the session's plans are made: DFI_PLAN_ flags. */
uint32_t  dfi_session_plan_flags(const df_session *s, uint32_t watched);
/* On a rank but 0: the session's devices become those of rank 0's session, in the same order, as
 * dfi_session_device_list has them there: before each plan is made. */
int32_t dfi_session_device_list(df_session *s, int32_t room, char *out);
int32_t dfi_session_devices_are(df_session *s, const char *list, df_error *err);
/* On a rank but 0: turns this rank's part of a run, on the calling thread, to its end. p is held meanwhile (as
 * dfi_session_plan returns it). The rank expects the run. One that cannot begin it calls dfi_rank_refuse. */
int32_t dfi_session_part(df_session *s, dfi_plan *p, const dfi_part_order *o, df_error *err);
/* On a rank but 0: of a variable that lives here. */
int32_t dfi_session_variable_here(df_session *s, df_node *handle, df_value *out, df_error *err);
int32_t dfi_session_set_variable_here(df_session *s, df_node *handle, const df_value *value, df_error *err);
/* The rank on which a variable, or another node, lives: of the device it was built for. */
int32_t dfi_session_home(df_session *s, const df_node *handle);
#endif
