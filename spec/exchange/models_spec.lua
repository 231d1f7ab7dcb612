--- Models as TensorFlow's users save them, recorded by spec/models/record.py: a Saver's MetaGraph with its checkpoint, SavedModels of
-- TensorFlow 1, TensorFlow 2 and Keras.
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local values = dofile 'spec/models/values.lua'

local folder = os.tmpname()
os.remove(folder)
os.execute('mkdir ' .. folder)
teardown(function() os.execute('rm -r ' .. folder) end)

local function trainable(g)
  local names = {}
  for _, v in ipairs(g:as_default(df.trainable_variables)) do names[#names + 1] = v.name end
  table.sort(names)
  return names
end

--- The numbers a, …, b, n of them.
local function linspace(a, b, n)
  local list = {}
  for i = 0, n - 1 do list[i + 1] = a + (b - a) * i / (n - 1) end
  return list
end

describe('a MetaGraph with a Saver', function()
  local x = { ['x:0'] = { { 1, 2, 3 } } }

  local function restored(prefix)
    local g = df.import_graph_def('spec/models/saver.meta')
    local s = df.Session{ graph = g }
    s:run(g:op 'save/restore_all', { ['save/Const:0'] = prefix })
    return s, g
  end

  it('restores what TensorFlow saved, and trains on as TensorFlow does', function()
    local s, g = restored('spec/models/saver')
    support.near(s:run(g:output 'y:0', x), values.saver_y)
    support.near(s:run(g:output 'loss:0', x), values.saver_loss)
    s:run(g:op 'train', x)
    support.near(s:run(g:output 'y:0', x), values.saver_after)
    assert.equal(values.saver_step, tonumber(s:run(g:output 'global_step:0')))
  end)

  it('saves a checkpoint that it restores', function()
    local s, g = restored('spec/models/saver')
    s:run(g:op 'train', x)
    s:run(g:op 'save/control_dependency', { ['save/Const:0'] = folder .. '/again' })
    local t, h = restored(folder .. '/again')
    support.near(t:run(h:output 'y:0', x), values.saver_after)
    assert.equal(2, df.load_checkpoint(folder .. '/again').frozen:item())
  end)

  it('has df.Variables, trainable as its collections say, that begin as TensorFlow would let them', function()
    local g = df.import_graph_def('spec/models/saver.meta')
    assert.same({ 'b', 'w' }, trainable(g))
    assert.equal(6, #g:as_default(df.global_variables))
    local s = df.Session{ graph = g }
    g:as_default(function()
      local by = {}
      for _, v in ipairs(df.global_variables()) do by[v.name] = v end
      assert.equal(2, s:run(by.frozen))
      s:run(by.w:assign(df.ones{ 3, 2 }))                -- a reference variable
      assert.same({ { 1, 1 }, { 1, 1 }, { 1, 1 } }, s:run(by.w):totable())
      s:run(by.b:assign_add(df.ones{ 2 }))               -- a resource
      assert.same({ 1, 1 }, s:run(by.b):totable())
      assert.same({ { 13, 13 } }, s:run(g:output 'y:0', x):totable())
      local slope = df.gradients(g:output 'loss:0', by.w)
      support.near(s:run(slope, x), { { 52, 52 }, { 104, 104 }, { 156, 156 } })
    end)
  end)

  it('has variables that are references beside others that are none: each is assigned and scattered to in its own way', function()
    local g = df.import_graph_def('spec/models/saver.meta')
    local s, by = df.Session{ graph = g }, {}
    for _, v in ipairs(g:as_default(df.global_variables)) do by[v.name] = v end
    for _, name in ipairs{ 'w', 'b', 'w/Momentum', 'b/Momentum' } do          -- references and others by turns
      local v = by[name]
      s:run(v:assign(g:as_default(df.zeros, v.shape)))
      s:run(v:assign_add(g:as_default(df.ones, v.shape)))
      local row = { #v.shape == 2 and { 5, 5 } or 5 }
      s:run(v:scatter_add({ 1 }, row))
      s:run(v:scatter_mul({ 1 }, row))
      local t = s:run(v)
      assert.same({ 1, 30 }, #v.shape == 2 and { t:at(0, 0), t:at(1, 1) } or { t:at(0), t:at(1) }, name)
    end
  end)

  it('touches no file but under a path that the run is fed', function()
    local s, g = restored('spec/models/saver')
    local err = support.error_of(s.run, s, g:op 'save/restore_all')
    assert.equal('permission_denied', err.code)
    assert.matches('may not touch the file model', err.message)
    local free = df.import_graph_def('spec/models/saver.meta', { files = true })
    err = support.error_of(function() df.Session{ graph = free }:run(free:op 'save/restore_all') end)
    assert.equal('not_found', err.code)
  end)

  it('does not climb out of the path that the run is fed', function()
    local g = df.import_graph_def [[
      node { name: "path" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } attr { key: "shape" value { shape { } } } }
      node { name: "rest" op: "PlaceholderWithDefault" input: "no" attr { key: "dtype" value { type: DT_STRING } } attr { key: "shape" value { shape { } } } }
      node { name: "no" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
             attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { } string_val: "" } } } }
      node { name: "whole" op: "StringJoin" input: "path" input: "rest" attr { key: "N" value { i: 2 } } }
      node { name: "names" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
             attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "w" } } } }
      node { name: "slices" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
             attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "" } } } }
      node { name: "read" op: "RestoreV2" input: "whole" input: "names" input: "slices" attr { key: "dtypes" value { list { type: DT_FLOAT } } } }]]
    local s = df.Session{ graph = g }
    for rest, code in pairs{ [''] = 'not_found', ['/inside'] = 'not_found', ['/a.b'] = 'not_found', ['.'] = 'not_found', ['/a./.b'] = 'not_found',
                             ['/../outside'] = 'permission_denied', ['..'] = 'permission_denied', ['/a/..'] = 'permission_denied',
                             ['/../'] = 'permission_denied', ['a../b'] = 'permission_denied' } do
      local err = support.error_of(s.run, s, g:output 'read:0', { ['path:0'] = folder .. '/nothing', ['no:0'] = rest })
      assert.equal(code, err.code, rest)
    end
  end)

  it('lets its iterator be fed, and says so where it has to run', function()
    local s, g = restored('spec/models/saver')
    support.near(s:run(g:output 'from_rows:0', { ['IteratorGetNext:0'] = { { 1, 0, 0 } } }), { values.saver_w[1] })
    assert.matches('does not know the op', support.message_of(s.run, s, g:output 'from_rows:0'))
  end)
