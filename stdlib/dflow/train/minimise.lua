--- Minimisers of a function of one tensor, whole in the graph: L-BFGS and nonlinear conjugate gradients, each a
-- while_loop around a while_loop that searches along a line. Nothing comes back to Lua between the first value and the
-- last.
--
-- Sources: Nocedal and Wright, Numerical Optimization, 2nd edition, algorithms 7.4 (two loops) and 5.4 with formula
-- 5.45 (Polak and Ribière, with restarts); the search is the bisection of Lewis and Overton (2013) for the weak
-- conditions of Wolfe.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local gradients = require 'dflow.front.gradients'
local tensor_array = require 'dflow.front.tensor_array'
local ops = require 'dflow.front.ops'

local M = {}
local f = ops.functions
local ENOUGH, TRIALS = 1e-4, 40       -- of Wolfe's first condition; how often a line is tried

local function dot(a, b) return f.reduce_sum(a * b) end

--- The value and gradient of fn at a flat x.
local function evaluate(fn, flat, shape, what)
  local x = f.reshape(flat, shape)
  local y = fn(x)
  if convert.typed(y) == nil then
    errors.bad('%s: the function returned %s, a scalar Output is expected', what, errors.describe(y))
  end
  y = convert.to_output(y, nil, flat.graph)
  if graph.dtype(y) ~= graph.dtype(flat) or (graph.rank(y) or 0) ~= 0 then
    errors.bad('%s: the function returned %s, a scalar of %s is expected', what,
               require('dflow.front.tensor').shape_text(y.dtype, y.shape), flat.dtype)
  end
  return y, f.reshape(convert.to_output(gradients.gradients(y, x)), { -1 })
end

--- Along x + t * d: the first t that goes down enough and far enough, where the slope is at most `curved` of that at x.
-- Gives t, x, f, g there; t is 0 where none was found.
local function search(fn, shape, x, y, g, d, first, curved, what)
  local slope = dot(g, d)
  local zero = f.constant(0, x.dtype)
  local last = control.while_loop(
    function(s) return f.logical_not(s.done):logical_and(s.n:lt(TRIALS)) end,
    function(s)
      local at = x + s.t * d
      local value, gradient = evaluate(fn, at, shape, what)
      local high = f.logical_not(value:le(y + ENOUGH * s.t * slope))        -- NaN is too high, too
      local flat = f.logical_not(high):logical_and(dot(gradient, d):lt(curved * slope))
      local upper, lower = f.where(high, s.t, s.upper), f.where(flat, s.t, s.lower)
      local both = upper:lt(math.huge)
      local better = f.logical_not(high):logical_and(value:lt(s.y))         -- what is kept if the trials run out
      local take = f.logical_not(high):logical_and(f.logical_not(flat)):logical_or(better)
      return { n = s.n + 1, done = f.logical_not(high):logical_and(f.logical_not(flat)), upper = upper, lower = lower,
               t = f.where(both, (lower + upper) * 0.5, s.t * 2), taken = f.where(take, s.t, s.taken),
               x = control.cond(take, function() return at end, function() return s.x end),
               y = f.where(take, value, s.y),
               g = control.cond(take, function() return gradient end, function() return s.g end) }
    end,
    { n = f.int32(0), done = f.constant(false), upper = f.constant(math.huge, x.dtype), lower = zero, t = first,
      taken = zero, x = x, y = y, g = g },
    { name = 'search', back_prop = false, parallel_iterations = 1 })
  return last
end

--- The loop that both methods share. `begin(g)` gives what the method remembers, `step(s, g, moved, bent)` what it
--- remembers next and the next direction, from the step x took and the change of its gradient.
local function descend(what, fn, x0, opts, curved, begin, direction, remember)
  if type(fn) ~= 'function' then errors.bad('%s takes a function of x, not %s', what, errors.describe(fn)) end
  local start = convert.to_output(x0, convert.typed(x0) or dtypes.FLOAT32, nil, what)
  if not dtypes.is_float(graph.dtype(start)) then errors.bad('%s: x0 is %s, floats are expected', what, start.dtype) end
  local most, tolerance = opts.max_iterations or 100, opts.tolerance or 1e-5
  if type(most) ~= 'number' or most < 0 or not dtypes.is_whole(most) then
    errors.bad('%s: max_iterations is a whole number from 0 up, not %s', what, errors.describe(most))
  end
  if type(tolerance) ~= 'number' or not (tolerance >= 0) then
    errors.bad('%s: tolerance is a number from 0 up, not %s', what, errors.describe(tolerance))
  end
  return graph.with(start.graph, function()
    local static = start.shape
    for _, n in ipairs(static or { -1 }) do
      if n < 0 then static = nil end
    end
    local shape = static or f.shape(start)
    local x = f.reshape(start, { -1 })
    local y, g = evaluate(fn, x, shape, what)
    local function largest(v) return f.reduce_max(f.abs(v)) end
    local last = control.while_loop(
      function(s) return s.n:lt(most):logical_and(f.logical_not(s.stuck)):logical_and(largest(s.g):gt(tolerance)) end,
      function(s)
        local down = direction(s.memory, s.g, s.n)
        local good = dot(down, s.g):lt(0)
        down = control.cond(good, function() return down end, function() return -s.g end)
        -- nothing is known of lengths yet
        local gentle = f.minimum(f.constant(1, x.dtype), 1 / f.reduce_sum(f.abs(s.g)))
        local found = search(fn, shape, s.x, s.y, s.g, down, f.where(s.n:eq(0), gentle, f.constant(1, x.dtype)), curved,
                             what)
        return { n = s.n + 1, stuck = found.taken:eq(0), x = found.x, y = found.y, g = found.g,
                 memory = remember(s.memory, found.x - s.x, found.g - s.g, s.g, found.g, down) }
      end,
      { n = f.int32(0), stuck = f.constant(false), x = x, y = y, g = g, memory = begin(x, g) },
      { name = opts.name or what, back_prop = false, parallel_iterations = 1 })
    return f.reshape(last.x, shape), last.y, last.n
  end)
