--- Calls of kernels at the sizes where these change their ways: odd ends of vectors, blocks and panels, parts for another thread, axes in front and
-- behind, windows that hang over; and what their attributes choose. For spec/ops/cases_spec.lua.
--
-- { op =, inputs = { … }, attrs = { … }, rtol = } in `list`. An input that is a Tensor is fed; {const = v, dtype =} stands in the graph.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local support = require 'spec.support'

local list, seed = {}, 0
local unpack = table.unpack or unpack

--- An input that is made when it is asked for, each time the same: a test makes those that it feeds.
local function later(make)
  seed = seed + 1
  local own = seed
  return { make = function() return make(own) end }
end
--- Numbers: floats from low to high, whole ones, truth values, complex ones, and any of these.
local function F(shape, dtype, low, high)
  return later(function(own) return support.tensor(shape, low or -2, high or 2, dtype or 'float32', own) end)
end
local function I(shape, low, high, dtype)
  return later(function(own)
    local n = 1
    for _, d in ipairs(shape) do n = n * d end
    local whole = support.numbers(n, low, high + 1, own)
    for i = 1, n do whole[i] = math.floor(whole[i]) end
    return df.tensor(whole, dtype or 'int32', shape)
  end)
end
local function B(shape)
  local from = I(shape, 0, 1)
  return later(function() return from.make():astype 'bool' end)
end
--- Each row of an input in order.
local function sorted(x)
  return later(function()
    local t = x.make()
    local all, n, rows = t:list(), t.shape[t.rank], {}
    for at = 1, #all, n do
      local row = {}
      for i = 0, n - 1 do row[i + 1] = all[at + i] end
      table.sort(row)
      for i = 1, n do rows[at + i - 1] = row[i] end
    end
    return df.tensor(rows, t.dtype, t.shape)
  end)
end
local function K(v, dtype) return { const = v, dtype = dtype or 'int32' } end
local function C(shape, dtype)
  local part = dtype == 'complex128' and 'float64' or 'float32'
  local re, im = F(shape, part), F(shape, part)
  return later(function() return df.run(df.complex(df.constant(re.make()), df.constant(im.make())), nil, { tensors = true }) end)
end
--- What a graph makes of inputs.
local function made(fn, ...)
  local from = { ... }
  return later(function()
    local xs = {}
    for i, x in ipairs(from) do xs[i] = df.constant(x.make()) end
    return df.run(fn(unpack(xs)), nil, { tensors = true })
  end)
