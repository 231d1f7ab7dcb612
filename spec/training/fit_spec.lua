--- df.train.fit, and runs that stop at the first NaN.
local df = require 'dflow'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

local x, y = df.tensor({ { 1 }, { 2 }, { 3 }, { 4 } }, 'float32'), df.tensor({ { 3 }, { 5 }, { 7 }, { 9 } }, 'float32')

describe('fit', function()
  before_each(function() df.set_random_seed(1) end)

  it('trains a layer and tells how', function()
    local l, lines = df.nn.Dense(1), {}
    local h = df.train.fit(l, { x, y }, { epochs = 200, batch_size = 2, optimizer = df.train.Adam(0.1), progress = function(line) lines[#lines + 1] = line end,
                                          validation = { x, y } })
    near(df.run(l.kernel), { { 2 } }, { rtol = 1e-2 })
    near(h:predict{ { 10 } }, { { 21 } }, { rtol = 1e-2 })
    assert.equal(200, h.epochs)
    assert.equal(200, #h.loss)
    assert.equal(200, #h.validation.loss)
    assert.is_true(h.loss[200] < 1e-3 and h.loss[1] > 1)
    near(h:evaluate{ x, y }.loss, h.validation.loss[200])
    assert.matches('^epoch 1/200  loss %S+  validation loss %S+  %S+ s$', lines[1])
    assert.equal(200, #lines)
  end)

  it('ends at a loss that is no number where it is told to, and says where; else that is an error', function()
    local function opts(o) o.epochs, o.batch_size, o.optimizer, o.progress = 5, 2, df.train.SGD(1e30), false return o end
    local h = df.train.fit(df.nn.Dense(1), { x, y }, opts{ stop_on = 'nan' })
    assert.matches('^the loss is %a[%a ]+ in batch %d of epoch %d;', h.stopped)
    assert.is_true(h.epochs < 5)
    assert.matches('fit: the loss is %a[%a ]+ in batch', message_of(df.train.fit, df.nn.Dense(1), { x, y }, opts{}))
    assert.matches('fit: stop_on is .nan. or nothing, not the string "inf"', message_of(df.train.fit, df.nn.Dense(1), { x, y }, opts{ stop_on = 'inf' }))
  end)

  it('writes losses, the norm of the gradients and histograms of the weights, and trains to the same bits', function()
    local folder = os.tmpname()
    os.remove(folder)
    local function trained(summary)
      df.reset()
      df.set_random_seed(1)
      return df.train.fit(df.nn.Dense(1), { x, y }, { epochs = 3, batch_size = 2, progress = false, validation = { x, y }, summary = summary }).loss
    end
    assert.same(trained(nil), trained(folder))
    local reader = require('dflow.summary.events').reader(folder)
    reader:read()
    local run = reader.order[1]
    assert.equal(6, #run.scalars.loss)
    assert.equal(6, #run.scalars['gradient norm'])
    assert.is_true(run.scalars['gradient norm'][1].v > 0)
    assert.equal(3, #run.scalars['validation loss'])
    assert.equal(3, #run.histograms['dense/kernel'])
    for path in pairs(run.files) do os.remove(path) end
    os.remove(folder)
    assert.matches('fit: summary is a folder or a df.summary.FileWriter, not the number 3', message_of(trained, 3))
  end)

  it('takes tables for Tensors', function()
    local function losses(data)
      df.reset()
      df.set_random_seed(1)
      return df.train.fit(df.nn.Dense(1), data, { epochs = 3, batch_size = 2, progress = false }).loss
    end
    near(losses{ x:totable(), y:totable() }, losses{ x, y })
  end)

  it('knows classes by labels of whole numbers, and training from the rest', function()
    local drop = df.nn.Dropout(0.5)
    local model = df.nn.Sequential{ df.nn.Dense(8, { activation = df.tanh }), drop, df.nn.Dense(2) }
    local a, b = df.tensor{ { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } }:astype 'float32', df.tensor({ 0, 1, 1, 1 }, 'int32')
    local h = df.train.fit(model, { a, b }, { epochs = 300, optimizer = df.train.Adam(0.05), progress = false, batch_size = 4 })
    assert.equal(1, h:evaluate{ a, b }.accuracy)
    near(h:predict(a), h:predict(a, 3))
    assert.same({ 4, 2 }, h:predict(a, 3).shape)
  end)

  it('takes a pipeline, a function, a loss, metrics, and stops when nothing gets better', function()
    local w = df.Variable(0.0)
    local h = df.train.fit(function(v) return v * w end, df.data.pipeline{ x, y }:batch(2), {
      loss = 'absolute_difference', optimizer = df.train.SGD(0), epochs = 50, patience = 3, progress = false,
      metrics = { largest = function(labels, predictions) return df.reduce_max(df.abs(labels - predictions)) end } })
    assert.equal(4, h.epochs)
    assert.equal(1, h.best)
    near(h.loss, { 6, 6, 6, 6 })
    near(h.largest[1], (5 + 9) / 2)
  end)

  it('makes the next batch while a step runs, where batches take long', function()
    local function slow(n)
      return df.data.pipeline{ x, y }:map(function(a, b)
        local sum = 0
        for i = 1, n do sum = sum + i % 3 end
        return a, b
      end):batch(2)
    end
    local found = {}
    for k, data in ipairs{ slow(0), slow(60000) } do
      df.reset()
      df.set_random_seed(1)
      found[k] = df.train.fit(df.nn.Dense(1), data, { epochs = 5, optimizer = df.train.SGD(0.01), progress = false }).loss
    end
    near(found[2], found[1])
    local calls = 0
    local broken = df.data.pipeline{ x, y }:map(function(a, b)
      calls = calls + 1
      for _ = 1, 60000 do calls = calls + 0 end
      if calls == 4 then error('no such row', 0) end
      return a, b
    end):batch(1)
    assert.matches('no such row', message_of(df.train.fit, df.nn.Dense(1), broken, { progress = false }))
  end)

  it('says what is wrong', function()
    local function fails(words, ...) assert.matches(words, message_of(df.train.fit, ...), 1, true) end
    local l = df.nn.Dense(1)
    fails('two Tensors with equally many rows, or a pipeline', l, { x })
    fails('4 rows of x and 2 of y', l, { x, df.tensor{ 1, 2 } })
    fails('the model is the number 3', 3, { x, y })
    fails("did you mean 'mean_squared_error'", l, { x, y }, { loss = 'mean_squared_eror' })
    fails("did you mean 'epochs'", l, { x, y }, { epoch = 2 })
    fails('the optimizer is', l, { x, y }, { optimizer = 3 })
    for _, name in ipairs{ 'loss', 'validation', 'epochs', 'best', 'options', 'predict', 'evaluate' } do
      fails(("a metric cannot be called '%s'"):format(name), l, { x, y }, { metrics = { [name] = function(_, p) return p end } })
    end
    fails('the loss is infinite in batch 1 of epoch', l, { x, y }, { epochs = 99, optimizer = df.train.SGD(1e6), progress = false })
    fails('made a NaN', l, { x, y }, { loss = function(_, p) return df.log(p - 100) end, check_numerics = true, progress = false })
  end)
end)

describe('a run with check_numerics', function()
  it('ends at the first op that makes a NaN, and names it with its iteration', function()
    local v = df.placeholder('float32', { 2 })
    local _, r = df.while_loop(function(i) return i:lt(5) end, function(i, a) return i + 1, df.log(a) + 1 end, { df.int32(0), v })
    near(df.run(r, { [v] = { 3, 2 } }, { check_numerics = true }), df.run(r, { [v] = { 3, 2 } }))
    local e = support.error_of(df.run, r * 2, { [v] = { 3, 0.1 } }, { check_numerics = true })
    assert.equal('invalid_argument', e.code)
    assert.equal('while:1', e.frame)
    assert.matches('while/Log made a NaN', tostring(e))
    assert.matches('fit_spec%.lua:%d+', e.source)
    e = support.error_of(df.run, r, { [v] = { 3, 0 } }, { check_numerics = 'inf' })
    assert.equal('while:0', e.frame)
    assert.equal(3, df.run(df.int32(3)))
  end)

  it('changes nothing else', function()
    local w = df.Variable(4.0)
    local root = df.sqrt(w)
    assert.equal(2, df.run(root, nil, { check_numerics = true }))
    w:load(-1)
    assert.matches('Sqrt made a NaN', message_of(df.run, root, nil, { check_numerics = true }))
    assert.equal(-1, df.run(w))
    assert.matches("true or 'nan'", message_of(df.run, root, nil, { check_numerics = 'all' }))
  end)

  it('in the background pauses there, to be looked at, until it is waited for or asked whether it is done', function()
    local v = df.placeholder('float32')
    local y = df.log(v) + 1
    local h = df.start(y, { [v] = -1 }, { check_numerics = true })
    local stop = h:settle()
    assert.equal('Log', stop.op.type)
    assert.equal('Run (paused)', tostring(h))
    assert.equal('paused', h:state())
    assert.is_true(h:done())
    assert.matches('Log made a NaN', message_of(h.wait, h))
    assert.equal('invalid_argument', h.result.code)
    near(df.start(y, { [v] = 1 }, { check_numerics = true }):wait(), 1)
    h = df.start(y, { [v] = -1 }, { check_numerics = true, paused = true })
    assert.equal('paused', h:state())
    assert.is_false(h:done())
    h:resume()
    assert.matches('Log made a NaN', message_of(h.wait, h))
    h = df.start(df.log(v) + 1, { [v] = 0 }, { check_numerics = 'inf' })
    assert.matches('made a NaN or an infinity', message_of(h.wait, h))
    assert.matches("true or 'nan'", message_of(df.start, y, { [v] = 1 }, { check_numerics = 3 }))
  end)

  it('is the same where a trace is asked for, or batches are slow to make', function()
    local path = os.tmpname()
    local v = df.placeholder('float32')
    assert.matches('Log made a NaN', message_of(df.run, df.log(v), { [v] = -1 }, { check_numerics = true, trace = path }))
    local f = assert(io.open(path))
    assert.matches('"traceEvents"', f:read('*a'))
    f:close()
    os.remove(path)
    local slow = df.data.pipeline{ x, y }:map(function(a, b)
      for _ = 1, 3e5 do path = path .. '' end
      return a, b
    end):batch(1)
    local w = df.Variable(1.0)
    assert.matches('made a NaN', message_of(df.train.fit, function(a) return a * w end, slow, { epochs = 3, progress = false, check_numerics = true,
      optimizer = df.train.SGD(0.1), loss = function(_, p) return df.log(2.5 - df.reduce_max(p)) * 0 end }))
  end)
end)

describe('the last operation of a run', function()
  it('runs in the foreground, too, however the run ends', function()
    local w, v = df.Variable(1.0), df.placeholder('float32')
    local ok = df.assert(v:gt(0), { v }, { message = 'too small' })
    local last = w:assign_add(1)
    near(df.run(v * 2, { [v] = 3 }, { finally = last.op }), 6)
    near(df.run(w), 2)
    assert.matches('too small', message_of(df.run, ok, { [v] = -1 }, { finally = last.op }))
    near(df.run(w), 3)
    assert.matches('an operation of the session', message_of(df.run, v, { [v] = 3 }, { finally = 3 }))
    assert.matches('the run is paused', message_of(df.run, v * 2, { [v] = 3 }, { paused = true }))
    near(df.run(w), 3)
  end)
end)

describe('fit', function()
  it('refuses options of a wrong kind, and says which', function()
    local data = { df.tensor({ { 1 }, { 2 } }, 'float32'), df.tensor({ { 1 }, { 2 } }, 'float32') }
    for _, wrong in ipairs{ { 'seed', -1 }, { 'seed', 1.5 }, { 'seed', 'x' }, { 'shuffle', 1 }, { 'epochs', 0 }, { 'epochs', 1.5 }, { 'batch_size', 0 },
                            { 'batch_size', 'all' }, { 'patience', 0 }, { 'patience', true }, { 'progress', 1 }, { 'metrics', 3 }, { 'optimizer', 'Adam' },
                            { 'optimizer', {} }, { 'loss', 3 }, { 'loss', 'nope' } } do
      local ok, e = pcall(df.train.fit, df.nn.Dense(1), data, { epochs = 1, progress = false, [wrong[1]] = wrong[2] })
      assert.is_false(ok, wrong[1])
      assert.equal('invalid_argument', e.code)
      assert.is_truthy(e.message:find('fit: ', 1, true) and e.message:find(wrong[1], 1, true), e.message)
    end
  end)
end)
