/* write_array.c: TensorArrays are read and written in place where the window that is known of one has the element, and
 * by the runtime's own functions elsewhere.
 */
#include "engine/native/write.h"
#include "resource/tensor_array.h"
#include <stdio.h>

static const struct { const char *name, *type; int32_t at; } window[] = {
  { "low", "i64", 0 }, { "n", "i64", 8 }, { "data", "ptr", 16 }, { "state", "ptr", 24 }, { "mask", "i64", 32 },
  { "after", "i64", 40 },
};
enum { WINDOW = sizeof window / sizeof *window };

uint32_t dfi_access_of(const dfi_writer *w, const dfi_pnode *p) {
  uint32_t k = 0;
  while (k < w->unit->narrays && w->unit->access[k].node != p) k++;
  return k;
}

/* LLVM takes some 4 s for 200 places, 27 s for 400. */
static uint32_t access_made(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  enum { MOST = 200 };
  dfi_unit *u = w->unit;
  const uint32_t k = dfi_access_of(w, p);
  if (k < u->narrays) return k;
  u->narrays++;
  if (u->narrays > MOST) dfi_unit_refuse(u, p, "its loop reads and writes arrays in more than %d places", MOST);
  u->access = dfi_xrealloc(u->access, sizeof *u->access * u->narrays);
  u->access[k].root = dfi_analyze_root(w->look, i, w->look->plan->operand[p->in]);
  u->access[k].node = p;
  u->access[k].shape = NULL;
  u->access[k].step = 0;
  u->access[k].in_place = false;
  for (int32_t f = 0; f < WINDOW; f++) {
    DECL(w, "  %%a%u.%s = alloca %s\n", k, window[f].name, window[f].type);
    DECL(w, "  store %s %s, ptr %%a%u.%s\n", window[f].type, window[f].type[0] == 'p' ? "null" : "0", k,
         window[f].name);
  }
  DECL(w, "  %%a%u.at = getelementptr i8, ptr %%access, i64 %zu\n", k, k * sizeof(dfi_access));
  DECL(w, "  %%a%u.size.at = getelementptr i8, ptr %%a%u.at, i64 48\n  %%a%u.size = load ptr, ptr %%a%u.size.at\n", k,
       k, k, k);
  DECL(w,
       "  %%a%u.counts.at = getelementptr i8, ptr %%a%u.at, i64 56\n  %%a%u.counts = load i64, ptr %%a%u.counts.at\n",
       k, k, k, k);
  return k;
}

static dfi_name window_field(dfi_writer *w, uint32_t k, int32_t f) {
  const dfi_name n = dfi_temp(w);
  SAY(w, "  %s = load %s, ptr %%a%u.%s\n", n.s, window[f].type, k, window[f].name);
  return n;
}

/* Asks the runtime to do it, and learns where it was; `data` as if the window began at element 0. */
static void write_slow(dfi_writer *w, int32_t i, uint32_t k, const dfi_name index, const char *type, bool reads) {
  const dfi_name r = dfi_temp(w), bad = dfi_temp(w);
  SAY(w, "  %s = call i32 %%%s(ptr %%c, i64 %u, i64 %s)\n  %s = icmp eq i32 %s, 0\n", r.s,
      reads ? "do.read" : "do.write", k, index.s, bad.s, r.s);
  dfi_write_fail(w, i, bad);
  for (int32_t f = 0; f < WINDOW; f++) {
    const dfi_name at = dfi_temp(w), v = dfi_temp(w);
    SAY(w, "  %s = getelementptr i8, ptr %%a%u.at, i64 %d\n  %s = load %s, ptr %s\n  store %s %s, ptr %%a%u.%s\n", at.s,
        k, window[f].at, v.s, window[f].type, at.s, window[f].type, v.s, k, window[f].name);
  }
  const dfi_name low = window_field(w, k, 0), data = window_field(w, k, 2), minus = dfi_temp(w), first = dfi_temp(w);
  SAY(w, "  %s = sub i64 0, %s\n  %s = getelementptr %s, ptr %s, i64 %s\n  store ptr %s, ptr %%a%u.data\n", minus.s,
      low.s, first.s, type, data.s, minus.s, first.s, k);
}

