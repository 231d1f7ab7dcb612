/* cell.c: see cell.h. */
#include "../cell.h"
#include "gemm.h"
#include <string.h>

_Static_assert(DFK_CELL_PRODUCTS * sizeof(gemm_gates) <= DFK_CELL_ROOM, "room for what is known of the products");

/* ELEMENTS: that the chain is computed of at a time; TILE: floats of gates that are made at a time; LEAST_ROWS: of a
 * lot, so that panels of weights are read for several rows each, and half as many where these are NEAR; HEAVY:
 * multiplications of a step that leave each thread so much to do that pieces for the next free thread are worth their
 * cost. */
enum { ELEMENTS = 1024, TILE = 16384, LEAST_ROWS = 32, NEAR = 1 << 15, HEAVY = 1 << 24 };
_Static_assert(DFK_CELL_GATES * DFK_GATE_ROWS * 32 <= TILE, "a tile is a lot's rows of a block, in all gates");

/* A lot of rows is done by one thread, or by several, a group of blocks each. The thread turns its rows: turned ones
 * would have to come from another core's cache. But heavy steps have them turned beforehand. */
typedef struct pass {
  const dfk_cell *cell;
  int64_t columns, all;                /* of a block, and how many blocks there are */
  int64_t rows, groups, blocks;        /* rows of a lot, groups, and blocks of one, at most */
  int64_t widest, turned_floats;       /* bytes of the chain's widest element; of a lot's turned rows */
  float  *turned;                      /* of each lot, and group unless it is heavy */
  bool    heavy;
} pass;

static const gemm_gates *product_of(const dfk_term *t) { return (const gemm_gates *)t->product; }

bool dfk_cell_fits(const dfk_chain *c) {
  if (c->row || c->ninputs + c->nsteps > DFK_CELL_VALUES) return false;
  for (int32_t s = 0; s < c->nsteps; s++) if (!c->step[s].fn || c->step[s].form != DFK_FULL) return false;
  return true;
}

static bool begin_product(df_kernel *k, const dfk_cell *c, int64_t gates, dfk_term *t, gemm_gates *to) {
  int64_t inner = 0;
  for (int32_t i = 0; i < t->nparts; i++) inner += t->part[i].width;
  const int64_t n = gates * c->units;
  const gemm g = { .m = c->rows, .n = n, .k = inner, .b_t = t->turned, .lda = inner, .ldb = t->turned ? inner : n,
                   .ldc = n, .weights = t->weights };
  t->product = to;
  return dfk_gemm_gates_begin(k, to, &g, gates);
}

bool dfk_cell_begin(df_kernel *k, dfk_cell *c, void *room) {
  gemm_gates *next = (gemm_gates *)room;
  int32_t products = 0;
  for (int32_t i = 0; i < c->run->chain->ninputs; i++) {
    const dfk_meets how = c->run->input[i].how;
    if (c->gate[i] < 0 && (how == DFK_ROWS || how == DFK_COLUMN) && c->run->input[i].period != c->units) return false;
  }
  c->inner = c->gates = 0;
  for (int32_t i = 0; i < c->nsources; i++) {
    dfk_source *s = &c->source[i];
    c->gates += s->gates;
    for (int32_t j = 0; j < s->nterms; j++) {
      if (s->term[j].kind != DFK_PRODUCT) continue;
      if (products++ == DFK_CELL_PRODUCTS || !begin_product(k, c, s->gates, &s->term[j], next)) return false;
      c->inner += next++->g.k;
    }
  }
  return c->gates <= DFK_CELL_GATES;
}

/* What the products multiply, one after the other. */
static void turn_rows(const dfk_cell *c, int64_t i, int64_t rows, float *to) {
  for (int32_t s = 0; s < c->nsources; s++)
    for (int32_t j = 0; j < c->source[s].nterms; j++) {
      const dfk_term *t = &c->source[s].term[j];
      if (t->kind != DFK_PRODUCT) continue;
      for (int64_t part = 0, p = 0; part < t->nparts; p += t->part[part++].width)
        dfk_gemm_transpose(product_of(t), rows, p, t->part[part].width, t->part[part].data + i * t->part[part].width,
                           t->part[part].width, to);
      to += dfk_gemm_transposed(rows, product_of(t)->g.k);
    }
}

