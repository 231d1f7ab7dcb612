--- The commands of the prompt: what they have in common. `repl.command(name, fn, doc)` adds one.
--
-- A command is called as fn(rest, say, repl, path, seen): the rest of its line, a function that prints a line, the file
-- that it goes to, if any, and whether all that it says is shown to a user as it is; what it returns as a string is
-- printed too. `true` leaves the prompt. On every command: `:cmd?` shows its
-- doc, `:cmd … ~pattern` keeps the lines
-- that match, `:cmd … > file` writes to a file. Any unique beginning of a name will do.
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'

local M = { groups = {} }          -- groups: by the names that :help knows, of builtin.lua
local commands, order, repl = {}, {}, nil

--- The graph that commands of runs speak of: repl/inspector.lua says it.
M.graph = nil

--- @param name  a word
-- @param fn    function(rest, say, repl, path)
-- @param doc   the first line is its usage and what it does, ` - ` between them; more lines may follow
-- @param complete  nil, or function(rest) -> a list of {word, help} for Tab, or nil where an expression stands
-- @param whole     true: its line may hold an expression, so `~` and `>` are left in it
function M.command(name, fn, doc, complete, whole)
  if type(name) ~= 'string' or not name:find('^%a[%w_]*$') then
    errors.bad('repl.command: the name is a word, not %s', errors.describe(name))
  end
  if type(fn) ~= 'function' then
    errors.bad('repl.command: the second argument is a function, not %s', errors.describe(fn))
  end
  if not commands[name] then
    order[#order + 1] = name
    table.sort(order)
  end
  commands[name] = { name = name, fn = fn, doc = doc or '', complete = complete, whole = whole }
end

--- Names of all commands, sorted.
function M.names() return order end

--- `usage` and `what it does`, from the first line of a command's doc.
function M.about(name)
  local first = commands[name].doc:match('^[^\n]*')
  local usage, about = first:match('^(.-) %- (.*)$')
  return usage or name, about or first
end

function M.doc(name) return commands[name] and commands[name].doc end

--- What other debuggers and people call commands that have another name here.
local meant = { draw = 'graph', picture = 'graph', next = 'step', n = 'step', bt = 'frames', backtrace = 'frames',
                print = 'value', profile = 'prof', memory = 'mem', delete = 'unbreak', display = 'watch', list = 'src',
                clear = 'unbreak', forth = 'forward' }

--- Is it one of what `:set` sets? The module that has the settings says so.
function M.is_setting() return false end

--- The command that a word begins; nil and why there is none.
function M.find(word)
  if commands[word] then return commands[word] end
  local found = {}
  for _, name in ipairs(order) do
    if name:sub(1, #word) == word then found[#found + 1] = name end
  end
  if #found == 1 then return commands[found[1]] end
  local of = commands[meant[word]] and meant[word] or M.is_setting(word) and 'set ' .. word
  if #found == 0 and of then return nil, ("there is no command ':%s'; it is :%s"):format(word, of) end
  if #found == 0 then
    return nil, ("there is no command ':%s'%s; :help lists them"):format(word, errors.hint(word, order))
  end
  return nil, (':%s may be :%s'):format(word, table.concat(found, ' or :'))
end

--- Raises where a command without arguments is given one.
local function alone(command, rest)
  local usage = command.doc:match('^([^\n]-) %- ')
  if rest == '' or usage ~= command.name then return end
  local other = M.find(rest)
  errors.raise('invalid_argument', ":%s takes no argument, but '%s' was given%s", command.name, rest, other
               and ('; :%s is a command of its own'):format(other.name) or '')
end

--- A command's usage and help, as wide as the terminal; nil where there is no such command. A line of the help that
-- begins with a command begins a paragraph.
function M.page(name)
  local command, help = commands[name], require 'dflow.docs.help'
  if not command then return nil end
  local usage, about = M.about(name)
  local more = command.doc:match('^[^\n]*\n?(.*)$'):gsub('\n([^:])', ' %1')
  help.width = math.max(30, math.min(110, require('dflow.repl.values').terminal().columns))
  local lines = { ':' .. usage }
  for paragraph in (about .. '\n' .. more):gmatch('[^\n]+') do lines[#lines + 1] = help.wrap(paragraph, '  ') end
  return table.concat(lines, '\n')
end

--- Takes `~pattern` and `> file` off the end of a line. A `>` counts where a blank stands on both sides and one word
-- behind.
local function redirected(rest)
  local before, file = rest:match('^(.-)%s*>%s+(%S+)%s*$')
  if file and (before == '' or rest:find('%s>%s')) then rest = before else file = nil end
  local head, pattern = rest:match('^(.-)%s*%f[~]~%s?(%S+)%s*$')
  if pattern and pattern:sub(1, 1) ~= '=' and (head == '' or rest:find('%s~')) then rest = head else pattern = nil end
  return rest, pattern, file
end

--- A `print` that stops when the screen is full: Enter goes on, q shows nothing more. Plain print where no terminal is
-- edited at.
function M.pager()
  local values, columns_of = require 'dflow.repl.values', require('dflow.front.text').columns
  local terminal = values.terminal()
  if not (repl and repl.program and terminal.editing and terminal.rows and terminal.rows > 4) then return print end
  local shown, over = 0, false
  return function(text)
    for row in (text .. '\n'):gmatch('([^\n]*)\n') do
      local takes = 1 + math.floor(math.max(0, columns_of((row:gsub('\27%[[%d;]*m', ''))) - 1)
                                   / math.max(1, terminal.columns))
      if not over and shown + takes > terminal.rows - 1 then
        local answer = repl.program.line '-- Enter goes on, q leaves -- '
        over, shown = not answer or answer:find '^%s*[qQ]' ~= nil, 0
      end
      if over then return end
      print(row)
      shown = shown + takes
    end
  end
end

-- What these say of nodes has the names that Lua's variables give them.
local of_runs = {}
for name in ('back forward frames grad history inputs mem node nodes outputs stacks stats step swap tokens value why '
             .. 'whynot'):gmatch '%a+' do
  of_runs[name] = true
end

--- A line that begins with ? or :. Returns true when the prompt is to be left.
function M.run(line)
  line = line:gsub('^%s+', '')
  local word, rest
  if line:sub(1, 1) == '?' then
    local marks, asked = line:match('^(%?+)%s*(.-)%s*$')
    word, rest = 'help', asked
    if #marks > 1 then word = 'where' end
  else
    word, rest = line:match('^:%s*([%w_]*)%s*(.-)%s*$')
  end
  local command, why = M.find(word)
  if not command then error(why, 0) end
  if rest == '?' and line:sub(1, 1) == ':' then
    M.pager()(M.page(command.name))
    return false
  end
  local pattern, path, file
  if line:sub(1, 1) == ':' and not command.whole then rest, pattern, path = redirected(rest) end
  alone(command, rest)
  if path then file = files.create(path) end
  local wrapped = require('dflow.repl.values').wrapped
  local names, any
  local show = path == nil and pattern == nil and M.pager() or print
  local function say(text)
    for row in (tostring(text) .. '\n'):gmatch('([^\n]*)\n') do
      if of_runs[command.name] then
        local naming = require 'dflow.front.naming'
        names = names or naming.collect(M.graph())
        row = naming.line(names, row)
      end
      if not pattern or row:find(pattern) then
        any = true
        if file then file:write((row:gsub('\27%[[%d;]*m', '')), '\n') else show(wrapped(row)) end
      end
    end
  end
  local ok, result
  if command.name == 'help' and line:sub(1, 1) == ':' and commands[rest] and not M.groups[rest] then
    say(M.page(rest))
    ok = true
    if require('dflow.docs.help').help(rest) then say(('?%s shows another thing of that name'):format(rest)) end
  else
    ok, result = pcall(command.fn, rest, say, repl, path, not (path or pattern))
  end
  if ok and type(result) == 'string' then say(result) end
  if not ok then
    if file then file:discard() end
    error(result, 0)
  end
  if file then file:commit() end
  if ok and pattern and not any then print(('no line of :%s has %s'):format(command.name, pattern)) end
  return result == true
end

--- The prompt's own commands, with the prompt that they speak of.
function M.open(owner)
  repl = owner
  M.repl = owner
end

return M
