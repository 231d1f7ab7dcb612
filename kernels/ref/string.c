/* string.c: strings joined, cut, measured and read. */
#include "../string.h"
#include "../move.h"
#include "../segment.h"
#include "element.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

static const df_str *str_at(const df_tensor *t, int64_t i) { return (const df_str *)t->data + i; }
static bool is(const df_attr *a, const char *what) {
  return a->i == (int64_t)strlen(what) && !memcmp(a->s, what, strlen(what));
}

static bool put(df_kernel *k, df_tensor *out, int64_t i, char *bytes, int64_t n) {
  bool ok = dfk_set_string(k, out, i, bytes ? bytes : "", n);
  free(bytes);
  return ok;
}

/* All inputs have one shape, or are scalars. */
int32_t ref_string_join(df_kernel *k) {
  const df_tensor *like = NULL;
  char a[160], b[160];
  for (int32_t i = 0; i < k->nin; i++) {
    const df_tensor *t = k->in[i];
    if (t->rank == 0) continue;
    bool same = !like || (like->rank == t->rank && !memcmp(like->dims, t->dims, sizeof *t->dims * (size_t)t->rank));
    if (!same)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s and %s are joined: they must have one shape, or be scalars",
                      dfk_shape_text(like, a, sizeof a), dfk_shape_text(t, b, sizeof b));
    like = t;
  }
  df_tensor *out = dfk_out(k, 0, DF_STRING, like ? like->rank : 0, like ? like->dims : NULL);
  if (!out) return k->error->code;
  const df_attr *separator = &k->attrs[0];
  for (int64_t i = 0; i < out->size; i++) {
    int64_t n = k->nin ? separator->i * (k->nin - 1) : 0, at = 0;
    for (int32_t j = 0; j < k->nin; j++) n += str_at(k->in[j], k->in[j]->rank ? i : 0)->length;
    char *bytes = malloc((size_t)n + 1);
    if (!bytes) return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a string of %lld bytes", (long long)n);
    for (int32_t j = 0; j < k->nin; j++) {
      const df_str *s = str_at(k->in[j], k->in[j]->rank ? i : 0);
      if (j) { memcpy(bytes + at, separator->s, (size_t)separator->i); at += separator->i; }
      if (s->length) memcpy(bytes + at, s->bytes, (size_t)s->length);
      at += s->length;
    }
    if (!put(k, out, i, bytes, n)) return k->error->code;
  }
  return DF_OK;
}

/* Along the axes in the order in which they are given: the first one changes first. */
int32_t ref_reduce_join(df_kernel *k) {
  const df_tensor *x = k->in[0], *axes = k->in[1];
  bool keep = dfk_bool(k, 0), reduced[DF_MAX_RANK] = { false };
  int32_t order[DF_MAX_RANK], rank = 0;
  int64_t dims[DF_MAX_RANK], strides[DF_MAX_RANK], from[DF_MAX_RANK], count = 1;
  for (int64_t i = 0; i < axes->size; i++) {
    int64_t a = dfk_index(axes, i);
    if (a < -x->rank || a >= x->rank)
      return dfk_fail(k, DF_OUT_OF_RANGE, "reduction axis %lld is out of range for rank %d", (long long)a, x->rank);
    a += a < 0 ? x->rank : 0;
    if (reduced[a]) return dfk_fail(k, DF_INVALID_ARGUMENT, "reduction axis %lld is given twice", (long long)a);
    reduced[a] = true;
    order[i] = (int32_t)a;
    count *= x->dims[a];
  }
  dfk_strides(x->rank, x->dims, strides);
  for (int32_t d = 0; d < x->rank; d++) {
    if (reduced[d] && !keep) continue;
    from[rank] = reduced[d] ? 0 : strides[d];
    dims[rank++] = reduced[d] ? 1 : x->dims[d];
  }
  df_tensor *out = dfk_out(k, 0, DF_STRING, rank, dims);
  if (!out) return k->error->code;
  const df_attr *separator = &k->attrs[1];
  for (int64_t o = 0; o < out->size; o++) {
    int64_t base = 0, left = o, n = 0, at = 0;
    for (int32_t d = rank - 1; d >= 0; d--) { base += left % dims[d] * from[d]; left /= dims[d]; }
    char *bytes = NULL;
    for (int pass = 0; pass < 2; pass++) {             /* measure, then write */
      for (int64_t j = 0; j < count; j++) {
        int64_t i = base, rest = j;
        for (int64_t a = 0; a < axes->size; a++) {
          i += rest % x->dims[order[a]] * strides[order[a]];
          rest /= x->dims[order[a]];
        }
        const df_str *s = str_at(x, i);
        if (!pass) { n += s->length + (j ? separator->i : 0); continue; }
        if (j) { memcpy(bytes + at, separator->s, (size_t)separator->i); at += separator->i; }
        if (s->length) memcpy(bytes + at, s->bytes, (size_t)s->length);
        at += s->length;
      }
      if (!pass && !(bytes = malloc((size_t)n + 1)))
        return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a string of %lld bytes", (long long)n);
    }
    if (!put(k, out, o, bytes, n)) return k->error->code;
  }
  return DF_OK;
}

