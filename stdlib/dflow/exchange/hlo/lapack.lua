--- The calls of LAPACK that JAX puts into a module for the CPU: potrf, trsm, getrf, geqrf, orgqr, syevd, gesdd, as
-- dflow's ops.
local df = require 'dflow'
local value = require 'dflow.exchange.hlo.value'

local calls = {}
local join = value.join

--- The letter that an option of the call has: 'L' of `uplo = 76 : ui8`.
local function letter(n, name)
  local code = (n.i.config or ''):match(name .. ' = (%d+)')
  return code and string.char(tonumber(code)) or n:refuse(('its option %s is not there'):format(name))
end
local function swapped(x)
  local r = #x.shape
  return value.transpose(x, join(value.iota(r - 2), { r - 1, r - 2 }))
end
local function triangle(x, lower) return df.matrix_band_part(x, lower and -1 or 0, lower and 0 or -1) end
--- LAPACK's info: 0, for each matrix of the batch. What fails is an error of the op here.
local function info(x)
  local batch = {}
  for k = 1, #x.shape - 2 do batch[k] = x.shape[k] end
  return df.zeros(batch, { dtype = 'int32' })
end

function calls.potrf(n, a)
  local lower = letter(n, 'uplo') == 'L'
  local r = df.cholesky(lower and a or swapped(a))
  return { lower and r or swapped(r), info(a) }
end

function calls.trsm(n, a, b)
  local lower, trans = letter(n, 'uplo') == 'L', letter(n, 'trans_x')
  a = triangle(a, lower)
  if letter(n, 'diag') == 'U' then a = df.matrix_set_diag(a, df.ones_like(df.matrix_diag_part(a))) end
  if trans == 'C' then a = df.conj(a) end
  if trans ~= 'N' then a, lower = swapped(a), not lower end
  if letter(n, 'side') == 'L' then return { df.matrix_triangular_solve(a, b, { lower = lower }) } end
  return { swapped(df.matrix_triangular_solve(swapped(a), swapped(b), { lower = not lower })) }
end

--- LU with partial pivoting of one matrix, a column a trip (Golub and Van Loan, 3.4): the factors in one matrix, and
-- the rows that were swapped with, counted from 1.
local function lu(a)
  local rows, columns = a.shape[1], a.shape[2]
  local most = math.min(rows, columns)
  local row, column = df.range(df.int32(rows)), df.range(df.int32(columns))
  local nothing = df.constant(0, a.dtype)
  local _, m, pivots = df.while_loop(function(k) return df.less(k, most) end, function(k, m, pivots)
    local below = df.greater_equal(row, k)
    local p = df.cast(df.argmax(df.select_v2(below, df.abs(df.gather(m, k, 1)), df.constant(-1, a.dtype)),
                                { axis = 0 }), 'int32')
    -- Rows k and p change places.
    local at = df.select_v2(df.equal(row, k), p, df.select_v2(df.equal(row, p), k, row))
    m = df.gather(m, at)
    local pivot, line = df.gather(df.gather(m, k), k), df.gather(m, k)
    local under = df.greater(row, k)
    local zero = df.equal(pivot, nothing)
    local factors = df.select_v2(under, df.gather(m, k, 1) / df.select_v2(zero, df.constant(1, a.dtype), pivot),
                                 nothing)
    local right = df.select_v2(df.greater(column, k), line, nothing)
    m = m - df.expand_dims(factors, 1) * df.expand_dims(right, 0)
    local here = df.logical_and(df.expand_dims(under, 1), df.expand_dims(df.equal(column, k), 0))
    m = df.select_v2(here, df.expand_dims(factors, 1), m)
    pivots = df.select_v2(df.equal(df.range(df.int32(most)), k), p + 1, pivots)
    return k + 1, m, pivots
  end, { df.int32(0), a, df.zeros({ most }, { dtype = 'int32' }) })
  return m, pivots
end

