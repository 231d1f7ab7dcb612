--- A typist: types at a program on a terminal of its own, at the millisecond, and reads what it writes as it is.
--
-- Where spec/terminal.lua compares screens, this is for moments: when a key is pressed, and how long it takes until the answer is there.
local shell = require 'spec.shell'

local M = {}
local Typist = {}
Typist.__index = Typist

M.pty = shell.build .. '/pty'
M.CTRL_C, M.CTRL_D, M.CTRL_Z = '\3', '\4', '\26'

--- Is there a terminal to do it with?
function M.available()
  local f = io.open(M.pty)
  return f ~= nil and f:close() and true
end

local function hex(bytes)
  return (bytes:gsub('.', function(c) return ('%02x'):format(c:byte()) end))
end

--- Starts a program.
-- @param opts  {command = the program by default, home = a folder, environment = 'NAME=value …', init = text of its init file,
--              columns = 80, rows = 24}
function M.open(opts)
  opts = opts or {}
  local base = os.tmpname()
  os.remove(base)
  local t = setmetatable({ base = base, home = base .. '.home' }, Typist)
  shell.run(('mkdir -p %s/.config/dflow && mkfifo %s'):format(shell.quote(t.home), shell.quote(base)))
  if opts.init then shell.write(t.home .. '/.config/dflow/init.lua', opts.init) end
  t.answers = assert(io.popen(('env -u TMUX -u NO_COLOR -u CLICOLOR_FORCE -u XDG_STATE_HOME -u XDG_CONFIG_HOME -u INPUTRC'
    .. ' HOME=%s LC_ALL=C.UTF-8 TERM=xterm %s %s %d %d %s <%s'):format(shell.quote(t.home), opts.environment or '', M.pty,
    opts.columns or 80, opts.rows or 24, opts.command or shell.dflow .. ' --color=never', shell.quote(base)), 'r'))
  t.orders = assert(io.open(base, 'w'))
  t.orders:setvbuf('line')
  t.before = t:modes()
  return t
end

function Typist:ask(order)
  self.orders:write(order, '\n')
  self.orders:flush()
  return self.answers:read('*l') or error('the terminal is gone', 2)
end

--- Types text, at once or so many milliseconds after what was seen last.
function Typist:type(text, ms)
  self:ask(ms and ('type %s %.3f'):format(hex(text), ms) or 'type ' .. hex(text))
  return self
end

function Typist:line(text, ms) return self:type(text .. '\r', ms) end

--- Waits until the program has written this text, or the first of a list of texts.
-- @return  the milliseconds since something was typed last, and which of the list; nil when it does not come
function Typist:wait(text, seconds)
  local list = {}
  for i, s in ipairs(type(text) == 'table' and text or { text }) do list[i] = hex(s) end
  local which, ms = self:ask(('wait %g %s'):format(seconds or 10, table.concat(list, ' '))):match('^yes (%d+) (.*)')
  return tonumber(ms), type(text) == 'table' and which and text[tonumber(which)] or nil
end

--- What was written since the text that was waited for last.
function Typist:seen()
  return (self:ask('seen'):gsub('%x%x', function(c) return string.char(tonumber(c, 16)) end))
end

function Typist:modes() return self:ask('modes') end
function Typist:signal(number) return self:ask('signal ' .. number) == 'ok' end
function Typist:pid() return tonumber(self:ask('pid')) end
function Typist:hangup() return self:ask('hangup') end

--- Waits for the program's end: its status; nil when it does not end.
function Typist:ended(seconds)
  return tonumber(self:ask(('ended %g'):format(seconds or 10)):match('^status (%d+)'))
end

--- How many threads the program has.
function Typist:threads()
  local f = assert(io.open(('/proc/%d/status'):format(self:pid())))
  local n = tonumber(f:read('*a'):match('Threads:%s*(%d+)'))
  f:close()
  return n
end

function Typist:close()
  self.orders:close()
  self.answers:close()
  shell.run(('rm -rf %s %s'):format(shell.quote(self.base), shell.quote(self.home)))
end

return M