typedef struct joined { char *bytes; int64_t n, cap; bool begun; } joined;

static bool join(df_kernel *k, joined *j, const df_attr *separator, const df_str *s) {
  const int64_t between = j->begun ? separator->i : 0, need = j->n + between + s->length;
  if (need > j->cap) {
    char *wider = realloc(j->bytes, (size_t)need * 2);
    if (!wider) {
      dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a string of %lld bytes", (long long)need);
      return false;
    }
    j->bytes = wider;
    j->cap = need * 2;
  }
  if (between) memcpy(j->bytes + j->n, separator->s, (size_t)between);
  if (s->length) memcpy(j->bytes + j->n + between, s->bytes, (size_t)s->length);
  j->n = need;
  j->begun = true;
  return true;
}

int32_t ref_unsorted_segment_join(df_kernel *k) {
  const df_tensor *ids = k->in[1];
  int64_t row;
  df_tensor *out = dfk_unsorted_begin(k, &row);
  joined *all = out ? dfk_scratch(k, (out->size + 1) * (int64_t)sizeof *all) : NULL;
  if (!all) return k->error->code;
  memset(all, 0, (size_t)out->size * sizeof *all);
  bool ok = true;
  for (int64_t i = 0; i < ids->size && ok; i++) {
    const int64_t id = dfk_index(ids, i);
    for (int64_t c = 0; c < row && id >= 0 && ok; c++)
      ok = join(k, &all[id * row + c], &k->attrs[0], str_at(k->in[0], i * row + c));
  }
  for (int64_t i = 0; i < out->size; i++) {
    if (ok) ok = put(k, out, i, all[i].bytes, all[i].n); else free(all[i].bytes);
  }
  dfk_free(all);
  return ok ? DF_OK : k->error->code;
}

/* Is all of the text a number of this dtype? Spaces around it are allowed. */
static bool read_number(const char *s, df_tensor *out, int64_t i) {
  char *end;
  while (isspace((unsigned char)*s)) s++;
  if (!*s) return false;
  errno = 0;
  switch (out->dtype) {
    case DF_FLOAT32: case DF_FLOAT64:
      if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) return false;
      ref_put(out, i, out->dtype == DF_FLOAT32 ? (double)strtof(s, &end) : strtod(s, &end));
      break;
    case DF_UINT64: case DF_UINT32: {
      unsigned long long v = strtoull(s, &end, 10);
      if (*s == '-' || errno || (out->dtype == DF_UINT32 && v > UINT32_MAX)) return false;
      ref_put_int(out, i, (int64_t)v);
      break;
    }
    default: {
      long long v = strtoll(s, &end, 10);
      if (errno || (out->dtype == DF_INT32 && v != (int32_t)v)) return false;
      ref_put_int(out, i, v);
    }
  }
  if (end == s) return false;
  while (isspace((unsigned char)*end)) end++;
  return *end == 0;
}

