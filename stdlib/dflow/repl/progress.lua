--- A line about a run that takes longer than half a second: rate, open iterations, and a bar where the number of trips
-- is known.
--
-- A loop whose predicate compares a counter with something that stays the same says how many trips it will make, once
-- one has seen where the counter stands in one of its iterations; so it is with a bound that was fed, or computed
-- before the loop, and with gradient loops too.
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local graph = require 'dflow.front.graph'
local inspect = require 'dflow.inspect'

local M = {}
local Line = {}
Line.__index = Line
local AFTER, EVERY = 0.5, 0.2

--- A line about the run h; `wanted` is false where standard error is no terminal that takes a line back.
function M.new(h, program, wanted)
  local now = program.clock()
  return setmetatable({ h = h, program = program, began = now, last = now, iterations = 0, wanted = wanted }, Line)
end

local function short(n)
  for _, unit in ipairs{ '', ' k', ' M', ' G' } do
    if n < 999.5 or unit == ' G' then return (n < 9.95 and unit ~= '' and '%.1f%s' or '%.0f%s'):format(n, unit) end
    n = n / 1000
  end
end

-- ---- how many trips -------------------------------------------------------------------------------------------------
local function through(o)
  while registry.about(o.op.type, 'passes') or registry.primitive(o.op.type) == 'LoopCond' do o = o.op.inputs[1] end
  return o
end

--- The LoopCond of a frame. An imported loop's frame is called after its context: while/while_context of
-- while/LoopCond.
local function loop_cond(g, frame)
  local own = frame.name .. '/LoopCond'
  local around = frame.name:match('^(.*)/[^/]*$')
  local imported = around and around .. '/LoopCond'
  local other
  for _, op in ipairs(g:ops()) do
    if registry.primitive(op.type) == 'LoopCond' then
      if op.name == own then return op end
      if op.name == imported then other = op end
    end
  end
  return other
end

local function constant(g, o)
  if registry.primitive(o.op.type) ~= 'Const' then return nil end
  local t = core.output_constant(g.handle, o.node, 0)
  local v = t and t.size == 1 and t:item()
  return type(v) == 'number' and v or nil
end

--- Is this what a loop's counter is? The number that each trip adds to it.
local function step_of(g, merge)
  if registry.primitive(merge.type) ~= 'Merge' or #merge.inputs ~= 2 then return nil end
  if registry.primitive(merge.inputs[2].op.type) ~= 'NextIteration' then return nil end
  local sum = through(merge.inputs[2].op.inputs[1]).op
  if #sum.inputs ~= 2 then return nil end
  local function counter(o)
    o = through(o)
    return registry.primitive(o.op.type) == 'Switch' and o.op.inputs[1].op == merge
  end
  local a, b = sum.inputs[1], sum.inputs[2]
  if sum.type == 'Add' or sum.type == 'AddV2' then
    return counter(a) and constant(g, through(b)) or counter(b) and constant(g, through(a)) or nil
  end
  if sum.type == 'Sub' and counter(a) then
    local by = constant(g, through(b))
    return by and -by
  end
end

local rising = { Less = true, LessEqual = true, Greater = false, GreaterEqual = false }

