--- `dflow --dap`: the debugger of an editor, by the Debug Adapter Protocol on standard input and output.
--
-- The script runs here, and each of its runs is watched. A breakpoint on a Lua line stops before a token of a node that
-- was built there. The threads are the open frames: the top level and each loop. A stack begins with the token and what
-- called its line, then the frames around it, then the script's own functions. `stepIn` runs a token, `next` a live
-- node, `stepOut` goes to the end of the frame, `stepBack` shows the token that ran before.
local core = require 'dflow.backend'
local enums = require 'dflow.backend.enums'
local json = require 'dflow.exchange.json'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local listing = require 'dflow.front.listing'
local naming = require 'dflow.front.naming'
local runs = require 'dflow.front.session'
local program = require 'dflow.program'
local breaks = require 'dflow.repl.breaks'

local unpack = table.unpack or unpack
local PAUSED, OVER = enums.DF_RUN_PAUSED, enums.DF_RUN_OVER
local UNITS = { stepIn = enums.DF_STEP_TOKEN, next = enums.DF_STEP_NODE, stepOut = enums.DF_STEP_FRAME }
local VARIABLE = 2                      -- DF_ROLE_VARIABLE
local POLL = 0.02                       -- seconds between two looks at a run and at what the editor asks
local LARGEST = 2 ^ 26                  -- bytes of a message
local ELEMENTS, LETTERS = 200, 2000     -- of a value that are shown

local Dap = {}
Dap.__index = Dap
local requests = {}

