-- Solvers, decompositions, Fourier transforms, sorting and counting; values worked by hand, and products that multiply back.
local df = require 'dflow'
local support = require 'spec.support'
local near = support.near

local fails = require('spec.support').fails

local function close(found, expected) near(found, expected, { rtol = 1e-5, atol = 1e-5 }) end
local function t(x) return { transpose_b = x ~= 'a', transpose_a = x == 'a' } end

describe('linear algebra', function()
  local a = { { 4.0, 1.0, 0.5 }, { 1.0, 3.0, -0.2 }, { 0.5, -0.2, 2.0 } }
  local b = { { 1.0, 2.0 }, { 0.0, -1.0 }, { 3.0, 0.5 } }

  it('solves, in batches, with the matrix or its transpose', function()
    close(df.run(df.matmul(a, df.matrix_solve(a, b))), b)
    local m = df.stack{ df.float32(a), df.float32{ { 0, 2, 0 }, { 1, 0, 0 }, { 0, 1, 5 } } }
    local rhs = df.stack{ df.float32(b), df.float32(b) }
    close(df.run(df.matmul(m, df.matrix_solve(m, rhs))), { b, b })
    close(df.run(df.matmul(m, df.matrix_solve(m, rhs, { adjoint = true }), { transpose_a = true })), { b, b })
    local x = df.run(df.matrix_solve(df.float64(a), df.float64(b)))
    assert.are.equal('float64', x.dtype)
    close(df.run(df.matrix_triangular_solve(a, b)), { { 0.25, 0.5 }, { -0.0833333, -0.5 }, { 1.4291667, 0.075 } })
    close(df.run(df.matmul(df.matrix_band_part(a, 0, -1), df.matrix_triangular_solve(a, b, { lower = false }))), b)
    close(df.run(df.matmul(df.matrix_band_part(a, -1, 0), df.matrix_triangular_solve(a, b, { adjoint = true }), t 'a')), b)
  end)

  it('inverts, and knows determinants', function()
    close(df.run(df.matmul(a, df.matrix_inverse(a))), { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } })
    close(df.run(df.matrix_determinant{ { { 1.0, 2.0 }, { 3.0, 4.0 } }, { { 2.0, 0.0 }, { 0.0, 3.0 } } }), { -2, 6 })
    local sign, log = df.log_matrix_determinant{ { 0.0, 2.0 }, { 3.0, 4.0 } }
    assert.are.equal(-1, df.run(sign))
    close(df.run(log), math.log(6))
    assert.are.equal(0, df.run(df.matrix_determinant{ { 1.0, 2.0 }, { 2.0, 4.0 } }))
  end)

  it('decomposes: cholesky, qr, svd, self_adjoint_eig', function()
    local l = df.cholesky(a)
    close(df.run(l), { { 2, 0, 0 }, { 0.5, 1.6583124, 0 }, { 0.25, -0.1959799, 1.3780751 } })
    close(df.run(df.matmul(a, df.cholesky_solve(l, b))), b)
    local q, r = df.qr(b)
    close(df.run(df.matmul(q, r)), b)
    close(df.run(df.matmul(q, q, t 'a')), { { 1, 0 }, { 0, 1 } })
    close(df.run(r), { { -3.1622777, -1.1067972 }, { 0, 2.0062403 } })
    local whole = df.qr(b, { full_matrices = true })
    close(df.run(df.matmul(whole, whole, t 'a')), { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } })
    local s, u, v = df.svd(b)
    close(df.run(df.matmul(u * s, v, t())), b)
    close(df.run(df.svd(b, { compute_uv = false })), df.run(s))
    local _, whole_u = df.svd(b, { full_matrices = true })
    assert.are.same({ 3, 3 }, df.run(whole_u).shape)
    local e, w = df.self_adjoint_eig(a)
    close(df.run(df.matmul(w * e, w, t())), a)
    close(df.run(df.self_adjoint_eigvals(a)), df.run(e))
    close(df.run(df.self_adjoint_eigvals{ { 2.0, 1.0 }, { 1.0, 2.0 } }), { 1, 3 })
  end)

  it('finds least squares', function()
    local m, rhs = { { 1.0, 1.0 }, { 1.0, 2.0 }, { 1.0, 3.0 } }, { { 1.0 }, { 2.0 }, { 4.0 } }
    close(df.run(df.lstsq(m, rhs)), { { -0.6666667 }, { 1.5 } })
    close(df.run(df.lstsq(m, rhs, { fast = false })), { { -0.6666667 }, { 1.5 } })
    close(df.run(df.lstsq({ { 1.0, 2.0, 2.0 } }, { { 9.0 } })), { { 1 }, { 2 }, { 2 } })
    close(df.run(df.lstsq({ { 1.0, 2.0, 2.0 } }, { { 9.0 } }, { fast = false })), { { 1 }, { 2 }, { 2 } })
    close(df.run(df.lstsq({ { 2.0 } }, { { 4.0 } }, { l2_regularizer = 4 })), { { 1 } })
    -- of less than full rank; the numbers are TensorFlow's
    local flat = { { 1.0, 2.0 }, { 2.0, 4.0 }, { 3.0, 6.0 } }
    close(df.run(df.lstsq(flat, { { 1.0 }, { 2.0 }, { 2.0 } }, { fast = false })), { { 0.1571428 }, { 0.3142857 } })
    close(df.run(df.lstsq({ { 1.0, 2.0, 3.0 }, { 2.0, 4.0, 6.0 } }, { { 1.0 }, { 2.0 } }, { fast = false })), { { 0.0714286 }, { 0.1428571 }, { 0.2142857 } })
    local a, b = df.constant(m), df.constant(rhs)
    assert.is_true(df.check_gradients(df.reduce_sum(df.square(df.lstsq(a, b, { fast = false }))), { a, b }))
    assert.matches('l2_regularizer is of the fast way', require('spec.support').message_of(df.lstsq, m, rhs, { l2_regularizer = 0.5, fast = false }))
  end)

  it('solves and multiplies by tridiagonal matrices', function()
    local d = df.float64{ { 1, 2, 0.5, 9 }, { 0.1, 3, 4, 1 }, { 9, 5, 1, 2 } }
    local x = df.float64{ { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } }
    local y = df.tridiagonal_matmul(d, x)
    close(df.run(y), { { 3.1, 4.2 }, { 24, 34 }, { 26.5, 32 }, { 17, 20 } })
    close(df.run(df.tridiagonal_solve(d, y)), df.run(x))
    close(df.run(df.tridiagonal_solve(d, df.unstack(y, { axis = 1 })[2])), { 2, 4, 6, 8 })
  end)

  it('says what is wrong with a matrix', function()
    local singular = { { 1.0, 2.0 }, { 2.0, 4.0 } }
    fails(function() df.run(df.matrix_inverse(singular)) end, 'invalid_argument', 'Input is not invertible.')
    fails(function() df.run(df.matrix_solve(singular, { { 1.0 }, { 1.0 } })) end, 'invalid_argument', 'Input matrix is not invertible.')
    fails(function() df.run(df.matrix_triangular_solve({ { 0.0 } }, { { 1.0 } })) end, 'invalid_argument', 'Input matrix is not invertible.')
    fails(function() df.run(df.cholesky{ { 1.0, 2.0 }, { 2.0, 1.0 } }) end, 'invalid_argument', 'Cholesky decomposition was not successful')
    fails(function() df.run(df.svd({ { 0 / 0 } }, { compute_uv = false })) end, 'invalid_argument', 'not finite')
    fails(function() df.matrix_inverse(df.ones{ 2, 3 }) end, 'invalid_argument', 'Dimensions must be equal, but are 2 and 3')
    fails(function() df.cholesky{ 1.0, 2.0 } end, 'invalid_argument', 'rank')
    fails(function() df.matrix_solve(a, { { 1.0 } }) end, 'invalid_argument', 'Dimensions must be equal')
    local x = df.placeholder('float32')
    fails(function() df.run(df.matrix_inverse(x), { [x] = { { 1, 2, 3 } } }) end, 'invalid_argument', 'Dimensions must be equal, but are 1 and 3')
  end)

  it('takes empty matrices', function()
    assert.are.same({ 0, 2, 2 }, df.run(df.matrix_inverse(df.zeros{ 0, 2, 2 })).shape)
    assert.are.equal(1, df.run(df.matrix_determinant(df.zeros{ 0, 0 })))
    assert.are.same({ 0 }, df.run(df.svd(df.zeros{ 0, 3 }, { compute_uv = false })).shape)
    local _, u, v = df.svd(df.zeros{ 2, 3, 0 }, { full_matrices = true })
    close(df.run(u), df.run(df.stack{ df.eye(3), df.eye(3) }))
    assert.are.same({ 2, 0, 0 }, df.run(v).shape)
  end)
