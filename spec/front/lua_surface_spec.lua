--- What a user of the Lua surface may rely on: the same under Lua 5.4 and LuaJIT, but where a test says otherwise.
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of

local has_integers = math.type ~= nil

describe('an Output', function()
  it('is the same Lua object at each mention, so it can be a table key', function()
    local x = df.constant({ 1.0, 2.0 }, nil, nil)
    local y = x * 2
    assert.equal(y, df.default_graph():output(y.name))
    assert.equal(x, y.op.inputs[1])
    assert.equal('kept', ({ [x] = 'kept' })[df.default_graph():output(x.name)])
  end)

  it('has op, index, dtype, shape, name and graph', function()
    local p = df.placeholder('float64', { -1, 3 }, 'p')
    assert.equal('p:0', p.name)
    assert.equal('p', p.op.name)
    assert.equal('Placeholder', p.op.type)
    assert.equal(0, p.index)
    assert.equal('float64', p.dtype)
    assert.same({ -1, 3 }, p.shape)
    assert.equal(df.default_graph(), p.graph)
    assert.is_nil(df.placeholder('int32').shape)
    assert.same({}, df.constant(1.0).shape)
  end)

  it('finds operations by name', function()
    local p = df.placeholder('float32', {}, 'here')
    assert.equal(p.op, df.default_graph():op('here'))
    assert.matches('nowhere', message_of(function() return df.default_graph():op('nowhere') end))
  end)

  it('is compared with ==, which asks whether both are the same output', function()
    local x = df.constant(1.0)
    assert.is_true(x == x)
    assert.is_false(x == df.constant(1.0))
  end)

  it('refuses < with a message that says what to write', function()
    local x, y = df.constant(1.0), df.constant(2.0)
    assert.matches('a:lt%(b%)', message_of(function() return x < y end))
    assert.matches('a:lt%(b%)', message_of(function() return x <= y end))
  end)

  it('names the near misses of a method', function()
    local x = df.constant(1.0)
    assert.matches("did you mean 'matmul'", message_of(function() return x:matmull(x) end))
    assert.matches("did you mean 'reduce_sum'", message_of(function() return df.reduce_sun(x) end))
  end)

  it('cannot be changed', function()
    local x = df.constant(1.0)
    assert.matches('cannot be changed', message_of(function() x.name = 'y' end))
  end)

  it('prints its name, type, op and source', function()
    local text = tostring(df.constant({ { 1.0, 2.0 } }) + 1)
    assert.matches('Add:0: float32%[1,2%] = Add%(Const:0, Const_1:0%)', text)
    assert.matches('lua_surface_spec%.lua:%d+$', text)
  end)
end)

describe('a number', function()
  it('is an error where the dtype cannot hold it, which names the dtype and the cast', function()
    local i = df.int32(1)
    local text = message_of(function() return i + 0.5 end)
    assert.matches('0%.5', text)
    assert.matches('int32', text)
    assert.matches('cast', text)
    assert.matches('300', message_of(function() return df.uint8(3) + 300 end))
  end)

  it('alone is int32 or float32 under Lua 5.4, float32 under LuaJIT', function()
    assert.equal(has_integers and 'int32' or 'float32', df.constant(1).dtype)
    assert.equal('float32', df.constant(1.5).dtype)
    assert.equal('bool', df.constant(true).dtype)
    assert.equal('string', df.constant('a').dtype)
    if has_integers then
      assert.equal('float32', df.constant(1.0).dtype)
      assert.equal('int64', df.constant(math.tointeger(2 ^ 40)).dtype)
      assert.equal('float32', df.constant({ 1, 2.5 }).dtype)
    end
  end)

  it('as an index, an axis or a size is int32', function()
    same(df.run(df.constant({ { 1.0, 2.0 }, { 3.0, 4.0 } }):reduce_sum(0)), { 4, 6 })
    same(df.run(df.gather(df.constant({ 1.0, 2.0, 3.0 }), 2)), 3)
    assert.equal('int32', df.range(3).dtype)
    same(df.run(df.zeros({ 2 })), { 0, 0 })
  end)

  it('comes back from a run of rank 0 as a Lua number, boolean or string', function()
    assert.equal('number', type(df.run(df.constant(1.5))))
    assert.equal(true, df.run(df.constant(1.0):lt(2)))
    assert.equal('abc', df.run(df.constant('abc')))
    assert.equal(7, df.run(df.int64(7)))
    assert.equal(1.5, df.run(df.float16(1.5)))
    assert.equal(1.5, df.run(df.bfloat16(1.5)))
    if has_integers then
      assert.equal('integer', math.type(df.run(df.int32(3))))
      assert.equal(math.maxinteger, df.run(df.int64(math.maxinteger)))
    end
  end)
end)

