--- `dflow --kernel connection.json`: a kernel for Jupyter's notebooks, which a notebook starts; `make install-kernel`
-- tells it how.
--
-- The protocol is version 5.3: messages are lists of frames on five sockets, each signed by HMAC-SHA256 with the key of
-- the connection file. What is signed wrongly is dropped. The sockets lie on the loopback address, unless `any-address`
-- stands behind the file. Inputs run as at the prompt: In[12]:3, _ and Out, commands and ?name.
local json = require 'dflow.exchange.json'
local session = require 'dflow.repl.session'
local values = require 'dflow.repl.values'
local errors = require 'dflow.front.errors'
local program = require 'dflow.program'

local sockets                        -- dflow.sockets, where libzmq was there when dflow was built
local DELIMITER = '<IDS|MSG>'

-- ---- messages -------------------------------------------------------------------------------------------------------
local function identifier()
  return (('xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx'):gsub('x', function() return ('%x'):format(math.random(0, 15)) end))
end

local unpack = table.unpack or unpack
local Kernel = {}
Kernel.__index = Kernel

--- A message's frames: the identities of the sender, the signature, four parts.
function Kernel:frames(kind, content, parent, identities)
  self.serial = (self.serial or 0) + 1
  local header = json.encode{ msg_id = self.id .. '_' .. self.serial, session = self.id, username = 'dflow',
                              date = os.date('!%Y-%m-%dT%H:%M:%SZ'),
                              msg_type = kind, version = '5.3' }
  local parts = { header, parent and json.encode(parent.header) or '{}', '{}', json.encode(content) }
  local frames = {}
  for i, identity in ipairs(identities or {}) do frames[i] = identity end
  frames[#frames + 1] = DELIMITER
  frames[#frames + 1] = sockets.hmac(self.key, parts[1], parts[2], parts[3], parts[4])
  for _, part in ipairs(parts) do frames[#frames + 1] = part end
  return frames
end

--- The message of these frames: {identities, header, content}; nil and why it is none of ours.
function Kernel:read(frames)
  local at
  for i, frame in ipairs(frames) do if frame == DELIMITER then at = i break end end
  if not at or #frames < at + 5 then return nil, 'it is no message' end
  local signature = sockets.hmac(self.key, frames[at + 2], frames[at + 3], frames[at + 4], frames[at + 5])
  local same = #signature == #frames[at + 1] and 0 or 1
  -- all of it, in the same time
  for i = 1, #signature do if signature:byte(i) ~= frames[at + 1]:byte(i) then same = same + 1 end end
  if same ~= 0 then return nil, 'its signature is wrong' end
  if self.seen[signature] then return nil, 'it came before' end
  self.seen[signature], self.nseen = true, (self.nseen or 0) + 1
  if self.nseen > 20000 then self.seen, self.nseen = { [signature] = true }, 1 end
  local ok, header, content = pcall(function() return json.decode(frames[at + 2]), json.decode(frames[at + 5]) end)
  if not ok then return nil, 'it is no JSON' end
  for _, part in ipairs{ header, content } do
    if type(part) ~= 'table' or part == json.null then return nil, 'its header and its content are to be objects' end
    for key, v in pairs(part) do if v == json.null then part[key] = nil end end
  end
  local identities = {}
  for i = 1, at - 1 do identities[i] = frames[i] end
  return { identities = identities, header = header, content = content }
end

function Kernel:publish(kind, content, parent) self.iopub:send(self:frames(kind, content, parent, { kind })) end
function Kernel:reply(socket, kind, content, parent)
  socket:send(self:frames(kind, content, parent, parent.identities))
end

-- ---- what an input gives --------------------------------------------------------------------------------------------
--- A value as the notebook shows it: by MIME type. Of several the texts.
local function bundle(v, ...)
  local data = { ['text/plain'] = values.texts(v, ...) }
  if select('#', ...) > 0 then return data end
  local mt = getmetatable(v)
  local name = type(mt) == 'table' and rawget(mt, '__name')
  if name == 'dflow.Plot' then data['image/svg+xml'] = v:svg()
  elseif name == 'dflow.Graph' or name == 'dflow.Output' then
    local ok, svg = pcall(require('dflow').draw, v, { as = 'svg' })
    if ok and svg:find('^%s*<') and #svg < 400000 then data['image/svg+xml'] = svg end
  elseif type(v) == 'string' and v:find('^%s*<svg') then data['image/svg+xml'] = v
  elseif type(v) == 'string' and v:lower():find('^%s*<!doctype html') then      -- a run's page, inline
    data['text/html'] = '<iframe width="100%" height="640" style="border:0" srcdoc="'
      .. v:gsub('&', '&amp;'):gsub('"', '&quot;') .. '"></iframe>'
    data['text/plain'] = 'a page'
  end
  return data
end

local function stripped(text) return (tostring(text):gsub('\27%[[%d;]*m', '')) end

--- What was printed since the last time goes to the notebook.
function Kernel:stream(out, err)
  if not out then out, err = program.so_far() end
  self.streamed = self.clock()
  if not self.now or not out then return end
  if out ~= '' then self:publish('stream', { name = 'stdout', text = out }, self.now) end
  if err ~= '' then self:publish('stream', { name = 'stderr', text = err }, self.now) end
end

local OFTEN = 0.1                    -- seconds between two looks at what an input prints

--- What prints is followed by a look, so that a long input is heard of before it is over.
function Kernel:follow()
  local function followed(fn)
    return function(...)
      local function done(...)
        if self.now and self.clock() - self.streamed > OFTEN then self:stream() end
        return ...
      end
      return done(fn(...))
    end
  end
  _G.print = followed(print)
  rawset(io, 'write', followed(io.write))
end

--- Asks the user of the notebook for a line: nil when there is none to be had, false when an interrupt came instead.
function Kernel:ask(prompt)
  if not (self.now and self.now.content.allow_stdin) then return nil end
  self:stream()
  self:reply(self.stdin, 'input_request', { prompt = prompt, password = false }, self.now)
  while not self.over do
    local which = sockets.poll(1000, self.stdin, self.control)
    if self.repl.program.interrupted() then return false end
    local frames = which and (which == 1 and self.stdin or self.control):receive()
    if frames and which == 2 then
      self:handle(self.control, frames)
    elseif frames then
      local answer, why = self:read(frames)
      if answer and answer.header.msg_type == 'input_reply' then return tostring(answer.content.value or '') end
      if not answer then io.stderr:write('dflow --kernel: a message was dropped: ', why, '\n') end
    end
  end
end

--- io.read in a cell asks the notebook for a line; one that cannot be asked says so.
function Kernel:give_input()
  rawset(io, 'read', function(...)
    if not (self.now and self.now.content.allow_stdin) then
      error('io.read: this notebook does not give cells a line of input (its allow_stdin is false)', 2)
    end
    local out = {}
    for i = 1, math.max(1, select('#', ...)) do
      local how = select(i, ...)
      local line = self:ask ''
      if line == false then error('interrupted!', 0) end
      how = type(how) == 'string' and how:gsub('^%*', ''):sub(1, 1) or how or 'l'
      out[i] = line and (how == 'n' and tonumber(line) or how == 'L' and line .. '\n' or how ~= 'n' and line) or nil
    end
    return unpack(out, 1, math.max(1, select('#', ...)))
  end)
end

--- What the cell is warned of before it runs: conditions that are decided while the graph is built, and their like.
function Kernel:warn(code)
  if not self.now or session.is_command(code) then return end
  local autograph = package.loaded['dflow.autograph']
  local opts = { value_of = session.value_of, autograph = autograph and autograph.whole }
  for _, w in ipairs(require('dflow.check.conditions').find(code, false, opts)) do
    io.stderr:write(('In[%d]:%d: warning: %s\n'):format(session.next_number(), w.line, w.message))
  end
end

--- Runs one input of a cell. Gives what it shows; what went wrong is noted in the reply, or raised.
-- @param cell  {text =, line =, number = nil until one of its inputs has run}
function Kernel:run(code, reply, cell)
  if session.is_command(code) then
    local fine, why, err = self.repl.call(require('dflow.repl.commands').run, code)
    if not fine then error(type(err) == 'string' and err or why, 0) end
    return nil
  end
  local input = session.run(code, self.repl.call, cell)
  if not input.kind then input.message = errors.explain(input.message) end
  if not input.ok then
    reply.status, reply.ename, reply.evalue = 'error', type(input.error) == 'table' and input.error.code or 'error',
      tostring(input.message):match('^[^\n]*')
    reply.traceback = json.list{}
    for line in (self.repl.message_of(input.message) .. '\n'):gmatch('([^\n]*)\n') do
      reply.traceback[#reply.traceback + 1] = stripped(line)
    end
  elseif not input.muted and next(input.results) then
    local fine, made, err = self.repl.call(bundle, unpack(input.results, 1, input.n))
    if not fine then error(err or made, 0) end
    return made
  end
end

--- Of an input such as `?matmul` the notebook's pager shows what it says, in place of the cell's output.
function Kernel:page(piece, reply)
  local out, err = program.so_far()
  self:stream(out, err)
  self:run(piece, reply, {})
  out, err = program.so_far()
  reply.payload[#reply.payload + 1] = { source = 'page', start = 0, data = { ['text/plain'] = stripped(out) } }
  self:stream('', err)
end

--- What user_expressions asks for: each of them evaluated, without an input of its own.
function Kernel:expressions(list)
  local out = {}
  for name, text in pairs(type(list) == 'table' and list or {}) do
    local chunk, why = session.compile('return ' .. tostring(text), #session.inputs)
    local ok, made, err = false, why, nil
    if chunk then ok, made, err = self.repl.call(function() return bundle(chunk()) end) end
    out[name] = ok and { status = 'ok', data = made, metadata = {} }
      or { status = 'error', ename = type(err) == 'table' and err.code or 'error',
           evalue = stripped(made):match '^[^\n]*', traceback = json.list{ stripped(made) } }
  end
  return out
end

function Kernel:execute(message)
  local code, silent = message.content.code or '', message.content.silent == true
  local reply = { status = 'ok', user_expressions = {}, payload = json.list{} }
  local shown
  -- An interrupt asks where a user can answer; elsewhere it cancels.
  require('dflow.front.session').foreground = message.content.allow_stdin and self.asks or nil
  local pieces = session.pieces(code) or { code }
  local kept = not silent and message.content.store_history ~= false
  local cell, number, before = { text = code, line = 0 }, #session.inputs, #session.inputs
  for _, piece in ipairs(pieces) do
    if not session.is_command(piece) then number = session.next_number() end
  end
  if not silent then self:publish('execute_input', { code = code, execution_count = math.max(1, number) }, message) end
  self.now, self.streamed = not silent and message or nil, self.clock()
  self.repl.program.interrupted()                              -- one that came before means nothing to this one
  program.capture()
  local ok, why = pcall(function()
    self:warn(code)
    for _, piece in ipairs(pieces) do
      if shown and self.now then                               -- another follows it
        self:stream()
        self:publish('display_data', { data = shown, metadata = {} }, message)
      end
      if piece:find '^%s*%?' and self.now then shown = self:page(piece, reply)
      else shown = piece:find('%S') and self:run(piece, reply, cell) or nil end
      if reply.status == 'error' then return end
      cell.line = cell.line + select(2, piece:gsub('\n', '')) + 1
    end
  end)
  self:stream(program.captured())
  self.now = nil
  if not ok then
    reply.status, reply.ename, reply.evalue, reply.traceback = 'error', 'error', tostring(why):match('^[^\n]*'),
      json.list{ stripped(why) }
  end
  for i = #session.inputs, kept and #session.inputs + 1 or before + 1, -1 do session.inputs[i] = nil end
  if reply.status == 'ok' then reply.user_expressions = self:expressions(message.content.user_expressions) end
  reply.execution_count = math.max(1, #session.inputs)
  if not silent then
    if shown then
      self:publish('execute_result', { execution_count = #session.inputs, data = shown, metadata = {} }, message)
    end
    if reply.status == 'error' then
      self:publish('error', { ename = reply.ename, evalue = reply.evalue, traceback = reply.traceback }, message)
    end
  end
  return reply
end

-- ---- the other requests ---------------------------------------------------------------------------------------------
--- Bytes of a text up to so many of its characters.
local function byte_of(text, characters)
  local at = 1
  for _ = 1, characters do
    local c = text:byte(at)
    if not c then break end
    at = at + (c < 0x80 and 1 or c < 0xe0 and 2 or c < 0xf0 and 3 or 4)
  end
  return at - 1
end
local function characters_of(text) return select(2, text:gsub('[^\128-\191]', '')) end

function Kernel:complete(content)
  local code = content.code or ''
  local cursor = byte_of(code, content.cursor_pos or characters_of(code))
  local editor = require('dflow.repl.editor').new(self.repl)
  editor.replace(0, 0, code)
  local before = code:sub(1, cursor)
  local line, column = select(2, before:gsub('\n', '')), #before:match('[^\n]*$')
  local ok, from, words = pcall(editor.complete, line, column)
  if not ok then from, words = column, {} end
  local first = cursor - column + (from or column)
  return { status = 'ok', matches = json.list(words), cursor_start = characters_of(code:sub(1, first)),
           cursor_end = characters_of(before), metadata = {} }
end

--- What is called where the text ends: the name before the innermost bracket that is still open; nil: nothing is.
local function called(text)
  local depth = 0
  for i = #text, 1, -1 do
    local c = text:sub(i, i)
    if c == ')' then depth = depth + 1 elseif c == '(' then depth = depth - 1 end
    if depth < 0 then return text:sub(1, i - 1):match '([%a_][%w_.:]*)%s*$' end
  end
end

function Kernel:inspect(content)
  local code = content.code or ''
  local cursor = byte_of(code, content.cursor_pos or characters_of(code))
  local word = (code:sub(1, cursor):match('[%w_.:]*$') or '') .. (code:sub(cursor + 1):match('^[%w_]*') or '')
  local found, text = false, nil
  for _, name in ipairs{ word, called(code:sub(1, cursor)) } do
    local ok, said
    if name ~= '' and not found then ok, said = self.repl.call(require('dflow.repl.where').what, name) end
    if ok and type(said) == 'string' and not said:find('^nothing is known') then found, text = true, said end
  end
  return { status = 'ok', found = found, data = found and { ['text/plain'] = stripped(text) } or {}, metadata = {} }
end

local handlers = {}

function handlers.kernel_info_request(k)
  return 'kernel_info_reply', { status = 'ok', protocol_version = '5.3', implementation = 'dflow',
                                implementation_version = require('dflow')._VERSION:match('%S+$'),
    language_info = { name = 'lua', version = _VERSION:match('[%d.]+'), mimetype = 'text/x-lua',
                      file_extension = '.lua', pygments_lexer = 'lua' },
    banner = k.banner, help_links = json.list{} }
end
--- Behind a cell that fails those that wait already are not run, unless it says otherwise (stop_on_error).
function handlers.execute_request(k, m)
  if k.aborting then return 'execute_reply', { status = 'aborted', execution_count = math.max(1, #session.inputs) } end
  local reply = k:execute(m)
  k.failed = reply.status == 'error' and m.content.stop_on_error ~= false
  return 'execute_reply', reply
end
function handlers.complete_request(k, m) return 'complete_reply', k:complete(m.content) end
function handlers.inspect_request(k, m) return 'inspect_reply', k:inspect(m.content) end
function handlers.is_complete_request(_, m)
  local code = m.content.code or ''
  if not session.complete(code) then return 'is_complete_reply', { status = 'incomplete', indent = '  ' } end
  return 'is_complete_reply', { status = (session.is_command(code) or session.compile(code)) and 'complete'
                                or 'invalid' }
end
--- The inputs that a request for history means: by a pattern with * and ?, by their numbers, or all; the last n of
-- them.
local function asked_for(content)
  local found, seen = {}, {}
  local pattern = content.hist_access_type == 'search' and tostring(content.pattern
      or '*'):gsub('[%^%$%(%)%%%.%[%]%+%-]', '%%%0'):gsub('[*?]', { ['*'] = '.*', ['?'] = '.' })
  local first, stop = 1, math.huge
  if content.hist_access_type == 'range' then
    first, stop = tonumber(content.start) or 1, tonumber(content.stop) or math.huge
  end
  for i = #session.inputs, 1, -1 do
    local text = session.inputs[i].text
    local meant = i >= first and i < stop and (not pattern or text:find('^' .. pattern .. '$'))
      and not (content.unique == true and seen[text])
    if meant and not (tonumber(content.n) and #found >= tonumber(content.n)) then
      seen[text] = true
      table.insert(found, 1, i)
    end
  end
  return found
end
function handlers.history_request(_, m)
  local list = json.list{}
  for i, number in ipairs(asked_for(m.content)) do
    local input, out = session.inputs[number], session.Out[number]
    local text = input.text
    if m.content.output == true then text = json.list{ text, out ~= nil and values.text(out) or json.null } end
    list[i] = json.list{ 0, number, text }
  end
  return 'history_reply', { status = 'ok', history = list }
end
--- There are no comms here: one that is opened is closed.
function handlers.comm_open(k, m)
  k:publish('comm_close', { comm_id = m.content.comm_id or '', data = {} }, m)
end
function handlers.comm_info_request() return 'comm_info_reply', { status = 'ok', comms = {} } end
function handlers.interrupt_request() return 'interrupt_reply', { status = 'ok' } end
function handlers.shutdown_request(k, m)
  k.over = true
  return 'shutdown_reply', { status = 'ok', restart = m.content.restart == true }
end

local function shown(v) return v == nil and 'missing' or type(v) == 'string' and ('%q'):format(v) or json.encode(v) end

--- What of a request is not as the protocol has it; nil: nothing.
local function wrong_content(content)
  if content.code ~= nil and type(content.code) ~= 'string' then
    return ('code is %s, where a text is expected'):format(shown(content.code))
  end
  local at = content.cursor_pos
  if at ~= nil and not (type(at) == 'number' and at >= 0 and at == math.floor(at)) then
    return ('cursor_pos is %s, where a whole number from 0 on is expected'):format(shown(at))
  end
end

--- One message that came in on a socket. What is none of ours is told on standard error, and dropped; each request gets
-- a reply.
function Kernel:handle(socket, frames)
  local message, why = self:read(frames)
  if not message then
    io.stderr:write('dflow --kernel: a message was dropped: ', why, '\n')
    return
  end
  self:publish('status', { execution_state = 'busy' }, message)
  local handler = handlers[message.header.msg_type]
  if handler then
    local why, ok, kind, content = wrong_content(message.content), true, nil, nil
    if not why then ok, kind, content = pcall(handler, self, message) end
    if why or not ok then
      why, kind = why or tostring(kind), message.header.msg_type:gsub('request$', 'reply')
      io.stderr:write('dflow --kernel: ', why, '\n')
      content = { status = 'error', ename = 'invalid_argument', evalue = why, traceback = json.list{ why } }
    end
    if kind then self:reply(socket, kind, content, message) end
  end
  self:publish('status', { execution_state = 'idle' }, message)
end

-- ---- the program ----------------------------------------------------------------------------------------------------
local function loopback(address) return address:find('^127%.') ~= nil or address == 'localhost' or address == '::1' end

-- The sockets, by the connection file's names of their ports.
local PORTS = { 'shell_port', 'control_port', 'stdin_port', 'iopub_port', 'hb_port' }

--- What is wrong with the addresses of connection file `c`; nil: nothing.
local function wrong_address(c)
  if c.transport ~= nil and c.transport ~= 'tcp' and c.transport ~= 'ipc' then
    return ('transport is %s, where "tcp" or "ipc" is expected'):format(shown(c.transport))
  end
  if c.ip ~= nil and type(c.ip) ~= 'string' then
    return ('ip is %s, where an address as text is expected'):format(shown(c.ip))
  end
  for _, name in ipairs(PORTS) do
    local port = c[name]
    if type(port) ~= 'number' or port ~= math.floor(port) or port < 0 or port > 65535 then
      return ('%s is %s, where a whole number from 0 to 65535 is expected'):format(name, shown(port))
    end
  end
end

local function start(path, any)
  local file, why = io.open(path)
  if not file then return nil, why end
  local text = file:read('*a')
  file:close()
  if not text then return nil, path .. ' cannot be read: it is a folder' end
  local ok, c = pcall(json.decode, text)
  if not ok or type(c) ~= 'table' then return nil, ('%s is no connection file: %s'):format(path, tostring(c)) end
  if type(c.key) ~= 'string' or c.key == '' then return nil, path .. ' has no key: messages could not be checked' end
  if c.signature_scheme and c.signature_scheme ~= 'hmac-sha256' then
    return nil, ('messages are signed by hmac-sha256, not by %s'):format(tostring(c.signature_scheme))
  end
  local transport, ip = c.transport or 'tcp', c.ip or '127.0.0.1'
  if transport ~= 'ipc' and not loopback(ip) and not any then
    return nil, ('%s is not the loopback address; dflow --kernel %s any-address listens there all the same'):format(ip,
        path)
  end
  local wrong = wrong_address(c)
  if wrong then return nil, ('%s: %s'):format(path, wrong) end
  local function address(port)
    if transport == 'ipc' then return ('ipc://%s-%d'):format(ip, port) end
    return ('%s://%s:%d'):format(transport, ip, port)
  end
  math.randomseed(os.time() + math.floor(os.clock() * 1e6))
  local k = setmetatable({ key = c.key, seen = {}, id = identifier() }, Kernel)
  local bound, problem = pcall(function()
    k.shell, k.control = sockets.bind('router', address(c.shell_port)), sockets.bind('router', address(c.control_port))
    k.stdin, k.iopub = sockets.bind('router', address(c.stdin_port)), sockets.bind('pub', address(c.iopub_port))
    sockets.heartbeat(address(c.hb_port))
  end)
  if not bound then return nil, (tostring(problem):gsub('^[^:]*%.lua:%d+: ', '')) end
  return k
end

return function(path, any, ...)
  local there
  require 'dflow.own'
  there, sockets = pcall(require, 'dflow.sockets')
  if not there then
    io.stderr:write('dflow --kernel: this dflow was built without libzmq (Debian: libzmq3-dev)\n')
    return false
  end
  if not path or select('#', ...) > 0 or (any and any ~= 'any-address') then
    io.stderr:write('usage: dflow --kernel connection.json [any-address]\n')
    return false
  end
  local k, why = start(path, any)
  if not k then
    io.stderr:write('dflow --kernel: ', why, '\n')
    return false
  end
  sockets.ignore_interrupts()
  local repl = require 'dflow.repl'
  repl.open()
  local terminal = repl.program.terminal()                      -- a page, whatever the locale says
  terminal.utf8, terminal.columns, terminal.rows, terminal.editing = true, 100, 40, false
  values.open(terminal)
  k.asks, k.clock = require('dflow.front.session').foreground, repl.program.clock
  repl.program.line = function(prompt) return k:ask(prompt) end
  session.journal.closed = true
  k:follow()
  k:give_input()
  local serve = require 'dflow.repl.serve'
  k.repl, k.banner = repl, require('dflow')._VERSION .. '  dynamic dataflow for ' .. _VERSION
  while not k.over do
    local again = serve.idle()
    local which = sockets.poll(again and math.floor(again * 1000) or 1000, k.control, k.shell)
    if not which and sockets.orphaned() then break end          -- its parent was killed and told it nothing
    local socket = which == 1 and k.control or which == 2 and k.shell or nil
    local frames = socket and socket:receive()
    if frames then k:handle(socket, frames) end
    while k.failed and not k.over do                            -- what waits behind a cell that failed
      k.aborting = sockets.poll(0, k.shell) ~= nil
      if k.aborting then k:handle(k.shell, k.shell:receive()) else k.failed = nil end
    end
  end
  return true
end
