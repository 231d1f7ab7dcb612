-- Ready nodes of different calls and iterations that are computed as one: values, gradients, counts, errors, and inspectors.
local df = require 'dflow'
local shell, support = require 'spec.shell', require 'spec.support'
local chance = require('spec.chance').minimal
local bits, near, message_of = support.bits, support.near, support.message_of

--- What a run gives with and without batching: values, and what it counted.
local function run(fetches, batch, feeds, opts)
  local s = df.Session{ batch = batch, engine = 'tokens', threads = opts and opts.threads }
  local ok, found = pcall(s.run, s, fetches, feeds)
  local c = s:stats()
  local counts = ('%d nodes, %d dead, %d frames, %d iterations'):format(c.nodes_run, c.dead_tokens, c.frames, c.iterations)
  s:close()
  if not ok then error(found, 0) end
  return found, counts
end

local function same(fetches, feeds, opts)
  local one, counts = run(fetches, false, feeds, opts)
  local many, others = run(fetches, true, feeds, opts)
  assert.same(bits(one), bits(many))
  assert.equal(counts, others)
  return many
end

--- A matrix of numbers.
local function matrix(rows, columns, seed) return df.constant(support.tensor({ rows, columns }, -1, 1, 'float32', seed)) end

--- Several trees side by side: for each node its two parts (-1: none), and the roots.
local function trees(count, most, seed)
  local r, left, right, roots = chance(seed), {}, {}, {}
  local function grow(n)
    local a, b = -1, -1
    if n > 1 then
      local k = r(n - 1)
      a = grow(k)
      b = grow(n - k)
    end
    left[#left + 1], right[#right + 1] = a, b
    return #left - 1
  end
  for i = 1, count do roots[i] = grow(r(most)) end
  return df.constant(left, 'int32'), df.constant(right, 'int32'), df.constant(roots, 'int32')
end

--- The value of a Tree-RNN of `size` units over such trees, one row for each; its weights.
local function tree_network(size, count, most, seed, opts)
  local left, right, roots = trees(count, most, seed)
  local w = df.Variable(support.tensor({ 2 * size, size }, -0.4, 0.4, 'float32', seed + 1), { name = 'w' })
  local b = df.Variable(support.tensor({ size }, -0.4, 0.4, 'float32', seed + 2), { name = 'b' })
  local leaf = df.Variable(support.tensor({ 3, size }, -1, 1, 'float32', seed + 3), { name = 'leaf' })
  local encode
  encode = df.func('encode', { 'int32' }, function(node)
    return df.cond(df.less(left[node], 0), function()
      return df.device(opts and opts.leaf_device or '', function() return df.expand_dims(df.gather(leaf, node % 3), 0) * 1.5 end)
    end, function()
      local both = df.concat({ encode(left[node]), encode(right[node]) }, 1)
      return df.tanh(df.matmul(both, w) + b) * 0.9 + df.sigmoid(df.matmul(both, w))
    end)
  end, { returns = { 'float32' }, result_shapes = { { 1, size } }, batch = opts and opts.batch })
  local out = df.map_fn(function(k) return df.reshape(encode(k), { size }) end, roots, { parallel_iterations = 64 })
  return out, { w, b, leaf }
end

describe('ready nodes of different calls, computed as one,', function()
  it('multiply rows as one after the other, to the bit, whatever the sizes', function()
    local r = chance(7)
    local sizes = { 1, 2, 3, 5, 8, 17, 64, 70, 130, 300 }
    for trial = 1, support.sample(24, 400) do
      df.reset()
      local m, k, n, count = ({ 1, 1, 1, 2, 3, 4, 5, 9 })[r(8)], sizes[r(#sizes)], sizes[r(#sizes)], 1 + r(40)
      local turned, dtype = r(2) == 1, r(4) == 1 and 'float64' or 'float32'
      local w = df.constant(support.tensor(turned and { n, k } or { k, n }, -1, 1, dtype, trial))
      local rows = df.constant(support.tensor({ count, m, k }, -1, 1, dtype, trial + 1))
      local f = df.func('f', { dtype }, function(x) return df.matmul(x, w, { transpose_b = turned }) end)
      local y = df.map_fn(function(x) return f(x) end, rows, { parallel_iterations = 64 })
      local ok, why = pcall(same, y, nil, { threads = 1 + trial % 2 })
      assert(ok, ('[%d,%d] x [%d,%d]%s, %d of them: %s'):format(m, k, k, n, turned and ' transposed' or '', count, tostring(why)))
    end
  end)

  it('are those of trees that differ', function()
    for seed = 1, support.sample(6, 60) do
      df.reset()
      same((tree_network(({ 3, 16, 40 })[seed % 3 + 1], 12, 9, seed)))
    end
  end)

  it('are as many as are ready', function()
    local y = tree_network(16, 20, 8, 3)
    local s = df.Session{ batch = 'auto' }
    s:run(y)
    local text = s:native()
    local most = tonumber(text:match 'encode%s+batched: [^\n]- (%d+) at most')
    assert(most and most >= 20, text)
    s:close()
  end)

  it('are so by auto where that took less time, and values do not depend on it', function()
    local y, weights = tree_network(96, 10, 7, 4)
    local dx = df.gradients(df.reduce_sum(df.square(y)), weights)
    local s, first = df.Session{ batch = 'auto', engine = 'tokens' }, nil
    for i = 1, 10 do                                          -- some of the first with waiting, some without
      local found = bits(s:run{ y, dx[1], dx[2], dx[3] })
      first = first or found
      assert.same(first, found, 'run ' .. i)
    end
    local word, together, alone = s:native():match "batch = 'auto': (.-), a node takes ([%d.]+) us batched and ([%d.]+) us one by one"
    assert(word, s:native())
    together, alone = tonumber(together), tonumber(alone)
    assert(together == alone or (word == 'calls are batched') == (together < alone), s:native())
    s:close()
  end)

  it('have the gradients that they have one by one, within the rounding of a sum', function()
    for seed = 1, support.sample(4, 40) do
      df.reset()
      local size = ({ 6, 72, 96 })[seed % 3 + 1]
      local y, weights = tree_network(size, 10, 7, seed)
      local dx = df.gradients(df.reduce_sum(df.square(y)), weights)
      local one, counts = run({ y, dx[1], dx[2], dx[3] }, false)
      local many, others = run({ y, dx[1], dx[2], dx[3] }, true)
      assert.equal(counts, others)
      assert.same(bits(one[1]), bits(many[1]))
      for i = 2, 4 do near(many[i], one[i], { rtol = 2e-5, atol = 2e-4 }) end
    end
  end)

  it('have the rows that they read of an embedding as its gradient, not a matrix each', function()
    local words, units, calls = 20000, 32, 40
    local table_of = df.Variable(support.tensor({ words, units }, -1, 1, 'float32', 1), { name = 'table' })
    local f = df.func('f', { 'int32' }, function(i)
      return df.reduce_sum(df.square(df.gather(table_of, i)) * df.gather(table_of, df.stack{ i, i % 3, i })), df.tanh(df.gather(table_of, i))
    end, { batch = true })
    local ids = df.constant(support.tensor({ calls }, 0, words - 1, 'int32', 2))
    local y = df.reduce_sum((df.map_fn(function(i) return (f(i)) end, ids, { dtype = 'float32' })))
    local g = df.gradients(y, table_of)
    local rows = df.gather(table_of, ids)
    local again = df.reduce_sum(df.expand_dims(df.square(rows), 1) *
                                df.stack({ rows, df.gather(table_of, ids % 3), rows }, { axis = 1 }))
    local s = df.Session{ engine = 'tokens' }
    s:run(y)
    local before = s:stats().memory['cpu:0'].peak
    local found = s:run(g)
    local peak = s:stats().memory['cpu:0'].peak - before
    near(found, s:run(df.gradients(again, table_of) + 0), { rtol = 1e-5, atol = 1e-5 })
    assert(peak < 6 * words * units * 4, peak)
    s:close()
  end)

  it('have second derivatives', function()
    local y, weights = tree_network(70, 4, 4, 11)
    local first = df.gradients(df.reduce_sum(y), weights[1])
    local second = df.gradients(df.reduce_sum(df.square(first)), weights[1])
    near(run(second, true), run(second, false), { rtol = 1e-4, atol = 1e-3 })
  end)

  it('train a network as one by one', function()
    local function losses(batch)
      df.reset()
      local y = tree_network(72, 8, 6, 5, { batch = batch })
      local loss = df.reduce_mean(df.square(y))
      local step = df.train.Adam{ learning_rate = 0.01 }:minimize(loss)
      local list = {}
      for i = 1, 5 do list[i] = df.run({ loss, step })[1] end
      return list
    end
    near(losses(true), losses(false), { rtol = 1e-4, atol = 1e-5 })
  end)

  it('bring their sums with them wherever they are read: arrays, conds, loops, fetches', function()
    local w = df.Variable(support.tensor({ 128, 128 }, -0.2, 0.2, 'float32', 1), { name = 'w' })
    local x = matrix(6, 128, 2)
    local f = df.func('f', { 'float32' }, function(row)
      local a = df.expand_dims(row, 0)
      return df.reduce_sum(df.tanh(df.matmul(a, w))), df.matmul(a, df.square(a), { transpose_a = true })
    end, { batch = true })
    local _, outer = f(x[0])                                             -- fetched as it is
    local stacked = df.map_fn(function(row) return select(2, f(row)) end, x)
    local picked = df.cond(df.greater(x[0][0], 0), function() return select(2, f(x[1])) end, function() return select(2, f(x[2])) end)
    local i, total = df.while_loop(function(i) return i:lt(6) end, function(i, total) return i + 1, total + select(2, f(x[i])) end,
                                   { df.int32(0), df.zeros{ 128, 128 } })
    local _ = i
    local found = df.run{ outer, stacked, picked, total, df.reduce_sum(outer) }
    local sq = df.matmul(x, df.square(x), { transpose_a = true })
    near(found[4], df.run(sq), { rtol = 1e-5, atol = 1e-5 })
    near(found[1], df.run(df.constant(found[2])[0]), { rtol = 1e-6, atol = 1e-6 })
    near(df.run(df.reduce_sum(stacked, { axis = 0 })), found[4], { rtol = 1e-5, atol = 1e-5 })
  end)

  it('fail as one of them does alone', function()
    local table_of = matrix(4, 8, 1)
    local f = df.func('f', { 'int32' }, function(i) return df.tanh(df.gather(table_of, i)) + 1 end)
    local y = df.map_fn(function(i) return f(i) end, df.constant({ 0, 3, 2, 7, 1 }, 'int32'), { dtype = 'float32' })
    assert.equal(message_of(run, y, false), message_of(run, y, true))
  end)

  it('end the run where no memory is left for a part, and the next run is right', function()
    local path = os.tmpname()
    shell.write(path, [==[
      local df = require 'dflow'
      local x = df.float32{ { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 2, 4, 6 } }
      local f = df.func('f', { 'float32' }, function(row)
        local a, b, c = df.unpack(df.split(df.expand_dims(df.tanh(row) * row, 0), 3, { axis = 1 }))
        return df.reduce_sum(df.tanh(a * c) - b)
      end, { batch = true })
      local y = df.reduce_sum(df.map_fn(function(row) return f(row) end, x))
      for _ = 1, 2 do
        local ok, e = pcall(df.run, y)
        print(ok and ('%.4f'):format(e) or e.code .. ' ' .. (e.op or ''))
      end]==])
    local function run_with(stress) return shell.run(('DFLOW_STRESS=%s %s %s'):format(stress, shell.lua, path)) end
    local right = run_with('none').out:match '^[^\n]+'
    local failed = {}
    for n = 11, 71, support.sample(3, 1) do
      local r = run_with('oom:' .. n)
      assert(r.out ~= '' or r.err:find 'out of memory' or r.err:find 'resource_exhausted', r.err)
      local rest = r.out:gsub('resource_exhausted [^\n]*', function(said)
        failed[said:match '%((%w+)%)$' or said] = true
        return right
      end, 1)
      assert(rest == '' or rest == (right .. '\n'):rep(2), ('oom:%d\n%s%s'):format(n, r.out, r.err))
    end
    os.remove(path)
    assert(failed.Split, 'no part of a split was made to fail')
  end)

  it('differ in shape, and go with those of their own', function()
    local data = matrix(9, 40, 4)
    local w = matrix(40, 40, 5)
    local f = df.func('f', { 'int32' }, function(i)
      local part = df.slice(data, df.stack{ i, 0 }, df.stack{ i % 3 + 1, 40 })
      return df.reduce_sum(df.tanh(df.matmul(part, w)) * 2 + part)
    end)
    same(df.map_fn(function(i) return f(i) end, df.range(7), { dtype = 'float32' }))
  end)

  it('keep the order of effects', function()
    local v = df.Variable(0.0, { name = 'v' })
    local f = df.func('f', { 'float32' }, function(x)
      return v:assign(v * 2 + x)
    end, { batch = true })
    local y = df.map_fn(function(x) return f(x) end, df.constant{ 1.0, 2.0, 3.0, 4.0 })
    near(df.run(y), { 1, 4, 11, 26 })
  end)

  it('read a variable before what runs after them changes it', function()
    local w, v = matrix(2, 2, 1), df.Variable(1.0, { name = 'v' })
    local f = df.func('f', { 'float32' }, function(x)                     -- reads v once its predicate is there
      local y = x
      for _ = 1, 9 do y = df.tanh(df.matmul(y, w)) end
      return df.cond(df.reduce_sum(y):gt(-9), function() return v * x end, function() return x end)
    end)
    local x, five = df.placeholder('float32', { 1, 2 }), df.placeholder('float32', {})
    local y = f(x)
    local i, last = df.while_loop(function(i) return i:lt(4) end, function(i) return i + 1, f(x) end, { df.int32(0), x })
    local next_value = five * 1
    for after, fetch in pairs{ [y] = y, [i] = last } do
      local change = df.control_dependencies({ after }, function() return v:assign(next_value) end)
      same({ fetch, change }, { [x] = { { 1, 2 } }, [five] = 5 })
    end
  end)

  it('may have parts on other devices, and several owners: values are the same', function()
    for seed = 1, support.sample(6, 40) do
      df.reset()
      local y, weights = tree_network(16, 9, 7, seed, { leaf_device = 'sim:0' })
      local dx = df.gradients(df.reduce_sum(y), weights)
      local fetches, expected = { y, dx[1], dx[2], dx[3] }, nil
      for _, opts in ipairs{ { batch = false }, { batch = true }, { batch = true, owners = 2 }, { batch = true, clock = 'virtual' } } do
        opts.devices, opts.engine = { 'cpu:0', 'sim:0' }, 'tokens'
        local s = df.Session(opts)
        local found = bits(s:run(fetches))
        expected = expected or found
        assert.same(expected, found)
        local text = s:native()
        if opts.batch and not opts.clock and not opts.owners then assert(text:find 'encode%s+batched: %d+ nodes', text) end
        s:close()
      end
    end
  end)

  it('run one by one for a run that is stepped through', function()
    local y = tree_network(16, 6, 5, 9, { batch = true })
    local expected = df.run(y)
    local s = df.Session{}
    local r = s:start(y)
    for _ = 1, 40 do
      r:pause()
      r:step(7)
    end
    r:resume()
    assert.same(bits(expected), bits(r:wait()))
    s:close()
  end)

  it('are refused a wrong word', function()
    assert(message_of(df.Session, { batch = 'sometimes' }):find("batch is true, false or 'auto'", 1, true))
    assert(message_of(df.func, 'f', { 'float32' }, function(x) return x end, { batch = 1 }):find('batch is true or false', 1, true))
  end)

  it('are what map_fn with batch makes of what has no rule by lanes', function()
    local x = df.constant(support.tensor({ 5, 3, 3 }, -1, 1, 'float64', 3))
    local fn = function(m) return df.matmul(m, m) + df.matrix_inverse(m + df.eye(3, { dtype = 'float64' }) * 4) end
    near(df.run(df.map_fn(fn, x, { batch = true })), df.run(df.map_fn(fn, x)), { rtol = 1e-12, atol = 1e-12 })
  end)
end)

-- ---- random programs --------------------------------------------------------------------------------------------------------------

--- A random function of a row [1, n]: products with shared matrices, elementwise ops, parts and joins, branches, loops, and calls of itself.
local function random_function(seed)
  local r = chance(seed)
  local n = ({ 4, 24, 66 })[r(3)]
  local shared = {}
  for i = 1, 3 do shared[i] = matrix(n, n, seed + i) end
  local vector = df.constant(support.tensor({ n }, -1, 1, 'float32', seed + 4))
  local step
  local function some(list) return list[r(#list)] end
  local function grow(list, depth, self, left)
    local k = r(depth > 0 and 13 or 9)
    local a, b = some(list), some(list)
    if k == 1 then return df.tanh(df.matmul(a, shared[r(3)])) end
    if k == 2 then return df.tanh(df.matmul(a, shared[r(3)], { transpose_b = true })) end
    if k == 3 then return a * b + vector end
    if k == 4 then return df.sigmoid(a) - b end
    if k == 5 then return df.softmax(a * 2) end
    if k == 6 then
      local parts = df.split(df.concat({ a, b }, 1), 2, { axis = 1 })
      return df.maximum(parts[1], parts[2] * 0.5)
    end
    if k == 7 then return df.bias_add(a, vector) * 0.5 end
    if k == 8 then return df.where(df.greater(a, b), a, b * 0.3) end
    if k == 9 then return df.expand_dims(df.gather(shared[1], df.cast(df.floormod(df.cast(df.abs(df.reduce_sum(a)) * 97, 'int32'), n), 'int32')), 0) + a end
    local function branch(with) return function() return grow(with, depth - 1, self, left) end end
    if k <= 11 then return df.cond(df.greater(df.reduce_sum(a), df.reduce_sum(b) * 0.5), branch(list), branch(list)) end
    if k == 12 then
      local _, v = df.while_loop(function(i) return i:lt(df.cast(df.abs(df.reduce_sum(b)) * 7, 'int32') % 4) end,
                                 function(i, v) return i + 1, df.tanh(grow({ v, a }, depth - 1, self, left)) end, { df.int32(0), a })
      return v
    end
    return df.cond(df.greater(left, 0), function() return self(df.tanh(a), left - 1) end, function() return b end)
  end
  step = df.func('step', { 'float32', 'int32' }, function(x, left)
    local list = { x }
    for _ = 1, 3 + r(4) do list[#list + 1] = grow(list, 2, step, left) end
    return df.tanh(list[#list] + list[#list - 1])
  end, { returns = { 'float32' }, shapes = { { 1, n }, {} }, result_shapes = { { 1, n } } })
  local rows = df.constant(support.tensor({ 1 + r(12), 1, n }, -1, 1, 'float32', seed + 5))
  return df.map_fn(function(x) return step(x, df.int32(r(3) - 1)) end, rows, { parallel_iterations = ({ 2, 8, 64 })[r(3)] }), { rows, vector }
end

describe('random functions of rows', function()
  it('give the same bits and counts with and without batching, and gradients that agree', function()
    for seed = 1, support.sample(25, 600) do
      df.reset()
      local y, xs = random_function(seed)
      local ok, why = pcall(same, y)
      assert(ok, ('seed %d: %s'):format(seed, tostring(why)))
      if seed % 3 == 0 then
        local dx = df.gradients(df.reduce_sum(y), xs, { unconnected = 'zero' })
        local one, many = run(dx, false), run(dx, true)
        near(many, one, { rtol = 1e-4, atol = 1e-4 })
      end
    end
  end)
end)
