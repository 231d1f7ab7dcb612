/* write_box.c: ops that put elements where their shapes and constants say, whatever the values: slices, transposes,
 * tiles, pads, reversals, rolls, splits.
 *
 * What such an op does is asked of its own kernel, when the unit is made: given the places of its input's elements
 * instead of the elements, it says where each came from. Where that is a sum of one part for each dimension, and each
 * part a few pieces with equal steps, it is written as copies of runs. As calls of kernels, at 100 ns each, the slices
 * y[0], y[1], y[2] made a solver of three equations take eleven times as long.
 */
#include "engine/native/write.h"
#include "kernels/array.h"
#include <stdio.h>

enum {
  SEGMENTS = 4,                          /* pieces of a dimension, at most */
  COPIES = 16,                           /* runs that are written one by one, at most */
  OUTPUTS = 16,                          /* of an op, at most */
  MOST_PLACES = 1 << 18, SHORT_RUN = 8, MANY = 4096
};

/* Positions of a dimension, `n` from `to` on: what they add to the place, `from`, and `step` more for each. */
typedef struct segment { int64_t to, n, from, step; } segment;

/* One output: all that lies between lo and hi comes from the input, the rest is filled. */
typedef struct box {
  const dfi_shape *shape;
  int64_t base;                          /* the place that its first element comes from */
  int64_t lo[DF_MAX_RANK], hi[DF_MAX_RANK];
  int64_t span[DF_MAX_RANK];             /* elements of the output from one position to the next */
  int32_t nsegments[DF_MAX_RANK];
  segment segment[DF_MAX_RANK][SEGMENTS];
  int32_t outer;                         /* dimensions before those that are one run together */
  int64_t run;
  bool    holes;
} box;

struct dfi_boxes {
  uint32_t moved;                        /* the input whose elements are moved */
  int32_t  fill;                         /* the input that holes have; -1: they are zeros */
  int32_t  begin;                        /* the input that says where the box begins, known as it runs; -1: none */
  uint32_t n;
  box      out[];
};

static const struct { df_kernel_fn fn[2]; uint8_t moved; } ops[] = {
  { { ref_transpose, cpu_transpose }, 0 },
  { { ref_slice, cpu_slice }, 0 },
  { { ref_strided_slice, cpu_strided_slice }, 0 },
  { { ref_strided_slice_grad, cpu_strided_slice_grad }, 4 },
  { { ref_tile, cpu_tile }, 0 },
  { { ref_pad, cpu_pad }, 0 },
  { { ref_mirror_pad, cpu_mirror_pad }, 0 },
  { { ref_reverse, cpu_reverse }, 0 },
  { { ref_roll, cpu_roll }, 0 },
  { { ref_split, cpu_split }, 1 },
  { { ref_split_v, cpu_split_v }, 0 },
  { { ref_unpack, cpu_unpack }, 0 },
};

/* ---- where elements come from ----------------------------------------------------------------------------------- */

/* Input k as the kernel is to see it, owned: the places of x's elements, counted from 1, for those that are moved;
   zeros for what is only known as it runs; else the constant that it is. NULL: it is none. */
static df_tensor *stand_in(const dfi_look *l, int32_t i, const dfi_pnode *p, const struct dfi_boxes *b, int32_t k) {
  const dfi_shape *s = dfi_input_shape(l, p, (uint32_t)k);
  if (k != (int32_t)b->moved && k != b->fill && k != b->begin) {
    const df_value *c = dfi_constant_of(l, i, l->plan->operand[p->in + k]);
    return !c ? NULL : c->kind == DF_TENSOR ? df_tensor_retain(c->as.tensor) : dfi_tensor_from_scalar(c);
  }
  const uint8_t dtype = k == b->begin ? dfi_dtype(p->node->in[k]) : DF_INT64;
  df_tensor *t = dfi_shape_known(s) ? dfi_tensor_make(dtype, s->rank, s->dims) : NULL;
  if (t) memset(t->data, 0, (size_t)(t->size * dfi_dtype_size[dtype]));
  for (int64_t e = 0; t && k == (int32_t)b->moved && e < t->size; e++) ((int64_t *)t->data)[e] = e + 1;
  return t;
}

