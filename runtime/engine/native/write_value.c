/* write_value.c: text, types, and the values of the assembly: where an operand is read and a slot is written. */
#include "engine/native/write.h"
#include <stdarg.h>
#include <stdio.h>

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

void dfi_write_shared_room(dfi_writer *w, const char *name, uint8_t dtype, int64_t n) {
  DECL(w, "  %s = getelementptr i8, ptr %%arena, i64 %lld\n", name, (long long)w->unit->arena);
  w->unit->arena += (n * dfi_dtype_size[dtype] + 63) & ~63;
}

void dfi_write_room(dfi_writer *w, const char *name, uint8_t dtype, int64_t n) {
  enum { ON_STACK = 8192 };
  const int64_t bytes = n * dfi_dtype_size[dtype];
  const dfi_analyze_loop *l = &w->look->loop[w->function];
  if (bytes > ON_STACK && !l->recursive) {
    dfi_write_shared_room(w, name, dtype, n);
    return;
  }
  if (bytes > ON_STACK)
    dfi_unit_refuse(w->unit, NULL, "`%s` calls itself, and has a tensor of %lld bytes in each call, more than %d",
                    l->scope->name, (long long)bytes, ON_STACK);
  w->stack += (bytes + 63) & ~63;
  DECL(w, "  %s = alloca [%lld x %s], align 64\n", name, (long long)n, dfi_type(dtype));
}

const char *dfi_lanes(dfi_writer *w, uint8_t dtype) {
  if (!w->lanes) return dfi_type(dtype);
  char *text = w->type[w->ntypes++ & 7];
  snprintf(text, sizeof w->type[0], "<%d x %s>", w->lanes, dfi_type(dtype));
  return text;
}

dfi_name dfi_write_address(dfi_writer *w, const void *at) {
  dfi_unit *u = w->unit;
  dfi_name n;
  uint32_t k = 0;
  while (k < u->naddresses && u->address[k] != at) k++;
  snprintf(n.s, sizeof n.s, "%%address%u", k);
  if (k == u->naddresses) {
    u->address = dfi_xrealloc(u->address, sizeof *u->address * (k + 1));
    u->address[u->naddresses++] = at;
  }
  char line[80];
  snprintf(line, sizeof line, "  %s.at =", n.s);
  if (w->first.at && strstr(w->first.at, line)) return n;
  dfi_text_add(&w->first, "  %s.at = getelementptr ptr, ptr %%address, i64 %u\n  %s = load ptr, ptr %s.at\n", n.s, k,
               n.s, n.s);
  return n;
}

void dfi_declare(dfi_writer *w, const char *declaration) {
  if (!w->outside.at || !strstr(w->outside.at, declaration)) dfi_text_add(&w->outside, "%s\n", declaration);
}

void dfi_write_copy(dfi_writer *w, uint8_t dtype, int64_t n, const char *to, const char *from) {
  enum { AT_ONCE = 16, LARGE = 1024 };
  const int32_t bytes = dfi_dtype_size[dtype];
  if (!n || !strcmp(to, from)) return;
  if (n * bytes > LARGE) {
    const dfi_name fn = dfi_write_address(w, (const void *)dfi_native_copy);
    SAY(w, "  call void %s(ptr %s, ptr %s, i64 %lld)\n", fn.s, to, from, (long long)n * bytes);
    return;
  }
  if (n > AT_ONCE) {
    dfi_declare(w, "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)");
    SAY(w, "  call void @llvm.memcpy.p0.p0.i64(ptr %s, ptr %s, i64 %lld, i1 false)\n", to, from, (long long)n * bytes);
    return;
  }
  const dfi_name v = dfi_temp(w);
  SAY(w, "  %s = load <%lld x %s>, ptr %s, align %d\n", v.s, (long long)n, dfi_type(dtype), from, bytes);
  SAY(w, "  store <%lld x %s> %s, ptr %s, align %d\n", (long long)n, dfi_type(dtype), v.s, to, bytes);
}
dfi_name dfi_element_at(dfi_writer *w, uint8_t dtype, const char *from, const char *index) {
  const dfi_name at = dfi_temp(w);
  SAY(w, "  %s = getelementptr %s, ptr %s, i64 %s\n", at.s, dfi_type(dtype), from, index);
  return at;
}

dfi_counted dfi_count_from(dfi_writer *w) {
  const dfi_counted c = { w->nlabel++, dfi_temp(w), dfi_temp(w) };
  DECL(w, "  %s = alloca i64\n", c.cell.s);
  SAY(w, "  store i64 0, ptr %s\n  br label %%turn%d\nturn%d:\n  %s = load i64, ptr %s\n", c.cell.s, c.label, c.label,
      c.e.s, c.cell.s);
  return c;
}

void dfi_count_to(dfi_writer *w, const dfi_counted *c, int64_t n) {
  const dfi_name next = dfi_temp(w), more = dfi_temp(w);
  SAY(w, "  %s = add i64 %s, 1\n  store i64 %s, ptr %s\n  %s = icmp ult i64 %s, %lld\n", next.s, c->e.s, next.s,
      c->cell.s, more.s, next.s, (long long)n);
  SAY(w, "  br i1 %s, label %%turn%d, label %%turned%d\nturned%d:\n", more.s, c->label, c->label, c->label);
}

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

