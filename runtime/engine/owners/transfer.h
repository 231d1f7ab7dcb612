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
/* A stream copies the value of a message, and has: c is the call of a dfi_flight. */
void   dfi_transfer_copy(dfi_call *c);
void   dfi_transfer_copied(dfi_exec *x, dfi_call *c);
/* A message of another owner is taken out of the inbox. */
void   dfi_transfer_message(dfi_exec *x, dfi_team_message *l);
/* One with nothing in it but the record and the node; it goes back when it has landed. */
dfi_flight *dfi_flight_new(dfi_exec *x, dfi_record *r, dfi_pnode *p);
/* f has what is in the message, which has nothing any more. */
void   dfi_flight_takes(dfi_flight *f, const dfi_team_message *l);
/* The message waits for its time, with its record known, and is among those away. */
void   dfi_flight_list(dfi_exec *x, dfi_flight *f);
/* How many messages never come. */
int32_t dfi_transfers_held(const dfi_exec *x);
#endif
