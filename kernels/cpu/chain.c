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

dfk_over dfk_chain_over(df_kernel_fn kernel, int32_t dtype) {
  return dfk_chain_plain(dtype) ? dfk_fold_over(kernel, dtype) : (dfk_over){ 0 };
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
  int64_t     unit;                            /* elements, or rows, at whose multiples a block ends; 0: anywhere */
  int64_t     part, first;                     /* what folds in front fill now, and the row that it begins with */
  bool        tiled[DFK_CHAIN_INPUTS];
} block;

static void place_result(block *b, int32_t s, int64_t at) {
  const dfk_step *step = &b->run->chain->step[s];
  b->result[s] = b->run->out[s] ? b->run->out[s] + at * step->bytes : b->room + step->buffer * b->stride;
}

/* Elements [at, at + n) of the whole are added to what the rows above them have left. */
static void fold_over(const block *b, int32_t s, const char *from, int64_t at, int64_t n) {
  const dfk_step *step = &b->run->chain->step[s];
  const int64_t width = b->run->chain->width, bytes = step->bytes;
  if (!b->run->part[s]) return;
  while (n > 0) {
    const int64_t column = at % width, left = width - column, w = left < n ? left : n;
    const int64_t rows = w == width ? n / width : 1, begun = at / width == b->first;
    char *to = b->run->part[s] + (b->part * width + column) * bytes;
    if (begun) memcpy(to, from, (size_t)(w * bytes));
    if (rows > begun) step->over.add(from + begun * w * bytes, rows - begun, width, w, to);
    from += rows * w * bytes;
    at += rows * w;
    n -= rows * w;
  }
}

/* folder: of which block the elements are, from `at` on; NULL: no step folds in front. */
static void all_steps(const dfk_chain *c, const char *const *in, const uint8_t *fixed, char *const *result, int64_t n,
                      const block *folder, int64_t at) {
  for (int32_t s = 0; s < c->nsteps; s++) {
    const dfk_step *step = &c->step[s];
    const void *operand[3] = { 0 };
    uint32_t single = 0;
    for (int32_t i = 0; i < step->nin; i++) {
      const int32_t from = step->in[i];
      operand[i] = from >= 0 ? result[from] : in[-1 - from];
      if (from < 0) single |= (uint32_t)fixed[-1 - from] << i;
    }
    if (step->over.add) fold_over(folder, s, operand[0], at, n);
    else step->fn(result[s], operand, n == 1 ? 0 : single, n, step->param);
  }
}

void dfk_chain_steps(const dfk_chain *c, const char *const *in, const uint8_t *fixed, char *const *result, int64_t n) {
  all_steps(c, in, fixed, result, n, NULL, 0);
}

static void run_steps(block *b, int64_t at, int64_t n) {
  const dfk_chain *c = b->run->chain;
  for (int32_t s = 0; s < c->nsteps; s++) if (!c->step[s].over.add) place_result(b, s, at);
  all_steps(c, b->in, b->fixed, b->result, n, b, at);
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

typedef void (*blocks_fn)(block *b, int64_t begin, int64_t end);

static void elements(block *b, int64_t begin, int64_t end) {
  while (begin < end) {
    int64_t n = end - begin < b->length ? end - begin : b->length;
    if (b->unit && n > b->unit - begin % b->unit) n = b->unit - begin % b->unit;
    find_inputs(b, begin, n);
    run_steps(b, begin, n);
    begin += n;
  }
}

static void by_elements(const dfk_chain_run *r, blocks_fn fn, int64_t begin, int64_t end) {
  const dfk_chain *c = r->chain;
  char room[DFK_CHAIN_ROOM] __attribute__((aligned(64)));
  char extra[4 * (BLOCK + SHORT) * 8] __attribute__((aligned(64)));
  block b = { .run = r, .room = room, .extra = extra, .length = c->nbuffers <= FEW_BUFFERS ? BLOCK : CROWDED,
              .place = (BLOCK + SHORT) * 8 };
  b.stride = b.length * 8;
  b.unit = unit_of(r, SHORT);
  char many[c->ninputs > 4 && any_laid_out(r) ? c->ninputs * b.place : 1];
  if (c->ninputs > 4) b.extra = many;
  begin_inputs(&b, SHORT);
  fn(&b, begin, end);
}

void dfk_chain_range(void *arg, int64_t begin, int64_t end) { by_elements(arg, elements, begin, end); }

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
    const int32_t from = step->in[0];
    if (step->over.add) {
      fold_over(b, s, from >= 0 ? b->result[from] : b->in[-1 - from], at * c->row, rows * c->row);
      continue;
    }
    place_result(b, s, step->form == DFK_FULL ? at * c->row : at);
    char *to = b->result[s];
    if (step->rows) step->rows(from >= 0 ? b->result[from] : b->in[-1 - from], rows, c->row, to);
    else if (!step->fn) run_spread(b, step, to, rows);
    else if (step->form != DFK_FULL) run_narrow(b, step, to, at, rows);
    else run_wide(b, step, to, rows);
  }
}

