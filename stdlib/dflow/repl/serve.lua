--- `:serve`: the prompt's run in a browser's page, for a lecturer's second screen. The page is that of opts.report, made anew wherever the
--- run stands; it follows the prompt, step by step.
--
-- The server, interp/pages.c, listens on the loopback address alone, and a secret is part of the page's address. What the prompt looks at is
-- told after each input, when a run stops or ends, and while it goes on, some times a second.
local commands = require 'dflow.repl.commands'
local runs = require 'dflow.front.session'

local M = {}
local OFTEN = 0.25                    -- seconds between two words on a run that goes on
local EVENTS = 200000                 -- that such a run logs
local server, address, inspector, clock
local drawn, told, at                 -- what the page shows; what was told last, and when
local pages = 0                       -- that were drawn so far

-- ---- what there is to see -------------------------------------------------------------------------------------------------------
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

local function tell(state, said)
  local words = require('dflow.exchange.json').encode{ state = state, said = said, page = pages }
  if words == told then return end
  told, at = words, clock()
  server:tell(words)
end

--- Somebody may want to see how h stands, or what the prompt would look at.
function M.look(h)
  if not server then return end
  h = h or inspector.in_progress() or inspector.last()
  if not h then return tell('waiting', 'no run yet: what the prompt runs next is shown here') end
  if h:state() == 'running' and clock() - at < OFTEN then return end
  local state, said, node = standing(h)
  draw(h, state, said, node)
  tell(state, said)
end

--- Nobody types: shows how a run in the background goes. Seconds until this is to be called again; nil while there is no such run to show.
function M.idle()
  local h = server and inspector.in_progress()
  if not server then return nil end
  local began = clock()
  M.look(h)
  if not h or h:state() ~= 'running' then return nil end
  return math.max(OFTEN, 4 * (clock() - began))          -- keys come first
end

-- ---- the page around it ---------------------------------------------------------------------------------------------------------
-- Two frames: the next page is loaded behind the one that is seen, which then goes, so that nothing flickers.
local INDEX = [==[
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>dflow, live</title><meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --bg: #fbfbf9; --fg: #1d1f21; --line: #c9ccd1; --live: #1a5fcc; --paused: #8a5a00; --done: #1f7a3d; --failed: #b3261e; --gone: #6a6e75; }
@media (prefers-color-scheme: dark) { :root { --bg: #16181b; --fg: #e6e6e3; --line: #3d4249; } }
html, body { height: 100%; margin: 0; background: var(--bg); color: var(--fg); font: 15px/1.4 system-ui, sans-serif; }
body { display: flex; flex-direction: column; }
#bar { display: flex; gap: 12px; align-items: baseline; padding: 8px 14px; border-bottom: 1px solid var(--line); }
#state { color: #fff; background: var(--gone); border-radius: 8px; padding: 1px 10px; font-weight: 600; }
#state.running { background: var(--live); } #state.paused { background: var(--paused); } #state.done { background: var(--done); }
#state.failed { background: var(--failed); }
#said { font: 14px/1.4 ui-monospace, monospace; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
#room { position: relative; flex: 1; min-height: 0; }
iframe { position: absolute; inset: 0; width: 100%; height: 100%; border: 0; visibility: hidden; } iframe.seen { visibility: visible; }
</style></head><body>
<div id="bar"><b>dflow</b><span id="state">waiting</span><span id="said" aria-live="polite"></span></div>
<div id="room"><iframe title="the run"></iframe><iframe title="the run"></iframe></div>
<script>
'use strict';
const $ = id => document.getElementById(id);
let [seen, behind] = document.querySelectorAll('iframe'), page = 0, loading = false, wanted = 0;
function load() {
  if (loading || wanted === page) return;
  const goal = wanted;
  loading = true;
  behind.onload = () => {
    const view = seen.contentWindow.standing && seen.contentWindow.standing();
    if (view && behind.contentWindow.stand) behind.contentWindow.stand(view);
    behind.className = 'seen'; seen.className = '';
    [seen, behind] = [behind, seen];
    page = goal; loading = false;
    document.body.dataset.page = page;
    load();
  };
  behind.src = 'page?' + goal;
}
function show(state) {
  $('state').textContent = state.state; $('state').className = state.state; $('said').textContent = state.said;
  wanted = state.page;
  load();
}
const sleep = ms => new Promise(done => setTimeout(done, ms));
(async () => {
  for (let number = 0, lost = 0; lost < 5;) {
    try {
      const answer = await fetch('next?after=' + number, { cache: 'no-store' });
      if (answer.status === 404) break;
      if (answer.status === 200) { const next = await answer.json(); number = next.number; show(next.state); }
      lost = 0;
    } catch (e) { lost++; await sleep(500); }
  }
  $('state').textContent = 'over'; $('state').className = 'gone'; $('said').textContent = 'the prompt shows nothing any more';
})();
</script></body></html>
]==]

-- ---- the command ------------------------------------------------------------------------------------------------------------------
local function stop()
  server:close()
  server, inspector.live, runs.shown = nil, nil, nil
end

local function begin(port, repl)
  require 'dflow.own'
  local there, module = pcall(require, 'dflow.pages')
  if not there then error('this dflow was built without libmicrohttpd (Debian: libmicrohttpd-dev); :trace run.html EXPRESSION writes a page instead', 0) end
  local opened, at_port, secret = module.open(port)
  if not opened then error(':serve: ' .. at_port, 0) end
  inspector, clock = require 'dflow.repl.inspector', repl.program.clock
  server, drawn, told, at = opened, nil, nil, -math.huge
  address = ('http://127.0.0.1:%d/%s/'):format(at_port, secret)
  server:put('index', 'text/html; charset=utf-8', INDEX)
  inspector.live, runs.shown = M.look, { log = EVENTS, values = true }
end

commands.command('serve', function(rest, say, repl)
  if rest == 'off' then
    if not server then return 'nothing is shown' end
    stop()
    return 'nothing is shown any more'
  end
  local port = rest == '' and 0 or tonumber(rest)
  if not port or port < 0 or port > 65535 or port ~= math.floor(port) then error('usage: :serve [port | off]', 0) end
  if server and rest ~= '' then stop() end
  if not server then begin(port, repl) end
  M.look()
  say(address)
  local n = server:waiting()
  say(n > 0 and ('%d page%s look%s on'):format(n, n == 1 and '' or 's', n == 1 and 's' or '') or 'open it in a browser on this machine; :serve off ends it')
end, [[serve [port | off] - shows the runs of the prompt in a browser's page, where they stand, step by step
The address is on this machine alone (127.0.0.1) and has a secret in it, a new one each time. Without a port: any that is free. Runs that begin
meanwhile keep their tokens and values for the page, up to 200000 tokens each.]])

return M
