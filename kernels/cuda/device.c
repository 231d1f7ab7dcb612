/* device.c: a GPU: opened once, and then streams, events, memory, copies and launches. */
#define _GNU_SOURCE
#include "blas.h"
#include "plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GPUS = 64 };
static dfc_gpu *gpus[GPUS];

/* What a fault leaves to be done. One of a kernel is told to the next call. */
static const char *advice(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS: case CUDA_ERROR_MISALIGNED_ADDRESS: case CUDA_ERROR_LAUNCH_FAILED:
      return ", of a kernel before it (with DFLOW_CUDA_DRIVER=strict the driver for tests says which); the GPU is of "
             "use again when the program starts anew";
    case CUDA_ERROR_OUT_OF_MEMORY: case CUDA_ERROR_INVALID_VALUE: case CUDA_ERROR_NOT_FOUND: return "";
    default: return "; nvidia-smi says how the GPU is, which is of use again when the program starts anew";
  }
}

bool dfc_ok(dfc_gpu *g, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return true;
  if (dfc_capturing && dfc_capture_wrong(g, what, dfc_error_text(result))) return false;
  if (!g->error[0]) snprintf(g->error, sizeof g->error, "%s: %s%s", what, dfc_error_text(result), advice(result));
  return false;
}

/* Makes the device's context this thread's. It is set only here, where it is known which one it is. */
static bool be_current(dfc_gpu *g) {
  static __thread CUcontext current;
  if (current == g->context) return true;
  if (!dfc_ok(g, dfc_cu.cuCtxSetCurrent(g->context), "cuCtxSetCurrent")) return false;
  current = g->context;
  return true;
}

void dfc_enter(dfc_gpu *g) {
  pthread_mutex_lock(&g->lock);
  be_current(g);
}

/* ---- events ------------------------------------------------------------------------------------------------- */

