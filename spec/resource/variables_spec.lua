-- Variables: values that a session keeps; assignments, scatter updates, training steps; print and assert.
local df = require 'dflow'
local support = require 'spec.support'
local shell = require 'spec.shell'
local near = support.near

local fails = require('spec.support').fails

describe('a variable', function()
  it('initialises itself the first time a run needs it', function()
    local v = df.Variable({ 1.0, 2.0 }, { name = 'v' })
    near(df.run(v * 2), { 2, 4 })
  end)
  it('keeps its value between runs, until it is set back', function()
    local v = df.Variable(df.float32(1), { name = 'v' })
    local more = v:assign_add(2)
    near(df.run(more), 3)
    near(df.run(more), 5)
    near(df.run(v), 5)
    df.init()
    near(df.run(v), 1)
  end)
  it('is initialised once, however many runs need it at once', function()
    local q = df.FIFOQueue(-1, 'float32', { shapes = {} })
    local v, runs = df.Variable(q:dequeue(), { name = 'from_queue' }), {}
    for i = 1, 8 do runs[i] = df.start(v + 0) end
    local idle = df.FIFOQueue(1, 'int32')
    pcall(df.run, idle:dequeue(), nil, { timeout = 0.1 })                     -- all of them are at it
    df.run(q:enqueue_many{ 1, 2, 3, 4, 5, 6, 7, 8 })
    for i = 1, 8 do assert.equal(1, runs[i]:wait()) end
    assert.equal(7, df.run(q:size()))
  end)

  it('has a value of its own in each session', function()
    local v = df.Variable(df.int32(1))
    local a, b = df.Session {}, df.Session {}
    near(a:run(v:assign(7)), 7)
    near({ a:run(v), b:run(v) }, { 7, 1 })
    a:close()
    b:close()
  end)
  it('gives the new value of each assignment', function()
    local v = df.Variable({ 1.0, 2.0 })
    near(df.run(v:assign({ 5, 6 })), { 5, 6 })
    near(df.run(v:assign_add({ 1, 1 })), { 6, 7 })
    near(df.run(v:assign_sub({ 2, 3 })), { 4, 4 })
    near(df.run(v), { 4, 4 })
  end)
  it('is not changed through a value that was read before', function()
    local v = df.Variable({ 1.0, 2.0 })
    local before = v:value()
    local change = df.control_dependencies({ before }, function() return v:assign_add({ 10, 10 }) end)
    local after = df.control_dependencies({ change }, function() return v:assign_add({ 100, 100 }) end)
    near(df.run({ before, change, after }), { { 1, 2 }, { 11, 12 }, { 111, 112 } })
    local kept = df.run(v)
    df.run(v:assign_add({ 1, 1 }))
    near(kept, { 111, 112 })
  end)
  it('of every number dtype adds and subtracts', function()
    for _, dtype in ipairs { 'float32', 'float64', 'float16', 'bfloat16', 'int8', 'uint8', 'int32', 'int64' } do
      local v = df.Variable(df.constant({ 5, 6, 7 }, dtype))
      df.run(v:assign_add(df.constant({ 3, 2, 1 }, dtype)))
      df.run(v:assign_sub(df.constant({ 1, 1, 1 }, dtype)))
      near(df.run(v), { 7, 7, 7 }, { what = dtype })
    end
  end)
  it('of integers wraps', function()
    local v = df.Variable(df.constant({ 127, -128 }, 'int8'))
    near(df.run(v:assign_add(df.constant({ 1, -1 }, 'int8'))), { -128, 127 })
  end)
  it('may hold strings and booleans', function()
    local s, b = df.Variable('old'), df.Variable(false)
    df.run({ s:assign('new'), b:assign(true) })
    near(df.run({ s, b }), { 'new', true })
  end)
  it('is changed by a loop in program order', function()
    local v = df.Variable(df.float32(1))
    local n = df.while_loop(function(i) return i:lt(5) end, function(i)
      v:assign(v * 2)
      v:assign_add(1)
      return i + 1
    end, { df.int32(0) })
    df.run(n)
    near(df.run(v), 63)
  end)
  it('loses no update of runs that go on at once, and a reader never sees half of one', function()
    local v = df.Variable(df.zeros { 1000 })
    local function loop(body) return df.while_loop(function(i) return i:lt(300) end, function(i) body() return i + 1 end, { df.int32(0) }) end
    local add = loop(function() v:assign_add(df.ones { 1000 }) end)
    local look = loop(function()
      local x = v:value()
      df.assert(df.reduce_max(x):eq(df.reduce_min(x)), { x })
    end)
    df.run(v)
    local runs = {}
    for i = 1, 4 do runs[i] = df.start(i == 4 and look or add) end
    for i = 1, 4 do runs[i]:wait() end
    near(df.run(df.stack { df.reduce_max(v), df.reduce_min(v) }), { 900, 900 })
  end)
  it('has gradients through its reads', function()
    local v = df.Variable({ 1.0, 2.0, 3.0 })
    near(df.run(df.gradients(df.reduce_sum(v * v * v), v)), { 3, 12, 27 })
  end)
  it('has gradients in a loop', function()
    local w = df.Variable(df.float64(2))
    local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x) return i + 1, x * w end, { df.int32(0), df.float64(5) })
    near(df.run(df.gradients(x, w)), 60)
  end)

  describe('refuses', function()
    it('values of another shape or dtype when built, naming itself and both', function()
      local v = df.Variable({ 1.0, 2.0, 3.0 }, { name = 'weights' })
      fails(function() v:assign({ 1, 2 }) end, 'invalid_argument', 'weights', 'float32[3]', 'float32[2]', 'variables_spec.lua')
      fails(function() v:assign_add(df.constant(1, 'float32')) end, 'invalid_argument', 'weights', 'float32[3]', 'float32[]')
      fails(function() v:assign(df.int32 { 1, 2, 3 }) end, 'invalid_argument', 'weights', 'int32')
    end)
    it('values of another shape when run', function()
      local v = df.Variable({ 1.0, 2.0, 3.0 }, { name = 'weights' })
      local p = df.placeholder('float32', { -1 })
      local set, add = v:assign(p), v:assign_add(p)
      fails(function() df.run(set, { [p] = { 1, 2 } }) end, 'invalid_argument', 'weights', 'float32[3]', 'float32[2]')
      fails(function() df.run(add, { [p] = { 1, 2 } }) end, 'invalid_argument', 'weights', 'float32[3]', 'float32[2]')
      near(df.run(v), { 1, 2, 3 })
    end)
  end)

  describe('with rows', function()
    local function variable() return df.Variable({ { 1.0, 2.0 }, { 3.0, 4.0 }, { 5.0, 6.0 } }, { name = 'table' }) end
    for name, expected in pairs {
      scatter_update = { { 10, 20 }, { 3, 4 }, { 30, 40 } }, scatter_add = { { 11, 22 }, { 3, 4 }, { 35, 46 } },
      scatter_sub = { { -9, -18 }, { 3, 4 }, { -25, -34 } }, scatter_mul = { { 10, 40 }, { 3, 4 }, { 150, 240 } },
      scatter_div = { { 0.1, 0.1 }, { 3, 4 }, { 5 / 30, 6 / 40 } }, scatter_min = { { 1, 2 }, { 3, 4 }, { 5, 6 } },
      scatter_max = { { 10, 20 }, { 3, 4 }, { 30, 40 } },
    } do
      it('takes ' .. name, function()
        local v = variable()
        near(df.run(v[name](v, { 0, 2 }, { { 10, 20 }, { 30, 40 } })), expected)
        near(df.run(v), expected)
      end)
    end
    it('changes a row named twice twice, and takes one number for all', function()
      local v = variable()
      near(df.run(v:scatter_add({ 1, 1 }, { { 1, 1 }, { 2, 2 } })), { { 1, 2 }, { 6, 7 }, { 5, 6 } })
      near(df.run(v:scatter_mul({ 0, 1 }, 10)), { { 10, 20 }, { 60, 70 }, { 5, 6 } })
    end)
    it('refuses an index outside and changes nothing', function()
      local v = variable()
      fails(function() df.run(v:scatter_add({ 0, 3 }, { { 1, 1 }, { 2, 2 } })) end, 'invalid_argument', 'indices[1]', '3', 'table')
      near(df.run(v), { { 1, 2 }, { 3, 4 }, { 5, 6 } })
    end)
    it('refuses updates of another shape', function()
      fails(function() variable():scatter_add({ 0, 1 }, { { 1, 1 } }) end, 'invalid_argument', 'table', 'float32[2,2]', 'float32[1,2]')
    end)
    it('refuses to divide integers by zero', function()
      local v = df.Variable(df.int32 { 4, 6 })
      fails(function() df.run(v:scatter_div({ 0, 1 }, df.int32 { 2, 0 })) end, 'invalid_argument', 'division by zero')
      near(df.run(v), { 4, 6 })
    end)
  end)
