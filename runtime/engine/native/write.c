/* write.c: a loop nest in LLVM's assembly language.
 *
 * Every slot of a record becomes a stack cell (%v<loop>_<slot>), which LLVM makes a register of; a small tensor's is as
 * many elements, and what only hands a tensor on is another name for its place. A loop is
 *
 *   head:  the predicate's nodes; to body or exit
 *   body:  its nodes, branches as blocks; the next iteration's variables; number + 1; to head, or to poll when the
 *          budget is used up
 *   poll:  counts are brought up to date; the engine says whether to go on
 *   exit:  the Exits
 *
 * A loop's variables keep their cells until the end of an iteration, so what a way out has to tell is at hand
 * everywhere. Counts are those that the token engine would have: most follow from the number of iterations.
 */
#include "engine/native/write.h"
#include <stdarg.h>
#include <stdio.h>

void dfi_text_add(dfi_text *t, const char *format, ...) {
  for (;;) {
    va_list more;
    va_start(more, format);
    const size_t left = t->room - t->n;
    const size_t n = (size_t)vsnprintf(t->at ? t->at + t->n : NULL, left, format, more);
    va_end(more);
    if (n < left) { t->n += n; return; }
    t->room = 2 * t->room + n + 256;
    t->at = dfi_xrealloc(t->at, t->room);
  }
}
#define SAY(w, ...)  dfi_text_add(&(w)->body, __VA_ARGS__)
#define DECL(w, ...) dfi_text_add(&(w)->decl, __VA_ARGS__)
#define TAIL(w, ...) dfi_text_add(&(w)->tail, __VA_ARGS__)

const char *dfi_type(uint8_t dtype) {
  if (dtype == DF_FLOAT32) return "float";
  if (dtype == DF_FLOAT64) return "double";
  switch (dfi_dtype_size[dtype]) {
    case 1: return "i8";
    case 2: return "i16";
    case 4: return "i32";
    default: return "i64";
  }
}

dfi_name dfi_temp(dfi_writer *w) {
  dfi_name n;
  snprintf(n.s, sizeof n.s, "%%t%d", w->ntemp++);
  return n;
}

const char *dfi_lanes(dfi_writer *w, uint8_t dtype) {
  if (!w->lanes) return dfi_type(dtype);
  char *text = w->type[w->ntypes++ & 7];
  snprintf(text, sizeof w->type[0], "<%d x %s>", w->lanes, dfi_type(dtype));
  return text;
}

void dfi_declare(dfi_writer *w, const char *declaration) {
  if (!w->outside.at || !strstr(w->outside.at, declaration)) dfi_text_add(&w->outside, "%s\n", declaration);
}

void dfi_write_copy(dfi_writer *w, uint8_t dtype, int64_t n, const char *to, const char *from) {
  enum { AT_ONCE = 16 };
  const int32_t bytes = dfi_dtype_size[dtype];
  if (!n || !strcmp(to, from)) return;
  if (n > AT_ONCE) {
    dfi_declare(w, "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)");
    SAY(w, "  call void @llvm.memcpy.p0.p0.i64(ptr %s, ptr %s, i64 %lld, i1 false)\n", to, from, (long long)n * bytes);
    return;
  }
  const dfi_name v = dfi_temp(w);
  SAY(w, "  %s = load <%lld x %s>, ptr %s, align %d\n", v.s, (long long)n, dfi_type(dtype), from, bytes);
  SAY(w, "  store <%lld x %s> %s, ptr %s, align %d\n", (long long)n, dfi_type(dtype), v.s, to, bytes);
}

static const dfi_pnode *node_at(const dfi_look_loop *l, uint32_t i) { return l->nodes + i; }

/* ---- operands ------------------------------------------------------------------------------------- */

/* Arithmetic with 0 and 1 is not folded: where denormals are zero, x * 1 is not always x. */
static dfi_name opaque(dfi_writer *w, const char *type, const char *text) {
  const int32_t k = w->nopaque++;
  DECL(w, "  %%o%d.at = alloca %s\n  store volatile %s %s, ptr %%o%d.at\n  %%o%d = load volatile %s, ptr %%o%d.at\n", k,
       type, type, text, k, k, type, k);
  dfi_name n;
  snprintf(n.s, sizeof n.s, "%%o%d", k);
  return n;
}

static dfi_name literal(dfi_writer *w, const df_value *v) {
  dfi_name n;
  if (v->dtype == DF_FLOAT32 || v->dtype == DF_FLOAT64) {
    const double d = v->dtype == DF_FLOAT32 ? (double)v->as.f32 : v->as.f64;
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    snprintf(n.s, sizeof n.s, "0x%016llX", (unsigned long long)bits);
    return d == 0 || d == 1 || d == -1 ? opaque(w, dfi_type(v->dtype), n.s) : n;
  }
  switch (dfi_dtype_size[v->dtype]) {
    case 1: snprintf(n.s, sizeof n.s, "%d", v->as.i8); break;
    case 2: snprintf(n.s, sizeof n.s, "%d", v->as.i16); break;
    case 4: snprintf(n.s, sizeof n.s, "%d", v->as.i32); break;
    default: snprintf(n.s, sizeof n.s, "%lld", (long long)v->as.i64);
  }
  return n;
}

static dfi_name load(dfi_writer *w, uint8_t dtype, const char *cell) {
  dfi_name n = dfi_temp(w);
  SAY(w, "  %s = load %s, ptr %s\n", n.s, dfi_type(dtype), cell);
  return n;
}

