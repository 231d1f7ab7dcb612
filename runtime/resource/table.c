/* table.c: the life of a table, and what is done with its entries. */
#include "resource/table.h"
#include <stdio.h>

static int64_t width(const dfi_table *t) { return t->cells * dfi_dtype_size[t->value]; }

/* ---- life ------------------------------------------------------------------------------------------- */

static void free_text(df_str *s) { dfi_free((char *)s->bytes); }

static void drop_value(dfi_table *t, int64_t i) {
  if (t->value != DF_STRING) return;
  df_str *s = (df_str *)(t->data + i * width(t));
  for (int64_t c = 0; c < t->cells; c++) free_text(&s[c]);
}

static void clear(dfi_table *t) {
  for (int64_t i = 0; i < t->n; i++) {
    drop_value(t, i);
    if (t->text) free_text(&t->text[i]);
  }
  t->n = 0;
  if (t->slot) memset(t->slot, 0, sizeof *t->slot * (size_t)t->nslots);
}

static void destroy(dfi_handle *h) {
  dfi_table *t = (dfi_table *)h;
  clear(t);
  for (int32_t i = 0; i < 2; i++) df_tensor_release(t->refused[i]);
  dfi_free(t->name); dfi_free(t->hash); dfi_free(t->text); dfi_free(t->number); dfi_free(t->data); dfi_free(t->slot);
  pthread_mutex_destroy(&t->lock);
  dfi_free(t);
}

dfi_table *dfi_table_new(const dfi_table_spec *s, df_error *err) {
  if (s->key != DF_INT64 && s->key != DF_INT32 && s->key != DF_STRING) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the keys of a table are int32, int64 or string, not %s",
             df_dtype_name(s->key));
    return NULL;
  }
  if (s->element.rank < 0 || s->element.rank >= DF_MAX_RANK) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the values of a table have a rank of at most %d, not %d", DF_MAX_RANK - 1,
             s->element.rank);
    return NULL;
  }
  const int64_t cells = dfi_shape_size(&s->element);
  if (cells > (int64_t)DFI_ADDRESSES) {
    char text[160];
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the values of a table are %s: no memory holds one",
             dfi_shape_text(&s->element, text));
    return NULL;
  }
  dfi_table *t = dfi_xcalloc(1, sizeof *t);
  *t = (dfi_table){ .base = { .refs = 1, .type = DFI_TABLE, .destroy = destroy }, .name = dfi_xstrdup(s->name),
                    .key = s->key, .value = s->value, .element = s->element, .cells = cells, .grows = s->grows };
  pthread_mutex_init(&t->lock, NULL);
  return t;
}

/* ---- finding -------------------------------------------------------------------------------------------- */

/* A key of a tensor of keys. */
typedef struct key { uint64_t hash; int64_t number; const df_str *text; } key;