-- ---- messages ---------------------------------------------------------------------------------------------
function Dap:send(message)
  self.sent = self.sent + 1
  message.seq = self.sent
  local text = json.encode(message)
  self.out:write('Content-Length: ', #text, '\r\n\r\n', text)
  self.out:flush()
end

--- An event always has a body, and so has an answer: some clients ask for one where it says nothing (dap-python).
function Dap:event(name, body) self:send{ type = 'event', event = name, body = body or {} } end

--- What the script has printed goes to the editor.
function Dap:print()
  local out, err = program.so_far()
  if out and out ~= '' then self:event('output', { category = 'stdout', output = out }) end
  if err and err ~= '' then self:event('output', { category = 'stderr', output = err }) end
end

--- The next message; nil: none came within so many seconds, or there will be none (`over`).
function Dap:receive(seconds)
  while not self.over do
    local head = self.read:find('\r\n\r\n', 1, true)
    local length = head and tonumber(self.read:sub(1, head):lower():match 'content%-length: *(%d+)')
    if head and (not length or length > LARGEST) or not head and #self.read > 65536 then
      self.over, self.wrong = true, 'what came on standard input is no message of the Debug Adapter Protocol'
    elseif head and #self.read >= head + 3 + length then
      local text = self.read:sub(head + 4, head + 3 + length)
      self.read = self.read:sub(head + 4 + length)
      local ok, message = pcall(json.decode, text)
      if ok and type(message) == 'table' and type(message.command) == 'string' then return message end
      self.over, self.wrong = true, 'a message is no request in JSON'
    else
      local bytes = program.input(seconds)
      if bytes == nil then return nil end
      if bytes then self.read = self.read .. bytes else self.over = true end
    end
  end
end

--- Answers a request; what goes wrong is the answer.
function Dap:answer(message)
  local command = message.command
  local arguments = type(message.arguments) == 'table' and message.arguments or {}
  local request = requests[command] or function() error(("dflow has no request '%s'"):format(command), 0) end
  local ok, body = pcall(request, self, arguments)
  local why = not ok and (type(body) == 'table' and body.message or tostring(body):gsub('^[^\n]-%.lua:%d+: ', ''))
    or nil
  self:send{ type = 'response', request_seq = message.seq, command = command, success = ok, message = why,
             body = ok and body or why and { error = { id = 1, format = why } } or {} }
  if command == 'initialize' and ok then self:event('initialized') end
end

--- Answers what has been asked by now.
function Dap:attend_to_editor(seconds)
  self:print()
  local message = self:receive(seconds)
  while message do
    self:answer(message)
    message = not self.go and self:receive(0) or nil
  end
end

-- ---- breakpoints ------------------------------------------------------------------------------------------
local function number(v, what)
  if type(v) ~= 'number' or v % 1 ~= 0 then
    error(('%s is expected to be a whole number, and is %s'):format(what, tostring(v)), 0)
  end
  return v
end

--- The nodes of the run's graph that line `at` of the file at `path` has built.
local function built_at(h, path, at)
  local list, g = {}, h.session.graph
  local ending = '/' .. path:match '[^/]*$' .. ':' .. at
  for id = 0, core.graph_nodes(g.handle) - 1 do
    local where = core.node_where(g.handle, id)
    if where == path .. ':' .. at or ('/' .. where):sub(-#ending) == ending
      and path:sub(-#where:match '^(.*):') == where:match '^(.*):' then
      list[#list + 1] = id
    end
  end
  return list
end

--- Gives the run a breakpoint on each node of these; what it has no token of is no place.
function Dap:stop_at(h, nodes, spec)
  local any
  for _, id in ipairs(nodes) do
    local ok, at = pcall(h.break_at, h, { op = graph.operation(h.session.graph, id), when = spec.when, nan = spec.nan,
        inf = spec.inf })
    if ok then self.by_run[h][at], any = spec, true end
  end
  return any
end

--- The run has the editor's breakpoints, and no others of ours.
function Dap:set(h)
  for at in pairs(self.by_run[h] or {}) do h:unbreak(at) end
  self.by_run[h] = {}
  for path, list in pairs(self.places) do
    for _, spec in ipairs(list) do
      if self:stop_at(h, built_at(h, path, spec.line), spec) and not spec.verified then
        spec.verified = true
        self:event('breakpoint', { reason = 'changed',
                                   breakpoint = { id = spec.id, verified = true, line = spec.line - self.line_base } })
      end
    end
  end
  for _, filter in ipairs{ 'nan', 'inf' } do
    if self.filters[filter] then self.by_run[h][h:break_at{ [filter] = true }] = { exception = filter } end
  end
end

function Dap:pending() return not self.no_debug and (next(self.places) or next(self.filters)) ~= nil end

-- ---- where it stands --------------------------------------------------------------------------------------
--- `file:line` as the protocol has it.
local function source_of(where)
  local path, line = tostring(where or ''):match '^(.*):(%d+)$'
  if not path or path:find '^=' or path:find '^%[' then return nil, 0 end
  return { name = path:match '[^/]*$', path = path }, tonumber(line)
end

--- The script's own functions, innermost first, each with its locals at this moment.
local function lua_frames()
  local own, list = require('dflow.own').home or '', {}
  for level = 3, 200 do
    local info = debug.getinfo(level, 'Sln')
    if not info then break end
    local file = info.source:match '^@(.*)'
    if file and file:sub(1, #own + 6) ~= own .. 'dflow/' and file ~= own .. 'dflow.lua' then
      local locals = {}
      for i = 1, ELEMENTS do
        local name, v = debug.getlocal(level, i)
        if not name then break end
        if not name:find '^%(' then locals[#locals + 1] = { name, v } end
      end
      list[#list + 1] = { name = info.name or 'main chunk', where = file .. ':' .. info.currentline, locals = locals }
    end
  end
  return list
end

--- A number by which the editor asks for v again, until the run goes on.
function Dap:keep(v)
  self.kept[#self.kept + 1] = v
  return #self.kept
end

--- The token that is looked at: where the run stands, or one before.
function Dap:token() return self.past or self.stop end

local function title(f)
  return f.parent and ('%s  iterations %d-%d'):format(f.tag, f.first, f.next - 1) or 'top level'
end

function requests.threads(self)
  local list = json.list{}
  for _, f in ipairs(self.h and self.stop and self.h:frames() or {}) do
    list[#list + 1] = { id = f.id + 1, name = title(f) }
  end
  if #list == 0 then list[1] = { id = 1, name = 'top level' } end
  return { threads = list }
end

function requests.stackTrace(self, a)
  local stack = json.list{}
  local function push(name, where, about)
    local source, line = source_of(where)
    stack[#stack + 1] = { id = self:keep(about), name = name, source = source,
                          line = math.max(0, line - self.line_base), column = 1 - self.column_base }
  end
  local frame
  for _, f in ipairs(self.h and self.stop and self.h:frames() or {}) do if f.id + 1 == a.threadId then frame = f end end
  local token = self:token()
  if token and token.op and token.frame_id == (frame and frame.id or 0) then
    push(('%s (%s)%s%s'):format(naming.text(self.names, token.op.node), token.op.type, token.tag ~= '' and ' in '
                                .. token.tag or '',
                                token.dead and ', dead' or ''), token.op.source,
                                { op = token.op, tag = token.tag, frame = frame, iteration = token.iteration })
    local callers = core.node_callers(token.op.graph.handle, token.op.node)
    for line in (callers > 0 and core.callers(callers) or ''):gmatch '[^\n]+' do
      push('called from', line:match '(%S+:%d+)', {})
    end
  end
  while frame and frame.parent do
    push(title(frame), frame.where, { frame = frame })
    frame = frame.parent
  end
  for _, f in ipairs(self.lua or {}) do push(f.name, f.where, { locals = f.locals }) end
  return { stackFrames = stack, totalFrames = #stack }
end

-- ---- what is there ----------------------------------------------------------------------------------------
--- The variables of a loop: {name, the Merge's node}.
local function variables_of(g, loop, names)
  local roles, list, number_of = core.flow_roles(g.handle), {}, nil
  for _, f in ipairs(core.flows(g.handle)) do if f.kind == 2 and f.name == loop then number_of = f.number end end
  for id = 0, core.graph_nodes(g.handle) - 1 do
    if roles[3 * id + 1] == VARIABLE and roles[3 * id + 2] == number_of then
      local name = core.loop_variable(g.handle, number_of, roles[3 * id + 3])
      name = naming.label(names, id) or name ~= '' and name or tostring(roles[3 * id + 3] + 1)
      list[#list + 1] = { name, id }
    end
  end
  return list
end

function Dap:shown(name, v)
  local kind, inner = type(v), 0
  local mt = getmetatable(v)
  if kind == 'table' and mt == graph.Output and self.stop and v.graph == self.h.session.graph then
    local ok, value, dead = pcall(self.h.value, self.h, v)
    if ok and value ~= nil then return self:shown(name, value) end
    return { name = name, value = ok and dead or v.name .. ': no value here', variablesReference = 0 }
  end
  local tensor = kind == 'table' and type(mt) == 'table' and rawget(mt, '__name') == 'dflow.Tensor'
  if tensor and #v.shape > 0 and v.size > 1 and v.size <= 100000 then inner = self:keep{ elements = v:totable() }
  elseif kind == 'table' and mt == nil and next(v) ~= nil then inner = self:keep{ elements = v } end
  local text = kind == 'string' and ('%q'):format(v) or tostring(v)
  return { name = name, value = #text > LETTERS and text:sub(1, LETTERS) .. '…' or text, variablesReference = inner,
           type = tensor and ('%s[%s]'):format(v.dtype, table.concat(v.shape, ',')) or kind }
end

--- The value of an output there, or why it has none.
function Dap:value(name, output, tag)
  local ok, v, dead = pcall(self.h.value, self.h, output, tag)
  if ok and dead then return { name = name, value = 'dead', variablesReference = 0 } end
  if ok then return self:shown(name, v) end
  return { name = name, value = 'not yet', variablesReference = 0 }
end

function requests.scopes(self, a)
  local at = self.kept[a.frameId] or error('there is no such stack frame: the run has gone on', 0)
  local list = json.list{}
  local function scope(name, about)
    list[#list + 1] = { name = name, variablesReference = self:keep(about), expensive = false }
  end
  if at.op then scope('Node', { node = at.op, tag = at.tag }) end
  if at.frame and at.frame.parent then
    local of = at.iteration
    for _, it in ipairs(at.frame.iterations) do
      if of == nil or it.number == of then
        scope(('Iteration %d'):format(it.number), { loop = at.frame, iteration = it.number })
      end
    end
  end
  if at.frame and #at.frame.stacks > 0 then scope('Arrays and saved values', { stacks = at.frame.stacks }) end
  if at.locals then scope('Locals', { locals = at.locals }) end
  return { scopes = list }
end

function requests.variables(self, a)
  local at = self.kept[a.variablesReference] or error('there is no such value: the run has gone on', 0)
  local list = json.list{}
  if at.node then
    for i, input in ipairs(at.node.inputs) do
      list[i] = self:value(('input %d: %s'):format(i, naming.text(self.names, input.node, input.index)), input, at.tag)
    end
    for i, output in ipairs(at.node.outputs) do
      list[#list + 1] = self:value(('output %d'):format(i), output, at.tag)
    end
  elseif at.loop then
    local g, tag = self.h.session.graph, ('%s:%d'):format(at.loop.tag, at.iteration)
    for _, v in ipairs(variables_of(g, at.loop.name, self.names)) do
      list[#list + 1] = self:value(v[1], graph.output(g, v[2], 0), tag)
    end
  elseif at.stacks then
    for _, s in ipairs(at.stacks) do
      list[#list + 1] = { name = s.name, value = ('%d of %d, %.0f bytes')
        :format(s.depth, s.size, s.bytes), variablesReference = 0 }
    end
  elseif at.locals then
    for _, l in ipairs(at.locals) do list[#list + 1] = self:shown(l[1], l[2]) end
  elseif at.elements then
    local keys = {}
    for k in pairs(at.elements) do keys[#keys + 1] = k end
    listing.sorted(keys)
    for i = 1, math.min(#keys, ELEMENTS) do list[i] = self:shown(tostring(keys[i]), at.elements[keys[i]]) end
  end
  return { variables = list }
end

--- The locals of the script where it stands, by name: those of the innermost function first.
function Dap:locals()
  local env = {}
  for i = #(self.lua or {}), 1, -1 do for _, l in ipairs(self.lua[i].locals) do env[l[1]] = l[2] end end
  return env
end

--- An expression is a local of the script, a node's name, Lua, or `why` and one of these.
function requests.evaluate(self, a)
  local text = tostring(a.expression or '')
  local why = text:match '^%s*:?why%s+(.+)$'
  local env = self:locals()
  local token = self:token()
  local v
  local op = self.h and self.stop and core.node_by_name(self.h.session.graph.handle, (why or text):match '^[^:]*') or -1
  if op >= 0 and env[why or text] == nil then
    v = graph.output(self.h.session.graph, op, tonumber(text:match ':(%d+)$') or 0)
  else
    local fn, wrong = load('return ' .. (why or text), '=expression', 't', setmetatable(env, { __index = _G }))
    if not fn then error(wrong, 0) end
    v = fn()
  end
  if why and self.stop then return { result = tostring(self.h:why(v)), variablesReference = 0 } end
  local shown = getmetatable(v) == graph.Output and token and self:value(text, v, op >= 0 and token.tag or nil)
    or self:shown(text, v)
  return { result = shown.value, type = shown.type, variablesReference = shown.variablesReference }
end

--- What may stand at a place of an expression: as at the prompt, with the script's locals and the nodes of its run.
-- Columns count UTF-16 units.
function requests.completions(self, a)
  local lines, n = {}, 1
  for line in (tostring(a.text or '') .. '\n'):gmatch '(.-)\n' do lines[#lines + 1] = line end
  n = math.max(1, math.min(#lines, number(a.line or 1 - self.line_base, 'line') + self.line_base))
  local units, column, before = number(a.column, 'column') + self.column_base - 1, 0, 0
  for at, letter in lines[n]:gmatch '()([%z\1-\127\192-\255][\128-\191]*)' do
    if before >= units then break end
    before, column = before + (#letter > 3 and 2 or 1), at + #letter - 1
  end
  local env, names, list = self:locals(), {}, json.list{}
  for name in pairs(env) do names[#names + 1] = name end
  local buffer = require 'dflow.repl.buffer'.new{ global = function() return true end, field = function() end }
  buffer.replace(0, 0, table.concat(lines, '\n', 1, n))
  local from, found = require 'dflow.repl.complete'.at(buffer, n - 1, column, {
    locals = { names = function() return names end, get = function(name) return env[name] end,
               has = function(name) return env[name] ~= nil end }, folder = program.folder })
  local function add(text, first, kind)
    local start = select(2, lines[n]:sub(1, first):gsub('[%z\1-\127\192-\255]', ''))
      + select(2, lines[n]:sub(1, first):gsub('[\240-\255]', ''))
    list[#list + 1] = { label = text, start = start + 1 - self.column_base, length = units - start, type = kind }
  end
  for i = 1, math.min(#found, ELEMENTS) do add(found[i].text, from) end
  local word = lines[n]:sub(1, column):match '[%w_./]*$'
  local g = self.h and self.h.session.graph.handle
  for id = 0, g and word ~= '' and core.graph_nodes(g) - 1 or -1 do
    local name = core.node_name_of(g, id)
    if #list >= 2 * ELEMENTS then break end
    if name:sub(1, #word) == word then add(name, column - #word, 'reference') end
  end
  return { targets = list }
end

-- ---- what the editor sets ---------------------------------------------------------------------------------
function requests.initialize(self, a)
  self.line_base, self.column_base = a.linesStartAt1 == false and 1 or 0, a.columnsStartAt1 == false and 1 or 0
  return { supportsConfigurationDoneRequest = true, supportsConditionalBreakpoints = true, supportsStepBack = true,
           supportsEvaluateForHovers = true, supportsCompletionsRequest = true,
           supportsTerminateRequest = true,
           exceptionBreakpointFilters = json.list{ { filter = 'error', label = 'A run fails', default = true },
                                                   { filter = 'nan', label = 'A node makes a NaN' },
                                                   { filter = 'inf', label = 'A node makes an infinity' } } }
end

function requests.launch(self, a)
  if type(a.program) ~= 'string' then error('launch: `program` is expected to be the path of a Lua script', 0) end
  self.chunk = assert(loadfile(a.program))
  self.program, self.arguments = a.program, type(a.args) == 'table' and a.args or {}
  self.stop_on_entry, self.no_debug = a.stopOnEntry == true, a.noDebug == true
end

function requests.setBreakpoints(self, a)
  local path = type(a.source) == 'table' and a.source.path
  if type(path) ~= 'string' then error('setBreakpoints: `source.path` is expected to be a path', 0) end
  local list, told = {}, json.list{}
  for i, b in ipairs(type(a.breakpoints) == 'table' and a.breakpoints or {}) do
    local asked = type(b.condition) == 'string' and b.condition ~= ''
    local ok, when = true, nil
    if asked then ok, when = pcall(breaks.condition, b.condition, 'condition') end
    self.serial = self.serial + 1
    told[i] = { id = self.serial, verified = false, line = b.line, message = ok and 'no node was built there yet'
                or when }
    if ok then list[#list + 1] = { id = self.serial, line = number(b.line, 'line') + self.line_base, when = when } end
  end
  self.places[path] = #list > 0 and list or nil
  if self.h then self:set(self.h) end
  for i, spec in ipairs(list) do if spec.verified then told[i].verified, told[i].message = true, nil end end
  return { breakpoints = told }
end

function requests.setExceptionBreakpoints(self, a)
  self.filters = {}
  for _, filter in ipairs(type(a.filters) == 'table' and a.filters or {}) do self.filters[filter] = true end
  if self.h then self:set(self.h) end
end

function requests.configurationDone(self) self.configured = true end

-- ---- going on ---------------------------------------------------------------------------------------------
for _, way in ipairs{ 'continue', 'next', 'stepIn', 'stepOut', 'stepBack' } do
  requests[way] = function(self)
    if not self.stop then error('the run is not stopped', 0) end
    self.go = way
    return way == 'continue' and { allThreadsContinued = true } or nil
  end
end

function requests.pause(self) self.asked = true end
function requests.terminate(self) self.ended = true end

function requests.disconnect(self)
  self.ended, self.over = true, true
end

--- Shows the editor a stop, and answers it until the run is to go on: what it is to do.
function Dap:converse(h, stop, reason, text)
  self.h, self.stop, self.past, self.back = h, stop, nil, 0
  repeat
    self.kept, self.lua, self.names, self.go = {}, lua_frames(), naming.collect(h.session.graph, true), nil
    local token, ids = self:token(), json.list{}
    local spec = not self.past and stop.breakpoint and self.by_run[h] and self.by_run[h][stop.breakpoint]
    if spec and spec.id then ids[1] = spec.id end
    local why = self.past and 'step' or reason or spec and (spec.exception and 'exception' or 'breakpoint') or 'step'
    self:print()
    self:event('stopped', { reason = why, description = text or (self.past and 'ran before' or tostring(stop)),
                            text = text,
                            threadId = (token.frame_id or 0) + 1, allThreadsStopped = true, hitBreakpointIds = ids })
    while not self.go and not self.ended and not self.over do self:attend_to_editor(1) end
    local back = self.back + (self.go == 'stepBack' and 1 or UNITS[self.go] and -1 or 0)
    local past = back > 0 and not text and self.go ~= 'continue' and h:back(back)
    local moved = past or self.go == 'stepBack' or back == 0 and self.back > 0
    if moved then
      self.back, self.past = past and back or back <= 0 and 0 or self.back, past or back > 0 and self.past or nil
    end
  until not moved or self.ended or self.over
  self.stop, self.past = nil, nil
  return self.go
end

--- Watches h until it is over. It ends with the debugger.
function Dap:watch(h)
  self.h = h
  while core.run_settle(h.handle, POLL) ~= OVER do
    if self.ended or self.over then
      h:cancel()
      break
    end
    local stop = core.run_settle(h.handle, 0) == PAUSED and h:settle(0)
    local reason = nil
    if not stop and self.asked then stop, reason = h:pause(), 'pause' end
    self.asked = nil
    if stop then
      local go = self:converse(h, stop, reason)
      if h:state() ~= 'done' then core.run_resume(h.handle, UNITS[go] or 0, 1) end
    else
      self:attend_to_editor(0)
    end
  end
  self.h = nil
end

--- s:run of the script.
function Dap:run(s, fetches, feeds, opts)
  local with = { values = true, remains = true }
  for key, v in pairs(opts or with) do with[key] = v end
  with.paused = true
  local h = s:start(fetches, feeds, with)
  local stop = self.stop_on_entry and h:settle(0)
  local go = stop and self:converse(h, stop, 'entry')
  self.stop_on_entry = false
  if h:state() ~= 'done' then core.run_resume(h.handle, UNITS[go] or 0, 1) end
  self:watch(h)
  local ok, result = pcall(h.wait, h)
  if ok then return result end
  if self.filters.error and not self.ended and not self.over and errors.is(result) then
    local op = result.op and h.session.graph:op(result.op:match '^(.-) %(' or result.op)
    self:converse(h, { op = op, tag = result.frame or '', frame_id = 0 }, 'exception', result.message)
  end
  error(result, 0)
end

--- Runs the script: its exit status.
function Dap:script()
  if not self.no_debug then
    runs.foreground = function(...) return self:run(...) end
    runs.started = function() end
    runs.breakpoints = { pending = function() return self:pending() end, set = function(h) self:set(h) end,
                         at_primitives = function() return false end }
    runs.attend = function(h)
      local held = h:settle(0)
      if h:state() == 'running' or held and self.by_run[h] and self.by_run[h][held.breakpoint] then self:watch(h) end
    end
    runs.shown = { values = true }
  end
  rawset(_G, 'arg', { [0] = self.program, unpack(self.arguments) })
  local ok, why = xpcall(self.chunk, function(e) return type(e) == 'string' and debug.traceback(e, 2) or e end,
                         unpack(self.arguments))
  runs.foreground, runs.started, runs.breakpoints, runs.attend, runs.shown = nil, nil, nil, nil, nil
  self:print()
  if not ok and not self.ended and not self.over then
    self:event('output', { category = 'stderr', output = tostring(why) .. '\n' })
  end
  return ok and 0 or 1
end

return function(...)
  if select('#', ...) > 0 then
    io.stderr:write('usage: dflow --dap   (an editor starts it; which script to run comes with its `launch` request)\n')
    return false
  end
  program.capture()
  local self = setmetatable({ out = program.channel(), read = '', sent = 0, serial = 0, places = {},
                              filters = { error = true }, kept = {},
                              by_run = setmetatable({}, { __mode = 'k' }), line_base = 0, column_base = 0 }, Dap)
  while not (self.chunk and self.configured) and not self.ended and not self.over do self:attend_to_editor(1) end
  if self.chunk and not self.ended and not self.over then
    self:event('exited', { exitCode = self:script() })
    self:event('terminated')
    while not self.over do self:attend_to_editor(1) end
  end
  program.captured()
  if self.wrong then io.stderr:write('dflow --dap: ', self.wrong, '\n') end
  return not self.wrong
end
