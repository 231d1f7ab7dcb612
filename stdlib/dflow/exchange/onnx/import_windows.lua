--- ONNX's operators that slide a window: convolutions and pooling over one, two or three axes, whose sizes may be known
-- only when it runs.
--
-- Numbers here are Lua's where they are known while the graph is built, and scalars in the graph (int32) where they
-- are not.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local import_ops = require 'dflow.exchange.onnx.import_ops'
local layout = require 'dflow.exchange.onnx.layout'

local ops, help = import_ops.ops, import_ops.help
local same, vector = help.same, help.vector
local unpack = table.unpack or unpack

-- ---- numbers, known or not -----------------------------------------------------------------------------------------
local function is_number(...)
  for i = 1, select('#', ...) do if type((select(i, ...))) ~= 'number' then return false end end
  return true
end
local function floor_div(a, b) return is_number(a, b) and math.floor(a / b) or df.floor_div(a, b) end
local function ceil_div(a, b) return -floor_div(-a, b) end
local function at_least(a, b) return is_number(a, b) and math.max(a, b) or df.maximum(a, b) end
--- As int32s: a table where all are numbers, else a vector in the graph.
local function ints(list)
  if is_number(unpack(list)) then return vector(list, 'int32') end
  local all = {}
  for i, v in ipairs(list) do all[i] = type(v) == 'number' and df.int32(v) or v end
  return df.stack(all)
end
--- The size of an axis.
local function dim_of(x, axis) return x.shape[axis + 1] >= 0 and x.shape[axis + 1] or df.dim(x, axis) end