/* The kernel's outputs, owned. False: it has none. */
static bool ask(const dfi_look *l, int32_t i, const dfi_pnode *p, const struct dfi_boxes *b, df_value *out) {
  enum { MOST = 8 };
  const df_tensor *in[MOST];
  uint8_t dtype[OUTPUTS];
  df_error error = { .code = DF_OK };
  df_tensor scratch;
  bool ok = p->nin <= MOST;
  uint32_t n = 0;
  memset(dtype, DF_INT64, sizeof dtype);
  for (; ok && n < p->nin; n += ok) ok = (in[n] = stand_in(l, i, p, b, (int32_t)n)) != NULL;
  df_kernel k = { .attrs = p->node->attrs, .nin = (int32_t)p->nin, .nout = (int32_t)p->nout, .in = in, .out = out,
                  .out_dtype = dtype, .scratch = &scratch, .error = &error };
  ok = ok && p->kernel(&k) == DF_OK;
  while (n--) df_tensor_release((df_tensor *)(uintptr_t)in[n]);
  return ok;
}

/* ---- as pieces -------------------------------------------------------------------------------------------------- */

static void widen(box *b, int64_t e) {
  for (int32_t d = 0; d < b->shape->rank; d++) {
    const int64_t at = e / b->span[d] % b->shape->dims[d];
    if (at < b->lo[d]) b->lo[d] = at;
    if (at >= b->hi[d]) b->hi[d] = at + 1;
  }
}

/* The pieces of dimension d: what its positions add to the place. `corner`: where the elements from the first one on
   that is no hole come from, counted from 1. */
static bool cut(box *b, int32_t d, const int64_t *corner) {
  b->nsegments[d] = 0;
  for (int64_t at = b->lo[d]; at < b->hi[d]; at++) {
    const int64_t place = corner[(at - b->lo[d]) * b->span[d]], from = place - 1 - b->base;
    segment *s = b->nsegments[d] ? &b->segment[d][b->nsegments[d] - 1] : NULL;
    if (!place) return false;
    if (s && s->n == 1) s->step = from - s->from;
    if (s && from == s->from + s->n * s->step) { s->n++; continue; }
    if (b->nsegments[d] == SEGMENTS) return false;
    b->segment[d][b->nsegments[d]++] = (segment){ at, 1, from, 0 };
  }
  return true;
}

/* The place that element e comes from, by the pieces, counted from 1; 0: it is filled. */
static int64_t place_of(const box *b, int64_t e) {
  int64_t place = b->base + 1;
  for (int32_t d = 0; d < b->shape->rank; d++) {
    const int64_t at = e / b->span[d] % b->shape->dims[d];
    if (at < b->lo[d] || at >= b->hi[d]) return 0;
    const segment *s = b->segment[d];
    while (at >= s->to + s->n) s++;
    place += s->from + (at - s->to) * s->step;
  }
  return place;
}

/* The last dimensions that are one run together. */
static void join_run(box *b) {
  b->run = 1;
  for (b->outer = b->shape->rank; b->outer > 0; b->outer--) {
    const int32_t d = b->outer - 1;
    const segment *s = b->segment[d];
    if (b->nsegments[d] != 1 || b->span[d] != b->run || (s->n > 1 && s->step != b->run)) return;
    b->run *= s->n;
  }
}

static bool describe(box *b, const int64_t *m, int64_t size) {
  int64_t corner = 0, copies = 1;
  for (int32_t d = b->shape->rank; d-- > 0; ) {
    b->span[d] = d + 1 < b->shape->rank ? b->span[d + 1] * b->shape->dims[d + 1] : 1;
    b->lo[d] = b->shape->dims[d];
    b->hi[d] = 0;
  }
  for (int64_t e = 0; e < size; e++) if (m[e]) widen(b, e);
  for (int32_t d = 0; d < b->shape->rank; d++) {
    if (b->lo[d] >= b->hi[d]) return false;
    corner += b->lo[d] * b->span[d];
  }
  b->base = m[corner] - 1;
  for (int32_t d = 0; d < b->shape->rank; d++) {
    if (!cut(b, d, m + corner)) return false;
    copies *= b->nsegments[d];
    b->holes |= b->hi[d] - b->lo[d] < b->shape->dims[d];
  }
  join_run(b);
  if (copies > COPIES || (b->run < SHORT_RUN && size > MANY)) return false;
  for (int64_t e = 0; e < size; e++) if (place_of(b, e) != m[e]) return false;
  return true;
}

