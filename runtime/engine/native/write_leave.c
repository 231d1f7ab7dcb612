/* write_leave.c: counts, and the ways out of a unit: what has been counted is told, what has been computed is saved.
 *
 * Counts are those that the token engine would have: most follow from the number of iterations.
 */
#include "engine/native/write.h"
#include <stdio.h>

/* Of the nodes under condition g and those inside it: tokens that die when it does not hold, and Exits of loops that
   die with them. */
int64_t dfi_dead_tokens(const dfi_analyze_loop *l, int32_t g) {
  int64_t n = 0;
  for (uint32_t i = 0; i < l->scope->n; i++)
    n += l->nodes[i].kind != DFI_K_EXIT && dfi_guard_inside(l, l->node[i].guard, g);
  return n;
}
int64_t dfi_dead_exits(const dfi_writer *w, int32_t loop, int32_t g) {
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

void dfi_write_add(dfi_writer *w, const char *cell, int32_t i, int64_t n) {
  if (!n) return;
  const dfi_name was = dfi_temp(w), is = dfi_temp(w);
  SAY(w, "  %s = load i64, ptr %%now.%s%d\n  %s = add i64 %s, %lld\n  store i64 %s, ptr %%now.%s%d\n", was.s, cell, i,
      is.s, was.s, (long long)n, is.s, cell, i);
}

bool dfi_tokens_vary(const dfi_writer *w, int32_t i) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  return l->nguards > (l->go_on < 0 ? 1 : 3) || children_of(w, i);
}

/* counter += n * each + more + *cell, and the cell is 0 again. n: NULL: none. */
static void count(dfi_writer *w, dfi_text *t, int32_t counter, const char *n, int64_t each, int64_t more,
                  const char *cell) {
  if (!each && !more && !cell) return;
  const dfi_name at = dfi_temp(w), was = dfi_temp(w);
  dfi_name is = was;
  dfi_text_add(t, "  %s = getelementptr i64, ptr %%count, i64 %d\n  %s = load i64, ptr %s\n", at.s, counter, was.s,
               at.s);
  if (each) {
    const dfi_name by = dfi_temp(w), sum = dfi_temp(w);
    dfi_text_add(t, "  %s = mul i64 %s, %lld\n  %s = add i64 %s, %s\n", by.s, n, (long long)each, sum.s, is.s, by.s);
    is = sum;
  }
  if (more) {
    const dfi_name sum = dfi_temp(w);
    dfi_text_add(t, "  %s = add i64 %s, %lld\n", sum.s, is.s, (long long)more);
    is = sum;
  }
  if (cell) {
    const dfi_name had = dfi_temp(w), sum = dfi_temp(w);
    dfi_text_add(t, "  %s = load i64, ptr %s\n  %s = add i64 %s, %s\n  store i64 0, ptr %s\n", had.s, cell, sum.s, is.s,
                 had.s, cell);
    is = sum;
  }
  dfi_text_add(t, "  store i64 %s, ptr %s\n", is.s, at.s);
}

/* What loop i has done since it was last said, and the last iteration where it is over. */
void dfi_write_counts(dfi_writer *w, dfi_text *t, int32_t i, bool last) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const int64_t children = children_of(w, i);
  char n[32], room[3][32];
  const char *cell[3] = { NULL };
  static const char *const kind[] = { "died", "merged", "ended" };
  for (int32_t k = 0; k < 3 && dfi_tokens_vary(w, i); k++) {
    snprintf(room[k], sizeof room[k], "%%all.%s%d", kind[k], i);
    cell[k] = room[k];
  }
  const int32_t k = w->ntemp;
  w->ntemp += 3;
  dfi_text_add(t,
               "  %%t%d = load i64, ptr %%number%d\n  %%t%d = load i64, ptr %%since%d\n  %%t%d = sub i64 %%t%d, "
               "%%t%d\n  store i64 %%t%d, ptr %%since%d\n",
               k, i, k + 1, i, k + 2, k, k + 1, k, i);
  snprintf(n, sizeof n, "%%t%d", k + 2);
  const int64_t nodes = l->scope->n, exits = l->scope->nexits, on = l->go_on, off = l->go_on - 1;
  count(w, t, DFI_COUNT_TAKEN, n, nodes - exits, last ? nodes : 0, NULL);
  count(w, t, DFI_COUNT_DIED, n, dfi_dead_tokens(l, (int32_t)off), last ? dfi_dead_tokens(l, (int32_t)on) : 0, cell[0]);
  count(w, t, DFI_COUNT_MERGED, n, w->unit->loop[i].nvars, 0, cell[1]);
  count(w, t, DFI_COUNT_ENDED, n, dfi_dead_exits(w, i, (int32_t)off),
        last ? dfi_dead_exits(w, i, (int32_t)on) : 0, cell[2]);
  count(w, t, DFI_COUNT_FRAMES, n, children, last ? children : 0, NULL);
  count(w, t, DFI_COUNT_ITERATIONS, n, 1, 0, NULL);
  if ((i == 0 || !last) && w->unit->nroots) {
    count(w, t, DFI_COUNT_PUSHES, NULL, 0, 0, "%pushes");
    count(w, t, DFI_COUNT_POPS, NULL, 0, 0, "%pops");
  }
}

void dfi_write_top_counts(dfi_writer *w) {
  count(w, &w->body, DFI_COUNT_TAKEN, NULL, 0, w->look->loop[0].scope->n, NULL);
  if (dfi_tokens_vary(w, 0)) count(w, &w->body, DFI_COUNT_DIED, NULL, 0, 0, "%now.died0");
}

