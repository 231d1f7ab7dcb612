/* transfer.h: values cross from device to device. */
#ifndef DFLOW_TRANSFER_H
#define DFLOW_TRANSFER_H
#include "engine/executor.h"

/* What went over a link: messages, of these dead ones, and bytes of payload. */
typedef struct dfi_traffic { int64_t messages, dead, bytes; } dfi_traffic;

/* Brings what is given to where it is read. Before the first token. */
void dfi_transfer_begin(dfi_exec *x);
/* Runs a Transfer, dead or alive. True: the message is on its way, and comes back through x->flights. */
bool dfi_transfer_run(dfi_exec *x, dfi_record *r, dfi_pnode *p, uint32_t dead);
/* Takes the messages that have arrived; seconds until the next one, < 0: there is none. */
double dfi_transfer_arrivals(dfi_exec *x);
#endif
