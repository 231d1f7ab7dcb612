/* message.c: see message.h. */
#include "engine/owners/message.h"
#include "base/devmem.h"
#include <stdlib.h>

/* ---- out -------------------------------------------------------------------------------------------------------- */

/* Strings: the length of each, then the messages of all. NULL: no memory. */
static void *pack_strings(const df_tensor *t, int64_t *bytes) {
  const df_str *s = t->data;
  int64_t n = 8 * t->size;
  for (int64_t i = 0; i < t->size; i++) n += s[i].length;
  int64_t *lengths = dfi_xmalloc((size_t)n + 1);
  char *messages = (char *)(lengths + t->size);
  for (int64_t i = 0; i < t->size; i++) {
    lengths[i] = s[i].length;
    if (s[i].length) memcpy(messages, s[i].bytes, (size_t)s[i].length);
    messages += s[i].length;
  }
  *bytes = n;
  return lengths;
}

bool dfi_message_value(dfi_message *m, df_value *v, df_error *err) {
  dfi_head *h = &m->head;
  m->value = (df_value){ 0 };
  m->payload = m->packed = NULL;
  m->sent = 0;
  h->value = v->kind;
  h->dtype = v->dtype;
  h->rank = 0;
  h->bytes = 0;
  if (v->kind == DF_EMPTY) return true;
  if (v->kind == DF_SCALAR) { h->bytes = v->as.i64; return true; }
  if (v->kind == DF_HANDLE || v->dtype == DF_VARIANT || v->dtype == DF_RESOURCE) {
    dfi_value_drop(v);
    return dfi_fail(err, DF_UNIMPLEMENTED, NULL, "a %s stays on the rank where it was made: its elements can be sent, "
                    "but not the %s itself", v->dtype == DF_VARIANT ? "list" : "resource",
                    v->dtype == DF_VARIANT ? "list" : "resource"), false;
  }
  const bool there = dfi_value_in(v, NULL, &m->value);           /* where this process can read it */
  dfi_value_drop(v);
  if (!there)
    return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for a value that goes to another rank"), false;
  const df_tensor *t = m->value.as.tensor;
  h->rank = (uint8_t)t->rank;
  memcpy(m->number + h->depth, t->dims, 8 * (size_t)t->rank);
  if (t->dtype == DF_STRING) m->payload = m->packed = pack_strings(t, &h->bytes);
  else { m->payload = t->data; h->bytes = t->size * dfi_dtype_size[t->dtype]; }
  return true;
}

void dfi_message_drop(dfi_message *m) {
  dfi_value_drop(&m->value);
  m->value.kind = DF_EMPTY;
  dfi_free(m->packed);
  m->packed = NULL;
}

/* ---- in --------------------------------------------------------------------------------------------------------- */

/* Elements that these dimensions have; -1: they are none. */
static int64_t elements_of(const int64_t *dims, int32_t rank) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; i++)
    if (dims[i] < 0 || __builtin_mul_overflow(n, dims[i], &n)) return -1;
  return n;
}

/* Can the head be one, and the value that it announces? */
static bool makes_sense(const dfi_incoming *in, int64_t bytes) {
  const dfi_head *h = &in->head;
  if (h->kind < DFI_MESSAGE_VALUE || h->kind > DFI_MESSAGE_CLUSTER || h->depth > DFI_TAG_DEPTH ||
      h->rank > DF_MAX_RANK || dfi_message_front(h) > bytes || (h->value != DF_SCALAR && h->bytes < 0))
    return false;
  if (h->value == DF_EMPTY) return !h->rank;
  if (h->kind != DFI_MESSAGE_VALUE && h->kind != DFI_MESSAGE_CROSSING) return false;       /* its payload is bytes */
  if (h->dtype == DF_RESOURCE || h->dtype == DF_VARIANT || !df_dtype_bytes(h->dtype)) return false;
  if (h->value == DF_SCALAR) return !h->rank && dfi_unboxed(h->dtype);
  return h->value == DF_TENSOR;
}

/* Makes the value that the elements go into. */
static dfi_came make_room(dfi_incoming *in) {
  const dfi_head *h = &in->head;
  in->value = (df_value){ .kind = h->value, .dtype = h->dtype };
  in->packed = NULL;
  if (h->value == DF_SCALAR) {
    in->value.as.i64 = h->bytes;
    if (h->dtype == DF_BOOL) in->value.as.b = h->bytes & 1;
    return DFI_CAME_WHOLE;
  }
  if (h->value == DF_TENSOR) {
    const int64_t *dims = in->number + h->depth, n = elements_of(dims, h->rank);
    const bool strings = h->dtype == DF_STRING;
    int64_t size;
    if (n < 0 || __builtin_mul_overflow(n, strings ? 8 : dfi_dtype_size[h->dtype], &size) ||
        (strings ? h->bytes < size : h->bytes != size))
      return DFI_CAME_WRONG;
    if (!strings) {
      df_tensor *t = dfi_tensor_make(h->dtype, h->rank, dims);
      if (!t) return DFI_CAME_NO_MEMORY;
      in->value.as.tensor = t;
      in->to = t->data;
      return h->bytes ? DFI_CAME_PART : DFI_CAME_WHOLE;
    }
  }
  in->value.kind = DF_EMPTY;
  if (!h->bytes && h->value == DF_EMPTY) return DFI_CAME_WHOLE;
  in->to = in->packed = malloc((size_t)h->bytes + 1);
  return in->packed ? DFI_CAME_PART : DFI_CAME_NO_MEMORY;
}

