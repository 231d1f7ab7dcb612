local df = require 'dflow'
local hlo = require 'spec.hlo'
local wire = require 'dflow.exchange.wire'

local function raises(code, text, fn)
  local ok, e = pcall(fn)
  assert.is_false(ok)
  assert.equal(code, e.code)
  assert.is_truthy(e.message:find(text, 1, true), e.message)
end

--- Are two numbers as close as their dtype promises?
local tolerance = { float32 = { 1e-4, 1e-5 }, complex64 = { 1e-4, 1e-5 }, float64 = { 1e-7, 1e-9 }, complex128 = { 1e-7, 1e-9 } }
local function close(a, b, dtype)
  if type(a) == 'table' then return close(a.re, b.re, dtype) and close(a.im, b.im, dtype) end
  if a == b or (a ~= a and b ~= b) then return true end
  local t = tolerance[dtype]
  return t ~= nil and math.abs(a - b) <= t[2] + t[1] * math.abs(b)
end

local function replay(case)
  local g = df.import_hlo(case.hlo)
  local feeds = {}
  assert.equal(#case.inputs, #g.inputs)
  for k, x in ipairs(g.inputs) do feeds[x] = case.inputs[k] end
  local results = df.Session{ graph = g }:run(g.outputs, feeds, { tensors = true })
  for k, t in ipairs(case.outputs) do
    local got, wanted = results[k]:list(), t:list()
    assert.same(t.shape, results[k].shape)
    for j, v in ipairs(got) do
      if not close(v, wanted[j], results[k].dtype) then
        error(('%s: result %d, element %d is %s, JAX has %s'):format(case.name, k - 1, j - 1, tostring(v), tostring(wanted[j])))
      end
    end
  end
end

describe('df.import_hlo', function()
  for _, file in ipairs{ 'jax_tests', 'jax_ops' } do
    it('gives what JAX gave for the modules of ' .. file, function()
      local cases = hlo.recorded(file)
      assert.is_true(#cases > 70)
      for _, case in ipairs(cases) do replay(case) end
    end)
  end

  local f32, bool, tuple = { 'float32' }, { 'bool' }, { 'tuple' }
  local square = hlo.module{ { { 'parameter', shape = f32 }, { 'multiply', shape = f32, operands = { 1, 1 } } } }
  -- while x < 100 do x = x * x end, with a bound that the body hands on.
  local loop = hlo.module{
    { { 'parameter', shape = tuple }, { 'get-tuple-element', shape = f32, operands = { 1 } },
      { 'get-tuple-element', shape = f32, operands = { 1 }, extra = wire.int(13, 1) }, { 'multiply', shape = f32, operands = { 2, 2 } },
      { 'tuple', shape = tuple, operands = { 4, 3 } } },
    { { 'parameter', shape = tuple }, { 'get-tuple-element', shape = f32, operands = { 1 } },
      { 'get-tuple-element', shape = f32, operands = { 1 }, extra = wire.int(13, 1) },
      { 'compare', shape = bool, operands = { 2, 3 }, extra = wire.bytes(63, 'LT') } },
    { { 'parameter', shape = f32 }, { 'parameter', shape = f32, extra = wire.int(9, 1) }, { 'tuple', shape = tuple, operands = { 1, 2 } },
      { 'while', shape = tuple, operands = { 3 }, calls = { 1, 2 } }, { 'get-tuple-element', shape = f32, operands = { 4 } } } }

  it('makes a while a loop of the five primitives, with gradients of any order', function()
    local g = df.import_hlo(loop)
    local x, bound = g.inputs[1], g.inputs[2]
    g:as_default(function()
      local dx = df.gradients(g.outputs[1], x)
      assert.same({ 256.0, 1024.0, 3584.0 }, df.run({ g.outputs[1], dx, df.gradients(dx, x) }, { [x] = 2, [bound] = 100 }))
    end)
    local enters, types = 0, {}
    for _, op in ipairs(g:ops()) do
      types[op.type] = true
      if op.type == 'Enter' then enters = enters + (op.name:find '^gradients' and 0 or 1) end
    end
    assert.is_true(types.Switch and types.Merge and types.NextIteration and types.Exit)
  end)

  it('rounds narrow types where numbers are computed, and nowhere else', function()
    local function narrowed(type, literal, values)
      local shape, f = { type, 3 }, { 'float32', 3 }
      local number = ({ float8_e4m3fn = 20, int4 = 21 })[type]
      local constant = wire.bytes(8, wire.bytes(1, wire.int(2, number) .. wire.int(3, 3)) .. wire.bytes(number, literal))
      local g = df.import_hlo(hlo.module{ { { 'parameter', shape = f }, { 'convert', shape = shape, operands = { 1 } },
        { 'constant', shape = shape, extra = constant }, { 'add', shape = shape, operands = { 2, 3 } }, { 'convert', shape = f, operands = { 4 } } } })
      return df.Session{ graph = g }:run(g.outputs[1], { [g.inputs[1]] = values }, { tensors = true }):list()
    end
    -- 0x38 is 1, 0x30 is 0.5: from 16 to 32 numbers lie 2 apart: 18 + 1 is 20; the greatest is 448
    assert.same({ 20, 1.5, -1 }, narrowed('float8_e4m3fn', '\56\48\184', { 17.1, 1.04, 0.001 }))
    assert.is_true((function(v) return v ~= v end)(narrowed('float8_e4m3fn', '\0\0\0', { 500, 0, 0 })[1]))
    assert.same({ -8, 1, -3 }, narrowed('int4', '\1\15\254', { 7, 2, -1 }))
  end)

  it('takes no bits of narrow types, which are not kept', function()
    for _, pair in ipairs{ { 'float8_e4m3fn', 'float8_e5m2' }, { 'float8_e4m3fn', 'uint8' }, { 'uint8', 'float8_e4m3fn' } } do
      local ok, e = pcall(df.import_hlo, hlo.module{ { { 'parameter', shape = { pair[1], 3 } },
        { 'bitcast-convert', shape = { pair[2], 3 }, operands = { 1 } } } })
      assert.is_false(ok)
      assert.equal('unimplemented', e.code, e.message)
      assert.matches('narrow type', e.message)
    end
  end)

  it('counts the bits of whole numbers of 32 and of 64 bits', function()
    for dtype, width in pairs{ int32 = 32, int64 = 64 } do
      local shape, places = { dtype, width }, {}
      for k = 0, width - 1 do places[k + 1] = k end
      local g = df.import_hlo(hlo.module{ { { 'parameter', shape = shape }, { 'popcnt', shape = shape, operands = { 1 } },
        { 'count-leading-zeros', shape = shape, operands = { 1 } }, { 'tuple', shape = tuple, operands = { 2, 3 } } } })
      local powers = df.left_shift(df.ones({ width }, dtype), df.constant(places, dtype))
      for ones, x in pairs{ [1] = powers, [2] = df.bitwise_or(powers, df.constant(1, dtype)) } do
        local found = df.Session{ graph = g }:run(g.outputs, { [g.inputs[1]] = df.run(x, nil, { tensors = true }) }, { tensors = true })
        for k = 0, width - 1 do
          assert.equal(k == 0 and 1 or ones, tonumber(found[1]:at(k)))
          assert.equal(width - 1 - k, tonumber(found[2]:at(k)))
        end
      end
    end
  end)

  it('transforms the last axes by Fourier, real ones back and forth', function()
    local real, half = { 'float32', 4, 6 }, { 'complex64', 4, 4 }
    local lengths = wire.int(32, 4) .. wire.int(32, 6)
    local g = df.import_hlo(hlo.module{ { { 'parameter', shape = real }, { 'fft', shape = half, operands = { 1 }, extra = wire.int(31, 2) .. lengths },
      { 'fft', shape = real, operands = { 2 }, extra = wire.int(31, 3) .. lengths }, { 'tuple', shape = tuple, operands = { 2, 3 } } } })
    local values = {}
    for i = 1, 24 do values[i] = math.sin(i * i) end
    local x = df.tensor(values, 'float32', { 4, 6 })
    local found = df.Session{ graph = g }:run(g.outputs, { [g.inputs[1]] = x }, { tensors = true })
    local whole = df.run(df.slice(df.fft2d(df.cast(x, 'complex64')), { 0, 0 }, { 4, 4 }), nil, { tensors = true })
    for i, v in ipairs(whole:list()) do assert.is_true(close(found[1]:list()[i], v, 'complex64')) end
    for i, v in ipairs(values) do assert.is_true(close(found[2]:list()[i], v, 'float32')) end
  end)

  it('puts a module into a graph, under a prefix', function()
    local g = df.Graph()
    assert.equal(g, df.import_hlo(square, { into = g, prefix = 'a' }))
    local first = g.inputs[1]
    df.import_hlo(square, { into = g, prefix = 'b/' })
    assert.equal('a/parameter.1:0', first.name)
    assert.equal('b/parameter.1:0', g.inputs[1].name)
    assert.equal(9.0, df.run(g.outputs[1], { [g.inputs[1]] = 3 }))
  end)

  it('names the instruction that it does not know, and what it calls', function()
    raises('unimplemented', 'does not know the HLO opcode sparkle (instruction sparkle.2 of comp1)', function()
      df.import_hlo(hlo.module{ { { 'parameter', shape = f32 }, { 'sparkle', shape = f32, operands = { 1 } } } })
    end)
    raises('unimplemented', "custom-call.2 (custom-call) of comp1: the custom call 'launch' is not known", function()
      df.import_hlo(hlo.module{ { { 'parameter', shape = f32 }, { 'custom-call', shape = f32, operands = { 1 }, extra = wire.bytes(28, 'launch') } } })
    end)
    local sharded = df.import_hlo(hlo.module{ { { 'parameter', shape = f32 },
                                                { 'custom-call', shape = f32, operands = { 1 }, extra = wire.bytes(28, 'Sharding') } } })
    assert.equal(sharded.inputs[1], sharded.outputs[1])
  end)

  it('refuses what no compiler writes', function()
    local function refused(code, text, computations) raises(code, text, function() df.import_hlo(hlo.module(computations)) end) end
    refused('data_loss', 'the root of comp1 is not among its instructions', { {} })
    refused('data_loss', 'which does not come before it', { { { 'parameter', shape = f32 }, { 'negate', shape = f32, operands = { 7 } } } })
    refused('data_loss', 'takes 1 values and is given 0', { { { 'parameter', shape = f32 } }, { { 'call', shape = f32, calls = { 1 } } } })
    refused('data_loss', 'takes a tuple as operand 1',
            { { { 'parameter', shape = f32 }, { 'tuple', shape = tuple, operands = { 1 } }, { 'negate', shape = f32, operands = { 2 } } } })
    refused('data_loss', 'calls itself', { { { 'parameter', shape = f32 }, { 'call', shape = f32, operands = { 1 }, calls = { 1 } } } })
    raises('data_loss', 'this is no HLO module', function() df.import_hlo('\1\2\3\4') end)
    raises('data_loss', 'holds no computation', function() df.import_hlo(wire.bytes(1, 'x')) end)
  end)

  it('ends where calls of calls stand for more than it takes', function()
    local list = { { { 'parameter', shape = f32 }, { 'negate', shape = f32, operands = { 1 } } } }
    for k = 2, 40 do
      list[k] = { { 'parameter', shape = f32 }, { 'call', shape = f32, operands = { 1 }, calls = { k - 1 } },
                  { 'call', shape = f32, operands = { 2 }, calls = { k - 1 } } }
    end
    raises('resource_exhausted', 'instructions', function() df.import_hlo(hlo.module(list)) end)
  end)
end)
