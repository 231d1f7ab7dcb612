/* place.h: where each node of a plan runs, and why. */
#ifndef DFLOW_PLAN_PLACE_H
#define DFLOW_PLAN_PLACE_H
#include "plan/make.h"

enum { DFI_ANY_DEVICE = -1, DFI_READ_ON_HOST = 1 << 14 /* with a device: what stays on the host there */ };

/* Is there a device to choose? False: nothing was asked for, and the host is all there is. */
bool dfi_plan_has_places(const maker *m);
/* Gives every needed node its device: mark.device, mark.why, mark.why_node. */
int32_t dfi_plan_place_nodes(maker *m);
/* Where a value is, for a reader on device d: DFI_ANY_DEVICE when it may be read from anywhere. */
int32_t dfi_plan_device_of(const maker *m, df_output from, dfi_comes how);
static inline bool is_handle(df_output o) {
  const dfi_out *out = &o.node->out[o.index];
  return out->dtype == DF_RESOURCE || out->dtype == DF_VARIANT || out->ref;
}
/* Bytes of an output as far as its shape is known. */
double dfi_plan_output_bytes(df_output o);
/* What n takes on a device: as measured, where it was. A GPU's own time is known of none; and ranks have to come to the
 * same places, each by itself. */
double dfi_plan_own_seconds(const maker *m, const df_node *n, const dfi_device *d);
/* What n's own time is known by: DFI_WHY_MEASURED or DFI_WHY_BYTES. */
dfi_why dfi_plan_why_cheapest(const maker *m, const df_node *n);
/* Has the device a kernel for n? An accelerator has none for strings. */
bool dfi_plan_has_kernel(const dfi_device *d, const df_node *n);
/* place_search.c: moves nodes that nothing was asked of, by the virtual clock, to where the run ends earlier. */
void dfi_plan_search_places(maker *m);
/* Is n the Switch of a cond in a loop, of what the loop does not change? It is where it is read: that crosses once. */
bool dfi_plan_goes_with_reader(const maker *m, const df_node *n);
/* Places control flow once more, when what it goes with has been moved. */
void dfi_plan_place_flow_again(maker *m);
/* Does n begin the iterations of a loop variable? */
bool dfi_plan_is_loop_merge(const df_node *n);
/* The GPU's kernel for n, of its dtypes; NULL: there is none. */
const dfi_gpu_kernel *dfi_plan_gpu_kernel(const df_node *n);
/* Where a reader (NULL: a fetch) wants o: its device, with DFI_READ_ON_HOST where the device's memory is not the
 * host's and it reads o on the host. */
int32_t dfi_plan_wanted(const maker *m, const df_node *reader, df_output o);
/* The place of a link among the plan's; made when it is new. */
int32_t dfi_plan_link(dfi_plan *p, int32_t from, int32_t to);
/* cut.c: puts Transfers where values cross; after it dfi_plan_across finds them. */
void dfi_plan_cut(maker *m);
/* A token that says no more than that a node has run, sent to a device. */
void dfi_plan_cut_control(maker *m, df_node *from, int32_t to);
/* One that waits for nothing and is read by nothing, from device to device; it is where `like` was written. */
void dfi_plan_cut_end(maker *m, df_node *like, int32_t scope, int32_t from, int32_t to);
/* What a reader on device d reads instead of `from` (index -1: a control token of its node): itself where it does not
 * cross. *given: a place among what is given and crosses when the run begins, or -1. */
df_output dfi_plan_across(const maker *m, const df_node *reader, df_output from, dfi_comes how, int32_t d,
                          int32_t *given);
/* For one that reads no value but waits: what it waits for instead of `from`, of which it would wait for `index`;
   *index then says for what. */
df_output dfi_plan_control_across(const maker *m, df_output from, int32_t *index, int32_t d);
/* cut.c: a node that the plan alone has: as `like`, with room for so many inputs, control edges and outputs, to be
 * filled in by the caller, as its name is. It is needed, and in no scope. */
df_node *dfi_plan_extra(maker *m, const df_node *like, int32_t nin, int32_t ncontrol, int32_t nout);
/* plan/owners.c: before the cut, says which owner has which device, and gives each the loops that it needs; after the
 * cut, holds them together; after the layout, finds out whether they can share it. plan->parts stays NULL where one
 * owner turns all. */
bool    dfi_plan_calls_are_first(const maker *m);
int32_t dfi_plan_deal_owners(maker *m);
void dfi_plan_pace_owners(maker *m);       /* after the cut */
int32_t dfi_plan_find_shared(maker *m);
void dfi_plan_owners_free(dfi_plan *p);
/* plan/fold.c: what only constants go into is computed now, before anything is placed; of a plan without places nothing
 * that is fetched. */
void dfi_plan_fold(maker *m, bool placed);
/* plan/equal.c: of nodes that compute the same one is kept, before they are placed; of a plan with places, of those
 * that were asked for somewhere. */
void dfi_plan_find_equal(maker *m, bool placed);
/* plan/simplify.c: both, and nodes that give an input as it is are left out. After the scopes are found. */
void dfi_plan_simplify(maker *m, bool placed);
#endif
