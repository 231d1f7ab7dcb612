--- From what a user writes (numbers, tables, Tensors, Variables, Outputs) to Outputs.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local intern = require 'dflow.front.intern'

local M = {}
local Output, Tensor = graph.Output, tensor.Tensor
local getmetatable, type, rawget = getmetatable, type, rawget

--- Can it be called with values: a function, a graph function, a layer?
function M.is_callable(v)
  local mt = getmetatable(v)
  if mt == Output or mt == graph.Operation then return false end
  return type(v) == 'function' or type(mt) == 'table' and rawget(mt, '__call') ~= nil
end

--- The dtype number of a value that has one by itself (an Output, a Tensor, ...); nil for bare values.
function M.typed(v, depth)
  local mt = getmetatable(v)
  if mt == Output then return graph.dtype(v) end
  if type(v) ~= 'table' then return nil end
  if mt == Tensor then return (core.tensor_info(v)) end
  if not errors.is_data(v) then
    local of = rawget(mt, 'dtype_of')
    return of and of(v)
  end
  depth = errors.deeper(depth)
  for _, x in pairs(v) do       -- a list that holds a typed value anywhere
    if type(x) == 'table' then
      local d = M.typed(x, depth)
      if d then return d end
    end
  end
end

--- The graph that a value belongs to, nil for plain values.
function M.graph_of(v, depth)
  if type(v) ~= 'table' then return nil end
  local mt = getmetatable(v)
  if mt == Output or mt == graph.Operation then return v.graph end
  if mt and not errors.is_data(v) and not nest.is_composite(v) then return rawget(v, 'graph') end
  depth = errors.deeper(depth)
  for _, x in pairs(v) do
    local g = type(x) == 'table' and M.graph_of(x, depth)
    if g then return g end
  end
end

local function cannot_hold(v, dtype, what)
  local shown = type(v) == 'string' and ('%q'):format(v) or tostring(v)
  if type(v) == 'number' and dtypes.is_whole_only(dtype) then
    errors.bad('%sthe number %s cannot be held by dtype %s%s', what and what .. ': ' or '', shown, dtypes.name[dtype],
               (dtypes.is_whole(v) or not what or dtypes.number[what]) and ''
               or ": cast the other operand, as in df.cast(x, 'float32')")
  end
  errors.bad('%s%s %s is no value of dtype %s', what and what .. ': ' or '', type(v), shown, dtypes.name[dtype])
end

--- A Const node of a bare value or Tensor.
-- @param dtype  a number or nil
function M.constant(g, v, dtype, shape, name, what, where)
  local kind = type(v)
  if (kind == 'number' or kind == 'boolean' or kind == 'cdata') and not shape then
    local d = dtype or dtypes.of_bare(v)
    if d and not dtypes.is_boxed(d) then
      local node = core.constant_scalar(g.handle, d, v, name, where or core.where())
      if node then return graph.fresh(g, node) end
      cannot_hold(v, d, what)
    end
  end
  if kind ~= 'number' and kind ~= 'boolean' and kind ~= 'string' and kind ~= 'table' and kind ~= 'cdata' then
    errors.bad('%s%s was given; expected an Output, a number, a boolean, a string, a table of these or a Tensor',
               what and what .. ': ' or '', v == nil and 'nothing (nil)' or errors.describe(v))
  end
  local t = tensor.from(v, dtype, shape, what)
  return graph.fresh(g, core.constant_tensor(g.handle, t, name, where or core.where()))
end
local constant = M.constant

--- The same for a value that stands where an Output is taken.
local function literal(g, v, dtype, what)
  if not g.period then return constant(g, v, dtype, nil, nil, what) end
  return intern.literal(g, v, dtype, function() return constant(g, v, dtype, nil, nil, what) end)
end

--- A list of int32, which may be empty.
function M.list(g, v)
  local function make() return constant(g, v, 3, { #v }) end
  if not g.period then return make() end
  return intern.literal(g, v, 3, make)
end

--- The Output of any value.
-- @param dtype  the dtype number a bare value takes; nil: its own
-- @param g      the graph to build constants in; nil: the value's own, or the default graph
-- @param what   for messages: `matmul`
function M.to_output(v, dtype, g, what)
  local mt = getmetatable(v)
  if mt == Output then return v end
  if type(v) ~= 'table' then return literal(g or graph.current(), v, dtype, what) end
  if mt == Tensor then return literal(g or graph.current(), v, nil, what) end
  if not errors.is_data(v) then
    local convert = rawget(mt, 'as_output')
    if convert then return convert(v) end
    if mt == graph.Operation then
      errors.bad('%san operation (%s) was given where an Output is expected', what and what .. ': ' or '', v.name)
    end
    errors.bad('%s%s was given where an Output is expected', what and what .. ': ' or '', errors.describe(v))
  end
  if nest.is_structure(v) then      -- a list with Outputs in it is packed
    if nest.has_names(v) then
      errors.bad('%sa table with names was given where an Output is expected', what and what .. ': ' or '')
    end
    local d = dtype or M.typed(v)
    g = g or M.graph_of(v)
    local parts = {}
    for i = 1, #v do parts[i] = M.to_output(v[i], d, g, what) end
    return M.pack(parts, what)
  end
  return literal(g or graph.current(), v, dtype, what)
end

--- fn, but when it fails, what it built in the graph of its first argument goes.
function M.whole(fn)
  return errors.in_front(function(...)
    return graph.attempt(M.graph_of((...)) or graph.current(), fn, ...)
  end, fn)
end

--- Set by the ops module: stacks a list of Outputs along axis 0.
function M.pack() end

return M
