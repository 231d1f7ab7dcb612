/* graphdef_text.c: the text form of TensorFlow's messages (.pbtxt), turned into the wire form.
 *
 * A small reader over the descriptors that the binary reader uses, so there is one reader of meaning and this one of
 * syntax: fields with or without a colon before a block, lists in brackets, adjacent strings, C escapes, comments.
 * Fields that the descriptors do not have are skipped, whatever is in them. A block's length is not known before its
 * end, so five bytes are kept for it and filled in then: a longer number than needed, which readers accept.
 */
#include "tensorflow/graphdef.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

enum { DEEPEST = 64 };

typedef struct text {
  const char *at, *end, *start;
  uint8_t *out;
  size_t n, cap;
  df_error *err;
  int32_t depth;
} text;

static bool fail(text *t, const char *what) {
  int64_t line = 1;
  const char *bol = t->start;
  for (const char *p = t->start; p < t->at && p < t->end; p++) if (*p == '\n') { line++; bol = p + 1; }
  dfi_fail(t->err, DF_INVALID_ARGUMENT, NULL, "the text graph is wrong in line %lld, column %lld: %s%s",
           (long long)line, (long long)(t->at - bol + 1), what, t->at >= t->end ? ", but the file ends" : "");
  return false;
}

/* ---- writing the wire form ------------------------------------------------------------------------ */

static uint8_t *room(text *t, size_t n) {
  if (t->cap - t->n < n) {
    t->cap = t->cap * 2 + n + 256;
    t->out = dfi_xrealloc(t->out, t->cap);
  }
  return t->out + t->n;
}
static void put_varint(text *t, uint64_t v) {
  uint8_t *p = room(t, 10);
  for (; v >= 0x80; v >>= 7) { *p++ = (uint8_t)(v | 0x80); t->n++; }
  *p = (uint8_t)v;
  t->n++;
}
static void put_tag(text *t, const ProtobufCFieldDescriptor *f, uint32_t wire) {
  put_varint(t, (uint64_t)f->id << 3 | wire);
}
static void put_fixed(text *t, const void *v, size_t n) {
  memcpy(room(t, n), v, n);
  t->n += n;
}
static size_t begin_block(text *t) {
  room(t, 5);
  t->n += 5;
  return t->n;
}
static void end_block(text *t, size_t begin) {
  size_t length = t->n - begin;
  for (int32_t i = 0; i < 5; i++, length >>= 7)
    t->out[begin - 5 + (size_t)i] = (uint8_t)((length & 0x7f) | (i < 4 ? 0x80 : 0));
}

/* ---- words ------------------------------------------------------------------------------------------ */

static int peek(text *t) {
  for (; t->at < t->end; t->at++) {
    if (*t->at == '#') {
      while (t->at < t->end && *t->at != '\n') t->at++;
      if (t->at == t->end) break;
    }
    if (!isspace((unsigned char)*t->at)) return (unsigned char)*t->at;
  }
  return 0;
}
static bool take(text *t, int c) {
  if (peek(t) != c || t->at == t->end) return false;
  t->at++;
  return true;
}

static bool is_word(int c) { return isalnum(c) || c == '_' || c == '.' || c == '+' || c == '-'; }

/* A name, a number, true, inf: what lies between punctuation. */
static bool word(text *t, char *out, size_t bytes) {
  size_t n = 0;
  peek(t);
  while (t->at + n < t->end && is_word((unsigned char)t->at[n])) n++;
  if (!n || n >= bytes) return fail(t, n ? "a word is too long" : "a name or a value is expected");
  memcpy(out, t->at, n);
  out[n] = 0;
  t->at += n;
  return true;
}

