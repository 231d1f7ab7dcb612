--- Random programs cut over random devices: whatever the placement, the clock, the order, the owners and the policy, they give the bits of one device.
--
-- The graph of a program is built once, with nearly everything in it sent to a random one of `n` devices beside the host, and run in sessions that have these, and in one
-- that has the host alone (soft placement), which says what is right: the result, its gradients, what variables and queues hold afterwards.
local random_program = require 'spec.random_program'

local M = {}
local NAMES = { 'cpu:1', 'sim:1', 'sim:2', 'sim:3', 'sim:4', 'sim:5', 'sim:6', 'sim:7' }
local at = { 0.7, -0.4, 0.3 }

--- 1 … n, the same under every Lua.
local function generator(seed)
  local state = (seed * 7919 + 17) % 2147483646 + 1
  for _ = 1, 4 do state = state * 16807 % 2147483647 end
  return function(n)
    state = state * 16807 % 2147483647
    return math.floor(state / 2147483647 * n) + 1
  end
end

--- df.device at a random one of n devices, or, one time in four, none.
local function placer(df, rand, n)
  return function(fn)
    if rand(4) == 1 then return fn() end
    return df.device(NAMES[rand(n)], fn)
  end
end

--- Every number of a run, as exactly as it is.
local function digits(v, out)
  if type(v) == 'number' then out[#out + 1] = ('%.17g'):format(v)
  elseif require('dflow.front.errors').is_data(v) then for _, e in ipairs(v) do digits(e, out) end
  else digits(v:totable(), out) end
  return out
end

--- What a session makes of the fetches, run after run, and what is then left in variables and queues.
local function outcome(s, fetches, feeds, names, memories, opts)
  local parts = {}
  for _ = 1, 2 do
    parts[#parts + 1] = table.concat(digits(s:run(fetches, feeds, opts), {}), ' ')
    for _, name in ipairs(names) do
      local it = memories[name]
      if name:sub(1, 1) == 'm' then parts[#parts + 1] = name .. ' ' .. table.concat(digits(s:run(it), {}), ' ')
      else
        for _ = 1, s:run(it:size()) do parts[#parts + 1] = name .. ' ' .. table.concat(digits(s:run(it:dequeue()), {}), ' ') end
      end
    end
  end
  return table.concat(parts, '\n')
end

--- The ways to run a program of a seed, each a Session's options; those of the seed's own turn.
local function ways(rand, n)
  local list = { 'cpu:0' }
  for d = 1, n do list[d + 1] = { NAMES[d], bandwidth = '10GB/s', latency = ('%dus'):format(rand(20)), speed = rand(40) } end
  local plain = { 'cpu:0' }
  for d = 1, n do plain[d + 1] = NAMES[d] end
  return {
    { devices = plain },
    { devices = list, clock = 'virtual' },
    { devices = list, owners = 1 + rand(3), save = ({ 'keep', 'swap' })[rand(2)] },
    { devices = plain, owners = rand(4), save = ({ 'keep', 'swap', 'recompute', 'auto' })[rand(4)] },
  }
end

--- Runs the program of a seed in all ways. Returns nil, or what is wrong, with the program.
-- @param opts.devices  how many there are at most (8)
-- @param opts.depth    of nesting (2)
function M.check(df, seed, opts)
  opts = opts or {}
  local rand = generator(seed)
  local n, width = rand(opts.devices or 8), rand(2) == 1 and 40 or nil
  local program = random_program.make(seed, opts.depth or 2, true)
  df.reset()
  local function wrong(message) return ('%s\n%d devices, seed %d\n%s'):format(message, n, seed, random_program.show(program)) end
  local built, y, xs, memories = pcall(random_program.build, df, program, nil, { width = width, place = placer(df, rand, n),
    save = function() return ({ 'keep', 'swap', 'recompute' })[rand(3)] end })
  if not built then return wrong(tostring(y)) end
  local fetches = { y }
  local ok, grads = pcall(df.gradients, y, xs, { unconnected = 'zero' })
  if not ok then return wrong(tostring(grads)) end
  for i = 1, 3 do fetches[i + 1] = grads[i] end
  local feeds = {}
  for i, x in ipairs(xs) do
    feeds[x] = at[i]
    if width then
      feeds[x] = {}
      for j = 1, width do feeds[x][j] = at[i] * (1 + j / 64) end
    end
  end
  local host = df.Session{ devices = { 'cpu:0' }, soft_placement = true }
  local expected = outcome(host, fetches, feeds, program.memories, memories)
  host:close()
  for i, options in ipairs(ways(rand, n)) do
    local s = df.Session(options)
    local ran, found = pcall(outcome, s, fetches, feeds, program.memories, memories, { timeout = 60 })
    local text = ('way %d (%s clock, %s, %s owners)'):format(i, options.clock or 'real', options.save or 'keep', options.owners or 1)
    if not ran then return wrong(('%s: %s'):format(text, tostring(found))) end
    if found ~= expected then return wrong(('%s gives\n%s\nexpected\n%s'):format(text, found, expected)) end
    for name, m in pairs(s:stats().memory) do
      if name ~= 'cpu:0' and #program.memories == 0 and m.in_use ~= 0 then return wrong(('%s leaves %d bytes on %s'):format(text, m.in_use, name)) end
    end
    s:close()
  end
end

return M
