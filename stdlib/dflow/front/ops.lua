--- The ops of df: what the registry gives, and adapters where Lua's surface differs from the node (an axis in the
-- options, a list that is split, a default that depends on the rank), which are in ops_array.lua, ops_make.lua and
-- ops_nn.lua.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local nest = require 'dflow.front.nest'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local arguments = require 'dflow.front.arguments'
require 'dflow.front.ops_array'
require 'dflow.front.ops_make'
require 'dflow.front.ops_linalg'
local attention = require 'dflow.front.ops_attention'
require 'dflow.front.ops_composed'
require 'dflow.front.ops_window'

for name, adapter in pairs(arguments.functions) do arguments.functions[name] = convert.whole(adapter) end

local M = { functions = arguments.functions, arguments = arguments.of, causal_mask = attention.causal_mask,
            causal_offset = attention.causal_offset }
local functions = M.functions
local op, typed = registry.op, convert.typed
local Output = graph.Output
local getmetatable, type = getmetatable, type

-- ---- finding functions ----------------------------------------------------------------------------------------------
functions.divide = functions.div
local aliases = { lt = 'less', le = 'less_equal', gt = 'greater', ge = 'greater_equal', eq = 'equal', ne = 'not_equal',
                  neg = 'negative', multiply = 'mul', subtract = 'sub', mod = 'floormod', floor_mod = 'floormod',
                  floor_div = 'floordiv', reverse_v2 = 'reverse',
                  negative = 'neg', mul = 'multiply', sub = 'subtract', floormod = 'floor_mod', floordiv = 'floor_div',
                  batch_matmul = 'matmul', logsumexp = 'reduce_logsumexp',
                  arg_max = 'argmax', local_response_normalization = 'lrn', arg_min = 'argmin',
                  parallel_stack = 'stack', slogdet = 'log_matrix_determinant', where_v2 = 'where',
                  tensor_scatter_nd_update = 'tensor_scatter_update', tensor_scatter_nd_add = 'tensor_scatter_add',
                  tensor_scatter_nd_sub = 'tensor_scatter_sub' }

M.aliases = aliases

--- The function of this name, or nil: an adapter, a registry entry, or an alias of one.
function M.find(name)
  local f = rawget(functions, name)
  if f then return f end
  local e = registry.entry(name)
  if e and e.lua == name then
    f = registry.make(e)
  else
    local other = aliases[name]
    if other then
      e = registry.entry(other)
      f = rawget(functions, other) or (e and e.lua == other and registry.make(e)) or nil
    end
  end
  functions[name] = f
  return f
end

setmetatable(functions, { __index = function(_, name) return M.find(name) end })

--- Names of all functions, sorted.
function M.names()
  local seen, list = {}, {}
  local function add(name)
    if not seen[name] then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  for name in pairs(functions) do add(name) end
  for _, name in ipairs(registry.names()) do add(name) end
  table.sort(list)
  return list
end

-- ---- methods, operators and indexing --------------------------------------------------------------------------------
--- What a metatable of something usable as an Output gets: __add and so on, which build nodes.
function M.operators(mt)
  local function call(name)
    local f
    return function(a, b)
      f = f or functions[name]
      if errors.is_data(b) and nest.has_names(b) and not dtypes.is_complex_value(b) then   -- it has no options
        errors.bad("%s: a table with the key '%s' was given where an Output is expected", name, tostring(next(b)))
      end
      return f(a, b)
    end
  end
  local function logical(on_bool, on_int)
    return function(a, b)
      local d = typed(a) or typed(b)
      return functions[(d == dtypes.BOOL or not d) and on_bool or on_int](a, b)
    end
  end
  mt.__add, mt.__sub, mt.__mul, mt.__pow = call 'add', call 'sub', call 'mul', call 'pow'
  mt.__div, mt.__mod, mt.__idiv = call 'div', call 'floormod', call 'floordiv'
  mt.__band, mt.__bor, mt.__bxor = logical('logical_and', 'bitwise_and'), logical('logical_or', 'bitwise_or'),
    logical('logical_xor', 'bitwise_xor')
  mt.__unm = function(a) return functions.neg(a) end
  mt.__bnot = function(a) return functions[typed(a) == dtypes.BOOL and 'logical_not' or 'invert'](a) end
end

--- df.newaxis: in x[{…}], a new axis of size 1.
M.newaxis = setmetatable({}, { __name = 'dflow.NewAxis', __tostring = function() return 'df.newaxis' end })

