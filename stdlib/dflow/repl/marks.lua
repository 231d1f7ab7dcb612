--- What terminals can be told besides text: where a prompt and an answer begin (OSC 133), and what file a place lies in
-- (OSC 8).
--
-- A terminal jumps from prompt to prompt by the first, and opens files by the second. Which can is known from the
-- environment variables that they set; what cannot would mostly pass these over, but is not sent any. `:set marks on`
-- sends them anyway.
local M = { setting = 'auto' }

local PROGRAMS = { WezTerm = true, ['iTerm.app'] = true, ghostty = true, vscode = true, WarpTerminal = true, rio = true,
                   contour = true }

--- From which version of VTE on terminals that are made of it know them; others that are named here know both.
local VTE = { prompts = 7600, links = 5000 }

--- Does the terminal know `what`?
local function known(what)
  local program, kind = os.getenv 'TERM_PROGRAM' or '', os.getenv 'TERM' or ''
  if os.getenv 'TMUX' or kind:find '^screen' or kind:find '^tmux' then return false end
  return PROGRAMS[program] or os.getenv 'KITTY_WINDOW_ID' or os.getenv 'WT_SESSION' or os.getenv 'KONSOLE_VERSION'
    or kind:find '^xterm%-kitty'
         or kind:find '^xterm%-ghostty' or kind:find '^foot' or (tonumber(os.getenv 'VTE_VERSION') or 0) >= VTE[what]
end

local function wanted(what)
  local terminal = require('dflow.repl.values').terminal()
  return terminal.editing and M.setting ~= 'off' and (M.setting == 'on' or known(what))
end

local function mark(letter)
  if not wanted 'prompts' then return end
  io.stdout:write('\27]133;', letter, '\27\\')
  io.stdout:flush()
end

--- A prompt comes; what was typed runs now; it has ended, well or not.
function M.prompt() mark 'A' end
function M.output() mark 'C' end
function M.ended(ok) mark(ok and 'D;0' or 'D;1') end

--- The address of a file; nil where it is not there.
local function address(path)
  local file = io.open(path, 'rb')
  if not file then return nil end
  file:close()
  if path:sub(1, 1) ~= '/' then path = (os.getenv 'PWD' or '') .. '/' .. path end
  return 'file://' .. path:gsub('[^%w/._~-]', function(c) return ('%%%02X'):format(c:byte()) end)
end

--- The text, its places such as `train.lua:12` as links to the files.
function M.linked(text)
  if not wanted 'links' then return text end
  return (text:gsub('([%w_./~-]+%.lua):(%d+)', function(path, line)
    local at = address(path)
    return at and ('\27]8;;%s#%s\27\\%s:%s\27]8;;\27\\'):format(at, line, path, line) or nil
  end))
end

return M