static CUevent event_take(dfc_gpu *g) {
  if (g->nevents) return g->event[--g->nevents];
  CUevent e = NULL;
  dfc_ok(g, dfc_cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  return e;
}

/* Its waiters have enqueued that: it may stand for something else now. */
void dfc_event_give(dfc_gpu *g, CUevent e) {
  if (e && g->nevents < DFC_EVENTS) g->event[g->nevents++] = e;
}

/* An event after all that `stream` has been given; NULL: error is kept. */
CUevent dfc_event_after(dfc_gpu *g, CUstream stream) {
  CUevent e = event_take(g);
  if (e && dfc_ok(g, dfc_cu.cuEventRecord(e, stream), "cuEventRecord")) return e;
  dfc_event_give(g, e);
  return NULL;
}

/* `stream` goes on once what `after` has been given is over. */
static bool follow(dfc_gpu *g, CUstream stream, CUstream after) {
  CUevent e = dfc_event_after(g, after);
  const bool ok = e && dfc_ok(g, dfc_cu.cuStreamWaitEvent(stream, e, 0), "cuStreamWaitEvent");
  dfc_event_give(g, e);
  return ok;
}

static bool wait_for_other(dfc_gpu *g, CUstream stream, dfc_note *n) {
  return !n || !n->other || dfc_ok(g, dfc_cu.cuStreamWaitEvent(stream, n->other, 0), "cuStreamWaitEvent");
}

bool dfc_mine(dfc_gpu *g, void *note) {
  dfc_note *n = note;
  const bool ok = wait_for_other(g, g->compute, n);    /* graphs are launched there, too: never part of a capture */
  if (n && n->other) { dfc_event_give(g, n->other); n->other = NULL; }
  return ok;
}

/* `stream`, not the one that computes, has been given work on the tensor of this note. */
static bool noted(dfc_gpu *g, CUstream stream, dfc_note *n) {
  CUevent e = dfc_event_after(g, stream);
  if (n->other) dfc_event_give(g, n->other);
  n->other = e;
  return e != NULL;
}

bool dfc_wait_for(dfc_gpu *g, CUevent e, const char *what) {
  enum { SPINS = 400, ASKS = 50, NAP_NS = 20000 };
  for (int32_t tries = 1;; tries++) {
    const CUresult result = dfc_cu.cuEventQuery(e);
    if (result != CUDA_ERROR_NOT_READY) return dfc_ok(g, result, what);
    dfc_leave(g);
    const bool ends = tries % ASKS == 0 && dfc_host->gives_up();
    if (tries > SPINS) nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    dfc_enter(g);
    if (ends) return false;
  }
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

CUdeviceptr dfc_alloc(dfc_gpu *g, int64_t bytes) {
  return dfc_stream(g) != g->compute ? dfc_capture_alloc(g, bytes) : dfc_alloc_apart(g, bytes);
}

CUdeviceptr dfc_alloc_apart(dfc_gpu *g, int64_t bytes) {
  CUdeviceptr p = 0;
  const CUresult result = dfc_cu.cuMemAllocAsync(&p, (size_t)(bytes > 0 ? bytes : 1), g->compute);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return 0;      /* no fault of the device's: the runtime says what holds it */
  return dfc_ok(g, result, "cuMemAllocAsync") ? p : 0;
}

void dfc_release(dfc_gpu *g, CUdeviceptr p) {
  if (p && !(dfc_capturing && dfc_capture_release(g, p)))
    dfc_ok(g, dfc_cu.cuMemFreeAsync(p, g->compute), "cuMemFreeAsync");
}

static void *remote_alloc(void *device, int64_t bytes, void *note) {
  dfc_gpu *g = device;
  (void)note;
  dfc_enter(g);
  const CUdeviceptr p = dfc_alloc(g, bytes);
  dfc_leave(g);
  return (void *)(uintptr_t)p;
}

static void remote_free(void *device, void *p, void *note) {
  dfc_gpu *g = device;
  dfc_enter(g);
  dfc_mine(g, note);
  dfc_release(g, (CUdeviceptr)(uintptr_t)p);
  dfc_leave(g);
}

/* ---- pinned memory, through which all copies go ---------------------------------------------------------------- */

static int32_t stage_class(int64_t bytes) {
  int32_t c = 0;
  while (((int64_t)4096 << c) < bytes) c++;
  return c;
}

static void stage_idle(dfc_gpu *g, dfc_stage *s) {
  const int32_t c = stage_class(s->bytes);
  s->used = g->stages_taken;
  s->next = g->idle[c];
  g->idle[c] = s;
  if (!s->cut) g->idle_bytes += s->bytes;
}

/* NULL: there is none of this size. */
static dfc_stage *stage_of(dfc_gpu *g, int32_t c) {
  dfc_stage *s = g->idle[c];
  if (!s) return NULL;
  g->idle[c] = s->next;
  s->next = NULL;
  if (!s->cut) g->idle_bytes -= s->bytes;
  return s;
}

/* Pinned memory is the host's, and dear: what was not asked for in the last LOOK times goes back, the largest first,
 * until no more than KEPT lies idle. */
enum { STAGES_LOOK = 256, STAGES_KEPT = 16 << 20 };

static void stages_trim(dfc_gpu *g, int64_t kept, int64_t look) {
  for (int32_t c = DFC_STAGES - 1; c >= 0; c--)
    for (dfc_stage **at = &g->idle[c], *s; (s = *at) && g->idle_bytes > kept;) {
      if (s->cut || g->stages_taken - s->used < look) { at = &s->next; continue; }
      *at = s->next;
      g->idle_bytes -= s->bytes;
      dfc_ok(g, dfc_cu.cuMemFreeHost(s->at), "cuMemFreeHost");
      free(s);
    }
}

/* Those whose copies are over: of each stream the first ones. */
static void stages_collect(dfc_gpu *g) {
  for (int32_t q = 0; q < 3; q++)
    for (dfc_stage *s; (s = g->busy[q].first);) {
      if (dfc_cu.cuEventQuery(s->over) == CUDA_ERROR_NOT_READY) break;
      if (!(g->busy[q].first = s->next)) g->busy[q].last = NULL;
      dfc_event_give(g, s->over);
      s->over = NULL;
      stage_idle(g, s);
    }
}

/* To pin memory takes the driver as long as to copy a megabyte: small stages are cut from a slab, which stays. Larger
 * ones, and those that no slab is to be had for, have memory of their own. */
static CUresult pin(dfc_gpu *g, dfc_stage *s) {
  enum { SLAB = 2 << 20, SMALL = 64 << 10 };
  s->cut = s->bytes <= SMALL;
  if (s->cut && g->slab_left < s->bytes) {
    void *slab = NULL;
    s->cut = !dfc_cu.cuMemHostAlloc(&slab, SLAB, 0);
    if (s->cut) { g->slab = slab; g->slab_left = SLAB; }
  }
  if (!s->cut) return dfc_cu.cuMemHostAlloc(&s->at, (size_t)s->bytes, 0);
  s->at = g->slab + SLAB - g->slab_left;
  g->slab_left -= s->bytes;
  return CUDA_SUCCESS;
}

/* NULL: the host has no more that can be pinned. */
static dfc_stage *stage_make(dfc_gpu *g, int64_t bytes) {
  dfc_stage *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->bytes = bytes;
  CUresult made = pin(g, s);
  if (made == CUDA_ERROR_OUT_OF_MEMORY) {
    stages_trim(g, 0, 0);
    made = pin(g, s);
  }
  if (!made) return s;
  free(s);
  if (made != CUDA_ERROR_OUT_OF_MEMORY) dfc_ok(g, made, "cuMemHostAlloc");
  return NULL;
}

static bool some_busy(const dfc_gpu *g) { return g->busy[0].first || g->busy[1].first || g->busy[2].first; }

/* Is one idle of class c or a smaller one, or any that could go so that there is room for one? */
static bool some_idle(const dfc_gpu *g, int32_t c) {
  for (; c >= 0; c--) if (g->idle[c]) return true;
  return g->idle_bytes > 0;
}

/* Waits until one that is on its way is idle. False: there is none, or the wait has been given up. */
static bool stages_come(dfc_gpu *g, int32_t c) {
  enum { NAP_NS = 20000 };
  while (some_busy(g) && !some_idle(g, c) && !g->error[0]) {
    dfc_leave(g);
    const bool ends = dfc_host->gives_up();
    nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    dfc_enter(g);
    if (ends) return false;
    stages_collect(g);
  }
  return some_idle(g, c);
}

/* Of so many bytes, or fewer where the host has no more that can be pinned. NULL: it has none. */
static dfc_stage *stage_try(dfc_gpu *g, int64_t bytes) {
  const int32_t c = stage_class(bytes);
  if (++g->stages_taken % STAGES_LOOK == 0) {
    stages_collect(g);
    stages_trim(g, STAGES_KEPT, STAGES_LOOK);
  } else if (!g->idle[c]) stages_collect(g);
  dfc_stage *s = stage_of(g, c);
  if (s) return s;
  do
    for (int32_t less = c; less >= 0; less--)
      if ((s = stage_of(g, less)) || (s = stage_make(g, (int64_t)4096 << less)) || g->error[0]) return s;
  while (stages_come(g, c));
  return NULL;
}

/* The same; NULL: error is kept. */
static dfc_stage *stage_take(dfc_gpu *g, int64_t bytes) {
  dfc_stage *s = stage_try(g, bytes);
  if (!s) dfc_ok(g, CUDA_ERROR_OUT_OF_MEMORY, "cuMemHostAlloc: the host has no memory left that can be pinned");
  return s;
}

bool dfc_stage_away(dfc_gpu *g, dfc_stage *s, CUstream stream) {
  s->over = dfc_event_after(g, stream);
  if (!s->over) { free(s); return false; }               /* the device failed: it keeps the memory */
  const int32_t q = stream == g->in ? 1 : stream == g->out ? 2 : 0;
  s->next = NULL;
  *(g->busy[q].last ? &g->busy[q].last->next : &g->busy[q].first) = s;
  g->busy[q].last = s;
  return true;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Pinned memory is taken for so much of a copy at a time: the host fills one part while another is on its way. */
enum { PART_BYTES = 16 << 20, PARTS = 4 };
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static bool copy_in(dfc_gpu *g, CUdeviceptr to, const void *from, int64_t bytes, CUstream stream) {
  const bool captured = stream != g->compute && stream == dfc_stream(g);
  g->copies_in++;
  for (int64_t n, done = 0; done < bytes; done += n) {
    dfc_stage *s = stage_take(g, least(bytes - done, PART_BYTES));
    if (!s) return false;
    n = least(bytes - done, s->bytes);
    memcpy(s->at, (const char *)from + done, (size_t)n);
    const CUdeviceptr at = to + (CUdeviceptr)done;
    const bool ok = dfc_ok(g, dfc_cu.cuMemcpyHtoDAsync(at, s->at, (size_t)n, stream), "cuMemcpyHtoDAsync");
    if (captured) dfc_capture_stage(g, s);
    else if (!dfc_stage_away(g, s, stream)) return false;
    if (!ok) return false;
  }
  return true;
}

bool dfc_upload(dfc_gpu *g, CUdeviceptr to, const void *from, int64_t bytes) {
  return copy_in(g, to, from, bytes, dfc_stream(g));
}

/* In the stream that copies in, beside what is computed; small ones where they are needed anyway. */
static bool from_host(void *device, void *to, void *to_note, const void *from, int64_t bytes) {
  enum { BESIDE_BYTES = 64 << 10 };
  dfc_gpu *g = device;
  dfc_enter(g);
  const CUdeviceptr at = (CUdeviceptr)(uintptr_t)to;
  bool ok;
  if (bytes < BESIDE_BYTES || dfc_capturing) ok = dfc_mine(g, to_note) && dfc_upload(g, at, from, bytes);
  else if ((ok = wait_for_other(g, g->in, to_note) && follow(g, g->in, g->compute))) {      /* where it was asked for */
    ok = copy_in(g, at, from, bytes, g->in);
    ok = noted(g, g->in, to_note) && ok;                 /* a part may be under way */
  }
  dfc_leave(g);
  return ok;
}

/* A part of a copy to the host, under way. */
typedef struct part { dfc_stage *stage; CUevent over; int64_t bytes; } part;

static bool part_out(dfc_gpu *g, part *p, dfc_stage *s, CUdeviceptr from, int64_t left) {
  *p = (part){ .stage = s };
  p->bytes = least(left, p->stage->bytes);
  return dfc_ok(g, dfc_cu.cuMemcpyDtoHAsync(p->stage->at, from, (size_t)p->bytes, g->out), "cuMemcpyDtoHAsync") &&
         (p->over = dfc_event_after(g, g->out));
}

/* Waits for it, where all was well so far. */
static bool part_come(dfc_gpu *g, part *p, void *to, bool ok) {
  ok = ok && dfc_wait_for(g, p->over, "cuMemcpyDtoHAsync") && !g->error[0];
  if (ok) memcpy(to, p->stage->at, (size_t)p->bytes);
  if (ok) stage_idle(g, p->stage);
  else if (p->stage) dfc_stage_away(g, p->stage, g->out);        /* it may be under way still */
  dfc_event_give(g, p->over);
  return ok;
}

bool dfc_download(dfc_gpu *g, void *to, CUdeviceptr from, int64_t bytes) {
  part p = { 0 };
  dfc_stage *s = NULL;
  g->copies_out++;
  const bool begun = follow(g, g->out, g->compute) && (s = stage_take(g, bytes)) && part_out(g, &p, s, from, bytes);
  return part_come(g, &p, to, begun);
}

static bool to_host(void *device, void *to, const void *from, void *from_note, int64_t bytes) {
  dfc_gpu *g = device;
  if (dfc_capturing && dfc_capture_wrong(g, "a copy to the host", "the host does not read what a graph computes"))
    return false;
  dfc_enter(g);
  bool ok = wait_for_other(g, g->out, from_note) && follow(g, g->out, g->compute);
  part parts[PARTS];                                     /* a ring: those of `first` on are under way */
  int64_t begun = 0, done = 0, first = 0, next = 0;
  g->copies_out++;
  while (ok && done < bytes) {
    for (dfc_stage *s; ok && next - first < PARTS && begun < bytes; next++) {
      const int64_t wanted = least(bytes - begun, PART_BYTES);
      if (!(s = next > first ? stage_try(g, wanted) : stage_take(g, wanted))) break;
      part *p = &parts[next % PARTS];
      ok = part_out(g, p, s, (CUdeviceptr)(uintptr_t)from + (CUdeviceptr)begun, bytes - begun) &&
           noted(g, g->out, from_note);
      begun += p->bytes;
    }
    if (!(ok = ok && next > first)) break;
    part *p = &parts[first++ % PARTS];
    ok = part_come(g, p, (char *)to + done, true);
    done += p->bytes;
  }
  for (; first < next; first++) part_come(g, &parts[first % PARTS], NULL, false);
  dfc_leave(g);
  return ok;
}

/* The two GPUs' locks, in the order of their numbers. */
static void enter_both(dfc_gpu *a, dfc_gpu *b) {
  pthread_mutex_lock(a->number < b->number ? &a->lock : &b->lock);
  pthread_mutex_lock(a->number < b->number ? &b->lock : &a->lock);
}

/* Whose context is which: `first` does what its streams are given, then the other one. The sender's stream that copies
 * out carries it, once the memory is the receiver's and what was there is over; a reader waits for that. */
static bool across(void *device, void *to, void *to_note, void *other, const void *from, void *from_note,
                   int64_t bytes) {
  dfc_gpu *t = device, *f = other;
  if (dfc_capturing && (dfc_capture_wrong(t, "a copy from another GPU", "it is not part of this one's graph") ||
                        dfc_capture_wrong(f, "a copy to another GPU", "it is not part of this one's graph")))
    return false;
  enter_both(t, f);
  bool ok = be_current(t) && wait_for_other(t, t->in, to_note) && follow(t, t->in, t->compute);
  CUevent there = ok ? dfc_event_after(t, t->in) : NULL;
  ok = there && be_current(f) && wait_for_other(f, f->out, from_note) && follow(f, f->out, f->compute) &&
       dfc_ok(f, dfc_cu.cuStreamWaitEvent(f->out, there, 0), "cuStreamWaitEvent") &&
       dfc_ok(f, dfc_cu.cuMemcpyPeerAsync((CUdeviceptr)(uintptr_t)to, t->context, (CUdeviceptr)(uintptr_t)from,
                                          f->context, (size_t)bytes, f->out), "cuMemcpyPeerAsync") &&
       noted(f, f->out, from_note);
  ok = ok && be_current(t) &&
       dfc_ok(t, dfc_cu.cuStreamWaitEvent(t->in, ((dfc_note *)from_note)->other, 0), "cuStreamWaitEvent") &&
       noted(t, t->in, to_note);
  dfc_event_give(t, there);
  t->copies_across += ok;
  dfc_leave(t);
  dfc_leave(f);
  return ok;
}

static bool within(void *device, void *to, void *to_note, const void *from, void *from_note, int64_t bytes) {
  dfc_gpu *g = device;
  dfc_enter(g);
  const bool ok = dfc_mine(g, to_note) && dfc_mine(g, from_note) &&
                  dfc_ok(g,
                         dfc_cu.cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                                  (size_t)bytes, dfc_stream(g)),
                         "cuMemcpyDtoDAsync");
  dfc_leave(g);
  return ok;
}

static bool await(void *device, void *note) {
  dfc_gpu *g = device;
  dfc_enter(g);
  const bool ok = dfc_mine(g, note);
  dfc_leave(g);
  return ok;
}

static bool fill(void *device, void *to, void *to_note, int32_t byte, int64_t bytes) {
  dfc_gpu *g = device;
  dfc_enter(g);
  const bool ok =
      dfc_mine(g, to_note) &&
      dfc_ok(g, dfc_cu.cuMemsetD8Async((CUdeviceptr)(uintptr_t)to, (unsigned char)byte, (size_t)bytes, dfc_stream(g)),
             "cuMemsetD8Async");
  dfc_leave(g);
  return ok;
}

static bool wait(void *device) {
  dfc_gpu *g = device;
  dfc_enter(g);
  bool ok = true;
  for (int32_t i = 0; i < 3 && ok; i++) {
    CUevent e = dfc_event_after(g, i == 0 ? g->in : i == 1 ? g->compute : g->out);
    ok = e && dfc_wait_for(g, e, "cuEventQuery");
    dfc_event_give(g, e);
  }
  stages_collect(g);
  dfc_leave(g);
  return ok;
}

static const char *error(void *device) { return ((dfc_gpu *)device)->error; }

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static CUfunction function_of(dfc_gpu *g, const char *name) {
  uint32_t h = (uint32_t)((uintptr_t)name >> 3) * 0x9e3779b1u;
  for (h >>= 16;; h++) {
    h &= DFC_FUNCTIONS - 1;
    if (g->function[h].name == name) return g->function[h].function;
    if (!g->function[h].name) break;
  }
  CUfunction f = NULL;
  char what[200];
  snprintf(what, sizeof what, "the kernel `%s`", name);
  CUresult found = CUDA_ERROR_NOT_FOUND;
  for (int32_t i = 0; i < DFC_MODULES && g->module[i] && found == CUDA_ERROR_NOT_FOUND; i++)
    found = dfc_cu.cuModuleGetFunction(&f, g->module[i], name);
  if (!dfc_ok(g, found, what)) return NULL;
  g->function[h].name = name;
  g->function[h].function = f;
  return f;
}

bool dfc_launch(dfc_gpu *g, const char *name, int64_t blocks, int32_t threads, const void *args) {
  CUfunction f = function_of(g, name);
  if (!f) return false;
  void *params[] = { (void *)args };
  const int64_t most = 1 << 30;                        /* kernels step by the size of the grid */
  g->launches++;
  return dfc_ok(g,
                dfc_cu.cuLaunchKernel(f, (unsigned)(blocks < most ? blocks : most), 1, 1, (unsigned)threads, 1, 1, 0,
                                      dfc_stream(g), params, NULL),
                name);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* DFLOW_VIRTUAL_GPUS=N: at least so many, several on one where there are fewer. */
int32_t dfc_count(void) {
  int real = 0;
  if (dfc_cu.cuDeviceGetCount(&real)) return 0;
  const char *more = getenv("DFLOW_VIRTUAL_GPUS");
  const int wanted = more ? atoi(more) : 0;
  return real && wanted > real ? (wanted < GPUS ? wanted : GPUS) : real < GPUS ? real : GPUS;
}

extern bool dfc_update(void *device, dfk_update_op op, int32_t dtype, int64_t n, void *to, void *to_note, const void *a,
                       void *a_note, const void *b, void *b_note, bool one_b);
extern bool dfc_step(void *device, const dfi_remote_step *s);
extern bool dfc_train(void *device, const dfi_remote_train *t);
extern bool dfc_place(void *device, const dfi_remote_place *p);
extern bool dfc_decide(void *device, void *tally, void *tally_note, const void *pred, void *pred_note,
                       uint64_t condition);
extern bool dfc_choose(void *device, void *tally, void *tally_note, const void *pred, void *pred_note,
                       uint64_t condition, int32_t which, const dfi_remote_sides *sides);
extern bool dfc_inner_begin(void *device, void *tally, const void *around, void *note, uint64_t condition);
extern bool dfc_inner_end(void *device, const void *tally, void *around, void *note);
extern bool dfc_fetch(void *device, const dfi_remote_element *e);
extern bool dfc_store(void *device, const dfi_remote_element *e);
extern bool dfc_turn(void *device, const void *tally, void *tally_note, void *to, void *to_note, const void *from,
                     void *from_note, int64_t n);
extern bool dfc_keep(void *device, const void *tally, void *tally_note, void *to, void *to_note, const void *from,
                     void *from_note, int64_t bytes);

static bool open_streams(dfc_gpu *g) {
  return dfc_ok(g, dfc_cu.cuStreamCreate(&g->compute, CU_STREAM_NON_BLOCKING), "cuStreamCreate") &&
         dfc_ok(g, dfc_cu.cuStreamCreate(&g->in, CU_STREAM_NON_BLOCKING), "cuStreamCreate") &&
         dfc_ok(g, dfc_cu.cuStreamCreate(&g->out, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

static bool open_device(dfc_gpu *g, int32_t real) {
  size_t memory = 0;
  CUmemoryPool pool;
  cuuint64_t keep = UINT64_MAX;                        /* what is given back stays with the pool */
  if (!dfc_ok(g, dfc_cu.cuDeviceGet(&g->device, real), "cuDeviceGet") ||
      !dfc_ok(g, dfc_cu.cuDevicePrimaryCtxRetain(&g->context, g->device), "cuDevicePrimaryCtxRetain") ||
      !be_current(g) ||
      !dfc_ok(g, dfc_cu.cuDeviceGetName(g->name, (int)sizeof g->name, g->device), "cuDeviceGetName") ||
      !dfc_ok(g, dfc_cu.cuDeviceGetAttribute(&g->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g->device),
              "cuDeviceGetAttribute") ||
      !dfc_ok(g, dfc_cu.cuDeviceGetAttribute(&g->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g->device),
              "cuDeviceGetAttribute") ||
      !dfc_ok(g, dfc_cu.cuDeviceGetAttribute(&g->processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, g->device),
              "cuDeviceGetAttribute") ||
      !dfc_ok(g, dfc_cu.cuDeviceTotalMem(&memory, g->device), "cuDeviceTotalMem"))
    return false;
  g->memory_bytes = (int64_t)memory;
  if (g->major < 8) {
    snprintf(g->error, sizeof g->error,
        "%s has compute capability %d.%d, 8.0 is the least that dflow's kernels are built for", g->name, g->major,
        g->minor);
    return false;
  }
  if (!dfc_ok(g, dfc_cu.cuDeviceGetDefaultMemPool(&pool, g->device), "cuDeviceGetDefaultMemPool") ||
      !dfc_ok(g, dfc_cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), "cuMemPoolSetAttribute"))
    return false;
  /* A driver for tests has the kernels itself; a real one needs the image that nvcc made. */
  if (!dfc_images) {
    const char *asked = getenv("DFLOW_CUDA_DRIVER");
    if (!(asked && asked[0])) {
      snprintf(g->error, sizeof g->error,
          "this libdflow_cuda.so was built without nvcc and holds no kernels: build dflow where the CUDA toolkit is");
      return false;
    }
  }
  static const void *const none[] = { "no image", NULL };
  const void *const *image = dfc_images ? dfc_images : none;
  int32_t modules = 0;
  for (int32_t i = 0; image[i] && i + 1 < DFC_MODULES; i++) {
    const CUresult loaded = dfc_cu.cuModuleLoadData(&g->module[i], image[i]);
    if (loaded == CUDA_ERROR_NO_BINARY_FOR_GPU)
      snprintf(g->error, sizeof g->error,
               "%s has compute capability %d.%d, for which this libdflow_cuda.so holds no code: build dflow with "
               "`make CUDA_ARCHS=%d%d`, or CUDA_ARCHS=all", g->name, g->major, g->minor, g->major, g->minor);
    if (!dfc_ok(g, loaded, "cuModuleLoadData")) return false;
    modules++;
  }
  /* without it the GPU has no conditional nodes, and is of use all the same */
  g->conditional = !dfc_images || !dfc_cu.cuModuleLoadData(&g->module[modules], dfc_image_graph_conditionals);
  return open_streams(g);
}

const dfi_remote *dfc_device(int32_t number, char *why, size_t room) {
  const int32_t n = dfc_count();
  int real = 0;
  if (number < 0 || number >= n) {
    snprintf(why, room, n ? "the driver knows %d GPU%s" : "the driver knows no GPU", n, n == 1 ? "" : "s");
    return NULL;
  }
  if (!gpus[number]) {
    const char *wrong = dfc_blas_math_wrong();
    if (wrong) { snprintf(why, room, "%s", wrong); return NULL; }
    dfc_gpu *g = calloc(1, sizeof *g);
    if (!g) { snprintf(why, room, "out of memory"); return NULL; }
    dfc_cu.cuDeviceGetCount(&real);
    g->number = number;
    g->math = dfc_blas_math();
    pthread_mutex_init(&g->lock, NULL);
    if (!open_device(g, number % real)) { snprintf(why, room, "%s", g->error); free(g); return NULL; }
    g->remote = (dfi_remote){ .device = g,
                              .alloc = remote_alloc,
                              .free = remote_free,
                              .from_host = from_host,
                              .to_host = to_host,
                              .across = across,
                              .within = within,
                              .fill = fill,
                              .update = dfc_update,
                              .step = dfc_step,
                              .fused = dfc_fused,
                              .fused_run = dfc_fused_run,
                              .persistent = dfc_persistent,
                              .persistent_run = dfc_persistent_run,
                              .biased = dfc_biased,
                              .convolved = dfc_convolved,
                              .train = dfc_train,
                              .place = dfc_place,
                              .capture = dfc_capture,
                              .captured = dfc_captured,
                              .replay = dfc_replay,
                              .decide = dfc_decide,
                              .keep = dfc_keep,
                              .condition = dfc_condition,
                              .open = dfc_open,
                              .otherwise = dfc_otherwise,
                              .close = dfc_close,
                              .choose = dfc_choose,
                              .begin = dfc_inner_begin,
                              .end = dfc_inner_end,
                              .fetch = dfc_fetch,
                              .store = dfc_store,
                              .turn = dfc_turn,
                              .await = await,
                              .replays_left = dfc_replays_left,
                              .graph_free = dfc_graph_free,
                              .wait = wait,
                              .error = error };
    gpus[number] = g;
  }
  return &gpus[number]->remote;
}
