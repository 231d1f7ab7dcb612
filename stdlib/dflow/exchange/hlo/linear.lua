--- HLO's linear algebra: dot, convolution, cholesky, triangular-solve, fft.
local df = require 'dflow'
local value = require 'dflow.exchange.hlo.value'
local index = require 'dflow.exchange.hlo.index'
local reduce = require 'dflow.exchange.hlo.reduce'

local ops = {}
local ints, reshape, transpose, product, others, join, pick = value.ints, value.reshape, value.transpose, value.product,
  value.others, value.join, value.pick

--- In the dtype of the result, which may be wider.
local function typed(x, d) return x.dtype == d and x or df.cast(x, d) end

--- dot_general: the result has the batch dimensions, then those of the left, then those of the right that are not
-- contracted.
local function dot(n, a, b, d)
  if n.dtype == 'bool' then
    return df.cast(dot({ dtype = 'int32', dims = n.dims }, df.cast(a, 'int32'), df.cast(b, 'int32'), d), 'bool')
  end
  local wide = (n.dtype:find 'int' and n.dtype ~= 'int32' and n.dtype ~= 'int64')
    and (n.dtype:find '^uint' and 'int64' or 'int32') or n.dtype
  a, b = typed(a, wide), typed(b, wide)
  local free_a, free_b = others(#a.shape, d.lhs, d.lhs_batch), others(#b.shape, d.rhs, d.rhs_batch)
  local batch = pick(a.shape, d.lhs_batch)
  local rows, inner, columns = pick(a.shape, free_a), pick(a.shape, d.lhs), pick(b.shape, free_b)
  local r
  if product(n.dims) == 0 or product(inner) == 0 then return df.zeros(n.dims, { dtype = n.dtype }) end
  if #batch == 0 and #rows == 1 and #columns == 1 and #inner == 1 and #d.lhs == 1 then
    r = df.matmul(a, b, { transpose_a = d.lhs[1] == 0, transpose_b = d.rhs[1] == 1 })
  else
    local x = reshape(transpose(a, join(d.lhs_batch, free_a, d.lhs)),
                      join({ product(batch) }, { product(rows) }, { product(inner) }))
    local y = reshape(transpose(b, join(d.rhs_batch, d.rhs, free_b)),
                      join({ product(batch) }, { product(inner) }, { product(columns) }))
    if #batch == 0 then
      r = df.matmul(reshape(x, { product(rows), product(inner) }), reshape(y, { product(inner), product(columns) }))
    else
      r = df.batch_matmul(x, y)
    end
    r = reshape(r, n.dims)
  end
  return typed(r, n.dtype)
end
ops['dot'] = function(n, a, b)
  return dot(n, a, b, n.i.dot or { lhs = {}, rhs = {}, lhs_batch = {}, rhs_batch = {} })
end

--- Windows of the input as rows, times the kernel: any number of dimensions, dilations, groups of features and batches.
ops['convolution'] = function(n, x, kernel)
  local d = n.i.convolution or n:refuse 'it has no dimension numbers'
  local window, groups, batch_groups = reduce.window_of(n), math.max(n.i.feature_groups or 1, 1),
    math.max(n.i.batch_groups or 1, 1)
  local rank = #window
  if #d.input ~= rank or #d.kernel ~= rank or #d.output ~= rank or #n.dims ~= rank + 2 then
    n:refuse(('its window has %d dimensions, those of the input, the kernel and the output that it moves along are '
              .. '%d, %d and %d')
             :format(rank, #d.input, #d.kernel, #d.output))
  end
  x, kernel = typed(x, n.dtype), typed(kernel, n.dtype)
  -- [batch, space…, features]
  x = transpose(x, join({ d.batch or 0 }, d.input, { d.feature or 0 }))
  kernel = transpose(kernel, join(d.kernel, { d.kernel_in or 0, d.kernel_out or 0 }))         -- [space…, in, out]
  local out_space, rows, flip = {}, { { low = 0, high = 0, interior = 0 } }, {}
  for k, w in ipairs(window) do
    rows[k + 1] = { low = w.low, high = w.high, interior = w.base - 1 }
    if w.reversed then flip[#flip + 1] = k - 1 end
    out_space[k] = n.dims[d.output[k] + 1] or n:refuse(('its output has no dimension %d'):format(d.output[k]))
  end
  rows[rank + 2] = { low = 0, high = 0, interior = 0 }
  if product(n.dims) == 0 then return df.zeros(n.dims, { dtype = n.dtype }) end
  if #flip > 0 then kernel = df.reverse(kernel, ints(flip)) end
  x = index.padded(x, df.constant(0, n.dtype), rows)
  local batch, features = x.shape[1], x.shape[rank + 2]
  local inner, out = kernel.shape[rank + 1], kernel.shape[rank + 2]
  if batch_groups > 1 then
    -- Groups of the batch are groups of features.
    local each = batch / batch_groups
    local space = pick(x.shape, value.iota(rank, 1))
    x = reshape(x, join({ batch_groups, each }, space, { features }))
    x = transpose(x, join(value.iota(rank + 1, 1), { 0, rank + 2 }))
    x = reshape(x, join({ each }, space, { batch_groups * features }))
    batch, features, groups = each, features * batch_groups, batch_groups
  end
  local sum
  local positions = product(out_space)
  local function visit(k, first)
    if k <= rank then
      for o = 0, window[k].size - 1 do
        first[k] = o
        visit(k + 1, first)
      end
      return
    end
    local a, b, s, ka, ks = { 0 }, { batch }, { 1 }, {}, {}
    for i, w in ipairs(window) do
      a[i + 1] = first[i] * w.dilation
      b[i + 1] = a[i + 1] + (out_space[i] - 1) * w.stride + 1
      s[i + 1] = w.stride
      ka[i], ks[i] = first[i], 1
    end
    a[rank + 2], b[rank + 2], s[rank + 2] = 0, features, 1
    local part = df.strided_slice(x, ints(a), ints(b), ints(s))
    local weight = reshape(df.slice(kernel, ints(join(ka, { 0, 0 })), ints(join(ks, { inner, out }))), { inner, out })
    local term
    if groups == 1 then
      term = df.matmul(reshape(part, { batch * positions, features }), weight)
    else
      local rowsg = transpose(reshape(part, { batch * positions, groups, inner }), { 1, 0, 2 })
      local wg = transpose(reshape(weight, { inner, groups, out / groups }), { 1, 0, 2 })
      term = reshape(transpose(df.batch_matmul(rowsg, wg), { 1, 0, 2 }), { batch * positions, out })
    end
    sum = sum and sum + term or term
  end
  if rank == 2 and #flip == 0 and window[1].dilation == window[2].dilation and window[1].stride == window[2].stride
     and n.dtype:find '^float' then
    sum = df.conv2d(x, kernel, { strides = { 1, window[1].stride, window[2].stride, 1 }, padding = 'VALID',
                                 dilations = { 1, window[1].dilation, window[2].dilation, 1 } })
  else
    visit(1, {})
  end
  local r = reshape(sum, join({ batch }, out_space, { out }))
  local order = {}
  order[(d.out_batch or 0) + 1] = 0
  for i, k in ipairs(d.output) do order[k + 1] = i end
  order[(d.out_feature or 0) + 1] = rank + 1
  return transpose(r, order)
end

local function adjoint(x)
  local r = #x.shape
  return df.conj(transpose(x, join(value.iota(r - 2), { r - 1, r - 2 })))
end
local function swapped(x)
  local r = #x.shape
  return transpose(x, join(value.iota(r - 2), { r - 1, r - 2 }))
end
ops['cholesky'] = function(n, a)
  local lower = n.i.cholesky and (n.i.cholesky.lower or 0) ~= 0
  if not lower then a = adjoint(a) end
  local r = df.cholesky(a)
  return lower and r or adjoint(r)
end
ops['triangular-solve'] = function(n, a, b)
  local o = n.i.triangular or {}
  local lower, turn = (o.lower or 0) ~= 0, o.transpose or 1
  if turn == 2 then a, lower = swapped(a), not lower
  elseif turn == 3 then a, lower = adjoint(a), not lower end
  if (o.unit or 0) ~= 0 then a = df.matrix_set_diag(a, df.ones_like(df.matrix_diag_part(a))) end
  if (o.left or 0) ~= 0 then return df.matrix_triangular_solve(a, b, { lower = lower }) end
  return swapped(df.matrix_triangular_solve(swapped(a), swapped(b), { lower = not lower }))
end
--- fn, which transforms the last axis, along this one.
local function along(x, axis, fn)
  local order, last = value.iota(#x.shape), #x.shape
  if axis == last then return fn(x) end
  order[axis], order[last] = order[last], order[axis]
  return transpose(fn(transpose(x, order)), order)
end
-- Kinds: forward, backward, of real numbers, back to real numbers; the real ones along the last axis.
ops['fft'] = function(n, x)
  local kind, lengths = n.i.fft_type or 0, n.i.fft_length
  local length = ints{ lengths[#lengths] }
  if kind == 2 then x = df.rfft(x, length) end
  for k = #x.shape - #lengths + 1, #x.shape - (kind >= 2 and 1 or 0) do
    x = along(x, k, kind % 2 == 0 and df.fft or df.ifft)
  end
  return kind == 3 and df.irfft(x, length) or x
end

return ops
