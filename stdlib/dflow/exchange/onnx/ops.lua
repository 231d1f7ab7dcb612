--- What each op is in ONNX: table[type] = function(x, n), which adds nodes to x and gives the name of the result, or a
-- list of names.
--
-- x:op(type, inputs, attributes, count) adds one node and gives its outputs' names; n[i] is the name of input i, n:d(i)
-- its dtype, n:rank(i) and n:shape(i) what is known of its shape, n:numbers(i) its elements where they are known,
-- n.attr(name) an attribute. What cannot be said in ONNX is refused: n:refuse(why).
local core = require 'dflow.backend'
local proto = require 'dflow.exchange.onnx.proto'
local dtypes = require 'dflow.front.dtypes'
local registry = require 'dflow.front.registry'

local unpack = table.unpack or unpack
local I, B, F, S, L = proto.int, proto.bool, proto.float, proto.string, proto.ints
local FLOAT32, FLOAT64, INT32, INT64, BOOL, UINT8 = 1, 2, 3, 9, 10, 4
local FAR = 2 ^ 53          -- past the end of any axis
local M = {}

--- The small integers, for which hardly anything is defined, are computed as int32.
local small = { [4] = true, [5] = true, [6] = true, [17] = true }

local function widened(x, d, names, fn, is_test)
  if not small[d] then return fn(names) end
  local wide = {}
  for i, name in ipairs(names) do wide[i] = x:cast(name, INT32) end
  return is_test and fn(wide) or x:cast(fn(wide), d)
end

-- ---- elementwise --------------------------------------------------------------------------------------------------
--- Of these ONNX Runtime, for one, has no float64: they are made of what it has.
local function expm1(x, v, d)         -- e^x - 1 = tanh(x / 2) (e^x + 1), which loses nothing near 0
  return x:op('Mul', { x:op('Tanh', { x:op('Mul', { v, x:number(0.5, d) }) }),
                       x:op('Add', { x:op('Exp', { v }), x:number(1, d) }) })
end

--- log(1 + x) = log(u) x / (u - 1) with u = 1 + x as it was rounded, which is Kahan's.
local function log1p(x, v, d)
  local one = x:number(1, d)
  local u = x:op('Add', { v, one })
  local exact = x:op('Mul', { x:op('Log', { u }), x:op('Div', { v, x:op('Sub', { u, one }) }) })
  local near = x:op('Where', { x:op('Equal', { u, one }), v, exact })
  return x:op('Where', { x:op('Less', { x:op('Abs', { v }), x:number(0.5, d) }), near, x:op('Log', { u }) })
end

local function elu(x, v, d, alpha)
  local zero = x:number(0, d)
  local low = x:op('Mul', { x:number(alpha, d), expm1(x, x:op('Min', { v, zero }), d) })
  return x:op('Where', { x:op('Greater', { v, zero }), v, low })
end

local double = {
  Tan = function(x, v) return x:op('Div', { x:op('Sin', { v }), x:op('Cos', { v }) }) end,
  Sinh = function(x, v, d)                          -- of its size, where expm1(v) + 1 loses nothing
    local e = expm1(x, x:op('Abs', { v }), d)
    local one = x:number(1, d)
    local part = x:op('Where', { x:op('Less', { e, x:number(1e300, d) }), x:op('Div', { e, x:op('Add', { e, one }) }),
                                 one })
    return x:op('Mul', { x:op('Mul', { x:op('Sign', { v }), x:number(0.5, d) }), x:op('Add', { e, part }) })
  end,
  Cosh = function(x, v, d)
    return x:op('Mul', { x:number(0.5, d), x:op('Add', { x:op('Exp', { v }), x:op('Exp', { x:op('Neg', { v }) }) }) })
  end,
  Asinh = function(x, v, d)
    local one, a = x:number(1, d), x:op('Abs', { v })
    local square = x:op('Mul', { a, a })
    local root = x:op('Add', { x:op('Sqrt', { x:op('Add', { square, one }) }), one })
    return x:op('Mul', { x:op('Sign', { v }), log1p(x, x:op('Add', { a, x:op('Div', { square, root }) }), d) })
  end,
  Acosh = function(x, v, d)
    return x:op('Log', { x:op('Add', { v, x:op('Sqrt', { x:op('Sub', { x:op('Mul', { v, v }), x:number(1, d) }) }) }) })
  end,
  Atanh = function(x, v, d)
    local twice = x:op('Div', { x:op('Add', { v, v }), x:op('Sub', { x:number(1, d), v }) })
    return x:op('Mul', { x:number(0.5, d), log1p(x, twice, d) })
  end,
  Elu = function(x, v, d) return elu(x, v, d, 1) end,
  Softplus = function(x, v, d)
    local small_part = log1p(x, x:op('Exp', { x:op('Neg', { x:op('Abs', { v }) }) }), d)
    return x:op('Add', { x:op('Max', { v, x:number(0, d) }), small_part })
  end,
  Softsign = function(x, v, d) return x:op('Div', { v, x:op('Add', { x:op('Abs', { v }), x:number(1, d) }) }) end,
}

--- An op whose entry (`.onnx`) names the operator that has its inputs and outputs.
local function named(type, onnx)
  local is_test = registry.entry(type).outputs[1].dtype == BOOL
  return function(x, n)
    local d, inputs = n:d(1), { n[1], n[2] }
    if d == FLOAT64 and double[type] then return double[type](x, n[1], d) end
    if d == dtypes.STRING and not is_test then n:refuse('strings are not joined in ONNX') end
    if onnx:find '^Bitwise' then
      if x.opset < 18 then n:refuse('it needs opset 18') end
      return x:op(onnx, inputs)
    end
    return widened(x, d, inputs, function(a) return x:op(onnx, a) end, is_test)
  end
end
for op = 0, core.op_count() - 1 do
  local onnx, type = core.op_about(op, 'onnx'), core.op_info(op).type
  if onnx then M[type] = named(type, onnx) end
end

