/* form.c: messages of a graph's form, and what records are made of: numbers, texts, tensors. */
#include "cluster/form.h"
#include <stdarg.h>
#include <stdio.h>

static const char magic[4] = { 'd', 'f', 'g', '1' };

void dfi_form_bad(dfi_form *f, const char *format, ...) {
  if (f->bad) return;
  f->bad = true;
  char text[300];
  va_list a;
  va_start(a, format);
  vsnprintf(text, sizeof text, format, a);
  va_end(a);
  dfi_fail(f->err, f->reading ? DF_DATA_LOSS : DF_UNIMPLEMENTED, NULL, "a graph from another process: %s", text);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

void dfi_form_init(dfi_form *f, df_graph *g, bool building) {
  *f = (dfi_form){ .graph = df_graph_retain(g), .building = building };
}

void dfi_form_free(dfi_form *f) {
  for (int32_t i = 0; i < f->ntensor; i++) df_tensor_release(f->tensor[i]);
  dfi_free(f->tensor); dfi_free(f->tensor_index);
  dfi_free((void *)f->text); dfi_free(f->text_index);
  for (int32_t k = 0; k < DFI_RECORDS; k++) dfi_free(f->sum[k]);
  dfi_free(f->out.at);
  df_graph_release(f->graph);
  *f = (dfi_form){ 0 };
}

/* ---- bytes ----------------------------------------------------------------------------------------------------- */

static uint8_t *more(dfi_bytes *b, size_t n) {
  if (b->cap - b->n < n) {
    while (b->cap - b->n < n) b->cap = b->cap ? 2 * b->cap : 256;
    b->at = dfi_xrealloc(b->at, b->cap);
  }
  uint8_t *at = b->at + b->n;
  b->n += n;
  return at;
}

static void put(dfi_bytes *b, const void *bytes, size_t n) { if (n) memcpy(more(b, n), bytes, n); }

static void put_u64(dfi_bytes *b, uint64_t v) {
  uint8_t few[10];
  size_t n = 0;
  do few[n++] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0)); while (v >>= 7);
  put(b, few, n);
}

static size_t left(const dfi_form *f) { return (size_t)(f->end - f->in); }

void dfi_io_raw(dfi_form *f, void *bytes, size_t n) {
  if (f->bad) return;
  if (!f->reading) put(&f->out, bytes, n);
  else if (n > left(f)) dfi_form_bad(f, "it ends within a record");
  else if (n) {
    memcpy(bytes, f->in, n);
    f->in += n;
  }
}

void dfi_io_u64(dfi_form *f, uint64_t *v) {
  if (f->bad) return;
  if (!f->reading) { put_u64(&f->out, *v); return; }
  uint64_t got = 0;
  for (int32_t shift = 0; shift < 70; shift += 7) {
    if (f->in == f->end) { dfi_form_bad(f, "it ends within a number"); return; }
    const uint8_t byte = *f->in++;
    if (shift == 63 && byte > 1) break;
    got |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) { *v = got; return; }
  }
  dfi_form_bad(f, "a number has more than 64 bits");
}

void dfi_io_i64(dfi_form *f, int64_t *v) {
  uint64_t folded = f->reading ? 0 : (uint64_t)*v << 1 ^ (*v < 0 ? ~(uint64_t)0 : 0);
  dfi_io_u64(f, &folded);
  if (f->reading && !f->bad) *v = (int64_t)(folded >> 1 ^ (folded & 1 ? ~(uint64_t)0 : 0));
}

void dfi_io_i32(dfi_form *f, int32_t *v) {
  int64_t wide = f->reading ? 0 : *v;
  dfi_io_i64(f, &wide);
  if (!f->reading || f->bad) return;
  if (wide < INT32_MIN || wide > INT32_MAX) dfi_form_bad(f, "%lld is no number of 32 bits", (long long)wide);
  else *v = (int32_t)wide;
}

void dfi_io_u8(dfi_form *f, uint8_t *v) { dfi_io_raw(f, v, 1); }

void dfi_io_bool(dfi_form *f, bool *v) {
  uint8_t byte = f->reading ? 0 : *v;
  dfi_io_raw(f, &byte, 1);
  if (byte > 1) dfi_form_bad(f, "%d is neither true nor false", byte);
  else if (f->reading && !f->bad) *v = byte;
}

void dfi_io_double(dfi_form *f, double *v) { dfi_io_raw(f, v, sizeof *v); }

