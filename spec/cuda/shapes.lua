--- shapes.lua: kernels of gpu:0 beside the reference, over dtypes and shapes: empty, of one element, odd, larger than a block. Prints what
-- differs and how many agree. A process of its own, as the driver is chosen when one opens it.
local df = require 'dflow'
local beside = require 'spec.cuda.beside'
local op = require('dflow.front.registry').op
local unpack = table.unpack or unpack
local check, tensor, ints, floats, numbers, nears = beside.check, beside.tensor, beside.ints, beside.floats, beside.numbers, beside.nears

for _, dtype in ipairs(numbers) do
  for _, shape in ipairs{ { 0, 3 }, { 1, 1 }, { 3, 4, 5 }, { 7, 2, 3 }, { 2, 300 } } do
    local x = tensor(shape, dtype)
    check('diag part', dtype, { x }, df.matrix_diag_part)
    check('band', dtype, { x }, function(a)
      return df.matrix_band_part(a, math.min(1, shape[#shape - 1]), 0), df.matrix_band_part(a, -1, 1)
    end)
    check('top_k', dtype, { x }, function(a) return df.top_k(a, math.min(2, shape[#shape])) end)
    check('sort', dtype, { x }, function(a) return df.top_k(a, shape[#shape]) end)
    local n = shape[1]
    local ids = {}
    for i = 1, n do ids[i] = i * 7 % 5 - 1 end
    for _, f in ipairs{ 'sum', 'prod', 'max', 'min' } do
      if n > 0 then check('unsorted ' .. f, dtype, { x }, function(a) return df['unsorted_segment_' .. f](a, ints(ids), 6) end) end
    end
    for i = 1, n do ids[i] = math.floor(i * 2 / 3) * 2 end
    for _, f in ipairs{ 'sum', 'prod', 'max', 'min', 'mean' } do
      if n > 0 then check('segment ' .. f, dtype, { x }, function(a) return df['segment_' .. f](a, ints(ids)) end) end
    end
    if n > 1 then
      check('mirror', dtype, { x }, function(a)
        local pads = {}
        for i, d in ipairs(shape) do pads[i] = { math.min(d - 1, 2), math.min(d - 1, 1) } end
        return op('MirrorPad', { a, df.int32(pads) }, { mode = 'REFLECT' }), op('MirrorPad', { a, df.int32(pads) }, { mode = 'SYMMETRIC' })
      end)
      local lengths = {}
      for i = 1, n do lengths[i] = i % (shape[2] + 1) end
      check('reverse sequence', dtype, { x }, function(a) return op('ReverseSequence', { a, ints(lengths) }, { seq_dim = 1, batch_dim = 0 }) end)
    end
    check('set diag', dtype, { x }, function(a) return df.matrix_set_diag(a, df.matrix_diag_part(a) * 2) end)
    if nears[dtype] or dtype == 'float32' then check('sum to', dtype, { x }, function(a) return op('SumToShape', { a, df.int32{ shape[#shape] } }) end) end
  end
  for _, n in ipairs{ 0, 1, 5 } do
    check('diag', dtype, { tensor({ n }, dtype) }, function(a) return df.diag(a), df.matrix_diag(a), df.diag_part(df.diag(a)) end)
    check('one_hot', dtype, { tensor({ n }, 'int32') }, function(a)
      return df.one_hot(a, 4, { on_value = df.cast(2, dtype), off_value = df.cast(1, dtype) })
    end)
  end
  local sorted = {}
  for i = 1, 37 do sorted[i] = math.floor(i / 3) end
  check('bounds', dtype, { df.tensor({ sorted, sorted }, dtype), tensor({ 2, 5 }, dtype, 0, 12) }, function(a, b)
    return df.lower_bound(a, b), df.upper_bound(a, b)
  end)
  check('cross', dtype, { tensor({ 4, 3 }, dtype), tensor({ 4, 3 }, dtype) }, df.cross)
  check('blocks', dtype, { tensor({ 2, 4, 6, 3 }, dtype) }, function(a)
    local b = df.space_to_batch_nd(a, { 2, 3 }, { { 1, 1 }, { 2, 1 } })
    return b, df.batch_to_space_nd(b, { 2, 3 }, { { 1, 1 }, { 2, 1 } }), df.space_to_depth(a, { block_size = 2 }),
      df.depth_to_space(df.space_to_depth(a, { block_size = 2 }), { block_size = 2 })
  end)
end
-- folds of as many as one block does, and of more, which go by pieces: rows, columns, what lies between
for _, dtype in ipairs(numbers) do
  for _, how in ipairs{ { { 8192 }, 0 }, { { 8193 }, 0 }, { { 3, 65 }, 1 }, { { 70, 5 }, 0 }, { { 2, 20000 }, 1 },
    { { 9000, 3 }, 0 }, { { 2, 8200, 5 }, 1 }, { { 8300, 33 }, 0 } } do
    local shape, axis = how[1], how[2]
    check('fold of many', dtype, { tensor(shape, dtype) }, function(a)
      local folds = { df.reduce_sum(a, axis), df.reduce_mean(a, axis), df.reduce_prod(a, axis), df.reduce_max(a, axis), df.reduce_min(a, axis),
        df.reduce_all(df.not_equal(a, 0), axis), df.reduce_any(df.equal(a, 4), axis), df.reduce_sum(a, { axis = axis, keep_dims = true }) }
      if nears[dtype] or dtype == 'float32' then
        for _, y in ipairs{ df.reduce_logsumexp(a, axis), op('EuclideanNorm', { a * 0.1, ints{ axis } }), op('L2Loss', { a * 0.1 }) } do folds[#folds + 1] = y end
      end
      return unpack(folds)
    end)
    check('place among many', dtype, { tensor(shape, dtype) }, function(a)
      return df.argmax(a, axis), df.argmin(a, axis), df.argmax(df.equal(a, 4), axis, { output_type = 'int32' })
    end)
  end
end
for _, dtype in ipairs(floats) do                       -- pieces of nothing but infinities, with one that is none, with a NaN
  local row, inf = {}, 1 / 0
  for i = 1, 20000 do row[i] = -inf end
  for _, put in ipairs{ { 1, -inf }, { 15000, -900 }, { 3, 700 }, { 12000, 2.5 }, { 9000, inf }, { 19999, 0 / 0 }, { 7000, 0 / 0 } } do
    row[put[1]] = put[2]
    check('fold of infinities', dtype, { df.tensor(row, dtype) }, function(a) return df.reduce_logsumexp(a, 0), df.reduce_max(a, 0), df.reduce_min(a, 0), df.reduce_sum(a, 0) end)
    check('place of infinities', dtype, { df.tensor(row, dtype) }, function(a) return df.argmax(a, 0), df.argmin(a, 0), df.argmax(-a, 0) end)
  end
end
for _, dtype in ipairs(numbers) do
  for _, s in ipairs{ { 1, 1, 1, 1, 3, 2 }, { 2, 5, 7, 3, 10, 4 }, { 3, 8, 6, 2, 3, 13 } } do
    for _, how in ipairs{ {}, { align_corners = true }, { half_pixel_centers = true } } do
      local x, size = tensor({ s[1], s[2], s[3], s[4] }, dtype), { s[5], s[6] }
      check('resizing', dtype, { x }, function(a)
        local z = { op('ResizeNearestNeighbor', { a, df.int32(size) }, how), op('ResizeBilinear', { a, df.int32(size) }, how),
                    op('ResizeBicubic', { a, df.int32(size) }, how), op('ResizeArea', { a, df.int32(size) }, { align_corners = how.align_corners }) }
        z[5] = op('ResizeNearestNeighborGrad', { z[1], df.int32{ s[2], s[3] } }, how)
        if nears[dtype] or dtype == 'float32' then
          z[6], z[7] = op('ResizeBilinearGrad', { z[2], a }, how), op('ResizeBicubicGrad', { z[3], a }, how)
        end
        return unpack(z)
      end)
    end
  end
end
for _, dtype in ipairs(floats) do
  for _, s in ipairs{ { 1, 5, 5, 1, 2, 1, 1 }, { 2, 7, 6, 3, 5, 2, 1 }, { 3, 9, 4, 17, 18, 1, 2 }, { 0, 4, 4, 2, 2, 1, 1 } } do
    for _, padding in ipairs{ 'SAME', 'VALID' } do
      local x, w = tensor({ s[1], s[2], s[3], s[4] }, dtype, -1, 1), tensor({ 3, 2, s[4], s[5] }, dtype, -1, 1)
      local how = { strides = { 1, s[6], s[6], 1 }, padding = padding, dilations = { 1, s[7], s[7], 1 } }
      check('convolution', dtype, { x, w }, function(a, b)
        local y = df.conv2d(a, b, how)
        return y, op('Conv2DBackpropInput', { df.shape(a), b, y }, how), op('Conv2DBackpropFilter', { a, df.shape(b), y }, how)
      end)
      check('pooling', dtype, { x }, function(a)
        local pool = { ksize = { 1, 3, 2, 1 }, strides = { 1, 2, s[6], 1 }, padding = padding }
        local most, mean = df.max_pool(a, pool), df.avg_pool(a, pool)
        return most, mean, op('MaxPoolGrad', { a, most, mean }, pool), op('AvgPoolGrad', { df.shape(a), mean }, pool),
          op('MaxPoolGradGrad', { a, most, a * 2 }, pool)
      end)
    end
  end
end
for _, dtype in ipairs{ 'float32', 'float64' } do
  for _, format in ipairs{ 'NHWC', 'NCHW' } do
    local c = format == 'NHWC' and 5 or 4
    for _, training in ipairs{ true, false } do
      local x, v = tensor({ 3, 4, 6, 5 }, dtype), {}
      for i = 1, 4 do v[i] = tensor({ c }, dtype, 0.5, 2) end
      check('batch norm', dtype, { x, unpack(v) }, function(a, ...)
        return op('FusedBatchNormV3', { a, ... }, { data_format = format, is_training = training, exponential_avg_factor = 0.9 })
      end)
    end
  end
  check('ranges', dtype, {}, function()
    return df.range(df.cast(0.5, dtype), df.cast(7, dtype), df.cast(0.7, dtype)), df.linspace(df.cast(1, dtype), df.cast(-2, dtype), 9)
  end)
  check('histogram', dtype, { tensor({ 777 }, dtype) }, function(a)
    return op('HistogramFixedWidth', { a, df.cast(df.float32{ -2, 3 }, dtype), df.int32(7) })
  end)
  for _, n in ipairs{ 0, 1, 2, 5, 1001 } do
    for _, kind in ipairs{ 'StatelessRandomUniform', 'StatelessRandomNormal', 'StatelessTruncatedNormal' } do
      check(kind, dtype, {}, function() return op(kind, { df.int32{ n }, df.int64{ 3, -7 } }, { dtype = dtype }) end)
    end
  end
end
-- Recurrent cells and the kernels of their gradients: a row, a unit, odd sizes, steps that are not taken, none taken; batch, inputs, units, time, taken.
local function all_of(first, ...)
  local out = { unpack(first) }
  for _, list in ipairs{ ... } do for _, v in ipairs(list) do out[#out + 1] = v end end
  return out
end
for _, dtype in ipairs{ 'float32', 'float16', 'bfloat16' } do
  for _, size in ipairs{ { 1, 1, 1, 1, 1 }, { 3, 5, 7, 4, 3 }, { 2, 19, 3, 5, 0 }, { 4, 2, 33, 3, 2 } } do
    local b, m, n, time = unpack(size)
    local function t(...) return tensor({ ... }, dtype, -0.7, 0.7) end
    local state = { t(b, n), t(b, n), t(m + n, 4 * n), t(n), t(n), t(n), t(4 * n) }
    for _, peephole in ipairs{ false, true } do
      local how, back = { use_peephole = peephole, cell_clip = 0.3 }, { use_peephole = peephole }
      check('lstm cell', dtype, all_of({ t(b, m) }, state, { t(b, n), t(b, n) }), function(...)
        local given = { ... }
        local out = { op('LSTMBlockCell', { unpack(given, 1, 8) }, how) }
        local grads = { op('LSTMBlockCellGrad', all_of({ unpack(given, 1, 8) }, { unpack(out, 1, 6) }, { given[9], given[10] }), back) }
        return unpack(all_of(out, grads))
      end)
      for _, version in ipairs{ '', 'V2' } do
        check('lstm of a sequence' .. version, dtype, all_of({ t(time, b, m) }, state, { t(time, b, n), t(time, b, n) }), function(...)
          local given = all_of({ df.int64(size[5]) }, { ... })
          local out = { op('BlockLSTM' .. version, { unpack(given, 1, 9) }, how) }
          local grads = { op('BlockLSTMGrad' .. version, all_of({ unpack(given, 1, 9) }, out, { given[10], given[11] }), back) }
          return unpack(all_of(out, grads))
        end)
      end
    end
    check('gru cell', dtype, { t(b, m), t(b, n), t(m + n, 2 * n), t(m + n, n), t(2 * n), t(n), t(b, n) }, function(...)
      local given = { ... }
      local out = { op('GRUBlockCell', { unpack(given, 1, 6) }, {}) }
      return unpack(all_of(out, { op('GRUBlockCellGrad', all_of({ unpack(given, 1, 6) }, { unpack(out, 1, 3) }, { given[7] }), {}) }))
    end)
  end
end

-- Parts by number and back: rows that are not named, that come twice, of one element; parts of nothing.
for _, dtype in ipairs{ 'float32', 'float64', 'bfloat16', 'int64', 'uint8', 'bool' } do
  local x, row, number = tensor({ 6, 5 }, dtype == 'bool' and 'int32' or dtype), tensor({ 5 }, dtype == 'bool' and 'int32' or dtype), nil
  local function typed(a) return dtype == 'bool' and df.greater(a, 1) or a end
  check('partition', dtype, { x }, function(a)
    local one = df.dynamic_partition(typed(a), ints{ 2, 0, 2, 2, 0, 4 }, 5)
    local two = df.dynamic_partition(typed(a), ints{ { 0, 1, 1, 0, 1 }, { 0, 0, 0, 0, 0 }, { 1, 1, 1, 1, 1 }, { 0, 1, 0, 1, 0 }, { 1, 1, 0, 0, 0 }, { 1, 0, 0, 0, 1 } }, 2)
    return one[1], one[2], one[3], one[4], one[5], two[1], two[2]
  end)
  check('stitch', dtype, { x, row }, function(a, b)
    number = df.reduce_max(df.cast(b, 'float32'))
    local parts = { df.dynamic_stitch({ ints{ 7, 1, 1, 3, 0, 9 }, ints(3) }, { typed(a), typed(b) }),
                    op('ParallelDynamicStitch', { { ints{ 4, 2, 0 }, ints{ 1 } }, { df.gather(typed(a), ints{ 0, 1, 2 }), df.gather(typed(a), ints{ 4 }) } }, {}),
                    df.dynamic_stitch({ ints(2), ints(0) }, { number, number * 2 }) }
    if dtype ~= 'bool' then
      parts[4], parts[5] = op('DynamicStitchGrad', { { ints{ 3, 1, 1, 5 }, ints(3) }, a }, {})
    end
    return unpack(parts)
  end)
  check('sparse to dense', dtype, { row }, function(b)
    local v, none = typed(b), df.cast(df.int32(1), dtype)
    return op('SparseToDense', { ints{ { 0, 1 }, { 0, 3 }, { 1, 0 }, { 2, 2 }, { 2, 3 } }, ints{ 3, 4 }, v, none }, {}),
      op('SparseToDense', { ints{ 1, 6, 1, 0, 6 }, ints{ 8 }, v, none }, { validate_indices = false }),
      op('SparseToDense', { ints{ 1, 2 }, ints{ 3 }, none, df.cast(df.int32(0), dtype) }, {}),
      op('SparseToDense', { df.zeros({ 0, 2 }, 'int32'), ints{ 2, 2 }, df.slice(v, { 0 }, { 0 }), none }, {})
  end)
end
-- What rounds as if it were quantised, bands of diagonals, colours, parts of pictures, what is chosen by its values, TensorFlow's streams.
for _, size in ipairs{ { 0, 3 }, { 1, 1 }, { 7, 300 }, { 4, 5, 6 } } do
  local x, dy, n = tensor(size, 'float32', -3, 5), tensor(size, 'float32', -1, 1), size[#size]
  for _, narrow in ipairs{ false, true } do
    for _, ends in ipairs{ { -2, 3 }, { 0, 0 }, { 1, 4 }, { -0.3, 0.1 } } do
      check('fake quantisation', 'float32', { x, dy, tensor({}, 'float32', ends[1], ends[1]), tensor({}, 'float32', ends[2], ends[2]) }, function(a, d, low, high)
        local how = { num_bits = narrow and 4 or 8, narrow_range = narrow }
        local args = { min = ends[1], max = ends[1] < ends[2] and ends[2] or 1, num_bits = how.num_bits, narrow_range = narrow }
        local lows, highs = df.fill({ n }, low), df.fill({ n }, high)
        return op('FakeQuantWithMinMaxVars', { a, low, high }, how), op('FakeQuantWithMinMaxArgs', { a }, args),
          op('FakeQuantWithMinMaxArgsGradient', { d, a }, args), op('FakeQuantWithMinMaxVarsPerChannel', { a, lows, highs }, how),
          unpack(all_of({ op('FakeQuantWithMinMaxVarsGradient', { d, a, low, high }, how) },
                        { op('FakeQuantWithMinMaxVarsPerChannelGradient', { d, a, lows, highs }, how) }))
      end)
    end
  end
end
for _, dtype in ipairs{ 'float32', 'float64', 'bfloat16', 'int32', 'int64', 'uint8', 'bool' } do
  for _, shape in ipairs{ { 1, 1 }, { 4, 6 }, { 7, 3 }, { 2, 3, 5, 5 } } do
    local x, rows, cols = tensor(shape, dtype == 'bool' and 'int32' or dtype), shape[#shape - 1], shape[#shape]
    for _, k in ipairs{ { 0, 0 }, { -1, 2 }, { 1, 2 }, { -2, -1 } } do
      if k[1] > -rows and k[2] < cols then
        for _, align in ipairs{ 'LEFT_LEFT', 'RIGHT_LEFT', 'LEFT_RIGHT', 'RIGHT_RIGHT' } do
          check('band ' .. align, dtype, { x }, function(a)
            if dtype == 'bool' then a = df.greater(a, 1) end
            local pad = dtype == 'bool' and df.constant(true) or df.cast(7, dtype)
            local band = op('MatrixDiagPartV3', { a, ints(k), pad }, { align = align })
            return band, op('MatrixDiagV3', { band, ints(k), df.int32(rows), df.int32(cols), pad }, { align = align }),
              op('MatrixSetDiagV3', { a, band, ints(k) }, { align = align }),
              op('MatrixSetDiagV2', { a, op('MatrixDiagPartV2', { a, ints(k), pad }), ints(k) }),
              op('MatrixDiagV2', { band, ints(k), df.int32(rows), df.int32(cols), pad })
          end)
        end
      end
    end
  end
end
for _, dtype in ipairs(floats) do
  for _, shape in ipairs{ { 0, 3 }, { 3 }, { 5, 3 }, { 2, 9, 11, 3 } } do
    check('colours', dtype, { tensor(shape, dtype, 0, 1) }, function(a)
      local hsv = op('RGBToHSV', { a })
      if dtype == 'bfloat16' or dtype == 'float64' then return hsv, op('HSVToRGB', { hsv }) end
      return hsv, op('HSVToRGB', { hsv }), op('AdjustHue', { a, df.float32(0.3) }), op('AdjustHue', { a, df.float32(-0.7) }),
        op('AdjustSaturation', { a, df.float32(1.5) }), unpack(#shape > 2 and { (op('AdjustContrastv2', { a, df.float32(1.7) })) } or {})
    end)
  end
  for _, radius in ipairs{ 0, 1, 5 } do
    check('lrn', dtype, { tensor({ 2, 3, 4, 7 }, dtype) }, function(a)
      return op('LRN', { a }, { depth_radius = radius, bias = 1.5, alpha = 0.3, beta = 0.6 })
    end)
  end
end
for _, dtype in ipairs(numbers) do
  local gives = dtype ~= 'bfloat16' and nears[dtype] or dtype == 'float32'
  for _, method in ipairs{ 'bilinear', 'nearest' } do
    local boxes = df.tensor({ { 0, 0, 1, 1 }, { -0.2, 0.3, 0.6, 1.4 }, { 0.8, 0.1, 0.2, 0.9 }, { 0.5, 0.5, 0.5, 0.5 } }, 'float32')
    for _, size in ipairs{ { 1, 1 }, { 3, 5 }, { 9, 2 } } do
      check('crops of ' .. dtype, 'float32', { tensor({ 2, 6, 7, 3 }, dtype), boxes }, function(a, b)
        local of = ints{ 1, 0, 1, 0 }
        local crops = op('CropAndResize', { a, b, of, ints(size) }, { method = method, extrapolation_value = 2.5 })
        return crops, op('CropAndResizeGradBoxes', { crops, a, b, of }, { method = 'bilinear' }),
          unpack(gives and { (op('CropAndResizeGradImage', { crops, b, of, ints{ 2, 6, 7, 3 } }, { method = method, T = dtype })) } or {})
      end)
    end
  end
  for _, n in ipairs{ 0, 1, 2, 3, 777, 3000 } do
    local x, y = tensor({ n }, dtype, 0, 40), tensor({ 60 }, dtype, 20, 90)
    local whole = function(a) return df.cast(df.floor(df.cast(a, 'float32')), dtype) end
    check('unique', dtype, { x }, function(a)
      local z, idx, count = op('UniqueWithCounts', { whole(a) }, { out_idx = 'int64' })
      return z, idx, count, op('Unique', { whole(a) })
    end)
    check('list difference', dtype, { x, y }, function(a, b)
      local z, idx = op('ListDiff', { whole(a), whole(b) })
      return z, idx, op('ListDiff', { whole(a), df.slice(b, { 0 }, { 0 }) }), op('ListDiff', { whole(a), df.slice(b, { 0 }, { 1 }) })
    end)
    check('where', dtype, { x }, function(a)
      local some = whole(a) * df.cast(df.greater(whole(a), df.cast(15, dtype)), dtype)
      return df.where(some), df.where(df.reshape(some, { n, 1, 1 })), df.where(df.equal(some, some)), df.where(df.not_equal(some, some))
    end)
  end
end
local every = all_of(numbers, { 'bool', 'int16', 'uint16', 'uint32', 'uint64' })
for _, from in ipairs(every) do
  check('casts from ' .. from, 'float32', { df.run(df.cast(df.float64{ -3e9, -70000, -300, -1, -0.5, 0, 1.75, 77, 255, 40000, 70000, 3e9 }, from)) }, function(a)
    local out = {}
    for i, to in ipairs(every) do out[i] = df.cast(df.cast(a, to), 'float64') end
    return unpack(out)
  end)
end
check('casts of uint64', 'float64', { ints({ -1, -2 ^ 62, 2 ^ 53 + 2, 0 }, 'int64') }, function(a)
  local u = df.cast(a, 'uint64')
  return df.cast(u, 'float64'), df.cast(u, 'float32'), df.cast(u, 'float16'), df.cast(u, 'bfloat16'), df.cast(u, 'int32'), df.cast(u, 'bool')
end)
check('distinct NaN', 'float32', { ints({ 0 / 0, 1, -0.0, 0 / 0, 0, 1 / 0, 1, -1 / 0, 1 / 0 }, 'float32') }, function(a)
  local z, idx, count = op('UniqueWithCounts', { a })
  return z, idx, count, op('ListDiff', { a, df.float32{ 0 / 0, 1 / 0, 0 } })
end)
for _, dtype in ipairs(floats) do
  for _, n in ipairs{ 0, 1, 2, 5, 1001 } do
    for _, kind in ipairs{ 'StatelessRandomUniform', 'StatelessRandomNormal', 'StatelessTruncatedNormal' } do
      for _, counter in ipairs{ { 5, 9 }, { -2, 7 }, { -1, -1 } } do
        check(kind, dtype, {}, function()
          local key, start = df.cast(df.int64{ 77 }, 'uint64'), df.cast(df.int64(counter), 'uint64')
          return op(kind .. 'V2', { df.int32{ n }, key, start, df.int32(1) }, { dtype = dtype }), op(kind, { df.int32{ n }, df.int64{ 3, -7 } }, { dtype = dtype })
        end)
      end
    end
  end
end
for _, dtype in ipairs{ 'int32', 'int64', 'uint32', 'uint64' } do
  check('stateless integers', dtype, {}, function()
    local key, start = df.cast(df.int64{ 77 }, 'uint64'), df.cast(df.int64{ -2, 3 }, 'uint64')
    local low, high = df.cast(df.int32(dtype:sub(1, 1) == 'u' and 3 or -30), dtype), df.cast(df.int32(1000), dtype)
    return op('StatelessRandomUniformFullInt', { df.int32{ 101 }, df.int64{ 3, 4 } }, { dtype = dtype }),
      op('StatelessRandomUniformFullIntV2', { df.int32{ 101 }, key, start, df.int32(1) }, { dtype = dtype }),
      op('StatelessRandomUniformInt', { df.int32{ 101 }, df.int64{ 3, 4 }, low, high }),
      op('StatelessRandomUniformIntV2', { df.int32{ 101 }, key, start, df.int32(3), low, high })
  end)
end
for _, dtype in ipairs(floats) do
  for _, s in ipairs{ { 1, 1, 1, 1, 1 }, { 2, 5, 7, 4, 6 }, { 1, 17, 33, 20, 130 }, { 2, 16, 32, 140, 3 }, { 1, 3, 0, 2, 2 } } do
    local function t(...) return tensor({ ... }, dtype, -1, 1) end
    local b, tq, tk, d, e = s[1], s[2], s[3], s[4], s[5]
    for _, kind in ipairs{ 'none', 'causal', 'mask', 'bias' } do
      check('attention ' .. kind, dtype, { t(b, tq, d), t(b, tk, d), t(b, tk, e), t(b, tq, e), t(1, tq, tk) }, function(q, k, v, dy, bias)
        local extra = kind == 'mask' and { df.greater(bias, 0.2) } or kind == 'bias' and { bias } or {}
        local y, sums = op('ScaledDotProductAttention', { q, k, v, extra }, { causal = kind ~= 'none' })
        local delta = df.reduce_sum(df.cast(y * dy, sums.dtype), { axis = -1 })
        local back = { op('ScaledDotProductAttentionGrad', { dy, q, k, v, sums, delta, extra }, { causal = kind ~= 'none' }) }
        return y, sums, back[1], back[2], back[3]
      end)
    end
  end
end
beside.told()
