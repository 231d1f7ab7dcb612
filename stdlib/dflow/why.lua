--- Why a value is what it is, why it is dead, and why it has not come: h:why(x, tag) and h:whynot(x, tag) of a paused run.
--
-- Everything is read out of the run where it stands: values that are still in their slots (or were logged, opts.values), and the
-- graph's own edges. A dead token is followed back to the Switch that sent it the other way.
local core = require 'dflow.backend'
local graph = require 'dflow.graph'
local inspect = require 'dflow.inspect'

local passes = { Identity = true, LoopCond = true, StopGradient = true, RefIdentity = true }
local signs = { Less = '<', LessEqual = '<=', Greater = '>', GreaterEqual = '>=', Equal = '==', NotEqual = '~=', LogicalAnd = 'and', LogicalOr = 'or' }

-- ---- reading ----------------------------------------------------------------------------------------------------------
--- One place in one run: values are asked for by (node, index) in a frame and iteration.
local Place = {}
Place.__index = Place

local function new_place(r, frame, iteration, frames)
  return setmetatable({ run = r, graph = r.session.graph, frame = frame, iteration = iteration, frames = frames }, Place)
end

--- value, 'live' | nil, 'dead' | nil, 'unknown', message
function Place:value(o)
  local ok, v, dead = pcall(core.run_value, self.run.handle, o.node, o.index, self.frame, self.iteration)
  if not ok then return nil, 'unknown', tostring(v.message or v) end
  if dead then return nil, 'dead' end
  return v, 'live'
end

function Place:tag()
  local f = self.frames.by_id[self.frame]
  if not f then return ('frame #%d:%d'):format(self.frame, self.iteration) end
  return f.parent and ('%s:%d'):format(f.tag, self.iteration) or ''
end

--- The iteration of the parent that this frame was opened in.
function Place:outer()
  local f = self.frames.by_id[self.frame]
  if f and f.parent then return new_place(self.run, f.parent.id, f.parent_iteration, self.frames) end
end

local function show(v)
  if type(v) == 'number' and v == math.floor(v) and math.abs(v) < 1e15 then return ('%d'):format(v) end
  if type(v) == 'number' then return ('%.6g'):format(v) end
  local text = tostring(v):gsub('%s+', ' ')
  return #text > 60 and text:sub(1, 57) .. '...' or text
end

--- What an output stands for: past what only hands it on.
local function origin(o)
  while passes[o.op.type] do o = o.op.inputs[1] end
  return o
end

local function line(op) return op.source and '  ' .. op.source or '' end

--- `i < n was 17 < 20`, or the predicate's name and value.
local function because(place, pred)
  local o = origin(pred)
  local v = place:value(o)
  local sign = signs[o.op.type]
  local inputs = o.op.inputs
  if sign and #inputs == 2 then
    local a, b = place:value(inputs[1]), place:value(inputs[2])
    if a ~= nil and b ~= nil then
      return ('since %s %s %s was %s %s %s'):format(origin(inputs[1]).op.name, sign, origin(inputs[2]).op.name, show(a), sign, show(b))
    end
  end
  return ('since its predicate %s was %s'):format(o.op.name, v == nil and 'the other way' or show(v))
end

