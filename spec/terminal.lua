--- The prompt in a real terminal: starts it in tmux, types, and reads the screen.
local shell = require 'spec.shell'

local M = {}

local server = 0

--- Is there a tmux to do it with?
function M.available()
  return shell.run('command -v tmux').status == 0
end

local function quiet(command) return shell.run(command) end

local Terminal = {}
Terminal.__index = Terminal

--- Starts `opts.command` (the program by default) in a terminal of so many columns and rows.
-- @param opts  {command =, home = a folder of its own, environment = 'NAME=value …', files = {[path below home] = text}, wait = pattern}
function M.open(columns, rows, opts)
  opts = opts or {}
  server = server + 1
  local reads_lines = (opts.environment or ''):find('TERM=dumb', 1, true) ~= nil
  local t = setmetatable({ home = opts.home or os.tmpname() .. '.home', reads_lines = reads_lines, socket = ('dflow-%s-%d'):format(os.tmpname():match('[%w_]+$'), server) }, Terminal)
  quiet(('mkdir -p %s'):format(shell.quote(t.home)))
  for path, text in pairs(opts.files or {}) do
    local whole = t.home .. '/' .. path
    quiet(('mkdir -p %s'):format(shell.quote(whole:match('^(.*)/'))))
    shell.write(whole, text)
  end
  local command = ('env -u TMUX -u NO_COLOR -u CLICOLOR_FORCE -u XDG_STATE_HOME -u XDG_CONFIG_HOME -u INPUTRC HOME=%s LC_ALL=C.UTF-8 %s %s'):format(
      shell.quote(t.home), opts.environment or '', opts.command or M.program())
  quiet(('tmux -L %s -f /dev/null new-session -d -x %d -y %d %s \\; set -g status off'):format(t.socket, columns, rows, shell.quote(command)))
  if opts.wait ~= false then t:wait(opts.wait or 'dflow>') end
  return t
end

function M.program() return shell.run('realpath ' .. shell.dflow).out:match('[^\n]+') end

--- The screen as text, without what is blank at the ends of its lines and below.
function Terminal:screen()
  local text = quiet(('tmux -L %s capture-pane -p'):format(self.socket)).out
  return (text:gsub('[ \t]+\n', '\n'):gsub('\n+$', ''))
end

--- The same with its colours.
function Terminal:colors()
  return quiet(('tmux -L %s capture-pane -e -p'):format(self.socket)).out
end

--- The cursor: column, row, from 0.
function Terminal:cursor()
  local x, y = quiet(("tmux -L %s display -p '#{cursor_x} #{cursor_y}'"):format(self.socket)).out:match('(%d+) (%d+)')
  return tonumber(x), tonumber(y)
end

--- Waits until `ready()` is true, a while at most.
local function soon(ready)
  for _ = 1, 20 do
    if ready() then return end
    os.execute('sleep 0.05')
  end
end

--- Waits until the program has taken the last Enter and reads keys again. What is typed before that the terminal itself echoes and edits
-- (`^R` reprints the line there). A program that reads no keys is typed at all the same, after a while.
local function reads_keys(t)
  if t.reads_lines then return end
  if t.entered then soon(function() return t.entered ~= t:picture() end) end
  t.entered = nil
  t.tty = t.tty or quiet(("tmux -L %s display -p '#{pane_tty}'"):format(t.socket)).out:match('%S+') or '/dev/null'
  soon(function() return quiet(('stty -F %s -a'):format(t.tty)).out:find('-icanon', 1, true) end)
end

--- The screen and where the cursor is.
function Terminal:picture() return ('%s\n%s %s'):format(self:screen(), self:cursor()) end

--- Types text as it is.
function Terminal:type(text)
  reads_keys(self)
  text = text:gsub(';$', '\\;')             -- tmux would take it for the end of its command
  quiet(('tmux -L %s send-keys -l -- %s'):format(self.socket, shell.quote(text)))
  return self
end

local SIGNALS = { ['C-c'] = true, ['C-z'] = true }

--- Presses keys by tmux's names: `Enter`, `Tab`, `C-c`, `Up`, `M-Enter`.
function Terminal:keys(...)
  if not SIGNALS[...] then reads_keys(self) end
  if select(-1, ...) == 'Enter' then self.entered = self:picture() end
  quiet(('tmux -L %s send-keys %s'):format(self.socket, table.concat({ ... }, ' ')))
  return self
end

--- Types a line and presses Enter.
function Terminal:line(text) return self:type(text):keys('Enter') end

--- Pastes text as a terminal does, between marks.
function Terminal:paste(text)
  local file = os.tmpname()
  shell.write(file, text)
  quiet(('tmux -L %s load-buffer %s \\; paste-buffer -p'):format(self.socket, file))
  os.remove(file)
  return self
end

function Terminal:resize(columns, rows)
  quiet(('tmux -L %s resize-window -x %d -y %d'):format(self.socket, columns, rows))
  return self
end

--- Waits until the screen is this text, or (a function) until it says so of the screen, or (a string that the screen holds) until it does;
-- an error if that does not come.
-- @param seconds  at most, 30 where they are not given: a machine may be busy with others
-- @return  the screen as it was last
function Terminal:wait(what, seconds)
  local screen = self:comes(what, seconds or 30)
  if screen then return screen end
  error(('the terminal does not show %s, but\n%s'):format(type(what) == 'string' and '`' .. what .. '`' or 'what is waited for', self:screen()), 2)
end

--- The same; nil if it does not come.
function Terminal:comes(what, seconds)
  for _ = 1, seconds * 20 do
    local screen = self:screen()
    if type(what) == 'function' and what(screen) then return screen end
    if type(what) == 'string' and (screen == what or screen:find(what, 1, true)) then return screen end
    os.execute('sleep 0.05')
  end
end

--- Waits until the part of the screen below the greeting is this text; the part as it is then.
function Terminal:shows(text)
  local function below(screen) return (screen:gsub('^dflow %d[^\n]*\n', '')) end
  return below(self:comes(function(screen) return below(screen) == text end, 20) or self:screen())
end

function Terminal:close()
  quiet(('tmux -L %s kill-server'):format(self.socket))
  quiet(('rm -rf %s'):format(shell.quote(self.home)))
end

return M
