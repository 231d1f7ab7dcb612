--- `:serve`: the prompt's run in a browser's page, for a lecturer's second screen. The page is that of opts.report,
--- made anew wherever the run stands; it follows the prompt, step by step. Beside it are the trainings that
-- df.summary's event files tell of (summary/events.lua).
--
-- The server, interp/pages.c, listens on the loopback address alone, and a secret is part of the page's address. What
-- the prompt looks at is told after each input, when a run stops or ends, and while it goes on, some times a second. Of
-- an input that makes many runs, as a training does, the page shows one some times a second; the others keep no log for
-- it.
local commands = require 'dflow.repl.commands'
local runs = require 'dflow.front.session'

local M = {}
local OFTEN = 0.25                    -- seconds between two words on a run that goes on
local LOGGED = { log = 300000, values = true }        -- of runs that are shown: at most so many events
local MANY = 8                        -- runs of an input that are all logged and drawn
local server, address, inspector, clock
local drawn, told, at                 -- what the page shows; what was told last, and when
local pages = 0                       -- that were drawn so far
local ran, passed_over = 0, nil       -- runs since the input began; the last one, where it was not drawn
local reader, read_again, trainings   -- of event files; when they are read again; how often they were sent

-- ---- what there is to see -------------------------------------------------------------------------------------------
local function counted(n, one) return ('%.0f %s%s'):format(n, one, n == 1 and '' or 's') end

--- Where a run stands: 'running', 'paused', 'done' or 'failed', words for it, and the node that is next.
local function standing(h)
  local state = h:state()
  local s = h:stats()
  local did = counted(s.nodes_run, 'node') .. ', ' .. counted(s.iterations, 'iteration')
  if state == 'paused' then
    local stop = h:settle(0)
    return state, stop and tostring(stop) or 'paused', stop and stop.op and stop.op.node
  elseif state == 'done' then
    local how = tostring(h):match '%((%a+)' or 'over'
    if how == 'failed' then return 'failed', 'the run failed: ' .. tostring(h.result):match '^[^\n]*' end
    return state, (how == 'cancelled' and 'the run was cancelled; ' or 'the run is over: ') .. did
  end
  return state, 'running: ' .. did
end

--- Draws the page anew, if the run stands elsewhere than it shows.
local function draw(h, state, said, node)
  local place = ('%s %s %s %.0f'):format(tostring(h.handle), state, said, h:stats().nodes_run)
  if drawn == place then return end
  drawn = place
  local ok, text = pcall(require('dflow.inspect.report').text, h, { said = said, node = node })
  if not ok then return end                          -- it can be drawn no more, or not yet
  pages = pages + 1
  server:put('page', 'text/html; charset=utf-8', text)
end

--- Reads what trainings have written since, and sends all of it, once a second or so.
local function look_at_trainings()
  local began = clock()
  if began < read_again then return end
  if reader:read() then
    trainings = trainings + 1
    server:put('training', 'application/json', reader:shown())
  end
  read_again = clock() + math.max(1, 10 * (clock() - began))
end

local function tell(state, said)
  local words = require('dflow.exchange.json').encode{ state = state, said = said, page = pages, training = trainings }
  if words == told then return end
  told, at = words, clock()
  server:tell(words)
end

--- Is h one of so many runs that it is not drawn?
local function is_passed_over(h)
  local state, soon = h:state(), clock() - at < OFTEN
  if state == 'running' then return soon end
  ran = ran + 1
  runs.shown = (ran < MANY or not soon) and LOGGED or nil
  passed_over = ran > MANY and soon and state == 'done' and h or nil
  return passed_over == h
end

--- How h stands; without it, at the end of an input, how what the prompt would look at does.
function M.look(h)
  if not server then return end
  look_at_trainings()
  if h and is_passed_over(h) then return end
  if not h then
    h = inspector.in_progress() or inspector.last()
    ran, runs.shown = 0, LOGGED
  end
  if not h then return tell('waiting', 'no run yet: what the prompt runs next is shown here') end
  if h == passed_over then return end
  local state, said, node = standing(h)
  draw(h, state, said, node)
  tell(state, said)
end

--- No key comes: shows how a run in the background goes. Seconds until this is to be called again; nil while there is
-- no such run to show.
function M.idle()
  local h = server and inspector.in_progress()
  if not server then return nil end
  local began = clock()
  M.look(h)
  if not h or h:state() ~= 'running' then return (reader.folder or trainings > 0) and 1 or nil end
  return math.max(OFTEN, 4 * (clock() - began))          -- keys come first
end

-- ---- the command ----------------------------------------------------------------------------------------------------
local function stop()
  server:close()
  server, inspector.live, runs.shown = nil, nil, nil
end

local function begin(port, folder, repl)
  require 'dflow.own'
  local there, module = pcall(require, 'dflow.pages')
  if not there then
    error('this dflow was built without libmicrohttpd (Debian: libmicrohttpd-dev); :trace run.html EXPRESSION writes '
          .. 'a page instead', 0)
  end
  local opened, at_port, secret = module.open(port)
  if not opened then error(':serve: ' .. at_port, 0) end
  inspector, clock = require 'dflow.repl.inspector', repl.program.clock
  server, drawn, told, at = opened, nil, nil, -math.huge
  reader, read_again, trainings = require('dflow.summary.events').reader(folder), -math.huge, 0
  address = ('http://127.0.0.1:%d/%s/'):format(at_port, secret)
  server:put('index', 'text/html; charset=utf-8', require 'dflow.repl.serve_page')
  inspector.live, runs.shown = M.look, LOGGED
end

--- A word as a port, or as a folder.
local function port_or_folder(word)
  local port = tonumber(word)
  if port and (port < 0 or port > 65535 or port ~= math.floor(port)) then
    error('usage: :serve [port | folder | off]; a port is from 0 to 65535', 0)
  end
  if port or word == '' then return port or 0 end
  local ok = pcall(require('dflow.backend').folder_list, word)
  if not ok then
    error(("usage: :serve [port | folder | off]; there is no folder '%s' of event files"):format(word), 0)
  end
  return 0, (word:gsub('(.)/+$', '%1'))
end

commands.command('serve', function(rest, say, repl)
  if rest == 'off' then
    if not server then return 'nothing is shown' end
    stop()
    return 'nothing is shown any more'
  end
  local port, folder = port_or_folder(rest)
  if server and tonumber(rest) then stop() end
  if not server then begin(port, folder, repl) end
  if folder then reader, read_again = require('dflow.summary.events').reader(folder), -math.huge end
  M.look()
  say(address)
  local n = server:waiting()
  say(n > 0 and ('%d page%s look%s on'):format(n, n == 1 and '' or 's', n == 1 and 's' or '')
      or 'open it in a browser on this machine; :serve off ends it')
end, [[serve [port | folder | off] - shows runs and trainings of this prompt in a browser
The page steps through runs and shows losses, histograms and images. Its address is on this machine
(127.0.0.1) and contains a new secret each time. Without a port any free one is used. While the page is
open, runs keep their tokens and values for it, up to 300000 tokens each; of an input with many runs,
some. The page shows all primitives of control flow; its button "merged" hides those for which an
ordinary run has no tokens, and after :set primitives off they do not fire.
Trainings are written by df.summary (df.train.fit{summary = 'runs/a'}); :serve runs shows all event
files in that folder, each folder of them as a run beside the others.]])

return M
