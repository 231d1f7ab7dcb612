/* error.c: how things go wrong.
 *
 * Every function that can fail by a user's hand fills a df_error and returns its code; nothing here allocates,
 * nothing here ends the process. The first error stays: whoever reports a second one has a df_error of its own.
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
    memcpy(err->message, text, strlen(text) + 1);
    memcpy(err->source, source, strlen(source) + 1);
    err->op[0] = err->frame[0] = 0;
  }
  return code;
}
