--- df.checkpoint: computes what a function does, keeps only what it was given, and computes it again for the gradient.
--
-- It is a loop of one trip with save = 'recompute': that holds nothing but its captured values, and runs its trip again
-- when the gradient has come to it. In the body of another loop it does not begin before what the iteration begins with
-- has come, so iterations that run ahead do not hold what it gives. What is drawn at random or has effects is not done
-- again, wherever inside the function it stands. The results come out through TensorArrays, whose dtypes and shapes are
-- those of what the function returns; a result that is a TensorArray is itself a variable of the loop.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local Tensor = require('dflow.front.tensor').Tensor
local tensor_array = require 'dflow.front.tensor_array'
local call_user = require 'dflow.front.call'

local M = {}
local unpack = graph.unpack

local function is_array(v) return getmetatable(v) == tensor_array.TensorArray end

--- Gives what y, a result in the body that is being built, is after the loop: a function that is called there.
local function carried_out(g, y)
  if not is_array(y) then y = convert.to_output(y, nil, g, 'checkpoint') end
  local d = is_array(y) and y.d or graph.dtype(y)
  core.push_outer(g.handle)
  local ok, ta = pcall(tensor_array.new, d, is_array(y) and 0 or 1)
  core.pop_outer(g.handle)
  if not ok then error(ta, 0) end
  local number, node, index = core.while_add_var(g.handle, ta.handle.node, ta.handle.index)
  local last = is_array(y) and y.handle or tensor_array.wrap(graph.output(g, node, index), d):write(0, y).handle
  local out = tensor_array.wrap(graph.output(g, core.while_close_var(g.handle, number, last.node, last.index)), d)
  return function() return is_array(y) and out or out:read(0) end
end

--- An argument as the function gets it: numbers, tables of them and Tensors as Outputs, all else as it is.
local function given(g, v)
  local kind = type(v)
  if kind == 'nil' or kind == 'function' or kind == 'string' or (convert.typed(v) and getmetatable(v) ~= Tensor) then
    return v
  end
  return convert.to_output(v, nil, g, 'checkpoint')
end

--- df.checkpoint(fn): a function with the same values as fn, whose intermediates are not kept for the gradient.
-- @param fn  takes and returns Outputs, TensorArrays and structures of these; what else it uses it captures, and its
--            gradient goes there too. It is called once. Numbers it draws and what its effects give are kept: they
--            happen once, each time the checkpoint runs
function M.checkpoint(fn)
  if type(fn) ~= 'function' then errors.bad('checkpoint takes a function, not %s', errors.describe(fn)) end
  return function(...)
    local n, xs, ys, after = select('#', ...), {}, nil, {}
    local g = convert.graph_of({ ... }) or graph.current()
    for i = 1, n do
      xs[i] = nest.map((select(i, ...)), nest.is_structure, function(v) return given(g, v) end)
    end
    local function is_inner(t) return t == ys or nest.is_structure(t) end
    return graph.with(g, function()
      control.while_loop(function(i) return i:lt(1) end, function(i)
        ys = call_user(fn, unpack(xs, 1, n))
        local count = ys.n
        if count == 0 then errors.bad('checkpoint: the function returns nothing') end
        for k = 1, count do
          if ys[k] == nil then errors.bad('checkpoint: result %d of the function is nil', k) end
        end
        ys.n = nil
        nest.each(ys, is_inner, function(y) after[#after + 1] = carried_out(g, y) end)
        return i + 1
      end, { convert.to_output(0, 3, g, 'checkpoint') }, { save = 'recompute', name = 'checkpoint' })
      for k, value in ipairs(after) do after[k] = value() end
      return unpack(nest.pack(ys, after, is_inner))
    end)
  end
end

return M
