--- TensorFlow 1's reference variables: an output that is a variable, read where its value is wanted.
local df = require 'dflow'
local op = require('dflow.front.registry').op
local support = require 'spec.support'
local same = support.same

local function variable(dtype, shape, opts)
  opts = opts or {}
  return op('VariableV2', {}, { dtype = dtype, shape = shape, shared_name = opts.shared_name, container = opts.container })
end
local function assign(v, x, opts) return op('Assign', { v, x }, opts) end
local function after(what, fn) return df.control_dependencies({ what }, fn) end
local function code_of(fn, ...)
  local ok, e = pcall(fn, ...)
  assert(not ok, 'no error was raised')
  return e.code, e.message
end
--- A variable that holds a value.
local function filled(value)
  local v = variable(value.dtype, value.shape)
  df.run(assign(v, value))
  return v
end
--- A value whose shape is not known while building.
local function open(x) return df.placeholder_with_default(x, { -1 }) end

describe('a reference variable', function()
  it('is read where it is used in a loop or a branch', function()
    local v = filled(df.float32{ 1, 2 })
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, x) return i + 1, x + v end, { df.int32(0), v })
    same(df.run(y), { 4, 8 })
    same(df.run(df.cond(df.constant(true), function() return v * 2 end, function() return v end)), { 2, 4 })
  end)

  it('has the value that was assigned last, in all runs of a session and in no other session', function()
    local v = variable('float32', { 2 })
    df.run(assign(v, df.float32{ 1, 2 }))
    same(df.run(v), { 1, 2 })
    same(df.run(v * 2), { 2, 4 })
    df.run(op('AssignAdd', { v, df.float32{ 1, 1 } }))
    df.run(op('AssignSub', { v, df.float32{ 0, 5 } }))
    same(df.run(v), { 2, -2 })
    local other = df.Session{ graph = df.default_graph() }
    assert.equal('failed_precondition', (code_of(other.run, other, v)))
    other:close()
  end)

  it('is failed_precondition to read before the first assignment, and says its name', function()
    local v = op('VariableV2', {}, { dtype = 'float32', shape = { 2 }, name = 'w' })
    for _, x in ipairs{ v, df.identity(v), op('AssignAdd', { v, df.float32{ 1, 1 } }), op('ScatterAdd', { v, df.int32{ 0 }, df.float32{ 1 } }) } do
      local code, message = code_of(df.run, x)
      assert.equal('failed_precondition', code)
      assert.matches("'w'", message)
    end
    assert.is_false(df.run(op('IsVariableInitialized', { v })))
    df.run(assign(v, df.float32{ 0, 0 }))
    assert.is_true(df.run(op('IsVariableInitialized', { v })))
  end)

  it('is read when its reader runs: after what the reader waits for', function()
    local v = filled(df.float32(1))
    local before = df.identity(v)
    local changed = after(before, function() return assign(v, df.float32(10)) end)
    local later = after(changed, function() return df.identity(v) end)
    same(df.run{ before, later, changed }, { 1, 10, 10 })
    local chained = op('AssignAdd', { op('AssignAdd', { v, df.float32(1) }), df.float32(1) })
    same(df.run(chained), 12)
  end)

  it('is one with those of its shared name and container', function()
    local a, b = variable('float32', {}, { shared_name = 's' }), variable('float32', {}, { shared_name = 's' })
    local c = variable('float32', {}, { shared_name = 's', container = 'elsewhere' })
    df.run(assign(a, df.float32(5)))
    same(df.run(b), 5)
    assert.equal('failed_precondition', (code_of(df.run, c)))
    local wrong = variable('int32', {}, { shared_name = 's' })
    assert.equal('invalid_argument', (code_of(df.run, assign(wrong, df.int32(1)))))
  end)

  it('keeps its shape, unless the assignment does not validate it', function()
    local v = filled(df.float32{ 1, 2 })
    assert.equal('invalid_argument', (code_of(df.run, assign(v, open(df.float32{ 1, 2, 3 })))))
    same(df.run(v), { 1, 2 })
    same(df.run(assign(v, open(df.float32{ 1, 2, 3 }), { validate_shape = false })), { 1, 2, 3 })
    assert.equal('invalid_argument', (code_of(df.run, assign(v, open(df.float32{ 1, 2 })))))
    local any = op('Variable', {}, { dtype = 'float32', shape = {} })
    assert.equal('invalid_argument', (code_of(df.run, assign(any, open(df.float32{ 1, 2, 3 })))))
    same(df.run(assign(any, open(df.float32{ 1, 2, 3 }), { validate_shape = false })), { 1, 2, 3 })
    local partly = variable('float32', { -1, 2 })
    assert.equal('invalid_argument', (code_of(df.run, assign(partly, df.float32{ { 1, 2 } }))))
  end)

  it('holds strings and complex numbers too', function()
    local s = variable('string', { 2 })
    same(df.run(assign(s, df.constant{ 'a', 'bc' })), { 'a', 'bc' })
    local c = variable('complex64', {})
    df.run(assign(c, df.constant({ re = 1, im = 2 }, 'complex64')))
    local sum = df.run(op('AssignAdd', { c, df.constant({ re = 1, im = -5 }, 'complex64') }))
    same({ sum.re, sum.im }, { 2, -3 })
  end)

  it('counts up to a limit', function()
    local v = filled(df.int32(0))
    local count = op('CountUpTo', { v }, { limit = 2 })
    same({ df.run(count), df.run(count) }, { 0, 1 })
    assert.equal('out_of_range', (code_of(df.run, count)))
    same(df.run(v), 2)
  end)

  it('takes updates of its rows, in order, and none where an index is wrong', function()
    local v = filled(df.float32{ { 1, 1 }, { 2, 2 }, { 3, 3 } })
    local function scatter(kind, indices, updates) return df.run(op('Scatter' .. kind, { v, df.int32(indices), df.float32(updates) })) end
    same(scatter('Update', { 0, 2 }, { { 5, 6 }, { 7, 8 } }), { { 5, 6 }, { 2, 2 }, { 7, 8 } })
    same(scatter('Add', { 1, 1 }, { { 1, 0 }, { 2, 0 } }), { { 5, 6 }, { 5, 2 }, { 7, 8 } })
    same(scatter('Sub', { 0 }, { { 1, 1 } }), { { 4, 5 }, { 5, 2 }, { 7, 8 } })
    same(scatter('Mul', { 0 }, { { 2, 2 } }), { { 8, 10 }, { 5, 2 }, { 7, 8 } })
    same(scatter('Div', { 0 }, { { 4, 5 } }), { { 2, 2 }, { 5, 2 }, { 7, 8 } })
    same(scatter('Min', { 1 }, { { 3, 3 } }), { { 2, 2 }, { 3, 2 }, { 7, 8 } })
    same(scatter('Max', { 1 }, { { 3, 3 } }), { { 2, 2 }, { 3, 3 }, { 7, 8 } })
    assert.equal('invalid_argument', (code_of(scatter, 'Add', { 0, 3 }, { { 1, 1 }, { 1, 1 } })))
    same(df.run(v), { { 2, 2 }, { 3, 3 }, { 7, 8 } })
  end)

  it('takes updates of the elements and slices that lists of indices name', function()
    local v = filled(df.float32{ { 1, 2 }, { 3, 4 } })
    local function scatter(kind, indices, updates) return df.run(op('ScatterNd' .. kind, { v, df.int32(indices), df.float32(updates) })) end
    same(scatter('Update', { { 0, 1 } }, { 9 }), { { 1, 9 }, { 3, 4 } })
    same(scatter('Add', { { 1 }, { 1 } }, { { 1, 1 }, { 10, 10 } }), { { 1, 9 }, { 14, 15 } })
    same(scatter('Sub', { { 0, 0 } }, { 1 }), { { 0, 9 }, { 14, 15 } })
    assert.equal('invalid_argument', (code_of(scatter, 'Add', { { 2 } }, { { 1, 1 } })))
  end)

  it('takes a strided slice', function()
    local v = filled(df.float32{ 1, 2, 3, 4, 5 })
    local function place(x) return df.run(op('StridedSliceAssign', { v, df.int32{ 1 }, df.int32{ 5 }, df.int32{ 2 }, x })) end
    same(place(df.float32{ 7, 8 }), { 1, 7, 3, 8, 5 })
    same(place(df.float32{ 0 }), { 1, 0, 3, 0, 5 })
    assert.equal('invalid_argument', (code_of(place, df.float32{ 1, 2, 3 })))
  end)

  it('passes through the ops of control flow on references', function()
    local v, w = filled(df.float32(1)), filled(df.float32(100))
    same(df.run(op('AssignAdd', { op('RefIdentity', { v }), df.float32(1) })), 2)
    same(df.run(op('AssignAdd', { op('RefSelect', { df.int32(1), { v, w } }), df.float32(1) })), 101)
    assert.equal('invalid_argument', (code_of(df.run, op('RefSelect', { df.placeholder_with_default(df.int32(2)), { v, w } }))))
  end)

  local function node(text) return 'node { ' .. text .. ' }\n' end
  local T = 'attr { key: "T" value { type: DT_FLOAT } }'
  local frame = 'attr { key: "frame_name" value { s: "f" } } attr { key: "is_constant" value { b: %s } } attr { key: "parallel_iterations" value { i: 10 } }'
  local function const(name, dtype, field)
    return node(('name: "%s" op: "Const" attr { key: "dtype" value { type: %s } } attr { key: "value" value { tensor { dtype: %s tensor_shape { } %s } } }')
      :format(name, dtype, dtype, field))
  end
  local variable = node 'name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } }'

  it('is read in each iteration of a loop of TensorFlow that changes it, although its value enters as a constant, wherever it stands', function()
    local others = {
      const('one', 'DT_FLOAT', 'float_val: 1'), const('limit', 'DT_FLOAT', 'float_val: 50'),
      node('name: "init" op: "Assign" input: "v" input: "one" ' .. T),
      node('name: "read" op: "Identity" input: "v" ' .. T),
      node('name: "e" op: "RefEnter" input: "v" ' .. frame:format('false') .. T),
      node('name: "by" op: "Enter" input: "read" ' .. frame:format('true') .. T),
      node('name: "lim" op: "Enter" input: "limit" ' .. frame:format('true') .. T),
      node('name: "lm" op: "RefMerge" input: "e" input: "next" attr { key: "N" value { i: 2 } } ' .. T),
      node('name: "lt" op: "Less" input: "lm" input: "lim" ' .. T),
      node 'name: "lc" op: "LoopCond" input: "lt"',
      node('name: "ls" op: "RefSwitch" input: "lm" input: "lc" ' .. T),
      node('name: "add" op: "AssignAdd" input: "ls:1" input: "by" ' .. T),
      node('name: "next" op: "RefNextIteration" input: "add" ' .. T),
      node('name: "exit" op: "RefExit" input: "ls" ' .. T),
    }
    for place = 1, #others + 1 do
      local text = table.concat(others, '', 1, place - 1) .. variable .. table.concat(others, '', place)
      local g = df.import_graph_def(text)
      local s = df.Session{ graph = g }
      s:run(g:op 'init')
      same(s:run(g:output 'exit:0'), 64)                            -- 1 2 4 8 …, not 1 2 3 4 …
      s:close()
    end
  end)

  it('passes through a cond and a loop of a graph of TensorFlow', function()
    local g = df.import_graph_def(table.concat{
      variable,
      const('one', 'DT_FLOAT', 'float_val: 1'), const('ten', 'DT_FLOAT', 'float_val: 10'), const('limit', 'DT_FLOAT', 'float_val: 50'),
      node('name: "init" op: "Assign" input: "v" input: "one" ' .. T),
      node 'name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } attr { key: "shape" value { shape { } } }',
      node('name: "s" op: "RefSwitch" input: "v" input: "p" ' .. T),
      node('name: "no" op: "AssignAdd" input: "s" input: "one" ' .. T),
      node('name: "yes" op: "AssignAdd" input: "s:1" input: "ten" ' .. T),
      node('name: "m" op: "RefMerge" input: "no" input: "yes" attr { key: "N" value { i: 2 } } ' .. T),
      node('name: "e" op: "RefEnter" input: "v" ' .. frame:format('false') .. T),
      node('name: "by" op: "Enter" input: "ten" ' .. frame:format('true') .. T),
      node('name: "lim" op: "Enter" input: "limit" ' .. frame:format('true') .. T),
      node('name: "lm" op: "RefMerge" input: "e" input: "next" attr { key: "N" value { i: 2 } } ' .. T),
      node('name: "lt" op: "Less" input: "lm" input: "lim" ' .. T),
      node 'name: "lc" op: "LoopCond" input: "lt"',
      node('name: "ls" op: "RefSwitch" input: "lm" input: "lc" ' .. T),
      node('name: "add" op: "AssignAdd" input: "ls:1" input: "by" ' .. T),
      node('name: "next" op: "RefNextIteration" input: "add" ' .. T),
      node('name: "exit" op: "RefExit" input: "ls" ' .. T),
    })
    local s = df.Session{ graph = g }
    s:run(g:op('init'))
    same(s:run(g:output('m:0'), { [g:output('p:0')] = false }), 2)
    same(s:run(g:output('m:0'), { [g:output('p:0')] = true }), 12)
    same(s:run(g:output('exit:0')), 52)
    same(s:run(g:output('v:0')), 52)
    s:close()
  end)

  it('has the gradient of what reads it', function()
    local v = filled(df.float32{ 1, 2, 3 })
    local y = df.reduce_sum(df.identity(v) * df.identity(v))
    same(df.run(df.gradients(y, v)), { 2, 4, 6 })
  end)
