-- engine = 'primitives': every node of the graph fires, as in the paper's figures, and the rest is the same.
local df = require 'dflow'
local ordered_it = require('spec.support').ordered_it(it, pending)
local shell = require 'spec.shell'

--- How many tokens ran of each op type, dead ones too.
local function fired(s, fetches)
  local h = s:start(fetches, nil, { log = true })
  h:wait()
  local ops, n = s.graph:ops(), {}
  require('dflow.inspect.events').each(h, function(_, _, _, _, node, _, _, kind)
    if kind == 0 then
      local type = ops[node + 1].type
      n[type] = (n[type] or 0) + 1
    end
  end)
  return n
end

local host_it = require('spec.support').host_it(it, pending)

describe('the engine that fires every primitive', function()
  local function loop()
    return df.while_loop(function(i) return i:lt(4) end, function(i, x)
      return i + 1, df.cond(i:gt(1), function() return x * 2 end, function() return x + 1 end)
    end, { df.int32(0), df.float32(1) })
  end

  ordered_it('fires the Merges of loop variables and the LoopCond once in each iteration', function()
    local i, x = loop()
    local n = fired(df.Session{ engine = 'primitives' }, { i, x })
    assert.equal(5, n.LoopCond)
    assert.equal(2 * 5 + 5, n.Merge)
    local tokens = fired(df.Session{ engine = 'tokens' }, { i, x })
    assert.is_nil(tokens.LoopCond)
    assert.equal(5, tokens.Merge)
  end)

  ordered_it('fires constants and Identities, at the top level once and in a body in each iteration', function()
    local k = df.identity(df.constant(3.0, { name = 'three' }), { name = 'k' })
    local i, x = df.while_loop(function(i) return i:lt(4) end, function(i, x)
      return i + 1, df.stop_gradient(df.identity(x * df.constant(2.0, { name = 'two' }), { name = 'same' }), { name = 'stop' }) + k
    end, { df.int32(0), df.float32(1) })
    local function firings(engine, name)
      local h = df.Session{ engine = engine }:start({ i, x }, nil, { log = true })
      assert.same({ 4, 61 }, h:wait())
      local ops, live, dead = df.default_graph():ops(), 0, 0
      require('dflow.inspect.events').each(h, function(_, _, _, _, node, _, _, kind, is_dead)
        if kind == 0 and ops[node + 1].name == name then
          if is_dead then dead = dead + 1 else live = live + 1 end
        end
      end)
      return live, dead
    end
    for name, n in pairs{ three = { 1, 0 }, k = { 1, 0 }, ['while/two'] = { 4, 1 }, ['while/same'] = { 4, 1 }, ['while/stop'] = { 4, 1 } } do
      assert.same(n, { firings('primitives', name) }, name)
      assert.same({ 0, 0 }, { firings('tokens', name) }, name)
    end
  end)

  it('can be stopped at a constant and an Identity, and tells why these are dead', function()
    local p = df.placeholder('float32', {})
    local y = df.cond(p:gt(0), function() return df.identity(p, { name = 'same' }) + df.constant(1.0, { name = 'one' }) end, function() return p end)
    local h = df.Session{ engine = 'primitives' }:start(y, { [p] = -2 }, { paused = true })
    h:break_at{ op = 'Const' }
    h:resume()
    local seen = {}
    while true do
      local stop = h:settle()
      if not stop or h:state() ~= 'paused' then break end
      seen[#seen + 1] = stop.op.name
      h:resume()
    end
    table.sort(seen)
    assert.same({ 'Const', 'cond/one' }, seen)
    assert.equal(-2, h:wait())
    h = df.Session{ engine = 'primitives' }:start(y, { [p] = -2 }, { remains = true })
    h:wait()
    assert.matches('cond/same:0 is dead', h:why('cond/same'), 1, true)
  end)

  it('gives what one device gives, where constants and Identities are on another', function()
    local x = df.constant{ 1.0, 2.0 }
    local y = df.device('sim:0', function() return df.identity(x * 2) + df.constant{ 1.0, 1.0 } end)
    local _, z = df.while_loop(function(i) return i:lt(3) end, function(i, z) return i + 1, df.device('sim:0', function() return df.identity(z) * 2 + 1 end) end,
                               { df.int32(0), y })
    local g = df.gradients(z, x)
    local here = df.Session{ engine = 'tokens' }:run{ y, z, g }
    local s = df.Session{ engine = 'primitives', devices = { 'cpu:0', 'sim:0' } }
    assert.same({ here[1]:totable(), here[2]:totable(), here[3]:totable() }, (function(r) return { r[1]:totable(), r[2]:totable(), r[3]:totable() } end)(s:run{ y, z, g }))
    s:close()
  end)

  it('gives what the other engines give, of nested loops and gradients, too', function()
    local v = df.float32(3)
    local _, z = df.while_loop(function(i) return i:lt(3) end, function(i, z)
      local _, w = df.while_loop(function(j) return j:lt(2) end, function(j, w)
        return j + 1, df.cond((i + j):floormod(2):eq(0), function() return w * v end, function() return w + v end)
      end, { df.int32(0), z })
      return i + 1, w
    end, { df.int32(0), v })
    local g = df.gradients(z, v)
    local rows = df.map_fn(function(r) return df.gradients(df.sin(r * r), r) end, df.float32{ 1, 2, 3 }):reduce_sum()
    local expected = df.Session{ engine = 'tokens' }:run{ z, g, df.gradients(g, v), rows }
    assert.same(expected, df.Session{ engine = 'primitives' }:run{ z, g, df.gradients(g, v), rows })
  end)

  it('can be stopped at a Merge and a LoopCond, and tells why', function()
    local _, x = loop()
    local h = df.Session{ engine = 'primitives' }:start(x, nil, { paused = true })
    h:break_at{ op = 'LoopCond', iteration = 2 }
    h:resume()
    local stop = h:settle()
    assert.equal('while/LoopCond', stop.op.name)
    assert.equal('while:2', stop.tag)
    h:unbreak()
    h:break_at{ op = 'while/Merge_1', iteration = 3 }
    h:resume()
    stop = h:settle()
    assert.equal('while/Merge_1', stop.op.name)
    h:step()
    assert.matches('while/Merge_1:0 @ while:3 is 6 = Merge', h:why('while/Merge_1', 'while:3'))
    h:ledger()
    h:cancel()
  end)

  it('keeps its books, and runs effects and queues as ever', function()
    local w = df.Variable(df.float32(0))
    local _, n = df.while_loop(function(i) return i:lt(5) end, function(i) return i + 1, w:assign_add(i:cast('float32')) end, { df.int32(0), df.float32(0) })
    local s = df.Session{ engine = 'primitives' }
    assert.equal(10, s:run(n))
    assert.equal(10, s:run(w))
  end)

  it('is an option of one run, on one device by the real clock', function()
    local x = df.constant(2) * 3
    for _, opts in ipairs{ { devices = { 'cpu:0', 'sim:0' } }, { devices = { 'cpu:0', 'sim:0' }, clock = 'virtual' } } do
      local s = df.Session(opts)
      local ok, e = pcall(s.start, s, x, nil, { primitives = true })
      assert.is_false(ok)
      assert.equal('invalid_argument', e.code)
      assert.matches(opts.clock and 'virtual clock' or 'more than one device', e.message)
      assert.equal(6, s:start(x, nil, { primitives = false }):wait())
      s:close()
    end
    assert.equal(6, df.Session():start(x, nil, { primitives = true }):wait())
  end)

  it('is refused by another name', function()
    local ok, e = pcall(df.Session, { engine = 'primitive' })
    assert.is_false(ok)
    assert.matches("'primitives'", e.message, 1, true)
  end)

  it('is :set primitives at the prompt, where variables keep their values', function()
    local out = shell.run(shell.dflow .. ' -E -i 2>&1', 'w = df.Variable(df.float32(1))\ndf.run(w:assign(5.0));\n:set primitives on\n:set engine\ndf.run(w)\n'
      .. 'i = while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)})\n:break LoopCond limit 1\ndf.run(i)\n:continue\n:set primitives shown\n:set primitives\n:set engine\n').out
    assert.matches('engine primitives\ndflow> 5.0\n', out, 1, true)
    assert.matches('breakpoint 1 before while/LoopCond (LoopCond) in while:0', out, 1, true)
    assert.matches('primitives shown\ndflow> engine auto', out, 1, true)
  end)

  it('is what runs fire that the prompt is to stop at a primitive, and :why tells where it stands', function()
    local loop = 'i = while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)})\n'
    local named = shell.run(shell.dflow .. ' -E -i 2>&1', loop .. ':break while/Merge\ndf.run(i)\n:cancel\n').out
    assert.matches('breakpoint 1 before [^\n]*while/Merge', named)
    local out = shell.run(shell.dflow .. ' -E -i 2>&1', loop .. ':break Merge\ndf.run(i)\n:continue\n:why\n:cancel\n:set engine\n').out
    assert.matches('before while/Merge (Merge) in while:0', out, 1, true)
    assert.matches('before while/Merge (Merge) in while:1', out, 1, true)
    assert.matches('(while/Merge:0) @ while:1\n  it is ready', out, 1, true)
    assert.matches('engine auto', out, 1, true)
  end)

  host_it('is what DFLOW_ENGINE says only where a session does not say it', function()
    local loop = "i = while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)})\n"
    local out = shell.run('DFLOW_ENGINE=tokens ' .. shell.dflow .. ' -E -i 2>&1', loop .. ':set engine\n:set engine auto\n:set engine\n'
      .. 'df.run(i);\nprint((df.default_session():native():gsub("^.*tokens: ", "")))\ns = df.Session{}\ns:run(i);\nprint((s:native():gsub("^.*tokens: ", "")))\n').out
    assert.matches("engine tokens\n", out, 1, true)
    assert.matches("engine auto\n", out, 1, true)
    local _, own = out:gsub("the session's engine is tokens", '')
    assert.equal(1, own)
  end)
end)
