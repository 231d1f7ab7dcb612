--- Small ONNX models, written in Lua: for what no exporter writes and the standard's own tests leave out.
--
--   local model = require 'spec.onnx_model'
--   model.bytes{ inputs = { x = { 'float', { 2 } } }, outputs = { 'y' }, { 'Neg', { 'x' }, { 'y' } } }
--   model.run({ … }, { x = df.tensor{ 1, 2 } })        what df.import_onnx makes of it gives for these inputs: one value, or a table of them
--
-- A node is { op, inputs, outputs, attributes, domain = }: an attribute is a whole number, { float = 0.5 }, a string, a list of whole numbers, or a
-- { graph = {…} }. `constants` are initializers by their names: { type, dims, bytes }.
local df = require 'dflow'
local wire = require 'dflow.exchange.wire'

local M = {}
local types = { float = 1, uint8 = 2, int8 = 3, uint16 = 4, int16 = 5, int32 = 6, int64 = 7, string = 8, bool = 9, float16 = 10, double = 11, uint32 = 12 }

local function floats(v) return require('dflow.backend').tensor_bytes(df.tensor(v, 'float32')) end

local function each(list, field, of)
  local out = {}
  for i, v in ipairs(list) do out[i] = wire.bytes(field, of and of(v) or v) end
  return table.concat(out)
end

local graph_of

local function attribute(name, v)
  local body = wire.bytes(1, name)
  if type(v) == 'number' then return body .. wire.int(3, v) .. wire.int(20, 2) end
  if type(v) == 'string' then return body .. wire.bytes(4, v) .. wire.int(20, 3) end
  if v.float then return body .. wire.fixed32(2, floats(v.float)) .. wire.int(20, 1) end
  if v.graph then return body .. wire.bytes(6, graph_of(v.graph)) .. wire.int(20, 5) end
  for _, k in ipairs(v) do body = body .. wire.int(8, k) end
  return body .. wire.int(20, 7)
end

local function node(n)
  local attributes, names = '', {}
  for name in pairs(n[4] or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do attributes = attributes .. wire.bytes(5, attribute(name, n[4][name])) end
  return each(n[2], 1) .. each(n[3], 2) .. wire.bytes(4, n[1]) .. attributes .. (n.domain and wire.bytes(7, n.domain) or '')
end

--- The name, and where it is known the type: { 'float', { 2, 3 } }; a dimension may be a name. `sequence`: a sequence of such, `optional`: one or none.
local function value(name, t)
  if not t then return wire.bytes(1, name) end
  local dims = each(t[2] or {}, 1, function(d) return type(d) == 'number' and wire.int(1, d) or wire.bytes(2, d) end)
  local tensor = wire.bytes(1, wire.int(1, types[t[1]]) .. (t[2] and wire.bytes(2, dims) or ''))
  local type = t.sequence and wire.bytes(4, wire.bytes(1, tensor)) or tensor
  return wire.bytes(1, name) .. wire.bytes(2, t.optional and wire.bytes(9, wire.bytes(1, type)) or type)
end

local function constant(name, c)
  local dims = ''
  for _, d in ipairs(c[2]) do dims = dims .. wire.int(1, d) end
  return dims .. wire.int(2, types[c[1]]) .. wire.bytes(8, name) .. wire.bytes(9, c[3])
end

function graph_of(g)
  local inputs, names = '', {}
  for name in pairs(g.inputs or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(g.order or names) do inputs = inputs .. wire.bytes(11, value(name, g.inputs[name])) end
  local constants = ''
  for name, c in pairs(g.constants or {}) do constants = constants .. wire.bytes(5, constant(name, c)) end
  return each(g, 1, node) .. wire.bytes(2, 'g') .. constants .. inputs .. each(g.outputs, 12, value)
end

--- int64s as an initializer.
function M.int64(...)
  local out = {}
  for i, v in ipairs{ ... } do out[i] = wire.little(v, 8) end
  return { 'int64', { #out }, table.concat(out) }
end

--- The file; `opset` says by which version of the standard it is read.
function M.bytes(g)
  return wire.int(1, 8) .. wire.bytes(7, graph_of(g)) .. wire.bytes(8, wire.bytes(1, '') .. wire.int(2, g.opset or 24))
end

function M.run(g, feeds)
  local made = df.import_onnx(M.bytes(g))
  local given, fetches = {}, {}
  for name, v in pairs(feeds or {}) do given[made:output(name)] = v end
  for i, name in ipairs(g.outputs) do fetches[i] = made:output(name) end
  local s = df.Session{ graph = made }
  local results = s:run(fetches, given)
  s:close()
  return #fetches == 1 and results[1] or results
end

return M