void dfi_io_count(dfi_form *f, int32_t *n, size_t least) {
  uint64_t count = f->reading ? 0 : (uint64_t)*n;
  dfi_io_u64(f, &count);
  if (!f->reading || f->bad) return;
  if (count > INT32_MAX || count * least > left(f)) dfi_form_bad(f, "it ends within a list");
  else *n = (int32_t)count;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static uint64_t sum_of(const void *bytes, size_t n) {
  const uint8_t *s = bytes;
  uint64_t h = 0x9e3779b97f4a7c15u ^ n, w;
  for (; n >= 8; n -= 8, s += 8) { memcpy(&w, s, 8); h = (h ^ w) * 0xff51afd7ed558ccdu; h ^= h >> 32; }
  w = 0;
  if (n) memcpy(&w, s, n);
  h = (h ^ w) * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 29) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 32;
}

static uint64_t form_sum(const dfi_form *f) {
  uint64_t all[DFI_RECORDS];
  for (int32_t k = 0; k < DFI_RECORDS; k++) all[k] = sum_of(f->sum[k], sizeof *f->sum[k] * (size_t)f->nsum[k]);
  return sum_of(all, sizeof all);
}

static void set_sum(dfi_form *f, int32_t kind, int32_t id, uint64_t sum) {
  while (f->nsum[kind] <= id) {
    DFI_GROW(f->sum[kind], f->nsum[kind], f->sum_cap[kind]);
    f->sum[kind][f->nsum[kind]++] = 0;
  }
  f->sum[kind][id] = sum;
}

/* ---- texts and tensors by number --------------------------------------------------------------------- */

static uint32_t *grown(const uint32_t *was, uint32_t *mask) {
  dfi_free((void *)was);
  *mask = *mask ? *mask * 2 + 1 : 63;
  return dfi_xcalloc((size_t)*mask + 1, sizeof *was);
}

static void text_place(dfi_form *f, int32_t number) {
  const char *s = f->text[number - 1];
  uint32_t i = dfi_hash_name(s, strlen(s)) & f->text_mask;
  while (f->text_index[i]) i = (i + 1) & f->text_mask;
  f->text_index[i] = (uint32_t)number;
}

static int32_t text_find(const dfi_form *f, const char *s) {
  if (!f->text_index) return 0;
  for (uint32_t i = dfi_hash_name(s, strlen(s)) & f->text_mask; f->text_index[i]; i = (i + 1) & f->text_mask)
    if (!strcmp(f->text[f->text_index[i] - 1], s)) return (int32_t)f->text_index[i];
  return 0;
}

/* s stays where it is as long as the graph. */
static int32_t text_add(dfi_form *f, const char *s) {
  DFI_GROW(f->text, f->ntext, f->text_cap);
  f->text[f->ntext++] = s;
  if ((uint32_t)f->ntext * 2 > f->text_mask) {
    f->text_index = grown(f->text_index, &f->text_mask);
    for (int32_t i = 1; i <= f->ntext; i++) text_place(f, i);
  } else text_place(f, f->ntext);
  return f->ntext;
}

void dfi_io_text(dfi_form *f, const char **text) {
  uint64_t number = 0;
  if (!f->reading && *text && !(number = (uint64_t)text_find(f, *text))) number = (uint64_t)text_add(f, *text);
  dfi_io_u64(f, &number);
  if (!f->reading || f->bad) return;
  if (number > (uint64_t)f->ntext) dfi_form_bad(f, "there is no text %llu", (unsigned long long)number);
  else *text = number ? f->text[number - 1] : NULL;
}

static uint32_t tensor_hash(const df_tensor *t) {
  return (uint32_t)(((uint64_t)(uintptr_t)t >> 4) * 0x9e3779b97f4a7c15u >> 32);
}

static void tensor_place(dfi_form *f, int32_t number) {
  uint32_t i = tensor_hash(f->tensor[number - 1]) & f->tensor_mask;
  while (f->tensor_index[i]) i = (i + 1) & f->tensor_mask;
  f->tensor_index[i] = (uint32_t)number;
}

static int32_t tensor_find(const dfi_form *f, const df_tensor *t) {
  if (!f->tensor_index) return 0;
  for (uint32_t i = tensor_hash(t) & f->tensor_mask; f->tensor_index[i]; i = (i + 1) & f->tensor_mask)
    if (f->tensor[f->tensor_index[i] - 1] == t) return (int32_t)f->tensor_index[i];
  return 0;
}

