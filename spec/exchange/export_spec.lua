--- export_graph_def: what dflow writes, TensorFlow imports, runs and differentiates with equal results.
-- With PYTHON naming a Python that has TensorFlow, it is asked; otherwise what TensorFlow 2.15.1 gave is compared
-- (spec/tensorflow/export.lua.gz, written by spec/export_check.py from the folder that DFLOW_EXPORT_FOLDER keeps).
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local registry = require 'dflow.front.registry'
local random_program = require 'spec.random_program'
local recorded = require('spec.support').recorded 'spec/tensorflow/export'

local keep = os.getenv 'DFLOW_EXPORT_FOLDER'
local python = os.getenv 'PYTHON'
local folder = keep or os.tmpname() .. '.d'
local unpack = table.unpack or unpack

local function f32(v) return df.tensor(v, 'float32') end

-- ---- programs: fetches, feeds, and the placeholders that the sum of the first fetch is differentiated by ----------------------
local programs = {}

function programs.arithmetic()
  local x = df.placeholder('float32', { 2, 3 }, 'x')
  local y = df.matmul(x, df.constant({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, 'float32')):tanh()
  local parts = df.split(x, 3, { axis = 1 })
  return { y:reduce_sum{ axis = 0 }, df.concat({ x, x }, 1), df.reduce_logsumexp(x, { axis = 1 }), parts[2],
           df.cast(df.logical_xor(x:lt(0.5), true), 'int32'), x:transpose{ perm = { 1, 0 } }, df.gather(x, { 2, 0 }, { axis = 1 }) },
         { [x] = f32{ { 0.1, -0.2, 0.3 }, { 0.1, 0.2, 0.3 } } }, { x }
end

function programs.broadcasting()
  local x = df.placeholder('float32', { -1, 4 }, 'x')
  local b = df.placeholder('float32', { 4 }, 'b')
  return { df.softmax(x * b + df.reduce_logsumexp(x, { axis = 1, keep_dims = true })) * x, df.reduce_max(x, { axis = 1 }) },
         { [x] = f32{ { 1, 2, 3, 4 }, { 4, 3, 2, 1 }, { 0, 1, 0.5, 1 } }, [b] = f32{ 1, 0.5, -0.25, 2 } }, { x, b }
end

function programs.gathering()
  local x = df.placeholder('float32', { 3, 4 }, 'x')
  local columns, rows = df.gather(x, { 0, 2, 0 }, { axis = 1 }), df.gather(x, { { 2, 1 }, { 2, 2 } })
  return { df.reduce_sum(columns * columns) + df.reduce_sum(rows * rows) + df.reduce_mean(x) },
         { [x] = f32{ { 1, 2, 3, 4 }, { 4, 3, 2, 1 }, { 0, 1, 0, 1 } } }, { x }
end

function programs.scans()
  local x = df.placeholder('float32', { 3, 2 }, 'x')
  local down, up = df.cumprod(x, 0), df.cumprod(x, 1, { reverse = true, exclusive = true })
  return { df.reduce_sum(down * down) + df.reduce_sum(up * x), down, df.cumsum(x, 1, { reverse = true }) },
         { [x] = f32{ { 0.5, 2 }, { 0, -1 }, { 3, 1.5 } } }, { x }
end

--- Where two updates meet, TensorFlow's gradient gives both their share, ours the one that stayed: no gradient of TensorFlow's here.
function programs.scattering()
  local x, u = df.placeholder('float32', { 3, 2 }, 'x'), df.placeholder('float32', { 3 }, 'u')
  local y = df.tensor_scatter_update(x * x, df.int32{ { 0, 1 }, { 2, 0 }, { 0, 1 } }, u)
  return { y, df.gradients(df.reduce_sum(y * x), u) }, { [x] = f32{ { 1, 2 }, { 3, 4 }, { 5, 6 } }, [u] = f32{ 7, 8, 9 } }, {}
end

function programs.sparse_adam()
  local x = df.placeholder('float32', { 3, 2 }, 'x')
  local w, m, v = df.Variable({ { 1.0, 2 }, { 3, 4 }, { 5, 6 } }), df.Variable(df.zeros{ 3, 2 }), df.Variable(df.zeros{ 3, 2 })
  local step = df.sparse_apply_adam(w, m, v, 0.9, 0.999, 0.1, 0.9, 0.999, 1e-8, x, df.int32{ 0, 2, 0 })
  return { df.control_dependencies({ step }, function() return w:value() end) }, { [x] = f32{ { 1, 2 }, { 3, 4 }, { 5, 6 } } }, {}
end

function programs.list_concat()
  local x = df.placeholder('float32', { 3, 2 }, 'x')
  local all = registry.op('TensorListConcat', { registry.op('TensorListFromTensor', { x, df.int32{ 2 } }, {}) }, { element_dtype = 'float32' })
  return { all }, { [x] = f32{ { 1, 2 }, { 3, 4 }, { 5, 6 } } }, {}
end

function programs.list_gather()
  local x = df.placeholder('float32', { 3, 2 }, 'x')
  local list = registry.op('TensorListFromTensor', { x * x, df.int32{ 2 } }, {})
  local rows = registry.op('TensorListGather', { list, df.int32{ 2, 0, 2 }, df.int32{ 2 } }, { element_dtype = 'float32' })
  return { df.reduce_sum(rows * df.constant({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, 'float32')), df.gradients(df.reduce_sum(rows * rows), x) },
         { [x] = f32{ { 1, 2 }, { 3, 4 }, { 5, 6 } } }, {}
end

function programs.cond()
  local p, x = df.placeholder('bool', {}, 'p'), df.placeholder('float32', { 3 }, 'x')
  local a, b = df.cond(p, function() return x * 2 + x, df.float32(3) end, function() return df.tanh(x), x:reduce_sum() end)
  return { a * b, b }, { [p] = true, [x] = f32{ 1, 2, 3 } }, { x }
end

function programs.nested_loops()
  local x = df.placeholder('float32', { 3 }, 'x')
  local i, y = df.while_loop(function(i) return i:lt(3) end, function(i, y)
    local _, z = df.while_loop(function(j) return j:le(i) end, function(j, z)
      local odd = df.equal(j % 2, 1)
      return j + 1, df.cond(odd, function() return z * x end, function() return z + 0.5 * x end)
    end, { df.int32(0), y })
    return i + 1, z:tanh()
  end, { df.int32(0), x })
  return { y, i }, { [x] = f32{ 0.1, 0.2, -0.3 } }, { x }
end

--- A cond in a cond, once as a whole branch and once beside other values: a context has the predicates of those inside.
function programs.conds_in_a_cond_in_a_loop()
  local x = df.placeholder('float32', { 2 }, 'x')
  local _, y = df.while_loop(function(i) return i:lt(4) end, function(i, y)
    local sum = y:reduce_sum()
    return i + 1, df.cond(sum:gt(1), function()
      local inner = df.cond(df.equal(i % 2, 0), function() return y * 0.5 end, function()
        return df.cond(sum:gt(4), function() return y - x end, function() return y + x * x end)
      end)
      return inner * x
    end, function() return df.cond(i:gt(1), function() return y + x end, function() return y * 2 + x end) end)
  end, { df.int32(0), x })
  return { y }, { [x] = f32{ 1.5, 0.25 } }, { x }
end

--- Indices of int64: the gradients have shapes of int32 beside them.
function programs.index_dtypes()
  local x = df.placeholder('float32', { 3, 4 }, 'x')
  local a = df.gather_nd(x, df.int64{ { 0, 1 }, { 2, 3 } })
  local b = df.slice(x, df.int64{ 1, 0 }, df.int64{ 2, 2 })
  local c = df.strided_slice(x, df.int64{ 0, 3 }, df.int64{ 3, 0 }, df.int64{ 2, -1 })
  return { df.reduce_sum(a * a) + df.reduce_sum(b * b) + df.reduce_sum(c * c) },
         { [x] = f32{ { 1, 2, 3, 4 }, { 4, 3, 2, 1 }, { 0, 1, -1, 2 } } }, { x }
end

function programs.einsum_of_three()
  local x = df.placeholder('float32', { 2, 3 }, 'x')
  local y, z = df.constant({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, 'float32'), df.constant({ { 1, -1 }, { 0.5, 2 } }, 'float32')
  return { df.einsum('ij,jk,kl->il', x, y, z), df.einsum('ij,jk,ki->', x, y, z), df.einsum('ij,jk,kl,ij->jl', x, y, z, x),
           df.einsum('ij,jk,kl', x, y, z), df.einsum('ij, jk, Lk -> iL', x, y, z), df.einsum('ki,lk,ij', y, x, z), df.einsum('ij,kj', z, y),
           df.einsum('...j,kj', z, y) },
         { [x] = f32{ { 0.1, -0.2, 0.3 }, { 0.4, 0.2, 0.3 } } }, { x }
end

function programs.arrays()
  local x = df.placeholder('float32', { 5, 2 }, 'x')
  local ta = df.TensorArray('float32', 5):unstack(x)
  local _, out, acc = df.while_loop(function(i) return i:lt(5) end, function(i, out, acc)
    local a = acc * 0.5 + ta:read(i):tanh()
    return i + 1, out:write(i, a), a
  end, { df.int32(0), df.TensorArray('float32', 5), df.constant({ 0, 0 }, 'float32') })
  return { out:stack(), acc, out:size(), out:gather{ 3, 1 } }, { [x] = f32{ { 0.1, 0.2 }, { 0.3, 0.4 }, { 0.5, 0.6 }, { 0.7, 0.8 }, { 0.1, 0.2 } } }, { x }
end

function programs.arrays_in_branches()
  local x = df.placeholder('float32', { 5 }, 'x')
  local ta = df.TensorArray('float32', 5):unstack(x)
  local _, out = df.while_loop(function(i) return i:lt(5) end, function(i, out)
    local v = ta:read(i)
    return i + 1, df.cond(v:gt(2), function() return out:write(i, v * v) end, function() return out:write(i, v + 1) end)
  end, { df.int32(0), df.TensorArray('float32', 5) })
  return { out:stack() }, { [x] = f32{ 1, 2, 3, 4, -5 } }, { x }
end

function programs.another_array_each_time()
  local x = df.placeholder('float32', { 2 }, 'x')
  local _, out = df.while_loop(function(i) return i:lt(3) end, function(i, out)
    return i + 1, df.TensorArray('float32', 2):unstack(out:stack() * 2)
  end, { df.int32(0), df.TensorArray('float32', 2):unstack(x) })
  return { out:stack() }, { [x] = f32{ 1, 2 } }, {}
end

function programs.pieces()
  local x = df.placeholder('float32', { 4, 2 }, 'x')
  local ta = df.TensorArray('float32', 2, { element_shape = { -1, 2 } }):split(x, { 1, 3 })
  local joined = df.TensorArray('float32', 2, { element_shape = { -1, 2 } }):write(0, ta:read(1) * 2):write(1, ta:read(0)):concat()
  return { joined }, { [x] = f32{ { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } } }, { x }
end

--- An LSTM cell by hand over the rows of x, states in a loop, outputs in an array.
function programs.lstm()
  local x = df.placeholder('float32', { 4, 1, 2 }, 'x')
  local w = df.constant({ { 0.1, -0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8 }, { 0.2, 0.1, -0.3, 0.5, 0.4, -0.1, 0.3, 0.2 },
                          { -0.3, 0.3, 0.2, 0.1, 0.5, 0.2, -0.6, 0.1 }, { 0.4, -0.4, 0.1, 0.2, 0.3, -0.7, 0.1, 0.6 } }, 'float32')
  local rows, zero = df.TensorArray('float32', 4):unstack(x), df.constant({ { 0, 0 } }, 'float32')
  local _, h, c, out = df.while_loop(function(t) return t:lt(4) end, function(t, h, c, out)
    local gates = df.split(df.matmul(df.concat({ rows:read(t), h }, 1), w), 4, { axis = 1 })
    c = c * df.sigmoid(gates[1] + 1) + df.sigmoid(gates[2]) * df.tanh(gates[3])
    h = df.tanh(c) * df.sigmoid(gates[4])
    return t + 1, h, c, out:write(t, h)
  end, { df.int32(0), zero, zero, df.TensorArray('float32', 4) })
  return { out:stack(), h, c }, { [x] = f32{ { { 0.5, -1 } }, { { 0.2, 0.3 } }, { { -0.7, 0.1 } }, { { 1, 1 } } } }, { x }
end

function programs.variables()
  local v, w = df.Variable({ 1, 2, 3 }, { name = 'v', dtype = 'float32' }), df.Variable(2, { name = 'w', dtype = 'float32' })
  return { w * 1, v:assign_add{ 1, 1, 1 } }, {}, {}
end

function programs.assigned_in_a_loop()
  local v = df.Variable(1, { name = 'v', dtype = 'float32' })
  local i, s = df.while_loop(function(i) return i:lt(4) end, function(i, s) return i + 1, s + v:assign_add(1) end,
                             { df.int32(0), df.float32(0) })
  return { s, i }, {}, {}
end

--- ApproximateEqual broadcasts nothing there. clip_by_value, the function, gives NaN for bounds that are NaN, and ClipByValue, the op, passes over them.
function programs.bounds()
  local x, y = df.placeholder('float32', { -1, 3 }, 'x'), df.placeholder('float32', { 3 }, 'y')
  local none = df.constant(0 / 0)
  return { df.clip_by_value(x, -0.5, 0.5), df.approximate_equal(x, y, { tolerance = 0.25 }), df.approximate_equal(x, x),
           df.cast(df.is_nan(df.clip_by_value(x, none, 0.5)), 'float32'), df.cast(df.is_nan(df.clip_by_value(x, -0.5, none)), 'float32') },
         { [x] = f32{ { 0.5, -1, 3 }, { 0.25, 0.1, -0.2 } }, [y] = f32{ 0.25, -1.5, 3 } }, { x }
end

function programs.bounds_passed_over()
  local x, y = df.placeholder('float32', { -1, 3 }, 'x'), df.placeholder('float32', { 3 }, 'y')
  local none = df.constant(0 / 0)
  local function clip(low, high) return registry.op('ClipByValue', { x, low, high }) end
  return { clip(none, df.constant(0.5)), clip(df.constant(-0.5), none), clip(df.constant(-0.5), x * none), clip(y * none, y),
           clip(y, df.constant{ 0 / 0, 0.25, 1.0 }) },
         { [x] = f32{ { 0.5, -1, 3 }, { 0.25, 0.1, -0.2 } }, [y] = f32{ 0.25, -1.5, 3 } }, { x }
end

--- A training step through the gradient of a loop whose iterations are computed again: W after it.
function programs.training()
  local x = df.placeholder('float32', { 4, 2, 3 }, 'x')
  local W = df.Variable(df.reshape(df.cast(df.range(0, 15), 'float32'), { 5, 3 }) * 0.1 - 0.7, { name = 'W' })
  local rows = df.TensorArray('float32', 4):unstack(x)
  local _, h = df.while_loop(function(t) return t:lt(4) end, function(t, h)
    return t + 1, df.tanh(df.matmul(df.concat({ rows:read(t), h:slice({ 0, 0 }, { 2, 2 }) }, 1), W))
  end, { df.int32(0), df.fill({ 2, 3 }, df.float32(0)) }, { save = 'recompute' })
  local loss = df.reduce_mean(df.sparse_softmax_cross_entropy_with_logits(h, df.constant({ 0, 1 }, 'int32')))
  local step = df.train.Adam{ learning_rate = 0.1, clip_norm = 5 }:minimize(loss)
  local after = df.control_dependencies({ step }, function() return df.identity(W:value()) end)
  return { after, loss }, { [x] = df.tensor({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 0, 1, 0, 1, 2, 4, 5, 6, 7, 8, 9, 1, 0, 1 }, 'float32', { 4, 2, 3 }) }, {}
end

function programs.functions()
  local x = df.placeholder('float32', { 3 }, 'x')
  local checked = df.assert(df.reduce_all(x:lt(100)), { x }, { message = 'too large' })
  local y = df.control_dependencies({ checked }, function() return df.identity(x) end)
  local third = df.switch_case(df.int32(1), { function() return y end, function() return y * 2 end, function() return y * 3 end })
  return { df.map_fn(function(v) return v * v end, y) + df.scan(function(a, v) return a * v end, x) + third },
         { [x] = f32{ 1, 2, 3 } }, { x }
end

--- A gradient of ours in the file whose loops TensorFlow differentiates, and an op whose gradient there needs static shapes.
function programs.beside_our_gradient()
  local x = df.placeholder('float32', { 3 }, 'x')
  local _, rows = df.while_loop(function(i) return i:lt(2) end, function(i, ta)
    return i + 1, ta:write(i, x * df.cast(i + 1, 'float32'))
  end, { df.int32(0), df.TensorArray('float32', 2) })
  local _, y = df.while_loop(function(i) return i:lt(2) end, function(i, y)
    return i + 1, df.atan2(rows:read(i) + y, df.square(y) + 0.3)
  end, { df.int32(0), x })
  return { y, df.gradients(y, x) }, { [x] = f32{ 0.4, -0.7, 0.3 } }, { x }
end

--- Captured values, two results, effects, and loops of primitives in the body of what is called twice.
function programs.calls()
  local x, w = df.placeholder('float32', {}, 'x'), df.Variable(2, { name = 'w', dtype = 'float32' })
  local k, ta = x * 3, df.TensorArray('float32', 3):unstack{ 1.5, -2, 0.5 }
  local inner = df.func('inner', { 'float32' }, function(v)
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, a)
      return i + 1, df.sin(a * v) * k + ta:read(i)
    end, { df.int32(0), v })
    return y, df.cond(v:gt(1), function() return v * w end, function() return v - k end)
  end)
  local outer = df.func('outer', { 'float32' }, function(v)
    local a, b = inner(v)
    local c, d = inner(b)
    w:assign_add(1)
    return a + c * d
  end)
  local y = outer(x)
  return { y, df.gradients(y, x) }, { [x] = 1.25 }, {}
end

--- Nodes with the names that arguments would have.
function programs.names_of_arguments()
  local x, y = df.placeholder('float32', {}, 'arg_0'), df.placeholder('float32', {}, 'f0_0_arg_0')
  local f = df.func('f', { 'float32', 'float32' }, function(v, w) return df.sin(v) * w end)
  return { f(x, y), f(y, x) }, { [x] = 1.25, [y] = -2 }, {}
end

--- Functions that call themselves and each other, twice in a branch and once a trip of a loop, with their gradients.
function programs.recursion()
  local x = df.placeholder('float32', {}, 'x')
  local tree, odd, even, loop
  tree = df.func('tree', { 'float32' }, function(v)
    return df.cond(v:lt(0.3), function() return df.sin(v) end, function() return tree(v * 0.5) * tree(v * 0.4) + v end)
  end, { returns = { 'float32' } })
  odd = df.func('odd', { 'float32' }, function(v)
    return df.cond(v:lt(0.1), function() return v * v end, function() return even(v - 0.5) * v end)
  end, { returns = { 'float32' } })
  even = df.func('even', { 'float32' }, function(v)
    return df.cond(v:lt(0.1), function() return v * 3 end, function() return odd(v - 0.25) + v * v end)
  end, { returns = { 'float32' } })
  loop = df.func('loop', { 'float32' }, function(v)
    return df.cond(v:lt(0.2), function() return v end, function()
      local _, s = df.while_loop(function(i) return i:lt(2) end, function(i, s)
        return i + 1, s + loop(v * 0.3) * df.cast(i + 1, 'float32')
      end, { df.int32(0), df.float32(0) })
      return s * v
    end)
  end, { returns = { 'float32' }, result_shapes = { {} } })
  local fetches = { tree(x), odd(x), loop(x) }
  for i = 1, 3 do fetches[i + 3] = df.gradients(fetches[i], x) end
  return fetches, { [x] = 1.75 }, {}
end

--- Calls once a trip and in branches: what gradients need of each call lies in arrays.
function programs.calls_in_loops()
  local x = df.placeholder('float32', {}, 'x')
  local f = df.func('f', { 'float32' }, function(v) return df.sin(v) * v end)
  local _, y = df.while_loop(function(i) return i:lt(4) end, function(i, a)
    return i + 1, df.cond(a:gt(0.5), function() return f(a) * x end, function() return f(a + x) end)
  end, { df.int32(0), x })
  local z = df.reduce_sum(df.map_fn(function(e) return f(e) end, df.stack{ x, x * 2 }))
  return { y, z, df.gradients(y, x), df.gradients(z, x) }, { [x] = 1.75 }, {}
end

function programs.custom_gradient()
  local x = df.placeholder('float32', { 3 }, 'x')
  local twice = df.custom_gradient(function(v) return v * 2, function(dy) return dy * 2 end end)
  local a, b = df.unpack(df.dynamic_partition(x, { 0, 1, 0 }, { num_partitions = 2 }))
  return { twice(x), df.dynamic_stitch({ { 0, 2 }, { 1 } }, { a, b }) }, { [x] = f32{ 1, 2, 3 } }, { x }
end

-- Trained here: the file holds the values of the session, and trains on.
for name, build in pairs(require 'spec.exchange.trained_models') do
  programs['trained_' .. name] = function()
    local m, fetches = build(), {}
    for _, y in pairs(m.outputs) do fetches[#fetches + 1] = y end
    table.sort(fetches, function(a, b) return a.name < b.name end)
    return fetches, m.feeds, {}, m
  end
end

for _, seed in ipairs{ 2, 10, 13, 20, 23, 24, 36, 53 } do
  programs['random_' .. seed] = function()
    local y, xs = random_program.build(df, random_program.make(seed, 3))
    return { y }, { [xs[1]] = 0.7, [xs[2]] = -0.4, [xs[3]] = 0.3 }, xs
  end
end

local names = {}
for name in pairs(programs) do names[#names + 1] = name end
table.sort(names)

-- ---- running them -------------------------------------------------------------------------------------------------------

local function tensor_name(x) return x.name:find(':') and x.name or x.name .. ':0' end

local function as_tensor(v, dtype) return df.type(v) == 'tensor' and v or df.tensor(v, dtype) end

--- Builds a program and writes its files. What it gives here, and what a reading of the files gives.
local function export(name)
  df.reset()
  local fetches, feeds, by, trained = programs[name]()
  trained = trained or {}
  local gradients = #by > 0 and df.gradients(fetches[1], by, { unconnected = 'zero' }) or {}
  local all = { unpack(fetches) }
  for i = 1, #by do all[#all + 1] = gradients[i] end
  local base, s, step = folder .. '/' .. name, trained.session, trained.step
  local written = { unpack(all) }
  written[#written + 1] = step
  df.export_graph_def(base .. '.pb', { outputs = written, session = s })
  df.export_graph_def(base .. '.pbtxt', { outputs = written, session = s })
  df.export_graph_def(base .. '.meta', { outputs = step and written or fetches, session = s })
  if step then s:run(step, feeds) end
  local values
  if s then values = s:run(all, feeds) else values = df.run(all, feeds) end
  return { base = base, values = values, all = all, fetches = #fetches, feeds = feeds,
           by = by, step = step and step.name }
end

--- What spec/export_check.py reads beside the graphs.
local function describe_program(p)
  local lines, arrays = {}, { none = df.tensor(0, 'int32') }
  for i, x in ipairs(p.all) do lines[i] = (i <= p.fetches and 'fetch ' or 'gradient ') .. tensor_name(x) end
  for x, v in pairs(p.feeds) do
    local key = 'feed_' .. x.name:gsub(':.*', '')
    arrays[key] = as_tensor(v, x.dtype)
    lines[#lines + 1] = 'feed ' .. tensor_name(x) .. ' ' .. key
  end
  for _, x in ipairs(p.by) do lines[#lines + 1] = 'by ' .. tensor_name(x) end
  if p.step then lines[#lines + 1] = 'step ' .. p.step end
  df.save_npz(p.base .. '.npz', arrays)
  local file = assert(io.open(p.base .. '.txt', 'w'))
  file:write(table.concat(lines, '\n'), '\n')
  file:close()
end

local function run_again(p, path, count)
  local g = df.import_graph_def(path)
  local s, fetches, feeds = df.Session{ graph = g }, {}, {}
  for i = 1, count do fetches[i] = g:output(tensor_name(p.all[i])) end
  for x, v in pairs(p.feeds) do
    local ok, input = pcall(g.output, g, tensor_name(x))
    if ok then feeds[input] = v end
  end
  if pcall(g.op, g, 'init') then s:run(g:op('init')) end
  if p.step then s:run(g:op(p.step), feeds) end
  local values = s:run(fetches, feeds)
  s:close()
  return values
end

local function flat(v)
  if type(v) ~= 'table' then return { v } end
  if df.type(v) == 'tensor' then return flat(v.rank == 0 and v:item() or v:totable()) end
  local out = {}
  for _, x in ipairs(v) do for _, y in ipairs(flat(x)) do out[#out + 1] = y end end
  return out
end

local function compare(p, found)
  assert(found, 'TensorFlow has not been asked')
  assert(not found.failed, found.failed)
  for i, v in ipairs(p.values) do
    support.near(flat(v), { unpack(found.values[i]) }, { rtol = 1e-4, atol = 1e-5 })
    if df.type(v) == 'tensor' then assert.same(found.values[i].shape, v.shape) end
  end
  for i = 1, #p.by do support.near(flat(p.values[p.fetches + i]), { unpack(found.slopes[i]) }, { rtol = 1e-4, atol = 1e-5 }) end
end

describe('export_graph_def', function()
  setup(function() os.execute('mkdir -p ' .. folder) end)
  teardown(function() if not keep then os.execute('rm -rf ' .. folder) end end)

  for _, name in ipairs(names) do
    it(('writes what reads back the same, and what TensorFlow computed alike: %s'):format(name), function()
      local p = export(name)
      describe_program(p)
      for _, path in ipairs{ '.pb', '.pbtxt' } do
        local again = run_again(p, p.base .. path, #p.all)
        for i, v in ipairs(p.values) do support.near(flat(again[i]), flat(v), { rtol = 1e-5, atol = 1e-6 }) end
      end
      run_again(p, p.base .. '.meta', p.fetches)
      if not keep then compare(p, recorded[name]) end
    end)
  end

  it('gives names that become one another ones of their own, however many there are', function()
    local x, parts = df.placeholder('float32', {}, 'x'), {}
    for i = 1, 600 do
      for _, c in ipairs{ '?', '!', '_' } do parts[#parts + 1] = df.neg(x, { name = 'n' .. c .. i }) end
    end
    local path, seen, n = os.tmpname(), {}, 0
    df.export_graph_def(path, { outputs = { df.identity(df.add_n(parts), { name = 'y' }) } })
    local h = df.import_graph_def(path)
    os.remove(path)
    for _, o in ipairs(h:ops()) do
      if o.type == 'Neg' then
        assert.matches('^n_%d+[_%d]*$', o.name)
        assert.is_nil(seen[o.name])
        seen[o.name], n = true, n + 1
      end
    end
    assert.equal(1800, n)
    assert.equal(-3600, df.Session{ graph = h }:run(h:output 'y:0', { [h:output 'x:0'] = 2 }))
  end)

  it('is run and differentiated by TensorFlow with equal results', function()
    if not python or os.execute(python .. ' -c "import tensorflow" 2>/dev/null') ~= (_VERSION == 'Lua 5.1' and 0 or true) then
      pending('PYTHON names no Python that has TensorFlow')
      return
    end
    local all = {}
    for _, name in ipairs(names) do all[name] = export(name) describe_program(all[name]) end
    local pipe = assert(io.popen(python .. ' spec/export_check.py ' .. folder .. ' 2>/dev/null'))
    local found = assert((loadstring or load)(pipe:read('*a')))()
    pipe:close()
    for _, name in ipairs(names) do compare(all[name], found[name]) end
  end)

  it('writes random programs and their gradients so that they read back the same', function()
    for seed = 300, 360 do
      df.reset()
      local y, xs = random_program.build(df, random_program.make(seed, 3))
      local g = df.gradients(y, xs, { unconnected = 'zero' })
      local p = { all = { y, g[1], g[2], g[3] }, feeds = { [xs[1]] = 0.7, [xs[2]] = -0.4, [xs[3]] = 0.3 } }
      local path = folder .. '/random.pb'
      df.export_graph_def(path, { outputs = p.all })
      local values, again = df.run(p.all, p.feeds), run_again(p, path, 4)
      for i = 1, 4 do support.near(again[i], values[i], { rtol = 1e-12, atol = 1e-12 }) end
    end
  end)

  it('has a loop as a whole, whichever of its variables is asked for', function()
    local x = df.placeholder('float32', {}, 'x')
    local vars = { df.while_loop(function(a) return a:lt(9) end, function(a, b, c) return a + b, b + c, c + 1 end, { x, x + 1, x + 2 }) }
    for number = 1, 3 do
      local path = os.tmpname() .. '.pbtxt'
      df.export_graph_def(path, { outputs = { vars[number] } })
      local count = {}
      for op in assert(shell.read(path)):gmatch 'op: "(%w+)"' do count[op] = (count[op] or 0) + 1 end
      os.remove(path)
      assert.same({ 3, 3, 3, 3, 3 }, { count.Enter, count.Merge, count.Switch, count.NextIteration, count.Exit })
    end
  end)

  it('writes contexts that make an imported loop differentiable', function()
    local x = df.placeholder('float32', {}, 'x')
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * x end, { df.int32(0), df.float32(1) })
    local path = folder .. '/contexts.pb'
    df.export_graph_def(path, { outputs = y, with_context = true })
    for _, file in ipairs{ path, path .. '.meta' } do
      local g = df.import_graph_def(file)
      local into = g:output('x:0')
      local slope = g:as_default(function() return df.gradients(g:output(tensor_name(y)), into) end)
      local s = df.Session{ graph = g }
      support.near(s:run(slope, { [into] = 2 }), 12)
    end
  end)

  it('lists in one error what TensorFlow has no words for, with the Lua lines', function()
    local x = df.placeholder('float32', nil, 'x')
    local slope = df.gradients(df.cumprod(x), x)
    local err = support.error_of(df.export_graph_def, folder .. '/no.pb', { outputs = slope })
    assert.equal('unimplemented', err.code)
    assert.matches('LinearRecurrence', err.message)
    assert.matches('export_spec.lua:%d+', err.message)
  end)

  it('writes random programs that call functions so that they read back the same', function()
    for seed = 30, 60 do
      df.reset()
      local y, xs = random_program.build(df, random_program.make(seed, 3, true))
      local g = df.gradients(y, xs, { unconnected = 'zero' })
      local p = { all = { y, g[1], g[2], g[3] }, feeds = { [xs[1]] = 0.7, [xs[2]] = -0.4, [xs[3]] = 0.3 } }
      local path, s = folder .. '/random.pb', df.Session()
      df.export_graph_def(path, { outputs = p.all, session = s })
      local values, again = s:run(p.all, p.feeds), run_again(p, path, 4)
      for i = 1, 4 do support.near(again[i], values[i], { rtol = 1e-6, atol = 1e-6 }) end
    end
  end)

  it('refuses second derivatives of functions, with the Lua line', function()
    local x = df.placeholder('float32', {})
    local twice = df.func('twice', { 'float32' }, function(v) return df.sin(v) * v end)
    local err = support.error_of(df.export_graph_def, folder .. '/no.pb', { outputs = { df.gradients(df.gradients(twice(x), x), x) } })
    assert.equal('unimplemented', err.code)
    assert.matches('second derivative', err.message)
    assert.matches('export_spec.lua:%d+', err.message)
  end)

  it('refuses what it numbers the rows of where their number is not known, and writes it for no rows', function()
    local x, at = df.placeholder('float32', { -1 }, 'x'), df.placeholder('int32', { -1 }, 'at')
    for _, y in ipairs{ df.dynamic_stitch({ at }, { x }), df.dynamic_stitch({ df.int32{ 0 }, at }, { df.slice(x, { 0 }, { 1 }), x }) } do
      local message = support.message_of(df.export_graph_def, folder .. '/rows.pb', { outputs = df.gradients(df.reduce_sum(y * y), x) })
      assert.matches('DynamicStitchGrad .-%(.-export_spec.lua:%d+%): its shapes are not known before it runs', message)
    end
    local function last(params, indices) return require('dflow.front.registry').op('GatherNdLast', { params, indices }) end
    for _, indices in ipairs{ df.placeholder('int32', { -1, 1 }), df.placeholder('int32', { 2, -1 }) } do
      local message = support.message_of(df.export_graph_def, folder .. '/rows.pb', { outputs = last(x, indices) })
      assert.matches('GatherNdLast .-%(.-export_spec.lua:%d+%): its shapes are not known before it runs', message)
    end
    local pair = df.placeholder('float32', { 2 }, 'pair')
    local y = df.dynamic_stitch({ df.int32{ 1, 1 }, df.zeros({ 0 }, 'int32') }, { pair, df.zeros{ 0 } })
    local slope, none = df.gradients(df.reduce_sum(y * y), pair), last(x, df.zeros({ 0, 1 }, 'int32'))
    df.export_graph_def(folder .. '/rows.pb', { outputs = { slope, none } })
    local s = df.Session{ graph = df.import_graph_def(folder .. '/rows.pb') }
    local found = s:run({ slope.name, none.name }, { pair = { 3, 4 }, x = { 5, 6 } })
    s:close()
    support.same(found[1], { 0, 8 })
    assert.same({ 0 }, { found[2].shape[1] })
  end)

  it('refuses the second derivative of what goes through arrays, which TensorFlow does not have', function()
    for _, through in ipairs{
      function(x)
        local ta = df.TensorArray('float32', 3):unstack(x)
        return ta:read(0) * ta:read(1) * ta:read(2)
      end,
      function(x) return df.reduce_sum(df.map_fn(function(v) return v * v * v end, x)) end,
      function(x) return df.reduce_sum(df.scan(function(a, v) return a * v end, x)) end,
    } do
      df.reset()
      local x = df.placeholder('float32', { 3 }, 'x')
      local slope = df.gradients(through(x), x)
      df.export_graph_def(folder .. '/once.pb', { outputs = slope })
      local err = support.error_of(df.export_graph_def, folder .. '/twice.pb', { outputs = df.gradients(df.reduce_sum(slope * slope), x) })
      assert.equal('unimplemented', err.code)
      assert.matches('arrays have no gradient of a gradient', err.message, 1, true)
    end
  end)

  it('refuses it where one of several arrays that come by different ways is a gradient\'s (program 183785647)', function()
    local y, xs = random_program.build(df, random_program.make(183785647, 3))
    local slopes = df.gradients(y, xs, { unconnected = 'zero' })
    local err = support.error_of(df.export_graph_def, folder .. '/ways.pb', { outputs = df.gradients(df.sin(slopes[1]), xs, { unconnected = 'zero' }) })
    assert.matches('arrays have no gradient of a gradient', err.message, 1, true)
  end)

  it('writes all of a graph when no outputs are named, its gradients and the results of its conds and loops without readers included', function()
    local x = df.placeholder('float32', {}, 'x')
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * x end, { df.int32(0), df.float32(2) })
    local slope = df.gradients(y, x)
    local z = df.cond(y:gt(1), function() return y * 2 end, function() return y end)
    local path = folder .. '/all.pb'
    df.export_graph_def(path)
    local s = df.Session{ graph = df.import_graph_def(path) }
    support.near(s:run({ s.graph:output(y.name), s.graph:output(slope.name), s.graph:output(z.name) }, { ['x:0'] = 2 }), { 16, 24, 32 })
    s:close()
  end)

  --- A model with a loop, trained a little: the outputs' names, the session, and what they are fed.
  local function trained()
    df.reset()
    local x = df.placeholder('float32', { -1, 2 }, 'x')
    local w = df.Variable({ { 1.0 }, { 2.0 } }, { name = 'w' })
    local b = df.Variable(0.5, { name = 'b', trainable = false })
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * 0.5 + x:matmul(w):reduce_sum() + b end,
                               { df.int32(0), df.float32(0) })
    local loss = df.identity(df.square(y), { name = 'loss' })
    local slope = df.gradients(loss, w)
    local step = df.train.Adam(0.1):minimize(loss, { var_list = { w } })
    local s = df.Session{}
    for _ = 1, 3 do s:run(step, { [x] = { { 1, 2 } } }) end
    return { loss = loss.name, slope = slope.name, step = step.name }, s, s:run({ loss, slope }, { [x] = { { 1, 2 } } })
  end

  local function run_again(path, names)
    local s = df.Session{ graph = df.import_graph_def(path) }
    if pcall(s.graph.op, s.graph, 'init') then s:run(s.graph:op 'init') end
    local r = s:run({ s.graph:output(names.loss), s.graph:output(names.slope) }, { ['x:0'] = { { 1, 2 } } })
    return r, s
  end

  it('lets variables begin with their values in a session', function()
    local names, trained_session, expected = trained()
    df.export_graph_def(folder .. '/trained.pb', { session = trained_session })
    local r, s = run_again(folder .. '/trained.pb', names)
    support.near(r[1], expected[1])
    support.near(r[2], expected[2]:totable())
    s:run(s.graph:op(names.step), { ['x:0'] = { { 1, 2 } } })          -- and trains on
    trained_session:run(trained_session.graph:op(names.step), { ['x:0'] = { { 1, 2 } } })
    support.near(s:run(s.graph:output(names.loss), { ['x:0'] = { { 1, 2 } } }),
                 trained_session:run(trained_session.graph:output(names.loss), { ['x:0'] = { { 1, 2 } } }))
    assert.matches('a Session is expected', support.message_of(df.export_graph_def, folder .. '/x.pb', { session = 7 }))
  end)

  it('freezes variables to constants, inside loops and gradients too, and leaves out what changes them', function()
    local names, session, expected = trained()
    for _, opts in ipairs{ {}, { outputs = { df.default_graph():output(names.loss), df.default_graph():output(names.slope) } } } do
      opts.session, opts.frozen = session, true
      df.export_graph_def(folder .. '/frozen.pb', opts)
      local r, s = run_again(folder .. '/frozen.pb', names)
      support.near(r[1], expected[1])
      support.near(r[2], expected[2]:totable())
      assert.equal('Const', s.graph:op('w').type)
      for _, op in ipairs(s.graph:ops()) do assert.is_nil(op.type:match('Variable') or op.type:match('^ResourceApply')) end
    end
    local err = support.error_of(df.export_graph_def, folder .. '/x.pb', { outputs = df.default_graph():op(names.step), session = session, frozen = true })
    assert.equal('unimplemented', err.code)
    assert.matches('frozen variables are constants', err.message)
  end)

  it('writes the collections by which TensorFlow finds the variables', function()
    local _, session = trained()
    df.export_graph_def(folder .. '/trained.meta', { session = session })
    local bytes = shell.read(folder .. '/trained.meta')
    for _, word in ipairs{ '\9variables', '\19trainable_variables', 'w/Read/ReadVariableOp:0', 'w/Assign', 'b/Assign' } do
      assert.is_truthy(bytes:find(word, 1, true), word)
    end
    local names = {}
    for i, v in ipairs(df.import_graph_def(folder .. '/trained.meta'):as_default(df.trainable_variables)) do names[i] = v.name end
    assert.same({ 'w' }, names)
  end)

  it('writes several handles in one tensor, and the one that is chosen, as TensorFlow does', function()
    local function node(name, op, inputs, ...)
      local parts = { ('node { name: "%s" op: "%s"'):format(name, op) }
      for input in inputs:gmatch '%S+' do parts[#parts + 1] = ('input: "%s"'):format(input) end
      for _, a in ipairs{ ... } do parts[#parts + 1] = ('attr { key: "%s" value { %s } }'):format(a[1], a[2]) end
      return table.concat(parts, ' ') .. ' }\n'
    end
    local function int(name, v)
      return node(name, 'Const', '', { 'dtype', 'type: DT_INT32' }, { 'value', ('tensor { dtype: DT_INT32 tensor_shape {} int_val: %d }'):format(v) })
    end
    local function queue(name) return node(name, 'FIFOQueueV2', '', { 'component_types', 'list { type: DT_INT32 }' }, { 'shapes', 'list { shape {} }' }) end
    local function put(name, to, v) return node(name, 'QueueEnqueueV2', to .. ' ' .. v, { 'Tcomponents', 'list { type: DT_INT32 }' }) end
    local graph = queue 'p' .. queue 'q' .. int('seven', 7) .. int('zero', 0) .. put('first', 'q', 'seven') .. put('second', 'q', 'seven')
      .. put('third', 'p', 'zero') .. node('which', 'Placeholder', '', { 'dtype', 'type: DT_INT64' }, { 'shape', 'shape {}' })
      .. node('all', 'Pack', 'p q', { 'T', 'type: DT_RESOURCE' }, { 'N', 'i: 2' })
      .. node('one', 'GatherV2', 'all which zero', { 'Tparams', 'type: DT_RESOURCE' }, { 'Tindices', 'type: DT_INT64' }, { 'Taxis', 'type: DT_INT32' })
      .. node('size', 'QueueSizeV2', 'one')
    local function sizes(g)
      local s = df.Session{ graph = g }
      for _, name in ipairs{ 'first', 'second', 'third' } do s:run(g:op(name)) end
      local list = {}
      for i = 0, 1 do list[i + 1] = s:run(g:output 'size', { [g:output 'which'] = df.tensor(i, 'int64') }) end
      s:close()
      return list
    end
    local g = df.import_graph_def(graph)
    assert.same({ 1, 2 }, sizes(g))
    local path = folder .. '/handles.pbtxt'
    df.export_graph_def(path, { outputs = { g:output 'size', g:op 'first', g:op 'second', g:op 'third' } })
    local text = assert(io.open(path)):read '*a'
    local function attributes(op)
      local list = {}
      local body = text:match('op: "' .. op .. '"(.-)\n}')
      for key, value in body:gmatch 'key: "(%w+)"%s*value%s*{%s*([^}]-)%s*}' do list[#list + 1] = key .. ' ' .. value end
      table.sort(list)
      return table.concat(list, ', ')
    end
    assert.equal('N i: 2, T type: DT_RESOURCE', attributes 'Pack')
    assert.equal('Taxis type: DT_INT32, Tindices type: DT_INT64, Tparams type: DT_RESOURCE', attributes 'GatherV2')
    assert.same({ 1, 2 }, sizes(df.import_graph_def(path)))
    df.reset()
  end)

  it('refuses the gradient in a loop of an array from outside, which is one for all iterations there, and of an array of arrays', function()
    local x = df.float64{ 0.5, 1.25 }
    local y = df.checkpoint(function(v) return v * v * v end)(x)
    local grown = df.checkpoint(function(v)
      local _, w = df.while_loop(function(_, w) return w:reduce_sum():lt(20) end, function(i, w) return i + 1, w * v + w end, { df.int32(0), v })
      return w
    end)(x)
    for why, z in pairs{ ['all iterations of a loop share the gradient of an array from outside'] = df.jacobian(y, x),
                         ['arrays of arrays have no gradient'] = df.hessian(grown:reduce_sum(), x) } do
      local err = support.error_of(df.export_graph_def, folder .. '/x.pb', { outputs = z })
      assert.equal('unimplemented', err.code)
      assert.matches(why, err.message, 1, true)
    end
    df.export_graph_def(folder .. '/x.pb', { outputs = { df.identity(df.gradients(y, x), { name = 'slope' }) } })
    support.near(df.Session{ graph = df.import_graph_def(folder .. '/x.pb') }:run 'slope:0', { 0.75, 4.6875 })
  end)

  it('refuses what is no path, no option and no output', function()
    assert.has_error(function() df.export_graph_def(7) end)
    assert.has_error(function() df.export_graph_def('') end)
    assert.has_error(function() df.export_graph_def(folder .. '/x.pb', { output = 1 }) end)
    local x = df.float32(1)
    for told, v in pairs{ ['the number 7'] = 7, ['the string "words"'] = 'words', ['the boolean true'] = true, Tensor = df.tensor{ 1, 2 } } do
      for _, outputs in ipairs{ v, { v }, { x, { v } }, { v, x } } do
        local message = support.message_of(df.export_graph_def, folder .. '/x.pb', { outputs = outputs })
        assert.matches('outputs has ' .. told, message, 1, true)
        assert.matches('an Output, an operation or a Variable is expected', message, 1, true)
      end
    end
    df.reset()
    assert.matches('outputs has ' .. x.name .. ', which belongs to another graph',
                   support.message_of(df.export_graph_def, folder .. '/x.pb', { outputs = { df.float32(2), x } }), 1, true)
    assert.has_error(function() df.export_graph_def('/nowhere/at/all/x.pb', { outputs = df.float32(1) }) end)
    if io.open('/dev/full') then
      local err = support.error_of(df.export_graph_def, '/dev/full', { outputs = df.float32(1) })
      assert.equal('resource_exhausted', err.code)
      assert.matches('cannot write /dev/full', err.message)
    end
  end)
end)
