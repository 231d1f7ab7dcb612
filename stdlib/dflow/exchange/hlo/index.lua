--- HLO's instructions that move elements: reshapes, slices, padding, gather and scatter.
--
-- gather and scatter compute, for each element of a slice, its place in the operand laid flat (XLA's operation
-- semantics, Gather and Scatter); where whole rows of one dimension are taken, they are gathered as rows.
local read = require 'dflow.exchange.hlo.read'
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local value = require 'dflow.exchange.hlo.value'

local ops = {}
local ints, reshape, transpose, product, pick, others, join = value.ints, value.reshape, value.transpose, value.product,
  value.pick, value.others,
  value.join

--- A list of n times v.
local function filled(n, v)
  local out = {}
  for i = 1, n do out[i] = v end
  return out
end

-- ---- shapes ---------------------------------------------------------------------------------------------------------
--- The array with its dimensions at these places of `rank`, and 1 at all others.
local function spaced(x, places, rank)
  local dims = {}
  for k = 1, rank do dims[k] = 1 end
  for i, k in ipairs(places) do dims[k + 1] = x.shape[i] end
  return reshape(x, dims)
end

ops['broadcast'] = function(n, x)
  if value.is_spread(x) and #x.small.shape == 0 then return value.spread(x.small, n.dims) end
  x = value.whole(x)
  if #x.shape == 0 then return value.spread(x, n.dims) end
  local places = n.i.dimensions
  local order = value.iota(#places, 1)
  table.sort(order, function(a, b) return places[a] < places[b] end)
  local sorted, perm = {}, {}
  for i, k in ipairs(order) do sorted[i], perm[i] = places[k], k - 1 end
  return value.spread(spaced(transpose(x, perm), sorted, #n.dims), n.dims)
end
ops['reshape'] = function(n, x)
  if value.is_spread(x) and #x.small.shape == 0 then return value.spread(x.small, n.dims) end
  return reshape(value.whole(x), n.dims)
end
ops['iota'] = function(n)
  local k = (n.i.dimensions[1] or 0) + 1
  local d = n.dtype:find 'int' and n.dtype or 'int32'
  local wide = (d == 'int32' or d == 'int64') and d or 'int64'
  local x = df.range(df.constant(0, wide), df.constant(n.dims[k], wide), df.constant(1, wide))
  return value.spread(spaced(df.cast(x, n.dtype), { k - 1 }, #n.dims), n.dims)
end
ops['transpose'] = function(n, x) return transpose(x, n.i.dimensions) end
ops['reverse'] = function(n, x) return #n.i.dimensions == 0 and x or df.reverse(x, ints(n.i.dimensions)) end
ops['concatenate'] = function(n, ...)
  return select('#', ...) == 1 and ... or df.concat({ ... }, n.i.dimensions[1] or 0)
end
ops['slice'] = function(n, x)
  local first, last, step, plain = {}, {}, {}, true
  for i, s in ipairs(n.i.slices) do
    first[i], last[i], step[i] = s.start or 0, s.limit or 0, s.stride or 1
    plain = plain and step[i] == 1
  end
  if #first == 0 then return x end
  if plain then return df.slice(x, ints(first), ints(n.dims)) end
  return df.strided_slice(x, ints(first), ints(last), ints(step))
end

--- Padding of one dimension after the other: between the elements, then around them; a negative one cuts.
function ops.padded(x, fill, rows)
  local before, dims = {}, {}
  for i, dim in ipairs(x.shape) do dims[i] = dim end
  for k, row in ipairs(rows) do
    if row.interior > 0 and dims[k] > 1 then
      local wide = join(dims)
      table.insert(wide, k + 1, 1)
      local gap = join(wide)
      gap[k + 1] = row.interior
      x = df.concat({ reshape(x, wide), df.broadcast_to(fill, ints(gap)) }, k)
      local whole, size = dims[k] * (row.interior + 1), join(dims)
      size[k] = whole
      x = reshape(x, size)
      size[k] = whole - row.interior
      x = df.slice(x, ints(filled(#dims, 0)), ints(size))
      dims = size
    end
  end
  local around, cut, first, size = false, false, {}, {}
  for k, row in ipairs(rows) do
    before[k] = { math.max(row.low, 0), math.max(row.high, 0) }
    around = around or row.low > 0 or row.high > 0
    cut = cut or row.low < 0 or row.high < 0
    first[k] = math.max(-row.low, 0)
    size[k] = dims[k] + row.low + row.high
  end
  if around then x = df.pad(x, df.tensor(before, 'int32'), { constant_values = fill }) end
  return cut and df.slice(x, ints(first), ints(size)) or x
end
ops['pad'] = function(n, x, fill)
  local rows = {}
  for k, p in ipairs(n.i.padding and n.i.padding.dims or {}) do
    rows[k] = { low = p.low or 0, high = p.high or 0, interior = p.interior or 0 }
  end
  return ops.padded(x, fill, rows)
end

-- ---- slices at a place that is computed -----------------------------------------------------------------------------
--- Indices as int32, or int64 where they are that wide.
local function index(x)
  if x.dtype == 'int32' or x.dtype == 'int64' then return x end
  return df.cast(x, (x.dtype == 'uint32' or x.dtype == 'uint64') and 'int64' or 'int32')
end

--- Where a slice of these sizes begins: a scalar a dimension that is not taken whole, kept inside of the operand as XLA
-- does.
local function starts(dims, sizes, operands)
  local out = {}
  for k, size in ipairs(sizes) do
    if size ~= dims[k] then
      local s = operands[k] or df.reshape(df.slice(operands.vector, ints{ k - 1 }, ints{ 1 }), ints{})
      local known = value.known(s)
      s = known and df.constant(math.max(0, math.min(known[1], dims[k] - size)), index(s).dtype)
        or df.maximum(df.minimum(index(s), df.constant(dims[k] - size, index(s).dtype)), df.constant(0, index(s).dtype))
      out[k] = df.cast(s, 'int32')
    end
  end
  return out
end
local function operands_of(first, ...)
  if first and #first.shape == 1 then return { vector = first } end
  return { first, ... }
end

ops['dynamic-slice'] = function(n, x, ...)
  local dims, sizes = x.shape, n.i.slice_sizes
  local at = starts(dims, sizes, operands_of(...))
  if not next(at) then return x end
  if next(at) == 1 and not next(at, 1) and sizes[1] == 1 then return reshape(df.gather(x, at[1]), n.dims) end
  local begin = {}
  for k = 1, #dims do begin[k] = at[k] or df.int32(0) end
  return df.slice(x, df.stack(begin), ints(sizes))
end

--- The place of each element of a window of these dims, in an array of dims laid flat, the window at the scalars `at`.
local function flat_window(dims, window, at, dtype)
  local flat, stride = nil, 1
  for k = #dims, 1, -1 do
    local place = df.range(df.constant(0, dtype), df.constant(window[k], dtype), df.constant(1, dtype))
    if at[k] then place = place + df.cast(at[k], dtype) end
    local term = spaced(place * df.constant(stride, dtype), { k - 1 }, #dims)
    flat = flat and flat + term or term
    stride = stride * dims[k]
  end
  return flat
end

ops['dynamic-update-slice'] = function(_, x, update, ...)
  local dims, sizes = x.shape, update.shape
  local at = starts(dims, sizes, operands_of(...))
  if not next(at) then return update end
  if product(sizes) == 0 then return x end
  if next(at) == 1 and not next(at, 1) then
    local rows = df.range(df.int32(0), df.int32(sizes[1]), df.int32(1)) + at[1]
    return registry.op('TensorScatterUpdate', { x, reshape(rows, { sizes[1], 1 }), update }, {})
  end
  local flat = flat_window(dims, sizes, at, product(dims) < 2 ^ 31 and 'int32' or 'int64')
  local r = registry.op('TensorScatterUpdate', { reshape(x, { product(dims) }), reshape(flat, { product(sizes), 1 }),
      reshape(update, { product(sizes) }) }, {})
  return reshape(r, dims)
end

-- ---- gather, scatter ------------------------------------------------------------------------------------------------
--- What a gather and a scatter share. d: the dimension numbers; dims: the operand's; sizes: the slice's in each
-- dimension of the operand.
-- Gives batch, the dimensions of the indices but their vector's; begin[k], for each dimension k (from 1) of the operand
-- that has one, where a slice begins, of shape batch; window, the dimensions of the operand that a slice keeps.
local function placed(n, d, dims, indices, sizes)
  local vector, rank = d.vector or 0, #indices.shape
  local g = { batch = {}, begin = {}, window = others(#dims, d.collapsed, d.batching) }
  local order = others(rank, { vector })
  if vector < rank then
    indices = transpose(indices, join(order, { vector }))
  else
    indices = reshape(indices, join(indices.shape, { 1 }))
  end
  g.batch = pick(indices.shape, value.iota(#indices.shape - 1))
  indices = index(indices)
  g.dtype = (indices.dtype == 'int64' or product(dims) >= 2 ^ 31) and 'int64' or 'int32'
  for j, k in ipairs(d.map) do
    local first, size = {}, join(g.batch, { 1 })
    for i = 1, #size do first[i] = 0 end
    first[#first] = j - 1
    if not dims[k + 1] then n:refuse(('it indexes the dimension %d of an array of rank %d'):format(k, #dims)) end
    g.begin[k + 1] = reshape(df.slice(indices, ints(first), ints(size)), g.batch)
  end
  for j, k in ipairs(d.batching) do
    -- The batch dimension of the indices, counted without their vector, is the place in that dimension of the operand.
    local b = d.index_batching[j]
    local at = b > vector and b - 1 or b
    local place = df.range(df.constant(0, indices.dtype), df.constant(dims[k + 1], indices.dtype),
                           df.constant(1, indices.dtype))
    g.begin[k + 1] = df.broadcast_to(spaced(place, { at }, #g.batch), ints(g.batch))
  end
  return g
end

--- The place in the operand laid flat of each element of each slice: batch, then the slice's kept dimensions.
local function flat_places(g, dims, sizes)
  local rank, flat, stride = #g.batch + #g.window, nil, 1
  local window = value.set(g.window)
  for k = #dims, 1, -1 do
    local place
    if g.begin[k] then place = reshape(df.cast(g.begin[k], g.dtype), join(g.batch, filled(#g.window, 1))) end
    if window[k - 1] and sizes[k] > 1 then
      local offset = spaced(df.range(df.constant(0, g.dtype), df.constant(sizes[k], g.dtype), df.constant(1, g.dtype)),
                            { #g.batch + window[k - 1] - 1 }, rank)
      place = place and place + offset or offset
    end
    if place then
      local term = stride == 1 and place or place * df.constant(stride, g.dtype)
      flat = flat and flat + term or term
    end
    stride = stride * dims[k]
  end
  local kept = {}
  for i, k in ipairs(g.window) do kept[i] = sizes[k + 1] end
  local shape = join(g.batch, kept)
  if not flat then return df.zeros(shape, { dtype = g.dtype }), shape end
  return df.broadcast_to(flat, ints(shape)), shape
end

--- An array of dimensions [batch, window] with those of the window at the places `offset` of the result.
local function with_offsets(x, offset, batches)
  local rank = #x.shape
  local order, at_offset, b, w = {}, value.set(offset), 0, batches
  for k = 0, rank - 1 do
    if at_offset[k] then order[k + 1], w = w, w + 1 else order[k + 1], b = b, b + 1 end
  end
  return transpose(x, order)
end

ops['gather'] = function(n, x, indices)
  local d, dims, sizes = n.i.gather or n:refuse 'it has no dimension numbers', x.shape, n.i.gather_sizes
  if product(n.dims) == 0 then return df.zeros(n.dims, { dtype = n.dtype }) end
  local g = placed(n, d, dims, indices, sizes)
  for k in pairs(g.begin) do
    if not value.set(d.batching)[k - 1] then
      local s = g.begin[k]
      g.begin[k] = df.maximum(df.minimum(s, df.constant(dims[k] - sizes[k], s.dtype)), df.constant(0, s.dtype))
    end
  end
  local k = next(g.begin)
  local whole = k and not next(g.begin, k) and sizes[k] == 1 and #d.batching == 0
  for i, size in ipairs(sizes) do whole = whole and (i == k or size == dims[i]) end
  if whole then
    -- Whole rows of one dimension: they lie at its place in what Gather gives, and belong behind the batch.
    local r = df.gather(x, g.begin[k], k - 1)
    local b, rank = #g.batch, #r.shape
    local order = join(value.iota(b, k - 1), value.iota(k - 1), value.iota(rank - b - k + 1, k - 1 + b))
    r = transpose(r, order)
    if #d.collapsed == 0 then r = reshape(r, join(g.batch, pick(sizes, g.window))) end
    return with_offsets(r, d.offset, b)
  end
  local flat = flat_places(g, dims, sizes)
  return with_offsets(df.gather(reshape(x, { product(dims) }), flat), d.offset, #g.batch)
end

--- How elements that a scatter puts into one place are combined: op(flat operand, places [m, 1], updates [m]) -> flat.
local combine = {}
local function scatter_op(type)
  return function(x, places, updates) return registry.op(type, { x, places, updates }, {}) end
end
combine['add'], combine['maximum'], combine['minimum'] = scatter_op 'TensorScatterAdd', scatter_op 'TensorScatterMax',
  scatter_op 'TensorScatterMin'
combine['first'] = function(x) return x end
combine['second'] = scatter_op 'TensorScatterUpdate'
combine['multiply'] = function(x, places, updates)
  return x * df.unsorted_segment_prod(updates, reshape(places, updates.shape),
                                      df.cast(df.constant(x.shape[1]), 'int32'))
end
--- Any other: one update after the other.
local function one_by_one(n, comp)
  return function(x, places, updates)
    local m = updates.shape[1]
    local _, r = df.while_loop(function(i) return df.less(i, m) end, function(i, a)
      local at = df.gather(places, i)
      local new = n:region(comp, { df.gather(a, df.gather(at, 0)), df.gather(updates, i) })
      return i + 1, registry.op('TensorScatterUpdate', { a, df.expand_dims(at, 0), reshape(new, { 1 }) }, {})
    end, { df.int32(0), x })
    return r
  end
end

ops['scatter'] = function(n, ...)
  local operands = { ... }
  local count = (#operands - 1) / 2
  if count ~= 1 then n:refuse('it scatters into several arrays at once') end
  local x, indices, updates = operands[1], operands[2], operands[3]
  local d, dims = n.i.scatter or n:refuse 'it has no dimension numbers', x.shape
  if product(updates.shape) == 0 or product(dims) == 0 then return x end
  local sizes, window = {}, others(#dims, d.collapsed, d.batching)
  for k = 1, #dims do sizes[k] = 1 end
  for i, k in ipairs(window) do sizes[k + 1] = updates.shape[d.offset[i] + 1] end
  local g = placed(n, d, dims, indices, sizes)
  -- A slice that does not lie inside of the operand as a whole is left out: its elements go to a place behind the end.
  local inside
  for k, s in pairs(g.begin) do
    if not value.set(d.batching)[k - 1] then
      local ok = df.logical_and(df.greater_equal(s, df.constant(0, s.dtype)),
                                df.less_equal(s, df.constant(dims[k] - sizes[k], s.dtype)))
      inside = inside and df.logical_and(inside, ok) or ok
    end
  end
  local flat, shape = flat_places(g, dims, sizes)
  local total, m = product(dims), product(shape)
  local a = reshape(x, { total })
  if inside then
    flat = df.select_v2(reshape(inside, join(g.batch, filled(#g.window, 1))), flat, df.constant(total, flat.dtype))
    a = df.concat({ a, df.zeros({ 1 }, { dtype = x.dtype }) }, 0)
  end
  -- The updates in the order of the places: the batch first.
  updates = reshape(transpose(updates, join(others(#updates.shape, d.offset), d.offset)), { m })
  local comp = n:computation(1)
  local how = combine[n:binary(comp)] or one_by_one(n, comp)
  if x.dtype == 'bool' and how ~= combine.second and how ~= combine.first then
    local function wide(v) return df.cast(v, 'int32') end
    local name = ({ add = 'maximum', ['or'] = 'maximum', maximum = 'maximum', multiply = 'minimum', ['and'] = 'minimum',
                    minimum = 'minimum' })[n:binary(comp)]
    if not name then n:refuse 'its computation on bools is not known' end
    a = df.cast(combine[name](wide(a), reshape(flat, { m, 1 }), wide(updates)), 'bool')
  else
    a = how(a, reshape(flat, { m, 1 }), updates)
  end
  if inside then a = df.slice(a, ints{ 0 }, ints{ total }) end
  return reshape(a, dims)
end

ops['bitcast-convert'] = function(n, x)
  local from = n.comp.by_id[n.i.operands[1]].shape.type
  if n.kind ~= read.narrow[from] then n:refuse 'values of a narrow type are kept without their bits' end
  return n.dtype == x.dtype and x or reshape(df.bitcast(x, n.dtype), n.dims)
end

return ops
