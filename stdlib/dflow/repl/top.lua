--- `:top`: a run on a full screen, ten times a second: rates, memory, the frame tree, and the nodes that run most.
--
-- A picture may cost a thousandth of a second, so that all of it takes at most one per cent of a core. The frames and
-- tokens of a large run cost more than that; they are then looked at less often, and only as many frames are read as
-- have room.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local inspect = require 'dflow.inspect'
local logged = require 'dflow.inspect.events'

local M = {}
local PERIOD = 0.1
local SHARE = 0.004           -- of a core, for looking at frames and tokens
local DEVICES = 4             -- at most, each a row, where there is room
local SAMPLE = 128            -- tokens of the history that are looked at each time
local BARS = { ' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█' }
local PLAIN = { ' ', '.', ':', '-', '=', '+', '*', '#', '@' }

local function short(n)
  for _, unit in ipairs{ '', ' k', ' M', ' G' } do
    if n < 999.5 or unit == ' G' then return (n < 9.95 and unit ~= '' and '%.1f%s' or '%.0f%s'):format(n, unit) end
    n = n / 1000
  end
end
M.short = short

local function count(n, what)
  return ('%s %s%s'):format(n < 1e6 and ('%.0f'):format(n) or short(n), what, n == 1 and '' or 's')
end

local function bytes(n)
  for _, unit in ipairs{ 'B', 'KiB', 'MiB', 'GiB' } do
    if n < 1024 or unit == 'GiB' then return unit == 'B' and ('%d B'):format(n) or ('%.1f %s'):format(n, unit) end
    n = n / 1024
  end
end

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

--- A line cut to so many columns; each character is taken to have one.
local function cut(line, columns)
  if #line <= columns then return line end
  local at, n = 1, 0
  while at <= #line do
    if n == columns then return line:sub(1, at - 1) end
    local b = line:byte(at)
    at, n = at + (b < 0xC0 and 1 or b < 0xE0 and 2 or b < 0xF0 and 3 or 4), n + 1
  end
  return line
end

