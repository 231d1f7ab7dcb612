--- What autograph asks of values: which the graph decides, which can be loop variables, and what comes of Lua's
-- operators on them.
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local tensor = require 'dflow.front.tensor'
local variable = require 'dflow.front.variable'
local tensor_array = require 'dflow.front.tensor_array'
local convert = require 'dflow.front.convert'
local ops = require 'dflow.front.ops'
local call_user = require 'dflow.front.call'

local M = {}
local Output, Variable, TensorArray, Tensor = graph.Output, variable.Variable, tensor_array.TensorArray, tensor.Tensor
local f = ops.functions
local getmetatable, type = getmetatable, type

--- Set by autograph/recursion.lua: are results of a function looked for, and the results of the first of two functions
-- that has any?
function M.is_inferring() return false end
M.first_of = nil
--- Set by autograph/runtime.lua: cond, as one of the statements that are being built.
M.cond = nil

--- Is it a value that only a run knows?
local function is_graph(v)
  local mt = getmetatable(v)
  return mt == Output or mt == Variable
end
M.is_graph = is_graph

local function is_bool(v)
  local mt = getmetatable(v)
  return mt == Output and graph.dtype(v) == dtypes.BOOL or mt == Variable and v.d == dtypes.BOOL
end

--- The Output that decides where v stands as a condition; nil where Lua decides: an Output of another dtype is true,
-- like any value of Lua's.
function M.condition(v)
  if not is_bool(v) then return nil end
  v = convert.to_output(v)
  if (graph.rank(v) or 0) ~= 0 then
    errors.bad('the condition is %s, a scalar bool is expected: df.reduce_all(p) or df.reduce_any(p) make one; `p ~= '
               .. 'nil` asks whether there is one; '
               .. 'by elements it is df.where(p, a, b)', tensor.shape_text(v.dtype, v.shape))
  end
  return v
end

-- ---- whether a condition is the graph's -----------------------------------------------------------------------------
-- A condition of names, numbers, comparisons and logic alone can be asked what decides it without building anything:
-- while it is, what the graph decides is DECIDES.
local DECIDES = {}
local asking = false

--- Does the graph decide what test() gives? true, or false and what it gives.
function M.decides(test)
  asking = true
  local ok, c = pcall(test)
  asking = false
  if not ok then error(c, 0) end
  if c == DECIDES or M.condition(c) then return true end
  return false, c
end

-- ---- and, or, not ---------------------------------------------------------------------------------------------------
--- What a bool Output a and b() are together.
-- @param stop  what a is where b is not asked: false for `and`
local function logic(a, b, simple, stop)
  local word = stop and 'or' or 'and'
  local function checked(v)
    if not (type(v) == 'boolean' or is_bool(v)) then
      errors.bad(stop and '`p or x` with a bool Output p gives p or x, here %s, which has another dtype: df.where or '
                          .. '`p and a or b` choose'
                 or '`p and x` with a bool Output p gives false or x, here %s: write `p and x or y`',
                 errors.describe(v))
    end
    return v
  end
  a = convert.to_output(a)
  if simple or (graph.rank(a) or 0) ~= 0 then
    local v = checked(b())
    if type(v) == 'boolean' then
      if v == stop then return stop end
      return a
    end
    return f['logical_' .. word](a, v)
  end
  local function other() return (checked(call_user(b)[1])) end
  local function known() return convert.constant(a.graph, stop) end
  if M.is_inferring() then return (M.first_of(other, function() return a end)) end
  if stop then return (M.cond(a, known, other)) end
  return (M.cond(a, other, known))
end

--- a and b()
function M.and_(a, b, simple)
  if asking and (a == DECIDES or is_bool(a)) then return DECIDES end
  if is_bool(a) then return logic(a, b, simple, false) end
  return a and b()
end

--- a or b()
function M.or_(a, b, simple)
  if asking and (a == DECIDES or is_bool(a)) then return DECIDES end
  if is_bool(a) then return logic(a, b, simple, true) end
  return a or b()
end

--- a and b() or c()
function M.choose(a, b, c, simple)
  if asking and (a == DECIDES or is_bool(a)) then return DECIDES end
  if not is_bool(a) then
    local v = a and b()
    if is_bool(v) then return logic(v, c, simple, true) end
    return v or c()
  end
  a = convert.to_output(a)
  if (graph.rank(a) or 0) ~= 0 then
    local x = b()
    if is_bool(x) then return logic(logic(a, function() return x end, true, false), c, simple, true) end
    return f.where(a, x, c())
  end
  if M.is_inferring() then return (M.first_of(b, c)) end
  if simple then
    local g = graph.current()
    local mark = core.graph_mark(g.handle)
    local x = b()
    local decides = x == nil or type(x) == 'boolean' or is_bool(x)
    if decides or not is_graph(x) or x.graph ~= g then core.graph_keep(g.handle, mark) else graph.undo(g, mark) end
    if not x then return c() end
    if decides then return logic(logic(a, function() return x end, true, false), c, true, true) end
  end
  return (M.cond(a, function()
    local x = call_user(b)[1]
    if is_bool(x) then return (logic(x, c, simple, true)) end
    return x or call_user(c)[1]
  end, function() return call_user(c)[1] end))