static dfi_came unpack_strings(dfi_incoming *in) {
  const int64_t *dims = in->number + in->head.depth, n = elements_of(dims, in->head.rank);
  const int64_t *lengths = in->packed;
  const char *messages = (const char *)(lengths + n);
  int64_t left = in->head.bytes - 8 * n;
  df_tensor *t = dfi_tensor_make(DF_STRING, in->head.rank, dims);
  dfi_came came = t ? DFI_CAME_WHOLE : DFI_CAME_NO_MEMORY;
  for (int64_t i = 0; i < n && came == DFI_CAME_WHOLE; i++) {
    if (lengths[i] < 0 || lengths[i] > left) came = DFI_CAME_WRONG;
    else if (df_tensor_set_string(t, i, messages, lengths[i], NULL)) came = DFI_CAME_NO_MEMORY;
    else { messages += lengths[i]; left -= lengths[i]; }
  }
  free(in->packed);
  in->packed = NULL;
  if (came != DFI_CAME_WHOLE) { if (t) df_tensor_release(t); return came; }
  in->value = (df_value){ .kind = DF_TENSOR, .dtype = DF_STRING, .as.tensor = t };
  return came;
}

static dfi_came whole(dfi_incoming *in) {
  in->begun = false;
  if (in->value.kind == DF_TENSOR && in->head.dtype == DF_BOOL) dfi_settle_bools(in->value.as.tensor);
  if (in->head.value != DF_TENSOR || in->head.dtype != DF_STRING || !in->packed) return DFI_CAME_WHOLE;
  return unpack_strings(in);
}

dfi_came dfi_incoming_take(dfi_incoming *in, const void *packet, int64_t bytes) {
  const char *at = packet;
  if (!in->begun) {
    if (bytes < (int64_t)sizeof in->head) return DFI_CAME_WRONG;
    memcpy(&in->head, at, sizeof in->head);
    if (!makes_sense(in, bytes)) return DFI_CAME_WRONG;
    const int64_t front = dfi_message_front(&in->head);
    memcpy(in->number, at + sizeof in->head, (size_t)front - sizeof in->head);
    in->got = 0;
    const dfi_came room = make_room(in);
    if (room == DFI_CAME_WRONG) return room;
    if (room == DFI_CAME_WHOLE) return bytes == front ? whole(in) : DFI_CAME_WRONG;
    if (room == DFI_CAME_NO_MEMORY) in->to = NULL;               /* what comes is passed over */
    in->begun = true;
    at += front;
    bytes -= front;
  }
  if (bytes > in->head.bytes - in->got) { dfi_incoming_drop(in); return DFI_CAME_WRONG; }
  if (in->to) memcpy(in->to + in->got, at, (size_t)bytes);
  in->got += bytes;
  if (in->got < in->head.bytes) return DFI_CAME_PART;
  if (in->to) return whole(in);
  dfi_incoming_drop(in);
  return DFI_CAME_NO_MEMORY;
}

void dfi_incoming_drop(dfi_incoming *in) {
  dfi_value_drop(&in->value);
  in->value.kind = DF_EMPTY;
  free(in->packed);
  in->packed = NULL;
  in->begun = false;
}

/* ---- a value alone ----------------------------------------------------------------------------------------------- */

void *dfi_value_pack(const df_value *v, int64_t *n, df_error *err) {
  dfi_message m = { .head = { .kind = DFI_MESSAGE_VALUE } };
  df_value own = dfi_value_copy(v);
  if (!dfi_message_value(&m, &own, err)) return NULL;
  const int64_t front = dfi_message_front(&m.head), more = dfi_message_payload(&m.head);
  char *bytes = dfi_xmalloc((size_t)(front + more) + 1);
  memcpy(bytes, &m.head, sizeof m.head);
  memcpy(bytes + sizeof m.head, m.number, (size_t)front - sizeof m.head);
  if (more) memcpy(bytes + front, m.payload, (size_t)more);
  dfi_message_drop(&m);
  *n = front + more;
  return bytes;
}

bool dfi_value_unpack(const void *bytes, int64_t n, df_value *out) {
  dfi_incoming in = { 0 };
  *out = (df_value){ 0 };
  if (dfi_incoming_take(&in, bytes, n) != DFI_CAME_WHOLE) { dfi_incoming_drop(&in); return false; }
  *out = in.value;
  return true;
}
