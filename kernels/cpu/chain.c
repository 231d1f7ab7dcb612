/* chain.c: see chain.h. */
#include "../array.h"
#include "../elementwise.h"
#include "rows.h"
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

bool dfk_chain_plain(int32_t dtype) {
  return dtype == DF_FLOAT32 || dtype == DF_FLOAT64 || dtype == DF_INT32 || dtype == DF_INT64 || dtype == DF_BOOL;
}

bool dfk_chain_has(df_kernel_fn kernel) {
  for (size_t i = 0; i < sizeof fit / sizeof *fit; i++) if (fit[i] == kernel) return true;
  return false;
}

dfk_loop dfk_chain_loop(df_kernel_fn kernel, df_kernel *k) {
  dfk_loop loop = { 0 };
  bool fits = dfk_chain_plain(k->out_dtype[0]);
  for (int32_t i = 0; i < k->nin; i++) fits = fits && dfk_chain_plain(k->in[i]->dtype);
  if (!fits) return loop;
  k->asked = &loop;
  if (kernel(k)) loop.fn = NULL;            /* it looks at values first: an integer division, a power */
  k->asked = NULL;
  return loop;
}

dfk_rows dfk_chain_rows(df_kernel_fn kernel, int32_t dtype) {
  dfk_rows rows = { 0 };
  if (!dfk_chain_plain(dtype)) return rows;
  rows = (dfk_rows){ dfk_fold_rows(kernel, dtype), true };
  if (!rows.fn) rows = (dfk_rows){ dfk_softmax_rows(kernel, dtype), false };
  return rows;
}

bool dfk_chain_spreads(df_kernel_fn kernel) { return kernel == cpu_broadcast_to; }

/* ---- running ------------------------------------------------------------------------------------------------- */

enum { BLOCK = 1024, FEW_BUFFERS = 8, CROWDED = 512, SHORT = 256 };
_Static_assert(FEW_BUFFERS * BLOCK * 8 <= DFK_CHAIN_ROOM && DFK_CHAIN_STEPS * CROWDED * 8 <= DFK_CHAIN_ROOM,
               "blocks of either length fit");

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
  } \
  static void copy##bits(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    uint##bits##_t *to = out; \
    const uint##bits##_t *from = in[0]; \
    for (int64_t i = 0; i < n; i++) to[i] = from[i]; \
  }
SPREAD(8)
SPREAD(32)
SPREAD(64)

dfk_loop_fn dfk_chain_copy(int64_t bytes) { return bytes == 1 ? copy8 : bytes == 4 ? copy32 : copy64; }

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
  char       *room, *extra;                    /* of buffers; for tiles and spread columns, a place for each input */
  int64_t     length, stride, place;           /* elements of a block; bytes from buffer to buffer, place to place */
  char       *wide;                            /* of a chain of rows: for an operand that is spread */
  bool        tiled[DFK_CHAIN_INPUTS];
} block;

static void place_result(block *b, int32_t s, int64_t at) {
  const dfk_step *step = &b->run->chain->step[s];
  b->result[s] = b->run->out[s] ? b->run->out[s] + at * step->bytes : b->room + step->buffer * b->stride;
}

void dfk_chain_steps(const dfk_chain *c, const char *const *in, const uint8_t *fixed, char *const *result, int64_t n) {
  for (int32_t s = 0; s < c->nsteps; s++) {
    const dfk_step *step = &c->step[s];
    const void *operand[3] = { 0 };
    uint32_t single = 0;
    for (int32_t i = 0; i < step->nin; i++) {
      const int32_t from = step->in[i];
      operand[i] = from >= 0 ? result[from] : in[-1 - from];
      if (from < 0) single |= (uint32_t)fixed[-1 - from] << i;
    }
    step->fn(result[s], operand, n == 1 ? 0 : single, n, step->param);
  }
}

static void run_steps(block *b, int64_t at, int64_t n) {
  for (int32_t s = 0; s < b->run->chain->nsteps; s++) place_result(b, s, at);
  dfk_chain_steps(b->run->chain, b->in, b->fixed, b->result, n);
}