static int32_t tensor_add(dfi_form *f, df_tensor *owned) {
  DFI_GROW(f->tensor, f->ntensor, f->tensor_cap);
  f->tensor[f->ntensor++] = owned;
  if ((uint32_t)f->ntensor * 2 > f->tensor_mask) {
    f->tensor_index = grown(f->tensor_index, &f->tensor_mask);
    for (int32_t i = 1; i <= f->ntensor; i++) tensor_place(f, i);
  } else tensor_place(f, f->ntensor);
  return f->ntensor;
}

void dfi_io_tensor(dfi_form *f, df_tensor **t) {
  uint64_t number = 0;
  if (!f->reading && *t && !(number = (uint64_t)tensor_find(f, *t)))
    number = (uint64_t)tensor_add(f, df_tensor_retain(*t));
  dfi_io_u64(f, &number);
  if (!f->reading || f->bad) return;
  if (number > (uint64_t)f->ntensor) dfi_form_bad(f, "there is no tensor %llu", (unsigned long long)number);
  else *t = number ? f->tensor[number - 1] : NULL;
}

/* ---- the value of a tensor: dtype, rank, dims, elements ---------------------------------------------- */

static df_tensor *tensor_shell(dfi_form *f, df_tensor *t) {
  uint8_t dtype = t ? t->dtype : 0, rank = t ? (uint8_t)t->rank : 0;
  int64_t dims[DF_MAX_RANK] = { 0 }, size = 1;
  dfi_io_u8(f, &dtype);
  dfi_io_u8(f, &rank);
  if (f->bad) return NULL;
  if (dtype == DF_INVALID || dtype >= 32 || dtype == DF_VARIANT || dtype == DF_RESOURCE || !dfi_dtype_size[dtype]) {
    dfi_form_bad(f, "a constant of dtype %s cannot be sent", df_dtype_name(dtype));
    return NULL;
  }
  if (rank > DF_MAX_RANK) { dfi_form_bad(f, "a tensor has rank %d", rank); return NULL; }
  for (int32_t i = 0; i < rank; i++) {
    if (t) dims[i] = t->dims[i];
    dfi_io_i64(f, &dims[i]);
    if (!f->bad && (dims[i] < 0 || __builtin_mul_overflow(size, dims[i], &size)))
      dfi_form_bad(f, "a tensor has the dimension %lld", (long long)dims[i]);
  }
  if (t || f->bad) return t;
  const size_t least = dtype == DF_STRING ? 1 : dfi_dtype_size[dtype];
  if ((uint64_t)size > left(f) / least) { dfi_form_bad(f, "it ends within a tensor"); return NULL; }
  df_tensor *made = dfi_tensor_make(dtype, rank, dims);
  if (!made) dfi_form_bad(f, "out of memory for a tensor of %lld elements", (long long)size);
  return made;
}

static void tensor_strings(dfi_form *f, df_tensor *t) {
  for (int64_t i = 0; i < t->size && !f->bad; i++) {
    int64_t length = 0;
    const char *s = f->reading ? NULL : df_tensor_string(t, i, &length);
    int32_t n = (int32_t)length;
    if (length > INT32_MAX) { dfi_form_bad(f, "a string has %lld bytes", (long long)length); return; }
    dfi_io_count(f, &n, 1);
    if (!f->reading) dfi_io_raw(f, (void *)s, (size_t)n);
    else if (!f->bad) {
      if (df_tensor_set_string(t, i, (const char *)f->in, n, f->err)) f->bad = true;
      f->in += n;
    }
  }
}

/* Reads a tensor, owned, or writes t. */
static df_tensor *tensor_value(dfi_form *f, df_tensor *t) {
  df_tensor *made = tensor_shell(f, t);
  if (!made || f->bad) { if (!t) df_tensor_release(made); return NULL; }
  if (made->dtype == DF_STRING) tensor_strings(f, made);
  else dfi_io_raw(f, made->data, (size_t)made->size * dfi_dtype_size[made->dtype]);
  if (!f->reading) return t;
  if (f->bad) { df_tensor_release(made); return NULL; }
  if (made->dtype == DF_BOOL) dfi_settle_bools(made);
  return made;
}

/* ---- messages ---------------------------------------------------------------------------------------- */

/* Records of one kind that are new or have changed: how far its id is from the last one's, and the record; 0 ends
 * it. */
