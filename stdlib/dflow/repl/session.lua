--- What was typed so far and what it gave: compiles an input, runs it, keeps `_`, `__`, `Out[n]` and the session's
-- locals.
--
-- Each input is a chunk of its own, which is called by its number: `In[12]:3` is the third line of the twelfth input,
-- as :history lists them, so that a node, an error and a function each name one line.
local locals = require 'dflow.repl.locals'

local M = {}
local unpack = table.unpack or unpack

M.inputs = {}                 -- {text, number, ok, kind = 'expression' | 'statement', muted}, the list of what was run
M.locals = locals.new(_G)

-- ---- compiling ----------------------------------------------------------------------------------------------------
--- What a name is for an input: a local of the session, or a global.
function M.value_of(name)
  if M.locals.has(name) then return M.locals.get(name) end
  return rawget(_G, name)
end

--- Does the message say that the text ended too early? A quoted string that its line did not end is a mistake that no
-- further line mends.
local function wants_more(message, text)
  if not message:find("<eof>'?$") then return false end
  -- x:shape is a slip, and no beginning
  if message:find('function arguments expected', 1, true) and not text:find('\n') then return false end
  return not message:find('unfinished string', 1, true) or text:find('\\z?%s*$') ~= nil
end

--- `?name` or `:command`; a label `::name::` is Lua.
function M.is_command(text)
  return text:find('^%s*%?') ~= nil or (text:find('^%s*:') ~= nil and not text:find('^%s*::'))
end

--- What an input's chunk is called; what is no input, as a command's expression, `command`.
local function chunk_name(number) return number and ('=In[%d]'):format(number) or '=command' end

--- The input that a chunk's name, with or without '=', speaks of; nil when it is another's.
function M.input_of(name)
  local number = tonumber(name:match('^=?In%[(%d+)%]$'))
  return number and M.inputs[number]
end

local function as_expression(text) return 'return ' .. text:gsub('^%s*=', '', 1) end

-- Where a variable waits to be closed a call is no tail call, so what an expression calls knows the line that it was
-- typed at.
local STAY = 'local __here <close> = nil '
if not load(STAY) then STAY = '' end

--- Statements with a bare expression behind them, as pasted text often ends: the text with a `return` before that; nil
--- when it is nothing of the kind.
local function ending_in_expression(text)
  if not text:find('\n') then return nil end
  local at = #text
  for _ = 1, 40 do                                        -- lines that the expression may have
    local newline = text:sub(1, at):match('^.*()\n')
    if not newline then return nil end
    local tail = text:sub(newline + 1)
    if tail:find('%S') and not tail:find('^%s*%-%-[^\n]*%s*$') and not tail:find('^%s*[%(%[{"\'.:]') then
      local head = text:sub(1, newline)
      if load('return ' .. tail, '=input', 't') and load(head, '=input', 't') then return head .. 'return ' .. tail end
    end
    at = newline - 1
  end
end

--- Does Lua's parser take the text for a whole chunk (or for one that no further line can mend)?
function M.complete(text)
  if M.is_command(text) then return true end
  local chunk, message = load(as_expression(text), '=input', 't')
  if chunk then return true end
  if wants_more(message, text) then return false end
  chunk, message = load(text, '=input', 't')
  return chunk ~= nil or not wants_more(message, text) or ending_in_expression(text) ~= nil
end

--- load, of a text that autograph has rewritten when `:autograph on` or `--autograph` said so.
local function load_rewritten(text, name, environment, before)
  local autograph = package.loaded['dflow.autograph']
  if autograph and autograph.whole then
    local made, why, line = autograph.chunk(text)
    if not made and load(text, name, 't', environment) then
      return nil, ('%s:%d: autograph: %s'):format(name:sub(2), line, why)
    end
    text = made or text
  end
  return load((before or '') .. text, name, 't', environment)
end

