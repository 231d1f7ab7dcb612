/* chain.h: several elementwise ops in one pass.
 *
 * A chain is a straight line of steps, each the loop of an elementwise kernel. It goes over its inputs block by block:
 * all steps of a block, then the next block, so what is between them stays in the first-level cache and is written to
 * memory only where somebody else wants it. The loops are those of the ops alone, and an element's result does not
 * depend on where a loop begins, so the numbers are those of the ops run one after the other.
 */
#ifndef DFLOW_CHAIN_H
#define DFLOW_CHAIN_H
#include "kernel.h"

/* n elements of one op. in[i] points to n elements, or to a single one where bit i of `fixed` is set (never all
 * inputs of a call, unless n is 1 and then `fixed` is 0). out may be one of the inputs that are not fixed. */
typedef void (*dfk_loop_fn)(void *out, const void *const *in, uint32_t fixed, int64_t n, double param);

/* How an elementwise kernel computes. fn is NULL where it has no loop for the dtypes. */
typedef struct dfk_loop { dfk_loop_fn fn; double param; int64_t grain; /* elements worth a thread */ } dfk_loop;

enum { DFK_CHAIN_STEPS = 96, DFK_CHAIN_INPUTS = 64 };

/* in[i]: the result of that earlier step, or below 0 input -1 - in[i]. */
typedef struct dfk_step {
  dfk_loop_fn fn;
  double      param;
  int16_t     in[3];
  int16_t     buffer;            /* where its result goes when nobody else wants it */
  uint8_t     nin, bytes;        /* of an element of its result */
  uint8_t     in_dtype, dtype;   /* of its operands and its result */
  const char *element;           /* what a GPU's code calls it; NULL: the chain is the host's */
  bool        alike;             /* its op wants all operands of one shape */
} dfk_step;

typedef struct dfk_chain {
  int32_t   nsteps, ninputs, nbuffers;
  int64_t   grain;               /* elements worth a thread */
  dfk_step *step;
  uint8_t  *input_bytes;         /* of an element of each input; 1, 2, 4 or 8 */
  uint8_t  *input_dtype;
} dfk_chain;

/* How an input meets the elements of the whole: all of it; one number; `period` elements again and again; each element
   `period` times. */
typedef enum dfk_meets { DFK_ALL, DFK_NUMBER, DFK_ROWS, DFK_COLUMN } dfk_meets;

typedef struct dfk_chain_run {
  const dfk_chain *chain;
  struct { const char *data; dfk_meets how; int64_t period; } input[DFK_CHAIN_INPUTS];
  char *out[DFK_CHAIN_STEPS];    /* where a step's result goes; NULL: nowhere */
} dfk_chain_run;

/* Is `kernel` one that a chain may have? */
bool dfk_chain_has(df_kernel_fn kernel);
/* How such a kernel computes an element; fn is NULL where it has no loop. k: its attributes,
 * and inputs and output dtype of the call; the inputs' values mean nothing. */
dfk_loop dfk_chain_loop(df_kernel_fn kernel, df_kernel *k);
/* Elements [begin, end) of what the dfk_chain_run at arg says: a df_range_fn. */
void dfk_chain_range(void *arg, int64_t begin, int64_t end);
/* How an input of these dims meets the elements of a whole. False: in another way than those above. */
bool dfk_chain_meets(int32_t rank, const int64_t *dims, int32_t whole_rank, const int64_t *whole, dfk_meets *how,
                     int64_t *period);
#endif
