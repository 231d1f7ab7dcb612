--- Synchronous replicas, queue runners and their coordinator.
local df = require 'dflow'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

describe('synchronous replicas', function()
  local rows = { { 1.0, 2.0 }, { 3.0, 4.0 }, { 8.0, 6.0 } }

  it('step together, as one of all their data would', function()
    local w, v, data = df.Variable({ 0.0, 0.0 }), df.Variable({ 0.0, 0.0 }), df.constant(rows)
    local o = df.train.synchronous(function(replica) return df.reduce_sum(df.square(w - data[replica - 1])) end,
                                   { replicas = 3, steps = 7, optimizer = df.train.Adam(0.1), variables = { w } })
    local got = df.run(o)
    assert.same({ 7, 0 }, { got.steps, got.late })
    near(got.looks, { 7, 7, 7 })
    local step = df.train.Adam(0.1):minimize(df.reduce_sum(df.square(v - data)) / 3, { v })
    for _ = 1, 7 do df.run(step) end
    near(df.run(w), df.run(v), { rtol = 1e-6 })
    assert.equal(7, df.run(o.steps))                         -- it may be run again
    assert.is_true(math.abs(df.run(w):at(0) - df.run(v):at(0)) > 0.1)
  end)

  it('do without the late ones, and drop what these send', function()
    local w, steps = df.Variable(0.0), 8
    local gate, begun = df.FIFOQueue(-1, 'int64', { shapes = { {} } }), df.FIFOQueue(-1, 'int64', { shapes = { {} } })
    local o = df.train.synchronous(function(replica, step)
      if replica == 1 then                              -- says which step it is at; in two of them it waits for the fourth
        return df.control_dependencies({ gate:enqueue(step) }, function()
          local heard = df.cond(df.logical_or(step:eq(1), step:eq(3)), function() return begun:dequeue() end, function() return df.int64(0) end)
          return df.control_dependencies({ heard }, function() return df.square(w - 3) end)
        end)
      elseif replica == 4 then                          -- waits until the others are a step further: all that it sends is late, and wrong
        local last = step:ge(steps - 1)
        return df.control_dependencies({ begun:enqueue(step) }, function()
          local on = df.cond(last, function() return step end, function()
            return df.while_loop(function(s) return s:le(step) end, function() return gate:dequeue() end, { df.int64(-1) }, { back_prop = false })
          end)
          return df.control_dependencies({ on }, function() return df.square(w - df.where(last, 3.0, 1000.0)) end)
        end)
      end
      return df.square(w - 3)
    end, { replicas = 4, backup = 1, steps = steps, optimizer = df.train.SGD(0.1) })
    local got = df.run(o, nil, { timeout = 60 })
    assert.equal(steps, got.steps)
    local expected = 0
    for _ = 1, steps do expected = expected - 0.1 * 2 * (expected - 3) end
    near(df.run(w), expected, { rtol = 1e-5 })
    assert.is_true(got.late >= 1)
    local looks = got.looks:totable()
    assert.is_true(got.late <= looks[4])
    assert.is_true(looks[4] >= 2)
  end)

  it('end with the last step where a replica never answers, whatever it waits for', function()
    local function train(wait, options)
      local w, s = df.Variable(0.0), df.Session(options)
      local o = df.train.synchronous(function(replica)
        local seen = w:value()
        if replica == 2 then seen = wait(seen) end
        return df.square(seen - 3)
      end, { replicas = 3, backup = 1, steps = 4, optimizer = df.train.SGD(0.1), variables = { w } })
      for _, run in ipairs{ function() return s:run(o) end, function() return s:start(o):wait() end } do
        s:init()
        local got = run()
        assert.equal(4, got.steps)
        assert.same({ 4, 0, 4 }, got.looks:totable())
        near(s:run(w), 3 - 3 * 0.8 ^ 4, { rtol = 1e-5 })
      end
      s:close()
    end
    local empty = df.FIFOQueue(1, 'float32', { shapes = { {} } })
    train(function(x) return x + empty:dequeue() end)
    train(function(x)
      local _, y = df.while_loop(function(n) return n:lt(2) end, function(n, y)
        return n + 1, y + empty:dequeue()
      end, { df.int32(0), x })
      return y
    end)
    df.reset()
    train(function(x) return df.device('sim:0', function() return x * 1 end) end,
          { devices = { 'cpu:0', { 'sim:0', link_stall_at = 1 } } })
  end)

  it('end with what goes wrong in one of them', function()
    local w = df.Variable(0.0)
    local o = df.train.synchronous(function(replica, step)
      local ok = df.assert(step:lt(replica == 2 and 5 or 100), { step }, { message = 'replica two broke' })
      return df.control_dependencies({ ok }, function() return df.square(w - 3) end)
    end, { replicas = 2, steps = 50, optimizer = df.train.SGD(0.1) })
    assert.matches('replica two broke %[5%]', message_of(df.run, o))
    local function fails(words, ...) assert.matches(words, message_of(df.train.synchronous, ...), 1, true) end
    fails('must be less than the 2 replicas', function() return w end, { backup = 2, steps = 1, optimizer = df.train.SGD(1) })
    fails('steps is missing', function() return w end, { optimizer = df.train.SGD(1) })
    fails('the optimizer is', function() return w end, { steps = 1 })
    fails('returned nil', function() end, { steps = 1, optimizer = df.train.SGD(1) })
  end)
end)

