/* cell.c: see cell.h. */
#include "../cell.h"
#include "gemm.h"
#include <string.h>

_Static_assert(sizeof(gemm_gates) <= DFK_CELL_ROOM, "room for what is known of the product");

/* ELEMENTS: that the chain is computed of at a time, rows of a block; PIECES: so many are wanted, of no fewer than
   LEAST_ROWS rows. */
enum { ELEMENTS = 1024, PIECES = 4, LEAST_ROWS = 16 };

typedef struct pass {
  const dfk_cell *cell;
  const gemm_gates *product;
  int64_t rows, widest;        /* of a piece at most; bytes of the chain's widest element */
  float  *turned;
} pass;

static const gemm_gates *product_of(const dfk_cell *c) { return (const gemm_gates *)c->product; }

bool dfk_cell_fits(const dfk_chain *c) {
  if (c->row || c->ninputs + c->nsteps > DFK_CELL_VALUES) return false;
  for (int32_t s = 0; s < c->nsteps; s++) if (!c->step[s].fn || c->step[s].form != DFK_FULL) return false;
  return true;
}

bool dfk_cell_begin(df_kernel *k, dfk_cell *c, void *room) {
  int64_t inner = 0;
  for (int32_t i = 0; i < c->nparts; i++) inner += c->part[i].width;
  const int64_t n = c->gates * c->units;
  const gemm g = { .m = c->rows, .n = n, .k = inner, .b_t = c->turned, .lda = inner, .ldb = c->turned ? inner : n,
                   .ldc = n, .weights = c->weights };
  for (int32_t i = 0; i < c->run->chain->ninputs; i++) {
    const dfk_meets how = c->run->input[i].how;
    if (c->gate[i] < 0 && (how == DFK_ROWS || how == DFK_COLUMN) && c->run->input[i].period != c->units) return false;
  }
  c->product = room;
  return dfk_gemm_gates_begin(k, (gemm_gates *)room, &g, c->gates);
}

/* Rows from i on, where pieces have them. */
static float *turned_at(const pass *w, int64_t i) { return w->turned + dfk_gemm_turned(i, w->product->g.k); }

static void turn_pieces(void *arg, int64_t begin, int64_t end) {
  const pass *w = (const pass *)arg;
  const dfk_cell *c = w->cell;
  for (int64_t i = begin * w->rows; i < end * w->rows && i < c->rows; i += w->rows) {
    const int64_t rows = c->rows - i < w->rows ? c->rows - i : w->rows;
    for (int64_t part = 0, p = 0; part < c->nparts; p += c->part[part++].width)
      dfk_gemm_turn(w->product, rows, p, c->part[part].width, c->part[part].data + i * c->part[part].width,
                    c->part[part].width, turned_at(w, i));
  }
}

static void add_bias(const dfk_cell *c, int64_t rows, int64_t j, int64_t wide, float *gates) {
  for (int64_t g = 0; g < c->gates; g++)
    for (int64_t i = 0; i < rows; i++, gates += wide)
      for (int64_t q = 0; q < wide; q++) gates[q] += c->bias[g * c->units + j + q];
}

/* `wide` elements of each row, the next row's `ld` bytes on. */
static void gather(char *to, const char *from, int64_t rows, int64_t bytes, int64_t ld) {
  for (int64_t i = 0; i < rows; i++) memcpy(to + i * bytes, from + i * ld, (size_t)bytes);
}
static void scatter(char *to, const char *from, int64_t rows, int64_t bytes, int64_t ld) {
  for (int64_t i = 0; i < rows; i++) memcpy(to + i * ld, from + i * bytes, (size_t)bytes);
}
static void spread(char *to, const char *from, int64_t rows, int64_t bytes, int64_t wide) {
  for (int64_t i = 0; i < rows; i++, from += bytes)
    for (int64_t q = 0; q < wide; q++, to += bytes) memcpy(to, from, (size_t)bytes);
}

/* Where the chain's input q lies of rows from i on and units from j on; `place` is for what lies apart. */
static const char *find_input(const dfk_cell *c, int32_t q, int64_t i, int64_t rows, int64_t j, int64_t wide,
                              char *place) {
  const dfk_chain_run *r = c->run;
  const int64_t bytes = r->chain->input_bytes[q];
  const char *data = r->input[q].data;
  switch (r->input[q].how) {
    case DFK_NUMBER: return data;
    case DFK_ALL:
      data += (i * c->units + j) * bytes;
      if (wide == c->units) return data;
      gather(place, data, rows, wide * bytes, c->units * bytes);
      return place;
    case DFK_ROWS: gather(place, data + j * bytes, rows, wide * bytes, 0); return place;
    case DFK_COLUMN: spread(place, data + i * bytes, rows, bytes, wide); return place;
  }
  return NULL;
}

