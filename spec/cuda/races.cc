/* races.cc: see races.h. */
#include "races.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

strict_moments strict_moment;
unsigned strict_running;
char *strict_shared_at, *strict_shared_end, *strict_heap_at, *strict_heap_end;

enum { CELLS = 1 << 16, SEVERAL = 0xffff };
/* What was done last with a place, and by whom. Moments of other launches mean nothing. */
struct cell {
  const char *at;
  uint32_t written, read, first_read;                    /* when; first_read: in this launch */
  uint16_t writer, reader;                               /* threads; SEVERAL have read since the last barrier */
};
static cell cells[CELLS];
static struct { const char *at; const char *what; unsigned one, other; bool shared, blocks; } found;

/* The first is kept. */
static void __attribute__((noinline, cold)) race(const char *at, const char *what, unsigned other, bool shared,
                                                 bool blocks) {
  if (!found.what) found = { at, what, strict_running, other, shared, blocks };
}

void strict_races_begin() {
  strict_moment.launch = ++strict_moment.now;
  found.what = nullptr;
}

std::string strict_race() {
  if (!found.what) return "";
  char text[300], where[100];
  if (found.shared) snprintf(where, sizeof where, "byte %td of shared memory", found.at - strict_shared_at);
  else snprintf(where, sizeof where, "device memory at %p", (const void *)found.at);
  if (found.blocks)
    snprintf(text, sizeof text, "a race: %s of %s by threads of two blocks, which nothing orders", found.what, where);
  else if (found.other == SEVERAL)
    snprintf(text, sizeof text, "a race: %s of %s by thread %u and several others of the block, with no barrier between "
             "them", found.what, where, found.one);
  else
    snprintf(text, sizeof text, "a race: %s of %s by threads %u and %u of a block, with no barrier between them",
             found.what, where, found.other, found.one);
  return text;
}

/* Was `when` in another block of this launch, or in this one since the last barrier, by somebody else? */
static inline bool elsewhere(uint32_t when, bool shared) {
  return !shared && when >= strict_moment.launch && when < strict_moment.block;
}
static inline bool beside(uint32_t when, unsigned who) {
  return when == strict_moment.now && who != strict_running;
}

template <size_t BYTES> static inline void touch(const void *p, bool writes) {
  const char *at = (const char *)p;
  const bool shared = at >= strict_shared_at && at < strict_shared_end;
  if (!shared && (at < strict_heap_at || at >= strict_heap_end)) return;
  cell &c = cells[(uintptr_t)at / BYTES % CELLS];
  if (c.at != at) c = { at, 0, 0, 0, 0, 0 };
  if (elsewhere(c.written, shared)) race(at, writes ? "two writes" : "a write and a read", c.writer, shared, true);
  else if (beside(c.written, c.writer)) race(at, writes ? "two writes" : "a write and a read", c.writer, shared, false);
  if (writes) {
    if (elsewhere(c.first_read, shared)) race(at, "a read and a write", c.reader, shared, true);
    else if (beside(c.read, c.reader)) race(at, "a read and a write", c.reader, shared, false);
    c.written = strict_moment.now;
    c.writer = (uint16_t)strict_running;
    return;
  }
  c.reader = c.read == strict_moment.now && c.reader != strict_running ? (uint16_t)SEVERAL : (uint16_t)strict_running;
  c.read = strict_moment.now;
  if (c.first_read < strict_moment.launch) c.first_read = strict_moment.now;
}

/* ---- what the compiler calls ------------------------------------------------------------------------------------- */

#define SHOWN extern "C" __attribute__((visibility("protected")))
#define SIZE(n) \
  SHOWN void __tsan_read##n(void *p) { touch<n>(p, false); } \
  SHOWN void __tsan_write##n(void *p) { touch<n>(p, true); }
#define LARGE(n) \
  SIZE(n) \
  SHOWN void __tsan_unaligned_read##n(void *p) { touch<n>(p, false); } \
  SHOWN void __tsan_unaligned_write##n(void *p) { touch<n>(p, true); }
SIZE(1)
LARGE(2)
LARGE(4)
LARGE(8)
LARGE(16)
/* Of a struct: word by word. */
SHOWN void __tsan_read_range(void *p, size_t n) {
  for (size_t i = 0; i + 8 <= n; i += 8) touch<8>((char *)p + i, false);
}
SHOWN void __tsan_write_range(void *p, size_t n) {
  for (size_t i = 0; i + 8 <= n; i += 8) touch<8>((char *)p + i, true);
}
SHOWN void __tsan_init() {}
SHOWN void __tsan_func_entry(void *) {}
SHOWN void __tsan_func_exit() {}
