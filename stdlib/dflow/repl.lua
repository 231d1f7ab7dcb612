--- The prompt of the `dflow` program: reads an input, runs it, shows what it gave, again and again.
--
-- The terminal and its keys are interp/prompt.c's business; what is coloured, completed and hinted at is
-- repl/editor.lua's; how a value looks is repl/values.lua's; the commands are in repl/commands.lua, and `repl.command`
-- adds one.
local session = require 'dflow.repl.session'
local values = require 'dflow.repl.values'
local commands = require 'dflow.repl.commands'
local inspector = require 'dflow.repl.inspector'
require 'dflow.repl.native'
require 'dflow.repl.shortcuts'
require 'dflow.repl.whatif'
local looking = require 'dflow.repl.looking'
local serve = require 'dflow.repl.serve'
local marks = require 'dflow.repl.marks'
local graph = require 'dflow.front.graph'
local errors = require 'dflow.front.errors'
local quote = require 'dflow.front.quote'

local M = {}
local unpack = table.unpack or unpack

M.session, M.values = session, values
M.command = commands.command

local program                -- dflow.program, which only the program has
local editor                 -- what the prompt's keys ask, on a terminal

-- ---- one input ----------------------------------------------------------------------------------------------------
--- The message without the part of its traceback that is the prompt's own.
local function message_of(text)
  text = tostring(text):gsub("\n%s*%[C%]: in function 'dflow%.program%.call'.*", '')
  text = text:gsub("\n%s*%[C%]: in function 'error'(\n[^\n]*/dflow/repl/)",
                   '%1'):gsub('\n[^\n]*/dflow/repl/[^\n]*: in [^\n]*', '')
  return (text:gsub('\nstack traceback:%s*$', ''))
end

--- A message's long lines at blanks. A line that is quoted stays as it is.
local function wrapped(text)
  return (text:gsub('[^\n]+', function(line)
    return (line:find('^ *%d* | ') or line:find('^\t')) and line or values.wrapped(line)
  end))
end

M.message_of = message_of

function M.complain(text)
  io.stdout:flush()
  io.stderr:write(values.paint(marks.linked(wrapped(message_of(text))), 'e', 'error_color'), '\n')
  io.stderr:flush()
end

--- Calls f: true and what it returns; or false, a message and the error, and nothing that it was building is left half
-- done.
local function call(f, ...)
  local standing = graph.standing()
  local function finish(ok, ...)
    if ok then return true, ... end
    graph.unwind(standing)
    inspector.recover()
    if program then return false, ... end
    return false, tostring((...)), (...)
  end
  return finish((program and program.call or pcall)(f, ...))
end
M.call = call

--- Runs an input of Lua and shows what it gives. Returns the input's record.
function M.run(text, quiet)
  local autograph = package.loaded['dflow.autograph']
  local opts = { value_of = session.value_of, autograph = autograph and autograph.whole }
  for _, w in ipairs(require('dflow.check.conditions').find(text, false, opts)) do
    io.stderr:write(values.paint(('In[%d]:%d: warning: %s')
      :format(session.next_number(), w.line, w.message), 'e', 'error_color'), '\n')
  end
  local began = program and program.clock()
  local staging = not quiet and autograph and autograph.whole and df.default_graph():size()
  local input = session.run(text, call)
  if not input.kind then input.message = errors.explain(input.message) end
  if program then input.seconds = program.clock() - began end
  if not input.ok then
    local e = input.error
    -- a table that was raised is shown
    if type(e) == 'table' and input.message:find('^%(error object is a table value%)') then
      local shown, what = call(values.text, e)
      if shown then input.message = 'error: ' .. what .. input.message:gsub('^[^\n]*', '', 1) end
    end
    M.complain(input.message)
    return input
  end
  if input.n > 0 and not input.muted and not quiet then
    local shown, why = call(values.show, unpack(input.results, 1, input.n))
    if not shown then M.complain(why) end
  elseif staging then
    local shown, lines = call(require('dflow.repl.staged').lines, text, staging)
    if not shown then M.complain(lines) else for _, l in ipairs(lines) do print(l) end end
  end
  if program then session.journal.add(input, program) end
  return input
end

-- Words that users type to find the way in or out, unless they mean something here.
local WORDS = { help = ':help', exit = ':quit', quit = ':quit', bye = ':quit', q = ':quit' }

local function meant(text)
  local word = text:match('^%s*(%l+)%s*%(?%s*%)?%s*;?%s*$')
  if not word or not WORDS[word] then return text end
  if session.locals.environment({})[word] ~= nil then return text end
  return WORDS[word]
end

--- One input, Lua or command. Returns whether all went well, and true when the prompt is to be left.
function M.input(text)
  text = meant(text)
  if program then values.resized(program.terminal()) end
  if not session.is_command(text) then
    local fine = not text:find('%S') or M.run(text).ok == true
    looking.look_again(M, print)
    serve.look()
    return fine
  end
  local ok, leave, err = call(commands.run, text)
  serve.look()
  if not ok then M.complain(type(err) == 'string' and errors.explain(err) or leave) end
  return ok, ok and leave == true
end

-- ---- the loop -----------------------------------------------------------------------------------------------------
--- A chunk from standard input as it comes, line by line until it is complete.
local function read_plain(prompt, more)
  local text = program.line(prompt)
  while text and not session.complete(text) do
    local line = program.line(more)
    if line == nil then return text, true end
    if line == false then return false end
    text = text .. '\n' .. line
  end
  return text
end