void dfi_write_function_counts(dfi_writer *w) {
  const int32_t i = w->function;
  const bool vary = dfi_tokens_vary(w, i);
  static const char *const kind[] = { "died", "merged", "ended" };
  char cell[3][32];
  for (int32_t k = 0; k < 3; k++) snprintf(cell[k], sizeof cell[k], "%%now.%s%d", kind[k], i);
  count(w, &w->body, DFI_COUNT_TAKEN, NULL, 0, w->look->loop[i].scope->n, NULL);
  count(w, &w->body, DFI_COUNT_DIED, NULL, 0, 0, vary ? cell[0] : NULL);
  count(w, &w->body, DFI_COUNT_MERGED, NULL, 0, 0, vary ? cell[1] : NULL);
  count(w, &w->body, DFI_COUNT_ENDED, NULL, 0, 0, vary ? cell[2] : NULL);
  count(w, &w->body, DFI_COUNT_FRAMES, NULL, 0, 1 + children_of(w, i), NULL);
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
int32_t dfi_write_site(dfi_writer *w, int32_t i, bool failing) {
  dfi_unit *u = w->unit;
  u->site = dfi_xrealloc(u->site, sizeof *u->site * (size_t)(u->nsites + 1));
  dfi_site *s = &u->site[u->nsites];
  *s = (dfi_site){ .failing = failing };
  if (!u->scope->id || w->function) {    /* of a top level, or a call, nothing is told: it is begun again */
    TAIL(w, "site%d:\n  ret i32 1\n", u->nsites);
    return u->nsites++;
  }
  for (int32_t l = i; l >= 0; l = w->look->loop[l].parent) s->nlevels++;
  s->level = dfi_xcalloc((size_t)s->nlevels, sizeof *s->level);
  for (int32_t l = i, k = s->nlevels; l >= 0; l = w->look->loop[l].parent) s->level[--k].loop = l;
  uint32_t at = 0;
  TAIL(w, "site%d:\n", u->nsites);
  for (int32_t k = 0; k < s->nlevels; k++) {
    const int32_t l = s->level[k].loop;
    const dfi_nloop *v = &u->loop[l];
    char cell[48];
    if (failing || l != i) dfi_write_counts(w, &w->tail, l, false);      /* else they have been told */
    s->level[k].number = at++;
    snprintf(cell, sizeof cell, "%%number%d", l);
    save_cell(w, DF_INT64, NULL, cell, s->level[k].number);
    for (int32_t n = 0; n < v->nvars; n++) {
      const uint8_t dtype = v->var[n].enter->node->out[0].dtype;
      if (v->var[n].root < 0 && !v->var[n].in_place)
        save_cell(w, dtype, v->var[n].shape, dfi_write_place(l, v->var[n].enter->out).s,
                  s->level[k].number + v->var[n].at);
      at += dfi_variable_cells(v, n);
    }
  }
  s->done = dfi_xmalloc(sizeof *s->done * (size_t)(w->ndone + 1));
  for (int32_t d = 0; d < w->ndone; d++) {
    dfi_done *e = &s->done[s->ndone++];
    *e = w->done[d];
    e->cell = at;
    const int32_t parent = s->level[e->level].loop;
    const uint32_t n = e->loop < 0 ? e->node->nout : u->loop[e->loop].scope->nexits;
    for (uint32_t k = 0; k < n; k++) {
      const uint32_t slot = e->loop < 0 ? e->node->out + k : u->loop[e->loop].scope->exits[k]->out;
      const uint8_t dtype = w->look->loop[parent].slot_dtype[slot];
      const dfi_shape *tensor = w->look->loop[parent].slot_shape[slot];
      if (dtype != DF_RESOURCE) save_cell(w, dtype, tensor, dfi_write_where(w, parent, slot).s, at);
      at += dfi_cells(dtype, tensor);
    }
  }
  if (at > w->nout) w->nout = at;
  TAIL(w, "  ret i32 %d\n", 1 + u->nsites);
  return u->nsites++;
}

void dfi_write_fail(dfi_writer *w, int32_t i, dfi_name condition) {
  if (w->dry) return;
  if (w->burst) {
    w->spoils = true;
    const dfi_name was = dfi_temp(w), is = dfi_temp(w);
    SAY(w, "  %s = load i1, ptr %%spoilt%d\n  %s = or i1 %s, %s\n  store i1 %s, ptr %%spoilt%d\n", was.s, i, is.s,
        was.s, condition.s, is.s, i);
    return;
  }
  const int32_t s = dfi_write_site(w, i, true), k = w->nlabel++;
  SAY(w, "  br i1 %s, label %%site%d, label %%on%d, !prof !0\non%d:\n", condition.s, s, k, k);
}

/* How deep loop i lies. */
static int32_t level_of(const dfi_writer *w, int32_t i) {
  int32_t n = 0;
  while ((i = w->look->loop[i].parent) >= 0) n++;
  return n;
}

void dfi_write_done(dfi_writer *w, int32_t i, const dfi_pnode *p, int32_t loop) {
  w->done = dfi_xrealloc(w->done, sizeof *w->done * (size_t)(w->ndone + 1));
  w->done[w->ndone++] = (dfi_done){ .level = level_of(w, i), .node = p, .loop = loop };
}
