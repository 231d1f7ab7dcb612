/* save_policy.c: keep, swap or compute again? See save_policy.h.
 *
 * Nothing is decided of a value before memory runs short: until then it is kept. Then the costs of an iteration are
 * compared, by the cost model of device/cost.c; on a device whose speed is 'measured', by the clock: what this run's
 * iterations have taken so far, and what a copy takes where no bandwidth was stated:
 *
 *   swap       the copies of all that the loop saves, over the device's link. They go beside what the device computes,
 *              so what counts is by how much they take longer than the iteration
 *   recompute  the iteration once more
 *
 * The host has nowhere to swap to. What cannot be computed again (remat_plan.c says why) is swapped, or kept.
 */
#include "engine/memory/save_policy.h"
#include "engine/memory/remat.h"
#include "resource/tensor_array.h"
#include <stdio.h>

dfi_save dfi_save_policy_for(const dfi_exec *x, const dfi_tensor_array *a) {
  const dfi_devices *d = x->plan->devices;
  if (!d) return DFI_SAVE_KEEP;
  const dfi_save policy = a->swap == DFI_SWAP_WANTED ? DFI_SAVE_SWAP
                        : a->swap == DFI_SWAP_AUTO   ? DFI_SAVE_AUTO : (dfi_save)d->save;
  return policy == DFI_SAVE_KEEP && d->swap_always ? DFI_SAVE_SWAP : policy;
}

static const char *why_not(const dfi_exec *x, const dfi_save_policy *h) {
  const dfi_remat_plan *m = x->plan->remat;
  return m && h->scope < m->nscopes ? m->why[h->scope] : NULL;
}

/* Are the costs on this device what the clock says? The virtual one knows of none but the model's. */
static bool goes_by_the_clock(const dfi_exec *x, const dfi_device *d) { return d && d->measured && !x->timed; }

dfi_save_policy *dfi_save_policy_entry(dfi_save_policies *l, const dfi_tensor_array *a, const dfi_call *c) {
  for (int32_t i = 0; i < l->n; i++) if (l->at[i].node == a->node) return &l->at[i];
  DFI_GROW(l->at, l->n, l->room);
  dfi_save_policy *h = &l->at[l->n++];
  *h = (dfi_save_policy){ .node = a->node, .scope = c ? c->record->frame->scope->id : 0, .policy = DFI_SAVE_AUTO };
  if (c && goes_by_the_clock(c->exec, c->exec->plan->devices->at[c->node->device])) h->since = dfi_now();
  snprintf(h->why, sizeof h->why, "all of it fits");
  return h;
}

void dfi_save_policy_wanted(const dfi_exec *x, dfi_save_policy *h, dfi_save policy, bool can) {
  const char *cannot = policy == DFI_SAVE_RECOMPUTE ? why_not(x, h) : "it is in the host's memory already";
  h->policy = can ? (uint8_t)policy : DFI_SAVE_KEEP;
  if (can) snprintf(h->why, sizeof h->why, "as the %s wants", policy == x->plan->devices->save ? "session" : "loop");
  else snprintf(h->why, sizeof h->why, "%s", cannot ? cannot : "it is small, or no iteration of a loop makes it");
}

dfi_save dfi_save_policy_outcome(const dfi_save_policy *h, const char **why) {
  *why = h->why;
  if (h->policy == DFI_SAVE_AUTO) return DFI_SAVE_KEEP;
  if (h->policy != DFI_SAVE_SWAP || h->swapped) return (dfi_save)h->policy;
  *why = h->held    ? "something else holds it, and it stays alive anyway: moving it would free nothing"
         : h->small ? "it is too small to be worth moving"
                    : "all of it fits";
  return DFI_SAVE_KEEP;
}

static char *time_text(double seconds, char text[32]) {
  if (seconds >= 1) snprintf(text, 32, "%.2g s", seconds);
  else {
    const bool ms = seconds >= 1e-3;
    const double n = seconds * (ms ? 1e3 : 1e6);
    snprintf(text, 32, "%.*f %s", n < 9.95 ? 1 : 0, n, ms ? "ms" : "us");
  }
  return text;
}

void dfi_save_policy_decide(dfi_exec *x, dfi_save_policies *l, dfi_save_policy *h, const dfi_device *d,
                            const dfi_tensor_array *a) {
  const dfi_remat_plan *m = x->plan->remat;
  const bool again = a->remat && a->linked;
  const bool clock = goes_by_the_clock(x, d);
  const double iteration = clock && h->since > 0 && h->elements > 1
                               ? (dfi_now() - h->since) / (double)(h->elements - 1)
                           : m && h->scope < m->nscopes ? m->seconds[h->scope]
                                                        : 0;
  const char *how = clock ? ", as measured" : "";
  const char *cannot = why_not(x, h);
  char s[32], t[32];
  if (!d || !d->arena) {
    h->policy = again ? DFI_SAVE_RECOMPUTE : DFI_SAVE_KEEP;
    if (again)
      snprintf(h->why, sizeof h->why,
               "half of the memory is in use, and the host has nowhere to swap to; an iteration takes %s%s",
               time_text(iteration, s), how);
    else
      snprintf(h->why, sizeof h->why, "it cannot be computed again: %s",
               cannot ? cannot : "no iteration of a loop makes it");
    return;
  }
  double bytes = 0, busy;
  for (int32_t i = 0; i < l->n; i++)
    if (l->at[i].scope == h->scope && l->at[i].elements) bytes += (double)l->at[i].bytes / (double)l->at[i].elements;
  const dfi_device host = { .speed = 1 };
  dfi_link_seconds(d, &host, (int64_t)bytes, &busy);
  if (clock && d->bandwidth <= 0) busy = 2 * bytes / d->rates.bytes;       /* it is read and written */
  if (again && busy > 2 * iteration) {
    h->policy = DFI_SAVE_RECOMPUTE;
    snprintf(h->why, sizeof h->why, "copying what an iteration saves takes %s, the iteration itself %s%s",
             time_text(busy, s), time_text(iteration, t), how);
  } else {
    h->policy = DFI_SAVE_SWAP;
    if (again)
      snprintf(h->why, sizeof h->why,
               "copying what an iteration saves takes %s, beside %s that the iteration itself takes%s",
               time_text(busy, s), time_text(iteration, t), how);
    else
      snprintf(h->why, sizeof h->why, "it cannot be computed again: %s",
               cannot ? cannot : "no iteration of a loop makes it");
  }
}
