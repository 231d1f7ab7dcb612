/* stream.h: each simulated device computes on a stream of its own, beside the run's owner: in a Session with several
 * owners, where one of them has to turn all partitions (team.h says when).
 *
 * The bookkeeping (frames, iterations, tokens) has one owner then. What the others of `owners` do is the work of
 * the devices: a device's large kernels run one after the other, in the order in which they became ready, on a thread
 * that turns its stream; so do large copies to it, on a second stream. There are owners - 1 such threads, each of which
 * turns whichever stream has something to do. What is done comes back through the run's inbox. A stream only ever runs
 * what is ready, so no order of them changes a value.
 */
#ifndef DFLOW_STREAM_H
#define DFLOW_STREAM_H
#include "engine/executor.h"

/* A run begins: has it streams? */
void dfi_streams_begin(dfi_exec *x);
/* Is the call worth a stream's while? Only of a device other than the host. */
bool dfi_stream_wants(const dfi_exec *x, const dfi_call *c);
/* Gives the call to the stream of its node's device, or its second one. False: no thread is free for it, it was not
   taken. */
bool dfi_stream_take(dfi_exec *x, dfi_call *c, bool copies);
/* The run is over: its streams are not read any more. */
void dfi_streams_end(dfi_exec *x);
void dfi_streams_free(dfi_exec *x);
#endif
