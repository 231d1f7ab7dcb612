/* device.h: where nodes run and values lie.
 *
 * A device is a name, a memory, and the speeds of what it computes with and of the links that lead to it. There are
 * three kinds here: `cpu`, whose memory is the host's (a second one, which a session lists, has its part of it, so that
 * values are copied to it and counted as its own); `sim`, an accelerator that every machine has: it computes with
 * the CPU's kernels in an arena of its own, which is bounded, and everything that comes to it or leaves it is a copy
 * over a link; and `gpu`, whose memory the host cannot read (base/remote_memory.h) and whose kernels a plug-in has
 * (kernels/cuda/). Devices belong to a session; they are known by their place in its list, 0 being the host, where
 * feeds come from and fetched values go.
 *
 * How a graph is cut (plan/place.c, plan/cut.c). Every node of a plan has a device. An edge between two devices becomes
 * a Transfer, a Send and its Recv in one node: it takes the token on one side and puts it out on the other, once for
 * each destination however many read it there, dead tokens too. Its rendezvous key is the paper's (edge, tag): the
 * node, and the record that it fires in. Partitions that one owner turns share its tables of frames and iterations: the
 * state machine that the paper gives each partition of a loop is one record of that table, and a partition takes part
 * in an iteration by the predicate that is sent to its Switches, as there. Of several owners each has a state machine
 * of its own (plan/owners.c), and messages between them are messages (engine/owners/team.h). Nothing waits for
 * all devices: they are in different iterations, as far apart as parallel_iterations allows.
 *
 * Time. With the real clock a message takes as long as its link and the ports of both devices say, which serve one
 * after the other, and kernels as long as they take. The virtual
 * clock (engine/clock/timed.c) is a discrete-event one: tokens run in the order of the time at which they are
 * ready, each device computes one kernel after the other and each direction of a link carries one message after the
 * other, and how long that takes is dfi_device_seconds and dfi_link_seconds, functions of shapes alone. So its times
 * are the same wherever, however often and by however many threads the run is made.
 *
 * Memory. Kernels of a device with an arena run with the arena as their thread's own, so whatever tensors they make lie
 * there. What does not fit is an error that names the largest holders (engine/memory/holders.c).
 */
#ifndef DFLOW_DEVICE_H
#define DFLOW_DEVICE_H
#include "base/remote_memory.h"
#include "device/work.h"

typedef enum dfi_device_kind { DFI_DEVICE_CPU = 0, DFI_DEVICE_SIM, DFI_DEVICE_GPU } dfi_device_kind;

/* What a device of speed 1 can do: flops a second, bytes a second through its memory, seconds that a kernel takes to
 * begin with. */
typedef struct dfi_rates { double flops, bytes, begin; } dfi_rates;
extern const dfi_rates dfi_model_rates;    /* cost.c: the built-in model */

typedef struct dfi_device {
  char       name[24];             /* 'sim:1'; on another rank than 0 '/rank:2/sim:1' */
  int32_t    kind, number, rank;
  int64_t    memory;               /* as it was asked for; 0: it was not */
  double     bandwidth;            /* of its links to and from others, bytes a second; 0: no limit */
  double     latency;              /* of a message, seconds */
  double     speed;                /* 1: as its rates have it */
  double     launch;               /* seconds that a kernel takes to begin, at any speed; 0: as its rates have it */
  dfi_rates  rates;                /* the model's, or what was measured on this machine */
  bool       measured;             /* speed = 'measured': its costs are */
  dfi_devmem_stats far;            /* of another rank: as at its last end of a run; guarded by the list's lock */
  dfi_devmem *arena;                /* NULL: the host's memory; and that of other ranks */
  const dfi_remote *remote;         /* a GPU: the host cannot read its memory; NULL: it can */
  /* What goes wrong in each run, for tests of failures; 0: never. */
  int64_t    fails_at;             /* its n-th kernel finds it dead */
  int64_t    link_fails_at, link_stalls_at;  /* the n-th message over one of its links is lost; is held up for ever */
} dfi_device;

/* What becomes of values that a gradient needs, in loops that say nothing. */
typedef enum dfi_save { DFI_SAVE_KEEP = 0, DFI_SAVE_SWAP, DFI_SAVE_RECOMPUTE, DFI_SAVE_AUTO } dfi_save;

enum { DFI_DEVICES_MOST = 1024 };
/* What nodes of the graph took in runs that were measured, in seconds on a device of speed 1, by node; 0: not known. */
typedef struct dfi_costs { double *seconds; int32_t n, runs; } dfi_costs;

