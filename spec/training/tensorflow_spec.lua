--- What the other files here leave out, beside what TensorFlow 2.15 (v1) computed: values and gradients of layers, losses, lookups, attention,
-- wrapped cells, rates, clipping, averages, linear algebra (spec/training/tensorflow_more.py and tensorflow_algebra.py).
local df = require 'dflow'
local numbers = require 'spec.training.numbers'
local expected = require('spec.support').recorded 'spec/training/tensorflow_layers'
local near = require('spec.support').near

local function fed(...) return df.placeholder_with_default(df.constant(numbers(...))) end
local function grads(y, xs) return df.gradients(df.reduce_sum(y * df.constant(numbers(df.run(df.shape(y)):totable(), 99))), xs) end

--- Compares outputs with the case of that name; all that was written down is asked for.
local function check(name, outputs, how)
  local found = df.run(outputs)
  for key, value in pairs(expected[name]) do
    near(found[key], value, { atol = how or 1e-4, rtol = 1e-4, what = name .. ' ' .. key })
  end
end

--- y, and its gradients by name.
local function slopes(name, y, wanted)
  local found, names, list = { y = y }, {}, {}
  for key, v in pairs(wanted) do names[#names + 1], list[#list + 1] = key, v end
  for i, g in ipairs(grads(y, list)) do found['d_' .. names[i]] = df.identity(g) end
  check(name, found)
end

describe('as in TensorFlow', function()
  it('is a dense layer of three axes', function()
    local l, x = df.nn.Dense(4, { activation = 'sigmoid', kernel_initializer = numbers({ 5, 4 }, 2), bias_initializer = numbers({ 4 }, 3) }), fed({ 2, 3, 5 }, 1)
    local y = l(x)
    slopes('dense', y, { x = x, kernel = l.kernel, bias = l.bias })
  end)

  it('is a convolution along a line, with strides, holes and from the left', function()
    for name, o in pairs{ a = { strides = 2, padding = 'SAME' }, b = { dilation = 2 }, c = { dilation = 2, padding = 'CAUSAL' } } do
      o.kernel_initializer, o.bias_initializer = numbers({ 3, 3, 2 }, 2), numbers({ 2 }, 3)
      local l, x = df.nn.Conv1D(2, 3, o), fed({ 2, 7, 3 }, 1)
      local y = l(x)
      slopes('line_' .. name, y, { x = x, kernel = l.kernel, bias = l.bias })
    end
  end)

  it('are the gradients of a transposed convolution', function()
    for name, o in pairs{ a = { strides = 2, padding = 'SAME' }, b = { strides = 3 }, c = {} } do
      o.kernel_initializer, o.bias_initializer = numbers({ 3, 2, 2, 3 }, 2), numbers({ 2 }, 3)
      local l, x = df.nn.Conv2DTranspose(2, { 3, 2 }, o), fed({ 1, 3, 4, 3 }, 1)
      local y = l(x)
      local dx, dk, db = df.unpack(grads(y, { x, l.kernel, l.bias }))
      check('transposed_slopes_' .. name, { first = y[0][0][0], dx = dx[0][1], dk = dk[1], db = db })
    end
  end)

  it('is batch normalisation when it does not train', function()
    local l, x = df.nn.BatchNorm{}, fed({ 2, 3, 4 }, 1)
    local y = l(x)
    for i, v in ipairs{ l.gamma, l.beta, l.moving_mean, l.moving_variance } do df.run(v:assign(df.constant(numbers({ 4 }, 1 + i, 0.5)) + 1)) end
    slopes('batch_norm_still', y, { x = x, gamma = l.gamma, beta = l.beta })
  end)

  it('is pooling of pictures and lines, which does not count what it pads with', function()
    for name, o in pairs{ same = { 3, { strides = 2, padding = 'SAME' } }, valid = { 2, { strides = 1 } } } do
      local x, row, found = fed({ 1, 5, 4, 2 }, 1), fed({ 2, 7, 2 }, 2), {}
      for key, kind in pairs{ max2 = 'MaxPool2D', mean2 = 'AvgPool2D', max1 = 'MaxPool1D', mean1 = 'AvgPool1D' } do
        local from = key:find '2' and x or row
        found[key] = df.nn[kind](o[1], o[2])(from)
        found['d_' .. key] = grads(found[key], from)
      end
      check('pool_' .. name, found)
    end
    for name, kind in pairs{ max = 'GlobalMaxPool', mean = 'GlobalAvgPool' } do
      local x = fed({ 2, 3, 2, 3 }, 1)
      slopes('pool_all_' .. name, df.nn[kind]()(x), { x = x })
    end
  end)

  it('is a lookup in tables dealt out by mod and div', function()
    local full = df.constant(numbers({ 10, 3 }, 1))
    for strategy, lists in pairs{ mod = { { 0, 3, 6, 9 }, { 1, 4, 7 }, { 2, 5, 8 } }, div = { { 0, 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } } } do
      local tables, wanted = {}, {}
      for i, rows in ipairs(lists) do
        tables[i] = df.Variable(df.run(df.gather(full, df.int32(rows))))
        wanted['table_' .. i - 1] = tables[i]
      end
      slopes('lookup_' .. strategy, df.embedding_lookup(tables, { { 9, 0, 4 }, { 4, 7, 4 } }, { partition_strategy = strategy }), wanted)
    end
  end)

  it('is attention by products and by sums, with lengths, looking back, and of several heads', function()
    local q, k, v = fed({ 2, 3, 4 }, 1), fed({ 2, 5, 4 }, 2), fed({ 2, 5, 2 }, 3)
    local keep = df.expand_dims(df.sequence_mask({ 3, 5 }, 5), 1)
    slopes('products', (df.nn.attention(q, k, v, { scale = 1, mask = keep })), { q = q, k = k, v = v })
    local l = df.nn.AdditiveAttention(6)
    v = fed({ 2, 5, 6 }, 3)
    local y = l(q, k, v)
    for i, w in ipairs{ l.query_kernel, l.key_kernel, l.scale } do w:load(numbers(w.shape, 3 + i)) end
    slopes('additive', y, { q = q, k = k, v = v, w = l.query_kernel, u = l.key_kernel, scale = l.scale })
    k, v = fed({ 2, 3, 4 }, 2), fed({ 2, 3, 2 }, 3)
    slopes('products_causal', (df.nn.attention(q, k, v, { scale = 1, causal = true })), { q = q, k = k, v = v })
    local x, m = fed({ 2, 3, 6 }, 1), fed({ 2, 4, 6 }, 2)
    l = df.nn.MultiHeadAttention(2, 6)
    y = l(x, m)
    for i, part in ipairs{ l.query, l.key, l.value, l.output } do
      part.kernel:load(numbers({ 6, 6 }, 8 + 2 * i))
      part.bias:load(numbers({ 6 }, 9 + 2 * i))
    end
    local dx, dm, dk = df.unpack(grads(y, { x, m, l.query.kernel }))
    check('heads', { dx = dx, dm = dm, dk = dk })
  end)

  it('are the gradients of losses with weights', function()
    local y, p = df.cast(df.greater(df.constant(numbers({ 4, 3 }, 1)), 0), 'float32'), fed({ 4, 3 }, 2, 2)
    local q, w, nn = df.softmax(df.constant(numbers({ 4, 3 }, 3))), df.constant(numbers({ 4, 1 }, 4)), df.nn
    local found = {}
    for name, loss in pairs{
      mean_squared_error = nn.mean_squared_error(y, p), absolute_difference = nn.absolute_difference(y, p, { weights = w }),
      huber_loss = nn.huber_loss(y, p, { weights = w, delta = 0.7 }), hinge_loss = nn.hinge_loss(y, p),
      log_loss = nn.log_loss(y, df.sigmoid(p), { weights = w }), sigmoid_cross_entropy = nn.sigmoid_cross_entropy(y, p, { weights = w, label_smoothing = 0.2 }),
      softmax_cross_entropy = nn.softmax_cross_entropy(df.one_hot({ 0, 2, 1, 1 }, 3), p, { label_smoothing = 0.1 }),
      cosine_distance = nn.cosine_distance(y, p),
      sparse_softmax_cross_entropy = nn.sparse_softmax_cross_entropy({ 0, 2, 1, 1 }, p, { weights = { 1, 0, 2, 1 } }),
      kl_divergence = nn.kl_divergence(q, df.softmax(p)) } do found[name] = df.gradients(loss, p) end
    check('loss_slopes', found)
  end)

  it('is how often candidate samplers expect the true classes', function()
    local found, unigrams = {}, {}
    for i = 1, 10 do unigrams[i] = i end
    for _, name in ipairs{ 'uniform', 'log_uniform', 'learned_unigram', 'fixed_unigram' } do
      local o = name == 'fixed_unigram' and { unigrams = unigrams, distortion = 0.75 } or nil
      found[name] = select(2, df.nn[name .. '_candidate_sampler'](df.int64{ { 1, 4 }, { 0, 9 }, { 5, 5 }, { 7, 2 } }, 2, 7, false, 10, o))
    end
    check('samplers', found, 1e-6)
  end)

  local function fill(vars) for i, v in ipairs(vars) do v:load(numbers(v.shape, 19 + i, 0.5)) end end

  it('are cells in cells, one of them added to what went in', function()
    local cell = df.rnn.MultiRNNCell{ df.rnn.LSTMCell(4), df.rnn.ResidualWrapper(df.rnn.GRUCell(4)) }
    local x = fed({ 3, 5, 2 }, 1)
    local y, state = df.rnn.dynamic_rnn(cell, x, { lengths = { 5, 2, 0 } })
    local vars = cell:parameters()
    fill(vars)
    local g = grads(y, { x, df.unpack(vars) })
    local found = { y = y, dx = g[1], c = state[1].c, h = state[2] }
    for i, v in ipairs(vars) do found['d_' .. i] = df.reduce_sum(g[i + 1] * df.constant(numbers(v.shape, 98))) end
    check('stacked', found)
  end)

  it('is a loop that asks what comes in and when it ends', function()
    local cell, x, lengths = df.rnn.LSTMCell(4), fed({ 5, 3, 2 }, 1), df.int32{ 5, 2, 1 }
    local inputs = df.TensorArray('float32', 5):unstack(x)
    local emitted, state = df.rnn.raw_rnn(cell, function(time, output, before)
      local ended = df.greater_equal(time, lengths)
      local over = df.reduce_all(ended)
      local into = df.cond(over, function() return df.zeros{ 3, 2 } end, function() return inputs:read(time) end)
      if not output then return ended, into, cell:zero_state(3), df.zeros{ 4 } end
      return ended, into, before, output * 2
    end)
    fill(cell:parameters())
    local y = emitted:stack()
    local dx, dk = df.unpack(grads(y, { x, cell.kernel }))
    check('raw_rnn', { y = y, c = state.c, h = state.h, dx = dx, dk = df.reduce_sum(dk * df.constant(numbers({ 6, 16 }, 98))) })
  end)

  it('is every schedule of a learning rate', function()
    local t, s = df.train, df.placeholder('int32', {})
    local rates = {
      exponential = t.exponential_decay(0.1, s, 8, 0.7), stairs = t.exponential_decay(0.1, s, 8, 0.7, { staircase = true }),
      natural = t.natural_exp_decay(0.1, s, 8, 0.7), inverse = t.inverse_time_decay(0.1, s, 8, 0.7),
      polynomial = t.polynomial_decay(0.1, s, 10, 0.01, 2), cycle = t.polynomial_decay(0.1, s, 10, 0.01, 2, { cycle = true }),
      cosine = t.cosine_decay(0.1, s, 20, 0.05), restarts = t.cosine_decay_restarts(0.1, s, 4, 2, 0.8, 0.05),
      linear_cosine = t.linear_cosine_decay(0.1, s, 20, 1.5, 0.1, 0.002), pieces = t.piecewise_constant(s, { 6, 15 }, { 0.1, 0.05, 0.01 }) }
    local found = {}
    for name in pairs(rates) do found[name] = {} end
    for i = 0, 27, 3 do
      for name, v in pairs(df.run(rates, { [s] = i })) do found[name][i / 3 + 1] = v end
    end
    for name, list in pairs(expected.rates) do near(found[name], list, { rtol = 1e-5, atol = 1e-8, what = name }) end
  end)

  it('is clipping by value, norm and the norm of all', function()
    local a, b = fed({ 3, 4 }, 1, 3), fed({ 5 }, 2)
    local whole, norm = df.clip_by_global_norm({ a, b }, 2.5)
    local found = { value = df.clip_by_value(a, -1, 0.5), norm = df.clip_by_norm(a, 2), rows = df.clip_by_norm(a, 2, { axes = { 1 } }),
                    whole = whole[1] }
    local all = { b = whole[2], global = norm }
    for name, y in pairs(found) do all[name], all['d_' .. name] = y, grads(y, a) end
    check('clipped', all)
  end)

  it('are averages of a variable that moves', function()
    for name, o in pairs{ plain = { zero_debias = false }, counted = { num_updates = 3 }, from_zero = { zero_debias = true } } do
      df.reset()
      local v = df.Variable(numbers({ 3 }, 1))
      local average, seen, of = df.train.ExponentialMovingAverage(0.9, o), {}, v
      local step = df.control_dependencies({ v:assign(v * 0.5 + 1) }, function()
        if name == 'from_zero' then of = v:value() * 2 end
        return average:apply{ of }
      end)
      for k = 1, 10 do
        df.run(step)
        if k % 3 == 1 then seen[#seen + 1] = df.run(average:average(of)) end
      end
      near(seen, expected['average_' .. name], { atol = 1e-5, what = name })
    end
  end)

  describe('linear algebra', function()
    --- fn of float64 numbers: its results and their gradients, as tensorflow_algebra.py has them.
    local function algebra(name, fn, shapes, make)
      local xs, found, loss = {}, {}, 0
      for i, shape in ipairs(shapes) do
        local x = df.cast(df.constant(numbers(shape, i)), 'float64')
        xs[i] = df.placeholder_with_default(df.identity(make and make(x, i) or x))
      end
      for i, y in ipairs{ fn(df.unpack(xs)) } do
        found['y' .. i] = y
        loss = loss + df.reduce_sum(y * df.cast(df.constant(numbers(y.shape, 98 + i)), 'float64'))
      end
      for i, g in ipairs(df.gradients(loss, xs, { unconnected = 'zero' })) do found['d' .. i] = g end
      check('algebra_' .. name, found)
    end

    local A, B, C = { 2, 3, 3 }, { 2, 3, 2 }, { 3, 5 }
    local function eye(x) return df.eye(x.shape[#x.shape - 1], x.shape[#x.shape], { dtype = 'float64' }) end
    local function good(x, i) return i == 1 and x + 3 * eye(x) or x end
    local function symmetric(x, i) return i == 1 and df.matmul(x, x, { transpose_b = true }) + 2 * eye(x) or x end
    local function squares(...)
      local list = { ... }
      for i, x in ipairs(list) do list[i] = x * x end
      return df.unpack(list)
    end

    it('solves', function()
      algebra('solve', df.matrix_solve, { A, B }, good)
      algebra('solve_adjoint', function(a, b) return df.matrix_solve(a, b, { adjoint = true }) end, { A, B }, good)
      algebra('triangular', df.matrix_triangular_solve, { A, B }, good)
      algebra('triangular_upper', function(a, b) return df.matrix_triangular_solve(a, b, { lower = false, adjoint = true }) end, { A, B }, good)
      algebra('cholesky_solve', function(a, b) return df.cholesky_solve(df.cholesky(a), b) end, { A, B }, symmetric)
      algebra('least_squares', function(a, b) return df.lstsq(a, b, { l2_regularizer = 0.1 }) end, { { 2, 4, 3 }, { 2, 4, 2 } })
      algebra('tridiagonal', function(d, x) return df.tridiagonal_solve(d + df.float64{ { 0 }, { 4 }, { 0 } }, x) end, { C, { 5, 2 } })
    end)

    it('decomposes, inverts, and knows determinants', function()
      algebra('cholesky', df.cholesky, { A }, symmetric)
      algebra('inverse', df.matrix_inverse, { A }, good)
      algebra('determinant', df.matrix_determinant, { A }, good)
      algebra('log_determinant', df.log_matrix_determinant, { A }, good)
      algebra('qr', function(a) return squares(df.qr(a)) end, { { 4, 3 } }, good)
      algebra('svd', function(a)
        local s, u, v = df.svd(a)
        return s, squares(u, v)
      end, { { 4, 3 } }, good)
      algebra('eigenvalues', df.self_adjoint_eigvals, { A }, symmetric)
      algebra('eigenvectors', function(a) return squares((select(2, df.self_adjoint_eig(a)))) end, { A }, symmetric)
      algebra('band', function(a) return df.matrix_band_part(a, 1, 0) end, { A })
    end)

    it('transforms', function()
      local function parts(z) return df.real(z), df.imag(z) end
      for _, name in ipairs{ 'fft', 'ifft', 'fft2d' } do algebra(name, function(re, im) return parts(df[name](df.complex(re, im))) end, { C, C }) end
      algebra('rfft', function(x) return parts(df.rfft(x)) end, { { 3, 6 } })
      algebra('irfft', function(re, im) return df.irfft(df.complex(re, im)) end, { { 3, 4 }, { 3, 4 } })
    end)

    it('sorts, finds and counts', function()
      algebra('sort', function(x) return df.sort(x, 0, 'DESCENDING') end, { C })
      local x = df.constant(numbers({ 3, 5 }, 1))
      local sorted = df.sort(x)
      check('sorted', { order = df.argsort(x, { stable = true }), down = df.argsort(x, 0, 'DESCENDING', { stable = true }),
                        left = df.searchsorted(sorted, df.constant(numbers({ 3, 4 }, 2))), right = df.searchsorted(sorted, sorted, { side = 'right' }),
                        histogram = df.histogram_fixed_width(x, { -0.8, 0.9 }, 6),
                        count = df.bincount{ 3, 1, 1, 7, 0, 3 }, weighted = df.bincount({ 3, 1, 1, 7 }, df.constant(numbers({ 4 }, 3)), { maxlength = 6 }) })
    end)
  end)
end)
