/* strict.h: what a CUDA kernel finds when the host's C++ compiler compiles it for the driver for tests: its place in
 * the grid, barriers, shuffles, shared memory. The threads of a block are fibres (fibre.h); blocks come in a seeded
 * order, and so do the threads of a block between two barriers. */
#ifndef DFLOW_STRICT_H
#define DFLOW_STRICT_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __forceinline__ inline

struct strict_dim { unsigned x, y, z; };
struct strict_place { strict_dim thread, block, threads, blocks; };
#define STRICT_SHOWN __attribute__((visibility("default")))      /* to code that NVRTC for tests made */
extern STRICT_SHOWN strict_place strict_here;            /* of the thread that runs */
#define threadIdx strict_here.thread
#define blockIdx  strict_here.block
#define blockDim  strict_here.threads
#define gridDim   strict_here.blocks

STRICT_SHOWN void strict_barrier();                      /* __syncthreads */
/* The value that thread `lane` of this warp gives; every thread of the warp that has not ended comes here. */
STRICT_SHOWN uint64_t strict_exchange(uint64_t mine, int lane);
STRICT_SHOWN int strict_lane();
static inline void __syncthreads() { strict_barrier(); }
template <class T> static inline T strict_shuffle(T mine, int lane) {
  uint64_t bits = 0, got;
  memcpy(&bits, &mine, sizeof mine);
  got = strict_exchange(bits, lane & 31);
  memcpy(&mine, &got, sizeof mine);
  return mine;
}
template <class T> static inline T __shfl_sync(unsigned, T v, int lane) { return strict_shuffle(v, lane); }
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int mask) {
  return strict_shuffle(v, strict_lane() ^ mask);
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, int by) {
  return strict_shuffle(v, strict_lane() + by < 32 ? strict_lane() + by : strict_lane());
}

/* A conditional node of the graph that runs goes by this from now on: see graphs.h. */
STRICT_SHOWN void strict_set_condition(uint64_t handle, unsigned value);
static inline void cudaGraphSetConditional(uint64_t handle, unsigned value) { strict_set_condition(handle, value); }

/* One block runs at a time, so shared memory is static; it is poisoned before each block. Each program or library has a
 * section of it, and says where. */
extern char __start_strict_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_strict_shared[] __attribute__((weak, visibility("hidden")));
struct STRICT_SHOWN strict_section {
  char *at, *end;
  strict_section *next;
  strict_section(char *at, char *end);
};
static strict_section strict_section_here(__start_strict_shared, __stop_strict_shared);
#define DFC_SHARED static __attribute__((section("strict_shared")))

/* A kernel, found by its name. */
struct STRICT_SHOWN strict_kernel {
  const char *name;
  size_t bytes;                             /* of its one parameter */
  void (*body)(const void *p);
  strict_kernel *next;
  mutable const strict_section *shared = nullptr;      /* that of its program or library, once somebody has `looked` */
  mutable bool looked = false;
  strict_kernel(const char *name, size_t bytes, void (*body)(const void *));
};
#define DFC_KERNEL(name, P) \
  static void name(const P &p); \
  static strict_kernel name##_entry(#name, sizeof(P), [](const void *p) { name(*(const P *)p); }); \
  static void name(const P &p)
#endif
