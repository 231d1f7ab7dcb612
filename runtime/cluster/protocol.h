/* protocol.h: what the payloads of a channel's messages are, in order. Texts are a length and bytes, numbers 64 bits.
 *
 *   HELLO    worker → driver: protocol, digest of the build, host
 *   WELCOME  rank, ranks, bytes of the ring's memory; the worker replies once it has made its end of the ring
 *   HEART    every tenth of a second: nothing, or what a run waits for there: rank, microseconds so far, name
 *   REPLY    the error, or 0 (dfi_reply_put), and what was asked for
 *   GRAPH    graph, whether it begins anew, a message of its form
 *   SESSION  session, graph, options
 *   PLAN     session, plan, digest of it, devices, jobs, how it is watched, how many fetches and
 *            feeds, their pairs
 *   GET      session, node; replied to with a value
 *   SET      session, node, 1, a value; or 0: nothing any more
 *   GPUS     the number of one that is opened; -1: none; replied to with how many there are
 *   RESET    session
 *   CLOSE    session
 *   PEER     rank, pid, host, what became of it
 *   BACK     rank, which begins anew
 *   STOP     nothing; where the worker runs the program, too: what its further runs get
 *   SPMD     nothing: the program is to run on the worker, too
 *   ARRIVE   worker → driver: a run that its program asks for (spmd.h)
 *   ENDED    worker → driver: its program has ended
 *   ASK      worker → driver: session, node: the value of a variable; or nothing: df_cluster_ranks
 *   ANSWER   to ARRIVE and ASK: the error, or 0, and values, each a length (-1: none) and its bytes; or a text
 *   OFFER    session: what its program has built there, as a graph's form; replied to with it
 *
 * RUN goes by the ring, so that it comes in order with the messages of runs, and fast.
 */
#ifndef DFLOW_PROTOCOL_H
#define DFLOW_PROTOCOL_H
#include "session/cluster.h"

typedef struct dfi_run_order {
  uint64_t kind;                   /* DFI_RUN_ORDER */
  uint64_t plan;
  dfi_part_order part;
} dfi_run_order;
enum { DFI_RUN_ORDER = 1 };
#endif