int32_t ref_string_to_number(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], x->rank, x->dims);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) {
    const df_str *s = str_at(x, i);
    const char *text = s->length ? s->bytes : "";                 /* a zero follows the bytes of a string */
    if ((int64_t)strlen(text) != s->length || !read_number(text, out, i))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "'%.*s' is no number of dtype %s",
                      (int)(s->length < 200 ? s->length : 200), text, df_dtype_name(out->dtype));
  }
  return DF_OK;
}

/* ---- lengths and parts. With unit UTF8_CHAR a character is a byte and the continuation bytes after it ------------ */
static bool begins_character(char c) { return ((unsigned char)c & 0xc0) != 0x80; }
static int64_t length_of(const df_str *s, bool characters) {
  if (!characters) return s->length;
  int64_t n = 0;
  for (int64_t i = 0; i < s->length; i++) n += begins_character(s->bytes[i]);
  return n;
}
/* The byte where character n begins. */
static int64_t byte_of(const df_str *s, int64_t n, bool characters) {
  if (!characters) return n;
  int64_t i = 0;
  for (; i < s->length; i++)
    if (begins_character(s->bytes[i]) && n-- == 0) break;
  return i;
}

int32_t ref_string_length(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out(k, 0, DF_INT32, x->rank, x->dims);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++)
    ((int32_t *)out->data)[i] = (int32_t)length_of(str_at(x, i), is(&k->attrs[0], "UTF8_CHAR"));
  return DF_OK;
}

int32_t ref_substr(df_kernel *k) {
  const df_tensor *x = k->in[0], *pos = k->in[1], *len = k->in[2];
  bool characters = is(&k->attrs[0], "UTF8_CHAR"), one = pos->size == 1 && pos->rank <= x->rank;
  char a[160], b[160];
  bool fits = pos->rank == len->rank && !memcmp(pos->dims, len->dims, sizeof *pos->dims * (size_t)pos->rank) &&
              (one || (pos->rank == x->rank && !memcmp(pos->dims, x->dims, sizeof *pos->dims * (size_t)pos->rank)));
  if (!fits)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "pos is %s and the input is %s: pos and len must be one number each, or one for each string",
                    dfk_shape_text(pos, a, sizeof a), dfk_shape_text(x, b, sizeof b));
  df_tensor *out = dfk_out(k, 0, DF_STRING, x->rank, x->dims);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) {
    const df_str *s = str_at(x, i);
    int64_t n = length_of(s, characters), begin = dfk_any_int(pos, one ? 0 : i), count = dfk_any_int(len, one ? 0 : i);
    if (begin < -n || begin > n)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "pos %lld is out of range for a string of length %lld (element %lld)",
                      (long long)begin, (long long)n, (long long)i);
    if (begin < 0) begin += n;
    if (count < 0) count = 0;
    if (count > n - begin) count = n - begin;
    int64_t from = byte_of(s, begin, characters), to = byte_of(s, begin + count, characters);
    if (!dfk_set_string(k, out, i, s->bytes ? s->bytes + from : "", to - from)) return k->error->code;
  }
  return DF_OK;
}

int32_t ref_string_strip(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out(k, 0, DF_STRING, x->rank, x->dims);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) {
    const df_str *s = str_at(x, i);
    int64_t from = 0, to = s->length;
    while (from < to && isspace((unsigned char)s->bytes[from])) from++;
    while (to > from && isspace((unsigned char)s->bytes[to - 1])) to--;
    if (!dfk_set_string(k, out, i, s->bytes ? s->bytes + from : "", to - from)) return k->error->code;
  }
  return DF_OK;
}

