--- Examples of ops that need something to work on; they stand for the short ones of the registry.
-- What each gives is in outputs.lua.
local M = {
  avg_pool = "df.avg_pool(df.reshape(df.float32{1, 2, 3, 6}, {1, 2, 2, 1}), {ksize = {1, 2, 2, "
    .. "1}, strides = {1, 2, 2, 1}, padding = 'VALID'})",
  max_pool = "df.max_pool(df.reshape(df.float32{1, 2, 3, 6}, {1, 2, 2, 1}), {ksize = {1, 2, 2, "
    .. "1}, strides = {1, 2, 2, 1}, padding = 'VALID'})",
  conv2d = "df.conv2d(df.ones{1, 3, 3, 1}, df.ones{2, 2, 1, 1}, {strides = {1, 1, 1, 1}, "
    .. "padding = 'VALID'})",
  depth_to_space = 'df.depth_to_space(df.reshape(df.float32{1, 2, 3, 4}, {1, 1, 1, 4}), '
    .. '{block_size = 2})',
  space_to_depth = 'df.space_to_depth(df.reshape(df.float32{1, 2, 3, 4}, {1, 2, 2, 1}), '
    .. '{block_size = 2})',
  batch_to_space_nd = 'df.batch_to_space_nd(df.reshape(df.float32{1, 2, 3, 4}, {4, 1, 1}), {2, '
    .. '2}, {{0, 0}, {0, 0}})',
  space_to_batch_nd = 'df.space_to_batch_nd(df.float32{{{1, 2}, {3, 4}}}, {2, 2}, {{0, 0}, {0, '
    .. '0}})',
  equal = 'df.equal({1, 2, 3}, 2)', not_equal = 'df.not_equal({1, 2, 3}, 2)',
    greater = 'df.greater({1, 2, 3}, 2)', greater_equal = 'df.greater_equal({1, 2, 3}, 2)',
  less = 'df.less({1, 2, 3}, 2)', less_equal = 'df.less_equal({1, 2, 3}, 2)',
    approximate_equal = 'df.approximate_equal({1.0, 2.0}, {1.1, 2.5}, {tolerance = 0.2})',
  logical_and = 'df.logical_and({true, true, false}, {true, false, false})',
    logical_or = 'df.logical_or({true, true, false}, {true, false, false})',
  logical_xor = 'df.logical_xor({true, true, false}, {true, false, false})',
  softmax = 'df.softmax{1.0, 2.0, 3.0}', log_softmax = 'df.log_softmax{1.0, 2.0, 3.0}',
    softplus = 'df.softplus{-1.0, 0.0, 100.0}',
  matmul = 'df.matmul(df.float32{{1, 2}, {3, 4}}, df.float32{{1}, {1}})',
  zeta = 'df.zeta(2.0, {1.0, 3.0})',
  assert = "local x = df.float32(3) return df.run(df.assert(x:ge(0), {x}, {message = 'x is "
    .. "negative'}))",
  broadcast_to = 'df.broadcast_to(df.float32{1, 2, 3}, {4, 3})',
  check_numerics = "df.check_numerics(df.float32{1, 2}, {message = 'the loss'})",
  concat = 'df.concat({df.float32{1, 2}, df.float32{3}}, 0)',
  dynamic_partition = 'df.unpack(df.dynamic_partition(df.float32{1, 2, 3}, df.int32{0, 1, 0}, 2))',
  dynamic_stitch = 'df.dynamic_stitch({df.int32{0, 2}, df.int32{1}}, {df.float32{1, 3}, '
    .. 'df.float32{2}})',
  einsum = "df.einsum('ij,jk->ik', df.float32{{1, 2}}, df.float32{{3}, {4}})",
  expand_dims = 'df.expand_dims(df.float32{1, 2}, 0)',
  gather = 'df.gather(df.float32{{1, 2}, {3, 4}, {5, 6}}, df.int32{2, 0})',
  gather_nd = 'df.gather_nd(df.float32{{1, 2}, {3, 4}, {5, 6}}, {{0, 1}, {2, 0}})',
  ensure_shape = 'df.ensure_shape(df.float32{{1, 2}}, {shape = {-1, 2}})',
  identity_n = 'df.unpack(df.identity_n{df.float32(1), df.int32(2)})',
  no_op = 'df.run(df.no_op())',
  shape_n = 'df.unpack(df.shape_n{df.float32{1, 2}, df.float32(3)})',
  string_format = "df.string_format({df.float32{1, 2}}, {template = 'x is {}', placeholder = "
    .. "'{}'})",
  identity = 'df.identity(df.float32{1, 2})',
  mirror_pad = "df.pad(df.float32{{1, 2, 3}, {4, 5, 6}}, {{1, 1}, {0, 2}}, {mode = 'reflect'})",
  matrix_set_diag = 'df.matrix_set_diag(df.float32{{1, 2}, {3, 4}}, df.float32{0, 0})',
  matrix_band_part = 'df.matrix_band_part(df.float32{{1, 2}, {3, 4}}, 0, -1)',
  one_hot = 'df.one_hot(df.int32{1, 0, 2}, 3)',
  ones_like = 'df.ones_like(df.float32{1, 2})',
  zeros_like = 'df.zeros_like(df.float32{1, 2})',
  pad = 'df.pad(df.float32{{1, 2, 3}}, {{1, 1}, {0, 2}})',
  pad_v2 = 'df.pad(df.float32{{1, 2, 3}}, {{1, 1}, {0, 2}}, {constant_values = -1})',
  print = "df.run(df.print(df.float32{1, 2}, {message = 'x = '}))",
  rank = 'df.rank(df.float32{1, 2})',
  size = 'df.size(df.float32{1, 2})',
  reshape = 'df.reshape(df.float32{1, 2, 3, 4}, {-1, 2})',
  reverse = 'df.reverse(df.float32{1, 2, 3}, {0})',
  reverse_sequence = 'df.reverse_sequence(df.float32{{1, 2, 3}, {4, 5, 6}}, df.int32{2, 3}, '
    .. '{seq_dim = 1, batch_dim = 0})',
  roll = 'df.roll(df.float32{1, 2, 3}, df.int32(1), df.int32(0))',
  slice = 'df.slice(df.float32{{1, 2, 3}, {4, 5, 6}}, {0, 1}, {-1, 2})',
  strided_slice = 'df.strided_slice(df.float32{0, 1, 2, 3, 4, 5}, {0}, {5}, {2})',
  split = 'df.unpack(df.split(df.float32{{1, 2, 3}}, 3, {axis = 1}))',
  split_v = 'df.unpack(df.split(df.float32{1, 2, 3}, {2, -1}))',
  squeeze = 'df.squeeze(df.float32{{1, 2}}, 0)',
  stack = 'df.stack({df.float32{1, 2}, df.float32{3, 4}}, {axis = 1})',
  unstack = 'df.unpack(df.unstack(df.float32{{1, 2}, {3, 4}}, {axis = 1}))',
  batch_matmul = 'df.batch_matmul(df.float32{{{1, 2}}}, df.float32{{{3}, {4}}})',
  bias_add_grad = 'df.bias_add_grad(df.float32{{1, 2}, {3, 4}})',
  stop_gradient = 'local x = df.float32(3) return gradients(x * df.stop_gradient(x), x)',
  tensor_scatter_add = 'df.tensor_scatter_add(df.float32{1, 2, 3}, df.int32{{0}}, df.float32{10})',
  tensor_scatter_sub = 'df.tensor_scatter_sub(df.float32{1, 2, 3}, df.int32{{0}}, df.float32{10})',
  tensor_scatter_update = 'df.tensor_scatter_update(df.float32{1, 2, 3}, df.int32{{0}}, '
    .. 'df.float32{10})',
  tile = 'df.tile(df.float32{{1, 2}}, {2, 1})',
  transpose = 'df.transpose(df.float32{{1, 2}, {3, 4}}, {1, 0})',
  unique = 'df.unique(df.int32{3, 1, 3})',
  unique_with_counts = 'df.unique_with_counts(df.int32{3, 1, 3})',
  where = 'df.where(df.float32{1, -2, 3}:gt(0))',
  broadcast_dynamic_shape = 'df.broadcast_dynamic_shape(df.int32{2, 1}, df.int32{3})',
  assign = 'local v = df.Variable{1.0, 2.0} return df.run(v:assign({3, 4}))',
  assign_add = 'local v = df.Variable(1.0) return df.run(v:assign_add(1))',
  assign_sub = 'local v = df.Variable(1.0) return df.run(v:assign_sub(1))',
  is_variable_initialized = 'local v = df.Variable(1.0) return '
    .. 'df.run(df.is_variable_initialized(v))',
  softmax_cross_entropy_with_logits = 'df.softmax_cross_entropy_with_logits(df.float32{{1, '
    .. '2}}, df.float32{{0, 1}})',
  sparse_softmax_cross_entropy_with_logits = 'df.sparse_softmax_cross_entropy_with_logits(df.float32{{1, 2}}, df.int32{1})',
  apply_gradient_descent = 'local w = df.Variable{1.0, 2.0} '
    .. 'df.run(df.apply_gradient_descent(w, 0.1, {1, 1})) return df.run(w)',
  apply_momentum = 'local w, slot = df.Variable{1.0}, df.Variable{0.0} '
    .. 'df.run(df.apply_momentum(w, slot, 0.1, {1}, 0.9)) return df.run(w)',
  apply_adam = 'local w, m, v = df.Variable{1.0}, df.Variable{0.0}, df.Variable{0.0} '
    .. 'df.run(df.apply_adam(w, m, v, 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, {1})) return df.run(w)',
}
for _, how in ipairs{ 'add', 'sub', 'mul', 'div', 'min', 'max', 'update' } do
  M['scatter_' .. how] = ('local v = df.Variable({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}) '
    .. 'return df.run(df.scatter_%s(v, {0, 2}, {{10, 1}, {2, 10}}))'):format(how)
end
M.sparse_apply_gradient_descent =
  'local w = df.Variable{1.0, 2.0, 3.0} df.run(df.sparse_apply_gradient_descent(w, 0.1, {1, '
    .. '1}, {0, 2})) return df.run(w)'
M.sparse_apply_momentum = 'local w, slot = df.Variable{1.0, 2.0}, df.Variable{0.0, 0.0} '
  .. 'df.run(df.sparse_apply_momentum(w, slot, 0.1, {1}, {0}, 0.9)) return df.run(w)'
M.sparse_apply_adam = 'local w, m, v = df.Variable{1.0, 2.0}, df.Variable{0.0, 0.0}, '
  .. 'df.Variable{0.0, 0.0} '
  .. 'df.run(df.sparse_apply_adam(w, m, v, 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, {1}, {0})) '
  .. 'return df.run(w)'

return M
