--- Automatic placement beside all placements: of small random graphs, by the virtual clock, every way to place their nodes is run.
local df = require 'dflow'
local support = require 'spec.support'
local ordered_it = support.ordered_it(it, pending)
local NAMES = { 'cpu:0', 'sim:0', 'sim:1' }

--- Numbers 1 … n that a seed decides, the same under both Luas.
local function numbers(seed)
  local state = seed * 7919 + 13
  return function(n)
    state = (state * 1103515245 + 12345) % 2147483648
    return math.floor(state / 65536) % n + 1
  end
end

local function any(next_of, list) return list[next_of(#list)] end

--- n nodes that read earlier ones (0: what is fed), no two of them equal, and the devices of a session.
local function random_case(seed, n)
  local next_of, seen = numbers(seed), {}
  local case = { size = any(next_of, { 16, 64, 256 }), nodes = {}, devices = { NAMES[1] } }
  for d = 2, #NAMES do
    case.devices[d] = { NAMES[d], speed = any(next_of, { 1, 2, 4, 16 }), bandwidth = any(next_of, { 1e8, 1e9, 1e10 }),
      latency = any(next_of, { '1us', '10us', '100us' }) }
  end
  while #case.nodes < n do
    local a, b, product = next_of(#case.nodes + 1) - 1, next_of(#case.nodes + 1) - 1, next_of(3) > 1
    local key = ('%d %d %s'):format(product and a or math.min(a, b), product and b or math.max(a, b), tostring(product))
    if not seen[key] then case.nodes[#case.nodes + 1] = { a, b, product = product } end
    seen[key] = true
  end
  return case
end

--- Seconds of a run; places[i]: of node i, an index of NAMES; nil: nothing is asked for. The values, too.
local function run(case, places)
  local g = df.Graph()
  return g:as_default(function()
    local x = df.placeholder('float32', { case.size, case.size })
    local values, read, fetches = { [0] = x }, {}, {}
    for i, node in ipairs(case.nodes) do
      local a, b = values[node[1]], values[node[2]]
      local function make() return node.product and a:matmul(b):tanh() or a + b end
      values[i] = places and df.device(NAMES[places[i]], make) or make()
      read[node[1]], read[node[2]] = true, true
    end
    for i = 1, #case.nodes do
      if not read[i] then fetches[#fetches + 1] = values[i]:reduce_sum() end
    end
    local s = df.Session{ graph = g, devices = case.devices, clock = 'virtual' }
    local h = s:start(fetches, { [x] = df.run(df.fill({ case.size, case.size }, 0.01)) })
    local got, seconds = h:wait(), h:stats().seconds
    s:close()
    return seconds, got
  end)
end

--- The fewest seconds of all placements.
local function best(case)
  local n, least, places = #case.nodes, math.huge, {}
  for i = 1, n do places[i] = 1 end
  while true do
    least = math.min(least, (run(case, places)))
    local i = 1
    while i <= n and places[i] == #NAMES do places[i], i = 1, i + 1 end
    if i > n then return least end
    places[i] = places[i] + 1
  end
end

describe('nodes that nothing was asked of', function()
  ordered_it('are placed so that a run takes at most 1.1 times what the best of all placements takes', function()
    for seed = 1, 12 do
      local case = random_case(seed, 4)
      local seconds, least = run(case), best(case)
      assert(seconds <= 1.1 * least, ('seed %d: %g s, and the best of all takes %g s'):format(seed, seconds, least))
    end
  end)

  it('give the values that they give where they are asked to be', function()
    for seed = 1, 6 do
      local case = random_case(seed, 40)
      local _, placed = run(case)
      local _, here = run(case, setmetatable({}, { __index = function() return 1 end }))
      assert.same(here, placed)
    end
  end)
end)
