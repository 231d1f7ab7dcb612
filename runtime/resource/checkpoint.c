/* checkpoint.c: reads and writes TensorFlow's checkpoints.
 *
 * The index is a table as LevelDB has it: blocks of sorted keys, each key without what it shares with the one before; a
 * block that finds the blocks; a footer that finds that one. The key "" holds a BundleHeaderProto, every other one a
 * tensor's name and its BundleEntryProto: where in which data file its bytes lie, and their CRC-32C. The bytes are
 * little-endian; of strings, all lengths come first. A partitioned variable's entry says which parts of it there are;
 * each has an entry of its own under a key that begins with a byte 0 (checkpoint_part.c).
 *
 * A checkpoint that is written over another is in force when the index has taken its name, in one step. Its data must
 * be there by then and the old one's still be, so its file has a name that the old one's have not: the number of files
 * is part of it, one as a rule, two where the old index says one. The second is empty.
 */
#include "resource/checkpoint.h"
#include "resource/checkpoint_part.h"
#include "graphdef.pb-c.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- sums ------------------------------------------------------------------------------------------------ */

/* A sum that stands in a file is turned, so that the sum of bytes with sums in them means something. */
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

/* ---- bytes ------------------------------------------------------------------------------------------------- */

typedef struct bytes { uint8_t *at; size_t n, cap; } bytes;

static void put(bytes *b, const void *from, size_t n) {
  if (b->n + n > b->cap) b->at = dfi_xrealloc(b->at, b->cap = (b->n + n) * 2 + 256);
  if (n) memcpy(b->at + b->n, from, n);
  b->n += n;
}
static void put_varint(bytes *b, uint64_t v) {
  for (; v >= 128; v >>= 7) put(b, &(uint8_t){ (uint8_t)(v | 128) }, 1);
  put(b, &(uint8_t){ (uint8_t)v }, 1);
}
static void put32(bytes *b, uint32_t v) {
  put(b, (uint8_t[]){ (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) }, 4);
}
static uint32_t get32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool get_varint(const uint8_t **p, const uint8_t *end, uint64_t *v) {
  *v = 0;
  for (int32_t shift = 0; *p < end && shift < 64; shift += 7) {
    const uint8_t byte = *(*p)++;
    *v |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128)) return true;
  }
  return false;
}

/* ---- reading the index --------------------------------------------------------------------------------------- */

typedef struct entry { char *name; size_t length; Pb__BundleEntryProto *e; } entry;
struct dfi_checkpoint {
  char    *prefix;
  entry   *entry;                 /* sorted by name; owned */
  int32_t  n, cap, shards;
  int32_t  parts;                 /* so many of the entries, the first, are parts of tensors */
  bool     header;
  int     *file;                  /* by shard; -1: not open */
};

enum { FOOTER = 48, TRAILER = 5, HANDLES_AT_MOST = 40, SHARDS_AT_MOST = 1 << 16, PARTS_AT_MOST = 1 << 14 };
static const uint8_t magic[8] = { 0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb };

static int32_t broken(const dfi_checkpoint *c, df_error *err, const char *what) {
  return dfi_fail(err, DF_DATA_LOSS, NULL, "%s.index is no index of a TensorFlow checkpoint, or a damaged one: %s",
                  c->prefix, what);
}

static int order(const entry *e, const char *name, size_t length) {
  const int by = memcmp(e->name, name, e->length < length ? e->length : length);
  return by ? by : (e->length > length) - (e->length < length);
}