end)

describe('a training step', function()
  local start, grad = { { 1.0, 2.0 }, { 3.0, 4.0 }, { 5.0, 6.0 } }, { { 0.1, 0.2 }, { 0.3, 0.4 }, { 0.5, 0.6 } }
  local function map(f, ...)
    local lists, out = { ... }, {}
    for i = 1, #lists[1] do
      out[i] = {}
      for j = 1, #lists[1][1] do
        local args = {}
        for k, l in ipairs(lists) do args[k] = l[i][j] end
        out[i][j] = f((table.unpack or unpack)(args))
      end
    end
    return out
  end

  for _, dtype in ipairs { 'float32', 'float64' } do
    local function c(v) return df.constant(v, dtype) end
    local function zeros() return df.Variable(df.zeros({ 3, 2 }, { dtype = dtype })) end
    it('of gradient descent, ' .. dtype, function()
      local w = df.Variable(c(start))
      df.run(df.apply_gradient_descent(w, c(0.5), c(grad)))
      near(df.run(w), map(function(x, g) return x - 0.5 * g end, start, grad))
    end)
    it('of momentum, with and without Nesterov, ' .. dtype, function()
      for _, nesterov in ipairs { false, true } do
        local w, slot = df.Variable(c(start)), zeros()
        local step = df.apply_momentum(w, slot, c(0.5), c(grad), c(0.9), { use_nesterov = nesterov })
        df.run(step)
        df.run(step)
        near(df.run(slot), map(function(g) return g * 1.9 end, grad))
        near(df.run(w), map(function(x, g)
          return nesterov and x - 0.5 * (g + 0.9 * g) - 0.5 * (g + 0.9 * 1.9 * g) or x - 0.5 * (g + 1.9 * g)
        end, start, grad))
      end
    end)
    it('of Adam, ' .. dtype, function()
      local w, m, v = df.Variable(c(start)), zeros(), zeros()
      df.run(df.apply_adam(w, m, v, c(0.9), c(0.999), c(0.01), c(0.9), c(0.999), c(1e-8), c(grad)))
      near(df.run(m), map(function(g) return 0.1 * g end, grad))
      near(df.run(v), map(function(g) return 0.001 * g * g end, grad), { rtol = 1e-4 })
      near(df.run(w), map(function(x) return x - 0.01 end, start), { rtol = 1e-4 })
    end)
    it('on sparse gradients sums rows named twice first, ' .. dtype, function()
      local w = df.Variable(c(start))
      df.run(df.sparse_apply_gradient_descent(w, c(1), c { { 1, 1 }, { 2, 2 }, { 3, 3 } }, { 2, 0, 2 }))
      near(df.run(w), { { -1, 0 }, { 3, 4 }, { 1, 2 } })
      local slot = zeros()
      w = df.Variable(c(start))
      df.run(df.sparse_apply_momentum(w, slot, c(1), c { { 1, 1 }, { 2, 2 }, { 3, 3 } }, { 2, 0, 2 }, c(0.9)))
      near(df.run(slot), { { 2, 2 }, { 0, 0 }, { 4, 4 } })
      near(df.run(w), { { -1, 0 }, { 3, 4 }, { 1, 2 } })
    end)
    it('of sparse Adam is that of the gradient laid out in full, ' .. dtype, function()
      local function adam(sparse)
        local w, m, v = df.Variable(c(start)), df.Variable(c(grad)), df.Variable(c(grad))
        local s = { c(0.9), c(0.999), c(0.01), c(0.9), c(0.999), c(1e-8) }
        local step = sparse and df.sparse_apply_adam(w, m, v, s[1], s[2], s[3], s[4], s[5], s[6], c { { 1, 2 }, { 3, 4 } }, { 1, 1 })
          or df.apply_adam(w, m, v, s[1], s[2], s[3], s[4], s[5], s[6], c { { 0, 0 }, { 4, 6 }, { 0, 0 } })
        df.run(step)
        return df.run({ w, m, v })
      end
      near(adam(true), adam(false))
    end)
  end
  it('refuses a gradient of another shape', function()
    local w = df.Variable(df.float32 { 1, 2, 3 }, { name = 'w' })
    fails(function() df.apply_gradient_descent(w, 0.1, df.float32 { 1, 2 }) end, 'invalid_argument', "'w'", '[3]', '[2]')
  end)
  it('refuses one variable in two places', function()
    local w = df.Variable(df.float32 { 1, 2 }, { name = 'w' })
    fails(function() df.run(df.apply_momentum(w, w, 0.1, df.float32 { 1, 2 }, 0.9)) end, 'invalid_argument', "'w'", 'twice')
  end)
end)

