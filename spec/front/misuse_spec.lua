-- Calls that are wrong in ways people do get them wrong: an error of ours that says what to write, never Lua's from inside a file of ours.
local df = require 'dflow'

local function message_of(fn, ...)
  local ok, e = pcall(fn, ...)
  assert(not ok, 'no error was raised')
  assert(type(e) == 'table' and e.code, 'an error of Lua\'s: ' .. tostring(e))
  return e.message
end

describe('a call that is wrong', function()
  it('with a dot for a colon says so', function()
    local x, v = df.placeholder('float32', { 3 }), df.Variable(df.ones { 3 })
    assert.matches('x:eval', message_of(function() return x.eval { [x] = { 1, 2, 3 } } end))
    assert.matches('x:eval', message_of(function() return x.eval() end))
    assert.matches('v:eval', message_of(function() return v.eval {} end))
    for _, name in ipairs { 'minimize', 'compute_gradients', 'apply_gradients' } do
      for _, o in ipairs { df.train.Adam(0.1), df.train.SGD(0.1) } do
        assert.matches('with a colon', message_of(function() return o[name](df.reduce_sum(x)) end))
        assert.matches('with a colon', message_of(function() return o[name]({}) end))
      end
    end
  end)

  it('says so for every method of what is made in a graph, trains, is stored or is read', function()
    local v, q = df.Variable(1.0), df.FIFOQueue(3, { 'float32' })
    local iterator = df.data.pipeline(df.tensor { 1, 2, 3 }):each()
    local objects = {
      { v, 'value read_value assign assign_add assign_sub scatter_add scatter_update eval load' },
      { q, 'enqueue enqueue_many dequeue dequeue_many dequeue_up_to size close is_closed' },
      { df.TensorArray('float32', 3), 'write read stack unstack gather scatter split concat size grad identity' },
      { df.MutableHashTable('string', 'int64', 0), 'lookup insert size' },
      { df.nn.Dense(3), 'parameters variables train eval' },
      { df.rnn.MultiRNNCell { df.rnn.GRUCell(2) }, 'zero_state parameters' },
      { df.nn.Sequential { df.nn.Dense(2) }, 'parameters' },
      { df.train.Saver(), 'save latest restore wait best checkpoints' },
      { df.train.ExponentialMovingAverage(0.9), 'apply average average_name variables variables_to_restore' },
      { df.data.pipeline(df.tensor { 1, 2, 3 }), 'each repeat_ batch map take' }, { iterator, 'state' },
      { df.constant(1.0).op, 'run' }, { df.constant(1.0), 'eval set_shape assign' },
      { df.default_graph(), 'size op' }, { df.Session(), 'run start stats' }, { df.start(df.constant(1.0)), 'wait done stats' },
    }
    for _, o in ipairs(objects) do
      for name in o[2]:gmatch '%S+' do
        for _, given in ipairs { { n = 0 }, { 3, n = 1 }, { 'x', n = 1 }, { {}, n = 1 }, { print, n = 1 }, { {}, v, n = 2 } } do
          assert.matches('with a colon', message_of(o[1][name], (table.unpack or unpack)(given, 1, given.n)), name)
        end
      end
    end
    assert.matches('a Variable or Output of floats', message_of(df.train.ExponentialMovingAverage(0.9).average_name,
                                                                df.train.ExponentialMovingAverage(0.9)))
  end)

  it('of what an optimizer does with one variable names the caller', function()
    local v = df.Variable(df.ones { 3 })
    for name, make in pairs(df.train) do
      local o = type(make) == 'function' and select(2, pcall(make, 0.1))
      if type(o) == 'table' and getmetatable(o).__name == 'dflow.Optimizer' then
        assert.is_false(pcall(function() return o.check end), name)
        for _, method in ipairs { 'dense', 'sparse' } do
          for _, given in ipairs { { n = 0 }, { o, n = 1 }, { o, v, n = 2 }, { o, v, v * 1, n = 3 }, { o, 5, v * 1, {}, n = 4 }, { o, v, 'x', {}, n = 4 } } do
            if o[method] then assert.matches('optimizer:', message_of(o[method], (table.unpack or unpack)(given, 1, given.n)), name) end
          end
        end
        df.run(o:apply_gradients { { df.ones { 3 }, v } })
      end
    end
  end)

  it('says what is expected and what was given', function()
    local v = df.Variable(df.ones { 3 })
    assert.matches('options are a table', message_of(df.run, v, nil, v * 1))
    assert.matches('rows takes a list', message_of(function() return df.run(v):rows() end))
    assert.matches('permutation takes a count', message_of(df.data.permutation))
    assert.matches('number of units', message_of(df.nn.glorot_uniform))
  end)

  it('is none: an empty options table', function()
    for _, name in ipairs { 'random_uniform', 'random_normal', 'truncated_normal' } do
      assert.are.same({ 3 }, df.run(df[name]({ 3 }, {})).shape)
    end
  end)
end)