static int32_t take_entry(dfi_checkpoint *c, const char *key, size_t length, const uint8_t *value, size_t n,
                          df_error *err) {
  if (!length) {
    Pb__BundleHeaderProto *h = pb__bundle_header_proto__unpack(NULL, n, value);
    const bool good = h && h->num_shards > 0 && h->num_shards <= SHARDS_AT_MOST && !c->header,
               little = h && h->endianness == 0;
    if (good) c->shards = h->num_shards;
    if (h) pb__bundle_header_proto__free_unpacked(h, NULL);
    if (!good) return broken(c, err, "its header is");
    if (!little)
      return dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%s.index was written by a big-endian machine", c->prefix);
    c->header = true;
    return DF_OK;
  }
  Pb__BundleEntryProto *e = pb__bundle_entry_proto__unpack(NULL, n, value);
  if (!e) return broken(c, err, "an entry is");
  DFI_GROW(c->entry, c->n, c->cap);
  c->entry[c->n++] = (entry){ memcpy(dfi_xcalloc(length + 1, 1), key, length), length, e };
  c->parts += !key[0];
  if (key[0] && memchr(key, 0, length)) return broken(c, err, "a name has a byte 0");
  if (c->n > 1 && order(&c->entry[c->n - 2], key, length) >= 0)
    return broken(c, err, "its names are not in order");
  return DF_OK;
}

/* Walks the keys of a block. In the block that finds the others, values are their places. */
static int32_t walk(dfi_checkpoint *c, const uint8_t *file, size_t size, uint64_t offset, uint64_t length, bool finds,
                    df_error *err) {
  if (length < 4 || offset > size || length > size - offset || size - offset - length < TRAILER)
    return broken(c, err, "a block lies outside of it");
  const uint8_t *p = file + offset;
  if (p[length])
    return dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%s.index is compressed, which TensorFlow's are not", c->prefix);
  if (masked(dfi_crc32c(0, p, length + 1)) != get32(p + length + 1))
    return broken(c, err, "the sum of a block is wrong");
  const uint64_t restarts = get32(p + length - 4);
  if (restarts > (length - 4) / 4) return broken(c, err, "a block is cut");
  const uint8_t *end = p + length - 4 - 4 * restarts;
  bytes key = { 0 };
  int32_t code = DF_OK;
  while (p < end && !code) {
    uint64_t shared, own, value;
    if (!get_varint(&p, end, &shared) || !get_varint(&p, end, &own) || !get_varint(&p, end, &value) || shared > key.n ||
        own > (uint64_t)(end - p) || value > (uint64_t)(end - p) - own) {
      code = broken(c, err, "a key is cut");
      break;
    }
    key.n = shared;
    put(&key, p, own);
    p += own;
    uint64_t at, n;
    const uint8_t *v = p;
    p += value;
    if (!finds) code = take_entry(c, (const char *)key.at, key.n, v, value, err);
    else if (!get_varint(&v, p, &at) || !get_varint(&v, p, &n)) code = broken(c, err, "the place of a block is cut");
    else code = walk(c, file, size, at, n, false, err);
  }
  dfi_free(key.at);
  return code;
}

dfi_checkpoint *dfi_checkpoint_open(const char *prefix, df_error *err) {
  dfi_checkpoint *c = dfi_xcalloc(1, sizeof *c);
  c->prefix = strcpy(dfi_xmalloc(strlen(prefix) + 1), prefix);
  char *path = dfi_xmalloc(strlen(prefix) + 8);
  sprintf(path, "%s.index", prefix);
  df_tensor *t = df_read_file(path, err);
  dfi_free(path);
  int32_t code = t ? DF_OK : DF_NOT_FOUND;
  if (t) {
    const uint8_t *file = t->data, *p = file + t->size - FOOTER;
    const size_t size = (size_t)t->size;
    uint64_t skip, at, n;
    if (size < FOOTER || memcmp(file + size - 8, magic, 8)) code = broken(c, err, "it does not end as one");
    else if (!get_varint(&p, file + size, &skip) || !get_varint(&p, file + size, &skip) ||
             !get_varint(&p, file + size, &at) || !get_varint(&p, file + size, &n))
      code = broken(c, err, "its footer is");
    else code = walk(c, file, size, at, n, true, err);
    if (!code && !c->header) code = broken(c, err, "it has no header");
    df_tensor_release(t);
  }
  if (code) { dfi_checkpoint_close(c); return NULL; }
  c->file = dfi_xmalloc(sizeof *c->file * (size_t)c->shards);
  for (int32_t i = 0; i < c->shards; i++) c->file[i] = -1;
  return c;
}

