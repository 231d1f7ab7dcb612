/* linalg.c: the entries of matrix products, einsum and diagonals. The gradient of each product is products of the same
 * kind, with the transpositions in their attributes.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/linalg.h"
#include <stdio.h>

/* ---- shapes ------------------------------------------------------------------------------------------- */

/* m, k, n of the last two axes; -1 where not known. */
static int32_t product(dfi_infer *c, bool batched) {
  const dfi_shape *a = dfi_in_shape(c, 0), *b = dfi_in_shape(c, 1);
  dfi_shape *y = dfi_set_shape(c, 0);
  bool a_t = c->node->attrs[0].i != 0, b_t = c->node->attrs[1].i != 0;
  char s[160], t[160];
  *y = dfi_shape_unknown();
  if ((a->rank >= 0 && (a->rank < 2 || (!batched && a->rank != 2))) ||
      (b->rank >= 0 && (b->rank < 2 || (!batched && b->rank != 2))))
    return dfi_infer_fail(c, "needs %s, got %s and %s", batched ? "matrices in its last two axes" : "two matrices",
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), a, s),
                          dfi_typed_shape_text(dfi_in_dtype(c, 1), b, t));
  int64_t m = a->rank < 0 ? -1 : a->dims[a->rank - 2 + a_t], ka = a->rank < 0 ? -1 : a->dims[a->rank - 1 - a_t];
  int64_t n = b->rank < 0 ? -1 : b->dims[b->rank - 1 - b_t], kb = b->rank < 0 ? -1 : b->dims[b->rank - 2 + b_t];
  if (ka >= 0 && kb >= 0 && ka != kb)
    return dfi_infer_fail(c, "the inner dimensions differ, %lld and %lld: a is %s%s, b is %s%s", (long long)ka,
                          (long long)kb, dfi_typed_shape_text(dfi_in_dtype(c, 0), a, s), a_t ? " transposed" : "",
                          dfi_typed_shape_text(dfi_in_dtype(c, 1), b, t), b_t ? " transposed" : "");
  if (batched) {
    if (a->rank < 0 || b->rank < 0) return DF_OK;
    dfi_shape p = *a, q = *b;
    p.rank -= 2;
    q.rank -= 2;
    if (!dfi_shape_broadcast(&p, &q, y))
      return dfi_infer_fail(c, "the batch axes of %s and %s do not broadcast",
                            dfi_typed_shape_text(dfi_in_dtype(c, 0), a, s),
                            dfi_typed_shape_text(dfi_in_dtype(c, 1), b, t));
  } else {
    y->rank = 0;
  }
  y->dims[y->rank++] = m;
  y->dims[y->rank++] = n;
  return DF_OK;
}
static int32_t shape_matmul(dfi_infer *c)       { return product(c, false); }
static int32_t shape_batch_matmul(dfi_infer *c) { return product(c, true); }

static int32_t shape_einsum(dfi_infer *c) {
  int32_t ranks[DFK_EINSUM_INPUTS], n = c->node->nin;
  int64_t sizes[DFK_EINSUM_LABELS];
  const char *equation = c->node->attrs[0].s;
  dfi_shape *y = dfi_set_shape(c, 0);
  dfk_einsum e;
  char why[256];
  bool unknown, vague[DFK_EINSUM_LABELS] = { false };
  *y = dfi_shape_unknown();
  for (int32_t i = 0; i < n && i < DFK_EINSUM_INPUTS; i++) ranks[i] = dfi_in_shape(c, i)->rank;
  if (!dfk_einsum_parse(equation, n, ranks, &e, &unknown, why, sizeof why)) return dfi_infer_fail(c, "%s", why);
  if (unknown) return DF_OK;
  for (int32_t l = 0; l < e.nlabels; l++) sizes[l] = -1;
  for (int32_t i = 0; i < n; i++) {
    const dfi_shape *x = dfi_in_shape(c, i);
    for (int32_t a = 0; a < e.rank[i]; a++) {
      int32_t l = e.label[i][a];
      int64_t d = x->rank < 0 ? -1 : x->dims[a];
      if (d < 0) { vague[l] = true; continue; }
      if (sizes[l] < 0 || (sizes[l] == 1 && e.broadcasts[l])) sizes[l] = d;
      else if (sizes[l] != d && !(d == 1 && e.broadcasts[l]))
        return dfi_infer_fail(c, "einsum equation '%s': label '%c' is %lld in operand %d and %lld before", equation,
                              e.name[l], (long long)d, i, (long long)sizes[l]);
    }
  }
  y->rank = (int8_t)e.out_rank;
  for (int32_t i = 0; i < e.out_rank; i++) {
    int32_t l = e.out[i];
    y->dims[i] = sizes[l] == 1 && e.broadcasts[l] && vague[l] ? -1 : sizes[l];
  }
  return DF_OK;
}

