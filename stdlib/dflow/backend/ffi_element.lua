--- Elements of tensors and values of runs, to and from Lua, under LuaJIT: see dflow.ffi.
local ffi = require 'ffi'
local cast, new, str = ffi.cast, ffi.new, ffi.string
local floor, huge = math.floor, math.huge

local FLOAT32, FLOAT64, INT32, UINT8, INT8, STRING, INT64, BOOL, BFLOAT16, FLOAT16 = 1, 2, 3, 4, 6, 7, 9, 10, 14, 19
local INT16, COMPLEX64, QINT8, QUINT8, QINT32, QINT16, QUINT16, UINT16, COMPLEX128, VARIANT, UINT32, UINT64
  = 5, 8, 11, 12, 13, 15, 16, 17, 18, 21, 22, 23
local element = { [FLOAT32] = 'float *', [FLOAT64] = 'double *', [INT32] = 'int32_t *', [UINT8] = 'uint8_t *',
                  [INT8] = 'int8_t *', [INT64] = 'int64_t *', [BOOL] = 'bool *', [INT16] = 'int16_t *',
                  [UINT16] = 'uint16_t *', [UINT32] = 'uint32_t *', [UINT64] = 'uint64_t *', [QINT8] = 'int8_t *',
                  [QUINT8] = 'uint8_t *', [QINT16] = 'int16_t *', [QUINT16] = 'uint16_t *', [QINT32] = 'int32_t *' }
local low  = { [INT32] = -2^31, [UINT8] = 0, [INT8] = -128, [INT64] = -2^63, [INT16] = -2^15, [UINT16] = 0,
               [UINT32] = 0, [UINT64] = 0, [QINT8] = -128, [QUINT8] = 0, [QINT16] = -2^15, [QUINT16] = 0,
               [QINT32] = -2^31 }
local high = { [INT32] = 2^31 - 1, [UINT8] = 255, [INT8] = 127, [INT64] = 2^63 - 1024, [INT16] = 2^15 - 1,
               [UINT16] = 2^16 - 1, [UINT32] = 2^32 - 1, [UINT64] = 2^64 - 2048, [QINT8] = 127, [QUINT8] = 255,
               [QINT16] = 2^15 - 1, [QUINT16] = 2^16 - 1, [QINT32] = 2^31 - 1 }
local int64_t, uint64_t = ffi.typeof('int64_t'), ffi.typeof('uint64_t')
local EXACT = 2^53

local function is_int64(v)
  return type(v) == 'cdata' and (ffi.istype(int64_t, v) or ffi.istype(uint64_t, v))
end

--- Can an element of dtype hold the Lua value v?
local function holds(dtype, v)
  local kind = type(v)
  if kind == 'number' then
    local lowest = low[dtype]
    if lowest then return v >= lowest and v <= high[dtype] and v == floor(v) end
    return dtype == FLOAT32 or dtype == FLOAT64 or dtype == FLOAT16 or dtype == BFLOAT16 or dtype == COMPLEX64
      or dtype == COMPLEX128
  elseif kind == 'boolean' then
    return dtype == BOOL
  elseif kind == 'string' then
    return dtype == STRING
  elseif kind == 'table' then
    return (dtype == COMPLEX64 or dtype == COMPLEX128) and type(v.re) == 'number' and type(v.im) == 'number'
  elseif is_int64(v) then
    if dtype == UINT64 then return ffi.istype(uint64_t, v) or v >= 0 end
    return dtype == INT64 or (dtype == FLOAT32 or dtype == FLOAT64)
      or (low[dtype] ~= nil and v >= low[dtype] and v <= high[dtype])
  end
  return false
end

--- An int64 as a Lua number where that is exact, else as it is.
local function from_int64(v)
  local n = tonumber(v)
  if n > -EXACT and n < EXACT then return n end
  return v
end

-- LuaJIT keeps its other types in the payloads of NaNs, so a NaN is never read as it lies in memory.
local band, nan = require('bit').band, 0 / 0
local int32_p, uint16_p = ffi.typeof('int32_t *'), ffi.typeof('uint16_t *')
local function float32_at(p, i)
  if band(cast(int32_p, p)[i], 0x7fffffff) > 0x7f800000 then return nan end
  return cast('float *', p)[i]
end
local function float64_at(p, i)
  local words = cast(int32_p, p)
  local high = band(words[2 * i + 1], 0x7fffffff)
  if high > 0x7ff00000 or (high == 0x7ff00000 and words[2 * i] ~= 0) then return nan end
  return cast('double *', p)[i]
