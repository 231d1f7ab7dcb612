/* string_split.c: StringSplitV2 and the n-grams of rows of words. */
#include "../ragged.h"
#include "../string.h"
#include "element.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const df_str *str_at(const df_tensor *t, int64_t i) { return (const df_str *)t->data + i; }

/* ---- StringSplitV2: as Python's str.split -------------------------------------------------------------------- */

typedef struct parts { const df_str *s, *separator; int64_t most, at, n; } parts;

static bool begins(const df_str *s, int64_t at, const df_str *word) {
  return s->length - at >= word->length && !memcmp(s->bytes + at, word->bytes, (size_t)word->length);
}
static bool is_space(const df_str *s, int64_t at) { return isspace((unsigned char)s->bytes[at]) != 0; }

/* The next part, [from, to). Behind `most` separators, where that is not negative, all the rest is one, also where it
 * is empty. False: no more. */
static bool next_part(parts *p, int64_t *from, int64_t *to) {
  const df_str *s = p->s;
  const bool spaces = !p->separator->length, rest = p->most >= 0 && p->n == p->most;
  if (p->at > s->length) return false;
  while (spaces && p->most && p->at < s->length && is_space(s, p->at)) p->at++;
  if (spaces && !rest && p->at == s->length) return false;
  *from = *to = p->at;
  p->n++;
  if (rest) *to = s->length;
  else while (*to < s->length && !(spaces ? is_space(s, *to) : begins(s, *to, p->separator))) ++*to;
  const bool last = rest || (*to == s->length && !(spaces && p->n == p->most));
  p->at = last ? s->length + 1 : *to + (spaces ? 0 : p->separator->length);
  return true;
}

/* input, separator; maxsplit */
int32_t ref_string_split_v2(df_kernel *k) {
  const df_tensor *x = k->in[0];
  if (x->rank != 1 || k->in[1]->rank != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the input has rank %d and sep rank %d: expected a vector and a scalar",
                    x->rank,
                    k->in[1]->rank);
  int64_t n = 0, widest = 0, from, to;
  for (int64_t i = 0; i < x->size; i++) {
    parts p = { str_at(x, i), str_at(k->in[1], 0), dfk_int(k, 0), 0, 0 };
    while (next_part(&p, &from, &to)) n++;
    if (p.n > widest) widest = p.n;
  }
  df_tensor *indices = dfk_out(k, 0, DF_INT64, 2, (int64_t[]){ n, 2 }),
            *values = indices ? dfk_out(k, 1, DF_STRING, 1, &n) : NULL,
            *shape = values ? dfk_out(k, 2, DF_INT64, 1, (int64_t[]){ 2 }) : NULL;
  if (!shape) return k->error->code;
  int64_t *index = indices->data, v = 0;
  for (int64_t i = 0; i < x->size; i++) {
    parts p = { str_at(x, i), str_at(k->in[1], 0), dfk_int(k, 0), 0, 0 };
    for (int64_t part = 0; next_part(&p, &from, &to); v++) {
      index[2 * v] = i;
      index[2 * v + 1] = part++;
      if (!dfk_set_string(k, values, v, to > from ? p.s->bytes + from : "", to - from)) return k->error->code;
    }
  }
  ((int64_t *)shape->data)[0] = x->size;
  ((int64_t *)shape->data)[1] = widest;
  return DF_OK;
}

/* ---- n-grams ---------------------------------------------------------------------------------------------------- */

enum { SEPARATOR, WIDTHS, LEFT, RIGHT, PAD_WIDTH, PRESERVE };
enum { WIDEST = 1024 };                                     /* so that the work grows with the words */

/* How many words stand on either side of a row for n-grams of `width`. */
static int64_t padding(const df_kernel *k, int64_t width) {
  const int64_t pad = dfk_int(k, PAD_WIDTH);
  return pad < 0 || pad > width - 1 ? width - 1 : pad;
}

/* How many n-grams of `width` a row of n words has. */
static int64_t grams_of(const df_kernel *k, int64_t n, int64_t width) {
  const int64_t all = n + 2 * padding(k, width) - width + 1;
  return all > 0 ? all : 0;
}