/* The read of a variable that gave this operand of loop i, a tensor that is not copied; -1: none did. */
static int64_t held_of(const dfi_writer *w, int32_t i, dfi_operand o) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_shape *s = dfi_analyze_shape(w->look, i, o);
  for (int64_t k = w->unit->npeeks; s && dfi_shape_size(s) > DFI_DIRECT && DFI_SPACE(o) == DFI_ITERATION && k--; ) {
    const dfi_pnode *p = w->unit->peek[k].node;
    if (p >= l->nodes && p < l->nodes + l->scope->n && p->out == DFI_INDEX(o)) return k;
  }
  return -1;
}

/* A variable's tensor is written as it is: it is the same in many iterations. */
static void write_held(dfi_writer *w, int32_t i, const dfi_pnode *p, uint32_t k, dfi_name index, int64_t peek) {
  const dfi_name good = dfi_temp(w), bad = dfi_temp(w), was = dfi_temp(w), is = dfi_temp(w);
  SAY(w, "  %s = call i32 %%do.write.held(ptr %%c, i64 %u, i64 %s, i64 %lld)\n  %s = icmp eq i32 %s, 0\n", good.s, k,
      index.s, (long long)peek, bad.s, good.s);
  dfi_write_fail(w, i, bad);
  SAY(w, "  %s = load i64, ptr %%pushes\n  %s = add i64 %s, %%a%u.counts\n  store i64 %s, ptr %%pushes\n", was.s, is.s,
      was.s, k, is.s);
  dfi_write_done(w, i, p, -1);
}

static dfi_name load_pointer(dfi_writer *w, const char *from) {
  const dfi_name p = dfi_temp(w);
  SAY(w, "  %s = load ptr, ptr %s\n", p.s, from);
  return p;
}

/* ---- where it will lie ------------------------------------------------------------------------------------------ */

/* The write that alone reads what p makes, in the same iteration in any case, at an index that is known before; NULL:
   there is none. */
static const dfi_pnode *write_of(const dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  if (w->burst || p->invariant || p->nout != 1 || p->edge[1] != p->edge[0] + 1 || dfi_in_branch(l, p)) return NULL;
  const dfi_pnode *q = &l->nodes[w->look->plan->edge[p->edge[0]].node];
  if (!dfi_is_write(q) || q->nin < 3 || l->node[q - l->nodes].guard != l->node[p - l->nodes].guard) return NULL;
  const dfi_operand *in = w->look->plan->operand + q->in;
  if (DFI_SPACE(in[2]) != DFI_ITERATION || DFI_INDEX(in[2]) != p->out) return NULL;
  const dfi_pnode *index = dfi_maker_of(l, in[1]);
  return !index || l->node[index - l->nodes].written ? q : NULL;
}

dfi_name dfi_write_destination(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_name place = dfi_write_place(i, p->out);
  *w->look->loop[i].slot_alias[p->out].s = 0;
  const dfi_shape *s = w->look->loop[i].slot_shape[p->out];
  const dfi_pnode *q = dfi_shape_size(s) * dfi_dtype_size[p->out_dtypes[0]] > DFI_ROW_BYTES ? write_of(w, i, p) : NULL;
  if (!q) return place;
  const uint32_t k = access_made(w, i, q);
  uint8_t dtype;
  dfi_name index = dfi_write_operand(w, i, w->look->plan->operand[q->in + 1], &dtype);
  index = dfi_write_wide(w, index, dtype);
  w->unit->access[k].shape = dfi_input_shape(w->look, q, 2);
  const dfi_name at = dfi_temp(w);
  SAY(w, "  %s = call ptr %%do.spot(ptr %%c, i64 %u, i64 %s, ptr %s)\n", at.s, k, index.s, place.s);
  w->look->loop[i].slot_alias[p->out] = at;
  return at;
}

/* An access while it is written. */
typedef struct cell {
  int32_t i;                   /* of its loop */
  const dfi_pnode *p;
  uint32_t k;                  /* of the unit's accesses */
  int32_t  label;
  bool     reads, in_place;
  bool     where_it_lies;      /* of a write: calls take the tensor from there, else from a copy */
  uint8_t  dtype;
  const dfi_shape *tensor;     /* NULL: elements are numbers */
  int64_t  size;               /* of a tensor: its elements */
  char     type[40];
  dfi_name index, value;       /* value: what is written */
} cell;

