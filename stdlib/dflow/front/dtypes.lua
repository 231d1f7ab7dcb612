--- Dtypes: names to TensorFlow's numbers and back, and what a bare Lua value is by itself.
local enums = require 'dflow.backend.enums'
local errors = require 'dflow.front.errors'

local M = {}

M.number = {}
for _, name in ipairs{ 'float32', 'float64', 'int32', 'uint8', 'int16', 'int8', 'string', 'complex64', 'int64', 'bool',
                       'qint8', 'quint8',
                       'qint32', 'bfloat16', 'qint16', 'quint16', 'uint16', 'complex128', 'float16', 'resource',
                       'variant', 'uint32',
                       'uint64' } do
  M.number[name] = enums['DF_' .. name:upper()]
end
M.name = {}
for name, number in pairs(M.number) do M.name[number] = name end

--- In the order the manual lists them.
M.list = { 'float32', 'float64', 'float16', 'bfloat16', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64',
           'uint64',
           'bool', 'string', 'complex64', 'complex128', 'qint8', 'quint8', 'qint16', 'quint16', 'qint32', 'variant' }

for name, number in pairs(M.number) do M[name:upper()] = number end

local function set(names)
  local members = {}
  for name in names:gmatch('%S+') do members[M.number[name]] = true end
  return members
end
local float = set 'float32 float64 float16 bfloat16'
local int = set 'int8 uint8 int16 uint16 int32 uint32 int64 uint64'
local boxed = set 'string complex64 complex128 float16 bfloat16 variant'
local quantized = set 'qint8 quint8 qint16 quint16 qint32'
local complex = set 'complex64 complex128'
function M.is_float(d) return float[d] == true end
function M.is_int(d) return int[d] == true end
function M.is_complex(d) return complex[d] == true end
--- Has a tensor of it a gradient?
function M.is_differentiable(d) return float[d] == true or complex[d] == true end
--- Is it made of a Lua number or boolean only by way of a Tensor?
function M.is_boxed(d) return boxed[d] == true end
--- Do only whole numbers fit?
function M.is_whole_only(d) return int[d] == true or quantized[d] == true end

--- Is the value a complex number: a plain table {re = number, im = number}?
function M.is_complex_value(v)
  return errors.is_data(v) and type(rawget(v, 're')) == 'number' and type(rawget(v, 'im')) == 'number' and #v == 0
end

--- How a value of the first dtype becomes one of the second, as it is written.
function M.conversion(from, to)
  from, to = M.name[from] or from, M.name[to] or to
  if from == 'string' then return ("df.string_to_number(x, '%s')"):format(to) end
  if to == 'string' then return 'df.as_string(x)' end
  if complex[M.number[from]] and not complex[M.number[to]] then return 'df.real(x)' end
  return ("df.cast(x, '%s')"):format(to)
end
--- The same of a Tensor, as the end of a message; of strings there is none.
function M.advised(from, to)
  if from == M.number.string or to == M.number.string then return '' end
  return (": write t:astype('%s')"):format(M.name[to])
end
--- Of two dtypes the one that holds the other's values, or the first; and the other.
function M.wider(a, b)
  if complex[b] and not complex[a] or float[b] and not (float[a] or complex[a]) then return b, a end
  return a, b
end

-- What other libraries call them.
local elsewhere = { float = 'float32', double = 'float64', half = 'float16', int = 'int32', long = 'int64',
                    short = 'int16', byte = 'uint8', boolean = 'bool', number = 'float32', str = 'string',
                    single = 'float32', integer = 'int32', f16 = 'float16', f32 = 'float32', f64 = 'float64',
                    i8 = 'int8', u8 = 'uint8', i32 = 'int32', i64 = 'int64', bf16 = 'bfloat16' }

--- The number of a dtype given by name or number.
function M.of(d)
  local n = M.number[d]
  if n and n ~= M.RESOURCE then return n end
  if M.name[d] then return d end
  if type(d) ~= 'string' then
    local df = package.loaded['dflow']
    for _, name in ipairs(type(d) == 'function' and df and M.list or {}) do
      if rawget(df, name) == d then errors.bad("df.%s is a function, the dtype is its name: write '%s'", name, name) end
    end
    errors.bad("a dtype is a string such as 'float32', not %s", errors.describe(d))
  end
  local hint = elsewhere[d:lower()] and ("; it is '%s'"):format(elsewhere[d:lower()]) or errors.hint(d, M.list)
  errors.bad("'%s' is no dtype%s (dtypes are %s)", d, hint, table.concat(M.list, ', '))
end

-- ---- bare values ----------------------------------------------------------------------------------------
local math_type = math.type
local cdata_int64
if not math_type and rawget(_G, 'jit') then
  local ffi = require 'ffi'
  local int64_t, uint64_t = ffi.typeof('int64_t'), ffi.typeof('uint64_t')
  cdata_int64 = function(v) return ffi.istype(int64_t, v) or ffi.istype(uint64_t, v) end
end

--- The dtype of a bare Lua value alone, nil when it has none. LuaJIT cannot tell 1 from 1.0: there every number is
-- float32.
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
