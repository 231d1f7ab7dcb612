--- Stepping, breaking and walking back over random programs, gradient loops too, against the list of all tokens that the run has.
local df = require 'dflow'
local support = require 'spec.support'
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local sampling = require 'spec.sampling'
local host_it = support.host_it(it, pending)       -- where messages are tokens of the name of what they carry
local ordered_it = support.ordered_it(it, pending)
local next_it = support.next_it(ordered_it, pending)

local function start(seed, opts)
  local fetches, feeds = sampling.build(seed, { depth = 2, gradients = true })
  opts = opts or {}
  opts.paused = true
  if opts.p then feeds[df.default_graph():output('p:0')] = opts.p end
  opts.p = nil
  local h = df.start(fetches, feeds, opts)
  h:settle()
  return h, fetches, feeds
end

local function key(t) return ('%s/%d/%d%s'):format(t.op.name, t.frame_id, t.iteration, t.dead and '!' or '') end

--- All tokens of the run of a seed in their order: {op, name, frame_id, iteration, dead}; its loops by frame number, from the log: {name,
--- opened, ended}, places in that order; and its results.
local function brute_force(seed)
  local h = start(seed, { log = true })
  local g, list, loops = h.session.graph, {}, {}
  h:resume()
  local results = h:wait()
  local first = 0
  while true do
    local e = core.run_events(h.handle, first, 4096)
    for i = 0, #e / 10 - 1 do
      local at = i * 10
      local iteration, node, frame, scope, kind, dead = e[at + 3], e[at + 5], e[at + 6], e[at + 7], e[at + 8], e[at + 9]
      if kind == 0 then
        list[#list + 1] = { op = graph.operation(g, node), frame_id = frame, iteration = iteration, dead = dead == true or dead == 1,
                            frame = core.run_scope(h.handle, scope) }
      elseif kind == 2 then loops[frame] = { opened = #list }
      elseif kind == 3 then loops[frame].ended = #list end
    end
    if #e == 0 then break end
    first = first + #e / 10
  end
  return list, loops, results
end

local seeds = {}
for seed = 1, 400 do
  if #seeds == 24 then break end
  local program = select(3, sampling.build(seed, { depth = 2 }))
  local loops = 0
  for _, s in ipairs(program.block) do if s.kind == 'loop' or s.kind == 'chain' then loops = loops + 1 end end
  if loops >= 2 then seeds[#seeds + 1] = seed end
end

local function same(expected, found)
  assert(#expected == #found)
  for i = 1, #expected do assert(expected[i] == found[i]) end
end

describe('stepping through random programs', function()
  next_it('by tokens meets all of them in their order, and gives the same results', function()
    for _, seed in ipairs(seeds) do
      local list, _, results = brute_force(seed)
      local h = start(seed)
      local stop, i = h:pause(), 1
      repeat
        assert(key(stop) == key(list[i]), ('seed %d, token %d is %s, expected %s'):format(seed, i, key(stop), key(list[i])))
        stop, i = h:step(), i + 1
      until not stop
      assert(i == #list + 1)
      same(results, h:wait())
    end
  end)

  next_it('by n tokens, n live nodes, n iterations and n frames comes where the list says', function()
    for k, seed in ipairs(seeds) do
      local list, loops, results = brute_force(seed)
      local h = start(seed)
      h:pause()
      local at, turn = 1, k
      while at do
        turn = turn + 1
        local n = 1 + turn % 3
        local t, to = list[at], nil
        local unit = ({ 'token', 'node', 'iteration', 'frame' })[turn % 4 + 1]
        local live = 0
        for q = at, #list do
          local here = q > at
          if unit == 'token' then here = q == at + n
          elseif unit == 'node' then here = live == n and not list[q].dead
          elseif unit == 'iteration' then
            local ended = loops[t.frame_id] and loops[t.frame_id].ended < q
            here = here and (ended or (t.frame_id == 0 and list[q].frame_id > 0 and list[q].iteration >= n)
              or (t.frame_id > 0 and list[q].frame_id == t.frame_id and list[q].iteration >= t.iteration + n))
          else
            local frames = 0
            for _, f in pairs(loops) do if f.opened >= at and f.opened < q then frames = frames + 1 end end
            here = here and (frames >= n or (loops[t.frame_id] and loops[t.frame_id].ended < q))
          end
          if here then
            to = q
            break
          end
          if not list[q].dead then live = live + 1 end
        end
        local stop = h:step(n, unit)
        assert((stop and key(stop)) == (to and key(list[to])), ('seed %d: step(%d, %s) from token %d comes to %s, expected %s'):format(seed, n, unit, at,
          stop and key(stop) or 'the end', to and key(list[to]) or 'the end'))
        at = to
      end
      same(results, h:wait())
    end
  end)
end)

describe('an inspector that only looks at a run', function()
  it('does not take it past a breakpoint that it has come to meanwhile', function()
    local inspect = require 'dflow.inspect'
    local i = df.while_loop(function(i) return i:lt(9) end, function(i) return i * 2 + 1 end, { df.int32(0) })
    local h = df.start(i, nil, { paused = true })
    h:break_at{ op = 'Mul', iteration = 2 }
    h:resume()
    assert.equal(2, h:settle().iteration)
    local settle = core.run_settle
    core.run_settle = function()                 -- a moment ago it was on its way
      core.run_settle = settle
      return 1
    end
    inspect.standing(h, function() end)
    assert.equal('paused', h:state())
    assert.equal('break', h:pause().reason)
    h:resume()
    assert.equal(15, h:wait())
  end)

  it('lets it go on when that is why it is paused, also after an error', function()
    local inspect = require 'dflow.inspect'
    local i = df.while_loop(function() return df.constant(true) end, function(i) return i + 1 end, { df.int32(0) })
    local h = df.start(i)
    assert.equal('paused', inspect.standing(h, h.state, h))
    assert.equal('running', h:state())
    assert.is_false(pcall(inspect.standing, h, error, 'no'))
    assert.equal('running', h:state())
    h:cancel()
    pcall(h.wait, h)
  end)
end)

describe('the history of a run', function()
  it('is walked by h:back, with the values that are still there', function()
    local _, y = df.while_loop(function(i) return i:lt(df.int32(5)) end, function(i, y) return i + 1, y * 2 end, { df.int32(0), df.float32(1) })
    local h = df.start(y, nil, { paused = true, values = true })
    h:step(3, 'iteration')
    for _, wrong in ipairs{ 1.5, 0, 'x' } do
      local e = support.error_of(h.history, h, wrong)
      assert.matches('^history: a whole number from 1 up is expected, not the ', e.message)
    end
    local past = h:history(12)
    for n, t in ipairs(past) do
      local b = h:back(n)
      assert.same({ t.op.name, t.tag, t.dead }, { b.op.name, b.tag, b.dead })
    end
    h:break_at{ op = 'while/Mul', iteration = 3 }
    h:resume()
    h:settle()
    h:step()
    assert.equal(16, h:back().value)
    assert.is_nil(h:back(4000))
    for _, bad in ipairs{ 0, -1, 1.5, 'x' } do assert.has_error(function() h:back(bad) end) end
    local ok, err = pcall(h.value, h, 'while/Mul', 'while:99')
    assert.is_false(ok)
    assert.matches('iteration 99 of while has not begun; %d to %d are open', tostring(err))
    h:cancel()
  end)

  it('says of an iteration that is over that its values were not kept, and how they are', function()
    local _, y = df.while_loop(function(i) return i:lt(df.int32(9)) end, function(i, y) return i + 1, y * 2 end, { df.int32(0), df.float32(1) }, { parallel_iterations = 1 })
    local h = df.start(y, nil, { paused = true })
    h:step(6, 'iteration')
    local err = support.error_of(h.value, h, 'while/Mul', 'while:1')
    assert.matches('iteration 1 of while is over, and its values were not kept: {values = true}', tostring(err), 1, true)
    h:cancel()
  end)

  next_it('is the list of tokens backwards, wherever the run stands', function()
    for k, seed in ipairs(seeds) do
      local list = brute_force(seed)
      local h = start(seed)
      h:pause()
      local at = 1
      while at <= #list do
        local past = h:history(2000)
        assert(#past == math.min(at - 1, #past) and #past >= math.min(at - 1, 900), ('%d of %d tokens are remembered'):format(#past, at - 1))
        for i, t in ipairs(past) do
          assert(key(t) == key(list[at - i]), ('seed %d: %d before token %d is %s, expected %s'):format(seed, i, at, key(t), key(list[at - i])))
        end
        at = at + 1 + (at * 7 + k) % 61
        if not h:step(at - 1 - #past > 0 and at - (#past + 1) or 1) then break end
      end
      h:cancel()
      pcall(h.wait, h)
    end
  end)
end)

describe('breakpoints of random programs', function()
  --- Which ops an op's tokens also stand for: a loop's Merge, which its Enter and NextIteration deliver for, and Switches of the same.
  local function stand_ins()
    local also, switches = {}, {}
    local g = df.default_graph()
    for id = 0, core.graph_nodes(g.handle) - 1 do
      local op = graph.operation(g, id)
      local group
      if op.type == 'Switch' then
        local of = op.inputs[1].name .. ' ' .. op.inputs[2].name
        switches[of] = switches[of] or {}
        group = switches[of]
        group[#group + 1], also[op] = op, group
      elseif op.type == 'Merge' then
        for _, x in ipairs(op.inputs) do
          if x.op.type == 'Enter' or x.op.type == 'NextIteration' then also[x.op] = { op } end
        end
      end
    end
    return also
  end

  --- The run stops at those tokens of the list that fit, and nowhere else.
  local function hits(seed, spec, fits)
    local list, _, results = brute_force(seed)
    local expected = {}
    local also = stand_ins()
    local function fitting(t)
      if fits(t) then return true end
      for _, op in ipairs(also[t.op] or {}) do
        if fits{ op = op, frame_id = t.frame_id, iteration = t.iteration, dead = t.dead, frame = t.frame } then return true end
      end
    end
    for _, t in ipairs(list) do if fitting(t) then expected[#expected + 1] = key(t) end end
    if #expected == 0 then return 0 end
    if spec.iteration or (spec.frame or ''):find ':%d' then expected = { expected[1] } end       -- once: where the iteration begins
    local h = start(seed)
    h:break_at(spec)
    h:resume()
    local found = {}
    while true do
      local stop = h:settle()
      if not stop then break end
      assert(stop.reason == 'break')
      found[#found + 1] = key(stop)
      h:resume()
    end
    assert.same(expected, found)
    same(results, h:wait())
    return #found
  end

  local kinds = {
    ['by op type'] = function(list, pick)
      local op = list[pick].op.type
      return { op = op }, function(t) return t.op.type == op end
    end,
    ['by the name of a node'] = function(list, pick)
      local name = list[pick].op.name
      return { op = name }, function(t) return t.op.name == name end
    end,
    ['by a pattern of names'] = function(list, pick)
      local part = list[pick].op.name:match('([%a]+)[^/]*$')
      return { name = '.*' .. part .. '.*' }, function(t) return t.op.name:find(part, 1, true) ~= nil end
    end,
    ['by a Lua line'] = function(list, pick)
      local line = list[pick].op.source
      return { line = line }, function(t) return t.op.source == line end
    end,
    ['by a loop'] = function(list, pick)
      local frame = list[pick].frame
      return { frame = frame }, function(t) return t.frame == frame end
    end,
    ['by a loop and an iteration'] = function(list, pick)
      local frame, n = list[pick].frame, list[pick].iteration
      return { frame = frame .. ':' .. n }, function(t) return t.frame == frame and t.iteration == n end
    end,
    ['by an iteration of any loop'] = function(list, pick)
      local n = list[pick].iteration
      return { iteration = n }, function(t) return t.iteration == n end
    end,
    ['of dead tokens'] = function(list, pick)
      local frame = list[pick].frame
      return { dead = true, frame = frame }, function(t) return t.dead and t.frame == frame end
    end,
  }
  local of_nodes = { ['by op type'] = true, ['by the name of a node'] = true, ['by a pattern of names'] = true, ['by a Lua line'] = true }
  for what, make in pairs(kinds) do
    (of_nodes[what] and host_it or ordered_it)(what .. ' are met where the list says, and nowhere else', function()
      local n, runs = 0, 0
      for k, seed in ipairs(seeds) do
        local list = brute_force(seed)
        local inside = {}
        for i, t in ipairs(list) do if t.frame_id > 0 then inside[#inside + 1] = i end end
        if #inside > 0 then
          n, runs = n + hits(seed, make(list, inside[1 + (k * 37) % #inside])), runs + 1
        end
      end
      assert.is_true(runs > 2 and n >= (what:find 'iteration' and runs or 20), n .. ' hits')
    end)
  end

  local passes_on = { Enter = true, Exit = true, NextIteration = true }

  --- The tokens of the run of a seed with the values that were made, as one reads them token by token. Of the last one there is none.
  local function made(seed, p)
    local h = start(seed, { values = true, p = p })
    local list, stop = {}, h:pause()
    while stop do
      local t = stop
      stop = h:step()
      list[#list + 1] = t
      if stop and not t.dead and not passes_on[t.op.type] then
        for index = 0, #t.op.outputs - 1 do
          local ok, v = pcall(core.run_value, h.handle, t.op.node, index, t.frame_id, t.iteration)
          t.values = t.values or {}
          if ok and type(v) == 'number' then v = { v } elseif ok and getmetatable(v) == df.Tensor and v.rank == 1 then v = v:totable() else v = {} end
          for _, x in ipairs(v) do t.values[#t.values + 1] = x end
        end
      end
    end
    h:wait()
    return list
  end

  --- All stops of a run at a breakpoint, but for one at the last token.
  local function stops(seed, spec, p, last)
    local h, found = start(seed, { p = p }), {}
    h:break_at(spec)
    h:resume()
    for stop in function() return h:settle() end do
      found[#found + 1] = key(stop)
      h:resume()
    end
    h:wait()
    if found[#found] == key(last) then found[#found] = nil end
    return found
  end

  for what, c in pairs{
    ['where a NaN is made'] = { spec = { nan = true }, p = math.huge, fits = function(v) return v ~= v end },
    ['where an infinity is made'] = { spec = { inf = true }, p = -math.huge, fits = function(v) return v == math.huge or v == -math.huge end },
    ['where a value fits an expression'] = { spec = { op = '.*Mul.*', when = function(v) return type(v) == 'number' and v > 0.1 end },
      fits = function(v) return v > 0.1 end, pattern = 'Mul' },
  } do
    require('spec.support').next_it(host_it, pending)(what .. ' are met where the values say, in gradient loops too', function()
      local n, backward = 0, 0
      for _, seed in ipairs(seeds) do
        local list, expected = made(seed, c.p), {}
        for i = 1, #list - 1 do
          local t = list[i]
          local fits = false
          for _, v in ipairs(t.values or {}) do fits = fits or c.fits(v) end
          if fits and (not c.pattern or t.op.name:find(c.pattern, 1, true)) then
            expected[#expected + 1] = key(t)
            if t.op.name:match('^gradients') and t.frame_id > 0 then backward = backward + 1 end
          end
        end
        assert.same(expected, stops(seed, c.spec, c.p, list[#list]))
        n = n + #expected
      end
      assert.is_true(n > 100 and backward > 5, n .. ' hits, ' .. backward .. ' of them in gradient loops')
    end)
  end
end)
