/* attention.c: scaled dot-product attention as one op, what goes back through it, and what goes back through that. */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/attention.h"
#include <math.h>

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static char *typed(dfi_infer *c, int32_t i, char *room) {
  return dfi_typed_shape_text(dfi_in_dtype(c, i), dfi_in_shape(c, i), room);
}

/* Axis `axis` of inputs i and j is one. */
static bool merge_axis(dfi_shape *a, dfi_shape *b, int32_t axis) {
  int64_t *x = &a->dims[axis], *y = &b->dims[axis];
  if (*x >= 0 && *y >= 0 && *x != *y) return false;
  *x = *y = *x >= 0 ? *x : *y;
  return true;
}

static int32_t check_mask(dfi_infer *c, int32_t at, int32_t first, const dfi_shape *q, const dfi_shape *k) {
  char a[160], b[160], d[160];
  const dfi_shape *m = dfi_in_shape(c, at);
  if (c->node->nin > at + 1) return dfi_infer_fail(c, "there is one mask at most, got %d", c->node->nin - at);
  if (dfi_in_dtype(c, at) != DF_BOOL && dfi_in_dtype(c, at) != dfi_in_dtype(c, first))
    return dfi_infer_fail(c, "the mask is %s: bool, or what is added to the scores, %s, is expected", typed(c, at, a),
                          df_dtype_name(dfi_in_dtype(c, first)));
  if (m->rank < 0 || q->rank < 0) return DF_OK;
  bool fits = m->rank <= q->rank;
  for (int32_t i = 1; fits && i <= m->rank; i++) {
    const int64_t keys = k->rank < 0 ? -1 : k->dims[k->rank - 2];
    const int64_t n = m->dims[m->rank - i], want = i == 1 ? keys : q->dims[q->rank - i];
    fits = n == 1 || n < 0 || want < 0 || n == want;
  }
  return fits ? DF_OK : dfi_infer_fail(c, "the mask %s does not fit the scores of queries %s and keys %s",
                                       typed(c, at, a), typed(c, first, b), typed(c, first + 1, d));
}

/* Shapes of query, key and value, which are inputs `first` and on, told as far as each tells of the others. */
static int32_t check(dfi_infer *c, int32_t first, int32_t mask, dfi_shape *q, dfi_shape *k, dfi_shape *v) {
  char a[160], b[160];
  *q = *dfi_in_shape(c, first); *k = *dfi_in_shape(c, first + 1); *v = *dfi_in_shape(c, first + 2);
  dfi_shape *all[3] = { q, k, v };
  static const char *name[3] = { "query", "key", "value" };
  for (int32_t i = 0; i < 3; i++)
    if (all[i]->rank >= 0 && all[i]->rank < 2)
      return dfi_infer_fail(c, "the %s is %s: at least two axes, [..., time, size], are expected", name[i],
                            typed(c, first + i, a));
  for (int32_t i = 0; i < 3; i++)
    for (int32_t j = 0; j < 3; j++) {
      dfi_shape *x = all[i], *y = all[j];
      if (x->rank < 0 || y->rank < 0) continue;
      bool fits = x->rank == y->rank;
      for (int32_t d = 0; fits && d < x->rank - 2; d++) fits = merge_axis(x, y, d);
      if (fits && i == 0 && j == 1) fits = merge_axis(x, y, x->rank - 1);
      if (fits && i == 1 && j == 2) fits = merge_axis(x, y, x->rank - 2);
      if (!fits)
        return dfi_infer_fail(c, "the %s is %s, the %s %s: %s are expected", name[i], typed(c, first + i, a), name[j],
                              typed(c, first + j, b), i + j == 1 ? "[..., queries, depth] and [..., keys, depth]"
                              : i + j == 3 ? "[..., keys, depth] and [..., keys, width]"
                                           : "[..., queries, depth] and [..., keys, width]");
    }
  return c->node->nin > mask ? check_mask(c, mask, first, q, k) : DF_OK;
}

/* The dtype of the sums, which kernels take as it is. */
static uint8_t wide_of(uint8_t dtype) { return dtype == DF_FLOAT64 ? DF_FLOAT64 : DF_FLOAT32; }

