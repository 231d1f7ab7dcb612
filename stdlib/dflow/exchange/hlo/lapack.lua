--- The calls of LAPACK that JAX puts into a module for the CPU: potrf, trsm, getrf, syevd, as dflow's ops.
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

--- LU with partial pivoting of one matrix, a column a trip (Golub and Van Loan, 3.4): the factors in one matrix, and the rows that were
-- swapped with, counted from 1.
local function lu(a)
  local rows, columns = a.shape[1], a.shape[2]
  local most = math.min(rows, columns)
  local row, column = df.range(df.int32(rows)), df.range(df.int32(columns))
  local nothing = df.constant(0, a.dtype)
  local _, m, pivots = df.while_loop(function(k) return df.less(k, most) end, function(k, m, pivots)
    local below = df.greater_equal(row, k)
    local p = df.cast(df.argmax(df.select_v2(below, df.abs(df.gather(m, k, 1)), df.constant(-1, a.dtype)), { axis = 0 }), 'int32')
    -- Rows k and p change places.
    local at = df.select_v2(df.equal(row, k), p, df.select_v2(df.equal(row, p), k, row))
    m = df.gather(m, at)
    local pivot, line = df.gather(df.gather(m, k), k), df.gather(m, k)
    local under = df.greater(row, k)
    local zero = df.equal(pivot, nothing)
    local factors = df.select_v2(under, df.gather(m, k, 1) / df.select_v2(zero, df.constant(1, a.dtype), pivot), nothing)
    local right = df.select_v2(df.greater(column, k), line, nothing)
    m = m - df.expand_dims(factors, 1) * df.expand_dims(right, 0)
    local here = df.logical_and(df.expand_dims(under, 1), df.expand_dims(df.equal(column, k), 0))
    m = df.select_v2(here, df.expand_dims(factors, 1), m)
    pivots = df.select_v2(df.equal(df.range(df.int32(most)), k), p + 1, pivots)
    return k + 1, m, pivots
  end, { df.int32(0), a, df.zeros({ most }, { dtype = 'int32' }) })
  return m, pivots
end
function calls.getrf(n, a)
  local r = #a.shape
  if a.dtype:find 'complex' then n:refuse 'it factors complex matrices' end
  if r == 2 then
    local m, pivots = lu(a)
    return { m, pivots, info(a) }
  end
  local rows, columns = a.shape[r - 1], a.shape[r]
  local batch = {}
  for k = 1, r - 2 do batch[k] = a.shape[k] end
  local all = df.map_fn(function(x) return { lu(x) } end, value.reshape(a, { value.product(batch), rows, columns }), { dtype = { a.dtype, 'int32' } })
  return { value.reshape(all[1], a.shape), value.reshape(all[2], join(batch, { math.min(rows, columns) })), info(a) }
end

function calls.syevd(n, a)
  if letter(n, 'mode') ~= 'V' then n:refuse 'it asks for eigenvalues alone' end
  if letter(n, 'uplo') ~= 'L' then a = swapped(a) end
  local values, vectors = df.self_adjoint_eig(a)
  return { vectors, values, info(a) }
end

--- The function of a custom call's target, 'lapack_spotrf_ffi' or the like; nil where it is not known.
return function(target)
  return calls[target:match '^lapack_[sdcz](%w+)_ffi$' or '']
end
