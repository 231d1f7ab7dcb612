/* whole.h: a loop whose state is small, as a straight line of steps that a device has in one kernel, iteration after
 * iteration.
 *
 * Values are numbered: first the variables, then the inputs, which do not change, then what steps make. Those of one
 * element are known to all threads alike; the elements of others are shared out among the threads of one block.
 * Between OPEN and CLOSE are the two sides of a cond; an iteration is one where the predicate said yes (ON).
 */
#ifndef DFLOW_WHOLE_H
#define DFLOW_WHOLE_H
#include <stdbool.h>
#include <stdint.h>

/* SIZE: elements of a value; ROOM: bytes of all that threads tell each other */
enum { DFK_WHOLE_VARS = 64, DFK_WHOLE_INPUTS = 128, DFK_WHOLE_STEPS = 1024, DFK_WHOLE_CONDS = 32, DFK_WHOLE_RANK = 8,
       DFK_WHOLE_SIZE = 4096, DFK_WHOLE_ROOM = 32 << 10 };

/* ELEMENT: an elementwise op, with broadcasting. FOLD: in[0] as [outer, fold, inner], over `fold`. SAME: the elements
 * of in[0], in other dims, or as one side of a cond gives them. ON: does it go on, by in[0]? OPEN, OTHERWISE, CLOSE:
 * where in[0] is true, is not, and behind; `which` cond that is. */
typedef enum dfk_whole_do {
  DFK_WHOLE_ELEMENT, DFK_WHOLE_FOLD, DFK_WHOLE_SAME, DFK_WHOLE_ON, DFK_WHOLE_OPEN, DFK_WHOLE_OTHERWISE, DFK_WHOLE_CLOSE
} dfk_whole_do;
/* What number operand 1 must not be, as the host would refuse it: 0; or less than 0. The iteration is left to it. */
typedef enum dfk_whole_care { DFK_WHOLE_ANY, DFK_WHOLE_NOT_ZERO, DFK_WHOLE_NOT_NEGATIVE } dfk_whole_care;

typedef struct dfk_whole_value {
  uint8_t dtype;
  bool    number;                /* of a variable or an input: it comes with the launch; else it lies on the device */
  int32_t rank, dims[DFK_WHOLE_RANK], size;
} dfk_whole_value;

typedef struct dfk_whole_step {
  dfk_whole_do what;
  int32_t     out, in[3], nin;   /* values */
  const char *element;           /* what the device's code calls it: dfi_gpu_api.fuses */
  dfk_whole_care care;
  bool        with_param;        /* `param` is its last operand */
  double      param;
  int32_t     outer, fold, inner;
  int32_t     which;
} dfk_whole_step;

typedef struct dfk_whole {
  int32_t nvars, ninputs, nvalues, nsteps, nconds;
  dfk_whole_value *value;
  dfk_whole_step *step;
  int32_t *next;                 /* by variable: the value that it becomes */
} dfk_whole;

/* Why a launch has come to its end: it has had its iterations; the predicate said no; a number is wrong. */
typedef enum dfk_whole_end { DFK_WHOLE_ENOUGH, DFK_WHOLE_OVER, DFK_WHOLE_WRONG } dfk_whole_end;
#endif
