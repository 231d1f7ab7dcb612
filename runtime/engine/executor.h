/* executor.h: the state of one run, as the token engine keeps it.
 *
 * A token is (value, dead, tag). The tag is a record: one iteration of one frame, which knows its number, its
 * frame, and through the frame the iteration of the parent that it came from. The value lies in a slot of
 * the record. One thread, the run's owner, does all that is here: it takes ready tokens from a queue, runs
 * their nodes and counts the tokens sent on. So nothing here is atomic or locked but the inbox, where
 * workers leave the kernels they finished. Where several owners turn a run each has a dfi_exec: team.h.
 */
#ifndef DFLOW_EXECUTOR_H
#define DFLOW_EXECUTOR_H
#include "plan/plan.h"

enum { DFI_CALLS_AT_MOST = 20000 };      /* as deep as calls of functions may go */

typedef struct dfi_frame  dfi_frame;
typedef struct dfi_record dfi_record;
typedef struct dfi_exec   dfi_exec;

/* One iteration of one frame: one block of memory, begun with a copy of the scope's counts; its frame uses it again. */
struct dfi_record {
  df_value   *base[4];       /* by operand space: slots, the frame's constants, the plan's constants, what was given */
  dfi_pnode  *nodes;         /* of its scope */
  uint32_t   *counts;        /* as the template says; in this block */
  dfi_frame  *frame;
  int64_t     number;        /* 0 for what came through Enter */
  uint32_t    stamp;         /* the low bits of number and of its frame's serial: see dfi_token */
  int32_t     seen;          /* a snapshot's own */
  int32_t     outstanding;   /* tokens ready or running, and child frames open */
  int32_t     held;          /* slots that hold a tensor or a handle */
  double     *when;  /* by node: when the last of its tokens came, by the virtual clock; NULL: the real one runs */
  double      ends;          /* when the last of its nodes ended, by that clock */
  uint32_t   *sources, place;/* of a run that is recorded: record.c; NULL, 0 */
  struct dfi_share *shares;  /* by owner that would have a part of it, by that clock: windows.h; NULL: one has it all */
  dfi_frame **children;      /* in this block; NULL where none is open */
  dfi_record *next_free;
};

typedef struct dfi_deferred { dfi_pnode *node; df_value value; uint32_t event; /* record.c */ } dfi_deferred;

/* A small tensor of a variable that a loop reads again and again: the run holds it, and slots have it without a
 * reference of their own (`flags` of such a value is 1 + the borrowed read's number). So a read counts nothing that
 * other threads see. The tensor is not written meanwhile: it has two references, never thought exclusive.
 * borrowed_read.h. */
typedef struct dfi_borrowed_read {
  df_tensor *tensor;         /* NULL: none */
  uint32_t   lent;           /* slots that have it */
  uint32_t   rest;           /* reads to come before another one is taken: values that change are not worth it */
} dfi_borrowed_read;
enum { DFI_BORROWED_READS = 16, DFI_BORROWED_READ_BYTES = 4096, DFI_BORROWED_READ_REST = 64 };

/* A frame that runs one segment of a loop a second time: memory/remat.h. */
typedef struct dfi_second {
  struct dfi_remat *of;      /* retained */
  uint32_t   child;          /* its place in the top level's record */
  int64_t    segment, end;   /* iterations before `end` */
  bool       is_outdated;    /* values were let go since it began, maybe of iterations that it had run already */
} dfi_second;

