--- The gradient function of each node by itself: its vector-Jacobian product at the values that a run gave, against
-- differences of its kernel. What it works on is an unrolled graph, or the top level of one that has loops.
--
-- A node's dense inputs are fed, so nothing else of the graph is computed, and its gradient is asked for with its
-- inputs as x and as stops, so nothing else is differentiated. TensorArrays cannot be fed: where a node writes to one,
-- what it wrote is read again; where it reads from one, it is built once more on an array of its own.
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local gradients = require 'dflow.front.gradients'
local tensor_array = require 'dflow.front.tensor_array'
local ops = require 'dflow.front.ops'
local differences = require 'dflow.check.differences'
local containers = require 'dflow.check.containers'

local M = {}
local f = ops.functions

--- A flat list of the numbers of what a run gives, and its shape. A complex number is two.
function M.numbers(v)
  local list, shape = { v }, {}
  if getmetatable(v) == tensor.Tensor then list, shape = v:list(), v.shape end
  if type(list[1]) ~= 'table' then return list, shape end
  local parts = {}
  for i, z in ipairs(list) do parts[2 * i - 1], parts[2 * i] = z.re, z.im end
  return parts, shape
end
local numbers = M.numbers

--- The Tensor of such numbers.
local function tensor_of(list, d, shape)
  if not dtypes.is_complex(d) then return tensor.from(list, d, shape) end
  local whole = {}
  for i = 1, #list, 2 do whole[(i + 1) / 2] = { re = list[i], im = list[i + 1] } end
  return tensor.from(whole, d, shape)
end

local function differs(o) return dtypes.is_float(graph.dtype(o)) or dtypes.is_complex(graph.dtype(o)) end
local function is_handle(o) return graph.dtype(o) == dtypes.RESOURCE end