static bool describe_all(const dfi_look *l, const dfi_pnode *p, struct dfi_boxes *b, const df_value *out) {
  for (uint32_t k = 0; k < p->nout; k++) {
    const df_tensor *t = out[k].kind == DF_TENSOR ? out[k].as.tensor : NULL;
    b->out[k].shape = dfi_out_shape(l, p, (int32_t)k);
    const int64_t size = dfi_shape_size(b->out[k].shape);
    if (size < 1 || (t ? t->size != size : size != 1)) return false;
    if (!describe(&b->out[k], t ? t->data : &out[k].as.i64, size) || (b->out[k].holes && b->begin >= 0)) return false;
  }
  return true;
}

/* ---- which ------------------------------------------------------------------------------------------------------ */

struct dfi_boxes *dfi_boxes_of(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  size_t at = 0;
  while (at < sizeof ops / sizeof *ops && p->kernel != ops[at].fn[0] && p->kernel != ops[at].fn[1]) at++;
  if (at == sizeof ops / sizeof *ops || p->nout < 1 || p->nout > OUTPUTS || p->reads || p->gpu || p->waits) return NULL;
  const uint32_t data = ops[at].moved;
  const dfi_shape *x = dfi_input_shape(l, p, data);
  const bool number = x->rank == 0 && dfi_unboxed(dfi_dtype(p->node->in[data]));
  if (!number && !dfi_analyze_shape(l, i, l->plan->operand[p->in + data])) return NULL;
  if (dfi_shape_size(x) > MOST_PLACES) return NULL;
  for (uint32_t k = 0; k < p->nout; k++) {
    const dfi_shape *s = dfi_out_shape(l, p, (int32_t)k);
    if (s->rank != 0 && !dfi_small(p->out_dtypes[k], s)) return NULL;
  }
  struct dfi_boxes *b = dfi_xcalloc(1, sizeof *b + sizeof *b->out * p->nout);
  df_value out[OUTPUTS] = { 0 };
  const bool slice = p->kernel == cpu_slice || p->kernel == ref_slice;
  *b = (struct dfi_boxes){ data, -1, -1, p->nout };
  if ((p->kernel == cpu_pad || p->kernel == ref_pad) && p->nin == 3) b->fill = 2;
  if (slice && !dfi_constant_of(l, i, l->plan->operand[p->in + 1])) b->begin = 1;
  const bool known = (b->begin < 0 || dfi_analyze_shape(l, i, l->plan->operand[p->in + 1])) &&
                     ask(l, i, p, b, out) && describe_all(l, p, b, out);
  for (uint32_t k = 0; k < p->nout; k++) dfi_value_drop(&out[k]);
  if (known) return b;
  dfi_free(b);
  return NULL;
}

/* ---- written ---------------------------------------------------------------------------------------------------- */

typedef struct filling { dfi_writer *w; const box *b; uint8_t dtype; } filling;

static dfi_name element(const filling *f, const char *base, int64_t e) {
  char index[24];
  snprintf(index, sizeof index, "%lld", (long long)e);
  return dfi_element_at(f->w, f->dtype, base, index);
}

static dfi_name stepped(const filling *f, const char *base, const dfi_counted *c, int64_t step) {
  const dfi_name index = dfi_temp(f->w);
  SAY(f->w, "  %s = mul i64 %s, %lld\n", index.s, c->e.s, (long long)step);
  return dfi_element_at(f->w, f->dtype, base, index.s);
}

