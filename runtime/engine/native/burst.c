/* burst.c: for how many iterations can native code read and write arrays without looking at each location? What
 * write_burst.c writes asks before, and tells afterwards.
 */
#include "engine/native/native.h"
#include "resource/tensor_array.h"

/* Iterations until it is asked again: where an array has had no window yet, and where there will be no bursts. */
enum { SOON = 8, LATER = 4096 };

static bool writes(const dfi_unit *u, int64_t access) { return u->access[access].node->out_dtypes[0] == DF_RESOURCE; }

/* What is written has no other reader, and the states of what is read have no other writer. */
static bool alone(const dfi_native_frame *c, int64_t access, int64_t first, int64_t n) {
  const dfi_access *a = &c->access[access];
  if (!writes(c->unit, access) && a->after == DFI_SLOT_WRITTEN) return true; /* the writer says so itself */
  for (int64_t k = first; k < first + n; k++)
    if (k != access && c->access[k].array == a->array) return false;
  return true;
}

int64_t dfi_native_burst(dfi_native_frame *c, int64_t access, int64_t n, const int64_t *index, int64_t most) {
  for (int64_t k = 0; k < n; k++) {
    const dfi_access *a = &c->access[access + k];
    const int64_t step = c->unit->access[access + k].step, rel = index[k] - a->low;
    if (!a->n) return -SOON;
    if (rel < 0 || rel >= a->n) return -1; /* the next access in its own right opens another window */
    const int64_t room = step > 0 ? a->n - rel : rel + 1;
    if (room < most) most = room;
    if (!alone(c, access + k, access, n)) return -LATER;
    if (a->mask)
      most =
          dfi_same_states(a->state + rel, step, most, writes(c->unit, access + k) ? DFI_SLOT_EMPTY : DFI_SLOT_WRITTEN);
    if (most < c->least) return -(most > 0 ? most : 1);
  }
  return most;
}

void dfi_native_burst_done(dfi_native_frame *c, int64_t access, int64_t n, const int64_t *index, int64_t done) {
  if (!done) return;
  for (int64_t k = 0; k < n; k++) {
    const dfi_access *a = &c->access[access + k];
    const int64_t step = c->unit->access[access + k].step, last = index[k] + step * (done - 1);
    const int64_t from = index[k] < last ? index[k] : last, to = index[k] < last ? last : index[k];
    const bool write = writes(c->unit, access + k);
    if (a->mask && (write || a->after != DFI_SLOT_WRITTEN))
      memset(a->state + (from - a->low), write ? DFI_SLOT_WRITTEN : (int)a->after, (size_t)done);
    if (write && *a->size <= to) *a->size = to + 1;
  }
}
