/* stress.c: see stress.h. */
#include "base/stress.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool dfi_stress(const char *kind, uint64_t *seed) {
  const char *words = getenv("DFLOW_STRESS");
  const size_t n = strlen(kind);
  for (const char *at = words; at && (at = strstr(at, kind)); at += n) {
    if ((at != words && isalnum((unsigned char)at[-1])) || isalnum((unsigned char)at[n])) continue;
    if (seed) *seed = at[n] == ':' ? strtoull(at + n + 1, NULL, 10) : 0;
    return true;
  }
  return false;
}
