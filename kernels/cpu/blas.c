/* blas.c: finds OpenBLAS and judges it.
 *
 * Threads are ours: a call runs on the thread that makes it. Debian 12's OpenBLAS (0.3.21) does not know some AVX-512
 * processors (Sapphire Rapids) and runs AVX2 code on them, at 60 % of our own speed (65 against 105 Gflop/s, 1024^3
 * float, one core). So on AVX-512 it is used only where it says that it has kernels for it.
 */
#include "blas.h"
#include "vec.h"
#include "../library.h"
#include <dlfcn.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static blas found;

static bool suits(const char *core) {
#if VEC_BYTES >= 64
  return strcmp(core, "SkylakeX") == 0 || strcmp(core, "Cooperlake") == 0 || strcmp(core, "SapphireRapids") == 0;
#else
  return core[0] != 0;
#endif
}

static void load(void) {
#if defined(__SANITIZE_THREAD__)
  return;                      /* the sanitizer cannot see into it, and cannot have it come and go */
#endif
  void *library = dfk_library_open("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL, true);
  if (!library) return;
  void (*set_threads)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
  char *(*core)(void) = (char *(*)(void))dlsym(library, "openblas_get_corename");
  void *sgemm = dlsym(library, "cblas_sgemm"), *dgemm = dlsym(library, "cblas_dgemm");
  if (!set_threads || !core || !sgemm || !dgemm || !suits(core())) {
    dlclose(library);
    return;
  }
  set_threads(1);
  found.sgemm = (__typeof__(cblas_sgemm) *)sgemm;
  found.dgemm = (__typeof__(cblas_dgemm) *)dgemm;
}

const blas *dfk_blas(void) {
  pthread_once(&once, load);
  return found.sgemm ? &found : NULL;
}