/* Are rows read where they lie? The array is not written, and they are aligned as kernels want them. */
static bool reads_in_place(const dfi_writer *w, const cell *c) {
  return c->tensor && c->size > DFI_DIRECT && c->size * dfi_dtype_size[c->dtype] % 64 == 0 &&
         !w->unit->root[w->unit->access[c->k].root].written;
}

static cell cell_of(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_operand *in = w->look->plan->operand + p->in;
  cell c = { .i = i, .p = p, .k = access_made(w, i, p), .label = w->nlabel++, .reads = dfi_is_read(p) };
  uint8_t index_dtype;
  c.index = dfi_write_operand(w, i, in[1], &index_dtype);
  if (index_dtype == DF_INT32) {
    const dfi_name wide = dfi_temp(w);
    SAY(w, "  %s = sext i32 %s to i64\n", wide.s, c.index.s);
    c.index = wide;
  }
  if (c.reads) c.dtype = p->out_dtypes[0];
  else c.value = dfi_write_operand(w, i, in[2], &c.dtype);
  c.tensor = c.reads ? w->look->loop[i].slot_shape[p->out] : dfi_analyze_shape(w->look, i, in[2]);
  c.size = c.tensor ? dfi_shape_size(c.tensor) : 0;
  c.where_it_lies = !c.reads && c.size > DFI_DIRECT;
  if (c.tensor) snprintf(c.type, sizeof c.type, "[%lld x %s]", (long long)c.size, dfi_type(c.dtype));
  else snprintf(c.type, sizeof c.type, "%s", dfi_type(c.dtype));
  return c;
}

/* The element that lies in the window: `at` is its state, `place` where it lies. Others go to the label far. */
static void write_near(dfi_writer *w, const cell *c, dfi_name *at, dfi_name *place) {
  const dfi_name rel = dfi_temp(w), inside = dfi_temp(w), masked = dfi_temp(w), state = dfi_temp(w),
                 good = dfi_temp(w);
  const dfi_name low = window_field(w, c->k, 0), n = window_field(w, c->k, 1), data = window_field(w, c->k, 2),
                 states = window_field(w, c->k, 3), mask = window_field(w, c->k, 4);
  *at = dfi_temp(w);
  *place = dfi_temp(w);
  SAY(w,
      "  %s = sub i64 %s, %s\n  %s = icmp ult i64 %s, %s\n  br i1 %s, label %%near%d, label %%far%d, !prof "
      "!1\nnear%d:\n",
      rel.s, c->index.s, low.s, inside.s, rel.s, n.s, inside.s, c->label, c->label, c->label);
  SAY(w,
      "  %s = and i64 %s, %s\n  %s = getelementptr i8, ptr %s, i64 %s\n  %s = load i8, ptr %s\n  %s = icmp eq i8 %s, "
      "%d\n",
      masked.s, rel.s, mask.s, at->s, states.s, masked.s, state.s, at->s, good.s, state.s, c->reads ? 1 : 0);
  SAY(w, "  br i1 %s, label %%hit%d, label %%far%d, !prof !1\nhit%d:\n  %s = getelementptr %s, ptr %s, i64 %s\n",
      good.s, c->label, c->label, c->label, place->s, c->type, data.s, c->index.s);
}

static void write_read(dfi_writer *w, const cell *c, dfi_name at, dfi_name place) {
  const dfi_name after = window_field(w, c->k, 5), byte = dfi_temp(w);
  if (c->in_place) SAY(w, "  store ptr %s, ptr %%a%u.row\n", place.s, c->k);
  else dfi_write_store(w, c->dtype, c->tensor ? place : dfi_write_load(w, c->dtype, place.s), c->i, c->p->out);
  SAY(w, "  %s = trunc i64 %s to i8\n  store i8 %s, ptr %s\n", byte.s, after.s, byte.s, at.s);
}

