/* remote_call.h: calls of kernels on devices whose memory the host cannot read. */
#ifndef DFLOW_ENGINE_REMOTE_H
#define DFLOW_ENGINE_REMOTE_H
#include "engine/executor.h"

/* Runs the kernel of a node that is on such a device. Its inputs are brought to where the kernel reads them. As
 * kernels return. */
int32_t dfi_remote_run(dfi_call *c, const dfi_device *d);
/* A number that is needed now, such as a predicate, lies on a device: the slot gets it. False: the device failed, and
 * the run with it. */
bool dfi_remote_number(dfi_exec *x, dfi_record *r, const dfi_pnode *p, dfi_operand o);
#endif