/* Where the inputs of a block lie. */
static void find_inputs(block *b, int64_t at, int64_t n) {
  const dfk_chain *c = b->run->chain;
  for (int32_t i = 0; i < c->ninputs; i++) {
    const int64_t bytes = c->input_bytes[i], period = b->run->input[i].period;
    const char *data = b->run->input[i].data;
    char *extra = b->extra + i * b->place;
    switch (b->run->input[i].how) {
      case DFK_ALL: b->in[i] = data + at * bytes; break;
      case DFK_NUMBER: break;
      case DFK_ROWS: b->in[i] = (b->tiled[i] ? extra : data) + at % period * bytes; break;
      case DFK_COLUMN:
        b->fixed[i] = at / period == (at + n - 1) / period;
        b->in[i] = data + at / period * bytes;
        if (b->fixed[i]) break;
        spread(extra, data, bytes, at, period, n);
        b->in[i] = extra;
    }
  }
}

/* Rows and columns that are not short end blocks: the shortest of them does, since the others are multiples of it. */
static int64_t unit_of(const dfk_chain_run *r, int64_t shortest) {
  int64_t unit = 0;
  for (int32_t i = 0; i < r->chain->ninputs; i++) {
    const dfk_meets how = r->input[i].how;
    if ((how != DFK_ROWS && how != DFK_COLUMN) || r->input[i].period < shortest) continue;
    if (!unit || r->input[i].period < unit) unit = r->input[i].period;
  }
  return unit;
}

/* Rows that are shorter than `shortest` are tiled; places hold `place` bytes. */
static void begin_inputs(block *b, int64_t shortest) {
  const dfk_chain_run *r = b->run;
  for (int32_t i = 0; i < r->chain->ninputs; i++) {
    b->fixed[i] = r->input[i].how == DFK_NUMBER;
    b->in[i] = r->input[i].data;
    b->tiled[i] = r->input[i].how == DFK_ROWS && r->input[i].period < shortest;
    if (b->tiled[i])
      tile(b->extra + i * b->place, r->input[i].data, r->input[i].period * r->chain->input_bytes[i],
           b->place / 8 * r->chain->input_bytes[i]);
  }
}

static bool any_laid_out(const dfk_chain_run *r) {
  bool any = false;
  for (int32_t i = 0; i < r->chain->ninputs; i++)
    any |= r->input[i].how == DFK_ROWS || r->input[i].how == DFK_COLUMN;
  return any;
}

void dfk_chain_range(void *arg, int64_t begin, int64_t end) {
  const dfk_chain_run *r = arg;
  const dfk_chain *c = r->chain;
  char room[DFK_CHAIN_ROOM] __attribute__((aligned(64)));
  char extra[4 * (BLOCK + SHORT) * 8] __attribute__((aligned(64)));
  block b = { .run = r, .room = room, .extra = extra, .length = c->nbuffers <= FEW_BUFFERS ? BLOCK : CROWDED,
              .place = (BLOCK + SHORT) * 8 };
  b.stride = b.length * 8;
  const int64_t unit = unit_of(r, SHORT);
  char many[c->ninputs > 4 && any_laid_out(r) ? c->ninputs * b.place : 1];
  if (c->ninputs > 4) b.extra = many;
  begin_inputs(&b, SHORT);
  while (begin < end) {
    int64_t n = end - begin < b.length ? end - begin : b.length;
    if (unit && n > unit - begin % unit) n = unit - begin % unit;
    find_inputs(&b, begin, n);
    run_steps(&b, begin, n);
    begin += n;
  }
}

/* ---- by rows -------------------------------------------------------------------------------------------------- */

enum { SEVERAL = 2048 };            /* elements of a block of several rows; a long row is a block by itself */

bool dfk_chain_long(int64_t row) { return row > SEVERAL / 2; }

/* A step whose result has one element a row, of `rows` of them from row `at` on. */
static void run_narrow(const block *b, const dfk_step *step, char *to, int64_t at, int64_t rows) {
  const dfk_chain_run *r = b->run;
  const void *in[3] = { 0 };
  uint32_t fixed = 0;
  for (int32_t i = 0; i < step->nin; i++) {
    const int32_t from = step->in[i], input = -1 - from;
    in[i] = from >= 0 ? b->result[from] : r->input[input].data;
    if (from >= 0) continue;
    if (r->input[input].how == DFK_NUMBER) fixed |= 1u << i;
    else in[i] = r->input[input].data + at * r->chain->input_bytes[input];
  }
  step->fn(to, in, rows == 1 ? 0 : fixed, rows, step->param);
}

