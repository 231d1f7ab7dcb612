--- Optimizers and data.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of

--- Loss and variable of (w - 3)^2, summed.
local function bowl(dtype)
  local w = df.Variable({ 0, 1 }, { name = 'w', dtype = dtype or 'float64' })
  return df.reduce_sum(df.square(w - 3)), w
end

describe('an optimizer', function()
  it('finds the minimum', function()
    for _, make in ipairs{ function() return df.train.SGD(0.1) end, function() return df.train.Momentum{ learning_rate = 0.05, momentum = 0.8 } end,
                           function() return df.train.Adam{ learning_rate = 0.3 } end } do
      df.reset()
      local loss, w = bowl('float32')
      local step = make():minimize(loss)
      for _ = 1, 200 do df.run(step) end
      near(df.run(w), { 3, 3 }, { atol = 1e-2 })
    end
  end)

  it('gives the loss from before the step beside it', function()
    local loss = bowl()
    local step = df.train.SGD(0.1):minimize(loss)
    for _ = 1, 20 do
      df.init()
      near(df.run{ loss, step }[1], 13)
    end
  end)

  it('takes a learning rate that is fed', function()
    local loss, w = bowl()
    local rate = df.placeholder('float32', {})
    local step = df.train.SGD(rate):minimize(loss)
    df.run(step, { [rate] = 0.5 })
    near(df.run(w), { 3, 3 })
  end)

  it('changes only the variables it is given, and counts steps', function()
    local a, b = df.Variable(1.0), df.Variable(1.0)
    local count = df.Variable(df.int32(0), { trainable = false })
    local step = df.train.SGD(0.1):minimize(a * a + b * b, { var_list = { a }, global_step = count })
    df.run(step)
    df.run(step)
    near(df.run{ a, b, count }, { 0.64, 1, 2 })
  end)

  it('leaves out variables that the loss does not depend on', function()
    local a, b = df.Variable(1.0), df.Variable(1.0)
    df.run(df.train.SGD(0.1):minimize(a * a))
    near(df.run{ a, b }, { 0.8, 1 })
    assert.matches('none of the variables', message_of(function() df.train.SGD(0.1):minimize(df.constant(1.0) * 2) end))
  end)

  it('gives gradients to be changed between compute and apply', function()
    local loss, w = bowl()
    local o = df.train.SGD(0.1)
    local list = o:compute_gradients(loss, { w })
    assert.equal(w, list[1][2])
    df.run(o:apply_gradients{ { list[1][1] * 2, w } })
    near(df.run(w), { 1.2, 1.8 })
  end)

  it('trains through a loop', function()
    local w = df.Variable(0.5, { dtype = 'float64' })
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * w end, { df.int32(0), df.float64(1) })
    local step = df.train.Adam(0.1):minimize((y - 8) ^ 2)
    for _ = 1, 150 do df.run(step) end
    near(df.run(w), 2, { atol = 1e-2 })
  end)

  it('says what it does not know', function()
    assert.matches("did you mean 'AdamOptimizer'", message_of(function() return df.train.AdamOptimiser(0.1) end))
    assert.matches("no option 'learning'", message_of(df.train.Adam, { learning = 0.1 }))
    assert.matches('learning rate', message_of(df.train.SGD))
  end)
end)

describe('df.data', function()
  local path = os.tmpname()
  teardown(function() os.remove(path) end)
  local function write(bytes)
    require('spec.shell').write(path, bytes)
  end

  it('reads IDX files, plain and gzip', function()
    write('\0\0\8\2\0\0\0\2\0\0\0\3\1\2\3\4\5\255')
    local t = df.data.idx(path)
    assert.equal('uint8', t.dtype)
    assert.same({ { 1, 2, 3 }, { 4, 5, 255 } }, t:totable())
    write('\0\0\12\1\0\0\0\2\0\0\1\0\255\255\255\255')
    assert.same({ 256, -1 }, df.data.idx(path):totable())
    write('\0\0\11\1\0\0\0\2\0\1\255\254')
    assert.same({ 1, -2 }, df.data.idx(path):totable())
    local images = df.data.idx('examples/data/train-images-idx3-ubyte.gz')
    assert.same({ 8, 8 }, { images.shape[2], images.shape[3] })
  end)

  it('says what is wrong with a file', function()
    for _, bytes in ipairs{ '', '\0\0', 'hello world', '\0\0\8\9', '\0\0\8\2\0\0\0\2', '\0\0\8\1\0\0\0\4abc' } do
      write(bytes)
      local ok, e = pcall(df.data.idx, path)
      assert.is_false(ok)
      assert.equal('data_loss', e.code)
      assert.matches(path, e.message, 1, true)
    end
    assert.equal('not_found', (select(2, pcall(df.data.idx, path .. '.missing'))).code)
  end)

  it('goes over batches in a shuffled order that a seed fixes', function()
    local x, y = df.tensor({ { 0 }, { 1 }, { 2 }, { 3 }, { 4 } }, 'int32'), df.tensor({ 0, 10, 20, 30, 40 }, 'int32')
    local function order(opts)
      local seen, sizes = {}, {}
      for _, a, b in df.data.batches({ x, y }, 2, opts) do
        for i = 0, a.shape[1] - 1 do
          assert.equal(a:at(i, 0) * 10, b:at(i))
          seen[#seen + 1] = a:at(i, 0)
        end
        sizes[#sizes + 1] = a.shape[1]
      end
      return seen, sizes
    end
    assert.same({ 0, 1, 2, 3 }, (order{ shuffle = false }))
    assert.same({ 2, 2, 1 }, (select(2, order{ shuffle = false, drop_remainder = false })))
    assert.same((order{ seed = 3 }), (order{ seed = 3 }))
    local all = order{ seed = 4, drop_remainder = false, epochs = 2 }
    assert.equal(10, #all)
    table.sort(all)
    assert.same({ 0, 0, 1, 1, 2, 2, 3, 3, 4, 4 }, all)
    assert.matches('rows', message_of(df.data.batches, { x, df.tensor({ 1 }) }, 2))
    same(1, 1)
  end)
end)
