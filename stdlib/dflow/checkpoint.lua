--- df.checkpoint: computes what a function does, keeps only its inputs, and computes it again for the gradient.
--
-- The second computation is built when the gradient is, behind a control edge on dy, so it runs after the first is long forgotten.
-- Random numbers and side effects are not computed again: the registry puts the first computation's in their place.
-- What the function captures (Outputs, Variables) is found by walking the nodes it built, and has gradients, too.
local core = require 'dflow.backend'
local errors = require 'dflow.errors'
local dtypes = require 'dflow.dtypes'
local graph = require 'dflow.graph'
local convert = require 'dflow.convert'
local registry = require 'dflow.registry'
local gradients = require 'dflow.gradients'
local ops = require 'dflow.ops'
local call_user = require 'dflow.call'

local M = {}
local f, unpack = ops.functions, graph.unpack

--- Outputs from before node `first` that the nodes from `first` on, back from `ys`, use: floats and handles.
local function captured(g, ys, first, given)   -- given: the function's arguments, where the walk ends
  local seen, known, out, stack = {}, {}, {}, {}
  for _, x in ipairs(given) do seen[x.node] = true end
  for _, y in ipairs(ys) do stack[#stack + 1] = y.node end
  while #stack > 0 do
    local node = table.remove(stack)
    if not seen[node] then
      seen[node] = true
      for i = 0, core.node_inputs(g.handle, node) - 1 do
        local n, index = core.node_input_of(g.handle, node, i)
        while n < first and core.node_type(g.handle, n) == 'ReadVariableOp' do    -- the second computation reads for itself
          n, index = core.node_input_of(g.handle, n, 0)
        end
        if n >= first then
          stack[#stack + 1] = n
        elseif not known[n .. ':' .. index] then
          known[n .. ':' .. index] = true
          local d = core.output_dtype(g.handle, n, index)
          if dtypes.is_float(d) or (d == dtypes.RESOURCE and core.node_type(g.handle, n) == 'VarHandleOp') then
            out[#out + 1] = graph.output(g, n, index)
          end
        end
      end
    end
  end
  return out
end

--- df.checkpoint(fn): a function with the same values as fn, whose intermediates are not kept for the gradient.
-- @param fn  takes and returns Outputs. What it draws at random is kept, and its side effects happen once; neither may stand
--            in a loop or branch inside it
function M.checkpoint(fn)
  if type(fn) ~= 'function' then errors.bad('checkpoint takes a function, not %s', errors.describe(fn)) end
  return function(...)
    local n, xs, g = select('#', ...), {}, convert.graph_of({ ... }) or graph.current()
    for i = 1, n do xs[i] = convert.to_output((select(i, ...)), nil, g, 'checkpoint') end
    return graph.with(g, function()
      local inner = {}
      local first = core.graph_nodes(g.handle)
      for i = 1, n do inner[i] = f.identity(xs[i]) end
      local once = { context = core.current_context(g.handle) }
      local ys = registry.recorded(once, nil, call_user, fn, unpack(inner, 1, n))
      local count = ys.n
      if count == 0 then errors.bad('checkpoint: the function returns nothing') end
      for i = 1, count do ys[i] = convert.to_output(ys[i], nil, g, 'checkpoint') end
      local more = captured(g, ys, first, inner)
      return gradients.recomputed(g, xs, more, ys, count, function(dys)
        return graph.control_dependencies(dys, function()
          local again = {}
          for i = 1, n do again[i] = f.identity(xs[i]) end
          local ys2 = registry.recorded({ context = once.context }, once, call_user, fn, unpack(again, 1, n))
          local targets, sources = {}, {}
          for i = 1, count do targets[i] = convert.to_output(ys2[i], nil, g, 'checkpoint') end
          for i = 1, n do sources[i] = again[i] end
          for i, x in ipairs(more) do sources[n + i] = x end
          local dx = registry.unrecorded(gradients.gradients, targets, sources, { grad_ys = dys, stop_gradients = again, unconnected = 'none' })
          for i = 1, n + #more do
            if not dtypes.is_float(graph.dtype(sources[i])) and graph.dtype(sources[i]) ~= dtypes.RESOURCE then dx[i] = false end
          end
          return unpack(dx, 1, n + #more)
        end)
      end)
    end)
  end
end

return M
