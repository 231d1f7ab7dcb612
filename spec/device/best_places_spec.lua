--- Automatic placement beside all placements: of small random graphs, with a loop, with a cond and with neither, by the virtual clock, every way to place their nodes is run.
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

--- n nodes that read earlier ones (0: what is fed), no two of them equal, and the devices of a session. Of a kind: in a loop, nodes 2 … n - 1 are its body,
-- and what its first and last of them make are its variables; in a cond they are its branches; of both, a loop's body has a cond; of the nested, it has a loop.
local function random_case(seed, n, kind)
  local next_of, seen = numbers(seed), {}
  local loop = kind ~= 'nodes' and kind ~= 'cond'
  local case = { size = any(next_of, loop and { 16, 64 } or { 16, 64, 256 }), nodes = {}, devices = { NAMES[1] } }
  case.cond, case.inner = kind == 'cond' or kind == 'both', kind == 'nested' and any(next_of, { 2, 6 })
  if loop then case.trips, case.window = any(next_of, { 2, 6, 30 }), any(next_of, { 1, 32 }) end
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

--- The nodes of a case, by make(i, a, b) of node i and what it reads: what is to be fetched.
local function build(case, x, side, make)
  local values, read, fetches, last = { [0] = x }, {}, {}, #case.nodes
  local function node(i, values)
    local a, b = case.nodes[i][1], case.nodes[i][2]
    read[a], read[b] = true, true
    values[i] = make(i, values[a], values[b])
  end
  --- Nodes from … to, of which the first half is in one branch and the rest in the other: what `side` takes.
  local function cond(values, first, most)
    local half = math.floor((first + most) / 2)
    local function branch(from, to)
      return function()
        local inside = {}
        for k = 0, last do inside[k] = values[k] or values[first - 1] end
        for k = from, to do node(k, inside) end
        return inside[to]
      end
    end
    return df.cond(side, branch(first, half), branch(half + 1, most))
  end
  --- Nodes first … most as the body of a loop.
  local function inner(values, first, most)
    local _, y = df.while_loop(function(i) return i:lt(case.inner) end, function(i, y)
      local inside = { [0] = values[0] }
      for k = 1, first - 1 do inside[k] = values[k] end
      inside[first - 1] = y
      for k = first, most do node(k, inside) end
      return i + 1, inside[most] * 0.1
    end, { df.int32(0), values[first - 1] }, { parallel_iterations = case.window })
    return y
  end
  --- Nodes 2 … last - 1 were made where the last one cannot read them: it reads y.
  local function finish(y)
    values, read = { [0] = x }, { [last - 1] = true }
    for k = 1, last - 1 do values[k] = y end
    node(last, values)
  end
  if case.trips then
    node(1, values)
    local _, u, v = df.while_loop(function(i) return i:lt(case.trips) end, function(i, u, v)
      local inside = { [0] = u, [1] = v }
      for k = 2, (case.cond or case.inner) and 2 or last - 1 do node(k, inside) end
      local y = case.cond and cond(inside, 3, last - 1) or case.inner and inner(inside, 3, last - 1) or inside[last - 1]
      return i + 1, inside[2] * 0.1, y
    end, { df.int32(0), x, values[1] }, { parallel_iterations = case.window })
    fetches[1] = u:reduce_sum()
    finish(v)
  elseif case.cond then
    node(1, values)
    finish(cond(values, 2, last - 1))
  else
    for i = 1, last do node(i, values) end
  end
  for i = (case.trips or case.cond) and last or 1, last do
    if not read[i] then fetches[#fetches + 1] = values[i]:reduce_sum() end
  end
  return fetches
end

--- Seconds of a run (of a cond, the mean of both sides); places[i]: of node i, an index of NAMES; nil: nothing is asked for. The values, too.
local function run(case, places)
  local g = df.Graph()
  return g:as_default(function()
    local x, side = df.placeholder('float32', { case.size, case.size }), df.placeholder('bool', {})
    local fetches = build(case, x, side, function(i, a, b)
      local function make() return case.nodes[i].product and a:matmul(b):tanh() or a + b end
      return places and df.device(NAMES[places[i]], make) or make()
    end)
    local s = df.Session{ graph = g, devices = case.devices, clock = 'virtual' }
    local got, seconds, sides = {}, 0, case.cond and { true, false } or { true }
    for k, taken in ipairs(sides) do
      local h = s:start(fetches, { [x] = df.run(df.fill({ case.size, case.size }, 0.01)), [side] = taken })
      got[k], seconds = h:wait(), seconds + h:stats().seconds / #sides
    end
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

local first = tonumber(os.getenv 'DFLOW_SEED') or 1
-- Where moving a node alone or with another one would end at up to 1.14 times the best.
local NEED_CHAINS = { 16, 27, 139 }

describe('nodes that nothing was asked of', function()
  for _, kind in ipairs{ 'nodes', 'loop', 'cond', 'both', 'nested' } do
    ordered_it(('are placed so that a run (%s) takes at most 1.1 times what the best of all placements takes'):format(kind), function()
      local seeds, n = kind == 'nodes' and { (table.unpack or unpack)(NEED_CHAINS) } or {}, kind == 'nodes' and 5 or 4
      for seed = first, first + 5 do seeds[#seeds + 1] = seed end
      for _, seed in ipairs(seeds) do
        local case = random_case(seed, n, kind)
        local seconds, least = run(case), best(case)
        assert(seconds <= 1.1 * least, ('seed %d: %g s, and the best of all takes %g s'):format(seed, seconds, least))
      end
    end)
  end

  it('give the values that they give where they are asked to be', function()
    for seed = 1, 15 do
      local case = random_case(seed, seed % 5 == 0 and 40 or 12, ({ [0] = 'nodes', 'loop', 'cond', 'both', 'nested' })[seed % 5])
      local _, placed = run(case)
      local _, here = run(case, setmetatable({}, { __index = function() return 1 end }))
      assert.same(here, placed)
    end
  end)
end)
