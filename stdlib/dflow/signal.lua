--- df.signal: signals cut into frames and put together, windows, transforms in time and of cosines, mel scales, under
-- the names of TensorFlow 1's tf.signal. The Fourier transforms of df are here, too: df.signal.rfft is df.rfft. Made of
-- ops, so everything has a gradient.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local arguments = require 'dflow.front.arguments'
local ops = require 'dflow.front.ops'

local M = {}
local f, required = ops.functions, arguments.required
local to_output, typed = convert.to_output, convert.typed

--- Defines df.signal.name; fn gets the arguments by name.
local function def(name, names, more, fn)
  M[name] = function(...)
    local o = arguments.take('signal.' .. name, names, more, ...)
    required('signal.' .. name, o, names[1])
    return arguments.named(o.name, fn(o, 'signal.' .. name))
  end
end

--- A length: a whole number of Lua from `least` up.
local function length_of(what, name, v, least)
  if type(v) ~= 'number' or not dtypes.is_whole(v) or v < (least or 1) or v >= 2 ^ 31 then
    errors.bad('%s: %s is %s, a whole number from %d up is expected', what, name, errors.describe(v), least or 1)
  end
  return v
end

local function signal_of(what, v)
  local x = to_output(v, typed(v) or dtypes.FLOAT32, nil, what)
  if graph.rank(x) == 0 then errors.bad('%s: a signal has at least one axis, this is a scalar', what) end
  return x
end

--- The dtype's name that the options say, float32 unless they do.
local function dtype_of(what, d)
  local name = d == nil and 'float32' or dtypes.name[dtypes.of(d)]
  if not name:find '^b?float' then errors.bad('%s: dtype is %s, one of floats is expected', what, name) end
  return name
end

-- ---- windows --------------------------------------------------------------------------------------------------------

--- The numbers fn(i), i from 0 to n - 1, as a constant.
local function numbers(n, dtype, fn)
  local list = {}
  for i = 1, n do list[i] = fn(i - 1) end
  return f.constant(list, dtype)
end

--- A raised cosine; a periodic one of even length is the first n of one that is one longer.
local function cosine_window(name, a)
  def(name, { 'window_length', 'periodic', 'dtype' }, {}, function(o, what)
    local n = length_of(what, 'window_length', o.window_length)
    if o.periodic ~= nil and type(o.periodic) ~= 'boolean' then
      errors.bad('%s: periodic is %s, true or false is expected', what, errors.describe(o.periodic))
    end
    local span = n - 1 + (o.periodic ~= false and n % 2 == 0 and 1 or 0)
    return numbers(n, dtype_of(what, o.dtype),
                   function(i) return n == 1 and 1 or a - (1 - a) * math.cos(2 * math.pi * i / span) end)
  end)
end
cosine_window('hann_window', 0.5)
cosine_window('hamming_window', 0.54)

def('vorbis_window', { 'window_length', 'dtype' }, {}, function(o, what)
  local n = length_of(what, 'window_length', o.window_length)
  return numbers(n, dtype_of(what, o.dtype),
                 function(i) return math.sin(math.pi / 2 * math.sin(math.pi / n * (i + 0.5)) ^ 2) end)
end)

--- The modified Bessel function of order 0, by its series.
local function bessel(x)
  local sum, term, k = 1, 1, 0
  repeat
    k = k + 1
    term = term * (x / 2 / k) ^ 2
    sum = sum + term
  until term < 1e-17 * sum
  return sum
end

def('kaiser_window', { 'window_length', 'beta', 'dtype' }, {}, function(o, what)
  local n = length_of(what, 'window_length', o.window_length)
  local beta = o.beta == nil and 12 or o.beta
  if type(beta) ~= 'number' or not (math.abs(beta) <= 700) then
    errors.bad('%s: beta is %s, a number up to 700 is expected', what, errors.describe(beta))
  end
  return numbers(n, dtype_of(what, o.dtype), function(i)
    return n == 1 and 1 or bessel(beta * math.sqrt(math.max(0, 1 - (2 * i / (n - 1) - 1) ^ 2))) / bessel(beta)
  end)
end)

-- ---- frames ---------------------------------------------------------------------------------------------------------

--- x with its last axis made n long: cut, or filled with `value` behind.
local function fitted(x, n, value)
  local now = f.dim(x, -1)
  local rank = graph.rank(x)
  if not rank then errors.bad('signal: the rank must be known while building') end
  local begin, size = {}, {}
  for i = 1, rank do begin[i], size[i] = 0, -1 end
  size[rank] = f.minimum(f.int32(n), now)
  local cut = f.slice(x, begin, size)
  local rows = {}
  for i = 1, rank do
    rows[i] = i < rank and f.constant({ 0, 0 }, 'int32') or f.stack{ f.int32(0), f.maximum(f.int32(n) - now, 0) }
  end
  local out = f.pad_v2(cut, f.stack(rows), value)
  if type(n) == 'number' then
    local shape = x.shape
    shape[rank] = n
    out:set_shape(shape)
  end
  return out