static int hex(int c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

static void put_utf8(text *t, uint32_t c) {
  uint8_t *p = room(t, 4);
  if (c < 0x80) { p[0] = (uint8_t)c; t->n += 1; }
  else if (c < 0x800) { p[0] = (uint8_t)(0xc0 | c >> 6); p[1] = (uint8_t)(0x80 | (c & 63)); t->n += 2;
  } else if (c < 0x10000) {
    p[0] = (uint8_t)(0xe0 | c >> 12);
    p[1] = (uint8_t)(0x80 | (c >> 6 & 63));
    p[2] = (uint8_t)(0x80 | (c & 63));
    t->n += 3;
  } else {
    p[0] = (uint8_t)(0xf0 | (c >> 18 & 7));
    p[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    p[2] = (uint8_t)(0x80 | (c >> 6 & 63));
    p[3] = (uint8_t)(0x80 | (c & 63));
    t->n += 4;
  }
}

/* After a backslash. */
static bool escape(text *t) {
  static const char from[] = "abfnrtv\\'\"?", to[] = "\a\b\f\n\r\t\v\\'\"?";
  if (t->at == t->end) return fail(t, "a string is not closed");
  int c = (unsigned char)*t->at++;
  uint32_t v = 0;
  if (c >= '0' && c <= '7') {
    v = (uint32_t)(c - '0');
    for (int32_t i = 0; i < 2 && t->at < t->end && *t->at >= '0' && *t->at <= '7'; i++)
      v = v * 8 + (uint32_t)(*t->at++ - '0');
    *room(t, 1) = (uint8_t)v;
    t->n++;
    return true;
  }
  if (c == 'x' || c == 'X' || c == 'u' || c == 'U') {
    int32_t most = c == 'u' ? 4 : c == 'U' ? 8 : 2, n = 0;
    for (; n < most && t->at < t->end && hex((unsigned char)*t->at) >= 0; n++)
      v = v * 16 + (uint32_t)hex((unsigned char)*t->at++);
    if (!n || (most > 2 && n < most)) return fail(t, "an escape in a string has too few digits");
    if (most > 2) put_utf8(t, v);
    else { *room(t, 1) = (uint8_t)v; t->n++; }
    return true;
  }
  const char *found = memchr(from, c, sizeof from - 1);
  if (!found) return fail(t, "a string has an escape that there is not");
  *room(t, 1) = (uint8_t)to[found - from];
  t->n++;
  return true;
}

/* One or more adjacent strings, appended to the output. */
static bool strings(text *t) {
  int quote = peek(t);
  if (t->at == t->end || (quote != '"' && quote != '\'')) return fail(t, "a string is expected");
  while (t->at < t->end && (quote == '"' || quote == '\'')) {
    for (t->at++; ; ) {
      if (t->at == t->end || *t->at == '\n') return fail(t, "a string is not closed");
      char c = *t->at++;
      if (c == quote) break;
      if (c == '\\') { if (!escape(t)) return false; continue; }
      *room(t, 1) = (uint8_t)c;
      t->n++;
    }
    quote = peek(t);
  }
  return true;
}

/* ---- values ------------------------------------------------------------------------------------------- */

static bool message(text *t, const ProtobufCMessageDescriptor *type, int close);

static bool whole(text *t, const char *s, bool is_signed, uint64_t *v) {
  char *end;
  errno = 0;
  bool negative = *s == '-';
  *v = negative ? (uint64_t)strtoll(s, &end, 0) : strtoull(s, &end, 0);
  if (*end || errno || (negative && !is_signed)) return fail(t, "a whole number that fits is expected");
  return true;
}

static bool number(text *t, const char *s, double *v) {
  char *end;
  *v = strtod(s, &end);                          /* takes inf and nan, too */
  if (end != s && (*end == 'f' || *end == 'F')) end++;
  return (end != s && !*end) || fail(t, "a number is expected");
}

static bool scalar(text *t, const ProtobufCFieldDescriptor *f) {
  char s[80];
  uint64_t u = 0;
  double d = 0;
  if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES) {
    put_tag(t, f, 2);
    size_t begin = begin_block(t);
    if (!strings(t)) return false;
    end_block(t, begin);
    return true;
  }
  if (!word(t, s, sizeof s)) return false;
  switch (f->type) {
  case PROTOBUF_C_TYPE_FLOAT: case PROTOBUF_C_TYPE_DOUBLE: {
    if (!number(t, s, &d)) return false;
    float single = (float)d;
    if (f->type == PROTOBUF_C_TYPE_FLOAT) { put_tag(t, f, 5); put_fixed(t, &single, 4); }
    else { put_tag(t, f, 1); put_fixed(t, &d, 8); }
    return true;
  }
  case PROTOBUF_C_TYPE_BOOL:
    if (!strcmp(s, "true") || !strcmp(s, "t") || !strcmp(s, "1")) u = 1;
    else if (strcmp(s, "false") && strcmp(s, "f") && strcmp(s, "0")) return fail(t, "true or false is expected");
    break;
  case PROTOBUF_C_TYPE_ENUM: {
    const ProtobufCEnumDescriptor *e = f->descriptor;
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value_by_name(e, s);
    if (v) u = (uint64_t)(int64_t)v->value;
    else if (isalpha((unsigned char)*s)) return fail(t, "no such value of an enum");
    else if (!whole(t, s, true, &u)) return false;
    break;
  }
  default:
    if (!whole(t, s, f->type == PROTOBUF_C_TYPE_INT32 || f->type == PROTOBUF_C_TYPE_INT64, &u)) return false;
  }
  put_tag(t, f, 0);
  put_varint(t, u);
  return true;
}

static bool block(text *t, const ProtobufCFieldDescriptor *f) {
  const ProtobufCMessageDescriptor *type =
      f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : &pb__name_attr_list__descriptor;
  int close = take(t, '{') ? '}' : take(t, '<') ? '>' : 0;
  if (!close) return fail(t, "`{` is expected");
  if (++t->depth > DEEPEST) return fail(t, "blocks are nested too deeply");
  put_tag(t, f, 2);
  size_t begin = begin_block(t);
  if (!message(t, type, close)) return false;
  end_block(t, begin);
  t->depth--;
  return true;
}

/* A function's name and attributes are a message in the text and bytes in the descriptors: see graphdef.proto. */
static bool value(text *t, const ProtobufCFieldDescriptor *f) {
  int c = peek(t);
  bool is_block = f->type == PROTOBUF_C_TYPE_MESSAGE || (f->type == PROTOBUF_C_TYPE_BYTES && (c == '{' || c == '<'));
  return is_block ? block(t, f) : scalar(t, f);
}

/* What follows the name of an unknown field. */
static bool skip(text *t) {
  int32_t depth = 0;
  bool colon = take(t, ':');
  do {
    int c = peek(t);
    size_t before = t->n;
    char s[2000];
    if (t->at == t->end) return fail(t, "the value of a field is expected");
    if (c == '{' || c == '<' || c == '[') { depth++; t->at++; }
    else if (c == '}' || c == '>' || c == ']') { if (--depth < 0) return fail(t, "a value is expected"); t->at++; }
    else if (c == '"' || c == '\'') { if (!strings(t)) return false; t->n = before; }
    else if (c == ':' || c == ',' || c == ';') { if (!depth) return fail(t, "a value is expected"); t->at++; }
    else if (!colon && !depth) return fail(t, "`:` or `{` is expected");
    else if (c == '/' && depth) t->at++;
    else if (!word(t, s, sizeof s)) return false;
  } while (depth);
  return true;
}

static bool message(text *t, const ProtobufCMessageDescriptor *type, int close) {
  char name[200];
  for (;;) {
    int c = peek(t);
    if (t->at == t->end) return !close || fail(t, close == '}' ? "`}` is expected" : "`>` is expected");
    if (c == close) { t->at++; return true; }
    if (c == '[') {                                     /* an extension or an Any: unknown */
      while (t->at < t->end && *t->at != ']') t->at++;
      if (t->at++ >= t->end) { t->at = t->end; return fail(t, "`]` is expected"); }
      if (!skip(t)) return false;
      continue;
    }
    if (!word(t, name, sizeof name)) return false;
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(type, name);
    if (!f) {
      if (!skip(t)) return false;
    } else {
      bool colon = take(t, ':');
      c = peek(t);
      if (!colon && c != '{' && c != '<') return fail(t, "`:` is expected");
      if (c == '[' && f->label == PROTOBUF_C_LABEL_REPEATED) {
        t->at++;
        for (bool more = !take(t, ']'); more;
             more = take(t, ',') || (!take(t, ']') && fail(t, "`,` or `]` is expected")))
          if (t->err->code || !value(t, f)) return false;
        if (t->err->code) return false;
      } else if (!value(t, f)) {
        return false;
      }
    }
    if (!take(t, ',')) take(t, ';');
  }
}

/* ---- all of it ------------------------------------------------------------------------------------------ */

bool dfi_graphdef_is_text(const char *bytes, int64_t n) {
  for (int64_t i = 0; i < n && i < 1024; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c < ' ' && c != '\n' && c != '\r' && c != '\t') return false;
  }
  text t = { .at = bytes, .end = bytes + n, .start = bytes };
  int c = peek(&t);
  if (t.at == t.end) return true;                       /* nothing but blanks and comments */
  if (!isalpha(c)) return false;
  while (t.at < t.end && is_word((unsigned char)*t.at)) t.at++;
  c = peek(&t);
  return t.at < t.end && (c == ':' || c == '{' || c == '<');
}

char *dfi_graphdef_from_text(const char *bytes, int64_t n, const ProtobufCMessageDescriptor **type, int64_t *size,
                             df_error *err) {
  static const ProtobufCMessageDescriptor *const types[] = { &pb__graph_def__descriptor,
                                                             &pb__meta_graph_def__descriptor,
                                                             &pb__saved_model__descriptor };
  df_error own;
  text t = { .at = bytes, .end = bytes + n, .start = bytes, .err = err ? err : &own };
  t.err->code = DF_OK;
  char name[200];
  *type = types[0];
  if (peek(&t) && t.at < t.end && word(&t, name, sizeof name)) {
    bool known = false;
    for (int32_t i = 2; i >= 0; i--)
      if (protobuf_c_message_descriptor_get_field_by_name(types[i], name)) { *type = types[i]; known = true; }
    if (!known) {
      t.at -= strlen(name);
      fail(&t, "a field of a GraphDef is expected, such as `node`");
      return NULL;
    }
  }
  t.at = bytes;
  t.err->code = DF_OK;
  room(&t, 1);
  if (!message(&t, *type, 0)) {
    dfi_free(t.out);
    return NULL;
  }
  *size = (int64_t)t.n;
  return (char *)t.out;
}
