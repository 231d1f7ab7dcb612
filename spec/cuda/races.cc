/* races.cc: see races.h. */
#include "races.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

strict_moments strict_moment;
unsigned strict_running;
std::vector<strict_span> strict_spans;
char *strict_shared_at, *strict_shared_end, *strict_heap_at, *strict_heap_end;

enum { CELLS = 1 << 16, SEVERAL = 0xffff, PIECES = 1 << 13, PIECE = 16, SHARED_MOST = 1 << 18 };
/* What was done last with a place, and by whom. Moments of other launches mean nothing. */
struct cell {
  const char *at;
  uint32_t written, read, first_read;                    /* when; first_read: in this launch */
  uint16_t writer, reader;                               /* threads; SEVERAL have read since the last barrier */
  uint8_t bytes;
};
static cell cells[CELLS];
/* By which numbers of bytes the places of a piece were touched in this launch: one that is a part of another is in
 * another cell. */
static struct { const char *at; uint32_t launch, sizes; } pieces[PIECES];
static uint32_t filled[SHARED_MOST];                     /* by byte of shared memory: the block that wrote it */
static struct { const char *at; const char *what; unsigned one, other; bool shared, blocks, fresh; } found;

/* The first is kept, a race rather than a read of what nobody has written yet. */
static void __attribute__((noinline, cold)) race(const char *at, const char *what, unsigned other, bool shared,
                                                 bool blocks, bool fresh = false) {
  if (!found.what || (found.fresh && !fresh)) found = { at, what, strict_running, other, shared, blocks, fresh };
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
  if (found.fresh)
    snprintf(text, sizeof text, "thread %u reads %s, where no thread of its block has written", found.one, where);
  else if (found.blocks)
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

/* Is it a part of what the kernel was given? The one that was touched last is asked first. */
static size_t last_span;
static void __attribute__((noinline)) other_span(const char *at, const char *end) {
  for (last_span = 0; last_span < strict_spans.size(); last_span++)
    if (at >= strict_spans[last_span].at && end <= strict_spans[last_span].end) return;
  last_span = 0;
  strict_trespass(at);
}
static inline void given(const char *at, size_t bytes, bool writes) {
  if (last_span >= strict_spans.size() || at < strict_spans[last_span].at ||
      at + bytes > strict_spans[last_span].end) other_span(at, at + bytes);
  strict_span &span = strict_spans[last_span];
  if (writes) span.written = true; else span.read = true;
}

/* Does that clash with what is known of an overlapping place? */
static inline void compare(const cell &c, const char *at, bool writes, bool shared) {
  if (elsewhere(c.written, shared)) race(at, writes ? "two writes" : "a write and a read", c.writer, shared, true);
  else if (beside(c.written, c.writer)) race(at, writes ? "two writes" : "a write and a read", c.writer, shared, false);
  if (!writes) return;
  if (elsewhere(c.first_read, shared)) race(at, "a read and a write", c.reader, shared, true);
  else if (beside(c.read, c.reader)) race(at, "a read and a write", c.reader, shared, false);
}
/* Places of OTHER bytes that lie over these. */
template <size_t OTHER> static void across(const char *at, size_t bytes, bool writes, bool shared) {
  for (uintptr_t s = (uintptr_t)at / OTHER * OTHER; s < (uintptr_t)at + bytes; s += OTHER) {
    const cell &c = cells[s / OTHER % CELLS];
    if (c.at == (const char *)s && c.bytes == OTHER) compare(c, at, writes, shared);
  }
}
template <size_t BYTES> static inline void other_sizes(const char *at, bool writes, bool shared) {
  auto &piece = pieces[(uintptr_t)at / PIECE % PIECES];
  const char *const begin = (const char *)((uintptr_t)at / PIECE * PIECE);
  if (piece.at != begin || piece.launch != strict_moment.launch) piece = { begin, strict_moment.launch, 0 };
  piece.sizes |= BYTES;
  const uint32_t others = piece.sizes & ~(uint32_t)BYTES;
  if (others & 1) across<1>(at, BYTES, writes, shared);
  if (others & 2) across<2>(at, BYTES, writes, shared);
  if (others & 4) across<4>(at, BYTES, writes, shared);
  if (others & 8) across<8>(at, BYTES, writes, shared);
  if (others & 16) across<16>(at, BYTES, writes, shared);
}
/* Shared memory that a block reads is what the block wrote there. */
static inline void filled_or(const char *at, size_t bytes, bool writes) {
  const size_t from = (size_t)(at - strict_shared_at);
  for (size_t i = from; i < from + bytes && i < SHARED_MOST; i++)
    if (writes) filled[i] = strict_moment.block;
    else if (filled[i] != strict_moment.block) { race(at, "a read", 0, true, false, true); return; }
}

template <size_t BYTES> static inline void touch(const void *p, bool writes) {
  const char *at = (const char *)p;
  const bool shared = at >= strict_shared_at && at < strict_shared_end;
  if (!shared && (at < strict_heap_at || at >= strict_heap_end)) return;
  if (shared) filled_or(at, BYTES, writes); else given(at, BYTES, writes);
  cell &c = cells[(uintptr_t)at / BYTES % CELLS];
  if (c.at != at || c.bytes != BYTES) c = { at, 0, 0, 0, 0, 0, BYTES };
  compare(c, at, writes, shared);
  other_sizes<BYTES>(at, writes, shared);
  if (writes) {
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
/* Of a struct: word by word, and what is left of the last. */
static void touch_range(const char *p, size_t n, bool writes) {
  for (; n >= 8; p += 8, n -= 8) touch<8>(p, writes);
  for (; n; p++, n--) touch<1>(p, writes);
}
SHOWN void __tsan_read_range(void *p, size_t n) { touch_range((const char *)p, n, false); }
SHOWN void __tsan_write_range(void *p, size_t n) { touch_range((const char *)p, n, true); }
SHOWN void __tsan_init() {}
SHOWN void __tsan_func_entry(void *) {}
SHOWN void __tsan_func_exit() {}
