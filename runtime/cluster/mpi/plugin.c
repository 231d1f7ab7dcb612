/* plugin.c: messages by MPI, compiled once for each MPI (plugin.h). Only calls that do not block carry them: a rank
 * that is lost must not hang the others, and no MPI of today says that one is. Any thread; one is in MPI at a time.
 */
#include "plugin.h"
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UNDER_WAY = 64, RANKS_MOST = 1024 };              /* messages to one rank that it has not taken yet */
typedef struct outgoing { MPI_Request request; void *bytes; } outgoing;
static outgoing *sent[RANKS_MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *exchange_peers(int32_t rank, dfi_mpi_peer *peers) {
  MPI_Comm here;
  int first = rank;
  dfi_mpi_peer own = { .pid = getpid() };
  gethostname(own.host, sizeof own.host - 1);
  if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here))
    return "MPI does not say which ranks are on one host";
  MPI_Allreduce(&rank, &first, 1, MPI_INT, MPI_MIN, here);
  own.first = first;
  MPI_Allgather(&own, sizeof own, MPI_BYTE, peers, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
  return NULL;
}

static const char *begin(int32_t rank, int32_t size, dfi_mpi_peer *peers) {
  int level, mine, all;
  if (size > RANKS_MOST) return "there are more ranks than the plug-in knows of";
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level)) return "MPI_Init_thread failed";
  if (level < MPI_THREAD_SERIALIZED) return "this MPI cannot be called by several threads in turn";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &mine);
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  if (mine != rank || all != size) return "MPI numbers the ranks otherwise than its launcher does";
  return exchange_peers(rank, peers);
}

/* Has that message left, or is there none? */
static bool has_gone(outgoing *o) {
  int gone = 1;
  if (o->bytes && (MPI_Test(&o->request, &gone, MPI_STATUS_IGNORE) || !gone)) return false;
  free(o->bytes);
  o->bytes = NULL;
  return true;
}

/* A place for a message to that rank, once one before it has gone. */
static outgoing *free_place(int32_t to) {
  if (!sent[to]) sent[to] = calloc(UNDER_WAY, sizeof *sent[to]);
  for (int i = 0; sent[to] && i < UNDER_WAY; i++) if (has_gone(&sent[to][i])) return &sent[to][i];
  return NULL;
}

static bool send_message(int32_t to, const void *bytes, int64_t n) {
  pthread_mutex_lock(&lock);
  outgoing *o = free_place(to);
  if (o && (o->bytes = malloc((size_t)n))) {
    memcpy(o->bytes, bytes, (size_t)n);
    if (MPI_Isend(o->bytes, (int)n, MPI_BYTE, to, 0, MPI_COMM_WORLD, &o->request)) {
      free(o->bytes);
      o->bytes = NULL;
    }
  }
  const bool going = o && o->bytes;
  pthread_mutex_unlock(&lock);
  return going;
}

static int64_t receive_message(int32_t from, void *to, int64_t room) {
  MPI_Message message;
  MPI_Status status;
  int there = 0, n = 0;
  pthread_mutex_lock(&lock);
  if (!MPI_Improbe(from, 0, MPI_COMM_WORLD, &there, &message, &status) && there) {
    MPI_Get_count(&status, MPI_BYTE, &n);
    if (n > room || MPI_Mrecv(to, n, MPI_BYTE, &message, MPI_STATUS_IGNORE)) n = 0;
  }
  pthread_mutex_unlock(&lock);
  return n;
}

/* Takes and drops a message that still comes; false: there is none. */
static bool drop_message(void) {
  MPI_Message message;
  MPI_Status status;
  int there = 0, n = 0;
  if (MPI_Improbe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, &message, &status) || !there) return false;
  MPI_Get_count(&status, MPI_BYTE, &n);
  void *bytes = malloc((size_t)n + 1);
  if (bytes) MPI_Mrecv(bytes, n, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  free(bytes);
  return true;
}

/* Is a message to some rank still under way? */
static bool is_sending(void) {
  for (int to = 0; to < RANKS_MOST; to++)
    for (int i = 0; sent[to] && i < UNDER_WAY; i++) if (!has_gone(&sent[to][i])) return true;
  return false;
}

/* Tells the launcher that this process ends well. MPICH 4.0 over UCX's TCP hangs in MPI_Finalize in every second run or
 * so, also where a program does nothing else: one rank waits there for another one's progress, which waits for the
 * launcher. So its launcher is told without it (PMI 1). */
static void finalize(void) {
#ifdef MPICH
  char answer[64];
  const char *pmi = getenv("PMI_FD");
  static const char words[] = "cmd=finalize\n";
  if (pmi && write(atoi(pmi), words, sizeof words - 1) > 0 && read(atoi(pmi), answer, sizeof answer) > 0) return;
#endif
  MPI_Finalize();
}

/* MPI's own end may spin until the last rank has come to it; this sleeps before it. */
static void end(void) {
  MPI_Request all;
  int come = 0;
  pthread_mutex_lock(&lock);
  while (is_sending()) {
    drop_message();
    usleep(1000);
  }
  if (!MPI_Ibarrier(MPI_COMM_WORLD, &all))
    while (!come && !MPI_Test(&all, &come, MPI_STATUS_IGNORE) && !come) {
      drop_message();
      usleep(1000);
    }
  while (drop_message()) {}
  if (come) finalize();
  pthread_mutex_unlock(&lock);
}

const dfi_mpi_plugin *dfi_mpi_plugin_1(void) {
  static const dfi_mpi_plugin table = { begin, send_message, receive_message, end };
  return &table;
}
