-- Arithmetic of Tensors, which computes at once: the same whether a call comes for the first time or again.
local df = require 'dflow'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

local function value(v)
  if support.is_tensor(v) then return { v.dtype, v.shape, v:totable() } end
  return v
end

describe('arithmetic of Tensors', function()
  it('gives the same the first time, the second and ever after, whatever came between', function()
    local a, b = df.tensor({ { 1.5, -2 }, { 3, 4.25 } }, 'float32'), df.tensor({ { 2, 7 }, { -1, 0.5 } }, 'float32')
    local i, s = df.tensor({ 3, -4, 5 }, 'int32'), df.tensor{ 'x', 'yz' }
    local calls = {
      function(k) return a / k end, function(k) return k - a end, function() return a + b end, function() return b + a end, function(k) return i * k end,
      function() return i / 2 end, function() return i:floordiv(2) end, function() return -a end, function() return a:tanh() end, function() return a:matmul(b) end,
      function() return a:reduce_sum() end, function() return a:reduce_sum{ axis = 0 } end, function() return a:reduce_sum{ axis = 1, keep_dims = true } end,
      function() return a:sum() end, function() return a:transpose{ 1, 0 } end, function() return a:slice({ 0, 1 }, { 2, 1 }) end,
      function(k) return a:gt(k) end, function() return a:eq(b) end, function() return (a:top_k(1)) end, function() return select(2, a:top_k(1)) end,
      function() return a:split(2)[2] end, function() return i:gather(df.tensor({ 2, 0 }, 'int32')) end, function() return s:string_length() end,
      function() return a:cast 'int32' end, function() return a:cast 'float64' end, function() return a:reshape{ 4 } + 0.5 end, function() return a ^ 2 end,
      function() return i:one_hot(3, { on_value = 2.0, off_value = -1.0 }) end, function() return i:one_hot(3, { on_value = 2.0, off_value = -1.5 }) end,
    }
    local first = {}
    for n, call in ipairs(calls) do first[n] = value(call(3)) end
    for _ = 1, 3 do
      for n, call in ipairs(calls) do assert.same(first[n], value(call(3))) end
    end
    for k = 1, 5 do
      near(a / k, { { 1.5 / k, -2 / k }, { 3 / k, 4.25 / k } })
      assert.same({ 3 * k, -4 * k, 5 * k }, (i * k):totable())
      near(k - a, { { k - 1.5, k + 2 }, { k - 3, k - 4.25 } })
    end
  end)

  it('builds nothing in the current graph', function()
    local t, before = df.tensor{ 1.0, 2.0 }, df.default_graph():size()
    for _ = 1, 5 do t = t * 2 + t:tanh() end
    assert.equal(before, df.default_graph():size())
    local x = df.placeholder('float32', { 2 })
    assert.equal('output', df.type(t + x))
  end)

  it('names the line of the call that fails, though the first of its kind was elsewhere', function()
    local t = df.tensor{ 1.0, 2.0, 3.0 }
    local function pick(k) return t:gather(df.tensor({ k }, 'int32')) end
    for k = 0, 2 do assert.same({ k + 1 }, pick(k):totable()) end
    local line = debug.getinfo(1, 'l').currentline + 1
    local ok, e = pcall(function() return t:gather(df.tensor({ 7 }, 'int32')) end)
    assert.is_false(ok)
    assert.matches(':' .. line .. '$', e.source)
    assert.same({ 2 }, pick(1):totable())
    for _ = 1, 3 do
      assert.matches('cannot', message_of(function() return df.tensor({ 1, 2 }, 'int32') + 0.5 end))
      assert.matches('broadcast', message_of(function() return t + df.tensor{ 1.0, 2.0 } end))
    end
  end)

  it('draws as ever: a call that draws begins anew', function()
    local t = df.tensor({ 1, 2, 3, 4, 5, 6, 7, 8 }, 'int32')
    local first = t:random_shuffle{ seed = 3 }:totable()
    for _ = 1, 4 do assert.same(first, t:random_shuffle{ seed = 3 }:totable()) end
  end)

  it('has a clock that goes on, under either Lua', function()
    local core, began = require 'dflow.backend', os.clock()
    local first = core.clock()
    repeat until os.clock() - began >= 0.02
    assert.is_true(core.clock() - first >= 0.015 and core.clock() - first < 60)
  end)

  it('keeps few graphs, however many shapes and numbers there are', function()
    local core = require 'dflow.backend'
    local open, new, close = {}, core.session_new, core.close
    core.session_new = function(...)
      local handle = new(...)
      open[handle] = true
      return handle
    end
    core.close = function(handle)
      open[handle] = nil
      return close(handle)
    end
    local ok, why = pcall(function()
      for _ = 1, 2 do
        for n = 1, 200 do
          local list = {}
          for k = 1, n do list[k] = 1.0 end
          assert.equal(n, (df.tensor(list) + 0):sum())
        end
      end
    end)
    core.session_new, core.close = new, close
    assert.is_true(ok, why)
    local left = 0
    for _ in pairs(open) do left = left + 1 end
    assert.is_true(left <= 64, left)
  end)

  it('is not built anew for a call that comes again', function()
    local core, t, built = require 'dflow.backend', df.tensor{ 1.0, 2.0 }, 0
    local new = core.graph_new
    core.graph_new = function(...) built = built + 1 return new(...) end
    local ok, why = pcall(function() for k = 1, 100 do t = t * k / k + 1 end end)
    core.graph_new = new
    assert.is_true(ok, why)
    assert.is_true(built <= 6, built)
    near(t, { 101, 102 })
  end)

  it('is not built anew for a call with options that comes again', function()
    local core, t, built = require 'dflow.backend', df.tensor{ { 1.0, 2.0 }, { 3, 4 } }, 0
    local new, sums = core.graph_new, {}
    core.graph_new = function(...) built = built + 1 return new(...) end
    local ok, why = pcall(function() for k = 1, 50 do sums[k] = t:reduce_sum{ axis = 1, keep_dims = k % 2 == 0 } end end)
    core.graph_new = new
    assert.is_true(ok, why)
    assert.is_true(built <= 8, built)
    assert.same({ 2 }, sums[49].shape)
    assert.same({ 2, 1 }, sums[50].shape)
  end)

  it('builds a node between a Tensor and an Output, on whichever side it stands', function()
    local t, o = df.tensor({ 7, 8 }, 'float32'), df.float32{ 2, 3 } * 1
    for name, fn in pairs{ add = function(a, b) return a + b end, sub = function(a, b) return a - b end, mul = function(a, b) return a * b end,
                           div = function(a, b) return a / b end, floormod = function(a, b) return a % b end, pow = function(a, b) return a ^ b end } do
      for _, pair in ipairs{ { t, o }, { o, t } } do
        local y = fn(pair[1], pair[2])
        assert.equal('output', df.type(y), name)
        assert.same(df.run(df[name](df.identity(pair[1]), df.identity(pair[2]))):list(), df.run(y):list())
      end
      assert.equal('tensor', df.type(fn(t, t)), name)
      assert.equal('tensor', df.type(fn(t, 2)), name)
      assert.equal('tensor', df.type(fn(2, t)), name)
    end
  end)
end)
