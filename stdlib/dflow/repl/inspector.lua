--- Runs as the prompt sees them: Ctrl-C is a question, and while a run is paused its frames, tokens and values can be
-- looked at.
--
-- The prompt's own runs go on in the background while it waits for them, so Ctrl-C can pause one at a token boundary
-- and open a prompt on it. The commands speak of that run, or of the newest one that df.start began.
local core = require 'dflow.backend'
local files = require 'dflow.exchange.file'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local runs = require 'dflow.front.session'
local commands = require 'dflow.repl.commands'
local values = require 'dflow.repl.values'
local progress = require 'dflow.repl.progress'
local listing = require 'dflow.repl.listing'
local session = require 'dflow.repl.session'

local M = { depth = 0, record = nil, handles = setmetatable({}, { __mode = 'v' }), count = 0 }
local command = commands.command
local enums = require 'dflow.backend.enums'
local RUNNING, PAUSED, OVER = enums.DF_RUN_RUNNING, enums.DF_RUN_PAUSED, enums.DF_RUN_OVER
local breaks = require 'dflow.repl.breaks'
local repl, program
local cursor = setmetatable({}, { __mode = 'k' })          -- by handle: how far :back went

-- ---- which run ----------------------------------------------------------------------------------------------------
function M.in_progress()
  if M.current and M.current:state() ~= 'done' then return M.current end
  for i = M.count, 1, -1 do
    local h = M.handles[i]
    if h and h:state() ~= 'done' then return h end
  end
end

local function current()
  local h = M.in_progress()
  if h then return h end
  error('no run is in progress: :step x starts a paused run of x, df.start(x, feeds, {paused = true}) one with feeds; '
    .. 'Ctrl-C pauses a run', 0)
end

--- The same without an error: nil when there is none.
function M.in_view()
  local ok, h = pcall(current)
  return ok and h or nil
end

--- Says where the run stands; false when it is over.
local function show_stop(stop, say, h)
  if stop then
    if stop.breakpoint and h then stop.breakpoint = breaks.number(h, stop.breakpoint) end
    say(values.paint(tostring(stop), stop.dead and 'D' or 'H'))
    return true
  end
  -- nothing else waits that would say why
  local failed = h and M.depth == 0 and not h.cancelled and not pcall(h.wait, h)
  say(failed and 'the run failed: ' .. tostring(h.result) or 'the run is over')
  return false
end

-- ---- after the end ------------------------------------------------------------------------------------------------
-- runs that can be looked at when they are over, and what they may hold together
local KEPT, BYTES = 10, 64 * 2 ^ 20
local kept = {}                             -- the newest last

