/* cell.h: a step of a recurrent cell in one pass: products whose columns are gates side by side, a bias, and what is
 * computed of the gates, element by element.
 *
 * The products of some rows and of a block of units, in all gates, stays in the first-level cache while the chain goes
 * over it, so that what is between them is never written to memory: no gates, no sums with the bias, no parts of these,
 * and no row of an input beside a state. The sums are those of the product alone and the loops those of the ops alone,
 * so the numbers are those of the ops run one after the other.
 */
#ifndef DFLOW_CELL_H
#define DFLOW_CELL_H
#include "chain.h"

/* DFK_CELL_VALUES: inputs and results of its chain. */
enum { DFK_CELL_SOURCES = 3, DFK_CELL_TERMS = 4, DFK_CELL_PARTS = 4, DFK_CELL_GATES = 8, DFK_CELL_PRODUCTS = 4,
       DFK_CELL_VALUES = 32 };

/* What is added to what was added up before: a product; a number for each column; one for each element. */
typedef enum dfk_term_kind { DFK_PRODUCT, DFK_VECTOR, DFK_MATRIX } dfk_term_kind;
typedef struct dfk_term {
  dfk_term_kind kind;
  int32_t nparts;              /* what is multiplied is these, [rows, width] each, side by side */
  struct { const float *data; int64_t width; } part[DFK_CELL_PARTS];
  const df_tensor *weights;    /* float32, gates units wide, or as high where `turned` */
  bool    turned;
  const float *data;           /* of a vector or matrix */
  const void *product;         /* what dfk_cell_begin found out */
} dfk_term;

/* A sum whose columns are gates. The first term is a product. */
typedef struct dfk_source { int64_t gates; int32_t nterms; dfk_term term[DFK_CELL_TERMS]; } dfk_source;

typedef struct dfk_cell {
  int64_t rows, units;
  int32_t nsources;
  dfk_source source[DFK_CELL_SOURCES];
  int8_t  gate[DFK_CHAIN_INPUTS];      /* of the chain: which gate it is, those of the first source first; below 0:
                                          run's input */
  const dfk_chain_run *run;    /* of [rows, units] */
  int64_t inner, gates;        /* of all products, and sources: dfk_cell_begin adds them up */
} dfk_cell;

/* Could a chain of this kind be a cell's? */
bool dfk_cell_fits(const dfk_chain *c);
/* Is it done in one pass, with the same numbers? `room` holds DFK_CELL_ROOM bytes until it has run. */
enum { DFK_CELL_ROOM = 1024 };
bool dfk_cell_begin(df_kernel *k, dfk_cell *c, void *room);
/* Writes the chain's results. DF_OK or DF_RESOURCE_EXHAUSTED, and nothing is written. */
int32_t dfk_cell_run(df_kernel *k, const dfk_cell *c);
#endif
