/* write_tensor.c: elementwise math on small tensors whose shapes are known.
 *
 * Up to sixteen elements are one vector of LLVM's, more are written piece by piece, many as a loop over pieces; so each
 * element is computed as write_op.c has it, and small tensors live in registers. Nodes of one group (plan/group.h) are
 * one pass over pieces: values without another reader stay in registers. What write_math.c has no polynomial for is
 * called: the loop that the kernel itself is made of, which gives an element the same bits wherever it begins. Operands
 * that are broadcast are first laid out in full.
 */
#include "engine/native/write.h"
#include "kernels/chain.h"
#include "kernels/elementwise.h"
#include <stdio.h>

enum { LANES = 16, PIECES = 4 /* more than these become a loop */ };

/* ---- which nodes ------------------------------------------------------------------------------------------- */

bool dfi_is_alias(const dfi_pnode *p) {
  return dfi_is_identity(p) || (p->op->traits & DFO_RESHAPES);
}

static dfi_operand operand_at(const dfi_look *l, const dfi_pnode *p, uint32_t k) {
  return l->plan->operand[p->in + k];
}

/* How an operand that is no small tensor or one of this shape meets the result. */
static bool meets(const dfi_shape *s, const dfi_shape *whole, dfk_meets *how, int64_t *period) {
  if (s) return dfk_chain_meets(s->rank, s->dims, whole->rank, whole->dims, how, period);
  *how = DFK_NUMBER;
  *period = 0;
  return true;
}

/* The loop of p's kernel. A sum of many: of one addition. */
static dfk_loop loop_of(const dfi_pnode *p) {
  static const double zeros[2] = { 0 };
  df_tensor view[3];
  const df_tensor *in[3] = { &view[0], &view[1], &view[2] };
  df_error error;
  for (uint32_t i = 0; i < p->nin; i++)
    view[i] = (df_tensor){ .refs = 1, .dtype = dfi_dtype(p->node->in[i]), .rank = 1, .view = 1, .size = 2,
                           .dims = { 2 }, .data = (void *)(uintptr_t)zeros };
  df_kernel k = { .attrs = p->node->attrs, .nin = (int32_t)p->nin, .nout = 1, .in = in, .out_dtype = p->out_dtypes,
                  .error = &error };
  return dfk_chain_loop(p->kernel, &k);
}

/* Can it be written of several elements at once? */
static bool has_lanes(const dfi_pnode *p) {
  const bool of_group = p->group && p->op->scalar && p->kernel == p->op->kernel[DF_CPU];   /* its kind is KERNEL */
  if (p->kind != DFI_K_SCALAR && !of_group) return false;
  dfi_writer dry = { .lanes = 4, .dry = true };
  const dfi_name x = { "%x" }, in[3] = { x, x, x };
  uint8_t dtype[3];
  for (uint32_t i = 0; i < 3; i++) dtype[i] = dfi_dtype(p->node->in[i < p->nin ? i : 0]);
  dfi_write_op(&dry, 0, p, in, dtype);
  dfi_free(dry.body.at);
  dfi_free(dry.outside.at);
  return !dry.calls;
}

bool dfi_tensor_op_known(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  if (p->nout != 1 || !p->nin || p->reads || p->has_handle) return false;
  const dfi_shape *out = dfi_out_shape(l, p, 0);
  if (!dfi_sized(p->node->out[0].dtype, out)) return false;
  if (dfi_is_alias(p)) {
    const dfi_shape *in = dfi_analyze_shape(l, i, operand_at(l, p, 0));
    return in && dfi_shape_size(in) == dfi_shape_size(out);
  }
  if (!dfi_small(p->node->out[0].dtype, out)) return false;
  const bool sum = dfi_is_sum(p);
  const bool select = p->op->scalar == scalar_select;         /* its condition is broadcast in a way of its own */
  if (!sum && (p->nin > 3 || p->kernel != p->op->kernel[DF_CPU])) return false;
  for (uint32_t k = 0; k < p->nin; k++) {
    const dfi_shape *in = dfi_analyze_shape(l, i, operand_at(l, p, k));
    dfk_meets how;
    int64_t period;
    if ((!in && dfi_input_shape(l, p, k)->rank != 0) || !meets(in, out, &how, &period)) return false;
    const bool whole = in && dfi_shape_size(in) == dfi_shape_size(out);
    if ((sum || (select && (k || in))) && !whole) return false;
  }
  return sum || has_lanes(p) || (dfk_chain_has(p->kernel) && loop_of(p).fn);
}

