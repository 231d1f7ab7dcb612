-- The graph as it is built: names, scopes, what waits for what, what is known before anything runs, and what is refused.
local df = require 'dflow'
local support = require 'spec.support'
local near = support.near

local function refused(fn, ...)
  local ok, e = pcall(fn)
  assert.is_false(ok)
  for _, words in ipairs { ... } do
    assert(tostring(e):find(words, 1, true), ('%q was not said in: %s'):format(words, tostring(e)))
  end
  return e
end

describe('a name', function()
  it('is made from the type, with a number from the second on', function()
    local a, b = df.constant(1), df.constant(2)
    assert.are.equal('Const:0', a.name)
    assert.are.equal('Const_1:0', b.name)
  end)
  it('finds its node, whether or not it was asked for before', function()
    local g = df.default_graph()
    local a, b = df.constant(1), df.constant(2)
    assert.are.equal(b, g:output('Const_1:0'))
    assert.are.equal(a, g:output('Const:0'))
    refused(function() return g:output('Const_2:0') end, 'Const_2')
    refused(function() return g:output('nothing:0') end, 'nothing')
  end)
  it('that is given twice gets a number', function()
    local a = df.placeholder('float32', {}, 'x')
    local b = df.placeholder('float32', {}, 'x')
    local c = df.placeholder('float32', {}, 'x')
    assert.are.same({ 'x:0', 'x_1:0', 'x_2:0' }, { a.name, b.name, c.name })
  end)
  it('that is given never meets one that is made', function()
    local first = df.placeholder('float32', {}, 'Const_1')
    local names, seen = { first.name }, {}
    for _ = 1, 4 do names[#names + 1] = df.constant(0).name end
    names[#names + 1] = df.placeholder('float32', {}, 'Const').name
    names[#names + 1] = df.placeholder('float32', {}, 'Const_2').name
    for _, n in ipairs(names) do
      assert.is_nil(seen[n], n)
      seen[n] = true
    end
  end)
  it('begins with its scopes, and a scope entered again is another', function()
    local function two() return df.constant(1), df.constant(2) end
    local a, b = df.name_scope('layer', two)
    local c = df.name_scope('layer', two)
    local d = df.name_scope('outer', function() return df.name_scope('inner', two) end)
    assert.are.same({ 'layer/Const:0', 'layer/Const_1:0', 'layer_1/Const:0', 'outer/inner/Const:0' },
                    { a.name, b.name, c.name, d.name })
  end)
  it('with a space or a colon is refused', function()
    refused(function() return df.placeholder('float32', {}, 'a b') end, 'name')
    refused(function() return df.placeholder('float32', {}, 'a:0') end, 'name')
  end)
end)

describe('what is known while a graph is built', function()
  it('goes through shape arithmetic', function()
    local x = df.zeros { 4, 6 }
    local n = df.size(x)
    assert.are.same({ 24 }, df.reshape(x, df.expand_dims(n, 0)).shape)
    local rows = df.shape(x)[0]
    assert.are.same({ 8, 3 }, df.reshape(x, df.stack { rows * 2, df.floor_div(df.shape(x)[1], 2) }).shape)
  end)
  it('is partly known of a partly known shape', function()
    local x = df.placeholder('float32', { -1, 28 })
    local y = df.placeholder('float32', { -1, 28, 5 })
    assert.are.same({ -1, 28, 5 }, df.reshape(y, df.stack { df.shape(x)[0], df.shape(x)[1], 5 }).shape)
    assert.are.same({ -1, 28, 7 }, df.zeros(df.concat({ df.shape(x), { 7 } }, 0)).shape)
  end)
  it('is also known inside loops and branches', function()
    local n = df.int32(3)
    local shapes = {}
    df.cond(df.constant(true), function() shapes[1] = df.zeros(df.stack { n, 2 }).shape; return n end, function() return n end)
    df.while_loop(function(i) return i:lt(2) end, function(i) shapes[2] = df.zeros(df.stack { n, 4 }).shape; return i + 1 end,
                  { df.int32(0) })
    assert.are.same({ { 3, 2 }, { 3, 4 } }, shapes)
  end)
  it('does not hide an error until the run: a division by zero of constants builds', function()
    local z = df.floor_div(df.int32(1), df.int32(0))
    local ok, e = pcall(df.run, z)
    assert.is_false(ok)
    assert.are.equal('invalid_argument', e.code)
  end)
end)

describe('a control dependency', function()
  it('makes one thing wait for another', function()
    local v = df.Variable(df.int32(1))
    local set = v:assign(5)
    local read = df.control_dependencies({ set }, function() return v:value() end)
    for _ = 1, 20 do near(df.run(read), 5) end
  end)
  it('holds back a loop that is built under it', function()
    local v = df.Variable(df.int32(1))
    local set = v:assign(5)
    local out = df.control_dependencies({ set }, function()
      local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x) return i + 1, x + v end,
                                 { df.int32(0), df.int32(0) })
      return x
    end)
    for _ = 1, 20 do near(df.run(out), 15) end
  end)
  it('reaches into a loop from outside', function()
    local v = df.Variable(df.int32(1))
    local set = v:assign(5)
    local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x)
      return i + 1, df.control_dependencies({ set }, function() return x + v:value() end)
    end, { df.int32(0), df.int32(0) })
    near(df.run(x), 15)
  end)
  it('reaches into a branch from outside', function()
    local v = df.Variable(df.int32(1))
    local set = v:assign(5)
    local p = df.placeholder('bool', {})
    local x = df.cond(p, function() return df.control_dependencies({ set }, function() return v:value() end) end,
                      function() return df.int32(0) end)
    near(df.run(x, { [p] = true }), 5)
    near(df.run(x, { [p] = false }), 0)
  end)
  it('on something inside a branch is refused outside of it, with both lines', function()
    local inner
    df.cond(df.constant(true), function() inner = df.int32(1) + 1; return inner end, function() return df.int32(0) end)
    refused(function() return df.control_dependencies({ inner }, function() return df.int32(1) + 1 end) end,
            'graph_spec.lua', 'outside')
  end)
end)

describe('building', function()
  it('refuses inputs of two dtypes and names both', function()
    refused(function() return df.add(df.float32(1), df.int32(1)) end, 'float32', 'int32')
  end)
  it('says which line built the node', function()
    local e = refused(function() return df.matmul(df.zeros { 2, 3 }, df.zeros { 2, 3 }) end)
    assert(e.source:find('graph_spec.lua', 1, true), e.source)
    assert.are.equal('invalid_argument', e.code)
  end)
  it('adds nothing to the graph when a node is refused', function()
    local x = df.zeros { 2, 3 }
    pcall(df.matmul, x, x)
    assert.are.equal('MatMul:0', df.matmul(x, df.transpose(x)).name)
  end)
end)
