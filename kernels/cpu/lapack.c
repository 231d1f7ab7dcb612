/* lapack.c: finds LAPACK: in OpenBLAS, which has its own, or beside it. */
#include "lapack.h"
#include "../library.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static lapack found;
static bool complete;

static bool look_in(const char *name) {
  void *library = dfk_library_open(name, RTLD_NOW | RTLD_LOCAL, true);
  if (!library) return false;
  void (*set_threads)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
  if (set_threads) set_threads(1);
#define FIND(f) found.f = (__typeof__(found.f))dlsym(library, #f "_")
  FIND(dgetrf); FIND(dgetrs); FIND(dpotrf); FIND(dgeqrf); FIND(dorgqr); FIND(dgesdd); FIND(dsyevd);
#undef FIND
  return found.dgetrf && found.dgetrs && found.dpotrf && found.dgeqrf && found.dorgqr && found.dgesdd && found.dsyevd;
}

static void load(void) { complete = look_in("libopenblas.so.0") || look_in("liblapack.so.3"); }

const lapack *dfk_lapack(void) {
  pthread_once(&once, load);
  return complete ? &found : NULL;
}
