--- Everything that may be asked of a run is asked of each node of six programs wherever they stand. The answers agree with each other, with what was
-- said before and with what comes of the run; and its results do not show that a run was asked.
-- run: first
local df = require 'dflow'
local ordered_it = require('spec.support').ordered_it(it, pending)

local function plain(v)
  if df.type(v) == 'tensor' then v = v:reshape{ -1 }:totable() end
  if type(v) == 'number' then return ('%.6g'):format(v) end
  if type(v) ~= 'table' then return tostring(v) end
  local list = {}
  for i, x in ipairs(v) do list[i] = plain(x) end
  return '[' .. table.concat(list, ' ') .. ']'
end

-- ---- the programs -----------------------------------------------------------------------------------------------------
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

local programs = { nested = nested, arrays = arrays, effects = effects, cut = cut, far = cut, functions = functions }

-- ---- what is asked ----------------------------------------------------------------------------------------------------
--- What a call gives as text, or its error's message and true. An error of another kind is none that may come.
local function answer(fn, ...)
  local ok, v, how = pcall(fn, ...)
  if ok then return how == 'dead' and 'dead' or plain(v), false, v end
  assert(type(v) == 'table' and v.code and type(v.message) == 'string', tostring(v))
  return v.message, true, v
end

--- What is true of an op at one place: both questions about it, and its value.
local function asked(h, op, tag)
  local why, none = answer(h.why, h, op, tag)
  local whynot, nor = answer(h.whynot, h, op, tag)
  local value, missing = nil, true
  if op.outputs[1] then value, missing = answer(h.value, h, op.outputs[1], tag) end
  local at = op.name .. (tag and ' @ ' .. tag or '') .. '\n' .. why .. '\n' .. whynot .. '\n' .. tostring(value)
  local ran = whynot:find 'it has run' ~= nil
  local is = not none and why:match '^%S+ is ([^\n]*) = ' or why:match '^%S+ @ %S+ is ([^\n]*) = '
  local dead = not none and (why:find ' is dead' ~= nil)
  local one, other = why:match '^%S+ @ (%S+)', whynot:match '^%S+ @ (%S+)'
  if not none and not nor and one == other then
    assert(not (is and dead), at)
    local may = whynot:find 'it hands on'
    if is then assert(ran or may or whynot:find 'is known before the run', at) end
    if dead then assert(whynot:find 'it is dead; ask why' or may or whynot:find 'is ready and runs soon', at) end
    if whynot:find('it is dead; ask why', 1, true) then assert(dead, at) end
  end
  if value and not missing and value ~= 'dead' and is and not value:find '^%[' and tonumber(value) and tonumber(is) and not tag then
    local elsewhere = why:match '^%S+ @ (%S+) is'
    local there = elsewhere and answer(h.value, h, op.outputs[1], elsewhere) or value
    assert(math.abs(tonumber(is) - (tonumber(there) or tonumber(is))) <= 1e-4 * (1 + math.abs(tonumber(is))), at)
  end
  if value == 'dead' and not none then assert(dead or not is, at) end
  return why .. '\n' .. whynot .. '\n' .. tostring(value), { ran = ran and not nor, dead = dead, is = is, whynot = whynot, none = none }
end

