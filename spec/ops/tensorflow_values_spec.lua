--- Where it is not plain what an op gives: what TensorFlow 2.15 gave for the same inputs.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local support = require 'spec.support'
local near, fails = support.near, support.message_of
local huge, nan = math.huge, 0 / 0

local function value(x, feeds) return df.run(x, feeds, { tensors = true }):totable() end
local function text(x) return df.run(x):list() end

describe('TensorFlow\'s value', function()
  it('of clip_by_value with bounds that cross is the lower one', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'int32', 'int8', 'uint16' } do
      local x, low, high = df.constant({ 1, 9, 5 }, dtype), df.constant({ 6, 6, 6 }, dtype), df.constant({ 2, 2, 2 }, dtype)
      assert.same({ 6, 6, 6 }, value(df.clip_by_value(x, low, high)))
      assert.same({ 6, 6, 6 }, value(df.clip_by_value(x, 6, 2)))
    end
    assert.equal(6, df.run(df.clip_by_value(df.float32(1), 6, 2)))
  end)

  it('of zeta is infinite at even poles, and none at odd ones', function()
    local x = df.constant({ 1, 2, 3, 1.5, 2, 3, 3, huge, huge, huge, 1, 2 }, 'float32')
    local q = df.constant({ nan, -2, -2, -1, 0, 0, -0.5, -1.5, 1, 2, -3, huge }, 'float32')
    near(df.run(df.zeta(x, q)), { huge, huge, nan, nan, huge, nan, 0.4143984, huge, 1, 0, huge, 0 })
  end)

  it('of the norm of integers is what their dtype holds, without its fraction', function()
    local function norm(v, dtype) return df.run(df.reduce_euclidean_norm(df.constant(v, dtype))) end
    for _, dtype in ipairs{ 'int32', 'int64', 'int16', 'uint8', 'uint16', 'uint32', 'uint64' } do
      assert.same({ 13, 1, 2 }, { norm({ 3, 4, 12 }, dtype), norm({ 1, 1 }, dtype), norm({ 2, 2 }, dtype) })
    end
    assert.same({ 5, 5, 0 }, { norm({ 100, 100 }, 'uint8'), norm({ 100, 100 }, 'int8'), norm({ 3, 4, 12 }, 'int8') })
  end)

  it('of max_pool of integers is the greatest', function()
    for _, dtype in ipairs{ 'int8', 'uint8', 'int16', 'uint16', 'int32', 'int64' } do
      local x = df.constant({ 1, 2, 3, 4, 9, 8, 7, 6 }, dtype, { 2, 2, 2, 1 })
      local y = df.max_pool(x, { ksize = { 1, 2, 2, 1 }, strides = { 1, 2, 2, 1 }, padding = 'VALID' })
      assert.same({ { { { 4 } } }, { { { 9 } } } }, value(y))
      assert.equal(dtype, y.dtype)
    end
    local least = df.constant({ -9007199254740993 }, 'int64', { 1, 1, 1, 1 })
    local y = df.max_pool(least, { ksize = { 1, 3, 3, 1 }, strides = { 1, 1, 1, 1 }, padding = 'SAME' })
    assert.is_true(df.run(df.reduce_all(df.equal(y, least))))
  end)

  it('of where counts denormal halves, and no other denormals', function()
    assert.same({ { 3 }, { 4 } }, value(df.where(df.constant({ 1e-40, 0, -1e-40, 1, nan, -0.0 }, 'float32'))))
    assert.same({ { 3 }, { 4 } }, value(df.where(df.constant({ 5e-324, 0, -1e-310, 1, nan }, 'float64'))))
    assert.same({ { 0 }, { 1 } }, value(df.where(df.bitcast(df.constant({ 1, 0x8001, 0, 0x8000 }, 'uint16'), { type = 'bfloat16' }))))
    assert.same({ { 0 }, { 1 } }, value(df.where(df.bitcast(df.constant({ 1, 0x8001, 0, 0x8000 }, 'uint16'), { type = 'float16' }))))
  end)

  it('of leaky_relu has an alpha of float32', function()
    local x = df.placeholder('float64', {})
    local y = df.leaky_relu(x, { alpha = 0.1 })
    assert.equal(-0.10000000149011612, df.run(y, { [x] = -1 }))
    assert.equal(0.10000000149011612, df.run(df.gradients(y, x), { [x] = -1 }))
  end)

  it('of letters: all of a string is mapped, and what is no UTF-8 is replaced', function()
    local utf8 = { encoding = 'utf-8' }
    local ok, e = pcall(df.run, df.string_upper({ 'a' }, utf8))
    if not ok and e.code == 'unimplemented' then return pending(e.message) end
    assert.same({ 'AÄ', 'SS', 'Ǆ', 'FFI', 'I', 'ʼN', 'Σ', '' }, text(df.string_upper({ 'aä', 'ß', 'ǆ', 'ﬃ', 'ı', 'ŉ', 'ς', '' }, utf8)))
    assert.same({ 'aä', 'ß', 'ǆ', 'ας', 'i̇', 'i' }, text(df.string_lower({ 'AÄ', 'ẞ', 'Ǆ', 'ΑΣ', 'İ', 'I' }, utf8)))
    assert.same({ 'A\239\191\189', '\239\191\189B' }, text(df.string_upper({ 'a\255', '\195b' }, utf8)))
    assert.same({ 'Aä' }, text(df.string_upper({ 'aä' })))
    assert.matches("encoding is 'latin': expected one of ''|utf%-8", fails(df.string_upper, { 'a' }, { encoding = 'latin' }))
  end)

  it('of the cross entropy is of labels and logits that broadcast', function()
    local l, t = df.placeholder('float32', { 3, 4 }), df.placeholder('float32', { 1, 4 })
    local y = df.softmax_cross_entropy_with_logits(l, t)
    assert.same({ 3 }, y.shape)
    local g = df.gradients(y, { l, t })
    local feeds = { [l] = df.tensor({ { 1, 2, 3, 4 }, { 1, 2, 3, 4 }, { 4, 3, 2, 1 } }, 'float32'), [t] = df.tensor({ { 0, 1, 0, 0 } }, 'float32') }
    near(df.run(y, feeds), { 2.4401897, 2.4401897, 1.4401897 })
    near(df.run(g[2], feeds), { { 7.32057, 6.32057, 5.32057, 4.32057 } })       -- over the rows
    assert.same({ 3, 4 }, g[1].shape)
    local one = df.placeholder('float32', { 1, 4 })
    local by = df.gradients(df.softmax_cross_entropy_with_logits(one, df.constant{ { 0, 1.0, 0, 0 }, { 1, 0, 0, 0 } }), one)
    near(df.run(by, { [one] = df.tensor({ { 1, 2, 3, 4 } }, 'float32') }), { { -0.9358827, -0.8257113, 0.4737657, 1.2878283 } })
    assert.matches('labels must have the shape of the logits', fails(df.softmax_cross_entropy_with_logits, l, df.placeholder('float32', { 2, 4 })))
  end)
