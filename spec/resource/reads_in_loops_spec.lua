-- A variable read in a loop is read in each iteration, whether or not the loop assigns it: another run may, or another loop.
local df = require 'dflow'
local near = require('spec.support').near

local function int(n) return df.int32(n) end

--- A loop that assigns 0, 1, 2 … to v, one number for each token of `asked`, and tells `done`; the other side of a conversation.
local function writer(v, n)
  local asked, done = df.FIFOQueue(1, { 'int32' }, { shapes = { {} } }), df.FIFOQueue(1, { 'int32' }, { shapes = { {} } })
  local write = df.while_loop(function(i) return i:lt(n) end, function(i)
    asked:dequeue()
    v:assign(df.cast(i, v.dtype))
    done:enqueue(i)
    return i + 1
  end, { int(0) })
  local function ask()
    asked:enqueue(int(0))
    return done:dequeue()
  end
  return write, ask
end

local ways = {
  { 'a bare mention', function(v) return v * 1 end },
  { 'value', function(v) return v:value() end },
  { 'read_value', function(v) return v:read_value() end },
  { 'a mention in a branch', function(v) return df.cond(v:ge(0), function() return v + 0 end, function() return -v end) end },
  { 'a loop within', function(v)
    local _, x = df.while_loop(function(k) return k:lt(1) end, function(k, x) return k + 1, x + v end, { int(0), v - v })
    return x
  end },
  { 'map_fn', function(v) return df.reduce_sum(df.map_fn(function(x) return x * v end, df.cast(df.constant { 1 }, v.dtype))) end },
}

