--- df.check_gradients: gradients against finite differences, and, where they differ, the first node whose own gradient is wrong.
local core = require 'dflow.backend'
local errors = require 'dflow.errors'
local dtypes = require 'dflow.dtypes'
local tensor = require 'dflow.tensor'
local graph = require 'dflow.graph'
local nest = require 'dflow.nest'
local convert = require 'dflow.convert'
local gradients = require 'dflow.gradients'
local session = require 'dflow.session'
local ops = require 'dflow.ops'
local Variable = require('dflow.variable').Variable

local M = {}
local f = ops.functions

--- Flat list of numbers of what a run gives.
local function numbers(v)
  if getmetatable(v) == tensor.Tensor then return v:list(), v.shape end
  return { v }, {}
end

--- Weights between 0.5 and 1.5 that do not repeat: the sum of weighted elements hides no error.
local function weights(n)
  local list, state = {}, 12345
  for i = 1, n do
    state = state * 16807 % 2147483647
    list[i] = 0.5 + state / 2147483647
  end
  return list
end

--- How x is changed: by a feed, or by an assign where it is a Variable.
local function control_of(s, x, feeds)
  if getmetatable(x) == Variable then
    local value = s:run(x, feeds)
    local p = f.placeholder(x.dtype, x.shape)
    local set = x:assign(p)
    return value, function(v) s:run(set, { [p] = v }) end, function() s:run(set, { [p] = value }) end
  end
  local value = feeds[x]
  if value == nil then value = s:run(x, feeds) end
  if getmetatable(value) ~= tensor.Tensor then value = tensor.from(value, graph.dtype(x)) end
  local before = feeds[x]
  return value, function(v) feeds[x] = v end, function() feeds[x] = before end
end

--- The derivative of sum(weight * y) by x, by central differences.
local function differences(s, total, x, feeds, step)
  local value, set, back = control_of(s, x, feeds)
  local flat, shape = numbers(value)
  local d, out = convert.typed(x), {}
  for i = 1, #flat do
    local h = step * math.max(1, math.abs(flat[i]))
    local was = flat[i]
    local sides = {}
    for k, sign in ipairs{ 1, -1 } do
      flat[i] = was + sign * h
      local moved = tensor.from(flat, d, shape)
      set(moved)
      sides[k] = { s:run(total, feeds), numbers(moved)[i] }
    end
    flat[i] = was
    out[i] = (sides[1][1] - sides[2][1]) / (sides[1][2] - sides[2][2])
  end
  back()
  return out
end