--- The chunk of an input and whether it is an 'expression' or a 'statement'; nil and a message.
-- @param number  the input's; nil: it is none
function M.compile(text, number)
  local name = chunk_name(number)
  M.of_command = not number and { text = text } or nil      -- until the next input: errors quote it
  local environment = M.locals.environment({})
  local chunk = load(as_expression(text), name, 't', environment)
  if chunk then
    local kept, words = load_rewritten(as_expression(text), name, environment, STAY)
    if not kept then return nil, words end
    return kept, 'expression'
  end
  local _, why = load(as_expression(text), name, 't', environment)
  -- of `1 +`: more is missing, not that 1 begins no statement
  local unfinished = wants_more(why, text) and why
  text = ending_in_expression(text) or text
  chunk, why = load_rewritten(text, name, M.locals.environment({}))
  if not chunk and unfinished and not wants_more(why, text) then return nil, unfinished end
  if not chunk and not why:find('too many local variables', 1, true) then return nil, why end
  local rewritten, names = locals.rewrite(text)      -- session locals have no limit
  if #names > 0 then
    local kept, still = load_rewritten(rewritten, name, M.locals.environment(names))
    chunk, why = kept or chunk, still or why
  end
  if not chunk then return nil, why end
  return chunk, 'statement'
end

-- ---- results ------------------------------------------------------------------------------------------------------
local LARGE = 2 ^ 20          -- a Tensor of more elements is kept only while it has another holder
local large = setmetatable({}, { __mode = 'v' })
M.Out = setmetatable({}, { __index = large })

local function keep(n, value)
  local mt = getmetatable(value)
  local is_large = type(mt) == 'table' and rawget(mt, '__name') == 'dflow.Tensor' and value.size > LARGE
  rawset(is_large and large or M.Out, n, value)
  _G.__ = rawget(_G, '_')
  _G._ = value
end

--- The number that the next input has.
function M.next_number() return #M.inputs + 1 end