/* ---- splitting: the parts as a sparse matrix ------------------------------------------------------------------- */
/* Part by part of s; every byte of an empty delimiter list is a part. False: no more. */
static bool next_part(const df_str *s, const df_str *delimiters, bool skip_empty, int64_t *at, int64_t *from,
                      int64_t *to) {
  for (;;) {
    if (delimiters->length == 0) {
      if (*at >= s->length) return false;
      *from = *at;
      *to = ++*at;
      return true;
    }
    if (*at > s->length) return false;
    *from = *to = *at;
    while (*to < s->length && !memchr(delimiters->bytes, s->bytes[*to], (size_t)delimiters->length)) ++*to;
    *at = *to + 1;
    if (*to > *from || !skip_empty) return true;
  }
}

int32_t ref_string_split(df_kernel *k) {
  const df_tensor *x = k->in[0], *delimiter = k->in[1];
  char text[160];
  if (x->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the input is %s but must be a vector",
                    dfk_shape_text(x, text, sizeof text));
  if (delimiter->rank != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the delimiter is %s but must be a scalar",
                    dfk_shape_text(delimiter, text, sizeof text));
  int64_t n = 0, widest = 0, at, from, to;
  for (int64_t i = 0; i < x->size; i++) {
    int64_t parts = 0;
    for (at = 0;
         str_at(x, i)->length && next_part(str_at(x, i), str_at(delimiter, 0), dfk_bool(k, 0), &at, &from, &to);)
      parts++;
    n += parts;
    if (parts > widest) widest = parts;
  }
  df_tensor *indices = dfk_out(k, 0, DF_INT64, 2, (int64_t[]){ n, 2 }),
            *values = indices ? dfk_out(k, 1, DF_STRING, 1, &n) : NULL;
  df_tensor *shape = values ? dfk_out(k, 2, DF_INT64, 1, (int64_t[]){ 2 }) : NULL;
  if (!shape) return k->error->code;
  int64_t *index = indices->data, v = 0;
  for (int64_t i = 0; i < x->size; i++) {
    const df_str *s = str_at(x, i);
    int64_t part = 0;
    for (at = 0; s->length && next_part(s, str_at(delimiter, 0), dfk_bool(k, 0), &at, &from, &to); v++) {
      index[2 * v] = i;
      index[2 * v + 1] = part++;
      if (!dfk_set_string(k, values, v, s->bytes + from, to - from)) return k->error->code;
    }
  }
  ((int64_t *)shape->data)[0] = x->size;
  ((int64_t *)shape->data)[1] = widest;
  return DF_OK;
}

/* Strings of one length as the numbers that their bytes are. */
int32_t ref_decode_raw(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t width = dfk_width(k->out_dtype[0]), length = x->size ? str_at(x, 0)->length : 0, dims[DF_MAX_RANK + 1];
  for (int64_t i = 1; i < x->size; i++)
    if (str_at(x, i)->length != length)
      return dfk_fail(k, DF_INVALID_ARGUMENT,
                      "strings of %lld and of %lld bytes are decoded: they must have one length", (long long)length,
                      (long long)str_at(x, i)->length);
  if (length % width)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "a string of %lld bytes holds no whole number of %s", (long long)length,
                    df_dtype_name(k->out_dtype[0]));
  if (x->rank == DF_MAX_RANK)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the result would have more than %d axes", DF_MAX_RANK);
  for (int32_t d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  dims[x->rank] = length / width;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], x->rank + 1, dims);
  if (!out) return k->error->code;
  char *to = out->data;
  for (int64_t i = 0; i < x->size && length; i++, to += length) {
    memcpy(to, str_at(x, i)->bytes, (size_t)length);
    if (out->dtype == DF_BOOL) for (int64_t b = 0; b < length; b++) to[b] = to[b] != 0;
    if (dfk_bool(k, 1)) continue;
    int64_t part = dfk_is_complex(out->dtype) ? width / 2 : width;
    for (char *p = to; p < to + length; p += part)
      for (int64_t a = 0, b = part - 1; a < b; a++, b--) { char c = p[a]; p[a] = p[b]; p[b] = c; }
  }
  return DF_OK;
}
