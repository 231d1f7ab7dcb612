/* cell.h: a step of a recurrent cell in one pass: a product whose columns are gates side by side, a bias, and what is
 * computed of the gates, element by element.
 *
 * The product of some rows and of a block of units, in all gates, stays in the first-level cache while the chain goes
 * over it, so that what is between them is never written to memory: no gates, no sums with the bias, no parts of these,
 * and no row of an input beside a state. The sums are those of the product alone and the loops those of the ops alone,
 * so the numbers are those of the ops run one after the other.
 */
#ifndef DFLOW_CELL_H
#define DFLOW_CELL_H
#include "chain.h"

enum { DFK_CELL_PARTS = 4, DFK_CELL_GATES = 8, DFK_CELL_VALUES = 32 /* inputs, results and buffers of its chain */ };

typedef struct dfk_cell {
  int64_t rows, units, gates;
  int32_t nparts;              /* what is multiplied is these, [rows, width] each, side by side */
  struct { const float *data; int64_t width; } part[DFK_CELL_PARTS];
  const df_tensor *weights;    /* float32, gates units wide, or as high where `turned` */
  bool    turned;
  const float *bias;           /* gates units numbers; NULL: there is none */
  int8_t  gate[DFK_CHAIN_INPUTS];      /* of the chain: which gate it is; below 0: run's input */
  const dfk_chain_run *run;    /* of [rows, units] */
  const void *product;         /* what dfk_cell_begin found out; owned by its caller */
} dfk_cell;

/* Could a chain of this kind be a cell's? */
bool dfk_cell_fits(const dfk_chain *c);
/* Is it done in one pass, with the same numbers? `room` holds DFK_CELL_ROOM bytes until it has run. */
enum { DFK_CELL_ROOM = 256 };
bool dfk_cell_begin(df_kernel *k, dfk_cell *c, void *room);
/* Writes the chain's results. DF_OK or DF_RESOURCE_EXHAUSTED, and nothing is written. */
int32_t dfk_cell_run(df_kernel *k, const dfk_cell *c);
#endif
