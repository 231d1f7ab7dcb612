/* export_text.c: a message in text form, as protobuf's own printer writes it. */
#include "tensorflow/export.h"
#include <stdarg.h>
#include <stdio.h>

typedef struct text { char *at; size_t n, cap; int32_t depth; } text;

static void say(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(text *t, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  size_t need = (size_t)vsnprintf(NULL, 0, format, args) + 1;
  if (t->n + need > t->cap) t->at = dfi_xrealloc(t->at, t->cap = (t->n + need) * 2);
  vsnprintf(t->at + t->n, need, format, again);
  t->n += need - 1;
  va_end(args);
  va_end(again);
}

static void quoted(text *t, const uint8_t *s, size_t n) {
  say(t, "\"");
  for (size_t i = 0; i < n; i++) {
    if (s[i] == '"' || s[i] == '\\') say(t, "\\%c", s[i]);
    else if (s[i] >= 32 && s[i] < 127) say(t, "%c", s[i]);
    else say(t, "\\%03o", s[i]);
  }
  say(t, "\"");
}

static void message(text *t, const ProtobufCMessage *m);

static void real(text *t, double v, int32_t digits) {
  if (v != v) say(t, "nan");
  else if (v - v != 0) say(t, v > 0 ? "inf" : "-inf");
  else say(t, "%.*g", digits, v);
}

static void value(text *t, const ProtobufCFieldDescriptor *f, const void *v) {
  switch (f->type) {
  case PROTOBUF_C_TYPE_STRING: quoted(t, *(const uint8_t *const *)v, strlen(*(const char *const *)v)); break;
  case PROTOBUF_C_TYPE_BYTES:
    quoted(t, ((const ProtobufCBinaryData *)v)->data, ((const ProtobufCBinaryData *)v)->len);
    break;
  case PROTOBUF_C_TYPE_BOOL: say(t, *(const protobuf_c_boolean *)v ? "true" : "false"); break;
  case PROTOBUF_C_TYPE_FLOAT: real(t, *(const float *)v, 9); break;
  case PROTOBUF_C_TYPE_DOUBLE: real(t, *(const double *)v, 17); break;
  case PROTOBUF_C_TYPE_ENUM: {
    const ProtobufCEnumValue *e = protobuf_c_enum_descriptor_get_value(f->descriptor, *(const int *)v);
    if (e) say(t, "%s", e->name); else say(t, "%d", *(const int *)v);
    break;
  }
  case PROTOBUF_C_TYPE_INT64: say(t, "%lld", (long long)*(const int64_t *)v); break;
  case PROTOBUF_C_TYPE_UINT64: say(t, "%llu", (unsigned long long)*(const uint64_t *)v); break;
  case PROTOBUF_C_TYPE_UINT32: say(t, "%u", *(const uint32_t *)v); break;
  default: say(t, "%d", *(const int32_t *)v); break;
  }
}

static void field(text *t, const ProtobufCFieldDescriptor *f, const void *v) {
  say(t, "%*s%s", 2 * t->depth, "", f->name);
  if (f->type != PROTOBUF_C_TYPE_MESSAGE) {
    say(t, ": ");
    value(t, f, v);
    say(t, "\n");
    return;
  }
  say(t, " {\n");
  t->depth++;
  message(t, *(const ProtobufCMessage *const *)v);
  t->depth--;
  say(t, "%*s}\n", 2 * t->depth, "");
}

static size_t size_of(const ProtobufCFieldDescriptor *f) {
  switch (f->type) {
  case PROTOBUF_C_TYPE_STRING: case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
  case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
  case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
  case PROTOBUF_C_TYPE_INT64: case PROTOBUF_C_TYPE_UINT64: case PROTOBUF_C_TYPE_DOUBLE: return 8;
  default: return 4;
  }
}

/* A field of proto3 that has its zero is not there. */
static bool is_zero(const ProtobufCFieldDescriptor *f, const void *v) {
  if (f->type == PROTOBUF_C_TYPE_STRING) return !*(const char *const *)v || !**(const char *const *)v;
  if (f->type == PROTOBUF_C_TYPE_MESSAGE) return !*(const void *const *)v;
  if (f->type == PROTOBUF_C_TYPE_BYTES) return !((const ProtobufCBinaryData *)v)->len;
  static const char zero[8];
  return !memcmp(v, zero, size_of(f));
}

static void message(text *t, const ProtobufCMessage *m) {
  const ProtobufCMessageDescriptor *d = m->descriptor;
  for (unsigned i = 0; i < d->n_fields; i++) {
    const ProtobufCFieldDescriptor *f = &d->fields[i];
    const char *at = (const char *)m + f->offset;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
      size_t n = *(const size_t *)((const char *)m + f->quantifier_offset), each = size_of(f);
      for (size_t k = 0; k < n; k++) field(t, f, *(const char *const *)at + k * each);
    } else if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
      if (*(const uint32_t *)((const char *)m + f->quantifier_offset) == f->id) field(t, f, at);
    } else if (!is_zero(f, at)) field(t, f, at);
  }
}

df_tensor *dfi_export_text(const ProtobufCMessage *m, df_error *err) {
  text t = { 0 };
  message(&t, m);
  int64_t size = (int64_t)t.n;
  df_tensor *result = df_tensor_new(DF_UINT8, 1, &size, err);
  if (result && size) memcpy(result->data, t.at, t.n);
  dfi_free(t.at);
  return result;
}