/* The value of an operand of loop i, and its dtype. */
dfi_name dfi_write_operand(dfi_writer *w, int32_t i, dfi_operand o, uint8_t *dtype) {
  const dfi_look_loop *l = &w->look->loop[i];
  const uint32_t at = DFI_INDEX(o);
  const bool tensor = dfi_look_shape(w->look, i, o) != NULL;
  char cell[64];
  switch (DFI_SPACE(o)) {
    case DFI_ITERATION:
      *dtype = l->slot_dtype[at];
      if (tensor && *l->slot_alias[at].s) return l->slot_alias[at];
      if (l->slot_copy[at] >= 0) return literal(w, &w->look->plan->constant[l->slot_copy[at]]);
      snprintf(cell, sizeof cell, "%%v%d_%u", i, at);
      break;
    case DFI_FRAME:
      *dtype = l->const_dtype[at];
      if (!*dtype)
        dfi_unit_refuse(w->unit, NULL, "the loop `%s` reads a loop constant that is no number", l->scope->name);
      if (i == 0) w->unit->cell[l->scope->nenters + at].used = 1;
      if (tensor && *l->const_alias[at].s) return l->const_alias[at];
      snprintf(cell, sizeof cell, "%%c%d_%u", i, at);
      break;
    case DFI_CONSTANT:
      *dtype = w->look->plan->constant[at].dtype;
      if (tensor) {
        dfi_name n;
        snprintf(n.s, sizeof n.s, "inttoptr (i64 %llu to ptr)",
                 (unsigned long long)(uintptr_t)w->look->plan->constant[at].as.tensor->data);
        return n;
      }
      return literal(w, &w->look->plan->constant[at]);
    default: {
      const uint32_t g = dfi_look_given(w->look, o);
      if (at >= (uint32_t)w->look->plan->nfeed) { *dtype = DF_RESOURCE; return (dfi_name){ "0" }; }
      const df_output f = w->look->plan->feed[at];
      *dtype = dfi_dtype(f);
      if (!dfi_unboxed(*dtype) || (dfi_shape_at(f)->rank > 0 && !tensor))
        dfi_unit_refuse(w->unit, NULL, "the loop `%s` reads `%s`, which is no number", l->scope->name,
                        dfi_node_name(f.node));
      snprintf(cell, sizeof cell, "%%g%u", g);
    }
  }
  if (*dtype == DF_RESOURCE) return (dfi_name){ "0" };
  if (tensor) {
    dfi_name n;
    memcpy(n.s, cell, sizeof cell);
    return n;
  }
  return load(w, *dtype, cell);
}

/* What the place of a slot is called, whatever lies there. */
static dfi_name place_of(int32_t loop, uint32_t slot) {
  dfi_name n;
  snprintf(n.s, sizeof n.s, "%%v%d_%u", loop, slot);
  return n;
}

static void store(dfi_writer *w, uint8_t dtype, dfi_name v, int32_t loop, uint32_t slot) {
  const dfi_shape *tensor = w->look->loop[loop].slot_shape[slot];
  if (tensor) dfi_write_copy(w, dtype, dfi_shape_size(tensor), place_of(loop, slot).s, v.s);
  else if (dtype != DF_RESOURCE) SAY(w, "  store %s %s, ptr %%v%d_%u\n", dfi_type(dtype), v.s, loop, slot);
}

/* The slot holds what v is, a tensor, and does not change while that can be read; or a copy of a number. */
static void alias(dfi_writer *w, uint8_t dtype, dfi_name v, int32_t loop, uint32_t slot) {
  if (w->look->loop[loop].slot_shape[slot]) w->look->loop[loop].slot_alias[slot] = v;
  else store(w, dtype, v, loop, slot);
}

/* ---- counts and ways out ----------------------------------------------------------------------------- */

/* Of the nodes under condition g and those inside it: tokens that die when it does not hold, and Exits of loops that
   die with them. */
static int64_t dead_tokens(const dfi_look_loop *l, int32_t g) {
  int64_t n = 0;
  for (uint32_t i = 0; i < l->scope->n; i++)
    n += node_at(l, i)->kind != DFI_K_EXIT && dfi_guard_inside(l, l->node[i].guard, g);
  return n;
}
static int64_t dead_exits(const dfi_writer *w, int32_t loop, int32_t g) {
  int64_t n = 0;
  for (int32_t c = 0; c < w->look->nloops; c++)
    if (w->look->loop[c].parent == loop && dfi_guard_inside(&w->look->loop[loop], w->look->loop[c].guard_in_parent, g))
      n += w->look->loop[c].scope->nexits;
  return n;
}
static int64_t children_of(const dfi_writer *w, int32_t loop) {
  int64_t n = 0;
  for (int32_t c = 0; c < w->look->nloops; c++) n += w->look->loop[c].parent == loop;
  return n;
}

/* counter += n * each + more + *cell, and the cell is 0 again. */
static void count(dfi_writer *w, dfi_text *t, int32_t counter, const char *n, int64_t each, int64_t more,
                  const char *cell) {
  if (!each && !more && !cell) return;
  const int32_t k = w->ntemp;
  w->ntemp += 6;
  dfi_text_add(t, "  %%t%d = mul i64 %s, %lld\n  %%t%d = add i64 %%t%d, %lld\n", k, n, (long long)each, k + 1, k,
               (long long)more);
  dfi_text_add(t, "  %%t%d = getelementptr i64, ptr %%count, i64 %d\n  %%t%d = load i64, ptr %%t%d\n", k + 2, counter,
               k + 3, k + 2);
  dfi_text_add(t, "  %%t%d = add i64 %%t%d, %%t%d\n", k + 4, k + 3, k + 1);
  if (cell) {
    const int32_t m = w->ntemp;
    w->ntemp += 2;
    dfi_text_add(t,
                 "  %%t%d = load i64, ptr %s\n  %%t%d = add i64 %%t%d, %%t%d\n  store i64 0, ptr %s\n  store i64 "
                 "%%t%d, ptr %%t%d\n",
                 m, cell, m + 1, k + 4, m, cell, m + 1, k + 2);
  } else dfi_text_add(t, "  store i64 %%t%d, ptr %%t%d\n", k + 4, k + 2);
}

/* What loop i has done since it was last said, and the last iteration where it is over. */
static void flush(dfi_writer *w, dfi_text *t, int32_t i, bool last) {
  const dfi_look_loop *l = &w->look->loop[i];
  const int64_t children = children_of(w, i);
  char n[32], cell[3][32];
  static const char *const kind[] = { "died", "merged", "ended" };
  for (int32_t k = 0; k < 3; k++) snprintf(cell[k], sizeof cell[k], "%%all.%s%d", kind[k], i);
  const int32_t k = w->ntemp;
  w->ntemp += 3;
  dfi_text_add(t,
               "  %%t%d = load i64, ptr %%number%d\n  %%t%d = load i64, ptr %%since%d\n  %%t%d = sub i64 %%t%d, "
               "%%t%d\n  store i64 %%t%d, ptr %%since%d\n",
               k, i, k + 1, i, k + 2, k, k + 1, k, i);
  snprintf(n, sizeof n, "%%t%d", k + 2);
  const int64_t nodes = l->scope->n, exits = l->scope->nexits, on = l->go_on, off = l->go_on - 1;
  count(w, t, DFI_COUNT_TAKEN, n, nodes - exits, last ? nodes : 0, NULL);
  count(w, t, DFI_COUNT_DIED, n, dead_tokens(l, (int32_t)off), last ? dead_tokens(l, (int32_t)on) : 0, cell[0]);
  count(w, t, DFI_COUNT_MERGED, n, w->unit->loop[i].nvars, 0, cell[1]);
  count(w, t, DFI_COUNT_ENDED, n, dead_exits(w, i, (int32_t)off), last ? dead_exits(w, i, (int32_t)on) : 0, cell[2]);
  count(w, t, DFI_COUNT_FRAMES, n, children, last ? children : 0, NULL);
  count(w, t, DFI_COUNT_ITERATIONS, n, 1, 0, NULL);
  if (i == 0 || !last) {
    count(w, t, DFI_COUNT_PUSHES, "0", 0, 0, "%pushes");
    count(w, t, DFI_COUNT_POPS, "0", 0, 0, "%pops");
  }
}

