--- TensorArrayV3 and TensorList: ops whose gradients show only together with those of an op that writes and one that
-- reads.
--
-- Each type is put into small graphs with different partners. Its gradient function is wrong when all of these graphs
-- have a wrong gradient, and right when one has not: what these ops do is move elements, so any elements will do.
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local differences = require 'dflow.check.differences'

local M = {}
local op = registry.op
local FLOAT64 = dtypes.FLOAT64

local function constant(g, shape, seed)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return convert.constant(g, differences.weights(n, seed), FLOAT64, shape)
end
local function int(g, v) return convert.constant(g, v, dtypes.INT32) end
local function long(g, v) return convert.constant(g, v, dtypes.INT64) end

-- ---- TensorArrayV3: an array of two elements of one row each; `v` is V3 or V2 ---------------------------------------
local function array(g, v)
  local e = registry.need('TensorArray' .. v)
  local attrs = { dtype = FLOAT64 }
  if e.attr.dynamic_size then attrs.dynamic_size = true end
  return op('TensorArray' .. v, { int(g, 2) }, attrs)
end
local writers = {
  Write = function(g, v, h, flow)
    local a, b = constant(g, { 1, 2 }, 1), constant(g, { 1, 2 }, 2)
    flow = op('TensorArrayWrite' .. v, { h, int(g, 0), a, flow })
    return op('TensorArrayWrite' .. v, { h, int(g, 1), b, flow }), { a, b }
  end,
  Scatter = function(g, v, h, flow)
    local a = constant(g, { 2, 1, 2 }, 3)
    return op('TensorArrayScatter' .. v, { h, int(g, { 1, 0 }), a, flow }), { a }
  end,
  Split = function(g, v, h, flow)
    local a = constant(g, { 2, 2 }, 4)
    return op('TensorArraySplit' .. v, { h, a, long(g, { 1, 1 }), flow }), { a }
  end,
}
local readers = {
  Read = function(g, v, h, flow) return op('TensorArrayRead' .. v, { h, int(g, 1), flow }, { dtype = FLOAT64 }) end,
  Gather = function(g, v, h, flow) return op('TensorArrayGather' .. v, { h, int(g, { 1, 0 }), flow },
                                             { dtype = FLOAT64 }) end,
  Concat = function(g, v, h, flow) return (op('TensorArrayConcat' .. v, { h, flow }, { dtype = FLOAT64 })) end,
}

-- ---- TensorList: a list of two elements of one row each -------------------------------------------------------------
local row = { 1, 2 }
local function shape(g) return int(g, row) end
local function reserved(g) return op('TensorListReserve', { shape(g), int(g, 2) }, { element_dtype = FLOAT64 }) end
local list_writers = {
  FromTensor = function(g)
    local a = constant(g, { 2, 1, 2 }, 1)
    return op('TensorListFromTensor', { a, shape(g) }), { a }
  end,
  PushBack = function(g)
    local a, b = constant(g, row, 2), constant(g, row, 3)
    local l = op('EmptyTensorList', { shape(g), int(g, 2) }, { element_dtype = FLOAT64 })
    return op('TensorListPushBack', { op('TensorListPushBack', { l, a }), b }), { a, b }
  end,
  SetItem = function(g)
    local a, b = constant(g, row, 4), constant(g, row, 5)
    return op('TensorListSetItem', { op('TensorListSetItem', { reserved(g), int(g, 0), a }), int(g, 1), b }), { a, b }
  end,
  Scatter = function(g)
    local a = constant(g, { 2, 1, 2 }, 6)
    return op('TensorListScatter', { a, int(g, { 1, 0 }), shape(g) }), { a }
  end,
  ScatterV2 = function(g)
    local a = constant(g, { 2, 1, 2 }, 7)
    return op('TensorListScatterV2', { a, int(g, { 1, 0 }), shape(g), int(g, 2) }), { a }
  end,
  ScatterIntoExistingList = function(g)
    local a = constant(g, { 2, 1, 2 }, 8)
    return op('TensorListScatterIntoExistingList', { reserved(g), a, int(g, { 1, 0 }) }), { a }
  end,
  Split = function(g)
    local a = constant(g, { 2, 2 }, 9)
    return op('TensorListSplit', { a, shape(g), long(g, { 1, 1 }) }), { a }
  end,
  GatherGrad = function(g)
    local a = constant(g, { 2, 1, 2 }, 10)
    local l = op('TensorListFromTensor', { constant(g, { 2, 1, 2 }, 11), shape(g) })
    return op('TensorListGatherGrad', { l, a, int(g, { 1, 0 }) }), { a }
  end,
}
local list_readers = {
  GetItem = function(g, l) return op('TensorListGetItem', { l, int(g, 1), shape(g) }, { element_dtype = FLOAT64 }) end,
  Stack = function(g, l) return op('TensorListStack', { l, shape(g) }, { element_dtype = FLOAT64 }) end,
  Gather = function(g, l) return op('TensorListGather', { l, int(g, { 1, 0 }), shape(g) },
                                    { element_dtype = FLOAT64 }) end,
  PopBack = function(g, l) return (select(2,
                                          op('TensorListPopBack', { l, shape(g) }, { element_dtype = FLOAT64 }))) end,
  Concat = function(_, l) return (op('TensorListConcat', { l }, { element_dtype = FLOAT64 })) end,
  ConcatV2 = function(g, l)
    return (op('TensorListConcatV2', { l, shape(g), long(g, {}) }, { element_dtype = FLOAT64 }))
  end,
}

-- ---- partners -------------------------------------------------------------------------------------------------------
--- Two graphs { y, xs } around a type, or nil when it is no such type.
local function graphs(g, kind)
  local name, v = kind:match('^TensorArray(%a+)(V[23])$')
  if name and (writers[name] or readers[name]) then
    local with = writers[name] and { { name, 'Read' }, { name, 'Gather' } }
      or { { 'Write', name }, { 'Scatter', name } }
    local list = {}
    for i, pair in ipairs(with) do
      local h, flow = array(g, v)
      local after, xs = writers[pair[1]](g, v, h, flow)
      list[i] = { readers[pair[2]](g, v, h, after), xs }
    end
    return list
  end
  name = kind:match('^TensorList(%a+%d?)$')
  local function joined(writer, reader, between)
    local l, xs = list_writers[writer](g)
    if between then l = between(l) end
    return { list_readers[reader](g, l), xs }
  end
  if name and list_writers[name] then return { joined(name, 'Stack'), joined(name, 'GetItem') } end
  if name and list_readers[name] then return { joined('FromTensor', name), joined('PushBack', name) } end
  if name == 'Resize' then
    local function resize(l) return op('TensorListResize', { l, int(g, 2) }) end
    return { joined('FromTensor', 'Stack', resize), joined('PushBack', 'GetItem', resize) }
  end
end

--- Is the node's type one of these?
function M.knows(kind) return kind:find('^TensorArray%a+V[23]$') ~= nil or kind:find('^TensorList') ~= nil end

--- nil, or what is wrong with the gradient function of this type.
-- @param compare  function(y, xs) -> nil or what is wrong with dy / dxs
function M.check(o, compare)
  local list, wrong = graphs(o.graph, o.type), nil
  for _, pair in ipairs(list or {}) do
    wrong = compare(pair[1], pair[2])
    if not wrong then return nil end
  end
  if wrong then wrong.input = graph.output(o.graph, o.node, 0) end
  return wrong
end

return M
