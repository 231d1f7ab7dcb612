/* fault.h: devices that die and links that lose or hold up a message, on request, for tests of failures.
   */
#ifndef DFLOW_FAULT_H
#define DFLOW_FAULT_H
#include "engine/executor.h"

/* What a run has counted of a device: kernels that it was to run, messages to it and from it. */
typedef struct dfi_fault { int64_t kernels, messages; } dfi_fault;
typedef enum dfi_delivery { DFI_ARRIVES, DFI_LOST /* the run has failed */, DFI_STALLS } dfi_delivery;

/* Once for a plan, before its first run. */
void     dfi_faults_attach(dfi_plan *p);
/* A run of a session with such devices begins. */
void     dfi_faults_begin(dfi_exec *x);
/* p's kernel is to run. True: its device is dead, and the run has failed. */
bool     dfi_fault_kernel(dfi_exec *x, const dfi_record *r, const dfi_pnode *p);
/* A message of `node` goes over the link. r and p: where; NULL: as the run begins. */
dfi_delivery dfi_fault_message(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, int32_t link, const df_node *node);
/* Nothing moves but messages that never come: the run fails. */
void     dfi_fault_stalled(dfi_exec *x, const dfi_record *r, const dfi_pnode *p);
#endif
