/* bridge.h: what carries messages to and from a rank on another host. */
#ifndef DFLOW_BRIDGE_H
#define DFLOW_BRIDGE_H
#include "base/internal.h"

/* A connection between two processes: whole messages, in order. wire.free frees it. One thread at a time. */
typedef struct dfi_wire dfi_wire;
struct dfi_wire {
  int fd;                          /* readable where something may have come; -1: only receive knows */
  bool    (*send)(dfi_wire *w, const void *bytes, int64_t n);        /* false: there is no room for it now */
  int64_t (*receive)(dfi_wire *w, void *to, int64_t room);           /* bytes of the next message; 0: there is none */
  void    (*free)(dfi_wire *w);
};

/* One end of the bridge to `rank`, one of n. far: it is that rank's own end. It plays the ranks of the other end in the
 * ring at `memory`, and takes `wire`, also where it fails (NULL). */
typedef struct dfi_bridge dfi_bridge;
dfi_bridge *dfi_bridge_new(int32_t rank, int32_t n, bool far, void *memory, int64_t bytes, dfi_wire *wire,
                           df_error *err);
/* Starts to carry, with `fd` (consumed) as this end's side of the channel. */
int32_t dfi_bridge_run(dfi_bridge *b, int fd, df_error *err);
bool    dfi_bridge_over(dfi_bridge *b);              /* has either side closed the channel? Any thread */
/* Carries what lies in the channel, for a second at most, and ends; NULL: nothing. */
void    dfi_bridge_free(dfi_bridge *b);
#endif
