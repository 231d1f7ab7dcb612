/* work.h: how much a kernel call does, by its shapes alone: what entries say of it for the virtual clock. cost.c. */
#ifndef DFLOW_WORK_H
#define DFLOW_WORK_H
#include "kernels/kernel.h"

/* Changes what holds of most kernels: an operation for each element, and everything is read or written once. */
typedef void dfi_work(const df_kernel *k, double *flops, double *bytes);

/* Hands on what it takes, or looks at its shape, without touching the elements: it takes no time. */
dfi_work dfi_work_nothing;
/* Some ten operations an element: a polynomial. */
dfi_work dfi_work_curve;
/* A product of matrices. */
dfi_work dfi_work_product;
/* A convolution, or its gradient for its input or its filter; depthwise: a filter for each channel. */
dfi_work dfi_work_convolution, dfi_work_depthwise;
/* A cell of a recurrent network: each of its matrices once for each row of the batch. */
dfi_work dfi_work_cell;
/* A step of an optimizer: its variables come first, handles or references; each is read and written as far as the
   gradient, the largest of what follows, goes, at some ten operations an element. */
dfi_work dfi_work_step;
/* Reads a part of its first input, as much as it puts out: a slice, a gather. */
dfi_work dfi_work_part;
/* Changes a part of its first input in place, as much as its last one has: an assignment to rows. */
dfi_work dfi_work_change;
/* A matrix taken apart, inverted or solved for. */
dfi_work dfi_work_factors;

/* The flops and bytes of a call; of: the entry's, or NULL. */
void dfi_kernel_work(dfi_work *of, const df_kernel *k, double *flops, double *bytes);
#endif
