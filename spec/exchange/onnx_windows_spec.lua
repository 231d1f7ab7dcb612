--- Gradients of convolutions and pools go to ONNX files, and give there what they give here.
local df = require 'dflow'
local support = require 'spec.support'

--- What fn makes of placeholders of these shapes, here and in the file that it is written to.
local function agrees(what, shapes, fn)
  df.reset()
  local inputs, feeds, given = {}, {}, {}
  for i, shape in ipairs(shapes) do
    inputs[i] = df.placeholder('float32', shape, 'in' .. i)
    given[i] = df.run(df.random_normal(shape, { seed = i, stddev = 0.5 }), nil, { tensors = true })
    feeds[inputs[i]] = given[i]
  end
  local made = fn(df.unpack(inputs))
  for i, y in ipairs(made) do made[i] = df.identity(y, { name = 'out' .. i }) end
  local here, path = df.run(made, feeds, { tensors = true }), os.tmpname()
  df.export_onnx(path, { outputs = made })
  local g = df.import_onnx(path)
  os.remove(path)
  local again, fetches = {}, {}
  for i, t in ipairs(given) do again[g:output('in' .. i)] = t end
  for i in ipairs(made) do fetches[i] = g:output('out' .. i) end
  local s = df.Session{ graph = g }
  for i, t in ipairs(s:run(fetches, again, { tensors = true })) do
    assert.same(here[i].shape, t.shape, what)
    support.near(t, here[i], { rtol = 1e-4, atol = 1e-4 })
  end
  s:close()
end

local function slopes(y, xs) return df.gradients(df.reduce_sum(y * y * y), xs) end

describe('the gradient in an ONNX file', function()
  local function each(fn)
    for _, padding in ipairs{ 'SAME', 'VALID' } do for stride = 1, 3 do fn(padding, stride, ('%s, stride %d'):format(padding, stride)) end end
  end

  it('of a convolution by its image and its filter is the one here', function()
    each(function(padding, stride, what)
      agrees(what, { { 2, 8, 7, 3 }, { 3, 2, 3, 4 } }, function(x, f)
        return slopes(df.conv2d(x, f, { padding = padding, strides = { 1, stride, 1, 1 } }), { x, f })
      end)
    end)
    agrees('dilated', { { 2, 9, 9, 3 }, { 3, 3, 3, 4 } }, function(x, f)
      return slopes(df.conv2d(x, f, { padding = 'SAME', strides = { 1, 1, 1, 1 }, dilations = { 1, 2, 2, 1 } }), { x, f })
    end)
    agrees('of volumes', { { 1, 6, 5, 6, 2 }, { 3, 2, 3, 2, 3 } }, function(x, f)
      return slopes(df.conv3d(x, f, { padding = 'SAME', strides = { 1, 2, 1, 1, 1 } }), { x, f })
    end)
  end)

  it('of a convolution of each channel by itself is the one here', function()
    each(function(padding, stride, what)
      agrees(what, { { 2, 8, 7, 3 }, { 3, 2, 3, 2 } }, function(x, f)
        return slopes(df.depthwise_conv2d_native(x, f, { padding = padding, strides = { 1, stride, stride, 1 } }), { x, f })
      end)
    end)
  end)

  it('of pools is the one here, also where windows overlap, reach out of the image or leave some of it out', function()
    for _, pool in ipairs{ df.max_pool, df.avg_pool } do
      each(function(padding, stride, what)
        agrees(what, { { 2, 8, 7, 3 } }, function(x)
          return { (slopes(pool(x, { ksize = { 1, 2, 3, 1 }, strides = { 1, stride, 2, 1 }, padding = padding }), x)) }
        end)
      end)
    end
    for _, pool in ipairs{ df.max_pool3d, df.avg_pool3d } do
      agrees('of volumes', { { 1, 6, 5, 6, 2 } }, function(x)
        return { (slopes(pool(x, { ksize = { 1, 2, 2, 2, 1 }, strides = { 1, 2, 1, 2, 1 }, padding = 'SAME' }), x)) }
      end)
    end
  end)

  it('of the greatest goes to the first of equals', function()
    local x = df.placeholder('float32', { 1, 1, 4, 1 }, 'x')
    local y = df.identity(df.gradients(df.max_pool(x, { ksize = { 1, 1, 3, 1 }, strides = { 1, 1, 1, 1 }, padding = 'VALID' }), x), { name = 'dx' })
    local path = os.tmpname()
    df.export_onnx(path, { outputs = { y } })
    local g = df.import_onnx(path)
    os.remove(path)
    local ones = { { { { 1 }, { 1 }, { 1 }, { 1 } } } }
    assert.same({ { { { 1 }, { 1 }, { 0 }, { 0 } } } }, df.run(y, { [x] = ones }):totable())
    assert.same({ { { { 1 }, { 1 }, { 0 }, { 0 } } } }, df.Session{ graph = g }:run(g:output 'dx', { [g:output 'x'] = ones }):totable())
  end)

  it('is refused where the sizes are known only when it runs', function()
    for _, shape in ipairs{ { 1, -1, 8, 2 }, { 1, 8, -1, 2 } } do
      df.reset()
      local x, f = df.placeholder('float32', shape), df.placeholder('float32', { 3, 3, 2, 2 })
      local by = df.gradients(df.conv2d(x, f, { padding = 'SAME', strides = { 1, 1, 1, 1 } }), f)
      assert.matches('Conv2DBackpropFilter): the sizes of what it makes are known only when it runs',
                     support.message_of(df.export_onnx, 'never.onnx', { outputs = { by } }), 1, true)
    end
  end)
end)
