--- Sessions: fetches, feeds, variables' values, runs in the background, graphs.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of

describe('run', function()
  it('gives the structure of what is fetched', function()
    local x = df.constant({ 1.0, 2.0 })
    local r = df.run{ x, total = x:reduce_sum(), inner = { { x[0] } } }
    near(r[1], { 1, 2 })
    same(r.total, 3)
    same(r.inner, { { 1 } })
    same(df.run{ x[0] }, { 1 })
    same(df.run{ a = x[1] }, { a = 2 })
    assert.same({}, df.run{})
  end)

  it('fetches the operation that ends a loop, but none inside it', function()
    local v, inner = df.Variable(0.0), nil
    local i, y = df.while_loop(function(i) return i:lt(5) end, function(i, y)
      v:assign_add(1)
      inner = df.while_loop(function(j) return j:lt(2) end, function(j) return j + 1 end, { df.int32(0) })
      return i + df.minimum(inner, 1), y * 2
    end, { df.int32(0), df.float32(1) })
    same(df.run(y.op), true)
    same(df.run(v), 5)
    same(df.run{ i.op, y, y.op }, { true, 32, true })
    same(df.run(v), 10)
    assert.matches('inside the loop', message_of(df.run, inner.op))
  end)

  it('fetches operations as true, and variables as their values', function()
    local v = df.Variable(3.0)
    local r = df.run{ v, df.no_op(), group = df.group(v:assign(4.0)) }
    assert.is_true(r[2])
    assert.is_true(r.group)
    same(df.run(v), 4)
  end)

  it('takes feeds of numbers, booleans, strings, tables and Tensors', function()
    local f, i, b = df.placeholder('float32', {}), df.placeholder('int64', { -1 }), df.placeholder('bool', {})
    local s, h = df.placeholder('string', {}), df.placeholder('float16', {})
    same(df.run(f + 1, { [f] = 2 }), 3)
    same(df.run(i + 1, { [i] = { 1, 2 } }), { 2, 3 })
    same(df.run(i + 1, { [i] = df.tensor({ 5 }, 'int64') }), { 6 })
    same(df.run(df.logical_not(b), { [b] = true }), false)
    same(df.run(df.identity(s), { [s] = 'hello' }), 'hello')
    same(df.run(h * 2, { [h] = 1.5 }), 3)
    local d = df.placeholder_with_default(7.0, {})
    same({ df.run(d + 1), df.run(d + 1, { [d] = 1 }) }, { 8, 2 })
  end)

  it('takes a feed for any Output, and then does not compute it', function()
    local x = df.placeholder('float32', {})
    local y = x * 2
    same(df.run(y + 1, { [y] = 10 }), 11)
  end)

  it('refuses feeds that lose something, have another dtype or shape, or are missing', function()
    local i, v = df.placeholder('int32', {}, 'i'), df.placeholder('float32', { 2 }, 'v')
    assert.matches('0%.5.*i:0.*int32', message_of(df.run, i, { [i] = 0.5 }))
    assert.matches('int32', message_of(df.run, i, { [i] = 'a' }))
    assert.matches('int32', message_of(df.run, i, { [i] = true }))
    assert.matches("astype%('int32'%)", message_of(df.run, i, { [i] = df.tensor({ 1 }, 'float32') }))
    assert.matches('float32%[3%].*float32%[2%]', message_of(df.run, v, { [v] = { 1, 2, 3 } }))
    assert.matches('`i`', message_of(df.run, i))
    assert.matches('not_found', (select(2, pcall(df.run, i, { nothing = 1 }))).code)
    assert.matches('number 3', message_of(df.run, 3))
    assert.matches('nothing to fetch', message_of(df.run, nil))
    assert.matches("no option 'timout'", message_of(df.run, i, { [i] = 1 }, { timout = 1 }))
  end)

  it('prunes to what the fetches need', function()
    local v = df.Variable(0.0)
    local x = df.constant(1.0)
    v:assign(5.0)
    same(df.run(x), 1)
    same(df.run(v), 0)
  end)

  it('compiles once per signature, and building more invalidates nothing', function()
    local s = df.Session{}
    local x = df.placeholder('float32', {})
    local y = x + 1
    s:run(y, { [x] = 1 })
    local before = s:plans()
    local _ = y * 2
    for k = 1, 5 do same(s:run(y, { [x] = k }), k + 1) end
    assert.equal(before, s:plans())
  end)

  it('leaves the session usable when it fails', function()
    local i = df.placeholder('int32', {})
    local y = df.floordiv(10, i)
    assert.matches('division by zero', message_of(df.run, y, { [i] = 0 }))
    same(df.run(y, { [i] = 5 }), 2)
  end)

  it('is also a method: x:eval(feeds)', function()
    local x = df.placeholder('float32', {})
    same((x * 2):eval{ [x] = 4 }, 8)
    same(df.Variable(2.0):eval(), 2)
  end)
end)

