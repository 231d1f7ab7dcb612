/* races.h: what a kernel touches. Two of its threads that touch one place of shared or of device memory, of which one
 * writes, with nothing between them that orders them: a barrier orders the threads of a block; nothing orders blocks.
 * And device memory that it was not given, or past the end of what it was.
 *
 * The compiler tells of each place that a kernel reads or writes: kernels are compiled with -fsanitize=thread, and
 * the functions that it calls then are those of races.cc. What is known of a place is forgotten when another takes its
 * cell, 65,536 places later or so: what is reported is a race, and not each race is reported.
 *
 * And memory that is read where nothing was written: of a block's shared memory each byte, of device memory the
 * allocation.
 */
#ifndef DFLOW_STRICT_RACES_H
#define DFLOW_STRICT_RACES_H
#include <stdint.h>
#include <string>
#include <vector>

/* Moments, counted over all launches: a launch, a block and the time between two barriers each begin one. */
struct strict_moments { uint32_t launch, block, now; };
extern strict_moments strict_moment;
extern unsigned strict_running;                          /* which thread of the block */
/* What is looked at: the shared memory of the kernel that runs, and all of the devices'. */
extern char *strict_shared_at, *strict_shared_end, *strict_heap_at, *strict_heap_end;

/* Device memory that the kernel was given, and whether it has read and written there. */
struct strict_span { char *at, *end; bool read, written; };
extern std::vector<strict_span> strict_spans;
void strict_trespass(const void *p);                     /* the kernel is left, as by a fault at p: driver.cc's */

void strict_races_begin();                               /* a launch */
static inline void strict_races_block() { strict_moment.block = ++strict_moment.now; }
static inline void strict_races_barrier() { strict_moment.now++; }
std::string strict_race();                               /* the first of this launch; empty: there was none */
#endif
