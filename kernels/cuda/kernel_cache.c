/* kernel_cache.c: kernels whose source was written while the program runs. See kernel_cache.h.
 *
 * Compiling takes as long as a tenth of a second: a kernel is compiled once what it would have saved comes to that, by
 * a thread of its own, unless the code lies on the disk. Until it is there, and for good where there is no NVRTC, its
 * caller does without.
 */
#include "kernel_cache.h"
#include "nvrtc.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { COMPILE_NS = 100000000, MADE = 4096 };

struct dfc_cached_kernel {
  char      *source;
  uint64_t   hash;
  bool       looked, failed;              /* on the disk; there is no code and will be none */
  bool       waits;                       /* for the thread that compiles */
  bool       busy;                        /* a thread reads its code or compiles it, without the lock */
  int64_t    saved_ns;                    /* what it would have saved so far */
  CUfunction function;                    /* NULL: not yet */
  dfc_gpu   *g;
  dfc_cached_kernel  *next;               /* of those that wait */
};
static dfc_cached_kernel *all[MADE];      /* open addressing */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;      /* guards it, what the entries hold, and this: */
static struct { pthread_t thread; pthread_cond_t more; dfc_cached_kernel *first, *last; bool runs, ends; } compiler = {
  .more = PTHREAD_COND_INITIALIZER
};
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;       /* an entry is busy no more */

/* ---- what there is already --------------------------------------------------------------------------------------- */

/* Under the lock. Takes the source. NULL: there is no room. */
static dfc_cached_kernel *entry_of(dfc_gpu *g, char *source) {
  uint64_t h = (uint64_t)g->number + 1469598103934665603ull;
  for (const char *s = source; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211ull;
  for (int32_t tries = 0; tries < MADE; tries++) {
    dfc_cached_kernel **at = &all[(h + (uint64_t)tries) % MADE], *f = *at;
    if (f && (f->hash != h || f->g != g || strcmp(f->source, source))) continue;
    if (f) { free(source); return f; }
    if (!(f = calloc(1, sizeof *f))) break;
    *f = (dfc_cached_kernel){ .source = source, .hash = h, .g = g };
    return *at = f;
  }
  free(source);
  return NULL;
}

/* The code, which is freed, as the GPU's. NULL: it is none. */
static CUfunction function_of(dfc_gpu *g, void *code) {
  CUmodule module = NULL;
  CUfunction function = NULL;
  dfc_enter(g);
  if (dfc_cu.cuModuleLoadData(&module, code) || dfc_cu.cuModuleGetFunction(&function, module, "k_fused"))
    function = NULL;
  dfc_leave(g);
  free(code);
  return function;
}

/* Under the lock, which others may have meanwhile; it was not busy. The code from the disk or, where `compile` says so,
 * compiled here and now. There will be none where the compiler says why not. */
static void load(dfc_cached_kernel *f, bool compile) {
  size_t bytes = 0;
  char why[300];
  f->busy = true;
  pthread_mutex_unlock(&lock);
  void *code = dfc_nvrtc_code(f->g, f->source, compile, &bytes, why, sizeof why);
  CUfunction function = code ? function_of(f->g, code) : NULL;
  pthread_mutex_lock(&lock);
  f->busy = false;
  f->looked = true;
  f->function = function;
  f->failed = !function && (code || why[0]);
  pthread_cond_broadcast(&ready);
}

static bool is_open(const dfc_cached_kernel *f) { return !f->function && !f->failed; }

/* The thread that compiles: one after the other, while the runs go on. */
static void *compile_all(void *unused) {
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!compiler.first && !compiler.ends) pthread_cond_wait(&compiler.more, &lock);
    dfc_cached_kernel *f = compiler.first;
    if (compiler.ends) break;
    if (!(compiler.first = f->next)) compiler.last = NULL;
    while (f->busy) pthread_cond_wait(&ready, &lock);
    if (is_open(f)) load(f, true);
    f->waits = false;
  }
  pthread_mutex_unlock(&lock);
  return unused;
}

/* At the program's end no thread may be in a library that goes. */
static void stop_compiling(void) {
  pthread_mutex_lock(&lock);
  compiler.ends = true;
  pthread_cond_signal(&compiler.more);
  pthread_mutex_unlock(&lock);
  pthread_join(compiler.thread, NULL);
}

/* Under the lock. */
static void compile_later(dfc_cached_kernel *f) {
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

dfc_cached_kernel *dfc_kernel_cache_get(dfc_gpu *g, char *source, int64_t saved_ns, bool more, bool at_once) {
  if (!source) return NULL;
  pthread_mutex_lock(&lock);
  dfc_cached_kernel *f = entry_of(g, source);
  if (f && is_open(f)) {
    f->saved_ns = saved_ns + (more ? f->saved_ns : 0);
    while (at_once && f->busy) pthread_cond_wait(&ready, &lock);
    if (is_open(f) && !f->busy && (!f->looked || at_once)) load(f, at_once);
    if (is_open(f) && !f->busy && !f->waits && f->saved_ns > COMPILE_NS) compile_later(f);
  }
  const bool there = f && f->function;
  pthread_mutex_unlock(&lock);
  return there ? f : NULL;
}

CUfunction dfc_cached_kernel_function(const dfc_cached_kernel *f) { return f->function; }
