--- hosted.lua: what TensorFlow's kernels for GPUs keep in the host's memory (TensorFlow 2.15: shapes, 32-bit integers, queues, stacks), asked to run on
-- gpu:0 without soft placement: it runs, and gives what the host gives. Prints what does not, and how many agree. A process of its own, as the driver is
-- chosen when one opens it.
local df = require 'dflow'
local op = require('dflow.front.registry').op
local unpack = table.unpack or unpack

--- What is fed: 32-bit integers, [2, 3], [3], [] and [3], a permutation.
local function inputs()
  local given = { df.tensor({ 5, -3, 0, 7, 2, -8 }, 'int32', { 2, 3 }), df.tensor({ 2, 3, 1 }, 'int32'), df.tensor(2, 'int32'),
                  df.tensor({ 2, 0, 1 }, 'int32') }
  local xs, feeds = {}, {}
  for i, t in ipairs(given) do
    xs[i] = df.placeholder('int32', t.shape)
    feeds[xs[i]] = t
  end
  return xs, feeds
end

--- Ops by the inputs that they take of these.
local calls = {}
local function add(names, make)
  for name in names:gmatch '%S+' do calls[#calls + 1] = { name, function(...) return make(name, ...) end } end
end
add('Abs Neg Sign Square Identity StopGradient DeepCopy Shape Size Rank Where', function(name, x) return op(name, { x }) end)
add('Add AddV2 Sub Mul Div FloorDiv FloorMod Mod TruncateDiv TruncateMod Maximum Minimum SquaredDifference Equal NotEqual Greater GreaterEqual Less LessEqual',
  function(name, x, v) return op(name, { x, v }) end)
add('Pow', function(name, x, v) return op(name, { x, df.abs(v) }) end)
add('Sum Max Min', function(name, x) return op(name, { x, df.int32{ 1 } }) end)
add('AddN Pack ShapeN', function(name, x) return op(name, { { x, x } }) end)
add('BroadcastArgs BroadcastGradientArgs', function(name, x, v) return op(name, { df.shape(x), df.shape(v) }) end)
add('BroadcastTo', function(name, _, v) return op(name, { v, df.int32{ 2, 3 } }) end)
add('ClipByValue', function(name, x, _, n) return op(name, { x, -n, n }) end)
add('Concat', function(name, x) return op(name, { df.int32(0), { x, x } }) end)
add('ConcatV2', function(name, x) return op(name, { { x, x }, df.int32(0) }) end)
add('ConcatOffset', function(name, x) return op(name, { df.int32(0), { df.shape(x), df.shape(x) } }) end)
add('EnsureShape', function(name, x) return op(name, { x }, { shape = { 2, 3 } }) end)
add('ExpandDims', function(name, x) return op(name, { x, df.int32(1) }) end)
add('Fill', function(name, _, v, n) return op(name, { v, n }) end)
add('InvertPermutation', function(name, _, _, _, p) return op(name, { p }), op(name, { df.cast(p, 'int64') }) end)
add('LinSpace', function(name, _, _, n) return op(name, { df.float32(0), df.float32(1), n }) end)
add('Pad', function(name, x) return op(name, { x, df.int32{ { 1, 0 }, { 0, 2 } } }) end)
add('PadV2', function(name, x, _, n) return op(name, { x, df.int32{ { 1, 0 }, { 0, 2 } }, n }) end)
add('ParallelDynamicStitch', function(name, x) return op(name, { { df.int32{ 1, 0 } }, { df.cast(x, 'float32') } }) end)
add('PlaceholderWithDefault', function(name, x) return op(name, { x }, { shape = { 2, 3 } }) end)
add('Range', function(name, _, _, n)
  local function all(dtype) return op(name, { df.cast(0, dtype), df.cast(n, dtype) * 3, df.cast(n, dtype) }) end
  return all 'int32', all 'int64', all 'float32', all 'float64'
end)
add('Reshape', function(name, x, _, n) return op(name, { x, df.stack{ n + 1, n } }) end)
add('Reverse', function(name, x) return op(name, { x, df.constant({ true, false }, 'bool') }) end)
add('ReverseV2', function(name, x) return op(name, { x, df.int32{ 1 } }) end)
add('ScatterNd', function(name, _, v, _, p) return op(name, { df.expand_dims(p, 1), v, df.int32{ 4 } }) end)
add('TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate',
  function(name, _, v, _, p) return op(name, { v, df.expand_dims(p, 1), v * 2 }) end)
add('Slice', function(name, x, _, n) return op(name, { x, df.stack{ n - 1, n - 2 }, df.int32{ 1, 2 } }) end)
add('SplitV', function(name, x) return op(name, { x, df.int32{ 1, 2 }, df.int32(1) }, { num_split = 2 }) end)
add('Squeeze', function(name, x) return op(name, { df.expand_dims(x, 0) }) end)
add('StridedSlice', function(name, x) return op(name, { x, df.int32{ 0, 2 }, df.int32{ 2, 0 }, df.int32{ 1, -1 } }) end)
add('StridedSliceGrad', function(name, x, v)
  return op(name, { df.shape(x), df.int32{ 1, 0 }, df.int32{ 2, 3 }, df.int32{ 1, 1 }, df.expand_dims(v, 0) })
end)
add('Unique', function(name, _, v) return op(name, { df.concat({ v, v }, 0) }) end)
add('Unpack', function(name, x) return op(name, { x }, { num = 2, axis = 0 }) end)
add('StatelessRandomGetKeyCounter', function(name, _, v) return op(name, { df.slice(v, { 0 }, { 2 }) }) end)
add('StatelessRandomGetAlg', function(name) return op(name, {}) end)
add('ReducedShape ReducedCount', function(name, _, v) return op(name, { v, df.int32{ 1 } }) end)
add('VariableShape VarIsInitializedOp', function(name) return op(name, { df.Variable(df.int32{ 1, 2 }).handle }) end)
add('Assert', function(_, x) return df.control_dependencies({ df.assert(df.greater(df.reduce_max(x), 0), { x }) }, function() return df.identity(x) end) end)
add('FIFOQueue FIFOQueueV2', function(name, x, _, n)
  local q = op(name, {}, { component_types = { 'int32' }, shapes = { { 2, 3 } } })
  local put = op('QueueEnqueueV2', { q, { x } })
  return df.control_dependencies({ put }, function()
    local size = op('QueueSizeV2', { q })
    return df.control_dependencies({ size }, function() return op('QueueDequeueV2', { q }, { component_types = { 'int32' } }), size + n end)
  end)
end)
add('Stack StackV2', function(name, x, _, n)
  local old = name == 'Stack' and '' or 'V2'
  local s = op(name, old == '' and {} or { df.int32(4) }, { elem_type = 'int32' })
  local put = op('StackPush' .. old, { s, x })
  return df.control_dependencies({ put }, function() return op('StackPop' .. old, { s }, { elem_type = 'int32' }) + n end)
end)
add('Stage', function(name, x)
  local put = op(name, { { x } }, { dtypes = { 'int32' }, shared_name = 'area' })
  return df.control_dependencies({ put }, function()
    local size = op('StageSize', {}, { dtypes = { 'int32' }, shared_name = 'area' })
    return df.control_dependencies({ size }, function() return op('Unstage', {}, { dtypes = { 'int32' }, shared_name = 'area' }), size end)
  end)
end)
add('OptionalFromValue', function(name, x)
  local o = op(name, { { x } })
  return op('OptionalHasValue', { o }), op('OptionalGetValue', { o }, { output_types = { 'int32' } })
end)

--- The numbers that a call gives there, as text.
local function values(device, make)
  local g = df.Graph()
  return g:as_default(function()
    local xs, feeds = inputs()
    local ys = df.device(device, function() return { make(unpack(xs)) } end)
    local s, out = df.Session{ graph = g, devices = { 'cpu:0', 'gpu:0' } }, {}
    for i, v in ipairs(s:run(ys, feeds)) do out[i] = tostring(v) end
    s:close()
    return table.concat(out, ' ')
  end)
end

local agreeing = 0
for _, call in ipairs(calls) do
  local ok, here = pcall(values, 'cpu:0', call[2])
  local also, there = pcall(values, 'gpu:0', call[2])
  if ok and also and here == there and here ~= '' then agreeing = agreeing + 1
  else print(('%s: %s\n  there: %s'):format(call[1], tostring(here), tostring(there))) end
end
print(('%d of %d agree'):format(agreeing, #calls))
