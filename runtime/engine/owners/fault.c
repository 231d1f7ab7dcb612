/* fault.c: see fault.h. Each run counts for itself, so what fails is the same in every run of a session that one owner
 * turns. Several count together, in the order in which things happen. */
#include "engine/owners/fault.h"
#include <stdio.h>

static const dfi_device *device_at(const dfi_exec *x, int32_t i) { return x->plan->devices->at[i]; }

/* What the engine would compute by itself is a kernel, too, on a device whose kernels are counted. */
void dfi_faults_attach(dfi_plan *p) {
  if (!p->devices || !p->devices->faulty) return;
  for (int32_t i = 0; i < p->nnodes; i++)
    if ((p->node[i].kind == DFI_K_SCALAR || p->node[i].kind == DFI_K_READ) &&
        p->devices->at[p->node[i].device]->fails_at)
      p->node[i].kind = DFI_K_KERNEL;
}

void dfi_faults_begin(dfi_exec *x) {
  const size_t n = (size_t)x->plan->devices->n;
  struct dfi_fault **faults = &x->setup.faults;
  if (!*faults) *faults = dfi_xcalloc(n, sizeof **faults);       /* devices were listed: there will be no more */
  memset(*faults, 0, sizeof **faults * n);
}

static int64_t count(int64_t *n) { return __atomic_add_fetch(n, 1, __ATOMIC_RELAXED); }

bool dfi_fault_kernel(dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  const dfi_device *d = device_at(x, p->device);
  if (!d->fails_at || count(&x->setup.faults[p->device].kernels) < d->fails_at) return false;
  char message[120];
  snprintf(message, sizeof message, "the device %s was lost at its kernel %lld", d->name, (long long)d->fails_at);
  dfi_exec_fail(x, r, p, DF_UNAVAILABLE, message);
  return true;
}

dfi_delivery dfi_fault_message(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, int32_t link,
                               const df_node *node) {
  const int32_t ends[2] = { x->plan->link[link].from, x->plan->link[link].to };
  for (int32_t i = 0; i < 2; i++) {
    const dfi_device *d = device_at(x, ends[i]);
    const int64_t n = count(&x->setup.faults[ends[i]].messages);
    const bool stalls = d->link_stalls_at && n == d->link_stalls_at;
    if (stalls && p) return DFI_STALLS;
    if (!stalls && !(d->link_fails_at && n >= d->link_fails_at)) continue;
    char message[400];
    /* of several owners one may tell of it at a later message */
    snprintf(message, sizeof message, "the link %s -> %s %s at message %lld of %s, with a value of `%s`",
             device_at(x, ends[0])->name, device_at(x, ends[1])->name,
             stalls ? "has stalled as the run began," : "was lost", (long long)(stalls ? n : d->link_fails_at), d->name,
             dfi_node_name((df_node *)node));
    dfi_exec_fail(x, r, p, DF_UNAVAILABLE, message);
    return DFI_LOST;
  }
  return DFI_ARRIVES;
}

void dfi_fault_stalled(dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  const dfi_link *l = &x->plan->link[p->child];
  char message[300];
  snprintf(message, sizeof message,
           "the link %s -> %s has stalled: a message of `%s` does not come, and nothing else can move",
           device_at(x, l->from)->name, device_at(x, l->to)->name, dfi_node_name(p->node));
  dfi_exec_fail(x, r, p, DF_UNAVAILABLE, message);
}
