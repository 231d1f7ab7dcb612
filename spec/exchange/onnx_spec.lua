--- ONNX models: what is in the file, and, with PYTHON naming a Python that has onnx and onnxruntime, what ONNX Runtime makes of it.
local df = require 'dflow'
local support = require 'spec.support'
local random_program = require 'spec.random_program'
local near = support.near

local python = os.getenv 'PYTHON'

-- ---- reading a file back ----------------------------------------------------------------------------------------------
local function varint(bytes, at)
  local v, scale = 0, 1
  while true do
    local b = bytes:byte(at)
    at = at + 1
    v = v + b % 128 * scale
    scale = scale * 128
    if b < 128 then return v, at end
  end
end

--- A message as {[field] = list of what stands there}: numbers and bytes.
local function message(bytes)
  local fields, at = {}, 1
  while at <= #bytes do
    local tag, v
    tag, at = varint(bytes, at)
    local field, wire = math.floor(tag / 8), tag % 8
    if wire == 0 then v, at = varint(bytes, at)
    elseif wire == 5 then v, at = bytes:sub(at, at + 3), at + 4
    else
      local n
      n, at = varint(bytes, at)
      v, at = bytes:sub(at, at + n - 1), at + n
    end
    fields[field] = fields[field] or {}
    table.insert(fields[field], v)
  end
  return fields
end

local read_graph

local function read_node(bytes)
  local m = message(bytes)
  local n = { op = m[4][1], inputs = m[1] or {}, outputs = m[2] or {}, doc = m[6] and m[6][1], attrs = {} }
  for _, a in ipairs(m[5] or {}) do
    local f = message(a)
    n.attrs[f[1][1]] = f[6] and read_graph(f[6][1]) or f[3] and f[3][1] or f[8] or f[4] and f[4][1]
  end
  return n
end

local function read_value(bytes)
  local m = message(bytes)
  local type_message = message(m[2][1])
  local v = { name = m[1][1], sequence = type_message[4] ~= nil }
  local t = message(v.sequence and message(message(type_message[4][1])[1][1])[1][1] or type_message[1][1])
  v.dtype = t[1][1]
  if t[2] then
    v.shape = {}
    for i, dim in ipairs(message(t[2][1])[1] or {}) do v.shape[i] = (message(dim)[1] or { -1 })[1] end
  end
  return v
end

read_graph = function(bytes)
  local m = message(bytes)
  local g = { name = m[2][1], nodes = {}, inputs = {}, outputs = {}, constants = {} }
  for i, b in ipairs(m[1] or {}) do g.nodes[i] = read_node(b) end
  for i, b in ipairs(m[11] or {}) do g.inputs[i] = read_value(b) end
  for i, b in ipairs(m[12] or {}) do g.outputs[i] = read_value(b) end
  for _, b in ipairs(m[5] or {}) do
    local t = message(b)
    g.constants[t[8][1]] = { dtype = t[2][1], dims = t[1] or {}, raw = t[9] and t[9][1] }
  end
  return g
end

--- What was written for these options: the graph, and the model around it.
local function exported(opts)
  local path = os.tmpname()
  df.export_onnx(path, opts)
  local file = assert(io.open(path, 'rb'))
  local m = message(file:read '*a')
  file:close()
  os.remove(path)
  return read_graph(m[7][1]), m
end

local function ops(g)
  local list = {}
  for i, n in ipairs(g.nodes) do list[i] = n.op end
  return table.concat(list, ' ')
end

local function find(g, op)
  for _, n in ipairs(g.nodes) do if n.op == op then return n end end
  error('there is no ' .. op .. ' among ' .. ops(g))
end

local function names(list)
  local out = {}
  for i, v in ipairs(list) do out[i] = v.name end
  return table.concat(out, ' ')
end

local function counter(n)
  return df.while_loop(function(i) return i:lt(n) end, function(i, x) return i + 1, x * 2 end, { df.int32(0), df.float32(1) })
end

