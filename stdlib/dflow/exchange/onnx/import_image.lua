--- ONNX's operators of pictures in dflow's words: Resize, Upsample, GridSample, AffineGrid, CenterCropPad,
-- NonMaxSuppression, ImageDecoder.
--
-- Resizing takes each axis apart: an output is a sum of a few neighbours along the axis, with weights that only sizes
-- and attributes say.
-- What runs are gathers, products and sums, which have gradients.
local df = require 'dflow'
local import_nn = require 'dflow.exchange.onnx.import_nn'

local ops, help = import_nn.ops, import_nn.help

-- ---- where outputs lie, and the weights of their neighbours ---------------------------------------------------------
-- All numbers of an axis are scalars or vectors of float64 in the graph: what is known while it is built is folded
-- there.
local function real(v) return df.cast(v, 'float64') end
local function number(v) return df.constant(v, 'float64') end

--- Keys' cubic of distances, and the triangle of linear interpolation.
local function cubic_at(t, a)
  t = df.abs(t)
  local near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
  return df.select_v2(df.less_equal(t, number(1)), near, df.select_v2(df.less(t, number(2)), far, df.zeros_like(t)))
end
local function linear_at(t) return df.maximum(number(0), 1 - df.abs(t)) end

--- Which neighbour is the nearest, 0 the left and 1 the right one; `ratio` in (0, 1] is how far from the left one.
local nearest_of = {
  round_prefer_floor = function(ratio) return real(df.greater(ratio, number(0.5))) end,
  round_prefer_ceil = function(ratio) return real(df.greater_equal(ratio, number(0.5))) end,
  floor = function(ratio) return real(df.equal(ratio, number(1))) end,
  ceil = function(ratio) return df.ones_like(ratio) end,
}

--- Where the outputs i lie among the inputs; the second result says which are outside of what is cut out.
-- @param a  {scale, from, to = how many, first, last = what is cut out, in parts of the whole}
local function unless_one(wide, one, otherwise)
  return df.select_v2(df.equal(wide, number(1)), df.zeros_like(otherwise) + one, otherwise)
end
local places = {
  half_pixel = function(i, a) return (i + 0.5) / a.scale - 0.5 end,
  asymmetric = function(i, a) return i / a.scale end,
  pytorch_half_pixel = function(i, a) return unless_one(a.scale * a.from, -0.5, (i + 0.5) / a.scale - 0.5) end,
  align_corners = function(i, a) return unless_one(a.scale * a.from, 0, i * (a.from - 1) / (a.scale * a.from - 1)) end,
  half_pixel_symmetric = function(i, a) return a.from / 2 * (1 - a.to / (a.scale * a.from)) + (i + 0.5) / a.scale
      - 0.5 end,
  tf_half_pixel_for_nn = function(i, a) return (i + 0.5) / a.scale end,
  tf_crop_and_resize = function(i, a)
    local span = (a.last - a.first) * (a.from - 1)
    local x = unless_one(a.scale * a.from, span / 2, i * span / (a.scale * a.from - 1)) + a.first * (a.from - 1)
    return x, df.logical_or(df.less(x, number(0)), df.greater(x, a.from - 1))
  end,
}

--- Indices [outputs, neighbours] and their weights, of the outputs that lie at x.
local function taps(x, a)
  local left = df.ceil(x) - 1
  local ratio = x - left
  if a.kind == 'nearest' then return df.expand_dims(left + a.nearest(ratio), 1) end
  local wide, scale = a.kind == 'cubic' and 2 or 1, a.antialias and df.minimum(a.scale, number(1)) or number(1)
  local first = df.floor(number(-wide) / scale) + 1
  local k = df.expand_dims(df.range(first, 2 - first, number(1)), 0)
  local t = (k - df.expand_dims(ratio, 1)) * scale
  local index, weight = df.expand_dims(left, 1) + k, a.kind == 'cubic' and cubic_at(t, a.cubic) or linear_at(t)
  if a.exclude then
    weight = weight * real(df.logical_and(df.greater_equal(index, number(0)), df.less(index, a.from)))
  end
  if a.exclude or a.antialias then weight = weight / df.reduce_sum(weight, { axis = { 1 }, keep_dims = true }) end
  return index, weight
