--- What the iterations of a loop share is computed by one of them, where that does not show.
local df = require 'dflow'
local support = require 'spec.support'
local generator = require('spec.chance').minimal

--- The values of a run, bit for bit, or its error.
local function ran(simplify, engine, fetches, feeds, opts)
  local s = df.Session{ simplify = simplify, engine = engine }
  local ok, found = pcall(s.run, s, fetches, feeds, opts)
  s:close()
  return ok and { found = support.bits(found) } or { error = found.message, op = found.op, source = found.source, frame = found.frame }
end

--- Equal bits, or the same error, with and without, by tokens and natively.
local function same(fetches, feeds, what)
  local b = ran(false, 'tokens', fetches, feeds)
  for _, engine in ipairs{ 'tokens', 'native' } do assert.same(b, ran(true, engine, fetches, feeds), what) end
  return b
end

--- The types of the nodes that iterations share.
local function shared(fetches)
  local s, list = df.Session{ engine = 'tokens' }, {}
  for _, p in ipairs(s:placement(fetches)) do
    if p.once then
      list[#list + 1] = p.op
      assert.matches('^the iterations of `[%w_/]+` share it', p.why)
    end
  end
  s:close()
  table.sort(list)
  return table.concat(list, ' ')
end

local function loop(n, body, x)
  local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, v) return i + 1, body(v, i) end, { df.int32(0), x })
  return y
end

