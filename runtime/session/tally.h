/* tally.h: what a run did with devices: how long it took, what went over which link, what was swapped. */
#ifndef DFLOW_TALLY_H
#define DFLOW_TALLY_H
#include "engine/memory/swap.h"
#include "engine/memory/save_policy.h"

typedef struct dfi_tally_link { uint16_t from, to; int64_t messages, dead, bytes; } dfi_tally_link;
typedef struct dfi_tally_device { char name[24]; int64_t in_use, peak, limit; } dfi_tally_device;
typedef struct dfi_tally {
  double   seconds;
  dfi_tally_device *device; int32_t ndevices;      /* as they were when somebody looked */
  dfi_tally_link *link; int32_t nlinks;
  dfi_swap swap;
  dfi_save_policies saved;   /* by value */
  int64_t  recomputed;       /* iterations that ran a second time */
  dfi_gpu_loops loops;
  int64_t *owner; int32_t nowners;   /* nodes that each owner ran */
  const char *one_owner;     /* why the last run had one, where the session has several; NULL: it had several */
} dfi_tally;

struct dfi_exec;
/* Adds what x has counted so far. */
void   dfi_tally_add(dfi_tally *t, const struct dfi_exec *x);
void   dfi_tally_free(dfi_tally *t);
/* Keeps how much memory the session's devices have in use: the text needs no session then. */
void   dfi_tally_look(dfi_tally *t, dfi_devices *d, int64_t cpu_limit);
/* Lines for those who show it: `seconds 0.5`, `memory cpu:0 in_use peak limit`, `transfer cpu:0 -> sim:0 messages bytes
 * dead`, `swap …`, `graphs …` where a GPU ran loops, `owners` and the nodes that each ran, `one` and why one did. The
 * length; as much of it as fits `room` is written. */
size_t dfi_tally_text(const dfi_tally *t, char *out, size_t room);
#endif
