--- ONNX's messages as bytes: what onnx.proto's fields 1, 2, 3 … are called stands here and nowhere else.
--
-- A graph that is being written is a table {name, nodes, inputs, outputs, constants}, a node {op, inputs, outputs,
-- attrs, doc}; an attribute's value is {kind, value} as M.int and its fellows make it. Names go through `final` when
-- they are written.
local core = require 'dflow.backend'
local wire = require 'dflow.exchange.wire'
local tensor = require 'dflow.front.tensor'

local M = {}
local concat = table.concat

--- dflow's dtype numbers to ONNX's.
M.dtype = { [1] = 1, [2] = 11, [3] = 6, [4] = 2, [5] = 5, [6] = 3, [7] = 8, [8] = 14, [9] = 7, [10] = 9, [14] = 16,
            [17] = 4, [18] = 15,
            [19] = 10, [22] = 12, [23] = 13 }

-- ---- the wire format --------------------------------------------------------------------------------------------
local int, bytes = wire.int, wire.bytes
local function float(field, v) return wire.fixed32(field, core.tensor_bytes(tensor.tensor(v, 'float32'))) end

-- ---- attributes -------------------------------------------------------------------------------------------------
local FLOAT, INT, STRING, TENSOR, GRAPH, INTS = 1, 2, 3, 4, 5, 7
function M.int(v) return { INT, v } end
function M.bool(v) return { INT, v and 1 or 0 } end
function M.float(v) return { FLOAT, v } end
function M.string(v) return { STRING, v } end
function M.ints(v) return { INTS, v } end
function M.tensor(v) return { TENSOR, v } end
function M.graph(v) return { GRAPH, v } end

--- A tensor: {d =, shape =, raw = bytes} or, of strings, {d =, shape =, strings = list}.
local function tensor_bytes(t, name)
  local out = {}
  for i, dim in ipairs(t.shape) do out[i] = int(1, dim) end
  out[#out + 1] = int(2, M.dtype[t.d])
  if t.strings then
    for _, s in ipairs(t.strings) do out[#out + 1] = bytes(6, s) end
  end
  if name then out[#out + 1] = bytes(8, name) end
  if t.raw then out[#out + 1] = bytes(9, t.raw) end
  return concat(out)
end

local graph_bytes

local function attribute_bytes(name, a, final)
  local kind, v = a[1], a[2]
  local out = { bytes(1, name) }
  if kind == FLOAT then out[2] = float(2, v)
  elseif kind == INT then out[2] = int(3, v)
  elseif kind == STRING then out[2] = bytes(4, v)
  elseif kind == TENSOR then out[2] = bytes(5, tensor_bytes(v))
  elseif kind == GRAPH then out[2] = bytes(6, graph_bytes(v, final))
  else
    for _, x in ipairs(v) do out[#out + 1] = int(8, x) end
  end
  return concat(out) .. int(20, kind)
end

-- ---- graphs ---------------------------------------------------------------------------------------------------
local function node_bytes(n, final)
  local out = {}
  for _, x in ipairs(n.inputs) do out[#out + 1] = bytes(1, x == '' and '' or final(x)) end
  for _, x in ipairs(n.outputs) do out[#out + 1] = bytes(2, final(x)) end
  if n.outputs[1] then out[#out + 1] = bytes(3, final(n.outputs[1])) end
  out[#out + 1] = bytes(4, n.op)
  local names = {}
  for name in pairs(n.attrs or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do out[#out + 1] = bytes(5, attribute_bytes(name, n.attrs[name], final)) end
  if n.doc then out[#out + 1] = bytes(6, n.doc) end
  return concat(out)
end

--- A value's name and type: {name, d =, shape = list with -1 or nil, sequence = bool}.
local function value_bytes(v, final)
  local t = int(1, M.dtype[v.d])
  if v.shape then
    local dims = {}
    for i, dim in ipairs(v.shape) do dims[i] = bytes(1, dim >= 0 and int(1, dim) or '') end
    t = t .. bytes(2, concat(dims))
  end
  t = bytes(1, t)
  if v.sequence then t = bytes(4, bytes(1, t)) end
  return bytes(1, final(v[1])) .. bytes(2, t)
end

graph_bytes = function(g, final)
  local out = {}
  for _, n in ipairs(g.nodes) do out[#out + 1] = bytes(1, node_bytes(n, final)) end
  out[#out + 1] = bytes(2, g.name)
  for _, c in ipairs(g.constants) do out[#out + 1] = bytes(5, tensor_bytes(c[2], final(c[1]))) end
  for _, v in ipairs(g.inputs) do out[#out + 1] = bytes(11, value_bytes(v, final)) end
  for _, v in ipairs(g.outputs) do out[#out + 1] = bytes(12, value_bytes(v, final)) end
  return concat(out)
end

--- The version of the file format that came with each version of the operators.
M.format = { [16] = 8, [17] = 8, [18] = 8, [19] = 9, [20] = 9, [21] = 10 }

--- A ModelProto's bytes.
function M.model(g, opset, final)
  return int(1, M.format[opset]) .. bytes(2, 'dflow') .. bytes(3, core.version) .. bytes(7, graph_bytes(g, final))
    .. bytes(8, bytes(1, '') .. int(2, opset))
end

return M