end)

describe('a Fourier transform', function()
  it('is the sum that it is, of any length', function()
    for _, n in ipairs{ 1, 2, 4, 5, 7, 8, 12 } do
      local x = support.tensor({ n }, -1, 1, 'float64', n)
      local z = df.fft(df.complex(x, df.zeros({ n }, 'float64')))
      local re, im = df.run(df.real(z)):totable(), df.run(df.imag(z)):totable()
      for k = 0, n - 1 do
        local sum, other = 0, 0
        for i = 0, n - 1 do
          sum = sum + x:at(i) * math.cos(2 * math.pi * i * k / n)
          other = other - x:at(i) * math.sin(2 * math.pi * i * k / n)
        end
        close({ re[k + 1], im[k + 1] }, { sum, other })
      end
      close(df.run(df.real(df.ifft(z))), x)
      close(df.run(df.irfft(df.rfft(x), { n })), x)
    end
  end)
  --- The largest difference from the reference's, beside the largest element.
  local function off(f)
    df.reset()
    local y = f()
    local parts = y.dtype:find('complex', 1, true) and { df.real(y), df.imag(y) } or { y }
    local expected, found = df.Session{ kernels = 'ref' }:run(parts), df.Session{ kernels = 'cpu' }:run(parts)
    local worst, largest = 0, 1e-300
    for i, e in ipairs(expected) do
      e = df.constant(e)
      local sizes = df.run{ df.reduce_max(df.abs(e - found[i])), df.reduce_max(df.abs(e)) }
      worst, largest = math.max(worst, sizes[1]), math.max(largest, sizes[2])
    end
    return worst / largest
  end

  it('of many and long lines is the reference\'s, to the last digits', function()
    for i, dims in ipairs{ { 1 }, { 3, 2 }, { 16 }, { 9, 27 }, { 64 }, { 200 }, { 13, 60 }, { 2, 5, 49 }, { 33, 61 }, { 3, 67 }, { 1009 }, { 4093 }, { 4096 },
                           { 2, 5000 }, { 10000 }, { 8191 }, { 2, 17, 97 }, { 1, 30030 } } do
      local function z(dtype)
        local x = df.complex(support.tensor(dims, -1, 1, 'float64', i), support.tensor(dims, -1, 1, 'float64', i + 40))
        return df.cast(x, dtype)
      end
      for _, name in ipairs{ 'fft', 'ifft', #dims > 1 and 'fft2d' or 'fft', #dims > 1 and 'ifft2d' or 'ifft' } do
        assert.is_true(off(function() return df[name](z('complex128')) end) < 4e-15)
        assert.is_true(off(function() return df[name](z('complex64')) end) < 2e-7)
      end
    end
  end)

  it('of real numbers, and its gradient, is the reference\'s, whatever is cut or filled up', function()
    for i, dims in ipairs{ { 1 }, { 3, 2 }, { 2, 4 }, { 9, 30 }, { 2, 67 }, { 2, 514 }, { 5000 }, { 3, 2 * 131 }, { 20, 101 } } do
      for _, more in ipairs{ 0, 1, 7, -1, -30 } do
        local n = math.max(dims[#dims] + more, 1)
        local function x(dtype) return df.constant(support.tensor(dims, -1, 1, dtype, i)) end
        for _, dtype in ipairs{ 'float64', 'float32' } do
          local near = dtype == 'float64' and 4e-15 or 2e-7
          local function square(y) return y.dtype:find('complex', 1, true) and df.square(df.real(y)) + df.imag(y) or df.square(y) end
          local function half() return df.complex(x(dtype), x(dtype) * 0.5 + 1) end
          assert.is_true(off(function() return df.rfft(x(dtype), { n }) end) < near)
          assert.is_true(off(function() return df.irfft(half(), { n }) end) < near)
          assert.is_true(off(function()
            local v = x(dtype)
            return df.gradients(df.reduce_sum(square(df.rfft(v, { n }))), v)
          end) < near)
          assert.is_true(off(function()
            local v = x(dtype)
            return df.gradients(df.reduce_sum(square(df.irfft(df.complex(v, v * 0.5 + 1), { n }))), v)
          end) < near)
        end
      end
    end
  end)

  it('of two axes, and of real numbers cut or filled up', function()
    local x = df.float32{ { 1, 2, 3 }, { 4, 5, 6 } }
    close(df.run(df.real(df.ifft2d(df.fft2d(df.cast(x, 'complex64'))))), { { 1, 2, 3 }, { 4, 5, 6 } })
    close(df.run(df.real(df.rfft({ 1.0, 2.0, 3.0 }, 2))), { 3, -1 })
    close(df.run(df.real(df.rfft({ 1.0, 2.0 }, { 4 }))), { 3, 1, -1 })
  end)
end)

describe('sorting and counting', function()
  it('along any axis, either way, keeping the order of equals', function()
    local x = { { 3, 1, 2 }, { 0, 5, -1 } }
    assert.are.same({ { 1, 2, 3 }, { -1, 0, 5 } }, df.run(df.sort(x)):totable())
    assert.are.same({ { 0, 1, -1 }, { 3, 5, 2 } }, df.run(df.sort(x, 0)):totable())
    assert.are.same({ { 3, 2, 1 }, { 5, 0, -1 } }, df.run(df.sort(x, -1, 'DESCENDING')):totable())
    assert.are.same({ { 1, 2, 0 }, { 2, 0, 1 } }, df.run(df.argsort(x)):totable())
    assert.are.same({ 0, 2, 1, 3 }, df.run(df.argsort{ 1, 2, 1, 3 }):totable())
    assert.are.same({ -128, 0, 127 }, df.run(df.sort(df.constant({ 127, -128, 0 }, 'int8'))):totable())
    local p = df.placeholder('float32', { 3 })
    close(df.run(df.gradients(df.reduce_sum(df.sort(p) * df.float32{ 1, 10, 100 }), p), { [p] = { 3, 1, 2 } }), { 100, 1, 10 })
    fails(function() df.sort({ 1, 2 }, 0, 'UP') end, 'invalid_argument', "'ASCENDING' or 'DESCENDING'")
  end)
  it('counts the boundaries that numbers have reached, whatever the dtype of either', function()
    for _, of in ipairs{ 'int32', 'int64', 'float32', 'float64' } do
      for _, among in ipairs{ 'int8', 'uint8', 'int32', 'int64', 'float32', 'float64' } do
        local found = df.run(df.bucketize(df.constant({ -1, 0, 1, 2, 5 }, of), { boundaries = df.tensor({ 0, 2, 2, 4 }, among) }))
        assert.are.same({ 0, 1, 1, 3, 4 }, found:totable(), of .. ' among ' .. among)
      end
    end
  end)
  it('finds places in what is sorted', function()
    assert.are.same({ 0, 1, 3 }, df.run(df.searchsorted({ 1, 3, 5 }, { 0, 3, 6 })):totable())
    assert.are.same({ 0, 2, 3 }, df.run(df.searchsorted({ 1, 3, 5 }, { 0, 3, 6 }, { side = 'right' })):totable())
    assert.are.same({ { 1 }, { 0 } }, df.run(df.searchsorted({ { 1, 3 }, { 5, 7 } }, { { 2 }, { 2 } })):totable())
  end)
  it('counts into bins, and by number', function()
    assert.are.same({ 2, 1, 1, 0, 2 }, df.run(df.histogram_fixed_width({ -1.0, 0.0, 1.5, 2.0, 5.0, 15.0 }, { 0.0, 5.0 }, 5)):totable())
    assert.are.equal(100, df.run(df.histogram_fixed_width({ 1.0 }, { 0.0, 5.0 })).size)
    fails(function() df.run(df.histogram_fixed_width({ 1.0 }, { 5.0, 0.0 }, 3)) end, 'invalid_argument', 'value_range')
    assert.are.same({ 0, 2, 1 }, df.run(df.bincount{ 1, 2, 1 }):totable())
    assert.are.same({ 0, 2, 1, 0 }, df.run(df.bincount({ 1, 2, 1 }, { minlength = 4 })):totable())
    assert.are.same({ 0, 2 }, df.run(df.bincount({ 1, 2, 1 }, { maxlength = 2 })):totable())
    assert.are.same({ 0, 4, 2 }, df.run(df.bincount({ 1, 2, 1 }, { 1.0, 2.0, 3.0 })):totable())
    assert.are.same({ 0, 2, 1 }, df.run(df.bincount({ 1, 2, 1 }, 3, df.int32{})):totable())
  end)

  it('refuse to count numbers that are too large for a size, and count those below one that was given', function()
    for _, most in ipairs{ 2147483647, 2147483648, 4294967296, 9007199254740992 } do
      local arr = df.constant({ 1, most }, most > 2147483647 and 'int64' or 'int32')
      fails(function() df.run(df.bincount(arr)) end, 'invalid_argument', 'wants a size or a maxlength')
      fails(function() df.run(df.bincount(arr, { minlength = 9 })) end, 'invalid_argument', 'wants a size or a maxlength')
      assert.are.same({ 0, 1, 0 }, df.run(df.bincount(arr, { maxlength = 3 })):totable())
    end
  end)
end)
