/* graphdef.c: the bytes of a file as TensorFlow's graph message.
 *
 * libprotobuf-c unpacks into the arena of a dfi_graphdef, which has a budget in proportion to the file, so a hostile
 * file can take neither much memory nor the stack (graphdef.proto has no message that can hold itself). What it cannot
 * read is walked once more here, field by field, to say what is wrong, at which byte and in which node.
 */
#include "tensorflow/graphdef.h"
#include "base/budget.h"
#include <limits.h>
#include <stdio.h>
#include <zlib.h>

/* ---- memory ---------------------------------------------------------------------------------- */

enum { BUDGET_PER_BYTE = 64, BUDGET_BASE = 1 << 20 };

static void *take(void *user, size_t bytes) {
  dfi_graphdef *d = user;
  if ((int64_t)bytes > d->budget || (int64_t)bytes < 0) { d->spent = true; return NULL; }
  if (dfi_short || (bytes > 1 << 20 && !dfi_memory_for(bytes))) { dfi_short = true; return NULL; }
  d->budget -= (int64_t)bytes;
  return dfi_arena_take(&d->arena, bytes);
}
static void give(void *user, void *p) {}

static ProtobufCMessage *unpack(dfi_graphdef *d, const ProtobufCMessageDescriptor *type, const void *bytes, size_t n) {
  ProtobufCAllocator allocator = { take, give, d };
  return protobuf_c_message_unpack(type, &allocator, n, bytes);
}

/* ---- what is wrong with bytes that cannot be unpacked ------------------------------------------ */