describe('operators', function()
  it('are elementwise and broadcast', function()
    local x = df.constant({ { 1.0, 2.0 }, { 3.0, 4.0 } })
    local y = df.constant({ 10.0, 20.0 })
    near(df.run(x + y), { { 11, 22 }, { 13, 24 } })
    near(df.run(1 - x), { { 0, -1 }, { -2, -3 } })
    near(df.run(x * x), { { 1, 4 }, { 9, 16 } })
    near(df.run(y / x), { { 10, 10 }, { 10 / 3, 5 } })
    near(df.run(x % 2), { { 1, 0 }, { 1, 0 } })
    near(df.run(-x % 3), { { 2, 1 }, { 0, 2 } })
    near(df.run(x ^ 2), { { 1, 4 }, { 9, 16 } })
    near(df.run(2 ^ x), { { 2, 4 }, { 8, 16 } })
    near(df.run(-x), { { -1, -2 }, { -3, -4 } })
  end)

  it('divide integers truly, as float32, and int64 as float64', function()
    local q = df.int32{ 1, 3 } / df.int32{ 2, 2 }
    assert.equal('float32', q.dtype)
    near(df.run(q), { 0.5, 1.5 })
    assert.equal('float64', (df.int64(1) / 2).dtype)
    near(df.run(1 / df.int32(4)), 0.25)
  end)

  it('compare through methods and functions', function()
    local x = df.constant({ 1.0, 2.0, 3.0 })
    same(df.run(x:lt(2)), { true, false, false })
    same(df.run(x:le(2)), { true, true, false })
    same(df.run(x:gt(2)), { false, false, true })
    same(df.run(x:ge(2)), { false, true, true })
    same(df.run(x:eq(2)), { false, true, false })
    same(df.run(x:ne(2)), { true, false, true })
    same(df.run(df.less(x, 2)), { true, false, false })
    same(df.run(df.logical_and(x:gt(1), x:lt(3))), { false, true, false })
    same(df.run(df.logical_not(x:gt(1))), { true, false, false })
  end)

  it('are errors between different dtypes, which name both and the cast', function()
    local text = message_of(function() return df.constant(1.0) + df.int32(1) end)
    assert.matches('float32', text)
    assert.matches('int32', text)
    assert.matches('cast', text)
  end)

  if has_integers then
    it('of Lua 5.4 work, too: // & | ~', function()
      local run = load [[
        local df, same = ...
        local i = df.int32{ 7, -7 }
        same(df.run(i // 2), { 3, -4 })
        local a, b = df.constant{ true, false }, df.constant{ true, true }
        same(df.run(a & b), { true, false })
        same(df.run(a | b), { true, true })
        same(df.run(~a), { false, true })
      ]]
      run(df, same)
    end)
  end

  it('index along axis 0 from 0', function()
    local x = df.constant({ { 1.0, 2.0 }, { 3.0, 4.0 } })
    near(df.run(x[0]), { 1, 2 })
    near(df.run(x[-1]), { 3, 4 })
    near(df.run(x[1][0]), 3)
    near(df.run(x[df.int32(1)]), { 3, 4 })
    near(df.run(x[df.int32(-1)]), { 3, 4 })
    local i = df.placeholder('int32', {})
    near(df.run(x[{ i }], { [i] = -2 }), { 1, 2 })
    assert.matches('x%[{i}%] counts', message_of(df.run, x[i], { [i] = -1 }))
    assert.matches('unstack', message_of(function() return x[2] end))
  end)
end)

describe('an op', function()
  it('is a function and a method', function()
    local x = df.constant({ { 1.0, 2.0 }, { 3.0, 4.0 } })
    near(df.run(x:matmul(x)), df.run(df.matmul(x, x)))
    near(df.run(x:reduce_sum{ axis = 0 }), { 4, 6 })
    near(df.run(df.reduce_sum(x, { axis = 1, keep_dims = true })), { { 3 }, { 7 } })
  end)

  it('takes a name', function()
    local x = df.constant({ 1.0 }, nil, nil)
    assert.equal('total:0', x:reduce_sum{ name = 'total' }.name)
    assert.equal('sum:0', df.add(x, x, { name = 'sum' }).name)
  end)

  it('refuses an unknown option and lists the known ones', function()
    local x = df.constant({ 1.0 })
    local text = message_of(function() return x:reduce_sum{ axes = 0 } end)
    assert.matches("no option 'axes'", text)
    assert.matches("did you mean 'axis'", text)
    assert.matches('keep_dims', text)
    assert.matches('transpose_a', message_of(function() return df.matmul(x, x, { transpose = true }) end))
  end)

  it('takes tables, Tensors and numbers wherever an Output is taken', function()
    near(df.run(df.matmul({ { 1, 2 } }, { { 3 }, { 4 } })), { { 11 } })
    near(df.run(df.constant({ 1.0, 2.0 }) + { 10, 20 }), { 11, 22 })
    near(df.run(df.constant({ 1.0, 2.0 }) * df.tensor({ 3, 4 }, 'float32')), { 3, 8 })
  end)

  it('packs a list that holds Outputs', function()
    local n = df.dim(df.placeholder('float32', { 2, 3 }), 1)
    same(df.run(df.reshape({ 1.0, 2, 3, 4, 5, 6 }, { n, -1 })), { { 1, 2 }, { 3, 4 }, { 5, 6 } })
  end)

  it('gives a list where the number of outputs depends on an argument', function()
    local parts = df.split(df.range(6), 3)
    assert.equal(3, #parts)
    same(df.run(parts[2]), { 2, 3 })
    local rows = df.unstack(df.constant({ { 1.0 }, { 2.0 } }))
    assert.equal(2, #rows)
    local values, places = df.top_k(df.constant({ 1.0, 5.0, 3.0 }), 2)
    same(df.run{ values, places }[1], { 5, 3 })
    same(df.run(places), { 1, 2 })
  end)

  it('is found by dtype name: df.int32(v) makes a constant and casts an Output', function()
    assert.equal('int8', df.int8(3).dtype)
    assert.equal('float64', df.float64(df.int32(3)).dtype)
    assert.equal('float32', df.int32(3):float32().dtype)
  end)
end)

describe('df.dim', function()
  it('is a constant where the dimension is known, and an op where it is not', function()
    local x = df.placeholder('float32', { -1, 3 })
    assert.equal('Const', df.dim(x, 1).op.type)
    same(df.run(df.dim(x, 0), { [x] = { { 1, 2, 3 }, { 4, 5, 6 } } }), 2)
    same(df.run(df.dim(x, -1)), 3)
    assert.equal('int32', df.dim(x, 0).dtype)
  end)
end)

describe('a Tensor', function()
  it('is made of tables that a reader of JSON gave a metatable', function()
    local function tagged(t) return setmetatable(t, { __jsontype = 'array' }) end
    local t = df.tensor(tagged{ tagged{ 1, 2 }, tagged{ 3, 4 } }, 'float32', tagged{ 4 })
    assert.same({ 1, 2, 3, 4 }, t:totable())
    local x = df.placeholder('float32', tagged{ -1 })
    assert.equal(3, df.run(df.reduce_sum(tagged{ 1, 2 })))
    assert.same({ 1, 2 }, df.run(tagged{ x }, tagged{ [x] = tagged{ 1, 2 } }, tagged{ timeout = 5 })[1]:totable())
  end)

  it('keeps whole numbers beyond 2^53', function()
    local t = df.cast(df.constant(2 ^ 52, 'int64') * df.constant(2, 'int64') + df.constant(1, 'int64'), 'int64')
    assert.equal('9007199254740993', (tostring(df.run(t)):gsub('LL$', '')))
  end)

  it('has dtype, shape, rank and size', function()
    local t = df.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, 'float32')
    assert.equal('float32', t.dtype)
    assert.same({ 2, 3 }, t.shape)
    assert.equal(2, t.rank)
    assert.equal(6, t.size)
  end)

  it('gives its elements: totable, item, at', function()
    local t = df.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, 'int32')
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, t:totable())
    assert.equal(6, t:at(1, 2))
    assert.equal(5, t:at(-1, -2))
    assert.same({ 4, 5, 6 }, t:at(1):totable())
    assert.equal(7, df.tensor({ { 7 } }):item())
    assert.equal('out_of_range', (select(2, pcall(t.at, t, 2, 0))).code)
    assert.matches('one element', message_of(t.item, t))
  end)

  it('is reshaped and cast into a new one', function()
    local t = df.tensor({ 1.5, 2.5, -1.5, 0 }, 'float32')
    assert.same({ { 1.5, 2.5 }, { -1.5, 0 } }, t:reshape{ 2, -1 }:totable())
    assert.same({ 1, 2, -1, 0 }, t:astype('int32'):totable())
    assert.matches('4 elements', message_of(t.reshape, t, { 3 }))
  end)

  it('can be empty, boolean, or of strings', function()
    assert.same({ 0 }, df.tensor({}).shape)
    assert.same({ true, false }, df.tensor({ true, false }):totable())
    assert.same({ 'a', 'b\0c' }, df.tensor({ 'a', 'b\0c' }):totable())
    assert.same({ 2, 0 }, df.tensor({ {}, {} }).shape)
  end)

  it('must be rectangular and of one kind', function()
    assert.matches('rectangular', message_of(df.tensor, { { 1, 2 }, { 3 } }))
    assert.matches('rectangular', message_of(df.tensor, { 1, { 2 } }))
    assert.matches('both', message_of(df.tensor, { 1, 'a' }))
    assert.matches('rank 9', message_of(df.tensor, { { { { { { { { { 1 } } } } } } } } }))
  end)

  it('prints as NumPy does, large ones in summary', function()
    assert.equal('[[ 1  2]\n [-3 40]] int32[2,2]', tostring(df.tensor({ { 1, 2 }, { -3, 40 } }, 'int32')))
    assert.equal('[0.5 1.0] float32[2]', tostring(df.tensor({ 0.5, 1 }, 'float32')))
    assert.equal('[1. 2.] float32[2]', tostring(df.tensor({ 1, 2 }, 'float32')))
    local long = tostring(df.run(df.range(5000)))
    assert.matches('^%[   0    1    2 %.%.%. 4997 4998 4999%] int32%[5000%]$', long)
  end)

  it('never changes', function()
    assert.matches('never changes', message_of(function() df.tensor({ 1 }).x = 1 end))
  end)
end)

describe('memory', function()
  it('of a dflow that is loaded anew, as a notebook does it, is given back, whatever C was given to call', function()
    local path = os.tmpname()
    shell.write(path, [[
      local function load_anew()
        for name in pairs(package.loaded) do if name:find '^dflow' then package.loaded[name] = nil end end
        local df = require 'dflow'
        local x = df.float32(2)
        local square = df.custom_gradient(function(u) return u * u, function(dy) return dy * u * 3 end end)
        local twice = df.lua_func(function(u) return u * 2 end, { x }, { 'float32' })
        for _, v in ipairs(df.run{ twice, df.gradients(square(x), x) }) do io.write(('%g '):format(v)) end
      end
      for _ = 1, 3 do load_anew() end
      collectgarbage() collectgarbage()
      local before = collectgarbage 'count'
      for _ = 1, 10 do load_anew() end
      collectgarbage() collectgarbage()
      print(collectgarbage 'count' - before < 500 or collectgarbage 'count' - before)
    ]])
    local r = shell.run(shell.lua .. ' ' .. path)
    os.remove(path)
    assert.equal('', r.err)
    assert.equal(('4 6 '):rep(13) .. 'true\n', r.out)
  end)

  it('of temporaries does not grow: the collector knows of tensor bytes', function()
    local x = df.zeros({ 256, 1024 }) + df.placeholder_with_default(1.0, {})
    for _ = 1, 20 do df.run(x) end
    collectgarbage()
    local before = df.stats().memory['cpu:0'].in_use
    local most = 0
    for _ = 1, 400 do
      df.run(x)
      most = math.max(most, df.stats().memory['cpu:0'].in_use)
    end
    assert.is_true(most - before < 128 * 2 ^ 20, ('grew by %.0f MB'):format((most - before) / 2 ^ 20))
  end)
end)
