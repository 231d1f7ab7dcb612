-- Attention as one op: what the ops that it could be written with give, without their matrix of scores.
local df = require 'dflow'
local support = require 'spec.support'
local registry = require 'dflow.front.registry'

local unpack = table.unpack or unpack

local function near(found, expected, atol, rtol) return support.near(found, expected, { atol = atol, rtol = rtol or atol, level = 3 }) end

local fails = require('spec.support').fails

local function draw(shape, dtype, seed) return df.run(df.random_normal(shape, { dtype = dtype, seed = seed })) end
local function sums_of(q, k, v, extra, attrs) return registry.op('ScaledDotProductAttention', { q, k, v, { extra } }, attrs or {}) end

--- The same written out: in float64, with a row of nothing made 0.
local function written_out(q, k, v, o)
  q, k, v = df.cast(q, 'float64'), df.cast(k, 'float64'), df.cast(v, 'float64')
  local scores = df.matmul(q, k, { transpose_b = true }) * (o.scale or q.shape[#q.shape] ^ -0.5)
  local far = df.float64(-math.huge)
  if o.bias then scores = scores + df.cast(o.bias, 'float64') end
  if o.mask then scores = df.select_v2(o.mask, scores, far) end
  if o.causal then
    local rows, keys = df.range(df.dim(q, -2)), df.range(df.dim(k, -2))
    scores = df.select_v2(df.less_equal(keys, df.expand_dims(rows, 1)), scores, far)
  end
  local none = df.equal(df.reduce_max(scores, { axis = -1, keep_dims = true }), far)
  return df.select_v2(none, df.float64(0), df.matmul(df.softmax(scores), v))
end

local shapes = { { { 2, 3 }, 5, 7, 4, 6 }, { {}, 1, 1, 1, 1 }, { { 2 }, 70, 270, 5, 9 }, { {}, 130, 129, 64, 40 }, { { 2 }, 3, 260, 20, 8 } }
local function operands(shape, dtype)
  local function of(...)
    local dims = { unpack(shape[1]) }
    for _, n in ipairs{ ... } do dims[#dims + 1] = n end
    return dims
  end
  local _, t, s, d, e = unpack(shape)
  return draw(of(t, d), dtype, 1), draw(of(s, d), dtype, 2), draw(of(s, e), dtype, 3), draw({ t, s }, dtype, 4), draw(of(t, e), dtype, 5)
end
local close = { float32 = 2e-6, float64 = 1e-14, float16 = 3e-3, bfloat16 = 2e-2 }

describe('scaled_dot_product_attention', function()
  it('gives what products and a softmax give, of every float, under masks, biases and causally', function()
    for dtype, tolerance in pairs(close) do
      for _, shape in ipairs(shapes) do
        local q, k, v, bias = operands(shape, dtype)
        local mask = df.run(df.greater(df.constant(bias), 0))
        for _, o in ipairs{ {}, { causal = true }, { mask = mask }, { bias = bias }, { mask = mask, bias = bias, causal = true, scale = -0.3 } } do
          local found = df.run(df.cast(df.scaled_dot_product_attention(q, k, v, o), 'float64'))
          near(found, df.run(written_out(df.constant(q), df.constant(k), df.constant(v), o)), tolerance, tolerance)
        end
      end
    end
  end)

  it('agrees with the reference, gradients too, whose sums it keeps and no scores', function()
    for dtype, tolerance in pairs(close) do
      for _, shape in ipairs(shapes) do
        local q, k, v, bias, dy = operands(shape, dtype)
        for _, kind in ipairs{ 'none', 'mask', 'bias' } do
          support.cpu_equals_ref(function(a, b, c, m, d)
            local extra
            if kind == 'mask' then extra = df.greater(m, 0) elseif kind == 'bias' then extra = m end
            local y, sums = sums_of(a, b, c, extra, { causal = kind ~= 'bias' })
            local da, db, dc = unpack(df.gradients(y, { a, b, c }, { grad_ys = d }))
            return { y, sums, da, db, dc }
          end, { q, k, v, bias, dy }, { rtol = 4 * tolerance, atol = 4 * tolerance, what = dtype .. ' ' .. kind })
        end
      end
    end
  end)

  it('broadcasts masks and biases along any axis', function()
    local q, k, v = draw({ 2, 3, 4, 5 }, 'float32', 1), draw({ 2, 3, 6, 5 }, 'float32', 2), draw({ 2, 3, 6, 2 }, 'float32', 3)
    for _, shape in ipairs{ {}, { 6 }, { 4, 1 }, { 3, 1, 6 }, { 2, 1, 1, 6 }, { 2, 1, 4, 1 }, { 1, 3, 4, 6 } } do
      local bias = df.constant(draw({ 2, 3, 4, 6 }, 'float32', 4)):slice({ 0, 0, 0, 0 }, (function()
        local size = { 1, 1, 1, 1 }
        for i = 1, #shape do size[4 - #shape + i] = shape[i] end
        return size
      end)()):reshape(shape)
      local o = { bias = bias }
      local x = df.constant(q)
      near(df.run(df.scaled_dot_product_attention(x, k, v, o)), df.run(df.cast(written_out(x, df.constant(k), df.constant(v), o), 'float32')), 1e-5, 1e-6)
      local whole = df.gradients(df.scaled_dot_product_attention(x, k, v, o), bias)
      local apart = df.gradients(df.reduce_sum(written_out(x, df.constant(k), df.constant(v), o)), bias)
      near(df.run(whole), df.run(apart), 1e-5, 1e-6)
    end
  end)

  it('aligns causal at the first query and the first key, as PyTorch does', function()
    local zeros, v = df.zeros{ 4, 1 }, df.float32{ { 1 }, { 3 }, { 8 } }
    near(df.run(df.scaled_dot_product_attention(zeros, df.zeros{ 3, 1 }, v, { causal = true })), { { 1 }, { 2 }, { 4 }, { 4 } }, 1e-6)
    near(df.run(df.scaled_dot_product_attention(df.zeros{ 2, 1 }, df.zeros{ 3, 1 }, v, { causal = true })), { { 1 }, { 2 } }, 1e-6)
  end)

  it('gives 0, and gradients of 0, where a query sees nothing; NaN stays what it is', function()
    local q, k, v = df.constant(draw({ 2, 3 }, 'float32', 1)), df.constant(draw({ 4, 3 }, 'float32', 2)), df.constant(draw({ 4, 2 }, 'float32', 3))
    for _, o in ipairs{ { mask = { { false }, { true } } }, { bias = { { -math.huge }, { 0 } } } } do
      local y = df.scaled_dot_product_attention(q, k, v, o)
      near(df.run(y[0]), { 0, 0 }, 0)
      near(df.run(df.gradients(y * y, q)[0]), { 0, 0, 0 }, 0)
      local function twice(z) return df.run(df.gradients(df.reduce_sum(df.gradients(z * z * z, q) * q), k)) end
      near(twice(y), twice(df.scaled_dot_product_attention(q[1]:reshape{ 1, 3 }, k, v)), 1e-5)
    end
    local _, sums = sums_of(q, k, v, df.constant{ { false }, { true } })
    assert.equal(math.huge, df.run(sums[0]))
    local y = df.run(df.scaled_dot_product_attention(q, k, v, { bias = { { 0 / 0 }, { 0 } } })):totable()
    assert.is_true(y[1][1] ~= y[1][1] and y[2][1] == y[2][1])
    local one = df.constant{ { -math.huge, 0 / 0, 0, 0 }, { 0, 0, 0, 0 } }
    y = df.run(df.scaled_dot_product_attention(q, k, v, { bias = one })):totable()
    assert.is_true(y[1][1] ~= y[1][1] and y[2][1] == y[2][1])
    assert.same({ 2, 1 }, df.run(df.scaled_dot_product_attention(df.zeros{ 2, 3 }, df.zeros{ 0, 3 }, df.zeros{ 0, 1 })).shape)
    near(df.run(df.scaled_dot_product_attention(df.zeros{ 2, 3 }, df.zeros{ 0, 3 }, df.zeros{ 0, 1 })), { { 0 }, { 0 } }, 0)
  end)

  it('has no use for what a query does not see, were it NaN, back and forth', function()
    local n = 150                                                      -- several blocks
    local mask = df.run(df.greater(df.random_uniform({ n, n }, { seed = 6 }), 0.5))
    local allowed = mask:totable()
    for _, dtype in ipairs{ 'float32', 'float64', 'bfloat16' } do
      local q, k, v, dy = draw({ n, 6 }, dtype, 1), draw({ n, 6 }, dtype, 2), draw({ n, 5 }, dtype, 3), draw({ n, 5 }, dtype, 4)
      for _, at in ipairs{ 40, 149 } do
        local hole = df.equal(df.expand_dims(df.range(n), 1), at)
        local function holed(x) return df.run(df.select_v2(hole, df.constant(0 / 0, dtype), x)) end
        for _, causal in ipairs{ true, false } do
          local found = support.cpu_equals_ref(function(a, b, c, d)
            local y = df.scaled_dot_product_attention(a, b, c, { causal = causal, mask = not causal and mask or nil })
            return { y, unpack(df.gradients(y, { a, b, c }, { grad_ys = d })) }
          end, { q, holed(k), holed(v), dy }, { rtol = 8 * close[dtype], atol = 8 * close[dtype], what = dtype })
          local y, dq = found[1]:totable(), found[2]:totable()
          for i = 1, n do
            local sees
            if causal then sees = i > at else sees = allowed[i][at + 1] end
            assert.equal(sees, y[i][1] ~= y[i][1])
            assert.equal(sees, dq[i][1] ~= dq[i][1])
          end
        end
      end
    end
  end)

  it('has no use for it in the gradient of a bias, whatever that is broadcast over', function()
    local q, k, v, dy = draw({ 2, 2 }, 'float64', 1), draw({ 3, 2 }, 'float64', 2), draw({ 3, 2 }, 'float64', 3), draw({ 2, 2 }, 'float64', 4)
    local hole = df.constant{ { false }, { false }, { true } }         -- whom neither of the queries sees
    for _, shape in ipairs{ { 2, 1 }, { 3 }, { 2, 3 } } do
      local function slopes(value)
        local bias = df.zeros(shape, 'float64') * 1
        local y = df.scaled_dot_product_attention(q, df.select_v2(hole, value, k), df.select_v2(hole, value, v), { bias = bias, causal = true })
        return df.run(df.gradients(y, bias, { grad_ys = dy }))
      end
      near(slopes(df.float64(0 / 0)), slopes(df.float64(1)), 1e-14)
    end
  end)

  it('takes a depth of 0, whose scores are what is added to them, back and forth', function()
    local bias = df.placeholder('float64', { 3, 5 })
    local v, feeds = df.constant(draw({ 5, 2 }, 'float64', 1)), { [bias] = draw({ 3, 5 }, 'float64', 2) }
    local y = df.scaled_dot_product_attention(df.zeros({ 3, 0 }, 'float64'), df.zeros({ 5, 0 }, 'float64'), v, { bias = bias })
    near(df.run(y, feeds), df.run(df.matmul(df.softmax(bias), v), feeds), 1e-14)
    assert.is_true(df.check_gradients(df.reduce_sum(y * y), { bias }, { order = 2, feeds = feeds }))
  end)

  it('takes a mask of keys whose shape is told when it runs', function()
    local q, k, v = df.ones{ 2, 3, 4 }, df.placeholder('float32'), df.placeholder('float32')
    local feeds = { [k] = df.run(df.ones{ 2, 5, 4 }), [v] = df.run(df.ones{ 2, 5, 1 }) }
    for _, o in ipairs{ { mask = df.fill({ 3, 5 }, true) }, { bias = df.zeros{ 2, 3, 5 } }, { bias = df.zeros{ 5 } } } do
      near(df.run(df.scaled_dot_product_attention(q, k, v, o), feeds), df.run(df.ones{ 2, 3, 1 }), 1e-6)
    end
    fails(function() df.scaled_dot_product_attention(q, k, v, { mask = df.fill({ 2, 5 }, true) }) end, 'invalid_argument', 'does not fit the scores')
  end)

  it('has derivatives of its derivatives, by everything that is continuous', function()
    for _, causal in ipairs{ false, true } do
      local function p(shape) return df.placeholder('float64', shape) end
      local q, k, v, bias = p{ 2, 3, 4 }, p{ 2, 5, 4 }, p{ 2, 5, 3 }, p{ 1, 3, 5 }
      local feeds = { [q] = draw({ 2, 3, 4 }, 'float64', 1), [k] = draw({ 2, 5, 4 }, 'float64', 2), [v] = draw({ 2, 5, 3 }, 'float64', 3),
                      [bias] = draw({ 1, 3, 5 }, 'float64', 4) }
      local y, sums = sums_of(q, k, v, bias, { causal = causal })
      local loss = df.reduce_sum(y * y * df.float64{ 1.3, -0.7, 0.4 }) + df.reduce_sum(df.sin(sums))
      for order = 1, 3 do assert.is_true(df.check_gradients(loss, { q, k, v, bias }, { order = order, feeds = feeds })) end
    end
  end)

  it('gives the same bits however many threads there are, back and forth, NaN or not', function()
    local q, k, v, _, dy = operands({ { 3 }, 200, 333, 24, 40 }, 'float32')
    local hole = df.equal(df.expand_dims(df.range(333), 1), 200)
    for _, what in ipairs{ 0, 0 / 0 } do
      local g = df.Graph()
      local key, value = df.run(df.select_v2(hole, what, k)), df.run(df.select_v2(hole, what, v))
      g:as_default(function()
        local a, b, c = df.constant(q) * 1, df.constant(key) * 1, df.constant(value) * 1
        local y = df.scaled_dot_product_attention(a, b, c, { causal = true })
        local all = { y, unpack(df.gradients(y, { a, b, c }, { grad_ys = dy })) }
        local expected
        for _, threads in ipairs{ 1, 2, 3, 8 } do
          local s = df.Session{ graph = g, threads = threads }
          local found = s:run(all)
          expected = expected or found
          assert.same(support.bits(expected), support.bits(found))
          s:close()
        end
      end)
    end
  end)

  it('keeps no matrix of all scores, for its gradient neither', function()
    collectgarbage()                                   -- what the tests before left lies on the device, too
    collectgarbage()
    local n, g = 3000, df.Graph()                      -- 36 MB of scores
    local some = draw({ n, 8 }, 'float32', 1)
    g:as_default(function()
      local x = df.placeholder('float32', { n, 8 })
      local s = df.Session{ graph = g, devices = { { 'cpu:0', memory = '8MB' } } }
      s:run(df.gradients(df.scaled_dot_product_attention(x, x, x), x), { [x] = some })
      fails(function() s:run(df.gradients((df.nn.attention(x, x, x)), x), { [x] = some }) end, 'resource_exhausted', 'memory')
      s:close()
    end)
  end)

  it('is written as ordinary ops to a GraphDef and to ONNX, which give the same when they are read again', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'float16' } do
      for _, o in ipairs{ {}, { causal = true }, { mask = { { true, false, false, true }, { false, false, false, false } } }, { bias = true, scale = 0.3 } } do
        local function p(name, shape) return df.placeholder(dtype, shape, name) end
        df.reset()
        local q, k, v, dy = p('q', { 3, 2, 5 }), p('k', { 3, 4, 5 }), p('v', { 3, 4, 2 }), p('dy', { 3, 2, 2 })
        local bias = o.bias and draw({ 3, 1, 4 }, dtype, 9)
        local y = df.identity(df.scaled_dot_product_attention(q, k, v, { bias = bias, causal = o.causal, mask = o.mask, scale = o.scale }), { name = 'y' })
        local slopes = df.gradients(y, { q, k, v }, { grad_ys = dy })
        for i, name in ipairs{ 'dq', 'dk', 'dv' } do slopes[i] = df.identity(slopes[i], { name = name }) end
        local values = { q = draw({ 3, 2, 5 }, dtype, 1), k = draw({ 3, 4, 5 }, dtype, 2), v = draw({ 3, 4, 2 }, dtype, 3), dy = draw({ 3, 2, 2 }, dtype, 4) }
        local expected = df.run({ y, slopes }, { [q] = values.q, [k] = values.k, [v] = values.v, [dy] = values.dy })
        local path = os.tmpname()
        df.export_graph_def(path .. '.pb', { outputs = { y, unpack(slopes) } })
        df.export_onnx(path .. '.onnx', { outputs = { y = y, dq = slopes[1], dk = slopes[2], dv = slopes[3] } })
        for _, g in ipairs{ df.import_graph_def(path .. '.pb'), df.import_onnx(path .. '.onnx') } do
          local feeds = {}
          for name, value in pairs(values) do feeds[g:output(name .. ':0')] = value end
          local found = df.Session{ graph = g }:run({ g:output 'y:0', { g:output 'dq:0', g:output 'dk:0', g:output 'dv:0' } }, feeds)
          local wide = dtype == 'float16' and 5e-3 or 1e-5
          near(found, expected, wide)
        end
        for _, ends in ipairs{ '', '.pb', '.onnx' } do os.remove(path .. ends) end
      end
    end
    local x = df.placeholder('float32', { -1, -1 })
    fails(function() df.export_onnx(os.tmpname(), { outputs = { df.scaled_dot_product_attention(x, x, x) } }) end, 'unimplemented',
          'the depth of its query is known only when it runs')
  end)

  it('says what does not fit, and where', function()
    local function ones(...) return df.ones{ ... } end
    local function wrong(text, ...)
      local given = { n = select('#', ...), ... }
      fails(function() df.scaled_dot_product_attention(unpack(given, 1, given.n)) end, 'invalid_argument', text)
    end
    wrong('the query is float32[2,3,4], the key float32[2,5,6]: [..., queries, depth] and [..., keys, depth] are expected',
          ones(2, 3, 4), ones(2, 5, 6), ones(2, 5, 1))
    wrong('the key is float32[2,5,4], the value float32[2,6,1]', ones(2, 3, 4), ones(2, 5, 4), ones(2, 6, 1))
    wrong('the query is float32[4]: at least two axes', ones(4), ones(5, 4), ones(5, 1))
    wrong('the mask is float32, a bool is expected', ones(3, 4), ones(5, 4), ones(5, 1), { mask = ones(3, 5) })
    wrong('the bias is bool, what is added to the scores is expected', ones(3, 4), ones(5, 4), ones(5, 1), { bias = df.fill({ 3, 5 }, true) })
    wrong('does not fit the scores of queries float32[3,4] and keys float32[5,4]', ones(3, 4), ones(5, 4), ones(5, 1), { bias = ones(3, 4) })
    wrong('scale is a finite number other than 0', ones(3, 4), ones(5, 4), ones(5, 1), { scale = 0 })
    wrong('causal is true or false', ones(3, 4), ones(5, 4), ones(5, 1), { causal = 1 })
    wrong('key is missing', ones(3, 4))
    for own, sums in pairs{ float64 = 'float32', float32 = 'float64', float16 = 'float64' } do
      local x, s = df.ones({ 3, 4 }, own), df.ones({ 3 }, sums)
      fails(function() registry.op('ScaledDotProductAttentionGrad', { x, x, x, x, s, s, {} }, {}) end, 'invalid_argument',
            ('log_sum_exp and delta are %s, of a query of %s'):format(sums, own))
    end
    local a, b = df.placeholder('float32'), df.placeholder('float32')
    local feeds = { [a] = df.run(ones(2, 3)), [b] = df.run(ones(2, 4)) }
    fails(function() df.run(df.scaled_dot_product_attention(a, b, b), feeds) end, 'invalid_argument', 'the query is float32[2,3], the key float32[2,4]')
    fails(function() df.run(df.scaled_dot_product_attention(a, a, a, { bias = b }), feeds) end, 'invalid_argument', 'the mask float32[2,4] does not fit')
  end)

  it('is an op like any other in loops, whose gradient runs back through them', function()
    local x = df.placeholder('float64', { 3, 4 })
    local function step(i, h) return i + 1, df.scaled_dot_product_attention(h, h, x, { causal = true }) + h * 0.5 end
    local _, h = df.while_loop(function(i) return i:lt(3) end, step, { df.int32(0), x })
    assert.is_true(df.check_gradients(df.reduce_sum(h * h), { x }, { order = 2, feeds = { [x] = draw({ 3, 4 }, 'float64', 1) } }))
  end)
end)