function M.TruncateDiv(x, n)
  local d, a, b = n:d(1), n[1], n[2]
  if not dtypes.is_float(d) then return M.Div(x, n) end
  local half = dtypes.name[d] == 'float16' or dtypes.name[d] == 'bfloat16'      -- their quotients are rounded once
  if half then a, b = x:cast(a, FLOAT32, d), x:cast(b, FLOAT32, d) end
  local q = x:op('Div', { a, b })
  local y = x:op('Mul', { x:op('Sign', { q }), x:op('Floor', { x:op('Abs', { q }) }) })
  return half and x:cast(y, d) or y
end
function M.NotEqual(x, n) return x:op('Not', { M.Equal(x, n) }) end

local function same(_, n) return n[1] end
for type in ('Identity StopGradient PreventGradient Snapshot DeepCopy GuaranteeConst EnsureShape CheckNumerics Print '
             .. 'PlaceholderWithDefault Conj'):gmatch '%S+' do
  M[type] = same
end

function M.IdentityN(_, n) return { unpack(n, 1, n.count) } end

function M.CustomGradient(_, n) return { unpack(n, n.attr 'nx' + 1, n.count) } end
function M.RegisteredGradient(_, n) return { unpack(n, n.attr 'captured' + 1, n.count) } end

function M.Round(x, n) return dtypes.is_int(n:d(1)) and n[1] or x:op('Round', { n[1] }) end
function M.Square(x, n) return widened(x, n:d(1), { n[1] }, function(a) return x:op('Mul', { a[1], a[1] }) end) end
function M.Rsqrt(x, n) return x:op('Reciprocal', { x:op('Sqrt', { n[1] }) }) end
function M.Relu(x, n)
  local d = n:d(1)
  if dtypes.is_int(d) then
    return widened(x, d, { n[1] }, function(a) return x:op('Max', { a[1], x:number(0, small[d] and INT32 or d) }) end)
  end
  return x:op('Relu', { n[1] })
end
function M.LeakyRelu(x, n) return x:op('LeakyRelu', { n[1] }, { alpha = F(n.attr 'alpha') }) end
function M.Selu(x, n)
  local d = n:d(1)
  if d ~= FLOAT64 then return x:op('Selu', { n[1] }) end
  return x:op('Mul', { x:number(1.0507009873554805, d), elu(x, n[1], d, 1.6732632423543772) })
end
function M.Erfc(x, n) return x:op('Sub', { x:number(1, n:d(1)), x:op('Erf', { n[1] }) }) end
--- IsInf has the short floats since opset 20 only.
function M.IsInf(x, n)
  local d = n:d(1)
  return x:op('IsInf', { d ~= FLOAT32 and d ~= FLOAT64 and x.opset < 20 and x:cast(n[1], FLOAT32, d) or n[1] })
end
function M.IsFinite(x, n) return x:op('Not', { x:op('Or', { x:op('IsNaN', { n[1] }), M.IsInf(x, n) }) }) end

function M.Relu6(x, n)
  local d = n:d(1)
  return x:op('Clip', { n[1], x:number(0, d), x:number(6, d) })
end

function M.Expm1(x, n) return expm1(x, n[1], n:d(1)) end
function M.Log1p(x, n) return log1p(x, n[1], n:d(1)) end

--- Where along a new axis the position is the index: bool[..., depth]. A negative index names no place, unlike that of
-- ONNX's OneHot, which ONNX Runtime has for few dtypes besides. `rank` is that of the indices where the axis is not the
-- last.
local function hot_places(x, at, depth, axis, rank)
  local range = x:op('Range', { x:number(0, INT64), depth, x:number(1, INT64) })
  if rank then
    local after = {}
    for i = 1, rank - axis do after[i] = i end
    range = x:op('Unsqueeze', { range, x:ints(after) })
  end
  return x:op('Equal', { x:op('Unsqueeze', { at, x:ints { axis } }), range })
end

local function zero_where_zero(x, tested, d, value)
  return x:op('Where', { x:op('Equal', { tested, x:number(0, d) }), x:number(0, d), value })
end
function M.MulNoNan(x, n) return zero_where_zero(x, n[2], n:d(1), x:op('Mul', { n[1], n[2] })) end
function M.DivNoNan(x, n) return zero_where_zero(x, n[2], n:d(1), x:op('Div', { n[1], n[2] })) end
function M.Xdivy(x, n) return zero_where_zero(x, n[1], n:d(1), x:op('Div', { n[1], n[2] })) end
function M.Xlogy(x, n) return zero_where_zero(x, n[1], n:d(1), x:op('Mul', { n[1], x:op('Log', { n[2] }) })) end
function M.Xlog1py(x, n) return zero_where_zero(x, n[1], n:d(1), x:op('Mul', { n[1], log1p(x, n[2], n:d(1)) })) end

--- ONNX's Mod of floats is C's: what has the other sign than y is brought over by one y.
function M.FloorMod(x, n)
  local d = n:d(1)
  if dtypes.is_int(d) then return widened(x, d, { n[1], n[2] }, function(a) return x:op('Mod', a) end) end
  local zero, r = x:number(0, d), x:op('Mod', { n[1], n[2] }, { fmod = I(1) })
  local other = x:op('Xor', { x:op('Less', { r, zero }), x:op('Less', { n[2], zero }) })
  local over = x:op('And', { other, x:op('Not', { x:op('Equal', { r, zero }) }) })
  return x:op('Where', { over, x:op('Add', { r, n[2] }), r })
end
function M.TruncateMod(x, n)
  return widened(x, n:d(1), { n[1], n[2] }, function(a) return x:op('Mod', a, { fmod = I(1) }) end)
end
M.Mod = M.TruncateMod

function M.FloorDiv(x, n)
  local d = n:d(1)
  if dtypes.is_float(d) then return x:op('Floor', { x:op('Div', { n[1], n[2] }) }) end
  return widened(x, d, { n[1], n[2] },
                 function(a) return x:op('Div', { x:op('Sub', { a[1], x:op('Mod', a) }), a[2] }) end)
end

function M.SquaredDifference(x, n)
  return widened(x, n:d(1), { n[1], n[2] }, function(a)
    local difference = x:op('Sub', a)
    return x:op('Mul', { difference, difference })
  end)
end

