-- What is asked of an object that it has not is said, with what is like it; shapes say what they are.
local df = require 'dflow'
local support = require 'spec.support'
local message_of = support.message_of

describe('a field or method that is not there', function()
  it('is said of everything that has methods, with what is near', function()
    local v = df.Variable(1.0)
    local pipeline = df.data.pipeline(df.tensor{ 1, 2 })
    local folder = os.tmpname()
    os.remove(folder)
    local writer = df.summary.FileWriter(folder)
    local cases = {
      { df.train.Adam(0.1), 'minimise', 'minimize' }, { df.train.Accumulate(df.train.SGD(0.1), 2), 'minimise', 'minimize' },
      { df.train.MixedPrecision(df.train.SGD(0.1)), 'minimise', 'minimize' }, { df.train.Saver(), 'restor', 'restore' },
      { df.train.ExponentialMovingAverage(0.9), 'avrage', 'average' }, { df.train.Coordinator(), 'should_stopp', 'should_stop' },
      { pipeline, 'shufle', 'shuffle' }, { pipeline:each(), 'stat', 'state' }, { df.Session(), 'runn', 'run' }, { df.start(v), 'waits', 'wait' },
      { df.default_graph(), 'outputt', 'output' }, { df.FIFOQueue(1, 'float32'), 'dequue', 'dequeue' }, { writer, 'scalars', 'scalar' },
    }
    for _, case in ipairs(cases) do
      local object, wrong, right = case[1], case[2], case[3]
      local text = message_of(function() return object[wrong](object) end)
      assert.matches(("has no field or method '%s'; did you mean '%s'"):format(wrong, right), text, 1, true)
    end
    writer:close()
    os.remove(writer.path)
    os.remove(folder)
  end)

  it('is told all there are where nothing is near, and what the name of another library is here', function()
    assert.matches('its methods are .*checkpoints', message_of(function() return df.train.Saver().xyzzy end))
    assert.matches("PyTorch's step is df.run(train)", message_of(function() return df.train.SGD(0.1).step end), 1, true)
    assert.matches('zero_grad is not needed', message_of(function() return df.train.SGD(0.1):zero_grad() end), 1, true)
  end)

  it('is nil to the library itself, whose objects may have fields to come', function()
    local saver = df.train.Saver()
    saver:wait()                                   -- looks for a save that is being written
    local s = df.Session()
    assert.matches('Session of', tostring(s))
    s:close()
    assert.matches('closed', tostring(s))
  end)

  it('is said of sources that give one record after another', function()
    local path = os.tmpname()
    require('spec.shell').write(path, 'one\ntwo\n')
    local lines = df.data.text(path)
    assert.matches('for record in source', message_of(function() return lines[1] end))
    assert.matches("no field or method 'shape'", message_of(function() return lines.shape end))
    if math.type then assert.matches('one after another', message_of(function() return #lines end)) end
    local list = {}
    for line in lines do list[#list + 1] = line end
    assert.same({ 'one', 'two' }, list)
    os.remove(path)
  end)
end)

describe('a value', function()
  it('is asked for where an Output, a Variable or a list of them is given', function()
    local x, v = df.float32{ 1, 2 }, df.Variable(1.0)
    for _, what in ipairs{ x, v, { x, x }, { 1, x }, { { 1, 2 }, x } } do
      assert.matches('no value outside a run: df.run(x)', message_of(df.tensor, what), 1, true)
    end
    assert.matches('batch: Output is no value', message_of(function()
      return df.data.pipeline(function() return x end):batch(2):each()()
    end), 1, true)
  end)

  it('is what a pipeline maps to: an Output is refused, with how to compute at once', function()
    local p = df.data.pipeline(df.tensor{ { 1.0, -1.0 } })
    assert.same({ { 1, 0 } }, p:map(function(x) return x:relu() end):batch(1):each()():totable())
    local v = df.Variable(1.0)
    assert.matches('result 1 is a Variable, which', message_of(function() return p:map(function() return v end):each()() end), 1, true)
    assert.matches('result 2 is an Output', message_of(function() return p:map(function(x) return x, df.relu(x) end):each()() end), 1, true)
  end)
end)

describe('two Tensors', function()
  it('are equal where dtype, shape and elements are', function()
    local t = df.tensor
    assert.is_true(t{ 1, 2 } == t{ 1, 2 })
    assert.is_true(t{ { 'a' }, { 'b' } } == t{ { 'a' }, { 'b' } })
    assert.is_true(t{ 0.5, 0.0 } == t{ 0.5, -0.0 })
    assert.is_true(df.run(df.ones{ 3, 2 }) == df.run(df.ones{ 3, 2 }))
    for _, other in ipairs{ t{ 2, 1 }, t{ { 1, 2 } }, t{ 1 }, t({ 1, 2 }, 'int64'), t{ '1', '2' }, t{ true, false } } do
      assert.is_false(t({ 1, 2 }, 'int32') == other)
      assert.is_true(t({ 1, 2 }, 'int32') ~= other)
    end
    assert.is_false(t{ 'a' } == t{ 'b' })
    local nan = 0 / 0
    assert.is_true(t{ nan, 0.0 } == t{ -nan, -0.0 })  -- as where their bits are the same
    assert.is_false(t{ nan } == t{ 0.0 })
    local function imaginary(re, im) return df.run(df.complex({ re }, { im })) end
    assert.is_true(imaginary(0.0, 1.0) == imaginary(-0.0, 1.0))
    assert.is_false(imaginary(0.0, 1.0) == imaginary(-0.0, 2.0))
    local x = df.random_uniform{ 3 }
    assert.is_false(df.run(x) == df.run(x))
    assert.is_false(t{ 1 } == df.constant{ 1 })
    local by = { [t{ 1 }] = true }
    assert.is_nil(by[t{ 1 }])                     -- a table's keys are objects
  end)
end)

describe('a shape', function()
  local function places()
    return df.zeros{ 2, 3 }, df.tensor{ { 1, 2, 3 }, { 4, 5, 6 } }, df.Variable(df.zeros{ 2, 3 }), df.placeholder('float32', { 2, 3 })
  end

  it('is printed, joined to a text and compared as what it is', function()
    for _, x in ipairs{ places() } do
      assert.equal('{2, 3}', tostring(x.shape))
      assert.equal('shape: {2, 3}!', 'shape: ' .. x.shape .. '!')
      assert.is_true(x.shape == df.ones{ 2, 3 }.shape)
      assert.is_false(x.shape == df.ones{ 3, 2 }.shape)
      assert.is_false(x.shape == df.ones{ 2 }.shape)
    end
    assert.equal('{-1}', tostring(df.placeholder('float32', { -1 }).shape))
    assert.is_nil(df.placeholder('float32').shape)
  end)

  it('is a list like any other', function()
    local x = places()
    assert.same({ 2, 3 }, x.shape)
    assert.equal(2, #x.shape)
    local seen = {}
    for i, d in ipairs(x.shape) do seen[i] = d end
    assert.same({ 2, 3 }, seen)
    assert.same({ 2, 3 }, df.zeros(x.shape).shape)
    assert.same({ 2, 3 }, df.tensor(x.shape):totable())
    assert.same({ 2, 3 }, df.run(df.concat({ x.shape, df.int32{} }, 0)):totable())
    assert.same({ 2, 3 }, df.run(df.reshape(df.ones{ 6 }, x.shape)).shape)
    assert.is_nil(x.shape[3])
  end)

  it('begins at 1, and says so where 0 or a negative number is asked for', function()
    for _, x in ipairs{ places() } do
      assert.matches('x.shape[1] is its first', message_of(function() return x.shape[0] end), 1, true)
      assert.matches('x.shape[2] is its last', message_of(function() return x.shape[-1] end), 1, true)
    end
  end)
end)