typedef struct walker {
  const uint8_t *start, *end;
  char place[240];         /* "in node 3 `while/Add`, " */
  char what[200];          /* empty: nothing wrong was found */
  int64_t at;
} walker;

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *v) {
  *v = 0;
  for (int32_t shift = 0; *p < end && shift < 70; shift += 7) {
    uint8_t byte = *(*p)++;
    *v |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

static bool wrong(walker *w, const uint8_t *at, const char *what) {
  if (!*w->what) {
    w->at = at - w->start;
    snprintf(w->what, sizeof w->what, "%s", what);
  }
  return false;
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *type, uint32_t number) {
  return type ? protobuf_c_message_descriptor_get_field(type, number) : NULL;
}

/* The string field 1 of a node: its name, as far as it is there. */
static void name_of(const uint8_t *p, const uint8_t *end, char *out, size_t bytes) {
  uint64_t length;
  *out = 0;
  if (p < end && *p == 0x0a && (p++, varint(&p, end, &length))) {
    if (length > (uint64_t)(end - p)) length = (uint64_t)(end - p);
    snprintf(out, bytes, "%.*s", (int)(length < 120 ? length : 120), (const char *)p);
  }
}

static bool walk(walker *w, const uint8_t *p, const uint8_t *end, const ProtobufCMessageDescriptor *type) {
  char text[200];
  int32_t nodes = 0;
  while (p < end) {
    const uint8_t *at = p;
    uint64_t tag, length;
    if (!varint(&p, end, &tag)) return wrong(w, at, "the tag of a field is cut or too long");
    const ProtobufCFieldDescriptor *f = field_of(type, (uint32_t)(tag >> 3));
    const char *name = f ? f->name : "a field";
    switch (tag & 7) {
    case 0: if (!varint(&p, end, &length)) return wrong(w, at, "a number is cut or too long"); break;
    case 1: if (end - p < 8) return wrong(w, at, "8 bytes of a number are cut"); p += 8; break;
    case 5: if (end - p < 4) return wrong(w, at, "4 bytes of a number are cut"); p += 4; break;
    case 2: {
      if (!varint(&p, end, &length)) return wrong(w, at, "the length of a field is cut or too long");
      bool cut = length > (uint64_t)(end - p);
      const uint8_t *last = cut ? end : p + length;
      if (type == &pb__graph_def__descriptor && tag >> 3 == 1) {
        name_of(p, last, text, sizeof text);
        snprintf(w->place, sizeof w->place, "in node %d `%s`, ", nodes++, text);
      }
      if (f && f->type == PROTOBUF_C_TYPE_MESSAGE && !walk(w, p, last, f->descriptor)) return false;
      if (cut) {
        snprintf(text, sizeof text, "%s says that it has %llu bytes but only %lld are left%s", name,
                 (unsigned long long)length, (long long)(end - p), end == w->end ? ": the file is cut" : "");
        return wrong(w, at, text);
      }
      p += length;
      if (type == &pb__graph_def__descriptor) *w->place = 0;
      break;
    }
    default:
      snprintf(text, sizeof text, "%s has the wire type %d, which there is not", name, (int)(tag & 7));
      return wrong(w, at, text);
    }
    if (tag >> 3 == 0) return wrong(w, at, "a field has the number 0");
    if (f &&
        (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES) &&
        (tag & 7) != 2) {
      snprintf(text, sizeof text, "%s has the wire type %d, expected 2", name, (int)(tag & 7));
      return wrong(w, at, text);
    }
  }
  return true;
}

static int32_t explain(const dfi_graphdef *d, const ProtobufCMessageDescriptor *type, const char *bytes, int64_t n,
                       df_error *err) {
  if (d->spent)
    return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL,
                    "the graph's %lld bytes unpack to far more than any graph's would: the file is damaged",
                    (long long)n);
  if (dfi_short) return dfi_short_fail(err, NULL, "the graph's message");
  walker w = { .start = (const uint8_t *)bytes, .end = (const uint8_t *)bytes + n };
  walk(&w, w.start, w.end, type);
  return dfi_fail(err, DF_DATA_LOSS, NULL, "this is no GraphDef, or a damaged one: at byte %lld, %s%s", (long long)w.at,
                  w.place, *w.what ? w.what : "a field is not what TensorFlow's messages have there");
}

/* ---- which message it is -------------------------------------------------------------------------- */

/* GraphDef begins with a node, whose second field is the op's type: a word. MetaGraphDef's first field has none there.
 * SavedModel begins with a number. */
static const ProtobufCMessageDescriptor *type_of(const char *bytes, int64_t n) {
  const uint8_t *p = (const uint8_t *)bytes, *end = p + n;
  uint64_t length;
  if (n && *p == 0x08) return &pb__saved_model__descriptor;
  if (!n || *p++ != 0x0a || !varint(&p, end, &length) || length >= (uint64_t)(end - p))
    return &pb__graph_def__descriptor;
  const uint8_t *inner = p, *last = p + length;
  for (uint64_t tag, size; inner < last && varint(&inner, last, &tag) && (tag & 7) == 2 &&
                           varint(&inner, last, &size) && size <= (uint64_t)(last - inner);
       inner += size)
    if (tag == 0x12 && size && (*inner == '_' || (*inner >= 'A' && *inner <= 'Z') || (*inner >= 'a' && *inner <= 'z')))
      return &pb__graph_def__descriptor;
  return *last == 0x12 ? &pb__meta_graph_def__descriptor : &pb__graph_def__descriptor;
}

/* ---- gzip ---------------------------------------------------------------------------------------------- */

/* The bytes of a gzip stream; owned. */
static char *gunzip(const char *bytes, int64_t n, int64_t *size, df_error *err) {
  z_stream z = { .next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)n };
  char *out = NULL;
  const int64_t budget = dfi_unpack_budget(n);
  int64_t room = 0;
  if (n > UINT_MAX || inflateInit2(&z, MAX_WBITS + 16) != Z_OK) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "cannot unpack %lld bytes", (long long)n);
    return NULL;
  }
  int code = Z_OK;
  while (code == Z_OK) {
    if ((int64_t)z.total_out > budget) break;
    if ((int64_t)z.total_out == room) {
      room = room ? room * 2 : n * 4 + 1024;
      char *more = room > INT_MAX ? NULL : dfi_malloc((size_t)room);
      if (!more) { code = Z_MEM_ERROR; break; }
      if (out) memcpy(more, out, z.total_out);
      dfi_free(out);
      out = more;
    }
    z.next_out = (Bytef *)out + z.total_out;
    z.avail_out = (uInt)(room - (int64_t)z.total_out);
    code = inflate(&z, Z_NO_FLUSH);
  }
  *size = (int64_t)z.total_out;
  inflateEnd(&z);
  if (code == Z_STREAM_END && *size <= budget) return out;
  dfi_free(out);
  if (*size > budget) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL,
             "the gzipped graph unpacks to more than %lld bytes; DFLOW_UNPACK_LIMIT says how many are taken",
             (long long)budget);
    return NULL;
  }
  if (code == Z_MEM_ERROR) dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "the graph unpacks to more than 2 GiB");
  else
    dfi_fail(err, DF_DATA_LOSS, NULL, "the gzipped graph is damaged or ends too early, after %lld bytes",
             (long long)*size);
  return NULL;
}

/* ---- what a file leaves out ------------------------------------------------------------------------------ */

/* Messages that TensorFlow always writes are there for readers: empty ones in the place of those that are
   missing. */