end

--- [..., frames, frame_length]: parts of the signal, each frame_step behind the one before it.
local function frames_of(x, length, step, pad_end, pad_value, what)
  local n = f.dim(x, -1)
  local count
  if pad_end then
    count = f.maximum(-f.floordiv(-n, step), 0)
    local value = to_output(pad_value == nil and 0 or pad_value, graph.dtype(x), x.graph, what)
    x = fitted(x, f.maximum(n, (count - 1) * step + length), value)
  else
    count = f.maximum(f.floordiv(n - length, step) + 1, 0)
  end
  local places = f.expand_dims(f.range(0, count) * step, 1) + f.expand_dims(f.range(0, length), 0)
  return f.gather(x, places, { axis = -1 })
end

def('frame', { 'signal', 'frame_length', 'frame_step', 'pad_end', 'pad_value', 'axis' }, {}, function(o, what)
  local x = signal_of(what, o.signal)
  local length, step = length_of(what, 'frame_length', o.frame_length), length_of(what, 'frame_step', o.frame_step)
  local axis, rank = o.axis == nil and -1 or o.axis, graph.rank(x)
  if o.pad_value ~= nil and type(o.pad_value) ~= 'number' and not typed(o.pad_value) then
    errors.bad('%s: pad_value is %s, a number is expected', what, errors.describe(o.pad_value))
  end
  if axis == -1 or type(axis) == 'number' and axis + 1 == rank then
    return frames_of(x, length, step, o.pad_end, o.pad_value, what)
  end
  if not rank or type(axis) ~= 'number' or not dtypes.is_whole(axis) or axis < -rank or axis >= rank then
    errors.bad('%s: axis is %s, of a signal of rank %s', what, errors.describe(axis), rank and tostring(rank)
               or 'that is not known')
  end
  if axis < 0 then axis = axis + rank end
  local last, back = {}, {}
  for i = 0, rank - 1 do if i ~= axis then last[#last + 1] = i end end
  last[rank] = axis
  for i = 0, rank do                                            -- the frames' two axes stand where the one was
    back[#back + 1] = i < axis and i or i < axis + 2 and rank - 1 + i - axis or i - 2
  end
  return f.transpose(frames_of(f.transpose(x, last), length, step, o.pad_end, o.pad_value, what), back)
end)

--- The sum of frames [..., frames, frame_length], each frame_step behind the one before it.
local function added(x, step)
  local count, length = f.dim(x, -2), f.dim(x, -1)
  local rank, whole = graph.rank(x), (count - 1) * step + length
  local rows = f.transpose(f.reshape(x, f.stack{ -1, count * length }), { 1, 0 })
  local places = f.reshape(f.expand_dims(f.range(0, count) * step, 1) + f.expand_dims(f.range(0, length), 0), { -1 })
  local sum = f.transpose(f.unsorted_segment_sum(rows, places, whole), { 1, 0 })
  local lead = f.slice(f.shape(x), { 0 }, { rank - 2 })
  return f.reshape(sum, f.concat({ lead, f.stack{ whole } }, 0))
end

def('overlap_and_add', { 'signal', 'frame_step' }, {}, function(o, what)
  local x = signal_of(what, o.signal)
  if not graph.rank(x) or graph.rank(x) < 2 then
    errors.bad('%s: frames [..., frames, frame_length] are expected', what)
  end
  return added(x, length_of(what, 'frame_step', o.frame_step))
end)

-- ---- transforms in time ---------------------------------------------------------------------------------------------

local function window_of(what, o, length, dtype)
  if o.window_fn == nil then return M.hann_window(length, { dtype = dtype }) end
  if o.window_fn == false then return nil end
  if type(o.window_fn) ~= 'function' then
    errors.bad('%s: window_fn is %s, a function(length, {dtype}) or false is expected', what,
               errors.describe(o.window_fn))
  end
  return o.window_fn(length, { dtype = dtype })
end

local function transform_length(what, o, length)
  if o.fft_length ~= nil then return length_of(what, 'fft_length', o.fft_length) end
  local n = 1
  while n < length do n = n * 2 end
  return n
end

def('stft', { 'signals', 'frame_length', 'frame_step', 'fft_length', 'window_fn', 'pad_end' }, {}, function(o, what)
  local x = signal_of(what, o.signals)
  local length, step = length_of(what, 'frame_length', o.frame_length), length_of(what, 'frame_step', o.frame_step)
  local frames = frames_of(x, length, step, o.pad_end, 0, what)
  local window = window_of(what, o, length, x.dtype)
  return f.rfft(window and frames * window or frames, { transform_length(what, o, length) })
end)

def('inverse_stft', { 'stfts', 'frame_length', 'frame_step', 'fft_length', 'window_fn' }, {}, function(o, what)
  local x = to_output(o.stfts, typed(o.stfts), nil, what)
  local length, step = length_of(what, 'frame_length', o.frame_length), length_of(what, 'frame_step', o.frame_step)
  local frames = fitted(f.irfft(x, { transform_length(what, o, length) }), length,
                        to_output(0, x.dtype == 'complex128' and dtypes.FLOAT64 or dtypes.FLOAT32, x.graph))
  local window = window_of(what, o, length, frames.dtype)
  return added(window and frames * window or frames, step)
end)

--- A window_fn for inverse_stft, which gives back what stft was given under forward_window_fn.
def('inverse_stft_window_fn', { 'frame_step', 'forward_window_fn' }, {}, function(o, what)
  local step = length_of(what, 'frame_step', o.frame_step)
  return function(length, opts)
    local window = window_of(what, { window_fn = o.forward_window_fn }, length, opts and opts.dtype or 'float32')
    local overlaps = math.ceil(length / step)
    local rows = f.reshape(fitted(f.square(window), overlaps * step, 0), { overlaps, step })
    local sum = f.tile(f.reduce_sum(rows, { axis = 0, keep_dims = true }), { overlaps, 1 })
    return window / fitted(f.reshape(sum, { -1 }), length, 0)
  end
end)

for name, forward in pairs{ fftshift = true, ifftshift = false } do
  def(name, { 'x', 'axes' }, {}, function(o, what)
    local x = to_output(o.x, typed(o.x) or dtypes.FLOAT32, nil, what)
    local axes = o.axes
    if axes == nil then
      if not graph.rank(x) then errors.bad('%s: the rank must be known while building', what) end
      axes = {}
      for i = 1, graph.rank(x) do axes[i] = i - 1 end
    elseif type(axes) == 'number' then
      axes = { axes }
    end
    if type(axes) ~= 'table' or typed(axes) then
      errors.bad('%s: axes is %s, a list of whole numbers is expected', what, errors.describe(axes))
    end
    for _, axis in ipairs(axes) do
      if type(axis) ~= 'number' or not dtypes.is_whole(axis) then
        errors.bad('%s: one of the axes is %s, a whole number is expected', what, errors.describe(axis))
      end
    end
    local shifts = {}
    for i, axis in ipairs(axes) do
      local by = f.floordiv(f.dim(x, axis), 2)
      shifts[i] = forward and by or -by
    end
    if #axes == 0 then return f.identity(x) end
    return f.roll(x, f.stack(shifts), axes)
  end)
end

-- ---- cosine transforms ----------------------------------------------------------------------------------------------

local function cosine_args(o, what)
  local x = signal_of(what, o.input)
  if x.dtype ~= 'float32' and x.dtype ~= 'float64' then
    errors.bad('%s: the input is %s, float32 or float64 is expected', what, x.dtype)
  end
  local kind = o.type == nil and 2 or o.type
  if kind ~= 1 and kind ~= 2 and kind ~= 3 and kind ~= 4 then
    errors.bad('%s: type is %s, 1, 2, 3 or 4 is expected', what, errors.describe(o.type))
  end
  if o.norm ~= nil and o.norm ~= 'ortho' then
    errors.bad("%s: norm is %s, 'ortho' or nil is expected", what, errors.describe(o.norm))
  end
  if o.axis ~= nil and o.axis ~= -1 then errors.bad('%s: axis is %s, -1 is expected', what, errors.describe(o.axis)) end
  if kind == 1 and o.norm then errors.bad("%s: type 1 has no norm 'ortho'", what) end
  if o.n ~= nil then x = fitted(x, length_of(what, 'n', o.n), to_output(0, graph.dtype(x), x.graph)) end
  local n = x.shape and x.shape[#x.shape]
  if not n or n < 1 then errors.bad('%s: the length of the last axis must be known while building', what) end
  if kind == 1 and n < 2 then errors.bad('%s: type 1 takes two elements at least', what) end
  return x, kind, n, o.norm == 'ortho'
end

--- exp(sign i pi k / (2 n)) for k from 0 to n - 1, twice as long.
local function turns(n, sign, dtype)
  local function part(fn) return numbers(n, dtype, function(k) return 2 * fn(sign * math.pi * k / (2 * n)) end) end
  return f.complex(part(math.cos), part(math.sin))
end

--- The first n of the last axis, each `by`-th of them.
local function some(x, n, by)
  return f.gather(x, f.range(by > 1 and 1 or 0, n, by), { axis = -1 })
end

--- What makes it orthonormal: the first element has another weight.
local function weights(n, first, others, dtype)
  return numbers(n, dtype, function(k) return k == 0 and first or others end)
end

local function cosines(x, kind, n, ortho)
  if kind == 1 then
    local back = n > 2 and f.concat({ x, f.gather(x, f.range(n - 2, 0, -1), { axis = -1 }) }, -1) or x
    return f.real(f.rfft(back, { 2 * n - 2 }))
  elseif kind == 2 then
    local y = f.real(some(f.rfft(x, { 2 * n }), n, 1) * turns(n, -1, x.dtype))
    return ortho and y * weights(n, 0.5 / math.sqrt(n), 0.5 * math.sqrt(2 / n), x.dtype) or y
  elseif kind == 3 then
    local given = ortho and x * weights(n, math.sqrt(n), math.sqrt(n / 2), x.dtype) or x * n
    return some(f.irfft(turns(n, 1, x.dtype) * f.complex(given, f.zeros_like(given)), { 2 * n }), n, 1)
  end
  local y = some(cosines(fitted(x, 2 * n, to_output(0, graph.dtype(x), x.graph)), 2, 2 * n, false), 2 * n, 2)
  return ortho and y * math.sqrt(0.5 / n) or y
end

def('dct', { 'input', 'type', 'n', 'axis', 'norm' }, {}, function(o, what) return cosines(cosine_args(o, what)) end)
local inverse = { 1, 3, 2, 4 }
def('idct', { 'input', 'type', 'n', 'axis', 'norm' }, {}, function(o, what)
  local x, kind, n, ortho = cosine_args(o, what)
  return cosines(x, inverse[kind], n, ortho)
end)

-- ---- mel ------------------------------------------------------------------------------------------------------------

local function mel(hertz) return 1127 * math.log(1 + hertz / 700) end

def('linear_to_mel_weight_matrix', { 'num_mel_bins', 'num_spectrogram_bins', 'sample_rate', 'lower_edge_hertz',
    'upper_edge_hertz', 'dtype' }, {}, function(o, what)
  local bins, spectrum = length_of(what, 'num_mel_bins', o.num_mel_bins),
  length_of(what, 'num_spectrogram_bins', o.num_spectrogram_bins or 129, 2)
  local rate, low, high = o.sample_rate or 8000, o.lower_edge_hertz or 125, o.upper_edge_hertz or 3800
  for name, v in pairs{ sample_rate = rate, lower_edge_hertz = low, upper_edge_hertz = high } do
    if type(v) ~= 'number' then errors.bad('%s: %s is %s, a number is expected', what, name, errors.describe(v)) end
  end
  if not (rate > 0 and low >= 0 and high > low and high <= rate / 2) then
    errors.bad('%s: 0 <= lower_edge_hertz < upper_edge_hertz <= sample_rate / 2 is expected, not %s, %s and %s', what,
               tostring(low), tostring(high), tostring(rate))
  end
  local rows, from, step = {}, mel(low), (mel(high) - mel(low)) / (bins + 1)
  for i = 1, spectrum do
    rows[i] = {}
    local at = mel(rate / 2 * (i - 1) / (spectrum - 1))
    for j = 1, bins do
      local left, middle, right = from + (j - 1) * step, from + j * step, from + (j + 1) * step
      rows[i][j] = i == 1 and 0 or math.max(0, math.min((at - left) / (middle - left), (right - at) / (right - middle)))
    end
  end
  return f.constant(rows, dtype_of(what, o.dtype))
end)

def('mfccs_from_log_mel_spectrograms', { 'log_mel_spectrograms' }, {}, function(o, what)
  local x, _, n = cosine_args({ input = o.log_mel_spectrograms }, what)
  return cosines(x, 2, n, false) * (1 / math.sqrt(2 * n))
end)

return setmetatable(M, { __index = function(_, name)
  local fn = type(name) == 'string' and ops.find(name)
  if fn then return fn end
  local names = {}
  for one in pairs(M) do names[#names + 1] = one end
  table.sort(names, function(a, b) return a > b end)
  errors.bad("df.signal has no '%s'%s", tostring(name), errors.hint_of_others(name, names))
end })
