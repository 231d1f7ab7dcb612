/* unicode.c: texts in UTF-8 as characters, and characters as texts. */
#include "../string.h"
#include "../utf8.h"
#include "element.h"
#include <stdlib.h>
#include <string.h>

static bool is(const df_attr *a, const char *word) { return a->i == (int64_t)strlen(word) && !memcmp(a->s, word,
    (size_t)a->i); }

/* What stands for the bytes of a text that are no character, or for a character that is none. */
typedef struct malformed { bool strict, ignore, control; int32_t by; } malformed;

/* The next character of s from *at on, and where it begins. 1: there is one, 0: no more, -1: the error is filled. */
static int32_t next(df_kernel *k, const df_str *s, const malformed *how, int64_t *at, int64_t *begin, int32_t *c) {
  while (*at < s->length) {
    *begin = *at;
    *at += dfk_utf8(s->bytes + *at, s->length - *at, c);
    if (*c == DFK_NO_CHARACTER && how->strict)
      return dfk_fail(k, DF_INVALID_ARGUMENT,
                      "byte %lld of a text begins no character of UTF-8", (long long)*begin), -1;
    if (*c == DFK_NO_CHARACTER && how->ignore) continue;
    if (*c == DFK_NO_CHARACTER || (how->control && *c < 32)) *c = how->by;
    return 1;
  }
  return 0;
}

/* input; input_encoding, errors, replacement_char, replace_control_characters, Tsplits -> row_splits, char_values[,
 * char_to_byte_starts] */
int32_t ref_unicode_decode(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const malformed how = { is(&k->attrs[1], "strict"), is(&k->attrs[1], "ignore"), dfk_bool(k, 3), (int32_t)dfk_int(k,
      2) };
  if (!is(&k->attrs[0], "UTF-8"))
    return dfk_fail(k, DF_UNIMPLEMENTED, "input_encoding is '%.40s': UTF-8 is read here", dfk_string(k, 0));
  int64_t n = x->size + 1, total = 0, begin;
  int32_t c, found = 0;
  df_tensor *splits = dfk_out(k, 0, k->out_dtype[0], 1, &n);
  if (!splits) return k->error->code;
  ref_put_int(splits, 0, 0);
  for (int64_t i = 0; i < x->size; i++) {
    for (int64_t at = 0; (found = next(k, (const df_str *)x->data + i, &how, &at, &begin, &c)) > 0;) total++;
    if (found < 0) return k->error->code;
    ref_put_int(splits, i + 1, total);
  }
  df_tensor *values = dfk_out(k, 1, DF_INT32, 1, &total),
            *starts = values && k->nout > 2 ? dfk_out(k, 2, DF_INT64, 1, &total) : values;
  if (!starts) return k->error->code;
  for (int64_t i = 0, o = 0; i < x->size; i++)
    for (int64_t at = 0; next(k, (const df_str *)x->data + i, &how, &at, &begin, &c) > 0; o++) {
      ((int32_t *)values->data)[o] = c;
      if (k->nout > 2) ((int64_t *)starts->data)[o] = begin;
    }
  return DF_OK;
}

/* Is it a character that texts may hold: in range, no half of a pair, none of those that never will be? */
static bool is_character(int32_t c) {
  return c >= 0 && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) && (c < 0xfdd0 || c > 0xfdef) && (c & 0xfffe) != 0xfffe;
}

/* Characters [from, to) as one text in `bytes`, which has room. -1: the error is filled. */
static int64_t write(df_kernel *k, char *bytes, int64_t from, int64_t to, const malformed *how) {
  int64_t n = 0;
  for (int64_t i = from; i < to; i++) {
    int32_t c = ((const int32_t *)k->in[0]->data)[i];
    const bool good = is_character(c);
    if (!good && how->strict)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "input_values[%lld] is %d, which is no character", (long long)i, c), -1;
    if (!good && how->ignore && (c < 0 || c > 0x10ffff)) continue;
    if (!good) c = !how->ignore ? how->by : c >= 0xd800 && c <= 0xdfff ? 0xfffd : c;      /* as TensorFlow does it */
    n += dfk_utf8_put(bytes + n, c);
  }
  return n;
}

/* input_values, input_splits; errors, output_encoding, replacement_char */
int32_t ref_unicode_encode(df_kernel *k) {
  const df_tensor *x = k->in[0], *splits = k->in[1];
  const malformed how = { is(&k->attrs[0], "strict"), is(&k->attrs[0], "ignore"), false, (int32_t)dfk_int(k, 2) };
  if (!is(&k->attrs[1], "UTF-8"))
    return dfk_fail(k, DF_UNIMPLEMENTED, "output_encoding is '%.40s': UTF-8 is written here", dfk_string(k, 1));
  if (x->rank != 1 || splits->rank != 1 || splits->size == 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "input_values has rank %d and input_splits rank %d: expected vectors, of which the second "
                    "has one element at least",
                    x->rank, splits->rank);
  int64_t n = splits->size - 1;
  df_tensor *out = dfk_out(k, 0, DF_STRING, 1, &n);
  char *bytes = out ? malloc(4 * (size_t)x->size + 1) : NULL;
  if (!bytes) return out ? dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for %lld characters",
                                    (long long)x->size) : k->error->code;
  bool good = true;
  for (int64_t i = 0; good && i < n; i++) {
    const int64_t from = dfk_index(splits, i), to = dfk_index(splits, i + 1);
    good = from >= 0 && from <= to && to <= x->size;
    if (!good) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "input_splits[%lld] is %lld: expected numbers from 0 to %lld that never fall",
               (long long)i + 1,
               (long long)to, (long long)x->size);
      break;
    }
    const int64_t length = write(k, bytes, from, to, &how);
    good = length >= 0 && dfk_set_string(k, out, i, bytes, length);
  }
  free(bytes);
  return good ? DF_OK : k->error->code;
}
