--- What TensorFlow gives at the corners: at kinks, of nothing, of infinity, and what it knows of shapes before a run.
local df = require 'dflow'
local support = require 'spec.support'
local same, near, message_of = support.same, support.near, support.message_of

describe('at a corner', function()
  it('the sigmoid cross entropy has its slope and its curvature where the logits are 0', function()
    local x = df.placeholder('float32', { 3 })
    for _, loss in ipairs{ function(labels) return df.sigmoid_cross_entropy_with_logits{ labels = labels, logits = x } end,
                           function(labels) return df.nn.sigmoid_cross_entropy(labels, x, { reduction = 'none' }) end } do
      local y = loss(df.float32{ 0, 1, 0.5 })
      local slope = df.gradients(y, x)
      near(df.run({ y, slope, df.gradients(slope, x) }, { [x] = { 0, 0, 0 } }),
           { { 0.6931472, 0.6931472, 0.6931472 }, { 0.5, -0.5, 0 }, { 0.25, 0.25, 0.25 } })
      near(df.run({ y, slope }, { [x] = { -40, 40, 2 } }), { { 0, 0, 1.126928 }, { 0, 0, 0.3807971 } })
    end
  end)

  it('a list whose norm is infinite is clipped to NaN, all of it', function()
    for _, x in ipairs(df.run((df.clip_by_global_norm({ df.float32{ 1, 1 / 0 }, df.float32{ 5 } }, 1)))) do
      for _, v in ipairs(x:totable()) do assert.is_true(v ~= v) end
    end
    near(df.run((df.clip_by_global_norm({ df.float32{ 3 }, df.float32{ 4 } }, 1))), { { 0.6 }, { 0.8 } })
  end)

  it('a sparse gradient is clipped by the norm of the rows that it has, and stays sparse', function()
    local v = df.Variable(df.ones{ 3, 2 })
    local clipped = df.clip_by_norm(df.gradients(df.gather(v, { 1, 1 }):reduce_sum(), v), 1)
    near(df.run({ clipped.values, clipped.indices }), { { { 0.5, 0.5 }, { 0.5, 0.5 } }, { 1, 1 } })
  end)

  it('lengths of 0, and none at all, make masks without columns, and repeat nothing', function()
    local n, e = df.placeholder('int32', { -1 }), df.placeholder('float32', { -1 })
    local none = df.tensor({}, 'int32', { 0 })
    same(df.run(df.shape(df.sequence_mask(n)), { [n] = { 0, 0 } }), { 2, 0 })
    same(df.run(df.shape(df.sequence_mask(n)), { [n] = none }), { 0, 0 })
    same(df.run(df.sequence_mask(n), { [n] = { 2, 0 } }), { { true, true }, { false, false } })
    same(df.run(df.shape(df.repeat_(e, 2)), { [e] = df.tensor({}, 'float32', { 0 }) }), { 0 })
  end)

  it('the loss of no examples is 0, whether that is known or not', function()
    local e = df.placeholder('float32', { -1 })
    local loss = df.nn.mean_squared_error(e, e * 2)
    same(df.run(loss, { [e] = df.tensor({}, 'float32', { 0 }) }), 0)
    same(df.run(loss, { [e] = { 1, 2 } }), 2.5)
    same(df.run(df.nn.absolute_difference(df.zeros{ 0 }, df.zeros{ 0 })), 0)
  end)

  it('labels that are a column are the numbers of classes', function()
    local logits = df.float32{ { 1, 2 }, { 3, 4 } }
    near(df.run(df.nn.sparse_softmax_cross_entropy(df.int32{ { 1 }, { 0 } }, logits)), 0.8132617)
    near(df.run(df.nn.sparse_softmax_cross_entropy(df.int32{ 1, 0 }, logits)), 0.8132617)
  end)

  it('gather begins at its batch dimensions where no axis is given', function()
    same(df.run(df.gather(df.float32{ { 1, 2 }, { 3, 4 } }, { { 0 }, { 1 } }, { batch_dims = 1 })), { { 1 }, { 4 } })
  end)
end)