void dfi_checkpoint_close(dfi_checkpoint *c) {
  if (!c) return;
  for (int32_t i = 0; i < c->n; i++) {
    dfi_free(c->entry[i].name);
    pb__bundle_entry_proto__free_unpacked(c->entry[i].e, NULL);
  }
  for (int32_t i = 0; c->file && i < c->shards; i++) if (c->file[i] >= 0) close(c->file[i]);
  dfi_free(c->entry); dfi_free(c->file); dfi_free(c->prefix); dfi_free(c);
}

int32_t dfi_checkpoint_count(const dfi_checkpoint *c) { return c->n - c->parts; }
const char *dfi_checkpoint_name(const dfi_checkpoint *c, int32_t i) { return c->entry[c->parts + i].name; }

static const entry *find(const dfi_checkpoint *c, const char *name, size_t length) {
  int32_t low = 0, high = c->n;
  while (low < high) {
    const int32_t middle = (low + high) / 2, by = order(&c->entry[middle], name, length);
    if (!by) return &c->entry[middle];
    if (by > 0) high = middle; else low = middle + 1;
  }
  return NULL;
}

/* ---- reading tensors --------------------------------------------------------------------------------------------- */

/* PREFIX.data-00000-of-00001 and its like; owned. */
static char *shard_path(const char *prefix, int32_t shard, int32_t shards) {
  const size_t n = strlen(prefix) + 64;
  char *path = dfi_xmalloc(n);
  snprintf(path, n, "%s.data-%05d-of-%05d", prefix, shard, shards);
  return path;
}

static int open_shard(dfi_checkpoint *c, int32_t shard, df_error *err) {
  if (c->file[shard] >= 0) return c->file[shard];
  char *path = shard_path(c->prefix, shard, c->shards);
  struct stat s;
  c->file[shard] = dfi_file_open(path, &s, err);
  dfi_free(path);
  return c->file[shard];
}

/* Lengths as varints, four bytes of their sum, the strings. */
static bool strings_from(df_tensor *t, const uint8_t *p, size_t n, uint32_t *sum, df_error *err) {
  const uint8_t *end = p + n, *length = p;
  uint64_t v;
  *sum = 0;
  for (int64_t i = 0; i < t->size; i++) {
    if (!get_varint(&p, end, &v)) return false;
    if (v <= UINT32_MAX)
      *sum = dfi_crc32c(*sum, (uint8_t[]){ (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) }, 4);
    else return false;
  }
  if (end - p < 4 || get32(p) != masked(*sum)) return false;
  *sum = dfi_crc32c(*sum, p, 4);
  p += 4;
  for (int64_t i = 0; i < t->size; i++) {
    get_varint(&length, end, &v);
    if (v > (uint64_t)(end - p) || df_tensor_set_string(t, i, (const char *)p, (int64_t)v, err)) return false;
    *sum = dfi_crc32c(*sum, p, (size_t)v);
    p += v;
  }
  return p == end;
}

