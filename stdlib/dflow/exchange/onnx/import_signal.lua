--- ONNX's operators of signals: Fourier transforms of any axis and length, their frames, and mel scales.
local df = require 'dflow'
local read = require 'dflow.exchange.onnx.read'
local import_nn = require 'dflow.exchange.onnx.import_nn'

local ops, help = import_nn.ops, import_nn.help

local function scalar(x) return df.cast(df.reshape(x, help.vector({}, 'int32')), 'int32') end

--- z along its last axis as `count` elements: cut off, or zeros behind.
local function fitted(z, count)
  local rank, have = #z.shape, df.dim(z, #z.shape - 1)
  local more = df.reshape(df.stack{ df.int32(0), df.maximum(count - have, 0) }, help.vector({ 1, 2 }, 'int32'))
  local rows = rank > 1 and df.concat({ df.zeros({ rank - 1, 2 }, 'int32'), more }, 0) or more
  local begin, size = {}, {}
  for d = 1, rank do begin[d], size[d] = 0, d == rank and count or df.int32(-1) end
  local function grown(part) return df.slice(df.pad(part, rows), help.vector(begin, 'int32'), df.stack(size)) end
  return df.complex(grown(df.real(z)), grown(df.imag(z)))
end

--- The transform of the last axis of z, of that length; half of it where the rest mirrors it.
local function transformed(z, length, inverse, half)
  local kept = df.floor_div(length, 2) + 1
  if not inverse then
    local y = df.fft(fitted(z, length))
    return half and fitted(y, kept) or y
  end
  if not half then return df.ifft(fitted(z, length)) end
  -- What is not there mirrors what is: element i is the conjugate of element length - i.
  z = fitted(z, kept)
  local i = df.range(length)
  local mirrored = df.greater_equal(i, kept)
  local all = df.gather(z, df.select_v2(mirrored, length - i, i), { axis = #z.shape - 1 })
  local imaginary = df.imag(all)
  return df.ifft(df.complex(df.real(all), df.select_v2(mirrored, -imaginary, imaginary)))
end

--- x [..., 1 or 2] as complex numbers, and back; x [..., 2] of z.
local function complex_of(n, x)
  local rank = help.rank(n, x)
  local parts = df.split(x, x.shape[rank], { axis = rank - 1 })
  for i, part in ipairs(parts) do parts[i] = df.squeeze(part, { axis = { rank - 1 } }) end
  return df.complex(parts[1], parts[2] or df.zeros_like(parts[1]))
end
local function parts_of(z, real)
  return real and df.expand_dims(df.real(z), -1) or df.stack({ df.real(z), df.imag(z) }, #z.shape)
end

function ops.DFT(n, x, length, axis)
  local rank = help.rank(n, x)
  if x.shape[rank] ~= 1 and x.shape[rank] ~= 2 then
    n:refuse 'the last axis of its input has neither 1 nor 2 elements'
  end
  local inverse, half = n.attr('inverse', 0) == 1, n.attr('onesided', 0) == 1
  local at = axis and scalar(axis) or df.int32(n.attr('axis', n.opset < 20 and 1 or -2))
  at = df.select_v2(df.less(at, 0), at + rank, at)
  local places = df.range(rank - 1)
  -- the axis to the end
  local perm = df.argsort(df.select_v2(df.equal(places, at), df.ones_like(places) * rank, places))
  local z = df.transpose(complex_of(n, x), perm)
  local count = df.dim(z, rank - 2)
  length = length and scalar(length) or (inverse and half) and 2 * (count - 1) or count
  local y = df.transpose(transformed(z, length, inverse, half), df.invert_permutation(perm))
  return parts_of(y, inverse and half)
end

function ops.STFT(n, x, step, window, length)
  x = help.of_rank(x, 3)
  if not window and not length then n:refuse 'it has neither a window nor a length of its frames' end
  step, length = scalar(step), length and scalar(length) or df.dim(window, 0)
  local count = df.floor_div(df.dim(x, 1) - length, step) + 1
  local at = df.expand_dims(df.range(count), 1) * step + df.expand_dims(df.range(length), 0)
  local frames = df.gather(complex_of(n, x), at, { axis = 1 })
  if window then frames = df.complex(df.real(frames) * window, df.imag(frames) * window) end
  return parts_of(transformed(frames, length, false, n.attr('onesided', 1) == 1))
end

--- Triangles that overlap by half, their middles at equal distances on the mel scale.
function ops.MelWeightMatrix(n, bands, length, rate, low, high)
  local dtype = read.dtype_of(n.attr('output_datatype', 1)) or n:refuse 'dflow has not the type of its output'
  local function number(x) return df.cast(df.reshape(x, help.vector({}, 'int32')), 'float64') end
  local function mel(hertz) return df.log1p(hertz / 700) * (2595 / math.log(10)) end
  bands, length, rate = scalar(bands), scalar(length), number(rate)
  low, high = mel(number(low)), mel(number(high))
  local step = (high - low) / df.cast(bands + 2, 'float64')
  local edges = df.range(df.constant(0, 'float64'), df.cast(bands + 2, 'float64'), df.constant(1, 'float64')) * step
    + low
  edges = df.expm1(edges * (math.log(10) / 2595)) * 700
  local bins = df.floor(df.cast(length + 1, 'float64') * edges / rate)
  local function row(from) return df.expand_dims(df.slice(bins, { from }, df.reshape(bands, { 1 })), 0) end
  local first, middle, last = row(0), row(1), row(2)
  local i = df.expand_dims(df.cast(df.range(df.floor_div(length, 2) + 1), 'float64'), 1)
  local up = df.select_v2(df.equal(middle, first), df.cast(df.equal(i, middle), 'float64'), (i - first)
                          / (middle - first))
  local down = (last - i) / (last - middle)
  local inside = df.logical_and(df.greater_equal(i, first), df.logical_or(df.less(i, last), df.equal(i, middle)))
  local weight = df.select_v2(df.less_equal(i, middle), up, down)
  return df.cast(df.select_v2(inside, weight, df.zeros_like(weight)), dtype)
end

return import_nn
