--- Reductions, scans, argmax, top_k and sums by segment: values, special cases, errors, derivatives, kernels.
-- run: first
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of
local nan, inf = 0 / 0, math.huge
local unpack = table.unpack or unpack

local function f32(v, shape) return df.constant(v, 'float32', shape) end
local function f64(v, shape) return df.constant(v, 'float64', shape) end
local function i32(v, shape) return df.constant(v, 'int32', shape) end
local function has(text, part) assert(text:find(part, 1, true), ('%q has no %q'):format(text, part)) end

describe('a reduction', function()
  it('folds all axes when none is named, and none for an empty list', function()
    local x = i32({ 1, 2, 3, 4 }, { 2, 2 })
    same(df.run(df.reduce_sum(x)), 10)
    same(df.run(df.reduce_sum(x, { axis = i32({}, { 0 }) })), { { 1, 2 }, { 3, 4 } })
    same(df.run(df.reduce_sum(i32(7))), 7)
  end)

  it('knows its shape as far as it can be known', function()
    local x = df.placeholder('float32', { -1, 3, 4 })
    same(df.reduce_sum(x, { axis = 1 }).shape, { -1, 4 })
    same(df.reduce_sum(x).shape, {})
    same(df.reduce_sum(x, { axis = df.placeholder('int32', { 2 }) }).shape, { -1 })
    assert.is_nil(df.reduce_sum(x, { axis = df.placeholder('int32', { -1 }) }).shape)
    assert.is_nil(df.reduce_sum(df.placeholder('float32'), { axis = 0 }).shape)
  end)

  it('takes axes that are known only when it runs', function()
    local x, axis = df.placeholder('float32'), df.placeholder('int32')
    local y = df.reduce_sum(x, { axis = axis })
    local t = df.tensor({ 1, 2, 3, 4, 5, 6 }, 'float32', { 2, 3 })
    same(df.run(y, { [x] = t, [axis] = 0 }), { 5, 7, 9 })
    same(df.run(y, { [x] = t, [axis] = df.tensor({ 0, -1 }, 'int32') }), 21)
    has(message_of(df.run, y, { [x] = t, [axis] = 2 }), 'reduction axis 2 is out of range for float32[2,3]: expected -2 to 1')
    has(message_of(df.run, y, { [x] = t, [axis] = df.tensor({ 1, -1 }, 'int32') }), 'reduction axis -1 is given twice')
  end)

  it('is an error when built with axes that cannot be', function()
    local x = f32({ 1, 2, 3, 4 }, { 2, 2 })
    has(message_of(df.reduce_sum, x, { axis = 2 }), 'reduction axis 2 is out of range for float32[2,2]: expected -2 to 1')
    has(message_of(df.reduce_max, x, { axis = { 0, 0 } }), 'reduction axis 0 is given twice')
  end)

  it('of no elements gives the neutral element', function()
    local none = f32({}, { 0 })
    same(df.run(df.reduce_sum(none)), 0)
    same(df.run(df.reduce_prod(none)), 1)
    same(df.run(df.reduce_max(none)), -inf)
    same(df.run(df.reduce_min(none)), inf)
    same(df.run(df.reduce_mean(none)), nan)
    same(df.run(df.reduce_logsumexp(none)), -inf)
    same(df.run(df.reduce_euclidean_norm(none)), 0)
    same(df.run(df.reduce_max(i32({}, { 0 }))), -2147483648)
    same(df.run(df.reduce_min(df.constant({}, 'uint8', { 0 }))), 255)
    same(df.run(df.reduce_all(df.constant({}, 'bool', { 0 }))), true)
    same(df.run(df.reduce_any(df.constant({}, 'bool', { 0 }))), false)
    same(df.run(df.reduce_sum(f32({}, { 3, 0 }), { axis = 1 })), { 0, 0, 0 })
    same(df.run(df.reduce_sum(f32({}, { 3, 0 }), { axis = 0 })).shape, { 0 })
    has(message_of(df.run, df.reduce_mean(i32({}, { 0 }))), 'integer division by zero')
  end)

  it('lets a NaN through max and min from any place of a row, and gives the first of two zeros', function()
    for _, dtype in ipairs{ 'float32', 'float64' } do
      for _, n in ipairs{ 5, 16, 31, 64, 200, 1100 } do
        local list = support.numbers(n, -9, 9, n)
        local x = df.placeholder(dtype, { 2, n })
        local low, high = df.reduce_min(x, { axis = 1 }), df.reduce_max(x, { axis = 1 })
        for at = 1, n, n > 100 and 37 or 3 do
          local rows = {}
          for i = 1, 2 * n do rows[i] = list[(i - 1) % n + 1] end
          rows[at] = nan
          local feed = { [x] = df.tensor(rows, dtype, { 2, n }) }
          for _, y in ipairs(df.run({ low, high }, feed)) do
            assert.is_true(y:at(0) ~= y:at(0))
            assert.is_true(y:at(1) == y:at(1))
          end
          assert.equal(df.run(high, feed):at(1), df.run(df.reduce_max(df.tensor(list, dtype))))
        end
        local zeros = {}
        for i = 1, 2 * n do zeros[i] = i <= n and -0.0 or 0.0 end
        local both = df.run({ 1 / low, 1 / high }, { [x] = df.tensor(zeros, dtype, { 2, n }) })
        assert.same({ -inf, inf, -inf, inf }, { both[1]:at(0), both[1]:at(1), both[2]:at(0), both[2]:at(1) })
      end
    end
  end)

  it('lets NaN through max and min, and infinities everywhere', function()
    for place = 1, 40 do
      local v = {}
      for i = 1, 40 do v[i] = i end
      v[place] = nan
      same(df.run(df.reduce_max(f32(v))), nan)
      same(df.run(df.reduce_min(f64(v))), nan)
      same(df.run(df.reduce_max(f32(v, { 1, 40, 1 }), { axis = 1 })), { { nan } })
    end
    same(df.run(df.reduce_sum(f32{ inf, 1 })), inf)
    same(df.run(df.reduce_sum(f32{ inf, -inf })), nan)
    same(df.run(df.reduce_logsumexp(f32{ -inf, -inf })), -inf)
    same(df.run(df.reduce_logsumexp(f32{ inf, 1 })), inf)
    same(df.run(df.reduce_logsumexp(f32{ nan, 1 })), nan)
  end)

  it('loses few digits in long sums', function()
    local ones = df.fill({ 1000003 }, f32(0.1))
    near(df.run(df.reduce_sum(ones)), 100000.3 + 1000003 * 1.490116e-9, { rtol = 1e-6 })
    near(df.run(df.reduce_sum(df.reshape(df.fill({ 300000 }, f32(0.1)), { 100000, 3 }), { axis = 0 })), { 10000, 10000, 10000 }, { rtol = 1e-6 })
    same(df.run(df.reduce_mean(df.fill({ 70000 }, df.constant(3, 'float16')))), 3)
  end)

  it('gives the same bits on any number of threads', function()
    local g = df.Graph()
    g:as_default(function()
      local x = df.constant(support.tensor({ 300, 700 }, -1, 1, 'float32', 3))
      local ys = { df.reduce_sum(x), df.reduce_sum(x, { axis = 0 }), df.reduce_sum(x, { axis = 1 }), df.reduce_logsumexp(x) }
      local one, four = df.Session{ graph = g, threads = 1 }, df.Session{ graph = g, threads = 4 }
      local expected = one:run(ys)
      for _ = 1, 5 do same(four:run(ys), expected) end
      one:close()
      four:close()
    end)
  end)

  it('shares the gradient of max among equals', function()
    local x = f32{ 3, 1, 3 }
    near(df.run(df.gradients(df.reduce_max(x), x)), { 0.5, 0, 0.5 })
    near(df.run(df.gradients(df.reduce_min(x), x)), { 0, 1, 0 })
  end)

  it('has an exact gradient of a product with zeros', function()
    local x = f64({ 0, 2, 0, 1, 3, 4 }, { 2, 3 })
    same(df.run(df.gradients(df.reduce_prod(x, { axis = 1 }), x)), { { 0, 0, 0 }, { 12, 4, 3 } })
    local one, three = df.tensor({ 0, 2, 5, 1, 3, 4 }, 'float64', { 2, 3 }), df.tensor({ 0, 2, 0, 1, 0, 4 }, 'float64', { 2, 3 })
    support.check_gradient(function(v) return df.reduce_prod(v, { axis = { 0, 1 } }) end, { one }, { order = 2 })
    support.check_gradient(function(v) return df.reduce_prod(v, { axis = 1 }) end, { three }, { order = 2 })
  end)
end)