static void write_write(dfi_writer *w, const cell *c, dfi_name at, dfi_name place) {
  const dfi_name size = dfi_temp(w), more = dfi_temp(w), grows = dfi_temp(w), now = dfi_temp(w);
  if (c->tensor) dfi_write_copy(w, c->dtype, c->size, place.s, c->value.s);
  else SAY(w, "  store %s %s, ptr %s\n", c->type, c->value.s, place.s);
  SAY(w, "  store i8 1, ptr %s\n", at.s);
  SAY(w,
      "  %s = load i64, ptr %%a%u.size\n  %s = add i64 %s, 1\n  %s = icmp sgt i64 %s, %s\n  %s = select i1 %s, i64 "
      "%s, i64 %s\n  store i64 %s, ptr %%a%u.size\n",
      size.s, c->k, more.s, c->index.s, grows.s, more.s, size.s, now.s, grows.s, more.s, size.s, now.s, c->k);
}

/* The same by the runtime, where the window does not have the element. */
static void write_far(dfi_writer *w, const cell *c) {
  char far[32];
  snprintf(far, sizeof far, "%%a%u.far", c->k);
  SAY(w, "far%d:\n", c->label);
  if (c->tensor && !c->reads && !c->where_it_lies) dfi_write_copy(w, c->dtype, c->size, far, c->value.s);
  if (c->tensor) SAY(w, "  store ptr %s, ptr %%value\n", c->where_it_lies ? c->value.s : far);
  else if (!c->reads) SAY(w, "  store %s %s, ptr %%value\n", c->type, c->value.s);
  write_slow(w, c->i, c->k, c->index, c->type, c->reads);
  if (c->in_place) SAY(w, "  store ptr %s, ptr %%a%u.row\n", load_pointer(w, "%value").s, c->k);
  else if (c->reads && c->tensor)
    dfi_write_copy(w, c->dtype, c->size, dfi_write_place(c->i, c->p->out).s, far);
  else if (c->reads) dfi_write_store(w, c->dtype, dfi_write_load(w, c->dtype, "%value"), c->i, c->p->out);
}

static void write_count(dfi_writer *w, const cell *c) {
  const dfi_name was = dfi_temp(w), is = dfi_temp(w);
  const char *cells = c->reads ? "%pops" : "%pushes";
  SAY(w, "  %s = load i64, ptr %s\n  %s = add i64 %s, %%a%u.counts\n  store i64 %s, ptr %s\n", was.s, cells, is.s,
      was.s, c->k, is.s, cells);
}

void dfi_write_array(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  if (w->burst) { dfi_write_burst_array(w, i, p); return; }
  cell c = cell_of(w, i, p);
  const bool recomputed = !c.reads && p->node->attrs[0].i;
  const int64_t held = recomputed || c.reads ? -1 : held_of(w, i, w->look->plan->operand[p->in + 2]);
  if (held >= 0) {
    w->unit->access[c.k].shape = dfi_input_shape(w->look, p, 2);
    write_held(w, i, p, c.k, c.index, held);
    return;
  }
  if (c.tensor) {
    w->unit->access[c.k].shape = c.reads ? dfi_out_shape(w->look, p, 0) : dfi_input_shape(w->look, p, 2);
    char far[32];                        /* calls see this alone: the rest can be registers */
    snprintf(far, sizeof far, "%%a%u.far", c.k);
    if (!c.where_it_lies) dfi_write_room(w, far, c.dtype, c.size);
  }
  c.in_place = c.reads && reads_in_place(w, &c);
  w->unit->access[c.k].in_place = c.in_place;
  if (c.in_place) DECL(w, "  %%a%u.row = alloca ptr\n", c.k);
  dfi_name at, place;
  write_near(w, &c, &at, &place);
  (c.reads ? write_read : write_write)(w, &c, at, place);
  SAY(w, "  br label %%had%d\n", c.label);
  write_far(w, &c);
  SAY(w, "  br label %%had%d\nhad%d:\n", c.label, c.label);
  if (c.in_place) {
    char row[32];
    snprintf(row, sizeof row, "%%a%u.row", c.k);
    const dfi_name where = load_pointer(w, row);
    if (dfi_in_branch(&w->look->loop[i], p)) dfi_write_point(w, i, p->out, where);
    else w->look->loop[i].slot_alias[p->out] = where;
  }
  if (!recomputed) write_count(w, &c);
  dfi_write_done(w, i, p, -1);
}
