/* record.h: a run by the virtual clock is written down, token by token, so that it can be timed again on other devices. */
#ifndef DFLOW_RECORD_H
#define DFLOW_RECORD_H
#include "engine/executor.h"

typedef struct dfi_recorder dfi_recorder;
dfi_recorder *dfi_recorder_new(void);
void dfi_recorder_free(dfi_recorder *w);
/* For timed.c: the token that runs now sends one to a node of r; it computes that much. */
void dfi_record_edge(dfi_exec *x, dfi_record *r, uint32_t node);
void dfi_record_work(dfi_exec *x, double flops, double bytes);
#endif
