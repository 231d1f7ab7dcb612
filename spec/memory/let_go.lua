--- Programs of every part of the library, which leaks.lua runs again and again: {name, fn}; fn leaves nothing behind that is not its graph's, its
-- session's or garbage.
local df = require 'dflow'
local random_program = require 'spec.random_program'

local at = { 0.7, -0.4, 0.3 }
local TWO = { 'cpu:0', 'sim:0', 'sim:1' }

--- fn(path) with a path that is removed afterwards, with all that begins like it.
local function with_path(fn)
  local path = os.tmpname()
  local ok, e = pcall(fn, path)
  os.execute(("rm -rf '%s' '%s'.* '%s'-*"):format(path, path, path))
  if not ok then error(e, 0) end
end

--- What must fail: a program that holds where it should not is no program of this list.
local function fails(fn, ...)
  local ok, e = pcall(fn, ...)
  assert(not ok and type(e) == 'table' and e.code, ('held, or ended with %s'):format(tostring(e)))
  return e
end

local function in_session(options, fn)
  local s = df.Session(options)
  local ok, e = pcall(fn, s)
  s:close()
  if not ok then error(e, 0) end
end

--- x goes round over two devices; a body that fails in iteration `bad`, where that is given.
local function ring(n, bad, opts)
  local _, x = df.while_loop(function(i) return i:lt(n) end, function(i, x)
    local y = df.device('sim:0', function() return x * 0.5 + 1 end)
    if bad then y = df.identity(df.gather(df.stack{ y, y, y }, df.minimum(i, 1) + df.cast(i:ge(bad), 'int32') * 7)) end
    return i + 1, df.device('sim:1', function() return df.tanh(y) + x end)
  end, { df.int32(0), df.float32(1) }, opts)
  return x
end

--- A random program with what it is asked for: y, its gradients, feeds.
local function program(seed, options)
  local p = random_program.make(seed, 2)
  local y, xs = random_program.build(df, p, nil, options)
  return y, xs, { [xs[1]] = at[1], [xs[2]] = at[2], [xs[3]] = at[3] }
end

