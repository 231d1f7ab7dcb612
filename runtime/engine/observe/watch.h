/* watch.h: how others stop a run between two tokens, step it, and read what it kept.
 *
 * The owner of a run looks at its watch when `wanted` is set, and before every token while the run is watched. While it
 * is paused it waits for `changed`, so a thread that holds `lock` and finds `state` PAUSED may read all of the run's
 * frames. Where several owners turn it, the first that has a reason to stop pauses all of them (`halts`);
 * when the last one does, messages between them lie where they are, and what others read is gathered from all
 * (gather.h). Over ranks each process has a watch of its own, and that of rank 0 has them all halt and go on: halt.h.
 * Lock order: watch->lock, then the run's inbox_lock or log_lock.
 */
#ifndef DFLOW_WATCH_H
#define DFLOW_WATCH_H
#include "engine/executor.h"

typedef struct dfi_break {
  int32_t  id;
  uint8_t *match;            /* by plan node; NULL: any */
  char    *frame;            /* NULL: any */
  int64_t  iteration;        /* -1: any */
  int32_t  conditions;
  bool     once;             /* the first stop is the last: where an iteration begins */
} dfi_break;

typedef struct dfi_watch {
  pthread_mutex_t lock;      /* guards all that follows but `wanted`, and what the owner alone uses while it runs */
  pthread_cond_t  changed;
  atomic_int   wanted;       /* the owner shall look at this */
  int32_t      state;        /* df_run_state */
  bool         waits;        /* at some time all its calls waited for something outside of it */
  bool         want_pause;
  bool         until_resumed; /* only a resume ends the pause; else the last thread that holds it does */
  int64_t      interrupts;   /* dfi_interrupts when the run was asked for, before its thread began */
  double       patience;     /* seconds that others wait for it to pause; < 0: for as long as it takes */
  dfi_exec    *exec;         /* while it runs or is paused; of one that remains, until it is let go */
  bool         is_remote;    /* the run of a rank other than 0 */
  bool         reports_end;  /* such a run sends its state to rank 0 when its part is over */
  double       ordered_at;   /* when rank 0 told such a run to begin, by rank 0's clock */
  bool         remains;      /* when it is over it stays as it is then, to be looked at */
  bool         at_once;      /* df_session_start does not wait until the run has begun */
  df_stop      stop;
  uint32_t     stop_serial;  /* of the frame it stands in, as the owner that stopped counts frames */
  dfi_break   *breaks; int32_t nbreaks, break_serial;      /* changed only while the run is paused */
  int32_t      step; int64_t left;
  uint32_t     step_frame; int64_t step_number;            /* DF_STEP_ITERATION: where it began */
  bool         step_ended;   /* and that frame has ended since */
  /* of several owners */
  int32_t      members, ended, standing;     /* how many; of them, those that have done their part; that are paused */
  bool         halts;        /* all are to pause, or are paused */
  int32_t      stopper;      /* the owner that had the reason: its place among the plan's */
  int32_t      spent;        /* a breakpoint to be taken away when all stand; 0: none */
  int64_t      opened;       /* frames, while the run is watched */
  struct dfi_halt *halt;     /* owned; of a run over ranks: halt.h; NULL: it is this process's alone */
  dfi_exec    *gathered;     /* owned, while they stand: what there is to read */
  /* the owner's own */
  double       began;
  bool         records;      /* the run is written down, to be timed again: record.c */
  struct dfi_recorder *recorder;             /* owned */
  bool         keeps;        /* values are kept: dfi_exec's ring */
  bool         primitives;   /* every node fires on its own */
  int32_t      finally;      /* the node that the session runs when the run has ended; -1: none */
  /* the log (log.h): written by the owner, in chunks that never move; others read as many events as nevents says */
  bool         logs;
  pthread_mutex_t log_lock;  /* guards it, while several owners write it; and what follows */
  struct dfi_logged_frame *open;         /* owned; frames that are open anywhere */
  int32_t      nopen, open_room;
  uint32_t     logged_frames;            /* opened so far */
  df_event   **chunk;        /* DFI_CHUNKS */
  atomic_llong nevents;
  int64_t      most;         /* events that it may hold */
  atomic_llong dropped;      /* events that found no room any more */
} dfi_watch;

/* 400 MB unless fewer are asked for; after that events are only counted */
enum { DFI_CHUNK_EVENTS = 4096, DFI_CHUNKS = 2048 };

