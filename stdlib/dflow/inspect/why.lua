--- Why a value is what it is, why it is dead, and why it has not come: h:why(x, tag) and h:whynot(x, tag) of a paused
-- run.
--
-- Everything is read out of the run where it stands: values that are still in their slots (or were logged,
-- opts.values), and the graph's own edges. A dead token is followed back to the Switch that sent it the other way, a
-- missing one to what is ready, running, or held up.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local primitive = require('dflow.front.registry').primitive
local inspect = require 'dflow.inspect'
local whereabouts = require 'dflow.inspect.whereabouts'

local OVER = 'the run is over; of iterations that ended it knows the values that it kept, if it was told to: {values '
             .. '= true}, :record on'
local origin = whereabouts.origin

local signs = { Less = '<', LessEqual = '<=', Greater = '>', GreaterEqual = '>=', Equal = '==', NotEqual = '~=',
                LogicalAnd = 'and', LogicalOr = 'or' }

-- ---- reading --------------------------------------------------------------------------------------------------------
--- One place in one run: values are asked for by (node, index) in a frame and iteration.
local Place = {}
Place.__index = Place

local RAN = 4               -- DF_TOKEN_RAN
local new_place

function new_place(look, frame, iteration)
  return setmetatable({ look = look, run = look.run, graph = look.graph, frame = frame, iteration = iteration }, Place)
end

--- The NextIteration of a loop variable's Merge; nil of other nodes.
local function next_of(op)
  local second = primitive(op.type) == 'Merge' and op.inputs[2]
  return second and primitive(second.op.type) == 'NextIteration' and second or nil
end

--- Has it come to its place, be it taken away since? What brings a value into an iteration has no record of its own,
-- and its slot may hold what an iteration before left there; so those that it comes from are asked.
function Place:has_come(o)
  local op, f = o.op, self.frame
  if next_of(op) and f.parent then
    if self.iteration == 0 then return f.enters_missing == 0 or self:has_come(op.inputs[1]) end
    if self.iteration <= f.first then return true end
    return self:before():state(next_of(op)) == RAN
  end
  if primitive(op.type) == 'Enter' and f.enters_missing > 0 then
    local outer = self:outer()
    local at = outer and outer:of(op.inputs[1].node)
    return at ~= nil and at:arrived(op.inputs[1])
  end
  return true
end

--- value, 'live' | nil, 'dead' | nil, 'unknown', message
function Place:value(o)
  local ok, v, dead = pcall(core.run_value, self.run.handle, o.node, o.index, self.frame.id, self.iteration)
  if not ok then return nil, 'unknown', tostring(v.message or v) end
  if dead then return nil, 'dead' end
  if not self:has_come(o) then return nil, 'unknown', ('`%s` has not come in this iteration yet'):format(o.op.name) end
  return v, 'live'
end

--- Of a node that has tokens there: 0 ready, 1 running, 2 held up, 3 partial, 4 ran, and what it misses; nil, a message
-- of others.
function Place:state(o)
  local ok, state, missing = pcall(core.run_waits_for, self.run.handle, o.node, self.frame.id, self.iteration)
  if ok then return state, missing end
  return nil, tostring(state.message or state)
end

--- Is the value of an output there, or was it, at the place where it is made?
function Place:arrived(o)
  local _, how = self:value(o)
  return how ~= 'unknown' or self:state(o) == RAN or (primitive(o.op.type) == 'Enter' and self:has_come(o))
end

function Place:before() return new_place(self.look, self.frame, self.iteration - 1) end

function Place:tag() return whereabouts.tag(self.frame, self.iteration) end

--- `x:0 @ while:17`
function Place:says(name)
  local at = self:tag()
  return at ~= '' and ('%s @ %s'):format(name, at) or name
end

--- The same place further out or further in, where a node's values are; nil when no such frame is open.
function Place:of(node)
  local frame, iteration = whereabouts.find(self.look.frames, self.frame, self.iteration, self.look.loops.of(node))
  return frame and new_place(self.look, frame, iteration)
end

--- The iteration of the parent that this frame was opened in.
function Place:outer()
  if self.frame.parent then return new_place(self.look, self.frame.parent, self.frame.parent_iteration) end
end

