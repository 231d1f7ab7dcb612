--- ONNX models as graphs. spec/models/record_onnx.py recorded the small ones with ONNX Runtime's values; with ONNX_NODES naming the folder
-- onnx/backend/test/data/node of the `onnx` package (or what spec/onnx_nodes.py wrote) the standard's own tests of operators are asked, too (spec/onnx_nodes.lua).
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local folder = 'spec/models/onnx/'

local function models()
  local list, pipe = {}, assert(io.popen('ls ' .. folder))
  for name in pipe:lines() do list[#list + 1] = name:match '^(.*)%.onnx$' end
  pipe:close()
  return list
end

--- The model, and what it is fed.
local function model(name)
  local g = df.import_onnx(folder .. name .. '.onnx')
  local feeds = {}
  for key, value in pairs(df.load_npz(folder .. name .. '.in.npz')) do feeds[g:output(key)] = value end
  return g, feeds
end

describe('import_onnx', function()
  for _, name in ipairs(models()) do
    it('gives what ONNX Runtime gives: ' .. name, function()
      local g, feeds = model(name)
      local s = df.Session{ graph = g }
      for key, value in pairs(df.load_npz(folder .. name .. '.out.npz')) do
        local y = g:output(key)
        assert.equal(value.dtype, y.dtype)
        local found = s:run(y, feeds)
        support.near(df.type(found) == 'tensor' and found:list() or { found }, value:list(), { rtol = 1e-4, atol = 1e-5, what = key })
        assert.same(value.shape, df.type(found) == 'tensor' and found.shape or {})
      end
    end)
  end

  it('finds inputs and outputs under their names, with :0 or without, and lists them', function()
    local g = df.import_onnx(folder .. 'loop.onnx')
    assert.equal(g:output 'x', g:output 'x:0')
    assert.same({ 'x', 'most' }, g.onnx.inputs)
    assert.same({ 'last', 'rows' }, g.onnx.outputs)
    assert.same({ 2 }, g:output('last').shape)
  end)

  it('takes bytes, and puts a model into a graph behind a prefix', function()
    local bytes = shell.read(folder .. 'if.onnx')
    local g = df.import_onnx(bytes, { into = df.default_graph(), prefix = 'm' })
    assert.equal(df.default_graph(), g)
    assert.same({ 2, 4 }, df.run(g:output 'm/y', { [g:output 'm/x'] = { 1, 2 } }):totable())
  end)

  it('writes numbers with as few digits as it takes to read them back, six of float32 at least, 14 of float64', function()
    local g, feeds = model 'worded'
    feeds[g:output 'f32'] = { 1 / 3, -0.1, 16777217, 2.5e38, 8590400000, 123456.7, 8388607.5 }
    feeds[g:output 'f64'] = { 1 / 3, -0.1, 0.1 + 0.2, 2.5e300, 1e22, 123456.75, 2 ^ 53 }
    local s = df.Session{ graph = g }
    assert.same({ '0.33333334', '-0.1', '16777216', '2.5e+38', '8.5904e+09', '123456.7', '8388607.5' }, s:run(g:output 'f32_s', feeds):list())
    assert.same({ '0.3333333333333333', '-0.1', '0.30000000000000004', '2.5e+300', '1e+22', '123456.75', '9007199254740992' },
                s:run(g:output 'f64_s', feeds):list())
  end)

  it('gives a graph that can be differentiated, its loops too', function()
    local g, feeds = model 'loop'
    local slope = g:as_default(function() return df.gradients(g:output('last'):reduce_sum(), g:output 'x') end)
    local s = df.Session{ graph = g }
    local n = s:run(g:output 'rows', feeds).shape[1]
    support.near(s:run(slope, feeds), { 1.5 ^ n, 2 ^ n })
  end)

  it('reads what export_onnx writes', function()
    local x = df.placeholder('float32', { 2 }, 'x')
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y)
      return i + 1, df.cond(y:reduce_sum():gt(4), function() return y * 0.5 end, function() return y * 2 + x end)
    end, { df.int32(0), x })
    local path = os.tmpname()
    df.export_onnx(path, { outputs = { y = y } })
    local g = df.import_onnx(path)
    os.remove(path)
    support.near(df.Session{ graph = g }:run(g:output 'y', { [g:output 'x'] = { 1, 0.5 } }), df.run(y, { [x] = { 1, 0.5 } }):totable())
  end)

  it('reads what export_onnx says in other words', function()
    local forms = {
      function(x) return df.leaky_relu(x, { alpha = 0.3 }) end, df.elu, df.selu, df.relu6, df.softsign,
      function(x) return df.roll(x, { 1, -1 }, { 0, 1 }) end, function(x) return df.matrix_band_part(x, 1, 0) end,
      function(x) return df.matrix_diag(x[0]) end, df.matrix_diag_part, function(x) return df.matrix_set_diag(x, x[1]) end,
      function(x) return df.cross(x, x * 2 + 1) end, function(x) return df.segment_sum(x, df.int32{ 0, 0, 2 }) end,
      function(x) return df.unsorted_segment_sum(x, df.int32{ 1, -1, 1 }, 3) end,
      function(x) return df.einsum('...i,ij->...j', df.expand_dims(x, 0), x) end,
      function(x) return df.depth_to_space(df.reshape(df.concat({ x, x[0]:expand_dims(0) }, 0), { 1, 1, 1, 12 }), { block_size = 2 }) end,
      function(x) return df.depthwise_conv2d_native(df.reshape(df.tile(x, { 2, 2 }), { 1, 3, 4, 3 }), df.reshape(df.tile(x, { 2, 4 }), { 2, 2, 3, 6 }),
                                                    { strides = { 1, 1, 1, 1 }, padding = 'VALID' }) end,
    }
    for number, form in ipairs(forms) do
      df.reset()
      local x = df.placeholder('float32', { 3, 3 }, 'x')
      local y = form(x)
      local outputs = { y = df.identity(y), slope = df.gradients((y * y):reduce_sum(), x) * 1 }
      local path = os.tmpname()
      local ok, e = pcall(df.export_onnx, path, { outputs = outputs })
      if not ok then                                                -- the gradient may have no form yet
        assert.equal('unimplemented', e.code)
        outputs.slope = nil
        df.export_onnx(path, { outputs = outputs })
      end
      local g = df.import_onnx(path)
      os.remove(path)
      local fed = { { 0.5, -1.5, 2 }, { 7, 0.25, -0.75 }, { -3, 4, 1 } }
      for name, o in pairs(outputs) do
        support.near(df.Session{ graph = g }:run(g:output(name), { [g:output 'x'] = fed }):list(), df.run(o, { [x] = fed }):list(),
                     { rtol = 1e-5, atol = 1e-5, what = ('form %d, %s'):format(number, name) })
      end
    end
  end)

  it('reads edges that are asked for one by one as they were written', function()
    local x = df.placeholder('float32', { 1, 4, 5, 2 }, 'x')
    local y = df.conv2d(x, df.reshape(df.cast(df.range(24), 'float32') * 0.1, { 2, 3, 2, 2 }),
                        { strides = { 1, 1, 1, 1 }, padding = 'EXPLICIT', explicit_paddings = { 0, 0, 1, 2, 3, 0, 0, 0 } })
    local path = os.tmpname()
    df.export_onnx(path, { outputs = { y = y } })
    local g = df.import_onnx(path)
    os.remove(path)
    local fed = df.run(df.reshape(df.cast(df.range(40), 'float32'), { 1, 4, 5, 2 }))
    support.near(df.Session{ graph = g }:run(g:output 'y', { [g:output 'x'] = fed }):list(), df.run(y, { [x] = fed }):list())
  end)

  it('says what it cannot read', function()
    local function refused(...) return select(2, pcall(df.import_onnx, ...)) end
    assert.equal('invalid_argument', refused(7).code)
    assert.equal('not_found', refused('/nowhere.onnx').code)
    assert.equal('data_loss', refused('\8\1\18').code)
    assert.equal('data_loss', refused('\1\2\3\4').code)
    local bytes = shell.read(folder .. 'if.onnx')
    local err = refused((bytes:gsub('Greater', 'Frobnic')))
    assert.equal('unimplemented', err.code)
    assert.matches('Frobnic', err.message)
    for i = 1, #bytes, 5 do                                        -- damaged anywhere: an error of ours, or another model
      local ok, e = pcall(df.import_onnx, bytes:sub(1, i - 1) .. string.char((bytes:byte(i) + 37) % 256) .. bytes:sub(i + 1))
      assert.is_true(ok or (type(e) == 'table' and e.code ~= nil), tostring(e))
      ok, e = pcall(df.import_onnx, '\8\1' .. bytes:sub(1, i))
      assert.is_true(ok or (type(e) == 'table' and e.code ~= nil), tostring(e))
    end
  end)

  it('says so when an attribute is missing that the format asks for', function()
    local bytes = shell.read(folder .. 'scan.onnx')
    local damaged, n = bytes:gsub('num_scan_inputs', 'num_scan_inputz')
    assert.is_true(n > 0)
    local ok, e = pcall(df.import_onnx, damaged)
    assert.is_false(ok)
    assert.equal('data_loss', e.code)
    assert.matches('not what its ops ask for', e.message)
  end)

  it('gives each channel its own slope of PRelu where the model is older than broadcasting', function()
    local model = { inputs = { x = { 'float', { 1, 2, 2 } }, s = { 'float', { 2 } } }, outputs = { 'y' }, { 'PRelu', { 'x', 's' }, { 'y' } } }
    local feeds = { x = { { { -1, 2 }, { -3, -4 } } }, s = { 10, 100 } }
    local run = require('spec.onnx_model').run
    model.opset = 6
    assert.same({ { { -10, 2 }, { -300, -400 } } }, run(model, feeds):totable())
    model.opset = 7
    assert.same({ { { -10, 2 }, { -30, -400 } } }, run(model, feeds):totable())
  end)

  it('gives back the bounds that ClipByValue passes over', function()
    local registry = require 'dflow.front.registry'
    for _, d in ipairs { 'float32', 'float64', 'int32', 'int8' } do
      df.reset()
      local x, low, high = df.placeholder(d, { 3 }, 'x'), df.placeholder(d, {}, 'low'), df.placeholder(d, { 3 }, 'high')
      local y = registry.op('ClipByValue', { x, low, high })
      local path = os.tmpname()
      df.export_onnx(path, { outputs = { y } })
      local nan = d:find 'float' and 0 / 0
      local values = { x = { -1, 5, 9 }, low = nan or 0, high = { nan or 7, 4, nan or 8 } }
      local here = df.run(y, { [x] = values.x, [low] = values.low, [high] = values.high })
      local g = df.import_onnx(path)
      os.remove(path)
      local feeds = {}
      for name, v in pairs(values) do feeds[g:output(name)] = df.tensor(v, d) end
      assert.same(nan and { -1, 4, 9 } or { 0, 4, 8 }, here:totable())
      assert.same(here:totable(), df.Session { graph = g }:run(g:output(y.op.name), feeds):totable())
    end
  end)

  local nodes = os.getenv 'ONNX_NODES'
  it('passes the tests of the standard itself', function()
    if not nodes then return pending 'ONNX_NODES names no folder' end
    local pipe = assert(io.popen(("%s spec/onnx_nodes.lua '%s' 2>&1"):format(shell.dflow, nodes)))
    local told = pipe:read '*a'
    pipe:close()
    local right, wrong = told:match '(%d+) right, (%d+) wrong'
    assert.equal(0, tonumber(wrong), told)
    assert.is_true(tonumber(right) >= 1000, told)
  end)
end)
