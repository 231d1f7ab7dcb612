--- A small graph around each op that has a gradient function: what spec/gradient/check_gradients_ops_spec.lua goes through.
--
-- An entry is a function of a builder `b` that gives y and the list of its xs. b.x(shape, low, high) makes a fed float64
-- placeholder, b.op(type, inputs, attrs) a node of a type that has no function of its own.
local df = require 'dflow'
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local support = require 'spec.support'

local M = {}

--- How an input is made, outside of all bodies and branches: each gives what the op is handed, and what the gradient is asked of.
local kinds = {
  fed = function(value, b)
    local p = df.placeholder(value.dtype, value.shape)
    b.feeds[p] = value
    return p
  end,
  dims = function(value, b)              -- of which only the rank is known while building
    local unknown = {}
    for d = 1, #value.shape do unknown[d] = -1 end
    local p = df.placeholder(value.dtype, unknown)
    b.feeds[p] = value
    return p
  end,
  rank = function(value, b)              -- nor that
    local p = df.placeholder(value.dtype)
    b.feeds[p] = value
    return p
  end,
  constant = function(value) return df.constant(value) end,
  variable = function(value) return df.Variable(value) end,
}
kinds.computed = kinds.fed      -- and handed on by an op of the place

--- A builder: its placeholders' feeds are in b.feeds, and what stands for its inputs outside in b.outside, in their order.
-- @param kind  'fed' (the default), also with 'dims' or a 'rank' that are not known, 'constant', 'variable' or 'computed', which is fed
-- and computed with in the body
function M.builder(kind)
  local b = { feeds = {}, seed = 0, outside = {} }
  local function make(shape, low, high, dtype)
    b.seed = b.seed + 1
    local value = support.tensor(shape, low, high, dtype, b.seed)
    local g = df.default_graph().handle
    core.push_top(g)
    local x = kinds[kind or 'fed'](value, b)
    core.pop_top(g)
    b.outside[#b.outside + 1] = x
    return kind == 'computed' and x * 1 or x
  end
  function b.x(shape, low, high) return make(shape, low or 0.3, high or 1.7, 'float64') end
  --- The same of float32, for ops that know no float64.
  function b.single(shape) return make(shape, 0.3, 1.7, 'float32') end
  --- Inputs of a recurrent cell of two units, of which some knows no float64: x, c, h, weights, peepholes, biases.
  function b.cell(columns)
    local function make_one(shape) return make(shape, -0.8, 0.8, 'float32') end
    return { x = make_one{ 2, 3 }, c = make_one{ 2, 2 }, h = make_one{ 2, 2 }, w = make_one{ 5, columns }, v = make_one{ 5, 2 }, p = make_one{ 2 }, b = make_one{ columns } }
  end
  --- A matrix that makes another regular, and a product that is symmetric.
  function b.shift(n) return df.cast(df.eye(n), 'float64') * 3 end
  function b.gram(x) return df.matmul(x, x, { transpose_b = true }) end
  function b.op(kind, inputs, attrs) return (registry.op(kind, inputs, attrs)) end
  function b.list(kind, inputs, attrs) return { registry.op(kind, inputs, attrs) } end
  function b.array(n) return df.TensorArray('float64', n) end
  return b
end

-- By type, the range that elementwise functions of one input, and of two of one shape, are looked at in, as their entries say it.
local unary, binary = {}, {}
for op = 0, core.op_count() - 1 do
  local domain = core.op_about(op, 'domain')
  if domain then
    local info = core.op_info(op)
    local low, high = domain:match('^(%S+) (%S+)$')
    local into = info.inputs:find ' ' and binary or unary
    into[info.type] = { tonumber(low), tonumber(high) }
  end
end

local function one(b, kind, range) local x = b.x({ 2, 3 }, range[1], range[2]) return b.op(kind, { x }), { x } end
local function two(b, kind, range) local x, y = b.x({ 2, 3 }, range[1], range[2]), b.x({ 2, 3 }, range[1], range[2]) return b.op(kind, { x, y }), { x, y } end

--- TensorFlow's batch normalisation of two channels, with the batch's averages or with those given.
local function norm(b, kind, training)
  local x, scale, offset, mean, variance = b.x{ 2, 1, 3, 2 }, b.x{ 2 }, b.x{ 2 }, b.x{ 2 }, b.x{ 2 }
  local y = b.list(kind, { x, scale, offset, mean, variance }, { is_training = training, epsilon = 0.1 })[1]
  return df.square(y), training and { x, scale, offset } or { x, scale, offset, mean, variance }
end

local ops = {
  PlaceholderWithDefault = function(b) local x = b.x{ 2 } return df.placeholder_with_default(x * 2), { x } end,
  IdentityN = function(b) local x, y = b.x{ 2 }, b.x{ 2 } local l = df.identity_n{ x, y } return l[1] * l[2], { x, y } end,
  AssignVariableOp = function(b) local x, w = b.x{ 2 }, df.Variable({ 0.5, 1.5 }, { dtype = 'float64' }) return df.square(w:assign(x)), { x } end,
  AssignAddVariableOp = function(b) local x, w = b.x{ 2 }, df.Variable({ 0.5, 1.5 }, { dtype = 'float64' }) return df.square(w:assign_add(x)), { x, w } end,
  AssignSubVariableOp = function(b) local x, w = b.x{ 2 }, df.Variable({ 0.5, 1.5 }, { dtype = 'float64' }) return df.square(w:assign_sub(x)), { x, w } end,
  ReadVariableOp = function() local w = df.Variable({ 0.5, 1.5 }, { dtype = 'float64' }) return df.square(w:value()), { w } end,
  Print = function(b) local x = b.x{ 2 } return df.print(x, { first_n = 0 }), { x } end,
  Polygamma = function(b) local x = b.x({ 3 }, 1.2, 3) return df.polygamma(df.float64(1), x), { x } end,
  Igamma = function(b) local a, x = b.x({ 3 }, 0.5, 3), b.x({ 3 }, 0.5, 3) return df.igamma(a, x), { a, x } end,
  Igammac = function(b) local a, x = b.x({ 3 }, 0.5, 3), b.x({ 3 }, 0.5, 3) return df.igammac(a, x), { a, x } end,
  Betainc = function(b) local x = b.x({ 3 }, 0.2, 0.8) return df.betainc(df.float64(2.5), df.float64(1.5), x), { x } end,
  Zeta = function(b) local q = b.x({ 3 }, 1.2, 3) return df.zeta(df.float64(2.5), q), { q } end,
  FloorMod = function(b) local x, y = b.x({ 3 }, 2.2, 2.8), b.x({ 3 }, 1.2, 1.9) return df.floormod(x, y), { x, y } end,
  Mod = function(b) local x, y = b.x({ 3 }, 2.2, 2.8), b.x({ 3 }, 1.2, 1.9) return b.op('Mod', { x, y }), { x, y } end,
  Complex = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return df.real(df.complex(x, y)), { x, y } end,
  ComplexAbs = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return df.complex_abs(df.complex(x, y)), { x, y } end,
  Conj = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return df.imag(df.conj(df.complex(x, y))), { x, y } end,
  Imag = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return df.imag(df.complex(x, y)), { x, y } end,
  Real = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return df.real(df.complex(x, y)), { x, y } end,
  Angle = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return b.op('Angle', { df.complex(x, y) }), { x, y } end,
  ResourceGather = function(b)
    local w = df.Variable({ { 0.5 }, { 1.5 } }, { dtype = 'float64' })
    return b.op('ResourceGather', { w, df.int32{ 1, 1 } }, { dtype = 'float64' }), { w }
  end,
  ResourceGatherNd = function(b)
    local w = df.Variable({ { 0.5 }, { 1.5 } }, { dtype = 'float64' })
    return b.op('ResourceGatherNd', { w, df.int32{ { 1, 0 }, { 0, 0 } } }, { dtype = 'float64' }), { w }
  end,
  TruncateMod = function(b) local x, y = b.x({ 3 }, 2.2, 2.8), b.x({ 3 }, 1.2, 1.9) return df.truncatemod(x, y), { x, y } end,
  Maximum = function(b) local x, y = b.x({ 3 }, 1, 2), b.x({ 3 }, 0, 0.5) return df.maximum(x, y) * y, { x, y } end,
  Minimum = function(b) local x, y = b.x({ 3 }, 1, 2), b.x({ 3 }, 0, 0.5) return df.minimum(x, y) * x, { x, y } end,
  Select = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return df.select(df.constant{ true, false }, x, y), { x, y } end,
  SelectV2 = function(b) local x, y = b.x{ 2 }, b.x{} return df.select_v2(df.constant{ true, false }, x, y), { x, y } end,
  ClipByValue = function(b) local x, y = b.x({ 4 }, 0.2, 2), b.x({}, 0.8, 0.9) return b.op('ClipByValue', { x, df.float64(0.1), y }), { x, y } end,
  AddN = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return df.add_n{ x, y, x }, { x, y } end,
  LSTMBlockCell = function(b) local l = b.cell(8) return b.list('LSTMBlockCell', { l.x, l.c, l.h, l.w, l.p, l.p, l.p, l.b })[7], { l.x, l.w } end,
  BlockLSTM = function(b) local l = b.cell(8) return b.list('BlockLSTM', { df.int64(1), df.expand_dims(l.x, 0), l.c, l.h, l.w, l.p, l.p, l.p, l.b })[7], { l.x, l.w } end,
  BlockLSTMV2 = function(b) local l = b.cell(8) return b.list('BlockLSTMV2', { df.int64(1), df.expand_dims(l.x, 0), l.c, l.h, l.w, l.p, l.p, l.p, l.b })[7], { l.x, l.w } end,
  GRUBlockCell = function(b) local l = b.cell(4) return b.list('GRUBlockCell', { l.x, l.h, l.w, l.v, l.b, l.p })[4], { l.x, l.w } end,
  Cast = function(b) local x = b.x{ 2 } return df.cast(x, 'float32'), { x } end,
  FusedBatchNorm = function(b) return norm(b, 'FusedBatchNorm', true) end,
  FusedBatchNormV2 = function(b) return norm(b, 'FusedBatchNormV2', false) end,
  FusedBatchNormV3 = function(b) return norm(b, 'FusedBatchNormV3', true) end,
  Sum = function(b) local x = b.x{ 2, 3 } return df.reduce_sum(x, { axis = 1 }), { x } end,
  Mean = function(b) local x = b.x{ 2, 3 } return df.reduce_mean(x, { axis = 0 }), { x } end,
  Prod = function(b) local x = b.x{ 2, 3 } return df.reduce_prod(x, { axis = 1 }), { x } end,
  Max = function(b) local x = b.x{ 2, 3 } return df.reduce_max(x, { axis = 1 }), { x } end,
  Min = function(b) local x = b.x{ 2, 3 } return df.reduce_min(x, { axis = 1 }), { x } end,
  LogSumExp = function(b) local x = b.x{ 2, 3 } return df.reduce_logsumexp(x, { axis = 1 }), { x } end,
  EuclideanNorm = function(b) local x = b.x{ 2, 3 } return df.reduce_euclidean_norm(x, { axis = 1 }), { x } end,
  Cumsum = function(b) local x = b.x{ 4 } return df.cumsum(x, 0), { x } end,
  Cumprod = function(b) local x = b.x{ 4 } return df.cumprod(x, 0), { x } end,
  LinearRecurrence = function(b) local x, d = b.x{ 4 }, b.x{ 4 } return b.op('LinearRecurrence', { x, d, df.int32(0) }), { x, d } end,
  TopKV2 = function(b) local x = b.x{ 2, 4 } return (df.top_k(x, 2)), { x } end,
  TakeAlong = function(b) local x = b.x{ 2, 3 } return b.op('TakeAlong', { x, df.int32{ { 0, 2 }, { 1, 1 } } }), { x } end,
  PutAlong = function(b) local x = b.x{ 2, 2 } return b.op('PutAlong', { x, df.int32{ { 0, 2 }, { 1, 0 } }, df.int32(3) }), { x } end,
  UnsortedSegmentSum = function(b) local x = b.x{ 3 } return df.unsorted_segment_sum(x, { 1, 0, 1 }, 2), { x } end,
  UnsortedSegmentProd = function(b) local x = b.x{ 3 } return df.unsorted_segment_prod(x, { 1, 0, 1 }, 2), { x } end,
  UnsortedSegmentMax = function(b) local x = b.x{ 3 } return df.unsorted_segment_max(x, { 1, 0, 1 }, 2), { x } end,
  UnsortedSegmentMin = function(b) local x = b.x{ 3 } return df.unsorted_segment_min(x, { 1, 0, 1 }, 2), { x } end,
  SegmentSum = function(b) local x = b.x{ 3 } return df.segment_sum(x, { 0, 0, 1 }), { x } end,
  SegmentGather = function(b) local x = b.x{ 2 } return b.op('SegmentGather', { x, df.int32{ 0, 1, 1 } }), { x } end,
  MatrixSolve = function(b) local x, y = b.x{ 3, 3 }, b.x{ 3, 2 } return df.matrix_solve(x + b.shift(3), y), { x, y } end,
  MatrixTriangularSolve = function(b) local x, y = b.x{ 3, 3 }, b.x{ 3, 2 } return df.matrix_triangular_solve(x, y, { lower = false, adjoint = true }), { x, y } end,
  MatrixInverse = function(b) local x = b.x{ 2, 3, 3 } return df.matrix_inverse(x + b.shift(3)), { x } end,
  MatrixDeterminant = function(b) local x = b.x{ 2, 3, 3 } return df.matrix_determinant(x + b.shift(3)), { x } end,
  LogMatrixDeterminant = function(b) local x = b.x{ 3, 3 } return (select(2, df.log_matrix_determinant(x + b.shift(3)))), { x } end,
  Cholesky = function(b) local x = b.x{ 3, 3 } return df.cholesky(b.gram(x) + b.shift(1)), { x } end,
  Lu = function(b) local x = b.x{ 2, 3, 3 } return (df.lu(x + b.shift(3))), { x } end,
  Qr = function(b) local x = b.x{ 3, 2 } local q, r = df.qr(x + df.float64{ { 2, 0 }, { 0, 1 }, { 1, 1 } }) return df.reduce_sum(q) * r, { x } end,
  Svd = function(b)
    local x = b.x{ 3, 2 }
    local s, u, v = df.svd(x + df.float64{ { 2, 0 }, { 0, 1 }, { 1, 1 } })
    return df.matmul(u * s * s, v, { transpose_b = true }) + df.reduce_sum(df.square(u) * df.float64{ { 1 }, { 2 }, { 3 } }), { x }
  end,
  SelfAdjointEigV2 = function(b)
    local x = b.x{ 3, 3 }
    local e, v = df.self_adjoint_eig(b.gram(x) + df.matrix_diag(df.float64{ 0, 2, 5 }))
    return df.reduce_sum(e * e * e) + df.square(v) * e, { x }
  end,
  TridiagonalSolve = function(b) local d, y = b.x{ 3, 4 }, b.x{ 4, 2 } return df.tridiagonal_solve(d + df.float64{ { 0 }, { 3 }, { 0 } }, y), { d, y } end,
  FFT = function(b) local x, y = b.x{ 3 }, b.x{ 3 } local z = df.fft(df.complex(x, y)) return df.real(z) * df.imag(z), { x, y } end,
  IFFT = function(b) local x, y = b.x{ 4 }, b.x{ 4 } local z = df.ifft(df.complex(x, y)) return df.real(z) * df.imag(z), { x, y } end,
  FFT2D = function(b) local x, y = b.x{ 2, 3 }, b.x{ 2, 3 } local z = df.fft2d(df.complex(x, y)) return df.real(z) * df.imag(z), { x, y } end,
  IFFT2D = function(b) local x, y = b.x{ 2, 3 }, b.x{ 2, 3 } local z = df.ifft2d(df.complex(x, y)) return df.real(z) * df.imag(z), { x, y } end,
  RFFT = function(b) local x = b.x{ 5 } local z = df.rfft(x, { 4 }) return df.real(z) * df.real(z) + df.imag(z), { x } end,
  IRFFT = function(b) local x, y = b.x{ 3 }, b.x{ 3 } return df.square(df.irfft(df.complex(x, y), { 5 })), { x, y } end,
  ScaledDotProductAttention = function(b)
    local q, k, v, bias = b.x({ 2, 3, 2 }), b.x({ 2, 4, 2 }), b.x({ 2, 4, 3 }), b.x({ 3, 4 })
    local y, sums = registry.op('ScaledDotProductAttention', { q, k, v, { bias } }, { causal = true })
    return df.reduce_sum(y * y) + df.reduce_sum(df.sin(sums)), { q, k, v, bias }
  end,
  ScaledDotProductAttentionGrad = function(b)
    local dy, q, k, v = b.x({ 1, 3, 2 }), b.x({ 1, 3, 2 }), b.x({ 1, 4, 2 }), b.x({ 1, 4, 2 })
    local sums, delta, bias = b.x({ 1, 3 }, 1, 2), b.x({ 1, 3 }), b.x({ 3, 4 })
    local dq, dk, dv = registry.op('ScaledDotProductAttentionGrad', { dy, q, k, v, sums, delta, { bias } }, { scale = 0.7 })
    return df.reduce_sum(dq * dq) + df.reduce_sum(df.sin(dk)) + df.reduce_sum(df.cos(dv)), { dy, q, k, v, sums, delta, bias }
  end,
  RFFTGrad = function(b) local x, y = b.x{ 3 }, b.x{ 3 } return b.op('RFFTGrad', { df.complex(x, y), df.int32{ 4 }, df.int32(4) }, { Treal = 'float64' }), { x, y } end,
  IRFFTGrad = function(b) local x = b.x{ 4 } local z = b.op('IRFFTGrad', { x, df.int32{ 4 }, df.int32(3) }, { Tcomplex = 'complex128' }) return df.real(z) + df.imag(z), { x } end,
  Bincount = function(b) local x = b.x{ 3 } return df.bincount(df.int32{ 1, 2, 1 }, 3, x), { x } end,
  SoftmaxCrossEntropyWithLogits = function(b) local x, l = b.x{ 2, 3 }, b.x{ 2, 3 } l = df.softmax(l) return b.op('SoftmaxCrossEntropyWithLogits', { x, l }), { x, l } end,
  SparseSoftmaxCrossEntropyWithLogits = function(b) local x = b.x{ 2, 3 } return b.op('SparseSoftmaxCrossEntropyWithLogits', { x, df.int32{ 2, 0 } }), { x } end,
  BiasAdd = function(b) local x, y = b.x{ 2, 3 }, b.x{ 3 } return df.bias_add(x, y), { x, y } end,
  BiasAddGrad = function(b) local x = b.x{ 2, 3 } return df.bias_add_grad(x), { x } end,
  Reshape = function(b) local x = b.x{ 2, 3 } return df.reshape(x, { 3, 2 }), { x } end,
  ExpandDims = function(b) local x = b.x{ 3 } return df.expand_dims(x, 0), { x } end,
  Squeeze = function(b) local x = b.x{ 1, 3 } return df.squeeze(x), { x } end,
  Transpose = function(b) local x = b.x{ 2, 3 } return df.transpose(x, { 1, 0 }), { x } end,
  ConcatV2 = function(b) local x, y = b.x{ 2, 3 }, b.x{ 1, 3 } return df.concat({ x, y }, 0), { x, y } end,
  Split = function(b) local x = b.x{ 4 } local l = df.split(x, 2) return l[1] * l[2], { x } end,
  SplitV = function(b) local x = b.x{ 4 } local l = df.split(x, { 3, 1 }) return l[1] * l[2], { x } end,
  Pack = function(b) local x, y = b.x{ 3 }, b.x{ 3 } return df.stack{ x, y }, { x, y } end,
  Unpack = function(b) local x = b.x{ 2, 3 } local l = df.unstack(x) return l[1] * l[2], { x } end,
  Slice = function(b) local x = b.x{ 2, 3 } return df.slice(x, { 0, 1 }, { 2, 2 }), { x } end,
  StridedSlice = function(b) local x = b.x{ 5 } return df.strided_slice(x, { 0 }, { 5 }, { 2 }), { x } end,
  StridedSliceGrad = function(b) local x = b.x{ 3 } return b.op('StridedSliceGrad', { df.int32{ 5 }, df.int32{ 0 }, df.int32{ 5 }, df.int32{ 2 }, x }), { x } end,
  Tile = function(b) local x = b.x{ 2, 2 } return df.tile(x, { 2, 1 }), { x } end,
  Pad = function(b) local x = b.x{ 2, 2 } return df.pad(x, { { 1, 0 }, { 0, 2 } }), { x } end,
  PadV2 = function(b) local x = b.x{ 2, 2 } return df.pad(x, { { 1, 0 }, { 0, 2 } }, { constant_values = 3.0 }), { x } end,
  MirrorPad = function(b) local x = b.x{ 3, 3 } return df.pad(x, { { 1, 1 }, { 0, 2 } }, { mode = 'reflect' }), { x } end,
  MirrorPadGrad = function(b) local x = b.x{ 5, 5 } return b.op('MirrorPadGrad', { x, df.int32{ { 1, 1 }, { 0, 2 } } }, { mode = 'REFLECT' }), { x } end,
  ReverseV2 = function(b) local x = b.x{ 3 } return df.reverse(x, { 0 }), { x } end,
  ReverseSequence = function(b) local x = b.x{ 2, 3 } return df.reverse_sequence(x, df.int32{ 2, 3 }, { seq_dim = 1 }), { x } end,
  Roll = function(b) local x = b.x{ 3 } return df.roll(x, df.int32(1), df.int32(0)), { x } end,
  BroadcastTo = function(b) local x = b.x{ 3 } return df.broadcast_to(x, { 2, 3 }), { x } end,
  Fill = function(b) local x = b.x{} return df.fill({ 2, 3 }, x), { x } end,
  Range = function(b) local x = b.x({}, 0.2, 0.4) return df.range(x, df.float64(2.1), df.float64(0.5)), { x } end,
  LinSpace = function(b) local x, y = b.x{}, b.x{} return df.linspace(x, y, 4), { x, y } end,
  Diag = function(b) local x = b.x{ 3 } return df.diag(x), { x } end,
  DiagPart = function(b) local x = b.x{ 3, 3 } return df.diag_part(x), { x } end,
  ResizeNearestNeighbor = function(b) local x = b.x{ 1, 2, 3, 1 } return df.resize_nearest_neighbor(x, { 3, 4 }), { x } end,
  ResizeNearestNeighborGrad = function(b) local x = b.x{ 1, 3, 4, 1 } return b.op('ResizeNearestNeighborGrad', { x, df.int32{ 2, 3 } }), { x } end,
  ResizeBilinear = function(b) local x = b.single{ 1, 2, 3, 1 } return df.resize_bilinear(x, { 3, 4 }, { align_corners = true }), { x } end,
  ResizeBilinearGrad = function(b)
    local x = b.single{ 1, 3, 4, 1 }
    return b.op('ResizeBilinearGrad', { x, df.zeros({ 1, 2, 3, 1 }, 'float32') }), { x }
  end,
  ResizeBicubic = function(b) local x = b.single{ 1, 2, 3, 1 } return df.resize_bicubic(x, { 3, 4 }, { half_pixel_centers = true }), { x } end,
  ResizeBicubicGrad = function(b)
    local x = b.single{ 1, 3, 4, 1 }
    return b.op('ResizeBicubicGrad', { x, df.zeros({ 1, 2, 3, 1 }, 'float32') }), { x }
  end,
  CropAndResize = function(b) local x = b.single{ 1, 3, 3, 1 } return df.crop_and_resize(x, { { 0.1, 0.2, 0.8, 0.9 } }, { 0 }, { 2, 2 }), { x } end,
  CropAndResizeGradImage = function(b)
    local x = b.single{ 1, 2, 2, 1 }
    return b.op('CropAndResizeGradImage', { x, df.float32{ { 0.1, 0.2, 0.8, 0.9 } }, df.int32{ 0 }, df.int32{ 1, 3, 3, 1 } }, { T = 'float32' }), { x }
  end,
  AdjustContrastv2 = function(b) local x = b.single{ 2, 3, 1 } return b.op('AdjustContrastv2', { x, df.float32(1.5) }), { x } end,
  LRN = function(b) local x = b.x{ 1, 1, 2, 4 } return df.lrn(x, { depth_radius = 1, bias = 2, alpha = 0.3, beta = 0.75 }), { x } end,
  MatrixDiagV2 = function(b) local x = b.x{ 2, 3 } return b.op('MatrixDiagV2', { x, df.int32{ 0, 1 }, df.int32(3), df.int32(3), df.float64(0) }), { x } end,
  MatrixDiagV3 = function(b)
    local x = b.x{ 3, 2 }
    return b.op('MatrixDiagV3', { x, df.int32{ -1, 1 }, df.int32(2), df.int32(3), df.float64(0) }, { align = 'LEFT_RIGHT' }), { x }
  end,
  MatrixDiagPartV2 = function(b) local x = b.x{ 2, 3, 3 } return b.op('MatrixDiagPartV2', { x, df.int32(-1), df.float64(0) }), { x } end,
  MatrixDiagPartV3 = function(b) local x = b.x{ 3, 4 } return b.op('MatrixDiagPartV3', { x, df.int32{ -1, 2 }, df.float64(0) }), { x } end,
  MatrixSetDiagV2 = function(b) local x, y = b.x{ 3, 3 }, b.x{ 2, 3 } return b.op('MatrixSetDiagV2', { x, y, df.int32{ 0, 1 } }), { x, y } end,
  MatrixSetDiagV3 = function(b) local x, y = b.x{ 3, 3 }, b.x{ 2 } return b.op('MatrixSetDiagV3', { x, y, df.int32(1) }), { x, y } end,
  MatrixSetDiag = function(b) local x, y = b.x{ 2, 2 }, b.x{ 2 } return df.matrix_set_diag(x, y), { x, y } end,
  CheckNumerics = function(b) local x = b.x{ 3 } return df.check_numerics(x, { message = 'x' }), { x } end,
  GatherV2 = function(b) local x = b.x{ 3, 2 } return df.gather(x, { 2, 0, 2 }), { x } end,
  GatherGrad = function(b) local x = b.x{ 2, 3 } return b.op('GatherGrad', { df.int32{ 2, 4 }, df.int32{ 3, 0, 3 }, df.int32(1), x }), { x } end,
  GatherNd = function(b) local x = b.x{ 3, 2 } return df.gather_nd(x, { { 0, 1 }, { 2, 0 } }), { x } end,
  GatherNdLast = function(b) local x = b.x{ 3, 2 } return b.op('GatherNdLast', { x, df.int32{ { 0, 1 }, { 2, 0 } } }), { x } end,
  ScatterNd = function(b) local x = b.x{ 2 } return df.scatter_nd(df.int32{ { 1 }, { 3 } }, x, df.int32{ 4 }), { x } end,
  TensorScatterUpdate = function(b) local x, y = b.x{ 4 }, b.x{ 2 } return df.tensor_scatter_update(x, df.int32{ { 1 }, { 3 } }, y), { x, y } end,
  TensorScatterAdd = function(b) local x, y = b.x{ 4 }, b.x{ 2 } return df.tensor_scatter_add(x, df.int32{ { 1 }, { 3 } }, y), { x, y } end,
  ParallelConcat = function(b)
    local x, y = b.x{ 1, 3 }, b.x{ 1, 3 }
    return b.op('ParallelConcat', { { x, y } }, { shape = { 2, 3 } }), { x, y }
  end,
  TensorScatterMax = function(b) local x, y = b.x{ 4 }, b.x{ 2 } return b.op('TensorScatterMax', { x, df.int32{ { 1 }, { 3 } }, y }), { x, y } end,
  TensorScatterMin = function(b) local x, y = b.x{ 4 }, b.x{ 2 } return b.op('TensorScatterMin', { x, df.int32{ { 1 }, { 3 } }, y }), { x, y } end,
  TensorScatterSub = function(b) local x, y = b.x{ 4 }, b.x{ 2 } return df.tensor_scatter_sub(x, df.int32{ { 1 }, { 3 } }, y), { x, y } end,
  OneHot = function(b) local x, y = b.x{}, b.x{} return df.one_hot(df.int32{ 0, 2 }, 3, { on_value = x, off_value = y }), { x, y } end,
  DynamicPartition = function(b) local x = b.x{ 4 } local l = df.dynamic_partition(x, df.int32{ 0, 1, 0, 1 }, 2) return l[1] * l[2], { x } end,
  DynamicStitch = function(b) local x, y = b.x{ 2 }, b.x{ 1 } return df.dynamic_stitch({ df.int32{ 0, 2 }, df.int32{ 1 } }, { x, y }), { x, y } end,
  DynamicStitchGrad = function(b) local x = b.x{ 3 } local l = b.op('DynamicStitchGrad', { { df.int32{ 0, 2 }, df.int32{ 1 } }, x }) return df.concat(l, 0), { x } end,
  MatMul = function(b) local x, y = b.x{ 2, 3 }, b.x{ 3, 2 } return df.matmul(x, y), { x, y } end,
  BatchMatMulV2 = function(b) local x, y = b.x{ 2, 2, 3 }, b.x{ 2, 3, 2 } return b.op('BatchMatMulV2', { x, y }), { x, y } end,
  Einsum = function(b) local x, y = b.x{ 2, 3 }, b.x{ 3, 2 } return df.einsum('ij,jk->ik', x, y), { x, y } end,
  MatrixBandPart = function(b) local x = b.x{ 3, 3 } return b.op('MatrixBandPart', { x, df.int32(1), df.int32(0) }), { x } end,
  MatrixDiag = function(b) local x = b.x{ 3 } return df.matrix_diag(x), { x } end,
  MatrixDiagPart = function(b) local x = b.x{ 3, 3 } return df.matrix_diag_part(x), { x } end,
  SumToShape = function(b) local x = b.x{ 2, 3 } return b.op('SumToShape', { x, df.int32{ 3 } }), { x } end,
  TensorArrayWrite = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return b.array(2):write(0, x):write(1, y):stack(), { x, y } end,
  TensorArrayRead = function(b) local x = b.x{ 3, 2 } return b.array(3):unstack(x):read(1), { x } end,
  TensorArrayStack = function(b) local x = b.x{ 3, 2 } return b.array(3):unstack(x):stack(), { x } end,
  TensorArrayGather = function(b) local x = b.x{ 3, 2 } return b.array(3):unstack(x):gather{ 2, 0 }, { x } end,
  TensorArrayUnstack = function(b) local x = b.x{ 3, 2 } return b.array(3):unstack(x):read(1), { x } end,
  TensorArrayScatter = function(b) local x = b.x{ 2, 2 } return b.array(3):scatter({ 2, 0 }, x):read(2), { x } end,
  TensorArrayConcat = function(b) local x = b.x{ 3, 2 } return b.array(2):split(x, { 1, 2 }):concat(), { x } end,
  TensorArrayTake = function(b) local x = b.x{ 3, 2 } return b.op('TensorArrayTake', { b.array(3):unstack(x).handle, 2 }, { dtype = 'float64' }), { x } end,
  TensorArrayConcatParts = function(b)
    local x = b.x{ 3, 2 }
    return b.op('TensorArrayConcatParts', { b.array(2):split(x, { 1, 2 }).handle, df.int64{ 1, 2 } }, { dtype = 'float64' }), { x }
  end,
  TensorArraySplit = function(b) local x = b.x{ 3, 2 } return b.array(2):split(x, { 1, 2 }):read(1), { x } end,
}

-- TensorFlow's older and newer names of some of them, and ops that only its graphs have.
local more = {
  AccumulateNV2 = function(b) local x, y = b.x{ 2 }, b.x{ 2 } return b.op('AccumulateNV2', { { x, y, x } }, { shape = { 2 } }), { x, y } end,
  BatchMatMul = function(b) local x, y = b.x{ 2, 2, 3 }, b.x{ 2, 3, 2 } return b.op('BatchMatMul', { x, y }), { x, y } end,
  BatchMatMulV3 = function(b)
    local x, y = b.x{ 2, 2, 3 }, b.x{ 2, 3, 2 }
    return b.op('BatchMatMulV3', { x, y }, { Tout = 'float64' }), { x, y }
  end,
  BiasAddV1 = function(b) local x, y = b.x{ 2, 3 }, b.x{ 3 } return b.op('BiasAddV1', { x, y }), { x, y } end,
  Concat = function(b) local x, y = b.x{ 2, 3 }, b.x{ 1, 3 } return b.op('Concat', { df.int32(0), { x, y } }), { x, y } end,
  ConjugateTranspose = function(b) local x = b.x{ 2, 3 } return b.op('ConjugateTranspose', { x, df.int32{ 1, 0 } }), { x } end,
  EnsureShape = function(b) local x = b.x{ 2 } return b.op('EnsureShape', { x }, { shape = { 2 } }), { x } end,
  Gather = function(b) local x = b.x{ 3, 2 } return b.op('Gather', { x, df.int32{ 2, 0, 2 } }), { x } end,
  ParallelDynamicStitch = function(b)
    local x, y = b.x{ 2 }, b.x{ 1 }
    return b.op('ParallelDynamicStitch', { { df.int32{ 0, 2 }, df.int32{ 1 } }, { x, y } }), { x, y }
  end,
  Reverse = function(b) local x = b.x{ 3 } return b.op('Reverse', { x, df.constant{ true } }), { x } end,
  SegmentMax = function(b) local x = b.x{ 3 } return df.segment_max(x, { 0, 0, 1 }), { x } end,
  SegmentMean = function(b) local x = b.x{ 3 } return df.segment_mean(x, { 0, 0, 1 }), { x } end,
  SegmentMin = function(b) local x = b.x{ 3 } return df.segment_min(x, { 0, 0, 1 }), { x } end,
  SegmentProd = function(b) local x = b.x{ 3 } return df.segment_prod(x, { 0, 0, 1 }), { x } end,
  BatchToSpace = function(b) local x = b.x{ 4, 1, 1, 1 } return b.op('BatchToSpace', { x, df.int32{ { 0, 0 }, { 0, 1 } } }, { block_size = 2 }), { x } end,
  BatchToSpaceND = function(b) local x = b.x{ 2, 2 } return b.op('BatchToSpaceND', { x, df.int32{ 2 }, df.int32{ { 0, 1 } } }), { x } end,
  SpaceToBatch = function(b) local x = b.x{ 1, 2, 1, 1 } return b.op('SpaceToBatch', { x, df.int32{ { 0, 0 }, { 0, 1 } } }, { block_size = 2 }), { x } end,
  SpaceToBatchND = function(b) local x = b.x{ 1, 3 } return b.op('SpaceToBatchND', { x, df.int32{ 2 }, df.int32{ { 0, 1 } } }), { x } end,
  DepthToSpace = function(b) local x = b.x{ 1, 1, 1, 4 } return b.op('DepthToSpace', { x }, { block_size = 2 }), { x } end,
  SpaceToDepth = function(b) local x = b.x{ 1, 2, 2, 1 } return b.op('SpaceToDepth', { x }, { block_size = 2 }), { x } end,
  Cross = function(b) local x, y = b.x{ 2, 3 }, b.x{ 2, 3 } return df.cross(x, y), { x, y } end,
  Snapshot = function(b) local x = b.x{ 2 } return b.op('Snapshot', { x }), { x } end,
  SparseSegmentMean = function(b) local x = b.x{ 3, 2 } return df.sparse_segment_mean(x, { 2, 0, 1 }, { 0, 0, 1 }), { x } end,
  SparseSegmentSqrtN = function(b) local x = b.x{ 3, 2 } return df.sparse_segment_sqrt_n(x, { 2, 0, 1 }, { 0, 0, 1 }), { x } end,
  SparseSegmentSum = function(b) local x = b.x{ 3, 2 } return df.sparse_segment_sum(x, { 2, 0, 1 }, { 0, 0, 1 }), { x } end,
  SparseToDense = function(b)
    local x, y = b.x{ 2 }, b.x{}
    return b.op('SparseToDense', { df.int32{ { 0 }, { 2 } }, df.int32{ 4 }, x, y }), { x, y }
  end,
  TopK = function(b) local x = b.x{ 2, 4 } return b.list('TopK', { x }, { k = 2 })[1], { x } end,
}
for kind, fn in pairs(more) do ops[kind] = fn end

-- A ragged tensor of rows [v1, v2], [] and [v3], which are pairs where `row` is { 2 }.
local function ragged_values(b, row) return b.x{ 3, row and 2 }, df.int64{ 0, 2, 2, 3 } end
function ops.RaggedGather(b)
  local v, splits = ragged_values(b, true)
  return b.list('RaggedGather', { { splits }, v, df.int32{ 2, 0, 1, 2 } }, { OUTPUT_RAGGED_RANK = 1 })[2], { v }
end
function ops.RaggedTensorToTensor(b)
  local v, splits = ragged_values(b, true)
  local default = b.x{ 2 }
  return b.op('RaggedTensorToTensor', { df.int64{ 3, 3, 2 }, v, default, { splits } },
              { row_partition_types = df.tensor({ 'ROW_SPLITS' }, 'string') }), { v, default }
end
function ops.RaggedTensorToSparse(b)
  local v, splits = ragged_values(b)
  return b.list('RaggedTensorToSparse', { { splits }, v })[2], { v }
end

-- A sparse [2, 3] of three elements, whose values are given.
local whole, places = { 2, 3 }, { { 0, 0 }, { 0, 2 }, { 1, 1 } }
local function sparse(b, kind, more, attrs, at)
  local v = b.x{ 3 }
  return b.list(kind, { df.int64(at or places), v, df.int64(whole), df.unpack(more or {}) }, attrs), v
end
function ops.SparseReorder(b)
  local out, v = sparse(b, 'SparseReorder', nil, nil, { { 1, 1 }, { 0, 2 }, { 0, 0 } })
  return out[2], { v }
end
function ops.SparseReduceSum(b)
  local out, v = sparse(b, 'SparseReduceSum', { df.int32{ 1 } })
  return out[1], { v }
end
function ops.SparseSoftmax(b)
  local v = b.x{ 3 }
  return b.op('SparseSoftmax', { df.int64(places), v, df.int64(whole) }), { v }
end
function ops.SparseSlice(b)
  local out, v = sparse(b, 'SparseSlice', { df.int64{ 0, 1 }, df.int64{ 2, 2 } })
  return out[2], { v }
end
function ops.SparseFillEmptyRows(b)
  local d = b.x{}
  local out, v = sparse(b, 'SparseFillEmptyRows', { d }, nil, { { 1, 0 }, { 1, 1 }, { 1, 2 } })
  return out[2], { v, d }
end
function ops.SparseAdd(b)
  local w = b.x{ 2 }
  local out, v = sparse(b, 'SparseAdd', { df.int64{ { 0, 1 }, { 1, 1 } }, w, df.int64(whole), df.float64(0) })
  return out[2], { v, w }
end
function ops.SparseConcat(b)
  local v, w = b.x{ 3 }, b.x{ 1 }
  return b.list('SparseConcat', { { df.int64(places), df.int64{ { 0, 1 } } }, { v, w }, { df.int64(whole), df.int64{ 2, 2 } } }, { concat_dim = -1 })[2], { v, w }
end
for kind, shape in pairs{ SparseDenseCwiseMul = { 1, 3 }, SparseDenseCwiseDiv = { 3 }, SparseDenseCwiseAdd = { 3 }, SparseTensorDenseAdd = { 2, 3 },
                          SparseTensorDenseMatMul = { 3, 2 } } do
  ops[kind] = function(b)
    local x = b.x(shape, 0.5, 2)
    local out, v = sparse(b, kind, { x })
    return out[1], { v, x }
  end
end

-- Images of 3 x 3 with two channels.
local conv = { strides = { 1, 1, 1, 1 }, padding = 'SAME' }
local pool = { ksize = { 1, 2, 2, 1 }, strides = { 1, 1, 1, 1 }, padding = 'VALID' }
local image, filter = { 1, 3, 3, 2 }, { 2, 2, 2, 2 }
function ops.Conv2D(b) local x, w = b.x(image), b.x(filter) return b.op('Conv2D', { x, w }, conv), { x, w } end
function ops.Conv2DBackpropInput(b)
  local w, d = b.x(filter), b.x(image)
  return b.op('Conv2DBackpropInput', { df.int32(image), w, d }, conv), { w, d }
end
function ops.Conv2DBackpropFilter(b)
  local x, d = b.x(image), b.x(image)
  return b.op('Conv2DBackpropFilter', { x, df.int32(filter), d }, conv), { x, d }
end
function ops.DepthwiseConv2dNative(b) local x, w = b.x(image), b.x(filter) return b.op('DepthwiseConv2dNative', { x, w }, conv), { x, w } end
function ops.DepthwiseConv2dNativeBackpropInput(b)
  local w, d = b.x(filter), b.x{ 1, 3, 3, 4 }
  return b.op('DepthwiseConv2dNativeBackpropInput', { df.int32(image), w, d }, conv), { w, d }
end
function ops.DepthwiseConv2dNativeBackpropFilter(b)
  local x, d = b.x(image), b.x{ 1, 3, 3, 4 }
  return b.op('DepthwiseConv2dNativeBackpropFilter', { x, df.int32(filter), d }, conv), { x, d }
end
function ops.MaxPool(b) local x = b.x(image) return b.op('MaxPool', { x }, pool), { x } end
--- Both hand on what they are given, from or to the pixels that the windows of another image took.
local function pooled(b)
  local seen = df.constant(support.tensor(image, 0.3, 1.7, 'float64', 17))
  return seen, b.op('MaxPool', { seen }, pool)
end
function ops.MaxPoolGrad(b)
  local seen, most = pooled(b)
  local d = b.x(most.shape)
  return df.square(b.op('MaxPoolGrad', { seen, most, d }, pool)), { d }
end
function ops.MaxPoolGradGrad(b)
  local seen, most = pooled(b)
  local d = b.x(image)
  return df.square(b.op('MaxPoolGradGrad', { seen, most, d }, pool)), { d }
end
-- Volumes of 2 x 3 x 2 with two channels.
local conv3 = { strides = { 1, 1, 2, 1, 1 }, padding = 'SAME' }
local pool3 = { ksize = { 1, 2, 2, 1, 1 }, strides = { 1, 1, 1, 1, 1 }, padding = 'SAME' }
local volume, filter3, made3 = { 1, 2, 3, 2, 2 }, { 2, 2, 1, 2, 2 }, { 1, 2, 2, 2, 2 }
function ops.Conv3D(b) local x, w = b.x(volume), b.x(filter3) return b.op('Conv3D', { x, w }, conv3), { x, w } end
function ops.Conv3DBackpropInputV2(b)
  local w, d = b.x(filter3), b.x(made3)
  return b.op('Conv3DBackpropInputV2', { df.int32(volume), w, d }, conv3), { w, d }
end
function ops.Conv3DBackpropFilterV2(b)
  local x, d = b.x(volume), b.x(made3)
  return b.op('Conv3DBackpropFilterV2', { x, df.int32(filter3), d }, conv3), { x, d }
end
function ops.MaxPool3D(b) local x = b.x(volume) return b.op('MaxPool3D', { x }, pool3), { x } end
for _, kind in ipairs{ 'MaxPool3DGrad', 'MaxPool3DGradGrad' } do
  ops[kind] = function(b)
    local seen = df.constant(support.tensor(volume, 0.3, 1.7, 'float64', 17))
    local d = b.x(volume)                                       -- as many places as there are pixels
    return df.square(b.op(kind, { seen, b.op('MaxPool3D', { seen }, pool3), d }, pool3)), { d }
  end
end
function ops.AvgPool3D(b) local x = b.x(volume) return b.op('AvgPool3D', { x }, pool3), { x } end
function ops.AvgPool3DGrad(b) local d = b.x(volume) return b.op('AvgPool3DGrad', { df.int32(volume), d }, pool3), { d } end
local window = { strides = { 1, 1, 1, 1 }, rates = { 1, 1, 1, 1 }, padding = 'SAME' }
function ops.Dilation2D(b) local x, f = b.x(image), b.x{ 2, 2, 2 } return b.op('Dilation2D', { x, f }, window), { x, f } end
local function sampled(b, kind, x, y)
  return registry.op(kind, { x, y, df.float32{ 1.5, 0.6 }, df.float32{ 0.25, -0.5 } }, { kernel_type = 'keyscubic' })
end
function ops.ScaleAndTranslate(b) local x = b.single(image) return sampled(b, 'ScaleAndTranslate', x, df.int32{ 4, 2 }), { x } end
function ops.ScaleAndTranslateGrad(b)
  local d, x = b.single{ 1, 4, 2, 2 }, df.zeros(image, 'float32')
  return sampled(b, 'ScaleAndTranslateGrad', d, x), { d }
end
function ops.ExtractImagePatches(b)
  local x = b.x(image)
  return b.op('ExtractImagePatches', { x }, { ksizes = { 1, 2, 2, 1 }, strides = { 1, 1, 2, 1 }, rates = { 1, 1, 1, 1 }, padding = 'SAME' }), { x }
end
local argmax = { ksize = { 1, 2, 2, 1 }, strides = { 1, 2, 2, 1 }, padding = 'SAME' }
function ops.MaxPoolWithArgmax(b) local x = b.x(image) return b.list('MaxPoolWithArgmax', { x }, argmax)[1], { x } end
function ops.MaxPoolGradWithArgmax(b)
  local x, d = b.x(image), b.x{ 1, 2, 2, 2 }
  return b.op('MaxPoolGradWithArgmax', { x, d, b.list('MaxPoolWithArgmax', { x }, argmax)[2] }, argmax), { d }
end
function ops.AvgPool(b) local x = b.x(image) return b.op('AvgPool', { x }, pool), { x } end
function ops.AvgPoolGrad(b) local d = b.x{ 1, 2, 2, 2 } return b.op('AvgPoolGrad', { df.int32(image), d }, pool), { d } end

for _, v in ipairs{ 'V2', 'V3' } do
  local wide = { dtype = 'float64' }
  local function made() return registry.op('TensorArray' .. v, { df.int32(2) }, wide) end
  local function filled(b, x)
    local h, flow = made()
    return h, b.op('TensorArrayScatter' .. v, { h, df.int32{ 0, 1 }, x, flow })
  end
  local function read(b, h, flow) return b.op('TensorArrayRead' .. v, { h, df.int32(1), flow }, wide) end
  local function gather(b, h, flow) return b.op('TensorArrayGather' .. v, { h, df.int32{ 1, 0 }, flow }, wide) end
  ops['TensorArrayWrite' .. v] = function(b)
    local x, h, flow = b.x{ 2 }, made()
    return read(b, h, b.op('TensorArrayWrite' .. v, { h, df.int32(1), x, flow })), { x }
  end
  ops['TensorArraySplit' .. v] = function(b)
    local x, h, flow = b.x{ 2, 2 }, made()
    return gather(b, h, b.op('TensorArraySplit' .. v, { h, x, df.int64{ 1, 1 }, flow })), { x }
  end
  ops['TensorArrayScatter' .. v] = function(b) local x = b.x{ 2, 2 } return read(b, filled(b, x)), { x } end
  ops['TensorArrayRead' .. v] = ops['TensorArrayScatter' .. v]
  ops['TensorArrayGather' .. v] = function(b) local x = b.x{ 2, 2 } return gather(b, filled(b, x)), { x } end
  ops['TensorArrayConcat' .. v] = function(b)
    local x = b.x{ 2, 1, 2 }
    return (registry.op('TensorArrayConcat' .. v, { filled(b, x) }, wide)), { x }
  end
end

-- Lists are values: what one op gives the next takes.
local wide = { element_dtype = 'float64' }
local two_rows, indices = { 2, 2 }, { 1, 0 }
local function from(b, x) return b.op('TensorListFromTensor', { x, df.int32{ 2 } }) end
local function stacked(b, l) return b.op('TensorListStack', { l, df.int32{ 2 } }, wide) end
local function empty(b) return b.op('TensorListReserve', { df.int32{ 2 }, df.int32(2) }, wide) end
local lists = {
  FromTensor = function(b) local x = b.x(two_rows) return b.op('TensorListGetItem', { from(b, x), df.int32(1), df.int32{ 2 } }, wide), { x } end,
  Stack = function(b) local x = b.x(two_rows) return stacked(b, from(b, x)), { x } end,
  GetItem = function(b) local x = b.x(two_rows) return b.op('TensorListGetItem', { from(b, x), df.int32(1), df.int32{ 2 } }, wide), { x } end,
  SetItem = function(b) local x, y = b.x(two_rows), b.x{ 2 } return stacked(b, b.op('TensorListSetItem', { from(b, x), df.int32(1), y })), { x, y } end,
  PushBack = function(b) local x, y = b.x(two_rows), b.x{ 2 } return stacked(b, b.op('TensorListPushBack', { from(b, x), y })), { x, y } end,
  PopBack = function(b) local x = b.x(two_rows) return b.list('TensorListPopBack', { from(b, x), df.int32{ 2 } }, wide)[2], { x } end,
  Gather = function(b) local x = b.x(two_rows) return b.op('TensorListGather', { from(b, x), df.int32(indices), df.int32{ 2 } }, wide), { x } end,
  Scatter = function(b) local x = b.x(two_rows) return stacked(b, b.op('TensorListScatter', { x, df.int32(indices), df.int32{ 2 } })), { x } end,
  ScatterV2 = function(b) local x = b.x(two_rows) return stacked(b, b.op('TensorListScatterV2', { x, df.int32(indices), df.int32{ 2 }, df.int32(2) })), { x } end,
  ScatterIntoExistingList = function(b)
    local x = b.x(two_rows)
    return stacked(b, b.op('TensorListScatterIntoExistingList', { empty(b), x, df.int32(indices) })), { x }
  end,
  Split = function(b)
    local x = b.x(two_rows)
    return b.op('TensorListGetItem', { b.op('TensorListSplit', { x, df.int32{ 1, 2 }, df.int64{ 1, 1 } }), df.int32(1), df.int32{ 1, 2 } }, wide), { x }
  end,
  GatherGrad = function(b)
    local x, y = b.x(two_rows), b.x(two_rows)
    return stacked(b, b.op('TensorListGatherGrad', { from(b, y), x, df.int32(indices) })), { x }
  end,
  Concat = function(b) local x = b.x{ 2, 1, 2 } return (b.list('TensorListConcat', { b.op('TensorListFromTensor', { x, df.int32{ 1, 2 } }) }, wide))[1], { x } end,
  ConcatV2 = function(b)
    local x = b.x{ 2, 1, 2 }
    return (b.list('TensorListConcatV2', { b.op('TensorListFromTensor', { x, df.int32{ 1, 2 } }), df.int32{ 1, 2 }, df.int64{} }, wide))[1], { x }
  end,
}
for name, fn in pairs(lists) do ops['TensorList' .. name] = fn end

-- Kinks and whole numbers: the second derivative is zero or has jumps.
local not_twice = { Cast = true, MaxPool = true, MaxPool3D = true, LSTMBlockCell = true, BlockLSTM = true, BlockLSTMV2 = true, GRUBlockCell = true, Igamma = true,
  Igammac = true, Dilation2D = true }       -- TensorFlow's gradients of these three have none

--- Ops without numbers of their own to be wrong by, and what only save = 'recompute' builds.
-- PreventGradient has an error for a gradient; those of FunctionLoad and FunctionAdd: spec/graph/func_spec.lua.
local not_here = {
  PreventGradient = true, TensorListResize = true, TensorArrayCopy = true, TensorArrayJoin = true, TensorArrayJoinGrad = true,
  TensorArrayGradV3 = true, FunctionLoad = true, FunctionAdd = true, RefIdentity = true, ReadVariableSaved = true,
  ReadReferenceSaved = true, TensorArrayReadSaved = true,
  RegisteredGradient = true,      -- an imported function gives it: spec/exchange/functions_spec.lua
  FakeQuantWithMinMaxArgs = true, FakeQuantWithMinMaxVars = true, FakeQuantWithMinMaxVarsPerChannel = true,      -- that of the identity: spec/ops/quantize_spec.lua
  QuantizeAndDequantizeV2 = true, QuantizeAndDequantizeV3 = true, QuantizeAndDequantizeV4 = true,      -- likewise: spec/recordings/ops
}

--- Types that have an entry, sorted.
function M.types()
  local list = {}
  for _, t in ipairs{ unary, binary, ops } do
    for kind in pairs(t) do if registry.has(kind) then list[#list + 1] = kind end end
  end
  table.sort(list)
  return list
end

--- Their wrong gradients are found by the whole and not node by node: the statistics among their outputs have no gradient.
M.unnamed = { FusedBatchNorm = true, FusedBatchNormV2 = true, FusedBatchNormV3 = true }

function M.has(kind) return (unary[kind] or binary[kind] or ops[kind] or not_here[kind]) ~= nil end

--- How wrong its gradient is made: those that know no float64 are compared with coarser differences.
function M.factor(kind)
  local coarse = kind:find 'Block' or kind:find '^ResizeBi' or kind:find '^ScaleAnd' or kind:find '^CropAndResize' or kind == 'AdjustContrastv2'
  return coarse and 1.5 or 1.01
end

--- The graph of a type: y, xs, feeds, and the orders that can be checked.
-- @param b  a builder; a new one when it is left out
function M.build(kind, b)
  b = b or M.builder()
  local y, xs
  if unary[kind] then y, xs = one(b, kind, unary[kind])
  elseif binary[kind] then y, xs = two(b, kind, binary[kind])
  else y, xs = ops[kind](b) end
  return y, xs, b.feeds, not_twice[kind] and 1 or 2
end

return M
