--- ONNX's operators that look at places of images and texts: columns back into images, samples at places that are
-- computed, n-grams; and rows that are equal.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local import_nn = require 'dflow.exchange.onnx.import_nn'

local ops, help = import_nn.ops, import_nn.help
local same = help.same

local function ints(x) return df.cast(x, 'int32') end
local function flat(x) return df.reshape(x, { -1 }) end

-- ---- Col2Im --------------------------------------------------------------------------------------------------------
--- Each column's elements are added to the pixels that they were taken from.
function ops.Col2Im(n, x, image, block)
  local axes = block.shape and block.shape[1] or -1
  if axes < 0 then n:refuse 'the number of its axes is known only when it runs' end
  local strides, dilations, pads = n.attr 'strides', n.attr 'dilations', n.attr 'pads'
  image, block = ints(image), ints(block)
  local places, inside = df.int32(0), df.constant(true)
  local all = 2 * axes
  for d = 1, axes do
    local size, k = image[d - 1], block[d - 1]
    local s, dilation, before = strides and strides[d] or 1, dilations and dilations[d] or 1, pads and pads[d] or 0
    local count = df.floor_div(size + (before + (pads and pads[axes + d] or 0)) - (k - 1) * dilation - 1, df.int32(s))
      + 1
    local at = df.expand_dims(df.range(k) * dilation, 1) + df.expand_dims(df.range(count) * s, 0) - before
    local ones = {}                                  -- among the axes [taps…, places…]
    for i = 1, all do ones[i] = i == d and k or i == axes + d and count or df.int32(1) end
    at = df.reshape(at, df.stack(ones))
    places = places * size + at
    inside = df.logical_and(inside, df.logical_and(df.greater_equal(at, 0), df.less(at, size)))
  end
  local s, pixels = df.shape(x), df.reduce_prod(image)
  local channels = df.floor_div(s[1], df.reduce_prod(block))
  local ids = flat(df.select_v2(inside, places, df.zeros_like(places) - 1))
  local rows = df.transpose(df.reshape(x, df.stack{ s[0] * channels, df.int32(-1) }), { 1, 0 })
  local y = df.transpose(df.unsorted_segment_sum(rows, ids, pixels), { 1, 0 })
  return df.reshape(y, df.concat({ df.stack{ s[0], channels }, image }, 0))
end

-- ---- samples -------------------------------------------------------------------------------------------------------
--- Of pixels x [n, h, w, c], what lies at (row, y, x) between them: `y` and `x` float [m…], `row` int32 of the same
-- shape. Neighbours beside the image are 0 with `zeros`, else those of the border. fn(a, b) joins the four, each by
-- its weight: their sum, or their greatest.
local function between(image, row, y, x, zeros, fn)
  local sizes, result = { df.dim(image, 1), df.dim(image, 2) }, nil
  local low = { df.floor(y), df.floor(x) }
  local part = { y - low[1], x - low[2] }
  for a = 0, 1 do for b = 0, 1 do
    local at, weight, inside = {}, nil, nil
    for i, k in ipairs{ a, b } do
      local place, last = ints(low[i]) + k, sizes[i] - 1
      local w, within = k == 0 and 1 - part[i] or part[i],
        df.logical_and(df.greater_equal(place, 0), df.less_equal(place, last))
      at[i], weight = df.clip_by_value(place, 0, last), weight and weight * w or w
      inside = inside and df.logical_and(inside, within) or within
    end
    if zeros then weight = df.select_v2(inside, weight, df.zeros_like(weight)) end
    local found = df.gather_nd(image, df.stack({ row, at[1], at[2] }, { axis = -1 })) * df.expand_dims(weight, -1)
    result = result and fn(result, found) or found
  end end
  return result
end

