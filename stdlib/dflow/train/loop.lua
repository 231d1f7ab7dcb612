--- df.train.loop: the whole training loop in the graph, one while_loop whose body is a step.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local ops = require 'dflow.front.ops'
local protect = require 'dflow.front.protect'
local optimizer = require 'dflow.train.optimizer'

local M = {}
local f = ops.functions

--- df.train.loop(steps, fn, {carry =, stop =, every =, report =, parallel_iterations = 1}): runs a step again and
-- again, in the graph.
-- @param steps   a number or scalar int32 Output
-- @param fn      function(i, carry) -> the next carry, or nothing; it builds a step, once: what it assigns is assigned
--                in each iteration
-- @param carry   a structure that goes from step to step
-- @param stop    function(i, carry) -> a scalar bool: the loop ends early
-- @param report  function(i, carry), whose effects (df.print, an enqueue) happen in each `every`-th step
-- @return        the last carry; without a carry how many steps there were. Fetch it to run the loop
function M.loop(steps, fn, opts)
  opts = errors.options(opts, 'loop', { 'carry', 'stop', 'every', 'report', 'parallel_iterations', 'save', 'name' })
  if type(fn) ~= 'function' then errors.bad('loop takes a function that builds a step, not %s', errors.describe(fn)) end
  if type(steps) == 'number' and (steps < 0 or not dtypes.is_whole(steps)) then
    errors.bad('loop: steps is a whole number from 0 up, not %s', tostring(steps))
  end
  if type(steps) ~= 'number' and convert.typed(steps) == nil then
    errors.bad('loop: steps is a number or a scalar Output, not %s', errors.describe(steps))
  end
  for _, key in ipairs{ 'stop', 'report' } do
    if opts[key] ~= nil and type(opts[key]) ~= 'function' then
      errors.bad('loop: %s is a function, not %s', key, errors.describe(opts[key]))
    end
  end
  if opts.every ~= nil and (type(opts.every) ~= 'number' or opts.every < 1 or not dtypes.is_whole(opts.every)) then
    errors.bad('loop: every is a whole number from 1 up, not %s', errors.describe(opts.every))
  end
  local g = convert.graph_of(steps) or convert.graph_of(opts.carry) or graph.current()
  return graph.with(g, function()
    local limit = type(steps) == 'number' and steps or f.cast(steps, 'int32')
    local first, has_carry = f.int32(0), opts.carry ~= nil
    local function step(i, carry)
      local around = optimizer.looping
      optimizer.looping = first
      local ok, next_carry = protect(fn, i, carry)
      optimizer.looping = around
      if not ok then error(next_carry, 0) end
      if getmetatable(next_carry) == graph.Operation or not has_carry then next_carry = nil end
      if next_carry == nil then next_carry = carry end
      if opts.report then
        local function told()
          opts.report(i, next_carry)
          return f.constant(true)
        end
        if (opts.every or 1) == 1 then opts.report(i, next_carry)
        else control.cond(((i + 1) % opts.every):eq(0), told, function() return f.constant(false) end) end
      end
      return next_carry, opts.stop and convert.to_output(opts.stop(i, next_carry), dtypes.BOOL, g) or nil
    end
    local vars = { i = first, carry = opts.carry, stop = opts.stop and f.constant(false) or nil }
    local last = control.while_loop(function(s)
      local more = s.i:lt(limit)
      return s.stop and more:logical_and(f.logical_not(s.stop)) or more
    end, function(s)
      local carry, stop = step(s.i, s.carry)
      return { i = s.i + 1, carry = carry, stop = stop }
    end, vars, { parallel_iterations = opts.parallel_iterations or 1, save = opts.save, name = opts.name or 'train' })
    if has_carry then return last.carry end
    return last.i
  end)
end

return M