/* ---- pieces --------------------------------------------------------------------------------------------------- */

typedef struct source {
  uint8_t   dtype;
  bool      number;              /* value is one; else it is where the elements lie */
  dfk_meets how;                 /* of a broadcast one that is not laid out: whole pieces lie in each period */
  int64_t   period;              /* 0: all elements are there */
  dfi_name  value;
} source;

/* Lays a broadcast operand out: element e of it is `from`'s e % period, or e / period. By whole periods: with a
   division for each element a beam search of 16 x 200 elements took 2.3 times as long. */
static dfi_name spread(dfi_writer *w, uint8_t dtype, dfi_name from, int64_t n, dfk_meets how, int64_t period) {
  const dfi_name to = dfi_temp(w), first = dfi_temp(w);
  dfi_write_room(w, to.s, dtype, n);
  const dfi_counted row = dfi_count_from(w);
  SAY(w, "  %s = mul i64 %s, %lld\n", first.s, row.e.s, (long long)period);
  const dfi_name there = dfi_element_at(w, dtype, to.s, first.s);
  if (how == DFK_ROWS) dfi_write_copy(w, dtype, period, there.s, from.s);
  else {
    const dfi_name v = dfi_write_load(w, dtype, dfi_element_at(w, dtype, from.s, row.e.s).s);
    const dfi_counted k = dfi_count_from(w);
    SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s, dfi_element_at(w, dtype, there.s, k.e.s).s);
    dfi_count_to(w, &k, period);
  }
  dfi_count_to(w, &row, n / period);
  return to;
}

/* Operand k of the node: a number, or all elements of the result; for what is written in pieces a piece of a broadcast
   one may be found in it, too. */
static source source_of(dfi_writer *w, int32_t i, const dfi_pnode *p, uint32_t k, bool in_pieces) {
  const dfi_shape *whole = w->look->loop[i].slot_shape[p->out];
  const dfi_operand o = operand_at(w->look, p, k);
  const dfi_shape *s = dfi_analyze_shape(w->look, i, o);
  source r = { 0 };
  dfk_meets how;
  int64_t period;
  r.value = dfi_write_operand(w, i, o, &r.dtype);
  meets(s, whole, &how, &period);
  r.number = how == DFK_NUMBER;
  if (r.number && s) {
    const dfi_name v = dfi_temp(w);
    SAY(w, "  %s = load %s, ptr %s\n", v.s, dfi_type(r.dtype), r.value.s);
    r.value = v;
  } else if (in_pieces && (how == DFK_ROWS || how == DFK_COLUMN) && period % LANES == 0) {
    r.how = how;
    r.period = period;
  } else if (how == DFK_ROWS || how == DFK_COLUMN)
    r.value = spread(w, r.dtype, r.value, dfi_shape_size(whole), how, period);
  return r;
}

/* w->lanes elements of an operand from `index` on. */
static dfi_name lanes_of(dfi_writer *w, const source *s, const char *index) {
  const dfi_name v = dfi_temp(w), at = s->period ? dfi_temp(w) : (dfi_name){ "" };
  const bool column = s->period && s->how == DFK_COLUMN;
  if (s->period) {
    SAY(w, "  %s = %s i64 %s, %lld\n", at.s, column ? "udiv" : "urem", index, (long long)s->period);
    index = at.s;
  }
  const char *type = dfi_lanes(w, s->dtype);
  if (!s->number && !column) {
    SAY(w, "  %s = load %s, ptr %s, align %d\n", v.s, type, dfi_element_at(w, s->dtype, s->value.s, index).s,
        dfi_dtype_size[s->dtype]);
    return v;
  }
  const dfi_name first = dfi_temp(w);
  dfi_name one = s->value;
  if (column) one = dfi_write_load(w, s->dtype, dfi_element_at(w, s->dtype, one.s, index).s);
  SAY(w, "  %s = insertelement %s poison, %s %s, i64 0\n", first.s, type, dfi_type(s->dtype), one.s);
  SAY(w, "  %s = shufflevector %s %s, %s poison, <%d x i32> zeroinitializer\n", v.s, type, first.s, type, w->lanes);
  return v;
}

