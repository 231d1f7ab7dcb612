/* place_estimate.h: a plan as jobs and what they pass on, and how long its run takes by the virtual clock.
 *
 * Jobs are the plan's kernels, and what holds values: a loop variable (its Merge) and its Switch, a cond's Switch (a
 * branch) and its Merge, which take no time and are where the kernel is that makes the value. A run in which all conds
 * take one side is played, and one in which all take the other. place_search.c finds the jobs and moves them;
 * place_estimate.c plays their run: each device computes one kernel after the other, each port carries one message
 * after the other, a value crosses once to each device, a loop begins when all that it takes has come, an iteration
 * when the window lets it. Of a loop the first ITERATIONS_MOST iterations are played, and the rest are taken to follow
 * at the pace of the last ones.
 */
#ifndef DFLOW_PLAN_PLACE_ESTIMATE_H
#define DFLOW_PLAN_PLACE_ESTIMATE_H
#include "plan/place.h"

enum {
  JOBS_MOST = 96, DEVICES_MOST = 16, LOOPS_MOST = 8, ITERATIONS_MOST = 8,
  ROUNDS_MOST = ITERATIONS_MOST + 1,       /* an iteration for each trip, and the one that ends the loop */
  INSTANCES_MOST = JOBS_MOST * ROUNDS_MOST * ROUNDS_MOST,
  ON_HOST = -1, NO_JOB = -1
};
typedef enum job_kind { JOB_KERNEL, JOB_VARIABLE, JOB_SWITCH, JOB_BRANCH, JOB_MERGE } job_kind;

typedef struct job {
  df_node *node;
  job_kind kind;
  int32_t  loop;               /* 0: the top level */
  int32_t  follows;            /* of what is no kernel: the job that it is with; NO_JOB: the host */
  int32_t  values;             /* 1 + the first of its values; 0: none */
  int32_t  missing_first, missing_later;   /* inputs in iteration 0 (of a variable none), and in each later one */
  int32_t  first, times;       /* its instances: one for each iteration in which it runs, of each round of its loop's
                                  parent */
  bool     free;               /* may be moved */
  bool     conditional;        /* of a loop: not part of its predicate, so the last time round it does not run */
  bool     once;               /* an invariant: computed in iteration 0 */
  bool     given;              /* of a Merge: one of its inputs has no job, and is alive where the others are dead */
  double   seconds[DEVICES_MOST];          /* INFINITY: no kernel there */
} job;
/* What a job makes, or (job NO_JOB) what is fed: lies on the host when the run begins. */
typedef struct value {
  df_output from;
  int32_t  job, next;          /* next: of its job, as job.values */
  int32_t  first;              /* among the uses */
  double   bytes;
} value;
/* Of what comes from another loop's end or from outside, SAME is every iteration. */
typedef enum when { WHEN_SAME, WHEN_FIRST, WHEN_NEXT } when;
typedef struct use { int32_t value, job /* ON_HOST: fetched */; when when; } use;
typedef struct loop {
  int32_t scope, parent, trips, played, enters;        /* enters: uses that it waits for before it begins */
  int64_t window;
} loop;
/* One job in one iteration, as far as the run has been played. */
typedef struct instance { double ready; int32_t missing, job; uint32_t serial; bool dead, opened; } instance;

typedef struct search {
  maker   *m;
  int32_t  njobs, nvalues, nuses, ndevices, nloops, use_room, value_room;
  job     *job;
  value   *value;
  use     *use;
  loop     loop[LOOPS_MOST];   /* loop[0]: the top level, one iteration; a loop comes behind its parent */
  int32_t *job_of;             /* by node id: 1 + its job; 0: none */
  bool     branches;           /* there are conds */
  int64_t  work;               /* instances looked at in all estimates */
  /* of the estimate that is being made */
  instance *instance;
  int32_t  *open, nopen;       /* instances that have all their inputs */
  uint32_t  serial;
  double    computes[DEVICES_MOST], sends[DEVICES_MOST], receives[DEVICES_MOST], last;
  int32_t   side;              /* which output of a branch is alive */
  /* by loop and round of its parent: when the last of its enters has come; one of them is dead; those to come */
  double    opens[LOOPS_MOST][ROUNDS_MOST];
  bool      dead[LOOPS_MOST][ROUNDS_MOST];
  int32_t   awaits[LOOPS_MOST][ROUNDS_MOST];
  /* the same, and by iteration: when it has ended; its instances that have not run */
  double    ended[LOOPS_MOST][ROUNDS_MOST][ROUNDS_MOST];
  int32_t   left[LOOPS_MOST][ROUNDS_MOST][ROUNDS_MOST];
} search;

/* Where a job is: what is no kernel is with what it follows. */
int32_t dfi_place_of(const search *s, const int32_t *place, int32_t j);
/* Gives each job its instances; once, when all jobs and uses are known. */
void dfi_place_prepare(search *s);
/* Seconds of the run with job j on device place[j]; with conds, the mean of both sides. Where that is `limit` or more,
   something between it and that. */
double dfi_place_estimate(search *s, const int32_t *place, double limit);
#endif