--- What a coordinator's run gives until it ends, as one text.
local function all(c, x)
  local list = {}
  while #list < 100 do
    local ok, v = pcall(c.run, c, x)
    list[#list + 1] = ok and ('%d'):format(v) or v.code or tostring(v)
    if not ok then break end
  end
  return list
end

describe('queue runners', function()
  it('fill a queue in the background and close it at the end', function()
    local q = df.FIFOQueue(3, 'int32', { shapes = { {} } })
    df.train.QueueRunner(q, function(i) return q:enqueue(i * i) end, { steps = 5 })
    local c = df.train.start_queue_runners()
    assert.equal('0 1 4 9 16 out_of_range', table.concat(all(c, q:dequeue()), ' '))
    c:join()
    assert.is_true(c:should_stop())
  end)

  it('end with their source, several loops together', function()
    local a, b = df.FIFOQueue(2, 'int32', { shapes = { {} } }), df.FIFOQueue(2, 'int32', { shapes = { {} } })
    df.train.QueueRunner(a, function(i) return a:enqueue(i) end, { steps = 20 })
    df.train.QueueRunner(b, function() return b:enqueue(a:dequeue() * 10) end, { loops = 3 })
    local c = df.train.start_queue_runners()
    local list = all(c, b:dequeue())
    assert.equal('out_of_range', table.remove(list))
    for i, v in ipairs(list) do list[i] = tonumber(v) end
    table.sort(list)
    local expected = {}
    for i = 1, 20 do expected[i] = 10 * (i - 1) end
    assert.same(expected, list)
    c:join()
  end)

  it('say what went wrong in them to the run, and to join', function()
    local q = df.FIFOQueue(3, 'int32', { shapes = { {} } })
    df.train.QueueRunner(q, function(i)
      local ok = df.assert(i:lt(3), { i }, { message = 'a bad sample' })
      return df.control_dependencies({ ok }, function() return q:enqueue(i) end)
    end)
    local c, x = df.train.start_queue_runners(), q:dequeue()
    local message
    for _ = 1, 5 do
      local ok, e = pcall(c.run, c, x)
      if not ok then
        message = tostring(e)
        break
      end
    end
    assert.matches('a bad sample %[3%]', message)
    assert.is_true(c:should_stop())
    assert.matches('a bad sample', message_of(c.join, c))
  end)

  it('end when the coordinator is asked to, though they would go on for ever', function()
    local q = df.FIFOQueue(3, 'int32', { shapes = { {} } })
    df.train.QueueRunner(q, function(i) return q:enqueue(i) end, { loops = 2 })
    local c, x = df.train.Coordinator(), q:dequeue()
    assert.equal(2, c:start())
    for _ = 1, 5 do c:run(x) end
    assert.is_false(c:should_stop())
    c:join()
    assert.is_true(c:should_stop())
    local ends = df.FIFOQueue(3, 'int32', { shapes = { {} } })
    local r = df.train.QueueRunner(ends, function(i)
      return df.control_dependencies({ ends:enqueue(i) }, function() return i:lt(3) end)
    end)
    c = df.train.Coordinator()
    c:start(r)
    assert.equal('0 1 2 3 out_of_range', table.concat(all(c, ends:dequeue()), ' '))
  end)

  it('are waited for together: the timeout of join is that of all', function()
    local core, x = require 'dflow.backend', df.Variable(1.0)
    local q = df.FIFOQueue(3, 'int32', { shapes = { {} } })
    local without_end = { name = 'endless', back_prop = false }
    df.train.QueueRunner(q, function(i)
      return q:enqueue(df.while_loop(function(a) return a:ge(0) end, function(a) return df.cast(x * 0, 'int32') + a end, { i }, without_end))
    end, { loops = 3 })
    local c, clock, asked = df.train.start_queue_runners(), core.clock, 0
    core.clock = function()
      asked = asked + 1
      return asked
    end
    local text = message_of(c.join, c, { timeout = 4 })
    core.clock = clock
    assert.matches('did not end within 4 seconds', text)
    assert.is_true(asked <= 4 + 3 + 1)
  end)

  it('refuse what they cannot run', function()
    local q = df.FIFOQueue(3, 'int32')
    assert.matches('takes a queue first', message_of(df.train.QueueRunner, 3))
    assert.matches('function that builds an enqueue', message_of(df.train.QueueRunner, q, 3))
    assert.matches('no queue runners', message_of(df.train.start_queue_runners))
  end)

  it('close their queue by the operation that a run was given as its last', function()
    local q = df.FIFOQueue(3, 'int32', { shapes = { {} } })
    local s = df.Session()
    local h = s:start(q:enqueue(1), nil, { finally = q:close() })
    h:wait()
    assert.is_true(s:run(q:is_closed()))
    assert.matches('an operation of the session', message_of(s.start, s, q:size(), nil, { finally = 3 }))
  end)
end)