static void save(dfi_writer *w, const char *type, const char *value, uint32_t cell) {
  const dfi_name n = dfi_temp(w);
  TAIL(w, "  %s = getelementptr i64, ptr %%out, i64 %u\n  store %s %s, ptr %s\n", n.s, cell, type, value, n.s);
}
static void save_cell(dfi_writer *w, uint8_t dtype, const dfi_shape *tensor, const char *from, uint32_t cell) {
  const dfi_name n = dfi_temp(w);
  if (tensor) {
    dfi_declare(w, "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)");
    TAIL(w, "  %s = getelementptr i64, ptr %%out, i64 %u\n", n.s, cell);
    TAIL(w, "  call void @llvm.memcpy.p0.p0.i64(ptr %s, ptr %s, i64 %lld, i1 false)\n", n.s, from,
         (long long)dfi_shape_size(tensor) * dfi_dtype_size[dtype]);
    return;
  }
  TAIL(w, "  %s = load %s, ptr %s\n", n.s, dfi_type(dtype), from);
  save(w, dfi_type(dtype), n.s, cell);
}

/* A block (label site<k>) that leaves the unit from inside loop i. */
static int32_t site_new(dfi_writer *w, int32_t i, bool failing) {
  dfi_unit *u = w->unit;
  u->site = dfi_xrealloc(u->site, sizeof *u->site * (size_t)(u->nsites + 1));
  dfi_site *s = &u->site[u->nsites];
  *s = (dfi_site){ .failing = failing };
  for (int32_t l = i; l >= 0; l = w->look->loop[l].parent) s->nlevels++;
  s->level = dfi_xcalloc((size_t)s->nlevels, sizeof *s->level);
  for (int32_t l = i, k = s->nlevels; l >= 0; l = w->look->loop[l].parent) s->level[--k].loop = l;
  uint32_t at = 0;
  TAIL(w, "site%d:\n", u->nsites);
  for (int32_t k = 0; k < s->nlevels; k++) {
    const int32_t l = s->level[k].loop;
    const dfi_nloop *v = &u->loop[l];
    char cell[48];
    flush(w, &w->tail, l, false);
    s->level[k].number = at++;
    snprintf(cell, sizeof cell, "%%number%d", l);
    save_cell(w, DF_INT64, NULL, cell, s->level[k].number);
    for (int32_t n = 0; n < v->nvars; n++) {
      const uint8_t dtype = v->var[n].enter->node->out[0].dtype;
      if (v->var[n].root < 0)
        save_cell(w, dtype, v->var[n].shape, place_of(l, v->var[n].enter->out).s, s->level[k].number + v->var[n].at);
      at += dfi_cells(dtype, v->var[n].shape);
    }
  }
  s->done = dfi_xmalloc(sizeof *s->done * (size_t)(w->ndone + 1));
  for (int32_t d = 0; d < w->ndone; d++) {
    dfi_done *e = &s->done[s->ndone++];
    *e = w->done[d];
    e->cell = at;
    const int32_t parent = s->level[e->level].loop;
    const uint32_t n = e->loop < 0 ? 1 : u->loop[e->loop].scope->nexits;
    for (uint32_t k = 0; k < n; k++) {
      const dfi_pnode *p = e->loop < 0 ? e->node : u->loop[e->loop].scope->exits[k];
      const uint8_t dtype = w->look->loop[parent].slot_dtype[p->out];
      const dfi_shape *tensor = w->look->loop[parent].slot_shape[p->out];
      if (dtype != DF_RESOURCE) save_cell(w, dtype, tensor, place_of(parent, p->out).s, at);
      if (e->loop < 0) e->shape = tensor;
      at += dfi_cells(dtype, tensor);
    }
  }
  if (at > w->nout) w->nout = at;
  TAIL(w, "  ret i32 %d\n", 1 + u->nsites);
  return u->nsites++;
}

void dfi_write_fail(dfi_writer *w, int32_t i, dfi_name condition) {
  if (w->dry) return;
  const int32_t s = site_new(w, i, true), k = w->nlabel++;
  SAY(w, "  br i1 %s, label %%site%d, label %%on%d, !prof !0\non%d:\n", condition.s, s, k, k);
}

/* How deep loop i lies. */
static int32_t level_of(const dfi_writer *w, int32_t i) {
  int32_t n = 0;
  while ((i = w->look->loop[i].parent) >= 0) n++;
  return n;
}

static void happened(dfi_writer *w, int32_t i, const dfi_pnode *p, int32_t loop) {
  w->done = dfi_xrealloc(w->done, sizeof *w->done * (size_t)(w->ndone + 1));
  w->done[w->ndone++] = (dfi_done){ .level = level_of(w, i), .node = p, .loop = loop };
}

/* ---- arrays ------------------------------------------------------------------------------------------ */

static const struct { const char *name, *type; int32_t at; } window[] = {
  { "low", "i64", 0 }, { "n", "i64", 8 }, { "data", "ptr", 16 }, { "state", "ptr", 24 }, { "mask", "i64", 32 },
  { "after", "i64", 40 },
};
enum { WINDOW = sizeof window / sizeof *window };