-- ---- windows -------------------------------------------------------------------------------------------------------
--- x with p[1] and p[2] elements of `value` before and after along each axis; a negative number takes away.
local function pad(x, pairs_of, value)
  local all, grow, cut, flat = true, false, false, {}
  for _, p in ipairs(pairs_of) do
    flat[#flat + 1], flat[#flat + 2] = p[1], p[2]
    all = all and is_number(p[1], p[2])
  end
  if not all then return df.pad_v2(x, df.reshape(ints(flat), { #pairs_of, 2 }), value) end
  local more, begin, less = {}, {}, {}
  for d, p in ipairs(pairs_of) do
    more[d] = { math.max(p[1], 0), math.max(p[2], 0) }
    grow, cut = grow or more[d][1] + more[d][2] > 0, cut or p[1] < 0 or p[2] < 0
    begin[d], less[d] = math.max(-p[1], 0), math.max(-p[1], 0) + math.max(-p[2], 0)
  end
  if grow then x = df.pad_v2(x, more, value) end
  if cut then x = df.slice(x, vector(begin, 'int32'), df.shape(x) - vector(less, 'int32')) end
  return x
end

--- What is said of a window over the place axes of x: for each axis its size, stride, dilation, pads, and the number of
-- places.
local function windows(n, x, size)
  local m = help.rank(n, x) - 2
  if #size ~= m then n:refuse(('its kernel has %d axes, its input %d places axes'):format(#size, m)) end
  local strides, dilations, pads = n.attr 'strides', n.attr 'dilations', n.attr 'pads'
  local auto, out = n.attr('auto_pad', 'NOTSET'), { auto = n.attr('auto_pad', 'NOTSET') }
  for d = 1, m do
    local w = { size = size[d], stride = strides and strides[d] or 1, dilation = dilations and dilations[d] or 1,
                before = 0, after = 0, extra = 0 }
    if w.stride < 1 or w.dilation < 1 or w.size < 1 then
      n:refuse(('a window of %d with stride %d and dilation %d: expected 1 or more of each')
        :format(w.size, w.stride, w.dilation))
    end
    local reach, dim = (w.size - 1) * w.dilation + 1, dim_of(x, d + 1)
    if auto == 'SAME_UPPER' or auto == 'SAME_LOWER' then
      local all = at_least((ceil_div(dim, w.stride) - 1) * w.stride + reach - dim, 0)
      w.before = auto == 'SAME_UPPER' and floor_div(all, 2) or ceil_div(all, 2)
      w.after = all - w.before
    elseif auto ~= 'VALID' and pads then w.before, w.after = pads[d], pads[m + d] end
    local room = dim + w.before + w.after - reach
    w.count = floor_div(room, w.stride) + 1
    if n.attr('ceil_mode', 0) == 1 and auto == 'NOTSET' then
      -- The last window begins inside of the input or of the padding before it.
      local up, inside = ceil_div(room, w.stride) + 1, ceil_div(dim + w.before, w.stride)
      w.count = is_number(up, inside) and math.min(up, inside) or df.minimum(up, inside)
      w.extra = at_least((w.count - 1) * w.stride - room, 0)
    end
    out[d] = w
  end
  return out
end

--- A row of numbers for the axes [n, places…, c]; one place axis stands as two, the first of size 1.
local function row(ws, key, other)
  local list = { other or 1 }
  if #ws == 1 then list[2] = other or 1 end
  for _, w in ipairs(ws) do list[#list + 1] = type(key) == 'function' and key(w) or w[key] end
  list[#list + 1] = other or 1
  return list
end
local function pads_of(ws, extra)
  return row(ws, function(w) return { w.before, w.after + (extra and w.extra or 0) } end, { 0, 0 })
end
local function is_padded(ws, extra)
  for _, p in ipairs(pads_of(ws, extra)) do if p[1] ~= 0 or p[2] ~= 0 then return true end end
  return false
end

-- ---- convolutions --------------------------------------------------------------------------------------------------
local function kernel_of(n, w)
  local size = {}
  for d = 3, help.rank(n, w) do
    size[d - 2] = w.shape[d]
    if w.shape[d] < 0 then n:refuse 'the size of its kernel is known only when it runs' end
  end
  if #size < 1 or #size > 3 then n:refuse(('it has %d axes of places; 1, 2 and 3 are known'):format(#size)) end
  return size
end

--- Which convolution over m axes of places, or which gradient of it; over one axis it is of images.
local function kind_of(m, suffix)
  return (m == 3 and 'Conv3D' or 'Conv2D') .. (suffix and suffix .. (m == 3 and 'V2' or '') or '')
end

--- A filter [co, ci, …] as [h, w, ci, co] or [d, h, w, ci, co], and where each channel of images is a group (co =
-- groups * k) as [h, w, groups, k].
local function filter_of(w, m, depthwise)
  local perm = m == 3 and { 2, 3, 4, 1, 0 } or depthwise and { 2, 3, 0, 1 } or { 2, 3, 1, 0 }
  return layout.folded(function(v)
    if depthwise then
      local shape = { depthwise, w.shape[1] / depthwise }
      for d = 3, #w.shape do shape[#shape + 1] = w.shape[d] end
      v = df.reshape(v, shape)
    end
    return df.transpose(m == 1 and df.expand_dims(v, 2) or v, perm)
  end, w)
end

--- A convolution of x, whose channels are last. That of volumes has no paddings of its own.
local function convolution(x, w, ws, groups)
  local m, attrs = #ws, { strides = row(ws, 'stride'), dilations = row(ws, 'dilation'), padding = 'VALID' }
  if ws.auto == 'SAME_UPPER' then attrs.padding = 'SAME'
  elseif is_padded(ws) then
    local flat, plain = {}, m < 3
    for _, p in ipairs(pads_of(ws)) do
      flat[#flat + 1], flat[#flat + 2] = p[1], p[2]
      plain = plain and is_number(p[1], p[2]) and p[1] >= 0 and p[2] >= 0
    end
    if plain then attrs.padding, attrs.explicit_paddings = 'EXPLICIT', flat else x = pad(x, pads_of(ws), same(x, 0)) end
  end
  local depthwise = m < 3 and groups > 1 and w.shape[2] == 1 and w.shape[1] >= 0 and w.shape[1] % groups == 0 and groups
  local filter = filter_of(w, m, depthwise)
  return registry.op(depthwise and 'DepthwiseConv2dNative' or kind_of(m), { x, filter }, attrs)
end

function ops.Conv(n, x, w, bias)
  local size, groups = kernel_of(n, w), n.attr('group', 1)
  local rank = #size + 2
  x = help.of_rank(x, rank)
  if #x.shape ~= rank then n:refuse(('its input has %d axes, its kernel %d'):format(#x.shape, rank)) end
  local ws = windows(n, x, size)
  local y = convolution(layout.last(n, x, rank), w, ws, groups)
  return layout.second(n, bias and df.bias_add(y, bias) or y, rank)
end

--- What a window sees of x from each place, tap by tap: [n, places…, taps * channels], where one axis of places stands
-- as two; beyond the borders is `outside`.
function help.patches(n, x, size, outside)
  local ws = windows(n, x, size)
  local y = layout.last(n, x, #size + 2)
  if is_padded(ws) then y = pad(y, pads_of(ws), outside) end
  local down, across = ws[#ws - 1] or { size = 1, count = 1, stride = 1, dilation = 1 }, ws[#ws]
  local function stop(w, tap) return tap * w.dilation + (w.count - 1) * w.stride + 1 end
  local taps, steps = {}, ints{ 1, down.stride, across.stride, 1 }
  for i = 0, down.size - 1 do
    for k = 0, across.size - 1 do
      taps[#taps + 1] = df.strided_slice(y, ints{ 0, i * down.dilation, k * across.dilation, 0 },
                                         ints{ 0, stop(down, i), stop(across, k), 0 }, steps,
                                         { begin_mask = 9, end_mask = 9 })
    end
  end
  return #taps == 1 and taps[1] or df.concat(taps, 3)
end

--- The sizes of what is made of x by a transposed convolution, and what is cut off at its borders (less than nothing:
-- zeros are added).
local function transposed_sizes(n, x, size)
  local m, strides, dilations = #size, n.attr 'strides', n.attr 'dilations'
  local more, pads, wanted, auto = n.attr 'output_padding', n.attr 'pads', n.attr 'output_shape',
    n.attr('auto_pad', 'NOTSET')
  local ws, cut = { auto = 'VALID' }, {}
  for d = 1, m do
    local s, k, dim, add = strides and strides[d] or 1, dilations and dilations[d] or 1, dim_of(x, d + 1), more
      and more[d] or 0
    local full = s * (dim - 1) + (size[d] - 1) * k + 1
    local before, after = pads and pads[d] or 0, pads and pads[m + d] or 0
    local target = wanted and wanted[#wanted - m + d] or auto:find '^SAME' and dim * s
    if target then
      -- For unknown sizes `full` less what SAME asks for is a number all the same.
      local all = type(dim) ~= 'number' and not wanted and (size[d] - 1) * k + 1 - s + add or full + add - target
      before = auto == 'SAME_UPPER' and floor_div(all, 2) or all - floor_div(all, 2)
      after = all - before
    end
    ws[d] = { stride = s, dilation = k, size = size[d], before = 0, after = 0, full = full, count = dim }
    cut[d] = { -before, add - after }
  end
  return ws, cut
end

--- [n, …, c] of x [n, …, ci]: what a convolution would have made x of.
local function transposed(x, w, ws, groups)
  local m = #ws
  local sizes = { df.dim(x, 0) }
  if m == 1 then sizes[2] = 1 end
  for _, v in ipairs(ws) do sizes[#sizes + 1] = v.full end
  sizes[#sizes + 1] = w.shape[2] * groups
  return registry.op(kind_of(m, 'BackpropInput'), { ints(sizes), filter_of(w, m), x },
                     { strides = row(ws, 'stride'), dilations = row(ws, 'dilation'), padding = 'VALID' })
end

function ops.ConvTranspose(n, x, w, bias)
  local size, groups = kernel_of(n, w), n.attr('group', 1)
  local rank = #size + 2
  x = help.of_rank(x, rank)
  if #x.shape ~= rank then n:refuse(('its input has %d axes, its kernel %d'):format(#x.shape, rank)) end
  if w.shape[2] < 0 then n:refuse 'the number of its channels is known only when it runs' end
  local ws, cut = transposed_sizes(n, x, size)
  local y = transposed(layout.last(n, x, rank), w, ws, groups)
  local at = { { 0, 0 } }
  if #size == 1 then at[2] = { 0, 0 } end
  for _, c in ipairs(cut) do at[#at + 1] = c end
  at[#at + 1] = { 0, 0 }
  y = pad(y, at, same(y, 0))
  return layout.second(n, bias and df.bias_add(y, bias) or y, rank)
end

-- ---- pooling -------------------------------------------------------------------------------------------------------
-- A pool whose window has holes is as many slices as the window has places.
local MOST_PLACES = 65536

--- fn(part of xs[1], part of xs[2], …) for each place of the window over xs, which are alike, [n, h, w, c]: what lies
-- there under all windows.
local function each_place(n, xs, ws, fn)
  local m, places = #ws, 1
  for _, w in ipairs(ws) do places = places * w.size end
  if places > MOST_PLACES then
    n:refuse(('its window has %.0f places; up to %d are taken'):format(places, MOST_PLACES))
  end
  local at, first = {}, m == 1 and 3 or 2
  for d = 1, m do at[d] = 0 end
  for _ = 1, places do
    local begin, stop, stride, mask, parts = {}, {}, {}, 0, {}
    for d = 1, #xs[1].shape do
      local w = ws[d - first + 1]
      begin[d], stop[d], stride[d] = 0, 0, 1
      if w then
        begin[d] = at[d - first + 1] * w.dilation
        stop[d], stride[d] = begin[d] + (w.count - 1) * w.stride + 1, w.stride
      else mask = mask + 2 ^ (d - 1) end
    end
    for i, x in ipairs(xs) do
      parts[i] = df.strided_slice(x, ints(begin), ints(stop), ints(stride), { begin_mask = mask, end_mask = mask })
    end
    fn(unpack(parts))
    local d = m
    while d >= 1 and at[d] == ws[d].size - 1 do at[d], d = 0, d - 1 end
    if d >= 1 then at[d] = at[d] + 1 end
  end
end
local function by_slices(n, x, ws, fn)
  local result
  each_place(n, { x }, ws, function(part) result = result and fn(result, part) or part end)
  return result
end

--- 'max_pool' or 'avg_pool' of x [n, h, w, c] or [n, d, h, w, c].
local function by_op(name, x, ws)
  return df[#ws == 3 and name .. '3d' or name](x,
      { ksize = row(ws, 'size'), strides = row(ws, 'stride'), padding = 'VALID' })
end

local has_kernel = { float32 = true, float64 = true, float16 = true, bfloat16 = true }
local whole = { int8 = true, uint8 = true, int16 = true, uint16 = true, int32 = true, int64 = true }
local lowest = { float32 = -math.huge, float64 = -math.huge, float16 = -math.huge, bfloat16 = -math.huge, int8 = -128,
                 uint8 = 0, int16 = -32768,
                 uint16 = 0, int32 = -2147483648 }
local function has_holes(ws)
  for _, w in ipairs(ws) do if w.dilation > 1 then return true end end
  return false
end

--- x with its channels last, the windows over it, and the rank.
local function pooled(n, x)
  local size = n.attr 'kernel_shape' or n:refuse 'it has no kernel_shape'
  x = help.of_rank(x, #size + 2)
  local ws, rank = windows(n, x, size), #x.shape
  if rank < 3 or rank > 5 then n:refuse(('it has %d axes of places; 1, 2 and 3 are known'):format(rank - 2)) end
  return layout.last(n, x, rank), ws, rank
end

--- The greatest of each window and where in x it is, counted through all of x.
local function max_with_places(n, x)
  local v, ws, rank = pooled(n, x)
  local index = df.reshape(df.range(df.cast(df.size(x), 'int64')), df.shape(x))
  if n.attr('storage_order', 0) == 1 then                    -- along columns first
    local perm = { 0, 1 }
    for d = rank - 1, 2, -1 do perm[#perm + 1] = d end
    index = df.transpose(df.reshape(index, df.gather(df.shape(x), df.int32(perm))), perm)
  end
  index = layout.last({}, index, rank)
  local best, where
  each_place(n, { pad(v, pads_of(ws, true), same(x, lowest[x.dtype] or 0)),
                  pad(index, pads_of(ws, true), same(index, 0)) }, ws,
             function(part, at)
    local more = best and df.greater(part, best)
    best, where = more and df.select_v2(more, part, best) or part, more and df.select_v2(more, at, where) or at
  end)
  return { layout.second(n, best, rank), layout.second(n, where, rank) }
end

--- x at the places that MaxPool gave, zeros elsewhere.
function ops.MaxUnpool(n, x, places, shape)
  local size, strides, pads = n.attr 'kernel_shape', n.attr 'strides', n.attr 'pads'
  local own = { df.dim(x, 0), df.dim(x, 1) }
  for d, k in ipairs(size) do
    own[d + 2] = (dim_of(x, d + 1) - 1) * (strides and strides[d] or 1) - (pads and pads[d] + pads[#size + d] or 0) + k
  end
  own = ints(own)
  -- The places count through what the kernel alone makes; a larger shape is filled from its beginning of each axis.
  local flat = df.scatter_nd(df.reshape(places, { -1, 1 }), df.reshape(x, { -1 }),
                             df.cast(df.reshape(df.reduce_prod(own), { 1 }), 'int64'))
  local y = df.reshape(flat, own)
  if not shape then return y end
  return df.pad(y, df.stack({ df.zeros_like(own), df.cast(shape, 'int32') - own }, { axis = 1 }))
end

function ops.MaxPool(n, x)
  if n.count > 1 then return max_with_places(n, x) end
  local v, ws, rank = pooled(n, x)
  if is_padded(ws, true) then v = pad(v, pads_of(ws, true), same(x, lowest[x.dtype] or 0)) end
  local fast = not has_holes(ws) and (has_kernel[x.dtype] or whole[x.dtype])
  return layout.second(n, fast and by_op('max_pool', v, ws) or by_slices(n, v, ws, df.maximum), rank)
end

--- The sum over each window.
local function window_sums(n, x, ws)
  if has_holes(ws) or not has_kernel[x.dtype] then return by_slices(n, x, ws, df.add) end
  local size = 1
  for _, w in ipairs(ws) do size = size * w.size end
  return by_op('avg_pool', x, ws) * same(x, size)
end

function ops.AveragePool(n, x)
  local v, ws, rank = pooled(n, x)
  if not has_holes(ws) and has_kernel[x.dtype] and not is_padded(ws, true) then
    return layout.second(n, by_op('avg_pool', v, ws), rank)
  end
  -- What counts: the places of one channel of one image.
  local counted, shape = n.attr('count_include_pad', 0) == 1, df.shape(v)
  local axes, list = #v.shape, { df.int32(1) }
  for d = 1, axes - 2 do list[d + 1] = shape[d] end
  list[axes] = df.int32(1)
  local ones = df.fill(df.stack(list), same(x, 1))
  if counted then ones = pad(ones, pads_of(ws), same(x, 1)) end
  local rest = row(ws, function(w) return { 0, w.extra } end, { 0, 0 })
  ones = pad(ones, counted and rest or pads_of(ws, true), same(x, 0))
  return layout.second(n, window_sums(n, pad(v, pads_of(ws, true), same(x, 0)), ws) / window_sums(n, ones, ws), rank)
end

function ops.LpPool(n, x)
  local v, ws, rank = pooled(n, x)
  local p = n.attr('p', 2)
  local powers = p == 2 and df.square(v) or df.pow(df.abs(v), same(x, p))
  return layout.second(n, df.pow(window_sums(n, pad(powers, pads_of(ws, true), same(x, 0)), ws), same(x, 1 / p)), rank)
end

return import_ops