function M.ApproximateEqual(x, n)
  local d, apart = n:d(1), x:op('Abs', { x:op('Sub', { n[1], n[2] }) })
  if dtypes.is_int(d) then d, apart = FLOAT64, x:cast(apart, FLOAT64, d) end
  return x:op('LessOrEqual', { apart, x:number(n.attr 'tolerance', d) })
end

--- By the sign of each, that of zeros too, which 1 / v tells; two infinities are as far as two ones.
function M.Atan2(x, n)
  local d, y, by = n:d(1), n[1], n[2]
  local zero, infinite = x:number(0, d), x:number(math.huge, d)
  local function negative(v)
    return x:op('Less', { x:op('Where', { x:op('Equal', { v, zero }), x:op('Div', { x:number(1, d), v }), v }), zero })
  end
  local function both(test) return x:op('And', { test(y), test(by) }) end
  local function is_zero(v) return x:op('Equal', { v, zero }) end
  local half_turn = x:op('Where', { negative(y), x:number(-math.pi, d), x:number(math.pi, d) })
  local ratio = x:op('Where', { both(function(v) return x:op('Equal', { x:op('Abs', { v }), infinite }) end),
                                x:op('Div', { x:op('Sign', { y }), x:op('Sign', { by }) }), x:op('Div', { y, by }) })
  local plain = x:op('Where', { both(is_zero), y, x:op('Atan', { ratio }) })
  local turned = x:op('Where', { negative(by), x:op('Add', { plain, half_turn }), plain })
  local upright = x:op('And', { is_zero(by), x:op('Greater', { x:op('Abs', { y }), zero }) })
  return x:op('Where', { upright, x:op('Mul', { half_turn, x:number(0.5, d) }), turned })
end

local function where(x, condition, a, b, d)
  if d == BOOL then return x:cast(x:op('Where', { condition, x:cast(a, UINT8), x:cast(b, UINT8) }), BOOL) end
  return widened(x, d ~= UINT8 and d or INT32, { a, b },
                 function(v) return x:op('Where', { condition, v[1], v[2] }) end)
end

function M.SelectV2(x, n) return where(x, n[1], n[2], n[3], n:d(2)) end

function M.Select(x, n)
  local condition, rank = n:rank(1), n:rank(2)
  if not condition or (condition == 1 and not rank) then n:refuse('the rank of its condition is not known') end
  local c = n[1]
  if condition == 1 and rank > 1 then
    local axes = {}
    for i = 1, rank - 1 do axes[i] = i end
    c = x:op('Unsqueeze', { c, x:ints(axes) })
  end
  return where(x, c, n[2], n[3], n:d(2))
end

--- Bounds that are NaN are passed over: ONNX's Max and Min would give NaN.
function M.ClipByValue(x, n)
  local d = n:d(1)
  return widened(x, d, { n[1], n[2], n[3] }, function(a)
    local below = where(x, x:op('Greater', { a[1], a[3] }), a[3], a[1], small[d] and INT32 or d)
    return where(x, x:op('Less', { below, a[2] }), a[2], below, small[d] and INT32 or d)
  end)
end

function M.AddN(x, n)
  local sum = n[1]
  for i = 2, n.count do
    local a = sum
    sum = widened(x, n:d(1), { a, n[i] }, function(v) return x:op('Add', v) end)
  end
  return sum
end

function M.Cast(x, n) return n:d(1) == n.attr 'DstT' and n[1] or x:cast(n[1], n.attr 'DstT') end

-- Gradients of activations.
local function times(x, ...)
  local y = (...)
  for i = 2, select('#', ...) do y = x:op('Mul', { y, (select(i, ...)) }) end
  return y
end
function M.TanhGrad(x, n) return times(x, n[2], x:op('Sub', { x:number(1, n:d(1)), times(x, n[1], n[1]) })) end
function M.SigmoidGrad(x, n) return times(x, n[2], n[1], x:op('Sub', { x:number(1, n:d(1)), n[1] })) end
--- Where dy (input 2) is 0, nothing is handed on, at a pole, too.
local function unless_none(x, n, v)
  local zero = x:number(0, n:d(1))
  return x:op('Where', { x:op('Equal', { n[2], zero }), zero, v })
end
function M.SqrtGrad(x, n) return unless_none(x, n, x:op('Div', { times(x, n[2], x:number(0.5, n:d(1))), n[1] })) end
function M.RsqrtGrad(x, n) return unless_none(x, n, times(x, n[2], x:number(-0.5, n:d(1)), n[1], n[1], n[1])) end
function M.ReciprocalGrad(x, n) return unless_none(x, n, times(x, x:op('Neg', { n[2] }), n[1], n[1])) end
function M.SoftplusGrad(x, n) return times(x, n[1], x:op('Sigmoid', { n[2] })) end
function M.ReluGrad(x, n)
  local zero = x:number(0, n:d(1))
  return x:op('Where', { x:op('Greater', { n[2], zero }), n[1], zero })
end

-- ---- along axes ---------------------------------------------------------------------------------------------------
--- A reduction along the axes of input 2; fn(name, axes) where there are any. `attribute`: the axes stand in an
-- attribute before opset 18.
local function reduced(x, n, onnx, v, attribute)
  local axes = n:numbers(2)
  local keep = B(n.attr 'keep_dims')
  if axes and #axes == 0 then return v end
  if attribute and x.opset < 18 then
    if not axes then n:refuse('its axes are known only when it runs') end
    return x:op(onnx, { v }, { axes = L(axes), keepdims = keep })
  end
  if axes then return x:op(onnx, { v, x:ints(axes) }, { keepdims = keep }) end
  -- there may be none
  return x:op(onnx, { v, x:cast(n[2], INT64, n:d(2)) }, { keepdims = keep, noop_with_empty_axes = I(1) })
end

for type, onnx in pairs { Mean = 'ReduceMean', Prod = 'ReduceProd', Max = 'ReduceMax', Min = 'ReduceMin',
                          LogSumExp = 'ReduceLogSumExp' } do
  M[type] = function(x, n)
    return widened(x, n:d(1), { n[1] }, function(a) return reduced(x, n, onnx, a[1], true) end)
  end