--- A convolution whose taps each lie where an offset says, with a weight of their own.
function ops.DeformConv(n, x, w, offset, bias, mask)
  if help.rank(n, x) ~= 4 then n:refuse 'it is known for images, [n, c, h, w]' end
  local size, groups, parts = { w.shape[3], w.shape[4] }, n.attr('group', 1), n.attr('offset_group', 1)
  local strides, dilations, pads = n.attr('strides', { 1, 1 }), n.attr('dilations', { 1, 1 }),
    n.attr('pads', { 0, 0, 0, 0 })
  local channels = x.shape[2]
  if size[1] < 0 or size[2] < 0 or channels < 0 then n:refuse 'the sizes of its kernel are known only when it runs' end
  local image, taps = df.transpose(x, { 0, 2, 3, 1 }), size[1] * size[2]
  local h, wide = df.dim(offset, 2), df.dim(offset, 3)
  local batch = df.dim(x, 0)
  local row = df.reshape(df.range(batch), { -1, 1, 1 }) + df.zeros(df.stack{ df.int32(1), h, wide }, 'int32')
  local top = df.reshape(df.cast(df.range(h) * strides[1] - pads[1], x.dtype), { 1, -1, 1 })
  local left = df.reshape(df.cast(df.range(wide) * strides[2] - pads[2], x.dtype), { 1, 1, -1 })
  local each, columns = channels / parts, {}
  for part = 0, parts - 1 do
    local own = df.slice(image, { 0, 0, 0, part * each }, { -1, -1, -1, each })
    for t = 0, taps - 1 do
      local at = (part * taps + t) * 2
      local function plane(v, i) return df.squeeze(df.slice(v, { 0, i, 0, 0 }, { -1, 1, -1, -1 }), { axis = { 1 } }) end
      local found = between(own, row, top + math.floor(t / size[2]) * dilations[1] + plane(offset, at),
                            left + t % size[2] * dilations[2] + plane(offset, at + 1), true, df.add)
      columns[t + 1] = columns[t + 1] or {}
      table.insert(columns[t + 1], mask and found * df.expand_dims(plane(mask, part * taps + t), -1) or found)
    end
  end
  for t, list in ipairs(columns) do columns[t] = #list > 1 and df.concat(list, 3) or list[1] end
  -- Taps beside each other: a convolution of 1 x taps that moves by as many.
  local wider = df.reshape(df.stack(columns, { axis = 3 }), df.stack{ batch, h, wide * taps, df.int32(channels) })
  local filter = df.reshape(df.transpose(w, { 2, 3, 1, 0 }), { 1, taps, channels / groups, w.shape[1] })
  local y = df.conv2d(wider, filter, { strides = { 1, 1, taps, 1 }, padding = 'VALID' })
  return df.transpose(bias and df.bias_add(y, bias) or y, { 0, 3, 1, 2 })
end

--- Each region as a grid of bins, of samples between the pixels: their mean, or the greatest neighbour.
function ops.RoiAlign(n, x, regions, of)
  local height, width, samples = n.attr('output_height', 1), n.attr('output_width', 1), n.attr('sampling_ratio', 0)
  local aligned = n.attr('coordinate_transformation_mode', n.opset < 16 and 'output_half_pixel'
                         or 'half_pixel') == 'half_pixel'
  local mode, scale = n.attr('mode', 'avg'), n.attr('spatial_scale', 1)
  if samples < 1 then
    n:refuse 'its sampling_ratio is 0: as many samples as each region is large are not taken; a number is expected'
  end
  if mode ~= 'avg' and mode ~= 'max' then n:refuse(('its mode is %s; avg and max are known'):format(mode)) end
  local function side(i)
    return df.reshape(df.slice(regions, { 0, i }, { -1, 1 }), { -1, 1 }) * scale - (aligned and 0.5 or 0)
  end
  --- Where along an axis the samples of all bins lie: [regions, bins * samples].
  local function along(first, last, bins)
    local extent = last - first
    if not aligned then extent = df.maximum(extent, same(extent, 1)) end
    local i = df.expand_dims(df.cast(df.range(bins * samples), x.dtype), 0)
    return first + (i + 0.5) * extent / (bins * samples)
  end
  local ys, xs = along(side(1), side(3), height), along(side(0), side(2), width)
  local zero = df.expand_dims(ys, 2) * 0 + df.expand_dims(xs, 1) * 0
  local y, at = df.expand_dims(ys, 2) + zero, df.expand_dims(xs, 1) + zero
  local row = df.reshape(ints(of), { -1, 1, 1 }) + ints(zero)
  local image = df.transpose(x, { 0, 2, 3, 1 })
  local function beyond(v, axis)
    local most = df.cast(df.dim(image, axis), x.dtype)
    return df.logical_or(df.less(v, same(v, -1)), df.greater(v, most)), df.clip_by_value(v, same(v, 0), most - 1)
  end
  local out_y, in_y = beyond(y, 1)
  local out_x, in_x = beyond(at, 2)
  local found = between(image, row, in_y, in_x, false, mode == 'avg' and df.add or df.maximum)
  found = df.select_v2(df.expand_dims(df.logical_or(out_y, out_x), -1), df.zeros_like(found), found)
  local bins = df.reshape(found, df.stack{ df.dim(regions, 0), df.int32(height), df.int32(samples), df.int32(width),
      df.int32(samples), df.dim(x, 1) })
  return df.transpose(df[mode == 'avg' and 'reduce_mean' or 'reduce_max'](bins, { axis = { 2, 4 } }), { 0, 3, 1, 2 })
