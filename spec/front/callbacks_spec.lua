--- Whatever leaves a function of the user's that dflow calls, leaves dflow usable: a yield, an error of any value, a hook, garbage that builds.
local df = require 'dflow'
local errors = require 'dflow.front.errors'

local function f1() return df.float32(1) end
local function xy() return df.tensor({ { 1 }, { 2 }, { 3 } }, 'float32'), df.tensor({ { 2 }, { 4 }, { 6 } }, 'float32') end

--- What calls fn, and where: 'build' while something is built, 'run' while a run goes on, 'lua' from Lua alone, where a yield may be one.
local places = {
  { 'the body of a while_loop', 'build', function(fn)
    return df.while_loop(function(i) return i:lt(2) end, function(i) fn() return i + 1 end, { df.int32(0) })
  end },
  { 'the predicate of a while_loop', 'build', function(fn)
    return df.while_loop(function(i) fn() return i:lt(2) end, function(i) return i + 1 end, { df.int32(0) })
  end },
  { 'a branch', 'build', function(fn) return df.cond(df.constant(true), function() fn() return f1() end, f1) end },
  { 'the other branch', 'build', function(fn) return df.cond(df.constant(true), f1, function() fn() return f1() end) end },
  { 'a branch in a body', 'build', function(fn)
    return df.while_loop(function(i) return i:lt(2) end, function(i)
      return df.cond(i:eq(0), function() fn() return i + 1 end, function() return i + 1 end)
    end, { df.int32(0) })
  end },
  { 'map_fn', 'build', function(fn) return df.map_fn(function(x) fn() return x end, df.float32 { 1, 2 }) end },
  { 'name_scope', 'build', function(fn) return df.name_scope('s', function() fn() return f1() end) end },
  { 'control_dependencies', 'build', function(fn) return df.control_dependencies({ f1() }, function() fn() return f1() end) end },
  { 'as_default', 'build', function(fn) return df.default_graph():as_default(function() fn() return f1() end) end },
  { 'the initial value of a Variable', 'build', function(fn) return df.Variable(function() fn() return f1() end) end },
  { 'variable_scope', 'build', function(fn) return df.variable_scope('s', function() fn() return f1() end) end },
  { 'the body of a df.func', 'build', function(fn)
    return df.func('called', { 'float32' }, function(x) fn() return x end, { returns = { 'float32' } })(1.0)
  end },
  { 'foldl', 'build', function(fn) return df.foldl(function(a, x) fn() return a + x end, df.float32{ 1, 2 }) end },
  { 'foldr', 'build', function(fn) return df.foldr(function(a, x) fn() return a + x end, df.float32{ 1, 2 }) end },
  { 'scan', 'build', function(fn) return df.scan(function(a, x) fn() return a + x end, df.float32{ 1, 2 }) end },
  { 'a branch of case', 'build', function(fn) return df.case({ { df.constant(true), function() fn() return f1() end }, default = f1 }) end },
  { 'the default of case', 'build', function(fn) return df.case({ { df.constant(true), f1 }, default = function() fn() return f1() end }) end },
  { 'a branch of switch_case', 'build', function(fn) return df.switch_case(df.int32(0), { function() fn() return f1() end, f1 }) end },
  { 'custom_gradient', 'build', function(fn)
    return df.custom_gradient(function(x) fn() return x * 2, function(dy) return dy * 2 end end)(df.float32(1))
  end },
  { 'the gradient of a custom_gradient', 'build', function(fn)
    local x = df.float32(1)
    return df.gradients(df.custom_gradient(function(v) return v * 2, function(dy) fn() return dy * 2 end end)(x), x)
  end },
  { 'the gradient of a lua_func', 'build', function(fn)
    local x = df.float32(1)
    local y = df.lua_func(function(v) return v end, { x }, 'float32', { gradient = function(_, _, dy) fn() return dy end })
    return df.gradients(y, x)
  end },
  { 'checkpoint', 'build', function(fn) return df.checkpoint(function(x) fn() return x * 2 end)(df.float32(1)) end },
  { 'device', 'build', function(fn) return df.device('cpu:0', function() fn() return f1() end) end },
  { 'the chooser of a device', 'build', function(fn) return df.device(function() fn() return 'cpu:0' end, f1) end },
  { 'colocate_with', 'build', function(fn) return df.colocate_with(f1(), function() fn() return f1() end) end },
  { 'as_default of a session', 'build', function(fn) return df.default_session():as_default(function() fn() return f1() end) end },
  { 'the initializer of get_variable', 'build', function(fn)
    return df.get_variable('v', { 2 }, { initializer = function(shape) fn() return df.zeros(shape) end })
  end },
  { 'a step of train.loop', 'build', function(fn) return df.train.loop(2, function(_, c) fn() return c + 1 end, { carry = df.float32(0) }) end },
  { 'the stop of train.loop', 'build', function(fn)
    return df.train.loop(2, function(_, c) return c + 1 end, { carry = df.float32(0), stop = function(_, c) fn() return c:gt(9) end })
  end },
  { 'the report of train.loop', 'build', function(fn)
    return df.train.loop(2, function(_, c) return c + 1 end, { carry = df.float32(0), every = 2, report = function() fn() end })
  end },
  { 'lbfgs', 'build', function(fn)
    return (df.train.lbfgs(function(x) fn() return (x * x):reduce_sum() end, df.float32{ 1, 2 }, { max_iterations = 2 }))
  end },
  { 'synchronous', 'build', function(fn)
    local v = df.Variable(1.0)
    return df.train.synchronous(function() fn() return (v - 2) * (v - 2) end, { replicas = 2, steps = 1, optimizer = df.train.SGD(0.1) }).loss, v
  end },
  { 'a QueueRunner', 'build', function(fn)
    local q = df.FIFOQueue(4, { 'float32' }, { shapes = { {} } })
    df.train.QueueRunner(q, function(i) fn() return q:enqueue(df.cast(i, 'float32')) end, { steps = 1 })
    return q:size()
  end },
  { 'a cell of dynamic_rnn', 'build', function(fn)
    return (df.nn.dynamic_rnn(function(x, s) fn() return x + s, x + s end, df.ones{ 1, 2, 1 }, { initial_state = df.zeros{ 1, 1 } }))
  end },
  { 'a step of Sequential', 'build', function(fn) return df.nn.Sequential{ function(x) fn() return x * 2 end }(df.ones{ 1, 2 }) end },
  { 'a lua_func', 'run', function(fn) return df.run(df.lua_func(function(x) fn() return x end, { df.float32(1) }, 'float32')) end },
  { 'a lua_func in a loop', 'run', function(fn)
    return df.run(df.while_loop(function(i) return i:lt(3) end, function(i)
      return df.lua_func(function(k) fn() return k + 1 end, { i }, 'int32', { shapes = { {} } })
    end, { df.int32(0) }))
  end },
  { 'the condition of a breakpoint', 'run', function(fn)
    local i = df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, { df.int32(0) })
    local h = df.start(i, nil, { paused = true })
    h:settle()
    h:break_at{ op = 'Add', when = function() fn() return false end }
    h:resume()
    local stop = h:settle()                                      -- it stops where the condition fails, and says why
    h:cancel()
    pcall(h.wait, h)
    if stop and stop.failed then error(stop.failed, 0) end
    return 3
  end },
  { 'a model that fit trains', 'build', function(fn)
    local x, y = xy()
    local d = df.nn.Dense(1)
    return df.train.fit(function(v) fn() return d(v) end, { x, y }, { progress = false }).epochs
  end },
  { 'a loss of fit', 'build', function(fn)
    local x, y = xy()
    return df.train.fit(df.nn.Dense(1), { x, y }, { progress = false, loss = function(a, b) fn() return ((a - b) * (a - b)):reduce_mean() end }).epochs
  end },
  { 'a metric of fit', 'build', function(fn)
    local x, y = xy()
    return df.train.fit(df.nn.Dense(1), { x, y }, { progress = false, metrics = { m = function(a, b) fn() return (a - b):reduce_mean() end } }).epochs
  end },
  { 'the progress of fit', 'lua', function(fn)
    local x, y = xy()
    return df.train.fit(df.nn.Dense(1), { x, y }, { progress = function() fn() end }).epochs
  end },
  { 'the source of a pipeline', 'lua', function(fn)
    local n = 0
    for x in df.data.pipeline(function() fn() n = n + 1 if n < 3 then return n end end):each() do assert(x) end
    return n
  end },
  { 'the open of a pipeline', 'lua', function(fn)
    local n = 0
    for _ in df.data.pipeline{ open = function() fn() return function() n = n + 1 if n < 3 then return n end end end }:each() do n = n + 0 end
    return n
  end },
  { 'a map of a pipeline', 'build', function(fn)
    local n = 0
    for x in df.data.pipeline(df.tensor{ 1, 2 }):map(function(x) fn() return x * 2 end):each() do n = n + x end
    return n
  end },
  { 'a filter of a pipeline', 'build', function(fn)
    local n = 0
    for x in df.data.pipeline(df.tensor{ 1, 2 }):filter(function(x) fn() return x > 1 end):each() do n = n + x end
    return n
  end },
  { 'the iterator of df.progress', 'lua', function(fn)
    local n = 0
    for _ in df.progress(function() fn() n = n + 1 if n < 3 then return n end end, { write = function() end }) do n = n + 0 end
    return n
  end },
}