static uint64_t mix(uint64_t x) {
  x ^= x >> 30; x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27; x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static key key_at(const df_tensor *keys, int64_t i) {
  key k = { 0 };
  if (keys->dtype == DF_STRING) {
    k.text = (const df_str *)keys->data + i;
    k.hash = 0xcbf29ce484222325u;
    for (int64_t c = 0; c < (int64_t)k.text->length; c++)
      k.hash = (k.hash ^ (uint8_t)k.text->bytes[c]) * 0x100000001b3u;
    k.hash = mix(k.hash);
  } else {
    k.number = keys->dtype == DF_INT32 ? ((const int32_t *)keys->data)[i] : ((const int64_t *)keys->data)[i];
    k.hash = mix((uint64_t)k.number + 0x9e3779b97f4a7c15u);
  }
  return k;
}

static bool is_key(const dfi_table *t, int64_t i, const key *k) {
  if (t->hash[i] != k->hash) return false;
  if (!k->text) return t->number[i] == k->number;
  return t->text[i].length == k->text->length &&
         (!k->text->length || !memcmp(t->text[i].bytes, k->text->bytes, (size_t)k->text->length));
}

/* The slot of the key, or where it would go. */
static int64_t slot_of(const dfi_table *t, const key *k) {
  int64_t at = (int64_t)(k->hash & (uint64_t)(t->nslots - 1));
  while (t->slot[at] && !is_key(t, t->slot[at] - 1, k)) at = (at + 1) & (t->nslots - 1);
  return at;
}
static int64_t entry_of(const dfi_table *t, const key *k) { return t->nslots ? t->slot[slot_of(t, k)] - 1 : -1; }

static void make_room(dfi_table *t) {
  if (t->n == t->room) {
    t->room = t->room ? 2 * t->room : 16;
    t->hash = dfi_xrealloc(t->hash, sizeof *t->hash * (size_t)t->room);
    if (t->key == DF_STRING) t->text = dfi_xrealloc(t->text, sizeof *t->text * (size_t)t->room);
    else t->number = dfi_xrealloc(t->number, sizeof *t->number * (size_t)t->room);
    t->data = dfi_xrealloc(t->data, (size_t)(width(t) * t->room) + 1);
  }
  if (4 * (t->n + 1) <= 3 * t->nslots) return;
  t->nslots = t->nslots ? 2 * t->nslots : 32;
  dfi_free(t->slot);
  t->slot = dfi_xcalloc((size_t)t->nslots, sizeof *t->slot);
  for (int64_t i = 0; i < t->n; i++) {
    int64_t at = (int64_t)(t->hash[i] & (uint64_t)(t->nslots - 1));
    while (t->slot[at]) at = (at + 1) & (t->nslots - 1);
    t->slot[at] = i + 1;
  }
}

static df_str copy_of(const df_str *s) {
  df_str copy = *s;
  char *bytes = dfi_xmalloc((size_t)s->length + 1);
  if (s->length) memcpy(bytes, s->bytes, (size_t)s->length);
  copy.bytes = bytes;
  return copy;
}

/* The value of an entry, from row `row` of values. `fresh`: nothing was there. */
static void set_value(dfi_table *t, int64_t entry, const df_tensor *values, int64_t row, bool fresh) {
  char *to = t->data + entry * width(t);
  const char *from = (const char *)values->data + row * width(t);
  if (t->value != DF_STRING) { memcpy(to, from, (size_t)width(t)); return; }
  if (!fresh) drop_value(t, entry);
  for (int64_t c = 0; c < t->cells; c++) ((df_str *)to)[c] = copy_of((const df_str *)from + c);
}

static void put(dfi_table *t, const df_tensor *keys, int64_t i, const df_tensor *values) {
  make_room(t);
  const key k = key_at(keys, i);
  const int64_t at = slot_of(t, &k);
  if (t->slot[at]) { set_value(t, t->slot[at] - 1, values, i, false); return; }
  t->hash[t->n] = k.hash;
  if (k.text) t->text[t->n] = copy_of(k.text); else t->number[t->n] = k.number;
  set_value(t, t->n, values, i, true);
  t->slot[at] = ++t->n;
}

/* A slot is empty from now on: what was put behind it because it was taken moves up. */
static void vacate(dfi_table *t, int64_t at) {
  const int64_t mask = t->nslots - 1;
  for (int64_t next = (at + 1) & mask; t->slot[next]; next = (next + 1) & mask) {
    const int64_t home = (int64_t)(t->hash[t->slot[next] - 1] & (uint64_t)mask);
    if (((next - home) & mask) < ((next - at) & mask)) continue;
    t->slot[at] = t->slot[next];
    at = next;
  }
  t->slot[at] = 0;
}

static void take_out(dfi_table *t, const key *k) {
  if (!t->nslots) return;
  const int64_t at = slot_of(t, k), entry = t->slot[at] - 1;
  if (entry < 0) return;
  vacate(t, at);
  drop_value(t, entry);
  if (t->text) free_text(&t->text[entry]);
  const int64_t last = --t->n;
  if (entry == last) return;
  int64_t of_last = (int64_t)(t->hash[last] & (uint64_t)(t->nslots - 1));
  while (t->slot[of_last] != last + 1) of_last = (of_last + 1) & (t->nslots - 1);
  t->slot[of_last] = entry + 1;
  t->hash[entry] = t->hash[last];
  if (t->text) t->text[entry] = t->text[last]; else t->number[entry] = t->number[last];
  memcpy(t->data + entry * width(t), t->data + last * width(t), (size_t)width(t));
}

/* ---- kernels ------------------------------------------------------------------------------------------------ */

static bool same_key(const key *a, const key *b) {
  if (a->hash != b->hash || !a->text != !b->text) return false;
  if (!a->text) return a->number == b->number;
  return a->text->length == b->text->length &&
         (!a->text->length || !memcmp(a->text->bytes, b->text->bytes, (size_t)a->text->length));
}

static int32_t check_keys(const dfi_table *t, df_kernel *k) {
  const df_tensor *keys = k->in[1];
  if (keys->dtype != t->key)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the keys of table '%s' are %s, not %s", t->name, df_dtype_name(t->key),
                    df_dtype_name(keys->dtype));
  for (int32_t r = 0; r < 2 && t->refused[r]; r++) {
    const key no = key_at(t->refused[r], 0);
    for (int64_t i = 0; i < keys->size; i++) {
      const key at = key_at(keys, i);
      if (same_key(&at, &no))
        return dfk_fail(k, DF_INVALID_ARGUMENT, "key %lld is the %s of table '%s', which can be no key", (long long)i,
                        r ? "deleted_key" : "empty_key", t->name);
    }
  }
  return DF_OK;
}

