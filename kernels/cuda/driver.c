/* driver.c: the CUDA driver, opened when a GPU is first named. DFLOW_CUDA_DRIVER names another library than the
 * system's libcuda.so.1: `strict` is the one of spec/cuda/ that lies beside the plug-in. */
#define _GNU_SOURCE
#include "driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dfc_driver dfc_cu;

const char *dfc_error_text(CUresult error) {
  static __thread char text[200];
  const char *name = NULL, *what = NULL;
  if (dfc_cu.cuGetErrorName(error, &name) || !name) name = "an error that the driver has no name for";
  if (dfc_cu.cuGetErrorString(error, &what) || !what) what = "";
  snprintf(text, sizeof text, "%s (%s)", name, what);
  return text;
}

enum { PATH = 300 };

/* Up to and with its last slash. */
static int folder_of(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return slash ? (int)(slash - path) + 1 : 0;
}

/* Where the driver lies; a soname alone: where the system has it. */
static void driver_path(char *path, size_t room) {
  const char *asked = getenv("DFLOW_CUDA_DRIVER");
  Dl_info here;
  if (!asked || !asked[0]) snprintf(path, room, "libcuda.so.1");
  else if (strcmp(asked, "strict")) snprintf(path, room, "%s", asked);
  else {
    const bool known = dladdr((void *)dfc_driver_open, &here) && here.dli_fname;
    snprintf(path, room, "%.*sstrict/libcuda.so.1", known ? folder_of(here.dli_fname) : 0, known ? here.dli_fname : "");
  }
}

/* The name of the first that the library has not; NULL: it has all. */
static const char *find_symbols(void *library, const dfc_symbol *s) {
  for (; s->name; s++) if (!(*s->at = dlsym(library, s->name))) return s->name;
  return NULL;
}

/* Beside the driver that was asked for. The system's: where it looks itself, else where the toolkit is installed, which
 * tells nothing unless it is told to. */
static void *find_library(dfc_library *l) {
  char driver[PATH], path[2 * PATH];
  driver_path(driver, sizeof driver);
  snprintf(path, sizeof path, "%.*s%s", folder_of(driver), driver, l->soname);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) snprintf(l->why, sizeof l->why, "%s", dlerror());
  if (library || folder_of(driver)) return library;
  snprintf(path, sizeof path, "/usr/local/cuda/lib64/%s", l->soname);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

bool dfc_library_open(dfc_library *l, const dfc_symbol *symbols) {
  pthread_mutex_lock(&l->lock);
  if (!l->looked) {
    void *library = find_library(l);
    const char *missing = library ? find_symbols(library, symbols) : NULL;
    if (missing) snprintf(l->why, sizeof l->why, "%s has no %s", l->soname, missing);
    l->looked = true;
    l->there = library && !missing;
  }
  const bool there = l->there;
  pthread_mutex_unlock(&l->lock);
  return there;
}

const char *dfc_driver_open(void) {
  static char why[400], path[PATH];
#define X(result, name, symbol, params) { symbol, (void **)&dfc_cu.name },
  static const dfc_symbol symbols[] = { DFC_DRIVER(X) { NULL, NULL } };
#undef X
  driver_path(path, sizeof path);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(why, sizeof why, "no CUDA driver: %s; install NVIDIA's driver, 580 or newer", dlerror());
    return why;
  }
  const char *missing = find_symbols(library, symbols);
  if (missing) {
    snprintf(why, sizeof why, "%s has no %s: the driver is too old, 580 or newer is needed", path, missing);
    return why;
  }
  enum { NEEDED = 13000 };                /* what nvcc of toolkit 13 makes is not for older drivers */
  int version = 0;
  if (!dfc_cu.cuDriverGetVersion(&version) && version < NEEDED) {
    snprintf(why, sizeof why,
             "the CUDA driver is for CUDA %d.%d, and CUDA 13.0 is needed: install NVIDIA's driver, 580 or newer",
             version / 1000, version % 1000 / 10);
    return why;
  }
  const CUresult error = dfc_cu.cuInit(0);
  if (error) {
    snprintf(why, sizeof why, "the CUDA driver does not start: %s", dfc_error_text(error));
    return why;
  }
  return NULL;
}
