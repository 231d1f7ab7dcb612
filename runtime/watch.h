/* watch.h: how others stop a run between two tokens, step it, and read what it kept.
 *
 * The owner of a run comes by when `wanted` is set, and before every token while the run is watched. While it stands still it waits
 * for `changed`, so whoever holds `lock` and finds `state` PAUSED may read all of the run's frames.
 * Lock order: watch->lock, then the run's inbox_lock.
 */
#ifndef DFLOW_WATCH_H
#define DFLOW_WATCH_H
#include "executor.h"

typedef struct dfi_break {
  int32_t  id;
  uint8_t *match;            /* by plan node; NULL: any */
  char    *frame;            /* NULL: any */
  int64_t  iteration;        /* -1: any */
  int32_t  conditions;
} dfi_break;

typedef struct dfi_kept { int32_t node, frame, index; int64_t iteration; df_value value; } dfi_kept;

typedef struct dfi_watch {
  pthread_mutex_t lock;      /* guards all that follows but `wanted`, and what the owner alone uses while it runs */
  pthread_cond_t  changed;
  atomic_int   wanted;       /* the owner shall come by */
  int32_t      state;        /* df_run_state */
  bool         waits;        /* at some time all its calls waited for something outside of it */
  bool         want_pause;
  dfi_exec    *exec;         /* while it runs or stands still */
  df_stop      stop;
  dfi_break   *breaks; int32_t nbreaks, break_serial;      /* changed only while the run stands still */
  int32_t      step; int64_t left;
  uint32_t     step_frame; int64_t step_number;            /* DF_STEP_ITERATION: where it began */
  /* the owner's own */
  bool         pass;         /* the next token was stopped at already */
  int32_t      hit;          /* a nan or inf breakpoint that the last token met; 0: none */
  dfi_token    last; bool has_last;                        /* the token that ran last */
  int64_t      last_event;
  double       began;
  /* the log */
  int32_t      log;          /* 0, 1 tokens, 2 values too */
  df_event    *event; int64_t nevents, event_capacity, dropped;   /* guarded by log_lock */
  pthread_mutex_t log_lock;
  dfi_kept    *kept; int64_t nkept;                        /* a ring */
} dfi_watch;

enum { DFI_KEPT = 4096 };

dfi_watch *dfi_watch_new(const char *options, df_error *err);
void dfi_watch_free(dfi_watch *w);
/* For the owner: the run begins and ends; it comes by; a token is next (false: the engine has to look again); a frame opens or ends;
 * a kernel came back. */
void dfi_watch_begin(dfi_exec *x);
void dfi_watch_end(dfi_exec *x);
void dfi_watch_look(dfi_exec *x);
bool dfi_watch_token(dfi_exec *x);
void dfi_watch_frame(dfi_exec *x, const dfi_frame *f, bool opened);
void dfi_watch_done(dfi_exec *x, const dfi_record *r, const dfi_pnode *p);
static inline bool dfi_watch_wanted(const dfi_exec *x) { return x->watch && atomic_load_explicit(&x->watch->wanted, memory_order_relaxed); }
/* For others: takes the lock and sees to it that the run stands still: PAUSED, or OVER. *mine: it ran before, and goes on with dfi_watch_let_go. */
int32_t dfi_watch_hold(dfi_watch *w, bool *mine);
void    dfi_watch_let_go(dfi_watch *w, bool mine);
/* snapshot.c; the run stands still. */
df_snapshot *dfi_snapshot_take(dfi_watch *w, df_error *err);      /* takes the lock itself */
int32_t dfi_snapshot_history(dfi_watch *w, int32_t n, df_token_info *out);
int32_t dfi_snapshot_value(dfi_watch *w, df_output o, int32_t frame, int64_t iteration, df_value *out, df_error *err);
int32_t dfi_snapshot_waits_for(dfi_watch *w, df_node *n, int32_t frame, int64_t iteration, int32_t *state, int32_t room, int32_t *out, df_error *err);
/* The iteration and the true serial of the frame that a token of the queue belonged to. */
void    dfi_watch_place(const dfi_exec *x, const dfi_token *t, uint32_t *serial, int64_t *number);
#endif