/* w->lanes elements of p, of w->lanes elements of each operand. */
static dfi_name write_lanes(dfi_writer *w, int32_t i, const dfi_pnode *p, const dfi_name *in, const uint8_t *dtype) {
  if (!dfi_is_sum(p)) return dfi_write_op(w, i, p, in, dtype);
  dfi_name r = in[0];
  for (uint32_t k = 1; k < p->nin; k++) r = dfi_write_sum(w, dtype[0], r, in[k]);
  return r;
}

static void store_lanes(dfi_writer *w, const dfi_pnode *p, dfi_name v, const char *to, const char *index) {
  const uint8_t dtype = p->out_dtypes[0];
  SAY(w, "  store %s %s, ptr %s, align %d\n", dfi_lanes(w, dtype), v.s, dfi_element_at(w, dtype, to, index).s,
      dfi_dtype_size[dtype]);
}

/* Nodes that are computed in one pass: of node m operand k is from[first[m] + k], or what node made[first[m] + k] made,
   unless that is -1. */
typedef struct pass {
  int32_t n;
  const dfi_pnode **node;
  const bool *wanted;
  const int32_t *first, *made;
  const source *from;
  dfi_name *value;               /* n: of these lanes */
  dfi_name *to;                  /* n: of those that are wanted, where they are made */
} pass;

static void write_piece(dfi_writer *w, int32_t i, const pass *a, const char *index, int32_t lanes) {
  w->lanes = lanes;
  for (int32_t m = 0; m < a->n; m++) {
    const dfi_pnode *p = a->node[m];
    dfi_name *v = dfi_xmalloc(sizeof *v * (p->nin + 3));
    uint8_t *dtype = dfi_xmalloc(p->nin + 3);
    for (uint32_t k = 0; k < p->nin || k < 3; k++) {
      const int32_t at = a->first[m] + (int32_t)(k < p->nin ? k : 0), made = a->made[at];
      v[k] = k >= p->nin ? v[0] : made >= 0 ? a->value[made] : lanes_of(w, &a->from[at], index);
      dtype[k] = made >= 0 ? a->node[made]->out_dtypes[0] : a->from[at].dtype;
    }
    a->value[m] = write_lanes(w, i, p, v, dtype);
    if (a->wanted[m]) store_lanes(w, p, a->value[m], a->to[m].s, index);
    dfi_free(v);
    dfi_free(dtype);
  }
  w->lanes = 0;
}