describe('what the iterations of a loop share', function()
  local x, w, feeds
  before_each(function()
    x, w = df.placeholder('float32', { 3 }), df.placeholder('float32', { 3, 3 })
    feeds = { [x] = df.tensor({ 0.5, -1.5, 2 }, 'float32'), [w] = df.tensor({ { 1, 2, 3 }, { 0.1, -0.2, 0.3 }, { -1, 0, 0.5 } }, 'float32') }
  end)

  it('is nothing of a loop that is known to run once, but of the loops around it and in it', function()
    local function products(v) return v + w:matmul(w):matmul(df.reshape(v, { 3, 1 })):reshape{ 3 } end
    for _, case in ipairs{
      { '', function() return loop(1, products, x) end },
      { 'MatMul', function() return loop(2, products, x) end },
      { 'MatMul', function() return loop(4, function(v) return loop(1, products, v) end, x) end },
      { 'MatMul', function() return loop(1, function(v) return loop(4, products, v) end, x) end },
      { '', function() return loop(1, function(v) return loop(1, products, v) end, x) end },
      { '', function() return df.checkpoint(products)(x) end },
      { 'MatMul', function() return loop(4, df.checkpoint(products), x) end },
      { '', function() return select(2, df.while_loop(function(i) return i:gt(7) end, function(i, v) return i - 3, products(v) end, { df.int32(8), x })) end },
      { 'MatMul', function() return select(2, df.while_loop(function(i) return i:gt(7) end, function(i, v) return i - 3, products(v) end, { df.int32(11), x })) end },
      { '', function()
        return select(2, df.while_loop(function() return df.constant(true) end, function(i, v) return i + 1, products(v) end, { df.int32(0), x },
                                       { maximum_iterations = 1 }))
      end },
    } do
      local y = case[2]()
      assert.equal(case[1], shared(y))
      same(y, feeds)
    end
  end)

  it('is computed once, by tokens and natively', function()
    local a = df.placeholder('float32', { 256, 256 })
    local function build(body) return loop(40, body, df.float32(0)) end
    local product = build(function(v) return v * 0.5 + df.reduce_max(a:matmul(a)) end)
    local given = { [a] = df.tensor(0.25, 'float32', { 256, 256 }) }
    assert.equal('MatMul Max', shared(product))
    same(product, given)
    for _, engine in ipairs{ 'tokens', 'native' } do
      local took = {}
      for _, simplify in ipairs{ true, false } do
        local s = df.Session{ simplify = simplify, engine = engine }
        s:run(product, given)
        local began = os.clock()                                   -- the processor's time
        s:run(product, given)
        took[simplify] = os.clock() - began
        s:close()
      end
      assert.is_true(took[true] < took[false] / 4, ('%s: %g against %g'):format(engine, took[true], took[false]))
    end
  end)

  it('is what no loop variable, and no variable of the session, goes into', function()
    local v = df.Variable(df.float32{ 1, 2, 3 })
    assert.equal('', shared(loop(3, function(y) return y * df.tanh(y) end, x)))
    assert.equal('Exp', shared(loop(3, function(y) return y + df.exp(x) end, x)))
    assert.equal('', shared(loop(3, function(y) return y + df.exp(v:value()) end, x)))
    assert.equal('', shared(loop(3, function(y, i) return y + df.fill({ 3 }, df.cast(i, 'float32')) end, x)))
  end)

  it('is what a loop variable goes into that is handed on as it is', function()
    local _, _, y = df.while_loop(function(i) return i:lt(3) end, function(i, a, b) return i + 1, a, b + df.exp(a) end,
      { df.int32(0), x, x })
    assert.equal('Exp', shared(y))
    same(y, feeds)
    local _, _, z = df.while_loop(function(i) return i:lt(3) end, function(i, a, b) return i + 1, b, a + df.exp(a) end,
      { df.int32(0), x, x })
    assert.equal('', shared(z))
    same(z, feeds)
  end)

  it('is shared by all runs of an inner loop, or by those of one outer iteration', function()
    local outer = loop(3, function(y) return loop(2, function(z) return z + w:matmul(df.expand_dims(x, 1))[0][0] end, y) end, x)
    same(outer, feeds)
    local inner = loop(3, function(y) return loop(2, function(z) return z * 0.5 + df.exp(y) end, y) end, x)
    assert.equal('Exp', shared(inner))
    same({ outer, inner }, feeds)
  end)

  it('is not what has effects or draws random numbers', function()
    local v = df.Variable(0.0)
    local y = loop(5, function(z) return df.control_dependencies({ v:assign_add(1) }, function() return z + df.exp(x) end) end, x)
    for _, engine in ipairs{ 'tokens', 'native' } do
      local s = df.Session{ engine = engine }
      s:run(y, feeds)
      assert.equal(5, s:run(v))
      s:close()
    end
    local drawn = loop(4, function(z, i) return z + df.random_uniform({ 3 }) * df.cast(i * 0 + 1, 'float32') end, df.zeros{ 3 })
    assert.is_nil(shared(drawn):find 'Random')
    local array = df.while_loop(function(i) return i:lt(6) end,
      function(i, a) return i + 1, a:write(i, df.random_uniform({})) end, { df.int32(0), df.TensorArray('float32', 6) })
    assert.is_truthy(array)
  end)

  it('is not computed where the loop does not run, or its branch is not taken', function()
    local n, ids = df.placeholder('int32', {}), df.placeholder('int32', { 2 })
    local function build(give)
      return { df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, y + give(i) end, { df.int32(0), x }) }
    end
    local y = build(function() return df.gather(w, ids)[0] end)[2]
    local odd = build(function(i)
      return df.cond((i % 2):eq(1), function() return df.gather(w, ids)[0] end, function() return x * 1.5 end)
    end)[2]
    assert.matches('Gather', shared(y))
    assert.matches('Gather', shared(odd))
    for trips = 0, 3 do
      for _, at in ipairs{ 1, 7 } do
        feeds[n], feeds[ids] = trips, df.tensor({ at, 0 }, 'int32')
        local found = same(y, feeds)
        assert.equal(at == 7 and trips > 0, found.error ~= nil)
        assert.equal(at == 7 and trips > 1, same(odd, feeds).error ~= nil)
      end
    end
  end)

  it('keeps its NaNs, infinities and zeros, and is never written over', function()
    feeds[x] = df.tensor({ 0 / 0, -0.0, 1 / 0 }, 'float32')
    same({ loop(4, function(y) local a = x * 2 return (a + y) * (a - y) / a end, x),
           loop(4, function(y) return df.neg(df.exp(x)) * y end, x) }, feeds)
    local big, given = df.placeholder('float32', { 400 }), {}
    given[big] = df.tensor(0.5, 'float32', { 400 })
    local chain = loop(5, function(y) local a = df.sin(df.exp(big) + 1) return (a * y + a) * 0.5 - df.exp(big) end, big)
    assert.equal('Add Exp Sin', shared(chain))
    same({ chain, df.gradients(df.reduce_sum(chain), big) }, given)
  end)

  it('waits for what it waited for', function()
    local v = df.Variable(0.0)
    local y = loop(3, function(z)
      return z + df.control_dependencies({ v:assign_add(2) }, function() return df.exp(x) end)
    end, x)
    for _, engine in ipairs{ 'tokens', 'native' } do
      local s = df.Session{ engine = engine }
      s:run(y, feeds)
      assert.equal(6, s:run(v))
      s:close()
    end
  end)

  it('has the gradients that it had, also those built later from the same nodes', function()
    local y = loop(3, function(z) return z * df.tanh(w:matmul(df.expand_dims(x, 1))[0]) + x end, x):reduce_sum()
    same(y, feeds)
    local g = df.gradients(y, { x, w })
    same({ y, g[1], g[2] }, feeds)
    same(df.gradients(df.reduce_sum(g[1] * g[1]), { x, w }), feeds)
    local twice = df.exp(df.reduce_sum(x * x))
    same({ twice, df.gradients(y * twice, x) }, feeds)
  end)

  it('is the same with one iteration at a time, several threads, devices and owners', function()
    local a = df.placeholder('float32', { 96, 96 })
    local given = { [a] = df.tensor(0.01, 'float32', { 96, 96 }) }
    for _, window in ipairs{ 1, 32 } do
      local _, y = df.while_loop(function(i) return i:lt(12) end, function(i, v)
        return i + 1, df.tanh(v:matmul(a) + a:matmul(a):matmul(a))
      end, { df.int32(0), a }, { parallel_iterations = window })
      same(y, given)
      local b = ran(false, 'tokens', y, given)
      for _, config in ipairs{ { threads = 2 }, { devices = { 'cpu:0', 'sim:1' } },
                             { devices = { 'cpu:0', 'sim:1' }, owners = 2 } } do
        config.engine = 'tokens'
        local s = df.Session(config)
        assert.same(b.found, support.bits(s:run(y, given)))
        s:close()
      end
    end
  end)

  it('goes where memory is short, and is computed again', function()
    local a = df.placeholder('float32', { 512, 512 })              -- 1 MB
    local y = loop(6, function(v)
      local p, q = df.exp(a), df.sin(a)
      return v * 0.5 + df.reduce_max(p) + df.reduce_max(q:matmul(p)) + df.reduce_sum(df.concat({ a * v, a, a }, 0)) * 1e-9
    end, df.float32(0))
    local given = { [a] = df.tensor(0.01, 'float32', { 512, 512 }) }
    local function fits(simplify, bytes)
      local s = df.Session{ engine = 'tokens', simplify = simplify, memory = df.stats().memory['cpu:0'].in_use + bytes }
      local ok, found = pcall(s.run, s, y, given)
      s:close()
      return ok and support.bits(found)
    end
    local all, some = ran(false, 'tokens', y, given).found, false
    for half = 2, 24 do
      local without = fits(false, half * 2 ^ 19)
      if without then assert.equal(all, fits(true, half * 2 ^ 19), half / 2 .. ' MB') else some = true end
    end
    assert.is_true(some)
  end)

  it('is seen in each iteration by those that look', function()
    local y = loop(4, function(z) return z + df.exp(x) end, x)
    local s = df.Session{ engine = 'tokens' }
    local _, h = pcall(s.start, s, y, feeds)
    h:wait()
    assert.equal(4, h:stats().iterations)
    local written = df.Session{ engine = 'tokens', simplify = false }
    local g = written:start(y, feeds)
    g:wait()
    assert.same(g:stats().nodes_run, h:stats().nodes_run)
    s:close() written:close()
  end)
