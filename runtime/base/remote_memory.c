/* remote_memory.c: elements that lie where the host cannot read them are copied, cleared and added up by their device.
 * See remote_memory.h. */
#include "base/remote_memory.h"

__thread dfi_waiter dfi_waiter_here __attribute__((tls_model("initial-exec")));

typedef struct place { const dfi_remote *device; void *note; } place;      /* device NULL: the host's memory */

static place place_of(struct df_buffer *b) {
  if (!b || !b->remote) return (place){ 0 };
  return (place){ dfi_devmem_remote(b->arena), dfi_note_of(b) };
}

bool dfi_remote_copy(void *to, struct df_buffer *to_in, const void *from, struct df_buffer *from_in, int64_t bytes) {
  const place t = place_of(to_in), f = place_of(from_in);
  if (!bytes) return true;
  if (!t.device) return f.device->to_host(f.device->device, to, from, f.note, bytes);
  if (!f.device) return t.device->from_host(t.device->device, to, t.note, from, bytes);
  if (t.device->device == f.device->device) return t.device->within(t.device->device, to, t.note, from, f.note, bytes);
  if (t.device->across && t.device->across == f.device->across)
    return t.device->across(t.device->device, to, t.note, f.device->device, from, f.note, bytes);
  void *between = dfi_alloc(bytes);                    /* two devices: by way of the host */
  const bool ok = between && f.device->to_host(f.device->device, between, from, f.note, bytes) &&
                  t.device->from_host(t.device->device, to, t.note, between, bytes);
  dfi_release(between, bytes);
  return ok;
}

bool dfi_remote_zero(void *to, struct df_buffer *in, int64_t bytes) {
  const place t = place_of(in);
  return !bytes || t.device->fill(t.device->device, to, t.note, 0, bytes);
}

/* One side of an update where the other lies: *copy, a tensor of its own, holds it until the update is enqueued. */
static bool bring(struct df_buffer *beside, const void **data, struct df_buffer **in, int32_t dtype, int64_t n,
    df_tensor **copy) {
  const bool here = *in && (*in)->remote, there = beside && beside->remote;
  *copy = NULL;
  if (here == there && (!here || (*in)->arena == beside->arena)) return true;
  dfi_devmem *before = dfi_devmem_use(there ? beside->arena : NULL);
  *copy = dfi_tensor_make((uint8_t)dtype, 1, &n);
  dfi_devmem_use(before);
  if (!*copy || !dfi_bytes_copy((*copy)->data, (*copy)->buffer, *data, *in, n * dfi_dtype_size[dtype])) return false;
  *data = (*copy)->data;
  *in = (*copy)->buffer;
  return true;
}

bool dfi_remote_update(dfk_update_op op, int32_t dtype, int64_t n, void *to, struct df_buffer *to_in, const void *a,
                       struct df_buffer *a_in, const void *b, struct df_buffer *b_in, bool one_b) {
  df_tensor *a_copy = NULL, *b_copy = NULL;
  bool ok = bring(to_in, &a, &a_in, dtype, n, &a_copy) && bring(to_in, &b, &b_in, dtype, one_b ? 1 : n, &b_copy);
  if (ok) {
    const place t = place_of(to_in);
    if (t.device)
      ok = t.device->update(t.device->device, op, dtype, n, to, t.note, a, place_of(a_in).note, b,
          place_of(b_in).note, one_b);
    else dfk_update(op, dtype, n, to, a, b, one_b);
  }
  df_tensor_release(a_copy);
  df_tensor_release(b_copy);
  return ok;
}

bool dfi_value_on_host(const df_value *v, df_value *out) {
  if (v->kind != DF_TENSOR || dfi_readable(v->as.tensor)) { *out = dfi_value_copy(v); return true; }
  df_tensor *t = dfi_tensor_copy_in(v->as.tensor, NULL);
  if (!t) { *out = (df_value){ 0 }; return false; }
  dfi_value_from_tensor(out, t);
  return true;
}

/* Does no index come twice? Without memory to tell: perhaps. */
static bool apart(const int64_t *index, int64_t n, int64_t rows) {
  uint8_t *seen = dfi_alloc(rows / 8 + 1);
  if (!seen) return false;
  memset(seen, 0, (size_t)(rows / 8 + 1));
  int64_t i = 0;
  for (; i < n && !(seen[index[i] / 8] >> index[i] % 8 & 1); i++) seen[index[i] / 8] |= (uint8_t)(1 << index[i] % 8);
  dfi_release(seen, rows / 8 + 1);
  return i == n;
}

bool dfi_remote_place_rows(dfk_update_op op, df_tensor *to, int64_t rows, int64_t row, const int64_t *index, int64_t n,
                           const df_value *from, bool one) {
  const place t = place_of(to->buffer);
  df_tensor *copy = NULL;
  const void *data = from->kind == DF_TENSOR ? from->as.tensor->data : (const void *)&from->as;
  struct df_buffer *in = dfi_buffer_in(from);
  if (!bring(to->buffer, &data, &in, to->dtype, one ? 1 : n * row, &copy)) { df_tensor_release(copy); return false; }
  dfi_remote_place p = { .op = op, .dtype = to->dtype, .one = one, .apart = apart(index, n, rows), .n = n, .row = row,
                         .index = index, .to = to->data, .to_note = t.note, .from = data,
                         .from_note = place_of(in).note };
  const bool ok = t.device->place(t.device->device, &p);
  df_tensor_release(copy);
  return ok;
}
