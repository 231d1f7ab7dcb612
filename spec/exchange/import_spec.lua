--- import_graph_def: what TensorFlow wrote, dflow reads, runs and differentiates; what is no graph is an error that says why.
local df = require 'dflow'
local support = require 'spec.support'

local graphs = 'spec/graphs/'

local function read(path)
  return require('spec.shell').read(graphs .. path)
end

--- A node in text form: node('x', 'Placeholder', {'input', ...}, 'key { ... }', ...), where an attribute is `name`, then its value.
local function node(name, op, inputs, attrs)
  local t = { ('node { name: "%s" op: "%s"'):format(name, op) }
  for _, input in ipairs(inputs or {}) do t[#t + 1] = ('input: "%s"'):format(input) end
  for key, value in pairs(attrs or {}) do t[#t + 1] = ('attr { key: "%s" value { %s } }'):format(key, value) end
  return table.concat(t, ' ') .. ' }\n'
end
local FLOAT, INT, BOOL = { T = 'type: DT_FLOAT' }, { T = 'type: DT_INT32' }, { T = 'type: DT_BOOL' }

local function placeholder(name, dtype)
  return node(name, 'Placeholder', {}, { dtype = 'type: ' .. (dtype or 'DT_FLOAT'), shape = 'shape { }' })
end
local function constant(name, dtype, field, value, control)
  return node(name, 'Const', { control }, { dtype = 'type: ' .. dtype,
    value = ('tensor { dtype: %s tensor_shape { } %s: %s }'):format(dtype, field, value) })
end
local function import(...)
  return df.import_graph_def(table.concat{ ... })
end

--- The error of an import.
local function refused(...)
  local ok, err = pcall(import, ...)
  assert.is_false(ok)
  assert.is_table(err, tostring(err))
  return err
end

--- A counting loop up to `limit`, with names as TensorFlow gives them.
local function loop(limit)
  return table.concat{
    constant('zero', 'DT_INT32', 'int_val', 0), constant('limit', 'DT_INT32', 'int_val', limit or 10),
    node('w/Enter', 'Enter', { 'zero' }, { T = 'type: DT_INT32', frame_name = 's: "w/frame"' }),
    node('w/Merge', 'Merge', { 'w/Enter', 'w/Next' }, { T = 'type: DT_INT32', N = 'i: 2' }),
    node('w/Limit', 'Enter', { 'limit' }, { T = 'type: DT_INT32', frame_name = 's: "w/frame"', is_constant = 'b: true' }),
    node('w/Less', 'Less', { 'w/Merge', 'w/Limit' }, INT), node('w/LoopCond', 'LoopCond', { 'w/Less' }),
    node('w/Switch', 'Switch', { 'w/Merge', 'w/LoopCond' }, INT), node('w/Identity', 'Identity', { 'w/Switch:1' }, INT),
    constant('w/one', 'DT_INT32', 'int_val', 1, '^w/Identity'), node('w/add', 'AddV2', { 'w/Identity', 'w/one' }, INT),
    node('w/Next', 'NextIteration', { 'w/add' }, INT), node('w/Exit', 'Exit', { 'w/Switch' }, INT) }
end

describe('import_graph_def', function()
  it('tells conds of one predicate apart where one depends on the other', function()
    local x, p = df.placeholder('float32', {}, 'x'), df.placeholder('bool', {}, 'p')
    local y = df.cond(p, function() return x * 2 end, function() return x * 3 end)
    local z = df.cond(p, function() return df.square(y + 1) end, function() return y - x end)
    local w = df.cond(p, function() return z * y end, function() return z * z end)
    local path = os.tmpname()
    df.export_graph_def(path, { outputs = { df.identity(w, { name = 'w' }) } })
    local g = df.import_graph_def(path)
    os.remove(path)
    local gw, gx = g:output 'w:0', g:output 'x:0'
    local d = g:as_default(df.gradients, gw, gx)
    local s = df.Session{ graph = g }
    for yes, want in pairs{ [true] = { 294, 266 }, [false] = { 36, 24 } } do
      local got = s:run({ gw, d }, { [gx] = 3, [g:output 'p:0'] = yes })
      assert.same(want, { got[1], got[2] })
    end
    s:close()
  end)

  it('takes a shape {} of a placeholder for one that is not known where TensorFlow wrote it so', function()
    for producer, shape in pairs{ [0] = false, [23] = false, [24] = {}, [1000] = {} } do
      local g = df.import_graph_def(([[
        node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } } }
        node { name: "q" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { dim { size: 2 } } } } }
        node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } } }
        versions { producer: %d }]]):format(producer))
      assert.same(shape or nil, g:output 'p:0'.shape)
      assert.same({ 2 }, g:output 'q:0'.shape)
      assert.same({}, g:output 'v:0'.shape)
    end
  end)

  it('reads a GraphDef, its text form, a MetaGraphDef and a SavedModel, by path and as bytes', function()
    for _, source in ipairs{ graphs .. 'loop.pb', graphs .. 'loop.pbtxt', graphs .. 'loop.meta', graphs .. 'saved', read('loop.pb'), read('loop.pbtxt') } do
      local g = df.import_graph_def(source)
      local s = df.Session{ graph = g }
      assert.same({ 3, 22, 93 }, s:run(g:output('y:0'), { ['n:0'] = 5, ['x:0'] = { 1, 2, 3 } }):totable())
      assert.same({ 1.5, math.huge, -math.huge }, { df.unpack(s:run(g:output('halves')):totable(), 1, 3) })
      assert.equal('a\0b', s:run(g:output('words')):at(0))
      assert.equal('"quoted"\n\t', s:run(g:output('words')):at(1))
      assert.same({ { 7, 7, 7 }, { 7, 7, 7 } }, s:run(g:output('sevens')):astype('int32'):totable())
      assert.same({ 0 }, s:run(g:output('nothing')).shape)
      s:close()
    end
  end)

  it('runs a loop that has more Exits than variables, in native code too', function()
    local FRAME, t, fetches, x = 's: "w/frame"', {}, {}, {}
    local function enter(name, from, type, constant)
      return node(name, 'Enter', { from }, { T = 'type: ' .. type, frame_name = FRAME, is_constant = constant and 'b: true' or nil })
    end
    t[1] = loop(9)
    t[2] = node('x', 'Placeholder', {}, { dtype = 'type: DT_FLOAT', shape = 'shape { dim { size: 1000 } }' }) .. enter('v/Enter', 'x', 'DT_FLOAT')
    t[3] = node('v/Merge', 'Merge', { 'v/Enter', 'v/Next' }, { T = 'type: DT_FLOAT', N = 'i: 2' }) .. node('v/Switch', 'Switch', { 'v/Merge', 'w/LoopCond' }, FLOAT)
    t[4] = node('v/add', 'AddV2', { 'v/Switch:1', 'v/Switch:1' }, FLOAT) .. node('v/Next', 'NextIteration', { 'v/add' }, FLOAT)
    for k = 1, 40 do
      t[#t + 1] = node('v/neg' .. k, 'Neg', { k == 1 and 'v/Switch' or 'v/neg' .. k - 1 }, FLOAT) .. node('v/Exit' .. k, 'Exit', { 'v/neg' .. k }, FLOAT)
    end
    for i = 1, 1000 do x[i] = i end
    local g = import(table.concat(t))
    for k = 1, 40 do fetches[k] = g:output('v/Exit' .. k) end
    for _, engine in ipairs{ 'tokens', 'native' } do
      local s = df.Session{ graph = g, engine = engine }
      local found = s:run(fetches, { ['x:0'] = x })
      for k = 1, 40 do assert.equal((k % 2 == 0 and 1 or -1) * 512 * 1000, found[k]:at(999)) end
      s:close()
    end
  end)

  it('knows nodes by the names that the file has', function()
    local g = df.import_graph_def(graphs .. 'loop.pb')
    assert.equal('while/Exit_1', g:op('while/Exit_1').name)
    assert.equal('Exit', g:op('while/Exit_1').type)
    assert.equal('while/cond/Merge:0', g:op('while/NextIteration_1').inputs[1].name)
    assert.has_error(function() g:op('while/Exit_2') end)
  end)

  it('puts a prefix before the names, and imports twice into one graph', function()
    local g = df.Graph()
    for _, prefix in ipairs{ 'a', 'b/c/' } do df.import_graph_def(loop(), { into = g, prefix = prefix }) end
    local a, b = g:output('a/w/Exit:0'), g:output('b/c/w/Exit:0')
    assert.same({ 10, 10 }, df.Session{ graph = g }:run{ a, b })
  end)

  it('refuses a name that the graph has already', function()
    local g = df.import_graph_def(loop())
    local n = g:size()
    local ok, err = pcall(df.import_graph_def, loop(), { into = g })
    assert.is_false(ok)
    assert.equal('invalid_argument', err.code)
    assert.matches('zero', err.message)
    assert.equal(n, g:size())
  end)

  it('leaves automatic names to what is built later', function()
    local g = import(placeholder('Add'), placeholder('x/Add_1'))
    g:as_default(function()
      local y = df.add(g:output('Add:0'), 1)
      assert.not_equal('Add:0', y.name)
      assert.equal(y, g:output(y.name))
    end)
  end)

  it('replaces inputs as input_map says', function()
    local g = df.Graph()
    g:as_default(function()
      local x, ran = df.constant(5), df.no_op()
      df.import_graph_def(placeholder('x') .. node('p', 'NoOp') .. node('y', 'Neg', { 'x', '^p' }, FLOAT),
                          { into = g, input_map = { ['x:0'] = df.float32(4), ['^p'] = ran } })
      assert.equal(-4, g:output('y'):eval())
      assert.is_truthy(x)
      local _, err = pcall(df.import_graph_def, loop(), { into = g, prefix = 'p', input_map = { ['nobody:0'] = x } })
      assert.matches('input_map has `nobody:0`', err.message)
      _, err = pcall(df.import_graph_def, placeholder('x2') .. node('y2', 'Neg', { 'x2' }, FLOAT), { into = g, input_map = { ['x2:0'] = ran } })
      assert.matches('gives no output', err.message)
    end)
  end)

  it('takes whole names and outputs for what input_map names, and no beginnings of them', function()
    local function value(map, ...)
      local g, text = df.Graph(), table.concat{ ... }
      return g:as_default(function()
        local to, ran = {}, df.Variable(0, { dtype = 'int32' })
        for name, v in pairs(map) do to[name] = v == 'op' and ran:assign_add(1).op or df.float32{ v } end
        local ok, e = pcall(df.import_graph_def, text, { into = g, input_map = to })
        if not ok then return e.message end
        return g:output('sum'):eval(), df.run(ran)
      end)
    end
    local function split(name) return node(name, 'Split', { 'axis', 'x' }, { T = 'type: DT_FLOAT', num_split = 'i: 2' }) end
    local x = constant('axis', 'DT_INT32', 'int_val', 0)
      .. node('x', 'Const', {}, { dtype = 'type: DT_FLOAT', value = 'tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1 float_val: 2 }' })
    local function sum(...) return node('sum', 'AddN', { ... }, { T = 'type: DT_FLOAT', N = ('i: %d'):format(select('#', ...)) }) end
    local two = x .. split 'a' .. split 'ab'
    assert.same({ 6 }, value({}, two, sum('a', 'a:1', 'ab', 'ab:1')):totable())
    local function mapped(map) return value(map, two, sum('a', 'a:1', 'ab', 'ab:1')) end
    assert.same({ 105 }, df.tensor(mapped{ ['a:0'] = 100 }, 'float32', { 1 }):totable())
    assert.same({ 105 }, df.tensor(mapped{ ['a'] = 100 }, 'float32', { 1 }):totable())
    assert.same({ 104 }, df.tensor(mapped{ ['ab:1'] = 100 }, 'float32', { 1 }):totable())
    assert.same({ 1103 }, df.tensor(mapped{ ['a:1'] = 100, ['ab:1'] = 1000, ['ab'] = 1, ['a:0'] = 2 }, 'float32', { 1 }):totable())
    assert.matches('input_map has `b`', mapped{ ['b'] = 1 })
    assert.matches('input_map has `a:10`', mapped{ ['a:10'] = 1 })
    assert.matches('input_map has `a:`', mapped{ ['a:'] = 1 })
    assert.matches('input_map has `a:1x`', mapped{ ['a:1x'] = 1 })
    assert.matches('input_map has `%^a`', mapped{ ['^a'] = 'op' })
    local late = node('p', 'NoOp') .. node('pq', 'NoOp') .. constant('one', 'DT_FLOAT', 'float_val', 1, '^p')
    local v, ran = value({ ['^p'] = 'op' }, late, sum('one'))
    assert.same({ 1, 1 }, { v, ran })
    assert.matches('input_map has `%^pq`', (value({ ['^pq'] = 'op' }, late, sum('one'))))
    assert.matches('input_map has `%^`', (value({ ['^'] = 'op' }, late, sum('one'))))
  end)

  it('takes nodes in any order', function()
    local lines = {}
    for line in loop():gmatch('[^\n]+') do table.insert(lines, 1, line) end
    local g = df.import_graph_def(table.concat(lines, '\n'))
    assert.equal(10, df.Session{ graph = g }:run(g:output('w/Exit')))
  end)

  it('ignores attributes that no op has, and takes defaults for those not given', function()
    local g = import(placeholder('a'), placeholder('b'),
      node('y', 'Sub', { 'a', 'b' }, { T = 'type: DT_FLOAT', _class = 'list { s: "loc:@a" }', novelty = 'func { name: "f" attr { key: "T" value { type: DT_INT32 } } }' }))
    assert.equal(-1, df.Session{ graph = g }:run(g:output('y'), { ['a:0'] = 1, ['b:0'] = 2 }))
  end)

  it('skips what newer text has, and reads lists, escapes and comments', function()
    local g = df.import_graph_def([[
      # a comment
      node < name: 'c' op: "Con" "st" experimental_debug_info { names: ["a", "b"] [type.googleapis.com/x] { y: 1 } }
        attr: { key: "dtype", value: { type: DT_INT32 } };
        attr { key: "value" value { tensor { dtype: 3 tensor_shape { dim { size: 0x3 } } int_val: [1, -2, 03] } } } >
      node { name: "s" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
        attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { } string_val: "\303\244\x41\u00e4" } } } }
      versions { producer: 100 } unheard_of: -1.5e3f]])
    local s = df.Session{ graph = g }
    assert.same({ 1, -2, 3 }, s:run(g:output('c')):totable())
    assert.equal('äAä', s:run(g:output('s')))
  end)

  it('reads what is fed anywhere at the top, in a branch too', function()
    local g = df.import_graph_def(graphs .. 'gradients/cond.pb')
    local s = df.Session{ graph = g }
    local x, y, product = g:output('x0:0'), g:output('y:0'), g:output('cond/mul:0')
    assert.same({ 1, 4, 9 }, s:run(y, { [x] = { 1, 2, 3 } }):totable())
    assert.same({ 7, 8, 9 }, s:run(y, { [x] = { 1, 2, 3 }, [product] = { 7, 8, 9 } }):totable())
    assert.same({ 4, 0, 0 }, s:run(product, { [g:output('cond/mul/Switch:1')] = { 2, 0, 0 }, [x] = { 0, 0, 0 } }):totable())
  end)

  it('names the Switch and its predicate where a dead value is fetched', function()
    local g = import(placeholder('x'), placeholder('p', 'DT_BOOL'), node('s', 'Switch', { 'x', 'p' }, FLOAT), node('y', 'Neg', { 's:1' }, FLOAT))
    local s = df.Session{ graph = g }
    assert.equal(-2, s:run(g:output('y'), { ['x:0'] = 2, ['p:0'] = true }))
    assert.equal(2, s:run(g:output('s:0'), { ['x:0'] = 2, ['p:0'] = false }))
    for _, fetch in ipairs{ 'y:0', 's:1' } do
      local ok, err = pcall(s.run, s, g:output(fetch), { ['x:0'] = 2, ['p:0'] = false })
      assert.is_false(ok)
      assert.equal('invalid_argument', err.code)
      assert.matches('Switch', tostring(err))
    end
  end)

  it('names the Switch of a frame that no token left', function()
    local function enter(from, dtype) return { from }, { T = 'type: ' .. dtype, frame_name = 's: "f"' } end
    local one, into = enter('one', 'DT_INT32')
    local yes, also = enter('yes', 'DT_BOOL')
    local g = import(constant('one', 'DT_INT32', 'int_val', 1), constant('yes', 'DT_BOOL', 'bool_val', 'true'), node('a', 'Enter', one, into),
                     node('p', 'Enter', yes, also), node('s', 'Switch', { 'a', 'p' }, INT), node('x', 'Exit', { 's' }, INT))
    local ok, err = pcall(df.Session{ graph = g }.run, df.Session{ graph = g }, 'x:0')
    assert.is_false(ok)
    assert.equal('invalid_argument', err.code)
    assert.matches('the fetch `x:0` is dead: the Switch `s` .* took true', err.message)
  end)

  it('lets a value leave a frame that does not loop: by way of a loop constant, and after one iteration more or two', function()
    local ENTER = { T = 'type: DT_FLOAT', frame_name = 's: "f"' }
    local CONSTANT = { T = 'type: DT_FLOAT', frame_name = 's: "f"', is_constant = 'b: true' }
    local g = import(placeholder('x'), node('e', 'Enter', { 'x' }, ENTER), node('c', 'Enter', { 'x' }, CONSTANT), node('square', 'Square', { 'c' }, FLOAT),
                     node('a', 'Exit', { 'c' }, FLOAT), node('b', 'Exit', { 'square' }, FLOAT), node('plain', 'Exit', { 'e' }, FLOAT),
                     node('product', 'Mul', { 'e', 'c' }, FLOAT), node('one', 'NextIteration', { 'product' }, FLOAT), node('later', 'Exit', { 'one' }, FLOAT),
                     node('sum', 'Add', { 'one', 'c' }, FLOAT), node('two', 'NextIteration', { 'sum' }, FLOAT), node('latest', 'Exit', { 'two' }, FLOAT))
    for _, engine in ipairs{ 'tokens', 'native', 'primitives' } do
      local s = df.Session{ graph = g, engine = engine }
      assert.same({ 3, 9, 3, 9, 12 }, s:run({ 'a:0', 'b:0', 'plain:0', 'later:0', 'latest:0' }, { ['x:0'] = 3 }))
      s:close()
    end
  end)

  it('runs in its iteration what hangs on an Enter or a NextIteration by a control input', function()
    for _, by in ipairs{ 'w/Enter', 'w/Next' } do        -- the first iteration, or all others
      local g = import(loop(), constant('w/five', 'DT_INT32', 'int_val', 5, '^' .. by), node('w/sum', 'AddV2', { 'w/five', 'w/Limit' }, INT),
        node('w/plus', 'AddV2', { 'w/Limit', 'w/Limit', '^' .. by }, INT), node('w/both', 'Add', { 'w/sum', 'w/plus' }, INT),
        node('w/last', 'Switch', { 'w/both', 'w/LoopCond' }, INT), node('w/out', 'Exit', { by == 'w/Next' and 'w/last' or 'w/both' }, INT))
      for _, engine in ipairs{ 'tokens', 'native' } do
        assert.same({ 35, 10 }, df.Session{ graph = g, engine = engine, timeout = 20 }:run{ g:output 'w/out', g:output 'w/Exit' })
      end
    end
  end)

  it('lets a constant leave a frame once, though the frame goes on', function()
    local ENTER = { T = 'type: DT_FLOAT', frame_name = 's: "f"' }
    local CONSTANT = { T = 'type: DT_FLOAT', frame_name = 's: "f"', is_constant = 'b: true' }
    local g = import(placeholder('x'), node('e', 'Enter', { 'x' }, ENTER), node('c', 'Enter', { 'x' }, CONSTANT), node('a', 'Exit', { 'c' }, FLOAT),
                     node('one', 'NextIteration', { 'e' }, FLOAT), node('two', 'NextIteration', { 'one' }, FLOAT), node('later', 'Exit', { 'two' }, FLOAT),
                     node('minus', 'Neg', { 'a' }, FLOAT), node('both', 'Add', { 'minus', 'later' }, FLOAT), node('twice', 'Add', { 'minus', 'a' }, FLOAT))
    for _, engine in ipairs{ 'tokens', 'native', 'primitives' } do
      local s = df.Session{ graph = g, engine = engine }
      assert.same({ -3, 0, 0, 3 }, s:run({ 'minus:0', 'both:0', 'twice:0', 'later:0' }, { ['x:0'] = 3 }))
      s:close()
    end
  end)

  it('refuses a frame that goes round and has no Switch', function()
    local g = import(placeholder('x'), node('e', 'Enter', { 'x' }, { T = 'type: DT_FLOAT', frame_name = 's: "f"' }),
                     node('m', 'Merge', { 'e', 'n' }, { T = 'type: DT_FLOAT', N = 'i: 2' }), node('n', 'NextIteration', { 'm' }, FLOAT),
                     node('y', 'Exit', { 'm' }, FLOAT))
    local ok, e = pcall(df.Session{ graph = g }.run, df.Session{ graph = g }, 'y:0', { ['x:0'] = 3 })
    assert.is_false(ok)
    assert.matches('the frame `f` has the NextIteration `n` and no Switch: it would never end', e.message, 1, true)
  end)

  it('reads a reference before a Switch takes it as a value', function()
    local g = import(node('v', 'VariableV2', {}, { dtype = 'type: DT_FLOAT', shape = 'shape { }' }), constant('c', 'DT_FLOAT', 'float_val', 3),
                     node('set', 'Assign', { 'v', 'c' }, FLOAT), constant('p', 'DT_BOOL', 'bool_val', 'true'),
                     node('s', 'Switch', { 'v', 'p', '^set' }, FLOAT), placeholder('s/read'), node('y', 'Neg', { 's:1' }, FLOAT))
    assert.equal(-3, df.Session{ graph = g }:run(g:output('y')))
    assert.equal('Identity', g:op('s/read_1').type)
  end)

  it('takes a reference variable of booleans as a predicate, by itself and read', function()
    local bool = { dtype = 'type: DT_BOOL', shape = 'shape { }' }
    local g = import(node('v', 'VariableV2', {}, bool), placeholder('p', 'DT_BOOL'), node('set', 'Assign', { 'v', 'p' }, { T = 'type: DT_BOOL' }),
                     node('w', 'VariableV2', {}, { dtype = 'type: DT_FLOAT', shape = 'shape { }' }), constant('c', 'DT_FLOAT', 'float_val', 3),
                     node('init', 'Assign', { 'w', 'c' }, FLOAT), node('r', 'RefSwitch', { 'w', 'v' }, FLOAT),
                     node('yes', 'Neg', { 'r:1' }, FLOAT), node('no', 'Square', { 'r' }, FLOAT),
                     node('v/read', 'Identity', { 'v' }, { T = 'type: DT_BOOL' }), node('s', 'Switch', { 'c', 'v/read' }, FLOAT),
                     node('m', 'Merge', { 's', 's:1' }, { T = 'type: DT_FLOAT', N = 'i: 2' }))
    local s = df.Session{ graph = g }
    s:run{ g:op('init') }
    for _, p in ipairs{ true, false, true } do
      s:run(g:op('set'), { [g:output('p')] = p })
      assert.equal(p and -3 or 9, s:run(g:output(p and 'yes' or 'no')))
      assert.equal(3, s:run(g:output('m')))
    end
  end)

  it('runs a ControlTrigger whatever its inputs are', function()
    local g = import(placeholder('x'), placeholder('p', 'DT_BOOL'), node('s', 'Switch', { 'x', 'p' }, FLOAT), node('y', 'Neg', { 's:1' }, FLOAT),
                     node('t', 'ControlTrigger', { '^y' }), node('z', 'Neg', { 'x', '^t' }, FLOAT))
    assert.equal(-3, df.Session{ graph = g }:run(g:output('z'), { ['x:0'] = 3, ['p:0'] = false }))
  end)
