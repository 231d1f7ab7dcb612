/* letters.c: strings in upper and lower case: ASCII's letters, or Unicode's by libunistring, which is loaded when it is
 * first needed. Whole strings are mapped ("ß" becomes "SS"), and what is no UTF-8 becomes U+FFFD, as in TensorFlow. */
#include "../string.h"
#include "../move.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What unicase.h and unistr.h declare; `nf` NULL: not normalised. The result is malloced where resultbuf is NULL. */
typedef uint8_t *(*map_fn)(const uint8_t *s, size_t n, const char *language, void *nf, uint8_t *resultbuf,
                           size_t *length);
typedef int (*decode_fn)(uint32_t *c, const uint8_t *s, size_t n);
typedef struct unicode { map_fn lower, upper; decode_fn decode; } unicode;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unicode found;

static void load(void) {
  void *library = dlopen("libunistring.so.5", RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen("libunistring.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  found.lower = (map_fn)dlsym(library, "u8_tolower");
  found.upper = (map_fn)dlsym(library, "u8_toupper");
  found.decode = (decode_fn)dlsym(library, "u8_mbtouc");
}

/* The string with U+FFFD for each malformed part, NULL: no memory. Owned. */
static uint8_t *well_formed(const uint8_t *s, size_t n, size_t *length) {
  uint8_t *out = malloc(3 * n + 1);
  if (!out) return NULL;
  *length = 0;
  for (size_t at = 0; at < n; ) {
    uint32_t c;
    const size_t took = (size_t)found.decode(&c, s + at, n - at);
    const bool bad = c == 0xfffd && !(took == 3 && !memcmp(s + at, "\xef\xbf\xbd", 3));
    memcpy(out + *length, bad ? (const uint8_t *)"\xef\xbf\xbd" : s + at, bad ? 3 : took);
    *length += bad ? 3 : took;
    at += took;
  }
  return out;
}

static bool map_unicode(df_kernel *k, df_tensor *out, int64_t i, const df_str *s, bool upper) {
  size_t n = 0, length = 0;
  uint8_t *text = well_formed((const uint8_t *)s->bytes, (size_t)s->length, &n);
  uint8_t *mapped = text ? (upper ? found.upper : found.lower)(text, n, NULL, NULL, NULL, &length) : NULL;
  const bool there = mapped || (text && n == 0);
  if (!there) dfk_fail(k, DF_RESOURCE_EXHAUSTED, "no memory for a string of %zu bytes", n);
  const bool ok = there && dfk_set_string(k, out, i, mapped ? (const char *)mapped : "", mapped ? (int64_t)length : 0);
  free(mapped);
  free(text);
  return ok;
}

static bool map_ascii(df_kernel *k, df_tensor *out, int64_t i, const df_str *s, bool upper) {
  if (!dfk_set_string(k, out, i, s->bytes, s->length)) return false;
  char *c = ((df_str *)out->data)[i].bytes;
  for (int64_t j = 0; j < s->length; j++)
    if (upper ? c[j] >= 'a' && c[j] <= 'z' : c[j] >= 'A' && c[j] <= 'Z') c[j] = (char)(c[j] ^ 0x20);
  return true;
}

static int32_t letters(df_kernel *k, bool upper) {
  const df_tensor *x = k->in[0];
  const df_attr *encoding = &k->attrs[0];
  const bool wide = encoding->i == 5 && !memcmp(encoding->s, "utf-8", 5);
  if (encoding->i && !wide)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "only utf-8 or '' (no encoding) is supported, received %.*s",
                    (int)encoding->i, encoding->s);
  if (wide) pthread_once(&once, load);
  if (wide && !(found.lower && found.upper && found.decode))
    return dfk_fail(k, DF_UNIMPLEMENTED,
                    "the letters of Unicode need libunistring (.so.5 or .so.2), which is not installed");
  df_tensor *out = dfk_out(k, 0, DF_STRING, x->rank, x->dims);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) {
    const df_str *s = (const df_str *)x->data + i;
    if (!(wide ? map_unicode : map_ascii)(k, out, i, s, upper)) return k->error->code;
  }
  return DF_OK;
}
int32_t ref_string_lower(df_kernel *k) { return letters(k, false); }
int32_t ref_string_upper(df_kernel *k) { return letters(k, true); }