describe('a variable read in a loop that does not assign it', function()
  for _, way in ipairs(ways) do
    it('is read in each iteration, by ' .. way[1], function()
      local v = df.Variable(df.float32(-1))
      local write, ask = writer(v, 3)
      local _, seen = df.while_loop(function(i) return i:lt(3) end, function(i, seen)
        ask()
        return i + 1, seen:write(i, way[2](v))
      end, { int(0), df.TensorArray('float32', 3) })
      local r = df.run { seen:stack(), write }
      assert.are.same({ 0, 1, 2 }, r[1]:totable())
    end)
  end

  it('is seen in the predicate, and by one that spins: an assign of another run ends the loop', function()
    for _, way in ipairs { ways[1], ways[2], ways[3] } do
      local v = df.Variable(df.float32(0))
      local up = v:assign_add(1)
      df.run(v)
      local n = df.while_loop(function() return way[2](v):lt(5) end, function(i) return i + 1 end, { int(0) })
      local h = df.start(n, nil, { timeout = 30 })
      for _ = 1, 5 do df.run(up) end
      assert(h:wait() >= 0)
    end
  end)

  it('is seen in the body by a loop that spins', function()
    local v = df.Variable(df.float32(0))
    local put = v:assign(7)
    df.run(v)
    local _, x = df.while_loop(function(_, x) return x:eq(0) end, function(i, _) return i + 1, v * 1 end, { int(0), df.float32(0) })
    local h = df.start(x, nil, { timeout = 30 })
    df.run(put)
    assert.are.equal(7, h:wait())
  end)

  it('may be a tensor that grows', function()
    local v = df.Variable(df.zeros { 1 }, { shape = { -1 } })
    local put = v:assign(df.placeholder('float32', { -1 }, 'p'))
    df.run(v)
    local _, x = df.while_loop(function(_, n) return n:lt(3) end, function(i, _) return i + 1, df.size(v) end, { int(0), int(0) })
    local h = df.start(x, nil, { timeout = 30 })
    df.run(put, { [df.default_graph():output('p')] = { 1, 2, 3 } })
    assert.are.equal(3, h:wait())
  end)

  it('gives one value to all that one read is used for', function()
    local v = df.Variable(df.float32(0))
    local up = v:assign_add(1)
    df.run(v)
    local _, bad = df.while_loop(function(i) return i:lt(20000) end, function(i, bad)
      local r = v:value()
      return i + 1, bad + df.cast(r:ne(r), 'int32') + df.cast((r - r):ne(0), 'int32') + df.cast(v:ne(v), 'int32')
    end, { int(0), int(0) })
    local h = df.start(bad)
    for _ = 1, 200 do df.run(up) end
    assert.are.equal(0, h:wait())
  end)

  it('gives a tensor as a whole, to two runs that read while a third changes it in place and anew', function()
    local v = df.Variable(df.zeros{ 64 })
    local up, put, place = v:assign_add(df.ones{ 64 }), v:assign(df.fill({ 64 }, 5.0)), df.scatter_update(v, df.range(0, 64), df.zeros{ 64 })
    df.run(v)
    local _, bad = df.while_loop(function(i) return i:lt(20000) end, function(i, bad)
      local r = v:value()
      return i + 1, bad + df.reduce_sum(df.cast(r:ne(r[0]), 'int32'))
    end, { int(0), int(0) })
    local h, k = df.start(bad), df.start(bad)
    for _ = 1, 100 do
      df.run(up)
      df.run(put)
      df.run(place)
    end
    assert.are.same({ 0, 0 }, { h:wait(), k:wait() })
    assert.are.same(0, df.run(v:reduce_sum()))
  end)

  it('hands on a small tensor that was read again and again: out of the loop, into loops and arrays, past what is assigned later', function()
    local v = df.Variable { 1.0, 2.0, 3.0 }
    local up = v:assign_add { 1.0, 1.0, 1.0 }
    df.run(v)
    local _, last, sum, rows = df.while_loop(function(i) return i:lt(6) end, function(i, _, sum, rows)
      local r = v:value()
      local _, twice = df.while_loop(function(k) return k:lt(2) end, function(k, t) return k + 1, t + r end, { int(0), df.zeros_like(r) })
      return i + 1, r, sum + twice, rows:write(i, r)
    end, { int(0), df.zeros { 3 }, df.zeros { 3 }, df.TensorArray('float32', 6) })
    local all = rows:stack()
    for n = 1, 3 do
      local r = df.run { last, sum, all }
      df.run(up)
      assert.are.same({ n, n + 1, n + 2 }, r[1]:totable())
      assert.are.same({ 12 * n, 12 * (n + 1), 12 * (n + 2) }, r[2]:totable())
      for i = 1, 6 do assert.are.same({ n, n + 1, n + 2 }, r[3]:totable()[i]) end
    end
  end)

  it('reads many small variables, some of which the loop changes now and then, in every window', function()
    local n, trips = 40, 30
    for _, window in ipairs { 1, 10 } do
      df.reset()
      local vs = {}
      for k = 1, n do vs[k] = df.Variable(df.fill({ 4 }, df.float32(k))) end
      df.run(vs[1])
      local _, sum = df.while_loop(function(i) return i:lt(trips) end, function(i, sum)
        for k = 1, n do
          sum = sum + vs[k]
          if k % 4 == 0 then df.cond(df.mod(i, 7):eq(6), function() return vs[k]:assign_add(df.ones { 4 }) end, function() return vs[k]:value() end) end
        end
        return i + 1, sum
      end, { int(0), df.zeros { 4 } }, { parallel_iterations = window })
      local want, now = 0, {}
      for k = 1, n do now[k] = k end
      for i = 0, trips - 1 do
        for k = 1, n do
          want = want + now[k]
          if k % 4 == 0 and i % 7 == 6 then now[k] = now[k] + 1 end
        end
      end
      assert.are.same({ want, want, want, want }, df.run(sum):totable())
      assert.are.same(now[4], df.run(vs[4]):totable()[1])
    end
  end)

  it('leaves nothing behind when a loop that reads is cancelled, or fails', function()
    local v = df.Variable { 1.0, 2.0 }
    local put = v:assign { 5.0, 6.0 }
    df.run(v)
    local _, spins = df.while_loop(function(i) return df.reduce_sum(v:value()):lt(1e9) end, function(i, x) return i + 1, x + v end, { int(0), df.zeros { 2 } })
    local h = df.start(spins)
    h:cancel()
    assert.is_false((pcall(h.wait, h)))
    local _, fails = df.while_loop(function(i) return i:lt(9) end, function(i, x)
      return i + 1, df.control_dependencies({ df.assert(i:lt(5), { v:value() }) }, function() return x + v end)
    end, { int(0), df.zeros { 2 } })
    for _ = 1, 2 do assert.is_false((pcall(df.run, fails))) end
    df.run(put)
    assert.are.same({ 5, 6 }, df.run(v):totable())
  end)

  it('shares the reads of bare mentions between two side effects, and no further', function()
    local v = df.Variable(df.float32(0))
    local function reads(fn)
      local g = df.Graph()
      local n = 0
      g:as_default(function()
        local w = df.Variable(df.float32(1))
        df.while_loop(function(i) return i:lt(2) end, function(i) fn(w) return i + 1 end, { int(0) })
      end)
      for _, op in ipairs(g:ops()) do if op.type == 'ReadVariableOp' then n = n + 1 end end
      return n
    end
    assert.are.equal(1, reads(function(w) return w + w * w end))
    assert.are.equal(2, reads(function(w) return w:value() + w:value() end))
    assert.are.equal(2, reads(function(w) local a = w + 1; df.print(a); return w + a end))
    assert(v)
  end)

  it('keeps the reads and the assigns of a body in program order', function()
    local v = df.Variable(df.float32(10))
    local _, a, b = df.while_loop(function(i) return i:lt(3) end, function(i, a, b)
      local before = v * 1
      v:assign_add(1)
      return i + 1, a + before, b + v
    end, { int(0), df.float32(0), df.float32(0) })
    assert.are.same({ 33, 36 }, df.run { a, b })
  end)

  it('is read again after an inner loop that assigns it', function()
    local v = df.Variable(df.float32(1))
    local _, seen = df.while_loop(function(i) return i:lt(3) end, function(i, seen)
      local before = v + 0
      df.while_loop(function(k) return k:lt(2) end, function(k) v:assign(v * 2) return k + 1 end, { int(0) })
      return i + 1, seen:write(i, df.stack { before, v + 0 })
    end, { int(0), df.TensorArray('float32', 3) })
    assert.are.same({ { 1, 4 }, { 4, 16 }, { 16, 64 } }, df.run(seen:stack()):totable())
  end)

  it('can be waited for in the body', function()
    local v, log = df.Variable(df.float32(3)), df.Variable(df.float32(0))
    local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x)
      local read = v:value()
      return i + 1, x + df.control_dependencies({ read }, function() return log:assign_add(read) end)
    end, { int(0), df.float32(0) })
    assert.are.equal(3 + 6 + 9, df.run(x))
  end)

  it('costs nothing where the branch that reads it is not taken, and fails where it is not initialised', function()
    local g = df.import_graph_def [[
      node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } }
             attr { key: "shared_name" value { s: "v" } } attr { key: "container" value { s: "" } } }
      node { name: "read" op: "ReadVariableOp" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }
    ]]
    local loop
    g:as_default(function()
      local p = df.placeholder('bool', {}, 'p')
      local handle = g:output('v:0')
      local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x)
        return i + 1, df.cond(p, function() return x + df.cast(df.is_variable_initialized(handle), 'float32') end, function() return x + 1 end)
      end, { int(0), df.float32(0) })
      loop = x
    end)
    local s = df.Session { graph = g }
    assert.are.equal(3, s:run(loop, { [g:output('p')] = false }))
    assert.are.equal(0, s:run(loop, { [g:output('p')] = true }))
    s:close()
  end)
