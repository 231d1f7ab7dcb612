/* elementwise.h: what the elementwise kernels of the CPU share: the loop that each op has per dtype, and the
 * driver (elementwise.c) that broadcasts, reuses memory, converts halves and splits the work.
 */
#ifndef DFLOW_CPU_ELEMENTWISE_H
#define DFLOW_CPU_ELEMENTWISE_H
#include "../chain.h"
#include "../elementwise.h"

typedef dfk_loop_fn ew_loop;

typedef struct ew_op {
  /* by the dtype of the last input; halves go through the float32 loop if they have none */
  ew_loop loop[DF_UINT64 + 1];
  int64_t grain;                  /* elements worth a thread of their own */
} ew_op;
enum { EW_LIGHT = 16384, EW_HEAVY = 4096 };

/* An input seen with these dims instead of its own. */
typedef struct ew_view { int32_t rank; const int64_t *dims; } ew_view;

/* Output 0 is op of the 1, 2 or 3 inputs, broadcast. views may be NULL. */
int32_t cpu_ew_run(df_kernel *k, const ew_op *op, double param, const ew_view *views);

/* No lane depends on another: out and an input are either the same or apart. */
#if defined(__clang__)
#define EW_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define EW_LANES _Pragma("GCC ivdep")
#endif
#endif
