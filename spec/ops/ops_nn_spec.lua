--- Softmax, the cross entropies, bias_add and l2_loss: special cases and errors.
local df = require 'dflow'
local support = require 'spec.support'
local same, message_of = support.same, support.message_of
local nan, inf = 0 / 0, math.huge

local function f32(v, shape) return df.constant(v, 'float32', shape) end
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
end)

describe('softmax_cross_entropy_with_logits', function()
  local function cost(labels, logits) return df.softmax_cross_entropy_with_logits{ labels = labels, logits = logits } end

  it('names both shapes where they differ', function()
    has(message_of(cost, f32({ 1, 0 }, { 1, 2 }), f32({ 1, 0, 0 }, { 1, 3 })), 'logits are float32[1,3], labels float32[1,2]')
    local labels = df.placeholder('float32', { -1, -1 })
    local t = df.tensor({ 1, 0 }, 'float32', { 1, 2 })
    has(message_of(df.run, cost(labels, f32({ 1, 0, 0 }, { 1, 3 })), { [labels] = t }), 'logits are float32[1,3], labels float32[1,2]')
  end)
end)

describe('sparse_softmax_cross_entropy_with_logits', function()
  local function cost(labels, logits) return df.sparse_softmax_cross_entropy_with_logits{ labels = labels, logits = logits } end

  it('is an error for a label that is no class', function()
    has(message_of(df.run, cost(i32{ 0, 2 }, f32({ 1, 2, 3, 4 }, { 2, 2 }))), 'labels[1] is 2: expected a class from 0 to 1')
    has(message_of(df.run, cost(i32{ -1 }, f32({ 1, 2 }, { 1, 2 }))), 'labels[0] is -1: expected a class from 0 to 1')
    has(message_of(cost, i32{ 0, 1 }, f32({ 1, 2 }, { 1, 2 })), 'without its last axis')
  end)
end)

describe('bias_add', function()
  it('names both shapes where they do not fit', function()
    has(message_of(df.bias_add, f32({ 1, 2 }, { 1, 2 }), f32{ 1 }), 'value is float32[1,2], bias float32[1]')
    has(message_of(df.bias_add, f32({ 1, 2 }, { 1, 2 }), f32{ 1, 2 }, { data_format = 'CHWN' }), "'CHWN': expected one of NHWC|NCHW")
    has(message_of(df.bias_add, f32(1), f32{ 1 }), 'no channel axis')
    has(message_of(df.bias_add, f32{ 1, 2 }, f32{ 1, 2 }), 'no channel axis beside')
  end)
end)

