/* decompose.c: entries of linear solvers, decompositions, Fourier transforms and histograms. Kernels:
 * kernels/ref/decompose.c, fourier.c.
 *
 * Gradients are those of Giles (An extended collection of matrix derivative results, 2008) and Townsend
 * (Differentiating the singular value decomposition, 2016), which TensorFlow's agree with.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/decompose.h"

/* ---- shapes -------------------------------------------------------------------------------------------- */

static int64_t last(const dfi_shape *s, int32_t i) { return s->rank < i ? -1 : s->dims[s->rank - i]; }

/* Input i is a batch of matrices, square ones if asked for. */
static int32_t check_matrix(dfi_infer *c, int32_t i, bool square) {
  const dfi_shape *s = dfi_in_shape(c, i);
  char text[160];
  if (s->rank >= 0 && s->rank < 2)
    return dfi_infer_fail(c, "Shape must be at least rank 2 but is rank %d: input %d is %s", s->rank, i,
                          dfi_typed_shape_text(dfi_in_dtype(c, i), s, text));
  if (square && s->rank >= 0 && last(s, 1) >= 0 && last(s, 2) >= 0 && last(s, 1) != last(s, 2))
    return dfi_infer_fail(
        c, "Dimensions must be equal, but are %lld and %lld: input %d is %s, a square matrix is expected",
        (long long)last(s, 2), (long long)last(s, 1), i, dfi_typed_shape_text(dfi_in_dtype(c, i), s, text));
  return DF_OK;
}

/* Output i: the batch axes of input 0, then these. Of what is no matrix nothing is known: check_matrix refuses it. */
static void give(dfi_infer *c, int32_t i, int32_t n, int64_t a, int64_t b) {
  dfi_shape s = *dfi_in_shape(c, 0);
  if (s.rank < 2) { *dfi_set_shape(c, i) = dfi_shape_unknown(); return; }
  s.rank = (int8_t)(s.rank - 2 + n);
  if (n > 0) s.dims[s.rank - n] = a;
  if (n > 1) s.dims[s.rank - 1] = b;
  *dfi_set_shape(c, i) = s;
}

static int32_t shape_square(dfi_infer *c) {
  int32_t code = check_matrix(c, 0, true);
  return code ? code : dfi_shape_same(c);
}

static int32_t shape_lu(dfi_infer *c) {
  const int32_t code = shape_square(c);
  give(c, 1, 1, last(dfi_in_shape(c, 0), 1), 0);
  return code;
}

static int32_t shape_determinant(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) give(c, i, 0, 0, 0);
  return check_matrix(c, 0, true);
}

static int32_t shape_solve(dfi_infer *c) {
  int32_t code = check_matrix(c, 0, true);
  if (!code) code = check_matrix(c, 1, false);
  const dfi_shape *a = dfi_in_shape(c, 0), *b = dfi_in_shape(c, 1);
  if (!code && last(a, 1) >= 0 && last(b, 2) >= 0 && last(a, 1) != last(b, 2))
    code = dfi_infer_fail(c, "Dimensions must be equal, but are %lld and %lld: the matrix and the right-hand side",
                          (long long)last(a, 1), (long long)last(b, 2));
  *dfi_set_shape(c, 0) = a->rank >= 0 && b->rank >= 0 && a->rank == b->rank ? *b : dfi_shape_unknown();
  return code;
}

/* As shape_solve, and the axes before the matrices broadcast. */
static int32_t shape_triangular_solve(dfi_infer *c) {
  const int32_t code = shape_solve(c);
  const dfi_shape *a = dfi_in_shape(c, 0), *b = dfi_in_shape(c, 1);
  if (code || a->rank < 2 || b->rank < 2) return code;
  dfi_shape p = *a, q = *b, *y = dfi_set_shape(c, 0);
  p.rank -= 2;
  q.rank -= 2;
  if (!dfi_shape_broadcast(&p, &q, y)) {
    char s[160], t[160];
    return dfi_infer_fail(c, "In[0] and In[1] have incompatible shapes: %s and %s",
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), a, s),
                          dfi_typed_shape_text(dfi_in_dtype(c, 1), b, t));
  }
  y->dims[y->rank++] = last(b, 2) >= 0 ? last(b, 2) : last(a, 1);
  y->dims[y->rank++] = last(b, 1);
  return DF_OK;
}

static int32_t shape_tridiagonal(dfi_infer *c) {
  int32_t code = check_matrix(c, 0, false);
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  if (!code && last(dfi_in_shape(c, 0), 2) >= 0 && last(dfi_in_shape(c, 0), 2) != 3)
    code = dfi_infer_fail(c, "Expected diagonals to have 3 rows, got %lld", (long long)last(dfi_in_shape(c, 0), 2));
  return code ? code : check_matrix(c, 1, false);
}

static int64_t lesser(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a < b ? a : b; }

