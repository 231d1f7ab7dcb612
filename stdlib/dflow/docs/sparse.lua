--- Help for sparse tensors (dflow.front.sparse).
return [==[
-- ---- what they are -----------------------------------------------------------------------------

df.SparseTensor(indices, values, dense_shape)
  Element i of a tensor of shape dense_shape lies at indices[i] and is values[i]; elsewhere are
  zeros: int64[n, rank], [n], int64[rank]. One table with these names does, too. In loops, branches,
  feeds and fetches it stands for its parts. sp * x and sp / x are df.sparse_dense_cwise_mul and
  div. Its gradient is that of its values.
  gradient  of the values
  example   df.sparse_tensor_to_dense(df.SparseTensor({{0, 0}, {1, 2}}, {1.0, 2.0}, {2, 3}) * 10)

df.sparse_placeholder(dtype, shape?, name?)
  A SparseTensor that is fed: df.run(y, {[sp] = {indices =, values =, dense_shape =}}), or what a run
  gave of one. Where all of its shape is said, dense_shape may be left out.
  gradient  of the values
  example   local sp = df.sparse_placeholder('float32', {2, 2})
            return df.run(df.sparse_reduce_sum(sp), {[sp] = {indices = {{0, 1}}, values = {3}}})

df.sparse_to_dense(sparse_indices, output_shape, sparse_values, default_value?, validate_indices?)
  default_value (0, '' or false) everywhere but at the indices ([n, rank], [n] or one number), where
  the values are, [n] or one. They must rise unless validate_indices is false.
  gradient  of the values and of default_value
  example   df.sparse_to_dense({1, 3}, {5}, 9)

df.sparse_tensor_to_dense(sp_input, default_value?, validate_indices?)
  A SparseTensor as a dense Output: df.sparse_to_dense of its parts.
  gradient  of the values
  example   df.sparse_tensor_to_dense{indices = {{0, 1}}, values = {3.0}, dense_shape = {2, 2}}

df.sparse_to_indicator(sp_input, vocab_size)
  bool[…, vocab_size]: which of the numbers below vocab_size stand in each row, of a sparse tensor
  of integers.
  gradient  none
  example   df.sparse_to_indicator({indices = {{0, 0}, {0, 1}}, values = {2, 0}, dense_shape = {1, 2}}, 3)

-- ---- other places ------------------------------------------------------------------------------

df.sparse_reorder(sp_input)
  The same with indices that rise, as other functions want them.
  gradient  of the values
  example   df.sparse_reorder{indices = {{1}, {0}}, values = {1.0, 2.0}, dense_shape = {2}}.values

df.sparse_reshape(sp_input, shape)
  Another shape of as many places; one dimension may be -1.
  gradient  of the values
  example   df.sparse_reshape({indices = {{0, 3}}, values = {1.0}, dense_shape = {2, 4}}, {4, -1}).indices

df.sparse_transpose(sp_input, perm?)
  Axis i of the result is axis perm[i]; all axes turned round unless perm is given.
  gradient  of the values
  example   df.sparse_transpose{indices = {{0, 3}}, values = {1.0}, dense_shape = {2, 4}}.indices

df.sparse_slice(sp_input, start, size)
  What lies from start on, of that size or what there is of it.
  gradient  of the values
  example   df.sparse_slice({indices = {{0}, {3}}, values = {1.0, 2.0}, dense_shape = {4}}, {2}, {9}).values

df.sparse_split(sp_input, num_split, axis)
  A list of num_split sparse tensors along the axis, the first ones larger by one.
  gradient  of the values
  example   df.sparse_split({indices = {{0}, {3}}, values = {1.0, 2.0}, dense_shape = {5}}, 2, 0)[2].dense_shape

df.sparse_concat(axis, sp_inputs, {…})
  Sparse tensors one behind the other along the axis, in order.
  option    expand_nonconcat_dim: bool = false  true: the other dimensions are the largest ones
@name
  gradient  of the values
  example   local sp = df.SparseTensor({{0, 1}}, {1.0}, {1, 2}) return df.sparse_concat(0, {sp, sp}).indices

df.sparse_retain(sp_input, to_retain)
  The elements for which bool[n] is true.
  gradient  of the values
  example   df.sparse_retain({indices = {{0}, {3}}, values = {1.0, 2.0}, dense_shape = {5}}, {false, true}).values

df.sparse_reset_shape(sp_input, new_shape?)
  The same elements in a larger shape, or in the smallest that holds them.
  gradient  of the values
  example   df.sparse_reset_shape{indices = {{0, 2}}, values = {1.0}, dense_shape = {9, 9}}.dense_shape

df.sparse_fill_empty_rows(sp_input, default_value)
  default_value in the first place of each row that is empty; and bool[rows], which were.
  gradient  of the values and of default_value
  example   df.sparse_fill_empty_rows({indices = {{1, 0}}, values = {2.0}, dense_shape = {2, 2}}, -1).values

-- ---- arithmetic --------------------------------------------------------------------------------

df.sparse_tensor_dense_matmul(sp_a, b, adjoint_a?, adjoint_b?)
  The product of a sparse matrix and a dense one, dense; each may be read transposed.
  gradient  of the values and of b
  example   df.sparse_tensor_dense_matmul({indices = {{0, 1}}, values = {2.0}, dense_shape = {1, 2}}, {{1}, {5}})

df.sparse_add(a, b, threshold?, {…})
  Two sparse tensors of one shape, sparse, or one of them and a dense one, dense. Two elements at
  one place whose sum is less than threshold, 0 unless it is given, are left out.
  option    thresh: number = 0  threshold under its older name
@name
  gradient  of the values
  example   local sp = df.SparseTensor({{0, 1}}, {1.0}, {1, 2}) return df.sparse_add(sp, sp).values

df.sparse_dense_cwise_mul(sp_input, dense)
  A sparse tensor times a dense one, which is broadcast, sparse: sp * x.
  gradient  of the values and of dense
  example   df.sparse_dense_cwise_mul({indices = {{0, 1}}, values = {2.0}, dense_shape = {1, 2}}, {3, 5}).values

df.sparse_dense_cwise_div(sp_input, dense)
  A sparse tensor over a dense one, which is broadcast, sparse: sp / x.
  gradient  of the values and of dense
  example   df.sparse_dense_cwise_div({indices = {{0, 1}}, values = {2.0}, dense_shape = {1, 2}}, {3, 5}).values

df.sparse_dense_cwise_add(sp_input, dense)
  The elements of a sparse tensor and what a dense one, which is broadcast, has there; sparse.
  gradient  of the values and of dense
  example   df.sparse_dense_cwise_add({indices = {{0, 1}}, values = {2.0}, dense_shape = {1, 2}}, {3, 5}).values

df.sparse_reduce_sum(sp_input, axis?, keepdims?, {…})
  The sum over an axis, a list of them, or all; dense.
@reduction
  gradient  of the values
  example   df.sparse_reduce_sum({indices = {{0, 1}, {1, 1}}, values = {2.0, 3.0}, dense_shape = {2, 2}}, 0)

df.sparse_reduce_max(sp_input, axis?, keepdims?, {…})
  The greatest element along an axis, a list of them, or all; dense, 0 where there is none.
@reduction
  gradient  none
  example   df.sparse_reduce_max({indices = {{0, 1}, {1, 1}}, values = {2.0, 3.0}, dense_shape = {2, 2}}, 0)

df.sparse_reduce_sum_sparse(sp_input, axis?, keepdims?, {…})
  df.sparse_reduce_sum as a SparseTensor; the axes are numbers.
@reduction
  gradient  of the values
  example   df.sparse_reduce_sum_sparse({indices = {{0, 1}, {1, 1}}, values = {2.0, 3.0}, dense_shape = {2, 2}}, 0).values

df.sparse_reduce_max_sparse(sp_input, axis?, keepdims?, {…})
  df.sparse_reduce_max as a SparseTensor; the axes are numbers.
@reduction
  gradient  of the values
  example   df.sparse_reduce_max_sparse({indices = {{0, 1}, {1, 1}}, values = {2.0, 3.0}, dense_shape = {2, 2}}, 0).values

df.sparse_softmax(sp_input)
  The softmax of the elements that are there of each row, along the last axis.
  gradient  of the values
  example   df.sparse_softmax{indices = {{0, 0}, {0, 2}}, values = {0.0, 0.0}, dense_shape = {1, 3}}.values

]==]
