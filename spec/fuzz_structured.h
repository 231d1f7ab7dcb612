/* fuzz_structured.h: graphs that are valid messages and say hostile things. */
#ifndef DFLOW_FUZZ_STRUCTURED_H
#define DFLOW_FUZZ_STRUCTURED_H
#include <stddef.h>
#include <stdint.h>

uint32_t fuzz_draw(uint32_t n);                  /* fuzz_graphdef.c: from 0 to n - 1 */
int64_t  fuzz_hostile(void);                     /* 0, -1, 2^31 - 1, … and now and then a harmless number */

/* The GraphDef in `bytes` with a few of its attributes, types, shapes, values, inputs and names changed. How long it is
 * now; 0: it is none, or the result needs more than `room`. */
size_t fuzz_mutate(uint8_t *bytes, size_t n, size_t room);
/* A graph of one op of the registry: its inputs are constants, variables or resources, its attributes are drawn. */
size_t fuzz_op(uint8_t *bytes, size_t room);
#endif