static void write_pieces(dfi_writer *w, int32_t i, const pass *a, int64_t n) {
  int64_t at = 0;
  for (int32_t m = 0; m < a->n; m++)
    if (a->wanted[m])
      a->to[m] = n > DFI_DIRECT ? dfi_write_destination(w, i, a->node[m]) : dfi_write_place(i, a->node[m]->out);
  if (n > LANES * PIECES) {
    const int32_t b = w->nlabel++;
    const dfi_name k = dfi_temp(w), e = dfi_temp(w), next = dfi_temp(w), more = dfi_temp(w);
    at = n / LANES * LANES;
    DECL(w, "  %s = alloca i64\n", k.s);
    SAY(w, "  store i64 0, ptr %s\n  br label %%piece%d\npiece%d:\n  %s = load i64, ptr %s\n", k.s, b, b, e.s, k.s);
    write_piece(w, i, a, e.s, LANES);
    SAY(w, "  %s = add i64 %s, %d\n  store i64 %s, ptr %s\n  %s = icmp ult i64 %s, %lld\n", next.s, e.s, LANES, next.s,
        k.s, more.s, next.s, (long long)at);
    SAY(w, "  br i1 %s, label %%piece%d, label %%pieces%d\npieces%d:\n", more.s, b, b, b);
  }
  for (; at < n; at += LANES) {
    char index[24];
    snprintf(index, sizeof index, "%lld", (long long)at);
    write_piece(w, i, a, index, n - at < LANES ? (int32_t)(n - at) : LANES);
  }
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Does node p, of several elements at once, belong to a pass over `whole`? */
static bool may_join(const dfi_writer *w, int32_t i, const dfi_pnode *p, const dfi_shape *whole, int32_t guard) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_analyze_node *n = &l->node[p - l->nodes];
  const dfi_shape *s = l->slot_shape[p->out];
  return !n->called && n->guard == guard && s && dfi_shape_size(s) == dfi_shape_size(whole) && !dfi_is_alias(p) &&
         (dfi_is_sum(p) || has_lanes(p));
}

/* Those of a group that make its chain: what makes the gates of a cell is written by itself. step: where some fold axes
   in front; NULL: none does. */
typedef struct members { const dfi_member *at; const dfk_step *step; int32_t n; } members;
static members members_of(const dfi_group *g) {
  return (members){ g->member + g->first, g->chain.over ? g->chain.step : NULL, g->n - g->first };
}

static int32_t member_at(members g, const dfi_analyze_loop *l, dfi_operand o) {
  for (int32_t m = 0; DFI_SPACE(o) == DFI_ITERATION && m < g.n; m++)
    if (l->nodes[g.at[m].node].out == DFI_INDEX(o)) return m;
  return -1;
}

/* Is member m a fold over axes in front? That is written by itself, after the pass. */
static bool folds(members g, int32_t m) { return g.step && g.step[g.at[m].step].over.add; }

static void write_group(dfi_writer *w, int32_t i, members g) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_pnode *node[DFI_GROUP_MEMBERS];
  dfi_name value[DFI_GROUP_MEMBERS], to[DFI_GROUP_MEMBERS];
  int32_t first[DFI_GROUP_MEMBERS], place[DFI_GROUP_MEMBERS], n = 0, all = 0;
  bool wanted[DFI_GROUP_MEMBERS];
  for (int32_t m = 0; m < g.n; m++) {
    if (folds(g, m)) {
      const int32_t folded = member_at(g, l, operand_at(w->look, &l->nodes[g.at[m].node], 0));
      if (folded >= 0) wanted[place[folded]] = true;
      continue;
    }
    place[m] = n;
    node[n] = &l->nodes[g.at[m].node];
    wanted[n] = g.at[m].wanted;
    first[n] = all;
    all += (int32_t)node[n++]->nin;
  }
  source *from = dfi_xmalloc(sizeof *from * (size_t)(all + 1));
  int32_t *made = dfi_xmalloc(sizeof *made * (size_t)(all + 1));
  for (int32_t m = 0; m < n; m++)
    for (uint32_t k = 0; k < node[m]->nin; k++) {
      const int32_t by = member_at(g, l, operand_at(w->look, node[m], k));
      made[first[m] + (int32_t)k] = by < 0 ? by : place[by];
      if (by < 0) from[first[m] + (int32_t)k] = source_of(w, i, node[m], k, true);
    }
  const pass a = { n, node, wanted, first, made, from, value, to };
  write_pieces(w, i, &a, dfi_shape_size(l->slot_shape[node[0]->out]));
  dfi_free(from);
  dfi_free(made);
}

/* The edges of q that stay in the group: those to folds, or the others. */
static void deliver_inside(dfi_writer *w, int32_t i, const dfi_group *g, const dfi_pnode *q, bool to_folds) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  for (uint32_t e = q->edge[0]; e < q->inside; e++) {
    const dfi_pnode *to = &l->nodes[w->look->plan->edge[e].node];
    if (folds(members_of(g), (int32_t)to->place - g->first) == to_folds) dfi_write_deliver(w, i, e, e + 1);
  }
}