--- Compares d(y)/d(xs); returns nil, or what differs.
local function compare(s, y, xs, feeds, opts)
  local n = numbers(s:run(y, feeds))
  local _, shape = numbers(s:run(y, feeds))
  local weight = convert.constant(y.graph, weights(#n), graph.dtype(y), shape)
  local total = f.reduce_sum(y * weight)
  local wide = f.cast(total, 'float64')
  local grads = gradients.gradients(y, xs, { grad_ys = weight, unconnected = 'zero' })
  local worst
  for k, x in ipairs(xs) do
    local found = numbers(s:run(convert.to_output(grads[k]), feeds))
    local expected = differences(s, wide, x, feeds, opts.step)
    for i = 1, #expected do
      local a, b = found[i], expected[i]
      local error_size = math.abs(a - b) / (opts.tolerance * (1 + math.abs(b)))
      if error_size ~= error_size then error_size = math.huge end
      if error_size > 1 then
        if not worst or error_size > worst.size then worst = { size = error_size, k = k, i = i - 1, found = a, expected = b } end
      end
    end
  end
  return worst
end

--- Top-level nodes between xs and y, in the order they were built.
local function between(y, xs)
  local g, is_x, seen, list = y.graph, {}, {}, {}
  for _, x in ipairs(xs) do is_x[getmetatable(x) == Variable and x.handle.node or x.node] = true end
  local stack = { y.node }
  while #stack > 0 do
    local node = table.remove(stack)
    if not seen[node] and not is_x[node] then
      seen[node] = true
      if core.node_context(g.handle, node) == 0 then list[#list + 1] = node end
      for i = 0, core.node_inputs(g.handle, node) - 1 do
        local input = core.node_input_of(g.handle, node, i)
        stack[#stack + 1] = input
      end
    end
  end
  table.sort(list)
  return list
end

local skipped = { Switch = true, Merge = true, Enter = true, Exit = true, NextIteration = true, LoopCond = true, ReadVariableOp = true }

--- The first node whose output's gradient by its own inputs is wrong; nil when none is (the fault lies in how they are joined).
local function first_wrong(s, y, xs, feeds, opts)
  local g = y.graph
  for _, node in ipairs(between(y, xs)) do
    local o = graph.operation(g, node)
    local inputs, ok = {}, not skipped[o.type] and core.node_outputs(g.handle, node) > 0
    if ok then
      for _, input in ipairs(o.inputs) do
        if dtypes.is_float(graph.dtype(input)) and core.node_context(g.handle, input.node) == 0 then inputs[#inputs + 1] = input end
      end
    end
    local out = ok and graph.output(g, node, 0)
    if ok and #inputs > 0 and dtypes.is_float(graph.dtype(out)) then
      local fine, worst = pcall(compare, s, out, inputs, feeds, opts)
      if fine and worst then return o, worst, inputs[worst.k] end
    end
  end
end

--- df.check_gradients(y, xs, {order = 1, feeds = {}, tolerance =, step =}): true, or false and a report.
-- @param y   an Output of float dtype; the check is sharp in float64
-- @param xs  an Output, a Variable, or a list of these
function M.check_gradients(y, xs, opts)
  opts = errors.options(opts, 'check_gradients', { 'order', 'feeds', 'tolerance', 'step', 'session' })
  if xs == nil then errors.bad('check_gradients takes y and xs; xs is missing') end
  y = convert.to_output(y, nil, nil, 'check_gradients')
  if not nest.is_plain(xs) then xs = { xs } else xs = nest.flatten(xs, function() return true end) end
  local order = opts.order or 1
  if type(order) ~= 'number' or order < 1 then
    errors.bad('check_gradients: order is 1 or more, not %s', errors.describe(opts.order))
  end
  if not dtypes.is_float(graph.dtype(y)) then
    errors.bad('check_gradients: y is %s, a float is expected', y.dtype)
  end
  for _, x in ipairs(xs) do
    local d = convert.typed(x)
    if not d or not dtypes.is_float(d) then
      errors.bad('check_gradients: xs holds %s, a float Output or Variable is expected', errors.describe(x))
    end
  end
  local sharp = y.dtype == 'float64'
  for _, x in ipairs(xs) do sharp = sharp and x.dtype == 'float64' end
  local how = { step = opts.step or (sharp and 1e-5 or 1e-2), tolerance = opts.tolerance or (sharp and 1e-5 or 2e-2) }
  local feeds = {}
  for k, v in pairs(opts.feeds or {}) do feeds[k] = v end
  local s = opts.session or session.default(y.graph)
  return graph.with(y.graph, function()
    local target = y
    for level = 1, order do
      local worst = compare(s, target, xs, feeds, how)
      if worst then
        local x = xs[worst.k]
        local report = ('gradient of order %d: d %s / d %s, element %d: the gradient says %.9g, finite differences %.9g'):format(
          level, y.name, x.name, worst.i, worst.found, worst.expected)
        local node, there, input = first_wrong(s, target, xs, feeds, how)
        if node then
          report = report .. ('\n  the first wrong node is %s'):format(tostring(node))
          if node.type ~= 'CustomGradient' then
            report = report .. ('\n  by its input %s, element %d: %.9g instead of %.9g'):format(input.name, there.i, there.found, there.expected)
          end
        else
          report = report .. '\n  each node by itself is right: the fault lies in a loop or cond, or in how gradients are added up'
        end
        return false, report
      end
      if level < order then
        local sum
        for _, grad in ipairs(gradients.gradients(target, xs, { unconnected = 'zero' })) do
          local part = f.reduce_sum(f.cast(convert.to_output(grad), target.dtype))
          sum = sum and sum + part or part
        end
        target = sum
      end
    end
    return true
  end)
end

return M
