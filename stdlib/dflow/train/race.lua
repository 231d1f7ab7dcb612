--- Gradients in the order in which they come: what df.train.synchronous, and df.train.replicate with backup, are made
-- of.
local control = require 'dflow.front.control'
local ops = require 'dflow.front.ops'
local registry = require 'dflow.front.registry'
local core = require 'dflow.backend'

local M = {}
local f = ops.functions

--- One result of the present step: {loss, gradients…}, by what `take` gives, late ones dropped. Gives it, and how many
-- were dropped.
function M.fresh(o, now, take)
  local like = {}
  for i, v in ipairs(o.variables) do like[i] = f.zeros_like(v:value()) end
  local last = control.while_loop(function(s) return f.logical_not(s.found) end, function(s)
    local got = { take() }
    local grads = {}
    for i = 3, #got do grads[i - 2] = got[i]:set_shape(o.variables[i - 2].shape) end
    local good = got[1]:set_shape{}:eq(now)
    return { found = good, loss = got[2]:set_shape{}, grads = grads,
             late = s.late + f.cast(f.logical_not(good), 'int32') }
  end, { found = f.constant(false), loss = f.float32(0), grads = like, late = f.int32(0) },
  { name = 'wait', parallel_iterations = 1, back_prop = false })
  return last
end

--- What comes first of two values: a Merge at the top level is a race, and the run does not wait for ever for the value
-- that loses it. A body waits for all that runs in it: there it is b.
function M.first_of(a, b)
  if core.current_context(a.graph.handle) ~= 0 then return b end
  return (registry.op('Merge', { { a, b } }))
end

return M
