/* gpu.c: GPUs are opened here, through the plug-in, when a session first names one. See kernels/device.h. */
#define _GNU_SOURCE
#include "device/device.h"
#include "base/plugin.h"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static struct {
  pthread_mutex_t lock;            /* guards all */
  bool            looked;          /* for the plug-in */
  const dfi_gpu_api *api;
  char            why[400];        /* there is none */
  const dfi_gpu_kernel *kernel;
  int32_t         nkernels;
} gpu = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- what kernels ask of the runtime ------------------------------------------------------------------------ */

static void *device_of(const df_kernel *k) {
  (void)k;
  /* the engine sets it for the call */
  const dfi_remote *r = dfi_devmem_here ? dfi_devmem_remote(dfi_devmem_here) : NULL;
  return r ? r->device : NULL;
}
static bool gives_up(void) { return dfi_waiter_here.gives_up && dfi_waiter_here.gives_up(dfi_waiter_here.user); }
static bool makes_room(void) { return dfi_devmem_here && dfi_caches_evict(dfi_devmem_here, true); }
static void *note_of(const df_tensor *t) { return dfi_note_of(t->buffer); }

static const dfi_gpu_host services = {
  .out = dfk_out, .out_like = dfk_out_like, .out_reuse = dfk_out_reuse, .out_forward = dfk_out_forward,
      .scratch = dfk_scratch, .free = dfk_free,
  .fail = dfk_fail, .shape_text = dfk_shape_text, .tag = dfk_tag, .graph_seed = dfk_graph_seed,
      .dtype_name = df_dtype_name,
  .dtype_bytes = df_dtype_bytes, .tensor_new = df_tensor_new,
  .tensor_release = df_tensor_release, .device = device_of, .note = note_of, .gives_up = gives_up,
  .makes_room = makes_room,
};

/* ---- the plug-in -------------------------------------------------------------------------------------------- */

/* Under the lock. */
static const dfi_gpu_api *plugin(void) {
  if (gpu.looked) return gpu.api;
  gpu.looked = true;
  void *lib = dfi_plugin_open("libdflow_cuda.so", false);
  const dfi_gpu_api *api = lib ? dlsym(lib, DFI_GPU_SYMBOL) : NULL;
  if (!api) {
    snprintf(gpu.why, sizeof gpu.why, "libdflow_cuda.so, the plug-in for GPUs, is not there: %s", dlerror());
    return NULL;
  }
  if (api->version != DFI_GPU_VERSION) {
    snprintf(gpu.why, sizeof gpu.why, "libdflow_cuda.so is of another version of dflow: rebuild both");
    return NULL;
  }
  const char *why = api->open(&services);
  if (why) { snprintf(gpu.why, sizeof gpu.why, "%s", why); return NULL; }
  gpu.kernel = api->kernels(&gpu.nkernels);
  return gpu.api = api;
}

const dfi_remote *dfi_gpu_open(int32_t number, df_error *err) {
  char why[400] = "";
  pthread_mutex_lock(&gpu.lock);
  const dfi_gpu_api *api = plugin();
  const dfi_remote *r = api ? api->device(number, why, sizeof why) : NULL;
  pthread_mutex_unlock(&gpu.lock);
  if (!r) dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s", api ? why : gpu.why);
  return r;
}

int32_t dfi_gpu_count(void) {
  const char *driver = getenv("DFLOW_CUDA_DRIVER");
  if (!(driver && driver[0]) && access("/dev/nvidiactl", F_OK)) return 0;
  pthread_mutex_lock(&gpu.lock);
  const dfi_gpu_api *api = plugin();
  const int32_t n = api ? api->count() : 0;
  pthread_mutex_unlock(&gpu.lock);
  return n;
}

const char *dfi_gpu_fuses(const char *op, int32_t nin, const uint8_t *in, int32_t out, int32_t *attr) {
  const char *element = NULL;
  pthread_mutex_lock(&gpu.lock);
  const dfi_gpu_api *api = gpu.api;
  pthread_mutex_unlock(&gpu.lock);
  return api && api->fuses && api->fuses(op, nin, in, out, &element, attr) ? element : NULL;
}

const char *dfi_gpu_counts(const char *op, int32_t nin, const uint8_t *in, int32_t out, dfk_persistent_care *care) {
  const char *element = NULL;
  pthread_mutex_lock(&gpu.lock);
  const dfi_gpu_api *api = gpu.api;
  pthread_mutex_unlock(&gpu.lock);
  return api && api->counts && api->counts(op, nin, in, out, &element, care) ? element : NULL;
}

void dfi_gpu_look(const dfi_remote *r, dfi_gpu_about *out) {
  pthread_mutex_lock(&gpu.lock);
  const dfi_gpu_api *api = gpu.api;
  pthread_mutex_unlock(&gpu.lock);
  api->about(r, out);
}

const dfi_gpu_kernel *dfi_gpu_kernel_of(const char *op) {
  const dfi_gpu_kernel *found = NULL;
  pthread_mutex_lock(&gpu.lock);
  for (int32_t i = 0; i < gpu.nkernels && !found; i++) if (!strcmp(gpu.kernel[i].op, op)) found = &gpu.kernel[i];
  pthread_mutex_unlock(&gpu.lock);
  return found;
}