/* A step over whole rows. An operand with one element a row is a fixed one, where rows are not short, row by row. */
static void run_wide(block *b, const dfk_step *step, char *to, int64_t rows) {
  const dfk_chain *c = b->run->chain;
  const int64_t n = c->row;
  const char *in[3] = { 0 };
  int64_t bytes[3] = { 0 }, step_bytes[3] = { 0 };          /* from one row's elements to the next one's */
  uint32_t fixed = 0, narrow = 0;
  for (int32_t i = 0; i < step->nin; i++) {
    const int32_t from = step->in[i], input = -1 - from;
    in[i] = from >= 0 ? b->result[from] : b->in[input];
    bytes[i] = from >= 0 ? c->step[from].bytes : c->input_bytes[input];
    step_bytes[i] = bytes[i] * n;
    if (from < 0) fixed |= (uint32_t)b->fixed[input] << i;
    else if (c->step[from].form != DFK_FULL) narrow |= 1u << i;
  }
  if (!narrow || rows == 1) {
    step->fn(to, (const void *const *)in, fixed | narrow, rows * n, step->param);
    return;
  }
  for (int32_t i = 0; i < step->nin; i++) {
    if (fixed >> i & 1) step_bytes[i] = 0;
    if (!(narrow >> i & 1)) continue;
    step_bytes[i] = bytes[i];
    if (n >= SHORT) continue;
    spread(b->wide + i * b->length * 8, in[i], bytes[i], 0, n, rows * n);
    in[i] = b->wide + i * b->length * 8;
  }
  if (n < SHORT) {
    step->fn(to, (const void *const *)in, fixed, rows * n, step->param);
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    step->fn(to + r * n * step->bytes, (const void *const *)in, fixed | narrow, n, step->param);
    for (int32_t i = 0; i < step->nin; i++) in[i] += step_bytes[i];
  }
}

/* One element a row to all of the row's. */
static void run_spread(const block *b, const dfk_step *step, char *to, int64_t rows) {
  const int32_t from = step->in[0], input = -1 - from;
  const int64_t n = rows * b->run->chain->row;
  if (from >= 0) spread(to, b->result[from], step->bytes, 0, b->run->chain->row, n);
  else if (b->fixed[input]) spread(to, b->in[input], step->bytes, 0, n, n);
  else memcpy(to, b->in[input], (size_t)(n * step->bytes));
}

static void run_row_steps(block *b, int64_t at, int64_t rows) {
  const dfk_chain *c = b->run->chain;
  for (int32_t s = 0; s < c->nsteps; s++) {
    const dfk_step *step = &c->step[s];
    place_result(b, s, step->form == DFK_FULL ? at * c->row : at);
    char *to = b->result[s];
    const int32_t from = step->in[0];
    if (step->rows) step->rows(from >= 0 ? b->result[from] : b->in[-1 - from], rows, c->row, to);
    else if (!step->fn) run_spread(b, step, to, rows);
    else if (step->form != DFK_FULL) run_narrow(b, step, to, at, rows);
    else run_wide(b, step, to, rows);
  }
}

void dfk_chain_row_range(void *arg, int64_t begin, int64_t end) {
  const dfk_chain_run *r = arg;
  const dfk_chain *c = r->chain;
  char room[DFK_CHAIN_ROOM + DFK_CHAIN_STEPS * 64] __attribute__((aligned(64)));
  char wide[3 * SEVERAL * 8] __attribute__((aligned(64)));
  int64_t rows = dfk_chain_long(c->row) ? 1 : SEVERAL / c->row;
  while (rows > 1 && c->nbuffers * rows * c->row > FEW_BUFFERS * BLOCK) rows /= 2;
  block b = { .run = r, .room = room, .wide = wide, .length = rows * c->row };
  b.stride = (b.length * 8 + 63) / 64 * 64;
  b.place = dfk_chain_long(c->row) ? 0 : b.stride;
  if (c->nbuffers * b.stride > DFK_CHAIN_ROOM) b.stride = (b.length * 4 + 63) / 64 * 64;
  char extra[b.place && any_laid_out(r) ? c->ninputs * b.place : 1] __attribute__((aligned(64)));
  b.extra = extra;
  const int64_t unit = unit_of(r, c->row + 1) / c->row;
  begin_inputs(&b, b.place ? c->row + 1 : 0);
  while (begin < end) {
    int64_t n = end - begin < rows ? end - begin : rows;
    if (unit && n > unit - begin % unit) n = unit - begin % unit;
    find_inputs(&b, begin * c->row, n * c->row);
    run_row_steps(&b, begin, n);
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
