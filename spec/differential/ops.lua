--- Random programs of one op: any op whose inputs share a dtype, found in the registry, and ops with a structure, listed here.
-- Values have zeros of both signs, infinities and NaN among them.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local dtypes = require 'dflow.front.dtypes'

local M = {}

--- A generator of our own, so that a seed means the same under every Lua: rand(n) is 1 … n.
function M.random(seed)
  local state = seed % 2147483646 + 1
  return function(n)
    state = state * 16807 % 2147483647
    return math.floor((state - 1) / 2147483646 * n) + 1
  end
end

local floats = { 'float32', 'float32', 'float32', 'float64', 'float64', 'float16', 'bfloat16' }
local ints = { 'int32', 'int32', 'int64', 'int8', 'uint8', 'int16', 'uint16' }
local special = { 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1, -1, 1e4 }
local function pick(rand, list) return list[rand(#list)] end
local function number_type(rand) return rand(3) == 1 and pick(rand, ints) or pick(rand, floats) end

-- ---- inputs ----------------------------------------------------------------------------------------------------
local P = {}                     -- a program that is being made: rand, feeds, text
P.__index = P

local function size_of(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return n
end

function P:values(dtype, shape, low, high, odd)
  local rand, list = self.rand, {}
  local unsigned = dtype:sub(1, 1) == 'u'
  for i = 1, size_of(shape) do
    local v
    if dtype == 'bool' then v = rand(2) == 1
    elseif dtype == 'string' then v = pick(rand, { '', 'a', 'Bc', 'xyz ', '\xc3\xa4' })
    elseif dtypes.is_int(dtypes.number[dtype]) then v = (low and low or unsigned and 0 or -4) + rand((high or 5) - (low or (unsigned and 0 or -4)) + 1) - 1
    elseif odd and rand(4) == 1 then v = pick(rand, special)
    else v = (low or -2) + (rand(4001) - 1) / 4000 * ((high or 2) - (low or -2)) end
    list[i] = v
  end
  return list
end

--- An input: fed, or a constant; where npz has no such dtype, fed as another and cast.
function P:x(dtype, shape, low, high, odd)
  local list = self:values(dtype, shape, low, high, odd)
  local fed = (dtype == 'bfloat16') and 'float32' or dtype
  local t = df.tensor(#shape == 0 and list[1] or list, fed, shape)
  self.text[#self.text + 1] = dtype .. '[' .. table.concat(shape, ',') .. ']'
  if dtype == 'string' or self.rand(5) == 1 then
    local c = df.constant(t)
    return fed == dtype and c or df.cast(c, dtype)
  end
  local known = {}
  for i, d in ipairs(shape) do known[i] = self.unknown and -1 or d end
  local p = df.placeholder(fed, known)
  self.feeds[p] = t
  return fed == dtype and p or df.cast(p, dtype)
end

function P:int(n) return self.rand(n) end
function P:flag() return self.rand(2) == 1 end
function P:pick(...) return pick(self.rand, { ... }) end
function P:index_type() return self:pick('int32', 'int32', 'int64') end
--- Indices below n.
function P:indices(n, shape) return self:x(self:index_type(), shape, 0, n - 1) end
function P:shape(rank)
  local s = {}
  for i = 1, rank do s[i] = self.rand(4) end
  return s
end
--- A list of numbers as a constant of int32 or int64.
function P:list(values) return df.constant(values, self:index_type(), { #values }) end

-- ---- ops whose inputs share a dtype -----------------------------------------------------------------------------
local uniform
local never = { Print = true, PreventGradient = true, Assert = true, CheckNumerics = true }

local function find_uniform()
  uniform = {}
  for _, kind in ipairs(registry.types()) do
    local e = registry.entry(kind)
    local var = e.inputs[1] and e.inputs[1].var
    local fits = var and not e.stateful and not never[kind] and e.ninputs <= 3 and e.noutputs == 1 and not e.has_list_output
    for _, a in ipairs(e.inputs) do fits = fits and a.var == var and not a.list and not a.optional end
    for _, a in ipairs(e.attrs) do fits = fits and not a.required end
    for _, a in ipairs(e.outputs) do fits = fits and a.dtype ~= 20 end
    if fits and e.lua then
      local allowed = {}
      for _, d in ipairs(floats) do if e.types[var][dtypes.number[d]] then allowed[#allowed + 1] = d end end
      for _, d in ipairs(ints) do if e.types[var][dtypes.number[d]] then allowed[#allowed + 1] = d end end
      for _, d in ipairs{ 'bool', 'string', 'complex64' } do if d ~= 'complex64' and e.types[var][dtypes.number[d]] then allowed[#allowed + 1] = d end end
      if #allowed > 0 then uniform[#uniform + 1] = { kind, e.ninputs, allowed } end
    end
  end
end

local function shared(p)
  if not uniform then find_uniform() end
  local u = pick(p.rand, uniform)
  local dtype, shape = pick(p.rand, u[3]), p:shape(p.rand(4) - 1)
  p.text[1] = u[1]
  local odd = not u[1]:find 'Softmax'
  if u[1]:find '^Matrix' or u[1] == 'Cholesky' or u[1]:find 'Eig' then shape = { 3, 3 } odd = false end
  local xs = {}
  for i = 1, u[2] do
    local s = {}
    for k, d in ipairs(shape) do s[k] = (p.rand(5) == 1) and 1 or d end
    xs[i] = p:x(dtype, s, nil, nil, odd)
  end
  return { (registry.op(u[1], xs)) }
end

-- ---- ops with a structure ----------------------------------------------------------------------------------------
local makers = {}
local function add(name, fn) makers[#makers + 1] = { name, fn } end

for _, name in ipairs{ 'sum', 'mean', 'prod', 'max', 'min', 'euclidean_norm', 'logsumexp' } do
  do
    add('reduce_' .. name, function(p)
      local rank, axes = p:int(4) - 1, nil
      if p:flag() and rank > 0 then axes = { p:int(rank) - 1 } if rank > 1 and p:flag() then axes[2] = axes[1] == 0 and -1 or 0 end end
      local float = name == 'logsumexp'
      return { df['reduce_' .. name](p:x(float and pick(p.rand, floats) or number_type(p.rand), p:shape(rank), nil, nil, p:flag()), { axis = axes, keep_dims = p:flag() }) }
    end)
  end
end
for _, name in ipairs{ 'all', 'any' } do
  add('reduce_' .. name, function(p) return { df['reduce_' .. name](p:x('bool', p:shape(2)), { axis = p:flag() and p:int(2) - 1 or nil, keep_dims = p:flag() }) } end)
end
for _, name in ipairs{ 'argmax', 'argmin' } do
  add(name, function(p) local r = p:int(3) return { df[name](p:x(number_type(p.rand), p:shape(r)), { axis = p:int(r) - 1, output_type = p:index_type() }) } end)
end
for _, name in ipairs{ 'cumsum', 'cumprod' } do
  add(name, function(p) local r = p:int(3) return { df[name](p:x(number_type(p.rand), p:shape(r)), p:int(r) - 1, { exclusive = p:flag(), reverse = p:flag() }) } end)
end
add('cast', function(p) return { df.cast(p:x(number_type(p.rand), p:shape(2), 0, 5), p:flag() and number_type(p.rand) or 'bool') } end)
add('concat', function(p)
  local d, s, axis, list = number_type(p.rand), p:shape(3), p:int(3), {}
  for i = 1, 1 + p:int(3) do local t = { s[1], s[2], s[3] } t[axis] = p:int(4) - 1 list[i] = p:x(d, t) end
  return { df.concat(list, p:flag() and axis - 1 or axis - 4) }
end)
add('split', function(p)
  local axis, s, n = p:int(2), p:shape(2), p:int(3)
  s[axis] = s[axis] * n
  return df.split(p:x(number_type(p.rand), s), n, { axis = axis - 1 })
end)
add('stack', function(p)
  local d, s, list = number_type(p.rand), p:shape(2), {}
  for i = 1, p:int(3) do list[i] = p:x(d, s) end
  return { df.stack(list, { axis = p:int(4) - 3 }) }
end)
add('unstack', function(p)
  p.unknown = false
  return df.unstack(p:x(number_type(p.rand), p:shape(2)), { axis = p:int(2) - 1 })
end)
add('gather', function(p)
  local s, axis = p:shape(3), p:int(3)
  return { df.gather(p:x(number_type(p.rand), s), p:indices(s[axis], p:shape(p:int(3) - 1)), { axis = axis - 1 }) }
end)
add('gather_nd', function(p)
  local n, depth = 4, p:int(3)
  return { df.gather_nd(p:x(number_type(p.rand), { n, n, n }), p:indices(n, { p:int(3), depth })) }
end)
add('scatter_nd', function(p)
  return { df.scatter_nd(p:indices(5, { 3, 1 }), p:x(p:pick('float32', 'int32', 'float64'), { 3, 2 }), p:list{ 5, 2 }) }
end)
add('slice', function(p)
  local s, t = p:shape(2), p:index_type()
  local b = { p:int(s[1]) - 1, p:int(s[2]) - 1 }
  return { df.slice(p:x(number_type(p.rand), s), df.constant(b, t), df.constant({ p:flag() and -1 or s[1] - b[1], p:int(s[2] - b[2]) }, t)) }
end)
add('strided_slice', function(p)
  local s, t = { 5, 6 }, p:index_type()
  local function any(n) return p:int(2 * n + 1) - n - 1 end
  local function step() return p:pick(1, 1, 2, 3, -1, -2) end
  return { df.strided_slice(p:x(number_type(p.rand), s), df.constant({ any(5), any(6) }, t), df.constant({ any(5), any(6) }, t), df.constant({ step(), step() }, t),
                            { begin_mask = p:int(4) - 1, end_mask = p:int(4) - 1, shrink_axis_mask = 0 }) }
end)
add('pad', function(p)
  local t = p:index_type()
  return { df.pad(p:x(number_type(p.rand), { 3, 4 }), df.constant({ { p:int(3) - 1, p:int(3) - 1 }, { p:int(3) - 1, 0 } }, t)) }
end)
add('mirror_pad', function(p)
  return { registry.op('MirrorPad', { p:x(number_type(p.rand), { 3, 4 }), df.constant({ { p:int(3) - 1, 1 }, { p:int(3) - 1, 0 } }, 'int32') },
        { mode = p:pick('REFLECT', 'SYMMETRIC') }), nil }
end)
add('tile', function(p) return { df.tile(p:x(number_type(p.rand), p:shape(2)), p:list{ p:int(4) - 1, p:int(3) }) } end)
add('transpose', function(p) return { df.transpose(p:x(number_type(p.rand), p:shape(3)), { perm = p:pick({ 2, 1, 0 }, { 0, 2, 1 }, { 1, 2, 0 }) }) } end)
add('reverse', function(p) return { df.reverse(p:x(number_type(p.rand), p:shape(3)), p:list(p:pick({ 0 }, { -1, 0 }, { 1 }))) } end)
add('reverse_sequence', function(p)
  return { df.reverse_sequence(p:x(number_type(p.rand), { 3, 4, 2 }), p:x(p:index_type(), { 3 }, 0, 4), { seq_axis = 1, batch_axis = 0 }) }
end)
add('reshape', function(p) return { df.reshape(p:x(number_type(p.rand), { 2, 6 }), p:list(p:pick({ 3, 4 }, { -1 }, { 2, -1, 3 }))) } end)
add('expand_dims', function(p) return { df.expand_dims(p:x(number_type(p.rand), p:shape(2)), p:int(6) - 4) } end)
add('squeeze', function(p) return { df.squeeze(p:x(number_type(p.rand), { 1, 3, 1 }), { axis = p:pick(nil, { 0 }, { -1 }) }) } end)
add('broadcast_to', function(p) return { df.broadcast_to(p:x(number_type(p.rand), { 3, 1 }), p:list{ 2, 3, 4 }) } end)
add('one_hot', function(p) return { df.one_hot(p:x(p:index_type(), p:shape(2), -1, 4), 4, { on_value = 2.5, off_value = -1, axis = p:pick(-1, 0, 1) }) } end)
add('top_k', function(p) local a, b = df.top_k(p:x(p:pick('float32', 'float64', 'int32', 'float16', 'int64'), { 3, 5 }), p:int(5)) return { a, b } end)
add('matmul', function(p)
  local d, a, b = p:pick('float32', 'float64', 'int32', 'int64', 'float16', 'bfloat16'), p:flag(), p:flag()
  return { df.matmul(p:x(d, a and { 3, 2 } or { 2, 3 }), p:x(d, b and { 4, 3 } or { 3, 4 }), { transpose_a = a, transpose_b = b }) }
end)
add('batch_matmul', function(p)
  local d = p:pick('float32', 'float64', 'int32')
  return { df.batch_matmul(p:x(d, { 2, 1, 3, 4 }), p:x(d, { p:pick(1, 2), 2, 4, 2 })) }
end)
add('einsum', function(p)
  local d = p:pick('float32', 'float64')
  local which = p:int(4)
  if which == 1 then return { df.einsum('bij,bjk->bik', p:x(d, { 2, 3, 4 }), p:x(d, { 2, 4, 2 })) } end
  if which == 2 then return { df.einsum('ij,jk,kl->li', p:x(d, { 2, 3 }), p:x(d, { 3, 4 }), p:x(d, { 4, 2 })) } end
  if which == 3 then return { df.einsum('ij->ji', p:x(d, { 2, 3 })) } end
  return { df.einsum('...i,ij->...j', p:x(d, { 2, 2, 3 }), p:x(d, { 3, 2 })) }
end)
for _, name in ipairs{ 'max_pool', 'avg_pool' } do
  add(name, function(p)
    return { df[name](p:x(p:pick('float32', 'float64', 'float32', name == 'max_pool' and 'int32' or 'float32',
          name == 'max_pool' and 'uint8' or 'float16'), { 2, p:int(7) + 2, p:int(7) + 2, 2 }),
                      { ksize = { 1, p:int(3), p:int(3), 1 }, strides = { 1, p:int(4), p:int(4), 1 }, padding = p:pick('SAME', 'VALID') }) }
  end)
end
add('conv2d', function(p)
  local d, c = p:pick('float32', 'float64', 'float16'), p:int(3)
  return { df.conv2d(p:x(d, { 2, p:int(6) + 3, p:int(6) + 3, c }), p:x(d, { p:int(3), p:int(3), c, 2 }),
                     { strides = { 1, p:int(4), p:int(4), 1 }, padding = p:pick('SAME', 'VALID') }) }
end)
--- Windows of volumes, and strides that are none beyond them: padded as SAME, TensorFlow's kernels for the CPU then begin inside of the
-- volume, which its own formula does not. Its gradient of max_pool3d goes to all that are the greatest: no two are equal here.
local function volumes(p)
  local size = { p:int(3), p:int(3), p:int(3) }
  return size, { p:int(size[1]), p:int(size[2]), p:int(size[3]) }, { 2, p:int(4) + 2, p:int(4) + 2, p:int(4) + 2 }
end
for _, name in ipairs{ 'max_pool3d', 'avg_pool3d' } do
  add(name, function(p)
    local size, strides, shape = volumes(p)
    shape[5] = 2
    local x = p:x('float32', shape)
    local place = df.reshape(df.range(0, 2 * shape[2] * shape[3] * shape[4] * 2, { dtype = 'float32' }), shape)
    return { df[name](x + place * 2 ^ -16, size, strides, p:pick('SAME', 'VALID')) }
  end)
end
add('conv3d', function(p)
  local d, c = p:pick('float32', 'float64'), p:int(3)
  local size, strides, shape = volumes(p)
  shape[5] = c
  return { df.conv3d(p:x(d, shape), p:x(d, { size[1], size[2], size[3], c, 2 }), strides, shape[2] > 2 and p:pick('SAME', 'VALID') or 'SAME') }
end)
for n = 2, 3 do
  add(('conv%dd_transpose'):format(n), function(p)
    local d, padding, dy, filter, made, strides = p:pick('float32', 'float64'), p:pick('SAME', 'VALID'), { 2 }, {}, { 2 }, {}
    for i = 1, n do
      filter[i], dy[i + 1] = p:int(3), p:int(4)
      strides[i] = p:int(filter[i])
      local more = p:int(strides[i]) - 1
      made[i + 1] = padding == 'SAME' and dy[i + 1] * strides[i] - more or (dy[i + 1] - 1) * strides[i] + filter[i] + more
    end
    filter[n + 1], filter[n + 2], dy[n + 2], made[n + 2] = 2, 3, 3, 2
    return { df[('conv%dd_transpose'):format(n)](p:x(d, dy), p:x(d, filter), made, strides, padding) }
  end)
end
--- A sparse [3, 4] in order, of random values.
local function sparse(p, d)
  local at = {}
  for i = 0, 11 do if p:int(2) == 1 then at[#at + 1] = { math.floor(i / 4), i % 4 } end end
  at[#at + 1] = #at == 0 and { 1, 2 } or nil
  return df.SparseTensor(at, p:x(d, { #at }), { 3, 4 })
end
add('sparse', function(p)
  local d = p:pick('float32', 'float64')
  local sp, which = sparse(p, d), p:int(7)
  if which == 1 then return { df.sparse_tensor_dense_matmul(sp, p:x(d, { 4, 2 })), df.sparse_tensor_dense_matmul(sp, p:x(d, { 2, 3 }), true, true) } end
  if which == 2 then
    local sum = df.sparse_add(sp, sparse(p, d))
    return { sum.values, sum.indices, df.sparse_add(sp, p:x(d, { 3, 4 })) }
  end
  if which == 3 then return { df.sparse_reduce_sum(sp, p:pick(0, 1, -1), p:flag()), df.sparse_reduce_sum(sp), df.sparse_reduce_max(sp, 1) } end
  if which == 4 then
    local part = df.sparse_slice(sp, { p:int(2) - 1, 1 }, { 2, p:int(4) })
    return { part.values, part.indices, part.dense_shape }
  end
  if which == 5 then
    local turned, filled = df.sparse_transpose(sp), df.sparse_fill_empty_rows(sp, 7)
    return { turned.values, filled.values, filled.indices, df.sparse_reshape(sp, { 2, -1 }).indices }
  end
  if which == 6 then
    local x = p:x(d, p:pick({ 4 }, { 3, 1 }, { 3, 4 }))
    return { (sp * x).values, (sp / (x * x + 1)).values }
  end
  local both = df.sparse_concat(p:pick(0, 1), { sp, sp * 2 })
  return { both.values, both.indices, df.sparse_tensor_to_dense(both), df.sparse_softmax(sp).values }
end)
add('segment', function(p)
  local name = p:pick('segment_sum', 'segment_mean', 'segment_max', 'segment_min', 'segment_prod')
  return { df[name](p:x(p:pick('float32', 'float64', 'int32'), { 4, 2 }), df.constant({ 0, 0, 1, 3 }, p:index_type())) }
end)
add('unsorted_segment', function(p)
  local name = p:pick('unsorted_segment_sum', 'unsorted_segment_max', 'unsorted_segment_min', 'unsorted_segment_prod')
  return { df[name](p:x(p:pick('float32', 'float64', 'int32'), { 4, 2 }), p:x(p:index_type(), { 4 }, -1, 2), 4) }
end)
add('where', function(p) return { df.where(p:x(p:pick('bool', 'float32', 'int32', 'bfloat16'), p:shape(2), nil, nil, true)) } end)
add('select', function(p) local d, s = number_type(p.rand), p:shape(2) return { df.select(p:x('bool', s), p:x(d, s), p:x(d, s)) } end)
add('range', function(p) return { df.range(p:int(4) - 2, p:int(9), p:int(3)) } end)
add('fill', function(p) return { df.fill(p:list{ 2, 3 }, p:x(number_type(p.rand), {})) } end)
add('dynamic_partition', function(p) return df.dynamic_partition(p:x(number_type(p.rand), { 5, 2 }), p:x('int32', { 5 }, 0, 2), { num_partitions = 3 }) end)
add('dynamic_stitch', function(p)
  local d = number_type(p.rand)
  return { df.dynamic_stitch({ df.int32{ 0, 3 }, df.int32{ 2, 1, 3 } }, { p:x(d, { 2, 2 }), p:x(d, { 3, 2 }) }) }
end)
add('matrix', function(p)
  local d = number_type(p.rand)
  local which = p:int(4)
  if which == 1 then return { df.matrix_band_part(p:x(d, { 2, 3, 4 }), p:int(4) - 2, p:int(4) - 2) } end
  if which == 2 then return { df.matrix_diag(p:x(d, { 2, 3 })) } end
  if which == 3 then return { df.matrix_diag_part(p:x(d, { 2, 3, 3 })) } end
  return { df.matrix_set_diag(p:x(d, { 2, 3, 3 }), p:x(d, { 2, 3 })) }
end)
add('softmax', function(p)
  local name = p:pick('softmax', 'log_softmax')
  return { df[name](p:x(pick(p.rand, floats), p:shape(p:int(3)))) }
end)
add('cross_entropy', function(p)
  local d = p:pick('float32', 'float64', 'float16')
  if p:flag() then return { df.sparse_softmax_cross_entropy_with_logits(p:x(d, { 3, 4 }), p:x(p:index_type(), { 3 }, 0, 3)) } end
  return { df.softmax_cross_entropy_with_logits(p:x(d, { 3, 4 }), p:x(d, { p:pick(1, 3), 4 }, 0, 1)) }
end)
add('leaky_relu', function(p) return { df.leaky_relu(p:x(pick(p.rand, floats), p:shape(2)), { alpha = p:pick(0.2, 0.1, 0.01) }) } end)
add('clip', function(p) return { df.clip_by_value(p:x(number_type(p.rand), p:shape(2), 0, 5), 1, 3) } end)
add('sequence_mask', function(p) return { df.sequence_mask(p:x(p:index_type(), p:shape(1), 0, 5), 5) } end)
add('space', function(p)
  if p:flag() then return { df.space_to_depth(p:x(p:pick('float32', 'float64'), { 1, 4, 4, 2 }), { block_size = 2 }) } end
  return { df.depth_to_space(p:x(p:pick('float32', 'float64'), { 1, 2, 2, 8 }), { block_size = 2 }) }
end)
add('space_to_batch', function(p)
  return { df.space_to_batch_nd(p:x(number_type(p.rand), { 1, 4, 6, 1 }), p:list{ 2, 2 }, p:list{ 0, 0 } and df.constant{ { 0, 0 }, { 0, 0 } }) }
end)
add('strings', function(p)
  local x = p:x('string', { 3 })
  return { p:pick(function() return df.string_upper(x, { encoding = p:pick('', 'utf-8') }) end, function() return df.string_lower(x, { encoding = p:pick('', 'utf-8') }) end,
                  function() return df.string_join({ x, x }, { separator = '-' }) end, function() return df.string_length(x) end,
                  function() return df.string_strip(x) end, function() return df.as_string(p:x(p:pick('int32', 'float32', 'bool'), { 3 })) end)() }
end)
add('unique', function(p) local a, b = df.unique(p:x(number_type(p.rand), { 6 }), { out_idx = p:index_type() }) return { a, b } end)
add('l2_normalize', function(p) return { df.l2_normalize(p:x(pick(p.rand, floats), { 3, 4 }), { axis = 1 }) } end)
add('bias_add', function(p) local d = number_type(p.rand) return { df.bias_add(p:x(d, { 2, 3, 4 }), p:x(d, { 4 })) } end)
add('shape', function(p) return { df.shape(p:x(number_type(p.rand), p:shape(2)), { out_type = p:index_type() }), df.size(p:x('float32', p:shape(2))) } end)

--- fetches, feeds, text, tolerance of a random program.
function M.make(rand)
  local p = setmetatable({ rand = rand, feeds = {}, text = {}, unknown = rand(3) == 1 }, P)
  local fetches
  if rand(2) == 1 then fetches = shared(p)
  else
    local maker = pick(rand, makers)
    p.text[1] = maker[1]
    fetches = maker[2](p)
  end
  local text = table.concat(p.text, ' ')
  local tolerance = text:find 'bfloat16' and 2e-2 or text:find 'float16' and 4e-3 or text:find 'float32' and 2e-5 or 1e-6
  local floating = p.rand(3) == 1
  if floating then                                 -- and its gradient
    local xs = {}
    for x in pairs(p.feeds) do if x.dtype:find '^float' then xs[#xs + 1] = x end end
    table.sort(xs, function(a, b) return a.name < b.name end)
    local y = fetches[1]
    if #xs > 0 and y.dtype:find 'float' then
      local ok, slopes = pcall(df.gradients, y, xs, { unconnected = 'zero' })
      if ok then
        for _, g in ipairs(slopes) do fetches[#fetches + 1] = df.type(g) == 'IndexedSlices' and g * 1 or g end
        text = text .. ', with gradient'
      end
    end
  end
  return fetches, p.feeds, text, tolerance
end

return M