end
function M.Sum(x, n) return widened(x, n:d(1), { n[1] }, function(a) return reduced(x, n, 'ReduceSum', a[1]) end) end
function M.EuclideanNorm(x, n)
  if dtypes.is_int(n:d(1)) then n:refuse('no norm of integers is rounded as this one') end
  return reduced(x, n, 'ReduceL2', x:op('Abs', { n[1] }), true)
end
function M.Any(x, n) return x:op('Greater', { reduced(x, n, 'ReduceSum', x:cast(n[1], INT32)), x:number(0, INT32) }) end
function M.All(x, n)
  return x:op('Equal', { reduced(x, n, 'ReduceSum', x:cast(x:op('Not', { n[1] }), INT32)), x:number(0, INT32) })
end

for _, type in ipairs { 'ArgMax', 'ArgMin' } do
  M[type] = function(x, n)
    local v = n[1]
    if n:d(1) == BOOL or small[n:d(1)] then v = x:cast(v, INT32) end
    local i = x:op(type, { v }, { axis = I(n:whole(2, 'axis')), keepdims = I(0) })
    return n.attr 'output_type' == INT64 and i or x:cast(i, INT32)
  end
end

function M.Cumsum(x, n)
  return widened(x, n:d(1), { n[1] }, function(a)
    return x:op('CumSum', { a[1], n[2] }, { exclusive = B(n.attr 'exclusive'), reverse = B(n.attr 'reverse') })
  end)
end

local function top_k(x, n, k)
  local names = x:op('TopK', { n[1], k }, { axis = I(-1), largest = I(1), sorted = I(1) }, 2)
  return { names[1], x:cast(names[2], INT32) }
end
function M.TopKV2(x, n) return top_k(x, n, x:list(n, 2)) end
function M.TopK(x, n) return top_k(x, n, x:ints { n.attr 'k' }) end

function M.Softmax(x, n) return x:op('Softmax', { n[1] }, { axis = I(-1) }) end
function M.LogSoftmax(x, n) return x:op('LogSoftmax', { n[1] }, { axis = I(-1) }) end

function M.SoftmaxCrossEntropyWithLogits(x, n)
  local log = x:op('LogSoftmax', { n[1] }, { axis = I(-1) })
  local loss = x:op('Neg', { x:op('ReduceSum', { x:op('Mul', { n[2], log }), x:ints { -1 } }, { keepdims = I(0) }) })
  return { loss, x:op('Sub', { x:op('Softmax', { n[1] }, { axis = I(-1) }), n[2] }) }
end

function M.SparseSoftmaxCrossEntropyWithLogits(x, n)
  local log, d = x:op('LogSoftmax', { n[1] }, { axis = I(-1) }), n:d(1)
  local at = x:op('Unsqueeze', { n[2], x:ints { -1 } })
  local taken = x:op('GatherElements', { log, at }, { axis = I(-1) })
  local loss = x:op('Neg', { x:op('Squeeze', { taken, x:ints { -1 } }) })
  local classes = x:op('Gather', { x:op('Shape', { n[1] }), x:number(-1, INT64) })
  local hot = x:cast(hot_places(x, x:cast(n[2], INT64, n:d(2)), classes, -1), d)
  return { loss, x:op('Sub', { x:op('Softmax', { n[1] }, { axis = I(-1) }), hot }) }
end

function M.L2Loss(x, n)
  return x:op('Mul', { x:op('ReduceSum', { x:op('Mul', { n[1], n[1] }) }, { keepdims = I(0) }), x:number(0.5, n:d(1)) })
end

