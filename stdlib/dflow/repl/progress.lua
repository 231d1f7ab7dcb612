--- A line about a run that takes longer than half a second: rate, open iterations, and a bar where the number of trips is known.
local core = require 'dflow.backend'
local inspect = require 'dflow.inspect'

local M = {}
local Line = {}
Line.__index = Line
local AFTER, EVERY = 0.5, 0.2

function M.new(h, program)
  local now = program.clock()
  return setmetatable({ h = h, program = program, began = now, last = now, iterations = 0, shown = false, wanted = program.terminal().editing }, Line)
end

local function short(n)
  for _, unit in ipairs{ '', ' k', ' M', ' G' } do
    if n < 1000 or unit == ' G' then return (n < 10 and unit ~= '' and '%.1f%s' or '%.0f%s'):format(n, unit) end
    n = n / 1000
  end
end

local function origin(o)
  while o.op.type == 'Identity' or o.op.type == 'LoopCond' or (o.op.type == 'Enter' and #o.op.inputs == 1) do o = o.op.inputs[1] end
  return o
end

--- The trips that the outermost loop of this name makes, when its predicate is `i < constant` and i counts from a constant; else nil.
local function trips(g, name)
  for _, op in ipairs(g:ops()) do
    if op.type == 'LoopCond' and op.name:sub(1, #name + 1) == name .. '/' then
      local less = origin(op.inputs[1]).op
      if less.type ~= 'Less' then return nil end
      local variable, limit = less.inputs[1].op, origin(less.inputs[2]).op
      if variable.type ~= 'Merge' or limit.type ~= 'Const' then return nil end
      local first = origin(variable.inputs[1]).op
      if first.type ~= 'Const' then return nil end
      local a, b = core.output_constant(g.handle, first.node, 0), core.output_constant(g.handle, limit.node, 0)
      a, b = a and a:item(), b and b:item()
      return type(a) == 'number' and type(b) == 'number' and b > a and b - a or nil
    end
  end
end

--- Writes the line anew, when it is time.
function Line:show()
  local now = self.program.clock()
  if not self.wanted or now - self.began < AFTER or now - self.last < EVERY then return end
  local stats = self.h:stats()
  local rate = (stats.iterations - self.iterations) / (now - self.last)
  self.iterations, self.last = stats.iterations, now
  local text = ('%.1f s  %s it/s'):format(now - self.began, short(rate))
  local outer
  local ok, frames = pcall(inspect.outlines, self.h)           -- it may have ended meanwhile
  for _, f in ipairs(ok and frames or {}) do if f.parent then outer = f break end end
  if outer then
    text = text .. ('  %s:%d, %d of %d iterations open'):format(outer.name, outer.first, outer.in_flight, outer.limit)
    if self.total == nil then
      local ok, n = pcall(trips, self.h.session.graph, outer.name)
      self.total, self.loop = ok and n or false, outer.name
    end
    if self.total and self.loop == outer.name then
      local part = math.min(1, outer.first / self.total)
      local full = math.floor(part * 20)
      text = ('[%s%s] %3d %%  %s'):format(('#'):rep(full), ('.'):rep(20 - full), math.floor(part * 100), text)
    end
  end
  io.stderr:write('\r\27[K', text:sub(1, self.program.terminal().columns - 1))
  io.stderr:flush()
  self.shown = true
end

function Line:clear()
  if self.shown then
    io.stderr:write('\r\27[K')
    io.stderr:flush()
  end
  self.shown, self.began = false, self.program.clock()
end

return M