dfi_name dfi_write_load(dfi_writer *w, uint8_t dtype, const char *cell) {
  dfi_name n = dfi_temp(w);
  SAY(w, "  %s = load %s, ptr %s\n", n.s, dfi_type(dtype), cell);
  return n;
}

/* Where a tensor lies by its other name. */
static dfi_name other_name(dfi_text *t, dfi_writer *w, dfi_name alias) {
  if (*alias.s != '*') return alias;
  const dfi_name at = dfi_temp(w);
  dfi_text_add(t, "  %s = load ptr, ptr %s\n", at.s, alias.s + 1);
  return at;
}

/* The value of an operand of loop i, and its dtype. */
dfi_name dfi_write_operand(dfi_writer *w, int32_t i, dfi_operand o, uint8_t *dtype) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const uint32_t at = DFI_INDEX(o);
  const bool tensor = dfi_analyze_shape(w->look, i, o) != NULL;
  char cell[64];
  switch (DFI_SPACE(o)) {
    case DFI_ITERATION:
      *dtype = l->slot_dtype[at];
      if (tensor && *l->slot_alias[at].s) return other_name(&w->body, w, l->slot_alias[at]);
      if (l->slot_copy[at] >= 0) return literal(w, &w->look->plan->constant[l->slot_copy[at]]);
      snprintf(cell, sizeof cell, "%%v%d_%u", i, at);
      break;
    case DFI_FRAME:
      *dtype = l->const_dtype[at];
      if (!*dtype)
        dfi_unit_refuse(w->unit, NULL, "the loop `%s` reads a loop constant that is no number", l->scope->name);
      if (i == 0) w->unit->cell[l->scope->nenters + at].used = 1;
      if (tensor && *l->const_alias[at].s) return other_name(&w->body, w, l->const_alias[at]);
      snprintf(cell, sizeof cell, "%%c%d_%u", i, at);
      break;
    case DFI_CONSTANT:
      *dtype = w->look->plan->constant[at].dtype;
      if (tensor) return dfi_write_address(w, w->look->plan->constant[at].as.tensor->data);
      return literal(w, &w->look->plan->constant[at]);
    default: {
      const uint32_t g = dfi_analyze_given(w->look, o);
      if (at >= (uint32_t)w->look->plan->nfeed) { *dtype = DF_RESOURCE; return (dfi_name){ "0" }; }
      const df_output f = w->look->plan->feed[at];
      *dtype = dfi_dtype(f);
      if (!dfi_unboxed(*dtype) || (dfi_known_shape(w->unit, f)->rank > 0 && !tensor))
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
  return dfi_write_load(w, *dtype, cell);
}

/* What the place of a slot is called, whatever lies there. */
dfi_name dfi_write_place(int32_t loop, uint32_t slot) {
  dfi_name n;
  snprintf(n.s, sizeof n.s, "%%v%d_%u", loop, slot);
  return n;
}

dfi_name dfi_write_where(dfi_writer *w, int32_t loop, uint32_t slot) {
  const dfi_analyze_loop *l = &w->look->loop[loop];
  return l->slot_shape[slot] && *l->slot_alias[slot].s ? other_name(&w->tail, w, l->slot_alias[slot])
                                                       : dfi_write_place(loop, slot);
}

void dfi_write_point(dfi_writer *w, int32_t loop, uint32_t slot, dfi_name where) {
  dfi_name *alias = &w->look->loop[loop].slot_alias[slot];
  if (*alias->s != '*') {
    snprintf(alias->s, sizeof alias->s, "*%%p%d_%u", loop, slot);
    DECL(w, "  %s = alloca ptr\n  store ptr %s, ptr %s\n", alias->s + 1, dfi_write_place(loop, slot).s, alias->s + 1);
  }
  SAY(w, "  store ptr %s, ptr %s\n", where.s, alias->s + 1);
}

dfi_name dfi_write_name(dfi_writer *w, int32_t i, dfi_operand o, uint8_t *dtype) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const uint32_t at = DFI_INDEX(o);
  if (dfi_analyze_shape(w->look, i, o)) {
    if (DFI_SPACE(o) == DFI_ITERATION && *l->slot_alias[at].s == '*') {
      *dtype = l->slot_dtype[at];
      return l->slot_alias[at];
    }
    if (DFI_SPACE(o) == DFI_FRAME && *l->const_alias[at].s == '*') {
      *dtype = l->const_dtype[at];
      return l->const_alias[at];
    }
  }
  return dfi_write_operand(w, i, o, dtype);
}

void dfi_write_store(dfi_writer *w, uint8_t dtype, dfi_name v, int32_t loop, uint32_t slot) {
  const dfi_shape *tensor = w->look->loop[loop].slot_shape[slot];
  if (tensor) dfi_write_copy(w, dtype, dfi_shape_size(tensor), dfi_write_place(loop, slot).s, v.s);
  else if (dtype != DF_RESOURCE) SAY(w, "  store %s %s, ptr %%v%d_%u\n", dfi_type(dtype), v.s, loop, slot);
}

/* The slot holds what v is, a tensor, and does not change while that can be read; or a copy of a number. */
void dfi_write_alias(dfi_writer *w, uint8_t dtype, dfi_name v, int32_t loop, uint32_t slot) {
  if (w->look->loop[loop].slot_shape[slot]) w->look->loop[loop].slot_alias[slot] = v;
  else dfi_write_store(w, dtype, v, loop, slot);
}
