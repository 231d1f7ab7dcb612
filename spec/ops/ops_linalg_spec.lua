--- Matrix products, einsum and diagonals: special cases, errors, derivatives of einsum, kernels.
-- run: first
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of

local function f32(v, shape) return df.constant(v, 'float32', shape) end
local function i32(v, shape) return df.constant(v, 'int32', shape) end
local function has(text, part) assert(text:find(part, 1, true), ('%q has no %q'):format(text, part)) end

local tolerance = { float32 = 1e-5, float64 = 1e-13, float16 = 2e-3, bfloat16 = 2e-2 }
local function opts_of(dtype, what)
  local t = tolerance[dtype] or 0
  return { rtol = t, atol = 4 * t, what = dtype .. ' ' .. what }
end
local function small(shape, dtype, seed) return support.tensor(shape, -2, 2.9, dtype, seed) end

describe('matmul', function()
  it('gives zeros for an empty inner dimension, and empty results', function()
    same(df.run(df.matmul(f32({}, { 2, 0 }), f32({}, { 0, 3 }))), { { 0, 0, 0 }, { 0, 0, 0 } })
    same(df.run(df.matmul(f32({}, { 0, 2 }), f32({ 1, 2 }, { 2, 1 }))).shape, { 0, 1 })
    same(df.run(df.matmul(i32({}, { 2, 0 }), i32({}, { 0, 1 }))), { { 0 }, { 0 } })
    same(df.run(df.matmul(f32({}, { 3, 1, 0 }), f32({}, { 3, 0, 1 }))), { { { 0 } }, { { 0 } }, { { 0 } } })
  end)

  it('lets NaN and infinities through, also next to zeros', function()
    local nan, inf = 0 / 0, math.huge
    same(df.run(df.matmul(f32({ nan, 0, 0, 0 }, { 2, 2 }), f32({ 1, 1, 1, 1 }, { 2, 2 }))), { { nan, nan }, { 0, 0 } })
    same(df.run(df.matmul(f32({ 0, 1 }, { 1, 2 }), f32({ inf, 1 }, { 2, 1 }))), { { nan } })
  end)

  it('names shapes that do not fit', function()
    has(message_of(df.matmul, f32({ 1, 2 }, { 1, 2 }), f32({ 1, 2, 3 }, { 3, 1 })),
      'the inner dimensions differ, 2 and 3: a is float32[1,2], b is float32[3,1]')
    has(message_of(df.matmul, f32{ 1, 2 }, f32({ 1, 2 }, { 2, 1 })), 'needs two matrices, got float32[2] and float32[2,1]')
    has(message_of(df.matmul, f32({ 1, 2 }, { 2, 1, 1 }), f32({ 1, 2, 3 }, { 3, 1, 1 })), 'do not broadcast')
    local x = df.placeholder('float32', { -1, -1 })
    has(message_of(df.run, df.matmul(x, f32({ 1 }, { 1, 1 })), { [x] = df.tensor({ 1, 2 }, 'float32', { 1, 2 }) }), 'the inner dimensions differ, 2 and 1')
  end)

  it('keeps an infinity in the last of an odd number of columns of bfloat16', function()
    for _, k in ipairs{ 3, 4, 15 } do
      local a = df.tensor_scatter_update(df.ones({ k, 600 }, 'bfloat16'), { { k - 1, 7 } }, df.cast(df.float32{ math.huge }, 'bfloat16'))
      local b = df.ones({ k, 600 }, 'bfloat16')
      local turned, plain = df.matmul(a, b, { transpose_a = true }), df.matmul(df.transpose(a), b)
      local rows = df.run(df.cast(df.stack{ turned[7], plain[7], turned[8] }, 'float32')):totable()
      for j = 1, 600 do same({ rows[1][j], rows[2][j], rows[3][j] }, { math.huge, math.huge, k }) end
    end
  end)

  it('lets NaN and infinities through in bfloat16, also next to zeros', function()
    local a = df.tensor_scatter_update(df.zeros({ 64, 64 }, 'bfloat16'), { { 3, 5 }, { 4, 6 } }, df.cast(df.float32{ 0 / 0, math.huge }, 'bfloat16'))
    local y = df.cast(df.matmul(a, df.ones({ 64, 64 }, 'bfloat16')), 'float32')
    same(df.run(df.reduce_max(y, { axis = 1 })):totable()[5], math.huge)
    same(df.run(df.reduce_sum(df.cast(df.is_nan(y), 'int32'), { axis = 1 })):totable()[4], 64)
    same(df.run(df.reduce_sum(df.cast(df.equal(y, 0), 'int32'))), 62 * 64)
  end)

  it('gives the same bits on any number of threads', function()
    local g = df.Graph()
    g:as_default(function()
      local a, b = df.constant(small({ 150, 220 }, 'float32', 1)), df.constant(small({ 220, 230 }, 'float32', 2))
      local c, d = df.constant(small({ 600, 300 }, 'float32', 3)), df.constant(small({ 300, 700 }, 'float32', 4))
      local ys = { df.matmul(a, b), df.matmul(b, a, { transpose_a = true, transpose_b = true }), df.matmul(a, b:slice({ 0, 0 }, { 220, 1 })),
                   df.matmul(c, d), df.matmul(df.transpose(c), df.transpose(d), { transpose_a = true, transpose_b = true }),
                   df.cast(df.matmul(df.cast(c, 'bfloat16'), df.cast(d, 'bfloat16')), 'float32') }
      local one, four = df.Session{ graph = g, threads = 1 }, df.Session{ graph = g, threads = 4 }
      local expected = one:run(ys)
      for _ = 1, 5 do same(four:run(ys), expected) end
      one:close()
      four:close()
    end)
  end)

  it('gives rows of a large product the bits that they have among others', function()
    local a, b = df.constant(small({ 900, 400 }, 'float32', 5)), df.constant(small({ 400, 600 }, 'float32', 6))
    local all = df.run(df.matmul(a, b))
    same(df.run(df.matmul(a:slice({ 300, 0 }, { 480, 400 }), b)), df.run(df.constant(all):slice({ 300, 0 }, { 480, 600 })))
  end)
end)

