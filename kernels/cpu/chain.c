/* chain.c: see chain.h. */
#include "../chain.h"
#include "../elementwise.h"
#include <string.h>

/* ---- which kernels ------------------------------------------------------------------------------------------- */

static const df_kernel_fn fit[] = {
#define X(name) cpu_##name,
#define ROW(name, ...) X(name)
  DFK_UNARY(X) DFK_BINARY(X) DFK_FORMULAS1(ROW) DFK_FORMULAS2(ROW) X(select_v2) X(clip_by_value) X(leaky_relu)
  X(leaky_relu_grad)
#undef ROW
#undef X
};

/* Dtypes that have loops of their own; halves pass through blocks already. */
static bool is_native(int32_t dtype) {
  return dtype == DF_FLOAT32 || dtype == DF_FLOAT64 || dtype == DF_INT32 || dtype == DF_INT64 || dtype == DF_BOOL;
}

bool dfk_chain_has(df_kernel_fn kernel) {
  for (size_t i = 0; i < sizeof fit / sizeof *fit; i++) if (fit[i] == kernel) return true;
  return false;
}

dfk_loop dfk_chain_loop(df_kernel_fn kernel, df_kernel *k) {
  dfk_loop loop = { 0 };
  bool fits = is_native(k->out_dtype[0]);
  for (int32_t i = 0; i < k->nin; i++) fits = fits && is_native(k->in[i]->dtype);
  if (!fits) return loop;
  k->asked = &loop;
  if (kernel(k)) loop.fn = NULL;            /* it looks at values first: an integer division, a power */
  k->asked = NULL;
  return loop;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

enum { BLOCK = 1024, FEW_BUFFERS = 8, CROWDED = 512, SHORT = 256, ROOM = DFK_CHAIN_STEPS * CROWDED * 8 };
_Static_assert(FEW_BUFFERS * BLOCK * 8 <= ROOM, "blocks of either length fit");

#define SPREAD(bits) \
  static void spread##bits(uint##bits##_t *to, const uint##bits##_t *from, int64_t at, int64_t period, int64_t n) { \
    int64_t i = at / period, left = period - at % period; \
    while (n > 0) { \
      const int64_t m = left < n ? left : n; \
      for (int64_t j = 0; j < m; j++) to[j] = from[i]; \
      to += m; \
      n -= m; \
      i++; \
      left = period; \
    } \
  }
SPREAD(8)
SPREAD(32)
SPREAD(64)

/* Each element `period` times, from element `at` of the whole on. */
static void spread(void *to, const void *from, int64_t bytes, int64_t at, int64_t period, int64_t n) {
  if (bytes == 1) spread8(to, from, at, period, n);
  else if (bytes == 4) spread32(to, from, at, period, n);
  else spread64(to, from, at, period, n);
}

/* A short row over and over, so that a block that begins anywhere in it finds its elements in one piece. */
static void tile(char *to, const char *from, int64_t row, int64_t bytes) {
  int64_t n = row < bytes ? row : bytes;
  memcpy(to, from, (size_t)n);
  while (n < bytes) {
    const int64_t more = n < bytes - n ? n : bytes - n;      /* what is there is whole rows */
    memcpy(to + n, to, (size_t)more);
    n += more;
  }
}

typedef struct block {
  const dfk_chain_run *run;
  const char *in[DFK_CHAIN_INPUTS];            /* of this block */
  uint8_t     fixed[DFK_CHAIN_INPUTS];
  char       *result[DFK_CHAIN_STEPS];
  char       *room;                            /* of buffers, each `length` elements of eight bytes */
  int64_t     length;
} block;

static void run_steps(block *b, int64_t at, int64_t n) {
  const dfk_chain *c = b->run->chain;
  for (int32_t s = 0; s < c->nsteps; s++) {
    const dfk_step *step = &c->step[s];
    const void *in[3] = { 0 };
    uint32_t fixed = 0;
    for (int32_t i = 0; i < step->nin; i++) {
      const int32_t from = step->in[i];
      in[i] = from >= 0 ? b->result[from] : b->in[-1 - from];
      if (from < 0) fixed |= (uint32_t)b->fixed[-1 - from] << i;
    }
    b->result[s] = b->run->out[s] ? b->run->out[s] + at * step->bytes : b->room + step->buffer * b->length * 8;
    step->fn(b->result[s], in, n == 1 ? 0 : fixed, n, step->param);
  }
}

