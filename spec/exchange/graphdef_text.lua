--- Graphs as TensorFlow's text, node by node.
local M = {}

local function value(v)
  if type(v) == 'boolean' then return ('b: %s'):format(v) end
  if type(v) == 'number' then return ('i: %d'):format(v) end
  if type(v) == 'table' then return v[1] end                                   -- as it stands
  return v:find '^DT_' and 'type: ' .. v or ('s: "%s"'):format(v)
end

--- node(name, op, {'input', '^control'}, {attr = value}): strings that begin with DT_ are types, {'shape { }'} is text as it stands.
function M.node(name, op, inputs, attrs)
  local text, keys = { ('node { name: "%s" op: "%s"'):format(name, op) }, {}
  for _, input in ipairs(inputs) do text[#text + 1] = ('input: "%s"'):format(input) end
  for key in pairs(attrs or {}) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do text[#text + 1] = ('attr { key: "%s" value { %s } }'):format(key, value(attrs[key])) end
  return table.concat(text, ' ') .. ' }'
end

return M
