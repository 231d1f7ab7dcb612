/* error.c: how things go wrong.
 *
 * Every function that can fail by a user's hand fills a df_error and returns its code; nothing here allocates,
 * nothing here ends the process. The first error stays: a second one is reported in a df_error of its own.
 */
#include "base/internal.h"
#include <stdarg.h>
#include <stdio.h>

const char *df_version(void) { return "0.1.0"; }

const char *df_code_name(int32_t code) {
  static const char *const names[] = {
    "ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
    "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range",
    "unimplemented", "internal", "unavailable", "data_loss",
  };
  return code >= 0 && code < (int32_t)(sizeof names / sizeof *names) ? names[code] : "unknown";
}

/* Is this what a terminal might obey? Lines and tabs are none of it; of UTF-8 the second byte is asked about, too. */
static bool obeyed(const unsigned char *c) {
  return (c[0] < 32 && c[0] != '\n' && c[0] != '\t') || c[0] == 127 || (c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0);
}

void dfi_show(char *to, size_t room, const char *from) {
  const unsigned char *c = (const unsigned char *)from;
  size_t n = 0;
  while (*c && n + 9 < room) {
    const int digits = !obeyed(c) ? 0 : *c == 0xC2 ? 2 : 1;
    if (!digits) to[n++] = (char)*c++;
    for (int i = 0; i < digits; i++) n += (size_t)sprintf(to + n, "\\%03d", *c++);
  }
  while (*c && n + 1 < room && !obeyed(c)) to[n++] = (char)*c++;
  to[n] = 0;
}

int32_t dfi_fail(df_error *err, int32_t code, const char *where, const char *format, ...) {
  dfi_short = false;                     /* an error is told; if memory ended besides, it was had all the same */
  if (err) {
    /* `where` and the arguments may point into err itself, so the text is made beside it first. */
    char text[sizeof err->message], source[sizeof err->source];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(source, sizeof source, "%s", where ? where : "");
    err->code = code;
    dfi_show(err->message, sizeof err->message, text);
    memcpy(err->source, source, strlen(source) + 1);
    err->op[0] = err->frame[0] = 0;
    err->rank = 0;
  }
  return code;
}
