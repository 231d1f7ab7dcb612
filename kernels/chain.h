/* chain.h: several elementwise ops in one pass.
 *
 * A chain is a straight line of steps, each the loop of an elementwise kernel. It goes over its inputs block by block:
 * all steps of a block, then the next block, so what is between them stays in the first-level cache and is written to
 * memory only where another reader wants it. The loops are those of the ops alone, and an element's result does not
 * depend on where a loop begins, so the numbers are those of the ops run one after the other.
 *
 * Where some of the steps take rows (the last axes, as sums and softmax do) a block is whole rows, and a value that
 * has one element a row goes through the steps as any other: a layer norm reads its input and writes its result, once.
 * A row is folded by the function that the reduction alone calls, in an order that depends on its length.
 *
 * A fold over the axes in front ends its line: each block is added to what the rows above it have left, in the order of
 * the reduction alone, by blocks of rows that threads take apart and that are joined at the end.
 */
#ifndef DFLOW_CHAIN_H
#define DFLOW_CHAIN_H
#include "kernel.h"

/* n elements of one op. in[i] points to n elements, or to a single one where bit i of `fixed` is set (never all
 * inputs of a call, unless n is 1 and then `fixed` is 0). out may be one of the inputs that are not fixed. */
typedef void (*dfk_loop_fn)(void *out, const void *const *in, uint32_t fixed, int64_t n, double param);

/* How an elementwise kernel computes. fn is NULL where it has no loop for the dtypes. */
typedef struct dfk_loop { dfk_loop_fn fn; double param; int64_t grain; /* elements worth a thread */ } dfk_loop;

/* rows of n elements each, side by side, to one element a row or to as many as there are; then y may be x. */
typedef void (*dfk_rows_fn)(const void *x, int64_t rows, int64_t n, void *y);
typedef struct dfk_rows { dfk_rows_fn fn; bool folds; /* to one element */ } dfk_rows;

/* Rows of w elements, `stride` apart, folded into y one after the other. */
typedef void (*dfk_add_fn)(const void *x, int64_t rows, int64_t stride, int64_t w, void *y);
/* A fold over axes in front; add is NULL where there is none. what, dtype: for the kernel that has it. */
typedef struct dfk_over { dfk_add_fn add; uint8_t what, dtype; } dfk_over;

/* ROW: elements of a row at most; ROOM: bytes of all buffers of a block. FOLD_BLOCK: rows that a fold over axes in
   front takes one after the other; FOLD_LEAD: of how many elements at least. */
enum { DFK_CHAIN_STEPS = 96, DFK_CHAIN_INPUTS = 64, DFK_CHAIN_ROW = 8192, DFK_CHAIN_ROOM = 96 * 512 * 8,
       DFK_FOLD_BLOCK = 128, DFK_FOLD_LEAD = 32 };

/* What a step's result has: the whole's shape; one element a row, the last axes being 1; the same without these; a row,
   the axes in front being 1; the same without these. */
typedef enum dfk_form { DFK_FULL, DFK_KEPT, DFK_GONE, DFK_OVER_KEPT, DFK_OVER_GONE } dfk_form;

/* in[i]: the result of that earlier step, or below 0 input -1 - in[i]. */
typedef struct dfk_step {
  dfk_loop_fn fn;
  double      param;
  int16_t     in[3];
  int16_t     buffer;            /* where its result goes when it has no other reader */
  uint8_t     nin, bytes;        /* of an element of its result */
  uint8_t     in_dtype, dtype;   /* of its operands and its result */
  uint8_t     form;              /* dfk_form */
  dfk_rows_fn rows;              /* by_rows: what takes them; NULL: a GPU does */
  bool        by_rows;           /* it takes rows of operand 0. Not so, and neither fn nor element: it spreads one
                                    element a row */
  const char *element;           /* what a GPU's code calls it; NULL: the chain is the host's */
  bool        with_param;        /* there: `param` is its last operand */
  bool        alike;             /* its op wants all operands of one shape */
  dfk_over    over;              /* it folds the axes in front of operand 0, and no step reads that */
} dfk_step;

typedef struct dfk_chain {
  int32_t   nsteps, ninputs, nbuffers;
  int64_t   grain;               /* elements worth a thread */
  int64_t   row;                 /* elements of a row; 0: no step knows of rows. A row of each buffer fits ROOM */
  int32_t   lead;                /* axes before those of a row */
  int32_t   over;                /* axes that are folded in front; 0: no step does */
  int64_t   width;               /* elements of what these leave; where there are rows, of a row */
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
  char *part[DFK_CHAIN_STEPS];   /* of steps that fold in front: a row for each block of rows; NULL: not folded */
  int64_t rows, piece;           /* of these: rows of the whole, rows of a piece */
  int64_t strips;                /* that columns are cut into */
} dfk_chain_run;

/* Has this dtype loops of its own? Halves pass through blocks already. */
bool dfk_chain_plain(int32_t dtype);
/* Is `kernel` one that a chain may have? */
bool dfk_chain_has(df_kernel_fn kernel);
/* How such a kernel computes an element; fn is NULL where it has no loop. k: its attributes,
 * and inputs and output dtype of the call; the inputs' values mean nothing. */
dfk_loop dfk_chain_loop(df_kernel_fn kernel, df_kernel *k);
/* What such a kernel does with rows of this dtype; fn is NULL where it does not go by rows. */
dfk_rows dfk_chain_rows(df_kernel_fn kernel, int32_t dtype);
/* How such a kernel folds axes in front; add is NULL where it does not. */
dfk_over dfk_chain_over(df_kernel_fn kernel, int32_t dtype);
/* Does it give its result copies of its operand's elements, as broadcasting would? */
bool dfk_chain_spreads(df_kernel_fn kernel);
/* The loop that copies elements of so many bytes. */
dfk_loop_fn dfk_chain_copy(int64_t bytes);
/* Elements [begin, end) of what the dfk_chain_run at arg says, where no step knows of rows: a df_range_fn. */
void dfk_chain_range(void *arg, int64_t begin, int64_t end);
/* The same of rows [begin, end). Where rows are long (dfk_chain_long), no input's period is
 * shorter than they are. */
void dfk_chain_row_range(void *arg, int64_t begin, int64_t end);
bool dfk_chain_long(int64_t row);
/* The steps, none of which knows of rows, of n elements that all lie somewhere: in[i], a single one where fixed[i], and
   result[s]. */
void dfk_chain_steps(const dfk_chain *c, const char *const *in, const uint8_t *fixed, char *const *result, int64_t n);
/* All of a chain with folds over axes in front, `rows` rows of chain->width elements; run's outputs are there. Where
   it fails nothing has been read or written. */
int32_t dfk_chain_fold(df_kernel *k, dfk_chain_run *run, int64_t rows);
/* How an input of these dims meets the elements of a whole. False: in another way than those above. */
bool dfk_chain_meets(int32_t rank, const int64_t *dims, int32_t whole_rank, const int64_t *whole, dfk_meets *how,
                     int64_t *period);
#endif