describe('boolean_mask', function()
  local function cube() return df.reshape(df.range(24):cast 'float32', { 2, 3, 4 }) end

  it('takes from the axis that is named', function()
    same(df.run(df.boolean_mask(cube(), { true, false, true }, { axis = 1 })), { { { 0, 1, 2, 3 }, { 8, 9, 10, 11 } }, { { 12, 13, 14, 15 }, { 20, 21, 22, 23 } } })
    same(df.run(df.boolean_mask(cube(), { { true, false, false, true }, { false, false, false, false }, { true, false, false, false } }, { axis = 1 })),
         { { 0, 3, 8 }, { 12, 15, 20 } })
    same(df.run(df.boolean_mask(cube(), { false, true }, { axis = -3 })), { { { 12, 13, 14, 15 }, { 16, 17, 18, 19 }, { 20, 21, 22, 23 } } })
    same(df.run(df.boolean_mask(df.float32{ 1, 2, 3 }, { true, false, true })), { 1, 3 })
  end)

  it('wants a mask of the shape of what it masks', function()
    assert.matches('the mask is bool%[3%], x float32%[4%]: its dimensions from axis 0 on', message_of(df.boolean_mask, df.zeros{ 4 }, { true, false, true }))
    assert.matches('the mask is bool%[2%], x float32%[2,3,4%]: its dimensions from axis 2 on', message_of(df.boolean_mask, cube(), { true, false }, { axis = -1 }))
    assert.matches('axis %-4 is before the first axis of x, which has 3', message_of(df.boolean_mask, cube(), { true }, { axis = -4 }))
    assert.matches('axis is the number 0.5, a whole number is expected', message_of(df.boolean_mask, cube(), { true }, { axis = 0.5 }))
    assert.matches('axis %-1 counts from the end of an x whose rank is not known', message_of(df.boolean_mask, df.placeholder 'float32', { true }, { axis = -1 }))
  end)
end)

