/* fuse.c: elementwise ops that hang together, as one kernel.
 *
 * The runtime groups them (plan/group.c) as it does for the CPU, and a chain says what each step computes of what.
 * Here a chain becomes the source of one kernel (fuse_source.c), whose numbers are those of the ops one by one.
 *
 * Compiling takes as long as a tenth of a second: a chain is compiled once the launches that it would have saved come
 * to that, by a thread of its own, unless the code lies on the disk. Until it is there, and for good where there is no
 * NVRTC, each op runs alone.
 */
#include "fuse.h"
#include "nvrtc.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAUNCH_NS = 3000, COMPILE_NS = 100000000, FUSED = 4096 };

/* A chain as one GPU has it, for ever. */
typedef struct fused {
  char      *source;
  uint64_t   hash;
  bool       looked, failed;              /* on the disk; there is no code and will be none */
  bool       waits;                       /* for the thread that compiles */
  int64_t    saved_ns;                    /* what it would have saved so far */
  CUfunction function;                    /* NULL: not yet */
  dfc_gpu   *g;
  struct fused *next;                     /* of those that wait */
} fused;
static fused *all[FUSED];                 /* open addressing */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;      /* guards it, what the entries hold, and this: */
static struct { pthread_t thread; pthread_cond_t more; fused *first, *last; bool runs, ends; } compiler = {
  .more = PTHREAD_COND_INITIALIZER
};

/* ---- what there is already --------------------------------------------------------------------------------------- */

/* Under the lock. Takes the source. NULL: there is no room. */
static fused *entry_of(dfc_gpu *g, char *source) {
  uint64_t h = (uint64_t)g->number + 1469598103934665603ull;
  for (const char *s = source; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211ull;
  for (int32_t tries = 0; tries < FUSED; tries++) {
    fused **at = &all[(h + (uint64_t)tries) % FUSED], *f = *at;
    if (f && (f->hash != h || f->g != g || strcmp(f->source, source))) continue;
    if (f) { free(source); return f; }
    if (!(f = calloc(1, sizeof *f))) break;
    *f = (fused){ .source = source, .hash = h, .g = g };
    return *at = f;
  }
  free(source);
  return NULL;
}

/* Under the lock. The code, which is freed, becomes the entry's; NULL: there is none, for good where `why` says so. */
static void take(fused *f, void *code, const char *why) {
  f->looked = true;
  f->failed = !code && why[0];
  if (!code || f->function) { free(code); return; }
  CUmodule module = NULL;
  dfc_enter(f->g);
  if (dfc_cu.cuModuleLoadData(&module, code) || dfc_cu.cuModuleGetFunction(&f->function, module, "k_fused")) {
    f->function = NULL;
    f->failed = true;
  }
  dfc_leave(f->g);
  free(code);
}

/* Under the lock, here and now: from the disk or, where `compile` says so, compiled. */
static void load(fused *f, bool compile) {
  size_t bytes = 0;
  char why[300];
  void *code = dfc_nvrtc_code(f->g, f->source, compile, &bytes, why, sizeof why);
  take(f, code, why);
}

/* The thread that compiles: one after the other, while the runs go on. */
static void *compile_all(void *unused) {
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!compiler.first && !compiler.ends) pthread_cond_wait(&compiler.more, &lock);
    fused *f = compiler.first;
    if (compiler.ends) break;
    if (!(compiler.first = f->next)) compiler.last = NULL;
    pthread_mutex_unlock(&lock);
    size_t bytes = 0;
    char why[300];
    void *code = dfc_nvrtc_code(f->g, f->source, true, &bytes, why, sizeof why);
    pthread_mutex_lock(&lock);
    take(f, code, why);
    f->waits = false;
  }
  pthread_mutex_unlock(&lock);
  return unused;
}

/* At the program's end nobody may stand in a library that goes. */
static void stop_compiling(void) {
  pthread_mutex_lock(&lock);
  compiler.ends = true;
  pthread_cond_signal(&compiler.more);
  pthread_mutex_unlock(&lock);
  pthread_join(compiler.thread, NULL);
}

