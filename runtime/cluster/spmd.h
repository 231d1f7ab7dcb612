/* spmd.h: SPMD: every rank runs the program, and all make the same runs. Rank 0 computes, with the others as its
 * workers; what it computed is every program's result.
 *
 * Before a run each rank's program says what it asks for (ARRIVE): the kind, the session by the order in which sessions
 * were first used, a digest of the graph, the fetches, the feeds with their dtypes and shapes, and the values of those
 * feeds that are placed on this rank. Rank 0 compares. Where graphs differ it gets the other one whole (OFFER), and
 * names the first operation that is another one, and both lines.
 */
#ifndef DFLOW_SPMD_H
#define DFLOW_SPMD_H
#include "cluster/driver.h"

enum { DFI_SPMD_RUN = 1, DFI_SPMD_SET };
/* How long a rank is waited for that gives signs of life and does not come to a run, unless the session says it. */
#define DFI_SPMD_SECONDS 30.0

/* A graph's session as all programs know it. */
typedef struct dfi_program {
  df_session *session;             /* borrowed; NULL once it is closed */
  uint64_t serial;                 /* the session's */
  int64_t  id;                     /* by first use, from 1: alike on all ranks */
  df_graph *graph;                 /* retained */
  dfi_form form;
  uint64_t digest;                 /* of all messages of the form */
  int32_t  nodes;                  /* that it is of */
  uint64_t seen[64];               /* signatures that were asked for since */
  struct dfi_program *next;
} dfi_program;

/* This rank's, and that of a number (NULL: there is none), whose session stays open until it is let go. */
dfi_program *dfi_program_of(df_session *s);
dfi_program *dfi_program_hold(int64_t id);
void    dfi_program_let_go(void);
/* What an ARRIVE has; `all`: with the values of all feeds. */
int32_t dfi_arrival_put(dfi_packet *p, dfi_program *of, int64_t kind, const dfi_spmd_call *c, const df_value *values,
                        const df_node *handle, df_error *err);
/* The places of the feeds by node and output: a Lua table has them in any order. Owned. */
int32_t *dfi_feed_order(const dfi_spmd_call *c);
/* A value as a length and bytes. */
int32_t dfi_put_value(dfi_packet *p, const df_value *v, df_error *err);
bool    dfi_get_value(dfi_cursor *c, df_value *v);
/* The first node that two graphs have differently, and in what (a static text); -1: all that both have is alike. */
int32_t dfi_first_difference(df_graph *a, df_graph *b, const char **what);

/* spmd_follower.c: on other ranks than 0: the table that sessions call, what the driver answers, that it is gone (why:
 * the end of a sentence), and the form of this program's graph. */
const dfi_spmd *dfi_spmd_follower(dfi_channel *channel);
void    dfi_follow_answered(uint32_t request, const uint8_t *payload, size_t n);
void    dfi_follow_lost(int32_t code, const char *why);
int32_t dfi_follow_offer(dfi_cursor *c, void **bytes, int64_t *n, df_error *err);
int32_t dfi_follow_ranks(int32_t capacity, df_rank_info *out);
#endif