/* LLVM takes some 4 s for 200 places, 27 s for 400. */
static uint32_t access_new(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  enum { MOST = 200 };
  dfi_unit *u = w->unit;
  const uint32_t k = u->narrays++;
  if (u->narrays > MOST) dfi_unit_refuse(u, p, "its loop reads and writes arrays in more than %d places", MOST);
  u->access = dfi_xrealloc(u->access, sizeof *u->access * u->narrays);
  u->access[k].root = dfi_look_root(w->look, i, w->look->plan->operand[p->in]);
  u->access[k].node = p;
  u->access[k].shape = NULL;
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

/* Asks the runtime to do it, and learns where it was. */
static void write_slow(dfi_writer *w, int32_t i, uint32_t k, const dfi_name index, bool reads) {
  const dfi_name r = dfi_temp(w), bad = dfi_temp(w);
  SAY(w, "  %s = call i32 %%%s(ptr %%c, i64 %u, i64 %s)\n  %s = icmp eq i32 %s, 0\n", r.s,
      reads ? "do.read" : "do.write", k, index.s, bad.s, r.s);
  dfi_write_fail(w, i, bad);
  for (int32_t f = 0; f < WINDOW; f++) {
    const dfi_name at = dfi_temp(w), v = dfi_temp(w);
    SAY(w, "  %s = getelementptr i8, ptr %%a%u.at, i64 %d\n  %s = load %s, ptr %s\n  store %s %s, ptr %%a%u.%s\n", at.s,
        k, window[f].at, v.s, window[f].type, at.s, window[f].type, v.s, k, window[f].name);
  }
}

static void write_array(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const bool reads = dfi_is_read(p), again = !reads && p->node->attrs[0].i;
  const uint32_t k = access_new(w, i, p);
  const int32_t b = w->nlabel++;
  const dfi_operand *in = w->look->plan->operand + p->in;
  uint8_t dtype, index_dtype;
  dfi_name index = dfi_write_operand(w, i, in[1], &index_dtype), value = { "" };
  if (index_dtype == DF_INT32) {
    const dfi_name wide = dfi_temp(w);
    SAY(w, "  %s = sext i32 %s to i64\n", wide.s, index.s);
    index = wide;
  }
  if (reads) dtype = p->out_dtypes[0];
  else value = dfi_write_operand(w, i, in[2], &dtype);
  const dfi_shape *tensor = reads ? w->look->loop[i].slot_shape[p->out] : dfi_look_shape(w->look, i, in[2]);
  char type[40];
  if (tensor) snprintf(type, sizeof type, "[%lld x %s]", (long long)dfi_shape_size(tensor), dfi_type(dtype));
  else snprintf(type, sizeof type, "%s", dfi_type(dtype));
  if (tensor) {
    w->unit->access[k].shape = reads ? &p->node->out[0].shape : dfi_shape_at(p->node->in[2]);
    DECL(w, "  %%a%u.far = alloca %s, align 64\n", k, type);   /* calls see this alone: the rest can be registers */
  }
  const dfi_name rel = dfi_temp(w), inside = dfi_temp(w), masked = dfi_temp(w), at = dfi_temp(w), state = dfi_temp(w),
                 good = dfi_temp(w), cell = dfi_temp(w);
  const dfi_name low = window_field(w, k, 0), n = window_field(w, k, 1), data = window_field(w, k, 2),
                 states = window_field(w, k, 3), mask = window_field(w, k, 4);
  SAY(w,
      "  %s = sub i64 %s, %s\n  %s = icmp ult i64 %s, %s\n  br i1 %s, label %%near%d, label %%far%d, !prof "
      "!1\nnear%d:\n",
      rel.s, index.s, low.s, inside.s, rel.s, n.s, inside.s, b, b, b);
  SAY(w,
      "  %s = and i64 %s, %s\n  %s = getelementptr i8, ptr %s, i64 %s\n  %s = load i8, ptr %s\n  %s = icmp eq i8 %s, "
      "%d\n",
      masked.s, rel.s, mask.s, at.s, states.s, masked.s, state.s, at.s, good.s, state.s, reads ? 1 : 0);
  SAY(w, "  br i1 %s, label %%hit%d, label %%far%d, !prof !1\nhit%d:\n  %s = getelementptr %s, ptr %s, i64 %s\n",
      good.s, b, b, b, cell.s, type, data.s, rel.s);
  if (reads) {
    const dfi_name after = window_field(w, k, 5), byte = dfi_temp(w);
    store(w, dtype, tensor ? cell : load(w, dtype, cell.s), i, p->out);
    SAY(w, "  %s = trunc i64 %s to i8\n  store i8 %s, ptr %s\n", byte.s, after.s, byte.s, at.s);
  } else {
    const dfi_name size = dfi_temp(w), more = dfi_temp(w), grows = dfi_temp(w), now = dfi_temp(w);
    if (tensor) dfi_write_copy(w, dtype, dfi_shape_size(tensor), cell.s, value.s);
    else SAY(w, "  store %s %s, ptr %s\n", type, value.s, cell.s);
    SAY(w, "  store i8 1, ptr %s\n", at.s);
    SAY(w,
        "  %s = load i64, ptr %%a%u.size\n  %s = add i64 %s, 1\n  %s = icmp sgt i64 %s, %s\n  %s = select i1 %s, i64 "
        "%s, i64 %s\n  store i64 %s, ptr %%a%u.size\n",
        size.s, k, more.s, index.s, grows.s, more.s, size.s, now.s, grows.s, more.s, size.s, now.s, k);
  }
  SAY(w, "  br label %%had%d\nfar%d:\n", b, b);
  char far[32];
  snprintf(far, sizeof far, "%%a%u.far", k);
  if (tensor && !reads) dfi_write_copy(w, dtype, dfi_shape_size(tensor), far, value.s);
  if (tensor) SAY(w, "  store ptr %s, ptr %%value\n", far);
  else if (!reads) SAY(w, "  store %s %s, ptr %%value\n", type, value.s);
  write_slow(w, i, k, index, reads);
  if (reads && tensor) dfi_write_copy(w, dtype, dfi_shape_size(tensor), place_of(i, p->out).s, far);
  else if (reads) store(w, dtype, load(w, dtype, "%value"), i, p->out);
  SAY(w, "  br label %%had%d\nhad%d:\n", b, b);
  if (!again) {
    const dfi_name was = dfi_temp(w), is = dfi_temp(w);
    const char *cells = reads ? "%pops" : "%pushes";
    SAY(w, "  %s = load i64, ptr %s\n  %s = add i64 %s, %%a%u.counts\n  store i64 %s, ptr %s\n", was.s, cells, is.s,
        was.s, k, is.s, cells);
  }
  happened(w, i, p, -1);
}

/* ---- blocks ----------------------------------------------------------------------------------------------- */

static void write_loop(dfi_writer *w, int32_t i);

/* The tokens of a node that was written: who has all of its inputs now? */
static void deliver(dfi_writer *w, int32_t i, uint32_t from, uint32_t to) {
  dfi_look_loop *l = &w->look->loop[i];
  for (const dfi_edge *e = w->look->plan->edge + from, *end = w->look->plan->edge + to; e < end; e++)
    if ((e->to & 0xff) == DFI_TO_MERGE) l->node[e->node].missing &= ~(1 << ((e->to >> 8) & 1));  /* bits, for a Merge */
    else l->node[e->node].missing--;
}

static bool works_on_tensors(const dfi_writer *w, int32_t i, const dfi_pnode *p) {
  for (uint32_t k = 0; k < p->nin; k++) if (dfi_look_shape(w->look, i, w->look->plan->operand[p->in + k])) return true;
  return p->nout && w->look->loop[i].slot_shape[p->out];
}

static void write_node(dfi_writer *w, int32_t i, uint32_t number) {
  dfi_look_loop *l = &w->look->loop[i];
  const dfi_pnode *p = node_at(l, number);
  const dfi_operand *in = w->look->plan->operand + p->in;
  uint8_t dtype[3] = { 0 };
  dfi_name v[3];
  l->node[number].written = true;
  switch ((dfi_kind)p->kind) {
    case DFI_K_SWITCH:
      v[0] = dfi_write_operand(w, i, in[0], dtype);
      alias(w, dtype[0], v[0], i, p->out);
      alias(w, dtype[0], v[0], i, p->out + 1);
      deliver(w, i, p->edge[0], p->edge[3]);
      return;
    case DFI_K_ENTER: {
      const int32_t inner = dfi_loop_of(w->look, p->target);
      v[0] = dfi_write_operand(w, i, in[0], dtype);
      if (!p->constant) store(w, dtype[0], v[0], inner, p->out);
      else if (w->look->loop[inner].const_shape[p->out]) w->look->loop[inner].const_alias[p->out] = v[0];
      else if (w->look->loop[inner].const_dtype[p->out] && dtype[0] != DF_RESOURCE)
        SAY(w, "  store %s %s, ptr %%c%d_%u\n", dfi_type(dtype[0]), v[0].s, inner, p->out);
      w->look->loop[inner].enters_missing--;
      return;
    }
    case DFI_K_CONST:
      v[0] = dfi_write_operand(w, i, in[0], dtype);
      alias(w, p->out_dtypes[0], v[0], i, p->out);
      break;
    case DFI_K_NOOP: break;
    default:
      if (dfi_is_read(p) || dfi_is_write(p)) { write_array(w, i, p); break; }
      if (l->node[number].called) { dfi_write_call(w, i, p); break; }
      if (works_on_tensors(w, i, p)) {
        if (dfi_is_alias(p)) alias(w, p->out_dtypes[0], dfi_write_operand(w, i, in[0], dtype), i, p->out);
        else dfi_write_tensor_op(w, i, p);
        break;
      }
      if (dfi_is_sum(p)) {
        v[0] = dfi_write_operand(w, i, in[0], dtype);
        for (uint32_t k = 1; k < p->nin; k++)
          v[0] = dfi_write_sum(w, dtype[0], v[0], dfi_write_operand(w, i, in[k], dtype));
        store(w, dtype[0], v[0], i, p->out);
        break;
      }
      for (uint32_t k = 0; k < 3 && k < p->nin; k++) v[k] = dfi_write_operand(w, i, in[k], &dtype[k]);
      store(w, p->out_dtypes[0], dfi_write_op(w, i, p, v, dtype), i, p->out);
  }
  deliver(w, i, p->edge[0], p->edge[1]);
}

static bool can_write(const dfi_look_loop *l, uint32_t n) {
  const dfi_kind k = l->nodes[n].kind;
  return !l->node[n].written && !l->node[n].missing && k != DFI_K_MERGE && k != DFI_K_NEXT && k != DFI_K_EXIT;
}
static bool can_join(const dfi_look_loop *l, uint32_t n) {
  return l->nodes[n].kind == DFI_K_MERGE && !l->node[n].written && l->node[n].sides == 3;
}
/* Can a Merge be given its value under condition g? Its side, or -1. */
static int32_t can_give(const dfi_look_loop *l, uint32_t n, int32_t g) {
  const dfi_look_node *m = &l->node[n];
  if (l->nodes[n].kind != DFI_K_MERGE) return -1;
  for (int32_t k = 0; k < 2; k++) if (m->input[k] == g && !(m->sides >> k & 1) && !(m->missing >> k & 1)) return k;
  return -1;
}
static bool can_enter(const dfi_writer *w, int32_t c, int32_t parent) {
  const dfi_look_loop *l = &w->look->loop[c];
  return l->parent == parent && !l->written && !l->enters_missing;
}

/* Is there something to write under condition g or inside it? */
static bool pending(const dfi_writer *w, int32_t i, int32_t g) {
  const dfi_look_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++) {
    if ((can_write(l, n) || can_join(l, n)) && dfi_guard_inside(l, l->node[n].guard, g)) return true;
    if (l->nodes[n].kind != DFI_K_MERGE) continue;
    for (int32_t k = 0; k < 2; k++)
      if (can_give(l, n, l->node[n].input[k]) >= 0 && dfi_guard_inside(l, l->node[n].input[k], g)) return true;
  }
  for (int32_t c = 0; c < w->look->nloops; c++)
    if (can_enter(w, c, i) && dfi_guard_inside(l, w->look->loop[c].guard_in_parent, g)) return true;
  return false;
}

