--- Arithmetic of Tensors: an op is built in a graph of its own, which runs at once and is gone.
--
-- What comes back is what df.run gives: a Tensor, or of rank 0 a Lua number or boolean. For looking at results at a prompt and in
-- scripts; what belongs together is quicker as one graph. Nothing of it is differentiated.
local errors = require 'dflow.front.errors'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local ops = require 'dflow.front.ops'

local M = {}
local Tensor, Output = tensor.Tensor, graph.Output
local unpack = graph.unpack

--- Short names of NumPy that a Tensor has besides those of the ops.
M.short = { sum = 'reduce_sum', mean = 'reduce_mean', max = 'reduce_max', min = 'reduce_min', prod = 'reduce_prod', all = 'reduce_all',
            any = 'reduce_any' }

-- Ops that make no sense of a value: what they give is no value, or they are there for their effect.
local none = { shape = true, rank = true, size = true, dtype = true, name = true, op = true, placeholder = true, placeholder_with_default = true,
               print = true, assert = true, constant = true, stop_gradient = true }

--- The function of Tensors that an op is; nil where it is none.
function M.method(name)
  name = M.short[name] or name
  if none[name] then return nil end
  local f = ops.find(name)
  if not f then return nil end
  return function(t, ...)
    if getmetatable(t) ~= Tensor then
      errors.bad('%s is a method: write t:%s(…), with a colon; its first argument is %s', name, name, errors.describe(t))
    end
    return M.apply(name, t, ...)
  end
end

local function pack(...)
  return { n = select('#', ...), ... }
end

--- What the op gives of these values. With an Output or a Variable among them it is a node of theirs.
function M.apply(name, ...)
  local f = ops.find(name)
  for i = 1, select('#', ...) do
    local mt = getmetatable((select(i, ...)))
    if type(mt) == 'table' and (mt == Output or rawget(mt, 'is_value')) then return f(...) end
  end
  local g = graph.new_graph()
  local session = require 'dflow.front.session'
  local args = pack(...)
  local results = pack(g:as_default(function() return f(unpack(args, 1, args.n)) end))
  local s = session.new{ graph = g, threads = 1 }
  local ok, values = pcall(function()
    local list = {}
    for i = 1, results.n do list[i] = session.run_here(s, results[i]) end
    return list
  end)
  s:close()
  if not ok then error(values, 0) end
  return unpack(values, 1, results.n)
end

return M
