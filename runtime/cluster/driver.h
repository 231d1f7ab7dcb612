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

typedef enum dfi_rank_state { DFI_RANK_STARTING = 0, DFI_RANK_ALIVE, DFI_RANK_HUNG, DFI_RANK_DEAD } dfi_rank_state;

/* A call that waits for its reply: on the stack of who waits. */
typedef struct dfi_pending {
  uint32_t request; bool done;
  uint8_t *answer; size_t n;       /* owned by the caller once done */
  struct dfi_pending *next;
} dfi_pending;

typedef struct dfi_worker {
  int32_t rank;
  dfi_rank_state state;
  pid_t pid; bool running;         /* running: started and not reaped */
  int pidfd;                       /* -1: the kernel has none, or it is reaped */
  dfi_channel channel;
  double heard;                    /* when it last gave a sign */
  char host[64], why[200];         /* why: what ended it, as the end of a sentence */
  dfi_pending *pending;
} dfi_worker;

typedef struct dfi_driver {
  pthread_mutex_t lock;            /* guards what follows but for what a worker's channel reads; never held in a call */
  pthread_cond_t changed;          /* a worker's state, a reply */
  int32_t n;                       /* ranks, this one too; 0: there is no cluster */
  dfi_worker *worker;              /* n; [0] is this process and has no channel */
  void *memory; int64_t bytes; int memfd;
  dfi_rank *rank;
  pthread_t watcher; bool watching; int wake;      /* wake: an eventfd that the watcher polls */
  bool ending;
  uint32_t requests;
  double timeout;                  /* of a rank that gives no sign */
  char program[4096];
  char *jobs;                      /* owned; as df_cluster_jobs was given them; NULL: none */
} dfi_driver;
extern dfi_driver dfi_the_driver;

/* A number that two processes have alike where they are the same build. */
uint64_t dfi_build_digest(void);
/* Asks a worker and waits for its reply; *answer (may be NULL) is what follows the error in it, owned. Unavailable
 * where the worker is gone or goes meanwhile. */
int32_t dfi_driver_call(int32_t rank, dfi_word word, const void *a, size_t na, const void *b, size_t nb,
                        uint8_t **answer, size_t *n, df_error *err);
/* The error of a rank that is not there: unavailable, with rank and host. */
int32_t dfi_driver_unavailable(int32_t rank, df_error *err);
bool    dfi_driver_alive(int32_t rank);
void    dfi_reply_put(dfi_packet *p, const df_error *err);     /* NULL: all is well */
int32_t dfi_reply_get(dfi_cursor *c, df_error *err);

/* process.c: starts `program --worker` with a socket and the ring's memory; what it needs of w is filled. */
int32_t dfi_process_start(dfi_worker *w, const char *program, int memfd, df_error *err);
/* What became of it, as the end of a sentence, once it has ended; false: it has not. Reaps it. */
bool    dfi_process_ended(dfi_worker *w, char *why, size_t room);
void    dfi_process_kill(dfi_worker *w);
/* The dflow program that belongs to this library: `asked`, else this process, beside the library, or in PATH. */
bool    dfi_process_program(const char *asked, char *path, size_t room);

/* mirror.c: what workers have of this process's graphs, sessions and plans; the table that sessions call. */
const dfi_cluster *dfi_mirror_table(dfi_rank *rank);
void    dfi_mirror_forget_rank(int32_t rank);        /* another process takes its place: it has nothing */
void    dfi_mirror_forget_all(void);
#endif
