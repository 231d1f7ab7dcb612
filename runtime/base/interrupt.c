/* interrupt.c: runs and long calls are asked to stop: each compares what it saw when it began with these counts. */
#include "base/internal.h"

_Atomic int64_t dfi_interrupts, dfi_calls_interrupted;

void df_interrupt(void) {
  atomic_fetch_add(&dfi_interrupts, 1);
  atomic_fetch_add(&dfi_calls_interrupted, 1);
}
void df_interrupt_calls(void) { atomic_fetch_add(&dfi_calls_interrupted, 1); }