describe('a Variable', function()
  it('may be initialised from another one', function()
    local a = df.Variable(3.0)
    local b = df.Variable(a * 2)
    same(df.run(b), 6)
  end)

  it('is usable wherever an Output is', function()
    local v = df.Variable({ 1.0, 2.0 })
    near(df.run(v + 1), { 2, 3 })
    near(df.run(2 * v), { 2, 4 })
    near(df.run(-v), { -1, -2 })
    near(df.run(v[1]), 2)
    near(df.run(v:reduce_sum()), 3)
    near(df.run(df.concat({ v, v }, 0)), { 1, 2, 1, 2 })
    near(df.run(df.gradients(v * v, v)), { 2, 4 })
  end)

  it('is read where it is used: after an assign under control dependencies', function()
    local v = df.Variable(1.0)
    local set = v:assign(5.0)
    local after = df.control_dependencies({ set }, function() return v + 0 end)
    same(df.run(after), 5)
    df.init()
    local value = df.control_dependencies({ v:assign(7.0) }, function() return v:value() end)
    same(df.run(value), 7)
  end)

  it('is listed when trainable', function()
    local a, b = df.Variable(1.0), df.Variable(2.0, { trainable = false })
    assert.same({ a }, df.trainable_variables())
    assert.same({ a, b }, df.global_variables())
  end)
end)

describe('a Session', function()
  it('says which iteration of which loop it was in when its time was up', function()
    local endless = df.while_loop(function() return df.constant(true) end, function(i) return i + 1 end, { df.int32(0) }, { name = 'endless' })
    local ok, err = pcall(df.run, endless, nil, { timeout = 0.02 })
    assert.is_false(ok)
    assert.equal('deadline_exceeded', err.code)
    assert.matches('^endless:%d+$', err.frame)
  end)

  it('takes threads, engine and timeout', function()
    local s = df.Session{ threads = 1, engine = 'tokens', timeout = 5, devices = { 'cpu:0' } }
    same(s:run(df.constant(1.0)), 1)
    same(s(df.constant(2.0)), 2)
    s:close()
    s:close()
    assert.equal('failed_precondition', (select(2, pcall(s.run, s, df.constant(1.0)))).code)
  end)

  it('refuses what it does not know', function()
    assert.matches("did you mean 'threads'", message_of(df.Session, { thread = 1 }))
    assert.matches('whole number', message_of(df.Session, { threads = 0 }))
    assert.matches('engine', message_of(df.Session, { engine = 'steam' }))
    assert.matches("no device 'tpu:0'", message_of(df.Session, { devices = { 'tpu:0' } }))
    assert.matches('timeout', message_of(df.Session, { timeout = -1 }))
  end)

  it('runs in the background: wait, done, cancel, stats', function()
    local x = df.placeholder('float32', {})
    local h = df.start({ y = x * 2 }, { [x] = 4 })
    same(h:wait(), { y = 8 })
    same(h:wait(), { y = 8 })
    assert.is_true(h:done())
    assert.equal(1, h:stats().runs)
    local bad = df.start(df.floordiv(df.int32(1) * df.cast(x, 'int32'), 0), { [x] = 1 })
    assert.matches('division by zero', message_of(bad.wait, bad))
    assert.matches('division by zero', message_of(bad.wait, bad))
  end)

  it('counts', function()
    local s = df.Session{}
    local i = df.while_loop(function(i) return i:lt(10) end, function(i) return i + 1 end, { df.int32(0) })
    s:run(i)
    s:run(i)
    local stats = s:stats()
    assert.equal(2, stats.runs)
    assert.equal(20, stats.iterations)
    assert.equal(2, stats.frames)
    assert.is_true(stats.nodes_run > 20)
    assert.equal('number', type(stats.memory['cpu:0'].peak))
    assert.equal(0, stats.swap.bytes_out)
  end)

  it('makes the session of x:eval while as_default runs', function()
    local v = df.Variable(1.0)
    local s = df.Session{}
    s:run(v:assign(9.0))
    same(s:as_default(function() return v:eval() end), 9)
    same(v:eval(), 1)
  end)
end)

