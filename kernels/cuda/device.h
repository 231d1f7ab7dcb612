/* device.h: a GPU as the plug-in's own files see it: its streams, its memory, its kernels.
 *
 * Three streams: one computes, one copies in and one copies out. Memory is asked for and given back in the order of
 * the stream that computes. So a kernel needs no event to read what another kernel made. What a copying stream does
 * with a tensor is noted beside the tensor's head: `other` is the event after which that is over, and whatever
 * touches the tensor next, or gives its memory back, waits for it first (dfc_mine). One lock for each GPU; no thread
 * waits for the device while it is held.
 */
#ifndef DFLOW_CUDA_DEVICE_H
#define DFLOW_CUDA_DEVICE_H
#include "../device.h"
#include "driver.h"
#include <pthread.h>

typedef struct dfc_note { CUevent other; } dfc_note;
_Static_assert(sizeof(dfc_note) <= DFI_NOTE_BYTES, "a note has its place beside the head");

struct dfc_graph;                         /* capture.c */

enum { DFC_MODULES = 32, DFC_STAGES = 40, DFC_EVENTS = 256, DFC_FUNCTIONS = 2048 };

/* Pinned memory on its way: free again once its event has come. cut: from a slab. */
typedef struct dfc_stage { void *at; int64_t bytes, used; CUevent over; struct dfc_stage *next; bool cut; } dfc_stage;

typedef struct dfc_gpu {
  int32_t    number;
  CUdevice   device;
  CUcontext  context;                     /* the device's primary one */
  CUstream   compute, in, out;
  CUmodule   module[DFC_MODULES];
  int32_t    major, minor, processors;
  char       name[128];
  int64_t    memory_bytes, launches, copies_in, copies_out, copies_across;
  dfc_stage *idle[DFC_STAGES];            /* by size, in doublings */
  struct { dfc_stage *first, *last; } busy[3];           /* on their way: in their order in compute, in and out */
  int64_t    stages_taken, idle_bytes;    /* how often; of idle ones, but the cut. A stage's `used` is such a count */
  char      *slab; int64_t slab_left;     /* what small stages are cut from */
  CUevent    event[DFC_EVENTS];           /* idle ones */
  int32_t    nevents;
  /* by the name's address: open addressing */
  struct { const char *name; CUfunction function; } function[DFC_FUNCTIONS];
  struct cublasLtContext *blas;           /* NULL: no product was asked for yet */
  struct dfc_blas_plan *blas_plan;        /* by shape: blas.c */
  int64_t    blas_plans;                  /* how many were made */
  struct cudnnContext *dnn;               /* NULL: no convolution or layer was asked for yet */
  struct dfc_dnn_plan *dnn_plan;          /* by geometry: dnn.c */
  struct dfc_dnn_layers *dnn_layers;      /* descriptions, written anew for each call: dnn_layers.c */
  int64_t    fused;                       /* launches of kernels that were written at run time: fuse.c */
  int64_t    graphs;                      /* launches of graphs: capture.c */
  bool       conditional;                 /* its graphs have conditional nodes */
  int32_t    math;                        /* how it multiplies float32 */
  char       error[500];                  /* the first; "" */
  char       said[300];                   /* what a library says of the call under way, the device being well; "" */
  pthread_mutex_t lock;                   /* guards all above but what never changes */
  dfi_remote remote;
} dfc_gpu;

extern const dfi_gpu_host *dfc_host;

/* Is all well? Else the device's first error is kept. Under the lock. */
bool dfc_ok(dfc_gpu *g, CUresult result, const char *what);
/* Takes the lock, and makes the device's context this thread's. */
void dfc_enter(dfc_gpu *g);
static inline void dfc_leave(dfc_gpu *g) { pthread_mutex_unlock(&g->lock); }
/* What this thread is making a graph of, and the stream that it gives work to: that of the graph, or the one that
 * computes. */
extern __thread struct dfc_graph *dfc_capturing __attribute__((tls_model("initial-exec")));
CUstream dfc_captured_stream(const dfc_gpu *g);
static inline CUstream dfc_stream(const dfc_gpu *g) {
  return dfc_capturing ? dfc_captured_stream(g) : g->compute;
}
/* An event after all that `stream` has been given, NULL: error is kept; and one that is not waited for any more. */
CUevent dfc_event_after(dfc_gpu *g, CUstream stream);
void    dfc_event_give(dfc_gpu *g, CUevent e);
/* What the computing stream does next may touch the tensor of this note (NULL: nothing to wait for). Under the lock. */
bool dfc_mine(dfc_gpu *g, void *note);
/* Memory that lives until what is enqueued by then has run: in the computing stream's order. Under the lock. 0: error
 * is kept. */
CUdeviceptr dfc_alloc(dfc_gpu *g, int64_t bytes);
void        dfc_release(dfc_gpu *g, CUdeviceptr p);
/* capture.c: memory of the graph's own, 0: there is no more; it goes back, false: it is not of the graph; pinned memory
 * that it reads at each launch; something cannot be part of it, or went wrong. Under the lock, but the last. */
CUdeviceptr dfc_capture_alloc(dfc_gpu *g, int64_t bytes);
bool dfc_capture_release(dfc_gpu *g, CUdeviceptr p);
void dfc_capture_stage(dfc_gpu *g, dfc_stage *s);
bool dfc_capture_wrong(const dfc_gpu *g, const char *what, const char *why);
void *dfc_capture(void *device, void *graph);
void *dfc_captured(void *device, void *graph, int64_t *bytes, bool *changed, char *why, size_t room);
uint64_t dfc_condition(void *device, bool again);
bool  dfc_open(void *device, uint64_t condition, bool again);
bool  dfc_otherwise(void *device);
bool  dfc_close(void *device);
bool  dfc_replay(void *device, void *graph);
int32_t dfc_replays_left(void *device, void *graph);
void  dfc_graph_free(void *device, void *graph);
/* Until the event has come: the lock is let go meanwhile. False: the device failed, or whose run it is gives up. */
bool dfc_wait_for(dfc_gpu *g, CUevent e, const char *what);
/* Memory in the computing stream's order, whatever this thread captures. */
CUdeviceptr dfc_alloc_apart(dfc_gpu *g, int64_t bytes);
/* Pinned memory is idle again once `stream` has done what it was given. */
bool dfc_stage_away(dfc_gpu *g, dfc_stage *s, CUstream stream);
/* Copies from the host in the computing stream's order; `from` may change when it returns. Under the lock. */
bool dfc_upload(dfc_gpu *g, CUdeviceptr to, const void *from, int64_t bytes);
/* Copies a little to the host and waits for it; nothing that a graph holds. False: the device failed, or whose run it
 * is gives up. Under the lock, which is let go meanwhile. */
bool dfc_download(dfc_gpu *g, void *to, CUdeviceptr from, int64_t bytes);
/* Enqueues a kernel of kernels/cuda/ *.cu: `blocks` of `threads`, `args` is its one parameter. Under the lock. */
bool dfc_launch(dfc_gpu *g, const char *name, int64_t blocks, int32_t threads, const void *args);
/* The kernels for the GPUs that the build knows, an image for each file, then NULL (the Makefile makes it). None: it
 * had no nvcc. */
extern const void *const dfc_images[] __attribute__((weak));
/* That of graph_conditionals.cu, for no other GPUs than those that the build names. */
extern const void *const dfc_image_graph_conditionals __attribute__((weak));

const dfi_remote *dfc_device(int32_t number, char *error, size_t room);
int32_t dfc_count(void);
#endif
