/* team_internal.h: what team.c, rendezvous.c and across.c share.
 */
#ifndef DFLOW_TEAM_INTERNAL_H
#define DFLOW_TEAM_INTERNAL_H
#include "engine/owners/ranks.h"
#include "engine/owners/far_kernel.h"
#include "engine/owners/team.h"
#include "engine/owners/transfer.h"
#include "engine/owners/lost.h"

enum { WAITS = 0, GOES, CANCELLED };
enum { FAILED_ELSEWHERE = -1 };
struct dfi_team {
  int32_t     n;
  int32_t     first;         /* the number of its first member among the plan's owners */
  atomic_int  failed;        /* 1 + the member that failed first; FAILED_ELSEWHERE: on another rank; 0: none has */
  atomic_int  held;          /* a message was sent that never comes */
  atomic_int  stalled;       /* how often the first owner has found that nothing can move */
  pthread_mutex_t lock;      /* guards gate and out */
  pthread_cond_t  bell;
  int32_t     gate;
  int32_t     out;           /* other members' threads that have not ended */
  uint32_t    mode;          /* of the floating-point unit */
  uint64_t    run;           /* its number among those that go over the same rings */
  dfi_part    part;          /* what rank.c has of it */
  df_error    elsewhere;     /* what went wrong on another rank */
  bool        left_behind;   /* rank 0 is done without the other ranks */
  _Atomic uint64_t ended;    /* rank 0: bit k: rank k has done its part */
  dfi_end     sum;           /* of these parts; guarded by lock, as what follows */
  dfi_traffic *traffic;      /* owned; by link */
  int64_t     *ran;          /* owned; by owner: nodes that it ran */
  dfi_saved    saved;        /* of these parts; policies.at is owned */
  dfi_far      far;          /* kernels that run where their variables are */
  dfi_team_message  *crossed; /* what came that crosses when the run begins */
  dfi_shared  own, *session; /* what its members share in a run over ranks; and what runs of the session do */
  dfi_told    *told, **told_last;    /* owned: what was said about looking at the run; in order */
  _Atomic int64_t sent_to[DFI_RANKS_MOST], come_from[DFI_RANKS_MOST];    /* values, by rank */
  _Atomic int64_t asked;     /* the round in which rank 0 asks whether anything can move; 0: it does not */
  _Atomic uint64_t asked_loops;      /* and loops in which some rank waits (lost.h) */
  struct { int64_t round, gone, come, last; uint64_t answers, last_ended; double next; int32_t wait_ms;
           bool held;
           dfi_wanted wanted; uint64_t loops;            /* as the others answer; as they were asked: lost.h */
           uint64_t question, answered; } ask;       /* rank 0's; the question of another run that it looks into */
  struct dfi_serial *serial;     /* owned; DFLOW_STRESS=ring; NULL */
  dfi_exec   *member[];      /* the first is the run's own; the others are owned */
};


/* team.c: all members look up. */
void dfi_team_call_all(const struct dfi_team *t);
/* The member that is the plan's owner of that number; NULL: it is another rank's. */
static inline dfi_exec *dfi_team_member_of(const struct dfi_team *t, int32_t owner) {
  return owner >= t->first && owner < t->first + t->n ? t->member[owner - t->first] : NULL;
}

/* across.c: a message goes to another rank as bytes. */
void dfi_across_send(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, int32_t owner, uint32_t dead, double due,
                     df_value v);
/* What has been sent and not been taken yet is. All members are paused. */
void dfi_across_settle(const struct dfi_team *t);
/* A run over ranks begins here, and has ended here: rank 0 waits for what the others say. */
void dfi_across_join(struct dfi_team *t);
void dfi_across_leave(dfi_exec *x);
/* The functions of its part: see dfi_part. */
void dfi_across_told(void *user, int32_t from, const void *bytes, int64_t n);
void dfi_across_message(void *user, dfi_team_message *l);
void dfi_across_failed(void *user, int32_t from, const df_error *err);
void dfi_across_ended(void *user, int32_t from, const void *bytes, int64_t n);
/* stall.c: a run over ranks begins; rank 0 has nothing more to do, and asks whether the others
 * have; what is said about it; messages that the members have sent, and that have met their Recvs. */
void dfi_stall_begin(struct dfi_team *t);
void dfi_stall_ask(dfi_exec *x);
void dfi_stall_told(void *user, int32_t from, const void *bytes, int64_t n);
void dfi_stall_counts(const struct dfi_team *t, int64_t *sent, int64_t *received);
/* Those that have gone to other ranks, and come from them. */
void dfi_stall_crossed(struct dfi_team *t, int64_t *gone, int64_t *come);
/* DFLOW_STRESS=ring: the owners of one process send each other bytes, through rings that are too small. */
struct dfi_serial *dfi_serial_new(const struct dfi_team *t);
void dfi_serial_begin(struct dfi_team *t);
void dfi_serial_end(struct dfi_team *t);
void dfi_serial_free(struct dfi_team *t);
#endif
