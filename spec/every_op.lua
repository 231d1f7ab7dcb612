--- What holds of every op of the registry, whatever its inputs: for spec/ops/every_op_spec.lua.
--
--   local every = require 'spec.every_op'
--   for _, op in ipairs(every.ops()) do
--     for _, call in ipairs(every.calls(op)) do local wrong = every.shapes(op, call) end
--   end
--
-- A call is { inputs = a Tensor for each input, attrs = attributes }. Its inputs are those of spec/late.lua, of each dtype that the
-- op takes, and its attributes have one at a time another value. A property gives nil, or what is wrong in words.
local df = require 'dflow'
local dtypes = require 'dflow.front.dtypes'
local late = require 'spec.late'
local registry = require 'dflow.front.registry'
local support = require 'spec.support'

local M = { ops = late.ops }
local unpack = table.unpack or unpack

local DTYPES = { 'float32', 'float64', 'float16', 'bfloat16', 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64',
                 'bool', 'string', 'complex64', 'complex128' }
local OTHERS = { int = { -1, 0, 2 }, float = { 0, -1 }, bool = { true, false }, string = { '', 'x', 'NCHW', 'NHWC', 'SAME', 'VALID' },
                 dtype = { 'float64', 'int32', 'bool', 'string' }, shape = { {}, { -1, 2 } }, ints = { {}, { 0 }, { 1, 2 }, { 1, 2, 2, 1 } } }

