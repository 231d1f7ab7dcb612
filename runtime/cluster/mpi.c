/* mpi.c: ranks that mpirun or srun started on several hosts. MPI tells the host of each rank and carries what bridges
 * send; ranks on rank 0's own host meet as ever (launch.c). MPI is loaded only where there are several hosts.
 */
#include "cluster/bridge.h"
#include "cluster/driver.h"
#include "cluster/mpi/plugin.h"
#include "base/plugin.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const dfi_mpi_plugin *mpi;            /* NULL: all ranks are on one host */
static dfi_mpi_peer peer[DFI_RANKS_MOST];
static dfi_bridge *own;                      /* owned; to rank 0, where this rank is far from it */
static pid_t process;                        /* that began: a forked child ends nothing */

void dfi_mpi_end(bool all_well) {
  dfi_bridge_free(own);
  own = NULL;
  if (mpi && all_well) mpi->end();
  mpi = NULL;
}

/* MPI takes a process that ends without it for one that has failed. */
static void driver_exit(void) { if (mpi && getpid() == process) dfi_driver_exit(); }
static void worker_exit(void) { if (mpi && getpid() == process) dfi_mpi_end(true); }

int32_t dfi_mpi_begin(const dfi_launch *l, df_error *err) {
  if (l->here == l->size) return DF_OK;
  char name[64];
  snprintf(name, sizeof name, "libdflow_mpi_%s.so", l->mpi);
  void *library = dfi_plugin_open(name, true);
  const dfi_mpi_plugin *(*give)(void) = NULL;
  if (library) *(void **)&give = dlsym(library, DFI_MPI_PLUGIN);
  if (!give) {
    const char *why = dlerror();
    return dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%d of the %d ranks were started on this host and the others "
                    "elsewhere, which needs dflow's plug-in for this MPI: %s. Build dflow where `mpicc.%s` is, or "
                    "start ranks by ssh: `dflow --hosts a,b …`", l->here, l->size, why ? why : name, l->mpi);
  }
  const char *why = give()->begin(l->rank, l->size, peer);
  if (why) return dfi_fail(err, DF_UNAVAILABLE, NULL, "rank %d of %d: %s", l->rank, l->size, why);
  mpi = give();
  process = getpid();
  atexit(l->rank ? worker_exit : driver_exit);
  return DF_OK;
}

bool dfi_mpi_is_far(int32_t rank) { return mpi && peer[rank].first != peer[0].first; }

/* ---- a wire ------------------------------------------------------------------------------------------ */

typedef struct mpi_wire { dfi_wire wire; int32_t other; } mpi_wire;

static bool wire_send(dfi_wire *w, const void *bytes, int64_t n) { return mpi->send(((mpi_wire *)w)->other, bytes, n); }
static int64_t wire_receive(dfi_wire *w, void *to, int64_t room) {
  return mpi->receive(((mpi_wire *)w)->other, to, room);
}
static void wire_free(dfi_wire *w) { dfi_free(w); }

/* The end of the bridge of `rank` that is here, and the other side of its channel. */
static dfi_bridge *bridge(int32_t rank, int32_t n, bool far, void *memory, int64_t bytes, int *channel,
                          df_error *err) {
  int pair[2];
  mpi_wire *w = dfi_xmalloc(sizeof *w);
  *w = (mpi_wire){ { -1, wire_send, wire_receive, wire_free }, far ? 0 : rank };
  dfi_bridge *b = dfi_bridge_new(rank, n, far, memory, bytes, &w->wire, err);
  if (!b) return NULL;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
    dfi_fail(err, dfi_errno_code(errno), NULL, "no socket for rank %d: %s", rank, strerror(errno));
  else if (dfi_bridge_run(b, dfi_process_high(pair[0]), err)) close(pair[1]);
  else return *channel = dfi_process_high(pair[1]), b;
  dfi_bridge_free(b);
  return NULL;
}

int32_t dfi_mpi_reach(dfi_worker *w, void *memory, int64_t bytes, int32_t n, df_error *err) {
  int channel;
  if (!(w->bridge = bridge(w->rank, n, false, memory, bytes, &channel, err))) return err->code;
  w->pid = (pid_t)peer[w->rank].pid;
  w->running = w->launched = true;
  w->heard = dfi_now();
  snprintf(w->host, sizeof w->host, "%s", peer[w->rank].host);
  dfi_channel_open(&w->channel, channel);
  return DF_OK;
}

int32_t dfi_mpi_join(const dfi_launch *l, int *channel, int *memfd, df_error *err) {
  int64_t bytes;
  void *memory = dfi_process_memory(l->size, memfd, &bytes, err);
  if (!memory || !(own = bridge(l->rank, l->size, true, memory, bytes, channel, err))) return err->code;
  return DF_OK;
}
