/* table_file.c: a table's entries from the lines of a text file, a key and a value from each: its number, all of it, or
 * one of its columns.
 */
#include "ops/files.h"
#include "ops/table.h"
#include <errno.h>
#include <stdlib.h>

enum { KEY, VALUE, COUNT, DELIMITER, OFFSET };
enum { WHOLE_LINE = -2, LINE_NUMBER = -1 };

typedef struct lines { const char *at, *end; int64_t number; } lines;
typedef struct words { const char *s; int64_t n; } words;

static bool next_line(lines *l, words *line) {
  if (l->at >= l->end) return false;
  const char *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
  *line = (words){ l->at, (stop ? stop : l->end) - l->at };
  if (line->n && line->s[line->n - 1] == '\r') line->n--;
  l->at = (stop ? stop : l->end) + 1;
  l->number++;
  return true;
}

/* Column `index` of a line. False: the error is filled. */
static bool column(df_kernel *k, words line, int64_t number, int64_t index, words *out) {
  const char delimiter = *dfk_string(k, DELIMITER);
  for (int64_t i = 0;; i++) {
    const char *stop = line.n ? memchr(line.s, delimiter, (size_t)line.n) : NULL;
    if (i == index) { *out = (words){ line.s, stop ? stop - line.s : line.n }; return true; }
    if (!stop) break;
    line.n -= stop + 1 - line.s;
    line.s = stop + 1;
  }
  dfk_fail(k, DF_INVALID_ARGUMENT, "line %lld of the file has no column %lld", (long long)number, (long long)index);
  return false;
}

/* Writes element i of t: the line's number or its words. False: the error is filled. */
static bool write(df_kernel *k, df_tensor *t, int64_t i, int64_t index, words line) {
  words w = line;
  if (index == LINE_NUMBER) return df_tensor_set_int(t, i, i), true;
  if (index >= 0 && !column(k, line, i, index, &w)) return false;
  if (t->dtype == DF_STRING) return dfk_set_string(k, t, i, w.n ? w.s : "", w.n);
  char text[64], *end = text;
  const int64_t n = w.n < 63 ? w.n : 0;
  if (n) memcpy(text, w.s, (size_t)n);
  text[n] = 0;
  errno = 0;
  const bool whole = t->dtype == DF_INT32 || t->dtype == DF_INT64;
  const long long v = whole ? strtoll(text, &end, 10) : 0;
  if (whole) df_tensor_set_int(t, i, v);
  else df_tensor_set(t, i, strtod(text, &end));
  if (n && !*end && !(whole && errno) && !(t->dtype == DF_INT32 && v != (int32_t)v)) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "line %lld of the file: '%s' is no %s", (long long)i, text, df_dtype_name(t->dtype));
  return false;
}

/* How many lines are taken; -1: the error is filled. */
static int64_t count_lines(df_kernel *k, lines l) {
  const int64_t most = dfk_int(k, COUNT);
  words line;
  for (int64_t i = dfk_int(k, OFFSET); i > 0 && next_line(&l, &line); i--) { }
  l.number = 0;
  while ((most < 0 || l.number < most) && next_line(&l, &line)) { }
  if (most > l.number) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "vocab_size is %lld, the file has %lld lines", (long long)most,
             (long long)l.number);
    return -1;
  }
  return l.number;
}

static int32_t fill(dfi_table *t, df_kernel *k, lines l) {
  const int64_t n = count_lines(k, l);
  if (n < 0) return k->error->code;
  df_tensor *keys = dfi_tensor_make(t->key, 1, &n), *values = dfi_tensor_make(t->value, 1, &n);
  bool good = keys && values;
  if (!good) dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for %lld entries of a table", (long long)n);
  words line;
  for (int64_t i = dfk_int(k, OFFSET); i > 0 && next_line(&l, &line); i--) { }
  for (int64_t i = 0; good && i < n && next_line(&l, &line); i++)
    good = write(k, keys, i, dfk_int(k, KEY), line) && write(k, values, i, dfk_int(k, VALUE), line);
  const df_tensor *in[] = { NULL, keys, values };
  df_kernel entries = *k;
  entries.nin = 3;
  entries.in = in;
  const int32_t code = good ? dfi_table_fill(t, &entries) : k->error->code;
  df_tensor_release(keys);
  df_tensor_release(values);
  return code;
}

/* Can a dtype be what the index says? */
static bool fits(int64_t index, uint8_t dtype) {
  const bool number = dtype == DF_INT32 || dtype == DF_INT64;
  return index == LINE_NUMBER ? dtype == DF_INT64 : dtype == DF_STRING || number || ((dtype == DF_FLOAT32 ||
      dtype == DF_FLOAT64) && index >= 0);
}

int32_t dfi_table_fill_from_file(dfi_table *t, df_kernel *k) {
  if (t->filled) return DF_OK;
  if (dfk_int(k, DELIMITER) != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "delimiter has %lld bytes, one is expected", (long long)dfk_int(k,
        DELIMITER));
  if (t->element.rank || !fits(dfk_int(k, KEY), t->key) || !fits(dfk_int(k, VALUE), t->value))
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "a table from %s to %s cannot have the keys of index %lld and the values of index %lld: -1 is the "
                    "line's number, an int64", df_dtype_name(t->key), df_dtype_name(t->value), (long long)dfk_int(k,
                        KEY), (long long)dfk_int(k, VALUE));
  char *path = dfi_path_input(k, 1);
  df_tensor *bytes = path ? df_read_file(path, k->error) : NULL;
  dfi_free(path);
  if (!bytes) return k->error->code;
  const char *text = df_tensor_data(bytes);
  const int32_t code = fill(t, k, (lines){ text, text + df_tensor_size(bytes), 0 });
  df_tensor_release(bytes);
  return code;
}
