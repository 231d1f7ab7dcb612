--- HLO's instructions that own a computation of scalars: reduce, reduce-window, select-and-scatter, sort, map; and
-- top-k.
--
-- A computation that is one op of its two parameters is dflow's own reduction. Any other is called with whole arrays
-- for its scalars, as an elementwise function: halves are combined until one element is left, so n elements take
-- log2(n) calls (XLA leaves the order open).
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local elementwise = require 'dflow.exchange.hlo.elementwise'
local index = require 'dflow.exchange.hlo.index'
local value = require 'dflow.exchange.hlo.value'

local ops = {}
local ints, reshape, transpose, product, others, join, pick = value.ints, value.reshape, value.transpose, value.product,
  value.others, value.join, value.pick

local whole = { add = 'reduce_sum', multiply = 'reduce_prod', maximum = 'reduce_max', minimum = 'reduce_min',
                ['and'] = 'reduce_all', ['or'] = 'reduce_any' }
local identity = { add = 0, multiply = 1, maximum = -math.huge, minimum = math.huge, ['and'] = true, ['or'] = false }
local logical = { add = 'or', maximum = 'or', multiply = 'and', minimum = 'and' }

local function halves(list)
  local operands, inits = {}, {}
  for i = 1, #list / 2 do operands[i], inits[i] = list[i], list[i + #list / 2] end
  return operands, inits
end
local function results(list) return #list == 1 and list[1] or value.tuple(list) end

--- x from `first` in steps of `step`, `count` elements of dimension k (from 0).
local function stepped(x, k, first, step, count)
  local a, b, s = {}, {}, {}
  for i, dim in ipairs(x.shape) do a[i], b[i], s[i] = 0, dim, 1 end
  a[k + 1], b[k + 1], s[k + 1] = first, first + (count - 1) * step + 1, step
  return df.strided_slice(x, ints(a), ints(b), ints(s))
end

--- One element along dimension 0, of neighbours combined again and again.
local function fold(n, comp, xs)
  local size = xs[1].shape[1]
  while size > 1 do
    local half, a, b, rest = math.floor(size / 2), {}, {}, {}
    for i, x in ipairs(xs) do
      a[i], b[i] = stepped(x, 0, 0, 2, half), stepped(x, 0, 1, 2, half)
      if size % 2 == 1 then rest[i] = stepped(x, 0, size - 1, 1, 1) end
    end
    xs = n:lifted(comp, join(a, b))
    if size % 2 == 1 then for i, x in ipairs(xs) do xs[i] = df.concat({ x, rest[i] }, 0) end end
    size = math.ceil(size / 2)
  end
  return xs
end

ops['reduce'] = function(n, ...)
  local xs, inits = halves{ ... }
  local comp, axes = n:computation(1), n.i.dimensions
  local name = #xs == 1 and n:binary(comp)
  local bool = xs[1].dtype == 'bool'
  if name and bool then name = logical[name] or name end
  if name and whole[name] and (bool or identity[name] ~= true and identity[name] ~= false) then
    local x, init = xs[1], inits[1]
    if #axes == 0 then return elementwise[name](n, x, init) end
    local known = value.known(init)
    if product(x.shape) == 0 then
      if product(n.dims) ~= 0 then return df.broadcast_to(init, ints(n.dims)) end
    end
    local r = df[whole[name]](x, { axis = axes })
    if known and known[1] == identity[name] then return r end
    return elementwise[name](n, init, r)
  end
  -- The dimensions that go come first, as one.
  local rank = #xs[1].shape
  local keep = others(rank, axes)
  local size = product(pick(xs[1].shape, axes))
  local rest = pick(xs[1].shape, keep)
  for i, x in ipairs(xs) do xs[i] = reshape(transpose(x, join(axes, keep)), join({ size }, rest)) end
  local shape = ints(rest)
  local out, first = {}, {}
  for i, init in ipairs(inits) do first[i] = df.broadcast_to(init, shape) end
  if size == 0 then return results(first) end
  for i, x in ipairs(fold(n, comp, xs)) do out[i] = reshape(x, rest) end
  return results(n:lifted(comp, join(first, out)))
