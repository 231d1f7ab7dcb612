/* stress.h: DFLOW_STRESS, which makes rare things common: words such as `shuffle:7`, `swap`, `oom:100`. */
#ifndef DFLOW_STRESS_H
#define DFLOW_STRESS_H
#include <stdbool.h>
#include <stdint.h>

/* Is this kind of stress among the words? `seed`, which may be NULL, gets the number after it; without one 0. */
bool dfi_stress(const char *kind, uint64_t *seed);
#endif
