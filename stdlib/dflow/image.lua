--- df.image: pictures [height, width, channels], or [batch, height, width, channels], under the names of TensorFlow 1's
-- tf.image: other sizes, parts, turned and mirrored, other colours, and by how much two differ. The ops of df are here,
-- too: df.image.resize_bilinear is df.resize_bilinear.
--
-- A picture of integers has the values of its dtype, 0 to 255 for uint8; one of floats those from 0 to 1. What computes
-- with floats converts to them and back.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local arguments = require 'dflow.front.arguments'
local ops = require 'dflow.front.ops'

local M = {}
local f, required = ops.functions, arguments.required
local to_output, typed = convert.to_output, convert.typed

--- Defines df.image.name; fn gets the arguments by name.
local function def(name, names, more, fn)
  M[name] = function(...)
    local o = arguments.take('image.' .. name, names, more, ...)
    required('image.' .. name, o, names[1])
    return arguments.named(o.name, fn(o, 'image.' .. name))
  end
end

-- ---- what is given --------------------------------------------------------------------------------------------------

--- The picture or pictures: an Output of rank 3 or 4, which must be known while building.
local function pictures(v, what)
  local x = to_output(v, typed(v) or dtypes.FLOAT32, nil, what)
  local rank = graph.rank(x)
  if rank ~= 3 and rank ~= 4 then
    errors.bad('%s: the picture has %s, [height, width, channels] or [batch, height, width, channels] is expected',
               what,
               rank and 'rank ' .. rank or 'a rank that is not known while building')
  end
  return x, rank
end

local function is_number(what, name, v)
  if type(v) ~= 'number' then errors.bad('%s: %s is %s, a number is expected', what, name, errors.describe(v)) end
  return v
end

--- One number of float32, or of another dtype: of Lua or an Output.
local function scalar(what, name, v, dtype, g)
  if v == nil then errors.bad('%s: %s is missing', what, name) end
  if type(v) ~= 'number' and not typed(v) then
    errors.bad('%s: %s is %s, a number is expected', what, name, errors.describe(v))
  end
  return to_output(v, dtype, g, what)
end

--- The greatest value of a picture of this dtype: 1 for floats.
local greatest = { uint8 = 255, int8 = 127, uint16 = 65535, int16 = 32767, int32 = 2147483647, uint32 = 4294967295,
                   int64 = 2 ^ 63, uint64 = 2 ^ 64 }
local lowest = { uint8 = 0, int8 = -128, uint16 = 0, int16 = -32768, int32 = -2147483648, uint32 = 0, int64 = -2 ^ 63,
                 uint64 = 0 }
local is_float = { float16 = true, bfloat16 = true, float32 = true, float64 = true }

local function check_dtype(what, d)
  if not greatest[d] and not is_float[d] then errors.bad('%s: a picture has no values of %s', what, d) end
end

--- x as integers of this dtype: what does not fit becomes the nearest that does.
local function saturated(x, dtype)
  if not greatest[dtype] then return f.cast(x, dtype) end
  if greatest[dtype] < 2 ^ 24 then return f.cast(f.clip_by_value(x, lowest[dtype], greatest[dtype]), dtype) end
  -- floats have no such numbers: the greatest of theirs that the integers have, too
  local wide = f.cast(x, 'float64')
  local top = greatest[dtype] < 2 ^ 53 and greatest[dtype] or greatest[dtype] - 2 ^ 11
  return f.cast(f.clip_by_value(wide, lowest[dtype], top), dtype)
end

local function converted(x, dtype, saturate)
  local from = x.dtype
  if from == dtype then return f.identity(x) end
  if is_float[from] and is_float[dtype] then return f.cast(x, dtype) end
  if is_float[dtype] then return f.cast(x, dtype) * (1 / greatest[from]) end
  if is_float[from] then
    local scaled = x * (greatest[dtype] + 0.5)                                        -- each integer has as much room
    return saturate and saturated(scaled, dtype) or f.cast(scaled, dtype)
  end
  if greatest[from] > greatest[dtype] then
    local step = (greatest[from] + 1) / (greatest[dtype] + 1)
    local parts = f.floordiv(x, math.floor(step))
    return saturate and saturated(f.cast(parts, 'float64'), dtype) or f.cast(parts, dtype)
  end
  local wide = saturate and saturated(f.cast(x, 'float64'), dtype) or f.cast(x, dtype)
  return f.multiply(wide, f.constant(math.floor((greatest[dtype] + 1) / (greatest[from] + 1)), dtype))
