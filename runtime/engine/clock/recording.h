/* recording.h: the tables of a recording, for those that write it, time it again and place it anew.
 *
 * An event is a token that ran, dead ones too. It knows the events that sent its inputs, where it ran, what it computed
 * or carried, its iteration, and the owner that turned it, or would have.
 */
#ifndef DFLOW_RECORDING_H
#define DFLOW_RECORDING_H
#include "engine/clock/record.h"

typedef struct rec_event {
  int32_t  node, device, link;     /* link: of a Transfer or a copy, else -1 */
  uint32_t iteration;              /* which of dfi_recorder.iteration */
  uint32_t sources;                /* first of its edges; 0: none */
  uint16_t owner;
  bool     dead, message;
  bool     ends;                   /* it says, or hears, that an owner has ended its part of an iteration */
  double   flops, bytes;           /* flops < 0: takes no time */
  double   made;                   /* bytes of all its outputs; < 0: it passes on what came */
  const char *op;
} rec_event;
/* begins: it sent nothing, but opened the iteration whose node waits for nothing else */
typedef struct rec_edge { uint32_t from, next; bool begins; } rec_edge;
typedef struct rec_iteration { uint32_t frame; int64_t number; } rec_iteration;
typedef struct rec_frame {
  uint32_t parent;                           /* an iteration; UINT32_MAX: it is the top level */
  int64_t n, window;
  int32_t  scope, call;                      /* its loop; the node that called it, -1: none */
  uint32_t second;                           /* of a loop that is run a second time: which one; else 0 */
  bool     at_once;                          /* its iterations begin and end for all owners at once */
} rec_frame;

struct dfi_recorder {
  pthread_mutex_t lock;                      /* guards all of it while the run goes on: its owners write one record */
  rec_event     *event;     uint32_t nevents, event_room;     /* [0] is the run itself */
  rec_edge      *edge;      uint32_t nedges, edge_room;       /* [0] is none */
  rec_iteration *iteration; uint32_t niterations, iteration_room;
  rec_frame     *frame;     uint32_t nframes, frame_room;     /* of several owners' parts, one */
  dfi_device *device;       int32_t ndevices;
  uint16_t   *owner;        int32_t nowners; /* of each device */
  int32_t    *device_in, nscopes;            /* by scope and owner: dfi_windows_device; NULL: there is one owner */
  dfi_link   *link;         int32_t nlinks, planned;          /* the plan's, then those of copies */
  uint32_t   *crossing;                      /* by crossing of the plan: its event */
  int32_t    *signature, nfetch, nfeed;      /* the plan's */
  double     *fed;                           /* by feed: bytes */
};

/* Writes an event down: which one it is. */
static inline uint32_t dfi_recording_event(dfi_recorder *w, rec_event e) {
  DFI_GROW(w->event, w->nevents, w->event_room);
  w->event[w->nevents] = e;
  return w->nevents++;
}

/* An edge from an event, before those of a list: the list. */
static inline uint32_t dfi_recording_edge(dfi_recorder *w, uint32_t from, uint32_t list) {
  DFI_GROW(w->edge, w->nedges, w->edge_room);
  w->edge[w->nedges] = (rec_edge){ .from = from, .next = list };
  return w->nedges++;
}

/* A message to a device, sent in that iteration, of no bytes yet and over no link. */
static inline rec_event dfi_recording_message(int32_t node, int32_t device, uint32_t iteration) {
  return (rec_event){ .node = node, .device = device, .link = -1, .iteration = iteration, .message = true, .flops = -1,
                      .made = -1, .op = "Transfer" };
}

/* A copy to or from the host. */
static inline bool dfi_recording_is_copy(const dfi_recorder *w, uint32_t e) { return w->event[e].link >= w->planned; }
/* Does its iteration end with it, too? Else nothing does but what waits for it. */
static inline bool dfi_recording_counts(const dfi_recorder *w, uint32_t e) {
  return !dfi_recording_is_copy(w, e) && !w->event[e].ends;
}
#endif
