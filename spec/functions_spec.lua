--- Graphs with functions: calls, If, Case, While, For, functions that call themselves. The graphs are in text form.
local df = require 'dflow'

local function const(name, value, dtype)
  dtype = dtype or 'INT32'
  local field = dtype == 'INT32' and 'int_val' or dtype == 'BOOL' and 'bool_val' or 'float_val'
  return ('node_def { name: "%s" op: "Const" attr { key: "dtype" value { type: DT_%s } } attr { key: "value" value { tensor { dtype: DT_%s tensor_shape {} %s: %s } } } }')
    :format(name, dtype, dtype, field, tostring(value))
end

local function placeholder(name, dtype)
  return ('node { name: "%s" op: "Placeholder" attr { key: "dtype" value { type: DT_%s } } attr { key: "shape" value { shape {} } } }'):format(name, dtype)
end

local function func(name) return ('value { func { name: "%s" } }'):format(name) end

local function import(nodes, functions)
  return df.import_graph_def(nodes .. '\nlibrary {\n' .. functions .. '\n}')
end

local function unary(name, dtype, nodes, ret)
  return ('function { signature { name: "%s" input_arg { name: "x" type: DT_%s } output_arg { name: "y" type: DT_%s } } %s ret { key: "y" value: "%s" } }')
    :format(name, dtype, dtype, nodes, ret)
end

local double = unary('Double', 'FLOAT', const('two', 2, 'FLOAT') .. ' node_def { name: "mul" op: "Mul" input: "x" input: "two:output:0" }', 'mul:z:0')
local halve = unary('Halve', 'FLOAT', const('two', 2, 'FLOAT') .. ' node_def { name: "div" op: "RealDiv" input: "x" input: "two:output:0" }', 'div:z:0')
local twice = unary('Twice', 'FLOAT', 'node_def { name: "a" op: "Double" input: "x" } node_def { name: "b" op: "PartitionedCall" input: "a:y:0" attr { key: "f" '
  .. func 'Double' .. ' } }', 'b:output:0')

local function run(g, fetch, feeds)
  local s = df.Session{ graph = g }
  local named = {}
  for name, v in pairs(feeds or {}) do named[g:output(name)] = v end
  local result = s:run(type(fetch) == 'table' and fetch or g:output(fetch), named)
  s:close()
  return result
end

