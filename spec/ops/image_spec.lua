-- Pictures and signals: the values and gradients that TensorFlow gives (image_values.lua.gz), what is refused, and what is drawn.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local support = require 'spec.support'
local message_of, near = support.message_of, support.near
local cases = support.recorded 'spec/ops/image_values'
local sandbox = setfenv

local function wave(n, step, from, low, half)
  local list = {}
  for i = 1, n do list[i] = low + half * math.sin((i - 1) * step + from) end
  return list
end
local bytes = {}
for i = 0, 89 do bytes[i + 1] = i * 37 % 256 end
local given = {
  x = df.tensor(wave(90, 1.3, 0.2, 0.5, 0.5), 'float32', { 2, 3, 5, 3 }), z = df.tensor(wave(624, 0.37, 0.1, 0.5, 0.5), 'float32', { 2, 12, 13, 2 }),
  u = df.tensor(bytes, 'uint8', { 2, 3, 5, 3 }), s = df.tensor(wave(50, 0.7, 0.3, 0, 1), 'float32', { 2, 25 }),
  B = df.tensor({ { 0, 0, 1, 1 }, { 0.1, 0.3, 0.8, 0.6 }, { -0.2, 0.5, 0.7, 1.2 }, { 0.9, 0.1, 0.2, 0.9 } }, 'float32'),
}

--- The inputs as placeholders by name, what to feed them, and a function that computes an expression of them.
local function world()
  df.reset()
  local names, feeds = { df = df }, {}
  for name, v in pairs(given) do
    names[name] = df.placeholder(v.dtype, v.shape)
    feeds[names[name]] = v
  end
  setmetatable(names, { __index = function(_, name)
    local ok, fn = pcall(function() return df.image[name] end)
    return ok and fn or df.signal[name]
  end })
  return names, feeds, function(expression)
    if not sandbox then return load('return ' .. expression, '=case', 't', names)() end
    return sandbox(loadstring('return ' .. expression, '=case'), names)()
  end
end

local function weighed(y)
  y = df.reshape(y, { -1 })
  return y * df.sin(df.cast(df.range(df.size(y)), 'float32'))
end

local function flat(v, feeds)
  v = df.run(df.reshape(v, { -1 }), feeds)
  return v
end

