/* devmem.h: the memory of a device that has memory of its own.
 *
 * An arena is bounded. What is let go stays with the arena, by size, and is handed out again; when the bound is
 * near it goes back to the system first. A tensor made while an arena is this thread's (dfi_devmem_use) lies in it, and
 * finds its way back by itself, so an arena lives until its owner and its last tensor are done with it. Any thread.
 */
#ifndef DFLOW_DEVMEM_H
#define DFLOW_DEVMEM_H
#include "base/internal.h"

/* bytes; reserved: with what is kept for later */
typedef struct dfi_devmem_stats { int64_t in_use, peak, limit, reserved, allocations; } dfi_devmem_stats;

/* limit 0: none. Owned. */
dfi_devmem *dfi_devmem_new(int64_t limit);
void  dfi_devmem_release(dfi_devmem *a);
/* 64-byte aligned; NULL: past the limit, or the system has none. */
void *dfi_devmem_alloc(dfi_devmem *a, int64_t bytes);
void  dfi_devmem_free(dfi_devmem *a, void *p, int64_t bytes);
/* Memory that a device takes beside its tensors counts, too; false: it would be past the limit. */
bool  dfi_devmem_charge(dfi_devmem *a, int64_t bytes);
void  dfi_devmem_discharge(dfi_devmem *a, int64_t bytes);
/* A cache keeps unused memory; before an allocation is refused it is asked to evict. evict: frees some of
 * it, of arena a, or of any on its device, where that has no more; false: there is none. It does not allocate, nor
 * wait for a thread that may be allocating. Any thread. */
typedef struct dfi_cache {
  bool (*evict)(struct dfi_cache *k, const dfi_devmem *a, bool device);
  struct dfi_cache *next;
} dfi_cache;
void  dfi_cache_add(dfi_cache *k);               /* borrowed until it is removed */
void  dfi_cache_remove(dfi_cache *k);
/* Asks them all until one has let something go. device: it is the device that has no more, not the arena. */
bool  dfi_caches_evict(const dfi_devmem *a, bool device);
/* Bytes that an allocation of this size takes. */
int64_t dfi_devmem_takes(int64_t bytes);
void  dfi_devmem_look(dfi_devmem *a, dfi_devmem_stats *out);
/* As dfi_peak_begin and its kin. */
void    dfi_devmem_peak_begin(dfi_devmem *a, dfi_peak *p);
int64_t dfi_devmem_peak_end(dfi_devmem *a, dfi_peak *p);
int64_t dfi_devmem_peak_so_far(dfi_devmem *a, const dfi_peak *p);
/* A copy of a tensor of plain bytes in an arena (NULL: on the host). Owned; NULL: no room, or a device failed. */
df_tensor *dfi_tensor_copy_in(const df_tensor *t, dfi_devmem *a);
/* A value as it lies in an arena (NULL: on the host): itself, retained, where it lies there already, else a copy.
 * Strings and handles stay where they are. False: there is no room. */
bool  dfi_value_in(const df_value *v, dfi_devmem *a, df_value *out);
/* Bytes that a value carries: of numbers, their size; of strings, their letters. */
int64_t dfi_value_bytes(const df_value *v);
#endif