--- What a predicate says of trips: a list of {counter, step, bound, last = the bound itself is a trip, too}; nil where
-- it says nothing.
local function bounds(g, pred)
  pred = through(pred).op
  if pred.type == 'LogicalAnd' then
    local list = {}
    for _, side in ipairs(pred.inputs) do for _, b in ipairs(bounds(g, side) or {}) do list[#list + 1] = b end end
    return #list > 0 and list or nil
  end
  local up = rising[pred.type]
  if up == nil then return nil end
  local a, b = through(pred.inputs[1]), through(pred.inputs[2])
  if registry.primitive(a.op.type) ~= 'Merge' then a, b, up = b, a, not up end
  local step = step_of(g, a.op)
  if not step or step == 0 or (step > 0) ~= up then return nil end
  return { { counter = a, step = step, bound = b, last = pred.type:find('Equal$') ~= nil } }
end

--- The value that an output has in an open iteration; nil when it is not there. The run is paused.
local function value(h, o, frame, iteration)
  o = through(o)
  local v = constant(h.session.graph, o)
  if v then return v end
  local ok, found, dead = pcall(core.run_value, h.handle, o.node, o.index, frame.id, iteration)
  if ok and not dead and type(found) == 'number' then return found end
  if registry.primitive(o.op.type) == 'Enter' and frame.parent then
    return value(h, o.op.inputs[1], frame.parent, frame.parent_iteration or 0)
  end
end

--- How many trips the loop of a frame makes in all: a number; false when its predicate does not say; nil when it cannot
-- be seen just now.
local function trips(h, frame)
  local g = h.session.graph
  local cond = loop_cond(g, frame)
  local list = cond and bounds(g, cond.inputs[1])
  if not list then return false end
  local least = inspect.standing(h, function()
    local least
    local now = inspect.outlines(h, frame.id).by_id[frame.id]
    for _, b in ipairs(list) do
      local at, where
      for k = now and now.next - 1 or -1, now and now.first or 0, -1 do
        at, where = value(h, b.counter, now, k), k
        if at then break end
      end
      local bound = at and value(h, b.bound, now, where)
      if bound then
        local left = (bound - at) / b.step
        local n = where + (b.last and math.floor(left) + 1 or math.ceil(left))
        least = math.min(least or n, n)
      end
    end
    return least
  end)
  return least and least > 0 and least or nil
end
M.trips = trips

-- ---- the line -------------------------------------------------------------------------------------------------------
--- The parts that have room, most important first.
local function fit(parts, columns)
  local text = ''
  for _, part in ipairs(parts) do
    local more = text == '' and part or text .. '  ' .. part
    if #more > columns then break end
    text = more
  end
  return text
end

--- What a run without loops is busy with.
local function busy_with(h)
  local at = core.run_at(h.handle)
  if at < 0 then return 'variables are initialised' end
  local op = graph.operation(h.session.graph, at)
  return ('%s (%s)%s'):format(op.name, op.type, op.source and '  ' .. op.source or '')
end

--- The line's text: bar, seconds, rate, where it is.
function Line:text(seconds, rate, outer, columns)
  local parts = { ('%.1f s'):format(seconds), ('%s it/s'):format(short(rate)) }
  if not outer then
    if rate == 0 then parts[2] = busy_with(self.h) end
    return fit(parts, columns)
  end
  parts[3] = ('%s:%d'):format(outer.name, outer.first)
  parts[4] = (outer.in_flight > outer.limit and '%d iterations open'
              or '%d of %d iterations open'):format(outer.in_flight, outer.limit)
  if self.loop ~= outer.name then self.loop, self.total, self.tries = outer.name, nil, 0 end
  if self.total == nil and self.tries < 20 then
    local ok, n = pcall(trips, self.h, outer)
    self.total, self.tries = ok and n, self.tries + 1
    if not ok then self.total = false end
  end
  if self.total and outer.first <= self.total then
    local wide = columns >= 60 and 20 or 10
    local full = math.floor(outer.first / self.total * wide)
    table.insert(parts, 1, ('[%s%s] %3d %%')
      :format(('#'):rep(full), ('.'):rep(wide - full), math.floor(100 * outer.first / self.total)))
    parts[4] = ('%s:%d of %.0f'):format(outer.name, outer.first, self.total)
  end
  return fit(parts, columns)
end

--- The loop that the line speaks of: of those at the top level one that has begun.
local function outermost(frames)
  local best
  for _, f in ipairs(frames) do
    if f.parent and not f.parent.parent and (not best or (best.enters_missing > 0 and f.enters_missing == 0)) then
      best = f
    end
  end
  return best
end
M.outermost = outermost

--- Writes the line anew, when it is time.
function Line:show()
  local now = self.program.clock()
  if not self.wanted or now - self.began < AFTER or now - self.last < EVERY then return end
  local stats = self.h:stats()
  local rate = (stats.iterations - self.iterations) / (now - self.last)
  self.iterations, self.last = stats.iterations, now
  local outer
  local ok, frames = pcall(inspect.outlines, self.h)           -- it may have ended meanwhile
  if ok then outer = outermost(frames) end
  io.stdout:flush()                                            -- what has been printed stands above it
  core.status_line(self:text(now - self.began, rate, outer, self.program.terminal().columns - 1))
end

function Line:clear()
  core.status_line(nil)
  self.began = self.program.clock()
end

return M
