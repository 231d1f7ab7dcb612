--- Ops whose Lua surface differs from the node: decompositions, transforms of real numbers, sorting and counting.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local arguments = require 'dflow.front.arguments'

local functions, def, required, int32 = arguments.functions, arguments.def, arguments.required, arguments.int32
local op, to_output, typed = registry.op, convert.to_output, convert.typed

local function matrix(what, v)
  return to_output(v, not typed(v) and dtypes.FLOAT32 or nil, nil, what)
end

local function check_bool(what, o, ...)
  for _, key in ipairs { ... } do
    if o[key] ~= nil and type(o[key]) ~= 'boolean' then
      errors.bad('%s: %s is true or false, not %s', what, key, errors.describe(o[key]))
    end
  end
end

-- ---- decompositions -------------------------------------------------------------------------------------------------
--- svd(tensor, {full_matrices = false, compute_uv = true}): s, u, v with tensor = u diag(s) v^T; s alone without
-- compute_uv.
def('svd', { 'tensor' }, { 'full_matrices', 'compute_uv' }, function(o)
  required('svd', o, 'tensor')
  check_bool('svd', o, 'full_matrices', 'compute_uv')
  local s, u, v = op('Svd', { matrix('svd', o.tensor) },
                     { full_matrices = o.full_matrices, compute_uv = o.compute_uv, name = o.name })
  if o.compute_uv == false then return s end
  return s, u, v
end)

--- self_adjoint_eig(tensor): eigenvalues in rising order, and eigenvectors in columns.
def('self_adjoint_eig', { 'tensor' }, {}, function(o)
  required('self_adjoint_eig', o, 'tensor')
  return op('SelfAdjointEigV2', { matrix('self_adjoint_eig', o.tensor) }, { name = o.name })
end)

def('self_adjoint_eigvals', { 'tensor' }, {}, function(o)
  required('self_adjoint_eigvals', o, 'tensor')
  return (op('SelfAdjointEigV2', { matrix('self_adjoint_eigvals', o.tensor) }, { compute_v = false, name = o.name }))
end)

--- cholesky_solve(chol, rhs): x with A x = rhs, where chol is the Cholesky factor of A.
def('cholesky_solve', { 'chol', 'rhs' }, {}, function(o)
  required('cholesky_solve', o, 'chol', 'rhs')
  local l = matrix('cholesky_solve', o.chol)
  local y = functions.matrix_triangular_solve(l, o.rhs, { lower = true })
  return functions.matrix_triangular_solve(l, y, { lower = true, adjoint = true })
end)

--- The last two axes of x exchanged.
local function transposed(x)
  local rank = graph.rank(x)
  if not rank then errors.bad('lstsq: the rank of the matrix must be known while building') end
  local order = {}
  for i = 1, rank do order[i] = i - 1 end
  order[rank - 1], order[rank] = rank - 1, rank - 2
  return functions.transpose(x, order)
end

local function plus_identity(x, by)
  if by == 0 then return x end
  return functions.matrix_set_diag(x, functions.matrix_diag_part(x) + by)
end

