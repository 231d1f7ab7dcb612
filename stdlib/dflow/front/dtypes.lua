--- Dtypes: names to TensorFlow's numbers and back, and what a bare Lua value is by itself.
local errors = require 'dflow.front.errors'

local M = {}

M.number = { float32 = 1, float64 = 2, int32 = 3, uint8 = 4, int16 = 5, int8 = 6, string = 7, complex64 = 8, int64 = 9, bool = 10,
             qint8 = 11, quint8 = 12, qint32 = 13, bfloat16 = 14, qint16 = 15, quint16 = 16, uint16 = 17, complex128 = 18,
             float16 = 19, resource = 20, variant = 21, uint32 = 22, uint64 = 23 }
M.name = {}
for name, number in pairs(M.number) do M.name[number] = name end

--- In the order the manual lists them.
M.list = { 'float32', 'float64', 'float16', 'bfloat16', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64',
           'bool', 'string', 'complex64', 'complex128', 'qint8', 'quint8', 'qint16', 'quint16', 'qint32', 'variant' }

M.FLOAT32, M.FLOAT64, M.INT32, M.INT64, M.BOOL, M.STRING, M.RESOURCE = 1, 2, 3, 9, 10, 7, 20

local float = { [1] = true, [2] = true, [14] = true, [19] = true }
local int = { [3] = true, [4] = true, [5] = true, [6] = true, [9] = true, [17] = true, [22] = true, [23] = true }
local boxed = { [7] = true, [8] = true, [14] = true, [18] = true, [19] = true, [21] = true }
local quantized = { [11] = true, [12] = true, [13] = true, [15] = true, [16] = true }
function M.is_float(d) return float[d] == true end
function M.is_int(d) return int[d] == true end
function M.is_complex(d) return d == 8 or d == 18 end
--- Is it made of a Lua number or boolean only by way of a Tensor?
function M.is_boxed(d) return boxed[d] == true end
--- Do only whole numbers fit?
function M.is_whole_only(d) return int[d] == true or quantized[d] == true end

--- Is the value a complex number: a plain table {re = number, im = number}?
function M.is_complex_value(v)
  return errors.is_data(v) and type(v.re) == 'number' and type(v.im) == 'number' and #v == 0
end

--- The number of a dtype given by name or number.
function M.of(d)
  local n = M.number[d]
  if n and n ~= M.RESOURCE then return n end
  if M.name[d] then return d end
  errors.bad("'%s' is no dtype%s (dtypes are %s)", tostring(d), errors.hint(d, M.list), table.concat(M.list, ', '))
end

-- ---- bare values ----------------------------------------------------------------------------------------
local math_type = math.type
local cdata_int64
if not math_type and rawget(_G, 'jit') then
  local ffi = require 'ffi'
  local int64_t, uint64_t = ffi.typeof('int64_t'), ffi.typeof('uint64_t')
  cdata_int64 = function(v) return ffi.istype(int64_t, v) or ffi.istype(uint64_t, v) end
end

--- The dtype of a bare Lua value alone, nil when it has none. LuaJIT cannot tell 1 from 1.0: there every number is float32.
function M.of_bare(v)
  local kind = type(v)
  if kind == 'number' then
    if math_type and math_type(v) == 'integer' then
      return (v >= -2147483648 and v <= 2147483647) and 3 or 9
    end
    return 1
  elseif kind == 'boolean' then
    return 10
  elseif kind == 'string' then
    return 7
  elseif kind == 'cdata' and cdata_int64 and cdata_int64(v) then
    return 9
  elseif kind == 'table' and M.is_complex_value(v) then
    return 8
  end
end

--- Are integers told from floats here (Lua 5.4)?
M.has_integers = math_type ~= nil

--- Has the number an integer value?
function M.is_whole(v)
  if type(v) == 'number' then return v == math.floor(v) and v - v == 0 end
  return type(v) == 'cdata'
end

return M