describe('Ctrl-C', function()
  it('cancels the run that a plain Lua waits for, and the program goes on', function()
    local mode = os.getenv 'DFLOW_MODE'
    if mode == 'asan' or mode == 'tsan' or mode == 'ubsan' then return pending('a plain Lua cannot load a sanitized library') end
    local lua = os.getenv 'DFLOW_LUA' or (rawget(_G, 'jit') and 'luajit' or 'lua5.4')
    local shell = require 'spec.shell'
    local r = shell.interrupted('INT', ("env LUA_PATH='%s' LUA_CPATH='%s' %s"):format(package.path, package.cpath, lua), [[
      local df = require 'dflow'
      local i = df.while_loop(function(i) return i:ge(0) end, function(i) return (i + 1) % 100 end, { df.int32(0) })
      ready()
      local ok, e = pcall(df.run, i)
      print(ok, e.code, df.run(df.constant('alive')))
    ]])
    assert.equal('false\tcancelled\talive\n', r.out, r.err)
  end)
end)

describe('a Graph', function()
  it('is built in while as_default runs, also when that fails', function()
    local g = df.Graph()
    local x = g:as_default(function() return df.constant(4.0, nil, nil) * 2 end)
    assert.equal(g, x.graph)
    same(df.run(x), 8)
    assert.matches('boom', message_of(g.as_default, g, function() error('boom') end))
    assert.are_not.equal(g, df.default_graph())
    assert.equal(df.default_graph(), df.constant(1.0).graph)
  end)

  it('does not mix with another', function()
    local x = df.Graph():as_default(function() return df.constant(1.0) end)
    assert.matches('another graph', message_of(function() return x + df.constant(1.0) end))
    assert.matches('another graph', message_of(df.run, { df.constant(1.0), x }))
  end)

  it('has scopes, devices and control dependencies, which return what their functions return', function()
    local a, b = df.name_scope('outer', function()
      return df.constant(1.0), df.name_scope('inner', function() return df.constant(2.0) end)
    end)
    assert.equal('outer/Const', a.op.name)
    assert.equal('outer/inner/Const', b.op.name)
    assert.equal(3, df.device('cpu:0', function() return 3 end))
    assert.matches('a device is a name', message_of(df.device, 7, function() end))
    assert.equal(4, df.colocate_with(a, function() return 4 end))
    local v = df.Variable(df.int32(0))
    local one = v:assign_add(1)
    local two = df.control_dependencies({ one }, function() return v:assign_add(10) end)
    same(df.run(two), 11)
    assert.matches('boom', message_of(df.control_dependencies, { one }, function() error('boom') end))
    same(df.run(df.constant(1.0)), 1)
  end)

  it('is replaced by df.reset', function()
    local g = df.default_graph()
    local x = df.constant(1.0)
    df.reset()
    assert.are_not.equal(g, df.default_graph())
    assert.equal(g, x.graph)
  end)

  it('gives runs in the background numbers of their own, in the order of their starts', function()
    df.set_random_seed(5)
    local x = df.random_uniform({ 3 })
    local s1, s2 = df.Session{}, df.Session{}
    local one_by_one, started, handles = {}, {}, {}
    for i = 1, 4 do one_by_one[i] = s1:run(x):totable() end
    for i = 1, 4 do handles[i] = s2:start(x, nil, { paused = true }) end
    for i = 4, 1, -1 do
      handles[i]:resume()
      started[i] = handles[i]:wait():totable()
    end
    assert.same(one_by_one, started)
    assert.are_not.same(started[1], started[2])
  end)

  it('makes a seed give the same numbers in every new session', function()
    df.set_random_seed(5)
    local x = df.random_uniform({ 3 })
    local s1, s2 = df.Session{}, df.Session{}
    local a, b = s1:run(x):totable(), s1:run(x):totable()
    assert.same(a, s2:run(x):totable())
    assert.same(b, s2:run(x):totable())
    assert.are_not.same(a, b)
  end)
end)

