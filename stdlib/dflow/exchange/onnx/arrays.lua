--- TensorArrays in ONNX. A handle is a table that says how the elements lie there:
--
--   {kind = 'new'}   nothing has been written yet
--   {kind = 'rows'}  a tensor whose rows are the elements: an array that was unstacked, or that a loop wrote in order
--                    and handed out as a scan output
--   {kind = 'list'}  a sequence of as many elements as there are locations; those not written yet are zeros
--
-- and beside it d, the dtype of the elements; shape, what is known of theirs; size, the name of the size it was made
-- with; dynamic; sums, of a gradient array, which adds up what is written to a location: the nodes that made it.
local proto = require 'dflow.exchange.onnx.proto'
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'

local I = proto.int
local INT32, STRING, INT64, BOOL = 3, 7, 9, 10
local M = { ops = {} }

local function like(a, kind, name)
  return { kind = kind, name = name, d = a.d, shape = a.shape, size = a.size, fixed = a.fixed, dynamic = a.dynamic,
           sums = a.sums }
end
M.like = like

local function known(shape)
  for _, dim in ipairs(shape or { -1 }) do if dim < 0 then return false end end
  return true
end

--- The number of elements, an int64 scalar.
local function length(x, a)
  if a.kind == 'new' or (a.kind == 'rows' and not a.dynamic and not a.sums) then return x:cast(a.size, INT64) end
  if a.kind == 'list' then return x:op('SequenceLength', { a.name }) end
  local rows = x:op('Gather', { x:op('Shape', { a.name }), x:number(0, INT64) })
  if a.sums then return rows end                    -- its size may have been known in a branch alone
  return x:op('Max', { rows, x:cast(a.size, INT64) })
end

--- [n, element…], int64: what the rows' shape is.
local function rows_shape(x, n, a)
  local count = x:op('Unsqueeze', { n, x:ints { 0 } })
  if #a.shape == 0 then return count end
  return x:op('Concat', { count, x:ints(a.shape) }, { axis = I(0) })
end

