--- Signatures of the ops whose function takes its arguments differently from the node, and what arguments
-- of these names are.
local registry = require 'dflow.front.registry'

local M = { calls = {}, kinds = {} }

for line in ([[
  df.argmax(x, axis = 0, {output_type = 'int64'})
  df.argmin(x, axis = 0, {output_type = 'int64'})
  df.assert(condition, {data, …}, {message = '', summarize = 3})
  df.broadcast_to(x, shape)
  df.cast(x, dtype)
  df.clip_by_value(x, min, max)
  df.concat({values, …}, axis)
  df.constant(v, dtype?, shape?)
  df.cumprod(x, axis = 0, {exclusive = false, reverse = false})
  df.cumsum(x, axis = 0, {exclusive = false, reverse = false})
  df.dynamic_partition(data, partitions, num_partitions)
  df.einsum(equation, x, …)
  df.expand_dims(x, axis)
  df.fill(shape, value)
  df.gather(x, indices, axis = batch_dims, {batch_dims = 0})
  df.linspace(start, stop, num)
  df.log_softmax(logits, axis = -1)
  df.matmul(a, b, {transpose_a = false, transpose_b = false})
  df.one_hot(indices, depth, on_value = 1, off_value = 0, axis = -1, dtype = nil)
  df.ones_like(x, dtype?)
  df.pad(x, paddings, {mode = 'constant', constant_values = 0})
  df.placeholder(dtype, shape?, name?)
  df.placeholder_with_default(x, shape?, name?)
  df.print(x, {data, …}, {message = '', summarize = 3, first_n = -1})
  df.random_normal(shape, mean = 0, stddev = 1, {dtype = 'float32', seed = -1})
  df.random_uniform(shape, min = 0, max = 1, {dtype = 'float32', seed = -1})
  df.range(start = 0, limit, delta = 1, {dtype = nil})
  df.reshape(x, shape)
  df.reverse(x, axis)
  df.reverse_sequence(x, lengths, {seq_axis = nil, batch_axis = 0})
  df.slice(x, begin, size)
  df.softmax(logits, axis = -1)
  df.softmax_cross_entropy_with_logits(logits, labels)
  df.sparse_softmax_cross_entropy_with_logits(logits, labels)
  df.split(x, parts or sizes, axis = 0, {num = nil})
  df.squeeze(x, axis?)
  df.stack({values, …}, axis = 0)
  df.strided_slice(x, begin, end_, strides?, {begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0,
    shrink_axis_mask = 0})
  df.tile(x, multiples)
  df.top_k(x, k = 1, {sorted = true})
  df.transpose(x, perm?)
  df.truncated_normal(shape, mean = 0, stddev = 1, {dtype = 'float32', seed = -1})
  df.unstack(x, num?, axis = 0)
  df.where(condition, x?, y?)
  df.zeros_like(x, dtype?)
]]):gsub('\n    ', ' '):gmatch '%S[^\n]*' do
  M.calls[line:match '^df%.([%w_]+)'] = line
end
for name in pairs(registry.reductions()) do
  M.calls[name] = ('df.%s(x, axis = nil, keep_dims = false)'):format(name)
end

--- What options and arguments of these names are, wherever the registry does not say it.
for kind, names in pairs{
  bool = 'exclusive keep_dims reverse sorted transpose_a transpose_b',
  int = 'batch_axis batch_dims first_n k num seed seq_axis summarize',
  ['int or list'] = 'axes axis',
  list = 'perm strides',
  number = 'beta1 beta2 delta epsilon learning_rate max mean min momentum start stddev',
  shape = 'shape',
  string = 'dtype message mode name output_type',
  value = 'constant_values off_value on_value x y',
} do
  for name in names:gmatch '%S+' do M.kinds[name] = kind end
end

return M
