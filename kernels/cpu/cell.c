/* cell.c: see cell.h. */
#include "../cell.h"
#include "gemm.h"
#include <string.h>

_Static_assert(sizeof(gemm_gates) <= DFK_CELL_ROOM, "room for what is known of the product");

/* ELEMENTS: that the chain is computed of at a time; TILE: floats of gates that are made at a time; LEAST_ROWS: of a
 * lot, where no panel of weights is read for fewer rows than it should be; HEAVY: multiplications of a step that leave
 * each thread so much to do that pieces for whoever comes first are worth their cost. */
enum { ELEMENTS = 1024, TILE = 16384, LEAST_ROWS = 32, HEAVY = 1 << 24 };
_Static_assert(DFK_CELL_GATES * DFK_GATE_ROWS * 32 <= TILE, "a tile is a lot's rows of a block, in all gates");

/* A lot of rows is done by one thread, or by several, a group of blocks each. Who does it turns its rows: turned ones
 * would have to come from another core's cache. But heavy steps have them turned beforehand. */
typedef struct pass {
  const dfk_cell *cell;
  const gemm_gates *product;
  int64_t rows, groups, blocks;        /* rows of a lot, groups, and blocks of one, at most */
  int64_t widest, turned_floats;       /* bytes of the chain's widest element; of a lot's turned rows */
  float  *turned;                      /* of each lot, and group unless it is heavy */
  bool    heavy;
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

static void turn_rows(const pass *w, int64_t i, int64_t rows, float *to) {
  const dfk_cell *c = w->cell;
  for (int64_t part = 0, p = 0; part < c->nparts; p += c->part[part++].width)
    dfk_gemm_turn(w->product, rows, p, c->part[part].width, c->part[part].data + i * c->part[part].width,
                  c->part[part].width, to);
}

/* Rows of so many bytes, which are mostly two vectors. */
static void copy_rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t bytes) {
  enum { MOSTLY = 128 };
  for (int64_t i = 0; i < rows; i++, to += to_step, from += from_step)
    if (bytes == MOSTLY) memcpy(to, from, MOSTLY);
    else memcpy(to, from, (size_t)bytes);
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
      copy_rows(place, wide * bytes, data, c->units * bytes, rows, wide * bytes);
      return place;
    case DFK_ROWS: copy_rows(place, wide * bytes, data + j * bytes, 0, rows, wide * bytes); return place;
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
      copy_rows(c->run->out[s] + (i * c->units + j) * bytes, c->units * bytes, result[s], wide * bytes, rows,
                wide * bytes);
  }
}

/* The same of a tile of more rows. */
static void run_rows(const pass *w, int64_t i, int64_t rows, int64_t j, int64_t wide, const float *tile, char *room) {
  const int64_t few = ELEMENTS / wide;
  for (int64_t r = 0; r < rows; r += few)
    run_chain(w, i + r, rows - r < few ? rows - r : few, j, wide, tile + r * wide, rows * wide, room);
}

static int64_t rows_at(const pass *w, int64_t i) { return w->cell->rows - i < w->rows ? w->cell->rows - i : w->rows; }

static void turn_lots(void *arg, int64_t begin, int64_t end) {
  const pass *w = (const pass *)arg;
  for (int64_t i = begin; i < end; i++)
    turn_rows(w, i * w->rows, rows_at(w, i * w->rows), w->turned + i * w->turned_floats);
}

/* Lots' rows of groups of blocks: a tile of whole rows at a time, or else of a block. */
static void lots(void *arg, int64_t begin, int64_t end) {
  const pass *w = (const pass *)arg;
  const dfk_cell *c = w->cell;
  const gemm_gates *s = w->product;
  float tile[TILE] __attribute__((aligned(64)));
  char room[(c->run->chain->nbuffers + DFK_CELL_VALUES) * ELEMENTS * w->widest] __attribute__((aligned(64)));
  for (int64_t t = begin; t < end; t++) {
    const int64_t lot = t / w->groups, i = lot * w->rows, rows = rows_at(w, i), first = t % w->groups * w->blocks;
    const int64_t last = first + w->blocks < s->blocks ? first + w->blocks : s->blocks;
    const bool whole = w->groups == 1 && rows * c->units * c->gates <= TILE && c->units <= ELEMENTS;
    float *turned = w->turned + (w->heavy ? lot : t) * w->turned_floats;
    if (!w->heavy) turn_rows(w, i, rows, turned);
    for (int64_t b = first; b < last; b++) {
      const int64_t j = b * s->columns, wide = c->units - j < s->columns ? c->units - j : s->columns;
      if (whole) dfk_gemm_gate_block(s, rows, turned, b, c->bias, tile + j, c->units, rows * c->units);
      else {
        dfk_gemm_gate_block(s, rows, turned, b, c->bias, tile, wide, rows * wide);
        run_rows(w, i, rows, j, wide, tile, room);
      }
    }
    if (whole) run_rows(w, i, rows, 0, c->units, tile, room);
  }
}

/* As much for each thread, if panels are still read for many rows. */
static void cut(pass *w, int32_t threads) {
  const dfk_cell *c = w->cell;
  const int64_t blocks = w->product->blocks, wanted = threads > 1 ? 2 * threads : 1;
  w->heavy = threads > 1 && c->rows * c->gates * c->units * w->product->g.k >= HEAVY;
  w->rows = DFK_GATE_ROWS;
  while (!w->heavy && (c->rows + w->rows - 1) / w->rows < wanted && w->rows > LEAST_ROWS) w->rows /= 2;
  const int64_t lots = (c->rows + w->rows - 1) / w->rows;
  w->groups = w->heavy ? blocks : (threads + lots - 1) / lots;
  w->blocks = (blocks + w->groups - 1) / w->groups;
  w->groups = (blocks + w->blocks - 1) / w->blocks;
  w->turned_floats = dfk_gemm_turned(w->rows, w->product->g.k);
}

int32_t dfk_cell_run(df_kernel *k, const dfk_cell *c) {
  pass w = { .cell = c, .product = product_of(c), .widest = 1 };
  const dfk_chain *chain = c->run->chain;
  for (int32_t q = 0; q < chain->ninputs; q++) if (chain->input_bytes[q] > w.widest) w.widest = chain->input_bytes[q];
  for (int32_t q = 0; q < chain->nsteps; q++) if (chain->step[q].bytes > w.widest) w.widest = chain->step[q].bytes;
  cut(&w, dfk_threads(k));
  const int64_t n = (c->rows + w.rows - 1) / w.rows, each = w.rows * w.blocks * w.product->columns * c->gates;
  w.turned = (float *)dfk_scratch(k, n * (w.heavy ? 1 : w.groups) * w.turned_floats * 4);
  if (!w.turned) return DF_RESOURCE_EXHAUSTED;
  if (w.heavy) dfk_parallel(k, n, 1 + 65536 / w.turned_floats, turn_lots, &w);
  dfk_parallel(k, n * w.groups, 1 + (1 << 17) / (each * w.product->g.k), lots, &w);
  dfk_free(w.turned);
  return DF_OK;
}