local list = {}
local function add(name, fn) list[#list + 1] = { name, fn } end

for _, seed in ipairs{ 1, 2, 3, 5, 8, 13 } do
  add('placement ' .. seed, function() assert(not require('spec.random_placement').check(df, seed)) end)
  add('rows ' .. seed, function() assert(require('spec.random_rows').differences(df, seed, seed) == 0) end)
  add('arrays ' .. seed, function() assert(require('spec.random_arrays').differences(df, seed, seed) == 0) end)
  add('gradients ' .. seed, function() require('spec.random_gradients').check(seed) end)
  add('waits ' .. seed, function()
    local fetches, feeds = require 'spec.random_waits'(seed)
    df.run(fetches, feeds)
  end)
  add('check ' .. seed, function()
    local y, xs, feeds = program(seed)
    assert(df.check_gradients(y, xs, { feeds = feeds, order = 2 }))
  end)
  add('export ' .. seed, function()
    local y, xs, feeds = program(seed)
    local grads = df.gradients(y, xs, { unconnected = 'zero' })
    with_path(function(path)
      for _, name in ipairs{ path .. '.pb', path .. '.pbtxt' } do
        df.export_graph_def(name, { outputs = { y, grads[1] } })
        local h = df.import_graph_def(name)
        df.import_graph_def(name, { into = df.default_graph(), prefix = name:match '%w+$' })
        in_session({ graph = h }, function(s)
          local fed = {}
          for x, v in pairs(feeds) do if pcall(h.op, h, x.op.name or x.name) then fed[h:output(x.name)] = v end end
          s:run(h:output(y.name), fed)
        end)
      end
    end)
  end)
end

for owners = 1, 3 do
  add('owners ' .. owners, function()
    local x = ring(20)
    local w = df.Variable(0.5)
    local y = df.device('sim:1', function() return ring(5) * w end)
    in_session({ devices = TWO, owners = owners }, function(s) for _ = 1, 3 do s:run{ x, y, df.gradients(y, w) } end end)
  end)
  add('owners that fail ' .. owners, function()
    local x = ring(20, 11)
    in_session({ devices = TWO, owners = owners }, function(s) for _ = 1, 3 do fails(s.run, s, x) end end)
  end)
  add('owners that are watched ' .. owners, function()
    local x = ring(20)
    in_session({ devices = TWO, owners = owners }, function(s)
      local h = s:start(x, nil, { paused = true, record = true, values = true })
      h:settle()
      h:break_at{ iteration = 3 }
      h:step(5)
      local _ = { h:frames(), h:ledger(), h:history(), h:why(x), h:stats() }
      h:resume()
      h:settle()
      h:unbreak()
      h:resume()
      h:wait()
      h:whatif{ speed = 2 }
    end)
  end)
  add('owners that are stopped ' .. owners, function()
    local x = ring(1000000000)
    in_session({ devices = TWO, owners = owners }, function(s)
      local h = s:start(x)
      h:cancel()
      fails(h.wait, h)
      fails(s.run, s, x, nil, { timeout = 0.02 })
      s:start(x)                                             -- let go with its session
    end)
  end)
end

for _, save in ipairs{ 'keep', 'swap', 'recompute' } do
  add('a gradient that saves: ' .. save, function()
    local w = df.Variable(df.random_uniform({ 64, 64 }, { seed = 3 }))
    local _, y = df.while_loop(function(i) return i:lt(40) end, function(i, y)
      return i + 1, df.cond((i % 3):eq(0), function() return df.tanh(df.matmul(y, w)) end, function() return df.sin(y) end)
    end, { df.int32(0), df.ones{ 64, 64 } }, { save = save })
    local g = df.gradients(df.reduce_sum(y), w)
    in_session({ devices = { { 'cpu:0', memory = '4MB' } } }, function(s) pcall(s.run, s, g) end)
    in_session({ devices = TWO, clock = 'virtual' }, function(s) s:run(df.reduce_sum(g)) end)
  end)
end

for _, engine in ipairs{ 'tokens', 'native', 'auto' } do
  add('a hot loop: ' .. engine, function()
    local _, x, a = df.while_loop(function(i) return i:lt(3000) end, function(i, x, a)
      return i + 1, df.cond(x:gt(2), function() return x - 1.5 end, function() return x + 0.25 end), a:write(i, x)
    end, { df.int32(0), df.float32(1), df.TensorArray('float32', 3000) })
    local sum = a:stack():reduce_sum()
    in_session({ engine = engine }, function(s) for _ = 1, 2 do s:run{ x, sum } end end)
  end)
end

add('what is kept beside values', function()
  local q = df.FIFOQueue(10, { 'float32' })
  local p = df.PriorityQueue(10, 'string', { shapes = {} })
  local r = df.RandomShuffleQueue(10, { 'float32' }, { shapes = { {} }, min_after_dequeue = 1, seed = 3 })
  local padding = df.PaddingFIFOQueue(10, { 'float32' }, { shapes = { { -1 } } })
  in_session({}, function(s)
    for i = 1, 4 do
      s:run(q:enqueue(df.fill({ i }, 1.0)))
      s:run(p:enqueue(df.int64(5 - i), df.constant(('word'):rep(i))))
      s:run(r:enqueue(df.float32(i)))
      s:run(padding:enqueue(df.fill({ i }, 2.0)))
    end
    s:run{ q:dequeue(), r:dequeue(), (p:dequeue()), padding:dequeue_many(3) }
    s:run(q:close())
    fails(s.run, s, q:enqueue(df.fill({ 1 }, 1.0)))
    fails(s.run, s, p:dequeue_many(9), nil, { timeout = 0.01 })
    s:start(r:dequeue_many(9))
  end)
end)

add('what is built and fails', function()
  local x = df.placeholder('float32', { 2, 3 }, 'x')
  fails(df.matmul, x, x)
  fails(df.cond, x:reduce_sum():gt(0), function() return x end, function() return x, x end)
  fails(df.cond, x:reduce_sum():gt(0), function() return df.matmul(x * 2, x) end, function() return x end)
  fails(df.while_loop, function(i) return i:lt(3) end, function(i) return df.concat({ i:reshape{ 1 }, i:reshape{ 1 } }, 0) end, { df.int32(0) })
  fails(df.while_loop, function(i, y) return y end, function(i, y) return i + 1, y end, { df.int32(0), df.float32(0) })
  fails(df.while_loop, function(i) return i:lt(3) end, function(i)
    df.while_loop(function(k) return k:lt(3) end, function(k) df.matmul(x, x) return k + 1 end, { df.int32(0) })
    return i + 1
  end, { df.int32(0) })
  local f = df.func('f', { 'float32' }, function(y) return df.matmul(y, x) end, { returns = { 'float32' } })
  fails(f, df.float32(1))
  local g = df.Graph()
  fails(df.add, x, g:as_default(function() return df.float32(1) end))
  fails(df.gradients, df.cast(x, 'int32'), x)
  fails(df.run, df.reduce_sum(x))
  fails(df.run, df.identity(x), { [x] = { { 1, 2 } } })
end)

add('functions of the program', function()
  local calls = 0
  local y = df.lua_func(function(v) calls = calls + 1 return v * 2 end, { df.float32(3) }, { 'float32' })
  local z = df.lua_func(function() error 'no' end, { df.float32(3) }, { 'float32' })
  local _, w = df.while_loop(function(i) return i:lt(5) end, function(i, w)
    return i + 1, (df.lua_func(function(a) return a + 1 end, { w }, { 'float32' }, { shapes = { {} } }))
  end, { df.int32(0), df.float32(0) })
  df.run{ y, w }
  fails(df.run, z)
  assert(calls > 0)
end)

add('functions, called and imported', function()
  local f
  f = df.func('fact', { 'int32' }, function(n)
    return df.cond(n:lt(2), function() return df.int32(1) end, function() return n * f(n - 1) end)
  end, { returns = { 'int32' } })
  local g = df.func('twice', { 'float32' }, function(x) return x * 2 end, { returns = { 'float32' } })
  local x = df.placeholder('float32', {}, 'x')
  local y = g(g(x)) + df.cast(f(5), 'float32')
  assert(df.run({ y, df.gradients(y, x) }, { [x] = 1 })[2] == 4)
  with_path(function(path) df.export_graph_def(path, { outputs = { y, df.gradients(y, x) } }) end)
  local second = df.gradients(df.gradients(g(x), x), x)
  with_path(function(path) fails(df.export_graph_def, path, { outputs = second }) end)
  local text = [[
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape {} } } }
    node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } attr { key: "shape" value { shape {} } } }
    node { name: "call" op: "double" input: "x" }
    node { name: "if" op: "If" input: "p" input: "call"
           attr { key: "Tcond" value { type: DT_BOOL } } attr { key: "Tin" value { list { type: DT_FLOAT } } }
           attr { key: "Tout" value { list { type: DT_FLOAT } } } attr { key: "then_branch" value { func { name: "double" } } }
           attr { key: "else_branch" value { func { name: "double" } } } }
    library { function { signature { name: "double" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } }
      node_def { name: "sum" op: "Add" input: "a" input: "a" attr { key: "T" value { type: DT_FLOAT } } }
      ret { key: "b" value: "sum:z:0" } } }]]
  local h = df.import_graph_def(text)
  local out, px = h:output 'if:0', h:output 'x:0'
  local d = h:as_default(df.gradients, out, px)
  in_session({ graph = h }, function(s) assert(s:run({ out, d }, { [px] = 1, [h:output 'p:0'] = true })[2] == 4) end)
  for cut = 20, #text - 20, math.floor(#text / 12) do pcall(df.import_graph_def, text:sub(1, cut)) end
  fails(df.import_graph_def, text:gsub('sum:z:0', 'none:z:0'))
  fails(df.import_graph_def, text:gsub('input: "x"', 'input: "nobody"'))
  fails(df.import_graph_def, text, { input_map = { ['x:0'] = df.int32(1) } })