static dfi_name truth(dfi_writer *w, int32_t i, dfi_operand pred) {
  uint8_t dtype;
  const dfi_name v = dfi_write_operand(w, i, pred, &dtype), t = dfi_temp(w);
  SAY(w, "  %s = icmp ne %s %s, 0\n", t.s, dfi_type(dtype), v.s);
  return t;
}

static void add_to(dfi_writer *w, const char *cell, int32_t i, int64_t n) {
  if (!n) return;
  const dfi_name was = dfi_temp(w), is = dfi_temp(w);
  SAY(w, "  %s = load i64, ptr %%now.%s%d\n  %s = add i64 %s, %lld\n  store i64 %s, ptr %%now.%s%d\n", was.s, cell, i,
      is.s, was.s, (long long)n, is.s, cell, i);
}

static void write_block(dfi_writer *w, int32_t i, int32_t g);

/* One side of a condition: what is alive there, and what it gives to Merges. */
static void write_side(dfi_writer *w, int32_t i, int32_t g, bool first) {
  if (first) {
    const int32_t other = w->look->loop[i].guard[g].side ? g - 1 : g + 1;
    add_to(w, "died", i, dead_tokens(&w->look->loop[i], other));
    add_to(w, "ended", i, dead_exits(w, i, other));
  }
  write_block(w, i, g);
  dfi_look_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++) {
    const int32_t k = can_give(l, n, g);
    if (k < 0) continue;
    const dfi_pnode *m = node_at(l, n);
    uint8_t dtype;
    const dfi_name v = dfi_write_operand(w, i, w->look->plan->operand[m->in + (uint32_t)k], &dtype);
    store(w, dtype, v, i, m->out);
    SAY(w, "  store i32 %d, ptr %%v%d_%u\n", k, i, m->out + 1);
    l->node[n].sides |= (uint8_t)(1 << k);
  }
}

static void write_branch(dfi_writer *w, int32_t i, int32_t pair) {
  const int32_t b = w->nlabel++;
  const bool first = !w->look->loop[i].guard[pair].begun;     /* a cond may be written in several pieces */
  w->look->loop[i].guard[pair].begun = true;
  const dfi_name t = truth(w, i, w->look->loop[i].guard[pair].pred);
  SAY(w, "  br i1 %s, label %%true%d, label %%false%d\ntrue%d:\n", t.s, b, b, b);
  write_side(w, i, pair + 1, first);
  SAY(w, "  br label %%join%d\nfalse%d:\n", b, b);
  write_side(w, i, pair, first);
  SAY(w, "  br label %%join%d\njoin%d:\n", b, b);
}

