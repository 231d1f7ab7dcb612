/* services.c: the table of services (services.h) and the list of engines (engine.h). It is above all folders of the
   engine. */
#include "engine/services.h"
#include "engine/cudagraph/cudagraph.h"
#include "engine/memory/holders.h"
#include "engine/memory/remat.h"
#include "engine/native/native.h"
#include "engine/observe/log.h"
#include "engine/observe/watch.h"
#include "engine/owners/fault.h"
#include "engine/owners/rank.h"
#include "engine/owners/remote_call.h"
#include "engine/owners/stream.h"
#include "engine/owners/transfer.h"
#include "engine/persistent/persistent_kernel.h"
#include "engine/run/run.h"

const dfi_services dfi_service = {
  .remat_begin = dfi_remat_begin,
  .remat_next = dfi_remat_next,
  .remat_first_over = dfi_remat_first_over,
  .remat_over = dfi_remat_over,
  .remat_tag = dfi_remat_tag,
  .held_back = dfi_held_back,
  .holders_text = dfi_holders_text,
  .transfer_run = dfi_transfer_run,
  .transfer_copy = dfi_transfer_copy,
  .remote_number = dfi_remote_number,
  .remote_run = dfi_remote_run,
  .stream_wants = dfi_stream_wants,
  .stream_take = dfi_stream_take,
  .fault_kernel = dfi_fault_kernel,
  .rank_wake = dfi_rank_wake,
  .watch_token = dfi_watch_token,
  .watch_frame = dfi_watch_frame,
  .watch_keep = dfi_watch_keep,
  .watch_keep_all = dfi_watch_keep_all,
  .watch_done = dfi_watch_done,
  .watch_look = dfi_watch_look,
  .watch_ranks = dfi_watch_ranks,
  .watch_counted = dfi_watch_counted,
  .watch_call = dfi_watch_call,
  .log_call = dfi_log_call,
  .log_done = dfi_log_done,
  .log_flush = dfi_log_flush,
  .persistent_run = dfi_persistent_run,
  .persistent_kernel_ready = dfi_persistent_kernel_ready,
  .persistent_may_compile = dfi_persistent_may_compile,
  .persistent_reason = dfi_persistent_reason,
  .persistent_tell = dfi_persistent_tell,
  .persistent_forget = dfi_persistent_forget,
  .pause = dfi_exec_pause,
  .stop_if_told = dfi_exec_stop_if_told,
  .exec_new = dfi_exec_new,
  .exec_part = dfi_exec_part,
  .exec_reset = dfi_exec_reset,
  .exec_free = dfi_exec_free,
};

static const struct {
  void (*attach)(dfi_plan *p);
  void (*forget)(dfi_plan *p);
  void (*tell)(dfi_plan *p, int32_t what, const char *loop, dfi_text *t);
} engines[] = {
  { dfi_native_attach, dfi_native_forget, dfi_native_tell },
  { dfi_cudagraph_attach, dfi_cudagraph_forget, dfi_cudagraph_tell },
};
enum { ENGINES = sizeof engines / sizeof *engines };

void dfi_engines_attach(dfi_plan *p) { for (int32_t i = 0; i < ENGINES; i++) engines[i].attach(p); }
void dfi_engines_forget(dfi_plan *p) { for (int32_t i = 0; i < ENGINES; i++) engines[i].forget(p); }
void dfi_engines_tell(dfi_plan *p, int32_t what, const char *loop, dfi_text *t) {
  for (int32_t i = 0; i < ENGINES; i++) engines[i].tell(p, what, loop, t);
}
