--- Looking into a run in the background: pause, step, break, frames, tokens, values, and why a thing is so or is not.
--
-- Frames go by tags. The top level is ''; `while` is the frame of a loop there, `while:17` its iteration 17, and
-- `while:17/inner:2` iteration 2 of a loop inside. A run stops between two tokens, so whatever is seen is one
-- consistent cut.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local enums = require 'dflow.backend.enums'

local M = {}
local Output, Operation = graph.Output, graph.Operation
local NEW, RUNNING, PAUSED = enums.DF_RUN_NEW, enums.DF_RUN_RUNNING, enums.DF_RUN_PAUSED
local states = { [0] = 'running', 'running', 'paused', 'done' }
local reasons = { [0] = 'asked', 'step', 'break' }
local token_states = { [0] = 'ready', 'running', 'waiting', 'partial', 'ran' }
local units = { token = enums.DF_STEP_TOKEN, node = enums.DF_STEP_NODE, iteration = enums.DF_STEP_ITERATION,
                frame = enums.DF_STEP_FRAME }

-- ---- frames by tag --------------------------------------------------------------------------------------------------
-- A run may have very many frames. The list has a table for each of them, but what is in it is read out of the snapshot
-- when it is first asked for.
local Frames = { __name = 'dflow.Frames' }
local lazy = {}

function lazy.parent(f, list) return f.around > 0 and list[f.around] or nil end
function lazy.in_flight(f) return f.next - f.first end
function lazy.waiting(f) return f.partial end

function lazy.children(f, list)
  local children = {}
  for i = 0, f.ninside - 1 do children[i + 1] = list[f.inside + i] end
  return children
end