static int32_t shape_band_part(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  char text[160];
  if (x->rank == 0 || x->rank == 1)
    return dfi_infer_fail(c, "needs a matrix, got %s", dfi_typed_shape_text(dfi_in_dtype(c, 0), x, text));
  return dfi_shape_same(c);
}

static int32_t shape_diag(dfi_infer *c) {
  dfi_shape y = *dfi_in_shape(c, 0);
  if (y.rank == 0 || y.rank >= DF_MAX_RANK)
    return dfi_infer_fail(c, "needs 1 to %d axes, got %d", DF_MAX_RANK - 1, y.rank);
  if (y.rank > 0) {
    y.dims[y.rank] = y.dims[y.rank - 1];
    y.rank++;
  }
  *dfi_set_shape(c, 0) = y;
  return DF_OK;
}

static int32_t shape_diag_part(dfi_infer *c) {
  dfi_shape y = *dfi_in_shape(c, 0);
  char text[160];
  if (y.rank == 0 || y.rank == 1)
    return dfi_infer_fail(c, "needs a matrix, got %s", dfi_typed_shape_text(dfi_in_dtype(c, 0), &y, text));
  if (y.rank > 0) {
    int64_t m = y.dims[y.rank - 2], n = y.dims[y.rank - 1];
    y.rank--;
    y.dims[y.rank - 1] = m < 0 || n < 0 ? -1 : m < n ? m : n;
  }
  *dfi_set_shape(c, 0) = y;
  return DF_OK;
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

/* x y with each side read transposed or not. */
static df_output times(dfi_build *b, bool batched, df_output x, df_output y, bool x_t, bool y_t) {
  dfi_attr_int(b, batched ? "adj_x" : "transpose_a", x_t);
  dfi_attr_int(b, batched ? "adj_y" : "transpose_b", y_t);
  return dfi_op(b, batched ? "BatchMatMulV2" : "MatMul", x, y);
}

/* attrs: does the product read x transposed? y? */
static void grad_product(dfi_grad *g, df_node *n, df_output d, df_output *dx, bool batched, const df_attr *attrs) {
  dfi_build *b = dfg_build(g);
  bool x_t = attrs[0].i != 0, y_t = attrs[1].i != 0;
  if (dfg_wants(g, n, 0)) {
    df_output y = batched ? dfg_in(g, n, 1) : dfg_conj(g, dfg_in(g, n, 1));      /* adjoints conjugate */
    dx[0] = x_t ? times(b, batched, y, d, y_t, true) : times(b, batched, d, y, false, !y_t);
    if (batched) dx[0] = dfg_unbroadcast(g, n, 0, dx[0]);
  }
  if (dfg_wants(g, n, 1)) {
    df_output x = batched ? dfg_in(g, n, 0) : dfg_conj(g, dfg_in(g, n, 0));
    dx[1] = y_t ? times(b, batched, d, x, true, x_t) : times(b, batched, x, d, !x_t, false);
    if (batched) dx[1] = dfg_unbroadcast(g, n, 1, dx[1]);
  }
}

static int32_t grad_matmul(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  grad_product(g, n, dy[0], dx, false, n->attrs);
  return dfg_end(g);
}

static int32_t grad_batch_matmul(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  grad_product(g, n, dy[0], dx, true, n->attrs);
  return dfg_end(g);
}

/* BatchMatMulV3: the attributes of V2 stand behind Tout. */
static int32_t shape_batch_matmul_v3(dfi_infer *c) {
  uint8_t x = dfi_in_dtype(c, 0), y = dfi_in_dtype(c, 1), out = c->node->out[0].dtype;
  if (x != y || x != out)
    return dfi_infer_fail(c, "a product of %s and %s as %s is not supported: all three must be one dtype",
                          df_dtype_name(x), df_dtype_name(y), df_dtype_name(out));
  df_node other = *c->node;
  other.attrs++;
  return shape_batch_matmul(&(dfi_infer){ c->graph, &other, c->error });
}
static int32_t after_dtype(df_kernel *k, df_kernel_fn fn) {
  df_kernel other = *k;
  other.attrs++;
  return fn(&other);
}
static int32_t kernel_batch_matmul_v3_ref(df_kernel *k) { return after_dtype(k, ref_batch_matmul); }
static int32_t kernel_batch_matmul_v3(df_kernel *k)     { return after_dtype(k, cpu_batch_matmul); }
static int32_t grad_batch_matmul_v3(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  grad_product(g, n, dy[0], dx, true, n->attrs + 1);
  return dfg_end(g);
}

/* A vector of ones as long as axis `axis` of input i. */
static df_output ones(dfi_grad *g, df_node *n, int32_t i, int32_t axis) {
  dfi_build *b = dfg_build(g);
  df_output dim = dfi_op(b, "Reshape", dfg_in_dim(g, n, i, axis), dfi_const_ints(b, 1, (const int64_t[]){ 1 }));
  return dfi_op(b, "Fill", dim, dfi_const(b, n->out[0].dtype, 1));
}

/* Writes the labels of one operand or output as text. Axes of an ellipsis are written as digits. */
typedef struct speller { char letter[DFK_EINSUM_LABELS]; bool used[128]; } speller;
static char fresh(speller *s, bool digit) {
  for (const char *p = digit ? "0123456789" : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"; *p; p++)
    if (!s->used[(int)*p]) { s->used[(int)*p] = true; return *p; }
  return 'z';
}

/* dx of input i: the einsum of dy and the other inputs that has i's labels as its output. A label that only i has is
 * summed away in the forward pass: ones take its place. A label that i repeats is a diagonal: its later places are new
 * labels, tied by an identity matrix. */
static df_output einsum_part(dfi_grad *g, df_node *n, df_output dy, const dfk_einsum *e, const speller *letters,
                             int32_t i) {
  dfi_build *b = dfg_build(g);
  speller s = *letters;
  char equation[512], result[DFK_EINSUM_RANK + 1];
  df_output in[3 * DFK_EINSUM_INPUTS];
  int32_t at = 0, count = 0;
  bool seen[DFK_EINSUM_LABELS] = { false }, inside[DFK_EINSUM_LABELS] = { false };
  for (int32_t a = 0; a < e->out_rank; a++) {
    equation[at++] = s.letter[(int)e->out[a]];
    seen[(int)e->out[a]] = true;
  }
  in[count++] = dy;
  for (int32_t j = 0; j < e->n; j++) {
    if (j == i) continue;
    equation[at++] = ',';
    for (int32_t a = 0; a < e->rank[j]; a++) {
      equation[at++] = s.letter[(int)e->label[j][a]];
      seen[(int)e->label[j][a]] = true;
    }
    in[count++] = dfg_conj(g, dfg_in(g, n, j));
  }
  for (int32_t a = 0; a < e->rank[i]; a++) {
    int32_t l = e->label[i][a];
    result[a] = s.letter[l];
    if (!seen[l]) {
      equation[at++] = ',';
      equation[at++] = s.letter[l];
      in[count++] = ones(g, n, i, a);
      seen[l] = true;
    }
    if (inside[l]) {
      result[a] = fresh(&s, false);
      equation[at++] = ',';
      equation[at++] = s.letter[l];
      equation[at++] = result[a];
      in[count++] = dfi_op(b, "MatrixDiag", ones(g, n, i, a));
    }
    inside[l] = true;
  }
  result[e->rank[i]] = 0;
  equation[at] = 0;
  char whole[600];
  snprintf(whole, sizeof whole, "%s->%s", equation, result);
  dfi_attr_string(b, "equation", whole);
  df_output d = dfi_opn(b, "Einsum", count, in);
  bool broadcast = false;
  for (int32_t a = 0; a < e->rank[i]; a++) broadcast |= e->broadcasts[(int)e->label[i][a]];
  return broadcast ? dfg_unbroadcast(g, n, i, d) : d;
}

static int32_t grad_einsum(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  int32_t ranks[DFK_EINSUM_INPUTS];
  dfk_einsum e;
  speller s = { .used = { false } };
  char why[256];
  bool unknown;
  for (int32_t i = 0; i < n->nin; i++) ranks[i] = dfi_shape_at(n->in[i])->rank;
  if (!dfk_einsum_parse(n->attrs[0].s, n->nin, ranks, &e, &unknown, why, sizeof why)) return dfg_fail(g, n, "%s", why);
  if (unknown)
    return dfg_fail(g, n,
                    "the gradient of einsum needs the ranks that an ellipsis stands for to be known while building");
  for (int32_t l = 0; l < e.nlabels; l++) s.used[(int)e.name[l]] = true;
  for (int32_t l = 0; l < e.nlabels; l++) s.letter[l] = e.name[l] == '.' ? fresh(&s, true) : e.name[l];
  for (int32_t i = 0; i < n->nin; i++)
    if (dfg_wants(g, n, i)) dx[i] = einsum_part(g, n, dy[0], &e, &s, i);
  return dfg_end(g);
}

static int32_t grad_band_part(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "MatrixBandPart", dy[0], dfg_in(g, n, 1), dfg_in(g, n, 2));
  return dfg_end(g);
}

static int32_t grad_diag(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "MatrixDiagPart", dy[0]);
  return dfg_end(g);
}

