/* parse_example.c: features taken out of tensorflow.Example messages, as sparse, dense and ragged tensors.
 *
 * Each serialized Example is read once: what each of the wanted keys has is noted as a piece of its bytes, and read
 * again when the outputs are written. Nothing is made that the bytes do not pay for.
 */
#include "../example.h"
#include "../move.h"
#include <string.h>

#define FAIL(k, ...) (dfk_fail(k, DF_INVALID_ARGUMENT, __VA_ARGS__), false)

/* ---- the wire format --------------------------------------------------------------------------------------------- */

typedef struct bytes { const uint8_t *at, *end; } bytes;

static bool read_varint(bytes *b, uint64_t *v) {
  *v = 0;
  for (int32_t shift = 0; shift < 70 && b->at < b->end; shift += 7) {
    const uint8_t byte = *b->at++;
    if (shift < 64) *v |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

/* The next field: its number and kind, and the bytes it has (kind 0: the varint is in *v). False: they are no field. */
static bool read_field(bytes *b, uint64_t *number, uint32_t *kind, bytes *in, uint64_t *v) {
  uint64_t tag, n = 0;
  if (!read_varint(b, &tag)) return false;
  *number = tag >> 3;
  *kind = tag & 7;
  *in = *b;
  if (*kind == 0) return read_varint(b, v);
  if (*kind == 1) n = 8;
  else if (*kind == 5) n = 4;
  else if (*kind != 2 || !read_varint(b, &n)) return false;
  if (n > (uint64_t)(b->end - b->at)) return false;
  *in = (bytes){ b->at, b->at + n };
  b->at += n;
  return true;
}

/* ---- features
 * ------------------------------------------------------------------------------------------------------ */

/* What an Example has under a key: the dtype of its list and the list's bytes; DF_INVALID: nothing. */
typedef struct feature { uint8_t dtype; bytes list; } feature;

/* Goes over the values of a feature. `run`: what is left of numbers that lie packed. */
typedef struct values { feature f; bytes run; } values;

/* One value. 1: it is in s or number; 0: there are no more; -1: the list is damaged. */
static int32_t next_value(values *v, df_str *s, int64_t *number, float *real) {
  uint64_t field, n = 0;
  uint32_t kind;
  bytes in;
  while (v->run.at == v->run.end) {
    if (v->f.list.at == v->f.list.end) return 0;
    if (!read_field(&v->f.list, &field, &kind, &in, &n)) return -1;
    if (field != 1) continue;
    if (v->f.dtype == DF_STRING) {
      if (kind != 2) return -1;
      *s = (df_str){ (char *)(uintptr_t)in.at, in.end - in.at };
      return 1;
    }
    if (v->f.dtype == DF_INT64 && kind == 0) { *number = (int64_t)n; return 1; }
    if (kind != 2 && !(v->f.dtype == DF_FLOAT32 && kind == 5)) return -1;
    v->run = in;
  }
  if (v->f.dtype == DF_INT64) {
    if (!read_varint(&v->run, &n)) return -1;
    *number = (int64_t)n;
    return 1;
  }
  if (v->run.end - v->run.at < 4) return -1;
  memcpy(real, v->run.at, 4);
  v->run.at += 4;
  return 1;
}

static values values_of(const feature *f) { return (values){ *f, { NULL, NULL } }; }

/* How many values it has; -1: it is damaged. */
static int64_t count_values(const feature *f) {
  values v = values_of(f);
  df_str s;
  int64_t n = 0, number;
  float real;
  int32_t more = 0;
  while (f->dtype && (more = next_value(&v, &s, &number, &real)) > 0) n++;
  return more < 0 ? -1 : n;
}

/* Writes all values from element `at` of t on. False: the error is filled. */
static bool write_values(df_kernel *k, const feature *f, df_tensor *t, int64_t at) {
  values v = values_of(f);
  df_str s = { NULL, 0 };
  int64_t number = 0;
  float real = 0;
  for (; f->dtype && next_value(&v, &s, &number, &real) > 0; at++) {
    if (t->dtype == DF_STRING) { if (!dfk_set_string(k, t, at, s.bytes, s.length)) return false; }
    else if (t->dtype == DF_INT64) ((int64_t *)t->data)[at] = number;
    else ((float *)t->data)[at] = real;
  }
  return true;
}

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

enum { SPARSE, DENSE, RAGGED, KINDS };

typedef struct asked {
  const df_tensor *serialized, *keys[KINDS];     /* keys: a vector, or */
  const df_tensor *const *scalars[KINDS];        /* n[kind] scalars */
  const df_attr   *types[KINDS], *splits, *shapes;
  int32_t          n[KINDS], all, first_default;
  int64_t          batch;
  feature         *found;             /* batch rows of `all` */
} asked;

static const df_str *key_at(const asked *a, int32_t i) {
  int32_t kind = 0;
  while (i >= a->n[kind]) i -= a->n[kind++];
  if (a->scalars[kind]) return (const df_str *)a->scalars[kind][i]->data;
  return (const df_str *)a->keys[kind]->data + i;
}
static uint8_t type_at(const asked *a, int32_t i) {
  int32_t kind = 0;
  while (i >= a->n[kind]) i -= a->n[kind++];
  return (uint8_t)a->types[kind]->ints[i];
}

static bool check_asked(df_kernel *k, asked *a) {
  static const char *const name[] = { "sparse", "dense", "ragged" };
  for (int32_t kind = 0; kind < KINDS; kind++) {
    const int64_t n = a->keys[kind] ? a->keys[kind]->size : a->n[kind];
    if (n != a->types[kind]->i)
      return FAIL(k, "%lld %s keys for %lld features", (long long)n, name[kind], (long long)a->types[kind]->i);
    if (n && a->keys[kind] && a->keys[kind]->dtype != DF_STRING)
      return FAIL(k, "the %s keys are no strings", name[kind]);
    for (int64_t i = 0; a->scalars[kind] && i < n; i++)
      if (a->scalars[kind][i]->size != 1) return FAIL(k, "%s key %lld is no single string", name[kind], (long long)i);
    a->n[kind] = (int32_t)n;
    a->all += a->n[kind];
    for (int64_t i = 0; i < n; i++) {
      const int64_t type = a->types[kind]->ints[i];
      if (type != DF_FLOAT32 && type != DF_INT64 && type != DF_STRING)
        return FAIL(k, "%s feature %lld is %s: expected float32, int64 or string", name[kind], (long long)i,
                    df_dtype_name((int32_t)type));
    }
  }
  if (a->serialized->rank > 1) return FAIL(k, "serialized has rank %d: expected a scalar or a vector",
                                           a->serialized->rank);
  if (a->n[RAGGED] && a->splits->i != a->n[RAGGED])
    return FAIL(k, "%lld types of splits for %d ragged features", (long long)a->splits->i, a->n[RAGGED]);
  a->batch = a->serialized->size;
  return true;
}

/* Notes what the value of a map entry has for the features of that key, in the row of an Example. */
static bool note(df_kernel *k, const asked *a, feature *row, int64_t example, bytes key, bytes value) {
  static const uint8_t dtypes[] = { DF_INVALID, DF_STRING, DF_FLOAT32, DF_INT64 };
  feature f = { DF_INVALID, value };
  uint64_t number, v;
  uint32_t kind;
  bytes in;
  while (value.at < value.end) {
    if (!read_field(&value, &number, &kind, &in, &v)) return FAIL(k, "Example %lld is damaged", (long long)example);
    if (number >= 1 && number <= 3 && kind == 2) f = (feature){ dtypes[number], in };
  }
  for (int32_t i = 0; i < a->all; i++) {
    const df_str *name = key_at(a, i);
    if (name->length != key.end - key.at || (name->length && memcmp(name->bytes, key.at,
                                                                    (size_t)name->length))) continue;
    if (f.dtype && f.dtype != type_at(a, i))
      return FAIL(k, "feature '%.*s' of Example %lld is %s, %s is asked for",
                  (int)(name->length > 60 ? 60 : name->length),
                  name->bytes, (long long)example, df_dtype_name(f.dtype), df_dtype_name(type_at(a, i)));
    row[i] = f;
    if (count_values(&f) < 0) return FAIL(k, "Example %lld is damaged", (long long)example);
  }
  return true;
}

/* Reads message `of` and calls itself for what lies in it: an Example has Features, these have entries. */
static bool read_example(df_kernel *k, const asked *a, feature *row, int64_t example, bytes of, int32_t level) {
  uint64_t number, v;
  uint32_t kind;
  bytes in, key = { NULL, NULL }, value = { NULL, NULL };
  while (of.at < of.end) {
    if (!read_field(&of, &number, &kind, &in, &v)) return FAIL(k, "Example %lld is damaged", (long long)example);
    if (kind != 2) continue;
    if (level < 2 && number == 1 && !read_example(k, a, row, example, in, level + 1)) return false;
    if (level == 2 && number == 1) key = in;
    if (level == 2 && number == 2) value = in;
  }
  return level < 2 || note(k, a, row, example, key, value);
}

/* ---- outputs
 * ------------------------------------------------------------------------------------------------------- */

static int64_t values_in(const asked *a, int64_t example, int32_t i) {
  return count_values(&a->found[example * a->all + i]);
}
static int64_t total_values(const asked *a, int32_t i, int64_t *most) {
  int64_t n = 0;
  *most = 0;
  for (int64_t e = 0; e < a->batch; e++) {
    const int64_t here = values_in(a, e, i);
    n += here;
    if (here > *most) *most = here;
  }
  return n;
}

static bool write_sparse(df_kernel *k, const asked *a, int32_t i) {
  const int32_t rank = a->serialized->rank + 1, n = a->n[SPARSE];
  int64_t most, total = total_values(a, i, &most), at = 0;
  df_tensor *indices = dfk_out(k, i, DF_INT64, 2, (int64_t[]){ total, rank }),
            *values = indices ? dfk_out(k, n + i, type_at(a, i), 1, &total) : NULL,
            *shape = values ? dfk_out(k, 2 * n + i, DF_INT64, 1, (int64_t[]){ rank }) : NULL;
  if (!shape) return false;
  ((int64_t *)shape->data)[0] = a->batch;
  ((int64_t *)shape->data)[rank - 1] = most;
  for (int64_t e = 0; e < a->batch; e++) {
    const int64_t here = values_in(a, e, i);
    if (!write_values(k, &a->found[e * a->all + i], values, at)) return false;
    for (int64_t j = 0; j < here; j++, at++) {
      ((int64_t *)indices->data)[at * rank] = e;
      ((int64_t *)indices->data)[at * rank + rank - 1] = j;
    }
  }
  return true;
}

/* The dims that dense feature d has in each Example; *open: the first is as long as the longest. */
static bool dense_dims(df_kernel *k, const asked *a, int32_t d, int32_t *rank, int64_t *dims, bool *open) {
  const int64_t *at = a->shapes->ints, *end = at + a->shapes->i;
  for (int32_t i = 0; i < d && at < end; i++) at += 1 + (*at > 0 ? *at : 0);
  if (at >= end || *at < 0 || *at + 1 >= DF_MAX_RANK) return FAIL(k, "dense_shapes has no shape for dense feature %d",
                                                                  d);
  *rank = (int32_t)*at;
  *open = *rank && at[1] < 0;
  for (int32_t i = 0; i < *rank; i++) {
    dims[i] = at[1 + i];
    if (dims[i] < 0 && i) return FAIL(k, "dense_shapes: only the first dimension of feature %d may be open", d);
  }
  return true;
}

/* Elements [at, at + n) become the default's: all of them, or the one again and again. */
static bool put_default(df_kernel *k, df_tensor *out, int64_t at, int64_t n, const df_tensor *by) {
  if (by->size == n) return dfk_copy(k, out, at, by, 0, n);
  for (int64_t i = 0; i < n; i++) if (!dfk_copy(k, out, at + i, by, 0, 1)) return false;
  return true;
}

static bool write_dense(df_kernel *k, const asked *a, int32_t d) {
  const int32_t i = a->n[SPARSE] + d;
  const df_tensor *by = k->in[a->first_default + d];
  const df_str *name = key_at(a, i);
  const int32_t shown = (int32_t)(name->length > 60 ? 60 : name->length);
  int64_t dims[DF_MAX_RANK], most, each = 1;
  int32_t rank;
  bool open;
  if (!dense_dims(k, a, d, &rank, dims + 1, &open)) return false;
  for (int32_t r = open; r < rank; r++)
    if (__builtin_mul_overflow(each, dims[1 + r], &each)) return FAIL(k, "the shape of feature '%.*s' is too large",
                                                                      shown, name->bytes);
  if (open) {
    total_values(a, i, &most);
    if (each == 0 && most) return FAIL(k, "feature '%.*s' has values, its rows none", shown, name->bytes);
    dims[1] = each ? (most + each - 1) / each : 0;
  }
  dims[0] = a->batch;
  const int32_t skip = a->serialized->rank ? 0 : 1;
  const int64_t size = open ? dims[1] * each : each;
  df_tensor *out = dfk_out(k, 3 * a->n[SPARSE] + d, type_at(a, i), rank + 1 - skip, dims + skip);
  if (!out) return false;
  for (int64_t e = 0; e < a->batch; e++) {
    const feature *f = &a->found[e * a->all + i];
    const int64_t here = values_in(a, e, i);
    if (!f->dtype && !open) {
      if (by->size != size) return FAIL(k, "feature '%.*s' is not in Example %lld, and has no default", shown,
                                        name->bytes, (long long)e);
      if (!put_default(k, out, e * size, size, by)) return false;
      continue;
    }
    if (open ? each && here % each : here != size)
      return FAIL(k, "feature '%.*s' of Example %lld has %lld values, %lld are expected", shown, name->bytes,
                  (long long)e,
                  (long long)here, (long long)(open ? each : size));
    if (here < size && by->size != 1) return FAIL(k,
                                                  "the default of feature '%.*s' has %lld elements, one is "
                                        "expected", shown, name->bytes, (long long)by->size);
    if (!write_values(k, f, out, e * size) || !put_default(k, out, e * size + here, size - here, by)) return false;
  }
  return true;
}

static bool write_ragged(df_kernel *k, const asked *a, int32_t r) {
  const int32_t i = a->n[SPARSE] + a->n[DENSE] + r, first = 3 * a->n[SPARSE] + a->n[DENSE];
  int64_t most, total = total_values(a, i, &most), at = 0, n = a->serialized->rank ? a->batch + 1 : 0;
  df_tensor *values = dfk_out(k, first + r, type_at(a, i), 1, &total),
            *splits = values ? dfk_out(k, first + a->n[RAGGED] + r, (uint8_t)a->splits->ints[r], 1, &n) : NULL;
  if (!splits) return false;
  if (n) df_tensor_set_int(splits, 0, 0);
  for (int64_t e = 0; e < a->batch; e++) {
    if (!write_values(k, &a->found[e * a->all + i], values, at)) return false;
    at += values_in(a, e, i);
    if (n) df_tensor_set_int(splits, e + 1, at);
  }
  return true;
}

static int32_t parse(df_kernel *k, asked *a) {
  if (!check_asked(k, a)) return k->error->code;
  int64_t room;
  if (__builtin_mul_overflow(a->batch * a->all + 1, (int64_t)sizeof *a->found, &room)) room = INT64_MAX;
  a->found = dfk_scratch(k, room);
  if (!a->found) return k->error->code;
  memset(a->found, 0, (size_t)room);
  bool good = true;
  for (int64_t e = 0; good && e < a->batch; e++) {
    const df_str *s = (const df_str *)a->serialized->data + e;
    const uint8_t *at = (const uint8_t *)s->bytes;
    good = !s->length || read_example(k, a, a->found + e * a->all, e, (bytes){ at, at + s->length }, 0);
    if (good && dfk_stopping(k)) good = (dfk_fail(k, DF_CANCELLED, "the run ends while Examples are parsed"), false);
  }
  for (int32_t i = 0; good && i < a->n[SPARSE]; i++) good = write_sparse(k, a, i);
  for (int32_t i = 0; good && i < a->n[DENSE]; i++) good = write_dense(k, a, i);
  for (int32_t i = 0; good && i < a->n[RAGGED]; i++) good = write_ragged(k, a, i);
  dfk_free(a->found);
  return good ? DF_OK : k->error->code;
}

static int32_t parse_named(df_kernel *k, asked *a) {
  if (k->in[1]->size && k->in[1]->size != k->in[0]->size)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%lld names for %lld Examples", (long long)k->in[1]->size,
                    (long long)k->in[0]->size);
  return parse(k, a);
}

/* serialized, names, sparse_keys, dense_keys, ragged_keys, dense_defaults…; Tdense, num_sparse, sparse_types,
 * ragged_value_types, ragged_split_types, dense_shapes */
int32_t ref_parse_example_v2(df_kernel *k) {
  const df_attr *t = k->attrs;
  asked a = { .serialized = k->in[0], .keys = { k->in[2], k->in[3], k->in[4] }, .types = { t + 2, t, t + 3 },
              .splits = t + 4, .shapes = t + 5, .first_default = 5 };
  return parse_named(k, &a);
}

/* serialized, names, sparse_keys…, dense_keys…, dense_defaults…; Nsparse, Ndense, sparse_types, Tdense, dense_shapes */
int32_t ref_parse_example(df_kernel *k) {
  static const df_attr none = { 0 };
  const df_attr *t = k->attrs;
  if (t[0].i > k->nin || t[1].i > k->nin || k->nin - 2 - t[0].i - t[1].i != t[3].i)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%d inputs for %lld sparse and %lld dense keys and %lld defaults", k->nin,
                    (long long)t[0].i, (long long)t[1].i, (long long)t[3].i);
  const int32_t sparse = (int32_t)t[0].i, dense = (int32_t)t[1].i;
  for (int32_t i = 2; i < k->nin; i++) {
    const int32_t d = i - 2 - sparse - dense, expected = d < 0 ? DF_STRING : (int32_t)t[3].ints[d];
    if (k->in[i]->dtype != expected)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s: expected %s", i, df_dtype_name(k->in[i]->dtype),
                      df_dtype_name(expected));
  }
  asked a = { .serialized = k->in[0], .scalars = { k->in + 2, k->in + 2 + sparse }, .n = { sparse, dense },
              .types = { t + 2, t + 3, &none }, .splits = &none, .shapes = t + 4,
              .first_default = 2 + sparse + dense };
  return parse_named(k, &a);
}

/* serialized, dense_defaults…; num_sparse, sparse_keys, dense_keys, sparse_types, Tdense, dense_shapes */
int32_t ref_parse_single_example(df_kernel *k) {
  static const df_attr none = { 0 };
  const df_attr *t = k->attrs;
  asked a = { .serialized = k->in[0], .keys = { t[1].tensor, t[2].tensor }, .types = { t + 3, t + 4, &none },
             .splits = &none,
              .shapes = t + 5, .first_default = 1 };
  if (k->in[0]->rank) return dfk_fail(k, DF_INVALID_ARGUMENT, "serialized has rank %d: expected a scalar",
                                      k->in[0]->rank);
  return parse(k, &a);
}