--- Runs an input.
-- @param call  call(f): true and the results, or false, a message and the error: a pcall that minds Ctrl-C
-- @param cell  nil, or the notebook's cell of which this is a part, {text =, line = lines of it before this}: all parts
--              are one input
-- @return      the input's record: {ok, kind, muted, n = number of results, results = {…}} or {message, error}
function M.run(text, call, cell)
  local input = { text = cell and cell.text or text, number = cell and cell.number or #M.inputs + 1 }
  M.inputs[input.number] = input
  if cell then
    cell.number = input.number
    text = ('\n'):rep(cell.line) .. text                        -- errors and nodes name lines of the cell
  end
  local chunk, kind = M.compile(text, input.number)
  if not chunk then
    input.message = kind
    return input
  end
  input.kind = kind
  input.muted = kind == 'expression' and text:find(';%s*$') ~= nil
  local function finish(ok, ...)
    input.ok = ok
    if ok then
      input.n, input.results = select('#', ...), { ... }
      if input.n > 0 then keep(input.number, (...)) end
    else
      input.message, input.error = ...
      _G._err = input.error
    end
    return input
  end
  return finish(call(chunk))
end

--- Line `line` of the input that a chunk's name speaks of; nil when there is none.
function M.source_line(name, line)
  local input, at = name == 'command' and M.of_command or M.input_of(name), 0
  for row in ((input and input.text or '') .. '\n'):gmatch('([^\n]*)\n') do
    at = at + 1
    if input and at == line then return row end
  end
end

-- ---- the journal: what a crash leaves behind ------------------------------------------------------------------------
-- A line `--[[ input, 0.25 s ]]` with the time that it took stands above each input that succeeded.
local journal = { kept = 10 }
M.journal = journal
local MARK, MARKS = '--[[ input, %.2f s ]]', '^%-%-%[%[ input, ([%d.]+) s %]%]$'

--- $XDG_STATE_HOME, or the folder that stands for it; nil where there is no home.
local function state_home()
  local state, home = os.getenv 'XDG_STATE_HOME', os.getenv 'HOME'
  if state and state:sub(1, 1) == '/' then return state end
  return home and home ~= '' and home .. '/.local/state' or nil
end

--- Where the sessions' journals lie: $XDG_STATE_HOME/dflow/sessions, made when it is not there. nil when it cannot be.
local function folder(program)
  local state = state_home()
  if not state then return nil end
  program.make_folder((state:gsub('/state$', '')))
  for _, path in ipairs{ state, state .. '/dflow', state .. '/dflow/sessions' } do
    if not program.make_folder(path) then return nil end
  end
  return state .. '/dflow/sessions/'
end

--- Names of the journals, oldest first.
local function list(program, at)
  local names = {}
  for _, name in ipairs(program.folder(at) or {}) do
    if name:find('^%d+%-%d+%.lua$') then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

--- What a session leaves to those that come: a file of this name that is there, or not.
-- @param value  true or false sets it; nil only asks
function M.remembered(program, name, value)
  local state = state_home()
  if not state or (value and not folder(program)) then return false end
  local path = state .. '/dflow/' .. name
  if value == false then os.remove(path) end
  local file = io.open(path, value and 'w' or 'r')
  if file then file:close() end
  return file ~= nil
end

--- Appends an input that succeeded; the first makes the file, and the oldest ones go.
function journal.add(input, program)
  if journal.closed then return end
  if not journal.file then
    local at = folder(program)
    local path = at and ('%s%d-%d.lua'):format(at, os.time(), program.pid())
    journal.file = path and io.open(path, 'w')
    if not journal.file then
      journal.closed = true
      return
    end
    program.lock(path)             -- as long as this session lives
    local names = list(program, at)
    for i = 1, #names - journal.kept do os.remove(at .. names[i]) end
  end
  local written = journal.file:write(MARK:format(input.seconds or 0), '\n', input.text, '\n')
  -- no room: what comes would stand behind half of it
  if not (written and journal.file:flush()) then journal.closed = true end
end

--- The inputs of a journal's text: a list of {text, seconds}. A line that was not written to its end is none.
function journal.parse(text)
  local list, rows, seconds = {}, {}, nil
  local function finish()
    if seconds and #rows > 0 then list[#list + 1] = { text = table.concat(rows, '\n'), seconds = seconds } end
  end
  for row in text:gmatch('([^\n]*)\n') do
    local took = row:match(MARKS)
    if took then
      finish()
      rows, seconds = {}, tonumber(took)
    else
      rows[#rows + 1] = row
    end
  end
  finish()
  return list
end

--- The inputs of the newest journal whose session is over: a list of {text, seconds}, and its path. nil when there is
-- none.
function journal.last(program)
  local at = folder(program)
  if not at then return nil end
  local names = list(program, at)
  for i = #names, 1, -1 do
    if program.lock(at .. names[i]) then
      local file = io.open(at .. names[i])
      local text = file and file:read('*a')
      if file then file:close() end
      return journal.parse(text or ''), at .. names[i]
    end
  end
end

M.unpack = unpack
--- The inputs, one by one as the prompt would take them, of a text that came in one piece and is more than one: a
-- notebook's cell, or what is piped in. Nil where it is one, or no Lua and no commands at all; and whether there are
-- commands among them.
function M.pieces(text)
  if not text:find('\n%s*%S') or M.compile(text) then return nil, M.is_command(text) end
  local list, input, commands = {}, nil, false
  for line in (text:gsub('\n+$', '') .. '\n'):gmatch('([^\n]*)\n') do
    input = input and input .. '\n' .. line or line
    if M.complete(input) then list[#list + 1], input = input, nil end
  end
  list[#list + 1] = input                                     -- it ends in the middle
  local lua = true
  for _, piece in ipairs(list) do
    local command = M.is_command(piece)
    commands, lua = commands or command, lua and (command or M.compile(piece) ~= nil)
  end
  if not (lua or commands) then return nil, false end
  return list, commands
end

return M