/* The chain, of rows from i on and units from j on, whose gates lie `gate` floats apart. */
static void run_chain(const pass *w, int64_t i, int64_t rows, int64_t j, int64_t wide, const float *gates, int64_t gate,
                      char *room) {
  const dfk_cell *c = w->cell;
  const dfk_chain *chain = c->run->chain;
  const int64_t stride = ELEMENTS * w->widest;
  const char *in[DFK_CELL_VALUES];
  uint8_t fixed[DFK_CELL_VALUES];
  char *result[DFK_CELL_VALUES];
  char *own = room + chain->nbuffers * stride;
  for (int32_t q = 0; q < chain->ninputs; q++, own += stride) {
    fixed[q] = c->gate[q] < 0 && c->run->input[q].how == DFK_NUMBER;
    in[q] = c->gate[q] >= 0 ? (const char *)(gates + c->gate[q] * gate) : find_input(c, q, i, rows, j, wide, own);
  }
  for (int32_t s = 0; s < chain->nsteps; s++) {
    char *out = c->run->out[s];
    result[s] = !out ? room + chain->step[s].buffer * stride
                : wide == c->units ? out + i * c->units * chain->step[s].bytes : own;
    if (result[s] == own) own += stride;
  }
  dfk_chain_steps(chain, in, fixed, result, rows * wide);
  for (int32_t s = 0; s < chain->nsteps; s++) {
    const int64_t bytes = chain->step[s].bytes;
    if (c->run->out[s] && wide != c->units)
      scatter(c->run->out[s] + (i * c->units + j) * bytes, result[s], rows, wide * bytes, c->units * bytes);
  }
}

/* Pieces: some rows and a block of units. */
static void pieces(void *arg, int64_t begin, int64_t end) {
  const pass *w = (const pass *)arg;
  const dfk_cell *c = w->cell;
  const gemm_gates *s = w->product;
  float gates[c->gates * DFK_GATE_ROWS * s->columns] __attribute__((aligned(64)));
  char room[(c->run->chain->nbuffers + DFK_CELL_VALUES) * ELEMENTS * w->widest] __attribute__((aligned(64)));
  for (int64_t t = begin; t < end; t++) {
    const int64_t i = t / s->blocks * w->rows, rows = c->rows - i < w->rows ? c->rows - i : w->rows;
    const int64_t j = t % s->blocks * s->columns, wide = c->units - j < s->columns ? c->units - j : s->columns;
    dfk_gemm_gate_block(s, rows, turned_at(w, i), t % s->blocks, gates);
    if (c->bias) add_bias(c, rows, j, wide, gates);
    const int64_t few = ELEMENTS / wide;
    for (int64_t r = 0; r < rows; r += few)
      run_chain(w, i + r, rows - r < few ? rows - r : few, j, wide, gates + r * wide, rows * wide, room);
  }
}

int32_t dfk_cell_run(df_kernel *k, const dfk_cell *c) {
  pass w = { .cell = c, .product = product_of(c), .rows = DFK_GATE_ROWS, .widest = 1 };
  const gemm_gates *s = w.product;
  const dfk_chain *chain = c->run->chain;
  for (int32_t q = 0; q < chain->ninputs; q++) if (chain->input_bytes[q] > w.widest) w.widest = chain->input_bytes[q];
  for (int32_t q = 0; q < chain->nsteps; q++) if (chain->step[q].bytes > w.widest) w.widest = chain->step[q].bytes;
  while ((c->rows + w.rows - 1) / w.rows * s->blocks < PIECES && w.rows > LEAST_ROWS) w.rows /= 2;
  w.turned = (float *)dfk_scratch(k, dfk_gemm_turned(c->rows + w.rows, s->g.k) * 4);
  if (!w.turned) return DF_RESOURCE_EXHAUSTED;
  const int64_t lots = (c->rows + w.rows - 1) / w.rows, each = w.rows * s->columns * c->gates * s->g.k;
  dfk_parallel(k, lots, 1 + 65536 / (w.rows * s->g.k), turn_pieces, &w);
  dfk_parallel(k, lots * s->blocks, 1 + (1 << 17) / each, pieces, &w);
  dfk_free(w.turned);
  return DF_OK;
}
