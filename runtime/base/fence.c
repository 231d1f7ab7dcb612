/* fence.c: DFLOW_STRESS=fence, in the debug build: each tensor's elements end where a page ends behind which nothing
 * may be touched, lie on pages that are gone once they are released, and are junk to begin with. So an element too many
 * that is read or written ends the process there, as does memory that is used after it was given back.
 */
#include "base/internal.h"
#include <sys/mman.h>
#include <unistd.h>

enum {
  JUNK = 0xa5,
  JUNK_BYTES = 1 << 20,              /* of what is larger, the beginning */
  WORD = 4,                          /* so what has elements of a byte or two may have three bytes behind them */
};

static int64_t page_bytes(void) { return sysconf(_SC_PAGESIZE); }
static int64_t words_of(int64_t bytes) { return (bytes + WORD - 1) / WORD * WORD; }
static int64_t pages_of(int64_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

void *dfi_fence_alloc(int64_t bytes) {
  if (bytes > INT64_MAX / 2) return NULL;
  const int64_t inside = pages_of(bytes), page = page_bytes();
  char *p = mmap(NULL, (size_t)(inside + page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  if (mprotect(p + inside, (size_t)page, PROT_NONE)) {
    munmap(p, (size_t)(inside + page));
    return NULL;
  }
  p += inside - words_of(bytes);
  memset(p, JUNK, (size_t)(bytes < JUNK_BYTES ? bytes : JUNK_BYTES));
  return p;
}

void dfi_fence_release(void *p, int64_t bytes) {
  const int64_t inside = pages_of(bytes);
  munmap((char *)p + words_of(bytes) - inside, (size_t)(inside + page_bytes()));
}