/* One running instance of a loop (or the top level). */
struct dfi_frame {
  const dfi_scope *scope;
  dfi_borrowed_read    *borrowed; /* its run's */
  uint32_t     serial;       /* how many frames the run had opened before it; the top level is 0 */
  uint32_t     logged_as;    /* where several owners log the run: its number there, the same for all of them */
  dfi_frame   *parent;
  dfi_record  *origin;       /* the iteration of the parent that opened it, and that its Exits return to */
  dfi_record **ring;         /* records of the open iterations, at number & (capacity - 1) */
  dfi_record  *spare;        /* owned; those of iterations that are over, which new ones take */
  int64_t      capacity;
  int64_t      begun;        /* the iteration that it began with: 0 but in a second run of a loop's segment */
  int64_t      first, next;  /* open iterations are first … next - 1 */
  int64_t      window;       /* how many may be open: the scope's parallel_iterations, or fewer */
  int64_t      widened_at;   /* the last iteration with which swap.c widened the window; -1: none */
  int64_t      ended_told;   /* the iteration whose end the owners now tell each other, where they do; -1: none */
  uint32_t     round;        /* the next round of these messages */
  bool         tokens_only;  /* another engine could not run it */
  df_value    *constants;    /* nconsts, then ninvariants, which are EMPTY until one is computed */
  uint8_t     *enter_dead;   /* nenters: the Enter brought a dead token */
  uint8_t     *exit_fired;   /* nexits */
  uint32_t     nexits;       /* of the loop, of all owners */
  int32_t      enters_missing;
  bool         some_dead;    /* some Enter was dead */
  bool         left;         /* an Exit has fired: no iteration will open, and the last one's body is dead */
  uint8_t      counts;       /* 1: its iterations are this owner's to count; 0: another one's */
  bool         prepares;     /* a new iteration is more than its counts: some_dead, groups, the virtual clock */
  bool         returned;     /* of a call: its results are in the caller's slots */
  int32_t      depth;        /* frames around it; where it is a call, DFI_CALLS_AT_MOST at most */
  dfi_pnode   *call;         /* the FunctionCall that opened it; NULL: it is a loop's */
  double       ends;         /* by the virtual clock: when its iterations that are done had ended */
  uint32_t     ended_by;     /* of a run that is recorded: the event with which the last of them had */
  double      *gate; int64_t ngates;     /* owned; of the last `window` of them, each */
  struct dfi_window *windows;            /* owned; as record.shares */
  dfi_deferred *deferred;    /* NextIterations that wait for the window of parallel iterations to move */
  int32_t      ndeferred, deferred_capacity;
  struct dfi_remat  *remat;    /* what it takes to run its iterations a second time; NULL: they are not. remat.h */
  dfi_second *second;          /* owned; it is such a second time; NULL: it is not */
  dfi_frame   *next_free;
};

/* A ready token. `mark` is DFI_DEAD or not, and below it the stamp of its iteration: 20 bits of the number, 11 of the
 * frame's serial. The queue is a ring that forgets late, so what lies before its head is what ran last; the record may
 * stand for another iteration by then, and the stamp still says which one it was. That history costs nothing. */
typedef struct dfi_token { dfi_record *record; uint32_t node; uint32_t mark; } dfi_token;
enum {
  DFI_STAMP_SERIAL_BITS = 11,
  DFI_STAMP_NUMBER_BITS = 20,
  DFI_HISTORY = 1024 /* tokens kept at least, with those to come */
};
static inline uint32_t dfi_stamp(uint32_t serial, int64_t number) {
  return (serial & ((1u << DFI_STAMP_SERIAL_BITS) - 1)) | ((uint32_t)number & ((1u << DFI_STAMP_NUMBER_BITS) - 1))
                                                              << DFI_STAMP_SERIAL_BITS;
}

/* A frame that was opened, for as long as the history may mention it. */
typedef struct dfi_frame_history {
  uint32_t serial, scope, parent, logged_as;
  int64_t number, next; /* of the parent's iteration; iterations it had in the end */
} dfi_frame_history;

/* A value that a node has made, kept for inspectors: the token, and the value with the number of the output in its
   `uses`. Read while the run is paused. */
typedef struct dfi_kept_value { dfi_token token; df_value value; } dfi_kept_value;
enum { DFI_KEPT_VALUES = 1024 };
enum { DFI_HELD_FOR = 16 };    /* values that the oldest iteration may need to have room for: dfi_held_back */
typedef enum dfi_watched { DFI_UNWATCHED, DFI_RECORDED, DFI_EVERY_TOKEN /* is looked at before it runs */ } dfi_watched;