static void complete_attrs(size_t n, Pb__AttrEntry **entry) {
  static Pb__AttrValue nothing = { .base = PROTOBUF_C_MESSAGE_INIT(&pb__attr_value__descriptor) };
  for (size_t i = 0; i < n; i++)
    if (!entry[i]->value) entry[i]->value = &nothing;
}

static void complete_nodes(size_t n, Pb__NodeDef **node) {
  for (size_t i = 0; i < n; i++) complete_attrs(node[i]->n_attr, node[i]->attr);
}

static void complete(Pb__GraphDef *g) {
  static Pb__OpDef unnamed = PB__OP_DEF__INIT;
  complete_nodes(g->n_node, g->node);
  for (size_t i = 0; g->library && i < g->library->n_function; i++) {
    Pb__FunctionDef *f = g->library->function[i];
    if (!f->signature) f->signature = &unnamed;
    complete_attrs(f->n_attr, f->attr);
    complete_nodes(f->n_node_def, f->node_def);
  }
}

/* ---- reading --------------------------------------------------------------------------------------------- */

static bool read_wire(dfi_graphdef *d, const ProtobufCMessageDescriptor *type, const char *bytes, int64_t n,
                      df_error *err) {
  d->budget = n * BUDGET_PER_BYTE + BUDGET_BASE;
  ProtobufCMessage *m = unpack(d, type, bytes, (size_t)n);
  if (!m) { explain(d, type, bytes, n, err); return false; }
  if (type == &pb__graph_def__descriptor) {
    d->graph = (Pb__GraphDef *)m;
    return true;
  }
  if (type == &pb__saved_model__descriptor) {
    Pb__SavedModel *s = (Pb__SavedModel *)m;
    if (!s->n_meta_graphs) { dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the SavedModel holds no graph"); return false; }
    d->meta = s->meta_graphs[0];
  } else {
    d->meta = (Pb__MetaGraphDef *)m;
  }
  if (!d->meta->graph_def) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the MetaGraphDef holds no graph");
    return false;
  }
  d->graph = d->meta->graph_def;
  return true;
}

dfi_graphdef *dfi_graphdef_read(const char *bytes, int64_t n, df_error *err) {
  const int64_t packed = n;
  char *unzipped = NULL, *wire = NULL;
  bool good = false;
  if (n >= 2 && (uint8_t)bytes[0] == 0x1f && (uint8_t)bytes[1] == 0x8b) {
    if (!(unzipped = gunzip(bytes, n, &n, err))) return NULL;
    bytes = unzipped;
  }
  dfi_graphdef *d = dfi_xcalloc(1, sizeof *d);
  d->unpack = dfi_unpack_budget(packed);
  const ProtobufCMessageDescriptor *type = NULL;
  if (n == 0) dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the graph is empty: there are no bytes");
  else if (n > INT_MAX)
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "the graph has %lld bytes; a message has 2 GiB at most", (long long)n);
  else if (dfi_graphdef_is_text(bytes, n)) {
    int64_t size;
    wire = dfi_graphdef_from_text(bytes, n, &type, &size, err);
    good = wire && read_wire(d, type, wire, size, err);
  } else {
    good = read_wire(d, type_of(bytes, n), bytes, n, err);
  }
  dfi_free(wire);
  dfi_free(unzipped);
  if (good) {
    complete(d->graph);
    return d;
  }
  dfi_graphdef_free(d);
  return NULL;
}

void dfi_graphdef_free(dfi_graphdef *d) {
  for (dfi_graphdef *next; d; d = next) {
    next = d->next;
    dfi_arena_free(&d->arena);
    dfi_free(d);
  }
}

Pb__NameAttrList *dfi_graphdef_function(dfi_graphdef *d, ProtobufCBinaryData func, df_error *err) {
  d->budget += (int64_t)func.len * BUDGET_PER_BYTE + 4096;
  ProtobufCMessage *m = unpack(d, &pb__name_attr_list__descriptor, func.data, func.len);
  Pb__NameAttrList *f = (Pb__NameAttrList *)m;
  if (!f) explain(d, &pb__name_attr_list__descriptor, (const char *)func.data, (int64_t)func.len, err);
  else complete_attrs(f->n_attr, f->attr);
  return f;
}

Pb__VariableDef *dfi_graphdef_variable(dfi_graphdef *d, ProtobufCBinaryData variable) {
  d->budget += (int64_t)variable.len * BUDGET_PER_BYTE + 4096;
  return (Pb__VariableDef *)unpack(d, &pb__variable_def__descriptor, variable.data, variable.len);
}