/* The tensor of an entry whose bytes lie in one place; `name` is what messages call it. */
static df_tensor *read_bytes(dfi_checkpoint *c, const char *name, const Pb__BundleEntryProto *e, df_error *err) {
  const Pb__TensorShapeProto *s = e->shape;
  const int32_t dtype = (int32_t)e->dtype, rank = s ? (int32_t)s->n_dim : 0;
  const int64_t each = dtype > 0 && dtype < 32 ? df_dtype_bytes(dtype) : 0;
  struct stat st;
  if (each <= 0 || dtype == DF_VARIANT || rank > DF_MAX_RANK || (s && s->unknown_rank)) {
    dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%s of the checkpoint %s is a tensor of dtype %d and rank %d", name,
             c->prefix, dtype, rank);
    return NULL;
  }
  int64_t dims[DF_MAX_RANK], size = 1;
  bool good = e->shard_id >= 0 && e->shard_id < c->shards && e->offset >= 0 && e->size >= 0;
  for (int32_t i = 0; i < rank && good; i++) {
    dims[i] = s->dim[i]->size;
    good = dims[i] >= 0 && !__builtin_mul_overflow(size, dims[i], &size) && size <= INT64_MAX / each;
  }
  good = good && (dtype == DF_STRING ? size <= e->size : size * each == e->size);
  const int fd = good ? open_shard(c, e->shard_id, err) : -1;
  if (good && fd < 0) return NULL;
  good = good && !fstat(fd, &st) && e->size <= st.st_size && e->offset <= st.st_size - e->size;
  df_tensor *t = good ? df_tensor_new(dtype, rank, dims, err) : NULL;
  if (good && !t) return NULL;
  uint8_t *buffer = good && dtype != DF_STRING && size ? t->data : NULL,
          *own = !good || buffer ? NULL : dfi_malloc((size_t)e->size + 1);
  if (good && !buffer && !own) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for %s of the checkpoint %s", name, c->prefix);
    df_tensor_release(t);
    return NULL;
  }
  if (!buffer) buffer = own;
  for (int64_t have = 0; good && have < e->size; ) {
    const ssize_t got = pread(fd, buffer + have, (size_t)(e->size - have), e->offset + have);
    if (got <= 0 && !(got < 0 && errno == EINTR)) good = false;
    have += got > 0 ? got : 0;
  }
  uint32_t sum = 0;
  if (good && dtype == DF_STRING) good = strings_from(t, buffer, (size_t)e->size, &sum, err);
  else if (good) sum = dfi_crc32c(0, buffer, (size_t)e->size);
  dfi_free(own);
  if (good && masked(sum) == e->crc32c) {
    dfi_settle_bools(t);
    return t;
  }
  df_tensor_release(t);
  dfi_fail(err, DF_DATA_LOSS, NULL, "%s of the checkpoint %s is damaged: %s", name, c->prefix,
           good ? "the sum of its bytes is wrong" : "its bytes are not there");
  return NULL;
}

/* Part i of the tensor that e describes, where it lies in dims; false: the file says otherwise. */
static bool part_at(const Pb__BundleEntryProto *e, size_t i, const int64_t *dims, dfi_part *p) {
  const Pb__TensorSliceProto *s = e->slices[i];
  *p = (dfi_part){ .rank = (int32_t)s->n_extent };
  if (s->n_extent > DF_MAX_RANK) return false;
  for (int32_t d = 0; d < p->rank; d++) {
    const Pb__TensorSliceProto__Extent *x = s->extent[d];
    p->start[d] = x->start;
    p->length[d] = x->length;
    p->whole[d] = x->has_length_case == PB__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH__NOT_SET;
  }
  return dfi_part_fits(p, e->shape ? (int32_t)e->shape->n_dim : 0, dims);
}

