--- ONNX's types that dflow has not: floats of 8 and 4 bits, whole numbers of 4 and 2. Values of such a type are held in
-- a dtype that has all of them (float8 in float32, int4 in int8), rounded to what the type has where they are made. So
-- every operator works on them, and a model's inputs and outputs of such a type are fed and fetched as that dtype. The
-- importer remembers which values are of which type.
local df = require 'dflow'
local errors = require 'dflow.front.errors'

local M = {}

--- By ONNX's number. Floats: bits of the mantissa, the bias, the greatest; what there is of infinities, of NaN ('all':
-- all bits of exponent and mantissa; 'zero': minus zero; 'ieee') and of minus zero. Whole numbers: bits, and whether
-- they have a sign.
M.kinds = {
  [17] = { name = 'float8e4m3fn', carrier = 'float32', bits = 8, mantissa = 3, bias = 7, most = 448, nan = 'all' },
  [18] = { name = 'float8e4m3fnuz', carrier = 'float32', bits = 8, mantissa = 3, bias = 8, most = 240, nan = 'zero' },
  [19] = { name = 'float8e5m2', carrier = 'float32', bits = 8, mantissa = 2, bias = 15, most = 57344, nan = 'ieee' },
  [20] = { name = 'float8e5m2fnuz', carrier = 'float32', bits = 8, mantissa = 2, bias = 16, most = 57344,
           nan = 'zero' },
  [21] = { name = 'uint4', carrier = 'uint8', bits = 4, least = 0, most = 15 },
  [22] = { name = 'int4', carrier = 'int8', bits = 4, least = -8, most = 7 },
  [23] = { name = 'float4e2m1', carrier = 'float32', bits = 4, mantissa = 1, bias = 1, most = 6 },
  [24] = { name = 'float8e8m0', carrier = 'float64', bits = 8 },
  [25] = { name = 'uint2', carrier = 'uint8', bits = 2, least = 0, most = 3 },
  [26] = { name = 'int2', carrier = 'int8', bits = 2, least = -2, most = 1 },
}

-- ---- out of bytes --------------------------------------------------------------------------------------------------
--- The number that a code of that kind stands for.
local function number(k, code)
  if k.least then return code > k.most and code - 2 ^ k.bits or code end
  if not k.mantissa then return code == 255 and 0 / 0 or 2 ^ (code - 127) end
  local half = 2 ^ (k.bits - 1)
  local sign, rest, unit = code >= half and -1 or 1, code % half, 2 ^ k.mantissa
  local e, m = math.floor(rest / unit), rest % unit
  if k.nan == 'zero' and code == half or k.nan == 'all' and rest == half - 1 then return 0 / 0 end
  if k.nan == 'ieee' and rest >= half - unit then return m == 0 and sign * math.huge or 0 / 0 end
  return e == 0 and sign * m / unit * 2 ^ (1 - k.bias) or sign * (1 + m / unit) * 2 ^ (e - k.bias)
end

--- `count` numbers of that kind out of bytes; those of fewer bits than eight lie side by side, the first lowest, or
-- one in each byte (`apart`).
function M.numbers(kind, bytes, count, apart)
  local k, list, table_of = M.kinds[kind], {}, {}
  local each, base = apart and 1 or 8 / k.bits, 2 ^ k.bits
  if #bytes ~= math.ceil(count / each) then
    errors.raise('data_loss', '%d bytes, %d numbers of %d bits are expected', #bytes, count, k.bits)
  end
  for code = 0, base - 1 do table_of[code] = number(k, code) end
  for i = 0, count - 1 do
    local byte = bytes:byte(math.floor(i / each) + 1)
    list[i + 1] = table_of[math.floor(byte / base ^ (i % each)) % base]
  end
  return list
end

-- ---- rounding ------------------------------------------------------------------------------------------------------
--- x, float32, as the nearest numbers of the kind; beyond the greatest: that one (`saturate`), else infinity, or NaN
-- where there is none.
local function nearest(k, x, saturate)
  local exponent = df.right_shift(df.bitcast(df.abs(x), 'int32'), 23) - 127
  exponent = df.maximum(exponent, 1 - k.bias)
  local unit = df.bitcast(df.left_shift(exponent + (127 - k.mantissa), 23), 'float32')
  local y = df.rint(x / unit) * unit
  local over = saturate and k.most or k.nan == 'ieee' and math.huge or 0 / 0
  y = df.select_v2(df.greater(df.abs(y), k.most), df.sign(y) * over, y)
  if k.nan == 'zero' then y = df.select_v2(df.equal(y, 0), df.zeros_like(y), y) end
  return k.nan and y or df.select_v2(df.is_nan(y), df.zeros_like(y), y)
end

--- Powers of two from 2^-127 to 2^127: `how` says whether up, down or to the nearest.
local function powers(x, how, saturate)
  local bits = df.bitcast(df.abs(x), 'int32')
  local exponent, rest = df.right_shift(bits, 23), df.bitwise_and(bits, 0x7fffff)
  if how ~= 'down' then
    exponent = exponent + df.cast(df.greater_equal(rest, how == 'up' and 1 or 0x400000), 'int32')
  end
  local y = df.pow(df.constant(2, 'float64'), df.cast(df.minimum(exponent, 254) - 127, 'float64'))
  local none = df.is_nan(x)
  if not saturate then none = df.logical_or(none, df.greater(exponent, 254)) end
  return df.select_v2(none, df.ones_like(y) * (0 / 0), y)
end

--- Whole numbers of which the low bits alone are kept.
local function wrapped(k, x)
  if x.dtype ~= 'int64' then x = df.cast(x, 'int32') end
  local y = df.floor_mod(x, 2 ^ k.bits)
  return k.least < 0 and df.select_v2(df.greater(y, k.most), y - 2 ^ k.bits, y) or y
end

--- x as numbers of that kind, in its carrier.
function M.rounded(x, kind, saturate, how)
  local k = M.kinds[kind]
  local y
  if k.least then y = wrapped(k, x)
  else
    x = df.cast(x, 'float32')
    y = k.mantissa and nearest(k, x, saturate) or powers(x, how, saturate)
  end
  return df.cast(y, k.carrier)
end
function M.cast(n, x, kind, saturate)
  return M.mark(n, M.rounded(x, kind, saturate, n.attr('round_mode', 'up')), kind)
end

--- Remembers that y is of that kind; its own kind, or nil.
function M.mark(n, y, kind)
  if kind then
    y = df.identity(y)
    n.importer.narrow[y] = kind
  end
  return y
end
function M.kind(n, x) return x and n.importer and n.importer.narrow[x] end

--- The operator fn, which moves values and computes none: what it makes of such a type is of it.
function M.moving(fn)
  return function(n, x, ...)
    local y, kind = fn(n, x, ...), M.kind(n, x)
    return kind and df.type(y) == 'output' and M.mark(n, y, kind) or y
  end
end

return M
