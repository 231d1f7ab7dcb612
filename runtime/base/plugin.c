/* plugin.c: see plugin.h. */
#define _GNU_SOURCE
#include "base/plugin.h"
#include "base/internal.h"
#include "kernels/library.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void *dfi_plugin_open(const char *name, bool stays) {
  Dl_info here;
  char path[4096];
  if (dladdr((void *)df_version, &here) && here.dli_fname) {
    const char *slash = strrchr(here.dli_fname, '/');
    const int n = slash ? (int)(slash - here.dli_fname) + 1 : 0;
    if (snprintf(path, sizeof path, "%.*s%s", n, here.dli_fname, name) < (int)sizeof path) {
      void *lib = dfk_library_open(path, RTLD_LAZY | RTLD_LOCAL, stays);
      if (lib || !access(path, F_OK)) return lib;     /* where it is there, dlerror() says what is wrong with it */
    }
  }
  return dfk_library_open(name, RTLD_LAZY | RTLD_LOCAL, stays);
}
