/* string_match.c: strings that match a pattern, and what stands in place of the parts that do. Patterns: regex.h. */
#include "../regex.h"
#include "../string.h"
#include "element.h"
#include <stdlib.h>
#include <string.h>

/* Input i, which is one string. NULL: the error is filled. */
static const df_str *one_string(df_kernel *k, int32_t i, const char *name) {
  if (k->in[i]->size == 1) return k->in[i]->data;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s is one string, %lld were found", name, (long long)k->in[i]->size);
  return NULL;
}

static int32_t match_all(df_kernel *k, const char *pattern, int64_t n) {
  dfk_regex *r = dfk_regex_new(k, pattern, n);
  df_tensor *out = r ? dfk_out(k, 0, DF_BOOL, k->in[0]->rank, k->in[0]->dims) : NULL;
  int32_t is = out ? 0 : -1;
  for (int64_t i = 0; is >= 0 && i < k->in[0]->size; i++) {
    const df_str *s = (const df_str *)k->in[0]->data + i;
    dfk_match m;
    is = dfk_regex_find(k, r, s->bytes, s->length, 0, true, &m);
    ((bool *)out->data)[i] = is > 0;
  }
  dfk_regex_free(r);
  return is < 0 ? k->error->code : DF_OK;
}

int32_t ref_regex_full_match(df_kernel *k) {
  const df_str *pattern = one_string(k, 1, "pattern");
  return pattern ? match_all(k, pattern->bytes, pattern->length) : k->error->code;
}
int32_t ref_static_regex_full_match(df_kernel *k) { return match_all(k, dfk_string(k, 0), dfk_int(k, 0)); }

/* ---- replacement -------------------------------------------------------------------------------------------- */

typedef struct text { char *bytes; int64_t n, room; } text;

static bool append(df_kernel *k, text *t, const char *bytes, int64_t n) {
  if (t->n + n > t->room) {
    const int64_t room = 2 * t->room + n + 64;
    char *wider = realloc(t->bytes, (size_t)room);
    if (!wider) return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a string of %lld bytes",
                                (long long)room), false;
    t->bytes = wider;
    t->room = room;
  }
  if (n > 0) memcpy(t->bytes + t->n, bytes, (size_t)n);
  t->n += n;
  return true;
}

/* Is the text that replaces a match one: behind a backslash a backslash, or the number of a group? */
static bool check_rewrite(df_kernel *k, const dfk_regex *r, const char *s, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (s[i] != '\\') continue;
    const char c = ++i < n ? s[i] : 0;
    if (c == '\\' || (c >= '0' && c <= '9' && c - '0' <= dfk_regex_groups(r))) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "the rewrite '%.*s': a backslash is followed by a backslash, or the number "
                                     "of one of the pattern's "
             "%d groups", (int)(n > 100 ? 100 : n), s, dfk_regex_groups(r));
    return false;
  }
  return true;
}

static bool append_rewritten(df_kernel *k, text *t, const char *s, const dfk_match *m, const char *by, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (by[i] != '\\') { if (!append(k, t, by + i, 1)) return false; continue; }
    const int32_t g = by[++i] - '0';
    const bool good = by[i] == '\\' ? append(k, t, by + i, 1)
                      : m->from[g] < 0 || append(k, t, s + m->from[g], m->to[g] - m->from[g]);
    if (!good) return false;
  }
  return true;
}

/* s with its matches replaced, the first or all. An empty match right behind a match is none. False: the error is
 * filled. */
static bool replaced(df_kernel *k, dfk_regex *r, const df_str *s, const df_str *by, bool all, text *t) {
  int64_t at = 0, kept = 0, last = -1;              /* kept: what lies before it is in t */
  while (at <= s->length) {
    dfk_match m;
    const int32_t is = dfk_regex_find(k, r, s->bytes, s->length, at, false, &m);
    if (is < 0) return false;
    if (!is) break;
    if (m.to[0] > m.from[0] || m.from[0] != last) {
      if (!append(k, t, s->bytes + kept, m.from[0] - kept)) return false;
      if (!append_rewritten(k, t, s->bytes, &m, by->bytes, by->length)) return false;
      kept = last = m.to[0];
      if (!all) break;
    }
    at = m.to[0] + (m.to[0] == m.from[0]);
    while (at < s->length && ((unsigned char)s->bytes[at] & 0xc0) == 0x80 && m.to[0] == m.from[0]) at++;
  }
  return append(k, t, s->bytes + kept, s->length - kept);
}

static int32_t replace(df_kernel *k, const df_str *pattern, const df_str *by, bool all) {
  const df_tensor *x = k->in[0];
  dfk_regex *r = dfk_regex_new(k, pattern->bytes, pattern->length);
  bool good = r && check_rewrite(k, r, by->bytes, by->length);
  df_tensor *out = good ? dfk_out(k, 0, DF_STRING, x->rank, x->dims) : NULL;
  text t = { 0 };
  good = out != NULL;
  for (int64_t i = 0; good && i < x->size; i++) {
    t.n = 0;
    good = replaced(k, r, (const df_str *)x->data + i, by, all, &t) && dfk_set_string(k, out, i, t.n ? t.bytes : "",
        t.n);
  }
  free(t.bytes);
  dfk_regex_free(r);
  return good ? DF_OK : k->error->code;
}

int32_t ref_regex_replace(df_kernel *k) {
  const df_str *pattern = one_string(k, 1, "pattern"), *by = pattern ? one_string(k, 2, "rewrite") : NULL;
  return by ? replace(k, pattern, by, dfk_bool(k, 0)) : k->error->code;
}
static df_str text_attr(const df_kernel *k, int32_t a) {
  return (df_str){ (char *)(uintptr_t)dfk_string(k, a), dfk_int(k, a) };
}
int32_t ref_static_regex_replace(df_kernel *k) {
  const df_str pattern = text_attr(k, 0), by = text_attr(k, 1);
  return replace(k, &pattern, &by, dfk_bool(k, 2));
}