/* A kernel call; on the owner's stack, or on the heap while a worker runs it. */
typedef struct dfi_call {
  df_kernel   kernel;
  dfi_exec   *exec;
  dfi_record *record;
  dfi_pnode  *node;
  int64_t     size;          /* elements of its inputs */
  int32_t     status;
  bool        heap, message; /* message: a dfi_flight, which a stream copies */
  df_error    error;             /* of a call that is not the owner's own */
  struct dfi_call *next;         /* in the inbox */
  df_tensor  *place;             /* nout: where results may go that are like these; NULL: there is none */
  df_value   *read;              /* nin: what references among the inputs referred to; NULL where there are none */
  /* a call that waits: see dfk_on_stop */
  dfk_stop_fn stop;
  dfk_what_fn what;
  void       *user;
  struct dfi_call *away_next, **away_link;   /* in x->away */
} dfi_call;

/* A message between two owners: its key (the edge, which is the Transfer's place among the plan's nodes, and the
 * numbers of the iterations around it), and the token. Or the Recv that waits for one. */
typedef struct dfi_team_message {
  struct dfi_team_message *next;
  struct dfi_flight *recv;   /* it is a Recv's; NULL: a message */
  uint32_t   edge;
  uint16_t   owner;          /* of one from another rank: its receiver */
  bool       crossing;       /* the same: it is no Transfer's but the value of crossing `edge` */
  uint8_t    from;           /* the same: which one */
  uint64_t   hash;
  int32_t    depth;
  uint32_t   dead;
  int64_t    number[DFI_TAG_DEPTH];  /* innermost first */
  double     due;
  double     came;           /* of a run that is recorded: when it has come, by the virtual clock */
  uint32_t   event;          /* and what sent it: record.c */
  df_value   value;          /* owned */
} dfi_team_message;

/* A message on its way from device to device. The run's list goes by the time of arrival. */
typedef struct dfi_flight {
  dfi_call   call;
  double     due;            /* INFINITY: never */
  uint32_t   dead;
  df_value   value;          /* owned; as it lies where it comes from. EMPTY: it has none, or it has been copied */
  double     came;           /* of a message: as there; the event that sent it, and its Recv's */
  uint32_t   event, recv;
  struct dfi_flight *next;
  dfi_team_message at;       /* of a Recv that waits */
  double     since;          /* and, in a run over ranks, since when */
} dfi_flight;

/* Where watch.c is in the run: the token that ran last, and the next one. */
typedef struct dfi_watch_cursor {
  bool      pass;            /* the next token was stopped at already */
  bool      has_last;
  int32_t   hit;             /* a nan or inf breakpoint that the last token met; 0: none */
  int32_t   stopped;         /* of a run over ranks: the same, that it stopped for last */
  dfi_token last;
} dfi_watch_cursor;

/* What the engine counts. The queue counts the tokens itself: `taken` is brought up to its head now and then, so a
   token costs nothing. */
typedef struct dfi_counters {
  int64_t taken;             /* tokens whose turn came, up to where head was `counted` */
  int64_t died;              /* of these, dead ones: their node did not run */
  int64_t merged;            /* values delivered for a loop's Merge, which has no node of its own */
  int64_t ended;             /* Exits and calls that a frame's end found dead: they were in no queue */
  int64_t frames, iterations, pushes, pops;
} dfi_counters;

/* Loops that a GPU ran: graphs that were captured; entered as they were; launched, for so many iterations; loops that
   are one kernel: launched, for so many. */
typedef struct dfi_gpu_loops {
  int64_t captures, entries, launches, iterations, persistent_launches, persistent_iterations;
} dfi_gpu_loops;

#ifdef DFLOW_DEBUG
/* The other side of these counts, kept by audit.c from what iterations and frames are when they end. */
typedef struct dfi_books {
  dfi_counters over;             /* of what is over; `taken`, pushes and pops are not kept */
  dfi_counters before;           /* another engine turned a loop, whose iterations went to `next` - 1 */
  int64_t next;
  const dfi_record *idle;        /* an iteration that ends without having had tokens; NULL: none */
} dfi_books;
#endif

/* What the runs of one session share; the session's. */
typedef struct dfi_shared {
  atomic_int in_progress, stuck;  /* runs begun and not over, and those of them that cannot move: see dfi_calls_stuck */
  atomic_int far;                 /* of those in progress, runs over ranks: they are none of the stuck (stall.c) */
  _Atomic uint64_t question;      /* are these stuck? Its number << 16, and how many have found that they are */
  _Atomic uint64_t moves;         /* how often one of the others began or ceased to be stuck */
  struct dfi_resources *resources; /* queues */
} dfi_shared;