/* Does a row of n words, which has no n-gram, give one of all its words? */
static bool is_preserved(const df_kernel *k, int64_t n) {
  if (!dfk_bool(k, PRESERVE) || !n) return false;
  for (int64_t w = 0; w < k->attrs[WIDTHS].i; w++) if (grams_of(k, n, k->attrs[WIDTHS].ints[w])) return false;
  return true;
}

/* Joins the padded words [from, from + width) of a row [first, first + n) of the words to element `out`. */
static bool join(df_kernel *k, df_tensor *to, int64_t out, int64_t first, int64_t n, int64_t from, int64_t width) {
  int64_t length = 0, at = 0;
  char *bytes = NULL;
  for (int32_t pass = 0; pass < 2; pass++) {                /* measure, then write */
    for (int64_t i = from; i < from + width; i++) {
      const df_attr *pad = &k->attrs[i < 0 ? LEFT : RIGHT], *separator = &k->attrs[SEPARATOR];
      const bool inside = i >= 0 && i < n, more = i + 1 < from + width;
      const char *word = inside ? str_at(k->in[0], first + i)->bytes : pad->s;
      const int64_t size = inside ? str_at(k->in[0], first + i)->length : pad->i;
      if (!pass) { length += size + (more ? separator->i : 0); continue; }
      if (size) memcpy(bytes + at, word, (size_t)size);
      at += size;
      if (more && separator->i) memcpy(bytes + at, separator->s, (size_t)separator->i);
      at += more ? separator->i : 0;
    }
    if (!pass && !(bytes = malloc((size_t)length + 1)))
      return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a string of %lld bytes", (long long)length), false;
  }
  const bool good = dfk_set_string(k, to, out, bytes, length);
  free(bytes);
  return good;
}

static int32_t check_rows(df_kernel *k) {
  const df_tensor *words = k->in[0], *splits = k->in[1];
  if (words->rank != 1 || splits->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "data has rank %d and data_splits rank %d: expected vectors", words->rank,
                    splits->rank);
  if (splits->size && !dfk_ragged_splits(k, splits, words->size)) return k->error->code;
  for (int64_t w = 0; w < k->attrs[WIDTHS].i; w++)
    if (k->attrs[WIDTHS].ints[w] < 1 || k->attrs[WIDTHS].ints[w] > WIDEST)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "ngram_widths has %lld: expected widths from 1 to %d",
                      (long long)k->attrs[WIDTHS].ints[w], WIDEST);
  return DF_OK;
}

/* data, data_splits; separator, ngram_widths, left_pad, right_pad, pad_width, preserve_short_sequences */
int32_t ref_string_ngrams(df_kernel *k) {
  const df_tensor *splits = k->in[1];
  if (check_rows(k)) return k->error->code;
  df_tensor *out_splits = dfk_out(k, 1, splits->dtype, 1, &splits->size);
  if (!out_splits) return k->error->code;
  int64_t total = 0;
  for (int64_t r = 0; r < splits->size; r++) {
    if (r) {
      const int64_t n = dfk_index(splits, r) - dfk_index(splits, r - 1);
      for (int64_t w = 0; w < k->attrs[WIDTHS].i; w++) total += grams_of(k, n, k->attrs[WIDTHS].ints[w]);
      total += is_preserved(k, n);
    }
    ref_put_int(out_splits, r, total);
  }
  df_tensor *out = dfk_out(k, 0, DF_STRING, 1, &total);
  if (!out) return k->error->code;
  for (int64_t r = 0, o = 0; r + 1 < splits->size; r++) {
    const int64_t first = dfk_index(splits, r), n = dfk_index(splits, r + 1) - first;
    for (int64_t w = 0; w < k->attrs[WIDTHS].i; w++) {
      const int64_t width = k->attrs[WIDTHS].ints[w], pad = padding(k, width);
      for (int64_t i = 0; i < grams_of(k, n, width); i++)
        if (!join(k, out, o++, first, n, i - pad, width)) return k->error->code;
    }
    const int64_t pad = dfk_int(k, PAD_WIDTH) < 0 ? 0 : dfk_int(k, PAD_WIDTH);
    if (is_preserved(k, n) && !join(k, out, o++, first, n, -pad, n + 2 * pad)) return k->error->code;
  }
  return DF_OK;
}