static void write_dimension(const filling *f, int32_t d, const char *to, const char *from) {
  const box *b = f->b;
  if (d == b->outer) { dfi_write_copy(f->w, f->dtype, b->run, to, from); return; }
  for (int32_t k = 0; k < b->nsegments[d]; k++) {
    const segment *s = &b->segment[d][k];
    const dfi_name there = element(f, to, s->to * b->span[d]), here = element(f, from, s->from);
    if (s->n == 1) write_dimension(f, d + 1, there.s, here.s);
    else if (d + 1 == b->outer && s->step == b->run && b->span[d] == b->run)
      dfi_write_copy(f->w, f->dtype, s->n * b->run, there.s, here.s);
    else {
      const dfi_counted c = dfi_count_from(f->w);
      const dfi_name to_each = stepped(f, there.s, &c, b->span[d]), from_each = stepped(f, here.s, &c, s->step);
      write_dimension(f, d + 1, to_each.s, from_each.s);
      dfi_count_to(f->w, &c, s->n);
    }
  }
}

static void write_holes(const filling *f, int32_t i, const dfi_pnode *p, int32_t fill, const char *to) {
  uint8_t dtype;
  const dfi_name v = fill < 0 ? (dfi_name){ "zeroinitializer" }
                              : dfi_write_operand(f->w, i, f->w->look->plan->operand[p->in + (uint32_t)fill], &dtype);
  const dfi_counted e = dfi_count_from(f->w);
  SAY(f->w, "  store %s %s, ptr %s\n", dfi_type(f->dtype), v.s, dfi_element_at(f->w, f->dtype, to, e.e.s).s);
  dfi_count_to(f->w, &e, dfi_shape_size(f->b->shape));
}

/* Where in `from` the box begins. One that would go beyond the input is left to the tokens, which say so. */
static dfi_name write_begin(dfi_writer *w, int32_t i, const dfi_pnode *p, const struct dfi_boxes *b, dfi_name from,
                            uint8_t of) {
  const dfi_shape *x = dfi_input_shape(w->look, p, b->moved), *size = b->out[0].shape;
  uint8_t dtype;
  const dfi_name list = dfi_write_operand(w, i, w->look->plan->operand[p->in + (uint32_t)b->begin], &dtype);
  for (int32_t d = 0; d < x->rank; d++) {
    char at[24];
    snprintf(at, sizeof at, "%d", d);
    const dfi_name index = dfi_write_load(w, dtype, dfi_element_at(w, dtype, list.s, at).s), by = dfi_temp(w);
    const dfi_name safe = dfi_write_checked(w, i, index, dtype, x->dims[d] - size->dims[d] + 1);
    SAY(w, "  %s = mul i64 %s, %lld\n", by.s, safe.s, (long long)dfk_span(x->dims, d + 1, x->rank));
    from = dfi_element_at(w, of, from.s, by.s);
  }
  return from;
}

/* Where the input lies; a number is put somewhere. */
static dfi_name source_of(dfi_writer *w, int32_t i, const dfi_pnode *p, uint32_t data, uint8_t *dtype) {
  const dfi_operand o = w->look->plan->operand[p->in + data];
  const dfi_name v = dfi_write_operand(w, i, o, dtype);
  if (dfi_analyze_shape(w->look, i, o)) return v;
  const dfi_name at = dfi_temp(w);
  DECL(w, "  %s = alloca %s\n", at.s, dfi_type(*dtype));
  SAY(w, "  store %s %s, ptr %s\n", dfi_type(*dtype), v.s, at.s);
  return at;
}

void dfi_write_boxes(dfi_writer *w, int32_t i, const dfi_pnode *p, const struct dfi_boxes *b) {
  filling f = { .w = w };
  dfi_name from = source_of(w, i, p, b->moved, &f.dtype);
  if (b->begin >= 0) from = write_begin(w, i, p, b, from, f.dtype);
  for (uint32_t k = 0; k < b->n; k++) {
    f.b = &b->out[k];
    const dfi_name to = dfi_write_place(i, p->out + k);
    if (f.b->holes) write_holes(&f, i, p, b->fill, to.s);
    int64_t corner = 0;
    for (int32_t d = 0; d < f.b->shape->rank; d++) corner += f.b->outer <= d ? f.b->lo[d] * f.b->span[d] : 0;
    const dfi_name there = element(&f, to.s, corner), here = element(&f, from.s, f.b->base);
    write_dimension(&f, 0, there.s, here.s);
  }
}
