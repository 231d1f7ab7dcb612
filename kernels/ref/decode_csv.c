/* decode_csv.c: lines of comma-separated values, as TensorFlow reads them. */
#include "../example.h"
#include "element.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is read of the lines; `field` has room for a whole one. */
typedef struct reader {
  df_kernel  *k;
  df_tensor **out;
  char       *field, delim;
  bool        quotes;
  const char *missing;
  int64_t     record;
} reader;

static bool wrong(const reader *r, const char *what) {
  dfk_fail(r->k, DF_INVALID_ARGUMENT, "record %lld: %s", (long long)r->record, what);
  return false;
}

/* The field that begins at s[*at], to r->field, and its length; *at is then behind its delimiter. */
static bool read_field(reader *r, const char *s, int64_t n, int64_t *at, int64_t *length) {
  int64_t i = *at, to = 0;
  if (!r->quotes || s[i] != '"') {
    for (; i < n && s[i] != r->delim; i++) {
      if ((r->quotes && s[i] == '"') || s[i] == '\n' || s[i] == '\r')
        return wrong(r, "a quote or an end of line is in a field without quotes");
      r->field[to++] = s[i];
    }
    *at = i + 1;
  } else {
    for (i++; i < n - 1 && (s[i] != '"' || s[i + 1] != r->delim); i++) {
      if (s[i] == '"' && s[++i] != '"') return wrong(r, "a quote in a field with quotes has to be doubled");
      r->field[to++] = s[i];
    }
    if (i >= n || s[i] != '"' || (i != n - 1 && s[i + 1] != r->delim))
      return wrong(r, "a field with quotes has to end with one, before a delimiter or the end");
    *at = i + 2;
  }
  r->field[*length = to] = 0;
  return true;
}

/* r->field, or what stands for a field that is missing, as element i of output o. */
static bool put_field(reader *r, int32_t o, int64_t i, int64_t length) {
  const df_tensor *given = r->k->in[1 + o];
  df_tensor *t = r->out[o];
  char text[100], *end = r->field;
  if (length == 0 || !strcmp(r->field, r->missing)) {
    snprintf(text, sizeof text, "field %d is missing, and it has no default", o);
    if (given->size != 1) return wrong(r, text);
    if (t->dtype == DF_STRING) {
      const df_str *s = given->data;
      return dfk_set_string(r->k, t, i, s->bytes, s->length);
    }
    if (ref_is_float(t->dtype)) ref_put(t, i, ref_get(given, 0));
    else ref_put_int(t, i, ref_get_int(given, 0));
    return true;
  }
  if (t->dtype == DF_STRING) return dfk_set_string(r->k, t, i, r->field, length);
  errno = 0;
  if (ref_is_float(t->dtype)) {
    ref_put(t, i, t->dtype == DF_FLOAT32 ? (double)strtof(r->field, &end) : strtod(r->field, &end));
    errno = 0;
  } else {
    const int64_t v = strtoll(r->field, &end, 10);
    if (t->dtype == DF_INT32 && v != (int32_t)v) errno = ERANGE;
    ref_put_int(t, i, v);
  }
  while (*end == ' ') end++;
  if (end != r->field && !*end && !errno) return true;
  snprintf(text, sizeof text, "field %d, '%.40s', is no %s", o, r->field, df_dtype_name(t->dtype));
  return wrong(r, text);
}

/* The fields of one record that are asked for, all or those of `columns`, to element r->record of the outputs. */
static bool read_record(reader *r, const df_str *s, const df_attr *columns) {
  const int64_t fields = r->k->nin - 1;
  int64_t number = 0, at = 0, length = 0, found = 0;
  while (at < s->length && !(columns->i && found == fields)) {
    if (s->bytes[at] == '\n' || s->bytes[at] == '\r') { at++; continue; }
    if (!read_field(r, s->bytes, s->length, &at, &length)) return false;
    if (columns->i && columns->ints[found] != number++) continue;
    if (found < fields && !put_field(r, (int32_t)found, r->record, length)) return false;
    found++;
  }
  r->field[0] = 0;
  const bool open = s->length && s->bytes[s->length - 1] == r->delim;
  if (open && (columns->i ? found < fields && columns->ints[found] == number : true)) {
    if (found < fields && !put_field(r, (int32_t)found, r->record, 0)) return false;
    found++;
  }
  if (found == fields) return true;
  dfk_fail(r->k, DF_INVALID_ARGUMENT, "record %lld has %lld fields: expected %lld", (long long)r->record,
           (long long)found, (long long)fields);
  return false;
}

/* (records, record_defaults; OUT_TYPE, field_delim, use_quote_delim, na_value, select_cols) */
int32_t ref_decode_csv(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const df_attr *columns = &k->attrs[4];
  const df_str *s = x->data;
  reader r = { .k = k, .delim = dfk_string(k, 1)[0], .quotes = dfk_bool(k, 2), .missing = dfk_string(k, 3) };
  int64_t longest = 0;
  if (columns->i && columns->i != k->nout)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "select_cols has %lld numbers, and there are %d defaults",
                    (long long)columns->i, k->nout);
  for (int64_t i = 0; i < x->size; i++) longest = s[i].length > longest ? s[i].length : longest;
  r.out = dfk_scratch(k, k->nout * (int64_t)sizeof *r.out + 8);
  r.field = dfk_scratch(k, longest + 1);
  bool ok = r.out && r.field;
  for (int32_t o = 0; ok && o < k->nout; o++)
    ok = (r.out[o] = dfk_out(k, o, k->out_dtype[o], x->rank, x->dims)) != NULL;
  for (; ok && r.record < x->size; r.record++) ok = read_record(&r, &s[r.record], columns);
  dfk_free(r.field);
  dfk_free(r.out);
  return ok ? DF_OK : k->error->code;
}
