--- Functions of TensorFlow 1 that are made of ops. The values are TensorFlow 2.15's.
local df = require 'dflow'
local support = require 'spec.support'
local message_of = support.message_of

local function values(list, ...)
  for i, x in ipairs{ ... } do support.near(df.run(x), list[i]) end
  assert.equal(#list, select('#', ...))
end
local function ramp(n, shape, by, from) return df.reshape(df.range(n):cast('float32') * by + (from or 0), shape) end

describe('an assertion on values', function()
  local pairs_ = { equal = '==', none_equal = '~=', less = '<', less_equal = '<=', greater = '>', greater_equal = '>=' }
  local holds = { equal = { 2, 2 }, none_equal = { 2, 3 }, less = { 1, 2 }, less_equal = { 2, 2 }, greater = { 3, 2 }, greater_equal = { 2, 2 } }
  for name, sign in pairs(pairs_) do
    it('assert_' .. name .. ' holds, or names the relation and both values', function()
      local x, fn = df.placeholder('int32', { -1 }), df['assert_' .. name]
      local y = holds[name][2]
      assert.equal(true, df.run(fn(x, { y, y }), { [x] = { holds[name][1], holds[name][1] } }))
      local against = (name == 'equal' or name == 'less_equal') and { y, y + 1 } or name == 'none_equal' and { y, y }
        or name == 'greater_equal' and { y, y - 1 } or { y, y }
      local text = message_of(df.run, fn(x, { y, y }, { message = 'mine' }), { [x] = against })
      assert.matches('mine: assert_' .. name .. ': x ' .. sign .. ' y does not hold for every element', text, 1, true)
      assert.matches('[' .. against[1] .. ' ' .. against[2] .. ']', text, 1, true)
    end)
  end

  it('of the sign looks at every element, and at none of nothing', function()
    assert.equal(true, df.run(df.assert_positive{ 1, 2 }))
    assert.equal(true, df.run(df.assert_non_negative{ 0.0, 2 }))
    assert.equal(true, df.run(df.assert_negative(df.zeros{ 0 })))
    assert.matches('x > 0', message_of(df.run, df.assert_positive{ 0.0, 2 }), 1, true)
    assert.matches('x <= 0', message_of(df.run, df.assert_non_positive{ 0.0, 2 }), 1, true)
    assert.matches('x >= 0', message_of(df.run, df.assert_non_negative{ 0.0, 0 / 0 }), 1, true)
  end)

  it('is an effect: what depends on it does not run where it fails', function()
    local x = df.placeholder('float32', {})
    local y = df.control_dependencies({ df.assert_greater(x, 0) }, function() return df.sqrt(x) end)
    assert.equal(2, df.run(y, { [x] = 4 }))
    assert.is_false((pcall(df.run, y, { [x] = -4 })))
  end)

  it('of nearness takes ten steps of the dtype unless it is told', function()
    local x = df.placeholder('float32', {})
    assert.equal(true, df.run(df.assert_near(x, 1), { [x] = 1.000001 }))
    assert.is_false((pcall(df.run, df.assert_near(x, 1), { [x] = 1.00001 })))
    assert.equal(true, df.run(df.assert_near(x, 1, { rtol = 0.1 }), { [x] = 1.05 }))
    assert.equal(true, df.run(df.assert_near(df.int32{ 5 }, { 6 }, { atol = 1 })))
  end)

  it('of a rank or a dtype is told while building, where these are known', function()
    local x = df.placeholder('float32', { 2, 3 })
    assert.equal(true, df.run(df.assert_rank(x, 2)))
    assert.matches('has rank 2, not 3', message_of(df.assert_rank, x, 3), 1, true)
    assert.matches('has rank 2, not at least 3', message_of(df.assert_rank_at_least, x, 3), 1, true)
    assert.matches('is float32, int32 is expected', message_of(df.assert_type, x, 'int32'), 1, true)
    assert.matches('an integer dtype is expected', message_of(df.assert_integer, x), 1, true)
    assert.matches('a scalar is expected', message_of(df.assert_scalar, x), 1, true)
    assert.matches('the rate: assert_scalar', message_of(df.assert_scalar, x, { message = 'the rate' }), 1, true)
    local any = df.placeholder 'float32'
    assert.equal(true, df.run(df.assert_rank(any, 1), { [any] = { 1 } }))
    assert.is_false((pcall(df.run, df.assert_rank(any, 2), { [any] = { 1 } })))
    assert.is_false((pcall(df.run, df.assert_rank_at_least(any, 2), { [any] = { 1 } })))
  end)

  it('that nothing is NaN gives the value on', function()
    values({ { 1, 2 } }, df.verify_tensor_all_finite({ 1.0, 2 }, 'of the loss'))
    assert.matches('of the loss', message_of(df.run, df.verify_tensor_all_finite({ 1.0, 0 / 0 }, 'of the loss')), 1, true)
  end)

  it('is_non_decreasing and is_strictly_increasing read row by row', function()
    assert.same({ true, false, true, true, true }, df.run{ df.is_non_decreasing{ 1, 1, 2 }, df.is_strictly_increasing{ 1, 1, 2 },
      df.is_strictly_increasing(df.zeros{ 0 }), df.is_strictly_increasing{ { 1, 2 }, { 3, 4 } }, df.is_strictly_increasing{ 7.0 } })
  end)
end)

describe('what is made of ops', function()
  it('meshgrid repeats vectors along the others\' dimensions', function()
    values({ { { 1, 2, 3 }, { 1, 2, 3 } }, { { 4, 4, 4 }, { 5, 5, 5 } } }, df.meshgrid({ 1, 2, 3 }, { 4, 5 }))
    local a, b, c = df.meshgrid({ 1, 2, 3 }, { 4, 5 }, { 6, 7 }, { indexing = 'ij' })
    values({ { { { 1, 1 }, { 1, 1 } }, { { 2, 2 }, { 2, 2 } }, { { 3, 3 }, { 3, 3 } } },
             { { { 4, 4 }, { 5, 5 } }, { { 4, 4 }, { 5, 5 } }, { { 4, 4 }, { 5, 5 } } },
             { { { 6, 7 }, { 6, 7 } }, { { 6, 7 }, { 6, 7 } }, { { 6, 7 }, { 6, 7 } } } }, a, b, c)
    values({ { 1, 2, 3 } }, (df.meshgrid{ 1, 2, 3 }))
    values({ { { 7 }, { 7 } }, { { 1 }, { 2 } } }, df.meshgrid(7, { 1, 2 }))
    assert.matches("indexing is the string \"xx\", 'xy' or 'ij' is expected", message_of(df.meshgrid, { 1 }, { indexing = 'xx' }), 1, true)
  end)

  it('unravel_index tells places, batch_gather takes rows by rows', function()
    values({ { { 3, 6, 6 }, { 4, 5, 1 } }, { 3, 1, 4, 1 } }, df.unravel_index({ 22, 41, 37 }, { 7, 6 }), df.unravel_index(1621, { 6, 7, 8, 9 }))
    for _, wrong in ipairs{ 42, -1 } do assert.matches('unravel_index: assert_', message_of(df.run, df.unravel_index({ 3, wrong }, { 7, 6 })), 1, true) end
    values({ { { 3, 1 }, { 5, 5 } } }, df.batch_gather({ { 1.0, 2, 3 }, { 4, 5, 6 } }, { { 2, 0 }, { 1, 1 } }))
  end)

  it('confusion_matrix counts, with weights, and refuses labels that it has no row for', function()
    values({ { { 0, 0, 0, 0, 0 }, { 0, 0, 1, 0, 0 }, { 0, 0, 1, 0, 0 }, { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 1 } } },
           df.confusion_matrix({ 1, 2, 4 }, { 2, 2, 4 }))
    values({ { { 0, 0, 0 }, { 0, 0, 0.5 }, { 0, 2, 1 } } },
           df.confusion_matrix({ 1, 2, 2 }, { 2, 2, 1 }, 3, { weights = { 0.5, 1, 2 }, dtype = 'float32' }))
    assert.matches('confusion_matrix: labels', message_of(df.run, df.confusion_matrix({ 1, 3 }, { 2, 2 }, 3)), 1, true)
    assert.matches('confusion_matrix: predictions', message_of(df.run, df.confusion_matrix({ 1, 2 }, { -1, 2 }, 3)), 1, true)
  end)

  it('histogram_fixed_width_bins says in which bin each value falls', function()
    values({ { 0, 0, 1, 2, 4, 4 } }, df.histogram_fixed_width_bins({ -1.0, 0, 1.5, 2, 5, 15 }, { 0.0, 5 }, 5))
    -- an edge is where the values' dtype has it
    values({ { 7, 3, 1, 9, 6, 2, 5 } }, df.histogram_fixed_width_bins(df.float32{ 0.7, 0.3, 0.1, 0.9, 0.6, 0.29, 0.58 }, { 0.0, 1 }, 10))
    values({ { 1, 2, 3 } }, df.histogram_fixed_width_bins(df.int32{ 1, 2, 3 }, { 0, 5 }, 5))
  end)

  it('unsorted_segment_mean and _sqrt_n leave empty segments zero and negative ids out', function()
    values({ { { 3, 4 }, { 0, 0 }, { 3, 4 } }, { 4.242640972137451, 0, 3 }, { { 3, 4 }, { 0, 0 } } },
           df.unsorted_segment_mean({ { 1.0, 2 }, { 3, 4 }, { 5, 6 } }, { 0, 2, 0 }, 3), df.unsorted_segment_sqrt_n({ 1.0, 3, 5 }, { 0, 2, 0 }, 3),
           df.unsorted_segment_mean({ { 1.0, 2 }, { 3, 4 }, { 5, 6 } }, { 0, -1, 0 }, 2))
    local x = df.float64{ { 1, 2 }, { 3, 4 }, { 5, 6 } }
    assert.is_true(df.check_gradients(df.reduce_sum(df.square(df.unsorted_segment_sqrt_n(x, { 0, 2, 0 }, 3))), { x }))
  end)

  it('random_crop takes a part that lies together, of a known shape, anywhere', function()
    local x = df.reshape(df.range(24), { 4, 6 })
    local y, seen = df.random_crop(x, { 2, 3 }, { seed = 1 }), {}
    assert.same({ 2, 3 }, y.shape)
    for _ = 1, 200 do
      local t = df.run(y)
      local first = t:at(0, 0)
      assert.same({ { first, first + 1, first + 2 }, { first + 6, first + 7, first + 8 } }, t:totable())
      seen[first] = true
    end
    local places = 0
    for _ in pairs(seen) do places = places + 1 end
    assert.equal(12, places)                                     -- 3 rows and 4 columns to begin in
    local any = df.placeholder('float32', { -1 })
    local n = df.placeholder('int32', {})
    assert.same({ 2 }, df.run(df.random_crop(df.range(5), { n }), { [n] = 2 }).shape)      -- a size that is known when it runs
    assert.matches('the value is smaller than size', message_of(df.run, df.random_crop(any, { 3 }), { [any] = { 1, 2 } }), 1, true)
  end)

  it('space_to_batch and batch_to_space take one block size', function()
    local x = df.reshape(df.range(16), { 1, 4, 4, 1 })
    support.same(df.run(df.space_to_batch(x, { { 0, 0 }, { 0, 0 } }, 2)), df.run(df.space_to_batch_nd(x, { 2, 2 }, { { 0, 0 }, { 0, 0 } })))
    support.same(df.run(df.batch_to_space(df.space_to_batch(x, { { 0, 0 }, { 0, 0 } }, 2), { { 0, 0 }, { 0, 0 } }, 2)), df.run(x))
  end)

  it('arithmetic that is 0 instead of NaN, polynomials, norms', function()
    values({ { 0.5, 0 }, { 0, 6 }, { 0 }, { 11, 3 } }, df.reciprocal_no_nan{ 2.0, 0 }, df.multiply_no_nan({ 1 / 0, 3.0 }, { 0.0, 2 }),
           df.divide_no_nan({ 1.0 }, { 0.0 }), df.polyval({ 1, 2, 3 }, df.float32{ 2, 0 }))
    -- no power of x comes before the first coefficient
    values({ { math.huge, 3 }, 3, { 0, 0 } }, df.polyval({ 1, 2 }, df.float32{ math.huge, 1 }), df.polyval({ 3 }, df.float32{ math.huge, 1 }),
           df.polyval({}, df.float32{ 2, 3 }))
    values({ -4.094344615936279, { 1.2000000476837158, 1.600000023841858 }, { 0.30000001192092896, 0.4000000059604645 } },
           df.lbeta{ 1.0, 2, 3 }, df.clip_by_average_norm({ 3.0, 4 }, 1), df.clip_by_average_norm({ 0.3, 0.4 }, 1))
    assert.equal('complex64', df.to_complex64{ 1.0 }.dtype)
  end)

  it('weighted_cross_entropy_with_logits and log_poisson_loss', function()
    values({ { 0.3021199405193329, 0.8804958462715149, 4.57763671875e-05 }, { 1.6487212181091309, 1.7182817459106445, 1.3890562057495117 },
             { 1.6487212181091309, 1.7182817459106445, 3.153137683868408 } },
           df.weighted_cross_entropy_with_logits({ 1.0, 0.5, 0 }, { 1.5, -0.1, -10.0 }, 1.5), df.log_poisson_loss({ 0.0, 1, 3 }, { 0.5, 1, 2.0 }),
           df.log_poisson_loss({ 0.0, 1, 3 }, { 0.5, 1, 2.0 }, true))
    local x = df.float64{ 0.5, 1, 2 }
    assert.is_true(df.check_gradients(df.reduce_sum(df.log_poisson_loss({ 0.0, 1, 3 }, x, true)), { x }))
    assert.is_true(df.check_gradients(df.reduce_sum(df.weighted_cross_entropy_with_logits({ 1.0, 0.5, 0 }, x, 1.5)), { x }))
  end)

  it('moments have derivatives of any order: the mean under the variance changes, too', function()
    local x = df.placeholder('float64', { 3 })
    local _, variance = df.moments(x, { 0 })
    local hessian = df.run(df.hessian(variance, x), { [x] = { 1, 2, 4 } })
    support.near(hessian, { { 4 / 9, -2 / 9, -2 / 9 }, { -2 / 9, 4 / 9, -2 / 9 }, { -2 / 9, -2 / 9, 4 / 9 } })   -- 2/n (δ - 1/n)
  end)

  it('moments from sums, shifted, weighted', function()
    local x = df.constant{ { 1.0, 2 }, { 3, 5 } }
    local c, m, v = df.sufficient_statistics(x, { 0 })
    values({ 2, { 4, 7 }, { 10, 29 } }, c, m, v)
    values({ { 2, 3.5 }, { 1, 2.25 } }, df.normalize_moments(c, m, v))
    for _, o in ipairs{ { keep_prob = 1.5 }, { keep_prob = 0 }, { rate = 1 }, { rate = -0.5 } } do
      assert.matches('dropout: the rate is at least 0 and below 1', select(2, pcall(df.dropout, df.ones{ 3 }, o)).message)
    end
    assert.equal('invalid_argument', select(2, pcall(df.normalize_moments, 9e15, df.FIFOQueue(1, 'int32'), print, 1e300)).code)
    local rows, columns = df.sufficient_statistics({ { 1.0, 2 }, { 3, 4 }, { 5, 6 } }, { -2 })
    values({ 3, { 9, 12 } }, rows, columns)
    local n, sum, squares, shift = df.sufficient_statistics(x, { 0, 1 }, 2.0, true)
    values({ 4, { { 3 } }, { { 11 } } }, n, sum, squares)
    values({ { { 2.75 } }, { { 2.1875 } } }, df.normalize_moments(n, sum, squares, shift))
    values({ { 2.5, 4.25 }, { 0.75, 1.6875 } }, df.weighted_moments(x, { 0 }, { { 1.0 }, { 3 } }))
    values({ { { 3.375 } }, { { 1.984375 } } }, df.weighted_moments(x, { 0, 1 }, { { 1.0 }, { 3 } }, true))
    -- either stretches to the other's shape
    values({ { 1, 2, 4 }, { 0, 0, 0 } }, df.weighted_moments(df.float32{ { 1, 2, 4 } }, { 0 }, { { 1.0 }, { 3 } }))
  end)

  it('embedding_lookup_sparse joins the rows of each example', function()
    local tables = df.constant{ { 1.0, 2 }, { 3, 4 }, { 5, 6 } }
    local at = { { 0, 0 }, { 0, 1 }, { 1, 0 } }
    local ids, weights = { indices = at, values = { 0, 2, 1 }, dense_shape = { 2, 2 } }, { indices = at, values = { 0.5, 2, 3 }, dense_shape = { 2, 2 } }
    local expected = { sum = { { { 6, 8 }, { 3, 4 } }, { { 10.5, 13 }, { 9, 12 } } },
                       mean = { { { 3, 4 }, { 3, 4 } }, { { 4.199999809265137, 5.199999809265137 }, { 3, 4 } } },
                       sqrtn = { { { 4.242640495300293, 5.656854152679443 }, { 3, 4 } }, { { 5.09324836730957, 6.305926322937012 }, { 3, 4 } } } }
    for how, want in pairs(expected) do
      values(want, df.embedding_lookup_sparse(tables, ids, nil, { combiner = how }), df.embedding_lookup_sparse(tables, ids, weights, { combiner = how }))
    end
    values({ { { 3, 4 } } }, df.embedding_lookup_sparse({ { 1.0, 2.0 }, { 3.0, 4.0 } }, { indices = { { 0, 0 } }, values = { 1 }, dense_shape = { 1, 1 } }, nil))
    -- an example that has none: zeros, as in TensorFlow
    local some = { indices = { { 0, 0 }, { 2, 0 } }, values = { 1, 0 }, dense_shape = { 3, 1 } }
    local none = { indices = { { 0, 0 }, { 2, 0 } }, values = { 0.0, 2.0 }, dense_shape = { 3, 1 } }
    for _, how in ipairs{ 'sum', 'mean', 'sqrtn' } do
      assert.same({ { 3, 4 }, { 0, 0 }, { 1, 2 } }, df.run(df.embedding_lookup_sparse({ { 1.0, 2.0 }, { 3.0, 4.0 } }, some, { combiner = how })):totable())
      assert.same({ { 0, 0 }, { 0, 0 }, how == 'sum' and { 2, 4 } or { 1, 2 } },
                  df.run(df.embedding_lookup_sparse({ { 1.0, 2.0 }, { 3.0, 4.0 } }, some, none, { combiner = how })):totable())
    end
    assert.matches("'sum', 'mean' or 'sqrtn' is expected", message_of(df.embedding_lookup_sparse, tables, ids, nil, { combiner = 'max' }), 1, true)
    assert.matches('ids is ', message_of(df.embedding_lookup_sparse, tables, { 1, 2 }), 1, true)
  end)

  it('convolutions under the names of tf.nn', function()
    local x, filter = ramp(18, { 1, 3, 3, 2 }, 0.1), ramp(8, { 2, 2, 2, 1 }, 0.25, -1)
    values({ { { { { 0.4, 0.675 }, { 0.5, 1 }, { 0, 0.225 } }, { { 0.6, 1.05 }, { 0.6, 1.4 }, { -0.2, 0.15 } },
                 { { -0.4, -0.225 }, { -1.1, -0.8 }, { -0.8, -0.675 } } } },
             { { { { 1, 1, 1 }, { 0.8, 0.8, 0.8 } }, { { 0.4, 0.4, 0.4 }, { 0.2, 0.2, 0.2 } } } }, { { { { 6.8 } } } } },
           df.depthwise_conv2d(x, filter, { 1, 1, 1, 1 }, 'SAME', { 2, 2 }),
           df.separable_conv2d(x, filter, df.ones{ 1, 1, 2, 3 }, { 1, 1, 1, 1 }, 'VALID'), df.atrous_conv2d(x, df.ones{ 2, 2, 2, 1 }, 2, 'VALID'))
    local y = df.conv2d_transpose(x, ramp(8, { 2, 2, 1, 2 }, 0.25, -1), { 1, 6, 6, 1 }, { 1, 2, 2, 1 }, 'SAME')
    assert.same({ 1, 6, 6, 1 }, y.shape)
    values({ { -0.075, -0.025, -0.425, -0.175, -0.775, -0.325 }, { 0.325, 1.575, 0.375, 1.825, 0.425, 2.075 } },
           df.reshape(y, { 6, 6 })[0], df.reshape(y, { 6, 6 })[5])
    assert.matches('rate is the boolean true, a number or {height, width} is expected',
                   message_of(df.depthwise_conv2d, x, filter, { 1, 1, 1, 1 }, 'SAME', true), 1, true)
  end)

  it('matrices transposed, traced, applied', function()
    local m = df.constant{ { 2.0, 1 }, { 1, 3 } }
    values({ { { { 0, 3 }, { 1, 4 }, { 2, 5 } }, { { 6, 9 }, { 7, 10 }, { 8, 11 } } }, { 3, 11 }, { 4, 7 }, 1.6094379425048828 },
           df.matrix_transpose(ramp(12, { 2, 2, 3 }, 1)), df.trace(ramp(8, { 2, 2, 2 }, 1)), df.matvec(m, { 1, 2 }), df.logdet(m))
    local z = df.run(df.adjoint(df.constant({ { { re = 1, im = 2 }, { re = 3, im = 0 } } }, 'complex64')))
    assert.equal(-2, z:at(0, 0).im)
    assert.same({ 2, 1 }, z.shape)
    assert.matches('x has rank 1, a matrix', message_of(df.matrix_transpose, { 1.0 }), 1, true)
  end)

  it('other names of TensorFlow 1 for the same', function()
    values({ { 1 }, { 6, 2 }, { { 2 } } }, df.arg_max({ { 1.0, 3, 2 } }, 1), df.tensor_scatter_nd_add({ 1.0, 2 }, { { 0 } }, { 5.0 }),
           df.relu_layer({ { 1.0, -2 } }, { { 1.0 }, { 1.0 } }, { 3.0 }))
    values({ { { 1, 2 } } }, df.parallel_stack{ { 1, 2 } })
  end)

  it('brings back what was quantized in lines with scales of their own, in two bytes and four, too', function()
    local registry = require 'dflow.front.registry'
    local x = { { 1, -2, 0.5 }, { 10, 20, -30 }, { 100, 0, 50 } }
    for _, d in ipairs{ 'qint16', 'qint32' } do
      local q = { registry.op('QuantizeV2', { df.float32(x), df.float32{ -2, -30, -100 }, df.float32{ 2, 30, 100 } }, { T = d, mode = 'SCALED', axis = 0 }) }
      support.near(df.run(registry.op('Dequantize', { q[1], q[2], q[3] }, { mode = 'SCALED', axis = 0 })), x, { rtol = 1e-3, atol = 1e-3 })
    end
  end)

  it('prints halves of both kinds', function()
    local shell = require 'spec.shell'
    local r = shell.run(shell.dflow .. [[ -e "for _, d in ipairs{'float16', 'bfloat16'} do df.run(df.print(df.cast(df.float32{1.5, -2}, d), {message = d .. ' '})) end"]])
    assert.equal('float16 [1.5 -2]\nbfloat16 [1.5 -2]\n', r.err)
  end)
end)