/* All that is alive under condition g, as far as its inputs are there. */
static void write_block(dfi_writer *w, int32_t i, int32_t g) {
  for (bool more = true; more && !w->unit->reason;) {
    more = false;
    dfi_look_loop *l = &w->look->loop[i];
    for (uint32_t n = 0; n < l->scope->n; n++) {
      if (l->node[n].guard != g) continue;
      if (can_write(l, n)) { write_node(w, i, n); more = true; }
      else if (can_join(l, n)) {
        l->node[n].written = more = true;
        deliver(w, i, l->nodes[n].edge[0], l->nodes[n].edge[1]);
      }
    }
    for (int32_t c = 0; c < w->look->nloops && !more; c++)
      if (can_enter(w, c, i) && w->look->loop[c].guard_in_parent == g) { write_loop(w, c); more = true; }
    for (int32_t pair = 1; pair < l->nguards && !more; pair += 2)
      if (l->guard[pair].parent == g && pair + 1 != l->go_on && (pending(w, i, pair) || pending(w, i, pair + 1))) {
        write_branch(w, i, pair);
        more = true;
      }
  }
}

/* ---- loops -------------------------------------------------------------------------------------------------- */

static void declare_loop(dfi_writer *w, int32_t i) {
  const dfi_look_loop *l = &w->look->loop[i];
  for (uint32_t s = 0; s < l->scope->nslots; s++)
    if (l->slot_shape[s])
      DECL(w, "  %%v%d_%u = alloca [%lld x %s], align 64\n", i, s, (long long)dfi_shape_size(l->slot_shape[s]),
           dfi_type(l->slot_dtype[s]));
    else if (l->slot_dtype[s] && l->slot_dtype[s] != DF_RESOURCE && l->slot_copy[s] < 0)
      DECL(w, "  %%v%d_%u = alloca %s\n", i, s, dfi_type(l->slot_dtype[s]));
  for (uint32_t s = 0; s < l->scope->nconsts; s++)
    if (l->const_dtype[s] && l->const_dtype[s] != DF_RESOURCE && !l->const_shape[s])
      DECL(w, "  %%c%d_%u = alloca %s\n", i, s, dfi_type(l->const_dtype[s]));
  DECL(w, "  %%number%d = alloca i64\n  %%since%d = alloca i64\n", i, i);
  static const char *const kind[] = { "died", "merged", "ended" };
  for (int32_t k = 0; k < 3; k++)
    DECL(w, "  %%all.%s%d = alloca i64\n  store i64 0, ptr %%all.%s%d\n  %%now.%s%d = alloca i64\n", kind[k], i,
         kind[k], i, kind[k], i);
}

/* This iteration's dead tokens are counted now that it is done. */
static void commit(dfi_writer *w, int32_t i) {
  static const char *const kind[] = { "died", "merged", "ended" };
  for (int32_t k = 0; k < 3; k++) {
    const int32_t t = w->ntemp;
    w->ntemp += 3;
    SAY(w,
        "  %%t%d = load i64, ptr %%now.%s%d\n  %%t%d = load i64, ptr %%all.%s%d\n  %%t%d = add i64 %%t%d, %%t%d\n  "
        "store i64 %%t%d, ptr %%all.%s%d\n",
        t, kind[k], i, t + 1, kind[k], i, t + 2, t, t + 1, t + 2, kind[k], i);
  }
}

/* Is it the place of a variable, which the next iteration's values go to one by one? */
static bool is_variable(const dfi_nloop *v, int32_t i, dfi_name name) {
  for (int32_t k = 0; k < v->nvars; k++) if (!strcmp(name.s, place_of(i, v->var[k].enter->out).s)) return true;
  return false;
}
static dfi_name set_aside(dfi_writer *w, uint8_t dtype, const dfi_shape *s, dfi_name from) {
  const dfi_name to = dfi_temp(w);
  DECL(w, "  %s = alloca [%lld x %s], align 64\n", to.s, (long long)dfi_shape_size(s), dfi_type(dtype));
  dfi_write_copy(w, dtype, dfi_shape_size(s), to.s, from.s);
  return to;
}

static void write_next(dfi_writer *w, int32_t i) {
  const dfi_nloop *v = &w->unit->loop[i];
  dfi_name *value = dfi_xmalloc(sizeof *value * (size_t)(v->nvars + 1));
  uint8_t dtype;
  for (int32_t k = 0; k < v->nvars; k++) {
    value[k] = dfi_write_operand(w, i, w->look->plan->operand[v->var[k].next->in], &dtype);
    if (v->var[k].shape && is_variable(v, i, value[k]) && strcmp(value[k].s, place_of(i, v->var[k].enter->out).s))
      value[k] = set_aside(w, dtype, v->var[k].shape, value[k]);
  }
  for (int32_t k = 0; k < v->nvars; k++) store(w, v->var[k].next->out_dtypes[0], value[k], i, v->var[k].enter->out);
  dfi_free(value);
}

static void write_exits(dfi_writer *w, int32_t i) {
  const dfi_look_loop *l = &w->look->loop[i];
  uint32_t at = 0;
  for (uint32_t k = 0; k < l->scope->nexits; k++) {
    const dfi_pnode *p = l->scope->exits[k];
    uint8_t dtype;
    const dfi_name v = dfi_write_operand(w, i, w->look->plan->operand[p->in], &dtype);
    const uint32_t cell = at;
    const dfi_shape *tensor = w->unit->loop[i].exit_shape[k];
    at += dfi_cells(dtype, tensor);
    if (dtype == DF_RESOURCE) continue;
    if (l->parent >= 0) { store(w, dtype, v, l->parent, p->out); continue; }
    const dfi_name to = dfi_temp(w);
    SAY(w, "  %s = getelementptr i64, ptr %%out, i64 %u\n", to.s, cell);
    if (tensor) dfi_write_copy(w, dtype, dfi_shape_size(tensor), to.s, v.s);
    else SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s, to.s);
  }
  if (l->parent < 0 && at > w->nout) w->nout = at;
}

/* Were all nodes of the loop written, and is what its ends wait for there? */
static void check_written(dfi_writer *w, int32_t i) {
  const dfi_look_loop *l = &w->look->loop[i];
  for (uint32_t n = 0; n < l->scope->n; n++)
    if (l->nodes[n].kind == DFI_K_NEXT || l->nodes[n].kind == DFI_K_EXIT ? l->node[n].missing != 0
                                                                         : !l->node[n].written)
      dfi_unit_refuse(w->unit, &l->nodes[n], "no order was found in which it can run");
}