end
local function case(op, inputs, attrs, rtol) list[#list + 1] = { op = op, inputs = inputs, attrs = attrs, rtol = rtol } end

local whole = { 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64' }
local numeric = { 'float32', 'float64', 'float16', 'bfloat16', unpack(whole) }
local function any(shape, dtype, low, high)
  if dtype:find '^complex' then return C(shape, dtype) end
  if dtype == 'bool' then return B(shape) end
  if dtype:find '^u?int' then return I(shape, dtype:find '^u' and math.max(0, low or 0) or low or -9, high or 9, dtype) end
  return F(shape, dtype, low, high)
end

-- ---- elementwise ----------------------------------------------------------------------------------------------------
for _, n in ipairs{ 23, 24, 25, 511, 513, 1061, 33000 } do
  case('Tanh', { F{ n } })
  case('Add', { F{ n }, F{ n } })
  case('Mul', { F({ n }, 'float64'), F({ 1 }, 'float64') })
  case('Less', { I({ n }, -4, 4), I({ 1 }, 0, 0) })
  case('SelectV2', { B{ n }, F{ n }, F{ 1 } })
  case('Cast', { F{ n } }, { DstT = 'int32' })
  case('ClipByValue', { F{ n }, F({}, nil, -1, -1), F({}, nil, 1, 1) })
  case('AddN', { { F{ n }, F{ n }, F{ n } } })
  case('FloorMod', { I({ n }, -90, 90), I({ n }, 1, 9) })
end
for _, dtype in ipairs(numeric) do
  for _, s in ipairs{ { { 3, 1, 37 }, { 1, 5, 37 } }, { { 64, 1 }, { 1, 65 } }, { { 7, 600 }, { 600 } }, { { 600, 7 }, { 600, 1 } }, { { 5, 3, 2, 9 }, { 3, 1, 9 } },
                      { {}, { 9, 70 } }, { { 4, 1, 1, 33 }, { 1, 6, 7, 1 } } } do
    case('Sub', { any(s[1], dtype, 9, 20), any(s[2], dtype, 0, 9) })
  end
  for _, op in ipairs{ 'Add', 'Mul', 'Maximum', 'Minimum', 'SquaredDifference', 'Equal', 'NotEqual', 'Less', 'LessEqual', 'Greater', 'GreaterEqual' } do
    case(op, { any({ 5, 131 }, dtype, 0, 9), any({ 131 }, dtype, 0, 9) })
  end
  for _, op in ipairs{ 'FloorDiv', 'FloorMod', 'TruncateDiv', 'Div' } do case(op, { any({ 2, 131 }, dtype, -60, 60), any({ 2, 131 }, dtype, 1, 7) }, nil, 1e-2) end
  for _, to in ipairs(numeric) do case('Cast', { any({ 77 }, dtype, 0, 100) }, { DstT = to }) end
  case('Cast', { any({ 77 }, dtype, 0, 2) }, { DstT = 'bool' })
  case('Cast', { B{ 77 } }, { DstT = dtype })
  case('Select', { B{ 9 }, any({ 9, 5, 3 }, dtype), any({ 9, 5, 3 }, dtype) })
  case('SelectV2', { B{ 9, 1 }, any({ 9, 65 }, dtype), any({ 65 }, dtype) })
  case('SelectV2', { B{ 5, 7 }, any({}, dtype), any({ 5, 7 }, dtype) })
  case('AddN', { { any({ 70 }, dtype, 0, 9), any({ 70 }, dtype, 0, 9), any({ 70 }, dtype, 0, 9), any({ 70 }, dtype, 0, 9) } })
end
for _, dtype in ipairs(whole) do
  for _, op in ipairs{ 'BitwiseAnd', 'BitwiseOr', 'BitwiseXor', 'LeftShift', 'RightShift' } do case(op, { I({ 3, 70 }, 0, 99, dtype), I({ 70 }, 0, 6, dtype) }) end
  case('Invert', { I({ 70 }, 0, 99, dtype) })
end
for _, op in ipairs{ 'LogicalAnd', 'LogicalOr', 'LogicalXor' } do case(op, { B{ 5, 67 }, B{ 67 } }) end
for _, dtype in ipairs{ 'complex64', 'complex128' } do
  for _, op in ipairs{ 'Add', 'Sub', 'Mul', 'RealDiv', 'Equal', 'NotEqual', 'SquaredDifference', 'Pow' } do case(op, { C({ 3, 71 }, dtype), C({ 71 }, dtype) }, nil, 1e-4) end
  for _, op in ipairs{ 'Neg', 'Square', 'Sqrt', 'Exp', 'Log', 'Sin', 'Cos', 'Tanh', 'Conj', 'Reciprocal', 'Sigmoid', 'Sinh', 'Cosh', 'Tan', 'Rsqrt', 'Log1p', 'Expm1' } do
    case(op, { C({ 71 }, dtype) }, nil, 1e-4)
  end
  for _, op in ipairs{ 'Real', 'Imag', 'ComplexAbs', 'Angle' } do case(op, { C({ 71 }, dtype) }, { Tout = dtype == 'complex64' and 'float32' or 'float64' }) end
end

-- ---- functions of numbers, where they are nothing special and where they are --------------------------------------------
local special = { 0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2, -2, 3, -3.25, 9, 40.5, -40.5, 2 ^ -10, -2 ^ -10, 6e4, -6e4, 1 / 0, -1 / 0, 0 / 0 }
--- All of them, or all pairs: the first or the second of each.
local function specials(dtype, side)
  return later(function()
    local all = {}
    for i, a in ipairs(special) do
      for j, b in ipairs(side and special or { 1 }) do all[#all + 1] = (not side or side == 1) and a or side == 2 and b or i + j end
    end
    return df.tensor(all, dtype)
  end)
end
for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'bfloat16' } do
  for _, op in ipairs(support.elementwise(1, dtype)) do
    case(op, { F({ 71 }, dtype, -3, 3) }, nil, 1e-4)
    case(op, { F({ 517 }, dtype, 0.01, 0.99) }, nil, 1e-4)
    if op ~= 'CheckNumerics' then case(op, { specials(dtype) }, nil, 1e-4) end
  end
end
for _, dtype in ipairs{ 'float32', 'float64' } do
  for _, op in ipairs(support.elementwise(2, dtype)) do
    case(op, { F({ 71 }, dtype, 0.1, 3), F({ 71 }, dtype, -2, 3) }, nil, 1e-4)
    case(op, { specials(dtype, 1), specials(dtype, 2) }, nil, 1e-4)
  end
end
for _, dtype in ipairs{ 'int8', 'int16', 'int32', 'int64' } do
  local low = -2 ^ (tonumber(dtype:match '%d+') - 1)
  local ends = { low, low + 1, -2, -1, 0, 1, 2, 7, -(low + 1) > 2 ^ 53 and 2 ^ 53 or -(low + 1) }
  local function all(side)
    return later(function()
      local values = {}
      for _, a in ipairs(ends) do
        for _, b in ipairs(ends) do values[#values + 1] = ('%.0f'):format(side == 1 and a or b == 0 and side == 2 and 3 or b) end
      end
      return df.run(df.string_to_number(df.constant(values, 'string'), { out_type = 'int64' }), nil, { tensors = true }):astype(dtype)
    end)
  end
  for _, op in ipairs{ 'Add', 'Sub', 'Mul', 'Maximum', 'Minimum', 'Less', 'SquaredDifference' } do case(op, { all(1), all(3) }) end
  for _, op in ipairs{ 'FloorDiv', 'FloorMod', 'TruncateDiv', 'Mod', 'TruncateMod' } do
    if op ~= 'Mod' and op ~= 'TruncateMod' or dtype:find '[36]' then case(op, { all(1), all(2) }) end
  end
  for _, op in ipairs{ 'Abs', 'Neg', 'Sign', 'Square' } do case(op, { all(1) }) end
end

-- ---- folds ------------------------------------------------------------------------------------------------------------
local folded = { { { 37 }, { 0 } }, { { 3, 131 }, { 1 } }, { { 131, 3 }, { 0 } }, { { 5, 7, 11 }, { 1 } }, { { 5, 7, 11 }, { 0, 2 } }, { { 1, 1030 }, { 0 } },
    { { 300, 257 }, { 0 } },
                 { { 257, 300 }, { 1 } }, { { 3, 4, 5, 6 }, { 1, 3 } }, { { 2, 9 }, {} }, { { 0, 3 }, { 0 } }, { { 3, 0 }, { 0 } }, { { 70001 }, { 0 } },
                 { { 3, 9, 300 }, { 1 } }, { { 5, 131, 517 }, { 1 } }, { { 2, 3, 4, 270 }, { 1, 2 } }, { { 35000, 2 }, { 0 } },
                 { { 3, 4000, 6 }, { 1 } }, { { 3, 4000, 6 }, { 0, 2 } } }
for _, op in ipairs{ 'Sum', 'Mean', 'Max', 'Min', 'Prod', 'LogSumExp', 'EuclideanNorm' } do
  for i, f in ipairs(folded) do
    local near_one = op == 'Prod'
    local fold = K(f[2])
    if #f[2] == 0 then fold = later(function() return df.tensor({}, 'int32', { 0 }) end) end
    case(op, { F(f[1], nil, near_one and 0.98 or 0.1, near_one and 1.02 or 2), fold }, { keep_dims = i % 2 == 0 }, 1e-3)
    if i < 8 then case(op, { F(f[1], 'float64', near_one and 0.98 or 0.1, near_one and 1.02 or 2), fold }, nil, 1e-3) end
  end
end
for _, dtype in ipairs(numeric) do
  for _, op in ipairs{ 'Sum', 'Max', 'Min', 'Prod', 'Mean' } do
    case(op, { any({ 5, 41 }, dtype, 1, 2), K{ 1 } }, nil, 3e-2)
    case(op, { any({ 41, 5 }, dtype, 1, 2), K{ 0 } }, nil, 3e-2)
  end
  for _, op in ipairs{ 'ArgMax', 'ArgMin' } do
    for _, axis in ipairs{ 0, 1, -1 } do case(op, { any({ 5, 133, 3 }, dtype, 0, 60), K(axis) }, { output_type = axis == 0 and 'int32' or 'int64' }) end
    case(op, { any({ 40000 }, dtype, 0, 90), K(0) })
    case(op, { any({ 3, 130 }, dtype, 0, 90), K(0) })
  end
  for _, op in ipairs{ 'Cumsum', 'Cumprod' } do
    for i = 0, 3 do
      case(op, { any({ 3, 5, 9 }, dtype, 1, 2), K(i % 3) }, { exclusive = i % 2 == 1, reverse = i > 1 }, 3e-2)
    end
  end
end
-- Each set of axes, of one dtype after the other.
for at, s in ipairs{ { 17, 33 }, { 2, 3, 4 }, { 2, 3, 1, 5 }, { 300, 5 }, { 3, 300 } } do
  for set = 1, 2 ^ #s - 1 do
    local axes, dtype = {}, numeric[(at * 5 + set) % #numeric + 1]
    for axis = 0, #s - 1 do if math.floor(set / 2 ^ axis) % 2 == 1 then axes[#axes + 1] = axis end end
    for _, op in ipairs{ 'Sum', 'Mean', 'Max', 'Min', 'Prod' } do case(op, { any(s, dtype, 1, 2), K(axes) }, { keep_dims = set % 2 == 0 }, 5e-2) end
  end
end
for _, dtype in ipairs{ 'int32', 'int64', 'float32', 'float64' } do
  for _, n in ipairs{ 1, 3, 8, 9, 16, 17, 65, 200 } do
    for _, op in ipairs{ 'ArgMax', 'ArgMin' } do
      case(op, { I({ 7, n }, -6, 6, dtype), K(1) })
      for _, v in ipairs{ -2147483648, 2147483647 } do case(op, { I({ 7, n }, v, v, dtype), K(1) }) end
    end
  end
end
for _, op in ipairs{ 'All', 'Any' } do
  for _, axis in ipairs{ 0, 1 } do case(op, { B{ 7, 70 }, K{ axis } }) end
  case(op, { B{ 7, 70, 3 }, K{ 0, 1 } }, { keep_dims = true })
end
case('Cumsum', { F{ 300, 301 }, K(0) }, nil, 1e-3)
case('Cumsum', { F{ 2, 33000 }, K(1) }, { reverse = true }, 1e-2)
case('LinearRecurrence', { F({ 5, 9 }, nil, -1, 1), F({ 5, 9 }, nil, -1, 1), K(0) })
case('LinearRecurrence', { F({ 5, 9 }, nil, -1, 1), F({ 5, 9 }, nil, -1, 1), K(1) }, { reverse = true })
local ends = later(function() return df.tensor({ -1 / 0, -1 / 0, -1 / 0, 1 / 0, 0, 1, 0 / 0, 0, 1, -1 / 0, 2, 3 }, 'float32', { 4, 3 }) end)
case('Softmax', { ends })
case('LogSoftmax', { ends })
for _, s in ipairs{ { 5, 7 }, { 3, 16 }, { 3, 17 }, { 2, 1025 }, { 70, 33 }, { 2, 3, 65 }, { 1, 33000 }, { 4, 1 }, { 4099, 3 } } do
  for _, dtype in ipairs{ 'float32', 'float64' } do
    case('Softmax', { F(s, dtype, -5, 5) })
    case('LogSoftmax', { F(s, dtype, -5, 5) })
  end
  if #s == 2 then
    case('SoftmaxCrossEntropyWithLogits', { F(s), F(s, nil, 0, 1) }, nil, 1e-4)
    case('SparseSoftmaxCrossEntropyWithLogits', { F(s), I({ s[1] }, 0, s[2] - 1) }, nil, 1e-4)
    case('SparseSoftmaxCrossEntropyWithLogits', { F(s, 'float64'), I({ s[1] }, 0, s[2] - 1, 'int64') }, nil, 1e-4)
    case('InTopKV2', { F(s), I({ s[1] }, 0, s[2] - 1), K(2) })
  end
end
for _, dtype in ipairs{ 'float16', 'bfloat16' } do
  case('Softmax', { F({ 5, 37 }, dtype, -5, 5) }, nil, 1e-2)
  case('LogSoftmax', { F({ 5, 37 }, dtype, -5, 5) }, nil, 1e-2)
  case('SoftmaxCrossEntropyWithLogits', { F({ 5, 37 }, dtype), F({ 5, 37 }, dtype, 0, 1) }, nil, 2e-2)
  case('SparseSoftmaxCrossEntropyWithLogits', { F({ 5, 37 }, dtype), I({ 5 }, 0, 36) }, nil, 2e-2)
end
for _, n in ipairs{ 1, 31, 33, 4097, 40001 } do
  for _, dtype in ipairs{ 'float32', 'float64' } do case('L2Loss', { F({ n }, dtype) }, nil, 1e-4) end
end

-- ---- the highest, and where ---------------------------------------------------------------------------------------------
for _, dtype in ipairs(numeric) do
  for _, s in ipairs{ { 9 }, { 4, 131 }, { 3, 5, 17 } } do
    for _, k in ipairs{ 1, 8, s[#s] } do
      if k <= s[#s] and s[#s] < 100 + k then case('TopKV2', { any(s, dtype, 0, 99), K(k) }, { sorted = true }) end
    end
  end
  case('LowerBound', { sorted(any({ 3, 70 }, dtype, 0, 60)), any({ 3, 9 }, dtype, 0, 60) })
  case('UpperBound', { sorted(any({ 3, 70 }, dtype, 0, 60)), any({ 3, 9 }, dtype, 0, 60) }, { out_type = 'int64' })
  case('UniqueWithCounts', { any({ 70 }, dtype, 0, 9) })
  case('Unique', { any({ 300 }, dtype, 0, 90) }, { out_idx = 'int64' })
  case('UniqueV2', { any({ 9, 2 }, dtype, 0, 1), K({ 0 }) })
  case('ListDiff', { any({ 70 }, dtype, 0, 30), any({ 9 }, dtype, 0, 30) })
  case('Where', { any({ 5, 3, 9 }, dtype, 0, 1) })
end
case('TopKV2', { F{ 2, 5000 }, K(5) })
for _, dtype in ipairs{ 'float32', 'float16', 'int64', 'int8' } do
  local span = dtype == 'int8' and 100 or 30000
  for _, k in ipairs{ 0, 2, 17, 50 } do case('TopKV2', { any({ 2, 3, 50 }, dtype, 0, 30), K(k) }) end
  for _, k in ipairs{ 6, 7, 60 } do case('TopKV2', { any({ 4, 60 }, dtype, 0, 5), K(k) }) end
  for _, k in ipairs{ 1, 300, 2100 } do case('TopKV2', { any({ 3, 2100 }, dtype, 0, span), K(k) }) end
  case('TopKV2', { any({ 9000 }, dtype, 0, span), K(9000) })
  case('LowerBound', { any({ 2, 40 }, dtype, -20, 20), any({ 2, 1 }, dtype, -22, 22) })
  for _, op in ipairs{ 'LowerBound', 'UpperBound' } do case(op, { sorted(any({ 2, 40 }, dtype, -20, 20)), sorted(any({ 2, 60 }, dtype, -22, 22)) }) end
  case('UpperBound', { any({ 2, 40 }, dtype, -20, 20), any({ 2, 60 }, dtype, -22, 22) })
end
for _, s in ipairs{ { 1 }, { 3, 1025 }, { 1025, 3 }, { 2, 3, 4, 1024 }, { 0, 3 }, { 4, 0 } } do
  for _, ends in ipairs{ { 0, 0 }, { 0, 1 }, { 1, 1 } } do case('Where', { I(s, ends[1], ends[2]) }) end
end
case('TopKV2', { F{ 2, 300 }, K(200) })
case('TopKV2', { F{ 3, 200 }, K(40) }, { sorted = true })
case('Unique', { I({ 1500 }, 0, 1200) })
case('Where', { B{ 4000 } })
case('Where', { B{ 9, 70, 3 } })

-- ---- products -------------------------------------------------------------------------------------------------------------
local sizes = { { 1, 1, 1 }, { 1, 9, 33 }, { 9, 1, 33 }, { 33, 9, 1 }, { 5, 7, 3 }, { 8, 16, 32 }, { 9, 17, 33 }, { 31, 65, 47 }, { 65, 300, 33 },
    { 7, 600, 129 }, { 130, 129, 131 },
                { 257, 40, 70 }, { 3, 1030, 5 }, { 200, 2, 200 }, { 130, 515, 120 }, { 520, 40, 530 }, { 5, 7, 54000 }, { 261, 397, 1031 },
                { 1203, 193, 259 }, { 1, 420, 210 }, { 420, 210, 1 }, { 21, 203, 1030 } }
for i, s in ipairs(sizes) do
  for t = 0, 3 do
    local ta, tb = t % 2 == 1, t > 1
    for _, dtype in ipairs{ 'float32', 'float64' } do
      if i < 12 or (t + i) % 2 == 0 then
        case('MatMul', { F(ta and { s[2], s[1] } or { s[1], s[2] }, dtype), F(tb and { s[3], s[2] } or { s[2], s[3] }, dtype) }, { transpose_a = ta, transpose_b = tb }, 1e-3)
      end
    end
  end
end
for _, dtype in ipairs{ 'float16', 'bfloat16', 'int32', 'int64', 'complex64', 'complex128' } do
  for _, s in ipairs{ { 3, 5, 7 }, { 17, 33, 9 }, { 40, 70, 35 }, { 70, 210, 200 }, { 13, 17, 65 } } do
    for t = 0, 3 do
      local ta, tb = t % 2 == 1, t > 1
      case('MatMul', { any(ta and { s[2], s[1] } or { s[1], s[2] }, dtype, 0, 3), any(tb and { s[3], s[2] } or { s[2], s[3] }, dtype, 0, 3) },
        { transpose_a = ta, transpose_b = tb }, 3e-2)
    end
  end
end
for _, dtype in ipairs{ 'int32', 'int64' } do                -- sums that wrap
  for _, s in ipairs{ { 1, 1, 1 }, { 3, 5, 70 }, { 4, 9, 16 }, { 5, 1, 33 }, { 37, 53, 47 } } do
    for t = 0, 3 do
      local ta, tb = t % 2 == 1, t > 1
      case('MatMul', { I(ta and { s[2], s[1] } or { s[1], s[2] }, -2e9, 2e9, dtype), I(tb and { s[3], s[2] } or { s[2], s[3] }, -2e9, 2e9, dtype) },
        { transpose_a = ta, transpose_b = tb })
    end
  end
end
for _, s in ipairs{ { { 3, 4, 5 }, { 5, 6 } }, { { 0, 4, 5 }, { 1, 5, 6 } }, { { 2, 3, 4, 5 }, { 3, 5, 6 } }, { { 3, 5, 7 }, { 3, 7, 9 } }, { { 2, 1, 5, 7 }, { 3, 7, 2 } }, { { 40, 17, 33 }, { 40, 33, 19 } }, { { 5, 7 }, { 4, 7, 3 } },
                    { { 3, 64, 65 }, { 1, 65, 66 } } } do
  for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'complex64', 'bfloat16' } do case('BatchMatMulV2', { any(s[1], dtype), any(s[2], dtype) }, nil, 5e-2) end
  local function turned(t) local u = {} for i, d in ipairs(t) do u[i] = d end u[#u], u[#u - 1] = u[#u - 1], u[#u] return u end
  case('BatchMatMulV2', { F(turned(s[1])), F(s[2]) }, { adj_x = true }, 1e-3)
  case('BatchMatMulV2', { F(s[1]), F(turned(s[2])) }, { adj_y = true }, 1e-3)
  case('BatchMatMulV2', { C(turned(s[1]), 'complex64'), C(turned(s[2]), 'complex64') }, { adj_x = true, adj_y = true }, 1e-3)
end
for _, e in ipairs{ { 'ij,jk->ik', { 5, 7 }, { 7, 9 } }, { 'bij,bkj->bik', { 3, 5, 7 }, { 3, 4, 7 } }, { 'ij->ji', { 5, 7 } }, { 'ii->i', { 9, 9 } }, { 'ii->', { 9, 9 } },
                    { 'ij->j', { 65, 33 } }, { 'i,j->ij', { 33 }, { 35 } }, { 'ij,ij->', { 5, 70 }, { 5, 70 } }, { 'abc,cd->abd', { 3, 4, 33 }, { 33, 17 } },
                    { 'ab,cb,db->acd', { 2, 5 }, { 3, 5 }, { 4, 5 } },
                    { '...ij,...jk->...ik', { 2, 3, 5, 7 }, { 3, 7, 2 } }, { 'abcd,dcba->ab', { 2, 3, 4, 5 }, { 5, 4, 3, 2 } }, { 'iij,j->i', { 5, 5, 9 }, { 9 } },
                    { 'abc->cab', { 17, 9, 33 } }, { 'ab,a->b', { 70, 33 }, { 70 } }, { 'abc,abd->cd', { 7, 9, 17 }, { 7, 9, 18 } } } do
  for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'complex64' } do
    local tensors = {}
    for i = 2, #e do tensors[i - 1] = any(e[i], dtype) end
    case('Einsum', { tensors }, { equation = e[1] }, 1e-3)
  end
end

-- ---- windows ----------------------------------------------------------------------------------------------------------------
local function sizes_of(n, window, stride, dilation, same)
  if same then return math.ceil(n / stride) end
  return math.floor((n - (window - 1) * dilation - 1) / stride) + 1
end
for _, w in ipairs{ { x = { 2, 7, 9, 3 }, f = { 3, 2, 3, 5 }, s = { 1, 1 }, d = { 1, 1 } }, { x = { 1, 12, 11, 4 }, f = { 3, 3, 4, 17 }, s = { 2, 3 }, d = { 1, 1 } },
                    { x = { 2, 9, 9, 2 }, f = { 2, 3, 2, 4 }, s = { 1, 1 }, d = { 2, 3 } }, { x = { 3, 5, 5, 33 }, f = { 1, 1, 33, 34 }, s = { 1, 1 }, d = { 1, 1 } },
                    { x = { 2, 17, 19, 16 }, f = { 5, 3, 16, 32 }, s = { 1, 2 }, d = { 1, 1 } }, { x = { 5, 30, 31, 8 }, f = { 3, 3, 8, 9 }, s = { 1, 1 }, d = { 1, 1 } } } do
  for _, padding in ipairs{ 'SAME', 'VALID' } do
    for _, dtype in ipairs{ 'float32', 'float64' } do
      local same = padding == 'SAME'
      local h, v = sizes_of(w.x[2], w.f[1], w.s[1], w.d[1], same), sizes_of(w.x[3], w.f[2], w.s[2], w.d[2], same)
      local attrs = { strides = { 1, w.s[1], w.s[2], 1 }, padding = padding, dilations = { 1, w.d[1], w.d[2], 1 } }
      local y = { w.x[1], h, v, w.f[4] }
      case('Conv2D', { F(w.x, dtype), F(w.f, dtype) }, attrs, 1e-3)
      case('Conv2DBackpropInput', { K(w.x), F(w.f, dtype), F(y, dtype) }, attrs, 1e-3)
      case('Conv2DBackpropFilter', { F(w.x, dtype), K(w.f), F(y, dtype) }, attrs, 1e-3)
      if w.x[4] * w.f[4] < 80 and (w.s[1] == w.s[2] or w.d[1] == 1) and w.s[1] == w.s[2] then
        local many = { w.x[1], h, v, w.f[3] * w.f[4] }
        case('DepthwiseConv2dNative', { F(w.x, dtype), F(w.f, dtype) }, attrs, 1e-3)
        case('DepthwiseConv2dNativeBackpropInput', { K(w.x), F(w.f, dtype), F(many, dtype) }, attrs, 1e-3)
        case('DepthwiseConv2dNativeBackpropFilter', { F(w.x, dtype), K(w.f), F(many, dtype) }, attrs, 1e-3)
      end
      if w.d[1] == 1 then
        local pool = { ksize = { 1, w.f[1], w.f[2], 1 }, strides = attrs.strides, padding = padding }
        local p = { w.x[1], h, v, w.x[4] }
        local image = F(w.x, dtype)
        case('MaxPool', { image }, pool)
        case('AvgPool', { F(w.x, dtype) }, pool, 1e-4)
        case('AvgPoolGrad', { K(w.x), F(p, dtype) }, pool, 1e-4)
        local most = made(function(v) return (registry.op('MaxPool', { v }, pool)) end, image)
        case('MaxPoolGrad', { image, most, F(p, dtype) }, pool, 1e-4)
        case('MaxPoolGradGrad', { image, most, F(w.x, dtype) }, pool, 1e-4)
      end
    end
  end
end
for _, dtype in ipairs{ 'float32', 'float64' } do
  local pads = { 0, 0, 1, 2, 3, 0, 0, 0 }
  local attrs = { strides = { 1, 1, 1, 1 }, padding = 'EXPLICIT', explicit_paddings = pads }
  case('Conv2D', { F({ 2, 6, 5, 3 }, dtype), F({ 3, 2, 3, 4 }, dtype) }, attrs, 1e-3)
  case('Conv2DBackpropInput', { K{ 2, 6, 5, 3 }, F({ 3, 2, 3, 4 }, dtype), F({ 2, 7, 7, 4 }, dtype) }, attrs, 1e-3)
  case('Conv2DBackpropFilter', { F({ 2, 6, 5, 3 }, dtype), K{ 3, 2, 3, 4 }, F({ 2, 7, 7, 4 }, dtype) }, attrs, 1e-3)
  case('DepthwiseConv2dNative', { F({ 2, 6, 5, 3 }, dtype), F({ 3, 2, 3, 2 }, dtype) }, attrs, 1e-3)
end
for _, w in ipairs{ { x = { 2, 5, 4, 6, 3 }, f = { 3, 2, 3, 3, 4 }, s = { 1, 1, 1 }, d = { 1, 1, 1 } },
                    { x = { 1, 7, 6, 5, 4 }, f = { 2, 3, 2, 2, 6 }, s = { 2, 1, 3 }, d = { 1, 1, 1 } },
                    { x = { 3, 6, 5, 5, 2 }, f = { 2, 2, 3, 1, 4 }, s = { 1, 1, 1 }, d = { 3, 2, 1 } },
                    { x = { 2, 4, 1, 1, 5 }, f = { 1, 1, 1, 5, 3 }, s = { 1, 1, 1 }, d = { 1, 1, 1 } } } do
  for _, padding in ipairs{ 'SAME', 'VALID' } do
    for _, dtype in ipairs{ 'float32', 'float64', 'float16' } do
      local y, p, tol = { w.x[1] }, { w.x[1] }, dtype == 'float16' and 2e-2 or 1e-3
      for i = 1, 3 do
        y[i + 1] = sizes_of(w.x[i + 1], w.f[i], w.s[i], w.d[i], padding == 'SAME')
        p[i + 1] = sizes_of(w.x[i + 1], w.f[i], w.s[i], 1, padding == 'SAME')
      end
      y[5], p[5] = w.f[5], w.x[5]
      local function each(list) return { 1, list[1], list[2], list[3], 1 } end
      local attrs = { strides = each(w.s), padding = padding, dilations = each(w.d) }
      case('Conv3D', { F(w.x, dtype), F(w.f, dtype) }, attrs, tol)
      case('Conv3DBackpropInputV2', { K(w.x), F(w.f, dtype), F(y, dtype) }, attrs, tol)
      case('Conv3DBackpropFilterV2', { F(w.x, dtype), K(w.f), F(y, dtype) }, attrs, tol)
      local pool, image = { ksize = each(w.f), strides = each(w.s), padding = padding }, F(w.x, dtype)
      case('MaxPool3D', { image }, pool)
      case('AvgPool3D', { F(w.x, dtype) }, pool, tol)
      case('AvgPool3DGrad', { K(w.x), F(p, dtype) }, pool, tol)
      local most = made(function(v) return (registry.op('MaxPool3D', { v }, pool)) end, image)
      case('MaxPool3DGrad', { image, most, F(p, dtype) }, pool, tol)
      case('MaxPool3DGradGrad', { image, most, F(w.x, dtype) }, pool, tol)
    end
  end
end
do                                                            -- one channel for each
  local attrs = { strides = { 1, 2, 1, 1 }, padding = 'SAME' }
  case('DepthwiseConv2dNative', { F{ 2, 7, 9, 5 }, F{ 3, 3, 5, 1 } }, attrs, 1e-5)
  case('DepthwiseConv2dNativeBackpropInput', { K{ 2, 7, 9, 5 }, F{ 3, 3, 5, 1 }, F{ 2, 4, 9, 5 } }, attrs, 1e-5)
  case('DepthwiseConv2dNativeBackpropFilter', { F{ 2, 7, 9, 5 }, K{ 3, 3, 5, 1 }, F{ 2, 4, 9, 5 } }, attrs, 1e-5)
end
for _, dtype in ipairs{ 'float16', 'bfloat16' } do
  local attrs = { strides = { 1, 1, 1, 1 }, padding = 'SAME' }
  local pool = { ksize = { 1, 2, 2, 1 }, strides = { 1, 2, 2, 1 }, padding = 'SAME' }
  case('Conv2D', { F({ 1, 5, 6, 3 }, dtype), F({ 2, 3, 3, 4 }, dtype) }, attrs, 2e-2)
  case('DepthwiseConv2dNative', { F({ 1, 5, 6, 3 }, dtype), F({ 2, 3, 3, 2 }, dtype) }, attrs, 2e-2)
  case('MaxPool', { F({ 1, 5, 6, 3 }, dtype) }, pool)
  case('AvgPool', { F({ 1, 5, 6, 3 }, dtype) }, pool, 1e-2)
  case('AvgPoolGrad', { K{ 1, 5, 6, 3 }, F({ 1, 3, 3, 3 }, dtype) }, pool, 1e-2)
end
for _, radius in ipairs{ 1, 2, 5 } do
  case('LRN', { F{ 1, 2, 3, 9 } }, { depth_radius = radius, bias = 1.5, alpha = 0.3, beta = 0.75 }, 1e-4)
end

-- ---- images ---------------------------------------------------------------------------------------------------------------------
for _, corners in ipairs{ false, true } do
  for _, centers in ipairs{ false, true } do
    if not (corners and centers) then
      local attrs = { align_corners = corners, half_pixel_centers = centers }
      for _, to in ipairs{ { 5, 3 }, { 11, 16 }, { 1, 1 } } do
        for _, op in ipairs{ 'ResizeBilinear', 'ResizeBicubic' } do case(op, { F{ 2, 6, 7, 3 }, K(to) }, attrs, 1e-4) end
        case('ResizeNearestNeighbor', { I({ 2, 6, 7, 3 }, 0, 99), K(to) }, attrs)
        case('ResizeBilinearGrad', { F{ 2, to[1], to[2], 3 }, F{ 2, 6, 7, 3 } }, attrs, 1e-4)
        case('ResizeBicubicGrad', { F{ 2, to[1], to[2], 3 }, F{ 2, 6, 7, 3 } }, attrs, 1e-4)
        case('ResizeNearestNeighborGrad', { F{ 2, to[1], to[2], 3 }, K{ 6, 7 } }, attrs, 1e-4)
        if not centers then case('ResizeArea', { F{ 2, 6, 7, 3 }, K(to) }, { align_corners = corners }, 1e-4) end
      end
      case('ResizeBilinear', { I({ 2, 6, 7, 3 }, 0, 99, 'uint8'), K{ 4, 9 } }, attrs, 1e-4)
    end
  end
end
for _, method in ipairs{ 'bilinear', 'nearest' } do
  local boxes, at = F({ 3, 4 }, nil, 0, 1.2), K{ 0, 1, 1 }
  case('CropAndResize', { F{ 2, 6, 7, 3 }, boxes, at, K{ 4, 5 } }, { method = method, extrapolation_value = 0.25 }, 1e-4)
  case('CropAndResizeGradImage', { F{ 3, 4, 5, 3 }, boxes, at, K{ 2, 6, 7, 3 } }, { T = 'float32', method = method }, 1e-4)
end
case('CropAndResizeGradBoxes', { F{ 3, 4, 5, 3 }, F{ 2, 6, 7, 3 }, F({ 3, 4 }, nil, 0.1, 0.9), K{ 0, 1, 1 } }, nil, 1e-4)
do
  local corners, scores = F({ 30, 4 }, nil, 0, 1), F({ 30 }, nil, 0, 1)
  case('NonMaxSuppression', { corners, scores, K(9) }, { iou_threshold = 0.3 })
  case('NonMaxSuppressionV2', { corners, scores, K(9), K(0.2, 'float32') })
  case('NonMaxSuppressionV3', { corners, scores, K(30), K(0.1, 'float32'), K(0.4, 'float32') })
  case('NonMaxSuppressionV4', { corners, scores, K(40), K(0.1, 'float32'), K(0.4, 'float32') }, { pad_to_max_output_size = true })
end
case('AdjustContrastv2', { F{ 2, 5, 6, 3 }, K(1.7, 'float32') }, nil, 1e-4)

-- ---- moves -------------------------------------------------------------------------------------------------------------------------
for _, dtype in ipairs{ 'int8', 'int16', 'float32', 'float64', 'complex128', 'bool' } do
  for _, p in ipairs{ { { 33, 65 }, { 1, 0 } }, { { 5, 7, 9 }, { 2, 0, 1 } }, { { 5, 7, 9 }, { 0, 2, 1 } }, { { 3, 1, 17, 4 }, { 3, 2, 1, 0 } },
      { { 4, 6, 5, 3 }, { 0, 2, 1, 3 } }, { { 130, 129 }, { 1, 0 } },
                      { { 2, 3, 4, 5, 6 }, { 4, 2, 0, 3, 1 } } } do
    case('Transpose', { any(p[1], dtype), K(p[2]) })
  end
  case('ConcatV2', { { any({ 3, 5 }, dtype), any({ 3, 1 }, dtype), any({ 3, 9 }, dtype) }, K(1) })
  case('ConcatV2', { { any({ 2, 3, 5 }, dtype), any({ 2, 4, 5 }, dtype) }, K(-2) })
  case('Pack', { { any({ 3, 5 }, dtype), any({ 3, 5 }, dtype), any({ 3, 5 }, dtype) } }, { axis = 1 })
  case('Unpack', { any({ 3, 5, 2 }, dtype) }, { num = 5, axis = 1 })
  case('Split', { K(1), any({ 3, 6, 2 }, dtype) }, { num_split = 3 })
  case('SplitV', { any({ 3, 6, 2 }, dtype), K{ 1, -1, 2 }, K(1) }, { num_split = 3 })
  case('Tile', { any({ 3, 5, 2 }, dtype), K{ 2, 1, 3 } })
  case('Reverse', { any({ 3, 5, 2 }, dtype), K({ true, false, true }, 'bool') })
  case('ReverseV2', { any({ 3, 33 }, dtype), K{ 1 } })
  case('ReverseSequence', { any({ 4, 7, 3 }, dtype), K{ 7, 0, 3, 1 } }, { seq_dim = 1, batch_dim = 0 })
  case('ReverseSequence', { any({ 7, 4, 3 }, dtype), K{ 7, 0, 3, 1 } }, { seq_dim = 0, batch_dim = 1 })
  case('Roll', { any({ 5, 9 }, dtype), K{ 2, -4 }, K{ 0, 1 } })
  case('PadV2', { any({ 3, 5, 2 }, dtype), K{ { 1, 2 }, { 0, 3 }, { 1, 0 } }, any({}, dtype) })
  case('MirrorPad', { any({ 5, 6 }, dtype), K{ { 1, 2 }, { 3, 4 } } }, { mode = 'REFLECT' })
  case('MirrorPad', { any({ 60 }, dtype), K{ { 7, 59 } } }, { mode = 'REFLECT' })
  case('MirrorPad', { any({ 3, 4, 5 }, dtype), K{ { 2, 1 }, { 0, 3 }, { 4, 2 } } }, { mode = 'SYMMETRIC' })
  case('ReverseV2', { any({ 3, 77 }, dtype), K{ 0, 1 } })
  for width = 1, 9 do                                         -- rows of a few elements
    local x = any({ 3, 5, width }, dtype)
    case('Transpose', { x, K{ 1, 0, 2 } })
    case('ConcatV2', { { x, x }, K(2) })
    case('ReverseV2', { x, K{ 1 } })
  end
  case('MirrorPad', { any({ 5, 6 }, dtype), K{ { 1, 2 }, { 3, 6 } } }, { mode = 'SYMMETRIC' })
  case('Slice', { any({ 5, 7, 3 }, dtype), K{ 1, 2, 0 }, K{ 3, -1, 2 } })
  case('StridedSlice', { any({ 9, 7, 3 }, dtype), K{ 8, 1, 0 }, K{ -10, 6, 3 }, K{ -2, 3, 1 } })
  case('StridedSlice', { any({ 9, 7, 3 }, dtype), K{ 2, 0, 1 }, K{ 3, 0, 2 }, K{ 1, 1, 1 } }, { ellipsis_mask = 2, shrink_axis_mask = 1 })
  case('StridedSlice', { any({ 9, 7 }, dtype), K{ 2, 0, 1 }, K{ 7, 0, 5 }, K{ 2, 1, 2 } }, { begin_mask = 1, end_mask = 4, new_axis_mask = 2 })
  case('BroadcastTo', { any({ 3, 1, 5 }, dtype), K{ 2, 3, 4, 5 } })
  case('SpaceToBatchND', { any({ 2, 5, 7, 3 }, dtype), K{ 2, 3 }, K{ { 1, 0 }, { 0, 2 } } })
  case('BatchToSpaceND', { any({ 12, 3, 4, 3 }, dtype), K{ 2, 3 }, K{ { 1, 0 }, { 0, 2 } } })
  case('DepthToSpace', { any({ 2, 3, 5, 18 }, dtype) }, { block_size = 3 })
  case('SpaceToDepth', { any({ 2, 6, 9, 2 }, dtype) }, { block_size = 3 })
  case('GatherV2', { any({ 9, 7, 3 }, dtype), K{ 3, 0, 8, 3 }, K(0) })
  case('GatherV2', { any({ 3, 7, 5 }, dtype), I({ 3, 4 }, 0, 6), K(1) }, { batch_dims = 1 })
  case('GatherV2', { any({ 3, 7, 5 }, dtype), I({ 2, 2 }, 0, 4, 'int64'), K(-1) })
  case('GatherNd', { any({ 4, 5, 3 }, dtype), I({ 6, 2 }, 0, 3) })
  if dtype ~= 'bool' then case('TakeAlong', { any({ 4, 9 }, dtype), I({ 4, 6 }, 0, 8) }) end
  case('OneHot', { I({ 3, 4 }, -1, 5), K(5), any({}, dtype), any({}, dtype) }, { axis = 1 })
  case('OneHot', { I({ 70 }, -1, 9, 'int64'), K(9), any({}, dtype), any({}, dtype) })
  case('DynamicPartition', { any({ 33, 3 }, dtype), I({ 33 }, 0, 3) }, { num_partitions = 4 })
  case('DynamicStitch', { { K{ 0, 5, 2 }, K{ { 1, 3 }, { 4, 5 } } }, { any({ 3, 2 }, dtype), any({ 2, 2, 2 }, dtype) } })
  case('MatrixDiag', { any({ 3, 5 }, dtype) })
  case('MatrixDiagPart', { any({ 2, 5, 4 }, dtype) })
  case('MatrixSetDiag', { any({ 2, 5, 4 }, dtype), any({ 2, 4 }, dtype) })
  case('MatrixBandPart', { any({ 2, 7, 5 }, dtype), K(2), K(1) })
  case('MatrixBandPart', { any({ 2, 5, 7 }, dtype), K(-1), K(0) })
  for _, align in ipairs{ 'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT' } do
    case('MatrixDiagPartV3', { any({ 2, 5, 4 }, dtype), K{ -2, 1 }, any({}, dtype) }, { align = align })
    case('MatrixDiagV3', { any({ 2, 3, 4 }, dtype), K{ -1, 1 }, K(5), K(4), any({}, dtype) }, { align = align })
    case('MatrixSetDiagV3', { any({ 2, 5, 4 }, dtype), any({ 2, 3, 4 }, dtype), K{ -1, 1 } }, { align = align })
  end
  case('Diag', { any({ 2, 3 }, dtype) })
  case('DiagPart', { any({ 2, 3, 2, 3 }, dtype) })
  if dtype ~= 'bool' then
    case('Fill', { K{ 5, 40 }, any({}, dtype) })
    case('MirrorPadGrad', { any({ 8, 13 }, dtype), K{ { 1, 2 }, { 3, 4 } } }, { mode = 'REFLECT' }, 1e-4)
  end
end
case('Transpose', { F{ 260, 261 }, K{ 1, 0 } })
case('ConcatV2', { { F{ 260, 120 }, F{ 260, 140 } }, K(1) })
case('Tile', { F{ 130, 131 }, K{ 2, 3 } })
case('GatherV2', { F{ 900, 33 }, I({ 2000 }, 0, 899), K(0) })
case('Fill', { K{ 70001 }, F{} })

-- ---- what goes where -------------------------------------------------------------------------------------------------------------------
for _, dtype in ipairs(numeric) do
  local rows = any({ 33, 5 }, dtype, 0, 3)
  for _, op in ipairs{ 'Sum', 'Max', 'Min', 'Prod' } do
    case('UnsortedSegment' .. op, { rows, I({ 33 }, -1, 6), K(8) }, nil, 1e-2)
    case('Segment' .. op, { rows, sorted(I({ 33 }, 0, 6)) }, nil, 1e-2)
  end
  for _, op in ipairs{ 'Add', 'Sub', 'Update', 'Max', 'Min' } do
    case('TensorScatter' .. op, { any({ 9, 3 }, dtype, 4, 9), K{ { 3 }, { 0 }, { 8 } }, any({ 3, 3 }, dtype, 0, 3) })
  end
  case('ScatterNd', { I({ 33, 1 }, 0, 8), rows, K{ 9, 5 } }, nil, 2e-2)
  case('ScatterNd', { I({ 33, 2 }, 0, 4), any({ 33 }, dtype, 0, 3), K{ 5, 5 } }, nil, 2e-2)
  case('SparseToDense', { K{ { 0, 1 }, { 2, 3 }, { 4, 0 } }, K{ 5, 6 }, any({ 3 }, dtype), any({}, dtype) })
end
for _, op in ipairs{ 'Mean', 'SqrtN', 'Sum' } do
  for _, dtype in ipairs{ 'float32', 'float64' } do
    case('SparseSegment' .. op, { F({ 9, 5 }, dtype), I({ 20 }, 0, 8), sorted(I({ 20 }, 0, 6)) }, nil, 1e-4)
  end
end
case('SegmentMean', { F{ 33, 5 }, sorted(I({ 33 }, 0, 6)) }, nil, 1e-4)
case('GatherGrad', { K{ 5, 9 }, I({ 6 }, 0, 8), K(1), F{ 5, 6 } }, nil, 1e-4)
case('PutAlong', { F{ 4, 6 }, I({ 4, 6 }, 0, 8), K(9) }, nil, 1e-4)
case('ScatterNd', { I({ 4000, 1 }, 0, 2999), F{ 4000, 33 }, K{ 3000, 33 } }, nil, 1e-3)
for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64', 'float16' } do
  case('ScatterNd', { I({ 5000, 1 }, 0, 299), any({ 5000 }, dtype), K{ 300 } }, nil, 1e-3)
  case('ScatterNd', { I({ 9000, 1 }, 0, 6999, 'int64'), any({ 9000, 5 }, dtype), K({ 7000, 5 }, 'int64') }, nil, 1e-3)
end
case('UnsortedSegmentSum', { F{ 4000, 65 }, I({ 4000 }, 0, 99), K(100) }, nil, 1e-3)
for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do case('Bincount', { I({ 300 }, 0, 12), K(10), any({ 300 }, dtype, 1, 2) }, nil, 1e-4) end
case('Bincount', { I({ 300 }, 0, 12), K(10), later(function() return df.tensor({}, 'int32', { 0 }) end) })
for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
  case('HistogramFixedWidth', { any({ 300 }, dtype, 0, 20), K({ 2, 15 }, dtype), K(7) })
end
case('Range', { F({}, nil, 1, 1), F({}, nil, 90, 90), F({}, nil, 0.5, 0.5) })
case('Range', { I({}, 3, 3), I({}, -70000, -70000), I({}, -1, -1) })
case('LinSpace', { F({}, nil, 1, 1), F({}, nil, 9, 9), K(33) })
case('InvertPermutation', { K{ 3, 0, 2, 4, 1 } })

-- ---- normalisation, cells ------------------------------------------------------------------------------------------------------------
for _, training in ipairs{ true, false } do
  local function per() return F({ 5 }, nil, 0.5, 1.5) end
  local shape = { 2, 3, 7, 5 }
  case('FusedBatchNormV3', { F(shape), per(), per(), per(), per() }, { is_training = training, epsilon = 0.01, exponential_avg_factor = training and 0.7 or 1 }, 1e-3)
  case('FusedBatchNormGradV3', { F(shape), F(shape), per(), per(), per(), per() }, { is_training = training, epsilon = 0.01 }, 1e-3)
  case('FusedBatchNorm', { F(shape), per(), per(), per(), per() }, { is_training = training }, 1e-3)
end
case('FusedBatchNormV3', { F{ 2, 5, 3, 7 }, F({ 5 }, nil, 0.5, 1.5), F{ 5 }, F{ 0 }, F{ 0 } }, { data_format = 'NCHW' }, 1e-3)
for _, dims in ipairs{ { 3, 4, 4, 70 }, { 300, 3, 3, 33 }, { 1, 1, 1, 3 }, { 70, 16, 16, 3 }, { 0, 2, 2, 3 } } do
  for _, format in ipairs{ 'NHWC', 'NCHW' } do
    local function per() return F({ dims[format == 'NHWC' and 4 or 2] }, nil, 0.5, 2) end
    case('FusedBatchNormV3', { F(dims), per(), per(), per(), per() }, { data_format = format, exponential_avg_factor = 0.25 }, 1e-5)
  end
end
for _, dtype in ipairs{ 'float64', 'float16', 'int32', 'int8' } do
  case('BiasAdd', { any({ 3, 20, 7 }, dtype), any({ 7 }, dtype) })
  case('BiasAdd', { any({ 3, 20, 7 }, dtype), any({ 20 }, dtype) }, { data_format = 'NCHW' })
  case('BiasAddGrad', { any({ 3, 20, 7 }, dtype) }, { data_format = 'NCHW' }, 1e-2)
end
case('BiasAdd', { F{ 3, 5, 7 }, F{ 7 } })
case('BiasAdd', { F{ 3, 5, 7, 2 }, F{ 5 } }, { data_format = 'NCHW' })
case('BiasAddGrad', { F{ 300, 70 } }, nil, 1e-3)
case('BiasAddGrad', { F{ 3, 5, 7, 2 } }, { data_format = 'NCHW' }, 1e-4)
for _, s in ipairs{ { 2, 3, 2 }, { 5, 9, 17 }, { 33, 20, 33 } } do
  local n, m, u = s[1], s[2], s[3]
  local function cell(columns) return F({ n, m }, nil, -1, 1), F({ n, u }, nil, -1, 1), F({ n, u }, nil, -1, 1), F({ m + u, columns }, nil, -0.5, 0.5) end
  for _, peep in ipairs{ false, true } do
    local x, c, h, w = cell(4 * u)
    local wi, wf, wo, b = F({ u }), F({ u }), F({ u }), F({ 4 * u })
    case('LSTMBlockCell', { x, c, h, w, wi, wf, wo, b }, { use_peephole = peep, forget_bias = 0.7, cell_clip = peep and 0.5 or -1 }, 1e-3)
    local some = {}
    for i = 1, 7 do some[i] = F({ n, u }, nil, 0.1, 0.9) end
    case('LSTMBlockCellGrad', { x, c, h, w, wi, wf, wo, b, some[1], some[2], some[3], some[4], some[5], some[6], F({ n, u }), F({ n, u }) }, { use_peephole = peep }, 1e-3)
    local xs = F({ 4, n, m }, nil, -1, 1)
    case('BlockLSTM', { K(3, 'int64'), xs, c, h, w, wi, wf, wo, b }, { use_peephole = peep, forget_bias = 0.7, cell_clip = peep and 0.5 or -1 }, 1e-3)
    case('BlockLSTMV2', { K(4, 'int64'), xs, c, h, w, wi, wf, wo, b }, { use_peephole = peep, cell_clip = peep and 0.5 or 0 }, 1e-3)
    local runs = {}
    for i = 1, 9 do runs[i] = F({ 4, n, u }, nil, 0.1, 0.9) end
    for _, op in ipairs{ 'BlockLSTMGrad', 'BlockLSTMGradV2' } do
      case(op, { K(3, 'int64'), xs, c, h, w, wi, wf, wo, b, runs[1], runs[2], runs[3], runs[4], runs[5], runs[6], runs[7], runs[8], runs[9] }, { use_peephole = peep }, 1e-3)
    end
  end
  local x, _, h, w = cell(2 * u)
  local wc, br, bc = F({ m + u, u }, nil, -0.5, 0.5), F({ 2 * u }), F({ u })
  case('GRUBlockCell', { x, h, w, wc, br, bc }, nil, 1e-3)
  case('GRUBlockCellGrad', { x, h, w, wc, br, bc, F({ n, u }, nil, 0.1, 0.9), F({ n, u }, nil, 0.1, 0.9), F({ n, u }, nil, -0.9, 0.9), F({ n, u }) }, nil, 1e-3)
end

-- ---- fewer bits ---------------------------------------------------------------------------------------------------------------------
for _, n in ipairs{ 70, 33001 } do
  for _, narrow in ipairs{ false, true } do
    for _, bits in ipairs{ 8, 4 } do
      local o = { num_bits = bits, narrow_range = narrow }
      local a = { num_bits = bits, narrow_range = narrow, min = -1.5, max = 1.25 }
      case('FakeQuantWithMinMaxArgs', { F{ n } }, a)
      case('FakeQuantWithMinMaxArgsGradient', { F{ n }, F{ n } }, a)
      case('FakeQuantWithMinMaxVars', { F{ n }, K(-1.5, 'float32'), K(1.25, 'float32') }, o)
      case('FakeQuantWithMinMaxVarsGradient', { F{ n }, F{ n }, K(-1.5, 'float32'), K(1.25, 'float32') }, o, 1e-3)
    end
    for _, mode in ipairs{ 'MIN_COMBINED', 'MIN_FIRST', 'SCALED' } do
      for _, to in ipairs(n > 100 and { 'quint8' } or { 'quint8', 'qint8', 'qint32', 'qint16', 'quint16' }) do
        for _, round in ipairs(mode == 'SCALED' and { 'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN' } or { 'HALF_AWAY_FROM_ZERO' }) do
          case('QuantizeV2', { F{ n }, K(-1.5, 'float32'), K(1.25, 'float32') }, { T = to, mode = mode, round_mode = round, narrow_range = narrow and mode == 'SCALED' })
        end
      end
    end
  end
end
for _, s in ipairs{ { 5, 3 }, { 33, 70 }, { 300, 67 } } do
  local per = { F({ s[2] }, nil, -1.5, -1), F({ s[2] }, nil, 1, 1.5) }
  case('FakeQuantWithMinMaxVarsPerChannel', { F(s), per[1], per[2] })
  case('FakeQuantWithMinMaxVarsPerChannelGradient', { F(s), F(s), per[1], per[2] }, nil, 1e-3)
  case('QuantizeV2', { F(s), per[1], per[2] }, { T = 'qint8', mode = 'SCALED', axis = 1 })
end

-- ---- matrices -----------------------------------------------------------------------------------------------------------------------
for _, dtype in ipairs{ 'float32', 'float64' } do
  local function regular(n) return made(function(a) return a * 0.2 + df.cast(df.eye(n), dtype) * 3 end, F({ 2, n, n }, dtype)) end
  local function heavy(n) return made(function(a) return a + df.tensor({ 0, 5, 0 }, dtype, { 3, 1 }) end, F({ 3, n }, dtype)) end
  for _, n in ipairs{ 1, 3, 17 } do
    local a = regular(n)
    local both = made(function(m) return df.matmul(m, m, { transpose_b = true }) end, a)
    case('MatrixInverse', { a }, nil, 1e-3)
    case('MatrixInverse', { a }, { adjoint = true }, 1e-3)
    case('MatrixDeterminant', { a }, nil, 1e-3)
    case('LogMatrixDeterminant', { a }, nil, 1e-3)
    case('MatrixSolve', { a, F({ 2, n, 2 }, dtype) }, nil, 1e-3)
    case('MatrixSolve', { a, F({ 2, n, 2 }, dtype) }, { adjoint = true }, 1e-3)
    case('MatrixTriangularSolve', { a, F({ 2, n, 2 }, dtype) }, { lower = false }, 1e-3)
    case('MatrixTriangularSolve', { a, F({ 2, n, 2 }, dtype) }, { adjoint = true }, 1e-3)
    case('Cholesky', { both }, nil, 1e-3)
    case('SelfAdjointEigV2', { both }, { compute_v = false }, 1e-3)
    case('Svd', { a }, { compute_uv = false }, 1e-3)
    case('TridiagonalSolve', { heavy(n), F({ n, 2 }, dtype) }, nil, 1e-3)
    case('TridiagonalSolve', { heavy(n), F({ n, 2 }, dtype) }, { partial_pivoting = false }, 1e-3)
  end
end
for _, n in ipairs{ 1, 2, 7, 8, 11, 13, 30, 37, 64, 97, 251, 1009, 4096, 5000 } do
  for _, dtype in ipairs{ 'complex64', 'complex128' } do
    case('FFT', { C({ 3, n }, dtype) }, nil, 1e-3)
    case('IFFT', { C({ 3, n }, dtype) }, nil, 1e-3)
    if n < 9 then
      case('FFT2D', { C({ 2, n, 5 }, dtype) }, nil, 1e-3)
      case('IFFT2D', { C({ 2, 6, n }, dtype) }, nil, 1e-3)
    end
  end
  case('RFFT', { F{ 3, 30 }, K{ n } }, nil, 1e-3)
  case('IRFFT', { C({ 3, 17 }, 'complex64'), K{ n } }, nil, 1e-3)
end
case('Cross', { F{ 33, 3 }, F{ 33, 3 } })

-- ---- random numbers from a seed -----------------------------------------------------------------------------------------------------
local two = K({ 7, -3 }, 'int64')
for _, n in ipairs{ 1, 3, 4, 7, 63, 66, 1000 } do
  case('StatelessRandomUniform', { K{ n }, two })
  case('StatelessRandomNormal', { K{ n }, two }, nil, 1e-4)
  case('StatelessTruncatedNormal', { K{ n }, two }, nil, 1e-4)
  case('StatelessRandomUniform', { K{ n }, two }, { dtype = 'float64' })
  case('StatelessRandomNormal', { K{ n }, two }, { dtype = 'float64' }, 1e-4)
  case('StatelessRandomUniform', { K{ n }, two }, { dtype = 'float16' })
  case('StatelessRandomUniform', { K{ n }, two }, { dtype = 'bfloat16' })
  for _, dtype in ipairs{ 'int32', 'int64', 'uint32' } do
    case('StatelessRandomUniformFullInt', { K{ n }, two }, { dtype = dtype })
    case('StatelessRandomUniformInt', { K{ n }, two, K(3, dtype), K(40, dtype) })
  end
end
case('StatelessRandomUniform', { K{ 33001 }, two })
case('StatelessRandomNormal', { K{ 70001 }, two }, nil, 1e-4)
for _, dtype in ipairs{ 'float32', 'float64' } do
  case('StatelessRandomGammaV2', { K{ 60, 3 }, two, F({ 3 }, dtype, 0.2, 4) }, nil, 1e-3)
  case('StatelessRandomPoisson', { K{ 60, 3 }, two, F({ 3 }, dtype, 0.2, 30) }, { dtype = dtype })
  case('StatelessRandomBinomial', { K{ 60, 3 }, two, K({ 4, 40, 400 }, dtype), K({ 0.2, 0.5, 0.9 }, dtype) }, { dtype = dtype })
  case('StatelessMultinomial', { F({ 3, 9 }, dtype), K(50), two })
end

-- ---- where functions are computed in another way: tails, quotients of many bits, rows of more than a vector ------------------------------
for _, dtype in ipairs{ 'float32', 'float64' } do
  for _, ends in ipairs{ { 0.99, 0.9999 }, { 0.9999, 0.999999 }, { -0.9999, -0.99 }, { 1e-7, 1e-5 } } do
    case('Erfinv', { F({ 71 }, dtype, ends[1], ends[2]) }, nil, 1e-4)
    case('Ndtri', { F({ 71 }, dtype, math.abs(ends[1]), math.abs(ends[2])) }, nil, 1e-4)
  end
  for _, ends in ipairs{ { 3, 9 }, { -9, -3 }, { 20, 80 } } do
    for _, op in ipairs{ 'Erf', 'Erfc', 'Tanh', 'Sigmoid', 'Softplus', 'Lgamma', 'Digamma', 'Expm1', 'Log1p', 'Elu' } do
      if not (op == 'Log1p' and ends[1] < 0) then case(op, { F({ 71 }, dtype, ends[1], ends[2]) }, nil, 1e-4) end
    end
  end
  for _, op in ipairs{ 'FloorMod', 'TruncateMod' } do
    for _, most in ipairs{ 1e3, 1e7, 1e18, 1e-30 } do
      case(op, { F({ 131 }, dtype, -most, most), F({ 131 }, dtype, 0.3, 1.7) }, nil, 1e-4)
      case(op, { F({ 131 }, dtype, -most, most), F({ 131 }, dtype, most / 3, most) }, nil, 1e-4)
    end
  end
end

-- ---- their nodes ---------------------------------------------------------------------------------------------------------------------
local M = { list = list }

local function collect(inputs, to)
  for _, x in ipairs(inputs) do
    if x.make then to[#to + 1] = x.make()
    elseif x.const == nil then collect(x, to) end
  end
  return to
end

--- The Tensors that a case is fed.
function M.tensors(case) return collect(case.inputs, {}) end

--- The inputs of a node, those that are fed from `fed`, in order, and how many of these there were.
local function arguments(inputs, fed, i)
  local args = {}
  for k, x in ipairs(inputs) do
    if x.make then i, args[k] = i + 1, fed[i + 1]
    elseif x.const ~= nil then args[k] = df.constant(x.const, x.dtype)
    else args[k], i = arguments(x, fed, i) end
  end
  return args, i
end

--- The outputs of its node, whose fed inputs are these.
function M.build(case, ...) return registry.op(case.op, (arguments(case.inputs, { ... }, 0)), case.attrs) end

--- The cases of each op, by its name, and the names, sorted.
function M.by_op()
  local by, names = {}, {}
  for _, case in ipairs(list) do
    if not by[case.op] then by[case.op], names[#names + 1] = {}, case.op end
    table.insert(by[case.op], case)
  end
  table.sort(names)
  return by, names
end

local coarse = { float16 = 1e-2, bfloat16 = 3e-2 }

--- How far results that were computed in another way may be: halves are rounded.
function M.tolerance(case, fed)
  local rtol = case.rtol or 1e-5
  for _, x in ipairs(fed) do rtol = math.max(rtol, coarse[x.dtype] or 0) end
  return rtol
end

return M
