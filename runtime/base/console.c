/* console.c: standard error, as df.print writes to it and a line about a run in progress stands on it.
 *
 * The line stands in the row below the cursor, so that what a program has begun to write stays as it is; it
 * stands below whole lines that are written through dfi_print, too.
 */
#include "base/internal.h"
#include <stdio.h>

/* To the row below: there is one, if need be because the screen scrolls. What is behind the cursor goes. */
#define ROW_BELOW "\033[K\033D\033M\0337\033[B\r"

static char line[512];              /* what stands there, "" for nothing; guarded by stderr's lock */

/* Under the lock. */
static void wipe(void) {
  if (line[0]) fputs(ROW_BELOW "\033[K\0338", stderr);
}
static void show(void) {
  if (line[0]) fprintf(stderr, ROW_BELOW "%s\033[K\0338", line);
}

/* What a terminal would take for a command, as question marks: the names of a graph that was read may hold anything. */
static void tame(char *text) {
  for (unsigned char *c = (unsigned char *)text; *c; c++)
    if (*c < 32 || *c == 127) *c = '?';
    else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) c[0] = c[1] = '?';
}

void df_status_line(const char *text) {
  flockfile(stderr);                       /* which is open in a child, though another thread held it */
  if (!text || !text[0]) wipe();
  snprintf(line, sizeof line, "%s", text ? text : "");
  tame(line);
  show();
  fflush(stderr);
  funlockfile(stderr);
}

void dfi_print(const char *bytes, int64_t length) {
  flockfile(stderr);                       /* which is open in a child, though another thread held it */
  wipe();
  fwrite(bytes, 1, (size_t)length, stderr);
  if (!length || bytes[length - 1] != '\n') fputc('\n', stderr);
  show();
  fflush(stderr);
  funlockfile(stderr);
}
