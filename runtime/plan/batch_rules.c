/* batch_rules.c: how calls of a kernel are computed as one: see batch.h. */
#include "plan/batch.h"
#include "kernels/array.h"
#include "kernels/chain.h"
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/linalg.h"
#include "kernels/nn.h"
#include "kernels/reduce.h"
#include "resource/late.h"

/* Is input i there, with elements that are mere bytes? */
static bool plain(const df_kernel *k, int32_t i) { return k->in[i] && dfk_plain(k->in[i]->dtype); }

static bool all_plain(const df_kernel *k) {
  for (int32_t i = 0; i < k->nin; i++) if (!plain(k, i)) return false;
  return k->nin > 0 && k->nin <= DFI_BATCH_INPUTS;
}

/* Does input t, of no more axes, broadcast to `whole`; is it the whole's own shape; is it the same in all its rows? */
typedef struct fit { bool fits, whole, one_row; } fit;
static fit fit_of(const df_tensor *t, const df_tensor *whole) {
  fit f = { t->rank <= whole->rank, t->rank == whole->rank, t->rank < whole->rank || t->dims[0] == 1 };
  for (int32_t d = 1; d <= t->rank && f.fits; d++) {
    const int64_t own = t->dims[t->rank - d], all = whole->dims[whole->rank - d];
    f.whole = f.whole && own == all;
    f.fits = own == all || own == 1;
  }
  return f;
}

static bool elements(const df_kernel *k, dfi_batching *how) {
  if (!all_plain(k)) return false;
  const df_tensor *whole = k->in[0];
  for (int32_t i = 1; i < k->nin; i++) {
    const df_tensor *t = k->in[i];
    if (t->rank > whole->rank || (t->rank == whole->rank && t->size > whole->size)) whole = t;
  }
  if (whole->rank == 0 || whole->size == 0) return false;
  for (int32_t i = 0; i < k->nin; i++) {
    const fit f = fit_of(k->in[i], whole);
    if (!f.fits || !(f.whole || f.one_row)) return false;
    if (f.whole) how->rows |= 1u << i;
    if (f.one_row) how->shared |= 1u << i;
  }
  return true;
}

/* From here on a product is large enough alone, and a library may have it, which adds up in an order of its own. */
enum { LARGE_PRODUCT = 512 * 512 };

static bool product(const df_kernel *k, dfi_batching *how) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  if (!a || !b || a->rank != 2 || b->rank != 2 || dfk_bool(k, 0) || a->size == 0 || b->size == 0) return false;
  if (a->dtype != DF_FLOAT32 && a->dtype != DF_FLOAT64 && a->dtype != DF_INT32 && a->dtype != DF_INT64) return false;
  const int64_t n = b->dims[!dfk_bool(k, 1)];
  if (a->dims[1] != b->dims[dfk_bool(k, 1)] || a->dims[0] * n > LARGE_PRODUCT) return false;
  *how = (dfi_batching){ .rows = 1, .shared = 2 };
  return true;
}

static bool rows(const df_kernel *k, dfi_batching *how) {
  if (!all_plain(k) || k->in[0]->rank < 2 || k->in[0]->size == 0) return false;
  *how = (dfi_batching){ .rows = 1, .shared = ~1u };
  return true;
}

/* The axis that input i names, of a value with so many axes; 0: the first, or none. */
static int64_t axis_of(const df_kernel *k, int32_t i, int32_t rank) {
  if (k->in[i]->size != 1) return 0;
  const int64_t axis = dfk_index(k->in[i], 0);
  return axis < 0 ? axis + rank : axis;
}

static bool concat(const df_kernel *k, dfi_batching *how) {
  const int32_t last = k->nin - 1;
  if (!all_plain(k) || k->in[0]->rank < 2) return false;
  for (int32_t i = 0; i < last; i++)
    if (k->in[i]->rank != k->in[0]->rank || k->in[i]->dims[0] != k->in[0]->dims[0]) return false;
  if (k->in[0]->dims[0] == 0 || axis_of(k, last, k->in[0]->rank) <= 0) return false;
  *how = (dfi_batching){ .rows = (1u << last) - 1, .shared = 1u << last };
  return true;
}

static bool parts(const df_kernel *k, int32_t value, int32_t axis, dfi_batching *how) {
  if (!all_plain(k) || k->in[value]->rank < 2 || k->in[value]->size == 0) return false;
  if (axis_of(k, axis, k->in[value]->rank) <= 0) return false;
  *how = (dfi_batching){ .rows = 1u << value, .shared = ~(1u << value) };
  return true;
}
static bool split(const df_kernel *k, dfi_batching *how) { return parts(k, 1, 0, how); }
static bool split_v(const df_kernel *k, dfi_batching *how) { return parts(k, 0, 2, how); }

static bool gather(const df_kernel *k, dfi_batching *how) {
  if (!all_plain(k) || k->in[0]->rank < 1 || dfk_int(k, 0)) return false;
  if (k->in[2]->size != 1 || dfk_index(k->in[2], 0) != 0) return false;
  if (k->in[1]->rank + k->in[0]->rank > DF_MAX_RANK) return false;
  *how = (dfi_batching){ .rows = 2, .shared = ~2u, .fresh = true };
  return true;
}

/* ---- which kernels ----------------------------------------------------------------------------------------------- */

static const dfi_batch_rule rules[] = {
  { cpu_matmul, product, dfk_matmul_members, dfi_late_product },
  { cpu_fill, NULL, NULL, dfi_late_fill },
  { cpu_unsorted_segment_sum, NULL, NULL, dfi_late_segments },
  { cpu_concat, concat },
  { cpu_split, split },
  { cpu_split_v, split_v },
  { cpu_gather, gather },
  { cpu_softmax, rows },
  { cpu_log_softmax, rows },
  { cpu_bias_add, rows },
};
static const dfi_batch_rule elementwise = { NULL, elements }, sum = { NULL, NULL, NULL, dfi_late_add },
                            elementwise_sum = { NULL, elements, NULL, dfi_late_add };

const dfi_batch_rule *dfi_batch_rule_of(const dfi_pnode *p) {
  const bool adds = p->op->traits & DFO_ADDS;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) if (rules[i].kernel == p->kernel) return &rules[i];
  if (dfk_chain_has(p->kernel)) return adds ? &elementwise_sum : &elementwise;
  return adds ? &sum : NULL;
}
