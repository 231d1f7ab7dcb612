/* inspect.h: what can be told of a paused run: what is alive in it (snapshot.c), and whether its books
 * balance (ledger.c). Reads what the engine keeps and changes nothing.
 */
#ifndef DFLOW_INSPECT_H
#define DFLOW_INSPECT_H
#include "engine/observe/watch.h"

/* These take the watch's lock and pause the run. */
df_snapshot *dfi_snapshot_take(dfi_watch *w, df_error *err);
/* Of what x has, which no thread turns. */
df_snapshot *dfi_snapshot_of(const dfi_exec *x);
df_snapshot *dfi_snapshot_frames(dfi_watch *w, int32_t frame, df_error *err);
int32_t      dfi_ledger_balance(dfi_watch *w, df_ledger *out, df_error *err);
/* For a caller that holds the run already: see dfi_watch_hold. */
int32_t dfi_snapshot_history(dfi_watch *w, int32_t n, df_token_info *out);
/* Bytes of tensors that its iterations and what was kept hold, each as often as it is held. */
int64_t dfi_snapshot_bytes(const dfi_watch *w);
int32_t dfi_snapshot_value(dfi_watch *w, df_output o, int32_t frame, int64_t iteration, df_value *out, df_error *err);
int32_t dfi_snapshot_waits_for(dfi_watch *w, df_node *n, int32_t frame, int64_t iteration, int32_t *state, int32_t room,
                               int32_t *out, df_error *err);
#endif
