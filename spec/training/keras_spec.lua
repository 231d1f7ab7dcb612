-- Weights that Keras wrote, as HDF5 (keras_weights.py made the files): df.restore reads them where libhdf5 is.
local df = require 'dflow'
local core = require 'dflow.backend'
local checkpoint = require 'dflow.train.checkpoint'
local shell = require 'spec.shell'

local CODES = { data_loss = true, unimplemented = true, invalid_argument = true, not_found = true, resource_exhausted = true }
local NAMES = { 'layers/dense/vars/0', 'layers/dense/vars/1', 'layers/dense_1/vars/0', 'layers/dense_1/vars/1' }
local OLD_NAMES = { 'model_weights/dense/dense/kernel:0', 'model_weights/dense/dense/bias:0', 'model_weights/out/out/kernel:0', 'model_weights/out/out/bias:0' }
local VALUES = { { { 1, 2 }, { 3, 4 }, { 5, 6 } }, { 0.5, -0.5 }, { { 7 }, { 8 } }, { 0.25 } }

describe('the weights of Keras', function()
  local folder
  setup(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute(("mkdir '%s'"):format(folder))
  end)
  teardown(function() os.execute(("rm -rf '%s'"):format(folder)) end)
  before_each(function() df.reset() end)

  local function bytes_of(name) return core.tensor_bytes(core.read_file('spec/training/' .. name)) end
  local function laid(name, bytes)
    local path = folder .. '/' .. name:gsub('%.gz$', '')
    shell.write(path, bytes or bytes_of(name))
    return path
  end
  local function error_of(fn, ...)
    local ok, e = pcall(fn, ...)
    assert.is_false(ok)
    return e
  end
  --- Where there is no libhdf5 the error says which package has it, and the rest is pending.
  local function with_library(name, fn)
    it(name, function()
      local path = laid 'types.h5.gz'
      local ok, e = pcall(checkpoint.open, path, 'restore')
      if ok then return fn(path) end
      assert.equal('unimplemented', e.code)
      assert.is_truthy(e.message:find(path, 1, true) and e.message:find 'libhdf5', e.message)
      pending 'libhdf5 is not installed'
    end)
  end

  with_library('are restored by the names of their datasets, or by a map', function()
    for name, names in pairs{ ['model.weights.h5.gz'] = NAMES, ['model.keras.gz'] = NAMES, ['deflated.keras'] = NAMES, ['model.h5.gz'] = OLD_NAMES } do
      df.reset()
      local path, vars, map, renamed = laid(name), {}, {}, {}
      for i, dataset in ipairs(names) do
        vars[dataset] = df.Variable(df.zeros_like(df.constant(VALUES[i], 'float32')), { name = 'v' .. i })
        renamed[i] = df.Variable(df.zeros_like(df.constant(VALUES[i], 'float32')), { name = 'w' .. i })
        map[dataset] = renamed[i]
      end
      assert.equal(4, #df.restore(path, { variables = vars, partial = name == 'model.h5.gz' }))
      df.restore(path, { variables = renamed, map = map })
      for i, dataset in ipairs(names) do
        assert.same(VALUES[i], df.run(vars[dataset]):totable(), name)
        assert.same(VALUES[i], df.run(renamed[i]):totable(), name)
      end
    end
  end)

  with_library('are all or none, and what does not fit is named', function()
    local path = laid 'model.keras.gz'
    local v = df.Variable({ 9.0, 9.0, 9.0 }, { name = 'v' })
    local bias = df.Variable({ 9.0, 9.0 }, { name = 'bias' })
    local e = error_of(df.restore, path, { variables = { [NAMES[1]] = v, [NAMES[2]] = bias } })
    assert.equal('invalid_argument', e.code)
    assert.is_truthy(e.message:find(NAMES[1], 1, true) and e.message:find(path, 1, true), e.message)
    assert.same({ 9, 9 }, df.run(bias):totable())
    assert.equal('not_found', error_of(df.restore, path, { variables = { bias } }).code)
  end)

  with_library('have their dtypes, in either byte order, packed or not', function(path)
    local file, seen = checkpoint.open(path, 'restore'), {}
    for name, want in pairs{
      ['floats/half'] = { 'float16', { 1.5, -2, 65504 } }, ['floats/single'] = { 'float32', { { 1.5, -2, 3.25 }, { 0, 0.5, -7 } } },
      ['floats/big'] = { 'float64', { 1.5, -2.25 } }, ['ints/small'] = { 'int8', { -1, 2, 127 } }, ['ints/big'] = { 'int32', { 258, -3 } },
      ['ints/bytes'] = { 'uint8', { 0, 255 } }, flag = { 'bool', { true, false, true } },
    } do
      local about, t = file.about(name), file.tensor(name)
      assert.equal(want[1], about.dtype)
      assert.equal(want[1], t.dtype)
      assert.same(about.shape, t.shape)
      assert.same(want[2], t:totable(), name)
    end
    assert.equal(2 ^ 40, tonumber(file.tensor('ints/long'):list()[1]))
    assert.same({ 0, 3 }, file.tensor('empty').shape)
    for i, v in ipairs(file.tensor('packed'):list()) do assert.equal(i - 1, v) end
    for _, name in ipairs(file.names) do seen[name] = true end
    assert.is_nil(seen.elsewhere)                  -- links to other files are not followed
  end)

  with_library('are not read where they lie in other files, are too large, or are no tensors', function(path)
    local file, count = checkpoint.open(path, 'restore'), 0
    for _, name in ipairs(file.names) do
      if name:find '^not/' then
        count = count + 1
        for _, fn in ipairs{ file.about, file.tensor } do
          local e = error_of(fn, name)
          assert.equal('unimplemented', e.code)
          assert.is_truthy(e.message:find(name, 1, true) and e.message:find(path, 1, true), e.message)
        end
      end
    end
    assert.equal(6, count)
  end)

  with_library('are an error of the reader where the file is damaged, whatever libhdf5 makes of it', function()
    for _, name in ipairs{ 'types.h5.gz', 'model.weights.h5.gz', 'deflated.keras' } do
      local whole, noticed = bytes_of(name), 0
      local function try(bytes, cut)
        local path = laid('damaged' .. name:gsub('%.gz$', ''), bytes)
        local ok, e = pcall(function()
          local file = checkpoint.open(path, 'restore')
          for i = 1, math.min(#file.names, 4) do file.tensor(file.names[i]) end
        end)
        if ok then return assert.is_falsy(cut) end
        noticed = noticed + 1
        assert.is_true(CODES[e.code], tostring(e.message))
        assert.is_truthy(e.message:find(path, 1, true), e.message)
      end
      for at = 16, #whole - 1, math.ceil(#whole / 40) do
        try(whole:sub(1, at), true)
        try(whole:sub(1, at - 1) .. string.char((whole:byte(at) + 1) % 256) .. whole:sub(at + 1))
        try(whole:sub(1, at - 1) .. '\255\255\255\255' .. whole:sub(at + 4))
      end
      assert.is_true(noticed >= 30, name)
    end
  end)
end)