typedef struct dfi_devices {
  int32_t     n;                   /* at[0] is the host, always */
  dfi_device *at[DFI_DEVICES_MOST];    /* owned; they never move */
  bool        listed;              /* there are no others than these; else a sim is made when a graph names it */
  bool        soft;                /* what cannot run where it was asked to runs elsewhere */
  bool        virtual_clock;
  bool        owner_windows;           /* by that clock each owner has a window of iterations of its own: windows.h */
  int32_t     fallback;            /* where goes what asked for nothing */
  bool        fallback_asked;      /* DFLOW_DEFAULT_DEVICE says so */
  uint8_t     save;                /* dfi_save */
  bool        faulty;              /* some device or link is to fail */
  bool        late;                /* DFLOW_STRESS=late: copies as late and in as odd an order as may be */
  bool        swap_always;         /* DFLOW_STRESS=swap: at every write */
  int64_t     host_memory;         /* bytes, a limit for the runs on it; 0: it has none of its own */
  int32_t     owners;              /* of each rank */
  int32_t     rank, nranks;        /* this process's, and how many there are; 0 and 1: it is alone */
  /* Opens GPU `number` (-1: none) of another rank, and says how many it has; -1: it cannot, and err says why. NULL: a
     GPU that is named on another rank is there. */
  int32_t   (*far_gpus)(int32_t rank, int32_t number, df_error *err);
  bool        simulated;           /* this process turns what is on other ranks' devices, too: by the virtual clock */
  bool        spread;              /* DFLOW_STRESS=ranks: simulated devices are spread over the ranks, by their names */
  dfi_costs   costs;               /* guarded by the session's lock */
  uint64_t    scatter;             /* DFLOW_STRESS=devices: seed; 0: off */
  pthread_mutex_t lock;            /* guards n and at[] while a device is added, and what others' devices have in use */
} dfi_devices;

/* cpu:0 alone; and what the list owns. */
void dfi_devices_init(dfi_devices *d);
void dfi_devices_free(dfi_devices *d);
/* What a device string says; numbers are -1 where it does not. */
typedef struct dfi_device_name { int32_t kind, number, rank, task; char job[32]; } dfi_device_name;
/* Takes one apart: 'sim:1', 'cpu', '/device:SIM:1', '/rank:2/cpu:0', '/job:worker/task:0/device:GPU:1'. False: it is
 * none. Case does not count. */
bool dfi_device_parse(const char *spec, dfi_device_name *out);
/* Which ranks are the tasks of a job: `ps=3;worker=0,1,2`; without it, task k of any job is rank k. False: it is not
 * understood. Of the process; any thread. */
bool dfi_jobs_set(const char *text);
/* Another number after each change: plans made before it may have nodes on other ranks. */
uint32_t dfi_jobs_version(void);
/* As it was set; owned. */
char *dfi_jobs_text(void);
/* The devices are those of n ranks, of which this process is one: each has at least its cpu:0. They come behind those
 * that are there. */
void dfi_devices_of_ranks(dfi_devices *d, int32_t rank, int32_t n);
/* From now on this process has the devices of all ranks, and turns what is on them. */
void dfi_devices_simulate(dfi_devices *d);
/* Does this process have the devices of a rank? */
static inline bool dfi_devices_here(const dfi_devices *d, int32_t rank) { return rank == d->rank || d->simulated; }
/* The place of a device; -1: there is none. */
int32_t dfi_device_find(dfi_devices *d, int32_t rank, int32_t kind, int32_t number);
/* The same for a string. A sim that is not listed is made where the list is open. -1: err says what there is. An
   empty string: -2. */
int32_t dfi_device_of(dfi_devices *d, const char *spec, const char *where, df_error *err);
/* Adds a device, or changes what it can do. `text`: name,memory=N,bandwidth=N,latency=S,speed=X,launch=S in bytes
   and seconds. */
int32_t dfi_device_add(dfi_devices *d, const char *text, df_error *err);
/* gpu.c: GPU `number`, opened when it is first asked for. NULL: err's message says why there is none and what to do. */
const dfi_remote *dfi_gpu_open(int32_t number, df_error *err);
/* GPUs that can be opened; 0 where there is no sign of a driver, which is not opened to find out. */
int32_t dfi_gpu_count(void);
/* What a GPU that was opened tells of itself. */
void dfi_gpu_look(const dfi_remote *r, dfi_gpu_about *out);
/* The kernel of an op (its entry's type); NULL: there is none. A GPU has been opened. */
const dfi_gpu_kernel *dfi_gpu_kernel_of(const char *op);
/* What the code of a GPU calls an elementwise op with these dtypes, where a fused kernel can have it; NULL: none.
   *attr: the attribute that is its last operand; -1: none. */
const char *dfi_gpu_fuses(const char *op, int32_t nin, const uint8_t *in, int32_t out, int32_t *attr);
/* The same of an op on numbers that the host computes, where the GPU's numbers are the host's; *care: what is looked at
   first. */
const char *dfi_gpu_counts(const char *op, int32_t nin, const uint8_t *in, int32_t out, dfk_persistent_care *care);
/* Adds every GPU to a list that is open, those of all ranks. */
void dfi_devices_add_gpus(dfi_devices *d);
/* 'sim:1' as a static text of the kind. */
const char *dfi_device_kind_name(int32_t kind);
/* cost.c: seconds that a kernel takes on the device, and that a message takes from one to the other: the line is busy
   for *busy of it. */
double dfi_device_seconds(const dfi_device *d, double flops, double bytes);
double dfi_link_seconds(const dfi_device *from, const dfi_device *to, int64_t bytes, double *busy);
#endif