describe('einsum', function()
  local size = { i = 3, j = 4, k = 5, l = 2, m = 6, a = 2, b = 3 }
  local equations = { 'ij,jk->ik', 'ij,kj->ik', 'ji,jk->ki', 'ij->ji', 'ij->', 'ij->i', 'ij->j', 'ii->i', 'ii->', 'ii', 'ij,ij->', 'ij,ij->ij', 'i,j->ij',
                      'ijk,ikl->ijl', 'ijk,ilk->ijl', 'ijk,ljm->iklm', 'ij,jk,kl->il', 'ij,jk,kl', 'i,i->', 'i,i->i', 'ijk->kji', 'iji->j', 'iij->ij',
                      'ijj,jk->ik', 'abij,abjk->abik', 'ijkl,klm->ijm', 'ij,kl->', 'ij,j->i', ',ij->ij', 'ij,->ji', 'aibj,bjk->aik', 'ijkl->lkji',
                      'a,b,i->abi', 'ab,ab,ab->a', 'ij,ik,il->jkl', 'iii->', 'ijij->ji' }
  local function shapes_of(equation)
    local shapes, left = {}, equation:match('^(.-)%->') or equation
    for part in (left .. ','):gmatch('(.-),') do
      local shape = {}
      for label in part:gmatch('.') do shape[#shape + 1] = size[label] end
      shapes[#shapes + 1] = shape
    end
    return shapes
  end
  local ellipses = { { '...ij,...jk->...ik', { 2, 3, 4 }, { 2, 4, 5 } }, { '...ij,...jk->...ik', { 2, 3, 4 }, { 4, 5 } },
                     { '...ij,jk', { 2, 1, 3, 4 }, { 4, 5 } },
                     { '...ij,...jk->ik...', { 2, 1, 3, 4 }, { 7, 4, 5 } }, { 'i...->...', { 3, 4, 5 } }, { 'i...,i...->i...', { 3, 1, 5 }, { 3, 5 } },
                     { '...->', { 3, 2 } }, { 'a...b,b...->...a', { 2, 3, 1, 4 }, { 4, 3, 5 } },
                     { '...,...->...', { 1, 3 }, { 2, 1 } }, { '...ii->...i', { 2, 3, 3 } } }

  it('means what Einstein meant', function()
    local a, b = i32({ 1, 2, 3, 4 }, { 2, 2 }), i32({ 5, 6, 7, 8 }, { 2, 2 })
    same(df.run(df.einsum('ij,jk->ik', a, b)), { { 19, 22 }, { 43, 50 } })
    for _, y in ipairs{ df.einsum('ij,jk->ik', { a, b }), df.einsum('ij,jk->ik', { a, b }, { name = 'of_a_list' }), df.einsum('ij,jk->ik', a, b, { name = 'of_two' }) } do
      same(df.run(y), { { 19, 22 }, { 43, 50 } })
    end
    assert.matches('^of_a_list', df.einsum('ij,jk->ik', { a, b }, { name = 'of_a_list' }).name)
    assert.matches('^of_two', df.einsum('ij,jk->ik', a, b, { name = 'of_two' }).name)
    same(df.run(df.einsum('ij->ji', { a }, { name = 'of_one' })), { { 1, 3 }, { 2, 4 } })
    assert.is_false((pcall(df.einsum, 'ij,jk->ik', { a, b }, { nam = 'x' })))
    same(df.run(df.einsum('ij,jk', a, b)), { { 19, 22 }, { 43, 50 } })
    same(df.run(df.einsum('ji', a)), { { 1, 3 }, { 2, 4 } })
    same(df.run(df.einsum('ii->', a)), 5)
    same(df.run(df.einsum('ii', a)), 5)
    same(df.run(df.einsum('ii->i', a)), { 1, 4 })
    same(df.run(df.einsum('ij,ij->', a, b)), 70)
    same(df.run(df.einsum('i,j->ij', i32{ 1, 2 }, i32{ 3, 4 })), { { 3, 4 }, { 6, 8 } })
    same(df.run(df.einsum('...j->...', a)), { 3, 7 })
    same(df.run(df.einsum('ij->j', f32({}, { 0, 2 }))), { 0, 0 })
    same(df.run(df.einsum('ij,jk->ik', f32({}, { 2, 0 }), f32({}, { 0, 1 }))), { { 0 }, { 0 } })
  end)

  it('knows its shape', function()
    local x = df.placeholder('float32', { -1, 3 })
    same(df.einsum('ij,jk->ki', x, f32({ 1, 2, 3 }, { 3, 1 })).shape, { 1, -1 })
    same(df.einsum('...j->...', x).shape, { -1 })
    assert.is_nil(df.einsum('...j->...', df.placeholder('float32')).shape)
    same(df.einsum('ij->ji', df.placeholder('float32')).shape, { -1, -1 })
  end)

  it('says what is wrong with an equation', function()
    local x, y = f32({ 1, 2, 3, 4, 5, 6 }, { 2, 3 }), f32({ 1, 2, 3, 4 }, { 2, 2 })
    has(message_of(df.einsum, 'ij,jk->iq', x, y), "output label 'q' is in no operand")
    has(message_of(df.einsum, 'ij,jk->ik', f32({ 1, 2 }, { 2, 1 }), y), "label 'j' is 2 in operand 1 and 1 before")
    has(message_of(df.einsum, 'ij,jk->ik', x), 'names 2 operands, got 1 inputs')
    has(message_of(df.einsum, 'ij,jk->ik', x, y), "label 'j' is 2 in operand 1 and 3 before")
    has(message_of(df.einsum, 'ijk->i', x), 'gives operand 0 3 axes, got rank 2')
    has(message_of(df.einsum, '...ijk->i', x), 'gives operand 0 at least 3 axes, got rank 2')
    has(message_of(df.einsum, 'ij->ii', x), 'a label occurs twice in the output')
    has(message_of(df.einsum, 'i?->i', x), "expected letters, '...', ',' and one '->'")
    has(message_of(df.einsum, 'ij->i->j', x), "one output after '->'")
    has(message_of(df.einsum, '...i...->i', x), 'two ellipses')
  end)

  it('agrees with the reference', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64', 'float16', 'bfloat16' } do
      for _, equation in ipairs(equations) do
        local tensors = {}
        for i, shape in ipairs(shapes_of(equation)) do
          for a, d in ipairs(shape) do shape[a] = (equation == 'iji->j' or equation == 'ijij->ji') and 3 or d end
          tensors[i] = small(shape, dtype, i)
        end
        support.cpu_equals_ref(function(...) return df.einsum(equation, ...) end, tensors, opts_of(dtype, equation))
      end
      for _, row in ipairs(ellipses) do
        local tensors = {}
        for i = 2, #row do tensors[i - 1] = small(row[i], dtype, i) end
        support.cpu_equals_ref(function(...) return df.einsum(row[1], ...) end, tensors, opts_of(dtype, row[1]))
      end
    end
  end)

  it('has derivatives of first and second order', function()
    size = { i = 3, j = 2, k = 2, l = 2, a = 2, b = 2 }
    for _, equation in ipairs{ 'ij,jk->ik', 'ij->ji', 'ij->', 'ij->i', 'ii->i', 'ii->', 'ij,ij->', 'i,j->ij', 'ijk,ikl->ijl', 'ij,jk,kl->il',
                               'iji->j', 'iij->ij',
                               'ijj,jk->ik', 'i,i->', ',ij->ij', 'ij,ik,il->jkl', 'iii->' } do
      local tensors = {}
      for i, shape in ipairs(shapes_of(equation)) do tensors[i] = support.tensor(shape, -1, 1, 'float64', i) end
      support.check_gradient(function(...) return df.tanh(df.einsum(equation, ...)) end, tensors, { order = 2, what = equation })
    end
    for _, row in ipairs{ { '...ij,...jk->...ik', { 2, 1, 2, 3 }, { 2, 3, 2 } }, { 'i...,i...->...', { 3, 1, 2 }, { 3, 2 } }, { 'i...->', { 3, 1, 2 } },
                          { 'a...b,b...->...a', { 2, 3, 1, 2 }, { 2, 3, 2 } } } do
      local tensors = {}
      for i = 2, #row do tensors[i - 1] = support.tensor(row[i], -1, 1, 'float64', i) end
      support.check_gradient(function(...) return df.tanh(df.einsum(row[1], ...)) end, tensors, { order = 2, what = row[1] })
    end
  end)

  it('has derivatives where shapes are known only when it runs', function()
    local a, b = df.placeholder('float64', { -1, -1, -1 }), df.placeholder('float64', { -1, -1 })
    local y = df.reduce_sum(df.square(df.einsum('...ij,...j->...i', a, b)))
    local ta, tb = support.tensor({ 1, 2, 3 }, -1, 1, 'float64', 1), support.tensor({ 4, 3 }, -1, 1, 'float64', 2)
    local p, q = df.constant(ta), df.constant(tb)
    local z = df.reduce_sum(df.square(df.einsum('...ij,...j->...i', p, q)))
    near(df.run(df.gradients(y, { a, b }), { [a] = ta, [b] = tb }), df.run(df.gradients(z, { p, q })), { rtol = 1e-13 })
    local unknown = df.placeholder('float64')
    has(message_of(function() return df.gradients(df.einsum('...i->...', unknown), unknown) end), 'to be known while building')
  end)
end)

describe('diagonals', function()
  it('need matrices', function()
    has(message_of(df.matrix_band_part, f32{ 1 }, 0, 0), 'needs a matrix, got float32[1]')
    has(message_of(df.matrix_diag_part, f32{ 1 }), 'needs a matrix, got float32[1]')
    has(message_of(df.matrix_diag, f32(1)), 'needs 1 to 7 axes, got 0')
    has(message_of(df.run, df.matrix_band_part(f32({ 1 }, { 1, 1 }), 2, 0)), 'must be at most 1 and 1')
  end)
end)
