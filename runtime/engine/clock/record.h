/* record.h: a run is written down, token by token, so that it can be timed again as if on other devices. Where several
 * owners turn it they write one record: a frame's parts are one frame there, and a message between two of them is the
 * event that sends it, for which the Recv's waits.
 */
#ifndef DFLOW_RECORD_H
#define DFLOW_RECORD_H
#include "engine/executor.h"

typedef struct dfi_recorder dfi_recorder;
/* Records one run, whose tokens it is told. */
dfi_recorder *dfi_recorder_new(void);
void dfi_recorder_free(dfi_recorder *w);
/* For the engine and timed.c. begin: the run begins. token: the token of a node of r runs now; the calls after it are
 * about that token. edge: it sends a token to a node of r, or, with `begins`, it opens iteration r, in which that node
 * has no input to wait for. work: it computes, or carries, that much. made: its outputs have so many bytes. */
void dfi_record_begin(dfi_exec *x);
void dfi_record_token(dfi_exec *x, dfi_record *r, uint32_t node, bool dead);
void dfi_record_edge(dfi_exec *x, dfi_record *r, uint32_t node, bool begins);
void dfi_record_work(dfi_exec *x, double flops, double bytes);
void dfi_record_made(dfi_exec *x, int64_t bytes);
void dfi_record_message(dfi_exec *x, int32_t link, int64_t bytes);
/* An owner's part of r is dead, as an event was the last to say: so is p in it, an Enter, or a Transfer, which tells
   others. Which event that is. */
uint32_t dfi_record_dead(dfi_exec *x, dfi_record *r, const dfi_pnode *p, int32_t owner, uint32_t event);
/* A copy to the host (`out`) or from it, for save = 'swap', begun when the token that runs now was ready. Returns the
 * event; the token that runs waits for one. */
uint32_t dfi_record_copy(dfi_exec *x, int32_t device, bool out, int64_t bytes);
void     dfi_record_waits(dfi_exec *x, uint32_t event);
/* What is given and crosses when the run begins is an event too; a token uses what came so. */
void dfi_record_crossing(dfi_exec *x, int32_t i, df_node *node, int32_t device);
void dfi_record_uses(dfi_exec *x, int32_t i);
/* The token that runs now, and the one that is recorded as it: a value that waited for the window of parallel
   iterations was sent by another. */
uint32_t dfi_record_current(const dfi_exec *x);
void     dfi_record_speak(dfi_exec *x, uint32_t event);

/* Tells of each event that took time which node it was of, and how long it takes at speed 1. */
void dfi_recorder_costs(const dfi_recorder *w, void (*tell)(void *to, int32_t node, double seconds), void *to);

/* What to change: < 0 or 0: as it was. */
typedef struct dfi_whatif {
  double  bandwidth, latency, speed;
  int64_t window;
  int32_t devices;
  bool    timeline;
  bool    replace;           /* nodes are placed anew for the devices as they would be; else they stay where they are */
} dfi_whatif;
/* Times the run again. Lines of text: `seconds S`, then of each step of the critical path that takes time `op TAB
 * iteration TAB device TAB seconds`, then, if it is wanted, of each event that takes time `event TAB number TAB kind
 * (work, message or copy) TAB node TAB device TAB other device (or the same) TAB frame TAB iteration TAB begin TAB end
 * TAB bytes TAB number of its cause` in the order in which they began. Returns the length; as much of it as fits `room`
 * is written to out. */
size_t dfi_record_whatif(const dfi_recorder *w, const dfi_whatif *how, char *out, size_t room);

/* The signature of the run's plan: fetch pairs, then feed pairs; borrowed. */
const int32_t *dfi_recorder_signature(const dfi_recorder *w, int32_t *nfetch, int32_t *nfeed);
/* The devices of a list with what `how` changes. Owned: dfi_whatif_devices_free; the arenas are those of the list. */
dfi_devices *dfi_whatif_devices(const dfi_devices *list, const dfi_whatif *how);
void dfi_whatif_devices_free(dfi_devices *d);
/* replace.c: the recording as if each node had run where `fresh`, a plan of the same signature, has it. Owned. */
dfi_recorder *dfi_recorder_replaced(const dfi_recorder *w, const dfi_plan *fresh);
#endif