end)

describe('random programs of tensors', function()
  --- Loops and conds in one another, whose bodies read captured tensors, each other's and their own variables.
  local function program(seed, xs)
    local r = generator(seed)
    local function pick(list) return list[r(#list)] end
    local function expression(env, depth)
      if depth == 0 then return pick(env) end
      local a, k = expression(env, depth - 1), r(8)
      if k == 1 then return df.tanh(a) end
      if k == 2 then return df.transpose(a) end
      if k == 3 then return df.tanh(a:matmul(expression(env, depth - 1))) end
      if k == 4 then return df.softmax(a) end
      if k == 5 then return a - df.reduce_mean(a, { 1 }, { keep_dims = true }) end
      if k == 6 then return df.reshape(df.reshape(a, { -1 }), { 4, 4 }) end
      return (k == 7 and df.maximum or df.add)(a, expression(env, depth - 1))
    end
    local function statement(env, depth)
      local k = depth > 0 and r(4) or 4
      if k == 1 then
        local p = df.less(df.reduce_sum(expression(env, 1)), 1)
        return df.cond(p, function() return statement(env, depth - 1) end, function() return expression(env, 1) end)
      elseif k <= 3 then
        local trips = r(4) - 1
        return loop(trips, function(v)
          local inside = { (table.unpack or unpack)(env) }
          inside[#inside + 1] = v
          for _ = 1, 2 do inside[#inside + 1] = statement(inside, depth - 1) end
          return df.tanh(inside[#inside] + expression(inside, 2))
        end, expression(env, 1))
      end
      return expression(env, 2)
    end
    return df.reduce_sum(statement(xs, 3))
  end

  it('have the same bits with and without, gradients included', function()
    local count, some = tonumber(os.getenv 'DFLOW_PROGRAMS') or 200, 0
    for seed = 1, math.floor(count / 4) do
      df.reset()
      local xs, feeds = {}, {}
      for k = 1, 3 do
        xs[k] = df.placeholder('float32', { 4, 4 })
        feeds[xs[k]] = support.tensor({ 4, 4 }, -1, 1, 'float32', seed * 3 + k)
      end
      local y = program(seed, xs)
      local g = df.gradients(y, xs, { unconnected = 'zero' })
      local fetches = { y, g[1], g[2], g[3] }
      some = some + (shared(fetches) ~= '' and 1 or 0)
      local b = ran(false, 'tokens', fetches, feeds)
      assert.same(b, ran(true, seed % 8 == 0 and 'native' or 'tokens', fetches, feeds), 'seed ' .. seed)
    end
    assert.is_true(some > count / 16, 'only ' .. some .. ' programs shared anything')
  end)
end)
