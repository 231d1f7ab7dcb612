--- TensorFlow's TensorLists: lists of tensors that are values.
local df = require 'dflow'
local op = require('dflow.front.registry').op
local support = require 'spec.support'
local same = support.same

local function ints(v) return type(v) == 'table' and #v == 0 and df.constant({}, 'int32', { 0 }) or df.int32(v) end
local function list(n, shape) return op('TensorListReserve', { ints(shape or -1), df.int32(n) }, { element_dtype = 'float32' }) end
local function empty(shape, most) return op('EmptyTensorList', { ints(shape or -1), df.int32(most or -1) }, { element_dtype = 'float32' }) end
local function from(t, shape) return op('TensorListFromTensor', { df.float32(t), ints(shape or -1) }) end
local function push(l, v) return op('TensorListPushBack', { l, df.float32(v) }) end
local function pop(l, shape) return op('TensorListPopBack', { l, ints(shape or -1) }, { element_dtype = 'float32' }) end
local function get(l, i, shape) return op('TensorListGetItem', { l, df.int32(i), ints(shape or -1) }, { element_dtype = 'float32' }) end
local function set(l, i, v, opts) return op('TensorListSetItem', { l, df.int32(i), df.float32(v) }, opts) end
local function stack(l, shape, n) return op('TensorListStack', { l, ints(shape or -1) }, { element_dtype = 'float32', num_elements = n }) end
local function gather(l, indices, shape) return op('TensorListGather', { l, ints(indices), ints(shape or -1) }, { element_dtype = 'float32' }) end
local function concat(l, shape, leading)
  return op('TensorListConcatV2', { l, ints(shape or -1), leading and df.int64(leading) or df.constant({}, 'int64', { 0 }) }, { element_dtype = 'float32' })
end
local function split(t, lengths, shape) return op('TensorListSplit', { df.float32(t), ints(shape or -1), df.int64(lengths) }) end
local function length(l) return op('TensorListLength', { l }) end
local function shape_of(l) return op('TensorListElementShape', { l }, { shape_type = 'int32' }) end
local function invalid(x)
  local ok, e = pcall(df.run, x)
  assert(not ok, 'no error was raised')
  assert.equal('invalid_argument', e.code)
end

