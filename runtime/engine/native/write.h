/* write.h: what write.c (loops, branches, arrays, ways out) and write_op.c (arithmetic) share. */
#ifndef DFLOW_WRITE_H
#define DFLOW_WRITE_H
#include "engine/native/look.h"

typedef struct dfi_name { char s[48]; } dfi_name;      /* a value of the assembly: `%t12`, or a number */

typedef struct dfi_writer {
  dfi_look *look;
  dfi_unit *unit;
  dfi_text  decl, body, tail;       /* the entry block, what follows, and the ways out */
  int32_t   ntemp, nlabel, nopaque;
  dfi_done *done; int32_t ndone;    /* effects so far of the iterations that stand open where it writes */
  uint32_t  nout;
  bool      calls;                  /* an op is called by its address */
} dfi_writer;

/* How a number of this dtype lies in memory. */
const char *dfi_type(uint8_t dtype);
dfi_name dfi_temp(dfi_writer *w);
/* Leaves the unit where `condition` (an i1) holds: the node of loop i that comes next is about to fail. */
void dfi_write_fail(dfi_writer *w, int32_t i, dfi_name condition);
/* The node's result from its operands, which lie as dfi_type says, and so does the result. */
dfi_name dfi_write_op(dfi_writer *w, int32_t i, const dfi_pnode *p, const dfi_name *in, const uint8_t *in_dtype);
/* AddN adds one operand after the other. */
bool dfi_is_sum(const dfi_pnode *p);
dfi_name dfi_write_sum(dfi_writer *w, uint8_t dtype, dfi_name sum, dfi_name more);
#endif