--- A run is over: it is kept, and the oldest go.
local function keep(h)
  if h.kept or core.run_remains(h.handle) < 0 then return end
  h.kept = true
  kept[#kept + 1] = h
  local bytes = 0
  for i = #kept, 1, -1 do
    bytes = bytes + math.max(0, core.run_remains(kept[i].handle))
    if bytes > BYTES or #kept - i >= KEPT then
      core.run_forget(kept[i].handle)
      table.remove(kept, i)
    end
  end
end

--- The run that a command looks at: one in progress, else the one that ended last.
local function seen()
  local h = M.in_progress()
  if h then return h end
  for i = 1, M.count do
    local other = M.handles[i]
    if other and other:state() == 'done' then keep(other) end
  end
  h = M.attached and M.attached.kept and core.run_remains(M.attached.handle) >= 0 and M.attached or kept[#kept]
  if h then return h end
  error('there is no run to look at: none is in progress, and none has ended since the prompt began', 0)
end
M.kept = kept

--- The graph that commands speak of: that of the run which is looked at, or the default one.
function M.graph()
  local h = M.last()
  return h and h.session.graph or graph.current()
end
commands.graph = M.graph

--- The run that ended last, as far as it is kept.
function M.last()
  local ok, h = pcall(seen)
  return ok and h or nil
end

--- Tells the page of :serve, which sets `live`, that a run has started, paused or ended.
local function show_live(h) if M.live then M.live(h) end end

-- ---- the prompt on a paused run -------------------------------------------------------------------------------------
--- What the run is doing that cannot be stopped in the middle.
local function busy_with(h)
  local at = core.run_at(h.handle)
  if at < 0 then return 'none of its ops has begun, its variables are initialised first' end
  local op = graph.operation(h.session.graph, at)
  return ('%s (%s)%s is being computed'):format(op.name, op.type, op.source and '  ' .. op.source or '')
end

local WORDS = {}
for word in ('back break cancel continue forward frames mem stacks stats step tokens unbreak why whynot')
  :gmatch('%a+') do
  WORDS[word] = true
end

--- What is typed at a paused run may leave the colon out: `step 2`, `why x`. Lua that means something stays Lua.
function M.as_command(text)
  local word, rest = text:match('^%s*(%a+)%s*(.-)%s*$')
  if not WORDS[word] or not commands.find(word) then return text end
  if rest == '' then
    if session.locals.environment({})[word] ~= nil then return text end
  elseif load(text, '=input', 't') or load('return ' .. text, '=input', 't') then
    return text
  end
  return ':' .. text:gsub('^%s+', '')
end

local function converse(h)
  local outer, behind = M.current, M.front
  M.current, M.front, M.depth = h, h, M.depth + 1
  cursor[h] = 0
  core.run_patience(h.handle, -1)                  -- the user can wait now, and press Ctrl-C
  local ok, why = pcall(repl.loop, { prompt = 'paused> ', more = '    ... ', meant = M.as_command,
    leave = function() return h:state() == 'done' end,
    interrupted = function()
      h:cancel()
      return true
    end })
  M.current, M.front, M.depth = outer, behind, M.depth - 1
  -- Ctrl-D; or the input has ended, and there is no user to ask any more
  if not ok or why == 'end' then h:cancel() end
  if not ok then error(why, 0) end
  core.run_resume(h.handle, 0, 1)                  -- once: a second time would take it past where it stands by then
end

--- Ctrl-C: where the run stands, and the prompt on it.
local function ask(h)
  if h:pause() then
    show_stop(h:settle(0), print, h)
    show_live(h)
  elseif h:state() == 'done' then return
  else print(('not paused yet: %s;\nit pauses when that is done'):format(busy_with(h))) end
  print(':continue, :step, :frames, :why x, :cancel, or any Lua; Ctrl-C again cancels')
  converse(h)
end

-- The foreground sees Ctrl-C within POLL, and gives the run PATIENCE to come to the end of a token. Together they are
-- less than the 50 ms after which one asks oneself whether the key was pressed. A cancelled run has GRACE to end.
local POLL, PATIENCE, GRACE = 0.004, 0.015, 0.3
local leaving = {}              -- cancelled runs that are not waited for: they are not to be collected before they end

--- Waits for h with an eye on Ctrl-C. `program` holds.
local function watch_over(h)
  local terminal, given_up = program.terminal(), nil
  local line = progress.new(h, program, terminal.editing and terminal.errors)
  core.run_patience(h.handle, PATIENCE)
  local ok, err = pcall(function()
    while true do
      local state = core.run_settle(h.handle, POLL)
      if state == OVER then return end
      local asked = program.interrupted()
      if h.cancelled then
        given_up = given_up or program.clock() + GRACE
        if asked or program.clock() > given_up then
          leaving[h] = true
          errors.raise('cancelled', 'the run was cancelled; it ends by itself: %s still', busy_with(h))
        end
      elseif asked or state == PAUSED then
        line:clear()
        if asked then
          ask(h)
        else
          local stop = h:settle(0)
          if stop then
            breaks.stopped(h, stop)
            show_stop(stop, print, h)
            show_live(h)
            converse(h)
          end
        end
        core.run_patience(h.handle, PATIENCE)
      else
        line:show()
        show_live(h)
      end
    end
  end)
  line:clear()
  core.run_patience(h.handle, -1)
  if ok then return end
  h:cancel()
  error(err, 0)
end

--- Calls fn(...) while Ctrl-C only shows in program.interrupted(); one that came too late for what fn did is for the
-- loop around it.
local function holding(fn, ...)
  local held = program.hold(true)
  local function finish(ok, ...)
    local late = program.late()
    program.hold(held)
    if not ok then error((...), 0) end
    if late then error('interrupted!', 0) end
    return ...
  end
  return finish(pcall(fn, ...))
end

local function begin_and_watch(s, fetches, feeds, opts)
  for h in pairs(leaving) do if core.run_done(h.handle) then leaving[h] = nil end end
  local h = s:start(fetches, feeds, opts)
  if M.logged then M.logged(h) end
  if not core.run_done(h.handle) then watch_over(h) end
  return h
end

--- What s:run is at the prompt.
local function foreground(s, fetches, feeds, opts)
  if M.record or M.logged then
    local with = {}
    for k, v in pairs(opts or {}) do with[k] = v end
    with.values, with.log = with.values or M.record or M.logged_for_page, with.log or M.logged ~= nil
    if with.primitives == nil and M.logged_for_page then
      with.primitives = runs.primitives and not runs.why_not_all(s)
    end
    opts = with
  end
  local h = holding(begin_and_watch, s, fetches, feeds, opts)
  local ok, result = pcall(h.wait, h)
  if h:done() then keep(h) end
  show_live(h)
  if not ok then error(result, 0) end
  if M.noticed then M.noticed(fetches, result) end
  return result
end

--- Is h held up by a breakpoint of the prompt's, and not at the prompt that speaks of it?
local function is_held_up(h)
  local stop = h ~= M.current and h:settle(0)
  return stop and stop.breakpoint and breaks.is_of_all(h, stop.breakpoint)
end

--- What h:wait() is before it waits. A run that was paused is not waited for; one that met a breakpoint for every run
-- is attended to as in the foreground.
local function attend(h)
  local state = core.run_settle(h.handle, 0)
  if state == RUNNING or (state == PAUSED and is_held_up(h)) then holding(watch_over, h) end
end

--- At the prompt of a paused run an Output is what it is in that run: nothing else is run to show it.
function values.held(o)
  local h = M.depth > 0 and M.current
  if not h or h:state() ~= 'paused' or h.session.graph ~= o.graph then return nil end
  local ok, text = pcall(h.why, h, o)
  return tostring(ok and text or text.message or text)
end

-- ---- commands: where it stands --------------------------------------------------------------------------------------
command('frames', function(_, say) local h = seen()
  if h:state() == 'done' then
    say(h.ok == false and 'the run failed; this is where it stood' or 'the run is over; this is what it left')
  end
  say(tostring(h:frames())) end,
  'frames - shows the frames of the run: iterations in flight, live and dead tokens, waiting nodes, devices')

command('tokens', function(rest, say)
  local lines = listing.tokens(seen():tokens(rest ~= '' and rest or nil))
  if #lines == 0 then say('no tokens') end
  for _, l in ipairs(lines) do say(l.dead and values.paint(l[1], 'D') or l[1]) end
end, 'tokens [name] - lists live tokens: ready, running, waiting, or with some inputs missing')

command('stacks', function(_, say)
  local lines = listing.stacks(seen():stacks())
  if #lines == 0 then say('no TensorArrays and no saved values are alive') end
  for _, l in ipairs(lines) do say(l) end
end, 'stacks - lists saved values and TensorArrays: depth, bytes, frame, Lua line')

command('swap', function(_, say)
  local s = seen():stats().swap
  local bytes = listing.bytes
  say(('out %s in %d tensors, in %s in %d tensors, stalled %.3f s, resident %s'):format(bytes(s.bytes_out),
      s.tensors_out, bytes(s.bytes_in), s.tensors_in,
    s.stall_seconds, bytes(s.resident_bytes)))
  if s.tensors_out == 0 then
    say('nothing was moved: what the CPU saves is in the host\'s memory already, and devices had room')
  end
end, 'swap - shows what the run moved between device and host memory')

local function many(n, what) return ('%.0f %s%s'):format(n, what, n == 1 and '' or 's') end

command('runs', function(_, say)
  local any = false
  for i = 1, M.count do
    local h = M.handles[i]
    if h then
      local state = h:state()
      if state == 'done' then state = tostring(h):match '%((%a+)' end       -- or cancelled, or failed
      local s = h:stats()
      say(('%d  %-9s %s, %s, %s%s'):format(i, state, many(s.nodes_run, 'node'), many(s.iterations, 'iteration'),
                                           many(s.frames, 'frame'), h == M.current and '  (current)' or ''))
      any = true
    end
  end
  if not any then say('no run was started') end
end, 'runs - lists the runs of df.start, and the current one')

command('attach', function(rest)
  local h = M.handles[tonumber(rest) or 0]
  if not h then
    error(tonumber(rest) and ('there is no run %s; :runs lists them'):format(rest)
          or 'usage: :attach n, with a number of :runs', 0)
  end
  M.current, M.attached = h, h
end, 'attach n - makes run n of :runs the current one')

-- ---- commands: why --------------------------------------------------------------------------------------------------
--- What an expression gives; nil and the error when it raised one.
local function evaluated(expression)
  local chunk = expression ~= '' and repl.session.compile(expression)
  local fine, v = pcall(chunk or function() end)
  if fine then return v end
  return nil, tostring(v)
end

local function is_named(v) return getmetatable(v) == graph.Output or getmetatable(v) == graph.Operation end

--- Can a run fetch it: an Output, an Operation, a Variable, a table with something in it?
local function is_fetch(v)
  local mt = getmetatable(v)
  return is_named(v) or (type(mt) == 'table' and rawget(mt, 'as_output') ~= nil)
    or (errors.is_data(v) and next(v) ~= nil)
end

--- `x@while:17`, `x while:17`, `x`; x is a node's name or a Lua expression that gives an Output.
local function asked(h, rest, usage)
  local what, tag = rest:match('^(.-)%s*@%s*(%S+)$')
  if not what then what, tag = rest:match('^(%S+)%s+(%S+:%d+)$') end
  what = what or rest
  if what == '' then error('usage: ' .. usage, 0) end
  local ok, x = pcall(function() return h.session.graph:output(what) end)
  if ok then return x, tag end
  local v = evaluated(what)
  if is_named(v) then return v, tag end
  error(x, 0)
end

local function paused()
  local h = seen()
  if h:state() == 'running' then h:pause() end
  return h
end

--- The same of a run that can go on.
local function standing()
  local h = current()
  if h:state() == 'running' then h:pause() end
  return h
end

command('why', function(rest, say)
  local h = paused()
  local e = rest == '' and h.over and not h.ok and h.result
  if type(e) == 'table' and e.op then             -- of a run that failed: the node that did
    return say(h:why(e.op:match('^(.-) %('), e.frame))
  end
  local stop = rest == '' and not h.over and h:settle(0)
  if stop and stop.op then
    return say((stop.afterwards and h.why or h.whynot)(h, stop.op, stop.tag ~= '' and stop.tag or nil))
  end
  say(h:why(asked(h, rest, ':why x@frame:iteration')))
end, [[why x[@frame:n] - shows the value of x and its inputs; of a dead x, the Switch that made it dead
The command pauses the run. x is a node's name or an expression; the frame is named as :frames shows it.
Without a run in progress it reads the last run, as it was at its end or error. :why alone tells of the
node where the run stands, or of the one that failed.]])

command('whynot', function(rest, say)
  local h = paused()
  say(h:whynot(asked(h, rest, ':whynot x@frame:iteration')))
end, 'whynot x[@frame:n] - shows what x waits for in an iteration, and what that waits for')

command('value', function(rest, say)
  local h = paused()
  local x, tag = asked(h, rest, ':value x@frame:iteration')
  local ok, v, dead = pcall(h.value, h, x, tag)
  if ok and not dead then return values.show(v) end
  if ok then return 'dead; :why ' .. rest .. ' says why' end
  local fine, waits = false, nil
  if errors.is(v) and (v.code == 'not_found' or v.code == 'failed_precondition') then
    fine, waits = pcall(h.whynot, h, x, tag)
  end
  if not fine or waits == '' then error(v, 0) end
  if h:state() == 'done' then return 'it has no value: the run ended before ' .. waits:match '[^\n]*' end
  say('not yet: ' .. waits)
end, 'value x[@frame:n] - shows the value of x in an iteration; of a missing value, what it waits for')

-- ---- commands: going on ---------------------------------------------------------------------------------------------
--- Waits until h stops or is over: true. Ctrl-C gives the prompt back, and the run goes on.
local function next_event(h)
  local terminal = program.terminal()
  local line = progress.new(h, program, terminal.editing and terminal.errors)
  local ok, came = pcall(function()
    while true do
      local state = core.run_settle(h.handle, POLL)
      if state == OVER or state == PAUSED then return true end
      if program.interrupted() then return false end
      line:show()
      show_live(h)
    end
  end)
  line:clear()
  if not ok then error(came, 0) end
  return came
end

local function go_on(h, say)
  cursor[h] = 0
  if h == M.front then return true end          -- what waits for the run lets it go on
  h:resume()
  if not holding(next_event, h) then
    return say('the run continues in the background; :frames shows it, :pause pauses it')
  end
  local stop = h:settle(0)
  if stop then breaks.stopped(h, stop) end
  show_stop(stop, say, h)
end

command('pause', function(_, say)
  local h = current()
  show_stop(h:pause(), say, h)
  cursor[h] = 0
end, 'pause - pauses the run before its next token')

command('continue', function(_, say) return go_on(current(), say) end,
  [[continue - resumes the run, to the next breakpoint or its end
Ctrl-C returns to the prompt; a run in the background goes on.]])

command('cancel', function()
  local h = current()
  h:cancel()
  -- it ends by itself then; usually it has at once, and :runs says so
  local given_up = program.clock() + 2
  repeat until core.run_settle(h.handle, POLL) == OVER or program.clock() > given_up or program.interrupted()
  if M.depth > 0 then return true end
end, 'cancel - cancels the run; each variable is unchanged or fully assigned')

--- A run of x that is paused before its first token, and is what the commands speak of.
local function begin_held(x, say)
  local h = runs.start(x, nil, { paused = true, values = true })
  M.current, M.attached = h, h
  say('a new run; :step runs the next token, :frames and :why inspect it, :continue resumes it')
  return h
end

command('step', function(rest, say)
  local x, why
  if not M.in_progress() then x, why = evaluated(rest) end
  x = is_fetch(x) and x or nil
  if x then rest = '' end
  local n, unit = rest:match('^(%d*)%s*(%a*)$')
  if not n and why then error(why, 0) end
  local h = x and begin_held(x, say) or standing()
  if not n then error('usage: :step [n] [token|node|iteration|frame], or :step x when no run is in progress', 0) end
  cursor[h] = 0
  unit = unit ~= '' and unit or 'token'
  for _, full in ipairs{ 'token', 'node', 'iteration', 'frame' } do
    if full:sub(1, #unit) == unit or full .. 's' == unit then unit = full break end
  end
  if not show_stop(h:step(n ~= '' and tonumber(n) or 1, unit), say, h) and M.depth > 0 then return true end
end, [[step [n] [token|node|iteration|frame] - runs n tokens, nodes, iterations or frames, then pauses again
:step x, when no run is in progress, starts a paused run of x. Other iterations keep their windows, so
stepping changes no value.]])

command('break', function(rest, say)
  local h = M.in_progress()
  if rest == '' then return breaks.list(h, say) end
  if h and h:state() == 'running' then h:pause() end
  say(breaks.add(h, rest))
end, [[break [WHERE] - stops runs at an op, node, line, iteration, dead token or NaN; alone: lists breakpoints
WHERE is an op type or a node's name (a pattern), `line n`, a loop's name or its iteration `name:n`,
`iteration n` of any loop, `dead`, `nan`, `inf`, or several of these. `limit n` lets it stop n times.
While a run is paused, a new breakpoint belongs to that run. Otherwise it belongs to every later run,
also those of df.start, which stop in the background: :frames shows where, :continue resumes.
:break Mul while:6 stops before Mul runs in iteration 6
:break Mul if v > 20 where the value of Mul is above 20
:break nan after any node that makes a NaN
:break line 12 at what line 12 of an input or a file built
:break op=Mul frame=while iteration=6 uses the names of h:break_at]], nil, true)

command('unbreak', function(rest, say)
  local id = tonumber(rest)
  if rest ~= '' and not id then error('usage: :unbreak [n], with a number that :break says', 0) end
  if breaks.remove(M.in_progress(), id) then return end
  say(id and ('there is no breakpoint %s; :break lists them'):format(rest) or 'there are no breakpoints')
end, 'unbreak [n] - removes breakpoint n, or all of them')

-- ---- commands: walking back -----------------------------------------------------------------------------------------
local function show_past(h, at, say)
  local list = h:history(at)
  if #list == 0 then
    say('nothing has run yet')
    return
  end
  if at > #list then
    at = #list
    say(('%s remembered; this is the oldest:'):format(at == 1 and '1 token is' or at .. ' tokens are'))
  end
  local t = list[at]
  cursor[h] = at
  local ok, v = pcall(h.value, h, t.op.name, t.tag ~= '' and t.tag or nil)
  local text = ('-%d  %s (%s)%s%s')
    :format(at, t.op.name, t.op.type, t.tag ~= '' and ' in ' .. t.tag or '', t.dead and ', dead' or '')
  if ok and v ~= nil then text = text .. ' = ' .. tostring(v):gsub('%s+', ' '):sub(1, 60) end
  say(t.dead and values.paint(text, 'D') or text)
end

local function how_many(rest, name)
  local n = rest == '' and 1 or tonumber(rest)
  if not n or n < 1 or n % 1 ~= 0 then
    error((':%s [n]: n is a whole number from 1 up, not %s'):format(name, rest), 0)
  end
  return n
end

command('back', function(rest, say)
  local h, n = paused(), how_many(rest, 'back')
  show_past(h, (cursor[h] or 0) + n, say)
end, 'back [n] - shows the token that ran n tokens earlier, and its values where they are kept (:record)')

command('forward', function(rest, say)
  local h, n = paused(), how_many(rest, 'forward')
  local at = (cursor[h] or 0) - n
  if at < 1 then
    cursor[h] = 0
    if h:state() == 'done' then say('that is the end of the run') else show_stop(h:settle(0), say, h) end
    return
  end
  show_past(h, at, say)
end, 'forward [n] - shows the token that ran n tokens later, up to where the run is paused')

command('record', function(rest, say)
  if rest == 'on' then M.record = true elseif rest == 'off' then M.record = nil elseif rest ~= '' then error(
      'usage: :record [on|off]', 0) end
  say(M.record and 'values of the last few thousand tokens are kept for :back and :why'
      or 'only tokens are kept; :record on keeps their values too')
end, 'record [on|off] - keeps the values of all nodes in the next runs, for :back, :why and :diff')

-- ---- commands: the whole picture ------------------------------------------------------------------------------------
command('top', function()
  require('dflow.repl.top').show(current(), program)
end, 'top - shows the run on the whole screen, ten times a second; p pauses, s sorts, / filters, other keys leave')

--- Runs an expression, or the Output that it gives, with a log of each run. The runs; the seconds; did it work, or what
-- it raised. page: for a page, which shows values, and all primitives.
local function logged_runs(expression, page)
  local chunk, why = repl.session.compile(expression)
  if not chunk then error(why, 0) end
  local seen = {}
  M.logged = function(h) seen[#seen + 1] = h end
  M.logged_for_page = page
  local began = program.clock()
  local ok, value = pcall(function()
    local v = chunk()
    if #seen == 0 and (getmetatable(v) == graph.Output or getmetatable(v) == graph.Operation) then
      began = program.clock()
      v = runs.run(v)
    end
    return v
  end)
  local wall = program.clock() - began
  M.logged, M.logged_for_page = nil, nil
  if ok and #seen == 0 then error('that ran no graph', 0) end
  return seen, wall, ok, value
end

M.logged_runs = logged_runs

command('prof', function(rest, say)
  if rest == '' then error('usage: :prof EXPRESSION that runs a graph, such as :prof df.run(loss)', 0) end
  local seen, wall, ok, value = logged_runs(rest)
  if #seen > 0 then say(require('dflow.repl.profile').text(seen, wall)) end
  local native = require('dflow.repl.timing').loops().native
  if native > 0 then
    say(('these are tokens, which a log needs; %d loop%s of this session %s native code, which :timeit measures')
      :format(native, native == 1 and '' or 's', native == 1 and 'has' or 'have'))
  end
  if not ok then error(value, 0) end               -- after what can be said of the time until then
end, [[prof EXPRESSION - runs it and shows the time of each op, Lua line and frame; an Output is run
Several runs are summed. Kernels that run at the same time sum to more than the clock's time. Profiling
runs tokens; where a loop would be native code, the profile says so.]], nil, true)

command('trace', function(rest, say)
  local path, expression = rest:match('^(%S+)%s+(.+)$')
  if not path then error('usage: :trace run.json EXPRESSION, or :trace run.html EXPRESSION for a page', 0) end
  files.probe(path)                                    -- better known before it runs
  local page = path:find '%.html?$' ~= nil
  local seen, _, ok, value = logged_runs(expression, page)
  if #seen > 0 then
    require(page and 'dflow.inspect.report' or 'dflow.inspect.trace').write(seen[#seen], path)
    say(('%s was written%s'):format(path, #seen > 1 and (', of the last of %d runs'):format(#seen) or ''))
  end
  if not ok then error(value, 0) end
end, 'trace FILE EXPRESSION - runs it and writes a timeline (run.json, for Perfetto) or a page (run.html)', nil, true)

--- Called once, when the prompt begins.
function M.open(owner)
  repl, program = owner, owner.program
  runs.foreground, runs.remains = foreground, true
  runs.held = { log = 20000 }                              -- so that a page can show it: see serve.lua
  runs.started = function(h)
    M.count = M.count + 1
    M.handles[M.count] = h
  end
  runs.attend, runs.breakpoints = attend, breaks
end

--- After an input that was thrown out of the middle of something.
function M.recover()
  if M.depth == 0 then M.logged, M.logged_for_page = nil, nil end
end

return M
