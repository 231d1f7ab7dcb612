/* write_term.h: lines of assembly that compute, as write_op.c and write_math.c put them together. */
#ifndef DFLOW_WRITE_TERM_H
#define DFLOW_WRITE_TERM_H
#include "engine/native/write.h"
#include <stdio.h>

typedef df_scalar_fn (*chooser)(const uint8_t *, uint8_t);

static inline bool is_float(uint8_t t) { return t == DF_FLOAT32 || t == DF_FLOAT64; }

/* What is written is of numbers, or of w->lanes elements at once: type and `truth` (conditions) are vectors then. */
typedef struct op { dfi_writer *w; const char *type; uint8_t dtype; bool floats; } op;

static inline dfi_name two(const op *o, const char *what, dfi_name a, dfi_name b) {
  const dfi_name r = dfi_temp(o->w);
  SAY(o->w, "  %s = %s %s %s, %s\n", r.s, what, o->type, a.s, b.s);
  return r;
}
/* A literal of an element type, for all lanes. */
static inline dfi_name literal(const dfi_writer *w, const char *element, const char *text) {
  dfi_name n;
  snprintf(n.s, sizeof n.s, w->lanes ? "splat (%2$s %1$s)" : "%1$s", text, element);
  return n;
}
static inline dfi_name plain(const op *o, const char *text) { return literal(o->w, dfi_type(o->dtype), text); }
/* A whole number as a literal of the op's type. */
static inline dfi_name number(const op *o, int32_t v) {
  char text[24];
  snprintf(text, sizeof text, o->floats ? "%d.0" : "%d", v);
  return plain(o, text);
}
/* The type of conditions. */
static inline const char *truth(dfi_writer *w) {
  if (!w->lanes) return "i1";
  char *text = w->type[w->ntypes++ & 7];
  snprintf(text, sizeof w->type[0], "<%d x i1>", w->lanes);
  return text;
}
static inline dfi_name pick(const op *o, dfi_name condition, dfi_name a, dfi_name b) {
  const dfi_name r = dfi_temp(o->w);
  SAY(o->w, "  %s = select %s %s, %s %s, %s %s\n", r.s, truth(o->w), condition.s, o->type, a.s, o->type, b.s);
  return r;
}
static inline dfi_name bits(const op *o, const char *what, dfi_name a, dfi_name b) {      /* of conditions */
  const op c = { o->w, truth(o->w), DF_BOOL, false };
  return two(&c, what, a, b);
}
static inline dfi_name byte(dfi_writer *w, dfi_name condition) {
  const dfi_name r = dfi_temp(w);
  SAY(w, "  %s = zext %s %s to %s\n", r.s, truth(w), condition.s, dfi_lanes(w, DF_BOOL));
  return r;
}
static inline dfi_name condition(dfi_writer *w, dfi_name b) {
  const dfi_name r = dfi_temp(w);
  SAY(w, "  %s = icmp ne %s %s, %s\n", r.s, dfi_lanes(w, DF_BOOL), b.s, literal(w, "i8", "0").s);
  return r;
}
static inline dfi_name call(const op *o, const char *name, dfi_name a) {
  const dfi_name r = dfi_temp(o->w);
  char suffix[16], text[120];
  snprintf(suffix, sizeof suffix, o->w->lanes ? "v%2$df%1$d" : "f%1$d", o->dtype == DF_FLOAT32 ? 32 : 64, o->w->lanes);
  snprintf(text, sizeof text, "declare %s @llvm.%s.%s(%s)", o->type, name, suffix, o->type);
  dfi_declare(o->w, text);
  SAY(o->w, "  %s = call %s @llvm.%s.%s(%s %s)\n", r.s, o->type, name, suffix, o->type, a.s);
  return r;
}

/* ---- write_math.c ---- */
/* exp, tanh or sigmoid of float32. False: it is none of them, or this machine's kernels compute it in another way. */
bool dfi_write_math(const op *o, chooser f, dfi_name x, dfi_name *r);
/* sin or cos of a number of float32; of a large one it is called. False, as above. */
bool dfi_write_angle(const op *o, int32_t loop, const dfi_pnode *p, chooser f, const dfi_name *in, const uint8_t *dtype,
                     dfi_name *r);
/* ---- write_op.c ---- */
/* The function that the token engine calls, called. */
dfi_name dfi_write_called(dfi_writer *w, int32_t loop, const dfi_pnode *p, const dfi_name *in, const uint8_t *dtype);
#endif
