/* text.c: see text.h. */
#include "base/text.h"
#include "base/internal.h"
#include <stdarg.h>
#include <stdio.h>

void dfi_text_add(dfi_text *t, const char *format, ...) {
  for (;;) {
    va_list more;
    va_start(more, format);
    const size_t left = t->room - t->n;
    const size_t n = (size_t)vsnprintf(t->at ? t->at + t->n : NULL, left, format, more);
    va_end(more);
    if (n < left) { t->n += n; return; }
    t->room = 2 * t->room + n + 256;
    t->at = dfi_xrealloc(t->at, t->room);
  }
}
