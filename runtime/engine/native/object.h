/* object.h: an object file that was compiled before is laid into memory without its compiler, which takes 12 ms and
 * 20 MB to load. Known are those of x86-64 that the plug-in makes of a unit: code and constants, which call memcpy and
 * functions of its kind. What else there may be is refused, and left to the plug-in.
 */
#ifndef DFLOW_OBJECT_H
#define DFLOW_OBJECT_H
#include <stdbool.h>
#include <stddef.h>
#include "kernels/disk.h"

typedef struct dfi_object { void *at; size_t bytes; } dfi_object;      /* at: NULL: it is not there */

/* Hashes what code depends on of this machine: what its processor can do. False: that is not known. */
bool dfi_object_machine(dfk_disk_key *key);
/* Where `symbol` lies, once the file is in memory; NULL: it is not one of those. */
void *dfi_object_load(dfi_object *o, const void *file, size_t bytes, const char *symbol);
/* No thread runs in it. */
void dfi_object_drop(dfi_object *o);
#endif
