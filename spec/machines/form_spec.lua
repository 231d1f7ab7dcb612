--- A graph as bytes for another process: what is read is the graph that was written, and bytes of any kind do no harm.
local df = require 'dflow'
local support = require 'spec.support'
local random_program = require 'spec.random_program'
local chance = require('spec.chance')
local core = require 'dflow.backend'

--- The bytes of a graph, after reading them gave a graph of the same bytes.
local function there_and_back(g)
  local bytes = core.graph_pack(g.handle)
  local copy = core.graph_unpack(bytes)
  assert.equal(core.graph_nodes(g.handle), core.graph_nodes(copy))
  for node = 0, core.graph_nodes(copy) - 1 do
    assert.equal(core.node_name_of(g.handle, node), core.node_name_of(copy, node))
  end
  assert.is_true(core.graph_pack(copy) == bytes, 'the graph that was read is written in other bytes')
  return copy, bytes
end

--- What fn() gives while g means the graph that was read from its bytes.
local function elsewhere(g, fn)
  local handle, s = g.handle, rawget(g, 'session')
  g.handle, g.session = there_and_back(g), nil
  local found = { pcall(fn) }
  if rawget(g, 'session') then g.session:close() end
  g.handle, g.session = handle, s
  assert(found[1], found[2])
  return found[2]
end

--- The same bits on both sides.
local function same(fetches, feeds)
  local g = df.default_graph()
  local here = df.Session{ graph = g }:run(fetches, feeds)
  local there = elsewhere(g, function() return df.Session{ graph = g }:run(fetches, feeds) end)
  support.near(there, here, { rtol = 0, atol = 0 })
end

