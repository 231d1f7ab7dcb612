/* string_base64.c: bytes as text of 64 letters, those of URLs, and back. */
#include "../string.h"
#include <stdlib.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Three bytes at a time as four letters; `room` holds what is written; returns how much. */
static int64_t encode(const df_str *s, bool pad, char *room) {
  int64_t n = 0;
  for (int64_t i = 0; i < s->length; i += 3) {
    const int64_t left = s->length - i < 3 ? s->length - i : 3;
    uint32_t bits = 0;
    for (int64_t j = 0; j < 3; j++) bits = bits << 8 | (j < left ? (uint8_t)s->bytes[i + j] : 0);
    for (int64_t j = 0; j < 4; j++) {
      if (j <= left) room[n++] = letters[bits >> (18 - 6 * j) & 63];
      else if (pad) room[n++] = '=';
    }
  }
  return n;
}

/* -1: it is no such text. */
static int64_t decode(const df_str *s, char *room) {
  int64_t length = s->length, n = 0;
  for (int32_t i = 0; i < 2 && length && length == s->length - i && s->length % 4 == 0 &&
       s->bytes[length - 1] == '='; i++)
    length--;
  if (length % 4 == 1) return -1;
  for (int64_t i = 0; i < length; i += 4) {
    const int64_t left = length - i < 4 ? length - i : 4;
    uint32_t bits = 0;
    for (int64_t j = 0; j < 4; j++) {
      const char *at = j < left && s->bytes[i + j] ? strchr(letters, s->bytes[i + j]) : NULL;
      if (j < left && !at) return -1;
      bits = bits << 6 | (at ? (uint32_t)(at - letters) : 0);
    }
    for (int64_t j = 0; j + 1 < left; j++) room[n++] = (char)(bits >> (16 - 8 * j) & 255);
  }
  return n;
}

static int32_t each(df_kernel *k, bool encodes) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out(k, 0, DF_STRING, x->rank, x->dims);
  bool good = out != NULL;
  for (int64_t i = 0; good && i < x->size; i++) {
    const df_str *s = (const df_str *)x->data + i;
    char *room = malloc(2 * (size_t)s->length + 4);
    if (!room) return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a string of %lld bytes",
                               (long long)s->length);
    const int64_t n = encodes ? encode(s, dfk_bool(k, 0), room) : decode(s, room);
    good = n >= 0 && dfk_set_string(k, out, i, room, n);
    if (n < 0)
      dfk_fail(k, DF_INVALID_ARGUMENT, "'%.*s' is no base64: letters, digits, - and _ are expected",
               (int)(s->length > 60 ? 60 : s->length), s->bytes);
    free(room);
  }
  return good ? DF_OK : k->error->code;
}
int32_t ref_encode_base64(df_kernel *k) { return each(k, true); }
int32_t ref_decode_base64(df_kernel *k) { return each(k, false); }
