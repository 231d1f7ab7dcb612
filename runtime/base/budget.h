/* budget.h: hostile files cost what they weigh. */
#ifndef DFLOW_BUDGET_H
#define DFLOW_BUDGET_H
#include <stdint.h>

/* How many bytes a file of that size may unpack to: 2^30 or 100 times its size, whichever is more; DFLOW_UNPACK_LIMIT
 * in the environment is a number of bytes in the place of 2^30. */
int64_t dfi_unpack_budget(int64_t bytes);
#endif
