--- `:whatif`: how long a run would have taken with other windows, devices, links or speeds, as bars below each other.
--
-- The expression is run once, and written down; the times come from that record (h:whatif). Every combination of what
-- is named is tried.
local commands = require 'dflow.repl.commands'
local inspector = require 'dflow.repl.inspector'
local runs = require 'dflow.front.session'
local values = require 'dflow.repl.values'

local NAMES = { 'parallel_iterations', 'devices', 'bandwidth', 'latency', 'speed', 'replace' }
local USAGE = ':whatif EXPRESSION that runs a graph [parallel_iterations=1,2,8] [devices=1,2] [bandwidth=1GB/s] '
              .. '[latency=1ms] [speed=2] [replace=false,true]'
local MOST, WIDTH = 40, 40

--- `y devices=1,2` as the expression, and a list of {name, {values}}.
local function parsed(line)
  local axes = {}
  while true do
    local before, name, list = line:match '^(.-)%s*%f[%w_]([%a_]+)%s*=%s*([%w_%.,/]+)%s*$'
    if not name then return line, axes end
    local known = false
    for _, n in ipairs(NAMES) do known = known or n == name end
    if not known then
      error((":whatif knows no '%s'%s"):format(name, require('dflow.front.errors').hint_or_all(name, NAMES)), 0)
    end
    local axis = { name, {} }
    for v in list:gmatch '[^,]+' do
      if name == 'replace' and (v == 'true' or v == 'false') then table.insert(axis[2], v == 'true')
      else table.insert(axis[2], tonumber(v) or v) end
    end
    table.insert(axes, 1, axis)
    line = before
  end
end

--- The combinations of all axes, as options of h:whatif with a name each; first what was.
local function combinations(axes)
  local list = { { {}, '' } }
  for _, axis in ipairs(axes) do
    local longer = {}
    for _, c in ipairs(list) do
      for _, v in ipairs(axis[2]) do
        local opts = { [axis[1]] = v }
        for key, before in pairs(c[1]) do opts[key] = before end
        longer[#longer + 1] = { opts, ('%s%s=%s'):format(c[2] == '' and '' or c[2] .. ' ', axis[1], tostring(v)) }
      end
    end
    list = longer
  end
  if #list > MOST then
    error((':whatif: that makes %d combinations, and at most %d are shown'):format(#list, MOST), 0)
  end
  if #axes > 0 then table.insert(list, 1, { {}, 'as it ran' }) end
  return list
end

--- The last run of an expression, written down.
local function recorded(expression)
  local shown = runs.shown
  runs.shown = { record = true }
  local ok, seen, _, fine, value = pcall(inspector.logged_runs, expression)
  runs.shown = shown
  if not ok then error(seen, 0) end
  if not fine then error(value, 0) end
  return seen[#seen]
end

commands.command('whatif', function(rest, say)
  local expression, axes = parsed(rest)
  if expression == '' then error('usage: ' .. USAGE, 0) end
  local list = combinations(axes)
  local h, timing = recorded(expression), require 'dflow.repl.timing'
  local most, wide = 0, 9
  for _, c in ipairs(list) do
    c.result = h:whatif(c[1])
    most, wide = math.max(most, c.result.seconds), math.max(wide, #c[2])
  end
  local room = math.max(8, math.min(WIDTH, values.terminal().columns - wide - 14))
  for _, c in ipairs(list) do
    local bar = ('█'):rep(math.max(1, math.floor(c.result.seconds / math.max(most, 1e-12) * room + 0.5)))
    say(('%-' .. wide .. 's %10s  %s'):format(c[2] == '' and 'as it ran' or c[2], timing.seconds(c.result.seconds),
      values.terminal().utf8 and bar or bar:gsub('█', '#')))
  end
  if #axes > 0 then return end
  say 'its critical path, what takes most of it first:'
  local path = list[1].result.critical_path
  table.sort(path, function(a, b) return a.seconds > b.seconds end)
  for i = 1, math.min(8, #path) do
    say(('  %10s  %s, iteration %.0f, on %s')
      :format(timing.seconds(path[i].seconds), path[i].op, path[i].iteration, path[i].device))
  end
end, [[whatif EXPRESSION [name=value,...] ... - predicts its time with other windows, devices, links or speeds, as bars
:whatif df.run(y) parallel_iterations=1,2,8 devices=1,2 tries all six. The names are
parallel_iterations, devices, bandwidth (1GB/s), latency (1ms), speed, and replace (true: nodes are
placed again for these devices). Without names it shows the critical path. The expression is run once
and recorded; in a script: df.start(y, nil, {record = true}), h:whatif{devices = 2}.]], nil, true)