local function close(want, found, tolerance, what)
  found = found:totable()
  assert.equal(#want, #found, what)
  for i, w in ipairs(want) do
    if math.abs(found[i] - w) > tolerance * (1 + math.abs(w)) then error(('%s %d: %g, TensorFlow has %g'):format(what, i, found[i], w), 0) end
  end
end

describe('df.image and df.signal', function()
  it('give a batch of no pictures another size, and what comes back of it', function()
    local x = df.placeholder('float32', { -1, 3, 3, 2 })
    for _, method in ipairs{ 'nearest', 'bilinear', 'bicubic', 'area' } do
      local y = df.image.resize(x, { 4, 5 }, { method = method })
      local back = method ~= 'area' and df.gradients(df.reduce_sum(y), { x })[1]
      local found = df.run({ y, back or y }, { [x] = df.run(df.zeros{ 0, 3, 3, 2 }) })
      assert.same({ 0, 4, 5, 2 }, found[1].shape, method)
      if back then assert.same({ 0, 3, 3, 2 }, found[2].shape, method) end
    end
  end)

  for _, case in ipairs(cases) do
    local expression, values, shape, gradient, dtype = case[1], case[2], case[3], case[4], case[5]
    it('give what TensorFlow gives: ' .. expression, function()
      local names, feeds, compute = world()
      local method, height, width = expression:match '^boxes (%w+) {(%d+), (%d+)}'
      if method then
        local y = df.crop_and_resize(names.x, names.B, { 0, 1, 0, 1 }, { tonumber(height), tonumber(width) }, { method = method, extrapolation_value = 0.25 })
        return close(values, flat(df.gradients(weighed(y), names.B), feeds), 1e-4, 'gradient by the boxes')
      end
      local y = compute(expression)
      if y.dtype:find 'complex' then y = df.stack({ df.real(y), df.imag(y) }, -1) end
      assert.equal(dtype, y.dtype)
      local found = df.run(df.shape(y), feeds):totable()
      assert.same(shape, found)
      close(values, flat(y, feeds), 1e-4, 'element')
      if not gradient then return end
      local by = expression:find '%f[%w]s[,)]' and names.s or expression:find '%(z' and names.z or names.x
      close(gradient, flat(df.gradients(weighed(y), by, { unconnected = 'zero' }), feeds), 2e-4, 'gradient')
    end)
  end

  it('has a finite gradient of colours where hue or saturation is not defined', function()
    local x = df.placeholder('float64', { -1, 3 })
    local edges = { { 0.5, 0.5, 0.5 }, { 0, 0, 0 }, { 1, 0, 0 }, { 0.2, 0.2, 0.9 }, { 0.9, 0.2, 0.9 } }
    for _, f in ipairs{ df.rgb_to_hsv, df.hsv_to_rgb } do
      local slopes = df.gradients(df.reduce_sum(f(x) * df.constant({ { 0.5, -2, 3 } }, 'float64')), x)
      assert.is_true(df.run(df.reduce_all(df.is_finite(slopes)), { [x] = edges }))
    end
    local _, saturation = df.unpack(df.unstack(df.rgb_to_hsv(x), { axis = 1 }))
    assert.same({ { 0, 0, 0 } }, df.run(df.gradients(saturation, x), { [x] = { { -0.1, -0.2, -0.3 } } }):totable())
    local gray = df.gradients(df.unpack(df.unstack(df.rgb_to_hsv(x), { axis = 1 })), x)
    assert.same({ { 0, 0, 0 } }, df.run(gray, { [x] = { { 0.5, 0.5, 0.5 } } }):totable())
  end)
end)

describe('a picture', function()
  it('is resized by the corners or by the centres of its pixels where that is asked for, under the name given', function()
    local x = df.reshape(df.range(12.0), { 1, 3, 4, 1 })
    for method, by in pairs{ bilinear = 'resize_bilinear', bicubic = 'resize_bicubic', nearest = 'resize_nearest_neighbor' } do
      local plain = table.concat(flat(df.image.resize(x, { 5, 7 }, method)):totable(), ' ')
      for _, how in ipairs{ 'align_corners', 'half_pixel_centers' } do
        local y = flat(df.image.resize(x, { 5, 7 }, { method = method, [how] = true })):totable()
        assert.same(flat(df[by](x, { 5, 7 }, { [how] = true })):totable(), y)
        assert.are_not.equal(plain, table.concat(y, ' '))
      end
    end
    local y = flat(df.image.resize(x, { 5, 7 }, { method = 'area', align_corners = true })):totable()
    assert.same(flat(df.resize_area(x, { 5, 7 }, { align_corners = true })):totable(), y)
    assert.are_not.same(flat(df.resize_area(x, { 5, 7 })):totable(), y)
    assert.equal('small:0', df.image.resize(x, { 5, 7 }, { name = 'small' }).name)
  end)

  it('has boxes, of which those stay that overlap no better one, by half unless more is said', function()
    local boxes, scores = { { 0.0, 0.0, 1.0, 1.0 }, { 0.0, 0.1, 1.0, 1.1 }, { 0.0, 2.0, 1.0, 3.0 } }, { 0.9, 0.8, 0.7 }
    assert.same({ 0, 2 }, df.image.non_max_suppression(boxes, scores, 3):eval():totable())
    assert.same({ 0, 1 }, df.image.non_max_suppression(boxes, scores, 3, { iou_threshold = 0.9, score_threshold = 0.75 }):eval():totable())
  end)

  it('of another rank, size or dtype is refused, by name', function()
    local x = df.ones{ 4, 6, 3 }
    assert.matches('rank 2, %[height, width, channels%]', message_of(df.image.flip_left_right, df.ones{ 4, 6 }))
    assert.matches('a rank that is not known', message_of(df.image.rot90, df.placeholder 'float32'))
    assert.matches("method is the string \"cubic\", 'bilinear', 'nearest'", message_of(df.image.resize, x, { 2, 2 }, 'cubic'), 1, true)
    assert.matches('central_fraction is the number 2', message_of(df.image.central_crop, x, 2))
    assert.matches('max_delta is the number 0.7', message_of(df.image.random_hue, x, 0.7))
    assert.matches('0 <= lower < upper', message_of(df.image.random_contrast, x, 2, 1), 1, true)
    assert.matches('no values of string', message_of(df.image.adjust_brightness, df.constant({ 'a' }, 'string'), 1))
    assert.matches('both must be positive', message_of(function() return df.resize_area(df.ones{ 1, 2, 2, 1 }, { 0, 1 }):eval() end))
    assert.matches('one of them may be', message_of(function()
      return df.resize_bilinear(df.ones{ 1, 2, 2, 1 }, { 3, 3 }, { align_corners = true, half_pixel_centers = true }):eval()
    end))
    assert.matches('expected at most 1', message_of(df.image.crop_to_bounding_box, x, 3, 0, 2, 2))
    local top = df.placeholder('int32', {})
    assert.matches('does not lie in the picture', message_of(df.run, df.image.crop_to_bounding_box(x, top, 0, 2, 2), { [top] = 3 }))
    assert.matches('does not fit', message_of(df.run, df.image.pad_to_bounding_box(x, top, 0, 5, 9), { [top] = 2 }))
    assert.matches("df.image has no 'resize_lanczos'", message_of(function() return df.image.resize_lanczos end))
  end)

  it('begins where a box does, computed without fused multiplications, as TensorFlow does: -0.2 * 5 + 2 * 0.5 is 0, not a little less', function()
    local x, list = df.placeholder('float32', { 1, 6, 7, 1 }), {}
    for i = 1, 42 do list[i] = i - 1 end
    local y = df.crop_and_resize(x, { { -0.2, 0.3, 0.6, 1.4 } }, { 0 }, { 9, 2 }, { extrapolation_value = 2.5 })
    local r = df.run(df.reshape(y, { 9, 2 }), { [x] = df.float32(list):eval():reshape{ 1, 6, 7, 1 } })
    local function near(v, i, j) assert.is_true(math.abs(r:at(i, j) - v) < 1e-5, ('[%d,%d] is %s'):format(i, j, r:at(i, j))) end
    near(2.5, 1, 0)
    near(1.8, 2, 0)
    near(5.3, 3, 0)
    near(2.5, 2, 1)
  end)

  it('has boxes that name one of the pictures, and are four numbers each', function()
    local x = df.ones{ 2, 3, 3, 1 }
    local of = df.placeholder('int32', { -1 })
    local y = df.crop_and_resize(x, { { 0, 0, 1, 1 } }, of, { 2, 2 })
    assert.equal('out_of_range', select(2, pcall(df.run, y, { [of] = { 2 } })).code)
    assert.matches('box_ind%[0%] is %-1', message_of(df.run, y, { [of] = { -1 } }))
    assert.matches('expected %[n, 4%] and %[n%]', message_of(df.run, y, { [of] = { 0, 1 } }))
    assert.matches('bilinear|nearest', message_of(function() return df.crop_and_resize(x, { { 0, 0, 1, 1 } }, { 0 }, { 2, 2 }, { method = 'x' }):eval() end))
  end)

  it('of a batch is flipped by itself, and alike under one seed', function()
    local x = df.tensor(wave(2 * 64, 1, 0, 0, 1), 'float32', { 64, 1, 2, 1 })
    local y = df.image.random_flip_left_right(x, { seed = 3 })
    local flipped, v = 0, df.run(y):totable()
    for i, picture in ipairs(x:totable()) do
      local same, other = picture[1][1][1] == v[i][1][1][1], picture[1][1][1] == v[i][1][2][1]
      assert.is_true(same or other)
      if other then flipped = flipped + 1 end
    end
    assert.is_true(flipped > 15 and flipped < 49, flipped)
    local function brighter() return df.image.random_brightness(df.zeros{ 1 }, 0.5, { seed = 4 }) end
    local a, b = df.unpack(df.run{ brighter(), brighter() })
    near(a, b:totable())
  end)

  it('varies by one number, whether it is one or in a batch', function()
    local x = df.constant({ { { 1 }, { 3 } }, { { 2 }, { 7 } } }, 'float32')
    assert.equal(2 + 5 + 1 + 4, df.run(df.image.total_variation(x)))
    assert.same({ 12, 0 }, df.run(df.image.total_variation(df.stack{ x, df.zeros_like(x) })):totable())
  end)

  it('keeps its dtype where it is turned or taken to the nearest, and becomes floats where it is weighed', function()
    local x = df.constant({ { { 1 }, { 2 } } }, 'int16')
    assert.equal('int16', df.image.resize(x, { 2, 2 }, 'nearest').dtype)
    assert.equal('float32', df.image.resize(x, { 2, 2 }).dtype)
    assert.equal('int16', df.image.resize(x, { 1, 2 }).dtype)                  -- it has that size
    assert.same({ 1, 2, 1, 2 }, flat(df.image.resize(x, { 2, 2 }, 'nearest')):totable())
    local wide = df.constant({ { { { 2 ^ 31 - 1 }, { -5 } } } }, 'int32')
    assert.same({ 2 ^ 31 - 1, 2 ^ 31 - 1, -5, -5 }, flat(df.resize_nearest_neighbor(wide, { 1, 4 })):totable())
  end)
end)

describe('a signal', function()
  it('comes back from its transforms in time', function()
    local x = df.tensor(wave(96, 0.3, 0, 0, 1), 'float32')
    local y = df.signal.inverse_stft(df.signal.stft(x, 16, 4), 16, 4, nil, df.signal.inverse_stft_window_fn(4))
    local want, found = x:totable(), df.run(y):totable()
    for i = 17, 80 do assert.is_true(math.abs(want[i] - found[i]) < 1e-5, i) end
  end)

  it('says how far its changes may go', function()
    local x = df.ones{ 2, 2, 3 }
    assert.matches('max_delta is the number -0.3, a number from 0 up is expected', message_of(df.image.random_brightness, x, -0.3), 1, true)
    assert.matches('max_delta is the number 0.6, a number from 0 to 0.5 is expected', message_of(df.image.random_hue, x, 0.6), 1, true)
  end)

  it('is cut by whole numbers, under a window that there is', function()
    local x = df.ones{ 8 }
    assert.matches('frame_length is the number 0', message_of(df.signal.frame, x, 0, 1))
    assert.matches('window_fn is the string "hann"', message_of(df.signal.stft, x, 4, 2, nil, 'hann'), 1, true)
    assert.matches('this is a scalar', message_of(df.signal.frame, df.float32(1), 2, 1))
    assert.matches('type is the number 5', message_of(df.signal.dct, x, 5))
    assert.matches("norm is the string \"x\"", message_of(df.signal.dct, x, { norm = 'x' }), 1, true)
    assert.matches('upper_edge_hertz <= sample_rate / 2', message_of(df.signal.linear_to_mel_weight_matrix, 3, 9, 8000, 100, 5000), 1, true)
    assert.same({ 5, 4 }, df.signal.frame(x, 4, 1).shape)
    assert.same({ 0, 4 }, df.run(df.shape(df.signal.frame(df.ones{ 2 }, 4, 1))):totable())
  end)
end)

describe('RandomIndexShuffle', function()
  local function shuffled(index, seed, most, dtype, rounds)
    return registry.op('RandomIndexShuffle', { df.constant(index, dtype), df.constant(seed, 'int64'), df.constant(most, dtype) }, { rounds = rounds })
  end

  it("gives TensorFlow's numbers", function()
    for _, c in ipairs{ { 0, { 1, 2, 3 }, 9, 4, 'int32', 2 }, { 3, { 1, 2, 3 }, 9, 4, 'int32', 4 }, { 9, { 4, 5, 6 }, 9, 6, 'int64', 3 },
                        { 500, { 7, 8, 9 }, 1000, 4, 'uint32', 32 }, { 70000, { 7, 8, 9 }, 100000, 8, 'int64', 34378 },
                        { 65535, { 1, 2, 3 }, 65536, 4, 'int64', 58889 }, { 65536, { 1, 2, 3 }, 65536, 4, 'int64', 7886 },
                        { 12345678901, { 11, 12, 13 }, 1000000000000, 4, 'uint64', 471327042997 }, { 0, { 1, 2, 3 }, 0, 4, 'int32', 0 },
                        { 5, { -1, 2147483647, 3 }, 7, 4, 'int32', 7 }, { 1, { 1, 2, 3 }, 1, 4, 'int32', 0 } } do
      local v = df.run(shuffled(c[1], c[2], c[3], c[5], c[4]))
      assert.equal(('%d'):format(c[6]), (tostring(v):gsub('%D+$', '')), c[1] .. ' of ' .. c[3])
    end
    assert.same({ 2, 0, 6, 4, 5, 1, 7, 3 }, df.run(shuffled({ 0, 1, 2, 3, 4, 5, 6, 7 }, { 1, 2, 3 }, 7, 'int32')):totable())
    assert.same({ 2, 3, 8 }, df.run(shuffled({ 0, 0, 0 }, { { 1, 2, 3 }, { 1, 2, 4 }, { 1, 2, 5 } }, { 7, 7, 9 }, 'int32')):totable())
  end)

  it('refuses indices beyond the greatest, odd rounds, and inputs that do not go together', function()
    assert.matches('index 8 is not among those from 0 to 7', message_of(function() return shuffled(8, { 1, 2, 3 }, 7, 'int32'):eval() end))
    assert.matches('index %-1 is not', message_of(function() return shuffled(-1, { 1, 2, 3 }, 7, 'int32'):eval() end))
    assert.matches('rounds is 3', message_of(function() return shuffled(1, { 1, 2, 3 }, 7, 'int32', 3):eval() end))
    assert.matches('%[3%] or %[n, 3%]', message_of(function() return shuffled(1, { 1, 2 }, 7, 'int32'):eval() end))
    assert.matches('one or %[n%]', message_of(function() return shuffled({ 1, 2 }, { 1, 2, 3 }, { 5, 6, 7 }, 'int32'):eval() end))
  end)
end)
