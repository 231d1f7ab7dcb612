/* flows.h: messages under way by the virtual clock, and when each has left its sender.
 *
 * A link carries one message after the other, in the order in which they were sent. Every device has two ports, one for
 * what it sends and one for what it receives, each of the device's bandwidth. A port divides its bandwidth equally
 * among the links that are busy there, and a message moves at the smaller of the shares that its two ports give it: the
 * fluid model of networks with fair queueing. A port without a bandwidth (the host's) holds nothing up. Latency is the
 * caller's: it delays a message and occupies no port.
 *
 * Not thread-safe: one run, or one replay, owns it.
 */
#ifndef DFLOW_FLOWS_H
#define DFLOW_FLOWS_H
#include "device/device.h"

typedef struct dfi_flows dfi_flows;
/* For links 0 to nlinks - 1 and devices 0 to ndevices - 1, nothing under way. Owned by the caller. */
dfi_flows *dfi_flows_new(int32_t nlinks, int32_t ndevices);
void dfi_flows_free(dfi_flows *f);
void dfi_flows_clear(dfi_flows *f);
/* A message of so many bytes is sent at `now` over a link, which leads from device `from` to device `to`; *a and *b say
 * what these can do. True: nothing holds it up, and it has left already. False: dfi_flows_end will give it back, and
 * *message is its number, >= 0, until then. Times never go back from one call to the next. */
bool dfi_flows_begin(dfi_flows *f, int32_t link, int32_t from, int32_t to, const dfi_device *a, const dfi_device *b,
                     double bytes, double now, uint64_t id, int32_t *message);
/* When the next message will have left, in seconds; INFINITY: none is under way. */
double dfi_flows_next(const dfi_flows *f);
/* That message has left; there must be one. Its id, and when. */
uint64_t dfi_flows_end(dfi_flows *f, double *at);
/* The id of a message that is under way changes. */
void dfi_flows_rename(dfi_flows *f, int32_t message, uint64_t id);
#endif