end

--- Element i of the tensor t.
local length = new('int64_t[1]')
local function get_element(C, t, dtype, i)
  if dtype == STRING then
    local p = C.df_tensor_string(t, i, length)
    return str(p, tonumber(length[0]))
  elseif dtype == BOOL then
    return cast('bool *', C.df_tensor_data(t))[i]
  elseif dtype == INT64 then
    return from_int64(cast('int64_t *', C.df_tensor_data(t))[i])
  elseif dtype == FLOAT32 then
    return float32_at(C.df_tensor_data(t), i)
  elseif dtype == FLOAT64 then
    return float64_at(C.df_tensor_data(t), i)
  elseif dtype == UINT64 then
    return from_int64(cast('uint64_t *', C.df_tensor_data(t))[i])
  elseif dtype == COMPLEX64 then
    local p = C.df_tensor_data(t)
    return { re = float32_at(p, 2 * i), im = float32_at(p, 2 * i + 1) }
  elseif dtype == COMPLEX128 then
    local p = C.df_tensor_data(t)
    return { re = float64_at(p, 2 * i), im = float64_at(p, 2 * i + 1) }
  elseif dtype == VARIANT then
    return '<variant>'
  elseif dtype == FLOAT16 or dtype == BFLOAT16 then
    local bits = band(cast(uint16_p, C.df_tensor_data(t))[i], 0x7fff)
    if bits > (dtype == FLOAT16 and 0x7c00 or 0x7f80) then return nan end
  end
  return C.df_tensor_get(t, i)
end

--- How a number goes into a df_value, and comes out of it.
local put = {
  [FLOAT32] = function(v, x) v.as.f32 = x end, [FLOAT64] = function(v, x) v.as.f64 = x end,
  [INT32]   = function(v, x) v.as.i32 = x end, [INT64]   = function(v, x) v.as.i64 = x end,
  [UINT8]   = function(v, x) v.as.u8 = x end,  [INT8]    = function(v, x) v.as.i8 = x end,
  [BOOL]    = function(v, x) v.as.b = x end,   [INT16]   = function(v, x) v.as.i16 = x end,
  [UINT16]  = function(v, x) v.as.u16 = x end, [UINT32]  = function(v, x) v.as.u32 = x end,
  [UINT64]  = function(v, x) v.as.u64 = x end,
}
put[QINT8], put[QUINT8], put[QINT16], put[QUINT16], put[QINT32] = put[INT8], put[UINT8], put[INT16], put[UINT16],
  put[INT32]

local function half(h)
  local sign, exponent, fraction = h >= 0x8000 and -1 or 1, floor(h / 1024) % 32, h % 1024
  if exponent == 0 then return sign * fraction * 2^-24 end
  if exponent == 31 then return fraction == 0 and sign * huge or 0 / 0 end
  return sign * (fraction + 1024) * 2^(exponent - 25)
end

local word = ffi.new('union { uint32_t u; float f; }')
local function bfloat16(h)
  if band(h, 0x7fff) > 0x7f80 then return nan end
  word.u = h * 65536
  return word.f
end

local take = {
  -- the payload
  [FLOAT32] = function(v) return float32_at(v, 2) end, [FLOAT64] = function(v) return float64_at(v, 1) end,
  [INT32]   = function(v) return v.as.i32 end, [INT64]   = function(v) return from_int64(v.as.i64) end,
  [UINT8]   = function(v) return v.as.u8 end,  [INT8]    = function(v) return v.as.i8 end,
  [BOOL]    = function(v) return v.as.b end,   [FLOAT16] = function(v) return half(v.as.u16) end,
  [BFLOAT16] = function(v) return bfloat16(v.as.u16) end,
  [INT16]   = function(v) return v.as.i16 end, [UINT16]  = function(v) return v.as.u16 end,
  [UINT32]  = function(v) return v.as.u32 end, [UINT64]  = function(v) return from_int64(v.as.u64) end,
}
take[QINT8], take[QUINT8], take[QINT16], take[QUINT16], take[QINT32] = take[INT8], take[UINT8], take[INT16],
  take[UINT16], take[INT32]

return { is_int64 = is_int64, holds = holds, put = put, take = take, get = get_element, float32_at = float32_at,
         float64_at = float64_at, pointer = element, FLOAT32 = FLOAT32, FLOAT64 = FLOAT64, STRING = STRING,
         INT64 = INT64, UINT64 = UINT64, VARIANT = VARIANT, BOOL = BOOL }
