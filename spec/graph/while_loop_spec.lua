--- while_loop as a user writes it: structures, captures, invariants, side effects.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of
local while_loop = df.while_loop
local has_integers = math.type ~= nil

--- The sum of 0 .. n-1 in a loop, for a while.
local function count(n, opts)
  return while_loop(function(i) return i:lt(n) end, function(i, s) return i + 1, s + i end, { df.int32(0), df.int32(0) }, opts)
end

describe('while_loop', function()
  it('says how deep it is nested where Lua can call no deeper', function()
    local function nested(d)
      if d == 0 then return df.int32(1) end
      return (df.while_loop(function(i) return i:lt(1) end, function(i) return i + nested(d - 1) end, { df.int32(0) }))
    end
    assert.equal(1, df.run(nested(40)))
    local ok, e = pcall(nested, 250)
    if rawget(_G, 'jit') then return assert.is_true(ok, tostring(e)) end
    assert.equal('resource_exhausted', e.code)
    assert.matches('nested %d+ deep here, which is more than Lua can call', e.message)
    assert.equal(1, df.run(nested(3)))
  end)

  it('and all else that builds what a function says end a function that builds itself, with the line', function()
    local x, build = df.constant{ 1.0, 2.0, 3.0 }, {}
    local function small(i) return i:lt(3) end
    function build.body(i, y)
      local _, z = while_loop(small, build.body, { i, y })
      return i + 1, z
    end
    function build.predicate(i) return while_loop(build.predicate, function(k) return k + 1 end, { i }):lt(3) end
    function build.branch() return (df.cond(x[0]:lt(1), build.branch, build.branch)) end
    function build.case() return (df.switch_case(df.int32(1), { build.case, build.case })) end
    function build.row() return (df.map_fn(build.row, x)) end
    function build.sum(a) return df.scan(build.sum, x, a)[0] end
    function build.pair() return (df.associative_scan(build.pair, x)) end
    function build.lane() return (df.vmap(build.lane)(x)) end
    function build.again(y) return (df.checkpoint(build.again)(y)) end
    function build.custom(y) return (df.custom_gradient(build.custom)(y)) end
    function build.fresh() return (df.func('fresh', { 'float32' }, build.fresh)(x[0])) end
    function build.device() return (df.device('cpu:0', build.device)) end
    function build.scope() return (df.name_scope('a', build.scope)) end
    function build.after() return (df.control_dependencies({ x }, build.after)) end
    build.plain = rawget(_G, 'jit') and function()        -- Lua 5.4 allows 200,000 calls, and is as sure to end them
      local function down(y) return down(y + 1) + 1 end
      return while_loop(small, down, { df.int32(0) })
    end
    local n = df.default_graph():ops()
    for name, fn in pairs(build) do
      local ok, e = pcall(fn, df.int32(0), df.float32(0))
      assert.is_false(ok, name)
      assert.equal('resource_exhausted', e.code, name .. ': ' .. tostring(e))
      assert.matches('one that builds itself never ends', e.message)
      assert.matches('while_loop_spec%.lua:%d+', e.source, name)
    end
    assert.is_true(#df.default_graph():ops() < #n + 3000)                -- what failed is gone, but what vmap was given
    assert.equal(6, df.run(df.reduce_sum(x)))
  end)

  it('gives the loop variables when the predicate is false', function()
    local i, s = count(10)
    same(df.run{ i, s }, { 10, 45 })
  end)

  it('returns the loop variables unchanged when the predicate is false at once', function()
    local i, s = count(0)
    same(df.run{ i, s }, { 0, 0 })
  end)

  it('gives the same with parallel_iterations 1, 2, 32, 3500 and 2^31 - 1', function()
    for _, n in ipairs{ 1, 2, 32, 3500, 2147483647 } do
      local i, s = count(1000, { parallel_iterations = n })
      same(df.run{ i, s }, { 1000, 499500 })
    end
  end)

  it('refuses parallel_iterations 0, naming it', function()
    local e = support.error_of(count, 3, { parallel_iterations = 0 })
    assert.equal('invalid_argument', e.code)
    assert.matches('parallel_iterations', e.message)
  end)

  it('stops after maximum_iterations', function()
    local i = count(10, { maximum_iterations = 4 })
    same(df.run(i), 4)
    same(df.run((count(3, { maximum_iterations = 4 }))), 3)
    same(df.run((count(3, { maximum_iterations = 0 }))), 0)
  end)

  it('takes a table with names: both functions get one, the body returns one, and so does the loop', function()
    local r = while_loop(function(s) return s.i:lt(5) end,
                         function(s) return { i = s.i + 1, total = s.total * 2 } end,
                         { i = df.int32(0), total = df.float32(1) })
    same(df.run(r), { i = 5, total = 32 })
  end)

  it('takes nested tables of Outputs, arrays and values', function()
    local i, state, rows = while_loop(function(i) return i:lt(3) end,
      function(i, state, rows)
        return i + 1, { c = state.c + 1, h = { state.h[1] * 2, state.h[2] + state.c } }, rows:write(i, state.c)
      end,
      { df.int32(0), { c = df.float32(1), h = { df.float32(1), df.float32(0) } }, df.TensorArray('float32', 3) })
    same(df.run(state), { c = 4, h = { 8, 6 } })
    near(df.run(rows:stack()), { 1, 2, 3 })
    same(df.run(i), 3)
  end)

  it('takes tables of numbers and Tensors as values', function()
    local x = while_loop(function(x) return x:reduce_sum():lt(20) end, function(x) return x * 2 end, { { 1.5, 2.5 } })
    near(df.run(x), { 12, 20 })
    local y = while_loop(function(y) return y:reduce_sum():lt(20) end, function(y) return y * 2 end, { df.tensor({ 1, 2 }, 'int32') })
    same(df.run(y), { 8, 16 })
  end)

  if has_integers then
    it('takes bare numbers: an integer is int32, a float float32', function()
      local i, x = while_loop(function(i) return i:lt(3) end, function(i, x) return i + 1, x * 2 end, { 0, 1.0 })
      assert.equal('int32', i.dtype)
      assert.equal('float32', x.dtype)
      same(df.run{ i, x }, { 3, 8 })
    end)
  else
    it('refuses a bare number under LuaJIT and says what to write', function()
      local text = message_of(while_loop, function(i) return i:lt(3) end, function(i) return i + 1 end, { 0 })
      assert.matches('df%.int32%(0%)', text)
      assert.matches('df%.float32%(0%)', text)
    end)
  end

  it('captures outer values, also inside nested loops and conds', function()
    local a, n = df.constant(3.0), df.constant(2.0)
    local _, s = while_loop(function(i) return i:lt(4) end, function(i, s)
      local _, inner = while_loop(function(j) return j:lt(i) end, function(j, t) return j + 1, t + a end, { df.int32(0), df.float32(0) })
      return i + 1, df.cond(inner:gt(n), function() return s + inner end, function() return s - n end)
    end, { df.int32(0), df.float32(0) })
    near(df.run(s), -2 + 3 + 6 + 9)
  end)

  it('lets a bare number that the body returns take its variable\'s dtype', function()
    local x = while_loop(function(x) return x:lt(5) end, function() return 7 end, { df.float64(0) })
    assert.equal('float64', x.dtype)
    same(df.run(x), 7)
  end)

  it('lets the body return its input, an outer tensor, or the variables swapped', function()
    local outer = df.constant(9.0)
    local i, a, b, c = while_loop(function(i) return i:lt(3) end, function(i, a, b, c) return i + 1, b, a, outer end,
                                  { df.int32(0), df.float32(1), df.float32(2), df.float32(3) })
    same(df.run{ i, a, b, c }, { 3, 2, 1, 9 })
  end)

  it('keeps shapes: what breaks one names the variable, both shapes, the line and the invariant', function()
    local function grow(opts, named)
      local x = df.constant({ 1.0, 2.0 })
      if named then
        return while_loop(function(s) return s.i:lt(2) end, function(s)
          return { i = s.i + 1, h = df.concat({ s.h, s.h }, 0) }
        end, { i = df.int32(0), h = x }, opts)
      end
      return while_loop(function(i) return i:lt(2) end, function(i, h)
        local twice = df.concat({ h, h }, 0)
        return i + 1, twice
      end, { df.int32(0), x }, opts)
    end
    local e = support.error_of(grow)
    assert.equal('invalid_argument', e.code)
    for _, part in ipairs{ 'variable 2', 'float32%[2%]', 'float32%[4%]', 'shape_invariants = {%[2%] = {%-1}}' } do
      assert.matches(part, tostring(e))
    end
    assert.matches('while_loop_spec%.lua:%d+$', e.source)
    assert.matches('`h`', message_of(grow, nil, true))
    assert.matches('shape_invariants = {h = {%-1}}', message_of(grow, nil, true))
    local _, h = grow{ shape_invariants = { [2] = { -1 } } }
    assert.same({ -1 }, h.shape)
    near(df.run(h), { 1, 2, 1, 2, 1, 2, 1, 2 })
    assert.is_nil((select(2, grow{ shape_invariants = { [2] = false } })).shape)
    near(df.run(grow({ shape_invariants = { h = { -1 } } }, true).h), { 1, 2, 1, 2, 1, 2, 1, 2 })
  end)

  it('keeps dtypes: what breaks one names the variable, both dtypes and the cast', function()
    local text = message_of(while_loop, function(i) return i:lt(3) end,
                            function(i, x) return i + 1, x:cast('int32') end, { df.int32(0), df.float32(1) })
    for _, part in ipairs{ 'variable 2', 'float32', 'int32', 'cast' } do assert.matches(part, text) end
    assert.matches('0%.5', message_of(while_loop, function(i) return i:lt(3) end, function() return 0.5 end, { df.int32(0) }))
  end)

  it('says how many values the body should have returned', function()
    local text = message_of(while_loop, function(i) return i:lt(3) end, function(i) return i + 1 end, { df.int32(0), df.int32(0) })
    assert.matches('2 loop variables', text)
    assert.matches('1 value', text)
    assert.matches('scalar bool', message_of(while_loop, function() end, function(i) return i end, { df.int32(0) }))
    assert.matches('loop variable h', message_of(while_loop, function(s) return s.i:lt(3) end, function(s) return { i = s.i } end,
                                                 { i = df.int32(0), h = df.int32(0) }))
  end)

  it('survives a Lua error in the body: the graph goes on', function()
    assert.matches('boom', message_of(while_loop, function(i) return i:lt(3) end, function() error('boom') end, { df.int32(0) }))
    assert.matches('boom', message_of(while_loop, function() error('boom') end, function(i) return i end, { df.int32(0) }))
    local i, s = count(10)
    same(df.run{ i, s }, { 10, 45 })
  end)

  it('does not let a value out of the body but as a result, and names both lines', function()
    local kept
    while_loop(function(i) return i:lt(3) end, function(i) kept = i + 1 return kept end, { df.int32(0) })
    local text = message_of(function() return kept + 1 end)
    assert.matches('while_loop_spec%.lua:%d+.*while_loop_spec%.lua:%d+', text)
  end)

  it('names the frame and the iteration of what fails in it', function()
    local i, z = while_loop(function(i) return i:lt(10) end, function(i) return i + 1, df.floordiv(10, 5 - i) end,
                            { df.int32(0), df.int32(0) }, { name = 'steps' })
    local e = support.error_of(df.run, { i, z })
    assert.equal('invalid_argument', e.code)
    assert.equal('steps:5', e.frame)
    assert.matches('steps:5', tostring(e))
    assert.matches('while_loop_spec%.lua:%d+', e.source)
  end)

  it('runs assigns of the body each time, in program order', function()
    local v = df.Variable(df.int32(0))
    local log = df.Variable(df.int32(0))
    local i = while_loop(function(i) return i:lt(3) end, function(i)
      v:assign(v * 2 + 1)
      log:assign(log * 10 + v)
      return i + 1
    end, { df.int32(0) })
    same(df.run(i), 3)
    same(df.run{ v, log }, { 7, 137 })
  end)

  it('makes a Variable outside of itself when its initial value is a function', function()
    local v
    local i, x = while_loop(function(i) return i:lt(3) end, function(i, x)
      v = v or df.Variable(function() return df.zeros({ 2 }) + 5 end)
      return i + 1, x + v
    end, { df.int32(0), df.zeros({ 2 }) })
    near(df.run{ i, x, v }, { 3, { 15, 15 }, { 5, 5 } })
  end)

  it('can be cancelled, and timed out, when it does not end', function()
    local i = while_loop(function(i) return i:ge(0) end, function(i) return (i + 1) % 100 end, { df.int32(0) })
    local h = df.start(i)
    assert.is_false(h:done())
    h:cancel()
    local e = support.error_of(h.wait, h)
    assert.equal('cancelled', e.code)
    e = support.error_of(df.run, i, nil, { timeout = 0.05 })
    assert.equal('deadline_exceeded', e.code)
    same(df.run((count(3))), 3)
  end)
end)
