/* fuzz.h: what the files of the C API's fuzzer share: chance, and the graph that a round is about. */
#ifndef DFLOW_FUZZ_H
#define DFLOW_FUZZ_H
#include "dflow.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 400, SPECIAL = 16 };

extern _Thread_local uint64_t fuzz_state;      /* each thread draws on its own */
extern int64_t fuzz_calls, fuzz_runs;          /* calls made, runs that succeeded */

static inline uint64_t draw(void) {
  fuzz_state ^= fuzz_state << 13;
  fuzz_state ^= fuzz_state >> 7;
  fuzz_state ^= fuzz_state << 17;
  return fuzz_state * 0x2545f4914f6cdd1dull >> 16;
}
static inline int32_t below(int32_t n) { return n > 0 ? (int32_t)(draw() % (uint64_t)n) : 0; }
static inline bool    once_in(int32_t n) { return below(n) == 0; }

static inline void promise(bool kept, const char *what) {
  if (kept) return;
  fprintf(stderr, "fuzz_api: %s\n", what);
  abort();
}

typedef struct fuzz_queue { int32_t node, ntypes; int64_t type[3]; bool stack; } fuzz_queue;
typedef struct fuzz_file { char *bytes; int64_t n; } fuzz_file;

typedef struct world {
  df_graph *graph;
  int32_t   n;                    /* outputs known so far */
  int32_t   out[POOL][2];
  int32_t   feeds, feed[16][2];
  int32_t   nqueues, nrefs, ref[SPECIAL][2];
  fuzz_queue queue[SPECIAL];
  df_error  err;
} world;

extern fuzz_file fuzz_given[64];                /* graphs of the command line */
extern int32_t   fuzz_ngiven;

/* fuzz_api.c */
int32_t some_dtype(void);
int64_t some_int(void);
int32_t some_shape(int64_t *dims);
df_tensor *some_tensor(world *w);
df_tensor *clean(df_tensor *t);                 /* zeros; NULL stays NULL */
void    know(world *w, int32_t node, int32_t index);
void    know_all(world *w, int32_t node);
void    some_output(world *w, int32_t *pair);
int32_t constant_of(world *w, df_tensor *t);    /* consumes t; the node, or -1 */

/* fuzz_graphs.c: parts of a graph with a purpose */
void make_queue(world *w);
void make_queue_call(world *w);
void make_reference(world *w);
void make_import(world *w);
void make_copy(world *w);

/* fuzz_runs.c: runs of what the world holds; *s may be closed meanwhile, and is then NULL */
void run_some(world *w, df_session **s);
#endif