static int32_t grad_diag_part(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  bool square = x->rank >= 2 && x->dims[x->rank - 1] >= 0 && x->dims[x->rank - 1] == x->dims[x->rank - 2];
  if (square) dx[0] = dfi_op(b, "MatrixDiag", dy[0]);
  else
    dx[0] =
        dfi_op(b, "MatrixSetDiag", dfi_op(b, "Fill", dfg_in_shape(g, n, 0), dfi_const(b, n->out[0].dtype, 0)), dy[0]);
  return dfg_end(g);
}

/* ---- costs, in ns ----------------------------------------------------------------------------------------- */

static double cost_product(const df_kernel *k) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  if (a->rank < 2 || b->rank < 2) return 100;
  bool b_t = k->attrs[1].i != 0;
  double n = (double)b->dims[b->rank - 1 - b_t], batch = a->size ? 1 : 0;
  if (b->size > a->size && a->rank < b->rank)
    batch = (double)b->size / (double)(b->dims[b->rank - 1] * b->dims[b->rank - 2]);
  double each = a->dtype == DF_FLOAT32 ? 0.02 : a->dtype == DF_FLOAT64 ? 0.04 : 0.2;
  return 60 + each * (double)a->size * n * batch;
}
static double cost_einsum(const df_kernel *k) {
  double size = 0;
  for (int32_t i = 0; i < k->nin; i++) size += (double)k->in[i]->size;
  return 1000 + 10 * size;
}

