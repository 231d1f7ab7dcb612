/* borrowed_read.h: what a read of a variable in a loop costs. A number is copied; a tensor is lent to the slot where it
 * was read before and is the value still, and costs a reference otherwise: 9 ns against 17, of which a token is 6. See
 * dfi_borrowed_read. Only the run's owner comes here.
 */
#ifndef DFLOW_BORROWED_READ_H
#define DFLOW_BORROWED_READ_H
#include "engine/token.h"
#include "resource/variable.h"

/* Gives back all tensors that slots have, when the run is over. */
void dfi_borrowed_reads_end(dfi_exec *x);
/* The value of the variable whose handle this is, for a slot of r. False: there is none. */
bool dfi_borrowed_read_of(dfi_exec *x, const dfi_record *r, const df_value *handle, df_value *out);
#endif