/* What a run is told before it begins: the same for all its owners. */
typedef struct dfi_setup {
  struct df_session *session;    /* for variables alone */
  dfi_shared  *shared;
  dfi_pool    *pool;
  uint8_t      engine;           /* dfi_engine: which one the session wants */
  bool         foreground;       /* no other run can start before this one ends */
  int64_t      run_number;
  int64_t      draw_number;      /* under which random ops draw: session/draws.c */
  _Atomic uint8_t *drew;         /* plan->nrandom: which of them fired; NULL: it does not matter */
  uint64_t     rank_run;         /* the run's number among the ranks; 0: it is on this one alone */
  struct dfi_fault *faults;      /* by device: fault.c; NULL: nothing is to fail; the first owner's */
  /* to stop */
  atomic_int  *cancel;           /* the handle's flag; may be NULL */
  atomic_int  *closing;          /* the session's flag */
  /* dfi_interrupts, or dfi_calls_interrupted for a run that is its caller's call */
  const _Atomic int64_t *interrupter;
  int64_t      interrupts;       /* what it was when the run began */
  double       deadline;         /* seconds of the monotonic clock; 0: none */
} dfi_setup;

struct dfi_exec {
  dfi_plan    *plan;
  dfi_setup    setup;
  const dfi_scope *scope;        /* the plan's, or an owner's */
  const dfi_edge *edge;          /* the plan's */
  df_value    *given;            /* feeds, then variables' handles */
  dfi_frame   *root;
  dfi_token   *queue;            /* a ring; capacity is a power of two */
  uint32_t     queue_mask, head, tail;
  uint32_t     queue_most;       /* with so many tokens in it there is room for what any node sends */
  dfi_frame  **free_frames;      /* by scope; each with the records it had */
  uint32_t     begun, counted;   /* head when the run began, and when it was last added to count.taken */
  /* by serial, 1 << DFI_STAMP_SERIAL_BITS of them; NULL for a run that has no inspector */
  dfi_frame_history    *history;
  struct dfi_watch *watch;       /* where others pause the run and look at it; may be NULL */
  uint8_t      watched;          /* dfi_watched: what watch.c wants of the engine */
  dfi_watch_cursor cursor;
  bool         logs;             /* tokens are logged: those from `logged` to head lie in the queue and are not yet */
  uint32_t     logged;
  int64_t      flushed;          /* ns since the run began, when its part of the log was up to date */
  dfi_kept_value *kept;          /* a ring of what nodes made; NULL: not wanted */
  uint32_t     nkept, kept_tensors; /* how many were put into it; of those that are there, tensors */
  uint64_t     osr;              /* DFLOW_STRESS=osr: engines change at random; state of the generator; 0: off */
  struct dfi_replay *replay;     /* effects of iterations that tokens do over: engine/native/native.h */
  uint64_t     question, moves;  /* the question that it has asked, 0: none; and shared->moves then */
  bool         finished, failed, lost;          /* lost: finished without calls that have lost a race (lost.h) */
  df_error    *error;            /* the caller's */
  dfi_counters count;
#ifdef DFLOW_DEBUG
  dfi_books    books;
#endif
  df_stats    *live;             /* where others may read the counters while the run goes on; may be NULL */
  df_stats     told;             /* of an owner among several: what of them it has added there */
  int32_t      patience;         /* tokens until the next look at the above */
  /* the iteration, node and device that this thread would wait for, should a device take long: see dfi_waits */
  struct { const dfi_record *record; const dfi_pnode *node; const dfi_device *device; } wait;
  uint64_t     shuffle;          /* DFLOW_STRESS=shuffle: state of the generator; 0: off */
  uint32_t     drawn;            /* 1 + where the head was when it was drawn last */
  /* workers */
  _Atomic int32_t at;            /* the node whose kernel was called last; -1: none yet. Others may read it */
  int32_t      running;          /* calls that are not done: workers have them, or they wait */
  int32_t      waiting;          /* of these, calls that wait for something outside the run */
  dfi_call    *away;             /* the list of those that run */
  /* devices: transfer.c, timed.c */
  struct dfi_traffic *traffic;   /* by link of the plan */
  struct dfi_flows *flows;       /* owned: what this owner sends by the real clock; NULL: nothing that takes time */
  double      *port;             /* by device: when it has received what other owners have sent so far */
  int64_t      flying;           /* bytes of values on their way that have not been copied */
  int64_t      held_at; uint32_t held_tries;  /* tokens that had run when one was held back, and how often since then */
  uint64_t     late;             /* DFLOW_STRESS=late: the generator's state */
  dfi_flight  *flights;          /* messages on their way; also among those away */
  struct dfi_streams *streams;   /* stream.c; NULL: its owner computes for all devices */
  struct dfi_team *team;         /* it is turned by several owners: team.h; NULL: by one */
  struct dfi_team *worker_execs; /* owned, of the first owner: the others, from run to run */
  int32_t      place;            /* which of the plan's owners this is */
  bool         guest;            /* another owner of this process began the run */
  struct dfi_rank *rank;         /* what other owners are reached by: owners/rank.h; NULL: all are this process's */
  dfi_team_message **rendezvous; /* owned; messages that came before their Recv, Recvs that wait; by key */
  dfi_team_message  *messages;   /* that have come; guarded by inbox_lock */
  dfi_flight  *spare_flights;    /* owned */
  uint32_t     rendezvous_mask, nrendezvous;
  int64_t      nodes_run;        /* of this owner, when the run is over */
  int64_t      guest_frames;     /* that another owner counts */
  int64_t      sent, received;   /* messages; those that have met their Recv */
  bool         joint;            /* others of the team have not been added up yet */
  df_error     own_error;        /* of an owner but the first */
  /* how many tokens had run, and how often since they were no more: run.c */
  int64_t      no_progress_at; uint32_t no_progress;
  struct dfi_timed *timed;       /* the virtual clock; NULL: the real one */
  struct dfi_timed *clock;       /* owned; what timed is when it is wanted */
  double       seconds;          /* how long the run took */
  struct dfi_remat *remats;      /* the list of what its frames keep to be run a second time: remat.c */
  int64_t      remat_iterations; /* that were */
  dfi_gpu_loops gpu_loops;
  struct dfi_batch *batch;       /* owned; ready nodes that wait for others like them: batch.c; NULL: none does */
  struct dfi_swapper *swapper;   /* swap.c; NULL: nothing was moved */
  /* counted in the session's `stuck`: all calls wait and nothing is in the inbox; guarded by inbox_lock */
  bool         stuck;
  pthread_mutex_t inbox_lock;
  pthread_cond_t  inbox_bell;
  dfi_call    *inbox;            /* guarded by inbox_lock */
  int64_t      bytes, bytes_told; /* what it took from the system, about; and what of that the plan knows */
  dfi_exec    *next_idle;
  dfi_borrowed_read     borrowed[DFI_BORROWED_READS]; /* by variable */
};