local function check_tokens(h, g)
  local tokens, by_op, total = h:tokens(), {}, 0
  local at = {}
  for _, t in ipairs(tokens) do
    by_op[t.op.name] = (by_op[t.op.name] or 0) + 1
    assert(t.state == 'ready' and t.missing == 0 or t.state == 'partial' and t.missing > 0 or t.state == 'running', t.op.name .. t.state)
    local key = t.tag .. ' ' .. t.state
    at[key] = (at[key] or 0) + 1
  end
  for _, op in ipairs(g:ops()) do
    local own = h:tokens(op)
    assert.equal(by_op[op.name] or 0, #own)
    for _, t in ipairs(own) do assert.equal(op.name, t.op.name) end
    total = total + #own
  end
  assert.equal(#tokens, total)
  local frames = h:frames()
  local text = tostring(frames)
  for _, f in ipairs(frames) do
    local partial, outstanding = 0, 0
    for _, it in ipairs(f.iterations) do
      assert.is_true(it.number >= f.first and it.number < f.next)
      local tag = f.tag == '' and '' or f.tag .. ':' .. it.number
      assert.equal(it.ready, it.live + it.dead)
      assert.equal(at[tag .. ' ready'] or 0, it.ready, tag)
      assert.equal(at[tag .. ' partial'] or 0, it.partial, tag)
      assert.is_true(it.outstanding >= it.ready)
      partial, outstanding = partial + it.partial, outstanding + it.outstanding
    end
    assert.equal(partial, f.waiting)
    assert.equal(f.next - f.first, f.in_flight)
    assert.equal(f.in_flight, #f.iterations)
    assert.is_true(f.in_flight <= f.limit)
    for _, child in ipairs(f.children) do assert.equal(f, child.parent) end
    local said = tostring(f)                                               -- its line of the tree says what its fields say
    assert.is_truthy(text:find(said, 1, true), text)
    assert.equal(1, said:find(f.parent and f.tag or 'top level', 1, true))
    if f.parent and f.enters_missing > 0 then assert.is_truthy(said:find(('has not begun: %d of its inputs'):format(f.enters_missing), 1, true), said)
    elseif f.parent then assert.is_truthy(said:find(('iterations %d-%d in flight (%d of %d)'):format(f.first, f.next - 1, f.in_flight, f.limit), 1, true), said) end
    for field, what in pairs{ live = 'live token', dead = 'dead token', waiting = 'nodes? with some of' } do
      assert.equal(f[field] > 0 and f[field] or nil, tonumber(said:match('(%d+) ' .. what)), said)
    end
    assert.equal(#f.stacks > 0 and #f.stacks or nil, tonumber(said:match '(%d+) stack'), said)
    local devices = ' ' .. table.concat(f.devices, ' ') .. ' '
    for _, p in ipairs(f.partitions) do
      assert.is_truthy(devices:find(' ' .. p.device .. ' ', 1, true), devices)
      assert.is_true(p.iteration == nil or p.iteration >= f.first and p.iteration < f.next)
    end
    for _, s in ipairs(f.stacks) do
      assert.is_true(s.depth <= s.size or s.size == 0)
      if s.depth == 0 then assert.equal(0, s.bytes) end
    end
  end
  return frames, tokens
end

local function bits(results)
  local list = {}
  for i, v in ipairs(results) do list[i] = plain(v) end
  return table.concat(list, ' ')
end

local SLOW = { 'cpu:0', { 'sim:0', latency = '1ms' }, { 'sim:1', latency = '2ms', bandwidth = '1MB/s' } }

describe('a paused run', function()
  for _, case in ipairs{ { 'nested', 37, 5 }, { 'nested', 7, 2 }, { 'arrays', 9, 8 }, { 'effects', 6, 10 }, { 'cut', 5, 12 }, { 'far', 3, 12 }, { 'functions', 2, 6 } } do
    local name, each, stops = case[1], case[2], case[3]
    ordered_it(('answers for all its nodes, and comes to what it would: %s, every %d tokens'):format(name, each), function()
      --- A run of the program that is paused before its first token.
      local function started(values)
        df.reset()
        local fetches, feeds = programs[name]()
        local s = df.Session{ devices = name == 'far' and SLOW or { 'cpu:0', 'sim:0', 'sim:1' }, threads = 1, clock = name == 'far' and 'virtual' or nil }
        return s:start(fetches, feeds, { paused = true, values = values }), s
      end
      local function ended(h)
        h:resume()
        local ok, v = pcall(h.wait, h)
        return ok and bits(v) or v.code .. ': ' .. v.message
      end
      local plain_run, plain_session = started()
      local expected = ended(plain_run)
      plain_session:close()

      local h, s = started(true)
      local g = df.default_graph()
      local ran, seen = {}, 0
      for _ = 1, stops do
        h:step(each)
        if h:state() == 'done' then break end
        local frames, tokens = check_tokens(h, g)
        local states, text = {}, {}
        for _, op in ipairs(g:ops()) do
          text[op.name], states[op.name] = asked(h, op)
          seen = seen + 1
          if #op.outputs > 0 and states[op.name].none then
            assert.is_truthy(text[op.name]:find(op.name, 1, true) or text[op.name]:find '`', text[op.name])
          end
        end
        for _, op in ipairs(g:ops()) do assert.equal(text[op.name], (asked(h, op))) end          -- asking changes no answer
        for _, t in ipairs(tokens) do                                        -- a token that is ready runs soon; one that is not waits for something
          local _, state = asked(h, t.op, t.tag)
          local soon, inside = state.ran, t.op.name:find '^f/'                 -- a function's own nodes are not asked about
          for _, words in ipairs{ 'is ready and runs soon', 'it hands on', 'is known before' } do soon = soon or state.whynot:find(words, 1, true) end
          if t.state == 'ready' then assert.is_truthy(soon or inside, t.op.name .. ': ' .. state.whynot)
          elseif t.state == 'partial' and not state.ran then
            assert.is_truthy(state.whynot:find 'waits for' or state.whynot:find 'hands on' or state.whynot:find 'on its way' or inside, t.op.name .. state.whynot)
          end
        end
        for n = 1, 3 do                                                      -- what ran has run
          local t = h:back(n)
          if t then ran[t.tag .. ' ' .. t.op.name] = { t.op, t.tag, t.dead } end
        end
        local open = { [''] = true }
        for _, f in ipairs(frames) do for i = f.first, f.next - 1 do open[f.tag == '' and '' or f.tag .. ':' .. i] = true end end
        for _, r in pairs(ran) do
          if open[r[2]] and not r[1].name:find '^f/' then
            local text_at, state = asked(h, r[1], r[2])
            assert.is_truthy(state.none or state.ran or state.whynot:find 'hands on' or state.whynot:find 'known before', r[1].name .. ' @ ' .. r[2] .. ': ' .. text_at)
          end
        end
        local ok, e = pcall(h.why, h, g:ops()[1], 'nowhere:77')
        assert.is_false(ok)
        assert.is_truthy(e.message:find('nowhere:77', 1, true), e.message)
      end
      assert.equal(expected, ended(h))
      assert.is_true(seen > 20)
      for _, op in ipairs(g:ops()) do
        local text, state = asked(h, op)
        local known = text:find 'not part of this run' or text:find 'known before' or text:find 'hands on'
        assert.is_truthy(state.none or state.ran or state.dead or known or expected:find ': ', op.name .. text)
      end
      s:close()
    end)
  end
end)