function lazy.iterations(f, list)
  local iterations = core.snapshot_iterations(list.snapshot, f.index)
  local by_number = {}
  for i, it in ipairs(iterations) do
    it.live, it.children = it.ready - it.dead, {}
    by_number[it.number] = iterations[i]
  end
  for _, child in ipairs(f.children) do
    local it = by_number[child.parent_iteration]
    if it then it.children[#it.children + 1] = child end
  end
  return iterations
end

local function all_stacks(list)
  local by_id = {}
  for _, a in ipairs(core.snapshot_arrays(list.snapshot)) do
    local f = list.by_id[a.frame]
    local stacks = by_id[a.frame] or {}
    by_id[a.frame] = stacks
    stacks[#stacks + 1] = { name = a.name, saved = a.saved, depth = a.written, size = a.size, bytes = a.bytes,
                            iteration = a.iteration, dtype = dtypes.name[a.dtype], where = a.where ~= '' and a.where
                            or nil, node = a.node, frame = f and f.tag or '' }
  end
  return by_id
end

function lazy.stacks(f, list)
  list.stacks = list.stacks or all_stacks(list)
  return list.stacks[f.id] or {}
end

local function places_of(list)
  list.places = list.places or require('dflow.inspect.partitions').places(list.run)
  return list.places
end

--- The devices that take part in a frame, sorted: {'cpu:0', 'sim:1'}.
function lazy.devices(f, list)
  local names = {}
  for name in pairs(places_of(list).inside[f.parent and f.name or ''] or {}) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- What each of them does in it, where the run stands: inspect/partitions.lua.
function lazy.partitions(f, list) return require('dflow.inspect.partitions').of(f, list.run, places_of(list)) end

function lazy.tag(f)
  local parent = f.parent
  return not parent and '' or (parent.parent and parent.tag .. ':' .. ('%d/'):format(f.parent_iteration) or '')
    .. f.name
end

--- What a frame of this list does when it is asked for a field that it has not.
local function frame_of(list)
  return { __name = 'dflow.Frame', __tostring = M.frame_text, __index = function(f, key)
    if rawget(f, 'id') == nil then
      core.snapshot_frame(list.snapshot, f.index, f)
      if f.around == 0 then f.parent_iteration = nil end
      if f.where == '' then f.where = nil end
      if rawget(f, key) ~= nil then return f[key] end
    end
    local make = lazy[key]
    if not make then return nil end
    local v = make(f, list)
    rawset(f, key, v)
    return v
  end }
end

--- The tree of a snapshot: a list of frames, parents first, each with its iterations and theirs with child frames. nil:
-- of none.
-- `r` is kept alive with it: the texts of a snapshot are its graph's. Where only so many frames are wanted, they are
-- the first ones, and `total` says how many there are.
local function tree(snapshot, r, most)
  local list = { snapshot = snapshot, run = r, total = snapshot and core.snapshot_frames(snapshot) or 0 }
  local Frame = frame_of(list)
  for i = 1, math.min(most or list.total, list.total) do list[i] = setmetatable({ index = i }, Frame) end
  list.by_id = setmetatable({}, { __index = function(_, id)
    local i = type(id) == 'number' and snapshot and core.snapshot_place(snapshot, id)
    return i and list[i] or nil
  end })
  return setmetatable(list, Frames)
end

local function over(r) return r.over or core.run_done(r.handle) end

--- Of a run that is over, the frames that ended before it and that its last tokens speak of. What was around them is
--- not known any more but for loops at the top level.
local function add_ended(list, r)
  local loops, ended = require('dflow.inspect.whereabouts').loops(r.session.graph), {}
  for _, t in ipairs(core.run_history(r.handle, 4096)) do
    local loop = t.frame ~= 0 and not list.by_id[t.frame] and loops.of(t.node)
    if loop then
      local f = ended[t.frame]
      if not f then
        f = { id = t.frame, index = 0, name = loop.name, tag = loop.name, where = loop.where, parent = list[1],
              parent_iteration = 0, around = 1, first = t.iteration, next = t.iteration + 1, limit = 0, live = 0,
              dead = 0, running = 0, partial = 0, deferred = 0, enters_missing = 0, ninside = 0, inside = 0,
              children = {}, iterations = {}, stacks = {}, ended = true }
        ended[t.frame] = f
        list[#list + 1] = f
      end
      f.first, f.next = math.min(f.first, t.iteration), math.max(f.next, t.iteration + 1)
    end
  end
  local open = list.by_id
  list.by_id = setmetatable({}, { __index = function(_, id) return open[id] or ended[id] end })
  return list
end

--- The frames alone, of all or of one and those around it: quick however many iterations are open.
local function outlines(r, frame)
  local list = tree(core.run_frames(r.handle, frame), r)
  return over(r) and add_ended(list, r) or list
end

local function counted(n, one, many)
  return n > 0 and (', %d %s'):format(n, n == 1 and one or many or one .. 's') or ''
end

local function tokens_text(f)
  return counted(f.live, 'live token') .. counted(f.dead, 'dead token')
    .. counted(f.running, 'call running', 'calls running')
    .. counted(f.partial, 'node with some of its inputs', 'nodes with some of their inputs')
    .. counted(f.deferred, 'value held back by the window', 'values held back by the window')
end

--- How many iterations are open, of how many that may be. Owners that are not in the same ones have more open together
-- than each may.
function M.window_text(f)
  return (f.in_flight > f.limit and '%d; %d at most on each device' or '%d of %d'):format(f.in_flight, f.limit)
end

function M.frame_text(f)
  local name = f.parent and f.tag or 'top level'
  local text = name
  if f.parent and f.enters_missing > 0 then text = ('%s  has not begun: %d of its inputs have not come')
    :format(name, f.enters_missing)
  elseif f.parent then
    text = ('%s  iterations %d-%d in flight (%s)'):format(name, f.first, f.next - 1, M.window_text(f))
  end
  text = text .. tokens_text(f) .. counted(#f.stacks, 'stack')
  return f.where and text .. '  ' .. f.where or text
end

local SIBLINGS, LINES = 8, 200

--- The tree as lines, at most so many of them (200, unless `most` says otherwise) and so many frames (8) opened by one
--- frame; the others are summed up.
function M.frame_lines(list, most, siblings)
  most, siblings = most or LINES, siblings or SIBLINGS
  local lines, left_out = {}, 0
  local several = list.run and not over(list.run) and #require('dflow.front.devices').list(list.run.session.handle) > 1
  local function rest(first, n, indent)
    if n <= 0 then return end
    local sum = core.snapshot_sum(list.snapshot, first, n)
    if #lines >= most then
      left_out = left_out + sum.frames
      return
    end
    local inside = sum.frames - n
    lines[#lines + 1] = ('%s… and %d more%s  %d iterations in flight%s'):format(indent, n, inside > 0
        and (' with %d inside them'):format(inside) or '',
      sum.in_flight, tokens_text(sum))
  end
  local function walk(f, indent)
    lines[#lines + 1] = indent .. tostring(f)
    for _, p in ipairs(several and f.partitions or {}) do
      if #lines < most then
        lines[#lines + 1] = ('%s    %s'):format(indent, require('dflow.inspect.partitions').text(p))
      end
    end
    local shown = f.ninside > siblings + 1 and siblings or f.ninside      -- one more takes no more room than to say so
    for i = 0, shown - 1 do
      if #lines >= most or not list[f.inside + i] then
        shown = i
        break
      end
      walk(list[f.inside + i], indent .. '  ')
    end
    rest(f.inside + shown, f.ninside - shown, indent .. '  ')
  end
  if list[1] then walk(list[1], '') end
  if left_out > 0 then lines[#lines + 1] = ('… and %d more frames'):format(left_out) end
  return lines
end

function Frames.__tostring(list)
  return list[1] and table.concat(M.frame_lines(list), '\n') or 'no frames: the run is over'
end

-- ---- what the methods share -----------------------------------------------------------------------------------------
--- Is it over, and nothing is left to look at?
local function gone(r) return over(r) and core.run_remains(r.handle) < 0 end

--- Where the run stands; nil when it does not. Cancelled meanwhile, it is over before its frames can be read.
local function stop_of(r, state, s)
  if state ~= PAUSED then return nil end
  local ok, frames = pcall(outlines, r, s.frame)
  if not ok then
    if errors.is(frames) and frames.code == 'failed_precondition' then return nil end
    error(frames, 0)
  end
  local stop = { reason = reasons[s.reason], breakpoint = s.breakpoint > 0 and s.breakpoint or nil, dead = s.dead,
    afterwards = s.breakpoint > 0 and r.afterwards and r.afterwards[s.breakpoint] or nil, iteration = s.iteration,
                 frame_id = s.frame }
  if s.node >= 0 then stop.op = graph.operation(r.session.graph, s.node) end
  local f = frames.by_id[s.frame]
  stop.frame = f and f.tag or ('a frame that ended (#%d)'):format(s.frame)
  stop.tag = (f and not f.parent) and '' or ('%s:%d'):format(stop.frame, s.iteration)
  return setmetatable(stop, M.Stop)
end

M.Stop = { __name = 'dflow.Stop' }
M.Stop.__tostring = function(s)
  if not s.op then return 'paused: no token is ready' end
  local what = s.reason == 'break' and ('breakpoint %d')
    :format(s.breakpoint) or s.reason == 'step' and 'stepped' or 'paused'
  return ('%s %s %s (%s)%s%s%s'):format(what, s.afterwards and 'after' or 'before', s.op.name, s.op.type, s.tag ~= ''
                                        and ' in ' .. s.tag or '',
    s.dead and ', dead' or '', (s.op.source and '  ' .. s.op.source or '')
                                        .. (s.failed and '\nits condition failed: ' .. s.failed or ''))
end

local function must_pause(r, what)
  if gone(r) then errors.raise('failed_precondition', '%s: the run is over', what) end
  local state, s = core.run_settle(r.handle, 0)
  if state ~= PAUSED and not over(r) then
    errors.raise('failed_precondition', '%s: the run is not paused; call h:pause() first', what)
  end
  return s
end

--- x as (node, index): an Output, an Operation, a name `a/b` or `a/b:1`.
local function node_of(r, x, what)
  local g = r.session.graph
  if type(x) == 'string' then x = x:find(':%d+$') and g:output(x) or g:op(x) end
  local mt = getmetatable(x)
  if (mt ~= Output and mt ~= Operation) or x.graph ~= g then
    errors.bad('%s: an Output, an operation or a name of this graph is expected, not %s', what, errors.describe(x))
  end
  return x.node, mt == Output and x.index or 0
end

--- The frame and iteration that a tag names, among those alive; nil for none: the innermost place where the run stands.
local function place(r, tag, s)
  if tag == nil then return s.frame, s.iteration end
  local frames = outlines(r)
  local name, iteration = tostring(tag):match('^(.-):(%d+)$')
  name = name or tag
  for _, f in ipairs(frames) do
    if f.tag == name or (f.parent and f.name == name) then
      return f.id, iteration and tonumber(iteration) or f.first
    end
  end
  local known = {}
  for _, f in ipairs(frames) do known[#known + 1] = f.tag == '' and "''" or f.tag end
  if over(r) then
    errors.raise('not_found',
                 "the run is over, and of '%s' nothing is left: values of iterations that ended are kept where the "
                 .. "run is told to, "
      .. '{values = true}, or :record on at the prompt', tostring(tag))
  end
  errors.raise('not_found', "there is no open frame '%s' (open: %s)", tostring(tag), table.concat(known, ', '))
end
M.place, M.node_of, M.must_pause, M.tree, M.outlines = place, node_of, must_pause, tree, outlines

-- ---- the methods of a handle ----------------------------------------------------------------------------------------
local methods = {}
M.methods = methods

--- 'running', 'paused' or 'done'.
function methods.state(r)
  if over(r) then return 'done' end
  return states[(core.run_settle(r.handle, 0))]
end

--- Pauses at the next token boundary: where it stands ({op, frame, iteration, tag, dead, reason}), or nil when the run
--- is over. nil also when Ctrl-C ends a long kernel's wait; the run then pauses when it can.
function methods.pause(r)
  if over(r) then return nil end
  return stop_of(r, core.run_pause(r.handle))
end

--- Calls fn while the run is paused, to look at it. It goes on then, unless it stood before or has come to a breakpoint
--- by itself meanwhile.
function M.standing(r, fn, ...)
  local was = core.run_settle(r.handle, 0)
  local state, stop = core.run_pause(r.handle)
  local ok, v = pcall(fn, ...)
  local itself = state == PAUSED and reasons[stop.reason] ~= 'asked'
  if was ~= PAUSED and not itself then core.run_resume(r.handle, 0, 1) end
  if not ok then error(v, 0) end
  return v
end

--- Goes on, to the next breakpoint or the end.
function methods.resume(r)
  if not over(r) then core.run_resume(r.handle, 0, 1) end
end

--- Waits until the run is paused or over, or Ctrl-C ends that: in many short waits, since it may be pressed just before
--- one begins.
--- Interpreters other than the program stop their Lua code with a hook, so this is never compiled.
local function settled(r)
  local program = package.loaded['dflow.program']
  local state, s
  repeat state, s = core.run_settle(r.handle, 0.1) until state >= PAUSED or program and program.stopping()
  return state, s
end
if rawget(_G, 'jit') then _G.jit.off(settled) end

--- Was it Ctrl-C that ended a wait without end?
local function came_early(state)
  if state == NEW or state == RUNNING then
    errors.raise('cancelled', 'waiting for the run was interrupted; the run goes on')
  end
end

--- Does the run really stop here? A condition is asked about the value that was made; one that fails stops it, too, and
--- `stop.failed` says why.
local function met(r, stop)
  local condition = stop.reason == 'break' and r.conditions and r.conditions[stop.breakpoint]
  if not condition then return true end
  local ok, v = pcall(core.run_value, r.handle, stop.op.node, 0, stop.frame_id, stop.iteration)
  if not ok or v == nil then return false end
  local asked, holds = pcall(condition, v)
  if not asked then stop.failed = errors.is(holds) and holds.message or tostring(holds) end
  return not asked or holds
end

--- Waits until the run is paused or over, at most `seconds` (for ever without): where it stands, or nil.
function methods.settle(r, seconds)
  while not over(r) do
    local state, s
    if seconds then state, s = core.run_settle(r.handle, seconds) else state, s = settled(r) end
    local stop = stop_of(r, state, s)
    if not stop then return not seconds and came_early(state) or nil end
    if met(r, stop) then return stop end
    core.run_resume(r.handle, 0, 1)
  end
end

--- h:step(n = 1, unit = 'token'): lets n tokens run (unit 'node': live nodes; 'iteration': until the frame it stands in
--- is n iterations further; 'frame': until a frame opens or this one ends), and says where it stands then; nil when the
-- run is over.
function methods.step(r, n, unit)
  if type(n) == 'string' then n, unit = 1, n end
  n = n or 1
  if type(n) ~= 'number' or n < 1 or n % 1 ~= 0 then
    errors.bad('step: a whole number from 1 up is expected, not %s', errors.describe(n))
  end
  local kind = units[unit or 'token']
  if not kind then
    errors.bad("step: the unit is 'token', 'node', 'iteration' or 'frame', not %s", errors.describe(unit))
  end
  if over(r) then return nil end
  local state, s = core.run_pause(r.handle)
  if state == PAUSED then
    core.run_resume(r.handle, kind, n)
    state, s = settled(r)
    if state == RUNNING then state, s = core.run_pause(r.handle) end      -- Ctrl-C: it stands where it has got to
  end
  return stop_of(r, state, s) or came_early(state)
end

--- Is a name what a pattern says? A pattern that is wrong may be found out only by a name that fits its beginning.
local function like(name, pattern)
  if name == pattern then return true end
  local fine, found = pcall(string.find, name, '^' .. pattern .. '$')
  if not fine then
    errors.bad("break_at: '%s' is no name, and no pattern of names: %s",
               pattern, (tostring(found):gsub('^.-:%d+: ', '')))
  end
  return found ~= nil
end

--- The nodes of a graph that fit, by their numbers; none is an error.
local function matching(g, op, name, line)
  if name ~= nil and type(name) ~= 'string' then
    errors.bad('break_at: name is a pattern of names, not %s', errors.describe(name))
  end
  if op and type(op) ~= 'string' and getmetatable(op) ~= Output and getmetatable(op) ~= Operation then
    errors.bad("break_at: op is an op's type, a pattern of names, an Output or an operation, not %s",
               errors.describe(op))
  end
  for _, pattern in ipairs{ type(op) == 'string' and op or '', name or '' } do like('', pattern) end
  local list = {}
  local mt = getmetatable(op)
  if mt == Output or mt == Operation then
    if name or line then
      errors.bad('break_at: %s stands beside an op that is one node already', name and 'name' or 'line')
    end
    return { op.node }
  end
  for id = 0, core.graph_nodes(g.handle) - 1 do
    local o = graph.operation(g, id)
    local ok = true
    if op then
      local lua = o.type:gsub('(%l)(%u)', '%1_%2'):lower()
      ok = o.type == op or lua == op or like(o.name, op)
    end
    if ok and name then ok = like(o.name, name) end
    if ok and line then
      local where = o.source or ''
      ok = where == line or where:sub(-#tostring(line) - 1) == ':' .. tostring(line)
        or (type(line) == 'string' and where:sub(-#line) == line)
    end
    if ok then list[#list + 1] = id end
  end
  if #list == 0 then
    errors.raise('not_found', 'break_at: no node of this graph fits %s',
                 op and "op '" .. tostring(op) .. "'" or name and "name '" .. name .. "'" or "line '" .. tostring(line)
                 .. "'")
  end
  return list
end

M.matching = matching

--- h:break_at{op=, name=, line=, frame=, iteration=, dead=true, nan=true, inf=true, when=fn}: a number for h:unbreak.
--- The run stops before a token of a node that fits: `op` is an Output, an operation, an op type or a node name (a Lua
--- pattern); `line` a Lua line such as 'train.lua:12' or 12; `frame` a loop's name, or a tag `name:iteration`. nan and
-- inf stop after a live node whose result holds one. `when(v)` is asked with the value of a node that fits, when it has
-- run; the run stops there if it says true.
function methods.break_at(r, spec)
  errors.options(spec, 'break_at', { 'op', 'name', 'line', 'frame', 'iteration', 'dead', 'nan', 'inf', 'when' })
  if spec == nil then errors.bad('break_at takes a table: {op=, frame=, iteration=, …}') end
  if over(r) then errors.raise('failed_precondition', 'break_at: the run is over') end
  for _, key in ipairs{ 'dead', 'nan', 'inf' } do errors.flag(spec[key], 'break_at', key) end
  local frame, iteration = spec.frame, spec.iteration
  if frame ~= nil then
    if type(frame) ~= 'string' then
      errors.bad('break_at: frame is the name of a loop, not %s', errors.describe(frame))
    end
    local name, n = frame:match('^(.-):(%d+)$')
    if name then
      if iteration ~= nil and iteration ~= tonumber(n) then
        errors.bad('break_at: frame says iteration %s, and iteration %s', n, tostring(iteration))
      end
      frame, iteration = name, tonumber(n)
    end
  end
  if iteration ~= nil and (type(iteration) ~= 'number' or iteration < 0 or iteration % 1 ~= 0) then
    errors.bad('break_at: iteration is a whole number from 0 up, not %s', errors.describe(iteration))
  end
  local nodes
  if spec.op or spec.name or spec.line then nodes = matching(r.session.graph, spec.op, spec.name, spec.line) end
  local conditions = (spec.dead and 1 or 0) + (spec.nan and 2 or 0) + (spec.inf and 4 or 0) + (spec.when and 8 or 0)
  if spec.when ~= nil and type(spec.when) ~= 'function' then
    errors.bad('break_at: when is a function of the value, not %s', errors.describe(spec.when))
  end
  local id = core.run_break(r.handle, nodes, frame, iteration or -1, conditions)
  if spec.nan or spec.inf or spec.when then
    r.afterwards = r.afterwards or {}
    r.afterwards[id] = true
  end
  if spec.when then
    r.conditions = r.conditions or {}
    r.conditions[id] = spec.when
  end
  return id
end

--- Takes a breakpoint away (all of them without a number): was there one?
function methods.unbreak(r, id)
  if over(r) then return false end
  return core.run_unbreak(r.handle, id or 0)
end

--- The frames alive now: a list, parents before children, whose tostring is the tree. Each has name, tag, where,
--- parent, children, first, next, in_flight, limit, live, dead (tokens ready to run), running (calls), waiting (nodes
-- with some inputs), iterations, stacks. Empty when over.
function methods.frames(r)
  if gone(r) then return tree(nil, r) end
  local ok, snapshot = pcall(core.run_look, r.handle)
  if ok then return tree(snapshot, r) end
  if errors.is(snapshot) and snapshot.code == 'failed_precondition' then return tree(nil, r) end
  error(snapshot, 0)
end

--- The tokens alive now, of all nodes or of x: {op, tag, state ('ready', 'running', 'waiting', 'partial'), dead,
-- missing}.
function methods.tokens(r, x)
  local list = {}
  if gone(r) then return list end
  local node = x ~= nil and node_of(r, x, 'tokens') or nil
  local snapshot = core.run_look(r.handle)
  local frames = tree(snapshot, r)
  for _, t in ipairs(core.snapshot_tokens(snapshot, node)) do
    local f = frames.by_id[t.frame]
    list[#list + 1] = { op = graph.operation(r.session.graph, t.node), tag = f.parent
                        and ('%s:%d'):format(f.tag, t.iteration) or '',
                        state = token_states[t.state], dead = t.dead, missing = t.missing }
  end
  return list
end

--- The books of the run at this moment, which are checked node by node of every open iteration before they are given:
-- an error says where they do not balance. Tokens that were sent, and where they are: sent = ran + died + live + dead;
-- inputs that nodes wait for, and what sends them: pending = owed + lost; nodes_run = ran + merged, dead_tokens = died
-- + ended. nil when the run is over.
function methods.ledger(r)
  if over(r) then return nil end
  local ok, ledger = pcall(core.run_ledger, r.handle)
  if ok then return ledger end
  if errors.is(ledger) and ledger.code == 'failed_precondition' then return nil end
  error(ledger, 0)
end

--- TensorArrays and saved values alive now: {name, saved, depth, size, bytes, dtype, where, frame}.
function methods.stacks(r)
  local list = {}
  for _, f in ipairs(methods.frames(r)) do for _, s in ipairs(f.stacks) do list[#list + 1] = s end end
  return list
end

--- The last n tokens that ran, newest first: {op, tag, dead}. The run is paused.
function methods.history(r, n)
  n = n or 20
  if type(n) ~= 'number' or n < 1 or n % 1 ~= 0 then
    errors.bad('history: a whole number from 1 up is expected, not %s', errors.describe(n))
  end
  must_pause(r, 'history')
  local frames = outlines(r)
  local list = core.run_history(r.handle, math.min(n, 2 ^ 31 - 1))
  for i, t in ipairs(list) do
    local f = frames.by_id[t.frame]
    local tag = f and f.tag or ('#%d'):format(t.frame)
    list[i] = { op = graph.operation(r.session.graph, t.node), tag = t.frame == 0 and ''
                or ('%s:%d'):format(tag, t.iteration), dead = t.dead,
                frame_id = t.frame, iteration = t.iteration }
  end
  return list
end

--- h:back(n = 1): the token that ran n before, as in h:history, with its `.value` where that is still there; nil when
--- so many are not remembered. Nothing runs again.
function methods.back(r, n)
  n = n or 1
  if type(n) ~= 'number' or n < 1 or n % 1 ~= 0 then
    errors.bad('back: a whole number from 1 up is expected, not %s', errors.describe(n))
  end
  must_pause(r, 'back')
  local t = methods.history(r, n)[n]
  if not t then return nil end
  local ok, v = pcall(core.run_value, r.handle, t.op.node, 0, t.frame_id, t.iteration)
  if ok and not t.dead then t.value = v end
  return t
end

--- What is wrong with asking for an iteration that is not open.
local function not_open(r, frame, iteration)
  local f = outlines(r).by_id[frame]
  if not f or not f.parent then return nil end
  if f.next and iteration >= f.next then
    return ('iteration %d of %s has not begun; %d to %d are open'):format(iteration, f.tag, f.first, f.next - 1)
  end
  return ('iteration %d of %s is over, and its values were not kept: {values = true} of the run keeps them (:record '
          .. 'on at the prompt)'):format(iteration, f.tag)
end

--- h:value(x, tag?): the value that x has there; nil, 'dead' for a dead one. An error when it is not there (yet, or any
-- more).
function methods.value(r, x, tag)
  local s = must_pause(r, 'value')
  local node, index = node_of(r, x, 'value')
  local frame, iteration = place(r, tag, s)
  if tag == nil and over(r) then          -- it may have ended anywhere: where x is, is meant
    local whereabouts, frames = require 'dflow.inspect.whereabouts', outlines(r)
    local f, i = whereabouts.find(frames, frames.by_id[frame] or frames[1], iteration,
                                  whereabouts.loops(r.session.graph).of(node))
    if f then frame, iteration = f.id, i end
  end
  local ok, v, dead = pcall(core.run_value, r.handle, node, index, frame, iteration)
  if not ok then
    local why = errors.is(v) and v.code == 'not_found' and v.message:find('is not open', 1, true)
      and not_open(r, frame, iteration)
    if why then errors.raise('not_found', 'value: %s', why) end
    error(v, 0)
  end
  if dead then return nil, 'dead' end
  return v
end

return M
