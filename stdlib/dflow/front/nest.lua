--- Structures: nested tables of Outputs, values, TensorArrays. Flattened in a fixed order: 1, 2, ... and then sorted
-- keys.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local listing = require 'dflow.front.listing'

local M = {}

--- The keys of a table in the fixed order: its list part, then other numbers, then strings.
function M.keys(t)
  local n, keys = #t, {}
  for i = 1, n do keys[i] = i end
  local rest = {}
  for k in pairs(t) do
    local list = type(k) == 'number' and k >= 1 and k <= n and k == math.floor(k)
    if not list then
      if type(k) ~= 'string' and type(k) ~= 'number' then
        errors.bad('a structure has keys that are numbers or strings, not %s', errors.describe(k))
      end
      rest[#rest + 1] = k
    end
  end
  table.sort(rest, function(a, b)
    if type(a) ~= type(b) then return type(a) == 'number' end
    return a < b
  end)
  for i = 1, #rest do keys[n + i] = rest[i] end
  return keys
end

local is_plain = errors.is_data
M.is_plain = is_plain

--- Has a plain table a string key? Then it cannot be a tensor value.
local function has_names(t)
  for k in pairs(t) do
    if type(k) == 'string' then return true end
  end
  return false
end
M.has_names = has_names

--- Is it an object that stands for its fields (a SparseTensor)? Structures enter it as a table, and make one like it of
-- its parts.
local function is_composite(t)
  local mt = getmetatable(t)
  return type(mt) == 'table' and rawget(mt, 'is_composite') == true
end
M.is_composite = is_composite

--- Is it a table whose fields are parts of a structure?
local function is_table(t) return is_plain(t) or is_composite(t) end
M.is_table = is_table

--- The table of parts as an object of the kind of `like`, if that is one.
local function alike(like, out)
  if is_composite(like) then return setmetatable(out, getmetatable(like)) end
  return listing.of(out)
end
M.alike = alike

--- Is the table a structure: does it hold an object (Output, Tensor, Variable, TensorArray, ...) anywhere, or names?
function M.is_structure(t, depth)
  if is_composite(t) then return true end
  if not is_plain(t) or dtypes.is_complex_value(t) then return false end
  depth = errors.deeper(depth)
  for k, v in pairs(t) do
    if type(k) == 'string' then return true end
    if type(v) == 'table' and (not is_plain(v) or M.is_structure(v, depth)) then return true end
  end
  return false
end

--- Calls leaf(v, path) for each leaf in order. A plain table is entered when is_inner(table) says so.
function M.each(v, is_inner, leaf, path, depth)
  if is_table(v) and is_inner(v) then
    depth = errors.deeper(depth)
    for _, k in ipairs(M.keys(v)) do
      M.each(v[k], is_inner, leaf, path and (path .. '.' .. tostring(k)) or tostring(k), depth)
    end
  else
    leaf(v, path)
  end
end

--- A new structure like v with leaf(x, path) in the place of each leaf x.
function M.map(v, is_inner, leaf, path, depth)
  if is_table(v) and is_inner(v) then
    depth = errors.deeper(depth)
    local out = {}
    for _, k in ipairs(M.keys(v)) do
      out[k] = M.map(v[k], is_inner, leaf, path and (path .. '.' .. tostring(k)) or tostring(k), depth)
    end
    return alike(v, out)
  end
  return leaf(v, path)
end

--- Flattens a structure: list of leaves, list of their paths, count.
function M.flatten(v, is_inner)
  local leaves, paths, n = {}, {}, 0
  M.each(v, is_inner or M.is_structure, function(x, path)
    n = n + 1
    leaves[n], paths[n] = x, path
  end)
  return leaves, paths, n
end

--- The inverse: a structure like `like` with the leaves of a flat list.
function M.pack(like, leaves, is_inner)
  local n = 0
  return M.map(like, is_inner or M.is_structure, function()
    n = n + 1
    return leaves[n]
  end)
end

return M