int32_t dfi_table_refuse(dfi_table *t, df_kernel *k, const df_tensor *empty, const df_tensor *deleted) {
  const key a = key_at(empty, 0), b = key_at(deleted, 0);
  if (same_key(&a, &b))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "empty_key and deleted_key of table '%s' are the same key", t->name);
  int32_t code = DF_OK;
  pthread_mutex_lock(&t->lock);
  if (!t->refused[0]) {
    df_tensor *first = dfk_own(k, 0), *second = first ? dfk_own(k, 1) : NULL;
    if (second) {
      t->refused[0] = first;
      t->refused[1] = second;
    } else {
      df_tensor_release(first);
      code = k->error->code;
    }
  } else {
    const key c = key_at(t->refused[0], 0), d = key_at(t->refused[1], 0);
    if (!same_key(&a, &c) || !same_key(&b, &d))
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "the session has a table '%s' already, with another empty_key or "
                      "deleted_key", t->name);
  }
  pthread_mutex_unlock(&t->lock);
  return code;
}

/* Are the values those of the keys: of their shape, then that of a value? */
static int32_t check_values(const dfi_table *t, df_kernel *k) {
  const df_tensor *keys = k->in[1], *values = k->in[2];
  char a[160], b[160], c[160];
  int32_t code = check_keys(t, k);
  if (code) return code;
  bool fits = values->dtype == t->value && values->rank == keys->rank + t->element.rank;
  for (int32_t i = 0; fits && i < values->rank; i++)
    fits = values->dims[i] == (i < keys->rank ? keys->dims[i] : t->element.dims[i - keys->rank]);
  if (fits) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "table '%s' holds %s; the keys are %s and the values %s", t->name,
                  dfi_typed_shape_text(t->value, &t->element, a), dfk_shape_text(keys, b, sizeof b),
                  dfk_shape_text(values, c, sizeof c));
}

/* Copies a value to row `row` of a fresh tensor. */
static bool give(const dfi_table *t, df_kernel *k, df_tensor *out, int64_t row, const char *from) {
  if (t->value != DF_STRING) {
    memcpy((char *)out->data + row * width(t), from, (size_t)width(t));
    return true;
  }
  const df_str *s = (const df_str *)from;
  for (int64_t c = 0; c < t->cells; c++)
    if (!dfk_set_string(k, out, row * t->cells + c, s[c].bytes, s[c].length)) return false;
  return true;
}