describe('what is known of a shape', function()
  it('is the size of a TensorArray that does not grow, wherever it comes from', function()
    local x = df.placeholder('float32', { 3, 4 })
    local y = df.while_loop(function(a) return a:reduce_sum():lt(50) end, function(a) return df.TensorArray('float32', 3):unstack(a * 2):stack() end, { x })
    same(y.shape, { 3, 4 })
    local _, ta = df.while_loop(function(i) return i:lt(5) end, function(i, t) return i + 1, t:write(i, df.cast(i, 'float32')) end,
                                { df.int32(0), df.TensorArray('float32', 5) })
    same(ta:stack().shape, { 5 })
    assert.equal(5, #df.unstack(ta:stack()))
    local _, nested = df.while_loop(function(i) return i:lt(3) end, function(i, t)
      return i + 1, (select(2, df.while_loop(function(j) return j:lt(2) end, function(j, u) return j + 1, u:write(i * 2 + j, 1.0) end, { df.int32(0), t })))
    end, { df.int32(0), df.TensorArray('float32', 6, { clear_after_read = false }) })
    same(nested:stack().shape, { 6 })
    local z = df.float32{ 1, 2, 3, 4 }
    local kept = df.TensorArray('float32', 4, { clear_after_read = false }):unstack(z)
    local _, sum = df.while_loop(function(i) return i:lt(3) end, function(i, a)
      return i + 1, a + (select(2, df.while_loop(function(j) return j:lt(2) end, function(j, b) return j + 1, b + kept:stack():reduce_sum() end, { df.int32(0), a })))
    end, { df.int32(0), df.float32(0) })
    same(df.run(df.gradients(sum, z)), { 14, 14, 14, 14 })
    same(df.run(ta:stack()), { 0, 1, 2, 3, 4 })
  end)

  it('is not the size of one that grows, that is another one, or may be', function()
    local function array(n, opts) return df.TensorArray('float32', n, opts) end
    same(array(0, { dynamic_size = true }):write(3, 2.0):stack().shape, { -1 })
    local function either() return df.cond(df.placeholder('bool', {}), function() return array(2):unstack{ 1, 2 } end, function() return array(3):unstack{ 1, 2, 3 } end) end
    same(either():stack().shape, { -1 })
    local inside
    local _, other = df.while_loop(function(i) return i:lt(2) end, function(i, t)
      inside = t:write(0, 1.0):stack().shape
      return i + 1, array(7):unstack{ 1, 2, 3, 4, 5, 6, 7 }
    end, { df.int32(0), array(5):unstack{ 1, 2, 3, 4, 5 } })
    same(inside, { -1 })
    same(other:stack().shape, { -1 })
    same(df.run(other:stack()), { 1, 2, 3, 4, 5, 6, 7 })
    local n = df.placeholder('int32', {})
    same(array(n):unstack(df.zeros{ 2 }):stack().shape, { -1 })
  end)

  it('is that of a scalar where all is reduced, whatever that is', function()
    local u = df.placeholder 'float32'
    for _, reduce in ipairs{ df.reduce_sum, df.reduce_mean, df.reduce_max, df.reduce_logsumexp } do same(reduce(u).shape, {}) end
    same(df.reduce_any(df.placeholder 'bool').shape, {})
    assert.is_nil(df.reduce_sum(u, 0).shape)
    assert.is_nil(df.reduce_sum(u, { keep_dims = true }).shape)
    local _, a = df.while_loop(function(i) return i:lt(2) end, function(i, a) return i + 1, a + u:reduce_sum() end, { df.int32(0), df.float32(0) })
    same(df.run(a, { [u] = { { 1, 2 }, { 3, 4 } } }), 20)
  end)

  it('leaves a product of what may be many matrices to be one of many', function()
    local u = df.placeholder 'float32'
    local y = df.matmul(u, df.ones{ 3, 4 })
    same(df.run(y, { [u] = { { { 1, 2, 3 } } } }), { { { 6, 6, 6, 6 } } })
    same(df.run(y, { [u] = { { 1, 2, 3 } } }), { { 6, 6, 6, 6 } })
    same(df.run(df.gradients(y, u), { [u] = { { 1, 2, 3 } } }), { { 4, 4, 4 } })
  end)
end)

describe('df.control_dependencies(nil, fn)', function()
  it('builds what waits for nothing that stands around', function()
    local x = df.float32(2)
    local first, free, held = df.identity(x, { name = 'first' }), nil, nil
    df.control_dependencies({ first }, function()
      df.control_dependencies(nil, function() free = x * 3 end)
      held = x * 4
    end)
    same(#free.op.control_inputs, 0)
    assert.equal('first', held.op.control_inputs[1].name)
    same(df.run({ free, held }), { 6, 8 })
    assert.matches('boom', message_of(df.control_dependencies, nil, function() error 'boom' end))
    same(#(x * 5).op.control_inputs, 0)
  end)
end)

describe('what is given to a graph', function()
  local function ident(x) return x end
  --- Calls whose argument is refused: each is made with the bad value, and says what it found.
  local function refuses(calls, value, found)
    for name, call in pairs(calls) do
      local message = message_of(call, value)
      assert(message:find(found, 1, true), name .. ': ' .. message)
    end
  end

  it('is refused where a shape has a dimension below -1, or a hole, wherever shapes are known in part', function()
    local takes = {
      placeholder = function(s) return df.placeholder('float32', s) end,
      placeholder_with_default = function(s) return df.placeholder_with_default({ 1, 2 }, s) end,
      TensorArray = function(s) return df.TensorArray('float32', 2, { element_shape = s }) end,
      FIFOQueue = function(s) return df.FIFOQueue(3, { 'float32' }, { shapes = { s } }) end,
      set_shape = function(s) return df.float32{ 1 }:set_shape(s) end,
      func = function(s) return df.func('f', { 'float32' }, ident, { shapes = { s } }) end,
      while_loop = function(s)
        return df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, { df.int32{ 0 } }, { shape_invariants = { s } })
      end,
    }
    refuses(takes, { -2 }, 'dimension 0 of the shape is the number -2, a whole number is expected, or -1 where it is not known')
    refuses(takes, { 3, nil, 2 }, 'dimension 1 of the shape is nil, a whole number is expected')
    refuses({ function(s) return df.zeros(s) end, function(s) return df.tensor(1, 'float32', s) end }, { 3, nil, 2 }, 'dimension 1 of the shape is nil')
    for _, bad in ipairs{ -1, 2 ^ 53, 1.5 } do
      refuses({ function(s) return df.tensor(1, 'float32', s) end }, { 3, bad }, 'dimension 1 of the shape is the number')
    end
  end)

  it('is refused where a name has a space, a colon or a caret, wherever names are taken', function()
    local x = df.float32(1)
    local takes = {
      name_scope = function(n) return df.name_scope(n, function() return x + 1 end) end,
      variable_scope = function(n) return df.variable_scope(n, function() return x + 1 end) end,
      get_variable = function(n) return df.get_variable(n, { 2 }) end,
      Variable = function(n) return df.Variable(1.0, { name = n }) end,
      cond = function(n) return df.cond(x:gt(0), function() return x end, function() return x end, { name = n }) end,
      while_loop = function(n)
        return df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, { df.int32(0) }, { name = n })
      end,
      map_fn = function(n) return df.map_fn(ident, df.float32{ 1 }, { name = n }) end,
      TensorArray = function(n) return df.TensorArray('float32', 2, { name = n }) end,
      FIFOQueue = function(n) return df.FIFOQueue(2, { 'float32' }, { name = n }) end,
      func = function(n) return df.func(n, { 'float32' }, ident) end,
      gradients = function(n) return df.gradients(x * x, x, { name = n }) end,
      identity = function(n) return df.identity(x, { name = n }) end,
    }
    for _, name in ipairs{ 'a b', 'a:0', 'a^b' } do refuses(takes, name, 'spaces') end
  end)

  it('is refused where a fold has neither rows nor a beginning', function()
    for _, name in ipairs{ 'foldl', 'foldr', 'scan' } do
      refuses({ function(v) return df[name](function(a, b) return a + b end, v) end }, df.float32{}, name .. ': elems has no rows, and there is no init')
    end
  end)
end)
