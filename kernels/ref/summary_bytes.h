/* summary_bytes.h: messages of Protocol Buffers, byte by byte, for the summaries of summary.c and summary_media.c. */
#ifndef DFLOW_REF_SUMMARY_BYTES_H
#define DFLOW_REF_SUMMARY_BYTES_H
#include "../kernel.h"
#include <stdlib.h>
#include <string.h>

typedef struct bytes { uint8_t *at; size_t n, cap; bool failed; } bytes;

static inline void bytes_add(bytes *b, const void *from, size_t n) {
  if (b->n + n > b->cap && !b->failed) {
    const size_t cap = 2 * (b->n + n) + 64;
    uint8_t *more = realloc(b->at, cap);
    if (more) { b->at = more; b->cap = cap; } else b->failed = true;
  }
  if (b->failed) return;
  if (n) memcpy(b->at + b->n, from, n);
  b->n += n;
}
static inline void bytes_add_varint(bytes *b, uint64_t v) {
  for (; v >= 128; v >>= 7) bytes_add(b, &(uint8_t){ (uint8_t)(v | 128) }, 1);
  bytes_add(b, &(uint8_t){ (uint8_t)v }, 1);
}
/* A number from 0 up; 0 is left out. */
static inline void bytes_add_number(bytes *b, uint32_t field, int64_t v) {
  if (v == 0) return;
  bytes_add_varint(b, field << 3);
  bytes_add_varint(b, (uint64_t)v);
}
static inline void bytes_add_text(bytes *b, uint32_t field, const void *text, size_t n) {
  bytes_add_varint(b, field << 3 | 2);
  bytes_add_varint(b, n);
  bytes_add(b, text, n);
}

/* One value of a summary: what follows its tag. */
static inline void bytes_add_value(bytes *b, const df_str *tag, const bytes *rest) {
  bytes value = { 0 };
  if (tag->length) bytes_add_text(&value, 1, tag->bytes, (size_t)tag->length);
  bytes_add(&value, rest->at, rest->n);
  bytes_add_text(b, 1, value.at, value.n);
  b->failed |= value.failed || rest->failed;
  free(value.at);
}

/* Output 0 is the string of these bytes, which are gone. What the kernel has to return. */
static inline int32_t bytes_give(df_kernel *k, bytes *b) {
  df_tensor *out = b->failed ? NULL : dfk_out(k, 0, DF_STRING, 0, NULL);
  if (b->failed) dfk_fail(k, DF_RESOURCE_EXHAUSTED, "no memory for a summary");
  const bool ok = out && dfk_set_string(k, out, 0, b->n ? (const char *)b->at : "", (int64_t)b->n);
  free(b->at);
  return ok ? DF_OK : k->error->code;
}
#endif