static int32_t shape_qr(dfi_infer *c) {
  const dfi_shape *a = dfi_in_shape(c, 0);
  const int64_t m = last(a, 2), n = last(a, 1), p = c->node->attrs[0].i ? m : lesser(m, n);
  give(c, 0, 2, m, p);
  give(c, 1, 2, p, n);
  return check_matrix(c, 0, false);
}

static int32_t shape_svd(dfi_infer *c) {
  const dfi_shape *a = dfi_in_shape(c, 0);
  const int64_t m = last(a, 2), n = last(a, 1), p = lesser(m, n);
  const bool uv = c->node->attrs[0].i != 0, full = c->node->attrs[1].i != 0;
  give(c, 0, 1, p, 0);
  give(c, 1, 2, m, full ? m : p);
  give(c, 2, 2, n, full ? n : p);
  for (int32_t i = 1; i < 3 && !uv; i++) *dfi_set_shape(c, i) = dfi_shape_vector(0);
  return check_matrix(c, 0, false);
}

static int32_t shape_eig(dfi_infer *c) {
  give(c, 0, 1, last(dfi_in_shape(c, 0), 1), 0);
  *dfi_set_shape(c, 1) = c->node->attrs[0].i ? *dfi_in_shape(c, 0) : dfi_shape_vector(0);
  return check_matrix(c, 0, true);
}

/* A transform along so many axes, the last. */
static int32_t fourier(dfi_infer *c, int32_t axes) {
  const dfi_shape *s = dfi_in_shape(c, 0);
  char text[160];
  if (s->rank >= 0 && s->rank < axes)
    return dfi_infer_fail(c, "Input must have rank of at least %d but got: %s", axes, dfi_shape_text(s, text));
  return dfi_shape_same(c);
}
static int32_t shape_fft(dfi_infer *c)   { return fourier(c, 1); }
static int32_t shape_fft2d(dfi_infer *c) { return fourier(c, 2); }

static int32_t shape_real_fft(dfi_infer *c, bool forward) {
  dfi_shape s = *dfi_in_shape(c, 0);
  const df_tensor *n = dfi_in_const(c, 1);
  const int32_t code = fourier(c, 1);
  if (code) return code;
  const int64_t length = n && n->size == 1 ? df_tensor_get_int(n, 0) : -1;
  if (s.rank > 0) s.dims[s.rank - 1] = length < 0 ? -1 : forward && length ? length / 2 + 1 : length;
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}
static int32_t shape_rfft(dfi_infer *c)  { return shape_real_fft(c, true); }
static int32_t shape_irfft(dfi_infer *c) { return shape_real_fft(c, false); }