static bool write_kind(dfi_form *f, int32_t kind) {
  int32_t count = dfi_form_count(f->graph, kind), last = -1;
  bool changed = count != f->nsum[kind];
  if (f->nsum[kind] > count) f->nsum[kind] = count;
  for (int32_t id = 0; id < count && !f->bad; id++) {
    const size_t before = f->out.n;
    uint64_t step = (uint64_t)(id - last);
    dfi_io_u64(f, &step);
    const size_t from = f->out.n;
    dfi_form_record(f, kind, id);
    if (f->bad) break;
    const uint64_t sum = sum_of(f->out.at + from, f->out.n - from);
    if (id < f->nsum[kind] && f->sum[kind][id] == sum) { f->out.n = before; continue; }
    set_sum(f, kind, id, sum);
    last = id;
    changed = true;
  }
  uint64_t end = 0;
  dfi_io_u64(f, &end);
  return changed;
}

static void write_tables(dfi_form *f) {
  int32_t n = f->ntext - f->texts_sent;
  dfi_io_count(f, &n, 1);
  for (; f->texts_sent < f->ntext; f->texts_sent++) {
    const char *s = f->text[f->texts_sent];
    int32_t length = (int32_t)strlen(s);
    dfi_io_count(f, &length, 1);
    dfi_io_raw(f, (void *)s, (size_t)length);
  }
  n = f->ntensor - f->tensors_sent;
  dfi_io_count(f, &n, 2);
  for (; f->tensors_sent < f->ntensor && !f->bad; f->tensors_sent++) tensor_value(f, f->tensor[f->tensors_sent]);
}

/* How many records there are of each kind. They come before all records, which may name each other. */
static void io_counts(dfi_form *f, int32_t *count) {
  for (int32_t k = 0; k < DFI_RECORDS; k++) {
    uint64_t n = (uint64_t)count[k];
    dfi_io_u64(f, &n);
    const int32_t has = f->reading ? dfi_form_count(f->graph, k) : 0;
    if (f->reading && !f->bad && (n > INT32_MAX || (int64_t)n - has > (int64_t)left(f)))
      dfi_form_bad(f, "it has room for fewer than %llu records of kind %d", (unsigned long long)n, k);
    if (!f->bad) count[k] = (int32_t)n;
  }
}

int32_t dfi_form_write(dfi_form *f, dfi_bytes *to, bool *changed, df_error *err) {
  df_error local;
  f->reading = f->bad = false;
  f->err = err ? err : &local;
  f->out.n = 0;
  *changed = false;
  for (int32_t k = 0; k < DFI_RECORDS; k++) *changed |= write_kind(f, k);
  dfi_bytes records = f->out;
  f->out = *to;
  f->out.n = 0;
  dfi_io_raw(f, (void *)magic, sizeof magic);
  write_tables(f);
  int32_t count[DFI_RECORDS];
  for (int32_t k = 0; k < DFI_RECORDS; k++) count[k] = dfi_form_count(f->graph, k);
  io_counts(f, count);
  put(&f->out, records.at, records.n);
  const uint64_t sum = form_sum(f) ^ sum_of(f->out.at, f->out.n);
  put(&f->out, &sum, sizeof sum);
  *to = f->out;
  f->out = records;
  const int32_t code = f->bad ? f->err->code : DF_OK;
  return dfi_check_memory(code, err, NULL, "a graph for another process");
}

static void read_tables(dfi_form *f) {
  int32_t n = 0;
  dfi_io_count(f, &n, 1);
  for (int32_t i = 0; i < n && !f->bad; i++) {
    int32_t length = 0;
    dfi_io_count(f, &length, 1);
    if (f->bad) return;
    if (memchr(f->in, 0, (size_t)length)) { dfi_form_bad(f, "a text holds a zero"); return; }
    char few[256], *s = (size_t)length < sizeof few ? few : dfi_xmalloc((size_t)length + 1);
    dfi_io_raw(f, s, (size_t)length);
    s[length] = 0;
    text_add(f, dfi_intern(f->graph, s));
    if (s != few) dfi_free(s);
  }
  dfi_io_count(f, &n, 2);
  for (int32_t i = 0; i < n && !f->bad; i++) {
    df_tensor *t = tensor_value(f, NULL);
    if (t) tensor_add(f, t);
  }
  f->texts_sent = f->ntext;
  f->tensors_sent = f->ntensor;
}

/* The sum of a record as it was read: of what this side would write. Nothing new may come up: the texts are there. */
static uint64_t sum_again(dfi_form *f, int32_t kind, int32_t id) {
  const int32_t texts = f->ntext, tensors = f->ntensor;
  f->reading = false;
  f->out.n = 0;
  dfi_form_record(f, kind, id);
  f->reading = true;
  if (f->ntext != texts || f->ntensor != tensors) dfi_form_bad(f, "a record is not what it says");
  return sum_of(f->out.at, f->out.n);
}