/* Of an iteration, in the units of the budget: some nanoseconds each. */
static int32_t cost_of(const dfi_look_loop *l) {
  enum { NODES = 16, ELEMENTS = 8, CALL = 200 };
  int64_t elements = 0;
  for (uint32_t s = 0; s < l->scope->nslots; s++) if (l->slot_shape[s]) elements += dfi_shape_size(l->slot_shape[s]);
  return 1 + (int32_t)l->scope->n / NODES + (int32_t)(elements / ELEMENTS) + CALL * l->calls;
}

static void write_loop(dfi_writer *w, int32_t i) {
  const int32_t mark = w->ndone, go_on = w->look->loop[i].go_on, cost = cost_of(&w->look->loop[i]);
  w->look->loop[i].written = true;
  if (i > 0) {
    SAY(w, "  store i64 0, ptr %%number%d\n  store i64 0, ptr %%since%d\n", i, i);
    const int32_t parent = w->look->loop[i].parent;
    add_to(w, "merged", parent, w->unit->loop[i].nvars);
  }
  SAY(w, "  br label %%head%d\nhead%d:\n", i, i);
  SAY(w, "  store i64 0, ptr %%now.died%d\n  store i64 0, ptr %%now.merged%d\n  store i64 0, ptr %%now.ended%d\n", i, i,
      i);
  for (int32_t k = 0; k < w->unit->loop[i].nvars; k++)
    deliver(w, i, w->unit->loop[i].var[k].enter->edge[0], w->unit->loop[i].var[k].enter->edge[1]);
  write_block(w, i, 0);
  const dfi_name t = truth(w, i, w->look->loop[i].guard[go_on].pred);
  SAY(w, "  br i1 %s, label %%body%d, label %%exit%d\nbody%d:\n", t.s, i, i, i);
  write_block(w, i, go_on);
  write_next(w, i);
  commit(w, i);
  const int32_t k = w->ntemp;
  w->ntemp += 5;
  SAY(w, "  %%t%d = load i64, ptr %%number%d\n  %%t%d = add i64 %%t%d, 1\n  store i64 %%t%d, ptr %%number%d\n", k, i,
      k + 1, k, k + 1, i);
  SAY(w,
      "  %%t%d = load i64, ptr %%budget\n  %%t%d = sub i64 %%t%d, %d\n  store i64 %%t%d, ptr %%budget\n  %%t%d = icmp "
      "slt i64 %%t%d, 0\n",
      k + 2, k + 3, k + 2, cost, k + 3, k + 4, k + 3);
  SAY(w, "  br i1 %%t%d, label %%poll%d, label %%head%d, !prof !0\npoll%d:\n", k + 4, i, i, i);
  flush(w, &w->body, i, false);
  w->ndone = mark;                  /* another iteration: nothing of it has been done */
  const int32_t site = site_new(w, i, false);
  const dfi_name more = dfi_temp(w), leave = dfi_temp(w);
  SAY(w,
      "  %s = call i64 %%do.poll(ptr %%c)\n  store i64 %s, ptr %%budget\n  %s = icmp slt i64 %s, 0\n  br i1 %s, label "
      "%%site%d, label %%head%d\nexit%d:\n",
      more.s, more.s, leave.s, more.s, leave.s, site, i, i);
  write_block(w, i, go_on - 1);
  write_exits(w, i);
  commit(w, i);
  flush(w, &w->body, i, true);
  check_written(w, i);
  w->ndone = mark;
  if (i == 0) {
    const dfi_name n = dfi_temp(w), at = dfi_temp(w);
    SAY(w,
        "  %s = load i64, ptr %%number0\n  %s = getelementptr i8, ptr %%c, i64 %d\n  store i64 %s, ptr %s\n  ret i32 "
        "0\n",
        n.s, at.s, DFI_AT_NUMBER, n.s, at.s);
    return;
  }
  const int32_t parent = w->look->loop[i].parent;
  for (uint32_t e = 0; e < w->look->loop[i].scope->nexits; e++)
    deliver(w, parent, w->look->loop[i].scope->exits[e]->edge[0], w->look->loop[i].scope->exits[e]->edge[1]);
  happened(w, parent, NULL, i);
}

/* ---- the unit ------------------------------------------------------------------------------------------------ */

/* A variable's first value is copied to its place. */
static void enter_tensor(dfi_writer *w, uint8_t dtype, const dfi_shape *s, const char *to, uint32_t k) {
  dfi_declare(w, "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)");
  DECL(w, "  call void @llvm.memcpy.p0.p0.i64(ptr %s, ptr %%inp%u, i64 %lld, i1 false)\n", to, k,
       (long long)dfi_shape_size(s) * dfi_dtype_size[dtype]);
}

/* The cells that are read when it is entered. */
static void write_cells(dfi_writer *w) {
  dfi_unit *u = w->unit;
  const dfi_look_loop *l = &w->look->loop[0];
  const dfi_scope *s = l->scope;
  for (uint32_t k = 0; k < u->ncells; k++) {
    char to[48];
    dfi_cell *c = &u->cell[k];
    if (k < s->nenters) {
      if (s->enters[k]->constant) continue;
      *c = (dfi_cell){ 1, s->enters[k]->node->out[0].dtype == DF_RESOURCE, s->enters[k]->node->out[0].dtype,
                       l->slot_shape[s->enters[k]->out] };
      snprintf(to, sizeof to, "%%v0_%u", s->enters[k]->out);
    } else if (k < s->nenters + s->nconsts) {
      const uint32_t at = k - s->nenters;
      c->dtype = l->const_dtype[at];
      c->handle = c->dtype == DF_RESOURCE;
      c->shape = l->const_shape[at];
      if (!c->used || c->handle) continue;
      snprintf(to, sizeof to, "%%c0_%u", at);
    } else {
      const dfi_operand o = w->look->given[k - s->nenters - s->nconsts];
      if (DFI_INDEX(o) >= (uint32_t)w->look->plan->nfeed) continue;
      *c = (dfi_cell){ 1, 0, dfi_dtype(w->look->plan->feed[DFI_INDEX(o)]), dfi_look_shape(w->look, 0, o) };
      snprintf(to, sizeof to, "%%g%u", k - s->nenters - s->nconsts);
      if (!c->shape) DECL(w, "  %s = alloca %s\n", to, dfi_type(c->dtype));
    }
    if (c->handle) continue;
    if (c->shape) {
      const bool copied = k < s->nenters;                 /* a variable's first value */
      const char *at = copied ? "%inp" : to;
      DECL(w, "  %%in%u.at = getelementptr i64, ptr %%in, i64 %u\n", k, k);
      if (copied) DECL(w, "  %s%u = load ptr, ptr %%in%u.at\n", at, k, k);
      else DECL(w, "  %s = load ptr, ptr %%in%u.at\n", at, k);
      if (copied) enter_tensor(w, c->dtype, c->shape, to, k);
      continue;
    }
    DECL(w,
         "  %%in%u.at = getelementptr i64, ptr %%in, i64 %u\n  %%in%u = load %s, ptr %%in%u.at\n  store %s %%in%u, ptr "
         "%s\n",
         k, k, k, dfi_type(c->dtype), k, dfi_type(c->dtype), k, to);
  }
}

