--- numerics.lua: as shapes.lua: complex numbers, Fourier transforms, matrices, numbers that are drawn until they fit, boxes.
local df = require 'dflow'
local beside = require 'spec.cuda.beside'
local op = require('dflow.front.registry').op
local unpack = table.unpack or unpack
local check, tensor, ints = beside.check, beside.tensor, beside.ints

local function all_of(first, ...)
  local out = {}
  for _, list in ipairs{ first, ... } do for _, v in ipairs(list) do out[#out + 1] = v end end
  return out
end
-- Complex numbers, made of parts there and told as parts: functions, products, folds, scans, moves.
local function parts(list)
  local out = {}
  for _, z in ipairs(list) do
    local complex = z.dtype == 'complex64' or z.dtype == 'complex128'
    out[#out + 1] = complex and df.real(z) or z
    if complex then out[#out + 1] = df.imag(z) end
  end
  return unpack(out)
end
local function each(kinds, ...)
  local out = {}
  for kind in kinds:gmatch('%S+') do out[#out + 1] = op(kind, { ... }) end
  return out
end
for _, dtype in ipairs{ 'float32', 'float64' } do
  local to = dtype == 'float32' and 'complex64' or 'complex128'
  for _, shapes in ipairs{ { { 0, 3 }, { 3 } }, { {}, {} }, { { 5 }, { 1 } }, { { 2, 3, 4 }, { 3, 1 } }, { { 2, 300 }, { 2, 1 } } } do
    local many, few = shapes[1], shapes[2]
    local xs = { tensor(many, dtype, -2, 2), tensor(many, dtype, -2, 2), tensor(few, dtype, -2, 2), tensor(few, dtype, 0.5, 2) }
    check('complex functions', dtype, { xs[1], xs[2] }, function(re, im)
      return parts(each('Neg Sign Square Sqrt Rsqrt Reciprocal Inv Exp Expm1 Log Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Sigmoid ' ..
        'Conj Angle ComplexAbs Real Imag OnesLike ZerosLike', df.complex(re, im)))
    end)
    check('complex operators', dtype, xs, function(re, im, re2, im2)
      local a, b = df.complex(re, im), df.complex(re2, im2)
      return parts(each('Add AddV2 Sub Mul RealDiv Div DivNoNan MulNoNan Pow SquaredDifference Xdivy Xlogy Xlog1py Equal NotEqual ApproximateEqual TanhGrad ' ..
        'SigmoidGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad', a, b))
    end)
    check('complex parts', dtype, xs, function(re, im, re2)
      local a = df.complex(re, im)
      local again = df.complex(re, re2)
      return parts{ again, df.add_n{ a, a, again + a }, df.where(df.greater(re, im), a, a * 2), op('Select', { df.greater(re, im), a, -a }),
        df.cast(df.cast(a, 'complex64'), 'complex128'), df.cast(a, 'float32'), df.cast(a, 'int32'), df.cast(df.cast(re, 'int64'), to), df.cast(df.greater(re, 0), to) }
    end)
    if #many == 1 then                                      -- of more than one block folds: a row, columns
      local large = { tensor({ 8200, 3 }, dtype), tensor({ 8200, 3 }, dtype) }
      check('complex folds of many', dtype, large, function(re, im)
        local a = df.complex(re, im)
        local turn = df.exp(df.complex(re * 0, im * 0.001))
        return parts{ df.reduce_sum(a), df.reduce_sum(a, { axis = 0 }), df.reduce_mean(a, { axis = 0 }), df.reduce_prod(turn, { axis = 0 }) }
      end)
    end
    if #many > 0 then
      check('complex folds', dtype, xs, function(re, im)
        local a, last = df.complex(re, im) / df.cast(df.constant(2, dtype), to), #many - 1
        local perm = {}
        for i = 1, #many do perm[i] = #many - i end
        local row = df.fill({ many[#many] }, df.complex(df.constant(1, dtype), df.constant(3, dtype)))
        return parts{ df.reduce_sum(a), df.reduce_sum(a, { axis = last }), df.reduce_sum(a, { axis = 0 }), df.reduce_mean(a), df.reduce_prod(a, { axis = 0 }),
          df.reduce_sum(a, { axis = last > 0 and { 0, last } or 0 }), df.cumsum(a, { axis = last }), df.cumsum(a, { axis = last, exclusive = true, reverse = true }), df.cumprod(a,
            { axis = 0 }),
          df.transpose(a), op('ConjugateTranspose', { a, ints(perm) }), df.reshape(a, { -1 }), df.concat({ a, a * 2 }, last), df.stack{ a, -a }, df.tile(a, many),
          df.reverse(a, { axis = { last } }), df.expand_dims(a, 0), unpack(#many > 1 and { df.nn.bias_add(a, row), op('BiasAddGrad', { a }), (op('SumToShape', { a,
            ints{ many[#many] } })) } or {}) }
      end)
    end
    if many[1] and many[1] > 1 then
      check('complex rows', dtype, xs, function(re, im)
        local a = df.complex(re, im)
        local first, rows = df.gather(a, ints{ 1, 0, 1 }), many[1]
        local ids = {}
        for i = 1, rows do ids[i] = math.floor(i / 2) end
        return parts{ first, df.gather_nd(a, ints{ { 1 }, { 0 } }), df.scatter_nd(ints{ { 1 }, { 4 }, { 1 } }, first, ints{ 6, unpack(many, 2) }),
          df.unsorted_segment_sum(a, ints(ids), 4), df.segment_sum(a, ints(ids)), op('SegmentMean', { a, ints(ids) }), op('SegmentProd', { a, ints(ids) }),
          op('TensorScatterAdd', { a, ints{ { 1 }, { 1 }, { 0 } }, first }), op('TensorScatterUpdate', { a, ints{ { 1 } }, df.gather(a, ints{ 0 }) }),
          df.slice(a, { 1 , unpack({ 0, 0 }, 1, #many - 1) }, { 1, unpack({ -1, -1 }, 1, #many - 1) }), a[1], df.where(a), df.one_hot(ints{ 1, 0, 5 }, 3,
            { on_value = a:reshape{ -1 }[1], off_value = a:reshape{ -1 }[2] }),
          op('MirrorPad', { df.reshape(a, { -1 }), ints{ { 1, 1 } } }, { mode = 'SYMMETRIC' }), unpack(df.gradients(df.reduce_sum(df.gather(a, ints{ 1, 0, 1 }) * first),
            { re, im })) }
      end)
    end
  end
  for _, s in ipairs{ { 1, 1, 1 }, { 0, 3, 2 }, { 3, 5, 4 }, { 17, 33, 20 } } do
    local m, k, n = unpack(s)
    local xs = { tensor({ m, k }, dtype), tensor({ m, k }, dtype), tensor({ k, n }, dtype), tensor({ k, n }, dtype) }
    check('complex products', dtype, xs, function(re, im, re2, im2)
      local a, b = df.complex(re, im), df.complex(re2, im2)
      local stack = df.stack{ a, a * 2, -a }
      return parts{ df.matmul(a, b), df.matmul(df.transpose(a), b, { transpose_a = true }), df.matmul(a, op('ConjugateTranspose', { b, ints{ 1, 0 } }),
        { transpose_b = true }),
        op('BatchMatMulV2', { stack, df.expand_dims(b, 0) }),
        op('BatchMatMulV2', { df.expand_dims(a, 0), stack }, { adj_x = true }), op('BatchMatMul', { df.stack{ b, -b, b }, stack }, { adj_x = true, adj_y = true }),
        df.einsum('bij,jk->bk', stack, b), df.matrix_band_part(a, 0, 0), df.matrix_band_part(a, 0, -1),
          df.matrix_diag(df.reshape(a, { -1 })) }
    end)
  end
end
-- Fourier transforms: of lengths with a pass for each factor, with none (a convolution), in one launch and in several; cut and filled up.
for _, dtype in ipairs{ 'float32', 'float64' } do
  local to = dtype == 'float32' and 'complex64' or 'complex128'
  for _, s in ipairs{ { 0, 4 }, { 3, 1 }, { 1, 2 }, { 5, 4 }, { 2, 6 }, { 3, 7 }, { 2, 60 }, { 40, 64 }, { 2, 127 }, { 2, 131 }, { 1, 262 }, { 1, 1000 }, { 2, 1024 },
    { 1, 1026 }, { 1, 2048 }, { 1, 4199 },
                      { 3, 5, 6 }, { 2, 12, 8 }, { 1, 137, 3 } } do
    local a, b, n = tensor(s, dtype), tensor(s, dtype), s[#s]
    check('fourier ' .. table.concat(s, ' '), dtype, { a, b }, function(re, im)
      local z = df.complex(re, im)
      local list = { df.fft(z), df.ifft(z) }
      if #s == 3 then list[3], list[4] = df.fft2d(z), df.ifft2d(z) end
      return parts(list)
    end)
    for _, length in ipairs{ n, n + 3, math.max(n - 2, 0) } do
      check('real fourier ' .. table.concat(s, ' ') .. ' to ' .. length, dtype, { a, b }, function(re, im)
        local z, at, made = df.complex(re, im), ints{ length }, math.floor(length / 2) + 1
        local dy = df.complex(df.ones({ s[1], made }, dtype), df.fill({ s[1], made }, df.constant(2, dtype)))
        local list = { op('RFFT', { re, at }, { Tcomplex = to }), op('IRFFT', { z, at }, { Treal = dtype }) }
        if #s == 2 then
          list[3], list[4] = op('RFFTGrad', { dy, at, ints(n) }, { Treal = dtype }), op('IRFFTGrad', { df.ones({ s[1], length }, dtype), at, ints(n) }, { Tcomplex = to })
        end
        return parts(list)
      end)
    end
  end
end
-- Matrices: solved, inverted, decomposed; of a decomposition what its parts make together.
for _, dtype in ipairs{ 'float32', 'float64' } do
  for _, s in ipairs{ { 0, 0 }, { 1, 1 }, { 3, 3 }, { 2, 3, 4, 4 }, { 0, 4, 4 }, { 70, 2, 2 }, { 2, 17, 17 }, { 40, 40 } } do
    local n, rhs = s[#s], {}
    for i, d in ipairs(s) do rhs[i] = d end
    rhs[#rhs] = 3
    check('solving ' .. table.concat(s, ' '), dtype, { tensor(s, dtype, -1, 1), tensor(rhs, dtype) }, function(a, b)
      local eye = df.matrix_diag(df.ones({ n }, dtype))
      local m, square = a + eye * n, df.matmul(a, a, { transpose_b = true }) + eye
      local sign, log = op('LogMatrixDeterminant', { a + eye })
      local low = df.matrix_band_part(m, -1, 0)
      local thin = df.slice(b, df.fill({ #s }, ints(0)), df.concat({ ints({ unpack(s, 1, #s - 1) }), ints{ 1 } }, 0))
      return df.cholesky(square), df.matrix_solve(m, b), df.matrix_solve(m, thin, { adjoint = true }), df.matrix_inverse(m), op('MatrixInverse', { m }, { adjoint = true }),
        df.matrix_determinant(a + eye), sign, log, df.matrix_triangular_solve(low, b), op('MatrixTriangularSolve', { low, thin }, { lower = true, adjoint = true }),
        op('MatrixTriangularSolve', { df.matrix_band_part(m, 0, -1), b }, { lower = false }), op('MatrixTriangularSolve', { m, b }, { lower = false, adjoint = true })
    end)
  end
  check('triangles that are repeated', dtype, { tensor({ 2, 1, 3, 3 }, dtype, 1, 2), tensor({ 4, 3, 2 }, dtype) }, function(a, b) return op('MatrixTriangularSolve', { a,
    b }) end)
  for _, s in ipairs{ { 1, 1 }, { 1, 2 }, { 2, 9 }, { 3, 200 } } do
    check('diagonals', dtype, { tensor({ s[1], 3, s[2] }, dtype, 0.5, 2), tensor({ s[1], s[2], 4 }, dtype) }, function(a, b)
      local main = a + df.reshape(df.constant({ 0, 4, 0 }, dtype), { 3, 1 })
      return op('TridiagonalSolve', { main, b }), op('TridiagonalSolve', { main, b }, { partial_pivoting = false }), op('TridiagonalSolve', { a, b })
    end)
  end
  for _, s in ipairs{ { 1, 1 }, { 4, 3 }, { 3, 4 }, { 2, 5, 5 }, { 0, 3, 2 }, { 3, 0 }, { 33, 20 }, { 3, 20, 33 } } do
    check('q and r ' .. table.concat(s, ' '), dtype, { tensor(s, dtype) }, function(a)
      local q, r = op('Qr', { a })
      local q2, r2 = op('Qr', { a }, { full_matrices = true })
      return q, r, q2, r2
    end)
  end
end
-- Numbers that are drawn until they fit, classes, rows in a drawn order: the CPU's numbers.
for _, dtype in ipairs{ 'float32', 'float64', 'float16' } do
  for _, s in ipairs{ { 0 }, { 1 }, { 3, 50 } } do
    local shape = ints(s)
    check('drawn', dtype, { df.tensor({ 0.3, 1, 2.5, 40 }, dtype), df.tensor({ 0.5, 3, 12, 200 }, dtype) }, function(alpha, rate)
      local list = { op('RandomGamma', { shape, alpha }, { seed = 7 }), op('RandomPoissonV2', { shape, rate }, { seed = 9, dtype = dtype }),
        op('RandomPoissonV2', { shape, rate }, { seed = 9, dtype = 'int64' }), op('StatelessRandomGammaV2', { df.concat({ shape, ints{ 4 } }, 0), df.int64{ 3, -7 }, alpha }),
        op('StatelessRandomPoisson', { df.concat({ shape, ints{ 4 } }, 0), df.int64{ 3, -7 }, rate }, { dtype = 'int32' }) }
      local counts, probs = df.constant({ { 3 }, { 40 }, { 2000 } }, dtype), df.constant({ 0.1, 0.9, 0.5, 0 }, dtype)
      list[9] = op('StatelessRandomBinomial', { df.concat({ shape, ints{ 3, 4 } }, 0), df.int64{ 3, -7 }, counts, probs }, { dtype = 'int64' })
      list[10] = op('StatelessRandomBinomial', { df.concat({ shape, ints{ 3, 1 } }, 0), df.int64{ 8, 9 }, counts, df.constant(0.3, dtype) }, { dtype = dtype })
      local function bounded(mean, deviation, low, high)
        return op('ParameterizedTruncatedNormal', { ints{ 3, 40 }, df.constant(mean, dtype), df.constant(deviation, dtype), df.constant(low, dtype), df.constant(high,
          dtype) }, { seed = 4 })
      end
      list[6], list[7], list[8] = bounded(0, { 1, 2, 3 }, -2, 2), bounded({ 1, 0, -1 }, 1, 3, 9), bounded(0, 1, { -9, 0.1, 4 }, { -8, 0.2, 4.1 })
      return unpack(list)
    end)
  end
  for _, s in ipairs{ { 0, 3 }, { 1, 1 }, { 4, 7 }, { 3, 300 } } do
    check('classes', dtype, { tensor(s, dtype) }, function(a)
      local few = op('Multinomial', { a, ints(5) }, { seed = 3 })
      return few, op('Multinomial', { a, ints(301) }, { seed = 8, output_dtype = 'int32' }), op('StatelessMultinomial', { a, ints(33), df.int64{ 5, 6 } }, {}),
        op('StatelessMultinomial', { df.where(df.greater(a, 0), a, df.fill(df.shape(a), df.constant(-1 / 0, dtype))), ints(0), df.int64{ 5, 6 } }, { output_dtype = 'int32' })
    end)
  end
  for _, s in ipairs{ {}, { 1, 4 }, { 0, 2 }, { 7 }, { 40, 3, 2 } } do
    check('shuffled', dtype, { tensor(s, dtype) }, function(a) return op('RandomShuffle', { a }, { seed = 5 }), op('RandomShuffle', { a }, {}) end)
  end
end
-- Eigenvectors and singular vectors are so but for their signs, or within what has one value: what they make together is compared.
local function t(x, y) return df.matmul(x, y, { transpose_b = true }) end
for _, dtype in ipairs{ 'float32', 'float64' } do
  for _, s in ipairs{ { 1, 1 }, { 2, 2 }, { 3, 5, 5 }, { 0, 2, 2 }, { 24, 24 } } do
    check('eigenvectors ' .. table.concat(s, ' '), dtype, { tensor(s, dtype, -1, 1) }, function(a)
      local lower = df.matrix_band_part(a, -1, 0)
      local e, v = op('SelfAdjointEigV2', { a })
      local e2 = op('SelfAdjointEigV2', { t(lower, lower) }, { compute_v = false })
      return e, t(v * df.expand_dims(e, -2), v), t(v, v), e2, (op('SelfAdjointEigV2', { df.zeros_like(a) + 2 }))
    end)
  end
  for _, s in ipairs{ { 1, 1 }, { 4, 3 }, { 3, 4 }, { 2, 5, 5 }, { 0, 3, 2 }, { 3, 1 }, { 1, 3 }, { 33, 20 }, { 2, 6, 21 } } do
    check('singular ' .. table.concat(s, ' '), dtype, { tensor(s, dtype, -1, 1) }, function(a)
      local function all(x, full)
        local sigma, u, v = op('Svd', { x }, { full_matrices = full })
        local k = math.min(s[#s], s[#s - 1])
        local function first(w) return df.slice(w, df.zeros({ #s }, 'int32'), ints{ unpack(all_of({ unpack(s, 1, #s - 2) }, { -1, k })) }) end
        return sigma, t(first(u) * df.expand_dims(sigma, -2), first(v)), df.matmul(u, u, { transpose_a = true }), df.matmul(v, v, { transpose_a = true })
      end
      local flat_one = df.zeros_like(a) + 1
      return unpack(all_of({ all(a, false) }, { all(a, true) }, { all(flat_one, true) }, { (op('Svd', { a }, { compute_uv = false })) }))
    end)
  end
end
-- Where squares would be infinite or nothing, and of matrices without an element.
for _, far in ipairs{ 1e200, 1e-200 } do
  check('far from 1', 'float64', { tensor({ 2, 7, 4 }, 'float64', -1, 1) }, function(x)
    local a = df.matmul(x, x, { transpose_a = true })
    local e, v = op('SelfAdjointEigV2', { a * far })
    local sigma, u, w = op('Svd', { x * far })
    local q, r = op('Qr', { x * far })
    return e / far, t(v * df.expand_dims(e / far, -2), v), sigma / far, t(u * df.expand_dims(sigma / far, -2), w), q, r / far
  end)
end
for _, s in ipairs{ { 3, 0 }, { 2, 0, 3 }, { 0, 0 } } do
  check('without an element', 'float32', { tensor(s, 'float32') }, function(a)
    local sigma, u, v = op('Svd', { a }, { full_matrices = true })
    local few, left, right = op('Svd', { a })
    return sigma, u, v, few, left, right
  end)
end
check('NaN in a root', 'float64', { df.tensor({ { 4, 0, 0 }, { 1, 0 / 0, 0 }, { 2, 1, 9 } }, 'float64') }, function(a) return df.cholesky(a) end)
check('complex sides of a cut', 'float64', { df.tensor({ -2, -2, -9, -9 }, 'float64'), df.tensor({ -0.0, 0, -0.0, 0 }, 'float64') }, function(re, im)
  return parts(each('Log Log1p Sqrt', df.complex(re, im)))
end)
do
  local ends, re, im = { 0, 1, -1, 2.5, -30, 1 / 0, -1 / 0, 0 / 0 }, {}, {}
  -- Of an infinity beside another or a NaN C leaves the sign of some results open.
  for _, x in ipairs(ends) do for _, y in ipairs(ends) do
    if x - x == 0 or y - y == 0 or x ~= x and y ~= y then re[#re + 1], im[#im + 1] = x, y end
  end end
  check('ends of complex functions', 'float64', { df.tensor(re, 'float64'), df.tensor(im, 'float64') }, function(x, y)
    return parts(each('Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh', df.complex(x, y)))
  end)
end
check('crops of NaN', 'float32', { df.tensor({ { { { 0 / 0 }, { 1 }, { 2 } }, { { 3 }, { 4 }, { 0 / 0 } } } }, 'float32') }, function(dy)
  return op('CropAndResizeGradImage', { dy, df.float32{ { 0.1, 0, 0.9, 1 } }, df.int32{ 0 }, df.int32{ 1, 4, 5, 1 } }, { T = 'float32' })
end)
-- Boxes: of any corners, without area, with equal scores and NaN.
for _, dtype in ipairs{ 'float32', 'float16' } do
    for _, n in ipairs{ 0, 1, 6, 300 } do
      local corners, scores = tensor({ n, 4 }, dtype, 0, 10), tensor({ n }, dtype, 0, 1)
      check('boxes', dtype, { corners, scores }, function(a, b)
        local some = df.where(df.greater(b, df.constant(0.9, dtype)), df.fill({ n }, df.constant(0.5, dtype)), b)
        local function least(v) return df.constant(v, dtype) end
        local out = { op('NonMaxSuppressionV2', { a, b, ints(5), least(0.3) }), op('NonMaxSuppressionV3', { a, some, ints(400), least(0.1), least(0.25) }),
          op('NonMaxSuppressionV3', { a, df.where(df.greater(b, least(0.6)), df.fill({ n }, least(0 / 0)), b), ints(50), least(0.5), least(-1 / 0) }) }
        out[4], out[5] = op('NonMaxSuppressionV4', { a, b, ints(9), least(0), least(0) }, { pad_to_max_output_size = true })
        out[6], out[7] = op('NonMaxSuppressionV4', { a, b, ints(9), least(1), least(0.5) }, { pad_to_max_output_size = false })
        if dtype == 'float32' then out[8] = op('NonMaxSuppression', { a, b, ints(7) }, { iou_threshold = 0.25 }) end
        return unpack(out)
      end)
    end
end
beside.told()
