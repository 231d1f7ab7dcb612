--- What fails while it is built takes its nodes with it; a finalized graph takes nothing more.
local df = require 'dflow'
local support = require 'spec.support'
local same, message_of = support.same, support.message_of

describe('a construct that fails while it is built', function()
  local x, y, w, i0, p, six
  before_each(function()
    x = df.placeholder('float32', { -1 }, 'x')
    w = df.Variable(2.0, { name = 'w' })
    i0, p = df.int32(0), df.constant(true)
    y, six = x * x, df.zeros{ 6 }
    local _ = w * x
  end)

  --- All that one can see of the graph.
  local function picture()
    local text = {}
    for i, o in ipairs(df.default_graph():ops()) do
      local inputs = {}
      for k, input in ipairs(o.inputs) do inputs[k] = input.name end
      for _, waited in ipairs(o.control_inputs) do inputs[#inputs + 1] = '^' .. waited.name end
      text[i] = o.name .. ' = ' .. o.type .. '(' .. table.concat(inputs, ', ') .. ')'
    end
    return table.concat(text, '\n')
  end

  local function boom() error('boom', 0) end
  local function more(i) return i:lt(10) end
  local failing = {
    { 'a cond whose branch raises', function() df.cond(p, function() return x + w end, boom) end },
    { 'a cond whose branches differ', function() df.cond(p, function() return x end, function() return i0 end) end },
    { 'a loop whose body raises', function() df.while_loop(more, function(i) w:assign_add(1.0) df.print(i) boom() end, { i0 }) end },
    { 'a loop whose body changes a dtype', function() df.while_loop(more, function() return x end, { 0, i0 }) end },
    { 'a loop with another inside, whose body raises at its end', function()
      df.while_loop(more, function(i)
        local j = df.while_loop(function(j) return j:lt(i) end, function(j) return j + 1 end, { i })
        df.cond(j:gt(3), function() w:assign(3.0) end, function() end)
        boom()
      end, { i0 })
    end },
    { 'gradients without a way from y to x', function() df.gradients(y, w) end },
    { 'a map_fn whose function raises', function() df.map_fn(boom, x) end },
    { 'a scan whose function raises', function() df.scan(boom, x, 0.0) end },
    { 'an op that refuses what its arguments became', function() return df.reshape(six, { 2, 4 }) end },
    { 'an op whose constant has the wrong shape', function() return six + { 1, 2, 3 } end },
  }

  for _, case in ipairs(failing) do
    it('leaves the graph as it was: ' .. case[1], function()
      local before, size = picture(), df.default_graph():size()
      for _ = 1, 3 do assert.is_false((pcall(case[2]))) end
      same(df.default_graph():size(), size)
      assert.equal(before, picture())
    end)
  end

  it('leaves no mark behind, however it fails', function()
    local core = require 'dflow.backend'
    local function next_mark()
      local mark = core.graph_mark(df.default_graph().handle)
      core.graph_keep(df.default_graph().handle, mark)
      return mark
    end
    local before = next_mark()
    for _ = 1, 3 do
      for _, case in ipairs(failing) do
        pcall(case[2])
        assert.equal(before, next_mark(), case[1])
      end
    end
  end)

  it('gives its names back', function()
    pcall(df.cond, p, boom, boom)
    pcall(df.while_loop, more, boom, { i0 }, { name = 'loop' })
    assert.matches('^cond/', df.cond(p, function() return x + 1 end, function() return x end).op.inputs[1].name)
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * w end, { i0, df.float32(1.5) }, { name = 'loop' })
    same(df.run(y), 12)
    assert.equal('loop/Exit_1', y.op.name)
  end)

  it('leaves the effects of the body around it in their order', function()
    local seen = df.Variable(0.0)
    local n = df.while_loop(function(i) return i:lt(3) end, function(i)
      seen:assign(seen * 10 + 1)
      pcall(df.cond, i:gt(0), function() seen:assign(100) boom() end, boom)
      pcall(df.while_loop, more, function() seen:assign_add(1000) boom() end, { i })
      seen:assign_add(1)
      return i + 1
    end, { i0 })
    df.run(n)
    same(df.run(seen), 222)
  end)

  it('leaves a loop that is open waiting for no more than it did', function()
    local function built(fail)
      df.reset()
      local seen = df.Variable(0.0)
      df.cond(df.constant(true), function()
        seen:assign(5)
        local n = df.while_loop(more, function(i)
          local positive = i:gt(0)
          if fail then pcall(df.cond, positive, function() seen:assign(100) boom() end, boom) end
          return i + 1
        end, { df.int32(0) })
        return n
      end, function() return df.int32(0) end)
      return picture()
    end
    assert.equal(built(false), built(true))
  end)

  it('leaves what it captured of an outer loop to be captured again', function()
    local n, y = df.while_loop(function(i) return i:lt(3) end, function(i, a)
      pcall(df.cond, i:gt(0), function() return x * w + a + boom() end, boom)
      return i + 1, a + df.cond(i:gt(0), function() return x[0] * w end, function() return x[0] end)
    end, { i0, df.float32(0.5) })
    same(df.run({ n, y }, { [x] = { 4 } }), { 3, 20.5 })
    same(df.run(df.gradients(y, w), { [x] = { 4 } }), 8)
  end)

  it('leaves a loop that gradients looked into to the next gradients', function()
    local v = df.Variable(1.0)
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, a) return i + 1, a * w end, { i0, df.float32(3.5) })
    local size = df.default_graph():size()
    for _ = 1, 3 do assert.matches('does not depend on x', message_of(df.gradients, y, { w, v })) end
    same(df.default_graph():size(), size)
    same(df.run(df.gradients(y, w)), 42)
    same(df.run(df.gradients(df.gradients(y, w), w)), 42)
  end)

  it('says of an Output that went with it what became of it', function()
    local leak
    pcall(df.cond, p, function() leak = x + 1 boom() end, boom)
    for _, use in ipairs{ function() return leak * 2 end, function() return leak.name end,
                          function() return df.run(leak, { [x] = { 1 } }) end, function() return df.identity(leak) end, function() return leak:reduce_sum() end } do
      assert.matches('failed while it was built', message_of(use))
    end
  end)

  it('keeps what may be known outside: variables, functions, what ran', function()
    local v, f
    pcall(df.cond, p, function()
      v = df.Variable(5.0)
      f = df.func('twice', { 'float32' }, function(a) return a * 2 end)
      f(v)
      boom()
    end, boom)
    same(df.run(v), 5)
    same(df.run(f(v)), 10)
    pcall(df.while_loop, more, function() df.control_dependencies({}, function() return w end) df.run(w) boom() end, { i0 })
    same(df.run(w), 2)
  end)

  it('takes no memory, however often it fails', function()
    local g = df.default_graph()
    local function fail() pcall(df.while_loop, more, function(i) df.cond(i:gt(0), function() return w * 2 end, boom) end, { i0 }) end
    fail()
    local before = g:size()
    for _ = 1, 300 do fail() end
    same(g:size(), before)
  end)
end)

describe('g:finalize', function()
  it('makes building an error and leaves running as it is', function()
    local g = df.Graph()
    g:as_default(function()
      local x = df.placeholder('float32', {})
      local v = df.Variable(3.0)
      local y = x * v
      local size
      g:finalize()
      size = g:size()
      assert.matches('finalized', message_of(function() return y + 1 end))
      local ok, e = pcall(function() return df.cond(y:gt(0), function() return y end, function() return x end) end)
      assert.is_false(ok)
      assert.equal('failed_precondition', e.code)
      assert.matches('finalized', message_of(df.gradients, y, v))
      same(df.run(y, { [x] = 2 }), 6)
      same(df.run(v), 3)
      same(g:size(), size)
    end)
  end)
end)