--- One matrix by Householder reflections, a column a trip (Golub and Van Loan, 5.2): R with the vectors below it, and
-- their factors.
local function qr(a)
  local rows, columns = a.shape[1], a.shape[2]
  local most = math.min(rows, columns)
  local row, column = df.range(df.int32(rows)), df.range(df.int32(columns))
  local zero, one = df.constant(0, a.dtype), df.constant(1, a.dtype)
  local _, m, factors = df.while_loop(function(k) return df.less(k, most) end, function(k, m, factors)
    local here, below, x = df.equal(row, k), df.greater(row, k), df.gather(m, k, 1)
    local alpha, rest = df.gather(x, k), df.reduce_sum(df.square(df.select_v2(below, x, zero)))
    local done = df.equal(rest, zero)                                         -- nothing to reflect: the factor is 0
    local beta = df.select_v2(df.less(alpha, zero), one, -one) * df.sqrt(df.square(alpha) + rest)
    local tau = df.select_v2(done, zero, (beta - alpha) / df.select_v2(done, one, beta))
    local v = df.select_v2(here, one, df.select_v2(below, x / df.select_v2(done, one, alpha - beta), zero))
    local w = df.select_v2(df.greater(column, k), tau * df.reduce_sum(df.expand_dims(v, 1) * m, 0), zero)
    m = m - df.expand_dims(v, 1) * df.expand_dims(w, 0)
    x = df.select_v2(here, df.select_v2(done, alpha, beta), df.select_v2(below, v, x))
    m = df.select_v2(df.expand_dims(df.equal(column, k), 0), df.expand_dims(x, 1), m)
    return k + 1, m, df.select_v2(df.equal(df.range(df.int32(most)), k), tau, factors)
  end, { df.int32(0), a, df.zeros({ most }, { dtype = a.dtype }) })
  return m, factors
end

--- The first columns of the product of these reflections.
local function product(m, factors)
  local rows, columns, count = m.shape[1], m.shape[2], factors.shape[1]
  local row, zero, one = df.range(df.int32(rows)), df.constant(0, m.dtype), df.constant(1, m.dtype)
  local _, q = df.while_loop(function(k) return df.greater_equal(k, 0) end, function(k, q)
    local v = df.select_v2(df.equal(row, k), one, df.select_v2(df.greater(row, k), df.gather(m, k, 1), zero))
    local w = df.gather(factors, k) * df.reduce_sum(df.expand_dims(v, 1) * q, 0)
    return k - 1, q - df.expand_dims(v, 1) * df.expand_dims(w, 0)
  end, { df.int32(count - 1), df.eye(rows, { m = columns, dtype = m.dtype }) })
  return q
end

--- fn of each matrix of a batch, and of what belongs to it: one or two values.
local function each(n, fn, a, other, dtypes)
  local r, batch = #a.shape, {}
  if a.dtype:find 'complex' then n:refuse 'its matrices are complex' end
  if r == 2 then return { fn(a, other) } end
  for k = 1, r - 2 do batch[k] = a.shape[k] end
  local function rows(x, keep) return x and value.reshape(x, join({ value.product(batch) }, keep)) end
  local xs = other and { rows(a, { a.shape[r - 1], a.shape[r] }), rows(other, { other.shape[#other.shape] }) }
    or rows(a, { a.shape[r - 1], a.shape[r] })
  local function one(x) return { fn(x) } end
  local function two(x, y) return { fn(x, y) } end
  local all = df.map_fn(other and two or one, xs, { dtype = dtypes })
  for i, y in ipairs(all) do
    local own = {}
    for d = 2, #y.shape do own[d - 1] = y.shape[d] end
    all[i] = value.reshape(y, join(batch, own))
  end
  return all
end
function calls.getrf(n, a) return join(each(n, lu, a, nil, { a.dtype, 'int32' }), { info(a) }) end
function calls.geqrf(n, a) return join(each(n, qr, a, nil, { a.dtype, a.dtype }), { info(a) }) end
function calls.orgqr(n, a, factors) return join(each(n, product, a, factors, { a.dtype }), { info(a) }) end

function calls.syevd(n, a)
  if letter(n, 'mode') ~= 'V' then n:refuse 'it asks for eigenvalues alone' end
  if letter(n, 'uplo') ~= 'L' then a = swapped(a) end
  local values, vectors = df.self_adjoint_eig(a)
  return { vectors, values, info(a) }
end

--- The matrix, which LAPACK writes over, the singular values, and both sides' vectors.
function calls.gesdd(n, a)
  local s, u, v = df.svd(a, { full_matrices = letter(n, 'mode') == 'A' })
  return { a, s, u, swapped(v), info(a) }
end

--- The function of a custom call's target, 'lapack_spotrf_ffi' or the like; nil where it is not known.
return function(target)
  return calls[target:match '^lapack_[sdcz](%w+)_ffi$' or '']
end
