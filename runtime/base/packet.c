/* packet.c: see packet.h. */
#include "base/packet.h"

void dfi_put(dfi_packet *p, const void *bytes, size_t n) {
  if (p->cap - p->n < n) {
    while (p->cap - p->n < n) p->cap = p->cap ? 2 * p->cap : 256;
    p->at = dfi_xrealloc(p->at, p->cap);
  }
  if (n) memcpy(p->at + p->n, bytes, n);
  p->n += n;
}
void dfi_put_i64(dfi_packet *p, int64_t v) { dfi_put(p, &v, sizeof v); }
void dfi_put_text(dfi_packet *p, const char *s) {
  const size_t n = s ? strlen(s) : 0;
  dfi_put_i64(p, (int64_t)n);
  dfi_put(p, s, n);
}

const void *dfi_get(dfi_cursor *c, size_t n) {
  if (c->bad || n > (size_t)(c->end - c->at)) { c->bad = true; return NULL; }
  const void *at = c->at;
  c->at += n;
  return at;
}
int64_t dfi_get_i64(dfi_cursor *c) {
  int64_t v = 0;
  const void *at = dfi_get(c, sizeof v);
  if (at) memcpy(&v, at, sizeof v);
  return v;
}
void dfi_get_text(dfi_cursor *c, char *to, size_t room) {
  const int64_t n = dfi_get_i64(c);
  const char *s = n >= 0 ? dfi_get(c, (size_t)n) : (c->bad = true, NULL);
  size_t m = s ? (size_t)n : 0;
  if (m > room - 1) m = room - 1;
  if (m) memcpy(to, s, m);
  to[m] = 0;
}