end

--- v [m] or [m, k] among the axes of a value of this rank, from `axis` on.
local function among(v, axis, rank)
  local shape = {}
  for d = 1, axis do shape[d] = 1 end
  local dims = df.shape(v)
  local parts = { df.constant(shape, 'int32', { #shape }), dims }
  local after = {}
  for d = 1, rank - axis - 1 do after[d] = 1 end
  parts[3] = df.constant(after, 'int32', { #after })
  return df.reshape(v, df.concat(parts, 0))
end

-- ---- Resize ---------------------------------------------------------------------------------------------------------
local function resize_axis(x, axis, a, extrapolation)
  local rank = #x.shape
  local places_of, outside = a.place(df.range(number(0), a.to, number(1)), a)
  local index, weight = taps(places_of, a)
  index = df.cast(df.clip_by_value(index, number(0), a.from - 1), 'int32')
  local y
  if weight then
    y = df.reduce_sum(df.gather(x, index, { axis = axis }) * among(df.cast(weight, x.dtype), axis, rank),
                      { axis = { axis + 1 } })
  else y = df.gather(x, df.squeeze(index, { axis = { 1 } }), { axis = axis }) end
  return outside and df.select_v2(among(outside, axis, rank), help.same(y, extrapolation), y) or y
end

--- Element i of a vector.
local function element(v, i) return df.squeeze(df.slice(v, { i - 1 }, { 1 }), { axis = { 0 } }) end

--- How many outputs along each axis, and the scales: vectors of float64.
-- @param from  how many inputs
local function sized(n, from, o)
  if o.sizes then
    local to = real(o.sizes)
    local policy, by = n.attr('keep_aspect_ratio_policy', 'stretch'), to / from
    if policy == 'stretch' then return to, by end
    by = policy == 'not_larger' and df.reduce_min(by) or df.reduce_max(by)
    return df.floor(by * from + 0.5), by + df.zeros_like(from)
  end
  local by = real(o.scales)
  -- In float32, as ONNX Runtime and PyTorch count: 0.7 of 10 are 7, though the float32 next to 0.7 is a little less.
  if not o.crop then return df.floor(real(df.cast(o.scales, 'float32') * df.cast(from, 'float32'))), by end
  local count = from.shape[1]
  return df.floor(by * from * (df.slice(o.crop, { count }, { count }) - df.slice(o.crop, { 0 }, { count }))), by
end

local is_float = { float16 = true, bfloat16 = true, float32 = true, float64 = true }
local limits = { int8 = { -128, 127 }, uint8 = { 0, 255 }, int16 = { -32768, 32767 }, uint16 = { 0, 65535 } }

--- Floats as the integers that x had: rounded, the ends kept.
local function rounded(x, dtype)
  local ends = limits[dtype]
  if ends then x = df.clip_by_value(x, help.same(x, ends[1]), help.same(x, ends[2])) end
  return df.cast(df.rint(x), dtype)
end

--- Is it known that the axis is as it was?
local function is_kept(to, by, from, i)
  to, by, from = help.known(to), help.known(by), help.known(from)
  return to and by and from and to[i] == from[i] and by[i] == 1
end

--- x resized along axes. Integers are computed as float32 and rounded back.
local function resize(n, x, axes, o)
  local dtype = x.dtype
  local from = real(df.gather(df.shape(x), df.constant(axes, 'int32', { #axes }), { axis = 0 }))
  for _, name in ipairs{ 'scales', 'sizes', 'crop' } do
    local wanted, shape = name == 'crop' and 2 * #axes or #axes, o[name] and o[name].shape
    if shape and shape[1] >= 0 and shape[1] ~= wanted then
      n:refuse(('its %s are %d, %d are expected'):format(name == 'crop' and 'roi' or name, shape[1], wanted))
    end
  end
  local to, by = sized(n, from, o)
  if o.kind ~= 'nearest' and not is_float[dtype] then x = df.cast(x, 'float32') end
  for i, axis in ipairs(axes) do
    if o.crop or not is_kept(to, by, from, i) then
      local a = { place = o.place, kind = o.kind, nearest = o.nearest, cubic = o.cubic, antialias = o.antialias,
                  exclude = o.exclude,
                  scale = element(by, i), from = element(from, i), to = element(to, i) }
      if o.crop then a.first, a.last = element(o.crop, i), element(o.crop, #axes + i) end
      x = resize_axis(x, axis, a, o.extrapolation)
    end
  end
  return x.dtype == dtype and df.identity(x) or rounded(x, dtype)
end

--- An input that says sizes; nil where it is left out or empty.
local function given(x) return x and (x.shape or { 1 })[1] ~= 0 and x or nil end

function ops.Resize(n, x, roi, scales, sizes)
  if n.opset < 11 then roi, scales = nil, roi end
  local rank, kind, mode = help.rank(n, x), n.attr('mode', 'nearest'),
    n.attr('coordinate_transformation_mode', 'half_pixel')
  local nearest = n.attr('nearest_mode', 'round_prefer_floor')
  if n.opset < 11 then mode, nearest = 'asymmetric', 'floor' end
  local o = { kind = kind, place = places[mode]
              or n:refuse(('its coordinate_transformation_mode is %s'):format(tostring(mode))),
              nearest = nearest_of[nearest] or n:refuse(('its nearest_mode is %s'):format(tostring(nearest))),
              cubic = n.attr('cubic_coeff_a', -0.75), antialias = n.attr('antialias', 0) == 1,
              exclude = n.attr('exclude_outside', 0) == 1, extrapolation = n.attr('extrapolation_value', 0),
              crop = mode == 'tf_crop_and_resize' and given(roi) and real(roi) or nil }
  if kind ~= 'nearest' and kind ~= 'linear' and kind ~= 'cubic' then
    n:refuse(('its mode is %s'):format(tostring(kind)))
  end
  if mode == 'tf_crop_and_resize' and not o.crop then n:refuse 'it cuts out, and its roi is missing' end
  o.sizes = given(sizes)
  o.scales = not o.sizes and given(scales) or nil
  if not o.sizes and not o.scales then n:refuse 'it has neither scales nor sizes' end
  local axes = n.attr 'axes'
  if axes then axes = help.axes(n, axes, rank) else
    axes = {}
    for d = 1, rank do axes[d] = d - 1 end
  end
  return resize(n, x, axes, o)
end

function ops.Upsample(n, x, scales)
  local axes = {}
  for d = 1, help.rank(n, x) do axes[d] = d - 1 end
  return resize(n, x, axes, { kind = n.attr('mode', 'nearest'), place = places.asymmetric, nearest = nearest_of.floor,
                              scales = scales or help.vector(n.attr 'scales', 'float32') })
end

-- ---- GridSample -----------------------------------------------------------------------------------------------------
--- v, of floats, reflected at `low` and `high` until it is between them.
local function reflected(v, low, high)
  local span = high - low
  local off = df.abs(v - low)
  local turns, rest = df.floor(off / span), df.floor_mod(off, span)
  local odd = df.greater(df.floor_mod(turns, help.same(v, 2)), help.same(v, 0.5))
  local inside = df.select_v2(odd, help.same(v, 0) + high - rest, rest + low)
  return df.select_v2(df.logical_and(df.greater_equal(v, low), df.less_equal(v, high)), v, inside)
end

--- The weight of the neighbour `k` of a place that lies `t` right of its left neighbour.
local function grid_weight(kind, k, t)
  if kind == 'linear' then return k == 0 and 1 - t or t end
  local d, a = df.abs(t - k), -0.75
  if k == 0 or k == 1 then return ((a + 2) * d - (a + 3)) * d * d + 1 end
  return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
end

--- The index that the padding says, and where it is inside (nil: everywhere).
local function padded(i, size, padding, low, high)
  if padding == 'reflection' then i = reflected(i, low, high) end
  local inside = padding == 'zeros' and df.logical_and(df.greater_equal(i, help.same(i, 0)), df.less_equal(i, size - 1))
    or nil
  return df.cast(df.clip_by_value(i, help.same(i, 0), size - 1), 'int32'), inside
end

--- Samples x [n, places…, c] at indices, a list of int32 [n, m], one for each axis.
local function pixels(x, indices, inside)
  local row = df.expand_dims(df.range(df.dim(x, 0)), 1)
  local all = { row + df.zeros_like(indices[1]) }
  for k, i in ipairs(indices) do all[k + 1] = i end
  local found = df.gather_nd(x, df.stack(all, { axis = -1 }))
  return inside and df.select_v2(df.expand_dims(inside, -1), found, df.zeros_like(found)) or found
end

function ops.GridSample(n, x, grid)
  local rank, kind = help.rank(n, x), (n.attr('mode', 'linear'):gsub('^bi', ''))
  local padding, aligned = n.attr('padding_mode', 'zeros'), n.attr('align_corners', 0) == 1
  if kind ~= 'linear' and kind ~= 'cubic' and kind ~= 'nearest' then n:refuse(('its mode is %s'):format(kind)) end
  local axes, shape, turn = rank - 2, df.shape(x), { 0 }
  for d = 2, rank - 1 do turn[d] = d end
  turn[rank] = 1
  local last = df.transpose(x, turn)
  local size, low, high, left, part = {}, {}, {}, {}, {}
  grid = df.cast(grid, 'float32')
  local outer = df.shape(grid):slice({ 1 }, { axes })
  grid = df.reshape(grid, df.concat({ shape:slice({ 0 }, { 1 }), df.constant({ -1, axes }, 'int32') }, 0))
  for d = 1, axes do
    size[d] = df.cast(shape:slice({ d + 1 }, { 1 }), 'float32')
    low[d], high[d] = aligned and size[d] * 0 or size[d] * 0 - 0.5, aligned and size[d] - 1 or size[d] - 0.5
    local place = df.squeeze(df.slice(grid, { 0, 0, axes - d }, { -1, -1, 1 }), { axis = { 2 } })
    place = aligned and (place + 1) / 2 * (size[d] - 1) or ((place + 1) * size[d] - 1) / 2
    if kind == 'nearest' then place = df.rint(place) end
    -- A cubic looks at padded pixels instead, as PyTorch's and ONNX Runtime's do, so that it stays smooth beyond the
    -- border.
    if kind == 'cubic' then place = df.identity(place)
    elseif padding == 'border' then place = df.clip_by_value(place, help.same(place, 0), size[d] - 1)
    elseif padding == 'reflection' then place = reflected(place, low[d], high[d]) end
    left[d] = df.floor(place)
    part[d] = place - left[d]
  end
  local first, count = kind == 'cubic' and -1 or 0, kind == 'cubic' and 4 or kind == 'linear' and 2 or 1
  --- The sum over the neighbours along axes d … of what `chosen` says of those before.
  local function sum(d, chosen, inside, weight)
    if d > axes then
      local found = pixels(last, chosen, inside)
      return weight and found * df.cast(df.expand_dims(weight, -1), found.dtype) or found
    end
    local y
    for k = first, first + count - 1 do
      local index, within = padded(left[d] + k, size[d], padding, low[d], high[d])
      local w = kind ~= 'nearest' and grid_weight(kind, k, part[d]) or nil
      local list = { (table.unpack or unpack)(chosen) }
      list[d] = index
      local one = sum(d + 1, list, inside and within and df.logical_and(inside, within) or within, weight and w
                      and weight * w or w)
      y = y and y + one or one
    end
    return y
  end
  local y = sum(1, {}, nil, nil)
  y = df.reshape(y, df.concat({ shape:slice({ 0 }, { 1 }), outer, shape:slice({ 1 }, { 1 }) }, 0))
  local back = { 0, rank - 1 }
  for d = 1, axes do back[d + 2] = d end
  return df.transpose(y, back)
end

--- The points -1 … 1 of an axis of `count`, the corners themselves or the middles of the pixels: float64 in the graph.
local function points(count, aligned)
  local i = df.range(number(0), count, number(1))
  if aligned then return unless_one(count, -1, i * 2 / (count - 1) - 1) end
  return (i * 2 + 1) / count - 1
end

function ops.AffineGrid(n, theta, size)
  local aligned, axes, columns = n.attr('align_corners', 0) == 1, theta.shape and theta.shape[3] and theta.shape[3] - 1,
    {}
  if not axes or axes < 0 then n:refuse 'the number of axes is known only when it runs' end
  local outer = df.slice(df.cast(size, 'int32'), { 2 }, { axes })
  for k = axes, 1, -1 do                                       -- x first: the last axis
    local p = df.cast(points(real(element(outer, k)), aligned), theta.dtype)
    columns[#columns + 1] = df.reshape(df.broadcast_to(among(p, k - 1, axes), outer), { -1 })
  end
  columns[#columns + 1] = df.ones_like(columns[1])
  local grid = df.matmul(df.expand_dims(df.stack(columns, { axis = 1 }), 0), theta, { transpose_b = true })
  return df.reshape(grid, df.concat({ df.slice(df.cast(size, 'int32'), { 0 }, { 1 }), outer,
      df.constant({ axes }, 'int32', { 1 }) }, 0))
end

-- ---- CenterCropPad --------------------------------------------------------------------------------------------------
function ops.CenterCropPad(n, x, wanted)
  local rank, axes = help.rank(n, x), n.attr 'axes'
  if axes then axes = help.axes(n, axes, rank) else
    axes = {}
    for d = 1, rank do axes[d] = d - 1 end
  end
  local have = df.shape(x)
  local want = help.spread(have, df.constant(axes, 'int32', { #axes }), df.cast(wanted, 'int32'), rank)
  local zero = df.zeros_like(have)
  local less, more = df.maximum(have - want, zero), df.maximum(want - have, zero)
  local before = df.floor_div(more, df.constant(2, 'int32'))
  local cut = df.slice(x, df.floor_div(less, df.constant(2, 'int32')), have - less)
  return df.pad(cut, df.stack({ before, more - before }, { axis = 1 }))
end

-- ---- NonMaxSuppression ----------------------------------------------------------------------------------------------
--- For each picture and each class the boxes that are left: rows (picture, class, box).
function ops.NonMaxSuppression(n, boxes, scores, most, overlap, least)
  local pictures, classes = scores.shape and scores.shape[1] or -1, scores.shape and scores.shape[2] or -1
  if pictures < 0 or classes < 0 then n:refuse 'the number of pictures or of classes is known only when it runs' end
  local function one(x, dtype, otherwise)
    return x and df.reshape(df.cast(x, dtype), df.constant({}, 'int32', { 0 })) or df.constant(otherwise, dtype)
  end
  most = df.cast(df.minimum(one(most, 'int64', 0), df.constant(2147483647, 'int64')), 'int32')
  overlap, least = one(overlap, 'float32', 0), one(least, 'float32', -math.huge)
  if n.attr('center_point_box', 0) == 1 then
    local middle, half = df.slice(boxes, { 0, 0, 0 }, { -1, -1, 2 }), df.slice(boxes, { 0, 0, 2 }, { -1, -1, 2 }) / 2
    boxes = df.concat({ middle - half, middle + half }, 2)
  end
  local rows = { df.zeros({ 0, 3 }, 'int64') }
  for b = 0, pictures - 1 do
    for c = 0, classes - 1 do
      local left = df.cast(df.non_max_suppression(boxes[b], scores[b][c], most, overlap, least), 'int64')
      rows[#rows + 1] = df.stack({ df.fill(df.shape(left), df.constant(b, 'int64')),
                                   df.fill(df.shape(left), df.constant(c, 'int64')), left }, { axis = 1 })
    end
  end
  return df.concat(rows, 0)
end

-- ---- ImageDecoder ---------------------------------------------------------------------------------------------------
function ops.ImageDecoder(n, encoded)
  local format, bytes = n.attr('pixel_format', 'RGB'), {}
  for code = 0, 255 do bytes[code + 1] = string.char(code) end
  local contents = df.reduce_join(df.gather(df.constant(bytes), df.cast(encoded, 'int32')), 0)
  local y = df.decode_jpeg(contents, { channels = 3, dct_method = 'INTEGER_ACCURATE' })
  if format ~= 'Grayscale' then return format == 'BGR' and df.reverse(y, { 2 }) or y end
  local weighted = df.cast(y, 'int32') * df.constant({ 19595, 38470, 7471 }, 'int32')                -- of 65536
  return df.cast(df.right_shift(df.reduce_sum(weighted, { axis = { 2 }, keep_dims = true }) + 32768, 16), 'uint8')
end

return import_nn