/* ---- entries ------------------------------------------------------------------------------------------------ */

static const df_op ops[] = {
  { .type = "MatMul", .work = dfi_work_product,
    .lua = "matmul", .in = "a:T b:T", .out = "product:T", .types = "T=float|int32|int64|complex",
    .attrs = "transpose_a:bool=false transpose_b:bool=false",
    .doc = "T[m, n] = matmul(a T[m, k], b T[k, n]): the matrix product; transpose_a, transpose_b read that side "
    "transposed. With k = 0 the product is zeros.",
    .example = "df.matmul(df.float32{{1, 2}, {3, 4}}, df.float32{{1}, {1}})",
    .output = "[[3.]\n [7.]] float32[2,1]",
    .derivative = "a = matmul(dy, b, {transpose_b = true}); b = matmul(a, dy, {transpose_a = true})",
    .shape = shape_matmul, .grad = grad_matmul, .cost = cost_product,
    .kernel = { [DF_REF] = ref_matmul, [DF_CPU] = cpu_matmul } },
  { .type = "BatchMatMulV2", .work = dfi_work_product, .lua = "batch_matmul", .in = "x:T y:T", .out = "output:T",
    .types = "T=float|int32|int64|complex",
    .attrs = "adj_x:bool=false adj_y:bool=false",
    .doc = "T[..., m, n] = batch_matmul(x T[..., m, k], y T[..., k, n]): a product for each index of the leading axes, "
    "which broadcast; adj_x, "
           "adj_y read that side transposed.",
    .example = "df.batch_matmul(df.float32{{{1, 2}}}, df.float32{{{3}, {4}}})",
    .output = "[[[11.]]] float32[1,1,1]",
    .derivative = "x = matmul(dy, y, {transpose_b = true}); y = matmul(x, dy, {transpose_a = true})",
    .shape = shape_batch_matmul, .grad = grad_batch_matmul, .cost = cost_product,
    .kernel = { [DF_REF] = ref_batch_matmul, [DF_CPU] = cpu_batch_matmul } },
  { .type = "BatchMatMul", .work = dfi_work_product,
    .in = "x:T y:T", .out = "output:T", .types = "T=float|int32|int64|complex",
    .attrs = "adj_x:bool=false adj_y:bool=false",
    .doc = "BatchMatMulV2 under its older name", .shape = shape_batch_matmul, .grad = grad_batch_matmul,
    .cost = cost_product,
    .kernel = { [DF_REF] = ref_batch_matmul, [DF_CPU] = cpu_batch_matmul } },
  { .type = "BatchMatMulV3", .work = dfi_work_product,
    .in = "x:Ta y:Tb", .out = "output:Tout", .attrs = "Tout:dtype adj_x:bool=false "
    "adj_y:bool=false",
    .types = "Ta=float|int32|int64|complex Tb=float|int32|int64|complex Tout=float|int32|int64|complex",
    .doc = "BatchMatMulV2; both inputs and the output have one dtype", .shape = shape_batch_matmul_v3,
    .grad = grad_batch_matmul_v3,
    .cost = cost_product, .kernel = { [DF_REF] = kernel_batch_matmul_v3_ref, [DF_CPU] = kernel_batch_matmul_v3 } },
  { .type = "Einsum", .work = dfi_work_product,
    .lua = "einsum", .in = "inputs:T*", .out = "output:T", .types = "T=float|int32|int64|complex",
    .attrs = "equation:string",
    .doc = "A sum of products in Einstein's notation: one letter per axis, the operands separated by commas, then `->` "
    "and the letters of the "
           "result. Letters not in the result are summed over; one that an operand repeats reads its diagonal; `...` "
           "stands for the axes not "
           "named, which broadcast. Without `->` the result has the ellipsis and then, sorted, the letters that occur "
           "once.",
    .example = "df.einsum('ij,jk->ik', df.float32{{1, 2}}, df.float32{{3}, {4}})",
    .output = "[[11.]] float32[1,1]",
    .derivative = "for each operand the einsum of dy and the other operands, by the same letters",
    .shape = shape_einsum, .grad = grad_einsum, .cost = cost_einsum,
    .kernel = { [DF_REF] = ref_einsum, [DF_CPU] = cpu_einsum } },
  { .type = "MatrixBandPart", .lua = "matrix_band_part", .in = "input:T num_lower:Tindex num_upper:Tindex",
    .out = "band:T",
    .types = "T=number|bool|complex|quantized Tindex=int32|int64",
    .doc = "The matrices in the last two axes with zeros outside a band of num_lower subdiagonals and num_upper "
    "superdiagonals; negative keeps "
           "all of them. matrix_band_part(x, -1, 0) is the lower triangle.",
    .example = "df.matrix_band_part(df.float32{{1, 2}, {3, 4}}, 0, -1)",
    .output = "[[1. 2.]\n [0. 4.]] float32[2,2]",
    .derivative = "input = matrix_band_part(dy, num_lower, num_upper)",
    .shape = shape_band_part, .grad = grad_band_part, .kernel = { [DF_REF] = ref_matrix_band_part } },
  { .type = "MatrixDiag", .lua = "matrix_diag", .in = "diagonal:T", .out = "output:T",
    .types = "T=number|bool|complex|quantized",
    .doc = "T[..., n, n] with T[..., n] on its diagonals and zeros elsewhere.",
    .example = "df.matrix_diag({1, 2})  --> {{1, 0}, {0, 2}}",
    .output = "[[1 0]\n [0 2]] int32[2,2]",
    .derivative = "diagonal = matrix_diag_part(dy)",
    .shape = shape_diag, .grad = grad_diag, .kernel = { [DF_REF] = ref_matrix_diag, [DF_CPU] = cpu_matrix_diag } },
  { .type = "MatrixDiagPart", .lua = "matrix_diag_part", .in = "input:T", .out = "diagonal:T",
    .types = "T=number|bool|complex|quantized",
    .doc = "The main diagonals of the matrices in the last two axes: T[..., min(m, n)] of T[..., m, n].",
    .example = "df.matrix_diag_part({{1, 2}, {3, 4}})  --> {1, 4}",
    .output = "[1 4] int32[2]",
    .derivative = "input = matrix_diag(dy)",
    .shape = shape_diag_part, .grad = grad_diag_part,
    .kernel = { [DF_REF] = ref_matrix_diag_part, [DF_CPU] = cpu_matrix_diag_part } },
};
const dfi_op_table dfi_ops_linalg = { ops, sizeof ops / sizeof *ops };
