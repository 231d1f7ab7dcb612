--- What a run that stands still says of all its nodes, as lines of text: why each value is what it is, why it has not come, what it is; frames with their
-- iterations, stacks and devices, and tokens. For asked_spec.lua.
local df = require 'dflow'
local pages = require 'spec.pages'

local M = {}
local WHOLE = 400              -- lines that the page has as they are
local TAGS = 3                 -- places that are asked about besides the one where the run stands

local function plain(v) return type(v) == 'number' and ('%.9g'):format(v) or tostring(v) end

local function bare(text) return (tostring(text):gsub('  %S*%.lua:%d+', ''):gsub('%S*%.lua:%d+:? ?', ''):gsub('0x%x+', '0x')) end

--- What a call gives, or its error.
local function answer(fn, ...)
  local ok, v, how = pcall(fn, ...)
  if not ok then return 'error: ' .. bare(type(v) == 'table' and v.message or v) end
  if df.type(v) == 'tensor' then
    local list = v:reshape{ -1 }:totable()
    for i = 1, #list do list[i] = plain(list[i]) end
    v = table.concat(list, ' ')
  end
  return bare(plain(v)) .. (how and ' ' .. tostring(how) or '')
end

--- The fields of these names, as far as there are any.
local function fields(t, names)
  local list = {}
  for name in names:gmatch '%S+' do if t[name] ~= nil then list[#list + 1] = name .. '=' .. plain(t[name]) end end
  return table.concat(list, ' ')
end

--- What is alive: lines.
local function alive(h, say)
  local frames = h:frames()
  say(tostring(frames))
  for _, f in ipairs(frames) do
    say(('frame %s: %s'):format(f.tag, fields(f, 'name parent_iteration first next in_flight limit live dead running waiting enters_missing')))
    say('  around ' .. (f.parent and "'" .. f.parent.tag .. "'" or 'none') .. ', ' .. #f.children .. ' inside, on ' .. table.concat(f.devices, ' '))
    for _, it in ipairs(f.iterations) do
      say(('  iteration %d: %s, %d inside'):format(it.number, fields(it, 'ready dead live running partial outstanding'), #it.children))
    end
    for _, p in ipairs(f.partitions) do say('  part ' .. fields(p, 'device iteration first next live dead running waiting messages')) end
    for _, s in ipairs(f.stacks) do say('  stack ' .. fields(s, 'name saved depth size bytes dtype frame iteration')) end
  end
  for _, t in ipairs(h:tokens()) do say(('token %s @%s %s'):format(t.op.name, t.tag, fields(t, 'state dead missing'))) end
end

--- Everything that may be asked where h stands.
local function asked(h, g, say)
  alive(h, say)
  for _, op in ipairs(g:ops()) do
    say('why ' .. answer(h.why, h, op))
    say('whynot ' .. answer(h.whynot, h, op))
    for _, o in ipairs(op.outputs) do say(('value %s %s'):format(o.name, answer(h.value, h, o))) end
    say(('tokens of %s: %d'):format(op.name, #h:tokens(op)))
  end
  local tags = { '' }
  for _, f in ipairs(h:frames()) do
    for n = f.first - 1, f.next do if f.parent and #tags < TAGS then tags[#tags + 1] = ('%s:%d'):format(f.tag, n) end end
  end
  for _, tag in ipairs(tags) do
    for _, op in ipairs(g:ops()) do
      say(('@%s why %s'):format(tag, answer(h.why, h, op, tag)))
      say(('@%s whynot %s'):format(tag, answer(h.whynot, h, op, tag)))
    end
  end
  for n = 1, 3 do
    local t = h:back(n)
    say(('%d back: %s'):format(n, t and ('%s @%s %s'):format(t.op.name, t.tag, fields(t, 'dead value')) or 'none'))
  end
end

local function nested()
  local v = df.placeholder('float32', {}, 'v')
  local _, y = df.while_loop(function(i) return i:lt(5) end, function(i, y)
    local _, z = df.while_loop(function(j) return j:lt(i) end, function(j, z)
      return j + 1, df.cond((j % 2):eq(0), function() return z * v end, function() return z + v end)
    end, { df.int32(0), y }, { name = 'inner' })
    return i + 1, z * 0.5
  end, { df.int32(0), df.float32(1) }, { name = 'outer', parallel_iterations = 3 })
  return { y, df.gradients(y, v) }, { [v] = 1.5 }
end

local function arrays()
  local x = df.placeholder('float32', { 4 }, 'x')
  local ta = df.TensorArray('float32', 4)
  local n, filled = df.while_loop(function(i) return i:lt(4) end, function(i, ta)
    local a = df.cond(x[i]:gt(2), function() return x[i] * 2 end, function() return df.sin(x[i]) end)
    return i + 1, ta:write(i, a)
  end, { df.int32(0), ta })
  return { n, df.reduce_sum(filled:stack() * x) }, { [x] = { 1, 2, 3, 4 } }
end

local function effects()
  local v, q = df.Variable(df.float32(2), { name = 'v' }), df.FIFOQueue(8, { 'float32' }, { name = 'letters' })
  v:eval()
  local n = df.while_loop(function(i) return i:lt(6) end, function(i)
    local put = q:enqueue(df.cast(i, 'float32') * v)
    return df.control_dependencies({ put }, function() return df.cond(i:gt(3), function() return i + 2 end, function() return i + 1 end) end)
  end, { df.int32(0) }, { name = 'fill' })
  local later = df.control_dependencies({ n }, function() return v:assign_add(1.5) end)
  return { n, later, v * 3 }, {}
end

local function cut()
  local x = df.placeholder('float32', {}, 'x')
  local _, y = df.while_loop(function(i) return i:lt(4) end, function(i, y)
    local a = df.device('sim:0', function() return df.add(y, x, { name = 'a' }) end)
    local c = df.cond((i % 2):eq(0), function() return df.device('sim:1', function() return a * 3 end) end, function() return a - 1 end)
    return i + 1, df.device('sim:1', function() return df.multiply(c, 0.5, { name = 'b' }) end)
  end, { df.int32(0), x })
  return { y, df.device('sim:0', function() return x * 2 end) }, { [x] = 1 }
end

local function functions()
  local f = df.func('f', { 'float32' }, function(a) return df.cond(a:gt(1), function() return a * 2 end, function() return a end) end)
  local x = df.placeholder('float32', {}, 'x')
  local y = f(f(x) + 1)
  return { y, df.floor_div(df.cast(y, 'int32'), df.int32(0)) }, { [x] = 1 }
end

M.programs = { nested = nested, arrays = arrays, effects = effects, cut = cut, far = cut, functions = functions }
local SLOW = { 'cpu:0', { 'sim:0', latency = '1ms' }, { 'sim:1', latency = '2ms', bandwidth = '1MB/s' } }

--- What the program of that name says at stops some tokens apart, and when it is over; a line for each stop, and the text of one of them.
function M.said(name, each, stops)
  df.reset()
  local fetches, feeds = M.programs[name]()
  local far = name == 'far'
  local s = df.Session{ devices = far and SLOW or { 'cpu:0', 'sim:0', 'sim:1' }, threads = 1, clock = far and 'virtual' or nil }
  local h = s:start(fetches, feeds, { paused = true, values = name ~= 'arrays' })
  local sums, whole = {}, nil
  for k = 1, stops do
    h:step(each)
    local lines = {}
    asked(h, df.default_graph(), function(text) lines[#lines + 1] = bare(text) end)
    local text = table.concat(lines, '\n')
    sums[#sums + 1] = pages.sum(text)
    if k == 3 then whole = table.concat(lines, '\n', 1, math.min(#lines, WHOLE)) end
    if h:state() == 'done' then break end
  end
  h:resume()
  pcall(h.wait, h)
  local lines = {}
  for _, op in ipairs(df.default_graph():ops()) do
    lines[#lines + 1] = bare('why ' .. answer(h.why, h, op))
    lines[#lines + 1] = bare('whynot ' .. answer(h.whynot, h, op))
    for _, o in ipairs(op.outputs) do lines[#lines + 1] = ('value %s %s'):format(o.name, answer(h.value, h, o)) end
  end
  sums[#sums + 1] = 'over: ' .. pages.sum(table.concat(lines, '\n'))
  s:close()
  return table.concat(sums, '\n') .. '\n' .. (whole or '')
end

return M