describe('an imported graph with functions', function()
  it('runs calls by name and by attribute, nested, with constants inside', function()
    local g = import(placeholder('x', 'FLOAT') .. ' node { name: "c" op: "Twice" input: "x" } node { name: "d" op: "StatefulPartitionedCall" input: "c" attr { key: "f" '
      .. func 'Halve' .. ' } }', double .. halve .. twice)
    assert.equal(12, run(g, 'c:0', { ['x:0'] = 3 }))
    assert.equal(6, run(g, 'd:0', { ['x:0'] = 3 }))
  end)

  it('takes the branch of an If that the predicate names, and only that', function()
    local g = import(placeholder('x', 'FLOAT') .. placeholder('p', 'BOOL') .. ' node { name: "if" op: "If" input: "p" input: "x" attr { key: "Tcond" value { type: DT_BOOL } } attr { key: "then_branch" '
      .. func 'Double' .. ' } attr { key: "else_branch" ' .. func 'Halve' .. ' } }', double .. halve)
    assert.equal(8, run(g, 'if:0', { ['x:0'] = 4, ['p:0'] = true }))
    assert.equal(2, run(g, 'if:0', { ['x:0'] = 4, ['p:0'] = false }))
  end)

  it('takes the last branch of a Case when the index is out of range', function()
    local g = import(placeholder('x', 'FLOAT') .. placeholder('i', 'INT32') .. ' node { name: "case" op: "Case" input: "i" input: "x" attr { key: "branches" value { list { func { name: "Double" } func { name: "Halve" } func { name: "Twice" } } } } }',
      double .. halve .. twice)
    for i, expected in pairs{ [0] = 8, 2, 16, 16, [-1] = 16, [7] = 16 } do
      assert.equal(expected, run(g, 'case:0', { ['x:0'] = 4, ['i:0'] = i }))
    end
  end)

  it('runs a While, keeps what its body hands on as a loop constant, and has its gradient', function()
    local loop = [[
      function { signature { name: "Cond" input_arg { name: "i" type: DT_INT32 } input_arg { name: "v" type: DT_FLOAT } input_arg { name: "k" type: DT_FLOAT } output_arg { name: "go" type: DT_BOOL } }
        ]] .. const('ten', 10) .. [[ node_def { name: "less" op: "Less" input: "i" input: "ten:output:0" } ret { key: "go" value: "less:z:0" } }
      function { signature { name: "Body" input_arg { name: "i" type: DT_INT32 } input_arg { name: "v" type: DT_FLOAT } input_arg { name: "k" type: DT_FLOAT }
                             output_arg { name: "i2" type: DT_INT32 } output_arg { name: "v2" type: DT_FLOAT } output_arg { name: "k2" type: DT_FLOAT } }
        ]] .. const('one', 1) .. [[ node_def { name: "add" op: "AddV2" input: "i" input: "one:output:0" } node_def { name: "mul" op: "Mul" input: "v" input: "k" } node_def { name: "same" op: "Identity" input: "k" }
        ret { key: "i2" value: "add:z:0" } ret { key: "v2" value: "mul:z:0" } ret { key: "k2" value: "same:output:0" } }]]
    local g = import(placeholder('i', 'INT32') .. placeholder('v', 'FLOAT') .. placeholder('k', 'FLOAT')
      .. ' node { name: "w" op: "StatelessWhile" input: "i" input: "v" input: "k" attr { key: "cond" ' .. func 'Cond' .. ' } attr { key: "body" ' .. func 'Body' .. ' } }', loop)
    local feeds = { ['i:0'] = 7, ['v:0'] = 5, ['k:0'] = 2 }
    assert.equal(10, run(g, 'w:0', feeds))
    assert.equal(40, run(g, 'w:1', feeds))
    assert.equal(2, run(g, 'w:2', feeds))
    local enters = 0
    for _, op in ipairs(g:ops()) do enters = enters + (op.type == 'Enter' and op.name:match('^w/constant_2') and 1 or 0) end
    assert.equal(1, enters)
    local dv, dk
    g:as_default(function()
      dv, dk = df.unpack(df.gradients(g:output 'w:1', { g:output 'v:0', g:output 'k:0' }))
    end)
    assert.equal(8, run(g, dv.name, feeds))
    assert.equal(5 * 3 * 4, run(g, dk.name, feeds))
  end)

  it('runs what only reads loop constants as often as the body runs', function()
    local loop = [[
      function { signature { name: "Cond" input_arg { name: "i" type: DT_INT32 } input_arg { name: "h" type: DT_RESOURCE } input_arg { name: "v" type: DT_FLOAT } output_arg { name: "go" type: DT_BOOL } }
        ]] .. const('ten', 10) .. [[ node_def { name: "less" op: "Less" input: "i" input: "ten:output:0" } ret { key: "go" value: "less:z:0" } }
      function { signature { name: "Body" is_stateful: true input_arg { name: "i" type: DT_INT32 } input_arg { name: "h" type: DT_RESOURCE } input_arg { name: "v" type: DT_FLOAT }
                             output_arg { name: "i2" type: DT_INT32 } output_arg { name: "h2" type: DT_RESOURCE } output_arg { name: "v2" type: DT_FLOAT } control_output: "more" }
        ]] .. const('one', 1) .. [[ node_def { name: "add" op: "AddV2" input: "i" input: "one:output:0" } node_def { name: "more" op: "AssignAddVariableOp" input: "h" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }
        ret { key: "i2" value: "add:z:0" } ret { key: "h2" value: "h" } ret { key: "v2" value: "v" } control_ret { key: "more" value: "more" } }]]
    local g = import(placeholder('i', 'INT32') .. placeholder('v', 'FLOAT') .. ' node { name: "var" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } } }'
      .. ' node { name: "set" op: "AssignVariableOp" input: "var" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }'
      .. ' node { name: "get" op: "ReadVariableOp" input: "var" attr { key: "dtype" value { type: DT_FLOAT } } }'
      .. ' node { name: "w" op: "While" input: "i" input: "var" input: "v" attr { key: "cond" ' .. func 'Cond' .. ' } attr { key: "body" ' .. func 'Body' .. ' } }', loop)
    local s = df.Session{ graph = g }
    s:run('set', { ['v:0'] = 1 })
    s:run('w:0', { ['i:0'] = 7, ['v:0'] = 1 })
    assert.equal(4, s:run 'get:0')
  end)

  it('runs a For up and down', function()
    local body = [[function { signature { name: "Sum" input_arg { name: "i" type: DT_INT32 } input_arg { name: "s" type: DT_INT32 } output_arg { name: "t" type: DT_INT32 } }
      node_def { name: "add" op: "Add" input: "s" input: "i" } ret { key: "t" value: "add:z:0" } }]]
    local g = import(placeholder('a', 'INT32') .. placeholder('b', 'INT32') .. placeholder('d', 'INT32') .. placeholder('s', 'INT32')
      .. ' node { name: "for" op: "For" input: "a" input: "b" input: "d" input: "s" attr { key: "body" ' .. func 'Sum' .. ' } }', body)
    assert.equal(45, run(g, 'for:0', { ['a:0'] = 0, ['b:0'] = 10, ['d:0'] = 1, ['s:0'] = 0 }))
    assert.equal(100 + 10 + 7 + 4, run(g, 'for:0', { ['a:0'] = 10, ['b:0'] = 3, ['d:0'] = -3, ['s:0'] = 100 }))
    assert.equal(5, run(g, 'for:0', { ['a:0'] = 3, ['b:0'] = 3, ['d:0'] = 1, ['s:0'] = 5 }))
    for _, never in ipairs{ { 3, 0, 1 }, { 0, 3, -1 }, { 0, 3, 0 } } do
      local ok, e = pcall(run, g, 'for:0', { ['a:0'] = never[1], ['b:0'] = never[2], ['d:0'] = never[3], ['s:0'] = 5 })
      assert.is_false(ok)
      assert.equal('invalid_argument', e.code)
    end
  end)

  local fib = [[
    function { signature { name: "Fib" input_arg { name: "n" type: DT_INT32 } output_arg { name: "r" type: DT_INT32 } }
      ]] .. const('two', 2) .. [[ node_def { name: "small" op: "Less" input: "n" input: "two:output:0" }
      node_def { name: "if" op: "If" input: "small:z:0" input: "n" attr { key: "Tcond" value { type: DT_BOOL } } attr { key: "then_branch" ]] .. func 'Base' .. [[ } attr { key: "else_branch" ]] .. func 'Step' .. [[ } }
      ret { key: "r" value: "if:output:0" } }
    function { signature { name: "Base" input_arg { name: "n" type: DT_INT32 } output_arg { name: "r" type: DT_INT32 } } ret { key: "r" value: "n" } }
    function { signature { name: "Step" input_arg { name: "n" type: DT_INT32 } output_arg { name: "r" type: DT_INT32 } }
      ]] .. const('one', 1) .. const('two', 2) .. [[
      node_def { name: "a" op: "Sub" input: "n" input: "one:output:0" } node_def { name: "b" op: "Sub" input: "n" input: "two:output:0" }
      node_def { name: "fa" op: "Fib" input: "a:z:0" } node_def { name: "fb" op: "PartitionedCall" input: "b:z:0" attr { key: "f" ]] .. func 'Fib' .. [[ } }
      node_def { name: "sum" op: "Add" input: "fa:r:0" input: "fb:output:0" } ret { key: "r" value: "sum:z:0" } }]]

  it('runs functions that call themselves, a frame for each call', function()
    local g = import(placeholder('n', 'INT32') .. ' node { name: "fib" op: "Fib" input: "n" }', fib)
    for n, expected in pairs{ [0] = 0, 1, 1, 2, 3, 5, 8, [15] = 610 } do
      assert.equal(expected, run(g, 'fib:0', { ['n:0'] = n }))
    end
    local s = df.Session{ graph = g }
    s:run(g:output 'fib:0', { [g:output 'n:0'] = 10 })
    assert.equal(177 + 88, s:stats().frames)                  -- calls of Fib, and of Step for those above 1
    local h = s:start(g:output 'fib:0', { [g:output 'n:0'] = 8 }, { paused = true })
    h:settle()
    h:step(120)
    local deep = 0
    for _, f in ipairs(h:frames()) do deep = math.max(deep, select(2, f.tag:gsub('Fib', ''))) end
    assert.is_true(deep >= 3, 'calls inside calls are seen')
    h:resume()
    assert.equal(21, h:wait())
    s:close()
  end)

  it('says so when a function never stops calling itself', function()
    local g = import(placeholder('x', 'FLOAT') .. ' node { name: "y" op: "Forever" input: "x" }', unary('Forever', 'FLOAT', 'node_def { name: "c" op: "Forever" input: "x" }', 'c:y:0'))
    local ok, err = pcall(run, g, 'y:0', { ['x:0'] = 1 })
    assert.is_false(ok)
    assert.equal('resource_exhausted', err.code)
    assert.matches('20000 deep', err.message)
  end)

  it('names what is wrong: a function that is not there, a result, an argument, an output', function()
    local function refused(nodes, functions, text)
      local ok, err = pcall(import, nodes, functions)
      assert.is_false(ok)
      assert.matches(text, tostring(err))
    end
    refused(placeholder('x', 'FLOAT') .. ' node { name: "c" op: "PartitionedCall" input: "x" attr { key: "f" ' .. func 'Nothing' .. ' } }', double, 'no function `Nothing`')
    refused(placeholder('x', 'FLOAT') .. ' node { name: "c" op: "PartitionedCall" input: "x" }', double, 'attribute `f` must be a function')
    refused(placeholder('x', 'FLOAT') .. ' node { name: "c" op: "Double" input: "x" input: "x" }', double, 'gives 2 arguments to function `Double`, which has 1')
    refused(placeholder('x', 'FLOAT') .. ' node { name: "c" op: "Bad" input: "x" }', unary('Bad', 'FLOAT', 'node_def { name: "s" op: "Switch" input: "x" input: "x" }', 's:none:0'), 'has no output `none:0`')
    refused(placeholder('x', 'FLOAT') .. ' node { name: "c" op: "Bad" input: "x" }', unary('Bad', 'FLOAT', '', 'q:y:0'), 'no node or argument `q`')
    refused(placeholder('x', 'FLOAT') .. placeholder('p', 'BOOL') .. ' node { name: "if" op: "If" input: "p" input: "x" attr { key: "Tcond" value { type: DT_BOOL } } attr { key: "then_branch" '
      .. func 'Double' .. ' } }', double, '`else_branch` must be a function')
  end)
end)