describe('argmax and argmin', function()
  it('find the first NaN', function()
    for _, place in ipairs{ 1, 7, 20, 33 } do
      local v = {}
      for i = 1, 40 do v[i] = i end
      v[place], v[36] = nan, nan
      same(df.run(df.argmax(f32(v), 0)), place - 1)
      same(df.run(df.argmin(f64(v), 0)), place - 1)
    end
  end)

  it('are errors along an empty axis and one that is not there', function()
    has(message_of(df.argmax, f32({}, { 2, 0 }), 1), 'axis 1 of float32[2,0] has no elements')
    local x = df.placeholder('float32', { -1 })
    has(message_of(df.run, df.argmin(x, 0), { [x] = df.tensor({}, 'float32', { 0 }) }), 'axis 0 of float32[0] has no elements')
    has(message_of(df.argmax, f32{ 1 }, 1), 'axis 1 is out of range for float32[1]: expected -1 to 0')
    local fed, axis = df.placeholder('float32'), df.placeholder('int32')
    local late = df.argmax(fed, axis)
    has(message_of(df.run, late, { [fed] = df.tensor({ 1 }, 'float32'), [axis] = 1 }), 'axis 1 is out of range for float32[1]: expected -1 to 0')
    has(message_of(df.run, late, { [fed] = df.tensor(3, 'float32'), [axis] = 0 }), 'a scalar has no axes')
    has(message_of(df.argmax, f32(1), 0), 'a scalar has no axes')
  end)
end)