describe('every function of the module, called with nothing or with the wrong kinds,', function()
  local skip = { reset = true, enter = true }
  local arguments = { {}, { 3 }, { 'x' }, { {} }, { true }, { print }, { {}, {} }, { 'x', 'y', 'z' }, { { 1, 2 }, 3, {} } }

  it('fails with an error of ours or works', function()
    local wrong = {}
    local function try(name, f)
      for i, list in ipairs(arguments) do
        local ok, e = pcall(f, (table.unpack or unpack)(list))
        if not ok and not (type(e) == 'table' and e.code) and tostring(e):find('stdlib/dflow/', 1, true) then
          wrong[#wrong + 1] = ('%s, arguments %d: %s'):format(name, i, tostring(e))
        end
      end
    end
    for _, namespace in ipairs { 'nn', 'rnn', 'train', 'data' } do
      for name, f in pairs(df[namespace] or {}) do if type(f) == 'function' then try(namespace .. '.' .. name, f) end end
    end
    for name, f in pairs(df) do if type(f) == 'function' and not skip[name] then try(name, f) end end
    df.reset()
    assert(#wrong == 0, ('%d\n%s'):format(#wrong, table.concat(wrong, '\n')))
  end)
end)

describe('v:load', function()
  it('sets the value, and builds and plans nothing', function()
    local v, w = df.Variable(df.zeros { 2 }), df.Variable(df.int32(1))
    df.run { v, w }
    local g = df.default_graph()
    local size = g:size()
    for i = 1, 100 do
      v:load { i, i }
      w:load(i)
    end
    assert.are.equal(size, g:size())
    assert.are.same({ 100, 100 }, df.run(v):totable())
    assert.are.equal(100, df.run(w))
    local stop = df.Variable(df.constant(false))
    stop:load(true)
    assert.are.equal(2, df.run(df.cond(stop, function() return df.int32(2) end, function() return df.int32(3) end)))
    v:load(df.tensor({ 5, 6 }, 'float32'))
    assert.are.same({ 5, 6 }, df.run(v):totable())
  end)

  it('comes before the initial value, and is of the session that is named', function()
    local v = df.Variable(df.float32(1))
    local s = df.Session { graph = df.default_graph() }
    v:load(7, s)
    assert.are.equal(7, s:run(v))
    assert.are.equal(1, df.run(v))
    s:init()
    assert.are.equal(1, s:run(v))
    s:close()
  end)

  it('refuses another dtype or shape, an Output, another graph and what is no session', function()
    local v = df.Variable(df.zeros { 2 }, { name = 'v' })
    assert.matches('variable', message_of(function() v:load { 1, 2, 3 } end))
    assert.matches('float32', message_of(function() v:load(df.tensor({ 1, 2 }, 'int32')) end))
    assert.matches('no value while building', message_of(function() v:load(df.zeros { 2 }) end))
    assert.matches('missing', message_of(function() v:load() end))
    assert.matches('session', message_of(function() v:load({ 1, 2 }, 3) end))
    local s = df.Session { graph = df.Graph() }
    assert.matches('another graph', message_of(function() v:load({ 1, 2 }, s) end))
    s:close()
    assert.are.same({ 0, 0 }, df.run(v):totable())
  end)
end)