describe('a TensorList', function()
  it('may stand in an array of lists, which is put together, cut and turned like another', function()
    local function lengths(x, n)
      local found = {}
      for i, l in ipairs(df.unstack(x, { num = n })) do found[i] = df.run(length(l)) end
      return found
    end
    local function lists(...)
      local all = {}
      for i, n in ipairs{ ... } do all[i] = list(n) end
      return df.stack(all)
    end
    same(lengths(df.concat({ lists(1, 2), lists(3, 4, 5), lists(6) }, 0), 6), { 1, 2, 3, 4, 5, 6 })
    same(lengths(df.gather(lists(1, 2, 3), ints{ 2, 0, 2 }), 3), { 3, 1, 3 })
    same(lengths(df.slice(lists(1, 2, 3, 4), { 1 }, { 2 }), 2), { 2, 3 })
    local rows = df.stack{ lists(1, 2), lists(3, 4), lists(5, 6) }
    same(lengths(df.reshape(df.gather(rows, ints{ 2, 0 }), ints{ 4 }), 4), { 5, 6, 1, 2 })
    same(lengths(df.reshape(df.stack({ lists(1, 2), lists(3, 4) }, 1), ints{ 4 }), 4), { 1, 3, 2, 4 })
  end)

  it('does not know how many pieces there are until it runs', function()
    local joined, lengths = concat(list(2))
    assert.same({ -1 }, lengths.shape)
    assert.is_nil(joined.shape)
  end)

  it('is a value: changing it gives another one', function()
    local l = from{ 1, 2 }
    local a, b = set(l, 0, 10), push(l, 3)
    same(df.run{ stack(l), stack(a), stack(b), length(l) }, { { 1, 2 }, { 10, 2 }, { 1, 2, 3 }, 2 })
  end)

  it('grows and shrinks at its end', function()
    local l = push(push(empty(), { 1 }), { 2 })
    local rest, last = pop(l)
    same(df.run{ last, length(rest) }, { { 2 }, 1 })
    invalid(select(2, pop(empty())))
    invalid(length(push(push(empty({}, 1), 1), 2)))
    invalid(length(push(empty{ 2 }, { 1 })))
    same(df.run(length(op('TensorListResize', { l, df.int32(5) }))), 5)
    same(df.run(stack(op('TensorListResize', { l, df.int32(1) }))), { { 1 } })
    invalid(length(op('TensorListResize', { l, df.int32(-1) })))
  end)

  it('is carried by a loop', function()
    local _, l = df.while_loop(function(i) return i:lt(1000) end,
      function(i, made) return i + 1, op('TensorListPushBack', { made, df.cast(i, 'float32') }) end, { df.int32(0), empty{} })
    same(df.run{ length(l), df.reduce_sum(stack(l)) }, { 1000, 499500 })
  end)

  it('gives and takes elements', function()
    local l = set(list(2), 1, { 1, 2 })
    same(df.run(get(l, 1)), { 1, 2 })
    invalid(get(l, 2))
    invalid(get(l, -1))
    invalid(length(set(l, 2, { 1, 2 })))
    same(df.run(length(set(l, 3, { 1, 2 }, { resize_if_index_out_of_bounds = true }))), 4)
    invalid(length(set(list(1, { 2 }), 0, { 1 })))
  end)

  it('gives zeros for an element that was never set, where its shape can be known', function()
    invalid(get(list(1), 0))
    same(df.run(get(list(1, { 2 }), 0)), { 0, 0 })
    same(df.run(get(list(1, { 2, -1 }), 0, { -1, 3 })), { { 0, 0, 0 }, { 0, 0, 0 } })
    same(df.run(get(set(list(2), 1, { 1, 2 }), 0)), { 0, 0 })
    same(df.run(select(2, pop(list(1), { 2 }))), { 0, 0 })
  end)

  it('is stacked', function()
    same(df.run(stack(set(list(3), 1, { 1, 2 }))), { { 0, 0 }, { 1, 2 }, { 0, 0 } })
    same(df.run(stack(empty(), { 2 })).shape, { 0, 2 })
    invalid(stack(empty()))
    invalid(stack(push(push(empty(), { 1 }), { 2, 3 })))
    invalid(stack(from{ 1, 2 }, -1, 3))
    invalid(stack(from{ { 1 } }, { 2 }))
  end)

  it('is gathered and scattered', function()
    same(df.run(gather(from{ { 1 }, { 2 }, { 3 } }, { 2, 0, 2 })), { { 3 }, { 1 }, { 3 } })
    invalid(gather(from{ { 1 } }, { 1 }))
    invalid(gather(from{ { 1 } }, {}))
    same(df.run(gather(from({ { 1 } }, { 1 }), {})).shape, { 0, 1 })
    local function scatter(indices, n) return op('TensorListScatterV2', { df.float32{ { 1 }, { 2 } }, ints(indices), ints{ 1 }, df.int32(n or -1) }) end
    same(df.run{ stack(scatter{ 2, 0 }), length(scatter({ 2, 0 }, 5)) }, { { { 2 }, { 0 }, { 1 } }, 5 })
    for _, l in ipairs{ scatter{ -1, 0 }, scatter({ 2, 0 }, 2), scatter{ 2, 0, 1 } } do invalid(length(l)) end
    local into = op('TensorListScatterIntoExistingList', { from{ { 1 }, { 2 }, { 3 } }, df.float32{ { 7 }, { 8 } }, ints{ 1, 1 } })
    same(df.run(stack(into)), { { 1 }, { 8 }, { 3 } })
  end)

  it('is joined and split', function()
    local l = split({ 1, 2, 3 }, { 1, 2 })
    same(df.run{ concat(l) }, { { 1, 2, 3 }, { 1, 2 } })
    same(df.run{ concat(list(2), { -1, 2 }, { 1, 2 }) }, { { { 0, 0 }, { 0, 0 }, { 0, 0 } }, { 1, 2 } })
    same(df.run((concat(empty(), { -1, 2 }))).shape, { 0, 2 })
    for _, x in ipairs{ (concat(empty())), (concat(from{ 1, 2 })), (concat(push(push(empty(), { { 1 } }), { { 2, 3 } }))) } do invalid(x) end
    for _, bad in ipairs{ { 1, 1 }, { 4, -1 } } do invalid(length(split({ 1, 2, 3 }, bad))) end
    same(df.run(stack(op('TensorListConcatLists', { from{ 1, 2 }, from{ 3 } }, { element_dtype = 'float32' }))), { 1, 2, 3 })
  end)

  it('knows what its elements must be', function()
    same(df.run{ shape_of(empty()), shape_of(empty{ 2, -1 }) }, { -1, { 2, -1 } })
    same(df.run(shape_of(push(empty(), { 1, 2 }))), -1)
  end)

  it('has zeros like it, and adds up', function()
    same(df.run(stack(df.zeros_like(from{ 1, 2 }))), { 0, 0 })
    same(df.run(stack(df.add_n{ from{ 1, 2 }, from{ 10, 20 } })), { 11, 22 })
    same(df.run(stack(df.add_n{ set(list(2), 0, { 1 }), set(list(2), 1, { 2 }) })), { { 1 }, { 2 } })
    invalid(length(df.add_n{ from{ 1, 2 }, from{ 1 } }))
  end)

  it('may stand in a tensor of lists', function()
    local both = op('TensorListPushBackBatch', { df.stack{ from{ 1 }, from{ 2 } }, df.float32{ 7, 8 } })
    same(df.run(stack(df.gather(both, 1))), { 2, 8 })
  end)
end)