--- Nothing is left standing: what is built now is at the top level and runs, and a run is not in the way of another.
local function at_rest()
  local x = df.float32(3) * 2
  assert.is_falsy(x.name:find('/', 1, true), x.name)
  assert.are.equal(6, df.run(x))
  assert.are.equal(2, df.run(df.while_loop(function(i) return i:lt(2) end, function(i) return i + 1 end, { df.int32(0) })))
end

local function text_of(e) return errors.is(e) and e.message or tostring(e) end

describe('a function of the user in', function()
  for _, place in ipairs(places) do
    local name, kind, call = place[1], place[2], place[3]

    it(name .. ' is called', function()
      local n = 0
      assert.is_not_nil((call(function() n = n + 1 end)))
      assert.is_true(n > 0)
      at_rest()
    end)

    it(name .. ' may raise any value, which comes out or is told', function()
      local thing = setmetatable({}, { __tostring = function() return 'a thing' end })
      for _, wrap in ipairs{ pcall, function(f) return coroutine.resume(coroutine.create(f)) end } do
        for _, value in ipairs{ thing, 42, 'a word', false } do
          local ok, e = wrap(function() call(function() error(value, 0) end) end)
          assert.is_false(ok)
          if kind == 'run' and e ~= value then assert.is_truthy(text_of(e):find(tostring(value), 1, true), text_of(e))
          else assert.are.equal(value, e) end
          at_rest()
        end
        assert.is_false((wrap(function() call(function() error(nil) end) end)))
        at_rest()
      end
    end)

    it(name .. ' gives the same between yields', function()
      local co = coroutine.wrap(function()
        coroutine.yield(1)
        local y = call(function() end)
        coroutine.yield(2)
        return y
      end)
      assert.are.same({ 1, 2 }, { co(), co() })
      assert.is_not_nil(co())
      at_rest()
    end)

    it(name .. ' may not yield, or goes on behind it', function()
      local co, asked, n = coroutine.create(function() return call(coroutine.yield) end), 0, 0
      local ok, e
      repeat
        ok, e = coroutine.resume(co)
        n = n + 1
        asked = asked + (coroutine.status(co) == 'suspended' and 1 or 0)
        at_rest()
      until coroutine.status(co) == 'dead' or n > 50
      assert.are.equal('dead', coroutine.status(co))
      if asked > 0 then assert.is_true(ok, text_of(e)) end
      if not ok then assert.matches('yield', text_of(e)) end
    end)

    it(name .. ' may be left for ever in a coroutine that is dropped', function()
      for _ = 1, 3 do
        local co = coroutine.create(function() return call(function() pcall(coroutine.yield) coroutine.yield() end) end)
        coroutine.resume(co)
        at_rest()
      end
      collectgarbage()
      collectgarbage()
      at_rest()
    end)

    it(name .. ' may be ended by a hook', function()
      local function busy()
        debug.sethook(function() debug.sethook() error('too long', 0) end, '', 100)
        local n = 0
        for k = 1, 100000 do n = (n + k) % 7 end
        return n
      end
      if rawget(_G, 'jit') then rawget(_G, 'jit').off(busy) end          -- compiled code asks no hook
      local ok, e = pcall(call, busy)
      debug.sethook()
      assert.is_false(ok)
      assert.matches('too long', text_of(e))
      at_rest()
    end)

    it(name .. ' may meet garbage that builds and runs when it is collected', function()
      local collected = 0
      local function garbage()
        local function collect() collected = collected + df.run(df.float32(1) * 1) end
        if rawget(_G, 'newproxy') then
          getmetatable(newproxy(true)).__gc = function() pcall(collect) collected = collected + 1 end
        else
          setmetatable({}, { __gc = function() pcall(collect) collected = collected + 1 end })
        end
        collectgarbage()
        collectgarbage()
      end
      pcall(call, garbage)
      collectgarbage()
      collectgarbage()
      assert.is_true(collected > 0)
      at_rest()
    end)

    if not rawget(_G, 'jit') then
      it(name .. ' may close what builds on its way out', function()
        local closed = 0
        local body = assert(load [[
          local df, on_close = ...
          local guard <close> = setmetatable({}, { __close = on_close })
          error('left', 0)
        ]])
        local ok, e = pcall(call, function() body(df, function() closed = closed + 1 assert(df.float32(2) * 3) end) end)
        assert.is_false(ok)
        assert.matches('left', text_of(e))
        assert.is_true(closed > 0)
        at_rest()
      end)
    end
  end
end)

describe('in a coroutine', function()
  it('one that begins and ends inside a body may yield there', function()
    local y = df.while_loop(function(i) return i:lt(3) end, function(i)
      for step in coroutine.wrap(function() for k = 1, 2 do coroutine.yield(k - k + 1) end end) do i = i + step end
      return i
    end, { df.int32(0) })
    assert.are.equal(4, df.run(y))
  end)

  it('branches nest as deep as before', function()
    local function nested(n, x)
      if n == 0 then return x end
      return df.cond(x:gt(0), function() return nested(n - 1, x) end, function() return x end)
    end
    assert.are.equal(1, coroutine.wrap(function() return df.run(nested(25, f1())) end)())
  end)
end)
