/* remote_memory.h: memory that the host cannot read, such as a GPU's.
 *
 * A tensor there has its head on the host; its elements lie where `data` says, which only the device understands.
 * Beside the head lie DFI_NOTE_BYTES for the device's own use. So whatever in runtime/ touches elements (but for
 * kernels of the CPU, whose inputs the engine brings to the host first) does it by the functions below, which are
 * memcpy, memset and dfk_update where the host can read. Work on the device is only enqueued, in an order that keeps
 * its sense; what is copied to the host has come when the call returns.
 */
#ifndef DFLOW_REMOTE_H
#define DFLOW_REMOTE_H
#include "base/devmem.h"
#include "kernels/device.h"

/* An arena of such memory; r is borrowed for ever. limit 0: what the device has. */
dfi_devmem *dfi_devmem_new_remote(const dfi_remote *r, int64_t limit);
const dfi_remote *dfi_devmem_remote(const dfi_devmem *a);        /* NULL: the host can read it */
/* For tensor.c: the elements of a tensor whose head is made. */
void *dfi_remote_alloc(dfi_devmem *a, int64_t bytes, void *note);
void  dfi_remote_free(dfi_devmem *a, void *p, int64_t bytes, void *note);

/* Can the host read the tensor's elements? */
static inline bool dfi_readable(const df_tensor *t) { return !t->buffer || !t->buffer->remote; }
/* What the device notes beside the head of a tensor there; NULL: the host can read it. */
void *dfi_note_of(struct df_buffer *b);

/* A wait for a device asks now and then whether this thread's run shall go on. fn NULL: it waits for as long as it
 * takes. */
typedef struct dfi_waiter { bool (*gives_up)(void *user); void *user; } dfi_waiter;
extern __thread dfi_waiter dfi_waiter_here __attribute__((tls_model("initial-exec")));

/* As dfi_bytes_copy and dfi_bytes_zero, where one of the buffers is remote. False: the device has failed. */
bool dfi_remote_copy(void *to, struct df_buffer *to_in, const void *from, struct df_buffer *from_in, int64_t bytes);
bool dfi_remote_zero(void *to, struct df_buffer *in, int64_t bytes);
bool dfi_remote_update(dfk_update_op op, int32_t dtype, int64_t n, void *to, struct df_buffer *to_in, const void *a,
                       struct df_buffer *a_in, const void *b, struct df_buffer *b_in, bool one_b);

/* Copies, wherever the two lie. `in`: the buffer of which it is a part; NULL: memory of the host's. False: a device
 * failed. */
static inline bool dfi_bytes_copy(void *to, struct df_buffer *to_in, const void *from, struct df_buffer *from_in,
    int64_t bytes) {
  if (DFI_UNLIKELY((to_in && to_in->remote) || (from_in && from_in->remote)))
    return dfi_remote_copy(to, to_in, from, from_in, bytes);
  memcpy(to, from, (size_t)bytes);
  return true;
}
static inline bool dfi_bytes_zero(void *to, struct df_buffer *in, int64_t bytes) {
  if (DFI_UNLIKELY(in && in->remote)) return dfi_remote_zero(to, in, bytes);
  memset(to, 0, (size_t)bytes);
  return true;
}
/* dfk_update, wherever the three lie. */
static inline bool dfi_bytes_update(dfk_update_op op, int32_t dtype, int64_t n, void *to, struct df_buffer *to_in,
    const void *a,
                                    struct df_buffer *a_in, const void *b, struct df_buffer *b_in, bool one_b) {
  if (DFI_UNLIKELY((to_in && to_in->remote) || (a_in && a_in->remote) || (b_in && b_in->remote)))
    return dfi_remote_update(op, dtype, n, to, to_in, a, a_in, b, b_in, one_b);
  dfk_update(op, dtype, n, to, a, b, one_b);
  return true;
}
/* The buffer of a value's elements; NULL: they lie in the slot. */
static inline struct df_buffer *dfi_buffer_in(const df_value *v) {
    return v->kind == DF_TENSOR ? v->as.tensor->buffer : NULL; }

/* The value as the host has it: a number that lay on a device becomes an unboxed one. Owned. False: no memory, or the
 * device failed. */
bool dfi_value_on_host(const df_value *v, df_value *out);
/* Rows index[i] of `to`, which a device has in `rows` rows of `row` elements, op= those of `from` (one: its one
 * element). False: no memory, or the device failed. */
bool dfi_remote_place_rows(dfk_update_op op, df_tensor *to, int64_t rows, int64_t row, const int64_t *index, int64_t n,
                           const df_value *from, bool one);
#endif