-- ---- why dead --------------------------------------------------------------------------------------------------------------
local function why_dead(place, o, lines, seen, depth)
  local op = o.op
  local key = op.node .. '@' .. place:tag()
  if seen[key] or depth > 50 then return false end
  seen[key] = true
  if op.type == 'Switch' or op.type == 'RefSwitch' then
    local pred = op.inputs[2]
    local v, how = place:value(pred)
    if how == 'live' then
      if v == (o.index == 1) then return false end
      lines[#lines + 1] = ('dead: the Switch %s took %s, %s%s'):format(op.name, tostring(v), because(place, pred), line(op))
      return true
    end
  end
  if op.type == 'Enter' or op.type == 'RefEnter' then
    local outer = place:outer()
    return outer and why_dead(outer, op.inputs[1], lines, seen, depth + 1) or false
  end
  for _, input in ipairs(op.inputs) do
    local _, how = place:value(input)
    if how ~= 'live' and why_dead(place, input, lines, seen, depth + 1) then
      table.insert(lines, #lines, ('dead: its input %s was dead%s'):format(input.op.name, line(op)))
      return true
    end
  end
  for _, control in ipairs(op.controls or {}) do
    local first = control.outputs[1]
    if first and why_dead(place, first, lines, seen, depth + 1) then
      table.insert(lines, #lines, ('dead: it waits for %s, which was dead%s'):format(control.name, line(op)))
      return true
    end
  end
  return false
end

-- ---- the methods --------------------------------------------------------------------------------------------------------------
local function prepare(r, x, tag, what)
  local s = inspect.must_pause(r, what)
  local node, index = inspect.node_of(r, x, what)
  local frame, iteration = inspect.place(r, tag, s)
  return new_place(r, frame, iteration, inspect.outlines(r)), graph.output(r.session.graph, node, index)
end

--- h:why(x, tag?): a text: the value of x there and of what it was computed from, or why it is dead.
local function why(r, x, tag)
  local place, o = prepare(r, x, tag, 'why')
  local v, how, message = place:value(o)
  local at = place:tag()
  local head = at ~= '' and ('%s @ %s'):format(o.name, at) or o.name
  if how == 'unknown' then return ('%s: %s'):format(head, message) end
  if how == 'dead' then
    local lines = {}
    if not why_dead(place, o, lines, {}, 0) then lines[1] = 'dead: the Switch that made it so is in an iteration that is over' end
    lines[1] = head .. ' is ' .. lines[1]
    return table.concat(lines, '\n  ')
  end
  local made = origin(o)
  local parts = {}
  for _, input in ipairs(made.op.inputs) do
    local value, state = place:value(input)
    parts[#parts + 1] = ('%s = %s'):format(origin(input).op.name, state == 'live' and show(value) or state == 'dead' and '(dead)' or '?')
  end
  local from = #parts > 0 and ('%s(%s)'):format(made.op.type, table.concat(parts, ', ')) or made.op.type
  return ('%s is %s = %s%s'):format(head, show(v), from, line(made.op))
end

local whynot_lines
function whynot_lines(place, o, lines, indent, seen)
  local ok, state, missing = pcall(core.run_waits_for, place.run.handle, o.node, place.frame, place.iteration)
  if not ok then
    lines[#lines + 1] = indent .. tostring(state.message or state)
    return
  end
  if state == 0 then lines[#lines + 1] = indent .. 'it is ready and runs soon' return end
  if state == 1 then lines[#lines + 1] = indent .. 'a worker is running it' return end
  if state == 2 then lines[#lines + 1] = indent .. 'it waits for something outside the run (a queue)' return end
  if state == 4 then
    local _, how = place:value(o)
    lines[#lines + 1] = indent .. (how == 'dead' and 'it has run: it is dead; ask h:why' or 'it has run')
    return
  end
  if #missing == 0 then
    for _, input in ipairs(o.op.inputs) do       -- a loop variable comes from the iteration before
      local merge = origin(input).op
      local next_ = merge.type == 'Merge' and merge.inputs[2]
      if next_ and next_.op.type == 'NextIteration' and place.iteration > 0 then
        local before = new_place(place.run, place.frame, place.iteration - 1, place.frames)
        lines[#lines + 1] = ('%sit waits for %s @ %s%s'):format(indent, next_.op.name, before:tag(), line(next_.op))
        if #indent < 24 then whynot_lines(before, next_, lines, indent .. '  ', seen) end
        return
      end
    end
    lines[#lines + 1] = indent .. 'its inputs come from frames that have not got so far'
  end
  for i = 1, #missing, 2 do
    local input = graph.output(place.graph, missing[i], math.max(missing[i + 1], 0))
    local key = input.op.name
    lines[#lines + 1] = ('%sit waits for %s%s%s'):format(indent, missing[i + 1] < 0 and 'the end of ' or '', key, line(input.op))
    if not seen[key] and #indent < 24 then
      seen[key] = true
      whynot_lines(place, input, lines, indent .. '  ', seen)
    end
  end
end

--- h:whynot(x, tag?): a text: what x still waits for there, and what that waits for.
local function whynot(r, x, tag)
  local place, o = prepare(r, x, tag, 'whynot')
  local at = place:tag()
  local lines = { at ~= '' and ('%s @ %s'):format(o.name, at) or o.name }
  whynot_lines(place, o, lines, '  ', {})
  return table.concat(lines, '\n')
end

return { why = why, whynot = whynot }
