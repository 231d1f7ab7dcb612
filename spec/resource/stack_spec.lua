--- TensorFlow's stacks: last in, first out, one for each time that the node runs.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local support = require 'spec.support'
local same, message_of = support.same, support.message_of
local op = registry.op

local function stack(dtype, opts)
  opts = opts or {}
  return op('StackV2', { df.int32(opts.max_size or -1) }, { elem_type = dtype, stack_name = opts.name })
end
local function push(s, v) return op('StackPushV2', { s, v }, { swap_memory = true }) end
local function pop(s, dtype, shape)
  local x = op('StackPopV2', { s }, { elem_type = dtype })
  return shape and df.reshape(x, shape) or x
end
local function after(what, fn) return df.control_dependencies({ what }, fn) end

describe('a stack', function()
  it('gives what was pushed last, first', function()
    local s = stack('float32')
    local a = push(s, df.float32{ 1, 2 })
    local b = after(a, function() return push(s, df.float32(3)) end)
    local x = after(b, function() return pop(s, 'float32') end)
    local y = after(x, function() return pop(s, 'float32') end)
    same(df.run{ a, b, x, y }, { { 1, 2 }, 3, 3, { 1, 2 } })
  end)

  it('is a new one in each run', function()
    local s = stack('int32')
    local a = push(s, df.int32(4))
    local n = after(a, function() return pop(s, 'int32') end)
    for _ = 1, 3 do same(df.run(n), 4) end
    assert.matches('is empty', message_of(df.run, pop(s, 'int32')))
    df.run(a)
    assert.matches('is empty', message_of(df.run, pop(s, 'int32')))
  end)

  it('is a new one in each iteration of the loop that it stands in', function()
    local _, sum = df.while_loop(function(i) return i:lt(5) end, function(i, sum)
      local s = stack('int32', { max_size = 2 })
      local b = after(push(s, i), function() return push(s, i * 10) end)
      local x = after(b, function() return pop(s, 'int32', {}) end)
      local y = after(x, function() return pop(s, 'int32', {}) end)
      return i + 1, sum + x - y
    end, { df.int32(0), df.int32(0) })
    same(df.run(sum), 90)
  end)

  it('is one for all iterations of the loops inside: what one loop pushed another pops', function()
    local s = stack('int32')
    local n = df.while_loop(function(i) return i:lt(6) end, function(i)
      return push(s, i) + 1
    end, { df.int32(0) }, { parallel_iterations = 1 })
    local _, digits = after(n, function()
      return df.while_loop(function(i) return i:gt(0) end, function(i, digits)
        return i - 1, digits * 10 + pop(s, 'int32', {})
      end, { n, df.int32(0) }, { parallel_iterations = 1 })
    end)
    same(df.run(digits), 543210)
    local stats = df.stats()
    assert.same({ 6, 6 }, { stats.stack_pushes, stats.stack_pops })
    local three = df.Session{ owners = 3, devices = { 'cpu:0', 'sim:0', 'sim:1' } }
    same(three:run(digits), 543210)
    assert.same({ 6, 6 }, { three:stats().stack_pushes, three:stats().stack_pops })
    three:close()
  end)

  it('holds strings, variants and handles as well', function()
    local s = stack('string')
    local a = push(s, df.constant('top'))
    same(df.run(after(a, function() return pop(s, 'string') end)), 'top')
  end)

  it('holds no more than max_size, nothing once it is closed, and only its own dtype', function()
    local s = stack('int32', { max_size = 1, name = 'pile' })
    local a = push(s, df.int32(1))
    local ok, e = pcall(df.run, after(a, function() return push(s, df.int32(2)) end))
    assert.same({ false, 'invalid_argument' }, { ok, e.code })
    assert.matches("stack 'pile' is full: it holds 1 of max_size 1", e.message)
    assert.matches('stack_spec.lua:%d+', e.source)
    local closed = op('StackCloseV2', { s })
    assert.is_true(df.run(closed))
    assert.matches('closed already', message_of(df.run, after(closed, function() return push(s, df.int32(1)) end)))
    assert.matches('closed already', message_of(df.run, after(closed, function() return pop(s, 'int32') end)))
    assert.matches("'pile' holds int32 but is given float32", message_of(df.run, push(s, df.float32(1))))
    assert.matches("'pile' holds int32 but float32 is asked for", message_of(df.run, after(a, function() return pop(s, 'float32') end)))
  end)

  it('has a first form without a size', function()
    local s = op('Stack', {}, { elem_type = 'float32', stack_name = 'old' })
    local a = op('StackPush', { s, df.float32(2) })
    local x = after(a, function() return op('StackPop', { s }, { elem_type = 'float32' }) end)
    same(df.run{ x, after(x, function() return op('StackClose', { s }) end) }, { 2, true })
  end)

  it('is not taken for another thing', function()
    local s, q = stack('int32'), df.FIFOQueue(1, 'int32')
    assert.matches('must be a queue', message_of(df.run, op('QueueSizeV2', { s })))
    assert.matches('must be a stack', message_of(df.run, pop(q, 'int32')))
  end)
end)
