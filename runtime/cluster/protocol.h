/* protocol.h: what the payloads of a channel's messages are, in order. Texts are a length and bytes, numbers 64 bits.
 *
 *   HELLO    worker → driver: protocol, digest of the build, host
 *   WELCOME  rank, ranks, bytes of the ring's memory; the worker replies once it has made its end of the ring
 *   HEART    nothing; every tenth of a second
 *   REPLY    the error, or 0 (dfi_reply_put), and what was asked for
 *   GRAPH    graph, whether it begins anew, a message of its form
 *   SESSION  session, graph, options
 *   PLAN     session, plan, digest of it, devices, jobs, whether it is stepped, how many fetches and
 *            feeds, their pairs
 *   GET      session, node; replied to with a value
 *   SET      session, node, 1, a value; or 0: nothing any more
 *   RESET    session
 *   CLOSE    session
 *   PEER     rank, pid, host, what became of it
 *   BACK     rank, which begins anew
 *   STOP     nothing
 *
 * RUN goes by the ring, so that it comes in order with the messages of runs, and fast.
 */
#ifndef DFLOW_PROTOCOL_H
#define DFLOW_PROTOCOL_H
#include <stdint.h>

typedef struct dfi_run_order {
  uint64_t kind;                   /* DFI_RUN_ORDER */
  uint64_t plan, run;
  int64_t  number;
  double   timeout;
} dfi_run_order;
enum { DFI_RUN_ORDER = 1 };
#endif