describe('the peak of memory', function()
  local MB = 1048576

  it('of a session is that of its own runs, of a run that run alone, on the host', function()
    local n = df.placeholder('int32', {})
    local y = df.reduce_sum(df.ones(n:expand_dims(0)) * 2)
    local large, small = df.Session{}, df.Session{}
    assert.equal(2e7, large:run(y, { [n] = 10000000 }))
    small:run(y, { [n] = 5 })
    local before = small:stats().memory['cpu:0'].in_use
    assert.is_true(large:stats().memory['cpu:0'].peak > 36 * MB)
    assert.is_true(small:stats().memory['cpu:0'].peak < before + MB)
    local function run(size) local h = large:start(y, { [n] = size }) h:wait() return h:stats().memory['cpu:0'].peak end
    assert.is_true(run(5) < before + MB)
    assert.is_true(run(10000000) > 36 * MB)
    assert.is_true(run(5) < before + MB)
    df.reset_peak_memory()
    assert.is_true(large:stats().memory['cpu:0'].peak < before + MB)
    run(10000000)
    assert.is_true(large:stats().memory['cpu:0'].peak > 36 * MB)
    assert.is_true(small:stats().memory['cpu:0'].peak < before + MB)
  end)

  it('of a run and of a session is told of devices that have memory of their own, too, and begins anew there', function()
    local n = df.placeholder('int32', {})
    local y = df.device('sim:0', function() return df.reduce_sum(df.ones(n:expand_dims(0)) * 2) end)
    local s = df.Session{ devices = { 'cpu:0', 'sim:0' } }
    local function run(size) local h = s:start(y, { [n] = size }) h:wait() return h:stats().memory['sim:0'].peak end
    assert.is_true(run(1000000) >= 4e6)
    assert.is_true(run(5) < 1e5)
    assert.is_true(s:stats().memory['sim:0'].peak >= 4e6)
    df.reset_peak_memory()
    assert.is_true(s:stats().memory['sim:0'].peak < 1e5)
  end)

  it('of a run that goes on is what it has been until now', function()
    local n = df.placeholder('int32', {})
    local big = df.reduce_sum(df.ones(n:expand_dims(0)) * 2)
    local h = df.start(big + 1, { [n] = 10000000 }, { paused = true })
    local before = h:stats().memory['cpu:0'].peak
    h:break_at{ op = 'Add' }
    h:resume()
    h:settle()
    assert.is_true(h:stats().memory['cpu:0'].peak > before + 36 * MB)
    h:cancel()
    pcall(h.wait, h)
  end)
end)
