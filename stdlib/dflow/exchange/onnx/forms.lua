--- Ops that ONNX has in other words: gradients of activations, blocks of pictures, matrices by their diagonals,
-- segments.
-- forms(M, help) adds them to the table of ops.lua, which says what x and n are.
local proto = require 'dflow.exchange.onnx.proto'
local dtypes = require 'dflow.front.dtypes'
local I, L, S = proto.int, proto.ints, proto.string
local INT64 = 9

return function(M, help)
  local where, widened = help.where, help.widened

  -- ---- gradients of activations: (gradients, features) or, of those that say so, (gradients, outputs)
  -- ------------------
  -- the gradient where input 2 is above 0, and times `factor(zero)` elsewhere
  local function above(x, n, factor)
    local d = n:d(1)
    local zero = x:number(0, d)
    return x:op('Where', { x:op('Greater', { n[2], zero }), n[1], x:op('Mul', { n[1], factor(d) }) })
  end
  function M.LeakyReluGrad(x, n) return above(x, n, function(d) return x:number(n.attr 'alpha', d) end) end
  function M.EluGrad(x, n)
    local d = n:d(1)
    local low = x:op('Mul', { n[1], x:op('Add', { n[2], x:number(1, d) }) })
    return x:op('Where', { x:op('Less', { n[2], x:number(0, d) }), low, n[1] })
  end
  function M.SeluGrad(x, n)
    local d = n:d(1)
    local scale = x:number(1.0507009873554805, d)
    local low = x:op('Add', { n[2], x:number(1.0507009873554805 * 1.6732632423543772, d) })
    return x:op('Mul', { n[1], x:op('Where', { x:op('Less', { n[2], x:number(0, d) }), low, scale }) })
  end
  function M.Relu6Grad(x, n)
    return widened(x, n:d(1), { n[1], n[2], x:number(0, n:d(1)), x:number(6, n:d(1)) }, function(a)
      return x:op('Where', { x:op('And', { x:op('Greater', { a[2], a[3] }), x:op('Less', { a[2], a[4] }) }), a[1],
                             a[3] })
    end)
  end
  function M.SoftsignGrad(x, n)
    local by = x:op('Add', { x:op('Abs', { n[2] }), x:number(1, n:d(1)) })
    return x:op('Div', { n[1], x:op('Mul', { by, by }) })
  end

  -- ---- blocks -------------------------------------------------------------------------------------------------------
  for _, type in ipairs{ 'DepthToSpace', 'SpaceToDepth' } do
    M[type] = function(x, n)
      local d = n:d(1)
      if not dtypes.is_float(d) then n:refuse('ONNX Runtime, for one, has it of floats only') end
      local last = n.attr 'data_format' == 'NHWC'
      if not last and n.attr 'data_format' ~= 'NCHW' then n:refuse('its data_format has no counterpart') end
      local v = last and x:op('Transpose', { n[1] }, { perm = L{ 0, 3, 1, 2 } }) or n[1]
      local y = x:op(type, { v }, { blocksize = I(n.attr 'block_size'), mode = type == 'DepthToSpace' and S 'DCR'
                                    or nil })
      return last and x:op('Transpose', { y }, { perm = L{ 0, 2, 3, 1 } }) or y
    end
  end
  function M.DepthwiseConv2dNative(x, n)
    local shape = n:shape(2)
    if not shape or shape[1] < 0 or shape[2] < 0 or shape[3] < 0 or shape[4] < 0 then
      n:refuse('the shape of its filter is not known')
    end
    local filter = x:op('Reshape', { x:op('Transpose', { n[2] }, { perm = L{ 2, 3, 0, 1 } }),
        x:ints{ shape[3] * shape[4], 1, shape[1], shape[2] } })
    return help.windowed(x, n, { n[1], filter }, 'Conv', { group = I(shape[3]) })
  end

  --- Along each axis what stands at the end comes to the front.
  function M.Roll(x, n)
    local shifts, axes, shape = n:numbers(2), n:numbers(3), n:shape(1)
    if not shifts or not axes or not shape then
      n:refuse('its shift, its axis or the rank of its input is known only when it runs')
    end
    local y = n[1]
    for i, axis in ipairs(axes) do
      local size = shape[axis < 0 and #shape + axis + 1 or axis + 1]
      if size < 0 then n:refuse('the size of what it turns is not known') end
      local at = size > 0 and -shifts[i] % size or 0
      if at > 0 then
        local on = x:ints{ axis }
        y = x:op('Concat', { x:op('Slice', { y, x:ints{ at }, x:ints{ size }, on }),
                             x:op('Slice', { y, x:ints{ 0 }, x:ints{ at }, on }) }, { axis = I(axis) })
      end
    end
    return y
  end

  -- ---- matrices -----------------------------------------------------------------------------------------------------
  function M.Cross(x, n)
    return widened(x, n:d(1), { n[1], n[2] }, function(a)
      local function turned(v, by) return x:op('Gather', { v, x:ints(by) }, { axis = I(-1) }) end
      local next_one, next_two = { 1, 2, 0 }, { 2, 0, 1 }
      return x:op('Sub', { x:op('Mul', { turned(a[1], next_one), turned(a[2], next_two) }),
                           x:op('Mul', { turned(a[1], next_two), turned(a[2], next_one) }) })
    end)
  end

  --- The size of an axis of a value, as an int64 scalar, and its places 0, 1, … as a vector.
  local function size_of(x, v, axis) return x:op('Gather', { x:op('Shape', { v }), x:number(axis, INT64) }) end
  local function places(x, size) return x:op('Range', { x:number(0, INT64), size, x:number(1, INT64) }) end
  --- Column minus row, for each element of matrices of so many rows and columns.
  local function off_diagonal(x, rows, columns)
    return x:op('Sub', { x:op('Unsqueeze', { places(x, columns), x:ints{ 0 } }),
                         x:op('Unsqueeze', { places(x, rows), x:ints{ 1 } }) })
  end
  local function zeros_of(x, d) return d == 10 and x:constant(d, {}, { 0 }) or x:number(0, d) end

  function M.MatrixBandPart(x, n)
    local low, high, y, d = n:numbers(2), n:numbers(3), n[1], n:d(1)
    if not low or not high then n:refuse('its band is known only when it runs') end
    local off = off_diagonal(x, size_of(x, y, -2), size_of(x, y, -1))
    local zero = zeros_of(x, d)
    if low[1] >= 0 then y = where(x, x:op('Less', { off, x:number(-low[1], INT64) }), zero, y, d) end
    if high[1] >= 0 then y = where(x, x:op('Greater', { off, x:number(high[1], INT64) }), zero, y, d) end
    return y
  end
  local function diagonal(x, rows, columns)
    return x:op('Equal', { off_diagonal(x, rows, columns), x:number(0, INT64) })
  end
  function M.MatrixDiag(x, n)
    local size, d = size_of(x, n[1], -1), n:d(1)
    return where(x, diagonal(x, size, size), x:op('Unsqueeze', { n[1], x:ints{ -1 } }), zeros_of(x, d), d)
  end
  function M.MatrixDiagPart(x, n)
    local rows, columns, d = size_of(x, n[1], -2), size_of(x, n[1], -1), n:d(1)
    if d == 10 then n:refuse('no sum of booleans is exact') end
    local picked = where(x, diagonal(x, rows, columns), n[1], x:number(0, d), d)
    local on = widened(x, d, { picked },
                       function(a) return x:op('ReduceSum', { a[1], x:ints{ -1 } }, { keepdims = I(0) }) end)
    local least = x:op('Unsqueeze', { x:op('Min', { rows, columns }), x:ints{ 0 } })
    return x:op('Slice', { on, x:ints{ 0 }, least, x:ints{ -1 } })
  end
  function M.MatrixSetDiag(x, n)
    local shape, d = n:shape(1), n:d(1)
    local rows, columns = shape and shape[#shape - 1] or -1, shape and shape[#shape] or -1
    if rows < 0 or columns < 0 then n:refuse('the size of its matrices is not known') end
    local at = diagonal(x, x:number(rows, INT64), x:number(columns, INT64))
    return where(x, at, x:op('Unsqueeze', { n[2], x:ints{ rows <= columns and -1 or -2 } }), n[1], d)
  end

  -- ---- segments -----------------------------------------------------------------------------------------------------
  --- Rows of `data` added up by `ids`, a vector of int64 below `count`, a vector of one.
  local function summed(x, data, ids, count, rest, d)
    return widened(x, d, { data }, function(a)
      local zero = x:op('Expand',
                        { x:number(0, help.small[d] and 3 or d), x:op('Concat', { count, rest }, { axis = I(0) }) })
      return x:op('ScatterND', { zero, x:op('Unsqueeze', { ids, x:ints{ -1 } }), a[1] }, { reduction = S 'add' })
    end)
  end
  local function rest_of(x, v, from)
    return x:op('Slice', { x:op('Shape', { v }), x:ints{ from }, x:ints{ 2 ^ 53 } })
  end
  function M.SegmentSum(x, n)
    local ids = x:cast(n[2], INT64, n:d(2))
    local last = x:op('ReduceMax', { x:op('Concat', { ids, x:ints{ -1 } }, { axis = I(0) }) }, { keepdims = I(1) })
    return summed(x, n[1], ids, x:op('Add', { last, x:ints{ 1 } }), rest_of(x, n[1], 1), n:d(1))
  end
  --- What has a negative id goes to a row behind the last, which is cut off.
  function M.UnsortedSegmentSum(x, n)
    local rank = n:rank(2) or n:refuse('the rank of its ids is not known')
    local ids, data, rest = x:cast(n[2], INT64, n:d(2)), n[1], rest_of(x, n[1], rank)
    if rank ~= 1 then
      ids = x:op('Reshape', { ids, x:ints{ -1 } })
      data = x:op('Reshape', { data, x:op('Concat', { x:op('Shape', { ids }), rest }, { axis = I(0) }) },
                  { allowzero = I(1) })
    end
    local count = x:list(n, 3)
    local at = x:op('Where', { x:op('Less', { ids, x:number(0, INT64) }), count, ids })
    local rows = summed(x, data, at, x:op('Add', { count, x:ints{ 1 } }), rest, n:d(1))
    return x:op('Slice', { rows, x:ints{ 0 }, count, x:ints{ 0 } })
  end
end