bool dfi_write_in_group(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const dfi_analyze_loop *l = &w->look->loop[i];
  const dfi_shape *whole = l->slot_shape[p->out];
  if (!p->group || !whole || dfi_shape_size(whole) <= DFI_DIRECT) return false;
  const dfi_group *group = &w->look->plan->group[p->group - 1];
  const members g = members_of(group);
  if (p->place < (uint32_t)group->first || folds(g, (int32_t)p->place - group->first)) return false;
  for (int32_t m = 0; m < g.n; m++)
    if (!folds(g, m) && !may_join(w, i, &l->nodes[g.at[m].node], whole, l->node[p - l->nodes].guard)) return false;
  deliver_inside(w, i, group, p, false);
  for (int32_t m = 0; m < g.n; m++) if (!folds(g, m) && !l->node[g.at[m].node].written) return true;
  write_group(w, i, g);
  for (int32_t m = 0; m < g.n; m++) {
    const dfi_pnode *q = &l->nodes[g.at[m].node];
    if (folds(g, m)) continue;
    deliver_inside(w, i, group, q, true);
    dfi_write_deliver(w, i, q->inside, q->edge[1]);
  }
  return true;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* The kernel's loop, called on what lies in memory. */
static void write_call(dfi_writer *w, const dfi_pnode *p, const source *in, const char *to, int64_t n) {
  const dfk_loop loop = loop_of(p);
  const dfi_name list = dfi_temp(w), out = dfi_temp(w), fn = dfi_write_address(w, (const void *)loop.fn);
  uint32_t fixed = 0;
  uint64_t param;
  memcpy(&param, &loop.param, sizeof param);
  DECL(w, "  %s = alloca [3 x ptr]\n  %s = alloca [%lld x %s], align 64\n", list.s, out.s, (long long)n,
       dfi_type(p->out_dtypes[0]));
  for (uint32_t k = 0; k < p->nin; k++) {
    const int64_t size = in[k].number ? 1 : n;
    const dfi_name there = dfi_temp(w), at = dfi_temp(w);   /* a copy: what is called sees this alone */
    DECL(w, "  %s = alloca [%lld x %s], align 64\n", there.s, (long long)size, dfi_type(in[k].dtype));
    if (in[k].number) SAY(w, "  store %s %s, ptr %s\n", dfi_type(in[k].dtype), in[k].value.s, there.s);
    else dfi_write_copy(w, in[k].dtype, n, there.s, in[k].value.s);
    fixed |= (uint32_t)(in[k].number && n > 1) << k;
    SAY(w, "  %s = getelementptr ptr, ptr %s, i64 %u\n  store ptr %s, ptr %s\n", at.s, list.s, k, there.s, at.s);
  }
  SAY(w, "  call void %s(ptr %s, ptr %s, i32 %u, i64 %lld, double 0x%016llX)\n", fn.s, out.s, list.s, fixed,
      (long long)n, (unsigned long long)param);
  dfi_write_copy(w, p->out_dtypes[0], n, to, out.s);
}

void dfi_write_tensor_op(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const int64_t n = dfi_shape_size(w->look->loop[i].slot_shape[p->out]);
  source *in = dfi_xmalloc(sizeof *in * p->nin);
  int32_t *made = dfi_xmalloc(sizeof *made * p->nin);
  dfi_name value, to;
  const pass one = { 1, &p, (bool[]){ true }, (int32_t[]){ 0 }, made, in, &value, &to };
  const bool in_pieces = dfi_is_sum(p) || has_lanes(p);
  for (uint32_t k = 0; k < p->nin; k++) {
    in[k] = source_of(w, i, p, k, in_pieces);
    made[k] = -1;
  }
  if (in_pieces) write_pieces(w, i, &one, n);
  else write_call(w, p, in, dfi_write_place(i, p->out).s, n);
  dfi_free(in);
  dfi_free(made);
}
