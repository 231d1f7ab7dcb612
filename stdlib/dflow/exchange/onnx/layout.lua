--- Channels last: ONNX has the channels second, dflow's kernels have them last.
--
-- An operator that makes [n, h, w, c] gives the model [n, c, h, w], and the importer remembers which value is the
-- transpose of which. What works on any layout (elementwise operators, Concat, Resize, …) is built on the values with
-- their channels last where there are some. So nodes that transpose are built everywhere and run where something reads
-- them: between two convolutions nothing does.
local df = require 'dflow'
local core = require 'dflow.backend'

local M = {}
local MOST_FOLDED = 16384         -- bytes; the plan computes smaller constants itself (runtime/plan/fold.c)

--- fn(…constants) as one constant where all of them are constants and large: else fn's nodes. Computed now, once.
function M.folded(fn, ...)
  local xs, tensors, bytes = { ... }, {}, 0
  for i, x in ipairs(xs) do
    local t = core.output_constant(x.graph.handle, x.node, x.index)
    if not t then return fn(...) end
    tensors[i], bytes = t, bytes + t.size * 4
  end
  if bytes <= MOST_FOLDED then return fn(...) end
  local g, result = df.Graph(), nil
  g:as_default(function()
    for i, t in ipairs(tensors) do xs[i] = df.constant(t) end
    local y, s = fn((table.unpack or unpack)(xs)), df.Session{ graph = g, threads = 1 }
    result = s:run(y, nil, { tensors = true })
    s:close()
  end)
  return df.constant(result)
end

function M.transpose(x, perm) return M.folded(function(v) return df.transpose(v, perm) end, x) end

--- The axes of [n, c, …] as [n, …, c], or of [n, 1, w, c] where there is one place axis.
local function to_last(rank)
  local perm = { 0 }
  for d = 2, rank - 1 do perm[#perm + 1] = d end
  perm[#perm + 1] = 1
  return perm
end
local function to_second(rank)
  local perm = { 0, rank - 1 }
  for d = 1, rank - 2 do perm[#perm + 1] = d end
  return perm
end

--- The value with its channels last that x is the transpose of; nil: there is none.
function M.twin(n, x)
  local twins = n.importer and n.importer.twins
  return twins and twins[x]
end

--- x [n, c, …] with its channels last: [n, …, c]; of [n, c, w] it is [n, 1, w, c].
function M.last(n, x, rank)
  local known = M.twin(n, x)
  if known then return known end
  return M.transpose(rank == 3 and df.expand_dims(x, 2) or x, to_last(math.max(rank, 4)))
end

--- Back again, remembered.
function M.second(n, y, rank)
  local x = df.transpose(y, to_second(math.max(rank, 4)))
  if rank == 3 then x = df.squeeze(x, { axis = { 2 } }) end
  if n.importer then n.importer.twins[x] = y end
  return x
end

--- Where axis `d` of [n, c, …] is with the channels last.
function M.axis(d, rank)
  if d < 0 then d = d + rank end
  if d == 0 then return 0 end
  if d == 1 then return math.max(rank, 4) - 1 end
  return rank == 3 and 2 or d - 1
end

--- v, which goes with values [n, c, …] of that rank by broadcasting, as it goes with them when their channels are last;
-- nil: not without work at every run.
local function beside(n, v, rank)
  local shape = v.shape
  if not shape then return nil end
  if #shape == 0 then return v end
  if M.twin(n, v) and #shape == rank then return M.twin(n, v) end
  if #shape == rank then return M.last(n, v, rank) end
  if #shape > rank or not core.output_constant(v.graph.handle, v.node, v.index) then return nil end
  local dims = {}
  for _ = 1, rank - #shape do dims[#dims + 1] = 1 end
  for _, d in ipairs(shape) do dims[#dims + 1] = d end
  return M.last({}, df.reshape(v, dims), rank)
end

--- The operator fn, of values that broadcast against each other: on values with their channels last where one of its
-- inputs has such a twin.
function M.elementwise(fn)
  return function(n, ...)
    if not n or not n.importer then return fn(n, ...) end
    local xs, rank = { ... }, nil
    for i = 1, select('#', ...) do
      local x = xs[i]
      if x and M.twin(n, x) then rank = math.max(rank or 0, #x.shape) end
    end
    if not rank or n.opset < 7 then return fn(n, ...) end
    for i = 1, select('#', ...) do
      if xs[i] then
        xs[i] = beside(n, xs[i], rank)
        if not xs[i] then return fn(n, ...) end
      end
    end
    local y = fn(n, (table.unpack or unpack)(xs, 1, select('#', ...)))
    return M.second(n, y, rank)
  end
end

return M