/* The tensor that the parts of a partitioned variable make; each element is in one of them. */
static df_tensor *read_parts(dfi_checkpoint *c, const char *name, const Pb__BundleEntryProto *e, df_error *err) {
  int64_t dims[DF_MAX_RANK], size = 1, have = 0;
  const int32_t rank = e->shape ? (int32_t)e->shape->n_dim : 0;
  const int32_t dtype = (int32_t)e->dtype;
  if (e->n_slices > PARTS_AT_MOST) {
    dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%s of the checkpoint %s is in %zu parts: at most %d are read", name,
             c->prefix, e->n_slices, PARTS_AT_MOST);
    return NULL;
  }
  bool good = rank > 0 && rank <= DF_MAX_RANK && !e->shape->unknown_rank && dtype > 0 && dtype < 32 &&
              dtype != DF_VARIANT && df_dtype_bytes(dtype) > 0;
  for (int32_t d = 0; d < rank && good; d++) {
    dims[d] = e->shape->dim[d]->size;
    good = dims[d] >= 0 && !__builtin_mul_overflow(size, dims[d], &size);
  }
  dfi_part *part = dfi_xcalloc(e->n_slices, sizeof *part);
  for (size_t i = 0; i < e->n_slices && good; i++) {
    good = part_at(e, i, dims, &part[i]) && dfi_part_size(&part[i]) <= size - have;
    if (good) have += dfi_part_size(&part[i]);
    for (size_t j = 0; j < i && good; j++) good = !dfi_part_meets(&part[i], &part[j]);
  }
  df_tensor *t = NULL;
  if (!good || have < size)
    dfi_fail(err, DF_DATA_LOSS, NULL, "%s of the checkpoint %s is damaged: its %zu parts are not all of it, once each",
             name, c->prefix, e->n_slices);
  else t = df_tensor_new(dtype, rank, dims, err);
  for (size_t i = 0; i < e->n_slices && t; i++) {
    size_t n;
    char *key = dfi_part_key(name, &part[i], &n);
    const entry *at = find(c, key, n);
    dfi_free(key);
    df_tensor *own = at && !at->e->n_slices ? read_bytes(c, name, at->e, err) : NULL;
    bool fits = own && own->dtype == t->dtype && own->rank == rank;
    for (int32_t d = 0; d < rank && fits; d++) fits = own->dims[d] == part[i].length[d];
    if (!at || (own && !fits))
      dfi_fail(err, DF_DATA_LOSS, NULL, "%s of the checkpoint %s is damaged: part %zu of %zu is %s", name, c->prefix,
               i + 1, e->n_slices, at ? "of another shape or dtype" : "not there");
    else if (!own && at->e->n_slices)
      dfi_fail(err, DF_DATA_LOSS, NULL, "%s of the checkpoint %s is damaged: a part has parts", name, c->prefix);
    if (!fits || dfi_part_put(t, &part[i], own, err)) { df_tensor_release(t); t = NULL; }
    df_tensor_release(own);
  }
  dfi_free(part);
  return t;
}

/* Part `text` of the tensor t (consumed). */
static df_tensor *cut(const dfi_checkpoint *c, const char *name, df_tensor *t, const char *text, df_error *err) {
  dfi_part p;
  int64_t dims[DF_MAX_RANK];
  bool fits = dfi_part_parse(text, &p, dims) && p.rank == t->rank;
  for (int32_t d = 0; fits && d < p.rank; d++) fits = dims[d] == t->dims[d];
  df_tensor *own = fits ? df_tensor_new(t->dtype, p.rank, p.length, err) : NULL;
  char shape[160];
  if (!fits)
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "'%.80s' is no part of %s, which is %s in the checkpoint %s", text, name,
             dfk_shape_text(t, shape, sizeof shape), c->prefix);
  if (own && dfi_part_take(t, &p, own, err)) { df_tensor_release(own); own = NULL; }
  df_tensor_release(t);
  return own;
}