-- ---- calls -------------------------------------------------------------------------------------------------------------
--- The inputs that share their type variable with the first one that has one, and the dtypes that they may be.
local function variable_of(op)
  local var, places, list = nil, {}, {}
  for i, a in ipairs(op.entry.inputs) do
    var = var or a.var
    if var and a.var == var then places[#places + 1] = i end
  end
  for _, name in ipairs(var and DTYPES or {}) do
    local set = op.entry.types[var]
    if not set or set[dtypes.number[name]] then list[#list + 1] = name end
  end
  return places, list
end

--- The same inputs, where the type variable is make(tensor, dtype).
local function retyped(inputs, places, make, dtype)
  local out = {}
  for i, t in ipairs(inputs) do out[i] = t end
  for _, i in ipairs(places) do out[i] = make(inputs[i], dtype) end
  return out
end

local function plain(t, dtype)
  local list = t:list()
  for i, v in ipairs(list) do list[i] = type(v) == 'table' and v.re or tonumber(v) end
  return df.tensor(list, dtype, t.shape)
end

local function cast(t, dtype) return df.tensor(t:list(), dtype, t.shape) end

local function with(attrs, name, value)
  local out = {}
  for k, v in pairs(attrs) do out[k] = v end
  out[name] = value
  return out
end

--- count trials of the op, then each dtype, then each attribute with other values, these with matrices, and with squares beside them.
-- The last list is kept, with what its calls gave: each property of an op asks it.
local last = {}
function M.calls(op, count)
  if last.op == op and last.count == count then return last.list end
  local list, trials = {}, late.trials(op, count)
  last = { op = op, count = count, list = list }
  for i, inputs in ipairs(trials) do list[i] = { inputs = inputs, attrs = op.given } end
  local places, names = variable_of(op)
  local some = { late.alike(op, 3), count > 4 and late.alike(op, 7) or nil }
  for _, dtype in ipairs(names) do
    for _, inputs in ipairs(some) do list[#list + 1] = { inputs = retyped(inputs, places, late.like, dtype), attrs = op.given, dtype = dtype } end
  end
  local before = {}
  for i, inputs in ipairs(some) do before[i] = { inputs = inputs, attrs = op.given } end
  for _, a in ipairs(op.entry.attrs) do
    for _, value in ipairs(OTHERS[a.kind] or {}) do
      for i, inputs in ipairs(some) do
        list[#list + 1] = { inputs = inputs, attrs = with(op.given, a.name, value), changed = a.name, before = before[i] }
      end
    end
  end
  return list
end

local function told(v)
  if type(v) ~= 'table' then return tostring(v) end
  local out = {}
  for i, x in ipairs(v) do out[i] = tostring(x) end
  return '{' .. table.concat(out, ', ') .. '}'
end

--- A call in words.
function M.told(op, call)
  local out = {}
  for k, v in pairs(call.attrs) do out[#out + 1] = k .. ' = ' .. told(v) end
  table.sort(out)
  return ('%s(%s%s)'):format(op.type, late.told(call.inputs), #out > 0 and '; ' .. table.concat(out, ', ') or '')
end

-- ---- runs --------------------------------------------------------------------------------------------------------------
--- Builds the call, input i as make(i, tensor) gives it: its outputs, or nil and the error.
local function built(op, call, make)
  local args = {}
  for i, t in ipairs(call.inputs) do
    local x = make(i, t)
    args[i] = op.entry.inputs[i].list and { x, x } or x
  end
  local results = { pcall(registry.op, op.type, args, call.attrs) }
  if not results[1] then return nil, results[2] end
  table.remove(results, 1)
  if #results == 1 and type(results[1]) == 'table' and df.type(results[1]) ~= 'output' then results = results[1] end
  return results
end

--- What the call gives when nothing is known of its inputs before: Tensors, or nil and the error; with the kernels named.
local function run(op, call, kernels)
  df.reset()
  local feeds = {}
  local results, why = built(op, call, function(_, t)
    local x = df.placeholder(t.dtype)
    feeds[x] = t
    return x
  end)
  if not results then return nil, why end
  if df.type(results[1]) ~= 'output' then return nil, { code = 'none', message = 'it has no outputs' } end
  local session = df.Session{ kernels = kernels }
  local ok, got = pcall(session.run, session, results, feeds, { timeout = 20, tensors = true })
  session:close()
  if not ok then return nil, got end
  return got
end

--- The same, of each call once.
function M.run(op, call, kernels)
  call.ran = call.ran or {}
  local ran = call.ran[kernels or 'any']
  if not ran then
    ran = { run(op, call, kernels) }
    call.ran[kernels or 'any'] = ran
  end
  return ran[1], ran[2]
end

local function words(why) return type(why) == 'table' and (why.message or ''):match '^[^\n]*' or tostring(why) end

-- ---- properties --------------------------------------------------------------------------------------------------------
local COARSE = { float16 = 1e-2, bfloat16 = 6e-2, float32 = 1e-4, complex64 = 1e-4 }

local function coarsest(call, got)
  local rtol = 1e-6
  for _, t in ipairs(call.inputs) do rtol = math.max(rtol, COARSE[t.dtype] or 0) end
  for _, t in ipairs(got) do rtol = math.max(rtol, COARSE[t.dtype] or 0) end
  return rtol
end

local function compare(found, wanted, rtol)
  if #found ~= #wanted then return ('%d outputs instead of %d'):format(#found, #wanted) end
  for i, t in ipairs(found) do
    local w = wanted[i]
    if table.concat(t.shape, ',') ~= table.concat(w.shape, ',') then return ('output %d is %s, not %s'):format(i - 1, tostring(t.shape), tostring(w.shape)) end
    if t.dtype ~= 'variant' and t.dtype ~= 'resource' then
      local ok, why = pcall(support.near, t:list(), w:list(), { rtol = rtol, atol = rtol / 5 })
      if not ok then return ('output %d: %s'):format(i - 1, tostring(why)) end
    end
  end
end

--- The kernels of the CPU and the reference give the same, or refuse with the same words.
function M.kernels(op, call)
  local found, why = M.run(op, call, 'cpu')
  local wanted, other = M.run(op, call, 'ref')
  if not found or not wanted then
    if not found and not wanted and words(why) == words(other) and why.code == other.code then return nil end
    return ('cpu: %s; ref: %s'):format(found and 'works' or words(why), wanted and 'works' or words(other))
  end
  return compare(found, wanted, coarsest(call, found))
end

local function shape_text(y) return y.dtype .. (y.shape and '[' .. table.concat(y.shape, ',') .. ']' or '?') end

--- Is shape, as known while building, true of the Tensor? Unknown is nil, or -1.
local function agrees(shape, t)
  if not shape then return true end
  if #shape ~= #t.shape then return false end
  for i, d in ipairs(shape) do if d >= 0 and d ~= t.shape[i] then return false end end
  return true
end

--- Does `more` say all that `less` says?
local function implies(more, less)
  if not less then return true end
  if not more or #more ~= #less then return false end
  for i, d in ipairs(less) do if d >= 0 and d ~= more[i] then return false end end
  return true
end

local function unknown(t, at)
  local shape = {}
  for i, d in ipairs(t.shape) do shape[i] = (not at or i == at) and -1 or d end
  return shape
end

--- Ways to know something of the inputs, the most knowing first: { words, make(i, tensor) }.
local function views(call)
  local list = {
    { 'constants', function(_, t) return df.constant(t) end },
    { 'shapes', function(_, t) return df.placeholder(t.dtype, t.shape) end },
    { 'ranks', function(_, t) return df.placeholder(t.dtype, unknown(t)) end },
    { 'nothing', function(_, t) return df.placeholder(t.dtype) end },
  }
  for k, t in ipairs(call.inputs) do
    if #call.inputs > 1 then
      list[#list + 1] = { 'shapes, not of input ' .. k - 1, function(i, x) return df.placeholder(x.dtype, i ~= k and x.shape or nil) end }
      list[#list + 1] = { 'shapes and input ' .. k - 1, function(i, x) return i == k and df.constant(x) or df.placeholder(x.dtype, x.shape) end }
    end
    for d = 1, #t.shape do
      list[#list + 1] = { ('shapes, not dimension %d of input %d'):format(d - 1, k - 1), function(i, x)
        return df.placeholder(x.dtype, i == k and unknown(x, d) or x.shape)
      end }
    end
  end
  return list
end

--- What is known of the results while building is true of what a run gives; nothing is refused that a run would take; and knowing
-- more of the inputs is not to know less of the results. Also: how many dimensions constants leave open.
function M.shapes(op, call)
  local got = M.run(op, call)
  local known, open
  for _, view in ipairs(views(call)) do
    df.reset()
    local results, refused = built(op, call, view[2])
    if not results and got then return ('knowing %s it is refused, but runs: %s'):format(view[1], words(refused)) end
    if results and got and #results ~= #got then return ('knowing %s it has %d outputs, a run %d'):format(view[1], #results, #got) end
    for i, y in ipairs(got and results or {}) do
      local t = got[i]
      if y.dtype ~= t.dtype or not agrees(y.shape, t) then
        return ('knowing %s output %d is %s, in a run %s[%s]'):format(view[1], i - 1, shape_text(y), t.dtype, table.concat(t.shape, ','))
      end
      if known and not implies(known[i], y.shape or nil) then
        return ('knowing %s output %d is %s, knowing constants it is %s'):format(view[1], i - 1, shape_text(y), known[i] and table.concat(known[i], ',') or '?')
      end
    end
    if got and results and not known then
      known, open = {}, 0
      for i, y in ipairs(results) do
        known[i] = y.shape or false
        for _, d in ipairs(y.shape or { -1 }) do open = open + (d < 0 and 1 or 0) end
      end
    end
  end
  return nil, open
end

local WIDE = { int = 'int64', uint = 'int64', float = 'float64', bfloat = 'float64', complex = 'complex128' }
local RANGE = { int8 = { -128, 127 }, int16 = { -32768, 32767 }, int32 = { -2 ^ 31, 2 ^ 31 - 1 }, uint8 = { 0, 255 }, uint16 = { 0, 65535 },
                uint32 = { 0, 2 ^ 32 - 1 }, uint64 = { 0, 2 ^ 53 }, int64 = { -2 ^ 53, 2 ^ 53 } }

-- What these give depends on the dtype itself: its size, or an attribute that must go with it.
local BY_DTYPE = { Bitcast = true, BatchMatMulV3 = true }

--- Is each element of these a whole number?
local function whole(list)
  for _, t in ipairs(list) do
    if t.dtype == 'string' then return false end
    for _, v in ipairs(t:list()) do if type(v) == 'number' and (v ~= v or v % 1 ~= 0) then return false end end
  end
  return true
end

--- The real parts of complex Tensors whose imaginary parts are zero, or nil.
local function real(list)
  local out = {}
  for i, t in ipairs(list) do
    local numbers = t:list()
    for k, v in ipairs(numbers) do
      if type(v) == 'table' then
        if math.abs(v.im) > 1e-6 or v.im ~= v.im then return nil end
        numbers[k] = v.re
      end
    end
    out[i] = t.dtype:find 'complex' and df.tensor(numbers, 'float64', t.shape) or t
  end
  return out
end

--- A dtype gives what the widest of its kind gives of the same values, rounded to it; and whole and complex numbers what float64 gives,
-- where that is whole, or real.
function M.dtypes(op, call)
  local kind = call.dtype and call.dtype:match '^%a+'
  if not kind or not WIDE[kind] or BY_DTYPE[op.type] then return nil end
  local places, names = variable_of(op)
  local takes = {}
  for _, name in ipairs(names) do takes[name] = true end
  for _, wide in ipairs{ WIDE[kind], 'float64' } do
    if takes[wide] and wide ~= call.dtype then
      local found, why = M.run(op, call)
      local wanted, other = M.run(op, { inputs = retyped(call.inputs, places, wide == WIDE[kind] and cast or plain, wide), attrs = call.attrs })
      local judged = true
      if wide ~= WIDE[kind] then
        if found and kind == 'complex' then found = real(found) end
        judged = found and wanted and (kind == 'complex' or whole(wanted))
      elseif not found or not wanted then
        if found or wanted or why.code ~= other.code then
          return ('%s: %s; %s: %s'):format(call.dtype, found and 'works' or words(why), wide, wanted and 'works' or words(other))
        end
        judged = false
      end
      judged = judged and found[1].dtype ~= 'string'            -- numbers as text
      for i, t in ipairs(judged and wanted or {}) do            -- what has no place in the narrow dtype wraps there
        local range = found[i] and RANGE[found[i].dtype]
        for _, v in ipairs(range and t.dtype ~= 'bool' and t:list() or {}) do
          v = tonumber(v)
          judged = judged and v and v >= range[1] and v <= range[2]
        end
      end
      local wrong = judged and compare(found, wanted, coarsest(call, found))
      if wrong then return ('%s beside %s: %s'):format(call.dtype, wide, wrong) end
    end
  end
end

-- Where the words are TensorFlow's, or there is nothing of a call to tell.
local TELL_NOTHING = { Cholesky = true, HistogramFixedWidth = true, MatrixInverse = true, MatrixSolve = true, MergeSummary = true,
                       Transfer = true }
local CODES = { invalid_argument = true, out_of_range = true, not_found = true, unimplemented = true, failed_precondition = true }

--- What a refusal must say: its code, the op, the line, and something of the call that is wrong.
function M.message(op, call, why)
  if type(why) ~= 'table' or not why.message then return 'it is no error of dflow: ' .. tostring(why) end
  local text, first = tostring(why), words(why)
  if not CODES[why.code] then return ('its code is %s: %s'):format(tostring(why.code), first) end
  if not text:find('every_op%.lua:%d+') then return 'it has no line: ' .. text end
  if not text:find(op.type, 1, true) and not (op.entry.lua and text:find(op.entry.lua, 1, true)) then return 'it does not name the op: ' .. text end
  if first:find('%(null%)') or first:find('%%[dzl]') or first:find('0x%x') or first:find('table: ') or first:find('%f[%w]nil%f[%W]') then
    return 'it has what no reader wants: ' .. first
  end
  for i, a in ipairs(op.entry.inputs) do
    local t, said = call.inputs[i], first:match('%f[%w_]' .. a.name .. ' is (%w+%[[%d,]*%])')
    if said and not a.list and said ~= shape_text(t) then return ('%s is %s: %s'):format(a.name, shape_text(t), first) end
  end
  local function says(v) return first:find('%f[%w-]' .. tostring(v):gsub('%p', '%%%0') .. '%f[^%w]') end
  for i, t in ipairs(call.inputs) do
    if first:find(t.dtype, 1, true) or says(t.rank) or says(t.size)
      or t.rank == 0 and first:find 'scalar' then return nil end
    for _, v in ipairs(t.shape) do if says(v) then return nil end end
    for _, v in ipairs(t:list()) do if v == '' and first:find "''" or t.size < 9 and says(v) then return nil end end
  end
  for name, v in pairs(call.attrs) do if first:find(name, 1, true) or says(v) then return nil end end
  for _, expected in ipairs{ 'must', 'expected', 'not supported', 'at most', 'division by zero', 'no integer', 'is missing', '%[%]' } do
    if first:find(expected) then return nil end
  end
  return not TELL_NOTHING[op.type] and 'it tells nothing of the call: ' .. first or nil
end

--- Refusals are well told, whether they are met while building or in a run.
function M.messages(op, call)
  for _, early in ipairs{ true, false } do
    df.reset()
    local feeds = {}
    local results, why = built(op, call, function(_, t)
      if early then return df.constant(t) end
      local x = df.placeholder(t.dtype)
      feeds[x] = t
      return x
    end)
    if results and df.type(results[1]) == 'output' then
      local ok, e = pcall(df.run, results, feeds, { timeout = 20, tensors = true })
      why = not ok and e or nil
    end
    if why then
      local wrong = M.message(op, call, why)
      if wrong then return wrong end
    end
  end
  -- An attribute that alone makes a call wrong is named, or what it was.
  if call.changed and M.run(op, call.before) then
    local got, why = M.run(op, call)
    if got or why.code == 'none' or words(why):find(call.changed, 1, true) then return nil end
    local value = call.attrs[call.changed]
    for _, v in ipairs(type(value) == 'table' and value or { value }) do
      if words(why):find(tostring(v), 1, true) then return nil end
    end
    return ('%s is not named: %s'):format(call.changed, words(why))
  end
end

-- ---- lanes -------------------------------------------------------------------------------------------------------------
--- The inputs for another lane: the same shapes, other numbers of each float.
local function other_lane(inputs)
  local out = {}
  for i, t in ipairs(inputs) do
    out[i] = t
    if t.dtype:find '^float' and t.size > 0 then
      local list, turned = t:list(), {}
      for k = 1, #list do turned[k] = list[#list + 1 - k] * 1.5 end
      out[i] = df.tensor(turned, t.dtype, t.shape)
    end
  end
  return out
end

local function one_shape(found, wanted)
  if not wanted or #found ~= #wanted then return false end
  for i, t in ipairs(found) do if table.concat(t.shape, ',') ~= table.concat(wanted[i].shape, ',') then return false end end
  return true
end

--- df.vmap of the op gives what the op gives of each of two lanes; all inputs have lanes, or one. Nothing is said where the op refuses a
-- lane, or gives the two different shapes.
function M.lanes(op, call)
  local first = M.run(op, call)
  if not first or #first == 0 or first[1].dtype == 'variant' or first[1].dtype == 'resource' then return nil end
  local count = #call.inputs
  for only = 0, count > 1 and count or 0 do
    local changed, inputs = other_lane(call.inputs), {}
    for i, t in ipairs(call.inputs) do inputs[i] = (only == 0 or i == only) and changed[i] or t end
    local second = M.run(op, { inputs = inputs, attrs = call.attrs })
    if one_shape(first, second) then
      df.reset()
      local args, axes = {}, {}
      for i, t in ipairs(call.inputs) do
        axes[i] = (only == 0 or i == only) and 0
        args[i] = axes[i] and df.stack({ df.constant(t), df.constant(inputs[i]) }, { axis = 0 }) or df.constant(t)
      end
      local ok, got = pcall(function()
        local lanes = { df.vmap(function(...)
          local given = { ... }
          return unpack((assert(built(op, call, function(i) return given[i] end))))
        end, { in_axes = axes })(unpack(args, 1, count)) }
        return df.run(lanes, {}, { timeout = 20, tensors = true })
      end)
      if not ok then return ('lanes in %s: %s'):format(only == 0 and 'all' or only - 1, words(got)) end
      for lane, wanted in ipairs{ first, second } do
        local rows = {}
        for i, t in ipairs(got) do rows[i] = t:at(lane - 1) end
        for i, row in ipairs(rows) do if df.type(row) ~= 'tensor' then rows[i] = df.tensor(row, got[i].dtype) end end
        local why = compare(rows, wanted, coarsest(call, first))
        if why then return ('lanes in %s, lane %d: %s'):format(only == 0 and 'all' or only - 1, lane - 1, why) end
      end
    end
  end
end

return M