/* So much patience a kernel takes that has done `steps` of work: a large one has the run look up at once. */
static inline int32_t dfi_patience_of(int64_t steps) { return 4 + (int32_t)(steps < 0xffff ? steps : 0xffff); }

/* Once for a plan, before its first run: how large the records of its scopes are. */
void      dfi_exec_lay_out(dfi_plan *p);
/* ---- what folders of the engine ask of tokens/ ---- */
/* Sends a token along edges [from, to) inside r; `dead` is 0 or DFI_DEAD. */
void dfi_exec_send(dfi_exec *x, dfi_record *r, uint32_t from, uint32_t to, uint32_t dead);
/* Opens a frame, of a loop or of a call (else NULL), whose first iteration has that number; and gives an iteration the
   tokens of nodes that wait for nothing. */
dfi_frame *dfi_frame_open_at(dfi_exec *x, const dfi_scope *s, dfi_record *origin, dfi_pnode *call, int64_t number);
void dfi_iteration_start(dfi_exec *x, dfi_record *r);
/* Several owners: does x count the frames of this loop? */
static inline bool dfi_team_counts(const dfi_exec *x, const dfi_scope *s) {
  const uint16_t counter = x->plan->parts->counter[s->id];
  return counter == x->place || counter == DFI_COUNTED_EVERYWHERE;
}
/* A Transfer between two owners: what p is to x. */
typedef enum dfi_part_in { DFI_INSIDE, DFI_SENDS, DFI_RECEIVES } dfi_part_in;
static inline dfi_part_in dfi_team_part(const dfi_exec *x, const dfi_pnode *p) {
  const dfi_link *l = &x->plan->link[p->child];
  const uint16_t *owner = x->plan->parts->owner;
  if (owner[l->from] == owner[l->to] || x->plan->parts->called[p->scope]) return DFI_INSIDE;
  return owner[l->to] == x->place ? DFI_RECEIVES : DFI_SENDS;
}
/* What follows may wait for d, for p in r. */
static inline void dfi_waits(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, const dfi_device *d) {
  x->wait.record = r; x->wait.node = p; x->wait.device = d;
}
/* What random numbers drawn in an iteration depend on, beside their op's seeds: the same in every order of events. */
uint64_t dfi_tag_of(const dfi_record *r, uint64_t run);
/* r has nothing outstanding: iterations, frames and in the end the run may be done. */
void dfi_exec_iteration_done(dfi_exec *x, dfi_record *r);
/* The run has failed here; the first error wins. r and p may be NULL. */
void dfi_exec_fail(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, int32_t code, const char *message);
/* The token that ran last, of p in r, comes again after those that are ready now. */
void dfi_exec_requeue(dfi_exec *x, dfi_record *r, const dfi_pnode *p);
/* A call goes into and out of the list of those that are away. */
void dfi_call_away(dfi_exec *x, dfi_call *c);
void dfi_call_back(dfi_exec *x, dfi_call *c);
/* Runs p's kernel. True: it is elsewhere (with a worker, or waiting) and comes back through the inbox, or waits for
   others like it (batch.h). */
