--- Many runs at once that are started, paused, stepped, looked at and cancelled at random: `storm.lua SEED SECONDS`. What it is for is
-- what a sanitizer says of it. Prints how many runs were over and which errors they ended with.
local df = require 'dflow'
local seed, seconds = tonumber(arg[1]), tonumber(arg[2])
math.randomseed(seed)
local random = math.random
local MOST = 40

local n, v = df.placeholder('int32', {}), df.Variable(0.0)
local function loop_on(device)
  return df.device(device, function()
    local function body(i, x)
      return i + 1, df.cond((i % 3):eq(0), function() return x * 0.5 end, function() return df.tanh(x) + v:assign_add(0.001) end)
    end
    local _, y = df.while_loop(function(i) return i:lt(n) end, body, { df.int32(0), df.ones{ 4 } })
    return y
  end)
end
local outputs = { loop_on 'cpu:0', loop_on 'sim:0', loop_on 'sim:1' }
local sessions = {
  df.default_session(), df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' }, owners = 3 },
  df.Session{ devices = { 'cpu:0', { 'sim:0', memory = '1MB' }, { 'sim:1', latency = '1ms' } }, owners = 2, clock = 'virtual' },
  df.Session{ devices = { 'cpu:0', { 'sim:0', fail_at = 300 }, 'sim:1' }, owners = 3 },
}

local handles, over, codes = {}, 0, {}
local function count(e)
  local code = type(e) == 'table' and e.code or 'raw: ' .. tostring(e):sub(1, 80)
  codes[code] = (codes[code] or 0) + 1
end
local function forget(i)
  handles[i] = handles[#handles]
  handles[#handles] = nil
  over = over + 1
end

local function start()
  local options = { paused = random(3) == 1, values = random(4) == 1, record = random(8) == 1,
                    timeout = random(5) == 1 and 0.01 * random(5) or nil }
  local ok, h = pcall(function() return sessions[random(#sessions)]:start(outputs[random(3)], { [n] = random(2000) }, options) end)
  if ok then handles[#handles + 1] = h else count(h) end
end

local acts = {
  function(h) h:pause() end, function(h) h:resume() end, function(h) h:step(random(50)) end, function(h) h:cancel() end,
  function(h) h:frames() end, function(h) h:stats() end, function(h) h:break_at{ iteration = random(100) } end, function(h) h:settle(0.002) end,
  function(h) if h:state() ~= 'paused' then h:wait() end end,
}

local begun = os.time()
while os.time() - begun < seconds do
  if #handles < MOST and random(2) == 1 then start() end
  if #handles > 0 then
    local i = random(#handles)
    local h = handles[i]
    local ok, e = pcall(acts[random(#acts)], h)
    if not ok then count(e) end
    if h:done() then forget(i) end
  end
end
for _, h in ipairs(handles) do h:cancel() end
local list = {}
for code, k in pairs(codes) do list[#list + 1] = code .. ' ' .. k end
table.sort(list)
print(('%d runs are over; %s'):format(over, table.concat(list, ', ')))
for code in pairs(codes) do if code:find '^raw' then os.exit(1) end end