static void write_field(dfi_writer *w, const char *name, int32_t at, const char *type) {
  DECL(w, "  %%%s.at = getelementptr i8, ptr %%c, i64 %d\n  %%%s = load %s, ptr %%%s.at\n", name, at, name, type, name);
}

static void write_unit(dfi_writer *w) {
  dfi_unit *u = w->unit;
  const dfi_scope *s = u->scope;
  for (int32_t i = 0; i < w->look->nloops; i++) declare_loop(w, i);
  write_loop(w, 0);
  u->ncells = s->nenters + s->nconsts + w->look->ngiven;
  u->cell = dfi_xrealloc(u->cell, sizeof *u->cell * (u->ncells + 1));
  memset(u->cell + s->nenters + s->nconsts, 0, sizeof *u->cell * (w->look->ngiven + 1));
  for (int32_t r = 0; r < u->nroots; r++) u->cell[u->root[r].cell].used = 1;
  write_cells(w);
  dfi_text *t = &u->text;
  dfi_text_add(t, "; %s, %u nodes in its body, %d loops\n", s->name, s->n, u->nloops);
  dfi_text_add(t, "define i32 @%s(ptr %%c) #0 {\nentry:\n", u->symbol);
  static const struct { const char *name; void *at; } fn[] = {
    { "do.poll", (void *)dfi_native_poll }, { "do.read", (void *)dfi_native_read },
    { "do.write", (void *)dfi_native_write }, { "do.call", (void *)dfi_native_call },
  };
  for (size_t k = 0; k < sizeof fn / sizeof *fn; k++)
    dfi_text_add(t, "  %%%s = inttoptr i64 %llu to ptr\n", fn[k].name, (unsigned long long)(uintptr_t)fn[k].at);
  dfi_writer head = { .look = w->look, .unit = u };
  write_field(&head, "in", DFI_AT_IN, "ptr");
  write_field(&head, "out", DFI_AT_OUT, "ptr");
  write_field(&head, "count", DFI_AT_COUNT, "ptr");
  write_field(&head, "access", DFI_AT_ACCESS, "ptr");
  write_field(&head, "budget0", DFI_AT_BUDGET, "i64");
  write_field(&head, "first", DFI_AT_NUMBER, "i64");
  dfi_text_add(t, "%.*s", (int)head.decl.n, head.decl.at);
  dfi_free(head.decl.at);
  dfi_text_add(
      t,
      "  %%value = getelementptr i8, ptr %%c, i64 %d\n  %%budget = alloca i64\n  store i64 %%budget0, ptr %%budget\n",
      DFI_AT_VALUE);
  dfi_text_add(
      t, "  %%pushes = alloca i64\n  store i64 0, ptr %%pushes\n  %%pops = alloca i64\n  store i64 0, ptr %%pops\n");
  for (int32_t k = 0; k < 4; k++)
    dfi_text_add(t, "  %%x%d = alloca [16 x i8], align 16\n  %%x%d.as = getelementptr i8, ptr %%x%d, i64 8\n", k, k, k);
  dfi_text_add(t, "%.*s  store i64 %%first, ptr %%number0\n  store i64 %%first, ptr %%since0\n", (int)w->decl.n,
               w->decl.at ? w->decl.at : "");
  dfi_text_add(t, "%.*s%.*s}\n", (int)w->body.n, w->body.at, (int)w->tail.n, w->tail.at ? w->tail.at : "");
  if (w->outside.at) dfi_text_add(t, "%s", w->outside.at);
  dfi_text_add(t, "attributes #0 = { nounwind \"denormal-fp-math\"=\"preserve-sign,preserve-sign\" }\n!0 = "
                  "!{!\"branch_weights\", i32 1, i32 100000}\n");
  dfi_text_add(t, "!1 = !{!\"branch_weights\", i32 100000, i32 1}\n");
}

/* Counts of missing inputs, once more. */
static void begin_again(dfi_writer *w) {
  for (int32_t i = 0; i < w->look->nloops; i++) {
    dfi_look_loop *l = &w->look->loop[i];
    dfi_look_count(l, w->look->plan);
    for (uint32_t n = 0; n < l->scope->n; n++) if (l->nodes[n].kind == DFI_K_MERGE) l->node[n].missing = 3;
    l->enters_missing = (int32_t)l->scope->nenters;
  }
}

bool dfi_unit_write(dfi_unit *u) {
  enum { NODES_AT_MOST = 3000 };
  if (u->scope->n > NODES_AT_MOST)
    return dfi_unit_refuse(u, NULL, "its body has %u nodes, more than %d", u->scope->n, NODES_AT_MOST);
  dfi_look look = { .unit = u };
  if (dfi_look_at(&look)) {
    dfi_writer w = { .look = &look, .unit = u };
    u->cell = dfi_xcalloc(u->scope->nenters + u->scope->nconsts + 1, sizeof *u->cell);
    begin_again(&w);
    write_unit(&w);
    u->nout = w.nout;
    u->given = look.given; u->ngiven = look.ngiven;
    look.given = NULL;
    dfi_free(w.decl.at); dfi_free(w.body.at); dfi_free(w.tail.at); dfi_free(w.outside.at);
    dfi_free(w.done);
  }
  dfi_look_free(&look);
  return !u->reason;
}

void dfi_unit_free(dfi_unit *u) {
  for (uint32_t i = 0; i < u->ncalls; i++) dfi_free(u->call[i].shape);
  dfi_free(u->call);
  for (int32_t i = 0; i < u->nsites; i++) { dfi_free(u->site[i].level); dfi_free(u->site[i].done); }
  for (int32_t i = 0; i < u->nloops; i++) {
    dfi_free(u->loop[i].var);
    dfi_free(u->loop[i].exit_root);
    dfi_free(u->loop[i].exit_shape);
  }
  dfi_free(u->site);
  dfi_free(u->loop);
  dfi_free(u->cell);
  dfi_free(u->given);
  dfi_free(u->root);
  dfi_free(u->access);
  dfi_free(u->text.at);
  dfi_free(u->reason);
}