static int32_t shape_histogram(dfi_infer *c) {
  const df_tensor *n = dfi_in_const(c, 2);
  *dfi_set_shape(c, 0) = dfi_shape_vector(n && n->size == 1 ? df_tensor_get_int(n, 0) : -1);
  return DF_OK;
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

enum { PLAIN = 0, T_A = 1, T_B = 2 };     /* whose transpose */

static df_output product(dfi_build *b, df_output x, df_output y, int32_t how) {
  dfi_attr_int(b, "adj_x", (how & T_A) != 0);
  dfi_attr_int(b, "adj_y", (how & T_B) != 0);
  return dfi_op(b, "BatchMatMulV2", x, y);
}

/* The last two axes exchanged: times the identity would do it, too, but this is a copy. */
static df_output transposed(dfi_build *b, df_output x) {
  const int32_t rank = dfi_shape_at(x)->rank;
  if (b->failed) return DFI_NONE;
  if (rank >= 2) {
    int64_t order[DF_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) order[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return dfi_op(b, "Transpose", x, dfi_const_ints(b, rank, order));
  }
  df_output r = dfi_op(b, "Rank", x), one = dfi_const_int(b, 1), two = dfi_const_int(b, 2), zero = dfi_const_int(b, 0);
  df_output outer = dfi_op(b, "Range", zero, dfi_op(b, "Sub", r, two), one);
  df_output swap = dfi_op(b, "Pack", dfi_op(b, "Sub", r, one), dfi_op(b, "Sub", r, two));
  return dfi_op(b, "Transpose", x, dfi_op(b, "ConcatV2", outer, swap, zero));
}

static df_output band(dfi_build *b, df_output x, int32_t lower, int32_t upper) {
  return dfi_op(b, "MatrixBandPart", x, dfi_const_int(b, lower), dfi_const_int(b, upper));
}
static df_output axis(dfi_build *b, df_output x, int32_t at) {
  return dfi_op(b, "ExpandDims", x, dfi_const_int(b, at));
}
static df_output scaled(dfi_build *b, df_output x, double by) { return dfi_op(b, "Mul", x, dfi_const_like(b, x, by)); }

static df_output solved(dfi_build *b, df_output a, df_output rhs, bool adjoint) {
  dfi_attr_int(b, "adjoint", adjoint);
  return dfi_op(b, "MatrixSolve", a, rhs);
}
static df_output solved_triangle(dfi_build *b, df_output a, df_output rhs, bool lower, bool adjoint) {
  dfi_attr_int(b, "lower", lower);
  dfi_attr_int(b, "adjoint", adjoint);
  return dfi_op(b, "MatrixTriangularSolve", a, rhs);
}

static int32_t grad_inverse(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const bool adjoint = n->attrs[0].i != 0;
  df_output y = dfg_out(g, n, 0), right = product(b, dy[0], y, adjoint ? T_A : T_B);
  dx[0] = dfi_op(b, "Neg", product(b, y, right, adjoint ? PLAIN : T_A));
  return dfg_end(g);
}

static df_output spread(dfi_build *b, df_output d) { return axis(b, axis(b, d, -1), -1); }

static int32_t grad_determinant(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output a = dfg_in(g, n, 0);
  dfi_attr_int(b, "adjoint", 1);
  df_output inverse = dfi_op(b, "MatrixInverse", a);
  dx[0] = dfi_op(b, "Mul", spread(b, dfi_op(b, "Mul", dy[0], dfg_out(g, n, 0))), inverse);
  return dfg_end(g);
}

static int32_t grad_log_determinant(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (!dy[1].node) return dfg_end(g);                   /* the sign's is zero */
  df_output a = dfg_in(g, n, 0);
  dfi_attr_int(b, "adjoint", 1);
  df_output inverse = dfi_op(b, "MatrixInverse", a);
  dx[0] = dfi_op(b, "Mul", spread(b, dy[1]), inverse);
  return dfg_end(g);
}

static int32_t grad_solve(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const bool adjoint = n->attrs[0].i != 0;
  df_output db = solved(b, dfg_in(g, n, 0), dy[0], !adjoint);
  dx[1] = db;
  if (dfg_wants(g, n, 0)) {
    df_output x = dfg_out(g, n, 0);
    dx[0] = dfi_op(b, "Neg", adjoint ? product(b, x, db, T_B) : product(b, db, x, T_B));
  }
  return dfg_end(g);
}

static int32_t grad_triangular_solve(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const bool lower = n->attrs[0].i != 0, adjoint = n->attrs[1].i != 0;
  df_output db = solved_triangle(b, dfg_in(g, n, 0), dy[0], lower, !adjoint);
  if (dfg_wants(g, n, 1)) dx[1] = dfi_op(b, "SumToShape", db, dfg_in_shape(g, n, 1));
  if (dfg_wants(g, n, 0)) {
    df_output x = dfg_out(g, n, 0);
    df_output da = dfi_op(b, "Neg", adjoint ? product(b, x, db, T_B) : product(b, db, x, T_B));
    dx[0] = dfi_op(b, "SumToShape", lower ? band(b, da, -1, 0) : band(b, da, 0, -1), dfg_in_shape(g, n, 0));
  }
  return dfg_end(g);
}

/* Half of the diagonal, all below it. */
static df_output lower_half(dfi_build *b, df_output x) {
  return dfi_op(b, "Sub", band(b, x, -1, 0), scaled(b, band(b, x, 0, 0), 0.5));
}

static int32_t grad_cholesky(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output l = dfg_out(g, n, 0), middle = lower_half(b, product(b, l, dy[0], T_A));
  /* L^-T middle L^-1, made symmetric */
  df_output left = solved_triangle(b, l, middle, true, true);
  df_output a = transposed(b, solved_triangle(b, l, transposed(b, left), true, true));
  dx[0] = scaled(b, dfi_op(b, "Add", a, transposed(b, a)), 0.5);
  return dfg_end(g);
}

/* x R^-T of an upper triangle R. */
static df_output right_divided(dfi_build *b, df_output x, df_output r) {
  return transposed(b, solved_triangle(b, r, transposed(b, x), false, false));
}
static df_output antisymmetric(dfi_build *b, df_output x) { return dfi_op(b, "Sub", x, transposed(b, x)); }

/* With X = L^-1 d(P a) U^-1 the triangles' differentials are L tril(X), below the diagonal, and triu(X) U. */
static int32_t grad_lu(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (!dy[0].node) return dfg_end(g);
  const df_output lu = dfg_out(g, n, 0), u = band(b, lu, 0, -1);
  const df_output ones = dfi_op(b, "OnesLike", dfi_op(b, "MatrixDiagPart", lu));
  const df_output l = dfi_op(b, "MatrixSetDiag", band(b, lu, -1, 0), ones);
  const df_output to_u = band(b, dy[0], 0, -1), to_l = dfi_op(b, "Sub", dy[0], to_u);
  const df_output of_l = product(b, l, to_l, T_A), of_u = product(b, to_u, u, T_B);
  const df_output middle = dfi_op(b, "Add", dfi_op(b, "Sub", of_l, band(b, of_l, 0, -1)), band(b, of_u, 0, -1));
  const df_output rows = right_divided(b, solved_triangle(b, l, middle, true, true), u);
  const df_output one = dfi_const_like(b, lu, 1), zero = dfi_const_like(b, lu, 0);
  const df_output p = dfi_op(b, "OneHot", dfg_out(g, n, 1), dfg_in_dim(g, n, 0, -1), one, zero);
  dx[0] = product(b, p, rows, T_A);
  return dfg_end(g);
}

static int32_t grad_qr(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const dfi_shape *a = dfi_shape_at(n->in[0]);
  const int64_t rows = last(a, 2), columns = last(a, 1);
  if (rows >= 0 && columns >= 0 && (rows < columns || (n->attrs[0].i && rows != columns)))
    return dfg_fail(g, n,
                    "there is no gradient of matrices with fewer rows than columns, nor with full_matrices = true of "
                    "others than square ones");
  df_output q = dfg_out(g, n, 0), r = dfg_out(g, n, 1), both = DFI_NONE, qdq = DFI_NONE;
  if (dy[0].node) both = antisymmetric(b, qdq = product(b, q, dy[0], T_A));
  if (dy[1].node) {
    df_output rdr = antisymmetric(b, product(b, r, dy[1], T_B));
    both = both.node ? dfi_op(b, "Add", both, rdr) : rdr;
  }
  df_output inner = right_divided(b, band(b, both, -1, 0), r);
  if (dy[1].node) inner = dfi_op(b, "Add", dy[1], inner);
  dx[0] = product(b, q, inner, PLAIN);
  if (dy[0].node)
    dx[0] = dfi_op(b, "Add", dx[0], right_divided(b, dfi_op(b, "Sub", dy[0], product(b, q, qdq, PLAIN)), r));
  return dfg_end(g);
}

/* 1 / (x_j - x_i), zero where they are equal. */
static df_output differences(dfi_build *b, df_output x) {
  df_output d = dfi_op(b, "Sub", axis(b, x, -2), axis(b, x, -1));
  return dfi_op(b, "DivNoNan", dfi_op(b, "OnesLike", d), d);
}

static df_output plus(dfi_build *b, df_output x, df_output y) { return x.node ? dfi_op(b, "Add", x, y) : y; }

static int32_t grad_svd(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const dfi_shape *a = dfi_shape_at(n->in[0]);
  const bool vectors = n->attrs[0].i != 0, moved = vectors && (dy[1].node || dy[2].node);
  if (moved && n->attrs[1].i && (last(a, 1) < 0 || last(a, 1) != last(a, 2)))
    return dfg_fail(g, n, "there is no gradient of the vectors of full_matrices = true but of square matrices");
  df_output s = dfg_out(g, n, 0), u, v, middle = DFI_NONE, sides = DFI_NONE;
  if (vectors && !n->attrs[1].i) { u = dfg_out(g, n, 1); v = dfg_out(g, n, 2); }
  else {
    df_node *again = dfi_opnode(b, "Svd", 1, (df_output[]){ dfg_in(g, n, 0) });
    if (!again) return dfg_end(g);
    u = (df_output){ again, 1 };
    v = (df_output){ again, 2 };
  }
  df_output row = axis(b, s, -2), column = axis(b, s, -1),
            f = moved ? differences(b, dfi_op(b, "Square", s)) : DFI_NONE;
  if (dy[0].node) middle = dfi_op(b, "MatrixDiag", dy[0]);
  df_output reciprocal = moved ? dfi_op(b, "DivNoNan", dfi_op(b, "OnesLike", row), row) : DFI_NONE;
  if (vectors && dy[1].node) {
    df_output w = product(b, u, dy[1], T_A);
    middle = plus(b, middle, dfi_op(b, "Mul", dfi_op(b, "Mul", f, antisymmetric(b, w)), row));
    df_output rest = dfi_op(b, "Mul", dfi_op(b, "Sub", dy[1], product(b, u, w, PLAIN)), reciprocal);
    sides = product(b, rest, v, T_B);
  }
  if (vectors && dy[2].node) {
    df_output w = product(b, v, dy[2], T_A);
    middle = plus(b, middle, dfi_op(b, "Mul", column, dfi_op(b, "Mul", f, antisymmetric(b, w))));
    df_output rest = dfi_op(b, "Mul", dfi_op(b, "Sub", dy[2], product(b, v, w, PLAIN)), reciprocal);
    sides = plus(b, sides, product(b, u, rest, T_B));
  }
  if (!middle.node) return dfg_end(g);
  dx[0] = product(b, u, product(b, middle, v, T_B), PLAIN);
  if (sides.node) dx[0] = dfi_op(b, "Add", dx[0], sides);
  return dfg_end(g);
}

/* Only the lower triangle is read, so the gradient lies there. */
static int32_t grad_eig(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output e = dfg_out(g, n, 0), v, middle = DFI_NONE;
  if (n->attrs[0].i) v = dfg_out(g, n, 1);
  else {
    df_node *again = dfi_opnode(b, "SelfAdjointEigV2", 1, (df_output[]){ dfg_in(g, n, 0) });
    if (!again) return dfg_end(g);
    v = (df_output){ again, 1 };
  }
  if (dy[0].node) middle = dfi_op(b, "MatrixDiag", dy[0]);
  if (n->attrs[0].i && dy[1].node)
    middle = plus(b, middle, dfi_op(b, "Mul", differences(b, e), product(b, v, dy[1], T_A)));
  if (!middle.node) return dfg_end(g);
  df_output a = product(b, v, product(b, middle, v, T_B), PLAIN);
  dx[0] = lower_half(b, dfi_op(b, "Add", a, transposed(b, a)));
  return dfg_end(g);
}

/* diagonals: above, main, below. The transposed system has them exchanged and shifted. */
static int32_t grad_tridiagonal_solve(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output d = dfg_in(g, n, 0), index[3];
  const int32_t shift[3] = { -1, 0, 1 };                /* row i of the transposed above is the next one's below */
  for (int32_t i = 0; i < 3; i++) {
    df_output row = dfi_op(b, "GatherV2", d, dfi_const_ints(b, 1, (int64_t[]){ 2 - i }), dfi_const_int(b, -2));
    index[i] = i == 1 ? row : dfi_op(b, "Roll", row, dfi_const_int(b, shift[i]), dfi_const_int(b, -1));
  }
  df_output across = dfi_op(b, "ConcatV2", index[0], index[1], index[2], dfi_const_int(b, -2));
  dfi_attr_int(b, "partial_pivoting", n->attrs[0].i);
  df_output db = dfi_op(b, "TridiagonalSolve", across, dy[0]);
  dx[1] = db;
  if (dfg_wants(g, n, 0)) {
    df_output x = dfg_out(g, n, 0), part[3];
    for (int32_t i = 0; i < 3; i++) {
      /* d[i] of row r multiplies x of row r + 1, r, r - 1; what would be outside is zero */
      df_output moved = x;
      if (i != 1) {
        df_output rows = dfi_op(b, "Roll", x, dfi_const_int(b, i == 0 ? -1 : 1), dfi_const_int(b, -2));
        moved = rows;
      }
      df_output sum = dfi_op(b, "Sum", dfi_op(b, "Mul", db, moved), dfi_const_int(b, -1));
      part[i] = axis(b, dfi_op(b, "Neg", sum), -2);
    }
    df_output all = dfi_op(b, "ConcatV2", part[0], part[1], part[2], dfi_const_int(b, -2));
    /* the last element above and the first below are not read: a mask of ones but there */
    df_output ones = dfi_op(b, "OnesLike", part[0]);
    df_output from0 = dfi_op(b, "Cumsum", ones, dfi_const_int(b, -1));
    dfi_attr_int(b, "reverse", 1);
    df_output from1 = dfi_op(b, "Cumsum", ones, dfi_const_int(b, -1));
    df_output below_one = dfi_op(b, "Minimum", dfi_op(b, "Sub", from0, dfi_const_like(b, from0, 1)), ones);
    df_output above_one = dfi_op(b, "Minimum", dfi_op(b, "Sub", from1, dfi_const_like(b, from1, 1)), ones);
    dx[0] = dfi_op(b, "Mul", all, dfi_op(b, "ConcatV2", above_one, ones, below_one, dfi_const_int(b, -2)));
  }
  return dfg_end(g);
}

/* The number of elements along the last axes, as complex numbers of y's kind. */
static df_output count_of(dfi_grad *g, df_node *n, int32_t axes, uint8_t dtype) {
  dfi_build *b = dfg_build(g);
  df_output size = dfg_in_dim(g, n, 0, -1);
  if (axes == 2) size = dfi_op(b, "Mul", size, dfg_in_dim(g, n, 0, -2));
  dfi_attr_int(b, "DstT", dtype);
  return dfi_op(b, "Cast", size);
}

static int32_t grad_fourier(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const char *back, int32_t axes,
                            bool forward) {
  dfi_build *b = dfg_build(g);
  df_output size = count_of(g, n, axes, dfi_dtype(n->in[0]));
  dx[0] = dfi_op(b, forward ? "Mul" : "RealDiv", dfi_op(b, back, dy[0]), size);
  return dfg_end(g);
}
static int32_t grad_fft(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return grad_fourier(g, n, dy, dx, "IFFT", 1, true);
}
static int32_t grad_ifft(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return grad_fourier(g, n, dy, dx, "FFT", 1, false);
}
static int32_t grad_fft2d(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return grad_fourier(g, n, dy, dx, "IFFT2D", 2, true);
}
static int32_t grad_ifft2d(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return grad_fourier(g, n, dy, dx, "FFT2D", 2, false);
}

/* The transforms of real numbers are linear; RFFTGrad and IRFFTGrad are their adjoints, and theirs the transforms
   again. */
static df_output adjoint(dfi_build *b, const char *type, df_output x, df_output n, df_output length, uint8_t dtype,
                         const char *attr) {
  dfi_attr_int(b, attr, dtype);
  return length.node ? dfi_op(b, type, x, n, length) : dfi_op(b, type, x, n);
}
static int32_t grad_rfft(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  df_output m = dfg_in(g, n, 1), length = dfg_in_dim(g, n, 0, -1);
  dx[0] = adjoint(dfg_build(g), "RFFTGrad", dy[0], m, length, dfi_dtype(n->in[0]), "Treal");
  return dfg_end(g);
}
static int32_t grad_irfft(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  df_output m = dfg_in(g, n, 1), length = dfg_in_dim(g, n, 0, -1);
  dx[0] = adjoint(dfg_build(g), "IRFFTGrad", dy[0], m, length, dfi_dtype(n->in[0]), "Tcomplex");
  return dfg_end(g);
}
static int32_t grad_rfft_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = adjoint(dfg_build(g), "RFFT", dy[0], dfg_in(g, n, 1), DFI_NONE, dfi_dtype(n->in[0]), "Tcomplex");
  return dfg_end(g);
}
static int32_t grad_irfft_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = adjoint(dfg_build(g), "IRFFT", dy[0], dfg_in(g, n, 1), DFI_NONE, dfi_dtype(n->in[0]), "Treal");
  return dfg_end(g);
}