end

--- Computes with floats, and gives the picture's own dtype back.
local function as_floats(x, what, fn)
  check_dtype(what, x.dtype)
  if is_float[x.dtype] then return fn(x) end
  return converted(fn(converted(x, 'float32')), x.dtype, true)
end
--- The same for ops that have float32 and float16 only.
local function as_float32(x, what, fn)
  check_dtype(what, x.dtype)
  if x.dtype == 'float32' or x.dtype == 'float16' then return fn(x) end
  return converted(fn(converted(x, 'float32')), x.dtype, true)
end

def('convert_image_dtype', { 'image', 'dtype', 'saturate' }, {}, function(o, what)
  required(what, o, 'dtype')
  local x = to_output(o.image, typed(o.image) or dtypes.FLOAT32, nil, what)
  local d = dtypes.name[dtypes.of(o.dtype)]
  check_dtype(what, x.dtype)
  check_dtype(what, d)
  return converted(x, d, o.saturate)
end)

-- ---- mirrored and turned --------------------------------------------------------------------------------------------

--- The axes of height and width, counted from the end.
local HEIGHT, WIDTH = -3, -2

local function mirrored(x, ...) return f.reverse(x, { ... }) end
local function exchanged(x, rank) return f.transpose(x, rank == 3 and { 1, 0, 2 } or { 0, 2, 1, 3 }) end

for name, axis in pairs{ flip_left_right = WIDTH, flip_up_down = HEIGHT } do
  def(name, { 'image' }, {}, function(o, what) return mirrored(pictures(o.image, what), axis) end)

  --- Each picture of a batch by itself, every other one on average.
  def('random_' .. name, { 'image' }, { 'seed' }, function(o, what)
    local x, rank = pictures(o.image, what)
    local flips = f.less(f.random_uniform(rank == 3 and {} or f.stack{ f.dim(x, 0) }, { seed = o.seed }), 0.5)
    if rank == 4 then flips = f.reshape(flips, { -1, 1, 1, 1 }) end
    return f.where(flips, mirrored(x, axis), x)
  end)
end

def('transpose', { 'image' }, {}, function(o, what) return exchanged(pictures(o.image, what)) end)
M.transpose_image = M.transpose

def('rot90', { 'image', 'k' }, {}, function(o, what)
  local x, rank = pictures(o.image, what)
  local k = o.k == nil and 1 or o.k
  if type(k) ~= 'number' or not dtypes.is_whole(k) then
    errors.bad('%s: k is %s, a whole number of quarter turns is expected', what, errors.describe(k))
  end
  k = k % 4
  if k == 0 then return f.identity(x) end
  if k == 2 then return mirrored(x, HEIGHT, WIDTH) end
  if k == 1 then return exchanged(mirrored(x, WIDTH), rank) end
  return mirrored(exchanged(x, rank), WIDTH)
end)

-- ---- parts ----------------------------------------------------------------------------------------------------------

--- height and width: numbers of Lua where they are known, else Outputs.
local function size_of(x) return f.dim(x, HEIGHT), f.dim(x, WIDTH) end


local function crop(x, rank, top, left, height, width, what)
  local h, w = size_of(x)
  local fits = f.assert(f.reduce_all(f.stack{ f.less_equal(0, f.int32(top)), f.less_equal(0, f.int32(left)),
                                              f.less_equal(f.int32(top) + height, h),
                                              f.less_equal(f.int32(left) + width, w) }),
                        { h, w, top, left, height, width },
                        { message = what .. ': the part does not lie in the picture' })
  return graph.control_dependencies({ fits }, function()
    local begin, size = { top, left, 0 }, { height, width, -1 }
    if rank == 4 then begin, size = { 0, top, left, 0 }, { -1, height, width, -1 } end
    return f.slice(x, begin, size)
  end)
end

