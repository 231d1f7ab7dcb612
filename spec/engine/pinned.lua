--- Programs from seeds as lines of text: their graphs, what becomes of these as files, how they run by the virtual clock, and what is seen of a run that
-- stands still. What is long is told by a sum of its bytes. For pinned_spec.lua.
local df = require 'dflow'
local random_program = require 'spec.random_program'
local dice = require('spec.chance').dice
local shell = require 'spec.shell'

local M = {}
local at = { 0.7, -0.4, 0.3 }
local NAMES = { 'cpu:0', 'sim:0', 'sim:1', 'sim:2' }

--- A sum of the bytes of a text, the same in every Lua.
local function sum(text)
  local h = 7
  for i = 1, #text do h = (h * 257 + text:byte(i)) % 2147483647 end
  return ('%d bytes, sum %d'):format(#text, h)
end

local function number(v)
  if v == math.floor(v) and math.abs(v) < 1e15 then return ('%d'):format(v) end
  return ('%.9g'):format(v)
end

--- A table as one line, keys in order; what `left_out` names is not told.
local function line(v, left_out)
  if type(v) == 'number' then return number(v) end
  if type(v) ~= 'table' then return tostring(v) end
  local keys, parts = {}, {}
  for k in pairs(v) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b) return type(a) == type(b) and a < b or type(a) == 'number' and type(b) ~= 'number' end)
  for _, k in ipairs(keys) do
    if not (left_out and left_out[k]) then parts[#parts + 1] = (type(k) == 'number' and '' or k .. '=') .. line(v[k], left_out) end
  end
  return '{' .. table.concat(parts, ' ') .. '}'
end

--- How many nodes of which type, and the sum of all that is known of each but its Lua line.
local function graph_text(g)
  local counts, types, all = {}, {}, {}
  for _, op in ipairs(g:ops()) do
    if not counts[op.type] then types[#types + 1] = op.type end
    counts[op.type] = (counts[op.type] or 0) + 1
    for _, out in ipairs(op.outputs) do all[#all + 1] = tostring(out):gsub('  %-%- .*', '') end
    all[#all + 1] = tostring(op):gsub('  %-%- .*', '') .. ' ' .. tostring(op.device)
  end
  table.sort(types)
  for i, t in ipairs(types) do types[i] = t .. ' ' .. counts[t] end
  return table.concat(types, ', ') .. '\n' .. sum(table.concat(all, '\n'))
end

--- The program of a seed with its gradients, its ops on these devices by chance: fetches, feeds.
local function build(seed, devices, save)
  local draw, program = dice(seed), random_program.make(seed, 2)
  local y, xs = random_program.build(df, program, nil, {
    width = seed % 3 == 0 and 5 or nil,
    place = devices and function(fn) return df.device(NAMES[draw(devices)], fn) end or nil,
    save = function() return save or ({ 'keep', 'swap', 'recompute' })[draw(3)] end })
  local fetches, feeds = { y, df.unpack(df.gradients(y, xs, { unconnected = 'zero' })) }, {}
  for i, x in ipairs(xs) do
    feeds[x] = at[i]
    if seed % 3 == 0 then
      feeds[x] = {}
      for k = 1, 5 do feeds[x][k] = at[i] * (1 + k / 64) end
    end
  end
  return fetches, feeds, xs
end

--- The graph of a program and of its gradients, of the second ones, as a file, and read again.
function M.graph(seed)
  df.reset()
  local fetches, _, xs = build(seed)
  local lines = { graph_text(df.default_graph()) }
  if seed % 4 == 1 then
    df.gradients(fetches[2], xs, { unconnected = 'zero' })
    lines[2] = graph_text(df.default_graph())
  end
  local path = os.tmpname()
  os.remove(path)
  for _, kind in ipairs{ '.pb', '.pbtxt' } do
    local ok, e = pcall(df.export_graph_def, path .. kind, { outputs = { fetches[1], fetches[2] } })
    lines[#lines + 1] = kind .. ': ' .. (ok and sum(shell.read(path .. kind)) or tostring(e):match '^[^\n]*':gsub('%(/.-%)', ''):gsub('^/%S+: ', ''))
    if ok then lines[#lines + 1] = graph_text(df.import_graph_def(path .. kind)) end
    os.remove(path .. kind)
  end
  return table.concat(lines, '\n')
end

local OWN = { plans = true, ['cpu:0'] = true, owners = true, line = true }         -- of a process, or of a build
local TIMED = { plans = true, ['cpu:0'] = true, owners = true, line = true, seconds = true, stall_seconds = true }

--- How a program runs on three devices by the virtual clock, under each policy.
function M.run(seed)
  local lines = {}
  for _, save in ipairs{ 'keep', 'swap', 'recompute' } do
    df.reset()
    local fetches, feeds = build(seed, 4, save)
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', bandwidth = '1GB/s', latency = '3us', speed = 4 }, { 'sim:1', memory = '1MB', speed = 0.5 },
                                      { 'sim:2', bandwidth = '100MB/s' } }, clock = 'virtual' }
    local plain = s:start(fetches, feeds)                      -- elementwise ops in groups, which a recorded run has apart
    plain:wait()
    lines[#lines + 1] = ('%s, %d nodes'):format(number(plain:stats().seconds), plain:stats().nodes_run)
    local h = s:start(fetches, feeds, { record = true })
    local values, parts = h:wait(), {}
    for i, v in ipairs(values) do
      parts[i] = type(v) == 'number' and number(v) or line(v:totable())
    end
    lines[#lines + 1] = save .. ': ' .. table.concat(parts, ' ')
    lines[#lines + 1] = line(h:stats(), OWN)
    for _, change in ipairs{ {}, { speed = 3 }, { bandwidth = '10MB/s' }, { latency = '1ms' }, { parallel_iterations = 1 }, { devices = 1 }, { devices = 2 } } do
      local ok, w = pcall(h.whatif, h, change)
      lines[#lines + 1] = 'what if: ' .. (ok and number(w.seconds) .. ', ' .. sum(line(w.critical_path)) or tostring(w.message or w))
    end
    local where = {}
    for i, p in ipairs(s:placement(fetches)) do where[i] = ('%s %s %s %s'):format(p.node, p.op, p.device, tostring(p.why)) end
    lines[#lines + 1] = 'placed: ' .. sum(table.concat(where, '\n'):gsub('/%S+%.lua:%d+', ''))
    s:close()
  end
  return table.concat(lines, '\n')
end

--- What is seen of a run of a program that is stopped every few steps.
function M.looked(seed)
  df.reset()
  local fetches, feeds = build(seed, seed % 2 == 0 and 3 or nil)
  local s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' }, threads = 1 }
  local h = s:start(fetches, feeds, { paused = true, values = true })
  local lines, all = {}, {}
  local function say(what, v) all[#all + 1] = what .. ' ' .. tostring(v) end
  while h:state() ~= 'done' and #lines < 40 do
    h:step(23)
    if h:state() == 'done' then break end
    all = {}
    for _, f in ipairs(h:frames()) do say('frame', f) end
    say('ledger', line(h:ledger()))
    for _, t in ipairs(h:history(6)) do
      local parts = {}
      for k, v in pairs(t) do parts[#parts + 1] = tostring(k) .. '=' .. tostring(v) end
      table.sort(parts)
      say('ran', table.concat(parts, ' '))
    end
    local text = table.concat(all, '\n'):gsub('/%S+%.lua:%d+', ''):gsub('0x%x+', '')
    lines[#lines + 1] = ('%d lines, %s'):format(select(2, text:gsub('\n', '')) + 1, sum(text))
    M.last = text
  end
  h:resume()
  h:wait()
  lines[#lines + 1] = line(h:stats(), TIMED)
  s:close()
  return table.concat(lines, '\n')
end

--- Ways to keep values for a gradient where there is little room: number `k` is a policy, a length and a limit.
function M.saved(k)
  local pick = dice(k)
  local save, n, width = ({ 'keep', 'swap', 'recompute', 'auto' })[k % 4 + 1], ({ 5, 24, 60 })[pick(3)], ({ 8, 32, 48 })[pick(3)]
  local memory, window = ({ 40, 90, 200, 1000 })[pick(4)] * 1024, ({ 1, 4, 32 })[pick(3)]
  df.reset()
  local w = df.Variable(df.sin(df.reshape(df.cast(df.range(width * width), 'float32'), { width, width })), { name = 'w' })
  local y, g = df.device('sim:0', function()
    local _, y, z = df.while_loop(function(i) return i:lt(n) end, function(i, y, z)
      local u = df.tanh(df.matmul(y, w))
      local v = df.cond((i % 3):eq(1), function() return df.sin(u) end, function() return u * 0.5 end)
      return i + 1, v, z + df.reduce_sum(v * u, { axis = 0 })
    end, { df.int32(0), df.ones{ 16, width }, df.zeros{ width } }, { save = save ~= 'auto' and save or nil, parallel_iterations = window })
    local loss = df.reduce_sum(y) + df.reduce_sum(z)
    return loss, df.reduce_sum(df.abs(df.gradients(loss, w)))
  end)
  local s = df.Session{ devices = { 'cpu:0', { 'sim:0', memory = memory, bandwidth = '1GB/s', latency = '2us', speed = 2 } }, clock = 'virtual', threads = 1,
                        save = save == 'auto' and save or nil }
  local lines = { ('%s, %d iterations of %d, %d KB, window %d'):format(save, n, width, memory / 1024, window) }
  for i = 1, 2 do
    local h = s:start({ y, g }, nil, { record = i == 2 })
    local ok, v = pcall(h.wait, h)
    lines[#lines + 1] = ok and ('%.3g %.3g'):format(v[1], v[2]) or tostring(v.message):gsub('/%S+%.lua:%d+', ''):gsub('cpu:0[^;,]*', '')
    lines[#lines + 1] = line(h:stats(), OWN)
    if not ok then break end
  end
  s:close()
  return table.concat(lines, '\n')
end

--- A recurrent cell in a loop over x, written as number `k` says, and what becomes of its gradient.
local function cell(k)
  local units, inputs, rows = ({ 32, 17 })[k % 2 + 1], 20, 8
  local x, h0 = df.placeholder('float32', { 6, rows, inputs }), df.zeros{ rows, units }
  local function weights(n, m) return df.Variable(df.sin(df.reshape(df.cast(df.range(n * m), 'float32'), { n, m })) * 0.3) end
  local turned, gates = k % 3 == 0, k % 5 == 4 and 3 or 4
  local w = turned and weights(gates * units, inputs + units) or weights(inputs + units, gates * units)
  local b, mask = df.Variable(df.ones{ gates * units } * 0.1), k % 4 == 3 and df.range(rows):reshape{ rows, 1 }:lt(5)
  local _, c, h = df.while_loop(function(t) return t:lt(6) end, function(t, c, h)
    local z = df.matmul(df.concat({ x[t], h }, 1), w, { transpose_b = turned })
    z = k % 3 == 1 and df.bias_add(z, b) or k % 3 == 2 and b + z or z + b
    local g = df.split(z, gates, { axis = 1 })
    local new, y
    if gates == 4 then
      new = c * df.sigmoid(g[3] + 1) + df.sigmoid(g[1]) * df.tanh(g[2])
      y = df.tanh(new) * df.sigmoid(g[4])
    else
      local u = df.sigmoid(g[1])
      new = c * df.sigmoid(g[3])
      y = u * h + (1 - u) * df.tanh(g[2] + new)
    end
    if mask then new, y = df.where(df.logical_or(mask, df.zeros{ rows, units }:gt(1)), new, c), df.where(df.logical_or(mask, df.zeros{ rows, units }:gt(1)), y, h) end
    return t + 1, new, y
  end, { df.int32(0), h0, h0 })
  local loss = df.reduce_sum(c * c + h)
  return { loss, df.gradients(loss, w) }, { [x] = df.fill({ 6, rows, inputs }, 0.25):eval() }
end

--- What is computed together: folds, softmax and elementwise ops, and recurrent cells. What lies between members of a group is not allocated.
function M.together(seed)
  local lines = {}
  for _, make in ipairs{ function() return require('spec.random_rows').build(df, seed) end, function() return cell(seed) end } do
    df.reset()
    local fetches, feeds = make()
    local s = df.Session{ devices = { 'cpu:0' }, threads = 1, engine = 'tokens' }
    for _ = 1, 2 do
      local ok, v = pcall(s.run, s, fetches, feeds)
      lines[#lines + 1] = ok and ('%d values'):format(#v) or tostring(v.message):gsub('/%S+%.lua:%d+', '')
    end
    if #lines > 2 then lines[#lines + 1] = line(s:stats(), TIMED) end       -- LuaJIT, where numbers are of one kind, has other casts in rows
    s:close()
  end
  return table.concat(lines, '\n')
end

return M