/* Where the inputs of a block lie. `extra`: for tiles and spread columns, a place for each input. */
static void find_inputs(block *b, char *extra, int64_t place, int64_t at, int64_t n) {
  const dfk_chain *c = b->run->chain;
  for (int32_t i = 0; i < c->ninputs; i++) {
    const int64_t bytes = c->input_bytes[i], period = b->run->input[i].period;
    const char *data = b->run->input[i].data;
    switch (b->run->input[i].how) {
      case DFK_ALL: b->in[i] = data + at * bytes; break;
      case DFK_NUMBER: break;
      case DFK_ROWS: b->in[i] = (period < SHORT ? extra + i * place : data) + at % period * bytes; break;
      case DFK_COLUMN:
        b->fixed[i] = at / period == (at + n - 1) / period;
        b->in[i] = data + at / period * bytes;
        if (b->fixed[i]) break;
        spread(extra + i * place, data, bytes, at, period, n);
        b->in[i] = extra + i * place;
    }
  }
}

/* Rows and columns that are not short end blocks: the shortest of them does, since the others are multiples of it. */
static int64_t unit_of(const dfk_chain_run *r) {
  int64_t unit = 0;
  for (int32_t i = 0; i < r->chain->ninputs; i++) {
    const dfk_meets how = r->input[i].how;
    if ((how != DFK_ROWS && how != DFK_COLUMN) || r->input[i].period < SHORT) continue;
    if (!unit || r->input[i].period < unit) unit = r->input[i].period;
  }
  return unit;
}

void dfk_chain_range(void *arg, int64_t begin, int64_t end) {
  const dfk_chain_run *r = arg;
  const dfk_chain *c = r->chain;
  char room[ROOM] __attribute__((aligned(64)));
  char extra_room[4 * (BLOCK + SHORT) * 8] __attribute__((aligned(64))), *extra = extra_room;
  block b = { .run = r, .room = room, .length = c->nbuffers <= FEW_BUFFERS ? BLOCK : CROWDED };
  const int64_t unit = unit_of(r), place = (BLOCK + SHORT) * 8;
  bool any = false;
  for (int32_t i = 0; i < c->ninputs; i++) {
    b.fixed[i] = r->input[i].how == DFK_NUMBER;
    b.in[i] = r->input[i].data;
    any |= r->input[i].how == DFK_ROWS || r->input[i].how == DFK_COLUMN;
  }
  char many[any && c->ninputs > 4 ? c->ninputs * place : 1];
  if (c->ninputs > 4) extra = many;
  for (int32_t i = 0; i < c->ninputs; i++)
    if (r->input[i].how == DFK_ROWS && r->input[i].period < SHORT)
      tile(extra + i * place, r->input[i].data, r->input[i].period * c->input_bytes[i],
           (BLOCK + SHORT) * c->input_bytes[i]);
  while (begin < end) {
    int64_t n = end - begin < b.length ? end - begin : b.length;
    if (unit && n > unit - begin % unit) n = unit - begin % unit;
    find_inputs(&b, extra, place, begin, n);
    run_steps(&b, begin, n);
    begin += n;
  }
}

bool dfk_chain_meets(int32_t rank, const int64_t *dims, int32_t whole_rank, const int64_t *whole, dfk_meets *how,
                     int64_t *period) {
  int64_t size = 1, suffix = 1;
  for (int32_t d = 0; d < rank; d++) size *= dims[d];
  *how = DFK_NUMBER;
  *period = 0;
  if (rank > whole_rank) return false;
  if (size == 1) return true;
  const int32_t shift = whole_rank - rank;
  int32_t d = rank;
  while (d > 0 && dims[d - 1] == whole[d - 1 + shift]) suffix *= dims[--d];
  if (d == 0 && suffix == size) {
    int64_t all = 1;
    for (int32_t i = 0; i < whole_rank; i++) all *= whole[i];
    *how = size == all ? DFK_ALL : DFK_ROWS;
    *period = size;
    return true;
  }
  if (suffix == size) {                                          /* what is before it is 1 */
    *how = DFK_ROWS;
    *period = size;
    return true;
  }
  int64_t inner = 1, outer = 1;
  for (d = rank; d > 0 && dims[d - 1] == 1; d--) inner *= whole[d - 1 + shift];
  for (int32_t i = 0; i < d; i++) if (dims[i] != whole[i + shift]) return false;
  for (int32_t i = 0; i < d + shift; i++) outer *= whole[i];
  *how = DFK_COLUMN;
  *period = inner;
  return outer == size;
}
