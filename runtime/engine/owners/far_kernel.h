/* far_kernel.h: nodes whose variables live on another rank than their owner: plan/owners.c finds them. */
#ifndef DFLOW_FAR_KERNEL_H
#define DFLOW_FAR_KERNEL_H
#include "engine/executor.h"

struct dfi_team;

/* Once for a plan, before the nodes' kernels are wrapped by anything else. */
void dfi_far_attach(dfi_plan *p);

/* What a team has of them. */
typedef struct dfi_far {
  pthread_mutex_t lock;          /* guards calls and ids */
  struct dfi_far_call *calls;    /* nodes that wait */
  int64_t  ids;
  atomic_int jobs;               /* questions of other ranks that are being answered */
  atomic_int owners;             /* of this rank that are not done */
  _Atomic uint64_t done;         /* bit k: rank k's owners ask no more */
} dfi_far;
/* A run begins; a message of it (dfi_part); it is over here, once what is being answered is. */
void dfi_far_begin(struct dfi_team *t);
void dfi_far_message(void *user, int32_t from, const void *bytes, int64_t n);
void dfi_far_end(struct dfi_team *t);
/* x asks no more: the others know when all owners of this rank do. Is x to stay, since others may ask its rank? */
void dfi_far_owner_done(dfi_exec *x);
bool dfi_far_is_needed(const dfi_exec *x);
#endif