--- The prompt, with the input's number where that is set: Out[n] is what it gives.
function M.prompt() return values.options.numbers and ('dflow %d> '):format(session.next_number()) or 'dflow> ' end

--- Reads and runs until the input ends, `:quit`, or until `opts.leave()` says so after an input.
-- @param opts  {prompt =, more =, leave =, interrupted =, meant =}; also for a prompt within a prompt, such as an
--              inspector's, which `interrupted()` may leave when Ctrl-C comes; `meant(text)` is what an input stands
--              for there
-- @return      'end' when it was the input that ended
function M.loop(opts)
  local more = opts.more or '  ... '
  local edited = program.terminal().editing
  local waiting = {}                -- inputs of a pasted session that come after the one that is run
  while true do
    local text, last
    local prompt = opts.prompt or M.prompt()
    marks.prompt()
    if not edited then
      text, last = read_plain(prompt, more)
    elseif #waiting > 0 then
      text = program.read(prompt, more, table.remove(waiting, 1))
    else
      text = program.read(prompt, more)
      waiting = editor.waiting
      editor.waiting = {}
    end
    if text == nil then return 'end' end
    if text == false and opts.interrupted and opts.interrupted() then return end
    if text then
      program.remember(text)
      marks.output()
      local ok, leave = M.input(opts.meant and opts.meant(text) or text)
      marks.ended(ok)
      leave = leave or last or (opts.leave and opts.leave())
      if #waiting > 0 and (leave or not ok) then
        M.complain(('%d more input%s of what was pasted %s left out')
          :format(#waiting, #waiting > 1 and 's' or '', #waiting > 1 and 'were' or 'was'))
        waiting = {}
      end
      if leave then return end                    -- a late Ctrl-C is for what goes on then
      program.interrupted()                       -- here it has nothing to stop any more
    end
  end
end

local LONG = 2               -- seconds that inputs may take to be run again without a question

--- Is a user there that does not want all of it to be run again?
local function declined(inputs, path)
  local total = 0
  for _, input in ipairs(inputs) do total = total + input.seconds end
  if total < LONG or not program.terminal().editing then return false end
  print(('%d inputs took %.0f s in all: %s'):format(#inputs, total, path))
  for i, input in ipairs(inputs) do
    if input.seconds >= LONG / 2 then
      print(values.brief(('%5d  %.1f s  %s'):format(i, input.seconds, input.text)):sub(2, -2))
    end
  end
  local answer = program.line('To be as it was, all of it has to run again. Run it? [y/n] ')
  return not (answer and answer:find('^%s*[yY]'))
end

--- Runs the inputs of the newest journal again, up to a Ctrl-C.
local function resume()
  local inputs, path = session.journal.last(program)
  if not inputs then return M.complain('there is no session to resume') end
  if declined(inputs, path) then
    return print('nothing was run; :history all shows what was typed, ' .. path .. ' is the session')
  end
  local failed, ran = 0, 0
  for _, old in ipairs(inputs) do
    local input = M.run(old.text, true)
    ran = ran + 1
    if not input.ok then
      failed = failed + 1
      if tostring(input.message):find('interrupted!', 1, true)
        or (type(input.error) == 'table' and input.error.code == 'cancelled') then
        break
      end
    end
  end
  local left = #inputs - ran
  local were = ran == 1 and 'input of %s was' or 'inputs of %s were'
  print(('%d %s run again%s%s'):format(ran, were:format(path),
    failed > 0 and (', %d of them failed'):format(failed) or '',
    left > 0 and (', %d were left out'):format(left) or ''))
end

--- Makes the prompt ready; what the user's init.lua may change is there then.
function M.open()
  program = require 'dflow.program'
  M.program = program
  values.open(program.terminal())
  commands.open(M)
  require 'dflow.repl.builtin'
  quote.read_line = session.source_line
  if program.terminal().editing then quote.columns = function() return values.terminal().columns or 80 end end
  inspector.open(M)
  if not debug.getregistry().LUA_NOENV and session.remembered(program, 'autograph') then
    require('dflow.autograph').whole = true
  end
  _G.Out, _G.repl = session.Out, M
  if program.terminal().editing then
    editor = require('dflow.repl.editor').new(M)
    program.open(editor)
  end
end

--- Runs inputs, some of which are commands. Was all well?
local function each_input(list)
  local ok = true
  for _, input in ipairs(list) do
    local fine, leave = M.input(input)
    ok = ok and fine
    if leave then break end
  end
  return ok
end

--- `dflow -p`: runs what comes in as one input, and shows what it gives; one by one, as the prompt would take them,
--- where there are commands (`:graph y`, `?matmul`) or several expressions. Was all well?
function M.print(text)
  local several, commanded = session.pieces(text)
  if commanded then
    M.open()
    session.journal.closed = true
    return each_input(several or { text })
  end
  program = require 'dflow.program'
  M.program = program
  values.open(program.terminal())
  quote.read_line = session.source_line
  session.journal.closed = true
  local ok = true
  for _, input in ipairs(several or require('dflow.repl.editor').inputs(text, 80)) do
    local fine = not input:find('%S') or M.run(input).ok == true
    ok = ok and fine
  end
  return ok
end

--- The program's entry.
function M.main(resumes)
  if not program then M.open() end
  local autograph = package.loaded['dflow.autograph']
  if autograph and autograph.whole and program.terminal().editing then print('autograph is on (:autograph off)') end
  if resumes then resume() end
  M.loop{}
  session.locals.close(M.complain)
end

return M
