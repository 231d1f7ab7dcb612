--- df.checkpoint: computes what a function does, keeps only what it was given, and computes it again for the gradient.
--
-- It is a loop of one trip with save = 'recompute': that holds nothing but its captured values, and runs its trip again when the
-- gradient has come to it. What is drawn at random or has effects is not done again, wherever inside the function it
-- stands. The results come out through TensorArrays, whose dtypes and shapes are those of what the function returns.
local core = require 'dflow.backend'
local errors = require 'dflow.errors'
local graph = require 'dflow.graph'
local convert = require 'dflow.convert'
local control = require 'dflow.control'
local tensor_array = require 'dflow.tensor_array'
local call_user = require 'dflow.call'

local M = {}
local unpack = graph.unpack

--- An array of one place around the loop whose body is being built, with y in it; gives the array after the loop.
local function carried_out(g, y)
  core.push_outer(g.handle)
  local ok, ta = pcall(tensor_array.new, graph.dtype(y), 1)
  core.pop_outer(g.handle)
  if not ok then error(ta, 0) end
  local number, node, index = core.while_add_var(g.handle, ta.handle.node, ta.handle.index)
  local written = tensor_array.wrap(graph.output(g, node, index), ta.d):write(0, y).handle
  return tensor_array.wrap(graph.output(g, core.while_close_var(g.handle, number, written.node, written.index)), ta.d)
end

--- df.checkpoint(fn): a function with the same values as fn, whose intermediates are not kept for the gradient.
-- @param fn  takes and returns Outputs; what else it uses it captures, and its gradient goes there too. It is called once. Numbers
--            it draws and what its effects give are kept: they happen once, each time the checkpoint runs
function M.checkpoint(fn)
  if type(fn) ~= 'function' then errors.bad('checkpoint takes a function, not %s', errors.describe(fn)) end
  return function(...)
    local n, xs, arrays = select('#', ...), {}, {}
    local g = convert.graph_of({ ... }) or graph.current()
    for i = 1, n do xs[i] = convert.to_output((select(i, ...)), nil, g, 'checkpoint') end
    return graph.with(g, function()
      control.while_loop(function(i) return i:lt(1) end, function(i)
        local ys = call_user(fn, unpack(xs, 1, n))
        if ys.n == 0 then errors.bad('checkpoint: the function returns nothing') end
        for k = 1, ys.n do arrays[k] = carried_out(g, convert.to_output(ys[k], nil, g, 'checkpoint')) end
        return i + 1
      end, { convert.to_output(0, 3, g, 'checkpoint') }, { save = 'recompute', name = 'checkpoint' })
      local results = {}
      for k, ta in ipairs(arrays) do results[k] = ta:read(0) end
      return unpack(results, 1, #results)
    end)
  end
end

return M
