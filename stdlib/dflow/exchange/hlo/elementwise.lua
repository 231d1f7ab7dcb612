--- HLO's elementwise instructions, and those that make or retype arrays element by element.
--
-- An instruction's function is called with its view n (n.dtype, n.dims, n.i the message) and its operands as Outputs;
-- shapes may be smaller than n.dims, by broadcasting (value.lua), and computations that reduce, sort or map call them
-- with whole arrays for scalars.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local dtypes = require 'dflow.front.dtypes'
local value = require 'dflow.exchange.hlo.value'

local ops = {}

local function number(v, like) return df.constant(v, like.dtype) end
local function kind(x) return dtypes.number[x.dtype] end
local function is_int(x) return dtypes.is_int(kind(x)) end
local function is_complex(x) return dtypes.is_complex(kind(x)) end
local function is_unsigned(x) return x.dtype:find '^uint' ~= nil end
local bits = { bool = 1, int8 = 8, uint8 = 8, int16 = 16, uint16 = 16, int32 = 32, uint32 = 32, int64 = 64, uint64 = 64,
               float16 = 16, bfloat16 = 16,
               float32 = 32, float64 = 64 }
local function signed(x) return is_unsigned(x) and df.bitcast(x, x.dtype:sub(2)) or x end
local function unsigned(x) return is_unsigned(x) and x or df.bitcast(x, 'u' .. x.dtype) end
local function back(x, like) return x.dtype == like.dtype and x or df.bitcast(x, like.dtype) end

-- ---- arithmetic -----------------------------------------------------------------------------------------------------
--- One function for numbers, and one for bools, on which HLO defines it too.
local function arithmetic(fn, logical)
  return function(_, a, b)
    if a.dtype == 'bool' then return logical(a, b) end
    return fn(a, b)
  end
end
ops['add'] = arithmetic(df.add, df.logical_or)
ops['subtract'] = arithmetic(df.subtract, df.logical_xor)
ops['multiply'] = arithmetic(df.multiply, df.logical_and)
ops['maximum'] = arithmetic(df.maximum, df.logical_or)
ops['minimum'] = arithmetic(df.minimum, df.logical_and)

--- fn(a, b) of whole numbers with `otherwise` where b is zero, which XLA defines.
local function guarded(fn, a, b, otherwise)
  local list = value.known(b)
  for _, v in ipairs(list or {}) do if v == 0 then list = nil break end end
  if list then return fn(a, b) end
  local zero = df.equal(b, number(0, b))
  return df.select_v2(zero, otherwise, fn(a, df.select_v2(zero, number(1, b), b)))
end
ops['divide'] = function(_, a, b)
  if not is_int(a) then return df.realdiv(a, b) end
  return guarded(df.truncatediv, a, b, is_unsigned(a) and df.invert(number(0, a)) or number(-1, a))
end
ops['remainder'] = function(_, a, b)
  local function mod(x, y) return registry.op('TruncateMod', { x, y }, {}) end
  if is_int(a) then return guarded(mod, a, b, a) end
  return mod(a, b)
end
--- Whole powers by squaring: a negative exponent gives 0, but for the bases 1 and -1.
local function whole_power(a, b)
  local zero, one = number(0, b), number(1, b)
  local odd = df.equal(df.bitwise_and(b, one), one)
  local r = df.pow(a, df.maximum(b, zero))
  if is_unsigned(b) then return r end
  local unit = df.select_v2(df.equal(a, number(-1, a)), df.select_v2(odd, number(-1, a), number(1, a)),
                            df.cast(df.equal(a, number(1, a)), a.dtype))
  return df.select_v2(df.less(b, zero), unit, r)
end
ops['power'] = function(_, a, b) return is_int(a) and whole_power(a, b) or df.pow(a, b) end
ops['negate'] = function(_, a) return is_unsigned(a) and back(df.negative(signed(a)), a) or df.negative(a) end
ops['abs'] = function(_, a) return is_unsigned(a) and a or df.abs(a) end
ops['sign'] = function(_, a) return is_unsigned(a) and df.cast(df.not_equal(a, number(0, a)), a.dtype) or df.sign(a) end
ops['clamp'] = function(_, low, x, high) return df.minimum(df.maximum(x, low), high) end
ops['atan2'] = function(_, a, b) return df.atan2(a, b) end

for opcode, name in pairs{ ['exponential'] = 'exp', ['exponential-minus-one'] = 'expm1', ['log'] = 'log',
                           ['log-plus-one'] = 'log1p', ['logistic'] = 'sigmoid', ['sqrt'] = 'sqrt', ['rsqrt'] = 'rsqrt',
                           ['cosine'] = 'cos', ['sine'] = 'sin', ['tan'] = 'tan', ['tanh'] = 'tanh', ['erf'] = 'erf',
                           ['floor'] = 'floor', ['ceil'] = 'ceil', ['round-nearest-even'] = 'rint',
                           ['is-finite'] = 'is_finite', ['sinh'] = 'sinh', ['cosh'] = 'cosh', ['asin'] = 'asin',
                             ['acos'] = 'acos', ['atan'] = 'atan',
                           ['asinh'] = 'asinh', ['acosh'] = 'acosh', ['atanh'] = 'atanh' } do
  ops[opcode] = function(_, a) return df[name](a) end
end
ops['cbrt'] = function(_, a) return df.sign(a) * df.pow(df.abs(a), number(1 / 3, a)) end
ops['round-nearest-afz'] = function(_, a)
  local size = df.abs(a)
  local low = df.floor(size)
  local r = low + df.cast(df.greater_equal(size - low, number(0.5, a)), a.dtype)
  return df.select_v2(df.less(a, number(0, a)), -r, r)
