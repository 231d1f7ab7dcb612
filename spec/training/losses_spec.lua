--- Losses over sequences and many classes, embeddings in pieces, samplers and metrics, against what TensorFlow 2.15 (v1) computed
-- (spec/training/tensorflow_losses.py) and by themselves.
local df = require 'dflow'
local numbers = require 'spec.training.numbers'
local expected = require('spec.support').recorded 'spec/training/tensorflow_layers'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

local function constant(...) return df.constant(numbers(...)) end
local function dense(g) return df.type(g) == 'indexed_slices' and g * df.float32(1) or g end

describe('embedding_lookup', function()
  --- The rows of full [n, …] in three Variables, as the strategy deals them out.
  local function cut(full, strategy)
    local n, lists = full.shape[1], { {}, {}, {} }
    local rows = full:totable()
    local limits = { 4, 7, 10 }
    for i = 1, n do
      local k = strategy == 'mod' and (i - 1) % 3 + 1 or (i <= limits[1] and 1 or i <= limits[2] and 2 or 3)
      lists[k][#lists[k] + 1] = rows[i]
    end
    local tables = {}
    for k = 1, 3 do tables[k] = df.Variable(df.tensor(lists[k], 'float32')) end
    return tables
  end

  it('finds rows in one table, and in tables dealt out by mod and div', function()
    local full, ids = numbers({ 10, 3 }, 1), { { 9, 0, 4 }, { 3, 6, 7 } }
    local whole = df.run(df.embedding_lookup(df.Variable(full), ids))
    assert.same({ 2, 3, 3 }, whole.shape)
    for _, strategy in ipairs{ 'mod', 'div' } do
      local tables = cut(full, strategy)
      local rows = df.embedding_lookup(tables, df.int64(ids), { partition_strategy = strategy })
      assert.same({ 2, 3, 3 }, rows.shape)
      near(df.run(rows), whole)
      local g = df.gradients(df.reduce_sum(rows), tables)
      for i = 1, 3 do assert.equal('indexed_slices', df.type(g[i])) end
      local sums = df.run(dense(g[2]))
      local total = 0
      for r = 0, sums.shape[1] - 1 do total = total + sums:at(r, 0) end
      assert.equal(2, total)
      local step = df.train.SGD(1):minimize(df.reduce_sum(rows))
      df.run(step)
      near(df.run(rows), df.run(df.constant(whole) - 1))
    end
    local v = df.Variable{ { 3.0, 4.0 }, { 0.3, 0.4 } }
    near(df.run(df.embedding_lookup(v, { 0, 1 }, { max_norm = 1 })), { { 0.6, 0.8 }, { 0.3, 0.4 } })
  end)

  it('says what is wrong', function()
    assert.matches('takes a table or a list of them, not an empty one', message_of(df.embedding_lookup, {}, { 1 }))
    local t = df.ones{ 3, 2 }
    assert.matches("partition_strategy is 'mod' or 'div'", message_of(df.embedding_lookup, { t, t }, { 1 }, { partition_strategy = 'hash' }))
    assert.matches('the ids are float32, int32 or int64 is expected', message_of(df.embedding_lookup, t, df.ones{ 2 }))
    assert.matches('the ids are missing', message_of(df.embedding_lookup, t))
  end)
end)

describe('ctc_loss', function()
  local cases = {
    plain = { 6, 4, 5, { { 0, 1, 2 }, { 3 }, { 2, 2, 1 }, { 0 } }, { 6, 3, 5, 1 } },
    unmerged = { 6, 2, 4, { { 0, 0, 1 }, { 2, 2 } }, { 6, 4 }, { ctc_merge_repeated = false } },
    collapsed = { 6, 2, 4, { { 0, 0, 1, 1 }, { 2, 1, 2, 2 } }, { 6, 5 }, { preprocess_collapse_repeated = true } },
    ignored = { 4, 3, 4, { { 0, 1, 2, 0, 1 }, { 2 }, { 1, 1, 1 } }, { 4, 4, 4 }, { ignore_longer_outputs_than_inputs = true } },
  }
  local function sparse(lists)
    local indices, values, longest = {}, {}, 1
    for b, list in ipairs(lists) do
      for i, v in ipairs(list) do
        indices[#indices + 1], values[#values + 1] = { b - 1, i - 1 }, v
        longest = math.max(longest, i)
      end
    end
    return { indices = #indices > 0 and df.int64(indices) or df.zeros({ 0, 2 }, 'int64'), values = df.int32(values), dense_shape = df.int64{ #lists, longest } }
  end

  for name, c in pairs(cases) do
    it('and its gradient are what TensorFlow makes them: ' .. name, function()
      local opts = { lengths = c[5] }
      for k, v in pairs(c[6] or {}) do opts[k] = v end
      local logits = df.placeholder_with_default(constant({ c[1], c[2], c[3] }, 1, 2))
      local loss = df.ctc_loss(sparse(c[4]), logits, opts)
      assert.same({ c[2] }, loss.shape)
      local d = df.gradients(df.reduce_sum(loss * constant({ c[2] }, 99)), logits)
      local e = expected['ctc_' .. name]
      near(df.run(loss), e.loss, { atol = 2e-5, rtol = 1e-4 })
      if name == 'ignored' then      -- the third has no way to come about: where TensorFlow gives a softmax there is no gradient here
        d, e = d:slice({ 0, 0, 0 }, { -1, 2, -1 }), { d = {} }
        for t, rows in ipairs(expected.ctc_ignored.d) do e.d[t] = { rows[1], rows[2] } end
      end
      near(df.run(d), e.d, { atol = 2e-5, rtol = 1e-4 })
      opts.time_major = false
      near(df.run(df.ctc_loss(sparse(c[4]), df.transpose(logits, { 1, 0, 2 }), opts)), expected['ctc_' .. name].loss, { rtol = 1e-4 })
    end)
  end

  it('has a gradient by differences, and of second order', function()
    assert.is_true(support.check_gradient(function(x)
      return df.ctc_loss(sparse{ { 0, 1 }, { 1, 1 } }, x, { lengths = { 4, 3 } })
    end, { support.tensor({ 4, 2, 3 }, -1, 1, 'float64', 3) }, { order = 2, rtol = 1e-4, atol = 1e-5 }))
  end)

  it('is 0 for an example without frames and labels, alone and in a batch, and looks at no frame past the lengths', function()
    local x = df.placeholder('float64', { -1, -1, 3 })
    local lengths = df.placeholder('int32', { -1 })
    local function of(labels, logits, n)
      local loss = df.ctc_loss(sparse(labels), x, { lengths = lengths })
      local r = df.run({ loss, df.gradients(loss:reduce_sum(), x) }, { [x] = logits, [lengths] = n })
      return r[1]:totable(), r[2]:totable()
    end
    local a, b, nan = { 0.1, 0.2, 0.3 }, { -1, 2, 0.5 }, { 0 / 0, 0 / 0, 0 / 0 }
    local alone, d_alone = of({ { 1 } }, { { b }, { a } }, { 2 })
    local loss, d = of({ {}, { 1 } }, { { a, b }, { b, a } }, { 0, 2 })
    near(loss, { 0, alone[1] })
    near({ d[1][1], d[2][1] }, { { 0, 0, 0 }, { 0, 0, 0 } })
    near({ d[1][2], d[2][2] }, { d_alone[1][1], d_alone[2][1] })
    local padded, d_padded = of({ {}, { 1 } }, { { nan, b }, { nan, a }, { nan, nan } }, { 0, 2 })
    near(padded, loss)
    near({ d_padded[1], d_padded[2] }, d)
    near(d_padded[3], { { 0, 0, 0 }, { 0, 0, 0 } })
    local none, d_none = of({ {} }, { { a }, { b } }, { 0 })
    near(none, { 0 })
    near(d_none, { { { 0, 0, 0 } }, { { 0, 0, 0 } } })
    none = of({ {} }, df.tensor({}, 'float64', { 0, 1, 3 }), { 0 })
    near(none, { 0 })
  end)

  it('counts a text of nothing as blanks all through, and says what does not fit', function()
    local logits = constant({ 3, 2, 3 }, 1)
    local nothing = { indices = df.int64{ { 0, 0 } }, values = df.int32{ 1 }, dense_shape = df.int64{ 2, 1 } }
    local p = df.run(df.log_softmax(logits))
    near(df.run(df.ctc_loss(nothing, logits)):at(1), -(p:at(0, 1, 2) + p:at(1, 1, 2) + p:at(2, 1, 2)))
    local function bad(labels, o) return message_of(function() return df.run(df.ctc_loss(labels, logits, o)) end) end
    assert.matches('Not enough time for target transition sequence', bad(sparse{ { 0, 1 }, { 1 } }, { lengths = { 1, 3 } }))
    near(df.run(df.ctc_loss(sparse{ { 0, 0 }, { 1 } }, logits, { lengths = { 2, 3 } })):at(0), math.huge)
    assert.matches('a label is below 0 or not below the blank', bad(sparse{ { 2 }, { 1 } }))
    assert.matches('different numbers of examples', bad(sparse{ { 1 }, { 1 }, { 0 } }))
    assert.matches('a SparseTensor or {indices =, values =, dense_shape =} is expected', bad(df.int32{ 1 }))
    assert.matches('length 0 is 4, but x has 3 steps', bad(sparse{ { 0 }, { 1 } }, { lengths = { 4, 3 } }))
    assert.matches('the logits are float32%[3%]', message_of(df.ctc_loss, sparse{ { 0 } }, df.ones{ 3 }))
  end)
end)

describe('a loss over samples', function()
  for _, strategy in ipairs{ 'mod', 'div' } do
    it('is what TensorFlow makes it, in tables dealt out by ' .. strategy, function()
      local full, bias = numbers({ 10, 3 }, 1):totable(), numbers({ 10 }, 2):totable()
      local tables, biases = { {}, {}, {} }, { {}, {}, {} }
      for i = 1, 10 do
        local k = strategy == 'mod' and (i - 1) % 3 + 1 or (i <= 4 and 1 or i <= 7 and 2 or 3)
        tables[k][#tables[k] + 1], biases[k][#biases[k] + 1] = full[i], bias[i]
      end
      for k = 1, 3 do tables[k], biases[k] = df.Variable(df.tensor(tables[k], 'float32')), df.Variable(df.tensor(biases[k], 'float32')) end
      local x, labels = df.placeholder_with_default(constant({ 4, 3 }, 3)), df.int64{ { 1, 4 }, { 0, 9 }, { 5, 5 }, { 7, 2 } }
      local opts = { num_true = 2, partition_strategy = strategy,
                     sampled_values = { df.int64{ 4, 3, 9, 0, 8 }, df.abs(constant({ 4, 2 }, 4)) + 0.1, df.abs(constant({ 5 }, 5)) + 0.1 } }
      local found = {}
      for kind, fn in pairs{ softmax = df.sampled_softmax_loss, nce = df.nce_loss } do
        local loss = fn(tables, biases, labels, x, 5, 10, opts)
        local g = df.gradients(df.reduce_sum(loss * constant({ 4 }, 99)), { x, tables[1], tables[2], tables[3] })
        found[kind], found[kind .. '_dx'] = loss, g[1]
        found[kind .. '_dw'] = df.concat({ dense(g[2]), dense(g[3]), dense(g[4]) }, 0)
      end
      near(df.run(found), expected['sampled_' .. strategy], { atol = 1e-4, rtol = 1e-4 })
    end)
  end

  it('is finite in halves, also where a true class is drawn or is hardly ever expected', function()
    local labels, x = df.int64{ { 0 }, { 3 } }, constant({ 2, 3 }, 1)
    local opts = { sampled_values = { df.int64{ 3, 5 }, df.float32{ { 0.3 }, { 1e-9 } }, df.float32{ 1e-9, 0.2 } } }
    for _, fn in ipairs{ df.sampled_softmax_loss, df.nce_loss } do
      local w, b = constant({ 6, 3 }, 2), constant({ 6 }, 3)
      local whole = df.run(fn(w, b, labels, x, 2, 6, opts)):totable()
      for _, dtype in ipairs{ 'float16', 'bfloat16' } do
        local y = fn(df.cast(w, dtype), df.cast(b, dtype), labels, df.cast(x, dtype), 2, 6, opts)
        assert.equal(dtype, y.dtype)
        near(df.run(df.cast(y, 'float32')), whole, { rtol = 0.02, atol = 0.05 })
        assert.is_true(df.run(df.reduce_all(df.is_finite(df.gradients(df.reduce_sum(fn(df.cast(w, dtype), df.cast(b, dtype), labels, x:cast(dtype), 2, 6, opts)), x)))))
      end
    end
  end)

  it('draws for itself, and trains only the rows that it met', function()
    df.set_random_seed(3)
    local w, b = df.Variable(df.zeros{ 50, 4 }), df.Variable(df.zeros{ 50 })
    local loss = df.sampled_softmax_loss(w, b, { 7, 9 }, constant({ 2, 4 }, 1), 5, 50)
    local g = df.gradients(df.reduce_sum(loss), w)
    assert.equal('indexed_slices', df.type(g))
    local r = df.run{ loss, g.indices }
    assert.same({ 2 }, r[1].shape)
    assert.equal(7, r[2].size)
    assert.matches('sampled_values is Output', message_of(df.nce_loss, w, b, { 1 }, df.ones{ 1, 4 }, 3, 50, { sampled_values = df.ones{ 1 } }))
    assert.matches('the inputs are float32%[4%]', message_of(df.nce_loss, w, b, { 1 }, df.ones{ 4 }, 3, 50))
    for _, fn in ipairs{ df.sampled_softmax_loss, df.nce_loss } do
      assert.matches('the inputs are int32, floats are expected', message_of(fn, w, b, { 1 }, df.ones({ 1, 4 }, 'int32'), 3, 50))
    end
    assert.matches('the true classes are float32', message_of(df.nce_loss, w, b, df.ones{ 1 }, df.ones{ 1, 4 }, 3, 50))
    assert.matches('51 different classes are asked for', message_of(df.sampled_softmax_loss, w, b, { 1 }, df.ones{ 1, 4 }, 51, 50))
  end)
end)

describe('a candidate sampler', function()
  before_each(function() df.set_random_seed(5) end)

  it('draws each class as often as it says', function()
    local unigrams = df.float32{ 1, 2, 3, 4 }
    for name, p in pairs{ uniform = { 0.25, 0.25, 0.25, 0.25 }, log_uniform = { 0.4307, 0.2519, 0.1787, 0.1386 }, fixed_unigram = { 0.1, 0.2, 0.3, 0.4 } } do
      local opts = name == 'fixed_unigram' and { unigrams = unigrams } or nil
      local ids, of_true, of_ids = df.nn[name .. '_candidate_sampler'](df.int64{ { 0, 3 } }, 2, 4000, false, 4, opts)
      local r = df.run{ ids, of_true, df.gather(of_ids, 0), df.gather(of_true, 0) }
      assert.equal('int64', r[1].dtype)
      local counts = { 0, 0, 0, 0 }
      for i = 0, 3999 do counts[r[1]:at(i) + 1] = counts[r[1]:at(i) + 1] + 1 end
      for k = 1, 4 do near(counts[k] / 4000, p[k], { atol = 0.03, what = name }) end
      near(r[2], { { 4000 * p[1], 4000 * p[4] } }, { rtol = 1e-3 })
    end
  end)

  it('draws different classes when asked to, and says how many draws that took', function()
    for _, n in ipairs{ 3, 20 } do
      local ids, of_true, of_ids = df.nn.log_uniform_candidate_sampler(df.int64{ { 0 } }, 1, n, true, 20)
      for _ = 1, 5 do
        local r = df.run{ ids, of_true, of_ids }
        local seen = {}
        for i = 0, n - 1 do
          local id = r[1]:at(i)
          assert.is_true(id >= 0 and id < 20 and not seen[id])
          seen[id] = true
          -- 1 - (1 - p) ^ tries, with the same tries for all
          local function p(k) return math.log((k + 2) / (k + 1)) / math.log(21) end
          if n == 3 then
            local once = math.abs(r[2]:at(0, 0) - 3 * p(0)) < 1e-4       -- each draw was a new one
            local tries = once or math.log(1 - r[2]:at(0, 0)) / math.log(1 - p(0))
            near(r[3]:at(i), once and 3 * p(id) or 1 - (1 - p(id)) ^ tries, { rtol = 0.02 })
          end
        end
      end
    end
    local r = df.run{ df.nn.uniform_candidate_sampler({ 1 }, 1, 6, true, 6) }
    local sum = 0
    for i = 0, 5 do sum = sum + r[1]:at(i) end
    assert.equal(15, sum)
  end)

  it('learns what is met', function()
    local ids, of_true = df.nn.learned_unigram_candidate_sampler(df.int64{ { 2 } }, 1, 1, false, 4)
    near(df.run{ ids, of_true }[2], { { 0.25 } })
    near(df.run{ ids, of_true }[2], { { 2 / 5 } })
    near(df.run(of_true), { { 3 / 6 } })
    assert.matches('2 different classes are asked for, but there are only 1', message_of(df.nn.uniform_candidate_sampler, { 0 }, 1, 2, true, 1))
    assert.matches('unigrams is missing', message_of(df.nn.fixed_unigram_candidate_sampler, { 0 }, 1, 2, true, 5))
    assert.matches('unique is true or false', message_of(df.nn.uniform_candidate_sampler, { 0 }, 1, 2, 1, 5))
  end)
end)

describe('a loss', function()
  it('is what TensorFlow makes it, with weights', function()
    local y, p = df.cast(constant({ 4, 3 }, 1):gt(0), 'float32'), constant({ 4, 3 }, 2, 2)
    local q, w = df.softmax(constant({ 4, 3 }, 3)), constant({ 4, 1 }, 4)
    local n = df.nn
    local onehot = df.one_hot(df.int32{ 0, 2, 1, 1 }, 3)
    near(df.run{
      mean_squared_error = n.mean_squared_error(y, p), absolute_difference = n.absolute_difference(y, p, { weights = w }),
      huber_loss = n.huber_loss(y, p, { weights = w, delta = 0.7 }), hinge_loss = n.hinge_loss(y, p), log_loss = n.log_loss(y, q, { weights = w }),
      sigmoid_cross_entropy = n.sigmoid_cross_entropy(y, p, { weights = w, label_smoothing = 0.2 }),
      softmax_cross_entropy = n.softmax_cross_entropy(onehot, p, { label_smoothing = 0.1 }), cosine_distance = n.cosine_distance(y, p),
      sparse_softmax_cross_entropy = n.sparse_softmax_cross_entropy({ 0, 2, 1, 1 }, p, { weights = { 1, 0, 2, 1 } }),
      kl_divergence = n.kl_divergence(df.softmax(p), q),
    }, expected.losses, { rtol = 1e-4 })
  end)

  it('is reduced as it is told, and says what does not fit', function()
    local y, p = df.float32{ { 0, 0 }, { 0, 0 } }, df.float32{ { 1, 2 }, { 3, 4 } }
    local function mse(o) return df.run(df.nn.mean_squared_error(y, p, o)) end
    near(mse{ reduction = 'none' }, { { 1, 4 }, { 9, 16 } })
    near(mse{ reduction = 'sum' }, 30)
    near(mse{ weights = { 0, 2 } }, 25)
    near(mse{ weights = { 0, 2 }, reduction = 'mean' }, 12.5)
    near(mse{ weights = 0 }, 0)
    assert.matches('the labels are float32%[2,2%], the predictions float32%[3%]', message_of(df.nn.huber_loss, y, df.ones{ 3 }))
    assert.matches("reduction is", message_of(df.nn.hinge_loss, y, p, { reduction = 'max' }))
  end)
end)

describe('a metric', function()
  it('takes bare booleans and bare numbers for yes and no', function()
    local m = df.nn.metrics
    for _, given in ipairs{ { { 1, 0, 1, 1 }, { 1, 1, 1, 0 } }, { { 2.5, 0, -1, 0.5 }, { 1, 1, 1, 0 } },
                            { { true, false, true, true }, { true, true, true, false } }, { { true, false, true, true }, { 3, 1, 1, 0 } } } do
      for _, name in ipairs{ 'precision', 'recall' } do
        local _, update = m[name](given[1], given[2])
        near(df.run(update), 2 / 3)
      end
    end
  end)

  it('adds up over runs what TensorFlow adds up', function()
    local y, p, w = df.placeholder('bool', { 8 }), df.placeholder('float32', { 8 }), df.placeholder('float32', { 8 })
    local m = df.nn.metrics
    local values, updates, resets = {}, {}, {}
    for name, of in pairs{
      mean = { m.mean(p, { weights = w }) }, accuracy = { m.accuracy(y, p:gt(0.5)) }, precision = { m.precision(y, p:gt(0.5), { weights = w }) },
      recall = { m.recall(y, p:gt(0.5)) }, auc = { m.auc(y, p) }, auc_pr = { m.auc(y, p, { weights = w, curve = 'PR' }) },
      mean_squared_error = { m.mean_squared_error(df.cast(y, 'float32'), p) },
    } do
      values[name], updates[name] = of[1], of[2]
      resets[#resets + 1] = of[3]
    end
    for _ = 1, 2 do
      local last
      for k = 1, 3 do
        local labels, a, b = {}, numbers({ 8 }, k), numbers({ 8 }, k + 10)
        for i = 1, 8 do labels[i] = a:at(i - 1) > 0.1 end
        last = df.run(updates, { [y] = labels, [p] = df.run(df.constant(b) * 0.5 + 0.5), [w] = df.run(df.abs(constant({ 8 }, k + 20))) })
      end
      near(df.run(values), expected.metrics, { rtol = 1e-4 })
      near(last, expected.metrics, { rtol = 1e-4 })
      df.run(resets)
      near(df.run(values.mean), 0)
    end
  end)

  it('is of weights that are one number, one for each example, or of its shape, as losses are; of others it says so', function()
    local m, values = df.nn.metrics, df.constant{ { 1.0, 2.0 }, { 3.0, 6.0 } }
    local function mean(weights) return df.run((select(2, m.mean(values, { weights = weights })))) end
    near({ mean(2), mean{ 1, 3 }, mean{ { 1 }, { 3 } }, mean{ { 1, 3 } }, mean{ { 0, 0 }, { 0, 1 } } }, { 3, 3.75, 3.75, 3.5, 6 })
    near(df.run(df.nn.mean_squared_error(values, values * 0, { weights = { 1, 3 } })), (1 + 4 + 3 * 9 + 3 * 36) / 4)
    for _, wrong in ipairs{ { 1, 2, 3 }, { { 1, 2, 3 } }, { { { 1 } } } } do
      assert.matches('metrics.mean: the weights are float32%[.-%], the values float32%[2,2%]', message_of(mean, wrong))
      assert.matches('mean_squared_error: the weights are float32%[.-%], the losses float32%[2,2%]',
                     message_of(df.nn.mean_squared_error, values, values, { weights = wrong }))
    end
    local row = df.constant{ { 1.0, 2.0, 3.0 } }              -- what has one row is not weighted by two
    assert.matches('the weights are float32%[2,3%], the values float32%[1,3%]', message_of(m.mean, row, { weights = df.ones{ 2, 3 } }))
    assert.matches('the weights are float32%[3,1%], the values float32%[3%]', message_of(m.accuracy, df.int32{ 1, 2, 3 }, df.int32{ 1, 2, 3 }, { weights = df.ones{ 3, 1 } }))
  end)

  it('takes lists of numbers for true and false, as it does Outputs', function()
    for name, want in pairs{ precision = 2 / 3, recall = 1 } do
      local _, now = df.nn.metrics[name]({ 1, 0, 1, 0 }, { 0.3, 0.6, 7, 0 })
      near(df.run(now), want)
      _, now = df.nn.metrics[name]({ true, false, true, false }, { true, true, true, false })
      near(df.run(now), want)
    end
  end)

  it('is the perplexity of losses that count', function()
    local value, update = df.nn.metrics.perplexity({ 1.0, 2.0, 9.0 }, { weights = { 1, 1, 0 } })
    near(df.run(update), math.exp(1.5))
    near(df.run(value), math.exp(1.5))
  end)

  it('is the BLEU of a corpus', function()
    -- "the the the the the the the" against "the cat is on the mat": 2 of 7 words
    local words, match = df.nn.metrics.bleu({ { 1, 2, 3, 4, 1, 5, 0 } }, { { 1, 1, 1, 1, 1, 1, 1 } }, { reference_lengths = { 6 }, order = 1 })
    near(df.run(match), 2 / 7)
    near(df.run(words), 2 / 7)
    -- two sentences: of 1 and 2 words in a row 5 + 4 of 6 + 5, 3 + 1 of 5 + 4; shorter by 1 word than the references
    local r, c = { { 1, 2, 3, 4, 5, 6 }, { 7, 8, 9, 10, 11, 12 } }, { { 1, 2, 3, 4, 9, 6 }, { 7, 9, 10, 11, 8, 0 } }
    local _, both = df.nn.metrics.bleu(r, c, { candidate_lengths = { 6, 5 }, order = 2 })
    local p1, p2 = (5 + 5) / 11, (3 + 2) / 9
    near(df.run(both), math.sqrt(p1 * p2) * math.exp(1 - 12 / 11), { rtol = 1e-5 })
    local _, same = df.nn.metrics.bleu(r, r)
    near(df.run(same), 1)
    assert.matches('fewer than the order 4', message_of(df.nn.metrics.bleu, { { 1, 2 } }, { { 1, 2 } }))
    assert.matches("df.nn.metrics has no 'acuracy'; did you mean 'accuracy'", message_of(function() return df.nn.metrics.acuracy end))
  end)
end)