static void rows(block *b, int64_t begin, int64_t end) {
  const int64_t row = b->run->chain->row, most = b->length / row;
  while (begin < end) {
    int64_t n = end - begin < most ? end - begin : most;
    if (b->unit && n > b->unit - begin % b->unit) n = b->unit - begin % b->unit;
    find_inputs(b, begin * row, n * row);
    run_row_steps(b, begin, n);
    begin += n;
  }
}

static void by_rows(const dfk_chain_run *r, blocks_fn fn, int64_t begin, int64_t end) {
  const dfk_chain *c = r->chain;
  char room[DFK_CHAIN_ROOM + DFK_CHAIN_STEPS * 64] __attribute__((aligned(64)));
  char wide[3 * SEVERAL * 8] __attribute__((aligned(64)));
  int64_t several = dfk_chain_long(c->row) ? 1 : SEVERAL / c->row;
  while (several > 1 && c->nbuffers * several * c->row > FEW_BUFFERS * BLOCK) several /= 2;
  block b = { .run = r, .room = room, .wide = wide, .length = several * c->row };
  b.stride = (b.length * 8 + 63) / 64 * 64;
  b.place = dfk_chain_long(c->row) ? 0 : b.stride;
  if (c->nbuffers * b.stride > DFK_CHAIN_ROOM) b.stride = (b.length * 4 + 63) / 64 * 64;
  char extra[b.place && any_laid_out(r) ? c->ninputs * b.place : 1] __attribute__((aligned(64)));
  b.extra = extra;
  b.unit = unit_of(r, c->row + 1) / c->row;
  begin_inputs(&b, b.place ? c->row + 1 : 0);
  fn(&b, begin, end);
}

void dfk_chain_row_range(void *arg, int64_t begin, int64_t end) { by_rows(arg, rows, begin, end); }

/* ---- with folds in front -------------------------------------------------------------------------------------- */

enum { STRIP = 2048, NARROW = 512, FEW_UNITS = 8 };      /* columns of a strip at most, at least; units to share out */

/* The rows of a piece are cut into parts of DFK_FOLD_BLOCK, which are folded by themselves. */
static int64_t parts_of(const dfk_chain_run *r) { return (r->piece + DFK_FOLD_BLOCK - 1) / DFK_FOLD_BLOCK; }
static int64_t pieces_of(const dfk_chain_run *r) { return (r->rows + r->piece - 1) / r->piece; }

/* The rows of a part; none, at the end of the last piece. */
static int64_t part_begin(const dfk_chain_run *r, int64_t part) {
  const int64_t at = part / parts_of(r) * r->piece + part % parts_of(r) * DFK_FOLD_BLOCK;
  return at < r->rows ? at : r->rows;
}
static int64_t part_end(const dfk_chain_run *r, int64_t part) {
  const int64_t at = part_begin(r, part) + DFK_FOLD_BLOCK, last = (part / parts_of(r) + 1) * r->piece;
  return at < last ? at < r->rows ? at : r->rows : last < r->rows ? last : r->rows;
}