end)

describe('the gradient of a loop that reads a variable', function()
  for _, save in ipairs { 'keep', 'swap', 'recompute' } do
    it('uses the values that the iterations read, with save = ' .. save, function()
      local v = df.Variable(df.float32(-1))
      local n = 4
      local write, ask = writer(v, n)
      local x0 = df.float32(1.5)
      local _, x = df.while_loop(function(i) return i:lt(n) end, function(i, x)
        ask()
        return i + 1, df.sin(x) * (v + 2) + v:value()
      end, { int(0), x0 }, { save = save })
      local gx, gv = df.unpack(df.gradients(x, { x0, v }))
      local r = df.run { x, gx, gv, write }
      local u, dx, dv = 1.5, 1, 0
      for i = 0, n - 1 do
        dv = dv * math.cos(u) * (i + 2) + math.sin(u) + 1
        dx = dx * math.cos(u) * (i + 2)
        u = math.sin(u) * (i + 2) + i
      end
      assert.is_near(u, r[1], 1e-4)
      assert.is_near(dx, r[2], 1e-4)
      assert.is_near(dv, r[3], 1e-4)
    end)

    it('agrees with the loop that captures one read of outside, of orders 1 and 2, with save = ' .. save, function()
      local w = df.Variable(df.constant({ { 0.5, -0.2 }, { 0.1, 0.7 } }, 'float64'))
      local function build(read)
        local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x)
          local inside = df.cond((i % 2):eq(0), function() return df.tanh(x:matmul(read())) end, function() return x:matmul(read()) * read()[0] end)
          return i + 1, inside
        end, { int(0), df.constant({ { 1, 2 } }, 'float64') }, { save = save })
        local g = df.gradients(df.reduce_sum(x * x), w)
        return { x, g, df.gradients(df.reduce_sum(g * g), w) }
      end
      local outside = w:value()
      local a, b = df.run(build(function() return w end)), df.run(build(function() return outside end))
      for i = 1, 3 do near(a[i], b[i]:totable(), { rtol = 1e-12 }) end
    end)
  end

  it('stays sparse', function()
    local table = df.Variable(df.ones { 5, 2 })
    local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x) return i + 1, x + df.reduce_sum(df.gather(table, df.stack { i })) end,
                               { int(0), df.float32(0) })
    local g = df.gradients(x, table)
    assert(g.indices, 'it is dense')
    assert.are.same({ { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 } }, df.run(g + 0):totable())
  end)

  it('of a loop that spins is the gradient of the iterations that ran', function()
    local v = df.Variable(df.float32(0))
    local up = v:assign(1)
    df.run(v)
    local x0 = df.float32(3)
    local x = df.while_loop(function() return v:lt(1) end, function(x) return x + 0 end, { x0 })
    local g = df.gradients(x * x, x0)
    local h = df.start(g, nil, { timeout = 30 })
    df.run(up)
    assert.are.equal(6, h:wait())
  end)
