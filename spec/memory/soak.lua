--- A soak: everything again and again, in memory that stays what it is once all has been done a few times.
--   dflow spec/memory/soak.lua [seconds = 1800]
local df = require 'dflow'
local programs = require 'spec.memory.programs'

local seconds = tonumber(arg and arg[1] or 1800)

local function resident()
  for line in io.lines '/proc/self/status' do
    local kb = line:match '^VmRSS:%s+(%d+)'
    if kb then return tonumber(kb) end
  end
end

local run = {}
for i, program in ipairs(programs) do run[i] = program[2]() end

-- What a program that stays up does beside running: it builds what fails, asks for more and more signatures, opens sessions, starts runs.
local g = df.Graph()
local x, w, p, i0
g:as_default(function()
  x = df.placeholder('float32', {})
  w = df.Variable(1.0)
  p, i0 = x:gt(0), df.int32(0)
end)
local s = df.Session{ graph = g, plan_cache = '2MB' }
local products = g:as_default(function()
  local list = {}
  for i = 1, 400 do list[i] = x * w * i end
  return list
end)

local function failing_builds()
  g:as_default(function()
    for _ = 1, 20 do
      pcall(df.cond, p, function() return x * w end, function() error 'boom' end)
      pcall(df.while_loop, function(i) return i:lt(3) end, function(i) return i + x end, { i0 })
      pcall(df.gradients, products[1], products[2])
      pcall(df.reshape, x, { 3, 3 })
    end
  end)
end

local function other_graph()
  local other = df.Graph()
  other:as_default(function() df.run(df.float32(2) * 3) end)
  other.session:close()
end

local rounds, began, from, most = 0, os.time(), nil, 0
local graph_size, next_word = nil, began
repeat
  for i = 1, #run do run[i]() end
  for i = 1, 40 do s:run(products[(rounds * 40 + i) % #products + 1], { [x] = 2 }) end
  local h = s:start(products[7], { [x] = 3 })
  h:wait()
  other_graph()
  rounds = rounds + 1
  local now = os.time()
  if now >= next_word then
    collectgarbage()
    collectgarbage()
    local kb = resident()
    if not from and now - began >= seconds / 4 then
      from = kb
      failing_builds()
      graph_size = g:size()
    end
    most = from and math.max(most, kb) or most
    print(('%6d s %8d rounds %8d KB'):format(now - began, rounds, kb))
    io.stdout:flush()
    next_word = now + math.max(1, math.floor(seconds / 60))
    if from then failing_builds() end
  end
until os.time() - began >= seconds

local room = math.max(4096, from and math.floor(from / 20) or 0)
print(('%d rounds; %d KB after a quarter, %d KB at most since; %d nodes in the graph that failing builds were tried in, then %d')
      :format(rounds, from or 0, most, graph_size or 0, g:size()))
if not from or most > from + room then
  print('memory grows')
  os.exit(1)
end
if graph_size ~= g:size() then
  print('builds that fail leave nodes behind')
  os.exit(1)
end
