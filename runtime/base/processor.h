/* processor.h: the three things that are asked of the processor itself: x86-64 and aarch64 have an answer, others do
 * without.
 */
#ifndef DFLOW_PROCESSOR_H
#define DFLOW_PROCESSOR_H
#include <stdatomic.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* What a thread that spins does each time round: leaves the core's units to the thread that shares them. */
static inline void dfi_relax(void) {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");                 /* some ten nanoseconds; `yield` is none on most cores */
#else
  atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Denormals are taken for zero, as inputs and as results: they cost up to twenty times. */
#if defined(__x86_64__)
#define DFI_NO_DENORMALS 0x8040u
#elif defined(__aarch64__)
#define DFI_NO_DENORMALS (1u << 24)
#else
#define DFI_NO_DENORMALS 0u
#endif

/* How this thread's floating-point unit rounds and what it does with denormals. */
static inline uint32_t dfi_float_mode(void) {
#if defined(__x86_64__)
  return _mm_getcsr();
#elif defined(__aarch64__)
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return (uint32_t)mode;
#else
  return 0;
#endif
}

static inline void dfi_set_float_mode(uint32_t mode) {
  if (dfi_float_mode() == mode) return;    /* writing it empties the pipeline */
#if defined(__x86_64__)
  _mm_setcsr(mode);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
#endif
}
#endif