describe('a graph as bytes', function()
  it('is the same graph when it is read: straight lines, constants, strings, shapes and dtypes', function()
    local x = df.placeholder('float32', { -1, 3 }, 'x')
    local y = df.matmul(x, df.constant({ { 1, 2.5 }, { 3, 4 }, { 5, 6 } }))
    local words = df.constant({ 'a', '', 'b\0c' })
    same({ y, df.identity(words), df.cast(y, 'bfloat16'):cast('float32') },
         { [x] = df.tensor({ { 1, 2.5, 3 } }) })
  end)

  it('is the same graph for loops in loops, conds, and their gradients', function()
    local x = df.placeholder('float64', {}, 'x')
    local _, out = df.while_loop(function(i) return i:lt(5) end, function(i, a)
      local _, b = df.while_loop(function(j) return j:lt(i) end, function(j, c) return j + 1, df.sin(c) * x end, { df.int32(0), a })
      return i + 1, df.cond(df.greater(a, 0), function() return b end, function() return a * x end)
    end, { df.int32(0), x }, { name = 'outer' })
    local g = df.gradients(out, x)
    same({ out, g, df.gradients(g, x) }, { [x] = 0.3 })
  end)

  it('is the same graph for TensorArrays, scans, functions that call themselves, queues and variables', function()
    local v = df.Variable(df.constant({ 1.5, 2, 3 }), { name = 'v' })
    local rows = df.map_fn(function(a) return a * 2 end, df.constant({ 1.5, 2, 3, 4 }))
    local sums = df.scan(function(a, b) return a + b end, df.constant({ 1.5, 2, 3, 4 }), df.constant(0.5))
    local fact
    fact = df.func('fact', { 'int32' }, function(n)
      return df.cond(n:le(1), function() return df.int32(1) end, function() return n * fact(n - 1) end)
    end, { returns = { 'int32' } })
    same({ rows, sums, fact(df.int32(6)), v + 1, df.gradients(df.reduce_sum(v * v), v) })
  end)

  it('is the same graph for random programs with effects, and their gradients', function()
    for seed = 1, 25 do
      df.reset()
      local program = random_program.make(seed, 3, seed % 2 == 0)
      local ok, y, xs = pcall(random_program.build, df, program)
      if ok then
        local grads = df.gradients(y, xs, { unconnected = 'zero' })
        same({ y, grads[1], grads[2], grads[3] }, { [xs[1]] = 0.3, [xs[2]] = -0.7, [xs[3]] = 1.1 })
      end
    end
  end)

  it('is the same graph for graphs of TensorFlow, with their names and devices', function()
    for _, file in ipairs{ 'loop.pb', 'functions.pb' } do
      df.reset()
      local ok = pcall(df.import_graph_def, 'spec/graphs/' .. file)
      if ok then there_and_back(df.default_graph()) end
    end
  end)

  it('fails as the graph of TensorFlow does that contradicts itself, and touches no more files', function()
    local const = 'node { name: "%s" op: "Const" attr { key: "dtype" value { type: %s } } attr { key: "value" value { tensor { dtype: %s %s } } } }\n'
    local float, int = '{ type: DT_FLOAT }', '{ type: DT_INT32 }'
    local text = const:format('x', 'DT_FLOAT', 'DT_FLOAT', 'tensor_shape { dim { size: 2 } } float_val: 1')
      .. const:format('axis', 'DT_INT32', 'DT_INT32', 'tensor_shape { } int_val: 7')
      .. const:format('path', 'DT_STRING', 'DT_STRING', 'tensor_shape { } string_val: "/etc/hostname"')
      .. ('node { name: "sum" op: "Sum" input: "x" input: "axis" attr { key: "T" value %s } attr { key: "Tidx" value %s } }\n'):format(float, int)
      .. 'node { name: "file" op: "ReadFile" input: "path" }\n'
    local g = df.import_graph_def(text)
    for name, found in pairs{ sum = 'axis', file = 'hostname' } do
      local y = g:output(name .. ':0')
      local function run() return support.message_of(function() df.Session{ graph = g }:run(y) end) end
      local here = run()
      assert.matches(found, here)
      assert.equal(here, elsewhere(g, run))
    end
  end)

  it('goes on growing with the names and numbers that it would have had', function()
    local x = df.placeholder('float32', {}, 'x')
    local y = x + x
    local z = df.while_loop(function(a) return a:lt(10) end, function(a) return a + y end, { x })
    local g = df.default_graph()
    local name = function() return (df.multiply(y, y)).name end
    local there = elsewhere(g, function() return name() end)
    assert.equal(there, name())
    assert.is_truthy(z)
  end)

  it('takes few bytes: 30 for a node of a chain, with its Lua line', function()
    local x = df.placeholder('float32', {}, 'x')
    local y = x
    for _ = 1, 1000 do y = df.sin(y) end
    assert.is_true(#core.graph_pack(df.default_graph().handle) < 1000 * 30)
  end)

  it('refuses bytes that were damaged, cut short or made longer', function()
    local x = df.placeholder('float64', {}, 'x')
    local out = df.while_loop(function(a) return a:lt(10) end, function(a) return a * 2 + x end, { x })
    df.gradients(out, x)
    local bytes = core.graph_pack(df.default_graph().handle)
    local rand = chance.minimal(7)
    for _ = 1, 400 do
      local at = rand(#bytes)
      local byte = string.char((bytes:byte(at) + rand(255)) % 256)
      local ok, err = pcall(core.graph_unpack, bytes:sub(1, at - 1) .. byte .. bytes:sub(at + 1))
      assert.is_false(ok)
      assert.equal('table', type(err))
    end
    assert.is_false((pcall(core.graph_unpack, bytes:sub(1, rand(#bytes - 1)))))
    assert.is_false((pcall(core.graph_unpack, bytes .. 'x')))
    assert.is_false((pcall(core.graph_unpack, '')))
  end)

  it('does no harm with any bytes, also where the sum at their end is right', function()
    local rand = chance.minimal(11)
    for seed = 1, 6 do
      df.reset()
      local ok, y, xs = pcall(random_program.build, df, random_program.make(seed, 2, true))
      if ok then
        df.gradients(y, xs, { unconnected = 'zero' })
        local bytes = core.graph_pack(df.default_graph().handle)
        for _ = 1, 300 do
          local list = { bytes:byte(1, math.min(#bytes, 7000)) }
          for _ = 1, rand(3) do list[rand(#list)] = rand(256) - 1 end
          local parts = {}
          for i = 1, #list, 200 do
            parts[#parts + 1] = string.char((table.unpack or unpack)(list, i, math.min(i + 199, #list)))
          end
          local read, g = pcall(core.graph_unpack, table.concat(parts) .. bytes:sub(#list + 1), true)
          if read then core.graph_pack(g) end
        end
      end
    end
  end)
end)