end

function M.not_(a)
  if asking and (a == DECIDES or is_bool(a)) then return DECIDES end
  if is_bool(a) then return f.logical_not(a) end
  return not a
end

-- ---- comparisons ----------------------------------------------------------------------------------------------------
--- A comparison of Lua's, whose metamethods build what they like.
local function by_lua(fn)
  asking = false
  local r = fn()
  asking = true
  return r
end

local function compares_values(a, b)
  if a == nil or b == nil then return false end
  if getmetatable(a) == Variable and getmetatable(b) == Variable then return false end
  return is_graph(a) or is_graph(b)
end

function M.eq(a, b)
  if compares_values(a, b) then return asking and DECIDES or f.equal(a, b) end
  if asking then return by_lua(function() return a == b end) end
  return a == b
end

function M.ne(a, b)
  if compares_values(a, b) then return asking and DECIDES or f.not_equal(a, b) end
  if asking then return by_lua(function() return a ~= b end) end
  return a ~= b
end

function M.lt(a, b)
  if is_graph(a) or is_graph(b) then return asking and DECIDES or f.less(a, b) end
  if asking then return by_lua(function() return a < b end) end
  return a < b
end

function M.le(a, b)
  if is_graph(a) or is_graph(b) then return asking and DECIDES or f.less_equal(a, b) end
  if asking then return by_lua(function() return a <= b end) end
  return a <= b
end

function M.gt(a, b)
  if is_graph(a) or is_graph(b) then return asking and DECIDES or f.greater(a, b) end
  if asking then return by_lua(function() return a > b end) end
  return a > b
end

function M.ge(a, b)
  if is_graph(a) or is_graph(b) then return asking and DECIDES or f.greater_equal(a, b) end
  if asking then return by_lua(function() return a >= b end) end
  return a >= b
end

-- ---- kinds ----------------------------------------------------------------------------------------------------------
--- Can v be a result of a branch or a loop variable? A table counts when all that is in it can.
function M.is_value(v, depth)
  local kind = type(v)
  if kind == 'number' or kind == 'boolean' or kind == 'cdata' then return true end
  if kind ~= 'table' then return false end
  local mt = getmetatable(v)
  if mt == Output or mt == Variable or mt == Tensor or mt == TensorArray then return true end
  if not errors.is_data(v) then return rawget(mt, 'as_output') ~= nil and mt ~= graph.Operation end
  if next(v) == nil then return false end
  depth = errors.deeper(depth)
  for _, x in pairs(v) do if not M.is_value(x, depth) then return false end end
  return true
end

--- What stands in the place of v where v is not made: as large, where that is known.
function M.placeholder(v)
  return nest.map(v, nest.is_structure, function(x)
    if not M.is_value(x) or getmetatable(x) == TensorArray then return nil end
    local o = is_graph(x) and convert.to_output(x) or nil
    local shape = o and o.shape or {}
    local dims = {}
    for i, n in ipairs(shape) do dims[i] = n < 0 and 0 or n end
    local d = convert.typed(x)
    if not d then return x end
    if d == dtypes.STRING then return tensor.from('', d, #dims > 0 and dims or nil) end
    return tensor.from(d == dtypes.BOOL and false or 0, d, dims)
  end)
end

--- A value outside of the loop that is being built, with what is known of the shape of o.
function M.unknown(o)
  local zero = convert.to_output(M.placeholder(o), nil, o.graph)
  local shape = o.shape
  local known = shape ~= nil
  for _, n in ipairs(shape or {}) do known = known and n >= 0 end
  if known then return zero end
  return f.placeholder_with_default(zero, shape or false)
end

--- x, of which nothing more is known than of the shape of o.
function M.as_wide(x, o)
  local a, b = x.shape, o.shape
  local same = a ~= nil and b ~= nil and #a == #b
  for i = 1, same and #a or 0 do same = same and a[i] == b[i] and a[i] >= 0 end
  if same then return x end
  return f.placeholder_with_default(x, b or false)
end

--- What a message calls v.
function M.describe(v)
  if v == nil then return 'nil' end
  if is_graph(v) then return tensor.shape_text(v.dtype, v.shape) end
  return errors.describe(v)
end

return M
