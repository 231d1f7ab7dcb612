--- Signatures of the ops whose function takes its arguments differently from the node, and what arguments
-- of these names are.
local M = {}

M.calls = {
  assert = "df.assert(condition, {data, …}, {message = '', summarize = 3})",
  broadcast_to = 'df.broadcast_to(x, shape)', cast = 'df.cast(x, dtype)',
    clip_by_value = 'df.clip_by_value(x, min, max)',
  concat = 'df.concat({values, …}, axis)', constant = 'df.constant(v, dtype?, shape?)',
  dynamic_partition = 'df.dynamic_partition(data, partitions, num_partitions)',
    einsum = "df.einsum(equation, x, …)",
  expand_dims = 'df.expand_dims(x, axis)', fill = 'df.fill(shape, value)',
  gather = 'df.gather(x, indices, axis = batch_dims, {batch_dims = 0})',
    linspace = 'df.linspace(start, stop, num)',
  log_softmax = 'df.log_softmax(logits, axis = -1)', matmul = 'df.matmul(a, b, {transpose_a = '
    .. 'false, transpose_b = false})',
  one_hot = 'df.one_hot(indices, depth, on_value = 1, off_value = 0, axis = -1, dtype = nil)',
  pad = "df.pad(x, paddings, {mode = 'constant', constant_values = 0})",
  placeholder = 'df.placeholder(dtype, shape?, name?)',
    placeholder_with_default = 'df.placeholder_with_default(x, shape?, name?)',
  print = "df.print(x, {data, …}, {message = '', summarize = 3, first_n = -1})",
  random_uniform = "df.random_uniform(shape, min = 0, max = 1, {dtype = 'float32', seed = -1})",
    range = 'df.range(start = 0, limit, delta = 1, {dtype = nil})',
  random_normal = "df.random_normal(shape, mean = 0, stddev = 1, {dtype = 'float32', seed = -1})",
  truncated_normal = "df.truncated_normal(shape, mean = 0, stddev = 1, {dtype = 'float32', "
    .. "seed = -1})",
  reshape = 'df.reshape(x, shape)',
  reverse = 'df.reverse(x, axis)', reverse_sequence = 'df.reverse_sequence(x, lengths, '
    .. '{seq_axis = nil, batch_axis = 0})', slice = 'df.slice(x, begin, size)',
  softmax = 'df.softmax(logits, axis = '
    .. '-1)',
    softmax_cross_entropy_with_logits = 'df.softmax_cross_entropy_with_logits(logits, labels)',
  sparse_softmax_cross_entropy_with_logits =
    'df.sparse_softmax_cross_entropy_with_logits(logits, labels)',
  split = 'df.split(x, parts or sizes, axis = 0, {num = nil})', squeeze = 'df.squeeze(x, axis?)',
    stack = 'df.stack({values, …}, axis = 0)',
  strided_slice = 'df.strided_slice(x, begin, end_, strides?, {begin_mask = 0, end_mask = 0, '
    .. 'ellipsis_mask = 0, new_axis_mask = 0, shrink_axis_mask = 0})',
  ones_like = 'df.ones_like(x, dtype?)', zeros_like = 'df.zeros_like(x, dtype?)',
    tile = 'df.tile(x, multiples)', top_k = 'df.top_k(x, k = 1, {sorted = true})',
  transpose = 'df.transpose(x, perm?)', unstack = 'df.unstack(x, num?, axis = 0)',
    where = 'df.where(condition, x?, y?)',
}
for _, name in ipairs{ 'all', 'any', 'euclidean_norm', 'logsumexp', 'max', 'mean', 'min', 'prod',
  'sum' } do
  M.calls['reduce_' .. name] = ('df.reduce_%s(x, axis = nil, keep_dims = false)'):format(name)
end
for _, name in ipairs{ 'argmax', 'argmin' } do M.calls[name] = ("df.%s(x, axis = 0, "
  .. "{output_type = 'int64'})"):format(name) end
for _, name in ipairs{ 'cumsum', 'cumprod' } do M.calls[name] = ('df.%s(x, axis = 0, '
  .. '{exclusive = false, reverse = false})'):format(name) end

--- What options and arguments of these names are, wherever the registry does not say it.
M.kinds = {
  axis = 'int or list', keep_dims = 'bool', dtype = 'string', seed = 'int', name = 'string',
    shape = 'shape', min = 'number', max = 'number', mean = 'number',
  stddev = 'number', num = 'int', on_value = 'value', off_value = 'value', mode = 'string',
    constant_values = 'value', message = 'string', summarize = 'int',
  first_n = 'int', seq_axis = 'int', batch_axis = 'int', sorted = 'bool', delta = 'number',
    start = 'number', k = 'int', exclusive = 'bool', reverse = 'bool',
  transpose_a = 'bool', transpose_b = 'bool', output_type = 'string', axes = 'int or list',
    batch_dims = 'int', momentum = 'number', beta1 = 'number',
  strides = 'list', perm = 'list', x = 'value', y = 'value', beta2 = 'number', epsilon = 'number',
    learning_rate = 'number',
}

return M
