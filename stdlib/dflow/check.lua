--- df.check_gradients: is a gradient right?
--
-- All work is done in copies of the graph (dflow.check.copy), so that the user's graph, sessions and variables stay as
-- they are.
--
--   in float64       the gradient as it is built, through loops and conds; a run of it is recorded
--   unrolled         the same value without loops and conds, as the recorded run went, and its gradient through plain
--                    ops
--   differences      of that value (dflow.check.differences)
--   as it stands     in its own dtypes: with other numbers of parallel iterations, each way of saving, each engine, the
--                    reference kernels
--
-- Order 2 is the same for the gradient's weighted sum, and so on. What is wrong is then looked for node by node
-- (dflow.check.nodes), or, where each node is right by itself, loop by loop.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local gradients = require 'dflow.front.gradients'
local session = require 'dflow.front.session'
local ops = require 'dflow.front.ops'
local copy = require 'dflow.check.copy'
local differences = require 'dflow.check.differences'
local nodes = require 'dflow.check.nodes'
local Variable = require('dflow.front.variable').Variable

local M = {}
local unpack = graph.unpack
local f = ops.functions
local abs, max = math.abs, math.max
local numbers = nodes.numbers

local MOST_NODES = 200000        -- of an unrolled graph
local MOST_ELEMENTS = 24         -- of an x whose elements are all moved

-- ---- the values to be differentiated -------------------------------------------------------------------------------

--- A weight of its own for each element, so that errors do not cancel; 1 for a number that is all there is.
local function weights_of(o, shape, seed, alone)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return convert.constant(o.graph, alone and n == 1 and { 1 } or differences.weights(n, seed), graph.dtype(o), shape), n
end

--- A level is { total = the weighted sum of y or of the gradients of the level before, what = its name in reports,
-- grads = its gradient:
-- dense Outputs, one per x, own = { from, to }: ids of the nodes that make the sum, which are not to blame }.
local function first_level(y, shape, xs, stops)
  local w, n = weights_of(y, shape, 1, true)
  local from = core.graph_nodes(y.graph.handle)
  local total = f.reduce_sum(f.multiply(y, w))
  local to = core.graph_nodes(y.graph.handle)
  local grads = gradients.gradients(y, xs, { grad_ys = w, stop_gradients = stops, unconnected = 'zero' })
  for i, d in ipairs(grads) do grads[i] = convert.to_output(d, nil, y.graph) end
  return { total = total, grads = grads, what = n == 1 and y.name or ('(weighted sum of %s)')
    :format(y.name), own = { from, to } }
end