/* What the watch of another rank is to be like: bits; 0: the run has no inspector. */
enum { DFI_WATCHED = 1, DFI_WATCH_PAUSED = 2, DFI_WATCH_LOGS = 4, DFI_WATCH_KEEPS = 8, DFI_WATCH_REMAINS = 16 };
uint32_t   dfi_watch_order(const dfi_watch *w);              /* w may be NULL */
/* ordered: when, by the clock of rank 0. Owned; NULL for 0. */
dfi_watch *dfi_watch_follow(uint32_t order, double ordered);
/* Do several owners, here or on other ranks, pause together? */
static inline bool dfi_watch_together(const dfi_watch *w) { return w->members > 1 || w->halt; }

/* options: as df_session_start takes them. NULL: err is filled. */
dfi_watch *dfi_watch_new(const char *options, df_error *err);
void dfi_watch_free(dfi_watch *w);
/* For the owner: the run begins and ends; it comes by; a token is next (false: the engine has to look again); a frame
 * opens or ends; a kernel came back. */
void dfi_watch_begin(dfi_exec *x);
void dfi_watch_end(dfi_exec *x);
/* An owner but the first begins its part; any of several has done it. */
void dfi_watch_join(dfi_exec *x);
void dfi_watch_leave(dfi_exec *x);
/* Lets it go on, for the owners that were paused. Under the lock. */
void dfi_watch_go_on(dfi_watch *w);
/* Takes a breakpoint (0: all) away: was there one? Under the lock. */
bool dfi_watch_unbreak(dfi_watch *w, int32_t breakpoint);
/* The values that were kept go. */
void dfi_watch_forget(dfi_exec *x);
void dfi_watch_look(dfi_exec *x);
bool dfi_watch_token(dfi_exec *x);
void dfi_watch_frame(dfi_exec *x, const dfi_frame *f, bool opened);
/* Over ranks (halt.c): this one has no token that is ready, or has done its part, so where it has the turn of a step,
 * another one gets it; x counts what the others did from now on, since they have ended. */
void dfi_watch_pass_turn(dfi_watch *w);
void dfi_watch_counted(dfi_exec *x);
/* x waits for other ranks: it comes by where it is wanted, or hands on the turn of a step. False: neither. */
bool dfi_watch_ranks(dfi_exec *x);
/* The owner is to come by. Any thread. */
void dfi_watch_call(dfi_watch *w);
/* A value is kept, or all that p has made in r; x->kept is there. */
void dfi_watch_keep(dfi_exec *x, dfi_token t, uint32_t index, const df_value *v);
void dfi_watch_keep_all(dfi_exec *x, dfi_record *r, const dfi_pnode *p);
void dfi_watch_done(dfi_exec *x, const dfi_record *r, const dfi_pnode *p);
static inline bool dfi_watch_wanted(const dfi_exec *x) {
  return x->watch && atomic_load_explicit(&x->watch->wanted, memory_order_relaxed);
}
/* For others: takes the lock and pauses the run: PAUSED, or OVER, or RUNNING when it does not in
 * time or the wait is interrupted. *mine: it ran before, and goes on with dfi_watch_let_go. */
int32_t dfi_watch_hold(dfi_watch *w, bool *mine);
void    dfi_watch_let_go(dfi_watch *w, bool mine);
/* May a run that was held in this state be read: is it paused, or over and remains? */
static inline bool dfi_watch_readable(const dfi_watch *w, int32_t state) {
  return state == DF_RUN_PAUSED || (state == DF_RUN_OVER && w->exec && w->remains);
}
/* The state to be read of a run that is paused or remains. */
static inline const dfi_exec *dfi_watch_seen(const dfi_watch *w) { return w->gathered ? w->gathered : w->exec; }
/* Why dfi_watch_hold gave RUNNING or OVER: fills err with what it stands for. Under the lock. */
int32_t dfi_watch_refuse(dfi_watch *w, int32_t state, const char *over, df_error *err);
/* For a thread that waits for `changed` under the lock, at most until a time of dfi_now(), < 0: for ever. Comes back
 * now and then. False: too late, or interrupted since `interrupts`, which was dfi_calls_interrupted when it began. */
bool    dfi_watch_wait(dfi_watch *w, double until, int64_t interrupts);
/* The iteration and the true serial of the frame that a token of the queue belonged to. */
void    dfi_watch_place(const dfi_exec *x, const dfi_token *t, uint32_t *serial, int64_t *number);
#endif