describe('the gradient through a TensorList', function()
  local double = { element_dtype = 'float64' }
  local function from64(x) return op('TensorListFromTensor', { x, ints{} }) end
  local function stack64(l) return op('TensorListStack', { l, ints{} }, double) end
  local function get64(l, i) return op('TensorListGetItem', { l, i, ints{} }, double) end
  local x = { { 1.5, -2, 3 } }

  it('goes through each op', function()
    support.check_gradient(function(v)
      local l = op('TensorListPushBack', { op('EmptyTensorList', { ints(-1), df.int32(-1) }, double), v * v })
      local s = op('TensorListStack', { op('TensorListPushBack', { l, v * 3 }), ints{ 3 } }, double)
      return s * s
    end, x)
    support.check_gradient(function(v)
      local l = from64(v * v)
      local a, rest, last = get64(l, df.int32(1)), op('TensorListPopBack', { l, ints{} }, double)
      return last * last, stack64(rest), stack64(op('TensorListSetItem', { l, df.int32(0), a * a }))
    end, x)
    support.check_gradient(function(v)
      local l = op('TensorListScatterV2', { v * v, ints{ 2, 0, 1 }, ints{}, df.int32(4) })
      local into = op('TensorListScatterIntoExistingList', { l, v, ints{ 3, 1, 2 } })
      local g = op('TensorListGather', { into, ints{ 0, 2, 1, 3, 0 }, ints{} }, double)
      return g * g, stack64(op('TensorListResize', { l, df.int32(2) }))
    end, x)
    support.check_gradient(function(v)
      local l = op('TensorListSplit', { v * v, ints{ -1 }, df.int64{ 1, 2 } })
      local joined = op('TensorListConcatV2', { l, ints{ -1 }, df.constant({}, 'int64', { 0 }) }, double)
      return joined * joined
    end, x)
  end)

  it('goes through loops and conds', function()
    support.check_gradient(function(v)
      local _, _, l = df.while_loop(function(i) return i:lt(4) end, function(i, s, made)
        s = s * v
        return i + 1, s, op('TensorListPushBack', { made, s })
      end, { df.int32(0), df.float64(1), op('EmptyTensorList', { ints{}, df.int32(-1) }, double) })
      local s = stack64(l)
      return s * s
    end, { 1.3 })
    support.check_gradient(function(v)
      local l = from64(v * v)
      local _, product = df.while_loop(function(i) return i:lt(3) end, function(i, p) return i + 1, p * get64(l, i) end,
        { df.int32(0), df.float64(1) })
      return product
    end, x)
    for _, taken in ipairs{ true, false } do
      support.check_gradient(function(v)
        local l = from64(v * v)
        local function replaced() return op('TensorListSetItem', { l, df.int32(0), df.float64(5) }) end
        return stack64(df.cond(df.placeholder_with_default(df.constant(taken)), replaced, function() return l end))
      end, x)
    end
  end)
end)
