--- df.data: tables of text, records, and pipelines of elements.
local df = require 'dflow'
local support = require 'spec.support'
local message_of = support.message_of

local path = os.tmpname()
local function write(bytes) local f = assert(io.open(path, 'wb')) f:write(bytes) f:close() end
local error_of = require('spec.support').error_of
local function collect(p, opts)
  local list = {}
  for x in p:each(opts) do list[#list + 1] = support.is_tensor(x) and x:totable() or x end
  return list
end

describe('a pipeline', function()
  it('says what to give where a function that makes iterators was given', function()
    local function maker() return function() return 1 end end
    assert.matches('{open = fn}', message_of(function() return df.data.pipeline(maker):each()() end), 1, true)
    assert.equal(1, df.data.pipeline{ open = maker }:each()())
  end)

  it('says that an Output has no value to go through', function()
    for _, source in ipairs{ df.float32{ 1 }, df.Variable{ 1.0 }, { df.float32{ 1 } } } do
      assert.matches('df.run(x) gives one', message_of(df.data.pipeline, source), 1, true)
    end
  end)

  it('has no length before it was gone through', function()
    if math.type then assert.matches('for x in p:each()', message_of(function() return #df.data.pipeline(df.tensor{ 1 }) end), 1, true) end
    local it = df.data.pipeline(df.tensor{ 1, 2 }):each()
    it()
    assert.equal('PipelineIterator after 1 element', tostring(it))
  end)
end)

describe('df.data.csv', function()
  teardown(function() os.remove(path) end)

  it('gives typed columns by name and by number', function()
    write '\239\187\191name,size, weight ,large,ok\r\n"ash, ""old""",3,1.5,3000000000,true\r\nelm,-4,2e3,1,false\r\n\r\n"two\nlines",5,.5,2,true'
    local t = df.data.csv(path, { types = { ok = 'bool' } })
    assert.same({ 'ash, "old"', 'elm', 'two\nlines' }, t.name:totable())
    assert.same({ 'string', 'int32', 'float32', 'int64', 'bool' }, { t[1].dtype, t[2].dtype, t[3].dtype, t[4].dtype, t[5].dtype })
    assert.same({ 3, -4, 5 }, t.size:totable())
    assert.same({ 1.5, 2000, 0.5 }, t.weight:totable())
    assert.same({ true, false, true }, t.ok:totable())
    assert.equal(5, #t)
  end)

  it('takes names and types from its caller', function()
    write '# made by hand\n1;2\n3;\n'
    local t = df.data.csv(path, { header = { 'a', 'b' }, separator = ';', types = 'float64', missing = -1, comment = '#' })
    assert.same({ { 1, 3 }, { 2, -1 } }, { t.a:totable(), t.b:totable() })
    assert.equal('float64', t[2].dtype)
    t = df.data.csv(path, { header = false, separator = ';', types = { 'int64', 'string' }, comment = '#' })
    assert.same({ '2', '' }, t[2]:totable())
    write 'a,b\n'
    t = df.data.csv(path, { types = { a = 'float32' } })
    assert.same({ 'float32', { 0 } }, { t.a.dtype, t.a.shape })
  end)

  it('names file and line of what is wrong', function()
    for _, case in ipairs{ { 'a,b\n1,2\n3\n', ':3: the line has 1 fields, 2 are expected', 'data_loss' },
                           { 'a\n1\n"x\ny"\nz\n', ':3: column "a": "x', 'invalid_argument' },
                           { 'a\n1\n"x', ':3: field 1 begins with a quote', 'data_loss' }, { 'a\n"x"y\n', ':2: field 1 goes on', 'data_loss' },
                           { 'a,b\n1,\n', ':2: column "b": the field is empty', 'invalid_argument' },
                           { 'a\n300\n', ':2: column "a": 300 cannot be held by uint8', 'invalid_argument', 'uint8' },
                           { 'a\n1.5\n', ':2: column "a": 1.5 cannot be held by int32', 'invalid_argument', 'int32' },
                           { 'a,a\n1,2\n', 'have the name "a"', 'data_loss' }, { '', 'holds no data', 'data_loss' } } do
      write(case[1])
      local e = error_of(df.data.csv, path, { types = case[4] or 'float32' })
      assert.equal(case[3], e.code, case[1])
      assert.is_truthy(e.message:find(path, 1, true) and e.message:find(case[2], 1, true), e.message)
    end
    assert.matches("did you mean 'a'", message_of(function() write 'a\n1' df.data.csv(path, { types = { A = 'int32' } }) end))
    assert.equal('not_found', error_of(df.data.csv, path .. '.none').code)
  end)
end)

describe('records', function()
  teardown(function() os.remove(path) end)

  it('go to a TFRecord file and come back', function()
    local list = { '', 'one', ('x'):rep(10000), '\0\255' }
    df.data.write_tfrecord(path, list)
    local bytes = require('spec.shell').read(path)
    -- as TensorFlow writes a record of 0 bytes
    assert.equal(('\0'):rep(8) .. '\41\3\152\7\216\234\130\162', bytes:sub(1, 16))
    local got = {}
    for r in df.data.tfrecord(path) do got[#got + 1] = r end
    assert.same(list, got)
    assert.same(list, collect(df.data.pipeline(df.data.tfrecord(path))))
    assert.equal(8, #collect(df.data.pipeline(df.data.tfrecord{ path, path })))
    local read = 0
    for i = 1, #bytes do                                  -- a bit that fell over, anywhere in the short ones
      if i < 40 or i > #bytes - 20 then
        write(bytes:sub(1, i - 1) .. string.char((bytes:byte(i) + 1) % 256) .. bytes:sub(i + 1))
        local e = error_of(function() for _ in df.data.tfrecord(path) do read = read + 1 end end)
        assert.equal('data_loss', e.code)
        assert.is_truthy(e.message:find(path, 1, true))
      end
    end
    write(bytes:sub(1, 30))
    assert.matches('record 1, at byte 16', error_of(function() for _ in df.data.tfrecord(path) do read = read + 1 end end).message)
  end)

  it('refuses a record that is as long as no file, with a checksum that is right', function()
    local core, masked = require 'dflow.backend', require('dflow.data.records').masked
    local function little(v)
      local out = {}
      for i = 1, 4 do out[i], v = string.char(v % 256), math.floor(v / 256) end
      return table.concat(out)
    end
    for _, length in ipairs{ ('\255'):rep(8), '\0\0\0\0\0\0\0\128', '\240' .. ('\255'):rep(7), '\255\255\255\255\0\0\0\0' } do
      local file = assert(io.open(path, 'wb'))
      file:write(length, little(masked(core.crc32c(length))), ('x'):rep(40))
      file:close()
      local e = error_of(df.data.tfrecord(path))
      assert.equal('data_loss', e.code)
      assert.matches('record 0, at byte 0: it has %d+ bytes, the file ends after 36', e.message)
    end
  end)

  it('of lines lose their ends', function()
    write 'one\r\ntwo\n\nlast'
    assert.same({ 'one', 'two', '', 'last' }, collect(df.data.pipeline(df.data.text(path))))
  end)

  it('of features are Tensors', function()
    -- tf.train.Example: a = int64 [1, 2, 3, 5], b = bytes ['xy'], c = float [1.5], d = int64 [-1]
    local function message(field, s) return string.char(field * 8 + 2, #s) .. s end
    local function entry(name, kind, list) return message(1, message(1, name) .. message(2, message(kind, list))) end
    local t = df.data.example(message(1, entry('a', 3, message(1, '\1\2\3\5')) .. entry('b', 1, message(1, 'xy')) .. entry('c', 2, message(1, '\0\0\192\63'))
                              .. entry('d', 3, message(1, ('\255'):rep(9) .. '\1'))))
    assert.same({ { 1, 2, 3, 5 }, { 'xy' }, { 1.5 }, { -1 } }, { t.a:totable(), t.b:totable(), t.c:totable(), t.d:totable() })
    assert.equal('int64', t.a.dtype)
    for n = 1, 20 do pcall(df.data.example, message(1, entry('a', 3, message(1, '\1\2\3\5'))):sub(1, n)) end
    assert.equal('data_loss', error_of(df.data.example, '\10\99').code)
  end)
end)

describe('df.data.pipeline', function()
  local x = df.tensor({ 0, 1, 2, 3, 4 }, 'int32')
  local y = df.tensor({ { 0, 0 }, { 1, 10 }, { 2, 20 }, { 3, 30 }, { 4, 40 } }, 'float64')

  it('goes over rows, in batches that keep dtype and rank', function()
    assert.same({ 0, 1, 2, 3, 4 }, collect(df.data.pipeline(x)))
    local got = {}
    for a, b in df.data.pipeline{ x, y }:batch(2):each() do got[#got + 1] = { a.dtype, a:totable(), b.dtype, b.shape } end
    assert.same({ { 'int32', { 0, 1 }, 'float64', { 2, 2 } }, { 'int32', { 2, 3 }, 'float64', { 2, 2 } }, { 'int32', { 4 }, 'float64', { 1, 2 } } }, got)
    assert.equal(2, #collect(df.data.pipeline(x):batch(2, { drop_remainder = true })))
  end)

  it('maps, filters, takes, skips, repeats', function()
    local p = df.data.pipeline{ x, y }:map(function(a, b) return a * a, b:at(1) end)
    assert.same({ 0, 1, 4, 9, 16 }, collect(p))
    assert.same({ 4, 16 }, collect(p:filter(function(a) return a % 2 == 0 end):skip(1)))
    assert.same({ 0, 1, 0, 1 }, collect(p:take(2):repeat_(2)))
    assert.same({ { 0, 1, 4 }, { 9, 16 } }, collect(p:batch(3)))
    for a, b in p:batch(3):each() do assert.same({ 'int32', 'float64' }, { a.dtype, b.dtype }) end
    local n = 0
    for _ in df.data.pipeline(x):repeat_():batch(2):each() do
      n = n + 1
      if n == 100 then break end
    end
    assert.equal(100, n)
    assert.same({}, collect(df.data.pipeline(df.tensor({}, 'int32', { 0 })):repeat_()))
  end)

  it('shuffles: a seed gives an order, each round another, all elements once', function()
    local function shuffled() return df.data.pipeline(x):shuffle(3, 7) end
    local one = collect(shuffled())
    assert.same(one, collect(shuffled()))
    local two = collect(shuffled():repeat_(2))
    assert.same(one, { two[1], two[2], two[3], two[4], two[5] })
    table.sort(two)
    assert.same({ 0, 0, 1, 1, 2, 2, 3, 3, 4, 4 }, two)
    local orders = {}
    for seed = 1, 40 do orders[table.concat(collect(df.data.pipeline(x):shuffle(5, seed)))] = true end
    local n = 0
    for _ in pairs(orders) do n = n + 1 end
    assert.is_true(n > 25, n)
  end)

  it('is shuffled anew each time that it is gone through, the same in each program; a place is in one of these times', function()
    local big = df.tensor((function() local t = {} for i = 1, 50 do t[i] = i end return t end)(), 'int32')
    local function made() return df.data.pipeline(big):shuffle(50, 5):batch(10) end
    local a, b = made(), made()
    local epochs = {}
    for k = 1, 4 do
      epochs[k] = collect(a)
      assert.same(epochs[k], collect(b))
      for other = 1, k - 1 do assert.is_not.same(epochs[other], epochs[k]) end
    end
    local c = made()
    local places = {}
    for _ = 1, 4 do
      local it = c:each()
      it()
      it()
      places[#places + 1] = it:state()
    end
    for k, place in ipairs(places) do                      -- another program goes on there, and then with the next epochs
      local d = made()
      assert.same({ epochs[k][3], epochs[k][4], epochs[k][5] }, collect(d, { state = place }))
      if epochs[k + 1] then assert.same(epochs[k + 1], collect(d)) end
    end
    assert.equal('dflow-pipeline-1:2', places[1])          -- as it was written before there were epochs
    assert.equal('dflow-pipeline-1:3:2', places[4])
    for _, wrong in ipairs{ 'dflow-pipeline-1:', 'dflow-pipeline-1:1:', 'dflow-pipeline-1:x:2', 'dflow-pipeline-1:1:2:3', 7 } do
      assert.matches('it:state', message_of(a.each, a, { state = wrong }))
    end
  end)

  it('buckets rows of tensors by what the length function makes of their parts', function()
    local sizes = {}
    local p = df.data.pipeline{ df.tensor({ { 1, 1 }, { 2, 2 }, { 3, 3 } }, 'float32'), df.tensor({ 5, 1, 4 }, 'int32') }
    for x, n in p:bucket_by_length(function(x, n) assert.equal(2, #x.shape == 1 and x.shape[1] or 0) return n end, { 3 }, 2):each() do
      sizes[#sizes + 1] = { x.shape[1], n:totable() }
    end
    assert.same({ { 2, { 5, 4 } }, { 1, { 1 } } }, sizes)
  end)

  it('pads what differs, and puts elements of one length together', function()
    local words = { 'a', 'bcd', 'ef', 'ghij', 'k' }
    local i = 0
    local function letters()
      i = i + 1
      if words[i] then return df.tensor({ words[i]:byte(1, -1) }, 'int32'), #words[i] end
    end
    local got = {}
    for a, n in df.data.pipeline(letters):padded_batch(3):each() do got[#got + 1] = { a:totable(), n:totable() } end
    assert.same({ { { { 97, 0, 0 }, { 98, 99, 100 }, { 101, 102, 0 } }, { 1, 3, 2 } }, { { { 103, 104, 105, 106 }, { 107, 0, 0, 0 } }, { 4, 1 } } }, got)
    i = 0
    assert.same({ { { 97 }, { 107 } }, { { 101, 102 } }, { { 98, 99, 100, 0 }, { 103, 104, 105, 106 } } },
      (function()
        local list = collect(df.data.pipeline(letters):bucket_by_length(function(_, n) return n end, { 1, 2 }, 2))
        table.sort(list, function(a, b) return #a[1] < #b[1] end)
        return list
      end)())
    i = 0
    assert.matches('int32%[1%] in one element and int32%[3%] in another; pad = true', message_of(collect, df.data.pipeline(letters):batch(2)))
  end)

  it('has elements ready, and goes on where it was', function()
    local made = 0
    local p = df.data.pipeline(x):map(function(v) made = made + 1 return v end):prefetch(3)
    local it = p:each()
    assert.equal(0, it())
    assert.equal(3, made)
    local function make() return df.data.pipeline(x):shuffle(4, 3):repeat_(3):batch(2) end
    local all = collect(make())
    for stop = 0, #all do
      local full = make()
      local first = full:each()
      for _ = 1, stop do first() end
      local rest = collect(full, { state = first:state() })
      assert.equal(#all - stop, #rest)
      assert.same(all[#all], #rest > 0 and rest[#rest] or all[#all])
    end
    local full = make()
    assert.matches('it:state', message_of(full.each, full, { state = 'x' }))
    assert.equal('out_of_range', error_of(full.each, full, { state = 'dflow-pipeline-1:999' }).code)
  end)

  it('makes the next element beside a run, however long either takes', function()
    local function walk(trips)
      df.reset()
      df.set_random_seed(3)
      local y, noise, made, seen = df.placeholder('float64', {}), df.random_uniform({}, { dtype = 'float64' }), 0, {}
      local sum, drawn = y + df.random_uniform({}, { dtype = 'float64' }), nil
      local p = df.data.pipeline(x):map(function(v)
        made = made + 1
        for i = 1, trips do drawn = i end
        return v + df.run(noise)                              -- a run in the run, of the same session
      end):prefetch(2)
      for v in p:each() do
        local before = made
        seen[#seen + 1] = { v, df.run(sum, { [y] = v }), made - before, df.run(noise) }
      end
      assert.is_true(trips == 0 or drawn == trips)
      return seen
    end
    local fast = walk(0)
    for i, e in ipairs(fast) do assert.equal(i <= #fast - 2 and 1 or 0, e[3]) end
    assert.same(fast, walk(200000))
  end)

  it('looks at one row of a large tensor without a copy of all of it', function()
    local rows = df.run(df.zeros{ 2 ^ 16, 256 })             -- 64 MB
    local it = df.data.pipeline{ rows }:map(function(row) return row end):each()
    it()
    local function took(n, fn)
      local began = os.clock()
      for _ = 1, n do fn() end
      return os.clock() - began
    end
    local copies = took(10, function() return #require('dflow.backend').tensor_bytes(rows) end)
    local looks = took(100, it)
    assert.is_true(looks < copies, ('100 rows: %g s, 10 copies: %g s'):format(looks, copies))
  end)

  it('leaves no run behind that it was made beside and that ended early', function()
    local q = df.FIFOQueue(1, { 'float32' }, { shapes = { {} } })
    require('dflow.front.session').beside{ make = function() error('an interrupt', 0) end, slow = true }
    assert.equal('an interrupt', message_of(df.run, q:dequeue()))
    df.run(q:enqueue(5.0))
    assert.equal(1, df.run(q:size()))
  end)

  it('raises what is wrong with an element when that is asked for', function()
    local y, seen = df.placeholder('float64', {}), {}
    local p = df.data.pipeline(x):map(function(v)
      for _ = 1, 200000 do v = v + 0 end
      if v == 3 then error('no such element', 0) end
      return v
    end):prefetch(2)
    local ok, why = pcall(function()
      for v in p:each() do seen[#seen + 1] = df.run(y * 2, { [y] = v }) end
    end)
    assert.is_false(ok)
    assert.equal('no such element', why)
    assert.same({ 0, 2, 4 }, seen)
    assert.equal(14, df.run(y * 2, { [y] = 7 }))
    seen[#seen + 1] = df.data.pipeline(x):map(function(v) return v end):prefetch(3):each()()          -- one that is left is done no more
    assert.matches('fed', message_of(df.run, y))
    assert.equal(14, df.run(y * 2, { [y] = 7 }))
  end)

  it('takes what a for takes: an iterator with its state', function()
    local list = {}
    for i, v in df.data.pipeline(ipairs{ 'a', 'b', 'c' }):filter(function(i) return i ~= 2 end):each() do list[#list + 1] = i .. v end
    assert.same({ '1a', '3c' }, list)
    assert.same({ { 'x', 'y' }, { 'z' } }, collect(df.data.pipeline(('x y z'):gmatch('%a')):batch(2)))
  end)

  it('is read in shards, each element by one of them, by however many in turn', function()
    local rows, seen = {}, {}
    for i = 1, 41 do rows[i] = i end
    local function read(n, times, state)
      local states = {}
      for k = 0, n - 1 do
        local p = df.data.pipeline(df.tensor(rows, 'int32')):shuffle(41, 3):shard(n, k):map(function(v) return v end):batch(2):prefetch(2)
        local it = p:each{ state = state }
        for _ = 1, times do
          local got = it()
          for _, v in ipairs(got and got:totable() or {}) do seen[#seen + 1] = v end
        end
        states[it:state()] = true
      end
      state = next(states)
      assert.is_true(times > 9 or next(states, state) == nil)                 -- one place for all of them
      return state
    end
    local state = read(3, 2)
    for n, times in ipairs{ 2, 1, 1 } do state = read(n, times, state) end
    read(4, 99, read(2, 1, state))
    table.sort(seen)
    assert.same(rows, seen)
    assert.same(rows, collect(df.data.pipeline(df.tensor(rows, 'int32')):shard()))       -- one rank alone
    local function again(p) return message_of(p.each, p, { state = state }) end
    local p = df.data.pipeline(df.tensor(rows, 'int32'))
    assert.matches('one of 3 shards, the pipeline has 2', again(p:shard(2, 0):filter(function() return true end)))
    assert.matches('the pipeline has none', again(p))
    assert.matches('from 0 to 1, of 2, not 2', message_of(p.shard, p, 2, 2))
  end)

  it('feeds a step', function()
    local rows = df.placeholder('float64', { -1, 2 })
    local total = 0
    for _, b in df.data.pipeline{ x, y }:shuffle(5, 1):batch(2):each() do total = total + df.run(df.reduce_sum(rows), { [rows] = b }) end
    assert.equal(110, total)
  end)

  it('says what it does not take', function()
    assert.matches('a Tensor, a list', message_of(df.data.pipeline, 3))
    assert.matches('5 and 2 rows', message_of(df.data.pipeline, { x, df.tensor{ 1, 2 } }))
    local p = df.data.pipeline(x)
    assert.matches('map takes a function', message_of(p.map, p, 3))
    assert.matches('whole number from 1 up', message_of(p.batch, p, 0))
    assert.matches("no option 'drop'", message_of(p.batch, p, 2, { drop = true }))
    assert.matches('returned nothing', message_of(collect, p:map(function() end)))
    assert.equal('no more', select(2, pcall(collect, p:map(function() error('no more', 0) end))))
    local once = df.data.pipeline(function() return nil end)
    collect(once)
    assert.equal('failed_precondition', error_of(collect, once).code)
  end)
end)
