-- TensorArray: arrays inside a graph, their methods, their gradients, what they refuse, what they cost.
local df = require 'dflow'
local support = require 'spec.support'
local shell = require 'spec.shell'
local near = support.near

local function f64(v) return df.constant(v, 'float64') end
local function rows(t, opts)
  opts = opts or {}
  return df.TensorArray('float64', opts.size or df.dim(t, 0), opts):unstack(t)
end
local fails = require('spec.support').fails

describe('TensorArray', function()
  describe('writes and reads', function()
    it('scalars of every number dtype', function()
      for _, dtype in ipairs { 'float32', 'float64', 'float16', 'bfloat16', 'int8', 'uint8', 'int32', 'int64' } do
        local ta = df.TensorArray(dtype, 3)
        for i = 0, 2 do ta = ta:write(i, df.constant(i + 5, dtype)) end
        near(df.run({ ta:read(0), ta:read(2), ta:stack() }), { 5, 7, { 5, 6, 7 } })
        assert.are.equal(dtype, df.run(ta:stack()).dtype)
      end
    end)
    it('booleans and strings', function()
      local b = df.TensorArray('bool', 2):write(0, true):write(1, false)
      near(df.run({ b:read(0), b:stack() }), { true, { true, false } })
      local s = df.TensorArray('string', 2):write(1, 'two'):write(0, 'one')
      near(df.run({ s:read(1), s:stack() }), { 'two', { 'one', 'two' } })
      local u = df.TensorArray('string', 2):unstack(df.constant({ { 'a', 'b' }, { 'c', '' } }))
      near(df.run({ u:read(1), u:stack(), u:gather({ 1, 0 }) }), { { 'c', '' }, { { 'a', 'b' }, { 'c', '' } }, { { 'c', '' }, { 'a', 'b' } } })
    end)
    it('tensors, and gives back the very element', function()
      local ta = df.TensorArray('float32', 2):write(1, { 1, 2, 3 }):write(0, { 4, 5, 6 })
      near(df.run({ ta:read(1), ta:read(1), ta:read(0) }), { { 1, 2, 3 }, { 1, 2, 3 }, { 4, 5, 6 } })
    end)
    it('in any order, with int64 indices too', function()
      local ta = df.TensorArray('int32', 3):write(2, 30):write(0, 10):write(df.int64(1), 20)
      near(df.run(ta:stack()), { 10, 20, 30 })
    end)
    it('in arrays that grow', function()
      local ta = df.TensorArray('int32', 0, { dynamic_size = true })
      near(df.run(ta:size()), 0)
      ta = ta:write(2, 3):write(0, 1)
      near(df.run(ta:size()), 3)
      ta = ta:write(1, 2)
      near(df.run(ta:stack()), { 1, 2, 3 })
    end)
    it('far apart without making what lies between', function()
      local ta = df.TensorArray('int32', 0, { dynamic_size = true }):write(1000000000, 7)
      near(df.run({ ta:size(), ta:read(1000000000) }), { 1000000001, 7 })
    end)
    it('copies, which count what they save as the array does', function()
      local registry = require 'dflow.front.registry'
      local arrays = require 'dflow.front.tensor_array'
      for saved, counted in pairs{ [true] = 2, [false] = 0 } do
        local d = df.TensorArray('float32', 1).d
        local made = arrays.wrap(registry.op('TensorArray', { df.int32(3) }, { dtype = 'float32', saved = saved }), d, 'acts')
        local copy = arrays.wrap(registry.op1('TensorArrayCopy', made:write(0, 1).handle), d, 'acts')
        local h = df.start({ copy:write(1, 5):read(1), copy:read(0) })
        near(h:wait(), { 5, 1 })
        assert.are.same({ counted, counted }, { h:stats().stack_pushes, h:stats().stack_pops })
      end
    end)
    it('makes a new array each time it runs', function()
      local x = df.placeholder('float32', {})
      local ta = df.TensorArray('float32', 1):write(0, x)
      for i = 1, 3 do near(df.run(ta:read(0), { [x] = i }), i) end
    end)
    it('makes a new array in each iteration', function()
      local _, sum = df.while_loop(function(i) return i:lt(5) end, function(i, sum)
        local ta = df.TensorArray('float32', 2):write(0, df.cast(i, 'float32')):write(1, 1)
        return i + 1, sum + ta:read(0) + ta:read(1)
      end, { df.int32(0), df.float32(0) })
      near(df.run(sum), 15)
    end)
  end)

  describe('as a whole', function()
    it('is unstacked and stacked, whatever the alignment of the rows', function()
      for _, width in ipairs { 1, 3, 16, 17, 32, 100 } do
        local t = support.tensor({ 4, width }, -1, 1)
        local x = df.placeholder('float64', { 4, width })
        local ta = rows(x)
        local found = df.run({ ta:stack(), ta:read(2), ta:gather({ 3, 0, 3 }) }, { [x] = t })
        local list = t:totable()
        near(found, { list, list[3], { list[4], list[1], list[4] } })
      end
    end)
    it('is a vector of scalars', function()
      local ta = rows(f64 { 1, 2, 3 })
      near(df.run({ ta:read(1), ta:stack(), ta:gather({ 2, 2 }) }), { 2, { 1, 2, 3 }, { 3, 3 } })
    end)
    it('takes fewer rows than it has locations', function()
      local ta = df.TensorArray('int32', 4):unstack({ 1, 2 }):write(3, 4):write(2, 3)
      near(df.run(ta:stack()), { 1, 2, 3, 4 })
    end)
    it('grows by unstack and goes on growing', function()
      local ta = df.TensorArray('int32', 0, { dynamic_size = true }):unstack({ 1, 2, 3 }):write(3, 4)
      near(df.run({ ta:size(), ta:stack() }), { 4, { 1, 2, 3, 4 } })
    end)
    it('is scattered to and gathered from', function()
      local ta = df.TensorArray('int32', 5):scatter({ 4, 0, 2 }, { { 1, 1 }, { 2, 2 }, { 3, 3 } })
      near(df.run(ta:gather({ 2, 4, 0 })), { { 3, 3 }, { 1, 1 }, { 2, 2 } })
    end)
    it('is split and concatenated, empty parts included', function()
      local t = df.float32 { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } }
      local ta = df.TensorArray('float32', 3):split(t, { 1, 0, 3 })
      near(df.run({ ta:read(0), ta:concat(), ta:size() }), { { { 1, 2 } }, { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } }, 3 })
      local empty, rest = df.unpack(df.run({ ta:read(1), ta:read(2) }))
      near(empty.shape, { 0, 2 })
      near(rest, { { 3, 4 }, { 5, 6 }, { 7, 8 } })
    end)
    it('holds elements of shapes that vary where element_shape says so', function()
      local ta = df.TensorArray('float32', 2, { element_shape = { -1 } }):write(0, { 1, 2 }):write(1, { 3 })
      near(df.run({ ta:read(0), ta:read(1), ta:concat() }), { { 1, 2 }, { 3 }, { 1, 2, 3 } })
    end)
    it('stacks an empty array where the element shape is known', function()
      near(df.run(df.TensorArray('float32', 0, { element_shape = { 2, 3 } }):stack()).shape, { 0, 2, 3 })
      near(df.run(df.TensorArray('float32', 0):unstack(df.zeros { 0, 3 }):stack()).shape, { 0, 3 })
    end)
    it('stacks an empty array whose element shape was told by what was unstacked', function()
      local n, t = df.placeholder('int32', {}), df.placeholder('float32', { -1, 3 })
      local ta = df.TensorArray('float32', n):unstack(t)
      local none = df.run(df.zeros{ 0, 3 })
      local r = df.run({ ta:stack(), ta:gather(df.zeros({ 0 }, 'int32')), ta:size() }, { [n] = 0, [t] = none })
      assert.are.same({ { 0, 3 }, { 0, 3 }, 0 }, { r[1].shape, r[2].shape, r[3] })
    end)
    it('stacks, gathers and joins nothing where a loop without a trip would have told the element shape', function()
      local n = df.placeholder('int32', {})
      local _, ta = df.while_loop(function(i) return i:lt(n) end, function(i, ta) return i + 1, ta:write(i, df.ones{ 2, 3 }) end,
        { df.int32(0), df.TensorArray('float32', n) })
      local shapes, joined = {}, { ta:stack(), ta:gather(df.zeros({ 0 }, 'int32')), ta:concat() }
      for i, made in ipairs(df.run(joined, { [n] = 0 })) do
        shapes[i] = made.shape
        assert.matches('dtype=float32', require('dflow.backend').node_attrs_text(joined[i].graph.handle, joined[i].node))
      end
      assert.are.same({ { 0, 2, 3 }, { 0, 2, 3 }, { 0, 3 } }, shapes)
    end)
    it('tells a static shape that holds for what is joined, as for what is stacked and gathered', function()
      local parts = df.TensorArray('float32', 3):split({ { 0 }, { 1 }, { 2 }, { 3 }, { 4 }, { 5 } }, { 1, 2, 3 })
      local alike = df.TensorArray('float32', 2):write(0, { { 1, 2 } }):write(1, { { 3, 4 } })
      for _, y in ipairs{ parts:concat(), alike:concat(), alike:stack(), alike:gather{ 1 }, alike:gather{ 1, 0, 1 }, alike:read(0) } do
        local known, is = y.shape, df.run(y).shape
        assert.equal(#is, #known)
        for d, size in ipairs(known) do assert(size == -1 or size == is[d], ('%s is %s'):format(tostring(y), table.concat(is, ','))) end
      end
    end)
    it('knows element shapes while the graph is built', function()
      local ta = df.TensorArray('float32', 3):write(0, { 1, 2 })
      near(ta:read(0).shape, { 2 })
      near(ta:stack().shape, { 3, 2 })
      near(ta:gather({ 0, 0 }).shape, { 2, 2 })
    end)
    it('is collected by a loop', function()
      local _, ta = df.while_loop(function(i) return i:lt(5) end, function(i, ta)
        return i + 1, ta:write(i, df.stack { df.cast(i, 'float32'), 1 })
      end, { df.int32(0), df.TensorArray('float32', 5) })
      near(df.run(ta:stack()), { { 0, 1 }, { 1, 1 }, { 2, 1 }, { 3, 1 }, { 4, 1 } })
    end)
    it('is read backwards with another parallel_iterations', function()
      for _, parallel in ipairs { 1, 2, 32 } do
        local x = rows(f64 { 1, 2, 3, 4 })
        local _, ta = df.while_loop(function(i) return i:lt(4) end, function(i, ta)
          return i + 1, ta:write(3 - i, x:read(i) * 10)
        end, { df.int32(0), df.TensorArray('float64', 4) }, { parallel_iterations = parallel })
        near(df.run(ta:stack()), { 40, 30, 20, 10 })
      end
    end)
  end)

  describe('refuses', function()
    it('a second write to a location, naming array and index', function()
      fails(function() df.run(df.TensorArray('float32', 3, { name = 'acts' }):write(1, 1):write(1, 2):size()) end,
            'invalid_argument', "'acts'", 'index 1', 'second time')
      fails(function() df.run(df.TensorArray('float32', 3, { name = 'acts' }):unstack({ 1, 2, 3 }):write(1, 2):size()) end,
            'invalid_argument', "'acts'", 'index 1', 'second time')
    end)
    it('a second write in a loop, naming frame and iteration', function()
      local e = fails(function()
        local _, ta = df.while_loop(function(i) return i:lt(10) end, function(i, ta)
          return i + 1, ta:write(df.minimum(i, 6), 1)
        end, { df.int32(0), df.TensorArray('float32', 10, { name = 'acts' }) }, { name = 'walk' })
        df.run(ta:size())
      end, 'invalid_argument', "'acts'", 'index 6', 'walk:7', 'tensor_array_spec.lua')
      assert(e.frame:find('walk:7', 1, true))
    end)
    it('to read what was never written', function()
      fails(function() df.run(df.TensorArray('float32', 3, { name = 'acts' }):read(2)) end, 'invalid_argument', "'acts'", 'index 2', 'never written')
      fails(function() df.run(df.TensorArray('float32', 3, { name = 'acts' }):write(0, 1):write(2, 1):stack()) end,
            'invalid_argument', "'acts'", 'index 1', 'never written')
    end)
    it('an index outside the array', function()
      fails(function() df.run(df.TensorArray('float32', 3, { name = 'acts' }):read(3)) end, 'out_of_range', "'acts'", 'index 3', '3 locations')
      fails(function() df.run(df.TensorArray('float32', 3, { name = 'acts' }):write(5, 1):size()) end, 'out_of_range', "'acts'", 'index 5', 'dynamic_size')
      fails(function() df.run(df.TensorArray('float32', 3):read(-1)) end, 'out_of_range', 'index -1')
      fails(function() df.run(df.TensorArray('float32', 0, { dynamic_size = true }):write(-2, 1):size()) end, 'out_of_range', 'index -2')
      fails(function() df.run(df.TensorArray('float32', 2):unstack({ 1, 2, 3 }):size()) end, 'out_of_range', 'index 2')
      fails(function() df.run(df.TensorArray('float32', 2):unstack({ 1, 2 }):gather({ 0, 2 })) end, 'out_of_range', 'index 2')
    end)
    it('to read from a copy what had been cleared before', function()
      local registry = require 'dflow.front.registry'
      local arrays = require 'dflow.front.tensor_array'
      for shape, elements in pairs{ { 1.0, 2.0 }, { { 1.0, 2.0 }, { 3.0 } } } do           -- packed, and tensors of several shapes
        local ta = df.TensorArray('float32', 2, { name = 'acts', clear_after_read = true, element_shape = ({ {}, { -1 } })[shape] })
        for i, v in ipairs(elements) do ta = ta:write(i - 1, df.float32(v)) end
        local first = ta:read(0)
        local copy = df.control_dependencies({ first }, function()
          return arrays.wrap(registry.op1('TensorArrayCopy', ta.handle), ta.d, 'acts')
        end)
        local later = df.control_dependencies({ copy.handle }, function() return { copy:read(1), ta:read(1) } end)
        near(df.run({ first, later[1], later[2] }), { elements[1], elements[2], elements[2] })
        fails(function() df.run(copy:read(0)) end, 'invalid_argument', 'index 0', 'cleared')
      end
    end)
    it('to read twice what is cleared after reading', function()
      fails(function()
        local ta = df.TensorArray('float32', 1, { name = 'acts', clear_after_read = true }):write(0, 1)
        local first = ta:read(0)
        df.run(df.control_dependencies({ first }, function() return ta:read(0) end))
      end, 'invalid_argument', "'acts'", 'index 0', 'cleared')
    end)
    it('elements of another shape, when built and when run', function()
      fails(function() df.TensorArray('float32', 2, { name = 'acts' }):write(0, { 1, 2 }):write(1, { 1, 2, 3 }) end,
            'invalid_argument', "'acts'", '[2]', '[3]', 'element_shape', 'tensor_array_spec.lua')
      local p = df.placeholder('float32', nil)
      fails(function() df.run(df.TensorArray('float32', 2, { name = 'acts' }):write(0, { 1, 2 }):write(1, p):size(), { [p] = { 1, 2, 3 } }) end,
            'invalid_argument', "'acts'", '[2]', '[3]', 'index 1')
    end)
    it('elements of another dtype', function()
      fails(function() df.TensorArray('float32', 2, { name = 'acts' }):write(0, df.int32(1)) end, 'invalid_argument', 'float32', 'int32')
    end)
    it('an index that is no scalar, indices and lengths that are no vector, and rows of a scalar, while the graph is built', function()
      local registry = require 'dflow.front.registry'
      local ta = df.TensorArray('float32', 2, { name = 'acts' }):unstack{ { 1, 2 }, { 3, 4 } }
      local x = df.placeholder('float32', { 1, 2 })
      for words, refused in pairs{
        ['size is int32[1] but must be a scalar'] = function() df.TensorArray('float32', { 3 }) end,
        ['index is int32[1] but must be a scalar'] = function() ta:write({ 0 }, { 1, 2 }) end,
        ['index is int32[2] but must be a scalar'] = function() ta:read{ 0, 1 } end,
        ['count is int32[1] but must be a scalar'] = function()
          registry.op('TensorArrayTake', { ta.handle, df.int32{ 1 } }, { dtype = 'float32' })
        end,
        ['indices is int32[] but must be a vector'] = function() ta:gather(0) end,
        ['indices is int32[1,1] but must be a vector'] = function() ta:scatter({ { 0 } }, x) end,
        ['lengths is int32[] but must be a vector'] = function() ta:split(x, 3) end,
        ["'acts': indices is [2] but must have one index for each row of [1,2]"] = function() ta:scatter({ 0, 1 }, x) end,
        ["'acts': a scalar has no rows to make elements of"] = function() ta:unstack(1) end,
      } do
        fails(refused, 'invalid_argument', words, 'tensor_array_spec.lua')
      end
      fails(function() ta:scatter({ 0 }, 1) end, 'invalid_argument', 'a scalar has no rows')
      fails(function() ta:split(1, { 1 }) end, 'invalid_argument', 'a scalar has no rows')
      fails(function() df.TensorArray('float32', 2):unstack{ 1, 2 }:concat() end, 'invalid_argument', 'its elements are scalars')
    end)
    it('a negative size', function()
      local n = df.placeholder('int32', {})
      fails(function() df.TensorArray('float32', -1) end, 'invalid_argument', '-1')
      fails(function() df.run(df.TensorArray('float32', n, { name = 'acts' }):size(), { [n] = -4 }) end, 'invalid_argument', "'acts'", '-4')
    end)
    it('to stack elements of different shapes', function()
      fails(function()
        df.run(df.TensorArray('float32', 2, { element_shape = { -1 }, name = 'acts' }):write(0, { 1 }):write(1, { 1, 2 }):stack())
      end, 'invalid_argument', "'acts'", 'index 1')
    end)
    it('lengths that do not add up', function()
      fails(function() df.run(df.TensorArray('float32', 2):split({ 1, 2, 3 }, { 1, 1 }):size()) end, 'invalid_argument', 'add up to 2', '3 rows')
      fails(function() df.run(df.TensorArray('float32', 3):split({ 1, 2, 3 }, { 1, 2 }):size()) end, 'invalid_argument', '3 locations', '2 lengths')
    end)
    it('to stack nothing of unknown shape', function()
      fails(function() df.run(df.TensorArray('float32', 0, { name = 'acts' }):stack()) end, 'invalid_argument', "'acts'", 'element_shape')
    end)
  end)

  describe('has gradients of both orders', function()
    local function check(name, fn, tensors, order)
      it(name, function() support.check_gradient(fn, tensors, { order = order or 2, what = name }) end)
    end
    local x = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } }
    check('write and read', function(a, b)
      local ta = df.TensorArray('float64', 2):write(0, a * b):write(1, a)
      return ta:read(0) * ta:read(1)
    end, { { 1, 2 }, { 3, 4 } })
    check('scalars', function(a)
      local ta = df.TensorArray('float64', 2):write(0, a):write(1, a * a)
      return ta:read(0) * ta:read(1)
    end, { 3 })
    check('a location read twice', function(a)
      local ta = df.TensorArray('float64', 1):write(0, a)
      return ta:read(0) * ta:read(0) + ta:read(0)
    end, { { 1, 2 } })
    check('stack', function(a, b) return (df.TensorArray('float64', 2):write(0, a):write(1, b):stack()) ^ 2 end, { { 1, 2 }, { 3, 4 } })
    check('unstack, with rows without readers', function(t)
      local ta = rows(t)
      return ta:read(0) * ta:read(2)
    end, { x })
    check('unstack of scalars', function(t)
      local ta = rows(t)
      return ta:read(0) * ta:read(2) + ta:read(2)
    end, { { 1, 2, 3 } })
    check('unstack into a longer array', function(t)
      local ta = df.TensorArray('float64', 5):unstack(t):write(3, t[0] * 2):write(4, t[1])
      return ta:stack() ^ 2
    end, { x })
    check('gather of a row twice', function(t) return rows(t):gather({ 1, 1, 2 }) ^ 2 end, { x })
    check('scatter', function(t)
      local ta = df.TensorArray('float64', 4):scatter({ 3, 0, 2 }, t)
      return ta:read(3) * ta:read(0)
    end, { x })
    check('split, with a part without readers', function(t)
      local ta = df.TensorArray('float64', 3):split(t, { 1, 0, 2 })
      return ta:read(2) ^ 2
    end, { x })
    check('concat', function(t)
      local ta = df.TensorArray('float64', 2, { element_shape = { -1, 3 } }):write(0, t * t):write(1, df.expand_dims(t[0], 0))
      return ta:concat() ^ 2
    end, { x })
    check('split and concat', function(t) return df.TensorArray('float64', 2):split(t, { 2, 1 }):concat() ^ 3 end, { x })
    check('stack and read of one array', function(t)
      local ta = rows(t * t)
      return df.reduce_sum(ta:stack() ^ 2) + df.reduce_sum(ta:read(1) * ta:read(2))
    end, { x })
    check('stack twice', function(t)
      local ta = rows(t)
      return ta:stack() * ta:stack() + ta:stack()
    end, { x })
    check('writes that branch from one array', function(t)
      local ta = df.TensorArray('float64', 5):unstack(t)
      local left, right = ta:write(3, t[0] * t[1]), ta:write(4, t[1] * t[2])
      local both = df.control_dependencies({ left:size(), right:size() }, function() return ta:read(1) end)
      return left:read(3) * right:read(4) * both + left:read(0) * right:read(2) + ta:read(0) ^ 2
    end, { x })
    check('a loop that reads an array that is stacked too', function(t)
      local ta = rows(t)
      local _, h = df.while_loop(function(i) return i:lt(3) end, function(i, h) return i + 1, h + ta:read(i) ^ 3 + ta:read(0) * ta:read(i) end,
                                 { df.int32(0), f64 { 1, 1, 1 } })
      return h * df.reduce_sum(ta:stack() ^ 2)
    end, { x })
    check('a loop that reads', function(t)
      local ta = rows(t)
      local _, h = df.while_loop(function(i) return i:lt(3) end, function(i, h) return i + 1, h * ta:read(i) + 1 end,
                                 { df.int32(0), f64 { 1, 1, 1 } })
      return h
    end, { x })
    check('a loop that writes', function(a)
      local _, _, ta = df.while_loop(function(i) return i:lt(4) end, function(i, h, ta) return i + 1, h * a, ta:write(i, h * h) end,
                                     { df.int32(0), a, df.TensorArray('float64', 4) })
      return ta:stack()
    end, { { 0.5, 1.5 } })
    check('a loop that reads what it wrote', function(a)
      local _, ta = df.while_loop(function(i) return i:lt(5) end, function(i, ta)
        return i + 1, ta:write(i, ta:read(i - 1) * ta:read(i - 2) * a)
      end, { df.int32(2), df.TensorArray('float64', 5):write(0, a):write(1, a * 2) })
      return ta:stack()
    end, { 0.9 })
    check('a growing array, with zero trips as well', function(t)
      local outs = {}
      for trips = 0, 3, 3 do
        local _, ta = df.while_loop(function(i) return i:lt(trips) end, function(i, ta) return i + 1, ta:write(i, t[i] * t[i]) end,
                                    { df.int32(0), df.TensorArray('float64', 0, { dynamic_size = true, element_shape = { 3 } }) })
        outs[#outs + 1] = ta:stack()
      end
      return df.unpack(outs)
    end, { x })
    check('an array made in each branch of a cond', function(a)
      local function both(p)
        local ta = df.cond(p, function() return df.TensorArray('float64', 2):write(0, a):write(1, a * a) end,
                           function() return df.TensorArray('float64', 2):write(0, a * 3):write(1, a) end)
        return ta:stack()
      end
      return both(df.constant(true)) * both(df.constant(false))
    end, { { 1, 2 } })
    check('an array read in the taken branch only', function(a)
      local ta = df.TensorArray('float64', 2):write(0, a):write(1, a * a)
      return df.cond(df.reduce_sum(a):gt(0), function() return ta:read(1) * ta:read(0) end, function() return ta:read(0) end)
    end, { { 1, 2 } })
    check('nested loops with an array per outer iteration', function(a)
      local _, sum = df.while_loop(function(i) return i:lt(3) end, function(i, sum)
        local _, ta = df.while_loop(function(j) return j:lt(i + 1) end, function(j, ta)
          return j + 1, ta:write(j, a * df.cast(j + 1, 'float64') + sum)
        end, { df.int32(0), df.TensorArray('float64', i + 1) })
        return i + 1, sum + df.reduce_sum(ta:stack() ^ 2) * 0.1
      end, { df.int32(0), f64(0.5) })
      return sum
    end, { 0.7 })
  end)

  describe('gives its gradient array', function()
    it('that adds up what is written and reads zeros elsewhere', function()
      local ta = df.TensorArray('float32', 3):unstack({ { 1, 2 }, { 3, 4 }, { 5, 6 } })
      local g = ta:grad('mine')
      g = g:write(1, { 1, 1 }):write(1, { 2, 3 })
      near(df.run({ g:read(1), g:read(0), g:stack() }), { { 3, 4 }, { 0, 0 }, { { 0, 0 }, { 3, 4 }, { 0, 0 } } })
    end)
    it('that is found again by its name', function()
      local ta = df.TensorArray('float32', 2):unstack({ 1, 2 })
      local first = ta:grad('mine'):write(0, 5)
      local second = df.control_dependencies({ first:size() }, function() return ta:grad('mine') end)
      near(df.run(second:read(0)), 5)
      local other = df.control_dependencies({ first:size() }, function() return ta:grad('other') end)
      near(df.run(other:read(0)), 0)
    end)
    it('that is as long as the longer of the two, where they grow', function()
      local ta = df.TensorArray('float32', 1, { dynamic_size = true }):write(0, 1)
      local g = ta:grad('mine')
      local before, longer = g:size(), df.control_dependencies({ g:size() }, function() return g:write(3, 4) end)
      local rows = longer:stack()
      local grown = df.control_dependencies({ rows, before }, function() return ta:write(5, 1) end)
      local after = df.control_dependencies({ grown:size() }, function() return { g:size(), longer:stack(), ta:size() } end)
      near(df.run{ before, rows, after[1], after[2], after[3] }, { 1, { 0, 0, 0, 4 }, 6, { 0, 0, 0, 4, 0, 0 }, 6 })
    end)
    it('with zeros of the shape of what was there, where that was read and cleared', function()
      for _, engine in ipairs{ 'tokens', 'native' } do
        for _, value in ipairs{ 2, { 1, 2, 3 } } do
          df.reset()
          local n, v, s = 2000, df.placeholder('float32', type(value) == 'table' and { 3 } or {}), df.Session{ engine = engine }
          local _, ta = df.while_loop(function(i) return i:lt(n) end, function(i, ta) return i + 1, ta:write(i, v * df.cast(i, 'float32')) end,
                                      { df.int32(0), df.TensorArray('float32', n, { clear_after_read = true, element_shape = type(value) == 'table' and { -1 } or nil }) })
          local first = ta:read(1)
          local g = df.control_dependencies({ first }, function() return ta:grad('mine') end)
          local fed = df.run(df.constant(value, 'float32'))
          for _ = 1, 3 do
            local r = s:run({ first, g:read(1), g:read(2) }, { [v] = fed })
            near(r, { value, type(value) == 'table' and { 0, 0, 0 } or 0, type(value) == 'table' and { 0, 0, 0 } or 0 })
          end
          s:close()
        end
      end
    end)
    it('whose sums leave what was written alone', function()
      local ta = df.TensorArray('float32', 2):unstack({ { 1, 2 }, { 3, 4 } })
      local v = df.placeholder('float32', { 2 })
      local g = ta:grad('mine'):write(0, v):write(0, v)
      near(df.run({ g:read(0), v }, { [v] = { 1, 2 } }), { { 2, 4 }, { 1, 2 } })
    end)
  end)

  describe('costs little', function()
    support.one_owner_it(it, pending)('for a million scalars: at most 12 bytes each', function()
      local r = shell.run(shell.dflow .. [[ -e "
        local df = require 'dflow'
        local n = 1000000
        local _, ta = while_loop(function(i) return i:lt(n) end, function(i, ta) return i + 1, ta:write(i, df.cast(i, 'float32')) end,
                                 {df.int32(0), TensorArray('float32', 0, {dynamic_size = true})})
        local last = ta:read(n - 1)
        local _, before = next(df.stats().memory)
        assert(df.run(last) == n - 1)
        local _, after = next(df.stats().memory)
        print((after.peak - before.in_use) / n)
        print((after.in_use - before.in_use) / n) "]])
      local peak, left = r.out:match('(%S+)%s+(%S+)')
      assert(tonumber(peak) and tonumber(peak) <= 12, r.out .. r.err)
      assert(tonumber(left) < 0.1, 'what a run used it gives back: ' .. r.out)
    end)
  end)
end)
