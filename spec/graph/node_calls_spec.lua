-- The calls of the C interface by which nodes are made and asked for, as dflow.core has them: numbers of things that are not there, attributes that are not
-- the op's, calls out of order. Each is an error that says what was found, and nothing of what failed stays.
local df = require 'dflow'
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local message_of = require('spec.support').message_of

local function op(name) return registry.need(name).id end

describe('the calls that make nodes', function()
  local g, h
  before_each(function()
    g = df.Graph()
    h = g.handle
  end)

  --- Begins a node of that type, calls fn, ends it; its number.
  local function node(name, fn)
    core.node_begin(h, type(name) == 'string' and op(name) or name, 'here.lua:7')
    if fn then fn() end
    return core.node_end(h)
  end
  local function constant(v) return core.constant_scalar(h, 1, v or 1, '', 'here.lua:1') end
  local function fails(pattern, ...)
    local size = core.graph_nodes(h)
    assert.matches(pattern, message_of(...))
    assert.equal(size, core.graph_nodes(h))
    assert.matches('df_node_end without df_node_begin', message_of(core.node_end, h))
  end

  it('refuse ops, inputs and outputs that are not there', function()
    local x = constant()
    fails('there is no op number %-1', node, -1)
    fails('there is no op number 1000000', node, 1000000)
    fails('there is no node 1: this graph has 1', node, 'Neg', function() core.node_input(h, 1, 0) end)
    fails('there is no node %-2: this graph has 1', node, 'Neg', function() core.node_input(h, -2, 0) end)
    fails('of a cond, a loop or a call that failed while it was built', node, 'Neg', function() core.node_input(h, -1, 0) end)
    fails('Const has no output 1: it has 1', node, 'Neg', function() core.node_input(h, x, 1) end)
    fails('Const has no output %-1: it has 1', node, 'Neg', function() core.node_input(h, x, -1) end)
    fails('there is no node 9: this graph has 1', core.add_node, h, op 'Neg', 'here.lua:2', 9, 0)
    fails('Const has no output 1: it has 1', core.add_node, h, op 'Add', 'here.lua:2', x, 0, x, 1)
    fails('there is no op number', core.add_node, h, 1000000, 'here.lua:2', x, 0)
    local y = node('Neg', function() core.node_input(h, x, 0) end)
    assert.equal(1, y)
    assert.equal(2, core.add_node(h, op 'Add', 'here.lua:3', x, 0, y, 0))
  end)

  it('say the first thing that is wrong, and where', function()
    local ok, e = pcall(node, 'Neg', function()
      core.node_input(h, 5, 0)
      core.node_input(h, 6, 0)
      core.node_int(h, 'nothing', 1)
    end)
    assert.is_false(ok)
    assert.matches('there is no node 5', e.message)
    assert.equal('here.lua:7', e.source)
    assert.equal('invalid_argument', e.code)
  end)

  it('refuse attributes that the op has not, or that are of another kind', function()
    local function with(name, ...)
      local call, args = (...), { select(2, ...) }
      return function() return node(name, function() core['node_' .. call](h, (table.unpack or unpack)(args)) end) end
    end
    fails('MatMul has no attribute `nothing`; it has transpose_a, transpose_b', with('MatMul', 'bool', 'nothing', true))
    fails('the attribute transpose_a of MatMul is a bool, not a string', with('MatMul', 'string', 'transpose_a', 'x'))
    fails('the attribute transpose_a of MatMul is a bool, not a float', with('MatMul', 'float', 'transpose_a', 1.5))
    fails('the attribute transpose_a of MatMul is a bool, not a dtype', with('MatMul', 'dtype', 'transpose_a', 1))
    fails('the attribute transpose_a of MatMul is a bool, not a shape', with('MatMul', 'shape', 'transpose_a', { 1 }))
    fails('the attribute transpose_a of MatMul is a bool, not a list of ints', with('MatMul', 'ints', 'transpose_a', { 1 }))
    fails('the attribute transpose_a of MatMul is a bool, not a tensor', with('MatMul', 'tensor', 'transpose_a', df.tensor(1)))
    fails('the attribute dtype of Placeholder is a dtype, not a bool', with('Placeholder', 'bool', 'dtype', true))
    fails('the attribute shape of Placeholder is a shape, not an int', with('Placeholder', 'int', 'shape', 1))
    fails('Placeholder needs the attribute dtype %(a dtype%)', with('Placeholder', 'shape', 'shape', { 1 }))
    fails('Const needs the attribute value %(a tensor%)', with('Const', 'dtype', 'dtype', 1))
    fails('the attribute shapes must be a list of shapes: ranks from %-1 to 8, each followed by its dims',
          with('FIFOQueueV2', 'ints', 'shapes', { 2, 1 }))
    fails('must be a list of shapes', with('FIFOQueueV2', 'ints', 'shapes', { 9, 1, 1, 1, 1, 1, 1, 1, 1, 1 }))
    fails('must be a list of shapes', with('FIFOQueueV2', 'ints', 'shapes', { -2 }))
  end)

  it('take an attribute that is set twice as it was set last', function()
    local first, last = df.tensor({ 1, 2, 3 }, 'float32'), df.tensor({ 4, 5 }, 'float32')
    local id = node('Const', function()
      core.node_tensor(h, 'value', first)
      core.node_tensor(h, 'value', last)
      core.node_dtype(h, 'dtype', core.output_dtype(h, constant(), 0))
    end)
    assert.same({ 2 }, core.output_shape(h, id, 0))
  end)

  it('give up a node that was begun where another one begins', function()
    local x = constant()
    core.node_begin(h, op 'Add', 'here.lua:5')
    core.node_input(h, x, 0)
    core.node_name(h, 'lost')
    local y = node('Neg', function() core.node_input(h, x, 0) end)
    assert.equal('Neg', core.node_name_of(h, y))
    assert.equal(1, core.node_inputs(h, y))
  end)

  it('make a node of sixteen inputs in one call, and of no more', function()
    local list = {}
    for i = 1, 16 do list[2 * i - 1], list[2 * i] = constant(i), 0 end
    local unpack = table.unpack or unpack
    local id = core.add_node(h, op 'AddN', 'here.lua:4', unpack(list))
    assert.equal(16, core.node_inputs(h, id))
    list[33], list[34] = constant(17), 0
    fails('17 inputs: add_node takes 16 at most', core.add_node, h, op 'AddN', 'here.lua:4', unpack(list))
  end)

  it('make calls of functions that the graph does not have, which is an error of the run wherever they stand', function()
    for before = 0, 2 do
      g = df.Graph()
      h = g.handle
      for _ = 1, before do constant() end
      local id = node('FunctionCall', function() core.node_string(h, 'function', 'nobody') end)
      local s = df.Session{ graph = g }
      local ok, e = pcall(s.run, s, g:op(core.node_name_of(h, id)))
      assert.is_false(ok)
      assert.equal('not_found', e.code)
      assert.matches('calls a function `nobody`, which the graph does not have', e.message, 1, true)
      s:close()
    end
  end)

  it('answer for what is not there as nothing would', function()
    local x = constant()
    for _, id in ipairs{ -1, 1, 1000 } do
      assert.same({ '', '', '', 0, 0 }, { core.node_type(h, id), core.node_name_of(h, id), core.node_where(h, id), core.node_outputs(h, id), core.node_inputs(h, id) })
      assert.equal(-1, (core.node_input_of(h, id, 0)))
      assert.equal(-1, core.node_context(h, id))
      assert.equal(-1, core.output_rank(h, id, 0))
      assert.is_nil(core.output_shape(h, id, 0))
      assert.is_nil(core.output_constant(h, id, 0))
    end
    assert.same({ 'Const', 'Const', 'here.lua:1', 1, 0 },
                { core.node_type(h, x), core.node_name_of(h, x), core.node_where(h, x), core.node_outputs(h, x), core.node_inputs(h, x) })
    assert.equal(-1, core.output_rank(h, x, 1))
    assert.equal(-1, core.output_rank(h, x, -1))
    assert.equal(0, core.output_rank(h, x, 0))
    assert.equal(1, core.output_constant(h, x, 0):item())
    local y = core.add_node(h, op 'Add', 'here.lua:2', constant(5), 0, x, 0)
    assert.same({ x, 0 }, { core.node_input_of(h, y, 1) })
    assert.same({ -1, 0 }, { core.node_input_of(h, y, 2) })
    assert.same({ -1, 0 }, { core.node_input_of(h, y, -1) })
  end)

  it('narrow a shape, and refuse one that contradicts it', function()
    local p = node('Placeholder', function()
      core.node_dtype(h, 'dtype', core.output_dtype(h, constant(), 0))
      core.node_shape(h, 'shape', { -1, 3 })
    end)
    assert.same({ -1, 3 }, core.output_shape(h, p, 0))
    core.output_set_shape(h, p, 0, { 2, -1 })
    assert.same({ 2, 3 }, core.output_shape(h, p, 0))
    assert.matches('Placeholder:0 has shape %[2,3%], which contradicts %[4,3%]', message_of(core.output_set_shape, h, p, 0, { 4, 3 }))
    assert.matches('Placeholder has no output 1: it has 1', message_of(core.output_set_shape, h, p, 1, { 2, 3 }))
    assert.matches('there is no node 77', message_of(core.output_set_shape, h, 77, 0, { 2, 3 }))
    assert.same({ 2, 3 }, core.output_shape(h, p, 0))
  end)

  it('refuse loops and functions of what is not there, and ends without a beginning', function()
    local x = constant()
    assert.matches('df_while_pred_end without df_while_begin', message_of(core.while_pred_end, h, x, 0, 1))
    assert.matches('df_function_end without a function that was begun', message_of(core.function_end, h, { x, 0 }))
    assert.matches('there is no output 5:0 in this graph', message_of(core.function_end, h, { 5, 0 }))
    assert.matches('this graph has no function number 0', message_of(core.function_call, h, 0, { x, 0 }, 'f', 'here.lua:1'))
    assert.matches('this graph has no function number %-1', message_of(core.function_call, h, -1, { x, 0 }, 'f', 'here.lua:1'))
    for _, wrong in ipairs{ { 9, 0 }, { -1, 0 }, { x, 1 }, { x, -1 } } do
      assert.matches('the initial value of loop variable 1 is no output of this graph',
                     message_of(core.while_begin, h, wrong, 32, -1, true, '', 'loop', 'here.lua:1'))
    end
    assert.matches('while_loop needs at least one loop variable', message_of(core.while_begin, h, {}, 32, -1, true, '', 'loop', 'here.lua:1'))
  end)
end)
