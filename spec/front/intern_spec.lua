--- Building in a loop: what is built again, at the same line and of the same values, is run as what was there before.
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local near, same = support.near, support.same

describe('an op that is built again after a run', function()
  local g, v, x
  before_each(function()
    g = df.default_graph()
    v, x = df.Variable(0.0), df.placeholder('float32', {})
    df.run(v)
  end)

  --- How many nodes the graph gains once fn has been called twice.
  local function growth(fn)
    fn(1)
    fn(2)
    local before = g:size()
    for i = 3, 12 do fn(i) end
    return g:size() - before
  end

  it('adds no node when it is fetched alone', function()
    same(growth(function() df.run(v:assign(2.0)) end), 0)
    same(growth(function() df.run(v:assign_add(1.0)) end), 0)
    same(growth(function(i) same(df.run(x * 2 + 1, { [x] = i }), 2 * i + 1) end), 0)
    same(growth(function() df.run((v * v):reshape{ 1, 1 }:reduce_sum{ axis = 0 }) end), 0)
    same(growth(function() df.concat({ df.zeros_like(x):reshape{ 1 }, { 1.0, 2.0 } }, 0):eval{ [x] = 3 } end), 0)
    local q = df.FIFOQueue(100, { 'float32' })
    same(growth(function() df.run(q:enqueue(1.5)) end), 0)
    same(df.run(q:size()), 12)
    same(df.run(v), 14)
  end)

  it('adds its node each time when it draws random numbers, is a default or has several outputs', function()
    for what, fn in pairs{ uniform = function() return df.random_uniform{ 2 } end, shuffle = function() return df.random_shuffle{ 1, 2, 3 } end,
                           default = function() return df.placeholder_with_default(v * 2, {}) end,
                           parts = function() return df.split(df.expand_dims(v, 0), 1)[1] end } do
      local gained = growth(function() df.run(fn()) end)
      assert.is_true(gained >= 10, what .. ' ' .. gained)
    end
  end)

  it('adds no node where no line asks for it, since a function of dflow is a coroutine', function()
    same(growth(function() df.run(coroutine.wrap(v.assign_add)(v, 1)) end), 0)
    same(growth(function() df.run{ coroutine.wrap(df.add)(v, 1), coroutine.wrap(df.multiply)(v, 2) } end), 0)
    same({ df.run(v), df.run(coroutine.wrap(df.add)(v, 1)), df.run(coroutine.wrap(df.add)(v, 2)) }, { 12, 13, 14 })
  end)

  it('adds no node when a shape stands in it, and has the shape as it is then', function()
    local m, of = df.Variable(df.zeros{ 2, 3 }), df.zeros{ 2, 3 }.shape
    df.run(m)
    same(growth(function() df.run(m:reshape(of)) end), 0)
    same(growth(function() df.run(df.shape(m) + of) end), 0)
    for _, list in ipairs{ of, setmetatable({ 2, 3 }, {}) } do
      local function reshaped() return df.run(df.reshape(m, list)).shape end
      same(reshaped(), { 2, 3 })
      list[1], list[2] = 3, 2
      same(reshaped(), { 3, 2 })
    end
  end)

  it('adds no node when it is fetched with others, or by the background', function()
    local w = df.Variable(1.0)
    df.run(w)
    same(growth(function() df.run{ v:value(), { a = v:read_value() * 2 } } end), 0)
    same(growth(function(i) same(df.run({ x + 1, y = x * v }, { [x] = i })[1], i + 1) end), 0)
    same(growth(function() df.run{ v, v * 2, df.sqrt(df.reduce_sum(w * w)) } end), 0)
    same(growth(function() df.run{ v:assign_add(1.0), w:assign(2.0) } end), 0)
    same(growth(function() df.run{ v:assign_add(1.0), seen = v:assign_add(1.0) } end), 0)
    same(growth(function() df.start(v + 1):wait() end), 0)
    same(growth(function() df.start({ v:value(), x * 2 }, { [x] = 1 }):wait() end), 0)
    same(growth(function() df.run({ v + 1, w }, nil, { tensors = true }) end), 0)
    same(growth(function() df.split(df.expand_dims(df.stack{ v, w }, 0), 2, 1) end) >= 0, true)
    same(growth(function() df.matmul(df.reshape(v, { 1, 1 }), df.expand_dims(df.expand_dims(w, 0), 1)):eval() end), 0)
    same(df.run(v), 12 * 3)
  end)

  it('has every effect that is asked for, whatever else is', function()
    local w = df.Variable(0.0)
    local function up() return v:assign_add(1.0) end
    local function copy(of) return w:assign(of) end
    local first = up()
    df.run(first)
    local second = up()
    df.run(second)
    df.run{ first, second }                                    -- this one's, and the first's
    same(df.run(v), 4)
    df.run(copy(first))
    df.run{ copy(first), up() }
    same(df.run(v), 7)
    local third = up()
    df.run{ third, third }
    same(df.run(v), 8)
    df.run{ up(), up() }
    same(df.run(v), 10)
    df.run({ up(), up(), w }, { [w:value() + 0] = 3 })
    same(df.run(v), 12)
  end)

  it('has the effect once for each run', function()
    for _ = 1, 10 do df.run(v:assign_add(1.0)) end
    same(df.run(v), 10)
  end)

  it('is another one: fetched together, both happen', function()
    local function step(k) return v:assign_add(k) end
    local a = step(1)
    df.run(a)
    local b = step(1)
    assert.is_false(rawequal(a, b))
    df.run{ a, b, step(1) }
    same(df.run(v), 4)
    df.run(a + step(1))
    same(df.run(v), 6)
    assert.are_not.equal(a.name, b.name)
  end)

  it('is another one for feeds and gradients', function()
    local function twice(k) return x * k end
    local a = twice(2)
    same(df.run(a + 1, { [x] = 1 }), 3)
    local b = twice(2)
    same(df.run(a * 10 + b, { [x] = 1, [b] = 5 }), 25)
    local c = twice(2)
    same(df.run(c, { [x] = 3 }), 6)
    same(df.run(df.gradients(a * b * c, { a, c }), { [x] = 1 }), { 4, 4 })
    same(df.run(twice(2), { [a] = 7, [x] = 1 }), 2)
  end)

  it('is built in a body, a scope, under dependencies and on a device as ever', function()
    local function step() return v:assign_add(1.0) end
    df.run(step())
    df.run(step())
    local n = df.while_loop(function(i) return i:lt(3) end, function(i)
      step()
      step()
      return i + 1
    end, { df.int32(0) })
    df.run(n)
    same(df.run(v), 8)
    local names = {}
    for i = 1, 2 do
      df.run(df.name_scope('inner', function()
        local o = step()
        names[i] = o.name
        return o
      end))
    end
    assert.are_not.equal(names[1], names[2])
    same(df.run(v), 10)
    local after
    local first = step()
    df.control_dependencies({ first }, function() after = step() end)
    df.run(after)
    same(df.run(v), 12)
  end)

  it('has the gradient that it had, in a loop of gradients', function()
    local w = df.Variable(df.ones{ 2, 2 })
    df.run(w)
    local function loss() return df.reduce_sum(df.square(df.matmul(w, { { 1, 2 }, { 3, 4 } })) * x) end
    same(growth(function(i) same(df.run(df.gradients(loss(), w), { [x] = i }):at(0, 0), 2 * i * (4 * 1 + 6 * 2)) end), 0)
    same(growth(function(i) df.run(df.gradients(loss(), { w, x }, { grad_ys = 2 }), { [x] = i }) end), 0)
    same(growth(function(i) df.run({ df.gradients(loss(), w), df.gradients(loss() * 2, w) }, { [x] = i }) end), 0)
  end)

  it('has the gradient by what it is built on, also where that has a node of its own', function()
    df.run(v:assign(3.0))
    for i = 1, 4 do
      local u = v * 2
      local y = u * u
      if i > 2 then df.run(u + 1, { [u] = 5 }) u = v * 2 y = u * u end
      same(df.run(df.gradients(y, u)), 12)
      same(df.run({ df.gradients(y, u), df.gradients(y, v) }), { 12, 24 })
      same(df.run(df.gradients(y, u), { [u] = 1 }), 2)
      local a, b = df.gradients(y, u), df.gradients(y, u)
      same(df.run{ a, b }, { 12, 12 })
    end
  end)

  it('draws anew when it draws', function()
    df.set_random_seed(1)
    local seen = {}
    for i = 1, 4 do seen[i] = df.random_uniform({ 2 }) end
    local r = df.run(seen)
    for _ = 1, 4 do seen[#seen + 1] = df.random_uniform({ 2 }) end
    assert.are_not.equal(tostring(r[1]), tostring(r[2]))
    r = df.run(seen)
    local texts = {}
    for i = 1, 8 do texts[tostring(r[i])] = i end
    local n = 0
    for _ in pairs(texts) do n = n + 1 end
    same(n, 8)
  end)

  it('has the values that it was built with', function()
    local function scaled(k) return x * k end
    for i = 1, 5 do near(df.run(scaled(i), { [x] = 2 }), 2 * i) end
    for i = 1, 5 do near(df.run(scaled(i), { [x] = 3 }), 3 * i) end
    for _, t in ipairs{ df.tensor{ 1, 2 }, df.tensor{ 3, 4 }, df.tensor{ 1, 2 } } do
      near(df.run(df.reduce_sum(t)), t:at(0) + t:at(1))
    end
    for _, list in ipairs{ { 1, 2 }, { 1, 2, 3 }, { { 1, 2 } }, { 1, 2 } } do
      same(df.run(df.rank(df.identity(list))), type(list[1]) == 'table' and 2 or 1)
    end
  end)
end)

describe('a line that builds for each run', function()
  --- What a program that has v, a variable, and its loss complains about.
  local function complaints(text, environment)
    local path = os.tmpname()
    shell.write(path, "local v = df.Variable({ 1.0, 2.0 })\nlocal loss, opt = df.reduce_sum(df.square(v)), df.train.SGD(0.1)\n" .. text)
    local r = shell.run(('%s %s %s'):format(environment or '', shell.dflow, path))
    os.remove(path)
    return r.err, r.status
  end
  local minimize = 'for _ = 1, 600 do\n  df.run(opt:minimize(loss))\nend'

  it('is named once when the graph has grown by it for hundreds of runs', function()
    for _, text in ipairs{ minimize, 'for _ = 1, 600 do\n  df.run(df.split(v, 2)[1])\nend',
                           'for k = 1, 600 do\n  df.run(v * k)\nend',
                           'for _ = 1, 600 do\n  df.run{ a = df.cond(loss:gt(0), function() return loss end, function() return -loss end) }\nend' } do
      local err, status = complaints(text)
      local _, n = err:gsub('warning: the graph has grown by %d+ operations in 256 runs', '')
      same({ n, status }, { 1, 0 })
      assert.matches(':4: warning', err, 1, true)
    end
  end)

  it('is named once, however long it goes on', function()
    local err = complaints('for k = 1, 1300 do\n  df.run(v * k)\nend')
    local _, n = err:gsub('has grown', '')
    same(n, 1)
  end)

  it('is an error under DFLOW_STRICT=1', function()
    local err, status = complaints(minimize, 'DFLOW_STRICT=1')
    assert.are_not.equal(0, status)
    assert.matches(':4: the graph has grown', err, 1, true)
  end)

  it('is not one that builds what is there, loads values, or builds now and then', function()
    for _, text in ipairs{ 'local step = opt:minimize(loss) for _ = 1, 600 do df.run(step) end',
                           'for i = 1, 600 do v:load{ i, 1.0 } df.run(loss) end', 'for i = 1, 600 do df.run(v * 2) df.run(v:assign_add{ 1.0, 1.0 }) end',
                           'for i = 1, 1200 do df.run(i % 100 == 0 and v * i or loss) end',
                           'for i = 1, 600 do df.reset() local w = df.Variable(1.0) df.run(w * i) end' } do
      same({ complaints(text) }, { '', 0 })
    end
  end)
end)