--- One entry of x[{…}]: where it begins and ends along its axis, and the masks that say more. `bit` stands for the
-- entry in them.
local function index_entry(at, bit, masks)
  if at == M.newaxis then
    masks.new_axis_mask = masks.new_axis_mask + bit
    return 0, 0
  end
  if not errors.is_data(at) then
    masks.shrink_axis_mask = masks.shrink_axis_mask + bit
    if at == -1 then masks.end_mask = masks.end_mask + bit return -1, 0 end
    return at, at + 1
  end
  if #at > 2 or nest.has_names(at) then
    errors.bad('x[{…}]: {from, to} is a part of an axis, {} all of it; this table has %d entries', #at)
  end
  if at[1] == nil then masks.begin_mask = masks.begin_mask + bit end
  if at[2] == nil then masks.end_mask = masks.end_mask + bit end
  return at[1] or 0, at[2] or 0
end

--- x[{0, {1, 3}, {}, df.newaxis}]: along each axis in turn an element, a part from and up to, all of it; or a new axis.
local function part(x, list)
  local first, last, steps, taken = {}, {}, {}, 0
  local masks = { begin_mask = 0, end_mask = 0, shrink_axis_mask = 0, new_axis_mask = 0 }
  for i = 1, #list do
    local at = list[i]
    if at ~= M.newaxis then taken = taken + 1 end
    for _, n in ipairs(errors.is_data(at) and at or at ~= M.newaxis and { at } or {}) do
      if type(n) == 'number' and not dtypes.is_whole(n) then
        errors.bad('x[{…}]: entry %d is %s, an index is a whole number', i, tostring(n))
      end
      if type(n) ~= 'number' and (typed(n) == nil or not dtypes.is_int(typed(n))) then
        errors.bad('x[{…}]: entry %d is %s; a whole number, {from, to}, {} or df.newaxis is expected', i,
                   errors.describe(n))
      end
    end
    first[i], last[i] = index_entry(at, 2 ^ (i - 1), masks)
    steps[i] = 1
  end
  local rank = graph.rank(x)
  if #list == 0 or nest.has_names(list) then
    errors.bad('x[{…}] takes a list, an entry for each axis: a whole number, {from, to}, {} or df.newaxis')
  end
  if rank and taken > rank then errors.bad('x[{…}]: the list is about %d axes, %s has %d', taken, x.name, rank) end
  for key, mask in pairs(masks) do masks[key] = mask > 0 and math.floor(mask) or nil end
  return op('StridedSlice', { x, arguments.int32(first, x.graph), arguments.int32(last, x.graph), steps }, masks)
end

--- x[i]: element i along axis 0, for a number or a scalar Output; x[{…}]: a part of several axes.
function M.element(x, i)
  if errors.is_data(i) then return part(x, i) end
  local shape = x.shape
  if shape and #shape == 0 then errors.bad('x[i] of a scalar: %s has no axis to index', x.name) end
  if type(i) ~= 'number' then
    local mt = type(i) == 'table' and getmetatable(i)
    if i == M.newaxis then return part(x, { i }) end
    if not mt then
      errors.bad('x[i] takes a number, a scalar Output, or a list with an entry for each axis, x[{0, df.newaxis}]; '
                 .. 'not %s', errors.describe(i))
    end
    if typed(i) == dtypes.BOOL then
      errors.bad('x[i] takes a whole number, not bool: df.boolean_mask(x, mask) gives the elements where mask is true')
    end
    local d = mt == graph.Output and graph.dtype(i)
    local known = (d == dtypes.INT32 or d == dtypes.INT64) and graph.rank(i) == 0 and graph.constant(i)
    if not known or known:item() >= 0 then return functions.gather(x, i) end
    i = known:item()
  end
  if not dtypes.is_whole(i) then errors.bad('x[%s]: an index is a whole number', tostring(i)) end
  local n = shape and shape[1] or -1
  if n >= 0 and (i >= n or i < -n) then
    errors.raise('out_of_range',
                 'x[%d] is past the end of axis 0 of %s %s; to go over the rows in Lua write ipairs(df.unstack(x))',
                 i, x.name, tensor.shape_text(x.dtype, shape))
  end
  return op('StridedSlice', { x, { i }, { i == -1 and 0 or i + 1 }, { 1 } },
            { shrink_axis_mask = 1, end_mask = i == -1 and 1 or nil })
end

-- Ops that are functions only, because an Output has a field of that name or a method would mislead.
local no_method = { shape = true, dtype = true, name = true, op = true, index = true, graph = true, rank = true,
                    size = true, constant = true, placeholder = true, zeros = true, ones = true, range = true, d = true,
                    read = true, node = true }

function M.find_method(name)
  if no_method[name] then return nil end
  local f = functions[name]
  if f then graph.methods[name] = f end
  return f
end

graph.hooks.find_method = M.find_method
graph.hooks.element = M.element
graph.hooks.names = M.names
M.operators(Output)

--- x:assign(v) of what is no variable, most often because `w = w - 0.1` made it an Output.
for _, name in ipairs{ 'assign', 'assign_add', 'assign_sub' } do
  graph.methods[name] = function(x)
    if getmetatable(x) ~= Output then
      errors.bad('%s is a method of a variable: write v:%s(x), with a colon', name, name)
    end
    errors.bad('%s: %s is an Output, not a Variable; w = w - 0.1 makes w the name of an Output: write '
               .. 'df.run(w:assign_sub(0.1))', name, x.name)
  end
end

function graph.methods.set_shape(x, shape)
  if getmetatable(x) ~= Output then
    errors.bad('set_shape is a method of an Output: write x:set_shape(shape), with a colon; its first argument is %s',
               errors.describe(x))
  end
  core.output_set_shape(x.graph.handle, x.node, x.index, tensor.check_static_shape(shape, 'set_shape'))
  return x
end

return M
