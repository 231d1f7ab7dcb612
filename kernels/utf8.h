/* utf8.h: the characters of a text in UTF-8. */
#ifndef DFLOW_UTF8_H
#define DFLOW_UTF8_H
#include <stdbool.h>
#include <stdint.h>

enum { DFK_NO_CHARACTER = -1 };

/* The character that the first of n > 0 bytes begin; DFK_NO_CHARACTER where they begin none: too long a form, half of a
 * pair of UTF-16, above U+10FFFF, or cut. Returns its bytes, one where it is none. */
static inline int64_t dfk_utf8(const char *s, int64_t n, int32_t *c) {
  static const int32_t least[] = { 0, 0x80, 0x800, 0x10000 };
  const uint8_t first = (uint8_t)s[0];
  const int32_t more = first < 0x80 ? 0 : first < 0xc0 || first >= 0xf8 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  int32_t v = more <= 0 ? first : first & (0x3f >> more);
  bool good = more >= 0 && n > more;
  for (int32_t i = 1; good && i <= more; i++) {
    good = ((uint8_t)s[i] & 0xc0) == 0x80;
    v = v << 6 | ((uint8_t)s[i] & 0x3f);
  }
  good = good && v >= least[more] && v <= 0x10ffff && (v < 0xd800 || v > 0xdfff);
  *c = good ? v : DFK_NO_CHARACTER;
  return good ? more + 1 : 1;
}

/* Writes character c, four bytes at most; returns how many. */
static inline int32_t dfk_utf8_put(char *s, int32_t c) {
  if (c < 0x80) { s[0] = (char)c; return 1; }
  const int32_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  s[0] = (char)(0xff << (7 - more) | c >> (6 * more));
  for (int32_t i = 1; i <= more; i++) s[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3f));
  return more + 1;
}
#endif