--- The same of the weighted sum of the gradients of the level before.
local function next_level(before, shapes, xs, order, stops)
  local handle, total = before.total.graph.handle, nil
  local from = core.graph_nodes(handle)
  for i, d in ipairs(before.grads) do
    local part = f.reduce_sum(f.multiply(d, (weights_of(d, shapes[i], 10 * order + i, #before.grads == 1))))
    part = f.cast(part, before.total.dtype)
    total = total and f.add(total, part) or part
  end
  local to = core.graph_nodes(handle)
  local grads = gradients.gradients(total, xs, { stop_gradients = stops, unconnected = 'zero' })
  for i, d in ipairs(grads) do grads[i] = convert.to_output(d, nil, total.graph) end
  return { total = total, grads = grads, what = before.what, own = { from, to } }
end

local function shapes_of(values)
  local list = {}
  for i, v in ipairs(values) do list[i] = select(2, numbers(v)) end
  return list
end

-- ---- differences ----------------------------------------------------------------------------------------------------

--- A function that makes x have the value of a Tensor, for runs with these feeds. An Output is fed; so are all reads of
-- a Variable; where others look at it, too, it is assigned to.
local function mover(c, x, y, feeds)
  if getmetatable(x) ~= Variable then return function(t) feeds[x] = t end, graph.dtype(x) end
  local g, list, handle, assigned = y.graph, {}, x.graph.handle, false
  for _, node in ipairs(core.graph_needs(handle, { y.node, y.index })) do
    for i = 0, core.node_inputs(handle, node) - 1 do
      if core.node_input_of(handle, node, i) == x.handle.node then
        if registry.about(core.node_type(handle, node),
                          'reads') then list[#list + 1] = graph.output(g, node, 0) else assigned = true end
      end
    end
  end
  if not assigned then
    return function(t)
      for _, o in ipairs(list) do feeds[o] = t end
    end, x.d
  end
  local p = f.placeholder(x.dtype, x.shape)
  local set = x:assign(p)
  return function(t)
    c.s:run(set, { [p] = t })
  end, x.d
end

--- The feeds of the run, and with them what gradients take for constants, as it was.
local function held(c, total)
  local feeds, list, g = {}, {}, total.graph
  for _, node in ipairs(core.graph_needs(g.handle, { total.node, total.index })) do
    if core.node_stops_gradient(g.handle, node) and core.node_context(g.handle, node) == 0 then
      list[#list + 1] = graph.output(g, node, 0)
    end
  end
  for _, o in ipairs(c.stops) do list[#list + 1] = o end
  local values = #list > 0 and c.s:run(list, c.feeds) or {}
  for key, v in pairs(c.feeds) do feeds[key] = v end
  for i, o in ipairs(list) do
    feeds[o] = getmetatable(values[i]) == tensor.Tensor and values[i] or tensor.from(values[i], graph.dtype(o))
  end
  return feeds
end

--- Compares the gradients that were found with differences of `total`; the worst, or nil.
local function by_differences(c, total, found)
  local worst
  local began = os.clock()
  c.s:run(total, c.feeds)
  c.how.few = os.clock() - began > 5e-3         -- a large graph: fewer elements and directions
  for k, x in ipairs(c.xs) do
    local at, shape = numbers(c.at[k])
    local feeds = held(c, total)
    local move, d = mover(c, x, total, feeds)
    local wrong = differences.compare(at, found[k], function(moved)
      if c.effects then c.s:init() end
      move(tensor.from(moved, d, shape))
      return c.s:run(total, feeds)
    end, c.how, MOST_ELEMENTS)
    move(tensor.from(at, d, shape))
    if wrong and (not worst or wrong.size > worst.size) then
      wrong.x = x
      worst = wrong
    end
  end
  return worst
end

local epsilon = { float64 = 2.3e-16, float32 = 1.2e-7 }

--- The largest difference between two lists of gradients, where it is more than rounding.
-- @param tolerance  relative; 0: each bit must be the same
-- @param dtype      of what they were computed in; gradients of values about as large as 1 may be off by its rounding
local function unlike(c, a, b, tolerance, dtype)
  local worst
  local floor = tolerance > 0 and 1e3 * (epsilon[dtype] or 1e-2) or 0
  for k, x in ipairs(c.xs) do
    local scale = 0
    for i = 1, #b[k] do if abs(b[k][i]) < math.huge then scale = max(scale, abs(b[k][i])) end end
    for i = 1, max(#a[k], #b[k]) do
      local p, q = a[k][i] or 0 / 0, b[k][i] or 0 / 0
      local same = p == q or (p ~= p and q ~= q) or abs(p - q) <= tolerance * (max(abs(p), abs(q)) + 0.01 * scale)
        + floor * (1 + scale)
      if not same and not (worst and abs(p - q) <= worst.size) then
        worst = { x = x, element = i - 1, found = p, expected = q, size = abs(p - q) }
      end
    end
  end
  return worst
end

-- ---- reports --------------------------------------------------------------------------------------------------------

local function element_text(w) return w.element and ('element %d'):format(w.element) or 'along a direction' end

local function headline(order, what, w, other)
  return ('gradient of order %d: d %s / d %s, %s: the gradient says %.9g, %s %.9g')
    :format(order, what, w.x.name, element_text(w), w.found, other, w.expected)
end

local function node_text(c, o, wrong, node)
  local text = ('\n  the first wrong node is %s'):format(tostring(o))
  local iteration = core.node_iteration(c.g.handle, node)
  if iteration ~= '' then text = text .. (', in iteration %s'):format(iteration) end
  if o.type == 'CustomGradient' or wrong.input.node == node then return text end
  return text .. ('\n  by its input %s, %s: %.9g instead of %.9g'):format(
    graph.output(c.g, core.node_origin(c.g.handle, wrong.input.node), wrong.input.index).name, element_text(wrong),
    wrong.found, wrong.expected)
end

--- Where a loop or cond takes a value of the top level in: { value, primitive } in the order of the values.
local function entrances(c, total)
  local list, seen, handle = {}, {}, c.g.handle
  for _, node in ipairs(core.graph_needs(handle, { total.node, total.index })) do
    local kind = registry.primitive(core.node_type(handle, node))
    if (kind == 'Enter' or kind == 'Switch') and core.node_context(handle, node) ~= 0 then
      local from, index = core.node_input_of(handle, node, 0)
      local key = from * 64 + index
      if core.node_context(handle, from) == 0 and not seen[key]
        and dtypes.is_float(core.output_dtype(handle, from, index)) then
        seen[key] = true
        list[#list + 1] = { o = graph.output(c.g, from, index), node = node }
      end
    end
  end
  table.sort(list, function(a, b) return a.o.node > b.o.node end)
  return list
end

--- The loop or cond next to y whose gradient is wrong: a text, or nil. Compares the derivative by each value that a
-- loop takes in with that of its unrolled copy.
local function wrong_construct(c, total)
  local list, flat = entrances(c, total), { total.node, total.index }
  if #list == 0 then return nil end
  for i, e in ipairs(list) do flat[2 * i + 1], flat[2 * i + 2] = e.o.node, e.o.index end
  local out = core.graph_unroll(c.g.handle, flat, {}, MOST_NODES)
  local u, zs, copies = graph.output(c.g, out[1], out[2]), {}, {}
  for i, e in ipairs(list) do zs[i], copies[i] = e.o, graph.output(c.g, out[2 * i + 1], out[2 * i + 2]) end
  local found = gradients.gradients(total, zs, { unconnected = 'zero' })
  local expected = gradients.gradients(u, copies, { unconnected = 'zero' })
  for i, e in ipairs(list) do
    local a = numbers(c.s:run(convert.to_output(found[i]), c.feeds))
    local b = numbers(c.s:run(convert.to_output(expected[i]), c.feeds))
    if #a ~= #b or unlike({ xs = { e.o } }, { a }, { b }, 1e-7, 'float64') then
      local kind = registry.primitive(core.node_type(c.g.handle, e.node)) == 'Enter' and 'while_loop' or 'cond'
      local name, line = core.node_name_of(c.g.handle, e.node):match('^(.*)/[^/]*$'),
        core.node_where(c.g.handle, e.node)
      return ('\n  each node by itself is right: the fault lies in the gradient of the %s%s%s, by what it takes in '
              .. 'from %s'):format(
        kind, name and (' `%s`'):format(name) or '', line ~= '' and (' built at %s'):format(line) or '', tostring(e.o))
    end
  end
end

local function explain(c, level, u)
  local ok, o, wrong, node = pcall(nodes.first_wrong, c, u, c.xs, level.own)
  if ok and o then return node_text(c, o, wrong, node) end
  local found, text = pcall(wrong_construct, c, level.total)
  if found and text then return text end
  return '\n  each node by itself is right: the fault lies in a loop or cond, or in how gradients are added up'
end

-- ---- one level ------------------------------------------------------------------------------------------------------

local changes = { '^Assign', '^Resource', '^Scatter' }
local function has_effects(g, o)
  for _, node in ipairs(core.graph_needs(g.handle, { o.node, o.index })) do
    local kind = core.node_type(g.handle, node)
    for _, pattern in ipairs(changes) do
      if kind:find(pattern) and registry.need(kind).stateful then return true end
    end
  end
  return false
end

--- Runs, records, unrolls and compares one level; a report when it is wrong. `c.values` receives what the gradients
-- are.
local function check_level(c, level, order)
  local g = c.g
  core.graph_prepare(g.handle)
  c.effects = has_effects(g, level.total)
  if c.s then c.s:close() end
  c.s = session.new{ graph = g }
  local before
  if c.effects then            -- the values of xs before anything is assigned
    before = c.s:run(c.xs, c.feeds)
    c.s:init()
  end
  core.graph_record(g.handle, true)
  local ran, results = pcall(c.s.run, c.s, { total = level.total, grads = level.grads, at = c.xs }, c.feeds)
  core.graph_record(g.handle, false)
  if not ran then error(results, 0) end
  level.values = results.grads
  c.at = before or results.at
  local found = {}
  for k, v in ipairs(results.grads) do found[k] = numbers(v) end
  local leaves = copy.pairs_of(c.xs)
  for _, o in ipairs(copy.pairs_of(c.stops)) do leaves[#leaves + 1] = o end
  local ok, out = pcall(core.graph_unroll, g.handle, { level.total.node, level.total.index }, leaves, c.most)
  local u = ok and graph.output(g, out[1], out[2]) or level.total
  local unrolled
  if ok and u ~= level.total then
    if c.effects then c.s:init() end
    local value = c.s:run(u, c.feeds)
    if not (value == results.total or (value ~= value and results.total ~= results.total)
            or abs(value - results.total) <= 1e-9 * (1 + abs(value) + abs(results.total))) then
      return ('value of order %d: %s is %.17g, the unrolled graph gives %.17g')
        :format(order, level.what, results.total, value)
    end
    unrolled = {}
    for k, d in ipairs(gradients.gradients(u, c.xs, { stop_gradients = c.stops, unconnected = 'zero' })) do
      if c.effects then c.s:init() end
      unrolled[k] = numbers(c.s:run(convert.to_output(d, nil, g), c.feeds))
    end
    c.facts.unrolled = true
  elseif not ok then
    c.facts.rolled = tostring(out)
    if order == 1 and c.random then return nil end
  end
  local wrong = by_differences(c, u, found)
  if wrong then return headline(order, level.what, wrong, 'finite differences') .. explain(c, level, u) end
  if unrolled then
    wrong = unlike(c, found, unrolled, c.how.sharp and 1e-7 or 1e-2, c.how.sharp and 'float64' or 'float32')
    if wrong then return headline(order, level.what, wrong, 'the unrolled graph') .. explain(c, level, u) end
  end
end

local function is_random(kind) return registry.about(kind, 'random') end

local function any(g, o, what)
  for _, node in ipairs(core.graph_needs(g.handle, { o.node, o.index })) do
    if what(core.node_type(g.handle, node), node) then return true end
  end
  return false
end

--- All levels in one copy. Returns a report, or nil; and the facts.
local function check_levels(g, y, xs, opts, wide, values, order)
  return copy.within(g, { wide = wide, values = values }, { y, unpack(xs) }, function()
    local sharp = true
    for _, o in ipairs{ y, unpack(xs) } do sharp = sharp and convert.typed(o) == dtypes.FLOAT64 end
    local c = { g = g, xs = xs, feeds = copy.feeds(opts.feeds), how = differences.how(sharp, opts),
                facts = { wide = sharp },
                most = opts.unrolled == false and 0 or MOST_NODES, stops = opts.stop_gradients or {},
                random = any(g, y, is_random) }
    c.s = session.new{ graph = g }
    local shape = select(2, numbers(c.s:run(y, c.feeds)))
    local level, report = first_level(y, shape, xs, c.stops), nil
    c.facts.shapes = { shape }
    for k = 1, order do
      report = check_level(c, level, k)
      if report then break end
      if k < order then
        local shapes = shapes_of(level.values)
        c.facts.shapes[k + 1] = shapes
        level = next_level(level, shapes, xs, k + 1, c.stops)
      end
    end
    c.s:close()
    return report, c.facts
  end)
end

-- ---- as it stands ---------------------------------------------------------------------------------------------------

local plain = { what = 'as it is' }
-- rounds: how far it may be off, by dtype; without it each bit must be the same. like: as what; without it, as it is
local again = { float64 = 1e-10, float32 = 1e-4 }
local ways = {
  { what = 'parallel_iterations = 1', parallel_iterations = 1, loops = true },
  { what = 'parallel_iterations = 2', parallel_iterations = 2, loops = true },
  { what = 'parallel_iterations = 32', parallel_iterations = 32, loops = true },
  { what = "save = 'keep'", save = 'keep', loops = true, rounds = again },       -- its own loops may recompute
  { what = "save = 'swap'", save = 'swap', loops = true, like = "save = 'keep'" },
  { what = "save = 'recompute'", save = 'recompute', loops = true, rounds = again },
  { what = "engine = 'tokens'", session = { engine = 'tokens' } },
  { what = "engine = 'native'", session = { engine = 'native' }, loops = true },
  { what = "kernels = 'ref'", session = { kernels = 'ref' }, rounds = { float64 = 1e-8, float32 = 1e-3 } },
}

--- The gradients of all orders in a copy of its own: { y =, [order] = list of lists }; nil where there is no such way:
-- no such engine, or a loop that cannot be run again.
local function run_way(g, y, xs, opts, values, order, shapes, way)
  return copy.within(g, { values = values, parallel_iterations = way.parallel_iterations, save = way.save }, { y },
                     function()
    local o = { graph = g }
    for k, v in pairs(way.session or {}) do o[k] = v end
    local made, s = pcall(session.new, o)
    if not made then return nil end
    local feeds = copy.feeds(opts.feeds)
    local fetches = { y = y }
    local ok, results = pcall(function()
      local level
      for k = 1, order do
        level = k == 1 and first_level(y, shapes[1], xs, opts.stop_gradients)
        or next_level(level, shapes[k], xs, k, opts.stop_gradients)
        fetches[k] = level.grads
      end
      return s:run(fetches, feeds)
    end)
    s:close()
    if not ok then
      if way.save == 'recompute' and type(results) == 'table' and results.code == 'unimplemented' then return nil end
      error(results, 0)
    end
    local out = { y = numbers(results.y) }
    for k = 1, order do
      out[k] = {}
      for i, v in ipairs(results[k]) do out[k][i] = numbers(v) end
    end
    return out
  end)
end

local function check_ways(g, y, xs, opts, values, order, shapes)
  local loops = any(g, y, function(kind) return registry.primitive(kind) == 'LoopCond' end)
  local base = run_way(g, y, xs, opts, values, order, shapes, plain)
  local c, results = { xs = xs }, {}
  for _, way in ipairs(ways) do
    if loops or not way.loops then
      local got = run_way(g, y, xs, opts, values, order, shapes, way)
      local expected = results[way.like] or base
      results[way.what] = got
      local tolerance = way.rounds and (way.rounds[y.dtype] or 0.1) or 0
      -- an op that draws draws other numbers when the plan is another: nothing to compare then
      local comparable = got and not unlike({ xs = { y } }, { got.y }, { expected.y }, tolerance, y.dtype)
      if got and not comparable and not any(g, y, is_random) then
        return ('the value of %s is another with %s'):format(y.name, way.what)
      end
      for k = 1, comparable and order or 0 do
        local wrong = unlike(c, got[k], expected[k], tolerance, y.dtype)
        if wrong then
          return ('gradient of order %d: d %s / d %s, %s: %.17g with %s, but %.17g %s'):format(
            k, y.name, wrong.x.name, element_text(wrong), wrong.found, way.what, wrong.expected, way.like and 'with '
            .. way.like or plain.what)
        end
      end
    end
  end
end

-- ---- the door -------------------------------------------------------------------------------------------------------

local options = { 'order', 'feeds', 'tolerance', 'step', 'session', 'unrolled', 'ways', 'stop_gradients' }

--- Checks and returns: report or nil, facts.
function M.check(y, xs, opts)
  local g, order = y.graph, opts.order or 1
  copy.check_idle(g, 'check_gradients')
  local s = opts.session or session.default(g)
  local values = copy.values_of(s)
  local ok, report, facts = pcall(check_levels, g, y, xs, opts, true, values, order)
  if not ok then               -- an op or a gradient function that does not go with float64: then as it is
    local first = report
    ok, report, facts = pcall(check_levels, g, y, xs, opts, false, values, order)
    if not ok then error(report, 0) end
    facts.narrow = tostring(first)
  end
  if not report and opts.ways ~= false then report = check_ways(g, y, xs, opts, values, order, facts.shapes) end
  return report, facts
end

--- df.check_gradients(y, xs, {order = 1, feeds =, tolerance =, step =, session =, unrolled = true, ways = true}): is
-- the gradient of y by xs right? True, or false and a report that names the first wrong node and its Lua line.
--
-- The gradient of a weighted sum of y's elements is compared with finite differences (in a float64 copy of the graph
-- where its ops allow that), with the gradient of the same graph with all loops and conds unrolled as a recorded run
-- went, and, bit by bit, with itself under parallel_iterations 1, 2 and 32, save 'keep' and 'swap' and each engine;
-- within rounding, with itself under save 'recompute' and the reference kernels.
-- For order 2 the gradient's own gradient is checked in the same ways, and so on. Where something differs each node's
-- gradient function is compared with differences of its kernel at the values of the run, backwards from y; where all
-- are right the loop or cond is named.
-- The graph, the session and its variables stay as they are. Numbers drawn by random ops are held fast.
-- @param y     an Output of a float dtype
-- @param xs    an Output, a Variable, or a list of these
-- @param opts  order: 1 or more; feeds: as for run; stop_gradients: a list, as for gradients; tolerance: relative
--              (1e-5, 0.02 where float64 is not possible); step: of the differences; session: whose variables' values
--              count (the default session); unrolled, ways: false leaves that out
--
-- What stop_gradient (or a custom gradient) declares constant is held fast for the differences; a custom gradient that
-- is not the derivative is reported as wrong.
function M.check_gradients(y, xs, opts)
  opts = errors.options(opts, 'check_gradients', options)
  if xs == nil then errors.bad('check_gradients takes y and xs; xs is missing') end
  y = convert.to_output(y, nil, nil, 'check_gradients')
  if not nest.is_plain(xs) then xs = { xs } else xs = nest.flatten(xs, function() return true end) end
  local order = opts.order or 1
  if type(order) ~= 'number' or order < 1 or order ~= math.floor(order) then
    errors.bad('check_gradients: order is 1 or more, not %s', errors.describe(opts.order))
  end
  for _, name in ipairs{ 'tolerance', 'step' } do
    local v = opts[name]
    if v ~= nil and (type(v) ~= 'number' or not (v > 0)) then
      errors.bad('check_gradients: %s is a number above 0, not %s', name, errors.describe(v))
    end
  end
  for _, name in ipairs{ 'unrolled', 'ways' } do errors.flag(opts[name], 'check_gradients', name) end
  if opts.session ~= nil and getmetatable(opts.session) ~= session.Session then
    errors.bad('check_gradients: session is %s, a Session is expected', errors.describe(opts.session))
  end
  if not dtypes.is_float(graph.dtype(y)) then
    errors.bad('check_gradients: y is %s, a float is expected', y.dtype)
  end
  for _, x in ipairs(xs) do
    local d = convert.typed(x)
    if not d or not dtypes.is_float(d) then
      errors.bad('check_gradients: xs holds %s, a float Output or Variable is expected', errors.describe(x))
    end
    if x.graph ~= y.graph then errors.bad('check_gradients: %s belongs to another graph than y', x.name) end
  end
  local report = M.check(y, xs, opts)
  if report then return false, report end
  return true
end

return M