--- A constant of weights for an output with this value.
local function weights_for(o, value, seed)
  local list, shape = numbers(value)
  return convert.constant(o.graph, tensor_of(differences.weights(#list, seed), graph.dtype(o), shape))
end

--- The sum of numbers times weights; of complex ones the real parts and the imaginary parts are numbers of their own.
local function weighted_sum(list)
  local sum
  for _, pair in ipairs(list) do
    local o, w = pair[1], pair[2]
    local part
    if dtypes.is_complex(graph.dtype(o)) then
      part = f.reduce_sum(f.add(f.multiply(f.real(o), f.real(w)), f.multiply(f.imag(o), f.imag(w))))
    else
      part = f.reduce_sum(f.multiply(o, w))
    end
    part = f.cast(part, 'float64')
    sum = sum and f.add(sum, part) or part
  end
  return sum
end

--- d(sum of dys * ys) / d(xs) by the gradient functions of the nodes between alone: dense Outputs or handles; false
-- where none.
local function gradient(ys, dys, xs)
  local list = gradients.gradients(ys, xs, { grad_ys = dys, stop_gradients = xs, unconnected = 'none' })
  for i = 1, #xs do
    local d = list[i]
    if d and getmetatable(d) ~= graph.Output then list[i] = convert.to_output(d) end
  end
  return list
end

--- Compares what the gradient gave for each x with differences of `total`; the first that is wrong.
local function compare(c, total, xs, values, found, feeds, first)
  for k, x in ipairs(xs) do
    local at, shape = numbers(values[k])
    local given = {}
    if found[k] then given = numbers(c.s:run(found[k], feeds)) else for i = 1, #at do given[i] = 0 end end
    if #given ~= #at then return { input = first[k], found = #given, expected = #at, element = 0 } end
    local d = graph.dtype(x)
    local was = feeds[x]
    local worst = differences.compare(at, given, function(moved)
      feeds[x] = tensor_of(moved, d, shape)
      return c.s:run(total, feeds)
    end, c.how, 24)
    feeds[x] = was
    if worst then
      worst.input = first[k]
      return worst
    end
  end
end

local function feedable(v, d)
  if getmetatable(v) == tensor.Tensor or d == dtypes.RESOURCE then return v end
  return tensor.from(v, d)
end

--- What is written: pairs { what is read again, weight }, and the handle of a gradient array that holds these weights.
local written = {}
local function reads_again(h, d, indices, c, feeds)
  local ta, pairs_list = tensor_array.wrap(h, d), {}
  local g = registry.op('TensorArrayGrad', { h })
  local grad = tensor_array.wrap(g, d)
  for k, i in ipairs(indices) do
    local o = ta:read(i)
    local w = weights_for(o, c.s:run(o, feeds), k)
    pairs_list[k] = { o, w }
    grad = grad:write(i, w)
  end
  return pairs_list, grad.handle
end
written.TensorArrayWrite = function(c, o, feeds) return { c.s:run(o.inputs[2], feeds) } end
written.TensorArrayScatter = function(c, o, feeds) return (numbers(c.s:run(o.inputs[2], feeds))) end
written.TensorArrayUnstack = function(c, o, feeds)
  local n, list = select(2, numbers(c.s:run(o.inputs[2], feeds)))[1], {}
  for i = 1, n do list[i] = i - 1 end
  return list
end
written.TensorArraySplit = function(c, o, feeds)
  local list = numbers(c.s:run(o.inputs[3], feeds))
  for i = 1, #list do list[i] = i - 1 end
  return list
end

--- Reading ops on an array of their own: { y, the array before it, what fills it, how its gradient is read }.
local function own_array(d, rows) return tensor_array.new(dtypes.name[d], rows) end
local reads = {}
local function filled(c, o, row, feeds)
  local h = o.inputs[1]
  local n = c.s:run(registry.op1('TensorArraySize', h), feeds)
  local shape, size = { n }, n
  for i, dim in ipairs(row) do shape[i + 1], size = dim, size * dim end
  local d = graph.dtype(graph.output(o.graph, o.node, 0))
  local p = convert.constant(o.graph, tensor_of(differences.random(size, 5), d, shape))
  return own_array(d, n):unstack(p), p
end
local function tail(shape)
  local list = {}
  for i = 2, #shape do list[i - 1] = shape[i] end
  return list
end
reads.TensorArrayRead = function(c, o, shape, feeds)
  local ta, p = filled(c, o, shape, feeds)
  return ta:read(c.s:run(o.inputs[2], feeds)), ta, p, function(grad) return grad:stack() end
end
reads.TensorArrayGather = function(c, o, shape, feeds)
  local ta, p = filled(c, o, tail(shape), feeds)
  return ta:gather((numbers(c.s:run(o.inputs[2], feeds)))), ta, p, function(grad) return grad:stack() end
end
reads.TensorArrayStack = function(c, o, shape, feeds)
  local ta, p = filled(c, o, tail(shape), feeds)
  return ta:stack(), ta, p, function(grad) return grad:stack() end
end
reads.TensorArrayTake = function(c, o, shape, feeds)
  local ta, p = filled(c, o, tail(shape), feeds)
  local y = registry.op('TensorArrayTake', { ta.handle, c.s:run(o.inputs[2], feeds) }, { dtype = ta.dtype })
  return y, ta, p, function(grad) return grad:stack() end
end
reads.TensorArrayConcatParts = function(c, o, _, feeds)
  local p = convert.constant(o.graph, c.s:run(graph.output(o.graph, o.node, 0), feeds))
  local lengths = numbers(c.s:run(o.inputs[2], feeds))
  local ta = own_array(graph.dtype(p), #lengths):split(p, lengths)
  local y = registry.op('TensorArrayConcatParts', { ta.handle, o.inputs[2] }, { dtype = ta.dtype })
  return y, ta, p, function(grad) return grad:concat() end
end
reads.TensorArrayConcat = function(c, o, _, feeds)
  local out = graph.output(o.graph, o.node, 0)
  local lengths = numbers(c.s:run(graph.output(o.graph, o.node, 1), feeds))
  local p = convert.constant(o.graph, c.s:run(out, feeds))
  local ta = own_array(graph.dtype(out), #lengths):split(p, lengths)
  return ta:concat(), ta, p, function(grad) return grad:concat() end
end

local function check_reading(c, o, feeds)
  local out = graph.output(o.graph, o.node, 0)
  local value = c.s:run(out, feeds)
  local _, shape = numbers(value)
  local y, ta, p, back = reads[o.type](c, o, shape, feeds)
  local w = weights_for(out, value, 1)
  local found = gradient({ y }, { w }, { ta.handle })
  local grad = found[1] and back(tensor_array.wrap(found[1], ta.d))
  return compare(c, weighted_sum{ { y, w } }, { p }, { c.s:run(p) }, { grad }, {}, { o.inputs[1] })
end

--- A variable's read hands its gradient on as it is, and so do assignments: by which input, and with which sign.
local hands_on = { ReadVariableOp = { 1, 1 }, ReadVariableSaved = { 1, 1 }, ReadReferenceSaved = { 1, 1 },
                   AssignVariableOp = { 2, 1 }, AssignAddVariableOp = { 2, 1 },
                   AssignSubVariableOp = { 2, -1 } }
local function check_read(c, o, feeds)
  local input, sign = o.inputs[hands_on[o.type][1]], hands_on[o.type][2]
  local out = graph.output(o.graph, o.node, 0)
  local w = weights_for(out, c.s:run(out, feeds), 1)
  local found = gradient({ out }, { w }, { input })
  local given, expected = found[1] and numbers(c.s:run(found[1], feeds)) or {}, numbers(c.s:run(w))
  for i = 1, #expected do
    if given[i] ~= sign * expected[i] then
      return { input = input, element = i - 1, found = given[i] or 0, expected = sign * expected[i] }
    end
  end
end

--- What reads rows of a variable: differences by assigning to it.
local function check_rows(c, o, feeds)
  local handle, out = o.inputs[1], graph.output(o.graph, o.node, 0)
  local w = weights_for(out, c.s:run(out, feeds), 1)
  local d = core.output_dtype(o.graph.handle, out.node, 0)
  local value = registry.op('ReadVariableOp', { handle }, { dtype = d })
  local at, shape = numbers(c.s:run(value, feeds))
  local p = f.placeholder(dtypes.name[d], shape)
  local assign = registry.op('AssignVariableOp', { handle, p })
  local found = gradient({ out }, { w }, { handle })
  local given = found[1] and numbers(c.s:run(found[1], feeds)) or {}
  local total = weighted_sum{ { out, w } }
  local wrong = differences.compare(at, given, function(moved)
    c.s:run(assign, { [p] = tensor_of(moved, d, shape) })
    return c.s:run(total, feeds)
  end, c.how, 24)
  c.s:run(assign, { [p] = tensor_of(at, d, shape) })
  if wrong then wrong.input = handle end
  return wrong
end

--- The dense inputs, each once, and their values; a custom gradient's own inputs only.
local function dense_inputs(c, o, feeds)
  local list, seen, n = {}, {}, #o.inputs
  if o.type == 'CustomGradient' then n = n - #o.outputs end
  for i, input in ipairs(o.inputs) do
    if i <= n and not seen[input] and graph.dtype(input) ~= dtypes.RESOURCE
      and graph.dtype(input) ~= dtypes.number.variant then
      seen[input] = true
      list[#list + 1] = input
    end
  end
  local values = #list > 0 and c.s:run(list, feeds) or {}
  return list, values
end

local function check_container(c, o)
  return containers.check(o, function(y, xs)
    local w = weights_for(y, c.s:run(y), 1)
    local found, values = gradient({ y }, { w }, xs), c.s:run(xs)
    return compare(c, weighted_sum{ { y, w } }, xs, values, found, {}, xs)
  end)
end

--- nil when the gradient function of the node is right (or cannot be looked at), else { input, element, found, expected
-- }.
-- @param depends  by node: does it depend on an x? The gradient by other inputs is of no concern, and may not be known.
function M.check(c, o, depends)
  if hands_on[o.type] then return check_read(c, o, c.feeds) end
  if o.type == 'ResourceGather' or o.type == 'ResourceGatherNd' then return check_rows(c, o, c.feeds) end
  if containers.knows(o.type) then return check_container(c, o) end
  if reads[o.type] then return check_reading(c, o, c.feeds) end
  local inputs, values = dense_inputs(c, o, c.feeds)
  local feeds, xs, at = {}, {}, {}
  for k, v in pairs(c.feeds) do feeds[k] = v end
  for i, input in ipairs(inputs) do
    feeds[input] = feedable(values[i], graph.dtype(input))
    if differs(input) and depends[input.node] then xs[#xs + 1], at[#at + 1] = input, values[i] end
  end
  if #xs == 0 then return nil end
  local ys, dys, sums = {}, {}, {}
  for k, out in ipairs(o.outputs) do
    if is_handle(out) then
      if not written[o.type] then return nil end
      local d = graph.dtype(xs[1])
      local again, handle = reads_again(out, d, written[o.type](c, o, feeds), c, feeds)
      for _, pair in ipairs(again) do sums[#sums + 1] = pair end
      ys[#ys + 1], dys[#dys + 1] = out, handle
    elseif differs(out) then
      local w = weights_for(out, c.s:run(out, feeds), k)
      ys[#ys + 1], dys[#dys + 1] = out, w
      sums[#sums + 1] = { out, w }
    end
  end
  if #ys == 0 then return nil end
  local found = gradient(ys, dys, xs)
  return compare(c, weighted_sum(sums), xs, at, found, feeds, xs)
end

-- ---- which nodes --------------------------------------------------------------------------------------------------
--- Is there no gradient of its own to be checked? It is a primitive, makes a handle, stops gradients, or was put there
-- by the check.
local function skipped(g, node)
  local type = core.node_type(g.handle, node)
  local e = registry.need(type)
  local makes_handle = e.noutputs > 0 and e.outputs[1].dtype == dtypes.RESOURCE and not e.takes_handle
  return registry.primitive(type) or makes_handle or core.node_stops_gradient(g.handle, node) or type == 'Trace'
end

--- Nodes at the top level between the xs and y, those next to y first; and, by node, which depend on an x.
function M.between(y, xs)
  local g, depends, list = y.graph, {}, {}
  for _, x in ipairs(xs) do depends[rawget(getmetatable(x), 'handle_of') and x.handle.node or x.node] = true end
  local all = core.graph_needs(g.handle, { y.node, y.index })
  for _, node in ipairs(all) do
    for i = 0, core.node_inputs(g.handle, node) - 1 do
      if depends[(core.node_input_of(g.handle, node, i))] then
        depends[node] = true
        if core.node_context(g.handle, node) == 0 and not skipped(g, node) then list[#list + 1] = node end
        break
      end
    end
  end
  local backward = {}
  for i = #list, 1, -1 do backward[#backward + 1] = list[i] end
  return backward, depends
end

--- The first node, in backward order, whose gradient function is wrong: operation, what is wrong, node. Each node that
-- the user built is looked at in its last two iterations first, and in all of them when these are right.
-- @param c    { s = session, feeds =, how = }
-- @param own  { from, to }: ids of nodes that are not looked at
function M.first_wrong(c, y, xs, own)
  local g, count, later = y.graph, {}, {}
  local between, depends = M.between(y, xs)
  local function look(node)
    local o = graph.operation(g, node)
    local ok, wrong = pcall(M.check, c, o, depends)
    if ok and wrong then return graph.operation(g, core.node_origin(g.handle, node)), wrong, node end
  end
  for _, node in ipairs(between) do
    local origin = core.node_origin(g.handle, node)
    count[origin] = (count[origin] or 0) + 1
    if origin >= own[1] and origin < own[2] then
      count[origin] = 0
    elseif count[origin] <= 2 then
      local o, wrong, at = look(node)
      if o then return o, wrong, at end
    elseif #later < 2000 then later[#later + 1] = node end
  end
  for _, node in ipairs(later) do
    local o, wrong, at = look(node)
    if o then return o, wrong, at end
  end
end

return M
