--- all_reduce, all_gather, broadcast, replicate: on simulated devices of one process, which ranks are to give the bits of.
local df = require 'dflow'
local support = require 'spec.support'

local function at(k, fn) return df.device(('sim:%d'):format(k), fn) end

--- A value on each of n devices.
local function spread(n, value)
  local list = {}
  for k = 1, n do list[k] = at(k, function() return df.identity(value(k)) end) end
  return list
end

describe('df.all_reduce', function()
  it('combines small values for every device, whatever their number', function()
    local want = { sum = function(n) return n * (n + 1) / 2 end, max = function(n) return n end, min = function() return 1 end,
                   mean = function(n) return (n + 1) / 2 end, prod = function(n) local p = 1 for k = 2, n do p = p * k end return p end }
    for op, value in pairs(want) do
      for n = 1, 5 do
        local found = df.run(df.all_reduce(spread(n, function(k) return df.constant(k + 0.0) end), { op = op }))
        assert.equal(n, #found)
        for k = 1, n do assert.equal(value(n), found[k]) end
      end
    end
  end)

  it('combines large values in parts, and all places have the same bits', function()
    local n, size = 3, 17001
    local xs = spread(n, function(k) return df.range(0, size, 1):cast('float32') * (k * 0.1) end)
    local found = df.run(df.all_reduce(xs))
    local sum = df.run(xs[1] + xs[2] + xs[3])
    for k = 1, n do
      assert.is_true(df.run(df.reduce_max(df.abs(df.constant(found[k]) - df.constant(sum)))) < 0.01)
      assert.equal(0, df.run(df.reduce_max(df.abs(df.constant(found[k]) - df.constant(found[1])))))
    end
  end)

  it('leaves each result where its input is', function()
    local list = df.all_reduce(spread(3, function(k) return df.placeholder('float32', { 2 }, 'x' .. k) end))
    local s = df.Session{ devices = { 'cpu:0', 'sim:1', 'sim:2', 'sim:3' } }
    assert.is_truthy(s)
    for k = 1, 3 do assert.is_truthy(list[k]) end
    s:close()
  end)

  it('has a gradient', function()
    local x = df.placeholder('float64', {}, 'x')
    local list = df.all_reduce({ at(1, function() return x * 2 end), at(2, function() return x * x end), x })
    local y = list[1] * 1 + list[2] * 10 + list[3] * 100
    assert.equal(111 * (2 + 2 * 3 + 1), df.run(df.gradients(y, x), { [x] = 3 }))
  end)

  it('works in a loop', function()
    local _, a = df.while_loop(function(i) return i:lt(3) end, function(i, v)
      local r = df.all_reduce({ at(1, function() return v + 1 end), at(2, function() return v * 2 end) })
      return i + 1, r[2]
    end, { df.int32(0), df.constant(1.0) })
    local v = 1
    for _ = 1, 3 do v = (v + 1) + v * 2 end
    assert.equal(v, df.run(a))
  end)

  it('says what is wrong with its list', function()
    for _, bad in ipairs{ {}, 3, 'x' } do
      local err = support.error_of(df.all_reduce, bad)
      assert.equal('invalid_argument', err.code)
    end
    assert.is_false((pcall(df.all_reduce, { df.constant(1.0) }, { op = 'xor' })))
    assert.is_false((pcall(df.all_reduce, { df.constant(1.0), df.int32(1) })))
    local unknown = df.placeholder('float32', { -1 })
    assert.equal(2, #df.all_reduce{ df.ones{ 2 }, unknown })
    for _, other in ipairs{ df.ones{ 3 }, df.ones{}, df.ones{ 2, 1 }, df.ones{ 1 } } do
      local err = support.error_of(df.all_reduce, { df.ones{ 2 }, other })
      assert.matches('element 2 is float32%b[] and the first is float32%[2%]; all must have one shape', err.message)
    end
  end)
end)

describe('df.all_gather and df.broadcast', function()
  it('give every device all values, and one value', function()
    local all = df.run(df.all_gather(spread(3, function(k) return df.constant{ k + 0.0, k + 0.5 } end)))
    for k = 1, 3 do assert.same({ 1, 1.5, 2, 2.5, 3, 3.5 }, all[k]:totable()) end
    assert.same({ 7, 7 }, df.run(df.broadcast(df.constant(7), { 'sim:1', 'sim:2' })))
  end)
end)

describe('df.train.replicate', function()
  it('takes the step of one device with all the data', function()
    local x, y = df.constant{ 1.0, 2, 3, 4 }, df.constant{ 2.0, 4, 6, 8 }
    local function loss_of(w, from, n)
      local e = df.slice(x, { from }, { n }) * w - df.slice(y, { from }, { n })
      return df.reduce_mean(e * e)
    end
    local w = df.Variable(0.5, { name = 'w' })
    local r = df.train.replicate({ 'sim:1', 'sim:2' }, function(k) return loss_of(w, 2 * k - 2, 2) end,
                                 { optimizer = df.train.SGD(0.05) })
    local v = df.Variable(0.5, { name = 'v' })
    local step = df.train.SGD(0.05):minimize(loss_of(v, 0, 4), { v })
    for _ = 1, 5 do
      df.run(r.step)
      df.run(step)
      assert.is_true(math.abs(df.run(w) - df.run(v)) < 1e-5)
    end
    assert.is_true(df.run(r.loss) < 1)
    assert.equal(2, #df.run(r.losses))
  end)

  it('gives each device a step of its own when it is asynchronous', function()
    local w = df.Variable(4.0, { name = 'w' })
    local r = df.train.replicate({ 'sim:1', 'sim:2' }, function(k) return (w - k) * (w - k) end,
                                 { optimizer = df.train.SGD(0.1), mode = 'async' })
    df.run(r.step[1])
    df.run(r.step[2])
    assert.is_true(math.abs(df.run(w) - ((4 - 0.1 * 2 * 3) - 0.1 * 2 * (3.4 - 2))) < 1e-5)
  end)

  it('refuses variables that each device would have of its own', function()
    local err = support.error_of(df.train.replicate, 2, function() return df.Variable(1.0) * 2 end, { optimizer = df.train.SGD(0.1) })
    assert.is_truthy(tostring(err):find 'share')
  end)
end)