int32_t dfi_table_find(dfi_table *t, df_kernel *k) {
  const df_tensor *keys = k->in[1], *none = k->in[2];
  char a[160], b[160];
  int64_t dims[DF_MAX_RANK];
  int32_t code = check_keys(t, k);
  if (code) return code;
  if (!t->grows && !t->filled)
    return dfk_fail(k, DF_FAILED_PRECONDITION, "table '%s' is looked up before it is filled", t->name);
  bool fits = none->dtype == t->value && none->rank == t->element.rank;
  for (int32_t i = 0; fits && i < none->rank; i++) fits = none->dims[i] == t->element.dims[i];
  if (!fits)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the default of table '%s' is %s, its values are %s", t->name,
                    dfk_shape_text(none, a, sizeof a), dfi_typed_shape_text(t->value, &t->element, b));
  if (keys->rank + t->element.rank > DF_MAX_RANK)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "keys of rank %d make values of a rank above %d", keys->rank, DF_MAX_RANK);
  for (int32_t i = 0; i < keys->rank; i++) dims[i] = keys->dims[i];
  for (int32_t i = 0; i < t->element.rank; i++) dims[keys->rank + i] = t->element.dims[i];
  df_tensor *out = dfk_out(k, 0, t->value, keys->rank + t->element.rank, dims);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < keys->size; i++) {
    const key at = key_at(keys, i);
    const int64_t entry = entry_of(t, &at);
    const char *from = entry < 0 ? (const char *)none->data : t->data + entry * width(t);
    if (!give(t, k, out, i, from)) return k->error->code;
  }
  return DF_OK;
}

int32_t dfi_table_insert(dfi_table *t, df_kernel *k, bool anew) {
  int32_t code = check_values(t, k);
  if (code) return code;
  if (!t->grows)
    return dfk_fail(k, DF_FAILED_PRECONDITION, "table '%s' is filled once and does not change: a MutableHashTable does",
                    t->name);
  if (anew) clear(t);
  for (int64_t i = 0; i < k->in[1]->size; i++) put(t, k->in[1], i, k->in[2]);
  return DF_OK;
}

int32_t dfi_table_fill(dfi_table *t, df_kernel *k) {
  if (t->filled) return DF_OK;
  int32_t code = check_values(t, k);
  for (int64_t i = 0; i < k->in[1]->size && !code; i++) {
    const key at = key_at(k->in[1], i);
    const int64_t entry = entry_of(t, &at);
    char text[80];
    if (entry >= 0 && t->value != DF_STRING &&
        memcmp(t->data + entry * width(t), (const char *)k->in[2]->data + i * width(t), (size_t)width(t))) {
      const int length = at.text ? (int)(at.text->length > 60 ? 60 : at.text->length) : 0;
      if (at.text) snprintf(text, sizeof text, "'%.*s'", length, at.text->bytes);
      else snprintf(text, sizeof text, "%lld", (long long)at.number);
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "table '%s' is given two values for the key %s", t->name, text);
      break;
    }
    put(t, k->in[1], i, k->in[2]);
  }
  if (code) clear(t); else t->filled = true;
  return code;
}

int32_t dfi_table_remove(dfi_table *t, df_kernel *k) {
  int32_t code = check_keys(t, k);
  for (int64_t i = 0; i < k->in[1]->size && !code; i++) {
    const key at = key_at(k->in[1], i);
    take_out(t, &at);
  }
  return code;
}

int32_t dfi_table_export(dfi_table *t, df_kernel *k) {
  int64_t dims[DF_MAX_RANK] = { t->n };
  for (int32_t i = 0; i < t->element.rank; i++) dims[1 + i] = t->element.dims[i];
  df_tensor *keys = dfk_out(k, 0, t->key, 1, dims);
  df_tensor *values = keys ? dfk_out(k, 1, t->value, 1 + t->element.rank, dims) : NULL;
  if (!values) return k->error->code;
  for (int64_t i = 0; i < t->n; i++) {
    if (t->key == DF_STRING && !dfk_set_string(k, keys, i, t->text[i].bytes, t->text[i].length)) return k->error->code;
    if (t->key == DF_INT32) ((int32_t *)keys->data)[i] = (int32_t)t->number[i];
    if (t->key == DF_INT64) ((int64_t *)keys->data)[i] = t->number[i];
    if (!give(t, k, values, i, t->data + i * width(t))) return k->error->code;
  }
  return DF_OK;
}

int64_t dfi_table_size(dfi_table *t) { return t->n; }
