--- Graphs with functions: calls, If, Case, While, For, functions that call themselves. The graphs are in text form.
local df = require 'dflow'
local support = require 'spec.support'

-- ---- writing graphs ------------------------------------------------------------------------------------------
local kinds = { INT32 = 'int_val', FLOAT = 'float_val', BOOL = 'bool_val' }

local function attr(key, value) return ('attr { key: "%s" value { %s } }'):format(key, value) end
local function func(name) return ('func { name: "%s" }'):format(name) end
local BOOL = attr('Tcond', 'type: DT_BOOL')

--- `what` is node, or node_def inside a function; inputs are words.
local function node_text(what, name, op, inputs, ...)
  local parts = { ('%s { name: "%s" op: "%s"'):format(what, name, op) }
  for input in inputs:gmatch('%S+') do parts[#parts + 1] = ('input: "%s"'):format(input) end
  for _, a in ipairs{ ... } do parts[#parts + 1] = a end
  return table.concat(parts, ' ') .. ' }\n'
end
local function node(...) return node_text('node', ...) end
local function inner(...) return node_text('node_def', ...) end

local function placeholder(name, dtype)
  return node(name, 'Placeholder', '', attr('dtype', 'type: DT_' .. dtype), attr('shape', 'shape {}'))
end

local function const(name, value, dtype)
  dtype = dtype or 'INT32'
  local tensor = ('tensor { dtype: DT_%s tensor_shape {} %s: %s }'):format(dtype, kinds[dtype], tostring(value))
  return inner(name, 'Const', '', attr('dtype', 'type: DT_' .. dtype), attr('value', tensor))
end

--- A function: arguments and results as words `name:DTYPE`, a result's value behind an equals sign; `runs` is a node that must run.
local function fn(name, args, body, results, runs)
  local signature, rets = { ('name: "%s"'):format(name) }, {}
  for arg, dtype in args:gmatch('(%w+):(%u%w*)') do
    signature[#signature + 1] = ('input_arg { name: "%s" type: DT_%s }'):format(arg, dtype)
  end
  for result, dtype, value in results:gmatch('(%w+):(%u%w*)=(%S+)') do
    signature[#signature + 1] = ('output_arg { name: "%s" type: DT_%s }'):format(result, dtype)
    rets[#rets + 1] = ('ret { key: "%s" value: "%s" }'):format(result, value)
  end
  if runs then
    signature[#signature + 1] = ('control_output: "%s"'):format(runs)
    rets[#rets + 1] = ('control_ret { key: "%s" value: "%s" }'):format(runs, runs)
  end
  return ('function { signature { %s }\n%s%s }\n'):format(table.concat(signature, ' '), body, table.concat(rets, ' '))
end

local function import(nodes, functions) return df.import_graph_def(nodes .. 'library {\n' .. functions .. '}') end

local function run(g, fetch, feeds)
  local s = df.Session{ graph = g }
  local named = {}
  for name, v in pairs(feeds or {}) do named[g:output(name)] = v end
  local result = s:run(g:output(fetch), named)
  s:close()
  return result
end

-- ---- functions that several tests use ------------------------------------------------------------------------
local two = const('two', 2, 'FLOAT')
local double = fn('Double', 'x:FLOAT', two .. inner('mul', 'Mul', 'x two:output:0'), 'y:FLOAT=mul:z:0')
local halve = fn('Halve', 'x:FLOAT', two .. inner('div', 'RealDiv', 'x two:output:0'), 'y:FLOAT=div:z:0')
local twice = fn('Twice', 'x:FLOAT', inner('a', 'Double', 'x') .. inner('b', 'PartitionedCall', 'a:y:0', attr('f', func 'Double')),
                 'y:FLOAT=b:output:0')
local x, p = placeholder('x', 'FLOAT'), placeholder('p', 'BOOL')

describe('an imported graph with functions', function()
  it('runs calls by name and by attribute, nested, with constants inside', function()
    local g = import(x .. node('c', 'Twice', 'x') .. node('d', 'StatefulPartitionedCall', 'c', attr('f', func 'Halve')), double .. halve .. twice)
    assert.equal(12, run(g, 'c:0', { ['x:0'] = 3 }))
    assert.equal(6, run(g, 'd:0', { ['x:0'] = 3 }))
  end)

  it('takes the branch of an If that the predicate names, and only that', function()
    local branches = attr('then_branch', func 'Double') .. attr('else_branch', func 'Halve')
    local g = import(x .. p .. node('if', 'If', 'p x', BOOL, branches), double .. halve)
    assert.equal(8, run(g, 'if:0', { ['x:0'] = 4, ['p:0'] = true }))
    assert.equal(2, run(g, 'if:0', { ['x:0'] = 4, ['p:0'] = false }))
  end)

  it('takes the last branch of a Case when the index is out of range', function()
    local branches = attr('branches', ('list { %s %s %s }'):format(func 'Double', func 'Halve', func 'Twice'))
    local g = import(x .. placeholder('i', 'INT32') .. node('case', 'Case', 'i x', branches), double .. halve .. twice)
    for i, expected in pairs{ [0] = 8, 2, 16, 16, [-1] = 16, [7] = 16 } do
      assert.equal(expected, run(g, 'case:0', { ['x:0'] = 4, ['i:0'] = i }))
    end
  end)

  it('runs a While, keeps what its body hands on as a loop constant, and has its gradient', function()
    local args = 'i:INT32 v:FLOAT k:FLOAT'
    local cond = fn('Cond', args, const('ten', 10) .. inner('less', 'Less', 'i ten:output:0'), 'go:BOOL=less:z:0')
    local steps = const('one', 1) .. inner('add', 'AddV2', 'i one:output:0') .. inner('mul', 'Mul', 'v k') .. inner('same', 'Identity', 'k')
    local body = fn('Body', args, steps, 'i2:INT32=add:z:0 v2:FLOAT=mul:z:0 k2:FLOAT=same:output:0')
    local inputs = placeholder('i', 'INT32') .. placeholder('v', 'FLOAT') .. placeholder('k', 'FLOAT')
    local loop = node('w', 'StatelessWhile', 'i v k', attr('cond', func 'Cond'), attr('body', func 'Body'))
    local g = import(inputs .. loop, cond .. body)
    local feeds = { ['i:0'] = 7, ['v:0'] = 5, ['k:0'] = 2 }
    assert.equal(10, run(g, 'w:0', feeds))
    assert.equal(40, run(g, 'w:1', feeds))
    assert.equal(2, run(g, 'w:2', feeds))
    local merges = 0
    for _, op in ipairs(g:ops()) do merges = merges + (op.type == 'Merge' and 1 or 0) end
    assert.equal(2, merges)                                   -- i and v; k is a loop constant
    local dv, dk
    g:as_default(function() dv, dk = df.unpack(df.gradients(g:output 'w:1', { g:output 'v:0', g:output 'k:0' })) end)
    assert.equal(8, run(g, dv.name, feeds))
    assert.equal(5 * 3 * 4, run(g, dk.name, feeds))
  end)

  it('runs what only reads loop constants as often as the body runs', function()
    local FLOAT = attr('dtype', 'type: DT_FLOAT')
    local args = 'i:INT32 h:RESOURCE v:FLOAT'
    local cond = fn('Cond', args, const('ten', 10) .. inner('less', 'Less', 'i ten:output:0'), 'go:BOOL=less:z:0')
    local steps = const('one', 1) .. inner('add', 'AddV2', 'i one:output:0') .. inner('more', 'AssignAddVariableOp', 'h v', FLOAT)
    local body = fn('Body', args, steps, 'i2:INT32=add:z:0 h2:RESOURCE=h v2:FLOAT=v', 'more')
    local variable = node('var', 'VarHandleOp', '', FLOAT, attr('shape', 'shape {}'))
      .. node('set', 'AssignVariableOp', 'var v', FLOAT) .. node('get', 'ReadVariableOp', 'var', FLOAT)
    local loop = node('w', 'While', 'i var v', attr('cond', func 'Cond'), attr('body', func 'Body'))
    local g = import(placeholder('i', 'INT32') .. placeholder('v', 'FLOAT') .. variable .. loop, cond .. body)
    local s = df.Session{ graph = g }
    s:run('set', { ['v:0'] = 1 })
    s:run('w:0', { ['i:0'] = 7, ['v:0'] = 1 })
    assert.equal(4, s:run 'get:0')
  end)

  it('runs a For up and down', function()
    local body = fn('Sum', 'i:INT32 s:INT32', inner('add', 'Add', 's i'), 't:INT32=add:z:0')
    local inputs = ''
    for name in ('abds'):gmatch('.') do inputs = inputs .. placeholder(name, 'INT32') end
    local g = import(inputs .. node('for', 'For', 'a b d s', attr('body', func 'Sum')), body)
    local function sum(a, b, d, s) return run(g, 'for:0', { ['a:0'] = a, ['b:0'] = b, ['d:0'] = d, ['s:0'] = s }) end
    assert.equal(45, sum(0, 10, 1, 0))
    assert.equal(100 + 10 + 7 + 4, sum(10, 3, -3, 100))
    assert.equal(5, sum(3, 3, 1, 5))
  end)

  local small = const('two', 2) .. inner('small', 'Less', 'n two:output:0')
  local choice = inner('if', 'If', 'small:z:0 n', BOOL, attr('then_branch', func 'Base'), attr('else_branch', func 'Step'))
  local before = const('one', 1) .. const('two', 2) .. inner('a', 'Sub', 'n one:output:0') .. inner('b', 'Sub', 'n two:output:0')
  local calls = inner('fa', 'Fib', 'a:z:0') .. inner('fb', 'PartitionedCall', 'b:z:0', attr('f', func 'Fib'))
  local fib = fn('Fib', 'n:INT32', small .. choice, 'r:INT32=if:output:0') .. fn('Base', 'n:INT32', '', 'r:INT32=n')
    .. fn('Step', 'n:INT32', before .. calls .. inner('sum', 'Add', 'fa:r:0 fb:output:0'), 'r:INT32=sum:z:0')

  it('runs functions that call themselves, a frame for each call', function()
    local g = import(placeholder('n', 'INT32') .. node('fib', 'Fib', 'n'), fib)
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
    local g = import(x .. node('y', 'Forever', 'x'), fn('Forever', 'x:FLOAT', inner('c', 'Forever', 'x'), 'y:FLOAT=c:y:0'))
    local err = support.error_of(run, g, 'y:0', { ['x:0'] = 1 })
    assert.equal('resource_exhausted', err.code)
    assert.matches('20000 deep', err.message)
  end)

  local function gradient(name, f, inputs, n)
    local list = 'list { ' .. ('type: DT_FLOAT '):rep(2) .. '}'
    return node(name, 'SymbolicGradient', inputs, attr('f', func(f)), attr('Tin', list), attr('Tout', ('list { %s }'):format(('type: DT_FLOAT '):rep(n))))
  end

  it('gives the gradient of a function where TensorFlow 1 asks for it, of first and of second order', function()
    local cube = fn('Cube', 'x:FLOAT', inner('square', 'Mul', 'x x') .. inner('cube', 'Mul', 'square:z:0 x'), 'y:FLOAT=cube:z:0')
    local g = import(x .. placeholder('dy', 'FLOAT') .. gradient('dx', 'Cube', 'x dy', 1), cube)
    assert.equal(2 * 3 * 25, run(g, 'dx:0', { ['x:0'] = 5, ['dy:0'] = 2 }))
    local second
    g:as_default(function() second = df.gradients(g:output 'dx:0', g:output 'x:0') end)
    assert.equal(2 * 6 * 5, run(g, second.name, { ['x:0'] = 5, ['dy:0'] = 2 }))
  end)

  it('gives the gradient of a function with a cond and a loop, called in a loop', function()
    local FLOAT = attr('T', 'type: DT_FLOAT')
    local args = 'i:INT32 v:FLOAT k:FLOAT'
    local power = fn('More', args, const('three', 3) .. inner('less', 'Less', 'i three:output:0'), 'go:BOOL=less:z:0')
      .. fn('Times', args, const('one', 1) .. inner('add', 'AddV2', 'i one:output:0') .. inner('mul', 'Mul', 'v k'),
            'i2:INT32=add:z:0 v2:FLOAT=mul:z:0 k2:FLOAT=k')
      .. fn('Power', 'x:FLOAT', const('zero', 0) .. const('limit', 0, 'FLOAT') .. inner('positive', 'Greater', 'x limit:output:0')
            .. inner('w', 'While', 'zero:output:0 x x', attr('cond', func 'More'), attr('body', func 'Times'))
            .. inner('if', 'If', 'positive:z:0 w:output:1', BOOL, attr('then_branch', func 'Double'), attr('else_branch', func 'Halve')),
            'y:FLOAT=if:output:0')
    local list = 'list { type: DT_FLOAT type: DT_FLOAT }'
    local descend = fn('Go', 'i:INT32 x:FLOAT', const('two', 2) .. inner('less', 'Less', 'i two:output:0'), 'go:BOOL=less:z:0')
      .. fn('Descend', 'i:INT32 x:FLOAT', const('one', 1) .. const('dy', 1, 'FLOAT') .. inner('add', 'AddV2', 'i one:output:0')
            .. inner('dx', 'SymbolicGradient', 'x dy:output:0', attr('f', func 'Power'), attr('Tin', list), attr('Tout', 'list { type: DT_FLOAT }'))
            .. inner('sum', 'Sub', 'x dx:output:0', FLOAT), 'i2:INT32=add:z:0 x2:FLOAT=sum:z:0')
    local g = import(placeholder('i', 'INT32') .. x .. node('w', 'While', 'i x', attr('cond', func 'Go'), attr('body', func 'Descend')),
                     power .. descend .. double .. halve)
    local function step(v) return v - (v > 0 and 8 or 2) * v ^ 3 end           -- d/dx of 2 x^4 or x^4 / 2
    for _, v in ipairs{ 1, -1, 0.5 } do
      assert.equal(step(v), run(g, 'w:1', { ['i:0'] = 1, ['x:0'] = v }))
      assert.equal(step(step(v)), run(g, 'w:1', { ['i:0'] = 0, ['x:0'] = v }))
    end
  end)

  it('takes the gradient function that the library names', function()
    local lie = fn('Lie', 'x:FLOAT dy:FLOAT', inner('dx', 'Double', 'dy'), 'dx:FLOAT=dx:y:0')
    local named = lie .. halve .. double .. 'gradient { function_name: "Halve" gradient_func: "Lie" }\n'
    local g = import(x .. placeholder('dy', 'FLOAT') .. gradient('dx', 'Halve', 'x dy', 1), named)
    assert.equal(14, run(g, 'dx:0', { ['x:0'] = 5, ['dy:0'] = 7 }))
  end)

  it('takes outputs of TensorFlow\'s ops by their names there, which are not ours', function()
    local m = node('m', 'Const', '', attr('dtype', 'type: DT_FLOAT'), attr('value', [[tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 2 } }
      float_val: 3 float_val: 1 float_val: 4 float_val: 1 }]]))
    local inside = inner('qr', 'Qr', 'a') .. const('k', 1) .. inner('top', 'TopKV2', 'a k:output:0') .. const('flat', -1)
      .. const('axis', 0) .. inner('dims', 'ExpandDims', 'flat:output:0 axis:output:0') .. inner('row', 'Reshape', 'a dims:output:0')
      .. inner('u', 'UniqueWithCounts', 'row:output:0')
    local f = fn('Parts', 'a:FLOAT', inside, 'q:FLOAT=qr:q:0 r:FLOAT=qr:r:0 v:FLOAT=top:values:0 i:INT32=top:indices:0 '
                 .. 'y:FLOAT=u:y:0 n:INT32=u:idx:0 c:INT32=u:count:0')
    local g = import(m .. node('parts', 'Parts', 'm'), f)
    local found = {}
    for k = 0, 6 do found[k + 1] = run(g, 'parts:' .. k):totable() end
    for i = 1, 2 do
      for k = 1, 2 do found[2][i][k] = math.floor(math.abs(found[2][i][k]) * 10 + 0.5) / 10 end
    end
    assert.same({ { 5, 1.4 }, { 0, 0.2 } }, found[2])
    assert.is_true(math.abs(math.abs(found[1][1][1]) - 0.6) < 1e-5 and math.abs(math.abs(found[1][2][1]) - 0.8) < 1e-5)
    assert.same({ { { 3 }, { 4 } }, { { 0 }, { 0 } }, { 3, 1, 4 }, { 0, 1, 2, 1 }, { 1, 2, 1 } }, { df.unpack(found, 3) })
  end)

  it('names what is wrong: a function that is not there, a result, an argument, an output', function()
    local function refused(nodes, functions, text)
      local err = support.error_of(import, nodes, functions)
      assert.matches(text, tostring(err))
    end
    local bad = node('c', 'Bad', 'x')
    refused(x .. node('c', 'PartitionedCall', 'x', attr('f', func 'Nothing')), double, 'no function `Nothing`')
    refused(x .. gradient('c', 'Double', 'x x', 2), double, 'the gradient of `Double`')
    refused(x .. gradient('c', 'Self', 'x x', 1), fn('Self', 'x:FLOAT', inner('again', 'Self', 'x'), 'y:FLOAT=again:y:0'), 'the gradient of `Self`')
    refused(x .. gradient('c', 'Double', 'x', 1), double, 'has 1 inputs, 2 types of them')
    refused(x .. node('c', 'PartitionedCall', 'x'), double, 'attribute `f` must be a function')
    refused(x .. node('c', 'Double', 'x x'), double, 'gives 2 arguments to function `Double`, which has 1')
    refused(x .. bad, fn('Bad', 'x:FLOAT', inner('s', 'Switch', 'x x'), 'y:FLOAT=s:none:0'), 'has no output `none:0`')
    refused(x .. bad, fn('Bad', 'x:FLOAT', '', 'y:FLOAT=q:y:0'), 'no node or argument `q`')
    refused(x .. p .. node('if', 'If', 'p x', BOOL, attr('then_branch', func 'Double')), double, '`else_branch` must be a function')
  end)
end)

-- ---- what calls wait for ----------------------------------------------------------------------------------------
--- A variable v, `init` gives it 0 and `set` 7; the numbers of these tests are TensorFlow's.
local F, RESOURCE, TO_FLOAT = attr('dtype', 'type: DT_FLOAT'), attr('Tin', 'list { type: DT_RESOURCE }'), attr('Tout', 'list { type: DT_FLOAT }')
local function outer(...) return (const(...):gsub('^node_def', 'node')) end
local variable = node('v', 'VarHandleOp', '', F, attr('shape', 'shape {}'), attr('shared_name', 's: "v"'))
local v = variable .. outer('zero', 0, 'FLOAT') .. outer('seven', 7, 'FLOAT') .. outer('one', 1, 'FLOAT') .. outer('yes', true, 'BOOL')
  .. outer('i', 0) .. node('init', 'AssignVariableOp', 'v zero', F) .. node('set', 'AssignVariableOp', 'v seven', F)
  .. node('now', 'ReadVariableOp', 'v', F)
local read = fn('Read', 'h:RESOURCE', inner('x', 'ReadVariableOp', 'h', F), 'r:FLOAT=x:value:0')
local pass = fn('Pass', 'x:FLOAT', '', 'r:FLOAT=x')
local three = fn('Three', 'x:FLOAT', const('c', 3, 'FLOAT'), 'r:FLOAT=c:output:0')
local add = fn('Add', 'h:RESOURCE x:FLOAT', inner('s', 'AssignAddVariableOp', 'h x', F), 'r:FLOAT=x', 's')
local reads = attr('then_branch', func 'Read') .. attr('else_branch', func 'Read') .. RESOURCE .. TO_FLOAT
local function call(name, inputs, f) return node(name, 'StatefulPartitionedCall', inputs, attr('f', func(f))) end

--- What `fetch` is after `init`, and v after that.
local function after_init(g, fetch, feeds)
  local s, named = df.Session{ graph = g }, {}
  for name, value in pairs(feeds or {}) do named[g:output(name)] = value end
  s:run(g:op 'init')
  local result = s:run(g:output(fetch), named)
  local now = s:run(g:output 'now:0')
  s:close()
  return result, now
end
local function waits(expected, nodes, functions, fetch, feeds)
  local result, now = after_init(import(v .. nodes, functions), fetch or 'n:0', feeds)
  assert.same(expected, { result, now })
end

--- A loop of three: v grows by one, then the node q reads it, and what it reads is summed up.
local function summing(q)
  local body = const('c', 1, 'FLOAT') .. const('ci', 1) .. inner('s', 'AssignAddVariableOp', 'h c:output:0', F) .. q
    .. inner('b', 'AddV2', 'a q:output:0') .. inner('j', 'AddV2', 'i ci:output:0')
  return fn('Below', 'h:RESOURCE i:INT32 a:FLOAT', const('c', 3) .. inner('l', 'Less', 'i c:output:0'), 'r:BOOL=l:z:0')
    .. fn('Sum', 'h:RESOURCE i:INT32 a:FLOAT', body, 'h:RESOURCE=h i:INT32=j:z:0 a:FLOAT=b:z:0', 'q')
end
local function sum(inputs) return node('n', 'While', inputs, attr('cond', func 'Below'), attr('body', func 'Sum')) end

describe('the gradient of an imported graph', function()
  local support = require 'spec.support'
  local function refused(g, y, x) return support.message_of(df.gradients, g:output(y), g:output(x)) end

  it('goes through a Case of any number of branches', function()
    local x, two = placeholder('x', 'FLOAT'), const('two', 2, 'FLOAT')
    local function f(name, op, more) return fn(name, 'x:FLOAT', two .. inner('y', op, more or 'x'), 'r:FLOAT=y:0') end
    local functions = f('A', 'Sin') .. f('B', 'Square') .. f('C', 'Exp') .. f('D', 'Mul', 'x two:output:0') .. f('E', 'Neg')
    local values = { math.sin, function(v) return v * v end, math.exp, function(v) return 2 * v end, function(v) return -v end }
    local slopes = { math.cos, function(v) return 2 * v end, math.exp, function() return 2 end, function() return -1 end }
    local names = { 'A', 'B', 'C', 'D', 'E' }
    for n = 1, #names do
      local list = {}
      for k = 1, n do list[k] = func(names[k]) end
      local branches = attr('branches', 'list { ' .. table.concat(list, ' ') .. ' }')
      local g = import(x .. placeholder('i', 'INT32') .. node('case', 'Case', 'i x', branches), functions)
      local s, given, i, y = df.Session{ graph = g }, g:output 'x', g:output 'i', g:output 'case:0'
      local dx = df.gradients(y, given)
      for k = -1, n do
        local taken = (k < 0 or k >= n) and n or k + 1
        support.near(s:run({ y, dx }, { [given] = 0.7, [i] = k }), { values[taken](0.7), slopes[taken](0.7) }, { rtol = 1e-5 })
      end
      s:close()
    end
  end)

  local FILE = 'spec/exchange/custom_gradient.pb.gz'            -- a SavedModel of TensorFlow 2.15, whose gradients follow
  local x = { 1, -2, 3 }
  it('is the one that tf.custom_gradient gave it, with all that its function has captured', function()
    local g = df.import_graph_def(FILE)
    local s = df.Session{ graph = g }
    local function gradient(y, from)
      return s:run(df.gradients(g:output(y), g:output(from)), { [g:output(from)] = x }):totable()
    end
    support.near(gradient('PartitionedCall:0', 'f_x'), { 6, 12, 18 })
    support.near(gradient('PartitionedCall_2:0', 'simple_x'), { 6, 6, 6 })
    support.near(gradient('PartitionedCall_3:0', 'two_x'), { 4.6829419, -1033.9788, 39404.477 }, { rtol = 1e-5 })
    support.near(gradient('PartitionedCall_1:0', 'loop_x'), { 72, -288, 648 })          -- in a loop
    s:close()
  end)

  it('is refused where the file does not carry it, by the name of the op', function()
    local function with(type) return attr('_gradient_op_type', ('s: "%s"'):format(type)) end
    local x2 = placeholder('x', 'FLOAT')
    local list = attr('T', 'list { type: DT_FLOAT }')
    local g = df.import_graph_def(x2 .. node('y', 'Relu', 'x', with 'GuidedRelu') .. node('z', 'IdentityN', 'y', list, with 'CustomGradient-7')
      .. node('w', 'Relu', 'x', with 'Relu'))
    local s = df.Session{ graph = g }
    assert.equal(3, s:run(g:output 'z', { [g:output 'x'] = 3 }))
    for name, type in pairs{ y = 'GuidedRelu', z = 'CustomGradient-7' } do
      local text = refused(g, name, 'x')
      assert.matches('`' .. type:gsub('%-', '%%-') .. '`, which the file does not carry', text)
      assert.matches('`' .. name .. '`', text)
    end
    assert.equal(1, s:run(df.gradients(g:output 'w', g:output 'x'), { [g:output 'x'] = 3 }))
    s:close()
  end)
end)

describe('a control input of an imported graph with functions', function()
  it('is waited for by a call, whose body merely reads what it is given', function()
    waits({ 7, 7 }, call('n', 'v ^set', 'Read'), read)
    waits({ 7, 7 }, node('n', 'PartitionedCall', 'v ^set', attr('f', func 'Read')), read)
    waits({ 7, 7 }, node('n', 'Read', 'v ^set'), read)
    waits({ 7, 7 }, call('n', '^set', 'None'), fn('None', '', (variable:gsub('^node', 'node_def')) .. inner('x', 'ReadVariableOp', 'v:handle:0', F),
                                                  'r:FLOAT=x:value:0'))
    waits({ 3, 7 }, call('n', 'one ^set', 'Three'), three)
    waits({ 1, 7 }, call('n', 'one ^set', 'Pass') .. node('out', 'Identity', 'n'), pass, 'out:0')
    waits({ 7, 7 }, call('n', 'v ^set', 'Hand') .. node('out', 'ReadVariableOp', 'n', F), fn('Hand', 'h:RESOURCE', '', 'r:RESOURCE=h'), 'out:0')
  end)

  it('keeps apart what is read before an assignment and after it', function()
    waits({ 7, 7 }, call('before', 'v', 'Read') .. node('later', 'AssignVariableOp', 'v seven ^before', F) .. call('after', 'v ^later', 'Read')
          .. node('n', 'Sub', 'after before'), read)
    waits({ 8, 8 }, call('first', 'v one ^set', 'Add') .. call('n', 'v ^first', 'Read'), add .. read)
  end)

  it('is waited for by a call inside the call, whatever else that is given', function()
    local plus = fn('Plus', 'h:RESOURCE x:FLOAT', inner('q', 'ReadVariableOp', 'h', F) .. inner('z', 'AddV2', 'q:value:0 x'), 'r:FLOAT=z:z:0')
    local mixed = fn('Mixed', 'h:RESOURCE', const('c', 1, 'FLOAT') .. inner('q', 'Plus', 'h c:output:0'), 'r:FLOAT=q:r:0')
    waits({ 8, 7 }, call('n', 'v ^set', 'Mixed'), mixed .. plus)
    local loop = const('c', 0, 'FLOAT') .. const('ci', 0)
      .. inner('q', 'While', 'h ci:output:0 c:output:0', attr('cond', func 'Below'), attr('body', func 'Sum'))
    waits({ 27, 10 }, call('n', 'v ^set', 'Loop'), fn('Loop', 'h:RESOURCE', loop, 'r:FLOAT=q:output:2') .. read
          .. summing(inner('q', 'StatefulPartitionedCall', 'h ^s', attr('f', func 'Read'))))
  end)

  it('is waited for by an If and a Case, whose branches merely read', function()
    waits({ 7, 7 }, node('n', 'If', 'yes v ^set', BOOL, reads), read)
    local both = attr('then_branch', func 'Pass') .. attr('else_branch', func 'Three')
    waits({ 1, 7 }, node('n', 'StatelessIf', 'yes one ^set', BOOL, both), pass .. three)
    waits({ 7, 7 }, node('n', 'Case', 'i v ^set', attr('branches', 'list { ' .. func 'Read' .. func 'Read' .. ' }')), read)
    waits({ 7, 7 }, node('n', 'Case', 'i v ^set', attr('branches', 'list { ' .. func 'Read' .. ' }')), read)
    waits({ 3, 7 }, node('n', 'StatelessCase', 'i one ^set', attr('branches', 'list { ' .. func 'Three' .. func 'Pass' .. ' }')), pass .. three)
  end)

  it('is waited for by calls, Ifs and Cases in a loop and in a branch', function()
    waits({ 6, 3 }, sum 'v i zero', read .. summing(inner('q', 'StatefulPartitionedCall', 'h ^s', attr('f', func 'Read'))), 'n:2')
    waits({ 6, 3 }, sum 'v i zero', read .. summing(const('cc', 100, 'FLOAT') .. inner('yes', 'Less', 'a cc:output:0')
          .. inner('q', 'If', 'yes:z:0 h ^s', BOOL, reads)), 'n:2')
    local picks = attr('branches', 'list { ' .. func 'Read' .. func 'Read' .. ' }')
    waits({ 6, 3 }, sum 'v i zero', read .. summing(inner('q', 'Case', 'i h ^s', picks)), 'n:2')
    local grown = fn('Grown', 'h:RESOURCE x:FLOAT', inner('s', 'AssignAddVariableOp', 'h x', F)
                     .. inner('q', 'PartitionedCall', 'h ^s', attr('f', func 'Read')), 'r:FLOAT=q:output:0', 's')
    waits({ 7, 7 }, node('n', 'If', 'yes v seven', BOOL, attr('then_branch', func 'Grown'), attr('else_branch', func 'Same')),
          grown .. read .. fn('Same', 'h:RESOURCE x:FLOAT', '', 'r:FLOAT=x'))
  end)

  it('is waited for by a loop, and that of what a loop is given and does not use', function()
    local loop = fn('Cond', 'i:INT32 a:FLOAT', const('c', 3, 'FLOAT') .. inner('l', 'Less', 'a c:output:0'), 'r:BOOL=l:z:0')
      .. fn('Body', 'i:INT32 a:FLOAT', const('c', 1, 'FLOAT') .. const('ci', 1) .. inner('s', 'AddV2', 'a c:output:0')
            .. inner('j', 'AddV2', 'i ci:output:0'), 'i:INT32=j:z:0 a:FLOAT=s:z:0')
    local attrs = attr('cond', func 'Cond') .. attr('body', func 'Body')
    local late = outer('late', 0):gsub('op: "Const"', '%0 input: "^set"')
    for _, op in ipairs{ 'While', 'StatelessWhile' } do
      waits({ 3, 7 }, node('n', op, 'i one ^set', attrs), loop, 'n:1')
      waits({ 3, 7 }, late .. node('n', op, 'late one', attrs) .. node('out', 'Identity', 'n:1'), loop, 'out:0')
      waits({ 3, 7 }, late .. node('later', 'Identity', 'late') .. node('n', op, 'later one', attrs) .. node('out', 'Identity', 'n:1'), loop, 'out:0')
    end
  end)

  it('is waited for by a For and by the gradient of a function', function()
    local body = fn('Body', 'i:INT32 a:FLOAT u:FLOAT', const('c', 1, 'FLOAT') .. inner('s', 'AddV2', 'a c:output:0'), 'a:FLOAT=s:z:0 u:FLOAT=u')
    local numbers = outer('j', 3) .. outer('k', 1) .. outer('late', 0, 'FLOAT'):gsub('op: "Const"', '%0 input: "^set"')
    waits({ 4, 7 }, numbers .. node('n', 'For', 'i j k one zero ^set', attr('body', func 'Body')), body)
    waits({ 4, 7 }, numbers .. node('n', 'For', 'i j k one late', attr('body', func 'Body')) .. node('out', 'Identity', 'n'), body, 'out:0')
    local square = fn('Square', 'x:FLOAT', inner('z', 'Mul', 'x x'), 'r:FLOAT=z:z:0')
    waits({ 14, 7 }, node('n', 'SymbolicGradient', 'seven one ^set', attr('Tin', 'list { type: DT_FLOAT type: DT_FLOAT }'), TO_FLOAT,
                          attr('f', func 'Square')), square)
  end)

  it('lets the assertion of an exclusive case run', function()
    local message = 'tensor { dtype: DT_STRING tensor_shape {} string_val: "more than one" }'
    local guard = p .. node('text', 'Const', '', attr('dtype', 'type: DT_STRING'), attr('value', message))
      .. node('guard', 'If', 'p text', BOOL, attr('then_branch', func 'Right'), attr('else_branch', func 'Wrong'))
      .. node('guarded', 'Identity', 'guard')
      .. node('n', 'If', 'yes one ^guarded', BOOL, attr('then_branch', func 'Pass'), attr('else_branch', func 'Pass'))
    local c = const('c', false, 'BOOL')
    local functions = pass
      .. fn('Right', 'm:STRING', c .. inner('none', 'NoOp', '') .. inner('d', 'Identity', 'c:output:0 ^none'), 'r:BOOL=d:output:0', 'none')
      .. fn('Wrong', 'm:STRING', c .. inner('assert', 'Assert', 'c:output:0 m', attr('T', 'list { type: DT_STRING }'))
            .. inner('d', 'Identity', 'c:output:0 ^assert'), 'r:BOOL=d:output:0', 'assert')
    local g = import(v .. guard, functions)
    assert.equal(1, (after_init(g, 'n:0', { ['p:0'] = true })))
    local err = support.error_of(after_init, g, 'n:0', { ['p:0'] = false })
    assert.matches('more than one', tostring(err))
  end)

  it('may name two arguments that are one', function()
    waits({ 1, 0 }, node('n', 'Both', 'one one'), fn('Both', 'x:FLOAT y:FLOAT', inner('z', 'Identity', 'x ^x ^y'), 'r:FLOAT=z:output:0'))
  end)

  it('is there in the gradient, and where the graph is written down and read again', function()
    local times = fn('Times', 'h:RESOURCE x:FLOAT', inner('q', 'ReadVariableOp', 'h', F) .. inner('z', 'Mul', 'q:value:0 x'), 'r:FLOAT=z:z:0')
    local attrs = attr('then_branch', func 'Times') .. attr('else_branch', func 'Times')
    local loop = fn('Cond', 'h:RESOURCE a:FLOAT', const('c', 1000, 'FLOAT') .. inner('l', 'Less', 'a c:output:0'), 'r:BOOL=l:z:0')
      .. fn('Body', 'h:RESOURCE a:FLOAT', inner('t', 'Times', 'h a'), 'h:RESOURCE=h a:FLOAT=t:r:0')
    local nodes = { call('n', 'v x ^set', 'Times'), node('n', 'If', 'yes v x ^set', BOOL, attrs),
                    node('loop', 'While', 'v x ^set', attr('cond', func 'Cond'), attr('body', func 'Body')) .. node('n', 'Identity', 'loop:1') }
    for i, slope in ipairs{ 7, 7, 343 } do
      local g = import(v .. x .. nodes[i], times .. loop)
      g:as_default(function() df.identity(df.gradients(g:output 'n:0', g:output 'x:0'), { name = 'dx' }) end)
      assert.same({ slope, 7 }, { after_init(g, 'dx:0', { ['x:0'] = 3 }) })
      local path = os.tmpname()
      g:as_default(function() df.export_graph_def(path) end)
      local again = df.import_graph_def(path)
      os.remove(path)
      assert.same({ 3 * slope, 7 }, { after_init(again, 'n:0', { ['x:0'] = 3 }) })
      assert.same({ slope, 7 }, { after_init(again, 'dx:0', { ['x:0'] = 3 }) })
    end
  end)
end)

describe('what a function must run', function()
  it('runs where one of its results is read, by a call, an If and a loop', function()
    local out = node('out', 'Identity', 'n')
    local same = fn('Same', 'h:RESOURCE x:FLOAT', '', 'r:FLOAT=x')
    waits({ 1, 1 }, call('n', 'v one', 'Add') .. out, add, 'out:0')
    local within = fn('Within', 'h:RESOURCE x:FLOAT', inner('q', 'Add', 'h x') .. inner('end', 'NoOp', '^q'), 'r:FLOAT=q:r:0', 'end')
    waits({ 1, 1 }, call('n', 'v one', 'Within') .. out, add .. within, 'out:0')
    local either = attr('then_branch', func 'Add') .. attr('else_branch', func 'Same')
    waits({ 1, 1 }, node('n', 'If', 'yes v one', BOOL, either) .. out, add .. same, 'out:0')
    local loop = read .. summing(inner('q', 'StatefulPartitionedCall', 'h ^s', attr('f', func 'Read')))
    waits({ 3, 3 }, sum 'v i zero' .. node('out', 'ReadVariableOp', 'n', F), loop, 'out:0')
    waits({ 10, 10 }, sum 'v i zero ^set' .. node('out', 'ReadVariableOp', 'n', F), loop, 'out:0')
  end)

  it('does not hold up readers of a result where it changes nothing', function()
    local quiet = fn('Quiet', 'h:RESOURCE x:FLOAT', inner('q', 'ReadVariableOp', 'h', F), 'r:FLOAT=x', 'q')
    local g = import(v .. x .. call('n', 'v x', 'Quiet') .. node('out', 'Identity', 'n'), quiet)
    assert.equal('x', g:op('out').inputs[1].op.name)
  end)
end)
