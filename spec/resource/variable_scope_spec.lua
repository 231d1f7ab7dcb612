-- Names of variables, and variables by name.
local df = require 'dflow'
local near = require('spec.support').near

local fails = require('spec.support').says

describe('the name of a variable', function()
  it('includes no loop, however deep it was made', function()
    local names = {}
    df.while_loop(function(i) return i:lt(2) end, function(i)
      names[1] = df.Variable(function() return df.zeros{2} end, { name = 'w' }).name
      df.name_scope('encoder', function()
        df.cond(i:gt(0), function()
          names[2] = df.name_scope('layer', function() return df.Variable(function() return df.zeros{2} end, { name = 'kernel' }).name end)
          return 1.0
        end, function() return 0.0 end)
      end)
      return i + 1
    end, { df.int32(0) })
    assert.are.same({ 'w', 'encoder/layer/kernel' }, names)
  end)

  it('is the same in the second loop written alike, but for its number', function()
    local function loop()
      local name
      df.while_loop(function(i) return i:lt(2) end, function(i)
        name = df.Variable(function() return df.zeros{2} end, { name = 'w' }).name
        return i + 1
      end, { df.int32(0) })
      return name
    end
    assert.are.same({ 'w', 'w_1' }, { loop(), loop() })
  end)

  it('includes name scopes at the top level', function()
    assert.are.equal('a/b/v', df.name_scope('a', function()
      return df.name_scope('b', function() return df.Variable(1.0, { name = 'v' }).name end)
    end))
  end)
end)

describe('get_variable', function()
  it('names by variable scopes alone', function()
    local v = df.variable_scope('a', function()
      return df.name_scope('ops', function()
        return df.variable_scope('b', function() return df.get_variable('w', { 2, 3 }) end)
      end)
    end)
    assert.are.equal('a/b/w', v.name)
    assert.are.same({ 2, 3 }, v.shape)
    assert.are.equal('float32', v.dtype)
    local w = df.while_loop(function(i) return i:lt(1) end, function(i)
      v = df.variable_scope('c', function() return df.get_variable('w', { 2 }, { initializer = 3 }) end)
      return i + 1
    end, { df.int32(0) })
    assert.are.equal('c/w', v.name)
    assert.are.equal(1, w:eval())
  end)

  it('shares where the scope reuses, and refuses where it does not', function()
    local function get(shape, opts) return df.get_variable('w', shape or { 2 }, opts) end
    local a = df.variable_scope('s', function() return get() end)
    assert.are.equal(a, df.variable_scope('s', { reuse = true }, function() return get() end))
    assert.are.equal(a, df.variable_scope('s', { reuse = 'auto' }, function() return get() end))
    fails(function() df.variable_scope('s', function() return get() end) end, 'Variable s/w already exists, disallowed')
    fails(function() df.variable_scope('t', { reuse = true }, function() return get() end) end, 'Variable t/w does not exist')
    fails(function() df.variable_scope('s', { reuse = true }, function() return get{ 3 } end) end,
                          'Trying to share variable s/w, but specified shape [3] and found shape [2]')
    fails(function() df.variable_scope('s', { reuse = true }, function() return get({ 2 }, { dtype = 'float64' }) end) end,
                          'specified dtype float64 and found dtype float32')
  end)

  it('inherits reuse, and a scope can begin to reuse', function()
    df.variable_scope('a', function(scope)
      local w = df.get_variable('w', {})
      scope:reuse_variables()
      assert.are.equal(w, df.get_variable('w', {}))
    end)
    df.variable_scope('a', { reuse = true }, function()
      fails(function() df.variable_scope('b', function() return df.get_variable('w', {}) end) end, 'does not exist')
    end)
    local scope = df.variable_scope('x', function(s) df.get_variable('w', {}) return s end)
    df.variable_scope('other', function()
      assert.are.equal('x/u', df.variable_scope(scope, function() return df.get_variable('u', {}).name end))
    end)
    assert.are.equal('plain', df.get_variable('plain', {}).name)
  end)

  it('begins with what the initializer gives', function()
    assert.are.same({ 5, 5 }, df.get_variable('a', { 2 }, { initializer = 5 }):eval():totable())
    assert.are.same({ 1, 2 }, df.get_variable('b', nil, { initializer = df.tensor{ 1.0, 2.0 } }):eval():totable())
    local c = df.get_variable('c', { 2 }, { dtype = 'float64', initializer = function(shape, dtype) return df.ones(shape, dtype) end })
    assert.are.equal('float64', c.dtype)
    assert.are.same({ 0, 0 }, df.get_variable('d', { 2 }, { dtype = 'int32' }):eval():totable())
    local limit, most = math.sqrt(6 / 50), 0
    for _, row in ipairs(df.get_variable('e', { 20, 30 }):eval():totable()) do
      for _, x in ipairs(row) do most = math.max(most, math.abs(x)) end
    end
    assert.is_true(most <= limit and most > 0.9 * limit)
    near(df.run(df.get_variable('g', { 2 }, { initializer = 'ones' })), { 1, 1 })
    near(df.run(df.cast(df.get_variable('h', { 2 }, { initializer = df.nn.initializers.ones, dtype = 'bfloat16' }), 'float32')), { 1, 1 })
    assert.equal('text', df.run(df.get_variable('s', {}, { initializer = 'text', dtype = 'string' })))
    fails(function() df.get_variable('i', { 2 }, { initializer = 'zeroes', dtype = 'float32' }) end, "there is no initializer 'zeroes'")
    fails(function() df.get_variable('nope', { initializer = 'nope' }) end, "there is no initializer 'nope'; a variable of strings has dtype = 'string'")
    fails(function() df.get_variable('near', { 2 }, { initializer = 'zero' }) end, "did you mean 'zeros'?")
    local none = select(2, pcall(df.get_variable, 'j', { 2 }, { initializer = 'values', dtype = 'float32' })).message
    assert.is_nil(none:find("'value'", 1, true))                       -- no hint at what is no initializer either
    local frozen = df.get_variable('f', {}, { trainable = false })
    for _, v in ipairs(df.trainable_variables()) do assert.are_not.equal(frozen, v) end
  end)

  it('says what is wrong with its arguments', function()
    fails(function() df.get_variable(3) end, 'takes a name')
    fails(function() df.get_variable('w') end, 'needs a shape')
    fails(function() df.get_variable('w', { 2, -1 }) end, 'dimension 1 of w is the number -1')
    fails(function() df.get_variable('w', { 2 }, { initializer = { 1, 2, 3 } }) end, 'shape [3], but shape [2]')
    fails(function() df.get_variable('w', { 2 }, { init = 1 }) end, "no option 'init'")
    fails(function() df.variable_scope('a', { reuse = 1 }, print) end, 'reuse is true, false')
    fails(function() df.variable_scope('a') end, 'takes a function')
    fails(function() df.variable_scope('a', function() error('mine') end) end, 'mine')
    assert.are.equal('w', df.get_variable('w', {}).name)
  end)
end)

describe('a shape given as several numbers', function()
  it('is an error that says to write one list', function()
    for _, name in ipairs{ 'zeros', 'ones', 'random_normal', 'truncated_normal', 'random_uniform' } do
      fails(function() df[name](3, 4) end, name .. ': 2 numbers were given; the shape is one list: write {3, 4}')
    end
    fails(function() df.fill(3, 4, 0) end, 'write {3, 4')
    assert.are.same({ 4, 4, 4 }, df.fill(3, 4):eval():totable())
    assert.are.same({ 0, 0, 0 }, df.zeros(3):eval():totable())
  end)
end)