end)

describe('the gradient of an imported graph', function()
  local function check(name, file)
    local g, z = df.import_graph_def(graphs .. 'gradients/' .. file), df.load_npz(graphs .. 'gradients/' .. name .. '.npz')
    local xs, feeds = {}, {}
    while z['x' .. #xs] do
      local x = g:output('x' .. #xs .. ':0')
      feeds[x] = z['x' .. #xs]
      xs[#xs + 1] = x
    end
    local y, s = g:output('y:0'), df.Session{ graph = g }
    support.near(s:run(y, feeds), z.y, { rtol = 1e-4, atol = 1e-4 })
    local r = s:run(g:as_default(function() return df.gradients(y, xs, { unconnected = 'zero' }) end), feeds)
    for k = 1, #xs do support.near(r[k], z["g" .. k - 1], { rtol = 1e-4, atol = 1e-4 }) end
    s:close()
  end
  for _, name in ipairs{ 'loop', 'loop0', 'data', 'cond', 'cond2', 'samepred', 'cond_in_loop', 'cond_in_loop_unk', 'loop_in_cond', 'nested',
                         'nested_cond', 'ta', 'map', 'scan', 'foldl', 'max_iter', 'swap', 'gather', 'case', 'inv', 'assert', 'passthrough' } do
    it('is TensorFlow\'s: ' .. name, function() check(name, name .. '.pb') end)
  end
  for _, name in ipairs{ 'cond', 'samepred', 'cond_in_loop', 'nested_cond', 'loop_in_cond' } do
    it('is there beside TensorFlow\'s own: ' .. name, function() check(name, name .. '.full.pb') end)
  end

  it('saves of an imported loop what it saves of one that is built here: counters are counted, by whatever Identity they are read', function()
    for name, bytes in pairs{ loop = 12, cond_in_loop = 12, scan = 36, gather = 0 } do
      local g = df.import_graph_def(graphs .. 'gradients/' .. name .. '.pb')
      local r = g:as_default(function() return df.saved(g:output 'y:0', { g:output 'x0:0' }) end)
      assert.equal(bytes, r[1].bytes, name .. ': ' .. tostring(r))
      local counted = 0
      for _, v in ipairs(r[1]) do counted = counted + (v.how == 'counted' and 1 or 0) end
      assert.equal(name ~= 'loop', counted > 0, name .. ': ' .. tostring(r))
    end
  end)

  it('is an error where no cond or loop could be found', function()
    local g = import(placeholder('x'), placeholder('p', 'DT_BOOL'), placeholder('q', 'DT_BOOL'), node('s', 'Switch', { 'x', 'p' }, FLOAT),
                     node('r', 'Switch', { 'x', 'q' }, FLOAT), node('y', 'Merge', { 's', 'r:1' }, { T = 'type: DT_FLOAT', N = 'i: 2' }))
    local x, y = g:output('x:0'), g:output('y:0')
    assert.equal(4, df.Session{ graph = g }:run(y, { [x] = 4, ['p:0'] = false, ['q:0'] = false }))
    local ok, err = pcall(function() return g:as_default(function() return df.gradients(y, x) end) end)
    assert.is_false(ok)
    assert.matches('Merge', tostring(err))
  end)
end)

describe('an op that dflow does not know', function()
  local function graph()
    return import(placeholder('x'), node('it', 'IteratorFrob', {}, { output_types = 'list { type: DT_FLOAT }', output_shapes = 'list { shape { dim { size: 2 } } }' }),
                  node('bad', 'FrobnicateV2', { 'x', 'it' }, FLOAT), node('y', 'Neg', { 'x' }, FLOAT), node('z', 'Add', { 'bad:1', 'it' }, FLOAT),
                  node('group', 'NoOp', { '^it' }))
  end

  it('does no harm where it does not run', function()
    local g = graph()
    assert.equal(-3, df.Session{ graph = g }:run(g:output 'y:0', { ['x:0'] = 3 }))
  end)

  it('names itself and its readers when it has to run', function()
    local g = graph()
    local s = df.Session{ graph = g }
    local ok, err = pcall(s.run, s, g:output 'z:0', { ['x:0'] = 3 })
    assert.is_false(ok)
    assert.equal('unimplemented', err.code)
    assert.matches('^it ', err.op)
    assert.matches('dflow does not know the op IteratorFrob; `bad` needs it', err.message)
    assert.is_false((pcall(s.run, s, g:op 'group')))
  end)

  it('can be fed, with the dtype that the readers of its outputs say and the shape that it says itself', function()
    local g = graph()
    assert.equal('float32', g:output('bad:1').dtype)
    assert.same({ 2 }, g:output('it:0').shape)
    local z = df.Session{ graph = g }:run(g:output 'z:0', { ['bad:1'] = { 1, 2 }, ['it:0'] = { 10, 20 } })
    assert.same({ 11, 22 }, z:totable())
  end)

  it('does not run in the branch that is not taken', function()
    local g = import(placeholder('x'), placeholder('p', 'DT_BOOL'), node('s', 'Switch', { 'x', 'p' }, FLOAT), node('bad', 'Frob', { 's:1' }, FLOAT),
                     node('good', 'Neg', { 's' }, FLOAT), node('y', 'Merge', { 'good', 'bad' }, { T = 'type: DT_FLOAT', N = 'i: 2' }))
    local s = df.Session{ graph = g }
    assert.equal(-4, s:run(g:output 'y:0', { ['x:0'] = 4, ['p:0'] = false }))
    assert.is_false((pcall(s.run, s, g:output 'y:0', { ['x:0'] = 4, ['p:0'] = true })))
  end)
end)

describe('a graph that is none', function()
  local function const(tensor)
    return node('c', 'Const', {}, { dtype = 'type: DT_FLOAT', value = ('tensor { dtype: DT_FLOAT tensor_shape { %s }'):format(tensor) })
  end
  local broken = {
    ['an input that nobody makes'] = { node('y', 'Neg', { 'nobody' }, FLOAT), 'input `nobody` of node `y`' },
    ['a control input that nobody makes'] = { placeholder('x') .. node('y', 'Neg', { 'x', '^nobody' }, FLOAT), 'there is no node `nobody`' },
    ['two nodes of one name'] = { placeholder('x') .. placeholder('x'), 'two nodes are named `x`' },
    ['a node without a name'] = { node('', 'NoOp'), 'has no name' },
    ['a name with a space'] = { node('a b', 'NoOp'), 'a name must not' },
    ['an output that its node does not have'] = { placeholder('x') .. node('y', 'Neg', { 'x:1' }, FLOAT), '`x:1`, but `x` %(Placeholder%) has 1 output' },
    ['a control input twice'] = { placeholder('x') .. node('y', 'Neg', { 'x', '^x', '^x' }, FLOAT), 'control input `^x` twice' },
    ['data after control'] = { placeholder('x') .. node('y', 'Sub', { 'x', '^x', 'x' }, FLOAT), 'those come last' },
    ['too few inputs'] = { placeholder('x') .. node('y', 'Sub', { 'x' }, FLOAT), 'takes 2 inputs' },
    ['a cycle without a NextIteration'] = { node('a', 'Neg', { 'b' }, FLOAT) .. node('b', 'Neg', { 'a' }, FLOAT), 'cycle that has no NextIteration: `%w` → `%w`' },
    ['a node that feeds itself'] = { node('a', 'Neg', { 'a' }, FLOAT), '`a` %(Neg%) has its own output' },
    ['a Switch whose predicate is its own output'] = { placeholder('x', 'DT_BOOL') .. node('s', 'Switch', { 'x', 's:1' }, BOOL), '`s` %(Switch%) has its own output' },
    ['a Merge that nothing enters'] = { node('m', 'Merge', { 'n' }, { T = 'type: DT_FLOAT', N = 'i: 1' }) .. node('n', 'NextIteration', { 'm' }, FLOAT),
                                        'nothing ever begins' },
    ['an attribute of another type'] = { placeholder('x') .. node('y', 'Neg', { 'x' }, { T = 's: "float"' }), 'attr `T` of node `y` is a string, expected a type' },
    ['a dtype that its input does not have'] = { placeholder('x') .. node('y', 'Neg', { 'x' }, INT), 'attr `T` of node `y` is int32, but its input 0 %(`x:0`%) is float32' },
    ['a length that its list does not have'] = { placeholder('x') .. node('y', 'AddN', { 'x', 'x' }, { T = 'type: DT_FLOAT', N = 'i: 3' }),
                                                'attr `N` of node `y` is 3, but its list has 2' },
    ['a dtype that there is not'] = { node('x', 'Placeholder', {}, { dtype = 'type: 77' }), 'is the type 77, which there is not' },
    ['a Const without a value'] = { node('c', 'Const', {}, { dtype = 'type: DT_FLOAT' }), 'no attr `value`' },
    ['content of another size'] = { const'dim { size: 3 } } tensor_content: "12345678"', '3 elements, 12 bytes, but has 8 bytes' },
    ['more elements than the shape has'] = { const'} float_val: [1, 2]', 'lists 2' },
    ['a tensor far larger than its file'] = { const'dim { size: 99999999999 } dim { size: 99999999999 } } float_val: 1', 'but the file has 1 of them' },
    ['a negative dimension'] = { const'dim { size: -5 } } float_val: 1', 'has the dimension %-5' },
    ['text that ends in its middle'] = { 'node { name: "x" op: "NoOp"', '`}` is expected, but the file ends' },
    ['a string that is not closed'] = { 'node { name: "x }\n}', 'line 1, column %d+: a string is not closed' },
    ['an enum of no such name'] = { 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_DIGIT } } }', 'no such value of an enum' },
  }
  for what, case in pairs(broken) do
    it('is an error with names: ' .. what, function()
      local err = refused(case[1])
      assert.matches(case[2], err.message)
      assert.is_true(err.code == 'invalid_argument' or err.code == 'data_loss', err.code)
      assert.matches('import_spec.lua:%d+', err.source)
    end)
  end

  it('is an error: bytes that are cut, and says in which node', function()
    local whole = read('loop.pb')
    local _, err = pcall(df.import_graph_def, whole:sub(1, 1000))
    assert.equal('data_loss', err.code)
    assert.matches('in node %d+ `[%w/]+`', err.message)
    for n = 1, #whole - 1, 7 do
      local ok, why = pcall(df.import_graph_def, whole:sub(1, n))
      if not ok then assert.is_table(why, tostring(why)) end
    end
  end)

  it('may list one value for no elements, as TensorFlow does', function()
    local s = df.Session{ graph = import(const'dim { size: 0 } dim { size: 3 } } float_val: 1') }
    assert.same({ 0, 3 }, s:run(s.graph:output 'c:0').shape)
    s:close()
    assert.matches('0 elements but lists 2', refused(const'dim { size: 0 } } float_val: [1, 2]').message)
  end)

  it('is an error or a graph that runs to an end: bytes that were changed', function()
    local whole, seed = read('loop.pb'), 12345
    for _ = 1, 300 do
      seed = (seed * 16807) % 2147483647
      local at, byte = seed % #whole + 1, math.floor(seed / 7919) % 256
      local ok, g = pcall(df.import_graph_def, whole:sub(1, at - 1) .. string.char(byte) .. whole:sub(at + 1))
      if not ok then assert.is_table(g, tostring(g)) end
    end
  end)

  it('is an error with a message: what the fuzzer found', function()
    for _, name in ipairs{ 'attr_without_value.bin', 'cut.bin', 'length.bin', 'group.bin', 'cut.gz' } do
      local ok, err = pcall(df.import_graph_def, graphs .. 'damaged/' .. name)
      assert.is_false(ok, name)
      assert.is_true(#err.message > 20, name)
    end
  end)

  it('is an error: text that is no graph', function()
    assert.matches('a field of a GraphDef is expected', refused('hello { world }').message)
  end)

  it('is an error: a file that is not there, an empty one', function()
    local ok, err = pcall(df.import_graph_def, graphs .. 'nobody.pb')
    assert.is_false(ok)
    assert.equal('not_found', err.code)
    assert.matches('nobody.pb', err.message)
    assert.has_error(function() df.import_graph_def('') end)
    assert.has_error(function() df.import_graph_def(7) end)
    assert.has_error(function() df.import_graph_def(loop(), { prefx = 'a' }) end)
  end)
end)

describe('a loop that is not as loops are', function()
  local function run(text, fetch)
    local ok, err = pcall(function()
      local g = df.import_graph_def(text)
      return df.Session{ graph = g, timeout = 20 }:run(g:output(fetch))
    end)
    assert.is_false(ok)
    assert.equal('invalid_argument', err.code, tostring(err))
    return err.message
  end

  it('is an error: two LoopConds in a frame', function()
    assert.matches('LoopCond', run(loop():gsub('input: "w/LoopCond"', 'input: "w/LoopCond2"') .. node('w/LoopCond2', 'LoopCond', { 'w/LoopCond' }), 'w/Exit'))
  end)
  it('is an error: inputs from different frames', function()
    assert.matches('different frames', run(loop() .. constant('seven', 'DT_INT32', 'int_val', 7) .. node('n', 'Neg', { 'seven' }, INT) .. node('y', 'Sub', { 'w/Exit', 'n' }, INT)
      .. node('bad', 'AddV2', { 'w/Identity', 'n' }, INT) .. node('out', 'Exit', { 'bad' }, INT), 'out'))
  end)
  it('is an error: one frame in two others', function()
    local enter = { T = 'type: DT_INT32', frame_name = 's: "f"' }
    local text = loop() .. node('a', 'Enter', { 'zero' }, enter) .. node('b', 'Enter', { 'w/Identity' }, enter) .. node('c', 'Sub', { 'a', 'b' }, INT)
      .. node('d', 'Exit', { 'c' }, INT)
    assert.matches('frame', run(text, 'd'))
  end)
  it('is an error: a frame under two frames, which are named in full', function()
    local function into(frame) return { T = 'type: DT_INT32', frame_name = ('s: "%s"'):format(frame) } end
    assert.matches('in f/g, others in g', run(constant('c', 'DT_INT32', 'int_val', 1) .. node('p', 'Enter', { 'c' }, into 'f')
      .. node('a', 'Enter', { 'c' }, into 'g') .. node('b', 'Enter', { 'p' }, into 'g') .. node('y', 'Sub', { 'a', 'b' }, INT)
      .. node('x', 'Exit', { 'y' }, INT), 'x'))
  end)
  it('is an error: a NextIteration in no frame, and a loop that no Switch ends', function()
    local c = constant('c', 'DT_INT32', 'int_val', 1)
    assert.matches('NextIteration `n` is in no frame', run(c .. node('n', 'NextIteration', { 'c' }, INT), 'n'))
    assert.matches('it would never end', run(c .. node('e', 'Enter', { 'c' }, { T = 'type: DT_INT32', frame_name = 's: "f"' })
      .. node('m', 'Merge', { 'e', 'n' }, { T = 'type: DT_INT32', N = 'i: 2' }) .. node('n', 'NextIteration', { 'm' }, INT)
      .. node('x', 'Exit', { 'm' }, INT), 'x'))
  end)
  it('is an error: an Exit in no frame', function()
    assert.matches('in no frame', run(placeholder('x') .. constant('c', 'DT_INT32', 'int_val', 1) .. node('n', 'Neg', { 'c' }, INT) .. node('y', 'Exit', { 'n' }, INT), 'y'))
  end)
end)

describe('what a run of an imported graph fetches', function()
  it('may be named as TensorFlow names it: name:0, name, ^name', function()
    local s = df.Session{ graph = df.import_graph_def(constant('c', 'DT_INT32', 'int_val', 7) .. node('n', 'NoOp', { '^c' }, {})) }
    assert.are.same({ 7, true, true }, s:run{ 'c:0', 'n', '^n' })
  end)
  it('may be a handle, which comes back as its operation does', function()
    local s = df.Session{ graph = df.import_graph_def(node('v', 'VarHandleOp', {}, { dtype = 'type: DT_FLOAT', shape = 'shape { }' })) }
    assert.is_true(s:run 'v:0')
  end)
end)