/* Under the lock. */
static void compile_later(fused *f) {
  if (!compiler.runs) {
    sigset_t every, was;
    sigfillset(&every);
    pthread_sigmask(SIG_BLOCK, &every, &was);            /* signals are for the program's own threads */
    compiler.runs = !pthread_create(&compiler.thread, NULL, compile_all, NULL);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (compiler.runs) atexit(stop_compiling);
  }
  if (!compiler.runs) { load(f, true); return; }         /* no thread to be had */
  f->waits = true;
  f->next = NULL;
  *(compiler.last ? &compiler.last->next : &compiler.first) = f;
  compiler.last = f;
  pthread_cond_signal(&compiler.more);
}

void *dfc_fused(void *device, const dfk_chain_run *run, uint64_t on_host, int64_t n, bool at_once) {
  char *source = dfc_fused_source(run, on_host);
  if (!source) return NULL;
  pthread_mutex_lock(&lock);
  fused *f = entry_of(device, source);
  if (f && !f->function && !f->failed) {
    f->saved_ns += (run->chain->nsteps - 1) * (LAUNCH_NS + n / 256);
    if (!f->looked || at_once) load(f, at_once);
    if (!f->function && !f->failed && !f->waits && f->saved_ns > COMPILE_NS) compile_later(f);
  }
  pthread_mutex_unlock(&lock);
  return f && f->function ? f : NULL;
}

/* Bytes of input i. */
static int64_t bytes_of(const dfk_chain_run *r, int32_t i, int64_t n) {
  const int64_t period = r->input[i].period;
  const dfk_meets how = r->input[i].how;
  return r->chain->input_bytes[i] *
         (how == DFK_ALL ? n : how == DFK_ROWS ? period : how == DFK_COLUMN ? n / period : 1);
}

/* What input i is in the parameters: its address, or the number itself. A tensor of the host's is copied to `copy`. */
static bool argument(dfc_gpu *g, const dfk_chain_run *r, int32_t i, int64_t n, void *note, CUdeviceptr *copy,
                     uint64_t *word) {
  const void *data = r->input[i].data;
  if (note) { *word = (uint64_t)(uintptr_t)data; return dfc_mine(g, note); }
  if (r->input[i].how == DFK_NUMBER) { memcpy(word, data, (size_t)r->chain->input_bytes[i]); return true; }
  const int64_t bytes = bytes_of(r, i, n);
  *word = *copy = dfc_alloc(g, bytes);
  return *copy && dfc_upload(g, *copy, data, bytes);
}

bool dfc_fused_run(void *device, void *kernel, const dfk_chain_run *r, int64_t n, void *const *in_note,
                   void *const *out_note) {
  enum { THREADS = 256, WORDS = 2 * DFK_CHAIN_INPUTS + DFK_CHAIN_STEPS + 1 };
  const dfk_chain *c = r->chain;
  dfc_gpu *g = device;
  const fused *f = kernel;
  uint64_t words[WORDS] = { 0 };
  CUdeviceptr copy[DFK_CHAIN_INPUTS] = { 0 };
  int32_t at = 0;
  bool ok = true;
  dfc_enter(g);
  for (int32_t i = 0; i < c->ninputs; i++) {
    ok &= argument(g, r, i, n, in_note[i], &copy[i], &words[at++]);
    if (r->input[i].how == DFK_ROWS || r->input[i].how == DFK_COLUMN) words[at++] = (uint64_t)r->input[i].period;
  }
  for (int32_t s = 0; s < c->nsteps; s++) {
    if (!r->out[s]) continue;
    ok &= dfc_mine(g, out_note[s]);
    words[at++] = (uint64_t)(uintptr_t)r->out[s];
  }
  words[at++] = (uint64_t)n;
  void *params[] = { words };
  const bool blocks = c->row > DFC_FOLD_SHORT;           /* one for each row; else a thread for each, or each element */
  const int32_t threads = blocks ? DFC_FOLD_BLOCK : THREADS;
  const int64_t rows = c->row ? n / c->row : n, wanted = blocks ? rows : (rows + THREADS - 1) / THREADS;
  const int64_t most = blocks ? 1 << 30 : (int64_t)g->processors * 64;
  g->launches++;
  g->fused++;
  ok = ok && dfc_ok(g, dfc_cu.cuLaunchKernel(f->function, (unsigned)(wanted < most ? wanted : most), 1, 1,
                                             (unsigned)threads, 1, 1, 0, dfc_stream(g), params, NULL),
                   "a fused kernel");
  for (int32_t i = 0; i < c->ninputs; i++) dfc_release(g, copy[i]);
  dfc_leave(g);
  return ok;
}
