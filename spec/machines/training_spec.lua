--- Training over ranks: fit that goes on after a rank is lost, replicas of which the slowest are left out, checkpoints of several ranks.
local df = require 'dflow'
local shell = require 'spec.shell'

local error_of = require('spec.support').raised

local function kill(rank) os.execute(('kill -KILL %d'):format(df.cluster.ranks()[rank + 1].pid)) end

local function remove(path)
  os.remove(path)
  os.remove(path .. '.index.json')
end

--- Rows of a function, and a pipeline of batches of them that calls `each(n)` before the n-th row that it gives of all epochs.
local function data(each)
  local rows, labels = {}, {}
  for i = 1, 40 do
    rows[i] = { math.sin(i), math.cos(3 * i), (i % 7) / 7 }
    labels[i] = { rows[i][1] * 0.5 - rows[i][2] + rows[i][3] }
  end
  local x, y = df.tensor(rows, 'float32'), df.tensor(labels, 'float32')
  if not each then return { x, y } end
  local n = 0
  return df.data.pipeline{ x, y }:shuffle(40, 3):map(function(a, b)
    n = n + 1
    each(n)
    return a, b
  end):batch(8)
end

--- fit of a small net with dropout, whose second layer is on another rank where there is one.
local function fit(given, opts)
  df.reset()
  df.set_random_seed(5)
  local place = df.cluster.size > 1 and '/rank:1/cpu:0' or 'cpu:0'
  local first, second = df.nn.Dense(8, { activation = df.tanh }), nil
  df.device(place, function() second = df.nn.Dense(1) end)
  local function model(x, training)
    local h = first(x)
    return df.device(place, function() return second(training and df.dropout(h, { keep_prob = 0.8 }) or h) end)
  end
  local o = { epochs = 4, optimizer = df.train.Adam(0.02), progress = false, metrics = { error = function(a, b) return df.reduce_mean(df.abs(a - b)) end } }
  for k, v in pairs(opts or {}) do o[k] = v end
  local h = df.train.fit(model, given, o)
  return { h.loss, h.error, h.best, h.epochs, df.run(first.kernel):totable(), df.run(second.kernel):totable(), df.run(second.bias):totable() }
end

