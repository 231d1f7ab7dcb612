/* persistent.c: launches of loops that are one kernel (persistent_source.c). */
#include "persistent_launch.h"
#include "kernel_cache.h"
#include <string.h>

void *dfc_persistent(void *device, const dfk_persistent *w, int64_t saved_ns, bool at_once) {
  return dfc_kernel_cache_get(device, dfc_persistent_source(w), saved_ns, false, at_once);
}

enum {
  WORDS = 2 * DFK_PERSISTENT_VARS + DFK_PERSISTENT_INPUTS + 2,
  TALLY = DFC_PERSISTENT_CONDS + DFK_PERSISTENT_CONDS + DFK_PERSISTENT_VARS
};

/* All that the kernel is given, in the order of its parameters; *n: how many words. Under the lock. */
static bool fill(dfc_gpu *g, const dfk_persistent *w, const dfi_remote_persistent *run, CUdeviceptr tally,
                 uint64_t *words) {
  bool ok = true;
  int32_t n = 0;
  for (int32_t v = 0; v < w->nvars + w->ninputs; v++) {
    const bool number = w->value[v].number;
    if (!number) ok &= dfc_mine(g, run->in_note[v]);
    words[n++] = run->in[v];
    if (v >= w->nvars || number) continue;
    ok &= dfc_mine(g, run->to_note[v]);
    words[n++] = (uint64_t)(uintptr_t)run->to[v];
  }
  words[n++] = tally;
  words[n++] = (uint64_t)run->most;
  return ok;
}

/* What the kernel counted, to the caller. */
static void tell(const dfk_persistent *w, const int64_t *tally, dfi_remote_persistent *run) {
  int32_t at = DFC_PERSISTENT_CONDS + w->nconds;
  run->ran = tally[DFC_PERSISTENT_COUNT];
  run->end = (dfk_persistent_end)tally[DFC_PERSISTENT_END];
  memcpy(run->yes, tally + DFC_PERSISTENT_CONDS, sizeof *tally * (size_t)w->nconds);
  for (int32_t v = 0; v < w->nvars; v++) if (w->value[v].number) run->in[v] = (uint64_t)tally[at++];
}

bool dfc_persistent_run(void *device, void *kernel, const dfk_persistent *w, dfi_remote_persistent *run) {
  dfc_gpu *g = device;
  uint64_t words[WORDS] = { 0 };
  int64_t counted[TALLY];
  const int64_t bytes = (int64_t)sizeof *counted * (DFC_PERSISTENT_CONDS + w->nconds + w->nvars);
  void *params[] = { words };
  dfc_enter(g);
  const CUdeviceptr tally = dfc_alloc(g, bytes);
  bool ok = tally && fill(g, w, run, tally, words);
  g->launches++;
  g->fused++;
  ok = ok && dfc_ok(g, dfc_cu.cuLaunchKernel(dfc_cached_kernel_function(kernel), 1, 1, 1,
                                             (unsigned)dfc_persistent_threads(w), 1, 1,
                                             0, dfc_stream(g), params, NULL), "a loop as one kernel");
  ok = ok && dfc_download(g, counted, tally, bytes);
  dfc_release(g, tally);
  dfc_leave(g);
  if (ok) tell(w, counted, run);
  return ok;
}

/* ---- which ops of the host's there are -------------------------------------------------------------------------- */

/* Integers that are divided, or raised: what the host looks at first. */
static bool has_care(const char *op, const uint8_t *in, const char **element, dfk_persistent_care *care) {
  static const struct { const char *op, *element; dfk_persistent_care care; } rows[] = {
    { "FloorDiv", "floor_div", DFK_PERSISTENT_NOT_ZERO }, { "FloorMod", "floor_mod", DFK_PERSISTENT_NOT_ZERO },
    { "TruncateDiv", "truncate_div", DFK_PERSISTENT_NOT_ZERO },
    { "TruncateMod", "truncate_mod", DFK_PERSISTENT_NOT_ZERO },
    { "Pow", "pow_", DFK_PERSISTENT_NOT_NEGATIVE }
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].op, op) || in[1] != in[0]) continue;
    *element = rows[i].element;
    *care = rows[i].care;
    return true;
  }
  return false;
}

/* The rows of expressions.h are the host's own, too; of functions, each side has its own. */
bool dfc_persistent_has(const char *op, int32_t nin, const uint8_t *in, int32_t out, const char **element,
                        dfk_persistent_care *care) {
  static const char *const of_floats[] = {
    "Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Neg", "Abs", "Sign", "Square", "Maximum", "Minimum", "Less",
    "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "Floor", "Ceil", "Rint", "Round", "Sqrt", "Cast",
    "SelectV2", "Relu", "Relu6", "Rsqrt", "Reciprocal", "SquaredDifference", "DivNoNan", "MulNoNan", "IsNan", "IsInf",
    "IsFinite"
  };
  int32_t attr = -1;
  bool known = in[0] >= 32 || !(DFC_FLOATS >> in[0] & 1);
  *care = DFK_PERSISTENT_ANY;
  if (nin == 2 && in[0] < 32 && (DFC_INTS >> in[0] & 1) && has_care(op, in, element, care)) return true;
  for (size_t i = 0; i < sizeof of_floats / sizeof *of_floats; i++) known |= !strcmp(of_floats[i], op);
  return known && dfc_fused_has(op, nin, in, out, element, &attr) && attr < 0;
}
