/* driver.h: the driver's side: worker processes, what they are asked, and what they have of its graphs. */
#ifndef DFLOW_DRIVER_H
#define DFLOW_DRIVER_H
#include "cluster/channel.h"
#include "cluster/form.h"
#include "session/session.h"
#include "session/cluster.h"
#include <sys/types.h>

#define DFI_PROTOCOL "dflow-ranks-1"
enum { DFI_FD_SOCKET = 3, DFI_FD_MEMORY = 4 };     /* what a worker is started with */
#define DFI_HEART_SECONDS 0.1

/* A call that waits for its reply: on the stack of the thread that waits. */
typedef struct dfi_pending {
  uint32_t request; bool done;
  uint8_t *answer; size_t n;       /* owned by the caller once done */
  struct dfi_pending *next;
} dfi_pending;

/* How mpirun or srun started this process. */
typedef struct dfi_launch {
  int32_t rank, size, here;        /* here: ranks on this host */
  const char *mpi;                 /* whose launcher it is: the end of the name of a plug-in */
  char job[160];
} dfi_launch;

typedef struct dfi_worker {
  int32_t rank;
  df_rank_state state;
  pid_t pid; bool running;         /* running: started and not reaped */
  bool launched;                   /* by another process, which reaps it */
  bool said_end;                   /* its program has ended, or is about to, with `status`; guarded by lock */
  int32_t status;
  atomic_int pidfd;                /* -1: the kernel has none, or it is reaped */
  dfi_channel channel;
  double heard;                    /* when it last gave a sign; the watcher's while it is there */
  dfi_rank_wait waits;             /* what it waited for then; seen 0: nothing. Guarded by lock */
  _Atomic int64_t echoed;          /* when its last echo came by the ring, in ns */
  bool telling;                    /* the others are being told that it has failed */
  char host[64], why[200];         /* why: what ended it, as the end of a sentence */
  dfi_pending *pending;
  struct dfi_arrival *arrived;     /* what its program asks for next (spmd.c); owned */
  struct dfi_bridge *bridge;       /* owned; of one on another host; NULL: it is on this one */
  int far_stdin;                   /* owned; of one that hosts.c started there */
} dfi_worker;

typedef struct dfi_driver {
  pthread_mutex_t lock;            /* guards what follows but for what a worker's channel reads; never held in a call */
  pthread_cond_t changed;          /* a worker's state, a reply */
  int32_t n;                       /* ranks, this one too; 0: there is no cluster */
  dfi_worker *worker;              /* n; [0] is this process and has no channel */
  void *memory; int64_t bytes; int memfd;
  dfi_rank *rank;
  pthread_t watcher; int wake;     /* wake: an eventfd that the watcher polls */
  atomic_bool watching, ending;
  int64_t rounds;                  /* that the watcher has begun: what was dead before one it lets alone */
  uint32_t requests;
  _Atomic double timeout;          /* seconds after which a rank that gives no sign is hung */
  _Atomic double asked;            /* the same by the session that last asked for ranks; 0: it leaves it to timeout */
  bool launched;                   /* mpirun or srun started the ranks, and ends them all when one is lost */
  bool spmd;                       /* the others run the program, too */
  int32_t failed;                  /* exit status of the first of those that ended with another one than 0 */
  char program[4096];
  char *hosts;                     /* owned; of ranks 1, 2, …, by commas; NULL: all are on this host */
} dfi_driver;
extern dfi_driver dfi_the_driver;

/* A probe of a link: it goes by the ring, comes back as it went, and has the time at which it was sent. */
typedef struct dfi_probe { uint64_t kind; double sent; } dfi_probe;
enum { DFI_PROBE = 2 };

/* A number that two processes have alike where they are the same build. */
uint64_t dfi_build_digest(void);
/* Asks a worker and waits for its reply; *answer (may be NULL) is what follows the error in it, owned. Unavailable
 * where the worker is gone or goes meanwhile. */
int32_t dfi_driver_call(int32_t rank, dfi_word word, const void *a, size_t na, const void *b, size_t nb,
                        uint8_t **answer, size_t *n, df_error *err);