describe('a gradient of what was broadcast', function()
  support.host_it(it, pending)('is summed to the bits of the reference, along axes in front, behind and between', function()      -- a GPU sums in another order
    local op = require('dflow.front.registry').op
    for _, dtype in ipairs{ 'float32', 'float64' } do
      for _, case in ipairs{ { { 7, 5 }, { 5 } }, { { 7, 5 }, { 1, 5 } }, { { 19, 33 }, { 19, 1 } }, { { 2, 3, 40 }, { 2, 3, 1 } }, { { 4, 9, 6 }, { 4, 1, 6 } },
                             { { 3, 1, 11 }, { 3, 1, 1 } }, { { 2, 3, 4, 5 }, { 1, 3, 1, 5 } }, { { 2, 3, 4, 5 }, { 3, 4, 1 } }, { { 17, 6, 2 }, {} },
                             { { 1, 6 }, { 6 } }, { { 900, 70 }, { 900, 1 } }, { { 300, 3, 50 }, { 300, 1, 50 } } } do
        support.cpu_equals_ref(function(x) return op('SumToShape', { x, df.constant(case[2], 'int32', { #case[2] }) }) end,
          { support.tensor(case[1], -3, 3, dtype, 5) }, { rtol = 0, atol = 0, what = table.concat(case[1], ' ') .. ' to ' .. table.concat(case[2], ' ') })
      end
    end
  end)
end)

describe('top_k', function()
  it('is an error with more than there are', function()
    has(message_of(df.top_k, i32{ 1, 2 }, 3), 'top_k of 3 among the last axis of int32[2]: expected 0 to 2')
    has(message_of(df.top_k, i32{ 1, 2 }, -1), 'k must not be negative')
    has(message_of(df.top_k, i32(1), 1), 'at least one axis')
  end)

  it('has NaN first, zeros of both signs in their order, and negative numbers, in a line that is sorted as a whole', function()
    local x = {}
    for i = 1, 96 do x[i] = i % 3 - 1.5 * (i % 2) end
    x[10], x[20], x[30], x[40], x[50], x[60] = nan, -0.0, 0.0, -inf, inf, nan
    for _, dtype in ipairs{ 'float32', 'float64' } do
      local values, places = df.top_k(df.constant(x, dtype), 96)
      values, places = unpack(df.run{ 1 / values, places })
      values, places = values:totable(), places:totable()
      same({ places[1], places[2], places[3], places[96] }, { 9, 59, 49, 39 })
      assert.is_true(values[1] ~= values[1] and values[2] ~= values[2])
      local before
      for i, place in ipairs(places) do
        local v = x[place + 1]
        if before and v == before then assert.is_true(place > places[i - 1]) elseif before == before and before then assert.is_true(v < before) end
        if v == 0 then same(values[i] > 0, 1 / v > 0) end
        before = v
      end
    end
  end)
end)

describe('in_top_k', function()
  it('counts ties as among, and what is not finite as not', function()
    local p = f32({ 0.1, 0.7, 0.2, 0.5, 0.5, 0.5, 0.1, nan, 0.3, 1, 2, 3 }, { 4, 3 })
    same(df.run(df.in_top_k(p, i32{ 2, 0, 0, 5 }, 2)), { true, true, false, false })
    same(df.run(df.in_top_k(p, i32{ 0, 0, 0, 2 }, 1)), { false, true, false, true })
    has(message_of(df.in_top_k, p, i32{ 1 }, 1), 'targets [batch]')
  end)
end)

describe('sums by segment', function()
  it('are errors with ids that cannot be', function()
    has(message_of(df.run, df.unsorted_segment_sum(i32{ 1, 2 }, i32{ 0, 3 }, 2)), 'segment_ids[1] is 3: expected less than num_segments, 2')
    has(message_of(df.run, df.segment_sum(i32{ 1, 2, 3 }, i32{ 0, 2, 1 })), 'segment_ids must ascend from 0: segment_ids[2] is 1 after 2')
    has(message_of(df.unsorted_segment_sum, i32{ 1, 2 }, i32{ 0, 1, 1 }, 2), 'the shape of data must begin with that of segment_ids')
    has(message_of(df.unsorted_segment_sum, i32{ 1, 2 }, i32{ 0, 1 }, -1), 'num_segments must not be negative, got -1')
    local x, id = df.placeholder('float32'), df.placeholder('int32')       -- one axis more than there can be
    local all = df.run(df.ones{ 2, 2, 2, 2, 2, 2, 2, 2 })
    has(message_of(df.run, df.unsorted_segment_sum(x, id, 3), { [x] = all, [id] = 1 }), 'the result has more than 8 axes')
  end)

  it('count with bincount', function()
    same(df.run(df.bincount(i32{ 1, 2, 1, 9 }, 3, i32({}, { 0 }))), { 0, 2, 1 })
    near(df.run(df.bincount(i32{ 1, 2, 1 }, 3, f32{ 0.5, 1, 2 })), { 0, 2.5, 1 })
    has(message_of(df.run, df.bincount(i32{ -1 }, 3, i32({}, { 0 }))), 'arr[0] is -1')
    support.check_gradient(function(w) return df.square(df.bincount(df.constant({ 1, 2, 1, 7 }, 'int32'), 3, w)) end, { { 1, 2, 3, 4 } }, { order = 2 })
  end)
end)

describe('counting zeros', function()
  it('says once for a line that {} is a list of no axes, and reduces nothing then', function()
    local r = require('spec.shell').run(require('spec.shell').lua .. ' - ', [[
      local df = require 'dflow'
      local x, axis = df.float32{ 1, 2 }, nil
      for _ = 1, 3 do print(df.run(x:reduce_sum{ axis = axis })) end
      print(df.run(df.reduce_max(x, { axis = {} })), df.run(df.reduce_max(x, {}, true)), df.run(df.reduce_max(x)))
    ]])
    local _, n = r.err:gsub('warning', '')
    assert.same({ 1, 0 }, { n, r.status })
    assert.matches('stdin:3: warning: reduce_sum is given {}, a list of no axes, which reduces nothing', r.err, 1, true)
    assert.matches('[1. 2.] float32[2]\n', r.out, 1, true)
  end)

  it('count_nonzero and zero_fraction count zeros, falsehoods and empty strings', function()
    local x = f32{ { 0, 3, 0 }, { 1, -2, 0 } }
    assert.equal('int64', df.count_nonzero(x).dtype)
    assert.equal(3, df.run(df.count_nonzero(x, { dtype = 'int32' })))
    near(df.run(df.count_nonzero(x, { axis = 1, dtype = 'int32' })), { 1, 2 })
    near(df.run(df.count_nonzero(x, 0, true, { dtype = 'int32' })), { { 1, 2, 0 } })
    assert.equal(1, df.run(df.count_nonzero(df.constant{ 'a', '' }, { dtype = 'int32' })))
    assert.equal(1, df.run(df.count_nonzero(df.constant{ true, false }, { dtype = 'int32' })))
    assert.equal(1, df.run(df.count_nonzero(df.float64{ 0, 2.5 }, { dtype = 'int32' })))
    near(df.run(df.count_nonzero(df.zeros{ 0, 3 }, { axis = 0, dtype = 'int32' })), { 0, 0, 0 })
    assert.same({ 0.5, 0.5, 0.25 }, df.run{ df.zero_fraction(x), df.zero_fraction(i32{ 0, 1 }), df.zero_fraction(df.constant{ true, true, false, true }) })
  end)
end)

describe('the variance and the standard deviation', function()
  it('are of all elements, along axes or of everything', function()
    near(df.run(df.reduce_variance(f32{ 1, 2, 4 })), 14 / 9)
    near(df.run(df.reduce_std(f32{ { 1, 2 }, { 3, 7 } }, 1)), { 0.5, 2 })
    near(df.run(df.reduce_std(f32{ { 1, 2 }, { 3, 7 } }, { axis = 0, keep_dims = true })), { { 1, 2.5 } })
    near(df.run(df.reduce_variance(f64{ 1e8 + 1, 1e8 + 2, 1e8 + 4 })), 14 / 9)
    same(df.run(df.reduce_variance(f32({}, { 0 }))) ~= df.run(df.reduce_variance(f32({}, { 0 }))), true)      -- NaN
    near(df.run({ df.moments(f32{ 1, 2, 4 }) }), { 7 / 3, 14 / 9 })                                          -- of everything, too
    has(message_of(df.reduce_std, i32{ 1, 2 }), "df.cast(x, 'float32')")
  end)
end)

describe('a reduction', function()
  local registry = require 'dflow.front.registry'
  it('whose axes are told late has as many axes as are left', function()
    local x = df.placeholder('float32', { 2, 3, 4 })
    local function shape(axes, keep, of) return registry.op('Sum', { of or x, df.placeholder('int32', axes) }, { keep_dims = keep }).shape end
    assert.same({ -1, -1 }, shape{})
    assert.same({ -1, -1 }, shape{ 1 })
    assert.same({ -1 }, shape{ 2 })
    assert.same({}, shape{ 3 })
    assert.same({ -1, -1, -1 }, shape{ 0 })
    assert.same({ -1, -1, -1 }, shape({}, true))
    assert.same({ -1, -1, -1 }, shape({ -1 }, true))
    assert.is_nil(shape{ -1 })
    assert.is_nil(shape(nil))
    assert.matches('4 reduction axes for float32%[2,3,4%]', select(2, pcall(shape, { 4 })).message)
    assert.matches('1 reduction axes for float32%[%]', select(2, pcall(shape, {}, false, df.placeholder('float32', {}))).message)
    assert.same({ -1, -1 }, shape{ 1, 1 })
    assert.same({ -1 }, shape{ 2, 1 })
  end)

  it('is the same with as many threads as share work, and a few more', function()
    local x = df.range(0, 300000)
    local y = df.reduce_sum(df.cast(x % 1000, 'float32') * 0.5)
    local want = df.run(y)
    for _, threads in ipairs{ 1, 63, 64, 65, 66, 67 } do
      local s = df.Session{ threads = threads }
      for _ = 1, 3 do assert.equal(want, s:run(y)) end
      s:close()
    end
  end)
end)

describe('the gradient of what was broadcast', function()
  it('is the sum over it, in the order of the reference', function()
    for _, dtype in ipairs{ 'float32', 'float64' } do
      for _, dims in ipairs{ { 4 }, { 1, 4 }, { 3, 4 }, { 3, 1 }, { 1, 1, 4 }, { 5, 1, 4 }, { 1 }, { 5, 3, 4 } } do
        df.reset()
        local x, b = df.placeholder(dtype), df.placeholder(dtype)          -- of shapes that only the run knows
        local g = df.gradients(((x + b) * x):reduce_sum(), b)
        local feeds = { [x] = support.tensor({ 5, 3, 4 }, -3, 3, dtype, 7), [b] = support.tensor(dims, -1, 1, dtype, 9) }
        local found = {}
        for _, kernels in ipairs{ 'cpu', 'ref' } do
          local s = df.Session{ kernels = kernels }
          found[kernels] = s:run(g, feeds)
          s:close()
        end
        assert.same(found.ref.shape, found.cpu.shape)
        assert.same(support.bits(found.ref), support.bits(found.cpu), table.concat(dims, ','))
      end
    end
  end)
end)
