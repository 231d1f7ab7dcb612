--- What models say that no exporter of ours writes and the standard's own tests leave out: read as the standard has it.
local df = require 'dflow'
local support = require 'spec.support'
local model = require 'spec.onnx_model'

local function list(t) return df.type(t) == 'tensor' and t:totable() or t end
local function refused(g)
  local e = support.error_of(df.import_onnx, model.bytes(g))
  return e.message
end

describe('a model in ONNX', function()
  it('writes rows into a cache from its beginning where it does not say from where: TensorScatter', function()
    local g = { inputs = { cache = { 'float', { 2, 4, 1 } }, update = { 'float', { 2, 2, 1 } }, at = { 'int64', { 2 } } }, outputs = { 'y' },
                { 'TensorScatter', { 'cache', 'update' }, { 'y' } } }
    local feeds = { cache = df.tensor({ { { 1 }, { 2 }, { 3 }, { 4 } }, { { 5 }, { 6 }, { 7 }, { 8 } } }, 'float32'),
                    update = df.tensor({ { { 10 }, { 20 } }, { { 30 }, { 40 } } }, 'float32') }
    assert.same({ { { 10 }, { 20 }, { 3 }, { 4 } }, { { 30 }, { 40 }, { 7 }, { 8 } } }, list(model.run(g, feeds)))
    feeds.at = df.tensor({ 1, 2 }, 'int64')
    g[1] = { 'TensorScatter', { 'cache', 'update', 'at' }, { 'y' }, { axis = -2 } }
    assert.same({ { { 1 }, { 10 }, { 20 }, { 4 } }, { { 5 }, { 6 }, { 30 }, { 40 } } }, list(model.run(g, feeds)))
    feeds.at = df.tensor({ 3, 2 }, 'int64')
    g[1][4] = { axis = 1, mode = 'circular' }
    assert.same({ { { 20 }, { 2 }, { 3 }, { 10 } }, { { 5 }, { 6 }, { 30 }, { 40 } } }, list(model.run(g, feeds)))
    g[1][4] = { axis = 0 }
    assert.matches('its axis is that of the batch', refused(g), 1, true)
  end)

  it('is flat also where it has no elements: Flatten', function()
    for axis, dims in pairs{ [0] = { 1, 0 }, { 2, 0 }, { 0, 15 }, { 0, 5 }, { 0, 1 } } do
      local g = { inputs = { x = { 'float', { 2, 0, 3, 5 } } }, outputs = { 'y' }, { 'Flatten', { 'x' }, { 'y' }, { axis = axis } } }
      assert.same(dims, model.run(g, { x = df.zeros{ 2, 0, 3, 5 }:eval() }).shape)
      g[1][4] = { axis = axis - 4 }
      if axis < 4 then assert.same(dims, model.run(g, { x = df.zeros{ 2, 0, 3, 5 }:eval() }).shape) end
    end
  end)

  it('has the first corner where an axis has one point: AffineGrid', function()
    local g = { inputs = { theta = { 'float', { 1, 2, 3 } } }, outputs = { 'y' },
                { 'AffineGrid', { 'theta', 'size' }, { 'y' }, { align_corners = 1 } } }
    g.inputs.size = { 'int64', { 4 } }
    local y = model.run(g, { theta = df.tensor({ { { 1, 0, 0 }, { 0, 1, 0 } } }, 'float32'), size = df.tensor({ 1, 1, 1, 3 }, 'int64') })
    assert.same({ { { { -1, -1 }, { 0, -1 }, { 1, -1 } } } }, list(y))
  end)

  it('drops with the ratio that it gives, or one half, where it is in training: Dropout', function()
    local function dropped(constants, inputs)
      constants.train = { 'bool', {}, '\1' }
      local r = model.run({ inputs = { x = { 'float', { 400 } } }, outputs = { 'y', 'mask' }, constants = constants, { 'Dropout', inputs, { 'y', 'mask' } } },
                          { x = df.ones{ 400 }:eval() })
      local y, mask, kept = r[1]:totable(), r[2]:totable(), {}
      for i = 1, 400 do
        if mask[i] then kept[#kept + 1] = y[i] else assert.equal(0, y[i]) end
      end
      for i = 2, #kept do assert.equal(kept[1], kept[i]) end
      return kept[1], #kept / 400
    end
    local scale, share = dropped({ ratio = { 'float', {}, '\0\0\64\63' } }, { 'x', 'ratio', 'train' })
    assert.equal(4, scale)
    assert.is_true(share > 0.1 and share < 0.4, share)
    scale, share = dropped({}, { 'x', '', 'train' })
    assert.equal(2, scale)
    assert.is_true(share > 0.35 and share < 0.65, share)
  end)

  it('takes bits for those of another type, a bool being a byte: BitCast', function()
    local function cast(from, to, v) return list(model.run({ inputs = { x = { from, { 3 } } }, outputs = { 'y' }, { 'BitCast', { 'x' }, { 'y' }, { to = to } } }, { x = v })) end
    assert.same({ 1065353216, 0, -1082130432 }, cast('float', 6, df.tensor({ 1, 0, -1 }, 'float32')))
    assert.same({ true, false, true }, cast('uint8', 9, df.tensor({ 1, 0, 255 }, 'uint8')))
    assert.same({ 1, 0, 1 }, cast('bool', 2, df.tensor{ true, false, true }))
    assert.same({ 255, 0, 2 }, cast('int8', 2, df.tensor({ -1, 0, 2 }, 'int8')))
    assert.matches('dflow has not the type 99', refused{ inputs = { x = { 'float', { 3 } } }, outputs = { 'y' }, { 'BitCast', { 'x' }, { 'y' }, { to = 99 } } }, 1, true)
  end)

  it('gives the places of the maxima, the first of equals, and puts values there: MaxPool, MaxUnpool', function()
    local g = { inputs = { x = { 'float', { 1, 1, 'n' } } }, outputs = { 'y', 'places', 'z' },
                { 'MaxPool', { 'x' }, { 'y', 'places' }, { kernel_shape = { 2 }, strides = { 2 } } },
                { 'MaxUnpool', { 'y', 'places' }, { 'z' }, { kernel_shape = { 2 }, strides = { 2 } } } }
    local r = model.run(g, { x = df.tensor({ { { 1, 3, 2, 2 } } }, 'float32') })
    assert.same({ { { { 3, 2 } } }, { { { 1, 2 } } }, { { { 0, 3, 2, 0 } } } }, { list(r[1]), list(r[2]), list(r[3]) })
  end)

  it('takes a step of training by the rates that the standard has where it says none: Adagrad, Momentum, Adam', function()
    --- What becomes of x = {1, 2} and its states at step t, for the gradient {0.5, 0}, whose states are zeros.
    local function step(op, t, states, attributes)
      local g = { inputs = { rate = { 'float', {} }, t = { 'int64', {} }, x = { 'float', { 2 } }, g = { 'float', { 2 } } }, outputs = { 'y' } }
      local feeds = { rate = df.tensor(0.1, 'float32'), t = df.tensor(t, 'int64'), x = df.tensor({ 1, 2 }, 'float32'), g = df.tensor({ 0.5, 0 }, 'float32') }
      local given = { 'rate', 't', 'x', 'g' }
      for i = 1, states do
        local name = 's' .. i
        given[#given + 1], g.outputs[i + 1] = name, name .. '_new'
        g.inputs[name], feeds[name] = { 'float', { 2 } }, df.tensor({ 0, 0 }, 'float32')
      end
      g[1] = { op, given, g.outputs, attributes, domain = 'ai.onnx.preview.training' }
      local r = model.run(g, feeds)
      for i, v in ipairs(r) do r[i] = v:totable() end
      return r
    end
    local near = require('spec.support').near
    near(step('Adagrad', 0, 1), { { 1 - 0.1 * 0.5 / (0.5 + 1e-6), 2 }, { 0.25, 0 } })           -- 0 / (0 + epsilon)
    near(step('Adagrad', 3, 1, { decay_factor = { float = 0.5 }, norm_coefficient = { float = 0.1 }, epsilon = { float = 1 } }),
      { { 1 - 0.04 * 0.6 / 1.6, 2 - 0.04 * 0.2 / 1.2 }, { 0.36, 0.04 } })
    local kinds = { alpha = { float = 0.9 }, beta = { float = 0.5 }, norm_coefficient = { float = 0 }, mode = 'standard' }
    near(step('Momentum', 0, 1, kinds), { { 0.95, 2 }, { 0.5, 0 } })
    near(step('Momentum', 1, 1, kinds), { { 0.975, 2 }, { 0.25, 0 } })
    kinds.mode = 'nesterov'
    near(step('Momentum', 1, 1, kinds), { { 1 - 0.1 * (0.5 + 0.9 * 0.25), 2 }, { 0.25, 0 } })
    local v, h = 0.1 * 0.5, 0.001 * 0.25
    near(step('Adam', 0, 2), { { 1 - 0.1 * v / (math.sqrt(h) + 1e-6), 2 }, { v, 0 }, { h, 0 } })
    near(step('Adam', 1, 2, { norm_coefficient_post = { float = 0.5 } }),
      { { (1 - 0.1 * math.sqrt(0.001) / 0.1 * v / (math.sqrt(h) + 1e-6)) / 2, 1 }, { v, 0 }, { h, 0 } })
  end)

  describe('with a sequence', function()
    local function at(position, how)
      local g = { inputs = { a = { 'float', {} }, b = { 'float', {} }, c = { 'float', {} }, k = { 'int64', {} } }, outputs = { 'y' },
                  constants = { p = { 'int64', {}, require('dflow.exchange.wire').little(position, 8) } },
                  { 'SequenceConstruct', { 'a', 'b', 'c' }, { 's' } }, { 'SequenceAt', { 's', how or 'p' }, { 'y' } } }
      local feeds = { a = df.tensor(1, 'float32'), b = df.tensor(2, 'float32'), c = df.tensor(3, 'float32') }
      if how then feeds.k = df.tensor(position, 'int64') end
      return g, feeds
    end

    it('counts from its beginning, or from its end where the position is negative, known or told when it runs', function()
      for position, value in pairs{ [0] = 1, [1] = 2, [2] = 3, [-1] = 3, [-2] = 2, [-3] = 1 } do
        assert.equal(value, model.run(at(position)))
        assert.equal(value, model.run(at(position, 'k')))
      end
    end)

    it('refuses positions outside of it', function()
      assert.matches('the position 3 is outside of a sequence of 3', refused((at(3))), 1, true)
      assert.matches('the position -1 is outside of a sequence of 3', refused((at(-4))), 1, true)
      for _, position in ipairs{ 3, -4 } do
        local e = support.error_of(model.run, at(position, 'k'))
        assert.equal('invalid_argument', e.code)
      end
    end)

    it('puts in and takes out where it is told, else at its end', function()
      local function after(...)
        local g = { inputs = { a = { 'float', { 1 } }, b = { 'float', { 1 } } }, outputs = { 'y', 'n' },
                    constants = { zero = model.int64(0), last = model.int64(-1), two = model.int64(2) }, { 'SequenceConstruct', { 'a', 'b' }, { 's0' } } }
        local steps = { ... }
        for i, step in ipairs(steps) do
          table.insert(step[2], 1, 's' .. i - 1)
          g[#g + 1] = { step[1], step[2], { 's' .. i } }
        end
        g[#g + 1] = { 'ConcatFromSequence', { 's' .. #steps }, { 'y' }, { axis = 0 } }
        g[#g + 1] = { 'SequenceLength', { 's' .. #steps }, { 'n' } }
        local r = model.run(g, { a = df.tensor({ 1 }, 'float32'), b = df.tensor({ 2 }, 'float32') })
        assert.equal(#r[1]:totable(), r[2])
        return table.concat(r[1]:totable(), ' '):gsub('%.0', '')
      end
      assert.equal('1 2 1', (after({ 'SequenceInsert', { 'a' } })))
      assert.equal('2 1 2', (after({ 'SequenceInsert', { 'b', 'zero' } })))
      assert.equal('1 1 2', (after({ 'SequenceInsert', { 'a', 'last' } })))
      assert.equal('1 2 1', (after({ 'SequenceInsert', { 'a', 'two' } })))
      assert.equal('1', (after({ 'SequenceErase', {} })))
      assert.equal('2', (after({ 'SequenceErase', { 'zero' } })))
      assert.equal('1', (after({ 'SequenceErase', { 'last' } })))
      assert.matches('the position 2 is outside of a sequence of 2', select(2, pcall(after, { 'SequenceErase', { 'two' } })).message, 1, true)
    end)

    it('is what a tensor is split into, by ones, by a size that leaves a rest, or by sizes', function()
      local function parts(sizes, attributes)
        local g = { inputs = { x = { 'float', { 5, 2 } } }, outputs = { 'n', 'first', 'last' }, constants = { sizes = sizes, p = model.int64(0), q = model.int64(-1) },
                    { 'SplitToSequence', sizes and { 'x', 'sizes' } or { 'x' }, { 's' }, attributes }, { 'SequenceLength', { 's' }, { 'n' } },
                    { 'SequenceAt', { 's', 'p' }, { 'first' } }, { 'SequenceAt', { 's', 'q' }, { 'last' } } }
        local r = model.run(g, { x = df.tensor({ { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 }, { 9, 10 } }, 'float32') })
        return { r[1], r[2]:totable(), r[3]:totable() }
      end
      local little = require('dflow.exchange.wire').little
      assert.same({ 5, { { 1, 2 } }, { { 9, 10 } } }, parts())
      assert.same({ 5, { 1, 2 }, { 9, 10 } }, parts(nil, { keepdims = 0 }))
      assert.same({ 3, { { 1, 2 }, { 3, 4 } }, { { 9, 10 } } }, parts({ 'int64', {}, little(2, 8) }))
      assert.same({ 2, { { 1, 2 } }, { { 3, 4 }, { 5, 6 }, { 7, 8 }, { 9, 10 } } }, parts(model.int64(1, 4)))
      assert.same({ 2, { { 1 }, { 3 }, { 5 }, { 7 }, { 9 } }, { { 2 }, { 4 }, { 6 }, { 8 }, { 10 } } }, parts(nil, { axis = 1 }))
      assert.same({ 2, { 1, 3, 5, 7, 9 }, { 2, 4, 6, 8, 10 } }, parts(nil, { axis = -1, keepdims = 0 }))
    end)
  end)
end)