end

-- ---- windows --------------------------------------------------------------------------------------------------------
local function window_of(n)
  local out = {}
  for k, w in ipairs(n.i.window and n.i.window.dims or {}) do
    out[k] = { size = w.size or 0, stride = math.max(w.stride or 1, 1), low = w.low or 0, high = w.high or 0,
               dilation = math.max(w.dilation or 1, 1),
               base = math.max(w.base or 1, 1), reversed = (w.reversed or 0) ~= 0 }
  end
  return out
end
ops.window_of = window_of

--- The padded, dilated base that windows move over.
local function based(x, init, window)
  local rows = {}
  for k, w in ipairs(window) do rows[k] = { low = w.low, high = w.high, interior = w.base - 1 } end
  return index.padded(x, init, rows)
end

--- combine(list a, list b) of all elements of a window along one dimension, at each place, by windows of a power of
-- two: of those of 2^j two neighbours make one of 2^(j+1).
local function along(xs, k, w, combine)
  local count = xs[1].shape[k + 1] - (w.size - 1) * w.dilation
  local function at(list, first)
    local out = {}
    for i, x in ipairs(list) do out[i] = stepped(x, k, first * w.dilation, 1, count) end
    return out
  end
  local done, power, span, out = 0, 1, xs, nil
  while done < w.size do
    if math.floor(w.size / power) % 2 == 1 then
      local part = at(span, done)
      out = out and combine(out, part) or part
      done = done + power
    end
    if done < w.size then
      local left = span[1].shape[k + 1] - power * w.dilation
      local a, b = {}, {}
      for i, x in ipairs(span) do a[i], b[i] = stepped(x, k, 0, 1, left), stepped(x, k, power * w.dilation, 1, left) end
      span, power = combine(a, b), power * 2
    end
  end
  if w.stride > 1 then
    for i, x in ipairs(out) do out[i] = stepped(x, k, 0, w.stride, math.ceil(count / w.stride)) end
  end
  return out
end

ops['reduce-window'] = function(n, ...)
  local xs, inits = halves{ ... }
  local comp, window = n:computation(1), window_of(n)
  if product(n.dims) == 0 then
    for i, x in ipairs(xs) do xs[i] = df.zeros(n.dims, { dtype = x.dtype }) end
    return results(xs)
  end
  local function combine(a, b) return n:lifted(comp, join(a, b)) end
  for i, x in ipairs(xs) do xs[i] = based(x, inits[i], window) end
  for k, w in ipairs(window) do
    if w.size > 1 or w.stride > 1 then xs = along(xs, k - 1, w, combine) end
  end
  return results(combine(inits, xs))
end

ops['select-and-scatter'] = function(n, x, source, init)
  local window = window_of(n)
  local choose, add = n:computation(1), n:computation(2)
  local base = based(x, init, window)
  local dims, places = base.shape, source.shape
  local total = product(dims)
  local flat = reshape(df.range(df.int32(0), df.int32(total), df.int32(1)), dims)
  local at = {}
  -- Each offset in the window: its element at every place of the window, and where that lies.
  local function visit(k, v, f)
    if k > #window then
      if not at[1] then at = { v, f } return end
      local keep = n:lifted(choose, { at[1], v })[1]
      at = { df.select_v2(keep, at[1], v), df.select_v2(keep, at[2], f) }
      return
    end
    local w = window[k]
    for o = 0, w.size - 1 do
      visit(k + 1, stepped(v, k - 1, o, w.stride, places[k]), stepped(f, k - 1, o, w.stride, places[k]))
    end
  end
  visit(1, base, flat)
  local m = product(places)
  local acc = df.broadcast_to(init, ints{ total })
  local name = n:binary(add)
  if name ~= 'add' then n:refuse 'it combines by something else than a sum' end
  local out = reshape(registry.op('TensorScatterAdd', { acc, reshape(at[2], { m, 1 }), reshape(source, { m }) }, {}),
                      dims)
  local first = {}
  for k, w in ipairs(window) do first[k] = w.low end
  return df.slice(out, ints(first), ints(x.shape))
end