local function from_to(first, last)
  local list = {}
  for i = first, last do list[#list + 1] = i end
  return list
end

function M.BiasAdd(x, n)
  local bias = n[2]
  if n.attr 'data_format' == 'NCHW' then
    local rank = n:rank(1) or n:refuse('the rank of its value is not known')
    bias = x:op('Unsqueeze', { bias, x:ints(from_to(1, rank - 2)) })
  end
  return x:op('Add', { n[1], bias })
end
M.BiasAddV1 = M.BiasAdd

function M.BiasAddGrad(x, n)
  local rank = n:rank(1) or n:refuse('the rank of its value is not known')
  local axes = n.attr 'data_format' == 'NCHW' and from_to(2, rank - 1) or from_to(0, rank - 2)
  if n.attr 'data_format' == 'NCHW' then table.insert(axes, 1, 0) end
  return widened(x, n:d(1), { n[1] },
                 function(a) return x:op('ReduceSum', { a[1], x:ints(axes) }, { keepdims = I(0) }) end)
end

-- ---- windows: ONNX has the channels before the places ---------------------------------------------------------------
--- What SAME pads {before, …, after, …}, where a stride is beyond its window: auto_pad has a negative number there.
-- nil: auto_pad does.
local function same_pads(n, sizes, kernel, strides, dilations)
  local before, after, beyond = {}, {}, false
  for i = 1, #strides do
    local extent = kernel[i] and (kernel[i] - 1) * (dilations and dilations[i] or 1) + 1
    beyond = beyond or strides[i] > 1 and not (extent and strides[i] <= extent)
    if extent and sizes[i] and sizes[i] >= 0 then
      local all = math.max(0, (math.ceil(sizes[i] / strides[i]) - 1) * strides[i] + extent - sizes[i])
      before[i], after[i] = math.floor(all / 2), math.ceil(all / 2)
    end
  end
  if not beyond then return nil end
  for i = 1, #strides do
    if not before[i] then n:refuse('its stride may be beyond its window, and the size of what it pads is not known') end
    before[#strides + i] = after[i]
  end
  return before
end

local function is_last(n) return n.attr 'data_format':sub(-1) == 'C' end                -- NHWC, NDHWC
--- What a list with a number for each axis has for the axes of places; an empty one for what is not known.
local function places_of(n, list)
  local first, out = is_last(n) and 1 or 2, {}
  for i = 1, #list - 2 do out[i] = list[first + i] end
  return out
end
--- v with its channels second, where they are last; and back.
local function channels_second(x, n, v)
  local rank = #n.attr 'strides'
  return is_last(n) and x:op('Transpose', { v }, { perm = L { 0, rank - 1, unpack(from_to(1, rank - 2)) } }) or v
end
local function channels_back(x, n, v)
  local perm = from_to(1, #n.attr 'strides')
  perm[1], perm[#perm] = 0, 1
  return is_last(n) and x:op('Transpose', { v }, { perm = L(perm) }) or v
end

--- The operator over the places of its first input. `second`: it gives two values, of which second(names) takes what it
-- wants.
local function windowed(x, n, inputs, onnx, attrs, second)
  local last = is_last(n)
  local function places(list) return places_of(n, list) end
  attrs.strides = L(places(n.attr 'strides'))
  if n.attr 'ksize' then attrs.kernel_shape = L(places(n.attr 'ksize')) end
  if n.attr 'dilations' then attrs.dilations = L(places(n.attr 'dilations')) end
  local padding = n.attr 'padding'
  if padding == 'SAME' then
    local filter = n.attr 'ksize' and places(n.attr 'ksize') or n:shape(2) or {}       -- its sizes come first
    local dilations = n.attr 'dilations' and places(n.attr 'dilations')
    local pads = same_pads(n, places(n:shape(1) or {}), filter, places(n.attr 'strides'), dilations)
    if pads then attrs.pads = L(pads) else attrs.auto_pad = S 'SAME_UPPER' end
  elseif padding == 'EXPLICIT' then
    local p, at = n.attr 'explicit_paddings', last and 3 or 5
    attrs.pads = L { p[at], p[at + 2], p[at + 1], p[at + 3] }
  else attrs.auto_pad = S 'VALID' end
  local y = x:op(onnx, { channels_second(x, n, inputs[1]), inputs[2] }, attrs, second and 2)
  return second and second(y) or not second and channels_back(x, n, y) or nil
end
--- [h, w, ci, co] as [co, ci, h, w]; so with a depth.
local function filter_first(x, v, rank)
  return x:op('Transpose', { v }, { perm = L { rank - 1, rank - 2, unpack(from_to(0, rank - 3)) } })
end
--- How many groups a filter for `of_filter` channels makes of `all`. Not known: 1, which a run checks.
local function group_of(all, of_filter)
  return all > 0 and of_filter > 0 and all ~= of_filter and I(all / of_filter) or nil
end
function M.Conv2D(x, n)
  local rank = #n.attr 'strides'
  local group = group_of((n:shape(1) or {})[is_last(n) and rank or 2] or -1, (n:shape(2) or {})[rank - 1] or -1)
  return windowed(x, n, { n[1], filter_first(x, n[2], rank) }, 'Conv', { group = group })
end
--- ConvTranspose, of sizes that are known: what its window does not reach is added behind.
function M.Conv2DBackpropInput(x, n)
  local rank, sizes, filter, dy = #n.attr 'strides', n:numbers(1), n:shape(2), n:shape(3)
  if not sizes or not filter or not dy then n:refuse 'the sizes of what it makes are known only when it runs' end
  if n.attr 'padding' == 'EXPLICIT' then n:refuse 'its paddings are explicit' end
  local made, out = places_of(n, sizes), places_of(n, dy)
  local strides, dilations, pads, more = places_of(n, n.attr 'strides'), places_of(n, n.attr 'dilations'), {}, {}
  for i, size in ipairs(made) do
    if filter[i] < 0 or out[i] < 0 then
      n:refuse 'the sizes of its filter and of what it is given are known only when it runs'
    end
    local reach = (out[i] - 1) * strides[i] + (filter[i] - 1) * dilations[i] + 1
    local all = n.attr 'padding' == 'SAME' and math.max(reach - size, 0) or 0
    pads[i], pads[#made + i], more[i] = math.floor(all / 2), math.ceil(all / 2), size - (reach - all)
  end
  return channels_back(x, n, x:op('ConvTranspose', { channels_second(x, n, n[3]), filter_first(x, n[2], rank) },
    { strides = L(strides), dilations = L(dilations), pads = L(pads), output_padding = L(more),
      group = group_of(sizes[is_last(n) and rank or 2], filter[rank - 1]) }))
end
M.Conv3D, M.Conv3DBackpropInputV2 = M.Conv2D, M.Conv2DBackpropInput
function M.MaxPool(x, n)
  local d = n:d(1)
  if not dtypes.is_int(d) then return windowed(x, n, { n[1] }, 'MaxPool', {}) end
  if d == INT64 then n:refuse('no pooling operator takes int64') end
  return x:cast(windowed(x, n, { x:cast(n[1], FLOAT64, d) }, 'MaxPool', {}), d)
end
function M.AvgPool(x, n) return windowed(x, n, { n[1] }, 'AveragePool', {}) end
M.MaxPool3D, M.AvgPool3D = M.MaxPool, M.AvgPool

-- ---- products -------------------------------------------------------------------------------------------------------
local function turned(x, n, i, turn)
  if not turn then return n[i] end
  local rank = n:rank(i) or n:refuse('the rank of what it transposes is not known')
  local perm = from_to(0, rank - 1)
  perm[rank], perm[rank - 1] = perm[rank - 1], perm[rank]
  return x:op('Transpose', { n[i] }, { perm = L(perm) })
end
function M.MatMul(x, n)
  return x:op('MatMul', { turned(x, n, 1, n.attr 'transpose_a'), turned(x, n, 2, n.attr 'transpose_b') })
end
function M.BatchMatMulV2(x, n)
  return x:op('MatMul', { turned(x, n, 1, n.attr 'adj_x'), turned(x, n, 2, n.attr 'adj_y') })
end
M.BatchMatMul = M.BatchMatMulV2

--- Scores of inputs `first` and on, in the dtype d of their sums; the opset's own Attention (23) has not all of it: no
-- sums, and other rows of nothing.
local function scores_of(x, n, first, mask, d)
  local shape, rank = n:shape(first), n:rank(first)
  local scale = n.attr 'scale'
  if scale == 0 then
    if not shape or shape[#shape] < 0 then
      n:refuse 'the depth of its query is known only when it runs, and its scale follows from that'
    end
    scale = shape[#shape] > 0 and shape[#shape] ^ -0.5 or 1
  end
  if not rank then n:refuse 'the rank of its query is known only when it runs' end
  local function wide(i) return x:cast(n[i], d, n:d(i)) end
  local order = {}
  for i = 1, rank do order[i] = i - 1 end
  order[rank - 1], order[rank] = rank - 1, rank - 2
  local function across(v) return x:op('Transpose', { v }, { perm = L(order) }) end
  local s = x:op('Mul', { x:op('MatMul', { wide(first), across(wide(first + 1)) }), x:number(scale, d) })
  if n.count >= mask and n:d(mask) == BOOL then s = x:op('Where', { n[mask], s, x:number(-math.huge, d) })
  elseif n.count >= mask then s = x:op('Add', { s, wide(mask) }) end
  if n.attr 'causal' then
    local ones = x:op('Expand', { x:number(1, d), x:op('Shape', { s }) })
    local seen = x:op('Greater', { x:op('Trilu', { ones }, { upper = I(0) }), x:number(0, d) })
    s = x:op('Where', { seen, s, x:number(-math.huge, d) })
  end
  return s, scale, wide, across
end

--- op over the last axis, which stays or not.
local function last_axis(x, onnx, v, keep)
  local attrs = { keepdims = I(keep and 1 or 0) }
  if onnx == 'ReduceSum' or x.opset >= 18 then return x:op(onnx, { v, x:ints{ -1 } }, attrs) end
  attrs.axes = L{ -1 }
  return x:op(onnx, { v }, attrs)
end

function M.ScaledDotProductAttention(x, n)
  local own = n:d(1)
  local d = own == FLOAT64 and FLOAT64 or FLOAT32
  local s, _, wide = scores_of(x, n, 1, 4, d)
  local top, zero = last_axis(x, 'ReduceMax', s, true), x:number(0, d)
  local none = x:op('Equal', { top, x:number(-math.huge, d) })
  local shift = x:op('Where', { none, zero, top })
  local p = x:op('Exp', { x:op('Sub', { s, shift }) })
  local sum = x:op('Where', { none, x:number(1, d), last_axis(x, 'ReduceSum', p, true) })
  local y = x:op('Div', { x:op('MatMul', { p, wide(3) }), sum })
  local sums = x:op('Where', { none, x:number(math.huge, d), x:op('Add', { shift, x:op('Log', { sum }) }) })
  return { x:cast(y, own, d), last_axis(x, 'ReduceMax', sums, false) }
end

function M.ScaledDotProductAttentionGrad(x, n)
  local own, d = n:d(1), n:d(5)
  local s, scale, wide, across = scores_of(x, n, 2, 7, d)
  local function column(i) return x:op('Unsqueeze', { n[i], x:ints{ -1 } }) end
  local p, dy = x:op('Exp', { x:op('Sub', { s, column(5) }) }), wide(1)
  local dp = x:op('Sub', { x:op('MatMul', { dy, across(wide(4)) }), column(6) })
  local ds = x:op('Mul', { x:op('Mul', { p, dp }), x:number(scale, d) })
  return { x:cast(x:op('MatMul', { ds, wide(3) }), own, d), x:cast(x:op('MatMul', { across(ds), wide(2) }), own, d),
           x:cast(x:op('MatMul', { across(p), dy }), own, d) }
end

function M.Einsum(x, n)
  local inputs = {}
  for i = 1, n.count do inputs[i] = n[i] end
  local equation, free = n.attr 'equation', {}
  for c in ('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'):gmatch '.' do
    if not equation:find(c, 1, true) then free[#free + 1] = c end
  end
  local letter = {}                                -- a gradient names what stood for ... by digits
  equation = equation:gsub('%d', function(digit)
    letter[digit] = letter[digit] or table.remove(free) or n:refuse('it has more axes than there are letters')
    return letter[digit]
  end)
  return x:op('Einsum', inputs, { equation = S(equation) })
end

-- ---- shapes ---------------------------------------------------------------------------------------------------------
local function shape_as(x, name, d) return d == INT64 and name or x:cast(name, d) end
function M.Shape(x, n) return shape_as(x, x:op('Shape', { n[1] }), n.attr 'out_type') end
function M.ShapeN(x, n)
  local list = {}
  for i = 1, n.count do list[i] = shape_as(x, x:op('Shape', { n[i] }), n.attr 'out_type') end
  return list
end
function M.Size(x, n) return shape_as(x, x:op('Size', { n[1] }), n.attr 'out_type') end
function M.Rank(x, n) return x:cast(x:op('Size', { x:op('Shape', { n[1] }) }), INT32) end

function M.Reshape(x, n)
  local shape, zero = n:numbers(2), false
  for _, dim in ipairs(shape or { 0 }) do zero = zero or dim == 0 end
  return x:op('Reshape', { n[1], x:index(n, 2) }, zero and { allowzero = I(1) } or nil)
end
function M.ExpandDims(x, n) return x:op('Unsqueeze', { n[1], x:list(n, 2) }) end
function M.Squeeze(x, n)
  local axes = n.attr 'squeeze_dims'
  return x:op('Squeeze', { n[1], axes and #axes > 0 and x:ints(axes) or nil })
end
function M.Transpose(x, n)
  local perm = n:numbers(2) or n:refuse('its permutation is known only when it runs')
  for i, axis in ipairs(perm) do if axis < 0 then perm[i] = axis + #perm end end
  return x:op('Transpose', { n[1] }, { perm = L(perm) })
end

function M.InvertPermutation(x, n)
  local size = x:op('Squeeze', { x:op('Shape', { n[1] }) })
  local range = x:op('Range', { x:number(0, INT64), size, x:number(1, INT64) })
  return x:op('ScatterElements', { n[1], n[1], shape_as(x, range, n:d(1)) })
end

function M.BroadcastTo(x, n) return x:op('Expand', { n[1], x:index(n, 2) }) end
function M.BroadcastArgs(x, n)
  local ones = x:op('Expand', { x:number(1, INT64), x:index(n, 1) })
  return shape_as(x, x:op('Shape', { x:op('Expand', { ones, x:index(n, 2) }) }), n:d(1))
end
function M.Fill(x, n) return x:op('Expand', { n[2], x:index(n, 1) }) end
function M.ZerosLike(x, n)
  return x:op('Expand', { x:number(n:d(1) == dtypes.STRING and '' or 0, n:d(1)), x:op('Shape', { n[1] }) })
end
function M.OnesLike(x, n) return x:op('Expand', { x:number(1, n:d(1)), x:op('Shape', { n[1] }) }) end
function M.Range(x, n) return x:op('Range', { n[1], n[2], n[3] }) end

function M.LinSpace(x, n)
  local d, num = n:d(1), x:cast(n[3], INT64, n:d(3))
  local steps = x:op('Max', { x:op('Sub', { num, x:number(1, INT64) }), x:number(1, INT64) })
  local step = x:op('Div', { x:op('Sub', { n[2], n[1] }), x:cast(steps, d) })
  local at = x:cast(x:op('Range', { x:number(0, INT64), num, x:number(1, INT64) }), d)
  return x:op('Add', { n[1], x:op('Mul', { at, step }) })
end

-- ---- joining and taking apart ---------------------------------------------------------------------------------------
function M.ConcatV2(x, n)
  local inputs = {}
  for i = 1, n.count - 1 do inputs[i] = n[i] end
  return x:op('Concat', inputs, { axis = I(n:whole(n.count, 'axis')) })
end

function M.Pack(x, n)
  local inputs, axes = {}, x:ints { n.attr 'axis' }
  for i = 1, n.count do inputs[i] = x:op('Unsqueeze', { n[i], axes }) end
  return x:op('Concat', inputs, { axis = I(n.attr 'axis') })
end

local function split(x, value, sizes, axis, count)
  local names = x:op('Split', { value, sizes },
                     { axis = I(axis), num_outputs = not sizes and x.opset >= 18 and I(count) or nil }, count)
  return count == 1 and { names } or names
end

function M.Split(x, n) return split(x, n[2], nil, n:whole(1, 'axis'), n.attr 'num_split') end

function M.SplitV(x, n)
  local axis, sizes, shape = n:whole(3, 'axis'), n:numbers(2), n:shape(1)
  for i, size in ipairs(sizes or {}) do
    if size < 0 then
      local left = shape and shape[axis < 0 and #shape + axis + 1 or axis + 1] or -1
      if left < 0 then n:refuse('one of its sizes is -1 and the dimension is not known') end
      for k, other in ipairs(sizes) do if k ~= i then left = left - other end end
      sizes[i] = left
    end
  end
  if not sizes then n:refuse('its sizes are known only when it runs') end
  return split(x, n[1], x:ints(sizes), axis, n.attr 'num_split')
end

function M.Unpack(x, n)
  local axis, count = n.attr 'axis', n.attr 'num'
  if count == 0 then return {} end
  local names = split(x, n[1], nil, axis, count)
  for i, name in ipairs(names) do names[i] = x:op('Squeeze', { name, x:ints { axis } }) end
  return names
end

function M.Slice(x, n)
  local first, size = n:numbers(2), n:numbers(3)
  if first and size then
    local ends = {}
    for i, v in ipairs(size) do ends[i] = v < 0 and FAR or first[i] + v end
    return #first == 0 and n[1] or x:op('Slice', { n[1], x:ints(first), x:ints(ends) })
  end
  local begin, length = x:index(n, 2), x:index(n, 3)
  local rest = x:op('Less', { length, x:number(0, INT64) })
  return x:op('Slice', { n[1], begin, x:op('Where', { rest, x:number(FAR, INT64), x:op('Add', { begin, length }) }) })
end

local function bit(mask, i) return math.floor(mask / 2 ^ i) % 2 == 1 end

--- One Slice for all axes, then a Gather for each axis that goes away, then the new axes.
function M.StridedSlice(x, n)
  local strides = n:numbers(4) or n:refuse('its strides are known only when it runs')
  local known = { n:numbers(2) or false, n:numbers(3) or false }
  local function mask(name) return n.attr(name .. '_mask') end
  local entries, named = #strides, 0
  for k = 0, entries - 1 do
    if not bit(mask 'ellipsis', k) and not bit(mask 'new_axis', k) then named = named + 1 end
  end
  local axis, place, axes, from, to, steps, shrunk, new = 0, 0, {}, {}, {}, {}, {}, {}
  local function entry(side, k)            -- a number, or the name of a vector of one
    if known[side] then return known[side][k + 1] end
    return x:op('Slice', { x:index(n, 1 + side), x:ints { k }, x:ints { k + 1 } })
  end
  for k = 0, entries - 1 do
    if bit(mask 'ellipsis', k) then
      local skipped = (n:rank(1) or n:refuse('the rank of its input is not known')) - named
      axis, place = axis + skipped, place + skipped
    elseif bit(mask 'new_axis', k) then
      new[#new + 1] = place
      place = place + 1
    elseif bit(mask 'shrink_axis', k) then
      local i = entry(1, k)
      shrunk[#shrunk + 1] = { axis, type(i) == 'number' and x:number(i, INT64) or x:op('Squeeze', { i }) }
      axis = axis + 1
    else
      local back = strides[k + 1] < 0
      axes[#axes + 1], steps[#steps + 1] = axis, strides[k + 1]
      from[#from + 1] = bit(mask 'begin', k) and (back and FAR or 0) or entry(1, k)
      to[#to + 1] = bit(mask 'end', k) and (back and -FAR or FAR) or entry(2, k)
      axis, place = axis + 1, place + 1
    end
  end
  local function vector(list)
    local plain = true
    for _, v in ipairs(list) do plain = plain and type(v) == 'number' end
    if plain then return x:ints(list) end
    local parts = {}
    for i, v in ipairs(list) do parts[i] = type(v) == 'number' and x:ints { v } or v end
    return x:op('Concat', parts, { axis = I(0) })
  end
  local y = n[1]
  if #axes > 0 then y = x:op('Slice', { y, vector(from), vector(to), x:ints(axes), x:ints(steps) }) end
  for i = #shrunk, 1, -1 do y = x:op('Gather', { y, shrunk[i][2] }, { axis = I(shrunk[i][1]) }) end
  if #new > 0 then y = x:op('Unsqueeze', { y, x:ints(new) }) end
  return y
end

--- Zeros, with dy where the slice of an array of places says.
function M.StridedSliceGrad(x, n)
  local dims, d, shape = x:index(n, 1), n:d(5), core.output_shape(n.handle, n.node, 0)
  local size = x:op('ReduceProd', { dims }, { keepdims = I(0) })
  local places = x:op('Reshape', { x:op('Range', { x:number(0, INT64), size, x:number(1, INT64) }), dims })
  local at = M.StridedSlice(x, setmetatable({ places, rank = function() return shape and #shape end }, { __index = n }))
  local zeros = x:op('Expand', { x:number(0, d), x:op('Reshape', { size, x:ints{ 1 } }) })
  local function flat(v) return x:op('Reshape', { v, x:ints{ -1 } }) end
  return x:op('Reshape', { x:op('ScatterElements', { zeros, flat(at), flat(n[5]) }), dims })
end

--- Zeros with so many places along the last axis, and x added at these.
function M.PutAlong(x, n)
  local outer = x:op('Slice', { x:op('Shape', { n[2] }), x:ints{ 0 }, x:ints{ -1 } })
  local shape = x:op('Concat', { outer, x:op('Reshape', { x:index(n, 3), x:ints{ 1 } }) }, { axis = I(0) })
  local zeros = x:op('Expand', { x:number(0, n:d(1)), shape })
  return x:op('ScatterElements', { zeros, x:index(n, 2), n[1] }, { axis = I(-1), reduction = S 'add' })
end

function M.Tile(x, n) return x:op('Tile', { n[1], x:index(n, 2) }) end

local function pad(x, n, value, mode)
  local given = n:numbers(2)
  local pads
  if given then
    local list = {}
    for i = 1, #given, 2 do list[#list + 1] = given[i] end
    for i = 2, #given, 2 do list[#list + 1] = given[i] end
    pads = x:ints(list)
  else
    pads = x:op('Reshape', { x:op('Transpose', { x:index(n, 2) }, { perm = L { 1, 0 } }), x:ints { -1 } })
  end
  return x:op('Pad', { n[1], pads, value }, { mode = S(mode) })
end
function M.Pad(x, n) return pad(x, n, nil, 'constant') end
function M.PadV2(x, n) return pad(x, n, n[3], 'constant') end
function M.MirrorPad(x, n)
  if n.attr 'mode' ~= 'REFLECT' then n:refuse("ONNX repeats no edge (mode 'SYMMETRIC')") end
  return pad(x, n, nil, 'reflect')
end

function M.ReverseV2(x, n)
  local axes = n:numbers(2) or n:refuse('its axes are known only when it runs')
  local from, to, steps = {}, {}, {}
  for i = 1, #axes do from[i], to[i], steps[i] = FAR, -FAR, -1 end
  return #axes == 0 and n[1] or x:op('Slice', { n[1], x:ints(from), x:ints(to), x:ints(axes), x:ints(steps) })
end

function M.ReverseSequence(x, n)
  local time, batch = n.attr 'seq_dim', n.attr 'batch_dim'
  if time + batch ~= 1 or time * batch ~= 0 then n:refuse('in ONNX time and batch are the axes 0 and 1') end
  return x:op('ReverseSequence', { n[1], x:index(n, 2) }, { time_axis = I(time), batch_axis = I(batch) })
end

function M.Where(x, n)
  return x:op('Transpose', { x:op('NonZero', { n[1] }) }, { perm = L { 1, 0 } })
end

local function unique(x, n)
  local names = x:op('Unique', { x:cast(n[1], n:d(1) == INT32 and INT64 or n:d(1), n:d(1)) }, { sorted = I(0) }, 4)
  local d = n.attr 'out_idx'
  return { n:d(1) == INT32 and x:cast(names[1], INT32) or names[1], shape_as(x, names[3], d), shape_as(x, names[4], d) }
end
function M.Unique(x, n)
  local names = unique(x, n)
  return { names[1], names[2] }
end
M.UniqueWithCounts = unique

-- ---- by index -------------------------------------------------------------------------------------------------------
function M.GatherV2(x, n)
  if n.attr 'batch_dims' ~= 0 then n:refuse('batch_dims has no counterpart') end
  return x:op('Gather', { n[1], n[2] }, { axis = I(n:whole(3, 'axis')) })
end
function M.Gather(x, n) return x:op('Gather', { n[1], n[2] }, { axis = I(0) }) end
function M.GatherNd(x, n) return x:op('GatherND', { n[1], x:index(n, 2) }) end
function M.TakeAlong(x, n) return x:op('GatherElements', { n[1], n[2] }, { axis = I(-1) }) end
function M.ScatterNd(x, n)
  local zeros = x:op('Expand', { x:number(0, n:d(2)), x:index(n, 3) })
  return x:op('ScatterND', { zeros, x:index(n, 1), n[2] }, { reduction = S 'add' })
end
function M.TensorScatterUpdate(x, n) return x:op('ScatterND', { n[1], x:index(n, 2), n[3] }) end
function M.TensorScatterAdd(x, n) return x:op('ScatterND', { n[1], x:index(n, 2), n[3] }, { reduction = S 'add' }) end
function M.TensorScatterSub(x, n)
  return x:op('ScatterND', { n[1], x:index(n, 2), x:op('Neg', { n[3] }) }, { reduction = S 'add' })
end

function M.OneHot(x, n)
  local axis, rank = n.attr 'axis', n:rank(1)
  local known = axis ~= -1 and axis ~= rank and (rank or n:refuse('the rank of its indices is not known')) or nil
  local hot = hot_places(x, x:cast(n[1], INT64, n:d(1)), x:cast(n[2], INT64, n:d(2)), axis, known)
  return where(x, hot, n[3], n[4], n:d(3))
end

local help = { where = where, widened = widened, windowed = windowed, small = small, places_of = places_of,
               channels_second = channels_second, channels_back = channels_back, from_to = from_to }
require 'dflow.exchange.onnx.forms'(M, help)
require 'dflow.exchange.onnx.windows_grad'(M, help)

return M