end
ops['real'] = function(_, a) return is_complex(a) and df.real(a) or a end
ops['imag'] = function(_, a) return is_complex(a) and df.imag(a) or df.zeros_like(a) end
ops['complex'] = function(_, a, b) return df.complex(a, b) end

-- ---- bits -----------------------------------------------------------------------------------------------------------
local function bitwise(logical, whole)
  return function(_, a, b) return a.dtype == 'bool' and logical(a, b) or whole(a, b) end
end
ops['and'] = bitwise(df.logical_and, df.bitwise_and)
ops['or'] = bitwise(df.logical_or, df.bitwise_or)
ops['xor'] = bitwise(df.logical_xor, df.bitwise_xor)
ops['not'] = function(_, a) return a.dtype == 'bool' and df.logical_not(a) or df.invert(a) end

--- Shifts by as many bits as the type has, or more, leave `rest`.
local function shift(fn, a, by, rest)
  local known = value.known(by)
  if known and #known == 1 and known[1] >= 0 and known[1] < bits[a.dtype] then return fn(a, by) end
  local wide = df.greater_equal(unsigned(by), df.constant(bits[a.dtype], unsigned(by).dtype))
  return df.select_v2(wide, rest, fn(a, df.select_v2(wide, number(0, by), by)))
end
ops['shift-left'] = function(_, a, by) return shift(df.left_shift, a, by, number(0, a)) end
ops['shift-right-logical'] = function(_, a, by)
  local u = unsigned(a)
  return back(shift(df.right_shift, u, is_unsigned(by) and by or df.bitcast(by, u.dtype), number(0, u)), a)
end
ops['shift-right-arithmetic'] = function(_, a, by)
  local s = signed(a)
  local most = df.constant(bits[a.dtype] - 1, unsigned(by).dtype)
  return back(df.right_shift(s, df.bitcast(df.minimum(unsigned(by), most), s.dtype)), a)
end
--- The bits that are set, by sums of neighbours.
local function count_bits(u)
  local width = bits[u.dtype]
  local n, step = u, 1
  while step < width do
    local mask = 0                                                          -- 0101…, 0011…, 00001111…
    for k = 0, math.min(width, 32) - 1, 2 * step do mask = mask + (2 ^ step - 1) * 2 ^ k end
    local m = df.cast(df.constant(mask, 'float64'), u.dtype)
    if width == 64 and step < 32 then m = df.bitwise_or(m, df.left_shift(m, number(32, u))) end
    n = df.bitwise_and(n, m) + df.bitwise_and(df.right_shift(n, number(step, u)), m)
    step = step * 2
  end
  return n
end
ops['popcnt'] = function(_, a) return back(count_bits(unsigned(a)), a) end
ops['count-leading-zeros'] = function(_, a)
  local u, step = unsigned(a), 1
  while step < bits[a.dtype] do
    u = df.bitwise_or(u, df.right_shift(u, number(step, u)))
    step = step * 2
  end
  return back(number(bits[a.dtype], u) - count_bits(u), a)
end

-- ---- comparisons, selection -----------------------------------------------------------------------------------------
local compare = { EQ = 'equal', NE = 'not_equal', LT = 'less', LE = 'less_equal', GT = 'greater', GE = 'greater_equal' }
local integer = { float16 = 'int16', bfloat16 = 'int16', float32 = 'int32', float64 = 'int64' }

--- Whole numbers in the order that IEEE's totalOrder gives the floats: -NaN, -inf … -0, 0 … inf, NaN.
function ops.total_order(x)
  local d = integer[x.dtype]
  if not d then return x.dtype == 'bool' and df.cast(x, 'int32') or x end
  local i = df.bitcast(x, d)
  local sign = df.right_shift(i, number(bits[d] - 1, i))                    -- all ones where it is negative
  return df.bitwise_xor(i, df.bitcast(df.right_shift(unsigned(sign), number(1, unsigned(sign))), d))
end
ops['compare'] = function(n, a, b)
  local name = compare[n.i.direction or 'EQ'] or n:refuse(("the comparison '%s' is not known"):format(n.i.direction))
  if (n.i.comparison or ''):find 'TOTAL' or (a.dtype == 'bool' and name ~= 'equal' and name ~= 'not_equal') then
    a, b = ops.total_order(a), ops.total_order(b)
  end
  return df[name](a, b)
end
ops['select'] = function(_, p, a, b) return df.select_v2(p, a, b) end

-- ---- dtypes ---------------------------------------------------------------------------------------------------------
ops['convert'] = function(n, a)
  if is_complex(a) and not dtypes.is_complex(dtypes.number[n.dtype]) then a = df.real(a) end
  return a.dtype == n.dtype and a or df.cast(a, n.dtype)
end
ops['reduce-precision'] = function(n, a)
  local e, m = n.i.exponent_bits or 0, n.i.mantissa_bits or 0
  local own = { float16 = { 5, 10 }, bfloat16 = { 8, 7 }, float32 = { 8, 23 }, float64 = { 11, 52 } }
  for d, has in pairs(own) do
    if has[1] == e and has[2] == m and bits[d] <= bits[a.dtype] then
      return d == a.dtype and a or df.cast(df.cast(a, d), a.dtype)
    end
  end
  n:refuse(('%d bits of exponent and %d of mantissa are those of no dtype'):format(e, m))
end

return ops
