--- Softmax, the cross entropies, bias_add and l2_loss: values, special cases, errors, derivatives, kernels.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of
local nan, inf = 0 / 0, math.huge

local function f32(v, shape) return df.constant(v, 'float32', shape) end
local function f64(v, shape) return df.constant(v, 'float64', shape) end
local function i32(v, shape) return df.constant(v, 'int32', shape) end
local function has(text, part) assert(text:find(part, 1, true), ('%q has no %q'):format(text, part)) end


describe('softmax', function()
  it('gives a row of any length the same bits in place and elsewhere', function()
    for _, dtype in ipairs{ 'float32', 'float64' } do
      for _, n in ipairs{ 1, 3, 8, 10, 15, 17, 31, 50, 255, 257, 300 } do
        df.reset()
        local m = 301
        local x = df.run(df.cast(df.random_normal({ m, n }, { seed = n }), dtype))
        local ids = df.range(0, m) % n
        local kept = df.Variable(x)
        local function of(v)
          return { df.softmax(v()), df.log_softmax(v()), df.sparse_softmax_cross_entropy_with_logits(v(), ids) }
        end
        local s = df.Session{ threads = 1 }
        local turned = df.Variable(df.run(df.reshape(df.transpose(x, { 1, 0 }), { m, n })))
        local here = of(function() return df.reshape(df.transpose(kept:value(), { 1, 0 }), { m, n }) end)
        local there = of(function() return turned:value() end)
        for k = 1, 3 do assert.same(support.bits(s:run(there[k])), support.bits(s:run(here[k])), ('%s, %d, %d'):format(dtype, n, k)) end
        s:close()
      end
    end
  end)

  it('is exp(x) / sum(exp(x)) along the last axis', function()
    local e = math.exp(1)
    near(df.run(df.softmax(f64({ 0, 0, 0, 1 }, { 2, 2 }))), { { 0.5, 0.5 }, { 1 / (1 + e), e / (1 + e) } }, { rtol = 1e-14 })
    near(df.run(df.log_softmax(f64{ 0, 1 })), { -math.log(1 + e), 1 - math.log(1 + e) }, { rtol = 1e-14 })
    near(df.run(df.softmax(f32{ 1000, 1000, -1000 })), { 0.5, 0.5, 0 })
    near(df.run(df.log_softmax(f32{ 1000, 0 })), { 0, -1000 })
  end)

  it('has defined rows where numbers are not finite', function()
    local n = { nan, nan }
    same(df.run(df.softmax(f32({ -inf, -inf, inf, 0, nan, 0 }, { 3, 2 }))), { n, { nan, nan }, n })
    same(df.run(df.softmax(f32{ 0, -inf })), { 1, 0 })
    same(df.run(df.log_softmax(f32{ 0, -inf })), { 0, -inf })
    same(df.run(df.softmax(f32({ 1, nan, 0, 0 }, { 2, 2 }))), { n, { 0.5, 0.5 } })
  end)

  it('needs an axis', function()
    has(message_of(df.softmax, f32(1)), 'got a scalar')
    has(message_of(df.softmax, i32{ 1 }), 'int32')
  end)

  it('gives a row the same bits wherever it lies', function()
    local row, many = support.numbers(21, -3, 3, 5), {}
    for _ = 1, 40 do
      for i = 1, 21 do many[#many + 1] = row[i] end
    end
    for _, dtype in ipairs{ 'float32', 'float64' } do
      local one = df.run(df.softmax(df.constant(row, dtype)))
      local all = df.run(df.softmax(df.constant(many, dtype, { 40, 21 }))):totable()
      for r = 1, 40 do same(all[r], one) end
    end
  end)

  it('has derivatives of first and second order', function()
    local x = support.tensor({ 2, 4 }, -1, 1, 'float64', 3)
    support.check_gradient(function(v) return df.softmax(v) end, { x }, { order = 2 })
    support.check_gradient(function(v) return df.log_softmax(v) end, { x }, { order = 2 })
  end)
end)

describe('softmax_cross_entropy_with_logits', function()
  local function cost(labels, logits) return df.softmax_cross_entropy_with_logits{ labels = labels, logits = logits } end

  it('is the cross entropy of each row', function()
    near(df.run(cost(f64({ 1, 0, 0.5, 0.5 }, { 2, 2 }), f64({ 0, 0, 0, 1 }, { 2, 2 }))),
      { math.log(2), math.log(1 + math.exp(1)) - 0.5 }, { rtol = 1e-14 })
    near(df.run(cost(f32({ 0, 1 }, { 1, 2 }), f32({ 1000, 0 }, { 1, 2 }))), { 1000 })
    same(df.run(cost(f32({}, { 0, 3 }), f32({}, { 0, 3 }))).shape, { 0 })
    same(df.run(cost(f32({}, { 2, 0 }), f32({}, { 2, 0 }))), { 0, 0 })
  end)

  it('names both shapes where they differ', function()
    has(message_of(cost, f32({ 1, 0 }, { 1, 2 }), f32({ 1, 0, 0 }, { 1, 3 })), 'logits are float32[1,3], labels float32[1,2]')
    local labels = df.placeholder('float32', { -1, -1 })
    local t = df.tensor({ 1, 0 }, 'float32', { 1, 2 })
    has(message_of(df.run, cost(labels, f32({ 1, 0, 0 }, { 1, 3 })), { [labels] = t }), 'logits are float32[1,3], labels float32[1,2]')
  end)

  it('has derivatives of first and second order, by the labels too', function()
    support.check_gradient(function(x, l) return cost(df.softmax(l), x) end,
      { support.tensor({ 2, 4 }, -1, 1, 'float64', 3), support.tensor({ 2, 4 }, -1, 1, 'float64', 4) }, { order = 2 })
    local x, l = f64({ 1, 2, 3 }, { 1, 3 }), f64({ 0, 0, 1 }, { 1, 3 })
    near(df.run(df.gradients(cost(l, x), x)), df.run(df.softmax(x) - l), { rtol = 1e-14 })
  end)
end)

describe('sparse_softmax_cross_entropy_with_logits', function()
  local function cost(labels, logits) return df.sparse_softmax_cross_entropy_with_logits{ labels = labels, logits = logits } end

  it('is the cross entropy of each row and its class', function()
    near(df.run(cost(i32{ 0, 1 }, f64({ 0, 0, 0, 1 }, { 2, 2 }))), { math.log(2), math.log(1 + math.exp(1)) - 1 }, { rtol = 1e-14 })
    near(df.run(cost(df.constant({ 1 }, 'int64'), f32({ 1000, 0 }, { 1, 2 }))), { 1000 })
    near(df.run(cost(i32{ 0 }, f32({ 0, -inf }, { 1, 2 }))), { 0 })
  end)

  it('is an error for a label that is no class', function()
    has(message_of(df.run, cost(i32{ 0, 2 }, f32({ 1, 2, 3, 4 }, { 2, 2 }))), 'labels[1] is 2: expected a class from 0 to 1')
    has(message_of(df.run, cost(i32{ -1 }, f32({ 1, 2 }, { 1, 2 }))), 'labels[0] is -1: expected a class from 0 to 1')
    has(message_of(cost, i32{ 0, 1 }, f32({ 1, 2 }, { 1, 2 })), 'without its last axis')
  end)

  it('has derivatives of first and second order', function()
    support.check_gradient(function(x) return cost(i32{ 1, 3 } * 1, x) end, { support.tensor({ 2, 4 }, -1, 1, 'float64', 3) }, { order = 2 })
  end)
end)

describe('bias_add', function()
  it('adds to each channel', function()
    same(df.run(df.bias_add(i32({ 1, 2, 3, 4 }, { 2, 2 }), i32{ 10, 20 })), { { 11, 22 }, { 13, 24 } })
    same(df.run(df.bias_add(i32({ 1, 2, 3, 4 }, { 1, 2, 2 }), i32{ 10, 20 }, { data_format = 'NCHW' })), { { { 11, 12 }, { 23, 24 } } })
    same(df.run(df.bias_add_grad(i32({ 1, 2, 3, 4 }, { 2, 2 }))), { 4, 6 })
    same(df.run(df.bias_add_grad(i32({ 1, 2, 3, 4 }, { 1, 2, 2 }), { data_format = 'NCHW' })), { 3, 7 })
  end)

  it('names both shapes where they do not fit', function()
    has(message_of(df.bias_add, f32({ 1, 2 }, { 1, 2 }), f32{ 1 }), 'value is float32[1,2], bias float32[1]')
    has(message_of(df.bias_add, f32({ 1, 2 }, { 1, 2 }), f32{ 1, 2 }, { data_format = 'CHWN' }), "'CHWN': expected one of NHWC|NCHW")
    has(message_of(df.bias_add, f32(1), f32{ 1 }), 'no channel axis')
    has(message_of(df.bias_add, f32{ 1, 2 }, f32{ 1, 2 }), 'no channel axis beside')
  end)

  it('has derivatives of first and second order', function()
    local x = support.tensor({ 2, 3, 4 }, -1, 1, 'float64', 3)
    support.check_gradient(function(v, b) return df.tanh(df.bias_add(v, b)) end, { x, { 1, 0.5, -1, 0 } }, { order = 2 })
    support.check_gradient(function(v, b) return df.tanh(df.bias_add(v, b, { data_format = 'NCHW' })) end, { x, { 1, 0.5, -1 } }, { order = 2 })
    support.check_gradient(function(v) return df.tanh(df.bias_add_grad(v, { data_format = 'NCHW' })) end, { x }, { order = 2 })
  end)
end)

describe('l2_loss', function()
  it('is half the sum of squares', function()
    near(df.run(df.l2_loss(f32{ 3, 4 })), 12.5)
    near(df.run(df.l2_loss(f32({}, { 0 }))), 0)
    near(df.run(df.l2_loss(f64(3))), 4.5)
    for _, n in ipairs{ 1, 17, 100, 33000 } do
      for _, dtype in ipairs{ 'float32', 'float64', 'float16' } do
        support.cpu_equals_ref(df.l2_loss, { support.tensor({ n }, -1, 1, dtype, 3) }, { rtol = dtype == 'float16' and 1e-3 or 1e-6 })
      end
    end
    support.check_gradient(function(v) return df.l2_loss(df.sin(v)) end, { { 1, 2, 3 } }, { order = 2 })
  end)
end)
