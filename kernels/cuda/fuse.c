/* fuse.c: elementwise ops that hang together, as one kernel.
 *
 * The runtime groups them (plan/group.c) as it does for the CPU, and a chain says what each step computes of what.
 * Here a chain becomes the source of one kernel (fuse_source.c), whose numbers are those of the ops one by one. Until
 * that is compiled (kernel_cache.c), and for good where there is no NVRTC, each op runs alone.
 */
#include "fuse.h"
#include "kernel_cache.h"
#include <string.h>

enum { LAUNCH_NS = 3000 };

void *dfc_fused(void *device, const dfk_chain_run *run, uint64_t on_host, int64_t n, int64_t times, bool at_once) {
  const int64_t saved_ns = (run->chain->nsteps - 1) * (LAUNCH_NS + n / 256) * times;
  return dfc_kernel_cache_get(device, dfc_fused_source(run, on_host), saved_ns, true, at_once);
}

/* Bytes of input i. */
static int64_t bytes_of(const dfk_chain_run *r, int32_t i, int64_t n) {
  const int64_t period = r->input[i].period;
  const dfk_meets how = r->input[i].how;
  return r->chain->input_bytes[i] *
         (how == DFK_ALL ? n : how == DFK_ROWS ? period : how == DFK_COLUMN ? n / period : 1);
}

/* What input i is in the parameters: its address, or the number itself. A tensor of the host's is copied to `copy`. */
static bool argument(dfc_gpu *g, const dfk_chain_run *r, int32_t i, int64_t n, void *note, CUdeviceptr *copy,
                     uint64_t *word) {
  const void *data = r->input[i].data;
  if (note) { *word = (uint64_t)(uintptr_t)data; return dfc_mine(g, note); }
  if (r->input[i].how == DFK_NUMBER) { memcpy(word, data, (size_t)r->chain->input_bytes[i]); return true; }
  const int64_t bytes = bytes_of(r, i, n);
  *word = *copy = dfc_alloc(g, bytes);
  return *copy && dfc_upload(g, *copy, data, bytes);
}

bool dfc_fused_run(void *device, void *kernel, const dfk_chain_run *r, int64_t n, void *const *in_note,
                   void *const *out_note) {
  enum { THREADS = 256, WORDS = 2 * DFK_CHAIN_INPUTS + DFK_CHAIN_STEPS + 1 };
  const dfk_chain *c = r->chain;
  dfc_gpu *g = device;
  uint64_t words[WORDS] = { 0 };
  CUdeviceptr copy[DFK_CHAIN_INPUTS] = { 0 };
  int32_t at = 0;
  bool ok = true;
  dfc_enter(g);
  for (int32_t i = 0; i < c->ninputs; i++) {
    ok &= argument(g, r, i, n, in_note[i], &copy[i], &words[at++]);
    if (r->input[i].how == DFK_ROWS || r->input[i].how == DFK_COLUMN) words[at++] = (uint64_t)r->input[i].period;
  }
  for (int32_t s = 0; s < c->nsteps; s++) {
    if (!r->out[s]) continue;
    ok &= dfc_mine(g, out_note[s]);
    words[at++] = (uint64_t)(uintptr_t)r->out[s];
  }
  words[at++] = (uint64_t)n;
  void *params[] = { words };
  const bool blocks = c->row > DFC_REDUCE_SHORT;         /* one for each row; else a thread for each, or each element */
  const int32_t threads = blocks ? DFC_REDUCE_BLOCK : THREADS;
  const int64_t rows = c->row ? n / c->row : n, wanted = blocks ? rows : (rows + THREADS - 1) / THREADS;
  const int64_t most = blocks ? 1 << 30 : (int64_t)g->processors * 64;
  g->launches++;
  g->fused++;
  ok = ok && dfc_ok(g, dfc_cu.cuLaunchKernel(dfc_cached_kernel_function(kernel),
                                             (unsigned)(wanted < most ? wanted : most), 1, 1,
                                             (unsigned)threads, 1, 1, 0, dfc_stream(g), params, NULL),
                   "a fused kernel");
  for (int32_t i = 0; i < c->ninputs; i++) dfc_release(g, copy[i]);
  dfc_leave(g);
  return ok;
}