local function pad(x, rank, top, left, height, width, what)
  local h, w = size_of(x)
  local below, right = f.int32(height) - top - h, f.int32(width) - left - w
  local fits = f.assert(f.reduce_all(f.greater_equal(f.stack{ f.int32(top), f.int32(left), below, right }, 0)),
                        { h, w, top, left, height, width },
                        { message = what .. ': the picture does not fit' })
  return graph.control_dependencies({ fits }, function()
    local paddings = { { top, below }, { left, right }, { 0, 0 } }
    if rank == 4 then table.insert(paddings, 1, { 0, 0 }) end
    local rows = {}
    for i, row in ipairs(paddings) do rows[i] = f.stack{ f.int32(row[1]), f.int32(row[2]) } end
    local out = f.pad(x, f.stack(rows))
    if type(height) == 'number' and type(width) == 'number' then
      local shape = x.shape
      shape[#shape - 2], shape[#shape - 1] = height, width
      out:set_shape(shape)
    end
    return out
  end)
end

local box = { 'image', 'offset_height', 'offset_width', 'target_height', 'target_width' }
for name, fn in pairs{ crop_to_bounding_box = crop, pad_to_bounding_box = pad } do
  def(name, box, {}, function(o, what)
    local x, rank = pictures(o.image, what)
    local place = {}
    for i = 2, 5 do
      local v = o[box[i]]
      if v == nil then errors.bad('%s: %s is missing', what, box[i]) end
      if type(v) ~= 'number' and not typed(v) or type(v) == 'number' and not dtypes.is_whole(v) then
        errors.bad('%s: %s is %s, a whole number is expected', what, box[i], errors.describe(v))
      end
      place[i - 1] = v
    end
    return fn(x, rank, place[1], place[2], place[3], place[4], what)
  end)
end

def('central_crop', { 'image', 'central_fraction' }, {}, function(o, what)
  local x, rank = pictures(o.image, what)
  local part = is_number(what, 'central_fraction', o.central_fraction)
  if not (part > 0 and part <= 1) then
    errors.bad('%s: central_fraction is %s, a number above 0 and up to 1 is expected', what, errors.describe(part))
  end
  if part == 1 then return f.identity(x) end
  local begin, size = {}, {}
  for i = 1, 2 do
    local n = f.dim(x, i == 1 and HEIGHT or WIDTH)
    local whole = f.cast(n, 'float64')
    begin[i] = f.cast((whole - whole * part) / 2, 'int32')                            -- towards 0
    size[i] = n - begin[i] * 2
  end
  if rank == 3 then return f.slice(x, { begin[1], begin[2], 0 }, { size[1], size[2], -1 }) end
  return f.slice(x, { 0, begin[1], begin[2], 0 }, { -1, size[1], size[2], -1 })
end)

--- In the middle: what is too large is cut, what is too small gets zeros around.
def('resize_with_crop_or_pad', { 'image', 'target_height', 'target_width' }, {}, function(o, what)
  local x, rank = pictures(o.image, what)
  required(what, o, 'target_height', 'target_width')
  local h, w = size_of(x)
  local height, width = o.target_height, o.target_width
  local function offsets(target, now)
    local room = f.int32(target) - now
    return f.maximum(f.floordiv(-room, 2), 0), f.maximum(f.floordiv(room, 2), 0)
  end
  local cut_y, pad_y = offsets(height, h)
  local cut_x, pad_x = offsets(width, w)
  local part = crop(x, rank, cut_y, cut_x, f.minimum(f.int32(height), h), f.minimum(f.int32(width), w), what)
  return pad(part, rank, pad_y, pad_x, height, width, what)
end)
M.resize_image_with_crop_or_pad = M.resize_with_crop_or_pad

-- ---- other sizes ----------------------------------------------------------------------------------------------------

local methods = { bilinear = 'ResizeBilinear', nearest = 'ResizeNearestNeighbor', bicubic = 'ResizeBicubic',
                  area = 'ResizeArea' }

--- Do both have this height and width, as far as it is known while building?
local function has_size(x, size)
  local shape = x.shape
  return type(size) == 'table' and not typed(size) and shape[#shape - 2] == size[1] and shape[#shape - 1] == size[2]
end

local function resized(x, rank, size, o, what)
  local method = o.method == nil and 'bilinear' or o.method
  local type_name = methods[method]
  if not type_name then
    errors.bad("%s: method is %s, 'bilinear', 'nearest', 'bicubic' or 'area' is expected", what,
               errors.describe(method))
  end
  if has_size(x, size) then return f.identity(x) end
  local attrs = { align_corners = o.align_corners, name = rank == 4 and o.name or nil }
  if method ~= 'area' then attrs.half_pixel_centers = o.half_pixel_centers
  elseif o.half_pixel_centers then errors.bad("%s: half_pixel_centers is not for the method 'area'", what) end
  if rank == 3 then x = f.expand_dims(x, 0) end
  local y = registry.op(type_name, { x, f.int32(size) }, attrs)
  return rank == 3 and f.squeeze(y, { 0 }) or y
end

--- The size that keeps the picture's proportions and lies within `size`.
local function in_proportion(x, size)
  local h, w = size_of(x)
  local wanted = f.cast(f.int32(size), 'float32')
  local fh, fw = f.cast(h, 'float32'), f.cast(w, 'float32')
  local scale = f.minimum(f.gather(wanted, 0) / fh, f.gather(wanted, 1) / fw)
  return f.cast(f.round(f.stack{ scale * fh, scale * fw }), 'int32')
end

def('resize', { 'images', 'size', 'method', 'align_corners', 'preserve_aspect_ratio' }, { 'half_pixel_centers' },
    function(o, what)
  required(what, o, 'size')
  local x, rank = pictures(o.images, what)
  return resized(x, rank, o.preserve_aspect_ratio and in_proportion(x, o.size) or o.size, o, what)
end)
M.resize_images = M.resize

def('resize_with_pad', { 'image', 'target_height', 'target_width', 'method', 'align_corners' },
    { 'half_pixel_centers' }, function(o, what)
  required(what, o, 'target_height', 'target_width')
  local x, rank = pictures(o.image, what)
  local h, w = size_of(x)
  local function real(v) return f.cast(v, 'float32') end
  local height, width = real(f.int32(o.target_height)), real(f.int32(o.target_width))
  local ratio = f.maximum(real(w) / width, real(h) / height)
  local inner_h, inner_w = real(h) / ratio, real(w) / ratio
  local function whole(v) return f.cast(f.floor(v), 'int32') end
  local y = resized(x, rank, f.stack{ whole(inner_h), whole(inner_w) }, o, what)
  local top, left = f.maximum(whole((height - inner_h) / 2), 0), f.maximum(whole((width - inner_w) / 2), 0)
  return pad(y, rank, top, left, o.target_height, o.target_width, what)
end)
M.resize_image_with_pad = M.resize_with_pad

-- ---- colours --------------------------------------------------------------------------------------------------------

local function brighter(x, delta, what)
  return as_floats(x, what, function(v) return v + f.cast(delta, v.dtype) end)
end
local function adjusted(type_name)
  return function(x, amount, what)
    return as_float32(x, what, function(v) return registry.op1(type_name, v, amount) end)
  end
end
local contrast, hue, saturation = adjusted 'AdjustContrastv2', adjusted 'AdjustHue', adjusted 'AdjustSaturation'

for name, how in pairs{ brightness = { 'delta', brighter }, contrast = { 'contrast_factor', contrast },
                        hue = { 'delta', hue },
                        saturation = { 'saturation_factor', saturation } } do
  def('adjust_' .. name, { 'image', how[1] }, {}, function(o, what)
    local x = to_output(o.image, typed(o.image) or dtypes.FLOAT32, nil, what)
    return how[2](x, scalar(what, how[1], o[how[1]], dtypes.FLOAT32, x.graph), what)
  end)
end

--- One number for all pictures, drawn between low and high.
local function drawn(o, low, high)
  return f.random_uniform({}, { min = low, max = high, seed = o.seed })
end
for name, how in pairs{ brightness = { brighter, math.huge }, hue = { hue, 0.5 } } do
  def('random_' .. name, { 'image', 'max_delta' }, { 'seed' }, function(o, what)
    local x = to_output(o.image, typed(o.image) or dtypes.FLOAT32, nil, what)
    local most = is_number(what, 'max_delta', o.max_delta)
    if not (most >= 0 and most <= how[2]) then
      errors.bad('%s: max_delta is %s, a number from 0 %s is expected', what, errors.describe(most), how[2] == 0.5
                 and 'to 0.5' or 'up')
    end
    return how[1](x, drawn(o, -most, most), what)
  end)
end
for name, fn in pairs{ contrast = contrast, saturation = saturation } do
  def('random_' .. name, { 'image', 'lower', 'upper' }, { 'seed' }, function(o, what)
    local x = to_output(o.image, typed(o.image) or dtypes.FLOAT32, nil, what)
    local low, high = is_number(what, 'lower', o.lower), is_number(what, 'upper', o.upper)
    if not (low >= 0 and high > low) then
      errors.bad('%s: lower is %s and upper %s: 0 <= lower < upper is expected', what, tostring(low), tostring(high))
    end
    return fn(x, drawn(o, low, high), what)
  end)
end

def('adjust_gamma', { 'image', 'gamma', 'gain' }, {}, function(o, what)
  local x = to_output(o.image, typed(o.image) or dtypes.FLOAT32, nil, what)
  if type(o.gamma) == 'number' and o.gamma < 0 then
    errors.bad('%s: gamma is %s, a number from 0 up is expected', what, tostring(o.gamma))
  end
  return as_floats(x, what, function(v)
    local function number(n, name) return scalar(what, name, n == nil and 1 or n, graph.dtype(v), v.graph) end
    return number(o.gain, 'gain') * f.pow(v, number(o.gamma, 'gamma'))
  end)
end)

def('rgb_to_grayscale', { 'images' }, {}, function(o, what)
  local x = to_output(o.images, typed(o.images) or dtypes.FLOAT32, nil, what)
  return as_floats(x, what, function(v)
    return f.reduce_sum(v * f.constant({ 0.2989, 0.5870, 0.1140 }, v.dtype), { axis = -1, keep_dims = true })
  end)
end)

def('grayscale_to_rgb', { 'images' }, {}, function(o, what)
  local x = to_output(o.images, typed(o.images) or dtypes.FLOAT32, nil, what)
  return f.concat({ x, x, x }, -1)
end)

--- Linear maps of the last axis: each row says what a channel gives to the three of the result.
local spaces = {
  rgb_to_yiq = { { 0.299, 0.59590059, 0.2115 }, { 0.587, -0.27455667, -0.52273617 },
                 { 0.114, -0.32134392, 0.31119955 } },
  yiq_to_rgb = { { 1, 1, 1 }, { 0.95598634, -0.27201283, -1.10674021 }, { 0.6208248, -0.64720424, 1.70423049 } },
  rgb_to_yuv = { { 0.299, -0.14714119, 0.61497538 }, { 0.587, -0.28886916, -0.51496512 },
                 { 0.114, 0.43601035, -0.10001026 } },
  yuv_to_rgb = { { 1, 1, 1 }, { 0, -0.394642334, 2.03206185 }, { 1.13988303, -0.58062185, 0 } },
}
for name, rows in pairs(spaces) do
  def(name, { 'images' }, {}, function(o, what)
    local x = to_output(o.images, typed(o.images) or dtypes.FLOAT32, nil, what)
    return f.tensordot(x, f.constant(rows, x.dtype), 1)
  end)
end

def('per_image_standardization', { 'image' }, {}, function(o, what)
  local x = pictures(o.image, what)
  if x.dtype ~= 'float32' and x.dtype ~= 'float16' then x = f.cast(x, 'float32') end
  local all = { axis = { -1, -2, -3 }, keep_dims = true }
  local n = f.cast(f.dim(x, HEIGHT) * f.dim(x, WIDTH) * f.dim(x, -1), x.dtype)
  local mean = f.reduce_mean(x, all)
  local deviation = f.sqrt(f.reduce_mean(f.square(x - mean), all))
  return (x - mean) / f.maximum(deviation, f.rsqrt(n))
end)

-- ---- by how much two differ, and how much happens in one -----------------------------------------------------------

--- The differences between neighbours along an axis.
local function steps(x, axis)
  local n = f.dim(x, axis) - 1
  local function from(first) return f.gather(x, f.range(first, n + first), { axis = axis }) end
  return from(1) - from(0)
end

def('total_variation', { 'images' }, {}, function(o, what)
  local x, rank = pictures(o.images, what)
  local axes = rank == 4 and { 1, 2, 3 } or { 0, 1, 2 }
  return f.reduce_sum(f.abs(steps(x, HEIGHT)), axes) + f.reduce_sum(f.abs(steps(x, WIDTH)), axes)
end)

def('image_gradients', { 'image' }, {}, function(o, what)
  local x, rank = pictures(o.image, what)
  if rank ~= 4 then errors.bad('%s: the pictures have rank 3, [batch, height, width, channels] is expected', what) end
  local function along(axis)
    local d = steps(x, axis)
    return f.concat({ d, f.zeros_like(f.gather(x, { 0 }, { axis = axis })) }, axis)
  end
  return along(HEIGHT), along(WIDTH)
end)

def('sobel_edges', { 'image' }, {}, function(o, what)
  local x, rank = pictures(o.image, what)
  if rank ~= 4 then errors.bad('%s: the pictures have rank 3, [batch, height, width, channels] is expected', what) end
  local h, w = size_of(x)
  local padded = f.mirror_pad(x, { { 0, 0 }, { 1, 1 }, { 1, 1 }, { 0, 0 } }, { mode = 'REFLECT' })
  local function shifted(y, column) return f.slice(padded, { 0, y, column, 0 }, { -1, h, w, -1 }) end
  local function along(place)
    return place(2, 0) + 2 * place(2, 1) + place(2, 2) - place(0, 0) - 2 * place(0, 1) - place(0, 2)
  end
  return f.stack({ along(shifted), along(function(a, b) return shifted(b, a) end) }, -1)
end)

--- Two pictures as floats from 0 to 1, and the greatest value that one can have.
local function both(o, what)
  required(what, o, 'a', 'b', 'max_val')
  local a, b = to_output(o.a, typed(o.a) or dtypes.FLOAT32, nil, what),
    to_output(o.b, typed(o.b) or dtypes.FLOAT32, nil, what)
  if a.dtype ~= b.dtype then errors.bad('%s: the pictures are %s and %s', what, a.dtype, b.dtype) end
  check_dtype(what, a.dtype)
  local most = converted(f.cast(scalar(what, 'max_val', o.max_val, dtypes.FLOAT32, a.graph), a.dtype), 'float32')
  return converted(a, 'float32'), converted(b, 'float32'), most
end

def('psnr', { 'a', 'b', 'max_val' }, {}, function(o, what)
  local a, b, most = both(o, what)
  local error_of = f.reduce_mean(f.squared_difference(a, b), { axis = { -3, -2, -1 } })
  return 20 / math.log(10) * f.log(most) - 10 / math.log(10) * f.log(error_of)
end)

--- Each channel of the pictures, weighed by a bell around each place where the whole window fits.
local function blurred(x, size, sigma)
  local weights, sum = {}, 0
  for i = 1, size do
    weights[i] = math.exp(-(i - 1 - (size - 1) / 2) ^ 2 / (2 * sigma ^ 2))
    sum = sum + weights[i]
  end
  local channels = x.shape[#x.shape]
  local function along(v, shape)
    local rows = {}
    for i = 1, size do rows[i] = weights[i] / sum end
    return f.depthwise_conv2d(v, f.tile(f.reshape(f.constant(rows, 'float32'), shape), { 1, 1, channels, 1 }),
                              { 1, 1, 1, 1 }, 'VALID')
  end
  return along(along(x, { size, 1, 1, 1 }), { 1, size, 1, 1 })
end

def('ssim', { 'a', 'b', 'max_val' }, { 'filter_size', 'filter_sigma', 'k1', 'k2' }, function(o, what)
  local a, b, most = both(o, what)
  local rank, shape = graph.rank(a), a.shape
  if rank ~= 3 and rank ~= 4 or shape[rank] < 0 then
    errors.bad('%s: pictures [height, width, channels] of known channels are expected', what)
  end
  if rank == 3 then a, b = f.expand_dims(a, 0), f.expand_dims(b, 0) end
  local size, sigma = o.filter_size or 11, o.filter_sigma or 1.5
  if type(size) ~= 'number' or not dtypes.is_whole(size) or size < 1 then
    errors.bad('%s: filter_size is %s, a whole number from 1 up is expected', what, errors.describe(size))
  end
  if not (is_number(what, 'filter_sigma', sigma) > 0) then
    errors.bad('%s: filter_sigma is %s, a number above 0 is expected', what, errors.describe(sigma))
  end
  local function constant(name, default)
    return f.square(is_number(what, name, o[name] == nil and default or o[name]) * most)
  end
  local c1, c2 = constant('k1', 0.01), constant('k2', 0.03)
  local function smooth(v) return blurred(v, size, sigma) end
  local mean_a, mean_b = smooth(a), smooth(b)
  local product, squares = mean_a * mean_b * 2, f.square(mean_a) + f.square(mean_b)
  local luminance = (product + c1) / (squares + c1)
  local structure = (smooth(a * b) * 2 - product + c2) / (smooth(f.square(a) + f.square(b)) - squares + c2)
  local each = f.reduce_mean(f.reduce_mean(luminance * structure, { axis = { 1, 2 } }), { axis = -1 })
  return rank == 3 and f.squeeze(each, { 0 }) or each
end)

return setmetatable(M, { __index = function(_, name)
  local fn = type(name) == 'string' and ops.find(name)
  if fn then return fn end
  local names = {}
  for one in pairs(M) do names[#names + 1] = one end
  table.sort(names, function(a, b) return a > b end)
  errors.bad("df.image has no '%s'%s", tostring(name), errors.hint_of_others(name, names))
end })