df_tensor *dfi_checkpoint_read(dfi_checkpoint *c, const char *name, const char *part, df_error *err) {
  const entry *at = find(c, name, strlen(name));
  if (!at) {
    dfi_fail(err, DF_NOT_FOUND, NULL, "the checkpoint %s has no %s", c->prefix, name);
    return NULL;
  }
  df_tensor *t = (at->e->n_slices ? read_parts : read_bytes)(c, name, at->e, err);
  return t && part && *part ? cut(c, name, t, part, err) : t;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct block { bytes b; bytes last; uint32_t *restart; int32_t n, cap, since; } block;

static void block_add(block *k, int32_t interval, const char *key, size_t length, const bytes *value) {
  size_t shared = 0;
  if (!k->n || k->since == interval) {
    DFI_GROW(k->restart, k->n, k->cap);
    k->restart[k->n++] = (uint32_t)k->b.n;
    k->since = 0;
  } else while (shared < length && shared < k->last.n && (char)k->last.at[shared] == key[shared]) shared++;
  put_varint(&k->b, shared);
  put_varint(&k->b, length - shared);
  put_varint(&k->b, value->n);
  put(&k->b, key + shared, length - shared);
  put(&k->b, value->at, value->n);
  k->last.n = 0;
  put(&k->last, key, length);
  k->since++;
}

/* Puts the block at the end of the file; its place, as a value. */
static void block_end(block *k, bytes *file, bytes *place) {
  const size_t start = file->n;
  if (!k->n) { DFI_GROW(k->restart, k->n, k->cap); k->restart[k->n++] = 0; }
  for (int32_t i = 0; i < k->n; i++) put32(&k->b, k->restart[i]);
  put32(&k->b, (uint32_t)k->n);
  place->n = 0;
  put_varint(place, start);
  put_varint(place, k->b.n);
  put(file, k->b.at, k->b.n);
  put(file, &(uint8_t){ 0 }, 1);
  put32(file, masked(dfi_crc32c(0, file->at + start, k->b.n + 1)));
  k->b.n = k->last.n = 0;
  k->n = k->since = 0;
}

static void block_free(block *k) { dfi_free(k->b.at); dfi_free(k->last.at); dfi_free(k->restart); }

static void pack(bytes *b, const ProtobufCMessage *m) {
  b->n = 0;
  const size_t n = protobuf_c_message_get_packed_size(m);
  if (n + 1 > b->cap) b->at = dfi_xrealloc(b->at, b->cap = n + 1);
  b->n = protobuf_c_message_pack(m, b->at);
}

/* A file that is written until something goes wrong. */
typedef struct sink { df_file *f; int32_t code; df_error *err; } sink;

static void put_out(sink *o, const void *at, size_t n) {
  if (!o->code) o->code = df_file_write(o->f, at, (int64_t)n, o->err);
}

/* The bytes of the tensor's data, behind what is there; how many, and their sum. */
static int64_t write_data(sink *o, const df_tensor *t, uint32_t *sum) {
  *sum = 0;
  if (t->dtype != DF_STRING) {
    const size_t n = (size_t)t->size * (size_t)df_dtype_bytes(t->dtype);
    put_out(o, t->data, n);
    *sum = dfi_crc32c(0, t->data, n);
    return (int64_t)n;
  }
  bytes head = { 0 };
  int64_t all = 0;
  for (int64_t i = 0, n; i < t->size; i++) {
    df_tensor_string(t, i, &n);
    put_varint(&head, (uint64_t)n);
    *sum = dfi_crc32c(*sum, (uint8_t[]){ (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24) }, 4);
    all += n;
  }
  const size_t lengths = head.n;
  put32(&head, masked(*sum));
  *sum = dfi_crc32c(*sum, head.at + lengths, 4);
  put_out(o, head.at, head.n);
  for (int64_t i = 0, n; i < t->size; i++) {
    const char *s = df_tensor_string(t, i, &n);
    put_out(o, s, (size_t)n);
    *sum = dfi_crc32c(*sum, s, (size_t)n);
  }
  all += (int64_t)head.n;
  dfi_free(head.at);
  return all;
}

/* The entry of a tensor whose bytes lie at `offset`. */
static void pack_entry(bytes *b, const df_tensor *t, int64_t offset, int64_t size, uint32_t sum) {
  Pb__TensorShapeProto__Dim dim[DF_MAX_RANK], *dims[DF_MAX_RANK];
  Pb__TensorShapeProto shape = PB__TENSOR_SHAPE_PROTO__INIT;
  Pb__BundleEntryProto e = PB__BUNDLE_ENTRY_PROTO__INIT;
  for (int32_t i = 0; i < t->rank; i++) {
    pb__tensor_shape_proto__dim__init(&dim[i]);
    dim[i].size = t->dims[i];
    dims[i] = &dim[i];
  }
  shape.n_dim = (size_t)t->rank;
  shape.dim = dims;
  e.dtype = (Pb__DataType)t->dtype;
  e.shape = &shape;
  e.offset = offset;
  e.size = size;
  e.crc32c = masked(sum);
  pack(b, &e.base);
}

typedef struct named { const char *name; const df_tensor *tensor; } named;
static int by_name(const void *a, const void *b) { return strcmp(((const named *)a)->name, ((const named *)b)->name); }

/* The index of what lies in the first data file, which is written meanwhile. */
static void write_table(const named *all, int32_t n, int32_t shards, sink *data, bytes *file) {
  enum { BLOCK = 4096, INTERVAL = 16 };
  Pb__VersionDef version = { .base = PROTOBUF_C_MESSAGE_INIT(&pb__version_def__descriptor), .producer = 1 };
  Pb__BundleHeaderProto header = PB__BUNDLE_HEADER_PROTO__INIT;
  block keys = { 0 }, index = { 0 };
  bytes value = { 0 }, place = { 0 }, none = { 0 };
  int64_t offset = 0;
  header.num_shards = shards;
  header.version = &version;
  pack(&value, &header.base);
  block_add(&keys, INTERVAL, "", 0, &value);
  for (int32_t i = 0; i < n; i++) {
    uint32_t sum;
    const int64_t size = write_data(data, all[i].tensor, &sum);
    pack_entry(&value, all[i].tensor, offset, size, sum);
    block_add(&keys, INTERVAL, all[i].name, strlen(all[i].name), &value);
    offset += size;
    if (keys.b.n < BLOCK && i < n - 1) continue;
    block_end(&keys, file, &place);
    block_add(&index, 1, all[i].name, strlen(all[i].name), &place);
  }
  if (!n) {
    block_end(&keys, file, &place);
    block_add(&index, 1, "", 0, &place);
  }
  block_end(&keys, file, &none);                    /* the table of further facts, of which there are none */
  block_end(&index, file, &place);
  put(&none, place.at, place.n);
  none.at = dfi_xrealloc(none.at, HANDLES_AT_MOST + 64);
  memset(none.at + none.n, 0, HANDLES_AT_MOST - none.n);
  put(file, none.at, HANDLES_AT_MOST);
  put(file, magic, 8);
  block_free(&keys); block_free(&index);
  dfi_free(value.at); dfi_free(place.at); dfi_free(none.at);
}

/* How many files the data of the checkpoint that is there lies in; 0: there is none, or one that is broken anyway. */
static int32_t shards_of(const char *prefix, int32_t *shards, df_error *err) {
  df_error why = { 0 };
  dfi_checkpoint *c = dfi_checkpoint_open(prefix, &why);
  *shards = c ? c->shards : 0;
  dfi_checkpoint_close(c);
  if (c || why.code == DF_NOT_FOUND || why.code == DF_DATA_LOSS) return DF_OK;
  return dfi_fail(err, why.code, NULL, "cannot write over the checkpoint %s: %s", prefix, why.message);
}

static void remove_shards(const char *prefix, int32_t shards) {
  for (int32_t i = 0; i < shards; i++) {
    char *path = shard_path(prefix, i, shards);
    unlink(path);
    dfi_free(path);
  }
}

void dfi_checkpoint_remove(const char *prefix) {
  int32_t shards;
  shards_of(prefix, &shards, NULL);
  char *path = dfi_xmalloc(strlen(prefix) + 8);
  sprintf(path, "%s.index", prefix);
  unlink(path);
  dfi_free(path);
  remove_shards(prefix, shards ? shards : 1);
}

/* The files of a checkpoint while it is written: its index, its data, and the second of two. */
typedef struct written { sink index, data, empty; int32_t shards, before; } written;

/* Opens one of them, with the permissions of `like`, one of the old checkpoint's (NULL: with a new file's). */
static int32_t sink_open(sink *o, char *path, char *like, df_error *err) {
  *o = (sink){ .f = df_file_create(path, err), .err = err };
  if (o->f && like) dfi_file_like(o->f, like);
  dfi_free(path); dfi_free(like);
  return o->f ? DF_OK : err->code;
}

static int32_t written_open(written *w, const char *prefix, df_error *err) {
  int32_t code = shards_of(prefix, &w->before, err);
  w->shards = w->before == 1 ? 2 : 1;
  if (code) return code;
  char *index = dfi_xmalloc(strlen(prefix) + 8);
  sprintf(index, "%s.index", prefix);
  code = sink_open(&w->index, index, NULL, err);
  for (int32_t i = 0; i < w->shards && !code; i++) {
    char *like = w->before ? shard_path(prefix, 0, w->before) : NULL;
    code = sink_open(i ? &w->empty : &w->data, shard_path(prefix, i, w->shards), like, err);
  }
  return code;
}

/* All are on the disk before the first takes its name, and the index is the last. */
static int32_t written_commit(written *w, const char *prefix, df_error *err) {
  df_file **file[] = { &w->empty.f, &w->data.f, &w->index.f };
  int32_t code = DF_OK;
  for (size_t i = 0; i < 3 && !code; i++) if (*file[i]) code = dfi_file_settle(*file[i], err);
  for (size_t i = 0; i < 3 && !code; i++) {
    if (*file[i]) code = df_file_commit(*file[i], err);
    *file[i] = NULL;
  }
  /* The index may have its name, though the folder could not be written down: then the new files stay. */
  int32_t named = 0;
  df_error why = { 0 };
  if (code && w->before && !shards_of(prefix, &named, &why) && named == w->before) remove_shards(prefix, w->shards);
  return code;
}

int32_t dfi_checkpoint_write(const char *prefix, int32_t n, const char *const *name, const df_tensor *const *tensor,
                             df_error *err) {
  named *all = dfi_xmalloc(sizeof *all * ((size_t)n + 1));
  for (int32_t i = 0; i < n; i++) all[i] = (named){ name[i], tensor[i] };
  qsort(all, (size_t)n, sizeof *all, by_name);
  int32_t code = DF_OK;
  for (int32_t i = 1; i < n && !code; i++)
    if (!strcmp(all[i - 1].name, all[i].name))
      code =
          dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the checkpoint %s would have two tensors %s", prefix, all[i].name);
  written w = { 0 };
  bytes file = { 0 };
  if (!code) code = written_open(&w, prefix, err);
  if (!code) {
    write_table(all, n, w.shards, &w.data, &file);
    put_out(&w.index, file.at, file.n);
    code = w.data.code ? w.data.code : w.index.code;
  }
  if (!code) code = written_commit(&w, prefix, err);
  if (!code) remove_shards(prefix, w.before);
  df_file_discard(w.data.f); df_file_discard(w.empty.f); df_file_discard(w.index.f);
  dfi_free(file.at); dfi_free(all);
  return code;
}

/* ---- the public door --------------------------------------------------------------------------------------------- */

df_tensor *df_checkpoint_names(const char *prefix, df_error *err) {
  dfi_checkpoint *c = dfi_checkpoint_open(prefix, err);
  const int64_t n = c ? dfi_checkpoint_count(c) : 0;
  df_tensor *t = c ? df_tensor_new(DF_STRING, 1, &n, err) : NULL;
  for (int64_t i = 0; t && i < n; i++)
    if (df_tensor_set_string(t, i, dfi_checkpoint_name(c, (int32_t)i),
                             (int64_t)strlen(dfi_checkpoint_name(c, (int32_t)i)), err)) {
      df_tensor_release(t);
      t = NULL;
    }
  dfi_checkpoint_close(c);
  return t;
}

df_tensor *df_checkpoint_read(const char *prefix, const char *name, const char *part, df_error *err) {
  dfi_checkpoint *c = dfi_checkpoint_open(prefix, err);
  df_tensor *t = c ? dfi_checkpoint_read(c, name, part, err) : NULL;
  dfi_checkpoint_close(c);
  return t;
}

int32_t df_checkpoint_write(const char *prefix, int32_t n, const char *const *names, df_tensor *const *tensors,
                            df_error *err) {
  for (int32_t i = 0; i < n; i++)
    if (tensors[i]->dtype == DF_VARIANT || tensors[i]->dtype == DF_RESOURCE)
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s is of dtype %s, which no file holds", names[i],
                      df_dtype_name(tensors[i]->dtype));
  return dfi_checkpoint_write(prefix, n, names, (const df_tensor *const *)tensors, err);
}
