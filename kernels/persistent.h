/* persistent.h: a loop whose state is small, as a straight line of steps that a device has in one kernel, iteration
 * after iteration.
 *
 * Values are numbered: first the variables, then the inputs, which do not change, then what steps make. Those of one
 * element are known to all threads alike; the elements of others are shared out among the threads of one block.
 * Between OPEN and CLOSE are the two sides of a cond; an iteration is one where the predicate said yes (ON).
 */
#ifndef DFLOW_PERSISTENT_H
#define DFLOW_PERSISTENT_H
#include <stdbool.h>
#include <stdint.h>

/* SIZE: elements of a value; ROOM: bytes of all that threads tell each other */
enum { DFK_PERSISTENT_VARS = 64, DFK_PERSISTENT_INPUTS = 128, DFK_PERSISTENT_STEPS = 1024, DFK_PERSISTENT_CONDS = 32,
       DFK_PERSISTENT_RANK = 8,
       DFK_PERSISTENT_SIZE = 4096, DFK_PERSISTENT_ROOM = 32 << 10 };

/* ELEMENT: an elementwise op, with broadcasting. REDUCE: in[0] as [outer, reduced, inner], over `reduced`. SAME: the
 * elements of in[0], in other dims, or as one side of a cond gives them. ON: does it go on, by in[0]? OPEN, OTHERWISE,
 * CLOSE: where in[0] is true, is not, and behind; `which` cond that is. */
typedef enum dfk_persistent_do {
  DFK_PERSISTENT_ELEMENT, DFK_PERSISTENT_REDUCE, DFK_PERSISTENT_SAME, DFK_PERSISTENT_ON, DFK_PERSISTENT_OPEN,
  DFK_PERSISTENT_OTHERWISE, DFK_PERSISTENT_CLOSE
} dfk_persistent_do;
/* What number operand 1 must not be, as the host would refuse it: 0; or less than 0. The iteration is left to it. */
typedef enum dfk_persistent_care {
  DFK_PERSISTENT_ANY, DFK_PERSISTENT_NOT_ZERO, DFK_PERSISTENT_NOT_NEGATIVE
} dfk_persistent_care;

typedef struct dfk_persistent_value {
  uint8_t dtype;
  bool    number;                /* of a variable or an input: it comes with the launch; else it lies on the device */
  int32_t rank, dims[DFK_PERSISTENT_RANK], size;
} dfk_persistent_value;

typedef struct dfk_persistent_step {
  dfk_persistent_do what;
  int32_t     out, in[3], nin;   /* values */
  const char *element;           /* what the device's code calls it: dfi_gpu_api.fuses */
  dfk_persistent_care care;
  bool        with_param;        /* `param` is its last operand */
  double      param;
  int32_t     outer, reduced, inner;
  int32_t     which;
} dfk_persistent_step;

typedef struct dfk_persistent {
  int32_t nvars, ninputs, nvalues, nsteps, nconds;
  dfk_persistent_value *value;
  dfk_persistent_step *step;
  int32_t *next;                 /* by variable: the value that it becomes */
} dfk_persistent;

/* Why a launch has come to its end: it has had its iterations; the predicate said no; a number is wrong. */
typedef enum dfk_persistent_end { DFK_PERSISTENT_ENOUGH, DFK_PERSISTENT_OVER, DFK_PERSISTENT_WRONG } dfk_persistent_end;
#endif
