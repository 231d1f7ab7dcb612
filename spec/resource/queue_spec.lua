--- Queues: what runs of one session hand each other, and wait for.
local df = require 'dflow'
local support = require 'spec.support'
local same, message_of = support.same, support.message_of

--- The code of the error that fn raises.
local function code_of(fn, ...)
  local ok, e = pcall(fn, ...)
  assert(not ok, 'no error was raised')
  return e.code
end

--- Waits until fn gives true.
local function eventually(fn)
  local began = os.time()
  while not fn() do
    if os.time() - began > 20 then error('it never came true', 2) end
  end
end

--- Some time passes, in which runs in the background go on.
local function pause()
  local idle = df.FIFOQueue(1, 'int32')
  pcall(df.run, idle:dequeue(), nil, { timeout = 0.05 })
end

--- Everything a queue holds, one by one.
local function drain(q)
  local list, next_one = {}, q:dequeue()
  for i = 1, df.run(q:size()) do list[i] = df.run(next_one) end
  return list
end

describe('a FIFOQueue', function()
  it('gives what was put in, in order, over many runs', function()
    local q = df.FIFOQueue(10, 'float32', { shapes = {} })
    local x = df.placeholder('float32', {})
    local put, get = q:enqueue(x), q:dequeue()
    for i = 1, 10 do assert.is_true(df.run(put, { [x] = i })) end
    same(df.run(q:size()), 10)
    for i = 1, 10 do same(df.run(get), i) end
    same(df.run(q:size()), 0)
  end)

  it('has elements of several components, each of its dtype and shape', function()
    local q = df.FIFOQueue(4, { 'int32', 'float32', 'string', 'bool' }, { shapes = { {}, { 2 }, {}, { 1, 1 } } })
    df.run(q:enqueue(7, { 1, 2 }, 'seven', { { true } }))
    local i, f, s, b = q:dequeue()
    assert.same({ 'int32', 'float32', 'string', 'bool' }, { i.dtype, f.dtype, s.dtype, b.dtype })
    assert.same({ {}, { 2 }, {}, { 1, 1 } }, { i.shape, f.shape, s.shape, b.shape })
    same(df.run{ i, f, s, b }, { 7, { 1, 2 }, 'seven', { { true } } })
  end)

  it('holds tensors of any shape when none is given, and then gives them one by one only', function()
    local q = df.FIFOQueue(-1, 'float32')
    df.run(q:enqueue({ 1, 2, 3 }))
    df.run(q:enqueue({ { 4 } }))
    df.run(q:enqueue(5))
    local x = q:dequeue()
    assert.is_nil(x.shape)
    same({ df.run(x), df.run(x), df.run(x) }, { { 1, 2, 3 }, { { 4 } }, 5 })
    assert.matches('made without shapes', message_of(q.dequeue_many, q, 2))
  end)

  it('takes rows by enqueue_many and gives batches by dequeue_many', function()
    local q = df.FIFOQueue(10, { 'int32', 'string', 'complex64' }, { shapes = { { 2 }, {}, {} } })
    df.run(q:enqueue_many({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, { 'a', 'b', 'c' }, { { re = 1, im = 1 }, { re = 2, im = 0 }, { re = 3, im = 0 } }))
    local a, b = q:dequeue_many(2)
    assert.same({ { 2, 2 }, { 2 } }, { a.shape, b.shape })
    same(df.run{ a, b }, { { { 1, 2 }, { 3, 4 } }, { 'a', 'b' } })
    local x, y = q:dequeue()
    same(df.run{ x, y }, { { 5, 6 }, 'c' })
  end)

  it('takes no rows, and gives batches of none', function()
    local q = df.FIFOQueue(10, 'float32', { shapes = { { 2, 3 } } })
    df.run(q:enqueue_many(df.zeros({ 0, 2, 3 })))
    same(df.run(q:size()), 0)
    assert.same({ 0, 2, 3 }, df.run(q:dequeue_many(0)).shape)
    df.run(q:close())
    assert.same({ 0, 2, 3 }, df.run(q:dequeue_many(0)).shape)
  end)

  it('gives the number asked for at run time, and knows the shapes while building', function()
    local q = df.FIFOQueue(10, 'int32', { shapes = { { 3 } } })
    local n = df.placeholder('int32', {})
    local batch = q:dequeue_many(n)
    assert.same({ -1, 3 }, batch.shape)
    df.run(q:enqueue_many{ { 1, 1, 1 }, { 2, 2, 2 } })
    same(df.run(batch, { [n] = 2 }), { { 1, 1, 1 }, { 2, 2, 2 } })
    assert.equal('invalid_argument', code_of(df.run, batch, { [n] = -1 }))
  end)

  it('holds back producers while it is full', function()
    local q = df.FIFOQueue(2, 'int32', { shapes = {} })
    local h = df.start(q:enqueue_many{ 1, 2, 3, 4, 5 })
    eventually(function() return df.run(q:size()) == 2 end)
    assert.is_false(h:done())
    local x = q:dequeue()
    for i = 1, 3 do same(df.run(x), i) end
    assert.is_true(h:wait())
    same(df.run(q:dequeue_many(2)), { 4, 5 })
  end)

  it('holds back consumers while it is empty', function()
    local q = df.FIFOQueue(2, 'int32', { shapes = {} })
    local h = df.start(q:dequeue() * 10)
    pause()
    assert.is_false(h:done())
    df.run(q:enqueue(4))
    same(h:wait(), 40)
  end)

  it('serves waiters in the order they came, one batch after the other', function()
    local q = df.FIFOQueue(10, 'int32', { shapes = {} })
    local first = df.start(q:dequeue_many(4))
    pause()
    local second = df.start(q:dequeue_many(3))
    pause()
    local third = df.start(q:dequeue())
    pause()
    local put = q:enqueue_many{ 1, 2, 3 }
    df.run(put)
    assert.is_false(first:done() or second:done() or third:done())
    df.run(q:enqueue_many{ 4, 5, 6, 7, 8 })
    same({ first:wait(), second:wait(), third:wait() }, { { 1, 2, 3, 4 }, { 5, 6, 7 }, 8 })
  end)

  it('gives batches larger than itself', function()
    local q = df.FIFOQueue(2, 'int32', { shapes = {} })
    local h = df.start(q:enqueue_many(df.range(10)))
    same(df.run(q:dequeue_many(10)), { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 })
    assert.is_true(h:wait())
  end)

  it('has values of its own in each session', function()
    local q = df.FIFOQueue(3, 'int32')
    local a, b = df.Session{}, df.Session{}
    a:run(q:enqueue(1))
    same({ a:run(q:size()), b:run(q:size()) }, { 1, 0 })
    a:close()
    b:run(q:enqueue(2))
    same(b:run(q:dequeue()), 2)
  end)

  it('says what it is', function()
    local q = df.FIFOQueue(3, { 'int32', 'float32' }, { name = 'jobs' })
    assert.matches('^jobs: FIFOQueue of int32%[%.%.%.%], float32%[%.%.%.%]  %-%- .*queue_spec.lua:%d+$', tostring(q))
    assert.same({ 'jobs', 3, { 'int32', 'float32' }, 'queue' }, { q.name, q.capacity, q.dtypes, df.type(q) })
    assert.matches("no field or method 'enqueu'.*enqueue", message_of(function() return q.enqueu end))
    assert.matches('write q:dequeue', message_of(df.add, q, 1))
  end)
end)

describe('closing a queue', function()
  it('leaves what is in it to be taken, and then is out_of_range', function()
    local q = df.FIFOQueue(5, 'int32', { shapes = {} })
    df.run(q:enqueue_many{ 1, 2, 3 })
    same(df.run(q:is_closed()), false)
    df.run(q:close())
    same(df.run(q:is_closed()), true)
    same(df.run(q:dequeue()), 1)
    assert.equal('out_of_range', code_of(df.run, q:dequeue_many(3)))
    same(df.run(q:size()), 2)
    same(df.run(q:dequeue_many(2)), { 2, 3 })
    assert.equal('out_of_range', code_of(df.run, q:dequeue()))
    assert.matches('closed', message_of(df.run, q:dequeue()))
  end)

  it('refuses what is put in afterwards, with cancelled', function()
    local q = df.FIFOQueue(5, 'int32', { shapes = {} })
    df.run(q:close())
    assert.equal('cancelled', code_of(df.run, q:enqueue(1)))
    assert.equal('cancelled', code_of(df.run, q:enqueue_many{ 1, 2 }))
    assert.equal('cancelled', code_of(df.run, q:close()))
    assert.is_true(df.run(q:close{ cancel_pending = true }))
  end)

  it('ends what waits for elements that cannot come any more', function()
    local q = df.FIFOQueue(5, 'int32', { shapes = {} })
    local one, many = df.start(q:dequeue_many(3)), df.start(q:dequeue())
    pause()
    df.run(q:enqueue(1))
    df.run(q:close())
    local ok, e = pcall(one.wait, one)
    assert.same({ false, 'out_of_range' }, { ok, e.code })
    same(many:wait(), 1)
  end)

  it('lets in first what waits for room already', function()
    local q = df.FIFOQueue(2, 'int32', { shapes = {} })
    df.run(q:enqueue_many{ 1, 2 })
    local late = df.start(q:enqueue_many{ 3, 4 })
    pause()
    local close = df.start(q:close())
    pause()
    assert.is_false(close:done())
    same(df.run(q:is_closed()), false)
    same(df.run(q:dequeue_many(2)), { 1, 2 })
    assert.is_true(late:wait())
    assert.is_true(close:wait())
    same(df.run(q:dequeue_many(2)), { 3, 4 })
  end)

  it('ends it with cancelled when told to cancel what is pending', function()
    local q = df.FIFOQueue(2, 'int32', { shapes = {} })
    local late = df.start(q:enqueue_many{ 1, 2, 3, 4 })
    eventually(function() return df.run(q:size()) == 2 end)
    df.run(q:close{ cancel_pending = true })
    local ok, e = pcall(late.wait, late)
    assert.same({ false, 'cancelled' }, { ok, e.code })
    assert.matches('queue_spec.lua:%d+', e.source)
    same(df.run(q:dequeue_many(2)), { 1, 2 })
  end)

  it('gives dequeue_up_to what is left', function()
    local q = df.FIFOQueue(10, 'int32', { shapes = {} })
    df.run(q:enqueue_many(df.range(5)))
    local n = q:dequeue_up_to(3)
    assert.same({ -1 }, n.shape)
    same(df.run(n), { 0, 1, 2 })
    local h = df.start(n)
    pause()
    assert.is_false(h:done())
    df.run(q:close())
    same(h:wait(), { 3, 4 })
    assert.equal('out_of_range', code_of(df.run, n))
  end)
end)

describe('a call that waits on a queue', function()
  it('stands in line in the order in which it came', function()
    local q, x, takers = df.FIFOQueue(100, 'int32', { shapes = { {} } }), df.placeholder('int32'), {}
    local take, put = q:dequeue(), q:enqueue(x)
    for i = 1, 20 do
      takers[i] = df.start(take)
      eventually(function()                                      -- it stands in line
        takers[i]:pause()
        local told = takers[i]:whynot(take)
        takers[i]:resume()
        return told:find 'waits for an element'
      end)
    end
    for i = 1, 20 do df.run(put, { [x] = i }) end
    for i = 1, 20 do assert.are.equal(i, takers[i]:wait()) end
  end)

  it('can be cancelled, and gives back what it has taken', function()
    local q = df.FIFOQueue(10, 'int32', { shapes = {} })
    local h = df.start(q:dequeue_many(5))
    pause()
    df.run(q:enqueue_many{ 1, 2, 3 })
    eventually(function() return df.run(q:size()) == 0 end)
    h:cancel()
    assert.equal('cancelled', code_of(h.wait, h))
    assert.same({ 1, 2, 3 }, drain(q))
  end)

  it('gives back as much as it has taken, however little room its queue has had need of meanwhile', function()
    for _, n in ipairs{ 1, 16, 17, 100 } do
      for kind, q in pairs{ fifo = df.FIFOQueue(-1, 'int64', { shapes = {} }), shuffle = df.RandomShuffleQueue(-1, 'int64', { shapes = {} }),
                            priority = df.PriorityQueue(-1, {}), padding = df.PaddingFIFOQueue(-1, 'int64', { shapes = { {} } }) } do
        local h, v = df.start(q:dequeue_many(n + 1)), df.placeholder('int64', {})
        local put = q:enqueue(v)
        pause()
        for k = 1, n do df.run(put, { [v] = k }) end
        h:cancel()
        assert.equal('cancelled', code_of(h.wait, h))
        local all, want = drain(q), {}
        for k = 1, n do want[k] = k end
        if kind == 'shuffle' then table.sort(all) end
        assert.same(want, all)
      end
    end
  end)

  it('takes nothing and puts in nothing from when it is cancelled on, whenever its run notices', function()
    local q, full = df.FIFOQueue(-1, 'int32', { shapes = {} }), df.FIFOQueue(1, 'int32', { shapes = {}, name = 'full' })
    local put, one, many, more = q:enqueue(df.int32(5)), q:dequeue(), q:dequeue_many(2), full:enqueue(df.int32(2))
    df.run(full:enqueue(1))
    for n = 0, 19 do
      local waits = { df.start(one), df.start(many), df.start(more) }
      if n % 4 == 0 then pause() end
      for _, h in ipairs(waits) do h:cancel() end
      df.run(put)
      assert.equal(1, df.run(full:dequeue()))
      for _, h in ipairs(waits) do assert.equal('cancelled', code_of(h.wait, h)) end
      assert.equal(5, df.run(one))
      assert.equal(0, df.run(q:size()))
      assert.equal(0, df.run(full:size()))
      df.run(full:enqueue(1))
    end
  end)

  it('that is cancelled gives what it had taken to the next in line at once', function()
    local q = df.FIFOQueue(-1, 'int32', { shapes = {} })
    local next_one = q:dequeue_many(3)
    df.run(q:enqueue_many{ 1, 2 })
    local big = df.start(q:dequeue_many(9))
    pause()
    local h = df.start(next_one)
    big:cancel()
    df.run(q:enqueue(3))
    same(h:wait(), { 1, 2, 3 })
    assert.equal('cancelled', code_of(big.wait, big))
  end)

  it('does not stand in the way of those behind it once it is cancelled', function()
    local q = df.FIFOQueue(10, 'int32', { shapes = {} })
    local big = df.start(q:dequeue_many(5))
    pause()
    local small = df.start(q:dequeue_many(2))
    pause()
    df.run(q:enqueue_many{ 1, 2, 3 })
    big:cancel()
    same(small:wait(), { 1, 2 })
    assert.equal('cancelled', code_of(big.wait, big))
    assert.same({ 3 }, drain(q))
  end)

  it('keeps to the timeout of its run', function()
    local q = df.FIFOQueue(1, 'int32', { shapes = {} })
    assert.equal('deadline_exceeded', code_of(df.run, q:dequeue(), nil, { timeout = 0.05 }))
    df.run(q:enqueue(1))
    assert.equal('deadline_exceeded', code_of(df.run, q:enqueue(2), nil, { timeout = 0.05 }))
    local message = message_of(df.run, q:enqueue(2), nil, { timeout = 0.05 })
    assert.matches('longer than its timeout: `.-Enqueue.-` at .-queue_spec.lua:%d+ waits for room for 1 element in queue', message)
    assert.same({ 1 }, drain(q))
  end)

  it('keeps what enqueue_many had put in when it is stopped', function()
    local q = df.FIFOQueue(3, 'int32', { shapes = {} })
    assert.equal('deadline_exceeded', code_of(df.run, q:enqueue_many(df.range(9)), nil, { timeout = 0.05 }))
    assert.same({ 0, 1, 2 }, drain(q))
  end)

  it('ends with cancelled when its session is closed', function()
    local q, s = df.FIFOQueue(1, 'int32'), df.Session{}
    local h = s:start(q:dequeue())
    pause()
    s:close()
    assert.equal('cancelled', code_of(h.wait, h))
  end)

  it('is an error that says what waits for what when nothing else can move', function()
    local q = df.FIFOQueue(4, 'int32', { shapes = {}, name = 'jobs' })
    df.run(q:enqueue(1))
    local ok, e = pcall(df.run, q:dequeue_many(3))
    assert.same({ false, 'failed_precondition' }, { ok, e.code })
    assert.matches("queue_spec.lua:%d+.*waits for 2 more elements from queue 'jobs', which holds 0 of at most 4", e.message)
    assert.matches('queue_spec.lua:%d+', e.source)
    same(df.run(q:size()), 1)
    df.run(q:enqueue_many{ 2, 3, 4 })
    assert.matches("waits for room for 1 element in queue 'jobs', which holds 4 of at most 4", message_of(df.run, q:enqueue(5)))
    assert.same({ 1, 2, 3, 4 }, drain(q))
  end)

  it('is none while another run may come to its help, and then one as soon as that cannot either', function()
    local q, r = df.FIFOQueue(4, 'int32'), df.FIFOQueue(4, 'int32')
    local helper = df.start(q:enqueue(r:dequeue() + 1))
    pause()
    df.run(r:enqueue(1))
    same(df.run(q:dequeue()), 2)
    helper:wait()
    local stuck = df.start(q:enqueue(r:dequeue() + 1))
    assert.equal('failed_precondition', code_of(df.run, q:dequeue()))
    df.run(r:enqueue(2))
    assert.is_true(stuck:wait())
    same(df.run(q:dequeue()), 3)
  end)
end)

describe('a queue in a loop or branch', function()
  it('is filled and emptied in program order', function()
    local q = df.FIFOQueue(100, 'int32', { shapes = {} })
    local i = df.while_loop(function(i) return i:lt(10) end, function(i)
      q:enqueue(i)
      q:enqueue(i * 10)
      return i + 1
    end, { df.int32(0) })
    df.run(i)
    same(df.run(q:dequeue_many(6)), { 0, 0, 1, 10, 2, 20 })
    local _, sum = df.while_loop(function(i) return i:lt(7) end, function(i, sum)
      local x, y = q:dequeue(), q:dequeue()
      return i + 1, sum * 100 + (y - x * 10)
    end, { df.int32(0), df.int32(0) })
    same(df.run(sum), 0)
    same(df.run(q:size()), 0)
  end)

  it('is asked for its size in program order, too', function()
    local q = df.FIFOQueue(100, 'int32')
    local _, sizes = df.while_loop(function(i) return i:lt(5) end, function(i, sizes)
      local before = q:size()
      q:enqueue(i)
      q:enqueue(i)
      local between = q:size()
      q:dequeue()
      return i + 1, sizes * 100 + before * 10 + between
    end, { df.int32(0), df.int32(0) })
    same(df.run(sizes), 213243546)
  end)

  it('is left alone in the branch that is not taken', function()
    local q = df.FIFOQueue(10, 'int32')
    local p = df.placeholder('bool', {})
    local r = df.cond(p, function() q:enqueue(1) return df.int32(1) end, function() return df.int32(0) end)
    same({ df.run(r, { [p] = false }), df.run(q:size()) }, { 0, 0 })
    same({ df.run(r, { [p] = true }), df.run(q:size()) }, { 1, 1 })
  end)

  it('is read until it is closed', function()
    local q = df.FIFOQueue(10, 'int32', { shapes = {} })
    df.run(q:enqueue_many{ 5, 6, 7 })
    local n = df.while_loop(function(_, more) return more end, function(sum)
      local x = q:dequeue()
      return sum + x, q:size():gt(0)
    end, { df.int32(0), true })
    same(df.run(n), 18)
  end)

  it('is dequeued once where what is made of it has a gradient or is recomputed', function()
    local q, w = df.FIFOQueue(10, 'float32', { shapes = {} }), df.Variable(2.0)
    df.run(q:enqueue_many{ 1, 2, 3, 4, 5, 6 })
    local y = df.checkpoint(function(x) return (x * q:dequeue()) ^ 2 end)(w)
    same(df.run{ y, df.gradients(y, w) }, { 4, 4 })
    for _, save in ipairs{ 'keep', 'recompute' } do
      local _, s = df.while_loop(function(i) return i:lt(2) end, function(i, s)
        return i + 1, s + w * w * q:dequeue()
      end, { df.int32(0), df.float32(0) }, { save = save })
      same(df.run{ s, df.gradients(s, w) }, save == 'keep' and { 20, 20 } or { 36, 36 })
    end
    assert.same({ 6 }, drain(q))
  end)

  it('names the iteration that waits in vain', function()
    local q = df.FIFOQueue(3, 'int32')
    local i = df.while_loop(function(i) return i:lt(9) end, function(i) q:enqueue(i) return i + 1 end, { df.int32(0) })
    local ok, e = pcall(df.run, i)
    assert.same({ false, 'failed_precondition' }, { ok, e.code })
    assert.matches(':3$', e.frame)
  end)

  it('carries 10,000 elements between two runs, in order', function()
    local n = 10000
    local q = df.FIFOQueue(16, { 'int32', 'int32' }, { shapes = { {}, {} } })
    local put = df.while_loop(function(i) return i:lt(n) end, function(i)
      q:enqueue(i, i * 2)
      return i + 1
    end, { df.int32(0) })
    local _, wrong = df.while_loop(function(i) return i:lt(n) end, function(i, wrong)
      local x, y = q:dequeue()
      return i + 1, wrong + df.cast(x:ne(i), 'int32') + df.cast(y:ne(i * 2), 'int32')
    end, { df.int32(0), df.int32(0) })
    local h = df.start(put)
    same(df.run(wrong), 0)
    same(h:wait(), n)
  end)

  it('carries elements between many runs, each once', function()
    local q = df.FIFOQueue(8, 'int32', { shapes = {} })
    local n, runs = 500, {}
    local function producer(from)
      return df.while_loop(function(i) return i:lt(n) end, function(i) q:enqueue(i + from) return i + 1 end, { df.int32(0) })
    end
    for k = 0, 3 do runs[#runs + 1] = df.start(producer(k * n)) end
    local takers = {}
    for k = 1, 2 do
      local _, sum = df.while_loop(function(i) return i:lt(n) end, function(i, sum)
        local batch = q:dequeue_many(2)
        return i + 1, sum + df.reduce_sum(batch)
      end, { df.int32(0), df.int32(0) })
      takers[k] = df.start(sum)
    end
    for _, h in ipairs(runs) do h:wait() end
    same(takers[1]:wait() + takers[2]:wait(), 4 * n * (4 * n - 1) / 2)
  end)
end)

describe('a RandomShuffleQueue', function()
  it('gives every element once, in another order', function()
    local q = df.RandomShuffleQueue(100, 'int32', { shapes = {}, seed = 3 })
    df.run(q:enqueue_many(df.range(50)))
    local list = df.run(q:dequeue_many(50)):totable()
    local moved, sum = 0, 0
    for i, v in ipairs(list) do
      if v ~= i - 1 then moved = moved + 1 end
      sum = sum + v
    end
    table.sort(list)
    for i, v in ipairs(list) do assert.equal(i - 1, v) end
    assert.is_true(moved > 25)
  end)

  it('gives the same order for the same seed in each session, and another for another', function()
    local function order(seed)
      df.reset()
      local q = df.RandomShuffleQueue(20, 'int32', { shapes = {}, seed = seed })
      df.run(q:enqueue_many(df.range(20)))
      return table.concat(df.run(q:dequeue_many(20)):totable(), ' ')
    end
    assert.equal(order(1), order(1))
    assert.equal(order(0), order(0))
    assert.not_equal(order(1), order(2))
  end)

  it('gives every element as the first about equally often', function()
    local q = df.RandomShuffleQueue(4, 'int32', { shapes = {}, seed = 7 })
    local put, first, rest = q:enqueue_many(df.range(4)), q:dequeue(), q:dequeue_many(3)
    local seen = { [0] = 0, 0, 0, 0 }
    for _ = 1, 400 do
      df.run(put)
      local v = df.run(first)
      seen[v] = seen[v] + 1
      df.run(rest)
    end
    for v = 0, 3 do assert.is_true(seen[v] > 60 and seen[v] < 140, seen[v]) end
  end)

  it('keeps min_after_dequeue elements while it is open', function()
    local q = df.RandomShuffleQueue(10, 'int32', { shapes = {}, min_after_dequeue = 2 })
    df.run(q:enqueue_many(df.range(5)))
    df.run(q:dequeue_many(3))
    assert.matches('which holds 2 of at most 10 and keeps min_after_dequeue back', message_of(df.run, q:dequeue()))
    local h = df.start(q:dequeue_many(2))
    pause()
    assert.is_false(h:done())
    df.run(q:close())
    assert.same({ 2 }, h:wait().shape)
  end)

  it('refuses a min_after_dequeue that it could never keep', function()
    assert.matches('less than the capacity', message_of(df.RandomShuffleQueue, 3, 'int32', { min_after_dequeue = 3 }))
    assert.matches('from 0 up', message_of(df.RandomShuffleQueue, 3, 'int32', { min_after_dequeue = -1 }))
  end)
end)

describe('a PriorityQueue', function()
  it('gives the smallest priority first, and equal ones in the order they came', function()
    local q = df.PriorityQueue(100, 'string', { shapes = {} })
    df.run(q:enqueue_many({ 3, 1, 2, 1, 3, 1 }, { 'c1', 'a1', 'b1', 'a2', 'c2', 'a3' }))
    df.run(q:enqueue(1, 'a4'))
    local p, v = q:dequeue_many(7)
    assert.equal('int64', p.dtype)
    same(df.run{ p, v }, { { 1, 1, 1, 1, 2, 3, 3 }, { 'a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'c2' } })
  end)

  it('sorts what many runs put in', function()
    local q = df.PriorityQueue(1000, {})
    local x = df.placeholder('int64', { -1 })
    local put, runs = q:enqueue_many(x), {}
    local random = support.random(5)
    for k = 1, 8 do
      local list = {}
      for i = 1, 50 do list[i] = math.floor(random() * 1000) end
      runs[k] = df.start(put, { [x] = df.tensor(list, 'int64') })
    end
    for _, h in ipairs(runs) do h:wait() end
    local last, one = -1, q:dequeue()
    for _ = 1, 400 do
      local p = tonumber(df.run(one))
      assert.is_true(p >= last)
      last = p
    end
  end)

  it('refuses a priority that is no scalar', function()
    local q = df.PriorityQueue(10, 'string')
    local x = df.placeholder('int64')
    local put = q:enqueue(x, 'a')
    assert.equal('invalid_argument', code_of(df.run, put, { [x] = df.tensor({ 1, 2 }, 'int64') }))
  end)
end)

describe('a PaddingFIFOQueue', function()
  it('fills a batch up with zeros where its elements differ', function()
    local q = df.PaddingFIFOQueue(10, { 'float32', 'string', 'int32' }, { shapes = { { -1, 2 }, { -1 }, {} } })
    df.run(q:enqueue({ { 1, 2 } }, { 'a', 'b' }, 1))
    df.run(q:enqueue({ { 3, 4 }, { 5, 6 }, { 7, 8 } }, df.constant({}, 'string', { 0 }), 2))
    local x, s, n = q:dequeue_many(2)
    assert.same({ 2, -1, 2 }, x.shape)
    same(df.run{ x, s, n }, {
      { { { 1, 2 }, { 0, 0 }, { 0, 0 } }, { { 3, 4 }, { 5, 6 }, { 7, 8 } } },
      { { 'a', 'b' }, { '', '' } }, { 1, 2 } })
  end)

  it('fills up along every axis', function()
    local q = df.PaddingFIFOQueue(10, 'int32', { shapes = { -1, -1 } })
    df.run(q:enqueue{ { 1, 2, 3 } })
    df.run(q:enqueue{ { 4 }, { 5 } })
    same(df.run(q:dequeue_many(2)), { { { 1, 2, 3 }, { 0, 0, 0 } }, { { 4, 0, 0 }, { 5, 0, 0 } } })
  end)

  it('gives single elements as they are', function()
    local q = df.PaddingFIFOQueue(10, 'int32', { shapes = { -1 } })
    df.run(q:enqueue{ 1, 2, 3 })
    df.run(q:enqueue_many{ { 4 }, { 5 } })
    same({ df.run(q:dequeue()), df.run(q:dequeue()) }, { { 1, 2, 3 }, { 4 } })
    df.run(q:close())
    same(df.run(q:dequeue_up_to(9)), { { 5 } })
  end)

  it('refuses elements of another rank or of another fixed dimension', function()
    local q = df.PaddingFIFOQueue(10, 'int32', { shapes = { -1, 2 } })
    local x = df.placeholder('int32')
    assert.equal('invalid_argument', code_of(df.run, q:enqueue(x), { [x] = df.tensor{ 1, 2 } }))
    assert.matches('int32%[%?,2%].*int32%[1,3%]', message_of(df.run, q:enqueue(x), { [x] = df.tensor({ { 1, 2, 3 } }, 'int32') }))
    assert.matches('int32%[%?,2%].*int32%[1,3%]', message_of(q.enqueue, q, { { 1, 2, 3 } }))
    assert.matches('shapes are missing', message_of(df.PaddingFIFOQueue, 10, 'int32'))
    local registry = require 'dflow.front.registry'               -- an imported graph can be without
    local bare = registry.op('PaddingFIFOQueueV2', {}, { component_types = { 'float32' } })
    assert.matches('needs a shape of known rank for component 0', message_of(df.run, registry.op('QueueSizeV2', { bare })))
  end)
end)

describe('what is put into a queue', function()
  it('is checked when the line is built', function()
    local q = df.FIFOQueue(10, { 'int32', 'float32' }, { shapes = { {}, { 2 } }, name = 'pairs' })
    local e = select(2, pcall(q.enqueue, q, 1))
    assert.matches('pairs takes 2 values, one per component %(int32%[%], float32%[2%]%), but 1 was given', e.message)
    assert.matches('queue_spec.lua:%d+', e.source)
    assert.matches("component 1 of pairs is int32, the value is float32: cast it", message_of(q.enqueue, q, df.float32(1), { 1, 2 }))
    assert.matches('component 2 of pairs is float32%[2%], the value is float32%[3%]', message_of(q.enqueue, q, 1, { 1, 2, 3 }))
    assert.matches('float32%[2%] in each row', message_of(q.enqueue_many, q, { 1, 2 }, { { 1 }, { 2 } }))
    assert.matches('value 1 is a scalar', message_of(q.enqueue_many, q, 1, { { 1, 2 } }))
    assert.matches('value 2 is missing', message_of(q.enqueue, q, 1, nil))
  end)

  it('is checked when it runs where that was not known', function()
    local q = df.FIFOQueue(10, { 'int32', 'float32' }, { shapes = { {}, { 2 } }, name = 'pairs' })
    local x, n = df.placeholder('float32'), df.placeholder('int32')
    local ok, e = pcall(df.run, q:enqueue(1, x), { [x] = df.tensor{ 1.0 } })
    assert.same({ false, 'invalid_argument' }, { ok, e.code })
    assert.matches("component 1 of queue 'pairs' is float32%[2%] but float32%[1%] was given", e.message)
    assert.matches('queue_spec.lua:%d+', e.source)
    assert.matches('component 1 for queue .* has 2 rows but component 0 has 3',
                   message_of(df.run, q:enqueue_many(n, x), { [n] = df.tensor({ 1, 2, 3 }, 'int32'), [x] = df.tensor({ { 1, 2 }, { 3, 4 } }, 'float32') }))
    same(df.run(q:size()), 0)
  end)

  it('is the value of that moment, whatever becomes of the variable it came from', function()
    local v, q = df.Variable({ 1.0, 2.0 }), df.FIFOQueue(10, 'float32', { shapes = { 2 } })
    local put, add = q:enqueue(v), v:assign_add({ 1, 1 })
    for _ = 1, 3 do
      df.run(put)
      df.run(add)
    end
    same(df.run(q:dequeue_many(3)), { { 1, 2 }, { 2, 3 }, { 3, 4 } })
  end)
end)

describe('making a queue', function()
  it('finds the queue of that shared name, which must be alike', function()
    local a = df.FIFOQueue(10, 'int32', { shapes = {}, shared_name = 'q' })
    local b = df.FIFOQueue(10, 'int32', { shapes = {}, shared_name = 'q' })
    df.run(a:enqueue(1))
    same(df.run(b:dequeue()), 1)
    local others = {
      capacity = df.FIFOQueue(11, 'int32', { shapes = {}, shared_name = 'q' }),
      components = df.FIFOQueue(10, 'int32', { shapes = { 1 }, shared_name = 'q' }),
      type = df.PaddingFIFOQueue(10, 'int32', { shapes = {}, shared_name = 'q' }),
    }
    for word, other in pairs(others) do
      local ok, e = pcall(df.run, other:size())
      assert.same({ false, 'invalid_argument' }, { ok, e.code })
      assert.matches("shared queue 'q' has " .. word, e.message)
    end
  end)

  it('compares the seeds of a shared queue only where they are asked for', function()
    local function queue(seed) return df.RandomShuffleQueue(10, 'int32', { shapes = {}, shared_name = 'shuffled', seed = seed }) end
    local a, b, c = queue(3), queue(), queue(4)
    df.run(a:enqueue(7))
    assert.equal(7, df.run(b:dequeue()))
    local ok, e = pcall(df.run, c:size())
    assert.is_false(ok)
    assert.matches("shared queue 'shuffled' has seed", e.message)
  end)

  it('gives two of one name their own elements unless it is shared', function()
    local a, b = df.FIFOQueue(10, 'int32', { name = 'q' }), df.FIFOQueue(10, 'int32', { name = 'q' })
    df.run(a:enqueue(1))
    same({ df.run(a:size()), df.run(b:size()) }, { 1, 0 })
  end)

  it('refuses what makes no sense, and says what would', function()
    assert.matches('capacity is missing', message_of(df.FIFOQueue))
    assert.matches('capacity is a whole number from %-1 up', message_of(df.FIFOQueue, 1.5, 'int32'))
    assert.matches('dtypes are missing', message_of(df.FIFOQueue, 1))
    assert.matches('at least one component', message_of(df.FIFOQueue, 1, {}))
    assert.matches("'int33' is no dtype", message_of(df.FIFOQueue, 1, 'int33'))
    assert.matches('shapes has 1 entries for 2 components', message_of(df.FIFOQueue, 1, { 'int32', 'int32' }, { shapes = { {} } }))
    assert.matches('only a PaddingFIFOQueue', message_of(df.FIFOQueue, 1, 'int32', { shapes = { -1 } }))
    assert.matches("no option 'shape'.*shapes", message_of(df.FIFOQueue, 1, 'int32', { shape = {} }))
  end)

  it('works in a body, where the queue is the same in every iteration', function()
    local q
    local i = df.while_loop(function(i) return i:lt(3) end, function(i)
      q = q or df.FIFOQueue(10, 'int32', { shapes = {} })
      q:enqueue(i)
      return i + 1
    end, { df.int32(0) })
    df.run(i)
    assert.same({ 0, 1, 2 }, drain(q))
  end)

  it('are looked at without taking anything; a peek at an element that never comes is told when it is closed', function()
    local registry = require 'dflow.front.registry'
    local q = df.FIFOQueue(10, 'int32', { shapes = {} })
    local at = df.placeholder('int32', {})
    local look = registry.op('QueuePeek', { q, at }, { component_types = q.types })[1]
    df.run(q:enqueue_many{ 5, 6 })
    same({ df.run(look, { [at] = 1 }), df.run(look, { [at] = 0 }), df.run(q:size()) }, { 6, 5, 2 })
    local third = df.start(look, { [at] = 2 })
    local batch = df.start(q:dequeue_many(4))                   -- has taken two, and gives them back
    eventually(function() return df.run(q:size()) == 0 end)
    local first = df.start(look, { [at] = 0 })
    pause()
    assert.is_false(first:done() or third:done())
    df.run(q:close())
    same(first:wait(), 5)
    assert.equal('out_of_range', code_of(third.wait, third))
    assert.equal('out_of_range', code_of(batch.wait, batch))
    assert.matches('is closed and has no element 2 %(2 there%)', message_of(df.run, look, { [at] = 2 }))
    df.run(q:dequeue_many(2))
    assert.matches('is closed and has no element 0 %(0 there%)', message_of(df.run, look, { [at] = 0 }, { timeout = 5 }))
  end)

  it('need no more room the longer they are used, however many are taken at once', function()
    local s = df.Session{}
    local q = df.FIFOQueue(-1, 'int32', { shapes = {} })
    local trips = df.placeholder('int32', {})
    local last = df.while_loop(function(i) return i:lt(trips) end, function(i)
      for k = 1, 3 do q:enqueue(i + k) end
      q:dequeue()
      q:dequeue_many(2)
      return i + 1
    end, { df.int32(0) })
    local function in_use(n)
      s:run(last, { [trips] = n })
      return s:stats().memory['cpu:0'].in_use
    end
    local few = in_use(10)
    assert.equal(few, in_use(3000))
    s:close()
  end)

  it('hold in one step what another held, or what they held before', function()
    local registry = require 'dflow.front.registry'
    local function here(kind, types, capacity, options)      -- an op with two queues has both on one rank
      return df.device('cpu:0', function() return df[kind](capacity, types, options) end)
    end
    local q = here('FIFOQueue', 'int32', 3, { shapes = {}, name = 'full' })
    local function beside(types, ...)
      local from = here('FIFOQueue', types, -1, { name = 'beside' })
      for i = 1, select('#', ...) do df.run(from:enqueue(df.constant((select(i, ...)), type(types) == 'table' and types[1] or types))) end
      return from
    end
    local function replace(from, to) return registry.op('QueueReplace', { to or q, from }) end
    df.run(q:enqueue(1))
    local two = beside('int32', 5, 6)
    df.run(replace(two))
    same({ df.run(q:size()), df.run(two:size()) }, { 2, 0 })
    assert.matches("holds at most 3 elements but there are 4 in 'beside", message_of(df.run, replace(beside('int32', 1, 2, 3, 4))))
    assert.matches("component 0 of queue 'full' is int32 but float32 was given", message_of(df.run, replace(beside('float32', 1))))
    assert.matches("component 0 of queue 'full' is int32%[%] but int32%[2%] was given", message_of(df.run, replace(beside('int32', 7, { 1, 2 }))))
    assert.matches("queue 'full' has 1 component but 2 in 'beside", message_of(df.run, replace(beside{ 'int32', 'int32' })))
    assert.matches("queue 'full' was to hold what it holds itself", message_of(df.run, replace(q)))
    assert.matches('input 1 is a table but must be a queue', message_of(df.run, replace(df.device('cpu:0', function() return df.HashTable({ 'a' }, { 1 }, 0) end))))
    same({ df.run(q:size()), df.run(q:dequeue()), df.run(q:dequeue()) }, { 2, 5, 6 })
    local best = here('PriorityQueue', 'int32', -1, { shapes = {} })
    local heap = here('PriorityQueue', 'int32', -1, { shapes = {} })
    for _, p in ipairs{ 2, 1, 3 } do df.run(heap:enqueue(df.int64(p), p)) end
    df.run(replace(heap, best))
    for p = 1, 3 do assert.equal(p, (df.run{ best:dequeue() })[2]) end
    df.run(q:close())
    assert.equal('failed_precondition', code_of(df.run, replace(two)))
  end)
end)