end

-- ---- n-grams -------------------------------------------------------------------------------------------------------
--- How often each n-gram of a pool stands in a row of x, with up to so many skipped between its parts.
function ops.TfIdfVectorizer(n, x)
  local rank, starts, indices = help.rank(n, x), n.attr 'ngram_counts', n.attr 'ngram_indexes'
  local pool, dtype = n.attr 'pool_int64s' or n.attr 'pool_strings', n.attr 'pool_int64s' and 'int64' or 'string'
  local mode, skips, weights = n.attr 'mode', n.attr('max_skip_count', 0), n.attr 'weights'
  if mode ~= 'TF' and mode ~= 'IDF' and mode ~= 'TFIDF' then
    n:refuse(('its mode is %s; TF, IDF and TFIDF are known'):format(tostring(mode)))
  end
  x = df.cast(rank == 1 and df.expand_dims(x, 0) or x, dtype)
  local counts, gram = {}, 0
  for length = 1, #starts do
    local first, last = starts[length] + 1, starts[length + 1] or #pool
    local grams = math.floor((last - first + 1) / length)
    if grams > 0 and length >= n.attr 'min_gram_length' and length <= n.attr 'max_gram_length' then
      local list = {}
      for i = first, first + grams * length - 1 do list[#list + 1] = pool[i] end
      local wanted = df.constant(list, dtype, { 1, 1, grams, length })
      local sum
      for skip = 0, length == 1 and 0 or skips do
        local places, columns = df.maximum(df.dim(x, 1) - (length - 1) * (skip + 1), 0), {}
        for j = 0, length - 1 do
          local from = df.minimum(df.int32(j * (skip + 1)), df.dim(x, 1))
          columns[j + 1] = df.slice(x, df.stack{ df.int32(0), from }, df.stack{ df.int32(-1), places })
        end
        local seen = df.expand_dims(df.stack(columns, { axis = 2 }), 2)
        local found = df.reduce_sum(df.cast(df.reduce_all(df.equal(seen, wanted), { axis = { 3 } }), 'float32'),
                                    { axis = { 1 } })
        sum = sum and sum + found or found
      end
      counts[#counts + 1] = sum
      for i = 1, grams do indices[gram + i] = indices[gram + i] or gram + i - 1 end
    elseif grams > 0 then counts[#counts + 1] = df.zeros(df.stack{ df.dim(x, 0), df.int32(grams) }, 'float32') end
    gram = gram + grams
  end
  local width, columns = 0, {}
  for i = 1, gram do width = math.max(width, indices[i] + 1) end
  for i = 1, gram do columns[indices[i] + 1] = i end
  for c = 1, width do columns[c] = columns[c] and columns[c] - 1 or gram end          -- behind all: nothing
  counts[#counts + 1] = df.zeros(df.stack{ df.dim(x, 0), df.int32(1) }, 'float32')
  local y = df.gather(df.concat(counts, 1), df.int32(columns), { axis = 1 })
  if mode ~= 'TF' and weights then
    local by = {}
    for i = 1, gram do by[indices[i] + 1] = weights[i] end
    for c = 1, width do by[c] = by[c] or 0 end
    y = (mode == 'IDF' and df.cast(df.greater(y, 0), 'float32') or y) * df.float32(by)
  elseif mode == 'IDF' then y = df.cast(df.greater(y, 0), 'float32') end
  return rank == 1 and df.squeeze(y, { axis = { 0 } }) or y
end

-- ---- Unique --------------------------------------------------------------------------------------------------------
local unique = ops.Unique
--- Rows along the axis, each compared with each.
function ops.Unique(n, x)
  if not n.attr 'axis' then return unique(n, x) end
  local rank, perm = help.rank(n, x), {}
  local axis = help.axis(n, n.attr 'axis', rank)
  perm[1] = axis
  for d = 0, rank - 1 do if d ~= axis then perm[#perm + 1] = d end end
  local turned = df.transpose(x, perm)
  local count = df.dim(turned, 0)
  local rows = df.reshape(turned, df.stack{ count, df.int32(-1) })
  local differs = df.not_equal(df.expand_dims(rows, 1), df.expand_dims(rows, 0))
  -- the first row that is equal
  local first = ints(df.argmax(ints(df.logical_not(df.reduce_any(differs, { axis = { 2 } }))), 1))
  -- Row i is before row j where it has less at the first column that differs.
  local at = df.expand_dims(ints(df.argmax(ints(differs), 2)), -1)
  local function value(v) return df.squeeze(df.gather(v, at, { axis = 2, batch_dims = 2 }), { axis = { 2 } }) end
  local all = df.zeros(df.stack{ count, count, df.int32(1) }, x.dtype)
  local before = df.less(value(df.expand_dims(rows, 1) + all), value(df.expand_dims(rows, 0) + all))
  local is_first = df.equal(first, df.range(count))
  local kept = flat(df.where(is_first))
  if n.attr('sorted', 1) == 1 then
    local rank_of = df.reduce_sum(ints(df.logical_and(df.transpose(before), df.expand_dims(is_first, 0))),
                                  { axis = { 1 } })
    kept = df.gather(kept, df.argsort(df.gather(rank_of, kept)))
  end
  local number = df.tensor_scatter_update(df.zeros(df.reshape(count, { 1 }), 'int64'), df.expand_dims(ints(kept), 1),
                                          df.range(df.cast(df.size(kept), 'int64')))
  local inverse, back = df.gather(number, first), {}
  for i, d in ipairs(perm) do back[d + 1] = i - 1 end
  local counts = df.unsorted_segment_sum(df.ones_like(inverse), inverse, df.size(kept))
  return { df.transpose(df.gather(turned, kept), back), df.cast(kept, 'int64'), inverse, counts }
end

-- ---- products where values are scattered ---------------------------------------------------------------------------
for _, name in ipairs{ 'ScatterND', 'ScatterElements' } do
  local plain = ops[name]
  ops[name] = function(n, x, at, updates)
    if n.attr('reduction', 'none') ~= 'mul' then return plain(n, x, at, updates) end
    --- As a scatter that adds, of ones and of the number of each update, finds the places: then what is there is
    -- multiplied.
    local places = setmetatable({ attr = function(key, default)
      if key == 'reduction' then return 'none' end
      return n.attr(key, default)
    end }, { __index = n })
    local count = df.size(x)
    local ids = df.reshape(df.range(count), df.shape(x))
    local gathered = name == 'ScatterND' and ops.GatherND(places, ids, at) or ops.GatherElements(places, ids, at)
    local by = registry.op('UnsortedSegmentProd', { flat(updates), flat(gathered), count }, {})
    return x * df.reshape(by, df.shape(x))
  end
end

return import_nn