/* Units: of each part its strips of columns. */
static void element_units(block *b, int64_t begin, int64_t end) {
  const dfk_chain_run *r = b->run;
  const int64_t width = r->chain->width;
  for (int64_t i = begin; i < end; i++) {
    b->part = i / r->strips;
    b->first = part_begin(r, b->part);
    const int64_t last = part_end(r, b->part), strip = i % r->strips;
    const int64_t left = width * strip / r->strips, right = width * (strip + 1) / r->strips;
    if (r->strips == 1) elements(b, b->first * width, last * width);
    else for (int64_t row = b->first; row < last; row++) elements(b, row * width + left, row * width + right);
  }
}
static void row_units(block *b, int64_t begin, int64_t end) {
  for (b->part = begin; b->part < end; b->part++) {
    b->first = part_begin(b->run, b->part);
    rows(b, b->first, part_end(b->run, b->part));
  }
}
static void fold_elements(void *arg, int64_t begin, int64_t end) { by_elements(arg, element_units, begin, end); }
static void fold_rows(void *arg, int64_t begin, int64_t end) { by_rows(arg, row_units, begin, end); }

/* What is folded is in the parts. */
static void join_parts(const dfk_chain_run *r, int32_t s) {
  const dfk_step *step = &r->chain->step[s];
  const int64_t width = r->chain->width, bytes = width * step->bytes;
  char *part = r->part[s];
  for (int64_t p = 0; p < pieces_of(r); p++) {
    char *first = part + p * parts_of(r) * bytes;
    int64_t n = 1;
    while (n < parts_of(r) && part_begin(r, p * parts_of(r) + n) < part_end(r, p * parts_of(r) + n)) n++;
    step->over.add(first + bytes, n - 1, width, width, first);
    if (p) memmove(part + p * bytes, first, (size_t)bytes);
  }
  dfk_fold_join(step->over, part, pieces_of(r), width);
  memcpy(r->out[s], part, (size_t)bytes);
  dfk_fold_finish(step->over, r->out[s], width, r->rows);
}

static bool folds(const dfk_chain_run *r, int32_t s) { return r->chain->step[s].over.add && r->out[s]; }

/* Bytes of a step's parts. */
static int64_t part_bytes(const dfk_chain_run *r, int32_t s) {
  return pieces_of(r) * parts_of(r) * r->chain->width * r->chain->step[s].bytes;
}

int32_t dfk_chain_fold(df_kernel *k, dfk_chain_run *r, int64_t rows) {
  const dfk_chain *c = r->chain;
  r->rows = rows;
  r->piece = dfk_fold_piece(rows, c->width);
  const int64_t parts = pieces_of(r) * parts_of(r), deep = rows < DFK_FOLD_BLOCK ? rows : DFK_FOLD_BLOCK;
  r->strips = c->row ? 1 : (c->width + STRIP - 1) / STRIP;
  while (!c->row && parts * r->strips < FEW_UNITS && c->width / (2 * r->strips) >= NARROW) r->strips *= 2;
  int64_t bytes = 0;
  for (int32_t s = 0; s < c->nsteps; s++) if (folds(r, s)) bytes += part_bytes(r, s);
  char *memory = dfk_scratch(k, bytes), *next = memory;
  if (!memory) return DF_RESOURCE_EXHAUSTED;
  for (int32_t s = 0; s < c->nsteps; s++) {
    r->part[s] = folds(r, s) ? next : NULL;
    if (r->part[s]) next += part_bytes(r, s);
  }
  const int64_t grain = c->grain / (deep * c->width / r->strips);
  dfk_parallel(k, parts * r->strips, grain < 1 ? 1 : grain, c->row ? fold_rows : fold_elements, r);
  for (int32_t s = 0; s < c->nsteps; s++) if (r->part[s]) join_parts(r, s);
  dfk_free(memory);
  return DF_OK;
}

/* ---- how inputs meet the whole -------------------------------------------------------------------------------- */

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