end)

describe('The gradient of reduce_prod', function()
  it('is exact where rank and axes are known only when it runs', function()
    local v = { { 1, 2, 0 }, { 3, 0.5, 4 } }
    for _, axis in ipairs{ false, 0, 1, -1 } do
      local x, known = df.placeholder('float64'), df.placeholder('float64', { 2, 3 })
      local opts = { axis = axis or nil }
      local function slopes(of) return df.gradients(df.reduce_prod(of, opts), of) end
      local feeds = { [x] = df.tensor(v, 'float64'), [known] = df.tensor(v, 'float64') }
      near(df.run(slopes(x), feeds), df.run(slopes(known), feeds))
      local function twice(of) return df.gradients(slopes(of) * of, of) end
      near(df.run(twice(x), feeds), df.run(twice(known), feeds))
    end
    local x, axes = df.placeholder('float64', { 2, 3 }), df.placeholder('int32', { -1 })
    local g = df.gradients(registry.op('Prod', { x, axes }, {}), x)
    near(df.run(g, { [x] = df.tensor(v, 'float64'), [axes] = df.tensor({ -1 }, 'int32') }), { { 0, 0, 2 }, { 2, 12, 1.5 } })
  end)
end)

describe('max_pool', function()
  it('has derivatives of all orders', function()
    local x = df.placeholder('float64', { 1, 4, 4, 1 })
    local v = df.tensor({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 }, 'float64', { 1, 4, 4, 1 })
    local y = df.max_pool(df.square(x), { ksize = { 1, 2, 2, 1 }, strides = { 1, 2, 2, 1 }, padding = 'VALID' })
    local g = df.gradients(y * y, x)                       -- x^4 at the greatest of each window
    for order, expected in ipairs{ function(a) return 4 * a ^ 3 end, function(a) return 12 * a ^ 2 end, function(a) return 24 * a end } do
      if order > 1 then g = df.gradients(g, x) end
      local list = {}
      for i = 1, 16 do list[i] = (i == 6 or i == 8 or i == 14 or i == 16) and expected(i) or 0 end
      near(df.run(df.reshape(g, { -1 }), { [x] = v }), list)
    end
  end)
end)

describe('LSTMBlockCell', function()
  --- Its inputs in these shapes, which are known only when it runs.
  local function cell(shapes)
    local inputs = {}
    for i, s in ipairs(shapes) do
      local shape = df.placeholder_with_default(df.constant(s, 'int32', { #s }), { #s })
      inputs[i] = df.fill(shape, df.float32(0))
    end
    return (select(7, registry.op('LSTMBlockCell', inputs, {})))
  end
  local fitting = { { 2, 3 }, { 2, 2 }, { 2, 2 }, { 5, 8 }, { 2 }, { 2 }, { 2 }, { 8 } }

  it('takes what fits', function() assert.same({ { 0, 0 }, { 0, 0 } }, value(cell(fitting))) end)

  for _, case in ipairs{ { 1, { 2, 3, 1 }, 'x is ' }, { 2, { 3, 2 }, 'cs_prev is ' }, { 2, { 2, 0 }, 'cs_prev is empty' }, { 2, { 0, 2 }, 'cs_prev is empty' },
                         { 3, { 2, 3 }, 'h_prev is ' }, { 4, { 6, 8 }, 'w is ' }, { 5, {}, 'wci is ' }, { 7, { 2, 1 }, 'wco is ' }, { 8, { 7 }, 'b is ' },
                         { 8, { 8, 1 }, 'b is ' } } do
    it(('refuses %s [%s]'):format(case[3], table.concat(case[2], ',')), function()
      local shapes = {}
      for i, s in ipairs(fitting) do shapes[i] = i == case[1] and case[2] or s end
      local ok, e = pcall(df.run, cell(shapes))
      assert.is_false(ok)
      assert.equal('invalid_argument', e.code)
      assert.matches(case[3], e.message, 1, true)
    end)
  end
end)
