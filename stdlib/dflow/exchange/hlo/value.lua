--- What an instruction of an HLO module has as its value while a graph is made of it.
--
-- An array is an Output, or a Spread: a smaller Output that `broadcast` repeats. Elementwise ops take a Spread's small
-- Output, since dflow's ops broadcast by themselves, and everything else the array that it stands for. A tuple is a Lua
-- list of values.
local df = require 'dflow'
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'

local M = {}

local Spread = { __name = 'dflow.hlo.Spread' }
local Tuple = { __name = 'dflow.hlo.Tuple' }

--- small: an Output of rank 0, or of the rank of dims with 1 where it is repeated.
function M.spread(small, dims) return setmetatable({ small = small, dims = dims, dtype = small.dtype }, Spread) end
function M.tuple(list) return setmetatable(list, Tuple) end
function M.is_tuple(v) return getmetatable(v) == Tuple end

--- A list of whole numbers as a constant, also where it is empty.
function M.ints(list, dtype) return df.constant(df.tensor(list, dtype or 'int32', { #list })) end

--- The Output of a value, whole.
function M.whole(v)
  if getmetatable(v) ~= Spread then return v end
  v.full = v.full or df.broadcast_to(v.small, M.ints(v.dims))
  return v.full
end

--- The Output that an elementwise op may take for it.
function M.small(v) return getmetatable(v) == Spread and v.small or v end
function M.is_spread(v) return getmetatable(v) == Spread end

--- The leaves of a value, in order, put at the end of the list.
function M.flatten(v, list)
  if M.is_tuple(v) then for _, part in ipairs(v) do M.flatten(part, list) end
  else list[#list + 1] = v end
  return list
end

--- A value like `v` with these leaves, and how many were taken.
function M.pack(v, leaves, at)
  at = at or 1
  if not M.is_tuple(v) then return leaves[at], at + 1 end
  local out = {}
  for i, part in ipairs(v) do out[i], at = M.pack(part, leaves, at) end
  return M.tuple(out), at
end

--- The numbers of a value that is known while the graph is built, as a flat list; nil otherwise.
function M.known(v)
  local x = M.small(v)
  local t = core.output_constant(x.graph.handle, x.node, x.index)
  if not t then return nil end
  local list = t:list()
  for i, e in ipairs(list) do list[i] = tonumber(e) or e end
  return list
end

-- ---- shapes as lists ------------------------------------------------------------------------------------------------
function M.iota(n, first)
  local list = {}
  for i = 1, n do list[i] = i - 1 + (first or 0) end
  return list
end
function M.product(dims)
  local p = 1
  for _, d in ipairs(dims) do p = p * d end
  return p
end
function M.set(list)
  local s = {}
  for i, v in ipairs(list) do s[v] = i end
  return s
end
function M.same(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do if a[i] ~= b[i] then return false end end
  return true
end
--- dims[k] for each k of the list, counted from 0.
function M.pick(dims, list)
  local out = {}
  for i, k in ipairs(list) do
    out[i] = dims[k + 1] or errors.raise('data_loss', 'this HLO module names the dimension %d of an array of rank %d',
                                         k, #dims)
  end
  return out
end
--- 0 … n - 1 without those of the lists.
function M.others(n, ...)
  local gone, out = {}, {}
  for _, list in ipairs{ ... } do for _, k in ipairs(list) do gone[k] = true end end
  for k = 0, n - 1 do if not gone[k] then out[#out + 1] = k end end
  return out
end
function M.join(...)
  local out = {}
  for _, list in ipairs{ ... } do for _, v in ipairs(list) do out[#out + 1] = v end end
  return out
end

--- x in that order of dimensions; x itself where it is the order that it has.
function M.transpose(x, order)
  if M.same(order, M.iota(#order)) then return x end
  return df.transpose(x, M.ints(order))
end
function M.reshape(x, dims)
  if M.same(x.shape, dims) then return x end
  return df.reshape(x, M.ints(dims))
end

return M