--- The array as a sequence.
function M.list(x, a)
  if a.kind == 'list' then return a end
  if a.kind == 'rows' then
    return like(a, 'list', x:op('SplitToSequence', { a.name }, { axis = I(0), keepdims = I(0) }))
  end
  if a.fixed == 0 then return like(a, 'list', x:op('SequenceEmpty', {}, { dtype = I(proto.dtype[a.d]) })) end
  local d = a.d == BOOL and INT32 or a.d
  local n = x:cast(a.size, INT64)
  local function zeros(shape)
    local z = x:op('Expand', { d == STRING and x:constant(d, {}, { '' }) or x:number(0, d), shape })
    return x:op('SplitToSequence', { d == a.d and z or x:cast(z, a.d) }, { axis = I(0), keepdims = I(0) })
  end
  if known(a.shape) then return like(a, 'list', zeros(rows_shape(x, n, a))) end
  -- Shape inference would take the zeros' for that of all elements: of two shapes nothing is inferred.
  local function of(...)
    local tail = { ... }
    return function()
      local count = x:op('Unsqueeze', { n, x:ints { 0 } })
      return zeros(#tail > 0 and x:op('Concat', { count, x:ints(tail) }, { axis = I(0) }) or count)
    end
  end
  return like(a, 'list', x:choice(x:number(1, BOOL), of(), of(1), { d = a.d, sequence = true }))
end

--- The array with what is known of its elements later: (node, index) is a handle of it.
function M.learn(x, a, node, index)
  if known(a.shape) then return a end
  local after = like(a, a.kind, a.name)
  after.shape = x:handle_shape(node, index) or a.shape
  return after
end

--- The elements along a new axis 0.
local function stacked(x, a, n)
  if a.kind == 'rows' then return a.name end
  if a.kind == 'new' then
    if not known(a.shape) then n:refuse('nothing was written to the array') end
    return x:op('Expand', { x:number(0, a.d), rows_shape(x, x:cast(a.size, INT64), a) })
  end
  local function joined() return x:op('ConcatFromSequence', { a.name }, { axis = I(0), new_axis = I(1) }) end
  if not known(a.shape) or (a.fixed and a.fixed > 0) then return joined() end
  -- ONNX joins no empty sequence.
  local some = x:op('Greater', { x:op('SequenceLength', { a.name }), x:number(0, INT64) })
  local shape = { -1 }
  for i, dim in ipairs(a.shape) do shape[i + 1] = dim end
  return x:choice(some, joined,
                  function() return x:op('Expand', { x:number(0, a.d), rows_shape(x, x:number(0, INT64), a) }) end,
                  { d = a.d, shape = shape })
end

--- A sequence that may grow, of at least so many elements: what was not written is zeros of the shape of v.
local function grown(x, a, at, v)
  local missing = x:op('Max', { x:op('Sub', { at, x:op('SequenceLength', { a.name }) }), x:number(0, INT64) })
  local d = a.d == BOOL and INT32 or a.d
  local nothing = x:op('Expand', { d == STRING and x:constant(d, {}, { '' }) or x:number(0, d), x:op('Shape', { v }) })
  nothing = x:cast(nothing, a.d, d)
  local body = x:subgraph('grow', nil, function(inner)
    local carried = x:unique(a.name)
    inner.inputs = { { x:unique 'grow/iteration', d = INT64, shape = {} },
                     { x:unique 'grow/goes_on', d = BOOL, shape = {} },
                     { carried, d = a.d, sequence = true } }
    return { { x:op('Identity', { inner.inputs[2][1] }), d = BOOL, shape = {} },
             { x:op('SequenceInsert', { carried, nothing }), d = a.d, sequence = true } }
  end)
  return like(a, 'list', x:op('Loop', { missing, '', a.name }, { body = proto.graph(body) }))
end

--- The sequence with v at location i.
local function written(x, a, i, v)
  local at = x:cast(i, INT64)
  if a.dynamic then a = grown(x, a, at, v) end
  local function without() return x:op('SequenceErase', { a.name, at }) end
  if not a.dynamic then return x:op('SequenceInsert', { without(), v, at }) end
  local inside = x:op('Less', { at, x:op('SequenceLength', { a.name }) })
  return x:op('SequenceInsert', { x:choice(inside, without, function() return x:op('Identity', { a.name }) end,
                                           { d = a.d, sequence = true }), v, at })
end

-- ---- the ops: fn(x, n, a) with the array a of input 1; gives a name or an array -------------------------------------
local ops = M.ops

function ops.TensorArrayWrite(x, n, a)
  if n:d(3) == dtypes.RESOURCE then n:refuse('ONNX has no sequence of sequences') end
  a = M.learn(x, a, n.node, 0)
  if a.kind == 'new' and not known(a.shape) then
    a = like(a, 'new')
    a.shape = n:shape(3)
  end
  a = M.list(x, a)
  local v = a.sums and x:op('Add', { x:op('SequenceAt', { a.name, n[2] }), n[3] }) or n[3]
  return like(a, 'list', written(x, a, n[2], v))
end

function ops.TensorArrayRead(x, n, a)
  if a.kind == 'rows' then return x:op('Gather', { a.name, n[2] }, { axis = I(0) }) end
  if a.kind == 'new' then n:refuse('nothing was written to the array') end
  return x:op('SequenceAt', { a.name, n[2] })
end

function ops.TensorArrayStack(x, n, a) return stacked(x, a, n) end

function ops.TensorArrayTake(x, n, a)
  local zero = x:ints { 0 }
  return x:op('Slice', { stacked(x, a, n), zero, x:op('Reshape', { x:index(n, 2), x:ints { 1 } }), zero })
end

function ops.TensorArrayGather(x, n, a) return x:op('Gather', { stacked(x, a, n), n[2] }, { axis = I(0) }) end

--- The rows of a tensor, with zeros behind them up to the length of the gradient array: a read of a part has fewer.
local function padded(x, a, rows, shape)
  if a.fixed and shape and shape[1] == a.fixed then return rows end
  local dims = x:op('Shape', { rows })
  local missing = x:op('Sub', { x:op('Unsqueeze', { x:cast(a.size, INT64), x:ints { 0 } }),
                                x:op('Slice', { dims, x:ints { 0 }, x:ints { 1 } }) })
  local rest = x:op('Concat', { missing, x:op('Slice', { dims, x:ints { 1 }, x:ints { 2 ^ 53 } }) }, { axis = I(0) })
  return x:op('Concat', { rows, x:op('Expand', { x:number(0, a.d), rest }) }, { axis = I(0) })
end

function ops.TensorArrayUnstack(x, n, a)
  if a.kind ~= 'new' and not a.sums then n:refuse('the array was written to before') end
  local shape = n:shape(2)
  local rows = a.sums and padded(x, a, n[2], shape) or n[2]
  local after = like(a, 'rows', a.kind == 'new' and rows or x:op('Add', { stacked(x, a, n), rows }))
  if shape then after.shape = { (table.unpack or unpack)(shape, 2) } end
  return after
end

function ops.TensorArrayScatter(x, n, a)
  if a.kind == 'list' and not a.sums then n:refuse('the array was written to before') end
  local at, adds = x:op('Unsqueeze', { x:index(n, 2), x:ints { 1 } }), a.sums and { reduction = proto.string 'add' }
  if a.kind ~= 'new' then return like(a, 'rows', x:op('ScatterND', { stacked(x, a, n), at, n[3] }, adds)) end
  if a.dynamic and not (a.fixed and a.fixed > 0) then n:refuse('the array may grow') end
  local element = x:op('Slice', { x:op('Shape', { n[3] }), x:ints { 1 }, x:ints { 2 ^ 53 } })
  local shape = x:op('Concat', { x:op('Unsqueeze', { x:cast(a.size, INT64), x:ints { 0 } }), element }, { axis = I(0) })
  local after = like(a, 'rows', x:op('ScatterND', { x:op('Expand', { x:number(0, a.d), shape }), at, n[3] }, adds))
  after.shape = n:shape(3) and { (table.unpack or unpack)(n:shape(3), 2) }
  return after
end

function ops.TensorArraySplit(x, n, a)
  if a.kind ~= 'new' then n:refuse('the array was written to before') end
  return like(a, 'list', x:op('SplitToSequence', { n[2], x:index(n, 3) }, { axis = I(0) }))
end

function ops.TensorArrayConcat(x, n, a)
  if n.uses(1) then n:refuse('the lengths of its elements are asked for') end
  return x:op('ConcatFromSequence', { M.list(x, a).name }, { axis = I(0) })
end

--- A gradient array: as long as that one, and of zeros.
function ops.TensorArrayGrad(x, n, a)
  if n.attr 'source' ~= '' or core.node_outputs(n.handle, n.node) == 2 then n:refuse('others may write to it') end
  local grad = M.learn(x, like(a, 'new'), n.node, 0)
  grad.size, grad.sums = length(x, a), { [n.node] = true }
  if a.dynamic then grad.dynamic, grad.fixed = false, nil end
  return grad
end

--- Gradient arrays that were made one by one are added up.
function ops.TensorArrayJoin(x, n, a)
  local all, rows = {}, nil
  for i = 1, n.count do
    local one = n[i]
    for made in pairs(one.sums or { [0] = true }) do
      if made == 0 or all[made] then n:refuse('what it waits for may be one array') end
      all[made] = true
    end
    if one.kind ~= 'new' then
      local own = stacked(x, one, n)
      rows, a = rows and x:op('Add', { rows, own }) or own, one
    end
  end
  local sum = like(a, rows and 'rows' or 'new', rows)
  sum.sums = all
  return sum
end

function ops.TensorArraySize(x, n, a) return x:cast(length(x, a), INT32) end
function ops.TensorArrayCopy(_, _, a) return a end
function ops.Identity(_, _, a) return a end

--- The ops that change nothing: an array that is only read after a loop may be its scan output.
M.reads = { TensorArrayRead = true, TensorArrayStack = true, TensorArrayTake = true, TensorArrayGather = true,
            TensorArraySize = true,
            TensorArrayConcat = true }

return M