bool dfi_call_run(dfi_exec *x, dfi_record *r, dfi_pnode *p);
/* The same, now: p waits for no other. */
bool dfi_call_now(dfi_exec *x, dfi_record *r, dfi_pnode *p);
/* Leaves a message in the inbox of x. Any thread. */
void dfi_team_post(dfi_exec *x, dfi_team_message *l);
/* Frees a list of messages. */
void dfi_messages_drop(dfi_team_message *l);
/* Something has come for x that it finds elsewhere: it looks up. Any thread. */
void dfi_exec_ring(dfi_exec *x);
/* Has something come? Only a look: what others do shows sooner or later. */
static inline bool dfi_inbox_filled(const dfi_exec *x) {
  return __atomic_load_n(&x->inbox, __ATOMIC_RELAXED) || __atomic_load_n(&x->messages, __ATOMIC_RELAXED);
}
/* Runs the kernel of a call, or copies the value of a message, where it is called; and leaves it in the inbox. */
void dfi_call_work(void *call);
/* One has come back through the inbox: its outputs are sent, or its error is kept. */
void dfi_call_returned(dfi_exec *x, dfi_call *c);

/* The counters as others know them: nodes run are tokens taken but the dead ones, and Merges delivered for. */
df_stats  dfi_exec_stats(const dfi_exec *x);
enum { DFI_COUNTERS = sizeof(df_stats) / sizeof(int64_t) };        /* all of df_stats are such */
df_stats  dfi_stats_published(const df_stats *live);     /* what owners have published there so far; any thread */
/* The fetched value i, retained. */
int32_t   dfi_exec_fetch(dfi_exec *x, int32_t i, df_value *out, df_error *err);
/* Fills err's op, frame and source for a node in an iteration. */
void      dfi_exec_blame(const dfi_record *r, const dfi_pnode *p, df_error *err);
/* "while/1:17", outermost first; returns the buffer. */
char     *dfi_frame_path(const dfi_record *r, char *buffer, size_t bytes);
/* Is its caller interrupted? Is it that, or cancelled, or its session closed? */
static inline bool dfi_interrupted(const dfi_exec *x) {
  return atomic_load_explicit(x->setup.interrupter, memory_order_relaxed) != x->setup.interrupts;
}
static inline bool dfi_is_set(atomic_int *flag) { return flag && atomic_load_explicit(flag, memory_order_relaxed); }
static inline bool dfi_exec_cancelled(const dfi_exec *x) {
  return dfi_is_set(x->setup.cancel) || dfi_is_set(x->setup.closing) || dfi_interrupted(x);
}
double    dfi_now(void);         /* seconds, monotonic */
#endif
