--- TensorFlow's TensorArrayV3: handle and flow apart, its rules and its error codes.
local df = require 'dflow'
local op = require('dflow.front.registry').op
local support = require 'spec.support'
local same, near = support.same, support.near

local function array(size, opts)
  opts = opts or {}
  opts.dtype = opts.dtype or 'float32'
  return op('TensorArrayV3', { df.int32(size) }, opts)
end
local function write(h, i, v, flow) return op('TensorArrayWriteV3', { h, df.int32(i), type(v) == 'table' and v.dtype and v or df.float32(v), flow }) end
local function read(h, i, flow, dtype) return op('TensorArrayReadV3', { h, df.int32(i), flow }, { dtype = dtype or 'float32' }) end
local function gather(h, indices, flow, shape)
  return op('TensorArrayGatherV3', { h, #indices > 0 and df.int32(indices) or df.constant({}, 'int32', { 0 }), flow }, { dtype = 'float32', element_shape = shape })
end
local function scatter(h, indices, v, flow) return op('TensorArrayScatterV3', { h, df.int32(indices), df.float32(v), flow }) end
local function concat(h, flow, rest) return op('TensorArrayConcatV3', { h, flow }, { dtype = 'float32', element_shape_except0 = rest }) end
local function split(h, v, lengths, flow) return op('TensorArraySplitV3', { h, df.float32(v), df.int64(lengths), flow }) end
local function size(h, flow) return op('TensorArraySizeV3', { h, flow }) end
local function gradient(h, flow, source) return op('TensorArrayGradV3', { h, flow }, { source = source or 'gradients' }) end
local function after(what, fn) return df.control_dependencies({ what }, fn) end
local function code_of(x)
  local ok, e = pcall(df.run, x)
  assert(not ok, 'no error was raised')
  return e.code
end
local function invalid(x) assert.equal('invalid_argument', code_of(x)) end

describe('a TensorArrayV3', function()
  it('gives what was written, once; with clear_after_read = false as often as one likes', function()
    for _, clear in ipairs{ true, false } do
      local h, flow = array(3, { clear_after_read = clear })
      flow = write(h, 1, { 1, 2 }, flow)
      local first = read(h, 1, flow)
      same(df.run(first), { 1, 2 })
      local second = after(first, function() return read(h, 1, flow) end)
      if clear then invalid(second) else same(df.run(second), { 1, 2 }) end
      invalid(after(first, function() return write(h, 1, { 1, 2 }, flow) end))
    end
  end)

  it('is written once, inside, with its own dtype', function()
    local h, flow = array(2)
    invalid(write(h, 0, 1, write(h, 0, 1, flow)))
    invalid(write(h, 2, 1, flow))
    invalid(write(h, -1, 1, flow))
    invalid(write(h, 0, df.int32(1), flow))
    for _, i in ipairs{ 2, 3, -1 } do
      local _, e = pcall(df.run, read(h, i, flow))
      assert.matches(('index %d is read, but the array has 2 locations'):format(i), tostring(e), 1, true)
    end
    invalid(read(h, 0, write(h, 0, 1, flow), 'int32'))
  end)

  it('grows where it is dynamic', function()
    local h, flow = array(0, { dynamic_size = true })
    flow = write(h, 4, { 1 }, flow)
    same(df.run(size(h, flow)), 5)
    same(df.run(size(h, scatter(h, { 7, 2 }, { { 1 }, { 2 } }, flow))), 8)
  end)

  it('gives zeros where nothing was written and the element shape is known', function()
    local h, flow = array(2)
    invalid(read(h, 0, flow))
    local k, known = array(2, { element_shape = { 2 } })
    same(df.run(read(k, 0, known)), { 0, 0 })
    local i, same_shapes = array(2, { identical_element_shapes = true })
    same(df.run(read(i, 1, write(i, 0, { 1, 2 }, same_shapes))), { 0, 0 })
    invalid(write(i, 1, { 1 }, write(i, 0, { 1, 2 }, same_shapes)))
    invalid(write(k, 0, { 1, 2, 3 }, known))
  end)

  it('stacks elements of one shape', function()
    local h, flow = array(3, { clear_after_read = false })
    flow = scatter(h, { 2, 0 }, { { 1, 2 }, { 3, 4 } }, flow)
    same(df.run(gather(h, { 0, 2, 0 }, flow)), { { 3, 4 }, { 1, 2 }, { 3, 4 } })
    same(df.run(gather(h, { 0, 1 }, flow, { 2 })), { { 3, 4 }, { 0, 0 } })
    invalid(gather(h, { 0, 1 }, flow))
    invalid(gather(h, { 0 }, flow, { 3 }))
    invalid(gather(h, { 0, 1 }, write(h, 1, { 1 }, flow)))
    invalid(scatter(h, { 1, 3 }, { { 1 }, { 2 } }, flow))
  end)

  it('stacks and joins nothing only where it is said what that would be', function()
    local h, flow = array(0)
    assert.equal('unimplemented', code_of(gather(h, {}, flow)))
    same(df.run(gather(h, {}, flow, { 2 })).shape, { 0, 2 })
    local x = concat(h, flow)
    assert.equal('unimplemented', code_of(x))
    local y, lengths = concat(h, flow, { 3 })
    same(df.run(y).shape, { 0, 3 })
    same(df.run(lengths).shape, { 0 })
  end)

  it('joins and is split', function()
    local h, flow = array(3)
    local parts = split(h, { 1, 2, 3 }, { 1, 0, 2 }, flow)
    same(df.run{ concat(h, parts) }, { { 1, 2, 3 }, { 1, 0, 2 } })
    same(df.run(read(h, 2, parts)), { 2, 3 })
    for _, lengths in ipairs{ { 1, 2, 3 }, { 1, 2 }, { 4, -1, 0 }, { 1, 1, 1, 0 } } do invalid(split(h, { 1, 2, 3 }, lengths, flow)) end
    invalid((concat(h, write(h, 0, 1, flow))))
    local g, grown = array(1, { dynamic_size = true })
    same(df.run(size(g, split(g, { 1, 2 }, { 1, 1 }, grown))), 2)
  end)

  it('holds strings', function()
    local h, flow = array(2, { dtype = 'string' })
    flow = write(h, 1, df.constant('b'), write(h, 0, df.constant('a'), flow))
    same(df.run(op('TensorArrayGatherV3', { h, df.int32{ 1, 0 }, flow }, { dtype = 'string' })), { 'b', 'a' })
  end)

  it('is at an end once it is closed', function()
    local h, flow = array(2)
    local closed = op('TensorArrayCloseV3', { h })
    invalid(after(closed, function() return write(h, 0, 1, flow) end))
    invalid(after(closed, function() return (gradient(h, flow)) end) and after(closed, function() return select(2, gradient(h, flow)) end))
    assert.is_true(df.run(after(closed, function() return op('TensorArrayCloseV3', { h }) end)))
  end)
end)

describe('the gradient array of a TensorArrayV3', function()
  it('adds up, one for each source, and begins as zeros', function()
    local h, flow = array(2)
    flow = write(h, 0, { 1, 2 }, flow)
    local g, gflow = gradient(h, flow)
    same(df.run(read(g, 0, gflow)), { 0, 0 })
    invalid(read(g, 1, gflow))
    local once = write(g, 0, { 1, 2 }, gflow)
    same(df.run(read(g, 0, write(g, 0, { 10, 20 }, once))), { 11, 22 })
    local again, aflow = gradient(h, once)
    same(df.run(read(again, 0, aflow)), { 1, 2 })
    local other, oflow = gradient(h, once, 'gradients_1')
    same(df.run(read(other, 0, oflow)), { 0, 0 })
    invalid(write(g, 0, { 1 }, gflow))
  end)

  it('ends the growth of its array', function()
    local h, flow = array(1, { dynamic_size = true })
    local _, gflow = gradient(h, write(h, 0, { 1 }, flow))
    invalid(after(gflow, function() return write(h, 1, { 1 }, flow) end))
  end)

  it('may have dimensions before those of the elements', function()
    local h, flow = array(2)
    local g, gflow = op('TensorArrayGradWithShape', { h, write(h, 0, { 1, 2 }, flow), df.int32{ 3 } }, { source = 'g' })
    same(df.run(read(g, 0, gflow)), { { 0, 0 }, { 0, 0 }, { 0, 0 } })
  end)
end)

describe('the gradient through a TensorArrayV3', function()
  it('goes through each op', function()
    support.check_gradient(function(x)
      local h, flow = op('TensorArrayV3', { df.int32(3) }, { dtype = 'float64', clear_after_read = false })
      flow = op('TensorArrayWriteV3', { h, df.int32(0), x * x, flow })
      flow = op('TensorArrayScatterV3', { h, df.int32{ 2, 1 }, df.stack{ x, x * 3 }, flow })
      local a = op('TensorArrayReadV3', { h, df.int32(0), flow }, { dtype = 'float64' })
      local all = op('TensorArrayGatherV3', { h, df.int32{ 0, 1, 2, 0 }, flow }, { dtype = 'float64' })
      return a * 2, all * all
    end, { { 1.5, -2 } })
    support.check_gradient(function(x)
      local h, flow = op('TensorArrayV3', { df.int32(2) }, { dtype = 'float64', clear_after_read = false })
      flow = op('TensorArraySplitV3', { h, x * x, df.int64{ 1, 2 }, flow })
      local joined = op('TensorArrayConcatV3', { h, flow }, { dtype = 'float64' })
      return joined * joined, op('TensorArrayReadV3', { h, df.int32(1), flow }, { dtype = 'float64' })
    end, { { 1.5, -2, 0.5 } })
  end)

  it('goes through a loop that reads and writes', function()
    local xs, w = df.placeholder('float32', { 4 }), df.placeholder('float32', {})
    local input, flow = array(4, { element_shape = {} })
    flow = op('TensorArrayScatterV3', { input, df.range(4), xs, flow })
    local output, made = array(4)
    local _, _, done = df.while_loop(function(i) return i:lt(4) end, function(i, state, into)
      state = df.tanh(state * w + op('TensorArrayReadV3', { input, i, flow }, { dtype = 'float32' }))
      return i + 1, state, op('TensorArrayWriteV3', { output, i, state, into })
    end, { df.int32(0), df.float32(0), made })
    local y = df.reduce_sum(gather(output, { 0, 1, 2, 3 }, done))
    local function reference(x, weight)
      local state, sum = 0, 0
      for i = 1, 4 do
        local e = math.exp(2 * (state * weight + x[i]))
        state = (e - 1) / (e + 1)
        sum = sum + state
      end
      return sum
    end
    local x, weight, h = { 0.5, -1, 0.25, 2 }, 0.7, 1e-4
    local feeds = { [xs] = x, [w] = weight }
    near(df.run(y, feeds), reference(x, weight))
    local gx, gw = df.unpack(df.run(df.gradients(y, { xs, w }), feeds))
    near(gw, (reference(x, weight + h) - reference(x, weight - h)) / (2 * h), { rtol = 1e-3 })
    for i = 1, 4 do
      local above, below = { df.unpack(x) }, { df.unpack(x) }
      above[i], below[i] = x[i] + h, x[i] - h
      near(gx:at(i - 1), (reference(above, weight) - reference(below, weight)) / (2 * h), { rtol = 1e-3 })
    end
  end)

  it('is differentiable itself', function()
    support.check_gradient(function(x)
      local h, flow = op('TensorArrayV3', { df.int32(2) }, { dtype = 'float64', clear_after_read = false })
      flow = op('TensorArrayWriteV3', { h, df.int32(0), x * x * x, flow })
      local a = op('TensorArrayReadV3', { h, df.int32(0), flow }, { dtype = 'float64' })
      return a * a
    end, { { 1.5, -2 } }, { order = 2 })
  end)
end)
