--- Sparse tensors: each function gives what the same gives of the dense tensors, with the same gradients; in loops, branches, feeds and
--- fetches a SparseTensor stands for its parts. What bad input says.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

--- A sparse tensor of this shape with about half of its elements, in order, of a Variable; its dense form; and that Variable.
local function sparse(shape, seed, dtype)
  local places, at = 1, {}
  for _, d in ipairs(shape) do places = places * d end
  for p = 0, places - 1 do
    seed = (seed * 1103515245 + 12345) % 2147483648
    if seed % 7 < 3 then
      local index, rest = {}, p
      for d = #shape, 1, -1 do index[d], rest = rest % shape[d], math.floor(rest / shape[d]) end
      at[#at + 1] = index
    end
  end
  local v = df.Variable(support.tensor({ #at }, -2, 2, dtype or 'float64', seed))
  local sp = df.SparseTensor(at, v, shape)
  return sp, df.scatter_nd(sp.indices, sp.values, shape), v
end
local function dense(sp) return df.sparse_tensor_to_dense(sp) end
local function flat(x) return df.run(df.reshape(x, { -1 }), nil, { tensors = true }):totable() end

--- Holds where both give the same, and, by these Variables, so do the gradients of a sum of them, of first and second order.
local function alike(a, b, xs)
  assert.same(df.run(df.shape(b)):totable(), df.run(df.shape(a)):totable())
  near(flat(a), flat(b), { rtol = 1e-9, atol = 1e-9 })
  local slopes = {}
  for i, y in ipairs{ a, b } do
    local weights = df.reshape(df.cos(df.cast(df.range(df.size(y)), 'float64')), df.shape(y))
    local first = df.gradients(df.reduce_sum(y * y * y * weights), xs)
    local sum = 0
    for k, x in ipairs(xs) do sum = df.reduce_sum(first[k] * first[k] * (x + 1)) + sum end
    slopes[i] = { first, df.gradients(sum, xs) }
  end
  for order = 1, 2 do
    for k = 1, #xs do near(flat(slopes[1][order][k]), flat(slopes[2][order][k]), { rtol = 1e-8, atol = 1e-8 }) end
  end
end

describe('a sparse tensor', function()
  it('times a matrix is its dense form times it, either of them transposed', function()
    for _, a in ipairs{ false, true } do
      for _, b in ipairs{ false, true } do
        local sp, x, v = sparse({ 4, 3 }, 7)
        local w = df.Variable(support.tensor(b and { 2, a and 4 or 3 } or { a and 4 or 3, 2 }, -1, 1, 'float64', 3))
        alike(df.sparse_tensor_dense_matmul(sp, w, a, b), df.matmul(x, w, { transpose_a = a, transpose_b = b }), { v, w })
      end
    end
    for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'bfloat16', 'int32', 'int64' } do
      for _, how in ipairs{ { rows = 40 }, { adjoint_a = true, rows = 70 } } do
        local sp = sparse({ 70, 40 }, 5, 'float32')
        local at, shape, rows = sp:eval().indices, df.run(sp.dense_shape), how.rows
        local whole = dtype:find 'int' ~= nil
        support.cpu_equals_ref(function(v, b)
          return (registry.op('SparseTensorDenseMatMul', { df.constant(at), v, df.constant(shape), b }, { adjoint_a = how.adjoint_a }))
        end, { support.tensor({ at.shape[1] }, whole and -9 or -1, whole and 9 or 1, dtype, 1),
               support.tensor({ rows, 33 }, whole and -9 or -1, whole and 9 or 1, dtype, 2) }, { rtol = 2e-2, atol = 2e-2 })
      end
    end
  end)

  it('is summed along any axes', function()
    for _, axis in ipairs{ 0, 1, -1, { 0, 2 }, { -1, 0, 1 }, {}, false } do
      for _, keepdims in ipairs{ false, true } do
        local sp, x, v = sparse({ 3, 2, 4 }, 9)
        if axis == false then axis = nil end
        alike(df.sparse_reduce_sum(sp, axis, keepdims), df.reduce_sum(x, { axis = axis, keep_dims = keepdims }), { v })
        local s = df.sparse_reduce_sum_sparse(sp, axis, keepdims)
        alike(dense(s), df.reduce_sum(x, { axis = axis, keep_dims = keepdims }), { v })
      end
    end
    local sp = df.SparseTensor({ { 0, 1 }, { 0, 2 }, { 2, 0 } }, { -3.0, -2, 5 }, { 3, 3 })
    near(flat(df.sparse_reduce_max(sp, 1)), { -2, 0, 5 })
    near(flat(df.sparse_reduce_max_sparse(sp, 1).values), { -2, 5 })
    assert.same({ { 0 }, { 2 } }, df.run(df.sparse_reduce_max_sparse(sp, 1).indices):totable())
  end)

  it('is cut, split, put together, turned and given another shape', function()
    local sp, x, v = sparse({ 3, 5 }, 4)
    local other, y, w = sparse({ 3, 2 }, 5)
    alike(dense(df.sparse_slice(sp, { 1, 2 }, { 9, 2 })), df.slice(x, { 1, 2 }, { 2, 2 }), { v })
    alike(dense(df.sparse_concat(1, { sp, other, sp })), df.concat({ x, y, x }, 1), { v, w })
    alike(dense(df.sparse_concat(-2, { sp, sp })), df.concat({ x, x }, 0), { v })
    alike(dense(df.sparse_concat(0, { sp, other }, { expand_nonconcat_dim = true })), df.concat({ x, df.pad(y, { { 0, 0 }, { 0, 3 } }) }, 0), { v, w })
    alike(dense(df.sparse_transpose(sp)), df.transpose(x, { 1, 0 }), { v })
    alike(dense(df.sparse_reshape(sp, { 5, -1 })), df.reshape(x, { 5, 3 }), { v })
    local pieces = df.sparse_split(sp, 2, 1)
    for i, part in ipairs{ df.slice(x, { 0, 0 }, { 3, 3 }), df.slice(x, { 0, 3 }, { 3, 2 }) } do alike(dense(pieces[i]), part, { v }) end
    local op = { registry.op('SparseSplit', { df.int64(1), sp.indices, sp.values, sp.dense_shape }, { num_split = 2 }) }
    for i = 1, 2 do
      for k, key in ipairs{ 'indices', 'values', 'dense_shape' } do assert.same(flat(pieces[i][key]), flat(op[2 * k - 2 + i])) end
    end
    local even = df.less(df.range(df.size(v)), 3)
    alike(dense(df.sparse_retain(sp, even)), df.scatter_nd(df.slice(sp.indices, { 0, 0 }, { 3, 2 }), df.slice(sp.values, { 0 }, { 3 }), { 3, 5 }), { v })
    assert.same({ 9, 9 }, df.run(df.sparse_reset_shape(sp, { 9, 9 }).dense_shape):totable())
    assert.same({ 2, 3 }, df.run(df.sparse_reset_shape(df.SparseTensor({ { 1, 0 }, { 0, 2 } }, { 1, 2 }, { 9, 9 })).dense_shape):totable())
  end)

  it('is put in order, with the elements of one place as they came', function()
    local v = df.Variable(df.float64{ 1, 2, 3, 4 })
    local sp = df.sparse_reorder(df.SparseTensor({ { 1, 0 }, { 0, 1 }, { 1, 0 }, { 0, 0 } }, v, { 2, 2 }))
    assert.same({ { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 0 } }, df.run(sp.indices):totable())
    alike(sp.values, df.gather(v, { 3, 1, 0, 2 }), { v })
    local names = df.sparse_reorder(df.SparseTensor({ { 2 }, { 0 } }, { 'b', 'a' }, { 3 }))
    assert.same({ 'a', 'b' }, df.run(names.values):totable())
  end)

  it('is added to, multiplied by and divided by what is dense, which is broadcast', function()
    for _, shape in ipairs{ { 3, 4 }, { 4 }, { 3, 1 }, { 1, 1 }, {} } do
      local sp, x, v = sparse({ 3, 4 }, 11)
      local b = df.Variable(support.tensor(shape, 0.5, 2, 'float64', 2))
      alike(dense(sp * b), x * b, { v, b })
      alike(dense(sp / b), x / b, { v, b })
      local here = df.scatter_nd(sp.indices, df.ones_like(sp.values), { 3, 4 })
      alike(dense(df.sparse_dense_cwise_add(sp, b)), x + b * here, { v, b })
    end
    local sp, x, v = sparse({ 3, 4 }, 11)
    local b = df.Variable(support.tensor({ 3, 4 }, -1, 1, 'float64', 2))
    alike(df.sparse_add(sp, b), x + b, { v, b })
    alike(df.sparse_add(b, sp), x + b, { v, b })
    near(flat((2 * sp).values), flat((sp * 2).values))
    near(flat((df.SparseTensor({ { 0 }, { 1 } }, df.int32{ -7, 7 }, { 2 }) / 2).values), { -3, 3 })
  end)

  it('is added to another; of two elements at one place none where the sum is less than the threshold', function()
    local a, x, v = sparse({ 4, 5 }, 3)
    local b, y, w = sparse({ 4, 5 }, 8)
    alike(dense(df.sparse_add(a, b)), x + y, { v, w })
    local c = df.sparse_add(df.SparseTensor({ { 0 }, { 2 } }, { 1.0, 0.05 }, { 3 }), df.SparseTensor({ { 1 }, { 2 } }, { 0.01, 0.01 }, { 3 }), 0.07)
    assert.same({ { 0 }, { 1 } }, df.run(c.indices):totable())                         -- as TensorFlow does: what stands alone stays
    near(flat(c.values), { 1, 0.01 })
    alike(dense(df.sparse_add(a, a * -1, 1e-9)), x * 0, { v })
  end)

  it('has rows filled, a softmax and an indicator', function()
    local v, d = df.Variable(df.float64{ 1, 2, 3 }), df.Variable(df.float64(9))
    local sp, empty = df.sparse_fill_empty_rows(df.SparseTensor({ { 2, 1 }, { 0, 2 }, { 2, 0 } }, v, { 4, 3 }), d)
    assert.same({ { 0, 2 }, { 1, 0 }, { 2, 1 }, { 2, 0 }, { 3, 0 } }, df.run(sp.indices):totable())
    assert.same({ false, true, false, true }, df.run(empty):totable())
    alike(sp.values, df.stack{ v:value()[1], d, v:value()[0], v:value()[2], d }, { v, d })
    local s, x, w = sparse({ 3, 2, 4 }, 2)
    local there = df.scatter_nd(s.indices, df.ones_like(s.values), { 3, 2, 4 })
    local e = df.exp(x) * there
    alike(dense(df.sparse_softmax(s)), df.div_no_nan(e, df.reduce_sum(e, { axis = 2, keep_dims = true })), { w })
    assert.same({ { false, true, false, true }, { false, false, true, false } },
                df.run(df.sparse_to_indicator(df.SparseTensor({ { 0, 0 }, { 0, 1 }, { 1, 0 } }, df.int32{ 3, 1, 2 }, { 2, 2 }), 4)):totable())
  end)

  it('has the gradients that TensorFlow makes of ops of their own', function()
    local a, _, v = sparse({ 4, 5 }, 3)
    local b, _, w = sparse({ 4, 5 }, 8)
    local function weights(x) return df.cos(df.cast(df.range(df.size(x)), 'float64')) + 2 end
    local function same(y, xs, slopes)
      for i, g in ipairs(df.gradients(y, xs, { grad_ys = weights(y) })) do near(flat(slopes[i]), flat(g), { rtol = 1e-12 }) end
    end
    for _, threshold in ipairs{ 0, 1 } do
      local sum = df.sparse_add(a, b, threshold)
      same(sum.values, { v, w }, { registry.op('SparseAddGrad', { weights(sum.values), a.indices, b.indices, sum.indices }) })
    end
    local start = df.int64{ 1, 2 }
    local part = df.sparse_slice(a, start, { 2, 2 })
    same(part.values, { v }, { registry.op('SparseSliceGrad', { weights(part.values), a.indices, start, part.indices }) })
    local d = df.Variable(df.float64(9))
    local at = df.int64{ { 2, 1 }, { 0, 2 }, { 2, 0 } }
    local _, filled, _, map = registry.op('SparseFillEmptyRows', { at, df.slice(v, { 0 }, { 3 }), df.int64{ 4, 3 }, d })
    local of_values, of_default = registry.op('SparseFillEmptyRowsGrad', { map, weights(filled) })
    same(filled, { v, d }, { df.pad(of_values, { { 0, v.shape[1] - 3 } }), of_default })
    assert.matches('reverse_index_map%[1%] is 7', message_of(df.run, (registry.op('SparseFillEmptyRowsGrad', { df.int64{ 0, 7 }, df.float32{ 1, 2 } }))))
  end)

  it('without elements does all of that', function()
    local none = df.SparseTensor({}, {}, { 2, 3 })
    assert.same({ 0, 2 }, none.indices.shape)
    near(flat(dense(none)), { 0, 0, 0, 0, 0, 0 })
    near(flat(df.sparse_reduce_sum(none, 0)), { 0, 0, 0 })
    near(flat(df.sparse_tensor_dense_matmul(none, df.ones{ 3, 2 })), { 0, 0, 0, 0 })
    near(flat(dense(df.sparse_concat(0, { none, none }))), { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 })
    for _, sp in ipairs{ df.sparse_reorder(none), df.sparse_slice(none, { 0, 0 }, { 1, 1 }), df.sparse_add(none, none), none * 2, df.sparse_softmax(none),
                         df.sparse_transpose(none), df.sparse_reduce_sum_sparse(none, 1), df.sparse_reduce_max_sparse(none) } do
      assert.equal(0, df.run(sp.values, nil, { tensors = true }).size)
    end
    near(flat(df.sparse_fill_empty_rows(none, 7).values), { 7, 7 })
  end)

  it('is a loop variable and the result of a branch, with gradients', function()
    local sp, _, v = sparse({ 2, 3 }, 7)
    local _, last = df.while_loop(function(i) return i:lt(3) end, function(i, s) return i + 1, s * s.values[0] end, { df.int32(0), sp })
    assert.equal('sparse_tensor', df.type(last))
    near(flat(last.values), flat(sp.values * sp.values[0] ^ 7))
    near(flat(df.gradients(df.reduce_sum(last.values), v)), flat(df.gradients(df.reduce_sum(sp.values * sp.values[0] ^ 7), v)), { rtol = 1e-9 })
    local loop = { function(i) return i:lt(3) end, function(i, n) return i + 1, { s = df.sparse_add(n.s, df.SparseTensor({ { 1, 2 } }, df.float64{ 1 }, { 2, 3 })) } end,
                   { df.int32(0), { s = sp } } }
    assert.matches('`2.s.indices` enters as int64%[%d,2%] but the body returns int64%[%?,2%]', message_of(df.while_loop, df.unpack(loop)))
    for _, inv in ipairs{ { 2, 3 }, { indices = { -1, 2 }, values = { -1 } }, false } do
      local _, grown = df.while_loop(loop[1], loop[2], loop[3], { shape_invariants = { {}, { s = inv } } })
      near(flat(df.sparse_reduce_sum(grown.s)), flat(df.sparse_reduce_sum(sp) + 3))
    end
    local p = df.placeholder('bool', {})
    local c = df.cond(p, function() return sp * 3 end, function() return sp end)
    for _, case in ipairs{ { true, 3 }, { false, 1 } } do
      local got = df.run({ c, df.gradients(df.reduce_sum(c.values), v) }, { [p] = case[1] })
      near(got[1].values:totable(), flat(sp.values * case[2]))
      assert.equal(case[2], got[2]:at(0))
    end
  end)
end)

describe('a SparseTensor', function()
  local function parts(t) return { t.indices:totable(), t.values:totable(), t.dense_shape:totable() } end

  it('is fetched as a table of Tensors, and fed as one, as a list, or as a run gave it', function()
    local sp = df.sparse_placeholder('float32', { 2, 3 }, 'sp')
    assert.same({ 2 }, sp.dense_shape.shape)
    assert.equal('float32', sp.dtype)
    local twice = sp * 2
    local given = df.run(df.SparseTensor({ { 1, 2 } }, { 4.5 }, { 2, 3 }))
    for _, value in ipairs{ { indices = { { 1, 2 } }, values = { 4.5 } }, { indices = { { 1, 2 } }, values = { 4.5 }, dense_shape = { 2, 3 } },
                            { { { 1, 2 } }, { 4.5 }, { 2, 3 } }, given } do
      assert.same({ { { 1, 2 } }, { 9 }, { 2, 3 } }, parts(df.run(twice, { [sp] = value })))
    end
    local r = df.run({ twice, x = { df.sparse_reduce_sum(sp), sp } }, { [sp] = given })
    assert.same({ { { 1, 2 } }, { 9 }, { 2, 3 } }, parts(r[1]))
    assert.equal(4.5, r.x[1])
    assert.same({ { { 1, 2 } }, { 4.5 }, { 2, 3 } }, parts(r.x[2]))
    assert.same({ 9 }, twice:eval{ [sp] = given }.values:totable())
    local any = df.sparse_placeholder 'float32'
    assert.equal(7, df.run(df.sparse_reduce_sum(any), { [any] = { { { 0, 0, 0 } }, { 7 }, { 1, 1, 1 } } }))
  end)

  it('is taken where a table of its parts is, and the other way round', function()
    local table_of, x = { indices = { { 0, 0 }, { 0, 1 }, { 1, 0 } }, values = df.int32{ 0, 1, 1 }, dense_shape = { 2, 2 } }, df.float32{ { 1, 2 }, { 3, 4 } }
    for _, ids in ipairs{ table_of, df.SparseTensor(table_of) } do
      near(flat(df.embedding_lookup_sparse(x, ids)), { 2, 3, 3, 4 })
      near(flat(df.embedding_lookup_sparse(x, ids, df.SparseTensor(ids.indices, { 1.0, 3, 2 }, ids.dense_shape))), { 2.5, 3.5, 3, 4 })
      near(flat(df.sparse_reduce_sum(ids, 1)), { 1, 1 })
      near(flat(df.edit_distance(ids, ids)), { 0, 0 })
      local loss = df.ctc_loss(ids, df.zeros{ 4, 2, 3 })
      assert.equal(2, df.run(loss).size)
    end
    local found = df.ctc_greedy_decoder(df.zeros{ 2, 1, 3 }, { 2 })
    assert.equal('sparse_tensor', df.type(found[1]))
    assert.is_true(df.run(df.sparse_tensor_to_dense(found[1], -1)):totable()[1] ~= nil)
  end)

  it('says its dtype and shape, and has the functions of it as methods', function()
    local sp = df.SparseTensor({ { 0, 1 } }, df.float64{ 2 }, { 2, 2 })
    assert.same({ 'float64', { 2, 2 }, df.default_graph() }, { sp.dtype, sp.shape, sp.graph })
    assert.equal(2, df.run(sp:sparse_reduce_sum()))
    assert.same({ -1, -1 }, df.SparseTensor({ { 0, 1 } }, { 2.0 }, df.placeholder('int64', { 2 })).shape)
    assert.matches('SparseTensor%(indices = Const', tostring(sp))
    near(flat(df.gradients(df.sparse_reduce_sum(sp * sp.values[0]), sp)), { 4 })
  end)

  it('whose parts do not fit is refused, while it is built or when it runs', function()
    assert.matches('indices int64[1,2], values float32[2] and dense_shape int64[2] do not fit', message_of(df.SparseTensor, { { 0, 0 } }, { 1.0, 2 }, { 2, 3 }), 1, true)
    assert.matches('its indices are int64[1], [n, rank] is expected', message_of(df.SparseTensor, { 0 }, { 1.0 }, { 2 }), 1, true)
    assert.matches('takes indices, values and dense_shape', message_of(df.SparseTensor, { { 0 } }, { 1.0 }), 1, true)
    local sp = df.SparseTensor({ { 0, 0 }, { 1, 2 } }, { 1.0, 2 }, { 2, 3 })
    assert.matches('df.sparse_tensor_to_dense(sp) is dense', message_of(df.add, sp, 1), 1, true)
    assert.matches("has no field or method 'foo'", message_of(function() return sp.foo end), 1, true)
    assert.matches('SparseTensor is divided by a dense one', message_of(function() return 1 / sp end), 1, true)
    assert.matches('was fed for a SparseTensor', message_of(df.run, df.sparse_reduce_sum(sp), { [sp] = 3 }), 1, true)
    assert.matches('has no values', message_of(df.run, df.sparse_reduce_sum(sp), { [sp] = { indices = { { 0, 0 } } } }), 1, true)
    assert.matches('sp_input is the number 3', message_of(df.sparse_reorder, 3), 1, true)
    local outside = df.SparseTensor({ { 0, 7 } }, { 1.0 }, { 2, 3 })
    local turned = df.SparseTensor({ { 1, 0 }, { 0, 0 } }, { 1.0, 2 }, { 2, 3 })
    local wider = df.SparseTensor({ { 0, 0 } }, { 1.0 }, { 2, 4 })
    for what, y in pairs{
      ['indices[0,1] is 7: outside of a dimension of 3'] = df.sparse_reduce_sum(outside), ['indices[1] is not after the one before it'] = df.sparse_add(turned, sp),
      ['expected one shape'] = df.sparse_add(sp, wider), ['start and size of axis 0 are -1 and 1'] = df.sparse_slice(sp, { -1, 0 }, { 1, 1 }),
      ['new_shape has 8'] = df.sparse_reshape(sp, { 8 }), ['cannot be broadcast to the shape of the sparse one'] = sp * { 1, 2 },
      ['dimension 1 of sparse tensor 1 is 4, of the first 3'] = df.sparse_concat(0, { sp, wider }) } do
      assert.matches(what, message_of(df.run, y), 1, true)
    end
    assert.matches('a matrix of 3 columns times one of 2 rows', message_of(df.sparse_tensor_dense_matmul, sp, df.ones{ 2, 2 }), 1, true)
    assert.matches('axis 2 is outside of a sparse tensor of rank 2', message_of(df.sparse_reduce_sum, sp, 2), 1, true)
    local late = df.sparse_placeholder 'float32'
    local product = df.sparse_tensor_dense_matmul(late, df.ones{ 2, 2 })
    assert.matches('the sparse tensor has rank 1: expected 2', message_of(df.run, product, { [late] = { { { 0 } }, { 1 }, { 2 } } }), 1, true)
  end)
end)