static int32_t shape_attention(dfi_infer *c) {
  dfi_shape q, k, v;
  const int32_t code = check(c, 0, 3, &q, &k, &v);
  if (code) return code;
  c->node->out[1].dtype = wide_of(dfi_in_dtype(c, 0));
  dfi_shape y = q.rank >= 0 ? q : k.rank >= 0 ? k : v;
  if (y.rank < 0) return DF_OK;
  if (q.rank < 0) y.dims[y.rank - 2] = -1;
  y.dims[y.rank - 1] = v.rank >= 0 ? v.dims[v.rank - 1] : -1;
  dfi_shape *sums = dfi_set_shape(c, 1);
  *dfi_set_shape(c, 0) = *sums = y;
  sums->rank--;
  return DF_OK;
}

static int32_t shape_attention_grad(dfi_infer *c) {
  dfi_shape of[3];
  const int32_t code = check(c, 1, 6, &of[0], &of[1], &of[2]);
  const uint8_t own = dfi_in_dtype(c, 1), wide = wide_of(own);
  if (!code && dfi_in_dtype(c, 4) != wide)
    return dfi_infer_fail(c, "log_sum_exp and delta are %s, of a query of %s they are %s",
                          df_dtype_name(dfi_in_dtype(c, 4)), df_dtype_name(own), df_dtype_name(wide));
  for (int32_t i = 0; i < 3 && !code; i++) *dfi_set_shape(c, i) = of[i];
  return code;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* What formulas are made of: in the dtype of the sums, as matrices. */
typedef struct terms {
  dfi_build *b;
  uint8_t    own, wide;                  /* dtypes: of the inputs, of the sums */
  df_output  q, k, v, dy, scale;
  df_output  p, dp;                      /* the weights; dy v^T - delta */
} terms;

static df_output as(dfi_build *b, df_output x, uint8_t dtype) {
  if (dfi_dtype(x) == dtype) return x;
  dfi_attr_int(b, "DstT", dtype);
  return dfi_op(b, "Cast", x);
}
static df_output product(dfi_build *b, df_output x, df_output y, bool x_t, bool y_t) {
  dfi_attr_int(b, "adj_x", x_t);
  dfi_attr_int(b, "adj_y", y_t);
  return dfi_op(b, "BatchMatMulV2", x, y);
}
static df_output row_sum(dfi_build *b, df_output x) {
  const int64_t last = -1;
  return dfi_op(b, "Sum", x, dfi_const_ints(b, 1, &last));
}
static df_output column(dfi_build *b, df_output x) { return dfi_op(b, "ExpandDims", x, dfi_const_int(b, -1)); }
static df_output total(dfi_build *b, df_output x, df_output y) {
  return !x.node ? y : !y.node ? x : dfi_op(b, "Add", x, y);
}

/* Scores where query i may see key j, -infinity elsewhere, whatever lies there. */
static df_output behind(const terms *t, df_output allowed, df_output scores) {
  return dfi_op(t->b, "SelectV2", allowed, scores, dfi_const(t->b, t->wide, -INFINITY));
}
static df_output causal(const terms *t, df_output scores) {
  dfi_build *b = t->b;
  const df_output shape = dfi_op(b, "Shape", scores);
  df_output size[2], range[2];
  for (int32_t i = 0; i < 2; i++) {
    const df_output axis = dfi_op(b, "Add", dfi_op(b, "Rank", scores), dfi_const_int(b, i - 2));
    size[i] = dfi_op(b, "Gather", shape, axis);
    range[i] = dfi_op(b, "Range", dfi_const_int(b, 0), size[i], dfi_const_int(b, 1));
  }
  return behind(t, dfi_op(b, "LessEqual", range[1], column(b, range[0])), scores);
}

/* The weights and what follows from them, of the node's forward values: inputs `first` on, a mask at `mask`. */
static terms terms_of(dfi_grad *g, df_node *n, int32_t first, int32_t mask, df_output dy, df_output sums,
                      df_output delta) {
  dfi_build *b = dfg_build(g);
  terms t = { .b = b, .own = dfi_dtype(n->in[first]), .wide = dfi_dtype(sums) };
  t.q = as(b, dfg_in(g, n, first), t.wide);
  t.k = as(b, dfg_in(g, n, first + 1), t.wide);
  t.v = as(b, dfg_in(g, n, first + 2), t.wide);
  t.dy = as(b, dy, t.wide);
  t.scale = dfi_const(b, t.wide, n->attrs[DFK_ATTENTION_SCALE].f);
  if (n->attrs[DFK_ATTENTION_SCALE].f == 0) {
    const df_output depth = as(b, dfg_in_dim(g, n, first, -1), t.wide);
    t.scale = dfi_op(b, "Rsqrt", dfi_op(b, "Maximum", depth, dfi_const(b, t.wide, 1)));      /* of no depth: 1 */
  }
  df_output scores = dfi_op(b, "Mul", product(b, t.q, t.k, false, true), t.scale);
  if (n->nin > mask) {
    const df_output m = dfg_in(g, n, mask);
    scores = dfi_dtype(m) == DF_BOOL ? behind(&t, m, scores) : dfi_op(b, "Add", scores, as(b, m, t.wide));
  }
  if (n->attrs[DFK_ATTENTION_CAUSAL].i) scores = causal(&t, scores);
  t.p = dfi_op(b, "Exp", dfi_op(b, "Sub", scores, column(b, sums)));
  t.dp = dfi_op(b, "Sub", product(b, t.dy, t.v, false, true), column(b, delta));
  return t;
}
static bool wants_bias(dfi_grad *g, df_node *n, int32_t mask) {
  return n->nin > mask && dfi_dtype(n->in[mask]) != DF_BOOL && dfg_wants(g, n, mask);
}

/* dy v^T less the sum of dy y in each row, which has what comes through the sums. */
static int32_t grad_attention(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output y = dfg_out(g, n, 0), sums = dfg_out(g, n, 1);
  const uint8_t wide = dfi_dtype(sums);
  const df_output d = dy[0].node ? dy[0] : dfi_op(b, "ZerosLike", y);
  df_output delta = row_sum(b, dfi_op(b, "Mul", as(b, d, wide), as(b, y, wide)));
  if (dy[1].node) delta = dfi_op(b, "Sub", delta, dy[1]);
  df_output in[7] = { d, dfg_in(g, n, 0), dfg_in(g, n, 1), dfg_in(g, n, 2), sums, delta };
  if (n->nin > 3) in[6] = dfg_in(g, n, 3);
  dfi_attr_int(b, "causal", n->attrs[DFK_ATTENTION_CAUSAL].i);
  dfi_attr_float(b, "scale", n->attrs[DFK_ATTENTION_SCALE].f);
  df_node *back = dfi_opnode(b, "ScaledDotProductAttentionGrad", n->nin + 3, in);
  if (!back) return dfg_end(g);
  for (int32_t i = 0; i < 3; i++) dx[i] = (df_output){ back, i };
  if (!wants_bias(g, n, 3)) return dfg_end(g);
  const terms t = terms_of(g, n, 0, 3, d, sums, delta);
  dx[3] = dfg_unbroadcast(g, n, 3, as(b, dfi_op(b, "MulNoNan", t.dp, t.p), t.own));      /* as the kernels do it */
  return dfg_end(g);
}

/* With A, B and C what comes to dq = s dS k, dk = s dS^T q and dv = P^T dy, where dS = P (dP - delta):
 * H = s (A k^T + q B^T) comes to dS, U = P H to dP, W = H (dP - delta) + dy C^T to P, Z = P W to the scores. */
static int32_t grad_attention_grad(dfi_grad *g, df_node *n, const df_output *dz, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output sums = dfg_in(g, n, 4);
  const terms t = terms_of(g, n, 1, 6, dfg_in(g, n, 0), sums, dfg_in(g, n, 5));
  df_output a = DFI_NONE, e = a, c = a, h = a, w = a;
  if (dz[0].node) h = product(b, a = as(b, dz[0], t.wide), t.k, false, true);
  if (dz[1].node) h = total(b, h, product(b, t.q, e = as(b, dz[1], t.wide), false, true));
  if (h.node) h = dfi_op(b, "Mul", h, t.scale);
  if (dz[2].node) w = product(b, t.dy, c = as(b, dz[2], t.wide), false, true);
  df_output of[4] = { DFI_NONE, DFI_NONE, DFI_NONE, DFI_NONE };                /* dy, q, k, v */
  if (c.node) of[0] = product(b, t.p, c, false, false);
  if (h.node) {
    const df_output u = dfi_op(b, "Mul", t.p, h);
    const df_output ds = dfi_op(b, "Mul", dfi_op(b, "Mul", t.p, t.dp), t.scale);
    w = total(b, dfi_op(b, "Mul", h, t.dp), w);
    dx[5] = dfi_op(b, "Neg", row_sum(b, u));
    of[0] = total(b, of[0], product(b, u, t.v, false, false));
    of[3] = product(b, u, t.dy, true, false);
    if (e.node) of[1] = product(b, ds, e, false, false);
    if (a.node) of[2] = product(b, ds, a, true, false);
  }
  if (!w.node) return dfg_end(g);
  const df_output z = dfi_op(b, "Mul", t.p, w), scaled = dfi_op(b, "Mul", z, t.scale);
  of[1] = total(b, of[1], product(b, scaled, t.k, false, false));
  of[2] = total(b, of[2], product(b, scaled, t.q, true, false));
  for (int32_t i = 0; i < 4; i++) if (of[i].node) dx[i] = as(b, of[i], t.own);
  dx[4] = dfi_op(b, "Neg", row_sum(b, z));
  if (wants_bias(g, n, 6)) dx[6] = dfg_unbroadcast(g, n, 6, as(b, z, t.own));
  return dfg_end(g);
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

/* Multiplications, of inputs `first` on. */
static double multiplications(const df_kernel *k, int32_t first) {
  const df_tensor *q = k->in[first], *key = k->in[first + 1], *v = k->in[first + 2];
  if (q->rank < 2 || key->rank < 2 || v->rank < 2) return 1;
  return (double)key->dims[key->rank - 2] * ((double)q->size + (double)v->dims[v->rank - 1] *
         (q->dims[q->rank - 1] ? (double)q->size / (double)q->dims[q->rank - 1] : 0));
}
static double cost_attention(const df_kernel *k)      { return 1000 + 0.03 * multiplications(k, 0); }
static double cost_attention_grad(const df_kernel *k) { return 1000 + 0.08 * multiplications(k, 1); }
static void work_attention(const df_kernel *k, double *flops, double *bytes) { *flops = 2 * multiplications(k, 0); }
static void work_attention_grad(const df_kernel *k, double *flops, double *bytes) {
  *flops = 5 * multiplications(k, 1);
}

static const df_op ops[] = {
  { .type = "ScaledDotProductAttention", .work = work_attention, .in = "query:T key:T value:T mask:any*",
    .out = "output:T log_sum_exp:any", .types = "T=float", .attrs = "causal:bool=false scale:float=0",
    .doc = "output[..., queries, width] = softmax(scale query key^T) value, of query[..., queries, depth], "
    "key[..., keys, depth] and value[..., keys, width], without the matrix of all scores, so in another order of sums; "
    "scale 0: 1 / sqrt(depth). The mask broadcasts to [..., queries, keys]: bool, true where a query may look, or what "
    "is added to the scores; causal: query i sees keys up to i. A query that sees none gives 0. log_sum_exp[..., "
    "queries] is that of each query's scores, in float32 for halves; infinity where it sees none.",
    .shape = shape_attention, .grad = grad_attention, .cost = cost_attention,
    .kernel = { [DF_REF] = ref_attention, [DF_CPU] = cpu_attention } },
  { .type = "ScaledDotProductAttentionGrad", .work = work_attention_grad,
    .in = "dy:T query:T key:T value:T log_sum_exp:U delta:U mask:any*",
    .out = "query_backprop:T key_backprop:T value_backprop:T", .types = "T=float U=float32|float64",
    .attrs = "causal:bool=false scale:float=0",
    .doc = "What comes back through ScaledDotProductAttention to query, key and value, with the scores made again: "
    "weights p = exp(scores - log_sum_exp), of the scores p (dy value^T - delta), where delta is the sum of dy output "
    "in each row less what comes to log_sum_exp.",
    .shape = shape_attention_grad, .grad = grad_attention_grad, .cost = cost_attention_grad,
    .kernel = { [DF_REF] = ref_attention_grad, [DF_CPU] = cpu_attention_grad } },
};
const dfi_op_table dfi_ops_attention = { ops, (int32_t)(sizeof ops / sizeof *ops) };
