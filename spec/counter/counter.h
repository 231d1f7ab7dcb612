/* counter.h: what the device of device.c has been asked for, as ../counter.c reads it. */
#ifndef DFLOW_SPEC_COUNTER_H
#define DFLOW_SPEC_COUNTER_H
#include <stdint.h>

typedef struct counted {
  int64_t allocations, frees, bytes;                  /* bytes: of all allocations */
  int64_t copies_in, copies_out, copies_within, fills;
  int64_t bytes_in, bytes_out;
  int64_t waits, launches;                            /* waits: of the host for it */
  int64_t most_bytes;                                 /* that it gives before it has no more */
} counted;
#endif