typedef struct record { int32_t kind, id; } record;

static void read_kind(dfi_form *f, int32_t kind, int32_t count, record **list, int32_t *n, int32_t *cap) {
  int32_t id = -1;
  for (;;) {
    uint64_t step = 0;
    dfi_io_u64(f, &step);
    if (f->bad || !step) return;
    if (step > (uint64_t)(count - 1 - id)) {
      dfi_form_bad(f, "there is no record %llu of kind %d", (unsigned long long)step + (uint64_t)id, kind);
      return;
    }
    id += (int32_t)step;
    dfi_form_record(f, kind, id);
    if (f->bad) return;
    DFI_GROW(*list, *n, *cap);
    (*list)[(*n)++] = (record){ kind, id };
  }
}

static void read_records(dfi_form *f, const int32_t *count) {
  record *list = NULL;
  int32_t n = 0, cap = 0;
  for (int32_t k = 0; k < DFI_RECORDS && !f->bad; k++) read_kind(f, k, count[k], &list, &n, &cap);
  for (int32_t i = 0; i < n && !f->bad; i++) {
    const uint64_t sum = sum_again(f, list[i].kind, list[i].id);
    if (!f->bad) set_sum(f, list[i].kind, list[i].id, sum);
  }
  dfi_free(list);
  for (int32_t k = 0; k < DFI_RECORDS && !f->bad; k++) {
    if (f->nsum[k] > count[k]) f->nsum[k] = count[k];
    for (int32_t i = 0; i < count[k] && !f->bad; i++)
      if (i >= f->nsum[k] || !f->sum[k][i]) dfi_form_bad(f, "record %d of kind %d is missing", i, k);
  }
}

int32_t dfi_form_read(dfi_form *f, const void *bytes, size_t n, bool trusting, df_error *err) {
  df_error local;
  char found[sizeof magic] = { 0 };
  int32_t count[DFI_RECORDS] = { 0 };
  uint64_t sum = 0;
  f->reading = true;
  f->bad = false;
  f->err = err ? err : &local;
  f->in = bytes;
  f->end = f->in + n;
  dfi_io_raw(f, found, sizeof found);
  if (memcmp(found, magic, sizeof magic)) dfi_form_bad(f, "it does not begin with `%.4s`", magic);
  read_tables(f);
  io_counts(f, count);
  if (!f->bad && dfi_form_room(f, count)) read_records(f, count);
  dfi_io_raw(f, &sum, sizeof sum);
  if (!f->bad && f->in != f->end) dfi_form_bad(f, "%zu bytes follow its end", left(f));
  const uint64_t found_sum = f->bad ? 0 : form_sum(f) ^ sum_of(bytes, n - sizeof sum);
  if (!f->bad && !trusting && sum != found_sum)
    dfi_form_bad(f, "its sum is %016llx, but what was read has %016llx", (unsigned long long)sum,
                 (unsigned long long)found_sum);
  if (!f->bad && dfi_form_check(f->graph, f->err)) f->bad = true;
  return dfi_check_memory(f->bad ? f->err->code : DF_OK, err, NULL, "a graph from another process");
}

/* ---- whole graphs ------------------------------------------------------------------------------------ */

df_tensor *df_graph_pack(df_graph *g, df_error *err) {
  dfi_form f;
  dfi_bytes bytes = { 0 };
  bool changed;
  dfi_short = false;
  dfi_form_init(&f, g, true);
  pthread_mutex_lock(&g->lock);
  const int32_t code = dfi_form_write(&f, &bytes, &changed, err);
  pthread_mutex_unlock(&g->lock);
  dfi_form_free(&f);
  df_tensor *t = code ? NULL : df_tensor_new(DF_UINT8, 1, &(int64_t){ (int64_t)bytes.n }, err);
  if (t && bytes.n) memcpy(t->data, bytes.at, bytes.n);
  dfi_free(bytes.at);
  return t;
}

df_graph *df_graph_unpack(const void *bytes, int64_t n, bool trusting, df_error *err) {
  df_error local;
  dfi_form f;
  df_graph *g = df_graph_new();
  if (!g) { dfi_short_fail(err, NULL, "a graph"); return NULL; }
  dfi_form_init(&f, g, true);
  const int32_t code = dfi_form_read(&f, bytes, n > 0 ? (size_t)n : 0, trusting, err ? err : &local);
  dfi_form_free(&f);
  if (!code) return g;
  df_graph_release(g);
  return NULL;
}