describe('fit with a checkpoint', function()
  local path
  before_each(function()
    path = os.tmpname()
    os.remove(path)
  end)
  after_each(function()
    remove(path)
    df.cluster.stop()
  end)

  it('goes on after a rank was killed, to the bits of a run that nothing disturbed, and reads no row twice', function()
    df.cluster.start(3)
    local whole = fit(data(function() end))
    for _, steps in ipairs{ 3, 100 } do
      remove(path)
      local killed, said = false, {}
      local got = fit(data(function(n)
        if n == 90 and not killed then
          killed = true
          kill(1)
        end
      end), { checkpoint = path, checkpoint_steps = steps, restarts = 1, progress = function(line) said[#said + 1] = line end })
      assert.is_true(killed)
      assert.same(whole, got)
      assert.matches('rank 1 .* was killed by signal 9.*; on from step %d+', table.concat(said, ' '))
    end
  end)

  it('is gone on with by the next process, in the middle of an epoch and with another number of ranks', function()
    local whole = fit(data())
    local stop = { code = 'cancelled' }
    local err = error_of(function()
      fit(data(), { checkpoint = path, checkpoint_steps = 2, metrics = { error = function(a, b)
        local n = df.lua_func(function(v) return v end, { df.reduce_mean(df.abs(a - b)) }, { 'float32' })
        return n
      end }, progress = function() error(stop, 0) end })
    end)
    assert.equal(stop, err)
    df.cluster.start(2)
    local got = fit(data(), { checkpoint = path })
    assert.same(whole, got)
    assert.same(whole, fit(data(), { checkpoint = path }))          -- there is nothing left to do
  end)

  it('gives up after so many restarts, and says what does not go together', function()
    df.cluster.start(2)
    local err = error_of(function() fit(data(function(n) if n % 50 == 0 then kill(1) end end), { checkpoint = path, restarts = 1, epochs = 50 }) end)
    assert.equal('unavailable', err.code)
    assert.equal(1, err.rank)
    df.cluster.stop()
    remove(path)
    assert.equal('invalid_argument', error_of(function() fit(data(), { restarts = 2 }) end).code)
    fit(data(), { checkpoint = path, epochs = 1 })
    err = error_of(function() fit(data(), { checkpoint = path, batch_size = 16 }) end)
    assert.equal('failed_precondition', err.code)
    assert.is_truthy(err.message:find 'batch_size 32' and err.message:find 'batch_size 16')
    df.save(path)
    assert.is_truthy(error_of(function() fit(data(), { checkpoint = path }) end).message:find 'no checkpoint of fit')
  end)
end)

describe('replicate over ranks', function()
  before_each(function() df.cluster.start(4) end)
  after_each(function() df.cluster.stop() end)

  --- Replica k's loss pulls w to k; that of a slow one takes for ever, or as good as.
  local function replicas(w, slow, opts)
    return df.train.replicate({ '/rank:1/cpu:0', '/rank:2/cpu:0', '/rank:3/cpu:0' }, function(k)
      local target = df.constant(k + 0.0)
      local turns = df.while_loop(function(i) return i:lt(k == slow and 2000000000 or 3) end, function(i)
        return df.cond(df.equal(i % 2, 7), function() return i end, function() return i + 1 end)
      end, { df.int32(0) }, { back_prop = false })
      return df.control_dependencies({ turns }, function() return (w - target) * (w - target) end)
    end, opts)
  end

  it('takes a step without the slowest, which is told to end, and takes part in later steps', function()
    local w = df.Variable(10.0, { name = 'w' })
    local model = replicas(w, 3, { optimizer = df.train.SGD(0.25), backup = 1 })
    local x = 10
    for _ = 1, 5 do
      local began = os.time()
      local got = df.run{ loss = model.loss, step = model.step }
      assert.is_true(os.time() - began < 20)
      assert.is_true(math.abs(got.loss - ((x - 1) ^ 2 + (x - 2) ^ 2) / 2) < 1e-3)
      x = x - 0.25 * 2 * (x - 1.5)
      assert.is_true(math.abs(df.run(w) - x) < 1e-4)
    end
    local y = df.device('/rank:3/cpu:0', function() return w * 2 end)
    assert.is_true(math.abs(df.run(y) - 2 * x) < 1e-4)
    for _, r in ipairs(df.cluster.ranks()) do assert.equal('alive', r.state) end
  end)

  it('takes all but so many, in the order in which they come, and refuses to drop all', function()
    local w = df.Variable(10.0, { name = 'w' })
    local model = replicas(w, nil, { optimizer = df.train.SGD(0.25), backup = 2 })
    local x = 10
    for _ = 1, 20 do
      df.run(model.step)
      local now, one = df.run(w), false
      for k = 1, 3 do one = one or math.abs(now - (x - 0.5 * (x - k))) < 1e-4 end
      assert.is_true(one)
      x = now
    end
    for _, o in ipairs{ { backup = 3 }, { backup = -1 }, { backup = 1, mode = 'async' } } do
      o.optimizer = df.train.SGD(0.1)
      assert.equal('invalid_argument', error_of(function() replicas(w, nil, o) end).code)
    end
  end)

  it('trains asynchronously, workers at their own pace, with variables on a parameter server', function()
    df.cluster.jobs{ ps = { 3 }, worker = { 1, 2 } }
    local w = df.device('/job:ps/task:0/cpu:0', function() return df.Variable({ 0.0, 0 }, { name = 'w' }) end)
    local steps = df.device('/job:ps/task:0/cpu:0', function() return df.Variable(df.int32(0), { name = 'steps', trainable = false }) end)
    local model = df.train.replicate({ '/job:worker/task:0/cpu:0', '/job:worker/task:1/cpu:0' }, function(k)
      local e = w:value() - df.constant{ 3.0, k + 0.0 }
      return df.reduce_sum(e * e)
    end, { optimizer = df.train.SGD(0.02), mode = 'async' })
    local counted = {}
    for k, step in ipairs(model.step) do
      counted[k] = df.control_dependencies({ step }, function() return steps:assign_add(1) end)
    end
    local running = {}
    for n = 1, 80 do
      for k = 1, 2 do
        if running[k] then running[k]:wait() end
        running[k] = df.start(counted[k])
      end
      if n % 20 == 0 then running[1]:wait() end
    end
    for k = 1, 2 do running[k]:wait() end
    local at = df.run(w)
    assert.equal(160, df.run(steps))
    assert.is_true(math.abs(at:at(0) - 3) < 0.05 and at:at(1) > 1.2 and at:at(1) < 1.8)
    df.cluster.jobs(nil)
  end)

  it('runs a graph of TensorFlow 1 as it is placed: reference variables on a parameter server, a loop on workers', function()
    df.cluster.jobs{ ps = { 3 }, worker = { 1, 2 } }
    local server, workers = '/job:ps/task:0', { '/job:worker/task:0', '/job:worker/task:1' }
    local T, dtype = 'attr { key: "T" value { type: DT_FLOAT } } ', 'attr { key: "dtype" value { type: DT_FLOAT } } '
    local function node(name, op, device, inputs, attrs)
      return ('node { name: "%s" op: "%s" device: "%s" %s %s }\n'):format(name, op, device, inputs:gsub('%S+', 'input: "%0"'), attrs or T)
    end
    local function enter(name, device, input, constant)
      return node(name, 'Enter', device, input, T .. 'attr { key: "frame_name" value { s: "f" } } attr { key: "is_constant" value { b: '
        .. tostring(constant) .. ' } } attr { key: "parallel_iterations" value { i: 10 } }')
    end
    local function const(name, device, value)
      return node(name, 'Const', device, '', dtype .. ('attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: %g } } }'):format(value))
    end
    local g = df.import_graph_def(table.concat{
      node('w', 'VariableV2', server, '', dtype .. 'attr { key: "shape" value { shape { } } }'),
      const('one', server, 1), const('limit', workers[2], 50),
      node('init', 'Assign', server, 'w one'), node('all', 'NoOp', workers[1], '^init', ''), node('read', 'Identity', server, 'w'),
      enter('e', workers[1], 'read', false), enter('k', workers[1], 'read', true), enter('most', workers[2], 'limit', true),
      node('m', 'Merge', workers[1], 'e next', T .. 'attr { key: "N" value { i: 2 } }'), node('lt', 'Less', workers[2], 'm most'),
      node('lc', 'LoopCond', workers[2], 'lt', ''), node('s', 'Switch', workers[1], 'm lc'), node('add', 'Add', server, 's:1 k'),
      node('next', 'NextIteration', workers[1], 'add'), node('x', 'Exit', workers[1], 's'), node('up', 'AssignSub', server, 'w x'),
    })
    local s = df.Session{ graph = g }
    local function fetch(name) return s:run(g:output(name .. ':0')) end
    assert.equal('failed_precondition', error_of(fetch, 'w').code)
    s:run(g:op 'all')
    assert.equal(1, fetch 'w')
    assert.equal(1, fetch 'init')
    assert.equal(50, fetch 'x')
    assert.equal(-49, fetch 'up')
    assert.equal(-49, fetch 'w')
    assert.equal(-49, fetch 'read')
    s:close()
    df.cluster.jobs(nil)
  end)
end)

describe('a checkpoint by rank', function()
  after_each(function() df.cluster.stop() end)

  it('has a file for each rank, and is restored on any number of ranks', function()
    local path = os.tmpname()
    os.remove(path)
    local function variables(ranks, value)
      df.reset()
      local list = {}
      for k = 1, 5 do
        list[k] = df.device(('/rank:%d/cpu:0'):format(k % ranks), function()
          return df.Variable(df.fill({ k, 2 }, df.float32(value * k)), { name = 'v' .. k })
        end)
      end
      return list
    end
    df.cluster.start(3)
    local list = variables(3, 1.5)
    df.run(list)
    local index = df.save(path, { by_rank = true })
    local files = {}
    for file in shell.read(index):gmatch '"v%d": "([^"]+)"' do files[file] = (files[file] or 0) + 1 end
    local counts = {}
    for _, n in pairs(files) do counts[#counts + 1] = n end
    table.sort(counts)
    assert.same({ 1, 2, 2 }, counts)
    for _, ranks in ipairs{ 1, 2, 4 } do
      df.cluster.stop()
      df.cluster.start(ranks)
      list = variables(ranks, 0)
      assert.equal(5, #df.restore(index))
      for k = 1, 5 do assert.equal(1.5 * k * 2 * k, df.run(df.reduce_sum(list[k]))) end
    end
    assert.equal('invalid_argument', error_of(function() df.save(path, { by_rank = 3 }) end).code)
    require('dflow.train.shards').remove(index)
  end)
end)

describe('examples/digits_ranks.lua', function()
  it('learns the same on one rank and on three', function()
    local function says(ranks)
      local r = shell.run(('%s examples/digits_ranks.lua ranks=%d epochs=5'):format(shell.dflow, ranks))
      assert.equal(0, r.status, r.err)
      return tonumber(r.out:match 'loss ([%d.]+)'), tonumber(r.out:match '([%d.]+) %% of the held'), r.out
    end
    local loss1, right1 = says(1)
    local loss3, right3, text = says(3)
    assert.is_true(right1 > 85 and math.abs(right1 - right3) < 3 and math.abs(loss1 - loss3) < 0.02)
    assert.is_truthy(text:find 'rank 2 took %d+ messages')
  end)
end)