static int32_t shape_real_fft_grad(dfi_infer *c) {
  dfi_shape s = *dfi_in_shape(c, 0);
  const df_tensor *n = dfi_in_const(c, 2);
  if (s.rank > 0) s.dims[s.rank - 1] = n && n->size == 1 ? df_tensor_get_int(n, 0) : -1;
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

#define SQUARE(text, name) .in = "input:T", .out = "output:T", .types = "T=float32|float64", .doc = text, \
  .shape = shape_square, .kernel = { [DF_REF] = ref_##name }
#define FOURIER(text, axes, name) .in = "input:Tcomplex", .out = "output:Tcomplex", \
  .types = "Tcomplex=complex64|complex128", .doc = text, .shape = shape_##axes, \
  .kernel = { [DF_REF] = ref_##name, [DF_CPU] = cpu_##name }

static const df_op ops[] = {
  { .type = "MatrixSolve", .work = dfi_work_factors,
    .lua = "matrix_solve",
    .in = "matrix:T rhs:T",
    .out = "output:T",
    .types = "T=float32|float64",
    .attrs = "adjoint:bool=false",
    .doc = "T[..., n, k] = matrix_solve(matrix T[..., n, n], rhs T[..., n, k]): x with matrix x = rhs; adjoint takes "
           "the matrix transposed. A singular one is an error",
    .example = "df.matrix_solve({{2.0, 0.0}, {0.0, 4.0}}, {{2.0}, {2.0}})  --> {{1}, {0.5}}",
    .output = "[[1.0]\n [0.5]] float32[2,1]",
    .derivative = "rhs gets the solution of the transposed system for dy, matrix minus that times the solution "
    "transposed",
    .shape = shape_solve,
    .grad = grad_solve,
    .expensive = true,
    .kernel = { [DF_REF] = ref_matrix_solve } },
  { .type = "MatrixTriangularSolve", .work = dfi_work_factors,
    .lua = "matrix_triangular_solve",
    .in = "matrix:T rhs:T",
    .out = "output:T",
    .types = "T=float32|float64",
    .attrs = "lower:bool=true adjoint:bool=false",
    .doc = "T[..., n, k] = matrix_triangular_solve(matrix T[..., n, n], rhs T[..., n, k]): as matrix_solve, reading "
           "only the lower (or upper) triangle",
    .example = "df.matrix_triangular_solve({{2.0, 9.0}, {1.0, 1.0}}, {{2.0}, {3.0}})  --> {{1}, {2}}",
    .output = "[[1.]\n [2.]] float32[2,1]",
    .derivative = "as of matrix_solve, within the triangle",
    .shape = shape_triangular_solve,
    .grad = grad_triangular_solve,
    .kernel = { [DF_REF] = ref_matrix_triangular_solve } },
  { .type = "MatrixInverse", .work = dfi_work_factors,
    .lua = "matrix_inverse",
    .attrs = "adjoint:bool=false",
    SQUARE("T[..., n, n] = matrix_inverse(input T[..., n, n]): the inverse of each matrix, or of its transpose "
           "(adjoint). A singular one is an error",
           matrix_inverse),
    .example = "df.matrix_inverse({{2.0, 0.0}, {0.0, 4.0}})  --> {{0.5, 0}, {0, 0.25}}",
    .output = "[[0.50 0.00]\n [0.00 0.25]] float32[2,2]",
    .derivative = "minus the transposed inverse times dy times the transposed inverse",
    .grad = grad_inverse,
    .expensive = true },
  { .type = "MatrixDeterminant", .work = dfi_work_factors, .onnx = "Det",
    .lua = "matrix_determinant",
    .in = "input:T",
    .out = "output:T",
    .types = "T=float32|float64",
    .shape = shape_determinant,
    .doc = "T[...] = matrix_determinant(input T[..., n, n]): the determinant of each matrix",
    .example = "df.matrix_determinant({{1.0, 2.0}, {3.0, 4.0}})  --> -2",
    .output = "-2.0",
    .derivative = "dy times the determinant times the transposed inverse",
    .grad = grad_determinant,
    .kernel = { [DF_REF] = ref_matrix_determinant },
    .expensive = true },
  { .type = "LogMatrixDeterminant", .work = dfi_work_factors,
    .lua = "log_matrix_determinant",
    .in = "input:T",
    .out = "sign:T log_abs_determinant:T",
    .types = "T=float32|float64",
    .shape = shape_determinant,
    .doc = "sign T[...], log_abs T[...] = log_matrix_determinant(input T[..., n, n]): the "
           "determinant is sign * exp(log_abs)",
    .example = "df.log_matrix_determinant({{1.0, 0.0}, {0.0, -1.0}})",
    .output = "-1.0, 0.0",
    .derivative = "dy of log_abs_determinant times the transposed inverse; the sign has none",
    .grad = grad_log_determinant,
    .kernel = { [DF_REF] = ref_log_matrix_determinant },
    .expensive = true },
  { .type = "Cholesky", .work = dfi_work_factors,
    .lua = "cholesky",
    SQUARE("T[..., n, n] = cholesky(input T[..., n, n]): the lower triangle L of each symmetric positive definite "
           "matrix, which is L L^T. Only its lower triangle is "
           "read; another matrix is an error",
           cholesky),
    .example = "df.cholesky({{4.0, 2.0}, {2.0, 5.0}})  --> {{2, 0}, {1, 2}}",
    .output = "[[2. 0.]\n [1. 2.]] float32[2,2]",
    .derivative = "of L: L^-T (the lower half of L^T dy) L^-1, made symmetric",
    .grad = grad_cholesky,
    .expensive = true },
  { .type = "Lu", .work = dfi_work_factors, .lua = "lu", .in = "input:T", .out = "lu:T p:output_idx_type",
    .types = "T=float32|float64|complex output_idx_type=int32|int64", .attrs = "output_idx_type:dtype=int32",
    .doc = "lu T[..., n, n], p int32[..., n] = lu(input T[..., n, n]): an upper triangle and, below its diagonal, a "
           "lower one with ones on its own; their product is the input's rows in the order p. A matrix without an "
           "inverse is an error",
    .example = "df.lu({{2.0, 1.0}, {4.0, 4.0}})",
    .output = "[[ 4.0  4.0]\n [ 0.5 -1.0]] float32[2,2]\n[1 0] int32[2]", .see = "qr cholesky matrix_solve",
    .derivative = "P^T L^-T (the lower part of L^T dL and the upper of dU U^T) U^-T", .shape = shape_lu,
    .grad = grad_lu, .kernel = { [DF_REF] = ref_lu }, .expensive = true },
  { .type = "Qr", .work = dfi_work_factors,
    .in = "input:T",
    .out = "q:T r:T",
    .types = "T=float32|float64",
    .attrs = "full_matrices:bool=false",
    .lua = "qr",
    .doc = "q T[..., m, p], r T[..., p, n] = qr(input T[..., m, n]): orthonormal columns and an upper triangle whose "
           "product is the input; p is the lesser of m and n, or m "
           "with full_matrices",
    .example = "df.qr({{3.0, 1.0}, {4.0, 2.0}})",
    .output = "[[-0.6 -0.8]\n [-0.8  0.6]] float32[2,2]\n[[-5.0 -2.2]\n [ 0.0  0.4]] float32[2,2]",
    .derivative = "as in Walter and Lehmann: of matrices with as many rows as columns at least",
    .shape = shape_qr,
    .grad = grad_qr,
    .kernel = { [DF_REF] = ref_qr },
    .expensive = true },
  { .type = "Svd", .work = dfi_work_factors,
    .in = "input:T",
    .out = "s:T u:T v:T",
    .types = "T=float32|float64",
    .attrs = "compute_uv:bool=true full_matrices:bool=false",
    .doc = "s T[..., p], u T[..., m, p], v T[..., n, p] of input T[..., m, n]: the input is u diag(s) v^T, s falls",
    .shape = shape_svd,
    .grad = grad_svd,
    .kernel = { [DF_REF] = ref_svd },
    .expensive = true },
  { .type = "SelfAdjointEigV2",
    .in = "input:T",
    .out = "e:T v:T",
    .types = "T=float32|float64",
    .attrs = "compute_v:bool=true",
    .doc = "eigenvalues e T[..., n] in rising order and eigenvectors v T[..., n, n] in columns, of symmetric input "
           "T[..., n, n], whose lower triangle is read",
    .shape = shape_eig,
    .grad = grad_eig,
    .kernel = { [DF_REF] = ref_self_adjoint_eig },
    .expensive = true },
  { .type = "TridiagonalSolve",
    .in = "diagonals:T rhs:T",
    .out = "output:T",
    .types = "T=float32|float64",
    .attrs = "partial_pivoting:bool=true",
    .shape = shape_tridiagonal,
    .lua = "tridiagonal_solve",
    .doc = "T[..., n, k] = tridiagonal_solve(diagonals T[..., 3, n], rhs T[..., n, k]): rows above, main and below; "
           "the last element above and the first below are not read",
    .example = "df.tridiagonal_solve({{1.0, 0.0}, {2.0, 2.0}, {0.0, 1.0}}, {{3.0}, {3.0}})  --> {{1}, {1}}",
    .output = "[[1.]\n [1.]] float32[2,1]",
    .derivative = "as of matrix_solve, within the diagonals",
    .grad = grad_tridiagonal_solve,
    .kernel = { [DF_REF] = ref_tridiagonal_solve } },
  { .type = "FFT",
    .lua = "fft",
    FOURIER("complex64[..., n] = fft(input complex64[..., n]): the discrete Fourier "
            "transform along the last axis",
            fft, fft),
    .grad = grad_fft,
    .example = "df.fft(df.cast(df.float32{1, 0, 0, 0}, 'complex64'))",
    .output = "[1.+0.j 1.+0.j 1.+0.j 1.+0.j] complex64[4]",
    .derivative = "n times ifft of dy" },
  { .type = "IFFT",
    .lua = "ifft",
    FOURIER("complex64[..., n] = ifft(input complex64[..., n]): the inverse of fft", fft, ifft),
    .grad = grad_ifft,
    .example = "df.ifft(df.cast(df.float32{4, 0, 0, 0}, 'complex64'))",
    .output = "[1.+0.j 1.+0.j 1.+0.j 1.+0.j] complex64[4]",
    .derivative = "fft of dy, divided by n" },
  { .type = "FFT2D",
    .lua = "fft2d",
    FOURIER("complex64[..., m, n] = fft2d(input complex64[..., m, n]): along the last "
            "two axes",
            fft2d, fft2d),
    .grad = grad_fft2d,
    .example = "df.fft2d(df.cast(df.float32{{1, 0}, {0, 0}}, 'complex64'))",
    .output = "[[1.+0.j 1.+0.j]\n [1.+0.j 1.+0.j]] complex64[2,2]",
    .derivative = "m n times ifft2d of dy" },
  { .type = "IFFT2D",
    .lua = "ifft2d",
    FOURIER("complex64[..., m, n] = ifft2d(input complex64[..., m, n]): the inverse "
            "of fft2d",
            fft2d, ifft2d),
    .grad = grad_ifft2d,
    .example = "df.ifft2d(df.cast(df.float32{{4, 0}, {0, 0}}, 'complex64'))",
    .output = "[[1.+0.j 1.+0.j]\n [1.+0.j 1.+0.j]] complex64[2,2]",
    .derivative = "fft2d of dy, divided by m n" },
  { .type = "RFFT",
    .in = "input:Treal fft_length:int32",
    .out = "output:Tcomplex",
    .types = "Treal=float32|float64 Tcomplex=complex64|complex128",
    .attrs = "Tcomplex:dtype=complex64",
    .doc = "the fft of real numbers: its first fft_length / 2 + 1 elements",
    .shape = shape_rfft,
    .grad = grad_rfft,
    .kernel = { [DF_REF] = ref_rfft, [DF_CPU] = cpu_rfft } },
  { .type = "IRFFT",
    .in = "input:Tcomplex fft_length:int32",
    .out = "output:Treal",
    .types = "Treal=float32|float64 Tcomplex=complex64|complex128",
    .attrs = "Treal:dtype=float32",
    .doc = "the inverse of RFFT",
    .shape = shape_irfft,
    .grad = grad_irfft,
    .kernel = { [DF_REF] = ref_irfft, [DF_CPU] = cpu_irfft } },
  { .type = "RFFTGrad",
    .in = "dy:Tcomplex fft_length:int32 length:int32",
    .out = "output:Treal",
    .types = "Treal=float32|float64 Tcomplex=complex64|complex128",
    .attrs = "Treal:dtype=float32",
    .doc = "the gradient of RFFT of that many numbers",
    .shape = shape_real_fft_grad,
    .grad = grad_rfft_grad,
    .kernel = { [DF_REF] = ref_rfft_grad, [DF_CPU] = cpu_rfft_grad } },
  { .type = "IRFFTGrad",
    .in = "dy:Treal fft_length:int32 length:int32",
    .out = "output:Tcomplex",
    .types = "Treal=float32|float64 Tcomplex=complex64|complex128",
    .attrs = "Tcomplex:dtype=complex64",
    .doc = "the gradient of IRFFT of that many numbers",
    .shape = shape_real_fft_grad,
    .grad = grad_irfft_grad,
    .kernel = { [DF_REF] = ref_irfft_grad, [DF_CPU] = cpu_irfft_grad } },
  { .type = "HistogramFixedWidth",
    .in = "values:T value_range:T nbins:int32",
    .out = "out:dtype",
    .types = "T=int32|int64|float32|float64 dtype=int32|int64",
    .attrs = "dtype:dtype=int32",
    .doc = "how many values fall into each of nbins parts of value_range; what lies "
           "outside counts for the first or last",
    .shape = shape_histogram,
    .no_grad = true,
    .kernel = { [DF_REF] = ref_histogram_fixed_width } },
};
const dfi_op_table dfi_ops_decompose = { ops, (int32_t)(sizeof ops / sizeof *ops) };