--- A text with blanks behind it up to so many columns: the widths of string.format end at 99.
local function padded(text, columns) return text .. (' '):rep(columns - #text) end

--- The end of a text that is too long, which of a file's path is what tells it from others.
local function tail(text, columns)
  return #text <= columns and text or columns < 2 and '' or '<' .. text:sub(#text - columns + 2)
end

--- One look at the run: its first frames, and which nodes ran lately. The run is paused for it, some microseconds.
local function look(h, most)
  local ok, snapshot, history = false, nil, {}
  inspect.standing(h, function()
    ok, snapshot = pcall(core.run_look, h.handle)
    history = ok and core.run_history(h.handle, SAMPLE) or history
  end)
  return ok and inspect.tree(snapshot, h, most) or nil, history
end

--- What nodes are put in order by: how often they ran lately, or what they are called.
local ORDERS = { 'runs', 'name', 'op', 'line' }
local KEYS = { name = function(op) return op.name end, op = function(op) return op.type end,
               line = function(op) return op.source or '' end }

--- Has a line what is looked for? Letters are alike large and small.
local function passes(state, line)
  return not state.filter or line:lower():find(state.filter:lower(), 1, true) ~= nil
end

--- The operations that ran lately and that are looked for, in order.
local function hottest(h, state)
  local list, key = {}, KEYS[ORDERS[state.order]]
  for node in pairs(state.hot) do
    local op = graph.operation(h.session.graph, node)
    if passes(state, ('%s %s %s'):format(op.name, op.type, op.source or '')) then list[#list + 1] = op end
  end
  table.sort(list, function(a, b)
    local x, y = state.hot[b.node], state.hot[a.node]
    if key then x, y = key(a), key(b) end
    if x ~= y then return x < y end
    return a.node < b.node
  end)
  return list
end

--- Looks again when it is time: keeps the frames and counts the nodes.
local function look_again(h, state, room, now, clock)
  if state.room == room and state.next_look and now < state.next_look then return end
  local began = clock and clock() or 0
  local frames, history = look(h, room + 1)
  state.frames, state.room = frames, room
  for _, t in ipairs(history) do
    state.hot[t.node] = (state.hot[t.node] or 0) + 1
    state.sampled = state.sampled + 1
  end
  if state.sampled > 50 * SAMPLE then                     -- what is long ago counts less and less
    state.sampled = 0
    for node, n in pairs(state.hot) do
      n = math.floor(n / 2)
      state.hot[node] = n > 0 and n or nil
      state.sampled = state.sampled + n
    end
  end
  state.tree = {}
  if frames then
    local function walk(f, indent)
      if #state.tree == room then return end
      if passes(state, tostring(f)) then state.tree[#state.tree + 1] = indent .. tostring(f) end
      for _, child in ipairs(f.children) do walk(child, indent .. '  ') end
    end
    for _, f in ipairs(frames) do if not f.parent then walk(f, '') end end
    if not state.filter and frames.total > #state.tree and room > 1 then
      state.tree[room] = '… ' .. count(frames.total - room + 1, 'more frame')
    end
  end
  state.next_look = now + math.max(PERIOD / 2, ((clock and clock() or 0) - began) / SHARE)
end

--- The host, and the other devices that have had something in their memory, in order.
local function in_use(memory, host)
  local names = {}
  for name, m in pairs(memory) do if name ~= host and m.peak > 0 then names[#names + 1] = name end end
  table.sort(names)
  table.insert(names, 1, host)
  return names
end

--- The lines of the screen, at most rows - 1. `state` keeps what is needed from one picture to the next.
-- @param clock  a function that gives seconds; where it is left out every picture looks anew
function M.lines(h, state, columns, rows, utf8, now, clock)
  local stats = h:stats()
  local host = logged.places_of(h)[1]
  local swap, devices = stats.swap, in_use(stats.memory, host)
  local lines = {}
  local function add(text) if #lines < rows - 1 then lines[#lines + 1] = cut(text, columns) end end
  if state.at then
    local dt = math.max(1e-3, now - state.at)
    push(state.rates, (stats.iterations - state.iterations) / dt)
    push(state.nodes, (stats.nodes_run - state.nodes_run) / dt)
  end
  for _, name in ipairs(devices) do
    state.memory[name] = state.memory[name] or {}
    push(state.memory[name], stats.memory[name].in_use)
  end
  push(state.swap, swap.resident_bytes)
  state.at, state.iterations, state.nodes_run = now, stats.iterations, stats.nodes_run
  local roomy = rows >= 16                                  -- empty lines between the parts
  local function part(name) if roomy then add('') end add(name) end

  local name_width = columns >= 60 and 12 or 5
  local width = math.max(4, columns - name_width - 16)
  local function row(name, value, list)
    add(('%-' .. name_width .. 's %10s  %s'):format(cut(name, name_width), value, list and spark(list, width, utf8)
        or ''))
  end
  add(('%s  %s, %s, %s, %s'):format(h:state(), count(stats.nodes_run, 'node'), count(stats.iterations, 'iteration'),
                                    count(stats.frames, 'frame'),
    count(stats.dead_tokens, 'dead token')))
  if roomy then add('') end
  row(columns >= 60 and 'iterations' or 'iter', short(state.rates[#state.rates] or 0) .. '/s', state.rates)
  row('nodes', short(state.nodes[#state.nodes] or 0) .. '/s', state.nodes)
  for i = 1, math.min(#devices, rows >= 24 and DEVICES or 1) do
    row(devices[i], bytes(stats.memory[devices[i]].in_use), state.memory[devices[i]])
  end
  if rows >= 12 then
    if swap.bytes_out + swap.bytes_in > 0 then row('swapped out', bytes(swap.resident_bytes), state.swap)
    else add(cut(('%-' .. name_width .. 's %10s  nothing is swapped on this device')
      :format('swap', '0 B'), columns)) end
  end

  local left = rows - 1 - #lines - (roomy and 4 or 2)       -- for frames and nodes, below their titles
  local room = math.max(1, math.floor(left / 2 + 0.5))
  look_again(h, state, room, now, clock)
  if not state.frames then return lines end
  part('frames')
  for _, line in ipairs(state.tree) do add('  ' .. (utf8 and line or line:gsub('…', '...'))) end

  local order = hottest(h, state)
  part('nodes that ran lately')
  local wide = columns >= 72
  local names = wide and math.floor((columns - 10) * 0.45) or columns - 10
  local types = wide and math.floor((columns - 10) * 0.25) or 0
  for i = 1, math.min(#order, rows - 1 - #lines) do
    local op = order[i]
    local line = ('%5.1f %%  %s')
      :format(100 * state.hot[op.node] / math.max(1, state.sampled), padded(tail(op.name, names), names))
    if wide then
      line = ('%s %s %s')
        :format(line, padded(cut(op.type, types), types), tail(op.source or '', columns - 12 - names - types))
    end
    add(line)
  end
  return lines
end

function M.new(now)
  return { rates = {}, nodes = {}, memory = {}, swap = {}, hot = {}, sampled = 0, began = now, order = 1 }
end

--- The last line: what keys do, or what is being looked for.
local function bottom(state)
  if state.typing then return ('look for: %s_   Enter keeps it, Escape shows all'):format(state.filter or '') end
  return ('any key leaves, p pauses, s sorts (%s), / %s')
    :format(ORDERS[state.order], state.filter and ("looks for '%s'"):format(state.filter) or 'looks for')
end

--- A key while a text to look for is typed.
local function typed(state, key)
  local text = state.filter or ''
  if key == '\r' or key == '\n' then state.typing = false
  elseif key == '\27' then state.typing, text = false, ''
  elseif key == '\127' or key == '\b' then text = text:sub(1, -2)
  elseif key:find '^[%g ]$' then text = text .. key end
  state.filter = text ~= '' and text or nil
  state.next_look = nil
end

--- What a key does: false where it leaves.
local function pressed(h, state, key)
  if state.typing then typed(state, key)
  elseif key == 'p' then
    if h:state() == 'paused' then h:resume() else h:pause() end
  elseif key == 's' then state.order = state.order % #ORDERS + 1
  elseif key == '/' then state.typing = true
  else return false end
  return true
end

--- Shows it until a key is pressed or the run is over.
function M.show(h, program)
  if not program.keys(true) then error(':top needs a terminal', 0) end
  local held = program.hold(true)                          -- Ctrl-C is a key like any other here; the run goes on
  local state, shown, size, fresh = M.new(program.clock()), {}, nil, 0
  local ok, err = pcall(function()
    while h:state() ~= 'done' do
      local terminal = program.terminal()
      local columns, rows = terminal.columns, terminal.rows
      local lines = M.lines(h, state, columns, rows, terminal.utf8, program.clock(), program.clock)
      for i = #lines + 1, rows - 1 do lines[i] = '' end
      lines[rows] = cut(bottom(state), columns - 1)
      local out = {}
      if size ~= columns .. 'x' .. rows then
        size, shown = columns .. 'x' .. rows, {}
        out[1] = '\27[2J'
        fresh = 5
      end
      -- Lines that did not change are not written again. But a terminal that is being resized may lose some, hence all
      -- of them for a while.
      if fresh > 0 then fresh, shown = fresh - 1, {} end
      for i = 1, rows do
        if shown[i] ~= lines[i] then out[#out + 1] = ('\27[%d;1H%s\27[K'):format(i, lines[i]) end
      end
      shown = lines
      io.stdout:write(table.concat(out))
      io.stdout:flush()
      local key = program.key(PERIOD)
      if program.interrupted() then break end
      if key and not pressed(h, state, key) then break end
    end
  end)
  program.keys(false)
  program.hold(held)
  if not ok then error(err, 0) end
  if h:state() == 'done' then print('the run is over') end
end

return M
