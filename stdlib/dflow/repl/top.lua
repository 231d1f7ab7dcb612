--- `:top`: a run on a full screen, ten times a second: rates, memory, the frame tree, and the nodes that run most.
local core = require 'dflow.backend'
local graph = require 'dflow.graph'
local inspect = require 'dflow.inspect'

local M = {}
local PAUSED = 2
local PERIOD = 0.1
local SAMPLE = 256            -- tokens of the history that are looked at each time
local BARS = { ' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█' }
local PLAIN = { ' ', '.', ':', '-', '=', '+', '*', '#', '@' }

local function short(n)
  for _, unit in ipairs{ '', ' k', ' M', ' G' } do
    if n < 1000 or unit == ' G' then return (n < 10 and unit ~= '' and '%.1f%s' or '%.0f%s'):format(n, unit) end
    n = n / 1000
  end
end
M.short = short

--- The last values of a list as a line of bars.
local function spark(list, width, utf8)
  local bars, most, parts = utf8 and BARS or PLAIN, 1, {}
  local first = math.max(1, #list - width + 1)
  for i = first, #list do most = math.max(most, list[i]) end
  for i = first, #list do parts[#parts + 1] = bars[1 + math.floor(list[i] / most * 8 + 0.5)] end
  return table.concat(parts)
end
M.spark = spark

local function push(list, v)
  list[#list + 1] = v
  if #list > 200 then table.remove(list, 1) end
end

--- One look at the run: a snapshot, and which nodes ran lately. The run stands still for it, some microseconds.
local function look(h)
  local was = core.run_settle(h.handle, 0)
  core.run_pause(h.handle)
  local ok, snapshot = pcall(core.run_look, h.handle)
  local history = ok and core.run_history(h.handle, SAMPLE) or {}
  if was ~= PAUSED then core.run_resume(h.handle, 0, 1) end
  return ok and inspect.tree(snapshot, h) or nil, history
end

--- The lines of the screen. `state` keeps what is needed from one picture to the next.
function M.lines(h, state, columns, rows, utf8, now)
  local frames, history = look(h)
  local stats = h:stats()
  local lines = {}
  local function add(text) if #lines < rows - 1 then lines[#lines + 1] = text end end
  if state.at then
    local dt = math.max(1e-3, now - state.at)
    push(state.rates, (stats.iterations - state.iterations) / dt)
    push(state.nodes, (stats.nodes_run - state.nodes_run) / dt)
    push(state.memory, stats.memory['cpu:0'].in_use)
  end
  state.at, state.iterations, state.nodes_run = now, stats.iterations, stats.nodes_run
  local width = math.max(10, columns - 44)
  add(('%s   %d nodes, %d iterations, %d frames, %d dead tokens   %.1f s'):format(h:state(), stats.nodes_run, stats.iterations, stats.frames, stats.dead_tokens, now - state.began))
  add('')
  add(('%-12s %12s/s  %s'):format('iterations', short(state.rates[#state.rates] or 0), spark(state.rates, width, utf8)))
  add(('%-12s %12s/s  %s'):format('nodes', short(state.nodes[#state.nodes] or 0), spark(state.nodes, width, utf8)))
  add(('%-12s %12sB   %s'):format('cpu:0', short(state.memory[#state.memory] or stats.memory['cpu:0'].in_use), spark(state.memory, width, utf8)))
  add('')
  if frames then
    add('frames')
    local shown = 0
    local function walk(f, indent)
      shown = shown + 1
      if shown <= math.max(4, math.floor((rows - 10) / 2)) then add('  ' .. indent .. tostring(f)) end
      for _, child in ipairs(f.children) do walk(child, indent .. '  ') end
    end
    for _, f in ipairs(frames) do if not f.parent then walk(f, '') end end
    if shown > math.max(4, math.floor((rows - 10) / 2)) then add(('  … %d frames in all'):format(shown)) end
    add('')
    for _, t in ipairs(history) do
      state.hot[t.node] = (state.hot[t.node] or 0) + 1
      state.sampled = state.sampled + 1
    end
    local order = {}
    for node in pairs(state.hot) do order[#order + 1] = node end
    table.sort(order, function(a, b) return state.hot[a] > state.hot[b] or (state.hot[a] == state.hot[b] and a < b) end)
    add('nodes that ran lately')
    for i = 1, math.min(#order, rows - #lines - 2) do
      local op = graph.operation(h.session.graph, order[i])
      add(('  %5.1f %%  %-36s %-18s %s'):format(100 * state.hot[order[i]] / math.max(1, state.sampled), op.name, op.type, op.source or ''))
    end
  end
  return lines
end

function M.new(now) return { rates = {}, nodes = {}, memory = {}, hot = {}, sampled = 0, began = now } end

--- Shows it until a key is pressed or the run is over.
function M.show(h, program)
  local terminal = program.terminal()
  if not program.keys(true) then error(':top needs a terminal', 0) end
  local state = M.new(program.clock())
  local ok, err = pcall(function()
    while h:state() ~= 'done' do
      terminal = program.terminal()
      local lines = M.lines(h, state, terminal.columns, terminal.rows, terminal.utf8, program.clock())
      for i, line in ipairs(lines) do lines[i] = '\27[K' .. (#line > terminal.columns and not line:find('[\128-\255]') and line:sub(1, terminal.columns) or line) end
      io.stdout:write('\27[H', table.concat(lines, '\n'), '\n\27[J', ('\27[%dH\27[Kany key leaves, p pauses'):format(terminal.rows))
      io.stdout:flush()
      local key = program.key(PERIOD)
      if program.interrupted() then break end
      if key == 'p' then
        if h:state() == 'paused' then h:resume() else h:pause() end
      elseif key then
        break
      end
    end
  end)
  program.keys(false)
  if not ok then error(err, 0) end
end

return M