--- What is less than so much of the greatest of a matrix's singular values, or of what stands on a diagonal, is what
-- rounding leaves of 0.
local function as_zero(a)
  local shape = a.shape
  return math.max(shape[#shape], shape[#shape - 1]) * (a.dtype == 'float64' and 2 ^ -52 or 2 ^ -23)
end

--- The shortest of the x that make |a x - b|^2 least, of a matrix of any rank: singular values that rounding leaves of
-- 0 count for nothing.
local function by_svd(a, b)
  local s, u, v = functions.svd(a)
  local least = functions.reduce_max(s, { axis = -1, keep_dims = true }) * as_zero(a)
  local counts = functions.greater(s, least)
  local inverse = functions.where(counts, functions.reciprocal(functions.where(counts, s, functions.ones_like(s))),
                                  functions.zeros_like(s))
  return functions.matmul(v, functions.expand_dims(inverse, -1) * functions.matmul(u, b, { transpose_a = true }))
end

--- The same by QR where no diagonal element of r is as good as 0, which has the better gradient.
local function by_qr(a, b, at, tall)
  local q, r = functions.qr(tall and a or at)
  local size = functions.abs(functions.matrix_diag_part(r))
  local least = functions.reduce_max(size, { axis = -1, keep_dims = true }) * as_zero(a)
  return require('dflow.front.control').cond(functions.reduce_all(functions.greater(size, least)), function()
    if tall then
      return functions.matrix_triangular_solve(r, functions.matmul(q, b, { transpose_a = true }), { lower = false })
    end
    return functions.matmul(q, functions.matrix_triangular_solve(r, b, { lower = false, adjoint = true }))
  end, function() return by_svd(a, b) end, { name = 'lstsq' })
end

--- lstsq(matrix, rhs, {l2_regularizer = 0, fast = true}): x that makes |matrix x - rhs|^2 + l2_regularizer |x|^2 least;
-- of several the shortest. fast: by the normal equations, for a matrix of full rank; else by QR or, where the rank is
-- less, by singular values.
local function lstsq(o)
  required('lstsq', o, 'matrix', 'rhs')
  check_bool('lstsq', o, 'fast')
  local l2 = o.l2_regularizer or 0
  if type(l2) ~= 'number' then errors.bad('lstsq: l2_regularizer is a number, not %s', errors.describe(l2)) end
  local a = matrix('lstsq', o.matrix)
  local b = to_output(o.rhs, graph.dtype(a), a.graph, 'lstsq')
  local rank = graph.rank(a)
  local m, n = rank and a.shape[rank - 1] or -1, rank and a.shape[rank] or -1
  if not rank or rank < 2 or m < 0 or n < 0 then
    errors.bad('lstsq: the last two dimensions of the matrix must be known while building')
  end
  local at = transposed(a)
  if o.fast == false then
    if l2 ~= 0 then errors.bad('lstsq: l2_regularizer is of the fast way; with fast = false there is none') end
    return by_qr(a, b, at, m >= n)
  end
  if m >= n then
    local l = functions.cholesky(plus_identity(functions.matmul(at, a), l2))
    return functions.cholesky_solve(l, functions.matmul(at, b))
  end
  local l = functions.cholesky(plus_identity(functions.matmul(a, at), l2))
  return functions.matmul(at, functions.cholesky_solve(l, b))
end
def('lstsq', { 'matrix', 'rhs', 'l2_regularizer', 'fast' }, {}, lstsq)
def('matrix_solve_ls', { 'matrix', 'rhs', 'l2_regularizer', 'fast' }, {}, lstsq)

--- tridiagonal_matmul(diagonals[..., 3, n], rhs[..., n, k]): the tridiagonal matrix times rhs; rows above, main and
-- below.
def('tridiagonal_matmul', { 'diagonals', 'rhs' }, {}, function(o)
  required('tridiagonal_matmul', o, 'diagonals', 'rhs')
  local d = matrix('tridiagonal_matmul', o.diagonals)
  local x = to_output(o.rhs, graph.dtype(d), d.graph, 'tridiagonal_matmul')
  local function row(i) return functions.expand_dims(functions.gather(d, i, { axis = -2 }), -1) end
  local n = functions.dim(x, -2)
  local up, down = functions.gather(x, functions.range(1, n), { axis = -2 }),
  functions.gather(x, functions.range(0, n - 1), { axis = -2 })
  local zero = functions.zeros_like(functions.gather(x, { 0 }, { axis = -2 }))
  return row(1) * x + row(0) * functions.concat({ up, zero }, -2) + row(2) * functions.concat({ zero, down }, -2)
end)

--- tridiagonal_solve(diagonals[..., 3, n], rhs[..., n, k] or [..., n], {partial_pivoting = true}): as TensorFlow's,
-- which takes a vector, too.
def('tridiagonal_solve', { 'diagonals', 'rhs' }, { 'partial_pivoting' }, function(o)
  local what = 'tridiagonal_solve'
  required(what, o, 'diagonals', 'rhs')
  check_bool(what, o, 'partial_pivoting')
  local d = matrix(what, o.diagonals)
  local b = to_output(o.rhs, graph.dtype(d), d.graph, what)
  local vector = graph.rank(b) and graph.rank(d) and graph.rank(b) == graph.rank(d) - 1
  if vector then b = functions.expand_dims(b, -1) end
  local x = registry.op('TridiagonalSolve', { d, b },
                        { partial_pivoting = o.partial_pivoting, name = not vector and o.name or nil })
  return vector and functions.squeeze(x, -1) or x
end)

-- ---- Fourier --------------------------------------------------------------------------------------------------------
local function fft_length(what, v, g)
  if type(v) == 'number' then v = { v } end
  if type(v) == 'table' and not typed(v) and #v ~= 1 then errors.bad('%s: fft_length is a list of one number', what) end
  return int32(v, g)
end

--- rfft(input, fft_length): the first fft_length / 2 + 1 elements of the transform of real numbers; all of them unless
-- fft_length says otherwise.
def('rfft', { 'input', 'fft_length' }, {}, function(o)
  required('rfft', o, 'input')
  local x = matrix('rfft', o.input)
  local n = o.fft_length ~= nil and fft_length('rfft', o.fft_length, x.graph)
  or functions.reshape(functions.dim(x, -1), { 1 })
  return op('RFFT', { x, n }, { Tcomplex = graph.dtype(x) == dtypes.number.float64 and 'complex128' or 'complex64',
                                name = o.name })
end)

--- irfft(input, fft_length): the real numbers whose transform begins so; 2 (n - 1) of them unless fft_length says
-- otherwise.
def('irfft', { 'input', 'fft_length' }, {}, function(o)
  required('irfft', o, 'input')
  local x = to_output(o.input, nil, nil, 'irfft')
  local n = o.fft_length ~= nil and fft_length('irfft', o.fft_length, x.graph)
  or functions.reshape((functions.dim(x, -1) - 1) * 2, { 1 })
  return op('IRFFT', { x, n }, { Treal = graph.dtype(x) == dtypes.number.complex128 and 'float64' or 'float32',
      name = o.name })
end)

-- ---- order ----------------------------------------------------------------------------------------------------------
--- values with their axis last, and how to put it back.
local function axis_last(what, v, axis)
  local x = to_output(v, nil, nil, what)
  local rank = graph.rank(x)
  if axis == nil then axis = -1 end
  if type(axis) ~= 'number' or not dtypes.is_whole(axis) then
    errors.bad('%s: axis is %s, a whole number is expected', what, errors.describe(axis))
  end
  if axis == -1 or (rank and axis == rank - 1) then return x, function(y) return y end end
  if not rank then errors.bad('%s along axis %d: the rank must be known while building', what, axis) end
  if axis < -rank or axis >= rank then
    errors.bad('%s: there is no axis %d in a tensor of rank %d', what, axis, rank)
  end
  if axis < 0 then axis = axis + rank end
  local order = {}
  for i = 1, rank do order[i] = i - 1 end
  order[axis + 1], order[rank] = rank - 1, axis
  return functions.transpose(x, order), function(y) return functions.transpose(y, order) end
end

--- Something that falls where x rises.
local function reversed(x)
  local d = graph.dtype(x)
  return (dtypes.is_int(d) and functions.invert or functions.neg)(x)
end

local function rising(what, direction)
  if direction == nil or direction == 'ASCENDING' then return true end
  if direction == 'DESCENDING' then return false end
  errors.bad("%s: direction is 'ASCENDING' or 'DESCENDING', not %s", what, errors.describe(direction))
end

local function top(x)
  if graph.rank(x) == 0 then errors.bad('sort and argsort need an axis; this is a scalar') end
  return functions.top_k(x, functions.dim(x, -1))
end

--- sort(values, axis = -1, direction = 'ASCENDING')
def('sort', { 'values', 'axis', 'direction' }, {}, function(o)
  required('sort', o, 'values')
  local up = rising('sort', o.direction)
  local x, back = axis_last('sort', o.values, o.axis)
  if not up then return back((top(x))) end
  return back(reversed((top(reversed(x)))))
end)

--- argsort(values, axis = -1, direction = 'ASCENDING', stable = false): int32; equal values keep their order.
def('argsort', { 'values', 'axis', 'direction', 'stable' }, {}, function(o)
  required('argsort', o, 'values')
  local up = rising('argsort', o.direction)
  local x, back = axis_last('argsort', o.values, o.axis)
  local _, indices = top(up and reversed(x) or x)
  return back(indices)
end)

--- searchsorted(sorted_sequence, values, side = 'left', out_type = 'int32'): where each value would go, row by row
-- along the last axis; of one sequence also a scalar.
def('searchsorted', { 'sorted_sequence', 'values', 'side', 'out_type' }, {}, function(o)
  required('searchsorted', o, 'sorted_sequence', 'values')
  if o.side ~= nil and o.side ~= 'left' and o.side ~= 'right' then
    errors.bad("searchsorted: side is 'left' or 'right', not %s", errors.describe(o.side))
  end
  local d = typed(o.sorted_sequence) or typed(o.values)
  local s = to_output(o.sorted_sequence, d, nil, 'searchsorted')
  local v = to_output(o.values, graph.dtype(s), s.graph, 'searchsorted')
  local rows = functions.reshape(s, functions.stack { -1, functions.dim(s, -1) })
  local columns = functions.reshape(v, graph.rank(v) == 0 and { 1, 1 } or functions.stack { -1, functions.dim(v, -1) })
  local at = op(o.side == 'right' and 'UpperBound' or 'LowerBound', { rows, columns }, { out_type = o.out_type })
  return functions.reshape(at, functions.shape(v))
end)

-- ---- counting -------------------------------------------------------------------------------------------------------
--- histogram_fixed_width(values, value_range, nbins = 100, dtype = 'int32')
def('histogram_fixed_width', { 'values', 'value_range', 'nbins', 'dtype' }, {}, function(o)
  required('histogram_fixed_width', o, 'values', 'value_range')
  local d = typed(o.values) or typed(o.value_range) or dtypes.FLOAT32
  local g = convert.graph_of(o.values)
  return op('HistogramFixedWidth', { to_output(o.values, d, g), to_output(o.value_range, d, g),
      int32(o.nbins or 100, g) }, { dtype = o.dtype, name = o.name })
end)

local function length_of(key, v)
  if v == nil or convert.typed(v) and not errors.is_data(v) then return end
  if type(v) ~= 'number' or not dtypes.is_whole(v) or v < 0 then
    errors.bad('bincount: %s is a whole number from 0 up, not %s', key, errors.describe(v))
  end
end

--- bincount(arr, weights, {minlength, maxlength, dtype = 'int32'}): how often each number from 0 up is in arr, or the
-- sum of its weights;
-- bincount(arr, size, weights): of the numbers below size.
def('bincount', { 'arr', 'weights', 'minlength', 'maxlength', 'dtype' }, {}, function(o)
  required('bincount', o, 'arr')
  local arr = int32(o.arr)
  local size, weights = nil, o.weights
  if type(weights) == 'number' then
    size, weights = weights, o.minlength
    if type(weights) == 'number' or o.maxlength ~= nil then
      errors.bad('bincount: behind a size, here %s, stand the weights; minlength and maxlength are said where there '
                 .. 'is no size', tostring(size))
    end
  else
    for _, key in ipairs{ 'minlength', 'maxlength' } do length_of(key, o[key]) end
  end
  if size == nil then
    local flat = functions.reshape(arr, { -1 })
    local none = convert.constant(arr.graph, { -1 }, graph.dtype(arr), { 1 })
    local function wide(x) return functions.cast(x, 'int64') end
    -- 2^31 at most, which is no int32 and so refused, not left out
    size = functions.minimum(wide(functions.reduce_max(functions.concat({ flat, none }, 0))), 2147483647) + 1
    if o.minlength ~= nil then size = functions.maximum(size, wide(o.minlength)) end
    if o.maxlength ~= nil then size = functions.minimum(size, wide(o.maxlength)) end
    size = functions.cast(size, 'int32')
  end
  if weights == nil then weights = functions.zeros({ 0 }, o.dtype or 'int32') end
  return op('Bincount', { arr, size, weights }, { name = o.name })
end)
