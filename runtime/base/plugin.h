/* plugin.h: libraries of ours that are loaded when they are first needed, and not missed when they are not there. */
#ifndef DFLOW_PLUGIN_OPEN_H
#define DFLOW_PLUGIN_OPEN_H
#include <stdbool.h>

/* The library of that name (`libdflow_jit.so`), beside libdflow or where the system looks for libraries: dlopen's
 * handle, or NULL, and dlerror() says why. stays: as of dfk_library_open. */
void *dfi_plugin_open(const char *name, bool stays);
#endif
