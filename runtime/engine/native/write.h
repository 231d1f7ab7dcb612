/* write.h: what write.c (loops, branches, arrays, ways out) and write_op.c (arithmetic) share. */
#ifndef DFLOW_WRITE_H
#define DFLOW_WRITE_H
#include "engine/native/look.h"

typedef struct dfi_writer {
  dfi_look *look;
  dfi_unit *unit;
  dfi_text  decl, body, tail;       /* the entry block, what follows, and the ways out */
  dfi_text  outside;                /* declarations */
  int32_t   ntemp, nlabel, nopaque;
  dfi_done *done; int32_t ndone;    /* effects so far of the iterations that stand open where it writes */
  uint32_t  nout;
  int32_t   lanes;                  /* write_op.c writes of so many elements at once; 0: of a number */
  bool      dry;                    /* nothing is kept of what is written: can it be? */
  bool      calls;                  /* it met an op that is called by its address */
  char      type[8][32]; int32_t ntypes;      /* dfi_lanes' answers */
} dfi_writer;

/* How a number of this dtype lies in memory. */
const char *dfi_type(uint8_t dtype);
dfi_name dfi_temp(dfi_writer *w);
/* The same of as many as w->lanes says: `<8 x float>`. Stays for a few calls. */
const char *dfi_lanes(dfi_writer *w, uint8_t dtype);
/* A function that the assembly uses, declared once. */
void dfi_declare(dfi_writer *w, const char *declaration);
/* The value of an operand of loop i, and its dtype; of a small tensor where its elements lie. */
dfi_name dfi_write_operand(dfi_writer *w, int32_t i, dfi_operand o, uint8_t *dtype);
/* Copies n elements. */
void dfi_write_copy(dfi_writer *w, uint8_t dtype, int64_t n, const char *to, const char *from);
/* write_tensor.c: a node of whose operands and result some are small tensors. */
void dfi_write_tensor_op(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* write_kernel.c: the node's kernel is called. */
void dfi_write_call(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* Leaves the unit where `condition` (an i1) holds: the node of loop i that comes next is about to fail. */
void dfi_write_fail(dfi_writer *w, int32_t i, dfi_name condition);
/* The node's result from its operands, which lie as dfi_type says, and so does the result. */
dfi_name dfi_write_op(dfi_writer *w, int32_t i, const dfi_pnode *p, const dfi_name *in, const uint8_t *in_dtype);
bool dfi_is_identity(const dfi_pnode *p);
/* AddN adds one operand after the other. */
bool dfi_is_sum(const dfi_pnode *p);
dfi_name dfi_write_sum(dfi_writer *w, uint8_t dtype, dfi_name sum, dfi_name more);
#endif