end)

describe('a SavedModel', function()
  it('of TensorFlow 1 is itself with the values of its checkpoint', function()
    local g = df.import_graph_def('spec/models/v1')
    assert.same({ 'kernel', 'scale' }, trainable(g))
    local y = df.Session{ graph = g }:run(g:output 'features:0', { ['image:0'] = df.tensor(linspace(-1, 1, 32)):reshape{ 1, 4, 4, 2 } })
    support.near(y:reshape{ 48 }, values.v1_features)
  end)

  it('of TensorFlow 2 with its loop and cond, differentiable', function()
    local g = df.import_graph_def('spec/models/v2')
    assert.same({ 'w' }, trainable(g))
    local s = df.Session{ graph = g }
    local feeds = { ['serving_default_x:0'] = { { 1, 2 } }, ['serving_default_n:0'] = 4 }
    local y, x = g:output 'StatefulPartitionedCall:0', g:output 'serving_default_x:0'
    support.near(s:run(y, feeds), values.v2_y)
    local sum, slope = g:as_default(function()
      local sum = y:reduce_sum()
      return sum, df.gradients(sum, x)
    end)
    local function at(a, b) return s:run(sum, { [x] = { { a, b } }, ['serving_default_n:0'] = 4 }) end
    local e = 1 / 64
    local differences = { { (at(1 + e, 2) - at(1 - e, 2)) / (2 * e), (at(1, 2 + e) - at(1, 2 - e)) / (2 * e) } }
    assert.is_true(math.abs(differences[1][1]) > 1e-3)
    support.near(s:run(slope, feeds), differences, { rtol = 1e-3, atol = 1e-4 })
  end)

  it('by their signatures: inputs and outputs under names of their own, one chosen by its name', function()
    local g = df.import_graph_def('spec/models/v2', { prefix = 'm' })
    local said = g.signatures.serving_default
    assert.equal('serving_default_x:0', said.inputs.x)
    assert.equal(g:output 'm/serving_default_x:0', g.inputs.x)
    assert.is_nil(g.signatures.__saved_model_init_op)
    assert.equal(2, #g.inputs)
    assert.equal(#g.results, #g.outputs)
    local s = df.Session{ graph = g }
    support.near(s:run(g.outputs[g.results[1]], { [g.inputs.x] = { { 1, 2 } }, [g.inputs.n] = 4 }), values.v2_y)
    local v1 = df.import_graph_def('spec/models/v1', { signature = next(df.import_graph_def('spec/models/v1').signatures) })
    assert.equal(v1:output 'features:0', v1.outputs[1])
    assert.matches("there is no signature 'train', the model has 'serving_default'",
                   support.message_of(df.import_graph_def, 'spec/models/v2', { signature = 'train' }), 1, true)
    local path = os.tmpname()
    df.reset()
    df.export_graph_def(path, { outputs = df.placeholder('float32', {}, 'x') * 2 })
    assert.matches("there is no signature 'train', the graph has none", support.message_of(df.import_graph_def, path, { signature = 'train' }), 1, true)
    assert.is_nil(rawget(df.import_graph_def(path), 'signatures'))
    os.remove(path)
  end)

  describe('that its initializer makes ready', function()
    local texts = { 'The quick, brown fox!', '', 'fox?' }

    it('has its tables filled by the first run of each session, from its own file too', function()
      local g = df.import_graph_def('spec/models/words')
      for _ = 1, 2 do
        local s = df.Session{ graph = g }
        local r = s:run({ g.outputs.ids, g.outputs.weights }, { [g.inputs.text] = texts })
        support.same(r[1], values.words_ids)
        support.near(r[2], values.words_weights)
        support.same(s:start(g.outputs.ids, { [g.inputs.text] = texts }):wait(), values.words_ids)
        s:close()
      end
      local both = df.import_graph_def('spec/models/words', { into = g, prefix = 'again' })
      support.same(df.Session{ graph = both }:run(both.outputs.ids, { [both.inputs.text] = { 'fox' } }), { { 2 } })
    end)

    it('may be started before it is run', function()
      local g = df.import_graph_def('spec/models/words')
      local h = df.Session{ graph = g }:start(g.outputs.ids, { [g.inputs.text] = texts })
      support.same(h:wait(), values.words_ids)
    end)

    it('says what its initializer lacks, and may read no file but its own', function()
      local bytes = shell.read('spec/models/words/saved_model.pb')
      local function run(model)
        local g = df.import_graph_def(model)
        return df.Session{ graph = g }:run(g.outputs.ids, { [g.inputs.text] = texts })
      end
      assert.matches("the model's initializer 'NoOp': ", support.message_of(run, bytes), 1, true)             -- bytes have no folder: nothing is fed
      local climbing = bytes:gsub('vocabulary%.txt', '../../etc/pass')
      assert.matches("an asset is called '../../etc/pass', the name of a file in the model's folder is expected", support.message_of(run, climbing), 1, true)
      os.execute(('mkdir %s/without && cp spec/models/words/saved_model.pb %s/without && cp -r spec/models/words/variables %s/without'):format(folder, folder, folder))
      assert.matches("cannot open " .. folder .. '/without/assets/vocabulary.txt', support.message_of(run, folder .. '/without'), 1, true)
    end)
  end)

  it('of Keras layers', function()
    local g = df.import_graph_def('spec/models/keras')
    assert.equal(9, #trainable(g))
    local x = df.tensor(linspace(-1, 1, 15)):reshape{ 1, 5, 3 }
    support.near(df.Session{ graph = g }:run(g:output 'StatefulPartitionedCall_1:0', { ['serving_default_conv1d_input:0'] = x }), values.keras_y)
  end)
end)

describe('FusedBatchNormV3', function()
  --- It and the same of plain ops, as functions of x, scale and offset.
  local function both(format, training)
    local channel_last = format == 'NHWC'
    local mean, variance = df.float32{ 0.5, -0.5 }, df.float32{ 2, 3 }
    local function column(v) return channel_last and v or v:reshape{ 2, 1, 1 } end
    local function fused(x, scale, offset)
      local y = require('dflow.front.registry').op('FusedBatchNormV3', { x, scale, offset, mean, variance },
                                                   { data_format = format, is_training = training, epsilon = 0.01 })
      return y
    end
    local function plain(x, scale, offset)
      local m, v = mean, variance
      if training then
        local axes = channel_last and { 0, 1, 2 } or { 0, 2, 3 }
        m = x:reduce_mean{ axis = axes }
        v = df.square(x - column(m)):reduce_mean{ axis = axes }
      end
      return (x - column(m)) * column(df.rsqrt(v + 0.01) * scale) + column(offset)
    end
    return fused, plain
  end

  for _, format in ipairs{ 'NHWC', 'NCHW' } do
    for _, training in ipairs{ true, false } do
      it(('has the values and gradients of plain ops, %s, %s'):format(format, training and 'in training' or 'with moving averages'), function()
        local fused, plain = both(format, training)
        local x = df.constant(support.tensor(format == 'NHWC' and { 2, 3, 3, 2 } or { 2, 2, 3, 3 }, -1, 1, 'float32'))
        local scale, offset = df.float32{ 1.5, 0.5 }, df.float32{ 0.1, 0.2 }
        local results = {}
        for i, fn in ipairs{ fused, plain } do
          local y = fn(x, scale, offset)
          y = df.type(y) == nil and y[1] or y
          results[i] = df.run{ y, df.gradients(df.square(y):reduce_sum() + (y * x):reduce_sum(), { x, scale, offset }) }
        end
        support.near(results[1][1], results[2][1]:totable(), { rtol = 1e-3, atol = 1e-4 })
        for k = 1, 3 do support.near(results[1][2][k], results[2][2][k]:totable(), { rtol = 1e-3, atol = 1e-4 }) end
      end)
    end
  end
end)

describe('a checkpoint', function()
  it('holds tensors of any dtype, shape and length under their names', function()
    local tensors = { ['a/b'] = df.tensor({ 1, 2 }, 'float64'), empty = df.tensor({}, 'int32'), text = df.tensor{ 'x', '', ('y'):rep(300) },
                      yes = df.tensor(true), half = df.tensor({ { 1, 2 } }, 'bfloat16') }
    for i = 1, 200 do tensors[('layer_%03d/kernel'):format(i)] = df.tensor({ i }, 'int64') end
    df.save_checkpoint(folder .. '/many', tensors)
    local found = df.load_checkpoint(folder .. '/many')
    for name, t in pairs(tensors) do
      assert.equal(t.dtype, found[name].dtype)
      assert.same(t.shape, found[name].shape)
      assert.same(t:list(), found[name]:list())
    end
  end)

  it('that is damaged anywhere is an error', function()
    local function bytes_of(path)
      return shell.read(path)
    end
    local index, data = bytes_of 'spec/models/saver.index', bytes_of 'spec/models/saver.data-00000-of-00001'
    local write = shell.write
    for i = 1, #index - 8, 3 do
      write(folder .. '/bad.index', index:sub(1, i - 1) .. string.char((index:byte(i) + 1) % 256) .. index:sub(i + 1))
      write(folder .. '/bad.data-00000-of-00001', data)
      local ok, err = pcall(df.load_checkpoint, folder .. '/bad')
      assert.is_true(ok or err.code ~= nil)
    end
    write(folder .. '/bad.index', index)
    write(folder .. '/bad.data-00000-of-00001', data:sub(1, 20) .. '\255' .. data:sub(22))
    local ok, err = pcall(df.load_checkpoint, folder .. '/bad')
    assert.is_false(ok)
    assert.equal('data_loss', err.code)
    write(folder .. '/bad.data-00000-of-00001', data:sub(1, 20))
    assert.is_false((pcall(df.load_checkpoint, folder .. '/bad')))
    assert.equal('not_found', select(2, pcall(df.load_checkpoint, folder .. '/nowhere')).code)
  end)
end)