describe('print and assert', function()
  local function printed(code)
    local r = shell.run(shell.dflow .. ' -', "local df = require 'dflow'\n" .. code)
    assert.are.equal('', r.out)
    assert.are.equal(0, r.status, r.err)
    return r.err
  end

  it('writes message and data to standard error as TensorFlow does', function()
    assert.are.equal('x = [1 2 3...]\n', printed "df.run(df.print(df.float32{1, 2, 3, 4}, {message = 'x = '}))")
    assert.are.equal('[1 2 3 4]\n', printed 'df.run(df.print(df.float32{1, 2, 3, 4}, {summarize = -1}))')
    assert.are.equal('[[1 2][3 4]]\n', printed 'df.run(df.print(df.int32{{1, 2}, {3, 4}}, {summarize = 10}))')
    assert.are.equal('[[1 2][3...]...]\n', printed 'df.run(df.print(df.int32{{1, 2}, {3, 4}}))')
    assert.are.equal('[0.333333343][true][hello][0.1]\n',
      printed "local x = df.float32(1/3) df.run(df.print(x, {x, df.constant(true), df.constant('hello'), df.float64(0.1)}))")
    assert.are.equal('[][inf -inf nan]\n',
      printed 'df.run(df.print(df.float32(1), {df.zeros{0}, df.float32{1/0, -1/0, 0/0}}))')
  end)
  it('passes its input and its gradient through', function()
    local r = printed [[
      local x = df.float32{1, 2}
      local y = df.print(x * x, {message = 'y '})
      local g = df.run(df.gradients(df.reduce_sum(y * y), x))
      assert(g:at(0) == 4 and g:at(1) == 32)]]
    assert.are.equal('y [1 4]\n', r)
  end)
  it('prints in each iteration, in program order, and with first_n only the first times', function()
    assert.are.equal('a[0]\nb[0]\na[1]\nb[1]\na[2]\n', printed [[
      local n = df.while_loop(function(i) return i:lt(3) end, function(i)
        df.print(i, {message = 'a'})
        df.print(i, {message = 'b', first_n = 2})
        return i + 1
      end, {df.int32(0)})
      df.run(n)]])
  end)
  it('lets a run go on where an assertion holds', function()
    assert.is_true(df.run(df.assert(df.float32(2):gt(1), { 1 })))
  end)
  it('stops a run where it does not, with message and data', function()
    local x = df.placeholder('float32', { -1 })
    local ok = df.assert(df.reduce_all(x:gt(0)), { x, df.reduce_min(x) }, { message = 'x must be positive' })
    near(df.run(ok, { [x] = { 1, 2 } }), true)
    fails(function() df.run(ok, { [x] = { 1, -2, 3, 4 } }) end, 'invalid_argument', 'assertion failed', 'x must be positive',
          '[1 -2 3...]', '[-2]', 'variables_spec.lua')
  end)
  it('names the iteration of an assertion in a loop', function()
    local n = df.while_loop(function(i) return i:lt(10) end, function(i)
      df.assert(i:lt(4), { i })
      return i + 1
    end, { df.int32(0) }, { name = 'climb' })
    local e = fails(function() df.run(n) end, 'invalid_argument', '[4]')
    assert(e.frame:find('climb:4', 1, true), e.frame)
  end)
  it('refuses a condition that is not a scalar bool', function()
    fails(function() df.assert(df.constant({ true, false }), {}) end, 'invalid_argument', 'bool[2]', 'scalar')
    local p = df.placeholder('bool', nil)
    local check = df.assert(p, {})
    fails(function() df.run(check, { [p] = { true, true } }) end, 'invalid_argument', 'bool[2]', 'scalar')
  end)
end)