local function show(v)
  if v ~= v then return 'nan' end
  if type(v) == 'number' and v == math.floor(v) and math.abs(v) < 1e15 then return ('%d'):format(v) end
  if type(v) == 'number' then return ('%.6g'):format(v) end
  local text = tostring(v):gsub('%s+', ' ')
  return #text > 60 and text:sub(1, 57) .. '...' or text
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
      return ('since %s %s %s was %s %s %s')
        :format(origin(inputs[1]).op.name, sign, origin(inputs[2]).op.name, show(a), sign, show(b))
    end
  end
  return ('since its predicate %s was %s'):format(o.op.name, v == nil and 'the other way' or show(v))
end

--- By node: the device that it is on in this run. Empty where the run has one.
local function devices_of(look)
  if look.devices then return look.devices end
  local by_node, first, many = {}, nil, false
  for _, p in ipairs(require('dflow.front.devices').placement(look.run.session.handle, look.run.flat)) do
    by_node[p.id] = p.device
    first = first or p.device
    many = many or p.device ~= first
  end
  look.devices = many and by_node or {}
  return look.devices
end

--- `Add(x = 1, y (from sim:0) = 2)`: an op with the values that it has taken there, and whence over the cut.
local function computed(place, op)
  local parts, on = {}, devices_of(place.look)
  for _, input in ipairs(op.inputs) do
    local value, state = place:value(input)
    local from = origin(input).op
    -- a constant of the loop that came from another device
    if state == 'unknown' and primitive(from.type) == 'Enter' and place:outer() then
      from = origin(from.inputs[1]).op
      value, state = place:outer():value(from.outputs[1])
    end
    local crossed = on[from.node] and on[op.node] and on[from.node] ~= on[op.node]
      and (' (from %s)'):format(on[from.node]) or ''
    parts[#parts + 1] = ('%s%s = %s')
      :format(from.name, crossed, state == 'live' and show(value) or state == 'dead' and '(dead)' or '?')
  end
  return #parts > 0 and ('%s(%s)')
    :format(op.type, table.concat(parts, ', ')) or op.type, on[op.node] and ' on ' .. on[op.node] or ''
end

-- ---- why dead -------------------------------------------------------------------------------------------------------
local function why_dead(place, o, lines, seen, depth)
  local op = o.op
  local key = op.node .. '@' .. place:tag()
  if seen[key] or depth > 50 then return false end
  seen[key] = true
  if primitive(op.type) == 'Switch' then
    local pred = op.inputs[2]
    local v, how = place:value(pred)
    if how == 'live' then
      if v == (o.index == 1) then return false end
      lines[#lines + 1] = { nil, ('the Switch %s took %s, %s%s')
        :format(op.name, tostring(v), because(place, pred), line(op)) }
      return true
    end
  end
  if primitive(op.type) == 'Enter' then
    local outer = place:outer()
    return outer and why_dead(outer, op.inputs[1], lines, seen, depth + 1) or false
  end
  for _, input in ipairs(op.inputs) do
    local _, how = place:value(input)
    if how ~= 'live' and why_dead(place, input, lines, seen, depth + 1) then
      table.insert(lines, 1, { op, ('its input %s was dead%s'):format(input.op.name, line(op)) })
      return true
    end
  end
  for _, control in ipairs(op.control_inputs) do
    local first = control.outputs[1]
    if first and why_dead(place, first, lines, seen, depth + 1) then
      table.insert(lines, 1, { op, ('it waits for %s, which was dead%s'):format(control.name, line(op)) })
      return true
    end
  end
  return false
end

-- ---- loops ----------------------------------------------------------------------------------------------------------
--- Has a value come to where it is needed?
local function arrived(place, o)
  local at = place:of(o.node)
  return at ~= nil and at:arrived(o)
end

--- The open frame of a loop that an iteration began.
local function child_of(place, loop)
  for _, f in ipairs(place.look.frames) do
    if f.parent == place.frame and f.parent_iteration == place.iteration and f.name == loop.name then return f end
  end
end

-- ---- the methods ----------------------------------------------------------------------------------------------------
--- What is asked about: the place of x (nil when its frame is not open), x, the place asked from, and was its tag
-- given?
local function prepare(r, x, tag, what)
  local s = inspect.must_pause(r, what)
  local node, index = inspect.node_of(r, x, what)
  local g = r.session.graph
  local look = { run = r, graph = g, frames = inspect.outlines(r), loops = whereabouts.loops(g) }
  local frame, iteration = inspect.place(r, tag, s)
  local from = look.frames.by_id[frame]
  if not from then from, iteration = look.frames[1], 0 end      -- it stopped in a frame that has ended since
  from = new_place(look, from, iteration)
  return from:of(node), graph.output(g, node, index), from
end

--- Of a node whose frame is not open.
local function no_frame(o, from)
  local loop = from.look.loops.of(o.node)
  return ('%s: no frame of its loop `%s` is open%s: it has not begun, or is over'):format(o.name, loop and loop.name
      or '',
    from.frame.parent and ' in ' .. from:tag() or '')
end

--- The place, or the nearest iteration before, where x has a value or is dead.
local function with_value(place, o)
  local v, how, message = place:value(o)
  local from = place
  for back = 1, 50 do
    if how ~= 'unknown' or not place.frame.parent or back > from.iteration then break end
    place = new_place(place.look, place.frame, from.iteration - back)
    v, how = place:value(o)
  end
  if how == 'unknown' then return from, nil, how, message end
  return place, v, how
end

--- Of the node that an error stopped: what it was given.
local function failed(r, place, o)
  local e = r.over and not r.ok and r.result
  if type(e) ~= 'table' or not e.op or e.op:match('^(.-) %(') ~= o.op.name or (e.frame or '') ~= place:tag() then
    return nil
  end
  local text, device = computed(place, o.op)
  return ('%s failed, %s: %s%s%s')
    :format(place:says(o.name), e.message, #o.op.inputs > 0 and text or text .. '()', device, line(o.op))
end

--- h:why(x, tag?): a text: the value of x there and of what it was computed from, or why it is dead.
local function why(r, x, tag)
  local place, o, from = prepare(r, x, tag, 'why')
  if not place then return no_frame(o, from) end
  local v, how, message
  local error_text = failed(r, place, o)
  if error_text then return error_text end
  if tag == nil then place, v, how, message = with_value(place, o) else v, how, message = place:value(o) end
  local head = place:says(o.name)
  if how == 'unknown' then
    local loop = place.look.loops.exit(o.node)
    local open = loop and child_of(place, loop)
    if open then
      return ('%s has not come: the loop %s goes on, %s'):format(head, open.tag, whereabouts.flight(open))
    end
    if place.frame.ended then message = OVER end
    return ('%s: %s'):format(head, whereabouts.closed(place.frame, place.iteration) or message)
  end
  if how == 'dead' then
    local lines = {}
    if not why_dead(place, o, lines, {}, 0) then
      lines[1] = { nil, 'the Switch that made it so is in an iteration that is over' }
    end
    for i, entry in ipairs(lines) do
      lines[i] = ('dead: %s%s'):format(i > 1 and entry[1] and entry[1].name .. ': ' or '', entry[2])
    end
    return head .. ' is ' .. table.concat(lines, '\n  ')
  end
  local made = origin(o)
  local text, device = computed(place, made.op)
  return ('%s is %s = %s%s%s'):format(head, show(v), text, device, line(made.op))
end

-- ---- why not --------------------------------------------------------------------------------------------------------
local DEEP = 24              -- no line is indented further
local MOVING = 3             -- tokens named of a loop that one waits for

--- `from sim:0 to sim:1`: the ways that a node's value goes in messages; nil when there is none.
local function ways_of(look, op)
  local on, list, seen = devices_of(look), {}, {}
  for id, device in pairs(on) do
    for _, input in ipairs(device ~= on[op.node] and not seen[device] and graph.operation(look.graph, id).inputs
                           or {}) do
      if origin(input).op == op and not seen[device] then
        seen[device] = true
        list[#list + 1] = device
      end
    end
  end
  table.sort(list)
  return #list > 0 and ('from %s to %s'):format(on[op.node], table.concat(list, ' or ')) or nil
end

--- What a kernel that has been away for long waits for; a node whose value is in a message is away so, too.
local function held_up(op, look)
  local queue = op.inputs[1] and op.inputs[1].dtype == 'resource' and op.inputs[1]
  while queue and #queue.op.inputs > 0 do queue = queue.op.inputs[1] end
  if queue and op.type:find 'Enqueue' then
    local ok, capacity = pcall(core.node_attr, queue.graph.handle, queue.node, 'capacity')
    return ('waits for room in the queue %s%s')
      :format(queue.op.name, ok and capacity and capacity >= 0 and (' (%.0f fit in)'):format(capacity) or '')
  end
  if queue and op.type:find 'Dequeue' then return ('waits for an element of the queue %s'):format(queue.op.name) end
  local ways = ways_of(look, op)
  return ways and 'has run; its value is on its way ' .. ways or 'waits for something outside the run'
end

local TOKEN = { [0] = function() return 'is ready and runs soon' end, function() return 'is being run by a worker' end,
                held_up }

--- The tokens that the oldest open iteration of a frame has, inside of it too: what all later ones wait for.
local function moving(f, look, lines, indent)
  local oldest, found = {}, 0
  local least = math.huge
  for _, t in ipairs(core.snapshot_tokens(core.run_look(look.run.handle))) do
    local at, n = look.frames.by_id[t.frame], t.iteration
    local tag = at and whereabouts.tag(at, n)
    while at and at ~= f do at, n = at.parent, at.parent_iteration end
    if at and TOKEN[t.state] and n <= least then
      if n < least then oldest, least = {}, n end
      oldest[#oldest + 1] = { graph.operation(look.graph, t.node), tag, t.state }
    end
  end
  for i, t in ipairs(oldest) do
    if i > MOVING then
      lines[#lines + 1] = ('%sand %d more'):format(indent, #oldest - MOVING)
      break
    end
    lines[#lines + 1] = ('%s%s @ %s %s%s'):format(indent, t[1].name, t[2], TOKEN[t[3]](t[1], look), line(t[1]))
    found = i
  end
  return found > 0
end

--- Where an explanation would come round to itself, one iteration earlier each time.
local function and_so_on(place, lines, indent)
  if place.iteration > place.frame.first then
    lines[#lines + 1] = ('%sand so on, back to iteration %.0f:'):format(indent, place.frame.first)
  end
  moving(place.frame, place.look, lines, indent .. '  ')
end

local whynot_lines

--- Of an Exit: the loop that has to end, or to begin, for it. False when it is over.
local function whynot_loop(place, loop, lines, indent, seen)
  local frame = child_of(place, loop)
  local name = frame and frame.tag or loop.name
  if seen[loop.number .. '@' .. place:tag()] then return true end
  seen[loop.number .. '@' .. place:tag()] = true
  if frame and frame.enters_missing == 0 then
    lines[#lines + 1] = ('%sit waits for the loop %s to end: %s  %s')
      :format(indent, name, whereabouts.flight(frame), loop.where)
    moving(frame, place.look, lines, indent .. '  ')
    return true
  end
  local first = #lines + 1
  for _, node in ipairs(place.look.loops.enters(loop)) do
    local input = graph.operation(place.graph, node).inputs[1]
    if not arrived(place, input) then
      lines[first] = lines[first] or ('%sit waits for the loop %s to begin  %s'):format(indent, name, loop.where)
      local at, key = place:of(input.node), input.name
      local from = at and at.look.loops.exit(input.node)
      if from then key = from.number .. '@' .. at:tag() end
      if at and not seen[key] and #indent < DEEP then
        seen[key] = not from or nil
        lines[#lines + 1] = ('%s  which waits for %s%s'):format(indent, input.op.name, line(input.op))
        whynot_lines(at, input, lines, indent .. '    ', seen)
      elseif at and at.frame == place.frame and seen[key] and not from then
        and_so_on(place, lines, indent .. '  ')
      end
    end
  end
  return #lines >= first
end

--- Of an Enter: the value outside that it brings in.
local function whynot_enter(place, o, lines, indent, seen)
  local outer, input = place:outer(), o.op.inputs[1]
  if not outer or arrived(outer, input) then
    lines[#lines + 1] = indent .. 'it has run'
    return
  end
  lines[#lines + 1] = ('%sit waits for %s%s'):format(indent, outer:says(input.op.name), line(input.op))
  local at = outer:of(input.node)
  if at and #indent < DEEP then whynot_lines(at, input, lines, indent .. '  ', seen) end
end

--- Of a loop variable's Merge: what the iteration before, or what is outside, still owes it.
local function whynot_merge(place, merge, lines, indent, seen)
  if place.iteration == 0 then return whynot_enter(place, merge.inputs[1], lines, indent, seen) end
  local before, next_ = place:before(), next_of(merge)
  lines[#lines + 1] = ('%sit waits for %s%s'):format(indent, before:says(next_.op.name), line(next_.op))
  if seen[next_.name] or before.iteration > place.frame.first then
    and_so_on(before, lines, indent .. '  ')
  elseif #indent < DEEP then
    seen[next_.name] = true
    whynot_lines(before, next_, lines, indent .. '  ', seen)
  end
end

--- Of a node that misses none that has a record of its own: a loop variable, or what it hands on.
local function whynot_inputs(place, o, lines, indent, seen)
  local said = #lines
  for _, input in ipairs(o.op.inputs) do
    local merge = origin(input).op
    if next_of(merge) and not place:has_come(origin(input)) then
      return whynot_merge(place, merge, lines, indent, seen)
    end
  end
  for _, input in ipairs(o.op.inputs) do
    local at = place:of(input.node)
    if at and not at:arrived(input) and not seen[input.name] and #indent < DEEP then
      seen[input.name] = true
      lines[#lines + 1] = ('%sit waits for %s%s')
        :format(indent, at.frame == place.frame and input.op.name or at:says(input.op.name), line(input.op))
      whynot_lines(at, input, lines, indent .. '  ', seen)
    end
  end
  local on = #lines == said and devices_of(place.look) or {}
  for _, input in ipairs(o.op.inputs) do                   -- all has been made: it is on its way
    local from = origin(input).op
    if on[from.node] and on[o.node] and on[from.node] ~= on[o.node] then
      lines[#lines + 1] = ('%sit waits for %s, whose value is on its way from %s to %s%s')
        :format(indent, from.name, on[from.node], on[o.node], line(from))
    end
  end
  if #lines > said then return end
  -- a constant of a branch has its token, too
  for _, t in ipairs(core.snapshot_tokens(core.run_look(place.look.run.handle))) do
    for _, input in ipairs(o.op.inputs) do
      if t.node == input.node and t.frame == place.frame.id and t.iteration == place.iteration and TOKEN[t.state] then
        lines[#lines + 1] = ('%sit waits for %s, which %s%s')
          :format(indent, input.op.name, TOKEN[t.state](input.op, place.look), line(input.op))
      end
    end
  end
end

function whynot_lines(place, o, lines, indent, seen)
  local function say(text) lines[#lines + 1] = indent .. text end
  local loop, type = place.look.loops.exit(o.node), o.op.type
  local state, missing = place:state(o)
  if state == 0 then return say 'it is ready and runs soon' end
  if state == 1 then return say 'a worker is running it' end
  if state == 2 then return say('it ' .. held_up(o.op, place.look)) end
  local _, how = place:value(o)
  if loop and how == 'unknown' and whynot_loop(place, loop, lines, indent, seen) then return end
  if how == 'live' or (how == 'unknown' and state == RAN) then return say 'it has run' end
  if how == 'dead' then return say 'it has run: it is dead; ask why' end
  if primitive(type) == 'Enter' then return whynot_enter(place, o, lines, indent, seen) end
  if next_of(o.op) and place.frame.parent then return whynot_merge(place, o.op, lines, indent, seen) end
  local made = origin(o)
  if not state and made ~= o then        -- what only hands a value on has no token
    local at = place:of(made.node)
    say(('it hands on %s%s'):format(at and at:says(made.op.name) or made.op.name, line(made.op)))
    if at and #indent < DEEP then whynot_lines(at, made, lines, indent .. '  ', seen) end
    return
  end
  if not state then
    if #o.op.inputs == 0 and primitive(type) ~= 'Placeholder' then return say 'it is known before the run begins' end
    if place.frame.ended then return say(OVER) end
    return say(whereabouts.closed(place.frame, place.iteration)
               or ('`%s` is not part of this run: its fetches do not need it'):format(o.op.name))
  end
  if #missing == 0 then whynot_inputs(place, o, lines, indent, seen) end
  local told = false
  for i = 1, #missing, 2 do
    local input = graph.output(place.graph, missing[i], math.max(missing[i + 1], 0))
    local key = place:says(input.op.name)
    -- what was explained above is not said twice, but for want of better
    if not seen[key] or (not told and i + 1 == #missing) then
      say(('it waits for %s%s%s'):format(missing[i + 1] < 0 and 'the end of ' or '', input.op.name, line(input.op)))
      told = true
      if not seen[key] and #indent < DEEP then
        seen[key] = true
        whynot_lines(place, input, lines, indent .. '  ', seen)
      end
    end
  end
end

--- h:whynot(x, tag?): a text: what x still waits for there, and what that waits for.
local function whynot(r, x, tag)
  local place, o, from = prepare(r, x, tag, 'whynot')
  if not place then                       -- its loop has not begun: what waits is the loop
    local loop = from.look.loops.of(o.node)
    local lines = { o.name }
    while loop do
      local above = from.look.loops.above(loop)
      local frame, iteration = whereabouts.find(from.look.frames, from.frame, from.iteration, above)
      if frame then
        whynot_loop(new_place(from.look, frame, iteration), loop, lines, '  ', {})
        break
      end
      loop = above
    end
    return table.concat(lines, '\n')
  end
  local lines = { place:says(o.name) }
  whynot_lines(place, o, lines, '  ', {})
  return table.concat(lines, '\n')
end

return { why = why, whynot = whynot }
