/* tally.h: what a run did with devices: how long it took, what went over which link, what was swapped. */
#ifndef DFLOW_TALLY_H
#define DFLOW_TALLY_H
#include "engine/memory/swap.h"

/* Text that may be longer than its room: n counts all of it, what fits is written. */
typedef struct dfi_clipped { char *at; size_t room, n; } dfi_clipped;
void dfi_say(dfi_clipped *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef struct dfi_tally_link { uint16_t from, to; int64_t messages, dead, bytes; } dfi_tally_link;
typedef struct dfi_tally_device { char name[24]; int64_t in_use, peak, limit; } dfi_tally_device;
/* The most memory that was in use while something went on: on the host, and in devices' own memory. */
typedef struct dfi_peaks {
  dfi_peak host, *of;        /* of: n, of the devices; owned; those without memory of their own have none */
  dfi_device **device; int32_t n;
} dfi_peaks;

typedef struct dfi_tally {
  double   seconds;
  dfi_tally_device *device; int32_t ndevices;      /* as they were at the last look */
  dfi_peaks *peaks;          /* while it goes on; NULL: it does not */
  int64_t *most; int32_t nmost;      /* of each device, when it had ended; the host is the first */
  bool     of_session;       /* and not of one run */
  int64_t  epoch;            /* dfi_peak_epoch, when most[0] was so; of a session */
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
/* From here on peaks are the tally's, until the end. A run's are of all devices that have memory of their own, a
   session's of the host alone: what devices have is a session's. The caller holds what guards the tally. */
void   dfi_tally_peaks_begin(dfi_tally *t, dfi_peaks *p, const dfi_devices *devices);
void   dfi_tally_peaks_end(dfi_tally *t);
/* Keeps how much memory the session's devices have in use: the text needs no session then. */
void   dfi_tally_look(dfi_tally *t, dfi_devices *d, int64_t cpu_limit);
/* Lines to be shown: `seconds 0.5`, `memory cpu:0 in_use peak limit`, `transfer cpu:0 -> sim:0 messages bytes
 * dead`, `swap …`, `graphs …` where a GPU ran loops, `owners` and the nodes that each ran, `one` and why one did. The
 * length; as much of it as fits `room` is written. */
size_t dfi_tally_text(const dfi_tally *t, char *out, size_t room);
#endif
