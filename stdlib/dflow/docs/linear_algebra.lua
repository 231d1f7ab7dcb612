--- The pages of linear algebra. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.svd(tensor, {full_matrices = false, compute_uv = true})
  s, u, v of matrices: tensor is u diag(s) v^T, and s falls; s alone without compute_uv.
  example   df.svd({{3.0, 0.0}, {0.0, 2.0}}, {compute_uv = false})

df.self_adjoint_eig(tensor)
  The eigenvalues of symmetric matrices, rising, and the eigenvectors in columns. Only the lower triangle is read.
  example   (df.self_adjoint_eig{{2.0, 1.0}, {1.0, 2.0}})

df.self_adjoint_eigvals(tensor)
  The eigenvalues of symmetric matrices, rising.
  example   df.self_adjoint_eigvals{{2.0, 1.0}, {1.0, 2.0}}

df.cholesky_solve(chol, rhs)
  x with A x = rhs, where chol is the Cholesky factor of A.
  example   df.cholesky_solve({{2.0, 0.0}, {0.0, 1.0}}, {{4.0}, {3.0}})

df.lstsq(matrix, rhs, {l2_regularizer = 0, fast = true})
  x that makes |matrix x - rhs|^2 + l2_regularizer |x|^2 least: by the normal equations, or by QR where fast is false.
  example   df.lstsq({{1.0, 1.0}, {1.0, 2.0}, {1.0, 3.0}}, {{1.0}, {2.0}, {3.0}})

df.matrix_solve_ls(matrix, rhs, {l2_regularizer = 0, fast = true})
  The same as lstsq, by TensorFlow 1's name.
  example   df.matrix_solve_ls({{2.0}}, {{4.0}})

df.tridiagonal_matmul(diagonals, rhs)
  The product of tridiagonal matrices, given as rows above, main and below, with rhs.
  example   df.tridiagonal_matmul({{1.0, 0.0}, {2.0, 2.0}, {0.0, 1.0}}, {{1.0}, {1.0}})

df.eye(n, m?, {…})
  Ones on the diagonal of an n by m matrix, zeros elsewhere; m is n unless given.
  option    dtype: string = 'float32'  of the matrix
@name
  gradient  none: it has no inputs
  example   df.eye(2, 3)

df.tensordot(a, b, axes)
  The sum of products over the last `axes` axes of a and the first of b, or over {axes of a, axes
  of b}.
  gradient  that of the einsum it is
  example   df.tensordot(df.float32{{1, 2}}, df.float32{{3}, {4}}, 1)

df.norm(x, axis?, keep_dims?)
  The square root of the sum of squares along the axes, all of them by default.
  gradient  x: dy * x / norm(x)
  example   df.norm{3.0, 4.0}

df.matrix_transpose(x)
  The last two dimensions exchanged.
  gradient  x: dy with its last two dimensions exchanged
  example   df.matrix_transpose{{1, 2}, {3, 4}}

df.adjoint(x)
  The last two dimensions exchanged, and conjugated where x is complex.
  gradient  x: the adjoint of dy
  example   df.adjoint{{1.0, 2.0}, {3.0, 4.0}}

df.trace(x)
  The sum of the diagonal of each matrix.
  gradient  x: dy along the diagonal
  example   df.trace{{1.0, 2.0}, {3.0, 4.0}}

df.matvec(a, b)
  A matrix, or a batch of them, times a vector each.
  gradient  that of df.matmul
  example   df.matvec({{1.0, 2.0}, {3.0, 4.0}}, {1.0, 1.0})

df.logdet(x)
  The logarithm of the determinant of a symmetric, positive matrix, by its Cholesky factor.
  gradient  that of df.cholesky
  example   df.logdet{{2.0, 1.0}, {1.0, 3.0}}
]==]
