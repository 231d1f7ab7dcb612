-- What is given has an effect or is an error: names of results, options by place and by name, options that say the same, switches.
local df = require 'dflow'
local support = require 'spec.support'
local message_of = support.message_of

describe('what is given', function()
  it('is the name of what comes out, of functions that are made of several ops, too', function()
    local x, m = df.float32{ 1, 2, 3 } * 1, df.float32{ { 4, 1 }, { 1, 3 } } + 0
    local picture, seed = df.ones{ 3, 4, 3 }, { 1, 2 }
    local made = {
      df.eye(2, { name = 'r' }), df.sequence_mask({ 1, 2 }, { name = 'r' }), df.boolean_mask(x, { true, false, true }, { name = 'r' }),
      df.repeat_(x, 2, { name = 'r' }), df.trace(m, { name = 'r' }), df.matvec(m, { 1, 2 }, { name = 'r' }), df.logdet(m, { name = 'r' }),
      df.matrix_transpose(m, { name = 'r' }), df.polyval({ 1, 2 }, x, { name = 'r' }), df.lbeta(x, { name = 'r' }), df.sort(x, { name = 'r' }),
      df.argsort(x, { name = 'r' }), df.searchsorted({ 1, 2 }, { 1 }, { name = 'r' }), df.lstsq(m, m, { name = 'r' }), df.rfft(x, { name = 'r' }),
      df.softmax(m, 0, { name = 'r' }), df.softmax(m, { name = 'r' }), df.l2_normalize(x, { name = 'r' }), df.dropout(x, 0.5, { name = 'r' }),
      df.random_uniform({ 2 }, 1, 3, { name = 'r' }), df.random_uniform({ 2 }, { name = 'r' }), df.random_normal({ 2 }, 1, 3, { name = 'r' }),
      df.stateless_random_uniform({ 2 }, seed, 1, 3, { name = 'r' }), df.stateless_random_gamma({ 2 }, seed, 2, 3, { name = 'r' }),
      df.zeros_like(x, 'int32', { name = 'r' }), df.clip_by_norm(x, 1, { name = 'r' }), df.reduce_std(x, { name = 'r' }),
      df.embedding_lookup(m, { 0 }, { name = 'r' }), df.embedding_lookup(m, { 0 }, { max_norm = 1, name = 'r' }),
      df.embedding_lookup({ m, m }, { 0 }, { name = 'r' }), df.sigmoid_cross_entropy_with_logits{ labels = x, logits = x, name = 'r' },
      df.image.resize(picture, { 2, 2 }, { name = 'r' }), df.image.flip_left_right(picture, { name = 'r' }), df.image.rot90(picture, { name = 'r' }),
      df.image.psnr(picture, picture, 1, { name = 'r' }), df.signal.hann_window(4, { name = 'r' }), df.signal.dct(x, { name = 'r' }),
      df.signal.frame(x, 2, 1, { name = 'r' }), df.train.cosine_decay(0.1, 3, 10, { name = 'r' }),
      df.train.piecewise_constant(1, { 2 }, { 0.1, 0.2 }, { name = 'r' }), df.clip_by_global_norm({ x }, 1, { name = 'r' })[1],
    }
    for i, y in ipairs(made) do
      assert.equal(i == 1 and 'r:0' or ('r_%d:0'):format(i - 1), y.name)
    end
  end)

  it('is the name of each of several results, and of an operation', function()
    local x, m = df.float32{ 1, 2, 3 } * 1, df.float32{ { 4, 1 }, { 1, 3 } } + 0
    local mean, variance = df.moments(x, { 0 }, { name = 'm' })
    assert.same({ 'm:0', 'm_1:0' }, { mean.name, variance.name })
    local a, b = df.meshgrid({ 1, 2 }, { 3, 4 }, { name = 'g' })
    assert.same({ 'g:0', 'g_1:0' }, { a.name, b.name })
    assert.same({ { 1, 2 }, { 1, 2 } }, df.run(a):totable())
    local s, u = df.svd(m, { name = 'd' })
    assert.same({ 'd:0', 'd:1' }, { s.name, u.name })
    assert.equal('rank', df.assert_rank(m, 2, { name = 'rank' }).name)
    assert.equal('less', df.assert_less(x, 9, { name = 'less' }).name)
    assert.same({ 1, 2, 3 }, df.control_dependencies({ df.default_graph():op 'rank' }, function() return df.identity(x) end):eval():totable())
    local inside = df.name_scope('part', function() return df.trace(m, { name = 'sum' }) end)
    assert.equal('part/sum:0', inside.name)
    assert.equal(7, df.run(inside))
    assert.equal('c:0', df.float32(1, { name = 'c' }).name)
    assert.equal('c_1:0', df.int32(x, { name = 'c' }).name)
    assert.equal('c_2:0', df.float64({ 1, 2 }, { 2 }, { name = 'c' }).name)
    assert.same({ 2, 2 }, df.int32(7, { shape = { 2, 2 } }).shape)
    assert.equal('whole:0', df.reduce_sum(x, { name = 'whole/' }).name)
    assert.equal('Mul', df.l2_normalize(x, { name = '' }).op.type)
    local w = df.Variable(2.0)
    local dw = df.gradients(df.square(w) * 3, w, { name = 'back' })
    assert.matches('^back/', dw.name)
    assert.equal(12, df.run(dw))
    assert.equal('sampled:0', df.sampled_softmax_loss(df.ones{ 5, 2 }, df.zeros{ 5 }, { { 1 } }, { { 1.0, 2.0 } }, 2, 5, { name = 'sampled' }).name)
    assert.equal('noise:0', df.nce_loss(df.ones{ 5, 2 }, df.zeros{ 5 }, { { 1 } }, { { 1.0, 2.0 } }, 2, 5, { name = 'noise' }).name)
    assert.same({ 'init', 'done' }, { df.no_op{ name = 'init' }.name, df.no_op('done').name })
    local v = df.Variable(0.0)
    assert.equal('all', df.group(v:assign_add(1), { name = 'all' }).name)
    assert.equal('both', df.group{ v:assign_add(1), v:assign_add(1), name = 'both' }.name)
    df.run{ df.default_graph():op 'all', df.default_graph():op 'both', df.group{ one = v:assign_add(1) } }
    assert.equal(4, df.run(v))
    assert.equal('go', df.train.SGD(0.1, { name = 'go' }):minimize(df.square(w)).name)
    assert.equal('once', df.train.SGD(0.1, { name = 'go' }):minimize(df.square(w), { name = 'once' }).name)
  end)

  it('is the name of what an array or a queue gives', function()
    local ta = df.TensorArray('float32', 2):unstack{ { 1 }, { 2 } }
    local named = { name = 'a' }
    for i, y in ipairs{ ta:stack(named), ta:read(0, named), ta:gather({ 1 }, named), ta:concat(named), ta:size(named) } do
      assert.equal(i == 1 and 'a:0' or ('a_%d:0'):format(i - 1), y.name)
    end
    assert.same({ { 1 }, { 2 } }, df.run(df.default_graph():output 'a:0'):totable())
    local q = df.FIFOQueue(9, { 'float32', 'int32' }, { shapes = { { 2 }, {} } })
    local a, b = q:dequeue{ name = 'next' }
    local many, up_to = q:dequeue_many(1, { name = 'some' }), q:dequeue_up_to(1, { name = 'rest' })
    local left = q:size{ name = 'left' }
    assert.same({ 'next:0', 'next:1', 'some:0', 'rest:0', 'left:0' }, { a.name, b.name, many.name, up_to.name, left.name })
    local one, rows = q:enqueue({ 1, 2 }, 3, { name = 'one' }), q:enqueue_many({ { 3, 4 } }, { 5 }, { name = 'rows' })
    assert.same({ 'one', 'rows' }, { one.name, rows.name })
    df.run(one)
    df.run(rows)
    assert.equal(2, df.run(q:size()))
    assert.matches("Queue:enqueue has no option 'nam'", message_of(q.enqueue, q, { 1, 2 }, 3, { nam = 'x' }))
  end)

  it('once, by its place or by its name', function()
    local m = df.float32{ { 1, 2 }, { 3, 4 } } + 0
    for _, call in ipairs{
      { df.matmul, m, m, { b = m } }, { df.gather, m, { 0 }, { indices = { 1 } } }, { df.one_hot, { 0 }, 3, { depth = 4 } }, { df.top_k, m, 1, { k = 2 } },
      { df.clip_by_norm, m, 1, { clip_norm = 2 } }, { df.moments, m, { 0 }, { axes = { 1 } } }, { df.less, m, m, { y = m } },
      { df.softmax_cross_entropy_with_logits, m, m, { labels = m } }, { df.image.resize, df.ones{ 2, 2, 1 }, { 1, 1 }, { size = { 2, 2 } } },
      { df.train.exponential_decay, 0.1, 3, 10, 0.9, { decay_steps = 5 } }, { df.train.Momentum, 0.1, 0.9, { momentum = 0.5 } },
      { df.get_variable, 'w', { 2 }, { shape = { 3 } } }, { df.conv2d, df.ones{ 1, 3, 3, 1 }, df.ones{ 2, 2, 1, 1 }, { 1, 1, 1, 1 }, 'SAME', { strides = 2 } },
      { df.reverse_sequence, m, { 1, 2 }, { seq_axis = 1, seq_dim = 1 } }, { df.train.Adagrad, 0.1, { initial_accumulator = 1, initial_accumulator_value = 2 } },
      { df.train.Ftrl, 0.1, { l1 = 1, l1_regularization_strength = 2 } },
    } do
      assert.matches('given twice', message_of((table.unpack or unpack)(call)))
    end
    local w = df.Variable(1.0)
    assert.matches('given twice', message_of(function() df.train.SGD(0.1):minimize(w * w, { variables = { w }, var_list = { w } }) end))
    assert.matches('both given', message_of(df.dropout, m, 0.5, { keep_prob = 0.5 }))
  end)

  it('is the dtype that an op has, or an error', function()
    local x = df.float32{ 1, 2 } * 1
    assert.matches("the option T is float64, but x is float32: cast it, as in df.cast%(x, 'float64'%)", message_of(df.sqrt, x, { T = 'float64' }))
    assert.matches('dtype', message_of(df.sqrt, x, { T = {} }))
    assert.equal('float64', df.sqrt({ 1, 4 }, { T = 'float64' }).dtype)
    assert.matches('a dtype is a string', message_of(df.argmax, x, { output_type = 3 }))
  end)

  it('is what map_fn says of the dtype', function()
    local x = df.float32{ 1, 2 } * 1
    assert.equal('int32', df.map_fn(function() return 3 end, x, { dtype = 'int32' }).dtype)
    assert.equal('float64', df.map_fn(function() return 3 end, x, { dtype = 'float64' }).dtype)
    local a, b = df.unpack(df.map_fn(function(v) return v, df.cast(v, 'int32') end, x, { dtype = { 'float32', 'int32' } }))
    assert.same({ 'float32', 'int32' }, { a.dtype, b.dtype })
    assert.equal('int32', df.map_fn(function() return 3 end, x, { dtype = { 'int32' } }).dtype)
    assert.matches("the function returns float32, and dtype says int32: cast it", message_of(df.map_fn, function(v) return v end, x, { dtype = 'int32' }))
    assert.matches('dtype has an entry b', message_of(df.map_fn, function(v) return { a = v } end, x, { dtype = { a = 'float32', b = 'int32' } }))
    local two = { dtype = { 'float32', 'int32' } }
    assert.matches('dtype has 2 entries, and the function returns one', message_of(df.map_fn, function(v) return v end, x, two))
    assert.matches('dtype has no entry 2', message_of(df.map_fn, function(v) return v, v end, x, { dtype = { 'float32' } }))
    assert.matches("dtype is the number 3, a dtype such as 'float32' is expected", message_of(df.map_fn, function(v) return v end, x, { dtype = 3 }))
  end)

  it('as a switch is true or false, and nothing that Lua takes for it', function()
    local x, m = df.float32{ 1, 2 } * 1, df.ones{ 1, 3, 4 }
    local w = df.Variable(2.0)
    local y = df.square(w)
    local h = df.start(y, nil, { paused = true })
    for _, case in ipairs{
      { 'stable', df.argsort, x }, { 'preserve_aspect_ratio', df.image.resize, df.ones{ 4, 4, 3 }, { 2, 2 } }, { 'pad_end', df.signal.frame, x, 1, 1 },
      { 'pad_end', df.signal.stft, x, 1, 1 }, { 'saturate', df.image.convert_image_dtype, x, 'uint8' }, { 'causal', df.nn.attention, m, m, m },
      { 'approximate', df.gelu, x }, { 'use_bias', df.nn.dense, df.ones{ 2, 2 }, 2 }, { 'cycle', df.train.polynomial_decay, 0.1, 3, 10 },
      { 'compute_full_loss', df.log_poisson_loss, x, x }, { 'drop_remainder', df.data.batches, df.tensor{ 1, 2 }, 1 },
      { 'shuffle', df.data.batches, df.tensor{ 1, 2 }, 1 }, { 'reverse', df.scan, function(a, b) return a + b end, x, 0.0 }, { 'ways', df.check_gradients, y, w },
      { 'unrolled', df.check_gradients, y, w }, { 'source', df.draw, y }, { 'values', df.start, y, nil }, { 'record', df.start, y, nil },
      { 'remains', df.start, y, nil }, { 'at_once', df.start, y, nil }, { 'paused', df.start, y, nil }, { 'files', df.import_graph_def, 'spec/graphs/loop.pb' },
      { 'is_training', df.fused_batch_norm, df.ones{ 1, 2, 2, 1 }, { 1 }, { 0 } }, { 'ascii', df.plot{ 1, 2 }.text, df.plot{ 1, 2 } },
      { 'pad', df.data.pipeline(df.tensor{ 1, 2 }).batch, df.data.pipeline(df.tensor{ 1, 2 }), 1 }, { 'dead', h.break_at, h }, { 'nan', h.break_at, h },
    } do
      for _, wrong in ipairs{ 0, 'x', {} } do
        local arguments, n = { (table.unpack or unpack)(case, 3) }, #case - 2
        if case[1] == 'values' or case[1] == 'record' or case[1] == 'remains' or case[1] == 'at_once' or case[1] == 'paused' then n = 2 end
        arguments[n + 1] = { [case[1]] = wrong }
        local told = message_of(case[2], (table.unpack or unpack)(arguments, 1, n + 1))
        assert.matches(case[1] .. ' is', told)
        assert.matches('true or false', told)
      end
    end
    h:cancel()
  end)

  it('is a number where one is expected: neither NaN nor one that turns a step around', function()
    local x = df.float32{ 1, 2 } * 1
    local nan = 0 / 0
    for text, call in pairs{
      ['clip_norm is a number above 0, not the number %-1'] = { df.train.SGD, 0.1, { clip_norm = -1 } },
      ['beta1 is the number %-?nan'] = { df.train.Adam, 0.1, { beta1 = nan } },
      ['momentum is a number, not the number %-?nan'] = { df.nn.BatchNorm, { momentum = nan } },
      ['tolerance is a number from 0 up'] = { df.train.lbfgs, function(v) return df.reduce_sum(v) end, { 1 }, { tolerance = nan } },
      ['the rate is at least 0 and below 1'] = { df.dropout, x, nan },
      ['label_smoothing is a number from 0 to 1, not the number %-1'] = { df.nn.sigmoid_cross_entropy, x, x, { label_smoothing = -1 } },
      ['seed is a whole number, not the string "x"'] = { df.rnn.DropoutWrapper, df.rnn.GRUCell(2), { seed = 'x' } },
      ['decay_steps is table, a number or a scalar Output is expected'] = { df.train.exponential_decay, 0.1, 3, { 1 }, 0.9 },
      ['alpha is the boolean true'] = { df.train.cosine_decay, 0.1, 3, 10, { alpha = true } },
      ['minlength is a whole number from 0 up, not the number 1.5'] = { df.bincount, { 1 }, { minlength = 1.5 } },
      ['behind a size, here 5, stand the weights'] = { df.bincount, { 1 }, 5, { minlength = 3 } },
      ['epochs is a whole number from 1 up, not the string "x"'] = { df.data.batches, df.tensor{ 1, 2 }, 1, { epochs = 'x' } },
      ['the lengths of the references are int32%[%], %[batch%] is expected'] = { df.nn.metrics.bleu, { { 1, 2, 3, 4 } }, { { 1, 2, 3, 4 } }, { reference_lengths = 3 } },
      ['every is a number from 0 up'] = { df.progress, 3, { every = -1 } },
      ['shard_bytes is a number of bytes'] = { df.train.Saver, { shard_bytes = {} } },
      ['variables is a list of Variables'] = { df.train.Saver, { variables = 3 } },
      ['k1 is table, a number is expected'] = { df.image.ssim, df.ones{ 12, 12, 1 }, df.ones{ 12, 12, 1 }, 1, { k1 = {} } },
      ['nbins is a whole number from 1 up'] = { df.histogram_fixed_width_bins, x, { 0, 1 }, 0 },
    } do
      assert.matches(text, message_of((table.unpack or unpack)(call)))
    end
  end)

  it('is told where it could have no effect', function()
    for text, call in pairs{
      ["half_pixel_centers is not for the method 'area'"] = { df.image.resize, df.ones{ 4, 4, 3 }, { 2, 2 }, { method = 'area', half_pixel_centers = true } },
      ['with layer_norm there is no bias'] = { df.rnn.LSTMCell, 2, { layer_norm = true, bias_initializer = 1 } },
      ['pad_value is what fills up with pad = true'] = { df.data.pipeline(df.tensor{ 1 }).batch, df.data.pipeline(df.tensor{ 1 }), 2, { pad_value = 3 } },
      ["lines is of a tree or let%-form, and `as` is 'svg'"] = { df.draw, df.ones{ 2 }, { as = 'svg', lines = 3 } },
      ['num is the number 3, but 2 parts are asked for'] = { df.split, df.ones{ 4 }, 2, { num = 3 } },
      ['classes are folders in a folder'] = { df.data.images, { 'a.png' }, { classes = { 'a' } } },
      ['shuffle is of {x, y}; a pipeline has an order of its own'] = { df.train.fit, df.nn.Dense(1),
        df.data.pipeline{ df.tensor{ { 1.0 }, { 2.0 } }, df.tensor{ { 1.0 }, { 2.0 } } }:batch(1), { shuffle = true, progress = false } },
      ["zeros has no option 'gain'"] = { df.nn.initializers.zeros, { gain = 2 } },
    } do
      assert.matches(text, message_of((table.unpack or unpack)(call)))
    end
  end)

  it('may be said where it is off', function()
    df.draw(df.ones{ 2 }, { as = 'dot', lines = math.huge })
    df.data.pipeline(df.tensor{ 1 }):batch(2, { pad = false, pad_value = 3 })
    df.rnn.LSTMCell(2, { proj_clip = 1 })                                        -- TensorFlow's clips only what a projection gives
    df.train.loop(3, function() end, { every = 2 })                              -- a report may come and go
    local rows = df.tensor({ { 1 }, { 2 } }, 'float32')
    df.train.fit(df.nn.Dense(1), df.data.pipeline{ rows, rows }:batch(1), { shuffle = false, progress = false, epochs = 1 })
  end)

  it('limits by a norm that is given, a number, too', function()
    local list = df.clip_by_global_norm({ df.float32{ 3, 4 } * 1 }, 5, { use_norm = 10 })
    support.near(list[1]:eval(), { 1.5, 2 })
    local wide = df.clip_by_global_norm({ false, df.float64{ 3, 4 } * 1 }, 5, { use_norm = 10 })[2]
    support.near(wide:eval(), { 1.5, 2 })
    assert.equal('float64', wide.dtype)
  end)
end)