end)

describe('a temporary variable', function()
  local function temporary(name) return op('TemporaryVariable', {}, { dtype = 'float32', shape = { 2 }, var_name = name }) end
  local function destroy(v, name) return op('DestroyTemporaryVariable', { v }, { var_name = name }) end

  it('lives from its op to its end within one run', function()
    local sum = op('AssignAdd', { assign(temporary('t'), df.float32{ 1, 2 }), df.float32{ 1, 1 } })
    local last = destroy(sum, 't')
    for _ = 1, 3 do same(df.run(last), { 2, 3 }) end
  end)

  it('is there once, and ends once', function()
    local a, b = assign(temporary('t'), df.float32{ 1, 2 }), assign(temporary('t'), df.float32{ 1, 2 })
    assert.equal('already_exists', (code_of(df.run, a + b)))
    assert.equal('not_found', (code_of(df.run, destroy(a, 'another'))))
    assert.equal('not_found', (code_of(df.run, destroy(a, 't') + destroy(a, 't'))))
  end)
end)

describe('a variable behind a handle', function()
  local function handle(dtype, shape, name) return op('VarHandleOp', {}, { dtype = dtype, shape = shape, shared_name = name }) end
  local function holding(value, name)
    local h = handle(value.dtype, value.shape, name)
    df.run(op('AssignVariableOp', { h, value }))
    return h
  end
  local function read(h, dtype) return op('ReadVariableOp', { h }, { dtype = dtype or 'float32' }) end

  it('is one with those of its shared name', function()
    holding(df.float32{ 1, 2 }, 'shared')
    same(df.run(read(handle('float32', { 2 }, 'shared'))), { 1, 2 })
    assert.equal('failed_precondition', (code_of(df.run, read(handle('float32', { 2 }, 'unshared')))))
    assert.equal('invalid_argument', (code_of(df.run, read(handle('int32', { 2 }, 'shared'), 'int32'))))
  end)

  it('does not exist before it is assigned nor after it was destroyed', function()
    local h = handle('float32', { 2 })
    assert.equal('not_found', (code_of(df.run, op('AssignAddVariableOp', { h, df.float32{ 1, 1 } }))))
    assert.equal('not_found', (code_of(df.run, op('ResourceGather', { h, df.int32{ 0 } }, { dtype = 'float32' }))))
    assert.equal('not_found', (code_of(df.run, op('DestroyResourceOp', { h }, { ignore_lookup_error = false }))))
    df.run(op('AssignVariableOp', { h, df.float32{ 1, 2 } }))
    df.run(op('DestroyResourceOp', { h }, { ignore_lookup_error = false }))
    assert.is_false(df.run(op('VarIsInitializedOp', { h })))
    assert.equal('failed_precondition', (code_of(df.run, read(h))))
  end)

  it('gives rows and elements, with gradients', function()
    local h = holding(df.float32{ { 1, 2 }, { 3, 4 }, { 5, 6 } })
    local rows = op('ResourceGather', { h, df.int32{ { 2, 0 }, { 2, 2 } } }, { dtype = 'float32' })
    same(df.run(rows), { { { 5, 6 }, { 1, 2 } }, { { 5, 6 }, { 5, 6 } } })
    local g = df.gradients(df.reduce_sum(rows), h)
    same(df.run(g.dense or g * 1), { { 1, 1 }, { 0, 0 }, { 3, 3 } })
    local each = op('ResourceGatherNd', { h, df.int32{ { 0, 1 }, { 2, 0 } } }, { dtype = 'float32' })
    same(df.run(each), { 2, 5 })
    same(df.run(df.gradients(df.reduce_sum(each), h)), { { 0, 1 }, { 0, 0 }, { 1, 0 } })
    assert.equal('invalid_argument', (code_of(df.run, op('ResourceGather', { h, df.int32{ 3 } }, { dtype = 'float32' }))))
  end)

  it('is changed in parts', function()
    local h = holding(df.float32{ 1, 2, 3, 4 })
    df.run(op('ResourceScatterNdAdd', { h, df.int32{ { 1 }, { 1 } }, df.float32{ 10, 20 } }))
    df.run(op('ResourceScatterNdMin', { h, df.int32{ { 2 } }, df.float32{ -1 } }))
    df.run(op('ResourceStridedSliceAssign', { h, df.int32{ 3 }, df.int32{ 4 }, df.int32{ 1 }, df.float32{ 9 } }))
    same(df.run(read(h)), { 1, 32, -1, 9 })
  end)

  it('counts up to a limit', function()
    local h = holding(df.int64(0))
    local count = op('ResourceCountUpTo', { h }, { limit = 1, T = 'int64' })
    same(df.run(count), 0)
    assert.equal('out_of_range', (code_of(df.run, count)))
  end)
end)