-- ---- sort -----------------------------------------------------------------------------------------------------------
--- The elements of x along its last dimension at these places.
local function taken(x, order) return df.gather(x, order, #x.shape - 1, { batch_dims = #x.shape - 1 }) end

--- The places that order [.., size] by the comparator, equal elements as they are: Batcher's odd-even merge sort, in
-- which each stage compares elements that lie a power of two apart, as whole arrays.
local function network(n, comp, xs)
  local rank, size = #xs[1].shape, xs[1].shape[#xs[1].shape]
  local row = df.range(df.int32(0), df.int32(size), df.int32(1))
  local order = df.broadcast_to(row, ints(xs[1].shape))
  local function before(a, b, pa, pb)                  -- a comes before b, or is equal and lay before it
    local list = {}
    for i = 1, #a do list[2 * i - 1], list[2 * i] = a[i], b[i] end
    local less = n:lifted(comp, list)[1]
    for i = 1, #a do list[2 * i - 1], list[2 * i] = b[i], a[i] end
    local more = n:lifted(comp, list)[1]
    return df.logical_or(less, df.logical_and(df.logical_not(more), df.less(pa, pb)))
  end
  local p = 1
  while p < size do
    local k = p
    while k >= 1 do
      local partner, low = {}, {}
      for i = 0, size - 1 do partner[i + 1], low[i + 1] = i, true end
      for j = k % p, size - 1 - k, 2 * k do
        for i = 0, math.min(k - 1, size - j - k - 1) do
          if math.floor((i + j) / (p * 2)) == math.floor((i + j + k) / (p * 2)) then
            partner[i + j + 1], partner[i + j + k + 1] = i + j + k, i + j
            low[i + j + k + 1] = false
          end
        end
      end
      local other, moved = ints(partner), {}
      for i, x in ipairs(xs) do moved[i] = df.gather(x, other, rank - 1) end
      local there = df.gather(order, other, rank - 1)
      local first = before(xs, moved, order, there)
      -- The lower of two keeps what comes first, the upper one what comes last; one without a partner keeps what it
      -- has.
      local stay = df.equal(first, df.constant(df.tensor(low, 'bool')))
      local alone = df.equal(other, row)
      stay = df.logical_or(stay, alone)
      for i, x in ipairs(xs) do xs[i] = df.select_v2(stay, x, moved[i]) end
      order = df.select_v2(stay, order, there)
      k = math.floor(k / 2)
    end
    p = p * 2
  end
  return xs
end

ops['sort'] = function(n, ...)
  local xs = { ... }
  local axis, rank = n.i.dimensions[1] or 0, #xs[1].shape
  local size = xs[1].shape[axis + 1]
  if size <= 1 or product(xs[1].shape) == 0 then return results(xs) end
  local back = others(rank, { axis })
  local to = join(back, { axis })
  for i, x in ipairs(xs) do xs[i] = transpose(x, to) end
  local comp = n:computation(1)
  local key, down = n:key(comp, xs)
  if key then
    key = elementwise.total_order(key)
    local wide = key.dtype:find '64' and 'int64' or 'int32'
    if key.dtype:find '^uint' then
      wide = key.dtype:find '8' and 'int32' or 'int64'
      if key.dtype == 'uint64' then
        key = df.bitwise_xor(df.bitcast(key, 'int64'), df.constant(math.mininteger or -2 ^ 63, 'int64'))
      end
    end
    key = df.cast(key, wide)
    if down then key = df.invert(key) end
    local order = df.argsort(key, { axis = -1, stable = true })
    for i, x in ipairs(xs) do xs[i] = taken(x, order) end
  else
    xs = network(n, comp, xs)
  end
  local from = {}
  for i, k in ipairs(to) do from[k + 1] = i - 1 end
  for i, x in ipairs(xs) do xs[i] = transpose(x, from) end
  return results(xs)
end

ops['topk'] = function(n, x)
  local k = n.i.k or 0
  if n.i.largest == 0 then n:refuse 'it takes the smallest elements' end
  return value.tuple{ df.top_k(x, k) }
end

ops['map'] = function(n, ...) return n:lifted(n:computation(1), { ... })[1] end

return ops
