--- Modules of HLO for specs: those recorded in spec/recordings/hlo, and small ones written from a few words of Lua.
local df = require 'dflow'
local wire = require 'dflow.exchange.wire'
local core = require 'dflow.backend'

local M = {}
local home = debug.getinfo(1, 'S').source:match '^@(.*)hlo%.lua$'

--- The cases of a recording: a list of { name =, hlo = bytes, inputs = Tensors, outputs = Tensors }, by name.
function M.recorded(file)
  local arrays, cases, list = df.load_npz(home .. 'recordings/hlo/' .. file .. '.npz'), {}, {}
  for key, t in pairs(arrays) do
    local name, part, k = key:match '^(.*)/(%a+)(%d*)$'
    local c = cases[name]
    if not c then
      c = { name = name, inputs = {}, outputs = {} }
      cases[name], list[#list + 1] = c, c
    end
    if part == 'hlo' then c.hlo = core.tensor_bytes(t) elseif part == 'in' then c.inputs[k + 1] = t else c.outputs[k + 1] = t end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local types = { bool = 1, int32 = 4, int64 = 5, float32 = 11, tuple = 13, complex64 = 15, uint8 = 6, float8_e5m2 = 19, float8_e4m3fn = 20, int4 = 21 }
local function shape(s)
  local out = wire.int(2, types[s[1]])
  for k = 2, #s do out = out .. wire.int(3, s[k]) end
  return out
end

--- The bytes of a module. computations: a list of lists of instructions { opcode, shape = {dtype, dims…}, operands = numbers in this computation,
-- extra = bytes of further fields }; the last instruction is the root, the last computation the entry. Computations count from 1.
function M.module(computations)
  local out = {}
  for c, list in ipairs(computations) do
    local body = { wire.bytes(1, 'comp' .. c) }
    for k, i in ipairs(list) do
      local fields = { wire.bytes(1, ('%s.%d'):format(i[1], k)), wire.bytes(2, i[1]), wire.bytes(3, shape(i.shape)), wire.int(35, k), i.extra or '' }
      for _, o in ipairs(i.operands or {}) do fields[#fields + 1] = wire.int(36, o) end
      for _, o in ipairs(i.calls or {}) do fields[#fields + 1] = wire.int(38, o) end
      body[#body + 1] = wire.bytes(2, table.concat(fields))
    end
    body[#body + 1] = wire.int(5, c) .. wire.int(6, #list)
    out[c] = wire.bytes(3, table.concat(body))
  end
  return table.concat(out) .. wire.int(6, #computations)
end

--- A few modules of many kinds, for what damages files.
function M.modules()
  local out = {}
  for _, c in ipairs(M.recorded 'jax_ops') do
    if c.name:find '^sort' or c.name:find '^conv_' or c.name:find 'scatter' or c.name == 'scan' or c.name == 'switch' or c.name == 'einsum' then
      out[#out + 1] = c.hlo
    end
  end
  return out
end

return M