end)

describe('an imported reference variable', function()
  local text = [[
    node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } }
           attr { key: "container" value { s: "" } } attr { key: "shared_name" value { s: "" } } }
    node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } } }
    node { name: "set" op: "Assign" input: "v" input: "p" attr { key: "T" value { type: DT_FLOAT } } }
  ]]

  it('is read in each iteration of a loop built on it', function()
    local g = df.import_graph_def(text)
    local v, p = g:output('v'), g:output('p')
    local s = df.Session { graph = g }
    local loops = {}
    g:as_default(function()
      loops[1] = df.while_loop(function(_) return v:lt(5) end, function(i) return i + 1 end, { int(0) })
      local _, x = df.while_loop(function(_, x) return x:lt(5) end, function(i, _) return i + 1, v * 1 end, { int(0), df.float32(0) })
      loops[2] = x
      local _, y = df.while_loop(function(_, x) return x:lt(5) end, function(i, _)
        return i + 1, df.cond((i % 2):eq(0), function() return v + 0 end, function() return v * 1 end)
      end, { int(0), df.float32(0) })
      loops[3] = y
    end)
    for _, loop in ipairs(loops) do
      s:run(g:op('set'), { [p] = 0 })
      local h = s:start(loop, nil, { timeout = 30 })
      s:run(g:op('set'), { [p] = 9 })
      h:wait()
    end
    s:close()
  end)

  it('keeps its reads among the effects of a body, and has the gradient of the values that the iterations read', function()
    local op = require('dflow.front.registry').op
    for _, save in ipairs { 'keep', 'recompute' } do
      df.reset()
      local v = op('VariableV2', {}, { dtype = 'float32', shape = {} })
      df.run(op('Assign', { v, df.float32(0) }))
      local asked, done = df.FIFOQueue(1, { 'int32' }, { shapes = { {} } }), df.FIFOQueue(1, { 'int32' }, { shapes = { {} } })
      local write = df.while_loop(function(i) return i:lt(3) end, function(i)
        asked:dequeue()
        op('Assign', { v, df.cast(i, 'float32') + 2 })
        done:enqueue(i)
        return i + 1
      end, { int(0) })
      local x0 = df.float32(1)
      local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x)
        asked:enqueue(int(0))
        done:dequeue()
        return i + 1, df.cond(i:lt(5), function() return x * v end, function() return x end)
      end, { int(0), x0 }, { save = save })
      local gx, gv = df.unpack(df.gradients(x, { x0, v }))
      local r = df.run { x, gx, gv, write }
      assert.are.same({ 24, 24, 12 + 8 + 6 }, { r[1], r[2], r[3] })
    end
  end)

  it('has the gradient of the value that was read', function()
    local g = df.import_graph_def(text)
    local v, p = g:output('v'), g:output('p')
    local s = df.Session { graph = g }
    g:as_default(function()
      local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x) return i + 1, x * v end, { int(0), df.float32(2) })
      s:run(g:op('set'), { [p] = 3 })
      assert.are.same({ 54, 54 }, s:run { x, df.gradients(x, v) })
    end)
    s:close()
  end)
end)