/* The error of a rank that is not there: unavailable, with rank and host. */
int32_t dfi_driver_unavailable(int32_t rank, df_error *err);
bool    dfi_driver_alive(int32_t rank);
/* What the rank's process is from now on: others may look at it meanwhile. */
void    dfi_driver_names(dfi_worker *w, pid_t pid, const char *host);
/* Runs of this session go by its own patience with silent ranks. */
void    dfi_driver_patience(const df_session *s);
double  dfi_driver_timeout(void);
void    dfi_reply_put(dfi_packet *p, const df_error *err);     /* NULL: all is well */
int32_t dfi_reply_get(dfi_cursor *c, df_error *err);

/* spmd_driver.c: what a worker's program says (the watcher's thread), and the table that sessions call. */
void    dfi_spmd_said(dfi_worker *w, const dfi_header *h, const uint8_t *payload);
void    dfi_spmd_drop(dfi_worker *w);                /* it says nothing more */
const dfi_spmd *dfi_spmd_driver(void);
void    dfi_spmd_last_words(char *text, size_t room);   /* what a run gets that comes when rank 0's program has ended */
void    dfi_program_closed(const df_session *s);     /* spmd.c */

/* worker.c: this process as a worker that a launcher started: returns when the program is to run here, too. How many
 * ranks there are, and that this one's program ends. */
int32_t dfi_worker_join(const dfi_launch *l, df_error *err);
int32_t dfi_worker_ranks(void);
void    dfi_worker_end(int32_t status);

/* launch.c: how mpirun or srun started this process. */
bool    dfi_launched(dfi_launch *l);
/* The ranks of one host find each other by a socket that is theirs alone. Rank 0: the channel and pid of each worker
 * that is not `running` yet. Another one: its channel's descriptor and that of the memory. */
int32_t dfi_launch_accept(const dfi_launch *l, dfi_worker *workers, int memfd, df_error *err);
int32_t dfi_launch_connect(const dfi_launch *l, int *channel, int *memfd, df_error *err);

/* process.c: starts `program --worker` with a socket and the ring's memory; what it needs of w is filled. */
int32_t dfi_process_start(dfi_worker *w, const char *program, int memfd, df_error *err);
/* What became of it, as the end of a sentence, once it has ended; false: it has not. Reaps it. */
bool    dfi_process_ended(dfi_worker *w, char *why, size_t room);
void    dfi_process_kill(dfi_worker *w);
/* A launcher's has ended: how, where that can be found out, which takes some milliseconds. */
bool    dfi_process_learn(dfi_worker *w, char *why, size_t room);
void    dfi_process_forget(dfi_worker *w);          /* it is reaped, or its launcher's to reap */
int     dfi_process_fd(pid_t pid);                  /* a pidfd; -1: the kernel has none */
int     dfi_process_high(int fd);                   /* the same descriptor with a number from 10 on; fd is closed */
/* The dflow program that belongs to this library: `asked`, else this process, beside the library, or in PATH. */
bool    dfi_process_program(const char *asked, char *path, size_t room);

/* Memory for n ranks to share, laid out as a ring: *memfd (from 10 on) and its size; NULL: there is none. */
void   *dfi_process_memory(int32_t n, int *memfd, int64_t *bytes, df_error *err);

/* hosts.c: starts a worker on another host; stop ends the bridge to one that is on another host. */
int32_t dfi_hosts_start(dfi_worker *w, const char *host, const char *program, void *memory, int64_t bytes, int32_t n,
                        df_error *err);
void    dfi_hosts_stop(dfi_worker *w);

/* mpi.c: a launcher's ranks on several hosts. All ranks begin, before anything else, and end; `all_well`: no rank was
 * lost, or MPI's own end would wait for it. */
int32_t dfi_mpi_begin(const dfi_launch *l, df_error *err);
void    dfi_mpi_end(bool all_well);
void    dfi_driver_exit(void);                       /* driver.c: rank 0's process ends; runs may still go on */
bool    dfi_mpi_is_far(int32_t rank);                /* from rank 0: it is on another host */
int32_t dfi_mpi_reach(dfi_worker *w, void *memory, int64_t bytes, int32_t n, df_error *err);    /* rank 0's end */
int32_t dfi_mpi_join(const dfi_launch *l, int *channel, int *memfd, df_error *err);             /* the far end */

/* mirror.c: what workers have of this process's graphs, sessions and plans; the table that sessions call. */
const dfi_cluster *dfi_mirror_table(dfi_rank *rank);
void    dfi_mirror_forget_rank(int32_t rank);        /* another process takes its place: it has nothing */
void    dfi_mirror_forget_all(void);
#endif