describe('export_onnx', function()
  it('makes placeholders inputs, outputs outputs and variables initializers', function()
    local x, w = df.placeholder('float32', { -1, 2 }, 'x'), df.Variable(df.float32{ { 1, 2, 3 }, { 4, 5, 6 } }, { name = 'w' })
    df.run(w:assign_add(df.ones{ 2, 3 }))
    local g, m = exported{ outputs = { product = x:matmul(w) } }
    assert.equal('MatMul', ops(g))
    assert.equal('x', names(g.inputs))
    assert.same({ -1, 2 }, g.inputs[1].shape)
    assert.equal('product', names(g.outputs))
    assert.same({ -1, 3 }, g.outputs[1].shape)
    assert.same({ 2, 3 }, g.constants.w.dims)
    assert.equal('\0\0\0\64', g.constants.w.raw:sub(1, 4))          -- 2.0
    assert.equal(8, m[1][1])
    assert.equal(17, message(m[8][1])[2][1])
  end)

  it('takes the variables of the session that is named', function()
    local v = df.Variable(1.0, { name = 'v' })
    local s = df.Session{}
    s:run(v:assign(2.0))
    local g = exported{ outputs = v * 1.5, session = s }
    s:close()
    assert.equal('\0\0\0\64', g.constants.v.raw)
  end)

  it('cuts the graph at the inputs that are named', function()
    local x = df.placeholder('float32', { 2 }, 'x')
    local h = df.lgamma(x)
    local g = exported{ inputs = { middle = h }, outputs = { y = df.exp(h) } }
    assert.equal('Exp', ops(g))
    assert.equal('middle', names(g.inputs))
  end)

  it('says the Lua line at each node', function()
    local g = exported{ outputs = df.exp(df.placeholder('float32', {}, 'x')) }
    assert.truthy(g.nodes[1].doc:find('onnx_spec.lua:%d+$'))
  end)

  it('makes a cond an If whose graphs see the names outside', function()
    local p, x = df.placeholder('bool', {}, 'p'), df.placeholder('float32', { 3 }, 'x')
    local g = exported{ outputs = { y = df.cond(p, function() return df.exp(x) end, function() return -x end) } }
    assert.equal('If', ops(g))
    local n = g.nodes[1]
    assert.same({ 'p' }, n.inputs)
    assert.equal('Exp', ops(n.attrs.then_branch))
    assert.equal('Neg', ops(n.attrs.else_branch))
    assert.same({ 'x' }, n.attrs.then_branch.nodes[1].inputs)
    assert.equal(0, #n.attrs.then_branch.inputs)
  end)

  it('makes a while_loop a Loop, and its predicate once outside and once at the end of the body', function()
    local n = df.placeholder('int32', {}, 'n')
    local _, x = counter(n)
    local g = exported{ outputs = { x = x } }
    assert.equal('Less Loop', ops(g))
    local loop = find(g, 'Loop')
    assert.equal('', loop.inputs[1])
    assert.equal(g.nodes[1].outputs[1], loop.inputs[2])
    assert.equal(4, #loop.inputs)
    local body = loop.attrs.body
    assert.equal(4, #body.inputs)
    assert.equal(3, #body.outputs)
    assert.same({ 7, 9, 6, 1 }, { body.inputs[1].dtype, body.inputs[2].dtype, body.inputs[3].dtype, body.inputs[4].dtype })
    local less = find(body, 'Less')
    assert.same({ body.outputs[1].name }, less.outputs)
    assert.equal(body.outputs[2].name, less.inputs[1])
  end)

  it('makes what a loop only hands on a captured name', function()
    local n, x = df.placeholder('int32', {}, 'n'), df.placeholder('float32', {}, 'x')
    local _, y, z = df.while_loop(function(i) return i:lt(n) end, function(i, y, z) return i + 1, y * z, z end, { df.int32(0), df.float32(1), x })
    local g = exported{ outputs = { y, z } }
    assert.equal(4, #find(g, 'Loop').inputs)
    assert.equal('x', find(find(g, 'Loop').attrs.body, 'Mul').inputs[2])
  end)

  it('makes an array that a loop writes in order a scan output, and one that it reads a Gather', function()
    local x = df.placeholder('float32', { 4, 2 }, 'x')
    local g = exported{ outputs = df.map_fn(function(row) return row * row end, x) }
    local loop = find(g, 'Loop')
    assert.equal('Gather', find(loop.attrs.body, 'Gather').op)
    assert.equal(nil, ops(g):find 'Sequence')
    assert.equal(nil, ops(loop.attrs.body):find 'Sequence')
    assert.equal(#loop.attrs.body.inputs, #loop.attrs.body.outputs)
    assert.same({ 2 }, loop.attrs.body.outputs[#loop.attrs.body.outputs].shape)
  end)

  it('makes an array that is written in another order a sequence', function()
    local n = df.placeholder('int32', {}, 'n')
    local _, ta = df.while_loop(function(i) return i:lt(n) end, function(i, ta) return i + 1, ta:write(n - 1 - i, i) end,
                                { df.int32(0), df.TensorArray('int32', n) })
    local g = exported{ outputs = ta:read(0) }
    local body = find(g, 'Loop').attrs.body
    assert.truthy(body.inputs[4].sequence)
    assert.truthy(ops(body):find 'SequenceErase SequenceInsert')
    assert.truthy(ops(g):find 'SequenceAt')
  end)

  it('lists all that has no counterpart in one error, with the Lua lines', function()
    local x = df.placeholder('float32', { 2 }, 'x')
    local y = df.cond(x[0]:gt(0), function() return df.lgamma(x) end, function() return df.digamma(x) end)
    local ok, e = pcall(df.export_onnx, 'never.onnx', { outputs = y + df.random_uniform{ 2 } })
    assert.falsy(ok)
    assert.equal('unimplemented', e.code)
    assert.truthy(e.message:find '^3 operations have no counterpart in ONNX')
    for _, word in ipairs{ '%(Lgamma%)', '%(Digamma%)', '%(RandomUniform%): it has a state' } do
      assert.truthy(e.message:find('onnx_spec.lua:%d+: [^\n]*' .. word), word)
    end
  end)

  it('pads no less than nothing where a stride is beyond its window, or refuses when the size is not known', function()
    local function pool(shape)
      return df.max_pool(df.placeholder('float32', shape), { ksize = { 1, 1, 2, 1 }, strides = { 1, 3, 4, 1 }, padding = 'SAME' })
    end
    local n = find(exported{ outputs = pool{ 1, 6, 5, 2 } }, 'MaxPool')
    assert.is_nil(n.attrs.auto_pad)
    assert.same({ 0, 0, 0, 1 }, n.attrs.pads)
    assert.matches('may be beyond its window', support.message_of(df.export_onnx, 'never.onnx', { outputs = pool{ 1, -1, 5, 2 } }))
  end)

  it('asks what it cannot write once, however many ways lead there', function()
    local y = df.cholesky(df.placeholder('float32', { 2, 2 }))
    for _ = 1, 64 do y = y + y * y end
    local ok, e = pcall(df.export_onnx, os.tmpname(), { outputs = { y } })
    assert.is_false(ok)
    assert.equal('unimplemented', e.code)
    assert.matches('1 operation has no counterpart', e.message)
  end)

  it('refuses a function that calls itself', function()
    local f
    f = df.func('f', { 'float32' }, function(v)
      return df.cond(v:lt(1), function() return v end, function() return f(v / 2) end)
    end, { returns = { 'float32' } })
    assert.matches('calls itself', support.message_of(df.export_onnx, os.tmpname(), { outputs = f(df.placeholder('float32', {})) }))
  end)

  it('asks for other names where a call of a function cannot keep them', function()
    local x = df.placeholder('float32', {}, 'a+b')
    local f = df.func('f', { 'float32' }, function(v) return v * 2 end)
    assert.matches("'a+b:0' needs a name", support.message_of(df.export_onnx, os.tmpname(), { outputs = f(x), inputs = { x } }), 1, true)
  end)

  it('refuses a side effect that nothing but the order of things depends on', function()
    local v = df.Variable(0.0)
    local i = df.while_loop(function(i) return i:lt(3) end, function(i)
      v:assign_add(1)
      return i + 1
    end, { df.int32(0) })
    assert.truthy(support.message_of(df.export_onnx, 'never.onnx', { outputs = i }):find 'AssignAddVariableOp')
  end)

  it('says what is wrong with its arguments', function()
    local x, z = df.placeholder('float32', {}, 'x'), df.placeholder('float32', {}, 'z')
    local function message_of(...) return support.message_of(df.export_onnx, ...) end
    assert.truthy(message_of('', { outputs = x }):find 'takes a path')
    assert.truthy(message_of('m.onnx', {}):find 'say what the model gives')
    assert.truthy(message_of('m.onnx', { outputs = 3 }):find 'outputs is the number 3')
    assert.truthy(message_of('m.onnx', { outputs = x, opset = 9 }):find 'opset is 9, a whole number from 16 to 21')
    assert.truthy(message_of('m.onnx', { outputs = x + z, inputs = x }):find 'need the placeholder z')
    assert.truthy(message_of('m.onnx', { outputs = df.placeholder('float32', nil, 'any') }):find 'the rank of the input any:0 is not known')
    assert.truthy(message_of('no/such/folder/m.onnx', { outputs = x }):find 'cannot write')
  end)

  it('writes a chain of thousands of operations', function()
    local y = df.placeholder('float32', {}, 'x')
    for _ = 1, 5000 do y = y + 1 end
    assert.equal(5000, #exported{ outputs = y }.nodes)
  end)
end)

-- ---- what ONNX Runtime makes of it ----------------------------------------------------------------------------------------
local cases = {}
local function case(title, build) cases[#cases + 1] = { title = title, build = build } end

case('elementwise programs', function(feed)
  local x, y = feed('float32', { { 1.5, -2, 3 }, { 4, 5, -6 } }), feed('float32', { 1, 2, -3.5 })
  return { x * y + x / y - 2, df.exp(x), x % y, df.floordiv(x, y), df.log1p(df.abs(x)), df.select_v2(x:gt(y), x, y), x:pow(2), df.erf(x) }
end)
case('reductions, products and softmax', function(feed)
  local x = feed('float32', { { 1, 2, 3 }, { 4, 5, 6 } })
  return { x:reduce_sum{ axis = 0 }, x:reduce_mean{ axis = -1, keep_dims = true }, x:reduce_max(), df.argmax(x, 1), df.softmax(x),
           df.matmul(x, x, { transpose_b = true }), df.cumsum(x, 1), df.reduce_all(x:gt(0)) }
end)
case('windows whose strides are beyond them, padded as SAME', function(feed)
  local x, f = feed('float32', df.range(50):cast('float32'):eval(), { 1, 5, 5, 2 }), feed('float32', { { { { 0.5, 2 }, { 1, -1 } } } })
  return { df.max_pool(x, { ksize = { 1, 1, 2, 1 }, strides = { 1, 3, 4, 1 }, padding = 'SAME' }),
           df.avg_pool(x, { ksize = { 1, 2, 1, 1 }, strides = { 1, 3, 2, 1 }, padding = 'SAME' }),
           df.conv2d(x, f, { strides = { 1, 2, 3, 1 }, padding = 'SAME' }) }
end)
case('calls of functions, which are put in line', function(feed)
  local x, w = feed('float32', { 1.5, -0.5, 2 }), df.Variable(2.5)
  local inner = df.func('inner', { 'float32' }, function(v)
    return df.cond(df.reduce_sum(v):gt(1), function() return v * w end, function() return v - x end), df.sin(v)
  end)
  local outer = df.func('outer', { 'float32' }, function(v)
    local a, b = inner(v)
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, s) return i + 1, (inner(s - b)) end, { df.int32(0), a })
    return y
  end)
  return { outer(x), outer(-x) }
end)
case('a convolution of groups of channels', function(feed)
  local x, f = feed('float32', df.range(64):cast('float32'):eval(), { 1, 4, 4, 4 }), feed('float32', df.range(48):cast('float32'):eval(), { 2, 2, 2, 6 })
  return { df.conv2d(x, f, { strides = { 1, 2, 1, 1 }, padding = 'VALID' }) }
end)
case('which half-precision numbers are infinite', function(feed)
  local x = feed('float16', { 1, math.huge, -math.huge, 0 / 0 })
  return { df.is_inf(x), df.is_finite(x), df.is_nan(x) }
end)
case('moves of elements', function(feed)
  local x, i = feed('float32', { { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } }), feed('int32', 1)
  local a, b = df.unpack(df.split(x, 2, { axis = 1 }))
  return { df.reshape(x, { 4, -1 }), df.transpose(x, { 1, 0 }), df.concat({ a, b, b }, 1), x[i], x[-1], x:slice({ 0, 1 }, { -1, 2 }),
           x:strided_slice({ 2, 3 }, { 0, 0 }, { -1, -2 }), df.pad(x, { { 1, 0 }, { 0, 2 } }), df.tile(x, { 2, 1 }), df.one_hot(i, 3),
           df.gather(x, { 2, 0 }), df.shape(x), df.reverse(x, { 1 }) }
end)
case('a data-dependent number of trips', function(feed)
  local a, steps = df.while_loop(function(a) return a:ne(1) end, function(a, steps)
    return df.cond(df.equal(a % 2, 0), function() return df.floordiv(a, 2) end, function() return a * 3 + 1 end), steps + 1
  end, { feed('int64', 27), df.int64(0) })
  return { a, steps }
end)
case('no trips', function(feed)
  local n = feed('int32', 0)
  local i, x = counter(n)
  local rows = df.map_fn(function(r) return r * 2 end, feed('float32', {}, { 0, 3 }))
  return { i, x, rows }
end)
case('a loop in a loop', function(feed)
  local n = feed('int32', 5)
  local _, sum = df.while_loop(function(i) return i:lt(n) end, function(i, sum)
    local _, t = df.while_loop(function(j) return j:lt(i) end, function(j, t) return j + 1, t + df.cast(i * j, 'float32') end, { df.int32(0), sum })
    return i + 1, t
  end, { df.int32(0), df.float32(0) })
  return { sum }
end)
case('a cond in a loop that writes an array or does not', function(feed)
  local n = feed('int32', 6)
  local _, count, ta = df.while_loop(function(i) return i:lt(n) end, function(i, count, ta)
    local more, after = df.cond(df.equal(i % 2, 0), function() return count + 1, ta:write(count, i * 10) end, function() return count, ta end)
    return i + 1, more, after
  end, { df.int32(0), df.int32(0), df.TensorArray('int32', 3) })
  return { count, ta:stack(), ta:size() }
end)
case('an array that grows and is read back while it does', function(feed)
  local n = feed('int32', 10)
  local first = df.TensorArray('int32', 0, { dynamic_size = true }):write(0, 1):write(1, 1)
  local _, ta = df.while_loop(function(i) return i:lt(n) end, function(i, ta) return i + 1, ta:write(i, ta:read(i - 1) + ta:read(i - 2)) end,
                              { df.int32(2), first })
  return { ta:stack(), ta:size() }
end)
case('elements of different shapes', function(feed)
  local n = feed('int32', 4)
  local _, ta = df.while_loop(function(i) return i:lt(n) end, function(i, ta)
    return i + 1, ta:write(n - 1 - i, df.fill(df.stack{ i + 1 }, df.cast(i, 'float32')))
  end, { df.int32(0), df.TensorArray('float32', n, { element_shape = { -1 } }) })
  return { ta:read(2), ta:concat() }
end)
case('an LSTM with its input and output in TensorArrays', function(feed)
  local steps, batch, columns, hidden = 5, 3, 4, 6
  local x = feed('float32', support.numbers(steps * batch * columns, -1, 1, 1), { steps, batch, columns })
  local W = df.Variable(support.tensor({ columns + hidden, 4 * hidden }, -0.5, 0.5, 'float32', 2))
  local b = df.Variable(support.tensor({ 4 * hidden }, -0.1, 0.1, 'float32', 3))
  local rows, zero = df.TensorArray('float32', steps):unstack(x), df.zeros{ batch, hidden }
  local _, state, out = df.while_loop(function(t) return t:lt(steps) end, function(t, s, out)
    local input, new, forget, output = df.unpack(df.split(df.matmul(df.concat({ rows:read(t), s.h }, 1), W) + b, 4, { axis = 1 }))
    local c = s.c * df.sigmoid(forget + 1) + df.sigmoid(input) * df.tanh(new)
    local h = df.tanh(c) * df.sigmoid(output)
    return t + 1, { c = c, h = h }, out:write(t, h)
  end, { df.int32(0), { c = zero, h = zero }, df.TensorArray('float32', steps) })
  return { out:stack(), state.c }
end)
case('scans of scans', function(feed)
  local x = feed('float32', { { 1, 2, 3 }, { 4, 5, 6 } })
  return { df.map_fn(function(row) return df.scan(function(a, v) return a * 0.5 + v end, row, df.float32(0)) end, x) }
end)
case('a cond in a predicate', function(feed)
  local n, y = df.while_loop(function(i, v)
    return df.cond(i:lt(3), function() return v:lt(100) end, function() return v:lt(20) end)
  end, function(i, v) return i + 1, v * 3 end, { df.int32(0), feed('float32', 1) }, { maximum_iterations = 9 })
  return { n, y }
end)
case('the gradient of a loop', function(feed)
  local x = feed('float32', { 1, 2 })
  local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, df.tanh(v) * v end, { df.int32(0), x })
  return { df.gradients(y, x) }
end)
--- What the function gives, its gradient by x and the gradient of that.
local function twice(feed, value, fn)
  local x = feed('float32', value)
  local y = fn(x)
  local dx = df.gradients(df.reduce_sum(y * y), x)
  return { y, dx, df.gradients(df.reduce_sum(dx * dx), x) }
end
local rows = { { 0.5, -1 }, { 2, 0.25 }, { -0.75, 1.5 } }
case('gradients of gradients through map_fn', function(feed)
  return twice(feed, rows, function(x) return df.map_fn(function(r) return df.tanh(r) * df.reduce_sum(r) end, x) end)
end)
case('gradients of gradients through scan and foldl', function(feed)
  return twice(feed, rows, function(x) return df.scan(function(a, r) return df.tanh(a + r) end, x) + df.foldl(function(a, r) return a * r + a end, x) end)
end)
case('gradients of gradients through an array that grows, of which one location is read twice', function(feed)
  return twice(feed, 1.1, function(x)
    local _, _, ta = df.while_loop(function(_, v) return v:lt(9) end, function(i, v, ta) return i + 1, v * 1.5, ta:write(i, v * v) end,
                                   { df.int32(0), x, df.TensorArray('float32', 0, { dynamic_size = true }) })
    return df.reduce_sum(ta:stack()) + ta:read(1) * ta:read(1)
  end)
end)
case('the gradient of an array that each branch reads as it likes', function(feed)
  local x, i = feed('float32', { 1, 2, 3 }), feed('int32', 2)
  local ta = df.TensorArray('float32', 3):unstack(x)
  local y = df.switch_case(i, { function() return ta:read(0) * 2 end, function() return df.reduce_sum(ta:gather{ 0, 0, 2 }) end,
                                function() return ta:read(2) * ta:read(1) end })
  return { y, df.gradients(y, x) }
end)
case('gradients of gradients of slices and of the greatest elements', function(feed)
  return twice(feed, rows, function(x)
    return df.top_k(x, 1):slice({ 0, 0 }, { 2, 1 }) * x:strided_slice({ 0, 1 }, { 3, -3 }, { 2, -1 }) + x[1][0] * df.reduce_sum(x:slice({ 0, 1 }, { 2, 1 }))
  end)
end)
case('atan2 of zeros of both signs and of infinities', function(feed)
  local all, ys, xs = { 0.0, -0.0, 1.0, -2.0, math.huge, -math.huge, 0 / 0 }, {}, {}
  for _, y in ipairs(all) do for _, x in ipairs(all) do ys[#ys + 1], xs[#xs + 1] = y, x end end
  local y, x = feed('float32', ys), feed('float32', xs)
  return { df.atan2(y, x), df.atan2(y, df.float32(-0.0)) }
end)

for name, build in pairs(require 'spec.exchange.trained_models') do
  case('what was trained here: ' .. name, function(feed)
    local m, list = build(), {}
    for p, v in pairs(m.feeds) do if p.name:find '^x' or p.name:find '^lengths' then feed(p, v) end end
    for _, y in pairs(m.outputs) do list[#list + 1] = y end
    return list, m.session
  end)
end

local PROGRAMS = 40
for seed = 1, PROGRAMS do
  cases[#cases + 1] = { random = true, build = function(feed)
    local y, xs = random_program.build(df, random_program.make(seed, 3))
    for i, v in ipairs{ 0.7, -0.4, 0.3 } do feed(xs[i], v) end
    return { y }
  end }
end

--- Builds a case: its outputs and inputs by name, what the inputs are fed, and the session that has its variables, if it has some.
local function built(c)
  df.reset()
  local feeds, inputs, outputs, fed = {}, {}, {}, 0
  local list, session = c.build(function(dtype, v, shape)
    local p = dtype
    if type(dtype) == 'string' then
      local t = df.tensor(v, dtype, shape)
      p = df.placeholder(dtype, t.shape)
      v = t
    end
    fed = fed + 1
    inputs['x' .. fed], feeds[p] = p, v
    return p
  end)
  for i, o in ipairs(list) do outputs['y' .. i] = o end
  return outputs, inputs, feeds, session
end

describe('ONNX Runtime', function()
  local folder, said, why

  --- Writes all the models with what they are fed and give, and asks once.
  setup(function()
    said = {}
    if not python then
      why = 'PYTHON names no Python that has onnx and onnxruntime'
      return
    end
    folder = os.tmpname()
    os.remove(folder)
    assert(os.execute(("mkdir '%s'"):format(folder)))
    for number, c in ipairs(cases) do
      local outputs, inputs, feeds, session = built(c)
      local results = {}
      local base = ('%s/%03d'):format(folder, number)
      df.export_onnx(base .. '.onnx', { outputs = outputs, inputs = inputs, opset = number % 2 == 0 and 18 or nil, session = session })
      for name, v in pairs((session or df.Session{}):run(outputs, feeds)) do results[name] = support.is_tensor(v) and v or df.tensor(v, outputs[name].dtype) end
      for name, p in pairs(inputs) do inputs[name] = support.is_tensor(feeds[p]) and feeds[p] or df.tensor(feeds[p], p.dtype) end
      df.save_npz(base .. '.in.npz', inputs)
      df.save_npz(base .. '.out.npz', results)
    end
    local answers = assert(io.popen(("'%s' spec/onnx_check.py '%s'"):format(python, folder)))
    local first = answers:read '*l'
    if first ~= 'ready' then why = 'PYTHON cannot ask ONNX Runtime: ' .. tostring(first) end
    for line in answers:lines() do
      local number, text = line:match '^(%d+) (.*)$'
      if number then said[tonumber(number)] = text end
    end
    answers:close()
  end)

  teardown(function() if folder then os.execute(("rm -r '%s'"):format(folder)) end end)

  for number, c in ipairs(cases) do
    if not c.random then
      it('accepts and computes ' .. c.title, function()
        if why then return pending(why) end
        assert.equal('ok', said[number])
      end)
    end
  end

  it('is not needed to read them back', function()
    for _, c in ipairs(cases) do
      local outputs, inputs, feeds, session = built(c)
      local path = os.tmpname() .. '.onnx'
      df.export_onnx(path, { outputs = outputs, inputs = inputs, session = session })
      local g = df.import_onnx(path)
      os.remove(path)
      local fed = {}
      for _, x in ipairs(g.inputs) do fed[x] = feeds[inputs[x.name:match '^[^:]*']] end
      local wanted = (session or df.Session{}):run(outputs, feeds, { tensors = true })
      for _, y in ipairs(g.outputs) do
        local found, t = df.Session{ graph = g }:run(y, fed, { tensors = true }), wanted[y.name:match '^[^:]*']
        assert.same(t.shape, found.shape, c.title)
        near(found:totable(), t:totable(), { rtol = 1e-4, atol = 1e-5 })
      end
    end
  end)

  it(('accepts and computes %d random programs'):format(PROGRAMS), function()
    if why then return pending(why) end
    for number, c in ipairs(cases) do if c.random then assert.equal('ok', said[number]) end end
  end)
end)