/* Rows of so many bytes, which are mostly two vectors. */
static void copy_rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t bytes) {
  enum { MOSTLY = 128 };
  for (int64_t i = 0; i < rows; i++, to += to_step, from += from_step)
    if (bytes == MOSTLY) memcpy(to, from, MOSTLY);
    else memcpy(to, from, (size_t)bytes);
}
/* An element of each row, `wide` times. */
static void spread(char *to, const char *from, int64_t rows, int64_t bytes, int64_t wide) {
  for (int64_t i = 0; i < rows; i++, from += bytes, to += wide * bytes)
    if (bytes == 1) memset(to, *from, (size_t)wide);
    else if (bytes == 4) for (int64_t q = 0; q < wide; q++) memcpy(to + 4 * q, from, 4);
    else for (int64_t q = 0; q < wide; q++) memcpy(to + 8 * q, from, 8);
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

/* Some rows of a block of units, in all gates: gate g of row r lies at g apart + r ld. */
typedef struct tile {
  float  *at;
  int64_t i, rows, block, ld, apart;
} tile;

/* To gates of a tile is added, element by element, what begins at `from`, whose rows are `step` apart, and gates
   `units`. */
static void add_gates(const dfk_cell *c, const tile *t, int64_t gates, float *to, const float *from, int64_t step,
                      int64_t units, int64_t wide) {
  for (int64_t g = 0; g < gates; g++)
    for (int64_t r = 0; r < t->rows; r++)
      for (int64_t q = 0; q < wide; q++) to[g * t->apart + r * t->ld + q] += from[r * step + g * units + q];
}

/* A source's sum, term by term. The vector behind a product is added with it; a product that comes later and is not
   summed in a register is made beside. */
static void add_up(const pass *w, const dfk_source *s, const tile *t, float *to, const float **turned) {
  const dfk_cell *c = w->cell;
  const int64_t j = t->block * w->columns, wide = c->units - j < w->columns ? c->units - j : w->columns;
  const int64_t n = s->gates * c->units;
  float beside[TILE] __attribute__((aligned(64)));
  for (int32_t i = 0; i < s->nterms; i++) {
    const dfk_term *m = &s->term[i];
    if (m->kind == DFK_VECTOR) add_gates(c, t, s->gates, to, m->data + j, 0, c->units, wide);
    else if (m->kind == DFK_MATRIX) add_gates(c, t, s->gates, to, m->data + t->i * n + j, n, c->units, wide);
    else {
      const gemm_gates *p = product_of(m);
      const bool at_once = !i || dfk_gemm_gates_add(p);
      const bool biased = at_once && i + 1 < s->nterms && s->term[i + 1].kind == DFK_VECTOR;
      const float *bias = biased ? s->term[i + 1].data : NULL;
      if (at_once) dfk_gemm_gate_block(p, t->rows, *turned, t->block, i > 0, bias, to, t->ld, t->apart);
      else {
        dfk_gemm_gate_block(p, t->rows, *turned, t->block, false, NULL, beside, wide, t->rows * wide);
        add_gates(c, t, s->gates, to, beside, wide, t->rows * wide, wide);
      }
      *turned += dfk_gemm_transposed(t->rows, p->g.k);
      i += biased;
    }
  }
}

static void make_gates(const pass *w, const tile *t, const float *turned) {
  float *to = t->at;
  for (int32_t i = 0; i < w->cell->nsources; to += w->cell->source[i++].gates * t->apart)
    add_up(w, &w->cell->source[i], t, to, &turned);
}

static int64_t rows_at(const pass *w, int64_t i) { return w->cell->rows - i < w->rows ? w->cell->rows - i : w->rows; }

static void turn_lots(void *arg, int64_t begin, int64_t end) {
  const pass *w = (const pass *)arg;
  for (int64_t i = begin; i < end; i++)
    turn_rows(w->cell, i * w->rows, rows_at(w, i * w->rows), w->turned + i * w->turned_floats);
}

/* Lots' rows of groups of blocks: a tile of whole rows at a time, or else of a block. */
static void lots(void *arg, int64_t begin, int64_t end) {
  const pass *w = (const pass *)arg;
  const dfk_cell *c = w->cell;
  float gates[TILE] __attribute__((aligned(64)));
  char room[(c->run->chain->nbuffers + DFK_CELL_VALUES) * ELEMENTS * w->widest] __attribute__((aligned(64)));
  for (int64_t t = begin; t < end; t++) {
    const int64_t lot = t / w->groups, i = lot * w->rows, rows = rows_at(w, i), first = t % w->groups * w->blocks;
    const int64_t last = first + w->blocks < w->all ? first + w->blocks : w->all;
    const bool whole = w->groups == 1 && rows * c->units * c->gates <= TILE && c->units <= ELEMENTS;
    float *turned = w->turned + (w->heavy ? lot : t) * w->turned_floats;
    if (!w->heavy) turn_rows(c, i, rows, turned);
    for (int64_t b = first; b < last; b++) {
      const int64_t j = b * w->columns, wide = c->units - j < w->columns ? c->units - j : w->columns;
      const int64_t ld = whole ? c->units : wide;
      make_gates(w, &(tile){ whole ? gates + j : gates, i, rows, b, ld, rows * ld }, turned);
      if (!whole) run_rows(w, i, rows, j, wide, gates, room);
    }
    if (whole) run_rows(w, i, rows, 0, c->units, gates, room);
  }
}

/* As much for each thread, if panels are still read for many rows. */
static void cut(pass *w, int32_t threads) {
  const dfk_cell *c = w->cell;
  const int64_t blocks = w->all, wanted = threads > 1 ? 2 * threads : 1;
  const int64_t weights = c->gates * c->units * c->inner, least = weights <= NEAR ? LEAST_ROWS / 2 : LEAST_ROWS;
  w->heavy = threads > 1 && c->rows * weights >= HEAVY;
  w->rows = DFK_GATE_ROWS;
  while (!w->heavy && (c->rows + w->rows - 1) / w->rows < wanted && w->rows > least) w->rows /= 2;
  const int64_t lots = (c->rows + w->rows - 1) / w->rows;
  w->groups = w->heavy ? blocks : (threads + lots - 1) / lots;
  w->blocks = (blocks + w->groups - 1) / w->groups;
  w->groups = (blocks + w->blocks - 1) / w->blocks;
  w->turned_floats = dfk_gemm_transposed(w->rows, c->inner);
}

int32_t dfk_cell_run(df_kernel *k, const dfk_cell *c) {
  const gemm_gates *first = product_of(&c->source[0].term[0]);
  pass w = { .cell = c, .columns = first->columns, .all = first->blocks, .widest = 1 };
  const dfk_chain *chain = c->run->chain;
  for (int32_t q = 0; q < chain->ninputs; q++) if (chain->input_bytes[q] > w.widest) w.widest = chain->input_bytes[q];
  for (int32_t q = 0; q < chain->nsteps; q++) if (chain->step[q].bytes > w.widest) w.widest = chain->step[q].bytes;
  cut(&w, dfk_threads(k));
  const int64_t n = (c->rows + w.rows - 1) / w.rows, each = w.rows * w.blocks * w.columns * c->gates;
  w.turned = (float *)dfk_scratch(k, n * (w.heavy ? 1 : w.groups) * w.turned_floats * 4);
  if (!w.turned) return DF_RESOURCE_EXHAUSTED;
  if (w.heavy) dfk_parallel(k, n, 1 + 65536 / w.turned_floats, turn_lots, &w);
  dfk_parallel(k, n * w.groups, 1 + (1 << 17) / (each * c->inner), lots, &w);
  dfk_free(w.turned);
  return DF_OK;
}
