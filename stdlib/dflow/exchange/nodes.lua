--- The nodes of a GraphDef as Lua tables, to be rewritten: read from its bytes and written to them. What is not looked
-- at stays as it was.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local wire = require 'dflow.exchange.wire'

local M = {}
local NODE, NAME, OP, INPUT, DEVICE, ATTR = 1, 1, 2, 3, 4, 5          -- fields of GraphDef and NodeDef

local function broken(text, ...) errors.raise('data_loss', 'the GraphDef: ' .. text, ...) end

-- ---- attributes: the bytes of an AttrValue --------------------------------------------------------------------------
function M.text(s) return wire.bytes(2, s) end
function M.flag(v) return wire.int(5, v and 1 or 0) end
function M.dtype(name) return wire.int(6, dtypes.number[name]) end
function M.dtypes(names)
  local list = {}
  for i, name in ipairs(names) do list[i] = wire.int(6, dtypes.number[name]) end
  return wire.bytes(1, table.concat(list))
end
function M.int(v) return wire.int(3, v) end
function M.tensor(t)
  local dims = {}
  for i, d in ipairs(t.shape) do dims[i] = wire.bytes(2, wire.int(1, d)) end
  return wire.bytes(8, wire.int(1, dtypes.number[t.dtype]) .. wire.bytes(2, table.concat(dims))
                    .. wire.bytes(4, core.tensor_bytes(t)))
end

local schemas = {
  value = { [1] = { 'list', 'message', 'list' }, [2] = { 's', 'bytes' }, [3] = { 'i', 'int' }, [4] = { 'f', 'float' },
            [5] = { 'b', 'int' }, [6] = { 'type', 'int' } },
  list = { [3] = { 'ints', 'int*' } },
}
--- What attribute `name` of a node is: a string, a number, a boolean, a dtype's name or a list of numbers; `default`
-- where it has none.
function M.attr(node, name, default)
  if not node.attrs[name] then return default end
  local v = wire.message(schemas, 'value', node.attrs[name], broken)
  if v.list then return v.list.ints end
  if v.type then return dtypes.name[v.type] end
  if v.b then return v.b ~= 0 end
  return v.s or v.i or v.f or default
end

-- ---- nodes ----------------------------------------------------------------------------------------------------------
local function read_node(s, at, last)
  local node = { inputs = {}, attrs = {} }
  wire.fields(s, at, last, broken, function(field, _, start, stop)
    local value = s:sub(start, stop)
    if field == NAME then node.name = value
    elseif field == OP then node.op = value
    elseif field == INPUT then table.insert(node.inputs, value)
    elseif field == DEVICE then node.device = value
    elseif field == ATTR then
      local key, raw
      wire.fields(value, 1, #value, broken, function(part, _, from, to)
        if part == 1 then key = value:sub(from, to) elseif part == 2 then raw = value:sub(from, to) end
      end)
      node.attrs[key or ''] = raw or ''
    end
  end)
  return node
end

--- The nodes in a GraphDef's bytes, as a list and by name: { name =, op =, inputs = { 'x:0', '^x' }, attrs = { name =
--- bytes }, device = }; and the other fields of the GraphDef as they are.
function M.read(bytes)
  local list, by_name, rest, at = {}, {}, {}, 1
  wire.fields(bytes, 1, #bytes, broken, function(field, _, start, stop)
    if field == NODE then
      local node = read_node(bytes, start, stop)
      list[#list + 1], by_name[node.name] = node, node
    else
      rest[#rest + 1] = bytes:sub(at, stop)
    end
    at = stop + 1
  end)
  return list, by_name, table.concat(rest)
end

function M.write(list, rest)
  local out = {}
  for i, node in ipairs(list) do
    local parts, keys = { wire.bytes(NAME, node.name), wire.bytes(OP, node.op) }, {}
    for _, input in ipairs(node.inputs) do parts[#parts + 1] = wire.bytes(INPUT, input) end
    if node.device then parts[#parts + 1] = wire.bytes(DEVICE, node.device) end
    for key in pairs(node.attrs) do keys[#keys + 1] = key end
    table.sort(keys)
    for _, key in ipairs(keys) do
      parts[#parts + 1] = wire.bytes(ATTR, wire.bytes(1, key) .. wire.bytes(2, node.attrs[key]))
    end
    out[i] = wire.bytes(NODE, table.concat(parts))
  end
  return table.concat(out) .. rest
end

--- The node's name and the output's index that an input names; index nil: a control input.
function M.source(input)
  if input:sub(1, 1) == '^' then return input:sub(2) end
  local name, index = input:match '^(.*):(%d+)$'
  return name or input, tonumber(index or 0)
end

return M
