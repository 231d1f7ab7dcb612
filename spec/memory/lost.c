/*
 * lost.c: preloaded beside the leak sanitizer (lost.sh), which then looks at this program alone and not at those that
 * it starts: shells, terminals and browsers lose memory of their own.
 */
#include <stdlib.h>

__attribute__((constructor)) static void alone(void) {
  unsetenv("LD_PRELOAD");
  unsetenv("LSAN_OPTIONS");
}