end)

add('export of many names', function()
  local x = df.placeholder('float32', {}, 'x')
  local y = x
  for i = 1, 1400 do y = df.neg(y, { name = 'n' .. i }) end
  with_path(function(path)
    df.export_graph_def(path, { outputs = { y } })
    df.import_graph_def(path)
  end)
end)

add('variables and files', function()
  local w = df.Variable({ { 1.0, 2.0 }, { 3.0, 4.0 } }, { name = 'w' })
  local b = df.Variable(df.constant{ 1, 2, 3 }, { name = 'b' })
  local step = df.train.Adam(0.1):minimize((w * w):reduce_sum())
  with_path(function(path)
    in_session({}, function(s)
      s:run(step)
      df.save(path .. '.safetensors', { session = s })
      s:run(w:assign{ { 0, 0 }, { 0, 0 } })
      df.restore(path .. '.safetensors', { session = s })
      local saver = df.train.Saver()
      for i = 1, 2 do saver:save(path, { step = i, session = s }) end
      saver:restore(saver:latest(path), { session = s })
      fails(s.run, s, df.gather(b, df.cast(w:value()[1][1], 'int32') + 7))
    end)
  end)
end)

add('what is looked at', function()
  local y, xs, feeds = program(21)
  local g = df.gradients(y, xs, { unconnected = 'zero' })
  with_path(function(path)
    df.run(g, feeds, { trace = path .. '.json' })
    df.draw(y, { path = path .. '.svg' })
    in_session({}, function(s)
      local h = s:start(g, feeds, { values = true, record = true })
      h:wait()
      local _ = { h:stats(), h:whatif{ speed = 3 } }
      s:placement(g)
    end)
  end)
end)

return list