end

--- df.train.lbfgs(fn, x0, {memory = 10, max_iterations = 100, tolerance = 1e-5}): the x where fn is least, near x0.
-- @param fn         function(x) -> a scalar of x's dtype, called while the graph is built
-- @param x0         floats of any shape
-- @param tolerance  of the gradient's largest element
-- @return           x, fn(x), how many iterations that took
function M.lbfgs(fn, x0, opts)
  opts = errors.options(opts, 'lbfgs', { 'memory', 'max_iterations', 'tolerance', 'name' })
  local kept = opts.memory or 10
  if type(kept) ~= 'number' or kept < 1 or not dtypes.is_whole(kept) then
    errors.bad('lbfgs: memory is a whole number from 1 up, not %s', errors.describe(kept))
  end
  local function begin(x)
    local size = x.shape and x.shape[1] and x.shape[1] >= 0 and x.shape[1] or f.size(x)
    local none = f.zeros(type(size) == 'number' and { kept, size } or f.stack({ f.int32(kept), size }), x.dtype)
    return { moved = none, bent = none, rho = f.zeros({ kept }, x.dtype) }
  end
  -- The newest pair lies at the end. A pair that is not there yet has rho = 0, and changes nothing.
  local function direction(memory, g)
    local d = g.dtype
    local _, q, alphas = control.while_loop(function(i) return i:ge(0) end, function(i, q, alphas)
      local alpha = memory.rho[i] * dot(memory.moved[i], q)
      return i - 1, q - alpha * memory.bent[i], alphas:write(i, alpha)
    end, { f.int32(kept - 1), g, tensor_array.new(d, kept, { element_shape = {} }) },
    { name = 'back', back_prop = false })
    local newest = kept - 1
    local square = dot(memory.bent[newest], memory.bent[newest])
    local one = f.constant(1, d)
    local scale = f.where(memory.rho[newest]:gt(0), dot(memory.moved[newest], memory.bent[newest])
                          / f.where(square:gt(0), square, one), one)
    local _, r = control.while_loop(function(i) return i:lt(kept) end, function(i, r)
      return i + 1, r + memory.moved[i] * (alphas:read(i) - memory.rho[i] * dot(memory.bent[i], r))
    end, { f.int32(0), q * scale }, { name = 'forth', back_prop = false })
    return -r
  end
  local function remember(memory, moved, bent)
    local along = dot(moved, bent)
    local function push(list, v)
      return f.concat({ list:strided_slice({ 1 }, { kept }, { 1 }), f.expand_dims(v, 0) }, 0)
    end
    local useful = along:gt(0)
    local rho = push(memory.rho, 1 / f.where(useful, along, f.constant(1, moved.dtype)))
    return control.cond(useful, function() return { moved = push(memory.moved, moved), bent = push(memory.bent, bent),
        rho = rho } end,
                        function() return { moved = f.identity(memory.moved), bent = f.identity(memory.bent),
                                            rho = f.identity(memory.rho) } end)
  end
  return descend('lbfgs', fn, x0, opts, 0.9, begin, direction, remember)
end

--- df.train.conjugate_gradient(fn, x0, {max_iterations = 100, tolerance = 1e-5}): as lbfgs, with the memory of one
-- direction.
function M.conjugate_gradient(fn, x0, opts)
  opts = errors.options(opts, 'conjugate_gradient', { 'max_iterations', 'tolerance', 'name' })
  local function begin(_, g) return { down = -g } end
  local function direction(memory) return memory.down end
  local function remember(_, _, bent, before, now, down)
    local square = dot(before, before)
    local beta = f.maximum(dot(now, bent) / f.where(square:gt(0), square, f.constant(1, now.dtype)),
                           f.constant(0, now.dtype))
    return { down = beta * down - now }
  end
  return descend('conjugate_gradient', fn, x0, opts, 0.1, begin, direction, remember)
end

return M
